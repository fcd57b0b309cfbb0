/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The ends of requests: cancelled, late, orphaned by their client, cut off by a stop; and sleep. */
#include "base/crc32c.h"
#include "fabric/client/fab_client_internal.h"
#include "fabric/hello/fab_server_internal.h"
#include "test/lib/fab_rig.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define POOL_BYTES (8u << 20)

static struct fab_rig rig;

struct transport {
	char name[4];
};
static struct transport transports[] = { { "shm" }, { "tcp" } };

#define BOTH(test)                                                                                 \
	ParameterizedTestParameters(fab_session, test)                                             \
	{                                                                                          \
		return cr_make_param_array(struct transport, transports, 2);                       \
	}                                                                                          \
	ParameterizedTest(struct transport *t, fab_session, test)

static void begin(const struct transport *t)
{
	fab_rig_serve(&rig, t->name, NULL);
	fab_rig_connect(&rig, POOL_BYTES);
}

static struct fab_call *ping(void)
{
	struct fab_call *call = calloc(1, sizeof(*call));

	call->type = FAB_PING;
	return call;
}

BOTH(a_cancelled_call_comes_back_when_the_appliance_says_so)
{
	struct fab_call *call;
	struct fab_event event;
	struct fab_call *done;
	struct fab_req *req;

	begin(t);
	call = ping();
	cr_assert_eq(fab_submit(rig.conn, call), 0);
	req = fab_rig_request(&rig);
	fab_cancel(rig.conn, call);
	fab_cancel(rig.conn, call); /* once is enough */
	event = fab_rig_event(&rig);
	cr_assert_eq(event.type, FAB_EVENT_CANCEL);
	cr_assert_eq(event.req, req);
	cr_assert_eq(event.status, -ECANCELED);
	cr_assert_eq(fab_poll(rig.conn, 0, &done, 1), 0); /* its window is still in use */
	fab_reply(req, -ECANCELED, NULL, 0);
	cr_assert_eq(fab_rig_done(&rig, rig.conn), call);
	cr_assert_eq(call->status, -ECANCELED);
	free(call);
	fab_rig_end(&rig);
}

BOTH(a_cancel_that_comes_too_late_is_nothing)
{
	struct fab_call *call, *again;

	begin(t);
	call = ping();
	again = ping();
	cr_assert_eq(fab_submit(rig.conn, call), 0);
	fab_reply(fab_rig_request(&rig), 0, NULL, 0);
	fab_server_flush(rig.srv);
	fab_cancel(rig.conn, call);
	cr_assert_eq(fab_rig_done(&rig, rig.conn), call);
	cr_assert_eq(call->status, 0);
	/* It must not hit the next request. */
	cr_assert_eq(fab_submit(rig.conn, again), 0);
	fab_reply(fab_rig_request(&rig), 0, NULL, 0);
	cr_assert_eq(fab_rig_done(&rig, rig.conn), again);
	free(call);
	free(again);
	fab_rig_end(&rig);
}

BOTH(a_deadline_that_passes_cancels)
{
	struct fab_call *calls[2];
	struct fab_event event;
	struct fab_req *reqs[2];

	begin(t);
	for (int i = 0; i < 2; i++) {
		calls[i] = ping();
		calls[i]->deadline_us = 1000 * (2 - (uint32_t)i);
		cr_assert_eq(fab_submit(rig.conn, calls[i]), 0);
		reqs[i] = fab_rig_request(&rig);
	}
	cr_assert_eq(fab_server_deadline(rig.srv), rig.now_ns + 1000000);
	rig.now_ns += 999999;
	cr_assert_eq(fab_server_poll(rig.srv, rig.now_ns, &event, 1), 0);
	rig.now_ns += 1;
	event = fab_rig_event(&rig);
	cr_assert_eq(event.type, FAB_EVENT_CANCEL);
	cr_assert_eq(event.status, -ETIMEDOUT);
	cr_assert_eq(event.req, reqs[1]);
	cr_assert_eq(fab_server_poll(rig.srv, rig.now_ns, &event, 1), 0); /* once */
	cr_assert_eq(fab_server_deadline(rig.srv), rig.now_ns + 1000000);
	fab_reply(reqs[1], -ETIMEDOUT, NULL, 0);
	cr_assert_eq(fab_rig_done(&rig, rig.conn)->status, -ETIMEDOUT);
	fab_reply(reqs[0], 0, NULL, 0);
	cr_assert_eq(fab_rig_done(&rig, rig.conn), calls[0]);
	rig.now_ns += 5000000;
	cr_assert_eq(fab_server_poll(rig.srv, rig.now_ns, &event, 1), 0);
	cr_assert_eq(fab_server_deadline(rig.srv), UINT64_MAX);
	free(calls[0]);
	free(calls[1]);
	fab_rig_end(&rig);
}

