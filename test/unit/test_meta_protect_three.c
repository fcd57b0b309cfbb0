/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A store of one copy or two gets a third one of each block while it serves: nothing is lost,
 * whenever the power fails; as many drives may be lost meanwhile as before, and two afterwards.
 */
#include <stdint.h>

static uint32_t from = 2;
#define STORE_COPIES from
#include "test/unit/meta_pair_store.h"
#include "meta/meta_protect.h"

TestSuite(meta_protect_three, .timeout = 300);

static void of_copies(uint32_t copies, uint64_t seed, uint32_t ndrives)
{
	from = copies;
	store(seed, ndrives, seed % 2);
	r.copied = copies > 1;
}

static int protect(void)
{
	struct meta_op op = { .type = META_OP_DRIVE, .flags = META_PROTECT, .offset = 3 };

	return rig_run(&r, &op);
}

/* Until each block has three copies. */
static void converted(void)
{
	const uint32_t copies = r.m->converts;

	for (uint32_t turns = 0; turns < 300 && rig_statfs(&r).converts; turns++) {
		cr_assert_eq(rig_statfs(&r).sure_copies, copies);
		rig_idle(&r);
	}
	cr_assert(!rig_statfs(&r).converts, "%u zones lack copies; %s", r.m->zones->lone,
		  meta_error(r.m));
	cr_assert_eq(rig_statfs(&r).copies, 3);
	cr_assert_eq(rig_statfs(&r).sure_copies, 3);
	cr_assert_eq(rig_thin_zones(&r), 0);
	r.copied = true;
}

/* Any two, one after the other, or at once if more stay. */
static void loses_two(uint64_t seed)
{
	const uint32_t a = (uint32_t)(seed % r.ndrives);
	const uint32_t b = (uint32_t)((a + 1 + seed / r.ndrives % (r.ndrives - 1)) % r.ndrives);

	r.dead |= 1u << a;
	wreck(a);
	if (seed % 2 || r.ndrives < 4)
		put_some(20);
	r.dead |= 1u << b;
	wreck(b);
	put_some(40);
	all_is_there();
	cr_assert(stat_of(a).lost || stat_of(a).gone);
	cr_assert(stat_of(b).lost || stat_of(b).gone, "%u and %u; %s", a, b, meta_error(r.m));
	is_whole();
}

Test(meta_protect_three, any_two_drives_may_be_lost_afterwards)
{
	for (uint64_t seed = 1; seed <= 40; seed++) {
		of_copies(1 + (uint32_t)(seed % 4 > 0), seed, 3 + (uint32_t)(seed % 3));
		put_some(100);
		cr_assert_eq(protect(), 0, "%s", meta_error(r.m));
		cr_assert_eq(rig_statfs(&r).sure_copies, from);
		cr_assert(rig_statfs(&r).converts && rig_statfs(&r).lone_blocks > 0);
		cr_assert_eq(protect(), -EALREADY);
		put_some(60);
		converted();
		is_whole();
		if (seed % 3 == 0) {
			cr_assert_eq(rig_stop(&r), 0);
			cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
			cr_assert(!rig_statfs(&r).converts && r.m->copies == 3);
			cr_assert_eq(rig_thin_zones(&r), 0);
		}
		cr_assert_eq(protect(), -EALREADY);
		loses_two(seed);
		rig_end(&r);
	}
}

/* ---- the power fails ------------------------------------------------------------------------- */

/* The superblocks name a third copy of the roots exactly if they say three copies. */
static void is_before_or_after(void)
{
	const struct meta__super *s = &r.m->boot->super;

	cr_assert(s->copies == from ? !s->converts && !s->root_zone[2][0]
				    : s->copies == 3 && s->root_zone[2][0]);
	cr_assert_eq(r.m->zones->geo.root_copies, max_u32(s->copies, 2));
	all_is_there();
}

