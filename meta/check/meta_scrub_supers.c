/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The scrub checks the superblocks of all drives in service at the end of a round.
 *
 *   both copies read --> whole, and of the set in use? --> the next drive
 *                         | not, FAILS times
 *                         v
 *                        written again (meta_supers.c) --> reported
 *
 *  (1) A superblock is compared with the set that was in use before the first read and after the
 *      last.  While the set of drives changes no superblock is checked: the change writes them all
 *      [test_meta_scrub_supers:drives_that_are_added_meanwhile_are_whole].
 *  (2) A superblock of a newer program is left alone
 *      [test_meta_scrub_supers:one_of_a_newer_program_is_left_alone].
 */
#include "meta/check/meta_scrub.h"
#include "meta/engine/meta_pair.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FAILS 3u

void meta__scrub_supers_begin(struct meta_scrub *s)
{
	ASSERT(!s->reading_super);
	s->supers = (struct meta__scrub_supers){ .drive = 0 };
}

static void next_drive(struct meta_scrub *s)
{
	ASSERT(s->supers.drive < META_DRIVES_MAX);
	ASSERT(!s->reading_super && !s->supers.done);
	s->supers = (struct meta__scrub_supers){ .drive = s->supers.drive + 1 };
}

/* (2) */
static bool is_right(const struct meta_scrub *s, const void *bytes)
{
	const struct meta__super *in_use = &s->m->boot->super;
	struct meta__super seen;
	char why[128];
	const int err = meta__super_parse(bytes, &seen, why);

	ASSERT(s->supers.copy < 2);
	if (err)
		return err == -EPROTONOSUPPORT;
	return seen.drive == s->supers.drive && seen.set == in_use->set &&
	       memcmp(seen.uuid, in_use->uuid, sizeof(seen.uuid)) == 0;
}

void meta__scrub_super_done(struct meta_scrub *s, const void *bytes, int status)
{
	struct meta__scrub_supers *h = &s->supers;

	ASSERT(h->copy < 2 && !h->mends);
	ASSERT(h->drive < s->m->conf.ndrives);
	h->wrong |= (uint32_t)(status || !is_right(s, bytes)) << h->copy;
	h->copy++;
}

static enum meta_scrub_next read_copy(struct meta_scrub *s)
{
	struct meta__scrub_supers *h = &s->supers;

	ASSERT(h->copy < 2 && !h->mends);
	ASSERT(!s->m->boot->adding); /* (1) */
	if (h->copy == 0) {
		h->wrong = 0;
		h->set = s->m->boot->super.set;
	}
	s->run = (struct meta_run){
		.baddr = meta__super_baddr(s->m, h->drive, h->copy),
		.nblocks = 1,
	};
	s->reading_super = true;
	return META_SCRUB_READ;
}

/* They are being written, or were. */
static enum meta_scrub_next mended(struct meta_scrub *s)
{
	const uint32_t drive = s->supers.drive, wrong = s->supers.wrong;

	ASSERT(wrong > 0 && wrong < 4);
	if (meta__supers_mending(s->m))
		return META_SCRUB_MORE;
	next_drive(s);
	if (!meta__supers_mended(s->m))
		return META_SCRUB_MORE;
	(void)snprintf(
		s->line, sizeof(s->line), "drive %u block %llu: %s damaged, and written again",
		drive,
		(unsigned long long)META_BADDR_BLOCK(meta__super_baddr(s->m, drive, wrong == 2)),
		wrong == 3 ? "both superblocks were" : "a superblock was");
	s->stat.heads_mended++;
	return META_SCRUB_FOUND;
}

static bool is_in_service(const struct meta_scrub *s, uint32_t drive)
{
	ASSERT(drive < s->m->zones->geo.ndrives);
	return meta__drive_reads(s->m, drive) && s->m->zones->geo.state[drive] <= DRIVE_DRAINS &&
	       !(s->unreachable >> drive & 1);
}

enum meta_scrub_next meta__scrub_supers_step(struct meta_scrub *s)
{
	struct meta__scrub_supers *h = &s->supers;

	ASSERT(!h->done && h->fails <= FAILS);
	ASSERT(s->in_round && !s->has_line);
	if (h->mends)
		return mended(s);
	if (s->m->boot->adding || h->drive >= s->m->zones->geo.ndrives) { /* (1) */
		h->done = true;
		return META_SCRUB_MORE;
	}
	if (!is_in_service(s, h->drive)) {
		next_drive(s);
		return META_SCRUB_MORE;
	}
	if (h->copy && h->set != s->m->boot->super.set) /* (1) */
		h->copy = 0;
	if (h->copy < 2)
		return read_copy(s);
	h->copy = 0;
	if (h->wrong == 0)
		next_drive(s);
	else if (++h->fails == FAILS)
		h->mends = meta__supers_mend(s->m, h->drive, h->wrong);
	return META_SCRUB_MORE;
}
