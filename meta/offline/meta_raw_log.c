/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The log of an unmounted store: its blocks, those that a mount would replay, and their changes,
 * laid over the trees (FORMAT.md 6.4).
 *
 *   zones by order    [1 2 3 | . 5 6 7]    first: not trimmed by any block
 *                          ^trim ^gap      known: durable according to some block or root
 *
 *  (1) A change over a tree takes precedence over the tree; of several the last one.
 *  (2) Blocks after a gap are shown, and not used: a mount would not replay them
 *      [test_meta_dump:changed_byte_of_a_log_block_is_named_and_so_is_the_gap].
 *  (3) Zones of the same order are copies: all of their blocks are shown, one of each is used.
 */
#include "meta/offline/meta_raw_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- which zones ------------------------------------------------------------------- */

/* A root that is surely its shard's newest: an older one may name a log of an earlier mount. */
static const struct meta__root_seen *sure_root(const struct meta_raw *r, uint32_t shard)
{
	ASSERT(shard < r->geo.nshards);
	return r->root[shard].lost ? NULL : meta__raw_root(r, shard);
}

/* Without a root: the newest log that exists. */
static uint64_t newest_epoch(const struct meta_raw *r)
{
	uint64_t newest = 0;

	ASSERT(r->zone);
	for (uint32_t i = 0; i < r->geo.nzones; i++) {
		const struct meta__zone_seen *z = meta__raw_zone(r, i);

		if (z && z->kind == META__ZONE_LOG)
			newest = max_u64(newest, z->epoch);
	}
	return newest;
}

/* As a mount does: the log of the oldest root, and the other roots' positions in it. */
static void ask_roots(struct meta_raw *r)
{
	struct meta__raw_log *l = &r->log;

	ASSERT(l->blocks == 0);
	l->epoch = UINT64_MAX;
	for (uint32_t i = 0; i < r->geo.nshards; i++) {
		const struct meta__root_seen *s = sure_root(r, i);

		if (s)
			l->epoch = min_u64(l->epoch, s->log_epoch);
	}
	if (l->epoch == UINT64_MAX)
		l->epoch = newest_epoch(r);
	for (uint32_t i = 0; i < r->geo.nshards; i++) {
		const struct meta__root_seen *s = sure_root(r, i);

		if (s && s->log_epoch == l->epoch)
			l->base = s->log_base;
		if (s)
			l->known = max_u64(l->known, s->log_epoch == l->epoch ? s->root.log_seq
									      : s->log_base);
	}
}

static bool is_of_log(const struct meta_raw *r, uint32_t zone)
{
	const struct meta__zone_seen *z = meta__raw_zone(r, zone);

	ASSERT(zone < r->geo.nzones);
	return z && z->kind == META__ZONE_LOG && z->epoch == r->log.epoch;
}

static int find_zones(struct meta_raw *r)
{
	struct meta__raw_log *l = &r->log;
	uint64_t newest = 0, oldest = 0;

	ASSERT(!l->zone);
	l->zone = calloc(r->geo.nzones, sizeof(*l->zone));
	if (!l->zone)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->geo.nzones; i++) {
		if (!is_of_log(r, i) || meta__raw_zone(r, i)->order <= newest)
			continue;
		newest = meta__raw_zone(r, i)->order;
		oldest = meta__raw_zone(r, i)->oldest_order;
	}
	for (uint32_t i = 0; i < r->geo.nzones; i++) {
		uint32_t k = l->zones;

		if (!is_of_log(r, i) || meta__raw_zone(r, i)->order < oldest)
			continue;
		for (; k && meta__raw_zone(r, l->zone[k - 1])->order > meta__raw_zone(r, i)->order;
		     k--)
			l->zone[k] = l->zone[k - 1];
		ASSERT(l->zones < r->geo.nzones);
		l->zone[k] = i;
		l->zones++;
	}
	return 0;
}

/* ---- which blocks --------------------------------------------------------------------- */

static struct meta__raw_block *block_new(struct meta__raw_log *l)
{
	ASSERT(l->blocks <= l->blocks_max);
	if (l->blocks == l->blocks_max) {
		uint32_t max = l->blocks_max ? 2 * l->blocks_max : 64;
		struct meta__raw_block *block = realloc(l->block, max * sizeof(*block));

		if (!block)
			return NULL;
		l->block = block;
		l->blocks_max = max;
	}
	return &l->block[l->blocks++];
}

