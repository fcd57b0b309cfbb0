/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Records of an unmounted store: the tree of the newest whole root, page by page as each parent
 * says, with the records over it (meta_raw_log.c).
 *
 *        root       meta__raw_go(): descends, remembering the key range of each page
 *       /    \
 *      .  x   .     a damaged page: the keys in its range are lost, and the search continues
 *     / \    / \    at the end of the range
 *
 *  (1) Levels fall with each step, and the keys that are looked for rise: the search ends, whatever
 *      the pages contain.
 */
#include "meta/offline/meta_raw_internal.h"

#include <errno.h>
#include <string.h>

static void step_inner(const void *page, const struct meta_key *key, struct meta__raw_step *s,
		       struct meta__raw_step *below)
{
	ASSERT(s->page.level > 0);
	ASSERT(s->count > 0);
	s->pos = meta__inner_find(page, key);
	*below = (struct meta__raw_step){
		.page = { .shard = s->page.shard, .level = s->page.level - 1 },
		.lo = s->pos ? meta__inner_key(page, s->pos) : s->lo,
		.has_hi = s->has_hi,
		.hi = s->hi,
	};
	meta__inner_child(page, s->pos, &below->page.baddr, &below->page.gen);
	if (s->pos + 1 < s->count) {
		below->has_hi = true;
		below->hi = meta__inner_key(page, s->pos + 1);
	}
	ASSERT(s->pos < s->count);
	ASSERT(below->page.level < s->page.level); /* (1) */
}

const void *meta__raw_go(struct meta_raw *r, uint32_t shard, const struct meta_key *key,
			 uint32_t level, struct meta__raw_way *way)
{
	const struct meta__root_seen *root = meta__raw_root(r, shard);

	way->steps = 0;
	if (!root || root->root.height <= level)
		return NULL;
	way->step[0] = (struct meta__raw_step){ .page = { .baddr = root->root.root_baddr,
							  .gen = root->root.root_gen,
							  .shard = shard,
							  .level = root->root.height - 1 } };
	ASSERT(root->root.height <= META_PAGE_LEVELS_MAX);
	for (;;) {
		struct meta__raw_step *s = &way->step[way->steps++];
		const void *page = meta__raw_page(r, &s->page, &s->why);

		if (!page)
			return NULL;
		s->count = meta__page_count(page);
		ASSERT(s->page.level >= level);
		ASSERT(way->steps <= root->root.height - level);
		if (s->page.level == level)
			return page;
		step_inner(page, key, s, s + 1);
	}
}

/* ---- records over the trees ----------------------------------------------------------- */

/* Returns the first record from key on; NULL: none. */
static const struct meta__raw_over *over_at(const struct meta_raw *r, uint32_t shard,
					    const struct meta_key *key)
{
	uint64_t lo = 0, hi = r->overs;

	ASSERT(shard < r->geo.nshards);
	while (lo < hi) {
		uint64_t mid = lo + (hi - lo) / 2;
		const struct meta__raw_over *o = &r->over[mid];

		if (o->shard < shard || (o->shard == shard && meta__key_cmp(&o->key, key) < 0))
			lo = mid + 1;
		else
			hi = mid;
	}
	ASSERT(lo <= r->overs);
	return lo < r->overs && r->over[lo].shard == shard ? &r->over[lo] : NULL;
}

static void over_value(struct meta_raw *r, const struct meta__raw_over *o, void *value,
		       uint32_t *value_len)
{
	ASSERT(o->value_len <= META_VALUE_MAX);
	ASSERT(o->value_at + o->value_len <= r->over_used);
	r->doubt |= o->doubt;
	*value_len = o->value_len;
	if (o->value_len)
		memcpy(value, r->over_bytes + o->value_at, o->value_len);
}

/* ---- one record ------------------------------------------------------------------------- */

static void copy_value(const void *leaf, uint32_t pos, void *value, uint32_t *value_len)
{
	const void *from;

	ASSERT(pos < meta__page_count(leaf));
	meta__leaf_value(leaf, pos, &from, value_len);
	ASSERT(*value_len <= META_VALUE_MAX);
	if (*value_len)
		memcpy(value, from, *value_len);
}

int meta__raw_get(struct meta_raw *r, uint32_t shard, const struct meta_key *key, void *value,
		  uint32_t *value_len, struct meta__raw_way *way)
{
	const struct meta__raw_over *o = over_at(r, shard, key);
	const void *leaf = meta__raw_go(r, shard, key, 0, way);
	uint32_t pos;

	if (o && meta__key_cmp(&o->key, key) == 0) {
		over_value(r, o, value, value_len);
		return o->del ? -ENOENT : 0;
	}
	if (!leaf)
		return way->steps || !meta__raw_root(r, shard) ? -EIO : -ENOENT;
	if (!meta__leaf_find(leaf, key, &pos))
		return -ENOENT;
	way->step[way->steps - 1].pos = pos;
	copy_value(leaf, pos, value, value_len);
	return 0;
}

/* ---- the next record -------------------------------------------------------------------- */

