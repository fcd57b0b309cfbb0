/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Capsules and payload through a reliable queue pair.
 *
 *   client                                      appliance
 *     SEND capsule ------------------------->   receive (exactly `credits` are posted)
 *     slot of long bodies   <== RDMA READ ===   recv_bytes(), when the header names one
 *     window                <== RDMA READ ===   FETCH: what a client writes
 *     window                <== RDMA WRITE ==   PART: what a client reads
 *     receive               <---------------    SEND reply, behind its payload
 *
 * A small capsule goes out inline with its work request, a larger one from its own place; so the
 * sender has its memory back at once.  Capsules that are sent with one doorbell go together
 * (fab_rdma_plan.c): a SEND can carry several capsules, and so can a receive.  Payload goes
 * directly from and to its place, and is the card's until a completion arrives.
 *
 * The order of receives, places 0 .. receives_max - 1 in a circle:
 *
 *       freed    taken          done            posted
 *    ---|---------|--------------|----------------|--->
 *       processed  received       may be filled
 *
 * taken_bytes counts the bytes of the receive at `taken` that were handed out, capsule by capsule.
 *
 *   R1 -> A1   (fab_rdma_open.c) a registration is stored before the count of them includes it.
 *
 * Invariants, true between any two calls:
 *
 *  (1) posted - freed <= receives.  Each receive is posted again before the reply to the last of
 *      its capsules goes out: a receive that is not posted has a credit in it that is in use, so no
 *      credit meets a queue pair that is not ready.  The exceptions are CANCEL and POOL_ADD, which
 *      need no credit: they may find no receive, or be the last unprocessed capsule of a receive
 *      whose credits are all free.  Then the peer's card retries until there is a receive
 *      (PROTOCOL.md 10).
 *  (2) Memory on the plan's ring, or in a posted receive, belongs to the card: it comes back with a
 *      completion, or when the queue pair was destroyed.  A completion with an error does not prove
 *      that later ones are done.
 *  (3) Capsules received before an error are handed out before the error.
 */
#include "fabric/link/fab_rdma.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#define RECEIVE  (UINT64_C(1) << 32) /* in a wr_id: a receive, not a send */
#define POST_MAX 16

static struct fab_rdma *rdma_of(struct fab_link *link)
{
	return container_of(link, struct fab_rdma, link);
}

static wk_cold int broken(struct fab_rdma *r, int err)
{
	ASSERT(err < 0);
	if (!r->err)
		r->err = err;
	return r->err;
}

/* ---- out -------------------------------------------------------------------------------- */

static uint8_t *send_place(const struct fab_rdma *r, uint32_t seq)
{
	uint32_t place = r->receives_max + (seq & (r->plan.limits.depth - 1));

	ASSERT(r->capsules && is_pow2(r->plan.limits.depth));
	return r->capsules + (size_t)place * FAB_SLOT_BYTES;
}

/* Finds the local key of payload memory; 0 is never a valid key. */
static bool key_of(const struct fab_rdma *r, const void *at, uint32_t bytes, uint32_t *key)
{
	const struct fab_rdma_device *dev = r->device;
	uint32_t count = atomic_load_explicit(&dev->mr_count, memory_order_acquire); /* A1 */
	uintptr_t from = (uintptr_t)at;

	ASSERT(count <= FAB_RDMA_RANGES_MAX && bytes > 0);
	for (uint32_t i = 0; i <= count; i++) {
		const struct ibv_mr *mr = i < count ? dev->mrs[i] : r->longs_mr;

		if (mr && from - (uintptr_t)mr->addr < mr->length &&
		    mr->length - (from - (uintptr_t)mr->addr) >= bytes) {
			*key = mr->lkey;
			return true;
		}
	}
	return false;
}

static struct ibv_sge sge_of(const void *at, uint32_t bytes, uint32_t key)
{
	return (struct ibv_sge){ .addr = (uintptr_t)at, .length = bytes, .lkey = key };
}

