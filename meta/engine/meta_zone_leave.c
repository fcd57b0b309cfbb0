/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Zones in which nothing lives become free: read epochs, and the part of checkpoints.  meta_zone.c
 * has the states of zones, and their rules. */
#include "meta/engine/meta_pair.h"
#include "meta/engine/meta_share.h"

/* ---- read epochs ------------------------------------------------------- */

uint64_t meta__epoch_enter(struct meta *m)
{
	struct meta__zones *z = m->zones;

	DASSERT(z->epoch_oldest <= z->epoch);
	z->readers[z->epoch % META__EPOCHS]++;
	return z->epoch;
}

/* Returns true if no reader reads blocks planned in the epoch, or can still pin it. */
static bool readers_ended(const struct meta *m, uint64_t epoch)
{
	return !m->share || (meta__share_left(m, m->zones->ended[epoch % META__EPOCHS]) &&
			     meta__share_unpinned(m, epoch));
}

static void epoch_advance_oldest(struct meta *m)
{
	struct meta__zones *z = m->zones;

	while (z->epoch_oldest < z->epoch && z->readers[z->epoch_oldest % META__EPOCHS] == 0 &&
	       readers_ended(m, z->epoch_oldest))
		z->epoch_oldest++;
}

static void epoch_next(struct meta *m)
{
	struct meta__zones *z = m->zones;

	z->epoch++;
	ASSERT(z->readers[z->epoch % META__EPOCHS] ==
	       0); /* meta_zone.c (3): those of 64 epochs ago have left */
	if (!m->share)
		return;
	/* Readers that have not seen it have not left: meta_share.c (3). */
	atomic_store_explicit(&m->share->epoch, z->epoch, memory_order_relaxed);
	z->ended[(z->epoch - 1) % META__EPOCHS] = meta__share_leave(m);
}

void meta__epoch_leave(struct meta *m, uint64_t epoch)
{
	struct meta__zones *z = m->zones;

	ASSERT(epoch >= z->epoch_oldest && epoch <= z->epoch);
	ASSERT(z->readers[epoch % META__EPOCHS] > 0);
	z->readers[epoch % META__EPOCHS]--;
	epoch_advance_oldest(m);
}

/* ---- checkpoints ------------------------------------------------------- */

void meta__zone_freeze(struct meta *m)
{
	struct meta__zones *z = m->zones;
	struct list *l;

	ASSERT(list_empty(&z->frozen));
	z->coming_data = 0;
	while ((l = list_pop_front(&z->empty))) {
		struct meta__zone *at = list_entry(l, struct meta__zone, link);

		ASSERT(at->state == ZONE_EMPTY); /* meta_zone.c (2) */
		ASSERT(at->live == 0);
		ASSERT(at->pending == 0);
		at->state = ZONE_FROZEN;
		at->left = z->epoch;
		list_push_back(&z->frozen, &at->link);
	}
	if (z->epoch + 1 < z->epoch_oldest + META__EPOCHS)
		epoch_next(m);
	epoch_advance_oldest(m);
	ASSERT(z->epoch < z->epoch_oldest + META__EPOCHS); /* meta_zone.c (3) */
}

void meta__zone_rooted(struct meta *m)
{
	struct meta__zones *z = m->zones;
	struct list *l;

	while ((l = list_pop_front(&z->frozen))) {
		struct meta__zone *at = list_entry(l, struct meta__zone, link);

		ASSERT(at->state == ZONE_FROZEN);
		ASSERT(at->left <= z->epoch);
		at->state = ZONE_LEAVING;
		meta__zone_coming(m, (uint32_t)(at - z->zone), false);
		list_push_back(&z->leaving, &at->link);
	}
	if (meta__drain_drive(m) < META_DRIVES_MAX)
		meta__zones_drain(m, meta__drain_drive(m));
}

void meta__zone_turn(struct meta *m)
{
	struct meta__zones *z = m->zones;

	if (!z->zone)
		return;
	if (m->share && !list_empty(&z->leaving))
		epoch_advance_oldest(m); /* no event tells that a reader's read has ended */
	while (!list_empty(&z->leaving)) {
		struct meta__zone *at = list_entry(z->leaving.next, struct meta__zone, link);

		if (at->left >= z->epoch_oldest)
			break; /* they leave in the order in which they came */
		ASSERT(at->live == 0 && at->pending == 0); /* meta_zone.c (2) */
		list_del(&at->link);
		meta__zone_freed(m, (uint32_t)(at - z->zone));
	}
	if (unlikely(z->lone > 0) && meta__lone_now(m) > 0 && meta__groups_free(m) > 0)
		meta__supply_shut(m, META_DRIVES_MAX); /* narrow, as no wider group was free */
	meta__supply_turn(m);
}

void meta__zone_mended(struct meta *m, uint64_t baddr)
{
	struct meta__zone *at = meta__zone_at(m, meta__pair_first(m, meta__zone_of(m, baddr)));

	ASSERT(m->copies > 1);
	ASSERT(at->state != ZONE_FREE);
	at->kept = 0;
	at->stuck = false;
	m->zones->deaths++; /* collection may look again */
}
