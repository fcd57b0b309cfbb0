/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The layout of the drives: where superblocks, copies of the root area and zones are.
 *
 *   drive 0   [super A][root copy 0][zone][zone] ...            [zone][super B]
 *   drive 1   [super A][root copy 1][zone][zone] ...            [zone][super B]
 *   drive 2   [super A][zone][zone] ...                         [zone][super B]
 *
 *   three copies of each block
 *   drive 2   [super A][root copy 2][zone][zone] ...            [zone][super B]
 *
 *   one drive [super A][root copy 0][zone] ... [zone][root copy 1][super B]
 *
 *  (1) A store has as many copies of the root area as of each block, and two at least.  One that
 *      got its third copy later (meta_protect.c) has no root copy 2 in front of its zones: that
 *      copy is in zones from the beginning, and stays in some.
 *  (2) Zones follow the root area that format put on their drive, and stay there when the copy has
 *      moved into zones (meta_drain.c)
 *      [test_meta_super:nothing_overlaps_on_one_two_or_three_drives].
 *  (3) Format puts the copies on the first drives, or on the first ones of different domains
 *      (meta_domain.c); where these are not the first drives, the superblock says it, as that of a
 *      store that grew does [test_meta_domain:format_puts_roots_into_different_domains].
 */
#include "meta/meta_store.h"

#include <string.h>

static uint64_t round_down_pow2(uint64_t v)
{
	return v == 0 ? 0 : (uint64_t)1 << (63 - __builtin_clzll(v));
}

uint32_t meta__geo_zone_blocks(const struct meta_conf *conf)
{
	uint64_t largest = 0, bytes;

	ASSERT(conf->ndrives >= 1);
	ASSERT(conf->ndrives <= META_DRIVES_MAX);
	for (uint32_t d = 0; d < conf->ndrives; d++)
		largest = max_u64(largest, conf->drive[d].nblocks);
	bytes = round_down_pow2(largest * META__BLOCK / 1024);
	bytes = max_u64(META__ZONE_BYTES_MIN, min_u64(META__ZONE_BYTES_MAX, bytes));
	return (uint32_t)(bytes / META__BLOCK);
}

/* Places the zones between the other structures of a drive. */
static void place_zones(struct meta__geo *g, uint32_t d)
{
	uint64_t area = 2 * (uint64_t)g->nshards, end = g->nblocks[d] - 1;

	g->zones_at[d] = 1;
	for (uint32_t copy = 0; copy < g->root_copies; copy++) {
		uint64_t at = META_BADDR_BLOCK(g->root_area[copy]);

		if (g->root_area[copy] == 0 || META_BADDR_DRIVE(g->root_area[copy]) != d)
			continue; /* 0: (1) */
		if (at == 1)
			g->zones_at[d] = 1 + area;
		else
			end = min_u64(end, at);
	}
	g->zone_base[d] = g->nzones;
	if (g->nblocks[d] > 2 + 2 * area && end > g->zones_at[d])
		g->zone_count[d] = (uint32_t)((end - g->zones_at[d]) / g->zone_blocks);
	ASSERT(g->zones_at[d] + (uint64_t)g->zone_count[d] * g->zone_blocks <=
	       max_u64(end, g->zones_at[d]));
	g->nzones += g->zone_count[d];
}

/* As format does if drives have no domains. */
static void place_roots(struct meta__geo *g)
{
	const uint64_t area = 2 * (uint64_t)g->nshards;

	ASSERT(g->root_copies <= max_u32(g->ndrives, 2));
	for (uint32_t copy = 0; copy < g->root_copies; copy++)
		g->root_area[copy] = META_BADDR(copy, 1);
	if (g->ndrives == 1)
		g->root_area[1] = META_BADDR(0, g->nblocks[0] - 1 - area);
}

bool meta__geo_roots_first(const struct meta__geo *g)
{
	bool first = true;

	ASSERT(g->ndrives > 0);
	for (uint32_t copy = 0; copy < g->root_copies && g->ndrives > 1; copy++)
		first &= g->root_area[copy] == META_BADDR(copy, 1);
	return first;
}

/* Returns the first drive that is in none of these domains, or at least none of these drives. */
static uint32_t drive_for_roots(const struct meta_conf *conf, uint64_t drives)
{
	uint32_t best = META_DRIVES_MAX;

	ASSERT(drives);
	for (uint32_t d = conf->ndrives; d-- > 0;) {
		bool shares = false;

		for (uint32_t other = 0; other < conf->ndrives; other++)
			shares |= drives >> other & 1 && conf->drive[d].domain &&
				  conf->drive[d].domain == conf->drive[other].domain;
		if (!(drives >> d & 1) && !shares)
			best = d;
	}
	for (uint32_t d = 0; best == META_DRIVES_MAX; d++)
		best = drives >> d & 1 ? best : d;
	return best;
}

