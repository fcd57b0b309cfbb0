/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Allocation of blocks: for new data on each drive, and for pages.
 *
 *        free zones --open ahead--> [ready] [ready] --> [open: |####....|] --> closed
 *
 * Each stream of addresses (a supply) keeps some room in zones whose headers are durable, so that
 * an allocation only counts.  A caller that needs more than there is adds to `want`, and retries.
 *
 *  (1) supply.room is the room in its open zone and its ready zones.
 *  (2) Data must not use a reserve of free zones: 3 % of the store, but at least the rest of the
 *      log's limit, one generation of dirty pages (a checkpoint writes them to new addresses before
 *      the old ones die), and three zones for collection to move pages and data into.  New names
 *      must not use one of the three.  Moved data may use all three but no other part of the
 *      reserve.  Pages, log and deletion may take the last zone.
 *  (3) A drive's data is taken from that drive only.  `spread` selects the drive, each in
 *      proportion to its free places: so drives of different size, or new ones, are full at the
 *      same time.
 *  (4) Deletion leaves some pages to collection while that can still win zones: in a store full
 *      of half-dead zones deletes alone would use up all free pages, and win none
 *      [test_meta_collect:store_full_of_names_deletes_and_takes_as_much_again].
 *  (5) Free space is what data can have before -ENOSPC: all zones but the reserve, the log and the
 *      zones for pages, less the live blocks.  Dead blocks count as free, although they may have to
 *      be collected first.  Two zones that are nearly full cannot be used, and neither can the
 *      space by which the index grows with new files.  statfs adds the room in half-empty leaves
 *      (meta_leaf_room.c), which small files can use and blocks cannot [test_meta_statfs].
 *  (6) Leaves have their own zones, and so have the pages above them: each checkpoint rewrites
 *      most of the latter, so that their zones soon die whole, and would leave holes among leaves.
 *      Only when no zone is free that either could open do they share an open zone; a zone with
 *      both is valid, but expensive to collect.
 *  (8) In a store of two copies all of this counts groups, not zones: meta_pair.c (6).
 *  (7) Files never fill the spare zones, conf.spare_percent of all.  These need not be empty: dead
 *      blocks occupy them, so that a zone that must be collected has fewer live blocks (for the
 *      effect see bench/RESULTS.md, "Files that come and go").  The limit counts blocks of files,
 *      not zones.  Pages and moved data ignore it
 *      [test_meta_statfs:files_never_fill_the_spare_zones_and_what_is_dead_does].
 *  (9) Files leave room for the rebuild of conf.spare_drives drives, the largest: live data fits
 *      on the others, and collection has room there.  It need not be empty, as in (7).  A drive
 *      that is lost or drained uses the room, so one less is kept until that drive is gone.  New
 *      files and names get -ENOSPC before it is used; pages, moved data and deletion ignore it
 *      (meta_spare.c) [test_meta_spare].
 * (10) While the store converts to two copies, files take no more than it will hold then: what is
 *      still on one drive finds room for its second copy [test_meta_protect_full].
 * (11) While blocks leave a drive, or get their second copy, and find no room, new data has no room
 *      ahead: zones that stand ready for it become free, and those that it fills are closed
 *      [test_meta_full_rebuild].
 * (12) While a drive is rebuilt or drained statfs counts the room that is kept for the next loss as
 *      used already: so what it promises can be written at whatever moment that ends
 *      [test_meta_rebuild_room].
 */
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

uint64_t meta__pages_ahead(const struct meta__zones *z)
{
	return z->page[0].room + z->page[1].room;
}

static void supply_make(struct meta__supply *s, uint64_t want)
{
	*s = (struct meta__supply){ .open = META__ZONE_NONE, .want = want, .want_min = want };
	list_init(&s->ready);
}

/* A small part of the drives that serve. */
static uint64_t ahead_max(const struct meta *m)
{
	const struct meta__geo *g = &m->zones->geo;

	ASSERT(g->zones_serving > 0);
	return (uint64_t)g->zones_serving * g->zone_blocks / m->copies / 64;
}

void meta__supply_join(struct meta *m, uint32_t drive)
{
	struct meta__zones *z = m->zones;

	ASSERT(drive < META_DRIVES_MAX);
	supply_make(&z->data[drive], min_u64(DATA_AHEAD_BLOCKS, ahead_max(m)));
}

void meta__supply_init(struct meta *m)
{
	struct meta__zones *z = m->zones;
	const uint64_t ahead = min_u64(PAGE_AHEAD, ahead_max(m));

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
		s->want = s->want_min = min_u64(s->want_min, ahead_max(m));
}

