/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The appliance's side of the connection manager: listeners, connection requests, and their
 * connections; all on the control side.
 *
 *   CONNECT_REQUEST -> greeting -> queue pair, one receive -> accept -> arrival (fab_arrival.c)
 *   DISCONNECTED    -> the arrival is closed, or the session lost
 *
 *   arrival -- WELCOME --> session -- the core: MESSAGE_HALT --> queue pair destroyed,
 *                                                              the core: MESSAGE_HALTED
 *                                -- the core: MESSAGE_CLOSED -> freed
 *
 *   listener -- its device is removed --> none -- a try every AGAIN_NS --> listener
 *
 * Invariants:
 *  (1) A queue pair is destroyed by this side only, and a session's only when the core has said
 *      that it does not touch it any more.
 *  (2) All memory of the appliance that was announced before a connection request is registered
 *      with the request's device before the request is accepted.
 */
#include "fabric/hello/fab_server_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of our sends, when the client has no receive posted: it has one for every reply. */
#define RNR_RETRIES 6
#define READS_MAX   16u
#define AGAIN_NS    UINT64_C(1000000000)

/* ---- memory ------------------------------------------------------------------------------- */

void fab_server_memory(struct fab_server *srv, void *base, uint64_t size_bytes)
{
	struct fab_rdma_server *rs = &srv->control->rdma;

	ASSERT(base && size_bytes > 0);
	ASSERT(pthread_mutex_lock(&rs->lock) == 0);
	ASSERT(rs->range_count < FAB_RDMA_RANGES_MAX);
	rs->ranges[rs->range_count++] = (struct fab_rdma_range){ base, size_bytes };
	ASSERT(pthread_mutex_unlock(&rs->lock) == 0);
}

/* (2) */
static int ranges_add(struct fab_rdma_server *rs, struct fab_rdma_device *dev)
{
	uint32_t count;
	int err = 0;

	ASSERT(pthread_mutex_lock(&rs->lock) == 0);
	count = rs->range_count;
	ASSERT(pthread_mutex_unlock(&rs->lock) == 0);
	while (!err) { /* only this thread changes mr_count */
		const uint32_t known = atomic_load_explicit(&dev->mr_count, memory_order_relaxed);
		const struct fab_rdma_range *range;

		if (known >= count)
			break;
		range = &rs->ranges[known];
		err = fab__rdma_device_add(dev, range->base, range->size_bytes);
	}
	ASSERT(err ||
	       atomic_load_explicit(&dev->mr_count, memory_order_relaxed) >= count); /* (2) */
	return err;
}

/* ---- devices ------------------------------------------------------------------------------ */

static struct fab_rdma_device *device_new(struct fab_server *srv, struct ibv_context *verbs,
					  char why[FAB_WHY_MAX])
{
	struct fab_rdma_server *rs = &srv->control->rdma;
	struct fab_rdma_device *dev;
	uint32_t i = 0;
	int err;

	while (i < FAB_RDMA_DEVICES_MAX && rs->devices[i].verbs)
		i++;
	if (i == FAB_RDMA_DEVICES_MAX) {
		snprintf(why, FAB_WHY_MAX, "RDMA: at most %u devices", FAB_RDMA_DEVICES_MAX);
		return NULL;
	}
	dev = &rs->devices[i];
	ASSERT(!dev->pd && dev->users == 0);
	err = fab__fd_nonblock(verbs->async_fd);
	if (err)
		snprintf(why, FAB_WHY_MAX, "RDMA: events of the device: %s", strerror(-err));
	else
		err = fab__rdma_device_open(dev, rs->v, verbs, why);
	if (err) {
		fab__rdma_device_close(dev);
		return NULL;
	}
	rs->device_watch[i].type = WATCH_DEVICE;
	err = fab__control_watch(srv, verbs->async_fd, &rs->device_watch[i]);
	if (!err)
		return dev;
	fab__rdma_device_close(dev);
	snprintf(why, FAB_WHY_MAX, "RDMA: events of the device: %s", strerror(-err));
	return NULL;
}

