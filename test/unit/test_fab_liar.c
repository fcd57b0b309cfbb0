/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Peers that hold the key and lie: capsules no honest client or appliance would send.
 *
 * The session ends for it, every request that was taken in is given back, nothing is read or
 * written outside a window.
 */
#include "base/crc32c.h"
#include "base/rand.h"
#include "test/lib/sim_net.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

/* ---- with the key, and bad intentions ----------------------------------------------- */

/* A session over the simulated network whose client's end we hold ourselves. */
struct bad {
	struct sim_net net;
	struct sim_link ends[2];
	struct fab_server *srv;
	struct fab_conn *conn; /* only to make the session; not polled */
};

static const struct fab_limits bad_limits = {
	.credits = 4,
	.long_bodies = 1,
	.batch_max = 16,
	.window_max_bytes = 1 << 20,
	.pool_max_bytes = 8 << 20,
};

static void bad_begin(struct bad *b)
{
	struct fab_server_cfg cfg = { .key.id = "sim", .sessions_max = 1, .limits = bad_limits };
	struct fab_event event;

	sim_net_init(&b->net, 1, 0);
	sim_link_pair(&b->net, &b->ends[0], &b->ends[1]);
	ASSERT(fab_server_create(&b->srv, &cfg) == 0);
	b->conn = sim_net_connect(b->srv, &b->ends[0], &b->ends[1], &bad_limits);
	ASSERT(fab_server_poll(b->srv, 0, &event, 1) == 1);
	ASSERT(event.type == FAB_EVENT_SESSION_NEW);
}

static void bad_end(struct bad *b)
{
	cr_assert_leq(sim_net_end(b->srv, b->conn, b->ends), 1);
}

static void bad_send(struct bad *b, struct fab_hdr_wire *w, const void *body, uint32_t bytes)
{
	uint8_t out[64 + FAB_LONG_BODY_MAX];

	if (bytes > FAB_SMALL_MAX)
		w->body.crc32c = le32_of(crc32c(body, bytes));
	w->check = le32_of(fab__hdr_check(w));
	memcpy(out, w, 64);
	if (bytes > FAB_SMALL_MAX)
		memcpy(out + 64, body, bytes);
	sim_link_inject(&b->ends[0], out, 64 + (bytes > FAB_SMALL_MAX ? bytes : 0));
}

/* The session ends without a request.  Returns how many broke the protocol: it, or nobody. */
static uint64_t expect_thrown_out(struct bad *b)
{
	struct fab_server_stat stat;
	struct fab_event event;
	uint32_t n = 0;

	for (int i = 0; i < 3 && n == 0; i++)
		n = fab_server_poll(b->srv, 0, &event, 1);
	cr_assert_eq(n, 1);
	cr_assert_eq(event.type, FAB_EVENT_SESSION_CLOSED);
	fab_server_stat(b->srv, &stat);
	return stat.protocol_errors;
}

static uint64_t thrown_out_for(void (*sin)(struct bad *b))
{
	uint64_t errors;
	struct bad b;

	bad_begin(&b);
	sin(&b);
	errors = expect_thrown_out(&b);
	bad_end(&b);
	return errors;
}

static void sin_bad_check(struct bad *b)
{
	struct fab_hdr_wire w;

	fab__hdr_build(&w, FAB_PING, 1);
	w.check = le32_of(fab__hdr_check(&w) ^ 1);
	sim_link_inject(&b->ends[0], &w, sizeof(w));
}

static void sin_bad_body(struct bad *b)
{
	struct fab_hdr_wire w;
	uint8_t out[64 + 40] = { 0 };

	fab__hdr_build(&w, FAB_OPEN, 1);
	w.body_bytes = le32_of(40);
	w.body.crc32c = le32_of(12345);
	w.check = le32_of(fab__hdr_check(&w));
	memcpy(out, &w, sizeof(w));
	sim_link_inject(&b->ends[0], out, sizeof(out));
}

