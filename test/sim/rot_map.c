/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/sim/rot_map.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const char *const rot_lives[ROT_LIVES] = {
	"nothing", "data of files", "pages",      "superblocks",
	"roots",   "zone headers",  "log blocks", "the log's last block",
};

static void set(struct rot_map *map, uint64_t baddr, uint32_t nblocks, const struct rot_owner *o)
{
	for (uint32_t i = 0; i < nblocks; i++) {
		struct rot_owner *to =
			&map->owner[META_BADDR_DRIVE(baddr)][META_BADDR_BLOCK(baddr) + i];

		ASSERT(META_BADDR_BLOCK(baddr) + i < ROT_BLOCKS_MAX);
		ASSERT(to->life == ROT_DEAD);
		*to = *o;
	}
}

/* ---- what has its place --------------------------------------------------------------- */

static void map_fixed(struct rot_map *map, const struct meta_raw *r)
{
	for (uint32_t i = 0; i < 2 * r->from.count; i++) {
		const struct rot_owner o = { .life = ROT_SUPER, .copy = i % 2 };

		set(map, META_BADDR(i / 2, i % 2 ? r->from.nblocks[i / 2] - 1 : 0), 1, &o);
	}
	for (uint32_t i = 0; i < 4 * r->geo.nshards; i++) {
		const struct rot_owner o = {
			.life = ROT_ROOT, .copy = i & 1, .slot = i >> 1 & 1, .shard = i / 4
		};

		set(map, meta__geo_root(&r->geo, i & 1, i >> 1 & 1, i / 4), 1, &o);
	}
	for (uint32_t i = 0; i < 2 * r->geo.nzones; i++) {
		const struct rot_owner o = { .life = ROT_HEADER, .copy = i & 1, .zone = i / 2 };

		set(map, meta__geo_zone_head(&r->geo, i / 2, i & 1), 1, &o);
	}
}

static void map_log(struct rot_map *map, const struct meta_raw *r)
{
	const struct meta__raw_log *l = &r->log;

	ASSERT(!l->broken);
	for (uint32_t i = 0; i < l->blocks; i++) {
		const struct meta__raw_block *b = &l->block[i];
		struct rot_owner o = {
			.life = ROT_LOG,
			.seq = b->head.seq,
			.copy = META_BADDR_DRIVE(meta__geo_zone_baddr(&r->geo, b->zone)),
		};

		ASSERT(!b->why);
		for (uint32_t k = 0; k < l->blocks; k++)
			o.copied |= k != i && l->block[k].head.seq == b->head.seq;
		if (b->head.seq > max_u64(l->durable, l->known))
			o.life = ROT_LOG_END;
		if (b->head.seq >= l->first)
			set(map, meta__geo_zone_baddr(&r->geo, b->zone) + b->at, b->head.nblocks,
			    &o);
	}
}

/* ---- trees ------------------------------------------------------------------------------ */

static void map_tree(struct rot_map *map, struct meta_raw *r, uint32_t shard)
{
	struct meta_key key = { { 0 } };
	struct meta__raw_way way;

	for (;;) {
		const struct meta__raw_step *s;

		if (!meta__raw_go(r, shard, &key, 0, &way)) {
			ASSERT(way.steps == 0);
			return;
		}
		for (uint32_t i = way.steps, fresh = 1; i-- > 0 && fresh;) {
			const struct rot_owner o = { .life = ROT_PAGE,
						     .shard = shard,
						     .page = way.step[i].page,
						     .lo = way.step[i].lo,
						     .hi = way.step[i].hi,
						     .has_hi = way.step[i].has_hi };

			set(map, o.page.baddr, META_PAGE_BLOCKS, &o);
			fresh = i && way.step[i - 1].pos == 0;
		}
		s = &way.step[way.steps - 1];
		if (!s->has_hi)
			return;
		key = s->hi;
	}
}

