/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Stores whose pairs are folded: zones of data on several drives, and one of their parity.
 */
#include "test/lib/runs.h"
#include "test/unit/meta_fold_store.h"

TestSuite(meta_fold, .timeout = 600);

/* A fold is there, and the twins of its zones are not free yet. */
static bool has_freed_twin(void)
{
	for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++)
		if (meta__zone_at(r.m, i)->kind == META__ZONE_TWIN && !meta__zone_at(r.m, i)->twin)
			return true;
	return false;
}

/* Marks are written into headers of zones that are on their way to be free: they can be read. */
static void marks_are_written(void)
{
	meta__marks_begin(r.m, r.m->zones->marks.next + 1);
	while (!meta__marks_turn(r.m) && !r.cut)
		(void)rig_step(&r);
	for (uint32_t i = 0; i < r.m->zones->geo.nzones && !r.cut; i++) {
		struct meta__zone_seen head = meta__zone_head(r.m, i), seen;
		uint8_t block[4096];

		meta__zone_build(&head, r.m->uuid, block);
		cr_assert_eq(meta__zone_parse(block, r.m->uuid, i, &seen), 0, "zone %u, kind %u", i,
			     head.kind);
	}
}

Test(meta_fold, pairs_become_folds_and_their_twins_are_free)
{
	uint64_t before, live = 0;

	folds_of(1, 4, 3, true);
	put_bigs(BIG);
	before = r.m->zones->free_total;
	fold();
	cr_assert_gt(r.m->zones->folds, 2);
	cr_assert_gt(r.m->zones->free_total, before);
	put_bigs(BIG);
	meta__ckpt_want(r.m);
	while (!has_freed_twin() && rig_step(&r))
		;
	cr_assert(has_freed_twin());
	marks_are_written();
	rig_idle(&r); /* no checkpoint has freed them */
	cr_assert(has_freed_twin());
	for (uint32_t d = 0; d < 4; d++) {
		struct meta_drive_stat s = stat_of(d);

		meta_drive_count(r.m, &s);
		live += s.live_blocks;
	}
	fold();
	cr_assert(live >= r.m->zones->live_blocks &&
		  live <= 2 * (r.m->zones->live_blocks + 4 * r.m->zones->live_pages));
	folds_are_right();
	bigs_are_there();
	cr_assert_eq(rig_thin_zones(&r), 0);
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	cr_assert_gt(r.m->zones->folds, 2);
	folds_are_right();
	bigs_are_there();
	cr_assert_eq(rig_thin_zones(&r), 0);
	is_whole();
	rig_end(&r);
}

Test(meta_fold, power_cuts_while_folds_are_made)
{
	uint64_t folds = 0;

	for (uint64_t seed = 1; seed <= test_runs(20); seed++) {
		const uint32_t width = 2 + (uint32_t)seed % 3;

		folds_of(seed, width + 1 + (uint32_t)(seed / 3 % 2), width, seed % 4 != 0);
		r.cut_garbles = seed % 2;
		changes(60);
		for (uint32_t cuts = 0; cuts < 15; cuts++) {
			r.cut_at = r.writes + 1 + rand_below(&r.rand, 200);
			changes(40);
			if (!r.cut)
				fold();
			rig_power_cut(&r);
			cr_assert_eq(rig_mount(&r), 0, "seed %llu: %s", (unsigned long long)seed,
				     meta_error(r.m));
			folds_are_right();
			all_is_there();
			clear_unsure();
			cr_assert_eq(rig_thin_zones(&r), 0);
			folds += r.m->zones->folds;
		}
		fold();
		folds_are_right();
		bigs_are_there();
		is_whole();
		rig_end(&r);
	}
	cr_assert(folds > 500, "%llu", (unsigned long long)folds);
}

Test(meta_fold, drive_that_dies_loses_nothing_and_leaves)
{
	for (uint64_t seed = 1; seed <= test_runs(40); seed++) {
		const uint32_t width = 2 + (uint32_t)seed % 3;
		const uint32_t drives = width + 1 + (uint32_t)(seed / 3 % 2);
		const uint32_t drive = (uint32_t)seed % drives;

		folds_of(seed, drives, width, seed % 2);
		changes(60);
		fold();
		cr_assert_gt(r.m->zones->folds, 0);
		r.dying = 1u << drive;
		r.dies_at = r.writes + 1 + rand_below(&r.rand, 300);
		changes(150);
		wreck(drive);
		all_is_there();
		bigs_are_there();
		rebuilt(drive);
		folds_are_right();
		is_whole();
		changes(60);
		fold();
		folds_are_right();
		bigs_are_there();
		cr_assert_eq(rig_stop(&r), 0);
		r.conf.drive[drive].nblocks = 0;
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		bigs_are_there();
		is_whole();
		rig_end(&r);
	}
}

