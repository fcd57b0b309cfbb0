/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Stores of three copies lose two drives at any time, and a third one before the first two are
 * gone: exactly if nothing depends on it. */
#include "test/lib/runs.h"
#include "test/unit/meta_three_store.h"

#include <errno.h>

TestSuite(meta_three_needed, .timeout = 120);

static void several(uint64_t seed, uint32_t ndrives)
{
	three(seed, ndrives, seed % 3 ? 4 : 32, seed % 2);
	put_some(60);
}

/* No drive is lost yet: any two do not have the only copy of anything, and any third one has. */
Test(meta_three_needed, no_two_drives_are_needed_and_each_third_one_is)
{
	for (uint32_t a = 0; a < 4; a++)
		for (uint32_t b = 0; b < 4; b++) {
			if (a == b)
				continue;
			several(1 + a + 4 * b, 4);
			for (uint32_t d = 0; d < 4; d++)
				cr_assert(!meta__drive_is_needed(r.m, d));
			lose_drive(a);
			for (uint32_t d = 0; d < 4; d++)
				cr_assert(d == a || !meta__drive_is_needed(r.m, d));
			lose_drive(b);
			for (uint32_t d = 0; d < 4; d++)
				cr_assert(d == a || d == b || meta__drive_is_needed(r.m, d));
			r.never = 0;
			rig_end(&r);
		}
}

static void all_three_are_gone_for_good(const uint32_t drive[3])
{
	rig_power_cut(&r);
	r.dead = 0;
	for (uint32_t i = 0; i < 3; i++) {
		wreck(drive[i]);
		r.conf.drive[drive[i]].nblocks = 0;
	}
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	all_is_there();
	for (uint32_t i = 0; i < 3 && meta_drives(r.m) == 6; i++) { /* else two stay */
		r.never = 0;
		rebuilt(drive[i]);
	}
	is_whole();
}

static bool until_not_needed(const uint32_t drive[3])
{
	for (uint32_t n = 0; n < 20000 && !stat_of(drive[0]).gone; n++) {
		if (!meta__drive_is_needed(r.m, drive[2]))
			return true;
		if (!rig_step(&r))
			(void)put((uint32_t)rand_below(&r.rand, FILES));
	}
	return false;
}

/* Some steps of the rebuild; every other time up to where the third drive is not needed, and some
 * more. */
static void some_steps(const uint32_t drive[3], uint64_t seed)
{
	uint64_t steps = rand_below(&r.rand, 1u << (4 + rand_below(&r.rand, 8)));

	if (seed % 2) {
		(void)until_not_needed(drive);
		steps = rand_below(&r.rand, 30);
	}
	for (uint64_t n = 0; n < steps && !stat_of(drive[0]).gone; n++)
		if (rand_below(&r.rand, 64) == 0)
			put_some(1);
		else
			(void)rig_step(&r);
}

/* Fails at any moment after the first two.  False: it is refused, and is brought back. */
static bool third_fails(const uint32_t drive[3], uint64_t seed)
{
	if (!meta_drive_failed(r.m, drive[2]))
		return false;
	r.dead |= 1u << drive[2];
	for (uint32_t n = 0; n < seed % 10 && !r.cut; n++)
		(void)put((uint32_t)rand_below(&r.rand, FILES));
	cr_assert(r.cut || meta_health(r.m) == 0, "%s", meta_error(r.m));
	for (uint32_t n = 0; n < 1000 && r.m->losing && !r.cut; n++)
		(void)rig_step(&r);
	cr_assert(r.cut || !r.m->losing, "%s", meta_error(r.m));
	if (!r.cut)
		all_three_are_gone_for_good(drive);
	return true;
}

Test(meta_three_needed, third_drive_is_lost_exactly_if_nothing_depends_on_it)
{
	uint32_t lost = 0, refused = 0;

	for (uint64_t seed = 1; seed <= test_runs(150); seed++) {
		const uint32_t ndrives = 5 + (uint32_t)(seed % 2);
		const uint32_t drive[3] = { (uint32_t)(seed % ndrives),
					    (uint32_t)((seed + 1) % ndrives),
					    (uint32_t)((seed + 2 + seed / 7 % 3) % ndrives) };

		several(seed, ndrives);
		if (seed % 4 < 2)
			lose_two(drive[0], drive[1]);
		else
			lose_drive(drive[0]), lose_drive(drive[1]);
		some_steps(drive, seed);
		if (!stat_of(drive[0]).gone && !stat_of(drive[1]).gone) {
			r.cut_at = seed % 3 ? 0 : r.writes + 1 + rand_below(&r.rand, 40);
			*(third_fails(drive, seed) ? &lost : &refused) += 1;
			rig_power_cut(&r);
			r.cut_at = r.dead = 0;
			cr_assert_eq(rig_mount(&r), 0, "seed %llu: %s", (unsigned long long)seed,
				     meta_error(r.m));
			is_whole();
		}
		r.never = 0;
		rig_end(&r);
	}
	cr_assert(lost > 10 / test_step() && refused > 10 / test_step(), "%u, %u", lost, refused);
}

/* ---- two of three at once: meta_pair.c (4) --------------------------------------------------- */

/* Two fail before the third says that the first is lost. */
static void two_of_three_fail_at_once(uint64_t seed, const uint32_t drive[2])
{
	several(seed, 3);
	r.dead |= 1u << drive[0] | 1u << drive[1];
	cr_assert(meta_drive_failed(r.m, drive[0]));
	cr_assert(!meta_drive_failed(r.m, drive[1]));
	for (uint32_t n = 0; n < seed % 4 * 10; n++)
		(void)rig_step(&r);
	cr_assert_neq(put(0), 0);
	cr_assert_neq(meta_health(r.m), 0);
	all_is_there(); /* reads go on */
	rig_power_cut(&r);
	r.dead = 0;
}

Test(meta_three_needed, two_of_three_that_fail_at_once_leave_three_ways_out)
{
	for (uint64_t seed = 1; seed <= 36; seed++) {
		const uint32_t drive[2] = { (uint32_t)(seed % 3), (uint32_t)((seed + 1) % 3) };
		const uint32_t back = (uint32_t)(seed / 3 % 3); /* this one of them; 2: none */

		two_of_three_fail_at_once(seed, drive);
		for (uint32_t i = 0; i < 2; i++)
			if (i != back)
				r.conf.drive[drive[i]].nblocks = 0;
		if (back == 2) {
			const uint32_t lower = min_u32(drive[0], drive[1]);
			char says[80];

			cr_assert_eq(rig_mount(&r), -ENODEV);
			(void)snprintf(says, sizeof(says),
				       "allow_missing = %u,%u starts if they have not gone on",
				       lower, drive[0] + drive[1] - lower);
			cr_assert(strstr(meta_error(r.m), says), "%s", meta_error(r.m));
			rig_power_cut(&r);
			r.conf.drive[drive[0]].missing = r.conf.drive[drive[1]].missing = true;
		}
		cr_assert_eq(rig_mount(&r), 0, "seed %llu, %u is back: %s",
			     (unsigned long long)seed, back, meta_error(r.m));
		all_is_there();
		put_some(20);
		rig_end(&r);
	}
}