/* A capsule as it travels; how many bytes that were. */
static uint32_t capsule_build(uint8_t *at, struct fab_tx *tx)
{
	uint32_t bytes = fab__rdma_capsule_bytes(tx), header = (uint32_t)sizeof(tx->hdr);

	ASSERT(bytes >= header && bytes <= FAB_SLOT_BYTES);
	if (tx->body)
		tx->hdr.body.crc32c = le32_of(crc32c(tx->body, tx->body_bytes));
	tx->hdr.check = le32_of(fab__hdr_check(&tx->hdr));
	memcpy(at, &tx->hdr, header);
	if (bytes > header)
		memcpy(at + header, tx->body, bytes - header);
	return bytes;
}

/* Capsules: from a place of their own, or with the work request when they are small enough. */
static void send_build(struct fab_rdma *r, const struct fab_rdma_work *work, struct ibv_send_wr *wr,
		       struct ibv_sge *sge)
{
	uint8_t *place = send_place(r, work->seq);
	struct list *node = &work->tx->node;
	uint32_t bytes = 0;

	for (uint32_t i = 0; i < work->count; i++, node = node->next)
		bytes += capsule_build(place + bytes, list_entry(node, struct fab_tx, node));
	ASSERT(bytes == work->bytes && bytes <= FAB_SLOT_BYTES);
	wr->opcode = IBV_WR_SEND;
	if (bytes <= r->plan.limits.inline_max)
		wr->send_flags |= IBV_SEND_INLINE;
	*sge = sge_of(place, bytes, r->capsules_key);
}

static int work_build(struct fab_rdma *r, const struct fab_rdma_work *work, struct ibv_send_wr *wr,
		      struct ibv_sge *sge)
{
	const struct fab_tx *tx = work->tx;
	const uint8_t *at = (const uint8_t *)tx->payload + work->at;
	uint32_t key;

	ASSERT(work->op == FAB_RDMA_SEND || work->at + work->bytes <= tx->payload_bytes);
	*wr = (struct ibv_send_wr){
		.wr_id = work->seq,
		.sg_list = sge,
		.num_sge = 1,
		.send_flags = work->signalled ? IBV_SEND_SIGNALED : 0,
	};
	if (work->op == FAB_RDMA_SEND) {
		send_build(r, work, wr, sge);
		return 0;
	}
	if (work->bytes == 0) { /* a probe: it names no memory */
		wr->opcode = IBV_WR_RDMA_WRITE;
		wr->num_sge = 0;
		return 0;
	}
	if (unlikely(!key_of(r, at, work->bytes, &key)))
		return broken(r, -EFAULT); /* memory from after this connection's beginning */
	wr->opcode = work->op == FAB_RDMA_READ ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
	wr->wr.rdma.remote_addr = tx->remote.address + work->at;
	wr->wr.rdma.rkey = tx->remote.key;
	*sge = sge_of(at, work->bytes, key);
	return 0;
}

/* All that may be posted now, one doorbell for up to POST_MAX. */
static int post(struct fab_rdma *r)
{
	struct ibv_send_wr wr[POST_MAX], *bad;
	struct ibv_sge sge[POST_MAX];
	struct fab_rdma_work work;
	int n = POST_MAX;

	ASSERT(r->qp || r->err || r->closed);
	while (n == POST_MAX && !r->err && !r->closed) {
		for (n = 0; n < POST_MAX && fab__rdma_plan_next(&r->plan, &work); n++) {
			if (work_build(r, &work, &wr[n], &sge[n]))
				return r->err;
			if (n > 0)
				wr[n - 1].next = &wr[n];
		}
		if (n > 0 && unlikely(r->v->post_send(r->qp, wr, &bad)))
			return broken(r, -ECONNRESET);
	}
	return r->err;
}

/* ---- in --------------------------------------------------------------------------------- */

static uint8_t *receive_place(const struct fab_rdma *r, uint64_t count)
{
	ASSERT(r->receives_max > 0 && r->capsules);
	return r->capsules + (size_t)(count % r->receives_max) * FAB_SLOT_BYTES;
}

