/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A store that gets one more drive while it serves: it is used, and a power cut at any write of it
 * leaves the old drives or the new ones. */
#include "test/lib/meta_rig.h"
#include "meta/ops/meta_gc.h"
#include "base/num.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DRIVE_BYTES (4u << 20)
#define FILES       6u

static struct rig r;

/* On `ndrives` drives, with some files. */
static void store_on(uint64_t seed, uint32_t ndrives)
{
	char path[16];

	rig_make(&r, seed, ndrives, DRIVE_BYTES, 4, true);
	cr_assert_eq(rig_format(&r), 0);
	for (uint32_t i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "/f%u", i);
		cr_assert_eq(rig_put(&r, path, i, 100 + i), 0);
	}
}

static void store_end(void)
{
	rig_end(&r);
}

TestSuite(meta_drives, .fini = store_end, .timeout = 120);

static void has_its_files(uint32_t files)
{
	struct meta_check check = { 0 };
	char path[16];

	for (uint32_t i = 0; i < files; i++) {
		uint32_t blocks;
		uint64_t fill;

		snprintf(path, sizeof(path), "/f%u", i);
		cr_assert_eq(rig_get(&r, path, &blocks, &fill), 0, "%s", path);
		cr_assert_eq(blocks, i % 30);
		cr_assert_eq(fill, 100 + i);
	}
	cr_assert_eq(rig_check(&r, &check), 0, "%s", check.first[0]);
}

static uint32_t added(uint64_t drive_bytes, uint64_t tag)
{
	uint32_t d = rig_drive(&r, drive_bytes, true);

	r.conf.drive[d].tag = tag;
	snprintf(r.conf.drive[d].name, META_DRIVE_NAME, "file:/d%u", d);
	return d;
}

static uint32_t used_zones(uint32_t d)
{
	const struct meta__zones *z = r.m->zones;

	return z->geo.zone_count[d] - z->free_count[d];
}

static void remount(void)
{
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
}

/* Adds a drive three times as large as the others, then one more. */
static void grows(uint32_t ndrives)
{
	uint32_t files = FILES, zones;
	char path[16];

	store_on(7, ndrives);
	while (r.ndrives < ndrives + 2) {
		uint32_t d = added(DRIVE_BYTES * (r.ndrives == ndrives ? 3 : 1), r.ndrives + 5);

		zones = r.m->zones->geo.nzones;
		cr_assert_eq(rig_drive_add(&r, d), 0, "%s", meta_error(r.m));
		cr_assert_gt(r.m->zones->geo.nzones, zones);
		cr_assert_eq(meta_drives(r.m), d + 1);
		for (uint32_t n = 0; n < 60; n++, files++) {
			snprintf(path, sizeof(path), "/f%u", files);
			cr_assert_eq(rig_put(&r, path, files % 30, 100 + files), 0);
		}
		cr_assert_gt(used_zones(d), 5, "%u of drive %u", used_zones(d), d);
		has_its_files(files);
		r.conf.ndrives = d + 1;
		remount();
		has_its_files(files);
	}
	remount();
	has_its_files(files);
}

Test(meta_drives, store_of_one_drive_grows)
{
	grows(1);
	cr_assert_eq(META_BADDR_DRIVE(r.m->zones->geo.root_area[1]), 0, "its roots stay");
}

Test(meta_drives, store_of_two_drives_grows)
{
	grows(2);
	cr_assert_eq(META_BADDR_DRIVE(r.m->zones->geo.root_area[1]), 1);
}

/* Files come and go while it is being added. */
Test(meta_drives, store_serves_meanwhile)
{
	uint32_t files = FILES, meanwhile = 0, d;
	char path[16];

	store_on(8, 1);
	d = added(8 * DRIVE_BYTES, 1);
	cr_assert_eq(meta_drive_add(r.m, &r.conf.drive[d]), 0);
	cr_assert_eq(meta_drive_add(r.m, &r.conf.drive[d]), -EBUSY);
	while (meta_drive_add_status(r.m) == -EAGAIN) {
		snprintf(path, sizeof(path), "/f%u", files);
		cr_assert_eq(rig_put(&r, path, files % 30, 100 + files), 0);
		files++;
		meanwhile++;
	}
	cr_assert_eq(meta_drive_add_status(r.m), 0, "%s", meta_error(r.m));
	cr_assert_gt(meanwhile, 3);
	r.conf.ndrives = d + 1;
	has_its_files(files);
	remount();
	has_its_files(files);
}

/* Blocks of the log that was lone go to both drives as soon as there are two, full zone or not. */
Test(meta_drives, log_is_soon_on_both)
{
	struct meta_statfs s = { 0 };
	char path[16];

	store_on(21, 1);
	meta__log_stat(r.m, &s);
	cr_assert_eq(s.log_copies, 1);
	cr_assert_eq(rig_drive_add(&r, added(DRIVE_BYTES, 1)), 0);
	for (uint32_t n = 0; n < 3; n++) {
		snprintf(path, sizeof(path), "/g%u", n);
		cr_assert_eq(rig_put(&r, path, 1, n), 0);
		rig_idle(&r);
	}
	meta__log_stat(r.m, &s);
	cr_assert_eq(s.log_copies, 2);
	cr_assert_leq(r.m->zones->log_count, 6, "zones are left half full once only");
}

