/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * One durable change at a time: what the drives are made to do for it, on a clock of ours, and that
 * it survives a power cut right after its answer.
 */
#include "appliance/core/app_op.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "meta/meta_store.h"
#include "test/sim/sim_world.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { BLOCKS = 2048, FILE_BYTES = 2 * BLOCK_SIZE, CUTS = 24, AT_ONCE = 8 };

static struct sim_world w;
static struct fab_put_item item[AT_ONCE];
static char path[AT_ONCE][16];

static void begin(void)
{
	struct sim_world_cfg cfg = { .seed = 5,
				     .ndrives = 2,
				     .nblocks = BLOCKS,
				     .volatile_cache = true,
				     .atomic_bytes = 4096,
				     .nshards = 4,
				     .cache_bytes = 4u << 20,
				     .ops_max = 16 };

	sim_world_create(&w, &cfg);
	cr_assert_eq(sim_world_begin(&w, APP_BOOT_FORMAT), 0, "%s", w.why);
}

static void end(void)
{
	sim_world_destroy(&w);
}

TestSuite(app_lone, .init = begin, .fini = end, .timeout = 60);

/* ---- calls --------------------------------------------------------------------------------- */

static uint8_t byte_of(uint32_t file, uint32_t i)
{
	return (uint8_t)(file * 37 + i * 11 + i / 251 + 1);
}

/* A put of file `file`, in slot `at` of our own memory. */
static struct sim_call *submit_put(uint32_t file, uint32_t at)
{
	struct sim_call *c = sim_world_call(&w);
	le32 *sums = (le32 *)(c->window + FILE_BYTES);

	for (uint32_t i = 0; i < FILE_BYTES; i++)
		c->window[i] = byte_of(file, i);
	for (uint32_t i = 0; i < FILE_BYTES / BLOCK_SIZE; i++)
		sums[i] = le32_of(crc32c_block(c->window + i * BLOCK_SIZE, BLOCK_SIZE));
	snprintf(path[at], sizeof(path[at]), "/f%u", file);
	item[at] = (struct fab_put_item){
		.name = { .by = FAB_BY_PATH,
			  .name = path[at],
			  .name_bytes = (uint16_t)strlen(path[at]) },
		.mode = 0600,
		.mtime_ns = 1,
		.size_bytes = FILE_BYTES,
		.sums_at = FILE_BYTES,
	};
	c->call.type = FAB_PUT;
	c->call.args.batch.count = 1;
	c->call.args.batch.puts = &item[at];
	sim_world_submit(&w, c, true);
	return c;
}

static void await_put(uint32_t count)
{
	struct sim_call *done[1];
	struct fab_answer answer;

	while (count > 0) {
		if (sim_world_step(&w, done, 1) == 0)
			continue;
		cr_assert_eq(done[0]->call.status, 0);
		cr_assert_eq(fab_call_answer(&done[0]->call, 0, &answer), 0);
		cr_assert_eq(answer.status, 0);
		done[0]->in_flight = false;
		count--;
	}
}

static void put(uint32_t file)
{
	(void)submit_put(file, 0);
	await_put(1);
}

static uint64_t flushes(void)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < w.cfg.ndrives; i++)
		count += sim_drive_counts(w.sim[i]).flush_count;
	return count;
}

static uint64_t log_blocks(void)
{
	return meta__log_blocks(app_core_meta(w.core));
}

/* ---- tests --------------------------------------------------------------------------------- */

Test(app_lone, log_vouches_once_after_a_pause_and_not_for_each_change)
{
	struct sim_call *none[1];
	uint64_t before, start_ns;

	put(0);
	before = log_blocks();
	for (uint32_t i = 1; i <= 10; i++)
		put(i);
	cr_assert_eq(log_blocks(), before + 10, "a block for each change, and no other");
	start_ns = w.power.now_ns;
	while (w.power.now_ns < start_ns + 100 * NS_PER_MS && log_blocks() == before + 10)
		(void)sim_world_step(&w, none, 0);
	cr_assert_eq(log_blocks(), before + 11, "the one that vouches for the last");
	cr_assert_lt(w.power.now_ns, start_ns + 20 * NS_PER_MS);
	for (uint32_t i = 0; i < 1000 && w.power.now_ns < start_ns + 500 * NS_PER_MS; i++) {
		cr_assert_eq(log_blocks(), before + 11, "and no more of them");
		(void)sim_world_step(&w, none, 0);
	}
}

Test(app_lone, lone_put_waits_for_no_flush)
{
	uint64_t before;

	put(0);
	before = flushes();
	for (uint32_t i = 1; i <= 10; i++)
		put(i);
	cr_assert_eq(flushes(), before);
}

Test(app_lone, puts_at_once_share_a_flush)
{
	uint64_t before = flushes();

	for (uint32_t i = 0; i < AT_ONCE; i++)
		(void)submit_put(i, i);
	await_put(AT_ONCE);
	cr_assert_gt(flushes(), before);
	cr_assert_lt(flushes(), before + AT_ONCE);
}

static bool is_there(uint32_t file)
{
	struct sim_call *c = sim_world_call(&w);
	struct fab_answer answer;
	struct fab_read_item read = { .name = item[0].name, .length_bytes = FAB_TO_END };

	snprintf(path[0], sizeof(path[0]), "/f%u", file);
	read.name.name = path[0];
	read.name.name_bytes = (uint16_t)strlen(path[0]);
	c->call.type = FAB_READ_BATCH;
	c->call.args.batch.count = 1;
	c->call.args.batch.reads = &read;
	cr_assert_eq(sim_world_do(&w, c, true), 0);
	if (c->call.status || fab_call_answer(&c->call, 0, &answer) || answer.status)
		return false;
	for (uint32_t i = 0; i < FILE_BYTES; i++)
		if (c->window[i] != byte_of(file, i))
			return false;
	return true;
}

Test(app_lone, what_was_answered_survives_the_power_cut_right_after_it)
{
	for (uint32_t file = 0; file < CUTS; file++) {
		put(file);
		sim_world_cut(&w, 100 + file);
		cr_assert_eq(sim_world_begin(&w, APP_BOOT_MOUNT), 0, "%s", w.why);
		cr_assert(is_there(file), "file %u", file);
	}
}
