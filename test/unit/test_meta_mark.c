/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A drive that is an older copy of itself is named, and no power cut makes one. */
#include "test/lib/meta_rig.h"
#include "test/lib/runs.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVE_BYTES (4u << 20)

static struct rig r;
static uint8_t *kept;
static uint64_t fills;
static struct meta__geo geo;

static void store(uint32_t drives)
{
	rig_make(&r, 11, drives, DRIVE_BYTES, 4, true);
	kept = malloc(DRIVE_BYTES);
	cr_assert_not_null(kept);
	cr_assert_eq(rig_format(&r), 0);
	geo = r.m->zones->geo;
}

static void store_end(void)
{
	free(kept);
	rig_end(&r);
}

TestSuite(meta_mark, .timeout = 120);

static void put_some(uint32_t count)
{
	char path[32];

	for (uint32_t i = 0; i < count; i++) {
		(void)snprintf(path, sizeof(path), "/f%u", i);
		(void)rig_unlink(&r, path);
		cr_assert_eq(rig_put(&r, path, 2, ++fills), 0);
	}
}

static void keep(uint32_t drive)
{
	memcpy(kept, r.view[drive], DRIVE_BYTES);
}

static void give_back(uint32_t drive)
{
	memcpy(r.view[drive], kept, DRIVE_BYTES);
	memcpy(r.image[drive], kept, DRIVE_BYTES);
}

static void expect_named(uint32_t drive)
{
	char text[48];

	(void)snprintf(text, sizeof(text), "drive %u is behind the others", drive);
	cr_assert_eq(rig_mount(&r), -EUCLEAN, "drive %u: %s", drive, meta_error(r.m));
	cr_assert(strstr(meta_error(r.m), text), "%s", meta_error(r.m));
}

/* Copied while the store was stopped, and given back after the next mount. */
Test(meta_mark, copy_from_before_the_last_mount_is_named)
{
	for (uint32_t drive = 0; drive < 3; drive++) {
		store(3);
		put_some(9);
		cr_assert_eq(rig_stop(&r), 0);
		keep(drive);
		cr_assert_eq(rig_mount(&r), 0);
		put_some(9);
		cr_assert_eq(rig_stop(&r), 0);
		give_back(drive);
		expect_named(drive);
		store_end();
	}
}

/* Copied while it served: what was put since went into zones that were open then. */
Test(meta_mark, copy_of_a_drive_that_served_is_named)
{
	for (uint32_t drive = 0; drive < 3; drive++) {
		store(3);
		put_some(6);
		rig_idle(&r);
		keep(drive);
		put_some(6);
		cr_assert_eq(rig_stop(&r), 0);
		give_back(drive);
		expect_named(drive);
		store_end();
	}
}

/* Nothing was put: but a mount has written its log, and somebody had better know. */
Test(meta_mark, copy_is_named_though_nothing_was_put_since)
{
	store(2);
	cr_assert_eq(rig_stop(&r), 0);
	keep(1);
	cr_assert_eq(rig_mount(&r), 0);
	rig_power_cut(&r);
	give_back(1);
	expect_named(1);
	store_end();
}

Test(meta_mark, mount_that_is_refused_for_it_has_written_nothing)
{
	uint64_t writes;

	store(2);
	cr_assert_eq(rig_stop(&r), 0);
	keep(1);
	cr_assert_eq(rig_mount(&r), 0);
	cr_assert_eq(rig_stop(&r), 0);
	give_back(1);
	writes = r.writes;
	expect_named(1);
	cr_assert_eq(r.writes, writes);
	store_end();
}

/* All of the drives as they were: an older store, and a whole one. */
Test(meta_mark, older_copy_of_all_drives_is_a_store)
{
	store(1);
	put_some(4);
	cr_assert_eq(rig_stop(&r), 0);
	keep(0);
	cr_assert_eq(rig_mount(&r), 0);
	put_some(4);
	cr_assert_eq(rig_stop(&r), 0);
	give_back(0);
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	store_end();
}

