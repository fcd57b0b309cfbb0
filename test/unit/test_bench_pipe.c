/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The bare pipeline: each piece that goes round comes back. */
#include "bench/bench.h"

#include <criterion/criterion.h>
#include <errno.h>

static const struct bench_conf conf = { .core_client = -1, .core_appliance = -1 };

/* Returns the pieces of four runs. */
static uint64_t runs_again(uint64_t size_bytes, uint32_t depth, bool sequential)
{
	struct bench_pipe *p;
	uint64_t ops = 0;

	cr_assert_eq(bench__pipe_create(&p, 4 << 20, size_bytes, depth, sequential, &conf), 0);
	for (int i = 0; i < 4; i++) {
		struct bench_run run = { 0 };

		/* A buffer that is lost in one run is missing in the next: at depth 1 at once. */
		cr_assert_eq(bench_pipe_run(p, 0.02, &run), 0);
		ops += run.ops;
		cr_assert_gt(run.ops, 0);
		cr_assert_eq(run.bytes, run.ops * size_bytes);
		cr_assert_gt(run.ns, 0);
		cr_assert_eq(bench_copy_run(p, 0.001, &run), 0);
		cr_assert_eq(run.ops % depth, 0);
	}
	bench_pipe_destroy(p);
	return ops;
}

Test(bench_pipe, all_buffers_are_there_for_the_next_run)
{
	cr_assert_geq(runs_again(4096, 1, false), 4u);
	cr_assert_geq(runs_again(4096, 33, false), 4u);
}

Test(bench_pipe, pieces_need_not_be_whole_blocks)
{
	cr_assert_geq(runs_again(5000, 3, true), 4u);
	cr_assert_geq(runs_again(1, 2, false), 4u);
}

Test(bench_pipe, refuses_what_makes_no_sense)
{
	struct bench_pipe *p = NULL;

	cr_assert_eq(bench__pipe_create(&p, 1 << 20, 0, 1, false, &conf), -EINVAL);
	cr_assert_eq(bench__pipe_create(&p, 1 << 20, 4096, 0, false, &conf), -EINVAL);
	cr_assert_eq(bench__pipe_create(&p, 1 << 20, 4096, 1025, false, &conf), -EINVAL);
	cr_assert_eq(bench__pipe_create(&p, 1 << 20, 2 << 20, 1, false, &conf), -EINVAL);
	bench_pipe_destroy(p);
}
