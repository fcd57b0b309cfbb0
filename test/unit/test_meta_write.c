/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "meta/plans/meta_plan.h"
#include "test/lib/meta_shell.h"
#include "test/unit/meta_tx_fake.h"

#include <criterion/criterion.h>
#include <string.h>

static struct meta_world *w;
static struct meta_attr a;
static struct meta_handle h;
static uint8_t bytes[1 << 20], back[2 << 20];

static void setup(void)
{
	w = meta_world_fake(16, 10, 5);
	for (uint32_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 13 + i / 4096);
}

static void teardown(void)
{
	cr_assert_eq(meta_fake_pending(w), 0);
	w->end(w);
}

TestSuite(meta_write, .init = setup, .fini = teardown);

static void put(uint64_t size)
{
	cr_assert_eq(sh_put(w, "f", 0, bytes, size), 0);
	cr_assert_eq(sh_stat(w, "f", 0, &a), 0);
	h = a.handle;
}

/* The file's bytes are those of `bytes`, then zeros to its size. */
static void expect(uint64_t known, uint64_t size)
{
	cr_assert_eq(sh_read(w, "f", back, sizeof(back)), (int64_t)size);
	cr_assert_eq(memcmp(back, bytes, known), 0);
	for (uint64_t i = known; i < size; i++)
		cr_assert_eq(back[i], 0, "byte %llu", (unsigned long long)i);
}

/* ---- inline ------------------------------------------------------------------------------ */

static int write_inline(uint32_t len, uint64_t size)
{
	struct meta_op op = sh_op(META_OP_WRITE, NULL);

	op.target.handle = h;
	op.flags = META_BY_INLINE;
	op.inline_buf = bytes;
	op.inline_len = len;
	op.size = size;
	return meta_world_run(w, &op);
}

static int truncate_inline(uint32_t len, uint64_t size)
{
	struct meta_op op = sh_op(META_OP_TRUNCATE, NULL);

	op.target.handle = h;
	op.flags = META_BY_INLINE;
	op.inline_buf = bytes;
	op.inline_len = len;
	op.size = size;
	return meta_world_run(w, &op);
}

Test(meta_write, a_small_file_grows_in_its_record)
{
	const uint64_t before = meta_fake_records(w);

	put(0);
	cr_assert_eq(write_inline(5, 0), 0);
	expect(5, 5);
	cr_assert_eq(write_inline(512, 0), 0);
	expect(512, 512);
	cr_assert_eq(write_inline(511, 0), -EINVAL); /* would lose one */
	cr_assert_eq(write_inline(0, 0), -EINVAL);
	cr_assert_eq(write_inline(4096, 0), -EINVAL); /* a block */
	cr_assert_eq(write_inline(512, 9000), 0);
	expect(512, 9000);
	cr_assert_eq(meta_fake_records(w), before + 2);
}

Test(meta_write, inline_bytes_take_the_place_of_a_block)
{
	put(5000);
	cr_assert_eq(write_inline(512, 0), 0);
	memset(bytes + 512, 0, 4096 - 512);
	expect(5000, 5000);
	cr_assert_eq(meta_fake_live(w), 1);
	cr_assert_eq(sh_truncate(w, &h, 0), 0);
	cr_assert_eq(write_inline(7, 0), 0);
	expect(7, 7);
}

Test(meta_write, inline_bytes_stay_beside_blocks_and_become_one)
{
	put(100);
	cr_assert_eq(sh_write(w, &h, 4096, bytes + 4096, 4096, 8192), 0);
	memset(bytes + 100, 0, 3996);
	expect(8192, 8192);
	cr_assert_eq(meta_fake_live(w), 1);
	cr_assert_eq(sh_write(w, &h, 0, bytes, 8192, 8192), 0);
	expect(8192, 8192);
	cr_assert_eq(meta_fake_live(w), 2);
}

Test(meta_write, an_inline_file_is_cut_and_grown_by_its_size_alone)
{
	put(300);
	cr_assert_eq(sh_truncate(w, &h, 100), 0);
	cr_assert_eq(sh_truncate(w, &h, 20000), 0);
	expect(100, 20000);
	cr_assert_eq(sh_truncate(w, &h, 10000), 0);
	expect(100, 10000);
	cr_assert_eq(meta_fake_live(w), 0);
}

