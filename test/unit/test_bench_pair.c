/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The bare pair: every reply comes back, checked, in each shape, and a run leaves nothing over. */
#include "bench/bench.h"
#include "bench/bench_pair.h"

#include <criterion/criterion.h>
#include <errno.h>

static const struct bench_conf conf = { .core_client = -1, .core_appliance = -1 };
static struct bench_pipe *pipe_;

static void setup(void)
{
	cr_assert_eq(bench__pipe_create(&pipe_, 8 << 20, 4096, 1, false, &conf), 0);
}

static void teardown(void)
{
	bench_pipe_destroy(pipe_);
}

TestSuite(bench_pair, .init = setup, .fini = teardown, .timeout = 60);

/* Returns the operations of three runs. */
static uint64_t runs_again(struct bench_pair_shape shape)
{
	uint64_t items = shape.items ? shape.items : 1, ops = 0;
	struct bench_pair *p;

	cr_assert_eq(bench_pair_create(&p, pipe_, &shape, &conf), 0);
	for (int i = 0; i < 3; i++) {
		struct stat_hist *hist = calloc(1, sizeof(*hist));
		struct bench_run run = { .hist = hist };

		stat_hist_reset(hist);
		/* Bytes that the last run left in a socket would be a wrong checksum, or hang,
		 * here. */
		cr_assert_eq(bench_pair_run(p, 0.02, &run), 0);
		ops += run.ops;
		cr_assert_geq(run.ops, items);
		cr_assert_eq(run.ops % items, 0);
		cr_assert_eq(run.bytes, run.ops * shape.item_bytes);
		cr_assert_eq(stat_hist_count(hist), run.ops / items);
		free(hist);
	}
	bench_pair_destroy(p);
	return ops;
}

Test(bench_pair, small_pieces_are_received_in_bulk)
{
	cr_assert_geq(runs_again((struct bench_pair_shape){ 64, 1, 4096, 32, 1, false }), 3u * 1);
	cr_assert_geq(runs_again((struct bench_pair_shape){ 64, 1, 64, 1, 1, true }), 3u * 1);
}

Test(bench_pair, large_ones_straight_into_their_place)
{
	cr_assert_geq(runs_again((struct bench_pair_shape){ 64, 1, 128 << 10, 8, 1, true }),
		      3u * 1);
	cr_assert_geq(runs_again((struct bench_pair_shape){ 13000, 256, 4096, 4, 1, false }),
		      3u * 256);
}

Test(bench_pair, replies_may_carry_nothing)
{
	cr_assert_geq(runs_again((struct bench_pair_shape){ 64, 0, 0, 16, 1, false }), 3u * 1);
}

Test(bench_pair, many_connections_are_served_by_turns)
{
	cr_assert_geq(runs_again((struct bench_pair_shape){ 64, 1, 4096, 2, 70, false }), 3u * 1);
	cr_assert_geq(runs_again((struct bench_pair_shape){ 64, 1, 32 << 10, 2, 3, false }),
		      3u * 1);
}

static int refusal_of(struct bench_pair_shape shape)
{
	struct bench_pair *p;
	int err = bench_pair_create(&p, pipe_, &shape, &conf);

	bench_pair_destroy(p);
	return err;
}

Test(bench_pair, refuses_what_makes_no_sense)
{
	cr_assert_eq(refusal_of((struct bench_pair_shape){ 64, 1, 4096, 0, 1, false }), -EINVAL);
	cr_assert_eq(refusal_of((struct bench_pair_shape){ 64, 1, 4096, 1, 0, false }), -EINVAL);
	cr_assert_eq(refusal_of((struct bench_pair_shape){ 64, 1, 4096, 1, 257, false }), -EINVAL);
	cr_assert_eq(refusal_of((struct bench_pair_shape){ 0, 1, 4096, 1, 1, false }), -EINVAL);
	cr_assert_eq(refusal_of((struct bench_pair_shape){ 64, 1, 5000, 1, 1, false }), -EINVAL);
	cr_assert_eq(refusal_of((struct bench_pair_shape){ 64, 1, 16 << 20, 1, 1, false }),
		     -EINVAL);
	cr_assert_eq(refusal_of((struct bench_pair_shape){ 64, 0, 4096, 1, 1, false }), -EINVAL);
}
