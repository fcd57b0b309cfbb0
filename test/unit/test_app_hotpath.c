/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Nothing on the hot path calls the system, allocates, locks or logs: from weka_submit to a
 * doorbell and back, over shm with a memory drive.  Counted, on both threads: system calls by
 * the kernel's syscall user dispatch (a switch in memory turns each into SIGSYS), memory calls
 * by the malloc seal, locks by standing before pthread_mutex_lock.
 *
 * The counters are shown to count before they are believed.
 */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "appliance/core/app_core.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/seal.h"
#include "client-lib/client_internal.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_OFF          0
#define PR_SYS_DISPATCH_ON           1
#endif

/* ---- the counters ------------------------------------------------------------------- */

static __thread volatile char selector; /* 1: this thread's system calls become SIGSYS */
static __thread uint64_t syscalls;
static __thread int syscall_number; /* of the one that was counted */
static __thread uint64_t locks;

static void on_sigsys(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;

	(void)sig;
	syscalls++;
	syscall_number = info->si_syscall;
	/* It was not done: as if there was nothing to be had. */
#if defined(__x86_64__)
	u->uc_mcontext.gregs[REG_RAX] = -EAGAIN;
#elif defined(__aarch64__)
	u->uc_mcontext.regs[0] = (unsigned long long)-EAGAIN;
#else
#error "port: a system call's result"
#endif
	/* The handler's own return is a system call: from here on they pass, one was enough. */
	selector = 0;
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	static int (*real)(pthread_mutex_t *);

	if (!real)
		real = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
	locks++;
	return real(mutex);
}

static bool count_begin(void)
{
	struct sigaction sa = { .sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO };

	sigaction(SIGSYS, &sa, NULL);
	if (prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &selector) != 0)
		return false;
	syscalls = locks = 0;
	seal_thread_count();
	selector = 1;
	return true;
}

struct counted {
	uint64_t syscalls, locks, allocations;
	int number;
};

static struct counted count_end(void)
{
	struct counted c;

	selector = 0;
	c = (struct counted){ syscalls, locks, seal_count(), syscall_number };
	seal_thread_open();
	(void)prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0);
	return c;
}

/* ---- an appliance in a thread ---------------------------------------------------------- */

enum phase { RUN, COUNT, STOP_COUNT, QUIT };

static struct bed {
	struct nvme_dma *dma;
	struct nvme_drive *drive;
	struct fab_server *srv;
	struct app_core *core;
	_Atomic int phase;
	_Atomic bool counting; /* the core has seen COUNT */
	struct counted core_counted;
	pthread_t thread;
	char address[128];
	struct weka_client *client;
	struct weka_attr large;
	char names[256][32];
} bed;

static const uint8_t secret[32] = { 7 };

static void *core_main(void *arg)
{
	bool counting = false;

	(void)arg;
	while (atomic_load(&bed.phase) != QUIT) {
		int phase = atomic_load_explicit(&bed.phase, memory_order_acquire);

		if (!counting)
			(void)app_control_step(bed.srv, bed.dma, clock_now_ns());
		if (phase == COUNT && !counting) {
			counting = count_begin();
			atomic_store(&bed.counting, true);
		}
		if (phase == STOP_COUNT && counting) {
			bed.core_counted = count_end();
			counting = false;
			atomic_store(&bed.counting, false);
		}
		(void)app_core_step(bed.core, clock_now_ns(), clock_wall_ns());
	}
	return NULL;
}

