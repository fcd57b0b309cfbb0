/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Mount finds the groups of zones (meta_pair.c) by their headers.
 *
 *   header of zone 3: first, twin 8, pair 41      header of zone 8: twin of 3, pair 41
 *
 *   all are whole        a group if all say the same: its zones, and its number
 *   some cannot be read  a group if all others do; of several that claim a zone the one with the
 *                        highest number
 *
 * Headers cannot be read if both copies are damaged, or if their drive is lost or missing.
 *
 *  (1) Groups are found before any tree is read, since a page may be readable in its twin only.
 *      When all trees are counted, and the zones that the log names are held, the empty groups are
 *      dissolved: before any zone is opened.
 *  (2) A twin of an earlier life names a first zone that does not name it back, or has a lower
 *      number than the twin of today [test_meta_pair:twin_of_an_earlier_life_is_not_read,
 *      test_meta_three:twin_of_an_earlier_life_is_not_read].
 *      A zone whose header cannot be read is what its last group says
 *      [test_meta_pair_moves:zone_of_a_lost_drive_is_what_its_last_pair_says,
 *      test_meta_missing_copies:groups_and_folds_are_known_by_the_headers_of_others].  A group
 *      that gives way to a later one leaves its other zones that cannot be read as unknown as they
 *      were.
 *  (3) A zone with roots has no twin, though it may have had one in an earlier life
 *      [test_meta_pair_moves:roots_where_a_pair_was_have_no_twin].
 *  (4) Missing drives are not lost if they have all copies of a block: they served alone once, and
 *      other drives were added since.  Only the operator can say that they will never come back
 *      [test_meta_pair_moves:drive_with_the_only_copy_is_not_lost_at_a_mount,
 *      test_meta_three:drives_with_all_copies_are_not_lost_at_a_mount].
 */
#include "meta/engine/meta_fold.h"

#include "base/num.h"

#include <errno.h>
#include <string.h>

/* The group of a zone, as its header says. */
struct claim {
	uint32_t zone[META_COPIES_MAX]; /* the first one, and its twins, which ascend; else 0 */
	uint32_t count;                 /* 0: it is in none */
	uint64_t number;
};

static bool may_be_first(const struct meta__boot *b, uint32_t zone)
{
	ASSERT(zone < b->geo.nzones);
	return b->head_kind[zone] == META__ZONE_PAGE || b->head_kind[zone] == META__ZONE_DATA;
}

/* The header of the zone can be read. */
static struct claim claim_of(const struct meta__boot *b, uint32_t zone)
{
	const uint32_t one = b->head_twin[zone] - 1, two = b->head_twin2[zone] - 1;
	const uint32_t known = b->head_twin2[zone] ? 3 : 2;
	struct claim c = { .number = b->head_pair[zone] };

	ASSERT(zone < b->geo.nzones);
	if (b->head_twin[zone] == 0 || c.number == 0 || one >= b->geo.nzones ||
	    (known > 2 && two >= b->geo.nzones))
		return c;
	c.zone[0] = one;
	c.zone[1] = zone;
	if (may_be_first(b, zone))
		c = (struct claim){ .number = c.number, .zone = { zone, one } };
	else if (b->head_kind[zone] != META__ZONE_TWIN)
		return c;
	if (known > 2) {
		c.zone[2] = max_u32(c.zone[1], two);
		c.zone[1] = min_u32(c.zone[1], two);
	}
	c.count = known;
	return c;
}

/* Does the header of this zone, if it can be read, say the same? */
static bool agrees(const struct meta *m, const struct claim *c, uint32_t zone)
{
	const struct claim other = claim_of(m->boot, zone);

	ASSERT(c->count > 1 && c->number > 0);
	ASSERT(zone < m->boot->geo.nzones);
	return meta__head_unknown(m, zone) ||
	       (other.number == c->number && other.count == c->count &&
		memcmp(other.zone, c->zone, sizeof(other.zone)) == 0);
}

/* On different drives, without roots (3), and as all headers that can be read say (2). */
static bool is_group(const struct meta *m, const struct claim *c)
{
	const struct meta__geo *g = &m->boot->geo;
	uint64_t drives = 0;

	ASSERT(c->count <= META_COPIES_MAX);
	ASSERT(!m->zones->counted); /* (1) */
	if (c->count == 0 || c->count > m->copies)
		return false;
	for (uint32_t i = 0; i < c->count; i++) {
		const uint32_t d = META_BADDR_DRIVE(meta__geo_zone_baddr(g, c->zone[i]));

		if (drives >> d & 1 || meta__geo_zone_roots(g, c->zone[i]) ||
		    !agrees(m, c, c->zone[i]))
			return false;
		drives |= 1ull << d;
	}
	return true;
}

