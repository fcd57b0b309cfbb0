/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Sharing shards: the store's thread, which alone changes a shard, may read it, and, while it is
 * open, any reader (meta_reader.c), each in its own thread, in place, without a message.
 *
 *     asked for OPEN_AFTER times, or knocked at, and no change waits
 *   CLOSED  ------------------------------------------------------>  OPEN   nobody changes it
 *     ^                                                               |
 *     |  every reader has left its earlier plans                      | a change wants it: (4)
 *     +------------------------- LEAVING <----------------------------+
 *                                nobody changes it, no reader enters
 *
 *   reader   --[ enter ... plan, plan ... leave ]--[ enter ...       usually a turn of its loop
 *   store        close, now = 7               row.in is 0 or >= 7: left
 *
 * So a read crosses no cores wherever its client is, even for a file or a directory that all
 * readers use; and a change waits for at most two turns of each reader, and only the first change
 * after the shard was opened.  A reader that finds a shard closed knocks, and looks again when it
 * is open; or it asks the store's thread, as for a page that is not in memory.
 *
 *   S1 -> T1   the store has stored a shard's pages before it sets `open`, or `lent`
 *              (meta_lend.c);
 *   S2 -> T2   a reader (meta_reader.c) has read its last page, and stored its last pin, before
 *              `in` shows that it has left, and it has stopped reading before a pin goes;
 *   S3 -> T3   the store's thread closes shards, and unlinks frames, before it reads `in`, and
 *              reads by an exchange: whichever of the two comes first, the other (meta_reader.c)
 *              sees it.
 *
 * Invariants, true between any two calls:
 *
 *  (1) In an open or leaving shard, no page, root or counter that a plan reads changes.  Frames
 *      may come, and be unlinked; state changes between clean, dirty and frozen.
 *  (2) All plans of a reader between enter and leave see one state: a change of two shards waits
 *      for both, so no reader sees half of it, or an older state after a client was told of it
 *      [test_meta_share:no_reader_sees_half_of_a_change].
 *  (3) A frame is reused for another page only when every reader that could have found it has left
 *      (meta_cache.c).  Blocks that a reader has planned to read are pinned in its row before it
 *      leaves, and so before any change could let them die
 *      [test_meta_share:blocks_that_a_reader_reads_are_not_reused].
 *  (4) An opened shard is not closed before every reader has begun a turn since, or sleeps: if
 *      some clients read and some write all the time, both make progress, usually in turn (a reader
 *      that finds it closed again asks).  And a shard that a change has
 *      closed is not opened before the change was applied: it waits for a turn of each reader at
 *      most twice, never a third time
 *      [test_meta_share:what_was_opened_is_looked_at_before_it_is_closed].
 */
#include "meta/engine/meta_lend.h"

#include "base/num.h"
#include "meta/engine/meta_ops.h"
#include "meta/engine/meta_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_AFTER 16u /* calls that readers had to make: closing it again costs no more */

/* ---- leaving --------------------------------------------------------------------------- */

uint64_t meta__share_leave(struct meta *m)
{
	struct meta__share *s = m->share;

	ASSERT(!m->home);
	s->wanted = atomic_load_explicit(&s->now, memory_order_relaxed) + 1;
	return s->wanted;
}

static void look_who_left(struct meta__share *s)
{
	uint64_t left = atomic_load_explicit(&s->now, memory_order_relaxed);

	ASSERT(s->left < left);
	for (uint32_t i = 0; i < META_READERS_MAX; i++) {
		/* An exchange with its own value.  T2, S3 */
		uint64_t in = atomic_fetch_add_explicit(&s->row[i].in, 0, memory_order_acq_rel);

		if (in)
			left = min_u64(left, in);
	}
	s->left = max_u64(s->left, left); /* an old `now` will do, too: S3 */
	ASSERT(s->left <= atomic_load_explicit(&s->now, memory_order_relaxed));
}

void meta__share_turn(struct meta *m)
{
	struct meta__share *s = m->share;
	uint64_t now = atomic_load_explicit(&s->now, memory_order_relaxed);

	ASSERT(s->left <= now);
	if (s->wanted > now)
		atomic_store_explicit(&s->now, now = s->wanted, memory_order_release); /* S3 */
	if (s->left < now)
		look_who_left(s);
}

/* ---- closing, opening --------------------------------------------------------------------- */

static bool is_open(const struct meta__share *s, uint32_t shard)
{
	return atomic_load_explicit(&s->open[shard], memory_order_relaxed) != 0;
}

bool meta__share_take(struct meta *m, uint32_t shard)
{
	struct meta__share *s = m->share;

	ASSERT(!m->home);
	ASSERT(shard < m->nshards);
	ASSERT(!s->away[shard]); /* its plan has read it */
	if (is_open(s, shard)) {
		if (!meta__share_left(m, s->opened[shard])) { /* (4) */
			s->waits = max_u64(s->waits, s->opened[shard]);
			return false;
		}
		atomic_store_explicit(&s->open[shard], 0, memory_order_relaxed); /* S3 */
		s->closed[shard] = meta__share_leave(m);
		s->asked[shard] = 0;
	}
	if (meta__share_left(m, s->closed[shard])) /* (1) */
		return true;
	s->waits = max_u64(s->waits, s->closed[shard]);
	return false;
}

/* A change that waits must find it closed when its turn comes. */
bool meta__share_change_waits(const struct meta *m)
{
	return !list_empty(&m->ops->leaving) || !list_empty(&m->ops->ready) ||
	       !list_empty(&m->ops->stalled[META__STALL_CHANGES]) ||
	       !list_empty(&m->ops->stalled[META__STALL_OWN]);
}

static void open_it(struct meta *m, uint32_t shard)
{
	struct meta__share *s = m->share;

	if (is_open(s, shard))
		return;
	meta__lend_others(m, shard);
	if (s->away[shard] && !meta__lend_home(m, shard))
		return;
	ASSERT(!s->away[shard]);
	s->opened[shard] = meta__share_leave(m);
	atomic_store_explicit(&s->open[shard], ++s->times, memory_order_release); /* S1 */
}

void meta_reader_asked(struct meta *m, uint32_t shard)
{
	struct meta__share *s = m->share;

	if (shard < m->nshards && ++s->asked[shard] >= s->open_after &&
	    !meta__share_change_waits(m))
		open_it(m, shard);
}

void meta_reader_knocks(struct meta *m, uint32_t shard, uint32_t reader)
{
	struct meta__share *s = m->share;

	if (shard >= m->nshards)
		return;
	ASSERT(reader < META_READERS_MAX);
	ASSERT(s->knock_count <= m->nshards);
	if (!s->knocked[shard])
		s->knock[s->knock_count++] = shard;
	else if (s->knocked[shard] != reader + 1)
		reader = META_READERS_MAX; /* several */
	s->knocked[shard] = (uint8_t)(reader + 1);
}

/* One that is run within this turn, or when all have left. */
static bool change_comes(const struct meta *m)
{
	return !list_empty(&m->ops->leaving) || !list_empty(&m->ops->ready);
}

bool meta_readers_let_in(struct meta *m)
{
	struct meta__share *s = m->share;
	const bool opens = !meta__share_change_waits(m);

	if (s->knock_count == 0 || change_comes(m))
		return false;
	while (s->knock_count > 0) {
		uint32_t shard = s->knock[--s->knock_count];

		ASSERT(shard < m->nshards);
		ASSERT(s->knocked[shard] > 0);
		/* Otherwise a change waits long for room: a reader that knocked should ask.  A
		 * borrower waits for blanks, which come in each turn. */
		if (opens && s->knocked[shard] != s->away[shard])
			open_it(m, shard);
		s->knocked[shard] = 0;
	}
	return true;
}

/* ---- seen by a reader ------------------------------------------------------------------------ */

/* Sets the root of its tree, and for a borrower the counters to continue. */
static void look_at(struct meta *m, uint32_t shard, uint64_t opened)
{
	const struct meta__shard *is = &m->home->shard[shard];
	struct meta__shard *seen = &m->shard[shard];

	ASSERT(m->home);
	ASSERT(opened != 0);
	seen->opened = opened;
	seen->root_baddr = is->root_baddr;
	seen->root_gen = is->root_gen;
	seen->height = is->height;
	seen->shape = is->shape;
	seen->empty_seq = is->empty_seq;
	seen->seq = is->seq;
	seen->uniq_next = is->uniq_next;
	seen->dir_next = is->dir_next;
	seen->files = is->files;
	seen->dirs = is->dirs;
	seen->changed = false;
}

/* Once true, it is true for the rest of the turn: an apply cannot end halfway. */
static bool is_lent(struct meta *m, uint32_t shard)
{
	struct meta__shard *seen = &m->shard[shard];
	uint64_t lent;

	DASSERT(m->reader < META_READERS_MAX);
	if (seen->turn != m->turn) {
		/* T1 */
		lent = atomic_load_explicit(&m->home->share->lent[shard], memory_order_acquire);
		if ((lent & 0xff) != m->reader + 1u)
			return false;
		if (seen->opened != lent) {
			look_at(m, shard, lent);
			meta__borrow_begin(m, shard);
		}
		seen->turn = m->turn;
	}
	if (seen->changed)
		m->tx->seen = META_SEEN_MADE;
	return true;
}

bool meta__share_sees(struct meta *m, uint32_t shard)
{
	const struct meta__share *s = m->home->share;
	const uint32_t open = atomic_load_explicit(&s->open[shard], memory_order_acquire); /* T1 */

	DASSERT(m->home);
	DASSERT(shard < m->nshards);
	if (unlikely(open == 0)) {
		if (is_lent(m, shard))
			return true;
		m->cache->missed = true;
		m->cache->unseen = shard;
		return false;
	}
	if (unlikely(m->shard[shard].opened != (uint64_t)open << 8))
		look_at(m, shard, (uint64_t)open << 8);
	return true;
}

/* ---- pins ----------------------------------------------------------------------------------- */

bool meta__share_unpinned(const struct meta *m, uint64_t epoch)
{
	uint32_t pins = 0;

	for (uint32_t i = 0; i < META_READERS_MAX; i++)
		pins |= atomic_load_explicit(&m->share->row[i].pins[epoch % META__EPOCHS],
					     memory_order_acquire); /* T2 */
	return pins == 0;
}

uint64_t meta__share_hits(const struct meta *m)
{
	uint64_t hits = 0;

	for (uint32_t i = 0; m->share && i < META_READERS_MAX; i++)
		hits += atomic_load_explicit(&m->share->row[i].hits, memory_order_relaxed);
	return hits;
}

/* ---- made, ended --------------------------------------------------------------------------- */

int meta_share(struct meta *m)
{
	struct meta__share *s = aligned_alloc(META__LINE, align_up(sizeof(*s), META__LINE));

	if (!s)
		return -ENOMEM;
	memset(s, 0, sizeof(*s));
	atomic_init(&s->now, 1);
	atomic_init(&s->epoch, 1);
	s->left = 1;
	s->open_after = OPEN_AFTER;
	m->share = s;
	return meta__lend_create(m);
}

void meta__share_destroy(struct meta *m)
{
	meta__lend_destroy(m);
	free(m->share);
	m->share = NULL;
}
