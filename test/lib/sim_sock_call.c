/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The calls of the simulated kernel: see sim_sock.h.  The linker sends them here (--wrap), and here
 * those about descriptors of the system's go on to it.
 */
#define _GNU_SOURCE
#include "test/lib/sim_sock_internal.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define NET        0x0a000000u /* 10.0.0.HOST */
#define WALL       UINT64_C(1700000000000000000)
#define PIECES_MAX 6u

#define CALL(type, name, ...)                                                                      \
	type __real_##name(__VA_ARGS__);                                                           \
	type __wrap_##name(__VA_ARGS__);                                                           \
	type __wrap_##name(__VA_ARGS__)

/* ---- descriptors ----------------------------------------------------------------------- */

struct sim_obj *sim__obj(int fd)
{
	uint32_t i = (uint32_t)(fd - SIM_FD_BASE);

	return fd >= SIM_FD_BASE && i < SIM_FDS_MAX ? sim__sock->fd[i] : NULL;
}

static bool ours(int fd)
{
	return fd >= SIM_FD_BASE;
}

static int wrong(int err)
{
	errno = err;
	return -1;
}

static int obj_new(enum sim_obj_type type)
{
	for (uint32_t i = 0; i < SIM_FDS_MAX; i++) {
		if (sim__sock->fd[i])
			continue;
		sim__sock->fd[i] = calloc(1, sizeof(struct sim_obj));
		ASSERT(sim__sock->fd[i]);
		sim__sock->fds = max_u32(sim__sock->fds, i + 1);
		sim__sock->fd[i]->type = type;
		sim__sock->fd[i]->host = sim__sock->host_now;
		for (uint32_t k = 0; k < SIM_WATCHES; k++)
			sim__sock->fd[i]->watch[k].fd = -1;
		return SIM_FD_BASE + (int)i;
	}
	return wrong(EMFILE);
}

struct sim_obj *sim__listener(uint32_t address, uint16_t port)
{
	for (uint32_t i = 0; i < sim__sock->fds; i++) {
		struct sim_obj *o = sim__sock->fd[i];

		if (o && o->type == SIM_LISTENER && o->listens && !o->dead &&
		    o->address == address && o->port == port)
			return o;
	}
	return NULL;
}

static struct sim_obj *typed(int fd, enum sim_obj_type type)
{
	struct sim_obj *o = sim__obj(fd);

	if (o && o->type == type)
		return o;
	errno = o ? ENOTSOCK : EBADF;
	return NULL;
}

static void unwatch_all(int fd)
{
	for (uint32_t i = 0; i < sim__sock->fds; i++)
		for (uint32_t k = 0; sim__sock->fd[i] && k < sim__sock->fd[i]->watches; k++)
			if (sim__sock->fd[i]->watch[k].fd == fd)
				sim__sock->fd[i]->watch[k].fd = -1;
}

CALL(int, close, int fd)
{
	struct sim_obj *o = sim__obj(fd);

	if (!ours(fd))
		return __real_close(fd);
	if (!o)
		return wrong(EBADF);
	if (o->type == SIM_STREAM && o->conn)
		sim__end_close(o->conn, o->end);
	for (uint32_t i = 0; i < o->queued; i++) {
		o->queue[i]->queued = false;
		sim__end_close(o->queue[i], 1);
	}
	unwatch_all(fd);
	sim__sock->fd[fd - SIM_FD_BASE] = NULL;
	free(o);
	sim__sock->next_ns = 0;
	return 0;
}

/* ---- sockets --------------------------------------------------------------------------- */

CALL(int, socket, int domain, int type, int protocol)
{
	if (domain != AF_INET)
		return __real_socket(domain, type, protocol);
	return obj_new(SIM_STREAM);
}

CALL(int, fcntl, int fd, int command, ...)
{
	va_list args;
	long arg;

	va_start(args, command);
	arg = va_arg(args, long);
	va_end(args);
	return ours(fd) ? 0 : __real_fcntl(fd, command, arg);
}

