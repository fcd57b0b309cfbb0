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
static uint64_t empty_store; /* its records */

static void setup(void)
{
	w = meta_world_fake(16, 10, 5);
	empty_store = meta_fake_records(w);
	for (uint32_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 13 + i / 4096 + i / 251);
	cr_assert_eq(sh_put(w, "f", 0, bytes, 0), 0);
	cr_assert_eq(sh_stat(w, "f", 0, &a), 0);
	h = a.handle;
}

static void teardown(void)
{
	cr_assert_eq(meta_fake_pending(w), 0);
	w->end(w);
}

TestSuite(meta_tail, .init = setup, .fini = teardown);

static void expect(uint64_t known, uint64_t size)
{
	cr_assert_eq(sh_read(w, "f", back, sizeof(back)), (int64_t)size);
	for (uint64_t i = 0; i < size; i++)
		cr_assert_eq(back[i], i < known ? bytes[i] : 0, "byte %llu", (unsigned long long)i);
}

/* Blocks [from, to / 4096) of `bytes`, and what is left of it as the tail. */
static int write_to(uint64_t from, uint64_t to)
{
	struct meta_op op = sh_op(META_OP_WRITE, NULL);
	const uint64_t whole = to / 4096 * 4096;

	op.target.handle = h;
	op.offset = from;
	op.size = to;
	if (whole > from)
		cr_assert_eq(
			meta_world_data(w, bytes + from, whole - from, op.runs, &op.nruns, op.crcs),
			0);
	if (to > whole) {
		op.flags = META_BY_INLINE;
		op.inline_buf = bytes + whole;
		op.inline_len = (uint32_t)(to - whole);
	}
	return meta_world_run(w, &op);
}

static int cut_to_tail(uint64_t size)
{
	struct meta_op op = sh_op(META_OP_TRUNCATE, NULL);

	op.target.handle = h;
	op.flags = META_BY_INLINE;
	op.inline_buf = bytes + size / 4096 * 4096;
	op.inline_len = size % 4096;
	op.size = size;
	return meta_world_run(w, &op);
}

static uint64_t tail_records(void)
{
	return meta_fake_kind(w, META__KIND_TAIL);
}

Test(meta_tail, grows_in_pieces_until_it_is_a_block)
{
	for (uint64_t size = 100; size < 4096; size += 100) {
		cr_assert_eq(write_to(0, size), 0);
		expect(size, size);
		cr_assert_eq(tail_records(),
			     size <= META_INLINE_MAX ? 0 : div_up(size, META__TAIL_PIECE), "%llu",
			     (unsigned long long)size);
		cr_assert_eq(meta_fake_live(w), 0);
	}
	cr_assert_eq(write_to(0, 4100), 0);
	expect(4100, 4100);
	cr_assert_eq(meta_fake_live(w), 1);
	cr_assert_eq(tail_records(), 1);
	cr_assert_eq(write_to(4096, 8192), 0);
	expect(8192, 8192);
	cr_assert_eq(meta_fake_live(w), 2);
	cr_assert_eq(tail_records(), 0);
}

Test(meta_tail, is_cut_and_dropped_by_truncates)
{
	static const uint64_t sizes[] = { 20000, 19999, 17000, 16641, 16640, 16385 };

	cr_assert_eq(write_to(0, 20001), 0);
	expect(20001, 20001);
	for (uint32_t i = 0; i < ARRAY_LEN(sizes); i++) {
		cr_assert_eq(sh_truncate(w, &h, sizes[i]), 0);
		expect(sizes[i], sizes[i]);
		cr_assert_eq(tail_records(), div_up(sizes[i] - 16384, META__TAIL_PIECE));
	}
	cr_assert_eq(sh_truncate(w, &h, 20000), 0); /* up: what was cut is zeros */
	expect(16385, 20000);
	cr_assert_eq(sh_truncate(w, &h, 16384), 0);
	expect(16384, 16384);
	cr_assert_eq(tail_records(), 0);
	cr_assert_eq(write_to(16384, 20001), 0);
	cr_assert_eq(sh_truncate(w, &h, 8192), 0); /* before it */
	expect(8192, 8192);
	cr_assert_eq(tail_records(), 0);
	cr_assert_eq(meta_fake_live(w), 2);
}

