/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Accelerator utilisation over a simulated storage, whose latency and bandwidth are known: each
 * result here was computed by hand.  The clock is a number, so nothing waits.
 */
#include "base/num.h"
#include "bench/mlperf/mlperf.h"
#include "bench/mlperf/mlperf_run.h"
#include "bench/target/target_internal.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define MS 1000000ull

/* Serves groups one after the other at a bandwidth, and each takes a latency more, as on a wire. */
static struct sim {
	uint64_t now_ns, free_ns;
	uint64_t latency_ns;
	double ns_per_byte;
	struct target_group *group[256];
	uint64_t due_ns[256];
	uint32_t count;
	uint32_t fail_after; /* groups; 0: never */
	uint32_t begun;
} sim;

static void sim_submit(struct target_session *s, struct target_group *g)
{
	double bytes = 0;

	(void)s;
	for (uint32_t i = 0; i < g->count; i++) {
		g->io[i].status = 0;
		g->io[i].got_bytes = g->io[i].length_bytes;
		bytes += (double)g->io[i].length_bytes;
	}
	if (sim.fail_after && ++sim.begun > sim.fail_after)
		g->io[0].status = -5;
	sim.free_ns = max_u64(sim.free_ns, sim.now_ns) + (uint64_t)(bytes * sim.ns_per_byte);
	sim.group[sim.count] = g;
	sim.due_ns[sim.count++] = sim.free_ns + sim.latency_ns;
}

static void sim_poll(struct target_session *s)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < sim.count; i++) {
		if (sim.due_ns[i] <= sim.now_ns) {
			sim.group[i]->ended = sim.group[i]->count;
			target__group_ended(s, sim.group[i]);
			continue;
		}
		sim.group[kept] = sim.group[i];
		sim.due_ns[kept++] = sim.due_ns[i];
	}
	sim.count = kept;
}

static const struct target__kind sim_kind = {
	.scheme = "sim:", .submit = sim_submit, .poll = sim_poll
};

/* Runs the job from event to event. */
static struct mlperf_figures run(struct mlperf_job *job, uint64_t latency_ns, double bytes_per_s)
{
	struct target target = { .kind = &sim_kind };
	struct target_session session = { .target = &target };
	struct mlperf_figures f;
	struct mlperf_engine *e;
	uint64_t next;

	session.done_last = &session.done_first;
	sim = (struct sim){ .now_ns = MS, .latency_ns = latency_ns, .fail_after = sim.fail_after };
	sim.ns_per_byte = bytes_per_s > 0 ? 1e9 / bytes_per_s : 0;
	job->session = &session;
	cr_assert_eq(mlperf_engine_create(&e, job), 0);
	while ((next = mlperf_turn(e, sim.now_ns)) > 0) {
		for (uint32_t i = 0; i < sim.count; i++)
			next = min_u64(next, sim.due_ns[i]);
		cr_assert_gt(next, sim.now_ns, "nothing would ever happen");
		sim.now_ns = next;
	}
	mlperf_engine_figures(e, &f);
	cr_assert_eq(mlperf_failed(e), sim.fail_after ? -5 : 0);
	mlperf_engine_destroy(e);
	return f;
}

static struct mlperf_dataset dataset;

static struct mlperf_job job_of(uint32_t accelerators, uint64_t compute_ns, uint32_t readers,
				uint32_t prefetch, uint64_t steps)
{
	mlperf_dataset_scale(&dataset, mlperf_find("retinanet"), 1000 * 322957);
	return (struct mlperf_job){ .dataset = &dataset,
				    .accelerators = accelerators,
				    .batch = 10,
				    .compute_ns = compute_ns,
				    .readers = readers,
				    .prefetch = prefetch,
				    .steps = steps,
				    .seed = 1 };
}

/* Batches are there in 1 ms, and a step takes 10: it never waits after the first one. */
Test(bench_mlperf, storage_that_is_fast_enough)
{
	struct mlperf_job job = job_of(1, 10 * MS, 1, 2, 100);
	struct mlperf_figures f = run(&job, MS, 0);

	cr_assert_float_eq(f.au, 1.0, 1e-12);
	cr_assert_eq(f.ns, 1001 * MS, "1 ms, then 100 steps of 10");
	cr_assert_float_eq(f.samples_per_s, 1000 / 1.001, 1e-9);
}

