/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Both ends over verbs in memory: what moves, in which order, and what an end gives back when. */
#include "base/clock.h"
#include "fabric/client/fab_client_internal.h"
#include "fabric/hello/fab_server_internal.h"
#include "test/lib/fab_rig.h"
#include "test/lib/fake_verbs.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define POOL (4u << 20)
#define MANY 60u /* names that make a long body */

static struct fab_rig rig;
static _Alignas(4096) uint8_t staging[2u << 20]; /* the appliance's: cards know it */

static void begin(const struct fake_verbs_cfg *verbs, uint32_t credits)
{
	struct fab_server_cfg cfg = {
		.key = fab_rig_key,
		.limits = { .credits = credits, .long_bodies = 2 },
	};

	fake_verbs_begin(verbs);
	fab_rig_serve(&rig, "rdma://10.0.0.1:0", &cfg);
	fab_server_memory(rig.srv, staging, sizeof(staging));
	fab_rig_connect(&rig, POOL);
}

static void end(void)
{
	fab_rig_end(&rig);
	fake_verbs_end();
}

static void fill(uint8_t *at, uint32_t bytes, uint32_t seed)
{
	for (uint32_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)((i * 2654435761u + seed) >> 13);
}

static struct fab_call read_call(uint32_t at, uint32_t bytes)
{
	return (struct fab_call){
		.type = FAB_READ,
		.args.read = { .length_bytes = bytes },
		.region = rig.region,
		.window_offset = at,
		.window_bytes = bytes,
	};
}

/* Turns of both until the client has a call back; pieces that came back meanwhile are counted. */
static struct fab_call *answered(uint32_t *sent)
{
	struct fab_call *done;
	struct fab_event event;

	for (int i = 0; i < 100000; i++) {
		fab_rig_control(&rig);
		if (fab_server_poll(rig.srv, rig.now_ns, &event, 1)) {
			cr_assert_eq(event.type, FAB_EVENT_SENT);
			++*sent;
		}
		if (fab_poll(rig.conn, rig.now_ns, &done, 1))
			return done;
	}
	cr_assert_fail("no answer");
	return NULL;
}

/* An appliance that answers one read with `bytes` from staging; the client compares. */
static void read_once(uint32_t at, uint32_t bytes, uint32_t seed)
{
	struct fab_piece piece = { .bytes = staging + at, .length_bytes = bytes };
	struct fab_call call = read_call(at, (uint32_t)align_up(bytes, 4096)), *done;
	const uint8_t *window = (uint8_t *)fab_region_memory(rig.region) + at;
	static uint8_t want[1u << 20];
	uint32_t sums[FAB_SUMS_INLINE] = { 0 };
	uint32_t sent = 0;
	struct fab_req *req;

	fill(want, bytes, seed);
	memcpy(staging + at, want, bytes);
	cr_assert_eq(fab_submit(rig.conn, &call), 0);
	req = fab_rig_request(&rig);
	cr_assert_eq(fab_send_part(req, &piece), 0);
	if (bytes > FAB_SUMS_INLINE * 4096)
		fab_reply_read(req, bytes, NULL, 0);
	else
		fab_reply_read(req, bytes, sums, 0);
	done = answered(&sent);
	cr_assert_eq(done, &call);
	cr_assert_eq(call.status, 0);
	cr_assert_eq(memcmp(window, want, bytes), 0, "%u bytes at %u", bytes, at);
	if (!sent)
		cr_assert_eq(fab_rig_event(&rig).piece, &piece);
	cr_assert_eq(piece.status, 0);
	cr_assert_not(fake_verbs_busy(piece.bytes, bytes));
}

