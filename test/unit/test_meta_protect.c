/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A store of one copy gets a second copy of each block while it serves: nothing is lost, whenever
 * the power fails, and when it has ended any drive may be lost.
 */
#include "meta/meta_protect.h"
#include "meta/meta_rebuild.h"
#include "meta/engine/meta_log.h"
#include "test/lib/runs.h"
#include "test/unit/meta_pair_store.h"

TestSuite(meta_protect, .timeout = 300);

static void of_one_copy(uint64_t seed, uint32_t ndrives, bool volatile_cache)
{
	rig_make(&r, seed, ndrives, DRIVE_BYTES, 4, volatile_cache);
	memset(fill_of, 0, sizeof(fill_of));
	memset(unsure, 0, sizeof(unsure));
	fills = 0;
	r.copied = false;
	cr_assert_eq(rig_format(&r), 0, "%s", meta_error(r.m));
}

static int protect(void)
{
	struct meta_op op = { .type = META_OP_DRIVE, .flags = META_PROTECT };

	return rig_run(&r, &op);
}

/* Until each block has two copies. */
static void converted(void)
{
	for (uint32_t turns = 0; turns < 300 && rig_statfs(&r).converts; turns++)
		rig_idle(&r);
	cr_assert(!rig_statfs(&r).converts, "%llu blocks have one copy; %s",
		  (unsigned long long)rig_statfs(&r).lone_blocks, meta_error(r.m));
	cr_assert_eq(rig_statfs(&r).copies, 2);
	cr_assert_eq(rig_thin_zones(&r), 0);
}

static void loses(uint32_t drive)
{
	r.copied = true;
	r.dead |= 1u << drive;
	wreck(drive);
	put_some(40);
	cr_assert(stat_of(drive).lost || stat_of(drive).gone);
	is_whole();
}

Test(meta_protect, a_drive_may_be_lost_afterwards)
{
	for (uint64_t seed = 1; seed <= test_runs(24); seed++) {
		of_one_copy(seed, 2 + (uint32_t)(seed % 3), seed % 2);
		put_some(100);
		cr_assert_eq(rig_statfs(&r).copies, 1);
		cr_assert_eq(protect(), 0, "%s", meta_error(r.m));
		cr_assert(rig_statfs(&r).converts && rig_statfs(&r).lone_blocks > 0);
		put_some(60);
		converted();
		is_whole();
		if (seed % 4 == 0) {
			cr_assert_eq(rig_stop(&r), 0);
			cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
			cr_assert(!rig_statfs(&r).converts);
			cr_assert_eq(rig_thin_zones(&r), 0);
		}
		cr_assert_eq(protect(), -EALREADY);
		loses((uint32_t)(seed % 2));
		rig_end(&r);
	}
}

Test(meta_protect, power_cuts_lose_nothing)
{
	uint32_t ended = 0;

	for (uint64_t seed = 1; seed <= test_runs(60); seed++) {
		bool asked = false;

		of_one_copy(seed, 2 + (uint32_t)(seed % 3), true);
		r.cut_garbles = seed % 5 == 0;
		put_some(60);
		for (uint32_t cuts = 0; cuts < 10; cuts++) {
			r.cut_at = r.writes + 1 + rand_below(&r.rand, 400);
			if (!r.cut && (!asked || rig_statfs(&r).copies == 1))
				(void)protect();
			asked = true;
			for (uint32_t n = 0; n < 10 && !r.cut; n++)
				(void)put((uint32_t)rand_below(&r.rand, FILES));
			if (!r.cut)
				rig_idle(&r);
			rig_power_cut(&r);
			cr_assert_eq(rig_mount(&r), 0, "seed %llu: %s", (unsigned long long)seed,
				     meta_error(r.m));
			all_is_there();
			ended += rig_statfs(&r).copies == 2 && !rig_statfs(&r).converts;
		}
		r.cut_at = 0;
		if (rig_statfs(&r).copies == 1)
			cr_assert_eq(protect(), 0, "%s", meta_error(r.m));
		converted();
		is_whole();
		loses((uint32_t)(seed % 2));
		rig_end(&r);
	}
	cr_assert(ended > 20, "%u", ended);
}

