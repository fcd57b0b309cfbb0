/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Blocks are used again too early?  Small stores in which a few files are written over and over,
 * so that zones die and are needed again all the time, on drives of which some commands dawdle.
 *
 *   roots     roots take long to become durable: zones that the last freeze found empty are still
 *             those of the roots on the drives.  The power is cut, again and again, meanwhile.
 *   readers   what a read fetches comes late: its file is gone by then, and its zone is wanted.
 *             Each answer, and each edge that a write or a truncate keeps, must be what was there.
 *   both      and in an order that no drive is asked for.
 *   log       blocks of the log are late: that zones of it were given back must be known first.
 *
 *   - a read finds the file whole, as it was at some moment since it was asked for
 *   - after a cut each change is there whole or not at all; the check is clean
 *   - zones have waited for roots, and for readers: counted, and none of the counts is 0
 *
 * usage: reuse [--seed N] [--ops N] [--shape NAME]
 */
#include "test/sim/sim_load.h"
#include "base/clock.h"
#include "base/num.h"
#include "meta/meta_store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 400000u
#define CUTS_MAX  150u /* of one life, spread over it */

static const enum sim_kind mix[] = {
	SIM_PUT,    SIM_PUT,   SIM_PUT,  SIM_WRITE, SIM_WRITE, SIM_WRITE,    SIM_APPEND,
	SIM_UNLINK, SIM_MKDIR, SIM_READ, SIM_READ,  SIM_READ,  SIM_TRUNCATE, SIM_RENAME,
};

static const struct shape {
	const char *name;
	struct sim_world_cfg cfg;
	uint64_t root_ns, read_ns, log_ns, any_ns; /* at most so much longer */
} shapes[] = {
	{ "roots",
	  { .ndrives = 1, .nblocks = 768, .nshards = 1, .ops_max = 4, .volatile_cache = true },
	  8000000,
	  0,
	  0,
	  20000 },
	{ "readers",
	  { .ndrives = 1, .nblocks = 768, .nshards = 2, .ops_max = 6, .volatile_cache = false },
	  0,
	  20000000,
	  0,
	  20000 },
	{ "both",
	  { .ndrives = 2, .nblocks = 512, .nshards = 4, .ops_max = 6, .volatile_cache = true },
	  4000000,
	  10000000,
	  0,
	  60000 },
	{ "log",
	  { .ndrives = 2, .nblocks = 512, .nshards = 2, .ops_max = 6, .volatile_cache = true },
	  0,
	  0,
	  1000000,
	  20000 },
};

static struct sim_world w, copy;
static struct sim_model model;
static struct sim_load load;
static struct rand_state rnd;
static const struct shape *shape;
static struct {
	uint64_t ops, cuts, frozen, leaving, taken, dawdled, full;
} seen;

static bool failed(uint64_t seed, const char *where, const char *why)
{
	printf("not ok %s seed %llu, %llu cuts: %s: %s\n", shape->name, (unsigned long long)seed,
	       (unsigned long long)seen.cuts, where, why);
	return false;
}

/* ---- who dawdles ----------------------------------------------------------------------------- */

static bool is_root(const struct meta__geo *g, uint64_t baddr)
{
	uint64_t area = 2ull * g->nshards;

	return (baddr >= g->root_area[0] && baddr < g->root_area[0] + area) ||
	       (baddr >= g->root_area[1] && baddr < g->root_area[1] + area);
}

static bool is_of(const struct meta *m, uint64_t baddr, enum meta__zone_kind kind)
{
	uint32_t zone = meta__geo_zone_of(&m->zones->geo, baddr);

	return zone != UINT32_MAX && meta__zone_at(m, zone)->kind == kind;
}

/* user: the drive.  One of four is late, and by any time. */
static uint64_t dawdle(void *user, const struct nvme_soft_cmd *cmd)
{
	const struct meta *m = app_core_meta(w.core);
	uint32_t drive = (uint32_t)((struct sim_drive **)user - w.sim);
	uint64_t baddr = META_BADDR(drive, cmd->offset_bytes / BLOCK_SIZE), most = 0;

	if (cmd->opcode == NVME_CMD_WRITE && is_root(&m->zones->geo, baddr))
		most = shape->root_ns;
	else if (cmd->opcode == NVME_CMD_READ && is_of(m, baddr, META__ZONE_DATA))
		most = shape->read_ns;
	else if (cmd->opcode == NVME_CMD_WRITE && is_of(m, baddr, META__ZONE_LOG))
		most = shape->log_ns;
	if (!most || rand_below(&rnd, 4) != 0)
		return 0;
	seen.dawdled++;
	return rand_below(&rnd, most);
}

static void set_faults(bool slow)
{
	for (uint32_t i = 0; i < w.cfg.ndrives; i++) {
		struct sim_faults faults = { .delay_max_ns = shape->any_ns };

		if (slow) {
			faults.dawdle_ns = dawdle;
			faults.dawdle_user = &w.sim[i];
		}
		sim_drive_faults(w.sim[i], &faults);
	}
}

/* ---- a life ------------------------------------------------------------------------------------
 */

