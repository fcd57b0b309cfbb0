/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Both ends of a session over a network from a seed: delays, pieces, cancels, deadlines, cuts.
 *
 * Whatever happens: each call comes back once; an answer that came is the right one; each piece
 * comes back once; and after the session has closed nothing of it is out.  (Inside the loops
 * ASSERT: Criterion sends a message for each of its own.)
 */
#include "test/lib/sim_net.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 24, STEPS = 3000, PIECE_BYTES = 20000, POOL = 4 << 20 };
enum { BLOCKS_BYTES = (PIECE_BYTES + BLOCK_SIZE - 1) / BLOCK_SIZE * BLOCK_SIZE };

static const struct fab_limits limits = {
	.credits = 16,
	.long_bodies = 2,
	.batch_max = 64,
	.window_max_bytes = 1 << 20,
	.pool_max_bytes = 64 << 20,
};

struct op { /* a request, at the appliance */
	struct fab_req *req;
	struct fab_piece piece;
	uint8_t bytes[BLOCKS_BYTES];
	uint32_t pieces_out;
	bool reply_due;
	bool broken;
};

struct client_call {
	struct fab_call call;
	struct fab_put_item put;
	bool out;
	uint32_t serial;
};

struct world {
	struct sim_net net;
	struct sim_link ends[2];
	struct fab_server *srv;
	struct fab_conn *conn;
	struct fab_region *region;
	struct op ops[64];
	struct client_call calls[CALLS];
	uint32_t serial;
	uint32_t submitted, returned, answered, session_open;
};

static uint8_t pattern(uint64_t what, uint32_t i)
{
	return (uint8_t)(what * 131 + i * 7 + (i >> 8));
}

/* ---- the appliance ------------------------------------------------------------------ */

static struct op *op_free(struct world *w)
{
	for (int i = 0; i < 64; i++)
		if (!w->ops[i].req && !w->ops[i].pieces_out)
			return &w->ops[i];
	UNREACHABLE();
}

static void op_begin(struct world *w, struct fab_req *req)
{
	struct op *op = op_free(w);
	int err = 0;

	*op = (struct op){ .req = req };
	req->user = op;
	op->piece =
		(struct fab_piece){ .user = op, .bytes = op->bytes, .length_bytes = PIECE_BYTES };
	if (req->type == FAB_READ) {
		for (uint32_t i = 0; i < PIECE_BYTES; i++)
			op->bytes[i] = pattern(req->args.read.offset_bytes, i);
		if (req->args.read.offset_bytes % 2 == 0) { /* behind its reply, perhaps */
			memset(op->bytes + PIECE_BYTES, 0xee, BLOCKS_BYTES - PIECE_BYTES);
			op->piece.length_bytes = BLOCKS_BYTES;
		}
		err = fab_send_part(req, &op->piece);
		op->reply_due = true;
	} else if (req->type == FAB_PUT) {
		err = fab_pull(req, &op->piece);
		op->reply_due = err < 0;
	} else {
		op->reply_due = true;
		return;
	}
	ASSERT(err == 0 || err == -ECONNRESET);
	op->pieces_out = err == 0;
}

static void op_reply(struct op *op)
{
	static const uint32_t sums[8];
	struct fab_put_item item;
	int status = op->broken ? -ECONNRESET : 0;

	if (op->req->type == FAB_READ) {
		fab_reply_read(op->req, PIECE_BYTES, sums, 0);
	} else {
		if (op->req->type == FAB_PUT && !status) {
			fab_req_put_item(op->req, 0, &item);
			for (uint32_t i = 0; i < PIECE_BYTES; i++)
				ASSERT(op->bytes[i] == pattern((uint64_t)item.mtime_ns, i));
		}
		fab_reply(op->req, status, NULL, 0);
	}
	op->req = NULL;
	op->reply_due = false;
}

static void server_event(struct world *w, const struct fab_event *e)
{
	struct op *op;

	switch (e->type) {
	case FAB_EVENT_SESSION_NEW:
		w->session_open++;
		return;
	case FAB_EVENT_SESSION_CLOSED:
		w->session_open--;
		for (int i = 0; i < 64; i++)
			ASSERT(!w->ops[i].req && !w->ops[i].pieces_out);
		return;
	case FAB_EVENT_REQUEST:
		op_begin(w, e->req);
		return;
	case FAB_EVENT_CANCEL:
		op = e->req->user;
		ASSERT(op->req == e->req);
		return;
	case FAB_EVENT_PULLED:
		op = e->piece->user;
		op->broken = e->status < 0;
		op->reply_due = true;
		op->pieces_out--;
		return;
	case FAB_EVENT_SENT:
		op = e->piece->user;
		op->pieces_out--;
		return;
	}
}

static void server_turn(struct world *w)
{
	struct fab_control_event control;
	struct fab_event events[4];
	uint32_t n = fab_server_poll(w->srv, w->net.now_ns, events,
				     1 + (uint32_t)rand_below(&w->net.rand, 4));

	for (uint32_t i = 0; i < n; i++)
		server_event(w, &events[i]);
	for (int i = 0; i < 64; i++)
		if (w->ops[i].reply_due && rand_below(&w->net.rand, 3) == 0)
			op_reply(&w->ops[i]);
	fab_server_flush(w->srv);
	ASSERT(fab_server_control_step(w->srv, w->net.now_ns, &control, 1) == 0);
}

/* ---- the client --------------------------------------------------------------------- */

