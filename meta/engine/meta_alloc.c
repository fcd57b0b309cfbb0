/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Allocation of blocks: for new data on each drive, and for pages.
 *
 *        free zones --open ahead--> [ready] [ready] --> [open: |####....|] --> closed
 *
 * Each stream of addresses (a supply) keeps some room in zones whose headers are durable, so that
 * an allocation only counts.  A caller that needs more than there is adds to `want`, and retries.
 * How many zones a supply must leave to others is in meta_space.c.
 *
 *  (1) supply.room is the room in its open zone and its ready zones.
 *  (2) A drive's data is taken from that drive only.  `spread` selects the drive, each in
 *      proportion to its free places: so drives of different size, or new ones, are full at the
 *      same time.  Few headers are written at once, and the drives take turns at them, so that
 *      none is without room while others fill [test_app_spread].
 *  (3) Deletion leaves some pages to collection while that can still win zones: in a store full
 *      of half-dead zones deletes alone would use up all free pages, and win none
 *      [test_meta_collect:store_full_of_names_deletes_and_takes_as_much_again].
 *  (4) Leaves have their own zones, and so have the pages above them: each checkpoint rewrites
 *      most of the latter, so that their zones soon die whole, and would leave holes among leaves.
 *      Only when no zone is free that either could open do they share an open zone; a zone with
 *      both is valid, but expensive to collect.
 *  (5) While blocks leave a drive, or get a further copy, and find no room, new data has no room
 *      ahead: zones that stand ready for it become free, and those that it fills are closed
 *      [test_meta_full_rebuild].
 */
#include "meta/engine/meta_domain.h"
#include "meta/engine/meta_ops.h"
#include "meta/engine/meta_fold.h"

#include <errno.h>

#define DATA_AHEAD_BLOCKS (2 * META_IO_BLOCKS_MAX) /* two of the largest writes */
#define PAGE_AHEAD        60u                      /* a fifth of them for pages above leaves */

static bool is_of_pages(const struct meta__zones *z, const struct meta__supply *s)
{
	return s >= z->page && s < z->page + META__PAGE_SUPPLIES;
}

static uint32_t units_of(const struct meta__zones *z, const struct meta__supply *s)
{
	DASSERT(z->geo.zone_end > 1);
	DASSERT(z->geo.zone_pages > 0);
	return is_of_pages(z, s) ? z->geo.zone_pages : z->geo.zone_end - 1;
}

static void supply_make(struct meta__supply *s, uint64_t want)
{
	*s = (struct meta__supply){ .open = META__ZONE_NONE, .want = want, .want_min = want };
	list_init(&s->ready);
}

void meta__supply_join(struct meta *m, uint32_t drive)
{
	struct meta__zones *z = m->zones;

	ASSERT(drive < META_DRIVES_MAX);
	supply_make(&z->data[drive], min_u64(DATA_AHEAD_BLOCKS, meta__ahead_max(m)));
}

void meta__supply_init(struct meta *m)
{
	struct meta__zones *z = m->zones;
	const uint64_t ahead = min_u64(PAGE_AHEAD, meta__ahead_max(m));

	supply_make(&z->moved, 0);
	supply_make(&z->page[0], ahead - ahead / 5);
	supply_make(&z->page[1], ahead / 5);
	for (uint32_t d = 0; d < z->geo.ndrives; d++)
		meta__supply_join(m, d);
	ASSERT(z->page[0].want > z->page[1].want); /* most pages are leaves */
}

void meta__supply_less(struct meta *m)
{
	ASSERT(m->copies > 1);
	for (struct meta__supply *s = m->zones->data; s < m->zones->data + META_DRIVES_MAX; s++)
		s->want = s->want_min = min_u64(s->want_min, meta__ahead_max(m));
}

/* ---- opening ahead --------------------------------------------------------- */

static uint32_t pick_for(const struct meta *m, const struct meta__supply *s)
{
	const struct meta__zones *z = m->zones;
	uint32_t d = (uint32_t)(s - z->data);

	ASSERT(is_of_pages(z, s) || s == &z->moved || d < z->geo.ndrives); /* (2) */
	if (is_of_pages(z, s))
		return meta__zone_pick(m);
	if (s == &z->moved)
		return meta__zones_for_moved(m) ? meta__zone_pick(m) : META__ZONE_NONE;
	if (z->free_count[d] == 0 || !meta__drive_takes(m, d) || meta__zones_for_data(m) == 0)
		return META__ZONE_NONE;
	return meta__zone_next(m, d);
}

static bool lacks(const struct meta *m, const struct meta__supply *s)
{
	return s->room + (uint64_t)s->opening * units_of(m->zones, s) < s->want;
}

/* Opens one zone.  Returns false if no zone is free for it, or if as many headers are being written
 * as may be at once. */
static bool supply_add(struct meta *m, struct meta__supply *s)
{
	const struct meta__zones *z = m->zones;
	const enum meta__zone_kind kind = is_of_pages(z, s) ? META__ZONE_PAGE : META__ZONE_DATA;
	const uint32_t zone = pick_for(m, s);

	ASSERT(lacks(m, s));
	ASSERT(zone == META__ZONE_NONE || kind == META__ZONE_PAGE ||
	       meta__zones_for_moved(m) > 0); /* meta_space.c (1) */
	if (zone == META__ZONE_NONE || !meta__zone_open(m, zone, kind))
		return false;
	meta__zone_at(m, zone)->moved = s == &z->moved;
	meta__zone_at(m, zone)->upper = s == &z->page[1];
	s->opening++;
	return true;
}

static void supply_fill(struct meta *m, struct meta__supply *s)
{
	while (lacks(m, s) && supply_add(m, s))
		;
}

/* Opens one zone for each drive that needs some, again and again (2).  A store of several copies
 * fills one drive after the other instead: there the choice of twins levels the drives, and that
 * depends on the order in which zones are opened. */
static void data_fill(struct meta *m)
{
	struct meta__zones *z = m->zones;
	const uint32_t ndrives = z->geo.ndrives;
	uint32_t d = m->copies > 1 ? 0 : z->data_turn;

	ASSERT(d < ndrives);
	if (m->copies > 1) {
		for (; d < ndrives; d++)
			supply_fill(m, &z->data[d]);
		return;
	}
	for (uint32_t idle = 0; idle < ndrives; d = d + 1 < ndrives ? d + 1 : 0)
		idle = lacks(m, &z->data[d]) && supply_add(m, &z->data[d]) ? 0 : idle + 1;
	z->data_turn = d;
}

void meta__supply_turn(struct meta *m)
{
	struct meta__zones *z = m->zones;

	if (m->failed || !z->counted)
		return;
	for (uint32_t i = 0; i < META__PAGE_SUPPLIES; i++)
		supply_fill(m, &z->page[i]); /* first: without pages nothing can be deleted */
	supply_fill(m, &z->moved);
	if (m->mounted)
		data_fill(m);
}

/* Its group could be wider than it is, or it lacks one in a store that converts. */
static bool is_narrow(const struct meta *m, uint32_t zone)
{
	const uint32_t lone = meta__zone_at(m, zone)->lone;

	ASSERT(lone < max_u32(m->copies, 1));
	return lone == 1 || (lone > 0 && lone < meta__width(m));
}

/* It, or another copy of it.  META_DRIVES_MAX: it should have more, and has not. */
static bool is_on(const struct meta *m, uint32_t zone, uint32_t drive)
{
	if (drive == META_DRIVES_MAX)
		return is_narrow(m, zone);
	return meta__drives_of(m, zone) >> drive & 1;
}

/* Closes the open and ready zones of this drive, whatever room they have, and their twins'. */
static void supply_drop(struct meta *m, struct meta__supply *s, uint32_t drive)
{
	struct meta__zones *z = m->zones;
	const uint32_t unit = is_of_pages(z, s) ? META_PAGE_BLOCKS : 1;
	struct list *l = s->ready.next;

	if (s->open != META__ZONE_NONE && is_on(m, s->open, drive)) {
		ASSERT(s->room >=
		       (z->geo.zone_end - meta__zone_at(m, s->open)->used) / unit); /* (1) */
		s->room -= (z->geo.zone_end - meta__zone_at(m, s->open)->used) / unit;
		meta__zone_close(m, s->open);
		s->open = META__ZONE_NONE;
	}
	while (l != &s->ready) {
		struct meta__zone *at = list_entry(l, struct meta__zone, link);
		const uint32_t zone = (uint32_t)(at - z->zone);

		l = l->next;
		if (!is_on(m, zone, drive))
			continue;
		list_del(&at->link);
		list_init(&at->link);
		ASSERT(at->state == ZONE_READY); /* (1) */
		ASSERT(s->room >= units_of(z, s));
		s->room -= units_of(z, s);
		at->state = ZONE_OPEN;
		meta__zone_close(m, zone);
	}
}

void meta__supply_ready(struct meta *m, uint32_t zone)
{
	struct meta__zones *z = m->zones;
	struct meta__zone *at = meta__zone_at(m, zone);
	struct meta__supply *s = &z->page[at->upper];
	uint32_t refuses;

	ASSERT(at->state == ZONE_READY);
	ASSERT(at->live == 0);
	ASSERT(at->pending == 0);
	if (at->kind == META__ZONE_LOG) {
		ASSERT(z->log_opening > 0 && meta__log_copies(z->log_ready) < META__LOG_COPIES);
		z->log_opening--;
		z->log_ready[meta__log_copies(z->log_ready)] = zone;
		return;
	}
	if (at->kind == META__ZONE_ROOT || at->kind == META__ZONE_PARITY) {
		at->state = ZONE_CLOSED;
		return;
	}
	if (at->moved)
		s = &z->moved;
	else if (at->kind == META__ZONE_DATA)
		s = &z->data[META_BADDR_DRIVE(meta__geo_zone_baddr(&z->geo, zone))];
	ASSERT(s->opening > 0);
	s->opening--;
	s->room += units_of(z, s);
	list_push_back(&s->ready, &at->link);
	refuses = meta__drives_refuse(m, meta__drives_of(m, zone));
	if (refuses < META_DRIVES_MAX)
		supply_drop(m, s, refuses);
	else if (at->lone && at->lone < meta__width(m) &&
		 meta__zone_pick_but(m, meta__mates_of(m, meta__drives_of(m, zone))) !=
			 META__ZONE_NONE)
		supply_drop(m, s, META_DRIVES_MAX); /* a drive was added meanwhile, or got room */
}

void meta__supply_shut(struct meta *m, uint32_t drive)
{
	for (uint32_t d = 0; d < m->zones->geo.ndrives; d++)
		supply_drop(m, &m->zones->data[d], drive);
	supply_drop(m, &m->zones->moved, drive);
	for (uint32_t i = 0; i < META__PAGE_SUPPLIES; i++)
		supply_drop(m, &m->zones->page[i], drive);
}

/* (5) */
void meta__supply_yield(struct meta *m)
{
	ASSERT(meta__any_leaves(m));
	for (uint32_t d = 0; d < m->zones->geo.ndrives; d++)
		supply_drop(m, &m->zones->data[d], d);
}

/* The zone that this supply fills; there is room in it. */
static uint32_t supply_open(struct meta *m, struct meta__supply *s)
{
	struct list *l;

	ASSERT(s->room > 0); /* (1) */
	if (s->open != META__ZONE_NONE)
		return s->open;
	l = list_pop_front(&s->ready);
	ASSERT(l != NULL);
	ASSERT(list_entry(l, struct meta__zone, link)->state == ZONE_READY); /* meta_zone.c (1) */
	s->open = (uint32_t)(list_entry(l, struct meta__zone, link) - m->zones->zone);
	meta__zone_at(m, s->open)->state = ZONE_OPEN;
	return s->open;
}

static void supply_close_full(struct meta *m, struct meta__supply *s, uint32_t unit_blocks)
{
	struct meta__zone *at = meta__zone_at(m, s->open);
	uint32_t zone = s->open;

	ASSERT(at->used <= m->zones->geo.zone_end);
	if (at->used + unit_blocks <= m->zones->geo.zone_end)
		return;
	s->open = META__ZONE_NONE;
	meta__zone_close(m, zone);
}

/* ---- pages ----------------------------------------------------------------- */

uint32_t meta__page_room(struct meta *m)
{
	return (uint32_t)meta__pages_ahead(m->zones);
}

/* Pages that stay for collection (3), as long as it hopes to win some with them. */
static uint64_t pages_kept(const struct meta *m)
{
	const struct meta__zones *z = m->zones;
	uint64_t a_round = 2 * (uint64_t)z->geo.zone_pages + 64; /* some zones, and paths */

	if (!m->mounted || !m->above->collection_hopes(m))
		return 0;
	return min_u64(min_u64(z->dirty_pages_max, a_round), 2 * z->live_pages + 16);
}

static void page_want(struct meta *m, struct meta__page_need need)
{
	struct meta__supply *s = m->zones->page;

	s[0].want = max_u64(s[0].want_min, need.leaves);
	s[1].want = max_u64(s[1].want_min, need.uppers);
	meta__supply_turn(m);
}

/* All its own zones give it, or nothing more can be opened and the two share: (4). */
static bool page_room_is(struct meta *m, struct meta__page_need need)
{
	const struct meta__zones *z = m->zones;
	const struct meta__supply *s = z->page;

	if (s[0].room >= need.leaves && s[1].room >= need.uppers)
		return true;
	page_want(m, need);
	return meta__groups_free(m) == 0 && s[0].opening + s[1].opening == 0 &&
	       meta__pages_ahead(z) >= (uint64_t)need.leaves + need.uppers;
}

int meta__page_ready(struct meta *m, struct meta__page_need need, bool collects)
{
	const struct meta__zones *z = m->zones;
	const uint64_t pages = (uint64_t)need.leaves + need.uppers;
	uint64_t zones = (uint64_t)z->page[0].opening + z->page[1].opening + meta__groups_free(m);
	uint64_t reach = meta__pages_ahead(z) + zones * z->geo.zone_pages;

	if (pages == 0)
		return 0;
	if (reach >= pages + (collects ? 0 : pages_kept(m)))
		return page_room_is(m, need) ? 0 : META__NEEDS_ROOM;
	if (!z->coming && list_empty(&z->leaving) && (collects || !m->above->collection_hopes(m)))
		return -ENOSPC;
	if (collects || !m->above->collection_busy(m))
		meta__ckpt_want(m); /* zones are dead, or their pages have been moved */
	return META__NEEDS_ROOM;
}

uint64_t meta__page_take(struct meta *m, uint32_t level)
{
	struct meta__zones *z = m->zones;
	const bool shares = z->page[level > 0].room == 0;
	struct meta__supply *s = &z->page[(level > 0) != shares];
	uint32_t zone = supply_open(m, s);
	struct meta__zone *at = meta__zone_at(m, zone);
	uint64_t baddr = meta__geo_zone_baddr(&z->geo, zone) + at->used;

	ASSERT(at->kind == META__ZONE_PAGE && (shares || at->upper == (level > 0))); /* (4) */
	DASSERT(at->state == ZONE_OPEN);
	DASSERT(at->used + META_PAGE_BLOCKS <= z->geo.zone_end);
	at->used += META_PAGE_BLOCKS;
	at->live += META_PAGE_BLOCKS;
	z->live_pages++;
	s->room--;
	if (s->want > s->want_min)
		s->want--;            /* the request was granted */
	DASSERT(at->live < at->used); /* its header is no page */
	supply_close_full(m, s, META_PAGE_BLOCKS);
	return baddr;
}

/* ---- data ------------------------------------------------------------------ */

static struct meta_run take_run(struct meta *m, struct meta__supply *s, uint32_t nblocks_max)
{
	uint32_t zone = supply_open(m, s);
	struct meta__zone *at = meta__zone_at(m, zone);
	struct meta_run run = {
		.baddr = meta__geo_zone_baddr(&m->zones->geo, zone) + at->used,
		.nblocks = min_u32(nblocks_max, m->zones->geo.zone_end - at->used),
	};

	DASSERT(at->kind == META__ZONE_DATA); /* (1) */
	DASSERT(run.nblocks > 0);
	DASSERT(run.nblocks <= s->room);
	DASSERT(at->moved == (s == &m->zones->moved)); /* meta_gc.c (3) */
	DASSERT(!at->victim);                          /* meta_gc_find.c (2) */
	at->used += run.nblocks;
	at->pending += run.nblocks;
	m->zones->promised += at->moved ? 0 : run.nblocks;
	s->room -= run.nblocks;
	supply_close_full(m, s, 1);
	return run;
}

/* Returns the number of runs that `nblocks` from this supply would take. */
static uint32_t runs_in(const struct meta *m, const struct meta__supply *s, uint64_t nblocks)
{
	uint32_t a_zone = m->zones->geo.zone_end - 1;
	uint32_t here = 0;

	DASSERT(nblocks > 0);
	if (s->open != META__ZONE_NONE)
		here = m->zones->geo.zone_end - meta__zone_at(m, s->open)->used;
	if (nblocks <= here)
		return 1;
	return (here ? 1 : 0) + (uint32_t)div_up(nblocks - here, a_zone);
}

/* Returns whether drive d can give so many blocks, sooner or later. */
static bool can_give(const struct meta *m, uint32_t d, uint64_t nblocks)
{
	const struct meta__zones *z = m->zones;
	const uint64_t a_zone = z->geo.zone_end - 1;
	const uint64_t soon = z->data[d].room + z->data[d].opening * a_zone;

	DASSERT(d < z->geo.ndrives);
	if (!meta__drive_takes(m, d))
		return false;
	return likely(soon >= nblocks) || /* to count zones costs as much as all else here */
	       soon + min_u32(z->free_count[d], meta__zones_for_data(m)) * a_zone >= nblocks;
}

/* (2): multiples of the golden ratio are evenly distributed in [0, 1); the drives divide that
 * interval in proportion to their free space. */
static uint32_t drive_at(const struct meta *m, uint64_t spread)
{
	const uint32_t ndrives = m->zones->geo.ndrives;
	uint64_t at = (spread * 0x9e3779b97f4a7c15) >> 32, end = 0;
	uint32_t d = 0;

	if (ndrives == 1)
		return 0;
	for (uint32_t i = 0; i < ndrives; i++)
		end += meta__zone_free_on(m, i);
	at = at * end >> 32;
	for (end = meta__zone_free_on(m, 0); end <= at && d + 1 < ndrives;)
		end += meta__zone_free_on(m, ++d);
	DASSERT(d < ndrives);
	return d;
}

/* All from one drive, the first from `spread` on that can: 0, -EAGAIN, or -ENOSPC. */
static int pick_drive(struct meta *m, uint64_t spread, uint32_t nblocks, uint32_t *drive)
{
	struct meta__zones *z = m->zones;
	const uint32_t first = drive_at(m, spread);

	DASSERT(nblocks > 0);
	DASSERT(first < z->geo.ndrives);
	for (uint32_t i = 0; i < z->geo.ndrives; i++) {
		uint32_t d = (first + i) % z->geo.ndrives;

		if (!can_give(m, d, nblocks))
			continue;
		*drive = d;
		if (z->data[d].room >= nblocks)
			return 0;
		z->data[d].want = max_u64(z->data[d].want, nblocks);
		meta__supply_turn(m);
		return -EAGAIN;
	}
	return -ENOSPC;
}

/* No drive has enough alone: from all of them together. */
static int gather(struct meta *m, uint32_t nblocks, struct meta_run *runs, uint32_t runs_max,
		  uint32_t *nruns)
{
	struct meta__zones *z = m->zones;
	uint64_t room = 0, total = 0;
	uint32_t need = 0, left = nblocks;

	for (uint32_t d = 0; d < z->geo.ndrives; d++) {
		room += z->data[d].room;
		total += z->data[d].room + z->data[d].opening * (z->geo.zone_end - 1);
		if (z->data[d].room)
			need += runs_in(m, &z->data[d], z->data[d].room);
	}
	total += (uint64_t)meta__zones_for_data(m) * (z->geo.zone_end - 1);
	if (total < nblocks)
		return -ENOSPC;
	if (room < nblocks) {
		for (uint32_t d = 0; d < z->geo.ndrives; d++)
			z->data[d].want = max_u64(z->data[d].want, nblocks);
		meta__supply_turn(m);
		return -EAGAIN;
	}
	if (need > runs_max)
		return -ENOSPC;
	for (uint32_t d = 0; d < z->geo.ndrives; d++) {
		while (left && z->data[d].room) {
			ASSERT(*nruns < runs_max);
			runs[*nruns] = take_run(m, &z->data[d], left);
			left -= runs[(*nruns)++].nblocks;
		}
	}
	ASSERT(left == 0);
	return 0;
}

/* 0; -EAGAIN: files without a name are being freed; -ENOSPC. */
static int leaves_spare(const struct meta *m, uint32_t nblocks)
{
	if (meta__files_fit(m, nblocks))
		return 0;
	return meta__orphans_waiting(m) ? -EAGAIN : -ENOSPC;
}

int meta_data_alloc(struct meta *m, uint64_t spread, uint32_t nblocks, struct meta_run *runs,
		    uint32_t runs_max, uint32_t *nruns)
{
	struct meta__zones *z = m->zones;
	uint32_t drive, left = nblocks;
	int err;

	ASSERT(nblocks > 0);
	DASSERT(runs_max > 0);
	*nruns = 0;
	if (m->failed)
		return -EROFS;
	err = leaves_spare(m, nblocks);
	if (err)
		return err;
	err = pick_drive(m, spread, nblocks, &drive);
	if (err == -ENOSPC)
		err = gather(m, nblocks, runs, runs_max, nruns);
	else if (!err && runs_in(m, &z->data[drive], nblocks) > runs_max)
		err = -ENOSPC; /* too many small pieces for this caller */
	else if (!err)
		for (z->data[drive].want = z->data[drive].want_min; left;) {
			runs[*nruns] = take_run(m, &z->data[drive], left);
			left -= runs[(*nruns)++].nblocks;
		}
	z->given_blocks += err ? 0 : nblocks;
	if (err == -ENOSPC && m->above->collection_hopes(m)) {
		/* Whole zones are dead already, or will be: soon they are free. */
		if (!m->above->collection_busy(m))
			meta__ckpt_want(m);
		err = -EAGAIN;
	}
	meta__supply_turn(m);
	return err;
}

int meta__moved_alloc(struct meta *m, uint32_t nblocks, struct meta_run *runs, uint32_t runs_max,
		      uint32_t *nruns)
{
	struct meta__supply *s = &m->zones->moved;

	ASSERT(nblocks > 0);
	ASSERT(runs_max > 0);
	*nruns = 0;
	if (m->failed)
		return -EROFS;
	if (s->room >= nblocks) {
		m->zones->claim -= min_u64(m->zones->claim, nblocks);
		ASSERT(runs_in(m, s, nblocks) <= runs_max);
		for (s->want = 0; nblocks; nblocks -= runs[(*nruns)++].nblocks)
			runs[*nruns] = take_run(m, s, nblocks);
		return 0;
	}
	s->want = nblocks;
	meta__supply_turn(m);
	return s->opening || meta__zones_for_moved(m) ? -EAGAIN : -ENOSPC;
}

uint64_t meta__moved_room(const struct meta *m)
{
	const struct meta__supply *s = &m->zones->moved;
	const uint64_t zones = (uint64_t)s->opening + meta__zones_for_moved(m);

	ASSERT(s->open == META__ZONE_NONE || s->room > 0); /* (1) */
	return s->room + zones * (m->zones->geo.zone_end - 1);
}
