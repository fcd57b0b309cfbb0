/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The appliance's end of payload and windows.
 *
 *   shm   the window is memory: copied at once, or written by a drive.
 *   rdma  written to, or read from, the address of the client's pool.
 *   tcp   fab_send_part:  PART + bytes  -->           left: FAB_EVENT_SENT
 *                         or, if the reply is sent next, REPLY + bytes
 *         fab_pull:       PULL  -->  DATA + bytes     received: FAB_EVENT_PULLED
 *                         (at most 32 outstanding; the others wait on pull_waits)
 *
 * Invariants:
 *  (1) A piece counts in pieces_out from fab_send_part() or fab_pull() == 0 until its event has
 *      been returned, and goes onto srv->back once.
 *  (2) One PART of a session may be held back until anything else is sent there or the session is
 *      flushed: so messages leave in order, and nothing waits longer than without it.
 */
#include "fabric/hello/fab_server_internal.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

static_assert(sizeof(struct fab__piece) <= sizeof(((struct fab_piece *)0)->opaque),
	      "room in fab_piece");

static struct fab__piece *inside(struct fab_piece *piece)
{
	return (struct fab__piece *)(void *)piece->opaque;
}

static struct fab_piece *outside(struct fab__piece *in)
{
	return container_of((uint64_t *)(void *)in, struct fab_piece, opaque[0]);
}

static uint8_t *window_at(const struct fab_req *req, uint32_t at)
{
	DASSERT(req->window.pool->memory);
	return (uint8_t *)req->window.pool->memory + req->window.offset_bytes + at;
}

static void bounds_assert(const struct fab_req *req, uint32_t at, uint32_t length)
{
	ASSERT(req->window.pool && at <= req->window.length_bytes);
	ASSERT(length <= req->window.length_bytes - at);
}

void *fab_window_addr(const struct fab_req *req, uint32_t offset, uint32_t length, uint64_t *iova)
{
	DASSERT(req->session && req->window.length_bytes > 0);
	bounds_assert(req, offset, length);
	if (!req->window.pool->memory)
		return NULL;
	*iova = req->window.pool->iova + req->window.offset_bytes + offset;
	return window_at(req, offset);
}

/* ---- rdma and tcp ---------------------------------------------------------------------------- */

void fab__piece_back(struct fab_piece *piece, int status)
{
	struct fab__piece *in = inside(piece);

	ASSERT(in->session->pieces_out > 0); /* (1) */
	ASSERT(status == 0 || status == -ECONNRESET);
	piece->status = status;
	if (in->pull) {
		struct fab__req *req = container_of(piece->req, struct fab__req, pub);

		ASSERT(req->pulls > 0);
		req->pulls--;
	}
	list_push_back(&in->session->srv->back, &in->node);
}

/* Builds the capsule of a piece: PULL, or PART with its bytes after it. */
static void piece_build(struct fab_piece *piece, uint8_t type, uint32_t pull)
{
	struct fab__piece *in = inside(piece);
	struct fab_piece_hdr hdr = { piece->window_at, piece->length_bytes, pull };

	ASSERT(type == FAB_PART || type == FAB_PULL);
	ASSERT(pull < FAB_PULLS_MAX);
	fab__piece_build(&in->tx.hdr, type, piece->req->id, &hdr);
	in->tx.body = NULL;
	in->tx.body_bytes = 0;
	in->tx.payload = type == FAB_PART ? piece->bytes : NULL;
	in->tx.payload_bytes = type == FAB_PART ? piece->length_bytes : 0;
	in->tx.kind = type == FAB_PART ? FAB_TX_PART : FAB_TX_CONTROL;
}

void fab__part_release(struct fab__session *s)
{
	struct fab_piece *piece = s->held;

	if (!piece)
		return;
	ASSERT(!s->direct && !s->onesided);
	ASSERT(!inside(piece)->pull && inside(piece)->session == s);
	s->held = NULL;
	piece_build(piece, FAB_PART, 0);
	if (s->link->ops->send(s->link, &inside(piece)->tx))
		fab__piece_back(piece, 0);
}

bool fab__session_send(struct fab__session *s, struct fab_tx *tx)
{
	DASSERT(s->at == SESSION_OPEN);
	fab__part_release(s);
	DASSERT(!s->held); /* (2) */
	fab__session_dirty(s);
	return s->link->ops->send(s->link, tx);
}

struct fab_piece *fab__part_adopt(struct fab__session *s, const struct fab_req *req)
{
	struct fab_piece *piece = s->held;

	if (!piece || piece->req != req ||
	    (piece->window_at | piece->length_bytes) % BLOCK_SIZE != 0)
		return NULL;
	ASSERT(!inside(piece)->pull && inside(piece)->session == s);
	s->held = NULL;
	return piece;
}

