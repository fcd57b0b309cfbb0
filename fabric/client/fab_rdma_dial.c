/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Connects the client to an appliance over verbs, step by step with the manager's events:
 *
 *   resolve address -> resolve route -> queue pair, receives, connect -> established
 *
 * A receive must be posted before the other side can send, so all receives are posted before the
 * queue pair is connected.
 */
#include "fabric/link/fab_rdma.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define RESOLVE_MS  2000
#define RNR_FOREVER 7 /* receiver not ready: the appliance is busy, not gone */
#define SENDS_EXTRA 16u

static int say(char why[FAB_WHY_MAX], int err, const char *what)
{
	snprintf(why, FAB_WHY_MAX, "RDMA: %s: %s", what, strerror(-err));
	return err;
}

int fab__rdma_dial(struct fab_rdma_dial *d, const struct fab_addr *to, uint32_t receives_max,
		   const struct fab_rdma *lane_of, char why[FAB_WHY_MAX])
{
	struct fab_addr addr = *to;
	int err;

	ASSERT(!d->cm && !d->id && !d->rdma);
	d->v = fab__verbs(why);
	if (!d->v)
		return -EOPNOTSUPP;
	d->receives_max = receives_max;
	d->share = lane_of ? lane_of->device : NULL;
	if (d->share)
		d->share->users++;
	d->cm = d->v->create_event_channel();
	if (!d->cm)
		return say(why, errno == ENOENT || errno == ENODEV ? -ENODEV : -errno,
			   "this host has no device for it");
	err = fab__fd_nonblock(d->cm->fd);
	if (err)
		return say(why, err, "the connection manager");
	if (d->v->create_id(d->cm, &d->id, NULL, RDMA_PS_TCP))
		return say(why, -errno, "the connection manager");
	fab__rdma_timeout_set(d->v, d->id);
	if (d->v->resolve_addr(d->id, NULL, &addr.sa, RESOLVE_MS))
		return say(why, -errno, "no way to that address");
	return 0;
}

static int connect_to(struct fab_rdma_dial *d, uint64_t now_ns, char why[FAB_WHY_MAX])
{
	uint8_t greeting[FAB_RDMA_GREETING_BYTES];
	struct fab_rdma_cfg cfg = {
		.device = d->share,
		.receives_max = d->receives_max,
		.sends = 2 * d->receives_max + SENDS_EXTRA,
	};
	struct rdma_conn_param param = {
		.private_data = greeting,
		.private_data_len = sizeof(greeting),
		.retry_count = FAB_RDMA_RETRIES,
		.rnr_retry_count = RNR_FOREVER,
	};
	int err;

	ASSERT(d->id && !d->rdma);
	if (fab__rdma_hushed(d->id, now_ns))
		return say(why, -ENETDOWN, "a moment ago nobody was reached through this port");
	err = fab__rdma_open(&d->rdma, d->v, d->id, &cfg, why);
	if (err)
		return err;
	d->id = NULL; /* d->rdma has it */
	d->rdma->cm = d->cm;
	err = fab__rdma_receives(d->rdma, d->rdma->receives_max);
	if (err)
		return say(why, err, "receives");
	fab__rdma_greeting_build(greeting);
	param.responder_resources = (uint8_t)min_u32(
		(uint32_t)max_u32((uint32_t)d->rdma->device->attr.max_qp_rd_atom, 1),
		RDMA_MAX_RESP_RES - 1);
	return d->v->connect(d->rdma->id, &param) ? say(why, -errno, "connect") : 0;
}

static int established(struct fab_rdma_dial *d, const struct rdma_cm_event *event,
		       char why[FAB_WHY_MAX])
{
	struct fab_rdma_greeting greeting;
	int err = fab__rdma_greeting_parse(&greeting, event->param.conn.private_data,
					   event->param.conn.private_data_len);

	d->rdma->established = true;
	if (!err)
		return 0;
	snprintf(why, FAB_WHY_MAX, "RDMA: the peer speaks another protocol");
	return err;
}