/* (2) Others of its group whose headers cannot be read may be anything. */
void meta__pair_forget(struct meta *m, uint32_t zone)
{
	uint32_t other[META__TWINS_MAX];
	const uint32_t count = meta__group_end(m, zone, other);

	ASSERT(!m->zones->counted); /* (1) */
	for (uint32_t i = 0; i < count; i++)
		if (meta__head_unknown(m, other[i]))
			m->boot->head_kind[other[i]] = HEAD_LOST;
}

/* (2) */
static void take(struct meta *m, const struct claim *c)
{
	struct meta__boot *b = m->boot;

	ASSERT(c->count > 1 && c->count <= m->copies);
	ASSERT(!m->zones->counted); /* (1) */
	for (uint32_t i = 0; i < c->count; i++)
		if (meta__twin(m, c->zone[i]) != META__ZONE_NONE &&
		    meta__zone_at(m, c->zone[i])->pair >= c->number)
			return;
	for (uint32_t i = 0; i < c->count; i++)
		meta__pair_forget(m, c->zone[i]);
	meta__group_make(m, c->zone, c->count, c->number);
	if (meta__head_unknown(m, c->zone[0]) && b->head_kind[c->zone[0]] == META__ZONE_TWIN)
		b->head_kind[c->zone[0]] = HEAD_LOST; /* it was that in an earlier life */
	for (uint32_t i = 1; i < c->count; i++)
		if (meta__head_unknown(m, c->zone[i]))
			b->head_kind[c->zone[i]] = META__ZONE_TWIN;
}

void meta__pairs_find(struct meta *m)
{
	const struct meta__boot *b = m->boot;

	ASSERT(m->copies > 1 && !m->zones->counted);
	for (uint32_t i = 0; i < b->geo.nzones; i++) {
		const struct claim c = claim_of(b, i);

		m->zones->pair_last = max_u64(m->zones->pair_last, b->head_pair[i]);
		if (!meta__head_unknown(m, i) && is_group(m, &c))
			take(m, &c);
	}
}

void meta__pairs_settle(struct meta *m)
{
	ASSERT(!m->zones->counted); /* (1) */
	for (uint32_t i = 0; i < m->zones->geo.nzones; i++) {
		uint32_t other[META__TWINS_MAX];

		if (meta__twin(m, i) == META__ZONE_NONE || meta__zone_at(m, i)->state != ZONE_FREE)
			continue;
		ASSERT(meta__zone_at(m, i)->live == 0); /* (1) */
		for (uint32_t k = meta__group_end(m, i, other); k-- > 0;)
			ASSERT(meta__zone_at(m, other[k])->state == ZONE_FREE);
	}
}

/* Returns a drive that this mount makes lost if more drives of the group, or fold, are lost then
 * than it can do without; META_DRIVES_MAX: so many are not, or all of these were lost before. */
static uint32_t misses(const struct meta *m, uint32_t zone)
{
	const struct meta__boot *b = m->boot;
	const uint64_t drives = meta__drives_of(m, zone);
	const uint32_t spare = meta__in_fold(meta__zone_at(m, zone))
				       ? meta__fold_parities(m)
				       : (uint32_t)__builtin_popcountll(drives) - 1;
	uint32_t drive = META_DRIVES_MAX, lost = 0;

	ASSERT(m->copies > 1 && b->log_judged);
	for (uint64_t left = drives; left; left &= left - 1) {
		const uint32_t d = (uint32_t)__builtin_ctzll(left);

		ASSERT(d < b->geo.ndrives);
		if (b->super.drive_state[d] != DRIVE_LOST)
			continue;
		lost++;
		if (b->top.drive_state[d] != DRIVE_LOST)
			drive = d;
	}
	return lost > spare ? drive : META_DRIVES_MAX;
}

static uint32_t lost_drives(const struct meta *m)
{
	uint32_t lost = 0;

	ASSERT(m->boot->geo.ndrives <= META_DRIVES_MAX);
	for (uint32_t d = 0; d < m->boot->geo.ndrives; d++)
		lost += m->boot->super.drive_state[d] == DRIVE_LOST;
	return lost;
}

/* (4) Before anything is written.  Groups that lack no zone have more than can be missing, unless
 * whole domains are (meta_domain.c). */
int meta__pairs_judge(struct meta *m)
{
	const struct meta__boot *b = m->boot;
	const bool many = lost_drives(m) >= m->copies; /* of one domain, by its name */

	ASSERT(b->log_judged && !m->zones->counted);
	ASSERT(!m->mounted && !b->replaying);
	if (m->copies < 2 || b->told_missing || (m->zones->lone == 0 && !many))
		return 0;
	for (uint32_t i = 0; i < b->geo.nzones; i++) {
		const struct meta__zone *at = meta__zone_at(m, i);
		uint32_t d;

		if (!(at->lone || many) || (at->live == 0 && at->pending == 0))
			continue;
		d = misses(m, i);
		if (d == META_DRIVES_MAX)
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
