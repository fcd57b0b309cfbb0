/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Shares of several sessions: for bench_fair.c and its test. */
#ifndef BENCH_FAIR_H
#define BENCH_FAIR_H

#include <stdint.h>

struct bench__shares {
	uint64_t all;
	double mean;
	double least, most; /* over the mean                       */
	double worst;       /* how far off the mean, whichever way */
};

void bench__shares(const uint64_t *had, uint32_t count, struct bench__shares *out);

#endif