BOTH(requests_of_a_client_that_vanishes_are_given_back_before_its_session_closes)
{
	struct fab_event event;
	struct fab_req *reqs[3];
	struct fab_call *calls[3];

	begin(t);
	for (int i = 0; i < 3; i++) {
		calls[i] = ping();
		cr_assert_eq(fab_submit(rig.conn, calls[i]), 0);
		reqs[i] = fab_rig_request(&rig);
	}
	fab_close(rig.conn);
	rig.conn = NULL;
	for (int i = 0; i < 3; i++) {
		event = fab_rig_event(&rig);
		cr_assert_eq(event.type, FAB_EVENT_CANCEL);
		cr_assert_eq(event.status, -ECONNRESET);
	}
	cr_assert_eq(rig.pools_gone, 0); /* a drive may still write */
	for (int i = 0; i < 2; i++)
		fab_reply(reqs[i], 0, NULL, 0);
	cr_assert_eq(fab_server_poll(rig.srv, rig.now_ns, &event, 1), 0);
	fab_reply(reqs[2], -EIO, NULL, 0);
	event = fab_rig_event(&rig);
	cr_assert_eq(event.type, FAB_EVENT_SESSION_CLOSED);
	fab_rig_idle(&rig);
	fab_rig_control(&rig);
	cr_assert_eq(rig.pools_gone, rig.pools_added);
	for (int i = 0; i < 3; i++)
		free(calls[i]);
	fab_rig_end(&rig);
}

BOTH(calls_in_flight_come_back_when_the_appliance_stops)
{
	struct fab_call *call, *done;
	struct fab_conn *conn;
	struct fab_event event;
	uint32_t n = 0;

	begin(t);
	call = ping();
	cr_assert_eq(fab_submit(rig.conn, call), 0);
	fab_rig_request(&rig);
	fab_server_stop(rig.srv);
	conn = rig.conn;
	rig.conn = NULL; /* asleep meanwhile */
	event = fab_rig_event(&rig);
	cr_assert_eq(event.type, FAB_EVENT_CANCEL);
	cr_assert_eq(event.status, -ECONNRESET);
	fab_reply(event.req, -ECONNRESET, NULL, 0);
	event = fab_rig_event(&rig);
	cr_assert_eq(event.type, FAB_EVENT_SESSION_CLOSED);
	fab_rig_idle(&rig);
	rig.conn = conn;
	for (int i = 0; i < 10000 && n == 0; i++) {
		rig.now_ns += 1000000; /* over shm the socket is asked now and then */
		fab_rig_control(&rig);
		n = fab_poll(rig.conn, rig.now_ns, &done, 1);
	}
	cr_assert_eq(n, 1);
	cr_assert_eq(done, call);
	cr_assert_eq(call->status, -ECONNRESET);
	cr_assert_eq(fab_conn_status(rig.conn), -ECONNRESET);
	cr_assert_eq(fab_submit(rig.conn, call), -ECONNRESET);
	free(call);
	fab_rig_end(&rig);
}

