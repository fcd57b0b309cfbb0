/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The engine with the real clock. */
#include "bench/mlperf/mlperf_run.h"
#include "base/clock.h"
#include "base/num.h"
#include "bench/bench.h"

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

int mlperf_search(const struct mlperf_search *s, uint32_t *out)
{
	uint32_t low = 0, high = 1; /* low is fed; high is not, from the second loop on */
	int fed = 1;

	while (fed > 0 && high <= s->most) {
		fed = s->feeds(s->ctx, high);
		if (fed > 0) {
			low = high;
			high *= 2;
		}
	}
	high = min_u32(high, s->most + 1);
	while (fed >= 0 && high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		fed = s->feeds(s->ctx, middle);
		if (fed > 0)
			low = middle;
		else if (fed == 0)
			high = middle;
	}
	*out = low;
	return fed < 0 ? 1 : 0;
}
