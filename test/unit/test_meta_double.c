/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Stores of three copies whose groups are folded: zones of data, P and Q.  Any two drives may fail.
 */
#define STORE_COPIES 3u
#include "test/lib/runs.h"
#include "test/unit/meta_fold_store.h"

TestSuite(meta_double, .timeout = 900);

/* 2+2 or 4+2, and for some seeds one drive more than that. */
static uint32_t width_of(uint64_t seed)
{
	return seed % 4 == 0 ? 4 : 2;
}

static void double_of(uint64_t seed)
{
	const uint32_t width = width_of(seed);

	folds_of(seed, width == 4 ? 6 : 4 + (uint32_t)(seed % 2), width, seed % 3 != 0);
}

/* More drives stay than are missing at a mount. */
static void five_of(uint64_t seed)
{
	const uint32_t width = width_of(seed);

	folds_of(seed, width == 4 ? 6 : 5, width, seed % 3 != 0);
}

/* Two are lost, and enough stay for groups of three. */
static void six_of(uint64_t seed)
{
	folds_of(seed, 6, width_of(seed), seed % 3 != 0);
}

/* Each two drives in turn read nothing: the copies, or the folds, are whole. */
static void any_two_may_fail(void)
{
	for (uint32_t a = 0; a < r.conf.ndrives; a++)
		for (uint32_t b = a; b < r.conf.ndrives; b++) {
			r.bad_reads = 1u << a | 1u << b;
			bigs_are_there();
			all_is_there();
		}
	r.bad_reads = 0;
}

static void mounts(void)
{
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
}

Test(meta_double, groups_become_folds_and_any_two_drives_may_fail)
{
	for (uint64_t seed = 3; seed <= 5; seed++) {
		uint64_t before;

		double_of(seed);
		put_bigs(BIG / 2);
		put_some(FILES);
		before = r.m->zones->free_total;
		fold();
		cr_assert_gt(r.m->zones->folds, 1);
		cr_assert_gt(r.m->zones->free_total, before);
		folds_are_right();
		any_two_may_fail();
		cr_assert_eq(rig_thin_zones(&r), 0);
		cr_assert_eq(rig_stop(&r), 0);
		mounts();
		cr_assert_gt(r.m->zones->folds, 1);
		folds_are_right();
		any_two_may_fail();
		cr_assert_eq(rig_thin_zones(&r), 0);
		is_whole();
		rig_end(&r);
	}
}

Test(meta_double, power_cuts_while_folds_are_made)
{
	uint64_t folds = 0;

	for (uint64_t seed = 1; seed <= test_runs(12); seed++) {
		double_of(seed);
		r.cut_garbles = seed % 2;
		changes(60);
		for (uint32_t cuts = 0; cuts < 15; cuts++) {
			r.cut_at = r.writes + 1 + rand_below(&r.rand, 300);
			changes(40);
			if (!r.cut)
				fold();
			rig_power_cut(&r);
			mounts();
			folds_are_right();
			all_is_there();
			clear_unsure();
			cr_assert_eq(rig_thin_zones(&r), 0);
			folds += r.m->zones->folds;
		}
		any_two_may_fail();
		fold();
		folds_are_right();
		any_two_may_fail();
		is_whole();
		rig_end(&r);
	}
	cr_assert(folds > 300, "%llu", (unsigned long long)folds);
}

/* ---- drives that fail ------------------------------------------------------------------------ */

/* The drives of some fold: of P and Q, of one of these and data, or of data only. */
static uint64_t two_of_a_fold(uint64_t which)
{
	uint32_t zone = 0, of[META_FOLD_MAX], p;

	while (meta__zone_at(r.m, zone)->parity != META__PARITY_P || rand_below(&r.rand, 2))
		zone = (zone + 1) % r.m->zones->geo.nzones;
	p = zone;
	zone = meta__zone_at(r.m, p)->next - 1;
	(void)meta__fold_members(r.m, p, of);
	switch (which % 4) {
	case 0:
		return 1ull << drive_of(p) | 1ull << drive_of(zone);
	case 1:
		return 1ull << drive_of(p) | 1ull << drive_of(of[0]);
	case 2:
		return 1ull << drive_of(zone) | 1ull << drive_of(of[1]);
	default:
		return 1ull << drive_of(of[0]) | 1ull << drive_of(of[1]);
	}
}