Test(fab_session, a_pull_whose_client_vanishes_comes_back_broken)
{
	static uint8_t bytes[1 << 20];
	struct fab_piece pieces[40];
	struct transport tcp = { "tcp" };
	struct fab_put_item item = {
		.name = { .by = FAB_BY_PATH, .name = "/f", .name_bytes = 2 },
		.size_bytes = 1 << 20,
		.sums_at = 1 << 20,
	};
	struct fab_call call = { .type = FAB_PUT, .window_bytes = 2 << 20 };
	struct fab_event event;
	struct fab_req *req;
	uint32_t back = 0;

	begin(&tcp);
	call.args.batch.count = 1;
	call.args.batch.puts = &item;
	call.region = rig.region;
	cr_assert_eq(fab_submit(rig.conn, &call), 0);
	req = fab_rig_request(&rig);
	for (int i = 0; i < 40; i++) { /* more than may be asked for at once */
		pieces[i] = (struct fab_piece){ .bytes = bytes, .length_bytes = 1 << 20 };
		cr_assert_eq(fab_pull(req, &pieces[i]), 0);
	}
	fab_close(rig.conn);
	rig.conn = NULL;
	while (back < 40) {
		event = fab_rig_event(&rig);
		if (event.type == FAB_EVENT_CANCEL)
			continue;
		cr_assert_eq(event.type, FAB_EVENT_PULLED);
		cr_assert_eq(event.status, -ECONNRESET);
		back++;
	}
	cr_assert_eq(fab_pull(req, &pieces[0]), -ECONNRESET);
	fab_reply(req, -ECONNRESET, NULL, 0);
	cr_assert_eq(fab_rig_event(&rig).type, FAB_EVENT_SESSION_CLOSED);
	fab_rig_end(&rig);
}

/* Pages that the sessions of a server have. */
static uint32_t resident(const struct fab_server *srv)
{
	static unsigned char page[1 << 20];
	uint32_t count = 0;

	if (srv->arena_bytes / BLOCK_SIZE > sizeof(page) ||
	    mincore(srv->arena, srv->arena_bytes, page))
		return UINT32_MAX;
	for (uint64_t i = 0; i < srv->arena_bytes / BLOCK_SIZE; i++)
		count += page[i] & 1;
	return count;
}

/* A long list of names is in memory of the session's own: who has gone keeps none of it. */
Test(fab_session, memory_of_a_session_goes_with_it)
{
	enum { COUNT = 900 };
	static char text[200] = "/";
	static struct fab_name names[COUNT];
	struct transport tcp = { "tcp" };
	struct fab_call call = { .type = FAB_STAT, .window_bytes = 256 << 10 };
	uint32_t idle;
	struct fab_req *req;

	memset(text + 1, 'a', sizeof(text) - 1);
	for (int i = 0; i < COUNT; i++)
		names[i] = (struct fab_name){ .by = FAB_BY_PATH, .name = text, .name_bytes = 200 };
	begin(&tcp);
	idle = resident(rig.srv);
	call.args.batch.count = COUNT;
	call.args.batch.names = names;
	call.region = rig.region;
	cr_assert_eq(fab_submit(rig.conn, &call), 0);
	req = fab_rig_request(&rig);
	cr_assert_gt(resident(rig.srv), idle + COUNT * 200 / BLOCK_SIZE);
	fab_reply(req, -ENOENT, NULL, 0);
	cr_assert_eq(fab_rig_done(&rig, rig.conn), &call);
	fab_close(rig.conn);
	rig.conn = NULL;
	cr_assert_eq(fab_rig_event(&rig).type, FAB_EVENT_SESSION_CLOSED);
	fab_rig_idle(&rig);
	cr_assert_eq(resident(rig.srv), 0);
	fab_rig_end(&rig);
}