/* ---- how much must be left (2) --------------------------------------------- */

/* Returns the groups that the log may take, and those that it has: (8). */
static uint32_t log_groups_max(const struct meta *m)
{
	const struct meta__geo *g = &m->zones->geo;
	const uint32_t copies = g->drives_serving < META__LOG_COPIES ? 1 : META__LOG_COPIES;

	return meta__groups_of(m, g->log_zones_max * copies);
}

static uint32_t log_groups(const struct meta *m)
{
	return meta__groups_of(m, m->zones->log_count);
}

uint32_t meta__zones_of_reserve(const struct meta *m)
{
	const struct meta__zones *z = m->zones;
	const uint64_t pages = min_u64(z->dirty_pages_max, 2 * z->live_pages + 16);
	const uint64_t ahead = meta__pages_ahead(z);

	DASSERT(z->geo.zone_pages > 0);
	return 1 + (pages > ahead ? (uint32_t)div_up(pages - ahead, z->geo.zone_pages) : 0);
}

static uint32_t at_least(const struct meta *m, uint32_t zones)
{
	ASSERT(zones > 0);
	return max_u32(zones, (uint32_t)div_up((uint64_t)meta__groups_total(m) * 3, 100));
}

uint32_t meta__zone_reserve(const struct meta *m, bool data)
{
	const uint32_t log_max = log_groups_max(m), log = log_groups(m);
	uint32_t need = meta__zones_of_reserve(m);

	if (log < log_max)
		need += log_max - log;
	if (!data)
		return need + 1;
	return m->zones->drain_zones +
	       at_least(m, meta__spare_free(m, need + 3 + meta__fold_room(m)));
}

uint32_t meta__zones_kept(const struct meta *m)
{
	DASSERT(meta__zone_reserve(m, true) > meta__zone_reserve(m, false)); /* (2) */
	return meta__zone_reserve(m, true) + 2;
}

bool meta__zone_short(const struct meta *m)
{
	return meta__groups_free(m) < meta__zones_kept(m);
}

static uint32_t zones_for_moved(const struct meta *m)
{
	const uint32_t room = meta__fold_width(m) ? META__FOLDER_ROOM : 0;
	const uint32_t reserve = meta__zone_reserve(m, false) - 1 + room;
	const uint32_t free = meta__groups_free(m);

	return free > reserve ? free - reserve : 0;
}

/* Returns the zones reserved for data to be moved: new data must not use them. */
static uint32_t zones_claimed(const struct meta *m)
{
	const struct meta__supply *s = &m->zones->moved;
	const uint64_t a_zone = m->zones->geo.zone_end - 1, has = s->room + s->opening * a_zone;

	ASSERT(a_zone > 0);
	return m->zones->claim > has ? (uint32_t)div_up(m->zones->claim - has, a_zone) : 0;
}

static uint32_t zones_for_data(const struct meta *m)
{
	uint32_t reserve = meta__zone_reserve(m, true), free = meta__groups_free(m);

	reserve = max_u32(reserve, meta__zone_reserve(m, false) + zones_claimed(m));
	return free > reserve ? free - reserve : 0;
}

/* Zones of pages, when all that can be has been collected: one in which more than three quarters
 * live is not emptied. */
static uint64_t zones_of_pages(const struct meta__zones *z)
{
	const uint64_t pages = div_up(z->live_pages * 4, 3) + meta__pages_ahead(z);

	return min_u64(z->page_zones, div_up(pages, z->geo.zone_pages));
}

/* (7), (9), (10): is the number of blocks that files may have bounded? */
static bool is_bounded(const struct meta *m)
{
	return m->conf.spare_percent || m->conf.spare_drives || m->converts;
}

/* (10): zones that stand ready for new data are no place for second copies. */
static wk_cold uint64_t zones_ahead(const struct meta *m, uint64_t most)
{
	const struct meta__zones *z = m->zones;
	uint64_t zones = META__LEFT_ZONES + 1; /* one that is half full */

	for (uint32_t d = 0; d < z->geo.ndrives; d++)
		zones += div_up(min_u64(z->data[d].want_min, most), z->geo.zone_end - 1);
	return zones;
}

/* Returns the zones that are not for data. */
static uint64_t zones_for_others(const struct meta *m)
{
	const struct meta__zones *z = m->zones;

	return at_least(m, meta__zone_reserve(m, false) + 2 + meta__fold_room(m)) + log_groups(m) +
	       zones_of_pages(z) + /* data to be moved counts as live already */
	       meta__spare_zones(m) + (unlikely(m->converts) ? zones_ahead(m, UINT64_MAX) : 0);
}

