/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The polling core of an appliance's fabric: all sessions in turn.
 *
 *   control thread                        the core
 *   hello done  ----- MESSAGE_OPENED ---> open[]: FAB_EVENT_SESSION_NEW
 *   socket lost ----- MESSAGE_LOST -----> closing: FAB_EVENT_CANCELs
 *   unmap, free <---- MESSAGE_CLOSED ---- drained: FAB_EVENT_SESSION_CLOSED
 *
 * Shared memory is looked at with every poll; sockets when epoll says so (edge-triggered, so
 * that arming costs nothing), and epoll itself with every poll while it has something or there is
 * nothing else, else with every 16th.
 *
 * Invariants:
 *  (1) open[0 .. open_count) are the sessions that are OPEN or CLOSING; closing_count of them
 * CLOSING. (2) Events that are due (cancels, back) come out before anything is received. (3)
 * fab_server_arm() asks epoll before it looks at rings and messages: what comes after the look
 *      makes the epoll readable.
 */
#include "fabric/fab_internal.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#define SESSIONS_DEFAULT 64u
#define SESSIONS_LIMIT   4096u
#define TURN_MAX         64u /* requests of one session in one poll */
#define QUIET_POLLS      16u
#define POOLS_DEFAULT    (UINT64_C(1) << 30)
#define HELLO_DEFAULT_NS UINT64_C(5000000000)

static const struct fab_limits limits_default = {
	.credits = 128,
	.long_bodies = 8,
	.batch_max = FAB_BATCH_MAX,
	.window_max_bytes = FAB_WINDOW_MAX,
	.pool_max_bytes = POOLS_DEFAULT,
};

void fab__wake(int fd)
{
	uint64_t one = 1;

	/* Full is as good: then it is readable. */
	ASSERT(write(fd, &one, sizeof(one)) == sizeof(one) || errno == EAGAIN);
}

/* ---- create and destroy ------------------------------------------------------------------- */

static int cfg_complete(struct fab_server_cfg *cfg)
{
	struct fab_limits *l = &cfg->limits;

	if (!l->credits)
		l->credits = limits_default.credits;
	if (!l->long_bodies)
		l->long_bodies = limits_default.long_bodies;
	if (!l->batch_max)
		l->batch_max = limits_default.batch_max;
	if (!l->window_max_bytes)
		l->window_max_bytes = limits_default.window_max_bytes;
	if (!l->pool_max_bytes)
		l->pool_max_bytes = limits_default.pool_max_bytes;
	if (!cfg->sessions_max)
		cfg->sessions_max = SESSIONS_DEFAULT;
	if (!cfg->pools_max_bytes)
		cfg->pools_max_bytes = POOLS_DEFAULT;
	if (!cfg->hello_timeout_ns)
		cfg->hello_timeout_ns = HELLO_DEFAULT_NS;
	if (!cfg->core_count)
		cfg->core_count = 1;
	if (l->credits > FAB_CREDITS_MAX || l->long_bodies > FAB_LONG_MAX ||
	    l->batch_max > FAB_BATCH_MAX || l->window_max_bytes > FAB_WINDOW_MAX ||
	    l->window_max_bytes % BLOCK_SIZE != 0 || cfg->sessions_max > SESSIONS_LIMIT ||
	    cfg->key.id[0] == 0)
		return -EINVAL;
	return 0;
}

/* One mapping for all that sessions need; the kernel gives pages as they are touched. */
static int arena_create(struct fab_server *srv)
{
	const struct fab_limits *l = &srv->cfg.limits;
	uint64_t reqs = align_up(l->credits * sizeof(struct fab__req), BLOCK_SIZE);
	uint64_t frees = align_up(l->credits * sizeof(uint16_t), BLOCK_SIZE);
	uint64_t longs = (uint64_t)l->long_bodies * FAB_LONG_BODY_MAX;
	uint64_t tcp = align_up(sizeof(struct fab_tcp), BLOCK_SIZE);
	uint8_t *at;

	srv->arena_bytes = srv->cfg.sessions_max * (reqs + frees + longs + tcp);
	srv->arena = mmap(NULL, srv->arena_bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (srv->arena == MAP_FAILED)
		return -ENOMEM;
	at = srv->arena;
	for (uint32_t i = 0; i < srv->cfg.sessions_max; i++) {
		struct fab__session *s = &srv->sessions[i];

		s->srv = srv;
		s->reqs = (void *)at;
		s->longs = at + reqs;
		s->req_free = (void *)(at + reqs + longs);
		s->tcp = (void *)(at + reqs + longs + frees);
		at += reqs + frees + longs + tcp;
	}
	return 0;
}

static uint32_t ring_size(uint32_t messages)
{
	uint32_t size = 1;

	while (size < messages)
		size <<= 1;
	return size;
}

static int tables_create(struct fab_server *srv)
{
	/* For each place at most: LOST of the session before, OPENED, LOST. */
	uint32_t size = ring_size(3 * srv->cfg.sessions_max);

	srv->sessions = calloc(srv->cfg.sessions_max, sizeof(*srv->sessions));
	srv->open = calloc(srv->cfg.sessions_max, sizeof(*srv->open));
	srv->slots = calloc((size_t)2 * size, sizeof(*srv->slots));
	if (!srv->sessions || !srv->open || !srv->slots)
		return -ENOMEM;
	spsc_init(&srv->to_core, srv->slots, size);
	spsc_init(&srv->to_control, srv->slots + size, size);
	return 0;
}

static int epoll_create_woken(struct fab_server *srv)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET, .data.ptr = NULL };

	srv->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (srv->epoll_fd < 0)
		return -errno;
	srv->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (srv->wake_fd < 0)
		return -errno;
	return epoll_ctl(srv->epoll_fd, EPOLL_CTL_ADD, srv->wake_fd, &ev) < 0 ? -errno : 0;
}