Test(fab_session, many_pulls_of_one_request_are_all_answered)
{
	enum { PULLS = 100, BYTES = 40000 };
	static uint8_t bytes[PULLS][BYTES];
	static struct fab_piece pieces[PULLS];
	struct transport tcp = { "tcp" };
	struct fab_put_item item = {
		.name = { .by = FAB_BY_PATH, .name = "/f", .name_bytes = 2 },
		.size_bytes = PULLS * BYTES,
	};
	struct fab_call call = { .type = FAB_PUT, .window_bytes = 4 << 20 };
	struct fab_req *req;
	uint8_t *from;

	begin(&tcp);
	from = fab_region_memory(rig.region);
	for (uint32_t i = 0; i < PULLS * BYTES; i++)
		from[i] = (uint8_t)(i * 31 + i / 1000);
	call.args.batch.count = 1;
	call.args.batch.puts = &item;
	call.region = rig.region;
	cr_assert_eq(fab_submit(rig.conn, &call), 0);
	req = fab_rig_request(&rig);
	for (uint32_t i = 0; i < PULLS; i++) {
		pieces[i] = (struct fab_piece){ .bytes = bytes[i],
						.length_bytes = BYTES,
						.window_at = i * BYTES };
		cr_assert_eq(fab_pull(req, &pieces[i]), 0);
	}
	for (uint32_t i = 0; i < PULLS; i++)
		cr_assert_eq(fab_rig_event(&rig).type, FAB_EVENT_PULLED);
	cr_assert_eq(memcmp(bytes, from, sizeof(bytes)), 0);
	fab_reply(req, -ENOSPC, NULL, 0);
	cr_assert_eq(fab_rig_done(&rig, rig.conn)->status, -ENOSPC);
	fab_rig_end(&rig);
}

Test(fab_session, a_client_that_never_answers_a_pull_is_given_up)
{
	static uint8_t bytes[4096];
	struct fab_piece piece = { .bytes = bytes, .length_bytes = sizeof(bytes) };
	struct transport tcp = { "tcp" };
	struct fab_put_item item = {
		.name = { .by = FAB_BY_PATH, .name = "/f", .name_bytes = 2 },
		.size_bytes = 4096,
		.sums_at = 4096,
	};
	struct fab_call call = { .type = FAB_PUT, .window_bytes = 2 << 20 };
	struct fab_conn *conn;
	struct fab_req *req;

	begin(&tcp);
	call.args.batch.count = 1;
	call.args.batch.puts = &item;
	call.region = rig.region;
	cr_assert_eq(fab_submit(rig.conn, &call), 0);
	req = fab_rig_request(&rig);
	conn = rig.conn;
	rig.conn = NULL; /* it is not polled any more */
	cr_assert_eq(fab_pull(req, &piece), 0);
	cr_assert_eq(fab_server_deadline(rig.srv), rig.now_ns + FAB_STALL_NS);
	rig.now_ns += FAB_STALL_NS;
	for (int i = 0; i < 2; i++) {
		struct fab_event event = fab_rig_event(&rig);

		cr_assert(event.type == FAB_EVENT_PULLED || event.type == FAB_EVENT_CANCEL);
		cr_assert_eq(event.status, -ECONNRESET);
	}
	fab_reply(req, -ECONNRESET, NULL, 0);
	cr_assert_eq(fab_rig_event(&rig).type, FAB_EVENT_SESSION_CLOSED);
	rig.conn = conn;
	fab_rig_end(&rig);
}

enum { DEAF_PARTS = 32 };

/* Sends parts until the socket is full, and lets the core see that. */
static void fill_the_socket(struct fab_req *req, struct fab_piece *piece, uint8_t *bytes)
{
	for (uint32_t i = 0; i < DEAF_PARTS; i++) {
		piece[i] = (struct fab_piece){ .bytes = bytes, .length_bytes = 1 << 20 };
		cr_assert_eq(fab_send_part(req, &piece[i]), 0);
	}
	fab_server_flush(rig.srv);
	cr_assert(fab__session_of(req->session)->link->is_full);
}

