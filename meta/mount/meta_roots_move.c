/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A copy of the root area moves into zones of other drives.
 *
 *   must move --> a zone for each piece of it is opened --> no checkpoint runs --> each root is
 *   read from all copies, the newest whole one is written --> a new set of drives names the zones
 *   --> checkpoints may run
 *
 *  (1) A copy must move if a drive that leaves the store has a part of it: one that is drained, or
 *      any that is lost.  All such copies move together, before other blocks are rebuilt: until
 *      then the store may have its roots on one drive
 *      [test_meta_three_roots:roots_of_two_lost_drives_move].
 *  (2) In a store that may lose drives the copies of a root are on different ones, in different
 *      domains (meta_domain.c), as far as drives take zones: a copy that shares a drive or domain
 *      with a lower one moves to a drive of a domain that has none
 *      [test_meta_three_roots:roots_go_to_three_drives_again_when_one_is_added].
 *  (3) Roots that wait for a checkpoint give way to a drive that is lost meanwhile, and begin again
 *      when that is recorded [test_meta_pair_moves:drive_is_lost_while_roots_wait_to_be_moved].
 *  (4) A third copy is made as one that moves.  The set that names its zones is the one
 *      with which the store begins to convert to three copies (meta_protect.c), so no set has the
 *      one without the other [test_meta_protect_three:power_cuts_lose_nothing].
 *  (5) drain.roots is true exactly while checkpoints are held for a copy: not yet while zones for a
 *      third one are opened, so a store that fails then holds nothing that it could release
 *      [test_meta_protect_three:drive_dies_before_the_roots_have_zones_there].
 */
#include "meta/engine/meta_domain.h"
#include "meta/engine/meta_pair.h"

#include <errno.h>
#include <string.h>

static bool moves(const struct meta *m, uint32_t copy)
{
	ASSERT(copy < m->boot->geo.root_copies);
	ASSERT(m->boot->drain.roots);
	return m->boot->drain.moves[copy];
}

static uint32_t drive_of_take(const struct meta *m, uint32_t take)
{
	ASSERT(take > 0);
	ASSERT(take <= m->zones->geo.nzones);
	return META_BADDR_DRIVE(meta__geo_zone_baddr(&m->zones->geo, take - 1));
}

/* Returns the drives, by bits, that the other copies of a piece are on, or are about to be. */
static uint64_t drives_of_others(const struct meta *m, uint32_t copy, uint32_t piece)
{
	const struct meta__geo *g = &m->zones->geo;
	uint64_t drives = 0;

	for (uint32_t i = 0; i < g->root_copies; i++) {
		const uint32_t take = m->boot->drain.take[i][piece];

		if (i != copy)
			drives |= 1ull << (take ? drive_of_take(m, take)
						: meta__geo_root_drive(g, i, piece));
	}
	ASSERT(drives);
	return drives;
}

/* A drive that takes zones, in a domain with none of the other copies of this piece. */
static bool another_drive(const struct meta *m, uint32_t copy, uint32_t piece)
{
	const uint64_t others = meta__mates_of(m, drives_of_others(m, copy, piece));
	bool any = false;

	ASSERT(copy < META__ROOT_COPIES);
	for (uint32_t d = 0; d < m->zones->geo.ndrives; d++)
		any |= meta__drive_takes(m, d) && !(others >> d & 1);
	return any;
}

/* (2) */
static bool shares(const struct meta *m, uint32_t copy)
{
	const struct meta__geo *g = &m->zones->geo;
	bool all = true;

	ASSERT(copy > 0 || !meta__geo_roots_share(g, copy, m->mates));
	if (likely(!meta__geo_roots_share(g, copy, m->mates)) || !meta__in_pairs(m))
		return false;
	for (uint32_t i = 0; i < meta__geo_root_pieces(g); i++)
		all &= another_drive(m, copy, i);
	return all;
}

/* Is a part of it on a drive that leaves the store? */
static bool is_left(const struct meta *m, uint32_t copy)
{
	bool left = false;

	ASSERT(copy < m->zones->geo.root_copies);
	for (uint64_t d = meta__drives_leave(m); unlikely(d); d &= d - 1)
		left |= meta__geo_roots_on(&m->zones->geo, copy, (uint32_t)__builtin_ctzll(d));
	return left;
}

/* Must this copy of the roots go elsewhere: its drive leaves, or has another copy, too? */
static bool must_move(const struct meta *m, uint32_t copy)
{
	ASSERT(copy < m->zones->geo.root_copies);
	return is_left(m, copy) || shares(m, copy);
}

bool meta__roots_must_move(const struct meta *m)
{
	bool any = false;

	for (uint32_t copy = 0; copy < m->zones->geo.root_copies; copy++)
		any |= must_move(m, copy);
	return any;
}

