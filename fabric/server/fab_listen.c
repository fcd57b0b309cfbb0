/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Listening addresses: made, watched, accepted from, closed.
 *
 * While all places for arrivals are taken, listeners are not watched, and newcomers wait in the
 * kernel's backlog.  The same holds for a second after the kernel could not accept (no descriptor
 * is left): the listener stays readable, and a control thread that watched it would spin.
 */
#define _GNU_SOURCE /* O_PATH */
#include "fabric/hello/fab_server_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAUSE_NS UINT64_C(1000000000)

/* A socket file without a listener, left behind by a kill, may be removed. */
static bool stale(const struct fab_addr *addr)
{
	struct stat st;
	int fd, err;

	ASSERT(addr->transport == FAB_TRANSPORT_SHM);
	if (lstat(addr->un.sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return false;
	fd = fab__addr_socket(addr);
	if (fd < 0)
		return false;
	err = connect(fd, &addr->sa, addr->bytes) < 0 ? errno : 0;
	close(fd);
	return err == ECONNREFUSED;
}

/* Sets group and mode of the socket that `file` was opened with (O_PATH). */
static int socket_mode(const struct fab_server_cfg *cfg, int file)
{
	char path[sizeof("/proc/self/fd/") + 10];

	ASSERT(file >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	if (cfg->shm_has_group && fchownat(file, "", (uid_t)-1, cfg->shm_group, AT_EMPTY_PATH) < 0)
		return -errno;
	return chmod(path, cfg->shm_mode ? cfg->shm_mode : 0600) < 0 ? -errno : 0;
}

/* No client can connect before listen(): so the mode that bind() chose admits none. */
static int listen_shm(const struct fab_server_cfg *cfg, int fd, const char *path)
{
	int file = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC), err;
	struct stat st;

	ASSERT(fd >= 0 && path[0] == '/');
	if (file < 0 || fstat(file, &st) < 0)
		err = -errno;
	else if (!S_ISSOCK(st.st_mode))
		err = -EEXIST; /* another user of the directory has replaced it */
	else
		err = socket_mode(cfg, file);
	if (!err && listen(fd, FAB_BACKLOG) < 0)
		err = -errno;
	if (file >= 0)
		close(file);
	if (err && err != -EEXIST)
		unlink(path);
	return err;
}

static int bind_listen(const struct fab_server_cfg *cfg, int fd, const struct fab_addr *addr)
{
	const bool shm = addr->transport == FAB_TRANSPORT_SHM;
	int err = 0;

	ASSERT(fd >= 0);
	if (!shm)
		err = fab__tcp_listen_options(fd, addr);
	else if (stale(addr))
		unlink(addr->un.sun_path);
	if (err)
		return err;
	if (bind(fd, &addr->sa, addr->bytes) < 0)
		return -errno;
	if (shm)
		return listen_shm(cfg, fd, addr->un.sun_path);
	return listen(fd, FAB_BACKLOG) < 0 ? -errno : 0;
}

static void listener_name(struct fab_listener *l, const char *address)
{
	socklen_t bytes = l->addr.bytes;
	char at[64];

	if (l->addr.transport == FAB_TRANSPORT_SHM) {
		snprintf(l->text, sizeof(l->text), "%s", address);
		return;
	}
	ASSERT(getsockname(l->fd, &l->addr.sa, &bytes) == 0);
	fab__inet_text(&l->addr.sa, at, sizeof(at));
	snprintf(l->text, sizeof(l->text), "%s://%s", l->addr.tls ? "tls" : "tcp", at);
}

int fab_server_listen(struct fab_server *srv, const char *address, char *why)
{
	struct fab_control *c = srv->control;
	struct fab_listener *l = &c->listeners[c->listener_count];
	char line[FAB_WHY_MAX];
	int err;

	ASSERT(srv == c->cores[0] && c->listener_count <= FAB_LISTENERS_MAX);
	if (!why)
		why = line;
	if (c->listener_count == FAB_LISTENERS_MAX) {
		snprintf(why, FAB_WHY_MAX, "at most %u addresses", FAB_LISTENERS_MAX);
		return -EINVAL;
	}
	err = fab__addr_parse(&l->addr, address, why);
	if (err)
		return err;
	if (l->addr.transport == FAB_TRANSPORT_RDMA) {
		l->fd = -1;
		err = fab__rdma_listen(srv, l, why);
		c->listener_count += !err;
		return err;
	}
	l->addr.tls |= srv->cfg.tls_required && l->addr.transport == FAB_TRANSPORT_TCP;
	err = l->addr.tls ? fab__arrival_tls_prepare(srv) : 0;
	if (err) {
		snprintf(why, FAB_WHY_MAX, "\"%.100s\": no memory for TLS", address);
		return err;
	}
	l->fd = fab__addr_socket(&l->addr);
	err = l->fd < 0 ? l->fd : bind_listen(&srv->cfg, l->fd, &l->addr);
	if (err) {
		if (l->fd >= 0)
			close(l->fd);
		snprintf(why, FAB_WHY_MAX, "\"%.100s\": %s", address, strerror(-err));
		return err;
	}
	listener_name(l, address);
	l->watch.type = WATCH_LISTENER;
	err = fab__control_watch(srv, l->fd, &l->watch);
	if (err) {
		close(l->fd);
		snprintf(why, FAB_WHY_MAX, "\"%.100s\": epoll: %s", address, strerror(-err));
		return err;
	}
	c->listener_count++;
	return 0;
}

/* A socket file without a listener would be replaced. */
static int look_path(const struct fab_addr *addr)
{
	const char *path = addr->un.sun_path, *slash = strrchr(path, '/');
	char dir[sizeof(addr->un.sun_path)];
	struct stat st;

	ASSERT(addr->transport == FAB_TRANSPORT_SHM);
	if (lstat(path, &st) == 0)
		return !S_ISSOCK(st.st_mode) ? -EEXIST : stale(addr) ? 0 : -EADDRINUSE;
	if (errno != ENOENT || !slash)
		return -errno;
	snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path) + 1, path);
	return access(dir, W_OK | X_OK) ? -errno : 0;
}

