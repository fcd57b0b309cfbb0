/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Two or three copies of each block of data and pages, so that the store survives the loss of one
 * drive or of two.
 *
 *   drive 0   [zone 3: first ][zone 4: twin of 9]        a block of zone 3 lies in zone 8, too,
 *   drive 1   [zone 8: twin of 3] ...                    at the same offset
 *   drive 2   [zone 9: first ] ...
 *
 *   three copies:  first -> lower twin -> higher twin -> first     `twin` of a zone is the next one
 *
 * Zones of data and of pages are opened in groups: a first zone, and for each further copy a twin,
 * all on different drives.  An address names the first zone, so a read of a healthy store is that
 * of a store without copies; twins are written whenever the first is, and read when it cannot be.
 * The log and the roots have two copies in every store, and three if blocks have; superblocks are
 * on all drives.
 *
 *   SERVES, DRAINS --a write fails for good, or it is missing at a mount--> LOST --rebuilt--> GONE
 *                                                  (meta_drain.c: as a drive that is drained)
 *
 *  (1) A group's zones are on different drives.  The first has kind PAGE or DATA and the twins kind
 *      TWIN; the header of each names all others, and the number of the group, which is never used
 *      again [test_meta_three:each_header_alone_says_the_group].  Only the first has a life of its
 *      own (meta_zone.c); the twins are closed while it has.
 *  (2) Nothing is written to a group before both headers of each zone are durable: so if headers of
 *      a group do not say the same, its zones are empty
 *      [test_meta_pair:power_cuts_while_pairs_are_opened,
 *      test_meta_three:power_cuts_while_groups_are_opened].
 *  (3) A write to a group has been done when it is on all its drives but those that are LOST or
 *      about to be, and on one at least.  Until the superblocks of all other drives name a loss, no
 *      log block is written or counts as durable (meta_log.c (11)), and no root is written
 *      (meta_ckpt.c (10)).  So no change that a client or a later mount sees depends on a drive
 *      that missed it
 *      [test_meta_pair:death_and_power_cuts_lose_nothing].
 *  (4) A drive that is lost is never read or written again, whatever it answers.  One that has the
 *      only copy of something is not lost (meta_needed.c): if it fails the store takes no more
 *      changes [test_meta_pair:second_loss_freezes_the_store].  At most as many are lost in one
 *      step as stay, so a mount with more drives than are missing cannot meet only those that were
 *      left behind (meta_drives.c) [test_meta_needed:as_many_stay_as_are_lost_together].
 *      A lost drive becomes GONE only when no zone is lone
 *      [test_meta_pair_moves:drive_with_the_only_copy_is_not_lost].
 *  (5) A group is thin if it has fewer copies that can be read than the store is to have: a drive
 *      is lost, or fewer drives took zones when it was opened.  It is moved to a new one if that
 *      has more, like what is on a drive that is drained (meta_gc.c, meta_collect.c)
 *      [test_meta_pair:drive_that_is_added_later_makes_it_whole,
 *      test_meta_three:drives_that_are_added_later_make_it_whole].
 *  (6) Space is counted in groups (meta_groups.c)
 *      [test_meta_pair:files_fill_what_pairs_can_hold,
 *      test_meta_three:files_fill_what_groups_of_three_can_hold].
 *  (7) While the store converts from one copy, a block may have one copy: no drive is lost then,
 *      and a write to a group has been done when it is on all its drives (meta_protect.c)
 *      [test_meta_protect:no_drive_is_lost_before_it_has_two_copies].
 *  (8) A drive that dies while a mount writes ends the mount: the next one finds it missing, and
 *      records that before it writes anything.  So no write depends on one copy while the other
 *      drives do not name the loss [test_meta_pair:drive_that_dies_during_a_mount].
 *
 *   V1 -> W1   (W1 in meta_twins.h) a drive is away before any block is that only its twin has
 *   V2 -> W2   (W2 in meta_twins.h) the tables are there before any core looks for a twin
 *   V4 -> W4   (W4 in meta_twins.h) a core that sees no twin sees the ring of its fold
 */
#include "meta/engine/meta_fold.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint32_t drive_of(const struct meta *m, uint32_t zone)
{
	return META_BADDR_DRIVE(meta__geo_zone_baddr(&m->zones->geo, zone));
}

/* ---- the table that every core reads ------------------------------------------------------- */

