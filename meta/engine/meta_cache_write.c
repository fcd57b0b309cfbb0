/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Changed pages in memory: their new addresses, and their writing.  meta_cache.c has a drawing of
 * their states, and their invariants.
 */
#include "meta/engine/meta_cache.h"
#include "meta/engine/meta_lend.h"
#include "meta/engine/meta_tree.h"

#include <string.h>

/* ---- how many are, and may be: (3) ---- */

uint32_t meta__cache_room(const struct meta *m)
{
	const struct meta__cache *c = m->cache;
	const uint32_t used =
		c->count[FRAME_DIRTY] + c->count[FRAME_FROZEN] + c->count[FRAME_BLANK];

	DASSERT(used <= c->nframes);
	return used < c->dirty_max ? c->dirty_max - used : 0;
}

bool meta__cache_early_due(const struct meta *m)
{
	const struct meta__cache *c = m->cache;
	const uint64_t leaves = c->count[FRAME_DIRTY] - c->uppers_dirty;

	DASSERT(c->count[FRAME_DIRTY] >= c->uppers_dirty);
	return leaves * c->dirty_max >= (meta__cache_room(m) + leaves) * c->early_at;
}

/* Is it, when all leaves are clean? */
bool meta__cache_leaves_room(const struct meta *m, uint32_t pages)
{
	return m->cache->uppers_dirty + pages <= m->cache->dirty_max;
}

bool meta__cache_half_dirty(const struct meta *m)
{
	return meta__cache_room(m) <= m->cache->dirty_max / 2;
}

bool meta__cache_uppers_dirty(const struct meta *m)
{
	return m->cache->uppers_dirty >= m->cache->dirty_max - m->cache->dirty_max / 16;
}

bool meta__cache_leaves_dirty(const struct meta *m)
{
	return !list_empty(&m->cache->dirty[0]);
}

uint32_t meta__cache_frozen_count(const struct meta *m)
{
	return m->cache->freezing;
}

/* ---- becoming dirty ---- */

static void place(struct meta *m, struct meta__frame *f)
{
	ASSERT(!m->home);
	atomic_store_explicit(&f->baddr, meta__page_take(m, f->level), memory_order_relaxed);
	f->gen = meta__ckpt_gen(m);
	meta__frame_gone_set(f, false);
	meta__page_place(f->page, meta__frame_baddr(f), f->gen, meta__ckpt_order(m));
	ASSERT(!meta__cache_find(m, meta__frame_baddr(f))); /* meta_cache.c (1) */
	meta__frame_insert(m->cache, f);
	meta__frame_state_set(m->cache, f, FRAME_DIRTY);
	list_push_back(&m->cache->dirty[f->level > 0], &f->link);
	meta__frame_used(f);
	m->shard[f->shard].changed = true;
}

static struct meta__frame *take(struct meta *m)
{
	struct meta__cache *c = m->cache;
	struct meta__frame *f = meta__frame_get(m);

	ASSERT(f); /* meta_cache.c (3), and meta__tx_ready() asked for it */
	ASSERT(meta__frame_state(f) == FRAME_FREE);
	if (!c->shared) {
		f->mark = c->plan;
		c->marked++;
	}
	f->last_pos = 0;
	f->counted = 0;
	return f;
}

struct meta__frame *meta__cache_new(struct meta *m, uint32_t shard, uint32_t level,
				    const struct meta_key *first, uint64_t seq)
{
	struct meta__frame *f = likely(!m->home) ? take(m) : meta__borrow_frame(m, level);

	ASSERT(shard < m->nshards);
	ASSERT(level < META_PAGE_LEVELS_MAX);
	f->shard = shard;
	f->level = level;
	meta__frame_seq_set(f, seq);
	meta__page_init(f->page, shard, level, first);
	if (likely(!m->home))
		place(m, f);
	else
		meta__borrow_placed(m, f);
	return f;
}

static void copy_page(struct meta__frame *copy, const struct meta__frame *f)
{
	ASSERT(copy != f);
	/* The checksum may be being written, and is nothing to a copy. */
	memcpy(copy->page + 4, f->page + 4, META_PAGE_BYTES - 4);
	copy->shard = f->shard;
	copy->level = f->level;
	meta__frame_seq_set(copy, meta__frame_seq(f));
	copy->last_pos = f->last_pos;
}

/* The old one is the store's to take away, clean or not: nobody finds it any more. */
static struct meta__frame *dirty_borrowed(struct meta *m, struct meta__frame *f)
{
	struct meta__frame *copy = meta__borrow_frame(m, f->level);
	ASSERT(f->shard < m->nshards); /* meta_lend.c (2) */
	ASSERT(m->shard[f->shard].turn == m->turn);

	copy_page(copy, f);
	meta__borrow_dead(m, f);
	meta__borrow_placed(m, copy);
	return copy;
}

struct meta__frame *meta__cache_dirty(struct meta *m, struct meta__frame *f)
{
	struct meta__cache *c = m->cache;
	struct meta__frame *copy = f;

