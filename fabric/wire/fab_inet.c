/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Internet addresses, IPv4 and IPv6, and the options of a new TCP socket.
 *
 *   127.0.0.1:7010   [::1]:7010   [fe80::1%eth0]:7010   localhost:7010
 *
 * A host is a number: looking up a name could take any time, in calls that promise not to wait.
 */
#include "fabric/fab_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOST_MAX     64
#define IDLE_S       10 /* of silence, until the kernel probes the peer */
#define PROBE_S      5
#define PROBES       4
#define USER_TIMEOUT (FAB_STALL_NS / 1000000) /* ms */

static int host4(struct fab_addr *out, const char *host, uint16_t port)
{
	out->in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port) };
	out->bytes = sizeof(out->in);
	return inet_pton(AF_INET, host, &out->in.sin_addr) == 1 ? 0 : -EINVAL;
}

/* "[HOST]" or "[HOST%INTERFACE]"; the brackets are there. */
static int host6(struct fab_addr *out, char *host, uint16_t port)
{
	char *zone;

	ASSERT(host[0] == '[' && host[strlen(host) - 1] == ']');
	host[strlen(host) - 1] = 0;
	host++;
	out->in6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(port) };
	out->bytes = sizeof(out->in6);
	zone = strchr(host, '%');
	if (zone) {
		*zone++ = 0;
		out->in6.sin6_scope_id = if_nametoindex(zone);
		if (out->in6.sin6_scope_id == 0)
			return -EINVAL;
	}
	return inet_pton(AF_INET6, host, &out->in6.sin6_addr) == 1 ? 0 : -EINVAL;
}

int fab__inet_parse(struct fab_addr *out, const char *text, const char **wrong)
{
	const char *colon = strrchr(text, ':');
	char host[HOST_MAX], *end;
	unsigned long port;
	size_t bytes;

	*wrong = "an address looks like tcp://192.168.1.2:7010 or tcp://[fd00::2]:7010";
	bytes = colon ? (size_t)(colon - text) : 0;
	if (bytes == 0 || bytes >= sizeof(host))
		return -EINVAL;
	memcpy(host, text, bytes);
	host[bytes] = 0;
	port = strtoul(colon + 1, &end, 10);
	if (colon[1] < '0' || colon[1] > '9' || *end != 0 || port > 65535) {
		*wrong = "a port is a number from 0 to 65535";
		return -EINVAL;
	}
	*wrong = "a host is an IPv4 address, an IPv6 address in [ ], or localhost";
	if (strcmp(host, "localhost") == 0)
		snprintf(host, sizeof(host), "127.0.0.1");
	if (host[0] == '[' && host[bytes - 1] == ']' && bytes > 2)
		return host6(out, host, (uint16_t)port);
	return host4(out, host, (uint16_t)port);
}

void fab__inet_text(const struct sockaddr *sa, char *out, size_t size)
{
	const struct sockaddr_in6 *in6 = (const void *)sa;
	const struct sockaddr_in *in = (const void *)sa;
	char host[INET6_ADDRSTRLEN] = "?";

	ASSERT(size > 0);
	if (sa->sa_family == AF_INET) {
		(void)inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		snprintf(out, size, "%s:%u", host, ntohs(in->sin_port));
		return;
	}
	(void)inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
	snprintf(out, size, "[%s]:%u", host, ntohs(in6->sin6_port));
}

bool fab__inet_is_loopback(const struct sockaddr *sa)
{
	const struct sockaddr_in6 *in6 = (const void *)sa;
	const struct sockaddr_in *in = (const void *)sa;

	if (sa->sa_family == AF_INET)
		return ntohl(in->sin_addr.s_addr) >> 24 == 127;
	return sa->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}

static int set(int fd, int level, int option, int value)
{
	ASSERT(fd >= 0);
	return setsockopt(fd, level, option, &value, sizeof(value)) < 0 ? -errno : 0;
}

/*
 * A capsule is sent at once.  A silent peer (power, cable, a firewall that dropped the connection)
 * is noticed within FAB_STALL_NS: by unacknowledged data, or, when nothing is in flight, by
 * unanswered probes.  The same ends a peer that has stopped reading, because the data that it does
 * not take holds our memory.
 */
int fab__tcp_options(int fd)
{
	int err = set(fd, IPPROTO_TCP, TCP_NODELAY, 1);

	if (!err)
		err = set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)USER_TIMEOUT);
	if (!err)
		err = set(fd, IPPROTO_TCP, TCP_KEEPIDLE, IDLE_S);
	if (!err)
		err = set(fd, IPPROTO_TCP, TCP_KEEPINTVL, PROBE_S);
	if (!err)
		err = set(fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
	return err ? err : set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

/* Listens on each address family separately, so that a peer's address has its own family. */
int fab__tcp_listen_options(int fd, const struct fab_addr *addr)
{
	int err = set(fd, SOL_SOCKET, SO_REUSEADDR, 1);

	if (!err && addr->sa.sa_family == AF_INET6)
		err = set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	return err;
}
