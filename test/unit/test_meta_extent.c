/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/lib/meta_golden.h"
#include "meta/format/meta_record.h"
#include "test/lib/death.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

TestSuite(meta_extent);

static struct meta__chunk c, again;
static uint8_t buf[META__EXTENT_VALUE_MAX];

static struct meta__extent packed(void)
{
	struct meta__extent x;
	const uint32_t len = meta__chunk_build(&c, buf);

	cr_assert_eq(meta__extent_parse(buf, len, &x), 0);
	return x;
}

Test(meta_extent, blocks_that_lie_together_are_one_run)
{
	struct meta__extent x;

	meta__chunk_init(&c, 3);
	for (uint32_t i = 0; i < 10; i++)
		meta__chunk_set(&c, i, META_BADDR(1, 500 + i), i);
	meta__chunk_set(&c, 12, META_BADDR(1, 510), 12);
	x = packed();
	cr_assert_eq(x.epoch, 3);
	cr_assert_eq(x.nblocks, 13);
	cr_assert_eq(x.nruns, 3);
	cr_assert_eq(meta__extent_run(&x, 0).baddr, META_BADDR(1, 500));
	cr_assert_eq(meta__extent_run(&x, 0).nblocks, 10);
	cr_assert_eq(meta__extent_run(&x, 1).baddr, 0);
	cr_assert_eq(meta__extent_run(&x, 1).nblocks, 2);
	meta__chunk_load(&again, &x);
	cr_assert_eq(again.crc[12], 12);
	cr_assert_eq(again.crc[11], CRC32C_ZERO_BLOCK);
}

Test(meta_extent, the_worst_chunk_fits_its_record)
{
	struct meta__extent x;

	meta__chunk_init(&c, 0);
	for (uint32_t i = 0; i < META_CHUNK_BLOCKS; i++)
		meta__chunk_set(&c, i, META_BADDR(i & 1, 1000 + 2 * i), i);
	x = packed();
	cr_assert_eq(x.nruns, META_CHUNK_BLOCKS);
	cr_assert_eq(meta__chunk_build(&c, buf), META__EXTENT_VALUE_MAX);
	cr_assert_leq(META__EXTENT_VALUE_MAX, META_VALUE_MAX);
}

Test(meta_extent, what_lies_behind_the_last_block_takes_no_bytes)
{
	meta__chunk_init(&c, 0);
	meta__chunk_set(&c, 5, META_BADDR(0, 9), 1);
	meta__chunk_set(&c, 9, META_BADDR(0, 10), 1);
	meta__chunk_set(&c, 9, 0, 0);
	cr_assert_eq(c.nblocks, 6);
	meta__chunk_trim(&c, 5);
	cr_assert_eq(c.nblocks, 0);
	cr_assert_eq(meta__chunk_build(&c, buf), 0);
}

/* The record of two runs, with one change; its parser's answer. */
static int parse_with(uint32_t at, uint8_t value, int32_t longer)
{
	struct meta__extent x;
	uint32_t len;

	meta__chunk_init(&c, 0);
	meta__chunk_set(&c, 0, META_BADDR(1, 77), 1);
	meta__chunk_set(&c, 1, META_BADDR(1, 99), 1);
	len = meta__chunk_build(&c, buf);
	buf[at] = value;
	return meta__extent_parse(buf, (uint32_t)((int32_t)len + longer), &x);
}

Test(meta_extent, records_that_cannot_be_are_refused)
{
	cr_assert_eq(parse_with(0, 0, 0), 0);
	cr_assert_eq(parse_with(0, 0, 1), -EIO);
	cr_assert_eq(parse_with(0, 0, -1), -EIO);
	cr_assert_eq(parse_with(4, 3, 0), -EIO);  /* more runs than blocks              */
	cr_assert_eq(parse_with(6, 0, 0), -EIO);  /* no blocks                          */
	cr_assert_eq(parse_with(7, 1, 0), -EIO);  /* 258 blocks                         */
	cr_assert_eq(parse_with(8, 2, 0), -EIO);  /* the first run has two              */
	cr_assert_eq(parse_with(8, 0, 0), -EIO);  /* ... or none                        */
	cr_assert_eq(parse_with(9, 0, 0), -EIO);  /* block 0 of drive 1: a superblock   */
	cr_assert_eq(parse_with(17, 0x99, 0), 0); /* another place: not ours to know    */
	meta__chunk_init(&c, 0);
	for (uint32_t i = 0; i < 4; i++)
		cr_assert_eq(parse_with(0, 0, (int32_t)i - 36), -EIO);
}

Test(meta_extent, a_run_that_ends_behind_all_blocks_is_refused)
{
	struct meta__extent x;
	uint32_t len;

	meta__chunk_init(&c, 0);
	meta__chunk_set(&c, 0, META_BADDR(1, (1ull << 44) - 1), 1);
	len = meta__chunk_build(&c, buf);
	cr_assert_eq(meta__extent_parse(buf, len, &x), -EIO);
}

static void sets_a_block_outside(void)
{
	meta__chunk_init(&c, 0);
	meta__chunk_set(&c, META_CHUNK_BLOCKS, META_BADDR(0, 9), 1);
}

Test(meta_extent, a_block_outside_the_chunk_is_our_mistake)
{
	cr_assert(dies_saying(sets_a_block_outside, "at < META_CHUNK_BLOCKS"), "%s", death_said());
}