static void some_are_put(uint32_t count)
{
	for (uint32_t n = 0; n < count && !r.cut; n++)
		(void)put((uint32_t)rand_below(&r.rand, FILES));
}

/* Asks again if it had not begun. */
static void goes_on(uint64_t seed)
{
	r.cut_at = 0;
	if (r.m->copies < 3)
		cr_assert_eq(protect(), 0, "%s", meta_error(r.m));
	converted();
	is_whole();
	loses_two(seed);
}

Test(meta_protect_three, power_cuts_lose_nothing)
{
	uint32_t ended = 0;

	for (uint64_t seed = 1; seed <= 50; seed++) {
		of_copies(1 + (uint32_t)(seed % 3 > 0), seed, 3 + (uint32_t)(seed % 2));
		r.cut_garbles = seed % 5 == 0;
		put_some(60);
		for (uint32_t cuts = 0; cuts < 10; cuts++) {
			r.cut_at = r.writes + 1 + rand_below(&r.rand, 400);
			if (r.m->copies < 3)
				(void)protect();
			some_are_put(10);
			if (!r.cut)
				rig_idle(&r);
			rig_power_cut(&r);
			cr_assert_eq(rig_mount(&r), 0, "seed %llu: %s", (unsigned long long)seed,
				     meta_error(r.m));
			is_before_or_after();
			ended += r.m->copies == 3 && !r.m->converts;
		}
		goes_on(seed);
		rig_end(&r);
	}
	cr_assert(ended > 20, "%u", ended);
}

/* Each write from the request to its answer, and the changes after it. */
Test(meta_protect_three, power_is_cut_at_each_write_while_it_begins)
{
	uint32_t begun = 0, answered = 0;

	for (uint64_t at = 1; answered < 20; at++) {
		int err;

		of_copies(1 + (uint32_t)(at % 2), 7, 3);
		r.cut_garbles = at % 3 == 0;
		put_some(30);
		rig_idle(&r);
		r.cut_at = r.writes + at;
		err = protect();
		cr_assert(!err || r.cut);
		answered += !err;
		some_are_put(20);
		cr_assert(r.cut);
		rig_power_cut(&r);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		cr_assert(err || r.m->copies == 3, "write %llu: it was answered",
			  (unsigned long long)at);
		is_before_or_after();
		begun += err && r.m->copies == 3;
		goes_on(at);
		rig_end(&r);
	}
	cr_assert_gt(begun, 4);
}

/* Each write of the last set. */
Test(meta_protect_three, power_is_cut_at_each_write_while_it_ends)
{
	for (uint32_t at = 1; at <= 7; at++) {
		of_copies(1 + at % 2, 20 + at, 3);
		put_some(40);
		cr_assert_eq(protect(), 0);
		while (!r.m->boot->adding || r.m->boot->next.converts)
			(void)rig_step(&r);
		r.cut_at = r.writes + at;
		some_are_put(10);
		rig_power_cut(&r);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		is_before_or_after();
		goes_on(at);
		rig_end(&r);
	}
}

/* ---- drives are lost ------------------------------------------------------------------------- */

static int mount_without(const uint32_t *drive, uint32_t count)
{
	rig_power_cut(&r);
	for (uint32_t i = 0; i < count; i++)
		r.conf.drive[drive[i]].nblocks = 0;
	return rig_mount(&r);
}

static void all_are_back(void)
{
	rig_power_cut(&r);
	r.dead = 0;
	for (uint32_t d = 0; d < r.ndrives; d++)
		r.conf.drive[d].nblocks = DRIVE_BYTES / 4096;
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
}