Test(meta_write, a_file_cut_to_a_few_bytes_moves_into_its_record)
{
	put(600000);
	cr_assert_eq(truncate_inline(99, 100), -EINVAL);
	cr_assert_eq(truncate_inline(100, 100), 0);
	expect(100, 100);
	meta_world_settle(w);
	cr_assert_eq(meta_fake_live(w), 0);
}

/* ---- blocks ------------------------------------------------------------------------------- */

Test(meta_write, blocks_are_replaced_anywhere_and_the_file_grows_over_holes)
{
	put(20000);
	cr_assert_eq(sh_write(w, &h, 4096, bytes + 4096, 4096, 0), 0);
	expect(20000, 20000);
	cr_assert_eq(meta_fake_live(w), 5);
	cr_assert_eq(sh_write(w, &h, 1u << 20, bytes, 100, (1u << 20) + 100), 0);
	cr_assert_eq(sh_read(w, "f", back, sizeof(back)), (1 << 20) + 100);
	cr_assert_eq(memcmp(back, bytes, 20000), 0);
	cr_assert_eq(back[20000], 0);
	cr_assert_eq(back[(1 << 20) - 1], 0);
	cr_assert_eq(memcmp(back + (1 << 20), bytes, 100), 0);
	cr_assert_eq(sh_stat(w, "f", 0, &a), 0);
	cr_assert_eq(a.blocks, 6);
}

Test(meta_write, what_cannot_be_is_refused_and_its_blocks_are_dead)
{
	cr_assert_eq(sh_mkdir(w, "d"), 0);
	cr_assert_eq(sh_symlink(w, "f", "s"), 0);
	put(20000);
	cr_assert_eq(sh_write(w, &h, 5, bytes, 4096, 0), -EINVAL);
	cr_assert_eq(sh_write(w, &h, 20480, bytes, 4096, 20480), -EINVAL); /* behind the size */
	cr_assert_eq(sh_write(w, &h, 0, bytes, 0, 0), -EINVAL);
	cr_assert_eq(sh_write(w, &h, META__FILE_BYTES_MAX, bytes, 4096, META__FILE_BYTES_MAX),
		     -EFBIG);
	cr_assert_eq(sh_write(w, &h, 0, bytes, 4096, META__FILE_BYTES_MAX + 1), -EFBIG);
	cr_assert_eq(sh_truncate(w, &h, META__FILE_BYTES_MAX + 1), -EFBIG);
	cr_assert_eq(sh_stat(w, "d", 0, &a), 0);
	cr_assert_eq(sh_write(w, &a.handle, 0, bytes, 4096, 4096), -EISDIR);
	cr_assert_eq(sh_truncate(w, &a.handle, 0), -EISDIR);
	cr_assert_eq(sh_stat(w, "s", META_NOFOLLOW, &a), 0);
	cr_assert_eq(sh_truncate(w, &a.handle, 0), -EINVAL);
	h.uniq++;
	cr_assert_eq(sh_write(w, &h, 0, bytes, 4096, 0), -ESTALE);
	h.dir = 0;
	cr_assert_eq(sh_write(w, &h, 0, bytes, 4096, 0), -ESTALE);
	expect(20000, 20000);
	cr_assert_eq(meta_fake_live(w), 5);
}

/* ---- truncate ------------------------------------------------------------------------------- */

/* Inside a block: with its zero-tailed replacement, or without. */
static int cut(uint64_t size, bool with_block)
{
	struct meta_op op = sh_op(META_OP_TRUNCATE, NULL);

	op.target.handle = h;
	op.size = size;
	if (with_block)
		cr_assert_eq(meta_world_data(w, bytes + size / 4096 * 4096, size % 4096, op.runs,
					     &op.nruns, op.crcs),
			     0);
	return meta_world_run(w, &op);
}

