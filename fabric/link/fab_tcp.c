/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Capsules through a TCP stream.
 *
 *   in   [ handed out | here, not yet handed out |          ]  64 KiB, then the socket
 *        0            in_at                      in_end
 *
 * Headers and bodies come out of `in`.  Payload of 16 KiB and more is received straight into its
 * place, and the first bytes after it into `in` by the same call: only bytes that were already in
 * `in` are copied.  So while large payload arrives, little is read ahead of a header (`reach`);
 * otherwise everything available is read.  Outgoing data is never copied: one sendmsg gathers
 * headers, bodies and payload from their places.
 *
 * Invariants:
 *  (1) A fab_tx is on `out` from send() until its last byte was given to the kernel, then on
 *      `done` until sent() returns it.
 *  (2) `drained` is set only by a read that found no more input: while it is not set,
 *      an edge-triggered epoll may raise no event [test_fab_tcp:nothing_there_at_any_byte].
 */
#include "fabric/link/fab_tls.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define DIRECT_MIN (16u << 10) /* below, one large read into `in` is cheaper */
#define BEHIND     512u        /* read after large payload: the next headers */
#define REACH_MIN  4096u       /* read ahead after large payload */
#define IOV_MAX_   192

static struct fab_tcp *tcp_of(struct fab_link *link)
{
	return container_of(link, struct fab_tcp, link);
}

/* With TLS one call returns at most a record: only -EAGAIN means that there is no more. */
static ssize_t pull_in_tls(struct fab_tcp *tcp, void *dst, size_t size)
{
	ssize_t got = fab__tls_recv(tcp->tls, dst, size);

	ASSERT(size > 0);
	tcp->drained = got == -EAGAIN;
	if (got == -EAGAIN)
		return 0;
	if (got < 0)
		tcp->err = (int)got;
	return got;
}

/* Handles the result of recv() for `size` bytes: > 0 bytes, 0: no input, < 0 broken. */
static ssize_t pulled(struct fab_tcp *tcp, ssize_t got, size_t size)
{
	if (got > 0) {
		tcp->drained = (size_t)got < size;
		return got;
	}
	if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
		tcp->drained = errno == EAGAIN;
		return 0;
	}
	tcp->err = -ECONNRESET;
	return tcp->err;
}

/* One recv.  > 0 bytes, 0: nothing there, < 0 broken. */
static ssize_t pull_in(struct fab_tcp *tcp, void *dst, size_t size)
{
	ASSERT(size > 0);
	if (tcp->err)
		return tcp->err;
	if (tcp->tls)
		return pull_in_tls(tcp, dst, size);
	return pulled(tcp, recv(tcp->fd, dst, size, MSG_DONTWAIT), size);
}

/* The same for large payload: the bytes after it go into `in`, which is empty, and are not
 * counted. */
