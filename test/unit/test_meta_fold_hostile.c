/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A drive dies together with the power, or before a clean stop, at each step of a fold. */
#include "test/unit/meta_fold_store.h"

TestSuite(meta_fold_hostile, .timeout = 300);

static bool to_fold(void)
{
	for (uint32_t n = 0; n < 3000 && !r.cut; n++) {
		if (!meta__folder_idle(r.m))
			return true;
		if (n % 100 == 0)
			meta__ckpt_want(r.m);
		(void)rig_step(&r);
	}
	return false;
}

static void without(uint32_t drive)
{
	r.dead = r.dying = 0;
	r.dies_at = 0;
	wreck(drive);
	r.conf.drive[drive].nblocks = 0;
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	folds_are_right();
	all_is_there();
	clear_unsure();
}

static void is_rebuilt(uint32_t drive)
{
	if (stat_of(drive).lost || stat_of(drive).gone)
		rebuilt(drive);
	folds_are_right();
	bigs_are_there();
	is_whole();
	for (uint32_t d = 0; d < r.conf.ndrives; d++) {
		if (d == drive)
			continue;
		r.bad_reads = 1u << d;
		bigs_are_there();
	}
	r.bad_reads = 0;
}

/* The store is whole after all of that, and still serves. */
static void each_stage(uint64_t seed, uint32_t steps, bool stops)
{
	const uint32_t width = 2 + (uint32_t)seed % 3;
	const uint32_t drives = width + 1 + (uint32_t)(seed / 3 % 2);
	const uint32_t drive = (uint32_t)(seed * 7 + steps) % drives;
	const uint32_t other = (drive + 1) % drives;

	folds_of(seed, drives, width, seed % 2);
	r.cut_garbles = seed % 5 == 0;
	changes(60 + (uint32_t)(seed % 40));
	if (seed % 2)
		fold();
	changes(20);
	(void)to_fold();
	for (uint32_t n = 0; n < steps && !r.cut; n++)
		(void)rig_step(&r);
	if (stops) {
		cr_assert_eq(rig_stop(&r), 0);
	} else {
		if (seed % 7 < 3) {
			r.dead = 1u << drive;
			for (uint64_t n = rand_below(&r.rand, 12); n > 0; n--)
				(void)rig_step(&r);
		}
		rig_power_cut(&r);
	}
	without(drive);
	for (uint64_t n = rand_below(&r.rand, 200); n > 0; n--)
		(void)rig_step(&r);
	if (seed % 4 == 1)
		changes(10);
	rig_power_cut(&r);
	without(drive);
	is_rebuilt(drive);
	if (drives < 4)
		return;
	changes(20);
	if (seed % 3)
		fold();
	bigs_are_there();
	rig_power_cut(&r);
	without(other);
	is_rebuilt(other);
}

Test(meta_fold_hostile, drive_and_power_fail_at_each_step)
{
	for (uint64_t seed = 1; seed < 4; seed++)
		for (uint32_t k = 0; k < 30; k++) {
			each_stage(seed * 31 + k, k < 12 ? k : 12 + (k - 12) * 9, false);
			cr_assert_eq(rig_thin_zones(&r), 0);
			rig_end(&r);
		}
}

Test(meta_fold_hostile, stop_at_each_step)
{
	for (uint64_t seed = 1; seed < 4; seed++)
		for (uint32_t k = 0; k < 15; k++) {
			each_stage(seed * 17 + k, k * 11, true);
			cr_assert_eq(rig_thin_zones(&r), 0);
			rig_end(&r);
		}
}

/* The drive of the parity does not take the header that names the members: it is lost, for the
 * header may be there. */
Test(meta_fold_hostile, drive_that_does_not_take_the_header_is_lost)
{
	uint32_t tried = 0;

	for (uint64_t seed = 1; seed <= 12; seed++) {
		uint32_t drive = META_DRIVES_MAX;

		folds_of(seed, 4, 3, true);
		put_bigs(BIG / 2);
		for (uint32_t n = 0; n < 4000 && drive == META_DRIVES_MAX; n++) {
			if (n % 100 == 0)
				meta__ckpt_want(r.m);
			(void)rig_step(&r);
			if (r.m->zones->naming[0] && r.m->zones->naming_status == -EAGAIN)
				drive = drive_of(r.m->zones->naming[0]->zone);
		}
		if (drive < META_DRIVES_MAX) {
			tried++;
			r.bad_writes = 1u << drive;
			for (uint32_t n = 0; n < 300 && r.m->zones->naming[0]; n++)
				(void)rig_step(&r);
			cr_assert(!r.m->zones->naming[0]);
			cr_expect(stat_of(drive).lost || stat_of(drive).gone ||
				  r.m->losing >> drive & 1 || r.m->failed);
			bigs_are_there();
		}
		rig_end(&r);
	}
	cr_assert_gt(tried, 3);
}
