/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Full stores of folds, in which files come and go.  One drive is lost or drained, and the others
 * have room for its data.
 */
#include "test/lib/runs.h"
#include "test/unit/meta_fold_store.h"

TestSuite(meta_fold_full, .timeout = 600);

#define FILL_MAX 2000u

static uint64_t fill_at[FILL_MAX]; /* of each file; 0: it is not there */
static uint32_t files;
static uint64_t drive_bytes = DRIVE_BYTES;

static const char *fill_path(uint32_t i)
{
	static char path[32];

	(void)snprintf(path, sizeof(path), "/fill %u", i);
	return path;
}

static void empty_store_of(uint64_t seed, uint32_t drives, const uint64_t *bytes, uint32_t width,
			   uint32_t spare)
{
	rig_make_of(&r, seed, drives, bytes, 4, seed % 2);
	r.conf.copies = 2;
	r.conf.fold = width;
	r.conf.spare_drives = spare;
	r.copied = true;
	memset(fill_at, 0, sizeof(fill_at));
	files = 0;
	cr_assert_eq(rig_format(&r), 0, "%s", meta_error(r.m));
}

static void empty_store(uint64_t seed, uint32_t drives, uint32_t width, uint32_t spare)
{
	uint64_t bytes[RIG_DRIVES_MAX];

	for (uint32_t d = 0; d < drives; d++)
		bytes[d] = drive_bytes;
	empty_store_of(seed, drives, bytes, width, spare);
}

/* Puts so many files, or those that there is room for. */
static void fill(uint32_t count)
{
	int err = 0;

	while (err == 0 && files < count) {
		err = rig_put(&r, fill_path(files), 12, 7 + files);
		fill_at[files] = err ? 0 : 7 + files;
		files += err == 0;
	}
	cr_assert(err == 0 || err == -ENOSPC, "%d", err);
}

static void full_store(uint64_t seed, uint32_t drives, uint32_t width, uint32_t spare)
{
	empty_store(seed, drives, width, spare);
	fill(FILL_MAX);
	cr_assert_lt(files, FILL_MAX);
}

/* One file goes, and another one comes, if there is room.  Returns how often there was none. */
static uint32_t churn(uint32_t count)
{
	uint32_t refused = 0;

	for (uint32_t n = 0; n < count; n++) {
		const uint32_t k = (uint32_t)rand_below(&r.rand, files);
		int err = rig_unlink(&r, fill_path(k));

		cr_assert_eq(err, fill_at[k] ? 0 : -ENOENT);
		fill_at[k] = 0;
		err = rig_put(&r, fill_path(k), 12, 5000 + n);
		cr_assert(err == 0 || err == -ENOSPC, "%d", err);
		refused += err != 0;
		fill_at[k] = err ? 0 : 5000 + n;
	}
	return refused;
}

static void fills_are_there(void)
{
	for (uint32_t i = 0; i < files; i++) {
		uint32_t got;
		uint64_t fill;

		if (fill_at[i] == 0)
			continue;
		cr_assert_eq(rig_get(&r, fill_path(i), &got, &fill), 0);
		cr_assert_eq(fill, fill_at[i]);
	}
}

/* Returns whether it left. */
static bool loses(uint32_t drive)
{
	r.dead = 1u << drive;
	cr_assert(meta_drive_failed(r.m, drive));
	for (uint32_t turns = 0; turns < 300 && !stat_of(drive).gone; turns++)
		rig_idle(&r);
	return stat_of(drive).gone;
}

/* Room is kept for one drive, and so the rebuild ends: no checkpoint is asked for here. */
Test(meta_fold_full, stores_that_had_changes_are_rebuilt)
{
	for (uint64_t seed = 1; seed <= 2; seed++)
		for (uint32_t drives = 3; drives <= RIG_DRIVES_MAX; drives++)
			for (uint32_t width = 2; width < drives; width++) {
				const uint32_t drive = (uint32_t)seed % drives;

				full_store(seed, drives, width, META_SPARE_AUTO);
				(void)churn(2 * files);
				cr_assert(loses(drive), "seed %llu, %u drives, width %u: %u zones",
					  (unsigned long long)seed, drives, width,
					  stat_of(drive).zones_used);
				cr_assert_eq(rig_thin_zones(&r), 0);
				fills_are_there();
				folds_are_right();
				rig_end(&r);
			}
}

