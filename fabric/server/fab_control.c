/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The control side's step: dispatches its epoll's events to their owners.
 *
 *   listener -> fab_listen.c -> arrival -> fab_arrival.c -> session, pools -> fab_control_session.c
 *
 * Invariant: (1) every refusal goes through fab__refused() [e2e_refusals].
 */
#include "fabric/hello/fab_server_internal.h"
#include "fabric/link/fab_tls.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#define EVENTS_AT_ONCE 32

int fab__control_watch(struct fab_server *srv, int fd, struct fab_watch *watch)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = watch };

	ASSERT(fd >= 0);
	return epoll_ctl(srv->control->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

/* Ignores the error, since this fails only for a descriptor that is not watched. */
void fab__control_unwatch(struct fab_server *srv, int fd)
{
	(void)epoll_ctl(srv->control->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

void fab_server_shut(struct fab_server *srv)
{
	struct fab_control *c = srv->control;

	c->stopped = true;
	fab__listeners_close(srv);
	fab__arrivals_close(srv);
	ASSERT(c->listener_count == 0);
}

static void control_input(struct fab_server *srv, uint64_t now_ns)
{
	struct epoll_event evs[EVENTS_AT_ONCE];
	int count = epoll_wait(srv->control->epoll_fd, evs, EVENTS_AT_ONCE, 0);
	uint64_t drain;

	for (int i = 0; i < count; i++) {
		struct fab_watch *w = evs[i].data.ptr;
		ASSERT(w->type <= WATCH_DEVICE);

		if (w->type == WATCH_LISTENER)
			fab__accept(srv, container_of(w, struct fab_listener, watch), now_ns);
		else if (w->type == WATCH_HELLO)
			fab__arrival_input(srv, container_of(w, struct fab_arrival, watch), now_ns);
		else if (w->type == WATCH_RDMA)
			fab__rdma_events(srv, now_ns);
		else if (w->type == WATCH_DEVICE)
			fab__rdma_async(srv, w);
		else if (w->type == WATCH_SESSION)
			fab__control_input(container_of(w, struct fab__session, control.watch));
		else if (read(srv->control->wake_fd, &drain, sizeof(drain)) < 0)
			continue; /* it was read already */
	}
}

/* Lines for people, oldest first. */
static uint32_t line_events(enum fab_control_type type, char lines[][FAB_WHY_MAX], uint32_t *count,
			    struct fab_control_event *events, uint32_t events_max)
{
	uint32_t n = 0;

	ASSERT(*count <= FAB_REFUSALS_MAX);
	while (*count > 0 && n < events_max) {
		events[n] = (struct fab_control_event){ .type = type };
		memcpy(events[n++].text, lines[0], FAB_WHY_MAX);
		--*count;
		memmove(lines[0], lines[1], *count * sizeof(lines[0]));
	}
	return n;
}

/* Watches the listeners that are not watched yet. */
static uint64_t accept_ns(const struct fab_server *srv)
{
	return max_u64(srv->control->accept_after_ns, fab__arrival_place_ns(srv));
}

static void self_check(struct fab_control *c)
{
#ifdef WK_DEBUG
	if (c->self_check++ % FAB_CHECK_TURNS == 0)
		fab__control_check(c);
#else
	(void)c;
#endif
}

uint32_t fab_server_control_step(struct fab_server *srv, uint64_t now_ns,
				 struct fab_control_event *events, uint32_t events_max)
{
	struct fab_control *c = srv->control;
	uint32_t n;

	ASSERT(srv == c->cores[0]);
	c->now_ns = now_ns;
	if (!c->stopped && atomic_load_explicit(&srv->stop, memory_order_relaxed))
		fab_server_shut(srv);
	self_check(c);
	control_input(srv, now_ns);
	fab__rdma_leave_step(now_ns);
	fab__rdma_listeners_step(srv, now_ns);
	fab__control_messages(srv);
	fab__arrivals_held(srv, now_ns);
	fab__arrivals_expire(srv, now_ns);
	fab__refusals_collect(srv);
	fab__refusals_expire(srv);
	if (c->full && now_ns >= accept_ns(srv))
		fab__listeners_watch(srv, false);
	fab__control_pools_step(srv);
	n = fab__control_pool_events(srv, events, events_max);
	n += line_events(FAB_CONTROL_REFUSED, c->refusals, &c->refusal_count, events + n,
			 events_max - n);
	return n + line_events(FAB_CONTROL_NOTICE, c->notices, &c->notice_count, events + n,
			       events_max - n);
}

void fab_server_marks(struct fab_server *srv, uint64_t mark, uint64_t forgotten)
{
	atomic_store_explicit(&srv->control->mark, mark, memory_order_relaxed);
	atomic_store_explicit(&srv->control->forgotten, forgotten, memory_order_relaxed);
}

bool fab_server_client(const struct fab_server *srv, uint32_t *at, uint64_t *client)
{
	const struct fab_control *c = srv->control;
	uint32_t places = c->core_count * srv->cfg.sessions_max;

	for (; *at < places; ++*at) {
		const struct fab_server *core = c->cores[*at / srv->cfg.sessions_max];
		const struct fab__session *s = &core->sessions[*at % srv->cfg.sessions_max];

		*client = atomic_load_explicit(&s->here, memory_order_relaxed);
		if (*client) {
			++*at;
			return true;
		}
	}
	return false;
}

int fab_server_control_fd(const struct fab_server *srv)
{
	return srv->control->epoll_fd;
}

uint64_t fab_server_control_deadline(const struct fab_server *srv)
{
	uint64_t deadline = min_u64(fab__refusals_deadline(srv), fab__rdma_leave_deadline());

	deadline = min_u64(deadline, fab__rdma_listeners_deadline(srv));
	if (srv->control->refusal_count > 0 || srv->control->notice_count > 0 ||
	    !list_empty(&srv->control->pools_due) || !list_empty(&srv->control->pools_making))
		return 0;
	if (srv->control->full)
		deadline = min_u64(deadline, accept_ns(srv));
	for (uint32_t i = 0; i < FAB_HELLOS_MAX; i++)
		if (srv->control->arrivals[i].fd >= 0)
			deadline = min_u64(deadline, srv->control->arrivals[i].deadline_ns);
	return deadline;
}

/* The key of the configuration goes into the table, and nowhere else. */
static int keys_begin(struct fab_server *srv, const struct fab_key *key)
{
	struct fab_grant grant = { .key = *key, .rights.may_write = true };
	struct fab_control *c = srv->control;
	int err = fab__keys_create(&c->keys, srv->cfg.keys_max);

	ASSERT(c->core_count == 1);
	if (!err)
		err = fab__lanes_create(&c->lanes, &c->keys, srv->cfg.sessions_max,
					srv->cfg.lanes_max);
	if (!err && key->id[0])
		err = fab_server_key_set(srv, &grant);
	secret_wipe(&grant, sizeof(grant));
	return err < 0 ? err : 0;
}

static int descriptors_open(struct fab_server *srv)
{
	struct fab_control *c = srv->control;
	int err;

	c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (c->epoll_fd < 0)
		return -errno;
	c->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (c->wake_fd < 0) {
		err = -errno;
		close(c->epoll_fd);
		return err;
	}
	c->wake_watch.type = WATCH_WAKE;
	err = fab__control_watch(srv, c->wake_fd, &c->wake_watch);
	if (err) {
		close(c->wake_fd);
		close(c->epoll_fd);
	}
	return err;
}

int fab__control_create(struct fab_server *srv, const struct fab_key *key)
{
	struct fab_control *c = calloc(1, sizeof(*c));
	int err;

	ASSERT(!srv->control);
	if (!c)
		return -ENOMEM;
	srv->control = c;
	c->cores[c->core_count++] = srv;
	list_init(&c->pools_due);
	list_init(&c->pools_making);
	fab__rdma_server_init(&c->rdma);
	for (uint32_t i = 0; i < FAB_HELLOS_MAX; i++)
		c->arrivals[i].fd = -1;
	err = getrandom(c->appliance, sizeof(c->appliance), 0) < 0 ? -errno : keys_begin(srv, key);
	if (!err)
		err = descriptors_open(srv);
	if (!err)
		return 0;
	fab__lanes_destroy(&c->lanes);
	fab__keys_destroy(&c->keys);
	free(c);
	return err;
}

void fab__control_destroy(struct fab_server *srv)
{
	struct fab_control *c = srv->control;

	ASSERT(c->core_count > 0 && c->core_count <= FAB_CORES_MAX);
	for (uint32_t i = 0; i < srv->cfg.sessions_max; i++)
		ASSERT(!srv->sessions[i].control.used);
	if (srv != c->cores[0]) {
		ASSERT(srv == c->cores[c->core_count - 1]);
		c->core_count--;
		return;
	}
	ASSERT(c->core_count == 1);
	fab_server_shut(srv);
	fab__rdma_server_free(&c->rdma);
	close(c->wake_fd);
	close(c->epoll_fd);
	fab__lanes_destroy(&c->lanes);
	fab__keys_destroy(&c->keys);
	fab__tls_host_destroy(c->tls);
	free(c);
}
