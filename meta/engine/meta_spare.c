/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The room that files leave for the rebuild of lost drives: meta_space.c (5).
 *
 *   all groups        |<------------------------------- all ------------------------------->|
 *   without the drive |<------------------ rest ------------------>|<------- lost -------->|
 *   full store        | live, log, pages | reserve |          spare zones                   |
 *   its free zones    |                            ^ some, spread over all drives           |
 *
 *  (1) Live blocks: they fit into `rest`, beside the log, pages and the reserve.  The spare zones
 *      are `lost`, SPARE_ROOM in which collection begins, and a part of all for dead blocks, which
 *      collection cannot bring down to none.  They need not be free, and df counts them as used
 *      [test_meta_spare].
 *  (2) Free zones: those on the lost drive are lost, too.  If `need` groups must be free in `rest`
 *      so that a checkpoint and collection can begin there, need * all / rest are kept free before
 *      the loss: 1.5 times as many with three drives of one size, 1.2 times with six.  These are
 *      spare zones that are collected earlier, so df says the same
 *      [test_meta_full_rebuild:collection_can_begin_on_the_drives_that_are_left].
 */
#include "meta/engine/meta_pair.h"

#include "base/num.h"

#define SPARE_ROOM       4u  /* (1) */
#define SPARE_ROOM_SHARE 32u /* (1): of all */

uint64_t meta__spare_of(uint64_t all, uint64_t lost)
{
	ASSERT(lost <= all);
	return lost ? min_u64(all, lost + SPARE_ROOM + all / SPARE_ROOM_SHARE) : 0;
}

uint32_t meta__spare_zones(const struct meta *m)
{
	const uint64_t all = meta__groups_total(m);
	const uint64_t kept = meta__spare_of(all, meta__groups_kept(m)), others = all - kept;

	ASSERT(kept <= all); /* (1) */
	DASSERT(m->conf.spare_percent < 100);
	return (uint32_t)(kept + div_up(others * m->conf.spare_percent, 100));
}

uint32_t meta__spare_free(const struct meta *m, uint32_t need)
{
	const uint64_t all = meta__groups_total(m), lost = meta__groups_kept(m);

	ASSERT(need > 0);
	ASSERT(lost <= all);
	if (likely(lost == 0) || lost >= all)
		return need;
	return (uint32_t)div_up(need * all, all - lost); /* (2) */
}
