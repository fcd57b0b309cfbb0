/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The polling core of an appliance's fabric: all sessions in turn.
 *
 *   control thread                        the core
 *   hello done  ----- MESSAGE_OPENED ---> open[]: FAB_EVENT_SESSION_NEW
 *   socket lost ----- MESSAGE_LOST -----> closing: FAB_EVENT_CANCELs
 *   queue pair <----- MESSAGE_HALT ------ closing, over rdma; memory in use comes back only
 *   destroyed  ------ MESSAGE_HALTED ---> now
 *   unmap, free <---- MESSAGE_CLOSED ---- drained: FAB_EVENT_SESSION_CLOSED
 *
 * Shared memory and completion queues are polled every time; sockets when epoll reports them
 * (edge-triggered, so that arming costs nothing), and epoll itself with every poll while it has
 * events or there is no other work, else with every 16th.
 *
 * Invariants:
 *  (1) open[0 .. open_count) are the sessions that are OPEN or CLOSING; closing_count of
 *      them CLOSING.
 *  (2) Events that are due (cancels, back) come out before anything is received.
 *  (3) fab_server_arm() asks epoll before it checks rings and messages: anything that arrives
 *      later makes the epoll readable
 *      [test_fab_session:a_sleeping_core_is_woken_by_a_request, torture_fab_server].
 */
#include "fabric/hello/fab_server_internal.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/epoll.h>

#define TURN_MAX    64u /* requests of one session in one poll, if no other has any */
#define TURN_MIN    4u
#define QUIET_POLLS 16u

/* ---- messages and events that are due ----------------------------------------------- */

static struct fab_event *event_put(struct fab_event *e, enum fab_event_type type,
				   struct fab__session *s)
{
	*e = (struct fab_event){ .type = type, .session = &s->pub };
	return e;
}

static bool is_stream(const struct fab__session *s)
{
	return !s->direct && !s->onesided;
}

