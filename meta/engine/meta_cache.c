/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Pages in memory.
 *
 *        want              read, checked                  dirty: a new address
 *  free ------> reading ----------------> clean -----------------------------> dirty
 *        want              read, checked                  dirty: a new address
 *  free ------> reading ----------------> clean -----------------------------> dirty
 *   ^              | twice bad: -EIO       |  ^ written                          | freeze; or, of
 *   +<-------------+                       |  |                                  v a leaf, early
 *   +<--------------- evicted -------------+  +------------------------------- frozen
 *   +<------------------------- written, but gone from the tree ----------------+
 *
 * A frozen page that is written to is copied to another frame, dirty and at another address; the
 * frozen one is then "gone": the root that is being written needs it, the tree does not.
 *
 *   F1 -> G1   (F1 in meta_borrow.c, too; G1 in meta_internal.h, too) a frame's page and
 *              description are stored before a chain leads to it, or its state says that the
 *              page may be read
 *
 * Invariants, true between any two calls:
 *
 *  (1) A frame that is not free is in the hash under its address, and no two have the same.
 *  (2) A readable page (clean, dirty, frozen) has passed meta__page_check() or was made here
 *      [test_meta_cache:a_page_that_is_wrong_twice_is_an_error_that_names_it].
 *  (3) Dirty and frozen frames are at most half of all, reading and fresh ones at most a quarter:
 *      a quarter is always available for other uses, less the pages of one plan.  The needs of
 *      plans do not grow with the cache; so of the frames beyond KNEE, seven
 *      eighths may be dirty, and a sixteenth reading.
 *  (4) A clean page's changes are durable in the log: it may be evicted, and its seq forgotten.
 *  (5) A frame that the current plan has looked at is not evicted: values in it are lent out.
 *  (6) A readable page that is not gone is part of its shard's present tree
 *      [test_meta_found:a_frozen_page_has_the_value_of_before].
 *  (7) With readers (meta_share.c) a freed frame is reused for another page only when they have
 *      left it.  So frames are evicted between turns, ahead of need, and not in a plan, which
 *      then marks none; that keeps (5).  A reader checks a frame's state first, then its
 *      shard: if that is open, the rest of the frame does not change until the reader leaves
 *      [test_meta_share:no_page_that_a_reader_may_look_at_is_replaced].
 *  (8) The least recently used frame goes first, by the clock's hand.  A page above leaves is
 *      needed for everything below it: if the cache has room for little more than those pages, they
 *      must not be evicted together with leaves that were read once.  There the hand comes round
 *      once for some 100 leaves read, and a page that is one of 500 would miss every fifth time;
 *      with the extra turns, once in some ten thousand times
 *      [test_meta_cache:a_page_above_leaves_stays_longer_than_they_but_not_for_ever].
 *  (9) No page of a lent shard is evicted: a borrower's pages must stay from its plan to its apply.
 *      If that makes frames short, all shards are called home (meta__cache_is_short()).
 * (10) The search of a reader, or of a borrower, may end early, at a frame that the store moves to
 *      another place in the hash.  A plan takes that for a miss; an apply, which knows that its
 *      pages are present, searches again [torture_app_cores].
 */
#include "meta/engine/meta_pair.h"
#include "meta/engine/meta_cache.h"
#include "meta/engine/meta_share.h"
#include "meta/engine/meta_tree.h"
#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KNEE              256u /* 4 MiB: (3) */
#define WAITERS_PER_FRAME 2u
#define AHEAD_MAX         64u  /* frames that are kept free, with readers: (7) */
#define SWEEP_STEPS       256u /* of the clock's hand, a turn                  */
#define TURNS_LEAF        1u   /* of the clock's hand, until unused frames go: (8) */
#define TURNS_UPPER       48u
#define BARREN_LAPS       2ull /* then there are no leaves to be had */
#define LAPS_MAX          (BARREN_LAPS + 1)
#define CHAIN_MAX         256u /* frames that a reader follows: they may be moved under its eyes */

static uint32_t frames_of(const struct meta_conf *c)
{
	return (uint32_t)min_u64(c->cache_bytes / META_PAGE_BYTES, 1u << 28);
}

