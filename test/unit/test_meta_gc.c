/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Data zones that are mostly dead are emptied; what lived in them is whole, whatever happens. */
#include "test/lib/meta_rig.h"
#include "meta/ops/meta_gc.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FILES_MAX 2048u

static struct rig r;
static struct meta_check check;
static uint32_t blocks_of[FILES_MAX]; /* 0: it is not there */
static uint64_t fill_of[FILES_MAX];
static uint64_t fills;

static void store(void)
{
	rig_make(&r, 33, 1, 16u << 20, 4, true);
	cr_assert_eq(rig_format(&r), 0);
	memset(blocks_of, 0, sizeof(blocks_of));
	fills = 0;
}

static void store_end(void)
{
	rig_end(&r);
}

TestSuite(meta_gc, .init = store, .fini = store_end, .timeout = 120);

static const char *path_of(uint32_t i)
{
	static char path[32];

	(void)snprintf(path, sizeof(path), "/file %u", i);
	return path;
}

static int put(uint32_t i, uint32_t blocks)
{
	int err = rig_put(&r, path_of(i), blocks, ++fills);

	if (!err) {
		blocks_of[i] = blocks;
		fill_of[i] = fills;
	}
	return err;
}

static void is_whole(uint32_t i)
{
	uint32_t blocks;
	uint64_t fill;

	if (blocks_of[i] == 0) {
		cr_assert_eq(rig_get(&r, path_of(i), &blocks, &fill), -ENOENT);
		return;
	}
	cr_assert_eq(rig_get(&r, path_of(i), &blocks, &fill), 0, "%s", path_of(i));
	cr_assert_eq(blocks, blocks_of[i], "%s", path_of(i));
	cr_assert_eq(fill, fill_of[i], "%s", path_of(i));
}

static void all_is_whole(void)
{
	for (uint32_t i = 0; i < FILES_MAX; i++)
		is_whole(i);
	cr_assert_eq(rig_check(&r, &check), 0, "%s", check.first[0]);
}

/* Files of 1 to `most` blocks until so many blocks are there: how many files. */
static uint32_t fill_up(uint32_t until, uint32_t most)
{
	uint32_t i = 0;

	for (uint32_t blocks = 0; blocks < until; blocks += blocks_of[i++]) {
		cr_assert_lt(i, FILES_MAX);
		cr_assert_eq(put(i, 1 + (uint32_t)rand_below(&r.rand, most)), 0);
	}
	return i;
}

static uint32_t blocks_for_data(void)
{
	struct meta_statfs s;

	meta__statfs_space(r.m, &s);
	return (uint32_t)s.blocks_total;
}

/* The same until the store is full, and then only so many per cent of that stay. */
static uint32_t fill_to(uint32_t percent, uint32_t most)
{
	uint64_t blocks = 0, stays;
	uint32_t n = 0;

	while (n < FILES_MAX && put(n, 1 + (uint32_t)rand_below(&r.rand, most)) == 0)
		blocks += blocks_of[n++];
	cr_assert_lt(n, FILES_MAX);
	cr_assert_gt(blocks, blocks_for_data() * 8ull / 10);
	for (stays = blocks * percent / 100; blocks > stays; blocks_of[n] = 0) {
		blocks -= blocks_of[--n];
		cr_assert_eq(rig_unlink(&r, path_of(n)), 0);
	}
	return n;
}

static struct meta_statfs counters(void)
{
	struct meta_statfs s = { 0 };

	meta__gc_stat(r.m, &s);
	meta__ckpt_stat(r.m, &s);
	meta__zone_wear(r.m, &s);
	return s;
}

static uint64_t moved(void)
{
	struct meta_statfs s = { 0 };

	meta__gc_stat(r.m, &s);
	return s.moved_blocks;
}

Test(meta_gc, every_second_file_removed_makes_room_for_as_much)
{
	uint32_t n = 0, again = 0;

	while (n < FILES_MAX && put(n, 3) == 0)
		n++;
	cr_assert_gt(n * 3, blocks_for_data() / 2);
	for (uint32_t i = 0; i < n; i += 2) {
		cr_assert_eq(rig_unlink(&r, path_of(i)), 0);
		blocks_of[i] = 0;
	}
	for (uint32_t i = 0; i < n; i += 2)
		again += put(i, 3) == 0;
	cr_assert_gt(again, n * 4 / 10, "%u of %u", again, n / 2);
	cr_assert_gt(moved(), 0);
	all_is_whole();
}