/* The larger ones have zones that are in no fold; the least decides how many folds there are. */
Test(meta_fold_full, drives_of_different_size_are_rebuilt)
{
	static const uint64_t bytes[][5] = {
		{ 14 << 20, 6 << 20, 8 << 20, 14 << 20, 6 << 20 },
		{ 6 << 20, 8 << 20, 8 << 20, 16 << 20, 16 << 20 },
		{ 4 << 20, 18 << 20, 6 << 20, 18 << 20, 6 << 20 },
	};

	for (uint64_t seed = 0; seed < test_runs(24); seed++) {
		const uint32_t drive = (uint32_t)seed % 5, width = 2 + (uint32_t)(seed / 2 % 3);

		empty_store_of(seed, 5, bytes[seed / 8], width, META_SPARE_AUTO);
		fill(FILL_MAX);
		(void)churn(files);
		cr_assert(loses(drive), "seed %llu, width %u: %u zones", (unsigned long long)seed,
			  width, stat_of(drive).zones_used);
		cr_assert_eq(rig_thin_zones(&r), 0);
		fills_are_there();
		folds_are_right();
		rig_end(&r);
	}
}

/* Returns how many files are there in the end, of each hundred. */
static uint32_t left_after_churn(uint32_t drives, uint32_t width, uint32_t spare)
{
	uint32_t there = 0;

	full_store(drives, drives, width, spare);
	(void)churn(2 * files);
	for (uint32_t i = 0; i < files; i++)
		there += fill_at[i] != 0;
	folds_are_right();
	rig_end(&r);
	return there * 100 / files;
}

Test(meta_fold_full, files_take_the_room_of_others_that_go)
{
	for (uint32_t drives = 3; drives <= RIG_DRIVES_MAX; drives++) {
		for (uint32_t width = 2; width < drives; width++)
			cr_assert_gt(left_after_churn(drives, width, 0), 92, "%u, %u", drives,
				     width);
		cr_assert_gt(left_after_churn(drives, drives - 1, 1), 96, "%u", drives);
	}
}

/* From drives whose folds are wider than those of the rest.  Returns whether it was accepted. */
static bool drains_of(uint64_t seed, uint32_t drives, uint32_t width, uint32_t count)
{
	const uint32_t drive = (uint32_t)seed % drives;
	int err;

	empty_store(seed, drives, width, 0);
	fill(count);
	fold();
	err = meta_drive_drain(r.m, drive);
	cr_assert(err == 0 || err == -ENOSPC, "%d", err);
	for (uint32_t turns = 0; err == 0 && turns < 300 && !stat_of(drive).gone; turns++)
		rig_idle(&r);
	cr_assert(err || stat_of(drive).gone, "seed %llu, %u drives, %u files: %u zones in use",
		  (unsigned long long)seed, drives, files, stat_of(drive).zones_used);
	fills_are_there();
	folds_are_right();
	rig_end(&r);
	return err == 0;
}

Test(meta_fold_full, drains_that_are_accepted_end)
{
	for (uint32_t drives = 3; drives <= 6; drives++) {
		uint32_t count, most;
		bool fits = true;

		drive_bytes = (drives < 5 ? 3 : 2) * DRIVE_BYTES;
		empty_store(drives, drives, drives - 1, 0);
		fill(FILL_MAX);
		most = files;
		rig_end(&r);
		for (count = most / 4; fits && count <= most; count += max_u32(1, most / 20))
			fits = drains_of(drives, drives, drives - 1, count);
		cr_assert(!fits);
		cr_assert_gt(count, most / 4 + most / 20);
	}
}

/* The drives that stay have no folds, or narrower ones.  In a large store the log is a small part;
 * here its limit is set so. */