/* While it converts: the drive that dies has the only copy of much. */
Test(meta_protect, no_drive_is_lost_before_it_has_two_copies)
{
	for (uint64_t seed = 1; seed <= test_runs(20); seed++) {
		const uint32_t drive = (uint32_t)(seed % 3);

		of_one_copy(seed, 3, seed % 2);
		put_some(100);
		cr_assert_eq(protect(), 0);
		cr_assert(!meta_drive_failed(r.m, drive));
		cr_assert(rig_statfs(&r).converts);
		r.copied = true;
		r.dead = 1u << drive;
		for (uint32_t n = 0; n < 40; n++)
			(void)put((uint32_t)rand_below(&r.rand, FILES));
		rig_idle(&r);
		cr_assert(rig_statfs(&r).converts);
		cr_assert(!stat_of(drive).lost && !stat_of(drive).gone);
		rig_kill(&r);
		r.conf.drive[drive].nblocks = 0;
		cr_assert_neq(rig_mount(&r), 0, "without the drive");
		rig_kill(&r);
		r.dead = 0;
		r.conf.drive[drive].nblocks = DRIVE_BYTES / 4096;
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		all_is_there();
		converted();
		is_whole();
		loses(drive);
		rig_end(&r);
	}
}

Test(meta_protect, a_store_that_is_too_full_is_refused)
{
	uint32_t files = 0;
	char path[32];

	of_one_copy(7, 2, true);
	cr_assert_eq(rig_mkdir(&r, "/fill"), 0);
	for (int err = 0; !err; files += !err) {
		(void)snprintf(path, sizeof(path), "/fill/%u", files);
		err = rig_put(&r, path, 8, files + 1);
	}
	cr_assert_eq(protect(), -ENOSPC);
	cr_assert_eq(rig_statfs(&r).copies, 1);
	for (uint32_t i = 0; i < files - files / 5; i++) {
		(void)snprintf(path, sizeof(path), "/fill/%u", i);
		cr_assert_eq(rig_unlink(&r, path), 0);
	}
	rig_idle(&r);
	cr_assert_eq(protect(), 0, "%s", meta_error(r.m));
	converted();
	for (uint32_t i = files - files / 5; i < files; i++) {
		uint64_t fill = 0;
		uint32_t blocks;

		(void)snprintf(path, sizeof(path), "/fill/%u", i);
		cr_assert_eq(rig_get(&r, path, &blocks, &fill), 0);
		cr_assert_eq(fill, i + 1);
	}
	is_whole();
	loses(1);
	rig_end(&r);
}

Test(meta_protect, one_drive_is_too_few)
{
	of_one_copy(8, 1, true);
	put_some(40);
	cr_assert_eq(protect(), -EPERM);
	cr_assert_eq(rig_statfs(&r).copies, 1);
	is_whole();
	rig_end(&r);
}

/* The store was made on one drive: roots and log lie there alone. */
Test(meta_protect, store_that_was_made_on_one_drive)
{
	for (uint32_t puts = 0; puts < 60; puts += 12) {
		of_one_copy(9 + puts, 1, puts % 24 == 0);
		put_some(40);
		cr_assert_eq(rig_drive_add(&r, rig_drive(&r, DRIVE_BYTES, true)), 0);
		put_some(puts);
		cr_assert_eq(protect(), 0, "%s", meta_error(r.m));
		converted();
		cr_assert(stat_of(0).roots && stat_of(1).roots);
		loses(0);
		rig_end(&r);
	}
}

Test(meta_protect, superblock_that_cannot_be_written_changes_nothing_now)
{
	of_one_copy(11, 3, true);
	put_some(60);
	r.bad_supers = 1u << 2;
	cr_assert_eq(protect(), -EIO);
	cr_assert_eq(rig_statfs(&r).copies, 1);
	put_some(40);
	is_whole();
	r.bad_supers = 0;
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	if (rig_statfs(&r).copies == 1)
		cr_assert_eq(protect(), 0);
	converted();
	is_whole();
	loses(2);
	rig_end(&r);
}

Test(meta_protect, drives_that_are_drained_or_added_meanwhile)
{
	of_one_copy(12, 3, true);
	put_some(100);
	cr_assert_eq(protect(), 0);
	cr_assert_eq(rig_drive_add(&r, rig_drive(&r, DRIVE_BYTES, true)), 0);
	put_some(20);
	while (meta_drive_drain(r.m, 0) == -EBUSY)
		(void)rig_step(&r);
	converted();
	for (uint32_t turns = 0; turns < 300 && !stat_of(0).gone; turns++)
		rig_idle(&r);
	cr_assert(stat_of(0).gone);
	is_whole();
	loses(3);
	rig_end(&r);
}

