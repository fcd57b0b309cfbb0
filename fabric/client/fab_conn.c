/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The client's end of a connection: calls out, replies in; no socket, no clock.
 *
 *   request_id:   | sequence, 48 bits | slot, 16 bits |     for a change to be remembered:
 *                 | number, 48 bits   | 1, flags, change's slot |   change_at[] has its slot
 *
 *   fab_submit: slot_free -> slots[i].call -> (reply) -> done[], slot_free
 *
 * Invariants, true between any two calls:
 *  (1) A slot is on slot_free, or has a call in flight, or the transport still has one of its
 *      capsules.  There are as many slots as credits, so the appliance never sees one too many.
 *  (2) When the connection breaks, each call in flight is returned once, with -ECONNRESET.
 */
#include "fabric/client/fab_client_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static_assert(sizeof(struct fab__call) <= sizeof(((struct fab_call *)0)->opaque),
	      "room in fab_call");

/* ---- begin and end ------------------------------------------------------------------ */

int fab__conn_open(struct fab_conn *conn, struct fab_link *link, const struct fab_limits *limits,
		   uint8_t *shared_longs)
{
	size_t slots_bytes = limits->credits * sizeof(struct fab_slot);

	ASSERT(limits->credits > 0 && limits->credits <= FAB_CREDITS_MAX);
	ASSERT(limits->long_bodies <= FAB_LONG_MAX && conn->at != CONN_OPEN);
	conn->slots = aligned_alloc(64, slots_bytes);
	conn->slot_free = calloc(limits->credits, sizeof(*conn->slot_free));
	conn->longs = shared_longs;
	if (!shared_longs)
		conn->longs = aligned_alloc(BLOCK_SIZE, (size_t)max_u32(limits->long_bodies, 1) *
								FAB_LONG_BODY_MAX);
	conn->direct = link->ops->direct;
	conn->onesided = link->ops->onesided;
	if (!conn->slots || !conn->slot_free || !conn->longs)
		return -ENOMEM; /* fab__conn_free() has the rest */
	memset(conn->slots, 0, slots_bytes);
	conn->link = link;
	conn->limits = *limits;
	for (uint32_t i = 0; i < limits->credits; i++)
		conn->slot_free[i] = (uint16_t)(limits->credits - 1 - i);
	conn->slot_free_count = limits->credits;
	conn->long_free =
		limits->long_bodies == 64 ? UINT64_MAX : (UINT64_C(1) << limits->long_bodies) - 1;
	for (uint32_t i = 0; i < FAB_POOLS_MAX; i++)
		conn->regions[i] = (struct fab_region){ .conn = conn, .number = i + 1 };
	conn->at = CONN_OPEN;
	return 0;
}

void fab__conn_free(struct fab_conn *conn)
{
	free(conn->slots);
	free(conn->slot_free);
	if (!conn->direct)
		free(conn->longs);
	conn->slots = NULL;
	conn->slot_free = NULL;
	conn->longs = NULL;
}

void fab__conn_break(struct fab_conn *conn, int err, const char *why)
{
	ASSERT(err < 0);
	if (conn->at == CONN_BROKEN)
		return;
	if (conn->link)
		conn->link->ops->close(conn->link);
	conn->at = CONN_BROKEN;
	conn->status = err;
	conn->rx_wants = false;
	snprintf(conn->why, sizeof(conn->why), "%s", why);
	for (uint32_t i = 0; i < FAB_POOLS_MAX; i++)
		if (conn->regions[i].status == -EINPROGRESS)
			conn->regions[i].status = -ECONNRESET;
}

/* ---- slots -------------------------------------------------------------------------- */

void fab__slot_settle(struct fab_conn *conn, struct fab_slot *slot)
{
	if (slot->call || slot->tx_busy || slot->cancel_busy)
		return;
	DASSERT(slot->long_slot < 0 || !(conn->long_free >> slot->long_slot & 1));
	if (slot->long_slot >= 0)
		conn->long_free |= UINT64_C(1) << slot->long_slot;
	slot->long_slot = -1;
	ASSERT(conn->slot_free_count < conn->limits.credits);
	conn->slot_free[conn->slot_free_count++] = (uint16_t)(slot - conn->slots);
}