static void map_extent(struct rot_map *map, const struct meta_key *key, const void *value,
		       uint32_t len)
{
	struct meta__extent x;
	uint64_t block = meta__key_index(key) * META_CHUNK_BLOCKS;

	ASSERT(meta__extent_parse(value, len, &x) == 0);
	for (uint32_t i = 0; i < x.nruns; i++) {
		struct meta_run run = meta__extent_run(&x, i);

		for (uint32_t k = 0; k < run.nblocks; k++, block++) {
			const struct rot_owner o = { .life = ROT_DATA,
						     .file = { meta__key_dir(key),
							       meta__key_hash(key),
							       meta__key_uniq(key) },
						     .file_block = block };

			if (run.baddr)
				set(map, run.baddr + k, 1, &o);
		}
	}
}

/* With the log over the trees: as a mount will have it. */
static void map_data(struct rot_map *map, struct meta_raw *r, uint32_t shard)
{
	struct meta_key key = { { 0 } };
	uint8_t value[META_VALUE_MAX];
	uint64_t lost = 0;
	uint32_t len;

	while (meta__raw_next(r, shard, &key, value, &len, &lost) == 0) {
		if (meta__key_dir(&key) && meta__key_class(&key) == META__CLASS_OBJ &&
		    meta__key_kind(&key) == META__KIND_EXTENT)
			map_extent(map, &key, value, len);
		key = meta__key_next(key);
	}
	ASSERT(lost == 0);
}

/* ---- paths -------------------------------------------------------------------------------- */

static void span(struct rot_item *it, uint32_t shard, struct meta_key lo, struct meta_key hi)
{
	if (it->nspans == ROT_SPANS_MAX) { /* too many to tell apart: anything */
		it->span[0] = (struct rot_span){ .shard = UINT32_MAX };
		return;
	}
	it->span[it->nspans++] = (struct rot_span){ .shard = shard, .lo = lo, .hi = hi };
}

static void span_object(struct rot_item *it, const struct meta_raw *r, const struct meta_handle *h)
{
	span(it, meta__dir_shard(&r->m, h->dir),
	     meta__key(h->dir, h->hash, META__CLASS_OBJ, h->uniq, META__KIND_NONE, 0),
	     meta__key(h->dir, h->hash, META__CLASS_OBJ, h->uniq, (enum meta__kind)255,
		       META__MASK48));
}

/* All names of this hash in a directory, or a part of one. */
static void span_hash(struct rot_item *it, const struct meta_raw *r, uint64_t dir, uint64_t hash)
{
	span(it, meta__dir_shard(&r->m, dir),
	     meta__key(dir, hash, META__CLASS_NAME, 0, META__KIND_NONE, 0),
	     meta__key(dir, hash, META__CLASS_NAME, META__MASK40, (enum meta__kind)255,
		       META__MASK48));
}

/* All names of the directory, its record, and the objects that were born in it. */
static void span_dir(struct rot_item *it, struct meta_raw *r, uint64_t dir)
{
	struct meta__raw_path p;
	const uint32_t parts = meta__raw_fragments(r, dir);
	struct model_node *n;
	const char *name;

	for (uint32_t i = 0; i <= META__FRAGMENTS; i++) {
		const uint64_t in = i < META__FRAGMENTS ? meta__fragment_at(dir, i) : dir;

		if (i == META__FRAGMENTS || parts >> i & 1)
			span(it, meta__dir_shard(&r->m, in), meta__dir_key(in),
			     meta__key(in, META__MASK40, (enum meta__class)255, META__MASK40,
				       (enum meta__kind)255, META__MASK48));
	}
	for (uint32_t i = 0; model_entry(it->node, i, &name, &n); i++) {
		meta__raw_path_begin(&p, name);
		p.dir = dir;
		ASSERT(meta__raw_path_next(r, &p) == 1);
		span_object(it, r, &p.name.handle);
		if (p.name.child)
			span(it, meta__dir_shard(&r->m, p.name.child), meta__dir_key(p.name.child),
			     meta__dir_key(p.name.child));
	}
}