/* Each drive in turn reads nothing: both copies, or the fold, are whole. */
static void others_have_all(void)
{
	for (uint32_t d = 0; d < r.conf.ndrives; d++) {
		r.bad_reads = 1u << d;
		bigs_are_there();
	}
	r.bad_reads = 0;
}

/* A drive with parity, or with data of a fold, is missing, and the others become whole. */
static void missing_at_a_mount(uint64_t seed, bool parity)
{
	const uint32_t width = 2 + (uint32_t)seed % 3;
	const uint32_t drives = width + 1 + (uint32_t)(seed / 3 % 2);
	uint32_t drive = META_DRIVES_MAX;

	folds_of(seed, drives, width, seed % 2);
	changes(80);
	fold();
	if (seed % 2)
		changes(10);
	for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++)
		if (meta__in_fold(meta__zone_at(r.m, i)) && meta__zone_at(r.m, i)->parity == parity)
			drive = drive_of(i);
	cr_assert_lt(drive, drives);
	if (seed % 4 < 2)
		rig_power_cut(&r);
	else
		cr_assert_eq(rig_stop(&r), 0);
	wreck(drive);
	r.conf.drive[drive].nblocks = 0;
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	all_is_there();
	bigs_are_there();
	rebuilt(drive);
	others_have_all();
	fold();
	others_have_all();
	bigs_are_there();
	is_whole();
}

Test(meta_fold, drive_of_the_parity_is_missing_at_a_mount)
{
	for (uint64_t seed = 1; seed <= test_runs(20); seed++) {
		missing_at_a_mount(seed, true);
		cr_assert_eq(rig_wrong_folds(&r), 0);
		rig_end(&r);
	}
}

Test(meta_fold, drive_of_the_data_is_missing_at_a_mount)
{
	for (uint64_t seed = 1; seed <= test_runs(20); seed++) {
		missing_at_a_mount(seed, false);
		cr_assert_eq(rig_wrong_folds(&r), 0);
		rig_end(&r);
	}
}

/* A drive dies, and the power fails after that, again and again. */
Test(meta_fold, death_and_power_cuts_lose_nothing)
{
	for (uint64_t seed = 1; seed <= test_runs(60); seed++) {
		const uint32_t width = 2 + (uint32_t)seed % 3;
		const uint32_t drives = width + 1 + (uint32_t)(seed / 3 % 2);
		const uint32_t drive = (uint32_t)seed % drives;

		folds_of(seed, drives, width, seed % 2);
		r.cut_garbles = seed % 5 == 0;
		changes(80);
		fold();
		r.dying = 1u << drive;
		r.dies_at = r.writes + 1 + rand_below(&r.rand, 100);
		r.cut_at = r.dies_at + rand_below(&r.rand, 300);
		changes(150);
		for (uint32_t cuts = 0; cuts < 6; cuts++) {
			if (!r.cut)
				rig_idle(&r);
			rig_power_cut(&r);
			r.dead = r.dying = 0;
			r.dies_at = 0;
			wreck(drive);
			r.conf.drive[drive].nblocks = 0;
			cr_assert_eq(rig_mount(&r), 0, "seed %llu: %s", (unsigned long long)seed,
				     meta_error(r.m));
			folds_are_right();
			all_is_there();
			clear_unsure();
			r.cut_at = r.writes + 1 + rand_below(&r.rand, 300);
			changes(20);
		}
		rig_power_cut(&r);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		all_is_there();
		clear_unsure();
		if (stat_of(drive).lost || stat_of(drive).gone)
			rebuilt(drive);
		is_whole();
		rig_end(&r);
	}
}

Test(meta_fold, fold_is_free_when_nothing_lives_in_it)
{
	folds_of(3, 4, 3, true);
	put_bigs(BIG);
	fold();
	cr_assert_gt(r.m->zones->folds, 2);
	for (uint32_t i = 0; i < BIG; i++)
		cr_assert_eq(rig_unlink(&r, big_path(i)), 0);
	fold();
	cr_assert_eq(r.m->zones->folds, 0);
	cr_assert_eq(r.m->zones->folded, 0);
	memset(big_fill, 0, sizeof(big_fill));
	is_whole();
	rig_end(&r);
}

