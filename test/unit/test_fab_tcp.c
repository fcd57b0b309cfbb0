/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Capsules through a stream whose calls go wrong: sendmsg(), recv() and recvmsg() of this program
 * are the ones below, which end a transfer at any byte, are interrupted, have no room, or fail.
 *
 *   link a (out) --> socket pair --> link b (in)       one plan for each direction of faults
 *
 * What a sender has given back is overwritten at once: a byte that were still needed would be
 * wrong.
 */
#include "fabric/fab_internal.h"
#include "fabric/hello/fab_server_internal.h"
#include "test/lib/fab_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* ---- the calls -------------------------------------------------------------------------- */

/* The plan of the calls on one descriptor.  `at`: bytes that went through so far. */
struct plan {
	int fd;
	uint64_t at;
	uint64_t cut; /* the call that would go on past it ends there, and the next fails ... */
	int err;      /* ... with this, once; -1: the peer's end, for ever */
	bool for_ever;
	uint32_t most; /* bytes of a call; 0: all */
	uint32_t calls;
	bool failed;
	int flags; /* of the last call */
};

static struct plan sends, recvs;

/* How many bytes this call may move; 0: it fails, with errno set (or is the end). */
static uint64_t room(struct plan *p, uint64_t wanted)
{
	p->calls++;
	if (p->err && p->at == p->cut && (!p->failed || p->for_ever)) {
		p->failed = true;
		errno = p->err;
		return 0;
	}
	if (p->err && !p->failed && p->at + wanted > p->cut)
		wanted = p->cut - p->at;
	return p->most && wanted > p->most ? p->most : wanted;
}

/* The first `bytes` of iov. */
static size_t shorten(struct iovec *out, const struct msghdr *msg, uint64_t bytes)
{
	size_t n = 0;

	for (; n < msg->msg_iovlen && bytes > 0; n++) {
		out[n] = msg->msg_iov[n];
		out[n].iov_len = min_u64(out[n].iov_len, bytes);
		bytes -= out[n].iov_len;
	}
	return n;
}

static ssize_t through(struct plan *p, long call, int fd, const struct msghdr *msg, int flags)
{
	struct iovec iov[256];
	struct msghdr cut = { .msg_iov = iov };
	uint64_t wanted = 0, bytes;
	ssize_t got;

	cr_assert(flags & MSG_DONTWAIT, "nothing waits");
	p->flags = flags;
	cr_assert_leq(msg->msg_iovlen, 256);
	for (size_t i = 0; i < msg->msg_iovlen; i++)
		wanted += msg->msg_iov[i].iov_len;
	cr_assert_gt(wanted, 0, "a call that moves nothing");
	bytes = room(p, wanted);
	if (bytes == 0)
		return p->err < 0 ? 0 : -1;
	cut.msg_iovlen = shorten(iov, msg, bytes);
	got = syscall(call, fd, &cut, flags);
	if (got > 0)
		p->at += (uint64_t)got;
	return got;
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	if (!sends.fd || fd != sends.fd)
		return syscall(SYS_sendmsg, fd, msg, flags);
	cr_assert(flags & MSG_NOSIGNAL, "SIGPIPE ends a program that knows nothing of us");
	return through(&sends, SYS_sendmsg, fd, msg, flags);
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	if (!recvs.fd || fd != recvs.fd)
		return syscall(SYS_recvmsg, fd, msg, flags);
	return through(&recvs, SYS_recvmsg, fd, msg, flags);
}

ssize_t recv(int fd, void *to, size_t size, int flags)
{
	struct iovec iov = { to, size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (!recvs.fd || fd != recvs.fd)
		return syscall(SYS_recvfrom, fd, to, size, flags, NULL, NULL);
	return recvmsg(fd, &msg, flags);
}

/* ---- a stream --------------------------------------------------------------------------- */

/* Payload on both sides of the limit for direct receives (16 KiB), and more headers than are read
 * behind that. */
static const struct shape {
	uint32_t body_bytes, payload_bytes;
} shapes[] = {
	{ 0, 0 }, { 200, 0 },  { 0, 16384 }, { 0, 100 },   { 1024, 0 }, { 0, 17000 },
	{ 0, 1 }, { 0, 3000 }, { 0, 0 },     { 300, 500 }, { 0, 0 },    { 29, 0 },
};

enum { COUNT = ARRAY_LEN(shapes), LARGEST = 17000, CAPSULES_MAX = 400, CUTS_LEAST = 500 };

static struct fab_tcp *out, *in;
static struct fab_tx tx[CAPSULES_MAX];
static uint8_t *bytes_of[CAPSULES_MAX];
static uint32_t count, gone, came;
static bool have_header;
static uint32_t done_bytes;
static uint8_t landed[LARGEST], wanted[COUNT][LARGEST];

static const struct shape *shape_of(uint32_t capsule)
{
	return &shapes[capsule % COUNT];
}

static uint32_t behind(uint32_t capsule)
{
	return shape_of(capsule)->body_bytes + shape_of(capsule)->payload_bytes;
}

static uint64_t total(void)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < count; i++)
		sum += sizeof(struct fab_hdr_wire) + behind(i);
	return sum;
}

