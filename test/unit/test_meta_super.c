/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The structures at fixed places: geometry, superblock, root, zone header.  Their first bytes are
 * frozen by golden files. */
#include "test/lib/meta_golden.h"
#include "meta/engine/meta_pair.h"
#include "meta/meta_set.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

static const uint8_t uuid[16] = "a uuid of tests";
static uint8_t block[4096];

static struct meta__super a_super(void)
{
	struct meta__super s = {
		.drive = 1,
		.ndrives = 2,
		.nshards = 64,
		.zone_blocks = 512,
		.nzones = 1023,
		.secret = 0x1122334455667788,
		.format_ns = 1700000000000000000,
		.copies = 1,
		.drive_nblocks = { 524288, 524289 },
	};

	memcpy(s.uuid, uuid, sizeof(uuid));
	return s;
}

static void resum(uint32_t crc_at)
{
	uint32_t crc;

	memset(block + crc_at, 0, 4);
	crc = crc32c(block, sizeof(block));
	memcpy(block + crc_at, &crc, 4);
}

/* ---- geometry ------------------------------------------------------------------ */

static struct meta_conf conf_of(uint32_t ndrives, uint64_t drive_bytes)
{
	struct meta_conf c = { .ndrives = ndrives };

	for (uint32_t d = 0; d < ndrives; d++)
		c.drive[d].nblocks = drive_bytes / 4096;
	return c;
}

Test(meta_super, zones_are_a_thousandth_of_the_drive_within_bounds)
{
	struct meta_conf small = conf_of(1, 2u << 20), usual = conf_of(1, 2ull << 30);
	struct meta_conf large = conf_of(2, 4ull << 40), odd = conf_of(1, 3ull << 30);

	cr_assert_eq(meta__geo_zone_blocks(&small) * 4096, 64u << 10);
	cr_assert_eq(meta__geo_zone_blocks(&usual) * 4096, 2u << 20);
	cr_assert_eq(meta__geo_zone_blocks(&odd) * 4096, 2u << 20);
	cr_assert_eq(meta__geo_zone_blocks(&large) * 4096, 64u << 20);
}

/* Returns how often the block is in use that has most uses. */
static uint32_t uses_of_a_block(uint32_t ndrives, uint32_t copies)
{
	uint32_t most = 0;
	struct meta_conf c = conf_of(ndrives, 4u << 20);
	struct meta__geo g;
	uint8_t used[3][1024] = { { 0 } };

	c.copies = copies;
	meta__geo_make(&g, &c, 4, 0);
	cr_assert_gt(g.nzones, 60 * ndrives);
	for (uint32_t d = 0; d < ndrives; d++)
		used[d][0]++, used[d][1023]++;
	for (uint32_t i = 0; i < g.root_copies * 2 * 4; i++) {
		uint64_t a = meta__geo_root(&g, i / 8, i / 4 % 2, i % 4);

		used[META_BADDR_DRIVE(a)][META_BADDR_BLOCK(a)]++;
	}
	for (uint32_t z = 0; z < g.nzones; z++) {
		uint64_t a = meta__geo_zone_baddr(&g, z);

		cr_assert_eq(meta__geo_zone_of(&g, a), z);
		cr_assert_eq(meta__geo_zone_of(&g, a + g.zone_blocks - 1), z);
		for (uint32_t b = 0; b < g.zone_blocks; b++)
			used[META_BADDR_DRIVE(a)][META_BADDR_BLOCK(a) + b]++;
	}
	for (uint32_t d = 0; d < ndrives; d++)
		for (uint32_t b = 0; b < 1024; b++)
			most = max_u32(most, used[d][b]);
	return most;
}

Test(meta_super, nothing_overlaps_on_one_two_or_three_drives)
{
	for (uint32_t copies = 1; copies <= 3; copies++) {
		for (uint32_t n = copies; n <= 3; n++)
			cr_assert_eq(uses_of_a_block(n, copies), 1, "%u drives, %u copies", n,
				     copies);
	}
}

