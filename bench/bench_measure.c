/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * One measurement:
 *
 *   warm-up   work  pipe  copy  posix      not counted: caches, page tables, clocks
 *   round 1   work  pipe  copy  posix      ratio = work / neighbour
 *   round 2   work  pipe  copy  posix      ...
 *
 * The parts of a comparison run half as long: they have nothing to settle.  How often our thread
 * was made to yield its processor is reported: a figure taken beside other work does not count.
 */
#define _GNU_SOURCE
#include "bench/bench.h"

#include <stdlib.h>
#include <sys/resource.h>

static uint64_t preemptions(void)
{
	struct rusage usage = { 0 };

	(void)getrusage(RUSAGE_THREAD, &usage);
	return (uint64_t)usage.ru_nivcsw;
}

/* One pass over all parts; the rates of each in rate[].  hist NULL: a warm-up. */
static int one_round(const struct bench_part part[BENCH_ROLES], double seconds,
		     struct bench_result *r, struct stat_hist *hist, double rate[BENCH_ROLES],
		     double *bytes_per_s)
{
	for (uint32_t role = 0; role < BENCH_ROLES; role++) {
		struct bench_run run = { .hist = role == BENCH_WORK ? hist : NULL };
		int err;

		rate[role] = 0;
		if (!part[role].run)
			continue;
		err = part[role].run(part[role].ctx, role == BENCH_WORK ? seconds : seconds / 2,
				     &run);
		if (bench_interrupted())
			return bench_fail("interrupted");
		if (err)
			return err;
		if (run.ops == 0 || run.ns == 0)
			return bench_fail("nothing was done in %.2f s: --seconds is too short",
					  seconds);
		rate[role] = bench_rate(&run);
		if (role != BENCH_WORK)
			continue;
		*bytes_per_s = (double)run.bytes * 1e9 / (double)run.ns;
		if (hist) { /* a round that counts */
			r->ops += run.ops;
			r->instructions += run.instructions;
			r->cycles += run.cycles;
		}
	}
	return 0;
}

int bench_measure(const struct bench_conf *conf, const char *workload, const char *transport,
		  const struct bench_part part[BENCH_ROLES])
{
	struct bench_result *r = calloc(1, sizeof(*r));
	double rate[BENCH_ROLES], ignored;
	uint64_t before;
	int err;

	if (!r)
		return bench_fail("out of memory");
	ASSERT(conf->runs > 0 && conf->runs <= BENCH_RUNS_MAX);
	ASSERT(part[BENCH_WORK].run);
	*r = (struct bench_result){
		.conf = conf, .workload = workload, .transport = transport, .runs = conf->runs
	};
	stat_hist_reset(&r->hist);
	err = one_round(part, conf->seconds / 2, r, NULL, rate, &ignored);
	before = preemptions();
	for (uint32_t i = 0; !err && i < conf->runs; i++) {
		err = one_round(part, conf->seconds, r, &r->hist, rate, &r->bytes_per_s[i]);
		r->ops_per_s[i] = rate[BENCH_WORK];
		for (uint32_t role = BENCH_WORK + 1; !err && role < BENCH_ROLES; role++)
			r->ratio[role][i] = rate[role] > 0 ? rate[BENCH_WORK] / rate[role] : 0;
	}
	r->preempted = preemptions() - before;
	if (!err)
		bench_report(r);
	free(r);
	return err;
}
