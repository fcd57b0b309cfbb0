/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Addresses of both families, as people write them and as they are told; and a session over each.
 */
#include "fabric/fab_internal.h"
#include "test/lib/fab_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct {
	const char *text;
	const char *told; /* NULL: the same */
	bool loopback;
} good[] = {
	{ "127.0.0.1:7010", NULL, true },
	{ "127.255.0.9:1", NULL, true },
	{ "localhost:7010", "127.0.0.1:7010", true },
	{ "0.0.0.0:0", NULL, false },
	{ "128.0.0.1:65535", NULL, false },
	{ "[::1]:7010", NULL, true },
	{ "[::]:7010", NULL, false },
	{ "[FD00:0:0::2]:7010", "[fd00::2]:7010", false },
	/* Not of this machine, whatever it looks like: such peers reach no listener of ours. */
	{ "[::ffff:127.0.0.1]:7010", NULL, false },
	{ "[fe80::1%lo]:7010", "[fe80::1]:7010", false },
};

Test(fab_inet, addresses_of_both_families)
{
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct fab_addr addr = { 0 };
		const char *wrong, *told = good[i].told ? good[i].told : good[i].text;
		char text[64];

		cr_assert_eq(fab__inet_parse(&addr, good[i].text, &wrong), 0, "%s", good[i].text);
		fab__inet_text(&addr.sa, text, sizeof(text));
		cr_assert_str_eq(text, told);
		cr_assert_eq(fab__inet_is_loopback(&addr.sa), good[i].loopback, "%s", text);
	}
}

Test(fab_inet, what_is_none)
{
	static const char *const bad[] = {
		"",
		":",
		":80",
		"127.0.0.1",
		"127.0.0.1:",
		"127.0.0.1:-1",
		"127.0.0.1:65536",
		"127.0.0.1:1x",
		"127.0.0.1: 1",
		"127.1:80",
		"host:80",
		"::1:80",
		"[::1:80",
		"::1]:80",
		"[]:80",
		"[:80",
		"]:80",
		"[127.0.0.1]:80",
		"[::1%nothere]:80",
		"[::1%]:80",
		"[%lo]:80",
		"0000000000000000000000000000000000000000000000000000000000000000000127.0.0.1:80",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct fab_addr addr = { 0 };
		const char *wrong = NULL;

		cr_assert_eq(fab__inet_parse(&addr, bad[i], &wrong), -EINVAL, "%s", bad[i]);
		cr_assert_not_null(wrong);
	}
}

static struct fab_rig rig;

static void ping(const char *address)
{
	struct fab_call call = { .type = FAB_PING };

	fab_rig_serve(&rig, address, NULL);
	fab_rig_connect(&rig, 0);
	cr_assert_eq(fab_submit(rig.conn, &call), 0);
	fab_reply(fab_rig_request(&rig), 0, NULL, 0);
	cr_assert_eq(fab_rig_done(&rig, rig.conn), &call);
	cr_assert_eq(call.status, 0);
	fab_rig_end(&rig);
}

Test(fab_inet, sessions_over_either_family)
{
	ping("tcp://[::1]:0");
	cr_assert_eq(strncmp(rig.address, "tcp://[::1]:", 12), 0, "%s", rig.address);
	ping("tcp://127.0.0.1:0");
}

/* Listening on all addresses of IPv6 leaves those of IPv4 free: both can be served at one port. */
Test(fab_inet, families_do_not_mix)
{
	char address[64], why[FAB_WHY_MAX];
	int err;

	for (int tries = 0; tries < 20; tries++) { /* somebody may have the other family's port */
		fab_rig_serve(&rig, "tcp://[::]:0", NULL);
		snprintf(address, sizeof(address), "tcp://0.0.0.0%s", strrchr(rig.address, ':'));
		err = fab_server_listen(rig.srv, address, why);
		fab_rig_end(&rig);
		if (!err)
			return;
	}
	cr_assert_fail("%s", why);
}

static int option(int fd, int level, int name)
{
	socklen_t bytes = sizeof(int);
	int value = -1;

	cr_assert_eq(getsockopt(fd, level, name, &value, &bytes), 0);
	return value;
}

/* A peer that has vanished is noticed within the time that a peer may be silent. */
Test(fab_inet, silent_peers_are_asked)
{
	int fd = socket(AF_INET6, SOCK_STREAM, 0);

	cr_assert_eq(fab__tcp_options(fd), 0);
	cr_assert_eq(option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
	cr_assert_eq(option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
	cr_assert_leq(option(fd, IPPROTO_TCP, TCP_KEEPIDLE) +
			      option(fd, IPPROTO_TCP, TCP_KEEPINTVL) *
				      option(fd, IPPROTO_TCP, TCP_KEEPCNT),
		      (int)(FAB_STALL_NS / 1000000000));
	cr_assert_eq(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), (int)(FAB_STALL_NS / 1000000));
	close(fd);
}