static void sent_drain(struct fab_conn *conn)
{
	struct fab_tx *tx;

	while ((tx = conn->link->ops->sent(conn->link)) != NULL) {
		struct fab_slot *slot;

		if (tx->kind == FAB_TX_CONTROL) {
			continue; /* POOL_ADD */
		} else if (tx->kind == FAB_TX_DATA) {
			ASSERT(container_of(tx, struct fab_answer_tx, tx)->busy);
			container_of(tx, struct fab_answer_tx, tx)->busy = false;
		} else if (tx->hdr.type == FAB_CANCEL) {
			slot = container_of(tx, struct fab_slot, cancel);
			ASSERT(slot->cancel_busy);
			slot->cancel_busy = false;
			fab__slot_settle(conn, slot);
		} else if (tx->kind == FAB_TX_REQUEST) {
			slot = container_of(tx, struct fab_slot, tx);
			ASSERT(slot->tx_busy);
			slot->tx_busy = false;
			fab__slot_settle(conn, slot);
		}
	}
}

/* ---- submit ------------------------------------------------------------------------- */

static int window_check(const struct fab_conn *conn, const struct fab_call *call)
{
	const struct fab_region *r = call->region;

	if (!r)
		return call->window_offset || call->window_bytes ? -EINVAL : 0;
	if (r->conn != conn || r->status || call->window_bytes == 0 ||
	    call->window_bytes > conn->limits.window_max_bytes ||
	    (call->window_bytes | call->window_offset) % BLOCK_SIZE != 0 ||
	    call->window_bytes > r->size_bytes ||
	    call->window_offset > r->size_bytes - call->window_bytes)
		return -EINVAL;
	DASSERT(r->memory);
	return 0;
}

/* Checks the codec's output by the appliance's own rules. */
static int body_check(const struct fab_conn *conn, const struct fab_call *call, const void *body,
		      uint32_t body_bytes)
{
	struct fab_req req; /* on the hot path: only fields that the parser reads are set */

	DASSERT(body_bytes <= FAB_LONG_BODY_MAX);
	req.type = call->type;
	req.window.length_bytes = call->window_bytes;
	return fab__req_parse(&req, body, body_bytes, &conn->limits) ? -EINVAL : 0;
}

static int long_take(struct fab_conn *conn, struct fab_slot *slot, uint8_t **body)
{
	if (conn->long_free == 0)
		return -EAGAIN;
	slot->long_slot = __builtin_ctzll(conn->long_free);
	ASSERT((uint32_t)slot->long_slot < conn->limits.long_bodies);
	*body = conn->longs + (size_t)slot->long_slot * FAB_LONG_BODY_MAX;
	return 0;
}

/* The hot path: 28 bytes straight into the header; the checks are fab__req_parse()'s. */
static int read_encode(struct fab_slot *slot, const struct fab_call *call)
{
	DASSERT(call->type == FAB_READ);
	if (call->args.read.length_bytes - 1 >= call->window_bytes)
		return -EINVAL;
	fab__call_build(call, slot->tx.hdr.small);
	slot->tx.hdr.body_bytes = le32_of(sizeof(struct fab_read_wire));
	slot->tx.body = NULL;
	slot->tx.body_bytes = 0;
	slot->tx.payload = NULL;
	slot->tx.payload_bytes = 0;
	slot->long_slot = -1;
	return 0;
}

/* Encode into the slot; nothing of the connection has changed when it fails. */
static int encode(struct fab_conn *conn, struct fab_slot *slot, const struct fab_call *call)
{
	int64_t bytes = fab__call_measure(call, &conn->limits);
	uint8_t *body = slot->body;
	int err;

	DASSERT(call->type != FAB_READ);
	slot->long_slot = -1;
	if (bytes < 0)
		return (int)bytes;
	if (bytes > FAB_BODY_MAX) {
		err = long_take(conn, slot, &body);
		if (err)
			return err;
	}
	DASSERT(bytes <= FAB_LONG_BODY_MAX);
	if (bytes > 0)
		fab__call_build(call, body);
	err = body_check(conn, call, body, (uint32_t)bytes);
	if (err)
		return err;
	if (slot->long_slot >= 0)
		conn->long_free &= ~(UINT64_C(1) << slot->long_slot);
	fab__tx_body(&slot->tx, body, (uint32_t)bytes);
	if ((conn->direct || conn->onesided) && slot->long_slot >= 0)
		slot->tx.hdr.body.slot = le32_of((uint32_t)slot->long_slot);
	return 0;
}