/* Every receive that is free is posted (again). */
static int receives_post(struct fab_rdma *r)
{
	struct ibv_recv_wr wr[POST_MAX], *bad;
	struct ibv_sge sge[POST_MAX];
	uint32_t n = POST_MAX;

	while (n == POST_MAX && !r->err && !r->closed) {
		n = min_u32(r->receives - (uint32_t)(r->posted - r->freed), POST_MAX);
		ASSERT(r->posted - r->freed <= r->receives); /* (1) */
		for (uint32_t i = 0; i < n; i++) {
			uint64_t place = (r->posted + i) % r->receives_max;

			sge[i] = sge_of(receive_place(r, r->posted + i), FAB_SLOT_BYTES,
					r->capsules_key);
			wr[i] = (struct ibv_recv_wr){
				.wr_id = RECEIVE | place,
				.next = i + 1 < n ? &wr[i + 1] : NULL,
				.sg_list = &sge[i],
				.num_sge = 1,
			};
		}
		if (n > 0 && unlikely(r->v->post_recv(r->qp, wr, &bad)))
			return broken(r, -ECONNRESET);
		r->posted += n;
	}
	ASSERT(r->taken <= r->done && r->done <= r->posted);
	return r->err;
}

int fab__rdma_receives(struct fab_rdma *r, uint32_t count)
{
	ASSERT(count >= r->receives && count <= r->receives_max);
	r->receives = count;
	return receives_post(r);
}

static void completed(struct fab_rdma *r, const struct ibv_wc *wc)
{
	uint32_t place = (uint32_t)wc->wr_id;

	if (unlikely(wc->status != IBV_WC_SUCCESS)) { /* (2): nothing is given back for this */
		/* soft-RoCE: the latter when there is no route */
		if (!r->err &&
		    (wc->status == IBV_WC_RETRY_EXC_ERR || wc->status == IBV_WC_LOC_QP_OP_ERR)) {
			r->unreachable = true;
			fab__rdma_unreachable(r->id);
		}
		broken(r, -ECONNRESET);
		return;
	}
	if (!(wc->wr_id & RECEIVE)) {
		if (unlikely(fab__rdma_plan_done(&r->plan, (uint32_t)wc->wr_id)))
			broken(r, -EIO);
		return;
	}
	if (unlikely(r->done == r->posted || place != r->done % r->receives_max)) {
		broken(r, -EIO);
		return;
	}
	/* An RDMA WRITE with immediate data takes a receive, too, and is as long as it likes. */
	if (unlikely(wc->opcode != IBV_WC_RECV || wc->byte_len > FAB_SLOT_BYTES)) {
		broken(r, -EPROTO);
		return;
	}
	r->received_bytes[place] = wc->byte_len;
	r->done++;
}

/* Handles completions, and posts the work that they made room for. */
static int poll(struct fab_rdma *r)
{
	struct ibv_wc wc[FAB_RDMA_CQES_MAX];
	int n = FAB_RDMA_CQES_MAX, all = 0;

	ASSERT(r->cq);
	while (n == FAB_RDMA_CQES_MAX && !r->err && !r->closed) {
		n = r->v->poll_cq(r->cq, FAB_RDMA_CQES_MAX, wc);
		if (unlikely(n < 0))
			return broken(r, -EIO);
		for (int i = 0; i < n; i++)
			completed(r, &wc[i]);
		all += n;
	}
	if (all > 0)
		(void)post(r);
	return all;
}

/* Takes the next received capsule, header and body whole. */
static int capsule_take(struct fab_rdma *r, struct fab_hdr_wire *out)
{
	uint32_t left = r->received_bytes[r->taken % r->receives_max] - r->taken_bytes, body;
	const uint8_t *at = receive_place(r, r->taken) + r->taken_bytes;

	ASSERT(r->taken < r->done &&
	       r->taken_bytes <= r->received_bytes[r->taken % r->receives_max]);
	if (unlikely(left < sizeof(*out)))
		return broken(r, -EPROTO);
	memcpy(out, at, sizeof(*out));
	body = le32_get(out->body_bytes);
	if (body <= FAB_SMALL_MAX || body > FAB_BODY_MAX)
		body = 0;
	if (unlikely(fab__hdr_check(out) != le32_get(out->check) || left < sizeof(*out) + body))
		return broken(r, -EPROTO);
	r->behind = at + sizeof(*out);
	r->taken_bytes += (uint32_t)sizeof(*out) + body;
	if (left == sizeof(*out) + body) {
		r->taken_bytes = 0;
		r->taken++;
	}
	return 1;
}

