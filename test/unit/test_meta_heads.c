/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Zones of which no header is whole: a mount goes on, names them, and writes the headers again. */
#include "test/lib/meta_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVE_BYTES (4u << 20)
#define DRIVES_MAX  2u
#define FILES       8u

static struct rig r;
static uint8_t *was[DRIVES_MAX];
static struct meta__geo geo;

static void keep(void)
{
	for (uint32_t d = 0; d < r.ndrives; d++)
		memcpy(was[d], r.image[d], DRIVE_BYTES);
}

static void images_back(void)
{
	for (uint32_t d = 0; d < r.ndrives; d++) {
		memcpy(r.image[d], was[d], DRIVE_BYTES);
		memcpy(r.view[d], was[d], DRIVE_BYTES);
	}
}

static void path_of(char *out, size_t size, uint32_t i)
{
	(void)snprintf(out, size, "/file %u", i);
}

static void put_some(uint32_t from, uint32_t to)
{
	char path[32];

	for (uint32_t i = from; i < to; i++) {
		path_of(path, sizeof(path), i);
		cr_assert_eq(rig_put(&r, path, 3, 100 + i), 0);
	}
}

/* Files that were stopped in order, and then some that are only in the log. */
static void store(uint32_t drives, bool logged)
{
	rig_make(&r, 5, drives, DRIVE_BYTES, 4, true);
	for (uint32_t d = 0; d < drives; d++) {
		was[d] = malloc(DRIVE_BYTES);
		cr_assert_not_null(was[d]);
	}
	cr_assert_eq(rig_format(&r), 0);
	put_some(0, FILES / 2);
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0);
	put_some(FILES / 2, FILES);
	geo = r.m->zones->geo;
	if (logged)
		rig_power_cut(&r);
	else
		cr_assert_eq(rig_stop(&r), 0);
	keep();
}

static void store_end(void)
{
	for (uint32_t d = 0; d < r.ndrives; d++)
		free(was[d]);
	rig_end(&r);
}

TestSuite(meta_heads, .timeout = 120);

static void wipe(uint64_t baddr, uint32_t nblocks)
{
	for (uint32_t i = 0; i < nblocks; i++) {
		const uint64_t at = (META_BADDR_BLOCK(baddr) + i) * 4096;

		memset(r.image[META_BADDR_DRIVE(baddr)] + at, 0, 4096);
		memset(r.view[META_BADDR_DRIVE(baddr)] + at, 0, 4096);
	}
}

static void wipe_heads(uint32_t zone)
{
	for (uint32_t copy = 0; copy < 2; copy++)
		wipe(meta__geo_zone_head(&geo, zone, copy), 1);
}

must_check static bool all_there(void)
{
	char path[32];

	for (uint32_t i = 0; i < FILES; i++) {
		uint32_t blocks;
		uint64_t fill;

		path_of(path, sizeof(path), i);
		if (rig_get(&r, path, &blocks, &fill) || blocks != 3 || fill != 100 + i) {
			fprintf(stderr, "%s is not what it was\n", path);
			return false;
		}
	}
	return true;
}

/* It mounts, says so, and has everything; the next mount finds a header that is whole. */
static void expect_mended(uint32_t zone)
{
	struct meta_check found;
	char says[64];

	(void)snprintf(says, sizeof(says), "both copies of the header of zone %u", zone);
	cr_assert_eq(rig_mount(&r), 0, "zone %u: %s", zone, meta_error(r.m));
	cr_assert(strstr(meta_error(r.m), says), "%s", meta_error(r.m));
	cr_assert(all_there(), "zone %u", zone);
	cr_assert_eq(rig_check(&r, &found), 0);
	cr_assert_eq(found.problems, 0, "zone %u: %s", zone, found.first[0]);
	rig_power_cut(&r);
	cr_assert_eq(rig_mount(&r), 0, "zone %u, again: %s", zone, meta_error(r.m));
	cr_assert_str_eq(meta_error(r.m), "");
	cr_assert(all_there(), "zone %u, again", zone);
	cr_assert_eq(rig_unlink(&r, "/file 0"), 0);
	cr_assert_eq(rig_put(&r, "/file 0", 3, 100), 0);
	cr_assert_eq(rig_stop(&r), 0);
}

static void expect_each_zone_mends(uint32_t drives, bool logged)
{
	store(drives, logged);
	for (uint32_t zone = 0; zone < geo.nzones; zone += zone < 12 ? 1 : 3) {
		images_back();
		wipe_heads(zone);
		expect_mended(zone);
	}
	store_end();
}

Test(meta_heads, any_zone_may_lose_both_after_a_clean_stop)
{
	expect_each_zone_mends(2, false);
}

Test(meta_heads, any_zone_may_lose_both_while_the_log_counts)
{
	expect_each_zone_mends(2, true);
}

