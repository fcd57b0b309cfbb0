/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Bits flip on drives at rest, one at a time.
 *
 * A store is filled, stopped, and its drives are kept as images.  What is live is known: data
 * blocks from the extents of each file, pages from the trees, superblocks, roots and log from
 * FORMAT.md.  Then, thousands of times, one bit of an image flips, and an appliance mounts it:
 *
 *   live data, a live page   must be reported: the mount refused, a read -EIO, or a check's problem
 *   dead bytes               must change nothing: mount, every byte, a clean check
 *   the rest                 (copies of superblocks and roots, log, headers): either
 *   always                   no wrong byte is ever returned as good
 *
 * usage: flip [--seed N] [--flips N]
 */
#include "base/clock.h"
#include "base/num.h"
#include "meta/meta_page.h"
#include "meta/meta_store.h"
#include "test/sim/sim_load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum life { OTHER, DEAD, LIVE_DATA, LIVE_PAGE, LIVES };
static const char *const life_names[LIVES] = { "other", "dead", "live data", "live pages" };

#define BLOCKS_MAX 1024

static struct sim_world w;
static struct sim_model model;
static struct sim_load load;
static uint8_t *image[SIM_DRIVES_MAX];
static uint8_t life[SIM_DRIVES_MAX][BLOCKS_MAX];
static uint64_t counts[LIVES][2]; /* not reported, reported */

static bool failed(uint64_t seed, const char *why)
{
	printf("not ok seed %llu: %s\n", (unsigned long long)seed, why);
	return false;
}

/* ---- what is live ------------------------------------------------------------------- */

static void mark(uint64_t baddr, uint32_t nblocks, enum life what)
{
	for (uint32_t i = 0; i < nblocks; i++) {
		ASSERT(META_BADDR_BLOCK(baddr) + i < BLOCKS_MAX);
		life[META_BADDR_DRIVE(baddr)][META_BADDR_BLOCK(baddr) + i] = (uint8_t)what;
	}
}

/* Zones that are free, or hold data or pages, are dead but for what is marked afterwards. */
static void mark_zones(void)
{
	struct meta *m = app_core_meta(w.core);
	const struct meta__geo *g = &m->zones->geo;

	for (uint32_t zone = 0; zone < g->nzones; zone++) {
		uint64_t at = meta__geo_zone_baddr(g, zone);

		if (meta__zone_at(m, zone)->kind != META__ZONE_LOG &&
		    meta__zone_at(m, zone)->state == ZONE_CLOSED)
			mark(at + 1, g->zone_blocks - 1, DEAD);
	}
}

static void mark_tree(uint32_t shard)
{
	struct meta *m = app_core_meta(w.core);
	static uint64_t stack[BLOCKS_MAX];
	uint32_t depth = 0;

	if (m->shard[shard].height > 0)
		stack[depth++] = m->shard[shard].root_baddr;
	while (depth > 0) {
		uint64_t baddr = stack[--depth], child, gen;
		const struct meta_page_disk *page =
			(const void *)(image[META_BADDR_DRIVE(baddr)] +
				       META_BADDR_BLOCK(baddr) * BLOCK_SIZE);

		mark(baddr, META_PAGE_BLOCKS, LIVE_PAGE);
		for (uint32_t i = 0; le16_get(page->level) > 0 && i < meta__page_count(page); i++) {
			meta__inner_child(page, i, &child, &gen);
			ASSERT(depth < BLOCKS_MAX);
			stack[depth++] = child;
		}
	}
}