/* Both copies of headers of a fold's zones are damaged, on one drive. */
Test(meta_fold, headers_of_a_fold_are_lost)
{
	for (uint64_t seed = 1; seed <= test_runs(20); seed++) {
		const uint32_t drive = (uint32_t)seed % 4;
		uint32_t lost = 0;

		folds_of(seed, 4, 3, true);
		changes(100);
		fold();
		cr_assert_eq(rig_stop(&r), 0);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++) {
			const struct meta__zone *at = meta__zone_at(r.m, i);

			if (drive_of(i) != drive || !meta__in_fold(at) || at->parity ||
			    rand_below(&r.rand, 2))
				continue;
			for (uint32_t copy = 0; copy < 2; copy++) {
				const uint64_t to = meta__geo_zone_head(&r.m->zones->geo, i, copy);

				memset(rig_block(&r, to), 0x55, 4096);
				memset(r.view[drive] + META_BADDR_BLOCK(to) * 4096, 0x55, 4096);
			}
			lost++;
		}
		rig_power_cut(&r);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		folds_are_right();
		bigs_are_there();
		changes(40);
		cr_assert_eq(rig_stop(&r), 0);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		folds_are_right();
		cr_assert_eq(rig_thin_zones(&r), 0, "%u of %u", rig_thin_zones(&r), lost);
		bigs_are_there();
		is_whole();
		rig_end(&r);
	}
}

/* Some blocks of the first copies, or of the second ones, rot before they are folded. */
Test(meta_fold, rot)
{
	for (uint64_t seed = 1; seed <= test_runs(10); seed++) {
		uint32_t spoilt = 0;

		folds_of(seed, 4, 3, true);
		put_bigs(BIG / 2);
		for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++) {
			const struct meta__zone *at = meta__zone_at(r.m, i);
			uint64_t to = meta__geo_zone_baddr(&r.m->zones->geo, i) + 1 +
				      rand_below(&r.rand, at->used ? at->used : 1);

			if (at->kind != META__ZONE_DATA || !at->twin || at->used < 3 ||
			    rand_below(&r.rand, 2))
				continue;
			if (seed % 2)
				to = meta__twin_baddr(r.m, to);
			if (!to)
				continue;
			memset(r.view[META_BADDR_DRIVE(to)] + META_BADDR_BLOCK(to) * 4096, 0x77,
			       4096);
			memset(r.image[META_BADDR_DRIVE(to)] + META_BADDR_BLOCK(to) * 4096, 0x77,
			       4096);
			spoilt++;
		}
		cr_assert_gt(spoilt, 3);
		fold();
		for (uint32_t i = BIG / 2; i < BIG; i++) /* what has rotted stays alive */
			cr_assert_eq(put_big(i), 0);
		fold();
		bigs_are_there();
		folds_are_right();
		for (uint32_t d = 0; d < 4; d++) { /* whatever is read from the others is right */
			r.bad_reads = 1u << d;
			bigs_are_there();
		}
		rig_end(&r);
	}
}

/* More files than pairs could hold come and go. */
Test(meta_fold, folds_are_collected_as_a_whole)
{
	for (uint64_t seed = 1; seed <= 4; seed++) {
		folds_of(seed, 4, 3, seed % 2);
		put_bigs(BIG);
		for (uint32_t n = 0; n < 1500; n++)
			cr_assert_eq(put_big((uint32_t)rand_below(&r.rand, BIG)), 0, "%u: %s", n,
				     meta_error(r.m));
		folds_are_right();
		bigs_are_there();
		is_whole();
		rig_end(&r);
	}
}

Test(meta_fold, files_fill_what_folds_can_hold)
{
	for (uint64_t seed = 1; seed <= 4; seed++) {
		const uint32_t width = 1 + (uint32_t)seed;
		uint64_t blocks[2];

		for (uint32_t folded = 0; folded < 2; folded++) {
			int err;
			uint32_t n = 0;
			char path[32];

			folds_of(seed, 5, folded ? min_u32(width, 4) : 0, true);
			do {
				(void)snprintf(path, sizeof(path), "/fill %u", n);
				err = rig_put(&r, path, 12, 7 + n);
				n += err == 0;
			} while (err == 0);
			cr_assert_eq(err, -ENOSPC);
			blocks[folded] = 12 * n;
			folds_are_right();
			for (uint32_t i = 0; i < n; i++) {
				uint32_t got;
				uint64_t fill;

				(void)snprintf(path, sizeof(path), "/fill %u", i);
				cr_assert_eq(rig_get(&r, path, &got, &fill), 0);
				cr_assert_eq(fill, 7 + i);
			}
			rig_end(&r);
		}
		printf("width %u: %llu, %llu\n", width, (unsigned long long)blocks[0],
		       (unsigned long long)blocks[1]);
		cr_assert_gt(blocks[1], blocks[0] * 11 / 10);
	}
}