static void are_missing(uint64_t drives)
{
	for (uint64_t left = drives; left; left &= left - 1) {
		const uint32_t d = (uint32_t)__builtin_ctzll(left);

		wreck(d);
		r.conf.drive[d].nblocks = 0;
	}
}

/* All that lives has as many copies as the drives that are left can have, or is in a whole fold.
 * With fewer drives than copies groups of the lost ones stay (meta_groups.c (2)). */
static void are_rebuilt(uint64_t drives)
{
	for (uint32_t turns = 0; turns < 300; turns++)
		rig_idle(&r);
	for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++) {
		const struct meta__zone *at = meta__zone_at(r.m, i);

		if (at->live == 0)
			continue;
		cr_assert(!meta__in_fold(at) || meta__fold_reads(r.m, i), "zone %u", i);
		cr_assert_geq(meta__drives_read(r.m, meta__drives_of(r.m, i)), meta__width(r.m));
	}
	for (uint64_t left = drives; meta__width(r.m) == STORE_COPIES && left; left &= left - 1)
		cr_assert(stat_of((uint32_t)__builtin_ctzll(left)).gone);
}

Test(meta_double, two_drives_of_a_fold_are_missing_at_a_mount)
{
	for (uint64_t seed = 1; seed <= test_runs(24); seed++) {
		uint64_t drives;

		five_of(seed);
		put_bigs(BIG / 3);
		changes(60);
		fold();
		if (seed % 2)
			changes(10);
		cr_assert_gt(r.m->zones->folds, 0);
		drives = two_of_a_fold(seed / 2);
		if (seed % 3 < 2)
			rig_power_cut(&r);
		else
			cr_assert_eq(rig_stop(&r), 0);
		are_missing(drives);
		mounts();
		all_is_there();
		clear_unsure();
		folds_are_right();
		are_rebuilt(drives);
		bigs_are_there();
		changes(20);
		fold();
		folds_are_right();
		bigs_are_there();
		is_whole();
		rig_end(&r);
	}
}

/* Two drives die, at once or one after the other, and then the power fails, again and again. */
Test(meta_double, deaths_and_power_cuts_lose_nothing)
{
	for (uint64_t seed = 1; seed <= test_runs(36); seed++) {
		uint64_t drives;

		five_of(seed);
		r.cut_garbles = seed % 5 == 0;
		put_bigs(BIG / 3);
		changes(40);
		if (seed % 4)
			fold();
		drives = r.m->zones->folds ? two_of_a_fold(seed / 2) : 3ull << seed % 3;
		r.dying = (uint32_t)(seed % 3 ? drives : drives & -drives);
		r.dies_at = r.writes + 1 + rand_below(&r.rand, 150);
		r.cut_at = r.dies_at + rand_below(&r.rand, 300);
		changes(150);
		for (uint32_t cuts = 0; cuts < 5; cuts++) {
			if (!r.cut)
				rig_idle(&r);
			rig_power_cut(&r);
			r.dead = r.dying = 0;
			r.dies_at = 0;
			are_missing(cuts || seed % 3 ? drives : drives & -drives);
			cr_assert_eq(rig_mount(&r), 0, "seed %llu: %s", (unsigned long long)seed,
				     meta_error(r.m));
			folds_are_right();
			all_is_there();
			clear_unsure();
			r.cut_at = r.writes + 1 + rand_below(&r.rand, 300);
			changes(20);
		}
		rig_power_cut(&r);
		mounts();
		all_is_there();
		clear_unsure();
		are_rebuilt(drives);
		bigs_are_there();
		is_whole();
		rig_end(&r);
	}
}

/* The second drive dies while what was on the first one moves. */
Test(meta_double, second_drive_dies_during_the_rebuild)
{
	for (uint64_t seed = 1; seed <= test_runs(24); seed++) {
		uint64_t drives;
		uint32_t one, two;

		double_of(seed);
		put_bigs(BIG / 3);
		changes(40);
		fold();
		cr_assert_gt(r.m->zones->folds, 0);
		drives = two_of_a_fold(seed);
		one = (uint32_t)__builtin_ctzll(drives);
		two = (uint32_t)__builtin_ctzll(drives & (drives - 1));
		lose_drive(seed % 2 ? one : two);
		for (uint64_t n = rand_below(&r.rand, 400); n > 0; n--)
			(void)rig_step(&r);
		lose_drive(seed % 2 ? two : one);
		all_is_there();
		bigs_are_there();
		changes(20);
		are_rebuilt(drives);
		all_is_there();
		bigs_are_there();
		folds_are_right();
		is_whole();
		rig_end(&r);
	}
}