/* The tree alone. */
static int tree_next(struct meta_raw *r, uint32_t shard, struct meta_key *key, void *value,
		     uint32_t *value_len, uint64_t *lost)
{
	ASSERT(shard < r->geo.nshards);
	for (;;) {
		struct meta__raw_way way;
		const void *leaf = meta__raw_go(r, shard, key, 0, &way);
		const struct meta__raw_step *s = &way.step[way.steps ? way.steps - 1 : 0];
		uint32_t pos;

		if (way.steps == 0) {
			*lost += meta__raw_root(r, shard) == NULL;
			return -ENOENT;
		}
		*lost += leaf == NULL;
		if (leaf) {
			(void)meta__leaf_find(leaf, key, &pos);
			if (pos < s->count) {
				*key = meta__leaf_key(leaf, pos);
				copy_value(leaf, pos, value, value_len);
				return 0;
			}
		}
		if (!s->has_hi || meta__key_cmp(&s->hi, key) <= 0) /* (1) */
			return -ENOENT;
		*key = s->hi;
	}
}

int meta__raw_next(struct meta_raw *r, uint32_t shard, struct meta_key *key, void *value,
		   uint32_t *value_len, uint64_t *lost)
{
	for (;;) {
		const struct meta__raw_over *o = over_at(r, shard, key);
		struct meta_key in_tree = *key;
		int err = tree_next(r, shard, &in_tree, value, value_len, lost);

		if (!o || (!err && meta__key_cmp(&in_tree, &o->key) < 0)) {
			*key = in_tree;
			return err;
		}
		ASSERT(meta__key_cmp(&o->key, key) >= 0); /* (1) */
		*key = o->key;
		if (!o->del) {
			over_value(r, o, value, value_len);
			return 0;
		}
		*key = meta__key_next(o->key);
	}
}

uint32_t meta__raw_fragments(struct meta_raw *r, uint64_t dir)
{
	const struct meta_key key = meta__dir_key(dir);
	uint8_t value[META_VALUE_MAX];
	struct meta__raw_way way;
	struct meta__dir d;
	uint32_t len;

	if (!meta__may_spread(dir))
		return 0;
	ASSERT(!meta__is_fragment(dir));
	r->doubt = false;
	if (meta__raw_get(r, meta__dir_shard(&r->m, dir), &key, value, &len, &way) || r->doubt ||
	    meta__dir_parse(value, len, &d))
		return (1u << META__FRAGMENTS) - 1;
	return d.fragments;
}

/* ---- a path --------------------------------------------------------------------------------- */

void meta__raw_path_begin(struct meta__raw_path *p, const char *path)
{
	ASSERT(path);
	memset(p, 0, sizeof(*p));
	p->rest = path;
	p->dir = META_ROOT_DIR;
}

/* Finds a name among all with its hash in a directory or a fragment. */
static int find_in(struct meta_raw *r, struct meta__raw_path *p, uint64_t dir, uint64_t hash,
		   const char *name, uint32_t len)
{
	uint64_t lost = 0;

	ASSERT(len > 0);
	ASSERT(len <= META_NAME_MAX);
	p->shard = meta__dir_shard(&r->m, dir);
	p->key = meta__key(dir, hash, META__CLASS_NAME, 0, META__KIND_NONE, 0);
	for (struct meta_key key = p->key;; key = meta__key_next(key)) {
		if (meta__raw_next(r, p->shard, &key, p->value, &p->value_len, &lost) ||
		    meta__key_dir(&key) != dir || meta__key_hash(&key) != hash ||
		    meta__key_class(&key) != META__CLASS_NAME)
			return lost ? -EIO : -ENOENT;
		if (meta__name_parse(&key, p->value, p->value_len, &p->name) == 0 &&
		    p->name.len == len && memcmp(p->name.bytes, name, len) == 0) {
			p->key = key;
			return 0;
		}
	}
}

/* In the directory, else in the fragment for its hash.  p says where it was, or is not. */
static int find_name(struct meta_raw *r, struct meta__raw_path *p, const char *name, uint32_t len)
{
	const uint64_t hash = meta__name_hash(&r->m, p->dir, name, len);
	const uint64_t fragment = meta__fragment_of(p->dir, hash);
	int err = find_in(r, p, p->dir, hash, name, len), rc;
	const struct meta_key key = p->key;
	const uint32_t shard = p->shard;

	ASSERT(len > 0);
	ASSERT(!meta__is_fragment(p->dir));
	if (err == 0 || !(meta__raw_fragments(r, p->dir) >> meta__fragment_index(fragment) & 1))
		return err;
	rc = find_in(r, p, fragment, hash, name, len);
	if (rc == -ENOENT && err == -EIO) {
		p->key = key;
		p->shard = shard;
		return err;
	}
	return rc;
}

int meta__raw_path_next(struct meta_raw *r, struct meta__raw_path *p)
{
	uint32_t len;
	int err;

	while (*p->rest == '/')
		p->rest++;
	if (!*p->rest)
		return 0;
	if (p->dir == 0)
		return -ENOTDIR;
	len = (uint32_t)strcspn(p->rest, "/");
	if (len > META_NAME_MAX)
		return -ENOENT;
	ASSERT(len > 0);
	err = find_name(r, p, p->rest, len);
	if (err)
		return err;
	p->rest += len;
	p->dir = p->name.child;
	return 1;
}
