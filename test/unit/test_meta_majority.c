/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Drives of a store of two or three copies are missing at a mount: a table of 2 to 5 drives, some
 * lost, some missing, and perhaps the operator has said so. */
#include <stdint.h>

static uint32_t copies = 2;
#define STORE_COPIES copies
#include "test/unit/meta_pair_store.h"

TestSuite(meta_majority, .timeout = 120);

/* The last drives are missing. */
static int mount_without(uint32_t missing, bool told)
{
	for (uint32_t i = 0; i < missing; i++) {
		r.conf.drive[r.conf.ndrives - 1 - i].nblocks = 0;
		r.conf.drive[r.conf.ndrives - 1 - i].missing = told;
	}
	return rig_mount(&r);
}

/* All present ones may have been lost while the missing ones went on, unless they are more. */
static int table_of(uint32_t ndrives, uint32_t lost, uint32_t missing, bool told)
{
	const uint32_t present = ndrives - lost - missing;

	if (missing == 0 ||
	    (lost + missing < copies && (present > missing || (told && present > 0))))
		return 0;
	return -ENODEV;
}

/* Loses so many drives, and mounts without so many others.  Returns how that ended; what is there
 * then, and when all are back, is compared. */
static int mount_of(uint32_t ndrives, uint32_t lost, uint32_t missing, bool told)
{
	int err;

	store(ndrives, ndrives, missing % 2);
	put_some(40);
	for (uint32_t d = 0; d < lost; d++)
		lose_drive(d);
	rig_power_cut(&r);
	r.dead = 0;
	err = mount_without(missing, told);
	for (uint32_t i = 0; !err && i < missing; i++)
		cr_assert(stat_of(ndrives - 1 - i).lost);
	if (!err)
		all_is_there();
	rig_power_cut(&r);
	for (uint32_t d = 0; d < ndrives; d++)
		r.conf.drive[d] = (struct meta_drive_info){ .nblocks = DRIVE_BYTES / 4096,
							    .volatile_cache = missing % 2 };
	cr_assert_eq(rig_mount(&r), 0, "all are back: %s", meta_error(r.m));
	for (uint32_t i = 0; i < missing; i++)
		cr_assert_eq(stat_of(ndrives - 1 - i).lost, !err);
	is_whole();
	rig_end(&r);
	return err;
}

/* The only drive that served was away, and is back. */
static bool comes_back(void)
{
	rig_power_cut(&r);
	r.conf.drive[0].nblocks = DRIVE_BYTES / 4096;
	r.conf.drive[0].missing = false;
	if (rig_mount(&r) != 0)
		return false;
	is_whole();
	rig_end(&r);
	return true;
}

/* Returns the number of drives with which a mount does not end as the table says; 0: with none. */
static uint32_t differs(uint32_t lost, uint32_t missing, bool told)
{
	for (uint32_t ndrives = max_u32(copies, lost + missing + 1); ndrives <= 5; ndrives++)
		if (mount_of(ndrives, lost, missing, told) !=
		    table_of(ndrives, lost, missing, told))
			return ndrives;
	return 0;
}

Test(meta_majority, drives_that_are_missing_are_lost_as_the_table_says)
{
	for (uint32_t lost = 0; lost < 2; lost++)
		for (uint32_t missing = 0; missing < 3; missing++)
			cr_assert_eq(differs(lost, missing, false), 0, "%u lost, %u missing", lost,
				     missing);
	cr_assert_eq(differs(0, 1, true), 0);
}

/* One copy more: one drive more may be lost, or missing. */
Test(meta_majority, drives_of_a_store_of_three_copies_are_lost_as_the_table_says)
{
	copies = 3;
	for (uint32_t lost = 0; lost < 3; lost++)
		for (uint32_t missing = 0; missing < 4; missing++)
			cr_assert_eq(differs(lost, missing, false), 0, "%u lost, %u missing", lost,
				     missing);
	for (uint32_t lost = 0; lost < 2; lost++)
		for (uint32_t missing = 1; lost + missing < 3; missing++)
			cr_assert_eq(differs(lost, missing, true), 0,
				     "%u lost, %u missing, as was said", lost, missing);
}