/* Devices of different limits. */
static const struct fake_verbs_cfg devices[] = {
	{ .seed = 1 },
	{ .seed = 2, .max_inline = 256 },
	{ .seed = 3, .max_inline = 100, .max_msg_sz = 4096, .steps_max = 1 },
	{ .seed = 4, .max_qp_wr = 16, .max_sge = 2, .max_qp_rd_atom = 1, .steps_max = 3 },
	{ .seed = 5, .max_cqe = 40, .max_inline = 64, .max_msg_sz = 10000 },
};

Test(fab_rdma, a_read_is_in_its_window_when_the_reply_comes_on_any_device)
{
	for (uint32_t d = 0; d < ARRAY_LEN(devices); d++) {
		begin(&devices[d], 16);
		cr_assert_str_eq(fab_conn_transport(rig.conn), "rdma");
		for (uint32_t i = 0; i < 40; i++)
			read_once(4096 * (i % 7), 1 + i * 997 % 40000, i);
		read_once(0, 1u << 20, 99);
		cr_assert_leq(fake_verbs_stat.chunk_max_bytes,
			      devices[d].max_msg_sz ? devices[d].max_msg_sz : 1u << 30);
		end();
	}
}

Test(fab_rdma, small_capsules_go_with_the_work_request_where_the_device_lets_them)
{
	struct fab_call call = { .type = FAB_PING };

	for (uint32_t inl = 0; inl <= 128; inl += 128) {
		struct fake_verbs_cfg verbs = { .seed = 7, .max_inline = inl };
		uint32_t before;

		begin(&verbs, 8);
		before = fake_verbs_stat.inlined;
		cr_assert_eq(fab_submit(rig.conn, &call), 0);
		fab_reply(fab_rig_request(&rig), 0, NULL, 0);
		cr_assert_eq(fab_rig_done(&rig, rig.conn), &call);
		cr_assert_eq(fake_verbs_stat.inlined - before, inl ? 2 : 0);
		end();
	}
}

Test(fab_rdma, a_long_body_is_read_from_the_clients_memory)
{
	for (uint32_t d = 0; d < ARRAY_LEN(devices); d++) {
		struct fab_name names[MANY];
		char text[MANY][40];
		struct fab_call call = {
			.type = FAB_STAT,
			.args.batch = { .count = MANY, .names = names },
			.window_bytes = 8192,
		};
		uint8_t body[MANY * FAB_STAT_BYTES];
		struct fab_piece piece = { .bytes = staging, .length_bytes = sizeof(body) };
		struct fab_req *req;

		begin(&devices[d], 8);
		call.region = rig.region;
		for (uint32_t i = 0; i < MANY; i++) {
			snprintf(text[i], sizeof(text[i]), "/a/directory/and/file-%u", i);
			names[i] = (struct fab_name){ .by = FAB_BY_PATH,
						      .name = text[i],
						      .name_bytes = (uint16_t)strlen(text[i]) };
		}
		for (uint32_t round = 0; round < 5; round++) {
			uint32_t before = fake_verbs_stat.reads;

			cr_assert_eq(fab_submit(rig.conn, &call), 0);
			req = fab_rig_request(&rig);
			cr_assert_gt(fake_verbs_stat.reads, before);
			for (uint32_t i = 0; i < MANY; i++) {
				struct fab_name got;

				fab_req_name(req, i, &got);
				cr_assert_eq(got.name_bytes, strlen(text[i]));
				cr_assert_eq(memcmp(got.name, text[i], got.name_bytes), 0);
			}
			memset(staging, 0, sizeof(body));
			cr_assert_eq(fab_send_part(req, &piece), 0);
			fab_reply(req, 0, NULL, 0);
			cr_assert_eq(fab_rig_done(&rig, rig.conn), &call);
			while (fab_rig_event(&rig).type != FAB_EVENT_SENT)
				;
		}
		end();
	}
}

