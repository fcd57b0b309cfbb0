/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Many files at once, on drives whose zones take their time to open: each drive gets its part of
 * them, also while puts wait for a zone. */
#include "appliance/core/app_op.h"
#include "base/crc32c.h"
#include "meta/meta_store.h"
#include "test/sim/sim_lan.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { DRIVES = 4, FILES = 200, AT_ONCE = SIM_CALLS_MAX, FILE_BLOCKS = 6 };

static struct sim_world w;
static struct fab_put_item item[AT_ONCE];
static char path[AT_ONCE][16];

static uint64_t slow_writes(void *user, const struct nvme_soft_cmd *cmd)
{
	(void)user;
	return cmd->opcode == NVME_CMD_WRITE ? 3000000 : 0;
}

static void put(uint32_t file)
{
	const uint32_t bytes = FILE_BLOCKS * BLOCK_SIZE;
	struct sim_call *c = sim_world_call(&w);
	const uint32_t at = (uint32_t)(c - w.calls);
	le32 *sums = (le32 *)(c->window + bytes);

	memset(c->window, (int)file, bytes);
	for (uint32_t i = 0; i < FILE_BLOCKS; i++)
		sums[i] = le32_of(crc32c_block(c->window + i * BLOCK_SIZE, BLOCK_SIZE));
	snprintf(path[at], sizeof(path[at]), "/f%u", file);
	item[at] = (struct fab_put_item){ .name = { .by = FAB_BY_PATH,
						    .name = path[at],
						    .name_bytes = (uint16_t)strlen(path[at]) },
					  .mode = 0600,
					  .mtime_ns = 1,
					  .size_bytes = bytes,
					  .sums_at = bytes };
	c->call.type = FAB_PUT;
	c->call.region = w.region[c->lane];
	c->call.window_offset = (uint64_t)at * SIM_WINDOW;
	c->call.window_bytes = SIM_WINDOW;
	c->call.args.batch.count = 1;
	c->call.args.batch.puts = &item[at];
	sim_world_submit(&w, c, false);
}

/* All at once, as many as there are calls. */
static void put_all(void)
{
	uint32_t begun = 0, done = 0, flying = 0;

	while (done < FILES) {
		struct sim_call *over[AT_ONCE];
		uint32_t n;

		for (; begun < FILES && flying < AT_ONCE; flying++)
			put(begun++);
		n = sim_world_step(&w, over, AT_ONCE);
		for (uint32_t i = 0; i < n; i++) {
			struct fab_answer answer;

			cr_assert_eq(over[i]->call.status, 0);
			cr_assert_eq(fab_call_answer(&over[i]->call, 0, &answer), 0);
			cr_assert_eq(answer.status, 0, "%s", strerror(-answer.status));
			over[i]->in_flight = false;
		}
		done += n;
		flying -= n;
	}
}

static uint32_t blocks_on(uint32_t drive)
{
	const struct meta__zones *z = w.core->meta->zones;
	uint32_t blocks = 0;

	for (uint32_t i = z->geo.zone_base[drive];
	     i < z->geo.zone_base[drive] + z->geo.zone_count[drive]; i++)
		blocks += z->zone[i].kind == META__ZONE_DATA ? z->zone[i].live : 0;
	return blocks;
}

Test(app_spread, drives_get_alike_while_puts_wait_for_zones, .timeout = 60)
{
	const struct sim_world_cfg cfg = { .seed = 4,
					   .lan = &sim_lan_sockets,
					   .ndrives = DRIVES,
					   .nblocks = 16384,
					   .atomic_bytes = 4096,
					   .nshards = 4,
					   .cache_bytes = 16u << 20,
					   .staging_bytes = 16u << 20,
					   .leap_max_ns = 200000,
					   .ops_max = 64 };

	sim_world_create(&w, &cfg);
	cr_assert_eq(sim_world_begin(&w, APP_BOOT_FORMAT), 0, "%s", w.why);
	for (uint32_t d = 0; d < DRIVES; d++)
		sim_drive_faults(w.sim[d], &(struct sim_faults){ .dawdle_ns = slow_writes });
	put_all();
	for (uint32_t d = 0; d < DRIVES; d++)
		cr_expect(blocks_on(d) * 5 > FILES * FILE_BLOCKS, "drive %u has %u of %u blocks", d,
			  blocks_on(d), FILES * FILE_BLOCKS);
	sim_world_destroy(&w);
}