/* Returns the remote address and key of offset `at` in the window. */
static struct fab_remote remote_at(const struct fab_req *req, uint32_t at)
{
	struct fab_remote out = req->window.pool->remote;

	ASSERT(at <= req->window.length_bytes);
	out.address += req->window.offset_bytes + at;
	return out;
}

/* The appliance's card moves the bytes: there is nothing to tell the client. */
static void piece_move(struct fab__session *s, struct fab_req *req, struct fab_piece *piece,
		       enum fab_tx_kind kind)
{
	struct fab__piece *in = inside(piece);

	ASSERT(s->onesided && (kind == FAB_TX_PART || kind == FAB_TX_FETCH));
	in->tx.kind = kind;
	in->tx.body = NULL;
	in->tx.body_bytes = 0;
	in->tx.payload = piece->bytes;
	in->tx.payload_bytes = piece->length_bytes;
	in->tx.remote = remote_at(req, piece->window_at);
	ASSERT(!fab__session_send(s, &in->tx));
}

/* Over rdma the card reports whether the peer's card answers: its work requests must complete. */
void fab__stall_watch(struct fab__session *s)
{
	const struct fab_rdma_plan *plan = &s->rdma->plan;

	ASSERT(s->onesided);
	if (plan->signals_out == 0) {
		s->stall_ns = UINT64_MAX;
	} else if (s->stall_ns == UINT64_MAX || s->stall_retired != plan->retired) {
		s->stall_ns = s->srv->now_ns + FAB_STALL_NS;
		s->stall_retired = plan->retired;
		s->srv->next_deadline_ns = min_u64(s->srv->next_deadline_ns, s->stall_ns);
	}
}

/* A peer that does not answer holds the appliance's memory: not for ever. */
static void stall_watch(struct fab__session *s)
{
	ASSERT(!s->onesided && !s->direct);
	s->stall_ns = s->pull_free == UINT32_MAX ? UINT64_MAX : s->srv->now_ns + FAB_STALL_NS;
	s->srv->next_deadline_ns = min_u64(s->srv->next_deadline_ns, s->stall_ns);
}

void fab__send_watch(struct fab__session *s)
{
	const struct fab_link *link = s->link;

	DASSERT(!link->is_full || (!s->direct && !s->onesided));
	if (likely(!link->is_full)) {
		s->full_ns = UINT64_MAX;
		s->is_slow = false;
	} else if (s->full_ns == UINT64_MAX || s->full_left_bytes != link->left_bytes) {
		s->full_ns = s->srv->now_ns;
		s->full_left_bytes = link->left_bytes;
		s->is_slow = false;
		s->srv->next_deadline_ns =
			min_u64(s->srv->next_deadline_ns, s->full_ns + FAB_SLOW_NS);
	}
}

uint64_t fab__send_expire(struct fab__session *s, uint64_t now_ns)
{
	ASSERT(s->at == SESSION_OPEN);
	if (s->full_ns == UINT64_MAX)
		return UINT64_MAX;
	if (s->full_ns + FAB_STALL_NS <= now_ns) {
		fab__session_fail(s, -ETIMEDOUT);
		return UINT64_MAX;
	}
	if (!s->is_slow && s->full_ns + FAB_SLOW_NS <= now_ns) {
		s->is_slow = true;
		fab_session_refused(&s->pub, FAB_REFUSED_SLOW);
	}
	return s->full_ns + (s->is_slow ? FAB_STALL_NS : FAB_SLOW_NS);
}

/* Sends a PULL for each piece that waits, as long as one of the 32 numbers is free. */
static void pulls_send(struct fab__session *s)
{
	while (s->pull_free != 0 && !list_empty(&s->pull_waits)) {
		struct list *node = list_pop_front(&s->pull_waits);
		struct fab_piece *piece = outside(list_entry(node, struct fab__piece, node));
		uint32_t pull = (uint32_t)__builtin_ctz(s->pull_free);

		s->pull_free &= s->pull_free - 1;
		ASSERT(!s->pulls[pull]);
		ASSERT(inside(piece)->pull && inside(piece)->session == s);
		s->pulls[pull] = piece;
		piece_build(piece, FAB_PULL, pull);
		(void)fab__session_send(s, &inside(piece)->tx);
	}
}

static void piece_init(struct fab__session *s, struct fab_req *req, struct fab_piece *piece,
		       bool pull)
{
	struct fab__piece *in = inside(piece);

	ASSERT(!s->direct && s->at == SESSION_OPEN);
	ASSERT(piece->length_bytes > 0 && piece->length_bytes <= FAB_PAYLOAD_MAX);
	piece->req = req;
	piece->status = 0;
	in->session = s;
	in->pull = pull;
	list_init(&in->node);
	list_init(&in->tx.node);
	s->pieces_out++;
}