/* One reader, one batch ahead: a batch is asked for when the last one was taken, and comes after
 * 10 ms; computing takes 4. */
Test(bench_mlperf, one_reader_waits_for_each_batch)
{
	struct mlperf_job job = job_of(1, 4 * MS, 1, 1, 1000);

	cr_assert_float_eq(run(&job, 10 * MS, 0).au, 0.4, 1e-12);
}

/* Two readers, each 10 ms a batch: two batches in 10 ms, so the accelerator computes 8 of 10 ms. */
Test(bench_mlperf, readers_read_side_by_side)
{
	struct mlperf_job job = job_of(1, 4 * MS, 2, 1, 1001);

	cr_assert_float_eq(run(&job, 10 * MS, 0).au, 0.8, 0.001);
}

/* 322,957 x 10 bytes a batch at 322,957,000 bytes/s: 10 ms each, however many readers ask: two
 * accelerators that compute 5 ms each get a batch every 20 ms. */
Test(bench_mlperf, bandwidth_is_shared)
{
	struct mlperf_job job = job_of(2, 5 * MS, 4, 2, 2001);
	struct mlperf_figures f = run(&job, 0, 322957000.0);

	cr_assert_float_eq(f.au, 0.25, 0.003);
	cr_assert_float_eq(f.bytes_per_s, 322957000.0, 322957000.0 * 0.003);
	cr_assert_float_eq(f.samples_per_s, 1000, 3);
}

/* The first step is in samples/s and not in the utilisation: a slow start costs nothing there. */
Test(bench_mlperf, the_first_step_is_not_in_the_utilisation)
{
	struct mlperf_job job = job_of(1, 10 * MS, 4, 2, 11);
	struct mlperf_figures f = run(&job, 35 * MS, 0);

	cr_assert_float_eq(f.au, 1.0, 1e-12, "4 readers bring 4 batches in 35 ms, 10 ms each");
	cr_assert_float_eq(f.samples_per_s, 110 / 0.145, 1e-9);
}

/* A batch takes 5 ms, and 4 accelerators compute 10 ms each: half of their time they wait.  Each of
 * them has its first 4 batches before the next one has any, so 4 steps look as if nobody waited. */
Test(bench_mlperf, a_short_run_leaves_out_what_was_read_ahead)
{
	struct mlperf_job job = job_of(4, 10 * MS, 4, 1, 4);

	cr_assert_gt(run(&job, 0, 322957000.0 * 2).au, 0.9);
	job.skip_steps = 5;
	job.steps = 60;
	cr_assert_float_eq(run(&job, 0, 322957000.0 * 2).au, 0.5, 0.03);
}

/* A read that fails ends the run; nothing is left in flight. */
Test(bench_mlperf, a_read_that_fails_ends_the_run)
{
	struct mlperf_job job = job_of(3, MS, 4, 2, 1000);

	sim.fail_after = 50;
	cr_assert_lt(run(&job, MS, 0).steps, 60);
	sim.fail_after = 0;
}

/* Every file once an epoch, each epoch in another order. */
Test(bench_mlperf, an_epoch_has_each_file_once)
{
	struct target_group *g = target_groups_create(1, 10);
	struct mlperf_reader r = { .next_sample = UINT64_MAX };
	struct mlperf_order o;
	uint8_t seen[1000] = { 0 };
	uint64_t first[2] = { 0 };

	mlperf_dataset_scale(&dataset, mlperf_find("retinanet"), 1000 * 322957);
	cr_assert_eq(dataset.files, 1000);
	cr_assert_eq(mlperf_order_create(&o, &dataset, 7), 0);
	for (uint32_t i = 0; i < 200; i++) {
		mlperf_next_batch(&o, &r, 10, g);
		if (i % 100 == 0)
			first[i / 100] = g->io[0].file;
		for (uint32_t j = 0; j < 10; j++)
			seen[g->io[j].file]++;
	}
	for (uint32_t i = 0; i < 1000; i++)
		cr_assert_eq(seen[i], 2, "file %u", i);
	cr_assert_neq(first[0], first[1]);
	mlperf_order_destroy(&o);
	target_groups_destroy(g);
}

