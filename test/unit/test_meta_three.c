/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Stores of three copies: groups of three zones, and what is left of them when headers cannot be
 * read, drives are few, the power fails, or one drive or two are lost.
 */
#define STORE_COPIES 3u
#include "test/unit/meta_pair_store.h"

TestSuite(meta_three, .timeout = 300);

/* Returns how many groups of so many zones there are in use; each is as it must be. */
static uint32_t groups_of(uint32_t width)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++) {
		uint32_t other[META__TWINS_MAX];
		const uint32_t others = meta__group_others(r.m, i, other);
		const struct meta__zone *at = meta__zone_at(r.m, i);
		uint64_t drives = 1ull << drive_of(i);

		if (at->state == ZONE_FREE || at->freed || /* once its header is written */
		    (at->kind != META__ZONE_PAGE && at->kind != META__ZONE_DATA &&
		     at->kind != META__ZONE_TWIN))
			continue;
		for (uint32_t k = 0; k < others; k++)
			drives |= 1ull << drive_of(other[k]);
		cr_assert_eq(__builtin_popcountll(drives), others + 1);
		cr_assert_eq(drives, meta__drives_of(r.m, i));
		cr_assert_eq(at->lone, others + 1 < STORE_COPIES ? others + 1 : 0);
		if (at->kind == META__ZONE_TWIN)
			continue;
		for (uint32_t k = 0; k < others; k++) {
			cr_assert_eq(meta__pair_first(r.m, other[k]), i);
			cr_assert_eq(meta__zone_at(r.m, other[k])->kind, META__ZONE_TWIN);
		}
		count += others + 1 == width;
	}
	return count;
}

/* Other cores find all copies, one after the other. */
static void copies_are_found(uint32_t first)
{
	const struct meta__geo *g = &r.m->zones->geo;
	uint64_t at = meta__geo_zone_baddr(g, first) + 3;
	uint32_t other[META__TWINS_MAX];

	cr_assert_eq(meta__group_others(r.m, first, other), 2);
	for (uint32_t k = 0; k < 2; k++) {
		at = meta_twin_of(meta_twins(r.m), at);
		cr_assert_eq(at, meta__geo_zone_baddr(g, other[k]) + 3);
	}
	cr_assert_eq(meta_twin_of(meta_twins(r.m), at), 0);
}

Test(meta_three, healthy_store_has_three_copies_of_each_block)
{
	for (uint32_t drives = 3; drives <= 5; drives++) {
		store(drives, drives, drives % 2);
		put_some(200);
		is_whole();
		for (uint32_t turn = 0; turn < 2; turn++) {
			cr_assert_gt(groups_of(3), 4);
			cr_assert_eq(groups_of(2) + groups_of(1), 0);
			cr_assert_eq(rig_thin_zones(&r), 0);
			for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++)
				if (meta__zone_at(r.m, i)->kind == META__ZONE_DATA)
					copies_are_found(i);
			if (turn == 0) {
				cr_assert_eq(rig_stop(&r), 0);
				cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
			}
		}
		put_some(40);
		is_whole();
		rig_end(&r);
	}
}

/* ---- headers ---------------------------------------------------------------------------- */

static uint32_t a_group(uint32_t zone[3])
{
	for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++) {
		const struct meta__zone *at = meta__zone_at(r.m, i);

		if (at->kind != META__ZONE_DATA || at->live == 0 || rand_below(&r.rand, 3))
			continue;
		zone[0] = i;
		return 1 + meta__group_others(r.m, i, zone + 1);
	}
	return 0;
}

static void spoil_heads(const uint64_t at[2])
{
	for (uint32_t copy = 0; copy < 2; copy++) {
		const size_t byte = META_BADDR_BLOCK(at[copy]) * 4096 + 100;

		r.view[META_BADDR_DRIVE(at[copy])][byte] ^= 1;
		r.image[META_BADDR_DRIVE(at[copy])][byte] ^= 1;
	}
}

/* Those of any two may be damaged, or of all but one on drives that are missing. */
Test(meta_three, each_header_alone_says_the_group)
{
	for (uint32_t seed = 1; seed <= 48; seed++) {
		const uint32_t spoilt = 1 + seed % 6;
		uint32_t zone[3], other[META__TWINS_MAX];
		uint64_t at[3][2];

		store(seed, 4, seed % 2);
		put_some(80);
		rig_idle(&r);
		while (a_group(zone) != 3)
			;
		for (uint32_t i = 0; i < 6; i++)
			at[i / 2][i % 2] =
				meta__geo_zone_head(&r.m->zones->geo, zone[i / 2], i % 2);
		cr_assert_eq(rig_stop(&r), 0);
		for (uint32_t i = 0; i < 3; i++)
			if (spoilt >> i & 1)
				spoil_heads(at[i]);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		cr_assert_eq(meta__group_others(r.m, zone[0], other), 2, "%u", spoilt);
		cr_assert(other[0] == zone[1] && other[1] == zone[2]);
		groups_of(3);
		is_whole();
		put_some(20);
		cr_assert_eq(rig_stop(&r), 0);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		is_whole();
		rig_end(&r);
	}
}

