/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The shapes, and a store of one, with its first files: lend.c. */
#include "test/sim/lend_world.h"

#include "base/num.h"

#include <stdio.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)

static const uint8_t any_weight[LEND_KINDS] = {
	[LEND_PUT] = 8,    [LEND_PUT_BLOCKS] = 4, [LEND_GROW] = 4,      [LEND_CUT] = 1,
	[LEND_UNLINK] = 4, [LEND_RENAME] = 2,     [LEND_SYMLINK] = 1,   [LEND_SETATTR] = 2,
	[LEND_MKDIR] = 1,  [LEND_RMDIR] = 1,      [LEND_XATTR_SET] = 3, [LEND_XATTR_DEL] = 1,
	[LEND_LOOK] = 8,
};

static const uint8_t full_weight[LEND_KINDS] = {
	[LEND_PUT] = 8, [LEND_GROW] = 8, [LEND_UNLINK] = 2, [LEND_RENAME] = 1, [LEND_LOOK] = 2,
};

static const uint8_t tight_weight[LEND_KINDS] = {
	[LEND_PUT] = 8,    [LEND_PUT_BLOCKS] = 1, [LEND_GROW] = 4,      [LEND_UNLINK] = 2,
	[LEND_RENAME] = 1, [LEND_XATTR_SET] = 14, [LEND_XATTR_DEL] = 2, [LEND_LOOK] = 3,
};

const struct lend_shape lend_shapes[LEND_SHAPES] = {
	{ .name = "small",
	  .drive_bytes_min = 32 * MIB,
	  .drive_bytes_max = 32 * MIB,
	  .names = 60,
	  .filled = 20,
	  .dirs = 6,
	  .frames = 512,
	  .nshards = 16,
	  .blocks = 100,
	  .xattr_bytes = 6000,
	  .weight = any_weight,
	  .steps = 9000,
	  .life = 800,
	  .stall = 500 },
	{ .name = "full",
	  .drive_bytes_min = 32 * MIB,
	  .drive_bytes_max = 32 * MIB,
	  .names = 1500,
	  .filled = 1400,
	  .dirs = 3,
	  .frames = 2048,
	  .nshards = 16,
	  .blocks = 8,
	  .xattr_bytes = 300,
	  .weight = full_weight,
	  .steps = 4000,
	  .life = 2000,
	  .stall = 500 },
	{ .name = "tight",
	  .drive_bytes_min = 5 * MIB,
	  .drive_bytes_max = 128 * MIB,
	  .names = 8,
	  .filled = 4,
	  .dirs = 6,
	  .frames = 256,
	  .nshards = 4,
	  .blocks = 8,
	  .xattr_bytes = LEND_XATTR_MAX,
	  .weight = tight_weight,
	  .steps = 8000,
	  .life = 2000,
	  .stall = 2000 },
};

static uint64_t drive_bytes(struct lend_world *w, const struct lend_shape *shape)
{
	uint64_t bytes = shape->drive_bytes_min;

	while (bytes < shape->drive_bytes_max && lend_pick(w, 3))
		bytes = min_u64(bytes * 2, shape->drive_bytes_max);
	return bytes;
}

static void make_dir(struct lend_world *w, uint32_t d)
{
	char path[8];
	struct meta_op op = { .type = META_OP_STAT, .target = { .path = path } };

	snprintf(path, sizeof(path), "/d%u", d);
	op.target.path_len = (uint32_t)strlen(path);
	if (rig_mkdir(&w->r, path) || rig_run(&w->r, &op))
		lend_wrong(w, "%s is not made", path);
	w->dir[d] = op.attr.dir;
}

void lend_store_make(struct lend_world *w, uint64_t seed)
{
	const struct lend_shape *shape = w->shape;
	const uint32_t ndrives = 1 + (uint32_t)lend_pick(w, 2);
	const uint64_t bytes = drive_bytes(w, shape);

	rig_make(&w->r, seed, ndrives, bytes, shape->nshards << lend_pick(w, 2),
		 lend_pick(w, 4) != 0);
	w->r.conf.cache_bytes = (uint64_t)shape->frames * META_PAGE_BYTES;
	w->r.conf.ops_max = 8;
	w->r.conf.spread_at = seed % 4 == 3 ? 3 : 0;
	w->r.conf.early_pages = lend_pick(w, 2) ? 0 : 20;
	w->r.cut_garbles = lend_pick(w, 2);
	w->r.lifo = lend_pick(w, 8) == 0;
	w->r.shared = true;
	rig_memory(&w->r);
	if (rig_format(&w->r)) {
		lend_wrong(w, "format: %s", meta_error(w->r.m));
		return;
	}
	for (uint32_t d = 0; d < shape->dirs; d++)
		make_dir(w, d);
}

void lend_store_fill(struct lend_world *w)
{
	for (uint32_t n = 0; n < w->shape->filled * w->shape->dirs && !w->wrong; n++) {
		struct lend_slot *s = &w->slot[n % LEND_BORROWERS][n / LEND_BORROWERS % LEND_SLOTS];

		if (n % (LEND_BORROWERS * LEND_SLOTS) == 0)
			lend_cores_quiet(w);
		lend_ask_put(w, s, &w->name[n % w->shape->dirs][n / w->shape->dirs],
			     (uint32_t)lend_pick(w, 400));
		s->stage = LEND_TRY;
	}
	lend_cores_quiet(w);
}