Test(meta_fold, drive_is_drained_and_another_added)
{
	for (uint64_t seed = 1; seed <= test_runs(10); seed++) {
		const uint32_t drive = (uint32_t)seed % 4;

		folds_of(seed, 4, 3, true);
		changes(100);
		fold();
		cr_assert_gt(r.m->zones->folds, 0);
		cr_assert_eq(rig_drive_add(&r, rig_drive(&r, DRIVE_BYTES, true)), 0);
		cr_assert_eq(meta_drive_drain(r.m, drive), 0, "%s", meta_error(r.m));
		for (uint32_t n = 0; n < 300 && !stat_of(drive).gone; n++)
			rig_idle(&r);
		cr_assert(stat_of(drive).gone, "%u", stat_of(drive).zones_used);
		changes(40);
		fold();
		folds_are_right();
		bigs_are_there();
		is_whole();
		rig_end(&r);
	}
}

/* Superblocks are written, and the power may fail at any of them. */
Test(meta_fold, a_store_of_two_copies_is_folded_from_now_on)
{
	for (uint64_t seed = 1; seed <= test_runs(30); seed++) {
		int err;

		folds_of(seed, 4, 0, seed % 2);
		changes(60);
		fold();
		cr_assert_eq(r.m->zones->folds, 0);
		cr_assert_eq(meta_fold(r.m, 1), -EINVAL);
		cr_assert_eq(meta_fold(r.m, 4), -EPERM);
		if (seed > 3)
			r.cut_at = r.writes + 1 + rand_below(&r.rand, 10);
		cr_assert_eq(meta_fold(r.m, 3), 0);
		for (uint32_t n = 0; n < 100 && !r.cut; n++)
			(void)rig_step(&r);
		if (r.cut) {
			rig_power_cut(&r);
			cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
			all_is_there();
			clear_unsure();
			err = meta_fold(r.m, 3);
			cr_assert(err == 0 || err == -EALREADY, "%d", err);
		}
		changes(60);
		fold();
		cr_assert_eq(meta_fold(r.m, 3), -EALREADY);
		cr_assert_gt(r.m->zones->folds, 0);
		folds_are_right();
		bigs_are_there();
		is_whole();
		rig_end(&r);
	}
}

Test(meta_fold, parity_that_rots_is_found_and_what_it_protects_moves)
{
	static const uint8_t rot_bytes[4096] = { 1, 2, 3 };

	for (uint64_t seed = 1; seed <= test_runs(8); seed++) {
		struct meta_scrub *scrub;
		struct meta_scrub_stat st;
		uint64_t spoilt = 0;

		folds_of(seed, 4, 3, true);
		put_bigs(BIG);
		fold();
		cr_assert_gt(r.m->zones->folds, 2);
		cr_assert_eq(meta_scrub_create(&scrub, r.m), 0);
		cr_assert_eq(scrub_round(scrub), 0);
		for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++) {
			const uint64_t base = meta__geo_zone_baddr(&r.m->zones->geo, i);

			if (!meta__zone_at(r.m, i)->parity || rand_below(&r.rand, 2))
				continue;
			write_at(base + 1 + rand_below(&r.rand, 14), rot_bytes, 1);
			spoilt++;
		}
		cr_assert_eq(scrub_round(scrub), spoilt);
		fold();
		folds_are_right();
		bigs_are_there();
		cr_assert_eq(scrub_round(scrub), 0);
		for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++)
			if (meta__in_fold(meta__zone_at(r.m, i)) &&
			    !meta__zone_at(r.m, i)->parity && meta__zone_at(r.m, i)->live > 12 &&
			    drive_of(i) == seed % 4)
				write_at(meta__geo_zone_baddr(&r.m->zones->geo, i) + 1 +
						 rand_below(&r.rand, 14),
					 rot_bytes, 1);
		(void)scrub_round(scrub); /* it is said where the block was dead */
		fold();
		meta_scrub_stat(scrub, &st);
		cr_assert_gt(st.healed_blocks, 0);
		cr_assert_eq(st.last_bad_blocks, 0);
		bigs_are_there();
		for (uint32_t d = 0; d < 4; d++) {
			r.bad_reads = 1u << d;
			bigs_are_there();
		}
		r.bad_reads = 0;
		meta_scrub_destroy(scrub);
		is_whole();
		rig_end(&r);
	}
}