Test(meta_super, third_copy_of_the_roots_is_there_with_three_copies_of_each_block_only)
{
	for (uint32_t copies = 0; copies <= 3; copies++) {
		struct meta_conf c = conf_of(5, 4u << 20);
		struct meta__geo g;

		c.copies = copies;
		meta__geo_make(&g, &c, 4, 0);
		cr_assert_eq(g.root_copies, copies == 3 ? 3 : 2);
		for (uint32_t copy = 0; copy < g.root_copies; copy++)
			cr_assert_eq(meta__geo_root_drive(&g, copy, 0), copy);
		for (uint32_t d = 0; d < 5; d++) {
			cr_assert_eq(meta__geo_any_roots_on(&g, d), d < g.root_copies);
			cr_assert_eq(g.zones_at[d], d < g.root_copies ? 1 + 2 * 4 : 1);
		}
	}
}

Test(meta_super, roots_that_are_left_are_counted_where_they_are_fewest)
{
	struct meta_conf c = conf_of(5, 4u << 20);
	struct meta__geo g;

	c.copies = 3;
	meta__geo_make(&g, &c, 64, 0);
	cr_assert_eq(meta__geo_root_pieces(&g), 10);
	cr_assert_eq(meta__geo_roots_left(&g), 3);
	g.state[3] = DRIVE_LOST;
	cr_assert_eq(meta__geo_roots_left(&g), 3, "no copy is there");
	g.state[1] = DRIVE_LOST;
	cr_assert_eq(meta__geo_roots_left(&g), 2);
	for (uint32_t i = 0; i < 10; i++)
		g.root_zone[1][i] = g.zone_base[i == 7 ? 3 : 4] + i + 1;
	cr_assert_eq(meta__geo_roots_left(&g), 2, "one piece is on another drive that is lost");
	g.root_zone[1][7] = g.zone_base[4] + 7 + 1;
	cr_assert_eq(meta__geo_roots_left(&g), 3);
	g.state[0] = g.state[2] = g.state[4] = DRIVE_LOST;
	cr_assert_eq(meta__geo_roots_left(&g), 0);
}

Test(meta_super, copies_of_the_roots_that_share_a_drive_are_found_piece_by_piece)
{
	const uint64_t alone[] = { 1, 2, 4, 8, 16 }, mates[] = { 1, 10, 4, 10, 16 };
	struct meta_conf c = conf_of(5, 4u << 20);
	struct meta__geo g;

	c.copies = 3;
	meta__geo_make(&g, &c, 64, 0);
	for (uint32_t copy = 0; copy < 3; copy++)
		cr_assert(!meta__geo_roots_share(&g, copy, alone));
	for (uint32_t i = 0; i < 10; i++)
		g.root_zone[2][i] = g.zone_base[i == 7 ? 1 : 4] + i + 1;
	cr_assert(meta__geo_roots_share(&g, 2, alone));
	cr_assert(!meta__geo_roots_share(&g, 1, alone), "the higher copy has to move");
	g.root_zone[2][7] = g.zone_base[3] + 7 + 1;
	cr_assert(!meta__geo_roots_share(&g, 2, alone));
	cr_assert(meta__geo_roots_share(&g, 2, mates), "drives 1 and 3 are in one domain");
}
Test(meta_super, what_is_in_no_zone_has_none)
{
	struct meta_conf c = conf_of(2, 4u << 20);
	struct meta__geo g;

	meta__geo_make(&g, &c, 4, 0);
	cr_assert_eq(meta__geo_zone_of(&g, 0), UINT32_MAX);
	cr_assert_eq(meta__geo_zone_of(&g, META_BADDR(0, 8)), UINT32_MAX);
	cr_assert_eq(meta__geo_zone_of(&g, META_BADDR(0, 1023)), UINT32_MAX);
	cr_assert_eq(meta__geo_zone_of(&g, META_BADDR(1, UINT32_MAX)), UINT32_MAX);
	cr_assert_eq(meta__geo_zone_of(&g, META_BADDR(2, 100)), UINT32_MAX);
	cr_assert_eq(meta__geo_zone_of(&g, UINT64_MAX), UINT32_MAX);
}

/* ---- superblock -------------------------------------------------------------------- */