static void server_free(struct fab_server *srv)
{
	if (srv->wake_fd >= 0)
		close(srv->wake_fd);
	if (srv->epoll_fd >= 0)
		close(srv->epoll_fd);
	if (srv->arena)
		munmap(srv->arena, srv->arena_bytes);
	free(srv->slots);
	free(srv->open);
	free(srv->sessions);
	free(srv);
}

int fab_server_create(struct fab_server **out, const struct fab_server_cfg *cfg)
{
	struct fab_server *srv = aligned_alloc(64, align_up(sizeof(*srv), 64));
	int err;

	if (!srv)
		return -ENOMEM;
	*srv = (struct fab_server){
		.cfg = *cfg,
		.epoll_fd = -1,
		.wake_fd = -1,
		.next_deadline_ns = UINT64_MAX,
	};
	list_init(&srv->dirty);
	list_init(&srv->cancels);
	list_init(&srv->back);
	err = cfg_complete(&srv->cfg);
	if (!err)
		err = tables_create(srv);
	if (!err)
		err = arena_create(srv);
	if (!err)
		err = epoll_create_woken(srv);
	if (!err)
		err = fab__control_create(srv);
	if (err) {
		server_free(srv);
		return err;
	}
	*out = srv;
	return 0;
}

void fab_server_destroy(struct fab_server *srv)
{
	ASSERT(srv->open_count == 0);
	fab__control_destroy(srv);
	server_free(srv);
}

void fab_server_stop(struct fab_server *srv)
{
	atomic_store_explicit(&srv->stop, true, memory_order_relaxed);
	fab__wake(srv->wake_fd);
	fab__wake(srv->control.wake_fd);
}

/* ---- messages and events that are due ------------------------------------------------------- */

static struct fab_event *event_put(struct fab_event *e, enum fab_event_type type,
				   struct fab__session *s)
{
	*e = (struct fab_event){ .type = type, .session = &s->pub };
	return e;
}

static void session_watch(struct fab_server *srv, struct fab__session *s)
{
	struct epoll_event ev = {
		.events = s->direct ? EPOLLIN | EPOLLET : EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
		.data.ptr = s,
	};
	int fd = s->direct ? s->control.doorbells[0] : s->control.fd;

	/* Without a descriptor (a simulated network) it is looked at with every poll. */
	s->quiet_until_told = !s->direct && fd >= 0;
	if (fd >= 0)
		ASSERT(epoll_ctl(srv->epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0);
}

/* Closing is not enough: the client holds the doorbell too, and epoll watches the file. */
static void session_unwatch(struct fab_server *srv, struct fab__session *s)
{
	int fd = s->direct ? s->control.doorbells[0] : s->control.fd;

	if (fd >= 0)
		ASSERT(epoll_ctl(srv->epoll_fd, EPOLL_CTL_DEL, fd, NULL) == 0);
}

static uint32_t messages(struct fab_server *srv, struct fab_event *events, uint32_t events_max)
{
	uint32_t n = 0;

	while (n < events_max) {
		struct fab_message *m = spsc_pop(&srv->to_core);

		if (!m)
			break;
		if (m->type == MESSAGE_LOST) {
			fab__session_fail(m->session, -ECONNRESET);
			continue;
		}
		ASSERT(m->type == MESSAGE_OPENED && srv->open_count < srv->cfg.sessions_max);
		m->session->at =
			SESSION_OPEN; /* only now: a LOST before this was its predecessor's */
		srv->open[srv->open_count++] = m->session;
		srv->stream_count += !m->session->direct;
		srv->stat.sessions++;
		session_watch(srv, m->session);
		event_put(&events[n++], FAB_EVENT_SESSION_NEW, m->session);
	}
	return n;
}

static uint32_t events_due(struct fab_server *srv, struct fab_event *events, uint32_t events_max)
{
	uint32_t n = 0;

	while (n < events_max && !list_empty(&srv->back)) {
		struct list *node = list_pop_front(&srv->back);
		struct fab__piece *in = list_entry(node, struct fab__piece, node);
		struct fab_event *e = event_put(
			&events[n++], in->pull ? FAB_EVENT_PULLED : FAB_EVENT_SENT, in->session);

		e->piece = container_of((uint64_t *)(void *)in, struct fab_piece, opaque[0]);
		e->req = in->pull ? e->piece->req : NULL;
		e->status = e->piece->status;
		in->session->pieces_out--;
	}
	while (n < events_max && !list_empty(&srv->cancels)) {
		struct fab__req *req =
			list_entry(list_pop_front(&srv->cancels), struct fab__req, cancel_node);
		struct fab_event *e = event_put(&events[n++], FAB_EVENT_CANCEL,
						fab__session_of(req->pub.session));

		e->req = &req->pub;
		e->status = req->cancel_status;
	}
	return n;
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
		srv->closing_count--;
		srv->stream_count -= !s->direct;
		srv->open[i] = srv->open[--srv->open_count];
		srv->stat.wakeups_sent += s->direct ? s->shm.rung_count : 0;
		session_unwatch(srv, s);
		event_put(&events[n++], FAB_EVENT_SESSION_CLOSED, s);
		s->closed = (struct fab_message){ .type = MESSAGE_CLOSED, .session = s };
		ASSERT(spsc_push(&srv->to_control, &s->closed));
		fab__wake(srv->control.wake_fd);
	}
	return n;
}

