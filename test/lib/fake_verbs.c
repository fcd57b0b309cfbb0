/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Work requests are carried out when somebody looks at a completion queue: a random number of them,
 * of all queue pairs in turn, each queue pair's in order.
 */
#define _GNU_SOURCE
#include "test/lib/fake_verbs.h"
#include "base/list.h"
#include "base/num.h"
#include "base/rand.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define QPS_MAX    128
#define MRS_MAX    512
#define INLINE     512
#define WRS_MAX    4096
#define EVENTS_MAX 512

struct fake_wr {
	struct ibv_send_wr wr;
	struct ibv_sge sge[2];
	uint8_t bytes[INLINE];
	uint32_t length;
	bool done; /* carried out; its place is free when a completion from here on was seen */
};

struct fake_recv {
	uint64_t wr_id;
	struct ibv_sge sge;
};

struct fake_channel { /* completions */
	struct ibv_comp_channel channel;
	struct ibv_cq *events[EVENTS_MAX];
	uint32_t count;
};

struct fake_cq {
	struct ibv_cq cq;
	struct ibv_wc wc[WRS_MAX];
	uint32_t head, tail;
	bool armed;
	uint32_t unacked;
	uint32_t users;
};

struct fake_id {
	struct rdma_cm_id id;
	struct fake_id *peer;
	bool server;
	bool listening;
	bool connected;
	bool told_end;
	uint32_t unacked;
	uint8_t initiator_depth;
};

struct fake_qp {
	struct ibv_qp qp;
	struct fake_id *id;
	struct ibv_qp_cap cap;
	bool broken;
	struct fake_wr wrs[WRS_MAX];
	uint32_t posted, done, freed;
	struct fake_recv recvs[WRS_MAX];
	uint32_t recv_posted, recv_done;
};

struct fake_mr {
	struct ibv_mr mr;
	int access;
};

struct fake_event {
	struct rdma_cm_event event;
	uint8_t data[56];
	struct fake_id *id;
	struct fake_manager *to;
	struct fake_event *next;
};

struct fake_manager { /* event channel */
	struct rdma_event_channel channel;
	struct fake_event *first;
};

static struct {
	struct fake_verbs_cfg cfg;
	struct rand_state rand;
	struct ibv_context context;
	struct fake_qp *qps[QPS_MAX];
	struct fake_mr *mrs[MRS_MAX];
	struct fake_id *listeners[8];
	uint32_t objects;
	uint32_t key;
	uint16_t port;
	bool frozen;
} f;

struct fake_verbs_stat fake_verbs_stat;

static void *make(size_t bytes)
{
	void *p = calloc(1, bytes);

	ASSERT(p);
	f.objects++;
	return p;
}

static void unmake(void *p)
{
	ASSERT(f.objects > 0);
	f.objects--;
	free(p);
}

static int no(int err)
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

static struct ibv_pd *fake_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = make(sizeof(*pd));

	pd->context = context;
	return pd;
}

static int fake_dealloc_pd(struct ibv_pd *pd)
{
	for (uint32_t i = 0; i < MRS_MAX; i++)
		ASSERT(!f.mrs[i] || f.mrs[i]->mr.pd != pd);
	unmake(pd);
	return 0;
}

static struct ibv_mr *fake_reg_mr(struct ibv_pd *pd, void *at, size_t bytes, int access)
{
	struct fake_mr *mr = make(sizeof(*mr));
	uint32_t i = 0;

	while (f.mrs[i])
		i++;
	ASSERT(i < MRS_MAX && bytes > 0);
	f.mrs[i] = mr;
	f.key += 256;
	mr->mr = (struct ibv_mr){
		.pd = pd, .addr = at, .length = bytes, .lkey = f.key, .rkey = f.key
	};
	mr->access = access;
	return &mr->mr;
}

