/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "meta/plans/meta_plan.h"
#include "test/lib/meta_shell.h"
#include "test/unit/meta_tx_fake.h"

#include <criterion/criterion.h>
#include <string.h>

#define K 4096ull

static struct meta_world *w;
static struct meta_attr a;
static struct meta_handle h;
static uint8_t bytes[3 << 20], back[3 << 20], like[3 << 20];
static uint64_t size;

static void setup(void)
{
	w = meta_world_fake(21, 10, 5);
	for (uint32_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(1 + i % 251);
}

static void teardown(void)
{
	cr_assert_eq(meta_fake_pending(w), 0);
	w->end(w);
}

TestSuite(meta_hole, .init = setup, .fini = teardown);

static void put(uint64_t bytes_count)
{
	size = bytes_count;
	cr_assert_eq(sh_put(w, "f", 0, bytes, size), 0);
	cr_assert_eq(sh_stat(w, "f", 0, &a), 0);
	h = a.handle;
	memset(like, 0, sizeof(like));
	memcpy(like, bytes, size);
}

/* The file, and that `blocks` of it take room, as the inode, its extents and zones say. */
static void expect(uint64_t blocks)
{
	uint64_t data = 0;

	cr_assert_eq(sh_read(w, "f", back, sizeof(back)), (int64_t)size);
	for (uint64_t i = 0; i < size; i++)
		cr_assert_eq(back[i], like[i], "byte %llu", (unsigned long long)i);
	cr_assert_eq(sh_stat(w, "f", 0, &a), 0);
	cr_assert_eq(a.blocks, blocks, "%llu blocks", (unsigned long long)a.blocks);
	cr_assert_eq(a.size, size);
	meta_world_settle(w);
	cr_assert_eq(meta_fake_live(w), blocks);
	for (int64_t at = 0; (at = sh_seek(w, &h, (uint64_t)at, false)) >= 0;) {
		const int64_t end = sh_seek(w, &h, (uint64_t)at, true);

		cr_assert_gt(end, at);
		data += div_up((uint64_t)end, K) - (uint64_t)at / K;
		if (end == (int64_t)size)
			break;
		at = end;
	}
	cr_assert_geq(data, blocks);
	cr_assert_leq(data, blocks + 1); /* a tail is data, too */
}

static void punch(uint64_t offset, uint64_t length)
{
	cr_assert_eq(sh_punch(w, &h, offset, length), 0);
	if (offset < size)
		memset(like + offset, 0, min_u64(length, size - offset));
}

/* ---- whole blocks --------------------------------------------------------------------- */

Test(meta_hole, whole_blocks_become_a_hole_and_their_blocks_are_free)
{
	put(10 * K);
	punch(2 * K, 3 * K);
	expect(7);
	punch(2 * K, 3 * K); /* again: nothing more */
	expect(7);
	punch(0, 10 * K);
	expect(0);
	cr_assert_eq(meta_fake_kind(w, META__KIND_EXTENT), 0);
}

Test(meta_hole, across_chunks_and_zones)
{
	put(3 << 20);
	punch(100 * K, 600 * K);
	expect(168);
	punch(0, 3 << 20);
	expect(0);
}

Test(meta_hole, what_dies_in_too_many_zones_is_freed_behind)
{
	put(0);
	for (uint64_t i = 0; i < 700; i++) { /* every second one: no two lie together */
		size = max_u64(size, (i * 37 % 700 + 1) * K);
		cr_assert_eq(sh_write(w, &h, i * 37 % 700 * K, bytes, K, size), 0);
		memcpy(like + i * 37 % 700 * K, bytes, K);
	}
	expect(700);
	punch(K, 699 * K);
	expect(1);
}

/* ---- edges ------------------------------------------------------------------------------ */

Test(meta_hole, edges_inside_blocks_are_replaced)
{
	put(10 * K);
	punch(2 * K + 100, 3 * K);
	expect(8);
	punch(7 * K + 1, 10); /* inside one */
	expect(8);
	punch(8 * K - 1, 2);
	expect(8);
}

Test(meta_hole, at_the_end_of_the_file_the_last_block_is_whole)
{
	put(2 * K + 77);
	punch(2 * K, 77);
	expect(2);
	put(2 * K + 700);
	punch(2 * K, 699); /* one byte stays */
	expect(3);
}

Test(meta_hole, what_is_behind_the_end_is_not_looked_at)
{
	put(2 * K);
	cr_assert_eq(sh_stat(w, "f", 0, &a), 0);
	punch(2 * K, 5 * K);
	punch(1 << 20, META__FILE_BYTES_MAX / 2);
	expect(2);
	punch(K, META__FILE_BYTES_MAX - K);
	expect(1);
}

Test(meta_hole, a_replacement_is_given_where_there_is_a_block_and_nowhere_else)
{
	struct meta_op op = sh_op(META_OP_PUNCH, NULL);

	put(4 * K);
	op.target.handle = h;
	op.offset = K + 5;
	op.length = K;
	cr_assert_eq(meta_world_run(w, &op), -EINVAL); /* none */
	cr_assert_eq(sh_punch_edges(w, &op, K + 5, K), 0);
	op.length = 10; /* one too many */
	cr_assert_eq(meta_world_run(w, &op), -EINVAL);
	cr_assert_eq(sh_punch_edges(w, &op, K + 5, K), 0);
	cr_assert_eq(op.nruns > 0, true);
	op.offset = 9 * K; /* behind the end */
	cr_assert_eq(meta_world_run(w, &op), -EINVAL);
	expect(4);
}

Test(meta_hole, what_it_cannot_be_of)
{
	struct meta_op op = sh_op(META_OP_PUNCH, NULL);

	put(K);
	cr_assert_eq(sh_punch(w, &h, 0, 0), -EINVAL);
	op.target.handle = h;
	op.length = META__FILE_BYTES_MAX + 1;
	cr_assert_eq(meta_world_run(w, &op), -EINVAL);
	cr_assert_eq(sh_truncate(w, &h, 5000 * K), 0);
	op.length = (META_IO_BLOCKS_MAX + 1) * K; /* more than one change may be */
	cr_assert_eq(meta_world_run(w, &op), -EINVAL);
	cr_assert_eq(sh_mkdir(w, "d"), 0);
	cr_assert_eq(sh_stat(w, "d", 0, &a), 0);
	cr_assert_eq(sh_punch(w, &a.handle, 0, 1), -EISDIR);
	cr_assert_eq(sh_seek(w, &a.handle, 0, false), -EISDIR);
	cr_assert_eq(sh_symlink(w, "f", "l"), 0);
	cr_assert_eq(sh_stat(w, "l", META_NOFOLLOW, &a), 0);
	cr_assert_eq(sh_punch(w, &a.handle, 0, 1), -EINVAL);
	cr_assert_eq(sh_unlink(w, "f"), 0);
	cr_assert_eq(sh_punch(w, &h, 0, 1), -ESTALE);
}

Test(meta_hole, a_full_store_can_be_punched)
{
	put(8 * K);
	meta_fake_space(w, -ENOSPC);
	punch(0, 4 * K);
	meta_fake_space(w, 0);
	expect(4);
}

/* ---- tails -------------------------------------------------------------------------------- */

static void tail(uint64_t block, uint32_t len)
{
	struct meta_op op = sh_op(META_OP_WRITE, NULL);

	op.target.handle = h;
	op.offset = block * K;
	op.flags = META_BY_INLINE;
	op.inline_buf = bytes;
	op.inline_len = len;
	cr_assert_eq(meta_world_run(w, &op), 0);
	size = max_u64(size, block * K + len);
	memcpy(like + block * K, bytes, len);
}

Test(meta_hole, bytes_in_the_inode_become_zeros_where_they_lie)
{
	put(500);
	punch(100, 50);
	expect(0);
	punch(400, 100);
	expect(0);
	punch(0, 500);
	expect(0);
	cr_assert_eq(sh_seek(w, &h, 0, false), -ENXIO); /* nothing is left of it */
	size = 9 * K;
	cr_assert_eq(sh_truncate(w, &h, size), 0);
	expect(0);
}

Test(meta_hole, bytes_of_a_tail_become_zeros_where_they_lie)
{
	put(3 * K);
	tail(3, 3000);
	punch(3 * K + 10, 1000);
	expect(3);
	punch(2 * K + 50, K + 50); /* over both */
	expect(3);
	punch(3 * K + 2000, 1 << 20); /* its end */
	expect(3);
	cr_assert_eq(meta_fake_kind(w, META__KIND_TAIL), 8);
	size = 6 * K;
	cr_assert_eq(sh_truncate(w, &h, size), 0);
	punch(2 * K, 3 * K); /* all of it */
	expect(2);
	cr_assert_eq(meta_fake_kind(w, META__KIND_TAIL), 0);
	tail(3, 700); /* there may be one again */
	expect(2);
}

/* ---- seek ----------------------------------------------------------------------------------- */

static void seeks(uint64_t offset, int64_t data, int64_t hole)
{
	cr_assert_eq(sh_seek(w, &h, offset, false), data, "data from %llu: %lld",
		     (unsigned long long)offset, (long long)sh_seek(w, &h, offset, false));
	cr_assert_eq(sh_seek(w, &h, offset, true), hole, "hole from %llu: %lld",
		     (unsigned long long)offset, (long long)sh_seek(w, &h, offset, true));
}

Test(meta_hole, seeks_find_data_and_holes)
{
	put(6 * K);
	seeks(0, 0, 6 * K);
	seeks(100, 100, 6 * K);
	seeks(6 * K - 1, 6 * K - 1, 6 * K);
	seeks(6 * K, -ENXIO, -ENXIO);
	seeks(7 * K, -ENXIO, -ENXIO);
	punch(K, 2 * K);
	seeks(0, 0, K);
	seeks(K, 3 * K, K);
	seeks(2 * K + 5, 3 * K, 2 * K + 5);
	punch(5 * K, K);
	seeks(5 * K, -ENXIO, 5 * K);
	size = 1ull << 40;
	cr_assert_eq(sh_truncate(w, &h, size), 0);
	seeks(5 * K, -ENXIO, 5 * K);
	cr_assert_eq(sh_write(w, &h, 1ull << 39, bytes, K, 0), 0); /* far behind */
	seeks(5 * K, 1ll << 39, 5 * K);
	seeks(1ull << 39, 1ll << 39, (1ll << 39) + (int64_t)K);
	put(0);
	seeks(0, -ENXIO, -ENXIO);
}

Test(meta_hole, seeks_take_the_tail_for_data)
{
	put(K);
	size = 10 * K;
	cr_assert_eq(sh_truncate(w, &h, size), 0);
	tail(4, 100);
	seeks(0, 0, K);
	seeks(K, 4 * K, K);
	seeks(4 * K + 200, 4 * K + 200, 5 * K);
	seeks(5 * K, -ENXIO, 5 * K);
	cr_assert_eq(sh_write(w, &h, 5 * K, bytes, K, 0), 0);
	cr_assert_eq(sh_write(w, &h, 3 * K, bytes, K, 0), 0);
	seeks(3 * K, 3 * K, 6 * K);
}

Test(meta_hole, a_seek_looks_at_so_many_chunks_and_says_where_it_goes_on)
{
	struct meta_op op = sh_op(META_OP_SEEK, NULL);

	put(0);
	for (uint64_t i = 0; i < 40; i++)
		cr_assert_eq(sh_write(w, &h, i << 20, bytes, 1 << 20, (i + 1) << 20), 0);
	op.target.handle = h;
	op.flags = META_SEEK_HOLE;
	cr_assert_eq(meta_world_run(w, &op), 0);
	cr_assert(op.seek_more);
	cr_assert_eq(op.length, 64 * 128 * K);
	cr_assert_eq(sh_seek(w, &h, 0, true), 40 << 20);
	cr_assert_eq(sh_punch(w, &h, 36ull << 20, K), 0);
	cr_assert_eq(sh_seek(w, &h, 5, true), 36 << 20);
}
