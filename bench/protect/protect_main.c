/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * weka-bench protect: what protection costs.
 *
 *   healthy     none, mirror, none, mirror, ...        each load, in turn; on memory drives
 *   degraded    none, mirror without one drive, ...    reads, while its rebuild stands still
 *   rebuild     mirror                                 how fast, and what clients see meanwhile
 *
 * Both appliances have the same drives, and one of them works at a time: the other one sleeps.
 */
#include "base/clock.h"
#include "base/num.h"
#include "bench/bench.h"
#include "bench/command.h"
#include "bench/protect/protect.h"
#include "bench/report/args.h"
#include "bench/report/figure.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDES = 2, NONE = 0, MIRROR = 1 };
enum { OPT_DRIVES = 2048, OPT_DRIVE_SIZE, OPT_DIR };

#define SLOW_BYTES   4096 /* a second: hardly any */
#define REBUILD_IN_S 600

static const char *const side_name[SIDES] = { "none", "mirror" };

struct rig {
	struct protect_conf conf;
	struct protect_side *side[SIDES];
	char command[320];
};

static const struct argp_option options[] = {
	{ "drives", OPT_DRIVES, "N", 0, "drives of each appliance (3)", 0 },
	{ "drive-size", OPT_DRIVE_SIZE, "N", 0, "of each (2G)", 0 },
	{ "file-bytes", 'F', "N", 0, "size of the large file (512M)", 0 },
	{ "dir", OPT_DIR, "DIR", 0, "where the drives' files are made (in memory)", 0 },
	{ "seconds", 'S', "N", 0, "length of one run (1)", 0 },
	{ "runs", 'r', "N", 0, "counted runs, after one warm-up (5)", 0 },
	{ "json", 'j', NULL, 0, "one JSON object a line", 0 },
	{ NULL, 0, NULL, 0, NULL, 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct protect_conf *c = &((struct rig *)state->input)->conf;

	switch (key) {
	case OPT_DRIVES:
		c->drives = (uint32_t)args_number(state, arg, 3, BENCH_DRIVES_MAX);
		return 0;
	case OPT_DRIVE_SIZE:
		c->drive_bytes = args_number(state, arg, 64 << 20, 1ull << 44);
		return 0;
	case 'F':
		c->file_bytes = args_number(state, arg, 1 << 20, 1ull << 44);
		return 0;
	case OPT_DIR:
		c->dir = arg;
		return 0;
	case 'S':
		c->seconds = args_real(state, arg, 0.01, 3600);
		return 0;
	case 'r':
		c->runs = (uint32_t)args_number(state, arg, 1, FIGURE_RUNS_MAX);
		return 0;
	case 'j':
		c->json = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.doc = "Measure what protection costs: appliances without it and with two copies, on as "
	       "many drives, in turn; then without one drive, and while it is rebuilt.",
};

/* ---- figures ------------------------------------------------------------------------------ */

static const struct {
	const char *name, *unit;
	bool bytes; /* the unit counts bytes, not operations */
} shown[PROTECT_LOADS] = {
	[PROTECT_READ_RANDOM] = { "at random, 4 KiB", "reads/s", false },
	[PROTECT_READ_ORDER] = { "in order, pieces of 1 MiB", "B/s", true },
	[PROTECT_WRITE] = { "pieces of 1 MiB written, durable", "B/s", true },
	[PROTECT_CREATE] = { "files of 4 KiB created, durable", "files/s", false },
};

static void figure_of(const struct rig *r, struct figure *f, const char *group, const char *name,
		      const char *target, const char *unit)
{
	*f = (struct figure){ .cpu_server = -1 };
	snprintf(f->group, sizeof(f->group), "%s", group);
	snprintf(f->name, sizeof(f->name), "%s", name);
	snprintf(f->target, sizeof(f->target), "%s", target);
	snprintf(f->unit, sizeof(f->unit), "%s", unit);
	snprintf(f->promise, sizeof(f->promise), "durable: each change; %u drives, %s",
		 r->conf.drives,
		 r->conf.dir     ? r->conf.dir
		 : r->conf.files ? "files in memory"
				 : "memory");
	snprintf(f->command, sizeof(f->command), "%s", r->command);
}

static void add(struct figure *f, double value)
{
	ASSERT(f->count < FIGURE_RUNS_MAX);
	f->value[f->count++] = value;
}

static void show(const struct rig *r, struct figure *f, const struct stat_hist *hist)
{
	if (hist && stat_hist_count(hist) > 0) {
		f->p50_ms = (double)stat_hist_percentile(hist, 50) / 1e6;
		f->p99_ms = (double)stat_hist_percentile(hist, 99) / 1e6;
	}
	if (f->count > 0)
		figure_print(f, r->conf.json, stdout);
	fflush(stdout);
}

/* ---- in turn ------------------------------------------------------------------------------ */

/* One load on both, round by round. */
static int compare(struct rig *r, enum protect_load load, const char *group,
		   const char *const target[SIDES])
{
	const bool writes = load == PROTECT_WRITE || load == PROTECT_CREATE;
	struct figure *rate = calloc(SIDES, sizeof(*rate)), *more = calloc(SIDES, sizeof(*more));
	struct stat_hist *hist = calloc(SIDES, sizeof(*hist));
	int err = rate && more && hist ? 0 : bench_fail("out of memory");

	for (uint32_t i = 0; i < SIDES && !err; i++) {
		figure_of(r, &rate[i], group, shown[load].name, target[i], shown[load].unit);
		figure_of(r, &more[i], "Write amplification", shown[load].name, target[i], "times");
		more[i].less = true;
	}
	for (uint32_t n = 0; n <= r->conf.runs && !err; n++)
		for (uint32_t i = 0; i < SIDES && !err; i++) {
			struct bench_run run = { .hist = n ? &hist[i] : NULL };
			double times;

			err = protect_run(r->side[i], load, r->conf.seconds, &run, &times);
			if (err || n == 0)
				continue;
			add(&rate[i], (double)(shown[load].bytes ? run.bytes : run.ops) * 1e9 /
					      (double)max_u64(run.ns, 1));
			add(&more[i], times);
		}
	for (uint32_t i = 0; i < SIDES && !err; i++)
		show(r, &rate[i], &hist[i]);
	for (uint32_t i = 0; i < SIDES && !err && writes; i++)
		show(r, &more[i], NULL);
	free(rate);
	free(more);
	free(hist);
	return err;
}

static int healthy(struct rig *r)
{
	int err = 0;

	for (uint32_t load = 0; load < PROTECT_LOADS && !err; load++)
		err = compare(r, load, "Healthy", side_name);
	return err;
}

static int degraded(struct rig *r)
{
	static const char *const target[SIDES] = { "none, healthy", "mirror, a drive lost" };

	return protect_pace(r->side[MIRROR], SLOW_BYTES) || protect_lose(r->side[MIRROR], 1) ||
	       compare(r, PROTECT_READ_RANDOM, "A drive is lost", target) ||
	       compare(r, PROTECT_READ_ORDER, "A drive is lost", target);
}

/* Random reads until all is copied. */
static int rebuild(struct rig *r)
{
	const uint64_t began = clock_now_ns(), until = began + REBUILD_IN_S * NS_PER_S;
	struct stat_hist *hist = calloc(1, sizeof(*hist));
	struct bench_run all = { 0 };
	struct figure *f = calloc(2, sizeof(*f));
	uint64_t left = 0, done, first = 0;
	bool over = false;
	int err = hist && f ? protect_rebuild(r->side[MIRROR], &first, &done, &over)
			    : bench_fail("out of memory");

	if (!err)
		err = protect_pace(r->side[MIRROR], 0);
	while (!err && !over && clock_now_ns() < until && !bench_interrupted()) {
		struct bench_run run = { .hist = hist };

		err = protect_run(r->side[MIRROR], PROTECT_READ_RANDOM, 0.05, &run, NULL) ||
		      protect_rebuild(r->side[MIRROR], &left, &done, &over);
		all.ops += run.ops;
		all.ns += run.ns;
	}
	if (!err && !over)
		err = bench_fail("the rebuild is not over: %llu bytes are left",
				 (unsigned long long)left);
	if (!err) {
		figure_of(r, &f[0], "Rebuild", "copied, beside random reads", "mirror", "B/s");
		add(&f[0], (double)first * 1e9 / (double)(clock_now_ns() - began));
		show(r, &f[0], NULL);
		figure_of(r, &f[1], "Rebuild", "4 KiB random reads meanwhile", "mirror", "reads/s");
		add(&f[1], (double)all.ops * 1e9 / (double)max_u64(all.ns, 1));
		show(r, &f[1], hist);
	}
	free(hist);
	free(f);
	return err;
}

static int with_a_loss(struct rig *r)
{
	return degraded(r) || rebuild(r);
}

static int on_fresh(struct rig *r, int (*measure)(struct rig *r))
{
	int err = 0;

	for (uint32_t i = 0; i < SIDES && !err; i++)
		err = protect_open(&r->side[i], &r->conf, side_name[i]);
	err = err || measure(r);
	for (uint32_t i = 0; i < SIDES; i++) {
		err |= protect_close(r->side[i]);
		r->side[i] = NULL;
	}
	return err;
}

/* A drive in memory cannot be lost: for that it is a file, which may be in memory, too. */
static int measure(struct rig *r)
{
	r->conf.files = r->conf.dir != NULL;
	if (on_fresh(r, healthy))
		return 1;
	r->conf.files = true;
	return on_fresh(r, with_a_loss);
}

int command_protect(int argc, char **argv)
{
	struct rig r = { .conf = { .drives = 3,
				   .drive_bytes = 2ull << 30,
				   .file_bytes = 512u << 20,
				   .seconds = 1,
				   .runs = 5 } };
	struct figure_head head;
	size_t at = 0;

	argp_parse(&argp, argc, argv, 0, NULL, &r);
	for (int i = 0; i < argc && at < sizeof(r.command); i++)
		at += (size_t)snprintf(r.command + at, sizeof(r.command) - at, "%s%s", i ? " " : "",
				       argv[i]);
	figure_head_now(&head);
	figure_head_print(&head, r.conf.json, stdout);
	return measure(&r);
}
