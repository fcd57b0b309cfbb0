/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Makes an open connection from an address: dialling and the hello.  Over verbs fab_rdma_dial.c
 * dials, and the hello's bytes travel through the queue pair.
 *
 *   DIALS --connected--> HELLO --WELCOME--> OPEN --+--> BROKEN
 *     |                    |                       |
 *     +--------------------+-----------------------+
 */
#include "fabric/client/fab_client_internal.h"
#include "fabric/link/fab_tls.h"

#include "base/secret.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define HELLO_DEFAULT_NS UINT64_C(5000000000)
#define CREDITS_DEFAULT  128u /* over rdma, where receives are posted before the hello */

int fab__conn_broken(struct fab_conn *conn, int err, const char *why)
{
	char line[FAB_WHY_MAX];

	ASSERT(err < 0);
	snprintf(line, sizeof(line), "%s", why);
	fab__conn_break(conn, err, line);
	return err;
}

static int watch(struct fab_conn *conn, int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events | EPOLLET, .data.fd = fd };

	ASSERT(fd >= 0 && conn->epoll_fd >= 0);
	return epoll_ctl(conn->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

static int dial(struct fab_conn *conn)
{
	int err;

	ASSERT(conn->fd < 0 && conn->at == CONN_DIALS);
	conn->fd = fab__addr_socket(&conn->addr);
	if (conn->fd < 0)
		return fab__conn_broken(conn, conn->fd, strerror(-conn->fd));
	err = watch(conn, conn->fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
	if (err)
		return fab__conn_broken(conn, err, strerror(-err));
	if (connect(conn->fd, &conn->addr.sa, conn->addr.bytes) == 0 || errno == EINPROGRESS)
		return 0;
	err = -errno;
	return fab__conn_broken(
		conn, err, err == -EAGAIN ? "its backlog of connections is full" : strerror(-err));
}

void fab__conn_key_forget(struct fab_conn *conn)
{
	secret_destroy(conn->key, sizeof(*conn->key));
	conn->key = NULL;
	conn->hello.key = NULL;
}

static int key_keep(struct fab_conn *conn, const struct fab_key *key)
{
	void *memory;
	int err = secret_create(sizeof(*key), &memory, NULL);

	ASSERT(!conn->key);
	if (err)
		return fab__conn_broken(conn, err, strerror(-err));
	conn->key = memory;
	*conn->key = *key;
	return 0;
}

static int hello_begin(struct fab_conn *conn)
{
	uint8_t nonce[32];

	ASSERT(conn->key);
	if (getrandom(nonce, sizeof(nonce), 0) < 0)
		return fab__conn_broken(conn, -errno, strerror(errno));
	fab__hello_client(&conn->hello, conn->key, conn->addr.transport, &conn->want,
			  conn->client_id, nonce, conn->joins ? &conn->join : NULL);
	return 0;
}

/* Sets the key and the place of the session that `of` is one connection of. */
static int join(struct fab_conn *conn, const struct fab_connect_cfg *cfg)
{
	const struct fab_place *place = &cfg->lane_of->hello.place;

	ASSERT(!conn->joins);
	ASSERT(place->session_id && cfg->lane_of->key && cfg->lane < FAB_LANES_MAX);
	if (conn->addr.transport == FAB_TRANSPORT_SHM)
		return fab__conn_broken(conn, -EOPNOTSUPP, "a session over shm has one connection");
	conn->joins = true;
	conn->join = (struct fab__join){
		.session_id = place->session_id,
		.number = (uint16_t)cfg->lane,
		.core = (uint16_t)min_u32(cfg->core, UINT16_MAX),
	};
	memcpy(conn->join.appliance, place->appliance, sizeof(conn->join.appliance));
	return key_keep(conn, cfg->lane_of->key);
}

/* From here on the client's own key is not needed: the derived key is valid for this session. */
static void key_of_session(struct fab_conn *conn)
{
	uint8_t secret[FAB_KEY_BYTES];

	ASSERT(conn->hello.at == HELLO_DONE && conn->key);
	if (!conn->joins) {
		fab__hello_session_key(&conn->hello, conn->key, secret);
		memcpy(conn->key->secret, secret, sizeof(secret));
		secret_wipe(secret, sizeof(secret));
	}
	conn->hello.key = NULL;
}

static int verbs_dial(struct fab_conn *conn, const struct fab_conn *lane_of)
{
	char why[FAB_WHY_MAX];
	int err;

	ASSERT(!conn->rdma.cm && conn->addr.transport == FAB_TRANSPORT_RDMA);
	if (conn->want.credits == 0)
		conn->want.credits = CREDITS_DEFAULT;
	/* A reply for each credit, and an answer for each pool. */
	err = fab__rdma_dial(&conn->rdma, &conn->addr,
			     min_u32(conn->want.credits, FAB_CREDITS_MAX) + FAB_POOLS_MAX,
			     lane_of ? lane_of->rdma.rdma : NULL, why);
	if (!err)
		err = watch(conn, conn->rdma.cm->fd, EPOLLIN);
	return err ? fab__conn_broken(conn, err, why) : 0;
}

/* 0: the hello may begin. */
static int verbs_dialled(struct fab_conn *conn, uint64_t now_ns)
{
	char why[FAB_WHY_MAX];
	int err = fab__rdma_dial_step(&conn->rdma, now_ns, why);

	ASSERT(conn->at == CONN_DIALS);
	if (err == -EINPROGRESS)
		return err;
	if (!err && conn->rdma.rdma->receives_max <= FAB_POOLS_MAX) {
		snprintf(why, sizeof(why), "RDMA: the device has too few receives");
		err = -EOPNOTSUPP;
	}
	if (!err)
		err = watch(conn, conn->rdma.rdma->channel->fd, EPOLLIN);
	if (!err) /* it is never read here: other connections of this process may need it, too */
		err = watch(conn, conn->rdma.rdma->id->verbs->async_fd, EPOLLIN);
	conn->port_due = true;
	if (err)
		return fab__conn_broken(conn, err, why);
	conn->want.credits =
		min_u32(conn->want.credits, conn->rdma.rdma->receives_max - FAB_POOLS_MAX);
	err = hello_begin(conn);
	if (err)
		return err;
	conn->at = CONN_HELLO;
	return 0;
}

int fab_connect(struct fab_conn **out, const struct fab_connect_cfg *cfg, uint64_t now_ns)
{
	struct fab_conn *conn = aligned_alloc(64, align_up(sizeof(*conn), 64));
	int err;

	*out = conn;
	if (!conn)
		return -ENOMEM;
	memset(conn, 0, sizeof(*conn));
	conn->fd = conn->epoll_fd = conn->in_fd = -1;
	conn->doorbells[0] = conn->doorbells[1] = -1;
	conn->owner = getpid();
	conn->deadline_ns =
		now_ns + (cfg->hello_timeout_ns ? cfg->hello_timeout_ns : HELLO_DEFAULT_NS);
	conn->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (conn->epoll_fd < 0)
		return fab__conn_broken(conn, -errno, strerror(errno));
	err = fab__addr_parse(&conn->addr, cfg->address, conn->why);
	if (err) {
		char why[FAB_WHY_MAX];

		memcpy(why, conn->why, sizeof(why));
		return fab__conn_broken(conn, err, why);
	}
	err = cfg->lane_of ? join(conn, cfg) : key_keep(conn, &cfg->key);
	if (err)
		return err;
	conn->want = cfg->want;
	memcpy(conn->client_id, cfg->client_id, sizeof(conn->client_id));
	if (conn->addr.transport == FAB_TRANSPORT_RDMA)
		return verbs_dial(conn, cfg->lane_of);
	err = hello_begin(conn);
	return err ? err : dial(conn);
}

/* Everybody has these keys: they prove nothing. */
static bool key_is_public(const struct fab_conn *conn)
{
	ASSERT(conn->key);
	return strcmp(conn->key->id, FAB_KEY_ANONYMOUS) == 0 ||
	       strcmp(conn->key->id, FAB_KEY_ROOT) == 0;
}

/* Returns true if only root, this user and `owner` can put names into the directories above `dir`,
 * an absolute path. */
static bool parents_are_kept(const char *dir, uid_t owner)
{
	char path[PATH_MAX];
	char *slash;

	snprintf(path, sizeof(path), "%s", dir);
	while ((slash = strrchr(path, '/')) && path[1]) {
		struct stat st;

		slash[slash == path] = 0; /* of "/a" the slash stays */
		if (stat(path, &st) < 0 || st.st_mode & (S_IWGRP | S_IWOTH))
			return false;
		if (st.st_uid != 0 && st.st_uid != geteuid() && st.st_uid != owner)
			return false;
	}
	return true;
}

/* Returns true if the owner of `dir` controls the names in it.  In a directory that others may
 * write to, any user may have made the name, or a symlink to another's directory. */
static bool owner_counts(const char *dir, uid_t *owner)
{
	char real[PATH_MAX];
	struct stat st;

	if (!realpath(dir, real) || stat(real, &st) < 0)
		return false;
	*owner = st.st_uid;
	return parents_are_kept(dir, *owner) && parents_are_kept(real, *owner);
}

/*
 * A key proves the appliance to us.  Without one it must be ours or root's, or that of the user who
 * owns the directory of the socket, if no other user can have put the socket there.
 */
static bool appliance_is_anybodys(const struct fab_conn *conn, char why[FAB_WHY_MAX])
{
	char dir[sizeof(conn->addr.un.sun_path)];
	uid_t owner = 0;
	char *slash;
	bool counts;

	ASSERT(conn->addr.transport == FAB_TRANSPORT_SHM && conn->fd >= 0);
	snprintf(dir, sizeof(dir), "%s", conn->addr.un.sun_path);
	slash = strrchr(dir, '/'); /* an address of shm begins with one */
	slash[slash == dir] = 0;
	counts = owner_counts(dir, &owner);
	return fab__peer_uid_check(conn->fd, &owner, counts, why) != 0;
}

static int dialled(struct fab_conn *conn)
{
	struct sockaddr_storage peer;
	socklen_t bytes = sizeof(int);
	char why[FAB_WHY_MAX];
	int err = 0;

	ASSERT(conn->at == CONN_DIALS && conn->fd >= 0);
	if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &err, &bytes) < 0)
		err = errno;
	if (err)
		return fab__conn_broken(conn, -err, strerror(err));
	bytes = sizeof(peer);
	if (getpeername(conn->fd, (struct sockaddr *)&peer, &bytes) < 0)
		return -EINPROGRESS;
	if (conn->addr.transport == FAB_TRANSPORT_SHM && key_is_public(conn) &&
	    appliance_is_anybodys(conn, why))
		return fab__conn_broken(conn, -EACCES, why);
	conn->at = CONN_HELLO;
	return 0;
}

