/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Two copies of each block of data and pages, so that the store survives the loss of a drive.
 *
 *   drive 0   [zone 3: first ][zone 4: twin of 9]        a block of zone 3 lies in zone 8, too,
 *   drive 1   [zone 8: twin of 3] ...                    at the same offset
 *   drive 2   [zone 9: first ] ...
 *
 * In a store of two copies zones of data and of pages are opened in pairs, on two drives.  An
 * address names the first zone of a pair, so a read of a healthy store is that of a store without
 * copies; the twin is written whenever the first is, and read when the first cannot be.  The log
 * and the roots have two copies in every store, and superblocks are on all drives.
 *
 *   SERVES, DRAINS --a write fails for good, or it is missing at a mount--> LOST --rebuilt--> GONE
 *                                                  (meta_drain.c: as a drive that is drained)
 *
 *  (1) A pair's zones are on two drives.  The first has kind PAGE or DATA and the twin kind TWIN;
 *      their headers name each other and the number of the pair, which is never used again.  Only
 *      the first has a life of its own (meta_zone.c); the twin is closed while it has.
 *  (2) Nothing is written to a pair before all four headers are durable: so a header that names a
 *      twin which does not name it back belongs to an empty zone
 *      [test_meta_pair:power_cuts_while_pairs_are_opened].
 *  (3) A write to a pair has been done when it is on both drives, or on one while the other drive
 *      is LOST or about to be.  Until the superblocks of all other drives name a loss, no log
 *      block is written or counts as durable (meta_log.c (11)), and no root is written
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
 *  (5) A zone is thin if it needs a twin and has none that can be used: on a drive that is lost, or
 *      opened while only one drive served.  Thin zones are moved to pairs like those of a drive
 *      that is drained (meta_gc.c, meta_collect.c)
 *      [test_meta_pair:drive_that_is_added_later_makes_it_whole].
 *  (6) Space is counted in groups: a group is what the store opens at once, a pair or a single
 *      zone [test_meta_pair:files_fill_what_pairs_can_hold].
 *  (7) While the store converts from one copy to two, a block may have one copy: no drive is lost
 *      then, and a write to a pair has been done when it is on both drives (meta_protect.c)
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

/* ---- pairs --------------------------------------------------------------------------------- */

uint32_t meta__twin(const struct meta *m, uint32_t zone)
{
	return meta__zone_at(m, zone)->twin - 1; /* 0: META__ZONE_NONE */
}

uint32_t meta__pair_first(const struct meta *m, uint32_t zone)
{
	const struct meta__zone *at = meta__zone_at(m, zone);

	ASSERT(at->twin != zone + 1); /* (1) */
	if (at->parity)
		return at->next - 1;
	return at->kind == META__ZONE_TWIN && at->twin ? meta__twin(m, zone) : zone;
}

void meta__pair(struct meta *m, uint32_t first, uint32_t twin, uint64_t pair)
{
	struct meta__zone *a = meta__zone_at(m, first), *b = meta__zone_at(m, twin);

	ASSERT(drive_of(m, first) != drive_of(m, twin)); /* (1) */
	ASSERT(!a->twin && !b->twin);
	ASSERT(pair > 0);
	a->twin = twin + 1;
	b->twin = first + 1;
	a->pair = b->pair = pair;
	m->zones->pair_last = max_u64(m->zones->pair_last, pair);
	tell(m, first, meta__geo_zone_baddr(&m->zones->geo, twin));
}

uint32_t meta__unpair(struct meta *m, uint32_t first)
{
	struct meta__zone *a = meta__zone_at(m, first);
	const uint32_t twin = meta__twin(m, first);

	if (twin == META__ZONE_NONE)
		return twin;
	ASSERT(meta__twin(m, twin) == first); /* (1) */
	ASSERT(a->kind != META__ZONE_TWIN || meta__zone_at(m, twin)->kind != META__ZONE_TWIN);
	a->twin = meta__zone_at(m, twin)->twin = 0;
	tell(m, first, 0);
	tell(m, twin, 0);
	return twin;
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
	if (at->unlike)
		return true;
	if (d < META_DRIVES_MAX && m->zones->geo.state[d] == DRIVE_DRAINS &&
	    meta__drives_of(m, zone) >> d & 1)
		return true;
	return meta__in_pairs(m) && meta__is_thin(m, zone);
}