Test(fab_session, who_takes_nothing_is_told_of_and_ended)
{
	static uint8_t bytes[1 << 20];
	static struct fab_piece piece[DEAF_PARTS];
	struct transport tcp = { "tcp" };
	struct fab_call call = { .type = FAB_READ, .window_bytes = 2 << 20 };
	struct fab_event event, *e = &event;
	struct fab_conn *conn;
	struct fab_req *req;
	uint32_t sent = 0;

	begin(&tcp);
	call.args.read.length_bytes = 1 << 20;
	call.region = rig.region;
	cr_assert_eq(fab_submit(rig.conn, &call), 0);
	req = fab_rig_request(&rig);
	conn = rig.conn;
	rig.conn = NULL; /* it is not polled any more */
	fill_the_socket(req, piece, bytes);
	cr_assert_eq(fab_server_deadline(rig.srv), rig.now_ns + FAB_SLOW_NS);
	rig.now_ns += FAB_SLOW_NS;
	while (fab_server_poll(rig.srv, rig.now_ns, e, 1) == 1)
		sent += e->type == FAB_EVENT_SENT;
	fab_rig_control(&rig);
	cr_assert(strstr(rig.notice, "takes none of the data that it asked for"), "%s", rig.notice);
	cr_assert_eq(rig.refused, 0);
	cr_assert_eq(fab_server_deadline(rig.srv), rig.now_ns + FAB_STALL_NS - FAB_SLOW_NS);
	rig.now_ns += FAB_STALL_NS - FAB_SLOW_NS;
	while (sent < DEAF_PARTS) {
		event = fab_rig_event(&rig);
		sent += event.type == FAB_EVENT_SENT;
		if (event.type == FAB_EVENT_CANCEL)
			fab_reply(event.req, event.status, NULL, 0);
	}
	fab_rig_control(&rig);
	cr_assert(strstr(rig.refusal, "it took nothing for 30 s"), "%s", rig.refusal);
	cr_assert_eq(fab_rig_event(&rig).type, FAB_EVENT_SESSION_CLOSED);
	rig.conn = conn;
	fab_rig_end(&rig);
}

Test(fab_session, who_comes_in_as_the_doors_close_is_shown_out)
{
	struct fab_connect_cfg cfg = { .key = fab_rig_key };
	struct fab_event event;

	fab_rig_serve(&rig, "tcp", NULL);
	cfg.address = rig.address;
	cr_assert_eq(fab_rig_dial(&rig, &cfg, &rig.conn), 0);
	fab_server_stop(rig.srv);
	cr_assert_eq(fab_server_poll(rig.srv, rig.now_ns, &event, 0), 0); /* stops all there are */
	cr_assert_eq(fab_server_poll(rig.srv, rig.now_ns, &event, 1), 1);
	cr_assert_eq(event.type, FAB_EVENT_SESSION_NEW);
	cr_assert_eq(fab_rig_event(&rig).type, FAB_EVENT_SESSION_CLOSED);
	fab_rig_end(&rig);
}

BOTH(credits_run_out_and_come_back)
{
	struct fab_server_cfg cfg = { .key = fab_rig_key, .limits.credits = 4 };
	struct fab_call *calls[5];
	struct fab_req *reqs[4];

	fab_rig_serve(&rig, t->name, &cfg);
	fab_rig_connect(&rig, 0);
	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < 5; i++)
			calls[i] = ping();
		for (int i = 0; i < 4; i++)
			cr_assert_eq(fab_submit(rig.conn, calls[i]), 0);
		cr_assert_eq(fab_submit(rig.conn, calls[4]), -EAGAIN);
		for (int i = 0; i < 4; i++) {
			reqs[i] = fab_rig_request(&rig);
			fab_cancel(rig.conn, calls[i]);
		}
		for (int i = 3; i >= 0; i--) { /* in another order */
			fab_reply(reqs[i], 0, NULL, 0);
			cr_assert_eq(fab_rig_done(&rig, rig.conn), calls[i]);
		}
		for (int i = 0; i < 5; i++)
			free(calls[i]);
	}
	fab_rig_end(&rig);
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 200) == 1;
}

BOTH(a_sleeping_core_is_woken_by_a_request)
{
	struct fab_event event;
	struct fab_call *call;

	begin(t);
	call = ping();
	for (int i = 0; i < 100 && !fab_server_arm(rig.srv); i++)
		cr_assert_eq(fab_server_poll(rig.srv, rig.now_ns, &event, 1), 0);
	cr_assert_not(readable(fab_server_fd(rig.srv)));
	cr_assert_eq(fab_submit(rig.conn, call), 0);
	fab_flush(rig.conn);
	cr_assert(readable(fab_server_fd(rig.srv)));
	fab_server_disarm(rig.srv);
	fab_reply(fab_rig_request(&rig), 0, NULL, 0);
	cr_assert_eq(fab_rig_done(&rig, rig.conn), call);
	free(call);
	fab_rig_end(&rig);
}

