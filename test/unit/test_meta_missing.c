/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A store without one of its drives: what can be reached is right, the rest is -EIO. */
#include "test/lib/meta_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVE_BYTES (8u << 20)
#define DRIVES      4u
#define DIRS        8u
#define FILES       640u

static struct rig r;
static uint8_t *was[DRIVES];
static uint32_t reached, lost; /* files, of all mounts */
static uint32_t short_lists;   /* ... listings that ended with -EIO, and had entries before that */
static bool listed[FILES];
static bool removed[FILES]; /* by a change that only the log has */
static uint64_t fill_of[FILES];

static void path_of(char *out, size_t size, uint32_t i)
{
	(void)snprintf(out, size, "/dir %u/a file with a name that takes some room %u", i % DIRS,
		       i);
}

static void put_some(uint32_t from, uint32_t to)
{
	char path[80];

	for (uint32_t i = from; i < to; i++) {
		path_of(path, sizeof(path), i);
		fill_of[i] = 100 + i;
		cr_assert_eq(rig_put(&r, path, i % 3, fill_of[i]), 0);
	}
}

/* Of files that a checkpoint has, some go, and some get other content. */
static void change_some(void)
{
	char path[80];

	for (uint32_t i = 0; i < FILES / 2; i += 3) {
		path_of(path, sizeof(path), i);
		cr_assert_eq(rig_unlink(&r, path), 0);
		removed[i] = i % 2;
		fill_of[i] = 5000 + i;
		if (!removed[i])
			cr_assert_eq(rig_put(&r, path, i % 3, fill_of[i]), 0);
	}
}

static void keep(void)
{
	for (uint32_t d = 0; d < DRIVES; d++)
		memcpy(was[d], r.image[d], DRIVE_BYTES);
}

static void images_back(void)
{
	for (uint32_t d = 0; d < DRIVES; d++) {
		memcpy(r.image[d], was[d], DRIVE_BYTES);
		memcpy(r.view[d], was[d], DRIVE_BYTES);
	}
}

static void make(uint64_t seed)
{
	char path[16];

	memset(removed, 0, sizeof(removed));
	rig_make(&r, seed, DRIVES, DRIVE_BYTES, 4, true);
	cr_assert_eq(rig_format(&r), 0);
	for (uint32_t d = 0; d < DRIVES; d++) {
		was[d] = malloc(DRIVE_BYTES);
		cr_assert_not_null(was[d]);
	}
	for (uint32_t i = 0; i < DIRS; i++) {
		(void)snprintf(path, sizeof(path), "/dir %u", i);
		cr_assert_eq(rig_mkdir(&r, path), 0);
	}
	put_some(0, FILES / 2);
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0);
	put_some(FILES / 2, FILES);
}

static void setup(void)
{
	make(11);
}

static void teardown(void)
{
	for (uint32_t d = 0; d < DRIVES; d++)
		free(was[d]);
	rig_end(&r);
}

TestSuite(meta_missing, .init = setup, .fini = teardown, .timeout = 120);

static void miss(uint32_t drive, bool missing)
{
	r.conf.drive[drive].missing = missing;
	r.conf.drive[drive].volatile_cache = !missing;
	r.bad_reads = missing ? 1u << drive : 0;
	for (uint32_t d = 0; d < DRIVES; d++)
		r.under[d] = missing ? was[d] : NULL;
}

/* One page of a directory; a name comes once.  *count: entries. */
static int list_page(const char *path, struct meta_cookie *cookie, uint32_t *count, bool *end)
{
	static uint64_t out[512];
	struct meta_op op = { .type = META_OP_LIST,
			      .target = { .path = path, .path_len = (uint32_t)strlen(path) },
			      .cookie = *cookie,
			      .list_out = out,
			      .list_max_bytes = sizeof(out),
			      .list_max_entries = 7 };
	const int err = rig_run(&r, &op);

	*count = err ? 0 : op.list_count;
	*end = op.list_end;
	*cookie = op.cookie;
	for (uint32_t i = 0, at = 0; i < *count; i++) {
		struct meta_dirent e;
		char name[80] = "";
		uint32_t number;

		memcpy(&e, (uint8_t *)out + at, sizeof(e));
		memcpy(name, (uint8_t *)out + at + sizeof(e), e.name_len);
		at += e.entry_bytes;
		cr_assert_eq(sscanf(strrchr(name, ' '), " %u", &number), 1, "%s", name);
		cr_assert(number < FILES && !listed[number] && !removed[number], "%s", name);
		cr_assert_eq(e.attr.blocks, number % 3, "%s", name);
		listed[number] = true;
	}
	return err;
}

static void list_dir(uint32_t dir, bool all)
{
	struct meta_cookie cookie = { 0 };
	uint32_t count, sum = 0, wanted = FILES / DIRS;
	bool end = false;
	char path[16];
	int err;

	(void)snprintf(path, sizeof(path), "/dir %u", dir);
	do {
		err = list_page(path, &cookie, &count, &end);
		sum += count;
	} while (!err && !end);
	cr_assert(err == 0 || (err == -EIO && !all), "%s: %d", path, err);
	for (uint32_t i = dir; i < FILES; i += DIRS)
		wanted -= removed[i];
	cr_assert(err || sum == wanted, "%s: %u", path, sum);
	short_lists += err && sum;
}