bool meta__any_leaves(const struct meta *m)
{
	const uint32_t d = meta__drain_drive(m);

	ASSERT(m->copies > 1 || m->zones->lone == 0); /* (5) */
	if (d < META_DRIVES_MAX && m->zones->geo.state[d] == DRIVE_DRAINS)
		return true;
	return m->copies > 1 &&
	       (m->zones->lone > 0 || m->zones->unlikes > 0 || d < META_DRIVES_MAX) &&
	       meta__in_pairs(m);
}

void meta__zone_lone(struct meta *m, uint32_t zone, bool lone)
{
	struct meta__zones *z = m->zones;
	struct meta__zone *at = meta__zone_at(m, zone);
	const uint32_t d = drive_of(m, zone);

	ASSERT(z->lone >= z->lone_on[d]);
	ASSERT(!at->lone || z->lone_on[d] > 0);
	z->lone += (uint32_t)lone - at->lone;
	z->lone_on[d] += (uint32_t)lone - at->lone;
	at->lone = lone;
}

void meta__zones_all_lone(struct meta *m)
{
	struct meta__zones *z = m->zones;

	ASSERT(m->copies > 1 && z->lone == 0);
	for (uint32_t i = 0; i < z->geo.nzones; i++) {
		struct meta__zone *at = &z->zone[i];

		ASSERT(at->twin == 0); /* meta_protect.c (1) */
		if (at->state == ZONE_FREE || at->state == ZONE_GONE)
			continue;
		meta__zone_lone(m, i, at->kind == META__ZONE_PAGE || at->kind == META__ZONE_DATA);
	}
}

/* ---- groups (6) ---------------------------------------------------------------------------- */

static uint32_t taking(const struct meta *m)
{
	uint32_t n = 0;

	for (uint32_t d = 0; d < m->zones->geo.ndrives; d++)
		n += meta__drive_takes(m, d);
	return n;
}

bool meta__in_pairs(const struct meta *m)
{
	return unlikely(m->copies > 1) && taking(m) > 1;
}

/* The largest k drives can give one zone each to a group, so the others must have width - k for
 * each: that bounds the groups for any k, and they can be made when no k forbids it. */
uint32_t meta__groups_on(const struct meta *m, const uint32_t *zones, uint32_t width)
{
	uint32_t largest[META_FOLD_MAX + 1] = { 0 }, sum = 0, groups;

	ASSERT(width >= 1 && width <= META_FOLD_MAX + 1);
	for (uint32_t d = 0; d < m->zones->geo.ndrives; d++) {
		uint32_t next = meta__drive_takes(m, d) ? zones[d] : 0;

		sum += next;
		for (uint32_t k = 0; k + 1 < width && next > 0; k++) {
			const uint32_t smaller = min_u32(next, largest[k]);

			largest[k] = max_u32(next, largest[k]);
			next = smaller;
		}
	}
	groups = sum / width;
	for (uint32_t k = 1; k < width; k++) {
		ASSERT(largest[k - 1] <= sum); /* (6) */
		sum -= largest[k - 1];
		groups = min_u32(groups, sum / (width - k));
	}
	return groups;
}

uint32_t meta__pairs_of(const struct meta *m, const uint32_t *zones)
{
	return meta__groups_on(m, zones, META_COPIES_MAX);
}

uint32_t meta__groups_free(const struct meta *m)
{
	return likely(!meta__in_pairs(m)) ? m->zones->free_total : meta__pairs_free(m);
}

uint32_t meta__groups_total(const struct meta *m)
{
	return likely(!meta__in_pairs(m)) ? m->zones->geo.zones_serving : meta__pairs_total(m);
}

uint32_t meta__pairs_free(const struct meta *m)
{
	return meta__pairs_of(m, m->zones->free_count);
}