BOTH(a_sleeping_client_is_woken_by_a_reply)
{
	struct fab_call *call, *done;
	struct fab_req *req;

	begin(t);
	call = ping();
	cr_assert_eq(fab_submit(rig.conn, call), 0);
	req = fab_rig_request(&rig);
	for (int i = 0; i < 100 && !fab_arm(rig.conn); i++)
		cr_assert_eq(fab_poll(rig.conn, 0, &done, 1), 0);
	cr_assert_not(readable(fab_conn_fd(rig.conn)));
	fab_reply(req, 0, NULL, 0);
	fab_server_flush(rig.srv);
	cr_assert(readable(fab_conn_fd(rig.conn)));
	fab_disarm(rig.conn);
	cr_assert_eq(fab_poll(rig.conn, 0, &done, 1), 1);
	cr_assert_eq(done, call);
	free(call);
	fab_rig_end(&rig);
}

BOTH(who_has_something_to_do_may_not_sleep)
{
	struct fab_call *call, *done;

	begin(t);
	call = ping();
	cr_assert_eq(fab_submit(rig.conn, call), 0);
	fab_flush(rig.conn);
	cr_assert_not(fab_server_arm(rig.srv));
	fab_reply(fab_rig_request(&rig), 0, NULL, 0);
	fab_server_flush(rig.srv);
	cr_assert_not(fab_arm(rig.conn));
	cr_assert_eq(fab_poll(rig.conn, 0, &done, 1), 1);
	free(call);
	fab_rig_end(&rig);
}

/* Capsules that came in one piece, and were not asked for yet, wake nobody again. */
BOTH(who_has_not_taken_all_may_not_sleep)
{
	struct fab_call *call[3], *done;
	struct fab_event event[3];

	begin(t);
	for (int i = 0; i < 3; i++) {
		call[i] = ping();
		cr_assert_eq(fab_submit(rig.conn, call[i]), 0);
	}
	fab_flush(rig.conn);
	for (int n = 0; n < 3; n++) {
		cr_assert_not(fab_server_arm(rig.srv), "%d of 3 taken", n);
		cr_assert_eq(fab_server_poll(rig.srv, rig.now_ns, &event[n], 1), 1);
		cr_assert_eq(event[n].type, FAB_EVENT_REQUEST);
	}
	for (int i = 0; i < 3; i++)
		fab_reply(event[i].req, 0, NULL, 0);
	fab_server_flush(rig.srv);
	for (int n = 0; n < 3; n++) {
		cr_assert_not(fab_arm(rig.conn), "%d of 3 taken", n);
		cr_assert_eq(fab_poll(rig.conn, rig.now_ns, &done, 1), 1);
		cr_assert_eq(done, call[n]);
	}
	for (int i = 0; i < 100 && !fab_arm(rig.conn); i++)
		cr_assert_eq(fab_poll(rig.conn, rig.now_ns, &done, 1), 0);
	cr_assert_not(readable(fab_conn_fd(rig.conn)));
	for (int i = 0; i < 3; i++)
		free(call[i]);
	fab_rig_end(&rig);
}

BOTH(a_sleeping_client_learns_that_the_appliance_is_gone)
{
	struct fab_call *done;
	struct fab_event event;

	begin(t);
	for (int i = 0; i < 100 && !fab_arm(rig.conn); i++)
		cr_assert_eq(fab_poll(rig.conn, 0, &done, 1), 0);
	fab_server_stop(rig.srv);
	for (int i = 0; i < 10; i++) {
		if (fab_server_poll(rig.srv, rig.now_ns, &event, 1))
			cr_assert_eq(event.type, FAB_EVENT_SESSION_CLOSED);
		fab_rig_control(&rig);
	}
	cr_assert(readable(fab_conn_fd(rig.conn)));
	fab_disarm(rig.conn);
	cr_assert_eq(fab_poll(rig.conn, 0, &done, 1), 0);
	cr_assert_eq(fab_conn_status(rig.conn), -ECONNRESET);
	fab_rig_end(&rig);
}