Test(meta_gc, random_replacement_never_runs_full)
{
	const uint32_t total = blocks_for_data(), n = fill_up(total * 80 / 100, 6);
	uint64_t blocks = 0;

	while (blocks < 8ull * total) {
		const uint32_t i = (uint32_t)rand_below(&r.rand, n);

		cr_assert_eq(put(i, blocks_of[i]), 0, "after %llu of %u",
			     (unsigned long long)blocks, total);
		blocks += blocks_of[i];
	}
	cr_assert_gt(moved(), total);
	all_is_whole();
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0);
	all_is_whole();
}

/* Any file of n is replaced by another of its size, until so many blocks have been written. */
static void replace(uint32_t n, uint64_t most)
{
	for (uint64_t blocks = 0; blocks < most;) {
		const uint32_t i = (uint32_t)rand_below(&r.rand, n);

		cr_assert_eq(put(i, blocks_of[i]), 0, "after %llu", (unsigned long long)blocks);
		blocks += blocks_of[i];
	}
}

Test(meta_gc, one_checkpoint_frees_all_that_a_round_has_won)
{
	struct meta_statfs before, after;
	uint32_t total, n;

	rig_end(&r); /* a larger one, in which the index is small */
	rig_make(&r, 33, 1, 64u << 20, 4, true);
	cr_assert_eq(rig_format(&r), 0);
	total = blocks_for_data();
	n = fill_up(total * 80 / 100, 12);
	replace(n, total); /* the first zones are free without it */
	before = counters();
	replace(n, 2ull * total);
	after = counters();
	before.zones_collected = after.zones_collected - before.zones_collected;
	before.checkpoints = after.checkpoints - before.checkpoints;
	cr_assert_gt(before.zones_collected, 10 * before.checkpoints, "%llu by %llu",
		     (unsigned long long)before.zones_collected,
		     (unsigned long long)before.checkpoints);
}

Test(meta_gc, zones_wear_alike_though_files_come_and_go)
{
	const uint32_t total = blocks_for_data(), n = fill_up(total * 80 / 100, 6);
	struct meta_statfs s;

	replace(n, 16ull * total);
	s = counters();
	cr_assert_gt(s.wear_least, 16, "each was used once a capacity, at the least");
	cr_assert_lt(s.wear_most, 3 * s.wear_least, "%llu to %llu",
		     (unsigned long long)s.wear_least, (unsigned long long)s.wear_most);
}

Test(meta_gc, store_of_95_percent_keeps_working_and_a_full_one_deletes)
{
	const uint32_t n = fill_to(95, 4);

	for (uint32_t round = 0; round < 3 * n; round++) {
		const uint32_t i = (uint32_t)rand_below(&r.rand, n);

		cr_assert_eq(put(i, blocks_of[i]), 0, "%u", round);
	}
	for (uint32_t i = n; i < FILES_MAX && put(i, 4) == 0; i++)
		;
	cr_assert_eq(put(0, 64), -ENOSPC);
	for (uint32_t i = 0; i < FILES_MAX; i++) {
		is_whole(i);
		if (blocks_of[i])
			cr_assert_eq(rig_unlink(&r, path_of(i)), 0);
		blocks_of[i] = 0;
	}
	all_is_whole();
	rig_idle(&r);
	cr_assert_eq(r.m->zones->live_blocks, 0);
}

/* A block of a file, by its extent record. */
static uint64_t block_of(uint32_t i, uint32_t block)
{
	struct meta_run runs[16];
	uint32_t crcs[64];
	uint8_t tail[4096];
	struct meta_op op = {
		.type = META_OP_READ,
		.target = { .path = path_of(i), .path_len = (uint32_t)strlen(path_of(i)) },
		.offset = (uint64_t)block * 4096,
		.length = 4096,
		.runs = runs,
		.crcs = crcs,
		.runs_max = 16,
		.blocks_max = 64,
		.inline_buf = tail,
	};

	cr_assert_eq(rig_run(&r, &op), 0);
	meta_read_end(r.m, &op);
	return runs[0].baddr;
}

