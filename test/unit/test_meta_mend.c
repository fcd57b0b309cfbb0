/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A mount writes damaged superblocks and zone headers again, and obeys features it does not know.
 */
#include "test/lib/meta_rig.h"
#include "meta/meta_set.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVE_BYTES (4u << 20)
#define BLOCKS      (DRIVE_BYTES / 4096)

static struct rig r;
static uint8_t *was[2]; /* the drives, whole */

static void store(void)
{
	rig_make(&r, 5, 2, DRIVE_BYTES, 4, true);
	cr_assert_eq(rig_format(&r), 0);
	cr_assert_eq(rig_put(&r, "/file", 3, 17), 0);
	cr_assert_eq(rig_stop(&r), 0);
	for (uint32_t d = 0; d < 2; d++) {
		was[d] = malloc(DRIVE_BYTES);
		cr_assert_not_null(was[d]);
		memcpy(was[d], r.image[d], DRIVE_BYTES);
	}
}

static void store_end(void)
{
	free(was[0]);
	free(was[1]);
	rig_end(&r);
}

TestSuite(meta_mend, .init = store, .fini = store_end, .timeout = 60);

static void images_back(void)
{
	for (uint32_t d = 0; d < 2; d++) {
		memcpy(r.image[d], was[d], DRIVE_BYTES);
		memcpy(r.view[d], was[d], DRIVE_BYTES);
	}
}

static void damage(uint32_t drive, uint64_t block)
{
	r.image[drive][block * 4096 + 99] ^= 4;
	r.view[drive][block * 4096 + 99] ^= 4;
}

must_check static bool is_as_it_was(uint32_t drive, uint64_t block)
{
	return memcmp(r.image[drive] + block * 4096, was[drive] + block * 4096, 4096) == 0;
}

/* It mounts, says so, and the file is there. */
must_check static bool mounts(const char *says)
{
	uint32_t blocks;
	uint64_t fill;
	bool is = rig_mount(&r) == 0 && strstr(meta_error(r.m), says);

	if (!is)
		fprintf(stderr, "it says: %s\n", meta_error(r.m));
	return is && rig_get(&r, "/file", &blocks, &fill) == 0 && fill == 17;
}

/* ---- mended ------------------------------------------------------------------------------ */

Test(meta_mend, either_superblock_of_any_drive_is_written_again_and_said)
{
	for (uint32_t drive = 0; drive < 2; drive++)
		for (uint32_t copy = 0; copy < 2; copy++) {
			uint64_t block = copy ? BLOCKS - 1 : 0;

			images_back();
			damage(drive, block);
			cr_assert(mounts(
				copy ? "second superblock: superblock damaged; written again from "
				       "the first"
				     : "first superblock: superblock damaged; written again from "
				       "the second"));
			rig_power_cut(&r); /* it was durable */
			cr_assert(is_as_it_was(drive, block));
			cr_assert_eq(rig_mount(&r), 0);
			cr_assert_str_eq(meta_error(r.m), "");
			rig_power_cut(&r);
		}
}

/* A write that went astray: whole, and of another place. */
Test(meta_mend, superblock_of_another_drive_is_written_again_and_said)
{
	memcpy(r.image[0] + (BLOCKS - 1) * 4096ul, was[1], 4096);
	memcpy(r.view[0] + (BLOCKS - 1) * 4096ul, was[1], 4096);
	cr_assert(mounts(
		"drive 0: second superblock: is that of drive 1; written again from the first"));
	rig_power_cut(&r);
	cr_assert(is_as_it_was(0, BLOCKS - 1));
	memcpy(r.image[1], was[0], 4096);
	memcpy(r.view[1], was[0], 4096);
	cr_assert(mounts(
		"drive 1: first superblock: is that of drive 0; written again from the second"));
	rig_power_cut(&r);
	cr_assert(is_as_it_was(1, 0));
}

Test(meta_mend, so_are_several_at_once)
{
	damage(0, 0);
	damage(1, BLOCKS - 1);
	cr_assert(mounts("drive 0: first superblock"));
	rig_power_cut(&r);
	cr_assert(is_as_it_was(0, 0));
	cr_assert(is_as_it_was(1, BLOCKS - 1));
}

Test(meta_mend, superblock_that_cannot_be_read_is_written)
{
	r.lost_to = 1;
	r.lost_status = -ENODATA;
	cr_assert(
		mounts("drive 0: first superblock: cannot be read; written again from the second"));
	rig_power_cut(&r);
	cr_assert(is_as_it_was(0, 0));
}

/* Returns the place of the zone that has the file's blocks: its header is needed. */
static uint64_t data_zone(void)
{
	uint64_t found = 0;

	cr_assert_eq(rig_mount(&r), 0);
	for (uint32_t z = 0; z < r.m->zones->geo.nzones; z++)
		if (meta__zone_at(r.m, z)->kind == META__ZONE_DATA && meta__zone_at(r.m, z)->live)
			found = meta__geo_zone_baddr(&r.m->zones->geo, z);
	rig_power_cut(&r);
	cr_assert_neq(found, 0);
	return found;
}

