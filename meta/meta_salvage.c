/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Where a tree is broken, its leaves are looked for in the zones of pages.
 *
 *        root           what the damaged page answered for is a hole of keys; so is all of a shard
 *       /    \          whose newest root may be lost
 *      .      x
 *     / \    : :        every whole leaf of the shard that has keys of a hole, the newest first:
 *    L   L   L L L'     a key counts as in the newest leaf that reaches over it, there or not
 *
 *  (1) A leaf is believed that is whole, lies where it says, is of a mount that may have written
 *      to its zone, and whose directories are of its shard, by the store's secret hash: what an
 *      earlier store, or a client, left there is not.
 *  (2) What was in the tree once, and no more, is in doubt: leaves that are no newer than what the
 *      parent of a damaged leaf says of it (one that was written early may be of the same
 *      generation), or that a newer one overlaps.
 *  (3) Each change that the log has counts before any page: pages are written when the log that
 *      changed them is durable, and the log is trimmed when they are in roots.
 */
#include "meta/meta_raw_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct hole {
	uint32_t shard;
	struct meta_key lo, hi;
	bool has_hi;
	uint64_t gen; /* of the leaf that was there; 0: nobody knows (2) */
};

struct found_leaf {
	uint64_t baddr, gen;
	uint32_t order, shard;
	struct meta_key first, last;
};

struct salvage {
	struct meta_raw *r;
	struct meta_raw_loss *loss;
	struct hole *hole;
	uint64_t holes, holes_max;
	struct found_leaf *leaf; /* the newest first */
	uint64_t leaves, leaves_max;
};

/* Room for one more. */
static bool room(void **list, uint64_t count, uint64_t *max, size_t each)
{
	uint64_t more = *max ? 2 * *max : 64;
	void *grown;

	if (count < *max)
		return true;
	grown = realloc(*list, more * each);
	if (!grown)
		return false;
	*list = grown;
	*max = more;
	return true;
}

/* ---- holes ---------------------------------------------------------------------------- */

static int add_hole(struct salvage *s, const struct hole *hole)
{
	void *list = s->hole;
	bool good = room(&list, s->holes, &s->holes_max, sizeof(*s->hole));

	s->hole = list;
	if (!good)
		return -ENOMEM;
	s->hole[s->holes++] = *hole;
	return 0;
}

static int damaged_page(struct salvage *s, const struct meta__raw_step *at)
{
	const struct hole hole = { .shard = at->page.shard,
				   .lo = at->lo,
				   .hi = at->hi,
				   .has_hi = at->has_hi,
				   .gen = at->page.level ? 0 : at->page.gen };

	if (s->loss->pages++ == 0)
		(void)snprintf(s->loss->first, sizeof(s->loss->first),
			       "shard %u: page at drive %u block %llu: %s", at->page.shard,
			       META_BADDR_DRIVE(at->page.baddr),
			       (unsigned long long)META_BADDR_BLOCK(at->page.baddr), at->why);
	return add_hole(s, &hole);
}

/* All leaves of a shard; a root that may be an old one is forgotten. */
static int look_at_shard(struct salvage *s, uint32_t shard)
{
	struct meta__raw_root *root = &s->r->root[shard];
	struct meta_key key = { { 0 } };
	struct meta__raw_way way;
	int err = 0;

	if (root->lost || root->slot < 0) {
		root->slot = root->copy = -1;
		s->loss->shards++;
		return add_hole(s, &(struct hole){ .shard = shard });
	}
	for (;;) {
		const struct meta__raw_step *at;

		(void)!meta__raw_go(s->r, shard, &key, 0, &way);
		if (way.steps == 0)
			return 0;
		at = &way.step[way.steps - 1];
		if (at->why)
			err = damaged_page(s, at);
		if (err || !at->has_hi || meta__key_cmp(&at->hi, &key) <= 0)
			return err;
		key = at->hi;
	}
}

static const struct hole *hole_of(const struct salvage *s, uint32_t shard,
				  const struct meta_key *key)
{
	for (uint64_t i = 0; i < s->holes; i++) {
		const struct hole *h = &s->hole[i];

		if (h->shard == shard && meta__key_cmp(&h->lo, key) <= 0 &&
		    (!h->has_hi || meta__key_cmp(key, &h->hi) < 0))
			return h;
	}
	return NULL;
}

/* ---- leaves ---------------------------------------------------------------------------- */

static bool is_ours(const struct meta_raw *r, const void *page, const struct meta__page_look *look,
		    uint32_t zone)
{
	const struct meta__zone_seen *z = meta__raw_zone(r, zone);

	if (look->level || look->shard >= r->geo.nshards || (z && look->gen >> 32 < z->epoch))
		return false;
	for (uint32_t i = 0; i < look->count; i++) {
		const struct meta_key key = meta__leaf_key(page, i);

		if (meta__key_dir(&key) &&
		    meta__dir_shard(&r->m, meta__key_dir(&key)) != look->shard)
			return false;
	}
	return true;
}

static bool meets_hole(const struct salvage *s, const struct found_leaf *l)
{
	for (uint64_t i = 0; i < s->holes; i++) {
		const struct hole *h = &s->hole[i];

		if (h->shard == l->shard && meta__key_cmp(&h->lo, &l->last) <= 0 &&
		    (!h->has_hi || meta__key_cmp(&l->first, &h->hi) < 0))
			return true;
	}
	return false;
}