static int session_watch(struct fab_server *srv, struct fab__session *s)
{
	struct epoll_event ev = {
		.events = s->direct ? EPOLLIN | EPOLLET : EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
		.data.ptr = s,
	};
	int fd = s->direct ? s->control.doorbells[0] : s->control.fd;

	ASSERT(s->at == SESSION_OPEN);
	/* Without a descriptor (a simulated network) it is looked at with every poll, and so is
	 * a completion queue: its channel tells nothing that was not asked for. */
	s->quiet_until_told = is_stream(s) && fd >= 0;
	return fd < 0 || epoll_ctl(srv->epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0 ? 0 : -errno;
}

/* Closing is not enough: the client holds the doorbell too, and epoll watches the file. */
static void session_unwatch(struct fab_server *srv, struct fab__session *s)
{
	int fd = s->direct ? s->control.doorbells[0] : s->control.fd;

	ASSERT(s->at == SESSION_FREE);
	if (fd >= 0) /* fails only where it was not watched */
		(void)epoll_ctl(srv->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

/* From the first session over rdma on, the core probes silent clients. */
static void probe_first(struct fab_server *srv)
{
	srv->onesided_count++;
	ASSERT(srv->onesided_count <= srv->open_count);
	if (srv->probe_ns != UINT64_MAX)
		return;
	srv->probe_ns = srv->now_ns + FAB_RDMA_PROBE_NS;
	srv->next_deadline_ns = min_u64(srv->next_deadline_ns, srv->probe_ns);
}

static uint32_t messages(struct fab_server *srv, struct fab_event *events, uint32_t events_max)
{
	uint32_t n = 0;
	int err;

	while (n < events_max) {
		struct fab_message *m = spsc_pop(&srv->to_core);

		if (!m)
			break;
		if (m->type == MESSAGE_LOST) {
			fab__session_fail(m->session, -ECONNRESET);
			continue;
		}
		if (m->type == MESSAGE_HALTED) {
			fab__session_halted(m->session);
			continue;
		}
		ASSERT(m->type == MESSAGE_OPENED && srv->open_count < srv->cfg.sessions_max);
		m->session->at =
			SESSION_OPEN; /* only now: a LOST before this was its predecessor's */
		srv->open[srv->open_count++] = m->session;
		srv->stream_count += is_stream(m->session);
		ASSERT(srv->stream_count <= srv->open_count);
		if (m->session->onesided)
			probe_first(srv);
		srv->stat.sessions++;
		err = session_watch(srv, m->session);
		event_put(&events[n++], FAB_EVENT_SESSION_NEW, m->session);
		if (unlikely(err)) /* the kernel has no memory for it, or watches no more */
			fab__session_fail(m->session, err);
		else if (unlikely(srv->stopping)) /* it connected just as admission ended */
			fab__session_fail(m->session, -ECONNRESET);
	}
	return n;
}

static uint32_t events_due(struct fab_server *srv, struct fab_event *events, uint32_t events_max)
{
	uint32_t n = 0;

	/* Cancels first: a request is replied to when its last piece is back, and gone then. */
	while (n < events_max && !list_empty(&srv->cancels)) {
		struct fab__req *req =
			list_entry(list_pop_front(&srv->cancels), struct fab__req, cancel_node);
		struct fab_event *e = event_put(&events[n++], FAB_EVENT_CANCEL,
						fab__session_of(req->pub.session));
		ASSERT(req->live && req->cancel_status < 0);

		e->req = &req->pub;
		e->status = req->cancel_status;
	}
	while (n < events_max && !list_empty(&srv->back)) {
		struct list *node = list_pop_front(&srv->back);
		struct fab__piece *in = list_entry(node, struct fab__piece, node);
		struct fab_event *e = event_put(
			&events[n++], in->pull ? FAB_EVENT_PULLED : FAB_EVENT_SENT, in->session);

		e->piece = container_of((uint64_t *)(void *)in, struct fab_piece, opaque[0]);
		e->req = in->pull ? e->piece->req : NULL;
		e->status = e->piece->status;
		ASSERT(in->session->pieces_out > 0);
		in->session->pieces_out--;
	}
	return n;
}

/*
 * Control may give the place to another as soon as it hears of this: so it hears when the caller
 * has come back, and is done with the events that name the session.
 */
static void tell_closed(struct fab_server *srv)
{
	struct list *node;

	while (unlikely((node = list_pop_front(&srv->closed)) != NULL)) {
		struct fab__session *s = list_entry(node, struct fab__session, closed_node);
		ASSERT(s->at == SESSION_FREE && !list_linked(&s->dirty_node));

		s->closed = (struct fab_message){ .type = MESSAGE_CLOSED, .session = s };
		ASSERT(spsc_push(&srv->to_control, &s->closed));
		fab__wake(srv->control->wake_fd);
	}
}

/* Closing sessions that nothing is out of any more. */
static uint32_t closed(struct fab_server *srv, struct fab_event *events, uint32_t events_max)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < srv->open_count && n < events_max;) {
		struct fab__session *s = srv->open[i];

		if (s->at != SESSION_CLOSING || !fab__session_drained(s)) {
			i++;
			continue;
		}
		s->at = SESSION_FREE;
		ASSERT(srv->closing_count > 0);
		ASSERT(srv->open_count <= srv->cfg.sessions_max);
		srv->closing_count--;
		srv->stream_count -= is_stream(s);
		srv->onesided_count -= s->onesided;
		srv->open[i] = srv->open[--srv->open_count];
		ASSERT(srv->stream_count + srv->onesided_count <= srv->open_count);
		ASSERT(srv->closing_count <= srv->open_count); /* (1) */
		srv->stat.wakeups_sent += s->direct ? s->shm.rung_count : 0;
		session_unwatch(srv, s);
		event_put(&events[n++], FAB_EVENT_SESSION_CLOSED, s);
		list_init(&s->closed_node);
		list_push_back(&srv->closed, &s->closed_node);
	}
	return n;
}

static wk_cold void stop_all(struct fab_server *srv)
{
	ASSERT(!srv->stopping);
	srv->stopping = true;
	for (uint32_t i = 0; i < srv->open_count; i++)
		fab__session_fail(srv->open[i], -ECONNRESET);
	ASSERT(srv->closing_count == srv->open_count);
}

/* Probes all clients that have been silent since the last time, together, so that a sleeping core
 * is woken once. */
static void probe(struct fab_server *srv, uint64_t now_ns)
{
	ASSERT(srv->onesided_count <= srv->open_count);
	for (uint32_t i = 0; i < srv->open_count; i++) {
		struct fab__session *s = srv->open[i];

		if (!s->onesided || s->at != SESSION_OPEN)
			continue;
		if (s->heard == fab__rdma_heard(s->rdma)) {
			fab__rdma_probe(s->rdma);
			fab__stall_watch(s);
		}
		s->heard = fab__rdma_heard(s->rdma);
	}
	srv->probe_ns = srv->onesided_count > 0 ? now_ns + FAB_RDMA_PROBE_NS : UINT64_MAX;
}

static void expire(struct fab_server *srv, uint64_t now_ns)
{
	uint64_t next;

	if (srv->probe_ns <= now_ns)
		probe(srv, now_ns);
	next = srv->probe_ns;

	for (uint32_t i = 0; i < srv->open_count; i++) {
		struct fab__session *s = srv->open[i];

		if (s->at != SESSION_OPEN)
			continue;
		if (s->next_deadline_ns <= now_ns)
			fab__session_expire(s, now_ns);
		next = min_u64(next, s->next_deadline_ns);
		if (s->stall_ns <= now_ns)
			fab__session_fail(s, -ETIMEDOUT);
		else
			next = min_u64(next, s->stall_ns);
		if (s->at == SESSION_OPEN)
			next = min_u64(next, fab__send_expire(s, now_ns));
	}
	srv->next_deadline_ns = next;
	ASSERT(srv->closing_count <= srv->open_count);
}

/* ---- the poll ----------------------------------------------------------------------- */

static void harvest(struct fab_server *srv)
{
	struct epoll_event evs[32];
	int count = epoll_wait(srv->epoll_fd, evs, ARRAY_LEN(evs), 0);

	srv->polls = 0;
	srv->busy = count > 0;
	for (int i = 0; i < count; i++) {
		struct fab__session *s = evs[i].data.ptr;

		if (!s || s->at != SESSION_OPEN)
			continue;
		s->active = true;
		if (evs[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
			s->hung_up = true;
		if (evs[i].events & EPOLLOUT)
			fab__session_dirty(s);
	}
}

void fab_server_flush(struct fab_server *srv)
{
	struct list *node;

	while ((node = list_pop_front(&srv->dirty)) != NULL) {
		struct fab__session *s = list_entry(node, struct fab__session, dirty_node);
		ASSERT(s->at == SESSION_OPEN);
		int err;

		fab__part_release(s);
		ASSERT(!s->held);
		err = s->link->ops->flush(s->link);
		if (!s->direct)
			fab__sent_drain(s);
		if (s->onesided)
			fab__stall_watch(s);
		fab__send_watch(s);
		if (unlikely(err < 0))
			fab__session_fail(s, err);
	}
}

/* Returns the rare events, which are not requests, all of them. */
static uint32_t poll_due(struct fab_server *srv, uint64_t now_ns, struct fab_event *events,
			 uint32_t events_max)
{
	uint32_t n = messages(srv, events, events_max);

	if (unlikely(!srv->stopping && atomic_load_explicit(&srv->stop, memory_order_relaxed)))
		stop_all(srv);
	if (unlikely(now_ns >= srv->next_deadline_ns))
		expire(srv, now_ns);
	n += events_due(srv, events + n, events_max - n);
	if (unlikely(srv->closing_count > 0))
		n += closed(srv, events + n, events_max - n);
	ASSERT(n <= events_max);
	return n;
}

/* Counts again what counters say, in variants that look for our own mistakes. */
static void self_check(struct fab_server *srv)
{
#ifdef WK_DEBUG
	if (srv->self_check++ % FAB_CHECK_TURNS == 0)
		fab__server_check(srv);
#else
	(void)srv;
#endif
}

/* Returns the next session in turn.  After all: `count` of them had input. */
static struct fab__session *next_of(struct fab_server *srv, uint32_t count)
{
	if (++srv->open_next >= count) {
		srv->open_next = 0;
		srv->talkers = srv->talking;
		srv->talking = 0;
	}
	DASSERT(srv->open_next < count && count <= srv->open_count);
	return srv->open[srv->open_next];
}

/*
 * Sessions that had input lately share the events of a poll equally: a client that sends as fast as
 * it can is served as often, and costs as much, as one that sends now and then.
 */
uint32_t fab_server_poll(struct fab_server *srv, uint64_t now_ns, struct fab_event *events,
			 uint32_t events_max)
{
	uint32_t n, count, each, got;

	srv->now_ns = now_ns;
	self_check(srv);
	tell_closed(srv);
	fab_server_flush(srv);
	n = poll_due(srv, now_ns, events, events_max);
	/* (2) */
	DASSERT(n == events_max || (list_empty(&srv->cancels) && list_empty(&srv->back)));
	if (srv->stream_count > 0 &&
	    (srv->busy || srv->stream_count == srv->open_count || ++srv->polls >= QUIET_POLLS))
		harvest(srv);
	count = srv->open_count;
	each = srv->talkers > 1 ? events_max / srv->talkers : TURN_MAX;
	each = min_u32(max_u32(each, TURN_MIN), TURN_MAX);
	for (uint32_t i = 0; i < count && n < events_max; i++) {
		struct fab__session *s = next_of(srv, count);

		if (s->at != SESSION_OPEN || (!s->active && s->quiet_until_told))
			continue;
		got = fab__session_poll(s, now_ns, events + n, min_u32(events_max - n, each));
		srv->talking += got > 0;
		n += got;
	}
	srv->found = n > 0;
	ASSERT(n <= events_max);
	return n;
}

/* ---- sleep -------------------------------------------------------------------------- */

static bool anything_due(const struct fab_server *srv)
{
	if (!list_empty(&srv->dirty) || !list_empty(&srv->cancels) || !list_empty(&srv->back))
		return true;
	if (atomic_load_explicit(&srv->stop, memory_order_relaxed) && !srv->stopping)
		return true;
	for (uint32_t i = 0; i < srv->open_count && srv->closing_count > 0; i++)
		if (srv->open[i]->at == SESSION_CLOSING && fab__session_drained(srv->open[i]))
			return true;
	return !spsc_is_quiet(&srv->to_core.ends);
}

bool fab_server_arm(struct fab_server *srv)
{
	if (srv->found) /* a stream may have more input, and raises no other event */
		return false;
	tell_closed(srv);
	fab_server_flush(srv);
	harvest(srv);
	for (uint32_t i = 0; i < srv->open_count; i++) {
		struct fab__session *s = srv->open[i];

		if (s->at != SESSION_OPEN)
			continue;
		if ((s->quiet_until_told && s->active) || !s->link->ops->arm(s->link)) {
			fab_server_disarm(srv);
			return false;
		}
	}
	if (anything_due(srv)) {
		fab_server_disarm(srv);
		return false;
	}
	return true;
}

void fab_server_disarm(struct fab_server *srv)
{
	for (uint32_t i = 0; i < srv->open_count; i++)
		if (srv->open[i]->at == SESSION_OPEN)
			srv->open[i]->link->ops->disarm(srv->open[i]->link);
	srv->busy = true; /* ask epoll for the cause */
}

int fab_server_fd(const struct fab_server *srv)
{
	ASSERT(srv->epoll_fd >= 0);
	return srv->epoll_fd;
}

uint64_t fab_server_deadline(const struct fab_server *srv)
{
	return srv->next_deadline_ns;
}

void fab_server_stat(const struct fab_server *srv, struct fab_server_stat *out)
{
	*out = srv->stat;
	if (srv == srv->control->cores[0]) {
		out->refused = atomic_load_explicit(&srv->control->refused, memory_order_relaxed);
		out->refused_logins =
			atomic_load_explicit(&srv->control->refused_logins, memory_order_relaxed);
	}
	for (uint32_t i = 0; i < srv->open_count; i++)
		if (srv->open[i]->direct)
			out->wakeups_sent += srv->open[i]->shm.rung_count;
}