/* Every place where a block with the right tag begins. */
static int scan_zone(struct meta_raw *r, uint32_t zone)
{
	const struct meta__zone_seen *z = meta__raw_zone(r, zone);
	uint64_t tag = meta__log_tag(&r->m, z->epoch, z->order);
	const uint8_t *bytes = meta__raw_zone_bytes(r, zone);

	ASSERT(z);
	ASSERT(z->kind == META__ZONE_LOG);
	if (!bytes)
		return -ENOMEM;
	for (uint32_t at = 1; at < r->geo.zone_end;) {
		const uint8_t *p = bytes + (size_t)at * META__BLOCK;
		struct meta__raw_block b = { .zone = zone, .at = at }, *to;

		if (meta__log_peek(p, tag) == 0) {
			at++;
			continue;
		}
		if (meta__log_open(p, r->geo.zone_end - at, tag, &b.head)) {
			b.head = (struct meta__log_head){ .nblocks = 1 };
			b.why = "its checksum is wrong";
		}
		to = block_new(&r->log);
		if (!to)
			return -ENOMEM;
		*to = b;
		ASSERT(b.head.nblocks > 0);
		ASSERT(at + b.head.nblocks <= r->geo.zone_end);
		at += b.head.nblocks;
	}
	return 0;
}

static int by_seq(const void *a, const void *b)
{
	const struct meta__raw_block *x = *(struct meta__raw_block *const *)a;
	const struct meta__raw_block *y = *(struct meta__raw_block *const *)b;

	ASSERT(!x->why);
	ASSERT(!y->why);
	if (x->head.seq != y->head.seq)
		return x->head.seq < y->head.seq ? -1 : 1;
	return x < y ? -1 : x > y; /* of copies the first */
}

/* (3) */
static int choose(struct meta_raw *r)
{
	struct meta__raw_log *l = &r->log;
	uint32_t kept = 0;

	l->whole = calloc(l->blocks + 1, sizeof(struct meta__raw_block *));
	if (!l->whole)
		return -ENOMEM;
	for (uint32_t i = 0; i < l->blocks; i++)
		if (!l->block[i].why)
			l->whole[l->wholes++] = &l->block[i];
	qsort(l->whole, l->wholes, sizeof(struct meta__raw_block *), by_seq);
	for (uint32_t i = 0; i < l->wholes; i++)
		if (kept == 0 || l->whole[kept - 1]->head.seq != l->whole[i]->head.seq)
			l->whole[kept++] = l->whole[i];
	l->wholes = kept;
	ASSERT(kept <= l->blocks);
	return 0;
}

/* Decides what a mount would replay, and whether it would. */
static void judge(struct meta_raw *r)
{
	struct meta__raw_log *l = &r->log;
	uint64_t end = l->zones ? meta__geo_zone_baddr(&r->geo, l->zone[0]) + 1 : 0;

	ASSERT(l->wholes <= l->blocks);
	for (uint32_t i = 0; i < l->blocks; i++) {
		l->durable = max_u64(l->durable, l->block[i].head.durable);
		l->trim = max_u64(l->trim, l->block[i].head.trim);
	}
	l->first = max_u64(l->trim, l->base) + 1;
	l->last = l->first - 1;
	for (uint32_t i = 0; i < l->wholes; i++) {
		const struct meta__raw_block *b = l->whole[i];

		if (b->head.seq > l->last + 1)
			continue;
		if (b->head.seq == l->last + 1)
			l->last++;
		end = meta__geo_zone_baddr(&r->geo, b->zone) + b->at + b->head.nblocks;
	}
	ASSERT(l->last + 1 >= l->first);
	l->broken = l->last < max_u64(l->durable, l->known);
	l->gap_baddr = end;
}

int meta__raw_log_scan(struct meta_raw *r)
{
	int err;

	ASSERT(!r->over_log);
	ask_roots(r);
	err = find_zones(r);
	for (uint32_t i = 0; !err && i < r->log.zones; i++)
		err = scan_zone(r, r->log.zone[i]);
	if (!err)
		err = choose(r);
	if (!err)
		judge(r);
	return err;
}

/* ---- over the trees --------------------------------------------------------------------- */

static bool grow(void **p, uint64_t *max, uint64_t want, size_t each)
{
	void *more;

	ASSERT(each > 0);
	if (want <= *max)
		return true;
	want = max_u64(want, 2 * *max);
	more = realloc(*p, want * each);
	if (!more)
		return false;
	*p = more;
	*max = want;
	return true;
}