uint64_t meta__data_places(const struct meta *m)
{
	const uint64_t zones = meta__groups_total(m), others = zones_for_others(m);

	return zones > others
		       ? meta__fold_zones_left(m, zones - others) * (m->zones->geo.zone_end - 1)
		       : 0;
}

/* ... less those that a change of the protection will take: meta_protect.c (8). */
static uint64_t places_for_data(const struct meta *m)
{
	const uint64_t places = meta__data_places(m);

	return places - min_u64(places, m->zones->yielded);
}

uint64_t meta__pairs_short(const struct meta *m)
{
	const struct meta__zones *z = m->zones;
	const struct meta__geo *g = &z->geo;
	const uint64_t all = meta__pairs_total(m), a_zone = g->zone_end - 1;
	const uint64_t dirty = min_u64(z->dirty_pages_max, 2 * z->live_pages + 16);
	const uint64_t pages = max_u64(dirty, z->page[0].want_min + z->page[1].want_min);
	const uint64_t log = g->log_zones_max; /* META__LOG_COPIES are a pair */
	uint64_t need = meta__spare_of(all, meta__pairs_kept(m)) + g->root_zones;

	ASSERT(z->counted && m->copies == 1);
	need += max_u64(4 + log, div_up(all * 3, 100) + 1) + zones_ahead(m, ahead_max(m) / 2);
	need += div_up(pages + div_up(z->live_pages * 4, 3), g->zone_pages);
	need += div_up(z->live_blocks, a_zone);
	return need > all ? (need - all) * a_zone : 0;
}

int meta__space_ok(const struct meta *m)
{
	if (meta__groups_free(m) < meta__zone_reserve(m, false))
		return m->above->collection_hopes(m) ? META__NEEDS_ROOM : -ENOSPC;
	if ((m->conf.spare_drives == 0 && likely(!m->converts)) ||
	    (m->zones->live_blocks <= places_for_data(m) &&
	     zones_for_others(m) <= meta__groups_total(m)))
		return 0;
	return meta__orphans_waiting(m) ? META__NEEDS_ROOM : -ENOSPC; /* (9): the index has grown */
}

uint64_t meta__room_short(const struct meta *m, bool packed)
{
	const struct meta__zones *z = m->zones;
	const uint64_t zones = meta__groups_total(m), a_zone = z->geo.zone_end - 1;
	const uint64_t dirty = min_u64(z->dirty_pages_max, 2 * z->live_pages + 16);
	const uint64_t ahead = z->page[0].want_min + z->page[1].want_min;
	uint64_t need = 3 + meta__fold_room(m) + div_up(max_u64(dirty, ahead), z->geo.zone_pages);
	struct meta__geo geo;

	ASSERT(a_zone > 0 && z->geo.zone_pages > 0);
	meta__geo_of(&geo, &m->boot->super); /* the log will be bound by that: meta_drain.c (8) */
	if (packed)
		need += min_u32(log_groups_max(m), meta__groups_of(m, 2 * geo.log_zones_max)) +
			div_up(z->live_pages, z->geo.zone_pages) +
			meta__fold_groups_now(m, div_up(z->live_blocks, a_zone));
	else
		need += max_u32(log_groups_max(m), log_groups(m)) + (uint64_t)z->page_zones +
			z->data_zones - z->folded + div_up(z->folded + z->folds, 2);
	return need > zones ? (need - zones) * a_zone : 0;
}

/* (5) */
static void count_space(const struct meta *m, struct meta_statfs *out)
{
	const struct meta__zones *z = m->zones;
	const uint32_t zones = meta__groups_total(m);
	const uint32_t never =
		max_u32(log_groups_max(m) + 4 + meta__fold_room(m), (zones * 3 + 99) / 100) +
		meta__spare_zones(m);
	const uint64_t a_zone = z->geo.zone_end - 1, places = places_for_data(m);

	out->zones_total = z->geo.zones_serving;
	out->zones_free = z->free_total;
	out->blocks_total = zones > never ? meta__fold_zones_left(m, zones - never) * a_zone : 0;
	out->blocks_free = places > z->live_blocks ? places - z->live_blocks : 0;
	out->blocks_free += meta__leaf_room_blocks(m);
	out->blocks_free = min_u64(out->blocks_free, out->blocks_total);
	out->live_blocks = z->live_blocks;
	out->live_pages = z->live_pages;
	out->log_zones = z->log_count;
	out->kept_zones = min_u32(never, zones);
	out->zone_blocks = z->geo.zone_end;
	out->data_blocks = z->given_blocks;
	out->copies = m->copies;
	out->lone_blocks = z->lone * a_zone;
	out->converts = m->converts;
	out->fold = m->fold;
	out->folded_blocks = z->folded * a_zone;
	out->parity_blocks = z->parity_blocks;
	out->protect_missing_blocks = z->missing_blocks;
	meta__deallocate_stat(m, out);
	ASSERT(out->zones_free <= out->zones_total);
	ASSERT(out->blocks_free <= out->blocks_total);
}

