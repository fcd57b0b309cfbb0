/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A page of a directory: converts the store's entries to the fabric's, in place.
 *
 *   buf   | dirent name | dirent name | ...     ->     | entry name | entry name | ...
 *
 * An entry of the fabric is shorter, so none is overwritten before it was read, and entries that
 * fit the window in the store's form fit in the fabric's.
 */
#include "appliance/core/app_op.h"

#include <errno.h>
#include <string.h>

#define LIST_BYTES_MAX (256u << 10)

enum list_at { LIST_ACCEPTED, LIST_READ };

enum app_next app_list_step(struct app_op *op)
{
	const struct fab_req *req = op->req;

	DASSERT(op->req->type == FAB_LIST && op->names_done == op->names);
	switch ((enum list_at)op->at) {
	case LIST_ACCEPTED:
		op->nblocks_done = min_u32(req->window.length_bytes, LIST_BYTES_MAX);
		op->buf = app_take(op, op->nblocks_done);
		if (!op->buf)
			return APP_WAIT;
		op->meta.target = op->target[0];
		op->meta.flags = op->flags;
		op->meta.cookie = app_cookie_in(req->args.list.cookie);
		op->meta.list_out = op->buf;
		op->meta.list_max_bytes = op->nblocks_done;
		op->meta.list_max_entries = req->args.list.count_max;
		op->at = LIST_READ;
		if (!app_op_meta(op, META_OP_LIST))
			return APP_WAIT;
		wk_fallthrough;

	case LIST_READ:
		return app_op_end(op, op->meta.status);
	}
	UNREACHABLE();
}

/* Returns the bytes that the entries take now. */
static uint32_t convert(struct app_op *op)
{
	struct meta_dirent d;
	struct fab_entry entry;
	char name[META_NAME_MAX];
	uint32_t from = 0, to = 0;

	ASSERT(op->buf && op->meta.list_used_bytes <= op->nblocks_done);
	for (uint32_t i = 0; i < op->meta.list_count; i++) {
		memcpy(&d, op->buf + from, sizeof(d));
		ASSERT(d.name_len <= META_NAME_MAX);
		memcpy(name, op->buf + from + sizeof(d), d.name_len);
		from += d.entry_bytes;
		ASSERT(to + fab_entry_bytes(d.name_len) <= from);
		entry = (struct fab_entry){ .name_bytes = (uint16_t)d.name_len, .name = name };
		app_attr_out(op->req->session, &d.attr, &entry.attr);
		to += fab_build_entry(op->buf + to, &entry);
	}
	ASSERT(from <= op->meta.list_used_bytes);
	return to;
}

void app_list_answer(struct app_op *op)
{
	uint8_t body[FAB_LISTED_BYTES], cookie[FAB_COOKIE_BYTES];
	struct app_part *part = NULL;
	uint32_t bytes;

	if (!op->status)
		part = app_part_take(op);
	if (!part) {
		fab_reply(op->req, op->status ? op->status : -EAGAIN, NULL, 0);
		return;
	}
	app_turn_cost(op, op->meta.list_used_bytes);
	bytes = convert(op);
	ASSERT(bytes <= op->req->window.length_bytes);
	part->buf = op->buf;
	op->buf = NULL;
	app_part_send(op->core, op->req, part, part->buf, 0, bytes);
	app_cookie_out(&op->meta.cookie, cookie);
	fab_reply(op->req, 0, body,
		  fab_build_listed(body, op->meta.list_count, bytes, op->meta.list_end, cookie));
}