/* tls://: the handshake, with the key, before the hello. */
static int secure(struct fab_conn *conn)
{
	char why[FAB_WHY_MAX] = "no memory for TLS";
	int err = 0;

	ASSERT(conn->addr.tls && !conn->secured);
	if (!conn->tls) {
		struct fab_key key = *conn->key;

		if (conn->joins)
			fab__tls_lane_id(key.id, conn->join.session_id);
		err = fab__tls_connect(&conn->tls, &key, conn->fd);
		secret_wipe(&key, sizeof(key));
	}
	if (!err)
		err = fab__tls_step(conn->tls, why);
	conn->secured = err == 0;
	return err == 0 || err == -EINPROGRESS ? err : fab__conn_broken(conn, err, why);
}

static ssize_t hello_send(struct fab_conn *conn, const void *bytes, size_t size)
{
	struct iovec iov = { (void *)(uintptr_t)bytes, size };
	ssize_t sent;

	if (conn->rdma.rdma)
		return fab__rdma_hello_send(conn->rdma.rdma, bytes, (uint32_t)size);
	if (conn->tls)
		return fab__tls_send(conn->tls, &iov, 1);
	sent = send(conn->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
	return sent < 0 ? -errno : sent;
}

static int hello_push(struct fab_conn *conn)
{
	struct fab_hello *h = &conn->hello;

	ASSERT(h->out_bytes <= sizeof(h->out));
	while (h->out_bytes > 0) {
		ssize_t sent = hello_send(conn, h->out, h->out_bytes);

		if (sent == -EAGAIN)
			return 0;
		if (sent < 0)
			return (int)sent;
		memmove(h->out, h->out + sent, h->out_bytes - (size_t)sent);
		h->out_bytes -= (uint32_t)sent;
	}
	return 0;
}

static void fds_close(int *fds, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		close(fds[i]);
}

/* The rings' memory and the doorbells have come with WELCOME. */
static int rings_open(struct fab_conn *conn, int fds[3], uint32_t fd_count)
{
	struct fab_shm_layout layout;
	void *memory;
	int err;

	ASSERT(conn->doorbells[0] < 0 && conn->doorbells[1] < 0);
	if (fd_count != 3) {
		fds_close(fds, fd_count);
		return fab__conn_broken(conn, -EPROTO,
					"the appliance did not hand out its shared memory");
	}
	fab__shm_layout(&layout, &conn->hello.limits);
	err = fab__memfd_map(fds[0], layout.size_bytes, layout.bodies_at, &memory);
	close(fds[0]);
	conn->doorbells[0] = fds[1];
	conn->doorbells[1] = fds[2];
	if (err)
		return fab__conn_broken(conn, err, "the shared memory is not what was promised");
	fab__shm_init(&conn->shm, memory, &conn->hello.limits, false, fds[1]);
	err = watch(conn, fds[2], EPOLLIN);
	if (!err)
		err = fab__conn_open(conn, &conn->shm.link, &conn->hello.limits, conn->shm.bodies);
	return err ? fab__conn_broken(conn, err, strerror(-err)) : 0;
}

static int stream_open(struct fab_conn *conn)
{
	int err;

	ASSERT(!conn->tcp && !conn->link);
	conn->tcp = malloc(sizeof(*conn->tcp));
	if (!conn->tcp)
		return fab__conn_broken(conn, -ENOMEM, strerror(ENOMEM));
	fab__tcp_init(conn->tcp, conn->fd, conn->tls);
	err = fab__conn_open(conn, &conn->tcp->link, &conn->hello.limits, NULL);
	return err ? fab__conn_broken(conn, err, strerror(-err)) : 0;
}

/* The place of the long bodies is the first message to the appliance. */
static int verbs_open(struct fab_conn *conn)
{
	struct fab_rdma *r = conn->rdma.rdma;
	uint64_t bytes = (uint64_t)conn->hello.limits.long_bodies * FAB_LONG_BODY_MAX;
	struct fab_offer_wire body = { .size_bytes = le64_of(bytes) };
	struct fab_remote at;
	int err = fab__conn_open(conn, &r->link, &conn->hello.limits, NULL);

	ASSERT(r->established && r->id);
	if (!err && bytes > 0)
		err = fab__rdma_offer(r, 0, conn->longs, bytes, &at);
	if (err)
		return fab__conn_broken(conn, err, strerror(-err));
	if (bytes == 0)
		return 0;
	body.address = le64_of(at.address);
	body.key = le32_of(at.key);
	fab__hdr_build(&conn->longs_tx.hdr, FAB_POOL_ADD, 0);
	fab__tx_body(&conn->longs_tx, &body, sizeof(body));
	conn->longs_tx.kind = FAB_TX_CONTROL;
	(void)r->link.ops->send(&r->link, &conn->longs_tx);
	return 0;
}

/* Reads once in the hello.  0: open, -EINPROGRESS: read again (*again) or wait, else broken. */
static int hello_input(struct fab_conn *conn, bool *again)
{
	struct fab_hello *h = &conn->hello;
	uint32_t fd_count = 0;
	int fds[3];
	uint8_t *to = h->in + h->in_bytes;
	ssize_t got;
	int err;

	ASSERT(h->in_bytes <= sizeof(h->in));
	ASSERT(fab__hello_want(h) <= sizeof(h->in) - h->in_bytes);
	if (conn->rdma.rdma)
		got = fab__rdma_hello_recv(conn->rdma.rdma, to, fab__hello_want(h));
	else if (conn->tls)
		got = fab__tls_recv(conn->tls, to, fab__hello_want(h));
	else
		got = fab__recv_fds(conn->fd, to, fab__hello_want(h), fds, 3, &fd_count);

	*again = false;
	if (got == -EAGAIN)
		return -EINPROGRESS;
	if (got <= 0)
		return fab__conn_broken(conn, -ECONNRESET,
					"the peer closed the connection in the hello");
	*again = true;
	h->in_bytes += (uint32_t)got;
	err = fab__hello_step(h);
	if (err < 0)
		fab__conn_key_forget(conn);
	else if (err == 1)
		key_of_session(conn);
	if (err == 1 && conn->addr.transport == FAB_TRANSPORT_SHM)
		return rings_open(conn, fds, fd_count);
	fds_close(fds, fd_count);
	if (err == 1)
		return conn->rdma.rdma ? verbs_open(conn) : stream_open(conn);
	if (err < 0)
		return fab__conn_broken(conn, err, h->why);
	return -EINPROGRESS;
}

int fab_connect_step(struct fab_conn *conn, uint64_t now_ns)
{
	struct epoll_event evs[4];
	bool again = true;
	int err;

	if (conn->at == CONN_OPEN)
		return 0;
	if (conn->at == CONN_BROKEN)
		return conn->status;
	ASSERT(conn->at == CONN_DIALS || conn->at == CONN_HELLO);
	/* Emptied before the check, so that the caller can sleep after it. */
	(void)!epoll_wait(conn->epoll_fd, evs, ARRAY_LEN(evs), 0);
	if (now_ns >= conn->deadline_ns)
		return fab__conn_broken(conn, -ETIMEDOUT,
					"the peer did not finish the hello in time");
	if (conn->at == CONN_DIALS) {
		err = conn->rdma.cm ? verbs_dialled(conn, now_ns) : dialled(conn);
		if (err)
			return err;
	}
	if (conn->addr.tls && !conn->secured) {
		err = secure(conn);
		if (err)
			return err;
	}
	err = -EINPROGRESS;
	while (err == -EINPROGRESS && again) {
		int pushed = hello_push(conn);

		if (pushed < 0 && pushed != -EPIPE && pushed != -ECONNRESET)
			return fab__conn_broken(conn, pushed, strerror(-pushed));
		/* A peer that has hung up may have said why: read first. */
		err = hello_input(conn, &again);
	}
	return err;
}
