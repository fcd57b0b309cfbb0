/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Collection of data zones, which moves the only copy of each block.  In small stores, more than
 * half full, files are replaced, written, cut and removed at random for several times the capacity,
 * while collection moves live blocks.
 *
 *   slow      collection's reads and writes take long: meanwhile the file changes
 *   cuts      the power is cut, again and again, while a move is in flight
 *   tight     hardly a zone is free: each that is emptied is needed at once, and used again
 *
 *   - a read finds the file whole, as it was at some moment since it was asked for
 *   - after a cut each change is there whole or not at all; the check is clean
 *   - blocks were moved, some of them in vain: counted, and none of the counts is 0
 *
 * usage: collect [--seed N] [--ops N] [--shape NAME]
 */
#include "test/sim/sim_args.h"
#include "test/sim/sim_load.h"
#include "base/clock.h"
#include "base/num.h"
#include "meta/ops/meta_gc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 400000u
#define CUTS_MAX  40u /* of one life, spread over it */

static const enum sim_kind mix[] = {
	SIM_PUT,    SIM_PUT,    SIM_PUT,      SIM_PUT,    SIM_PUT,  SIM_PUT,  SIM_WRITE, SIM_WRITE,
	SIM_APPEND, SIM_UNLINK, SIM_TRUNCATE, SIM_RENAME, SIM_READ, SIM_READ, SIM_READ,  SIM_MKDIR,
};

static const struct shape {
	const char *name;
	struct sim_world_cfg cfg;
	uint32_t names;
	uint64_t move_ns, any_ns; /* at most so much longer */
} shapes[] = {
	{ "slow",
	  { .ndrives = 1, .nblocks = 2048, .nshards = 2, .ops_max = 6, .volatile_cache = true },
	  34,
	  20000000,
	  20000 },
	{ "cuts",
	  { .ndrives = 2, .nblocks = 1024, .nshards = 4, .ops_max = 6, .volatile_cache = true },
	  30,
	  500000,
	  60000 },
	{ "tight",
	  { .ndrives = 1, .nblocks = 1024, .nshards = 1, .ops_max = 6, .volatile_cache = true },
	  13,
	  2000000,
	  20000 },
};

static struct sim_world w, copy;
static struct sim_model model;
static struct sim_load load;
static struct rand_state rnd;
static const struct shape *shape;
static struct {
	uint64_t ops, cuts, cuts_moving, moved, zones, given, full, live, places;
} seen;

static bool failed(uint64_t seed, const char *where, const char *why)
{
	printf("not ok %s seed %llu, %llu cuts: %s: %s\n", shape->name, (unsigned long long)seed,
	       (unsigned long long)seen.cuts, where, why);
	return false;
}

/* ---- who dawdles ----------------------------------------------------------------------------- */

/* Delays half of the commands that read or write for collection. user: the drive's place in
 * w.sim. */