/* ---- the other records ------------------------------------------------------------- */

Test(meta_extent, keys_of_one_object_stand_together)
{
	const struct meta_handle h = { 0xabcdef012345, 0xffeeddccbb, 0x1122334455 };
	struct meta_key inode = meta__obj_key(&h, META__KIND_INODE, 0);
	struct meta_key extent = meta__obj_key(&h, META__KIND_EXTENT, 12345);
	struct meta_key next = meta__key_next(extent);

	cr_assert_lt(meta__key_cmp(&inode, &extent), 0);
	cr_assert(meta__key_is_obj(&extent, &h, META__KIND_EXTENT));
	cr_assert_not(meta__key_is_obj(&extent, &h, META__KIND_INODE));
	cr_assert_eq(meta__key_index(&next), 12346);
	cr_assert_eq(meta__key_dir(&extent), h.dir);
	cr_assert_eq(meta__key_hash(&extent), h.hash);
	cr_assert_eq(meta__key_uniq(&extent), h.uniq);
	next = meta__key_next((struct meta_key){ { 1, ~0ull, ~0ull } });
	cr_assert_eq(next.w[0], 2);
	cr_assert_eq(next.w[2], 0);
}

static const struct meta_handle handle = { 0x1002, 0xa1b2c3d4e5, 77 };

static void names_and_inodes(uint8_t *all)
{
	const struct meta_key name_key = meta__key(0x1001, 7, META__CLASS_NAME, 8, 0, 0);
	const struct meta__name name = {
		.handle = handle, .type = META_TYPE_DIR, .child = 0x1003, .len = 3, .bytes = "dir"
	};
	const struct meta__inode in = { .handle = handle,
					.type = META_TYPE_FILE,
					.flags = META__INODE_TRIMMING,
					.size = 22,
					.blocks = 33,
					.mtime_ns = -44,
					.ctime_ns = 55,
					.atime_ns = 66,
					.trim_from = 77,
					.mode = 0751,
					.uid = 88,
					.gid = 99,
					.nlink = 1,
					.counted = 0x1002,
					.inline_crc = 0x12345678,
					.inline_len = 5,
					.inline_bytes = "bytes" };
	const struct meta__inode tailed = { .handle = handle,
					    .type = META_TYPE_FILE,
					    .size = 5000,
					    .blocks = 1,
					    .mode = 0640,
					    .flags = META__INODE_LINKED,
					    .nlink = 2,
					    .epoch = 3,
					    .xattrs = 4,
					    .counted = 0x1004,
					    .inline_crc = 0x87654321,
					    .tail_len = 0x388 };
	/* As most are: what they say follows from the key. */
	const struct meta__name usual_name = {
		.handle = handle, .type = META_TYPE_FILE, .len = 4, .bytes = "file"
	};
	const struct meta__inode usual = { .handle = handle,
					   .type = META_TYPE_FILE,
					   .size = 6,
					   .mtime_ns = 11,
					   .ctime_ns = 11,
					   .atime_ns = 11,
					   .mode = 0644,
					   .nlink = 1,
					   .counted = handle.dir,
					   .inline_crc = 0xabcd1234,
					   .inline_len = 6,
					   .inline_bytes = "inline" };
	const struct meta_key usual_key =
		meta__key(handle.dir, handle.hash, META__CLASS_NAME, handle.uniq, 0, 0);

	meta__name_build(&name_key, &name, all);
	meta__inode_build(&in, all + 512);
	meta__inode_build(&tailed, all + 2560);
	meta__name_build(&usual_key, &usual_name, all + 3584);
	meta__inode_build(&usual, all + 4096);
}

/* One of each record, 512 bytes apart; of names and inodes what most are, too. */
Test(meta_extent, records_lie_on_drives_as_they_always_did)
{
	static uint8_t all[9 * 512];
	const struct meta__dir dir = { .count = 8,
				       .subdirs = 7,
				       .mtime_ns = 2,
				       .ctime_ns = 3,
				       .inode = handle,
				       .parent = 4,
				       .own_bytes = 5,
				       .own_blocks = 6,
				       .pending = true };
	const struct meta__orphan orphan = { .handle = handle, .mount_epoch = 9 };
	struct meta_dir_disk dir_disk;
	struct meta_orphan_disk orphan_disk;
	const struct meta__totals totals = { .below = { 1, 2, 3, 4 }, .passed = { 5, 6, 7, 8 } };
	struct meta_totals_disk totals_disk;

	names_and_inodes(all);
	meta__dir_build(&dir, &dir_disk);
	memcpy(all + 1024, &dir_disk, sizeof(dir_disk));
	meta__orphan_build(&orphan, &orphan_disk);
	memcpy(all + 1536, &orphan_disk, sizeof(orphan_disk));
	meta__chunk_init(&c, 0);
	meta__chunk_set(&c, 0, META_BADDR(1, 500), 0xabcdef01);
	meta__chunk_set(&c, 3, META_BADDR(2, 501), 0xabcdef02);
	meta__chunk_build(&c, all + 2048);
	meta__totals_build(&totals, &totals_disk);
	memcpy(all + 3072, &totals_disk, sizeof(totals_disk));
	cr_assert(golden_is("test/golden/meta_records.bin", all, sizeof(all)));
}
