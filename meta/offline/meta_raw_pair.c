/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The other copies of an unmounted store of several copies (FORMAT.md 2.6).
 *
 *   header of zone 3: twin 8, pair 41       header of zone 8: twin of 3, pair 41
 *
 * A page or a block is read where its address says; if it is not there, or is not what the index
 * says of it, it is read from the next zone of the group, and counted.
 *
 *  (1) All headers of a group say the same: its zones and its number.  If some of them cannot be
 *      read, the others count; of several groups that claim a zone the one with the highest number
 *      [test_meta_raw_pair:twin_of_an_earlier_life_is_not_taken].
 *  (2) A drive that is LOST may have missed any change: its headers, roots and log are not read.
 *      Its pages and blocks count only where the index names their generation or checksum
 *      [test_meta_raw_pair:lost_drive_is_not_believed].
 */
#include "meta/offline/meta_raw_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- which zones are groups -------------------------------------------------------------- */

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

/* The group of a zone, as its header says. */
struct claim {
	uint32_t zone[META__RAW_COPIES]; /* the first one, and its twins, which ascend; else 0 */
	uint32_t count;                  /* 0: it is in none */
	uint64_t number;
};

static struct claim claim_of(const struct meta_raw *r, const struct meta__zone_seen *z)
{
	const uint32_t one = z->twin - 1, two = z->twin2 - 1;
	const bool three = z->twin2 != 0;
	struct claim c = { .number = z->pair };

	ASSERT(z->zone < r->geo.nzones);
	ASSERT(z->twin || !three); /* meta__zone_parse() */
	if (z->twin == 0 || z->pair == 0 || one >= r->geo.nzones || one == z->zone ||
	    (three && (two >= r->geo.nzones || two == z->zone || two == one)))
		return c;
	if (z->kind == META__ZONE_TWIN) {
		c.zone[0] = one;
		c.zone[1] = three ? min_u32(z->zone, two) : z->zone;
		c.zone[2] = three ? max_u32(z->zone, two) : 0;
	} else if (z->kind == META__ZONE_PAGE || z->kind == META__ZONE_DATA) {
		c.zone[0] = z->zone;
		c.zone[1] = three ? min_u32(one, two) : one;
		c.zone[2] = three ? max_u32(one, two) : 0;
	} else {
		return c;
	}
	c.count = three ? 3 : 2;
	return c;
}

/* Does the header of this zone, if it can be read, say the same? */
static bool agrees(const struct meta_raw *r, const struct claim *c, uint32_t zone)
{
	const struct meta__zone_seen *z = meta__raw_zone(r, zone);
	struct claim other;

	ASSERT(c->count > 1);
	if (!z)
		return true;
	other = claim_of(r, z);
	return other.number == c->number && other.count == c->count &&
	       memcmp(other.zone, c->zone, sizeof(other.zone)) == 0;
}

/* (1) */
static bool is_group(const struct meta_raw *r, const struct claim *c)
{
	uint64_t drives = 0;

	ASSERT(c->count <= META__RAW_COPIES);
	for (uint32_t i = 0; i < c->count; i++) {
		const uint32_t d = drive_of(r, c->zone[i]);

		if (drives >> d & 1 || meta__geo_zone_roots(&r->geo, c->zone[i]) ||
		    !agrees(r, c, c->zone[i]))
			return false;
		drives |= 1ull << d;
	}
	return c->count > 1;
}

void meta__raw_group_end(struct meta_raw *r, uint32_t zone)
{
	const uint64_t number = r->zone[zone].pair;
	uint32_t at = number ? r->zone[zone].first : META__ZONE_NONE;

	ASSERT(zone < r->geo.nzones);
	while (at != META__ZONE_NONE) {
		struct meta__raw_zone *z = &r->zone[at];

		ASSERT(z->pair == number); /* (1) */
		at = z->next;
		z->pair = 0;
		z->next = META__ZONE_NONE;
	}
}

