/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Messages to and from a vfio-user server.
 *
 *   exchange   command ----------------------> reply, within timeout_ns     one at a time
 *   post       command (no reply) ------------>                             any thread, any time
 *   ask        command ----------------------> reply, kept for the asker    one at a time
 *   request    <------------- DMA read, write; our reply ------------------>
 *              served by the reading thread: an exchange that waits, or nvme__vfu_look()
 *
 * The socket never blocks.  A server that does not answer in time, closes, or sends a malformed
 * message breaks the connection for good: its earlier commands may still happen, so it gets no more
 * until there is a new connection.
 *
 *   R1 -> A1   (A1 in nvme_vfu.h) an answer is stored before it is marked as present
 *   R2 -> A2   a connection's descriptor and life are stored before `broken` is false
 *   R3 -> A3   (A3 in nvme_vfu.c) the last use of a connection comes before the report that its
 *              server has left
 *
 * Invariants, true between any two calls:
 *
 *  (1) The socket is read only under exchange_lock; conn->in is the partly received message.
 *  (2) A message is sent whole, under send_lock, or the connection is broken.
 *  (3) A question's id has its top bit set, an exchange's has not: no reply is taken for another
 *      [test_nvme_vfu_parse:answers_to_register_accesses_are_those_asked_for].
 *  (4) broken is set once a connection, and cleared by nvme__vfu_conn_open() only
 *      [test_nvme_vfu:a_killed_server_is_noticed_and_found_again].
 */
#define _GNU_SOURCE
#include "nvme/pci/nvme_vfu.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SERVER_REQUESTS_MAX 64u /* served at one call, so that a turn stays short */
#define QUESTION            0x8000u

int nvme__vfu_conn_init(struct nvme_vfu_conn *conn, struct nvme_dma *dma, uint64_t timeout_ns)
{
	*conn = (struct nvme_vfu_conn){ .fd = -1, .dma = dma, .timeout_ns = timeout_ns };
	atomic_init(&conn->broken, true);
	if (pthread_mutex_init(&conn->send_lock, NULL))
		return -ENOMEM;
	if (pthread_mutex_init(&conn->exchange_lock, NULL)) {
		pthread_mutex_destroy(&conn->send_lock);
		return -ENOMEM;
	}
	return 0;
}

void nvme__vfu_conn_destroy(struct nvme_vfu_conn *conn)
{
	nvme__vfu_conn_close(conn);
	pthread_mutex_destroy(&conn->exchange_lock);
	pthread_mutex_destroy(&conn->send_lock);
}

static bool is_broken(const struct nvme_vfu_conn *conn)
{
	return atomic_load_explicit(&conn->broken, memory_order_acquire); /* A2 */
}

/* (4); under one of the locks, so that the descriptor is not closed during that. */
static wk_cold int give_up(struct nvme_vfu_conn *conn, int err, const char *why)
{
	if (!atomic_exchange_explicit(&conn->broken, true, memory_order_acq_rel)) { /* R2, A2 */
		atomic_store_explicit(&conn->why, why, memory_order_relaxed);
		(void)!shutdown(conn->fd, SHUT_RDWR); /* the fd stays ours until it is closed */
	}
	return err;
}

/* The other end is closed: by a server that has let go of all that it had from us, or has died. */
static wk_cold int has_left(struct nvme_vfu_conn *conn)
{
	if (!is_broken(conn))
		atomic_store_explicit(&conn->left, true, memory_order_release); /* R3 */
	return give_up(conn, -ENODEV, "its server has left");
}

int nvme__vfu_nonsense(struct nvme_vfu_conn *conn, const char *what)
{
	return give_up(conn, -EPROTO, what);
}

int nvme__vfu_conn_open(struct nvme_vfu_conn *conn, const char *path)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd, err;

	ASSERT(conn->fd < 0 && is_broken(conn));
	if (strlen(path) >= sizeof(to.sun_path))
		return -ENAMETOOLONG;
	memcpy(to.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&to, sizeof(to))) {
		err = -errno;
		close(fd);
		if (err == -ECONNREFUSED) /* the process that had our memory has ended */
			atomic_store_explicit(&conn->left, true, memory_order_release); /* R3 */
		return err;
	}
	pthread_mutex_lock(&conn->send_lock);
	conn->fd = fd;
	atomic_store_explicit(&conn->why, NULL, memory_order_relaxed);
	atomic_fetch_add_explicit(&conn->life, 1, memory_order_relaxed);
	atomic_store_explicit(&conn->broken, false, memory_order_release); /* R2 */
	pthread_mutex_unlock(&conn->send_lock);
	return 0;
}

