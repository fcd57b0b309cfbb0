/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "bench/bench.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>

void bench_pin(int core)
{
	cpu_set_t set;

	if (core < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET((size_t)core, &set);
	if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set) != 0)
		fprintf(stderr, "weka-bench: cannot pin to processor %d; going on unpinned\n",
			core);
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