static struct fab_rdma_device *device_of(struct fab_server *srv, struct ibv_context *verbs,
					 char why[FAB_WHY_MAX])
{
	struct fab_rdma_server *rs = &srv->control->rdma;
	struct fab_rdma_device *dev = NULL;
	int err;

	for (uint32_t i = 0; i < FAB_RDMA_DEVICES_MAX && !dev; i++)
		if (rs->devices[i].verbs == verbs)
			dev = &rs->devices[i];
	if (!dev) {
		dev = device_new(srv, verbs, why);
		if (!dev)
			return NULL;
	}
	if (dev->gone) {
		snprintf(why, FAB_WHY_MAX, "RDMA: the device has failed");
		return NULL;
	}
	err = ranges_add(rs, dev);
	if (!err)
		return dev;
	snprintf(why, FAB_WHY_MAX,
		 "RDMA: the appliance's memory cannot be registered (is the limit of locked memory "
		 "too low?): %s",
		 strerror(-err));
	return NULL;
}

/* ---- connection requests -------------------------------------------------------------------- */

static void refuse(struct fab_server *srv, struct rdma_cm_id *id, const char *why)
{
	char who[64];

	fab__inet_text(&id->route.addr.dst_addr, who, sizeof(who));
	fab__refused(srv, "rdma", who, why);
	(void)srv->control->rdma.v->reject(id, why, (uint8_t)min_u32((uint32_t)strlen(why), 100));
	(void)srv->control->rdma.v->destroy_id(id);
}

static int accept_it(struct fab_rdma *r)
{
	uint8_t greeting[FAB_RDMA_GREETING_BYTES];
	struct rdma_conn_param param = {
		.private_data = greeting,
		.private_data_len = sizeof(greeting),
		.responder_resources = 0, /* peers do not read from us */
		.initiator_depth = (uint8_t)r->plan.limits.reads_max,
		.retry_count = FAB_RDMA_RETRIES,
		.rnr_retry_count = RNR_RETRIES,
	};
	int err = fab__rdma_receives(r, 1); /* HELLO */

	ASSERT(r->server && !r->established);
	if (err)
		return err;
	fab__rdma_timeout_set(r->v, r->id);
	fab__rdma_greeting_build(greeting);
	return r->v->accept(r->id, &param) ? -errno : 0;
}

/* -errno with a line in `why`: `id` is the caller's then. */
static int begin(struct fab_server *srv, struct fab_arrival *g, struct rdma_cm_id *id,
		 const struct rdma_conn_param *asked, uint64_t now_ns, char why[FAB_WHY_MAX])
{
	struct fab_rdma_server *rs = &srv->control->rdma;
	struct fab_rdma_cfg cfg = {
		.server = true,
		.receives_max = srv->cfg.limits.credits,
		.sends = FAB_RDMA_SERVER_SENDS(srv->cfg.limits.credits),
	};
	struct fab_rdma *r;
	int err;

	ASSERT(g->fd < 0 && !g->rdma);
	cfg.device = device_of(srv, id->verbs, why);
	if (!cfg.device)
		return -ENOMEM;
	cfg.reads_max =
		min_u32(asked->initiator_depth,
			(uint32_t)max_u32((uint32_t)cfg.device->attr.max_qp_init_rd_atom, 1));
	cfg.reads_max = min_u32(cfg.reads_max, READS_MAX);
	if (cfg.reads_max == 0) {
		snprintf(why, FAB_WHY_MAX, "the peer lets nobody read its memory");
		return -EPROTO;
	}
	err = fab__rdma_open(&r, rs->v, id, &cfg, why);
	if (err)
		return err;
	err = accept_it(r);
	if (err) {
		snprintf(why, FAB_WHY_MAX, "RDMA: accept: %s", strerror(-err));
		r->id = NULL; /* the caller's still */
		rs->v->destroy_qp(id);
		r->qp = NULL;
		fab__rdma_free(r);
		return err;
	}
	id->context = r;
	r->established = true;
	r->owner = g;
	g->rdma = r;
	fab__arrival_begin(srv, g, r->channel->fd, FAB_TRANSPORT_RDMA, now_ns);
	return 0;
}