static void sin_big_body(struct bad *b)
{
	struct fab_hdr_wire w;

	fab__hdr_build(&w, FAB_READ_BATCH, 1);
	w.body_bytes = le32_of(FAB_LONG_BODY_MAX + 1);
	bad_send(b, &w, NULL, 0);
}

static void sin_reply(struct bad *b) /* what only an appliance may say */
{
	struct fab_hdr_wire w;

	fab__hdr_build(&w, FAB_REPLY, 1);
	bad_send(b, &w, NULL, 0);
}

static void sin_hello_again(struct bad *b)
{
	struct fab_hdr_wire w;

	fab__hdr_build(&w, FAB_HELLO, 1);
	bad_send(b, &w, NULL, 0);
}

static void sin_no_such_region(struct bad *b)
{
	struct fab_hdr_wire w;

	fab__hdr_build(&w, FAB_STATUS, 1);
	w.window_region = le16_of(1);
	w.window_blocks = le32_of(1);
	bad_send(b, &w, NULL, 0);
}

static void sin_region_9(struct bad *b)
{
	struct fab_hdr_wire w;

	fab__hdr_build(&w, FAB_STATUS, 1);
	w.window_region = le16_of(9);
	w.window_blocks = le32_of(1);
	bad_send(b, &w, NULL, 0);
}

static void sin_region_without_window(struct bad *b)
{
	struct fab_hdr_wire w;

	fab__hdr_build(&w, FAB_PING, 1);
	w.window_blocks = le32_of(1);
	bad_send(b, &w, NULL, 0);
}

static void sin_data_unasked(struct bad *b)
{
	struct fab_piece_hdr piece = { .length_bytes = 100, .pull = 3 };
	struct fab_hdr_wire w;

	fab__piece_build(&w, FAB_DATA, 1, &piece);
	bad_send(b, &w, NULL, 0);
}

static void sin_data_huge(struct bad *b)
{
	struct fab_piece_wire piece = { .length_bytes = le32_of(FAB_PAYLOAD_MAX + 1) };
	struct fab_hdr_wire w;

	fab__hdr_build(&w, FAB_DATA, 1);
	w.body_bytes = le32_of(sizeof(piece));
	memcpy(w.small, &piece, sizeof(piece));
	bad_send(b, &w, NULL, 0);
}

static void sin_pool_0(struct bad *b)
{
	struct fab_pool_wire pool = { .size_bytes = le64_of(4096) };
	struct fab_hdr_wire w;

	fab__hdr_build(&w, FAB_POOL_ADD, 1);
	w.body_bytes = le32_of(sizeof(pool));
	memcpy(w.small, &pool, sizeof(pool));
	bad_send(b, &w, NULL, 0);
}

static void sin_pool_empty(struct bad *b)
{
	struct fab_hdr_wire w;

	fab__hdr_build(&w, FAB_POOL_ADD, 1);
	w.window_region = le16_of(1);
	w.body_bytes = le32_of(8);
	bad_send(b, &w, NULL, 0);
}

Test(fab_liar, who_breaks_the_protocol_is_thrown_out)
{
	cr_assert_eq(thrown_out_for(sin_bad_check), 1);
	cr_assert_eq(thrown_out_for(sin_bad_body), 1);
	cr_assert_eq(thrown_out_for(sin_big_body), 1);
	cr_assert_eq(thrown_out_for(sin_reply), 1);
	cr_assert_eq(thrown_out_for(sin_hello_again), 1);
	cr_assert_eq(thrown_out_for(sin_no_such_region), 1);
	cr_assert_eq(thrown_out_for(sin_region_9), 1);
	cr_assert_eq(thrown_out_for(sin_region_without_window), 1);
	cr_assert_eq(thrown_out_for(sin_data_unasked), 1);
	cr_assert_eq(thrown_out_for(sin_data_huge), 1);
	cr_assert_eq(thrown_out_for(sin_pool_0), 1);
	cr_assert_eq(thrown_out_for(sin_pool_empty), 1);
}

