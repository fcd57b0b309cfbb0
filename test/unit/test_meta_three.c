/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Stores of three copies: groups of three zones, and what is left of them when headers cannot be
 * read, drives are few, the power fails, or one drive or two are lost.
 */
#define STORE_COPIES 3u
#include "test/lib/runs.h"
#include "test/unit/meta_pair_store.h"

#define NAMES 16000u /* take more pages than the cache has */

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
	for (uint32_t seed = 1; seed <= test_runs(48); seed++) {
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

/* ---- one drive is lost, and another one ---------------------------------------------------- */

Test(meta_three, drives_that_die_one_after_the_other_lose_nothing)
{
	for (uint64_t seed = 1; seed <= test_runs(30); seed++) {
		const uint32_t ndrives = 4 + (uint32_t)(seed % 2);
		const uint32_t one = (uint32_t)(seed % ndrives),
			       two = (one + 1 + (uint32_t)(seed % 3)) % ndrives;

		store(seed, ndrives, seed % 2);
		put_some(60);
		lose_drive(one);
		wreck(one);
		put_some(20);
		lose_drive(two);
		wreck(two);
		put_some(60);
		all_is_there();
		rig_power_cut(&r);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		all_is_there();
		put_some(40);
		is_whole();
		cr_assert_eq(meta_health(r.m), 0, "%s", meta_error(r.m));
		rig_end(&r);
	}
}

/* ---- few drives ----------------------------------------------------------------------------- */

static void add_one(void)
{
	const uint32_t added = rig_drive(&r, DRIVE_BYTES, true);

	cr_assert_eq(rig_drive_add(&r, added), 0, "%s", meta_error(r.m));
	r.conf.ndrives = meta_drives(r.m);
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

/* A store that went on with one drive of three, and then gets two more. */
Test(meta_three, drives_that_are_added_later_make_it_whole)
{
	for (uint64_t seed = 1; seed <= test_runs(10); seed++) {
		store(seed, 3, seed % 2);
		put_some(60);
		lose_drive((uint32_t)(seed % 3));
		put_some(20);
		lose_drive((uint32_t)((seed + 1) % 3));
		put_some(40);
		cr_assert_gt(groups_of(1), 0);
		all_is_there();
		add_one();
		put_some(20);
		add_one();
		put_some(20);
		becomes_whole();
		for (uint32_t d = 0; d < 3; d++)
			if (d != (seed + 2) % 3)
				rebuilt(d);
		is_whole();
		rig_end(&r);
	}
}

/* One of three was drained; no drive is lost when another one comes. */
Test(meta_three, groups_of_two_become_wider_when_a_drive_is_added)
{
	store(4, 3, true);
	put_some(60);
	cr_assert_eq(meta_drive_drain(r.m, 1), 0);
	for (uint32_t n = 0; n < 300 && !stat_of(1).gone; n++)
		rig_idle(&r);
	cr_assert(stat_of(1).gone);
	cr_assert_gt(groups_of(2), 0);
	add_one();
	becomes_whole();
	is_whole();
	rig_end(&r);
}

/* Zones have been in other groups before; their headers still say so. */
Test(meta_three, twin_of_an_earlier_life_is_not_read)
{
	const uint64_t bytes[] = { DRIVE_BYTES, DRIVE_BYTES, DRIVE_BYTES, 2 * DRIVE_BYTES };

	for (uint64_t seed = 1; seed <= test_runs(8); seed++) {
		store_of(seed, 4, bytes, seed % 2);
		put_some(1500);
		rig_power_cut(&r);
		wreck((uint32_t)(seed % 4));
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		all_is_there();
		rebuilt((uint32_t)(seed % 4));
		is_whole();
		r.never = 0;
		rig_end(&r);
	}
}

/* ---- space ---------------------------------------------------------------------------------- */

static const char *full_path(uint32_t i)
{
	static char path[32];

	(void)snprintf(path, sizeof(path), "/full %u", i);
	return path;
}

static uint32_t any_with_room(const uint32_t *zones)
{
	uint32_t d;

	do
		d = (uint32_t)rand_below(&r.rand, 5);
	while (zones[d] == 0);
	return d;
}

/* Whatever drive the first zone is on, no zones are left that could have made a group. */
Test(meta_three, twins_are_picked_so_that_all_groups_can_be_made)
{
	uint32_t *zones, was[5];

	store(1, 5, true);
	zones = r.m->zones->free_count;
	memcpy(was, zones, sizeof(was));
	for (uint32_t i = 0; i < 3000; i++) {
		const uint32_t width = 2 + i % 2;
		uint32_t groups, twin[META__TWINS_MAX];

		for (uint32_t d = 0; d < 5; d++)
			zones[d] = (uint32_t)rand_below(&r.rand, i % 3 ? 9 : 60);
		groups = meta__groups_on(r.m, zones, width);
		for (uint32_t n = 0; n < groups; n++) {
			const uint32_t d = any_with_room(zones);
			const uint32_t zone = meta__zone_next(r.m, d);

			cr_assert_eq(meta__zone_pick_twins(r.m, zone, width - 1, twin), width - 1);
			zones[d]--;
			for (uint32_t k = 0; k < width - 1; k++)
				zones[drive_of(twin[k])]--;
			cr_assert_geq(meta__groups_on(r.m, zones, width), groups - n - 1);
		}
	}
	memcpy(zones, was, sizeof(was));
	rig_end(&r);
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

/* ---- what only missing drives have --------------------------------------------------------- */

static void take_away(uint32_t drives)
{
	for (; drives; drives &= drives - 1)
		r.conf.drive[__builtin_ctz(drives)].nblocks = 0;
}

static void bring_back(uint32_t drives)
{
	for (; drives; drives &= drives - 1)
		r.conf.drive[__builtin_ctz(drives)].nblocks = DRIVE_BYTES / 4096;
}

/* Two drives are left, whose groups are of two zones, and three are added.  As long as some block
 * is only on the first two a mount must not go on without both. */
Test(meta_three, drives_with_all_copies_are_not_lost_at_a_mount)
{
	uint32_t refused = 0, only = 0;

	for (uint64_t seed = 1; seed <= test_runs(40); seed++) {
		bool has_only = false;

		store(seed, 3, true);
		put_some(80);
		cr_assert_eq(meta_drive_drain(r.m, 1), 0);
		for (uint32_t n = 0; n < 300 && !stat_of(1).gone; n++)
			rig_idle(&r);
		cr_assert(stat_of(1).gone);
		put_some(20);
		for (uint32_t i = 0; i < 3; i++)
			add_one();
		for (uint64_t n = 0; n < seed * 8; n++)
			(void)rig_step(&r);
		for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++)
			has_only |= meta__zone_at(r.m, i)->lone && meta__zone_at(r.m, i)->live &&
				    !(meta__drives_of(r.m, i) & ~5ull);
		rig_power_cut(&r);
		take_away(5);
		if (rig_mount(&r)) {
			rig_power_cut(&r);
			bring_back(5);
			refused++;
			cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		} else {
			cr_assert(!has_only, "seed %llu", (unsigned long long)seed);
		}
		only += has_only;
		is_whole();
		rig_end(&r);
	}
	cr_assert(only > 3 && refused >= only && refused < 40, "%u, %u", only, refused);
}

/* ---- damage ---------------------------------------------------------------------------------- */

/* All blocks of pages and data on a drive are something else there. */
static void spoil(uint32_t drive)
{
	const struct meta__geo *g = &r.m->zones->geo;

	for (uint32_t i = g->zone_base[drive]; i < g->zone_base[drive] + g->zone_count[drive];
	     i++) {
		const uint64_t at = META_BADDR_BLOCK(meta__geo_zone_baddr(g, i));
		const uint8_t kind = meta__zone_at(r.m, i)->kind;

		if (kind != META__ZONE_DATA && kind != META__ZONE_PAGE && kind != META__ZONE_TWIN)
			continue;
		for (uint32_t n = 1; n < g->zone_end; n++) {
			r.view[drive][(at + n) * 4096 + n % 4096] ^= 0x10;
			r.image[drive][(at + n) * 4096 + n % 4096] ^= 0x10;
		}
	}
}

/* Reads, a mount, and collection use the one that is whole of three. */
Test(meta_three, blocks_of_which_two_copies_are_bad_are_read_and_moved)
{
	for (uint64_t seed = 1; seed <= test_runs(24); seed++) {
		const uint32_t one = (uint32_t)(seed % 4),
			       two = (one + 1 + (uint32_t)(seed % 3)) % 4;

		store(seed, 4, seed % 2);
		put_some(120);
		rig_idle(&r);
		spoil(one);
		spoil(two);
		all_is_there();
		cr_assert_eq(rig_stop(&r), 0);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		all_is_there();
		cr_assert_eq(meta_drive_drain(r.m, one), 0);
		rebuilt(one);
		all_is_there();
		put_some(20);
		cr_assert_eq(rig_stop(&r), 0);
		r.conf.drive[one].nblocks = 0;
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		all_is_there();
		rig_end(&r);
	}
}

/* The drives as they are now; and as they were. */
static void keep(uint8_t *kept[4], bool back)
{
	for (uint32_t d = 0; d < 4; d++) {
		if (!back) {
			kept[d] = malloc(DRIVE_BYTES);
			cr_assert_not_null(kept[d]);
			memcpy(kept[d], r.image[d], DRIVE_BYTES);
			continue;
		}
		memcpy(r.image[d], kept[d], DRIVE_BYTES);
		memcpy(r.view[d], kept[d], DRIVE_BYTES);
	}
}

/* The cache has no room for all pages; a mount reads those above leaves. */
Test(meta_three, pages_of_which_two_copies_are_bad_are_read)
{
	uint8_t *kept[4];

	store(1, 4, false);
	for (uint32_t i = 0; i < NAMES; i++)
		cr_assert_eq(rig_put(&r, full_path(i), 0, i + 1), 0, "%s", meta_error(r.m));
	cr_assert_eq(rig_stop(&r), 0);
	keep(kept, false);
	for (uint32_t pair = 0; pair < 6; pair++) {
		keep(kept, true);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		spoil(pair % 4);
		if (pair < 4)
			spoil((pair + 1) % 4);
		rig_kill(&r);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		if (pair >= 4) { /* ... or cannot be read */
			keep(kept, true);
			r.bad_reads = 1u << pair % 4 | 1u << (pair + 2) % 4;
		}
		for (uint32_t i = pair; i < NAMES; i += 41) {
			uint64_t fill;
			uint32_t blocks;

			cr_assert_eq(rig_get(&r, full_path(i), &blocks, &fill), 0, "%s",
				     meta_error(r.m));
			cr_assert_eq(fill, i + 1);
		}
		r.bad_reads = 0;
		rig_kill(&r);
	}
	for (uint32_t d = 0; d < 4; d++)
		free(kept[d]);
	rig_end(&r);
}

/* ... and one on a drive that is lost. */
Test(meta_three, blocks_with_a_bad_copy_survive_a_loss)
{
	for (uint64_t seed = 1; seed <= test_runs(24); seed++) {
		const uint32_t one = (uint32_t)(seed % 4),
			       two = (one + 1 + (uint32_t)(seed % 3)) % 4;
		struct meta_check check = { 0 };

		store(seed, 4, seed % 2);
		put_some(120);
		rig_idle(&r);
		spoil(one);
		lose_drive(two);
		wreck(two);
		all_is_there();
		put_some(20);
		rebuilt(two);
		all_is_there();
		cr_assert_eq(rig_check(&r, &check), 0, "seed %llu: %s", (unsigned long long)seed,
			     check.first[0]);
		rig_end(&r);
	}
}
