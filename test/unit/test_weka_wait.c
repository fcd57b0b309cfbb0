/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A waiting client does not sleep in the middle of an answer whose bytes are arriving.
 *
 * The clock and the client's receiving are this program's: once the whole answer lies in the
 * socket, each call brings a little of it, and takes longer than anybody polls for nothing.
 */
#include "test/lib/script_server.h"

#include "base/clock.h"
#include "base/num.h"
#include "client-lib/weka_client.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BYTES     (40u << 10) /* fits into the least socket */
#define CALL_BYTE 2048u
#define CALL_NS   (50 * NS_PER_MS)

static _Thread_local bool is_client;
static bool is_slow;
static int client_fd;
static uint32_t calls;
static _Atomic uint64_t now_ns = NS_PER_S;

/* A little later each time that somebody asks. */
uint64_t clock_now_ns(void)
{
	return atomic_fetch_add(&now_ns, 100);
}

uint64_t clock_wall_ns(void)
{
	return clock_now_ns();
}

/* How much this call may bring; 0: nothing, after each that brought something. */
static size_t slowed(int fd, size_t size)
{
	if (!is_client)
		return size;
	client_fd = fd;
	if (!is_slow)
		return size;
	if (calls++ % 2 == 1)
		return 0;
	atomic_fetch_add(&now_ns, CALL_NS);
	return min_u64(size, CALL_BYTE);
}

static ssize_t nothing(void)
{
	errno = EAGAIN;
	return -1;
}

ssize_t recv(int fd, void *to, size_t size, int flags)
{
	size = slowed(fd, size);
	return size ? syscall(SYS_recvfrom, fd, to, size, flags, NULL, NULL) : nothing();
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	struct msghdr first = *msg;
	struct iovec iov = msg->msg_iovlen ? msg->msg_iov[0] : (struct iovec){ 0 };

	if (!is_client || !is_slow)
		return syscall(SYS_recvmsg, fd, msg, flags);
	iov.iov_len = slowed(fd, iov.iov_len);
	if (iov.iov_len == 0)
		return nothing();
	first.msg_iov = &iov;
	first.msg_iovlen = 1;
	return syscall(SYS_recvmsg, fd, &first, flags);
}

Test(weka_wait, nobody_sleeps_while_an_answer_is_coming, .timeout = 60)
{
	static struct script server;
	struct weka_key key = { .secret = server.cfg.key.secret };
	struct weka_options options = { .size_bytes = sizeof(options), .pool_bytes = 2u << 20 };
	struct weka_window window = { .size_bytes = BYTES };
	struct weka_counters before = { .size_bytes = sizeof(before) }, after = before;
	struct weka_req req = { 0 };
	struct weka_client *client;
	struct weka_attr attr;
	int there = 0;

	script_init(&server);
	script_add(&server, "a", BYTES);
	script_start(&server, "tcp");
	is_client = true;
	cr_assert_eq(weka_connect(server.address, &key, &options, &client), 0, "%s",
		     weka_error(NULL));
	cr_assert_eq(weka_open(client, "/a", 0, 0, &attr), 0);
	cr_assert_eq(weka_lease(client, BYTES, &window.lease), 0);
	req.timeout_ns = WEKA_FOREVER;
	cr_assert_eq(weka_submit_read(client, &req, &attr.handle, 0, BYTES, &window), 0);
	weka_flush(client);
	while (there < (int)BYTES + 64) /* behind the reply's header */
		cr_assert_eq(ioctl(client_fd, FIONREAD, &there), 0);

	cr_assert_eq(weka_get_counters(client, &before), 0);
	is_slow = true;
	cr_assert_eq(weka_wait(client, WEKA_FOREVER), 0);
	is_slow = false;
	cr_assert_eq(weka_get_counters(client, &after), 0);
	cr_assert_gt(calls, BYTES / CALL_BYTE);
	cr_assert_eq(after.sleeps, before.sleeps);
	cr_assert_eq(req.status, 0);
	weka_close(client);
	script_destroy(&server);
}