int fab_send_part(struct fab_req *req, struct fab_piece *piece)
{
	struct fab__session *s = fab__session_of(req->session);

	DASSERT(container_of(req, struct fab__req, pub)->live);
	bounds_assert(req, piece->window_at, piece->length_bytes);
	if (s->at != SESSION_OPEN)
		return -ECONNRESET;
	s->srv->stat.bytes_out += piece->length_bytes;
	if (s->direct) {
		memcpy(window_at(req, piece->window_at), piece->bytes, piece->length_bytes);
		piece->status = 0;
		return 1;
	}
	piece_init(s, req, piece, false);
	if (s->onesided) {
		piece_move(s, req, piece, FAB_TX_PART);
		return 0;
	}
	fab__part_release(s);
	fab__session_dirty(s);
	s->held = piece;
	return 0;
}

int fab_pull(struct fab_req *req, struct fab_piece *piece)
{
	struct fab__session *s = fab__session_of(req->session);

	DASSERT(container_of(req, struct fab__req, pub)->live);
	bounds_assert(req, piece->window_at, piece->length_bytes);
	if (s->at != SESSION_OPEN)
		return -ECONNRESET;
	s->srv->stat.bytes_in += piece->length_bytes;
	if (s->direct) {
		memcpy(piece->bytes, window_at(req, piece->window_at), piece->length_bytes);
		piece->status = 0;
		return 1;
	}
	piece_init(s, req, piece, true);
	container_of(req, struct fab__req, pub)->pulls++;
	if (s->onesided) {
		piece_move(s, req, piece, FAB_TX_FETCH);
		return 0;
	}
	list_push_back(&s->pull_waits, &inside(piece)->node);
	pulls_send(s);
	if (s->stall_ns == UINT64_MAX)
		stall_watch(s);
	return 0;
}

/* DATA has come: find the pull that it answers. */
int fab__data_begin(struct fab__session *s)
{
	const struct fab_piece_hdr *hdr = &s->rx.piece_hdr;
	struct fab_piece *piece = s->pulls[hdr->pull];

	DASSERT(hdr->pull < FAB_PULLS_MAX);
	DASSERT(!s->rx.piece && !s->rx.wants);
	if (!piece || piece->length_bytes != hdr->length_bytes ||
	    piece->window_at != hdr->window_at || piece->req->id != s->rx.hdr.request_id)
		return -EPROTO;
	s->rx.wants = true;
	s->rx.piece = piece;
	s->rx.dst = piece->bytes;
	s->rx.need_bytes = piece->length_bytes;
	s->rx.done_bytes = 0;
	return 0;
}

void fab__data_end(struct fab__session *s)
{
	uint32_t pull = s->rx.piece_hdr.pull;

	ASSERT(!(s->pull_free & 1u << pull));
	ASSERT(s->rx.done_bytes == s->rx.need_bytes);
	ASSERT(s->pulls[pull] == s->rx.piece);
	s->pulls[pull] = NULL;
	s->pull_free |= 1u << pull;
	fab__piece_back(s->rx.piece, 0);
	s->rx.piece = NULL;
	pulls_send(s);
	stall_watch(s);
}

/* Messages that the transport has sent. */
void fab__sent_drain(struct fab__session *s)
{
	int status = s->at == SESSION_OPEN ? 0 : -ECONNRESET;
	struct fab_tx *tx;

	while ((tx = s->link->ops->sent(s->link)) != NULL) {
		ASSERT(tx->kind != FAB_TX_REQUEST && tx->kind != FAB_TX_DATA);
		if (tx->kind == FAB_TX_REPLY)
			fab__reply_sent(s, tx, status);
		else if (tx->kind == FAB_TX_PART || tx->kind == FAB_TX_FETCH)
			fab__piece_back(outside(container_of(tx, struct fab__piece, tx)), status);
		else if (tx->hdr.type == FAB_POOL_ADDED)
			container_of(tx, struct fab_pool, tx)->tx_busy = false;
	}
}

/* The session has ended, the transport holds nothing: no DATA will come. */
void fab__pieces_abort(struct fab__session *s)
{
	struct list *node;

	ASSERT(s->at == SESSION_CLOSING);
	if (s->held)
		fab__piece_back(s->held, -ECONNRESET);
	s->held = NULL;
	for (uint32_t i = 0; i < FAB_PULLS_MAX; i++) {
		if (s->pulls[i])
			fab__piece_back(s->pulls[i], -ECONNRESET);
		s->pulls[i] = NULL;
	}
	while ((node = list_pop_front(&s->pull_waits)) != NULL)
		fab__piece_back(outside(list_entry(node, struct fab__piece, node)), -ECONNRESET);
}