void nvme__vfu_conn_break(struct nvme_vfu_conn *conn, const char *why)
{
	pthread_mutex_lock(&conn->send_lock);
	(void)give_up(conn, 0, why);
	pthread_mutex_unlock(&conn->send_lock);
}

static void close_fds(int *fd, uint32_t *fd_count)
{
	for (uint32_t i = 0; i < *fd_count; i++)
		close(fd[i]);
	*fd_count = 0;
}

/* The message that has come, or has begun to, is done with. */
static void drop(struct nvme_vfu_conn *conn)
{
	close_fds(conn->in.fd, &conn->in.fd_count);
	conn->in.got_bytes = 0;
}

void nvme__vfu_conn_close(struct nvme_vfu_conn *conn)
{
	pthread_mutex_lock(&conn->exchange_lock);
	pthread_mutex_lock(&conn->send_lock);
	atomic_store_explicit(&conn->broken, true, memory_order_release); /* R2 */
	if (conn->fd >= 0)
		close(conn->fd);
	conn->fd = -1;
	drop(conn);
	pthread_mutex_unlock(&conn->send_lock);
	pthread_mutex_unlock(&conn->exchange_lock);
}

/* ---- sending --------------------------------------------------------------------------- */

static void add_fds(struct msghdr *msg, char *control, const int *fds, uint32_t fd_count)
{
	struct cmsghdr *c;

	if (fd_count == 0)
		return;
	msg->msg_control = control;
	msg->msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
	c = CMSG_FIRSTHDR(msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
	memcpy(CMSG_DATA(c), fds, fd_count * sizeof(int));
}

/* Our messages are far smaller than a socket's buffer: the kernel takes one whole or not (2). */
static int send_message(struct nvme_vfu_conn *conn, const struct nvme_vfu_call *call,
			const struct vfu_header *header)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(NVME_VFU_FDS_MAX * sizeof(int))] = { 0 };
	struct iovec iov[3] = {
		{ (void *)header, sizeof(*header) },
		{ (void *)call->head, call->head_bytes },
		{ (void *)call->data, call->data_bytes },
	};
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 3 };
	ssize_t n;
	int err;

	ASSERT(call->fd_count <= NVME_VFU_FDS_MAX);
	add_fds(&msg, control, call->fds, call->fd_count);
	pthread_mutex_lock(&conn->send_lock);
	n = is_broken(conn) ? 0 : sendmsg(conn->fd, &msg, MSG_NOSIGNAL);
	if (n == (ssize_t)le32_get(header->size))
		err = 0;
	else if (n < 0 && (errno == EAGAIN || errno == EINTR))
		err = -EAGAIN;
	else
		err = has_left(conn);
	ASSERT(err == 0 || err == -EAGAIN || is_broken(conn)); /* (2) */
	pthread_mutex_unlock(&conn->send_lock);
	return err;
}

static struct vfu_header header_of(const struct nvme_vfu_call *call, uint16_t id, uint32_t flags)
{
	uint32_t size = (uint32_t)sizeof(struct vfu_header) + call->head_bytes + call->data_bytes;

	return (struct vfu_header){ .id = le16_of(id),
				    .command = le16_of(call->command),
				    .size = le32_of(size),
				    .flags = le32_of(flags) };
}

int nvme__vfu_post(struct nvme_vfu_conn *conn, const struct nvme_vfu_call *call)
{
	struct vfu_header header = header_of(call, 0, VFU_TYPE_COMMAND | VFU_NO_REPLY);

	return send_message(conn, call, &header);
}

/* 0 when it is readable (or writable); else the connection is given up. */
static int wait_for(struct nvme_vfu_conn *conn, short events, uint64_t deadline_ns)
{
	for (;;) {
		struct pollfd p = { .fd = conn->fd, .events = events };
		uint64_t now_ns = clock_now_ns();
		uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
		int n = poll(&p, 1, (int)min_u64(div_up(left_ns, NS_PER_MS), 60000));

		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return give_up(conn, -EIO, "its socket fails");
		if (n == 0 && left_ns == 0)
			return give_up(conn, -ETIMEDOUT, "its server does not answer");
	}
}

/* ---- receiving ------------------------------------------------------------------------- */

/* Descriptors that came with some bytes; false when there were more than we take. */
static bool keep_fds(struct msghdr *msg, struct nvme_vfu_arrival *in)
{
	bool fits = !(msg->msg_flags & MSG_CTRUNC);

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		uint32_t count;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		count = (uint32_t)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		for (uint32_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			if (in->fd_count < NVME_VFU_FDS_MAX) {
				in->fd[in->fd_count++] = fd;
			} else {
				close(fd);
				fits = false;
			}
		}
	}
	return fits;
}

