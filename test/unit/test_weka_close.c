/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The request of a close may wait in the kernel (tcp) to be sent with the next one; no other
 * may. */
#define _GNU_SOURCE
#include "test/lib/client_seen.h"
#include "test/lib/script_server.h"

#include <criterion/criterion.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct script server;
static struct weka_client *client;
static _Atomic uint64_t corked_bytes;

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	ssize_t sent = syscall(SYS_sendmsg, fd, msg, flags);

	if (sent > 0 && flags & MSG_MORE)
		atomic_fetch_add(&corked_bytes, (uint64_t)sent);
	return sent;
}

/* Returns how many bytes a close leaves in the kernel, with a read submitted before it or not. */
static uint64_t closed_after(bool read)
{
	struct weka_window w = { .size_bytes = 16384 };
	struct weka_req req = { 0 };
	struct weka_attr attr;

	cr_assert_eq(weka_open(client, "a", 0, 0, &attr), 0, "%s", weka_error(client));
	cr_assert_eq(weka_lease(client, w.size_bytes, &w.lease), 0);
	atomic_store(&corked_bytes, 0);
	if (read)
		cr_assert_eq(weka_submit_read(client, &req, &attr.handle, 0, 10000, &w), 0);
	cr_assert_eq(weka_close_file(client, &attr.handle), 0);
	if (read)
		cr_assert_eq(reap_one(client)->status, 0);
	weka_release(client, w.lease);
	return atomic_load(&corked_bytes);
}

Test(weka_close, a_request_submitted_before_a_close_does_not_wait_in_the_kernel, .timeout = 60)
{
	struct weka_options options = { .size_bytes = sizeof(options),
					.pool_bytes = 4 << 20,
					.lanes = 1 };
	struct weka_key key;
	uint64_t alone;

	script_init(&server);
	script_add(&server, "a", 10000);
	key = (struct weka_key){ .secret = server.cfg.key.secret };
	script_start(&server, "tcp");
	cr_assert_eq(weka_connect(server.address, &key, &options, &client), 0, "%s",
		     weka_error(NULL));
	alone = closed_after(false);
	cr_assert_gt(alone, 0);
	cr_assert_eq(closed_after(true), alone);
	weka_close(client);
	script_destroy(&server);
}
