/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "meta/plans/meta_plan.h"
#include "test/lib/meta_shell.h"
#include "test/unit/meta_tx_fake.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct meta_world *w;
static struct meta_attr a, b;
static uint8_t big[5 << 20], back[5 << 20];

static void setup(void)
{
	w = meta_world_fake(13, 10, 5);
	for (uint32_t i = 0; i < sizeof(big); i++)
		big[i] = (uint8_t)(i * 7 + i / 4096);
}

static void teardown(void)
{
	cr_assert_eq(meta_fake_pending(w), 0);
	w->end(w);
}

TestSuite(meta_put, .init = setup, .fini = teardown);

static void expect(const char *path, uint64_t size)
{
	memset(back, 0xee, size);
	cr_assert_eq(sh_read(w, path, back, sizeof(back)), (int64_t)size);
	cr_assert_eq(memcmp(back, big, size), 0);
}

Test(meta_put, files_of_all_sizes_come_back)
{
	static const uint32_t sizes[] = { 0,    1,      511,    512,    513,     4095,    4096,
					  4097, 524287, 524288, 524289, 3000000, 4u << 20 };

	for (uint32_t i = 0; i < ARRAY_LEN(sizes); i++) {
		cr_assert_eq(sh_put(w, "f", 0, big, sizes[i]), 0);
		expect("f", sizes[i]);
		cr_assert_eq(sh_stat(w, "f", 0, &a), 0);
		cr_assert_eq(a.blocks, sizes[i] <= META_INLINE_MAX ? 0 : div_up(sizes[i], 4096));
	}
}

Test(meta_put, more_than_4_mib_at_once_is_refused_and_its_blocks_are_dead)
{
	cr_assert_eq(sh_put(w, "f", 0, big, (4u << 20) + 1), -EINVAL);
	cr_assert_eq(sh_stat(w, "f", 0, &a), -ENOENT);
	cr_assert_eq(meta_fake_live(w), 0);
}

Test(meta_put, a_replaced_file_is_gone_and_its_blocks_are_free)
{
	cr_assert_eq(sh_put(w, "f", 0, big, 100000), 0);
	cr_assert_eq(sh_stat(w, "f", 0, &a), 0);
	cr_assert_eq(sh_put(w, "f", 0, big, 5000), 0);
	cr_assert_eq(sh_stat(w, "f", 0, &b), 0);
	cr_assert_neq(a.ino, b.ino);
	cr_assert_eq(sh_stat_handle(w, &a.handle, &a), -ESTALE);
	cr_assert_eq(meta_fake_live(w), 2);
	cr_assert_eq(sh_unlink(w, "f"), 0);
	cr_assert_eq(meta_fake_live(w), 0);
}

Test(meta_put, flags_say_whether_the_name_may_be_there)
{
	cr_assert_eq(sh_put(w, "f", META_MUST_EXIST, big, 5), -ENOENT);
	cr_assert_eq(sh_put(w, "f", META_EXCL, big, 5), 0);
	cr_assert_eq(sh_put(w, "f", META_EXCL, big, 9000), -EEXIST);
	cr_assert_eq(sh_put(w, "f", META_MUST_EXIST, big, 9000), 0);
	cr_assert_eq(sh_symlink(w, "nowhere", "s"), 0);
	cr_assert_eq(sh_put(w, "s", META_EXCL, big, 5), -EEXIST);
	cr_assert_eq(sh_put(w, "s", 0, big, 5), 0); /* through it */
	cr_assert_eq(sh_stat(w, "nowhere", META_NOFOLLOW, &a), 0);
	cr_assert_eq(a.type, META_TYPE_FILE);
	cr_assert_eq(sh_put(w, "s", META_NOFOLLOW, big, 6), 0); /* in its place */
	cr_assert_eq(sh_stat(w, "s", META_NOFOLLOW, &a), 0);
	cr_assert_eq(a.type, META_TYPE_FILE);
	cr_assert_eq(a.size, 6);
	cr_assert_eq(sh_mkdir(w, "d"), 0);
	cr_assert_eq(sh_put(w, "d", 0, big, 5), -EISDIR);
	cr_assert_eq(sh_put(w, "f/", 0, big, 5), -ENOTDIR);
	cr_assert_eq(sh_put(w, "no/f", 0, big, 70000), -ENOENT);
}

