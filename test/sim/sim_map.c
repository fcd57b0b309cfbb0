/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/sim/sim_map.h"
#include "base/num.h"
#include "meta/format/meta_page.h"
#include "meta/plans/meta_plan.h"

#include <errno.h>
#include <string.h>

const char *const sim_life_names[SIM_LIVES] = {
	"dead",  "data of files", "pages",      "superblocks",
	"roots", "zone headers",  "log blocks", "the log's last block",
};

static const void *block_at(const struct sim_map *map, uint64_t baddr)
{
	return map->image[META_BADDR_DRIVE(baddr)] + META_BADDR_BLOCK(baddr) * BLOCK_SIZE;
}

static struct sim_owner *owner_of(struct sim_map *map, uint64_t baddr)
{
	ASSERT(META_BADDR_BLOCK(baddr) < SIM_MAP_BLOCKS);
	return &map->owner[META_BADDR_DRIVE(baddr)][META_BADDR_BLOCK(baddr)];
}

static void set(struct sim_map *map, uint64_t baddr, uint32_t nblocks, const struct sim_owner *o)
{
	for (uint32_t i = 0; i < nblocks; i++) {
		ASSERT(owner_of(map, baddr + i)->life == SIM_DEAD);
		*owner_of(map, baddr + i) = *o;
	}
}

/* ---- what has its place -------------------------------------------------------------- */

static void map_supers(struct sim_map *map, const struct sim_world *w)
{
	for (uint32_t d = 0; d < map->ndrives; d++)
		for (uint32_t copy = 0; copy < 2; copy++) {
			const struct sim_owner o = { .life = SIM_SUPER, .copy = copy };

			set(map, META_BADDR(d, copy ? w->cfg.nblocks - 1 : 0), 1, &o);
		}
}

static void map_roots(struct sim_map *map, const struct meta__geo *g)
{
	for (uint32_t i = 0; i < 4 * g->nshards; i++) {
		const struct sim_owner o = { .life = SIM_ROOT, .copy = i & 1, .shard = i / 4 };

		set(map, meta__geo_root(g, i & 1, i >> 1 & 1, i / 4), 1, &o);
	}
}

static void map_headers(struct sim_map *map, const struct meta__geo *g)
{
	for (uint32_t i = 0; i < 2 * g->nzones; i++) {
		const struct sim_owner o = { .life = SIM_HEADER, .copy = i & 1, .zone = i / 2 };

		set(map, meta__geo_zone_head(g, i / 2, i & 1), 1, &o);
	}
}

/* ---- trees --------------------------------------------------------------------------- */

/* As a mount finds it; false: none is whole. */
static bool newest_root(const struct sim_map *map, const struct meta *m, uint32_t shard,
			struct meta__root_seen *out)
{
	bool found = false;

	for (uint32_t i = 0; i < 4; i++) {
		struct meta__root_seen r;

		if (meta__root_parse(
			    block_at(map, meta__geo_root(&m->zones->geo, i & 1, i >> 1, shard)),
			    m->uuid, &r) ||
		    (found && r.version <= out->version))
			continue;
		*out = r;
		found = true;
	}
	return found;
}

static void map_tree(struct sim_map *map, const struct meta *m, uint32_t shard)
{
	static struct sim_owner stack[SIM_MAP_BLOCKS];
	struct meta__root_seen root;
	uint32_t depth = 0;

	ASSERT(newest_root(map, m, shard, &root));
	if (root.root.height > 0)
		stack[depth++] = (struct sim_owner){ .life = SIM_PAGE,
						     .shard = shard,
						     .level = root.root.height - 1,
						     .baddr = root.root.root_baddr };
	while (depth > 0) {
		const struct sim_owner at = stack[--depth];
		const void *page = block_at(map, at.baddr);
		uint32_t count = meta__page_count(page);

		set(map, at.baddr, META_PAGE_BLOCKS, &at);
		for (uint32_t i = 0; at.level > 0 && i < count; i++) {
			struct sim_owner child = at;
			uint64_t gen;

			child.level--;
			meta__inner_child(page, i, &child.baddr, &gen);
			if (i > 0)
				child.lo = meta__inner_key(page, i);
			if (i + 1 < count) {
				child.has_hi = true;
				child.hi = meta__inner_key(page, i + 1);
			}
			ASSERT(depth < ARRAY_LEN(stack));
			stack[depth++] = child;
		}
	}
}

/* ---- the log --------------------------------------------------------------------------- */