/* The drive that is there drains: nothing could be put anywhere. */
Test(meta_majority, drive_that_drains_is_not_left_alone)
{
	store(1, 2, true);
	put_some(40);
	cr_assert_eq(meta_drive_drain(r.m, 1), 0);
	while (!stat_of(1).draining)
		(void)rig_step(&r);
	rig_power_cut(&r);
	r.conf.drive[0].nblocks = 0;
	r.conf.drive[0].missing = true;
	cr_assert_eq(rig_mount(&r), -ENODEV);
	cr_assert(comes_back(), "%s", meta_error(r.m));
}

/* The other one has left the store, and is still there: it has nothing. */
Test(meta_majority, only_drive_is_not_lost_though_the_operator_says_that_it_is_missing)
{
	store(1, 2, true);
	put_some(40);
	cr_assert_eq(meta_drive_drain(r.m, 1), 0);
	for (uint32_t n = 0; n < 300 && !stat_of(1).gone; n++)
		rig_idle(&r);
	cr_assert(stat_of(1).gone);
	rig_power_cut(&r);
	r.conf.drive[0].nblocks = 0;
	r.conf.drive[0].missing = true;
	r.conf.drive[1].nblocks = DRIVE_BYTES / 4096;
	cr_assert_eq(rig_mount(&r), -ENODEV);
	cr_assert(comes_back(), "%s", meta_error(r.m));
}

/* ---- two sets of the same number ------------------------------------------------------------- */

static uint8_t *super_of(uint8_t *const *drives, uint32_t drive, uint32_t copy)
{
	return drives[drive] + (copy ? DRIVE_BYTES - 4096 : 0);
}

/* Superblocks of all drives but one are as they were before. */
static void only_it_has_the_new_set(uint32_t alone, uint8_t was[3][2][4096])
{
	for (uint32_t d = 0; d < 3; d++)
		for (uint32_t copy = 0; d != alone && copy < 2; copy++) {
			memcpy(super_of(r.image, d, copy), was[d][copy], 4096);
			memcpy(super_of(r.view, d, copy), was[d][copy], 4096);
		}
}

/* A change was cut off when one drive had it; then that drive was lost, under the same number. */
Test(meta_majority, set_of_a_drive_that_is_lost_does_not_count)
{
	for (uint32_t alone = 0; alone < 3; alone++) {
		struct meta_op op = {
			.type = META_OP_DRIVE, .flags = META_PROTECT, .offset = 2, .length = 2
		};
		static uint8_t was[3][2][4096];

		store(1 + alone, 3, alone % 2);
		put_some(40);
		rig_idle(&r);
		for (uint32_t i = 0; i < 6; i++)
			memcpy(was[i / 2][i % 2], super_of(r.image, i / 2, i % 2), 4096);
		cr_assert_eq(rig_run(&r, &op), 0);
		rig_power_cut(&r);
		only_it_has_the_new_set(alone, was);
		r.conf.drive[alone].nblocks = 0;
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		for (uint32_t i = 0; i < 6; i++)
			memcpy(was[i / 2][i % 2], super_of(r.image, i / 2, i % 2), 4096);
		cr_assert_eq(put(1), 0);
		rig_power_cut(&r);
		only_it_has_the_new_set(alone, was); /* not one that was begun since */
		r.conf.drive[alone].nblocks = DRIVE_BYTES / 4096;
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		cr_assert(stat_of(alone).lost, "drive %u missed a change, and is read", alone);
		cr_assert_eq(r.m->fold, 0);
		is_whole();
		rig_end(&r);
	}
}

/* A drive is lost, goes on alone because the operator says so, and then the other one is there
 * again: each may have what nobody else has. */
Test(meta_majority, drives_that_each_say_that_the_other_is_lost_are_refused)
{
	store(1, 2, true);
	put_some(40);
	rig_idle(&r);
	lose_drive(1);
	rig_power_cut(&r);
	r.dead = 0;
	r.conf.drive[0].nblocks = 0;
	r.conf.drive[0].missing = true;
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	cr_assert_eq(put(1), 0);
	rig_power_cut(&r);
	r.conf.drive[0].nblocks = DRIVE_BYTES / 4096;
	r.conf.drive[0].missing = false;
	cr_assert_eq(rig_mount(&r), -EUCLEAN);
	cr_assert(strstr(meta_error(r.m), "drives 0 and 1 each say that the other is lost"), "%s",
		  meta_error(r.m));
	rig_power_cut(&r);
	r.conf.drive[1].nblocks = 0; /* and so it says which one goes on */
	r.conf.drive[1].missing = true;
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	rig_end(&r);
}
