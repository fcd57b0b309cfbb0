/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The second copies of an unmounted store of two copies (FORMAT.md 2.6).
 *
 *   header of zone 3: twin 8, pair 41       header of zone 8: twin of 3, pair 41
 *
 * A page or a block is read where its address says; if it is not there, or is not what the index
 * says of it, it is read from the twin, and counted.
 *
 *  (1) Both headers of a pair name each other and the same number.  If one of them cannot be read,
 *      the other one counts; of several twins that name a first zone the one with the highest
 *      number [test_meta_raw_pair:twin_of_an_earlier_life_is_not_taken].
 *  (2) A drive that is LOST may have missed any change: its headers, roots and log are not read.
 *      Its pages and blocks count only where the index names their generation or checksum
 *      [test_meta_raw_pair:lost_drive_is_not_believed].
 */
#include "meta/offline/meta_raw_internal.h"

#include <errno.h>
#include <stdlib.h>

/* ---- which zones are pairs --------------------------------------------------------------- */

static uint32_t drive_of(const struct meta_raw *r, uint32_t zone)
{
	ASSERT(zone < r->geo.nzones);
	return META_BADDR_DRIVE(meta__geo_zone_baddr(&r->geo, zone));
}

bool meta__raw_believes(const struct meta_raw *r, uint32_t drive)
{
	ASSERT(drive < META_DRIVES_MAX);
	return r->drive_at[drive] != META__RAW_NOWHERE && r->geo.state[drive] != DRIVE_LOST;
}

static bool is_first(const struct meta__zone_seen *z, uint32_t twin)
{
	ASSERT(z->zone != twin);
	return (z->kind == META__ZONE_PAGE || z->kind == META__ZONE_DATA) && z->twin == twin + 1;
}

/* (1) */
static bool is_pair(const struct meta_raw *r, uint32_t first, uint32_t twin)
{
	const struct meta__zone_seen *a = meta__raw_zone(r, first), *b = meta__raw_zone(r, twin);

	if (drive_of(r, first) == drive_of(r, twin) || meta__geo_zone_roots(&r->geo, first) ||
	    meta__geo_zone_roots(&r->geo, twin))
		return false;
	if (a && !is_first(a, twin))
		return false;
	if (b && (b->kind != META__ZONE_TWIN || b->twin != first + 1))
		return false;
	ASSERT(a || b);
	return !a || !b || a->pair == b->pair;
}

static void unpair(struct meta_raw *r, uint32_t zone)
{
	struct meta__raw_zone *z = &r->zone[zone];

	if (!z->pair)
		return;
	ASSERT(r->zone[z->other].other == zone); /* (1) */
	ASSERT(r->zone[z->other].pair == z->pair);
	r->zone[z->other].pair = 0;
	z->pair = 0;
}

static void take_pair(struct meta_raw *r, uint32_t first, uint32_t twin, uint64_t pair)
{
	struct meta__raw_zone *a = &r->zone[first], *b = &r->zone[twin];

	ASSERT(first != twin);
	ASSERT(drive_of(r, first) != drive_of(r, twin)); /* (1) */
	if (pair <= a->pair || pair <= b->pair)
		return;
	unpair(r, first);
	unpair(r, twin);
	a->pair = b->pair = pair;
	a->other = twin;
	b->other = first;
	a->is_twin = false;
	b->is_twin = true;
}

void meta__raw_pairs_find(struct meta_raw *r)
{
	ASSERT(r->zone);
	for (uint32_t i = 0; r->m.copies > 1 && i < r->geo.nzones; i++) {
		const struct meta__zone_seen *z = meta__raw_zone(r, i);
		const uint32_t to = z ? z->twin - 1 : 0;

		if (!z || z->twin == 0 || to >= r->geo.nzones || to == i)
			continue;
		if (z->kind == META__ZONE_TWIN && is_pair(r, to, i))
			take_pair(r, to, i, z->pair);
		else if (is_first(z, to) && is_pair(r, i, to))
			take_pair(r, i, to, z->pair);
	}
}

