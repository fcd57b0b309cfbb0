/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Capsules, after the hello, into either end: | side | pieces of a stream |.
 *
 *   each piece:  | length 1 | header, `length` bytes of it, the rest zeros | body or payload: zeros
 * |
 *
 * Magic, version and checks are made good.  The end takes its requests, answers some, is cut off at
 * last; and nothing may be out afterwards.
 */
#include "test/lib/sim_net.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const struct fab_limits limits = {
	.credits = 4,
	.long_bodies = 2,
	.batch_max = 16,
	.window_max_bytes = 1 << 20,
	.pool_max_bytes = 16 << 20,
};

static struct sim_net net;
static struct sim_link ends[2];

static void inject(struct sim_link *end, const uint8_t *from, uint32_t from_bytes)
{
	static uint8_t out[64 + FAB_LONG_BODY_MAX];
	struct fab_hdr_wire w = { 0 };
	uint32_t bytes;

	memcpy((uint8_t *)&w, from, min_u32(from_bytes, sizeof(w)));
	w.magic = le32_of(FAB_MAGIC);
	w.version = 1;
	bytes = le32_get(w.body_bytes);
	if (bytes > FAB_LONG_BODY_MAX)
		bytes = 0;
	memset(out + 64, 0, bytes);
	if (from_bytes > 64) /* some of the body, too */
		memcpy(out + 64, from + 64, min_u32(from_bytes - 64, bytes));
	if (bytes > FAB_SMALL_MAX)
		w.body.crc32c = le32_of(crc32c(out + 64, bytes));
	w.check = le32_of(fab__hdr_check(&w));
	memcpy(out, &w, 64);
	sim_link_inject(end, out, 64 + (bytes > FAB_SMALL_MAX ? bytes : 0));
	if (w.type == FAB_PART || w.type == FAB_DATA)
		sim_link_inject(end, out + 64, 5000);
	else if (w.type == FAB_REPLY) /* whole, so that the next bytes are a capsule again */
		sim_link_inject(end, out + 64,
				min_u32(le32_get(w.window_blocks), FAB_LONG_BODY_MAX / BLOCK_SIZE) *
					BLOCK_SIZE);
}

static uint32_t pulled_bytes;
static uint8_t pull_space[FAB_PAYLOAD_MAX];

/* An appliance that pulls what it can, answers at once, and obeys a cancel. */
static void serve(struct fab_server *srv)
{
	static struct fab_piece piece;
	static bool piece_out;
	struct fab_event events[4];
	uint32_t n = fab_server_poll(srv, net.now_ns, events, 4);

	for (uint32_t i = 0; i < n; i++) {
		struct fab_event *e = &events[i];

		if (e->type == FAB_EVENT_PULLED) {
			pulled_bytes += e->status == 0 ? e->piece->length_bytes : 0;
			piece_out = false;
			fab_reply(e->piece->req, e->status, NULL, 0);
		} else if (e->type == FAB_EVENT_REQUEST && e->req->window.pool && !piece_out) {
			piece = (struct fab_piece){ .bytes = pull_space, .length_bytes = 4096 };
			piece_out = fab_pull(e->req, &piece) == 0;
			if (!piece_out)
				fab_reply(e->req, -ECONNRESET, NULL, 0);
		} else if (e->type == FAB_EVENT_REQUEST) {
			fab_reply(e->req, -EIO, NULL, 0);
		}
	}
}

static void feed(struct sim_link *end, const uint8_t **at, const uint8_t *end_at)
{
	uint32_t n;

	if (*at == end_at)
		return;
	n = min_u32(1 + **at, (uint32_t)(end_at - *at - 1));
	inject(end, *at + 1, n);
	*at += 1 + n;
}

static void call_begin(struct fab_conn *conn, struct fab_call *call, struct fab_region *region)
{
	*call = (struct fab_call){ .type = FAB_READ, .window_bytes = 65536, .region = region };
	call->args.read.length_bytes = 60000;
	ASSERT(fab_submit(conn, call) == 0);
}

/* The calls, answered by whatever comes. */
static void poll_client(struct fab_conn *conn)
{
	struct fab_call *done[4];
	uint32_t n = fab_poll(conn, net.now_ns, done, 4);

	for (uint32_t i = 0; i < n; i++)
		if (done[i]->status == 0)
			for (uint32_t b = 0; b < div_up(done[i]->length_bytes, BLOCK_SIZE); b++)
				(void)fab_call_sum(done[i], b);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct fab_server_cfg cfg = { .key.id = "fuzz", .sessions_max = 1, .limits = limits };
	const uint8_t *at = bytes + 1, *end = bytes + size;
	static struct fab_call calls[4];
	struct fab_control_event control;
	struct fab_region *region;
	struct fab_server *srv;
	struct fab_conn *conn;

	if (size == 0)
		return 0;
	sim_net_init(&net, 1, 0);
	sim_link_pair(&net, &ends[0], &ends[1]);
	ASSERT(fab_server_create(&srv, &cfg) == 0);
	conn = sim_net_connect(srv, &ends[0], &ends[1], &limits);
	ASSERT(fab_pool_add(conn, 4096, &region) == 0);
	serve(srv);
	serve(srv);
	poll_client(conn);
	ASSERT(fab_region_status(region) == 0);
	if (!(bytes[0] & 1))
		for (int i = 0; i < 4; i++)
			call_begin(conn, &calls[i], region);
	while (at < end) {
		feed(&ends[bytes[0] & 1 ? 0 : 1], &at, end);
		net.now_ns += 1000000;
		if (bytes[0] & 1)
			serve(srv);
		else
			poll_client(conn);
	}
	sim_link_cut(&ends[0]);
	for (int i = 0; i < 4; i++) {
		serve(srv);
		if (fab_server_control_step(srv, 0, &control, 1))
			ASSERT(control.type == FAB_CONTROL_REFUSED);
	}
	fab_close(conn);
	fab_server_destroy(srv); /* ASSERTs that no session is left */
	sim_link_free(&ends[0]);
	sim_link_free(&ends[1]);
	return 0;
}
