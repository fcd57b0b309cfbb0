/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Counts shards that are open, lent or asked for, and blank pages: with WK_DEBUG only.  Readers
 * change their rows meanwhile, so these are compared with bounds.
 *
 *   L2 -> M2 (meta_lend.c, L2 in meta_reader.c), L4 -> M4 (meta_lend.c, L4 in meta_borrow.c) */
#include "meta/engine/meta_lend.h"
#include "meta/engine/meta_self_check.h"
#include "meta/engine/meta_share.h"
#include "meta/engine/meta_tree.h"

#ifdef WK_DEBUG

struct share_sums {
	uint32_t away, lent, knocked, listed;
	uint32_t of[META_READERS_MAX]; /* away, by reader */
};

static void shard_check(const struct meta *m, uint32_t shard, struct share_sums *sum)
{
	const struct meta__share *s = m->share;
	const uint64_t lent = atomic_load_explicit(&s->lent[shard], memory_order_relaxed);
	const bool open = atomic_load_explicit(&s->open[shard], memory_order_relaxed) != 0;

	ASSERT(!open || !s->away[shard]);
	ASSERT(!lent || (lent & 0xff) == s->away[shard]);
	ASSERT(!lent || lent == m->lend->as[shard]);
	ASSERT(s->away[shard] <= META_READERS_MAX);
	ASSERT(s->knocked[shard] <= META_READERS_MAX + 1);
	sum->lent += lent != 0;
	sum->knocked += s->knocked[shard] != 0;
	sum->listed += m->lend->listed[shard];
	if (!s->away[shard])
		return;
	ASSERT(m->shard[shard].height > 0); /* an empty tree is not lent */
	sum->away++;
	sum->of[s->away[shard] - 1]++;
}

static uint32_t blanks_of(const struct meta__borrower *b)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < ARRAY_LEN(b->blanks); i++)
		count += atomic_load_explicit(&b->blanks[i].head, memory_order_relaxed) -
			 atomic_load_explicit(&b->blanks[i].tail, memory_order_acquire); /* M4 */
	return count;
}

static void borrower_check(const struct meta *m, uint32_t i, const struct share_sums *sum)
{
	const struct meta__borrower *b = &m->lend->by[i];

	ASSERT(b->m || b->away == 0);
	ASSERT(b->away == sum->of[i]);
	ASSERT(b->taken <= atomic_load_explicit(&m->share->row[i].made,
						memory_order_acquire)); /* meta_borrow.c (2).  M2 */
	ASSERT(blanks_of(b) <= ARRAY_LEN(b->blanks) * META__BLANKS);
}

void meta__share_check(const struct meta *m)
{
	const struct meta__share *s = m->share;
	struct share_sums sum = { 0 };
	uint32_t blanks = 0;

	if (!s)
		return;
	ASSERT(s->left <= atomic_load_explicit(&s->now, memory_order_relaxed));
	for (uint32_t i = 0; i < m->nshards; i++)
		shard_check(m, i, &sum);
	for (uint32_t i = 0; i < META_READERS_MAX; i++) {
		borrower_check(m, i, &sum);
		blanks += blanks_of(&m->lend->by[i]);
	}
	ASSERT(sum.away == m->lend->away_count);
	ASSERT(sum.lent == atomic_load_explicit(&s->lends, memory_order_relaxed));
	ASSERT(sum.knocked == s->knock_count);
	ASSERT(sum.listed == m->lend->count);
	ASSERT(blanks <= m->cache->count[FRAME_BLANK]); /* meta_lend.c (5): some are dirty by now */
}

#endif