static void mark_file(const char *path)
{
	struct meta *m = app_core_meta(w.core);
	static struct meta_run runs[64];
	static uint32_t crcs[64];
	static uint8_t inline_buf[BLOCK_SIZE];
	struct meta_op op = {
		.type = META_OP_READ,
		.flags = META_NOFOLLOW,
		.target = { .path = path,
			    .path_len = (uint32_t)strlen(path),
			    .dir = META_ROOT_DIR },
		.length = 1u << 20,
		.runs = runs,
		.crcs = crcs,
		.runs_max = 64,
		.blocks_max = 64,
		.inline_buf = inline_buf,
	};
	struct sim_call *none[1];

	if (!meta_op_start(m, &op))
		while (meta_op_poll(m) != &op)
			(void)!sim_world_step(&w, none, 0);
	ASSERT(op.status == 0);
	for (uint32_t i = 0; i < op.nruns; i++)
		if (runs[i].baddr)
			mark(runs[i].baddr, runs[i].nblocks, LIVE_DATA);
	meta_read_end(m, &op);
}

static void find_life(void)
{
	memset(life, OTHER, sizeof(life));
	mark_zones();
	for (uint32_t shard = 0; shard < w.cfg.nshards; shard++)
		mark_tree(shard);
	for (uint32_t i = 0; i < model.count; i++)
		if (model.node[i].state->type == SIM_FILE)
			mark_file(model.node[i].path);
}

/* ---- a flip --------------------------------------------------------------------------- */

/* Every file, read by its path: as it should be, or refused.  Returns how many were refused,
 * or UINT32_MAX: a wrong byte was returned as good. */
static uint32_t read_all(void)
{
	uint32_t refused = 0;

	for (uint32_t i = 0; i < model.count; i++) {
		const struct sim_node *n = &model.node[i];
		struct fab_read_item item = {
			.name = { .by = FAB_BY_PATH,
				  .name = n->path,
				  .name_bytes = (uint16_t)strlen(n->path) },
			.length_bytes = FAB_TO_END,
		};
		struct sim_call *c = sim_world_call(&w);
		struct fab_answer a;

		if (n->state->type != SIM_FILE)
			continue;
		c->call.type = FAB_READ_BATCH;
		c->call.args.batch.count = 1;
		c->call.args.batch.reads = &item;
		ASSERT(sim_world_do(&w, c, true) == 0);
		if (c->call.status || fab_call_answer(&c->call, 0, &a) || a.status) {
			refused++;
			continue;
		}
		if (sim_answer_holds(c, 0, n->state))
			continue;
		/* The reader's library verifies each block: a sum that does not fit is a report. */
		for (uint32_t b = 0; b * BLOCK_SIZE < a.length_bytes; b++)
			if (crc32c(c->window + a.data_at + b * BLOCK_SIZE, BLOCK_SIZE) !=
			    fab_answer_sum(&c->call, &a, b))
				break;
			else if ((b + 1) * BLOCK_SIZE >= a.length_bytes)
				return UINT32_MAX;
		refused++;
	}
	return refused;
}

static bool look(uint64_t seed, enum life what, const char *where)
{
	int err = sim_world_up(&w, APP_BOOT_MOUNT);
	bool reported = err != 0;
	uint32_t refused = 0;
	char why[APP_WHY + 128];

	if (!err && sim_world_connect(&w))
		return failed(seed, "connect");
	if (!err) {
		refused = read_all();
		reported = refused > 0 || sim_world_check(&w) != 0;
	}
	sim_world_cut(&w, seed);
	counts[what][reported]++;
	if (refused == UINT32_MAX) {
		snprintf(why, sizeof(why), "%s: a wrong byte was returned as good", where);
		return failed(seed, why);
	}
	if (what == DEAD && reported) {
		snprintf(why, sizeof(why), "%s (dead): %s", where, w.why);
		return failed(seed, why);
	}
	if ((what == LIVE_DATA || what == LIVE_PAGE) && !reported) {
		snprintf(why, sizeof(why), "%s (%s): nobody noticed", where, life_names[what]);
		return failed(seed, why);
	}
	return true;
}

