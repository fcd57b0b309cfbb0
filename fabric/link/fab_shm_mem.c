/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Memory that two processes share, and how it is passed on.
 *
 * Every memfd is sized, and sealed against shrinking and growing, so that no client can make a page
 * disappear under the appliance (a punched hole reads as zeros and harms only the client that
 * punched it).  The appliance makes most of them.  A client may bring one, which must be as sealed,
 * and consist of ordinary pages: a fault on a huge page that does not exist would end the
 * appliance.  Making a page costs a microsecond or more, so large memory is populated piece by
 * piece: fab_control_session.c.
 */
#include "fabric/fab_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define SIZE_SEALS  (F_SEAL_SHRINK | F_SEAL_GROW)
#define SEALS       (SIZE_SEALS | F_SEAL_SEAL)
#define TMPFS       0x01021994 /* f_type of memfds without MFD_HUGETLB */
#define FDS_AT_ONCE 4

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* Map all of `fd` at a multiple of 2 MiB, for the sake of large pages. */
static int map_aligned(int fd, uint64_t size_bytes, void **out)
{
	uint64_t reserve = align_up(size_bytes, FAB_POOL_ALIGN) + FAB_POOL_ALIGN;
	uint8_t *hull = mmap(NULL, reserve, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *at, *end;

	ASSERT(size_bytes > 0 && fd >= 0);
	if (hull == MAP_FAILED)
		return -errno;
	at = (uint8_t *)align_up((uintptr_t)hull, FAB_POOL_ALIGN);
	end = at + align_up(size_bytes, BLOCK_SIZE);
	if (mmap(at, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
	    MAP_FAILED) {
		int err = -errno;

		munmap(hull, reserve);
		return err;
	}
	if (at > hull)
		munmap(hull, (size_t)(at - hull));
	munmap(end, (size_t)(hull + reserve - end));
	ASSERT((uintptr_t)at % FAB_POOL_ALIGN == 0);
	ASSERT(at >= hull && end <= hull + reserve);
	*out = at;
	return 0;
}

int fab__memfd_create(const char *name, uint64_t size_bytes, int *fd_out, void **memory)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int err;

	ASSERT(size_bytes > 0);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size_bytes) < 0) {
		err = -errno;
		goto close_fd;
	}
	err = map_aligned(fd, size_bytes, memory);
	if (err)
		goto close_fd;
	/* Before the first page: only a wish, kernels may be built or set not to. */
	(void)madvise(*memory, size_bytes, MADV_HUGEPAGE);
	if (fcntl(fd, F_ADD_SEALS, SEALS) < 0) {
		err = -errno;
		goto unmap;
	}
	*fd_out = fd;
	return 0;

unmap:
	fab__memory_unmap(*memory, size_bytes);
close_fd:
	close(fd);
	return err;
}

int fab__memory_populate(void *memory, uint64_t size_bytes)
{
	ASSERT(memory && (uintptr_t)memory % BLOCK_SIZE == 0);
	if (madvise(memory, size_bytes, MADV_POPULATE_WRITE) == 0 || errno == EINVAL)
		return 0; /* EINVAL: a kernel before 5.14; the first touch does it there */
	return -errno;
}

int fab__memfd_map(int fd, uint64_t size_bytes, uint64_t populate_bytes, void **memory)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);
	int err;

	ASSERT(populate_bytes <= size_bytes);
	if (seals < 0 || (seals & SEALS) != SEALS)
		return -EPROTO;
	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size != size_bytes)
		return -EPROTO;
	err = map_aligned(fd, size_bytes, memory);
	if (err)
		return err;
	/* Only saves the faults of the first touch. */
	(void)!fab__memory_populate(*memory, populate_bytes);
	return 0;
}

int fab__memfd_take(int fd, uint64_t size_bytes, void **memory)
{
	const int seals = fcntl(fd, F_GET_SEALS);
	struct statfs fs;
	struct stat st;

	ASSERT(size_bytes > 0 && fd >= 0);
	if (seals < 0 || (seals & SIZE_SEALS) != SIZE_SEALS)
		return -EINVAL;
	if (fstatfs(fd, &fs) < 0 || fs.f_type != TMPFS)
		return -EINVAL;
	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size != size_bytes)
		return -EINVAL;
	return map_aligned(fd, size_bytes, memory);
}

void fab__memory_unmap(void *memory, uint64_t size_bytes)
{
	ASSERT(size_bytes > 0);
	/* ENOMEM: a part of a mapping, of which the process has as many as it may. */
	ASSERT(munmap(memory, size_bytes) == 0 || errno == ENOMEM);
}

union fd_control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int) * FDS_AT_ONCE)];
};

ssize_t fab__send_fds(int fd, const void *bytes, size_t size, const int *fds, uint32_t fd_count)
{
	union fd_control control = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)bytes, .iov_len = size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t sent;

	ASSERT(fd_count <= FDS_AT_ONCE);
	if (fd_count > 0) {
		struct cmsghdr *c;

		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * fd_count);
	}
	sent = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	return sent < 0 ? -errno : sent;
}

/* Closes descriptors beyond those that the caller expects. */
static uint32_t take_fds(struct msghdr *msg, int *fds, uint32_t fd_max)
{
	uint32_t taken = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		uint32_t count = (uint32_t)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (uint32_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (taken < fd_max)
				fds[taken++] = fd;
			else
				close(fd);
		}
	}
	ASSERT(taken <= fd_max);
	return taken;
}

ssize_t fab__recv_fds(int fd, void *bytes, size_t size, int *fds, uint32_t fd_max,
		      uint32_t *fd_count)
{
	union fd_control control;
	struct iovec iov = { .iov_base = bytes, .iov_len = size };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t got = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	ASSERT(fd_max <= FDS_AT_ONCE && size > 0);
	*fd_count = 0;
	if (got < 0)
		return -errno;
	*fd_count = take_fds(&msg, fds, fd_max);
	return got;
}