static void request(struct fab_server *srv, struct rdma_cm_id *id,
		    const struct rdma_conn_param *asked, uint64_t now_ns)
{
	struct fab_rdma_greeting greeting;
	struct fab_arrival *g = fab__arrival_place(srv, now_ns);
	char why[FAB_WHY_MAX];
	int err;

	if (srv->control->stopped || !g) {
		refuse(srv, id,
		       FAB_RDMA_BUSY ": the appliance has no place for one more hello now");
		return;
	}
	err = fab__rdma_greeting_parse(&greeting, asked->private_data, asked->private_data_len);
	if (err == -EPROTONOSUPPORT)
		snprintf(why, sizeof(why),
			 "this side speaks protocol versions %u to %u, the peer %u to %u",
			 FAB_VERSION_MIN, FAB_VERSION_MAX, greeting.version_min,
			 greeting.version_max);
	else if (err)
		snprintf(why, sizeof(why), "the peer speaks another protocol");
	else
		err = begin(srv, g, id, asked, now_ns, why);
	if (err)
		refuse(srv, id, why);
}

/* ---- what becomes of them ------------------------------------------------------------------- */

static void ended(struct fab_server *srv, struct fab_rdma *r)
{
	if (!r || !r->owner)
		return; /* a listener, or one whose session has ended already */
	ASSERT(r->server);
	if (r->owner_is_session)
		fab__control_lost(r->owner);
	else
		fab__arrival_lost(srv, r->owner);
}

static void listener_lost(struct fab_server *srv, const struct rdma_cm_id *id, uint64_t now_ns)
{
	struct fab_control *c = srv->control;

	for (uint32_t i = 0; i < c->listener_count; i++) {
		struct fab_listener *l = &c->listeners[i];

		if (l->rdma != id)
			continue;
		fab__rdma_unlisten(srv, l);
		l->again_ns = now_ns + AGAIN_NS;
		fab__notice(srv, "%s: its device was removed: not served until it is back",
			    l->text);
		return;
	}
}

static void event_step(struct fab_server *srv, struct rdma_cm_event *event, uint64_t now_ns)
{
	const struct fab_verbs *v = srv->control->rdma.v;
	enum rdma_cm_event_type type = event->event;
	struct rdma_cm_id *id = event->id;
	uint8_t private[FAB_RDMA_PRIVATE_MAX];
	struct rdma_conn_param asked = event->param.conn;

	if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		asked.private_data_len = (uint8_t)min_u32(asked.private_data_len, sizeof(private));
		if (asked.private_data_len > 0)
			memcpy(private, asked.private_data, asked.private_data_len);
		asked.private_data = private;
	}
	(void)v->ack_cm_event(event); /* first: an id waits for its events */
	switch (type) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		request(srv, id, &asked, now_ns);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		fab__rdma_removed(srv, id);
		ended(srv, id->context);
		listener_lost(srv, id, now_ns);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_ADDR_CHANGE:
		ended(srv, id->context);
		break;
	default: /* ESTABLISHED, TIMEWAIT_EXIT: the hello does not wait for them */
		break;
	}
}

void fab__rdma_events(struct fab_server *srv, uint64_t now_ns)
{
	struct rdma_cm_event *event;

	while (srv->control->rdma.v->get_cm_event(srv->control->rdma.cm, &event) == 0)
		event_step(srv, event, now_ns);
}

/* ---- listeners ------------------------------------------------------------------------------ */