static bool flip_one(uint64_t seed, struct rand_state *r)
{
	enum life want = (enum life)rand_below(r, LIVES);
	uint64_t drive = 0, block = 0, bit;
	char where[96];

	/* Mostly where something lives: the images are mostly dead. */
	for (int tries = 0; tries < 500; tries++) {
		drive = rand_below(r, w.cfg.ndrives);
		block = rand_below(r, w.cfg.nblocks);
		if (life[drive][block] == want)
			break;
	}
	bit = rand_below(r, BLOCK_SIZE * 8ull);
	for (uint32_t i = 0; i < w.cfg.ndrives; i++)
		sim_drive_restore(w.sim[i], image[i]);
	sim_drive_flip(w.sim[drive], block * BLOCK_SIZE + bit / 8, (uint32_t)(bit % 8));
	snprintf(where, sizeof(where), "drive %llu block %llu bit %llu", (unsigned long long)drive,
		 (unsigned long long)block, (unsigned long long)bit);
	return look(seed, (enum life)life[drive][block], where);
}

/* ---- a store --------------------------------------------------------------------------- */

static bool fill(uint64_t seed)
{
	struct sim_world_cfg cfg = {
		.seed = seed,
		.ndrives = 1 + seed % 2,
		.nblocks = 768,
		.volatile_cache = true,
		.atomic_bytes = 4096,
		.nshards = 4,
		.cache_bytes = 4u << 20,
		.ops_max = 4,
	};

	sim_world_create(&w, &cfg);
	if (sim_world_up(&w, APP_BOOT_FORMAT) || sim_world_connect(&w))
		return failed(seed, w.why);
	sim_load_init(&load, &w, &model, seed);
	while (load.done < 250 || !sim_load_idle(&load))
		if (!sim_load_step(&load, load.done < 250))
			return failed(seed, load.why);
	if (sim_world_stop(&w))
		return failed(seed, w.why);
	/* Mounted once more, untouched, to ask it what is live; the images are of before that. */
	for (uint32_t i = 0; i < cfg.ndrives; i++) {
		image[i] = malloc(sim_drive_bytes(w.sim[i]));
		ASSERT(image[i]);
		memcpy(image[i], sim_drive_durable(w.sim[i]), sim_drive_bytes(w.sim[i]));
	}
	if (sim_world_up(&w, APP_BOOT_MOUNT) || sim_world_connect(&w))
		return failed(seed, w.why);
	find_life();
	if (read_all() != 0 || sim_world_check(&w))
		return failed(seed, "the store is not sound before any flip");
	sim_world_cut(&w, seed);
	return true;
}

static void empty(void)
{
	for (uint32_t i = 0; i < w.cfg.ndrives; i++)
		free(image[i]);
	sim_world_destroy(&w);
	sim_model_clear(&model);
}

int main(int argc, char **argv)
{
	const char *length = getenv("TEST_LENGTH");
	uint64_t flips = length && strcmp(length, "short") != 0 ? 40000 : 4000,
		 begin = clock_now_ns();
	uint64_t seed = 1, done = 0;
	struct rand_state r;
	bool good = true;

	for (int i = 1; i + 1 < argc; i += 2) {
		seed = strcmp(argv[i], "--seed") == 0 ? strtoull(argv[i + 1], NULL, 0) : seed;
		flips = strcmp(argv[i], "--flips") == 0 ? strtoull(argv[i + 1], NULL, 0) : flips;
	}
	rand_seed(&r, seed);
	for (; good && done < flips; seed++) {
		good = fill(seed);
		for (int i = 0; good && i < 500 && done < flips; i++, done++)
			good = flip_one(seed, &r);
		empty();
	}
	if (!good)
		return 1;
	for (int i = 0; i < LIVES; i++)
		printf("# %-10s %6llu flips, %6llu reported\n", life_names[i],
		       (unsigned long long)(counts[i][0] + counts[i][1]),
		       (unsigned long long)counts[i][1]);
	printf("ok %llu flipped bits: live ones reported, dead ones harmless, none returned as "
	       "good; %.0f s\n",
	       (unsigned long long)done, (double)(clock_now_ns() - begin) / 1e9);
	return 0;
}