static bool cut_here(uint64_t seed, uint64_t n)
{
	int err;

	sim_world_cut_copy(&w, seed * 1000003 + n, &copy);
	err = sim_world_up(&copy, APP_BOOT_MOUNT);
	if (!err)
		err = sim_world_connect(&copy);
	if (err)
		return failed(seed, "mount after a cut", *copy.why ? copy.why : strerror(-err));
	if (!sim_verify(&copy, &model, &load, false) || sim_world_check(&copy))
		return failed(seed, "after a cut", copy.why);
	sim_world_cut(&copy, n);
	seen.cuts++;
	return true;
}

/* Zones wait for something now: true when it is for roots. */
static bool watch(void)
{
	const struct meta__zones *z = app_core_meta(w.core)->zones;

	seen.leaving += !list_empty(&z->leaving);
	seen.frozen += !list_empty(&z->frozen);
	return !list_empty(&z->frozen);
}

static bool work(uint64_t seed, uint64_t ops)
{
	uint64_t last = 0, cuts = 0, writes = 0;
	uint32_t steps = 0;

	while (load.done < ops || !sim_load_idle(&load)) {
		bool roots;

		if (!sim_load_step(&load, load.done < ops))
			return failed(seed, "answer", load.why);
		roots = watch();
		/* Cuts while roots are late, mostly: each sees another write. */
		if (w.power.write_count != writes && cuts <= CUTS_MAX * load.done / ops &&
		    rand_below(&rnd, roots           ? 12
				     : shape->log_ns ? 40
						     : 200) == 0) {
			writes = w.power.write_count;
			if (!cut_here(seed, cuts++))
				return false;
		}
		steps = load.done == last ? steps + 1 : 0;
		last = load.done;
		if (steps == STEPS_MAX)
			return failed(seed, "hangs", "nothing comes back");
	}
	return true;
}

static void count(void)
{
	const struct meta *m = app_core_meta(w.core);

	for (uint32_t i = 0; i < m->zones->geo.nzones; i++)
		seen.taken = max_u64(seen.taken, meta__zone_at(m, i)->incarnation);
	seen.ops += load.done;
	seen.full += load.full;
}

static bool life(uint64_t seed, uint64_t ops)
{
	struct sim_world_cfg cfg = shape->cfg;
	bool good;

	cfg.seed = seed;
	cfg.atomic_bytes = 512;
	cfg.cache_bytes = 4u << 20;
	cfg.eager_reuse = seed % 2;
	rand_seed(&rnd, seed ^ 0x4e05e);
	sim_world_create(&w, &cfg);
	sim_world_create(&copy, &cfg);
	if (sim_world_up(&w, APP_BOOT_FORMAT) || sim_world_connect(&w))
		return failed(seed, "format", w.why);
	set_faults(true);
	sim_load_init(&load, &w, &model, seed);
	load.names = 3;
	load.mix = mix;
	load.mix_count = ARRAY_LEN(mix);
	load.big = true;
	good = work(seed, ops);
	set_faults(false);
	if (good && (!sim_verify(&w, &model, NULL, false) || sim_world_check(&w)))
		good = failed(seed, "at the end", w.why);
	if (!good)
		return false;
	count();
	sim_load_forget(&load);
	sim_world_destroy(&w);
	sim_world_destroy(&copy);
	sim_model_clear(&model);
	return true;
}

static bool lives(const struct shape *s, uint64_t seed, uint64_t ops)
{
	uint64_t begin = clock_now_ns();

	shape = s;
	memset(&seen, 0, sizeof(seen));
	for (uint64_t n = 0; n < 4; n++)
		if (!life(seed + n, ops / 4))
			return false;
	printf("ok %s: %llu operations, %llu cuts, %llu commands dawdled; zones waited %llu turns "
	       "for roots, %llu for readers; one was taken %llu times; %llu times full; %.0f s\n",
	       s->name, (unsigned long long)seen.ops, (unsigned long long)seen.cuts,
	       (unsigned long long)seen.dawdled, (unsigned long long)seen.frozen,
	       (unsigned long long)seen.leaving, (unsigned long long)seen.taken,
	       (unsigned long long)seen.full, (double)(clock_now_ns() - begin) / 1e9);
	if (!seen.frozen || !seen.dawdled || seen.taken < 3 || (s->read_ns && !seen.leaving))
		return failed(seed, "counts", "what this is about has not happened");
	return true;
}

int main(int argc, char **argv)
{
	const char *length = getenv("TEST_LENGTH"), *only = NULL;
	uint64_t seed = 1, ops = length && strcmp(length, "short") != 0 ? 200000 : 16000;

	setvbuf(stdout, NULL, _IOLBF, 0);
	sim_world_tell_cuts(&seen.cuts);
	for (int i = 1; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--seed") == 0)
			seed = strtoull(argv[i + 1], NULL, 0);
		else if (strcmp(argv[i], "--ops") == 0)
			ops = strtoull(argv[i + 1], NULL, 0);
		else if (strcmp(argv[i], "--shape") == 0)
			only = argv[i + 1];
	}
	for (uint32_t i = 0; i < ARRAY_LEN(shapes); i++)
		if ((!only || strcmp(only, shapes[i].name) == 0) && !lives(&shapes[i], seed, ops))
			return 1;
	return 0;
}