static void pool_add(struct bad *b, uint16_t region, uint64_t bytes)
{
	struct fab_pool_wire pool = { .size_bytes = le64_of(bytes) };
	struct fab_hdr_wire w;

	fab__hdr_build(&w, FAB_POOL_ADD, 0);
	w.window_region = le16_of(region);
	w.body_bytes = le32_of(sizeof(pool));
	memcpy(w.small, &pool, sizeof(pool));
	bad_send(b, &w, NULL, 0);
}

Test(fab_liar, a_window_outside_its_pool_is_refused)
{
	static const struct {
		uint32_t block, blocks;
		bool good;
	} windows[] = {
		{ 0, 1, true },           { 511, 1, true },    { 512, 1, false },
		{ 511, 2, false },        { 0, 0, false },     { UINT32_MAX, 1, false },
		{ UINT32_MAX, 2, false }, { 256, 257, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(windows); i++) {
		struct fab_event event;
		struct fab_hdr_wire w;
		struct bad b;

		bad_begin(&b);
		pool_add(&b, 2, 1); /* becomes 2 MiB */
		cr_assert_eq(fab_server_poll(b.srv, 0, &event, 1), 0);
		fab__hdr_build(&w, FAB_STATUS, 1);
		w.window_region = le16_of(2);
		w.window_block = le32_of(windows[i].block);
		w.window_blocks = le32_of(windows[i].blocks);
		bad_send(&b, &w, NULL, 0);
		if (windows[i].good) {
			cr_assert_eq(fab_server_poll(b.srv, 0, &event, 1), 1);
			cr_assert_eq(event.type, FAB_EVENT_REQUEST);
			fab_reply(event.req, 0, NULL, 0);
		} else {
			cr_assert_eq(expect_thrown_out(&b), 1);
		}
		bad_end(&b);
	}
}

Test(fab_liar, who_takes_more_credits_than_granted_is_thrown_out)
{
	struct fab_event events[8];
	struct fab_hdr_wire w;
	struct bad b;

	bad_begin(&b);
	for (uint64_t id = 0; id < 5; id++) {
		fab__hdr_build(&w, FAB_PING, id);
		bad_send(&b, &w, NULL, 0);
	}
	cr_assert_eq(fab_server_poll(b.srv, 0, events, 8), 4);
	cr_assert_eq(fab_server_poll(b.srv, 0, events + 4, 4), 4);
	for (int i = 0; i < 4; i++) {
		cr_assert_eq(events[i].type, FAB_EVENT_REQUEST);
		cr_assert_eq(events[4 + i].type, FAB_EVENT_CANCEL);
		fab_reply(events[4 + i].req, -ECONNRESET, NULL, 0);
	}
	cr_assert_eq(expect_thrown_out(&b), 1);
	bad_end(&b);
}

Test(fab_liar, who_sends_more_long_bodies_than_granted_is_thrown_out)
{
	static uint8_t body[2000];
	struct fab_event event;
	struct fab_hdr_wire w;
	struct bad b;

	bad_begin(&b);
	memset(body, 'n', sizeof(body));
	memset(body, 0, 32);
	body[0] = 1; /* STAT of one name of 1,968 bytes */
	body[8] = FAB_BY_PATH;
	body[10] = 1968 & 255;
	body[11] = 1968 >> 8;
	body[12] = 32;
	for (uint64_t id = 0; id < 2; id++) {
		fab__hdr_build(&w, FAB_STAT, id);
		w.body_bytes = le32_of(sizeof(body));
		bad_send(&b, &w, body, sizeof(body));
	}
	cr_assert_eq(fab_server_poll(b.srv, 0, &event, 1), 1);
	cr_assert_eq(event.type, FAB_EVENT_REQUEST);
	cr_assert_eq(event.req->args.batch.count, 1);
	for (int i = 0; i < 3; i++)
		if (fab_server_poll(b.srv, 0, &event, 1) == 1)
			break;
	cr_assert_eq(event.type, FAB_EVENT_CANCEL);
	fab_reply(event.req, -ECONNRESET, NULL, 0);
	cr_assert_eq(expect_thrown_out(&b), 1);
	bad_end(&b);
}

/*
 * Random bytes, in any order, with good checksums.  They are valid requests, or end their session,
 * once; then all requests in flight are given back (otherwise bad_end() would not return).
 */
Test(fab_liar, noise_with_a_good_checksum_does_no_harm)
{
	uint32_t requests = 0, cancelled = 0, ended = 0;
	struct rand_state rand;

	rand_seed(&rand, 7);
	for (int round = 0; round < 3000; round++) {
		struct fab_event events[4];
		struct fab_server_stat stat;
		struct fab_hdr_wire w;
		uint8_t body[256];
		struct bad b;
		uint32_t n;

		bad_begin(&b);
		pool_add(&b, 1, 2 << 20);
		for (uint64_t k = rand_below(&rand, 3); k > 0; k--) { /* under way when it comes */
			fab__hdr_build(&w, FAB_PING, 100 + k);
			bad_send(&b, &w, NULL, 0);
		}
		for (int k = 0; k < 4; k++) {
			for (uint32_t i = 0; i < sizeof(body); i++)
				body[i] = (uint8_t)(rand_below(&rand, 3) ? rand_below(&rand, 4)
									 : rand_u64(&rand));
			fab__hdr_build(&w, (uint8_t)rand_below(&rand, 40), rand_below(&rand, 3));
			w.window_region = le16_of((uint16_t)rand_below(&rand, 3));
			w.window_block = le32_of((uint32_t)rand_below(&rand, 4));
			w.window_blocks = le32_of((uint32_t)rand_below(&rand, 4));
			w.deadline = le32_of((uint32_t)rand_below(&rand, 2));
			w.body_bytes = le32_of((uint32_t)rand_below(&rand, 80));
			memcpy(w.small, body, FAB_SMALL_MAX);
			bad_send(&b, &w, body, le32_get(w.body_bytes));
		}
		for (int k = 0; k < 6; k++) {
			n = fab_server_poll(b.srv, 1000000, events, 4);
			for (uint32_t i = 0; i < n; i++) {
				requests += events[i].type == FAB_EVENT_REQUEST;
				if (events[i].type != FAB_EVENT_CANCEL)
					continue;
				cancelled++;
				fab_reply(events[i].req, events[i].status, NULL, 0);
			}
		}
		fab_server_stat(b.srv, &stat);
		cr_assert_leq(stat.protocol_errors, 1);
		ended += (uint32_t)stat.protocol_errors;
		bad_end(&b);
	}
	cr_assert(requests > 2000 && cancelled == requests && ended > 2900,
		  "%u requests, %u cancelled, %u sessions ended", requests, cancelled, ended);
}

/* ---- a server that is not an appliance ---------------------------------------------- */

static bool one_sided; /* as over rdma */

static int client_hears(struct fab_hdr_wire *w, const void *body, uint32_t bytes)
{
	struct fab_call call = { .type = FAB_READ, .window_bytes = 8192 }, *done;
	struct bad b;
	uint8_t out[64 + 2048];
	uint32_t n;
	int status;

	bad_begin(&b);
	cr_assert_eq(fab_pool_add(b.conn, 1, &call.region), 0);
	cr_assert_eq(fab_poll(b.conn, 0, &done, 1), 0);
	{
		struct fab_event event;

		cr_assert_eq(fab_server_poll(b.srv, 0, &event, 1), 0);
	}
	cr_assert_eq(fab_poll(b.conn, 0, &done, 1), 0);
	cr_assert_eq(fab_region_status(call.region), 0);
	call.args.read.length_bytes = 5000;
	cr_assert_eq(fab_submit(b.conn, &call), 0);
	if (le64_get(w->request_id) == 1)
		w->request_id = le64_of(b.conn->slots[0].id);
	if (bytes > FAB_SMALL_MAX)
		w->body.crc32c = le32_of(crc32c(body, bytes));
	else if (bytes)
		memcpy(w->small, body, bytes);
	if (bytes)
		w->body_bytes = le32_of(bytes);
	w->check = le32_of(fab__hdr_check(w));
	memcpy(out, w, 64);
	if (bytes > FAB_SMALL_MAX)
		memcpy(out + 64, body, bytes);
	b.conn->onesided = one_sided;
	sim_link_inject(&b.ends[1], out, 64 + (bytes > FAB_SMALL_MAX ? bytes : 0));
	n = fab_poll(b.conn, 0, &done, 1);
	cr_assert_eq(n, 1);
	status = fab_conn_status(b.conn) ? fab_conn_status(b.conn) : call.status;
	bad_end(&b);
	return status;
}

Test(fab_liar, a_client_believes_no_nonsense)
{
	struct fab_read_reply_wire read = { .length_bytes = le32_of(5000) };
	uint8_t body[64] = { 0 };
	struct fab_piece_hdr piece = { .window_at = 8192 - 100, .length_bytes = 101 };
	static const struct { /* payload behind a reply: its window has two blocks */
		uint32_t block, blocks;
		int status;
		bool one_sided;
	} behind[] = {
		{ 0, 3, 0, false },
		{ 1, 2, 0, false },
		{ 2, 1, 0, false },
		{ UINT32_MAX, 1, 0, false },
		{ 0, FAB_WINDOW_MAX / BLOCK_SIZE, 0, false },
		{ 0, FAB_WINDOW_MAX / BLOCK_SIZE + 1, 0, false },
		{ 0, 1, -EIO, false },
		{ 0, 1, 0, true }, /* where payload goes another way */
	};
	struct fab_hdr_wire w;

	memcpy(body, &read, sizeof(read));
	fab__hdr_build(&w, FAB_REPLY, 1);
	cr_assert_eq(client_hears(&w, body, 16), 0); /* two blocks, two sums: good */
	fab__hdr_build(&w, FAB_REPLY, 1);
	cr_assert_eq(client_hears(&w, body, 20), -EPROTO);
	fab__hdr_build(&w, FAB_REPLY, 1);
	cr_assert_eq(client_hears(&w, body, 4), -EPROTO);
	read.length_bytes = le32_of(5001); /* more than was asked for */
	memcpy(body, &read, sizeof(read));
	fab__hdr_build(&w, FAB_REPLY, 1);
	cr_assert_eq(client_hears(&w, body, 16), -EPROTO);
	fab__hdr_build(&w, FAB_REPLY, 2); /* nobody asked */
	cr_assert_eq(client_hears(&w, body, 16), -EPROTO);
	fab__hdr_build(&w, FAB_REPLY, 1);
	w.deadline = le32_of(5); /* a status above 0 */
	cr_assert_eq(client_hears(&w, body, 16), -EPROTO);
	fab__hdr_build(&w, FAB_REPLY, 1);
	w.deadline = le32_of((uint32_t)-5);
	cr_assert_eq(client_hears(&w, NULL, 0), -EIO);
	for (uint32_t i = 0; i < ARRAY_LEN(behind); i++) {
		fab__hdr_build(&w, FAB_REPLY, 1);
		w.window_block = le32_of(behind[i].block);
		w.window_blocks = le32_of(behind[i].blocks);
		w.deadline = le32_of((uint32_t)behind[i].status);
		one_sided = behind[i].one_sided;
		cr_assert_eq(client_hears(&w, body, behind[i].status ? 0 : 16), -EPROTO, "row %u",
			     i);
		one_sided = false;
	}
	fab__piece_build(&w, FAB_PART, 1, &piece); /* beyond the window */
	cr_assert_eq(client_hears(&w, NULL, 0), -EPROTO);
	fab__piece_build(&w, FAB_PULL, 1, &piece);
	cr_assert_eq(client_hears(&w, NULL, 0), -EPROTO);
	fab__hdr_build(&w, FAB_READ, 1);
	cr_assert_eq(client_hears(&w, NULL, 0), -EPROTO);
}
