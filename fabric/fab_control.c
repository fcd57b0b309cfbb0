/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The control side: listeners, and guests until they are sessions.
 *
 *   accept -> guest: hello ... --- agreed ---> fab__control_open() -> session, MESSAGE_OPENED
 *                      |
 *                      +--- refused: REFUSE sent, read on until the peer closes or the deadline
 *                           passes (closing at once would reset what it has not read yet)
 *
 * Invariants:
 *  (1) A guest holds a descriptor, a few hundred bytes, and a deadline; there are at most
 *      FAB_HELLOS_MAX.  When all places are taken listeners are not watched: who waits,
 *      waits in the kernel's backlog.
 *  (2) Every refusal is reported by FAB_CONTROL_REFUSED, or at least counted.
 */
#include "fabric/fab_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define BACKLOG        64
#define LINGER_NS      UINT64_C(1000000000)
#define EVENTS_AT_ONCE 32

void fab__refused(struct fab_server *srv, const char *who, const char *why)
{
	struct fab_control *c = &srv->control;

	atomic_fetch_add_explicit(&c->refused, 1, memory_order_relaxed);
	if (c->refusal_count < FAB_REFUSALS_MAX)
		snprintf(c->refusals[c->refusal_count++], FAB_WHY_MAX, "%.50s: %.190s", who, why);
}

/* ---- epoll ------------------------------------------------------------------------------- */

static void watch_as(struct fab_server *srv, int op, int fd, struct fab_watch *watch,
		     uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = watch };

	ASSERT(epoll_ctl(srv->control.epoll_fd, op, fd, &ev) == 0);
}

void fab__control_watch(struct fab_server *srv, int fd, struct fab_watch *watch)
{
	watch_as(srv, EPOLL_CTL_ADD, fd, watch, EPOLLIN);
}

static void listeners_watch(struct fab_server *srv, bool full)
{
	struct fab_control *c = &srv->control;

	if (c->full == full)
		return;
	c->full = full;
	for (uint32_t i = 0; i < c->listener_count; i++)
		watch_as(srv, EPOLL_CTL_MOD, c->listeners[i].fd, &c->listeners[i].watch,
			 full ? 0 : EPOLLIN);
}

/* ---- listening ------------------------------------------------------------------------------ */

