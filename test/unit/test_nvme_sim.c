/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The simulated drive itself: what survives a power cut is what the specification promises
 * and nothing more, or all that is proved with it is worth nothing.
 */
#include "test/lib/nvme_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

static struct nvme_fixture f;

static void up(bool volatile_cache, uint32_t atomic_bytes)
{
	fixture_up(&f,
		   &(struct sim_drive_options){ .nblocks = 64,
						.volatile_cache = volatile_cache,
						.atomic_bytes = atomic_bytes,
						.seed = 1 },
		   32);
}

static void down(void)
{
	fixture_down(&f);
}

TestSuite(nvme_sim, .fini = down, .timeout = 60);

static void write_block(uint64_t block, uint64_t seed, bool fua)
{
	struct nvme_io io = write_of(&f, block, 1, seed);

	io.fua = fua;
	cr_assert_eq(fixture_run(&f, &io), 0);
}

static void flush(void)
{
	struct nvme_io io = flush_of();

	cr_assert_eq(fixture_run(&f, &io), 0);
}

static bool block_holds(uint64_t block, uint64_t seed)
{
	const uint8_t *at = sim_drive_visible(f.sim) + block * NVME_BLOCK_SIZE;

	cr_assert_eq(
		memcmp(sim_drive_visible(f.sim), sim_drive_durable(f.sim), sim_drive_bytes(f.sim)),
		0, "after a cut there is one image");
	return holds(at, NVME_BLOCK_SIZE, seed);
}

/* Cut and come back; how often `block` held `seed` over many tries of write_it(). */
static uint32_t count_survivals(void (*write_it)(void), uint64_t block, uint64_t seed,
				uint32_t tries)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < tries; i++) {
		write_it();
		sim_power_cut(&f.power, i);
		fixture_reopen(&f);
		count += block_holds(block, seed);
	}
	return count;
}

static void two_plain_writes(void)
{
	write_block(5, 1, true);
	write_block(5, 2, false);
}

Test(nvme_sim, unflushed_write_is_sometimes_kept_and_sometimes_lost)
{
	up(true, 0);
	cr_assert(f.info.volatile_cache);
	uint32_t kept = count_survivals(two_plain_writes, 5, 2, 200);

	cr_assert(kept > 50 && kept < 150, "%u", kept);
}

static void flushed_write(void)
{
	write_block(6, 3, false);
	flush();
}

Test(nvme_sim, flushed_write_always_survives)
{
	up(true, 512);
	cr_assert_eq(count_survivals(flushed_write, 6, 3, 100), 100);
}

static void fua_write(void)
{
	write_block(7, 1, false);
	write_block(7, 4, true);
}

Test(nvme_sim, fua_write_survives_and_no_older_write_lands_on_it)
{
	up(true, 0);
	cr_assert_eq(count_survivals(fua_write, 7, 4, 100), 100);
}

static void write_without_cache(void)
{
	write_block(8, 1, false);
	write_block(8, 5, false);
}

Test(nvme_sim, without_a_cache_a_completed_write_survives)
{
	up(false, 0);
	cr_assert_not(f.info.volatile_cache);
	cr_assert_eq(count_survivals(write_without_cache, 8, 5, 50), 50);
	cr_assert_eq(sim_drive_unflushed(f.sim), 0);
}

