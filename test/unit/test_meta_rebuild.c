/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Live data that a store moves from a drive: how much is left, and whether the others have room
 * for it. */
#include "test/lib/meta_rig.h"
#include "meta/meta_rebuild.h"
#include "meta/engine/meta_pair.h"
#include "meta/ops/meta_gc.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>

#define DRIVE_BYTES (16u << 20)
#define FILE_BLOCKS 12u

static struct rig r;
static uint32_t files;

TestSuite(meta_rebuild, .timeout = 300);

static void store(uint64_t seed, uint32_t ndrives, uint32_t copies)
{
	rig_make(&r, seed, ndrives, DRIVE_BYTES, 4, true);
	r.conf.copies = copies;
	r.copied = copies > 1;
	files = 0;
	cr_assert_eq(rig_format(&r), 0, "%s", meta_error(r.m));
}

static const char *path_of(uint32_t i)
{
	static char path[32];

	(void)snprintf(path, sizeof(path), "/file %u", i);
	return path;
}

/* As many files as this share of what fits; the number that the whole store takes is returned. */
static uint32_t fill(uint32_t percent)
{
	const uint32_t all = (uint32_t)(rig_statfs(&r).blocks_free * percent / 100 / FILE_BLOCKS);

	while (files < all && rig_put(&r, path_of(files), FILE_BLOCKS, files + 1) == 0)
		files++;
	return all;
}

static struct meta_rebuild seen(void)
{
	struct meta_rebuild s;

	meta_rebuild_count(r.m, &s);
	return s;
}

static struct meta_drive_stat stat_of(uint32_t drive)
{
	struct meta_drive_stat s;

	meta_drive_stat(r.m, drive, &s);
	return s;
}

static void runs_to_its_end(uint32_t drive)
{
	for (uint32_t turns = 0; turns < 300 && !stat_of(drive).gone; turns++)
		rig_idle(&r);
}

static void lose(uint32_t drive)
{
	r.dead = 1u << drive;
	cr_assert(meta_drive_failed(r.m, drive));
	while (r.m->losing)
		(void)rig_step(&r);
}

static void all_is_there(void)
{
	uint64_t fill_of;
	uint32_t blocks;

	for (uint32_t i = 0; i < files; i++) {
		cr_assert_eq(rig_get(&r, path_of(i), &blocks, &fill_of), 0);
		cr_assert_eq(fill_of, i + 1);
	}
}

Test(meta_rebuild, store_that_is_whole_says_nothing)
{
	store(1, 3, 2);
	fill(20);
	cr_assert_eq(seen().what, META_REBUILD_NONE);
	cr_assert_eq(seen().left_blocks, 0);
	rig_end(&r);
}

Test(meta_rebuild, what_is_left_falls_to_nothing)
{
	uint64_t left;

	store(2, 4, 2);
	fill(30);
	lose(1);
	cr_assert_eq(seen().what, META_REBUILD_LOST);
	cr_assert_eq(seen().drive, 1);
	cr_assert_eq(seen().short_blocks, 0);
	left = seen().left_blocks;
	cr_assert_gt(left, files * FILE_BLOCKS / 8);
	for (uint32_t steps = 0; steps < 1000000 && seen().what != META_REBUILD_NONE; steps++) {
		cr_assert_leq(seen().left_blocks, left);
		left = seen().left_blocks;
		(void)rig_step(&r);
	}
	cr_assert_eq(left, 0);
	cr_assert(stat_of(1).gone);
	all_is_there();
	rig_end(&r);
}

/* A loss that lacks room at its beginning does not end, and one that does not end says what it
 * lacks; removing files makes room. */
Test(meta_rebuild, loss_that_does_not_end_says_what_it_lacks)
{
	uint32_t ended = 0, stuck = 0;

	for (uint32_t percent = 40; percent <= 100; percent += 4) {
		const uint32_t drive = percent / 4 % 3;
		struct meta_rebuild at_first;

		store(percent, 3, 2);
		fill(percent);
		lose(drive);
		at_first = seen();
		runs_to_its_end(drive);
		ended += stat_of(drive).gone;
		stuck += !stat_of(drive).gone;
		cr_assert(at_first.short_blocks == 0 || !stat_of(drive).gone, "%u per cent",
			  percent);
		cr_assert(stat_of(drive).gone || seen().tight_blocks > 0, "%u per cent: %u of %u",
			  percent, (uint32_t)seen().left_blocks, files * FILE_BLOCKS);
		while (!stat_of(drive).gone && files > 0) {
			cr_assert_eq(rig_unlink(&r, path_of(--files)), 0);
			if (seen().short_blocks == 0)
				runs_to_its_end(drive);
			cr_assert(stat_of(drive).gone || seen().tight_blocks > 0);
		}
		cr_assert(stat_of(drive).gone);
		all_is_there();
		rig_end(&r);
	}
	cr_assert_geq(ended, 3);
	cr_assert_geq(stuck, 3);
}