static wk_cold void stop_all(struct fab_server *srv)
{
	srv->stopping = true;
	for (uint32_t i = 0; i < srv->open_count; i++)
		fab__session_fail(srv->open[i], -ECONNRESET);
}

static void expire(struct fab_server *srv, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;

	for (uint32_t i = 0; i < srv->open_count; i++) {
		struct fab__session *s = srv->open[i];

		if (s->at != SESSION_OPEN)
			continue;
		if (s->next_deadline_ns <= now_ns)
			fab__session_expire(s, now_ns);
		next = min_u64(next, s->next_deadline_ns);
	}
	srv->next_deadline_ns = next;
}

/* ---- the poll ----------------------------------------------------------------------------------
 */

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
		if (evs[i].events & EPOLLOUT)
			fab__session_dirty(s);
	}
}

void fab_server_flush(struct fab_server *srv)
{
	struct list *node;

	while ((node = list_pop_front(&srv->dirty)) != NULL) {
		struct fab__session *s = list_entry(node, struct fab__session, dirty_node);
		int err = s->link->ops->flush(s->link);

		if (!s->direct)
			fab__sent_drain(s);
		if (unlikely(err < 0))
			fab__session_fail(s, err);
	}
}

/* What is not a request: seldom, all of it. */
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
	return n;
}

uint32_t fab_server_poll(struct fab_server *srv, uint64_t now_ns, struct fab_event *events,
			 uint32_t events_max)
{
	uint32_t n, count;

	fab_server_flush(srv);
	n = poll_due(srv, now_ns, events, events_max);
	if (srv->stream_count > 0 &&
	    (srv->busy || srv->stream_count == srv->open_count || ++srv->polls >= QUIET_POLLS))
		harvest(srv);
	count = srv->open_count;
	for (uint32_t i = 0; i < count && n < events_max; i++) {
		struct fab__session *s;

		if (++srv->open_next >= count)
			srv->open_next = 0;
		s = srv->open[srv->open_next];
		if (s->at == SESSION_OPEN && (s->active || !s->quiet_until_told))
			n += fab__session_poll(s, now_ns, events + n,
					       min_u32(events_max - n, TURN_MAX));
	}
	return n;
}

/* ---- sleep
 * ----------------------------------------------------------------------------------------- */

static bool anything_due(const struct fab_server *srv)
{
	const struct spsc *q = &srv->to_core;

	if (!list_empty(&srv->dirty) || !list_empty(&srv->cancels) || !list_empty(&srv->back))
		return true;
	if (atomic_load_explicit(&srv->stop, memory_order_relaxed) && !srv->stopping)
		return true;
	for (uint32_t i = 0; i < srv->open_count && srv->closing_count > 0; i++)
		if (srv->open[i]->at == SESSION_CLOSING && fab__session_drained(srv->open[i]))
			return true;
	return atomic_load_explicit(&q->head, memory_order_relaxed) !=
	       atomic_load_explicit(&q->tail, memory_order_relaxed);
}

bool fab_server_arm(struct fab_server *srv)
{
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
	srv->busy = true; /* ask epoll what it was */
}

int fab_server_fd(const struct fab_server *srv)
{
	return srv->epoll_fd;
}

uint64_t fab_server_deadline(const struct fab_server *srv)
{
	return srv->next_deadline_ns;
}

void fab_server_stat(const struct fab_server *srv, struct fab_server_stat *out)
{
	*out = srv->stat;
	out->refused = atomic_load_explicit(&srv->control.refused, memory_order_relaxed);
	for (uint32_t i = 0; i < srv->open_count; i++)
		if (srv->open[i]->direct)
			out->wakeups_sent += srv->open[i]->shm.rung_count;
}