/* Both superblocks of the drive say so, under the same number of the set. */
static void claim(uint32_t drive, uint32_t copies, bool converting)
{
	const uint64_t at[2] = { 0, r.conf.drive[drive].nblocks - 1 };

	for (uint32_t copy = 0; copy < 2; copy++) {
		uint8_t *block = r.image[drive] + at[copy] * 4096;
		struct meta__super s;
		char why[128];

		cr_assert_eq(meta__super_parse(block, &s, why), 0, "%s", why);
		s.copies = copies;
		s.converts = converting;
		meta__super_build(&s, block);
		memcpy(r.view[drive] + at[copy] * 4096, block, 4096);
	}
}

/* Whichever says what, no drive is lost before all blocks have two copies for sure. */
Test(meta_protect, superblocks_of_one_set_that_differ_in_copies_are_taken_with_care)
{
	for (uint32_t k = 0; k < 12; k++) {
		const uint32_t liar = k % 3;

		of_one_copy(20 + k, 3, true);
		put_some(80);
		cr_assert_eq(protect(), 0);
		if (k % 2 == 0)
			converted();
		cr_assert_eq(rig_statfs(&r).converts, k % 2);
		rig_power_cut(&r);
		claim(liar, k < 6 ? 2 : 1, k < 6 && k % 2 == 0);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		cr_assert_not_null(strstr(meta_error(r.m), "another one of the same set"), "%u: %s",
				   k, meta_error(r.m));
		cr_assert(r.m->converts && r.m->copies == 2, "%u", k);
		cr_assert(!meta_drive_failed(r.m, 0));
		rig_power_cut(&r);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		cr_assert_str_eq(meta_error(r.m), "");
		put_some(20);
		converted();
		is_whole();
		loses(liar);
		rig_end(&r);
	}
}

/* As the log takes its next zone when no second drive has room. */
static uint32_t single_ahead(void)
{
	struct meta__log *l = r.m->log;

	while (l->ahead[1] == META__ZONE_NONE)
		(void)rig_step(&r);
	meta__zone_give_log(r.m, l->ahead[1]);
	l->ahead[1] = META__ZONE_NONE;
	return drive_of(l->ahead[0]);
}

/* The log must not go on in a zone of one copy when the store says that a drive may be lost. */
Test(meta_protect, zone_that_the_log_takes_next_has_its_copy_at_the_end)
{
	for (uint32_t n = 0; n < 8; n++) {
		const struct meta__log *l;
		uint32_t drive;

		of_one_copy(60 + n, 2 + n % 2, true);
		put_some(40);
		cr_assert_eq(protect(), 0);
		l = r.m->log;
		while (r.m->zones->lone > 1)
			(void)rig_step(&r);
		drive = single_ahead();
		converted();
		cr_assert(l->ahead[0] == META__ZONE_NONE || l->ahead[1] != META__ZONE_NONE);
		loses(drive);
		rig_end(&r);
	}
}

/* The other drive alone could never hold two copies; a third one makes it possible. */
Test(meta_protect, one_of_two_drives_is_not_drained_while_it_converts)
{
	uint32_t added;

	of_one_copy(40, 2, true);
	put_some(60);
	cr_assert_eq(protect(), 0);
	cr_assert_eq(meta_drive_drain(r.m, 1), -EPERM);
	cr_assert(r.m->converts);
	added = rig_drive(&r, DRIVE_BYTES, true);
	r.conf.drive[added].replaces = 1;
	cr_assert_eq(rig_drive_add(&r, added), 0, "%s", meta_error(r.m));
	cr_assert(stat_of(0).draining);
	cr_assert_eq(meta_drive_drain(r.m, 1), -EPERM);
	converted();
	cr_assert_eq(rig_statfs(&r).copies, 2);
	for (uint32_t turns = 0; turns < 300 && !stat_of(0).gone; turns++)
		rig_idle(&r);
	cr_assert(stat_of(0).gone);
	is_whole();
	cr_assert_eq(meta_drive_drain(r.m, 1), 0, "afterwards one drive may be left");
	rig_end(&r);
}

/* Turns until only the last superblock must still be written for the end, and holds that write. */
static struct meta_io *held_at_the_end(void)
{
	struct meta__boot *b = r.m->boot;

	while (!b->adding || b->next.converts || b->in_flight || b->at != 2 * r.conf.ndrives - 2)
		(void)rig_step(&r);
	(void)meta_turn(r.m);
	cr_assert(r.m->converts && b->in_flight == 1);
	cr_assert(list_pop_front(&r.m->io_wanted) == &b->io[0].io.link);
	cr_assert_neq(b->io[0].io.drive, 0);
	return &b->io[0].io;
}