/* All zones of a drive at once, data, pages and log. */
Test(meta_heads, all_of_a_drive_may_lose_theirs)
{
	for (uint32_t logged = 0; logged < 2; logged++) {
		store(2, logged);
		for (uint32_t zone = 0; zone < geo.zone_count[0]; zone++)
			wipe_heads(zone);
		expect_mended(0);
		store_end();
	}
}

/* One drive has one log: where that has room left it cannot have gone on elsewhere. */
Test(meta_heads, on_a_lone_drive_nothing_is_lost_without_a_word)
{
	uint32_t mounted = 0;

	for (uint32_t logged = 0; logged < 2; logged++) {
		store(1, logged);
		for (uint32_t zone = 0; zone < geo.nzones; zone++) {
			int err;

			images_back();
			wipe_heads(zone);
			err = rig_mount(&r);
			cr_assert(err == 0 || err == -EUCLEAN, "%d", err);
			cr_assert(strstr(meta_error(r.m), "copies of the header of zone"), "%s",
				  meta_error(r.m));
			if (err)
				cr_assert(strstr(meta_error(r.m), "wekactl check --salvage DIR"),
					  "%s", meta_error(r.m));
			else
				cr_assert(all_there());
			mounted += err == 0;
			rig_power_cut(&r);
		}
		store_end();
	}
	cr_assert_gt(mounted, 0);
}

/* The whole zone is gone: what was there is refused, and nothing else is. */
Test(meta_heads, whole_zone_of_zeros_costs_what_was_in_it)
{
	uint32_t whole = 0;

	for (uint32_t logged = 0; logged < 2; logged++) {
		store(2, logged);
		for (uint32_t zone = 0; zone < geo.nzones; zone++) {
			images_back();
			wipe(meta__geo_zone_baddr(&geo, zone), geo.zone_blocks);
			if (rig_mount(&r)) { /* a page was there */
				cr_assert(strstr(meta_error(r.m), "page at drive"), "%s",
					  meta_error(r.m));
				cr_assert(strstr(meta_error(r.m), "wekactl check --salvage DIR"));
			} else {
				char path[32];

				for (uint32_t i = 0; i < FILES; i++) {
					uint32_t blocks;
					uint64_t fill;

					path_of(path, sizeof(path), i);
					whole += rig_get(&r, path, &blocks, &fill) == 0;
				}
			}
			rig_power_cut(&r);
		}
		store_end();
	}
	cr_assert_gt(whole, FILES * geo.nzones);
}

/* A log of which nothing is found is not taken for an empty one. */
Test(meta_heads, whole_zone_of_a_lone_drive_takes_no_name_without_a_word)
{
	uint32_t mounted = 0;

	store(1, true);
	for (uint32_t zone = 0; zone < geo.nzones; zone++) {
		images_back();
		wipe(meta__geo_zone_baddr(&geo, zone), geo.zone_blocks);
		if (rig_mount(&r) == 0) {
			char path[32];

			for (uint32_t i = 0; i < FILES; i++) {
				uint32_t blocks;
				uint64_t fill;

				path_of(path, sizeof(path), i);
				cr_assert_neq(rig_get(&r, path, &blocks, &fill), -ENOENT,
					      "zone %u: %s", zone, path);
			}
			mounted++;
		}
		rig_power_cut(&r);
	}
	cr_assert_gt(mounted, 0);
	store_end();
}

/* At every write of such a mount comes a cut, which garbles what is on its way. */
Test(meta_heads, cut_while_they_are_written_leaves_them_lost_or_whole)
{
	store(2, true);
	r.cut_garbles = true;
	for (uint64_t n = 1, err = 1; err; n++) {
		images_back();
		for (uint32_t zone = 0; zone < geo.zone_count[0]; zone += 3)
			wipe_heads(zone);
		r.cut_at = r.writes + n;
		err = (uint64_t)-rig_mount(&r);
		cr_assert(err == 0 || err == ECANCELED, "%s", meta_error(r.m));
		rig_power_cut(&r);
		cr_assert_eq(rig_mount(&r), 0, "%llu: %s", (unsigned long long)n, meta_error(r.m));
		cr_assert(all_there());
		rig_power_cut(&r);
	}
	store_end();
}

/* A drive that fails may answer tomorrow. */
Test(meta_heads, header_that_cannot_be_read_today_is_refused)
{
	store(1, false);
	r.unread[0].from = 1 + 2 * 4;
	r.unread[0].to = r.unread[0].from + geo.zone_blocks;
	cr_assert_eq(rig_mount(&r), -EIO);
	cr_assert(strstr(meta_error(r.m), "the header of zone 0 cannot be read"), "%s",
		  meta_error(r.m));
	store_end();
}
