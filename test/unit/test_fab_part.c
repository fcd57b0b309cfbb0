/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The payload of a read over TCP: behind a PART, or behind the reply that is sent next.  The
 * received headers show which of the two; the bytes and the memory are the same either way.
 */
#include "fabric/client/fab_client_internal.h"
#include "fabric/hello/fab_server_internal.h"
#include "test/lib/fab_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

enum { WINDOW = 8 * BLOCK_SIZE, POOL = 1 << 20 };

static struct fab_rig rig;
static uint8_t source[WINDOW];

static void begin(void)
{
	fab_rig_serve(&rig, "tcp", NULL);
	fab_rig_connect(&rig, POOL);
	for (uint32_t i = 0; i < sizeof(source); i++)
		source[i] = (uint8_t)(i * 2654435761u >> 24 | 1);
	memset(fab_region_memory(rig.region), 0, POOL);
}

TestSuite(fab_part, .init = begin, .timeout = 60);

/* The i-th window of the pool. */
static struct fab_call read_call(uint32_t i)
{
	return (struct fab_call){
		.type = FAB_READ,
		.args.read.length_bytes = WINDOW,
		.region = rig.region,
		.window_offset = (uint64_t)i * WINDOW,
		.window_bytes = WINDOW,
	};
}

static struct fab_req *asked(struct fab_call *call)
{
	cr_assert_eq(fab_submit(rig.conn, call), 0);
	return fab_rig_request(&rig);
}

static void part(struct fab_req *req, struct fab_piece *piece, uint32_t at, uint32_t bytes)
{
	*piece = (struct fab_piece){ .bytes = source + at, .window_at = at, .length_bytes = bytes };
	cr_assert_eq(fab_send_part(req, piece), 0);
}

static void reply(struct fab_req *req, uint32_t bytes)
{
	fab_reply_read(req, bytes, (uint32_t[FAB_SUMS_INLINE]){ 0 }, 0);
}

/* Headers that came until `calls` were back, whatever way they came. */
static uint64_t headers(uint32_t calls)
{
	uint64_t before = rig.conn->rx_count;

	while (calls-- > 0)
		fab_rig_done(&rig, rig.conn);
	return rig.conn->rx_count - before;
}

static bool holds(uint32_t window, uint32_t at, uint32_t bytes)
{
	const uint8_t *w = (const uint8_t *)fab_region_memory(rig.region) + window * WINDOW;

	return memcmp(w + at, source + at, bytes) == 0 && w[at + bytes] == 0 &&
	       (at == 0 || w[at - 1] == 0);
}

/* Returns how often the piece, whose memory was sent, comes back: once. */
static uint32_t comes_back(struct fab_piece *piece, int status)
{
	uint32_t back = 0;
	struct fab_event event;

	for (int i = 0; i < 100; i++) {
		fab_rig_control(&rig);
		if (!fab_server_poll(rig.srv, rig.now_ns, &event, 1))
			continue;
		if (event.type == FAB_EVENT_CANCEL)
			fab_reply(event.req, -ECONNRESET, NULL, 0);
		back += event.type == FAB_EVENT_SENT && event.piece == piece &&
			event.status == status;
	}
	return back;
}

