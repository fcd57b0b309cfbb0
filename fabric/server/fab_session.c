/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The appliance's end of one session: requests in, replies out; no socket, no clock.
 *
 *   recv_header -> request_begin -> (body) -> request_end -> FAB_EVENT_REQUEST
 *                                                                  |
 *        credit <- request_free <- (reply has left) <- fab_reply <-+
 *
 * Invariants, true between any two calls:
 *  (1) A request's index is on req_free, or it is being received (rx.req), or it is live (given
 *      to the appliance), or its reply is being sent; never two of these.
 *  (2) There are as many as credits: a request without a free index breaks a promise and
 *      ends the session.  So no peer makes us hold more memory than the hello granted.
 *  (3) A closing session receives and sends nothing; each live request has its cancel event
 *      due or out, and the session is drained when all have been replied to.
 */
#include "fabric/fab_took.h"
#include "fabric/hello/fab_server_internal.h"

#include <errno.h>
#include <string.h>

#define TURNS_MAX 4u /* capsules of one session in one poll, for each request that it may send */

struct fab__session *fab__session_of(struct fab_session *pub)
{
	return container_of(pub, struct fab__session, pub);
}

static struct fab__req *req_of(struct fab_req *pub)
{
	return container_of(pub, struct fab__req, pub);
}

void fab__session_open(struct fab__session *s, struct fab_link *link,
		       const struct fab_limits *limits, const char *key_id, uint64_t id)
{
	static const struct fab_rights everything = { .may_write = true };

	ASSERT(s->at == SESSION_FREE);
	ASSERT(limits->credits > 0 && limits->credits <= FAB_CREDITS_MAX);
	ASSERT(limits->long_bodies <= FAB_LONG_MAX);
	ASSERT(strlen(key_id) <= FAB_KEY_ID_MAX);
	s->pub.id = id;
	s->pub.user = NULL;
	s->pub.transport = link->ops->name;
	s->pub.peer = s->control.peer;
	s->pub.limits = *limits;
	memcpy(s->pub.key_id, key_id, strlen(key_id) + 1);
	s->pub.rights = &everything;
	s->pub.key = 0;
	s->pub.scope = NULL;
	s->pub.client = 0;
	s->pub.forgotten = 0;
	s->pub.rate = NULL;
	s->link = link;
	s->direct = link->ops->direct;
	s->onesided = link->ops->onesided;
	s->halting = false;
	s->active = true;
	s->hung_up = false;
	list_init(&s->dirty_node);
	memset(s->refused_ns, 0, sizeof(s->refused_ns));
	s->next_deadline_ns = UINT64_MAX;
	s->heard = 0;
	s->req_free_count = limits->credits;
	for (uint32_t i = 0; i < limits->credits; i++) {
		s->req_free[i] = (uint16_t)(limits->credits - 1 - i);
		s->reqs[i].pub.credit = i;
		s->reqs[i].pub.session = &s->pub;
		s->reqs[i].live = false;
		s->reqs[i].part = NULL;
		list_init(&s->reqs[i].cancel_node);
	}
	s->long_free =
		limits->long_bodies == 64 ? UINT64_MAX : (UINT64_C(1) << limits->long_bodies) - 1;
	s->rx = (struct fab__rx){ 0 };
	for (uint32_t i = 0; i < FAB_POOLS_MAX; i++)
		s->pools[i] = (struct fab_pool){ .session = s, .region = i + 1, .fd = -1 };
	s->pools_bytes = 0;
	memset(s->pulls, 0, sizeof(s->pulls));
	s->pull_free = UINT32_MAX;
	s->stall_ns = UINT64_MAX;
	list_init(&s->pull_waits);
	s->full_ns = UINT64_MAX;
	s->is_slow = false;
	s->held = NULL;
	s->pieces_out = 0;
}

/* ---- one request's life ------------------------------------------------------------- */

static void req_free(struct fab__session *s, struct fab__req *req)
{
	DASSERT(!req->part && !list_linked(&req->cancel_node));
	DASSERT(req->pulls == 0);
	DASSERT(req->long_slot < 0 || !(s->long_free >> req->long_slot & 1));
	ASSERT(!req->live && s->req_free_count < s->pub.limits.credits);
	if (req->long_slot >= 0)
		s->long_free |= UINT64_C(1) << req->long_slot;
	s->req_free[s->req_free_count++] = (uint16_t)req->pub.credit;
}