static int fake_dereg_mr(struct ibv_mr *mr)
{
	for (uint32_t i = 0; i < MRS_MAX; i++) {
		if (!f.mrs[i] || &f.mrs[i]->mr != mr)
			continue;
		for (uint32_t q = 0; q < QPS_MAX; q++)
			ASSERT(!f.qps[q] || f.qps[q]->qp.pd != mr->pd ||
			       !qp_uses(f.qps[q], (uintptr_t)mr->addr, mr->length));
		unmake(f.mrs[i]);
		f.mrs[i] = NULL;
		return 0;
	}
	UNREACHABLE();
}

/* ---- completions ---------------------------------------------------------------------------- */

static void ring_fd(int fd)
{
	uint64_t one = 1;

	ASSERT(write(fd, &one, sizeof(one)) == sizeof(one));
}

static void drain_fd(int fd)
{
	uint64_t count;

	(void)!read(fd, &count, sizeof(count));
}

static struct ibv_comp_channel *fake_create_comp_channel(struct ibv_context *context)
{
	struct fake_channel *c = make(sizeof(*c));

	c->channel.context = context;
	c->channel.fd = eventfd(0, EFD_CLOEXEC);
	ASSERT(c->channel.fd >= 0);
	return &c->channel;
}

static int fake_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct fake_channel *c = container_of(channel, struct fake_channel, channel);

	ASSERT(c->channel.refcnt == 0);
	close(channel->fd);
	unmake(c);
	return 0;
}

static struct ibv_cq *fake_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				     struct ibv_comp_channel *channel, int vector)
{
	struct fake_cq *cq = make(sizeof(*cq));

	(void)vector;
	ASSERT(cqe > 0 && cqe <= f.cfg.max_cqe && cqe <= WRS_MAX);
	channel->refcnt++;
	cq->cq = (struct ibv_cq){
		.context = context, .channel = channel, .cq_context = cq_context, .cqe = cqe
	};
	return &cq->cq;
}

static int fake_destroy_cq(struct ibv_cq *pub)
{
	struct fake_cq *cq = container_of(pub, struct fake_cq, cq);
	struct fake_channel *c = container_of(pub->channel, struct fake_channel, channel);

	ASSERT(cq->users == 0);
	for (uint32_t i = 0; i < c->count; i++)
		ASSERT(c->events[i] != pub); /* would be waited for */
	ASSERT(cq->unacked == 0);
	pub->channel->refcnt--;
	unmake(cq);
	return 0;
}

static void complete(struct ibv_cq *pub, uint64_t wr_id, enum ibv_wc_status status, uint32_t bytes)
{
	struct fake_cq *cq = container_of(pub, struct fake_cq, cq);
	struct fake_channel *c = container_of(pub->channel, struct fake_channel, channel);

	ASSERT(cq->tail - cq->head < (uint32_t)pub->cqe); /* overflow */
	cq->wc[cq->tail++ % WRS_MAX] =
		(struct ibv_wc){ .wr_id = wr_id, .status = status, .byte_len = bytes };
	if (!cq->armed)
		return;
	cq->armed = false;
	ASSERT(c->count < EVENTS_MAX);
	c->events[c->count++] = pub;
	ring_fd(pub->channel->fd);
}

static int fake_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
	struct fake_channel *c = container_of(channel, struct fake_channel, channel);

	ASSERT(fcntl(channel->fd, F_GETFL) & O_NONBLOCK);
	if (c->count == 0)
		return no(EAGAIN);
	*cq = c->events[--c->count];
	*context = (*cq)->cq_context;
	container_of(*cq, struct fake_cq, cq)->unacked++;
	if (c->count == 0)
		drain_fd(channel->fd);
	return 0;
}

static void fake_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
	container_of(cq, struct fake_cq, cq)->unacked -= count;
}

static int fake_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	ASSERT(!solicited_only);
	container_of(cq, struct fake_cq, cq)->armed = true;
	return 0;
}

/* ---- queue pairs ---------------------------------------------------------------------------- */

