/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A whole store as it was once written, frozen: it must mount, be whole, and return the bytes that
 * were put into it, for ever.  If this fails, stores in the field can no longer be read: the
 * format's version must move, and a new image stand beside this one.
 *
 *   filled, stopped  -->  mounted, changed  -->  power off: trees, and a log to be replayed
 *
 * One is as it was before directories could have parts, one has them, one has two copies of each
 * block besides, one has three, one of each kind has folds, one is getting two copies, and one a
 * third.
 *
 * (WK_GOLDEN_MAKE=1 writes the image if it is not there yet.)
 */
#include "test/lib/golden_image.h"
#include "test/lib/meta_rig.h"
#include "meta/meta_rebuild.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BEFORE_PARTS "test/golden/store-4.img"        /* no directory of it is ever spread */
#define WITH_PARTS   "test/golden/store-4-spread.img" /* /dir is: from 39 names on */
#define WITH_PAIRS   "test/golden/store-4-pairs.img"  /* ... and each block is on two of 3 drives */
#define WITH_FOLDS   "test/golden/store-4-folds.img"  /* ... some of them in folds of two zones */
#define WITH_THREE   "test/golden/store-4-three.img"  /* each block is on three of 4 drives */
#define WITH_DOUBLE  "test/golden/store-4-double.img" /* ... some in folds with two of parity */
#define CONVERTING   "test/golden/store-4-converts.img" /* ... or on one of 2 still */
#define GETS_THIRD   "test/golden/store-4-third.img"    /* ... or on two of 4 still */
#define IMAGE_MAX    (256u << 10)
#define DRIVE_BYTES  (2u << 20)
#define FILES        40u
/* Of /dir: f05 is gone, f04 has two blocks, sub2 the deep file's two. */
#define TOTAL_BLOCKS (FILES / 4 * (0 + 1 + 2 + 3) - 1 + 2 + 2)
#define TOTAL_BYTES  (TOTAL_BLOCKS * 4096ull + (FILES / 4 - 1) * 8)

static struct rig r;
static const char *image;
static char longest[META_NAME_MAX + 2]; /* "/" and a name of 255 bytes */
static char long_text[900];             /* of a symlink; does not fit into its inode */
static uint8_t tail[700];
static uint32_t gets_copies; /* for the image that is made: it converts; 0: it does not */

static void setup(void)
{
	rig_make(&r, 5, 2, DRIVE_BYTES, 4, true);
	memset(longest, 'n', sizeof(longest) - 1);
	longest[0] = '/';
	memset(long_text, 't', sizeof(long_text) - 1);
	for (uint32_t i = 0; i < sizeof(tail); i++)
		tail[i] = (uint8_t)(i * 3 + 1);
}

static void make_pairs(uint32_t drives)
{
	rig_make(&r, 5, drives, DRIVE_BYTES, 4, true);
	r.conf.copies = 2;
	r.copied = true;
}

/* After the suite's: ... of two copies. */
static void setup_pairs(void)
{
	rig_end(&r);
	make_pairs(3);
}

/* After the suite's: ... whose pairs become folds. */
static void setup_folds(void)
{
	setup_pairs();
	r.conf.fold = 2;
}

/* After the suite's: ... of three copies. */
static void setup_three(void)
{
	rig_end(&r);
	rig_make(&r, 5, 4, DRIVE_BYTES, 4, true);
	r.conf.copies = 3;
	r.copied = true;
}

/* After the suite's: ... whose groups become folds. */
static void setup_double(void)
{
	setup_three();
	r.conf.fold = 2;
}

/* After the suite's: ... that gets a second copy of each block. */
static void setup_converting(void)
{
	gets_copies = 2;
}

/* After the suite's: ... of two copies, that gets a third one. */
static void setup_third(void)
{
	rig_end(&r);
	make_pairs(4);
	gets_copies = 3;
}

static void teardown(void)
{
	rig_end(&r);
}

TestSuite(meta_golden, .init = setup, .fini = teardown, .timeout = 60);

static struct meta_target at(const char *path)
{
	return (struct meta_target){ .path = path, .path_len = (uint32_t)strlen(path) };
}

static void run(struct meta_op *op)
{
	op->wall_ns = 77;
	cr_assert_eq(rig_run(&r, op), 0, "%d", op->status);
}

/* ---- how it was made ----------------------------------------------------------------------- */

