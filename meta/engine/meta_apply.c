/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The apply: makes the changes of a plan, in memory and in the log, and cannot fail.
 *
 * The worst case of a changed leaf: its path becomes dirty (the pages of it that are not yet
 * dirty); if a put does not fit, it splits the leaf, and each page above it once; if the leaf may
 * become sparse, at each level one neighbour is merged.  A split may leave a sparse half, too.  A
 * borrower merges nothing (deletes do not make its leaves sparse, meta_borrow.c): such a half stays
 * until the store's thread takes something out of it.
 *
 * The order: counters, the log record (it carries them), trees.  All within one turn, so
 * nobody sees a part of it; readers learn from the pages which block of the log they wait for.
 */
#include "meta/engine/meta_fresh.h"
#include "meta/engine/meta_lend.h"
#include "meta/format/meta_record.h"
#include "base/num.h"

#include <errno.h>
#include <string.h>

/* Pages that become dirty at worst. */
struct meta__page_need meta__tx_pages(const struct meta *m)
{
	const struct meta__tx *tx = m->tx;
	struct meta__page_need need = tx->clean;

	for (uint32_t i = 0; i < tx->nleaf; i++) {
		const struct meta__tx_leaf *leaf = &tx->leaf[i];
		uint32_t height = m->shard[leaf->shard].height, free_bytes, used;
		DASSERT(!leaf->frame == (height == 0));

		if (!leaf->frame) {
			const bool one = leaf->grow_bytes <= META__LEAF_SPACE;

			need.leaves += one ? 1 : leaf->puts + 1;
			need.uppers += one ? 0 : 1;
			continue;
		}
		free_bytes = meta__leaf_free(leaf->frame->page);
		used = meta__page_used(leaf->frame->page);
		if (leaf->grow_bytes > free_bytes) {
			need.leaves += leaf->puts;
			need.uppers += height;
		}
		if (leaf->shrink_bytes > 0 && (used < leaf->shrink_bytes + META__LEAF_SPARSE ||
					       leaf->grow_bytes > free_bytes)) {
			need.leaves++;
			need.uppers += height - 1;
		}
	}
	return need;
}

bool meta__tx_splits(const struct meta *m)
{
	for (uint32_t i = 0; i < m->tx->nleaf; i++) {
		const struct meta__tx_leaf *leaf = &m->tx->leaf[i];

		if (leaf->frame && leaf->grow_bytes > meta__leaf_free(leaf->frame->page))
			return true;
	}
	return false;
}

/* No reader reads any shard that it changes. */
static bool shards_taken(struct meta *m)
{
	const struct meta__tx *tx = m->tx;
	bool all = !tx->touch || meta__share_take(m, tx->touch_shard);

	ASSERT(m->share);
	ASSERT(!m->home);
	for (uint32_t i = 0; i < tx->nshard; i++) /* of a receipt alone: its counters move */
		all &= meta__share_take(m, tx->shard[i].shard);
	return all;
}

int meta__tx_ready(struct meta *m)
{
	struct meta__tx *tx = m->tx;
	const struct meta__page_need pages = meta__tx_pages(m);
	const uint32_t need = pages.leaves + pages.uppers;
	uint32_t bytes;
	int err;

	DASSERT(!m->home);
	DASSERT(tx->op);
	DASSERT(tx->nmut <= META__TX_RECORDS_MAX);
	if (tx->nmut == 0 && !tx->touch)
		return 0;
	if (m->failed)
		return -EROFS;
	if (need > m->cache->dirty_max) {
		meta__error(m, "one change needs %u pages, more than the cache can take", need);
		return -E2BIG;
	}
	if (unlikely(m->share) && !shards_taken(m))
		return META__NEEDS_ROOM;
	if (need > meta__cache_room(m) ||
	    (need > meta__cache_available(m) && !meta__cache_clear(m, need))) {
		meta__ckpt_make_room(m, need);
		return META__NEEDS_ROOM;
	}
	if (need > meta__cache_available(m))
		return META__NEEDS_ROOM; /* soon */
	err = meta__page_ready(m, pages,
			       (int)tx->op->type == META__OP_TOUCH ||
				       (int)tx->op->type == META__OP_GC_MOVE);
	if (err)
		return err;
	if (tx->logged && tx->nmut > 0) {
		bytes = meta__log_record_bytes(tx->mut, tx->nmut);
		if (bytes > meta__log_record_max(m))
			return -E2BIG;
		if (!meta__log_room(m, bytes)) {
			if (meta__log_full(m, bytes))
				meta__ckpt_want(m);
			return META__NEEDS_ROOM; /* blocks of it are on their way */
		}
	}
	return 0;
}