static void take(struct meta_raw *r, const struct claim *c)
{
	ASSERT(c->count > 1 && c->count <= META__RAW_COPIES);
	ASSERT(c->number > 0);
	for (uint32_t i = 0; i < c->count; i++)
		if (c->number <= r->zone[c->zone[i]].pair)
			return;
	for (uint32_t i = 0; i < c->count; i++)
		meta__raw_group_end(r, c->zone[i]);
	for (uint32_t i = 0; i < c->count; i++) {
		struct meta__raw_zone *z = &r->zone[c->zone[i]];

		z->pair = c->number;
		z->first = c->zone[0];
		z->next = i + 1 < c->count ? c->zone[i + 1] : META__ZONE_NONE;
		z->is_twin = i > 0;
	}
}

void meta__raw_pairs_find(struct meta_raw *r)
{
	ASSERT(r->zone && r->m.copies <= META__RAW_COPIES);
	for (uint32_t i = 0; i < r->geo.nzones; i++)
		r->zone[i].next = META__ZONE_NONE;
	for (uint32_t i = 0; r->m.copies > 1 && i < r->geo.nzones; i++) {
		const struct meta__zone_seen *z = meta__raw_zone(r, i);
		struct claim c;

		if (!z)
			continue;
		c = claim_of(r, z);
		if (c.count > 1 && is_group(r, &c))
			take(r, &c);
	}
}

uint32_t meta__raw_twin_zone(const struct meta_raw *r, uint32_t zone)
{
	ASSERT(zone < r->geo.nzones);
	return r->zone[zone].pair ? r->zone[zone].next : META__ZONE_NONE;
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
	uint64_t at = why ? meta__raw_twin(r, want->baddr) : 0;

	ASSERT(meta__geo_is_page(&r->geo, want->baddr));
	ASSERT(at != want->baddr);
	while (at && meta__raw_page_at(r, at, want, page))
		at = meta__raw_twin(r, at);
	if (!at)
		return why;
	page_taken(r, want, at, why);
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
	const uint32_t zone = meta__geo_zone_of(&r->geo, baddr);
	const uint32_t parity =
		!why || zone == META__ZONE_NONE ? META__ZONE_NONE : meta__raw_parity(r, zone);
	uint64_t at = why ? meta__raw_twin(r, baddr) : 0;
	struct meta_raw_taken *t;

	ASSERT(at != baddr && (!at || parity == META__ZONE_NONE));
	while (at && meta__raw_block_at(r, at, crc, block))
		at = meta__raw_twin(r, at);
	if (parity != META__ZONE_NONE && !meta__raw_fold_block(r, baddr, crc, block))
		at = meta__geo_zone_baddr(&r->geo, parity);
	if (!at)
		return why;
	t = &r->taken[META_BADDR_DRIVE(at)];
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
	ASSERT(r->m.copies <= META__RAW_COPIES);
	return r->problem[0] ? 0 : max_u32(r->m.copies, 1);
}

/* ---- zones of which nothing is known ----------------------------------------------------- */

static bool may_be_log(const struct meta_raw *r, uint32_t zone)
{
	ASSERT(zone < r->geo.nzones);
	return meta__geo_zone_there(&r->geo, zone) && !meta__raw_zone(r, zone) &&
	       !r->zone[zone].pair && !meta__geo_zone_roots(&r->geo, zone);
}

/* The log takes zones on as many drives as there are copies, while there are free ones
 * (meta_heads.c (5)).  So fewer drives of which no header can be read have no log that the others
 * lack, if an eighth of the zones of the others is free. */
static bool log_is_elsewhere(const struct meta_raw *r, uint64_t drives)
{
	uint64_t free_zones = 0, zones = 0;

	ASSERT(drives);
	if ((uint32_t)__builtin_popcountll(drives) >= r->m.copies)
		return false;
	for (uint32_t i = 0; i < r->geo.nzones; i++) {
		const struct meta__zone_seen *z = meta__raw_zone(r, i);

		if (drives >> drive_of(r, i) & 1 || !meta__geo_zone_there(&r->geo, i))
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
	return drives && log_is_elsewhere(r, drives) ? 0 : count;
}