Test(nvme_sim, flush_covers_what_had_completed_when_it_was_submitted_and_no_more)
{
	struct nvme_io late, flush_io, *done[4];
	uint32_t kept = 0, count = 0;

	up(true, 0);
	for (uint32_t i = 0; i < 100; i++) {
		write_block(9, 1, true);
		/* The flush is slow; a write that comes after it ends before it. */
		sim_drive_faults(f.sim,
				 &(struct sim_faults){ .delay_min_ns = 100, .delay_max_ns = 100 });
		flush_io = flush_of();
		cr_assert_eq(nvme_submit(f.qp, &flush_io), 0);
		nvme_ring(f.qp);
		cr_assert_eq(nvme_poll(f.qp, done, 4), 0);
		sim_drive_faults(f.sim, &(struct sim_faults){ 0 });
		late = write_of(&f, 9, 1, 6);
		cr_assert_eq(nvme_submit(f.qp, &late), 0);
		nvme_ring(f.qp);
		cr_assert_eq(nvme_poll(f.qp, done, 4), 1);
		cr_assert_eq(done[0], &late);
		f.power.now_ns += 100;
		cr_assert_eq(nvme_poll(f.qp, done, 4), 1);
		cr_assert_eq(done[0], &flush_io);
		count = sim_drive_unflushed(f.sim);
		sim_power_cut(&f.power, i);
		fixture_reopen(&f);
		kept += block_holds(9, 6);
	}
	cr_assert_eq(count, 1);
	cr_assert(kept > 20 && kept < 80, "%u", kept);
}

Test(nvme_sim, write_in_flight_is_kept_lost_or_torn_at_the_atomic_unit)
{
	uint32_t kept = 0, lost = 0, torn = 0;
	struct nvme_io io, *done[4];

	up(false, 512);
	cr_assert_eq(f.info.atomic_bytes, 512);
	for (uint32_t i = 0; i < 300; i++) {
		write_block(3, 7, true);
		sim_drive_faults(f.sim,
				 &(struct sim_faults){ .delay_min_ns = 1, .delay_max_ns = 1 });
		io = write_of(&f, 3, 1, 8);
		cr_assert_eq(nvme_submit(f.qp, &io), 0);
		nvme_ring(f.qp);
		cr_assert_eq(nvme_poll(f.qp, done, 4), 0);
		sim_power_cut(&f.power, i);
		cr_assert_eq(nvme_poll(f.qp, done, 4), 1);
		cr_assert_eq(io.status, -ECANCELED);
		sim_drive_faults(f.sim, &(struct sim_faults){ 0 });
		fixture_reopen(&f);
		if (block_holds(3, 8))
			kept++;
		else if (block_holds(3, 7))
			lost++;
		else
			torn++;
	}
	cr_assert(kept > 50 && lost > 50 && torn > 50, "%u %u %u", kept, lost, torn);
}

Test(nvme_sim, block_is_never_torn_where_the_atomic_unit_is_a_block)
{
	struct nvme_io io, *done[4];

	up(true, 4096);
	cr_assert_eq(f.info.atomic_bytes, 4096);
	for (uint32_t i = 0; i < 100; i++) {
		write_block(3, 7, true);
		io = write_of(&f, 3, 4, 8);
		cr_assert_eq(nvme_submit(f.qp, &io), 0);
		nvme_ring(f.qp);
		cr_assert_eq(nvme_poll(f.qp, done, 4), 1);
		sim_power_cut(&f.power, i);
		fixture_reopen(&f);
		cr_assert(block_holds(3, 7) || block_holds(3, 8));
	}
}

/* Blocks of writes in flight may be garbage, or unreadable until they are written again. */
Test(nvme_sim, drive_that_garbles_keeps_what_is_durable_and_nothing_else)
{
	uint32_t garbage = 0, unreadable = 0, whole = 0;
	struct nvme_io io, *done[4];

	fixture_up(&f,
		   &(struct sim_drive_options){
			   .nblocks = 64, .atomic_bytes = 512, .cut_garbles = true, .seed = 1 },
		   32);
	for (uint32_t i = 0; i < 300; i++) {
		write_block(2, 6, true);
		write_block(3, 7, true);
		sim_drive_faults(f.sim,
				 &(struct sim_faults){ .delay_min_ns = 1, .delay_max_ns = 1 });
		io = write_of(&f, 3, 1, 8);
		cr_assert_eq(nvme_submit(f.qp, &io), 0);
		nvme_ring(f.qp);
		cr_assert_eq(nvme_poll(f.qp, done, 4), 0);
		sim_power_cut(&f.power, i);
		cr_assert_eq(nvme_poll(f.qp, done, 4), 1);
		sim_drive_faults(f.sim, &(struct sim_faults){ 0 });
		fixture_reopen(&f);
		cr_assert(block_holds(2, 6));
		io = read_of(&f, 3, 1);
		if (fixture_run(&f, &io) == -ENODATA)
			unreadable++;
		else if (block_holds(3, 7) || block_holds(3, 8))
			whole++;
		else
			garbage++;
		io = read_of(&f, 2, 1);
		cr_assert_eq(fixture_run(&f, &io), 0);
		write_block(3, 9, true);
		io = read_of(&f, 3, 1);
		cr_assert_eq(fixture_run(&f, &io), 0);
	}
	cr_assert(garbage > 30 && unreadable > 30 && whole > 30, "%u %u %u", garbage, unreadable,
		  whole);
}

