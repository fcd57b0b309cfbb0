/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The engine with the real clock. */
#include "bench/mlperf/mlperf_run.h"
#include "base/clock.h"
#include "base/num.h"
#include "bench/bench.h"

#include <math.h>
#include <string.h>

#define NAP_NS      (NS_PER_S / 20) /* then it looks whether somebody interrupted */
#define STEPS_LEAST 6u
#define STEPS_LONG  500u /* from there on only the first step is left out, as MLPerf does */
#define PATIENCE    3    /* a run ends after so many times what it takes at the floor */

static uint64_t steps_of(const struct mlperf_plan *plan)
{
	double steps = plan->seconds * 1e9 / (double)plan->job.compute_ns;
	uint64_t ahead = (uint64_t)plan->job.readers * plan->job.prefetch;

	/* Enough steps that most batches are read while accelerators compute. */
	return max_u64((uint64_t)steps, max_u64(STEPS_LEAST, 3 * ahead));
}

/* When a run is given up: its utilisation is far below the floor then. */
static uint64_t patience_ns(const struct mlperf_job *job, double au_floor)
{
	double ns = (double)job->compute_ns * (double)job->steps / au_floor;

	return (uint64_t)(ns * PATIENCE) + NS_PER_S;
}

int mlperf_run(const struct mlperf_plan *plan, uint32_t accelerators, uint64_t seed,
	       struct mlperf_figures *out)
{
	struct mlperf_job job = plan->job;
	struct mlperf_engine *e;
	uint64_t now, next, give_up;

	job.accelerators = accelerators;
	job.seed = seed;
	job.steps = steps_of(plan);
	job.skip_steps = job.steps < STEPS_LONG ? 1 + (uint64_t)job.readers * job.prefetch : 1;
	if (mlperf_engine_create(&e, &job))
		return 1;
	now = clock_now_ns();
	give_up = now + patience_ns(&job, plan->au_floor);
	while ((next = mlperf_turn(e, now)) > 0) {
		if (now > give_up || bench_interrupted())
			mlperf_stop(e);
		if (next > now)
			target_wait(job.session, min_u64(next - now, NAP_NS));
		now = clock_now_ns();
	}
	mlperf_engine_figures(e, out);
	now = (uint64_t)-mlperf_failed(e);
	mlperf_engine_destroy(e);
	if (now)
		return bench_fail("a read failed: %s", strerror((int)now));
	return bench_interrupted() ? bench_fail("interrupted") : 0;
}

int mlperf_estimate(const struct mlperf_plan *plan, uint64_t seed, uint32_t *out)
{
	const double compute_s = (double)plan->job.compute_ns / 1e9;
	struct mlperf_plan bare = *plan;
	struct mlperf_figures run;
	double each;

	ASSERT(compute_s > 0 && plan->au_floor > 0);
	bare.job.compute_ns = 1;
	bare.seconds = 0; /* as few steps as there may be */
	if (mlperf_run(&bare, 1, seed, &run))
		return 1;
	each = plan->job.batch * plan->au_floor /
	       compute_s; /* samples that one needs in a second */
	*out = run.samples_per_s < each ? 1 : (uint32_t)fmin(run.samples_per_s / each, 1e6);
	return 0;
}

/* The next number that is asked for: half way when both ends are known, else a step beyond the one
 * that is; 0: the answer is near enough. */
static uint32_t next_count(uint32_t low, uint32_t high, uint32_t step)
{
	if (high == UINT32_MAX)
		return low + step;
	if (high - low <= 1 + low / 16)
		return 0;
	return low > 0 || step >= high ? low + (high - low) / 2 : high - step;
}

int mlperf_search(const struct mlperf_search *s, uint32_t *out)
{
	uint32_t low = 0, high = UINT32_MAX; /* low is fed; high is not, UINT32_MAX: not known */
	uint32_t count = max_u32(min_u32(s->first, s->most), 1), step = max_u32(count / 8, 1);

	while (count > 0) {
		const int fed = s->feeds(s->ctx, count);

		ASSERT(count > low && count < high);
		if (fed < 0)
			return 1;
		if (fed)
			low = count;
		else
			high = count;
		if (low == s->most)
			break;
		count = next_count(low, high, step);
		count = min_u32(count, s->most);
		step *= 2;
	}
	*out = low;
	return 0;
}
