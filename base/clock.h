/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The time.  No other file reads the system's clock: all are passed `now_ns`, so that a test can be
 * the clock. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

#define NS_PER_US 1000ull
#define NS_PER_MS 1000000ull
#define NS_PER_S  1000000000ull

/* Nanoseconds that only go forward, from an unknown start: for deadlines and durations. */
uint64_t clock_now_ns(void);

/* Nanoseconds since 1970 UTC, which people can set back: for a file's times, nothing else. */
uint64_t clock_wall_ns(void);

/* Returns the CPU time of this process, including the kernel's work for it. */
uint64_t clock_cpu_ns(void);

#define CLOCK_TEXT 25

/* Prints nanoseconds since 1970 as "2026-11-24T17:52:07.123Z".  Unlike gmtime_r(), it never
 * allocates: a sealed thread may log. */
void clock_print_utc(char out[CLOCK_TEXT], uint64_t wall_ns);

#endif
