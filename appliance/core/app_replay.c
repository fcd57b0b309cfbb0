/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Changes that a client sends again, since its session broke before the answer came.
 *
 *   request, sent before --RECALL--> made      --> the answer that it had, or would have had
 *                               |--> not made  --> it begins, as if it came for the first time
 *                               '--> not known --> -ECONNRESET
 *
 * Why no change is made twice, and no change that was not made is acknowledged:
 *
 *  (1) A change and its receipt are one log record (meta_receipt.c), so after any crash there are
 *      both or neither [sim/wire].
 *  (2) A session of a client begins when all its earlier ones have ended (fab_arrival.c), with
 *      every operation of theirs: so their changes have receipts before the first RECALL, and a
 *      change without one will never be made [sim/wire].
 *  (3) The answer to a RECALL waits until the record with the receipt is durable, as every answer
 *      waits for everything that it saw [sim/wire].
 *  (4) Nothing is known about a forgotten client, unless it is certain that no client was
 *      forgotten since it sent the change first (PROTOCOL.md 5).
 *  (5) Rights are the present ones: app_rights_check() comes first.  Only a client that proves the
 *      same key finds the receipt (fab_hello.c).
 *
 * Requests without a receipt: a failed request (it has changed nothing and may be tried again),
 * PUT_BEGIN and PUT_ABORT (a hidden file ends with its session, so a new one is made, and the abort
 * has happened already).  A PUT or UNLINK_BATCH leaves one for each item.  A write across a
 * multiple of 4 MiB is two changes of the store, the first of which is marked as a part: if a crash
 * came in between, the result is unknown, so -ECONNRESET.
 */
#include "appliance/core/app_op.h"
#include "base/clock.h"

#include <errno.h>

#define AGE_NS                                                                                     \
	(300 * NS_PER_S) /* a client that has gone is remembered for two of these, or three */

void app_change_begin(struct app_op *op)
{
	const struct fab_req *req = op->req;
	struct fab_change change;

	ASSERT(app_rows[req->type].changes && op->recall == APP_RECALL_NO);
	if (likely(!fab_req_change(req, &change)) || req->type == FAB_PUT_BEGIN)
		return;
	if (change.again)
		op->recall = APP_RECALL_DUE;
	if (req->type == FAB_PUT_ABORT)
		return;
	op->receipt = (struct meta_receipt_id){
		.client = req->session->client,
		.number = change.number,
		.slot = (uint16_t)change.slot,
		.item = (uint16_t)op->index,
		.sure = change.sure,
		.forgotten = req->session->forgotten,
	};
	ASSERT(op->receipt.client && op->receipt.number > 0 && op->receipt.slot < FAB_CHANGE_SLOTS);
}

/* Looks up the attributes for the answer, as they are now. */
static enum app_next look(struct app_op *op)
{
	const struct meta_attr made = op->meta.attr;
	const bool hold = op->req->type == FAB_OPEN && op->flags & FAB_OPEN_HOLD;
	int err = hold ? app_hold_begin(op) : 0;

	ASSERT(op->recall == APP_RECALL_ASKED || op->recall == APP_RECALL_NO);
	if (err)
		return app_op_end(op, err);
	op->recall = APP_RECALL_LOOKED;
	op->handle = made.handle;
	op->meta.flags = META_NOFOLLOW | (hold ? META_HOLD : 0u);
	op->meta.target = (struct meta_target){ .handle = made.handle };
	return app_op_meta(op, META_OP_STAT) ? APP_AGAIN : APP_WAIT;
}

/* It has been removed since: it was made all the same. */
static enum app_next looked(struct app_op *op)
{
	ASSERT(op->recall == APP_RECALL_LOOKED);
	app_hold_looked(op);
	if (op->meta.status && op->meta.status != -ESTALE)
		return app_op_end(op, op->meta.status);
	if (op->meta.status)
		op->meta.attr = (struct meta_attr){ .handle = op->handle };
	return app_op_end(op, 0);
}

static enum app_next recalled(struct app_op *op)
{
	ASSERT(op->recall == APP_RECALL_ASKED && op->receipt.client); /* (4) */
	op->recall = APP_RECALL_NO;
	if (op->meta.status == -ENOENT) {
		op->meta.status = 0;
		return APP_AGAIN;
	}
	if (op->meta.status)
		return app_op_end(op, op->meta.status);
	switch (op->req->type) {
	case FAB_OPEN:
	case FAB_MKDIR:
	case FAB_SYMLINK:
		return look(op);
	case FAB_WRITE: /* app_write_answer() returns the larger of this and the end of its bytes
			 */
		op->file_size = op->meta.attr.size;
		op->offset_bytes = op->length_bytes = 0;
		return app_op_end(op, 0);
	default:
		return app_op_end(op, 0);
	}
}

enum app_next app_recall_step(struct app_op *op)
{
	ASSERT(app_rows[op->req->type].changes); /* (5): app_rights_check() let it through */
	switch (op->recall) {
	case APP_RECALL_DUE:
		if (op->req->type == FAB_PUT_ABORT)
			return app_op_end(op, 0);
		op->recall = APP_RECALL_ASKED;
		if (!app_op_meta(op, META_OP_RECALL))
			return APP_WAIT;
		wk_fallthrough;
	case APP_RECALL_ASKED:
		return recalled(op);
	case APP_RECALL_LOOKED:
		return looked(op);
	case APP_RECALL_NO:
		break;
	}
	UNREACHABLE();
}

/* ---- clients ------------------------------------------------------------------------------- */

static wk_cold void age(struct app_core *core)
{
	uint64_t client;
	uint32_t at = 0;

	ASSERT(core->meta && core->cfg.srv);
	core->age_ns = core->now_ns + AGE_NS;
	while (fab_server_client(core->cfg.srv, &at, &client))
		meta_client_keep(core->meta, client);
	meta_clients_age(core->meta);
}

void app_clients_turn(struct app_core *core)
{
	uint64_t mark, forgotten;

	if (!core->cfg.srv)
		return;
	if (unlikely(core->now_ns >= core->age_ns))
		age(core);
	mark = meta_durable_seq(core->meta);
	forgotten = meta_clients_forgotten(core->meta);
	ASSERT(mark >= core->mark); /* (4) */
	if (likely(mark == core->mark && forgotten == core->forgotten))
		return;
	core->mark = mark;
	core->forgotten = forgotten;
	fab_server_marks(core->cfg.srv, mark, forgotten);
}
