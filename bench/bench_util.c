/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Pinning, error lines, and signals: the first one only asks us to end. */
#define _GNU_SOURCE
#include "bench/bench.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic bool interrupted; /* lock-free, so a signal handler may store to it */

static void note_signal(int sig)
{
	(void)sig;
	atomic_store_explicit(&interrupted, true, memory_order_relaxed);
}

void bench_catch_signals(void)
{
	/* No SA_RESTART: waiting calls return with EINTR, and their callers see the flag. */
	struct sigaction action = { .sa_handler = note_signal, .sa_flags = (int)SA_RESETHAND };

	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
}

bool bench_interrupted(void)
{
	return atomic_load_explicit(&interrupted, memory_order_relaxed);
}

/* The processors that the thread could use before it was pinned. */
static _Thread_local cpu_set_t before;
static _Thread_local bool is_pinned;

void bench_pin(int core)
{
	cpu_set_t set;

	if (core < 0)
		return;
	if (!is_pinned)
		is_pinned = pthread_getaffinity_np(pthread_self(), sizeof(before), &before) == 0;
	CPU_ZERO(&set);
	CPU_SET((size_t)core, &set);
	if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set) != 0)
		fprintf(stderr, "weka-bench: cannot pin to processor %d; going on unpinned\n",
			core);
}

void bench_unpin(void)
{
	if (is_pinned)
		(void)pthread_setaffinity_np(pthread_self(), sizeof(before), &before);
	is_pinned = false;
}

int bench_fail(const char *fmt, ...)
{
	va_list ap;

	fputs("weka-bench: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return 1;
}

uint64_t bench_field(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}