int meta__twins_join(struct meta *m, const struct meta__geo *g, uint32_t drive)
{
	struct meta_twins *t = &m->zones->twins;

	ASSERT(drive < META_DRIVES_MAX);
	if (g->zone_count[drive] == 0)
		return 0;
	if (t->drive[drive].twin && t->drive[drive].count == g->zone_count[drive])
		return 0;
	free(t->drive[drive].twin); /* of one that was to be added: no address is there */
	free(t->drive[drive].ring);
	t->drive[drive].twin = calloc(g->zone_count[drive], sizeof(*t->drive[drive].twin));
	t->drive[drive].ring = calloc(g->zone_count[drive], sizeof(*t->drive[drive].ring));
	if (!t->drive[drive].twin || !t->drive[drive].ring)
		return -ENOMEM;
	t->drive[drive].at = g->zones_at[drive];
	t->drive[drive].count = g->zone_count[drive];
	return 0;
}

void meta__twins_show(struct meta *m)
{
	ASSERT(m->copies > 1);
	atomic_store_explicit(&m->zones->twins.zone_blocks, m->zones->geo.zone_blocks,
			      memory_order_release); /* V2 */
}

void meta__twins_free(struct meta *m)
{
	ASSERT(m->zones);
	for (uint32_t d = 0; d < META_DRIVES_MAX; d++) {
		free(m->zones->twins.drive[d].twin);
		free(m->zones->twins.drive[d].ring);
	}
}

const struct meta_twins *meta_twins(const struct meta *m)
{
	ASSERT(!m->home);
	return &m->zones->twins;
}

static void tell(struct meta *m, uint32_t zone, uint64_t baddr)
{
	const uint32_t d = drive_of(m, zone);

	ASSERT(m->copies > 1);
	ASSERT(m->zones->twins.drive[d].twin);
	atomic_store_explicit(&m->zones->twins.drive[d].twin[zone - m->zones->geo.zone_base[d]],
			      baddr, memory_order_release); /* V4: and a ring is there before */
}

/* ---- groups (1) ---------------------------------------------------------------------------- */

uint32_t meta__twin(const struct meta *m, uint32_t zone)
{
	return meta__zone_at(m, zone)->twin - 1; /* 0: META__ZONE_NONE */
}

uint32_t meta__pair_first(const struct meta *m, uint32_t zone)
{
	const struct meta__zone *at = meta__zone_at(m, zone);

	ASSERT(at->twin != zone + 1); /* (1) */
	for (; at->parity; at = meta__zone_at(m, zone))
		zone = at->next - 1; /* of data: meta_fold.c (7) */
	for (uint32_t i = 1; at->kind == META__ZONE_TWIN && at->twin; i++) {
		ASSERT(i < META_COPIES_MAX); /* (1) */
		zone = at->twin - 1;
		at = meta__zone_at(m, zone);
	}
	return zone;
}

uint32_t meta__group_others(const struct meta *m, uint32_t zone, uint32_t other[META__TWINS_MAX])
{
	uint32_t count = 0;

	for (uint32_t at = meta__twin(m, zone); at != META__ZONE_NONE && at != zone;
	     at = meta__twin(m, at)) {
		ASSERT(count < META__TWINS_MAX); /* (1) */
		other[count++] = at;
	}
	return count;
}

void meta__group_make(struct meta *m, const uint32_t *zone, uint32_t count, uint64_t number)
{
	uint64_t drives = 0, next = 0;

	ASSERT(count > 1 && count <= m->copies && number > 0);
	for (uint32_t i = count; i-- > 0;) {
		struct meta__zone *at = meta__zone_at(m, zone[i]);

		ASSERT(!at->twin && !(drives >> drive_of(m, zone[i]) & 1)); /* (1) */
		ASSERT(i < 2 || zone[i - 1] < zone[i]);                     /* (1) */
		drives |= 1ull << drive_of(m, zone[i]);
		at->twin = zone[(i + 1) % count] + 1;
		at->pair = number;
		if (i + 1 < count)
			tell(m, zone[i], next);
		next = meta__geo_zone_baddr(&m->zones->geo, zone[i]);
	}
	m->zones->pair_last = max_u64(m->zones->pair_last, number);
}

uint32_t meta__group_end(struct meta *m, uint32_t zone, uint32_t other[META__TWINS_MAX])
{
	const uint32_t count = meta__group_others(m, zone, other);

	if (count == 0)
		return 0;
	ASSERT(meta__twin(m, other[count - 1]) == zone); /* (1) */
	meta__zone_at(m, zone)->twin = 0;
	tell(m, zone, 0);
	for (uint32_t i = 0; i < count; i++) {
		meta__zone_at(m, other[i])->twin = 0;
		tell(m, other[i], 0);
	}
	return count;
}

/* (1) The first zone names its twins, the lower one first; a twin names the first zone, and then
 * the other twin. */
