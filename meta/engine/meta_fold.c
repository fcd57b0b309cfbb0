/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Folds: closed zones of data on different drives, and one zone of parity on another drive.
 *
 *   drive 0   [zone 3: data, first of a pair ]--.             [zone 3: data  ]--.
 *   drive 1   [zone 9: data, first of a pair ]--+-- fold -->  [zone 9: data  ]--+ the ring
 *   drive 2   [zone 20: free                 ]--'             [zone 20: parity]-'
 *   drive 1,2 [zones 11, 22: twins of 3, 9   ]                [zones 11, 22: free]
 *
 * New data goes to pairs (meta_pair.c).  In the background the firsts of K pairs are folded
 * (meta_folder.c): block n of the zone of parity P becomes the exclusive or of their blocks n, and
 * then their twins are free.  So nothing is ever overwritten, no stripe is ever partial, and there
 * is no write hole: until P's header is durable the pairs are whole, and from then on the fold is.
 * A fold ends when nothing lives in any of its zones; they are free together.
 *
 *  (1) The zones of a fold are on different drives.  Those of data are closed, in no pair, and not
 *      written to.  P matches their bytes, dead blocks included: all were read, and then all drives
 *      of the fold flushed, before P's header names it (meta_folder.c (2)).
 *  (2) A zone of a fold is free, and opened again, only when nothing lives in any of them
 *      [test_meta_fold:fold_is_free_when_nothing_lives_in_it].  P has no life of its own.
 *  (3) P's header alone says which zones are in the fold, with the incarnation of each, and the
 *      fold's number, higher than that of any pair and fold before it.  A header is overwritten
 *      before anything else in its zone is (meta_zone.c (1)), so what a header says is true as long
 *      as it can be read, and the zones that it names have these incarnations.  The number decides
 *      between two headers that name the same zone.  A twin that was freed by a fold still has a
 *      header that names its first zone: it is not deallocated before it is opened again, so that
 *      this stays true, too [test_meta_fold:drive_of_the_parity_is_missing_at_a_mount].
 *  (4) A block is read from its own place.  If its drive cannot be read, or its bytes do not match
 *      their checksum, it is the exclusive or of the other zones' blocks at its offset
 *      (meta_fold_terms.c), and the checksum decides again
 *      [test_app_fold:other_bytes_on_a_drive_are_never_read].
 *  (5) If a drive of a fold is drained or lost, all live data of the fold moves to pairs, as that
 *      of a pair does; when nothing is left the fold's zones are free.  So a lost drive becomes
 *      GONE only when no fold has a zone there, and each step is one of collection
 *      [test_meta_fold:drive_that_dies_loses_nothing_and_leaves].
 *  (6) Collection empties all zones of a fold together
 *      [test_meta_fold:folds_are_collected_as_a_whole].
 *
 * How much fits into folds: meta_fold_space.c.  Other cores find the ring in meta_twins.h.
 *
 *   V3 -> W3   (W3 in meta_fold_terms.c) the ring is there before any core sees that a twin is not
 */
#include "meta/engine/meta_fold.h"

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

	for (; !meta__zone_at(m, zone)->parity; i++) {
		ASSERT(i < META_FOLD_MAX);
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

static void link_to(struct meta *m, uint32_t zone, uint32_t next, uint32_t role)
{
	const uint64_t at = meta__geo_zone_baddr(&m->zones->geo, next);

	ASSERT(at == META_FOLD_AT(META_FOLD_PLACE(role, at)));
	ASSERT(meta__zone_at(m, next)->parity == (role == META_FOLD_P));
	set_next(m, zone, next, META_FOLD_PLACE(role, at));
}

static void unlink_it(struct meta *m, uint32_t zone)
{
	ASSERT(meta__in_fold(meta__zone_at(m, zone)));
	set_next(m, zone, META__ZONE_NONE, 0);
}

void meta__fold_make(struct meta *m, const struct meta__zone_seen *head)
{
	struct meta__zones *z = m->zones;
	struct meta__zone *parity = meta__zone_at(m, head->zone);
	uint64_t drives = 1ull << drive_of(m, head->zone);

	ASSERT(head->members >= META__FOLD_MIN && head->members <= META_FOLD_MAX);
	ASSERT(!meta__in_fold(parity) && !parity->twin);
	for (uint32_t i = 0; i < head->members; i++) {
		const struct meta__zone *at = meta__zone_at(m, head->member[i]);

		ASSERT(!(drives >> drive_of(m, head->member[i]) & 1)); /* (1) */
		ASSERT(!meta__in_fold(at));
		ASSERT(at->incarnation == head->member_incarnation[i]); /* (3) */
		drives |= 1ull << drive_of(m, head->member[i]);
	}
	parity->pair = head->pair;
	parity->parity = true;
	z->pair_last = max_u64(z->pair_last, head->pair);
	for (uint32_t i = 1; i < head->members; i++)
		link_to(m, head->member[i - 1], head->member[i], i);
	link_to(m, head->member[head->members - 1], head->zone, META_FOLD_P);
	link_to(m, head->zone, head->member[0], 0);
	atomic_store_explicit(&z->twins.folds, true, memory_order_relaxed);
	z->folds++;
	z->folded += head->members;
}

uint32_t meta__fold_end(struct meta *m, uint32_t zone)
{
	struct meta__zones *z = m->zones;
	uint32_t member[META_FOLD_MAX];
	const uint32_t count = meta__fold_members(m, zone, member);
	const uint32_t parity = meta__fold_parity(m, zone);

	for (uint32_t i = 0; i < count; i++)
		unlink_it(m, member[i]);
	unlink_it(m, parity);
	meta__zone_at(m, parity)->parity = false;
	ASSERT(z->folds > 0 && z->folded >= count);
	z->folds--;
	z->folded -= count;
	return parity;
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
		    meta__zone_at(m, at)->unlike)
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
	ASSERT(meta__zone_at(m, parity)->parity);
	head->members = meta__fold_members(m, parity, head->member);
	head->pair = meta__zone_at(m, parity)->pair;
	for (uint32_t i = 0; i < head->members; i++)
		head->member_incarnation[i] = meta__zone_at(m, head->member[i])->incarnation;
}