Test(meta_protect_three, one_drive_may_be_lost_or_missing_while_it_converts)
{
	for (uint64_t seed = 1; seed <= 40; seed++) {
		const uint32_t drive = (uint32_t)(seed % 5);
		const uint32_t both[2] = { drive, (drive + 1 + (uint32_t)(seed / 5 % 4)) % 5 };

		of_copies(2, seed, 5);
		put_some(80);
		cr_assert_eq(protect(), 0);
		for (uint64_t n = rand_below(&r.rand, 2000); n > 0 && r.m->zones->lone > 8; n--)
			(void)rig_step(&r);
		cr_assert(r.m->converts);
		cr_assert_eq(mount_without(both, 2), -ENODEV, "each block has two copies only");
		all_are_back();
		cr_assert(!stat_of(both[0]).lost && !stat_of(both[1]).lost);
		if (seed % 2)
			lose_drive(drive);
		else
			cr_assert_eq(mount_without(both, 1), 0, "%s", meta_error(r.m));
		cr_assert(r.m->converts == 2 && stat_of(drive).lost);
		wreck(drive);
		put_some(40);
		is_whole();
		rebuilt(drive);
		converted();
		r.never = 0;
		lose_drive(both[1]);
		is_whole();
		rig_end(&r);
	}
}

/* At any moment from the request on; another one while the store serves, if nothing depends on it.
 * Each acknowledged change is there, after power cuts, too. */
Test(meta_protect_three, drives_fail_at_any_moment)
{
	uint32_t refused = 0, begun = 0, second = 0;

	for (uint64_t seed = 1; seed <= 120; seed++) {
		const uint32_t drive = (uint32_t)(seed % 5), other = (drive + 1) % 5;

		of_copies(2, seed, 5);
		put_some(60);
		cr_assert_eq(meta_protect(r.m, 3), 0);
		for (uint64_t n = rand_below(&r.rand, 1u << (seed % 11)); n > 0; n--)
			(void)rig_step(&r);
		lose_drive(drive);
		wreck(drive);
		put_some(5);
		if (r.m->copies == 3)
			begun++;
		else
			refused++;
		for (uint64_t n = rand_below(&r.rand, 1u << (seed % 13)); n > 0; n--)
			(void)rig_step(&r);
		while (seed % 3 == 0 && meta__drive_is_needed(r.m, other))
			(void)rig_step(&r);
		if (seed % 3 == 0 && !stat_of(drive).gone && meta_drive_failed(r.m, other)) {
			r.dead |= 1u << other;
			second++;
			for (uint32_t n = 0; n < 1000 && r.m->losing; n++)
				(void)rig_step(&r);
			wreck(other);
		}
		put_some(5);
		rig_power_cut(&r);
		cr_assert_eq(rig_mount(&r), 0, "seed %llu: %s", (unsigned long long)seed,
			     meta_error(r.m));
		is_whole();
		rig_end(&r);
	}
	cr_assert(refused > 10 && begun > 10 && second > 5, "%u, %u, %u", refused, begun, second);
}

/* The drive that was alone with the begin is lost by a mount without it, under the same number. */
Test(meta_protect_three, drive_that_alone_knows_of_it_comes_back)
{
	for (uint32_t at = 1; at < 60; at++) {
		bool knows;

		of_copies(2, 5, 3);
		put_some(30);
		rig_idle(&r);
		r.cut_at = r.writes + at;
		(void)protect();
		r.cut_at = 0;
		rig_power_cut(&r);
		r.conf.drive[0].nblocks = 0;
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		knows = r.m->copies == 3;
		cr_assert(stat_of(0).lost);
		cr_assert_eq(put(3), 0);
		all_are_back();
		cr_assert(stat_of(0).lost && (r.m->copies == 3) == knows);
		is_whole();
		rig_end(&r);
	}
}

/* Both superblocks of the drive say so, under the same number of the set. */
static void claim(uint32_t drive, uint32_t copies, uint32_t sure)
{
	const uint64_t at[2] = { 0, r.conf.drive[drive].nblocks - 1 };

	for (uint32_t copy = 0; copy < 2; copy++) {
		uint8_t *block = r.image[drive] + at[copy] * 4096;
		struct meta__super s;
		char why[128];

		cr_assert_eq(meta__super_parse(block, &s, why), 0, "%s", why);
		s.copies = copies;
		s.converts = sure < copies ? sure : 0;
		meta__super_build(&s, block);
		memcpy(r.view[drive] + at[copy] * 4096, block, 4096);
	}
}