BOTH(sessions_beyond_the_limit_are_refused_and_places_are_used_again)
{
	struct fab_server_cfg cfg = { .key = fab_rig_key, .sessions_max = 2 };
	struct fab_connect_cfg dial = { .key = fab_rig_key };
	struct fab_conn *conns[3];
	struct fab_event event;

	fab_rig_serve(&rig, t->name, &cfg);
	dial.address = rig.address;
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 2; i++)
			cr_assert_eq(fab_rig_dial(&rig, &dial, &conns[i]), 0);
		cr_assert_eq(fab_rig_dial(&rig, &dial, &conns[2]), -EUSERS);
		cr_assert_neq(strstr(fab_conn_error(conns[2]), "as many sessions"), NULL);
		for (int i = 0; i < 3; i++)
			fab_close(conns[i]);
		for (int closed = 0; closed < 2;) {
			event = fab_rig_event(&rig);
			cr_assert_eq(event.type, FAB_EVENT_SESSION_CLOSED);
			closed++;
		}
		fab_rig_idle(&rig);
	}
	fab_rig_end(&rig);
}

/* Clients have taken all places, and all memory for pools: status is still to be had. */
BOTH(an_operator_is_let_in_when_clients_have_taken_all)
{
	struct fab_server_cfg cfg = { .key = fab_rig_key,
				      .sessions_max = 2,
				      .pools_max_bytes = 8 << 20 };
	struct fab_connect_cfg dial = { .key = fab_rig_key };
	struct fab_conn *conns[2 + FAB_OPERATORS], *more;

	fab_rig_serve(&rig, t->name, &cfg);
	dial.address = rig.address;
	for (uint32_t i = 0; i < 2; i++) {
		cr_assert_eq(fab_rig_dial(&rig, &dial, &conns[i]), 0);
		cr_assert_not_null(fab_rig_pool(&rig, conns[i], 4 << 20));
	}
	cr_assert_eq(fab_rig_dial(&rig, &dial, &more), -EUSERS);
	fab_close(more);
	dial.want.credits = FAB_OPERATOR_CREDITS;
	for (uint32_t i = 2; i < ARRAY_LEN(conns); i++) {
		cr_assert_eq(fab_rig_dial(&rig, &dial, &conns[i]), 0);
		cr_assert_not_null(fab_rig_pool(&rig, conns[i], FAB_OPERATOR_POOL));
	}
	cr_assert_eq(fab_rig_dial(&rig, &dial, &more), -EUSERS);
	fab_close(more);
	for (uint32_t i = 0; i < ARRAY_LEN(conns); i++)
		fab_close(conns[i]);
	for (uint32_t closed = 0; closed < ARRAY_LEN(conns); closed++)
		cr_assert_eq(fab_rig_event(&rig).type, FAB_EVENT_SESSION_CLOSED);
	fab_rig_end(&rig);
}

/* Small sessions of clients, too, look like an operator's: not each may have memory beyond
 * pools_max. */
Test(fab_session, pools_of_operators_are_bounded)
{
	struct fab_server_cfg cfg = { .key = fab_rig_key,
				      .sessions_max = 8,
				      .pools_max_bytes = FAB_OPERATOR_POOL };
	struct fab_connect_cfg dial = { .key = fab_rig_key, .want.credits = FAB_OPERATOR_CREDITS };
	struct fab_conn *conns[2 + FAB_OPERATORS];
	struct fab_region *region;

	fab_rig_serve(&rig, "shm", &cfg);
	dial.address = rig.address;
	for (uint32_t i = 0; i < ARRAY_LEN(conns); i++)
		cr_assert_eq(fab_rig_dial(&rig, &dial, &conns[i]), 0);
	for (uint32_t i = 0; i < 1 + FAB_OPERATORS; i++)
		cr_assert_not_null(fab_rig_pool(&rig, conns[i], FAB_OPERATOR_POOL));
	rig.conn = conns[1 + FAB_OPERATORS];
	cr_assert_eq(fab_pool_add(rig.conn, FAB_OPERATOR_POOL, &region), 0);
	fab_rig_settle(&rig);
	cr_assert_eq(fab_region_status(region), -ENOSPC);
	rig.conn = NULL;
	for (uint32_t i = 0; i < ARRAY_LEN(conns); i++)
		fab_close(conns[i]);
	for (uint32_t closed = 0; closed < ARRAY_LEN(conns); closed++)
		cr_assert_eq(fab_rig_event(&rig).type, FAB_EVENT_SESSION_CLOSED);
	fab_rig_end(&rig);
}