static void setup(void)
{
	struct fab_server_cfg scfg = { .key = { .id = "k" } };
	struct app_core_cfg cfg = { .ndrives = 1,
				    .drive = &bed.drive,
				    .boot = APP_BOOT_FORMAT,
				    .cache_bytes = 16u << 20,
				    .ops_max = 64,
				    .nshards = 4 };
	struct weka_key key = { .id = "k", .secret = secret };
	struct weka_options options = { .size_bytes = sizeof(options),
					.pool_bytes = 8u << 20,
					.spin_ns_max = 1000000000 };
	char why[APP_WHY];

	memcpy(scfg.key.secret, secret, sizeof(secret));
	snprintf(bed.address, sizeof(bed.address), "shm:/tmp/weka-hotpath.%d", (int)getpid());
	cr_assert_eq(nvme_dma_create(&bed.dma), 0);
	cr_assert_eq(nvme_open(&bed.drive, "mem:64M", bed.dma, NULL, why, sizeof(why)), 0);
	cr_assert_eq(fab_server_create(&bed.srv, &scfg), 0);
	cr_assert_eq(fab_server_listen(bed.srv, bed.address, why), 0, "%s", why);
	cfg.dma = bed.dma;
	cfg.srv = bed.srv;
	cr_assert_eq(app_core_create(&bed.core, &cfg, why), 0, "%s", why);
	while (app_core_boot_status(bed.core) == -EAGAIN)
		(void)app_core_step(bed.core, clock_now_ns(), clock_wall_ns());
	cr_assert_eq(app_core_boot_status(bed.core), 0);
	cr_assert_eq(pthread_create(&bed.thread, NULL, core_main, NULL), 0);
	cr_assert_eq(weka_connect(bed.address, &key, &options, &bed.client), 0, "%s",
		     weka_error(NULL));
}

static void fill(void)
{
	uint8_t *bytes = malloc(1 << 20);

	memset(bytes, 0x5a, 1 << 20);
	cr_assert_eq(weka_write_file(bed.client, "large", bytes, 1 << 20, NULL), 0);
	cr_assert_eq(weka_stat(bed.client, "large", &bed.large), 0);
	for (unsigned i = 0; i < ARRAY_LEN(bed.names); i++) {
		snprintf(bed.names[i], sizeof(bed.names[i]), "f%u", i);
		cr_assert_eq(weka_write_file(bed.client, bed.names[i], bytes, 4096, NULL), 0);
	}
	free(bytes);
}

static void teardown(void)
{
	atomic_store(&bed.phase, QUIT);
	pthread_join(bed.thread, NULL);
	weka_close(bed.client);
	(void)unlink(bed.address + strlen("shm:")); /* the server ends with the process */
}

/* ---- the hot path ------------------------------------------------------------------------ */

static struct weka_req reqs[32];
static struct weka_read_item items[256];

/*
 * Between two answers, or of as many turns as the client may do with one look at the clock: the
 * pauses of these add up for it.  The turns before the counted ones are among them.
 */
static uint64_t longest_ns;
static uint64_t answered_ns;
static uint64_t turn_ns[CLIENT_TURNS]; /* when the last ones began */
static uint32_t turn_count;

static void note_turn(void)
{
	uint64_t now = clock_now_ns(), *ns = &turn_ns[turn_count++ % CLIENT_TURNS];

	longest_ns = max_u64(longest_ns, now - *ns);
	*ns = now;
}

static void reap(uint32_t wanted)
{
	struct weka_req *done[32];
	uint64_t now;

	while (wanted > 0) {
		int count;

		note_turn();
		count = weka_reap(bed.client, done, 32);
		for (int i = 0; i < count; i++)
			ASSERT(done[i]->status == 0);
		wanted -= (uint32_t)count;
	}
	now = clock_now_ns();
	longest_ns = max_u64(longest_ns, now - answered_ns);
	answered_ns = now;
}

static void random_reads(struct weka_lease *lease, unsigned rounds)
{
	for (unsigned round = 0; round < rounds; round++) {
		for (unsigned i = 0; i < ARRAY_LEN(reqs); i++) {
			struct weka_window window = { lease, i * 4096ull, 4096 };

			ASSERT(weka_submit_read(bed.client, &reqs[i], &bed.large.handle,
						(round * 32 + i) % 256 * 4096ull, 4096,
						&window) == 0);
		}
		reap(ARRAY_LEN(reqs));
	}
}