static void symlink_to(const char *path, char *text)
{
	struct meta_op op = { .type = META_OP_SYMLINK,
			      .target = at(path),
			      .inline_buf = text,
			      .length = strlen(text) };

	run(&op);
}

static void rename_to(const char *from, const char *to)
{
	struct meta_op op = { .type = META_OP_RENAME, .target = at(from), .other = at(to) };

	run(&op);
}

static void link_to(const char *from, const char *to)
{
	struct meta_op op = { .type = META_OP_LINK, .target = at(from), .other = at(to) };

	run(&op);
}

static struct meta_attr stat_of(const char *path)
{
	struct meta_op op = { .type = META_OP_STAT, .target = at(path) };

	run(&op);
	return op.attr;
}

/* A hole of a chunk and a block, then a tail. */
static void write_tail(const char *path, uint64_t offset)
{
	struct meta_op op = { .type = META_OP_WRITE,
			      .flags = META_BY_INLINE,
			      .offset = offset,
			      .size = offset + sizeof(tail),
			      .inline_buf = tail,
			      .inline_len = sizeof(tail) };

	op.target.handle = stat_of(path).handle;
	run(&op);
}

static void set_mode(const char *path)
{
	struct meta_op op = { .type = META_OP_SETATTR,
			      .target = at(path),
			      .set_mask =
				      META_SET_MODE | META_SET_UID | META_SET_GID | META_SET_MTIME,
			      .set = { .mode = 0640, .uid = 12, .gid = 34, .mtime_ns = 5678 } };

	run(&op);
}

static void put_hidden(void)
{
	struct meta_op op = { .type = META_OP_PUT_BEGIN, .target = at("/hidden") };

	run(&op);
}

static void name_of(char path[32], uint32_t i)
{
	(void)snprintf(path, 32, "/dir/f%02u", i);
}

static void fill(void)
{
	char path[32];

	cr_assert_eq(rig_mkdir(&r, "/dir"), 0);
	cr_assert_eq(rig_mkdir(&r, "/dir/sub"), 0);
	cr_assert_eq(rig_mkdir(&r, "/empty"), 0);
	for (uint32_t i = 0; i < FILES; i++) {
		name_of(path, i);
		cr_assert_eq(rig_put(&r, path, i % 4, 1000 + i), 0);
	}
	cr_assert_eq(rig_put(&r, "/dir/sub/deep", 2, 5), 0);
	cr_assert_eq(rig_put(&r, longest, 1, 6), 0);
	cr_assert_eq(rig_put(&r, "/holes", 1, 7), 0);
	write_tail("/holes", (META_CHUNK_BLOCKS + 1) * 4096);
	symlink_to("/link", "dir/f01");
	symlink_to("/long link", long_text);
	set_mode("/dir/f02");
	rename_to("/dir/f03", "/dir/sub/was f03");
	link_to("/dir/f06", "/empty/f06 too");
	put_hidden();
}

static void change(void)
{
	cr_assert_eq(rig_put(&r, "/late", 3, 8), 0);
	cr_assert_eq(rig_put(&r, "/dir/f04", 2, 9), 0); /* in place of another */
	cr_assert_eq(rig_unlink(&r, "/dir/f05"), 0);
	rename_to("/dir/sub", "/dir/sub2");
}

/* It begins, and moves no file's block. */
static void protect(void)
{
	struct meta_op op = { .type = META_OP_DRIVE, .flags = META_PROTECT };

	op.offset = gets_copies;
	meta_rebuild_pace(r.m, 1, 0);
	run(&op);
}

static void make(void)
{
	r.conf.spread_at = 39;
	cr_assert_eq(rig_format(&r), 0);
	fill();
	meta_totals_round(r.m);
	rig_idle(&r);
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0);
	if (gets_copies)
		protect();
	change();
	rig_idle(&r); /* all that was acknowledged, and the log has vouched for it */
	rig_power_cut(&r);
	cr_assert_eq(golden_image_save(image, r.image, r.ndrives, DRIVE_BYTES), 0);
}

/* ---- what it is ------------------------------------------------------------------------------ */

static void has(const char *path, uint32_t blocks, uint64_t fill_is)
{
	uint32_t nblocks;
	uint64_t filled;

	cr_assert_eq(rig_get(&r, path, &nblocks, &filled), 0, "%s", path);
	cr_assert_eq(nblocks, blocks, "%s", path);
	cr_assert_eq(filled, fill_is, "%s", path);
}