static void resolve(struct rot_item *it, struct meta_raw *r)
{
	struct meta__raw_path p;
	struct meta__raw_way way;
	uint8_t value[META_VALUE_MAX];
	struct meta_key key;
	uint64_t dir = META_ROOT_DIR;
	uint32_t len, shard, pos;
	const void *leaf;

	it->handle = (struct meta_handle){ .dir = META_ROOT_DIR };
	span_object(it, r, &it->handle);
	meta__raw_path_begin(&p, it->path);
	while (meta__raw_path_next(r, &p) == 1) {
		span(it, meta__dir_shard(&r->m, dir), meta__dir_key(dir), meta__dir_key(dir));
		span_hash(it, r, meta__key_dir(&p.key), meta__key_hash(&p.key));
		if (meta__is_fragment(meta__key_dir(&p.key))) /* it is looked for here first */
			span_hash(it, r, dir, meta__key_hash(&p.key));
		it->handle = p.name.handle;
		span_object(it, r, &it->handle);
		dir = p.name.child;
	}
	ASSERT(!*p.rest);
	if (it->attr.type == META_TYPE_DIR)
		span_dir(it, r, dir);
	shard = meta__dir_shard(&r->m, it->handle.dir);
	key = meta__obj_key(&it->handle, META__KIND_INODE, 0);
	ASSERT(meta__raw_get(r, shard, &key, value, &len, &way) == 0);
	leaf = meta__raw_go(r, shard, &key, 0, &way);
	if (leaf && meta__leaf_find(leaf, &key, &pos))
		it->leaf = way.step[way.steps - 1].page.baddr;
	for (uint64_t i = 0; i < r->overs; i++)
		if (r->over[i].shard == shard && meta__key_cmp(&r->over[i].key, &key) == 0)
			it->leaf = 0;
	for (uint64_t i = 0; i < r->overs; i++)
		for (uint32_t k = 0; k < it->nspans; k++)
			it->logged |= it->span[k].shard == UINT32_MAX ||
				      (it->span[k].shard == r->over[i].shard &&
				       meta__key_cmp(&it->span[k].lo, &r->over[i].key) <= 0 &&
				       meta__key_cmp(&r->over[i].key, &it->span[k].hi) <= 0);
}

static void map_items(struct rot_map *map, struct meta_raw *r, struct model *fs)
{
	static char path[META_PATH_MAX + 1];
	struct model_node *n;

	path[0] = 0;
	map->items = 0;
	while ((n = model_next(fs, path))) {
		struct rot_item *it = &map->item[map->items++];

		ASSERT(map->items <= ROT_ITEMS_MAX && strlen(path) < sizeof(it->path));
		memset(it, 0, sizeof(*it));
		memcpy(it->path, path, strlen(path) + 1);
		it->node = n;
		model_node_attr(n, &it->attr);
		resolve(it, r);
	}
}

void rot_map_make(struct rot_map *map, struct meta_box *b, struct model *fs)
{
	struct raw_mem mem;
	struct meta_raw *r;

	memset(map->owner, 0, sizeof(map->owner));
	memset(map->blocks_of, 0, sizeof(map->blocks_of));
	raw_mem_init(&mem, b->image, META_BOX_DRIVES, b->drive_bytes);
	ASSERT(meta_raw_open(&r, &mem.from) == 0);
	ASSERT(!*meta_raw_problem(r));
	map_fixed(map, r);
	map_log(map, r);
	for (uint32_t i = 0; i < r->geo.nshards; i++)
		map_tree(map, r, i);
	ASSERT(meta__raw_log_over(r, false) == 0);
	for (uint32_t i = 0; i < r->geo.nshards; i++)
		map_data(map, r, i);
	map_items(map, r, fs);
	meta_raw_close(r);
	for (uint32_t d = 0; d < META_BOX_DRIVES; d++)
		for (uint64_t i = 0; i < b->drive_bytes / BLOCK_SIZE; i++)
			map->blocks_of[map->owner[d][i].life]++;
}

bool rot_may_need(const struct rot_item *item, const struct rot_owner *page)
{
	for (uint32_t i = 0; i < item->nspans; i++) {
		const struct rot_span *s = &item->span[i];

		if (s->shard == UINT32_MAX)
			return true;
		if (s->shard == page->shard && meta__key_cmp(&s->hi, &page->lo) >= 0 &&
		    (!page->has_hi || meta__key_cmp(&s->lo, &page->hi) < 0))
			return true;
	}
	return false;
}
