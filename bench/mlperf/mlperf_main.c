/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * weka-bench mlperf WORKLOAD: simulated accelerators that train from a target.
 *
 *   for each target:  make the dataset -> [search: how many are fed?] -> warm-up -> runs
 *
 * By MLPerf's rules: five runs after a warm-up, another seed in each, within 5 % of each other; and
 * the storage learns no seed.  The dataset is scaled down by default, which those rules do not
 * allow for submissions; the scale is printed.
 */
#include "base/clock.h"
#include "base/num.h"
#include "base/version.h"
#include "bench/bench.h"
#include "bench/command.h"
#include "bench/mlperf/mlperf_run.h"
#include "bench/report/args.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES_DEFAULT (1ull << 30)
#define STEPS_BY_RULE 500u
#define THREADS_MAX   64u
#define SEARCH_MOST   4096u

struct conf {
	struct args args;
	const struct mlperf_workload *workload; /* NULL: all */
	enum mlperf_accelerator accelerator;
	bool accelerator_given;
	uint32_t count; /* 0: search */
	uint32_t prefetch;
	bool full; /* the whole dataset */
};

enum { OPT_PREFETCH = 2048, OPT_FULL };

static const struct argp_option options[] = {
	{ "accelerator", 'a', "NAME", 0, "v100, a100, h100 or b200 (the newest that it has)", 0 },
	{ "count", 'c', "N", 0, "simulated accelerators (searched: the most that are fed)", 0 },
	{ "prefetch", OPT_PREFETCH, "N", 0,
	  "batches ahead, shared by the readers of an accelerator (2)", 0 },
	{ "full", OPT_FULL, NULL, 0, "the whole dataset, not scaled", 0 },
	{ NULL, 0, NULL, 0, NULL, 0 },
};

/* ---- one target -------------------------------------------------------------------------- */

struct rig {
	const struct conf *conf;
	const struct mlperf_workload *workload;
	enum mlperf_accelerator accelerator;
	struct target *target;
	struct mlperf_dataset dataset;
	struct mlperf_plan plan;
	uint64_t seed; /* of the next run */
};

static int one_run(struct rig *r, uint32_t count, struct mlperf_figures *out)
{
	if ((r->conf->args.cold || target_is_cold(r->target)) && target_drop_caches(r->target))
		return bench_fail("%s: cannot drop caches", target_name(r->target));
	return mlperf_run(&r->plan, count, r->seed++, out);
}

static int feeds(void *ctx, uint32_t count)
{
	struct rig *r = ctx;
	struct mlperf_figures f;

	if (one_run(r, count, &f))
		return -1;
	if (r->conf->args.json || isatty(2)) /* stdout has other lines, or is read by a program */
		fprintf(stderr, "%s: %u x %s: %.1f %%\n", target_name(r->target), count,
			mlperf_accelerator_name(r->accelerator), 100 * f.au);
	return f.au >= r->workload->au_floor;
}

static double gb(uint64_t bytes)
{
	return (double)bytes / 1e9;
}

/* The size by MLPerf's rule: 500 steps of all accelerators, and five times the client's memory. */
static uint64_t bytes_by_rule(const struct rig *r, uint32_t count)
{
	double steps = r->workload->sample_bytes * r->plan.job.batch * count * STEPS_BY_RULE;
	double memory = 5.0 * (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);

	return (uint64_t)(steps > memory ? steps : memory);
}

static void say_dataset(const struct rig *r)
{
	const struct mlperf_dataset *d = &r->dataset;

	fprintf(r->conf->args.json ? stderr : stdout,
		"# %s: %llu files of %llu samples, %.2f GB: %.3g of the full dataset\n",
		r->workload->name, (unsigned long long)d->files,
		(unsigned long long)d->samples_per_file, gb(d->bytes), d->scale);
	fflush(stdout);
}