/* A pool never exceeds the limit of its own session, whatever limit the client assumes. */
Test(fab_session, pools_of_an_operator_stay_below_its_sessions_limit)
{
	struct fab_server_cfg cfg = { .key = fab_rig_key };
	struct fab_connect_cfg dial = {
		.key = fab_rig_key,
		.want = { .credits = FAB_OPERATOR_CREDITS, .pool_max_bytes = 2 << 20 },
	};
	struct fab_region *region;

	fab_rig_serve(&rig, "shm", &cfg);
	dial.address = rig.address;
	cr_assert_eq(fab_rig_dial(&rig, &dial, &rig.conn), 0);
	rig.conn->limits.pool_max_bytes = 1 << 30;
	for (uint64_t bytes = FAB_OPERATOR_POOL; bytes <= 64 << 20; bytes *= 4) {
		cr_assert_eq(fab_pool_add(rig.conn, bytes, &region), 0);
		fab_rig_settle(&rig);
		cr_assert_eq(fab_region_status(region), -ENOSPC, "%lu bytes", bytes);
	}
	cr_assert_not_null(fab_rig_pool(&rig, rig.conn, 2 << 20));
	fab_close(rig.conn);
	rig.conn = NULL;
	cr_assert_eq(fab_rig_event(&rig).type, FAB_EVENT_SESSION_CLOSED);
	fab_rig_end(&rig);
}

/* Control on its own thread is as quick as this: the place must not be another's meanwhile. */
BOTH(a_closed_session_is_the_callers_until_the_next_poll)
{
	struct fab_server_cfg cfg = { .key = fab_rig_key, .sessions_max = 1 };
	struct fab_event event = { 0 };
	struct fab_session *session;

	fab_rig_serve(&rig, t->name, &cfg);
	fab_rig_connect(&rig, 0);
	fab_close(rig.conn);
	rig.conn = NULL;
	for (int i = 0; i < 1000 && event.type != FAB_EVENT_SESSION_CLOSED; i++) {
		fab_rig_control(&rig);
		if (fab_server_poll(rig.srv, rig.now_ns, &event, 1) == 0)
			event.type = FAB_EVENT_SESSION_NEW;
	}
	cr_assert_eq(event.type, FAB_EVENT_SESSION_CLOSED);
	session = event.session;
	for (int i = 0; i < 10; i++)
		fab_rig_control(&rig);
	cr_assert(fab__session_of(session)->control.used, "its place is free already");
	cr_assert_eq(fab_server_poll(rig.srv, rig.now_ns, &event, 1), 0);
	for (int i = 0; i < 10; i++)
		fab_rig_control(&rig);
	cr_assert_not(fab__session_of(session)->control.used, "its place is never free");
	fab_rig_end(&rig);
}

BOTH(pools_have_their_limit)
{
	struct fab_server_cfg cfg = { .key = fab_rig_key, .limits.pool_max_bytes = 8 << 20 };
	struct fab_region *region;

	fab_rig_serve(&rig, t->name, &cfg);
	fab_rig_connect(&rig, 6 << 20);
	cr_assert_eq(fab_pool_add(rig.conn, 3 << 20, &region), -ENOSPC);
	cr_assert_eq(fab_pool_add(rig.conn, UINT64_MAX, &region), -ENOSPC);
	cr_assert_not_null(fab_rig_pool(&rig, rig.conn, 1));
	cr_assert_eq(fab_pool_add(rig.conn, 1, &region), -ENOSPC);
	fab_rig_end(&rig);
}
