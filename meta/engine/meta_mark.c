/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Marks: each drive records the last checkpoint that it has seen, and the roots record each drive's
 * mark.
 *
 *   freeze --> the mark into the header of each drive's first zone --> ... --> roots, which record
 *              (both copies, one after the other)                              each drive's mark
 *
 * So the next mount finds and names a drive that is an older copy of itself, or that has lost
 * confirmed writes.  Without marks the index would find old data or nothing there.
 *
 *  (1) A mark is the generation of a checkpoint, or of a mount: it only ascends.
 *  (2) A root has a drive's mark only once both copies of it are durable on the drive.  If a
 *      mark cannot be written, roots keep the previous one, so that no checkpoint waits for a mark
 *      [test_meta_mark:drive_that_does_not_take_its_mark_serves].
 *  (3) Only roots of the newest mount count: a program that knows no marks writes roots without
 *      them, and headers, too [test_meta_mark:store_of_a_program_that_knows_no_marks_mounts].
 *  (4) A zone whose header is lost proves nothing, and neither does a drive without a zone
 *      [test_meta_heads:all_of_a_drive_may_lose_theirs].
 *  (5) Until a mount serves, the zones of the log that is replayed keep their marks: another
 *      mount may need them
 *      [test_meta_boot:mounts_that_are_cut_one_after_the_other_lose_no_log_that_a_root_names].
 */
#include "meta/engine/meta_pair.h"
#include "meta/meta_store.h"

#include <errno.h>
#include <string.h>

uint32_t meta__first_zone(const struct meta__zones *z, uint32_t drive)
{
	DASSERT(drive < z->geo.ndrives);
	return z->geo.zone_base[drive];
}

bool meta__has_mark(const struct meta *m, uint32_t drive)
{
	const struct meta__zones *z = m->zones;

	ASSERT(drive < META_DRIVES_MAX);
	return z->geo.zone_count[drive] && z->geo.state[drive] < DRIVE_GONE &&
	       !(meta__may_lose(m) && m->dead >> drive & 1) && m->conf.drive[drive].nblocks &&
	       !meta__drain_empty(m, drive);
}

uint32_t meta__mark_drive(const struct meta *m, uint32_t zone)
{
	const uint32_t d = META_BADDR_DRIVE(meta__geo_zone_baddr(&m->zones->geo, zone));

	return meta__first_zone(m->zones, d) == zone ? d : META_DRIVES_MAX;
}

void meta__marks_begin(struct meta *m, uint64_t mark)
{
	struct meta__marks *k = &m->zones->marks;

	k->next = max_u64(k->next, mark); /* (1) */
	for (uint32_t d = 0; d < m->zones->geo.ndrives; d++)
		if (meta__has_mark(m, d) && k->of[d] < mark)
			k->due |= 1ull << d;
}

/* (5) */
static struct meta__zone_seen head_of(const struct meta *m, uint32_t drive)
{
	const struct meta__zone_seen *found = &m->boot->first_head[drive];
	const struct meta__zone *at = meta__zone_at(m, meta__first_zone(m->zones, drive));

	ASSERT(drive < m->zones->geo.ndrives);
	if (!m->mounted && found->kind == META__ZONE_LOG && at->kind == META__ZONE_LOG &&
	    found->incarnation == at->incarnation)
		return *found;
	return meta__zone_head(m, meta__first_zone(m->zones, drive));
}

/* Begins to write the drive's mark.  Returns false if that cannot be done now. */
static bool begin(struct meta *m, uint32_t drive)
{
	struct meta__marks *k = &m->zones->marks;
	struct meta__zone_seen head = head_of(m, drive);

	ASSERT(!(k->busy >> drive & 1));
	head.mark = k->next;
	if (!meta__zone_mend(m, &head, 3))
		return false;
	k->busy |= 1ull << drive;
	k->busy_mark[drive] = head.mark;
	return true;
}

bool meta__marks_turn(struct meta *m)
{
	struct meta__marks *k = &m->zones->marks;

	for (uint64_t left = k->due; left; left &= left - 1) {
		const uint32_t d = (uint32_t)__builtin_ctzll(left);
		const struct meta__zone *at = meta__zone_at(m, meta__first_zone(m->zones, d));

		if (!meta__has_mark(m, d) || at->head_lost) /* (4) */
			k->due &= ~(1ull << d);
		else if (!(k->busy >> d & 1) && begin(m, d))
			k->due &= ~(1ull << d);
	}
	return !k->due && !k->busy;
}

/* The header of this zone was written, or could not be. */
bool meta__mark_done(struct meta *m, uint32_t zone, bool durable)
{
	struct meta__marks *k = &m->zones->marks;
	const uint32_t d = meta__mark_drive(m, zone);

	if (d == META_DRIVES_MAX || !(k->busy >> d & 1))
		return false;
	ASSERT(k->busy_mark[d] >= k->of[d]); /* (1) */
	k->busy &= ~(1ull << d);
	if (durable) /* (2) */
		k->of[d] = k->busy_mark[d];
	return true;
}