static void describe(const struct rig *r, uint32_t target, uint32_t count, struct figure *f,
		     const char *what, const char *unit)
{
	args_figure(&r->conf->args, target, r->target, f);
	snprintf(f->group, sizeof(f->group), "MLPerf %s", r->workload->name);
	snprintf(f->name, sizeof(f->name), "%s, %u x %s: %s", r->workload->name, count,
		 mlperf_accelerator_name(r->accelerator), what);
	snprintf(f->unit, sizeof(f->unit), "%s", unit);
	snprintf(f->note, sizeof(f->note), "%.2f GB, scale %.3g", gb(r->dataset.bytes),
		 r->dataset.scale);
	if (r->dataset.bytes < bytes_by_rule(r, count))
		snprintf(f->note + strlen(f->note), sizeof(f->note) - strlen(f->note),
			 " (a submission needs %.0f GB)", gb(bytes_by_rule(r, count)));
}

static void add_note(struct figure *f, const char *text)
{
	size_t at = strlen(f->note);

	snprintf(f->note + at, sizeof(f->note) - at, "%s%s", at ? "; " : "", text);
}

/* The figures of a number of accelerators. */
struct measured {
	struct figure au, rate, bandwidth;
};

static bool is_held(const struct rig *r, const struct measured *m)
{
	return figure_median(&m->au) >= 100 * r->workload->au_floor;
}

/* Warm-up, runs, figures. */
static int measure(struct rig *r, uint32_t target, uint32_t count, struct measured *m)
{
	const struct args *a = &r->conf->args;
	struct mlperf_figures run;
	struct figure_cpu cpu;

	describe(r, target, count, &m->au, "AU", "%");
	describe(r, target, count, &m->rate, "rate", "samples/s");
	describe(r, target, count, &m->bandwidth, "bandwidth", "B/s");
	m->rate.note[0] = m->bandwidth.note[0] = '\0';
	if (one_run(r, count, &run))
		return 1;
	figure_cpu_begin(&cpu, args_pid(a, target, r->target));
	for (uint32_t i = 0; i < a->runs; i++) {
		if (one_run(r, count, &run))
			return 1;
		m->au.value[m->au.count++] = 100 * run.au;
		m->rate.value[m->rate.count++] = run.samples_per_s;
		m->bandwidth.value[m->bandwidth.count++] = run.bytes_per_s;
	}
	figure_cpu_end(&cpu, &m->au);
	figure_cpu_end(&cpu, &m->rate);
	figure_cpu_end(&cpu, &m->bandwidth);
	add_note(&m->au, is_held(r, m) ? "the floor is held" : "below the floor");
	if (figure_spread(&m->rate) > 0.05)
		add_note(&m->rate, "runs differ by more than 5 %");
	return 0;
}

static void print_measured(const struct rig *r, const struct measured *m)
{
	figure_print(&m->au, r->conf->args.json, stdout);
	figure_print(&m->rate, r->conf->args.json, stdout);
	figure_print(&m->bandwidth, r->conf->args.json, stdout);
}

/* The search asks with one short run; the runs that count may say no: then fewer. */
static int search(struct rig *r, uint32_t target, struct measured *m)
{
	struct mlperf_search s = { feeds, r, SEARCH_MOST, 0 };
	struct figure f;
	uint32_t count;

	if (mlperf_estimate(&r->plan, r->seed++, &s.first) || mlperf_search(&s, &count))
		return 1;
	for (; count > 0; count -= 1 + count / 8) {
		if (measure(r, target, count, m))
			return 1;
		if (is_held(r, m))
			break;
	}
	if (count > 0)
		print_measured(r, m);
	describe(r, target, count, &f, "fed", "accelerators");
	snprintf(f.name, sizeof(f.name), "%s: %s fed", r->workload->name,
		 mlperf_accelerator_name(r->accelerator));
	f.value[0] = count;
	f.count = 1;
	figure_print(&f, r->conf->args.json, stdout);
	return 0;
}

static int measure_or_search(struct rig *r, uint32_t target)
{
	struct measured *m = calloc(1, sizeof(*m));
	int err;

	if (!m)
		return bench_fail("out of memory");
	if (!r->conf->count) {
		err = search(r, target, m);
	} else {
		err = measure(r, target, r->conf->count, m);
		if (!err)
			print_measured(r, m);
	}
	free(m);
	return err;
}

