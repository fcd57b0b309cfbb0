/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Long lives of small stores: thousands of operations without a restart, on drives that are full
 * most of the time, with the least cache; so zones are reused and collected again and again.
 *
 *   random operations --> at rest: every byte, a check --> power cut or stop, mount: again
 *        |                                                               |
 *        +------- sometimes: delete everything, and fill it again <------+
 *
 *   - in every STEPS_MAX turns an operation ends: else the store hangs
 *   - deleting never ends with -ENOSPC, and the space of deleted files can be written again
 *   - the code under test has run: each of its counts is above 0
 *
 * usage: press [--seed N] [--ops N] [--shape NAME]
 */
#include "test/sim/sim_args.h"
#include "test/sim/sim_load.h"
#include "base/clock.h"
#include "base/num.h"
#include "meta/meta_store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 400000u

static const struct shape {
	const char *name;
	struct sim_world_cfg cfg;
	uint64_t delay_max_ns;
	uint32_t names;
} shapes[] = {
	{ "one",
	  { .ndrives = 1, .nblocks = 512, .nshards = 1, .ops_max = 4, .volatile_cache = true },
	  0,
	  64 },
	{ "two",
	  { .ndrives = 2, .nblocks = 512, .nshards = 4, .ops_max = 4, .volatile_cache = true },
	  90000,
	  64 },
	{ "four",
	  { .ndrives = 4, .nblocks = 512, .nshards = 16, .ops_max = 4, .volatile_cache = false },
	  20000,
	  64 },
	{ "shards",
	  { .ndrives = 1, .nblocks = 2048, .nshards = 64, .ops_max = 4, .volatile_cache = true },
	  20000,
	  64 },
	{ "roomy",
	  { .ndrives = 2, .nblocks = 2048, .nshards = 2, .ops_max = 4, .volatile_cache = true },
	  40000,
	  64 },
};

static struct {
	uint64_t ops, full, checkpoints, early, zones_taken, collecting, mounts;
} seen;

static struct sim_world w;
static struct sim_model model;
static struct sim_load load;

static bool failed(const struct shape *s, uint64_t seed, const char *where, const char *why)
{
	printf("not ok %s seed %llu, %llu cuts: %s: %s\n", s->name, (unsigned long long)seed,
	       (unsigned long long)seen.mounts, where, why);
	return false;
}

/* Prints the state of a store that hangs, and the operations that wait. */
static void describe(void)
{
	sim_world_describe(&w);
	for (uint32_t i = 0; i < SIM_OPS_MAX; i++)
		if (load.op[i].used)
			printf("# waits: kind %d, %s %s, stage %u\n", load.op[i].kind,
			       load.op[i].path, load.op[i].other, load.op[i].stage);
}

/* ---- counts ------------------------------------------------------------------------------ */

static void count(void)
{
	struct meta *m = app_core_meta(w.core);
	struct meta_statfs fs = { 0 };

	meta__ckpt_stat(m, &fs);
	seen.checkpoints += fs.checkpoints;
	seen.early += fs.leaves_early;
	for (uint32_t i = 0; i < m->zones->geo.nzones; i++)
		seen.zones_taken = max_u64(seen.zones_taken, meta__zone_at(m, i)->incarnation);
}

/* ---- operations ---------------------------------------------------------------------------- */

static bool work(const struct shape *s, uint64_t seed, uint64_t ops)
{
	uint64_t until = load.done + ops, last = load.done;
	uint32_t steps = 0;

	while (load.done < until || !sim_load_idle(&load)) {
		if (!sim_load_step(&load, load.done < until))
			return failed(s, seed, "answer", load.why);
		seen.collecting += meta__collect_busy(app_core_meta(w.core));
		steps = load.done == last ? steps + 1 : 0;
		last = load.done;
		if (steps == STEPS_MAX) {
			describe();
			return failed(s, seed, "hangs", "nothing comes back");
		}
	}
	return true;
}

static int call_name(enum fab_type type, const char *path)
{
	struct sim_call *c = sim_world_call(&w);

	c->call.type = type;
	c->call.args.name.name = (struct fab_name){ .by = FAB_BY_PATH,
						    .nofollow = true,
						    .name = path,
						    .name_bytes = (uint16_t)strlen(path) };
	return sim_world_do(&w, c, false) ? -ECANCELED : c->call.status;
}

/* Deleting always works: the leaves first. */
static bool delete_all(const struct shape *s, uint64_t seed)
{
	while (model.count > 0) {
		for (uint32_t i = model.count; i-- > 0;) {
			char path[SIM_PATH_MAX];
			bool dir = model.node[i].state->type == SIM_DIR;
			int err;

			snprintf(path, sizeof(path), "%s", model.node[i].path);
			if (dir && sim_model_has_children(&model, path))
				continue;
			err = call_name(dir ? FAB_RMDIR : FAB_UNLINK, path);
			if (err) {
				describe();
				return failed(s, seed, path, strerror(-err));
			}
			sim_model_set(&model, path, NULL);
		}
	}
	return true;
}