Test(meta_rebuild, drain_is_told_of_like_a_loss)
{
	store(7, 2, 1);
	fill(30);
	cr_assert_eq(meta_drive_drain(r.m, 0), 0);
	while (seen().what == META_REBUILD_NONE)
		(void)rig_step(&r);
	cr_assert_eq(seen().what, META_REBUILD_DRAIN);
	cr_assert_eq(seen().drive, 0);
	cr_assert_eq(seen().short_blocks, 0);
	cr_assert(!seen().alone);
	runs_to_its_end(0);
	cr_assert(stat_of(0).gone);
	cr_assert_eq(seen().what, META_REBUILD_NONE);
	all_is_there();
	rig_end(&r);
}

Test(meta_rebuild, one_drive_alone_has_no_place_for_second_copies)
{
	uint32_t added;

	store(9, 2, 2);
	fill(20);
	lose(0);
	rig_idle(&r);
	cr_assert_eq(seen().what, META_REBUILD_LOST);
	cr_assert(seen().alone);
	cr_assert_gt(seen().left_blocks, 0);
	added = rig_drive(&r, DRIVE_BYTES, true);
	cr_assert_eq(rig_drive_add(&r, added), 0, "%s", meta_error(r.m));
	cr_assert(!seen().alone);
	runs_to_its_end(0);
	for (uint32_t turns = 0; turns < 300 && seen().what != META_REBUILD_NONE; turns++)
		rig_idle(&r);
	cr_assert_eq(seen().what, META_REBUILD_NONE);
	all_is_there();
	rig_end(&r);
}

static int64_t moved_blocks(void)
{
	return (int64_t)r.m->gc->moved_blocks;
}

/* It rests after this many blocks, and moves one extent at a time if told so; changes go on. */
Test(meta_rebuild, pace_is_kept)
{
	uint32_t most = 0;
	int64_t before;

	store(13, 4, 2);
	fill(30);
	meta_rebuild_pace(r.m, 1, 0);
	lose(1);
	rig_idle(&r);
	cr_assert_eq(moved_blocks(), 0);
	cr_assert(!stat_of(1).gone);
	for (uint32_t n = 0; n < 20; n++) {
		before = moved_blocks();
		meta_rebuild_pace(r.m, 1, meta_rebuild_credit(r.m) + 20);
		while (rig_step(&r))
			most = most > r.m->gc->moving ? most : r.m->gc->moving;
		cr_assert_leq(moved_blocks() - before, 20 + FILE_BLOCKS);
		cr_assert_eq(rig_put(&r, path_of(files), FILE_BLOCKS, files + 1), 0);
		files++;
	}
	cr_assert_gt(moved_blocks(), 20 * 20 / 2);
	cr_assert_leq(moved_blocks(), 20 * 20 + 2 * (int64_t)FILE_BLOCKS);
	cr_assert_eq(most, 1);
	meta_rebuild_pace(r.m, UINT32_MAX, META_PACE_FREE);
	while (rig_step(&r))
		most = most > r.m->gc->moving ? most : r.m->gc->moving;
	cr_assert_gt(most, 1);
	runs_to_its_end(1);
	cr_assert(stat_of(1).gone);
	all_is_there();
	rig_end(&r);
}

/* New data that waits for zones gets them, though the drain rests. */
Test(meta_rebuild, pace_does_not_hold_up_collection)
{
	uint32_t all;

	store(14, 3, 1);
	all = fill(55);
	cr_assert_eq(meta_drive_drain(r.m, 2), 0);
	meta_rebuild_pace(r.m, 1, 1);
	for (uint32_t n = 0; n < 3 * all; n++) { /* one goes, another comes */
		const uint32_t i = (uint32_t)rand_below(&r.rand, files);

		cr_assert_eq(rig_unlink(&r, path_of(i)), 0);
		cr_assert_eq(rig_put(&r, path_of(i), FILE_BLOCKS, i + 1), 0, "%u of %u: %s", n,
			     3 * all, meta_error(r.m));
		if (meta_rebuild_credit(r.m) > 0)
			meta_rebuild_pace(r.m, 1, 0);
	}
	meta_rebuild_pace(r.m, UINT32_MAX, META_PACE_FREE);
	all_is_there();
	rig_end(&r);
}
