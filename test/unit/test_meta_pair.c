/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Stores of two copies: a drive dies at any write, is missing at a mount, or comes back with its
 * old content.  No acknowledged change is lost, no wrong byte is read, and the store makes itself
 * whole again.
 */
#include "test/lib/runs.h"
#include "test/unit/meta_pair_store.h"

TestSuite(meta_pair, .timeout = 300);

Test(meta_pair, healthy_store_has_two_copies_of_each_block)
{
	store(1, 3, true);
	put_some(200);
	is_whole();
	cr_assert_eq(rig_thin_zones(&r), 0);
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	cr_assert_eq(rig_thin_zones(&r), 0);
	is_whole();
	rig_end(&r);
}

/* Returns how many pairs there are. */
static uint32_t pairs_say_their_drives(void)
{
	uint32_t pairs = 0;

	for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++) {
		const uint32_t twin = meta__twin(r.m, i);
		const uint64_t drives = meta__drives_of(r.m, i);

		if (twin == META__ZONE_NONE) {
			cr_assert_eq(drives, 1ull << drive_of(i));
			continue;
		}
		cr_assert_eq(drives, 1ull << drive_of(i) | 1ull << drive_of(twin));
		cr_assert_eq(drives, meta__drives_of(r.m, twin));
		cr_assert_eq(meta__is_thin(r.m, i), meta__drives_read(r.m, drives) < 2);
		pairs++;
	}
	return pairs / 2;
}

Test(meta_pair, each_zone_knows_the_drives_of_its_copies)
{
	store(1, 4, true);
	put_some(200);
	cr_assert_gt(pairs_say_their_drives(), 4);
	cr_assert_eq(meta__drives_read(r.m, 0xf), 4);
	cr_assert_eq(meta__drives_refuse(r.m, 0xf), META_DRIVES_MAX);
	r.dead = 1u << 2;
	for (uint32_t n = 0; n < 1000 && !stat_of(2).lost; n++)
		(void)put((uint32_t)rand_below(&r.rand, FILES));
	cr_assert(stat_of(2).lost);
	cr_assert_gt(pairs_say_their_drives(), 4);
	cr_assert_gt(rig_thin_zones(&r), 0);
	cr_assert_eq(meta__drives_read(r.m, 0xf), 3);
	cr_assert_eq(meta__drives_refuse(r.m, 0xf), 2);
	rebuilt(2);
	is_whole();
	rig_end(&r);
}

/* The most groups, found by trying. */
static uint32_t most_groups(const uint32_t *zones, uint32_t width)
{
	for (uint32_t groups = 1;; groups++) {
		uint32_t places = 0;

		for (uint32_t d = 0; d < 5; d++)
			places += min_u32(zones[d], groups);
		if (places < width * groups)
			return groups - 1;
	}
}

Test(meta_pair, groups_of_any_width_are_as_many_as_can_be_made)
{
	store(1, 5, true);
	for (uint32_t i = 0; i < 3000; i++) {
		uint32_t zones[META_DRIVES_MAX] = { 0 };

		for (uint32_t d = 0; d < 5; d++)
			zones[d] = (uint32_t)rand_below(&r.rand, i % 3 ? 9 : 200);
		for (uint32_t width = 1; width <= 6; width++)
			cr_assert_eq(meta__groups_on(r.m, zones, width), most_groups(zones, width));
	}
	rig_end(&r);
}

