/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The path of a request in the client, over shm: no malloc and no system call.
 *
 * One call is allowed: after some thousand empty polls the fabric looks whether the appliance has
 * hung up (recvmsg).  It answers nothing here, and the rest of that turn is not watched.
 *
 * Memory calls are counted by the seal (base/seal_malloc.c is linked, see test.mk), system calls
 * by the kernel: while `selector` says block, the first one of this thread becomes a SIGSYS.
 */
#define _GNU_SOURCE
#include "test/lib/script_server.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "base/seal.h"
#include "client-lib/weka_client.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_ON           1
#endif

enum { ALLOW = 0, BLOCK = 1 };

static volatile char selector = ALLOW; /* the kernel reads it */
static volatile sig_atomic_t calls;
static volatile sig_atomic_t call_number;
static volatile sig_atomic_t looks; /* whether the appliance has hung up */

static void on_sigsys(int signal, siginfo_t *info, void *context)
{
	ucontext_t *at = context;

	(void)signal;
	selector = ALLOW; /* also for the return from here */
	if (info->si_syscall == SYS_recvmsg) {
		looks = looks + 1;
#if defined(__x86_64__)
		at->uc_mcontext.gregs[REG_RAX] = -EAGAIN;
#else
		at->uc_mcontext.regs[0] = (unsigned long long)-EAGAIN;
#endif
		return;
	}
	calls = calls + 1;
	call_number = info->si_syscall;
}

static bool count_calls(void)
{
	struct sigaction act = { .sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO };

	cr_assert_eq(sigaction(SIGSYS, &act, NULL), 0);
	return prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &selector) == 0;
}

#define DEPTH 8

static struct script server;
static struct weka_client *client;
static struct weka_req reqs[DEPTH];
static struct weka_window windows[DEPTH];
static struct weka_read_item items[DEPTH][64];
static struct weka_put_item put_items[DEPTH];
static struct weka_attr attr;

static int submit(int turn, uint32_t i)
{
	switch (turn % 4) {
	case 0:
		return weka_submit_read(client, &reqs[i], &attr.handle, 4096 * i, 4096,
					&windows[i]);
	case 1:
		return weka_submit_read_batch(client, &reqs[i], items[i], 64, &windows[i]);
	case 2:
		return weka_submit_put(client, &reqs[i], &put_items[i], 1, &windows[i]);
	default:
		return weka_submit_write(client, &reqs[i], &attr.handle, 4096 * i, 1000, 0,
					 &windows[i]);
	}
}

/* Fill the queue and empty it; returns how many requests failed. */
static uint32_t turn_of(int turn)
{
	struct weka_req *done[DEPTH];
	uint32_t i, bad = 0, left = 0;

	for (i = 0; i < DEPTH; i++) {
		if (submit(turn, i) == 0)
			left++;
		else
			bad++;
	}
	while (left > 0) {
		int got = weka_reap(client, done, DEPTH);

		for (i = 0; (int)i < got; i++)
			bad += done[i]->status != 0;
		left -= (uint32_t)got;
	}
	return bad;
}

static void prepare(void)
{
	static char names[DEPTH][8];
	struct weka_key key = { .secret = server.cfg.key.secret };
	uint32_t i, k;

	cr_assert_eq(weka_connect(server.address, &key, NULL, &client), 0, "%s", weka_error(NULL));
	cr_assert_eq(weka_open(client, "f", 0, 0, &attr), 0);
	for (i = 0; i < DEPTH; i++) {
		windows[i].size_bytes = weka_window_bytes(64, 4096);
		cr_assert_eq(weka_lease(client, windows[i].size_bytes, &windows[i].lease), 0);
		memset(windows[i].lease->data, 'h', 4096);
		for (k = 0; k < 64; k++)
			items[i][k] = (struct weka_read_item){ .ref = weka_ref_path("g"),
							       .length_bytes = WEKA_TO_END };
		snprintf(names[i], sizeof(names[i]), "p%u", i);
		put_items[i] = (struct weka_put_item){ .ref = weka_ref_path(names[i]),
						       .size_bytes = 4096 };
	}
}

Test(weka_hot, requests_neither_allocate_nor_call_the_system_nor_log, .timeout = 60)
{
	uint64_t lines;
	uint32_t bad = 0;
	int turn, watched = 0;

	if (SEAL_SANITIZED)
		cr_skip_test("malloc belongs to the sanitizer");
	cr_assert(seal_works());
	if (!count_calls())
		cr_skip_test("this kernel does not tell of system calls");

	script_init(&server);
	script_add(&server, "f", 1 << 20);
	script_add(&server, "g", 4096);
	script_start(&server, "shm");
	prepare();
	bad += turn_of(0);

	lines = log_thread_count();
	seal_thread_count();
	for (turn = 0; watched < 40; turn++) {
		sig_atomic_t looks_before = looks;

		selector = BLOCK;
		bad += turn_of(turn);
		selector = ALLOW;
		watched += looks == looks_before;
	}
	cr_assert_eq(calls, 0, "system call %d", (int)call_number);
	cr_assert_eq(seal_count(), 0);
	cr_assert_eq(log_thread_count(), lines);
	seal_thread_open();
	cr_assert_eq(bad, 0);

	/* And the counters do count. */
	selector = BLOCK;
	(void)getppid();
	selector = ALLOW;
	cr_assert_eq(calls, 1);
	weka_close(client);
	script_destroy(&server);
}
