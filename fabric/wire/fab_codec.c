/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Headers, to and from bytes.  This file, fab_codec_req.c, fab_codec_reply.c, fab_report.c and, for
 * the time before a session, fab_hello.c parse a peer's bytes.  The few words about a pool are
 * parsed where they are used: fab_pool.c, fab_control_session.c, and fab_conn_in.c in the client.
 * Parsers trust and assert nothing about the bytes; code after them does not check them again.
 * Fuzzed by test/fuzz/fuzz_fab_*.c.
 */
#include "fabric/fab_internal.h"

#include <errno.h>
#include <string.h>

static bool type_known(uint8_t type)
{
	return (type >= FAB_HELLO && type <= FAB_REPLY) ||
	       (type >= FAB_PING && type < FAB_TYPE_END);
}

int fab__hdr_parse(struct fab_hdr *out, const struct fab_hdr_wire *w)
{
	uint32_t body_bytes = le32_get(w->body_bytes);
	uint32_t blocks = le32_get(w->window_blocks);

	if (le32_get(w->magic) != FAB_MAGIC || w->version != 1 || !type_known(w->type))
		return -EPROTO;
	if (body_bytes > (w->type >= FAB_PING ? FAB_LONG_BODY_MAX : FAB_BODY_MAX))
		return -EPROTO;
	if (blocks > FAB_WINDOW_MAX / BLOCK_SIZE)
		return -EPROTO;

	out->type = w->type;
	out->window_region = le16_get(w->window_region);
	out->request_id = le64_get(w->request_id);
	out->deadline_us = le32_get(w->deadline);
	out->status = (int32_t)le32_get(w->deadline);
	out->body_bytes = body_bytes;
	out->window_offset = (uint64_t)le32_get(w->window_block) * BLOCK_SIZE;
	out->window_bytes = blocks * BLOCK_SIZE;
	out->body_crc32c = le32_get(w->body.crc32c);
	out->slot = le32_get(w->body.slot);
	return 0;
}

uint32_t fab__hdr_check(const struct fab_hdr_wire *w)
{
	return crc32c(w, offsetof(struct fab_hdr_wire, check));
}

void fab__hdr_build(struct fab_hdr_wire *out, uint8_t type, uint64_t request_id)
{
	*out = (struct fab_hdr_wire){
		.magic = le32_of(FAB_MAGIC),
		.version = 1,
		.type = type,
		.request_id = le64_of(request_id),
	};
}

void fab__tx_body(struct fab_tx *tx, const void *body, uint32_t bytes)
{
	DASSERT(bytes == 0 || body);
	DASSERT(bytes <= FAB_LONG_BODY_MAX);
	tx->hdr.body_bytes = le32_of(bytes);
	tx->body = bytes > FAB_SMALL_MAX ? body : NULL;
	tx->body_bytes = bytes > FAB_SMALL_MAX ? bytes : 0;
	tx->payload = NULL;
	tx->payload_bytes = 0;
	if (bytes > 0 && bytes <= FAB_SMALL_MAX)
		memcpy(tx->hdr.small, body, bytes);
}

int fab__piece_parse(struct fab_piece_hdr *out, const struct fab_hdr_wire *w)
{
	struct fab_piece_wire p;

	if (le32_get(w->body_bytes) != sizeof(p))
		return -EPROTO;
	memcpy(&p, w->small, sizeof(p));
	out->window_at = le32_get(p.window_at);
	out->length_bytes = le32_get(p.length_bytes);
	out->pull = le32_get(p.pull);
	if (out->length_bytes == 0 || out->length_bytes > FAB_PAYLOAD_MAX)
		return -EPROTO;
	if (out->window_at > FAB_WINDOW_MAX || out->pull >= FAB_PULLS_MAX)
		return -EPROTO;
	return 0;
}

void fab__piece_build(struct fab_hdr_wire *out, uint8_t type, uint64_t request_id,
		      const struct fab_piece_hdr *in)
{
	struct fab_piece_wire p = {
		.window_at = le32_of(in->window_at),
		.length_bytes = le32_of(in->length_bytes),
		.pull = le32_of(in->pull),
	};

	ASSERT(type == FAB_PART || type == FAB_PULL || type == FAB_DATA);
	ASSERT(in->window_at <= FAB_WINDOW_MAX && in->pull < FAB_PULLS_MAX);
	ASSERT(in->length_bytes > 0 && in->length_bytes <= FAB_PAYLOAD_MAX);
	fab__hdr_build(out, type, request_id);
	out->body_bytes = le32_of(sizeof(p));
	memcpy(out->small, &p, sizeof(p));
}

bool fab_req_doubts(const struct fab_req *req)
{
	ASSERT(req->type >= FAB_PING && req->type < FAB_TYPE_END);
	return (req->id & (FAB_ID_CHANGE | FAB_ID_AGAIN)) == FAB_ID_AGAIN &&
	       (req->type == FAB_READ || req->type == FAB_READ_BATCH);
}

bool fab_req_change(const struct fab_req *req, struct fab_change *out)
{
	if (likely(!(req->id & FAB_ID_CHANGE)) || !req->session->client ||
	    !fab_is_change(req->type, &req->args))
		return false;
	*out = (struct fab_change){
		.number = req->id >> 16,
		.slot = (uint32_t)req->id & FAB_ID_SLOT,
		.again = req->id & FAB_ID_AGAIN,
		.sure = req->id & FAB_ID_SURE,
	};
	ASSERT(out->slot < FAB_CHANGE_SLOTS);
	return out->number > 0 && !(req->id & FAB_ID_RESERVED);
}

uint64_t fab__change_id(const struct fab_change *c)
{
	ASSERT(c->number > 0);
	ASSERT(c->number < UINT64_C(1) << 48 && c->slot < FAB_CHANGE_SLOTS);
	return c->number << 16 | FAB_ID_CHANGE | (c->again ? FAB_ID_AGAIN : 0) |
	       (c->sure ? FAB_ID_SURE : 0) | c->slot;
}

bool fab_is_change(enum fab_type type, const union fab_args *args)
{
	switch (type) {
	case FAB_PING:
	case FAB_READ:
	case FAB_READ_BATCH:
	case FAB_STAT:
	case FAB_LIST:
	case FAB_READLINK:
	case FAB_STATFS:
	case FAB_STATUS:
	case FAB_SEEK:
	case FAB_XATTR_GET:
	case FAB_XATTR_LIST:
	case FAB_HOLD:
	case FAB_LET_GO:
	case FAB_TOTALS:
	case FAB_CHECK:
	case FAB_DAMAGED:
	case FAB_LOG:
	case FAB_REPORT:
		return false;
	case FAB_OPEN:
		return args->open.flags & (FAB_OPEN_CREATE | FAB_OPEN_TRUNC);
	default:
		return true;
	}
}
