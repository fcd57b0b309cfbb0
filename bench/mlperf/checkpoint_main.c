/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * weka-bench checkpoint MODEL: the ranks of a job write their parts of a checkpoint at the same
 * time, each file durable; then the caches are dropped, and they read them back.
 *
 * By MLPerf's rules the duration is that of the slowest rank; a checkpoint is written and read ten
 * times.  All ranks of a large model are more than one machine has: --ranks takes the first ones,
 * each with the files that it has, and --bytes scales those.
 */
#include "base/num.h"
#include "bench/bench.h"
#include "bench/command.h"
#include "bench/mlperf/checkpoint.h"
#include "bench/report/args.h"
#include "bench/target/target_crew.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_DEFAULT (512ull << 20)
#define RANKS_DEFAULT 8u

struct conf {
	struct args args;
	const struct checkpoint_model *model;
	uint32_t ranks;
	double scale; /* of a file's size */
};

struct phase {
	const struct conf *conf;
	uint32_t number; /* of the checkpoint: its directory */
	enum target_op op;
};

/* The bytes of the ranks that take part, not scaled. */
static double bytes_of(const struct checkpoint_model *m, uint32_t ranks)
{
	struct checkpoint_file f;
	double bytes = 0;

	for (uint32_t rank = 0; rank < ranks; rank++)
		for (uint32_t i = 0; checkpoint_file(m, rank, i, &f); i++)
			bytes += f.bytes;
	return bytes;
}

/* A rank writes, reads or removes its files, one after the other. */
static int work(struct target_member *m)
{
	const struct phase *p = m->ctx;
	struct target_group *g = target_groups_create(1, 1);
	struct checkpoint_file f;
	int err = g ? 0 : -ENOMEM;

	for (uint32_t i = 0; !err && checkpoint_file(p->conf->model, m->index, i, &f); i++) {
		struct target_io *io = &g->io[0];

		snprintf(io->path, sizeof(io->path), "checkpoint%u/%s", p->number, f.name);
		io->file = m->index * 1000 + i;
		io->content = &target_plain;
		io->length_bytes = max_u64((uint64_t)(f.bytes * p->conf->scale), 16);
		io->stamp_at = 0;
		io->stamp = target_stamp(io->file);
		g->op = p->op;
		g->flags = TARGET_DURABLE;
		g->count = 1;
		err = target_do(m->session, g);
		if (err)
			(void)bench_fail("%s: %s", io->path, strerror(-err));
		m->bytes += io->length_bytes;
	}
	target_groups_destroy(g);
	return err;
}

static double gb_per_s(const struct target_crew *crew, double *seconds)
{
	uint64_t ns, bytes;

	target_crew_total(crew, &ns, &bytes);
	*seconds = (double)ns / 1e9;
	return (double)bytes / (double)ns * 1e9;
}

/* One checkpoint: 0, and how long it took. */
static int once(struct phase *p, struct target *t, struct target_crew *crew, double out[4])
{
	char dir[32];
	int err;

	snprintf(dir, sizeof(dir), "checkpoint%u", p->number);
	err = target_mkdir(target_crew_member(crew, 0)->session, dir);
	if (err)
		return bench_fail("%s: %s", dir, strerror(-err));
	p->op = TARGET_PUT;
	if (target_crew_run(crew, work, p))
		return 1;
	out[0] = gb_per_s(crew, &out[1]);
	err = target_drop_caches(t);
	if (err && err != -ENOTSUP)
		return bench_fail("cannot drop caches: %s", strerror(-err));
	p->op = TARGET_READ;
	if (target_crew_run(crew, work, p))
		return 1;
	out[2] = gb_per_s(crew, &out[3]);
	p->op = TARGET_REMOVE;
	return target_crew_run(crew, work, p);
}

static void describe(const struct conf *c, uint32_t target, const struct target *t,
		     struct figure f[4])
{
	static const char *const what[] = { "save", "save, slowest rank", "load",
					    "load, slowest rank" };

	for (uint32_t i = 0; i < 4; i++) {
		args_figure(&c->args, target, t, &f[i]);
		snprintf(f[i].group, sizeof(f[i].group), "Checkpoint %s", c->model->name);
		snprintf(f[i].name, sizeof(f[i].name), "%s, %u of %u ranks: %s", c->model->name,
			 c->ranks, c->model->ranks, what[i]);
		snprintf(f[i].unit, sizeof(f[i].unit), i % 2 ? "s" : "B/s");
		f[i].less = i % 2;
	}
	snprintf(f[0].note, sizeof(f[0].note), "%.2f GB, scale %.3g",
		 bytes_of(c->model, c->ranks) * c->scale / 1e9, c->scale);
}

static int measure(void *conf, uint32_t target, struct target *t)
{
	const struct conf *c = conf;
	struct figure *f = calloc(4, sizeof(*f));
	struct phase p = { .conf = c };
	struct target_crew *crew = NULL;
	struct figure_cpu cpu;
	double got[4];
	int err = f ? target_crew_create(&crew, t, c->ranks) : 1;

	if (!err)
		describe(c, target, t, f);
	for (; !err && p.number <= c->args.runs && !bench_interrupted(); p.number++) {
		err = once(&p, t, crew, got);
		if (p.number == 0) /* the warm-up */
			figure_cpu_begin(&cpu, args_pid(&c->args, target, t));
		for (uint32_t i = 0; p.number > 0 && i < 4; i++)
			f[i].value[f[i].count++] = got[i];
	}
	for (uint32_t i = 0; !err && i < 4; i++) {
		figure_cpu_end(&cpu, &f[i]);
		figure_print(&f[i], c->args.json, stdout);
	}
	target_crew_destroy(crew);
	free(f);
	return err || bench_interrupted();
}

/* ---- the command ------------------------------------------------------------------------ */

static const struct argp_option options[] = {
	{ "ranks", 'R', "N", 0, "ranks on this machine, each a thread (8)", 0 },
	{ NULL, 0, NULL, 0, NULL, 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct conf *c = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &c->args;
		return 0;
	case 'R':
		c->ranks = (uint32_t)args_number(state, arg, 1, 1024);
		return 0;
	case ARGP_KEY_ARG:
		c->model = checkpoint_find(arg);
		if (!c->model)
			argp_error(state,
				   "'%s' is no model; llama3-8b, llama3-70b, llama3-405b, "
				   "llama3-1t",
				   arg);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "name a model");
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "MODEL",
	.doc = "Save and load checkpoints as the ranks of a training job do, by the layouts of "
	       "MLPerf Storage.  MODEL is llama3-8b, llama3-70b, llama3-405b or llama3-1t.",
	.children = args_children,
};

int command_checkpoint(int argc, char **argv)
{
	struct conf c = { .ranks = RANKS_DEFAULT };

	args_parse(&c.args, &argp, argc, argv, &c);
	c.ranks = min_u32(c.ranks, c.model->ranks);
	c.scale =
		(double)(c.args.bytes ? c.args.bytes : BYTES_DEFAULT) / bytes_of(c.model, c.ranks);
	c.scale = c.scale > 1 ? 1 : c.scale;
	return args_each(&c.args, &c, measure);
}