static void has_not(const char *path)
{
	struct meta_op op = { .type = META_OP_STAT, .target = at(path) };

	cr_assert_eq(rig_run(&r, &op), -ENOENT, "%s", path);
}

static void links_to(const char *path, const char *text)
{
	static char buf[META_PATH_MAX + 1];
	struct meta_op op = { .type = META_OP_READLINK, .target = at(path), .inline_buf = buf };

	run(&op);
	cr_assert_eq(op.length, strlen(text), "%s", path);
	cr_assert_arr_eq(buf, text, strlen(text), "%s", path);
}

static void has_tail(const char *path, uint64_t offset)
{
	static struct meta_run runs[128];
	static uint32_t crcs[META_IO_BLOCKS_MAX];
	static uint8_t buf[4096];
	struct meta_op op = { .type = META_OP_READ,
			      .target = at(path),
			      .offset = offset,
			      .length = 4096,
			      .runs = runs,
			      .crcs = crcs,
			      .runs_max = 128,
			      .blocks_max = 1,
			      .inline_buf = buf };

	run(&op);
	meta_read_end(r.m, &op);
	cr_assert_eq(op.attr.size, offset + sizeof(tail));
	cr_assert_eq(op.tail_offset, offset);
	cr_assert_eq(op.inline_len, sizeof(tail));
	cr_assert_arr_eq(buf, tail, sizeof(tail));
}

static void list_counts(const char *path, uint32_t count)
{
	static _Alignas(8) char out[65536];
	struct meta_op op = { .type = META_OP_LIST,
			      .target = at(path),
			      .list_out = out,
			      .list_max_bytes = sizeof(out),
			      .list_max_entries = 1000 };

	run(&op);
	cr_assert_eq(op.list_count, count, "%s: %u", path, op.list_count);
}

static void is_what_it_was(void)
{
	struct meta_attr a;
	char path[32];

	for (uint32_t i = 0; i < FILES; i++) {
		name_of(path, i);
		if (i == 3 || i == 5)
			has_not(path);
		else if (i == 4)
			has(path, 2, 9);
		else
			has(path, i % 4, 1000 + i);
	}
	has("/dir/sub2/deep", 2, 5);
	has("/dir/sub2/was f03", 3, 1003);
	has(longest, 1, 6);
	has("/late", 3, 8);
	has_not("/hidden");
	has_not("/dir/sub");
	has_tail("/holes", (META_CHUNK_BLOCKS + 1) * 4096);
	links_to("/link", "dir/f01");
	links_to("/long link", long_text);
	a = stat_of("/dir/f02");
	cr_assert_eq(a.mode, 0640);
	cr_assert_eq(a.uid, 12);
	cr_assert_eq(a.gid, 34);
	cr_assert_eq(a.mtime_ns, 5678);
	list_counts("/", 7);
	list_counts("/dir", FILES - 2 + 1);
	list_counts("/dir/sub2", 2);
	list_counts("/empty", 1);
	has("/empty/f06 too", 2, 1006);
}

/* Totals that were passed up before the cut, and those that were to be. */
static void totals_are(void)
{
	struct meta_totals t;
	struct meta_op op = { .type = META_OP_TOTALS, .target = at("/dir"), .totals = &t };

	run(&op);
	cr_assert_not(t.settled);
	meta_totals_round(r.m);
	rig_idle(&r);
	run(&op);
	cr_assert(t.settled);
	cr_assert_eq(t.entries, FILES - 2 + 1 + 2);
	cr_assert_eq(t.dirs, 1);
	cr_assert_eq(t.bytes, TOTAL_BYTES);
	cr_assert_eq(t.blocks, TOTAL_BLOCKS);
	op.target = at("/empty");
	run(&op);
	cr_assert_eq(t.entries, 1);
	cr_assert_eq(t.bytes, 0); /* counted where it was born */
}

static void load(const char *path)
{
	struct stat st;

	image = path;
	if (stat(image, &st) && getenv("WK_GOLDEN_MAKE"))
		make();
	cr_assert_eq(stat(image, &st), 0, "%s", image);
	cr_assert_lt(st.st_size, IMAGE_MAX);
	cr_assert_eq(golden_image_load(image, r.image, r.ndrives, DRIVE_BYTES), 0);
	for (uint32_t d = 0; d < r.ndrives; d++)
		memcpy(r.view[d], r.image[d], DRIVE_BYTES);
	r.conf.copies = r.conf.fold = 0;
	r.conf.secret = 0; /* what a mount needs to know is on the drives */
	memset(r.conf.uuid, 0, sizeof(r.conf.uuid));
}