static struct fake_qp *qp_of(struct ibv_qp *qp)
{
	return container_of(qp, struct fake_qp, qp);
}

static struct fake_qp *peer_of(const struct fake_qp *qp)
{
	return qp->id->peer && qp->id->peer->id.qp ? qp_of(qp->id->peer->id.qp) : NULL;
}

static int fake_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct fake_qp *qp;
	uint32_t i = 0;

	if (attr->cap.max_inline_data > f.cfg.max_inline)
		return no(EINVAL);
	ASSERT((int)attr->cap.max_send_wr <= f.cfg.max_qp_wr);
	ASSERT((int)attr->cap.max_recv_wr <= f.cfg.max_qp_wr);
	ASSERT((int)attr->cap.max_send_sge <= f.cfg.max_sge && attr->cap.max_recv_sge == 1);
	ASSERT(attr->send_cq->cqe >= (int)(attr->cap.max_send_wr + attr->cap.max_recv_wr));
	while (f.qps[i])
		i++;
	ASSERT(i < QPS_MAX);
	qp = make(sizeof(*qp));
	f.qps[i] = qp;
	qp->qp = (struct ibv_qp){ .pd = pd, .send_cq = attr->send_cq, .recv_cq = attr->recv_cq };
	qp->cap = attr->cap;
	qp->id = container_of(id, struct fake_id, id);
	container_of(attr->send_cq, struct fake_cq, cq)->users++;
	id->qp = &qp->qp;
	return 0;
}

static void fake_destroy_qp(struct rdma_cm_id *id)
{
	struct fake_qp *qp = qp_of(id->qp);

	for (uint32_t i = 0; i < QPS_MAX; i++)
		if (f.qps[i] == qp)
			f.qps[i] = NULL;
	container_of(qp->qp.send_cq, struct fake_cq, cq)->users--;
	id->qp = NULL;
	unmake(qp);
}

static int fake_post_recv(struct ibv_qp *pub, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_qp *qp = qp_of(pub);

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
	fake_verbs_stat.writes += wr->opcode == IBV_WR_RDMA_WRITE;
	fake_verbs_stat.reads += wr->opcode == IBV_WR_RDMA_READ;
	if (wr->opcode != IBV_WR_SEND)
		fake_verbs_stat.chunk_max_bytes =
			max_u32(fake_verbs_stat.chunk_max_bytes, w->length);
}

static int fake_post_send(struct ibv_qp *pub, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake_qp *qp = qp_of(pub);
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
	return 0;
}

static void qp_break(struct fake_qp *qp, uint64_t wr_id)
{
	if (qp->broken)
		return;
	qp->broken = true;
	complete(qp->qp.send_cq, wr_id, IBV_WC_WR_FLUSH_ERR, 0);
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
	complete(peer->qp.recv_cq, r->wr_id, IBV_WC_SUCCESS, w->length);
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
	} else {
		mr = mr_of(peer->qp.pd, w->wr.wr.rdma.rkey, at, w->length);
		if (!mr || !(mr->access & need)) {
			qp_break(qp, w->wr.wr_id);
			qp_break(peer, 0);
			return false;
		}
		if (need == IBV_ACCESS_REMOTE_READ)
			memcpy((void *)(uintptr_t)w->sge[0].addr, (void *)(uintptr_t)at, w->length);
		else
			gather(w, (uint8_t *)(uintptr_t)at);
	}
	qp->done++;
	if ((w->wr.send_flags & IBV_SEND_SIGNALED) && !qp->broken)
		complete(qp->qp.send_cq, w->wr.wr_id, IBV_WC_SUCCESS, 0);
	return true;
}

static void run(void)
{
	uint32_t steps = (uint32_t)rand_below(&f.rand, f.cfg.steps_max + 1);

	for (uint32_t i = 0; i < QPS_MAX && !f.frozen; i++)
		for (uint32_t s = 0; s < steps && f.qps[i] && run_one(f.qps[i]); s++)
			;
}

/* What was completed and seen: places up to it are free. */
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