/* Receives the message up to its byte `end`: 1; 0: more to come; or the connection is broken. */
static int receive(struct nvme_vfu_conn *conn, uint8_t *to, uint32_t end)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(NVME_VFU_FDS_MAX * sizeof(int))];
	struct nvme_vfu_arrival *in = &conn->in;

	DASSERT(pthread_mutex_trylock(&conn->exchange_lock) == EBUSY); /* (1) */
	while (in->got_bytes < end) {
		struct iovec iov = { to, end - in->got_bytes };
		struct msghdr msg = { .msg_iov = &iov,
				      .msg_iovlen = 1,
				      .msg_control = control,
				      .msg_controllen = sizeof(control) };
		ssize_t n = recvmsg(conn->fd, &msg, MSG_CMSG_CLOEXEC);

		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return has_left(conn);
		to += n;
		in->got_bytes += (uint32_t)n;
		if (!keep_fds(&msg, in))
			return nvme__vfu_nonsense(conn, "it sends more files than it may");
	}
	return 1;
}

/* Reads the next message: 1: complete; 0: more to come; or -errno. */
static int read_some(struct nvme_vfu_conn *conn)
{
	struct nvme_vfu_arrival *in = &conn->in;
	const uint32_t head_bytes = sizeof(in->bytes);
	const char *wrong;
	int rc = 1;

	if (in->got_bytes < head_bytes) {
		rc = receive(conn, in->bytes + in->got_bytes, head_bytes);
		if (rc <= 0)
			return rc;
		wrong = nvme__vfu_parse_head(in->bytes, &in->head);
		if (wrong)
			return nvme__vfu_nonsense(conn, wrong);
	}
	return receive(conn, conn->body + (in->got_bytes - head_bytes),
		       head_bytes + in->head.body_bytes);
}

/* The next message, waited for: 0 or -errno. */
static int read_message(struct nvme_vfu_conn *conn, uint64_t deadline_ns)
{
	int rc;

	for (;;) {
		rc = read_some(conn);
		if (rc)
			return rc < 0 ? rc : 0;
		if (wait_for(conn, POLLIN, deadline_ns))
			return -ETIMEDOUT;
	}
}

/* ---- the server's requests --------------------------------------------------------------- */

/* Copies between its message and our memory; false where nothing is mapped. */
static bool move(struct nvme_dma *dma, const struct nvme_vfu_dma_request *r, uint8_t *answer)
{
	for (uint32_t at = 0; at < r->count;) {
		uint64_t here = r->count - at;
		void *addr = nvme__dma_at(dma, r->iova + at, &here);

		if (!addr)
			return false;
		if (r->write)
			memcpy(addr, r->data + at, here);
		else
			memcpy(answer + at, addr, here);
		at += (uint32_t)here;
	}
	return true;
}

/* 0, or -EPROTO: it asked what makes no sense. */
static int serve(struct nvme_vfu_conn *conn, const struct nvme_vfu_head *head)
{
	bool write = head->command == VFU_DMA_WRITE, known = write || head->command == VFU_DMA_READ;
	struct nvme_vfu_dma_request r = { 0 };
	struct nvme_vfu_call answer = { .command = head->command };
	struct vfu_header header;
	uint8_t data[NVME_VFU_XFER_MAX];
	struct vfu_dma_rw rw;
	const char *wrong;
	uint32_t error = known ? 0 : EOPNOTSUPP;

	if (known) {
		wrong = nvme__vfu_parse_dma(conn->body, head->body_bytes, write, &r);
		if (wrong)
			return nvme__vfu_nonsense(conn, wrong);
		if (!move(conn->dma, &r, data))
			error = EFAULT;
	}
	if (head->no_reply)
		return 0;
	if (!error) {
		rw = (struct vfu_dma_rw){ le64_of(r.iova), le64_of(r.count) };
		answer.head = &rw;
		answer.head_bytes = sizeof(rw);
		answer.data = data;
		answer.data_bytes = write ? 0 : r.count;
	}
	header = header_of(&answer, head->id, VFU_TYPE_REPLY | (error ? VFU_ERROR : 0));
	header.error = le32_of(error);
	if (send_message(conn, &answer, &header) == -EAGAIN)
		return nvme__vfu_nonsense(conn, "it asks without reading our answers");
	return 0;
}

