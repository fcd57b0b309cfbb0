/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "base/clock.h"
#include "base/assert.h"

#include <stdio.h>
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

/* Counts years from March: a leap day is then the last day of its year, and months follow a
 * formula.  719468 is the number of days from March 1 of year 0 to 1970; 400 years have 146097. */
void clock_print_utc(char out[CLOCK_TEXT], uint64_t wall_ns)
{
	const uint64_t ms = wall_ns / NS_PER_MS, s = ms / 1000;
	const uint64_t day = s / 86400 + 719468, of_era = day % 146097;
	const uint64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	const uint64_t of_year = of_era - (365 * year + year / 4 - year / 100);
	const uint64_t month = (5 * of_year + 2) / 153; /* 0: March */

	snprintf(out, CLOCK_TEXT, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ",
		 (unsigned)(year + day / 146097 * 400 + (month >= 10)) % 10000,
		 (unsigned)(month < 10 ? month + 3 : month - 9) % 100,
		 (unsigned)(of_year - (153 * month + 2) / 5 + 1) % 100, (unsigned)(s / 3600 % 24),
		 (unsigned)(s / 60 % 60), (unsigned)(s % 60), (unsigned)(ms % 1000));
}
