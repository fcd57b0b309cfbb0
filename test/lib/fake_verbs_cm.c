/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The connection manager, what devices say of themselves, and the table of all functions. */
#define _GNU_SOURCE
#include "test/lib/fake_verbs_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define f fake__state

/* ---- the connection manager ----------------------------------------------------------------- */

static struct rdma_event_channel *fake_create_event_channel(void)
{
	struct fake_manager *m = fake__make(sizeof(*m));

	m->channel.fd = eventfd(0, EFD_CLOEXEC);
	ASSERT(m->channel.fd >= 0);
	return &m->channel;
}

static void fake_destroy_event_channel(struct rdma_event_channel *channel)
{
	struct fake_manager *m = container_of(channel, struct fake_manager, channel);

	ASSERT(!m->first);
	close(channel->fd);
	fake__unmake(m);
}

static void tell(struct fake_id *id, enum rdma_cm_event_type type, int status,
		 const struct rdma_conn_param *param)
{
	struct fake_manager *m = container_of(id->id.channel, struct fake_manager, channel);
	struct fake_event *e = fake__make(sizeof(*e)), **at = &m->first;

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
	fake__ring_fd(m->channel.fd);
}

static int fake_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct fake_manager *m = container_of(channel, struct fake_manager, channel);
	struct fake_event *e = m->first;

	ASSERT(fcntl(channel->fd, F_GETFL) & O_NONBLOCK);
	if (!e)
		return fake__no(EAGAIN);
	m->first = e->next;
	if (!m->first)
		fake__drain_fd(channel->fd);
	e->id->unacked++;
	*event = &e->event;
	return 0;
}

static int fake_ack_cm_event(struct rdma_cm_event *event)
{
	struct fake_event *e = container_of(event, struct fake_event, event);

	e->id->unacked--;
	fake__unmake(e);
	return 0;
}

static struct fake_id *id_make(struct rdma_event_channel *channel)
{
	struct fake_id *id = fake__make(sizeof(*id));

	id->id.channel = channel;
	id->id.verbs = &f.context;
	id->id.port_num = 1;
	id->id.route.addr.addr.ibaddr.sgid = f.gid;
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

/*
 * A message of the manager's goes out; false: it is lost.  As soft-RoCE of Linux 6.1 does it: one
 * that is sent while the port is down is the last that this host ever sends or gets.
 */
static bool speak(const struct fake_id *id)
{
	f.dumb |= f.port_down ||
		  memcmp(&id->id.route.addr.addr.ibaddr.sgid, &f.gid, sizeof(f.gid)) != 0;
	return !f.dumb;
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
		return fake__no(EINVAL);
	if (speak(id) && id->peer)
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
		if (id->connected && speak(id))
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
		fake__unmake(e);
	}
	if (!m->first)
		fake__drain_fd(m->channel.fd);
	for (uint32_t i = 0; i < 8; i++)
		if (f.listeners[i] == id)
			f.listeners[i] = NULL;
	fake__unmake(id);
	return 0;
}

static int fake_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	struct sockaddr_in *in = (void *)addr;

	if (f.removed)
		return fake__no(ENODEV);
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

/* Without limits a card may try for ever: soft-RoCE understands 7 retries as that; and without a
 * timeout it never tries again. */
static void patience_check(const struct fake_id *id, const struct rdma_conn_param *param)
{
	ASSERT(param->retry_count > 0 && param->retry_count < 7);
	ASSERT(id->ack_timeout >= 14 && id->ack_timeout <= 20); /* 67 ms to 4.3 s */
}

static int fake_connect(struct rdma_cm_id *pub, struct rdma_conn_param *param)
{
	struct fake_id *id = id_of(pub);
	struct fake_id *listener = listener_at(pub->route.addr.dst_sin.sin_port);
	struct rdma_conn_param seen_by_peer = *param;
	struct fake_id *peer;

	patience_check(id, param);
	if (!speak(id))
		return 0;
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

	ASSERT(fake__qp_of(pub->qp)->recv_posted > 0); /* what the peer sends first must find one */
	patience_check(id, param);
	id->initiator_depth = param->initiator_depth;
	if (!id->peer || !speak(id))
		return fake__no(ECONNRESET);
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
	ASSERT(level == RDMA_OPTION_ID && name == RDMA_OPTION_ID_ACK_TIMEOUT && bytes == 1);
	id_of(id)->ack_timeout = *(uint8_t *)value;
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
	attr->gid_tbl_len = 2;
	attr->state = f.port_down && !f.port_looks_up ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
	return 0;
}