uint32_t meta__pairs_total(const struct meta *m)
{
	return meta__pairs_of(m, m->zones->geo.zone_count);
}

static uint32_t leaving(const struct meta *m)
{
	uint32_t n = 0;

	for (uint32_t d = 0; d < m->zones->geo.ndrives; d++)
		n += m->zones->geo.state[d] == DRIVE_DRAINS ||
		     m->zones->geo.state[d] == DRIVE_LOST || (m->losing >> d & 1);
	return n;
}

static uint32_t largest(const struct meta *m, const uint32_t *zones)
{
	uint32_t best = 0;

	for (uint32_t d = 1; d < m->zones->geo.ndrives; d++)
		if (zones[d] > zones[best])
			best = d;
	ASSERT(best < m->zones->geo.ndrives);
	return best;
}

void meta__zones_taking(const struct meta *m, uint32_t on[META_DRIVES_MAX])
{
	const uint32_t ndrives = m->zones->geo.ndrives;

	ASSERT(ndrives <= META_DRIVES_MAX);
	for (uint32_t d = 0; d < ndrives; d++)
		on[d] = meta__drive_takes(m, d) ? m->zones->geo.zone_count[d] : 0;
}

/* Returns how many spare drives a store keeps room for that has this many copies. */
static uint32_t spare_drives(const struct meta *m, uint32_t copies)
{
	uint32_t spare = m->conf.spare_drives;
	const uint32_t left = taking(m);

	ASSERT(copies >= 1 && copies <= META_COPIES_MAX);

	if (spare == META_SPARE_AUTO)
		spare = copies > 1;
	if (!m->zones->promises) /* meta_space.c (5), (7) */
		spare -= min_u32(spare, spare ? leaving(m) : 0);
	return left <= copies ? 0 : min_u32(spare, left - copies);
}

static void leave_out(const struct meta *m, uint32_t spare, uint32_t on[META_DRIVES_MAX])
{
	ASSERT(spare < m->zones->geo.ndrives);
	for (; spare > 0; spare--)
		on[largest(m, on)] = 0;
}

void meta__zones_left(const struct meta *m, uint32_t on[META_DRIVES_MAX])
{
	meta__zones_taking(m, on);
	leave_out(m, spare_drives(m, m->copies), on);
}

/* Returns the groups kept back in a store that has this many copies. */
static uint32_t kept(const struct meta *m, uint32_t copies)
{
	uint32_t on[META_DRIVES_MAX], rest = 0, total = m->zones->geo.zones_serving;
	const uint32_t spare = spare_drives(m, copies);

	if (spare == 0)
		return 0;
	meta__zones_taking(m, on);
	if (copies > 1)
		total = meta__pairs_of(m, on);
	leave_out(m, spare, on);
	for (uint32_t d = 0; d < m->zones->geo.ndrives; d++)
		rest += on[d];
	if (copies > 1)
		rest = meta__pairs_of(m, on);
	ASSERT(rest <= total); /* (6) */
	return total - rest;
}

uint32_t meta__groups_kept(const struct meta *m)
{
	return kept(m, m->copies);
}

uint32_t meta__pairs_kept(const struct meta *m)
{
	ASSERT(taking(m) > 1);
	return kept(m, META_COPIES_MAX);
}

uint32_t meta__groups_of(const struct meta *m, uint32_t zones)
{
	return likely(!meta__in_pairs(m)) ? zones : (uint32_t)div_up(zones, 2);
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
	ASSERT(!m->converts || m->copies > 1); /* (7) */
	return m->copies > 1 && !m->converts;
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

/* At least as many must stay as a set of drives says to be lost (4). */
static bool enough_stay(const struct meta *m, uint32_t drive)
{
	const uint32_t lose = (uint32_t)__builtin_popcountll(m->losing) + 1;

	ASSERT(!(m->losing >> drive & 1));
	return taking(m) - meta__drive_takes(m, drive) >= lose;
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
	    taking(m) - meta__drive_takes(m, drive) < 1)
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
