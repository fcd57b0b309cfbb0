/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Where a tree is broken, finds its leaves in the page zones.
 *
 *        root           the range of a damaged page is a hole of keys; so is all of a shard
 *       /    \          whose newest root may be lost
 *      .      x
 *     / \    : :        every whole leaf of the shard that has keys of a hole, the newest first:
 *    L   L   L L L'     a key counts as in the newest leaf that covers it, present or not
 *
 *  (1) A leaf is accepted if it is whole, is at its own address, belongs to a mount that may have
 *      written to its zone, and its directories belong to its shard by the store's secret hash:
 *      leaves of an earlier store, or made by a client, are not [sim/rot].
 *  (2) Records that were in the tree once, and no longer, are in doubt: in leaves that are no newer
 *      than the parent of a damaged leaf says of it (one that was written early may be of the same
 *      generation), or that a newer one overlaps [sim/rot].
 *  (3) Each change in the log takes precedence over any page: pages are written when the log that
 *      changed them is durable, and the log is trimmed when they are in roots [sim/rot].
 */
#include "meta/engine/meta_cover.h"
#include "meta/offline/meta_raw_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct hole {
	uint32_t shard;
	struct meta_key lo, hi;
	bool has_hi;
	uint64_t gen; /* of the leaf that was there; 0: unknown (2) */
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
	struct meta__cover newer; /* keys covered by leaves newer than the current one */
};

/* Room for one more. */
static bool room(void **list, uint64_t count, uint64_t *max, size_t each)
{
	uint64_t more = *max ? 2 * *max : 64;
	void *grown;

	ASSERT(count <= *max);
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

	ASSERT(hole->shard < s->r->geo.nshards);
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

	ASSERT(at->why);
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

	ASSERT(shard < s->r->geo.nshards);
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
		ASSERT(way.steps <= META_PAGE_LEVELS_MAX);
		at = &way.step[way.steps - 1];
		if (at->why)
			err = damaged_page(s, at);
		if (err || !at->has_hi || meta__key_cmp(&at->hi, &key) <= 0)
			return err;
		key = at->hi;
	}
}

static int hole_cmp(const void *a, const void *b)
{
	const struct hole *x = a, *y = b;

	if (x->shard != y->shard)
		return x->shard < y->shard ? -1 : 1;
	return meta__key_cmp(&x->lo, &y->lo);
}

/* They are sorted, and none reaches into another: the last that begins at or before key; NULL:
 * it begins before all. */