Test(meta_fold_full, drain_is_refused_that_leaves_too_little_room_for_narrower_folds)
{
	drive_bytes = 3 * DRIVE_BYTES;
	for (uint32_t drives = 3; drives <= 5; drives++) {
		const uint32_t left = drives - 1, width = left - 1;
		uint64_t zones, groups;

		empty_store(drives, drives, drives - 1, 0);
		fill(FILL_MAX);
		fold();
		r.m->zones->geo.log_zones_max = 4;
		while (meta_drive_drain(r.m, 0)) {
			files--;
			cr_assert_eq(rig_unlink(&r, fill_path(files)), 0);
		}
		zones = div_up(r.m->zones->live_blocks, r.m->zones->geo.zone_end - 1);
		groups = meta__groups_total(r.m) * (drives - 1) / drives -
			 div_up(r.m->zones->live_pages, r.m->zones->geo.zone_pages);
		if (width == 1)
			cr_assert_leq(zones, groups);
		else
			cr_assert_leq(zones * left, 2 * groups * width);
		rig_end(&r);
	}
}

/* When one of three drives is lost the others hold pairs, so files leave room for those. */
Test(meta_fold_full, room_is_kept_for_the_folds_of_the_drives_that_stay)
{
	empty_store(1, 3, 2, META_SPARE_AUTO);
	cr_assert_eq(meta__fold_zones_left(r.m, 100), 100);
	rig_end(&r);
	empty_store(1, 3, 2, 0);
	cr_assert_gt(meta__fold_zones_left(r.m, 100), 110);
	rig_end(&r);
}

static int protect(uint32_t width)
{
	struct meta_op op = { .type = META_OP_DRIVE, .flags = META_PROTECT, .length = width };

	return rig_run(&r, &op);
}

/* Files go until the store takes other folds, or has folds at all.  Each refusal says how many
 * blocks have no room, and changes nothing.  Returns how many files went. */
static uint32_t protect_when_it_fits(uint32_t width)
{
	const uint32_t was = r.m->fold;
	uint32_t gone = 0;
	int err;

	while ((err = protect(width)) == -ENOSPC) {
		const uint64_t missing = rig_statfs(&r).protect_missing_blocks;

		cr_assert_gt(missing, 0);
		cr_assert_eq(r.m->fold, was);
		for (uint64_t blocks = 0; blocks < missing && gone < files; gone++) {
			blocks += fill_at[gone] ? 12 : 0;
			cr_assert_eq(rig_unlink(&r, fill_path(gone)), fill_at[gone] ? 0 : -ENOENT);
			fill_at[gone] = 0;
		}
		cr_assert_lt(gone, files);
	}
	cr_assert_eq(err, 0);
	cr_assert_eq(r.m->fold, width);
	cr_assert_eq(rig_statfs(&r).protect_missing_blocks, 0);
	return gone;
}

/* Each file that is there is replaced, some more than once.  Returns how often there was no
 * room. */
static uint32_t replace(uint32_t count)
{
	uint32_t refused = 0;

	for (uint32_t n = 0; n < count; n++) {
		const uint32_t k = n % files;

		if (fill_at[k] == 0)
			continue;
		cr_assert_eq(rig_unlink(&r, fill_path(k)), 0);
		fill_at[k] = 0;
		if (rig_put(&r, fill_path(k), 12, 9000 + n) != 0)
			refused++;
		else
			fill_at[k] = 9000 + n;
	}
	return refused;
}

/* As many folds as the drives allow, in place of the pairs of a full store.  Returns how many files
 * it had; in the end it has as many as there is room for. */
static uint32_t mirror_is_folded(uint64_t seed, uint32_t drives)
{
	uint32_t before;

	full_store(seed, drives, 0, seed % 2 ? META_SPARE_AUTO : 0);
	if (seed % 3)
		(void)churn(files);
	before = files;
	cr_assert_eq(protect(drives), drives > META_FOLD_MAX ? -EINVAL : -EPERM);
	(void)protect_when_it_fits(drives - 1);
	(void)churn(20);
	rig_idle(&r);
	fold();
	fold();
	fill(FILL_MAX);
	fills_are_there();
	(void)churn(files);
	return before;
}

