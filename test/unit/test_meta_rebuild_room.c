/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * While a drive is rebuilt files can take all the room that statfs promises, at whatever moment the
 * rebuild ends: the room for the next loss, kept from then on, is not in it (meta_space.c (7)).
 */
#include "test/unit/meta_fold_store.h"

TestSuite(meta_rebuild_room, .timeout = 600);

#define FILE_BLOCKS 12u
#define BRIM_ZONES  6u /* some are not quite full, and the index takes a few: meta_space.c (2) */

static uint32_t files;

static const char *fill_path(uint32_t i)
{
	static char path[32];

	(void)snprintf(path, sizeof(path), "/fill %u", i);
	return path;
}

/* Writes files of so many blocks in all.  Returns how many blocks had no room. */
static uint64_t fill(uint64_t blocks)
{
	const uint64_t all = blocks - blocks % FILE_BLOCKS;
	uint64_t n = 0;

	while (n < all && rig_put(&r, fill_path(files), FILE_BLOCKS, 7 + files) == 0) {
		n += FILE_BLOCKS;
		files++;
	}
	return all - n;
}

static void fills_are_there(void)
{
	for (uint32_t i = 0; i < files; i++) {
		uint32_t got;
		uint64_t fill;

		cr_assert_eq(rig_get(&r, fill_path(i), &got, &fill), 0);
		cr_assert_eq(fill, 7 + i);
	}
}

/* Makes a store, and fills this share of it. */
static void store_in_which(uint32_t drives, uint32_t width, uint32_t percent)
{
	uint64_t bytes[RIG_DRIVES_MAX];

	for (uint32_t d = 0; d < drives; d++)
		bytes[d] = 2 * DRIVE_BYTES;
	rig_make_of(&r, drives, drives, bytes, 4, drives % 2);
	r.conf.copies = 2;
	r.conf.fold = width;
	r.conf.spare_drives = META_SPARE_AUTO;
	r.copied = true;
	files = 0;
	cr_assert_eq(rig_format(&r), 0, "%s", meta_error(r.m));
	cr_assert_eq(fill(rig_statfs(&r).blocks_free * percent / 100), 0);
	if (width)
		fold();
	rig_idle(&r);
}

/* It loses a drive, and is filled while that is rebuilt: slowly, or as fast as it can be.  Returns
 * how many of the blocks that statfs promised had no room. */
static uint64_t promised_in_vain(uint32_t drives, uint32_t width, uint32_t percent, bool slow)
{
	uint64_t before, promised, brim, vain;

	store_in_which(drives, width, percent);
	before = rig_statfs(&r).blocks_free;
	brim = BRIM_ZONES * (uint64_t)(r.m->zones->geo.zone_end - 1);
	if (slow)
		meta_rebuild_pace(r.m, 1, 0);
	r.dead = 1;
	cr_assert(meta_drive_failed(r.m, 0));
	for (uint32_t turns = 0; turns < 40; turns++)
		(void)rig_step(&r);
	cr_assert(!stat_of(0).gone);
	promised = rig_statfs(&r).blocks_free;
	if (drives > 3)
		cr_assert_leq(promised, before); /* two drives keep no room for a loss */
	vain = fill(promised > brim ? promised - brim : 0);
	meta_rebuild_pace(r.m, 8, META_PACE_FREE);
	for (uint32_t turns = 0; turns < 300 && !stat_of(0).gone; turns++)
		rig_idle(&r);
	cr_assert(stat_of(0).gone);
	fills_are_there();
	folds_are_right();
	rig_end(&r);
	return vain;
}

/* Two drives that are left keep no room for a loss: files get it only as the rebuild frees it, so
 * a slow rebuild of three drives is not tried. */
Test(meta_rebuild_room, what_statfs_promises_can_be_written)
{
	for (uint32_t drives = 3; drives <= RIG_DRIVES_MAX; drives++)
		for (uint32_t percent = 20; percent <= 95; percent += 25)
			for (uint32_t k = 0; k < (drives > 3 ? 4 : 2); k++)
				cr_assert_eq(promised_in_vain(drives, k % 2 ? drives - 1 : 0,
							      percent, k / 2),
					     0, "%u drives, %u %%, %u", drives, percent, k);
}
