/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Drives of a store of two copies are missing at a mount: a table of 2 to 5 drives, some lost, some
 * missing, and perhaps the operator has said so. */
#include "test/unit/meta_pair_store.h"

TestSuite(meta_majority, .timeout = 120);

static void lose(uint32_t drive)
{
	r.dead |= 1u << drive;
	cr_assert(meta_drive_failed(r.m, drive), "%s", meta_error(r.m));
	for (uint32_t n = 0; n < 1000 && r.m->losing; n++)
		(void)rig_step(&r);
	cr_assert(stat_of(drive).lost, "%s", meta_error(r.m));
}

/* The last drives are missing. */
static int mount_without(uint32_t missing, bool told)
{
	for (uint32_t i = 0; i < missing; i++)
		r.conf.drive[r.conf.ndrives - 1 - i].nblocks = 0;
	r.conf.drive[r.conf.ndrives - 1].missing = told;
	return rig_mount(&r);
}

/* All present ones may have been lost while the missing ones went on, unless they are more. */
static bool may_mount(uint32_t ndrives, uint32_t lost, uint32_t missing, bool told)
{
	const uint32_t present = ndrives - lost - missing;

	if (missing == 0)
		return true;
	return lost + missing < 2 && (present > missing || (told && present > 0));
}

static void is_as_in_the_table(uint32_t ndrives, uint32_t lost, uint32_t missing, bool told)
{
	int err;

	store(ndrives, ndrives, missing % 2);
	put_some(40);
	if (lost)
		lose(0);
	rig_power_cut(&r);
	r.dead = 0;
	err = mount_without(missing, told);
	cr_assert_eq(err, may_mount(ndrives, lost, missing, told) ? 0 : -ENODEV,
		     "%u drives, %u lost, %u missing%s: %d, %s", ndrives, lost, missing,
		     told ? ", told" : "", err, meta_error(r.m));
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
}

Test(meta_majority, drives_that_are_missing_are_lost_as_the_table_says)
{
	for (uint32_t ndrives = 2; ndrives <= 5; ndrives++)
		for (uint32_t lost = 0; lost < 2; lost++)
			for (uint32_t missing = 0; missing < 3 && lost + missing < ndrives;
			     missing++)
				is_as_in_the_table(ndrives, lost, missing, false);
	for (uint32_t ndrives = 2; ndrives <= 5; ndrives++)
		is_as_in_the_table(ndrives, 0, 1, true);
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
	rig_power_cut(&r);
	r.conf.drive[0].nblocks = DRIVE_BYTES / 4096;
	r.conf.drive[0].missing = false;
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	is_whole();
	rig_end(&r);
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
	rig_power_cut(&r);
	r.conf.drive[0].nblocks = DRIVE_BYTES / 4096;
	r.conf.drive[0].missing = false;
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	is_whole();
	rig_end(&r);
}