static int with_session(struct rig *r, uint32_t target)
{
	const struct mlperf_workload *w = r->workload;
	const uint32_t prefetch = r->conf->prefetch ? r->conf->prefetch : w->prefetch;
	uint64_t bytes = r->conf->args.bytes ? r->conf->args.bytes : BYTES_DEFAULT;
	struct target_session *s;
	int err;

	if (target_session_open(r->target, &s))
		return 1;
	mlperf_dataset_scale(&r->dataset, w, r->conf->full ? UINT64_MAX : bytes);
	say_dataset(r);
	r->plan = (struct mlperf_plan){
		.job = { .dataset = &r->dataset,
			 .session = s,
			 .batch = w->on[r->accelerator].batch,
			 .compute_ns = (uint64_t)(w->on[r->accelerator].compute_s * 1e9),
			 .readers = w->read_threads,
			 .prefetch = (prefetch + w->read_threads - 1) / w->read_threads },
		.seconds = r->conf->args.seconds > 0 ? r->conf->args.seconds : 5,
		.au_floor = w->au_floor,
	};
	err = mlperf_dataset_make(&r->dataset, s);
	if (!err)
		err = measure_or_search(r, target);
	target_session_close(s);
	return err;
}

static int one_target(const struct conf *conf, const struct mlperf_workload *w,
		      enum mlperf_accelerator accelerator, uint32_t target)
{
	struct rig r = {
		.conf = conf, .workload = w, .accelerator = accelerator, .seed = conf->args.seed
	};
	int err;

	if (args_open(&conf->args, target, &r.target))
		return 1;
	err = with_session(&r, target);
	target_close(r.target);
	return err;
}

/* ---- the command ---------------------------------------------------------------------- */

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct conf *c = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &c->args;
		return 0;
	case 'a':
		c->accelerator = mlperf_find_accelerator(arg);
		c->accelerator_given = true;
		if (c->accelerator == MLPERF_ACCELERATORS)
			argp_error(state, "'%s' is none of v100, a100, h100, b200", arg);
		return 0;
	case 'c':
		c->count = (uint32_t)args_number(state, arg, 1, SEARCH_MOST);
		return 0;
	case OPT_PREFETCH:
		c->prefetch = (uint32_t)args_number(state, arg, 1, 64);
		return 0;
	case OPT_FULL:
		c->full = true;
		return 0;
	case ARGP_KEY_ARG:
		c->workload = mlperf_find(arg);
		if (!c->workload && strcmp(arg, "all") != 0)
			argp_error(state,
				   "'%s' is no workload; unet3d, resnet50, cosmoflow, bert, "
				   "retinanet, flux, dlrm or all",
				   arg);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "name a workload, or all");
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "WORKLOAD",
	.doc = "Train simulated accelerators from a storage system, by the constants and rules of "
	       "MLPerf Storage.  WORKLOAD is unet3d, resnet50, cosmoflow, bert, retinanet, flux, "
	       "dlrm, or all.",
	.children = args_children,
};

/* The newest accelerator that the workload has, or the one that was asked for. */
static int accelerator_of(const struct conf *c, const struct mlperf_workload *w,
			  enum mlperf_accelerator *out)
{
	if (c->accelerator_given && w->on[c->accelerator].batch == 0)
		return -1;
	*out = c->accelerator;
	for (uint32_t a = 0; a < MLPERF_ACCELERATORS && !c->accelerator_given; a++)
		if (w->on[a].batch)
			*out = a;
	return 0;
}

int command_mlperf(int argc, char **argv)
{
	struct conf c = { .workload = NULL };
	int failed = 0;

	args_parse(&c.args, &argp, argc, argv, &c);
	if (c.args.options.threads == 0)
		c.args.options.threads = THREADS_MAX;
	for (uint32_t i = 0; i < mlperf_workload_count && !bench_interrupted(); i++) {
		const struct mlperf_workload *w = &mlperf_workloads[i];
		enum mlperf_accelerator a;

		if (c.workload && c.workload != w)
			continue;
		if (accelerator_of(&c, w, &a)) {
			if (c.workload)
				return bench_fail("%s has no %s", w->name,
						  mlperf_accelerator_name(c.accelerator));
			continue;
		}
		for (uint32_t t = 0; t < c.args.target_count && !bench_interrupted(); t++) {
			if (one_target(&c, w, a, t) == 0)
				continue;
			args_leave_out(&c.args, t);
			failed = 1;
		}
	}
	return failed || bench_interrupted();
}
