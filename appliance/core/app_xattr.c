/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Extended attributes: one call of the store each, except for a long list of names.
 *
 *   GET, LIST   ACCEPTED --staging, if there is a window--> READY --store--> CALLED --> answer
 *                                                             ^                |
 *                                                             +-- more names --+
 *   SET, DEL    the value is in the request's body, which is ours until it is answered
 *
 * An answer without a window goes in the reply's body.  Bytes for a window are staged like a
 * listing, so they are not in the client's reach before they are complete.
 *
 * Invariant: (1) room_bytes() bounds what the store writes: the window's bytes, or a body's.
 */
#include "appliance/core/app_op.h"

#include <errno.h>

enum xattr_at { XATTR_ACCEPTED, XATTR_READY, XATTR_CALLED };

static bool looks(const struct app_op *op)
{
	return op->call == META_OP_XATTR_GET || op->call == META_OP_XATTR_LIST;
}

static uint32_t room_bytes(const struct app_op *op)
{
	const uint32_t window = op->req->window.length_bytes;

	DASSERT(op->req->window.length_bytes % BLOCK_SIZE == 0);
	return window ? min_u32(window, META_XATTR_MAX) : FAB_BODY_MAX;
}

static enum meta_op_type call_of(enum fab_type type)
{
	switch (type) {
	case FAB_XATTR_GET:
		return META_OP_XATTR_GET;
	case FAB_XATTR_SET:
		return META_OP_XATTR_SET;
	case FAB_XATTR_LIST:
		return META_OP_XATTR_LIST;
	default:
		return META_OP_XATTR_DEL;
	}
}

void app_xattr_begin(struct app_op *op)
{
	const union fab_args *args = &op->req->args;

	ASSERT(app_rows[op->req->type].kind == APP_OP_XATTR);
	op->call = call_of(op->req->type);
	op->names = 1;
	op->name[0] = op->call == META_OP_XATTR_LIST ? args->name.name : args->xattr.name;
	op->flags = op->name[0].nofollow ? META_NOFOLLOW : 0;
	op->done_bytes = 0;
	if (op->call == META_OP_XATTR_LIST)
		return;
	op->meta.xattr = args->xattr.xattr;
	op->meta.xattr_len = args->xattr.xattr_bytes;
	if (op->call != META_OP_XATTR_SET)
		return;
	if (args->xattr.flags & FAB_XATTR_CREATE)
		op->flags |= META_EXCL;
	if (args->xattr.flags & FAB_XATTR_REPLACE)
		op->flags |= META_MUST_EXIST;
	op->meta.list_out = (void *)(uintptr_t)args->xattr.value; /* which it reads */
	op->meta.list_used_bytes = args->xattr.value_bytes;
}

static bool room_take(struct app_op *op)
{
	ASSERT(!op->buf);
	if (!looks(op) || op->req->window.length_bytes == 0)
		return true;
	op->buf = app_take(op, room_bytes(op));
	return op->buf != NULL;
}

/* Appends to the names found by earlier calls of the same list. */
static bool call(struct app_op *op)
{
	char *room = op->buf ? op->buf : op->small;

	ASSERT(op->done_bytes <= room_bytes(op));
	op->meta.target = op->target[0];
	op->meta.flags = op->flags;
	if (looks(op)) {
		op->meta.list_out = room + op->done_bytes;
		op->meta.list_max_bytes = room_bytes(op) - (uint32_t)op->done_bytes; /* (1) */
	}
	return app_op_meta(op, op->call);
}

enum app_next app_xattr_step(struct app_op *op)
{
	switch ((enum xattr_at)op->at) {
	case XATTR_ACCEPTED:
		if (!room_take(op))
			return APP_WAIT;
		op->meta.offset = 0;
		op->at = XATTR_READY;
		wk_fallthrough;

	case XATTR_READY:
		op->at = XATTR_CALLED;
		if (!call(op))
			return APP_WAIT;
		wk_fallthrough;

	case XATTR_CALLED: /* over; a change is durable */
		if (op->meta.status || !looks(op))
			return app_op_end(op, op->meta.status);
		op->done_bytes += op->meta.list_used_bytes;
		ASSERT(op->done_bytes <= room_bytes(op)); /* (1) */
		if (op->call == META_OP_XATTR_GET || !op->meta.seek_more)
			return app_op_end(op, 0);
		op->meta.offset = op->meta.length;
		op->at = XATTR_READY;
		return APP_AGAIN;
	}
	UNREACHABLE();
}

void app_xattr_answer(struct app_op *op)
{
	const uint32_t bytes = (uint32_t)op->done_bytes;
	struct app_part *part;
	uint8_t body[8];

	ASSERT(op->status || bytes <= room_bytes(op)); /* (1) */
	if (op->status || !op->buf) {
		fab_reply(op->req, op->status, op->small, op->status ? 0 : bytes);
		return;
	}
	part = app_part_take(op);
	if (!part) {
		fab_reply(op->req, -EAGAIN, NULL, 0);
		return;
	}
	app_turn_cost(op, bytes);
	part->buf = op->buf;
	op->buf = NULL;
	app_part_send(op->core, op->req, part, part->buf, 0, bytes);
	fab_reply(op->req, 0, body, fab_build_u64(body, bytes));
}
