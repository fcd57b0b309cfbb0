/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A borrower: a reader that changes shards which are lent to it (meta_lend.c).
 *
 *   plan (the shipped one) --> local changes only? --> apply (the shipped one) --> made
 *                                  | no                   pages: in place, or into blanks
 *                                  v                      log:   a record in its own memory
 *                             sent to the store           zones, lists, old frames: told
 *
 * Changes are local if they touch records of one lent shard whose pages are in memory, and need
 * nothing else of the store: no orphan, no directory whose total must be passed up, no leaf that a
 * delete makes sparse.  Leaves are split here, and never merged.
 *
 *  (1) Nothing is changed before meta__borrow_ready() has returned 0; then nothing can be missing.
 *  (2) `made` counts the changes, which the store is told in that order, each once.
 *  (3) Changes seen here may still be on their way to the log: an operation that sees one waits
 *      until it is durable (META_SEEN_MADE)
 *      [test_meta_lend:what_a_borrower_sees_waits_for_what_it_made].
 *  (4) A clean or frozen page is copied into a blank one, and is `gone` from then on: the
 *      remembered places of records (meta_found.c, meta_named.c) must not use it.
 *
 *   F1 -> G1 (meta_cache.c), L3 -> M3 (meta_lend.c), L4 -> M4 (meta_lend.c)
 */
#include "meta/engine/meta_lend.h"

#include "meta/engine/meta_cache.h"
#include "meta/engine/meta_ops.h"
#include "base/num.h"

#include <string.h>

static struct meta__blanks *blanks_of(const struct meta *m, uint32_t level)
{
	return &m->home->lend->by[m->reader].blanks[level > 0];
}

static uint32_t blanks_left(const struct meta *m, uint32_t level)
{
	const struct meta__blanks *b = blanks_of(m, level);

	DASSERT(m->home);
	DASSERT(m->reader < META_READERS_MAX);
	return atomic_load_explicit(&b->head, memory_order_acquire) - /* M3 */
	       atomic_load_explicit(&b->tail, memory_order_relaxed);
}

/* No checkpoint freezes while anything is lent: all of it belongs to one generation. */
void meta__borrow_begin(struct meta *m, uint32_t shard)
{
	ASSERT(m->home);
	ASSERT(shard < m->nshards);
	ASSERT(meta__ckpt_gen(m->home) >= m->gen); /* generations ascend */
	m->gen = meta__ckpt_gen(m->home);
	m->shard[shard].order = m->home->lend->order[shard];
}

/* ---- may it be made here? -------------------- */

/* Receipts and zones are told separately; other records of the store's own are left to it. */
static bool records_ok(const struct meta__tx *tx)
{
	uint32_t zones = 0, receipts = 0;

	for (uint32_t i = 0; i < tx->nmut; i++) {
		switch (meta__key_class(&tx->mut[i].key)) {
		case META__CLASS_ZONE:
			zones++;
			break;
		case META__CLASS_RECEIPT:
			receipts++;
			break;
		case META__CLASS_ORPHAN:
		case META__CLASS_PENDING:
			return false;
		default:
			break;
		}
	}
	return zones <= META__MADE_ZONES && receipts <= 1;
}

/* Leaves that become sparse, and trees that begin, are the store's. */
static bool leaves_ok(const struct meta *m, uint32_t shard)
{
	const struct meta__tx *tx = m->tx;

	for (uint32_t i = 0; i < tx->nleaf; i++) {
		const struct meta__tx_leaf *leaf = &tx->leaf[i];

		if (!leaf->frame ||
		    (leaf->shrink_bytes > 0 &&
		     meta__page_used(leaf->frame->page) < leaf->shrink_bytes + META__LEAF_SPARSE))
			return false;
	}
	return tx->nleaf * m->shard[shard].height <= META__MADE_LEAVES;
}

int meta__borrow_ready(struct meta *m)
{
	const struct meta__tx *tx = m->tx;
	const uint32_t shard = tx->shard[0].shard;
	struct meta__page_need need;

	DASSERT(m->home);
	DASSERT(tx->logged);
	if (tx->nmut == 0 || tx->nshard != 1 || tx->touch || m->shard[shard].turn != m->turn)
		return META__MISSES;
	if (!records_ok(tx) || !leaves_ok(m, shard) ||
	    meta__log_record_bytes(tx->mut, tx->nmut) > META__MADE_BYTES)
		return META__MISSES;
	need = meta__tx_pages(m);
	if (need.leaves + need.uppers > META__MADE_PAGES)
		return META__MISSES;
	if (blanks_left(m, 0) >= need.leaves && blanks_left(m, 1) >= need.uppers)
		return 0;
	return META__NEEDS_ROOM;
}

