/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Stores that a mount accepts, tolerates and refuses, by name. */
#include "test/lib/meta_rig.h"
#include "test/lib/runs.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVE_BYTES (4u << 20)

static struct rig r;

static void store(void)
{
	rig_make(&r, 5, 2, DRIVE_BYTES, 4, true);
	cr_assert_eq(rig_format(&r), 0);
	cr_assert_eq(rig_put(&r, "/file", 3, 17), 0);
	cr_assert_eq(rig_stop(&r), 0);
}

static void store_end(void)
{
	rig_end(&r);
}

TestSuite(meta_boot, .init = store, .fini = store_end, .timeout = 60);

static void flip(uint32_t drive, uint64_t block, uint32_t byte)
{
	r.image[drive][block * 4096 + byte] ^= 4;
	r.view[drive][block * 4096 + byte] ^= 4;
}

static void is_whole(void)
{
	uint32_t blocks;
	uint64_t fill;

	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	cr_assert_eq(rig_get(&r, "/file", &blocks, &fill), 0);
	cr_assert_eq(blocks, 3);
	cr_assert_eq(fill, 17);
}

static bool is_refused(int err, const char *why)
{
	return rig_mount(&r) == err && strstr(meta_error(r.m), why);
}

Test(meta_boot, what_was_formatted_mounts_again_and_again)
{
	for (int i = 0; i < 4; i++) {
		uint64_t epoch;

		is_whole();
		epoch = r.m->epoch;
		cr_assert_eq(epoch, 2 + i, "no two mounts have one number");
		cr_assert_eq(rig_stop(&r), 0);
	}
}

Test(meta_boot, empty_drives_are_no_store)
{
	memset(r.view[0], 0, 4u << 20);
	cr_assert(is_refused(-ENODATA, "drive 0: no superblock"), "%s", meta_error(r.m));
}

Test(meta_boot, one_damaged_superblock_is_named_and_the_other_one_used)
{
	flip(1, 0, 77);
	is_whole();
	cr_assert_not_null(strstr(meta_error(r.m), "drive 1: first superblock"), "%s",
			   meta_error(r.m));
}

Test(meta_boot, second_superblock_may_be_damaged_too)
{
	flip(0, 1023, 77);
	is_whole();
	cr_assert_not_null(strstr(meta_error(r.m), "drive 0: second superblock"), "%s",
			   meta_error(r.m));
}

Test(meta_boot, two_damaged_superblocks_are_refused)
{
	flip(1, 0, 77);
	flip(1, 1023, 78);
	cr_assert(is_refused(-ENODATA, "drive 1"), "%s", meta_error(r.m));
}

/* As a format that was cut short may leave it: one is gone, the other is lost. */
Test(meta_boot, superblock_that_cannot_be_read_beside_one_that_is_none_is_no_store)
{
	r.lost_to = 1;
	r.lost_status = -ENODATA;
	is_whole();
	rig_power_cut(&r);
	flip(0, 1023, 3);
	cr_assert(is_refused(-ENODATA, "drive 0: no superblock"), "%s", meta_error(r.m));
}

Test(meta_boot, drives_in_the_wrong_order_are_refused)
{
	uint8_t *view = r.view[0];

	r.view[0] = r.view[1];
	r.view[1] = view;
	cr_assert(is_refused(-ENODEV, "in place 0 stands drive 1"), "%s", meta_error(r.m));
	r.view[1] = r.view[0];
	r.view[0] = view;
}

Test(meta_boot, missing_drive_is_refused)
{
	r.conf.ndrives = 1;
	cr_assert(is_refused(-ENODEV, "the store has 2 drives, 1 are given"), "%s",
		  meta_error(r.m));
	r.conf.ndrives = 2;
}