/* Inode records and directory records are counted. */
static void count_records(struct meta__tx *tx)
{
	for (uint32_t i = 0; i < tx->nmut; i++) {
		const struct meta__mut *mut = &tx->mut[i];
		const enum meta__class class = meta__key_class(&mut->key);

		if (mut->del != tx->existed[i])
			continue; /* neither more nor fewer of them */
		if (class == META__CLASS_DIR && meta__key_index(&mut->key) == 0 &&
		    !meta__is_fragment(meta__key_dir(&mut->key)))
			meta__tx_shard_of(tx, mut->shard)->dirs += mut->del ? -1 : 1;
		else if (class == META__CLASS_OBJ && meta__key_kind(&mut->key) == META__KIND_INODE)
			meta__tx_shard_of(tx, mut->shard)->files += mut->del ? -1 : 1;
	}
}

static void move_counters(struct meta *m)
{
	struct meta__tx *tx = m->tx;

	count_records(tx);
	for (uint32_t i = 0; i < tx->nshard; i++) {
		const struct meta__tx_shard *t = &tx->shard[i];
		struct meta__shard *s = &m->shard[t->shard];
		DASSERT(m->home || !m->share ||
			atomic_load_explicit(&m->share->open[t->shard], memory_order_relaxed) ==
				0); /* meta_share.c (1) */

		ASSERT(t->put); /* else the record would not carry the counters */
		s->seq++;
		m->changes++;
		s->changed = true; /* the counters, if nothing else */
		s->files += (uint64_t)(int64_t)t->files;
		s->dirs += (uint64_t)(int64_t)t->dirs;
		s->uniq_next = max_u64(s->uniq_next, 1) + t->uniq;
		s->dir_next = max_u64(s->dir_next, META_ROOT_DIR + 1) + t->dir;
	}
}

/* A ZONE record is about to become another: the zone's sum over all shards follows. */
static void move_live(struct meta *m, const struct meta__mut *mut)
{
	const uint32_t zone = meta__zone_of_key(m, &mut->key);
	struct meta__hint *hint;
	const void *value;
	uint32_t len;
	int64_t delta = 0;
	le64 disk;

	DASSERT(meta__key_class(&mut->key) == META__CLASS_ZONE);
	if (zone == UINT32_MAX) { /* from a log of other drives: the mount has checked the rest */
		meta__error(m, "shard %u has a record of a zone that is not there", mut->shard);
		return;
	}
	if (meta__tree_leaf_again(m, mut->shard, &mut->key, &hint) == 0 &&
	    meta__leaf_find_near(hint->leaf->page, &mut->key, &hint->pos)) {
		meta__leaf_value(hint->leaf->page, hint->pos, &value, &len);
		if (len == sizeof(disk)) {
			memcpy(&disk, value, sizeof(disk));
			delta -= (int64_t)le64_get(disk);
		}
	}
	if (!mut->del && mut->value_len == sizeof(disk)) {
		memcpy(&disk, mut->value, sizeof(disk));
		delta += (int64_t)le64_get(disk);
	}
	if (likely(!m->home))
		meta__zone_live_add(m, zone, delta);
	else
		meta__borrow_live(m, zone, delta);
}

static bool is_receipt(struct meta *m, const struct meta__mut *mut, uint64_t seq)
{
	return likely(!m->home) ? meta__receipt_apply(m, mut, seq) : meta__borrow_receipt(m, mut);
}

/* Readers of this record wait for the log; of totals that are passed up they do not. */
static void note(struct meta *m, const struct meta__mut *mut, uint64_t seq)
{
	DASSERT(meta__key_class(&mut->key) != META__CLASS_ZONE); /* meta_fresh.h (4) */
	if (m->tx->op->type == (enum meta_op_type)META__OP_TOTALS_UP)
		return;
	meta__fresh_note(m, mut->shard, &mut->key, seq);
}