void meta__group_head(const struct meta *m, uint32_t first, struct meta__zone_seen *head)
{
	uint32_t other[META__TWINS_MAX];
	const uint32_t count = meta__group_others(m, first, other);

	ASSERT(count == 0 || head->zone == first || head->kind == META__ZONE_TWIN);
	head->pair = meta__zone_at(m, head->zone)->pair;
	head->twin = count == 0 ? 0 : head->zone == first ? other[0] + 1 : first + 1;
	head->twin2 = 0;
	if (count > 1)
		head->twin2 = other[head->zone == first || head->zone == other[0]] + 1;
}

bool meta__drive_reads(const struct meta *m, uint32_t drive)
{
	ASSERT(drive < META_DRIVES_MAX);
	return m->zones->geo.state[drive] < DRIVE_GONE && !(m->dead >> drive & 1) &&
	       !m->conf.drive[drive].missing;
}

uint64_t meta__twin_baddr(const struct meta *m, uint64_t baddr)
{
	const uint32_t zone = m->copies > 1 ? meta__zone_of(m, baddr) : META__ZONE_NONE;
	const uint32_t twin = zone != META__ZONE_NONE ? meta__twin(m, zone) : META__ZONE_NONE;
	uint64_t at;

	if (twin == META__ZONE_NONE)
		return 0;
	at = baddr - meta__geo_zone_baddr(&m->zones->geo, zone);
	ASSERT(at < m->zones->geo.zone_blocks);
	if (at == 0 || at >= m->zones->geo.zone_end)
		return 0; /* each zone has headers of its own */
	return meta__geo_zone_baddr(&m->zones->geo, twin) + at;
}

/* ---- zones whose content must move ---------------------------------------------------------- */

bool meta__leaves(const struct meta *m, uint32_t zone)
{
	const struct meta__zone *at = meta__zone_at(m, zone);
	const uint32_t d = meta__drain_drive(m);

	if (at->state != ZONE_CLOSED || (at->live == 0 && !meta__in_fold(at)) ||
	    (at->kind != META__ZONE_PAGE && at->kind != META__ZONE_DATA))
		return false;
	if (meta__in_fold(at))
		return meta__fold_leaves(m, zone);
	if (at->unlike || at->near)
		return true;
	if (d < META_DRIVES_MAX && m->zones->geo.state[d] == DRIVE_DRAINS &&
	    meta__drives_of(m, zone) >> d & 1)
		return true;
	return meta__in_pairs(m) &&
	       meta__drives_read(m, meta__drives_of(m, zone)) < meta__width(m); /* (5) */
}

bool meta__any_leaves(const struct meta *m)
{
	const uint32_t d = meta__drain_drive(m);

	ASSERT(m->copies > 1 || m->zones->lone == 0); /* (5) */
	if (d < META_DRIVES_MAX && m->zones->geo.state[d] == DRIVE_DRAINS)
		return true;
	return m->copies > 1 &&
	       (meta__lone_now(m) > 0 || m->zones->unlikes > 0 || m->zones->nears > 0 ||
		d < META_DRIVES_MAX) &&
	       meta__in_pairs(m);
}

/* ---- I/O (3) ------------------------------------------------------------------------------- */

static void place(struct meta_io *io, uint64_t baddr)
{
	io->drive = META_BADDR_DRIVE(baddr);
	io->block = META_BADDR_BLOCK(baddr);
}

bool meta__io_turns(struct meta *m, struct meta__io *x)
{
	const uint64_t from = META_BADDR(x->io.drive, x->io.block);
	uint64_t to = meta__twin_baddr(m, from);

	ASSERT(x->io.op == META_IO_READ);
	ASSERT(x->out == 0);
	while (to && to != from && !meta__drive_reads(m, META_BADDR_DRIVE(to)))
		to = meta__twin_baddr(m, to);
	if (!to || to == from)
		return false;
	place(&x->io, to);
	return true;
}

/* (4) */
static bool is_written(const struct meta *m, uint64_t baddr)
{
	return !meta__may_lose(m) || meta__drive_reads(m, META_BADDR_DRIVE(baddr));
}

void meta__io_copies(struct meta *m, struct meta__io *x)
{
	const uint64_t first = META_BADDR(x->io.drive, x->io.block);
	uint64_t at = first;
	uint32_t count = 0;

	ASSERT(x->io.op == META_IO_WRITE);
	ASSERT(x->out == 0);
	do {
		struct meta_io *io = count ? &x->other[count - 1] : &x->io;

		if (is_written(m, at)) {
			ASSERT(count < m->copies);
			*io = x->io;
			io->copy = (uint8_t)count++;
			place(io, at);
			list_init(&io->link);
		}
		at = meta__twin_baddr(m, at);
	} while (at && at != first);
	x->others = (uint8_t)(count > 1 ? count - 1 : 0);
	x->out = (uint8_t)(count > 1 ? count : 0);
}