static int put(const char *path, uint32_t bytes)
{
	struct fab_put_item item = { .mode = 0640, .size_bytes = bytes, .sums_at = 96u << 10 };
	struct sim_call *c = sim_world_call(&w);
	struct fab_answer a;

	item.name = (struct fab_name){ .by = FAB_BY_PATH,
				       .name = path,
				       .name_bytes = (uint16_t)strlen(path) };
	memset(c->window, 0, bytes);
	for (uint32_t i = 0; i < div_up(bytes, BLOCK_SIZE); i++)
		((uint32_t *)(void *)(c->window + item.sums_at))[i] = CRC32C_ZERO_BLOCK;
	c->call.type = FAB_PUT;
	c->call.args.batch.count = 1;
	c->call.args.batch.puts = &item;
	if (sim_world_do(&w, c, true))
		return -ECANCELED;
	if (c->call.status || fab_call_answer(&c->call, 0, &a))
		return c->call.status ? c->call.status : -EPROTO;
	return a.status;
}

/* Fill it to the brim, delete it all, thrice: the last time as much fits as the first. */
static bool fill(const struct shape *s, uint64_t seed)
{
	uint32_t first = 0, n = 0;
	char path[32];

	for (int round = 0; round < 3; round++) {
		int err = 0;

		for (n = 0; !err; n++) {
			snprintf(path, sizeof(path), "fill%u", n);
			err = put(path, 8 * BLOCK_SIZE);
		}
		n--; /* that one was refused */
		if (err != -ENOSPC)
			return failed(s, seed, "fill", strerror(-err));
		seen.full++;
		for (uint32_t i = 0; i < n; i++) {
			snprintf(path, sizeof(path), "fill%u", i);
			err = call_name(FAB_UNLINK, path);
			if (err) {
				describe();
				return failed(s, seed, "deleting what fills it", strerror(-err));
			}
		}
		first = round ? first : n;
		if (getenv("SIM_TRACE"))
			printf("# filled with %u\n", n);
	}
	if (n + n / 4 + 2 < first) {
		char why[96];

		snprintf(why, sizeof(why), "%u files fitted, then %u", first, n);
		describe();
		return failed(s, seed, "fill", why);
	}
	return true;
}

/* ---- a life ----------------------------------------------------------------------------- */

static bool compare(const struct shape *s, uint64_t seed, const char *when)
{
	if (!sim_verify(&w, &model, NULL, false) || sim_world_check(&w))
		return failed(s, seed, when, w.why);
	return true;
}

static bool again(const struct shape *s, uint64_t seed, bool cut)
{
	int err = 0;

	count();
	if (cut)
		sim_world_cut(&w, seed);
	else
		err = sim_world_stop(&w);
	if (err)
		return failed(s, seed, "stop", w.why);
	seen.mounts++;
	err = sim_world_begin(&w, APP_BOOT_MOUNT);
	return err ? failed(s, seed, "mount", w.why) : true;
}

static bool lives(const struct shape *s, uint64_t seed, uint64_t ops)
{
	struct sim_world_cfg cfg = s->cfg;
	struct sim_faults faults = { .delay_max_ns = s->delay_max_ns };
	uint64_t before;
	bool good = true;

	cfg.seed = seed;
	cfg.atomic_bytes = 512;
	cfg.cut_garbles = s->delay_max_ns > 0; /* else little is on its way */
	cfg.cache_bytes = 4u << 20;
	sim_world_create(&w, &cfg);
	if (sim_world_begin(&w, APP_BOOT_FORMAT))
		return failed(s, seed, "format", w.why);
	sim_world_faults(&w, &faults);
	sim_load_init(&load, &w, &model, seed);
	load.names = s->names;
	before = load.done;
	for (uint64_t n = 0; good && load.done < ops; n++) {
		good = work(s, seed + n, ops / 4) && compare(s, seed + n, "at rest");
		good = good && again(s, seed + n, n % 3 != 2) && compare(s, seed + n, "mounted");
		if (good && n % 4 == 3)
			good = delete_all(s, seed + n) && fill(s, seed + n);
	}
	if (!good || !again(s, seed, false) || !compare(s, seed, "at the end"))
		return false;
	count();
	seen.ops += load.done - before;
	seen.full += load.full;
	sim_load_forget(&load);
	sim_world_destroy(&w);
	sim_model_clear(&model);
	return true;
}

static bool shape(const struct shape *s, uint64_t seed, uint64_t ops)
{
	memset(&seen, 0, sizeof(seen));
	if (!lives(s, seed, ops))
		return false;
	printf("ok %s: %llu operations, %llu mounts, %llu times full, %llu checkpoints, %llu "
	       "leaves early, a zone "
	       "was taken up to %llu times, %llu turns of collection\n",
	       s->name, (unsigned long long)seen.ops, (unsigned long long)seen.mounts,
	       (unsigned long long)seen.full, (unsigned long long)seen.checkpoints,
	       (unsigned long long)seen.early, (unsigned long long)seen.zones_taken,
	       (unsigned long long)seen.collecting);
	/* In the smallest, zones are short from the beginning; sim_world.c says of which seeds. */
	if (!seen.full || !seen.checkpoints || seen.zones_taken < 3 ||
	    (!seen.early && seed % 3 && strcmp(s->name, "one") != 0))
		return failed(s, seed, "counts", "what this is about has not happened");
	return true;
}

int main(int argc, char **argv)
{
	struct sim_args args = sim_args(argc, argv, "ops", 2000, 20000);
	bool good = true;

	sim_world_tell_cuts(&seen.mounts);
	for (uint32_t i = 0; good && i < ARRAY_LEN(shapes); i++)
		if (sim_args_want(&args, shapes[i].name))
			good = shape(&shapes[i], args.seed, args.count);
	return good ? 0 : 1;
}