uint32_t meta__raw_twin_zone(const struct meta_raw *r, uint32_t zone)
{
	ASSERT(zone < r->geo.nzones);
	return r->zone[zone].pair && !r->zone[zone].is_twin ? r->zone[zone].other : META__ZONE_NONE;
}

uint64_t meta__raw_twin(const struct meta_raw *r, uint64_t baddr)
{
	const uint32_t zone = meta__geo_zone_of(&r->geo, baddr);
	const uint32_t twin = zone == META__ZONE_NONE ? zone : meta__raw_twin_zone(r, zone);
	uint64_t at;

	if (twin == META__ZONE_NONE)
		return 0;
	at = baddr - meta__geo_zone_baddr(&r->geo, zone);
	ASSERT(at < r->geo.zone_blocks);
	return at == 0 || at >= r->geo.zone_end ? 0 : meta__geo_zone_baddr(&r->geo, twin) + at;
}

/* ---- pages ------------------------------------------------------------------------------- */

const char *meta__raw_page_at(struct meta_raw *r, uint64_t at, const struct meta__page_want *want,
			      void *page)
{
	ASSERT(page);
	ASSERT(META_BADDR_BLOCK(at) > 0);
	if (r->drive_at[META_BADDR_DRIVE(at) % META_DRIVES_MAX] == META__RAW_NOWHERE)
		return "its drive is missing";
	if (meta__raw_read(r, at, META_PAGE_BLOCKS, page))
		return "it cannot be read";
	return meta__page_check(page, want);
}

/* Each page is counted once, however often it is read. */
static void page_taken(struct meta_raw *r, const struct meta__page_want *want, uint64_t from,
		       const char *why)
{
	const uint32_t zone = meta__geo_zone_of(&r->geo, want->baddr);
	const uint64_t at = want->baddr - meta__geo_zone_baddr(&r->geo, zone) - 1;
	const uint64_t bit = (uint64_t)zone * r->geo.zone_pages + at / META_PAGE_BLOCKS;
	struct meta_raw_taken *t = &r->taken[META_BADDR_DRIVE(from)];

	ASSERT(zone < r->geo.nzones);
	ASSERT(why);
	if (!r->page_taken)
		r->page_taken = calloc((uint64_t)r->geo.nzones * r->geo.zone_pages / 8 + 1, 1);
	if (!r->page_taken || r->page_taken[bit / 8] >> bit % 8 & 1)
		return;
	r->page_taken[bit / 8] |= (uint8_t)(1u << bit % 8);
	if (t->pages++ == 0)
		(void)snprintf(t->first_page, sizeof(t->first_page), "drive %u block %llu: %s",
			       META_BADDR_DRIVE(want->baddr),
			       (unsigned long long)META_BADDR_BLOCK(want->baddr), why);
}

const char *meta__raw_page_either(struct meta_raw *r, const struct meta__page_want *want,
				  void *page)
{
	const char *why = meta__raw_page_at(r, want->baddr, want, page);
	const uint64_t twin = why ? meta__raw_twin(r, want->baddr) : 0;

	ASSERT(meta__geo_is_page(&r->geo, want->baddr));
	ASSERT(twin != want->baddr);
	if (!twin || meta__raw_page_at(r, twin, want, page))
		return why;
	page_taken(r, want, twin, why);
	return NULL;
}

/* ---- blocks of files --------------------------------------------------------------------- */

const char *meta__raw_block_at(struct meta_raw *r, uint64_t at, uint32_t crc, void *block)
{
	ASSERT(block);
	if (r->drive_at[META_BADDR_DRIVE(at) % META_DRIVES_MAX] == META__RAW_NOWHERE)
		return "its drive is missing";
	if (meta__raw_read(r, at, 1, block))
		return "cannot be read";
	return crc32c(block, META__BLOCK) == crc ? NULL : "does not match its checksum";
}