/* Returns a share of n, in sixteenths: `upto` of the part up to the knee, `beyond` of the rest. */
static uint32_t part_of(uint32_t n, uint32_t upto, uint32_t beyond)
{
	const uint64_t small = min_u32(n, KNEE), more = n - small;

	DASSERT(upto <= 16);
	DASSERT(beyond <= 16);
	return (uint32_t)((small * upto + more * beyond) / 16);
}

/* (3) */
uint32_t meta__cache_dirty_max(const struct meta_conf *c)
{
	return part_of(frames_of(c), 8, 14);
}

static uint32_t reading_max(const struct meta__cache *c)
{
	return part_of(c->nframes, 4, 1);
}

uint64_t meta__cache_memory(const struct meta_conf *c)
{
	return (uint64_t)frames_of(c) * META_PAGE_BYTES;
}

int meta__cache_create(struct meta *m)
{
	struct meta__cache *c = calloc(1, sizeof(*c));
	uint32_t n = frames_of(&m->conf);
	uint64_t buckets = 1;

	if (!c)
		return -ENOMEM;
	m->cache = c;
	while (buckets < 2ull * n)
		buckets *= 2;
	c->nframes = n;
	c->dirty_max = meta__cache_dirty_max(&m->conf);
	ASSERT(c->dirty_max > 0); /* (3) */
	ASSERT(c->dirty_max < n);
	ASSERT(reading_max(c) > 0);
	c->early_at = c->dirty_max / 2;
	if (m->conf.early_pages)
		c->early_at = min_u32(c->early_at, m->conf.early_pages);
	c->frame = aligned_alloc(64, n * sizeof(*c->frame));
	c->bucket = calloc(buckets, sizeof(*c->bucket));
	c->waiter = calloc((size_t)n * WAITERS_PER_FRAME, sizeof(*c->waiter));
	if (!c->frame || !c->bucket || !c->waiter || meta__found_create(c) || meta__named_create(c))
		return -ENOMEM; /* meta_destroy() frees what there is */

	memset(c->frame, 0, n * sizeof(*c->frame));
	c->bucket_mask = buckets - 1;
	list_init(&c->waiters_free);
	list_init(&c->free);
	list_init(&c->dirty[0]);
	list_init(&c->dirty[1]);
	list_init(&c->frozen);
	list_init(&c->fresh);
	list_init(&c->leaving);
	for (uint32_t i = 0; i < n * WAITERS_PER_FRAME; i++) {
		list_init(&c->waiter[i].link);
		list_push_back(&c->waiters_free, &c->waiter[i].link);
	}
	c->pages = meta__mem_take(m, meta__cache_memory(&m->conf));
	for (uint32_t i = 0; i < n; i++) {
		c->frame[i].page = c->pages + (uint64_t)i * META_PAGE_BYTES;
		list_init(&c->frame[i].link);
		list_init(&c->frame[i].waiters);
		list_init(&c->frame[i].io.io.link);
		list_push_back(&c->free, &c->frame[i].link);
	}
	c->count[FRAME_FREE] = n;
	c->plan = 1;
	return 0;
}

void meta__cache_destroy(struct meta *m)
{
	if (!m->cache)
		return;
	meta__named_destroy(m->cache);
	meta__found_destroy(m->cache);
	free(m->cache->waiter);
	free(m->cache->bucket);
	free(m->cache->frame);
	free(m->cache);
	m->cache = NULL;
}

int meta__cache_mirror(struct meta *m)
{
	const struct meta__cache *of = m->home->cache;
	struct meta__cache *c = calloc(1, sizeof(*c));

	ASSERT(m->home);
	ASSERT(!m->cache);
	if (!c)
		return -ENOMEM;
	m->cache = c;
	c->nframes = of->nframes;
	c->frame = of->frame;
	c->pages = of->pages;
	c->named = of->named;
	c->named_mask = of->named_mask;
	c->bucket = of->bucket;
	c->bucket_mask = of->bucket_mask;
	c->shared = true;
	return meta__found_create(c);
}

void meta__cache_unmirror(struct meta *m)
{
	if (m->cache)
		meta__found_destroy(m->cache);
	free(m->cache);
	m->cache = NULL;
}

