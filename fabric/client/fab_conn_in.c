/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The client's end of a connection: incoming messages.
 *
 *   REPLY       header -> (body into call->body) -> (payload straight into the window)
 *               -> fab__reply_parse() -> done[]
 *   PART        header -> payload straight into the window
 *   PULL        header -> DATA, sent from its place in the window
 *   POOL_ADDED  the region may be used
 *
 * Invariants:
 *  (1) A message must name a slot by its whole id: an old reply has another sequence.
 *  (2) Payload is written and read only inside the window of a call in flight.
 *  (3) A malformed message breaks the connection; it never becomes an answer
 *      [test_fab_liar:a_client_believes_no_nonsense].
 */
#include "fabric/fab_took.h"
#include "fabric/client/fab_client_internal.h"

#include <errno.h>
#include <string.h>

static int protocol_error(struct fab_conn *conn, const char *why)
{
	fab__conn_break(conn, -EPROTO, why);
	return -EPROTO;
}

/* The slot that a peer's id names, if it is in flight. */
static struct fab_slot *slot_find(struct fab_conn *conn, uint64_t id)
{
	uint32_t i = (uint32_t)(id & 0xffff);

	DASSERT(conn->at == CONN_OPEN);
	if (i & FAB_ID_CHANGE)
		i = conn->change_at[i & FAB_ID_SLOT];
	else
		i &= ~FAB_ID_AGAIN; /* a read in doubt */
	if (i >= conn->limits.credits || conn->slots[i].id != id || !conn->slots[i].call)
		return NULL;
	return &conn->slots[i];
}

static void want(struct fab_conn *conn, uint8_t *dst, uint32_t bytes)
{
	DASSERT(dst && bytes > 0);
	DASSERT(!conn->rx_wants || conn->rx_done == conn->rx_need);
	conn->rx_wants = true;
	conn->rx_dst = dst;
	conn->rx_need = bytes;
	conn->rx_before += conn->rx_done;
	conn->rx_done = 0;
}

/* Returns the given bytes of a call's window; NULL: they are outside. */
static uint8_t *window_find(const struct fab_call *call, uint64_t at, uint32_t bytes)
{
	if (!call || !call->region || at > call->window_bytes || bytes > call->window_bytes - at)
		return NULL;
	ASSERT(call->window_offset + call->window_bytes <= call->region->size_bytes); /* (2) */
	return (uint8_t *)call->region->memory + call->window_offset + at;
}

/* Begins to receive the payload that follows a reply and its body.  Returns false if none does. */
static bool payload_next(struct fab_conn *conn)
{
	DASSERT(!conn->rx_wants || conn->rx_done == conn->rx_need);
	if (!conn->rx_payload)
		return false;
	want(conn, conn->rx_payload, conn->rx_hdr.window_bytes);
	conn->rx_payload = NULL;
	return true;
}

static int reply_begin(struct fab_conn *conn, const struct fab_hdr_wire *w)
{
	const struct fab_hdr *hdr = &conn->rx_hdr;
	struct fab_slot *slot = slot_find(conn, hdr->request_id);

	DASSERT(!conn->rx_call && !conn->rx_wants && !conn->rx_payload);
	if (unlikely(!slot))
		return protocol_error(conn, "the appliance answered what was not asked");
	if (hdr->window_bytes) {
		conn->rx_payload = window_find(slot->call, hdr->window_offset, hdr->window_bytes);
		if (conn->direct || conn->onesided || hdr->status || !conn->rx_payload ||
		    hdr->window_bytes > FAB_PAYLOAD_MAX)
			return protocol_error(conn,
					      "the appliance sent bytes that no window asked for");
	}
	conn->rx_call = slot->call;
	if (hdr->body_bytes > FAB_SMALL_MAX) {
		want(conn, slot->call->body, hdr->body_bytes);
		return 0;
	}
	memcpy(slot->call->body, w->small, FAB_SMALL_MAX);
	(void)payload_next(conn);
	return 0;
}