static int fake_poll_cq(struct ibv_cq *pub, int wc_max, struct ibv_wc *wc)
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

/* ---- the connection manager ----------------------------------------------------------------- */

static struct rdma_event_channel *fake_create_event_channel(void)
{
	struct fake_manager *m = make(sizeof(*m));

	m->channel.fd = eventfd(0, EFD_CLOEXEC);
	ASSERT(m->channel.fd >= 0);
	return &m->channel;
}

static void fake_destroy_event_channel(struct rdma_event_channel *channel)
{
	struct fake_manager *m = container_of(channel, struct fake_manager, channel);

	ASSERT(!m->first);
	close(channel->fd);
	unmake(m);
}

static void tell(struct fake_id *id, enum rdma_cm_event_type type, int status,
		 const struct rdma_conn_param *param)
{
	struct fake_manager *m = container_of(id->id.channel, struct fake_manager, channel);
	struct fake_event *e = make(sizeof(*e)), **at = &m->first;

	e->event = (struct rdma_cm_event){ .id = &id->id, .event = type, .status = status };
	e->id = id;
	e->to = m;
	if (param) {
		e->event.param.conn = *param;
		ASSERT(param->private_data_len <= sizeof(e->data));
		memcpy(e->data, param->private_data, param->private_data_len);
		e->event.param.conn.private_data = e->data;
		/* As what it travels in: padded. */
		e->event.param.conn.private_data_len = sizeof(e->data);
	}
	while (*at)
		at = &(*at)->next;
	*at = e;
	ring_fd(m->channel.fd);
}

static int fake_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct fake_manager *m = container_of(channel, struct fake_manager, channel);
	struct fake_event *e = m->first;

	ASSERT(fcntl(channel->fd, F_GETFL) & O_NONBLOCK);
	if (!e)
		return no(EAGAIN);
	m->first = e->next;
	if (!m->first)
		drain_fd(channel->fd);
	e->id->unacked++;
	*event = &e->event;
	return 0;
}

static int fake_ack_cm_event(struct rdma_cm_event *event)
{
	struct fake_event *e = container_of(event, struct fake_event, event);

	e->id->unacked--;
	unmake(e);
	return 0;
}

static struct fake_id *id_make(struct rdma_event_channel *channel)
{
	struct fake_id *id = make(sizeof(*id));

	id->id.channel = channel;
	id->id.verbs = &f.context;
	id->id.port_num = 1;
	return id;
}

static struct fake_id *id_of(struct rdma_cm_id *id)
{
	return container_of(id, struct fake_id, id);
}

static int fake_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
			  enum rdma_port_space ps)
{
	struct fake_id *made = id_make(channel);

	ASSERT(ps == RDMA_PS_TCP && !context);
	*id = &made->id;
	return 0;
}

static void end(struct fake_id *id)
{
	if (!id->connected)
		return;
	id->connected = false;
	if (!id->told_end)
		tell(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
	id->told_end = true;
}

static int fake_disconnect(struct rdma_cm_id *pub)
{
	struct fake_id *id = id_of(pub);

	if (!id->connected)
		return no(EINVAL);
	if (id->peer)
		end(id->peer);
	end(id);
	return 0;
}

static int fake_destroy_id(struct rdma_cm_id *pub)
{
	struct fake_id *id = id_of(pub);
	struct fake_manager *m = container_of(pub->channel, struct fake_manager, channel);
	struct fake_event **at = &m->first;

	ASSERT(!pub->qp && id->unacked == 0);
	if (id->peer) {
		end(id->peer);
		id->peer->peer = NULL;
	}
	while (*at) {
		struct fake_event *e = *at;

		if (e->id != id) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		unmake(e);
	}
	if (!m->first)
		drain_fd(m->channel.fd);
	for (uint32_t i = 0; i < 8; i++)
		if (f.listeners[i] == id)
			f.listeners[i] = NULL;
	unmake(id);
	return 0;
}

static int fake_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	struct sockaddr_in *in = (void *)addr;

	id->route.addr.src_sin = *in;
	if (in->sin_port == 0)
		id->route.addr.src_sin.sin_port = htons(++f.port);
	return 0;
}

