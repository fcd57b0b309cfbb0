/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Addresses in text form, and the identity of the peer of a unix socket. */
#include "fabric/fab_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int say(char why[FAB_WHY_MAX], int err, const char *address, const char *what)
{
	ASSERT(err < 0 && what);
	snprintf(why, FAB_WHY_MAX, "\"%.100s\": %s", address, what);
	return err;
}

static int inet_parse(struct fab_addr *out, const char *address, const char *rest,
		      uint8_t transport, char why[FAB_WHY_MAX])
{
	const char *wrong;
	int err = fab__inet_parse(out, rest, &wrong);

	ASSERT(transport == FAB_TRANSPORT_TCP || transport == FAB_TRANSPORT_RDMA);
	if (err)
		return say(why, err, address, wrong);
	out->transport = transport;
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
		return inet_parse(out, address, address + 6, FAB_TRANSPORT_TCP, why);
	out->tls = strncmp(address, "tls://", 6) == 0;
	if (out->tls)
		return inet_parse(out, address, address + 6, FAB_TRANSPORT_TCP, why);
	if (strncmp(address, "rdma://", 7) == 0)
		return inet_parse(out, address, address + 7, FAB_TRANSPORT_RDMA, why);
	if (strncmp(address, "shm:", 4) == 0)
		return shm_parse(out, address, address + 4, why);
	return say(why, -EINVAL, address, "an address begins with rdma://, tcp://, tls:// or shm:");
}

int fab__fd_nonblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	ASSERT(fd >= 0);
	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

int fab_address_check(const char *address, char why[256])
{
	struct fab_addr addr;

	static_assert(FAB_WHY_MAX == 256, "fab.h says so");
	return fab__addr_parse(&addr, address, why);
}

int fab__addr_socket(const struct fab_addr *addr)
{
	int fd = socket(addr->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int err;

	ASSERT(addr->transport == FAB_TRANSPORT_TCP || addr->transport == FAB_TRANSPORT_SHM);
	if (fd < 0)
		return -errno;
	err = addr->transport == FAB_TRANSPORT_TCP ? fab__tcp_options(fd) : 0;
	if (!err)
		return fd;
	close(fd);
	return err;
}

/* `user`: who may, beside root and this process's user. */
int fab__peer_uid_check(int fd, const uint32_t *user, uint32_t user_count, char why[FAB_WHY_MAX])
{
	struct ucred cred;
	socklen_t bytes = sizeof(cred);

	ASSERT(fd >= 0);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &bytes) < 0) {
		snprintf(why, FAB_WHY_MAX, "who the peer is cannot be found out: %s",
			 strerror(errno));
		return -EACCES;
	}
	if (cred.uid == geteuid() || cred.uid == 0)
		return 0;
	for (uint32_t i = 0; i < user_count; i++)
		if (cred.uid == user[i])
			return 0;
	snprintf(why, FAB_WHY_MAX, "the peer runs as user %u, which may not connect here",
		 cred.uid);
	return -EACCES;
}

enum fab_peer fab__peer_of(int fd, uint8_t transport)
{
	struct sockaddr_storage peer = { 0 };
	socklen_t bytes = sizeof(peer);
	char why[FAB_WHY_MAX];
	bool local;

	ASSERT(fd >= 0);
	if (transport == FAB_TRANSPORT_SHM && fab__peer_uid_check(fd, NULL, 0, why) == 0)
		return FAB_PEER_OWNER;
	if (getpeername(fd, (struct sockaddr *)&peer, &bytes) < 0)
		return FAB_PEER_ANY;
	local = peer.ss_family == AF_UNIX || fab__inet_is_loopback((const struct sockaddr *)&peer);
	return local ? FAB_PEER_LOCAL : FAB_PEER_ANY;
}

void fab__peer_text(int fd, char out[64])
{
	struct sockaddr_storage peer = { 0 };
	socklen_t bytes = sizeof(peer);
	struct ucred cred = { 0 };

	ASSERT(fd >= 0);
	snprintf(out, 64, "a peer that is gone");
	if (getpeername(fd, (struct sockaddr *)&peer, &bytes) < 0)
		return;
	if (peer.ss_family == AF_INET || peer.ss_family == AF_INET6)
		fab__inet_text((const struct sockaddr *)&peer, out, 64);
	bytes = sizeof(cred);
	if (peer.ss_family == AF_UNIX &&
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &bytes) == 0)
		snprintf(out, 64, "user %u, process %d", cred.uid, cred.pid);
}