static const struct hole *hole_before(const struct salvage *s, uint32_t shard,
				      const struct meta_key *key)
{
	const struct hole want = { .shard = shard, .lo = *key };
	uint64_t lo = 0, hi = s->holes;

	ASSERT(shard < s->r->geo.nshards);
	while (lo < hi) {
		const uint64_t mid = (lo + hi) / 2;

		if (hole_cmp(&s->hole[mid], &want) <= 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo ? &s->hole[lo - 1] : NULL;
}

static bool reaches(const struct hole *h, uint32_t shard, const struct meta_key *key)
{
	return h && h->shard == shard && (!h->has_hi || meta__key_cmp(key, &h->hi) < 0);
}

static const struct hole *hole_of(const struct salvage *s, uint32_t shard,
				  const struct meta_key *key)
{
	const struct hole *h = hole_before(s, shard, key);

	ASSERT(!h || hole_cmp(h, &(struct hole){ .shard = shard, .lo = *key }) <= 0);
	return reaches(h, shard, key) ? h : NULL;
}

/* ---- leaves ---------------------------------------------------------------------------- */

/* Returns the header of a zone, or of one of its twins. */
static const struct meta__zone_seen *head_of(const struct meta_raw *r, uint32_t zone)
{
	const struct meta__zone_seen *z = NULL;

	ASSERT(zone < r->geo.nzones);
	for (uint32_t at = zone; !z && at != META__ZONE_NONE; at = meta__raw_twin_zone(r, at))
		z = meta__raw_zone(r, at);
	return z;
}

static bool is_ours(const struct meta_raw *r, const void *page, const struct meta__page_look *look,
		    uint32_t zone)
{
	const struct meta__zone_seen *z = head_of(r, zone);

	ASSERT(zone < r->geo.nzones);
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

/* The last that begins at or before its last key is one that does not end before its first. */
static bool meets_hole(const struct salvage *s, const struct found_leaf *l)
{
	ASSERT(l->shard < s->r->geo.nshards);
	return reaches(hole_before(s, l->shard, &l->last), l->shard, &l->first);
}

/* Leaves of this zone, by its bytes or those of a twin: `where`. */
static int scan_zone(struct salvage *s, uint32_t zone, uint32_t where)
{
	struct meta_raw *r = s->r;
	const uint8_t *bytes = meta__raw_zone_bytes(r, where);

	ASSERT(s->holes > 0);
	ASSERT(zone < r->geo.nzones);
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

/* All copies of a leaf are one. */
static void leave_one_of_each(struct salvage *s)
{
	uint64_t kept = 0;

	for (uint64_t i = 0; i < s->leaves; i++)
		if (kept == 0 || newest_first(&s->leaf[kept - 1], &s->leaf[i]) != 0)
			s->leaf[kept++] = s->leaf[i];
	ASSERT(kept <= s->leaves);
	s->leaves = kept;
}

static bool is_to_be_scanned(const struct meta_raw *r, uint32_t zone)
{
	ASSERT(zone < r->geo.nzones);
	return meta__geo_zone_there(&r->geo, zone) &&
	       meta__raw_believes(r, META_BADDR_DRIVE(meta__geo_zone_baddr(&r->geo, zone)));
}

static int scan(struct salvage *s)
{
	const struct meta_raw *r = s->r;
	int err = 0;

	ASSERT(s->leaves == 0);
	for (uint32_t i = 0; !err && i < r->geo.nzones; i++) {
		const struct meta__zone_seen *z = meta__raw_zone(r, i);
		uint32_t at = i;

		if (z && z->kind != META__ZONE_PAGE)
			continue;
		for (; !err && at != META__ZONE_NONE; at = meta__raw_twin_zone(r, at))
			if (is_to_be_scanned(r, at))
				err = scan_zone(s, i, at);
	}
	if (s->leaves)
		qsort(s->leaf, s->leaves, sizeof(*s->leaf), newest_first);
	leave_one_of_each(s);
	s->loss->leaves = s->leaves;
	return err;
}

/* Where leaves begin and end. */
static int cover_make(struct salvage *s)
{
	struct meta__cover_point *end = calloc(2 * s->leaves + 1, sizeof(*end));

	ASSERT(s->leaves == 0 || s->holes > 0);
	if (!end)
		return -ENOMEM;
	for (uint64_t i = 0; i < s->leaves; i++) {
		const struct found_leaf *l = &s->leaf[i];

		end[2 * i] = (struct meta__cover_point){ l->first, l->shard };
		end[2 * i + 1] = (struct meta__cover_point){ l->last, l->shard };
	}
	return meta__cover_make(&s->newer, end, 2 * s->leaves);
}

static int take_leaf(struct salvage *s, uint64_t at)
{
	const struct found_leaf *l = &s->leaf[at];
	const struct meta__page_want want = { .baddr = l->baddr, .gen = l->gen, .shard = l->shard };
	const char *why;
	const void *page = meta__raw_page(s->r, &want, &why);

	ASSERT(at < s->leaves);
	ASSERT(at == 0 || !is_newer(l, &s->leaf[at - 1])); /* (2): the newest first */
	/* A newer one has keys among its own: leaves of one tree do not; this one had left it. */
	const bool replaced = meta__cover_meets(&s->newer, l->shard, &l->first, &l->last);
	int err = 0;

	for (uint32_t i = 0; page && !err && i < meta__page_count(page); i++) {
		const struct hole *h;
		struct meta_key key;
		const void *value;
		uint32_t len;

		meta__page_record(page, i, &key, &value, &len);
		h = hole_of(s, l->shard, &key);
		if (!h || meta__cover_has(&s->newer, l->shard, &key))
			continue;
		if (replaced || h->gen >= l->gen) /* (2) */
			err = meta__raw_over_doubt(s->r, l->shard, &key, value, len, l->gen);
		else
			err = meta__raw_over_add(s->r, l->shard, &key, false, value, len, l->gen);
	}
	meta__cover_add(&s->newer, l->shard, &l->first, &l->last);
	return err;
}

int meta_raw_salvage(struct meta_raw *r, struct meta_raw_loss *loss)
{
	struct salvage s = { .r = r, .loss = loss };
	int err = r->problem[0] ? -ENODATA : 0;

	memset(loss, 0, sizeof(*loss));
	for (uint32_t i = 0; !err && i < r->geo.nshards; i++)
		err = look_at_shard(&s, i);
	if (!err && s.holes) {
		ASSERT(s.holes <= s.holes_max);
		qsort(s.hole, s.holes, sizeof(*s.hole), hole_cmp);
		err = scan(&s);
	}
	if (!err)
		err = cover_make(&s);
	for (uint64_t i = 0; !err && i < s.leaves; i++)
		err = take_leaf(&s, i);
	if (!err && r->log.broken)
		loss->log_missing = r->log.last + 1;
	loss->zones = meta__raw_zones_unknown(r);
	if (!err) /* (3); sorts the records over the trees */
		err = meta__raw_log_over(r, r->log.broken);
	meta__cover_free(&s.newer);
	free(s.hole);
	free(s.leaf);
	return err;
}
