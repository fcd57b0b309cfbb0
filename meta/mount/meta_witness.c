/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A drive was reset, and answers again.  Checks whether it has everything that it had confirmed.
 *
 *   first zone's header    the mark of the last checkpoint, and the uses of the zone
 *   headers of open zones  the uses of these zones
 *   newest log block       the last block that is durable, if it is on this drive
 *
 * A mount checks the same with marks and the log (meta_mark.c, meta_replay.c).  Here the store
 * serves, and knows what was confirmed as durable; so it detects even a copy of the drive that is
 * one log block too old.
 *
 *  (1) All checked blocks were durable when they were chosen: headers in both copies, the log's
 *      block on both drives.  A header that is being written may be old or new, or one copy torn
 *      [test_meta_witness:drive_as_it_is_holds_at_every_step].
 *  (2) A block that cannot be read, and a zone whose header is lost, prove nothing
 *      [test_meta_witness:block_that_cannot_be_read_says_nothing].
 *  (3) The log's block is in a zone that the log still has: it is not overwritten (meta_log.c)
 *      [test_meta_witness:copy_from_before_the_last_change_is_an_older_one].
 */
#include "meta/meta_store.h"
#include "meta/meta_witness.h"

#include <string.h>

#define OPEN_ZONES 2u

static_assert(META_WITNESS_BLOCKS == 2 * (1 + OPEN_ZONES) + 1, "headers twice, and a log block");

/* (1) */
static uint64_t durable_incarnation(const struct meta__zone *at)
{
	ASSERT(!at->head_lost);
	return at->incarnation - (at->state == ZONE_OPENING && at->incarnation > 0);
}

static void take_zone(const struct meta *m, uint32_t zone, uint64_t mark, struct meta_witness *w)
{
	const struct meta__zone *at = meta__zone_at(m, zone);

	ASSERT(zone < m->zones->geo.nzones);
	ASSERT(w->count + 2 <= META_WITNESS_BLOCKS);
	if (at->head_lost)
		return; /* (2) */
	for (uint32_t copy = 0; copy < 2; copy++) {
		const uint64_t baddr = meta__geo_zone_head(&m->zones->geo, zone, copy);

		w->at[w->count++] = (struct meta_witness_block){
			.block = META_BADDR_BLOCK(baddr),
			.zone = zone,
			.incarnation = durable_incarnation(at),
			.mark = mark,
		};
	}
}

static void take_zones(const struct meta *m, uint32_t drive, struct meta_witness *w)
{
	const struct meta__geo *geo = &m->zones->geo;
	const uint32_t first = geo->zone_base[drive];
	uint32_t open = 0;

	ASSERT(drive < META_DRIVES_MAX);
	if (geo->zone_count[drive] == 0)
		return;
	take_zone(m, first, m->zones->marks.of[drive], w);
	for (uint32_t i = 1; i < geo->zone_count[drive] && open < OPEN_ZONES; i++) {
		if (meta__zone_at(m, first + i)->state != ZONE_OPEN)
			continue;
		take_zone(m, first + i, 0, w);
		open++;
	}
}

void meta_witness_take(const struct meta *m, uint32_t drive, struct meta_witness *w)
{
	uint64_t baddr;

	*w = (struct meta_witness){ .count = 0 };
	take_zones(m, drive, w);
	if (!meta__log_newest(m, drive, &baddr, w->log_head))
		return;
	ASSERT(w->count < META_WITNESS_BLOCKS);
	w->at[w->count++] = (struct meta_witness_block){
		.block = META_BADDR_BLOCK(baddr),
		.zone = META__ZONE_NONE,
	};
}

/* Both copies of a header.  Any whole one may be newer, and none older. */
static const char *judge_zone(const struct meta *m, const struct meta_witness_block *at,
			      const void *const copy[2])
{
	struct meta__zone_seen seen;
	uint32_t whole = 0;

	ASSERT(at->zone < m->zones->geo.nzones);
	for (uint32_t i = 0; i < 2; i++) {
		if (!copy[i] || meta__zone_parse(copy[i], m->uuid, at->zone, &seen))
			continue;
		whole++;
		if (seen.incarnation < at->incarnation || seen.mark < at->mark)
			return "it is an older copy of itself, or has lost what it had confirmed: "
			       "the header of a zone is older than it was";
	}
	if (whole == 0 && copy[0] && copy[1])
		return "its content has changed: the headers of a zone are not there any more";
	return NULL;
}

const char *meta_witness_judge(const struct meta *m, const struct meta_witness *w,
			       const void *const block[])
{
	const char *wrong = NULL;
	uint32_t i = 0;

	ASSERT(w->count <= META_WITNESS_BLOCKS);
	for (; i < w->count && !wrong && w->at[i].zone != META__ZONE_NONE; i += 2)
		wrong = judge_zone(m, &w->at[i], &block[i]);
	if (wrong || i == w->count || !block[i])
		return wrong;
	if (memcmp(block[i], w->log_head, sizeof(w->log_head)) == 0)
		return NULL;
	return "it is an older copy of itself, or has lost what it had confirmed: the newest block "
	       "of the log is not there";
}