CALL(int, bind, int fd, const struct sockaddr *sa, socklen_t bytes)
{
	struct sim_obj *o = typed(fd, SIM_STREAM);
	const struct sockaddr_in *in = (const void *)sa;

	if (!ours(fd))
		return __real_bind(fd, sa, bytes);
	if (!o)
		return -1;
	o->port = ntohs(in->sin_port);
	if (!o->port)
		o->port = sim__sock->port_next++;
	o->address = ntohl(in->sin_addr.s_addr) - NET;
	if (o->address >= SIM_HOSTS_MAX || sim__owner(o->address) != &sim__sock->host[o->host])
		return wrong(EADDRNOTAVAIL);
	return sim__listener(o->address, o->port) ? wrong(EADDRINUSE) : 0;
}

CALL(int, listen, int fd, int backlog)
{
	struct sim_obj *o = typed(fd, SIM_STREAM);

	if (!ours(fd))
		return __real_listen(fd, backlog);
	if (!o)
		return -1;
	o->type = SIM_LISTENER;
	o->listens = true;
	return 0;
}

CALL(int, accept4, int fd, struct sockaddr *sa, socklen_t *bytes, int flags)
{
	struct sim_obj *l = typed(fd, SIM_LISTENER), *o;
	struct sim_conn *c;
	int got;

	if (!ours(fd))
		return __real_accept4(fd, sa, bytes, flags);
	if (!l)
		return -1;
	if (l->queued == 0 || l->dead)
		return wrong(EAGAIN);
	got = obj_new(SIM_STREAM);
	if (got < 0)
		return -1;
	o = sim__obj(got);
	c = l->queue[0];
	memmove(l->queue, l->queue + 1, --l->queued * sizeof(l->queue[0]));
	c->queued = false;
	c->end[1] = o;
	o->host = l->host;
	o->conn = c;
	o->end = 1;
	if (c->gone[1])
		o->err = -ECONNRESET;
	return got;
}

CALL(int, connect, int fd, const struct sockaddr *sa, socklen_t bytes)
{
	const struct sockaddr_in *in = (const void *)sa;
	struct sim_obj *o = typed(fd, SIM_STREAM);
	uint32_t host;

	if (!ours(fd))
		return __real_connect(fd, sa, bytes);
	if (!o)
		return -1;
	ASSERT(sa->sa_family == AF_INET && !o->conn);
	host = ntohl(in->sin_addr.s_addr) - NET;
	if (host >= SIM_HOSTS_MAX)
		return wrong(ENETUNREACH);
	o->conn = sim__conn_new(o, host, ntohs(in->sin_port));
	o->end = 0;
	return wrong(EINPROGRESS);
}

static void name_of(uint32_t host, uint16_t port, struct sockaddr *sa, socklen_t *bytes)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };

	in.sin_addr.s_addr = htonl(NET + host);
	memcpy(sa, &in, min_u32(*bytes, sizeof(in)));
	*bytes = sizeof(in);
}

static bool is_open(const struct sim_obj *o)
{
	return o->conn && o->conn->at == SIM_OPEN && (o->end == 1 || o->conn->open_told);
}

CALL(int, getpeername, int fd, struct sockaddr *sa, socklen_t *bytes)
{
	struct sim_obj *o = typed(fd, SIM_STREAM);

	if (!ours(fd))
		return __real_getpeername(fd, sa, bytes);
	if (!o || !is_open(o) || o->err)
		return wrong(ENOTCONN);
	name_of(o->conn->host[1 - o->end], o->conn->port[1 - o->end], sa, bytes);
	return 0;
}