/* ---- the hash ------------------------------------------------------------------------ */

static _Atomic(struct meta__frame *) *bucket_of(const struct meta__cache *c, uint64_t baddr)
{
	uint64_t h = (baddr / META_PAGE_BLOCKS) * 0x9e3779b97f4a7c15u;

	return &c->bucket[(h >> 32) & c->bucket_mask];
}

static struct meta__frame *next_of(const _Atomic(struct meta__frame *) *at)
{
	return atomic_load_explicit(at, memory_order_acquire); /* G1 */
}

static struct meta__frame *lookup(const struct meta__cache *c, uint64_t baddr)
{
	struct meta__frame *f = next_of(bucket_of(c, baddr));

	while (f && meta__frame_baddr(f) != baddr)
		f = next_of(&f->hash_next);
	return f;
}

/* A reader's: a frame may go to another chain while it stands on it.  Then it finds nothing. */
static struct meta__frame *lookup_shared(const struct meta__cache *c, uint64_t baddr)
{
	struct meta__frame *f = next_of(bucket_of(c, baddr));

	for (uint32_t i = 0; f && i < CHAIN_MAX; i++, f = next_of(&f->hash_next))
		if (meta__frame_baddr(f) == baddr)
			return f;
	return NULL;
}

void meta__frame_insert(struct meta__cache *c, struct meta__frame *f)
{
	_Atomic(struct meta__frame *) *b = bucket_of(c, meta__frame_baddr(f));

	DASSERT(meta__frame_baddr(f) != 0);
	struct meta__frame *first = next_of(b);

	do /* borrowers insert, too; only the store removes */
		atomic_store_explicit(&f->hash_next, first, memory_order_relaxed);
	while (unlikely(!atomic_compare_exchange_strong_explicit(
		b, &first, f, memory_order_acq_rel, memory_order_acquire))); /* F1, G1 */
}

void meta__frame_remove(struct meta__cache *c, struct meta__frame *f)
{
	_Atomic(struct meta__frame *) *at;
	struct meta__frame *is;

	do { /* again, if a borrower has put one before it, where the chain begins */
		at = bucket_of(c, meta__frame_baddr(f));
		while (next_of(at) != f) {
			ASSERT(next_of(at)); /* (1) */
			at = &next_of(at)->hash_next;
		}
		is = f;
	} while (unlikely(!atomic_compare_exchange_strong_explicit(/* F1, G1 */
								   at, &is, next_of(&f->hash_next),
								   memory_order_acq_rel,
								   memory_order_acquire)));
}

void meta__frame_state_set(struct meta__cache *c, struct meta__frame *f,
			   enum meta__frame_state state)
{
	DASSERT(meta__frame_state(f) != state);
	DASSERT(state <= FRAME_FROZEN);
	DASSERT(f->level == 0 || meta__frame_state(f) != FRAME_DIRTY || c->uppers_dirty > 0);
	ASSERT(c->count[meta__frame_state(f)] > 0);
	c->count[meta__frame_state(f)]--;
	c->count[state]++;
	if (f->level > 0) {
		c->uppers_dirty -= meta__frame_state(f) == FRAME_DIRTY;
		c->uppers_dirty += state == FRAME_DIRTY;
	}
	atomic_store_explicit(&f->state, state,
			      memory_order_release); /* F1, (7): it is believed first */
}

static uint8_t turns_left(const struct meta__frame *f)
{
	return atomic_load_explicit(&f->turns, memory_order_relaxed);
}

static uint8_t turns_of(const struct meta__frame *f)
{
	return f->level > 0 ? TURNS_UPPER : TURNS_LEAF;
}

void meta__frame_used(struct meta__frame *f)
{
	atomic_store_explicit(&f->turns, turns_of(f), memory_order_relaxed);
}

void meta__frame_unfresh(struct meta__cache *c, struct meta__frame *f)
{
	if (f->fresh == 0)
		return;
	ASSERT(c->fresh_count > 0);
	ASSERT(meta__frame_state(f) == FRAME_CLEAN);
	f->fresh = 0;
	c->fresh_count--;
	list_del(&f->link);
}

