/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Stores of two copies: what moves when a drive is lost or drained (roots, the log's limit), and
 * zones that had another pair before. */
#include "test/lib/runs.h"
#include "test/unit/meta_pair_store.h"
#include "meta/meta_set.h"

TestSuite(meta_pair_moves, .timeout = 300);

/* Of pair 1: it was in an earlier life. */
static void header(uint32_t zone, enum meta__zone_kind kind, uint32_t twin)
{
	const struct meta__zone_seen head = {
		.zone = zone, .kind = kind, .incarnation = 9, .twin = twin + 1, .pair = 1
	};

	for (uint32_t copy = 0; copy < 2; copy++)
		meta__zone_build(&head, r.m->uuid,
				 rig_block(&r, meta__geo_zone_head(&r.m->zones->geo, zone, copy)));
}

/* A zone had a twin in an earlier life, and has roots now, on a drive that is lost. */
Test(meta_pair_moves, roots_where_a_pair_was_have_no_twin)
{
	for (uint32_t first = 0; first < 2; first++) {
		const struct meta__geo *g;
		uint32_t root, drive, other, zone;

		store(1 + first, 4, true);
		put_some(40);
		cr_assert_eq(meta_drive_drain(r.m, 0), 0);
		for (uint32_t n = 0; n < 300 && !stat_of(0).gone; n++)
			rig_idle(&r);
		g = &r.m->zones->geo;
		cr_assert_neq(g->root_zone[0][0], 0);
		root = g->root_zone[0][0] - 1;
		drive = META_BADDR_DRIVE(meta__geo_zone_baddr(g, root));
		other = drive == 1 ? 2 : 1;
		zone = meta__zone_next(r.m, other);
		cr_assert_eq(rig_stop(&r), 0);
		cr_assert_eq(rig_mount(&r), 0);
		cr_assert_eq(meta__zone_at(r.m, zone)->kind, META__ZONE_FREE);
		header(zone, first ? META__ZONE_DATA : META__ZONE_TWIN, root);
		rig_power_cut(&r);
		r.conf.drive[0].nblocks = r.conf.drive[drive].nblocks = 0;
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		is_whole();
		rig_end(&r);
	}
}

/* A zone of files, its twin, and a free zone before that on another drive than the first: the free
 * one is found first by a mount. */
static bool find_pair(uint32_t *first, uint32_t *twin, uint32_t *before)
{
	for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++) {
		const struct meta__zone *at = meta__zone_at(r.m, i);

		*first = i;
		*twin = meta__twin(r.m, i);
		if (at->kind != META__ZONE_DATA || at->live == 0 || at->pair < 2)
			continue;
		for (*before = 0; *before < *twin; (*before)++)
			if (meta__zone_at(r.m, *before)->state == ZONE_FREE &&
			    meta__mark_drive(r.m, *before) == META_DRIVES_MAX &&
			    drive_of(*before) != drive_of(i) &&
			    drive_of(*before) != drive_of(*twin))
				return true;
	}
	return false;
}

/* The first zone of a pair, or its twin, was the other in an earlier life, and its drive is lost.
 * Found by loss, seeds 45, 52 and 303. */
Test(meta_pair_moves, zone_of_a_lost_drive_is_what_its_last_pair_says)
{
	for (uint32_t seed = 1; seed <= test_runs(8); seed++) {
		uint32_t first, twin, before, lost, drive;

		store(seed, 4, seed % 2);
		put_some(60);
		cr_assert_eq(rig_stop(&r), 0);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		cr_assert(find_pair(&first, &twin, &before));
		lost = seed % 2 ? first : twin;
		drive = drive_of(lost);
		header(before, seed % 2 ? META__ZONE_DATA : META__ZONE_TWIN, lost);
		rig_power_cut(&r);
		r.conf.drive[drive].nblocks = 0;
		cr_assert_eq(rig_mount(&r), 0, "seed %u: %s", seed, meta_error(r.m));
		is_whole();
		rig_end(&r);
	}
}

