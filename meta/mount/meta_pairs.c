/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Mount finds the pairs of zones by their headers.
 *
 *   header of zone 3: first, twin 8, pair 41      header of zone 8: twin of 3, pair 41
 *
 *   both are whole       a pair if they name each other, and the same number
 *   one cannot be read   a pair by the other one; if several twins claim a first zone, the one
 *                        with the highest number
 *
 *  (1) Pairs are found before any tree is read, since a page may be readable in its twin only.
 *      When all trees are counted, and the zones that the log names are held, the empty pairs are
 *      dissolved: before any zone is opened.
 *  (2) A twin of an earlier life names a first zone that does not name it back, or has a lower
 *      number than the twin of today [test_meta_pair:twin_of_an_earlier_life_is_not_read].
 *      A zone whose header cannot be read is what its last pair says
 *      [test_meta_pair_moves:zone_of_a_lost_drive_is_what_its_last_pair_says].
 *  (3) A zone with roots has no twin, though it may have had one in an earlier life
 *      [test_meta_pair_moves:roots_where_a_pair_was_have_no_twin].
 *  (4) A missing drive is not lost if it has the only copy of a block: it served alone once, and
 *      other drives were added since.  Only the operator can say that it will never come back
 *      [test_meta_pair_moves:drive_with_the_only_copy_is_not_lost_at_a_mount].
 */
#include "meta/engine/meta_pair.h"

#include <errno.h>

/* Neither copy of its header can be read, or its drive is lost. */
static bool is_unknown(const struct meta *m, uint32_t zone)
{
	const struct meta__geo *g = &m->boot->geo;

	ASSERT(zone < g->nzones);
	return meta__zone_at(m, zone)->head_lost ||
	       g->state[META_BADDR_DRIVE(meta__geo_zone_baddr(g, zone))] == DRIVE_LOST;
}

static bool may_be_first(const struct meta__boot *b, uint32_t zone)
{
	ASSERT(zone < b->geo.nzones);
	return b->head_kind[zone] == META__ZONE_PAGE || b->head_kind[zone] == META__ZONE_DATA;
}

static bool on_two_drives(const struct meta *m, uint32_t a, uint32_t b)
{
	const struct meta__geo *g = &m->boot->geo;

	ASSERT(a < g->nzones && b < g->nzones);
	return META_BADDR_DRIVE(meta__geo_zone_baddr(g, a)) !=
	       META_BADDR_DRIVE(meta__geo_zone_baddr(g, b));
}

/* Is the zone `twin` that of `first`, by what can be read of the two? */
static bool is_pair(const struct meta *m, uint32_t first, uint32_t twin)
{
	const struct meta__boot *b = m->boot;
	const bool by_first = may_be_first(b, first) && b->head_twin[first] == twin + 1;
	const bool by_twin =
		b->head_kind[twin] == META__ZONE_TWIN && b->head_twin[twin] == first + 1;

	ASSERT(first < b->geo.nzones && twin < b->geo.nzones);
	if (!on_two_drives(m, first, twin))
		return false;
	if (meta__geo_zone_roots(&b->geo, first) || meta__geo_zone_roots(&b->geo, twin))
		return false; /* (3) */
	if (is_unknown(m, first))
		return by_twin && !is_unknown(m, twin);
	if (is_unknown(m, twin))
		return by_first;
	return by_first && by_twin && b->head_pair[first] == b->head_pair[twin];
}

/* (2) */
static void take(struct meta *m, uint32_t first, uint32_t twin, uint64_t pair)
{
	struct meta__boot *b = m->boot;
	const uint32_t other = meta__twin(m, first), owner = meta__twin(m, twin);

	ASSERT(pair > 0);
	if (other != META__ZONE_NONE && meta__zone_at(m, first)->pair > pair)
		return;
	if (owner != META__ZONE_NONE && meta__zone_at(m, twin)->pair > pair)
		return;
	if (other != META__ZONE_NONE)
		(void)meta__unpair(m, first);
	if (owner != META__ZONE_NONE && owner != first)
		(void)meta__unpair(m, owner);
	meta__pair(m, first, twin, pair);
	if (is_unknown(m, first) && b->head_kind[first] == META__ZONE_TWIN)
		b->head_kind[first] = HEAD_LOST; /* it was that in an earlier life */
	if (is_unknown(m, twin))
		b->head_kind[twin] = META__ZONE_TWIN;
}

void meta__pairs_find(struct meta *m)
{
	const struct meta__boot *b = m->boot;

	ASSERT(m->copies > 1 && !m->zones->counted);
	for (uint32_t i = 0; i < b->geo.nzones; i++) {
		const uint32_t to = b->head_twin[i] - 1;

		m->zones->pair_last = max_u64(m->zones->pair_last, b->head_pair[i]);
		if (is_unknown(m, i) || b->head_twin[i] == 0 || to >= b->geo.nzones || to == i ||
		    b->head_pair[i] == 0)
			continue;
		if (may_be_first(b, i) && is_pair(m, i, to))
			take(m, i, to, b->head_pair[i]);
		else if (b->head_kind[i] == META__ZONE_TWIN && is_pair(m, to, i))
			take(m, to, i, b->head_pair[i]);
	}
}

void meta__pairs_settle(struct meta *m)
{
	ASSERT(!m->zones->counted); /* (1) */
	for (uint32_t i = 0; i < m->zones->geo.nzones; i++) {
		const uint32_t twin = meta__twin(m, i);

		if (twin == META__ZONE_NONE || meta__zone_at(m, i)->state != ZONE_FREE)
			continue;
		ASSERT(meta__zone_at(m, twin)->state == ZONE_FREE);
		ASSERT(meta__zone_at(m, i)->live == 0); /* (1) */
		(void)meta__unpair(m, i);
	}
}

/* (4) Before anything is written. */
int meta__pairs_judge(struct meta *m)
{
	const struct meta__boot *b = m->boot;

	ASSERT(b->log_judged && !m->zones->counted);
	ASSERT(!m->mounted && !b->replaying);
	if (m->copies < 2 || b->told_missing || m->zones->lone == 0)
		return 0;
	for (uint32_t i = 0; i < b->geo.nzones; i++) {
		const struct meta__zone *at = meta__zone_at(m, i);
		const uint32_t d = META_BADDR_DRIVE(meta__geo_zone_baddr(&b->geo, i));

		ASSERT(d < b->geo.ndrives);
		if (!at->lone || (at->live == 0 && at->pending == 0) ||
		    b->super.drive_state[d] != DRIVE_LOST || b->top.drive_state[d] == DRIVE_LOST)
			continue;
		return meta__boot_fail(m, -ENODEV,
				       "drive %u%s%s is missing, and has the only copy of some "
				       "blocks; allow_missing = %u goes on without them for ever, "
				       "wekactl check --salvage DIR saves the others",
				       d, *b->super.drive_name[d] ? ", " : "",
				       b->super.drive_name[d], d);
	}
	return 0;
}