Test(meta_put, mode_and_times_are_part_of_it_and_a_replaced_file_keeps_the_rest)
{
	struct meta_op op = sh_op(META_OP_PUT, "f");

	op.flags = META_BY_INLINE;
	op.set_mask = META_SET_MODE | META_SET_UID | META_SET_MTIME;
	op.set = (struct meta_attr){ .mode = 0600, .uid = 7, .gid = 8, .mtime_ns = 99 };
	cr_assert_eq(meta_world_run(w, &op), 0);
	cr_assert_eq(sh_stat(w, "f", 0, &a), 0);
	cr_assert_eq(a.mode, 0600);
	cr_assert_eq(a.uid, 7);
	cr_assert_eq(a.gid, 0);
	cr_assert_eq(a.mtime_ns, 99);
	cr_assert_eq(a.nlink, 1);
	cr_assert_eq(sh_put(w, "f", 0, big, 5), 0);
	cr_assert_eq(sh_stat(w, "f", 0, &b), 0);
	cr_assert_eq(b.mode, 0600);
	cr_assert_eq(b.uid, 7);
	cr_assert_gt(b.mtime_ns, 99);
}

Test(meta_put, runs_that_do_not_make_the_size_are_refused)
{
	struct meta_run run[2];
	uint32_t crc[8], nruns;
	struct meta_op op = sh_op(META_OP_PUT, "f");

	cr_assert_eq(meta_world_data(w, big, 3 * 4096, run, &nruns, crc), 0);
	op.runs = run;
	op.crcs = crc;
	op.nruns = nruns;
	op.size = 4 * 4096;
	cr_assert_eq(meta_world_run(w, &op), -EINVAL);
	cr_assert_eq(meta_fake_pending(w), 0);         /* they are the store's again */
	cr_assert_eq(meta_world_run(w, &op), -EINVAL); /* not ours any more, and no harm */
	op.nruns = 0;
	cr_assert_eq(meta_world_run(w, &op), -EINVAL);
	op.flags = META_BY_INLINE;
	op.inline_len = META_INLINE_MAX + 1;
	op.size = op.inline_len;
	cr_assert_eq(meta_world_run(w, &op), -EINVAL);
}

Test(meta_put, a_full_store_refuses_puts_and_still_deletes)
{
	cr_assert_eq(sh_put(w, "f", 0, big, 9000), 0);
	meta_fake_space(w, -ENOSPC);
	cr_assert_eq(sh_put(w, "g", 0, big, 9000), -ENOSPC);
	cr_assert_eq(sh_mkdir(w, "d"), -ENOSPC);
	cr_assert_eq(sh_rename(w, "f", "h", 0), 0);
	cr_assert_eq(sh_stat(w, "h", 0, &a), 0);
	cr_assert_eq(sh_truncate(w, &a.handle, 4096), 0);
	cr_assert_eq(sh_unlink(w, "h"), 0);
	cr_assert_eq(meta_fake_live(w), 0);
}

Test(meta_put, runs_may_be_holes)
{
	struct meta_run run[3];
	uint32_t crc[8] = { 0 }, nruns;
	struct meta_op op = sh_op(META_OP_PUT, "f");

	cr_assert_eq(meta_world_data(w, big, 2 * 4096, run, &nruns, crc + 3), 0);
	cr_assert_eq(nruns, 1);
	run[1] = run[0];
	run[0] = (struct meta_run){ 0, 3 };
	run[2] = (struct meta_run){ 0, 1 };
	op.runs = run;
	op.crcs = crc;
	op.nruns = 3;
	op.size = 6 * 4096;
	cr_assert_eq(meta_world_run(w, &op), 0);
	cr_assert_eq(sh_read(w, "f", back, sizeof(back)), 6 * 4096);
	for (uint32_t i = 0; i < 4096; i++) {
		cr_assert_eq(back[i], 0);
		cr_assert_eq(back[5 * 4096 + i], 0);
	}
	cr_assert_eq(memcmp(back + 3 * 4096, big, 2 * 4096), 0);
	cr_assert_eq(sh_stat(w, "f", 0, &a), 0);
	cr_assert_eq(a.blocks, 2);
	op = sh_op(META_OP_WRITE, NULL); /* a hole over blocks takes them away */
	op.target.handle = a.handle;
	op.runs = run;
	op.crcs = crc;
	op.nruns = 1;
	op.offset = 2 * 4096;
	cr_assert_eq(meta_world_run(w, &op), 0);
	cr_assert_eq(op.attr.blocks, 0);
	cr_assert_eq(meta_fake_live(w), 0);
	cr_assert_eq(sh_read(w, "f", back, sizeof(back)), 6 * 4096);
	cr_assert_eq(back[3 * 4096], 0);
}

