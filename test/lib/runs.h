/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * How many seeds a test tries: all, but in `make test` a quarter of them, since each finds the same
 * each time.
 */
#ifndef TEST_RUNS_H
#define TEST_RUNS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* One of so many is tried. */
static inline uint32_t test_step(void)
{
	const char *length = getenv("TEST_LENGTH");

	return length && strcmp(length, "short") == 0 ? 4 : 1;
}

/* Of n that the longer tests try; at least one. */
static inline uint64_t test_runs(uint64_t n)
{
	return (n + test_step() - 1) / test_step();
}

#endif
