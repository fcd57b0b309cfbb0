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
 *   rivals    and besides: a file is removed while a write or a truncate of it reads the block that
 *             it keeps a part of; the one may be too late for the other, but never meets garbage.
 *   log       blocks of the log are late: that zones of it were given back must be known first.
 *
 *   - a read finds the file whole, as it was at some moment since it was asked for
 *   - after a cut each change is there whole or not at all; the check is clean
 *   - zones have waited for roots, and for readers: counted, and none of the counts is 0
 *
 * usage: reuse [--seed N] [--ops N] [--shape NAME]
 */
#include "test/sim/sim_args.h"
#include "test/sim/sim_load.h"
#include "base/clock.h"
#include "base/crc32c.h"
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
	{ "rivals",
	  { .ndrives = 1, .nblocks = 1024, .nshards = 1, .ops_max = 16, .volatile_cache = true },
	  0,
	  20000000,
	  0,
	  20000 },
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
	uint64_t ops, cuts, frozen, leaving, taken, dawdled, full, rivals, late;
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

/* ---- rivals --------------------------------------------------------------------------------- */

#define RIVALS       3u
#define RIVAL_BLOCKS 24u /* mostly a whole zone among them */

static struct rival {
	enum { MAKE, OPEN, FIGHT } stage;
	uint32_t out; /* calls */
	struct fab_handle handle;
	struct fab_put_item put;
	char path[8];
} rivals[RIVALS];

static struct sim_call *rival_call(struct rival *r, enum fab_type type)
{
	struct sim_call *c = sim_world_call(&w);

	if (!c)
		return NULL;
	c->call.type = type;
	c->user = r;
	r->out++;
	return c;
}

static struct fab_name rival_name(struct rival *r)
{
	snprintf(r->path, sizeof(r->path), "/r%u", (unsigned)(r - rivals));
	return (struct fab_name){ .by = FAB_BY_PATH,
				  .name = r->path,
				  .name_bytes = (uint16_t)strlen(r->path) };
}

static void rival_fill(struct sim_call *c, uint32_t bytes, uint32_t head)
{
	uint32_t *sums = (uint32_t *)(void *)(c->window + (96u << 10)), piece, n = 0;

	memset(c->window, (int)rand_below(&rnd, 255) + 1, bytes);
	for (uint32_t at = 0; at < bytes; at += piece) {
		piece = min_u32(bytes - at, BLOCK_SIZE - (head + at) % BLOCK_SIZE);
		sums[n++] = crc32c_block(c->window + at, piece);
	}
}

static void rival_make(struct rival *r)
{
	struct sim_call *c = rival_call(r, FAB_PUT);

	if (!c)
		return;
	rival_fill(c, RIVAL_BLOCKS * BLOCK_SIZE, 0);
	r->put = (struct fab_put_item){ .name = rival_name(r),
					.mode = 0640,
					.size_bytes = RIVAL_BLOCKS * BLOCK_SIZE,
					.sums_at = 96u << 10 };
	c->call.args.batch.count = 1;
	c->call.args.batch.puts = &r->put;
	sim_world_submit(&w, c, true);
}

static void rival_open(struct rival *r)
{
	struct sim_call *c = rival_call(r, FAB_OPEN);

	if (!c)
		return;
	c->call.args.open.name = rival_name(r);
	sim_world_submit(&w, c, false);
}

/* Both at once: a change that keeps a part of a block, and the end of the file. */
static void rival_fight(struct rival *r)
{
	bool cut = rand_below(&rnd, 2);
	uint64_t at = (6 + rand_below(&rnd, 12)) * BLOCK_SIZE + 100;
	struct sim_call *c = rival_call(r, cut ? FAB_TRUNCATE : FAB_WRITE);

	if (!c)
		return;
	if (cut) {
		c->call.args.size.handle = r->handle;
		c->call.args.size.size_bytes = at;
	} else {
		rival_fill(c, 500, (uint32_t)at);
		c->call.args.write.handle = r->handle;
		c->call.args.write.offset_bytes = at;
		c->call.args.write.length_bytes = 500;
		c->call.args.write.sums_at = 96u << 10;
	}
	sim_world_submit(&w, c, !cut);
	c = rival_call(r, FAB_UNLINK);
	if (!c)
		return;
	c->call.args.name.name = rival_name(r);
	sim_world_submit(&w, c, false);
	seen.rivals++;
}