CALL(int, getsockname, int fd, struct sockaddr *sa, socklen_t *bytes)
{
	struct sim_obj *o = sim__obj(fd);

	if (!ours(fd))
		return __real_getsockname(fd, sa, bytes);
	if (!o)
		return wrong(EBADF);
	name_of(o->conn ? o->conn->host[o->end] : o->address, o->port, sa, bytes);
	return 0;
}

CALL(int, getsockopt, int fd, int level, int option, void *value, socklen_t *bytes)
{
	struct sim_obj *o = typed(fd, SIM_STREAM);

	if (!ours(fd))
		return __real_getsockopt(fd, level, option, value, bytes);
	if (!o)
		return -1;
	if (level != SOL_SOCKET || option != SO_ERROR)
		return wrong(ENOPROTOOPT);
	*(int *)value = -o->err;
	return 0;
}

CALL(int, setsockopt, int fd, int level, int option, const void *value, socklen_t bytes)
{
	struct sim_obj *o = sim__obj(fd);
	uint32_t v = *(const uint32_t *)value;

	if (!ours(fd))
		return __real_setsockopt(fd, level, option, value, bytes);
	if (!o)
		return wrong(EBADF);
	if (level == SOL_SOCKET && option == SO_KEEPALIVE)
		o->keepalive = v;
	else if (level == IPPROTO_TCP && option == TCP_USER_TIMEOUT)
		o->user_timeout_ms = v;
	else if (level == IPPROTO_TCP && option == TCP_KEEPIDLE)
		o->idle_s = v;
	else if (level == IPPROTO_TCP && option == TCP_KEEPINTVL)
		o->probe_s = v;
	else if (level == IPPROTO_TCP && option == TCP_KEEPCNT)
		o->probes = v;
	else if (level == SOL_SOCKET && option == SO_ZEROCOPY)
		return wrong(ENOPROTOOPT);
	return 0;
}

CALL(int, shutdown, int fd, int how)
{
	struct sim_obj *o = typed(fd, SIM_STREAM);

	if (!ours(fd))
		return __real_shutdown(fd, how);
	if (!o || !is_open(o))
		return wrong(ENOTCONN);
	if (how != SHUT_WR)
		o->shut_read = true;
	if (how != SHUT_RD && !o->shut_write) {
		o->shut_write = true;
		if (!o->err && !o->conn->flow[o->end].lost)
			sim__send(o->conn, o->end, SIM_FIN, NULL, 0);
	}
	sim__event(o);
	return 0;
}

/* ---- bytes ----------------------------------------------------------------------------- */

/* In pieces of any size; and a kernel may take fewer than there is room for. */
static ssize_t stream_send(struct sim_obj *o, const uint8_t *bytes, size_t size)
{
	struct sim_flow *f;
	uint32_t taken, at = 0, pieces;

	if (o->dead || o->shut_write)
		return wrong(EPIPE);
	if (sim__sock->host[o->host].fails && *sim__sock->host[o->host].fails)
		return (ssize_t)size; /* the rest of a turn in which the power has failed */
	if (o->err)
		return wrong(-o->err);
	if (!is_open(o))
		return wrong(o->conn ? EAGAIN : ENOTCONN);
	f = &o->conn->flow[o->end];
	taken = (uint32_t)min_u64(sim__send_room(f), size);
	if (taken == 0) {
		f->stuck = true;
		sim_sock_stat.full++;
		return wrong(EAGAIN);
	}
	if (rand_below(&sim__sock->rand, 16) == 0)
		taken = 1 + (uint32_t)rand_below(&sim__sock->rand, taken);
	pieces = rand_below(&sim__sock->rand, 2)
			 ? 1
			 : 1 + (uint32_t)rand_below(&sim__sock->rand, PIECES_MAX);
	while (at < taken) {
		uint32_t n = taken - at;

		if (--pieces > 0)
			n = 1 + (uint32_t)rand_below(&sim__sock->rand, n);
		else
			pieces = 1;
		sim__send(o->conn, o->end, SIM_DATA, bytes + at, n);
		at += n;
	}
	return taken;
}