Test(meta_boot, drive_of_another_store_is_refused)
{
	static struct rig other;

	rig_make(&other, 6, 2, 4u << 20, 4, true);
	memcpy(other.conf.uuid, "other", 5);
	cr_assert_eq(rig_format(&other), 0);
	cr_assert_eq(rig_stop(&other), 0);
	memcpy(r.view[1], other.view[1], 4u << 20);
	cr_assert(is_refused(-ENODEV, "drive 1 is of another store"), "%s", meta_error(r.m));
	rig_end(&other);
}

Test(meta_boot, any_one_copy_of_any_root_may_be_damaged)
{
	for (uint32_t i = 0; i < 16; i++) {
		flip(i / 8, 1 + i % 8, i * 31);
		is_whole();
		cr_assert_eq(rig_stop(&r),
			     0); /* the mount wrote all of them again, into one slot */
		store_end();
		store();
	}
}

/* A write that went astray: whole, of the same shard, and of another slot. */
Test(meta_boot, root_in_the_other_slot_is_named_and_not_used)
{
	for (uint32_t i = 0; i < 8; i++) {
		uint32_t copy = i / 4, shard = i % 4;
		uint8_t *slot0 = r.view[copy] + (1 + shard) * 4096ul, *slot1 = slot0 + 4 * 4096;

		memcpy(i % 2 ? slot0 : slot1, i % 2 ? slot1 : slot0, 4096);
		is_whole();
		cr_assert_not_null(strstr(meta_error(r.m), "of a root is damaged"), "%u: %s", i,
				   meta_error(r.m));
		store_end();
		store();
	}
}

Test(meta_boot, both_copies_of_a_root_damaged_are_refused_whichever_slot_it_is)
{
	for (uint32_t i = 0; i < 8; i++) {
		char why[16] = "shard 0";

		why[6] = (char)('0' + i % 4);
		flip(0, 1 + i, 100);
		flip(1, 1 + i, 200);
		cr_assert(is_refused(-EUCLEAN, why), "%s", meta_error(r.m));
		rig_power_cut(&r);
		flip(0, 1 + i, 100);
		flip(1, 1 + i, 200);
	}
}

/* The copies of the header of zone 1 of drive 0: its first block, and its last. */
static const uint64_t head_of_zone_1[2] = { 9 + 16, 9 + 31 };

Test(meta_boot, either_copy_of_a_zone_header_may_be_damaged_and_is_named)
{
	for (uint32_t copy = 0; copy < 2; copy++) {
		char place[32];

		(void)snprintf(place, sizeof(place),
			       "drive 0 block %u:", (uint32_t)head_of_zone_1[copy]);
		flip(0, head_of_zone_1[copy], 3);
		is_whole();
		cr_assert_not_null(strstr(meta_error(r.m), place), "%s", meta_error(r.m));
		cr_assert_not_null(strstr(meta_error(r.m), "header of zone 1"));
		store_end();
		store();
	}
}

/* More of it in test_meta_heads.c. */
Test(meta_boot, zone_header_of_which_no_copy_is_whole_is_named_and_written_again)
{
	flip(0, head_of_zone_1[0], 3);
	flip(0, head_of_zone_1[1], 3);
	is_whole();
	cr_assert_not_null(strstr(meta_error(r.m), "both copies of the header of zone 1"), "%s",
			   meta_error(r.m));
}

static void images_copy(uint8_t *const to[2], uint8_t *const from[2])
{
	for (uint32_t d = 0; d < 2; d++)
		memcpy(to[d], from[d], DRIVE_BYTES);
}

/* At every write of a mount that finds one copy of everything damaged a cut comes, and garbles what
 * is on its way.  Returns how many writes were cut. */