void meta__frame_free(struct meta *m, struct meta__frame *f)
{
	struct meta__cache *c = m->cache;

	ASSERT(meta__frame_state(f) != FRAME_FREE);
	ASSERT(meta__frame_state(f) != FRAME_BLANK);
	ASSERT(f->mark != c->plan || c->marked > 0);
	ASSERT(list_empty(&f->waiters));
	meta__frame_unfresh(c, f);
	list_del(&f->link);
	meta__frame_remove(c, f);
	meta__frame_state_set(c, f, FRAME_FREE);
	if (f->mark == c->plan)
		c->marked--;
	f->mark = 0;
	if (likely(!c->shared)) {
		list_push_front(&c->free, &f->link);
		return;
	}
	f->left = meta__share_leave(m);
	c->leaving_count++;
	list_push_back(&c->leaving, &f->link);
}

/* ---- finding and evicting ---------------------------------------------------------- */

struct meta__frame *meta__cache_find(struct meta *m, uint64_t baddr)
{
	struct meta__frame *f;

	if (unlikely(m->home)) {
		f = lookup_shared(m->cache, baddr);
		return f && meta__frame_readable(f) ? f : NULL;
	}
	f = lookup(m->cache, baddr);
	if (!f || meta__frame_state(f) == FRAME_READING)
		return NULL;
	ASSERT(meta__frame_state(f) != FRAME_FREE);
	return f;
}

void meta__cache_fetch_bucket(const struct meta *m, uint64_t baddr)
{
	__builtin_prefetch(bucket_of(m->cache, baddr));
}

bool meta__cache_fetch_frame(const struct meta *m, uint64_t baddr)
{
	const struct meta__frame *f = next_of(bucket_of(m->cache, baddr));

	if (f)
		meta__cache_fetch(m, f, 0);
	return f != NULL;
}

void meta__cache_fetch(const struct meta *m, const struct meta__frame *f, uint32_t at)
{
	const uint8_t *page = m->cache->pages + (uint64_t)(f - m->cache->frame) * META_PAGE_BYTES;

	DASSERT(f >= m->cache->frame);
	DASSERT(f < m->cache->frame + m->cache->nframes);
	__builtin_prefetch(f);
	__builtin_prefetch(page);
	if (at)
		__builtin_prefetch(page + at);
}

void meta__cache_plan(struct meta *m)
{
	m->cache->plan++;
	m->cache->marked = 0;
}

static void unfresh_one(struct meta__cache *c, struct meta__frame *f)
{
	DASSERT(f->fresh == 0 || c->fresh_count > 0);
	if (unlikely(f->fresh > 0) && --f->fresh == 0) {
		c->fresh_count--;
		list_del(&f->link);
	}
}

/* (7): the frame's line is all cores': it is written to only if it must be. */
static void mark_shared(struct meta *m, struct meta__frame *f)
{
	if (turns_left(f) <= turns_of(f) / 2)
		meta__frame_used(f);
	if (!m->home)
		unfresh_one(m->cache, f);
}

void meta__cache_mark(struct meta *m, struct meta__frame *f)
{
	struct meta__cache *c = m->cache;

	DASSERT(m->home || meta__frame_state(f) >= FRAME_CLEAN);
	c->hits++;
	if (unlikely(c->shared)) {
		mark_shared(m, f);
		return;
	}
	meta__frame_used(f);
	if (f->mark == c->plan)
		return;
	f->mark = c->plan;
	c->marked++;
	unfresh_one(c, f);
}

/* (5); (9) */
static bool evictable(const struct meta *m, const struct meta__frame *f)
{
	return meta__frame_state(f) == FRAME_CLEAN && f->fresh == 0 && f->mark != m->cache->plan &&
	       (likely(!m->share) || !m->share->away[f->shard]);
}

/* A step of the clock's hand. */
static void hand_step(struct meta *m)
{
	struct meta__cache *c = m->cache;
	struct meta__frame *f = &c->frame[c->hand];

	c->hand = c->hand + 1 == c->nframes ? 0 : c->hand + 1;
	c->barren++;
	if (!evictable(m, f))
		return;
	if (turns_left(f) > 0 && c->barren <= BARREN_LAPS * c->nframes) {
		atomic_store_explicit(&f->turns, turns_left(f) - 1, memory_order_relaxed);
		return;
	}
	ASSERT(f->mark != c->plan);                     /* (5) */
	ASSERT(!m->share || !m->share->away[f->shard]); /* (9), meta_lend.c (1) */
	meta__frame_free(m, f);
	c->barren = 0;
}