static bool log_zone_is_open(const struct sim_map *map, const struct meta *m, uint32_t zone,
			     uint64_t epoch, struct meta__zone_seen *head)
{
	return meta__zone_parse(block_at(map, meta__geo_zone_baddr(&m->zones->geo, zone)), m->uuid,
				zone, head) == 0 &&
	       head->kind == META__ZONE_LOG && head->epoch == epoch;
}

/* Another zone has the same blocks. */
static bool is_copied(const struct sim_map *map, const struct meta *m,
		      const struct meta__zone_seen *z)
{
	for (uint32_t zone = 0; zone < m->zones->geo.nzones; zone++) {
		struct meta__zone_seen head;

		if (zone != z->zone && log_zone_is_open(map, m, zone, z->epoch, &head) &&
		    head.order == z->order)
			return true;
	}
	return false;
}

/* Twice: once to learn what a mount must find, once to set it. */
static void map_log_zone(struct sim_map *map, const struct meta *m, const struct meta__zone_seen *z,
			 bool second)
{
	const struct meta__geo *g = &m->zones->geo;
	uint64_t tag = meta__log_tag(m, z->epoch, z->order);
	uint64_t baddr = meta__geo_zone_baddr(g, z->zone);

	for (uint32_t at = 1; at < g->zone_end;) {
		struct meta__log_head h;

		if (meta__log_open(block_at(map, baddr + at), g->zone_end - at, tag, &h)) {
			at++;
			continue;
		}
		if (second && h.seq >= map->log_first) {
			const struct sim_owner o = {
				.life = h.seq <= map->log_known ? SIM_LOG : SIM_LOG_END,
				.seq = h.seq,
				.copied = is_copied(map, m, z),
			};

			set(map, baddr + at, h.nblocks, &o);
		}
		map->log_first = max_u64(map->log_first, h.trim + 1);
		map->log_known = max_u64(map->log_known, h.durable);
		at += h.nblocks;
	}
}

static void map_log(struct sim_map *map, const struct meta *m)
{
	uint64_t epoch = 0;

	map->log_first = map->log_known = 0;
	for (uint32_t shard = 0; shard < m->nshards; shard++) {
		struct meta__root_seen root;

		ASSERT(newest_root(map, m, shard, &root));
		epoch = max_u64(epoch, root.log_epoch);
		map->log_first = max_u64(map->log_first, root.log_base + 1);
		map->log_known = max_u64(map->log_known, root.root.log_seq);
	}
	for (uint32_t pass = 0; pass < 2; pass++)
		for (uint32_t zone = 0; zone < m->zones->geo.nzones; zone++) {
			struct meta__zone_seen head;

			if (log_zone_is_open(map, m, zone, epoch, &head))
				map_log_zone(map, m, &head, pass == 1);
		}
}

/* ---- files ------------------------------------------------------------------------------- */

static void run_op(struct sim_world *w, struct meta_op *op)
{
	ASSERT(meta_op_start(app_core_meta(w->core), op)); /* all pages are in memory */
	ASSERT(op->status == 0);
}

static struct meta_op op_of(enum meta_op_type type, const char *path, size_t length)
{
	return (struct meta_op){
		.type = type,
		.flags = META_NOFOLLOW,
		.target = { .path = path, .path_len = (uint32_t)length, .dir = META_ROOT_DIR },
	};
}

static void span_add(struct sim_map_file *f, bool must, uint32_t shard, struct meta_key low,
		     struct meta_key high)
{
	ASSERT(f->nspans < SIM_MAP_SPANS);
	f->span[f->nspans++] =
		(struct sim_map_span){ .shard = shard, .must = must, .low = low, .high = high };
}

/* Everything that belongs to an object. */
static void span_object(struct sim_map_file *f, const struct meta *m, const struct meta_handle *h,
			bool must)
{
	span_add(f, must, meta__dir_shard(m, h->dir),
		 meta__key(h->dir, h->hash, META__CLASS_OBJ, h->uniq, META__KIND_NONE, 0),
		 meta__key(h->dir, h->hash, META__CLASS_OBJ, h->uniq, (enum meta__kind)255,
			   META__MASK48));
}

/* Names of this hash in a directory, or in a part of one; lookups begin with uniquifier 0. */
static void span_hash(struct sim_map_file *f, const struct meta *m, bool must, uint64_t dir,
		      uint64_t hash)
{
	span_add(f, must, meta__dir_shard(m, dir),
		 meta__key(dir, hash, META__CLASS_NAME, 0, META__KIND_NONE, 0),
		 meta__key(dir, hash, META__CLASS_NAME, META__MASK40, META__KIND_NONE, 0));
}