/* A socket file that nobody listens on any more, left behind by a kill, may go. */
static bool stale(const struct fab_addr *addr)
{
	struct stat st;
	int fd, err;

	if (lstat(addr->un.sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return false;
	fd = fab__addr_socket(addr);
	if (fd < 0)
		return false;
	err = connect(fd, &addr->sa, addr->bytes) < 0 ? errno : 0;
	close(fd);
	return err == ECONNREFUSED;
}

static int bind_listen(int fd, const struct fab_addr *addr)
{
	int one = 1;

	if (addr->transport == FAB_TRANSPORT_TCP)
		(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	else if (stale(addr))
		unlink(addr->un.sun_path);
	if (bind(fd, &addr->sa, addr->bytes) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	return 0;
}

static void listener_name(struct fab_listener *l, const char *address)
{
	socklen_t bytes = sizeof(l->addr.in);
	char host[INET_ADDRSTRLEN];

	if (l->addr.transport == FAB_TRANSPORT_SHM) {
		snprintf(l->text, sizeof(l->text), "%s", address);
		return;
	}
	ASSERT(getsockname(l->fd, &l->addr.sa, &bytes) == 0);
	inet_ntop(AF_INET, &l->addr.in.sin_addr, host, sizeof(host));
	snprintf(l->text, sizeof(l->text), "tcp://%s:%u", host, ntohs(l->addr.in.sin_port));
}

int fab_server_listen(struct fab_server *srv, const char *address, char *why)
{
	struct fab_control *c = &srv->control;
	struct fab_listener *l = &c->listeners[c->listener_count];
	char line[FAB_WHY_MAX];
	int err;

	if (!why)
		why = line;
	if (c->listener_count == FAB_LISTENERS_MAX) {
		snprintf(why, FAB_WHY_MAX, "at most %u addresses", FAB_LISTENERS_MAX);
		return -EINVAL;
	}
	err = fab__addr_parse(&l->addr, address, why);
	if (err)
		return err;
	l->fd = fab__addr_socket(&l->addr);
	err = l->fd < 0 ? l->fd : bind_listen(l->fd, &l->addr);
	if (err) {
		if (l->fd >= 0)
			close(l->fd);
		snprintf(why, FAB_WHY_MAX, "\"%.100s\": %s", address, strerror(-err));
		return err;
	}
	listener_name(l, address);
	l->watch.type = WATCH_LISTENER;
	fab__control_watch(srv, l->fd, &l->watch);
	c->listener_count++;
	return 0;
}

const char *fab_server_address(const struct fab_server *srv, uint32_t i)
{
	return i < srv->control.listener_count ? srv->control.listeners[i].text : NULL;
}

static void listeners_close(struct fab_server *srv)
{
	struct fab_control *c = &srv->control;

	for (uint32_t i = 0; i < c->listener_count; i++) {
		close(c->listeners[i].fd);
		if (c->listeners[i].addr.transport == FAB_TRANSPORT_SHM)
			unlink(c->listeners[i].addr.un.sun_path);
	}
	c->listener_count = 0;
}

/* ---- guests -----------------------------------------------------------------------------------
 */

static void guest_close(struct fab_guest *g)
{
	close(g->fd);
	g->fd = -1;
}

static const char *transport_name(uint8_t transport)
{
	return transport == FAB_TRANSPORT_SHM ? "shm" : "tcp";
}

/* Push what the hello has to say; a guest that does not read loses it. */
static void guest_push(struct fab_guest *g)
{
	struct fab_hello *h = &g->hello;

	while (h->out_bytes > 0) {
		ssize_t sent = send(g->fd, h->out, h->out_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent <= 0)
			return;
		memmove(h->out, h->out + sent, h->out_bytes - (size_t)sent);
		h->out_bytes -= (uint32_t)sent;
	}
}

static void guest_refuse(struct fab_server *srv, struct fab_guest *g, uint64_t now_ns)
{
	fab__refused(srv, transport_name(g->transport), g->hello.why);
	guest_push(g);
	shutdown(g->fd, SHUT_WR);
	g->refused = true;
	g->deadline_ns = now_ns + LINGER_NS;
}

static void guest_deny(struct fab_server *srv, struct fab_guest *g, int err, const char *why,
		       uint64_t now_ns)
{
	snprintf(g->hello.why, sizeof(g->hello.why), "%s", why);
	fab__hello_refuse(&g->hello, err, why);
	guest_refuse(srv, g, now_ns);
}

static struct fab_guest *guest_free(struct fab_server *srv)
{
	for (uint32_t i = 0; i < FAB_HELLOS_MAX; i++)
		if (srv->control.guests[i].fd < 0)
			return &srv->control.guests[i];
	return NULL;
}

static void guest_begin(struct fab_server *srv, struct fab_guest *g, int fd, uint8_t transport,
			uint64_t now_ns)
{
	uint8_t nonce[32];
	char why[FAB_WHY_MAX];
	int one = 1;

	ASSERT(getrandom(nonce, sizeof(nonce), 0) == sizeof(nonce));
	g->fd = fd;
	g->transport = transport;
	g->refused = false;
	g->deadline_ns = now_ns + srv->cfg.hello_timeout_ns;
	g->watch.type = WATCH_HELLO;
	fab__hello_server(&g->hello, &srv->cfg.key, transport, &srv->cfg.limits, nonce);
	g->hello.core_count = srv->cfg.core_count;
	g->hello.shard_count = srv->cfg.shard_count;
	fab__control_watch(srv, fd, &g->watch);
	if (transport == FAB_TRANSPORT_TCP)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	else if (fab__peer_uid_check(fd, why))
		guest_deny(srv, g, -EACCES, why, now_ns);
}

static void accept_all(struct fab_server *srv, struct fab_listener *l, uint64_t now_ns)
{
	struct fab_guest *g;

	while ((g = guest_free(srv)) != NULL) {
		int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0)
			return; /* none left, or out of descriptors: the next step tries again */
		guest_begin(srv, g, fd, l->addr.transport, now_ns);
	}
	listeners_watch(srv, true);
}

static void guest_discard(struct fab_guest *g)
{
	uint8_t rest[256];
	ssize_t got = recv(g->fd, rest, sizeof(rest), MSG_DONTWAIT);

	if (got == 0 || (got < 0 && errno != EAGAIN))
		guest_close(g);
}

/* The key is proved: a session, if there is room. */
static void guest_welcome(struct fab_server *srv, struct fab_guest *g, uint64_t now_ns)
{
	int err;

	ASSERT(epoll_ctl(srv->control.epoll_fd, EPOLL_CTL_DEL, g->fd, NULL) == 0);
	err = fab__control_open(srv, g);
	if (!err) {
		g->fd = -1; /* the session's now */
		return;
	}
	fab__control_watch(srv, g->fd, &g->watch);
	guest_deny(srv, g, err,
		   err == -EUSERS ? "the appliance serves as many sessions as it may"
				  : "the appliance could not make the session's memory",
		   now_ns);
}

static void guest_input(struct fab_server *srv, struct fab_guest *g, uint64_t now_ns)
{
	struct fab_hello *h = &g->hello;
	ssize_t got;
	int err;

	if (g->refused) {
		guest_discard(g);
		return;
	}
	got = recv(g->fd, h->in + h->in_bytes, fab__hello_want(h), MSG_DONTWAIT);
	if (got < 0 && errno == EAGAIN)
		return;
	if (got <= 0) {
		fab__refused(srv, transport_name(g->transport),
			     "the peer left in the middle of the hello");
		guest_close(g);
		return;
	}
	h->in_bytes += (uint32_t)got;
	err = fab__hello_step(h);
	if (err < 0)
		guest_refuse(srv, g, now_ns);
	else if (err == 1)
		guest_welcome(srv, g, now_ns);
	else
		guest_push(g);
}

static void guests_expire(struct fab_server *srv, uint64_t now_ns)
{
	for (uint32_t i = 0; i < FAB_HELLOS_MAX; i++) {
		struct fab_guest *g = &srv->control.guests[i];

		if (g->fd < 0 || now_ns < g->deadline_ns)
			continue;
		if (g->refused)
			guest_close(g);
		else
			guest_deny(srv, g, -ETIMEDOUT, "the hello took too long", now_ns);
	}
}

/* ---- the step
 * ------------------------------------------------------------------------------------- */

static void control_stop(struct fab_server *srv)
{
	struct fab_control *c = &srv->control;

	c->stopped = true;
	listeners_close(srv);
	for (uint32_t i = 0; i < FAB_HELLOS_MAX; i++)
		if (c->guests[i].fd >= 0)
			guest_close(&c->guests[i]);
}

static void control_input(struct fab_server *srv, uint64_t now_ns)
{
	struct epoll_event evs[EVENTS_AT_ONCE];
	int count = epoll_wait(srv->control.epoll_fd, evs, EVENTS_AT_ONCE, 0);
	uint64_t drain;

	for (int i = 0; i < count; i++) {
		struct fab_watch *w = evs[i].data.ptr;

		if (w->type == WATCH_LISTENER)
			accept_all(srv, container_of(w, struct fab_listener, watch), now_ns);
		else if (w->type == WATCH_HELLO)
			guest_input(srv, container_of(w, struct fab_guest, watch), now_ns);
		else if (w->type == WATCH_SESSION)
			fab__control_input(container_of(w, struct fab__session, control.watch));
		else if (read(srv->control.wake_fd, &drain, sizeof(drain)) < 0)
			continue; /* somebody has read it already */
	}
}

static uint32_t refusal_events(struct fab_server *srv, struct fab_control_event *events,
			       uint32_t events_max)
{
	struct fab_control *c = &srv->control;
	uint32_t n = 0;

	while (c->refusal_count > 0 && n < events_max) {
		events[n] = (struct fab_control_event){ .type = FAB_CONTROL_REFUSED };
		memcpy(events[n++].text, c->refusals[0], FAB_WHY_MAX);
		c->refusal_count--;
		memmove(c->refusals[0], c->refusals[1], c->refusal_count * sizeof(c->refusals[0]));
	}
	return n;
}

uint32_t fab_server_control_step(struct fab_server *srv, uint64_t now_ns,
				 struct fab_control_event *events, uint32_t events_max)
{
	struct fab_control *c = &srv->control;
	uint32_t n;

	if (!c->stopped && atomic_load_explicit(&srv->stop, memory_order_relaxed))
		control_stop(srv);
	control_input(srv, now_ns);
	fab__control_messages(srv);
	guests_expire(srv, now_ns);
	if (c->full && guest_free(srv))
		listeners_watch(srv, false);
	n = fab__control_pool_events(srv, events, events_max);
	return n + refusal_events(srv, events + n, events_max - n);
}

int fab_server_control_fd(const struct fab_server *srv)
{
	return srv->control.epoll_fd;
}

uint64_t fab_server_control_deadline(const struct fab_server *srv)
{
	uint64_t deadline = UINT64_MAX;

	if (srv->control.refusal_count > 0 || !list_empty(&srv->control.pools_due))
		return 0;
	for (uint32_t i = 0; i < FAB_HELLOS_MAX; i++)
		if (srv->control.guests[i].fd >= 0)
			deadline = min_u64(deadline, srv->control.guests[i].deadline_ns);
	return deadline;
}

int fab__control_create(struct fab_server *srv)
{
	struct fab_control *c = &srv->control;

	list_init(&c->pools_due);
	c->next_session_id = 1;
	for (uint32_t i = 0; i < FAB_HELLOS_MAX; i++)
		c->guests[i].fd = -1;
	c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (c->epoll_fd < 0)
		return -errno;
	c->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (c->wake_fd < 0) {
		int err = -errno;

		close(c->epoll_fd);
		return err;
	}
	c->wake_watch.type = WATCH_WAKE;
	fab__control_watch(srv, c->wake_fd, &c->wake_watch);
	return 0;
}

void fab__control_destroy(struct fab_server *srv)
{
	for (uint32_t i = 0; i < srv->cfg.sessions_max; i++)
		ASSERT(!srv->sessions[i].control.used);
	control_stop(srv);
	close(srv->control.wake_fd);
	close(srv->control.epoll_fd);
}