/* Roots wait for the checkpoint, which waits for the log, which waits until the loss is known. */
/* Found by loss, seed 70. */
Test(meta_pair_moves, drain_that_waited_for_a_lost_drive_goes_on_by_itself)
{
	uint32_t drains = 0;

	for (uint64_t seed = 1; seed <= test_runs(40); seed++) {
		store(seed, 5, seed % 2);
		put_some(60);
		cr_assert_eq(meta_drive_drain(r.m, 4), 0);
		for (uint32_t n = 0; n < seed % 20; n++)
			(void)rig_step(&r);
		rig_power_cut(&r);
		r.conf.drive[0].nblocks = 0;
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		drains += stat_of(4).draining;
		rebuilt(0);
		for (uint32_t n = 0; n < 300 && stat_of(4).draining; n++)
			rig_idle(&r);
		cr_assert(!stat_of(4).draining, "seed %llu: %u zones", (unsigned long long)seed,
			  stat_of(4).zones_used);
		is_whole();
		rig_end(&r);
	}
	cr_assert(drains > 5, "%u", drains);
}

Test(meta_pair_moves, drive_is_lost_while_roots_wait_to_be_moved)
{
	uint32_t waits = 0;

	for (uint64_t seed = 1; seed <= 20; seed++) {
		store(seed, 5, seed % 2);
		put_some(60);
		cr_assert_eq(meta_drive_drain(r.m, 0), 0);
		for (uint32_t n = 0; n < 3000 && !r.m->boot->drain.roots; n++) {
			meta__ckpt_want(r.m);
			if (n % 8 == 0)
				put_some(1);
			(void)rig_step(&r);
		}
		waits += r.m->boot->adding && meta__ckpt_running(r.m);
		r.dead = 1u << 4;
		cr_assert(meta_drive_failed(r.m, 4));
		wreck(4);
		put_some(20);
		rebuilt(4);
		cr_assert_eq(meta_health(r.m), 0, "%s", meta_error(r.m));
		for (uint32_t n = 0; n < 300 && !stat_of(0).gone; n++)
			rig_idle(&r);
		cr_assert(stat_of(0).gone);
		is_whole();
		r.never = 0;
		rig_end(&r);
	}
	cr_assert(waits > 5, "%u", waits);
}

/* Writes that were on their way to it when its drain began fail: no other drive is lost for that.
 * Found by loss, seed 370. */
Test(meta_pair_moves, drive_that_fails_while_it_is_drained_is_lost_and_no_other)
{
	uint32_t losses = 0;

	for (uint64_t seed = 1; seed <= test_runs(120); seed++) {
		bool lost = false;

		store(seed, 4, seed % 2);
		put_some(60);
		cr_assert_eq(meta_drive_drain(r.m, 1), 0);
		for (uint32_t n = 0; !stat_of(1).draining; n++) {
			if (n == seed % 20)
				meta__ckpt_want(r.m);
			(void)rig_step(&r);
		}
		r.failing = seed % 3 ? 1u << 1 : 0;
		r.dying = seed % 3 ? 0 : 1u << 1;
		r.dies_at = r.writes;
		for (uint32_t n = 0; n < 60; n++) {
			put_some(1);
			lost |= stat_of(1).lost;
		}
		losses += lost;
		for (uint32_t n = 0; n < 300 && !stat_of(1).gone; n++)
			rig_idle(&r);
		cr_assert(stat_of(1).gone, "seed %llu: %u zones", (unsigned long long)seed,
			  stat_of(1).zones_used);
		for (uint32_t d = 0; d < 4; d++)
			cr_assert(d == 1 || !(stat_of(d).lost || stat_of(d).gone), "drive %u", d);
		wreck(1);
		is_whole();
		rig_end(&r);
	}
	cr_assert(losses > 20, "%u", losses);
}