/* The window that a header names: a piece of a pool that is there. */
static int window_find(struct fab__session *s, struct fab_window *out, const struct fab_hdr *hdr)
{
	struct fab_pool *pool;

	if (hdr->window_region == 0) {
		*out = (struct fab_window){ 0 };
		return hdr->window_bytes || hdr->window_offset ? -EPROTO : 0;
	}
	if (hdr->window_region > FAB_POOLS_MAX)
		return -EPROTO;
	pool = &s->pools[hdr->window_region - 1];
	if (!fab__pool_is_ready(pool) || hdr->window_bytes == 0 ||
	    hdr->window_bytes > pool->size_bytes ||
	    hdr->window_offset > pool->size_bytes - hdr->window_bytes)
		return -EPROTO;
	out->pool = pool;
	out->offset_bytes = hdr->window_offset;
	out->length_bytes = hdr->window_bytes;
	DASSERT(out->offset_bytes % BLOCK_SIZE == 0 && out->length_bytes % BLOCK_SIZE == 0);
	return 0;
}

static int long_take(struct fab__session *s, struct fab__req *req)
{
	if (s->long_free == 0)
		return -EPROTO;
	req->long_slot = __builtin_ctzll(s->long_free);
	ASSERT((uint32_t)req->long_slot < s->pub.limits.long_bodies);
	s->long_free &= s->long_free - 1;
	req->body_at = s->longs + (size_t)req->long_slot * FAB_LONG_BODY_MAX;
	return 0;
}

/* A request's header is here: take a credit, and a place for the body. */
static int request_begin(struct fab__session *s, const struct fab_hdr_wire *w, uint64_t now_ns)
{
	const struct fab_hdr *hdr = &s->rx.hdr;
	struct fab__req *req;
	int err;

	DASSERT(!s->rx.req && !s->rx.wants);
	DASSERT(s->req_free_count <= s->pub.limits.credits); /* (2) */
	if (unlikely(s->req_free_count == 0))
		return -EPROTO;
	req = &s->reqs[s->req_free[--s->req_free_count]];
	DASSERT(!req->live && !req->part);
	s->rx.req = req;
	req->long_slot = -1;
	req->cancel_status = 0;
	req->pulls = 0;
	req->body_bytes = hdr->body_bytes;
	req->body_at = req->body;
	req->pub.type = (enum fab_type)hdr->type;
	req->pub.user = NULL;
	req->pub.id = hdr->request_id;
	req->pub.arrived_ns = now_ns;
	req->pub.took_ns = req->pub.drive_ns = 0;
	req->pub.deadline_ns =
		hdr->deadline_us ? now_ns + (uint64_t)hdr->deadline_us * 1000 : UINT64_MAX;
	err = window_find(s, &req->pub.window, hdr);
	if (err)
		return err;
	if (hdr->body_bytes <= FAB_SMALL_MAX) {
		memcpy(req->body, w->small, FAB_SMALL_MAX);
		return 0;
	}
	if (hdr->body_bytes > FAB_BODY_MAX) {
		err = long_take(s, req);
		if (err)
			return err;
	}
	s->rx.wants = true;
	s->rx.dst = (void *)(uintptr_t)req->body_at;
	s->rx.need_bytes = hdr->body_bytes;
	s->rx.done_bytes = 0;
	return 0;
}

/* The whole request is here. */
static int request_end(struct fab__session *s, struct fab_event *event)
{
	struct fab__req *req = s->rx.req;
	int err;

	DASSERT(req && !req->live && !s->rx.wants);
	DASSERT(!list_linked(&req->cancel_node));
	if (!s->direct && req->body_bytes > FAB_SMALL_MAX &&
	    crc32c(req->body_at, req->body_bytes) != s->rx.hdr.body_crc32c)
		return -EPROTO;
	err = fab__req_parse(&req->pub, req->body_at, req->body_bytes, &s->pub.limits);
	if (unlikely(err))
		return err;
	s->rx.req = NULL;
	req->live = true;
	if (req->pub.deadline_ns < s->next_deadline_ns) {
		s->next_deadline_ns = req->pub.deadline_ns;
		s->srv->next_deadline_ns = min_u64(s->srv->next_deadline_ns, s->next_deadline_ns);
	}
	s->srv->stat.requests++;
	event->type = FAB_EVENT_REQUEST;
	event->status = 0;
	event->session = &s->pub;
	event->req = &req->pub;
	event->piece = NULL;
	return 1;
}

