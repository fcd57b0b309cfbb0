/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The appliance's end of a device's events (ibv_get_async_event); all on the control side, woken by
 * the device's descriptor.
 *
 *   PORT_ERR                    ends connections through that port, if it is still down
 *   GID_CHANGE                  ends connections whose own address the port no longer has
 *   QP_FATAL, QP_REQ_ERR,
 *   QP_ACCESS_ERR, CQ_ERR       ends that connection
 *   DEVICE_FATAL                ends all connections of the device, which accepts no more
 *   others                      end no session
 *
 *   "ends" is fab__control_lost(): the core is told as of a disconnect; a client dials again.
 *
 * Without these events a card's retries and the probes (fab_rdma.c) would find the same, seconds
 * later.
 *
 * Invariants:
 *  (1) An event is acknowledged before a connection is ended: destroying a queue pair waits for
 *      that [test_fab_rdma_async:a_queue_pair_that_fails_ends_its_connection_and_no_other].
 *  (2) A device that is gone is closed when the last of its connections has been freed.
 */
#include "fabric/hello/fab_server_internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

/* ---- their owners ---------------------------------------------------------------------------- */

struct about { /* connections that an event concerns */
	const struct fab_rdma_device *dev;
	enum ibv_event_type type;
	const struct ibv_qp *qp;
	const struct ibv_cq *cq;
	uint8_t port;
};

static bool concerns(const struct about *a, const struct fab_rdma *r)
{
	if (!r || !r->id || r->device != a->dev)
		return false;
	switch (a->type) {
	case IBV_EVENT_PORT_ERR:
		return r->id->port_num == a->port && !fab__rdma_port_up(r->v, r->id);
	case IBV_EVENT_GID_CHANGE:
		return r->id->port_num == a->port && !fab__rdma_has_address(r->v, r->id);
	case IBV_EVENT_DEVICE_FATAL:
		return true;
	case IBV_EVENT_CQ_ERR:
		return r->cq == a->cq;
	default:
		return r->qp && r->qp == a->qp;
	}
}

/* Ends those that it concerns; how many. */
static uint32_t end(struct fab_server *srv, const struct about *a)
{
	struct fab_control *c = srv->control;
	uint32_t n = 0;

	for (uint32_t i = 0; i < FAB_HELLOS_MAX; i++)
		if (c->arrivals[i].fd >= 0 && concerns(a, c->arrivals[i].rdma)) {
			fab__arrival_lost(srv, &c->arrivals[i]);
			n++;
		}
	for (uint32_t i = 0; i < c->core_count; i++)
		for (uint32_t k = 0; k < srv->cfg.sessions_max; k++) {
			struct fab__session *s = &c->cores[i]->sessions[k];

			if (!s->control.used || s->control.lost_told || !concerns(a, s->rdma))
				continue;
			fab__control_lost(s);
			n++;
		}
	return n;
}

/* ---- one event ------------------------------------------------------------------------------- */

static void say(struct fab_server *srv, const struct about *a, uint32_t ended)
{
	const struct fab_verbs *v = a->dev->v;
	char port[16] = "";

	if (a->port)
		snprintf(port, sizeof(port), ", port %u", a->port);
	fab__notice(srv, "rdma: %.60s%s: %.100s: %u connection%s ended",
		    v->get_device_name(a->dev->verbs->device), port, v->event_type_str(a->type),
		    ended, ended == 1 ? "" : "s");
}

static void gone(struct fab_server *srv, struct fab_rdma_device *dev)
{
	ASSERT(!dev->gone && dev->verbs);
	(void)epoll_ctl(srv->control->epoll_fd, EPOLL_CTL_DEL, dev->verbs->async_fd, NULL);
	dev->gone = true;
	if (dev->users == 0) /* (2) */
		fab__rdma_device_close(dev);
}

static void about(struct about *out, const struct ibv_async_event *event)
{
	out->type = event->event_type;
	switch (out->type) {
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_GID_CHANGE:
		out->port = (uint8_t)event->element.port_num;
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		out->qp = event->element.qp;
		break;
	case IBV_EVENT_CQ_ERR:
		out->cq = event->element.cq;
		break;
	default:
		break;
	}
}

static void event_step(struct fab_server *srv, struct fab_rdma_device *dev, const struct about *a)
{
	uint32_t ended;

	switch (a->type) {
	case IBV_EVENT_PORT_ACTIVE:
		say(srv, a, 0);
		return;
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_CQ_ERR:
	case IBV_EVENT_DEVICE_FATAL:
		break;
	default:
		return;
	}
	ended = end(srv, a);
	/* Addresses come and go: report that only if a connection ended. */
	if (ended > 0 || a->type == IBV_EVENT_PORT_ERR || a->type == IBV_EVENT_DEVICE_FATAL)
		say(srv, a, ended);
	if (a->type == IBV_EVENT_DEVICE_FATAL)
		gone(srv, dev);
}

void fab__rdma_async(struct fab_server *srv, const struct fab_watch *watch)
{
	struct fab_rdma_server *rs = &srv->control->rdma;
	struct fab_rdma_device *dev = &rs->devices[watch - rs->device_watch];
	struct ibv_async_event event;

	while (dev->verbs && !dev->gone && rs->v->get_async_event(dev->verbs, &event) == 0) {
		struct about a = { .dev = dev };

		about(&a, &event);
		rs->v->ack_async_event(&event); /* (1) */
		event_step(srv, dev, &a);
	}
}

void fab__rdma_removed(struct fab_server *srv, const struct rdma_cm_id *id)
{
	struct fab_rdma_server *rs = &srv->control->rdma;

	for (uint32_t i = 0; i < FAB_RDMA_DEVICES_MAX && id->verbs; i++) {
		struct about a = { .dev = &rs->devices[i], .type = IBV_EVENT_DEVICE_FATAL };

		if (rs->devices[i].verbs == id->verbs && !rs->devices[i].gone)
			event_step(srv, &rs->devices[i], &a);
	}
}