static void mounts_and_reads(const char *path)
{
	struct meta_check found;

	load(path);
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	cr_assert_str_eq(meta_error(r.m), "");
	is_what_it_was();
	cr_assert_eq(rig_check(&r, &found), 0, "%s", found.first[0]);
	cr_assert_eq(found.names, 49);
	cr_assert_eq(found.inodes, 49); /* and the root's */
	totals_are();
	cr_assert_eq(rig_check(&r, &found), 0, "%s", found.first[0]);
}

Test(meta_golden, store_of_version_4_mounts_is_whole_and_reads_as_what_was_written)
{
	mounts_and_reads(BEFORE_PARTS);
	cr_assert_eq(r.m->spread_at, 0);
}

Test(meta_golden, store_with_parts_mounts_is_whole_and_reads_as_what_was_written)
{
	mounts_and_reads(WITH_PARTS);
	cr_assert_neq(r.m->spread_at, 0);
}

Test(meta_golden, store_of_two_copies_mounts_is_whole_and_reads_as_what_was_written,
     .init = setup_pairs)
{
	mounts_and_reads(WITH_PAIRS);
	cr_assert_eq(r.m->copies, 2);
}

Test(meta_golden, store_with_folds_mounts_is_whole_and_reads_as_what_was_written,
     .init = setup_folds)
{
	mounts_and_reads(WITH_FOLDS);
	cr_assert_eq(r.m->fold, 2);
	cr_assert_gt(r.m->zones->folds, 0);
	cr_assert_eq(rig_wrong_folds(&r), 0);
}

Test(meta_golden, store_with_folds_reads_the_same_without_any_one_drive, .init = setup_folds)
{
	struct meta_check found;

	for (uint32_t d = 0; d < 3; d++) {
		load(WITH_FOLDS);
		r.conf.drive[d].nblocks = 0;
		cr_assert_eq(rig_mount(&r), 0, "drive %u: %s", d, meta_error(r.m));
		is_what_it_was();
		cr_assert_eq(rig_check(&r, &found), 0, "%s", found.first[0]);
		rig_end(&r);
		make_pairs(3);
	}
}

Test(meta_golden, store_of_three_copies_mounts_is_whole_and_reads_as_what_was_written,
     .init = setup_three)
{
	mounts_and_reads(WITH_THREE);
	cr_assert_eq(r.m->copies, 3);
	cr_assert_eq(rig_thin_zones(&r), 0);
}

/* Any two drives are missing.  Returns how many pairs of drives were. */
static uint32_t two_are_missing(const char *path)
{
	uint32_t pairs = 0;

	for (uint32_t d = 0; d < 4; d++)
		for (uint32_t other = d + 1; other < 4; other++) {
			struct meta_check found;

			load(path);
			r.conf.drive[d].nblocks = r.conf.drive[other].nblocks = 0;
			r.conf.drive[d].missing = r.conf.drive[other].missing = true;
			cr_assert_eq(rig_mount(&r), 0, "drives %u, %u: %s", d, other,
				     meta_error(r.m));
			is_what_it_was();
			cr_assert_eq(rig_check(&r, &found), 0, "%s", found.first[0]);
			setup_three();
			pairs++;
		}
	return pairs;
}

Test(meta_golden, store_of_three_copies_reads_the_same_without_any_two_drives, .init = setup_three)
{
	cr_assert_eq(two_are_missing(WITH_THREE), 6);
}

Test(meta_golden, store_with_two_of_parity_mounts_is_whole_and_reads_as_what_was_written,
     .init = setup_double)
{
	mounts_and_reads(WITH_DOUBLE);
	cr_assert(r.m->copies == 3 && r.m->fold == 2);
	cr_assert_gt(r.m->zones->folds, 0);
	cr_assert_eq(rig_wrong_folds(&r), 0);
}

Test(meta_golden, store_with_two_of_parity_reads_the_same_without_any_two_drives,
     .init = setup_double)
{
	cr_assert_eq(two_are_missing(WITH_DOUBLE), 6);
}

