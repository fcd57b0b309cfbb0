/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Several connections of one session over verbs in memory: what they have in common, and until
 * when. */
#include "fabric/client/fab_client_internal.h"
#include "test/lib/fab_rig.h"
#include "test/lib/fake_verbs.h"

#include <criterion/criterion.h>
#include <string.h>

#define POOL  (4u << 20)
#define LANES 3u

static struct fab_rig rig;
static struct fab_conn *lane[LANES];
static struct fab_region *region[LANES];
static _Alignas(FAB_POOL_ALIGN) uint8_t pool[POOL];
static _Alignas(4096) uint8_t staging[1u << 20];

/* One lane more, with `pool` registered; how much memory it locks that was not locked before. */
static uint64_t lane_begins(uint32_t i)
{
	struct fab_connect_cfg cfg = { .address = rig.address, .key = fab_rig_key };
	uint64_t before = fake_verbs_stat.locked_bytes;

	if (i > 0)
		cfg = (struct fab_connect_cfg){ .address = rig.address,
						.lane_of = lane[0],
						.lane = i };
	cr_assert_eq(fab_rig_dial(&rig, &cfg, &lane[i]), 0);
	cr_assert_eq(fab_pool_lend(lane[i], pool, POOL, -1, &region[i]), 0);
	rig.conn = lane[i];
	fab_rig_settle(&rig);
	cr_assert_eq(fab_region_status(region[i]), 0);
	return fake_verbs_stat.locked_bytes - before;
}

static void lane_ends(uint32_t i)
{
	fab_close(lane[i]);
	lane[i] = NULL;
	rig.conn = NULL;
	fab_rig_settle(&rig);
}

/* Bytes that the appliance writes into the pool by lane `i`: are they there? */
static bool lands(uint32_t i)
{
	struct fab_piece piece = { .bytes = staging, .length_bytes = 50000 };
	struct fab_call call = {
		.type = FAB_READ,
		.args.read = { .length_bytes = 50000 },
		.region = region[i],
		.window_offset = 4096 * i,
		.window_bytes = 53248,
	};
	uint32_t sums[FAB_SUMS_INLINE] = { 0 };
	struct fab_req *req;

	memset(staging, (int)(i + 1), piece.length_bytes);
	rig.conn = lane[i];
	cr_assert_eq(fab_submit(lane[i], &call), 0);
	req = fab_rig_request(&rig);
	cr_assert_eq(fab_send_part(req, &piece), 0);
	fab_reply_read(req, 50000, sums, 0);
	cr_assert_eq(fab_rig_done(&rig, lane[i]), &call);
	fab_rig_settle(&rig);
	return call.status == 0 && memcmp(pool + 4096 * i, staging, piece.length_bytes) == 0;
}

Test(fab_rdma_lanes, a_pool_is_locked_once_and_until_the_last_lane_has_ended)
{
	struct fake_verbs_cfg verbs = { .seed = 61 };
	struct fab_server_cfg cfg = {
		.key = fab_rig_key,
		.lanes_max = LANES,
		.limits = { .credits = 8, .long_bodies = 1 },
	};
	uint32_t without;
	uint64_t locked;

	fake_verbs_begin(&verbs);
	fab_rig_serve(&rig, "rdma://10.0.0.1:0", &cfg);
	fab_server_memory(rig.srv, staging, sizeof(staging));
	(void)lane_begins(0); /* the appliance's device is there from now on */
	lane_ends(0);
	without = fake_verbs_objects();
	locked = fake_verbs_stat.locked_bytes;

	cr_assert_geq(lane_begins(0), POOL);
	cr_assert_lt(lane_begins(1), POOL);
	cr_assert_lt(lane_begins(2), POOL);
	for (uint32_t i = 0; i < LANES; i++)
		cr_assert(lands(i), "lane %u", i);
	lane_ends(0); /* who registered it goes first */
	cr_assert(lands(1));
	cr_assert(lands(2));
	lane_ends(1);
	cr_assert_geq(fake_verbs_stat.locked_bytes - locked, POOL);
	cr_assert(lands(2));
	lane_ends(2);
	cr_assert_eq(fake_verbs_stat.locked_bytes, locked);
	cr_assert_eq(fake_verbs_objects(), without);
	fab_rig_end(&rig);
	fake_verbs_end();
}