static void begin(uint32_t capsules)
{
	int fd[2];

	for (uint32_t i = 0; i < COUNT && !wanted[COUNT - 1][0]; i++)
		for (uint32_t b = 0; b < LARGEST; b++)
			wanted[i][b] = (uint8_t)(((b + 1) * 2654435761u + i * 40503u) >> 13) | 1;
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	out = malloc(sizeof(*out));
	in = malloc(sizeof(*in));
	fab__tcp_init(out, fd[0], NULL);
	fab__tcp_init(in, fd[1], NULL);
	sends = (struct plan){ .fd = fd[0] };
	recvs = (struct plan){ .fd = fd[1] };
	count = capsules;
	gone = came = done_bytes = 0;
	have_header = false;
	for (uint32_t i = 0; i < count; i++)
		bytes_of[i] = malloc(behind(i) + 1);
}

static void end(void)
{
	for (uint32_t i = 0; i < count; i++)
		free(bytes_of[i]);
	if (sends.fd)
		close(sends.fd);
	close(recvs.fd);
	sends.fd = recvs.fd = 0;
	free(out);
	free(in);
}

static void queue(uint32_t i)
{
	memcpy(bytes_of[i], wanted[i % COUNT], behind(i));
	tx[i] = (struct fab_tx){
		.body = shape_of(i)->body_bytes ? bytes_of[i] : NULL,
		.body_bytes = shape_of(i)->body_bytes,
		.payload =
			shape_of(i)->payload_bytes ? bytes_of[i] + shape_of(i)->body_bytes : NULL,
		.payload_bytes = shape_of(i)->payload_bytes,
	};
	fab__hdr_build(&tx[i].hdr, FAB_PING, i + 1);
	cr_assert_eq(out->link.ops->send(&out->link, &tx[i]), 0);
}

/* In the order of send(), each once; and nobody looks at it any more. */
static void take_back(void)
{
	struct fab_tx *back;

	while ((back = out->link.ops->sent(&out->link)) != NULL) {
		cr_assert_eq(back - tx, gone);
		memset(bytes_of[gone], 0xdd, behind(gone));
		memset(back, 0xdd, sizeof(*back));
		gone++;
	}
}

static int receive_one(void)
{
	const struct fab_transport *ops = in->link.ops;
	struct fab_hdr_wire hdr;
	int got;

	if (!have_header) {
		got = ops->recv_header(&in->link, &hdr);
		if (got <= 0)
			return got;
		cr_assert_lt(came, count);
		cr_assert_eq(le64_get(hdr.request_id), came + 1);
		have_header = true;
		done_bytes = 0;
	}
	if (behind(came) > 0) {
		got = ops->recv_bytes(&in->link, 0, landed, behind(came), &done_bytes);
		if (got <= 0)
			return got;
		cr_assert_eq(memcmp(landed, wanted[came % COUNT], behind(came)), 0, "capsule %u",
			     came);
	}
	have_header = false;
	came++;
	return 1;
}

static int turn(void)
{
	int err = out->link.ops->flush(&out->link), got;

	take_back();
	do {
		got = receive_one();
	} while (got > 0);
	return err ? err : got;
}

static void run(void)
{
	for (uint32_t i = 0; i < count; i++)
		queue(i);
	for (uint32_t turns = 0; came < count; turns++) {
		cr_assert_eq(turn(), 0);
		cr_assert_lt(turns, 10 + total(), "it stands still");
	}
	cr_assert_eq(gone, count);
	cr_assert_eq(sends.at, total());
	cr_assert_eq(recvs.at, total());
	cr_assert(in->link.ops->arm(&in->link) || recvs.most || recvs.err);
}

TestSuite(fab_tcp, .timeout = 120);

/* ---- what only delays ---------------------------------------------------------------------- */

/* Returns the next place for a cut: every byte around the ends of capsules, and a few in
 * between. */