/* Whichever says what, no more drives are missing than each block has copies for sure. */
Test(meta_protect_three, superblocks_of_one_set_that_differ_in_copies_are_taken_with_care)
{
	for (uint32_t k = 0; k < 12; k++) {
		const uint32_t liar = 1 + k % 4, sure = 1 + k % 3;

		of_copies(2, 20 + k, 5);
		put_some(80);
		cr_assert_eq(protect(), 0);
		if (k % 2)
			converted();
		rig_power_cut(&r);
		claim(liar, k < 6 ? 3 : 2, sure);
		if (k >= 6 && sure > 2)
			claim(liar, 2, 2);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		cr_assert_eq(r.m->copies, 3);
		cr_assert(r.m->converts == min_u32(sure, 2) || (k % 2 && sure == 3), "%u: %u", k,
			  r.m->converts);
		rig_power_cut(&r);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		cr_assert_str_eq(meta_error(r.m), "");
		put_some(20);
		converted();
		loses_two(k);
		rig_end(&r);
	}
	of_copies(2, 40, 3);
	put_some(20);
	cr_assert_eq(protect(), 0);
	rig_power_cut(&r);
	claim(0, 2, 2);
	cr_assert_eq(rig_mount(&r), -EUCLEAN, "where is the third copy of the roots?");
	rig_end(&r);
}

/* ---- what is refused ------------------------------------------------------------------------- */

Test(meta_protect_three, two_drives_are_too_few)
{
	for (uint32_t copies = 1; copies < 3; copies++) {
		of_copies(copies, copies, 2);
		put_some(30);
		cr_assert_eq(protect(), -EPERM);
		cr_assert_eq(r.m->copies, copies);
		cr_assert_eq(rig_drive_add(&r, rig_drive(&r, DRIVE_BYTES, true)), 0);
		cr_assert_eq(protect(), 0, "%s", meta_error(r.m));
		converted();
		loses_two(copies);
		rig_end(&r);
	}
}

Test(meta_protect_three, store_with_folds_is_refused)
{
	of_copies(2, 3, 4);
	put_some(30);
	cr_assert_eq(rig_run(&r, &(struct meta_op){ .type = META_OP_DRIVE,
						    .flags = META_PROTECT,
						    .offset = 2,
						    .length = 2 }),
		     0);
	cr_assert_eq(protect(), -EINVAL);
	cr_assert(r.m->copies == 2 && !r.m->converts);
	is_whole();
	rig_end(&r);
}

/* It may lose no drive before its own copies are complete: three promise no more meanwhile. */
Test(meta_protect_three, store_that_lacks_copies_is_refused)
{
	of_copies(2, 4, 4);
	put_some(60);
	lose_drive(1);
	cr_assert_eq(protect(), -ENODEV);
	rebuilt(1);
	cr_assert_eq(protect(), 0, "%s", meta_error(r.m));
	r.never = 0;
	converted();
	is_whole();
	rig_end(&r);
	of_copies(1, 4, 3);
	put_some(60);
	cr_assert_eq(meta_protect(r.m, 2), 0);
	while (meta_drive_drain_status(r.m) == -EAGAIN)
		(void)rig_step(&r);
	cr_assert_eq(protect(), -ENODEV, "it gets its second copies");
	while (r.m->converts)
		rig_idle(&r);
	rig_idle(&r);
	cr_assert_eq(protect(), 0, "%s", meta_error(r.m));
	converted();
	loses_two(4);
	rig_end(&r);
}

