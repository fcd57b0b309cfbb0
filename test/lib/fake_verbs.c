/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Work requests are carried out when somebody looks at a completion queue: a random number of them,
 * of all queue pairs in turn, each queue pair's in order.
 */
#define _GNU_SOURCE
#include "test/lib/fake_verbs_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define f fake__state

struct fake__state fake__state;
struct fake_verbs_stat fake_verbs_stat;

void *fake__make(size_t bytes)
{
	void *p = calloc(1, bytes);

	ASSERT(p);
	f.objects++;
	return p;
}

void fake__unmake(void *p)
{
	ASSERT(f.objects > 0);
	f.objects--;
	free(p);
}

int fake__no(int err)
{
	errno = err;
	return -1;
}

/* ---- memory --------------------------------------------------------------------------------- */

static bool covers(const struct ibv_mr *mr, uint64_t at, uint64_t bytes)
{
	uint64_t from = (uintptr_t)mr->addr;

	return at >= from && bytes <= mr->length && at - from <= mr->length - bytes;
}

static struct fake_mr *mr_of(const struct ibv_pd *pd, uint32_t key, uint64_t at, uint64_t bytes)
{
	for (uint32_t i = 0; i < MRS_MAX; i++)
		if (f.mrs[i] && f.mrs[i]->mr.pd == pd && f.mrs[i]->mr.lkey == key &&
		    covers(&f.mrs[i]->mr, at, bytes))
			return f.mrs[i];
	return NULL;
}

static bool overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
	return a < b + b_bytes && b < a + a_bytes;
}

static bool qp_uses(const struct fake_qp *qp, uint64_t at, uint64_t bytes)
{
	for (uint32_t i = qp->done; i != qp->posted; i++) {
		const struct fake_wr *w = &qp->wrs[i % WRS_MAX];

		if (w->wr.send_flags & IBV_SEND_INLINE)
			continue;
		for (int s = 0; s < w->wr.num_sge; s++)
			if (overlap(w->sge[s].addr, w->sge[s].length, at, bytes))
				return true;
	}
	return false;
}

bool fake_verbs_busy(const void *at, uint64_t bytes)
{
	for (uint32_t i = 0; i < QPS_MAX; i++)
		if (f.qps[i] && qp_uses(f.qps[i], (uintptr_t)at, bytes))
			return true;
	return false;
}

struct ibv_pd *fake__alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = fake__make(sizeof(*pd));

	pd->context = context;
	return pd;
}

int fake__dealloc_pd(struct ibv_pd *pd)
{
	for (uint32_t i = 0; i < MRS_MAX; i++)
		ASSERT(!f.mrs[i] || f.mrs[i]->mr.pd != pd);
	fake__unmake(pd);
	return 0;
}

struct ibv_mr *fake__reg_mr(struct ibv_pd *pd, void *at, size_t bytes, int access)
{
	struct fake_mr *mr = fake__make(sizeof(*mr));
	uint32_t i = 0;

	while (f.mrs[i])
		i++;
	ASSERT(i < MRS_MAX && bytes > 0);
	f.mrs[i] = mr;
	fake_verbs_stat.locked_bytes += bytes;
	f.key += 256;
	mr->mr = (struct ibv_mr){
		.pd = pd, .addr = at, .length = bytes, .lkey = f.key, .rkey = f.key
	};
	mr->access = access;
	return &mr->mr;
}

int fake__dereg_mr(struct ibv_mr *mr)
{
	for (uint32_t i = 0; i < MRS_MAX; i++) {
		if (!f.mrs[i] || &f.mrs[i]->mr != mr)
			continue;
		for (uint32_t q = 0; q < QPS_MAX; q++)
			ASSERT(!f.qps[q] || f.qps[q]->qp.pd != mr->pd ||
			       !qp_uses(f.qps[q], (uintptr_t)mr->addr, mr->length));
		fake_verbs_stat.locked_bytes -= mr->length;
		fake__unmake(f.mrs[i]);
		f.mrs[i] = NULL;
		return 0;
	}
	UNREACHABLE();
}

/* ---- completions ---------------------------------------------------------------------------- */

void fake__ring_fd(int fd)
{
	uint64_t one = 1;

	ASSERT(write(fd, &one, sizeof(one)) == sizeof(one));
}

void fake__drain_fd(int fd)
{
	uint64_t count;

	(void)!read(fd, &count, sizeof(count));
}

