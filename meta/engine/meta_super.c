/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The codecs of superblock, root and zone header; meta_geo.c says where these are.
 *
 *  (1) The parsers here are the only places that decode these bytes.  They trust nothing
 *      and assert nothing: fuzzed by test/fuzz/fuzz_meta_super.c [fuzz_meta_super].
 *  (2) Copies of a root's slot, or of a zone's header, are never written at the same time, and a
 *      damaged copy is written first.  So a crash, whatever it leaves of a write in flight, leaves
 *      one of them whole.
 *  (3) The copies of the root area are next to one another in memory.  In a superblock the third
 *      one has fields of its own, which are 0 in a store with less than three copies: such a
 *      superblock is byte for byte what it was before there were three
 *      [test_meta_super:superblock_of_three_copies_says_where_the_third_one_of_the_roots_is].
 *  (4) A store that got its third copy later has that copy of the roots in zones, and no place at
 *      the front of a drive for it
 *      [test_meta_super:superblock_of_a_store_that_got_a_third_copy_has_its_roots_in_zones].
 */
#include "meta/engine/meta_pair.h"
#include "meta/meta_set.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define COUNTER_MAX (1ull << 62)
#define MOUNTS_MAX  (1ull << 31)

#define META__FEATURES                                                                             \
	(META__FEATURE_DRIVES | META__FEATURE_DRAIN | META__FEATURE_SPREAD |                       \
	 META__FEATURE_COPIES | META__FEATURE_CONVERTS | META__FEATURE_FOLDS |                     \
	 META__FEATURE_LOST | META__FEATURE_THREE | META__FEATURE_DOUBLE | META__FEATURE_GREW)

/* ---- superblock ------------------------------------------------------------ */

uint64_t meta__super_baddr(const struct meta *m, uint32_t drive, uint32_t copy)
{
	ASSERT(drive < META_DRIVES_MAX);
	ASSERT(copy < 2);
	ASSERT(m->conf.drive[drive].nblocks > 0);
	return META_BADDR(drive, copy ? m->conf.drive[drive].nblocks - 1 : 0);
}

uint32_t meta__super_sure(const struct meta__super *s)
{
	return s->converts ? s->converts : s->copies;
}

void meta__super_number(struct meta__super *s, uint64_t set)
{
	struct meta__geo geo;

	ASSERT(set > s->set); /* meta_drives.c (7) */
	meta__geo_of(&geo, s);
	memcpy(s->root_at, geo.root_area, sizeof(s->root_at)); /* meta_drives.c (5) */
	s->set = set;
}

bool meta__super_counts(const struct meta__super *s, const struct meta__super *other)
{
	return s->set > other->set ||
	       (s->set == other->set && s->drive_state[other->drive] == DRIVE_LOST);
}

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

/* (4) Format gives each copy of the roots a place of its own; set 0 does not say it. */
bool meta__super_grew(const struct meta__super *s)
{
	return s->copies > 2 && s->set && s->root_at[2] == 0;
}

/* (3) */
static void roots_build(const struct meta__super *s, struct meta_super_disk *d)
{
	ASSERT(s->copies > 2 || s->root_at[2] == 0);
	for (uint32_t copy = 0; copy < 2; copy++)
		d->root_at[copy] = le64_of(s->root_at[copy]);
	d->root_at_third = le64_of(s->root_at[2]);
	for (uint32_t i = 0; i < META__ROOT_ZONES_MAX; i++) {
		for (uint32_t copy = 0; copy < 2; copy++)
			d->root_zone[copy][i] = le32_of(s->root_zone[copy][i]);
		d->root_zone_third[i] = le32_of(s->root_zone[2][i]);
	}
}

/* (3): it does not matter what a store of fewer copies has in the fields of the third one. */
static void roots_parse(const struct meta_super_disk *d, struct meta__super *s)
{
	const bool third = s->copies > 2;

	for (uint32_t copy = 0; copy < 2; copy++)
		s->root_at[copy] = le64_get(d->root_at[copy]);
	s->root_at[2] = third ? le64_get(d->root_at_third) : 0;
	for (uint32_t i = 0; i < META__ROOT_ZONES_MAX; i++) {
		for (uint32_t copy = 0; copy < 2; copy++)
			s->root_zone[copy][i] = le32_get(d->root_zone[copy][i]);
		s->root_zone[2][i] = third ? le32_get(d->root_zone_third[i]) : 0;
	}
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
				    (lost_count(s) > 1 ? META__FEATURE_LOST : 0) |
				    (s->copies > 2 ? META__FEATURE_THREE : 0) |
				    (s->copies > 2 && s->fold ? META__FEATURE_DOUBLE : 0) |
				    (meta__super_grew(s) ? META__FEATURE_GREW : 0)),
		.set = le64_of(s->set),
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
	if (s->copies > 2)
		memcpy(d.incompat_name[7], "three copies", 12);
	if (s->copies > 2 && s->fold)
		memcpy(d.incompat_name[8], "double parity", 13);
	if (meta__super_grew(s))
		memcpy(d.incompat_name[9], "got third copies", 16);
	memcpy(d.drive_state, s->drive_state, sizeof(d.drive_state));
	roots_build(s, &d);
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
	const uint64_t area = 2 * (uint64_t)s->nshards;
	const uint32_t copies = max_u32(2, s->copies) - meta__super_grew(s);

	if (meta__super_grew(s) && !s->root_zone[2][0])
		return false; /* (4) */
	for (uint32_t copy = 0; copy < copies; copy++) {
		uint64_t at = META_BADDR_BLOCK(s->root_at[copy]);
		uint32_t d = META_BADDR_DRIVE(s->root_at[copy]);

		if (d >= s->ndrives || at < 1 || at + area > s->drive_nblocks[d] - 1)
			return false;
		for (uint32_t i = 0; i < copy; i++)
			if (s->root_at[i] + area > s->root_at[copy] &&
			    s->root_at[copy] + area > s->root_at[i])
				return false;
	}
	return true;
}