Test(meta_protect_three, drives_that_are_drained_or_added_meanwhile)
{
	of_copies(2, 12, 3);
	put_some(100);
	cr_assert_eq(protect(), 0);
	cr_assert_eq(meta_drive_drain(r.m, 1), -EPERM);
	cr_assert_eq(rig_drive_add(&r, rig_drive(&r, DRIVE_BYTES, true)), 0);
	put_some(20);
	while (meta_drive_drain(r.m, 0) == -EBUSY)
		(void)rig_step(&r);
	converted();
	for (uint32_t turns = 0; turns < 300 && !stat_of(0).gone; turns++)
		rig_idle(&r);
	cr_assert(stat_of(0).gone);
	is_whole();
	rig_end(&r);
}

/* Its roots have more places than a superblock can name. */
Test(meta_protect_three, store_whose_roots_fit_into_no_zones_is_refused)
{
	rig_make(&r, 13, 3, 2 * DRIVE_BYTES, 256, true);
	r.conf.copies = 2;
	cr_assert_eq(rig_format(&r), 0, "%s", meta_error(r.m));
	cr_assert_eq(rig_mkdir(&r, "/some"), 0);
	cr_assert_gt(r.m->zones->geo.root_zones, META__ROOT_ZONES_MAX);
	cr_assert_eq(protect(), -EFBIG);
	cr_assert_eq(r.m->copies, 2);
	rig_end(&r);
}

/* As full as meta_protect() takes it. */
Test(meta_protect_three, drives_of_different_sizes_that_are_nearly_full)
{
	for (uint64_t seed = 1; seed <= 9; seed++) {
		const uint64_t bytes[] = { (6 + seed % 4) << 20, 24u << 20,
					   (6 + seed % 5 * 3) << 20, 12u << 20 };
		uint32_t files = 0, gone = 0;
		char path[32];
		int err = 0;

		rig_make_of(&r, seed, 3 + (uint32_t)(seed % 2), bytes, 4, true);
		r.conf.copies = 2;
		cr_assert_eq(rig_format(&r), 0, "%s", meta_error(r.m));
		cr_assert_eq(rig_mkdir(&r, "/fill"), 0);
		for (; !err; files += !err) {
			(void)snprintf(path, sizeof(path), "/fill/%u", files);
			err = rig_put(&r, path, 8, files + 1);
		}
		while ((err = protect()) == -ENOSPC && gone < files) {
			(void)snprintf(path, sizeof(path), "/fill/%u", gone);
			cr_assert_eq(rig_unlink(&r, path), 0);
			if (gone++ % 8 == 0)
				rig_idle(&r);
		}
		cr_assert(gone > 0 && (err == 0 || gone == files), "%d", err);
		if (err == 0)
			converted();
		rig_end(&r);
	}
}

/* Then it has folds with two of parity as a store that was made with three copies. */
Test(meta_protect_three, gets_folds_with_two_of_parity_afterwards)
{
	struct meta_op op = {
		.type = META_OP_DRIVE, .flags = META_PROTECT, .offset = 3, .length = 3
	};

	of_copies(2, 6, 5);
	put_some(100);
	cr_assert_eq(rig_run(&r, &op), -EINVAL);
	cr_assert_eq(protect(), 0);
	cr_assert_eq(rig_run(&r, &op), -EPERM, "not before it has converted");
	converted();
	cr_assert_eq(rig_run(&r, &op), 0, "%s", meta_error(r.m));
	for (uint32_t n = 0; n < 60; n++) {
		put_some(4);
		rig_idle(&r);
	}
	cr_assert_gt(r.m->zones->folds, 0);
	loses_two(6);
	rig_end(&r);
}

/* ---- the store fails while it begins --------------------------------------------------------- */

/* A store of one copy takes no more changes then; whatever was reached, the next mount has one. */
Test(meta_protect_three, drive_dies_before_the_roots_have_zones_there)
{
	for (uint32_t drive = 0; drive < 3; drive++) {
		of_copies(1, 60 + drive, 3);
		put_some(20);
		rig_idle(&r);
		cr_assert_eq(meta_protect(r.m, 3), 0);
		r.bad_writes = 1u << drive;
		for (uint32_t n = 0; n < 1000 && r.m->boot->adding; n++)
			(void)rig_step(&r);
		cr_assert(!r.m->boot->adding);
		cr_assert_neq(meta_drive_drain_status(r.m), -EAGAIN);
		rig_power_cut(&r);
		r.bad_writes = 0;
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		is_before_or_after();
		rig_end(&r);
	}
}