bool fake_verbs_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

struct ibv_comp_channel *fake__create_comp_channel(struct ibv_context *context)
{
	struct fake_channel *c = fake__make(sizeof(*c));

	c->channel.context = context;
	c->channel.fd = eventfd(0, EFD_CLOEXEC);
	ASSERT(c->channel.fd >= 0);
	return &c->channel;
}

int fake__destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct fake_channel *c = container_of(channel, struct fake_channel, channel);

	ASSERT(c->channel.refcnt == 0);
	close(channel->fd);
	fake__unmake(c);
	return 0;
}

struct ibv_cq *fake__create_cq(struct ibv_context *context, int cqe, void *cq_context,
			       struct ibv_comp_channel *channel, int vector)
{
	struct fake_cq *cq = fake__make(sizeof(*cq));

	(void)vector;
	ASSERT(cqe > 0 && cqe <= f.cfg.max_cqe && cqe <= WRS_MAX);
	channel->refcnt++;
	cq->cq = (struct ibv_cq){
		.context = context, .channel = channel, .cq_context = cq_context, .cqe = cqe
	};
	return &cq->cq;
}

int fake__destroy_cq(struct ibv_cq *pub)
{
	struct fake_cq *cq = container_of(pub, struct fake_cq, cq);
	struct fake_channel *c = container_of(pub->channel, struct fake_channel, channel);

	ASSERT(cq->users == 0);
	for (uint32_t i = 0; i < c->count; i++)
		ASSERT(c->events[i] != pub); /* would be waited for */
	ASSERT(cq->unacked == 0);
	pub->channel->refcnt--;
	fake__unmake(cq);
	return 0;
}

static void complete(struct ibv_cq *pub, uint64_t wr_id, enum ibv_wc_status status,
		     enum ibv_wc_opcode opcode, uint32_t bytes)
{
	struct fake_cq *cq = container_of(pub, struct fake_cq, cq);
	struct fake_channel *c = container_of(pub->channel, struct fake_channel, channel);

	ASSERT(cq->tail - cq->head < (uint32_t)pub->cqe); /* overflow */
	cq->wc[cq->tail++ % WRS_MAX] = (struct ibv_wc){
		.wr_id = wr_id, .status = status, .opcode = opcode, .byte_len = bytes
	};
	if (!cq->armed)
		return;
	cq->armed = false;
	ASSERT(c->count < EVENTS_MAX);
	c->events[c->count++] = pub;
	fake__ring_fd(pub->channel->fd);
}

int fake__get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
	struct fake_channel *c = container_of(channel, struct fake_channel, channel);

	ASSERT(fcntl(channel->fd, F_GETFL) & O_NONBLOCK);
	if (c->count == 0)
		return fake__no(EAGAIN);
	*cq = c->events[--c->count];
	*context = (*cq)->cq_context;
	container_of(*cq, struct fake_cq, cq)->unacked++;
	if (c->count == 0)
		fake__drain_fd(channel->fd);
	return 0;
}

void fake__ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
	container_of(cq, struct fake_cq, cq)->unacked -= count;
}

int fake__req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	ASSERT(!solicited_only);
	container_of(cq, struct fake_cq, cq)->armed = true;
	return 0;
}

/* ---- queue pairs ---------------------------------------------------------------------------- */

struct fake_qp *fake__qp_of(struct ibv_qp *qp)
{
	return container_of(qp, struct fake_qp, qp);
}

static struct fake_qp *peer_of(const struct fake_qp *qp)
{
	return qp->id->peer && qp->id->peer->id.qp ? fake__qp_of(qp->id->peer->id.qp) : NULL;
}

int fake__create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct fake_qp *qp;
	uint32_t i = 0;

	if (attr->cap.max_inline_data > f.cfg.max_inline)
		return fake__no(EINVAL);
	ASSERT((int)attr->cap.max_send_wr <= f.cfg.max_qp_wr);
	ASSERT((int)attr->cap.max_recv_wr <= f.cfg.max_qp_wr);
	ASSERT((int)attr->cap.max_send_sge <= f.cfg.max_sge && attr->cap.max_recv_sge == 1);
	ASSERT(attr->send_cq->cqe >= (int)(attr->cap.max_send_wr + attr->cap.max_recv_wr));
	while (f.qps[i])
		i++;
	ASSERT(i < QPS_MAX);
	qp = fake__make(sizeof(*qp));
	f.qps[i] = qp;
	qp->qp = (struct ibv_qp){ .pd = pd, .send_cq = attr->send_cq, .recv_cq = attr->recv_cq };
	qp->cap = attr->cap;
	qp->id = container_of(id, struct fake_id, id);
	container_of(attr->send_cq, struct fake_cq, cq)->users++;
	id->qp = &qp->qp;
	return 0;
}