static int roots_supers(struct meta *m)
{
	struct meta__boot *b = m->boot;
	int err = meta__drives_write(m);

	ASSERT(b->drain.roots);
	ASSERT(!meta__ckpt_running(m)); /* meta_drain.c (3) */
	if (err != -EALREADY)
		return err;
	b->super = b->next;
	meta__zones_root(m, &b->geo);
	memset(b->drain.take, 0, sizeof(b->drain.take));
	b->drain.taken = 0;
	if (b->super.copies != m->copies)
		meta__protect_begun(m); /* (4) */
	meta__roots_release(m);
	meta__drives_end(m, 0);
	return 0;
}

/* Returns which of the copies read is to be written: the newest whole one.  META__ROOT_COPIES:
 * none. */
static uint32_t newest(const struct meta *m, uint32_t i, uint32_t at)
{
	const struct meta__boot *b = m->boot;
	const uint32_t copies = m->zones->geo.root_copies;
	struct meta__root_seen seen[META__ROOT_COPIES];
	uint32_t best = META__ROOT_COPIES;

	ASSERT(copies * (i + 1) <= META__BOOT_BLOCKS);
	ASSERT(at < 2 * m->nshards);
	for (uint32_t k = 0; k < copies; k++) {
		const struct meta_io *io = &b->io[copies * i + k].io;

		if (io->status || meta__root_parse(io->buf, m->uuid, &seen[k]) != 0 ||
		    !meta__root_belongs(&seen[k], at % m->nshards, at / m->nshards))
			continue;
		if (best == META__ROOT_COPIES || seen[k].version > seen[best].version)
			best = k;
	}
	return best;
}

static int roots_put(struct meta *m)
{
	struct meta__boot *b = m->boot;
	const uint32_t copies = m->zones->geo.root_copies;
	uint32_t from[META__BOOT_BLOCKS / 2];

	ASSERT(!meta__ckpt_running(m)); /* meta_drain.c (3) */
	ASSERT(b->count <= META__BOOT_BLOCKS / copies);
	for (uint32_t i = 0; i < b->count; i++) {
		const uint32_t best = newest(m, i, b->at + i);

		if (best == META__ROOT_COPIES)
			return meta__boot_fail(m, -EUCLEAN,
					       "shard %u: %s copies of a root are damaged: its "
					       "drive keeps them",
					       (b->at + i) % m->nshards,
					       copies > 2 ? "all" : "both");
		from[i] = copies * i + best;
	}
	for (uint32_t i = 0; i < b->count; i++) {
		const uint32_t at = b->at + i;

		meta__boot_io(m, META_IO_WRITE,
			      meta__geo_root(&b->geo, b->step, at / m->nshards, at % m->nshards), 1,
			      from[i]);
	}
	return 0;
}

/* Returns the place of this copy of a root, or of the next one whose drive can be read. */
static uint64_t place_to_read(const struct meta *m, uint32_t copy, uint32_t at)
{
	const struct meta__geo *g = &m->zones->geo;
	uint64_t baddr = 0;

	ASSERT(at < 2 * m->nshards);
	ASSERT(copy < g->root_copies);
	for (uint32_t i = 0; i < g->root_copies; i++) {
		baddr = meta__geo_root(g, (copy + i) % g->root_copies, at / m->nshards,
				       at % m->nshards);
		if (meta__drive_reads(m, META_BADDR_DRIVE(baddr)))
			break;
	}
	return baddr; /* if none can be read: roots_put() sees it */
}

/* step: copy; at: block of its area, of both slots. */
static int roots_move(struct meta *m)
{
	struct meta__boot *b = m->boot;
	const uint32_t copies = m->zones->geo.root_copies, after = b->geo.root_copies;

	ASSERT(b->drain.roots && !meta__ckpt_running(m)); /* meta_drain.c (3) */
	ASSERT(b->step <= after && copies <= after && after <= META__ROOT_COPIES);
	if (b->sent && !b->drain.writing) {
		b->drain.writing = true;
		return roots_put(m);
	}
	for (uint32_t i = 0; b->sent && i < b->count; i++)
		if (b->io[i].io.status)
			return meta__boot_fail(m, -EIO, "drive %u: a root cannot be written",
					       b->io[i].io.drive);
	b->at += b->sent ? b->count : 0;
	b->drain.writing = false;
	for (; b->step < after && (b->at == 2 * m->nshards || !moves(m, b->step)); b->step++)
		b->at = 0;
	if (b->step == after) {
		memcpy(b->next.root_zone, b->geo.root_zone, sizeof(b->next.root_zone));
		meta__boot_next(m, roots_supers);
		return 0;
	}
	b->count = min_u32(META__BOOT_BLOCKS / copies, 2 * m->nshards - b->at);
	for (uint32_t i = 0; i < copies * b->count; i++)
		meta__boot_io(m, META_IO_READ,
			      place_to_read(m, (b->step + i) % copies, b->at + i / copies), 1, i);
	return 0;
}