/* Each file is what it was, or cannot be reached; one that can is listed. */
static void reach_all(bool all)
{
	char path[80];

	memset(listed, 0, sizeof(listed));
	for (uint32_t i = 0; i < DIRS; i++)
		list_dir(i, all);
	for (uint32_t i = 0; i < FILES; i++) {
		uint32_t blocks;
		uint64_t fill;
		int err;

		path_of(path, sizeof(path), i);
		err = rig_get(&r, path, &blocks, &fill);
		if (err == -EIO && !all) {
			lost++;
			continue;
		}
		cr_assert_eq(err, removed[i] ? -ENOENT : 0, "%s: %d", path, err);
		if (err)
			continue;
		cr_assert(listed[i], "%s is not listed", path);
		cr_assert_eq(blocks, i % 3, "%s", path);
		if (blocks)
			cr_assert_eq(fill, fill_of[i], "%s", path);
		reached++;
	}
}

static void without(uint32_t drive)
{
	char says[64];

	images_back();
	miss(drive, true);
	cr_assert_eq(rig_mount(&r), 0, "%u: %s", drive, meta_error(r.m));
	(void)snprintf(says, sizeof(says), "read only, drive %u missing: ", drive);
	cr_assert(strstr(meta_error(r.m), says), "%s", meta_error(r.m));
	cr_assert_eq(meta_health(r.m), -EROFS);
	reach_all(false);
	cr_assert_eq(rig_put(&r, "/new", 1, 1), -EROFS);
	rig_idle(&r);
	reach_all(false);
	rig_kill(&r);
	miss(drive, false);
}

static void whole_again(void)
{
	struct meta_check found;

	images_back();
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	reach_all(true);
	cr_assert_eq(rig_check(&r, &found), 0);
	cr_assert_eq(found.problems, 0, "%s", found.first[0]);
	cr_assert_eq(rig_stop(&r), 0);
}

static void each_drive(void)
{
	keep();
	for (uint32_t d = 0; d < DRIVES; d++)
		without(d);
	whole_again();
}

/* Something was served, and something was not. */
static void expect_both(uint32_t stores)
{
	cr_assert_gt(reached, 2 * stores * FILES, "%u, %u", reached, lost);
	cr_assert_gt(lost, 0);
	cr_assert_gt(short_lists, 0);
}

Test(meta_missing, any_drive_may_be_left_out_after_a_clean_stop)
{
	cr_assert_eq(rig_stop(&r), 0);
	each_drive();
	expect_both(1);
}

Test(meta_missing, any_drive_may_be_left_out_while_the_log_counts)
{
	rig_power_cut(&r);
	each_drive();
	expect_both(1);
}

/* The log holds changes that the trees do not. Without the drive they are replayed, too, or the
 * mount says that they cannot be. */
Test(meta_missing, what_the_log_changed_is_not_as_it_was_before)
{
	for (uint64_t seed = 1; seed <= 4; seed++) {
		teardown();
		make(seed);
		change_some();
		rig_power_cut(&r);
		each_drive();
	}
	expect_both(4);
}

Test(meta_missing, without_being_told_so_a_mount_names_the_way_out)
{
	cr_assert_eq(rig_stop(&r), 0);
	r.conf.drive[2].nblocks = 0;
	cr_assert_eq(rig_mount(&r), -ENODEV);
	cr_assert(strstr(meta_error(r.m), "drive 2 is missing"), "%s", meta_error(r.m));
	cr_assert(strstr(meta_error(r.m), "allow_missing = 2"), "%s", meta_error(r.m));
	cr_assert(strstr(meta_error(r.m), "salvage"), "%s", meta_error(r.m));
	rig_kill(&r);
	r.conf.drive[2].nblocks = DRIVE_BYTES / 4096;
}

Test(meta_missing, of_two_drives_one_may_be)
{
	cr_assert_eq(rig_stop(&r), 0);
	miss(1, true);
	r.conf.drive[2].nblocks = 0;
	cr_assert_eq(rig_mount(&r), -ENODEV);
	cr_assert(strstr(meta_error(r.m), "drive 2 is missing"), "%s", meta_error(r.m));
	cr_assert(!strstr(meta_error(r.m), "allow_missing"), "it does not help: %s",
		  meta_error(r.m));
	rig_kill(&r);
	r.conf.drive[2].nblocks = DRIVE_BYTES / 4096;
}

Test(meta_missing, one_that_the_store_never_had_is_refused)
{
	cr_assert_eq(rig_stop(&r), 0);
	r.conf.ndrives = DRIVES + 1;
	r.conf.drive[DRIVES].missing = true;
	cr_assert_eq(rig_mount(&r), -ENODEV);
	cr_assert(strstr(meta_error(r.m), "drive 4 is not one of the store's"), "%s",
		  meta_error(r.m));
	rig_kill(&r);
	r.conf.ndrives = DRIVES;
	r.conf.drive[DRIVES].missing = false;
}