Test(fab_part, whole_blocks_come_behind_the_reply)
{
	static const struct {
		uint32_t at, bytes;
		uint64_t headers;
	} rows[] = {
		{ 0, BLOCK_SIZE, 1 }, { 0, 7 * BLOCK_SIZE, 1 }, { BLOCK_SIZE, 2 * BLOCK_SIZE, 1 },
		{ 0, 100, 2 },        { 0, BLOCK_SIZE + 1, 2 }, { 64, BLOCK_SIZE, 2 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fab_call call = read_call((uint32_t)i);
		struct fab_req *req = asked(&call);
		struct fab_piece piece;

		part(req, &piece, rows[i].at, rows[i].bytes);
		reply(req, rows[i].bytes);
		cr_assert_eq(headers(1), rows[i].headers, "row %zu", i);
		cr_assert_eq(call.length_bytes, rows[i].bytes);
		cr_assert(holds((uint32_t)i, rows[i].at, rows[i].bytes), "row %zu", i);
		cr_assert_eq(comes_back(&piece, 0), 1, "row %zu", i);
	}
	fab_rig_end(&rig);
}

Test(fab_part, a_body_behind_the_header_comes_before_the_payload)
{
	struct fab_call call = read_call(0);
	struct fab_req *req = asked(&call);
	const uint32_t sums[FAB_SUMS_INLINE] = { 1, 2, 3, 4, 5, 6, 7 };
	struct fab_piece piece;

	part(req, &piece, 0, 7 * BLOCK_SIZE);
	fab_reply_read(req, 7 * BLOCK_SIZE, sums, 0);
	cr_assert_eq(headers(1), 1);
	cr_assert_eq(fab_call_sum(&call, 6), 7);
	cr_assert(holds(0, 0, 7 * BLOCK_SIZE));
	fab_rig_end(&rig);
}

Test(fab_part, only_the_last_of_several_goes_along)
{
	struct fab_call call = read_call(0);
	struct fab_req *req = asked(&call);
	struct fab_piece piece[3];

	for (uint32_t i = 0; i < 3; i++)
		part(req, &piece[i], i * BLOCK_SIZE, BLOCK_SIZE);
	reply(req, 3 * BLOCK_SIZE);
	cr_assert_eq(headers(1), 3);
	cr_assert(holds(0, 0, 3 * BLOCK_SIZE));
	fab_rig_end(&rig);
}

Test(fab_part, what_was_flushed_or_is_another_s_does_not)
{
	struct fab_call call[3] = { read_call(0), read_call(1), read_call(2) };
	struct fab_req *req[3];
	struct fab_piece piece[3];

	for (uint32_t i = 0; i < 3; i++)
		req[i] = asked(&call[i]);
	part(req[0], &piece[0], 0, BLOCK_SIZE);
	fab_server_flush(rig.srv);
	reply(req[0], BLOCK_SIZE);
	cr_assert_eq(headers(1), 2, "it had left before its reply was known");
	part(req[1], &piece[1], 0, BLOCK_SIZE);
	part(req[2], &piece[2], 0, BLOCK_SIZE);
	reply(req[1], BLOCK_SIZE);
	reply(req[2], BLOCK_SIZE);
	cr_assert_eq(headers(2), 4, "between each part and its reply is something else");
	for (uint32_t i = 0; i < 3; i++)
		cr_assert(holds(i, 0, BLOCK_SIZE), "window %u", i);
	fab_rig_end(&rig);
}

Test(fab_part, an_error_takes_nothing_along)
{
	struct fab_call call = read_call(0);
	struct fab_req *req = asked(&call);
	struct fab_piece piece;

	part(req, &piece, 0, BLOCK_SIZE);
	fab_reply(req, -EIO, NULL, 0);
	cr_assert_eq(headers(1), 2);
	cr_assert_eq(call.status, -EIO);
	cr_assert_eq(comes_back(&piece, 0), 1);
	fab_rig_end(&rig);
}

Test(fab_part, held_back_when_the_session_ends_it_comes_back_all_the_same)
{
	struct fab_call call = read_call(0);
	struct fab_req *req = asked(&call);
	struct fab_piece piece;

	part(req, &piece, 0, BLOCK_SIZE);
	fab__session_fail(fab__session_of(req->session), -ECONNRESET);
	cr_assert_eq(comes_back(&piece, -ECONNRESET), 1);
	fab_rig_end(&rig);
}

Test(fab_part, so_does_what_a_reply_had_taken_along)
{
	struct fab_call call = read_call(0);
	struct fab_req *req = asked(&call);
	struct fab__session *s = fab__session_of(req->session);
	struct fab_piece piece;

	part(req, &piece, 0, BLOCK_SIZE);
	reply(req, BLOCK_SIZE);
	cr_assert_lt(s->req_free_count, s->pub.limits.credits, "the reply is on its way");
	fab__session_fail(s, -ECONNRESET);
	cr_assert_eq(s->req_free_count, s->pub.limits.credits);
	cr_assert_eq(comes_back(&piece, -ECONNRESET), 1);
	fab_rig_end(&rig);
}

Test(fab_part, what_is_held_back_leaves_with_the_next_flush_if_nothing_else_is_due)
{
	struct fab_call call = read_call(0);
	struct fab_req *req = asked(&call);
	struct fab__session *s = fab__session_of(req->session);
	struct fab_piece piece;

	for (int i = 0; i < 3; i++) { /* nothing is to flush: not even EPOLLOUT's first word */
		struct fab_event event;

		cr_assert_eq(fab_server_poll(rig.srv, rig.now_ns, &event, 1), 0);
		fab_server_flush(rig.srv);
	}
	part(req, &piece, 0, BLOCK_SIZE);
	fab_server_flush(rig.srv);
	cr_assert_null(s->held);
	cr_assert_eq(comes_back(&piece, 0), 1);
	reply(req, BLOCK_SIZE);
	cr_assert_eq(headers(1), 2);
	fab_rig_end(&rig);
}