static int rdma_recv_header(struct fab_link *link, struct fab_hdr_wire *out)
{
	struct fab_rdma *r = rdma_of(link);

	if (unlikely(r->closed))
		return -ECONNRESET;
	r->freed = r->taken;
	if (r->taken == r->done) {
		(void)poll(r);
		(void)receives_post(r);
		if (r->taken == r->done)
			return r->err; /* (3) */
	}
	ASSERT(r->freed <= r->taken && r->taken < r->done); /* (3) */
	return capsule_take(r, out);
}

/* A long body is read from where the peer keeps them. */
static int body_fetch(struct fab_rdma *r, uint32_t slot, void *dst, uint32_t size_bytes)
{
	ASSERT(!r->body_out && !r->plan.body_here);
	if (slot >= r->longs_count || size_bytes > FAB_LONG_BODY_MAX)
		return broken(r, -EPROTO);
	r->body = (struct fab_tx){
		.kind = FAB_TX_BODY,
		.payload = dst,
		.payload_bytes = size_bytes,
		.remote = { r->longs.address + (uint64_t)slot * FAB_LONG_BODY_MAX, r->longs.key },
	};
	r->body_out = true;
	fab__rdma_plan_add(&r->plan, &r->body);
	return post(r);
}

static int rdma_recv_bytes(struct fab_link *link, uint32_t slot, void *dst, uint32_t size_bytes,
			   uint32_t *done_bytes)
{
	struct fab_rdma *r = rdma_of(link);

	ASSERT(size_bytes > FAB_BODY_MAX || r->behind);
	if (size_bytes <= FAB_BODY_MAX) {
		/* Invariant of recv_header(): this many bytes have arrived. */
		memcpy(dst, r->behind, size_bytes);
		*done_bytes = size_bytes;
		return 1;
	}
	if (!r->body_out)
		return body_fetch(r, slot, dst, size_bytes);
	(void)poll(r);
	if (!r->plan.body_here)
		return r->err;
	r->plan.body_here = false;
	r->body_out = false;
	*done_bytes = size_bytes;
	return 1;
}

/* ---- struct fab_transport --------------------------------------------------------------- */

static int rdma_send(struct fab_link *link, struct fab_tx *tx)
{
	struct fab_rdma *r = rdma_of(link);

	DASSERT(tx != &r->body && tx != &r->probe);
	if (unlikely(r->closed)) {
		list_init(&tx->node);
		list_push_back(&r->plan.done, &tx->node);
	} else {
		fab__rdma_plan_add(&r->plan, tx);
	}
	return 0;
}

static struct fab_tx *rdma_sent(struct fab_link *link)
{
	struct fab_rdma *r = rdma_of(link);
	struct list *node;

	do {
		node = list_pop_front(&r->plan.done);
		r->probe_out = r->probe_out && node != &r->probe.node;
	} while (node &&
		 (node == &r->body.node || node == &r->hello.node || node == &r->probe.node));
	return node ? list_entry(node, struct fab_tx, node) : NULL;
}

/* Receives first: a reply may make the peer send one more (1). */
static int rdma_flush(struct fab_link *link)
{
	struct fab_rdma *r = rdma_of(link);
	int err;

	ASSERT(r->freed <= r->taken && r->taken <= r->done);
	r->freed = r->taken; /* no capsule is read while others are sent */
	err = receives_post(r);
	return err ? err : post(r);
}

/* Events of the channel say no more than that there was something. */
static void channel_drain(struct fab_rdma *r)
{
	struct ibv_cq *cq;
	void *context;

	ASSERT(r->channel);
	while (r->v->get_cq_event(r->channel, &cq, &context) == 0)
		r->v->ack_cq_events(cq, 1);
}

static bool rdma_arm(struct fab_link *link)
{
	struct fab_rdma *r = rdma_of(link);

	if (r->err || r->closed)
		return false;
	channel_drain(r);
	if (r->v->req_notify_cq(r->cq, 0)) {
		broken(r, -ECONNRESET);
		return false;
	}
	/* Only completions after the request raise an event: poll once more. */
	return poll(r) == 0 && !r->err && r->taken == r->done && list_empty(&r->plan.done);
}

static void rdma_disarm(struct fab_link *link)
{
	(void)link; /* an event too many is drained by the next arm() */
}