struct meta__frame *meta__frame_get(struct meta *m)
{
	struct meta__cache *c = m->cache;
	struct list *l;

	for (uint64_t steps = 0; list_empty(&c->free) && steps < LAPS_MAX * c->nframes; steps++) {
		if (c->shared)
			return NULL; /* (7) */
		hand_step(m);
	}
	l = list_pop_front(&c->free);
	return l ? list_entry(l, struct meta__frame, link) : NULL;
}

static uint32_t free_now(const struct meta__cache *c)
{
	DASSERT(c->leaving_count <= c->count[FRAME_FREE]);
	return c->count[FRAME_FREE] - c->leaving_count;
}

/* Frames that are free, or could be. */
static uint32_t could_be_free(const struct meta__cache *c)
{
	uint32_t have = c->count[FRAME_FREE] + c->count[FRAME_CLEAN];
	uint32_t kept = c->fresh_count + c->marked;

	return have > kept ? have - kept : 0;
}

uint32_t meta__cache_available(const struct meta *m)
{
	return m->cache->shared ? free_now(m->cache) : could_be_free(m->cache);
}

/* ---- evicting ahead: (7) --------------------------------------------------------------- */

bool meta__cache_clear(struct meta *m, uint32_t frames)
{
	struct meta__cache *c = m->cache;

	if (!c->shared || could_be_free(c) < frames)
		return false;
	c->want = max_u32(c->want, frames);
	return true;
}

static uint32_t free_target(const struct meta__cache *c)
{
	return min_u32(c->nframes / 16, AHEAD_MAX);
}

bool meta__cache_is_short(const struct meta *m)
{
	return m->cache->count[FRAME_FREE] < free_target(m->cache) / 2;
}

bool meta__cache_turn(struct meta *m)
{
	struct meta__cache *c = m->cache;
	uint32_t target;
	struct meta__frame *f;

	ASSERT(m->share);
	ASSERT(!m->home);
	c->wanted = c->want; /* operations that still wait ask again in each turn */
	c->want = 0;
	target = free_target(c) + c->wanted;
	if (!c->shared)
		meta__cache_plan(m); /* from now on none is marked */
	c->shared = true;
	while (!list_empty(&c->leaving)) {
		f = list_entry(c->leaving.next, struct meta__frame, link);
		if (!meta__share_left(m, f->left))
			break; /* they leave in the order in which they came */
		ASSERT(meta__frame_state(f) == FRAME_FREE);
		ASSERT(c->leaving_count > 0);
		list_del(&f->link);
		list_push_front(&c->free, &f->link);
		c->leaving_count--;
	}
	for (uint32_t i = 0; i < SWEEP_STEPS && c->count[FRAME_FREE] < target; i++)
		hand_step(m);
	return c->count[FRAME_FREE] < target && c->count[FRAME_CLEAN] > c->fresh_count;
}

void meta__cache_stat(const struct meta *m, struct meta_statfs *out)
{
	const struct meta__cache *c = m->cache;

	out->cache_pages = c->nframes;
	out->cache_pages_dirty = c->count[FRAME_DIRTY] + c->count[FRAME_FROZEN];
	out->page_reads = c->reads;
	out->page_hits = c->hits + meta__share_hits(m);
	ASSERT(out->cache_pages_dirty <= out->cache_pages);
}

/* ---- reading ----------------------------------------------------------------------- */

void meta__frame_io(struct meta *m, struct meta__frame *f, enum meta_io_op op,
		    enum meta__io_kind kind)
{
	ASSERT(meta__frame_state(f) == (kind == META__IO_PAGE_READ ? FRAME_READING : FRAME_FROZEN));
	f->io.kind = kind;
	f->io.owner = f;
	f->io.io.op = op;
	f->io.io.fua = false;
	f->io.io.drive = META_BADDR_DRIVE(meta__frame_baddr(f));
	f->io.io.block = META_BADDR_BLOCK(meta__frame_baddr(f));
	f->io.io.nblocks = META_PAGE_BLOCKS;
	f->io.io.buf = f->page;
	f->io.io.status = 0;
	if (kind == META__IO_PAGE_READ) {
		m->cache->reads++;
		meta__io_want(m, &f->io);
	}
}