/* ---- being made -------------------- */

void meta__borrow_log(struct meta *m)
{
	const struct meta__tx *tx = m->tx;
	const uint32_t shard = tx->shard[0].shard;
	const struct meta__shard *s = &m->shard[shard];
	struct meta__made *made = m->made;

	ASSERT(tx->nshard == 1); /* meta_lend.c (2) */
	ASSERT(s->turn == m->turn);
	made->part = (struct meta__part){
		.shard = shard,
		.seq = s->seq,
		.uniq_next = s->uniq_next,
		.dir_next = s->dir_next,
		.files = s->files,
		.dirs = s->dirs,
	};
	made->drives_mask = tx->drives_mask;
	made->lone_mask = tx->lone_mask;
	made->bytes = meta__record_write(m, made->record, tx->mut, tx->nmut);
	ASSERT(made->bytes > 0);
	ASSERT(made->bytes <= META__MADE_BYTES);
}

static bool is_fresh(const struct meta__made *made, const struct meta__frame *f)
{
	for (uint32_t i = 0; i < made->nfresh; i++)
		if (made->fresh[i] == f)
			return true;
	return false;
}

void meta__borrow_changed(struct meta *m, struct meta__frame *f)
{
	struct meta__made *made = m->made;

	DASSERT(meta__frame_state(f) == FRAME_DIRTY);
	for (uint32_t i = made->nchanged; i-- > 0;)
		if (made->changed[i] == f)
			return;
	if (is_fresh(made, f))
		return;
	ASSERT(made->nchanged < META__MADE_LEAVES);
	made->changed[made->nchanged++] = f;
}

void meta__borrow_live(struct meta *m, uint32_t zone, int64_t blocks)
{
	struct meta__made *made = m->made;

	ASSERT(made->nzones < META__MADE_ZONES);
	made->live[made->nzones].zone = zone;
	made->live[made->nzones++].blocks = blocks;
}

bool meta__borrow_receipt(struct meta *m, const struct meta__mut *mut)
{
	struct meta__made *made = m->made;

	if (meta__key_class(&mut->key) != META__CLASS_RECEIPT)
		return false;
	ASSERT(mut->value_len <= sizeof(made->receipt_value));
	made->has_receipt = true;
	made->receipt = *mut;
	memcpy(made->receipt_value, mut->value, mut->value_len);
	made->receipt.value = made->receipt_value;
	return true;
}

struct meta__frame *meta__borrow_frame(struct meta *m, uint32_t level)
{
	struct meta__blanks *b = blanks_of(m, level);
	const uint32_t tail = atomic_load_explicit(&b->tail, memory_order_relaxed);
	const struct meta__blank *x = &b->slot[tail % META__BLANKS];
	struct meta__frame *f = x->frame;

	ASSERT(blanks_left(m, level) > 0); /* (1) */
	DASSERT(meta__frame_state(f) == FRAME_BLANK);
	DASSERT((f->level > 0) == (level > 0));
	atomic_store_explicit(&f->baddr, x->baddr, memory_order_relaxed);
	atomic_store_explicit(&b->tail, tail + 1, memory_order_release); /* L4 */
	f->last_pos = 0;
	f->counted = 0;
	return f;
}

void meta__borrow_placed(struct meta *m, struct meta__frame *f)
{
	struct meta__made *made = m->made;

	DASSERT(meta__frame_state(f) == FRAME_BLANK);
	DASSERT(m->shard[f->shard].turn == m->turn);
	f->gen = m->gen;
	meta__frame_gone_set(f, false);
	meta__page_place(f->page, meta__frame_baddr(f), f->gen, ++m->shard[f->shard].order);
	meta__frame_insert(m->cache, f);
	atomic_store_explicit(&f->state, FRAME_DIRTY, memory_order_release); /* F1 */
	meta__frame_used(f);
	m->shard[f->shard].changed = true;
	ASSERT(made->nfresh < META__MADE_PAGES);
	made->fresh[made->nfresh++] = f;
}

void meta__borrow_dead(struct meta *m, struct meta__frame *f)
{
	struct meta__made *made = m->made;

	ASSERT(!meta__frame_gone(f)); /* (4) */
	ASSERT(meta__frame_state(f) != FRAME_DIRTY);
	meta__frame_gone_set(f, true); /* (4) */
	ASSERT(made->ndead < META__MADE_PAGES);
	made->dead[made->ndead++] = meta__frame_baddr(f);
}