static void call_submit(struct world *w, uint32_t i)
{
	struct client_call *c = &w->calls[i];
	uint8_t *at = (uint8_t *)fab_region_memory(w->region) + (uint64_t)i * 65536;
	int err;

	memset(c, 0, sizeof(*c));
	c->serial = ++w->serial;
	c->call.region = w->region;
	c->call.window_offset = (uint64_t)i * 65536;
	c->call.window_bytes = 65536;
	if (rand_below(&w->net.rand, 4) == 0)
		c->call.deadline_us = 1 + (uint32_t)rand_below(&w->net.rand, 3000);
	switch (rand_below(&w->net.rand, 3)) {
	case 0:
		c->call.type = FAB_READ;
		c->call.args.read.offset_bytes = c->serial;
		c->call.args.read.length_bytes = PIECE_BYTES;
		memset(at, 0xee, 65536);
		break;
	case 1:
		c->call.type = FAB_PUT;
		c->put = (struct fab_put_item){
			.name = { .by = FAB_BY_PATH, .name = "/f", .name_bytes = 2 },
			.size_bytes = PIECE_BYTES,
			.sums_at = 32768,
			.mtime_ns = c->serial,
		};
		c->call.args.batch.count = 1;
		c->call.args.batch.puts = &c->put;
		for (uint32_t k = 0; k < PIECE_BYTES; k++)
			at[k] = pattern(c->serial, k);
		break;
	default:
		c->call.type = FAB_PING;
	}
	err = fab_submit(w->conn, &c->call);
	ASSERT(err == 0 || err == -EAGAIN || err == -ECONNRESET);
	c->out = err == 0;
	w->submitted += err == 0;
}

static void call_done(struct world *w, struct fab_call *call)
{
	struct client_call *c = container_of(call, struct client_call, call);
	const uint8_t *at = (uint8_t *)fab_region_memory(w->region) + call->window_offset;

	ASSERT(c->out);
	c->out = false;
	w->returned++;
	if (call->status) {
		ASSERT(call->status == -ECONNRESET);
		return;
	}
	w->answered++;
	if (call->type != FAB_READ)
		return;
	ASSERT(call->length_bytes == PIECE_BYTES);
	for (uint32_t i = 0; i < PIECE_BYTES; i++)
		ASSERT(at[i] == pattern(c->serial, i));
	for (uint32_t i = PIECE_BYTES; i < 65536; i += 97)
		ASSERT(at[i] == 0xee); /* nothing beyond what was sent */
}

static void client_turn(struct world *w, bool submit)
{
	struct fab_call *done[4];
	uint32_t i = (uint32_t)rand_below(&w->net.rand, CALLS), n;

	if (submit && !w->calls[i].out)
		call_submit(w, i);
	i = (uint32_t)rand_below(&w->net.rand, CALLS);
	if (w->calls[i].out && rand_below(&w->net.rand, 20) == 0)
		fab_cancel(w->conn, &w->calls[i].call);
	n = fab_poll(w->conn, w->net.now_ns, done, 1 + (uint32_t)rand_below(&w->net.rand, 4));
	for (uint32_t k = 0; k < n; k++)
		call_done(w, done[k]);
}

/* ---- the runs ----------------------------------------------------------------------- */

static void world_begin(struct world *w, uint64_t seed)
{
	struct fab_server_cfg cfg = { .key.id = "sim", .sessions_max = 1, .limits = limits };

	memset(w, 0, sizeof(*w));
	sim_net_init(&w->net, seed, 50000);
	sim_link_pair(&w->net, &w->ends[0], &w->ends[1]);
	cr_assert_eq(fab_server_create(&w->srv, &cfg), 0);
	w->conn = sim_net_connect(w->srv, &w->ends[0], &w->ends[1], &limits);
	cr_assert_eq(fab_pool_add(w->conn, POOL, &w->region), 0);
	while (fab_region_status(w->region) == -EINPROGRESS) {
		w->net.now_ns += 10000;
		server_turn(w);
		client_turn(w, false);
	}
	cr_assert_eq(fab_region_status(w->region), 0);
}

/* How many of its calls came back, of all that were made. */
static uint32_t run(uint64_t seed, uint32_t *submitted)
{
	static struct world w;
	uint64_t cut_at;

	world_begin(&w, seed);
	cut_at = seed % 3 == 0 ? STEPS : rand_below(&w.net.rand, STEPS);
	for (uint64_t step = 0; step < STEPS; step++) {
		w.net.now_ns += rand_below(&w.net.rand, 20000);
		if (step == cut_at)
			sim_link_cut(&w.ends[0]);
		server_turn(&w);
		client_turn(&w, true);
	}
	for (int i = 0; i < 2000 && w.returned < w.submitted; i++) {
		w.net.now_ns += 50000;
		server_turn(&w);
		client_turn(&w, false);
	}
	cr_assert_gt(w.answered, 0);
	if (cut_at == STEPS)
		cr_assert_eq(w.answered, w.submitted);
	sim_link_cut(&w.ends[0]);
	for (int i = 0; i < 200; i++)
		server_turn(&w);
	cr_assert_eq(w.session_open, 0, "seed %lu", seed);
	fab_close(w.conn);
	sim_link_free(&w.ends[0]);
	sim_link_free(&w.ends[1]);
	fab_server_destroy(w.srv);
	*submitted = w.submitted;
	return w.returned;
}

Test(fab_sim, every_call_and_every_piece_comes_back_once)
{
	for (uint64_t seed = 0; seed < 60; seed++) {
		uint32_t submitted, returned = run(seed, &submitted);

		cr_assert_eq(returned, submitted, "seed %lu: %u of %u", seed, returned, submitted);
	}
}