static int wait_for(struct meta *m, struct meta__frame *f, struct meta_op *op,
		    const struct meta_key *key)
{
	struct meta__cache *c = m->cache;
	struct list *pos, *l;

	DASSERT(meta__frame_state(f) == FRAME_READING || meta__frame_state(f) == FRAME_FREE);
	if (!op)
		return 0;
	list_for_each (pos, &f->waiters)
		if (list_entry(pos, struct meta__waiter, link)->op == op)
			return 0;
	l = list_pop_front(&c->waiters_free);
	if (!l) /* it runs again when one of its other pages is here, or soon */
		return op->misses > 0 ? 0 : META__NEEDS_ROOM;
	list_entry(l, struct meta__waiter, link)->op = op;
	list_entry(l, struct meta__waiter, link)->key = *key;
	list_push_back(&f->waiters, l);
	op->misses++;
	return 0;
}

static bool is_place(const struct meta *m, uint64_t baddr)
{
	uint32_t drive = META_BADDR_DRIVE(baddr);

	return drive < META_DRIVES_MAX && META_BADDR_BLOCK(baddr) > 0 &&
	       META_BADDR_BLOCK(baddr) + META_PAGE_BLOCKS <= m->conf.drive[drive].nblocks;
}

static wk_cold void bad_page(struct meta *m, const struct meta__frame *f, const char *why)
{
	meta__error(m, "page of shard %u, level %u, at drive %u, block %llu: %s", f->shard,
		    f->level, META_BADDR_DRIVE(meta__frame_baddr(f)),
		    (unsigned long long)META_BADDR_BLOCK(meta__frame_baddr(f)), why);
}

static void describe(struct meta__frame *f, uint32_t shard, uint32_t level, uint64_t baddr,
		     uint64_t gen)
{
	ASSERT(meta__frame_state(f) == FRAME_FREE);
	ASSERT(list_empty(&f->waiters));
	ASSERT(level < META_PAGE_LEVELS_MAX);
	f->shard = shard;
	f->level = level;
	atomic_store_explicit(&f->baddr, baddr, memory_order_relaxed);
	f->gen = gen;
	meta__frame_seq_set(f, 0);
	meta__frame_gone_set(f, false);
	f->again = 0;
	f->last_pos = 0;
}

int meta__cache_want(struct meta *m, uint32_t shard, uint32_t level, uint64_t baddr, uint64_t gen,
		     struct meta_op *op, const struct meta_key *key)
{
	struct meta__cache *c = m->cache;
	struct meta__frame *f;

	DASSERT(shard < m->nshards);
	DASSERT(!op || key);
	DASSERT(level < META_PAGE_LEVELS_MAX);
	if (unlikely(m->home)) {
		c->missed = true;
		return 0;
	}
	if (unlikely(meta__is_away(m, baddr))) {
		const struct meta__page_want want = { baddr, gen, shard, level };

		c->away = true;
		if (op)
			m->above->suspect_page(m, &want, key); /* so that it is listed */
		return -EIO;
	}
	f = lookup(c, baddr);
	if (f) {
		ASSERT(meta__frame_state(f) == FRAME_READING);
		return wait_for(m, f, op, key);
	}
	if (c->count[FRAME_READING] + c->fresh_count >= reading_max(c)) {
		/* (3); a page that no waiter came back for is kept no longer */
		if (list_empty(&c->fresh))
			return META__NEEDS_ROOM;
		meta__frame_unfresh(c, list_entry(c->fresh.next, struct meta__frame, link));
	}
	if (unlikely(c->shared) && free_now(c) <= max_u32(c->want, c->wanted)) {
		if (could_be_free(c) <= c->want)
			meta__ckpt_want(m);
		return META__NEEDS_ROOM;
	}
	f = meta__frame_get(m);
	if (!f) {
		meta__ckpt_want(m); /* all pages that are not dirty are in use by this plan: (5) */
		return META__NEEDS_ROOM;
	}