static int reply_end(struct fab_conn *conn, struct fab_call **done)
{
	struct fab_call *call = conn->rx_call;
	struct fab_slot *slot = &conn->slots[fab__call_inside(call)->slot];
	uint32_t bytes = conn->rx_hdr.body_bytes;

	DASSERT(slot->call == call && slot->id == conn->rx_hdr.request_id); /* (1) */
	conn->rx_call = NULL;
	if (!conn->direct && bytes > FAB_SMALL_MAX &&
	    crc32c(call->body, bytes) != conn->rx_hdr.body_crc32c)
		return protocol_error(conn, "a reply is damaged");
	if (unlikely(fab__reply_parse(call, conn->rx_hdr.status, bytes)))
		return protocol_error(conn, "a reply that makes no sense");
	call->retry_ms =
		call->status == -EBUSY ? (uint32_t)(conn->rx_hdr.window_offset / BLOCK_SIZE) : 0;
	call->took_ns = fab_took_ns((uint8_t)conn->rx_hdr.window_region);
	call->drive_ns = fab_took_ns((uint8_t)(conn->rx_hdr.window_region >> 8));
	slot->call = NULL;
	fab__slot_settle(conn, slot);
	*done = call;
	return 1;
}

/* Returns the memory that a PART or PULL names; NULL: outside the window of a call in flight. */
static uint8_t *piece_find(struct fab_conn *conn, const struct fab_piece_hdr *p)
{
	struct fab_slot *slot = slot_find(conn, conn->rx_hdr.request_id);

	DASSERT(p->length_bytes > 0 && p->length_bytes <= FAB_PAYLOAD_MAX);
	return window_find(slot ? slot->call : NULL, p->window_at, p->length_bytes);
}

static int part_begin(struct fab_conn *conn, const struct fab_piece_hdr *p)
{
	uint8_t *dst = piece_find(conn, p);

	DASSERT(!conn->rx_call);
	if (!dst)
		return protocol_error(conn, "the appliance sent bytes that no window asked for");
	want(conn, dst, p->length_bytes);
	return 0;
}

static int pull_answer(struct fab_conn *conn, const struct fab_piece_hdr *p)
{
	struct fab_answer_tx *answer = &conn->answers[p->pull];
	const uint8_t *from = piece_find(conn, p);

	ASSERT(p->pull < FAB_PULLS_MAX && p->length_bytes > 0);
	if (!from || answer->busy)
		return protocol_error(conn, "the appliance asked for bytes that no window offers");
	fab__piece_build(&answer->tx.hdr, FAB_DATA, conn->rx_hdr.request_id, p);
	answer->tx.kind = FAB_TX_DATA;
	answer->tx.body = NULL;
	answer->tx.body_bytes = 0;
	answer->tx.payload = from;
	answer->tx.payload_bytes = p->length_bytes;
	answer->busy = !conn->link->ops->send(conn->link, &answer->tx);
	return 0;
}

static int capsule_begin(struct fab_conn *conn, const struct fab_hdr_wire *w)
{
	struct fab_piece_hdr piece;

	DASSERT(conn->at == CONN_OPEN && !conn->rx_wants);
	if (unlikely(fab__hdr_parse(&conn->rx_hdr, w)))
		return protocol_error(conn, "the appliance sent what is no capsule");
	if (likely(conn->rx_hdr.type == FAB_REPLY))
		return reply_begin(conn, w);
	if (!conn->direct && conn->rx_hdr.type == FAB_POOL_ADDED)
		return fab__region_added(conn, w, -1);
	if (conn->direct || conn->onesided || fab__piece_parse(&piece, w))
		return protocol_error(conn, "the appliance sent a capsule that has no place here");
	if (conn->rx_hdr.type == FAB_PART)
		return part_begin(conn, &piece);
	if (conn->rx_hdr.type == FAB_PULL)
		return pull_answer(conn, &piece);
	return protocol_error(conn, "the appliance sent a capsule that has no place here");
}

/* Handles one capsule.  1: *done is set, 0: no more input, -EAGAIN: call again, else broken. */
static int conn_turn(struct fab_conn *conn, struct fab_call **done)
{
	struct fab_hdr_wire w;
	int got;

	DASSERT(!conn->rx_wants || conn->rx_done < conn->rx_need);
	if (!conn->rx_wants) {
		got = conn->link->ops->recv_header(conn->link, &w);
		if (got <= 0)
			return got;
		conn->rx_count++;
		conn->rx_before = 0;
		got = capsule_begin(conn, &w);
		if (unlikely(got))
			return got;
	}
	if (conn->rx_wants) {
		got = conn->link->ops->recv_bytes(conn->link, conn->rx_hdr.slot, conn->rx_dst,
						  conn->rx_need, &conn->rx_done);
		if (got <= 0)
			return got;
		conn->rx_wants = false;
		if (payload_next(conn))
			return -EAGAIN;
	}
	return conn->rx_call ? reply_end(conn, done) : -EAGAIN;
}