Test(meta_super, superblock_comes_back_as_it_went)
{
	struct meta__super s = a_super(), t;
	uint8_t seen[16];
	char why[128];

	meta__super_build(&s, block);
	cr_assert_eq(meta__super_parse(block, &t, why), 0, "%s", why);
	cr_assert_arr_eq(&s, &t, sizeof(s));
	cr_assert(meta_super_recognize(block, seen));
	cr_assert_arr_eq(seen, uuid, 16);
}

/* That of a store to which drives were added. */
static struct meta__super a_grown_super(void)
{
	struct meta__super s = a_super();

	s.set = 3;
	s.root_at[0] = META_BADDR(0, 1);
	s.root_at[1] = META_BADDR(0, 524287 - 128);
	s.drive_tag[1] = 0x1234567812345678;
	memcpy(s.drive_name[1], "file:/somewhere/else", 20);
	return s;
}

Test(meta_super, superblock_of_a_store_that_grew_comes_back_and_says_where_roots_are)
{
	struct meta__super s = a_grown_super(), t;
	struct meta__geo g;
	char why[128];

	meta__super_build(&s, block);
	cr_assert_eq(block[16], 1, "an incompatible feature");
	cr_assert_eq(meta__super_parse(block, &t, why), 0, "%s", why);
	cr_assert_arr_eq(&s, &t, sizeof(s));
	meta__geo_of(&g, &t);
	cr_assert_eq(g.root_area[1], s.root_at[1]);
	cr_assert_eq(g.zones_at[0], 1 + 128);
	cr_assert_eq(g.zones_at[1], 1, "no roots on it");
	cr_assert_eq(g.zone_count[0], (524287 - 128 - 129) / 512);
}

/* A program that knows no conversion would take it for a store that may lose a drive. */
Test(meta_super, superblock_of_a_store_that_converts_has_a_feature_of_its_own)
{
	struct meta__super s = a_grown_super(), t;
	char why[128];

	s.drained = true;
	s.copies = 2;
	s.converts = true;
	meta__super_build(&s, block);
	cr_assert_eq(block[16], 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4);
	cr_assert_str_eq((char *)block + 600 + 4 * 16, "converting");
	cr_assert_eq(meta__super_parse(block, &t, why), 0, "%s", why);
	cr_assert_arr_eq(&s, &t, sizeof(s));
	block[16] &= 0xef; /* as it was written before there was the feature */
	resum(8);
	cr_assert_eq(meta__super_parse(block, &t, why), 0, "%s", why);
	cr_assert(t.converts);
	meta__super_build(&s, block);
	memset(block + 3764, 0, 4);
	resum(8);
	cr_assert_eq(meta__super_parse(block, &t, why), -EUCLEAN, "the feature without the field");
	s.converts = false;
	meta__super_build(&s, block);
	cr_assert_eq(block[16], 1 << 0 | 1 << 1 | 1 << 3);
	cr_assert_eq(meta__super_parse(block, &t, why), 0, "%s", why);
	cr_assert(!t.converts);
}

/* No program writes it: while the one goes on the other is refused. */
Test(meta_super, a_store_that_converts_has_no_folds)
{
	struct meta__super s = a_grown_super(), t;
	char why[128];

	s.drained = true;
	s.copies = 2;
	s.fold = 3;
	meta__super_build(&s, block);
	cr_assert_eq(meta__super_parse(block, &t, why), 0, "%s", why);
	s.converts = true;
	meta__super_build(&s, block);
	cr_assert_eq(meta__super_parse(block, &t, why), -EUCLEAN);
}

/* A program that knows one lost drive at most would call the superblock damaged. */
Test(meta_super, superblock_that_names_two_lost_drives_has_a_feature_of_its_own)
{
	struct meta__super s = a_grown_super(), t;
	char why[128];

	s.drained = true;
	s.copies = 2;
	s.ndrives = 4;
	s.drive_nblocks[2] = s.drive_nblocks[3] = s.drive_nblocks[1];
	s.drive_state[2] = DRIVE_LOST;
	meta__super_build(&s, block);
	cr_assert_eq(block[16], 1 << 0 | 1 << 1 | 1 << 3);
	cr_assert_eq(meta__super_parse(block, &t, why), 0, "%s", why);
	s.drive_state[3] = DRIVE_LOST;
	meta__super_build(&s, block);
	cr_assert_eq(block[16], 1 << 0 | 1 << 1 | 1 << 3 | 1 << 6);
	cr_assert_str_eq((char *)block + 600 + 6 * 16, "lost drives");
	cr_assert_eq(meta__super_parse(block, &t, why), 0, "%s", why);
	cr_assert_arr_eq(&s, &t, sizeof(s));
	block[16] ^= 1 << 6;
	resum(8);
	cr_assert_eq(meta__super_parse(block, &t, why), -EUCLEAN, "the field without the feature");
	s.drive_state[0] = s.drive_state[1] = DRIVE_LOST;
	meta__super_build(&s, block);
	cr_assert_eq(meta__super_parse(block, &t, why), -EUCLEAN, "no drive serves");
}