static uint64_t first_block(uint32_t i)
{
	return block_of(i, 0);
}

Test(meta_gc, rotten_block_is_named_stays_where_it_is_and_holds_up_nobody)
{
	const uint32_t total = blocks_for_data(), n = fill_up(total * 70 / 100, 6);
	const uint64_t at = first_block(7);
	uint64_t blocks = 0, fill;
	uint32_t is;

	rig_idle(&r);
	for (uint32_t i = 0; i < 4096; i++)
		r.view[0][META_BADDR_BLOCK(at) * 4096 + i] ^= 0x20;
	memcpy(rig_block(&r, at), r.view[0] + META_BADDR_BLOCK(at) * 4096, 4096);
	while (blocks < 5ull * total) {
		const uint32_t i = (uint32_t)rand_below(&r.rand, n);

		if (i == 7)
			continue;
		cr_assert_eq(put(i, blocks_of[i]), 0);
		blocks += blocks_of[i];
	}
	cr_assert_eq(first_block(7), at, "no sum was made over bad bytes");
	cr_assert_eq(rig_get(&r, path_of(7), &is, &fill), -EBADMSG);
	cr_assert(strstr(meta_error(r.m), "is not what was written"), "%s", meta_error(r.m));
	blocks_of[7] = 0;
	cr_assert_eq(rig_unlink(&r, path_of(7)), 0);
	all_is_whole();
}

Test(meta_gc, block_that_cannot_be_read_is_named_and_stays)
{
	const uint32_t total = blocks_for_data(), n = fill_up(total * 70 / 100, 6);
	const uint64_t at = first_block(9);
	uint64_t blocks = 0;

	r.lost_from = META_BADDR_BLOCK(at);
	r.lost_to = r.lost_from + 1;
	r.lost_status = -ENODATA;
	while (blocks < 4ull * total) {
		const uint32_t i = (uint32_t)rand_below(&r.rand, n);

		if (i == 9)
			continue;
		cr_assert_eq(put(i, blocks_of[i]), 0);
		blocks += blocks_of[i];
	}
	cr_assert_eq(first_block(9), at);
	for (uint32_t i = 1; i < blocks_of[9]; i++)
		cr_assert_neq(block_of(9, i), at + i, "the others have moved");
	cr_assert(strstr(meta_error(r.m), "cannot be read"), "%s", meta_error(r.m));
	r.lost_to = r.lost_from;
	all_is_whole();
}

/* Live blocks are found, whichever zones were open when the power failed. */
Test(meta_gc, power_cuts_all_the_time)
{
	const uint32_t total = blocks_for_data(), n = fill_up(total * 75 / 100, 6);
	uint64_t before = 0, sum = 0;

	r.cut_garbles = true;
	for (uint32_t cuts = 0; cuts < 120; cuts++) {
		uint32_t i = 0;
		uint64_t was;

		r.cut_at = r.writes + 20 + rand_below(&r.rand, 200);
		do {
			i = (uint32_t)rand_below(&r.rand, n);
			was = fill_of[i];
			before = moved();
		} while (put(i, blocks_of[i]) == 0);
		cr_assert(r.cut);
		sum += before;
		rig_power_cut(&r);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		{ /* it is the old one, or the new one */
			uint32_t blocks;
			uint64_t fill;

			cr_assert_eq(rig_get(&r, path_of(i), &blocks, &fill), 0);
			cr_assert(fill == was || fill == fills);
			fill_of[i] = fill;
		}
		all_is_whole();
	}
	cr_assert_gt(sum, 200, "moved only %llu blocks", (unsigned long long)sum);
}