/* Deletes, then puts, then sparse leaves: so a leaf that was sparse for a moment only stays. */
static void change_trees(struct meta *m, uint64_t seq)
{
	struct meta__tx *tx = m->tx;
	bool zone;

	DASSERT(tx->nleaf <= META__TX_RECORDS_MAX);
	DASSERT(tx->nshard <= META__TX_RECORDS_MAX);
	for (uint32_t pass = 0; pass < 2; pass++) {
		for (uint32_t i = 0; i < tx->nmut; i++) {
			const struct meta__mut *mut = &tx->mut[i];

			if (mut->del != (pass == 0) || is_receipt(m, mut, seq))
				continue;
			zone = meta__key_class(&mut->key) == META__CLASS_ZONE;
			if (zone)
				move_live(m, mut);
			else if (likely(!m->home))
				note(m, mut, seq);
			if (mut->del)
				meta__tree_del(m, mut->shard, &mut->key, seq);
			else
				meta__tree_put(m, mut->shard, &mut->key, mut->value, mut->value_len,
					       seq);
		}
	}
	for (uint32_t i = 0; i < tx->nleaf && !m->home; i++) {
		const struct meta__tx_leaf *leaf = &tx->leaf[i];

		if (leaf->frame && leaf->shrink_bytes > 0)
			meta__tree_tidy(m, leaf->shard, &leaf->lo, seq);
	}
}

/* A borrower's record is still in transit, and in no block yet. */
static uint64_t to_log(struct meta *m)
{
	struct meta__tx *tx = m->tx;

	if (likely(!m->home))
		return meta__log_append(m, tx->mut, tx->nmut, tx->drives_mask);
	meta__borrow_log(m);
	return 0;
}

void meta__tx_apply(struct meta *m)
{
	struct meta__tx *tx = m->tx;
	uint64_t seq = 0;

	ASSERT(!tx->touch || !m->home);
	if (tx->touch)
		meta__tree_touch(m, tx->touch_shard, &tx->touch_key, tx->touch_level);
	if (tx->nmut > 0) {
		if (tx->logged) {
			move_counters(m);
			seq = to_log(m); /* (3) */
			tx->op->seen_seq = seq;
			tx->op->data_drives = tx->lone_mask;
		}
		DASSERT(!tx->logged || m->home || seq > meta__log_durable(m));
		change_trees(m, seq);
	}
	if (likely(!m->home))
		meta__ckpt_dirtied(m);
	if (unlikely(m->lend) && tx->nshard == 1)
		meta__lend_changed(m, tx->shard[0].shard);
	meta__tx_forget(tx);
	DASSERT(tx->nmut == 0); /* nothing of it is applied twice */
	DASSERT(tx->nleaf == 0);
}

/* Leaves out a change to a leaf that is on a missing drive, or below a page that is: reads there
 * are answered with -EIO. */
static int want_if_here(struct meta *m, const struct meta__mut *mut, uint32_t *away)
{
	const int err = meta__tx_want(m, mut);

	if (likely(err != -EIO || !meta__tx_was_away(m)))
		return err;
	*away += 1;
	return 0;
}

int meta__tx_replay(struct meta *m, struct meta_op *op, const struct meta__mut *mut, uint32_t count,
		    uint32_t *away)
{
	int err = 0, miss = 0;

	ASSERT(!m->home);
	ASSERT(count <= META__TX_RECORDS_MAX);
	meta__tx_begin(m, op);
	m->tx->logged = false;
	*away = 0;
	for (uint32_t i = 0; i < count; i++) {
		err = want_if_here(m, &mut[i], away);
		if (err == META__MISSES)
			miss = err; /* continue: all missing pages are requested together */
		else if (err)
			break;
	}
	if (!err || err == META__MISSES)
		err = miss;
	if (!err)
		err = meta__tx_ready(m);
	if (!err)
		meta__tx_apply(m);
	meta__tx_forget(m->tx);
	return err;
}