/* The header of its twin is being written, with a mark or again, while a zone becomes free. */
Test(meta_pair_moves, zone_is_freed_while_its_twins_header_is_written)
{
	struct meta__zone *at;
	uint32_t zone, drive;

	store(3, 4, true);
	put_some(80);
	for (zone = 0; meta__zone_at(r.m, zone)->kind != META__ZONE_TWIN ||
		       meta__zone_at(r.m, zone)->state != ZONE_CLOSED ||
		       meta__zone_at(r.m, meta__twin(r.m, zone))->kind != META__ZONE_DATA ||
		       meta__zone_at(r.m, meta__twin(r.m, zone))->state != ZONE_CLOSED;)
		zone++;
	at = meta__zone_at(r.m, zone);
	drive = META_BADDR_DRIVE(meta__geo_zone_baddr(&r.m->zones->geo, zone));
	at->mending = true; /* its write is on its way */
	for (uint32_t i = 0; i < FILES; i++) {
		(void)rig_unlink(&r, path_of(i));
		fill_of[i] = 0;
	}
	for (uint32_t n = 0; n < 20 && !at->freed; n++) {
		meta__ckpt_want(r.m);
		rig_idle(&r);
	}
	cr_assert(at->freed);
	cr_assert_eq(meta_drive_drain(r.m, drive), 0);
	rig_idle(&r);
	at = meta__zone_at(r.m, zone);
	at->mending = at->freed = false;
	meta__zone_freed(r.m, zone);
	for (uint32_t n = 0; n < 300 && !stat_of(drive).gone; n++)
		rig_idle(&r);
	cr_assert(stat_of(drive).gone);
	is_whole();
	rig_end(&r);
}

/* More zones than a superblock can name: the drive with roots stays lost, and all else goes on. */
Test(meta_pair_moves, roots_that_fit_no_zones_stay)
{
	rig_make(&r, 1, 3, 4 * DRIVE_BYTES, 256, true);
	r.conf.copies = 2;
	r.copied = true;
	memset(fill_of, 0, sizeof(fill_of));
	memset(unsure, 0, sizeof(unsure));
	cr_assert_eq(rig_format(&r), 0, "%s", meta_error(r.m));
	put_some(40);
	r.dead = 1u << 0;
	wreck(0);
	put_some(40);
	for (uint32_t n = 0; n < 50; n++)
		rig_idle(&r);
	cr_assert(stat_of(0).lost);
	cr_assert_eq(rig_thin_zones(&r), 0);
	is_whole();
	rig_power_cut(&r);
	r.conf.drive[0].nblocks = 0;
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	put_some(40);
	is_whole();
	rig_end(&r);
}

/* The log's limit was that of the large drive: no room was left for roots, nor for files.
 * Found by loss, seeds 66 and 224. */
Test(meta_pair_moves, store_whose_large_drive_is_lost_is_bounded_by_what_stays)
{
	const uint64_t bytes[] = { 3u << 20, 32u << 20, 3u << 20 };

	for (uint32_t missing = 0; missing < 2; missing++) {
		store_of(1 + missing, 3, bytes, true);
		put_some(20);
		if (missing) {
			rig_power_cut(&r);
			r.conf.drive[1].nblocks = 0;
			cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		} else {
			r.dead = 1u << 1;
			cr_assert(meta_drive_failed(r.m, 1));
		}
		wreck(1);
		all_is_there();
		put_some(20);
		rebuilt(1);
		put_some(20);
		is_whole();
		rig_end(&r);
	}
}

/* The same, of one that is drained, while another one is lost. */
Test(meta_pair_moves, log_of_a_store_that_is_drained_gives_way_to_roots)
{
	const uint64_t bytes[] = { 24u << 20, 3u << 20, 24u << 20, 6u << 20 };

	store_of(3, 4, bytes, true);
	put_some(20);
	cr_assert_eq(meta_drive_drain(r.m, 2), 0);
	(void)rig_step(&r);
	r.dead = 1u << 0;
	cr_assert(meta_drive_failed(r.m, 0));
	wreck(0);
	put_some(20);
	rebuilt(0);
	for (uint32_t n = 0; n < 300 && !stat_of(2).gone; n++)
		rig_idle(&r);
	cr_assert(stat_of(2).gone);
	is_whole();
	rig_end(&r);
}

