/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Folds: closed zones of data on different drives, and one or two zones of parity on others.
 *
 *   drive 0   [zone 3: data, first of a group]--.             [zone 3: data  ]--.
 *   drive 1   [zone 9: data, first of a group]--+-- fold -->  [zone 9: data  ]--+ the ring
 *   drive 2   [zone 20: free                 ]--|             [zone 20: P    ]--|
 *   drive 3   [zone 31: free                 ]--'             [zone 31: Q    ]--'
 *   drive 1.. [their twins                   ]                [free          ]
 *
 *   copies of each block   2   3          zones that may be missing: copies - 1, before and after
 *   parity of a fold       P   P, Q
 *
 * New data goes to groups (meta_pair.c).  In the background the firsts of K groups are folded
 * (meta_folder.c): block n of P becomes the exclusive or of their blocks n, that of Q their sum
 * with other factors (meta_fold_terms.c), and then their twins are free.  So nothing is ever
 * overwritten, no stripe is ever partial, and there is no write hole: until the headers of P and Q
 * are durable the groups are whole, and from then on the fold is.  A fold ends when nothing lives
 * in any of its zones; they are free together.
 *
 *  (1) The zones of a fold are on different drives.  Those of data are closed, in no group, and not
 *      written to.  P and Q match their bytes, dead blocks included: all were read, and then all
 *      drives of the fold flushed, before a header names it (meta_folder.c (2)).
 *  (2) A zone of a fold is free, and opened again, only when nothing lives in any of them
 *      [test_meta_fold:fold_is_free_when_nothing_lives_in_it].  P and Q have no life of their own.
 *  (3) The headers of P and Q alone say which zones are in the fold, with the incarnation of each,
 *      and the fold's number, higher than that of any group and fold before it; each names the
 *      other zone of parity.  A header is overwritten before anything else in its zone is
 *      (meta_zone.c (1)), so what a header says is true as long as it can be read, and the zones
 *      that it names have these incarnations.  The number decides between two headers that name
 *      the same zone.  A twin that was freed by a fold still has a header that names its first
 *      zone: it is not deallocated before it is opened again, so that this stays true, too
 *      [test_meta_fold:drive_of_the_parity_is_missing_at_a_mount].
 *  (4) A block is read from its own place.  If its drive cannot be read, or its bytes do not match
 *      their checksum, it is the sum of other zones' blocks at its offset (meta_fold_terms.c), and
 *      the checksum decides again [test_app_fold:other_bytes_on_a_drive_are_never_read].
 *  (5) If a drive of a fold is drained or lost, all live data of the fold moves to groups, as that
 *      of a group does; when nothing is left the fold's zones are free.  So a lost drive becomes
 *      GONE only when no fold has a zone there, and each step is one of collection
 *      [test_meta_fold:drive_that_dies_loses_nothing_and_leaves].
 *  (6) Collection empties all zones of a fold together
 *      [test_meta_fold:folds_are_collected_as_a_whole].
 *  (7) The ring is data 0, data 1, ... in the header's order, P, Q, and data 0 again.
 *
 * How much fits into folds: meta_fold_space.c.  Other cores find the ring in meta_twins.h.
 *
 *   V3 -> W3   (W3 in meta_fold_terms.c) the ring is there before any core sees that a twin is not
 */
#include "meta/engine/meta_fold.h"

#include <string.h>

static uint32_t drive_of(const struct meta *m, uint32_t zone)
{
	return META_BADDR_DRIVE(meta__geo_zone_baddr(&m->zones->geo, zone));
}

static uint32_t next_of(const struct meta *m, uint32_t zone)
{
	const uint32_t next = meta__zone_at(m, zone)->next;

	ASSERT(next > 0); /* it is in a fold */
	return next - 1;
}

uint32_t meta__fold_parity(const struct meta *m, uint32_t zone)
{
	uint32_t i = 0;

	for (; meta__zone_at(m, zone)->parity != META__PARITY_P; i++) {
		ASSERT(i < META_FOLD_ZONES); /* (7) */
		zone = next_of(m, zone);
	}
	return zone;
}