/* ---- headers --------------------------------------------------------------------------------- */

static void spoil_heads(uint32_t zone)
{
	uint8_t bytes[4096];

	memset(bytes, 0x55, sizeof(bytes));
	for (uint32_t copy = 0; copy < 2; copy++)
		write_at(meta__geo_zone_head(&r.m->zones->geo, zone, copy), bytes, 1);
}

/* Both copies of headers of P, Q or data, on two drives. */
Test(meta_double, headers_of_a_fold_are_lost)
{
	for (uint64_t seed = 1; seed <= test_runs(20); seed++) {
		uint32_t folds;

		five_of(seed);
		put_bigs(BIG / 3);
		changes(60);
		fold();
		cr_assert_eq(rig_stop(&r), 0);
		mounts();
		folds = r.m->zones->folds;
		cr_assert_gt(folds, 0);
		for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++)
			if (meta__in_fold(meta__zone_at(r.m, i)) &&
			    meta__zone_at(r.m, i)->parity != 1 + seed % 2 &&
			    (drive_of(i) == seed % 5 || drive_of(i) == (seed + 2) % 5) &&
			    rand_below(&r.rand, 4))
				spoil_heads(i);
		rig_power_cut(&r);
		mounts();
		folds_are_right();
		any_two_may_fail();
		cr_assert_eq(r.m->zones->folds, folds);
		changes(20);
		cr_assert_eq(rig_stop(&r), 0);
		mounts();
		folds_are_right();
		cr_assert_eq(rig_thin_zones(&r), 0);
		any_two_may_fail();
		is_whole();
		rig_end(&r);
	}
}

/* Writes what the header of P or Q says, without members or as it is. */
static void write_head(uint32_t zone, bool members)
{
	struct meta__zone_seen head = meta__zone_head(r.m, zone);
	uint8_t block[4096];

	if (!members)
		head = (struct meta__zone_seen){ .zone = zone,
						 .kind = META__ZONE_PARITY,
						 .incarnation = head.incarnation - 1 };
	meta__zone_build(&head, r.m->uuid, block);
	for (uint32_t copy = 0; copy < 2; copy++)
		write_at(meta__geo_zone_head(&r.m->zones->geo, zone, copy), block, 1);
}

/* The power fails when P's header is durable, and Q's is not.  The twins are there still. */
Test(meta_double, fold_that_is_half_named_does_not_count)
{
	for (uint64_t seed = 1; seed <= test_runs(8); seed++) {
		uint32_t folds, p, q;

		five_of(seed);
		put_bigs(BIG / 3);
		folds = r.m->zones->folds;
		meta__ckpt_want(r.m);
		while (!r.m->zones->naming[1])
			(void)rig_step(&r);
		p = r.m->zones->naming[0]->zone;
		q = r.m->zones->naming[1]->zone;
		folds = r.m->zones->folds;
		rig_power_cut(&r);
		mounts();
		if (r.m->zones->folds > folds) /* all was durable: as if Q's had not been */
			write_head(q, false);
		rig_power_cut(&r);
		mounts();
		cr_assert_eq(r.m->zones->folds, folds);
		cr_assert(!meta__in_fold(meta__zone_at(r.m, p)));
		spoil_heads(
			q); /* P's header must not say so for ever: its zones change from here on */
		rig_power_cut(&r);
		mounts();
		cr_assert_eq(r.m->zones->folds, folds);
		cr_assert(!meta__in_fold(meta__zone_at(r.m, p)));
		bigs_are_there();
		any_two_may_fail();
		put_bigs(BIG / 3);
		fold();
		folds_are_right();
		any_two_may_fail();
		is_whole();
		rig_end(&r);
	}
}

/* The power fails when P's header is durable, and Q's is not.  Returns whether it was so. */
static bool cut_between_names(uint32_t *p, uint32_t *q)
{
	uint32_t folds;

	put_bigs(BIG / 3);
	meta__ckpt_want(r.m);
	while (!r.m->zones->naming[1])
		(void)rig_step(&r);
	*p = r.m->zones->naming[0]->zone;
	*q = r.m->zones->naming[1]->zone;
	folds = r.m->zones->folds;
	rig_power_cut(&r);
	mounts();
	if (r.m->zones->folds == folds)
		return false; /* as it should be: but P's header says so no more */
	write_head(*q, false);
	return true;
}