/* It goes on where it was, and then a drive may be lost. */
Test(meta_golden, store_that_was_getting_second_copies_goes_on_and_reads_the_same,
     .init = setup_converting)
{
	struct meta_check found;

	load(CONVERTING);
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	cr_assert_str_eq(meta_error(r.m), "");
	cr_assert(r.m->copies == 2 && r.m->converts);
	is_what_it_was();
	for (uint32_t turns = 0; turns < 300 && r.m->converts; turns++)
		rig_idle(&r);
	cr_assert(!r.m->converts);
	cr_assert_eq(rig_thin_zones(&r), 0);
	cr_assert_eq(rig_check(&r, &found), 0, "%s", found.first[0]);
	is_what_it_was();
	totals_are();
	r.copied = true;
	r.dead = 1u << 1;
	cr_assert(meta_drive_failed(r.m, 1));
	is_what_it_was();
}

/* ... and then two may be lost. */
Test(meta_golden, store_that_was_getting_third_copies_goes_on_and_reads_the_same,
     .init = setup_third)
{
	struct meta_check found;

	load(GETS_THIRD);
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	cr_assert_str_eq(meta_error(r.m), "");
	cr_assert(r.m->copies == 3 && r.m->converts == 2);
	is_what_it_was();
	for (uint32_t turns = 0; turns < 300 && r.m->converts; turns++)
		rig_idle(&r);
	cr_assert(!r.m->converts);
	cr_assert_eq(rig_thin_zones(&r), 0);
	cr_assert_eq(rig_check(&r, &found), 0, "%s", found.first[0]);
	totals_are();
	for (uint32_t d = 0; d < 2; d++) {
		r.dead |= 1u << d;
		cr_assert(meta_drive_failed(r.m, d));
		rig_idle(&r);
		is_what_it_was();
	}
}

/* Without a drive its other copy is read while it converts. */
Test(meta_golden, store_that_was_getting_third_copies_reads_the_same_without_any_one_drive,
     .init = setup_third)
{
	for (uint32_t d = 0; d < 4; d++) {
		load(GETS_THIRD);
		r.conf.drive[d].nblocks = 0;
		cr_assert_eq(rig_mount(&r), 0, "drive %u: %s", d, meta_error(r.m));
		is_what_it_was();
		rig_end(&r);
		make_pairs(4);
	}
}

/* Whichever it is, and all that it had is on the two others. */
Test(meta_golden, store_of_two_copies_reads_the_same_without_any_one_drive, .init = setup_pairs)
{
	struct meta_check found;

	for (uint32_t d = 0; d < 3; d++) {
		load(WITH_PAIRS);
		r.conf.drive[d].nblocks = 0;
		cr_assert_eq(rig_mount(&r), 0, "drive %u: %s", d, meta_error(r.m));
		is_what_it_was();
		cr_assert_eq(rig_check(&r, &found), 0, "%s", found.first[0]);
		rig_end(&r);
		make_pairs(3);
	}
}

static void can_be_changed(const char *path)
{
	struct meta_check found;

	load(path);
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	cr_assert_eq(rig_put(&r, "/new", 2, 10), 0);
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	has("/new", 2, 10);
	has("/dir/f01", 1, 1001);
	cr_assert_eq(rig_check(&r, &found), 0, "%s", found.first[0]);
}

Test(meta_golden, it_can_be_changed_and_stopped_and_is_still_one)
{
	can_be_changed(BEFORE_PARTS);
	cr_assert_eq(r.m->copies, 1);
}

Test(meta_golden, one_with_parts_can_be_changed_and_stopped_and_is_still_one)
{
	can_be_changed(WITH_PARTS);
	cr_assert_eq(r.m->copies, 1);
}

Test(meta_golden, one_of_two_copies_can_be_changed_and_stopped_and_is_still_one,
     .init = setup_pairs)
{
	can_be_changed(WITH_PAIRS);
	cr_assert_eq(r.m->copies, 2);
}

Test(meta_golden, image_is_refused_when_its_superblocks_say_another_version)
{
	load(WITH_PARTS);
	for (uint32_t d = 0; d < 2; d++)
		for (uint32_t copy = 0; copy < 2; copy++) {
			uint8_t *p = r.view[d] + (copy ? DRIVE_BYTES - 4096 : 0);
			uint32_t crc;

			p[12]++;
			memset(p + 8, 0, 4);
			crc = crc32c(p, 4096);
			memcpy(p + 8, &crc, 4);
		}
	cr_assert_eq(rig_mount(&r), -EPROTONOSUPPORT);
}