static void cancel_due(struct fab__req *req, int status)
{
	struct fab__session *s = fab__session_of(req->pub.session);

	ASSERT(req->live);
	ASSERT(status < 0);
	if (req->cancel_status == -ECONNRESET || (req->cancel_status && status != -ECONNRESET))
		return;
	req->cancel_status = status;
	if (!list_linked(&req->cancel_node))
		list_push_back(&s->srv->cancels, &req->cancel_node);
}

static void cancel_by_id(struct fab__session *s, uint64_t id)
{
	for (uint32_t i = 0; i < s->pub.limits.credits; i++) {
		if (s->reqs[i].live && s->reqs[i].pub.id == id) {
			cancel_due(&s->reqs[i], -ECANCELED);
			return;
		}
	}
	/* Answered meanwhile: the reply is on its way. */
}

void fab__session_expire(struct fab__session *s, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;

	ASSERT(s->at == SESSION_OPEN);
	for (uint32_t i = 0; i < s->pub.limits.credits; i++) {
		struct fab__req *req = &s->reqs[i];

		if (!req->live || req->cancel_status)
			continue;
		if (req->pub.deadline_ns <= now_ns)
			cancel_due(req, -ETIMEDOUT);
		else
			next = min_u64(next, req->pub.deadline_ns);
	}
	s->next_deadline_ns = next;
	ASSERT(next > now_ns);
}

/* ---- receiving ---------------------------------------------------------------------- */

static int capsule_begin(struct fab__session *s, const struct fab_hdr_wire *w, uint64_t now_ns)
{
	int err = fab__hdr_parse(&s->rx.hdr, w);

	DASSERT(s->at == SESSION_OPEN && !s->rx.req && !s->rx.piece);
	if (unlikely(err))
		return err;
	if (likely(s->rx.hdr.type >= FAB_PING))
		return request_begin(s, w, now_ns);
	if (s->rx.hdr.type == FAB_CANCEL) {
		cancel_by_id(s, s->rx.hdr.request_id);
		return s->rx.hdr.body_bytes ? -EPROTO : 0;
	}
	if (s->direct) /* the rest is sent elsewhere, or is not sent */
		return -EPROTO;
	if (s->rx.hdr.type == FAB_POOL_ADD)
		return fab__pool_add(s, &s->rx.hdr, w);
	if (s->rx.hdr.type == FAB_DATA) {
		err = fab__piece_parse(&s->rx.piece_hdr, w);
		return err ? err : fab__data_begin(s);
	}
	return -EPROTO;
}

/* Handles one capsule.  1: *event is filled, 0: no more input, -EAGAIN: call again, < 0 broken. */
static int session_turn(struct fab__session *s, uint64_t now_ns, struct fab_event *event)
{
	struct fab_hdr_wire w;
	int got;

	DASSERT(!s->rx.wants || s->rx.done_bytes < s->rx.need_bytes);
	if (!s->rx.wants) {
		got = s->link->ops->recv_header(s->link, &w);
		if (got <= 0)
			return got;
		got = capsule_begin(s, &w, now_ns);
		if (unlikely(got))
			return got;
	}
	if (s->rx.wants) {
		got = s->link->ops->recv_bytes(s->link, s->rx.hdr.slot, s->rx.dst, s->rx.need_bytes,
					       &s->rx.done_bytes);
		if (got <= 0)
			return got;
		s->rx.wants = false;
	}
	if (s->rx.piece)
		fab__data_end(s);
	return s->rx.req ? request_end(s, event) : -EAGAIN;
}

uint32_t fab__session_poll(struct fab__session *s, uint64_t now_ns, struct fab_event *events,
			   uint32_t events_max)
{
	uint32_t n = 0;
	int got = 1;

	ASSERT(s->at == SESSION_OPEN);
	/* Capsules are counted, too: cancels need no credit, and are no events yet. */
	for (uint32_t turns = 0; n < events_max && turns < TURNS_MAX * events_max; turns++) {
		got = session_turn(s, now_ns, &events[n]);
		if (got == 1)
			n++;
		else if (got != -EAGAIN)
			break;
	}
	/* A truncated capsule and the end of its stream raise one event: a read that returned less
	 * than there was room for does not mean that there is nothing after it. */
	s->active = got != 0 || s->hung_up;
	if (s->onesided) { /* completions came with the capsules */
		fab__sent_drain(s);
		fab__stall_watch(s);
	}
	if (unlikely(got < 0 && got != -EAGAIN))
		fab__session_fail(s, got);
	ASSERT(n <= events_max);
	return n;
}