/* Nothing has been written.  A request for a third copy is answered with `status`. */
static int give_way(struct meta *m, int status)
{
	struct meta__boot *b = m->boot;

	ASSERT(b->adding && !b->drain.writing);
	ASSERT(status < 0);
	if (b->told)
		*b->told = status;
	b->told = NULL;
	meta__drives_end(m, 0);
	return 0;
}

static int roots_wait(struct meta *m)
{
	ASSERT(m->boot->drain.roots);
	if (m->losing) { /* that comes first: the checkpoint's log waits for it */
		meta__roots_release(m);
		return give_way(m, -ENODEV);
	}
	if (meta__ckpt_running(m))
		return -EAGAIN;
	meta__boot_next(m, roots_move);
	return 0;
}

/* Until the new set counts, or the move ends: meta_drain.c (3). */
static void hold(struct meta *m)
{
	ASSERT(!m->boot->drain.roots); /* (5) */
	m->boot->drain.roots = true;
	meta__ckpt_hold(m, true);
}

void meta__roots_release(struct meta *m)
{
	ASSERT(m->boot->drain.roots); /* (5) */
	m->boot->drain.roots = false;
	meta__ckpt_hold(m, false);
}

/* All zones are there. */
static void roots_begin(struct meta *m)
{
	struct meta__boot *b = m->boot;

	ASSERT(!b->adding);
	meta__next_set(m);
	b->geo = m->zones->geo;
	memset(b->drain.moves, 0, sizeof(b->drain.moves));
	for (uint32_t copy = 0; copy < b->geo.root_copies; copy++) {
		b->drain.moves[copy] = must_move(m, copy);
		if (b->drain.moves[copy])
			memcpy(b->geo.root_zone[copy], b->drain.take[copy],
			       sizeof(b->geo.root_zone[copy]));
	}
	b->drain.to = DRIVE_SERVES;
	b->drain.writing = false;
	b->write_from = 0;
	b->write_both = false;
	hold(m);
	meta__drives_begin(m, NULL, roots_wait);
}

/* Picks a zone in another domain than the other copies of this piece.  If no such drive has a free
 * zone, but one soon answers a deallocate command (meta_deallocate.c), it picks none yet.
 * Otherwise it picks a zone on another drive than theirs, or else on any, but only if this copy's
 * drive leaves the store. */
static uint32_t zone_for_roots(const struct meta *m, uint32_t copy, uint32_t piece)
{
	const struct meta__zones *z = m->zones;
	const uint64_t but[] = { meta__mates_of(m, drives_of_others(m, copy, piece)),
				 drives_of_others(m, copy, piece), 0 };
	const uint32_t passes = copy < z->geo.root_copies && is_left(m, copy) ? 3 : 1;
	uint32_t best = META_DRIVES_MAX;

	ASSERT(copy < META__ROOT_COPIES);
	for (uint32_t pass = 0; pass < passes && best == META_DRIVES_MAX; pass++) {
		bool soon = false;

		for (uint32_t d = 0; d < z->geo.ndrives; d++) {
			if (!meta__drive_serves(m, d) || but[pass] >> d & 1)
				continue;
			soon |= z->deallocation[d].zone != META__ZONE_NONE;
			if (z->free_count[d] &&
			    (best == META_DRIVES_MAX || z->free_count[d] > z->free_count[best]))
				best = d;
		}
		if (best == META_DRIVES_MAX && soon)
			return META__ZONE_NONE;
	}
	return best == META_DRIVES_MAX ? META__ZONE_NONE : meta__zone_next(m, best);
}

/* When its header is there. */
static bool give_back(struct meta *m, uint32_t *take)
{
	ASSERT(*take > 0);
	ASSERT(m->boot->drain.taken > 0);
	if (meta__zone_at(m, *take - 1)->state != ZONE_CLOSED)
		return false;
	meta__zone_give_root(m, *take - 1);
	*take = 0;
	m->boot->drain.taken--;
	return true;
}