Test(meta_write, a_cut_inside_a_block_takes_its_replacement)
{
	put(600000);
	cr_assert_eq(cut(550000, false), -EINVAL);
	cr_assert_eq(cut(550000, true), 0);
	expect(550000, 550000);
	cr_assert_eq(cut(560000, true), -EINVAL); /* up */
	cr_assert_eq(cut(560000, false), 0);
	expect(550000, 560000);
	cr_assert_eq(sh_truncate(w, &h, 4096), 0);
	meta_world_settle(w);
	cr_assert_eq(meta_fake_live(w), 1);
}

Test(meta_write, a_cut_inside_a_hole_needs_no_block)
{
	put(0);
	cr_assert_eq(sh_truncate(w, &h, 1 << 20), 0);
	cr_assert_eq(sh_write(w, &h, 524288, bytes, 4096, 0), 0);
	cr_assert_eq(cut(600001, false), 0);
	cr_assert_eq(cut(524288 + 5000, false), 0);
	cr_assert_eq(cut(300001, false), 0);
	expect(0, 300001);
	meta_world_settle(w);
	cr_assert_eq(meta_fake_live(w), 0);
}

Test(meta_write, a_hidden_file_is_not_cut)
{
	cr_assert_eq(sh_put_begin(w, "f", &h), 0);
	cr_assert_eq(sh_write(w, &h, 0, bytes, 8192, 8192), 0);
	cr_assert_eq(sh_truncate(w, &h, 4096), -EINVAL);
	cr_assert_eq(sh_put_abort(w, &h), 0);
}

/* Few zones, but more extents than one apply may free. */
Test(meta_write, a_sparse_file_of_many_extents_is_cut_and_freed_in_steps)
{
	const uint64_t before = meta_fake_records(w);

	put(0);
	for (uint64_t i = 0; i < 60; i++)
		cr_assert_eq(sh_write(w, &h, i << 19, bytes, 4096, (i << 19) + 4096), 0);
	cr_assert_eq(sh_truncate(w, &h, 10 << 19), 0);
	meta_world_settle(w);
	cr_assert_eq(meta_fake_live(w), 10);
	for (uint64_t i = 10; i < 60; i++)
		cr_assert_eq(sh_write(w, &h, i << 19, bytes, 4096, (i << 19) + 4096), 0);
	cr_assert_eq(sh_unlink(w, "f"), 0);
	meta_world_settle(w);
	cr_assert_eq(meta_fake_live(w), 0);
	cr_assert_eq(meta_fake_records(w), before);
}

/* ---- states -------------------------------------------------------------------------------- */

static int read_state(int64_t ctime_ns)
{
	static struct meta_run runs[8];
	static uint32_t crcs[8];
	struct meta_op op = sh_op(META_OP_READ, NULL);

	op.target.handle = h;
	op.ctime_ns = ctime_ns;
	op.length = BLOCK_SIZE;
	op.runs = runs;
	op.crcs = crcs;
	op.runs_max = 8;
	op.blocks_max = 8;
	op.inline_buf = back;
	return meta_world_run(w, &op);
}

static int64_t state_after_write_at(int64_t wall_ns)
{
	struct meta_op op = sh_op(META_OP_WRITE, NULL);

	op.target.handle = h;
	op.flags = META_BY_INLINE;
	op.inline_buf = bytes;
	op.inline_len = 5;
	op.wall_ns = wall_ns;
	cr_assert_eq(meta_world_run(w, &op), 0);
	cr_assert_eq(sh_stat(w, "f", 0, &a), 0);
	return a.ctime_ns;
}

Test(meta_write, each_change_is_a_state_of_its_own_whatever_the_clock_says)
{
	int64_t first, second, third;

	put(5);
	first = a.ctime_ns;
	cr_assert_eq(read_state(0), 0);
	cr_assert_eq(read_state(first), 0);
	second = state_after_write_at(first - 1000); /* the clock went back, */
	cr_assert_gt(second, first);
	third = state_after_write_at(first); /* ... and shows the time of a state again */
	cr_assert_gt(third, second);
	cr_assert_eq(read_state(first), -ESTALE);
	cr_assert_eq(read_state(second), -ESTALE);
	cr_assert_eq(read_state(third), 0);
}
