/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Deallocates empty zones on the drives (NVMe's deallocate), so that drives need not keep their
 * content.
 *
 *   LEAVING, or the log's --> FREE, fresh --take--> DEALLOCATING --answered--> FREE
 *                               |                                           ^
 *                               +---- opened, since it is needed now -------|--> OPENING
 *                               +---- the drive gets none, or refuses ------+
 *
 * A hint: after a failure the drive gets no more commands before the next mount, without other
 * consequences.  A power cut forgets the fresh zones; a mount does not deallocate its free zones
 * again, because that was done when they became free, except for the few that the cut prevented.
 *
 *  (1) Only a FREE zone is deallocated: durable roots name nothing in it, neither does the durable
 *      log, and all earlier reads have ended.  So after a power cut at any moment no
 *      mount reads its old content.
 *  (2) The range is between the copies of its header, never including these: a mount reads them,
 *      and they count the uses of the zone, which no log block of an earlier use may match.  So no
 *      two zones are adjacent, and each zone is a separate range and command.
 *  (3) A DEALLOCATING zone is on no list from which zones are opened; it is put back into one only
 *      when the drive has answered: the drive may deallocate it as late as that.
 *  (4) It counts as free all the while (free_total), since it will be free in a moment; but it is
 *      taken only while so many are free that no allocation can have to wait for it.  free_count
 *      excludes it: a drive that is being drained waits for it
 *      [test_meta_deallocate:none_is_taken_while_few_are_free].
 *  (5) One at a time for each drive, so that it delays other commands only briefly.
 *  (6) Nothing is deallocated before the store is mounted: before that, zones named in the log are
 *      not in the trees.
 */
#include "meta/engine/meta_pair.h"
#include "meta/meta_store.h"

#include <string.h>

void meta__deallocate_init(struct meta *m)
{
	struct meta__zones *z = m->zones;

	for (uint32_t d = 0; d < META_DRIVES_MAX; d++) {
		z->deallocation[d] = (struct meta__deallocation){ .zone = META__ZONE_NONE };
		z->deallocation[d].x.kind = META__IO_DEALLOCATE;
		z->deallocation[d].x.owner = &z->deallocation[d];
		list_init(&z->deallocation[d].x.io.link);
		list_init(&z->fresh[d]);
	}
	z->deallocating = 0;
	z->deallocated_blocks = z->deallocate_failures = 0;
}

bool meta__deallocate_wanted(const struct meta *m, uint32_t drive)
{
	ASSERT(drive < META_DRIVES_MAX);
	return m->mounted && m->conf.drive[drive].deallocate_max_blocks && /* (6) */
	       !m->zones->deallocation[drive].refused;
}

/* Deallocates the next piece of a zone. */
static void send(struct meta *m, uint32_t drive)
{
	struct meta__zones *z = m->zones;
	struct meta__deallocation *t = &z->deallocation[drive];
	const uint64_t baddr = meta__geo_zone_baddr(&z->geo, t->zone) + t->at;

	ASSERT(m->mounted); /* (6) */
	ASSERT(!m->failed);
	ASSERT(meta__zone_at(m, t->zone)->state == ZONE_DEALLOCATING);
	ASSERT(t->at >= 1 && t->at < z->geo.zone_end); /* (2) */
	t->x.io.op = META_IO_DEALLOCATE;
	t->x.io.drive = drive;
	t->x.io.block = META_BADDR_BLOCK(baddr);
	t->x.io.nblocks =
		min_u32(z->geo.zone_end - t->at, m->conf.drive[drive].deallocate_max_blocks);
	t->x.io.status = 0;
	meta__io_want(m, &t->x);
}

/* The oldest of the fresh ones. */
static void take(struct meta *m, uint32_t drive)
{
	struct meta__zones *z = m->zones;
	struct meta__zone *at = list_entry(z->fresh[drive].next, struct meta__zone, link);

	ASSERT(at->state == ZONE_FREE && at->live == 0 && at->pending == 0); /* (1) */
	ASSERT(z->deallocation[drive].zone == META__ZONE_NONE);              /* (5) */
	ASSERT(z->free_count[drive] > 0);
	ASSERT(z->deallocating < z->geo.ndrives);
	list_del(&at->link);
	list_init(&at->link); /* (3) */
	at->state = ZONE_DEALLOCATING;
	z->free_count[drive]--;
	z->deallocating++;
	z->deallocation[drive].zone = (uint32_t)(at - z->zone);
	z->deallocation[drive].at = 1;
	send(m, drive);
}

static void give_back(struct meta *m, uint32_t drive)
{
	struct meta__zones *z = m->zones;
	struct meta__zone *at = meta__zone_at(m, z->deallocation[drive].zone);

	ASSERT(list_empty(&at->link)); /* (3) */
	ASSERT(at->state == ZONE_DEALLOCATING && at->live == 0 && at->pending == 0);
	ASSERT(z->deallocating > 0);
	at->state = ZONE_FREE;
	list_push_back(&z->free[drive], &at->link);
	z->free_count[drive]++;
	z->deallocating--;
	z->deallocation[drive].zone = META__ZONE_NONE;
}

void meta__deallocate_forget(struct meta *m, uint32_t drive)
{
	struct meta__zones *z = m->zones;
	struct list *l;

	ASSERT(drive < META_DRIVES_MAX);
	while ((l = list_pop_front(&z->fresh[drive])))
		list_push_back(&z->free[drive], l);
}

/* The rest of a half-deallocated zone may be skipped: a stop or a drain does not wait for it. */
static bool may_deallocate(const struct meta *m, uint32_t drive)
{
	return m->mounted && !m->failed && !m->stopping && meta__drive_serves(m, drive);
}

void meta__deallocate_io_done(struct meta *m, struct meta__io *x)
{
	struct meta__deallocation *t = x->owner;
	struct meta__zones *z = m->zones;
	const uint32_t drive = x->io.drive;

	ASSERT(x->io.op == META_IO_DEALLOCATE);
	ASSERT(t->zone != META__ZONE_NONE);
	if (x->io.status) {
		z->deallocate_failures++;
		t->refused = true;
	} else {
		z->deallocated_blocks += x->io.nblocks;
		t->at += x->io.nblocks;
	}
	if (!t->refused && t->at < z->geo.zone_end && may_deallocate(m, drive)) {
		send(m, drive);
		return;
	}
	ASSERT(t->at <= z->geo.zone_end); /* (2) */
	give_back(m, drive);
	if (t->refused)
		meta__deallocate_forget(m, drive);
}

/* (4): more than all drives together can have out at once. */
static bool has_plenty(const struct meta *m)
{
	const struct meta__zones *z = m->zones;

	return meta__groups_free(m) > meta__zone_reserve(m, true) + z->geo.ndrives;
}

void meta__deallocate_turn(struct meta *m)
{
	struct meta__zones *z = m->zones;

	for (uint32_t d = 0; d < z->geo.ndrives; d++) {
		if (list_empty(&z->fresh[d]) ||
		    z->deallocation[d].zone != META__ZONE_NONE) /* (5) */
			continue;
		if (may_deallocate(m, d) && has_plenty(m))
			take(m, d);
	}
}

bool meta__deallocate_idle(const struct meta *m)
{
	return m->zones->deallocating == 0;
}

void meta__deallocate_stat(const struct meta *m, struct meta_statfs *out)
{
	out->deallocated_blocks = m->zones->deallocated_blocks;
	out->deallocate_failures = m->zones->deallocate_failures;
}