	describe(f, shard, level, baddr, gen);
	if (!is_place(m, baddr)) {
		bad_page(m, f, "there is no such place");
		list_push_front(&c->free, &f->link);
		return -EIO;
	}
	if (wait_for(m, f, op, key)) {
		list_push_front(&c->free, &f->link);
		return META__NEEDS_ROOM;
	}
	meta__frame_state_set(c, f, FRAME_READING);
	meta__frame_insert(c, f);
	meta__frame_io(m, f, META_IO_READ, META__IO_PAGE_READ);
	return 0;
}

void meta__cache_fill(struct meta *m, uint32_t shard, uint32_t level, uint64_t baddr, uint64_t gen,
		      const void *page)
{
	const struct meta__page_want want = { baddr, gen, shard, level };
	struct meta__cache *c = m->cache;
	struct meta__frame *f;

	ASSERT(!m->home);
	if (lookup(c, baddr) || (c->shared && free_now(c) <= max_u32(c->want, c->wanted)) ||
	    meta__page_check(page, &want))
		return;
	f = meta__frame_get(m);
	if (!f)
		return;
	describe(f, shard, level, baddr, gen);
	memcpy(f->page, page, META_PAGE_BYTES);
	meta__frame_insert(c, f);
	meta__frame_state_set(c, f, FRAME_CLEAN); /* (2) */
	meta__frame_used(f);
}

static void wake(struct meta *m, struct list *waiters, int status)
{
	struct list *l;

	while ((l = list_pop_front(waiters))) {
		struct meta_op *op = list_entry(l, struct meta__waiter, link)->op;

		list_push_front(&m->cache->waiters_free, l);
		ASSERT(op->misses > 0);
		meta__op_page_done(m, op, status); /* one less */
	}
}

/* It was read from another copy, though the drive of the first can be read. */
static bool has_bad_copy(const struct meta *m, const struct meta__frame *f)
{
	ASSERT(meta__frame_state(f) == FRAME_READING);
	return unlikely(m->copies > 1) && f->io.turned &&
	       meta__drive_reads(m, META_BADDR_DRIVE(meta__frame_baddr(f)));
}

void meta__cache_io_done(struct meta *m, struct meta__io *x)
{
	struct meta__cache *c = m->cache;
	struct meta__frame *f = x->owner;
	const struct meta__page_want want = {
		.baddr = meta__frame_baddr(f),
		.gen = f->gen,
		.shard = f->shard,
		.level = f->level,
	};
	const char *why = "it cannot be read";
	struct list waiters, *l;

	ASSERT(x->kind == META__IO_PAGE_READ);
	ASSERT(!m->home);
	ASSERT(meta__frame_state(f) == FRAME_READING);
	if (!x->io.status)
		why = meta__page_check(f->page, &want);
	/* A bit that flipped in transit is corrected by another read, of each other copy. */
	if (why && (!f->again || f->again + 1u < m->copies) && !x->io.lost) {
		x->skips = ++f->again;
		meta__frame_io(m, f, META_IO_READ, META__IO_PAGE_READ);
		return;
	}
	/* A woken operation may run, request pages and evict others, within wake(). */
	list_init(&waiters);
	while ((l = list_pop_front(&f->waiters))) {
		list_push_back(&waiters, l);
		f->fresh++;
	}
	if ((why || has_bad_copy(m, f)) && !list_empty(&waiters))
		m->above->suspect_page(m, &want,
				       &list_entry(waiters.next, struct meta__waiter, link)->key);
	if (why) {
		bad_page(m, f, why);
		f->fresh = 0;
		meta__frame_free(m, f);
		if (unlikely(x->io.lost)) /* a drive that nothing stops: the frame is its own */
			list_del(&f->link);
	} else {
		meta__frame_state_set(c, f, FRAME_CLEAN); /* (2) */
		meta__frame_used(f);
		if (f->fresh > 0) {
			c->fresh_count++;
			list_push_back(&c->fresh, &f->link);
		}
	}
	wake(m, &waiters, why ? -EIO : 0);
}