int meta__raw_over_add(struct meta_raw *r, uint32_t shard, const struct meta_key *key, bool del,
		       const void *value, uint32_t value_len, uint64_t order)
{
	void *over = r->over, *bytes = r->over_bytes;
	bool good = grow(&over, &r->overs_max, r->overs + 1, sizeof(*r->over)) &&
		    grow(&bytes, &r->over_max, r->over_used + META_VALUE_MAX, 1);

	ASSERT(shard < r->geo.nshards);
	r->over = over;
	r->over_bytes = bytes;
	if (!good)
		return -ENOMEM;
	ASSERT(value_len <= META_VALUE_MAX);
	r->over[r->overs++] = (struct meta__raw_over){ .key = *key,
						       .shard = shard,
						       .del = del,
						       .order = order,
						       .value_len = (uint16_t)value_len,
						       .value_at = r->over_used };
	if (value_len)
		memcpy(r->over_bytes + r->over_used, value, value_len);
	r->over_used += value_len;
	return 0;
}

int meta__raw_over_doubt(struct meta_raw *r, uint32_t shard, const struct meta_key *key,
			 const void *value, uint32_t value_len, uint64_t order)
{
	int err = meta__raw_over_add(r, shard, key, false, value, value_len, order);

	ASSERT(err || r->overs > 0);
	if (!err)
		r->over[r->overs - 1].doubt = true;
	return err;
}

static int by_key(const void *a, const void *b)
{
	const struct meta__raw_over *x = a, *y = b;
	int order;

	if (x->shard != y->shard)
		return x->shard < y->shard ? -1 : 1;
	order = meta__key_cmp(&x->key, &y->key);
	if (order)
		return order;
	return x->order < y->order ? -1 : x->order > y->order;
}

void meta__raw_over_sort(struct meta_raw *r)
{
	uint64_t kept = 0;

	if (r->overs)
		qsort(r->over, r->overs, sizeof(*r->over), by_key);
	for (uint64_t i = 0; i < r->overs; i++) { /* (1) */
		const struct meta__raw_over *next = &r->over[i + 1];

		if (i + 1 < r->overs && next->shard == r->over[i].shard &&
		    meta__key_cmp(&next->key, &r->over[i].key) == 0)
			continue;
		ASSERT(kept == 0 ||
		       by_key(&r->over[kept - 1], &r->over[i]) < 0); /* (1): one of each key */
		r->over[kept++] = r->over[i];
	}
	r->overs = kept;
}

static int over_block(struct meta_raw *r, const struct meta__raw_block *b, const uint8_t *zone)
{
	struct meta__mut mut[META__TX_RECORDS_MAX];
	struct meta__record_reader reader;
	struct meta__part part;
	int err = 0;

	ASSERT(!b->why);
	ASSERT(zone);
	meta__reader_init(&reader, zone + (size_t)b->at * META__BLOCK, &b->head, r->geo.nshards);
	while (!err && meta__reader_next(&reader, &part, mut) == 1) {
		const struct meta__root_seen *root = meta__raw_root(r, part.shard);

		ASSERT(part.shard < r->geo.nshards);
		if (root && part.seq <= root->root.seq)
			continue;
		for (uint32_t i = 0; !err && i < part.count; i++)
			if (meta__key_class(&mut[i].key) != META__CLASS_RECEIPT ||
			    meta__key_dir(&mut[i].key))
				err = meta__raw_over_add(r, part.shard, &mut[i].key, mut[i].del,
							 mut[i].value, mut[i].value_len,
							 1ull << 63 | r->overs);
	}
	return err;
}

int meta__raw_log_over(struct meta_raw *r, bool all)
{
	const struct meta__raw_log *l = &r->log;
	const uint8_t *zone = NULL;
	int err = 0;

	if (r->over_log)
		return 0;
	r->over_log = true;
	for (uint32_t i = 0; !err && i < l->wholes; i++) {
		const struct meta__raw_block *b = l->whole[i];

		ASSERT(i == 0 || l->whole[i - 1]->head.seq < b->head.seq); /* (3): one of each */
		if (i == 0 || b->zone != l->whole[i - 1]->zone)
			zone = meta__raw_zone_bytes(r, b->zone);
		if (!zone)
			return -ENOMEM;
		if (b->head.seq >= l->first && (all || b->head.seq <= l->last)) /* (2) */
			err = over_block(r, b, zone);
	}
	if (!err)
		meta__raw_over_sort(r);
	return err;
}