/* (3) */
static bool place_roots_apart(struct meta__geo *g, const struct meta_conf *conf,
			      uint64_t at[META__ROOT_COPIES])
{
	uint64_t drives = 1;
	bool differs = false;

	if (conf->ndrives < g->root_copies)
		return false;
	at[0] = META_BADDR(0, 1);
	for (uint32_t copy = 1; copy < g->root_copies; copy++) {
		const uint32_t d = drive_for_roots(conf, drives);

		ASSERT(d < conf->ndrives);
		at[copy] = META_BADDR(d, 1);
		drives |= 1ull << d;
		differs |= d != copy;
	}
	return differs;
}

/* ndrives, nshards, root_copies, zone_blocks and nblocks are there.  root_at NULL: as format places
 * it. */
static void geo_build(struct meta__geo *g, const uint64_t *root_at)
{
	uint64_t capacity = 0;

	ASSERT(g->ndrives >= 1);
	ASSERT(g->ndrives <= META_DRIVES_MAX);
	ASSERT(g->root_copies >= 2 && g->root_copies <= META__ROOT_COPIES); /* (1) */
	ASSERT(g->zone_blocks > META_PAGE_BLOCKS + 2);
	ASSERT(is_pow2(g->zone_blocks));
	g->zone_end = g->zone_blocks - 1;
	g->zone_pages = (g->zone_end - 1) / META_PAGE_BLOCKS;
	g->root_zones = (uint32_t)div_up(2 * (uint64_t)g->nshards, g->zone_end - 1);
	if (root_at)
		memcpy(g->root_area, root_at, g->root_copies * sizeof(g->root_area[0]));
	else
		place_roots(g);
	for (uint32_t d = 0; d < g->ndrives; d++) {
		place_zones(g, d);
		if (g->state[d] == DRIVE_SERVES) {
			g->zones_serving += g->zone_count[d];
			g->drives_serving++;
			capacity += g->nblocks[d] * META__BLOCK;
		}
	}
	g->log_bytes_max =
		min_u64(META__LOG_BYTES_MAX, capacity / (g->drives_serving > 1 ? 16 : 8));
	g->log_zones_max = max_u32(
		4, (uint32_t)div_up(g->log_bytes_max, (uint64_t)g->zone_blocks * META__BLOCK) + 1);
	ASSERT(g->zones_serving <= g->nzones);
	ASSERT(g->drives_serving <= g->ndrives);
}

void meta__geo_make(struct meta__geo *g, const struct meta_conf *conf, uint32_t nshards,
		    uint32_t zone_blocks)
{
	uint64_t at[META__ROOT_COPIES];

	*g = (struct meta__geo){ .ndrives = conf->ndrives, .nshards = nshards };
	g->root_copies = max_u32(2, min_u32(conf->copies, conf->ndrives)); /* (1) */
	g->zone_blocks = zone_blocks ? zone_blocks : meta__geo_zone_blocks(conf);
	for (uint32_t d = 0; d < conf->ndrives; d++)
		g->nblocks[d] = conf->drive[d].nblocks;
	geo_build(g, place_roots_apart(g, conf, at) ? at : NULL);
}

void meta__geo_of(struct meta__geo *g, const struct meta__super *s)
{
	*g = (struct meta__geo){ .ndrives = s->ndrives,
				 .nshards = s->nshards,
				 .root_copies = max_u32(2, s->copies), /* (1) */
				 .zone_blocks = s->zone_blocks };
	memcpy(g->nblocks, s->drive_nblocks, s->ndrives * sizeof(g->nblocks[0]));
	memcpy(g->state, s->drive_state, sizeof(g->state));
	memcpy(g->root_zone, s->root_zone, sizeof(g->root_zone));
	geo_build(g, s->set ? s->root_at : NULL);
}

void meta__geo_away(struct meta__geo *g, uint32_t drive)
{
	ASSERT(drive < g->ndrives);
	if (g->state[drive] == DRIVE_SERVES) {
		g->zones_serving -= g->zone_count[drive];
		g->drives_serving--;
	}
	g->state[drive] = DRIVE_AWAY;
}

uint64_t meta__geo_zone_baddr(const struct meta__geo *g, uint32_t zone)
{
	uint32_t d = g->ndrives - 1;

	ASSERT(zone < g->nzones);
	while (g->zone_base[d] > zone)
		d--;
	return META_BADDR(d, g->zones_at[d] + (uint64_t)(zone - g->zone_base[d]) * g->zone_blocks);
}

uint64_t meta__geo_zone_head(const struct meta__geo *g, uint32_t zone, uint32_t copy)
{
	ASSERT(copy < 2);
	return meta__geo_zone_baddr(g, zone) + (copy ? g->zone_end : 0);
}