Test(meta_gc, idle_store_does_nothing)
{
	const uint32_t n = fill_to(100, 6);
	uint64_t writes;

	for (uint32_t i = 0; i < n; i += 5) {
		cr_assert_eq(rig_unlink(&r, path_of(i)), 0);
		blocks_of[i] = 0;
	}
	rig_idle(&r);
	writes = r.writes;
	for (uint32_t i = 0; i < 1000; i++)
		cr_assert_not(rig_step(&r));
	cr_assert_eq(r.writes, writes);
	all_is_whole();
}

/* ---- what happens to a file while it moves -------------------------------------------------- */

/* Replace files until some blocks have been read, or are being written to their new places. */
static struct meta__gc_move *one_moves(uint32_t n)
{
	for (uint32_t rounds = 0; rounds < 10000; rounds++) {
		const uint32_t i = (uint32_t)rand_below(&r.rand, n);

		for (uint32_t k = 0; k < META__GC_MOVES; k++)
			if (r.m->gc->move[k].stage == GC_READ || r.m->gc->move[k].stage == GC_WRITE)
				return &r.m->gc->move[k];
		cr_assert_eq(put(i, blocks_of[i]), 0);
	}
	cr_assert_fail("nothing moves");
	return NULL;
}

static void read_handle(const struct meta_handle *h, uint64_t block, struct meta_run *run,
			uint32_t *crc)
{
	struct meta_run runs[16];
	uint32_t crcs[64];
	uint8_t tail[4096];
	struct meta_op op = {
		.type = META_OP_READ,
		.target.handle = *h,
		.offset = block * 4096,
		.length = 4096,
		.runs = runs,
		.crcs = crcs,
		.runs_max = 16,
		.blocks_max = 64,
		.inline_buf = tail,
	};

	cr_assert_eq(rig_run(&r, &op), 0);
	meta_read_end(r.m, &op);
	*run = runs[0];
	*crc = crcs[0];
}

Test(meta_gc, block_that_is_replaced_while_it_moves_stays_replaced)
{
	const uint32_t n = fill_up(blocks_for_data() * 75 / 100, 6);
	uint32_t tested = 0;

	for (uint32_t i = 0; i < 40; i++) {
		struct meta__gc_move *v = one_moves(n);
		const struct meta_handle h = v->handle;
		const uint64_t block = v->chunk * META_CHUNK_BLOCKS + v->block[0].slot;
		struct meta_run run, is;
		uint32_t crc = 0x1234567 + i, is_crc;
		struct meta_op op = {
			.type = META_OP_WRITE,
			.target.handle = h,
			.offset = block * 4096,
			.runs = &run,
			.crcs = &crc,
			.nblocks = 1,
		};

		if (meta_data_alloc(r.m, i, 1, &run, 1, &op.nruns) != 0) {
			(void)rig_step(&r);
			continue; /* no place just now */
		}
		if (rig_run(&r, &op) == -ESTALE)
			continue;
		cr_assert_eq(op.status, 0);
		rig_idle(&r);
		read_handle(&h, block, &is, &is_crc);
		cr_assert_eq(is_crc, crc);
		/* Not asked to be whole any more: its bytes are none that were ever written. */
		for (uint32_t k = 0; k < n; k++) {
			uint32_t blocks;
			uint64_t fill;

			if (rig_get(&r, path_of(k), &blocks, &fill) == -EBADMSG)
				cr_assert_eq(put(k, blocks_of[k]), 0);
		}
		tested++;
	}
	cr_assert_gt(tested, 5);
	all_is_whole();
}

Test(meta_gc, block_of_a_zone_that_was_used_again_meanwhile_is_left_alone)
{
	const uint32_t n = fill_up(blocks_for_data() * 75 / 100, 6);

	for (uint32_t i = 0; i < 20; i++) {
		struct meta__gc_move *v = one_moves(n);
		const struct meta_handle h = v->handle;
		const uint64_t block = v->chunk * META_CHUNK_BLOCKS + v->block[0].slot;
		const uint64_t old = v->block[0].old;
		struct meta_run is;
		uint32_t crc;

		meta__zone_at(r.m, v->zone)->incarnation++; /* as if */
		while (v->stage != GC_IDLE)
			(void)rig_step(&r);
		read_handle(&h, block, &is, &crc);
		cr_assert_eq(is.baddr, old);
	}
	all_is_whole();
}
