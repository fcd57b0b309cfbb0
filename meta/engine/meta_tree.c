/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A shard's copy-on-write B+-tree, on pages that are in memory.
 *
 *   shard.root --> [ interior ]                 at[height - 1]
 *                     |  child i: {baddr, gen}
 *                  [ interior ]                 at[1]
 *                     |
 *                  [ leaf: records ]            at[0]
 *
 * The first change of a page in a generation gives it a new address: its parent then names
 * another child, and so is changed too, up to the root.
 *
 * Invariants, true between any two transactions:
 *
 *  (1) The ancestors of a dirty page are dirty.
 *  (2) Child i has the keys from separator i on, up to separator i + 1 or to the end of
 *      its parent; the first child from the start of its parent, whatever its separator is.
 *  (3) No page is empty; a tree without records has no page.
 *  (4) Frozen pages are not written to: a root that is being made durable names them.
 *  (5) shape changes whenever a leaf may have another range of keys than before
 *      [test_meta_tree:grows_again_where_its_first_leaves_were].
 *
 * Addresses and fill of pages are not part of the store's content: replay may make another tree of
 * the same records.
 */
#include "meta/engine/meta_lend.h"
#include "meta/engine/meta_tree.h"
#include "base/num.h"

#include <errno.h>
#include <string.h>

#define TOGETHER_MAX 8u /* records of one name hash that a split keeps in one leaf */

/* ---- looking ------------------------------------------------------------------------- */

static wk_cold int wrong_page(struct meta *m, const struct meta__frame *f, uint32_t shard,
			      uint32_t level)
{
	meta__error(m, "page at drive %u, block %llu is named twice: by shard %u, level %u",
		    META_BADDR_DRIVE(meta__frame_baddr(f)),
		    (unsigned long long)META_BADDR_BLOCK(meta__frame_baddr(f)), shard, level);
	return -EIO;
}

/* Step from an interior page to the child that answers for key; narrows path's bounds. */
static void step_down(struct meta__path *path, uint32_t level, const struct meta_key *key,
		      uint64_t *baddr, uint64_t *gen)
{
	const void *page = path->at[level].frame->page;
	uint32_t i = meta__inner_find(page, key);

	DASSERT(level > 0);
	DASSERT(level < path->height);
	path->at[level].index = i;
	if (i > 0)
		path->lo = meta__inner_key(page, i);
	if (i + 1 < meta__page_count(page)) {
		path->hi = meta__inner_key(page, i + 1);
		path->has_hi = true;
	}
	meta__inner_child(page, i, baddr, gen);
}

int meta__tree_walk(struct meta *m, struct meta_op *op, uint32_t shard, const struct meta_key *key,
		    uint32_t level, struct meta__path *path)
{
	struct meta__shard *s = &m->shard[shard];
	uint64_t baddr, gen;

	ASSERT(shard < m->nshards);
	if (!meta__may_look(m, shard))
		return meta__later(m);
	baddr = s->root_baddr;
	gen = s->root_gen;
	path->height = s->height;
	path->seq = 0;
	path->has_hi = false;
	path->lo = (struct meta_key){ { 0, 0, 0 } };
	if (level >= s->height)
		return -ENOENT;
	DASSERT(s->height <= META_PAGE_LEVELS_MAX);
	DASSERT(baddr != 0);
	for (uint32_t l = s->height - 1;; l--) {
		struct meta__frame *f = meta__cache_find(m, baddr);

		if (!f) {
			int err = meta__cache_want(m, shard, l, baddr, gen, op, key);

			return err ? err : META__MISSES;
		}
		if (unlikely(f->shard != shard || f->gen != gen || f->level != l))
			return wrong_page(m, f, shard, l);
		meta__cache_mark(m, f);
		path->at[l] = (struct meta__step){ .frame = f };
		path->seq = max_u64(path->seq, meta__frame_seq(f));
		if (l == level)
			return 0;
		step_down(path, l, key, &baddr, &gen);
	}
}

int meta__tree_names(struct meta *m, struct meta_op *op, uint32_t shard, const struct meta_key *key,
		     uint32_t level, uint64_t baddr, uint64_t *gen)
{
	const struct meta__shard *s = &m->shard[shard];
	uint64_t is_baddr = s->root_baddr;
	struct meta__path path;
	int err;

	ASSERT(shard < m->nshards);
	if (!meta__may_look(m, shard))
		return meta__later(m);
	if (level >= s->height)
		return 0;
	*gen = s->root_gen;
	if (level + 1 < s->height) {
		err = meta__tree_walk(m, op, shard, key, level + 1, &path);
		if (err)
			return err;
		step_down(&path, level + 1, key, &is_baddr, gen);
	}
	return is_baddr == baddr;
}