/* That of a store of three copies to which drives were added; one copy of its roots has moved. */
static struct meta__super a_third_super(void)
{
	struct meta__super s = a_grown_super();

	s.drained = true;
	s.copies = 3;
	s.ndrives = 4;
	for (uint32_t d = 0; d < s.ndrives; d++)
		s.drive_nblocks[d] = 524288;
	s.root_at[1] = META_BADDR(1, 1);
	s.root_at[2] = META_BADDR(2, 1);
	s.root_zone[2][0] = 3 * 1023 + 5;
	return s;
}

Test(meta_super, superblock_of_three_copies_says_where_the_third_one_of_the_roots_is)
{
	struct meta__super s = a_third_super(), t;
	struct meta__geo g;
	uint64_t at;
	uint32_t zone;
	char why[128];

	meta__super_build(&s, block);
	cr_assert_eq(block[16], 1 << 0 | 1 << 1 | 1 << 3 | 1 << 7);
	cr_assert_str_eq((char *)block + 600 + 7 * 16, "three copies");
	memcpy(&at, block + 3776, 8);
	memcpy(&zone, block + 3784, 4);
	cr_assert_eq(at, s.root_at[2]);
	cr_assert_eq(zone, s.root_zone[2][0]);
	cr_assert_eq(meta__super_parse(block, &t, why), 0, "%s", why);
	cr_assert_arr_eq(&s, &t, sizeof(s));
	meta__geo_of(&g, &t);
	cr_assert_eq(g.root_copies, 3);
	cr_assert_eq(g.root_area[2], s.root_at[2]);
	cr_assert_eq(meta__geo_root_drive(&g, 2, 0), 3);
	cr_assert_eq(g.zones_at[2], 1 + 128, "where the zones of drive 2 begin stays");
	for (uint32_t copies = 1; copies <= 2; copies++) {
		s = a_grown_super();
		s.copies = copies;
		meta__super_build(&s, block);
		for (uint32_t i = 3772; i < 4096; i++)
			cr_assert_eq(block[i], 0, "%u copies: byte %u", copies, i);
	}
}

/* A program that knows only stores formatted with three copies would look in the wrong place. */
Test(meta_super, superblock_of_a_store_that_got_a_third_copy_has_its_roots_in_zones)
{
	for (uint32_t sure = 0; sure <= 4; sure++) {
		struct meta__super s = a_third_super(), t;
		struct meta__geo g;
		char why[128];

		s.root_at[2] = 0;
		s.root_zone[2][0] = 2 * 1023 + 5;
		s.converts = sure;
		meta__super_build(&s, block);
		cr_assert_eq(block[16], 1 << 0 | 1 << 1 | 1 << 3 | (sure > 0) << 4 | 1 << 7);
		cr_assert_eq(block[17], 1 << 1);
		cr_assert_eq(memcmp(block + 600 + 9 * 16, "got third copies", 16), 0);
		cr_assert_eq(meta__super_parse(block, &t, why), sure < 3 ? 0 : -EUCLEAN, "%s", why);
		if (sure >= 3)
			continue;
		cr_assert_arr_eq(&s, &t, sizeof(s));
		cr_assert_eq(meta__super_sure(&t), sure ? sure : 3);
		meta__geo_of(&g, &t);
		cr_assert_eq(g.zones_at[2], 1, "no root area is in front of its zones");
		cr_assert_eq(meta__geo_root_drive(&g, 2, 0), 2);
		block[17] = 0;
		resum(8);
		cr_assert_eq(meta__super_parse(block, &t, why), -EUCLEAN, "without the feature");
		s.root_zone[2][0] = 0;
		meta__super_build(&s, block);
		cr_assert_eq(meta__super_parse(block, &t, why), -EUCLEAN, "it is nowhere");
	}
}