/* One component: its name in `dir`, or where else it is looked for; the directory itself. */
static void span_name(struct sim_map_file *f, struct meta *m, uint64_t dir, const char *name,
		      size_t length)
{
	struct meta_op op = op_of(META_OP_STAT, name, length);
	struct meta__at at;

	meta__tx_begin(m, &op);
	ASSERT(meta__lookup(m, dir, name, (uint32_t)length, &at) == 0 && at.found);
	span_hash(f, m, true, at.dir, at.hash);
	if (meta__spread_known(m, dir)) /* what is so looks in both */
		span_hash(f, m, false,
			  meta__is_fragment(at.dir) ? dir : meta__fragment_of(dir, at.hash),
			  at.hash);
	span_add(f, false, meta__dir_shard(m, dir), meta__dir_key(dir), meta__dir_key(dir));
}

static void map_lookup(struct sim_map_file *f, struct sim_world *w)
{
	struct meta *m = app_core_meta(w->core);
	const char *name = f->path, *slash;
	uint64_t dir = META_ROOT_DIR;

	while ((slash = strchr(name, '/'))) {
		struct meta_op op = op_of(META_OP_STAT, f->path, (size_t)(slash - f->path));

		span_name(f, m, dir, name, (size_t)(slash - name));
		run_op(w, &op);
		span_object(f, m, &op.attr.handle, false);
		dir = op.attr.dir;
		name = slash + 1;
	}
	span_name(f, m, dir, name, strlen(name));
}

static void map_file(struct sim_map *map, struct sim_world *w, uint32_t file)
{
	struct sim_map_file *f = &map->file[file];
	static struct meta_run runs[64];
	static uint32_t crcs[64];
	static uint8_t inline_buf[BLOCK_SIZE];
	struct meta_op op = op_of(META_OP_READ, f->path, strlen(f->path));
	uint32_t block = 0;

	op.length = 1u << 20;
	op.runs = runs;
	op.crcs = crcs;
	op.runs_max = op.blocks_max = 64;
	op.inline_buf = inline_buf;
	map_lookup(f, w);
	run_op(w, &op);
	span_object(f, app_core_meta(w->core), &op.attr.handle, true);
	for (uint32_t i = 0; i < op.nruns; block += runs[i++].nblocks)
		for (uint32_t k = 0; runs[i].baddr && k < runs[i].nblocks; k++) {
			const struct sim_owner o = { .life = SIM_DATA,
						     .file = file,
						     .file_block = block + k };

			set(map, runs[i].baddr + k, 1, &o);
		}
	meta_read_end(app_core_meta(w->core), &op);
}

void sim_map_make(struct sim_map *map, struct sim_world *w, const struct sim_model *model)
{
	const struct meta *m = app_core_meta(w->core);

	memset(map->owner, 0, sizeof(map->owner));
	map->nfiles = 0;
	map_supers(map, w);
	map_roots(map, &m->zones->geo);
	map_headers(map, &m->zones->geo);
	for (uint32_t shard = 0; shard < m->nshards; shard++)
		map_tree(map, m, shard);
	map_log(map, m);
	for (uint32_t i = 0; i < model->count; i++) {
		if (model->node[i].state->type != SIM_FILE)
			continue;
		ASSERT(map->nfiles < SIM_MAP_FILES);
		map->file[map->nfiles] = (struct sim_map_file){ .path = model->node[i].path,
								.state = model->node[i].state };
		map_file(map, w, map->nfiles++);
	}
}

/* ---- who needs a page ------------------------------------------------------------------------ */

static bool span_meets(const struct sim_map_span *s, const struct sim_owner *page)
{
	return s->shard == page->shard && meta__key_cmp(&s->high, &page->lo) >= 0 &&
	       (!page->has_hi || meta__key_cmp(&s->low, &page->hi) < 0);
}

bool sim_map_may_need(const struct sim_map *map, const struct sim_owner *page, uint32_t file)
{
	const struct sim_map_file *f = &map->file[file];

	for (uint32_t i = 0; i < f->nspans; i++)
		if (span_meets(&f->span[i], page))
			return true;
	return false;
}

bool sim_map_must_need(const struct sim_map *map, const struct sim_owner *page, uint32_t file)
{
	const struct sim_map_file *f = &map->file[file];
	const void *leaf = block_at(map, page->baddr);

	for (uint32_t i = 0; page->level == 0 && i < meta__page_count(leaf); i++) {
		const struct meta_key key = meta__leaf_key(leaf, i);

		for (uint32_t k = 0; k < f->nspans; k++)
			if (f->span[k].must && f->span[k].shard == page->shard &&
			    meta__key_cmp(&f->span[k].low, &key) <= 0 &&
			    meta__key_cmp(&key, &f->span[k].high) <= 0)
				return true;
	}
	return false;
}
