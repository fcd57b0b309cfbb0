/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Reads over shared memory are timed and not hedged: a drive writes them into the client's window,
 * which is the client's again with the reply.  test_app_hedge.c has the others.
 */
#include "appliance/core/app_op.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "test/sim/sim_world.h"

#include <criterion/criterion.h>
#include <string.h>

enum { DRIVES = 2, READS = 40 };

static struct sim_world w;
static bool holds;

static uint64_t hold(void *user, const struct nvme_soft_cmd *cmd)
{
	(void)user;
	return holds && cmd->opcode == NVME_CMD_READ ? NS_PER_S : 0;
}

static void begin(void)
{
	const struct sim_world_cfg cfg = { .seed = 4,
					   .ndrives = DRIVES,
					   .nblocks = 4096,
					   .atomic_bytes = 4096,
					   .nshards = 4,
					   .copies = 2,
					   .cache_bytes = 4u << 20,
					   .hedge_reads = 2,
					   .leap_max_ns = 200000,
					   .ops_max = 16 };

	sim_world_create(&w, &cfg);
	cr_assert_eq(sim_world_begin(&w, APP_BOOT_FORMAT), 0, "%s", w.why);
	sim_world_faults(&w, &(struct sim_faults){ .dawdle_ns = hold });
}

static void end(void)
{
	sim_world_destroy(&w);
}

TestSuite(app_hedge_shm, .init = begin, .fini = end, .timeout = 60);

static const struct fab_name name = { .by = FAB_BY_PATH, .name = "/a", .name_bytes = 2 };

static void put(void)
{
	const struct fab_put_item item = { .name = name,
					   .mode = 0600,
					   .mtime_ns = 1,
					   .size_bytes = BLOCK_SIZE,
					   .sums_at = BLOCK_SIZE };
	struct sim_call *c = sim_world_call(&w);
	struct fab_answer answer;
	le32 sum;

	memset(c->window, 'a', BLOCK_SIZE);
	sum = le32_of(crc32c_block(c->window, BLOCK_SIZE));
	memcpy(c->window + BLOCK_SIZE, &sum, sizeof(sum));
	c->call.type = FAB_PUT;
	c->call.args.batch.count = 1;
	c->call.args.batch.puts = &item;
	cr_assert_eq(sim_world_do(&w, c, true), 0);
	cr_assert_eq(fab_call_answer(&c->call, 0, &answer), 0);
	cr_assert_eq(answer.status, 0);
}

/* Returns how long it took. */
static uint64_t get(void)
{
	const struct fab_read_item item = { .name = name, .length_bytes = FAB_TO_END };
	const uint64_t from_ns = w.power.now_ns;
	struct sim_call *c = sim_world_call(&w);
	struct fab_answer answer;

	c->call.type = FAB_READ_BATCH;
	c->call.args.batch.count = 1;
	c->call.args.batch.reads = &item;
	cr_assert_eq(sim_world_do(&w, c, true), 0);
	cr_assert_eq(fab_call_answer(&c->call, 0, &answer), 0);
	cr_assert_eq(answer.status, 0);
	cr_assert(c->window[0] == 'a' && c->window[BLOCK_SIZE - 1] == 'a');
	return w.power.now_ns - from_ns;
}

Test(app_hedge_shm, late_reads_are_waited_for)
{
	uint64_t hedged = 0;
	uint32_t seen = 0;

	put();
	for (uint32_t i = 0; i < READS; i++)
		(void)get();
	holds = true;
	cr_assert_geq(get(), NS_PER_S);
	for (uint32_t c = 0; c < w.ncores; c++)
		for (uint32_t d = 0; d < DRIVES; d++) {
			hedged += w.each[c]->hedges.drive[d].hedged;
			seen += w.each[c]->hedges.drive[d].seen[0];
		}
	cr_assert_eq(hedged, 0);
	cr_assert_eq(seen, READS + 1);
}