Test(meta_pair, power_cuts_while_pairs_are_opened)
{
	store(2, 3, true);
	for (uint32_t i = 0; i < 200; i++) {
		r.cut_at = r.writes + 1 + rand_below(&r.rand, 40);
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

Test(meta_pair, drive_that_dies_while_it_serves_loses_nothing_and_leaves)
{
	for (uint64_t seed = 1; seed <= test_runs(60); seed++) {
		const uint32_t drive = (uint32_t)seed % 4;

		store(seed, 4, seed % 2);
		put_some(60);
		r.dying = 1u << drive;
		r.dies_at = r.writes + 1 + rand_below(&r.rand, 100);
		put_some(80);
		wreck(drive);
		all_is_there();
		rebuilt(drive);
		is_whole();
		put_some(40);
		cr_assert_eq(rig_stop(&r), 0);
		r.conf.drive[drive].nblocks = 0;
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		is_whole();
		rig_end(&r);
	}
}

/* The state of the dead drive at the next mount. */
enum after { AFTER_MISSING, AFTER_STALE, AFTER_WRECKED, AFTERS };

static void after(uint32_t drive, enum after how)
{
	r.dead = r.dying = 0;
	r.dies_at = 0;
	if (how == AFTER_MISSING)
		r.conf.drive[drive].nblocks = 0;
	if (how == AFTER_WRECKED)
		wreck(drive);
}

/* A drive dies, and the power fails at some write after that. */
Test(meta_pair, death_and_power_cuts_lose_nothing)
{
	uint32_t losses = 0;

	for (uint64_t seed = 1; seed <= test_runs(200); seed++) {
		const uint32_t drives = 3 + (uint32_t)(seed % 3), drive = (uint32_t)(seed % drives);
		const enum after how = (enum after)(seed / 3 % AFTERS);

		store(seed, drives, seed % 2);
		r.cut_garbles = seed % 5 == 0;
		put_some(40);
		r.dying = 1u << drive;
		r.dies_at = r.writes + 1 + rand_below(&r.rand, 60);
		r.cut_at = r.dies_at + rand_below(&r.rand, 120);
		for (uint32_t n = 0; n < 150 && !r.cut; n++)
			(void)put((uint32_t)rand_below(&r.rand, FILES));
		cr_assert(r.cut || meta_health(r.m) == 0, "%s", meta_error(r.m));
		losses += stat_of(drive).lost || stat_of(drive).gone;
		rig_power_cut(&r);
		after(drive, how);
		cr_assert_eq(rig_mount(&r), 0, "seed %llu: %s", (unsigned long long)seed,
			     meta_error(r.m));
		all_is_there();
		rig_idle(&r);
		for (uint32_t n = 0; n < 30; n++)
			cr_assert_eq(put((uint32_t)rand_below(&r.rand, FILES)), 0, "%s",
				     meta_error(r.m));
		if (stat_of(drive).lost || stat_of(drive).gone)
			rebuilt(drive);
		is_whole();
		rig_end(&r);
	}
	cr_assert(losses > 50 / test_step(), "%u", losses);
}

/* While what it had is being moved the power fails again and again, and changes go on. */
Test(meta_pair, power_cuts_during_the_rebuild)
{
	for (uint64_t seed = 1; seed <= test_runs(40); seed++) {
		const uint32_t drive = (uint32_t)(seed % 4);

		store(seed, 4, true);
		put_some(80);
		rig_power_cut(&r);
		r.conf.drive[drive].nblocks = 0;
		wreck(drive);
		for (uint32_t cuts = 0; cuts < 12; cuts++) {
			r.cut_at = r.writes + 1 + rand_below(&r.rand, 150);
			if (rig_mount(&r) == 0)
				for (uint32_t n = 0; n < 20 && !r.cut; n++)
					(void)put((uint32_t)rand_below(&r.rand, FILES));
			if (!r.cut)
				rig_idle(&r);
			rig_power_cut(&r);
		}
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		all_is_there();
		rebuilt(drive);
		is_whole();
		rig_end(&r);
	}
}

/* All that is asked of it by a mount ends as of a drive that is gone, from some write on; perhaps
 * only headers of zones that the mount opens are written there.  Found by loss, seed 85. */
Test(meta_pair, drive_that_dies_during_a_mount)
{
	for (uint32_t i = 0; i < 120; i++) {
		const uint32_t drive = 1 + i / 2 % 2, writes = i / 4;

		store(9, 3, i % 2);
		put_some(60);
		rig_power_cut(&r);
		r.dying = 1u << drive;
		r.dies_at = r.writes + writes;
		if (rig_mount(&r) != 0) {
			rig_power_cut(&r);
			cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		}
		put_some(60);
		rebuilt(drive);
		is_whole();
		rig_end(&r);
	}
}

/* It was rebuilt, and is still given to mounts, which cannot read it: no loss is left. */
Test(meta_pair, dead_drive_that_is_gone_already_does_not_keep_another_from_being_lost)
{
	store(10, 4, true);
	put_some(60);
	r.dead = 1u << 1;
	put_some(60);
	rebuilt(1);
	r.never = 0;
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	put_some(20);
	r.dead |= 1u << 2;
	put_some(60);
	cr_assert(stat_of(2).lost || stat_of(2).gone);
	rebuilt(2);
	is_whole();
	rig_end(&r);
}

/* One after the other: each time the store is whole again before the next goes. */
Test(meta_pair, all_drives_but_two_go_one_after_the_other)
{
	store(5, 6, true);
	put_some(120);
	for (uint32_t drive = 0; drive < 4; drive++) {
		r.dead |= 1u << drive;
		wreck(drive);
		put_some(60);
		rebuilt(drive);
		cr_assert(stat_of(drive).gone, "drive %u", drive);
		is_whole();
		r.never = 0;
	}
	rig_end(&r);
}

Test(meta_pair, second_loss_freezes_the_store)
{
	uint32_t there = 0;

	store(6, 4, true);
	put_some(100);
	r.dead |= 1u << 1;
	while (!stat_of(1).lost)
		(void)put((uint32_t)rand_below(&r.rand, FILES));
	r.dead |= 1u << 2;
	for (uint32_t n = 0; n < 50 && meta_health(r.m) == 0; n++)
		(void)put((uint32_t)rand_below(&r.rand, FILES));
	cr_assert_eq(meta_health(r.m), -EROFS);
	rig_power_cut(&r);
	r.dead = 0;
	r.conf.drive[1].nblocks = r.conf.drive[2].nblocks = 0;
	cr_assert_eq(rig_mount(&r), -ENODEV);
	cr_assert_not_null(strstr(meta_error(r.m), "missing"), "%s", meta_error(r.m));
	rig_power_cut(&r);
	r.conf.drive[2].nblocks = DRIVE_BYTES / 4096;
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	for (uint32_t i = 0; i < FILES; i++) {
		uint64_t fill;
		uint32_t blocks;

		there += rig_get(&r, path_of(i), &blocks, &fill) == 0;
	}
	cr_assert(there > 10, "%u", there);
	rig_end(&r);
}

/* The drive that is there cannot know whether the other one has served alone since. */
Test(meta_pair, one_of_two_drives_starts_alone_only_if_it_is_told_to)
{
	store(7, 2, true);
	put_some(60);
	rig_power_cut(&r);
	r.conf.drive[0].nblocks = 0;
	cr_assert_eq(rig_mount(&r), -ENODEV, "%s", meta_error(r.m));
	rig_power_cut(&r);
	r.conf.drive[0].missing = true;
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	cr_assert_eq(meta_health(r.m), 0);
	all_is_there();
	put_some(60);
	rig_power_cut(&r);
	cr_assert_eq(rig_mount(&r), 0, "told once more: %s", meta_error(r.m));
	cr_assert_eq(meta_health(r.m), 0);
	all_is_there();
	rig_power_cut(&r);
	r.conf.drive[0].missing = false;
	cr_assert_eq(rig_mount(&r), 0, "now it knows: %s", meta_error(r.m));
	all_is_there();
	rig_power_cut(&r);
	r.conf.drive[0].nblocks = DRIVE_BYTES / 4096;
	cr_assert_eq(rig_mount(&r), 0, "the other one is not believed: %s", meta_error(r.m));
	cr_assert(stat_of(0).lost);
	is_whole();
	rig_end(&r);
}

Test(meta_pair, drive_that_was_missing_is_asked_for_nothing)
{
	store(8, 3, true);
	put_some(60);
	rig_power_cut(&r);
	r.conf.drive[1].nblocks = 0;
	r.never = 1u << 1; /* meta_pair.c (4); its roots, found by loss, seed 2750 */
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	r.conf.drive[1].nblocks = DRIVE_BYTES / 4096;
	put_some(20);
	rebuilt(1);
	r.never = 0;
	is_whole();
	rig_end(&r);
}

Test(meta_pair, drive_that_is_added_later_makes_it_whole)
{
	uint32_t added;

	for (uint64_t seed = 1; seed <= test_runs(10); seed++) {
		store(seed, 2, true);
		put_some(80);
		r.dead |= 1u;
		wreck(0);
		put_some(80);
		cr_assert(stat_of(0).lost);
		all_is_there();
		rig_idle(&r);
		cr_assert(rig_thin_zones(&r) > 0);
		added = rig_drive(&r, DRIVE_BYTES, true);
		cr_assert_eq(rig_drive_add(&r, added), 0, "%s", meta_error(r.m));
		put_some(40);
		rebuilt(0);
		cr_assert(!meta__geo_roots_on(&r.m->zones->geo, 0, 1) ||
				  !meta__geo_roots_on(&r.m->zones->geo, 1, 1),
			  "both copies of the roots are on one drive");
		is_whole();
		r.dead |= 2u; /* and now the other one of the first two */
		wreck(1);
		put_some(40);
		all_is_there();
		rig_end(&r);
	}
}

/* The others had not been told when it left; a mount without it tells them. */
Test(meta_pair, drive_that_comes_back_after_a_mount_without_it_is_not_believed)
{
	for (uint64_t seed = 1; seed <= test_runs(30); seed++) {
		const uint32_t drive = (uint32_t)(seed % 3);

		store(seed, 3, true);
		put_some(80);
		rig_power_cut(&r);
		r.conf.drive[drive].nblocks = 0;
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		put_some(3);
		rig_power_cut(&r);
		r.conf.drive[drive].nblocks = DRIVE_BYTES / 4096;
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		cr_assert(stat_of(drive).lost || stat_of(drive).gone);
		all_is_there();
		rebuilt(drive);
		is_whole();
		r.never = 0;
		rig_end(&r);
	}
}

/* Zones have been twins of others before; their headers still say so. */
Test(meta_pair, twin_of_an_earlier_life_is_not_read)
{
	const uint64_t bytes[] = { DRIVE_BYTES, DRIVE_BYTES, 3 * DRIVE_BYTES };

	for (uint64_t seed = 1; seed <= test_runs(8); seed++) {
		store_of(seed, 3, bytes, seed % 2);
		put_some(1500);
		rig_power_cut(&r);
		wreck((uint32_t)(seed % 2));
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		all_is_there();
		rebuilt((uint32_t)(seed % 2));
		is_whole();
		r.never = 0;
		rig_end(&r);
	}
}

static const char *full_path(uint32_t i)
{
	static char path[32];

	(void)snprintf(path, sizeof(path), "/full %u", i);
	return path;
}

/* A pair needs two drives, so a drive that is larger than all others together stays partly empty.
 * The files can use all blocks that statfs promises, and a full store survives the loss of a
 * drive. */
Test(meta_pair, files_fill_what_pairs_can_hold)
{
	const uint64_t sizes[][3] = { { 24u << 20, 24u << 20, 24u << 20 },
				      { 16u << 20, 16u << 20, 64u << 20 } };

	for (uint32_t k = 0; k < 2; k++) {
		uint64_t promised, had = 0, fill;
		uint32_t count = 0, blocks;
		struct meta_check check = { 0 };

		store_of(k + 1, 3, sizes[k], true);
		promised = rig_statfs(&r).blocks_free;
		cr_assert_lt(promised, 36u << 8); /* half of 72 MiB, or 32 MiB */
		while (rig_put(&r, full_path(count), 12, count + 1) == 0) {
			had += 12;
			count++;
		}
		cr_assert_geq(had + 600, promised, "%llu of %llu", (unsigned long long)had,
			      (unsigned long long)promised);
		cr_assert_lt(rig_statfs(&r).blocks_free, 600u);
		r.dead = 1u << 1;
		wreck(1);
		cr_assert(meta_drive_failed(r.m, 1));
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
		cr_assert_eq(rig_check(&r, &check), 0, "%s", check.first[0]);
		rig_end(&r);
	}
}

/* It is not even in the tables yet, or not any more. */
Test(meta_pair, drive_that_is_pulled_while_it_is_added_or_the_store_starts)
{
	for (uint32_t copies = 1; copies <= 2; copies++) {
		uint32_t added;

		rig_make(&r, copies, 3, DRIVE_BYTES, 4, true);
		r.conf.copies = copies;
		cr_assert_eq(rig_format(&r), 0, "%s", meta_error(r.m));
		added = rig_drive(&r, DRIVE_BYTES, true);
		r.bad_supers = 1u << added;
		cr_assert_eq(rig_drive_add(&r, added), -EIO);
		cr_assert_eq(meta_health(r.m), 0);
		rig_power_cut(&r);
		r.bad_supers = 0;
		r.dead = 1u << 2;
		cr_assert_eq(rig_mount(&r), copies > 1 ? 0 : -EIO, "%s", meta_error(r.m));
		rig_end(&r);
	}
}

/* The first one that was to be added could not be written; the next one has more zones. */
/* Found by loss, seed 182. */
Test(meta_pair, drive_is_lost_after_another_one_died_while_it_was_added)
{
	uint32_t added;

	store(1, 3, true);
	put_some(60);
	added = rig_drive(&r, DRIVE_BYTES, true);
	r.dead = 1u << added;
	cr_assert_eq(rig_drive_add(&r, added), -EIO);
	cr_assert_eq(meta_health(r.m), 0, "%s", meta_error(r.m));
	r.conf.ndrives = added;
	r.dead = 1u << 1;
	cr_assert(meta_drive_failed(r.m, 1));
	put_some(60);
	rebuilt(1);
	is_whole();
	rig_end(&r);
}

Test(meta_pair, larger_drive_is_added_after_one_that_failed)
{
	uint32_t added;

	store(1, 2, true);
	added = rig_drive(&r, DRIVE_BYTES, true);
	r.bad_supers = 1u << added;
	cr_assert_eq(rig_drive_add(&r, added), -EIO);
	r.bad_supers = 0;
	free(r.image[added]);
	free(r.view[added]);
	r.ndrives--;
	cr_assert_eq(rig_drive(&r, 8 * DRIVE_BYTES, true), added);
	cr_assert_eq(rig_drive_add(&r, added), 0, "%s", meta_error(r.m));
	for (uint32_t d = 0; d <= added; d++)
		cr_assert_eq(meta_twins(r.m)->drive[d].count, r.m->zones->geo.zone_count[d]);
	put_some(400);
	is_whole();
	rig_end(&r);
}
