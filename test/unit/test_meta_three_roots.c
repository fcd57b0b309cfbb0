/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Roots of a store of three copies: on three drives, of which any two may be missing. */
#include "test/lib/runs.h"
#include "test/unit/meta_three_store.h"

TestSuite(meta_three_roots, .timeout = 120);

static const struct meta__geo *geo(void)
{
	return &r.m->zones->geo;
}

/* Returns how many drives have a copy of this piece of the roots. */
static uint32_t drives_with(uint32_t piece)
{
	uint64_t drives = 0;

	for (uint32_t copy = 0; copy < geo()->root_copies; copy++)
		drives |= 1ull << meta__geo_root_drive(geo(), copy, piece);
	return (uint32_t)__builtin_popcountll(drives);
}

static void roots_are_on(uint32_t drives)
{
	for (uint32_t i = 0; i < meta__geo_root_pieces(geo()); i++)
		cr_assert_eq(drives_with(i), drives, "piece %u: %u drives", i, drives_with(i));
}

/* All whole copies of the slot that counts are the same. */
static void copies_agree(void)
{
	for (uint32_t shard = 0; shard < geo()->nshards; shard++) {
		const uint32_t slot = r.m->shard[shard].root_slot;
		struct meta__root_seen seen;

		for (uint32_t copy = 0; copy < geo()->root_copies; copy++) {
			const uint64_t at = meta__geo_root(geo(), copy, slot, shard);

			cr_assert_eq(meta__root_parse(rig_block(&r, at), r.m->uuid, &seen), 0,
				     "shard %u, copy %u", shard, copy);
			cr_assert_eq(seen.version, r.m->shard[shard].root_version);
		}
	}
}

Test(meta_three_roots, each_root_is_on_three_drives)
{
	for (uint32_t ndrives = 3; ndrives <= 5; ndrives++) {
		three(ndrives, ndrives, 4, ndrives % 2);
		cr_assert_eq(geo()->root_copies, 3);
		roots_are_on(3);
		copies_agree();
		put_some(30);
		cr_assert_eq(rig_stop(&r), 0);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		copies_agree();
		is_whole();
		rig_end(&r);
	}
}

/* Returns whether the copies are on so many drives, which can all be read. */
static bool are_on(uint32_t drives)
{
	bool all = true;

	for (uint32_t i = 0; i < meta__geo_root_pieces(geo()); i++)
		all &= drives_with(i) == drives;
	for (uint32_t d = 0; d < geo()->ndrives; d++)
		all &= meta__drive_reads(r.m, d) || !meta__geo_any_roots_on(geo(), d);
	return all;
}

/* One root area is a part of a zone, or takes several: then their drives differ. */
Test(meta_three_roots, roots_of_two_lost_drives_move)
{
	for (uint64_t seed = 1; seed <= test_runs(24); seed++) {
		const uint32_t a = (uint32_t)(seed % 3), b = (uint32_t)((seed / 3 + 1 + a) % 4);
		uint32_t steps = 0;

		if (a == b)
			continue;
		three(seed, 5, seed % 2 ? 4 : 32, seed % 4 > 1);
		put_some(60);
		lose_two(a, b);
		r.never = 0;
		for (; steps < 20000 && !are_on(3); steps++)
			if (!rig_step(&r))
				put_some(1);
		cr_assert(are_on(3), "seed %llu", (unsigned long long)seed);
		cr_assert(!stat_of(a).gone || !stat_of(b).gone, "roots come first");
		copies_agree();
		rig_power_cut(&r);
		take_away(a);
		take_away(b);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		rebuilt(a);
		r.never = 0;
		rebuilt(b);
		roots_are_on(3);
		copies_agree();
		is_whole();
		rig_end(&r);
	}
}

static void until_on(uint32_t drives)
{
	for (uint32_t turn = 0; turn < 100 && !are_on(drives); turn++)
		rig_idle(&r);
	roots_are_on(drives);
	copies_agree();
}

/* On as many as there are. */
Test(meta_three_roots, roots_go_to_three_drives_again_when_one_is_added)
{
	for (uint32_t lost = 1; lost <= 2; lost++) {
		three(lost, 3, lost == 1 ? 4 : 32, true);
		put_some(20);
		for (uint32_t d = 0; d < lost; d++) {
			lose_drive(d);
			until_on(2 - d);
		}
		for (uint32_t n = 1; n <= lost; n++) {
			add_drive();
			until_on(3 - lost + n);
		}
		for (uint32_t d = 0; d < lost; d++)
			rebuilt(d);
		is_whole();
		cr_assert_eq(rig_stop(&r), 0);
		r.dead = r.never = 0;
		for (uint32_t d = 0; d < lost; d++)
			r.conf.drive[d].nblocks = 0;
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		roots_are_on(3);
		is_whole();
		rig_end(&r);
	}
}

static void leaves(uint32_t drive)
{
	cr_assert_eq(meta_drive_drain(r.m, drive), 0, "%s", meta_error(r.m));
	for (uint32_t n = 0; n < 300 && !stat_of(drive).gone; n++)
		rig_idle(&r);
	cr_assert(stat_of(drive).gone);
}