static struct meta__hint *hint_for(struct meta *m, uint32_t shard, const struct meta_key *key)
{
	const bool own = (key->w[0] & 0xffff) == 0 && key->w[1] >> 32 == META__CLASS_DIR;

	ASSERT(shard < m->nshards);
	if (key->w[0] >> 16 == 0)
		return &m->shard[shard].hint[META__HINT_STORE];
	return &m->shard[shard].hint[own ? META__HINT_DIR : META__HINT_ENTRY];
}

static bool hint_holds(const struct meta *m, uint32_t shard, const struct meta__hint *h,
		       const struct meta_key *key)
{
	const struct meta__frame *f = h->leaf;

	return f && h->shape == m->shard[shard].shape && meta__frame_readable(f) &&
	       f->shard == shard && meta__frame_baddr(f) == h->baddr && f->gen == h->gen &&
	       !meta__frame_gone(f) && meta__key_cmp(&h->path.lo, key) <= 0 &&
	       (!h->path.has_hi || meta__key_cmp(key, &h->path.hi) < 0);
}

/* h->path has been walked, or its pages have become dirty. */
static void hint_set(const struct meta *m, uint32_t shard, struct meta__hint *h)
{
	h->leaf = h->path.at[0].frame;
	h->baddr = meta__frame_baddr(h->leaf);
	h->gen = h->leaf->gen;
	h->shape = m->shard[shard].shape;
	h->plan = m->cache->plan;
	DASSERT(h->leaf->level == 0);
	DASSERT(h->leaf->shard == shard);
	DASSERT(!meta__frame_gone(h->leaf));
}

static int walk_to_hint(struct meta *m, struct meta_op *op, uint32_t shard,
			const struct meta_key *key, struct meta__hint *h)
{
	int err;

	DASSERT(h >= m->shard[shard].hint);
	DASSERT(h < m->shard[shard].hint + META__HINTS);
	h->leaf = NULL;
	err = meta__tree_walk(m, op, shard, key, 0, &h->path);
	if (err)
		return err;
	h->pos = UINT32_MAX;
	hint_set(m, shard, h);
	return 0;
}

int meta__tree_leaf(struct meta *m, struct meta_op *op, uint32_t shard, const struct meta_key *key,
		    struct meta__hint **out)
{
	struct meta__hint *h = hint_for(m, shard, key);

	*out = h;
	if (!meta__may_look(m, shard))
		return meta__later(m);
	if (!hint_holds(m, shard, h, key))
		return walk_to_hint(m, op, shard, key, h);
	meta__cache_mark(m, h->leaf);
	h->path.seq = max_u64(h->path.seq, meta__frame_seq(h->leaf));
	return 0;
}

int meta__tree_leaf_again(struct meta *m, uint32_t shard, const struct meta_key *key,
			  struct meta__hint **out)
{
	int err;

	do
		err = meta__tree_leaf(m, NULL, shard, key, out);
	while (unlikely(m->home) && err == META__MISSES);
	return err;
}

int meta__tree_path(struct meta *m, struct meta_op *op, uint32_t shard, const struct meta_key *key,
		    struct meta__hint **out)
{
	int err = meta__tree_leaf(m, op, shard, key, out);
	struct meta__hint *h = *out;

	DASSERT(err || h->leaf);
	if (err || meta__frame_state(h->leaf) == FRAME_DIRTY || h->plan == m->cache->plan)
		return err;
	return walk_to_hint(m, op, shard, key, h);
}

void meta__tree_ahead(struct meta *m, uint32_t shard, const struct meta_key *key, uint32_t leaves)
{
	struct meta__path path;
	const struct meta__step *at = &path.at[1];
	uint64_t baddr, gen;

	leaves =
		min_u32(leaves, m->cache->nframes / 256); /* a small cache has other use for them */
	if (m->home || leaves == 0 || meta__tree_walk(m, NULL, shard, key, 1, &path))
		return;
	for (uint32_t i = meta__inner_find(at->frame->page, key) + 1;
	     leaves > 0 && i < meta__page_count(at->frame->page); i++, leaves--) {
		meta__inner_child(at->frame->page, i, &baddr, &gen);
		if (!meta__cache_find(m, baddr) &&
		    meta__cache_want(m, shard, 0, baddr, gen, NULL, NULL))
			return; /* no frame for it now: it was a guess only */
	}
}