static uint64_t next_cut(uint64_t cut)
{
	const char *length = getenv("TEST_LENGTH");
	uint64_t at = 0;

	if (length && strcmp(length, "short") != 0)
		return cut + 1;
	for (uint32_t i = 0; i < count; i++) {
		if (cut + 70 > at && cut < at + 70)
			return cut + 1;
		at += sizeof(struct fab_hdr_wire) + behind(i);
	}
	return cut + 67;
}

/* Returns at how many. */
static uint64_t cut_at_every_byte(struct plan *p, int err)
{
	uint64_t all, cuts = 0;

	begin(COUNT);
	all = total();
	end();
	for (uint64_t cut = 0; cut < all; cut = next_cut(cut)) {
		begin(COUNT);
		p->cut = cut;
		p->err = err;
		run();
		cr_assert(p->failed);
		end();
		cuts++;
	}
	return cuts;
}

Test(fab_tcp, no_room_at_any_byte)
{
	cr_assert_gt(cut_at_every_byte(&sends, EAGAIN), CUTS_LEAST);
}

Test(fab_tcp, nothing_there_at_any_byte)
{
	cr_assert_gt(cut_at_every_byte(&recvs, EAGAIN), CUTS_LEAST);
}

Test(fab_tcp, interrupted_at_any_byte)
{
	cr_assert_gt(cut_at_every_byte(&sends, EINTR), CUTS_LEAST);
	cr_assert_gt(cut_at_every_byte(&recvs, EINTR), CUTS_LEAST);
}

Test(fab_tcp, a_few_bytes_a_call)
{
	for (uint32_t most = 1; most <= 129; most += most < 3 ? 1 : 63) {
		begin(COUNT);
		sends.most = recvs.most = most;
		run();
		cr_assert_eq(came, COUNT, "at most %u", most);
		end();
	}
}

/* More pieces than one call takes, more bytes than a socket holds. */
Test(fab_tcp, more_than_one_call_takes)
{
	begin(CAPSULES_MAX);
	run();
	cr_assert_lt(sends.calls, CAPSULES_MAX / 2);
	end();
}

/* A capsule that nobody waits for shares the segment of the next one; it still goes to the kernel
 * at once, which bounds how long it may stay there. */
Test(fab_tcp, what_nobody_waits_for_leaves_with_what_is_sent_next)
{
	begin(2);
	queue(0);
	out->link.later = true;
	cr_assert_eq(out->link.ops->flush(&out->link), 0);
	cr_assert(sends.flags & MSG_MORE);
	take_back();
	cr_assert_eq(gone, 1);
	out->link.later = false;
	queue(1);
	cr_assert_eq(turn(), 0);
	cr_assert_not(sends.flags & MSG_MORE);
	cr_assert_eq(came, 2);
	end();
}

Test(fab_tcp, large_payload_comes_with_the_next_header_in_one_call)
{
	enum { PAIRS = 100 };

	begin(2 * PAIRS);
	for (uint32_t i = 0; i < PAIRS; i++) { /* one at a time: 16 KiB, then a header */
		count = 2;
		came = gone = 0;
		tx[0] = (struct fab_tx){ .payload = bytes_of[2], .payload_bytes = 16384 };
		tx[1] = (struct fab_tx){ 0 };
		for (uint32_t t = 0; t < 2; t++) {
			struct fab_hdr_wire hdr;
			uint32_t done = 0;

			fab__hdr_build(&tx[t].hdr, FAB_PING, t + 1);
			cr_assert_eq(out->link.ops->send(&out->link, &tx[t]), 0);
			if (t == 0)
				continue;
			cr_assert_eq(out->link.ops->flush(&out->link), 0);
			while (out->link.ops->sent(&out->link))
				;
			if (i == PAIRS / 2)
				recvs.calls = 0;
			cr_assert_eq(in->link.ops->recv_header(&in->link, &hdr), 1);
			cr_assert_eq(in->link.ops->recv_bytes(&in->link, 0, landed, 16384, &done),
				     1);
			cr_assert_eq(in->link.ops->recv_header(&in->link, &hdr), 1);
		}
	}
	cr_assert_leq(recvs.calls, 2 * (PAIRS / 2) + 2, "%u", recvs.calls);
	count = 2 * PAIRS;
	end();
}

/* ---- what ends it --------------------------------------------------------------------------- */

/* Makes the link fail with `err` at byte `cut`.  Returns how many capsules come back, asking for
 * each until there are no more; *calls: attempts to send after the failure. */