Test(meta_three_roots, each_copy_leaves_a_drive_that_is_drained)
{
	for (uint32_t first = 0; first < 3; first++) {
		three(first + 1, 6, first ? 32 : 4, first % 2);
		put_some(20);
		for (uint32_t i = 0; i < 3; i++) {
			leaves((first + i) % 3);
			roots_are_on(3);
			copies_agree();
		}
		cr_assert_eq(rig_stop(&r), 0);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		roots_are_on(3);
		is_whole();
		rig_end(&r);
	}
}

/* ---- power cuts -------------------------------------------------------------------------- */

/* A checkpoint, cut off at its write `n`; 0: not.  Returns how many writes that were. */
static uint64_t checkpoint(uint64_t n)
{
	const uint64_t before = r.writes;

	r.cut_at = n ? before + n : 0;
	meta__ckpt_want(r.m);
	rig_idle(&r);
	r.cut_at = 0;
	return r.writes - before;
}

static void store_with_changes(uint64_t seed)
{
	three(seed, 3, 4, seed % 2);
	put_some(12);
	rig_idle(&r);
	put_some(12);
}

/* The power fails between any two writes of a checkpoint, and two drives do not come back: any one
 * copy of the roots is enough, whether it is new, old, or torn. */
Test(meta_three_roots, checkpoint_is_cut_anywhere_and_any_one_copy_of_the_roots_is_left)
{
	for (uint32_t kept = 0; kept < 3; kept++) {
		uint64_t writes;

		store_with_changes(kept);
		writes = checkpoint(0);
		cr_assert_gt(writes, 4 * 3, "each shard has three copies");
		rig_end(&r);
		for (uint64_t n = 1; n <= writes; n++) {
			store_with_changes(kept);
			(void)checkpoint(n);
			rig_power_cut(&r);
			for (uint32_t d = 0; d < 3; d++)
				if (d != kept)
					take_away(d);
			cr_assert_eq(rig_mount(&r), 0, "drive %u, write %llu: %s", kept,
				     (unsigned long long)n, meta_error(r.m));
			is_whole();
			rig_end(&r);
		}
	}
}

/* Two are lost at once, and the power fails while their roots move. */
Test(meta_three_roots, power_fails_while_roots_of_two_lost_drives_move)
{
	for (uint64_t seed = 1; seed <= test_runs(60); seed++) {
		three(seed, 5, seed % 2 ? 4 : 32, seed % 4 > 1);
		put_some(30);
		r.cut_at = r.writes + 1 + rand_below(&r.rand, 120);
		r.dead |= 1 << 0 | 1 << 1;
		cr_assert(meta_drive_failed(r.m, 0) && meta_drive_failed(r.m, 1));
		for (uint32_t n = 0; n < 60 && !r.cut; n++)
			(void)put((uint32_t)rand_below(&r.rand, FILES));
		rig_power_cut(&r);
		r.cut_at = r.dead = 0;
		take_away(0);
		take_away(1);
		cr_assert_eq(rig_mount(&r), 0, "seed %llu: %s", (unsigned long long)seed,
			     meta_error(r.m));
		all_is_there();
		rebuilt(0);
		r.never = 0;
		rebuilt(1);
		roots_are_on(3);
		is_whole();
		rig_end(&r);
	}
}

/* ---- damage ------------------------------------------------------------------------------ */

static void spoil_root(uint32_t copy, uint32_t slot, uint32_t shard)
{
	const uint64_t at = meta__geo_root(geo(), copy, slot, shard);
	const size_t byte = META_BADDR_BLOCK(at) * 4096 + 900;

	r.view[META_BADDR_DRIVE(at)][byte] ^= 1;
	r.image[META_BADDR_DRIVE(at)][byte] ^= 1;
}

/* One whole copy of each slot is enough; a slot without any is named. */
Test(meta_three_roots, any_two_copies_of_any_root_may_be_damaged_and_not_all)
{
	for (uint32_t i = 0; i < 4 * 4; i++) {
		const uint32_t spoilt = i % 4, slot = i / 4 % 2, shard = i / 8;

		three(i, 4, 4, true);
		put_some(20);
		rig_idle(&r);
		for (uint32_t copy = 0; copy < 3; copy++)
			if (spoilt == 3 || copy != spoilt)
				spoil_root(copy, slot, shard);
		rig_power_cut(&r);
		if (spoilt == 3) {
			cr_assert_eq(rig_mount(&r), -EUCLEAN);
			cr_assert(strstr(meta_error(r.m), "all copies of a root are damaged"), "%s",
				  meta_error(r.m));
		} else {
			cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
			cr_assert(strstr(meta_error(r.m), "another one is used"), "%s",
				  meta_error(r.m));
			is_whole();
		}
		rig_end(&r);
	}
}

/* No store is converted to three copies or back: one of the two is wrong. */
Test(meta_three_roots, superblock_of_the_same_set_that_says_two_copies_refuses_the_mount)
{
	static uint8_t block[4096];
	struct meta__super s;

	three(1, 4, 4, true);
	put_some(10);
	rig_idle(&r);
	s = r.m->boot->super;
	s.copies = 2;
	s.drive = 1;
	s.nzones = geo()->zone_count[1];
	meta__super_build(&s, block);
	rig_power_cut(&r);
	memcpy(r.image[1], block, sizeof(block));
	memcpy(r.view[1], block, sizeof(block));
	cr_assert_eq(rig_mount(&r), -EUCLEAN);
	cr_assert(strstr(meta_error(r.m), "drive 1: a superblock says 2 copies, another one"), "%s",
		  meta_error(r.m));
	rig_end(&r);
}
