/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Hooks: calls that make descriptors.  Those that libweka-client makes get high numbers, and
 * programs cannot close them, so a program finds its descriptors as without this library.
 */
#define _GNU_SOURCE
#include "client-lib/preload/preload_hook.h"

#include <string.h>

#define MAKE(name, args, ...)                                                                      \
	PRELOAD_HOOK int name args                                                                 \
	{                                                                                          \
		const int fd = REAL->name(__VA_ARGS__);                                            \
		return unlikely(preload_inside) ? preload_own(fd) : fd;                            \
	}

/* clang-format off */
MAKE(socket, (int domain, int type, int protocol), domain, type, protocol)
MAKE(epoll_create1, (int flags), flags)
MAKE(eventfd, (unsigned count, int flags), count, flags)
MAKE(timerfd_create, (clockid_t clock, int flags), clock, flags)
MAKE(memfd_create, (const char *name, unsigned flags), name, flags)
/* clang-format on */

/* Afterwards the directory's path means another one. */
PRELOAD_HOOK int chroot(const char *path)
{
	const int result = REAL->chroot(path);

	if (result == 0)
		preload_setup.is_active = false;
	return result;
}

PRELOAD_HOOK ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	const ssize_t got = REAL->recvmsg(fd, message, flags);

	if (likely(!preload_inside) || got < 0)
		return got;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		int sent;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = CMSG_LEN(0); at + sizeof(sent) <= c->cmsg_len;
		     at += sizeof(sent)) {
			memcpy(&sent, (const char *)c + at, sizeof(sent));
			sent = preload_own(sent);
			memcpy((char *)c + at, &sent, sizeof(sent));
		}
	}
	return got;
}