int fab_submit(struct fab_conn *conn, struct fab_call *call)
{
	struct fab_slot *slot;
	uint32_t i;
	int err;

	if (unlikely(conn->at != CONN_OPEN))
		return conn->at == CONN_BROKEN ? -ECONNRESET : -ENOTCONN;
	if (conn->slot_free_count == 0)
		return -EAGAIN;
	i = conn->slot_free[conn->slot_free_count - 1];
	slot = &conn->slots[i];
	DASSERT(i < conn->limits.credits);
	ASSERT(!slot->call && !slot->tx_busy && !slot->cancel_busy);
	err = window_check(conn, call);
	if (unlikely(err))
		return err;
	slot->id = (conn->sequence + 1) << 16 | i;
	if (unlikely(call->doubt))
		slot->id |= FAB_ID_AGAIN;
	if (call->change.number)
		slot->id = fab__change_id(&call->change);
	fab__hdr_build(&slot->tx.hdr, (uint8_t)call->type, slot->id);
	err = likely(call->type == FAB_READ) ? read_encode(slot, call) : encode(conn, slot, call);
	if (unlikely(err))
		return err;
	conn->slot_free_count--;
	conn->sequence++;
	if (call->change.number)
		conn->change_at[call->change.slot] = (uint16_t)i;
	if (call->region) {
		slot->tx.hdr.window_region = le16_of((uint16_t)call->region->number);
		slot->tx.hdr.window_block = le32_of((uint32_t)(call->window_offset / BLOCK_SIZE));
		slot->tx.hdr.window_blocks = le32_of(call->window_bytes / BLOCK_SIZE);
	}
	slot->tx.hdr.deadline = le32_of(call->deadline_us);
	slot->tx.kind = FAB_TX_REQUEST;
	slot->call = call;
	fab__call_inside(call)->slot = i;
	fab__call_inside(call)->cancelled = false;
	slot->tx_busy = !conn->link->ops->send(conn->link, &slot->tx);
	return 0;
}

void fab_cancel(struct fab_conn *conn, struct fab_call *call)
{
	struct fab_slot *slot;

	if (conn->at != CONN_OPEN || fab__call_inside(call)->slot >= conn->limits.credits)
		return;
	slot = &conn->slots[fab__call_inside(call)->slot];
	if (slot->call != call || fab__call_inside(call)->cancelled)
		return;
	ASSERT(!slot->cancel_busy);
	fab__call_inside(call)->cancelled = true;
	fab__hdr_build(&slot->cancel.hdr, FAB_CANCEL, slot->id);
	slot->cancel.kind = FAB_TX_REQUEST;
	fab__tx_body(&slot->cancel, NULL, 0);
	slot->cancel_busy = !conn->link->ops->send(conn->link, &slot->cancel);
}

void fab_flush(struct fab_conn *conn)
{
	int err;

	DASSERT(conn->at != CONN_OPEN || conn->link);
	if (conn->at != CONN_OPEN)
		return;
	err = conn->link->ops->flush(conn->link);
	if (!conn->direct)
		sent_drain(conn);
	if (err < 0)
		fab__conn_break(conn, err, "the appliance closed the connection");
}

void fab_flush_later(struct fab_conn *conn)
{
	if (conn->at != CONN_OPEN)
		return;
	DASSERT(!conn->link->later);
	conn->link->later = true;
	fab_flush(conn);
	if (conn->at == CONN_OPEN)
		conn->link->later = false;
}

int fab_conn_status(const struct fab_conn *conn)
{
	return conn->at == CONN_BROKEN ? conn->status : conn->at == CONN_OPEN ? 0 : -ENOTCONN;
}

uint64_t fab_conn_mark(const struct fab_conn *conn)
{
	return conn->hello.mark;
}

uint64_t fab_conn_forgotten(const struct fab_conn *conn)
{
	return conn->hello.forgotten;
}

uint32_t fab_conn_retry_ms(const struct fab_conn *conn)
{
	return conn->hello.retry_ms;
}

const struct fab_limits *fab_conn_limits(const struct fab_conn *conn)
{
	return &conn->limits;
}

const struct fab_place *fab_conn_place(const struct fab_conn *conn)
{
	return &conn->hello.place;
}

const char *fab_conn_transport(const struct fab_conn *conn)
{
	return conn->link ? conn->link->ops->name : "none";
}