Test(meta_mend, either_copy_of_a_zones_header_is_written_again)
{
	uint64_t zone = data_zone(), drive = META_BADDR_DRIVE(zone);

	for (uint32_t copy = 0; copy < 2; copy++) {
		uint64_t block = META_BADDR_BLOCK(zone) + 15 * copy;

		images_back();
		damage((uint32_t)drive, block);
		cr_assert(mounts("written again from the other"));
		rig_power_cut(&r);
		cr_assert(is_as_it_was((uint32_t)drive, block));
	}
}

/* ---- cut, or failing, meanwhile ------------------------------------------------------------ */

Test(meta_mend, power_cut_while_it_is_written_leaves_the_other_one)
{
	int err = -ECANCELED;

	r.cut_spoils = true;
	for (uint64_t n = 1; err; n++) {
		images_back();
		damage(0, 0);
		damage(1, BLOCKS - 1);
		r.cut_at = r.writes + n;
		err = rig_mount(&r);
		cr_assert(err == 0 || err == -ECANCELED);
		rig_power_cut(&r);
		cr_assert(is_as_it_was(0, BLOCKS - 1)); /* what was whole is not written to */
		cr_assert(is_as_it_was(1, 0));
		cr_assert(mounts("")); /* and mends it, or has */
		rig_power_cut(&r);
		cr_assert(is_as_it_was(0, 0));
		cr_assert(is_as_it_was(1, BLOCKS - 1));
	}
}

/* No write succeeds: such a mount ends, but what was whole still is. */
Test(meta_mend, write_that_fails_leaves_the_other_one)
{
	damage(0, 0);
	r.fail_at = r.writes + 1;
	cr_assert_neq(rig_mount(&r), 0);
	cr_assert(is_as_it_was(0, BLOCKS - 1));
	rig_power_cut(&r);
	r.fail_at = 0; /* what failed may be there all the same */
	cr_assert(mounts(is_as_it_was(0, 0) ? "" : "drive 0: first superblock"));
}

/* ---- features -------------------------------------------------------------------------------- */

/* As a newer program would have formatted it. */
static void set_feature(uint32_t drive, uint64_t block, uint32_t at, uint32_t bit, const char *name)
{
	uint8_t *p = r.image[drive] + block * 4096;
	uint32_t crc;

	p[at + bit / 8] |= (uint8_t)(1u << bit % 8);
	if (name)
		memcpy(p + offsetof(struct meta_super_disk, incompat_name) + bit * 16ul, name,
		       strlen(name));
	memset(p + offsetof(struct meta_super_disk, crc), 0, 4);
	crc = crc32c(p, 4096);
	memcpy(p + offsetof(struct meta_super_disk, crc), &crc, 4);
	memcpy(r.view[drive] + block * 4096, p, 4096);
}

#define INCOMPAT offsetof(struct meta_super_disk, incompat)
#define COMPAT   offsetof(struct meta_super_disk, compat)

must_check static bool is_refused_untouched(const char *why)
{
	uint64_t writes = r.writes;
	bool is = rig_mount(&r) == -EPROTONOSUPPORT && strstr(meta_error(r.m), why);

	if (!is)
		fprintf(stderr, "it says: %s\n", meta_error(r.m));
	rig_power_cut(&r);
	return is && r.writes == writes;
}

Test(meta_mend, store_with_an_unknown_incompatible_feature_is_refused_by_name)
{
	for (uint32_t drive = 0; drive < 2; drive++) {
		set_feature(drive, 0, INCOMPAT, 15, "parity");
		set_feature(drive, BLOCKS - 1, INCOMPAT, 15, "parity");
	}
	cr_assert(is_refused_untouched("drive 0: needs feature 15 'parity'"));
}

Test(meta_mend, feature_without_a_name_is_refused_by_its_bit)
{
	set_feature(1, 0, INCOMPAT, 41, NULL);
	set_feature(1, BLOCKS - 1, INCOMPAT, 41, NULL);
	cr_assert(is_refused_untouched("drive 1: needs feature 41"));
}

/* A newer program was cut while it wrote them: the older copy is no leave to write. */
Test(meta_mend, one_copy_with_an_unknown_feature_is_enough)
{
	set_feature(0, 0, INCOMPAT, 15, "chunks");
	cr_assert(is_refused_untouched("needs feature 15 'chunks'"));
	images_back();
	set_feature(1, BLOCKS - 1, INCOMPAT, 15, "chunks");
	cr_assert(is_refused_untouched("needs feature 15 'chunks'"));
}

Test(meta_mend, unknown_compatible_features_are_mounted_and_kept)
{
	for (uint32_t copy = 0; copy < 2; copy++) {
		uint64_t good = copy ? BLOCKS - 1 : 0, bad = BLOCKS - 1 - good;

		images_back();
		set_feature(0, 0, COMPAT, 37, NULL);
		set_feature(0, BLOCKS - 1, COMPAT, 37, NULL);
		damage(0, bad);
		cr_assert(mounts("written again"));
		rig_power_cut(&r);
		cr_assert_arr_eq(r.image[0] + bad * 4096, r.image[0] + good * 4096, 4096);
		cr_assert_eq(r.image[0][bad * 4096 + COMPAT + 4], 1 << 5);
	}
}