static ssize_t pull_direct(struct fab_tcp *tcp, void *dst, size_t size)
{
	struct iovec iov[2] = { { dst, size }, { tcp->in, BEHIND } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	ssize_t got;

	ASSERT(size > 0);
	ASSERT(tcp->in_at == tcp->in_end);
	if (tcp->tls || tcp->err)
		return pull_in(tcp, dst, size);
	got = pulled(tcp, recvmsg(tcp->fd, &msg, MSG_DONTWAIT), size + BEHIND);
	tcp->in_at = 0;
	tcp->in_end = 0;
	if (got <= (ssize_t)size)
		return got;
	tcp->in_end = (uint32_t)((size_t)got - size);
	return (ssize_t)size;
}

/* At least `want` bytes in `in`: 1, 0 not yet, < 0. */
static int fill(struct fab_tcp *tcp, uint32_t want)
{
	ssize_t got;

	ASSERT(want > 0 && want <= sizeof(tcp->in));
	ASSERT(tcp->in_at <= tcp->in_end && tcp->in_end <= sizeof(tcp->in));
	if (tcp->in_end - tcp->in_at >= want)
		return 1;
	if (tcp->in_at > 0) {
		memmove(tcp->in, tcp->in + tcp->in_at, tcp->in_end - tcp->in_at);
		tcp->in_end -= tcp->in_at;
		tcp->in_at = 0;
	}
	do {
		uint32_t room = min_u32(sizeof(tcp->in) - tcp->in_end, max_u32(want, tcp->reach));
		ASSERT(room > 0);

		got = pull_in(tcp, tcp->in + tcp->in_end, room);
		if (got < 0)
			return (int)got;
		tcp->in_end += (uint32_t)got;
		if ((uint32_t)got == room)
			tcp->reach = min_u32(2 * tcp->reach, sizeof(tcp->in));
	} while (got > 0 && tcp->in_end < want && !tcp->drained);
	return tcp->in_end >= want;
}

static int tcp_recv_header(struct fab_link *link, struct fab_hdr_wire *out)
{
	struct fab_tcp *tcp = tcp_of(link);
	int there = fill(tcp, sizeof(*out));

	DASSERT(tcp->reach >= REACH_MIN && tcp->reach <= sizeof(tcp->in));
	if (there <= 0)
		return there;
	memcpy(out, tcp->in + tcp->in_at, sizeof(*out));
	tcp->in_at += (uint32_t)sizeof(*out);
	if (fab__hdr_check(out) != le32_get(out->check)) {
		tcp->err = -EPROTO;
		return tcp->err;
	}
	return 1;
}

static int tcp_recv_bytes(struct fab_link *link, uint32_t slot, void *dst, uint32_t size_bytes,
			  uint32_t *done_bytes)
{
	struct fab_tcp *tcp = tcp_of(link);
	uint8_t *at = dst;

	ASSERT(*done_bytes <= size_bytes);
	(void)slot;
	if (size_bytes >= DIRECT_MIN)
		tcp->reach = REACH_MIN;
	while (*done_bytes < size_bytes) {
		uint32_t left = size_bytes - *done_bytes;
		uint32_t here = min_u32(left, tcp->in_end - tcp->in_at);
		ASSERT(here <= left);
		ssize_t got;

		if (here > 0) {
			memcpy(at + *done_bytes, tcp->in + tcp->in_at, here);
			tcp->in_at += here;
			*done_bytes += here;
			continue;
		}
		if (size_bytes < DIRECT_MIN) {
			int there = fill(tcp, left);

			/* Take the available bytes: `in` need not have room for all. */
			if (there < 0 || tcp->in_end == tcp->in_at)
				return there;
			continue;
		}
		got = pull_direct(tcp, at + *done_bytes, left);
		if (got <= 0)
			return (int)got;
		*done_bytes += (uint32_t)got;
	}
	return 1;
}

static int tcp_send(struct fab_link *link, struct fab_tx *tx)
{
	struct fab_tcp *tcp = tcp_of(link);

	DASSERT(tx->body_bytes == 0 || tx->body);
	DASSERT(tx->payload_bytes == 0 || tx->payload);
	list_init(&tx->node);
	list_push_back(tcp->err ? &tcp->done : &tcp->out, &tx->node);
	if (!tcp->unsummed && !tcp->err)
		tcp->unsummed = &tx->node;
	return 0;
}

/* Computes the sums of all messages of a turn.  Right after the bytes were written, a sum would
 * wait for all stores before it, which miss the cache beside payload: 70 ns each, instead of 11. */
static void sum_all(struct fab_tcp *tcp)
{
	for (struct list *at = tcp->unsummed; at && at != &tcp->out; at = at->next) {
		struct fab_tx *tx = list_entry(at, struct fab_tx, node);
		DASSERT(!tx->body || tx->body_bytes > FAB_SMALL_MAX);

		if (tx->body)
			tx->hdr.body.crc32c = le32_of(crc32c(tx->body, tx->body_bytes));
		tx->hdr.check = le32_of(fab__hdr_check(&tx->hdr));
	}
	tcp->unsummed = NULL;
}

static struct fab_tx *tcp_sent(struct fab_link *link)
{
	struct list *node = list_pop_front(&tcp_of(link)->done);

	return node ? list_entry(node, struct fab_tx, node) : NULL;
}

static uint64_t tx_bytes(const struct fab_tx *tx)
{
	return sizeof(tx->hdr) + tx->body_bytes + (uint64_t)tx->payload_bytes;
}

/* Adds the part of [bytes, bytes + size) after the first *skip bytes as one more entry of iov. */
static uint32_t gather(struct iovec *iov, const void *bytes, size_t size, uint64_t *skip)
{
	ASSERT(size == 0 || bytes);
	if (*skip >= size) {
		*skip -= size;
		return 0;
	}
	iov->iov_base = (uint8_t *)(uintptr_t)bytes + *skip;
	iov->iov_len = size - *skip;
	*skip = 0;
	ASSERT(iov->iov_len > 0);
	return 1;
}

static uint32_t gather_all(const struct fab_tcp *tcp, struct iovec iov[IOV_MAX_])
{
	uint64_t skip = tcp->out_at;
	struct list *pos;
	uint32_t n = 0;

	list_for_each (pos, &tcp->out) {
		const struct fab_tx *tx = list_entry(pos, struct fab_tx, node);

		if (n + 3 > IOV_MAX_)
			break;
		n += gather(&iov[n], &tx->hdr, sizeof(tx->hdr), &skip);
		n += gather(&iov[n], tx->body, tx->body_bytes, &skip);
		n += gather(&iov[n], tx->payload, tx->payload_bytes, &skip);
	}
	ASSERT(n > 0 && n <= IOV_MAX_);
	return n;
}

/* Counts `bytes` more sent: moves complete messages to `done`. */
static void retire(struct fab_tcp *tcp, uint64_t bytes)
{
	ASSERT(!list_empty(&tcp->out)); /* (1) */
	tcp->out_at += bytes;
	while (!list_empty(&tcp->out)) {
		struct fab_tx *tx = list_entry(tcp->out.next, struct fab_tx, node);

		if (tcp->out_at < tx_bytes(tx))
			return;
		tcp->out_at -= tx_bytes(tx);
		list_del(&tx->node);
		list_push_back(&tcp->done, &tx->node);
	}
	ASSERT(tcp->out_at == 0);
}

static ssize_t push_out(struct fab_tcp *tcp, struct iovec *iov, uint32_t count)
{
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = count };
	ssize_t sent;

	ASSERT(count > 0 && count <= IOV_MAX_);
	if (tcp->tls)
		return fab__tls_send(tcp->tls, iov, count);
	sent = sendmsg(tcp->fd, &msg,
		       MSG_NOSIGNAL | MSG_DONTWAIT | (tcp->link.later ? MSG_MORE : 0));
	return sent < 0 ? -errno : sent;
}