/* Q's zone was given up, and something else is there when a mount sees that P's header has the
 * members. */
Test(meta_double, fold_does_not_count_whose_other_parity_is_something_else)
{
	uint32_t cases = 0;

	for (uint64_t seed = 1; seed <= test_runs(40); seed++) {
		uint32_t p, q;

		five_of(seed);
		if (cut_between_names(&p, &q)) {
			struct meta__zone_seen head = { .zone = q,
							.kind = seed % 2 ? META__ZONE_LOG
									 : META__ZONE_FREE,
							.epoch = 1,
							.order = 1,
							.incarnation = 1000 };
			uint8_t block[4096];

			cases++;
			meta__zone_build(&head, r.m->uuid, block);
			for (uint32_t copy = 0; copy < 2; copy++)
				write_at(meta__geo_zone_head(&r.m->zones->geo, q, copy), block, 1);
			rig_power_cut(&r);
			mounts();
			cr_assert(!meta__in_fold(meta__zone_at(r.m, p)));
			spoil_heads(q);
			rig_power_cut(&r);
			mounts();
			cr_assert(!meta__in_fold(meta__zone_at(r.m, p)), "seed %llu",
				  (unsigned long long)seed);
			bigs_are_there();
			any_two_may_fail();
			is_whole();
		}
		rig_end(&r);
	}
	cr_assert_gt(cases, 2);
}

/* The two copies of P's header are whole, and of one incarnation, but one is of another kind. */
Test(meta_double, half_named_header_whose_other_copy_is_of_another_kind)
{
	uint32_t cases = 0;

	for (uint64_t seed = 1; seed <= test_runs(40); seed++) {
		uint32_t p, q;

		five_of(seed);
		if (cut_between_names(&p, &q)) {
			const struct meta__zone_seen was = meta__zone_head(r.m, p);
			struct meta__zone_seen head = { .zone = p,
							.kind = META__ZONE_FREE,
							.incarnation = was.incarnation };
			uint8_t block[4096];

			cases++;
			meta__zone_build(&head, r.m->uuid, block);
			write_at(meta__geo_zone_head(&r.m->zones->geo, p, 1), block, 1);
			rig_power_cut(&r);
			mounts();
			cr_assert(!meta__in_fold(meta__zone_at(r.m, p)));
			bigs_are_there();
			is_whole();
		}
		rig_end(&r);
	}
	cr_assert_gt(cases, 2);
}

/* The drive of Q is lost while P's header is on its way: the fold is made without Q. */
Test(meta_double, drive_of_q_is_lost_while_the_header_of_p_is_written)
{
	uint32_t made = 0;

	for (uint64_t seed = 1; seed <= test_runs(8); seed++) {
		uint32_t q, folds;

		five_of(seed);
		put_bigs(BIG / 3);
		meta__ckpt_want(r.m);
		while (!r.m->zones->naming[0])
			(void)rig_step(&r);
		folds = r.m->zones->folds;
		cr_assert(!r.m->zones->naming[1]);
		q = r.m->zones->naming[0]->twin - 1;
		r.dead |= 1u << drive_of(q);
		cr_assert(meta__drive_lose(r.m, drive_of(q)));
		while (r.m->zones->naming[0])
			(void)rig_step(&r);
		made += r.m->zones->folds > folds;
		are_rebuilt(1ull << drive_of(q));
		bigs_are_there();
		is_whole();
		rig_end(&r);
	}
	cr_assert_gt(made, 0);
}

/* P's drive is lost when P's header is durable, and so are two drives of data, whose zones have
 * other copies: the header of Q may not be written after that. */
Test(meta_double, drives_of_p_and_data_are_lost_before_the_header_of_q)
{
	uint32_t lost = 0;

	for (uint64_t seed = 1; seed <= 48; seed++) {
		uint32_t drive[3], losses = 0;

		folds_of(seed, 6, 2, seed % 3 != 0);
		for (uint32_t i = 0; !r.m->zones->naming[0]; i++) {
			cr_assert_eq(put_big(i % BIG), 0);
			meta__ckpt_want(r.m);
			for (uint32_t n = 0; n < 200 && !r.m->zones->naming[0]; n++)
				(void)rig_step(&r);
		}
		drive[0] = drive_of(r.m->zones->naming[0]->zone);
		for (uint32_t i = 0; i < 2; i++)
			drive[1 + i] = drive_of(r.m->zones->naming[0]->member[i]);
		for (uint32_t i = 0; i < 3; i++)
			losses += meta_drive_failed(r.m, drive[i]);
		while (r.m->zones->naming[0])
			(void)rig_step(&r);
		for (uint32_t n = 0; n < 1000 && r.m->losing; n++)
			(void)rig_step(&r);
		if (losses == 3) {
			rig_power_cut(&r);
			are_missing(1ull << drive[0] | 1ull << drive[1] | 1ull << drive[2]);
			mounts();
			bigs_are_there();
			lost++;
		}
		r.never = 0;
		rig_end(&r);
	}
	cr_assert_gt(lost, 3);
}