/* Permille of a drive that is free. */
static uint32_t free_permille(uint32_t d)
{
	return (uint32_t)(1000 * meta__zone_free_on(r.m, d) / r.m->zones->geo.zone_count[d]);
}

/* More than half full. */
static uint32_t filled(uint64_t seed, uint32_t ndrives)
{
	uint32_t files = FILES;
	char path[16];

	store_on(seed, ndrives);
	for (; free_permille(0) > 400; files++) {
		snprintf(path, sizeof(path), "/f%u", files);
		cr_assert_eq(rig_put(&r, path, files % 30, 100 + files), 0);
	}
	return files;
}

/* Returns the blocks that were moved for it. */
static uint64_t becomes_even(uint32_t ndrives, uint32_t times)
{
	uint32_t files = filled(13, ndrives), d = added(times * DRIVE_BYTES, 3), least = 1000;
	uint64_t moved;

	cr_assert_eq(rig_drive_add(&r, d), 0);
	cr_assert_gt(free_permille(d), free_permille(0) + 400);
	rig_idle(&r);
	for (uint32_t i = 0; i < d; i++)
		least = min_u32(least, free_permille(i));
	cr_assert_lt(free_permille(d), least + 1000 / 8, "%u and %u permille are free", least,
		     free_permille(d));
	moved = r.m->gc->moved_blocks;
	rig_idle(&r);
	cr_assert_eq(r.m->gc->moved_blocks, moved, "it has an end");
	has_its_files(files);
	r.conf.ndrives = d + 1;
	remount();
	has_its_files(files);
	return moved;
}

Test(meta_drives, what_lives_spreads_over_a_new_one_of_the_same_size)
{
	cr_assert_gt(becomes_even(1, 1), 0);
}

Test(meta_drives, what_lives_spreads_over_a_larger_one)
{
	cr_assert_gt(becomes_even(2, 3), 0);
}

Test(meta_drives, power_cut_while_it_spreads_loses_nothing)
{
	for (uint32_t n = 11; n < 160; n += 21) {
		uint32_t files = filled(n, 1), d = added(2 * DRIVE_BYTES, 3);

		r.cut_garbles = n % 2;
		cr_assert_eq(rig_drive_add(&r, d), 0);
		r.conf.ndrives = d + 1;
		r.cut_at = r.writes + n;
		rig_idle(&r);
		cr_assert(r.cut, "write %u", n);
		rig_power_cut(&r);
		cr_assert_eq(rig_mount(&r), 0, "%u: %s", n, meta_error(r.m));
		has_its_files(files);
		rig_idle(&r);
		has_its_files(files);
		store_end();
	}
	rig_make(&r, 1, 1, DRIVE_BYTES, 4, true); /* for the fixture to end */
}

Test(meta_drives, missing_one_is_refused_by_name)
{
	uint32_t d;

	store_on(9, 2);
	d = added(DRIVE_BYTES, 77);
	cr_assert_eq(rig_drive_add(&r, d), 0);
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), -ENODEV);
	cr_assert_not_null(strstr(meta_error(r.m), "drive 2, file:/d2 is missing"), "%s",
			   meta_error(r.m));
}

Test(meta_drives, drives_that_cannot_be_added_are_refused)
{
	struct meta_drive_info large = { .nblocks = (1u << 21) + 4096 }, small = { .nblocks = 200 };

	store_on(10, 1);
	cr_assert_eq(meta_drive_add(r.m, &large), -EFBIG);
	cr_assert_eq(meta_drive_add(r.m, &small), -EINVAL);
	cr_assert_eq(meta_drive_add_status(r.m), 0);
	has_its_files(FILES);
}

/* A drive that was to become drive 1 and never did, while another one is drive 1 now. */
Test(meta_drives, drive_that_was_to_have_the_place_of_another_is_refused)
{
	static uint8_t stale[DRIVE_BYTES];
	struct meta__super super;
	char why[128];
	uint32_t d;

	store_on(11, 1);
	rig_idle(&r);
	d = added(DRIVE_BYTES, 1);
	r.cut_at = r.writes + 2 * 63 + 2; /* headers of its zones, and its own first superblock */
	cr_assert_eq(rig_drive_add(&r, d), -ECANCELED);
	rig_power_cut(&r);
	memcpy(stale, r.view[d], DRIVE_BYTES);
	cr_assert_eq(meta__super_parse(stale + DRIVE_BYTES - 4096, &super, why), 0, "%s", why);
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	r.conf.drive[d].tag = 2;
	cr_assert_eq(rig_drive_add(&r, d), 0);
	cr_assert_eq(rig_stop(&r), 0);
	r.conf.ndrives = 2;
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	cr_assert_eq(rig_stop(&r), 0);
	memcpy(r.view[d], stale, DRIVE_BYTES);
	cr_assert_eq(rig_mount(&r), -ENODEV);
	cr_assert_not_null(strstr(meta_error(r.m), "drive 1 is not the one"), "%s",
			   meta_error(r.m));
}