static bool idles(void)
{
	uint32_t n = 0;

	while (n < 20000 && rig_step(&r))
		n++;
	return n < 20000;
}

/* Each copy of the roots takes two zones, and two drives are left for them.
 * Found by loss, seed 82. */
Test(meta_pair_moves, roots_of_several_zones_are_moved_once)
{
	for (uint32_t lost = 0; lost < 2; lost++) {
		const struct meta__geo *g;

		rig_make(&r, 1 + lost, 4, DRIVE_BYTES, 8, true);
		r.conf.copies = 2;
		r.copied = true;
		memset(fill_of, 0, sizeof(fill_of));
		memset(unsure, 0, sizeof(unsure));
		cr_assert_eq(rig_format(&r), 0, "%s", meta_error(r.m));
		g = &r.m->zones->geo;
		cr_assert_eq(g->root_zones, 2);
		put_some(20);
		cr_assert_eq(meta_drive_drain(r.m, 1 - lost), 0);
		put_some(1);
		r.dead = 1u << lost;
		cr_assert(meta_drive_failed(r.m, lost));
		wreck(lost);
		for (uint32_t n = 0; n < 300 && !(stat_of(0).gone && stat_of(1).gone); n++)
			cr_assert(idles(), "it moves roots for ever");
		cr_assert(stat_of(0).gone && stat_of(1).gone);
		for (uint32_t i = 0; i < 2; i++)
			cr_assert_neq(drive_of(g->root_zone[0][i] - 1),
				      drive_of(g->root_zone[1][i] - 1));
		is_whole();
		rig_end(&r);
	}
}

/* The power failed while writes to a drive did; it comes back, and serves unless the others say
 * that it is lost.  Then another one is lost: all that was seen in between is still there. */
static void another_is_lost(uint32_t drive, uint32_t other)
{
	rig_power_cut(&r);
	r.failing = r.bad_writes = 0;
	r.dies_at = 0;
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	all_is_there();
	if (stat_of(drive).lost || stat_of(drive).gone)
		return;
	rig_power_cut(&r);
	wreck(other);
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	all_is_there();
}

Test(meta_pair_moves, cut_before_a_loss_is_recorded_leaves_two_copies)
{
	for (uint64_t seed = 1; seed <= test_runs(300); seed++) {
		const uint32_t drive = (uint32_t)(seed % 3);

		store(seed, 3, seed / 3 % 2);
		put_some(30);
		r.failing = 1u << drive;
		r.dies_at = r.writes + 1 + rand_below(&r.rand, 60);
		r.cut_at = r.dies_at + rand_below(&r.rand, 16);
		for (uint32_t n = 0; n < 100 && !r.cut; n++)
			(void)put((uint32_t)rand_below(&r.rand, FILES));
		cr_assert(r.cut);
		another_is_lost(drive, (drive + 1 + (uint32_t)(seed % 2)) % 3);
		rig_end(&r);
	}
}

/* The loss is recorded when the change of the set that runs has ended. */
Test(meta_pair_moves, checkpoint_is_cut_before_a_loss_is_recorded)
{
	for (uint64_t seed = 1; seed <= test_runs(120); seed++) {
		const uint32_t drive = (uint32_t)(seed % 3);
		uint32_t added;

		store(seed, 3, seed / 3 % 2);
		put_some(30);
		rig_idle(&r);
		added = rig_drive(&r, 4 * DRIVE_BYTES, true);
		cr_assert_eq(meta_drive_add(r.m, &r.conf.drive[added]), 0);
		meta__ckpt_want(r.m);
		r.failing = 1u << drive;
		r.dies_at = r.writes + 1;
		for (uint32_t n = 0; n < 1000 && !r.m->losing; n++)
			(void)rig_step(&r);
		for (uint32_t n = 0; n < seed % 40 && r.m->losing; n++)
			(void)rig_step(&r);
		another_is_lost(drive, (drive + 1 + (uint32_t)(seed % 2)) % 3);
		rig_end(&r);
	}
}