static struct meta_io *copy_of(struct meta__io *x, uint32_t copy)
{
	ASSERT(copy <= x->others);
	return copy ? &x->other[copy - 1] : &x->io;
}

bool meta__io_joined(struct meta *m, struct meta__io *x)
{
	bool any = false;

	ASSERT(x->io.op == META_IO_WRITE && x->others > 0); /* (3) */
	ASSERT(x->out > 0 && x->out <= x->others + 1);
	if (--x->out > 0)
		return false;
	for (uint32_t i = 0; i <= x->others; i++)
		any |= !copy_of(x, i)->status;
	for (uint32_t i = 0; any && i <= x->others; i++) {
		const struct meta_io *bad = copy_of(x, i);

		if (!bad->status || meta__drive_lose(m, bad->drive))
			continue;
		x->io.status = bad->status;
		x->io.gone = bad->gone;
		x->io.lost = bad->lost;
		place(&x->io, META_BADDR(bad->drive, bad->block)); /* no other drive is blamed */
		return true;
	}
	x->io.status = any ? 0 : x->io.status;
	return true;
}

/* ---- losing a drive ------------------------------------------------------------------------ */

bool meta__may_lose(const struct meta *m)
{
	ASSERT(m->converts < max_u32(m->copies, 1)); /* (7) */
	return m->copies > 1 && m->converts != 1;
}

/* Returns the drives that are lost, or about to be. */
static uint64_t lost_ones(const struct meta *m)
{
	uint64_t lost = m->losing;

	for (uint32_t d = 0; d < m->zones->geo.ndrives; d++)
		lost |= (uint64_t)(m->zones->geo.state[d] == DRIVE_LOST) << d;
	return lost;
}

/* Why the store cannot go on without it (4). */
static wk_cold void tell_needed(struct meta *m, uint32_t drive)
{
	const uint64_t lost = lost_ones(m);

	ASSERT(drive < m->zones->geo.ndrives && !(lost >> drive & 1));
	m->error[0] = '\0'; /* this says more */
	if (lost)
		meta__error(m,
			    "drive %u failed before all that was on drive %u had been copied: the "
			    "store takes no more changes; bring drive %u back and start again, or "
			    "save what is whole: wekactl check --salvage DIR",
			    drive, (uint32_t)__builtin_ctzll(lost), drive);
	else
		meta__error(
			m,
			"drive %u failed, and has the only copy of some blocks: the store takes "
			"no more changes; bring drive %u back and start again, or save what is "
			"whole: wekactl check --salvage DIR",
			drive, drive);
}

/* At least as many drives must stay as a set of drives says to be lost (4). */
static bool enough_stay(const struct meta *m, uint32_t drive)
{
	const uint32_t lose = (uint32_t)__builtin_popcountll(m->losing) + 1;

	ASSERT(!(m->losing >> drive & 1));
	return meta__taking(m) - meta__drive_takes(m, drive) >= lose;
}

bool meta__drive_lose(struct meta *m, uint32_t drive)
{
	const struct meta__geo *g = &m->zones->geo;

	ASSERT(drive < META_DRIVES_MAX);
	if (drive >= g->ndrives)
		return false; /* it is being added, or is looked at by a mount */
	if (m->losing >> drive & 1 || g->state[drive] == DRIVE_LOST)
		return true;
	if (!meta__may_lose(m) || !m->mounted || m->failed || g->state[drive] > DRIVE_DRAINS ||
	    meta__taking(m) - meta__drive_takes(m, drive) < 1)
		return false;
	if (!enough_stay(m, drive) || meta__drive_is_needed(m, drive)) { /* (4) */
		tell_needed(m, drive);
		return false;
	}
	if (m->dead & ~lost_ones(m))
		return false; /* one that could not be lost */
	m->dead |= 1ull << drive;
	m->losing |= 1ull << drive;
	meta__twins_without(m, drive); /* (4) */
	meta__supply_shut(m, drive);
	return true;
}

bool meta_drive_failed(struct meta *m, uint32_t drive)
{
	ASSERT(!m->home);
	return meta__drive_lose(m, drive);
}

void meta__twins_without(struct meta *m, uint32_t drive)
{
	ASSERT(drive < META_DRIVES_MAX);
	atomic_fetch_or_explicit(&m->zones->twins.away, 1ull << drive,
				 memory_order_release); /* V1 */
}
