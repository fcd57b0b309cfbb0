/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Does anything depend on a drive: a block, a zone of the log or a root whose only readable copy is
 * there?
 *
 * A store of several copies goes on without a drive exactly if nothing depends on it (meta_pair.c
 * (4)).  So another drive may be lost before an earlier one is gone, as soon as each block, zone of
 * the log and root has a copy that can be read elsewhere.  Nothing of this is counted as it
 * changes: it is looked up at each loss.
 *
 *  (1) A zone counts until durable roots cannot name it any more, though nothing lives there by
 *      now: a power cut goes back to those roots
 *      [test_meta_needed:second_drive_is_lost_exactly_if_nothing_depends_on_it].
 *  (2) A fold can do without as many of its zones, of data or parity, as it has of parity
 *      [test_meta_needed:folds_and_the_log_can_do_without_one_drive].
 *  (3) Zones of the log count, the one ahead included: the log goes on there
 *      [test_meta_needed:folds_and_the_log_can_do_without_one_drive].
 *  (4) Roots count where they are, and where a set of drives that is being written says that they
 *      are: a mount may take either
 *      [test_meta_needed:roots_count_in_both_sets_while_one_is_written].
 *  (5) A fold counts from the first write of a header with its members on, beside the groups that
 *      it is made of: a mount may take it (meta_folder.c (4))
 *      [test_meta_needed:fold_whose_header_is_being_written_counts].
 */
#include "meta/engine/meta_fold.h"
#include "meta/engine/meta_log.h"

#include "base/num.h"

#include <string.h>

static uint32_t drive_of(const struct meta *m, uint32_t zone)
{
	return META_BADDR_DRIVE(meta__geo_zone_baddr(&m->zones->geo, zone));
}

/* ---- pages and data ------------------------------------------------------------------------ */

/* No drive is away, and each block has all its copies: for a first loss that is all. */
static bool all_are_paired(const struct meta *m)
{
	const struct meta__geo *g = &m->zones->geo;
	bool all = m->zones->lone == 0;

	ASSERT(g->ndrives > 0);
	for (uint32_t d = 0; d < g->ndrives; d++)
		all &= g->state[d] == DRIVE_GONE || meta__drive_reads(m, d);
	return all;
}

/* (1) */
static bool has_content(const struct meta__zone *at)
{
	if (at->kind != META__ZONE_PAGE && at->kind != META__ZONE_DATA)
		return false;
	ASSERT(at->state != ZONE_FREE);
	if (at->used <= 1)
		return false; /* nothing was put behind its header */
	return at->state == ZONE_OPEN || at->state == ZONE_CLOSED || at->state == ZONE_EMPTY ||
	       at->state == ZONE_FROZEN;
}

static bool zone_needs(const struct meta *m, uint32_t zone, uint32_t drive)
{
	const uint32_t first = meta__pair_first(m, zone);
	const struct meta__zone *at = meta__zone_at(m, first);
	uint32_t member[META_FOLD_MAX];
	uint64_t others;

	ASSERT(drive < META_DRIVES_MAX);
	if (!has_content(at))
		return false;
	others = meta__drives_of(m, first) & ~(1ull << drive);
	if (meta__in_fold(at)) /* (2) */
		return meta__drives_read(m, others) < meta__fold_members(m, first, member);
	return meta__drives_read(m, others) == 0;
}

static bool any_zone_needs(const struct meta *m, uint32_t drive)
{
	const uint32_t first = m->zones->geo.zone_base[drive];
	bool needs = false;

	if (all_are_paired(m))
		return false;
	ASSERT(first + m->zones->geo.zone_count[drive] <= m->zones->geo.nzones);
	for (uint32_t i = first; !needs && i < first + m->zones->geo.zone_count[drive]; i++)
		needs = zone_needs(m, i, drive);
	return needs;
}