/* From some write on; perhaps a check is running, which the end of the adding waits for. */
Test(meta_pair_moves, drive_that_dies_while_it_is_added_does_no_harm)
{
	uint32_t added_ones = 0;

	for (uint32_t i = 0; i < 120; i++) {
		struct meta_check check = { 0 };
		uint32_t added;
		int err;

		store(i + 1, 3, true);
		put_some(20);
		added = rig_drive(&r, 3u << 20, true);
		if (i % 2)
			meta_check_start(r.m, &check);
		r.dying = 1u << added;
		r.dies_at = r.writes + (i < 100 ? 1 + i : 88 + i % 20);
		err = rig_drive_add(&r, added);
		cr_assert(err == 0 || err == -EIO, "%d", err);
		cr_assert_eq(meta_health(r.m), 0, "%s", meta_error(r.m));
		while (meta_check_status(r.m) == -EAGAIN)
			(void)rig_step(&r);
		put_some(20);
		if (err == 0) {
			rebuilt(added);
			r.never = 0;
			added_ones++;
		}
		r.conf.ndrives = meta_drives(r.m);
		r.dead |= 1u << 1;
		cr_assert(meta_drive_failed(r.m, 1), "write %u: %d", i, err);
		put_some(20);
		rebuilt(1);
		is_whole();
		rig_end(&r);
	}
	cr_assert(added_ones > 0);
}

/* Does this superblock of a drive name so many drives? */
static bool names(uint32_t drive, uint32_t ndrives, uint64_t block)
{
	struct meta_set set;

	return meta_super_set(rig_block(&r, META_BADDR(drive, block)), &set) &&
	       set.ndrives == ndrives;
}

/* All superblocks name it, and a check must end before it serves. */
Test(meta_pair_moves, drive_that_dies_when_it_was_just_added_is_lost)
{
	struct meta_check check = { 0 };
	uint32_t added;

	store(1, 3, true);
	put_some(60);
	added = rig_drive(&r, 3u << 20, true);
	rig_idle(&r);
	cr_assert_eq(meta_drive_add(r.m, &r.conf.drive[added]), 0);
	while (meta_drive_add_status(r.m) == -EAGAIN) {
		const bool all = names(2, 4, 0) && names(2, 4, DRIVE_BYTES / 4096 - 1);

		if (!all && meta_check_status(r.m) != -EAGAIN)
			meta_check_start(r.m, &check);
		(void)rig_step(&r);
		if (!all || r.dead || meta_drive_add_status(r.m) != -EAGAIN)
			continue;
		r.dead = 1u << added;
		r.m->dead |= 1ull << added; /* an I/O of it came back so */
	}
	cr_assert(r.dead, "the check did not last");
	cr_assert_eq(meta_drive_add_status(r.m), 0);
	r.conf.ndrives = meta_drives(r.m);
	put_some(20);
	rebuilt(added);
	is_whole();
	rig_end(&r);
}

static uint32_t readable(void)
{
	uint32_t there = 0;

	for (uint32_t i = 0; i < FILES; i++) {
		uint64_t fill = 0;
		uint32_t blocks;
		int err = rig_get(&r, path_of(i), &blocks, &fill);

		cr_assert(err == 0 || err == -EIO || err == -ENOENT, "%s: %d", path_of(i), err);
		there += err == 0;
	}
	return there;
}