void meta__statfs_space(const struct meta *m, struct meta_statfs *out)
{
	ASSERT(!m->zones->promises);
	m->zones->promises = true; /* (12) */
	count_space(m, out);
	m->zones->promises = false;
}

/* ---- opening ahead --------------------------------------------------------- */

static uint32_t pick_for(const struct meta *m, const struct meta__supply *s)
{
	const struct meta__zones *z = m->zones;
	uint32_t d = (uint32_t)(s - z->data);

	ASSERT(is_of_pages(z, s) || s == &z->moved || d < z->geo.ndrives); /* (3) */
	if (is_of_pages(z, s))
		return meta__zone_pick(m);
	if (s == &z->moved)
		return zones_for_moved(m) ? meta__zone_pick(m) : META__ZONE_NONE;
	if (z->free_count[d] == 0 || !meta__drive_takes(m, d) || zones_for_data(m) == 0)
		return META__ZONE_NONE;
	return meta__zone_next(m, d);
}

static void supply_fill(struct meta *m, struct meta__supply *s)
{
	const struct meta__zones *z = m->zones;
	const enum meta__zone_kind kind = is_of_pages(z, s) ? META__ZONE_PAGE : META__ZONE_DATA;

	while (s->room + (uint64_t)s->opening * units_of(z, s) < s->want) {
		uint32_t zone = pick_for(m, s);
		ASSERT(zone == META__ZONE_NONE || kind == META__ZONE_PAGE ||
		       zones_for_moved(m) > 0); /* (2) */

		if (zone == META__ZONE_NONE || !meta__zone_open(m, zone, kind))
			return;
		meta__zone_at(m, zone)->moved = s == &z->moved;
		meta__zone_at(m, zone)->upper = s == &z->page[1];
		s->opening++;
	}
}

void meta__supply_turn(struct meta *m)
{
	struct meta__zones *z = m->zones;

	if (m->failed || !z->counted)
		return;
	for (uint32_t i = 0; i < META__PAGE_SUPPLIES; i++)
		supply_fill(m, &z->page[i]); /* first: without pages nothing can be deleted */
	supply_fill(m, &z->moved);
	for (uint32_t d = 0; m->mounted && d < z->geo.ndrives; d++)
		supply_fill(m, &z->data[d]);
}

/* It, or another copy of it.  META_DRIVES_MAX: it should have one, and has none. */
static bool is_on(const struct meta *m, uint32_t zone, uint32_t drive)
{
	if (drive == META_DRIVES_MAX)
		return meta__zone_at(m, zone)->lone;
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
	else if (at->lone && meta__in_pairs(m) &&
		 meta__zone_pick_but(m, meta__drives_of(m, zone)) != META__ZONE_NONE)
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

/* (11) */
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

/* Pages that stay for collection (4), as long as it hopes to win some with them. */
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

/* All its own zones give it, or nothing more can be opened and the two share: (6). */
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

	ASSERT(at->kind == META__ZONE_PAGE && (shares || at->upper == (level > 0))); /* (6) */
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
	       soon + min_u32(z->free_count[d], zones_for_data(m)) * a_zone >= nblocks;
}

/* (3): multiples of the golden ratio are evenly distributed in [0, 1); the drives divide that
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
	total += (uint64_t)zones_for_data(m) * (z->geo.zone_end - 1);
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

/* (7).  0; -EAGAIN: files without a name are being freed; -ENOSPC. */
static int leaves_spare(const struct meta *m, uint32_t nblocks)
{
	const struct meta__zones *z = m->zones;

	if (!is_bounded(m) || z->live_blocks + z->promised + nblocks <= places_for_data(m))
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
	return s->opening || zones_for_moved(m) ? -EAGAIN : -ENOSPC;
}

uint64_t meta__moved_room(const struct meta *m)
{
	const struct meta__supply *s = &m->zones->moved;
	const uint64_t zones = (uint64_t)s->opening + zones_for_moved(m);

	ASSERT(s->open == META__ZONE_NONE || s->room > 0); /* (1) */
	return s->room + zones * (m->zones->geo.zone_end - 1);
}