Test(meta_drives, write_that_fails_leaves_the_old_drives)
{
	uint32_t d;

	store_on(12, 2);
	d = added(DRIVE_BYTES, 1);
	r.fail_at = r.writes + 130;
	cr_assert_eq(rig_drive_add(&r, d), -EIO);
	cr_assert_eq(meta_drives(r.m), 2);
	r.fail_at = 0;
	rig_kill(&r);
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	has_its_files(FILES);
}

/* ---- power cuts --------------------------------------------------------------------------- */

/* Files that were acknowledged; those from FILES on while the drive was added, or behind it. */
static uint32_t acked;

/* Cut at the n-th write from the begin of it, while somebody else writes.  False: it had no so
 * many, and some behind it. */
static bool cut_add(uint64_t seed, uint32_t ndrives, uint32_t n)
{
	uint32_t d, behind = 0;
	char path[16];

	store_on(seed, ndrives);
	rig_idle(&r);
	acked = FILES;
	r.cut_garbles = seed % 2;
	r.cut_spoils = seed % 3 == 0;
	d = added(DRIVE_BYTES, seed);
	r.cut_at = r.writes + n;
	cr_assert_eq(meta_drive_add(r.m, &r.conf.drive[d]), 0);
	while (!r.cut && behind < 24) {
		for (uint32_t i = 0; i < 6; i++) /* it is not to be done before one file is */
			(void)rig_step(&r);
		behind += meta_drive_add_status(r.m) == 0;
		snprintf(path, sizeof(path), "/f%u", acked);
		if (!r.cut && rig_put(&r, path, acked % 30, 100 + acked) == 0)
			acked++;
	}
	if (r.cut)
		rig_power_cut(&r);
	return r.m == NULL;
}

/* ... and then a mount that is given so many drives, cut at some writes of its own. */
static int mount_after(uint32_t given)
{
	int err;

	r.conf.ndrives = given;
	for (uint32_t n = 1; n < 12; n += 1 + (uint32_t)rand_below(&r.rand, 8)) {
		r.cut_at = r.writes + n;
		err = rig_mount(&r);
		if (err && err != -ECANCELED)
			return err;
		r.cut_at = 0;
		if (err)
			rig_power_cut(&r);
		else
			rig_kill(&r);
	}
	err = rig_mount(&r);
	if (!err)
		has_its_files(acked);
	return err;
}

static struct {
	uint32_t both, old, new;
} seen;

/* The new set was taken, and is used: from then on nobody mounts the old one. */
static void new_set_stays(uint32_t ndrives, uint32_t n)
{
	char path[16];

	for (uint32_t i = 0; i < 12; i++) {
		snprintf(path, sizeof(path), "/g%u", i);
		cr_assert_eq(rig_put(&r, path, 9, i), 0);
	}
	rig_kill(&r);
	r.conf.ndrives = ndrives;
	cr_assert_eq(rig_mount(&r), -ENODEV, "%u: %s", n, meta_error(r.m));
	cr_assert_not_null(strstr(meta_error(r.m), "is missing"), "%u: %s", n, meta_error(r.m));
}

static void cut_at_write(uint32_t ndrives, uint32_t n)
{
	int with_old, with_new;

	(void)cut_add(20 + n, ndrives, n);
	with_old = mount_after(ndrives);
	cr_assert(with_old == 0 || strstr(meta_error(r.m), "is missing"), "%u: %s", n,
		  meta_error(r.m));
	if (with_old == 0)
		cr_assert_eq(rig_put(&r, "/more", 9, 9), 0);
	store_end();
	(void)cut_add(20 + n, ndrives, n);
	with_new = mount_after(ndrives + 1);
	cr_assert(with_new == 0 || with_new == -ENODATA ||
			  strstr(meta_error(r.m), "is not one of them"),
		  "%u: %s", n, meta_error(r.m));
	cr_assert(with_old == 0 || with_new == 0, "write %u: nobody mounts it", n);
	if (with_new == 0)
		new_set_stays(ndrives, n);
	seen.both += !with_old && !with_new;
	seen.old += with_new != 0;
	seen.new += with_old != 0;
	store_end();
}

static void cut_everywhere(uint32_t ndrives)
{
	uint32_t n = 110;
	bool more;

	memset(&seen, 0, sizeof(seen));
	do {
		more = cut_add(1, ndrives, n);
		store_end();
		if (more)
			cut_at_write(ndrives, n);
		n += ndrives + n / 200 * 4; /* of one drive all superblocks, then every fifth */
	} while (more);
	rig_make(&r, 1, 1, DRIVE_BYTES, 4, true); /* for the fixture to end */
}

Test(meta_drives, power_cut_at_any_write_leaves_the_old_set_or_the_new_one)
{
	cut_everywhere(1);
	cr_assert(seen.both && seen.old && seen.new, "%u, %u, %u", seen.both, seen.old, seen.new);
}

Test(meta_drives, so_it_does_where_there_were_three)
{
	cut_everywhere(3);
	cr_assert(seen.both && seen.old && seen.new, "%u, %u, %u", seen.both, seen.old, seen.new);
}
