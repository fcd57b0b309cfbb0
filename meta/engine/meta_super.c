/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The layout of the drives, and the codecs of superblock, root and zone header.
 *
 *   drive 0   [super A][root copy 0][zone][zone] ...            [zone][super B]
 *   drive 1   [super A][root copy 1][zone][zone] ...            [zone][super B]
 *   drive 2   [super A][zone][zone] ...                         [zone][super B]
 *
 *   one drive [super A][root copy 0][zone] ... [zone][root copy 1][super B]
 *
 *  (1) The parsers here are the only places that decode these bytes.  They trust nothing
 *      and assert nothing: fuzzed by test/fuzz/fuzz_meta_super.c [fuzz_meta_super].
 *  (2) Both copies of a root's slot, or of a zone's header, are never written at the same time, and
 *      a damaged copy is written first.  So a crash, whatever it
 *      leaves of a write in flight, leaves one of them whole.
 */
#include "meta/meta_store.h"
#include "meta/meta_set.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define COUNTER_MAX (1ull << 62)
#define MOUNTS_MAX  (1ull << 31)

#define META__FEATURES                                                                             \
	(META__FEATURE_DRIVES | META__FEATURE_DRAIN | META__FEATURE_SPREAD |                       \
	 META__FEATURE_COPIES | META__FEATURE_CONVERTS | META__FEATURE_FOLDS | META__FEATURE_LOST)