/* ---- the end ------------------------------------------------------------------------ */

/* Over rdma the card may still move bytes: until the control side has destroyed the queue pair. */
static void halt(struct fab__session *s)
{
	ASSERT(s->onesided && !s->halting);
	ASSERT(s->at == SESSION_CLOSING);
	s->halting = true;
	s->halt = (struct fab_message){ .type = MESSAGE_HALT, .session = s };
	ASSERT(spsc_push(&s->srv->to_control, &s->halt));
	fab__wake(s->srv->control->wake_fd);
}

void fab__session_halted(struct fab__session *s)
{
	ASSERT(s->halting && s->at == SESSION_CLOSING);
	s->halting = false;
	fab__rdma_halted(s->rdma);
	fab__sent_drain(s);
}

void fab__session_fail(struct fab__session *s, int err)
{
	ASSERT(err < 0);
	if (s->at != SESSION_OPEN)
		return;
	if (err == -ECONNRESET && s->is_slow && s->srv->now_ns - s->full_ns >= FAB_STALL_NS / 2)
		err = -ETIMEDOUT; /* the kernel has ended it for the same reason, a little sooner */
	if (err == -EPROTO) {
		s->srv->stat.protocol_errors++;
		fab_session_refused(&s->pub, FAB_REFUSED_PROTOCOL);
	} else if (err == -ETIMEDOUT) {
		fab_session_refused(&s->pub, FAB_REFUSED_STALLED);
	}
	s->at = SESSION_CLOSING;
	s->srv->closing_count++;
	ASSERT(s->srv->closing_count <= s->srv->open_count);
	s->link->ops->close(s->link);
	if (s->onesided)
		halt(s);
	fab__sent_drain(s);
	fab__pieces_abort(s);
	list_del(&s->dirty_node);
	if (s->rx.req)
		req_free(s, s->rx.req);
	s->rx = (struct fab__rx){ 0 };
	for (uint32_t i = 0; i < s->pub.limits.credits; i++)
		if (s->reqs[i].live)
			cancel_due(&s->reqs[i], -ECONNRESET);
	ASSERT(!s->held && !list_linked(&s->dirty_node)); /* (3) */
}

bool fab__session_drained(const struct fab__session *s)
{
	ASSERT(s->req_free_count <= s->pub.limits.credits); /* (1) */
	ASSERT(s->at == SESSION_CLOSING);
	return s->req_free_count == s->pub.limits.credits && s->pieces_out == 0 && !s->halting;
}

/* ---- replies ------------------------------------------------------------------------ */

void fab__session_dirty(struct fab__session *s)
{
	DASSERT(s->at == SESSION_OPEN); /* (3) */
	if (!list_linked(&s->dirty_node))
		list_push_back(&s->srv->dirty, &s->dirty_node);
}

/* Sends the bytes of a PART after the reply, without another header. */
static void take_along(struct fab_tx *tx, const struct fab_piece *part)
{
	ASSERT((part->window_at | part->length_bytes) % BLOCK_SIZE == 0);
	ASSERT(part->length_bytes <= FAB_PAYLOAD_MAX);
	tx->hdr.window_block = le32_of(part->window_at / BLOCK_SIZE);
	tx->hdr.window_blocks = le32_of(part->length_bytes / BLOCK_SIZE);
	tx->payload = part->bytes;
	tx->payload_bytes = part->length_bytes;
}

