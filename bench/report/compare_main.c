/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * weka-bench compare: the same loads over several storage systems, in turn.
 *
 *   load 1   round 0 (warm-up)  target 1, target 2, ...
 *            round 1            target 1, target 2, ...       each target once a round: if the
 *            ...                                              machine's speed drifts, all change
 *   load 2   ...
 *
 * A target that cannot be opened, or fails a load, is not measured any more, and that is said.
 */
#include "base/num.h"
#include "bench/bench.h"
#include "bench/command.h"
#include "bench/report/compare.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct conf {
	struct args args;
	bool quick;
	const char *only; /* loads whose group or name holds this; NULL: all */
	struct compare_rig rig[ARGS_TARGETS_MAX];
	struct figure figure[ARGS_TARGETS_MAX];
	struct stat_hist hist[ARGS_TARGETS_MAX];
	double cpu[ARGS_TARGETS_MAX][3]; /* client, server, other; sums of the rounds */
};

enum { OPT_QUICK = 2048, OPT_ONLY, OPT_LOCAL };

static const struct argp_option options[] = {
	{ "quick", OPT_QUICK, NULL, 0, "short runs over small datasets", 0 },
	{ "only", OPT_ONLY, "TEXT", 0, "loads whose group or name holds TEXT", 0 },
	{ "local", OPT_LOCAL, "DIR", 0,
	  "also the first batch after all files were copied to this local directory", 0 },
	{ NULL, 0, NULL, 0, NULL, 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct conf *c = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &c->args;
		return 0;
	case OPT_QUICK:
		c->quick = true;
		return 0;
	case OPT_LOCAL:
		c->args.local = arg;
		return 0;
	case OPT_ONLY:
		c->only = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.doc = "Compare storage systems: large files, small files by name, names, the first batch; "
	       "each --target in turn, in every round.",
	.children = args_children,
};

/* ---- one load -------------------------------------------------------------------------------- */

/* One round of one target. */
static void one(struct conf *c, uint32_t i, const struct compare_load *load, uint32_t round)
{
	struct compare_rig *r = &c->rig[i];
	struct figure_cpu cpu;
	struct figure used;
	double value;
	int err;

	if (r->out || bench_interrupted())
		return;
	if (target_is_cold(r->target) && target_drop_caches(r->target))
		fprintf(stderr, "weka-bench: %s: cannot drop caches\n", target_name(r->target));
	figure_cpu_begin(&cpu, args_pid(&c->args, i, r->target));
	err = load->run(r, load, round, &value, round ? &c->hist[i] : NULL);
	figure_cpu_end(&cpu, &used);
	if (err == -ENOTSUP || bench_interrupted())
		return;
	if (err) {
		fprintf(stderr, "weka-bench: %s failed \"%s\"; it is left out from here on\n",
			c->figure[i].target, load->name);
		r->out = true;
		return;
	}
	if (round == 0)
		return;
	c->figure[i].value[c->figure[i].count++] = value;
	c->cpu[i][0] += used.cpu_client / c->args.runs;
	c->cpu[i][1] += used.cpu_server / c->args.runs;
	c->cpu[i][2] += used.cpu_other / c->args.runs;
}

static void begin_figure(struct conf *c, uint32_t i, const struct compare_load *load)
{
	struct figure *f = &c->figure[i];

	f->count = 0;
	if (c->rig[i].out)
		return;
	args_figure(&c->args, i, c->rig[i].target, f);
	snprintf(f->group, sizeof(f->group), "%s", load->group);
	snprintf(f->name, sizeof(f->name), "%s", load->name);
	snprintf(f->unit, sizeof(f->unit), "%s", load->unit);
	f->less = load->less;
	stat_hist_reset(&c->hist[i]);
	memset(c->cpu[i], 0, sizeof(c->cpu[i]));
}

static void end_figure(struct conf *c, uint32_t i)
{
	struct figure *f = &c->figure[i];

	if (f->count == 0)
		return;
	f->cpu_client = c->cpu[i][0];
	f->cpu_server = args_pid(&c->args, i, c->rig[i].target) ? c->cpu[i][1] : -1;
	f->cpu_other = c->cpu[i][2];
	if (stat_hist_count(&c->hist[i]) > 0) {
		f->p50_ms = (double)stat_hist_percentile(&c->hist[i], 50) / 1e6;
		f->p99_ms = (double)stat_hist_percentile(&c->hist[i], 99) / 1e6;
	}
	figure_print(f, c->args.json, stdout);
}

static void one_load(struct conf *c, const struct compare_load *load)
{
	for (uint32_t i = 0; i < c->args.target_count; i++)
		begin_figure(c, i, load);
	for (uint32_t round = 0; round <= c->args.runs; round++)
		for (uint32_t i = 0; i < c->args.target_count; i++)
			one(c, i, load, round);
	for (uint32_t i = 0; i < c->args.target_count; i++)
		end_figure(c, i);
}

/* All that are asked for, in turn. */
static void all_loads(struct conf *c)
{
	uint32_t wanted = 0, at = 0;

	for (uint32_t i = 0; i < compare_load_count; i++)
		wanted += compare_wanted(&compare_loads[i], c->only);
	for (uint32_t i = 0; i < compare_load_count && !bench_interrupted(); i++) {
		if (!compare_wanted(&compare_loads[i], c->only))
			continue;
		ASSERT(at < wanted);
		fprintf(stderr, "measuring %u of %u: %s\n", ++at, wanted, compare_loads[i].name);
		one_load(c, &compare_loads[i]);
	}
}

/* ---- together ------------------------------------------------------------------------ */

static int open_one(struct conf *c, uint32_t i)
{
	struct compare_rig *r = &c->rig[i];

	r->args = &c->args;
	r->index = i;
	r->seed = c->args.seed;
	r->scale_down = c->quick ? 8 : 1;
	if (args_open(&c->args, i, &r->target) || target_session_open(r->target, &r->session))
		return 1;
	fprintf(stderr, "making the files of %s ...\n", target_name(r->target));
	return compare_prepare(r, c->only);
}

/* Returns how many can be measured. */
static uint32_t open_all(struct conf *c)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < c->args.target_count && !bench_interrupted(); i++) {
		c->rig[i].out = open_one(c, i) != 0;
		if (c->rig[i].out)
			args_leave_out(&c->args, i);
		count += !c->rig[i].out;
	}
	return count;
}

static void close_all(struct conf *c)
{
	for (uint32_t i = 0; i < c->args.target_count; i++) {
		target_session_close(c->rig[i].session);
		target_close(c->rig[i].target);
	}
}

int command_compare(int argc, char **argv)
{
	struct conf *c = calloc(1, sizeof(*c));
	bool left_out = false;

	if (!c)
		return bench_fail("out of memory");
	args_parse(&c->args, &argp, argc, argv, c);
	if (c->args.seconds <= 0)
		c->args.seconds = c->quick ? 0.3 : 1;
	if (open_all(c) > 0)
		all_loads(c);
	for (uint32_t i = 0; i < c->args.target_count; i++)
		left_out |= c->rig[i].out;
	close_all(c);
	free(c);
	return left_out || bench_interrupted();
}
