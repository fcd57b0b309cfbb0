/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* fab_conn_came(): "Another number whenever something has come: half an answer, too." */
#include "base/crc32c.h"
#include "fabric/client/fab_client_internal.h"
#include "test/lib/sim_net.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

static const struct fab_limits lim = {
	.credits = 4,
	.long_bodies = 1,
	.batch_max = 16,
	.window_max_bytes = 1 << 20,
	.pool_max_bytes = 8 << 20,
};

Test(fab_came, another_number_whenever_something_has_come)
{
	struct fab_server_cfg cfg = { .key.id = "sim", .sessions_max = 1, .limits = lim };
	struct fab_call call = { .type = FAB_READ, .window_bytes = 8 * BLOCK_SIZE }, *done;
	struct fab_read_reply_wire read = { .length_bytes = le32_of(8 * BLOCK_SIZE) };
	static struct sim_net net;
	static struct sim_link ends[2];
	static uint8_t out[64 + 40 + 8 * BLOCK_SIZE];
	uint8_t *at = out;
	struct fab_hdr_wire w;
	struct fab_event event;
	struct fab_server *srv;
	struct fab_conn *conn;
	uint8_t body[40] = { 0 };
	uint64_t before;

	sim_net_init(&net, 1, 0);
	sim_link_pair(&net, &ends[0], &ends[1]);
	ASSERT(fab_server_create(&srv, &cfg) == 0);
	conn = sim_net_connect(srv, &ends[0], &ends[1], &lim);
	ASSERT(fab_server_poll(srv, 0, &event, 1) == 1);
	cr_assert_eq(fab_pool_add(conn, 1, &call.region), 0);
	cr_assert_eq(fab_poll(conn, 0, &done, 1), 0);
	cr_assert_eq(fab_server_poll(srv, 0, &event, 1), 0);
	cr_assert_eq(fab_poll(conn, 0, &done, 1), 0);
	call.args.read.length_bytes = 8 * BLOCK_SIZE;
	cr_assert_eq(fab_submit(conn, &call), 0);

	memcpy(body, &read, sizeof(read));
	fab__hdr_build(&w, FAB_REPLY, conn->slots[0].id);
	w.body_bytes = le32_of(40);
	w.body.crc32c = le32_of(crc32c(body, 40));
	w.window_blocks = le32_of(8);
	w.check = le32_of(fab__hdr_check(&w));
	memcpy(out, &w, 64);
	memcpy(out + 64, body, 40);
	memset(out + 104, 0xaa, 8 * BLOCK_SIZE);

	sim_link_inject(&ends[1], at, 64 + 20); /* the header and half of the body */
	at += 64 + 20;
	cr_assert_eq(fab_poll(conn, 0, &done, 1), 0);
	before = fab_conn_came(conn);
	sim_link_inject(&ends[1], at, 20); /* the other half */
	at += 20;
	sim_link_inject(&ends[1], at, 20); /* and of the payload as much */
	at += 20;
	cr_assert_eq(fab_poll(conn, 0, &done, 1), 0);
	cr_assert_neq(fab_conn_came(conn), before, "40 bytes have come, and nobody says so");
	cr_assert_eq(sim_net_end(srv, conn, ends), 1);
}

/* Covers cases that behind[] of test_fab_liar.c, with its window of two blocks, does not: a large
 * window, and shm. */
static int hears_payload(uint32_t blocks, bool direct)
{
	static const struct fab_limits wide = {
		.credits = 4,
		.long_bodies = 1,
		.batch_max = 16,
		.window_max_bytes = 8 << 20,
		.pool_max_bytes = 16 << 20,
	};
	struct fab_server_cfg cfg = { .key.id = "sim", .sessions_max = 1, .limits = wide };
	struct fab_call call = { .type = FAB_READ, .window_bytes = 8 << 20 }, *done;
	static struct sim_net net;
	static struct sim_link ends[2];
	struct fab_hdr_wire w;
	struct fab_event event;
	struct fab_server *srv;
	struct fab_conn *conn;
	int status;

	sim_net_init(&net, 1, 0);
	sim_link_pair(&net, &ends[0], &ends[1]);
	ASSERT(fab_server_create(&srv, &cfg) == 0);
	conn = sim_net_connect(srv, &ends[0], &ends[1], &wide);
	ASSERT(fab_server_poll(srv, 0, &event, 1) == 1);
	cr_assert_eq(fab_pool_add(conn, 8 << 20, &call.region), 0);
	cr_assert_eq(fab_poll(conn, 0, &done, 1), 0);
	cr_assert_eq(fab_server_poll(srv, 0, &event, 1), 0);
	cr_assert_eq(fab_poll(conn, 0, &done, 1), 0);
	cr_assert_eq(fab_region_status(call.region), 0);
	call.args.read.length_bytes = 8 << 20;
	cr_assert_eq(fab_submit(conn, &call), 0);
	fab__hdr_build(&w, FAB_REPLY, conn->slots[0].id);
	w.body_bytes = le32_of(8);
	w.window_blocks = le32_of(blocks);
	w.check = le32_of(fab__hdr_check(&w));
	conn->direct = direct;
	sim_link_inject(&ends[1], &w, sizeof(w));
	(void)!fab_poll(conn, 0, &done, 1);
	status = fab_conn_status(conn);
	conn->direct = false;
	ASSERT(sim_net_end(srv, conn, ends) == 1);
	return status;
}

Test(fab_came, more_than_4_mib_behind_a_reply_is_refused)
{
	cr_assert_eq(hears_payload(1024, false), 0);
	cr_assert_eq(hears_payload(1025, false), -EPROTO);
}

Test(fab_came, over_shm_nothing_is_behind_a_reply)
{
	cr_assert_eq(hears_payload(1, true), -EPROTO);
}