/* A zone for each piece; their headers are under way.  True: all are durable. */
static bool roots_take(struct meta *m, uint32_t copy)
{
	uint32_t *take = m->boot->drain.take[copy];
	bool all = true;

	ASSERT(copy < META__ROOT_COPIES);
	ASSERT(m->zones->geo.root_zones <= META__ROOT_ZONES_MAX);
	for (uint32_t i = 0; i < m->zones->geo.root_zones; i++) {
		if (take[i] && !meta__drive_serves(m, drive_of_take(m, take[i])))
			give_back(m, &take[i]);
		if (take[i] == 0 && meta__groups_free(m) > meta__zone_reserve(m, false)) {
			const uint32_t zone = zone_for_roots(m, copy, i);

			if (zone == META__ZONE_NONE || !meta__zone_open(m, zone, META__ZONE_ROOT))
				return false;
			take[i] = zone + 1;
			m->boot->drain.taken++;
		}
		all &= take[i] && meta__drive_serves(m, drive_of_take(m, take[i])) &&
		       meta__zone_at(m, take[i] - 1)->state == ZONE_CLOSED;
	}
	return all;
}

/* Frees zones that were taken and are no longer needed.  True: all of them. */
static bool roots_drop(struct meta *m, uint32_t copy)
{
	uint32_t *take = m->boot->drain.take[copy];
	bool all = true;

	ASSERT(copy < META__ROOT_COPIES);
	for (uint32_t i = 0; i < META__ROOT_ZONES_MAX; i++)
		all &= !take[i] || give_back(m, &take[i]);
	return all;
}

void meta__roots_drop(struct meta *m)
{
	ASSERT(!m->boot->adding);
	for (uint32_t copy = 0; copy < META__ROOT_COPIES; copy++)
		(void)roots_drop(m, copy);
}

void meta__roots_turn(struct meta *m)
{
	const bool cannot = m->boot->drain.cannot ||
			    m->zones->geo.root_zones > META__ROOT_ZONES_MAX; /* so they stay */
	bool all = true;

	ASSERT(!m->boot->adding);
	for (uint32_t copy = 0; copy < META__ROOT_COPIES; copy++)
		if (copy < m->zones->geo.root_copies && must_move(m, copy) && !cannot)
			all &= roots_take(m, copy);
		else
			all &= roots_drop(m, copy);
	if (all && !cannot)
		roots_begin(m);
}

/* ---- a third copy (4) ------------------------------------------------------------------------ */

/* Has a drive without a copy of this piece a zone for it, or will it have one soon? */
static bool finds_zone(const struct meta *m, uint32_t copy, uint32_t piece)
{
	const struct meta__zones *z = m->zones;
	const uint64_t others = meta__mates_of(m, drives_of_others(m, copy, piece));
	bool any = false;

	ASSERT(copy == z->geo.root_copies);
	ASSERT(piece < z->geo.root_zones);
	for (uint32_t d = 0; d < z->geo.ndrives; d++)
		any |= meta__drive_serves(m, d) && !(others >> d & 1) &&
		       (z->free_count[d] || z->deallocation[d].zone != META__ZONE_NONE);
	return any && meta__groups_free(m) > meta__zone_reserve(m, false);
}

/* Its zones are being opened.  Then all is as when a copy moves. */
static int third_take(struct meta *m)
{
	struct meta__boot *b = m->boot;
	const uint32_t copy = m->zones->geo.root_copies;

	ASSERT(!b->drain.roots && copy + 1 == b->geo.root_copies); /* (4), (5) */
	ASSERT(b->next.copies == b->geo.root_copies);              /* meta_geo.c (1) */
	if (m->losing || m->stopping)
		return give_way(m, m->losing ? -ENODEV : -EBUSY);
	if (!roots_take(m, copy)) {
		for (uint32_t i = 0; i < b->geo.root_zones; i++)
			if (!b->drain.take[copy][i] && !finds_zone(m, copy, i))
				return give_way(m, -ENOSPC);
		return -EAGAIN;
	}
	memcpy(b->geo.root_zone[copy], b->drain.take[copy], sizeof(b->geo.root_zone[copy]));
	hold(m);
	meta__boot_next(m, roots_wait);
	return 0;
}

void meta__roots_third(struct meta *m, int *status)
{
	struct meta__boot *b = m->boot;

	ASSERT(!b->adding && b->next.copies == META__ROOT_COPIES);
	ASSERT(b->next.converts == m->copies); /* (4) */
	b->geo = m->zones->geo;
	ASSERT(b->geo.root_copies + 1 == META__ROOT_COPIES);
	b->geo.root_area[b->geo.root_copies] = 0; /* meta_geo.c (1) */
	memset(b->drain.moves, 0, sizeof(b->drain.moves));
	b->drain.moves[b->geo.root_copies++] = true;
	b->drain.to = DRIVE_SERVES;
	b->drain.writing = false;
	b->write_from = 0;
	b->write_both = false;
	meta__drives_begin(m, status, third_take);
}