/* Walks the queues, in variants that look for our own mistakes. */
static void self_check(const struct fab_tcp *tcp)
{
#ifdef WK_DEBUG
	bool unsummed = tcp->unsummed == NULL;
	struct list *pos;

	ASSERT(tcp->out_at == 0 || !list_empty(&tcp->out));
	list_for_each (pos, &tcp->out) {
		ASSERT(pos->next->prev == pos && pos->prev->next == pos); /* (1) */
		unsummed |= pos == tcp->unsummed;
	}
	ASSERT(unsummed);
	list_for_each (pos, &tcp->done)
		ASSERT(pos->next->prev == pos && pos->prev->next == pos); /* (1) */
#else
	(void)tcp;
#endif
}

static int tcp_flush(struct fab_link *link)
{
	struct fab_tcp *tcp = tcp_of(link);

	self_check(tcp);
	sum_all(tcp);
	ASSERT(!tcp->unsummed);
	while (!tcp->err && !list_empty(&tcp->out)) {
		struct iovec iov[IOV_MAX_];
		ssize_t sent = push_out(tcp, iov, gather_all(tcp, iov));

		if (sent == -EINTR)
			continue;
		tcp->stuck = sent == -EAGAIN;
		link->is_full = tcp->stuck;
		if (tcp->stuck)
			return 0;
		if (sent < 0) {
			tcp->err = -ECONNRESET;
			return tcp->err;
		}
		link->left_bytes += (uint64_t)sent;
		retire(tcp, (uint64_t)sent);
	}
	return tcp->err;
}

static bool tcp_arm(struct fab_link *link)
{
	struct fab_tcp *tcp = tcp_of(link);

	return tcp->drained && !tcp->err && (tcp->stuck || list_empty(&tcp->out)) &&
	       list_empty(&tcp->done);
}

static void tcp_disarm(struct fab_link *link)
{
	(void)link;
}

static void tcp_close(struct fab_link *link)
{
	struct fab_tcp *tcp = tcp_of(link);
	struct list *node;

	if (!tcp->err)
		tcp->err = -ECONNRESET;
	/* Nothing more is sent: the messages on `out` come back from sent() like those that were
	 * sent, and their owners see that the session has failed. */
	shutdown(tcp->fd, SHUT_RDWR);
	while ((node = list_pop_front(&tcp->out)) != NULL)
		list_push_back(&tcp->done, node);
	tcp->unsummed = NULL;
	tcp->out_at = 0;
	ASSERT(list_empty(&tcp->out)); /* (1) */
}

static const struct fab_transport tcp_transport = {
	.name = "tcp",
	.direct = false,
	.recv_header = tcp_recv_header,
	.recv_bytes = tcp_recv_bytes,
	.send = tcp_send,
	.sent = tcp_sent,
	.flush = tcp_flush,
	.arm = tcp_arm,
	.disarm = tcp_disarm,
	.close = tcp_close,
};

void fab__tcp_init(struct fab_tcp *tcp, int fd, struct fab_tls *tls)
{
	ASSERT(!tls || fd >= 0);
	tcp->link = (struct fab_link){ .ops = &tcp_transport };
	tcp->fd = fd;
	tcp->tls = tls;
	tcp->err = 0;
	tcp->unsummed = NULL;
	tcp->drained = false;
	tcp->stuck = false;
	tcp->reach = sizeof(tcp->in);
	tcp->in_at = 0;
	tcp->in_end = 0;
	tcp->out_at = 0;
	list_init(&tcp->out);
	list_init(&tcp->done);
}
