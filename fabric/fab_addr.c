/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Addresses as people write them, and who is at the other end of a unix socket. */
#include "fabric/fab_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int say(char why[FAB_WHY_MAX], int err, const char *address, const char *what)
{
	snprintf(why, FAB_WHY_MAX, "\"%.100s\": %s", address, what);
	return err;
}

static int tcp_parse(struct fab_addr *out, const char *address, const char *rest,
		     char why[FAB_WHY_MAX])
{
	const char *colon = strrchr(rest, ':');
	char host[64], *end;
	unsigned long port;

	if (!colon || colon == rest || (size_t)(colon - rest) >= sizeof(host))
		return say(why, -EINVAL, address, "an address looks like tcp://127.0.0.1:7010");
	memcpy(host, rest, (size_t)(colon - rest));
	host[colon - rest] = 0;
	port = strtoul(colon + 1, &end, 10);
	if (colon[1] < '0' || colon[1] > '9' || *end != 0 || port > 65535)
		return say(why, -EINVAL, address, "a port is a number from 0 to 65535");
	if (strcmp(host, "localhost") == 0)
		snprintf(host, sizeof(host), "127.0.0.1");
	out->in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	if (inet_pton(AF_INET, host, &out->in.sin_addr) != 1)
		return say(why, -EINVAL, address, "not an IPv4 address");
	if ((ntohl(out->in.sin_addr.s_addr) >> 24) != 127)
		return say(why, -EADDRNOTAVAIL, address,
			   "TCP is for this machine only so far: use tcp://127.0.0.1:PORT");
	out->transport = FAB_TRANSPORT_TCP;
	out->bytes = sizeof(out->in);
	return 0;
}

static int shm_parse(struct fab_addr *out, const char *address, const char *path,
		     char why[FAB_WHY_MAX])
{
	out->un = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (path[0] != '/')
		return say(why, -EINVAL, address, "an address looks like shm:/run/weka.sock");
	if (strlen(path) >= sizeof(out->un.sun_path))
		return say(why, -ENAMETOOLONG, address,
			   "the path of a socket has at most 107 bytes");
	memcpy(out->un.sun_path, path, strlen(path) + 1);
	out->transport = FAB_TRANSPORT_SHM;
	out->bytes = sizeof(out->un);
	return 0;
}

int fab__addr_parse(struct fab_addr *out, const char *address, char why[FAB_WHY_MAX])
{
	memset(out, 0, sizeof(*out));
	if (strncmp(address, "tcp://", 6) == 0)
		return tcp_parse(out, address, address + 6, why);
	if (strncmp(address, "shm:", 4) == 0)
		return shm_parse(out, address, address + 4, why);
	return say(why, -EINVAL, address, "an address begins with tcp:// or shm:");
}

int fab__addr_socket(const struct fab_addr *addr)
{
	int fd = socket(addr->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int one = 1;

	if (fd < 0)
		return -errno;
	if (addr->transport == FAB_TRANSPORT_TCP &&
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

int fab__peer_uid_check(int fd, char why[FAB_WHY_MAX])
{
	struct ucred cred;
	socklen_t bytes = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &bytes) < 0) {
		snprintf(why, FAB_WHY_MAX, "who the peer is cannot be found out: %s",
			 strerror(errno));
		return -EACCES;
	}
	if (cred.uid == geteuid() || cred.uid == 0)
		return 0;
	snprintf(why, FAB_WHY_MAX, "the peer runs as user %u, not as %u or root", cred.uid,
		 geteuid());
	return -EACCES;
}

bool fab__peer_is_local(int fd)
{
	struct sockaddr_storage peer = { 0 };
	socklen_t bytes = sizeof(peer);
	const struct sockaddr_in *in = (const void *)&peer;

	if (getpeername(fd, (struct sockaddr *)&peer, &bytes) < 0)
		return false;
	if (peer.ss_family == AF_UNIX)
		return true;
	return peer.ss_family == AF_INET && ntohl(in->sin_addr.s_addr) >> 24 == 127;
}

void fab__peer_text(int fd, char out[64])
{
	struct sockaddr_storage peer = { 0 };
	socklen_t bytes = sizeof(peer);
	const struct sockaddr_in *in = (const void *)&peer;
	struct ucred cred = { 0 };
	char host[INET_ADDRSTRLEN];

	snprintf(out, 64, "a peer that is gone");
	if (getpeername(fd, (struct sockaddr *)&peer, &bytes) < 0)
		return;
	if (peer.ss_family == AF_INET && inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host)))
		snprintf(out, 64, "%s:%u", host, ntohs(in->sin_port));
	bytes = sizeof(cred);
	if (peer.ss_family == AF_UNIX &&
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &bytes) == 0)
		snprintf(out, 64, "user %u, process %d", cred.uid, cred.pid);
}
