/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The pace of data and pages that leave a drive (meta_gc.c (7), meta_collect.c (7)).
 *
 *   the owner, which has a clock --credit--> meta_rebuild_pace()
 *   a move of an extent, a touch of a page   may begin while there is credit, and takes it
 *
 *  (1) What has begun goes on to its end, so the credit may fall below 0; the debt is paid before
 *      the next begins, so the mean is kept [test_meta_rebuild:pace_is_kept].
 *  (2) Room for clients comes first: while zones are short and collection could win some, the drain
 *      in its way has no bound [test_meta_rebuild:pace_does_not_hold_up_collection].
 */
#include "meta/meta_rebuild.h"
#include "meta/ops/meta_gc.h"

void meta_rebuild_pace(struct meta *m, uint32_t extents, int64_t blocks)
{
	ASSERT(extents > 0);
	ASSERT(m->gc);
	m->gc->pace_extents = min_u32(extents, META__GC_MOVES);
	m->gc->pace_blocks = blocks;
}

int64_t meta_rebuild_credit(const struct meta *m)
{
	ASSERT(m->gc->pace_extents > 0);
	return m->gc->pace_blocks;
}

uint32_t meta__pace_extents(const struct meta *m)
{
	ASSERT(m->gc->pace_extents <= META__GC_MOVES);
	if (meta__gc_due(m)) /* (2) */
		return META__GC_MOVES;
	return m->gc->pace_blocks > 0 ? m->gc->pace_extents : 0;
}

void meta__pace_take(struct meta *m, uint32_t blocks)
{
	ASSERT(blocks > 0);
	ASSERT(blocks <= META_CHUNK_BLOCKS);
	if (m->gc->pace_blocks != META_PACE_FREE)
		m->gc->pace_blocks -= blocks; /* (1) */
}