	if (meta__frame_state(f) == FRAME_DIRTY)
		return f;
	ASSERT(meta__frame_state(f) == FRAME_CLEAN || meta__frame_state(f) == FRAME_FROZEN);
	ASSERT(!meta__frame_gone(f));
	if (unlikely(m->home))
		return dirty_borrowed(m, f);
	if (meta__frame_state(f) == FRAME_FROZEN) {
		copy = take(m);
		copy_page(copy, f);
		meta__frame_gone_set(f, true);
	} else {
		meta__frame_unfresh(c, f);
		meta__frame_remove(c, f);
	}
	meta__page_dead(m, meta__frame_baddr(f));
	place(m, copy);
	DASSERT(meta__frame_state(copy) == FRAME_DIRTY);
	DASSERT(copy->gen == meta__ckpt_gen(m));
	return copy;
}

void meta__cache_adopt(struct meta *m, struct meta__frame *f)
{
	struct meta__cache *c = m->cache;

	DASSERT(f->gen == meta__ckpt_gen(m));
	ASSERT(meta__frame_state(f) == FRAME_DIRTY && c->count[FRAME_BLANK] > 0);
	c->count[FRAME_BLANK]--;
	c->count[FRAME_DIRTY]++;
	c->uppers_dirty += f->level > 0;
	list_push_back(&c->dirty[f->level > 0], &f->link);
}

void meta__cache_replaced(struct meta *m, uint64_t baddr)
{
	struct meta__frame *f = meta__cache_find(m, baddr);

	meta__page_dead(m, baddr);
	if (f && meta__frame_state(f) == FRAME_CLEAN)
		meta__frame_free(m, f);
	ASSERT(!f || meta__frame_state(f) == FRAME_FREE ||
	       (meta__frame_state(f) == FRAME_FROZEN && meta__frame_gone(f)));
}

void meta__cache_drop(struct meta *m, struct meta__frame *f)
{
	ASSERT(!m->home);
	ASSERT(meta__frame_state(f) >= FRAME_CLEAN);
	ASSERT(!meta__frame_gone(f));
	meta__page_dead(m, meta__frame_baddr(f));
	if (meta__frame_state(f) == FRAME_FROZEN)
		meta__frame_gone_set(f, true);
	else
		meta__frame_free(m, f);
}

/* ---- going out ---- */

void meta__cache_freeze(struct meta *m)
{
	struct meta__cache *c = m->cache;
	struct list *l;

	ASSERT(c->freezing == 0);
	for (uint32_t i = 0; i < 2; i++) {
		while ((l = list_pop_front(&c->dirty[i]))) {
			meta__frame_state_set(c, list_entry(l, struct meta__frame, link),
					      FRAME_FROZEN);
			list_push_back(&c->frozen, l);
		}
	}
	c->freezing = c->count[FRAME_FROZEN]; /* leaves that are being written early too */
	ASSERT(c->count[FRAME_DIRTY] == 0);
	ASSERT(c->uppers_dirty == 0);
}

/* The first of these pages, if its changes are durable: (4). */
static struct meta__frame *write_first(struct meta *m, struct list *pages, uint64_t durable)
{
	struct meta__frame *f;

	if (list_empty(pages))
		return NULL;
	f = list_entry(pages->next, struct meta__frame, link);
	if (meta__frame_seq(f) > durable)
		return NULL;
	if (meta__frame_state(f) == FRAME_DIRTY)
		meta__frame_state_set(m->cache, f, FRAME_FROZEN);
	ASSERT(meta__frame_state(f) == FRAME_FROZEN); /* meta_cache.c (4) */
	ASSERT(meta__frame_seq(f) <= durable);
	list_del(&f->link);
	meta__page_seal(f->page);
	meta__frame_io(m, f, META_IO_WRITE, META__IO_PAGE_WRITE);
	return f;
}

struct meta__frame *meta__cache_frozen(struct meta *m, uint64_t durable)
{
	return write_first(m, &m->cache->frozen, durable);
}

struct meta__frame *meta__cache_early(struct meta *m, uint64_t durable)
{
	const struct list *l = &m->cache->dirty[0];

	if (unlikely(m->share) && !list_empty(l) &&
	    !meta__may_look(m, list_entry(l->next, struct meta__frame, link)->shard))
		return NULL; /* its borrower changes it */
	return write_first(m, &m->cache->dirty[0], durable);
}

void meta__cache_written(struct meta *m, struct meta__frame *f)
{
	ASSERT(list_empty(&f->waiters));
	ASSERT(f->fresh == 0);
	ASSERT(meta__frame_state(f) == FRAME_FROZEN);
	if (f->gen != meta__ckpt_gen(m)) {
		ASSERT(m->cache->freezing > 0);
		m->cache->freezing--;
	}
	if (meta__frame_gone(f))
		meta__frame_free(m, f);
	else
		meta__frame_state_set(m->cache, f, FRAME_CLEAN);
}