static ssize_t stream_recv(struct sim_obj *o, uint8_t *to, size_t size, bool peek)
{
	struct sim_flow *f;
	size_t got = 0;

	if (o->dead)
		return wrong(ECONNRESET);
	if (!o->conn)
		return wrong(ENOTCONN);
	f = &o->conn->flow[1 - o->end];
	while (got < size && !list_empty(&f->ready)) {
		struct sim_segment *s = list_entry(f->ready.next, struct sim_segment, node);
		uint32_t n = (uint32_t)min_u64(size - got, s->size - s->at);

		memcpy(to + got, s->bytes + s->at, n);
		got += n;
		if (peek)
			break;
		s->at += n;
		f->ready_bytes -= n;
		if (s->at == s->size) {
			list_del(&s->node);
			free(s);
		}
		sim__sock->next_ns = 0; /* there is room for more */
	}
	if (got > 0)
		return (ssize_t)got;
	if (o->err)
		return wrong(-o->err);
	return f->fin || o->shut_read ? 0 : wrong(EAGAIN);
}

CALL(ssize_t, send, int fd, const void *bytes, size_t size, int flags)
{
	struct sim_obj *o = typed(fd, SIM_STREAM);

	if (!ours(fd))
		return __real_send(fd, bytes, size, flags);
	return o ? stream_send(o, bytes, size) : -1;
}

CALL(ssize_t, sendmsg, int fd, const struct msghdr *msg, int flags)
{
	struct sim_obj *o = typed(fd, SIM_STREAM);
	ssize_t all = 0;

	if (!ours(fd))
		return __real_sendmsg(fd, msg, flags);
	if (!o)
		return -1;
	for (size_t i = 0; i < msg->msg_iovlen; i++) {
		const struct iovec *v = &msg->msg_iov[i];
		ssize_t sent = v->iov_len > 0 ? stream_send(o, v->iov_base, v->iov_len) : 0;

		if (sent < 0)
			return all > 0 ? all : sent;
		all += sent;
		if ((size_t)sent < v->iov_len)
			break;
	}
	return all;
}

CALL(ssize_t, recv, int fd, void *to, size_t size, int flags)
{
	struct sim_obj *o = typed(fd, SIM_STREAM);

	if (!ours(fd))
		return __real_recv(fd, to, size, flags);
	return o ? stream_recv(o, to, size, flags & MSG_PEEK) : -1;
}

CALL(ssize_t, recvmsg, int fd, struct msghdr *msg, int flags)
{
	struct sim_obj *o = typed(fd, SIM_STREAM);
	ssize_t all = 0;

	if (!ours(fd))
		return __real_recvmsg(fd, msg, flags);
	if (!o)
		return -1;
	if (flags & MSG_ERRQUEUE)
		return wrong(EAGAIN);
	msg->msg_controllen = 0;
	msg->msg_flags = 0;
	for (size_t i = 0; i < msg->msg_iovlen; i++) {
		struct iovec *v = &msg->msg_iov[i];
		ssize_t got = stream_recv(o, v->iov_base, v->iov_len, flags & MSG_PEEK);

		if (got < 0)
			return all > 0 ? all : got;
		all += got;
		if ((size_t)got < v->iov_len)
			break;
	}
	return all;
}

CALL(ssize_t, read, int fd, void *to, size_t size)
{
	struct sim_obj *o = typed(fd, SIM_EVENTFD);

	if (!ours(fd))
		return __real_read(fd, to, size);
	if (!o)
		return -1;
	if (o->count == 0)
		return wrong(EAGAIN);
	memcpy(to, &o->count, sizeof(o->count));
	o->count = 0;
	return sizeof(o->count);
}

CALL(ssize_t, write, int fd, const void *from, size_t size)
{
	struct sim_obj *o = typed(fd, SIM_EVENTFD);
	uint64_t add;

	if (!ours(fd))
		return __real_write(fd, from, size);
	if (!o)
		return -1;
	memcpy(&add, from, sizeof(add));
	o->count += add;
	sim__event(o);
	return sizeof(add);
}