/* Sets one field of a superblock that is as it should be.  Returns what the parser says of it. */
static int changed(uint32_t at, const void *bytes, uint32_t length)
{
	const struct meta__super s = a_third_super();
	struct meta__super t;
	char why[128];

	meta__super_build(&s, block);
	memcpy(block + at, bytes, length);
	resum(8);
	return meta__super_parse(block, &t, why);
}

Test(meta_super, three_copies_that_cannot_be_are_refused)
{
	const uint64_t bad_at[] = { 0, META_BADDR(4, 1), META_BADDR(1, 64), META_BADDR(0, 524287) };
	const uint32_t bad_zone = 5 * 1023, copies[] = { 0, 2, 4 }, two = 2, three = 3;
	const uint8_t features = 1 << 0 | 1 << 1 | 1 << 3;
	struct meta__super s = a_third_super();

	for (size_t i = 0; i < ARRAY_LEN(bad_at); i++)
		cr_assert_eq(changed(3776, &bad_at[i], 8), -EUCLEAN, "%zu", i);
	cr_assert_eq(changed(3784, &bad_zone, 4), -EUCLEAN);
	cr_assert_eq(changed(3784, (const uint32_t[]){ s.root_zone[2][0], 7 }, 8), -EUCLEAN,
		     "it needs no second zone");
	cr_assert_eq(changed(3504, &s.root_zone[2][0], 4), -EUCLEAN, "two copies in one zone");
	for (size_t i = 0; i < ARRAY_LEN(copies); i++)
		cr_assert_eq(changed(3760, &copies[i], 4), -EUCLEAN, "%zu", i);
	cr_assert_eq(changed(16, &features, 1), -EUCLEAN);
	cr_assert_eq(changed(52, &two, 4), -EUCLEAN);
	cr_assert_eq(changed(3764, &three, 4), -EUCLEAN, "it has that many");
}

Test(meta_super, roots_that_cannot_be_there_are_refused)
{
	const uint64_t bad[] = { 0,
				 META_BADDR(2, 1),
				 META_BADDR(0, 64),
				 META_BADDR(1, 524288),
				 META_BADDR(0, UINT32_MAX),
				 UINT64_MAX };
	struct meta__super s, t;
	char why[128];

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		s = a_grown_super();
		s.root_at[1] = bad[i];
		meta__super_build(&s, block);
		cr_assert_eq(meta__super_parse(block, &t, why), -EUCLEAN, "%zu", i);
	}
}