/* ---- in pieces ------------------------------------------------------------------------- */

static struct meta_handle h;

static void begin_with(const char *path, uint64_t size)
{
	cr_assert_eq(sh_put_begin(w, path, &h), 0);
	for (uint64_t at = 0; at < size; at += 1u << 20) {
		const uint64_t n = min_u64(size - at, 1u << 20);

		cr_assert_eq(sh_write(w, &h, at, big + at, n, at + n), 0);
	}
}

Test(meta_put, a_long_put_has_no_name_before_its_commit)
{
	begin_with("f", 4500000);
	cr_assert_eq(sh_stat(w, "f", 0, &a), -ENOENT);
	cr_assert_eq(sh_count(w, "/", 0), 0);
	cr_assert_eq(sh_put(w, "f", 0, big, 10), 0);
	cr_assert_eq(sh_put_commit(w, &h, "f"), 0);
	expect("f", 4500000);
	cr_assert_eq(sh_count(w, "/", 0), 1);
	cr_assert_eq(sh_put_commit(w, &h, "g"), -EINVAL); /* no longer hidden */
	cr_assert_eq(sh_put_abort(w, &h), -EINVAL);
	meta_world_settle(w);
	expect("f", 4500000);
}

/* They would be there until the commit, which sets those that came with the beginning. */
Test(meta_put, attributes_of_a_put_in_progress_are_those_it_began_with)
{
	struct meta_op op = sh_op(META_OP_SETATTR, NULL);

	begin_with("f", 10);
	cr_assert_eq(sh_stat_handle(w, &h, &a), 0);
	op.target = (struct meta_target){ .handle = h };
	op.set_mask = META_SET_MODE;
	op.set.mode = 0123;
	cr_assert_eq(meta_world_run(w, &op), -EINVAL);
	cr_assert_eq(sh_put_commit(w, &h, "f"), 0);
	cr_assert_eq(meta_world_run(w, &op), 0);
	cr_assert_eq(op.attr.mode, 0123);
}

Test(meta_put, the_background_leaves_a_put_in_progress_alone)
{
	begin_with("f", 700000);
	meta_world_settle(w);
	cr_assert_eq(sh_stat_handle(w, &h, &a), 0);
	cr_assert_eq(a.size, 700000);
	cr_assert_eq(sh_put_commit(w, &h, "f"), 0);
	expect("f", 700000);
}

Test(meta_put, an_aborted_put_leaves_nothing)
{
	const uint64_t before = meta_fake_records(w);

	begin_with("f", 4500000);
	cr_assert_eq(sh_put_abort(w, &h), 0);
	cr_assert_eq(sh_stat_handle(w, &h, &a), -ESTALE);
	meta_world_settle(w);
	cr_assert_eq(meta_fake_live(w), 0);
	cr_assert_eq(meta_fake_records(w), before);
}

Test(meta_put, a_put_that_a_mount_interrupts_is_freed)
{
	const uint64_t before = meta_fake_records(w);

	begin_with("f", 4500000);
	begin_with("g", 100);
	w->remount(w);
	meta_world_settle(w);
	cr_assert_eq(meta_fake_live(w), 0);
	cr_assert_eq(meta_fake_records(w), before);
	cr_assert_eq(sh_put_commit(w, &h, "f"), -ESTALE);
}

Test(meta_put, a_commit_into_a_directory_that_went_fails_and_can_be_aborted)
{
	const uint64_t before = meta_fake_records(w);

	cr_assert_eq(sh_mkdir(w, "d"), 0);
	begin_with("d/f", 9000);
	cr_assert_eq(sh_rmdir(w, "d"), 0);
	cr_assert_eq(sh_put_commit(w, &h, "d/f"), -ENOENT);
	cr_assert_eq(sh_put_commit(w, &h, "elsewhere"), 0);
	expect("elsewhere", 9000);
	cr_assert_eq(sh_unlink(w, "elsewhere"), 0);
	cr_assert_eq(meta_fake_records(w), before);
}
