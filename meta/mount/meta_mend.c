/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Mount repairs damaged copies of pairs that are written once, or seldom: superblocks and zone
 * headers.  (The damaged copy of a root is the first that the next write of the root goes to.)
 *
 *   found while reading --> list --> ... log scanned, drives flushed --> read the good one -->
 *   write it over the damaged one by FUA --> the next --> claim
 *
 *  (1) Only damaged copies are written, from the whole copy of that moment, byte for byte:
 *      compatible features that this program does not know stay.  So a crash leaves
 *      one whole copy [test_meta_mend:power_cut_while_it_is_written_leaves_the_other_one].
 *  (2) Nothing else is in flight on the drives meanwhile.
 *  (3) A copy that cannot be repaired stays as it is, and is reported: the mount has the other one
 *      [test_meta_mend:write_that_fails_leaves_the_other_one].
 *  (4) More than META__MENDS_MAX at once are left to the next mount; the rule that the damaged one
 *      is written first (meta_super.c) keeps those safe.
 *  (5) A header with the members of a fold that was not made (meta_folds.c (5)) is written without
 *      them, in a higher incarnation, one copy after the other.  If it cannot be, the mount ends
 *      [test_meta_double:fold_that_is_half_named_does_not_count].
 */
#include "meta/meta_store.h"

#include <errno.h>

void meta__mend_want(struct meta *m, uint64_t good, uint64_t bad, uint32_t zone)
{
	struct meta__boot *b = m->boot;

	ASSERT(b->mend_count <= META__MENDS_MAX); /* (4) */
	ASSERT(!b->log_judged);
	ASSERT(good != bad);
	if (b->mend_count < META__MENDS_MAX) /* (4) */
		b->mend[b->mend_count++] =
			(struct meta__mend){ .good = good, .bad = bad, .zone = zone };
}

void meta__mend_unname(struct meta *m, uint32_t zone)
{
	struct meta__boot *b = m->boot;

	ASSERT(!b->log_judged && !m->mounted);
	ASSERT(zone < b->geo.nzones && b->mend_count <= META__MENDS_MAX);
	if (b->mend_count + 2 > META__MENDS_MAX) { /* (4) */
		if (b->mend[b->mend_count - 1].unnames)
			return; /* of an earlier fold: they come in that order */
		b->mend_count = META__MENDS_MAX - 2;
	}
	meta__zone_at(m, zone)->incarnation++;
	for (uint32_t copy = 0; copy < 2; copy++) {
		const uint64_t at = meta__geo_zone_head(&b->geo, zone, copy);

		b->mend[b->mend_count++] =
			(struct meta__mend){ .good = at, .bad = at, .zone = zone, .unnames = true };
	}
}

/* (5) The header is in memory. */
static void unname(struct meta *m, const struct meta__mend *e)
{
	void *block = m->boot->io[0].io.buf;
	struct meta__zone_seen head;
	const int err = meta__zone_parse(block, m->uuid, e->zone, &head);

	ASSERT(err == 0); /* is_whole(); of whatever kind: the other copy was of parity */
	head = (struct meta__zone_seen){ .zone = e->zone,
					 .kind = META__ZONE_PARITY,
					 .incarnation = meta__zone_at(m, e->zone)->incarnation,
					 .epoch = head.epoch,
					 .mark = head.mark };
	meta__zone_build(&head, m->uuid, block);
}

static bool is_whole(const struct meta *m, const struct meta__mend *e)
{
	const struct meta_io *io = &m->boot->io[0].io;
	struct meta__super super;
	struct meta__zone_seen head;
	char why[128];

	ASSERT(m->boot->in_flight == 0);
	if (io->status)
		return false;
	if (e->zone == META__ZONE_NONE)
		return meta__super_parse(io->buf, &super, why) == 0;
	return meta__zone_parse(io->buf, m->uuid, e->zone, &head) == 0;
}

static void not_mended(struct meta *m, const struct meta__mend *e, const char *why)
{
	ASSERT(e->good != e->bad || e->unnames);
	m->boot->note[0] = '\0'; /* notes about copies still damaged are more important */
	meta__boot_note(m, "drive %u block %llu: is damaged, and cannot be written again: %s",
			META_BADDR_DRIVE(e->bad), (unsigned long long)META_BADDR_BLOCK(e->bad),
			why);
}

/* at: of the list; step 0: to be read; 1: was read; 2: was written. */
int meta__mend(struct meta *m)
{
	struct meta__boot *b = m->boot;
	const struct meta__mend *e = &b->mend[b->at];

	ASSERT(b->step <= 2);
	ASSERT(b->at <= b->mend_count);
	ASSERT(b->log_judged);
	if (b->step == 2) {
		if (b->io[0].io.status && e->unnames) /* (5) */
			return meta__boot_fail(m, -EIO, "zone %u: its header cannot be written",
					       e->zone);
		if (b->io[0].io.status)
			not_mended(m, e, "the write failed"); /* (3) */
		b->at++;
		b->step = 0;
	} else if (b->step == 1) {
		if (is_whole(m, e)) { /* (1) */
			if (e->unnames)
				unname(m, e);
			meta__boot_io(m, META_IO_WRITE, e->bad, 1, 0);
			b->step = 2;
			return 0;
		}
		not_mended(m, e, "the other copy is no longer whole");
		b->at++;
		b->step = 0;
	}
	if (b->at == b->mend_count)
		return -EALREADY;
	ASSERT(b->in_flight == 0); /* (2) */
	meta__boot_io(m, META_IO_READ, b->mend[b->at].good, 1, 0);
	b->step = 1;
	return 0;
}