/* Blocks that a dead drive did not get have one copy: the superblocks must say so. */
Test(meta_protect, drive_that_dies_while_the_end_is_written_is_lost)
{
	uint64_t known = 0;

	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct meta_io *held;

		of_one_copy(seed, 2 + (uint32_t)(seed % 2), seed % 3);
		put_some(40);
		cr_assert_eq(protect(), 0);
		held = held_at_the_end();
		r.dead = 1u << 0;
		cr_assert_eq(rig_mkdir(&r, "/meanwhile"), 0, "%s", meta_error(r.m));
		known += r.m->dead & 1;
		list_push_back(&r.m->io_wanted, &held->link);
		while (r.m->converts)
			(void)rig_step(&r);
		r.copied = true;
		put_some(40);
		cr_assert(stat_of(0).lost || stat_of(0).gone, "seed %llu",
			  (unsigned long long)seed);
		wreck(0);
		all_is_there();
		rig_power_cut(&r);
		r.dead = 0;
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		is_whole();
		rig_end(&r);
	}
	cr_assert(known > 20, "%llu died before the end", (unsigned long long)known);
}

/* All blocks have two copies by then; no drive may be lost before the superblocks say so. */
Test(meta_protect, end_that_cannot_be_written_is_told_and_tried_again)
{
	for (uint32_t bad = 0; bad < 3; bad++) {
		struct meta_rebuild seen;

		of_one_copy(30 + bad, 3, true);
		put_some(60);
		cr_assert_eq(protect(), 0);
		while (!r.m->boot->adding || r.m->boot->next.converts)
			(void)rig_step(&r);
		r.bad_supers = 1u << bad;
		for (uint32_t turns = 0; turns < 20; turns++)
			rig_idle(&r);
		put_some(20);
		cr_assert(r.m->converts && meta_copies(r.m).cannot);
		meta_rebuild_count(r.m, &seen);
		cr_assert_eq(seen.what, META_REBUILD_COPIES);
		cr_assert(seen.cannot && seen.left_blocks == 0);
		cr_assert(!meta_drive_failed(r.m, bad));
		r.bad_supers = 0;
		cr_assert_eq(protect(), 0);
		converted();
		cr_assert(!meta_copies(r.m).cannot);
		is_whole();
		loses(bad);
		rig_end(&r);
	}
}

/* Its roots have more places than a superblock can name, and both copies are on one drive. */
Test(meta_protect, store_whose_roots_cannot_move_is_refused)
{
	rig_make(&r, 13, 1, 2 * DRIVE_BYTES, 256, true);
	cr_assert_eq(rig_format(&r), 0, "%s", meta_error(r.m));
	cr_assert_eq(rig_mkdir(&r, "/some"), 0);
	cr_assert_eq(rig_drive_add(&r, rig_drive(&r, 2 * DRIVE_BYTES, true)), 0);
	cr_assert_gt(r.m->zones->geo.root_zones, META__ROOT_ZONES_MAX);
	cr_assert_eq(protect(), -EFBIG);
	cr_assert_eq(rig_statfs(&r).copies, 1);
	rig_end(&r);
}

/* As full as meta_protect() takes it: the room that supplies keep ahead must not be missing. */
Test(meta_protect, drives_of_different_sizes_that_are_nearly_full)
{
	for (uint64_t seed = 1; seed <= test_runs(9); seed += 2) {
		const uint64_t bytes[] = { (6 + seed % 4) << 20, 24u << 20,
					   (6 + seed % 5 * 3) << 20 };
		uint32_t files = 0, gone = 0;
		char path[32];
		int err = 0;

		rig_make_of(&r, seed, 3, bytes, 4, true);
		cr_assert_eq(rig_format(&r), 0, "%s", meta_error(r.m));
		cr_assert_eq(rig_mkdir(&r, "/fill"), 0);
		for (; !err; files += !err) {
			(void)snprintf(path, sizeof(path), "/fill/%u", files);
			err = rig_put(&r, path, 8, files + 1);
		}
		for (; protect() == -ENOSPC; gone++) {
			(void)snprintf(path, sizeof(path), "/fill/%u", gone);
			cr_assert_eq(rig_unlink(&r, path), 0);
			if (gone % 8 == 0)
				rig_idle(&r);
		}
		cr_assert(gone > 0 && gone < files);
		converted();
		rig_end(&r);
	}
}