/* How often a copy of the root area has this zone (+ 1). */
static uint32_t root_zone_count(const struct meta__geo *g, uint32_t zone)
{
	uint32_t count = 0;

	for (uint32_t copy = 0; copy < g->root_copies; copy++)
		for (uint32_t i = 0; i < META__ROOT_ZONES_MAX; i++)
			count += g->root_zone[copy][i] == zone;
	return count;
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
		if (zone && (zone > g->nzones || !meta__geo_zone_there(g, zone - 1) ||
			     root_zone_count(g, zone) != 1))
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
		any |= s->root_zone[0][i] || s->root_zone[1][i] || s->root_zone[2][i];
	if (!any)
		return true;
	if (lost_count(s) && meta__super_sure(s) < 2)
		return false;
	if (!s->drained || !s->set || !there)
		return false;
	meta__geo_of(&g, s);
	for (uint32_t copy = 0; copy < g.root_copies; copy++)
		if (!root_zones_are_sane(&g, copy))
			return false;
	return true;
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
	if (s->copies < 1 || s->copies > META__ROOT_COPIES)
		return false;
	if (s->copies > 2 && s->copies > s->ndrives)
		return false;
	if (s->converts && (s->converts >= s->copies || s->fold))
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
	out->converts = out->copies > 1 ? le32_get(d.converts) : 0;
	out->fold = le64_get(d.incompat) & META__FEATURE_FOLDS ? le32_get(d.fold) : 0;
	memcpy(out->drive_state, d.drive_state, sizeof(out->drive_state));
	roots_parse(&d, out);
	(void)snprintf(why, 128, "superblock makes no sense");
	if (!(le64_get(d.incompat) & META__FEATURE_THREE) != (out->copies < 3))
		return -EUCLEAN;
	if (!(le64_get(d.incompat) & META__FEATURE_DOUBLE) != (out->copies < 3 || !out->fold))
		return -EUCLEAN;
	if (!(le64_get(d.incompat) & META__FEATURE_GREW) != !meta__super_grew(out))
		return -EUCLEAN;
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
				  .copies = s.copies,
				  .sure = meta__super_sure(&s) };
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

uint32_t meta__root_build(struct meta *m, uint32_t shard, const struct meta__root *r, void *block,
			  uint64_t copy_baddr_out[META__ROOT_COPIES])
{
	const uint32_t copies = m->zones->geo.root_copies;
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
	for (uint32_t i = 0; i < copies; i++)
		copy_baddr_out[i] =
			meta__geo_root(&m->zones->geo, (first + i) % copies, slot, shard); /* (2) */
	ASSERT(copies > 1 && copy_baddr_out[0] != copy_baddr_out[1]);                      /* (2) */
	return copies;
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
		.role = le32_of(z->role),
	};

	ASSERT(z->members <= META_FOLD_MAX);
	ASSERT(z->role == 0 || z->members);
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

/* Can what the header of a zone of parity says be true? */
static bool is_parity(const struct meta__zone_seen *z)
{
	if (z->members == 0)
		return true;
	if (z->members > META_FOLD_MAX || z->members < META__FOLD_MIN ||
	    z->kind != META__ZONE_PARITY || z->pair == 0)
		return false;
	return z->role <= 1 && z->twin2 == 0 && z->twin != z->zone + 1 &&
	       (z->role == 0 || z->twin > 0); /* Q is never alone */
}

bool meta__parity_agrees(const struct meta__zone_seen *a, const struct meta__zone_seen *b)
{
	return a->kind == META__ZONE_PARITY && b->kind == META__ZONE_PARITY && a->members > 0 &&
	       a->twin == b->zone + 1 && b->twin == a->zone + 1 && a->role != b->role &&
	       a->pair == b->pair && a->members == b->members &&
	       memcmp(a->member, b->member, sizeof(a->member)) == 0 &&
	       memcmp(a->member_incarnation, b->member_incarnation,
		      sizeof(a->member_incarnation)) == 0;
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
	out->role = out->members ? le32_get(d.role) : 0;
	if (!is_parity(out))
		return -EUCLEAN;
	for (uint32_t i = 0; i < out->members; i++) {
		out->member[i] = le32_get(d.member[i].zone);
		out->member_incarnation[i] = le64_get(d.member[i].incarnation);
	}
	if (out->pair > COUNTER_MAX || !is_group(out))
		return -EUCLEAN;
	return 0;
}