Test(nvme_sim, power_fails_at_the_nth_write_and_every_command_after_it)
{
	struct nvme_io io;

	up(true, 0);
	sim_power_cut_at(&f.power, 3, 9);
	write_block(0, 1, false);
	flush();
	cr_assert_not(f.power.off);
	io = write_of(&f, 1, 1, 1);
	cr_assert_eq(fixture_run(&f, &io), -ECANCELED);
	cr_assert(f.power.off);
	io = read_of(&f, 0, 1);
	cr_assert_eq(fixture_run(&f, &io), -ECANCELED);
	io = flush_of();
	cr_assert_eq(fixture_run(&f, &io), -ECANCELED);
	fixture_reopen(&f);
	cr_assert(block_holds(0, 1), "flushed before");
}

Test(nvme_sim, copy_of_a_cut_leaves_the_drive_as_it_was_and_equals_the_cut)
{
	struct sim_drive *copy;

	up(true, 512);
	cr_assert_eq(sim_drive_create(&copy, &(struct sim_drive_options){ .nblocks = 64,
									  .atomic_bytes = 512 }),
		     0);
	for (uint64_t b = 0; b < 30; b++)
		write_block(b, b, b % 5 == 0);
	for (uint64_t seed = 0; seed < 3; seed++) {
		sim_drive_cut_copy(f.sim, 9 - seed, copy);
		cr_assert_eq(sim_drive_unflushed(f.sim), 24);
	}
	sim_drive_cut_copy(f.sim, 5, copy);
	sim_power_cut(&f.power, 5);
	cr_assert_eq(memcmp(sim_drive_durable(f.sim), sim_drive_durable(copy), 64 * 4096), 0);
	cr_assert_eq(memcmp(sim_drive_visible(f.sim), sim_drive_visible(copy), 64 * 4096), 0);
	sim_drive_destroy(copy);
}

Test(nvme_sim, same_seed_same_run)
{
	uint8_t *first = NULL;

	for (int run = 0; run < 2; run++) {
		up(true, 512);
		sim_drive_faults(f.sim, &(struct sim_faults){ .write_error_ppm = 300000,
							      .delay_max_ns = 50 });
		for (uint64_t b = 0; b < 60; b++) {
			struct nvme_io io = write_of(&f, b, 4, b);

			(void)!fixture_run(&f, &io);
		}
		sim_power_cut(&f.power, 77);
		if (!first) {
			first = malloc(sim_drive_bytes(f.sim));
			cr_assert_not_null(first);
			memcpy(first, sim_drive_durable(f.sim), sim_drive_bytes(f.sim));
			fixture_down(&f);
		}
	}
	cr_assert_eq(memcmp(first, sim_drive_durable(f.sim), sim_drive_bytes(f.sim)), 0);
	free(first);
}

Test(nvme_sim, clean_shutdown_writes_the_cache_back)
{
	up(true, 0);
	write_block(2, 5, false);
	cr_assert_eq(sim_drive_unflushed(f.sim), 1);
	fixture_reopen(&f);
	cr_assert_eq(sim_drive_unflushed(f.sim), 0);
	cr_assert(block_holds(2, 5));
}