/* Files with a copy elsewhere are read; the store and the next start name both drives. */
Test(meta_pair_moves, second_loss_is_named_and_what_is_whole_is_read)
{
	for (uint32_t recorded = 0; recorded < 2; recorded++) {
		store(6, 4, true);
		put_some(100);
		r.dead |= 1u << 1;
		cr_assert(meta_drive_failed(r.m, 1));
		while (recorded && r.m->losing)
			(void)rig_step(&r);
		r.dead |= 1u << 2;
		cr_assert(!meta_drive_failed(r.m, 2));
		for (uint32_t n = 0; n < 50 && meta_health(r.m) == 0; n++)
			(void)put((uint32_t)rand_below(&r.rand, FILES));
		cr_assert_eq(meta_health(r.m), -EROFS);
		cr_assert_not_null(strstr(meta_error(r.m), "drive 2 failed"), "%s",
				   meta_error(r.m));
		cr_assert_not_null(strstr(meta_error(r.m), "on drive 1"), "%s", meta_error(r.m));
		cr_assert_gt(readable(), 10u);
		rig_power_cut(&r);
		r.dead = 0;
		r.conf.drive[1].nblocks = r.conf.drive[2].nblocks = 0;
		cr_assert_eq(rig_mount(&r), -ENODEV);
		cr_assert_not_null(strstr(meta_error(r.m), "drive 1"), "%s", meta_error(r.m));
		cr_assert_not_null(strstr(meta_error(r.m), "drive 2"), "%s", meta_error(r.m));
		rig_power_cut(&r);
		rig_end(&r);
	}
}

/* Zones were being opened alone when the drive that is added began to serve.
 * Found by loss, seed 4132. */
Test(meta_pair_moves, zone_that_is_opened_while_a_drive_is_added_does_not_stay_alone)
{
	for (uint64_t seed = 1; seed <= test_runs(150); seed++) {
		uint32_t added;

		store(seed, 2, seed % 2);
		put_some(20);
		r.dead = 1u << 0;
		cr_assert(meta_drive_failed(r.m, 0));
		put_some(20);
		added = rig_drive(&r, 3u << 20, true);
		cr_assert_eq(meta_drive_add(r.m, &r.conf.drive[added]), 0);
		while (meta_drive_add_status(r.m) == -EAGAIN) {
			meta__ckpt_want(r.m);
			if (rand_below(&r.rand, 4) == 0)
				put_some(1);
			(void)rig_step(&r);
		}
		r.conf.ndrives = meta_drives(r.m);
		rebuilt(0);
		is_whole();
		r.never = 0;
		rig_end(&r);
	}
}

/* Every block of files whose first copy is on this drive is something else there. */
static uint32_t spoiled(uint32_t drive)
{
	const struct meta__geo *g = &r.m->zones->geo;
	uint32_t zones = 0;

	for (uint32_t i = g->zone_base[drive]; i < g->zone_base[drive] + g->zone_count[drive];
	     i++) {
		const uint64_t at = META_BADDR_BLOCK(meta__geo_zone_baddr(g, i));

		if (meta__zone_at(r.m, i)->kind != META__ZONE_DATA || !meta__zone_at(r.m, i)->live)
			continue;
		zones++;
		for (uint32_t n = 1; n < g->zone_end; n++) {
			r.view[drive][(at + n) * 4096 + n % 4096] ^= 0x10;
			r.image[drive][(at + n) * 4096 + n % 4096] ^= 0x10;
		}
	}
	return zones;
}

/* Collection moves what the second copies have. */
Test(meta_pair_moves, blocks_with_a_bad_first_copy_are_moved)
{
	for (uint64_t seed = 1; seed <= test_runs(20); seed++) {
		store(seed, 3, seed % 2);
		put_some(120);
		rig_idle(&r);
		cr_assert_gt(spoiled(0), 0u);
		cr_assert_eq(meta_drive_drain(r.m, 0), 0);
		rebuilt(0);
		is_whole();
		put_some(20);
		rig_power_cut(&r);
		r.conf.drive[0].nblocks = 0;
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		is_whole();
		r.never = 0;
		rig_end(&r);
	}
}