/* ---- bytes that rot -------------------------------------------------------------------------- */

/* One drive is lost, and blocks of another one have rotted in each fold: the other parity says
 * what is on both. */
Test(meta_double, rot_beside_a_lost_drive)
{
	static const uint8_t rot_bytes[4096] = { 1, 2, 3 };

	for (uint64_t seed = 1; seed <= test_runs(12); seed++) {
		const uint32_t lost = (uint32_t)seed % 5,
			       rots = (lost + 1 + (uint32_t)seed % 3) % 5;

		five_of(seed);
		put_bigs(BIG / 3);
		fold();
		cr_assert_gt(r.m->zones->folds, 1);
		for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++)
			if (meta__in_fold(meta__zone_at(r.m, i)) && drive_of(i) == rots)
				write_at(meta__geo_zone_baddr(&r.m->zones->geo, i) + 1 +
						 rand_below(&r.rand, 14),
					 rot_bytes, 1);
		lose_drive(lost);
		are_rebuilt(1ull << lost);
		bigs_are_there();
		is_whole();
		rig_end(&r);
	}
}

/* Two drives are lost, and a block of a third cannot be read: only what depends on it stays. */
Test(meta_double, block_that_cannot_be_read_keeps_no_others)
{
	for (uint64_t seed = 1; seed <= 6; seed++) {
		uint32_t of[META_FOLD_MAX], p = 0;
		uint64_t live = 0, at;

		six_of(seed);
		put_bigs(BIG / 3);
		fold();
		while (meta__zone_at(r.m, p)->parity != META__PARITY_P)
			p++;
		(void)meta__fold_members(r.m, p, of);
		at = meta__geo_zone_baddr(&r.m->zones->geo, p) + 5;
		r.unread[drive_of(p)].from = META_BADDR_BLOCK(at);
		r.unread[drive_of(p)].to = META_BADDR_BLOCK(at) + 1;
		lose_drive(drive_of(of[0]));
		lose_drive(drive_of(of[1]));
		for (uint32_t turns = 0; turns < 100; turns++)
			rig_idle(&r);
		for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++)
			if (!meta__drive_reads(r.m, drive_of(i)))
				live += meta__zone_at(r.m, i)->live;
		cr_assert_leq(live, 2, "seed %llu: %llu blocks", (unsigned long long)seed,
			      (unsigned long long)live);
		rig_end(&r);
	}
}

static bool is_full(uint32_t zone)
{
	const struct meta__zone *at = meta__zone_at(r.m, zone);

	return at->parity || at->live + 1 == r.m->zones->geo.zone_end;
}

/* The blocks of two zones of a fold rot, at the same places, and all of them live. */
static void rot_beside_each_other(uint32_t one, uint32_t other)
{
	static const uint8_t rot_bytes[4096] = { 1, 2, 3 };

	for (uint32_t i = 1; i < r.m->zones->geo.zone_end; i++) {
		write_at(meta__geo_zone_baddr(&r.m->zones->geo, one) + i, rot_bytes, 1);
		write_at(meta__geo_zone_baddr(&r.m->zones->geo, other) + i, rot_bytes, 1);
	}
}