/* Files come while the set is not there yet: copies of these find room, too. */
Test(meta_protect_three, what_is_written_while_it_begins_leaves_room)
{
	uint32_t begun = 0;

	for (uint64_t seed = 1; seed <= 24; seed++) {
		const uint64_t bytes[] = { (8 + seed % 4) << 20, 24u << 20, (8 + seed % 5) << 20,
					   12u << 20 };
		uint32_t files = 0, gone = 0;
		char path[32];
		int err = 0;

		rig_make_of(&r, seed, 3 + (uint32_t)(seed % 2), bytes, 4, true);
		r.conf.copies = 1 + (uint32_t)(seed % 3 > 0);
		cr_assert_eq(rig_format(&r), 0, "%s", meta_error(r.m));
		cr_assert_eq(rig_mkdir(&r, "/fill"), 0);
		for (; !err; files += !err) {
			(void)snprintf(path, sizeof(path), "/fill/%u", files);
			err = rig_put(&r, path, 8, files + 1);
		}
		while ((err = meta_protect(r.m, 3)) == -ENOSPC && gone < files) {
			(void)snprintf(path, sizeof(path), "/fill/%u", gone);
			cr_assert_eq(rig_unlink(&r, path), 0);
			if (gone++ % 8 == 0)
				rig_idle(&r);
		}
		for (uint32_t n = 0; r.m->boot->adding && n < 4000; n++) {
			(void)snprintf(path, sizeof(path), "/fill/more%u", n);
			(void)rig_put(&r, path, 8, n + 1);
			(void)rig_step(&r);
		}
		begun += r.m->copies == 3;
		for (uint32_t n = 0; r.m->converts && n < 300; n++) {
			cr_assert(r.m->converts == 1 || r.m->zones->lone_by[1] == 0, "seed %llu",
				  (unsigned long long)seed);
			rig_idle(&r);
		}
		cr_assert(!r.m->converts, "seed %llu: %u zones lack copies",
			  (unsigned long long)seed, r.m->zones->lone);
		rig_end(&r);
	}
	cr_assert_gt(begun, 10, "%u", begun);
}

/* Made on one drive, which has both copies of the roots. */
Test(meta_protect_three, store_of_one_drive_that_grew_gets_three)
{
	for (uint64_t seed = 1; seed <= 6; seed++) {
		of_copies(1, seed, 1);
		put_some(20);
		for (uint32_t d = 1; d < 3; d++)
			cr_assert_eq(rig_drive_add(&r, rig_drive(&r, DRIVE_BYTES, true)), 0);
		cr_assert_eq(protect(), 0, "%s", meta_error(r.m));
		if (seed % 2) {
			r.conf.ndrives = r.ndrives;
			rig_power_cut(&r);
			cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
			is_before_or_after();
		}
		put_some(20);
		converted();
		loses_two(seed);
		rig_end(&r);
	}
}

/* It does not promise what too few drives cannot keep. */
Test(meta_protect_three, store_says_whether_each_block_has_all_its_copies)
{
	of_copies(3, 8, 3);
	put_some(60);
	cr_assert(meta_copies(r.m).whole);
	cr_assert_eq(meta_drive_drain(r.m, 2), 0);
	for (uint32_t turns = 0; turns < 300 && !stat_of(2).gone; turns++)
		rig_idle(&r);
	cr_assert(stat_of(2).gone);
	for (uint32_t mounts = 0; mounts < 2; mounts++) {
		cr_assert(!meta_copies(r.m).whole && !meta_copies(r.m).lost);
		cr_assert_eq(rig_stop(&r), 0);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	}
	rig_end(&r);
}