Test(meta_super, offer_of_a_drive_comes_back_and_a_flipped_bit_of_it_is_seen)
{
	const struct meta_offer offer = {
		.tag = 0x1122334455667788, .replaces = true, .drive = 5, .uuid = { 1, 2, 3 }
	};
	const struct meta_offer plain = { .tag = 7 };
	struct meta_offer seen;

	meta_offer_build(&plain, block);
	cr_assert(meta_offer_parse(block, &seen));
	cr_assert(seen.tag == 7 && !seen.replaces);
	meta_offer_build(&offer, block);
	cr_assert(meta_offer_parse(block, &seen));
	cr_assert_eq(seen.tag, offer.tag);
	cr_assert(seen.replaces);
	cr_assert_eq(seen.drive, 5);
	cr_assert_arr_eq(seen.uuid, offer.uuid, 16);
	for (uint32_t bit = 0; bit < 4096 * 8; bit++) {
		block[bit / 8] ^= (uint8_t)(1u << bit % 8);
		cr_assert(!meta_offer_parse(block, &seen), "bit %u", bit);
		block[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

Test(meta_super, every_flipped_bit_of_a_superblock_is_seen)
{
	struct meta__super s = a_super(), t;
	char why[128];

	meta__super_build(&s, block);
	for (uint32_t bit = 0; bit < 4096 * 8; bit++) {
		block[bit / 8] ^= (uint8_t)(1u << bit % 8);
		cr_assert_eq(meta__super_parse(block, &t, why), -ENODATA, "bit %u", bit);
		block[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

Test(meta_super, another_version_and_unknown_feature_are_refused_by_name)
{
	struct meta__super s = a_super(), t;
	char why[128];

	meta__super_build(&s, block);
	block[12] = 1;
	resum(8);
	cr_assert_eq(meta__super_parse(block, &t, why), -EPROTONOSUPPORT);
	cr_assert_not_null(strstr(why, "version 1, this program knows 4"), "%s", why);
	cr_assert_not_null(strstr(why, "with the older program, and format it"), "%s", why);
	block[12] = META_FORMAT_VERSION + 1;
	resum(8);
	cr_assert_eq(meta__super_parse(block, &t, why), -EPROTONOSUPPORT);
	cr_assert_not_null(strstr(why, "a newer program is needed"), "%s", why);

	meta__super_build(&s, block);
	block[17] = 1 << 7;
	memcpy(block + 600 + 15 * 16, "erasure-coding", 14);
	resum(8);
	cr_assert_eq(meta__super_parse(block, &t, why), -EPROTONOSUPPORT);
	cr_assert_not_null(strstr(why, "erasure-coding"), "%s", why);

	meta__super_build(&s, block);
	block[24] = 1; /* a compatible one: never mind */
	resum(8);
	cr_assert_eq(meta__super_parse(block, &t, why), 0);
}

Test(meta_super, numbers_that_cannot_be_are_refused_though_the_checksum_is_right)
{
	static const struct {
		uint32_t at, value;
	} bad[] = { { 48, 2 },    { 52, 0 }, { 52, 65 },  { 56, 0 },        { 56, 3 },
		    { 56, 8192 }, { 60, 0 }, { 60, 100 }, { 60, 1u << 20 }, { 88, 1 } };
	struct meta__super s = a_super(), t;
	char why[128];

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		meta__super_build(&s, block);
		memcpy(block + bad[i].at, &bad[i].value, 4);
		resum(8);
		cr_assert_eq(meta__super_parse(block, &t, why), -EUCLEAN, "%u: %s", bad[i].at, why);
	}
}

/* A zone's number has 32 bits: what would not fit must not come out as few. */
Test(meta_super, more_zones_than_numbers_are_refused)
{
	const struct {
		uint64_t nblocks;
		uint32_t ndrives;
		int err;
	} of[] = {
		{ 16 * ((1ull << 32) + 100), 2, -EUCLEAN },
		{ 16 * (1ull << 31), 2, -EUCLEAN },
		{ 16 * (1ull << 27), META_DRIVES_MAX, -EUCLEAN },
		{ 16 * (1ull << 30), 2, 0 },
	};
	struct meta__super s = a_super(), t;
	char why[128];

	s.zone_blocks = META__ZONE_BYTES_MIN / META__BLOCK;
	for (size_t i = 0; i < ARRAY_LEN(of); i++) {
		s.ndrives = of[i].ndrives;
		for (uint32_t d = 0; d < s.ndrives; d++)
			s.drive_nblocks[d] = of[i].nblocks;
		meta__super_build(&s, block);
		cr_assert_eq(meta__super_parse(block, &t, why), of[i].err, "%zu: %s", i, why);
	}
}

/* ---- root and zone header --------------------------------------------------------------- */

static struct meta m;
static struct meta__shard shards[4];
static struct meta__zones zones;

static void store_make(void)
{
	struct meta_conf c = conf_of(2, 4u << 20);

	m = (struct meta){ .conf = c, .nshards = 4, .epoch = 9, .shard = shards, .zones = &zones };
	memcpy(m.uuid, uuid, sizeof(uuid));
	meta__geo_make(&zones.geo, &c, 4, 0);
	m.conf.cache_bytes = 8u << 20;
	m.conf.memory_bytes = meta__log_memory(&m.conf);
	m.conf.memory = aligned_alloc(4096, m.conf.memory_bytes);
	m.mem_next = m.conf.memory;
	cr_assert_eq(meta__log_create(&m), 0);
	meta__log_replaying(&m, 7, 100, 200);
}

static void store_end(void)
{
	meta__log_destroy(&m);
	free(m.conf.memory);
}

static const struct meta__root a_root = {
	.root_baddr = META_BADDR(1, 77),
	.root_gen = 9ull << 32 | 3,
	.seq = 41,
	.log_seq = 199,
	.uniq_next = 12,
	.dir_next = 13,
	.files = 14,
	.dirs = 15,
	.height = 2,
};

Test(meta_super, root_comes_back_and_goes_to_the_other_slot_each_time)
{
	struct meta__root_seen seen;
	uint64_t copy[META__ROOT_COPIES];

	store_make();
	(void)meta__root_build(&m, 3, &a_root, block, copy);
	cr_assert_eq(meta__root_parse(block, uuid, &seen), 0);
	cr_assert_arr_eq(&seen.root, &a_root, offsetof(struct meta__root, height) + 4);
	cr_assert_eq(seen.shard, 3);
	cr_assert_eq(seen.version, 1);
	cr_assert_eq(seen.mount, 9);
	cr_assert_eq(seen.log_epoch, 7);
	cr_assert_eq(seen.log_base, 100);
	cr_assert_eq(copy[0], META_BADDR(0, 1 + 4 + 3));
	cr_assert_eq(copy[1], META_BADDR(1, 1 + 4 + 3));
	meta__root_durable(&m, 3, &a_root);
	(void)meta__root_build(&m, 3, &a_root, block, copy);
	cr_assert_eq(copy[0], META_BADDR(0, 1 + 3));
	cr_assert_eq(meta__root_parse(block, uuid, &seen), 0);
	cr_assert_eq(seen.version, 2);
	store_end();
}

/* Any copy may be the first to be written; the others follow it. */
Test(meta_super, root_has_three_places_in_a_store_of_three_copies)
{
	struct meta_conf c = conf_of(4, 4u << 20);
	uint64_t copy[META__ROOT_COPIES];

	store_make();
	c.copies = 3;
	meta__geo_make(&zones.geo, &c, 4, 0);
	for (uint32_t first = 0; first < 3; first++) {
		m.shard[2].copy_first[1] = (uint8_t)first;
		cr_assert_eq(meta__root_build(&m, 2, &a_root, block, copy), 3);
		for (uint32_t i = 0; i < 3; i++)
			cr_assert_eq(copy[i], META_BADDR((first + i) % 3, 1 + 4 + 2));
	}
	m.shard[2].copy_first[1] = 0;
	store_end();
}

Test(meta_super, every_flipped_bit_of_a_root_is_seen)
{
	struct meta__root_seen seen;
	uint64_t copy[META__ROOT_COPIES];

	store_make();
	(void)meta__root_build(&m, 0, &a_root, block, copy);
	for (uint32_t bit = 0; bit < 4096 * 8; bit++) {
		block[bit / 8] ^= (uint8_t)(1u << bit % 8);
		cr_assert_eq(meta__root_parse(block, uuid, &seen), -EUCLEAN, "bit %u", bit);
		block[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	store_end();
}

Test(meta_super, root_whose_numbers_cannot_be_is_refused_though_its_checksum_is_right)
{
	static const struct {
		uint32_t at;
		uint64_t value;
	} bad[] = { { 32, UINT64_MAX }, { 40, 1ull << 31 }, { 48, 10 },         /* beyond mount */
		    { 56, 200 },        { 72, UINT64_MAX }, { 96, 1ull << 63 }, /* behind log_seq */
		    { 28, 9 },          { 80, 0 } };
	struct meta__root_seen seen;
	uint64_t copy[META__ROOT_COPIES];

	store_make();
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		(void)meta__root_build(&m, 0, &a_root, block, copy);
		memcpy(block + bad[i].at, &bad[i].value, bad[i].at == 28 ? 4 : 8);
		resum(4);
		cr_assert_eq(meta__root_parse(block, uuid, &seen), -EUCLEAN, "%u", bad[i].at);
	}
	store_end();
}

static const struct meta__zone_seen a_zone = {
	.zone = 5,
	.kind = META__ZONE_LOG,
	.incarnation = 6,
	.epoch = 7,
	.order = 8,
	.oldest_order = 2,
};

Test(meta_super, single_bit_of_a_zone_header_makes_the_copy_none)
{
	struct meta__zone_seen seen;

	meta__zone_build(&a_zone, uuid, block);
	cr_assert_eq(meta__zone_parse(block, uuid, 5, &seen), 0);
	cr_assert_arr_eq(&seen, &a_zone, sizeof(seen));
	for (uint32_t bit = 0; bit < 4096 * 8; bit++) {
		block[bit / 8] ^= (uint8_t)(1u << bit % 8);
		cr_assert_eq(meta__zone_parse(block, uuid, 5, &seen), -EUCLEAN, "bit %u", bit);
		block[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

Test(meta_super, both_copies_of_a_zone_header_lie_in_the_zone_and_nothing_else_does_there)
{
	struct meta_conf conf = { .ndrives = 2,
				  .drive = { { .nblocks = 5000 }, { .nblocks = 900 } } };
	struct meta__geo g;

	meta__geo_make(&g, &conf, 4, 0);
	for (uint32_t zone = 0; zone < g.nzones; zone++) {
		uint64_t first = meta__geo_zone_head(&g, zone, 0);

		cr_assert_eq(first, meta__geo_zone_baddr(&g, zone));
		cr_assert_eq(meta__geo_zone_head(&g, zone, 1), first + g.zone_blocks - 1);
	}
	cr_assert_eq(g.zone_end, g.zone_blocks - 1);
	cr_assert_leq(1 + g.zone_pages * META_PAGE_BLOCKS, g.zone_end);
}

Test(meta_super, header_of_another_zone_or_store_is_none)
{
	struct meta__zone_seen seen;

	meta__zone_build(&a_zone, uuid, block);
	cr_assert_eq(meta__zone_parse(block, uuid, 6, &seen), -EUCLEAN);
	cr_assert_eq(meta__zone_parse(block, (const uint8_t *)"another uuid....", 5, &seen),
		     -EUCLEAN);
}

/* FORMAT.md 2.3. */
Test(meta_super, header_names_two_others_in_one_way_only)
{
	static const struct {
		enum meta__zone_kind kind;
		uint32_t twin, twin2;
		int err;
	} head[] = {
		{ META__ZONE_DATA, 9, 12, 0 },        { META__ZONE_DATA, 12, 9, -EUCLEAN },
		{ META__ZONE_PAGE, 9, 9, -EUCLEAN },  { META__ZONE_PAGE, 0, 9, -EUCLEAN },
		{ META__ZONE_TWIN, 12, 9, 0 },        { META__ZONE_TWIN, 9, 12, 0 },
		{ META__ZONE_TWIN, 0, 12, -EUCLEAN }, { META__ZONE_TWIN, 9, 9, -EUCLEAN },
		{ META__ZONE_TWIN, 9, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(head); i++) {
		const struct meta__zone_seen of = { .zone = 5,
						    .kind = head[i].kind,
						    .incarnation = 1,
						    .twin = head[i].twin,
						    .twin2 = head[i].twin2,
						    .pair = 3 };
		struct meta__zone_seen seen;

		meta__zone_build(&of, uuid, block);
		cr_assert_eq(meta__zone_parse(block, uuid, 5, &seen), head[i].err, "%zu", i);
		if (!head[i].err)
			cr_assert_arr_eq(&seen, &of, sizeof(seen));
	}
}

/* ---- frozen ------------------------------------------------------------------------------- */

Test(meta_super, bytes_are_what_they_were)
{
	struct meta__super s = a_super();
	uint64_t copy[META__ROOT_COPIES];

	meta__super_build(&s, block);
	cr_assert(golden_is("test/golden/meta_super.bin", block, sizeof(block)));
	s = a_third_super();
	meta__super_build(&s, block);
	cr_assert(golden_is("test/golden/meta_super_three.bin", block, sizeof(block)));
	meta__zone_build(&a_zone, uuid, block);
	cr_assert(golden_is("test/golden/meta_zone.bin", block, sizeof(block)));
	store_make();
	(void)meta__root_build(&m, 3, &a_root, block, copy);
	cr_assert(golden_is("test/golden/meta_root.bin", block, sizeof(block)));
	store_end();
}