uint64_t fab_conn_came(const struct fab_conn *conn)
{
	return (conn->rx_count << 32) + conn->rx_before + conn->rx_done;
}

static wk_cold uint32_t broken_return(struct fab_conn *conn, struct fab_call **done,
				      uint32_t done_max)
{
	uint32_t n = 0;

	ASSERT(conn->at == CONN_BROKEN);
	if (!conn->slots)
		return 0;
	while (n < done_max && conn->broken_next < conn->limits.credits) {
		struct fab_slot *slot = &conn->slots[conn->broken_next++];

		if (!slot->call)
			continue;
		slot->call->status = -ECONNRESET;
		slot->call->body_bytes = 0;
		slot->call->length_bytes = 0;
		done[n++] = slot->call;
		slot->call = NULL;
	}
	/* fab_conn.c (2) */
	ASSERT(n == done_max || conn->broken_next == conn->limits.credits);
	return n;
}

/* Counts again what counters say, in variants that look for our own mistakes. */
static void self_check(struct fab_conn *conn)
{
#ifdef WK_DEBUG
	if (conn->self_check++ % FAB_CONN_CHECK_TURNS == 0)
		fab__conn_check(conn);
#else
	(void)conn;
#endif
}

uint32_t fab__conn_poll(struct fab_conn *conn, struct fab_call **done, uint32_t done_max)
{
	uint32_t n = 0;
	int got = 1;

	self_check(conn);
	while (conn->at == CONN_OPEN && n < done_max) {
		got = conn_turn(conn, &done[n]);
		if (got == 1)
			n++;
		else if (got != -EAGAIN)
			break;
	}
	if (unlikely(got < 0 && got != -EAGAIN))
		fab__conn_break(conn, got, "the appliance closed the connection");
	if (unlikely(conn->at == CONN_BROKEN))
		n += broken_return(conn, done + n, done_max - n);
	ASSERT(n <= done_max);
	return n;
}

/* ---- pools -------------------------------------------------------------------------- */

int fab_region_status(const struct fab_region *region)
{
	return region->status;
}

void *fab_region_memory(const struct fab_region *region)
{
	return region->memory;
}

uint64_t fab_region_size(const struct fab_region *region)
{
	return region->size_bytes;
}

void fab__region_unmap(struct fab_region *r)
{
	if (r->memory && !r->caller_owned)
		fab__memory_unmap(r->memory, r->size_bytes);
	r->memory = NULL;
}

static void region_forget(struct fab_conn *conn, struct fab_region *r)
{
	ASSERT(conn->pools_bytes >= r->size_bytes);
	fab__region_unmap(r);
	conn->pools_bytes -= r->size_bytes;
	r->size_bytes = 0;
}

int fab__region_added(struct fab_conn *conn, const struct fab_hdr_wire *w, int fd)
{
	uint32_t number = le16_get(w->window_region);
	int status = (int32_t)le32_get(w->deadline);
	struct fab_region *r;
	le64 size;
	int err = 0;

	memcpy(&size, w->small, sizeof(size));
	if (number == 0 || number > FAB_POOLS_MAX || status > 0 || status < -4095 ||
	    le32_get(w->body_bytes) != sizeof(size))
		return protocol_error(conn, "the appliance answered nonsense about a pool");
	r = &conn->regions[number - 1];
	if (r->status != -EINPROGRESS || (status == 0 && le64_get(size) != r->size_bytes))
		return protocol_error(conn, "the appliance answered nonsense about a pool");
	if (status == 0 && conn->direct && r->caller_owned && fd >= 0)
		status = -EOPNOTSUPP; /* an older appliance: it has made memory of its own */
	if (status == 0 && conn->direct && !r->caller_owned) {
		err = fab__memfd_map(fd, le64_get(size), le64_get(size), &r->memory);
		status = err == -ENOMEM ? err : 0;
		if (err && !status)
			return protocol_error(conn,
					      "the memory of a pool is not what was promised");
	}
	if (status)
		region_forget(conn, r);
	r->status = status;
	return -EAGAIN; /* go on */
}