/* ---- changing ------------------------------------------------------------------------ */

/* Everything was in memory during the plan, and is kept: a miss now is our mistake. */
static void walk_again(struct meta *m, uint32_t shard, const struct meta_key *key, uint32_t level,
		       struct meta__path *path)
{
	int err;

	do /* a borrower's search may end early: meta_cache.c (10) */
		err = meta__tree_walk(m, NULL, shard, key, level, path);
	while (unlikely(m->home) && err == META__MISSES);
	/* meta_tx.c (1) */
	ASSERT(err == 0 || (err == -ENOENT && m->shard[shard].height == 0));
}

static void set_root(struct meta *m, uint32_t shard, uint64_t baddr, uint64_t gen, uint32_t height)
{
	struct meta__shard *s = &m->shard[shard];

	ASSERT((height == 0) == (baddr == 0));
	ASSERT(height <= META_PAGE_LEVELS_MAX);
	s->root_baddr = baddr;
	s->root_gen = gen;
	s->height = height;
	s->changed = true;
}

/* Make the page at `level` of the path dirty, so that its child above (or the root) follows it. */
static struct meta__frame *dirty_step(struct meta *m, uint32_t shard, struct meta__path *path,
				      uint32_t level)
{
	struct meta__step *at = &path->at[level];
	const uint64_t was = meta__frame_baddr(at->frame);
	struct meta__frame *f = meta__cache_dirty(m, at->frame);

	if (meta__frame_baddr(f) == was) /* it is dirty already: its parent names it */
		return f;
	at->frame = f;
	ASSERT(level + 1 == path->height ||
	       meta__frame_state(at[1].frame) == FRAME_DIRTY); /* (1) */
	if (level + 1 == path->height)
		set_root(m, shard, meta__frame_baddr(f), f->gen, path->height);
	else
		meta__inner_set(at[1].frame->page, at[1].index, meta__frame_baddr(f), f->gen);
	return f;
}

static void dirty_path(struct meta *m, uint32_t shard, const struct meta_key *key, uint32_t level,
		       struct meta__path *path)
{
	ASSERT(path->height <= META_PAGE_LEVELS_MAX);
	ASSERT(level <= path->height);
	for (uint32_t l = path->height; l-- > level;) {
		dirty_step(m, shard, path, l);
		if (l > 0)
			meta__page_lower(path->at[l].frame->page, key);
	}
}

static void changed(struct meta *m, struct meta__frame *f, uint64_t seq)
{
	ASSERT(meta__frame_state(f) == FRAME_DIRTY); /* (4) */
	if (unlikely(m->home))
		meta__borrow_changed(m, f);
	else
		meta__frame_seq_set(f, max_u64(meta__frame_seq(f), seq));
}

/* A page of two: the root that was, and its new right neighbour. */
static void grow_root(struct meta *m, uint32_t shard, struct meta__frame *left,
		      const struct meta_key *sep, struct meta__frame *right, uint64_t seq)
{
	const struct meta_key lowest = { { 0, 0, 0 } };
	uint32_t level = left->level + 1;
	struct meta__frame *root = meta__cache_new(m, shard, level, &lowest, seq);

	DASSERT(left->level == right->level);
	DASSERT(left->level + 1 == m->shard[shard].height);
	meta__inner_insert(root->page, 0, &lowest, meta__frame_baddr(left), left->gen);
	meta__inner_insert(root->page, 1, sep, meta__frame_baddr(right), right->gen);
	set_root(m, shard, meta__frame_baddr(root), root->gen, level + 1);
}

/*
 * `right` was split off the page of the path at right->level: its parent gets one more child, and
 * is split too when it is full.  Children that come in ascending order leave a page that is 5/6
 * full; the 68 places in it are more than one transaction can split pages.
 */
static void add_child(struct meta *m, uint32_t shard, struct meta__path *path,
		      struct meta__frame *right, struct meta_key sep, uint64_t seq)
{
	static_assert(META_INNER_MAX / 6 > META__TX_RECORDS_MAX,
		      "one split a page and transaction");