const char *meta__raw_block_either(struct meta_raw *r, uint64_t baddr, uint32_t crc, void *block)
{
	const char *why = meta__raw_block_at(r, baddr, crc, block);
	const uint64_t twin = why ? meta__raw_twin(r, baddr) : 0;
	const uint32_t zone = meta__geo_zone_of(&r->geo, baddr);
	const uint32_t parity = !why || twin || zone == META__ZONE_NONE ? META__ZONE_NONE
									: meta__raw_parity(r, zone);
	struct meta_raw_taken *t = &r->taken[META_BADDR_DRIVE(twin)];

	ASSERT(META_BADDR_DRIVE(twin) < META_DRIVES_MAX);
	ASSERT(twin != baddr);
	if (parity != META__ZONE_NONE && meta__raw_fold_block(r, baddr, crc, block))
		return why;
	if (parity != META__ZONE_NONE)
		t = &r->taken[META_BADDR_DRIVE(meta__geo_zone_baddr(&r->geo, parity))];
	else if (!twin || meta__raw_block_at(r, twin, crc, block))
		return why;
	if (t->blocks++ == 0)
		(void)snprintf(t->first_block, sizeof(t->first_block), "drive %u block %llu: %s",
			       META_BADDR_DRIVE(baddr), (unsigned long long)META_BADDR_BLOCK(baddr),
			       why);
	return NULL;
}

bool meta_raw_taken(const struct meta_raw *r, uint32_t drive, struct meta_raw_taken *out)
{
	ASSERT(r->geo.ndrives <= META_DRIVES_MAX);
	if (drive >= r->geo.ndrives)
		return false;
	ASSERT(drive < META_DRIVES_MAX);
	*out = r->taken[drive];
	return true;
}

uint32_t meta_raw_copies(const struct meta_raw *r)
{
	ASSERT(r->m.copies <= 2);
	return r->problem[0] ? 0 : max_u32(r->m.copies, 1);
}

/* ---- zones of which nothing is known ----------------------------------------------------- */

static bool may_be_log(const struct meta_raw *r, uint32_t zone)
{
	ASSERT(zone < r->geo.nzones);
	return meta__geo_zone_there(&r->geo, zone) && !meta__raw_zone(r, zone) &&
	       !r->zone[zone].pair && !meta__geo_zone_roots(&r->geo, zone);
}

/* The log takes zones on two drives while there are free ones (meta_heads.c (5)): if an eighth of
 * the zones of the other drives is free, a drive of which no header can be read has no log that the
 * others lack. */
static bool log_is_elsewhere(const struct meta_raw *r, uint32_t drive)
{
	uint64_t free_zones = 0, zones = 0;

	ASSERT(drive < r->geo.ndrives);
	for (uint32_t i = 0; i < r->geo.nzones; i++) {
		const struct meta__zone_seen *z = meta__raw_zone(r, i);

		if (drive_of(r, i) == drive || !meta__geo_zone_there(&r->geo, i))
			continue;
		zones++;
		free_zones += z && z->kind == META__ZONE_FREE;
	}
	ASSERT(free_zones <= zones);
	return free_zones > zones / 8;
}

uint64_t meta__raw_zones_unknown(const struct meta_raw *r)
{
	uint64_t count = 0, drives = 0;

	ASSERT(r->geo.ndrives <= META_DRIVES_MAX);
	for (uint32_t i = 0; i < r->geo.nzones; i++) {
		if (!may_be_log(r, i))
			continue;
		count++;
		drives |= 1ull << drive_of(r, i);
	}
	if (r->m.copies > 1 && drives && !(drives & (drives - 1)) &&
	    log_is_elsewhere(r, (uint32_t)__builtin_ctzll(drives)))
		return 0;
	return count;
}