static void batch_reads(struct weka_lease *lease, unsigned rounds)
{
	struct weka_window window = { lease, 0, (uint32_t)lease->size_bytes };

	for (unsigned round = 0; round < rounds; round++) {
		for (unsigned i = 0; i < ARRAY_LEN(items); i++) {
			items[i].ref = weka_ref_path(bed.names[i]);
			items[i].length_bytes = WEKA_TO_END;
		}
		ASSERT(weka_submit_read_batch(bed.client, reqs, items, ARRAY_LEN(items), &window) ==
		       0);
		reap(1);
		for (unsigned i = 0; i < ARRAY_LEN(items); i++)
			ASSERT(items[i].status == 0 && items[i].got_bytes == 4096);
	}
}

TestSuite(app_hotpath, .init = setup, .fini = teardown, .timeout = 60);

Test(app_hotpath, the_counters_count)
{
	struct counted c;
	static volatile void *p;

	if (!seal_works())
		cr_skip_test("the malloc seal is off under sanitizers");
	cr_assert(count_begin(), "this kernel has no syscall user dispatch");
	p = malloc(1);
	(void)getppid();
	c = count_end();
	free((void *)p);
	cr_assert_eq(c.syscalls, 1);
	cr_assert_geq(c.allocations, 1);
}

/* Both threads counted over a stretch of reads. */
static void stretch(struct weka_lease *lease, struct counted *mine, struct counted *cores)
{
	atomic_store(&bed.phase, COUNT);
	while (!atomic_load(&bed.counting))
		;
	random_reads(lease, 1);
	longest_ns = 0;
	cr_assert(count_begin());
	random_reads(lease, 60);
	batch_reads(lease, 10);
	*mine = count_end();
	atomic_store(&bed.phase, STOP_COUNT);
	while (atomic_load(&bed.counting))
		;
	*cores = bed.core_counted;
}

/*
 * A client that spins without an answer for 100 ms asks its socket whether the appliance lives: on
 * a machine so busy that this happens the stretch says nothing, and another is tried.
 */
Test(app_hotpath, reads_call_no_system_take_no_memory_and_no_lock)
{
	struct weka_lease *lease;
	struct counted mine, cores;
	unsigned good = 0;

	if (!seal_works())
		cr_skip_test("the malloc seal is off under sanitizers");
	fill();
	cr_assert_eq(weka_lease(bed.client, weka_window_bytes(256, 4096), &lease), 0);
	random_reads(lease, 100);
	batch_reads(lease, 20);
	for (unsigned tries = 0; good < 5; tries++) {
		cr_assert_lt(tries, 200, "no stretch without a pause of 50 ms");
		stretch(lease, &mine, &cores);
		cr_assert_eq(mine.allocations, 0, "the client took memory");
		cr_assert_eq(mine.locks, 0, "the client took a lock");
		cr_assert_eq(cores.allocations, 0, "the core took memory");
		cr_assert_eq(cores.locks, 0, "the core took a lock");
		if (longest_ns > 50 * NS_PER_MS)
			continue;
		cr_assert_eq(mine.syscalls, 0, "the client called the system: %d", mine.number);
		cr_assert_eq(cores.syscalls, 0, "the core called the system: %d", cores.number);
		good++;
	}
}

Test(app_hotpath, payload_of_blocks_is_copied_by_drives_only)
{
	struct weka_lease *lease;
	struct app_core_stat stat;

	fill();
	cr_assert_eq(weka_lease(bed.client, weka_window_bytes(256, 4096), &lease), 0);
	random_reads(lease, 50);
	batch_reads(lease, 10);
	atomic_store(&bed.phase, QUIT);
	pthread_join(bed.thread, NULL);
	app_core_stat(bed.core, &stat);
	cr_assert_geq(stat.read_bytes, 50 * 32 * 4096 + 10 * 256 * 4096);
	cr_assert_eq(stat.payload_copied_bytes, 0);
	atomic_store(&bed.phase, RUN);
	cr_assert_eq(pthread_create(&bed.thread, NULL, core_main, NULL), 0);
}
