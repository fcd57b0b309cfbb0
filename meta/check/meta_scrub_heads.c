/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The scrub checks zone headers at the end of a round.
 *
 *   both copies read --> same as in memory? --> the next zone
 *                         | not, FAILS times
 *                         v
 *                        written again (meta_zone_mend.c) --> reported
 *
 *  (1) A header is compared with a state that held before the first read and after the last: a zone
 *      whose header was being written meanwhile is checked in the next round
 *      [test_meta_scrub_heads:zones_that_come_and_go_meanwhile_keep_what_they_are].
 *  (2) A copy that is whole and older was left by a power cut: it is written again, not reported
 *      [test_meta_scrub_heads:cut_while_it_is_written_leaves_a_store].
 *  (3) A copy that can be neither read nor written is not reported here: other reads of that drive
 *      report it [test_meta_scrub_heads:store_can_do_without_it].
 *  (4) The number of zones that a round checks grows with the blocks that it has read, and the
 *      next round continues after them.  So a nearly empty store does not read headers all
 *      the time [test_meta_scrub_heads:headers_of_a_whole_store_are_read_and_left_alone].
 */
#include "meta/check/meta_scrub.h"

#include <stdio.h>

#define FAILS         3u
#define ZONES_A_ROUND 1024u
#define BLOCKS_A_ZONE 64u

void meta__scrub_heads_begin(struct meta_scrub *s)
{
	ASSERT(!s->reading_head);
	s->heads.done = false;
	s->heads.looked = 0;
	s->heads.blocks = s->stat.blocks;
	s->heads.copy = 0;
	s->heads.fails = 0;
	s->heads.mends = false;
}

static bool is_enough(const struct meta_scrub *s)
{
	const uint64_t more = (s->stat.blocks - s->heads.blocks) / BLOCKS_A_ZONE;

	ASSERT(s->stat.blocks >= s->heads.blocks);
	return s->heads.looked >= min_u64(s->m->zones->geo.nzones, ZONES_A_ROUND + more); /* (4) */
}

static void next_zone(struct meta_scrub *s)
{
	ASSERT(s->heads.zone < s->m->zones->geo.nzones);
	ASSERT(!meta__zone_at(s->m, s->heads.zone)->mending || !s->heads.mends);
	s->heads.zone++;
	s->heads.looked++;
	s->heads.copy = 0;
	s->heads.fails = 0;
	s->heads.mends = false;
}

static bool is_settled(const struct meta__zone *at)
{
	return !at->mending && at->state != ZONE_OPENING && at->state != ZONE_DEALLOCATING &&
	       at->state != ZONE_GONE;
}

void meta__scrub_head_done(struct meta_scrub *s, const void *bytes, int status)
{
	struct meta__scrub_heads *h = &s->heads;

	ASSERT(h->copy < 2);
	ASSERT(h->zone < s->m->zones->geo.nzones);
	h->unreadable |= status != 0;
	h->whole[h->copy] =
		!status && meta__zone_parse(bytes, s->m->uuid, h->zone, &h->seen[h->copy]) == 0;
	h->copy++;
}

static enum meta_scrub_next read_copy(struct meta_scrub *s)
{
	struct meta__scrub_heads *h = &s->heads;

	ASSERT(h->copy < 2);
	ASSERT(!h->mends);
	if (h->copy == 0) {
		h->unreadable = false;
		h->incarnation = meta__zone_at(s->m, h->zone)->incarnation;
	}
	s->run = (struct meta_run){
		.baddr = meta__geo_zone_head(&s->m->zones->geo, h->zone, h->copy),
		.nblocks = 1,
	};
	s->reading_head = true;
	return META_SCRUB_READ;
}

/* Returns the copies that differ from memory, as bits. */
static uint32_t wrong(const struct meta__scrub_heads *h)
{
	uint32_t bits = 0;

	ASSERT(h->copy == 2 || h->fails == FAILS);
	for (uint32_t i = 0; i < 2; i++)
		bits |= (uint32_t)(!h->whole[i] || h->seen[i].incarnation != h->incarnation) << i;
	return bits;
}

static enum meta_scrub_next say(struct meta_scrub *s)
{
	const struct meta__scrub_heads *h = &s->heads;
	const bool both = !h->whole[0] && !h->whole[1];
	const bool failed = meta__zone_at(s->m, h->zone)->mend_failed;
	const uint64_t baddr = meta__geo_zone_head(&s->m->zones->geo, h->zone, h->whole[0] ? 1 : 0);
	const char *then = failed ? "and cannot be written again" : "and written again";

	ASSERT(!s->has_line);
	ASSERT(!(h->whole[0] && h->whole[1]));
	(void)snprintf(s->line, sizeof(s->line),
		       "drive %u block %llu: %s of the header of zone %u %s damaged, %s",
		       META_BADDR_DRIVE(baddr), (unsigned long long)META_BADDR_BLOCK(baddr),
		       both ? "both copies" : "a copy", h->zone, both ? "were" : "was", then);
	s->stat.heads_mended += !failed;
	return META_SCRUB_FOUND;
}

/* It is being written, or was. */
static enum meta_scrub_next mended(struct meta_scrub *s)
{
	const struct meta__scrub_heads *h = &s->heads;
	const struct meta__zone *at = meta__zone_at(s->m, h->zone);
	enum meta_scrub_next next = META_SCRUB_MORE;

	ASSERT(h->mends);
	if (at->mending)
		return META_SCRUB_MORE;
	if (!(h->whole[0] && h->whole[1]) && !(at->mend_failed && h->unreadable)) /* (2), (3) */
		next = say(s);
	next_zone(s);
	return next;
}

static void mend(struct meta_scrub *s)
{
	struct meta__scrub_heads *h = &s->heads;
	const struct meta__zone *at = meta__zone_at(s->m, h->zone);
	const uint32_t bits = wrong(h);
	const struct meta__zone_seen head =
		bits == 3 ? meta__zone_head(s->m, h->zone) : h->seen[bits == 1];

	ASSERT(bits > 0);
	ASSERT(h->fails == FAILS);
	ASSERT(!at->mending);
	if (at->mend_failed || !meta__zone_mend(s->m, &head, bits))
		next_zone(s);
	else
		h->mends = true;
}

/* Returns true if the zone is on a drive that cannot be reached. */
static bool is_far(const struct meta_scrub *s)
{
	const uint64_t baddr = meta__geo_zone_head(&s->m->zones->geo, s->heads.zone, 0);

	ASSERT(s->heads.zone < s->m->zones->geo.nzones);
	return s->unreachable >> META_BADDR_DRIVE(baddr) & 1;
}

enum meta_scrub_next meta__scrub_heads_step(struct meta_scrub *s)
{
	struct meta__scrub_heads *h = &s->heads;
	const struct meta__zone *at;

	ASSERT(!h->done);
	ASSERT(h->copy <= 2);
	ASSERT(h->fails <= FAILS);
	if (is_enough(s)) {
		h->done = true;
		return META_SCRUB_MORE;
	}
	if (h->zone >= s->m->zones->geo.nzones)
		h->zone = 0;
	if (h->mends)
		return mended(s);
	at = meta__zone_at(s->m, h->zone);
	if (!is_settled(at) || (h->copy && at->incarnation != h->incarnation) || /* (1) */
	    is_far(s)) {
		next_zone(s);
		return META_SCRUB_MORE;
	}
	if (h->copy < 2)
		return read_copy(s);
	if (wrong(h) == 0) {
		next_zone(s);
		return META_SCRUB_MORE;
	}
	h->copy = 0;
	if (++h->fails == FAILS)
		mend(s);
	return META_SCRUB_MORE;
}