Test(meta_three, power_cuts_while_groups_are_opened)
{
	store(2, 4, true);
	for (uint32_t i = 0; i < 200; i++) {
		r.cut_at = r.writes + 1 + rand_below(&r.rand, 60);
		for (uint32_t n = 0; n < 60 && !r.cut; n++)
			(void)put((uint32_t)rand_below(&r.rand, FILES));
		rig_power_cut(&r);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		all_is_there();
		cr_assert_eq(rig_thin_zones(&r), 0);
	}
	is_whole();
	rig_end(&r);
}

/* ---- few drives ----------------------------------------------------------------------------- */

static void add_one(void)
{
	const uint32_t added = rig_drive(&r, DRIVE_BYTES, true);

	cr_assert_eq(rig_drive_add(&r, added), 0, "%s", meta_error(r.m));
}

static void becomes_whole(void)
{
	for (uint32_t turns = 0; turns < 300 && rig_thin_zones(&r) > 0; turns++)
		rig_idle(&r);
	cr_assert_eq(rig_thin_zones(&r), 0);
}

/* Two of three serve: what had three copies has two, and stays where it is. */
Test(meta_three, groups_are_as_wide_as_there_are_drives)
{
	struct meta_statfs before;

	store(3, 3, true);
	put_some(60);
	lose_drive(1);
	wreck(1);
	before = rig_statfs(&r);
	put_some(60);
	cr_assert_gt(groups_of(2), 0);
	for (uint32_t turns = 0; turns < 20; turns++)
		rig_idle(&r);
	cr_assert_eq(rig_statfs(&r).moved_blocks, before.moved_blocks);
	cr_assert_gt(rig_thin_zones(&r), 0);
	cr_assert(stat_of(1).lost);
	is_whole();
	add_one();
	put_some(20);
	becomes_whole();
	rebuilt(1);
	is_whole();
	lose_drive(0);
	wreck(0);
	put_some(20);
	is_whole();
	rig_end(&r);
}

/* ---- space ---------------------------------------------------------------------------------- */

static const char *full_path(uint32_t i)
{
	static char path[32];

	(void)snprintf(path, sizeof(path), "/full %u", i);
	return path;
}

/* A group needs three drives: so what is larger than the others stays partly empty.  Files can use
 * all that statfs promises, and the full store survives the loss of a drive. */
Test(meta_three, files_fill_what_groups_of_three_can_hold)
{
	const uint64_t sizes[][4] = { { 24u << 20, 24u << 20, 24u << 20, 24u << 20 },
				      { 16u << 20, 16u << 20, 64u << 20, 16u << 20 },
				      { 16u << 20, 48u << 20, 64u << 20, 16u << 20 } };

	for (uint32_t k = 0; k < 3; k++) {
		uint64_t promised, had = 0, fill;
		uint32_t count = 0, blocks;

		store_of(k + 1, 4, sizes[k], true);
		promised = rig_statfs(&r).blocks_free;
		cr_assert_lt(promised, 32u << 8); /* a third of 96 MiB; the largest twice */
		while (rig_put(&r, full_path(count), 12, count + 1) == 0) {
			had += 12;
			count++;
		}
		cr_assert_geq(had + 600, promised, "%llu of %llu", (unsigned long long)had,
			      (unsigned long long)promised);
		cr_assert_eq(groups_of(1), 0);
		lose_drive(1);
		wreck(1);
		for (uint32_t i = 0; i < count; i += 2) {
			cr_assert_eq(rig_get(&r, full_path(i), &blocks, &fill), 0);
			cr_assert_eq(fill, i + 1);
			cr_assert_eq(rig_unlink(&r, full_path(i)), 0, "%s", meta_error(r.m));
		}
		rig_idle(&r);
		for (uint32_t i = 1; i < count; i += 2) {
			cr_assert_eq(rig_get(&r, full_path(i), &blocks, &fill), 0);
			cr_assert_eq(fill, i + 1);
		}
		is_whole();
		rig_end(&r);
	}
}