Test(nvme_sim, lying_drive_says_durable_and_is_not)
{
	uint32_t kept = 0;

	up(true, 0);
	for (uint32_t i = 0; i < 60; i++) {
		write_block(1, 1, true);
		sim_drive_faults(f.sim,
				 &(struct sim_faults){ .ignore_flush = true, .ignore_fua = true });
		write_block(1, 2, true);
		flush();
		sim_drive_faults(f.sim, &(struct sim_faults){ 0 });
		sim_power_cut(&f.power, i);
		fixture_reopen(&f);
		kept += block_holds(1, 2);
	}
	cr_assert(kept > 10 && kept < 50, "%u", kept);
}

Test(nvme_sim, flipped_bit_is_read_back_flipped)
{
	struct nvme_io io;
	uint8_t before;

	up(true, 0);
	write_block(4, 4, true);
	before = sim_drive_durable(f.sim)[4 * 4096 + 17];
	sim_drive_flip(f.sim, 4 * 4096 + 17, 3);
	io = read_of(&f, 4, 1);
	cr_assert_eq(fixture_run(&f, &io), 0);
	cr_assert_eq(f.buf[17], before ^ 8);
	f.buf[17] ^= 8;
	cr_assert(fixture_holds(&f, 1, 4), "nothing else changed");
}

Test(nvme_sim, read_lies_flip_one_bit_and_dropped_writes_leave_the_old)
{
	struct nvme_io io;
	uint32_t wrong_bits = 0;

	up(false, 0);
	write_block(4, 4, false);
	sim_drive_faults(
		f.sim, &(struct sim_faults){ .flip_read_ppm = 1000000, .drop_write_ppm = 1000000 });
	write_block(4, 5, false);
	io = read_of(&f, 4, 1);
	cr_assert_eq(fixture_run(&f, &io), 0);
	for (uint32_t i = 0; i < 4096; i++)
		wrong_bits += (uint32_t)__builtin_popcount(f.buf[i] ^
							   sim_drive_durable(f.sim)[4 * 4096 + i]);
	cr_assert_eq(wrong_bits, 1);
	cr_assert(block_holds(4, 4));
}

Test(nvme_sim, restored_image_is_what_is_read)
{
	uint8_t *image = calloc(64, 4096);
	struct nvme_io io;

	up(true, 0);
	write_block(0, 1, false);
	memset(image + 4096, 0x5a, 4096);
	sim_drive_restore(f.sim, image);
	io = read_of(&f, 0, 2);
	cr_assert_eq(fixture_run(&f, &io), 0);
	cr_assert_eq(memcmp(f.buf, image, 8192), 0);
	free(image);
}

/* ---- deallocated ------------------------------------------------------------------------- */

static void free_blocks(uint64_t block, uint32_t nblocks)
{
	struct nvme_io io = { .op = NVME_DEALLOCATE, .block = block, .nblocks = nblocks };

	cr_assert_eq(fixture_run(&f, &io), 0);
}

/* How many of blocks 0 .. 31 hold what was written there. */
static uint32_t intact(void)
{
	uint32_t count = 0;

	for (uint32_t b = 0; b < 32; b++)
		count += holds(sim_drive_visible(f.sim) + b * NVME_BLOCK_SIZE, NVME_BLOCK_SIZE,
			       100 + b);
	return count;
}

Test(nvme_sim, what_was_deallocated_may_be_garbage_at_once_or_after_a_cut_until_it_is_written)
{
	uint32_t then, after;

	fixture_up(&f,
		   &(struct sim_drive_options){
			   .nblocks = 64, .volatile_cache = true, .frees = true, .seed = 1 },
		   32);
	for (uint32_t b = 0; b < 32; b++)
		write_block(b, 100 + b, true);
	write_block(40, 7, true);
	cr_assert_eq(intact(), 32);
	free_blocks(0, 32);
	then = intact();
	cr_assert(then > 0 && then < 32, "%u", then);
	write_block(3, 103, true);
	sim_power_cut(&f.power, 5);
	fixture_reopen(&f);
	after = intact();
	cr_assert(after < then, "%u, %u before", after, then);
	cr_assert(block_holds(3, 103), "it was written again");
	cr_assert(block_holds(40, 7), "it was none of them");
	cr_assert_eq(sim_drive_counts(f.sim).free_count, 1);
}