/* R1 (A1 in nvme_vfu.h): the answer is stored before it is marked as present. */
static void take_answer(struct nvme_vfu_conn *conn)
{
	struct nvme_vfu_asked *a = &conn->asked;
	const struct nvme_vfu_head *head = &conn->in.head;
	enum nvme_vfu_question asked = NVME_VFU_ASKED;

	if (head->id != atomic_load_explicit(&a->id, memory_order_relaxed) ||
	    atomic_load_explicit(&a->state, memory_order_relaxed) != asked)
		return; /* a reply without a waiter */
	a->err = head->err;
	a->body_bytes = min_u32(head->body_bytes, sizeof(a->body));
	memcpy(a->body, conn->body, a->body_bytes);
	/* Unless it was withdrawn in between. */
	(void)atomic_compare_exchange_strong_explicit(&a->state, &asked, NVME_VFU_ANSWERED,
						      memory_order_release, /* R1 */
						      memory_order_relaxed);
}

/* A message that no exchange waits for; 0, or -errno and the connection is given up. */
static int handle(struct nvme_vfu_conn *conn)
{
	int err = 0;

	if (conn->in.head.reply)
		take_answer(conn);
	else
		err = serve(conn, &conn->in.head);
	drop(conn);
	return err;
}

bool nvme__vfu_look(struct nvme_vfu_conn *conn)
{
	if (is_broken(conn))
		return false;
	if (pthread_mutex_trylock(&conn->exchange_lock))
		return true; /* the holder reads it */
	for (uint32_t i = 0; i < SERVER_REQUESTS_MAX && !is_broken(conn); i++) {
		if (read_some(conn) <= 0 || handle(conn))
			break;
	}
	pthread_mutex_unlock(&conn->exchange_lock);
	return !is_broken(conn);
}

/* ---- questions ------------------------------------------------------------------------------- */

int nvme__vfu_ask(struct nvme_vfu_conn *conn, const struct nvme_vfu_call *call)
{
	struct nvme_vfu_asked *a = &conn->asked;
	uint16_t before = atomic_load_explicit(&a->id, memory_order_relaxed); /* its own */
	uint16_t id = (uint16_t)(QUESTION | (before + 1u));                   /* (3) */
	struct vfu_header header = header_of(call, id, VFU_TYPE_COMMAND);
	int err;

	nvme__vfu_unask(conn);
	atomic_store_explicit(&a->id, id, memory_order_relaxed);
	atomic_store_explicit(&a->state, NVME_VFU_ASKED, memory_order_relaxed);
	err = send_message(conn, call, &header);
	if (err)
		nvme__vfu_unask(conn);
	return err;
}

void nvme__vfu_unask(struct nvme_vfu_conn *conn)
{
	atomic_store_explicit(&conn->asked.state, NVME_VFU_UNASKED, memory_order_relaxed);
}

/* ---- exchanges ----------------------------------------------------------------------------- */

static int wait_reply(struct nvme_vfu_conn *conn, struct nvme_vfu_call *call, uint16_t id,
		      uint64_t deadline_ns)
{
	struct nvme_vfu_arrival *in = &conn->in;
	int err;

	for (;;) {
		err = read_message(conn, deadline_ns);
		if (err)
			return err;
		if (in->head.reply && in->head.id == id && in->head.command == call->command)
			break;
		err = handle(conn);
		if (err)
			return err;
		if (clock_now_ns() > deadline_ns)
			return give_up(conn, -ETIMEDOUT, "its server does not answer");
	}
	call->body_bytes = in->head.body_bytes;
	call->reply_fd_count = in->fd_count;
	memcpy(call->reply_fd, in->fd, in->fd_count * sizeof(in->fd[0]));
	in->fd_count = 0; /* they are the caller's */
	err = in->head.err;
	drop(conn);
	return err;
}

int nvme__vfu_begin(struct nvme_vfu_conn *conn, struct nvme_vfu_call *call)
{
	uint64_t deadline_ns = clock_now_ns() + conn->timeout_ns;
	struct vfu_header header;
	uint16_t id;
	int err;

	call->body_bytes = 0;
	call->reply_fd_count = 0;
	pthread_mutex_lock(&conn->exchange_lock);
	if (is_broken(conn))
		return -ENODEV;
	id = ++conn->next_id & (QUESTION - 1); /* (3) */
	header = header_of(call, id, VFU_TYPE_COMMAND);
	do {
		err = send_message(conn, call, &header);
	} while (err == -EAGAIN && !(err = wait_for(conn, POLLOUT, deadline_ns)));
	return err ? err : wait_reply(conn, call, id, deadline_ns);
}

void nvme__vfu_end(struct nvme_vfu_conn *conn, struct nvme_vfu_call *call)
{
	close_fds(call->reply_fd, &call->reply_fd_count);
	pthread_mutex_unlock(&conn->exchange_lock);
}