/* ---- waiting --------------------------------------------------------------------------- */

static uint32_t stream_ready(const struct sim_obj *o)
{
	const struct sim_flow *in, *out;
	uint32_t mask = 0;

	if (o->dead || o->err)
		return EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLRDHUP;
	if (!o->conn)
		return EPOLLOUT | EPOLLHUP;
	if (!is_open(o))
		return 0;
	in = &o->conn->flow[1 - o->end];
	out = &o->conn->flow[o->end];
	if (in->ready_bytes > 0)
		mask |= EPOLLIN;
	if (in->fin || o->shut_read)
		mask |= EPOLLIN | EPOLLRDHUP | (o->shut_write ? EPOLLHUP : 0u);
	if (sim__send_room(out) >= out->send_max / 3 && !o->shut_write)
		mask |= EPOLLOUT;
	return mask;
}

static uint32_t plain_ready(const struct sim_obj *o)
{
	if (o->type == SIM_STREAM)
		return stream_ready(o);
	if (o->type == SIM_LISTENER)
		return o->queued > 0 && !o->dead ? EPOLLIN : 0;
	if (o->type == SIM_EVENTFD)
		return EPOLLOUT | (o->count > 0 ? EPOLLIN : 0u);
	if (o->type == SIM_TIMER)
		return o->due_ns && sim__sock->now_ns >= o->due_ns ? EPOLLIN : 0;
	return 0;
}

/* Returns the events to report for it; 0: nothing new. */
static uint32_t watch_ready(const struct sim_watch *w)
{
	struct sim_obj *o = sim__obj(w->fd);

	if (w->fd < 0 || !o || !(w->events & ~(uint32_t)EPOLLET))
		return 0;
	if ((w->events & EPOLLET) && w->seen == o->event)
		return 0;
	return plain_ready(o) & (w->events | EPOLLERR | EPOLLHUP);
}

static bool epoll_ready(const struct sim_obj *o)
{
	for (uint32_t i = 0; i < o->watches; i++)
		if (watch_ready(&o->watch[i]))
			return true;
	return false;
}

bool sim_sock_unread(uint32_t host)
{
	for (uint32_t i = 0; i < sim__sock->fds; i++) {
		const struct sim_obj *o = sim__sock->fd[i];

		if (o && o->type == SIM_STREAM && o->host == host && !o->dead && o->conn &&
		    o->conn->flow[1 - o->end].ready_bytes > 0)
			return true;
	}
	return false;
}

bool sim_sock_readable(int fd)
{
	struct sim_obj *o = sim__obj(fd);

	ASSERT(o);
	if (o->type != SIM_EPOLL)
		return plain_ready(o) & EPOLLIN;
	if (epoll_ready(o))
		return true;
	for (uint32_t i = 0; i < o->watches; i++) { /* and the epolls in it */
		const struct sim_obj *in = sim__obj(o->watch[i].fd);

		if (in && in->type == SIM_EPOLL && epoll_ready(in))
			return true;
	}
	return false;
}

CALL(int, epoll_create1, int flags)
{
	(void)flags;
	return obj_new(SIM_EPOLL);
}

CALL(int, eventfd, unsigned count, int flags)
{
	int fd = obj_new(SIM_EVENTFD);

	(void)flags;
	if (fd >= 0)
		sim__obj(fd)->count = count;
	return fd;
}

CALL(int, timerfd_create, int clock, int flags)
{
	(void)clock;
	(void)flags;
	return obj_new(SIM_TIMER);
}