static uint64_t cut_everywhere(void (*damage)(uint32_t copy), uint32_t copy)
{
	uint8_t *whole[2] = { malloc(DRIVE_BYTES), malloc(DRIVE_BYTES) };
	uint64_t cuts = 0;
	int err = -ECANCELED;

	cr_assert(whole[0] && whole[1]);
	images_copy(whole, r.image);
	r.cut_garbles = true;
	for (uint64_t n = 1; err; n++) {
		images_copy(r.image, whole);
		images_copy(r.view, whole);
		damage(copy);
		r.cut_at = r.writes + n;
		err = rig_mount(&r);
		cr_assert(err == 0 || err == -ECANCELED);
		cuts += err != 0;
		rig_power_cut(&r);
		is_whole();
		cr_assert_null(strstr(meta_error(r.m), "both copies"), "write %llu: %s",
			       (unsigned long long)n, meta_error(r.m));
		rig_power_cut(&r);
	}
	images_copy(r.image, whole);
	images_copy(r.view, whole);
	free(whole[0]);
	free(whole[1]);
	return cuts;
}

static void damage_roots(uint32_t copy)
{
	for (uint64_t block = 1; block <= 8; block++) /* two slots of four shards */
		flip(copy, block, 5);
}

static void damage_heads(uint32_t copy)
{
	for (uint64_t zone = 9; zone + 16 < DRIVE_BYTES / 4096; zone += 16)
		for (uint32_t drive = 0; drive < 2; drive++)
			flip(drive, zone + 15 * copy, 5);
}

Test(meta_boot, cut_while_damaged_copies_are_mended_leaves_the_others)
{
	for (uint32_t copy = 0; copy < 2; copy++) {
		cr_assert_geq(cut_everywhere(damage_roots, copy), 8); /* a copy of each root */
		cr_assert_geq(cut_everywhere(damage_heads, copy), 8);
	}
}

static void damage_nothing(uint32_t copy)
{
	(void)copy;
}

/* However much of it is on its way at once: never both copies of anything. */
Test(meta_boot, cut_that_spoils_all_that_a_mount_is_writing_leaves_a_store)
{
	r.cut_spoils = true;
	cr_assert_geq(cut_everywhere(damage_nothing, 0), 8); /* the roots of four shards, twice */
}

/* Mounts that each named its own log in some roots, and in none of them all. */
Test(meta_boot, mounts_that_are_cut_one_after_the_other_lose_no_log_that_a_root_names)
{
	for (uint32_t seed = 1; seed < test_runs(80); seed++) {
		uint32_t blocks, cuts = 0;
		uint64_t fill;

		rig_end(&r);
		rig_make(&r, seed, 1, 4u << 20, 4, true);
		cr_assert_eq(rig_format(&r), 0);
		cr_assert_eq(rig_put(&r, "/f", 3, seed), 0);
		rig_power_cut(&r);
		for (uint32_t i = 0; i < 4; i++) {
			r.cut_at = r.writes + 8 + rand_below(&r.rand, 20);
			cuts += rig_mount(&r) == -ECANCELED;
			rig_power_cut(&r);
		}
		cr_assert_eq(rig_mount(&r), 0, "seed %u, %u cuts: %s", seed, cuts, meta_error(r.m));
		cr_assert_eq(rig_get(&r, "/f", &blocks, &fill), 0);
		cr_assert_eq(fill, seed);
	}
}

Test(meta_boot, conf_that_cannot_work_is_refused_with_its_reason)
{
	struct meta_conf c = r.conf;

	cr_assert_null(meta_conf_problem(&c));
	c.drive[1].nblocks = 511;
	cr_assert_not_null(strstr(meta_conf_problem(&c), "2 MiB"));
	cr_assert_eq(meta_memory_needed(&c), 0);
	c = r.conf;
	c.cache_bytes = 16384;
	cr_assert_not_null(strstr(meta_conf_problem(&c), "cache"));
	c = r.conf;
	c.nshards = 3;
	cr_assert_not_null(strstr(meta_conf_problem(&c), "shards"));
	c.nshards = 512;
	cr_assert_not_null(strstr(meta_conf_problem(&c), "shards"));
	c = r.conf;
	c.ndrives = 0;
	cr_assert_not_null(strstr(meta_conf_problem(&c), "drives"));
}