Test(meta_tail, of_the_first_block_moves_into_the_inode_when_little_is_left)
{
	cr_assert_eq(write_to(0, 3000), 0);
	cr_assert_eq(tail_records(), 12);
	cr_assert_eq(sh_truncate(w, &h, 512), 0);
	expect(512, 512);
	cr_assert_eq(tail_records(), 0);
	cr_assert_eq(write_to(0, 513), 0);
	expect(513, 513);
	cr_assert_eq(tail_records(), 3);
}

Test(meta_tail, takes_what_is_left_of_a_block)
{
	cr_assert_eq(write_to(0, 600000 / 4096 * 4096), 0);
	cr_assert_eq(cut_to_tail(550000), 0);
	expect(550000, 550000);
	cr_assert_eq(cut_to_tail(4096 + 4095), 0);
	expect(8191, 8191);
	cr_assert_eq(cut_to_tail(100), 0);
	expect(100, 100);
	meta_world_settle(w);
	cr_assert_eq(meta_fake_live(w), 0);
	cr_assert_eq(meta_fake_records(w), empty_store + 2);
}

Test(meta_tail, stays_where_it_is_when_the_file_grows_behind_it)
{
	cr_assert_eq(write_to(0, 5000), 0);
	cr_assert_eq(sh_truncate(w, &h, 50000), 0);
	expect(5000, 50000);
	memset(bytes + 5000, 0, 40960 - 5000);
	cr_assert_eq(sh_write(w, &h, 40960, bytes + 40960, 4096, 0), 0);
	expect(45056, 50000);
	cr_assert_eq(write_to(40960, 45000), -EINVAL); /* another tail */
	cr_assert_eq(cut_to_tail(45000), -EINVAL);
	cr_assert_eq(sh_write(w, &h, 4096, bytes + 4096, 4096, 0), 0); /* it is a block now */
	expect(45056, 50000);
	cr_assert_eq(meta_fake_live(w), 3);
	cr_assert_eq(cut_to_tail(45000), 0);
	expect(45000, 45000);
	cr_assert_eq(meta_fake_live(w), 2);
}

Test(meta_tail, moves_with_what_is_written_over_it)
{
	cr_assert_eq(write_to(0, 5000), 0);
	cr_assert_eq(write_to(4096, 20000), 0);
	expect(20000, 20000);
	cr_assert_eq(write_to(16384, 19999), -EINVAL); /* would lose a byte */
	bytes[17000]++;
	cr_assert_eq(write_to(16384, 20000), 0);
	expect(20000, 20000);
}

Test(meta_tail, dies_with_its_file)
{
	cr_assert_eq(write_to(0, 20000), 0);
	cr_assert_eq(sh_put(w, "f", 0, bytes, 10), 0);
	meta_world_settle(w);
	cr_assert_eq(meta_fake_live(w), 0);
	cr_assert_eq(meta_fake_records(w), empty_store + 2);
	cr_assert_eq(sh_stat(w, "f", 0, &a), 0);
	h = a.handle;
	cr_assert_eq(write_to(0, 4000), 0);
	cr_assert_eq(sh_put(w, "g", 0, bytes, 10), 0);
	cr_assert_eq(sh_rename(w, "g", "f", 0), 0);
	cr_assert_eq(meta_fake_records(w), empty_store + 2);
	cr_assert_eq(sh_stat(w, "f", 0, &a), 0);
	h = a.handle;
	cr_assert_eq(write_to(0, 900000), 0);
	cr_assert_eq(sh_unlink(w, "f"), 0);
	meta_world_settle(w);
	cr_assert_eq(meta_fake_live(w), 0);
	cr_assert_eq(meta_fake_records(w), empty_store);
}

/* An append logs what it changes: the inode, a piece, a piece that is new. */
Test(meta_tail, logs_no_more_than_the_pieces_that_change)
{
	const uint64_t before = meta_fake_mutations(w);

	cr_assert_eq(write_to(0, 4000), 0);
	cr_assert_eq(meta_fake_mutations(w) - before, 2 + 16); /* and the directory */
	cr_assert_eq(write_to(0, 4050), 0);
	cr_assert_eq(meta_fake_mutations(w) - before, 2 + 16 + 3);
}