void fake__destroy_qp(struct rdma_cm_id *id)
{
	struct fake_qp *qp = fake__qp_of(id->qp);

	ASSERT(f.async_unacked == 0); /* it would be waited for */
	for (uint32_t i = 0; i < QPS_MAX; i++)
		if (f.qps[i] == qp)
			f.qps[i] = NULL;
	container_of(qp->qp.send_cq, struct fake_cq, cq)->users--;
	id->qp = NULL;
	fake__unmake(qp);
}

int fake__post_recv(struct ibv_qp *pub, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_qp *qp = fake__qp_of(pub);

	(void)bad;
	for (; wr; wr = wr->next) {
		ASSERT(qp->recv_posted - qp->recv_done < qp->cap.max_recv_wr && wr->num_sge == 1);
		ASSERT(mr_of(pub->pd, wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length));
		qp->recvs[qp->recv_posted++ % WRS_MAX] =
			(struct fake_recv){ .wr_id = wr->wr_id, .sge = *wr->sg_list };
	}
	return 0;
}

static void take_in(struct fake_qp *qp, struct fake_wr *w, const struct ibv_send_wr *wr)
{
	*w = (struct fake_wr){ .wr = *wr };
	ASSERT(wr->num_sge <= (int)qp->cap.max_send_sge && wr->num_sge <= 2);
	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];

		w->sge[i] = *sge;
		if (wr->send_flags & IBV_SEND_INLINE) {
			ASSERT(w->length + sge->length <= qp->cap.max_inline_data);
			memcpy(w->bytes + w->length, (void *)(uintptr_t)sge->addr, sge->length);
		} else {
			ASSERT(mr_of(qp->qp.pd, sge->lkey, sge->addr, sge->length));
		}
		w->length += sge->length;
	}
	ASSERT(w->length <= f.cfg.max_msg_sz);
	fake_verbs_stat.inlined += !!(wr->send_flags & IBV_SEND_INLINE);
	fake_verbs_stat.signalled += !!(wr->send_flags & IBV_SEND_SIGNALED);
	fake_verbs_stat.sends += wr->opcode == IBV_WR_SEND;
	fake_verbs_stat.writes += wr->opcode == IBV_WR_RDMA_WRITE && w->length > 0;
	fake_verbs_stat.probes += wr->opcode == IBV_WR_RDMA_WRITE && w->length == 0;
	fake_verbs_stat.reads += wr->opcode == IBV_WR_RDMA_READ;
	if (wr->opcode != IBV_WR_SEND)
		fake_verbs_stat.chunk_max_bytes =
			max_u32(fake_verbs_stat.chunk_max_bytes, w->length);
}

uint64_t fake__last_wr(const struct fake_qp *qp)
{
	return qp->posted > 0 ? qp->wrs[(qp->posted - 1) % WRS_MAX].wr.wr_id : 0;
}

void fake__qp_break(struct fake_qp *qp, uint64_t wr_id, enum ibv_wc_status status)
{
	if (qp->broken)
		return;
	qp->broken = true;
	complete(qp->qp.send_cq, wr_id, status, 0, 0); /* of an error no more is said */
}

static void gather(const struct fake_wr *w, uint8_t *to)
{
	if (w->wr.send_flags & IBV_SEND_INLINE) {
		memcpy(to, w->bytes, w->length);
		return;
	}
	for (int i = 0; i < w->wr.num_sge; i++) {
		memcpy(to, (void *)(uintptr_t)w->sge[i].addr, w->sge[i].length);
		to += w->sge[i].length;
	}
}

static bool send_run(struct fake_qp *peer, const struct fake_wr *w)
{
	struct fake_recv *r;

	if (peer->recv_posted == peer->recv_done) {
		fake_verbs_stat.rnr++;
		return false;
	}
	r = &peer->recvs[peer->recv_done++ % WRS_MAX];
	ASSERT(w->length <= r->sge.length);
	gather(w, (uint8_t *)(uintptr_t)r->sge.addr);
	complete(peer->qp.recv_cq, r->wr_id, IBV_WC_SUCCESS, IBV_WC_RECV, w->length);
	return true;
}