static uint64_t dawdle(void *user, const struct nvme_soft_cmd *cmd)
{
	const struct meta *m = app_core_meta(w.core);
	const uint32_t drive = (uint32_t)((struct sim_drive **)user - w.sim);
	const uint64_t baddr = META_BADDR(drive, cmd->offset_bytes / BLOCK_SIZE);
	const uint32_t zone = meta__geo_zone_of(&m->zones->geo, baddr);
	bool moves;

	if (zone == UINT32_MAX || !shape->move_ns || rand_below(&rnd, 2))
		return 0;
	moves = cmd->opcode == NVME_CMD_READ ? meta__zone_at(m, zone)->victim
					     : meta__zone_at(m, zone)->moved;
	return moves ? rand_below(&rnd, shape->move_ns) : 0;
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

/* ---- a life --------------------------------------------------------------------------------- */

static bool cut_here(uint64_t seed, uint64_t n)
{
	sim_world_cut_copy(&w, seed * 1000003 + n, &copy);
	if (sim_world_begin(&copy, APP_BOOT_MOUNT))
		return failed(seed, "mount after a cut", copy.why);
	if (!sim_verify(&copy, &model, &load, false) || sim_world_check(&copy))
		return failed(seed, "after a cut", copy.why);
	sim_world_cut(&copy, n);
	seen.cuts++;
	return true;
}

/* Something was written to its new place, and the record that names it is not there, or young. */
static bool is_moving(const struct meta *m)
{
	bool is = false;

	for (uint32_t i = 0; i < META__GC_MOVES; i++)
		is |= m->gc->move[i].stage >= GC_WRITE;
	return is;
}

static bool work(uint64_t seed, uint64_t ops)
{
	const struct meta *m = app_core_meta(w.core);
	uint64_t last = 0, cuts = 0, moved = 0;
	uint32_t steps = 0;

	while (load.done < ops || !sim_load_idle(&load)) {
		bool moving;

		if (!sim_load_step(&load, load.done < ops))
			return failed(seed, "answer", load.why);
		moving = is_moving(m) || m->gc->moved_blocks != moved;
		moved = m->gc->moved_blocks;
		if (cuts <= CUTS_MAX * load.done / ops &&
		    rand_below(&rnd, moving ? 20 : 2000) == 0) {
			seen.cuts_moving += moving;
			if (!cut_here(seed, cuts++))
				return false;
		}
		steps = load.done == last ? steps + 1 : 0;
		last = load.done;
		if (steps == STEPS_MAX) {
			sim_world_describe(&w);
			return failed(seed, "hangs", "nothing comes back");
		}
	}
	return true;
}

static void count(void)
{
	const struct meta *m = app_core_meta(w.core);

	seen.moved += m->gc->moved_blocks;
	seen.zones += m->gc->zones;
	seen.given += m->zones->given_blocks;
	seen.live += m->zones->live_blocks;
	seen.places += (uint64_t)m->zones->geo.nzones * (m->zones->geo.zone_end - 1);
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
	cfg.ncores = seed % 4 ? 1 : 2;
	cfg.eager_reuse = seed % 2;
	cfg.cut_garbles = seed % 4 >= 2;
	rand_seed(&rnd, seed ^ 0xc011ec7);
	sim_world_create(&w, &cfg);
	sim_world_create(&copy, &cfg);
	if (sim_world_begin(&w, APP_BOOT_FORMAT))
		return failed(seed, "format", w.why);
	set_faults(true);
	sim_load_init(&load, &w, &model, seed);
	load.names = shape->names;
	load.mix = mix;
	load.mix_count = ARRAY_LEN(mix);
	load.big = true;
	good = work(seed, ops);
	count();
	set_faults(false);
	if (good && (!sim_verify(&w, &model, NULL, false) || sim_world_check(&w)))
		good = failed(seed, "at the end", w.why);
	if (good && (sim_world_stop(&w) || sim_world_begin(&w, APP_BOOT_MOUNT) ||
		     !sim_verify(&w, &model, NULL, false) || sim_world_check(&w)))
		good = failed(seed, "after a stop", w.why);
	if (!good)
		return false;
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
	printf("ok %s: %llu operations, %llu %% full at the end, written %llu.%llu times the "
	       "capacity, %llu blocks moved out of %llu zones, %llu cuts, %llu of them while some "
	       "moved; %llu times full; %.0f s\n",
	       s->name, (unsigned long long)seen.ops,
	       (unsigned long long)(seen.live * 100 / seen.places),
	       (unsigned long long)(seen.given / seen.places),
	       (unsigned long long)(10 * seen.given / seen.places % 10),
	       (unsigned long long)seen.moved, (unsigned long long)seen.zones,
	       (unsigned long long)seen.cuts, (unsigned long long)seen.cuts_moving,
	       (unsigned long long)seen.full, (double)(clock_now_ns() - begin) / 1e9);
	if (!seen.moved || !seen.zones || !seen.cuts_moving)
		return failed(seed, "counts", "what this is about has not happened");
	return true;
}

int main(int argc, char **argv)
{
	struct sim_args args = sim_args(argc, argv, "ops", sim_args_few(4000, 2), 100000);

	sim_world_tell_cuts(&seen.cuts);
	for (uint32_t i = 0; i < ARRAY_LEN(shapes); i++)
		if (sim_args_want(&args, shapes[i].name) &&
		    !lives(&shapes[i], args.seed, args.count))
			return 1;
	return 0;
}