/* (5) No mount takes it if no header that names the members can be read. */
static bool naming_needs(const struct meta *m, uint32_t drive)
{
	const struct meta__zone_seen *head = m->zones->naming[0];
	uint64_t drives = 0;
	bool any = false;

	for (uint32_t i = 0; i < META_FOLD_PARITIES && m->zones->naming[i]; i++) {
		const uint32_t d = drive_of(m, m->zones->naming[i]->zone);

		any |= d != drive && meta__drive_reads(m, d);
	}
	if (likely(!any))
		return false;
	for (uint32_t i = 0; i < head->members; i++)
		drives |= 1ull << drive_of(m, head->member[i]);
	drives |= 1ull << drive_of(m, head->zone);
	if (head->twin)
		drives |= 1ull << drive_of(m, head->twin - 1);
	ASSERT((uint32_t)__builtin_popcountll(drives) ==
	       head->members + meta__fold_parities(m)); /* meta_fold.c (1) */
	return meta__drives_read(m, drives & ~(1ull << drive)) < head->members; /* (2) */
}

/* ---- the log (3) --------------------------------------------------------------------------- */

/* Is a copy on the drive, and no other one on a drive that can be read? */
static bool copies_need(const struct meta *m, const uint32_t *zone, uint32_t count, uint32_t drive)
{
	bool there = false;

	ASSERT(drive < META_DRIVES_MAX);
	for (uint32_t i = 0; i < count; i++) {
		const uint32_t d = drive_of(m, zone[i]);

		if (d != drive && meta__drive_reads(m, d))
			return false;
		there |= d == drive;
	}
	return there;
}

/* Those whose headers are being written, and those of the same order that are ready. */
static bool opening_needs(const struct meta *m, uint32_t drive)
{
	const struct meta__zones *z = m->zones;
	uint32_t zone[META__ZONE_IOS + META__LOG_COPIES], count = 0;

	ASSERT(drive < META_DRIVES_MAX);
	for (uint32_t i = 0; i < META__ZONE_IOS; i++) {
		const struct meta__zone_io *io = &z->io[i];

		if (io->zone != META__ZONE_NONE && !io->mends &&
		    z->zone[io->zone].kind == META__ZONE_LOG)
			zone[count++] = io->zone;
	}
	for (uint32_t i = 0; i < meta__log_copies(z->log_ready); i++)
		zone[count++] = z->log_ready[i];
	ASSERT(count <= ARRAY_LEN(zone));
	return copies_need(m, zone, count, drive);
}

static bool log_needs(const struct meta *m, uint32_t drive)
{
	const struct meta__log *l = m->log;
	bool needs = copies_need(m, l->ahead, meta__log_copies(l->ahead), drive) ||
		     opening_needs(m, drive);

	ASSERT(l->zones_count <= META__LOG_ZONES_MAX);
	for (uint32_t i = 0; !needs && i < l->zones_count; i++)
		needs = copies_need(m, l->zones[i].zone, meta__log_copies(l->zones[i].zone), drive);
	return needs;
}

/* ---- roots (4) ----------------------------------------------------------------------------- */

static bool roots_need(const struct meta *m, const struct meta__geo *g, uint32_t drive)
{
	ASSERT(g->root_copies > 1);
	for (uint32_t i = 0; i < meta__geo_root_pieces(g); i++) {
		bool there = false, elsewhere = false;

		for (uint32_t copy = 0; copy < g->root_copies; copy++) {
			const uint32_t d = meta__geo_root_drive(g, copy, i);

			there |= d == drive;
			elsewhere |= d != drive && meta__drive_reads(m, d);
		}
		if (there && !elsewhere)
			return true;
	}
	return false;
}

static bool next_roots_need(const struct meta *m, uint32_t drive)
{
	const struct meta__boot *b = m->boot;
	struct meta__geo geo;

	if (!b->adding ||
	    memcmp(b->next.root_zone, m->zones->geo.root_zone, sizeof(b->next.root_zone)) == 0)
		return false;
	meta__geo_of(&geo, &b->next);
	ASSERT(geo.nzones == m->zones->geo.nzones); /* no other change runs meanwhile */
	return roots_need(m, &geo, drive);
}

bool meta__drive_is_needed(const struct meta *m, uint32_t drive)
{
	ASSERT(m->mounted && m->copies > 1);
	ASSERT(drive < m->zones->geo.ndrives);
	return roots_need(m, &m->zones->geo, drive) || next_roots_need(m, drive) ||
	       log_needs(m, drive) || any_zone_needs(m, drive) || naming_needs(m, drive);
}
