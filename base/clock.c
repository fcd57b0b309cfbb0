/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "base/clock.h"
#include "base/assert.h"

#include <time.h>

static uint64_t now_ns(clockid_t id)
{
	struct timespec t;
	int err = clock_gettime(id, &t);

	ASSERT(err == 0); /* these clocks always exist */
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

uint64_t clock_now_ns(void)
{
	return now_ns(CLOCK_MONOTONIC);
}

uint64_t clock_wall_ns(void)
{
	return now_ns(CLOCK_REALTIME);
}

uint64_t clock_cpu_ns(void)
{
	return now_ns(CLOCK_PROCESS_CPUTIME_ID);
}
