/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A cable between the network cards of two QEMUs, which outlives both: each connects to its end
 * (-netdev stream), goes, and comes again.
 *
 *	wire PATH PATH          SIGUSR1 cuts it, SIGUSR2 mends it: neither end is told
 *
 *   end 0 --- bytes --> whole frames only --> end 1         and the same the other way round
 *
 * QEMU sends each frame behind its length, in 4 bytes.  A frame to an end without a QEMU, or
 * through a cut, is lost.  While an end does not take its frames, the other one waits: so no frame
 * is lost for lack of speed, which soft-RoCE would take for a bad network.
 *
 * Invariant: told <= whole <= have <= FRAMES_BYTES; `whole` is where a frame ends.
 */
#define _GNU_SOURCE
#include "base/num.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FRAMES_BYTES (256u << 10) /* more than the longest frame, which is 68 KiB */

struct end {
	int door; /* listens */
	int fd;   /* who is there, or -1 */
	uint8_t bytes[FRAMES_BYTES];
	size_t have;
	size_t whole;
	size_t told; /* the other end has so many */
};

static struct end ends[2] = { { .fd = -1 }, { .fd = -1 } };
static volatile sig_atomic_t is_cut;

static void cut(int number)
{
	is_cut = number == SIGUSR1;
}

static int door_open(const char *path)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if ((size_t)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path) >= sizeof(at.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	(void)unlink(path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 1))
		return -1;
	return fd;
}

/* Nobody is at `e` any more: nothing of its stays, and what was on its way there is lost. */
static void end_leaves(struct end *e, struct end *other)
{
	close(e->fd);
	e->fd = -1;
	e->have = e->whole = e->told = 0;
	other->told = other->whole;
}

static void frames_find(struct end *e)
{
	uint32_t length;

	while (e->have - e->whole >= sizeof(length)) {
		memcpy(&length, e->bytes + e->whole, sizeof(length));
		length = ntohl(length);
		if (e->have - e->whole - sizeof(length) < length)
			break;
		e->whole += sizeof(length) + length;
	}
}

static void end_read(struct end *e, struct end *other)
{
	ssize_t got = recv(e->fd, e->bytes + e->have, FRAMES_BYTES - e->have, MSG_DONTWAIT);

	if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
		end_leaves(e, other);
		return;
	}
	e->have += got > 0 ? (size_t)got : 0;
	frames_find(e);
}

/* Sends the whole frames of `from` to `to`. */
static void frames_pass(struct end *from, struct end *to)
{
	ssize_t sent;

	if (to->fd < 0 || (is_cut && from->told == 0)) {
		from->told = from->whole;
	} else if (from->told < from->whole) {
		sent = send(to->fd, from->bytes + from->told, from->whole - from->told,
			    MSG_DONTWAIT | MSG_NOSIGNAL);
		from->told += sent > 0 ? (size_t)sent : 0; /* an error: its end will be read */
	}
	if (from->told == from->whole) {
		from->have -= from->whole;
		memmove(from->bytes, from->bytes + from->whole, from->have);
		from->whole = from->told = 0;
	}
}

static int turn(void)
{
	struct pollfd p[4];

	for (int i = 0; i < 2; i++) {
		struct end *e = &ends[i], *other = &ends[!i];

		p[i] = (struct pollfd){ .fd = e->door, .events = POLLIN };
		p[2 + i] = (struct pollfd){ .fd = e->fd };
		p[2 + i].events = (e->have < FRAMES_BYTES ? POLLIN : 0) |
				  (other->whole > other->told ? POLLOUT : 0);
	}
	if (poll(p, ARRAY_LEN(p), -1) < 0)
		return errno == EINTR ? 0 : -errno;
	for (int i = 0; i < 2; i++) {
		if (p[2 + i].revents & (POLLIN | POLLHUP | POLLERR))
			end_read(&ends[i], &ends[!i]);
		if (p[i].revents & POLLIN) {
			if (ends[i].fd >= 0)
				end_leaves(&ends[i], &ends[!i]);
			ends[i].fd = accept4(ends[i].door, NULL, NULL, SOCK_CLOEXEC);
		}
	}
	for (int i = 0; i < 2; i++)
		frames_pass(&ends[i], &ends[!i]);
	return 0;
}

int main(int argc, char **argv)
{
	struct sigaction act = { .sa_handler = cut };
	int err = 0;

	if (argc != 3) {
		fprintf(stderr, "usage: wire PATH PATH\n");
		return 2;
	}
	(void)sigaction(SIGUSR1, &act, NULL);
	(void)sigaction(SIGUSR2, &act, NULL);
	for (int i = 0; i < 2; i++) {
		ends[i].door = door_open(argv[1 + i]);
		if (ends[i].door < 0) {
			fprintf(stderr, "wire: %s: %s\n", argv[1 + i], strerror(errno));
			return 1;
		}
	}
	while (!err)
		err = turn();
	fprintf(stderr, "wire: %s\n", strerror(-err));
	return 1;
}