CALL(int, timerfd_settime, int fd, int flags, const struct itimerspec *t, struct itimerspec *old)
{
	struct sim_obj *o = typed(fd, SIM_TIMER);
	uint64_t ns;

	(void)old;
	ASSERT(o && flags == 0);
	ns = (uint64_t)t->it_value.tv_sec * NS_PER_S + (uint64_t)t->it_value.tv_nsec;
	o->due_ns = ns ? sim__sock->now_ns + ns : 0;
	return 0;
}

static struct sim_watch *watch_find(struct sim_obj *o, int fd)
{
	for (uint32_t i = 0; i < SIM_WATCHES; i++)
		if (o->watch[i].fd == fd)
			return &o->watch[i];
	return NULL;
}

CALL(int, epoll_ctl, int epoll, int op, int fd, struct epoll_event *event)
{
	struct sim_obj *o = typed(epoll, SIM_EPOLL);
	struct sim_watch *w;

	ASSERT(o && ours(fd));
	if (!sim__obj(fd))
		return wrong(EBADF);
	w = watch_find(o, fd);
	if (op == EPOLL_CTL_ADD && w)
		return wrong(EEXIST);
	if (op != EPOLL_CTL_ADD && !w)
		return wrong(ENOENT);
	if (op == EPOLL_CTL_ADD)
		w = watch_find(o, -1);
	ASSERT(w);
	o->watches = max_u32(o->watches, (uint32_t)(w - o->watch) + 1);
	w->fd = op == EPOLL_CTL_DEL ? -1 : fd;
	if (op == EPOLL_CTL_DEL)
		return 0;
	w->events = event->events;
	w->data = event->data.u64;
	w->seen = sim__obj(fd)->event - 1; /* what is there now is told once */
	return 0;
}

CALL(int, epoll_wait, int epoll, struct epoll_event *out, int max, int timeout_ms)
{
	struct sim_obj *o = typed(epoll, SIM_EPOLL);
	int count = 0;

	ASSERT(o && timeout_ms == 0);
	for (uint32_t i = 0; i < o->watches && count < max; i++) {
		struct sim_watch *w = &o->watch[(o->next + i) % o->watches];
		uint32_t events = watch_ready(w);

		if (!events)
			continue;
		w->seen = sim__obj(w->fd)->event;
		out[count].events = events;
		out[count++].data.u64 = w->data;
	}
	o->next++;
	return count;
}

static void idle(void)
{
	ASSERT(!sim__sock->in_idle);
	sim__sock->in_idle = true;
	sim__sock->idle();
	sim__sock->in_idle = false;
}

CALL(int, ppoll, struct pollfd *fds, nfds_t count, const struct timespec *timeout,
     const sigset_t *mask)
{
	uint64_t until_ns = SIM_NO_TIME;

	if (count != 1 || !ours(fds->fd))
		return __real_ppoll(fds, count, timeout, mask);
	if (timeout)
		until_ns = sim__sock->now_ns + (uint64_t)timeout->tv_sec * NS_PER_S +
			   (uint64_t)timeout->tv_nsec;
	for (;;) {
		if (sim_sock_readable(fds->fd)) {
			fds->revents = POLLIN;
			return 1;
		}
		if (sim__sock->now_ns >= until_ns)
			return 0;
		ASSERT(!sim__sock->in_idle);
		idle();
	}
}

/* ---- time and chance ------------------------------------------------------------------- */

void sim_sock_waits(bool waits)
{
	sim__sock->waits = waits;
}

CALL(uint64_t, clock_now_ns, void)
{
	if (sim__sock->waits && !sim__sock->in_idle) /* else it would poll for ever */
		idle();
	return sim__sock->now_ns;
}

CALL(uint64_t, clock_wall_ns, void)
{
	return WALL + sim__sock->now_ns;
}

CALL(ssize_t, getrandom, void *to, size_t size, unsigned flags)
{
	uint8_t *at = to;

	(void)flags;
	for (size_t i = 0; i < size; i++)
		at[i] = (uint8_t)rand_u64(&sim__sock->rand);
	return (ssize_t)size;
}