Test(meta_fold_full, full_mirror_is_folded)
{
	for (uint64_t seed = 1; seed <= 2; seed++)
		for (uint32_t drives = 3; drives <= RIG_DRIVES_MAX; drives++) {
			const uint32_t drive = (uint32_t)seed % drives;

			cr_assert_leq(mirror_is_folded(seed, drives), files);
			if (seed % 2)
				cr_assert(loses(drive), "%u drives: %u zones", drives,
					  stat_of(drive).zones_used);
			fills_are_there();
			rig_end(&r);
		}
}

/* With room for one drive, that is: without it folds fill the store to the last zone.  Returns how
 * many files could not be replaced then. */
static uint32_t narrower_when_it_fits(uint64_t seed, uint32_t drives, uint32_t from, uint32_t width)
{
	uint32_t refused;

	full_store(seed, drives, from, META_SPARE_AUTO);
	(void)churn(files);
	fold();
	(void)protect_when_it_fits(width);
	refused = replace(2 * files);
	fills_are_there();
	folds_are_right();
	rig_end(&r);
	return refused;
}

Test(meta_fold_full, all_can_be_replaced_when_other_folds_are_accepted)
{
	for (uint64_t seed = 1; seed <= 2; seed++)
		for (uint32_t drives = 4; drives <= RIG_DRIVES_MAX; drives++)
			for (uint32_t width = 2; width < drives - 1; width++)
				cr_assert_eq(narrower_when_it_fits(seed, drives, drives - 1, width),
					     0, "seed %u, %u drives, to %u", (uint32_t)seed, drives,
					     width);
	cr_assert_eq(narrower_when_it_fits(1, 3, 0, 2), 0);
}

/* Files do not take the room that the folds will need, while the superblocks are written. */
Test(meta_fold_full, room_of_narrower_folds_is_left_while_they_are_asked_for)
{
	struct meta_statfs before, during;

	empty_store(1, 6, 5, META_SPARE_AUTO);
	fill(200);
	rig_idle(&r);
	meta__statfs_space(r.m, &before);
	cr_assert_eq(meta_fold(r.m, 2), 0);
	meta__statfs_space(r.m, &during);
	cr_assert_eq(r.m->fold, 5); /* it is being written */
	rig_idle(&r);
	cr_assert_eq(r.m->fold, 2);
	cr_assert_leq(during.blocks_free, rig_statfs(&r).blocks_free);
	cr_assert_lt(during.blocks_free, before.blocks_free * 9 / 10);
	cr_assert_geq(during.blocks_free, before.blocks_free / 2);
	cr_assert_eq(r.m->zones->yielded, 0);
	rig_end(&r);
}

Test(meta_fold_full, narrower_folds_of_a_full_store_are_refused)
{
	for (uint32_t spare = 0; spare < 2; spare++)
		for (uint32_t drives = 5; drives <= RIG_DRIVES_MAX; drives++) {
			full_store(drives, drives, drives - 1, spare);
			(void)churn(files);
			fold();
			cr_assert_eq(protect(2), -ENOSPC);
			cr_assert_eq(replace(files), 0);
			cr_assert_gt(protect_when_it_fits(2), files / 20);
			rig_end(&r);
		}
}

Test(meta_fold_full, folds_get_narrower)
{
	for (uint64_t seed = 1; seed <= 2; seed++)
		for (uint32_t drives = 5; drives <= RIG_DRIVES_MAX; drives++) {
			const uint32_t drive = (uint32_t)seed % drives;

			full_store(seed, drives, drives - 1, META_SPARE_AUTO);
			(void)churn(files);
			(void)protect_when_it_fits(2);
			rig_idle(&r);
			(void)churn(files / 4);
			cr_assert(loses(drive), "%u drives: %u zones", drives,
				  stat_of(drive).zones_used);
			fills_are_there();
			rig_end(&r);
		}
}