uint32_t meta__fold_members(const struct meta *m, uint32_t zone, uint32_t member[META_FOLD_MAX])
{
	uint32_t count = 0, at = zone;

	do {
		if (!meta__zone_at(m, at)->parity) {
			ASSERT(count < META_FOLD_MAX);
			member[count++] = at;
		}
		at = next_of(m, at);
	} while (at != zone);
	ASSERT(count >= META__FOLD_MIN);
	return count;
}

static void set_next(struct meta *m, uint32_t zone, uint32_t next, uint64_t place)
{
	struct meta__zones *z = m->zones;
	const uint32_t d = drive_of(m, zone);

	ASSERT(z->twins.drive[d].ring);
	meta__zone_at(m, zone)->next = next + 1; /* NONE: 0 */
	atomic_store_explicit(&z->twins.drive[d].ring[zone - z->geo.zone_base[d]], place,
			      memory_order_release); /* V3 */
}

/* Returns the role of P, or of Q. */
static uint32_t role_of(uint32_t parity)
{
	ASSERT(parity == META__PARITY_P || parity == META__PARITY_Q);
	return parity == META__PARITY_P ? META_FOLD_P : META_FOLD_Q;
}

static void link_to(struct meta *m, uint32_t zone, uint32_t next, uint32_t role)
{
	const uint64_t at = meta__geo_zone_baddr(&m->zones->geo, next);

	ASSERT(at == META_FOLD_AT(META_FOLD_PLACE(role, at)));
	set_next(m, zone, next, META_FOLD_PLACE(role, at));
}

static void unlink_it(struct meta *m, uint32_t zone)
{
	ASSERT(meta__in_fold(meta__zone_at(m, zone)));
	set_next(m, zone, META__ZONE_NONE, 0);
}

/* Fills in the zones of the fold in the order of the ring (7).  Returns how many. */
static uint32_t zones_of(const struct meta *m, const struct meta__zone_seen *head,
			 uint32_t zone[META_FOLD_ZONES])
{
	uint32_t count = head->members;

	ASSERT(count >= META__FOLD_MIN && count <= META_FOLD_MAX);
	ASSERT(meta__fold_parities(m) == (head->twin ? 2u : 1u) && head->role <= 1);
	memcpy(zone, head->member, count * sizeof(*zone));
	zone[count++] = head->role ? head->twin - 1 : head->zone;
	if (head->twin)
		zone[count++] = head->role ? head->zone : head->twin - 1;
	return count;
}

void meta__fold_make(struct meta *m, const struct meta__zone_seen *head)
{
	struct meta__zones *z = m->zones;
	uint32_t zone[META_FOLD_ZONES];
	const uint32_t count = zones_of(m, head, zone);
	uint64_t drives = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct meta__zone *at = meta__zone_at(m, zone[i]);

		ASSERT(!(drives >> drive_of(m, zone[i]) & 1)); /* (1) */
		ASSERT(!meta__in_fold(at) && !at->parity);
		drives |= 1ull << drive_of(m, zone[i]);
		if (i < head->members) {
			ASSERT(at->incarnation == head->member_incarnation[i]); /* (3) */
			continue;
		}
		ASSERT(!at->twin);
		at->pair = head->pair;
		at->parity = (uint8_t)(META__PARITY_P + i - head->members);
	}
	z->pair_last = max_u64(z->pair_last, head->pair);
	for (uint32_t i = 0; i < count; i++) {
		const uint32_t next = (i + 1) % count;

		link_to(m, zone[i], zone[next],
			next < head->members ? next
					     : role_of(meta__zone_at(m, zone[next])->parity));
	}
	atomic_store_explicit(&z->twins.folds, true, memory_order_relaxed);
	z->folds++;
	z->folded += head->members;
}

uint32_t meta__fold_end(struct meta *m, uint32_t zone, uint32_t parity[META_FOLD_PARITIES])
{
	struct meta__zones *z = m->zones;
	uint32_t member[META_FOLD_MAX];
	const uint32_t count = meta__fold_members(m, zone, member);
	const uint32_t parities = meta__fold_parities(m);

	parity[0] = meta__fold_parity(m, zone);
	if (parities > 1)
		parity[1] = next_of(m, parity[0]); /* (7) */
	for (uint32_t i = 0; i < count; i++)
		unlink_it(m, member[i]);
	for (uint32_t i = 0; i < parities; i++) {
		unlink_it(m, parity[i]);
		ASSERT(meta__zone_at(m, parity[i])->parity == META__PARITY_P + i); /* (7) */
		meta__zone_at(m, parity[i])->parity = 0;
	}
	ASSERT(z->folds > 0 && z->folded >= count);
	z->folds--;
	z->folded -= count;
	return parities;
}

