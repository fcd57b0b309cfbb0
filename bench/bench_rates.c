/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Workload "rates": how much one core of the appliance and one thread of a client do with many
 * small files of one directory, by name, in batches:
 *
 *   round    create --files  ->  stat  ->  list  ->  unlink --files
 *            all of them         --seconds each      all of them
 *
 * Each round has all four, so that a machine whose speed drifts changes all of them.  Changes are
 * durable when they are answered.  A list's entries come with their attributes, --depth listings of
 * the directory at once.  Each figure is followed by its bar, and by how many rounds reached it.
 */
#include "bench/bench.h"
#include "bench/bench_env.h"
#include "bench/bench_load.h"
#include "bench/bench_scale.h"

#include <stdio.h>
#include <stdlib.h>

enum { RATES = 4 };

static const struct {
	enum scale_phase phase;
	double bar; /* operations a second, of files of 1 KiB over shm on a memory drive */
} rate[RATES] = {
	{ SCALE_CREATE, 200e3 },
	{ SCALE_STAT, 1e6 },
	{ SCALE_LIST, 2e6 },
	{ SCALE_UNLINK, 200e3 },
};

struct rates {
	const struct bench_conf *conf;
	struct bench_env *env;
	struct scale_worker worker;
	struct bench_result result[RATES];
};

static int run_phase(struct rates *r, uint32_t which, struct bench_run *run)
{
	const enum scale_phase phase = rate[which].phase;
	const bool all = phase == SCALE_CREATE || phase == SCALE_UNLINK;

	scale_load_rewind(&r->worker, phase);
	return scale_load_run(&r->worker, phase, all ? BENCH_LOAD_ALL : r->conf->seconds, run);
}

/* Round `number` of those that count; -1: the warm-up. */
static int run_round(struct rates *r, int number)
{
	for (uint32_t i = 0; i < RATES; i++) {
		struct bench_result *result = &r->result[i];
		struct bench_run run = { .hist = number < 0 ? NULL : &result->hist };
		int err = run_phase(r, i, &run);

		if (bench_interrupted())
			return bench_fail("interrupted");
		if (err)
			return err;
		if (run.ops == 0 || run.ns == 0)
			return bench_fail("nothing was done: --seconds is too short");
		if (number < 0)
			continue;
		result->ops += run.ops;
		result->ops_per_s[number] = bench_rate(&run);
	}
	return 0;
}

static void tell_bar(const struct rates *r, uint32_t which)
{
	const struct bench_result *result = &r->result[which];
	uint32_t reached = 0;
	char bar[16];

	if (r->conf->json)
		return;
	for (uint32_t i = 0; i < result->runs; i++)
		reached += result->ops_per_s[i] >= rate[which].bar;
	printf("           bar %s/s: %u of %u rounds\n", bench_human(bar, rate[which].bar), reached,
	       result->runs);
}

/* ---- beginning and end ---------------------------------------------------------------------- */

static int open_dir(struct scale_worker *w)
{
	struct weka_attr attr;

	snprintf(w->path, sizeof(w->path), "/weka-bench.rates");
	if (weka_mkdir(w->client, w->path, 0700) != 0 || weka_stat(w->client, w->path, &attr) != 0)
		return bench_fail("%s: %s", w->path, weka_error(w->client));
	w->dir = attr.dir;
	return 0;
}

static int open_rates(struct rates *r)
{
	struct scale_worker *w = &r->worker;
	struct weka_options o;
	int err = bench_env_open(&r->env, r->conf);

	bench_pin(r->conf->core_client);
	scale_load_options(r->conf, &o);
	*w = (struct scale_worker){ .conf = r->conf, .files = r->conf->files, .workers = 1 };
	w->listings = r->conf->depth;
	if (!err)
		err = bench_env_connect(r->env, 0, &o, &w->client);
	if (!err)
		err = scale_load_open(w);
	for (uint32_t i = 0; i < RATES; i++) {
		r->result[i] = (struct bench_result){ .conf = r->conf,
						      .workload = scale_phase_name[rate[i].phase],
						      .runs = r->conf->runs };
		stat_hist_reset(&r->result[i].hist);
	}
	return err ? err : open_dir(w);
}

static int close_rates(struct rates *r, int err)
{
	if (!err && weka_rmdir(r->worker.client, r->worker.path) != 0)
		err = bench_fail("%s: %s", r->worker.path, weka_error(r->worker.client));
	scale_load_close(&r->worker);
	err |= bench_env_close(r->env);
	free(r);
	return err;
}

int bench_workload_rates(const struct bench_conf *conf)
{
	struct rates *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return bench_fail("out of memory");
	r->conf = conf;
	err = open_rates(r);
	for (int i = -1; !err && i < (int)conf->runs; i++)
		err = run_round(r, i);
	for (uint32_t i = 0; !err && i < RATES; i++) {
		r->result[i].transport = bench_env_transport(r->env, 0);
		bench_report(&r->result[i]);
		tell_bar(r, i);
	}
	return close_rates(r, err);
}