static int fake_listen(struct rdma_cm_id *id, int backlog)
{
	uint32_t i = 0;

	(void)backlog;
	while (f.listeners[i])
		i++;
	ASSERT(i < 8);
	f.listeners[i] = id_of(id);
	return 0;
}

static __be16 fake_get_src_port(struct rdma_cm_id *id)
{
	return id->route.addr.src_sin.sin_port;
}

static int fake_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to,
			     int timeout_ms)
{
	ASSERT(!from && timeout_ms > 0);
	id->route.addr.dst_sin = *(struct sockaddr_in *)(void *)to;
	tell(id_of(id), RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
	return 0;
}

static int fake_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	ASSERT(timeout_ms > 0);
	tell(id_of(id), RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
	return 0;
}

static struct fake_id *listener_at(__be16 port)
{
	for (uint32_t i = 0; i < 8; i++)
		if (f.listeners[i] && f.listeners[i]->id.route.addr.src_sin.sin_port == port)
			return f.listeners[i];
	return NULL;
}

static int fake_connect(struct rdma_cm_id *pub, struct rdma_conn_param *param)
{
	struct fake_id *id = id_of(pub);
	struct fake_id *listener = listener_at(pub->route.addr.dst_sin.sin_port);
	struct rdma_conn_param seen_by_peer = *param;
	struct fake_id *peer;

	if (!listener) {
		tell(id, RDMA_CM_EVENT_REJECTED, 28, NULL);
		return 0;
	}
	peer = id_make(listener->id.channel);
	peer->server = true;
	peer->peer = id;
	id->peer = peer;
	id->initiator_depth = param->initiator_depth;
	peer->id.route.addr.dst_sin.sin_family = AF_INET;
	seen_by_peer.initiator_depth = param->responder_resources;
	seen_by_peer.responder_resources = param->initiator_depth;
	tell(peer, RDMA_CM_EVENT_CONNECT_REQUEST, 0, &seen_by_peer);
	return 0;
}

static int fake_accept(struct rdma_cm_id *pub, struct rdma_conn_param *param)
{
	struct fake_id *id = id_of(pub);

	ASSERT(qp_of(pub->qp)->recv_posted > 0); /* what the peer sends first must find one */
	id->initiator_depth = param->initiator_depth;
	if (!id->peer)
		return no(ECONNRESET);
	id->connected = true;
	id->peer->connected = true;
	tell(id->peer, RDMA_CM_EVENT_ESTABLISHED, 0, param);
	tell(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
	return 0;
}

static int fake_reject(struct rdma_cm_id *pub, const void *data, uint8_t bytes)
{
	struct rdma_conn_param param = { .private_data = data };
	struct fake_id *id = id_of(pub);

	param.private_data_len = bytes < 56 ? bytes : 56;
	if (id->peer) {
		tell(id->peer, RDMA_CM_EVENT_REJECTED, 8, &param);
		id->peer->peer = NULL;
		id->peer = NULL;
	}
	return 0;
}

static int fake_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t bytes)
{
	(void)id, (void)level, (void)name, (void)value, (void)bytes;
	return 0;
}

static const char *fake_event_str(enum rdma_cm_event_type event)
{
	return event == RDMA_CM_EVENT_DEVICE_REMOVAL ? "device removal" : "event";
}

/* ---- devices -------------------------------------------------------------------------------- */

static int fake_query_device(struct ibv_context *context, struct ibv_device_attr *out)
{
	(void)context;
	*out = (struct ibv_device_attr){
		.max_qp_wr = f.cfg.max_qp_wr,
		.max_sge = f.cfg.max_sge,
		.max_cqe = f.cfg.max_cqe,
		.max_qp_rd_atom = f.cfg.max_qp_rd_atom,
		.max_qp_init_rd_atom = f.cfg.max_qp_rd_atom,
	};
	return 0;
}

static int fake_query_port(struct ibv_context *context, uint8_t port,
			   struct _compat_ibv_port_attr *out)
{
	struct ibv_port_attr *attr = (void *)out;

	(void)context;
	ASSERT(port == 1);
	attr->max_msg_sz = f.cfg.max_msg_sz;
	return 0;
}

static const struct fab_verbs verbs = {
	.create_event_channel = fake_create_event_channel,
	.destroy_event_channel = fake_destroy_event_channel,
	.create_id = fake_create_id,
	.destroy_id = fake_destroy_id,
	.bind_addr = fake_bind_addr,
	.listen = fake_listen,
	.resolve_addr = fake_resolve_addr,
	.resolve_route = fake_resolve_route,
	.create_qp = fake_create_qp,
	.destroy_qp = fake_destroy_qp,
	.connect = fake_connect,
	.accept = fake_accept,
	.reject = fake_reject,
	.disconnect = fake_disconnect,
	.get_cm_event = fake_get_cm_event,
	.ack_cm_event = fake_ack_cm_event,
	.get_src_port = fake_get_src_port,
	.set_option = fake_set_option,
	.event_str = fake_event_str,
	.query_device = fake_query_device,
	.query_port = fake_query_port,
	.alloc_pd = fake_alloc_pd,
	.dealloc_pd = fake_dealloc_pd,
	.reg_mr = fake_reg_mr,
	.dereg_mr = fake_dereg_mr,
	.create_comp_channel = fake_create_comp_channel,
	.destroy_comp_channel = fake_destroy_comp_channel,
	.create_cq = fake_create_cq,
	.destroy_cq = fake_destroy_cq,
	.get_cq_event = fake_get_cq_event,
	.ack_cq_events = fake_ack_cq_events,
	.post_send = fake_post_send,
	.post_recv = fake_post_recv,
	.poll_cq = fake_poll_cq,
	.req_notify_cq = fake_req_notify_cq,
};

static int or_int(int v, int otherwise)
{
	return v ? v : otherwise;
}

void fake_verbs_begin(const struct fake_verbs_cfg *cfg)
{
	memset(&f, 0, sizeof(f));
	fake_verbs_stat = (struct fake_verbs_stat){ 0 };
	f.cfg = *cfg;
	f.cfg.max_qp_wr = or_int(cfg->max_qp_wr, 1024);
	f.cfg.max_sge = or_int(cfg->max_sge, 30);
	f.cfg.max_cqe = or_int(cfg->max_cqe, WRS_MAX);
	f.cfg.max_qp_rd_atom = or_int(cfg->max_qp_rd_atom, 16);
	f.cfg.max_msg_sz = cfg->max_msg_sz ? cfg->max_msg_sz : 1u << 30;
	f.cfg.steps_max = cfg->steps_max ? cfg->steps_max : 8;
	ASSERT(f.cfg.max_inline <= INLINE);
	f.port = 20000;
	rand_seed(&f.rand, cfg->seed);
	fab__verbs_set(&verbs);
}

void fake_verbs_end(void)
{
	ASSERT(f.objects == 0);
	fab__verbs_set(NULL);
}

uint32_t fake_verbs_objects(void)
{
	return f.objects;
}

uint32_t fake_verbs_receives(bool server)
{
	for (uint32_t i = QPS_MAX; i-- > 0;)
		if (f.qps[i] && f.qps[i]->id->server == server)
			return f.qps[i]->recv_posted - f.qps[i]->recv_done;
	UNREACHABLE();
}

void fake_verbs_freeze(bool frozen)
{
	f.frozen = frozen;
}

void fake_verbs_break(void)
{
	for (uint32_t i = 0; i < QPS_MAX; i++)
		if (f.qps[i])
			qp_break(f.qps[i], 0);
}