Test(meta_double, blocks_that_rot_beside_each_other_are_mended)
{
	uint32_t data = 0, parity = 0;

	for (uint64_t seed = 1; seed <= 16; seed++) {
		struct meta_scrub *scrub;
		struct meta_scrub_stat st;
		uint64_t rotten = 0;

		five_of(seed);
		put_bigs(BIG / 3);
		fold();
		cr_assert_eq(meta_scrub_create(&scrub, r.m), 0);
		cr_assert_eq(scrub_round(scrub), 0);
		for (uint32_t p = 0; p < r.m->zones->geo.nzones; p++) {
			uint32_t of[META_FOLD_MAX], other;

			if (meta__zone_at(r.m, p)->parity != META__PARITY_P)
				continue;
			(void)meta__fold_members(r.m, p, of);
			other = seed % 3 ? of[1] : seed % 2 ? p : meta__zone_at(r.m, p)->next - 1;
			if (!is_full(of[0]) || !is_full(other))
				continue;
			rot_beside_each_other(of[0], other);
			rotten += (r.m->zones->geo.zone_end - 1) * (seed % 3 ? 2 : 1);
			*(seed % 3 ? &data : &parity) += 1;
		}
		cr_assert_eq(scrub_round(scrub) > 0, rotten && seed % 3 == 0, "lines");
		meta_scrub_stat(scrub, &st);
		cr_assert_eq(st.healed_blocks, rotten);
		fold(); /* folds of which a parity has rotted end */
		bigs_are_there();
		folds_are_right();
		any_two_may_fail();
		meta_scrub_destroy(scrub);
		is_whole();
		rig_end(&r);
	}
	cr_assert(data > 10 && parity > 5, "%u, %u", data, parity);
}

Test(meta_double, scrub_checks_both_parities)
{
	static const uint8_t rot_bytes[4096] = { 1, 2, 3 };

	for (uint64_t seed = 1; seed <= test_runs(8); seed++) {
		struct meta_scrub *scrub;
		struct meta_scrub_stat st;
		uint64_t spoilt = 0;

		five_of(seed);
		put_bigs(BIG / 3);
		fold();
		cr_assert_gt(r.m->zones->folds, 1);
		cr_assert_eq(meta_scrub_create(&scrub, r.m), 0);
		cr_assert_eq(scrub_round(scrub), 0);
		for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++) {
			const uint64_t base = meta__geo_zone_baddr(&r.m->zones->geo, i);

			if (meta__zone_at(r.m, i)->parity != 1 + seed % 2 || rand_below(&r.rand, 2))
				continue;
			write_at(base + 1 + rand_below(&r.rand, 14), rot_bytes, 1);
			spoilt++;
		}
		cr_assert_eq(scrub_round(scrub), spoilt);
		fold();
		folds_are_right();
		bigs_are_there();
		cr_assert_eq(scrub_round(scrub), 0);
		meta_scrub_stat(scrub, &st);
		cr_assert_eq(st.last_bad_blocks, 0);
		any_two_may_fail();
		meta_scrub_destroy(scrub);
		is_whole();
		rig_end(&r);
	}
}

/* ---- room and drives ------------------------------------------------------------------------- */

Test(meta_double, files_fill_what_folds_can_hold)
{
	uint64_t blocks[2];

	for (uint32_t folded = 0; folded < 2; folded++) {
		uint32_t n = 0;
		char path[32];
		int err;

		folds_of(1, 6, folded ? 4 : 0, true);
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
	printf("%llu, %llu\n", (unsigned long long)blocks[0], (unsigned long long)blocks[1]);
	cr_assert_gt(blocks[1], blocks[0] * 13 / 10);
}

Test(meta_double, drive_is_drained_and_another_added)
{
	for (uint64_t seed = 1; seed <= 6; seed++) {
		const uint32_t drive = (uint32_t)seed % 4;

		folds_of(seed, 4, 2, true);
		put_bigs(BIG / 3);
		changes(40);
		fold();
		cr_assert_gt(r.m->zones->folds, 0);
		cr_assert_eq(rig_drive_add(&r, rig_drive(&r, DRIVE_BYTES, true)), 0);
		cr_assert_eq(meta_drive_drain(r.m, drive), 0, "%s", meta_error(r.m));
		for (uint32_t n = 0; n < 300 && !stat_of(drive).gone; n++)
			rig_idle(&r);
		cr_assert(stat_of(drive).gone, "%u", stat_of(drive).zones_used);
		changes(40);
		fold();
		cr_assert_gt(r.m->zones->folds, 0);
		folds_are_right();
		any_two_may_fail();
		is_whole();
		rig_end(&r);
	}
}

Test(meta_double, folds_are_collected_as_a_whole)
{
	for (uint64_t seed = 3; seed <= 5; seed++) {
		double_of(seed);
		put_bigs(BIG / 2);
		for (uint32_t n = 0; n < 600; n++)
			cr_assert_eq(put_big((uint32_t)rand_below(&r.rand, BIG / 2)), 0, "%u: %s",
				     n, meta_error(r.m));
		folds_are_right();
		any_two_may_fail();
		is_whole();
		rig_end(&r);
	}
}