/* ---- as a whole ---------------------------------------------------------------------------- */

uint64_t meta__fold_live(const struct meta *m, uint32_t zone)
{
	uint32_t member[META_FOLD_MAX];
	const uint32_t count = meta__fold_members(m, zone, member);
	uint64_t live = 0;

	ASSERT(count <= META_FOLD_MAX);
	for (uint32_t i = 0; i < count; i++)
		live += meta__zone_at(m, member[i])->live;
	return live;
}

bool meta__fold_is_empty(const struct meta *m, uint32_t zone)
{
	uint32_t member[META_FOLD_MAX];
	const uint32_t count = meta__fold_members(m, zone, member);

	for (uint32_t i = 0; i < count; i++) {
		const struct meta__zone *at = meta__zone_at(m, member[i]);

		ASSERT(at->kind == META__ZONE_DATA); /* (1) */
		if (at->live || at->pending || at->state == ZONE_FREE)
			return false;
	}
	return true;
}

bool meta__fold_reads(const struct meta *m, uint32_t zone)
{
	const uint64_t drives = meta__drives_of(m, zone);

	ASSERT(meta__in_fold(meta__zone_at(m, zone)));
	return meta__drives_read(m, drives) == (uint32_t)__builtin_popcountll(drives);
}

/* (5) */
bool meta__fold_leaves(const struct meta *m, uint32_t zone)
{
	uint32_t at = zone;

	do {
		if (m->zones->geo.state[drive_of(m, at)] == DRIVE_DRAINS ||
		    meta__zone_at(m, at)->unlike || meta__zone_at(m, at)->near)
			return true;
		at = next_of(m, at);
	} while (at != zone);
	ASSERT(meta__in_fold(meta__zone_at(m, zone)));
	return !meta__fold_reads(m, zone);
}

void meta__fold_spoilt(struct meta *m, uint32_t zone)
{
	uint32_t member[META_FOLD_MAX];
	const uint32_t count = meta__fold_members(m, zone, member);

	for (uint32_t i = 0; i < count; i++) {
		struct meta__zone *at = meta__zone_at(m, member[i]);

		ASSERT(!at->unlike);
		at->unlike = true;
		m->zones->unlikes++;
	}
}

/* Returns those of these drives that cannot be read. */
static uint64_t unreadable(const struct meta *m, uint64_t drives)
{
	uint64_t are = 0;

	ASSERT(drives);
	for (; drives; drives &= drives - 1)
		if (!meta__drive_reads(m, (uint32_t)__builtin_ctzll(drives)))
			are |= drives & -drives;
	return are;
}

uint32_t meta__fold_terms(const struct meta *m, uint64_t baddr, uint64_t away,
			  struct meta_fold_term term[META_FOLD_MAX])
{
	const struct meta__geo *g = &m->zones->geo;
	const uint32_t zone = meta__zone_of(m, baddr);
	uint64_t offset;

	if (zone == META__ZONE_NONE || !meta__in_fold(meta__zone_at(m, zone)))
		return 0;
	offset = baddr - meta__geo_zone_baddr(g, zone);
	if (offset == 0 || offset >= g->zone_end)
		return 0; /* each zone has headers of its own */
	away |= unreadable(m, meta__drives_of(m, zone));
	return meta_fold_terms(&m->zones->twins, baddr, away, false, term);
}

void meta__fold_head(const struct meta *m, uint32_t parity, struct meta__zone_seen *head)
{
	const uint32_t p = meta__fold_parity(m, parity), q = next_of(m, p);

	ASSERT(meta__zone_at(m, parity)->parity && head->zone == parity);
	head->members = meta__fold_members(m, q, head->member); /* in the header's order: (7) */
	head->pair = meta__zone_at(m, parity)->pair;
	head->role = parity != p;
	head->twin = meta__fold_parities(m) == 1 ? 0 : parity == p ? q + 1 : p + 1;
	for (uint32_t i = 0; i < head->members; i++)
		head->member_incarnation[i] = meta__zone_at(m, head->member[i])->incarnation;
}