static int fake_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *out)
{
	(void)context;
	ASSERT(port == 1 && index >= 0 && index < 2);
	if (index == 0) /* a place that is free */
		return fake__no(ENOENT);
	*out = f.gid;
	return 0;
}

static const char *fake_get_device_name(struct ibv_device *device)
{
	ASSERT(device == &f.device);
	return "fake0";
}

static int fake_get_async_event(struct ibv_context *context, struct ibv_async_event *out)
{
	ASSERT(fcntl(context->async_fd, F_GETFL) & O_NONBLOCK);
	if (f.async_count == 0)
		return fake__no(EAGAIN);
	*out = f.async[0];
	memmove(f.async, f.async + 1, --f.async_count * sizeof(f.async[0]));
	f.async_unacked++;
	if (f.async_count == 0)
		fake__drain_fd(context->async_fd);
	return 0;
}

static void fake_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
	f.async_unacked--;
}

static const char *fake_event_type_str(enum ibv_event_type type)
{
	return type == IBV_EVENT_PORT_ERR       ? "port error"
	       : type == IBV_EVENT_DEVICE_FATAL ? "device fatal"
						: "event";
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
	.create_qp = fake__create_qp,
	.destroy_qp = fake__destroy_qp,
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
	.query_gid = fake_query_gid,
	.get_device_name = fake_get_device_name,
	.get_async_event = fake_get_async_event,
	.ack_async_event = fake_ack_async_event,
	.event_type_str = fake_event_type_str,
	.alloc_pd = fake__alloc_pd,
	.dealloc_pd = fake__dealloc_pd,
	.reg_mr = fake__reg_mr,
	.dereg_mr = fake__dereg_mr,
	.create_comp_channel = fake__create_comp_channel,
	.destroy_comp_channel = fake__destroy_comp_channel,
	.create_cq = fake__create_cq,
	.destroy_cq = fake__destroy_cq,
	.get_cq_event = fake__get_cq_event,
	.ack_cq_events = fake__ack_cq_events,
	.post_send = fake__post_send,
	.post_recv = fake__post_recv,
	.poll_cq = fake__poll_cq,
	.req_notify_cq = fake__req_notify_cq,
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
	f.context.device = &f.device;
	f.context.async_fd = eventfd(0, EFD_CLOEXEC);
	ASSERT(f.context.async_fd >= 0);
	f.gid.raw[0] = 1;
	rand_seed(&f.rand, cfg->seed);
	fab__verbs_set(&verbs);
}

void fake_verbs_end(void)
{
	ASSERT(f.objects == 0 && f.async_unacked == 0);
	close(f.context.async_fd);
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
		if (f.qps[i]) /* named is the last, and the others may still be carried out */
			fake__qp_break(f.qps[i], fake__last_wr(f.qps[i]), IBV_WC_WR_FLUSH_ERR);
}

void fake_verbs_event(enum ibv_event_type type)
{
	struct ibv_async_event *e = &f.async[f.async_count++];

	ASSERT(f.async_count <= ARRAY_LEN(f.async));
	*e = (struct ibv_async_event){ .event_type = type, .element.port_num = 1 };
	if (type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_PORT_ACTIVE)
		f.port_down = type == IBV_EVENT_PORT_ERR;
	for (uint32_t i = 0; i < QPS_MAX; i++) {
		if (!f.qps[i] || !f.qps[i]->id->server)
			continue;
		if (type == IBV_EVENT_CQ_ERR)
			e->element.cq = f.qps[i]->qp.send_cq;
		else if (type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR ||
			 type == IBV_EVENT_QP_ACCESS_ERR)
			e->element.qp = &f.qps[i]->qp;
	}
	fake__ring_fd(f.context.async_fd);
}

void fake_verbs_address(uint8_t address)
{
	f.gid.raw[0] = address;
}

void fake_verbs_remove(void)
{
	f.removed = true;
	for (uint32_t i = 0; i < ARRAY_LEN(f.listeners); i++)
		if (f.listeners[i])
			tell(f.listeners[i], RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL);
	for (uint32_t i = 0; i < QPS_MAX; i++)
		if (f.qps[i])
			tell(f.qps[i]->id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL);
}

void fake_verbs_add(void)
{
	f.removed = false;
}

void fake_verbs_port_seen(bool up)
{
	f.port_looks_up = up;
}

void fake_verbs_port(bool up)
{
	f.port_down = !up;
	for (uint32_t i = 0; i < QPS_MAX && !up; i++)
		if (f.qps[i])
			fake__qp_break(f.qps[i], 0, IBV_WC_RETRY_EXC_ERR);
}
