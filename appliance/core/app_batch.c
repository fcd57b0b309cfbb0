/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Requests of many items: FAB_READ_BATCH, FAB_PUT, FAB_STAT, FAB_UNLINK_BATCH, ...  Each item is a
 * separate operation, and some run at once; after the last one has ended, the end of the batch
 * begins.
 *
 *   window of a read   | block | block | ... | block | sums | ...       | answers |
 *                      0        taken in the order of the plans         ^ fab_answers_at()
 *
 * The checksums follow the last block, so their place is known only at the end: until then an
 * item's answer has the index of its first checksum.
 *
 * Invariants, true between any two calls:
 *
 *  (1) A batch is on its session's list exactly if an item of it can begin, or its end can.
 *  (2) Items 0 .. next - 1 have begun; in_flight of them have not answered.
 */
#include "appliance/core/app_quota.h"
#include "appliance/core/app_op.h"
#include "appliance/core/app_stat.h"

#include <errno.h>
#include <string.h>

/* Names only: an item's answer is in its wire form at once, and comes in the reply or at the
 * window's start. */
static bool answers_statuses(const struct fab_req *req)
{
	return req->type == FAB_UNLINK_BATCH || req->type == FAB_HOLD || req->type == FAB_LET_GO;
}

static bool is_of_names(const struct fab_req *req)
{
	return req->type == FAB_STAT || answers_statuses(req);
}

static uint32_t wire_bytes(const struct fab_req *req)
{
	uint32_t each = req->type == FAB_STAT   ? FAB_STAT_BYTES
			: answers_statuses(req) ? FAB_STATUS_BYTES
						: FAB_ANSWER_BYTES;

	DASSERT(req->args.batch.count > 0 && req->args.batch.count <= FAB_BATCH_MAX);
	return req->args.batch.count * each;
}

static uint32_t answers_bytes(const struct fab_req *req)
{
	DASSERT(req->args.batch.count > 0);
	return is_of_names(req) ? 0 : req->args.batch.count * (uint32_t)sizeof(struct fab_answer);
}

/* Returns how many blocks fit before the answers, each with a checksum. */
static uint32_t window_blocks(const struct fab_req *req)
{
	if (req->type != FAB_READ_BATCH)
		return 0;
	return fab_answers_at(req->window.length_bytes, req->args.batch.count) /
	       (BLOCK_SIZE + (uint32_t)sizeof(le32));
}

static struct app_session *session_of(const struct app_batch *b)
{
	DASSERT(b->req && b->req->session->user);
	return b->req->session->user;
}

/* (1) */
static void enlist(struct app_core *core, struct app_batch *b)
{
	bool can = b->next < b->count ? b->in_flight < core->cfg.batch_in_flight
				      : b->in_flight == 0 && !b->ending;

	ASSERT(b->next <= b->count && b->in_flight <= b->next); /* (2) */
	if (!can) {
		list_del(&b->link);
		return;
	}
	if (!list_linked(&b->link))
		list_push_back(&session_of(b)->batches, &b->link);
	app_turn_want(core, session_of(b));
	DASSERT(list_linked(&b->link)); /* (1) */
}

bool app_batch_begin(struct app_core *core, struct fab_req *req)
{
	uint32_t table_bytes = answers_bytes(req) + wire_bytes(req);
	uint32_t blocks = window_blocks(req);
	struct app_session *s = req->session->user;
	struct app_batch *b;
	void *table, *sums = NULL;

	if (list_empty(&core->batch_free))
		return false;
	table = app_table_take(core, s, table_bytes);
	if (!table)
		return false;
	if (blocks)
		sums = app_table_take(core, s, blocks * (uint32_t)sizeof(le32));
	if (blocks && !sums) {
		app_table_give(core, s, table, table_bytes);
		return false;
	}
	b = list_entry(list_pop_front(&core->batch_free), struct app_batch, link);
	ASSERT(!b->part && !list_linked(&b->link));
	*b = (struct app_batch){
		.req = req,
		.count = req->args.batch.count,
		.blocks_max = blocks,
		.answers = table,
		.wire = (char *)table + answers_bytes(req),
		.sums = sums,
		.table_bytes = table_bytes,
	};
	list_init(&b->link);
	req->user = b;
	enlist(core, b);
	return true;
}

int app_batch_place(struct app_batch *b, uint32_t nblocks, uint32_t *data_at, uint32_t *first_sum)
{
	ASSERT(b->blocks <= b->blocks_max);
	if (nblocks > b->blocks_max - b->blocks)
		return -EMSGSIZE;
	*data_at = b->blocks * BLOCK_SIZE;
	*first_sum = b->blocks;
	b->blocks += nblocks;
	return 0;
}

/* ---- items ------------------------------------------------------------------------ */

static void item_begin(struct app_core *core, struct app_batch *b)
{
	const struct app_row *row = &app_rows[b->req->type];
	struct app_op *op = app_op_take(core, row->kind, b->req);

	DASSERT(b->next < b->count && !b->ending); /* (2) */
	ASSERT(op);
	op->batch = b;
	op->index = b->next++;
	if (row->changes)
		app_change_begin(op);
	b->in_flight++;
	core->batch_ops++;
	core->stat.items++;
	row->begin(op);
	app_turn_item(op);
	if (row->kind == APP_OP_READ)
		app_quota_read_begin(op);
	app_fresh(op);
}

static void end_begin(struct app_core *core, struct app_batch *b)
{
	struct app_op *op = app_op_take(core, APP_OP_BATCH_END, b->req);

	ASSERT(!b->ending && b->in_flight == 0 && b->next == b->count); /* (2) */
	ASSERT(op);
	b->ending = true;
	op->batch = b;
	op->seen_seq = b->seen_seq;
	app_op_ready(op);
}

