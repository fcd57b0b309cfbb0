/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * weka-bench kvcache: the keys and values of conversations, saved and loaded as an inference server
 * with little memory of its own does.
 *
 *   a worker: a user at random -> no object yet, or one time in six: save (durable), else load
 *
 * MLPerf Storage 3.0 runs three of these: a model of 8 G parameters (131,072 bytes a token) with
 * 200 users, the same with 100 users and 4 GiB of memory before the storage, and one of 70 G
 * parameters (327,680 bytes a token) with 70 users; 16, 16 and 4 allocations at once.  Sizes are
 * drawn so that each factor of two is as likely, from 10 to 1,000 MB.  One save for five loads is
 * the ratio of the published results.  Memory before the storage holds the conversations that were
 * used last.
 */
#include "base/clock.h"
#include "base/num.h"
#include "base/rand.h"
#include "bench/bench.h"
#include "bench/command.h"
#include "bench/report/args.h"
#include "bench/target/target_crew.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_BYTES   10e6
#define MOST_BYTES    1000e6
#define SAVE_ONE_IN   6u
#define BYTES_DEFAULT (1ull << 30)
#define HEADER_BYTES  128u /* of a .npy file */

static const struct kv_option {
	const char *name;
	uint32_t users;
	double memory_bytes;
	uint32_t allocations;
	uint32_t token_bytes;
} kv_options[] = {
	{ "8b", 200, 0, 16, 131072 },
	{ "8b-memory", 100, 4294967296.0, 16, 131072 },
	{ "70b", 70, 0, 4, 327680 },
};

struct conf {
	struct args args;
	const struct kv_option *option;
	double scale; /* of an object, and of the memory */
};

/* A conversation.  The lock is that of the run. */
struct user {
	uint64_t bytes;
	bool saved, busy;
	uint64_t used; /* when, by the count of operations */
};

struct run {
	const struct conf *conf;
	pthread_mutex_t lock;
	struct user *user;
	uint64_t operations;
	uint64_t until_ns;
	uint64_t seed;
	struct stat_hist save, load; /* ns; of all workers, under the lock */
	uint64_t saved_bytes, loaded_bytes, memory_hits;
};

/* The mean of that distribution: its logarithm is uniform. */
static double mean_bytes(void)
{
	return (MOST_BYTES - LEAST_BYTES) / log(MOST_BYTES / LEAST_BYTES);
}

static uint64_t draw_bytes(const struct conf *c, struct rand_state *rand)
{
	double u = (double)(rand_u64(rand) >> 11) / 9007199254740992.0;
	double bytes = LEAST_BYTES * pow(MOST_BYTES / LEAST_BYTES, u) * c->scale;
	uint64_t tokens = (uint64_t)(bytes / c->option->token_bytes);

	return HEADER_BYTES + max_u64(tokens, 1) * c->option->token_bytes;
}

/* Is the user's object among those that were used last and fit into the memory?  Locked. */
static bool in_memory(const struct run *r, const struct user *u)
{
	double newer = (double)u->bytes;

	for (uint32_t i = 0; i < r->conf->option->users; i++)
		if (r->user[i].used > u->used)
			newer += (double)r->user[i].bytes;
	return newer <= r->conf->option->memory_bytes * r->conf->scale;
}

/* Takes a user whom nobody else has, and says what to do: save or load; false: from memory. */
static bool take_user(struct run *r, struct rand_state *rand, uint32_t *index, bool *save)
{
	struct user *u;
	bool work;

	pthread_mutex_lock(&r->lock);
	do {
		*index = (uint32_t)rand_below(rand, r->conf->option->users);
		u = &r->user[*index];
	} while (u->busy);
	*save = !u->saved || rand_below(rand, SAVE_ONE_IN) == 0;
	if (*save)
		u->bytes = draw_bytes(r->conf, rand);
	work = *save || !in_memory(r, u);
	r->memory_hits += !work;
	u->used = ++r->operations;
	u->busy = work;
	pthread_mutex_unlock(&r->lock);
	return work;
}

static int operate(struct run *r, struct target_member *m, struct target_group *g, uint32_t index,
		   bool save)
{
	struct user *u = &r->user[index];
	struct target_io *io = &g->io[0];
	uint64_t began = clock_now_ns();
	int err;

	snprintf(io->path, sizeof(io->path), "kv/user_%u.npy", index);
	io->file = index;
	io->content = &target_plain;
	io->length_bytes = u->bytes;
	io->stamp_at = 0;
	io->stamp = target_stamp(index);
	g->op = save ? TARGET_PUT : TARGET_READ;
	g->flags = TARGET_DURABLE;
	g->count = 1;
	err = target_do(m->session, g);
	if (err)
		return bench_fail("%s: %s", io->path, strerror(-err));
	pthread_mutex_lock(&r->lock);
	stat_hist_record(save ? &r->save : &r->load, clock_now_ns() - began);
	*(save ? &r->saved_bytes : &r->loaded_bytes) += u->bytes;
	u->saved = true;
	u->busy = false;
	pthread_mutex_unlock(&r->lock);
	return 0;
}

static int work(struct target_member *m)
{
	struct run *r = m->ctx;
	struct rand_state rand = { .at = r->seed * 1000 + m->index };
	struct target_group *g = target_groups_create(1, 1);
	int err = g ? 0 : 1;

	while (!err && clock_now_ns() < r->until_ns && !bench_interrupted()) {
		uint32_t index;
		bool save;

		if (take_user(r, &rand, &index, &save))
			err = operate(r, m, g, index, save);
	}
	target_groups_destroy(g);
	return err;
}