	for (uint32_t l = right->level + 1; l < path->height; l++) {
		struct meta__frame *parent = path->at[l].frame, *more;
		uint32_t i = path->at[l].index + 1, count = meta__page_count(parent->page), at;
		struct meta_key low = meta__page_first(path->at[l - 1].frame->page);

		changed(m, parent, seq);
		meta__page_lower(parent->page, &low); /* sep is above it, so also above child 0 */
		DASSERT(i <= count);
		DASSERT(count <= META_INNER_MAX);
		if (count < META_INNER_MAX) {
			meta__inner_insert(parent->page, i, &sep, meta__frame_baddr(right),
					   right->gen);
			return;
		}
		at = i == count ? count - count / 6 : count / 2;
		low = meta__inner_key(parent->page, at);
		more = meta__cache_new(m, shard, l, &low, seq);
		meta__page_split(parent->page, more->page, at);
		if (i <= at)
			meta__inner_insert(parent->page, i, &sep, meta__frame_baddr(right),
					   right->gen);
		else
			meta__inner_insert(more->page, i - at, &sep, meta__frame_baddr(right),
					   right->gen);
		sep = low;
		right = more;
	}
	grow_root(m, shard, path->at[path->height - 1].frame, &sep, right, seq);
}

/* Returns the first key of a name's hash: before all names and objects with it. */
static struct meta_key hash_begin(const struct meta_key *key)
{
	return (struct meta_key){ { key->w[0], key->w[1] >> 40 << 40, 0 } };
}

static bool same_hash(const struct meta_key *a, const struct meta_key *b)
{
	return a->w[0] == b->w[0] && a->w[1] >> 40 == b->w[1] >> 40;
}

/* Returns true if the new record continues a run of one kind: a file that grows. */
static bool is_run(const struct meta__frame *leaf, uint32_t pos, const struct meta_key *key)
{
	struct meta_key before;

	if (pos == 0 || leaf->last_pos + 1 != pos)
		return false;
	before = meta__leaf_key(leaf->page, pos - 1);
	return meta__key_class(&before) == meta__key_class(key) &&
	       meta__key_kind(&before) == meta__key_kind(key);
}

/* Returns where to split a full leaf for a record of `bytes` at pos. */
static uint32_t split_at(const struct meta__frame *leaf, uint32_t pos, const struct meta_key *key,
			 uint32_t bytes, bool last)
{
	const uint32_t count = meta__page_count(leaf->page);
	const bool run = is_run(leaf, pos, key);

	DASSERT(pos <= count);
	DASSERT(count > 0);
	/* A run of ascending keys leaves full pages. */
	if (pos == count && (run || last))
		return count;
	if (run)
		return pos;
	return meta__leaf_middle(leaf->page, pos, bytes);
}

/* Would all from `at` on fit into one leaf, with one of `bytes` more? */
static bool right_fits(const struct meta__frame *leaf, uint32_t at, uint32_t bytes)
{
	for (uint32_t i = at; i < meta__page_count(leaf->page); i++) {
		const void *value;
		uint32_t len;

		meta__leaf_value(leaf->page, i, &value, &len);
		bytes += meta__leaf_bytes(len);
	}
	return bytes <= META__LEAF_SPACE;
}

/* A record between the halves goes to the half that has its hash, if it fits. */
static bool goes_right(const struct meta__frame *leaf, uint32_t at, uint32_t pos,
		       const struct meta_key *key, uint32_t bytes)
{
	struct meta_key next;

	if (pos != at || at == meta__page_count(leaf->page))
		return pos >= at;
	next = meta__leaf_key(leaf->page, at);
	return same_hash(key, &next) && right_fits(leaf, at, bytes);
}

/* Moves the split a few records earlier, so that a name and its objects stay in one leaf: opening a
 * small file then reads one. */
static uint32_t split_between(const struct meta__frame *leaf, uint32_t at, uint32_t pos,
			      const struct meta_key *key, uint32_t bytes)
{
	const uint32_t least = at > TOGETHER_MAX ? at - TOGETHER_MAX : 1;
	struct meta_key right = *key, left;
	uint32_t to = at;

	DASSERT(at <= meta__page_count(leaf->page));
	if (!goes_right(leaf, at, pos, key, bytes) || pos > at)
		right = meta__leaf_key(leaf->page, at);
	for (; to >= least; right = left) {
		left = meta__leaf_key(leaf->page, to - 1);
		if (!same_hash(&left, &right))
			return right_fits(leaf, to, bytes) ? to : at;
		to--;
	}
	return at;
}