Test(fab_rdma, what_a_client_writes_is_read_from_its_window)
{
	for (uint32_t d = 0; d < ARRAY_LEN(devices); d++) {
		struct fab_piece piece[12];
		struct fab_call call;
		struct fab_req *req;
		uint8_t *window;
		uint32_t back = 0;

		begin(&devices[d], 8);
		window = fab_region_memory(rig.region);
		fill(window, 1u << 20, d);
		call = read_call(0, 1u << 20);
		cr_assert_eq(fab_submit(rig.conn, &call), 0);
		req = fab_rig_request(&rig);
		for (uint32_t i = 0; i < ARRAY_LEN(piece); i++) {
			piece[i] = (struct fab_piece){ .window_at = i * 70000 + i,
						       .length_bytes = 1 + i * 5003,
						       .bytes = staging + i * 70000 };
			cr_assert_eq(fab_pull(req, &piece[i]), 0);
		}
		while (back < ARRAY_LEN(piece)) {
			struct fab_event event = fab_rig_event(&rig);

			cr_assert_eq(event.type, FAB_EVENT_PULLED);
			cr_assert_eq(event.status, 0);
			cr_assert_not(
				fake_verbs_busy(event.piece->bytes, event.piece->length_bytes));
			cr_assert_eq(memcmp(event.piece->bytes, window + event.piece->window_at,
					    event.piece->length_bytes),
				     0);
			back++;
		}
		cr_assert_leq(fake_verbs_stat.reads_out_max,
			      devices[d].max_qp_rd_atom ? devices[d].max_qp_rd_atom : 16);
		fab_reply(req, 0, NULL, 0);
		cr_assert_eq(fab_rig_done(&rig, rig.conn), &call);
		end();
	}
}

Test(fab_rdma, as_many_receives_are_posted_as_there_are_credits)
{
	struct fake_verbs_cfg verbs = { .seed = 11 };
	struct fab_call calls[8], extra = { .type = FAB_PING };
	struct fab_req *reqs[8];

	begin(&verbs, 8);
	fab_rig_settle(&rig);
	cr_assert_eq(fake_verbs_receives(true), 8);
	for (uint32_t round = 0; round < 50; round++) {
		for (uint32_t i = 0; i < 8; i++) {
			calls[i] = (struct fab_call){ .type = FAB_PING };
			cr_assert_eq(fab_submit(rig.conn, &calls[i]), 0);
		}
		cr_assert_eq(fab_submit(rig.conn, &extra), -EAGAIN);
		for (uint32_t i = 0; i < 8; i++)
			reqs[i] = fab_rig_request(&rig);
		for (uint32_t i = 0; i < 8; i++)
			fab_reply(reqs[i], 0, NULL, 0);
		for (uint32_t i = 0; i < 8; i++)
			(void)fab_rig_done(&rig, rig.conn);
		fab_rig_settle(&rig);
		cr_assert_eq(fake_verbs_receives(true), 8);
	}
	cr_assert_eq(fake_verbs_stat.rnr,
		     0); /* no credit ever met a queue pair without a receive */
	end();
}

Test(fab_rdma, a_reply_finds_its_receive_posted_again)
{
	struct fake_verbs_cfg verbs = { .seed = 18, .max_inline = 256, .steps_max = 64 };
	struct fab_call calls[8], *done;

	begin(&verbs, 8);
	for (uint32_t i = 0; i < 8; i++) {
		calls[i] = (struct fab_call){ .type = FAB_PING };
		cr_assert_eq(fab_submit(rig.conn, &calls[i]), 0);
	}
	fab_flush(rig.conn);
	for (uint32_t i = 0; i < 400;
	     i++) { /* seven more are always there, and not yet looked at */
		fab_reply(fab_rig_request(&rig), 0, NULL, 0);
		done = fab_rig_done(&rig, rig.conn);
		cr_assert_eq(fab_submit(rig.conn, done), 0);
	}
	cr_assert_eq(fake_verbs_stat.rnr, 0);
	end();
}