static void reply(struct fab_req *pub, int status, const void *body, uint32_t body_bytes,
		  uint32_t retry_ms)
{
	struct fab__req *req = req_of(pub);
	struct fab__session *s = fab__session_of(pub->session);

	ASSERT(req->live && req->pulls == 0);
	ASSERT(status <= 0 && status >= -4095);
	ASSERT(body_bytes <= FAB_BODY_MAX && (status == 0 || body_bytes == 0));
	req->live = false;
	if (unlikely(list_linked(&req->cancel_node)))
		list_del(&req->cancel_node);
	if (unlikely(s->at != SESSION_OPEN)) {
		req_free(s, req);
		return;
	}
	fab__hdr_build(&req->tx.hdr, FAB_REPLY, pub->id);
	req->tx.hdr.deadline = le32_of((uint32_t)status);
	req->tx.hdr.window_block = le32_of(retry_ms);
	if (pub->took_ns)
		req->tx.hdr.window_region = le16_of((uint16_t)(fab_took_byte(pub->took_ns) |
							       fab_took_byte(pub->drive_ns) << 8));
	req->tx.kind = FAB_TX_REPLY;
	if (!s->direct && body_bytes > FAB_SMALL_MAX) {
		memmove(req->body, body, body_bytes); /* it leaves later */
		body = req->body;
	}
	fab__tx_body(&req->tx, body, body_bytes);
	req->part = status == 0 ? fab__part_adopt(s, pub) : NULL;
	if (req->part)
		take_along(&req->tx, req->part);
	s->srv->stat.replies++;
	if (fab__session_send(s, &req->tx))
		fab__reply_sent(s, &req->tx, 0);
}

void fab_reply(struct fab_req *req, int status, const void *body, uint32_t body_bytes)
{
	reply(req, status, body, body_bytes, 0);
}

void fab_reply_busy(struct fab_req *req, uint32_t retry_ms)
{
	reply(req, -EBUSY, NULL, 0, retry_ms);
}

void fab__reply_sent(struct fab__session *s, struct fab_tx *tx, int status)
{
	struct fab__req *req = container_of(tx, struct fab__req, tx);

	DASSERT(tx->kind == FAB_TX_REPLY && !req->live);
	DASSERT(req->pub.session == &s->pub);
	if (req->part)
		fab__piece_back(req->part, status);
	req->part = NULL;
	req_free(s, req);
}

void fab_reply_read(struct fab_req *req, uint32_t length_bytes, const uint32_t *sums,
		    uint32_t sums_at)
{
	uint32_t blocks = (uint32_t)div_up(length_bytes, BLOCK_SIZE);
	struct {
		struct fab_read_reply_wire head;
		uint32_t sums[FAB_SUMS_INLINE];
	} body;

	DASSERT(blocks <= FAB_SUMS_INLINE ? sums || blocks == 0 : sums_at % 4 == 0);
	ASSERT(req->type == FAB_READ && length_bytes <= req->args.read.length_bytes);
	body.head.length_bytes = le32_of(length_bytes);
	if (blocks > FAB_SUMS_INLINE) {
		body.head.sums_at = le32_of(sums_at);
		fab_reply(req, 0, &body, sizeof(body.head));
		return;
	}
	body.head.sums_at = le32_of(0);
	for (uint32_t i = 0; i < blocks; i++)
		body.sums[i] = sums[i];
	fab_reply(req, 0, &body, (uint32_t)sizeof(body.head) + 4 * blocks);
}

/* ---- items -------------------------------------------------------------------------- */

static const struct fab__req *req_of_const(const struct fab_req *pub)
{
	return (const struct fab__req *)(const void *)((const char *)pub -
						       offsetof(struct fab__req, pub));
}

void fab_req_read_item(const struct fab_req *pub, uint32_t i, struct fab_read_item *out)
{
	const struct fab__req *req = req_of_const(pub);

	ASSERT(req->live && pub->type == FAB_READ_BATCH);
	ASSERT(fab__read_item_parse(out, req->body_at, req->body_bytes, i) == 0);
}

void fab_req_put_item(const struct fab_req *pub, uint32_t i, struct fab_put_item *out)
{
	const struct fab__req *req = req_of_const(pub);

	ASSERT(req->live && pub->type == FAB_PUT);
	ASSERT(fab__put_item_parse(out, req->body_at, req->body_bytes, pub->window.length_bytes,
				   i) == 0);
}

void fab_req_name(const struct fab_req *pub, uint32_t i, struct fab_name *out)
{
	const struct fab__req *req = req_of_const(pub);

	ASSERT(req->live && (pub->type == FAB_STAT || pub->type == FAB_UNLINK_BATCH ||
			     pub->type == FAB_HOLD || pub->type == FAB_LET_GO));
	ASSERT(fab__name_item_parse(out, pub->type, req->body_at, req->body_bytes, i) == 0);
}