static void split_and_put(struct meta *m, uint32_t shard, struct meta__path *path, uint32_t pos,
			  const struct meta_key *key, const void *value, uint32_t value_len,
			  uint64_t seq)
{
	struct meta__frame *left = path->at[0].frame, *right;
	const uint32_t bytes = meta__leaf_bytes(value_len);
	const uint32_t half = split_at(left, pos, key, bytes, !path->has_hi);
	const uint32_t at = split_between(left, half, pos, key, bytes);
	const bool to_right = goes_right(left, at, pos, key, bytes);
	struct meta_key sep, last;

	right = meta__cache_new(m, shard, 0, key, seq);
	meta__page_split(left->page, right->page, at);
	if (to_right || (pos == at && meta__leaf_free(left->page) < bytes)) {
		meta__leaf_insert(right->page, pos - at, key, value, value_len);
		right->last_pos = pos - at;
	} else {
		meta__leaf_insert(left->page, pos, key, value, value_len);
		left->last_pos = pos;
	}
	ASSERT(meta__page_count(left->page) > 0); /* (3) */
	ASSERT(meta__page_count(right->page) > 0);
	sep = meta__leaf_key(right->page, 0);
	last = meta__leaf_key(left->page, meta__page_count(left->page) - 1);
	if (!same_hash(&last, &sep))
		sep = hash_begin(&sep);          /* a lookup asks for the first name of its hash */
	DASSERT(meta__key_cmp(&last, &sep) < 0); /* (2) */
	meta__page_set_first(right->page, &sep);
	m->shard[shard].shape++; /* (5) */
	add_child(m, shard, path, right, sep, seq);
}

/* The leaf of key, dirty; most often it is already, and then so are its ancestors: (1). */
static struct meta__hint *leaf_to_change(struct meta *m, uint32_t shard, const struct meta_key *key)
{
	struct meta__hint *h = hint_for(m, shard, key);
	bool holds = hint_holds(m, shard, h, key);

	if (holds && meta__frame_state(h->leaf) == FRAME_DIRTY)
		return h;
	walk_again(m, shard, key, 0, &h->path);
	dirty_path(m, shard, key, 0, &h->path);
	if (!holds)
		h->pos = UINT32_MAX;
	hint_set(m, shard, h);
	return h;
}

/* The record goes into the leaf as it is; false: the leaf must be split first. */
static bool put_in_place(struct meta__frame *leaf, const struct meta_key *key, const void *value,
			 uint32_t value_len, uint32_t *pos)
{
	DASSERT(leaf->level == 0); /* (4) */
	DASSERT(meta__frame_state(leaf) == FRAME_DIRTY);
	if (meta__leaf_find_near(leaf->page, key, pos)) {
		if (meta__leaf_replace(leaf->page, *pos, value, value_len))
			return true;
		meta__leaf_remove(leaf->page, *pos);
	}
	if (meta__leaf_free(leaf->page) < meta__leaf_bytes(value_len))
		return false;
	meta__leaf_insert(leaf->page, *pos, key, value, value_len);
	leaf->last_pos = *pos;
	return true;
}

void meta__tree_put(struct meta *m, uint32_t shard, const struct meta_key *key, const void *value,
		    uint32_t value_len, uint64_t seq)
{
	struct meta__shard *s = &m->shard[shard];
	struct meta__path path;
	struct meta__frame *leaf;
	struct meta__hint *h;

	DASSERT(shard < m->nshards);
	DASSERT(value_len <= META_VALUE_MAX);
	if (s->height == 0) {
		leaf = meta__cache_new(m, shard, 0, key, seq);
		set_root(m, shard, meta__frame_baddr(leaf), leaf->gen, 1);
		s->shape++;
	}
	h = leaf_to_change(m, shard, key);
	changed(m, h->leaf, seq);
	if (put_in_place(h->leaf, key, value, value_len, &h->pos))
		return;
	walk_again(m, shard, key, 0, &path);
	dirty_path(m, shard, key, 0, &path); /* it is; but the key may be below all of its pages */
	split_and_put(m, shard, &path, h->pos, key, value, value_len, seq);
}

void meta__tree_del(struct meta *m, uint32_t shard, const struct meta_key *key, uint64_t seq)
{
	struct meta__hint *h;

	DASSERT(shard < m->nshards);
	if (m->shard[shard].height == 0)
		return;
	h = leaf_to_change(m, shard, key);
	if (!meta__leaf_find_near(h->leaf->page, key, &h->pos))
		return;
	changed(m, h->leaf, seq);
	meta__leaf_remove(h->leaf->page, h->pos);
}