/* As many as there are credits, asked and answered at once: bodies of 0, 28, 29 and 1024 bytes. */
Test(fab_rdma, capsules_that_go_together_share_a_send_and_arrive_whole_and_in_order)
{
	for (uint32_t d = 0; d < ARRAY_LEN(devices); d++) {
		static const uint32_t sizes[] = { 0, 28, 29, 64, 1024, 0, 0, 28 };
		struct fab_call calls[8], *done;
		uint8_t body[1024];
		uint32_t sends;

		begin(&devices[d], 8);
		fill(body, sizeof(body), d);
		for (uint32_t round = 0; round < 20; round++) {
			struct fab_req *reqs[8];

			sends = fake_verbs_stat.sends;
			for (uint32_t i = 0; i < 8; i++) {
				calls[i] = (struct fab_call){ .type = FAB_STATUS };
				cr_assert_eq(fab_submit(rig.conn, &calls[i]), 0);
			}
			fab_flush(rig.conn);
			for (uint32_t i = 0; i < 8; i++)
				reqs[i] = fab_rig_request(&rig);
			for (uint32_t i = 0; i < 8; i++)
				fab_reply(reqs[i], 0, body, sizes[(i + round) % 8]);
			for (uint32_t i = 0; i < 8; i++) {
				done = fab_rig_done(&rig, rig.conn);
				cr_assert_eq(done, &calls[i], "device %u", d);
				cr_assert_eq(done->body_bytes, sizes[(i + round) % 8]);
				cr_assert_eq(memcmp(done->body, body, done->body_bytes), 0);
			}
			if (!devices[d].max_qp_wr)
				cr_assert_leq(fake_verbs_stat.sends - sends, 6, "%u",
					      fake_verbs_stat.sends - sends);
		}
		fab_rig_settle(&rig);
		cr_assert_eq(fake_verbs_receives(true), 8);
		cr_assert_eq(fake_verbs_stat.rnr, 0);
		end();
	}
}

/* Behind a capsule its SEND has `bytes` of `tail`: does the session go on? */
static bool goes_on(const void *tail, uint32_t bytes)
{
	struct fake_verbs_cfg verbs = { .seed = 21 };
	struct fab_hdr_wire both[3] = { 0 };
	struct fab_event event;
	struct fab_rdma *r;
	struct fab_req *req;

	begin(&verbs, 8);
	r = container_of(rig.conn->link, struct fab_rdma, link);
	fab__hdr_build(&both[0], FAB_PING, 1);
	memcpy(&both[1], tail, bytes);
	cr_assert_gt(fab__rdma_hello_send(r, both, (uint32_t)sizeof(both[0]) + bytes), 0);
	req = fab_rig_request(&rig);
	cr_assert_eq(req->type, FAB_PING);
	event = fab_rig_event(&rig);
	if (event.type == FAB_EVENT_REQUEST) {
		cr_assert_eq(event.req->type, FAB_PING);
		fab_reply(event.req, 0, NULL, 0);
		fab_reply(req, 0, NULL, 0);
	} else {
		cr_assert_eq(event.type, FAB_EVENT_CANCEL, "%u bytes", bytes);
		fab_reply(req, -ECONNRESET, NULL, 0);
		while (fab_rig_event(&rig).type != FAB_EVENT_SESSION_CLOSED)
			;
	}
	end();
	return event.type == FAB_EVENT_REQUEST;
}

Test(fab_rdma, a_send_with_half_a_capsule_in_it_ends_the_session)
{
	struct fab_hdr_wire tail[2] = { 0 };

	cr_assert_not(goes_on(tail, 1));
	cr_assert_not(goes_on(tail, sizeof(tail[0]))); /* no check */
	fab__hdr_build(&tail[0], FAB_PING, 2);
	tail[0].check = le32_of(fab__hdr_check(&tail[0]));
	cr_assert(goes_on(tail, sizeof(tail[0])));
	cr_assert_not(goes_on(tail, sizeof(tail[0]) - 1));
	tail[0].body_bytes = le32_of(40); /* which are not all there */
	tail[0].check = le32_of(fab__hdr_check(&tail[0]));
	cr_assert_not(goes_on(tail, sizeof(tail[0]) + 39));
}

