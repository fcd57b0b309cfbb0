/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Runs of accelerators in real time, and the search for how many a system feeds. */
#ifndef BENCH_MLPERF_MLPERF_RUN_H
#define BENCH_MLPERF_MLPERF_RUN_H

#include "bench/mlperf/mlperf.h"

struct mlperf_plan {
	struct mlperf_job job; /* accelerators, steps and seed are filled in by the calls below */
	double seconds;        /* of a run that never waits                                    */
	double au_floor;
};

/* One run with so many accelerators; 1 after a line on stderr. */
must_check int mlperf_run(const struct mlperf_plan *plan, uint32_t accelerators, uint64_t seed,
			  struct mlperf_figures *out);

/* Answers one question of a search: does it feed `count`?  Below 0: it failed. */
struct mlperf_search {
	int (*feeds)(void *ctx, uint32_t count);
	void *ctx;
	uint32_t most;  /* more are not tried */
	uint32_t first; /* the search begins with this number; 0: with 1 */
};

/* Estimates how many are fed: from the rate of one that never computes.  At least 1. */
must_check int mlperf_estimate(const struct mlperf_plan *plan, uint64_t seed, uint32_t *out);

/* The largest number that is fed, by larger and larger steps from the estimate, then by halves;
 * above 16 it may be too small by a sixteenth.  1 when a question failed. */
must_check int mlperf_search(const struct mlperf_search *s, uint32_t *out);

#endif