/* At any moment, with all that was on its way torn or garbage; and one header spoilt besides. */
Test(meta_mark, power_cut_puts_no_drive_behind)
{
	for (uint32_t seed = 1; seed < test_runs(60); seed++) {
		fills = 0;
		rig_make(&r, seed, 2, DRIVE_BYTES, 4, true);
		r.cut_garbles = seed % 2;
		r.cut_spoils = seed % 3 == 0;
		cr_assert_eq(rig_format(&r), 0);
		for (uint32_t i = 0; i < 12; i++) {
			int err;

			r.cut_at = r.writes + 1 + rand_below(&r.rand, 120);
			while (!r.cut) {
				if (rig_put(&r, "/f", 3, ++fills) == -EEXIST)
					(void)rig_unlink(&r, "/f");
				if (rand_below(&r.rand, 3) == 0)
					meta__ckpt_want(r.m);
			}
			rig_power_cut(&r);
			err = rig_mount(&r);
			cr_assert_eq(err, 0, "seed %u, cut %u: %s", seed, i, meta_error(r.m));
			if (rand_below(&r.rand, 3) == 0) { /* a copy of a drive's first header */
				const uint64_t at = meta__geo_zone_head(
					&r.m->zones->geo, r.m->zones->geo.zone_base[seed % 2],
					(uint32_t)rand_below(&r.rand, 2));

				rig_power_cut(&r);
				memset(r.view[seed % 2] + META_BADDR_BLOCK(at) * 4096, 7, 4096);
				memset(r.image[seed % 2] + META_BADDR_BLOCK(at) * 4096, 7, 4096);
				err = rig_mount(&r);
				cr_assert_eq(err, 0, "seed %u, cut %u, header: %s", seed, i,
					     meta_error(r.m));
			}
		}
		rig_end(&r);
	}
}

/* It keeps no checkpoint from its end, nor is it behind. */
Test(meta_mark, drive_that_does_not_take_its_mark_serves)
{
	store(3);
	put_some(5);
	rig_idle(&r);
	r.bad_heads = 1u << 2;
	meta__ckpt_want(r.m);
	rig_idle(&r);
	cr_assert(!meta__ckpt_running(r.m));
	cr_assert_eq(meta_health(r.m), 0);
	r.bad_heads = 0;
	rig_power_cut(&r);
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	cr_assert_eq(rig_stop(&r), 0);
	store_end();
}

/* As the program before marks wrote it. */
/* A mount begins with its lowest mark, while a checkpoint may be writing a higher one. */
Test(meta_mark, mark_that_is_being_written_is_not_lowered)
{
	struct meta__marks *k;
	uint64_t gen;

	store(2);
	k = &r.m->zones->marks;
	gen = meta__ckpt_gen(r.m);
	meta__marks_begin(r.m, gen + 5);
	cr_assert_eq(k->due, 3);
	meta__marks_begin(r.m, gen + 1);
	cr_assert_eq(k->next, gen + 5);
	k->due = 0;
	store_end();
}

static void forget_marks(void)
{
	for (uint32_t d = 0; d < r.ndrives; d++)
		for (uint32_t copy = 0; copy < 2; copy++) {
			const uint64_t at =
				META_BADDR_BLOCK(meta__geo_zone_head(&geo, geo.zone_base[d], copy));
			struct meta__zone_seen seen;

			cr_assert_eq(meta__zone_parse(r.image[d] + at * 4096, r.conf.uuid,
						      geo.zone_base[d], &seen),
				     0);
			cr_assert_gt(seen.mark, 0);
			seen.mark = 0;
			meta__zone_build(&seen, r.conf.uuid, r.image[d] + at * 4096);
			meta__zone_build(&seen, r.conf.uuid, r.view[d] + at * 4096);
		}
}

/* ... and its roots. */
static void forget_in_roots(void)
{
	for (uint32_t d = 0; d < 2; d++)
		for (uint32_t block = 1; block <= 8; block++) {
			uint8_t *at = r.image[d] + block * 4096ul;
			le32 crc = le32_of(0);

			memset(at + offsetof(struct meta_root_disk, mark), 0, 64 * 8);
			memcpy(at + 4, &crc, 4);
			crc = le32_of(crc32c(at, 4096));
			memcpy(at + 4, &crc, 4);
			memcpy(r.view[d] + block * 4096ul, at, 4096);
		}
}

Test(meta_mark, store_of_a_program_that_knows_no_marks_mounts)
{
	store(2);
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0);
	cr_assert_eq(rig_stop(&r), 0);
	forget_marks();
	expect_named(0);
	rig_power_cut(&r);
	forget_in_roots();
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	store_end();
}