Test(fab_rdma, few_completions_are_asked_for)
{
	struct fake_verbs_cfg verbs = { .seed = 12, .steps_max = 64 };
	uint32_t sends, signalled;

	begin(&verbs, 64);
	sends = fake_verbs_stat.sends;
	signalled = fake_verbs_stat.signalled;
	for (uint32_t i = 0; i < 320; i++) {
		struct fab_call call = { .type = FAB_PING };

		cr_assert_eq(fab_submit(rig.conn, &call), 0);
		fab_reply(fab_rig_request(&rig), 0, NULL, 0);
		cr_assert_eq(fab_rig_done(&rig, rig.conn), &call);
	}
	cr_assert_eq(fake_verbs_stat.sends - sends, 640);
	cr_assert_leq(fake_verbs_stat.signalled - signalled, 640 / 16 + 2);
	end();
}

/* Eight reads with parts on their way, and two pulls. */
static void load(struct fab_call calls[8], struct fab_req *reqs[8], struct fab_piece pieces[10])
{
	for (uint32_t i = 0; i < 8; i++) {
		calls[i] = read_call(i * 131072, 131072);
		cr_assert_eq(fab_submit(rig.conn, &calls[i]), 0);
	}
	for (uint32_t i = 0; i < 8; i++)
		reqs[i] = fab_rig_request(&rig);
	fake_verbs_freeze(true);
	for (uint32_t i = 0; i < 10; i++) {
		pieces[i] =
			(struct fab_piece){ .bytes = staging + i * 131072, .length_bytes = 131072 };
		cr_assert_eq(i < 8 ? fab_send_part(reqs[i], &pieces[i])
				   : fab_pull(reqs[i - 8], &pieces[i]),
			     0);
	}
	fab_server_flush(rig.srv);
}

/* The appliance ends what it is told to end; pieces come back only when no card has them. */
static void drain(struct fab_req *reqs[8], uint32_t *pieces_back, bool *closed)
{
	struct fab_event event;
	uint32_t pulls = 2, cancels = 0;

	for (int i = 0; i < 2000 && !*closed; i++) {
		if (fab_server_poll(rig.srv, rig.now_ns, &event, 1) == 0) {
			if (i % 16 == 15) /* where queue pairs are destroyed: late */
				fab_rig_control(&rig);
			continue;
		}
		switch (event.type) {
		case FAB_EVENT_SENT:
		case FAB_EVENT_PULLED:
			cr_assert_eq(event.piece->status, -ECONNRESET);
			cr_assert_not(
				fake_verbs_busy(event.piece->bytes, event.piece->length_bytes));
			++*pieces_back;
			pulls -= event.type == FAB_EVENT_PULLED;
			break;
		case FAB_EVENT_CANCEL:
			cancels++;
			break;
		case FAB_EVENT_SESSION_CLOSED:
			*closed = true;
			break;
		default:
			cr_assert_fail("event %d", event.type);
		}
		if (pulls == 0 && cancels == 8) {
			for (uint32_t r = 0; r < 8; r++)
				fab_reply(reqs[r], -ECONNRESET, NULL, 0);
			cancels = 0;
		}
	}
}

/* Ends a session under load by `how`, and looks at what is left.  Returns how many of the ten
 * pieces that were in flight came back. */