static uint32_t given_back(int err, uint64_t cut, uint32_t *calls)
{
	uint32_t given = 0, before;

	begin(COUNT);
	sends.cut = cut;
	sends.err = err;
	for (uint32_t i = 0; i < COUNT - 1; i++)
		queue(i);
	cr_assert_eq(out->link.ops->flush(&out->link), -ECONNRESET);
	before = sends.calls;
	cr_assert_eq(out->link.ops->flush(&out->link), -ECONNRESET);
	while (out->link.ops->sent(&out->link))
		given++;
	queue(COUNT - 1); /* it comes back at once */
	cr_assert_eq(out->link.ops->sent(&out->link), &tx[COUNT - 1]);
	given++;
	cr_assert_not(out->link.ops->arm(&out->link));
	out->link.ops->close(&out->link);
	*calls = sends.calls - before;
	while (out->link.ops->sent(&out->link))
		given++;
	end();
	return given;
}

Test(fab_tcp, errors_give_everything_back_once)
{
	static const int errors[] = { EPIPE, ECONNRESET, ENOBUFS, ENOMEM, ETIMEDOUT };

	for (size_t i = 0; i < ARRAY_LEN(errors); i++)
		for (uint64_t cut = 0; cut < 20000; cut += 131) {
			uint32_t calls;

			cr_assert_eq(given_back(errors[i], cut, &calls), COUNT,
				     "error %d at byte %lu", errors[i], (unsigned long)cut);
			cr_assert_eq(calls, 0, "after an error nothing is sent");
		}
}

/* 0: the peer's end.  Capsules before it are whole; one that is cut is never handed out. */
Test(fab_tcp, an_end_at_any_byte)
{
	static const int errors[] = { -1, ECONNRESET };

	for (size_t e = 0; e < ARRAY_LEN(errors); e++) {
		for (uint64_t cut = 0; cut < 60000; cut += 61) {
			uint32_t before;

			begin(COUNT);
			if (cut >= total()) {
				end();
				break;
			}
			recvs.cut = cut;
			recvs.err = errors[e];
			recvs.for_ever = true;
			for (uint32_t i = 0; i < COUNT; i++)
				queue(i);
			for (int i = 0; i < 1000 && turn() == 0; i++)
				;
			before = came;
			cr_assert_eq(receive_one(), -ECONNRESET);
			cr_assert_eq(came, before);
			cr_assert_lt(came, COUNT);
			end();
		}
	}
}

Test(fab_tcp, a_peer_that_has_closed_is_no_signal)
{
	begin(COUNT);
	for (uint32_t i = 0; i < COUNT; i++)
		queue(i);
	close(recvs.fd);
	recvs.fd = open("/dev/null", O_RDONLY);
	cr_assert_eq(out->link.ops->flush(&out->link), -ECONNRESET);
	end();
}

/* Parts are in flight when their client goes: each comes back once, with what became of it. */
Test(fab_tcp, a_peer_that_closes_while_parts_are_in_flight)
{
	enum { PARTS = 24, BYTES = 1 << 20 };
	static struct fab_rig rig;
	static struct fab_piece piece[PARTS];
	static uint32_t back[PARTS];
	uint8_t *source = calloc(1, BYTES);
	struct fab_call call = { .type = FAB_READ, .args.read.length_bytes = BYTES };
	struct fab_event event = { 0 };
	uint32_t lost = 0;
	struct fab_req *req;

	fab_rig_serve(&rig, "tcp", NULL);
	fab_rig_connect(&rig, BYTES);
	call.region = rig.region;
	call.window_bytes = BYTES;
	cr_assert_eq(fab_submit(rig.conn, &call), 0);
	req = fab_rig_request(&rig);
	for (uint32_t i = 0; i < PARTS; i++) { /* more than a socket holds */
		piece[i] = (struct fab_piece){ .bytes = source, .length_bytes = BYTES };
		cr_assert_eq(fab_send_part(req, &piece[i]), 0);
	}
	fab_server_flush(rig.srv);
	fab_close(rig.conn);
	rig.conn = NULL;
	while (event.type != FAB_EVENT_SESSION_CLOSED) {
		fab_rig_control(&rig);
		if (!fab_server_poll(rig.srv, rig.now_ns, &event, 1))
			continue;
		if (event.type == FAB_EVENT_CANCEL)
			fab_reply(event.req, -ECONNRESET, NULL, 0);
		if (event.type != FAB_EVENT_SENT)
			continue;
		back[event.piece - piece]++;
		lost += event.status == -ECONNRESET;
	}
	for (uint32_t i = 0; i < PARTS; i++)
		cr_assert_eq(back[i], 1, "part %u", i);
	cr_assert_gt(lost, 0);
	fab_rig_end(&rig);
	free(source);
}
