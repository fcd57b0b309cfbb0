/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Counts the zones that must stay free, and the room for files.
 *
 *   all zones   | log | pages | reserve | spare | data: live blocks, and room for files |
 *
 *  (1) Data must not use a reserve of free zones: 3 % of the store, but at least the rest of the
 *      log's limit, one generation of dirty pages (a checkpoint writes them to new addresses before
 *      the old ones die), and three zones for collection to move pages and data into.  New names
 *      must not use one of the three.  Moved data may use all three but no other part of the
 *      reserve.  Pages, log and deletion may take the last zone.
 *  (2) Free space is what data can have before -ENOSPC: all zones but the reserve, the log and the
 *      zones for pages, less the live blocks.  Dead blocks count as free, although they may have to
 *      be collected first.  Two zones that are nearly full cannot be used, and neither can the
 *      space by which the index grows with new files.  statfs adds the room in half-empty leaves
 *      (meta_leaf_room.c), which small files can use and blocks cannot [test_meta_statfs].
 *  (3) Files never fill the spare zones, conf.spare_percent of all.  These need not be empty: dead
 *      blocks occupy them, so that a zone that must be collected has fewer live blocks (for the
 *      effect see bench/RESULTS.md, "Files that come and go").  The limit counts blocks of files,
 *      not zones.  Pages and moved data ignore it
 *      [test_meta_statfs:files_never_fill_the_spare_zones_and_what_is_dead_does].
 *  (4) In a store of several copies all of this counts groups, not zones: meta_pair.c (6).
 *  (5) Files leave room for the rebuild of conf.spare_drives drives, the largest: live data fits
 *      on the others, and collection has room there.  It need not be empty, as in (3).  A drive
 *      that is lost or drained uses the room, so one less is kept until that drive is gone.  New
 *      files and names get -ENOSPC before it is used; pages, moved data and deletion ignore it
 *      (meta_spare.c) [test_meta_spare].
 *  (6) While the store converts to two copies or three, files take no more than it will hold then:
 *      blocks that lack a copy find room for it [test_meta_protect_full, test_meta_protect_three].
 *  (7) While a drive is rebuilt or drained statfs counts the room that is kept for the next loss as
 *      used already: so what it promises can be written at whatever moment that ends
 *      [test_meta_rebuild_room].
 */
#include "meta/engine/meta_domain.h"
#include "meta/engine/meta_ops.h"
#include "meta/engine/meta_fold.h"

#include <errno.h>

uint64_t meta__pages_ahead(const struct meta__zones *z)
{
	return z->page[0].room + z->page[1].room;
}

uint64_t meta__ahead_max(const struct meta *m)
{
	const struct meta__geo *g = &m->zones->geo;

	ASSERT(g->zones_serving > 0);
	return (uint64_t)g->zones_serving * g->zone_blocks / m->copies / 64;
}

/* Returns the groups that the log may take, and those that it has: (4). */
static uint32_t log_groups_max(const struct meta *m)
{
	return meta__groups_of(m, m->zones->geo.log_zones_max * meta__log_copies_now(m));
}

static uint32_t log_groups(const struct meta *m)
{
	DASSERT(meta__groups_of(m, 2) == (meta__in_pairs(m) ? 1u : 2u)); /* (4) */
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
	DASSERT(meta__zone_reserve(m, true) > meta__zone_reserve(m, false)); /* (1) */
	return meta__zone_reserve(m, true) + 2;
}

bool meta__zone_short(const struct meta *m)
{
	return meta__groups_free(m) < meta__zones_kept(m);
}

uint32_t meta__zones_for_moved(const struct meta *m)
{
	const uint32_t room = meta__fold_width(m) ? meta__folder_room(m) : 0;
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

uint32_t meta__zones_for_data(const struct meta *m)
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

/* (3), (5), (6): is the number of blocks that files may have bounded? */
static bool is_bounded(const struct meta *m)
{
	return m->conf.spare_percent || m->conf.spare_drives || m->converts;
}

/* (6): zones that stand ready for new data are no place for second copies. */
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

bool meta__files_fit(const struct meta *m, uint32_t nblocks)
{
	const struct meta__zones *z = m->zones;

	ASSERT(nblocks > 0);
	return likely(!is_bounded(m)) ||
	       z->live_blocks + z->promised + nblocks <= places_for_data(m); /* (3) */
}

uint64_t meta__wider_short(const struct meta *m, uint32_t copies)
{
	const struct meta__zones *z = m->zones;
	const struct meta__geo *g = &z->geo;
	const uint64_t all = meta__wider_total(m, copies), a_zone = g->zone_end - 1;
	const uint64_t dirty = min_u64(z->dirty_pages_max, 2 * z->live_pages + 16);
	const uint64_t pages = max_u64(dirty, z->page[0].want_min + z->page[1].want_min);
	const uint64_t ahead = meta__ahead_max(m) * m->copies / copies;
	const uint64_t log = g->log_zones_max; /* its copies are a group */
	uint64_t need = meta__spare_of(all, meta__wider_kept(m, copies)) + g->root_zones;

	ASSERT(z->counted && m->copies < copies);
	need += max_u64(4 + log, div_up(all * 3, 100) + 1) + zones_ahead(m, ahead);
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
	return meta__orphans_waiting(m) ? META__NEEDS_ROOM : -ENOSPC; /* (5): the index has grown */
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
	meta__geo_of(&geo, &m->boot->super); /* the log will be bound by that: meta_drain.c (7) */
	if (packed)
		need += min_u32(log_groups_max(m), meta__groups_of(m, 2 * geo.log_zones_max)) +
			div_up(z->live_pages, z->geo.zone_pages) +
			meta__fold_groups_now(m, div_up(z->live_blocks, a_zone));
	else
		need += max_u32(log_groups_max(m), log_groups(m)) + (uint64_t)z->page_zones +
			z->data_zones - z->folded + meta__fold_groups_taken(m);
	return need > zones ? (need - zones) * a_zone : 0;
}

/* (2) */
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
	out->converts = m->converts > 0;
	out->sure_copies = m->converts ? m->converts : m->copies;
	out->near_blocks = z->nears * a_zone;
	out->domains = meta__domains_count(m);
	out->domains_few = m->copies > 1 && m->domains_few;
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
	m->zones->promises = true; /* (7) */
	count_space(m, out);
	m->zones->promises = false;
}