static uint64_t batch_bytes(const char *name, uint32_t batch, uint32_t batches, uint32_t *ios)
{
	const struct mlperf_workload *w = mlperf_find(name);
	struct mlperf_reader r = { .next_sample = UINT64_MAX };
	struct target_group *g;
	struct mlperf_order o;
	uint64_t bytes = 0;

	mlperf_dataset_scale(&dataset, w, 1ull << 40);
	g = target_groups_create(1, mlperf_batch_ios(&dataset, batch));
	cr_assert_eq(mlperf_order_create(&o, &dataset, 7), 0);
	*ios = 0;
	for (uint32_t i = 0; i < batches; i++) {
		mlperf_next_batch(&o, &r, batch, g);
		*ios += g->count;
		for (uint32_t j = 0; j < g->count; j++)
			bytes += g->io[j].length_bytes;
	}
	mlperf_order_destroy(&o);
	target_groups_destroy(g);
	return bytes;
}

/* 3 batches of 16,384 rows are 8 row groups of 6,144: 8 x 40 column chunks, 160 bytes a row. */
Test(bench_mlperf, dlrm_reads_40_columns_of_each_row_group)
{
	uint32_t ios;

	cr_assert_eq(batch_bytes("dlrm", 16384, 3, &ios), 8ull * 6144 * 160);
	cr_assert_eq(ios, 8 * 40);
}

Test(bench_mlperf, flux_reads_its_rows_of_each_column)
{
	uint32_t ios;

	cr_assert_eq(batch_bytes("flux", 48, 6, &ios), 288ull * 2164832);
	cr_assert_eq(ios, 6 * 5);
}

/* 400 records in ranges of 256 KiB: 12 + 54 bytes around an image of 338 x 338. */
Test(bench_mlperf, resnet_reads_records_in_ranges)
{
	struct mlperf_shape s;
	uint32_t ios;

	mlperf_shape(mlperf_find("resnet50"), 1251, 0, &s);
	cr_assert_eq(s.rows * s.columns, 338 * 338);
	cr_assert_eq(batch_bytes("resnet50", 400, 1, &ios), 400 * s.record_bytes);
	cr_assert_eq(ios, (400 * s.record_bytes + 262143) / 262144);
}

/* ---- the search ------------------------------------------------------------------------- */

struct feeder {
	uint32_t most, asked;
};

static int feeds_up_to(void *ctx, uint32_t count)
{
	struct feeder *f = ctx;

	f->asked++;
	return count <= f->most;
}

Test(bench_mlperf, the_search_finds_how_many_are_fed_from_any_estimate)
{
	for (uint32_t most = 0; most <= 150; most++) {
		for (uint32_t first = 0; first <= 140; first++) {
			struct feeder f = { .most = most };
			const struct mlperf_search s = { feeds_up_to, &f, 128, first };
			const uint32_t right = most < 128 ? most : 128;
			uint32_t found = 999;

			cr_assert_eq(mlperf_search(&s, &found), 0);
			cr_assert_leq(found, right, "%u of %u, from %u", found, most, first);
			cr_assert_leq(right - found, found / 16, "%u of %u, from %u", found, most,
				      first);
			cr_assert_leq(f.asked, 14, "%u questions: %u from %u", f.asked, most,
				      first);
			if (first > 16 && first <= most && most - first <= first / 8)
				cr_assert_leq(f.asked, 6, "a good estimate: %u from %u", most,
					      first);
		}
	}
}

static int cannot_tell(void *ctx, uint32_t count)
{
	return *(uint32_t *)ctx == count ? -1 : 1;
}

Test(bench_mlperf, a_run_that_fails_ends_the_search)
{
	uint32_t at = 5, found;
	const struct mlperf_search s = { cannot_tell, &at, 128, 2 };

	cr_assert_eq(mlperf_search(&s, &found), 1, "after 2 and 3");
}