static uint32_t broken_by(void (*how)(void))
{
	struct fake_verbs_cfg verbs = { .seed = 13 };
	struct fab_call calls[8], *done[8];
	struct fab_piece pieces[10];
	struct fab_req *reqs[8];
	uint32_t before, back = 0, n = 0;
	bool closed = false;

	fake_verbs_begin(&verbs);
	fab_rig_serve(&rig, "rdma://10.0.0.1:0", NULL);
	fab_server_memory(rig.srv, staging, sizeof(staging));
	fab_rig_connect(&rig, POOL);
	fab_close(rig.conn);
	rig.conn = NULL;
	fab_rig_settle(&rig);
	before = fake_verbs_objects(); /* the listener, and the device with its memory */
	fab_rig_connect(&rig, POOL);
	load(calls, reqs, pieces);
	how();
	drain(reqs, &back, &closed);
	cr_assert(closed);
	fake_verbs_freeze(false);
	for (int i = 0; i < 100 && n < 8; i++)
		n += fab_poll(rig.conn, rig.now_ns += 1000000000, done + n, 8 - n);
	cr_assert_eq(n, 8);
	for (uint32_t i = 0; i < 8; i++)
		cr_assert_eq(calls[i].status, -ECONNRESET);
	cr_assert_eq(fab_conn_status(rig.conn), -ECONNRESET);
	fab_close(rig.conn);
	rig.conn = NULL;
	fab_rig_settle(&rig);
	cr_assert_eq(fake_verbs_objects(), before);
	fab_rig_connect(&rig, POOL); /* and its place is free */
	read_once(0, 50000, 3);
	end();
	return back;
}

static void by_nothing_done(void)
{
	rig.now_ns += UINT64_C(31000000000);
}

Test(fab_rdma, a_queue_pair_that_breaks_under_load_lends_until_it_is_destroyed)
{
	cr_assert_eq(broken_by(fake_verbs_break), 10);
}

Test(fab_rdma, a_peer_that_is_gone_is_given_up_after_30_s)
{
	cr_assert_eq(broken_by(by_nothing_done), 10);
}

/* soft-RoCE fails if the connection manager sends a message then: see fake_verbs_port(). */
Test(fab_rdma, while_a_port_is_down_nobody_says_anything_and_then_all_goes_on)
{
	struct fake_verbs_cfg verbs = { .seed = 20 };
	struct fab_connect_cfg cfg = { .key = fab_rig_key };
	struct fab_call calls[8], *done[8];
	struct fab_piece pieces[10];
	struct fab_req *reqs[8];
	struct fab_conn *conn;
	uint32_t back = 0, before;
	bool closed = false;

	begin(&verbs, 8);
	cfg.address = rig.address;
	fab_rig_settle(&rig);
	before = fake_verbs_objects();
	load(calls, reqs, pieces);
	fake_verbs_port(false);
	drain(reqs, &back, &closed);
	cr_assert(closed);
	for (uint32_t n = 0; n < 8;)
		n += fab_poll(rig.conn, rig.now_ns, done + n, 8 - n);
	fab_close(rig.conn);
	rig.conn = NULL;
	for (uint32_t i = 0; i < 5; i++) {
		rig.now_ns += NS_PER_S / 2;
		fake_verbs_port_seen(i == 0); /* a moment ago it was up */
		cr_assert_eq(fab_rig_dial(&rig, &cfg, &conn), -ENETDOWN);
		cr_assert(strstr(fab_conn_error(conn), "is down"), "%s", fab_conn_error(conn));
		fab_close(conn);
		fab_rig_settle(&rig);
	}
	fake_verbs_port(true);
	fake_verbs_freeze(false);
	rig.now_ns += NS_PER_S;
	fab_rig_connect(&rig, POOL);
	for (uint32_t i = 0; i < 3; i++) {
		rig.now_ns += NS_PER_S;
		fab_rig_settle(&rig);
	}
	cr_assert_eq(fake_verbs_objects(), before); /* the old ones are gone */
	read_once(0, 50000, 3);
	end();
}

