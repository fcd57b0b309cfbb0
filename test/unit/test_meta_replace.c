/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A drive that is added in the place of another: one set of drives has the new one and drains the
 * old one, whenever the power fails. */
#include "test/lib/meta_rig.h"
#include "meta/meta_rebuild.h"
#include "meta/engine/meta_pair.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>

#define DRIVE_BYTES (8u << 20)
#define FILES       30u

static struct rig r;

TestSuite(meta_replace, .timeout = 300);

static const char *path_of(uint32_t i)
{
	static char path[32];

	(void)snprintf(path, sizeof(path), "/file %u", i);
	return path;
}

/* With files, and a drive more that is to replace number `old`. */
static uint32_t store(uint64_t seed, uint32_t ndrives, uint32_t copies, uint64_t new_bytes,
		      uint32_t old)
{
	uint32_t new;

	rig_make(&r, seed, ndrives, DRIVE_BYTES, 4, true);
	r.conf.copies = copies;
	r.copied = copies > 1;
	cr_assert_eq(rig_format(&r), 0, "%s", meta_error(r.m));
	for (uint32_t i = 0; i < FILES; i++)
		cr_assert_eq(rig_put(&r, path_of(i), 1 + i % 12, i + 1), 0);
	new = rig_drive(&r, new_bytes, true);
	r.conf.drive[new].replaces = old + 1;
	return new;
}

static void all_is_there(void)
{
	struct meta_check check = { 0 };
	uint64_t found;
	uint32_t blocks;

	for (uint32_t i = 0; i < FILES; i++) {
		cr_assert_eq(rig_get(&r, path_of(i), &blocks, &found), 0, "%s", meta_error(r.m));
		cr_assert_eq(found, i + 1);
		cr_assert_eq(blocks, 1 + i % 12);
	}
	cr_assert_eq(rig_check(&r, &check), 0, "%s", check.first[0]);
}

static struct meta_drive_stat stat_of(uint32_t drive)
{
	struct meta_drive_stat s;

	meta_drive_stat(r.m, drive, &s);
	return s;
}

static void leaves(uint32_t drive)
{
	for (uint32_t turns = 0; turns < 300 && !stat_of(drive).gone; turns++)
		rig_idle(&r);
	cr_assert(stat_of(drive).gone);
}

Test(meta_replace, healthy_drive_is_drained_from_the_moment_that_the_new_one_is_there)
{
	for (uint32_t copies = 1; copies <= 2; copies++)
		for (uint32_t old = 0; old < 2; old++) {
			const uint32_t new = store(copies, 2, copies, DRIVE_BYTES, old);

			cr_assert_eq(rig_drive_add(&r, new), 0, "%s", meta_error(r.m));
			cr_assert(stat_of(old).draining || stat_of(old).gone);
			leaves(old);
			all_is_there();
			cr_assert_eq(rig_stop(&r), 0);
			r.conf.drive[old].nblocks = 0;
			r.conf.ndrives = new + 1;
			cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
			all_is_there();
			rig_end(&r);
		}
}

Test(meta_replace, power_cut_at_any_write_adds_and_drains_or_does_neither)
{
	uint32_t added = 0, not_added = 0;
	uint64_t writes;

	for (uint32_t k = 0; k < 80; k++) {
		uint32_t new = store(100, 3, 1 + k % 2, DRIVE_BYTES, 1);

		writes = r.writes;
		cr_assert_eq(rig_drive_add(&r, new), 0, "%s", meta_error(r.m));
		writes = r.writes - writes;
		rig_end(&r);
		new = store(100, 3, 1 + k % 2, DRIVE_BYTES, 1);
		r.cut_at = r.writes + 12 + writes - k / 2; /* the last ones are those that count */
		(void)rig_drive_add(&r, new);
		rig_power_cut(&r);
		r.conf.drive[new].replaces = 0;
		r.conf.ndrives = new + 1;
		if (rig_mount(&r) == 0 && meta_drives(r.m) > new) {
			cr_assert(stat_of(1).draining || stat_of(1).gone);
			leaves(1);
			added++;
		} else {
			rig_power_cut(&r);
			r.conf.ndrives = new;
			cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
			cr_assert(!stat_of(1).gone);
			not_added++;
		}
		all_is_there();
		r.conf.ndrives = new + 1;
		rig_end(&r);
	}
	cr_assert_gt(added, 2, "%u, %u", added, not_added);
	cr_assert_gt(not_added, 2, "%u, %u", added, not_added);
}

/* Some superblocks name the new drive, and the next mount is without it: the set is the old one,
 * with the old drive in use. */
Test(meta_replace, new_drive_that_was_cut_off_and_is_taken_away_leaves_the_old_one_in_use)
{
	uint32_t left_out = 0;
	uint64_t writes, set;

	for (uint32_t k = 0; k < 24; k++) {
		uint32_t new = store(300, 3, 1, DRIVE_BYTES, 1);

		set = r.m->boot->super.set;
		writes = r.writes;
		cr_assert_eq(rig_drive_add(&r, new), 0, "%s", meta_error(r.m));
		writes = r.writes - writes;
		rig_end(&r);
		new = store(300, 3, 1, DRIVE_BYTES, 1);
		r.cut_at = r.writes + writes - k;
		(void)rig_drive_add(&r, new);
		rig_power_cut(&r);
		if (rig_mount(&r) == 0) {
			cr_assert_eq(meta_drives(r.m), new);
			cr_assert(!stat_of(1).draining && !stat_of(1).gone, "%u", k);
			left_out += r.m->boot->super.set > set;
			all_is_there();
		}
		r.conf.ndrives = new + 1;
		rig_end(&r);
	}
	cr_assert_gt(left_out, 2, "%u", left_out);
}

/* It leaves by itself; the new drive brings room. */
Test(meta_replace, lost_drive_is_rebuilt_when_another_comes)
{
	const uint32_t new = store(7, 2, 2, DRIVE_BYTES, 0);
	struct meta_rebuild seen;

	r.dead = 1u;
	cr_assert(meta_drive_failed(r.m, 0));
	rig_idle(&r);
	meta_rebuild_count(r.m, &seen);
	cr_assert(seen.alone);
	cr_assert_eq(rig_drive_add(&r, new), 0, "%s", meta_error(r.m));
	leaves(0);
	all_is_there();
	rig_end(&r);
}

Test(meta_replace, drive_that_fails_while_it_is_replaced_is_lost_like_any_other)
{
	for (uint32_t at = 0; at < 40; at++) {
		const uint32_t new = store(200 + at, 3, 2, DRIVE_BYTES, 2);

		r.dying = 1u << 2;
		r.dies_at = r.writes + 1 + at * 20;
		cr_assert_eq(rig_drive_add(&r, new), 0, "%u: %s", at, meta_error(r.m));
		for (uint32_t turns = 0; turns < 300 && !stat_of(2).gone; turns++) {
			cr_assert_eq(rig_put(&r, path_of(0), 1, 1), 0, "%s", meta_error(r.m));
			rig_idle(&r);
		}
		cr_assert(stat_of(2).gone);
		all_is_there();
		rig_end(&r);
	}
}

Test(meta_replace, drive_that_is_too_small_for_what_must_stay_is_refused)
{
	const uint32_t new = store(9, 1, 1, 2u << 20, 0);

	cr_assert_eq(rig_drive_add(&r, new), -ENOSPC);
	cr_assert(!stat_of(0).draining);
	r.conf.drive[new].replaces = 9;
	cr_assert_eq(rig_drive_add(&r, new), -ENODEV);
	cr_assert_eq(meta_health(r.m), 0);
	all_is_there();
	rig_end(&r);
}