static int look_inet(const struct fab_addr *addr)
{
	int fd = fab__addr_socket(addr), err;

	ASSERT(addr->transport == FAB_TRANSPORT_TCP);
	if (fd < 0)
		return fd;
	err = fab__tcp_listen_options(fd, addr);
	if (!err && bind(fd, &addr->sa, addr->bytes) < 0)
		err = -errno;
	close(fd);
	return err;
}

int fab_address_look(const char *address, char why[FAB_WHY_MAX])
{
	struct fab_addr addr;
	int err = fab__addr_parse(&addr, address, why);

	if (err)
		return err;
	if (addr.transport == FAB_TRANSPORT_SHM)
		err = look_path(&addr);
	else if (addr.transport == FAB_TRANSPORT_TCP)
		err = look_inet(&addr);
	if (err)
		snprintf(why, FAB_WHY_MAX, "\"%.100s\": %s", address,
			 err == -EEXIST ? "there is a file that is no socket" : strerror(-err));
	return err;
}

const char *fab_server_address(const struct fab_server *srv, uint32_t i)
{
	return i < srv->control->listener_count ? srv->control->listeners[i].text : NULL;
}

void fab__listeners_close(struct fab_server *srv)
{
	struct fab_control *c = srv->control;

	for (uint32_t i = 0; i < c->listener_count; i++) {
		if (c->listeners[i].addr.transport == FAB_TRANSPORT_RDMA)
			fab__rdma_unlisten(srv, &c->listeners[i]);
		else
			close(c->listeners[i].fd);
		if (c->listeners[i].addr.transport == FAB_TRANSPORT_SHM)
			unlink(c->listeners[i].addr.un.sun_path);
	}
	c->listener_count = 0;
}

void fab__listeners_watch(struct fab_server *srv, bool full)
{
	struct fab_control *c = srv->control;

	if (c->full == full)
		return;
	c->full = full;
	for (uint32_t i = 0; i < c->listener_count; i++) {
		struct epoll_event ev = { .events = full ? 0 : EPOLLIN };

		if (c->listeners[i].fd < 0) /* RDMA: a request too many is refused */
			continue;
		ev.data.ptr = &c->listeners[i].watch;
		/* It is watched already, so the kernel has nothing to refuse. */
		(void)epoll_ctl(c->epoll_fd, EPOLL_CTL_MOD, c->listeners[i].fd, &ev);
	}
}

static wk_cold void pause_accepting(struct fab_server *srv, int err, uint64_t now_ns)
{
	ASSERT(err > 0);
	fab__refused(srv, "accept", "nobody", strerror(err));
	srv->control->accept_after_ns = now_ns + PAUSE_NS;
	fab__listeners_watch(srv, true);
}

void fab__accept(struct fab_server *srv, struct fab_listener *l, uint64_t now_ns)
{
	struct fab_arrival *g;

	for (;;) {
		int fd;

		if (now_ns < fab__arrival_place_ns(srv)) {
			fab__listeners_watch(srv, true);
			return;
		}
		fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
			    errno == ENOMEM)
				pause_accepting(srv, errno, now_ns);
			return;
		}
		g = fab__arrival_place(srv, now_ns);
		ASSERT(g && g->fd < 0);
		fab__arrival_begin(srv, g, fd, l->addr.transport, now_ns);
		g->wants_tls = l->addr.tls;
	}
}