/* One of a queue pair's; false: it cannot go on. */
static bool run_one(struct fake_qp *qp)
{
	struct fake_wr *w = &qp->wrs[qp->done % WRS_MAX];
	struct fake_qp *peer = peer_of(qp);
	uint64_t at = w->wr.wr.rdma.remote_addr;
	struct fake_mr *mr;
	int need =
		w->wr.opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;

	if (qp->done == qp->posted || !peer || !qp->id->connected)
		return false;
	if (w->wr.opcode == IBV_WR_SEND) {
		if (!send_run(peer, w))
			return false;
	} else if (w->length > 0) { /* one of no bytes needs no memory */
		mr = mr_of(peer->qp.pd, w->wr.wr.rdma.rkey, at, w->length);
		if (!mr || !(mr->access & need)) {
			fake__qp_break(qp, w->wr.wr_id, IBV_WC_REM_ACCESS_ERR);
			fake__qp_break(peer, 0, IBV_WC_WR_FLUSH_ERR);
			return false;
		}
		if (need == IBV_ACCESS_REMOTE_READ)
			memcpy((void *)(uintptr_t)w->sge[0].addr, (void *)(uintptr_t)at, w->length);
		else
			gather(w, (uint8_t *)(uintptr_t)at);
	}
	qp->done++;
	if ((w->wr.send_flags & IBV_SEND_SIGNALED) && !qp->broken)
		complete(qp->qp.send_cq, w->wr.wr_id, IBV_WC_SUCCESS,
			 w->wr.opcode == IBV_WR_SEND      ? IBV_WC_SEND
			 : need == IBV_ACCESS_REMOTE_READ ? IBV_WC_RDMA_READ
							  : IBV_WC_RDMA_WRITE,
			 0);
	return true;
}

static void run(void)
{
	uint32_t steps = (uint32_t)rand_below(&f.rand, f.cfg.steps_max + 1);

	for (uint32_t i = 0; i < QPS_MAX && !f.frozen; i++)
		for (uint32_t s = 0; s < steps && f.qps[i] && run_one(f.qps[i]); s++)
			;
}

int fake__post_send(struct ibv_qp *pub, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake_qp *qp = fake__qp_of(pub);
	uint32_t reads = 0;

	(void)bad;
	for (; wr; wr = wr->next) {
		/* A place is free only when a completion at or behind it was taken. */
		ASSERT(qp->posted - qp->freed < qp->cap.max_send_wr);
		take_in(qp, &qp->wrs[qp->posted++ % WRS_MAX], wr);
	}
	for (uint32_t i = qp->done; i != qp->posted; i++)
		reads += qp->wrs[i % WRS_MAX].wr.opcode == IBV_WR_RDMA_READ;
	fake_verbs_stat.reads_out_max = max_u32(fake_verbs_stat.reads_out_max, reads);
	ASSERT(reads <= qp->id->initiator_depth);
	run(); /* a card does not wait until somebody looks */
	return 0;
}

/* The owner has seen this completion: frees the places of all work up to it. */
static void seen(struct ibv_cq *cq, uint64_t wr_id)
{
	for (uint32_t i = 0; i < QPS_MAX; i++) {
		struct fake_qp *qp = f.qps[i];

		if (!qp || qp->qp.send_cq != cq)
			continue;
		while (qp->freed != qp->done && qp->wrs[qp->freed % WRS_MAX].wr.wr_id != wr_id)
			qp->freed++;
		ASSERT(qp->freed != qp->done);
		qp->freed++;
	}
}

int fake__poll_cq(struct ibv_cq *pub, int wc_max, struct ibv_wc *wc)
{
	struct fake_cq *cq = container_of(pub, struct fake_cq, cq);
	int n = 0;

	run();
	while (n < wc_max && cq->head != cq->tail) {
		wc[n] = cq->wc[cq->head++ % WRS_MAX];
		if (wc[n].wr_id >> 32 == 0 && wc[n].status == IBV_WC_SUCCESS)
			seen(pub, wc[n].wr_id);
		n++;
	}
	return n;
}