static int scan_zone(struct salvage *s, uint32_t zone)
{
	struct meta_raw *r = s->r;
	const uint8_t *bytes = meta__raw_zone_bytes(r, zone);

	if (!bytes)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->geo.zone_pages; i++) {
		const uint8_t *page = bytes + (1 + (size_t)i * META_PAGE_BLOCKS) * META__BLOCK;
		struct meta__page_look look;
		struct found_leaf l;
		void *list = s->leaf;

		if (meta__page_look(page, &look) || !is_ours(r, page, &look, zone)) /* (1) */
			continue;
		l = (struct found_leaf){
			.baddr = meta__geo_zone_baddr(&r->geo, zone) + 1 + i * META_PAGE_BLOCKS,
			.gen = look.gen,
			.order = look.order,
			.shard = look.shard,
			.first = look.first,
			.last = meta__leaf_key(page, look.count - 1),
		};
		if (le64_get(((const struct meta_page_disk *)page)->baddr) != l.baddr ||
		    !meets_hole(s, &l))
			continue;
		if (!room(&list, s->leaves, &s->leaves_max, sizeof(l)))
			return -ENOMEM;
		s->leaf = list;
		s->leaf[s->leaves++] = l;
	}
	return 0;
}

static bool is_newer(const struct found_leaf *x, const struct found_leaf *y)
{
	return x->gen != y->gen ? x->gen > y->gen : x->order > y->order;
}

static int newest_first(const void *a, const void *b)
{
	const struct found_leaf *x = a, *y = b;

	if (is_newer(x, y) || is_newer(y, x))
		return is_newer(x, y) ? -1 : 1;
	return x->baddr < y->baddr ? -1 : x->baddr > y->baddr;
}

static int scan(struct salvage *s)
{
	const struct meta_raw *r = s->r;
	int err = 0;

	for (uint32_t i = 0; !err && i < r->geo.nzones; i++) {
		const struct meta__zone_seen *z = meta__raw_zone(r, i);

		if (meta__geo_zone_there(&r->geo, i) && (!z || z->kind == META__ZONE_PAGE))
			err = scan_zone(s, i);
	}
	if (s->leaves)
		qsort(s->leaf, s->leaves, sizeof(*s->leaf), newest_first);
	s->loss->leaves = s->leaves;
	return err;
}

/* A newer one reaches over this key. */
static bool is_over(const struct salvage *s, uint64_t before, const struct meta_key *key)
{
	for (uint64_t i = 0; i < before; i++)
		if (s->leaf[i].shard == s->leaf[before].shard &&
		    meta__key_cmp(&s->leaf[i].first, key) <= 0 &&
		    meta__key_cmp(key, &s->leaf[i].last) <= 0)
			return true;
	return false;
}

/* A newer one has keys among its own: leaves of one tree do not, so this one had left it (2). */
static bool is_replaced(const struct salvage *s, uint64_t at)
{
	const struct found_leaf *l = &s->leaf[at];

	for (uint64_t i = 0; i < at; i++)
		if (s->leaf[i].shard == l->shard && is_newer(&s->leaf[i], l) &&
		    meta__key_cmp(&s->leaf[i].first, &l->last) <= 0 &&
		    meta__key_cmp(&l->first, &s->leaf[i].last) <= 0)
			return true;
	return false;
}

static int take_leaf(struct salvage *s, uint64_t at)
{
	const struct found_leaf *l = &s->leaf[at];
	const struct meta__page_want want = { .baddr = l->baddr, .gen = l->gen, .shard = l->shard };
	const char *why;
	const void *page = meta__raw_page(s->r, &want, &why);
	const bool replaced = is_replaced(s, at);
	int err = 0;

	for (uint32_t i = 0; page && !err && i < meta__page_count(page); i++) {
		const struct hole *h;
		struct meta_key key;
		const void *value;
		uint32_t len;

		meta__page_record(page, i, &key, &value, &len);
		h = hole_of(s, l->shard, &key);
		if (!h || is_over(s, at, &key))
			continue;
		if (replaced || h->gen >= l->gen) /* (2) */
			err = meta__raw_over_doubt(s->r, l->shard, &key, value, len, l->gen);
		else
			err = meta__raw_over_add(s->r, l->shard, &key, false, value, len, l->gen);
	}
	return err;
}

int meta_raw_salvage(struct meta_raw *r, struct meta_raw_loss *loss)
{
	struct salvage s = { .r = r, .loss = loss };
	int err = r->problem[0] ? -ENODATA : 0;

	memset(loss, 0, sizeof(*loss));
	for (uint32_t i = 0; !err && i < r->geo.nshards; i++)
		err = look_at_shard(&s, i);
	if (!err && s.holes)
		err = scan(&s);
	for (uint64_t i = 0; !err && i < s.leaves; i++)
		err = take_leaf(&s, i);
	if (!err && r->log.broken)
		loss->log_missing = r->log.last + 1;
	for (uint32_t i = 0; i < r->geo.nzones; i++)
		loss->zones += meta__geo_zone_there(&r->geo, i) && !meta__raw_zone(r, i);
	if (!err) /* (3); sorts what lies over the trees */
		err = meta__raw_log_over(r, r->log.broken);
	free(s.hole);
	free(s.leaf);
	return err;
}