void meta__tree_touch(struct meta *m, uint32_t shard, const struct meta_key *key, uint32_t level)
{
	struct meta__path path;

	ASSERT(!m->home);
	ASSERT(level < META_PAGE_LEVELS_MAX);
	walk_again(m, shard, key, level, &path);
	dirty_path(m, shard, key, level, &path);
}

/* ---- giving pages up ------------------------------------------------------------------- */

static struct meta__frame *sibling(struct meta *m, const struct meta__step *parent, int32_t step)
{
	uint32_t i = parent->index + (uint32_t)step;
	uint64_t baddr, gen;
	struct meta__frame *f;

	DASSERT(step == 1 || step == -1);
	if (i >= meta__page_count(parent->frame->page)) /* -1 too */
		return NULL;
	meta__inner_child(parent->frame->page, i, &baddr, &gen);
	f = meta__cache_find(m, baddr);
	return f && f->gen == gen && f->level + 1 == parent->frame->level ? f : NULL;
}

/* The page at `level` and a neighbour become one, if that one is in memory and they fit. */
static bool merge(struct meta *m, uint32_t shard, struct meta__path *path, uint32_t level,
		  uint64_t seq)
{
	struct meta__step *at = &path->at[level], *parent = &path->at[level + 1];
	struct meta__frame *left = at->frame, *right = sibling(m, parent, 1);

	if (!right || !meta__page_holds(left->page, right->page)) {
		right = left;
		left = sibling(m, parent, -1);
		if (!left || !meta__page_holds(left->page, right->page))
			return false;
		meta__cache_mark(m, left);
		parent->index--;
		at->frame = left;
		left = dirty_step(m, shard, path, level);
	}
	changed(m, left, seq); /* not below right's: sequences ascend */
	DASSERT(left != right);
	DASSERT(left->level == right->level);
	meta__page_append(left->page, right->page);
	meta__cache_drop(m, right);
	ASSERT(meta__frame_state(parent->frame) == FRAME_DIRTY); /* (4) */
	ASSERT(parent->index + 1 < meta__page_count(parent->frame->page));
	meta__inner_remove(parent->frame->page, parent->index + 1);
	return true;
}

/* The root has no child or record left, or one child only. */
static void lower_root(struct meta *m, uint32_t shard, struct meta__frame *root, uint64_t seq)
{
	struct meta__shard *s = &m->shard[shard];
	uint64_t baddr = 0, gen = 0;

	ASSERT(root->level + 1 == s->height);
	ASSERT(meta__frame_baddr(root) == s->root_baddr);
	if (meta__page_count(root->page) == 1 && root->level > 0)
		meta__inner_child(root->page, 0, &baddr, &gen);
	else if (meta__page_count(root->page) > 0)
		return;
	if (baddr == 0)
		s->empty_seq = seq;
	set_root(m, shard, baddr, gen, baddr ? root->level : 0);
	meta__cache_drop(m, root);
}

void meta__tree_tidy(struct meta *m, uint32_t shard, const struct meta_key *key, uint64_t seq)
{
	const struct meta__hint *h = hint_for(m, shard, key);
	struct meta__path path;
	uint32_t level = 0;

	if (hint_holds(m, shard, h, key) && meta__page_used(h->leaf->page) >= META__LEAF_SPARSE)
		return;
	walk_again(m, shard, key, 0, &path);
	if (path.height == 0 || meta__frame_state(path.at[0].frame) != FRAME_DIRTY ||
	    meta__page_used(path.at[0].frame->page) >= META__LEAF_SPARSE)
		return;
	for (; level + 1 < path.height; level++) {
		struct meta__frame *f = path.at[level].frame, *parent = path.at[level + 1].frame;

		if (meta__page_used(f->page) >= META__LEAF_SPARSE)
			break;
		if (meta__page_count(f->page) == 0) {
			changed(m, parent, seq);
			meta__inner_remove(parent->page, path.at[level + 1].index);
			meta__cache_drop(m, f);
		} else if (!merge(m, shard, &path, level, seq)) {
			break;
		}
		m->shard[shard].shape++; /* (5) */
	}
	if (level + 1 == path.height) {
		lower_root(m, shard, path.at[level].frame, seq);
		m->shard[shard].shape++;
	}
}
