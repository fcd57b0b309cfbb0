/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Writes damaged superblocks of a drive again while the store serves, as a change of the set of
 * drives that changes nothing: so no other change runs meanwhile.
 *
 *  (1) One copy is written with the bytes of the other one, if that is whole and of the set in use;
 *      so features that this program does not know stay.  If both are damaged they are written
 *      from memory, one after the other
 *      [test_meta_scrub_supers:any_copy_of_any_drive_is_written_again_and_told].
 */
#include "meta/meta_store.h"

#include <errno.h>

/* The copy that is whole was read: its bytes are written.  Else those in memory are. */
static void take_bytes(struct meta *m)
{
	struct meta__boot *b = m->boot;
	struct meta__super seen;
	char why[128];

	ASSERT(b->supers.drive < m->conf.ndrives);
	if (b->sent && !b->io[0].io.status && meta__super_parse(b->buf, &seen, why) == 0 &&
	    seen.drive == b->supers.drive && seen.set == b->super.set)
		return; /* (1) */
	b->next = b->super;
	b->next.drive = b->supers.drive;
	b->next.nzones = m->zones->geo.zone_count[b->supers.drive];
	meta__super_build(&b->next, b->buf);
}

/* at: copy. */
static int write_copies(struct meta *m)
{
	struct meta__boot *b = m->boot;

	ASSERT(b->in_flight == 0); /* one copy is whole at any time */
	ASSERT(b->adding && b->at <= 2);
	if (b->sent && b->io[0].io.status) {
		meta__drives_end(m, 0);
		return 0;
	}
	while (b->at < 2 && !(b->supers.wrong >> b->at & 1))
		b->at++;
	if (b->at == 2) {
		b->supers.mended = true;
		meta__drives_end(m, 0);
		return 0;
	}
	meta__boot_io(m, META_IO_WRITE, meta__super_baddr(m, b->supers.drive, b->at++), 1, 0);
	return 0;
}

static int read_other(struct meta *m)
{
	struct meta__boot *b = m->boot;

	ASSERT(b->supers.wrong > 0 && b->supers.wrong < 4);
	ASSERT(b->adding && !m->failed);
	if (b->supers.wrong != 3 && !b->sent) {
		meta__boot_io(m, META_IO_READ,
			      meta__super_baddr(m, b->supers.drive, b->supers.wrong == 1), 1, 0);
		return 0;
	}
	take_bytes(m);
	meta__boot_next(m, write_copies);
	return 0;
}

bool meta__supers_mend(struct meta *m, uint32_t drive, uint32_t wrong)
{
	struct meta__boot *b = m->boot;

	ASSERT(drive < m->conf.ndrives && m->mounted);
	if (b->adding || m->failed || m->stopping)
		return false;
	b->next = b->super; /* should the store fail meanwhile */
	b->supers.drive = drive;
	b->supers.wrong = wrong;
	b->supers.mended = false;
	b->supers.mends = true;
	meta__drives_begin(m, NULL, read_other);
	return true;
}

bool meta__supers_mending(struct meta *m)
{
	ASSERT(m->boot->supers.mends);
	return m->boot->adding && (m->boot->stage == read_other || m->boot->stage == write_copies);
}

bool meta__supers_mended(const struct meta *m)
{
	ASSERT(m->boot->supers.mends);
	return m->boot->supers.mended;
}