/* ---- geometry -------------------------------------------------------------- */

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
	for (uint32_t copy = 0; copy < 2; copy++) {
		uint64_t at = META_BADDR_BLOCK(g->root_area[copy]);

		if (META_BADDR_DRIVE(g->root_area[copy]) != d)
			continue;
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

/* ndrives, nshards, zone_blocks and nblocks are there.  root_at NULL: as format places it. */
static void geo_build(struct meta__geo *g, const uint64_t *root_at)
{
	uint64_t area = 2 * (uint64_t)g->nshards, capacity = 0;

	ASSERT(g->ndrives >= 1);
	ASSERT(g->ndrives <= META_DRIVES_MAX);
	ASSERT(g->zone_blocks > META_PAGE_BLOCKS + 2);
	ASSERT(is_pow2(g->zone_blocks));
	g->zone_end = g->zone_blocks - 1;
	g->zone_pages = (g->zone_end - 1) / META_PAGE_BLOCKS;
	g->root_zones = (uint32_t)div_up(2 * (uint64_t)g->nshards, g->zone_end - 1);
	g->root_area[0] = root_at ? root_at[0] : META_BADDR(0, 1);
	g->root_area[1] =
		g->ndrives == 1 ? META_BADDR(0, g->nblocks[0] - 1 - area) : META_BADDR(1, 1);
	if (root_at)
		g->root_area[1] = root_at[1];
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
	*g = (struct meta__geo){ .ndrives = conf->ndrives, .nshards = nshards };
	g->zone_blocks = zone_blocks ? zone_blocks : meta__geo_zone_blocks(conf);
	for (uint32_t d = 0; d < conf->ndrives; d++)
		g->nblocks[d] = conf->drive[d].nblocks;
	geo_build(g, NULL);
}

void meta__geo_of(struct meta__geo *g, const struct meta__super *s)
{
	*g = (struct meta__geo){ .ndrives = s->ndrives,
				 .nshards = s->nshards,
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

	ASSERT(copy < 2 && slot < 2);
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
	for (uint32_t i = 0; i < META__ROOT_ZONES_MAX; i++)
		if (g->root_zone[0][i] == zone + 1 || g->root_zone[1][i] == zone + 1)
			return true;
	return false;
}

uint32_t meta__geo_root_drive(const struct meta__geo *g, uint32_t copy, uint32_t piece)
{
	ASSERT(copy < 2);
	ASSERT(piece < META__ROOT_ZONES_MAX);
	if (g->root_zone[copy][0] == 0)
		return META_BADDR_DRIVE(g->root_area[copy]);
	return drive_of_zone(g, g->root_zone[copy][piece] - 1);
}

bool meta__geo_roots_lost(const struct meta__geo *g)
{
	ASSERT(g->root_zones > 0);
	for (uint32_t i = 0; i < min_u32(g->root_zones, META__ROOT_ZONES_MAX); i++)
		if (g->state[meta__geo_root_drive(g, 0, i)] == DRIVE_LOST &&
		    g->state[meta__geo_root_drive(g, 1, i)] == DRIVE_LOST)
			return true;
	return false;
}

bool meta__geo_roots_on(const struct meta__geo *g, uint32_t copy, uint32_t drive)
{
	ASSERT(copy < 2);
	if (g->root_zone[copy][0] == 0)
		return META_BADDR_DRIVE(g->root_area[copy]) == drive;
	ASSERT(g->root_zones <= META__ROOT_ZONES_MAX); /* root_zones_are_sane() */
	for (uint32_t i = 0; i < g->root_zones; i++)
		if (g->root_zone[copy][i] && drive_of_zone(g, g->root_zone[copy][i] - 1) == drive)
			return true;
	return false;
}

/* ---- superblock ------------------------------------------------------------ */

/* Sums the block with the four bytes at crc_at taken as zeros. */
static uint32_t crc_without(const void *block, uint32_t size_bytes, uint32_t crc_at)
{
	static const uint8_t zeros[4];
	const uint8_t *p = block;
	uint32_t crc = crc32c(p, crc_at);

	ASSERT(crc_at + 4 <= size_bytes);
	crc = crc32c_more(crc, zeros, 4);
	return crc32c_more(crc, p + crc_at + 4, size_bytes - crc_at - 4);
}

static uint32_t lost_count(const struct meta__super *s)
{
	uint32_t lost = 0;

	for (uint32_t d = 0; d < META_DRIVES_MAX; d++)
		lost += s->drive_state[d] == DRIVE_LOST;
	return lost;
}

void meta__super_build(const struct meta__super *s, void *block)
{
	struct meta_super_disk d = {
		.magic = le64_of(META__SUPER_MAGIC),
		.version = le32_of(META_FORMAT_VERSION),
		.drive = le32_of(s->drive),
		.ndrives = le32_of(s->ndrives),
		.nshards = le32_of(s->nshards),
		.zone_blocks = le32_of(s->zone_blocks),
		.nzones = le64_of(s->nzones),
		.secret = le64_of(s->secret),
		.format_ns = le64_of((uint64_t)s->format_ns),
		.incompat = le64_of((s->set ? META__FEATURE_DRIVES : 0) |
				    (s->drained ? META__FEATURE_DRAIN : 0) |
				    (s->spread ? META__FEATURE_SPREAD : 0) |
				    (s->copies > 1 ? META__FEATURE_COPIES : 0) |
				    (s->converts ? META__FEATURE_CONVERTS : 0) |
				    (s->fold ? META__FEATURE_FOLDS : 0) |
				    (lost_count(s) > 1 ? META__FEATURE_LOST : 0)),
		.set = le64_of(s->set),
		.root_at = { le64_of(s->root_at[0]), le64_of(s->root_at[1]) },
	};

	ASSERT(s->ndrives >= 1 && s->ndrives <= META_DRIVES_MAX);
	memcpy(d.uuid, s->uuid, sizeof(d.uuid));
	if (s->set)
		memcpy(d.incompat_name[0], "added drives", 12);
	if (s->drained)
		memcpy(d.incompat_name[1], "drained drives", 14);
	if (s->spread)
		memcpy(d.incompat_name[2], "spread dirs", 11);
	if (s->copies > 1) {
		memcpy(d.incompat_name[3], "two copies", 10);
		d.copies = le32_of(s->copies);
		d.converts = le32_of(s->converts);
	}
	if (s->converts)
		memcpy(d.incompat_name[4], "converting", 10);
	if (s->fold) {
		memcpy(d.incompat_name[5], "parity", 6);
		d.fold = le32_of(s->fold);
	}
	if (lost_count(s) > 1)
		memcpy(d.incompat_name[6], "lost drives", 11);
	memcpy(d.drive_state, s->drive_state, sizeof(d.drive_state));
	for (uint32_t i = 0; i < META__ROOT_ZONES_MAX; i++)
		for (uint32_t copy = 0; copy < 2; copy++)
			d.root_zone[copy][i] = le32_of(s->root_zone[copy][i]);
	for (uint32_t i = 0; i < s->ndrives; i++) {
		d.drive_nblocks[i] = le64_of(s->drive_nblocks[i]);
		d.drive_tag[i] = le64_of(s->drive_tag[i]);
	}
	memcpy(d.drive_name, s->drive_name, sizeof(d.drive_name));
	memset(block, 0, META__BLOCK);
	memcpy(block, &d, sizeof(d));
	d.crc = le32_of(crc_without(block, META__BLOCK, offsetof(struct meta_super_disk, crc)));
	memcpy(block, &d, sizeof(d));
}

/* Names an unknown feature: by the name in the block, else by its bit. */
static void name_feature(const struct meta_super_disk *d, uint64_t unknown, char why[128])
{
	uint32_t bit = (uint32_t)__builtin_ctzll(unknown);
	char name[17] = "";

	if (bit < META__FEATURE_NAMES)
		memcpy(name, d->incompat_name[bit], 16);
	for (char *c = name; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	(void)snprintf(why, 128, "needs feature %u '%s', which this program does not know", bit,
		       name);
}

/* Each copy of the root area is on a drive, between its superblocks, and they do not overlap. */
static bool roots_are_sane(const struct meta__super *s)
{
	uint64_t area = 2 * (uint64_t)s->nshards;

	for (uint32_t copy = 0; copy < 2; copy++) {
		uint64_t at = META_BADDR_BLOCK(s->root_at[copy]);
		uint32_t d = META_BADDR_DRIVE(s->root_at[copy]);

		if (d >= s->ndrives || at < 1 || at + area > s->drive_nblocks[d] - 1)
			return false;
	}
	return s->root_at[0] + area <= s->root_at[1] || s->root_at[1] + area <= s->root_at[0];
}

/* A copy of the roots in zones must have all zones that it needs, each once, on present drives. */
static bool root_zones_are_sane(const struct meta__geo *g, uint32_t copy)
{
	const uint32_t n = g->root_zone[copy][0] ? g->root_zones : 0;

	if (n > META__ROOT_ZONES_MAX)
		return false;
	if (n == 0 && g->state[META_BADDR_DRIVE(g->root_area[copy])] == DRIVE_GONE)
		return false;
	for (uint32_t i = 0; i < META__ROOT_ZONES_MAX; i++) {
		const uint32_t zone = g->root_zone[copy][i];

		if ((i < n) != (zone != 0))
			return false;
		if (zone && (zone > g->nzones || !meta__geo_zone_there(g, zone - 1)))
			return false;
		for (uint32_t k = 0; zone && k < META__ROOT_ZONES_MAX; k++)
			if ((k != i && g->root_zone[copy][k] == zone) ||
			    g->root_zone[copy ^ 1][k] == zone)
				return false;
	}
	return true;
}

/* Checks the fields that exist since drives can be drained. */
static bool drain_is_sane(const struct meta__super *s)
{
	struct meta__geo g;
	bool any = false, there = false;

	for (uint32_t d = 0; d < META_DRIVES_MAX; d++) {
		if (s->drive_state[d] > DRIVE_LOST || (s->drive_state[d] && d >= s->ndrives))
			return false;
		any |= s->drive_state[d] != DRIVE_SERVES;
		there |= d < s->ndrives && s->drive_state[d] == DRIVE_SERVES;
	}
	for (uint32_t i = 0; i < META__ROOT_ZONES_MAX; i++)
		any |= s->root_zone[0][i] || s->root_zone[1][i];
	if (!any)
		return true;
	if (lost_count(s) && (s->converts || s->copies < 2))
		return false;
	if (!s->drained || !s->set || !there)
		return false;
	meta__geo_of(&g, s);
	return root_zones_are_sane(&g, 0) && root_zones_are_sane(&g, 1);
}

/* A zone's number has 32 bits, of which META__ZONE_NONE is invalid: the zones must not exceed that,
 * since memory is allocated by their sum. */
static bool zones_have_numbers(const struct meta__super *s)
{
	uint64_t zones = 0;

	for (uint32_t d = 0; d < s->ndrives; d++)
		zones += s->drive_nblocks[d] / s->zone_blocks;
	return zones < META__ZONE_NONE;
}

static bool super_is_sane(const struct meta__super *s)
{
	if (s->ndrives < 1 || s->ndrives > META_DRIVES_MAX || s->drive >= s->ndrives)
		return false;
	if (!is_pow2(s->nshards) || s->nshards > META_SHARDS_MAX)
		return false;
	if (!is_pow2(s->zone_blocks) || s->zone_blocks < META__ZONE_BYTES_MIN / META__BLOCK ||
	    s->zone_blocks > META__ZONE_BYTES_MAX / META__BLOCK)
		return false;
	for (uint32_t i = 0; i < s->ndrives; i++)
		if (s->drive_nblocks[i] < META_DRIVE_BYTES_MIN / META__BLOCK ||
		    s->drive_nblocks[i] >= (uint64_t)1 << 44)
			return false;
	if (!zones_have_numbers(s))
		return false;
	if (s->copies < 1 || s->copies > META_COPIES_MAX)
		return false;
	if (s->fold && (s->copies < 2 || s->fold < META__FOLD_MIN || s->fold > META_FOLD_MAX))
		return false;
	if (s->set && (s->set >= COUNTER_MAX || !roots_are_sane(s)))
		return false;
	return drain_is_sane(s);
}

/* It goes into lines for people. */
static void name_take(char *out, const uint8_t *name)
{
	memcpy(out, name, META_DRIVE_NAME - 1);
	out[META_DRIVE_NAME - 1] = 0;
	for (char *c = out; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
}

int meta__super_parse(const void *block, struct meta__super *out, char why[128])
{
	struct meta_super_disk d;

	memcpy(&d, block, sizeof(d));
	(void)snprintf(why, 128, "no superblock");
	if (le64_get(d.magic) != META__SUPER_MAGIC)
		return -ENODATA;
	(void)snprintf(why, 128, "superblock damaged");
	if (le32_get(d.crc) !=
	    crc_without(block, META__BLOCK, offsetof(struct meta_super_disk, crc)))
		return -ENODATA;
	if (le32_get(d.version) != META_FORMAT_VERSION) {
		(void)snprintf(why, 128, "has format version %u, this program knows %u: %s",
			       le32_get(d.version), META_FORMAT_VERSION,
			       le32_get(d.version) < META_FORMAT_VERSION
				       ? "copy what is on it with the older program, and format it"
				       : "a newer program is needed");
		return -EPROTONOSUPPORT;
	}
	if (le64_get(d.incompat) & ~META__FEATURES) {
		name_feature(&d, le64_get(d.incompat) & ~META__FEATURES, why);
		return -EPROTONOSUPPORT;
	}
	*out = (struct meta__super){
		.drive = le32_get(d.drive),
		.ndrives = le32_get(d.ndrives),
		.nshards = le32_get(d.nshards),
		.zone_blocks = le32_get(d.zone_blocks),
		.nzones = le64_get(d.nzones),
		.secret = le64_get(d.secret),
		.format_ns = (int64_t)le64_get(d.format_ns),
		.set = le64_get(d.set),
		.root_at = { le64_get(d.root_at[0]), le64_get(d.root_at[1]) },
	};
	memcpy(out->uuid, d.uuid, sizeof(out->uuid));
	for (uint32_t i = 0; i < META_DRIVES_MAX; i++) {
		out->drive_nblocks[i] = le64_get(d.drive_nblocks[i]);
		out->drive_tag[i] = le64_get(d.drive_tag[i]);
		name_take(out->drive_name[i], d.drive_name[i]);
	}
	out->drained = le64_get(d.incompat) & META__FEATURE_DRAIN;
	out->spread = le64_get(d.incompat) & META__FEATURE_SPREAD;
	out->copies = le64_get(d.incompat) & META__FEATURE_COPIES ? le32_get(d.copies) : 1;
	out->converts = out->copies > 1 && le32_get(d.converts) != 0;
	out->fold = le64_get(d.incompat) & META__FEATURE_FOLDS ? le32_get(d.fold) : 0;
	memcpy(out->drive_state, d.drive_state, sizeof(out->drive_state));
	for (uint32_t i = 0; i < META__ROOT_ZONES_MAX; i++)
		for (uint32_t copy = 0; copy < 2; copy++)
			out->root_zone[copy][i] = le32_get(d.root_zone[copy][i]);
	(void)snprintf(why, 128, "superblock makes no sense");
	if (le64_get(d.incompat) & META__FEATURE_CONVERTS && !out->converts)
		return -EUCLEAN; /* the field without the bit: an older program wrote it */
	if (!(le64_get(d.incompat) & META__FEATURE_LOST) != (lost_count(out) < 2))
		return -EUCLEAN;
	if (!super_is_sane(out))
		return -EUCLEAN;
	why[0] = '\0';
	return 0;
}

bool meta_super_recognize(const void *block, uint8_t uuid_out[16])
{
	struct meta_super_disk d;

	memcpy(&d, block, sizeof(d));
	if (le64_get(d.magic) != META__SUPER_MAGIC)
		return false;
	memcpy(uuid_out, d.uuid, sizeof(d.uuid)); /* damaged or not: it was a store's drive */
	return true;
}

bool meta_is_of_store(const void *block)
{
	le32 magic, crc;

	memcpy(&magic, block, sizeof(magic));
	memcpy(&crc, (const uint8_t *)block + sizeof(magic), sizeof(crc));
	static_assert(offsetof(struct meta_root_disk, crc) == sizeof(magic), "both");
	static_assert(offsetof(struct meta_zone_disk, crc) == sizeof(magic), "both");
	return (le32_get(magic) == META__ROOT_MAGIC || le32_get(magic) == META__ZONE_MAGIC) &&
	       le32_get(crc) == crc_without(block, META__BLOCK, sizeof(magic));
}

bool meta_super_place(const void *block, uint8_t uuid_out[16], uint32_t *drive, bool *gone)
{
	struct meta__super s;
	char why[128];

	if (meta__super_parse(block, &s, why) != 0)
		return false;
	memcpy(uuid_out, s.uuid, sizeof(s.uuid));
	*drive = s.drive;
	*gone = s.drive_state[s.drive] == DRIVE_GONE || s.drive_state[s.drive] == DRIVE_LOST;
	return true;
}

bool meta_super_set(const void *block, struct meta_set *out)
{
	struct meta__super s;
	char why[128];

	if (meta__super_parse(block, &s, why) != 0)
		return false;
	*out = (struct meta_set){ .number = s.set,
				  .ndrives = s.ndrives,
				  .copies = s.converts ? 1 : s.copies };
	for (uint32_t d = 0; d < s.ndrives; d++) {
		out->gone[d] = s.drive_state[d] == DRIVE_GONE;
		out->lost[d] = s.drive_state[d] == DRIVE_LOST;
		out->nblocks[d] = s.drive_nblocks[d];
	}
	memcpy(out->name, s.drive_name, sizeof(out->name));
	return true;
}

void meta_offer_build(const struct meta_offer *offer, void *block)
{
	struct meta_offer_disk d = {
		.magic = le64_of(META__OFFER_MAGIC),
		.version = le32_of(META_FORMAT_VERSION),
		.tag = le64_of(offer->tag),
		.replaces = le32_of(offer->replaces ? offer->drive + 1 : 0),
	};

	ASSERT(!offer->replaces || offer->drive < META_DRIVES_MAX);
	memset(block, 0, META__BLOCK);
	if (offer->replaces)
		memcpy(d.uuid, offer->uuid, sizeof(d.uuid));
	memcpy(block, &d, sizeof(d));
	d.crc = le32_of(crc_without(block, META__BLOCK, offsetof(struct meta_offer_disk, crc)));
	memcpy(block, &d, sizeof(d));
}

bool meta_offer_parse(const void *block, struct meta_offer *out)
{
	struct meta_offer_disk d;

	memcpy(&d, block, sizeof(d));
	*out = (struct meta_offer){ .tag = le64_get(d.tag) };
	out->replaces = le32_get(d.replaces) > 0 && le32_get(d.replaces) <= META_DRIVES_MAX;
	out->drive = out->replaces ? le32_get(d.replaces) - 1 : 0;
	memcpy(out->uuid, d.uuid, sizeof(out->uuid));
	return le64_get(d.magic) == META__OFFER_MAGIC &&
	       le32_get(d.version) == META_FORMAT_VERSION &&
	       le32_get(d.crc) ==
		       crc_without(block, META__BLOCK, offsetof(struct meta_offer_disk, crc));
}

void meta_store_uuid(const struct meta *m, uint8_t out[16])
{
	ASSERT(m->mounted);
	memcpy(out, m->uuid, sizeof(m->uuid));
}

/* ---- root ------------------------------------------------------------------ */

void meta__root_build(struct meta *m, uint32_t shard, const struct meta__root *r, void *block,
		      uint64_t copy_baddr_out[2])
{
	const struct meta__shard *s = &m->shard[shard];
	uint32_t slot = s->root_slot ^ 1, first = s->copy_first[slot];
	struct meta_root_disk d = {
		.magic = le32_of(META__ROOT_MAGIC),
		.shard = le32_of(shard),
		.height = le32_of(r->height),
		.version = le64_of(s->root_version + 1),
		.mount = le64_of(m->epoch),
		.log_epoch = le64_of(meta__log_epoch(m)),
		.log_base = le64_of(meta__log_base(m)),
		.log_seq = le64_of(r->log_seq),
		.seq = le64_of(r->seq),
		.root_baddr = le64_of(r->root_baddr),
		.root_gen = le64_of(r->root_gen),
		.uniq_next = le64_of(r->uniq_next),
		.dir_next = le64_of(r->dir_next),
		.files = le64_of(r->files),
		.dirs = le64_of(r->dirs),
	};

	ASSERT(shard < m->nshards);
	ASSERT((r->height == 0) == (r->root_baddr == 0));
	memcpy(d.uuid, m->uuid, sizeof(d.uuid));
	for (uint32_t i = 0; i < META_DRIVES_MAX; i++)
		d.mark[i] = le64_of(m->zones->marks.of[i]);
	memset(block, 0, META__BLOCK);
	memcpy(block, &d, sizeof(d));
	d.crc = le32_of(crc_without(block, META__BLOCK, offsetof(struct meta_root_disk, crc)));
	memcpy(block, &d, sizeof(d));
	copy_baddr_out[0] = meta__geo_root(&m->zones->geo, first, slot, shard); /* (2) */
	copy_baddr_out[1] = meta__geo_root(&m->zones->geo, first ^ 1, slot, shard);
	ASSERT(copy_baddr_out[0] != copy_baddr_out[1]); /* (2) */
}

void meta__root_durable(struct meta *m, uint32_t shard, const struct meta__root *r)
{
	struct meta__shard *s = &m->shard[shard];

	ASSERT(s->root_slot < 2);
	ASSERT(r->seq >= s->durable_seq);
	s->root_slot ^= 1;
	s->root_version++;
	s->durable_root_baddr = r->root_baddr;
	s->durable_seq = r->seq;
}

/* Checks counters against values that no store reaches in its life, so that later code need not. */
static bool root_is_sane(const struct meta__root_seen *r)
{
	const uint64_t counters[] = { r->version,  r->log_base,       r->root.log_seq,
				      r->root.seq, r->root.uniq_next, r->root.dir_next };

	for (size_t i = 0; i < ARRAY_LEN(counters); i++)
		if (counters[i] > COUNTER_MAX)
			return false;
	return r->root.height <= META_PAGE_LEVELS_MAX && r->mount < MOUNTS_MAX &&
	       r->log_epoch <= r->mount && r->log_base <= r->root.log_seq;
}

int meta__root_parse(const void *block, const uint8_t uuid[16], struct meta__root_seen *out)
{
	struct meta_root_disk d;

	memcpy(&d, block, sizeof(d));
	if (le32_get(d.magic) != META__ROOT_MAGIC || memcmp(d.uuid, uuid, sizeof(d.uuid)) != 0)
		return -EUCLEAN;
	if (le32_get(d.crc) !=
	    crc_without(block, META__BLOCK, offsetof(struct meta_root_disk, crc)))
		return -EUCLEAN;
	*out = (struct meta__root_seen){
		.shard = le32_get(d.shard),
		.version = le64_get(d.version),
		.mount = le64_get(d.mount),
		.log_epoch = le64_get(d.log_epoch),
		.log_base = le64_get(d.log_base),
		.root = {
			.root_baddr = le64_get(d.root_baddr),
			.root_gen = le64_get(d.root_gen),
			.seq = le64_get(d.seq),
			.log_seq = le64_get(d.log_seq),
			.uniq_next = le64_get(d.uniq_next),
			.dir_next = le64_get(d.dir_next),
			.files = le64_get(d.files),
			.dirs = le64_get(d.dirs),
			.height = le32_get(d.height),
		},
	};
	for (uint32_t i = 0; i < META_DRIVES_MAX; i++)
		out->mark[i] = le64_get(d.mark[i]);
	if (!root_is_sane(out))
		return -EUCLEAN;
	return (out->root.height == 0) == (out->root.root_baddr == 0) ? 0 : -EUCLEAN;
}

bool meta__root_belongs(const struct meta__root_seen *r, uint32_t shard, uint32_t slot)
{
	return r->shard == shard && r->version % 2 != slot;
}

/* ---- zone header ----------------------------------------------------------- */

void meta__zone_build(const struct meta__zone_seen *z, const uint8_t uuid[16], void *block)
{
	struct meta_zone_disk d = {
		.magic = le32_of(META__ZONE_MAGIC),
		.zone = le32_of(z->zone),
		.kind = le32_of(z->kind),
		.incarnation = le64_of(z->incarnation),
		.epoch = le64_of(z->epoch),
		.order = le64_of(z->order),
		.oldest_order = le64_of(z->oldest_order),
		.mark = le64_of(z->mark),
		.twin = le32_of(z->twin),
		.twin2 = le32_of(z->twin2),
		.pair = le64_of(z->pair),
		.members = le32_of(z->members),
	};

	ASSERT(z->members <= META_FOLD_MAX);
	for (uint32_t i = 0; i < z->members; i++) {
		d.member[i].zone = le32_of(z->member[i]);
		d.member[i].incarnation = le64_of(z->member_incarnation[i]);
	}
	memcpy(d.uuid, uuid, sizeof(d.uuid));
	memset(block, 0, META__BLOCK);
	memcpy(block, &d, sizeof(d));
	d.crc = le32_of(crc_without(block, META__BLOCK, offsetof(struct meta_zone_disk, crc)));
	memcpy(block, &d, sizeof(d));
}

/* Can the header be true?  That of the first zone names its twins in order. */
static bool is_group(const struct meta__zone_seen *z)
{
	if (z->kind == META__ZONE_TWIN && z->twin == 0)
		return false;
	if (z->twin2 == 0)
		return true;
	return z->twin > 0 && z->twin != z->twin2 &&
	       (z->kind == META__ZONE_TWIN || z->twin < z->twin2);
}

int meta__zone_parse(const void *block, const uint8_t uuid[16], uint32_t zone,
		     struct meta__zone_seen *out)
{
	struct meta_zone_disk d;

	memcpy(&d, block, sizeof(d));
	if (le32_get(d.magic) != META__ZONE_MAGIC || memcmp(d.uuid, uuid, sizeof(d.uuid)) != 0)
		return -EUCLEAN;
	if (le32_get(d.crc) !=
	    crc_without(block, META__BLOCK, offsetof(struct meta_zone_disk, crc)))
		return -EUCLEAN;
	if (le32_get(d.zone) != zone || le32_get(d.kind) > META__ZONE_PARITY)
		return -EUCLEAN;
	*out = (struct meta__zone_seen){
		.zone = zone,
		.kind = (enum meta__zone_kind)le32_get(d.kind),
		.incarnation = le64_get(d.incarnation),
		.epoch = le64_get(d.epoch),
		.order = le64_get(d.order),
		.oldest_order = le64_get(d.oldest_order),
		.mark = le64_get(d.mark),
		.twin = le32_get(d.twin),
		.twin2 = le32_get(d.twin2),
		.pair = le64_get(d.pair),
		.members = le32_get(d.members),
	};
	if (out->members && (out->members > META_FOLD_MAX || out->members < META__FOLD_MIN ||
			     out->kind != META__ZONE_PARITY || out->pair == 0))
		return -EUCLEAN;
	for (uint32_t i = 0; i < out->members; i++) {
		out->member[i] = le32_get(d.member[i].zone);
		out->member_incarnation[i] = le64_get(d.member[i].incarnation);
	}
	if (out->pair > COUNTER_MAX || !is_group(out))
		return -EUCLEAN;
	return 0;
}