Test(fab_rdma, memory_that_no_card_knows_ends_the_session_and_not_the_process)
{
	struct fake_verbs_cfg verbs = { .seed = 14 };
	static uint8_t elsewhere[4096];
	struct fab_piece piece = { .bytes = elsewhere, .length_bytes = sizeof(elsewhere) };
	struct fab_call call;
	struct fab_req *req;

	begin(&verbs, 4);
	call = read_call(0, 4096);
	cr_assert_eq(fab_submit(rig.conn, &call), 0);
	req = fab_rig_request(&rig);
	cr_assert_eq(fab_send_part(req, &piece), 0);
	cr_assert_eq(fab_rig_event(&rig).type, FAB_EVENT_CANCEL);
	fab_reply(req, -ECONNRESET, NULL, 0);
	while (fab_rig_event(&rig).type != FAB_EVENT_SESSION_CLOSED)
		;
	end();
}

Test(fab_rdma, a_wrong_key_is_refused_and_told_why)
{
	struct fake_verbs_cfg verbs = { .seed = 15 };
	struct fab_connect_cfg cfg = { .key = fab_rig_key };
	struct fab_conn *conn;

	begin(&verbs, 4);
	cfg.address = rig.address;
	cfg.key.secret[0] ^= 1;
	cr_assert_eq(fab_rig_dial(&rig, &cfg, &conn), -EACCES);
	fab_close(conn);
	fab_rig_settle(&rig);
	cr_assert_eq(rig.refused, 1);
	end();
}

Test(fab_rdma, nobody_there_is_an_error_with_a_line)
{
	struct fake_verbs_cfg verbs = { .seed = 16 };
	struct fab_connect_cfg cfg = { .address = "rdma://10.0.0.1:9", .key = fab_rig_key };
	struct fab_conn *conn;

	begin(&verbs, 4);
	cr_assert_eq(fab_rig_dial(&rig, &cfg, &conn), -ECONNREFUSED);
	cr_assert_str_eq(fab_conn_error(conn), "RDMA: the connection was refused");
	fab_close(conn);
	end();
}

Test(fab_rdma, a_device_that_can_too_little_is_refused_by_name)
{
	struct fake_verbs_cfg verbs = { .seed = 17, .max_qp_wr = 2 };
	struct fab_connect_cfg cfg = { .key = fab_rig_key };
	struct fab_conn *conn;

	fake_verbs_begin(&verbs);
	fab_rig_serve(&rig, "rdma://10.0.0.1:0", NULL);
	cfg.address = rig.address;
	cr_assert_eq(fab_rig_dial(&rig, &cfg, &conn), -EOPNOTSUPP);
	cr_assert(strstr(fab_conn_error(conn), "the device can too little: 2 work requests, "),
		  "%s", fab_conn_error(conn));
	fab_close(conn);
	fab_server_stop(rig.srv);
	fab_rig_settle(&rig);
	fab_server_destroy(rig.srv);
	fake_verbs_end();
}

Test(fab_rdma, greetings)
{
	struct fab_rdma_greeting g;
	uint8_t bytes[56] = { 0 };

	fab__rdma_greeting_build(bytes);
	cr_assert_eq(fab__rdma_greeting_parse(&g, bytes, 8), 0);
	cr_assert_eq(fab__rdma_greeting_parse(&g, bytes, 56), 0); /* carriers pad */
	cr_assert_eq(fab__rdma_greeting_parse(&g, bytes, 7), -EPROTO);
	bytes[40] = 1;
	cr_assert_eq(fab__rdma_greeting_parse(&g, bytes, 56), -EPROTO);
	bytes[40] = 0;
	bytes[4] = bytes[5] = 9;
	cr_assert_eq(fab__rdma_greeting_parse(&g, bytes, 56), -EPROTONOSUPPORT);
	bytes[5] = 8;
	cr_assert_eq(fab__rdma_greeting_parse(&g, bytes, 56), -EPROTO);
	bytes[0] = 'w';
	cr_assert_eq(fab__rdma_greeting_parse(&g, bytes, 56), -EPROTO);
}