uint32_t app_batch_visit(struct app_core *core, struct app_batch *b, uint32_t items_max)
{
	uint32_t ops_max = max_u32(core->cfg.ops_max - core->cfg.ops_max / 4, 1), begun = 0;

	ASSERT(!b->ending && items_max > 0);
	if (b->next == b->count) {
		if (core->op_free_count == 0)
			return 0;
		end_begin(core, b);
		begun = 1;
	}
	while (begun < items_max && b->next < b->count &&
	       b->in_flight < core->cfg.batch_in_flight && core->batch_ops < ops_max &&
	       core->op_free_count > 0 && !app_session_full(core, session_of(b))) {
		item_begin(core, b);
		begun++;
	}
	list_del(&b->link); /* to the back: a session's batches take turns */
	enlist(core, b);
	return begun;
}

void app_batch_item_done(struct app_op *op)
{
	struct app_batch *b = op->batch;
	struct fab_answer *a = &b->answers[op->index];
	struct fab_attr attr;

	ASSERT(op->core->batch_ops > 0);
	ASSERT(op->index < b->next && b->in_flight > 0); /* (2) */
	b->in_flight--;
	op->core->batch_ops--;
	if (b->req->type == FAB_STAT) {
		app_attr_out(op->req->session, &op->meta.attr, &attr);
		fab_build_stat(b->wire + op->index * FAB_STAT_BYTES, op->status, &attr);
		return;
	}
	if (answers_statuses(b->req)) {
		fab_build_status(b->wire + op->index * FAB_STATUS_BYTES, op->status);
		return;
	}
	*a = (struct fab_answer){ .status = op->status };
	if (b->req->type == FAB_READ_BATCH) {
		if (op->status == 0) {
			a->data_at = op->window_at;
			a->sums_at = op->first_sum;
			app_stat_read(op, op->done_bytes);
		}
		if (op->status == 0 || op->status == -EMSGSIZE)
			a->length_bytes = op->done_bytes;
	} else if (op->status == 0) {
		a->handle = app_handle_out(op->req->session, &op->meta.attr.handle);
	}
}

void app_batch_check_end(struct app_core *core, struct app_batch *b)
{
	ASSERT(b->in_flight <= b->next);
	if (b->next == b->count && b->in_flight == 0 && !b->ending && core->op_free_count > 0)
		end_begin(core, b);
	enlist(core, b);
}

void app_batch_cancel(struct app_core *core, struct app_batch *b, int status)
{
	ASSERT(status < 0);
	if (!b->cancel)
		b->cancel = status;
	b->next = b->count;   /* the other items will not begin, */
	app_wake_parts(core); /* and those that wait for parts need not wait */
	app_quota_wake_all(session_of(b));
	enlist(core, b);
}

/* ---- the end ---------------------------------------------------------------------- */

enum app_next app_batch_end_step(struct app_op *op)
{
	struct app_batch *b = op->batch;

	ASSERT(b->ending && b->in_flight == 0);
	if (b->part) {
		b->part->closed = true;
		app_part_filled(op->core, b->req, b->part);
		b->part = NULL;
	}
	return app_op_end(op, b->cancel);
}

static void build_answers(struct app_batch *b)
{
	ASSERT(b->blocks <= b->blocks_max && b->in_flight == 0);
	for (uint32_t i = 0; i < b->count; i++) {
		struct fab_answer *a = &b->answers[i];
		char *wire = b->wire + i * FAB_ANSWER_BYTES;

		if (b->req->type == FAB_PUT) {
			fab_build_answer_put(wire, a);
			continue;
		}
		if (a->status == 0 && a->length_bytes)
			a->sums_at = b->blocks * BLOCK_SIZE + a->sums_at * (uint32_t)sizeof(le32);
		else
			a->data_at = a->sums_at = 0;
		fab_build_answer_read(wire, a);
	}
}

static void give_tables(struct app_core *core, struct app_batch *b)
{
	ASSERT(b->answers && b->in_flight == 0);
	app_table_give(core, session_of(b), b->answers, b->table_bytes);
	if (b->sums)
		app_table_give(core, session_of(b), b->sums,
			       b->blocks_max * (uint32_t)sizeof(le32));
}

void app_batch_end_answer(struct app_op *op)
{
	struct app_core *core = op->core;
	struct app_batch *b = op->batch;
	struct fab_req *req = b->req;
	uint32_t bytes = wire_bytes(req), at = 0;
	bool sent = true;

	ASSERT(b->ending && !b->part && b->next == b->count && b->drives_out == 0);
	req->took_ns = max_u64(core->now_ns - req->arrived_ns, 1);
	req->drive_ns = b->drives_ns;
	if (op->status) {
		give_tables(core, b);
		fab_reply(req, op->status, NULL, 0);
	} else if (is_of_names(req) && !req->window.pool && req->window.length_bytes == 0) {
		fab_reply(req, 0, b->wire, bytes);
		give_tables(core, b);
	} else {
		if (!is_of_names(req)) {
			build_answers(b);
			at = fab_answers_at(req->window.length_bytes, b->count);
		}
		if (b->sums)
			sent = app_table_send(op, b->sums, b->blocks_max * (uint32_t)sizeof(le32),
					      b->sums, b->blocks * BLOCK_SIZE,
					      b->blocks * (uint32_t)sizeof(le32));
		sent &= app_table_send(op, b->answers, b->table_bytes, b->wire, at, bytes);
		fab_reply(req, sent ? 0 : -EAGAIN, NULL, 0);
	}
	op->batch = NULL;
	list_del(&b->link);
	list_push_front(&core->batch_free, &b->link);
}
