/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The room in the index's leaves: after many small files were deleted, half-empty leaves have room
 * for others, but no zone is free.
 *
 *  (1) Records with random keys fill a leaf to two thirds, on average, before it is split.  A leaf
 *      with less has room, and one with more takes from it.  So full leaves add up to no room
 *      [test_meta_statfs:room_in_half_empty_leaves_is_free].
 *  (2) Only leaves in memory count, so the estimate is too low if the index is larger than the
 *      cache.  It looks at LEAVES_SAMPLED frames, so it costs the same with any cache.
 *  (3) Blocks of files cannot use it.  New files are assumed to resemble existing ones:
 *      the room counts in proportion to the index's share of all live data
 *      [test_meta_statfs:room_in_half_empty_leaves_is_free].
 */
#include "meta/format/meta_page.h"
#include "meta/engine/meta_share.h"
#include "meta/engine/meta_tree.h"
#include "base/num.h"

#define LEAVES_SAMPLED 256u
#define LEAF_FILLED    (META__LEAF_SPACE / 3 * 2) /* (1) */

static bool counts(const struct meta *m, const struct meta__frame *f)
{
	if (!meta__frame_readable(f) || f->level > 0 || meta__frame_gone(f))
		return false;
	return !m->share || !m->share->away[f->shard]; /* a borrower may be changing it */
}

static int64_t room_in_memory_bytes(const struct meta *m)
{
	const struct meta__cache *c = m->cache;
	const uint32_t sampled = min_u32(c->nframes, LEAVES_SAMPLED);
	int64_t room = 0;

	ASSERT(sampled > 0); /* (2) */
	ASSERT(sampled <= LEAVES_SAMPLED);
	for (uint32_t i = 0; i < sampled; i++) {
		const struct meta__frame *f = &c->frame[(uint64_t)i * c->nframes / sampled];

		if (counts(m, f))
			room += (int64_t)LEAF_FILLED - meta__page_used(f->page);
	}
	return room * c->nframes / sampled;
}

uint64_t meta__leaf_room_blocks(const struct meta *m)
{
	const uint64_t index = m->zones->live_pages * META_PAGE_BLOCKS;
	const int64_t bytes = room_in_memory_bytes(m);

	if (bytes <= 0 || index == 0)
		return 0;
	return (uint64_t)bytes / BLOCK_SIZE * index / (index + m->zones->live_blocks); /* (3) */
}
