/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* No drive is left that can be written: each change ends with an error, and none waits. */
#include "test/unit/meta_pair_store.h"

TestSuite(meta_last_drive, .timeout = 60);

static void store_with(uint32_t copies, uint32_t ndrives)
{
	rig_make(&r, copies, ndrives, DRIVE_BYTES, 4, true);
	r.conf.copies = copies;
	r.copied = copies > 1;
	cr_assert_eq(rig_format(&r), 0, "%s", meta_error(r.m));
	for (uint32_t i = 0; i < 10; i++)
		cr_assert_eq(rig_put(&r, path_of(i), 20, i + 1), 0);
}

static void drain(uint32_t drive)
{
	cr_assert_eq(meta_drive_drain(r.m, drive), 0, "%s", meta_error(r.m));
	for (uint32_t n = 0; n < 300 && !stat_of(drive).gone; n++)
		rig_idle(&r);
	cr_assert(stat_of(drive).gone);
}

static void lose(uint32_t drive)
{
	r.dead |= 1u << drive;
	cr_assert(meta_drive_failed(r.m, drive));
	rig_idle(&r);
	cr_assert(stat_of(drive).lost);
}

/* The drive dies at one of the next writes. */
static void last_one_dies(uint32_t drive, uint32_t writes)
{
	uint32_t failed = 0;

	r.dying = 1u << drive;
	r.dies_at = r.writes + 1 + writes;
	for (uint32_t i = 0; i < 60; i++)
		failed += rig_put(&r, path_of(i), 20, 100 + i) != 0;
	cr_assert_gt(failed, 0);
	cr_assert_eq(rig_mkdir(&r, "/dir"), -EROFS);
	cr_assert_eq(rig_put(&r, "/next", 20, 1), -EROFS);
}

Test(meta_last_drive, others_have_left)
{
	for (uint32_t copies = 1; copies <= 2; copies++)
		for (uint32_t writes = 0; writes < 40; writes++) {
			store_with(copies, 3);
			drain(0);
			drain(1);
			last_one_dies(2, writes);
			cr_assert_eq(meta_health(r.m), -EROFS);
			rig_end(&r);
		}
}

Test(meta_last_drive, it_has_the_second_copies)
{
	for (uint32_t writes = 0; writes < 40; writes++) {
		store_with(2, 2);
		lose(1);
		last_one_dies(0, writes);
		cr_assert_eq(meta_health(r.m), -EROFS);
		rig_end(&r);
	}
}

Test(meta_last_drive, it_was_the_only_one)
{
	for (uint32_t writes = 0; writes < 40; writes++) {
		store_with(1, 1);
		last_one_dies(0, writes);
		cr_assert_eq(meta_health(r.m), -EROFS);
		rig_end(&r);
	}
}