/* One drive served alone: blocks of then have one copy until the new drive has them, too. */
/* No drive is lost: the other one was drained, and what is written to the last one has one copy. */
Test(meta_pair_moves, last_drive_that_was_left_is_not_lost_before_there_are_second_copies)
{
	uint32_t added;

	store(31, 2, true);
	put_some(60);
	cr_assert_eq(meta_drive_drain(r.m, 0), 0);
	for (uint32_t turns = 0; turns < 300 && !stat_of(0).gone; turns++)
		rig_idle(&r);
	cr_assert(stat_of(0).gone);
	put_some(40);
	cr_assert_gt(rig_thin_zones(&r), 0u);
	added = rig_drive(&r, DRIVE_BYTES, true);
	cr_assert_eq(rig_drive_add(&r, added), 0, "%s", meta_error(r.m));
	cr_assert(!meta_drive_failed(r.m, 1), "it has the only copy of much");
	all_is_there();
	for (uint32_t turns = 0; turns < 300 && rig_thin_zones(&r) > 0; turns++)
		rig_idle(&r);
	cr_assert_eq(rig_thin_zones(&r), 0u);
	cr_assert(meta_drive_failed(r.m, 1));
	r.dead |= 1u << 1;
	put_some(20);
	is_whole();
	rig_end(&r);
}

Test(meta_pair_moves, drive_with_the_only_copy_is_not_lost)
{
	for (uint64_t seed = 1; seed <= test_runs(12); seed++) {
		uint32_t added;

		store(seed, 2, true);
		put_some(60);
		r.dead = 1u << 0;
		for (uint32_t n = 0; n < 12; n++) {
			put_some(20);
			meta__ckpt_want(r.m);
			rig_idle(&r);
		}
		cr_assert(stat_of(0).lost || stat_of(0).gone);
		cr_assert_gt(rig_thin_zones(&r), 0u);
		added = rig_drive(&r, DRIVE_BYTES, true);
		cr_assert_eq(rig_drive_add(&r, added), 0, "%s", meta_error(r.m));
		cr_assert(!meta_drive_failed(r.m, 1), "it has the only copy of much");
		all_is_there();
		rebuilt(0);
		put_some(20);
		cr_assert(meta_drive_failed(r.m, 1));
		r.dead |= 1u << 1;
		put_some(20);
		is_whole();
		r.never = 0;
		rig_end(&r);
	}
}

/* A store of two copies that went on with one drive has three again.  As long as the first has the
 * only copy of a block, a mount must not go on without it. */
Test(meta_pair_moves, drive_with_the_only_copy_is_not_lost_at_a_mount)
{
	uint32_t refused = 0, only = 0;

	for (uint64_t seed = 1; seed <= test_runs(40); seed++) {
		bool has_only = false;

		store(seed, 2, true);
		put_some(80);
		cr_assert_eq(meta_drive_drain(r.m, 1), 0);
		for (uint32_t n = 0; n < 300 && !stat_of(1).gone; n++)
			rig_idle(&r);
		cr_assert(stat_of(1).gone);
		put_some(20);
		for (uint32_t i = 0; i < 2; i++)
			cr_assert_eq(rig_drive_add(&r, rig_drive(&r, DRIVE_BYTES, true)), 0, "%s",
				     meta_error(r.m));
		r.conf.ndrives = r.ndrives;
		for (uint64_t n = 0; n < seed * 10; n++)
			(void)rig_step(&r);
		for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++)
			has_only |= r.m->zones->zone[i].lone && r.m->zones->zone[i].live;
		rig_power_cut(&r);
		r.conf.drive[0].nblocks = 0;
		r.dead = 1;
		if (rig_mount(&r)) {
			rig_power_cut(&r);
			r.dead = 0;
			r.conf.drive[0].nblocks = DRIVE_BYTES / 4096;
			refused++;
			cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		} else {
			cr_assert(!has_only, "seed %llu", (unsigned long long)seed);
		}
		only += has_only;
		is_whole();
		rig_end(&r);
	}
	cr_assert(only > 5 && refused >= only && refused < 40, "%u, %u", only, refused);
}