uint32_t meta__geo_zone_of(const struct meta__geo *g, uint64_t baddr)
{
	uint32_t d = META_BADDR_DRIVE(baddr);
	uint64_t block = META_BADDR_BLOCK(baddr), zone;

	if (d >= g->ndrives || block < g->zones_at[d] || g->state[d] == DRIVE_GONE)
		return UINT32_MAX;
	zone = (block - g->zones_at[d]) / g->zone_blocks;
	return zone < g->zone_count[d] ? g->zone_base[d] + (uint32_t)zone : UINT32_MAX;
}

bool meta__geo_is_page(const struct meta__geo *g, uint64_t baddr)
{
	uint32_t zone = meta__geo_zone_of(g, baddr);
	uint64_t block;

	if (zone == META__ZONE_NONE)
		return false;
	block = baddr - meta__geo_zone_baddr(g, zone);
	return block >= 1 && (block - 1) % META_PAGE_BLOCKS == 0 &&
	       block + META_PAGE_BLOCKS <= g->zone_end;
}

uint64_t meta__geo_root(const struct meta__geo *g, uint32_t copy, uint32_t slot, uint32_t shard)
{
	const uint32_t a_zone = g->zone_end - 1;
	const uint32_t at = slot * g->nshards + shard;

	ASSERT(copy < g->root_copies && slot < 2);
	ASSERT(shard < g->nshards);
	if (g->root_zone[copy][0] == 0)
		return g->root_area[copy] + at;
	return meta__geo_zone_baddr(g, g->root_zone[copy][at / a_zone] - 1) + 1 + at % a_zone;
}

static uint32_t drive_of_zone(const struct meta__geo *g, uint32_t zone)
{
	return META_BADDR_DRIVE(meta__geo_zone_baddr(g, zone));
}

bool meta__geo_zone_there(const struct meta__geo *g, uint32_t zone)
{
	return g->state[drive_of_zone(g, zone)] != DRIVE_GONE;
}

bool meta__geo_zone_roots(const struct meta__geo *g, uint32_t zone)
{
	for (uint32_t copy = 0; copy < g->root_copies; copy++)
		for (uint32_t i = 0; i < META__ROOT_ZONES_MAX; i++)
			if (g->root_zone[copy][i] == zone + 1)
				return true;
	return false;
}

uint32_t meta__geo_root_drive(const struct meta__geo *g, uint32_t copy, uint32_t piece)
{
	ASSERT(copy < g->root_copies);
	ASSERT(piece < META__ROOT_ZONES_MAX);
	if (g->root_zone[copy][0] == 0)
		return META_BADDR_DRIVE(g->root_area[copy]);
	return drive_of_zone(g, g->root_zone[copy][piece] - 1);
}

uint32_t meta__geo_root_pieces(const struct meta__geo *g)
{
	ASSERT(g->root_zones > 0);
	return min_u32(g->root_zones, META__ROOT_ZONES_MAX);
}

uint32_t meta__geo_roots_left(const struct meta__geo *g)
{
	uint32_t least = g->root_copies;

	for (uint32_t i = 0; i < meta__geo_root_pieces(g); i++) {
		uint32_t left = 0;

		for (uint32_t copy = 0; copy < g->root_copies; copy++)
			left += g->state[meta__geo_root_drive(g, copy, i)] != DRIVE_LOST;
		least = min_u32(least, left);
	}
	ASSERT(least <= META__ROOT_COPIES);
	return least;
}

bool meta__geo_roots_on(const struct meta__geo *g, uint32_t copy, uint32_t drive)
{
	ASSERT(copy < g->root_copies);
	if (g->root_zone[copy][0] == 0)
		return META_BADDR_DRIVE(g->root_area[copy]) == drive;
	ASSERT(g->root_zones <= META__ROOT_ZONES_MAX); /* root_zones_are_sane() */
	for (uint32_t i = 0; i < g->root_zones; i++)
		if (g->root_zone[copy][i] && drive_of_zone(g, g->root_zone[copy][i] - 1) == drive)
			return true;
	return false;
}

bool meta__geo_any_roots_on(const struct meta__geo *g, uint32_t drive)
{
	bool any = false;

	ASSERT(drive < g->ndrives);
	for (uint32_t copy = 0; copy < g->root_copies; copy++)
		any |= meta__geo_roots_on(g, copy, drive);
	return any;
}

bool meta__geo_roots_share(const struct meta__geo *g, uint32_t copy, const uint64_t *mates)
{
	bool share = false;

	ASSERT(copy < g->root_copies);
	for (uint32_t i = 0; i < meta__geo_root_pieces(g); i++)
		for (uint32_t other = 0; other < copy; other++)
			share |= mates[meta__geo_root_drive(g, copy, i)] >>
					 meta__geo_root_drive(g, other, i) &
				 1;
	return share;
}