static int manager_open(struct fab_server *srv, char why[FAB_WHY_MAX])
{
	struct fab_rdma_server *rs = &srv->control->rdma;
	int err;

	if (rs->cm)
		return 0;
	rs->v = fab__verbs(why);
	if (!rs->v)
		return -EOPNOTSUPP;
	rs->cm = rs->v->create_event_channel();
	if (!rs->cm) {
		snprintf(why, FAB_WHY_MAX, "this host has no RDMA device (or no rdma_ucm): %s",
			 strerror(errno));
		return -ENODEV;
	}
	rs->watch.type = WATCH_RDMA;
	err = fab__fd_nonblock(rs->cm->fd);
	if (!err)
		err = fab__control_watch(srv, rs->cm->fd, &rs->watch);
	if (err) {
		rs->v->destroy_event_channel(rs->cm);
		rs->cm = NULL;
		snprintf(why, FAB_WHY_MAX, "RDMA: %s", strerror(-err));
		return err;
	}
	return 0;
}

int fab__rdma_listen(struct fab_server *srv, struct fab_listener *l, char why[FAB_WHY_MAX])
{
	struct fab_rdma_server *rs = &srv->control->rdma;
	char host[100];
	int err = manager_open(srv, why);

	ASSERT(!l->rdma);
	if (err)
		return err;
	if (rs->v->create_id(rs->cm, &l->rdma, NULL, RDMA_PS_TCP)) {
		snprintf(why, FAB_WHY_MAX, "RDMA: %s", strerror(errno));
		return -errno;
	}
	fab__inet_text(&l->addr.sa, host, sizeof(host));
	if (rs->v->bind_addr(l->rdma, &l->addr.sa) || rs->v->listen(l->rdma, FAB_BACKLOG)) {
		err = -errno;
		(void)rs->v->destroy_id(l->rdma);
		l->rdma = NULL;
		snprintf(why, FAB_WHY_MAX, "rdma://%s: %s", host,
			 err == -ENODEV || err == -EADDRNOTAVAIL ? "no RDMA device has this address"
								 : strerror(-err));
		return err;
	}
	l->addr.in.sin_port = rs->v->get_src_port(l->rdma); /* the same place in sockaddr_in6 */
	fab__inet_text(&l->addr.sa, host, sizeof(host));
	snprintf(l->text, sizeof(l->text), "rdma://%s", host);
	return 0;
}

void fab__rdma_unlisten(struct fab_server *srv, struct fab_listener *l)
{
	if (l->rdma)
		(void)srv->control->rdma.v->destroy_id(l->rdma);
	l->rdma = NULL;
}

void fab__rdma_listeners_step(struct fab_server *srv, uint64_t now_ns)
{
	struct fab_control *c = srv->control;
	char why[FAB_WHY_MAX];

	for (uint32_t i = 0; i < c->listener_count; i++) {
		struct fab_listener *l = &c->listeners[i];

		if (l->again_ns == 0 || now_ns < l->again_ns)
			continue;
		l->again_ns = fab__rdma_listen(srv, l, why) ? now_ns + AGAIN_NS : 0;
		if (l->again_ns == 0)
			fab__notice(srv, "serving %s again", l->text);
	}
}

uint64_t fab__rdma_listeners_deadline(const struct fab_server *srv)
{
	const struct fab_control *c = srv->control;
	uint64_t deadline = UINT64_MAX;

	for (uint32_t i = 0; i < c->listener_count; i++)
		if (c->listeners[i].again_ns)
			deadline = min_u64(deadline, c->listeners[i].again_ns);
	return deadline;
}

void fab__rdma_server_init(struct fab_rdma_server *rs)
{
	ASSERT(pthread_mutex_init(&rs->lock, NULL) == 0);
}

void fab__rdma_server_free(struct fab_rdma_server *rs)
{
	for (uint32_t i = 0; i < FAB_RDMA_DEVICES_MAX; i++)
		fab__rdma_device_close(&rs->devices[i]);
	if (rs->cm) {
		fab__rdma_leave_all(rs->cm);
		rs->v->destroy_event_channel(rs->cm);
	}
	rs->cm = NULL;
	ASSERT(pthread_mutex_destroy(&rs->lock) == 0);
}