static void rivals_turn(void)
{
	static void (*const how[])(struct rival *) = { rival_make, rival_open, rival_fight };

	for (uint32_t i = 0; i < RIVALS; i++)
		if (rivals[i].out == 0)
			how[rivals[i].stage](&rivals[i]);
}

static bool rival_taken(struct sim_load *l, struct sim_call *c)
{
	struct rival *r = c->user;
	int status = c->call.status;
	struct fab_attr attr;
	struct fab_answer a;

	r->out--;
	if (c->call.type == FAB_PUT) {
		if (!status)
			status = fab_call_answer(&c->call, 0, &a) ? -EPROTO : a.status;
		r->stage = status ? MAKE : OPEN;
	} else if (c->call.type == FAB_OPEN) {
		if (!status && fab_call_attr(&c->call, 0, &attr))
			status = -EPROTO;
		r->handle = attr.handle;
		r->stage = status ? MAKE : FIGHT;
	} else if (r->out == 0) {
		r->stage = MAKE;
	}
	seen.late += status == -ESTALE;
	if (!status || status == -ENOSPC || (status == -ESTALE && c->call.type != FAB_UNLINK))
		return true;
	snprintf(l->why, sizeof(l->why), "%s: type %d: %d", r->path, (int)c->call.type, status);
	return false;
}

/* They are done, and nothing of them is left. */
static bool rivals_end(uint64_t seed)
{
	bool good = true;

	for (uint32_t i = 0; i < RIVALS; i++)
		while (good && rivals[i].out > 0)
			good = sim_load_step(&load, false);
	for (uint32_t i = 0; good && i < RIVALS; i++) {
		struct sim_call *c = rival_call(&rivals[i], FAB_UNLINK);

		c->call.args.name.name = rival_name(&rivals[i]);
		good = sim_world_do(&w, c, false) == 0 &&
		       (!c->call.status || c->call.status == -ENOENT);
	}
	return good || failed(seed, "rivals", load.why);
}

/* ---- a life --------------------------------------------------------------------------------- */

static bool cut_here(uint64_t seed, uint64_t n)
{
	int err;

	sim_world_cut_copy(&w, seed * 1000003 + n, &copy);
	err = sim_world_begin(&copy, APP_BOOT_MOUNT);
	if (err)
		return failed(seed, "mount after a cut", copy.why);
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
	bool fight = strcmp(shape->name, "rivals") == 0;
	uint64_t last = 0, cuts = 0, writes = 0;
	uint32_t steps = 0;

	while (load.done < ops || !sim_load_idle(&load)) {
		bool roots;

		if (fight) {
			rivals_turn();
			if (rand_below(&rnd, 300) == 0)
				meta__ckpt_want(app_core_meta(w.core));
		}
		if (!sim_load_step(&load, load.done < ops))
			return failed(seed, "answer", load.why);
		roots = watch();
		/* Cuts while roots are late, mostly: each sees another write. */
		if (!fight && w.power.write_count != writes && cuts <= CUTS_MAX * load.done / ops &&
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
	return !fight || rivals_end(seed);
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
	cfg.ncores = seed % 4 ? 1 : 2;
	cfg.eager_reuse = seed % 2;
	cfg.cut_garbles = seed % 4 >= 2;
	rand_seed(&rnd, seed ^ 0x4e05e);
	sim_world_create(&w, &cfg);
	sim_world_create(&copy, &cfg);
	if (sim_world_begin(&w, APP_BOOT_FORMAT))
		return failed(seed, "format", w.why);
	set_faults(true);
	sim_load_init(&load, &w, &model, seed);
	load.names = 3;
	load.mix = mix;
	load.mix_count = ARRAY_LEN(mix);
	load.big = true;
	load.other = rival_taken;
	memset(rivals, 0, sizeof(rivals));
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
	if (seen.rivals)
		printf("# %llu fights, %llu were too late\n", (unsigned long long)seen.rivals,
		       (unsigned long long)seen.late);
	if (!seen.frozen || !seen.dawdled || seen.taken < 3 || (s->read_ns && !seen.leaving))
		return failed(seed, "counts", "what this is about has not happened");
	return true;
}

int main(int argc, char **argv)
{
	struct sim_args args = sim_args(argc, argv, "ops", sim_args_few(10000, 4), 200000);

	sim_world_tell_cuts(&seen.cuts);
	for (uint32_t i = 0; i < ARRAY_LEN(shapes); i++)
		if (sim_args_want(&args, shapes[i].name) &&
		    !lives(&shapes[i], args.seed, args.count))
			return 1;
	return 0;
}