/* Each user has an object before the first run. */
static int fill(struct target_member *m)
{
	struct run *r = m->ctx;
	struct rand_state rand = { .at = r->seed * 1000 + m->index };
	struct target_group *g = target_groups_create(1, 1);
	int err = g ? 0 : 1;

	for (uint32_t i = m->index; i < r->conf->option->users && !err && !bench_interrupted();
	     i += m->count) {
		pthread_mutex_lock(&r->lock);
		r->user[i].bytes = draw_bytes(r->conf, &rand);
		pthread_mutex_unlock(&r->lock);
		err = operate(r, m, g, i, true);
	}
	target_groups_destroy(g);
	return err;
}

static void begin_run(struct run *r, uint64_t seed)
{
	stat_hist_reset(&r->save);
	stat_hist_reset(&r->load);
	r->saved_bytes = 0;
	r->loaded_bytes = 0;
	r->memory_hits = 0;
	r->seed = seed;
	r->until_ns = clock_now_ns() + (uint64_t)(r->conf->args.seconds * 1e9);
}

enum { LOAD, SAVE, LOAD_P95, SAVE_P95, FIGURES };

static void describe(const struct conf *c, uint32_t target, const struct target *t,
		     struct figure f[FIGURES])
{
	static const char *const what[] = { "load", "save", "load, P95", "save, P95" };

	for (uint32_t i = 0; i < FIGURES; i++) {
		args_figure(&c->args, target, t, &f[i]);
		snprintf(f[i].group, sizeof(f[i].group), "KV cache %s", c->option->name);
		snprintf(f[i].name, sizeof(f[i].name), "KV cache %s, %u users: %s", c->option->name,
			 c->option->users, what[i]);
		snprintf(f[i].unit, sizeof(f[i].unit), i < LOAD_P95 ? "B/s" : "ms");
		f[i].less = i >= LOAD_P95;
	}
	snprintf(f[0].note, sizeof(f[0].note), "objects of 10 to 1,000 MB, scale %.3g", c->scale);
}

static void take_figures(const struct run *r, const struct target_crew *crew,
			 struct figure f[FIGURES])
{
	uint64_t ns, bytes;

	target_crew_total(crew, &ns, &bytes);
	f[LOAD].value[f[LOAD].count++] = (double)r->loaded_bytes * 1e9 / (double)ns;
	f[SAVE].value[f[SAVE].count++] = (double)r->saved_bytes * 1e9 / (double)ns;
	f[LOAD_P95].value[f[LOAD_P95].count++] = (double)stat_hist_percentile(&r->load, 95) / 1e6;
	f[SAVE_P95].value[f[SAVE_P95].count++] = (double)stat_hist_percentile(&r->save, 95) / 1e6;
}

static int runs(const struct conf *c, struct run *r, uint32_t target, struct target *t,
		struct target_crew *crew, struct figure f[FIGURES])
{
	struct figure_cpu cpu;
	int err = target_mkdir(target_crew_member(crew, 0)->session, "kv");

	if (err)
		return bench_fail("kv: %s", strerror(-err));
	describe(c, target, t, f);
	begin_run(r, c->args.seed);
	err = target_crew_run(crew, fill, r);
	for (uint32_t i = 0; i <= c->args.runs && !err && !bench_interrupted(); i++) {
		if (i == 1) /* after the warm-up */
			figure_cpu_begin(&cpu, args_pid(&c->args, target, t));
		begin_run(r, c->args.seed + i);
		err = target_crew_run(crew, work, r);
		if (!err && i > 0)
			take_figures(r, crew, f);
	}
	if (err || bench_interrupted())
		return 1;
	for (uint32_t i = 0; i < FIGURES; i++) {
		figure_cpu_end(&cpu, &f[i]);
		figure_print(&f[i], c->args.json, stdout);
	}
	return 0;
}

static int measure(void *conf, uint32_t target, struct target *t)
{
	const struct conf *c = conf;
	struct figure *f = calloc(FIGURES, sizeof(*f));
	struct run *r = calloc(1, sizeof(*r));
	struct target_crew *crew = NULL;
	int err = 1;

	if (r) {
		r->conf = c;
		pthread_mutex_init(&r->lock, NULL);
		r->user = calloc(c->option->users, sizeof(*r->user));
	}
	if (f && r && r->user && !target_crew_create(&crew, t, c->option->allocations))
		err = runs(c, r, target, t, crew, f);
	target_crew_destroy(crew);
	if (r) {
		free(r->user);
		pthread_mutex_destroy(&r->lock);
	}
	free(r);
	free(f);
	return err;
}

/* ---- the command ------------------------------------------------------------------------ */

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct conf *c = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &c->args;
		return 0;
	case ARGP_KEY_ARG:
		c->option = NULL;
		for (size_t i = 0; i < ARRAY_LEN(kv_options); i++)
			if (strcmp(kv_options[i].name, arg) == 0)
				c->option = &kv_options[i];
		if (!c->option)
			argp_error(state, "'%s' is none of 8b, 8b-memory, 70b", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.parser = parse,
	.args_doc = "[OPTION]",
	.doc = "Save and load the key-value caches of conversations, as MLPerf Storage 3.0 does.  "
	       "OPTION is 8b (200 users), 8b-memory (100 users, 4 GiB before the storage) or 70b "
	       "(70 users).",
	.children = args_children,
};

int command_kvcache(int argc, char **argv)
{
	struct conf c = { .option = &kv_options[0] };

	args_parse(&c.args, &argp, argc, argv, &c);
	c.args.seconds = c.args.seconds > 0 ? c.args.seconds : 10;
	c.scale = (double)(c.args.bytes ? c.args.bytes : BYTES_DEFAULT) /
		  (mean_bytes() * c.option->users);
	c.scale = c.scale > 1 ? 1 : c.scale;
	return args_each(&c.args, &c, measure);
}