static void rdma_close(struct fab_link *link)
{
	struct fab_rdma *r = rdma_of(link);

	ASSERT(!r->closed);
	r->closed = true;
	broken(r, -ECONNRESET);
	if (r->server)
		return; /* the control side halts it */
	fab__rdma_halt(r);
	fab__rdma_halted(r);
}

static const struct fab_transport rdma_transport = {
	.name = "rdma",
	.direct = false,
	.onesided = true,
	.recv_header = rdma_recv_header,
	.recv_bytes = rdma_recv_bytes,
	.send = rdma_send,
	.sent = rdma_sent,
	.flush = rdma_flush,
	.arm = rdma_arm,
	.disarm = rdma_disarm,
	.close = rdma_close,
};

void fab__rdma_link_init(struct fab_rdma *r, const struct fab_verbs *v, bool server)
{
	r->link.ops = &rdma_transport;
	r->v = v;
	r->server = server;
}

void fab__rdma_halted(struct fab_rdma *r)
{
	ASSERT(r->closed && !r->qp); /* (2) */
	fab__rdma_plan_abort(&r->plan);
	r->body_out = false;
}

/* ---- is the peer alive? ---------------------------------------------------------------- */

/*
 * An RDMA WRITE of no bytes: the peer's card answers it, and nobody else has to do anything for it,
 * nor have a receive posted.  It reaches no memory, so neither side needs a key for it.
 */
void fab__rdma_probe(struct fab_rdma *r)
{
	ASSERT(r->plan.limits.depth > 0);
	if (r->err || r->closed || r->probe_out || fab__rdma_plan_waits(&r->plan))
		return;
	r->probe = (struct fab_tx){ .kind = FAB_TX_PROBE };
	r->probe_out = true;
	fab__rdma_plan_add(&r->plan, &r->probe);
	(void)post(r); /* the next poll reports an error */
}

void fab__rdma_timeout_set(const struct fab_verbs *v, struct rdma_cm_id *id)
{
	uint8_t timeout = FAB_RDMA_ACK_TIMEOUT;

	/* If it cannot be set, the device's default is good enough. */
	(void)v->set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
			    sizeof(timeout));
}

/* ---- the hello's bytes ------------------------------------------------------------------ */

/* Something new, or make the channel say when there is. */
static int hello_wait(struct fab_rdma *r)
{
	ASSERT(r->taken == r->done);
	if (poll(r) > 0 || r->err)
		return 0;
	channel_drain(r);
	if (r->v->req_notify_cq(r->cq, 0))
		return broken(r, -ECONNRESET);
	return poll(r) > 0 || r->err ? 0 : -EAGAIN;
}

ssize_t fab__rdma_hello_recv(struct fab_rdma *r, void *dst, uint32_t size_bytes)
{
	uint32_t bytes;

	ASSERT(size_bytes > 0);
	while (r->taken == r->done) { /* not completions of sends */
		int err = hello_wait(r);

		if (err)
			return err;
		if (r->taken == r->done && r->err)
			return r->err;
	}
	bytes = r->received_bytes[r->taken % r->receives_max];
	ASSERT(bytes <= FAB_SLOT_BYTES);
	ASSERT(r->hello_at <= bytes);
	size_bytes = min_u32(size_bytes, bytes - r->hello_at);
	memcpy(dst, receive_place(r, r->taken) + r->hello_at, size_bytes);
	r->hello_at += size_bytes;
	if (r->hello_at == bytes) {
		r->hello_at = 0;
		r->freed = ++r->taken;
		(void)receives_post(r);
	}
	return size_bytes;
}

ssize_t fab__rdma_hello_send(struct fab_rdma *r, const void *bytes, uint32_t size_bytes)
{
	uint32_t body = size_bytes - (uint32_t)sizeof(r->hello.hdr);
	int err;

	ASSERT(size_bytes >= sizeof(r->hello.hdr) && body <= FAB_BODY_MAX);
	r->hello = (struct fab_tx){
		.kind = FAB_TX_CONTROL,
		.body = body ? (const uint8_t *)bytes + sizeof(r->hello.hdr) : NULL,
		.body_bytes = body,
	};
	memcpy(&r->hello.hdr, bytes, sizeof(r->hello.hdr));
	fab__rdma_plan_add(&r->plan, &r->hello);
	err = post(r);
	(void)rdma_sent(&r->link);
	return err ? err : (ssize_t)size_bytes;
}