static int rejected(const struct rdma_cm_event *event, char why[FAB_WHY_MAX])
{
	const struct rdma_conn_param *p = &event->param.conn;
	int used = snprintf(why, FAB_WHY_MAX, "RDMA: the connection was refused");
	const char *text = p->private_data;

	/* 28 is "no one listens there"; others may bring text, which is made printable. */
	for (uint32_t i = 0; text && event->status != 8 && i < p->private_data_len && text[i];
	     i++) {
		if (i == 0)
			used += snprintf(why + used, FAB_WHY_MAX - (size_t)used, ": ");
		if (used + 1 < (int)FAB_WHY_MAX)
			why[used++] = (char)(text[i] >= ' ' && text[i] < 127 ? text[i] : '.');
	}
	why[used] = 0;
	if (text && event->status != 8 && p->private_data_len > strlen(FAB_RDMA_BUSY) &&
	    memcmp(text, FAB_RDMA_BUSY, strlen(FAB_RDMA_BUSY)) == 0)
		return -EBUSY;
	return -ECONNREFUSED;
}

/* Returns 0: established, -EINPROGRESS: continue, or how it failed. */
static int event_step(struct fab_rdma_dial *d, const struct rdma_cm_event *event, uint64_t now_ns,
		      char why[FAB_WHY_MAX])
{
	int err;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (d->v->resolve_route(d->id, RESOLVE_MS))
			return say(why, -errno, "no route to that address");
		return -EINPROGRESS;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		err = connect_to(d, now_ns, why);
		return err ? err : -EINPROGRESS;
	case RDMA_CM_EVENT_ESTABLISHED:
		return established(d, event, why);
	case RDMA_CM_EVENT_REJECTED:
		return rejected(event, why);
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return say(why, event->status < 0 ? event->status : -EHOSTUNREACH,
			   "no device leads to that address");
	case RDMA_CM_EVENT_UNREACHABLE:
		return say(why, -ETIMEDOUT, "nobody answers there");
	default:
		snprintf(why, FAB_WHY_MAX, "RDMA: %s", d->v->event_str(event->event));
		return -ECONNRESET;
	}
}

int fab__rdma_dial_step(struct fab_rdma_dial *d, uint64_t now_ns, char why[FAB_WHY_MAX])
{
	struct rdma_cm_event *event;
	int err = -EINPROGRESS;

	ASSERT(d->cm);
	while (err == -EINPROGRESS && d->v->get_cm_event(d->cm, &event) == 0) {
		err = event_step(d, event, now_ns, why);
		(void)d->v->ack_cm_event(event);
	}
	return err;
}

int fab__rdma_dial_events(struct fab_rdma_dial *d, char why[FAB_WHY_MAX])
{
	struct rdma_cm_event *event;
	int err = 0;

	ASSERT(d->cm && d->rdma);
	while (d->v->get_cm_event(d->cm, &event) == 0) {
		switch (event->event) {
		case RDMA_CM_EVENT_DISCONNECTED:
			snprintf(why, FAB_WHY_MAX, "the appliance closed the connection");
			err = -ECONNRESET;
			break;
		case RDMA_CM_EVENT_ADDR_CHANGE:
		case RDMA_CM_EVENT_DEVICE_REMOVAL:
			snprintf(why, FAB_WHY_MAX, "RDMA: %s", d->v->event_str(event->event));
			err = -ECONNRESET;
			break;
		default: /* TIMEWAIT_EXIT and unknown events do not end the connection */
			break;
		}
		(void)d->v->ack_cm_event(event);
	}
	return err;
}

int fab__rdma_dial_port(const struct fab_rdma_dial *d, char why[FAB_WHY_MAX])
{
	ASSERT(d->rdma && d->rdma->id);
	if (fab__rdma_port_up(d->v, d->rdma->id))
		return 0;
	return say(why, -ENETDOWN, "this host's port");
}

void fab__rdma_dial_free(struct fab_rdma_dial *d, bool child)
{
	ASSERT(!d->rdma || d->cm);
	if (d->rdma && child)
		fab__rdma_forget(d->rdma);
	else if (d->rdma)
		fab__rdma_free(d->rdma); /* and d->cm */
	if (d->share)
		fab__rdma_device_put(d->share, child);
	if (d->id && !child)
		(void)d->v->destroy_id(d->id);
	if (d->cm && !d->rdma && !child)
		d->v->destroy_event_channel(d->cm);
	memset(d, 0, sizeof(*d));
}
