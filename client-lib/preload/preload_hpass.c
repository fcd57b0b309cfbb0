/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Hooks: calls on a descriptor that the kernel serves.  A served file is given to the kernel first;
 * a few calls have an answer that is known.
 */
#define _GNU_SOURCE
#include "client-lib/preload/preload_hook.h"

#include <linux/fs.h>
#include <stdarg.h>
#include <string.h>

/* Defines a hook that gives the file of `fd` to the kernel, and passes the call on. */
#define PASS(result, name, how, fd, args, ...)                                                     \
	PRELOAD_HOOK result name args                                                              \
	{                                                                                          \
		if (unlikely(preload_settle(fd, how) != 0))                                        \
			return -1;                                                                 \
		return REAL->name(__VA_ARGS__);                                                    \
	}
#define CONTENT(name, fd, args, ...)  PASS(int, name, PRELOAD_CONTENT, fd, args, __VA_ARGS__)
#define IDENTITY(name, fd, args, ...) PASS(int, name, PRELOAD_IDENTITY, fd, args, __VA_ARGS__)

static bool is_served(int fd)
{
	if (!preload_slot_get(fd, PRELOAD_SERVED))
		return false;
	preload_slot_put(fd);
	return true;
}

/* clang-format off */
IDENTITY(flock, fd, (int fd, int op), fd, op)
IDENTITY(lockf, fd, (int fd, int op, off_t len), fd, op, len)
IDENTITY(syncfs, fd, (int fd), fd)
IDENTITY(fchmod, fd, (int fd, mode_t mode), fd, mode)
IDENTITY(fchown, fd, (int fd, uid_t uid, gid_t gid), fd, uid, gid)
IDENTITY(futimens, fd, (int fd, const struct timespec t[2]), fd, t)
IDENTITY(futimes, fd, (int fd, const struct timeval t[2]), fd, t)
IDENTITY(fsetxattr, fd, (int fd, const char *name, const void *value, size_t size, int flags),
	 fd, name, value, size, flags)
IDENTITY(fremovexattr, fd, (int fd, const char *name), fd, name)
IDENTITY(fstatfs, fd, (int fd, struct statfs *fs), fd, fs)
IDENTITY(fstatvfs, fd, (int fd, struct statvfs *fs), fd, fs)
IDENTITY(fchdir, fd, (int fd), fd)
IDENTITY(ftruncate, fd, (int fd, off_t size), fd, size)
PASS(ssize_t, getdents64, PRELOAD_IDENTITY, fd, (int fd, void *to, size_t size), fd, to, size)
PASS(ssize_t, sendfile, PRELOAD_CONTENT, in, (int out, int in, off_t *at, size_t size),
     out, in, at, size)
PASS(ssize_t, splice, PRELOAD_CONTENT, in,
     (int in, off64_t *in_at, int out, off64_t *out_at, size_t size, unsigned flags),
     in, in_at, out, out_at, size, flags)
CONTENT(aio_read, job->aio_fildes, (struct aiocb *job), job)
/* clang-format on */

PRELOAD_HOOK int lockf64(int fd, int op, off64_t length)
{
	return lockf(fd, op, length);
}

PRELOAD_HOOK int ftruncate64(int fd, off64_t size)
{
	return ftruncate(fd, size);
}

PRELOAD_HOOK int fstatfs64(int fd, struct statfs64 *fs)
{
	static_assert(sizeof(struct statfs) == sizeof(struct statfs64), "one layout");
	return fstatfs(fd, (struct statfs *)(void *)fs);
}

PRELOAD_HOOK int fstatvfs64(int fd, struct statvfs64 *fs)
{
	static_assert(sizeof(struct statvfs) == sizeof(struct statvfs64), "one layout");
	return fstatvfs(fd, (struct statvfs *)(void *)fs);
}

PRELOAD_HOOK ssize_t sendfile64(int out, int in, off64_t *at, size_t size)
{
	return sendfile(out, in, at, size);
}

PRELOAD_HOOK int aio_read64(struct aiocb64 *job)
{
	static_assert(sizeof(struct aiocb) == sizeof(struct aiocb64), "one layout");
	return aio_read((struct aiocb *)(void *)job);
}

/* ---- mapped, copied ------------------------------------------------------------------------ */

PRELOAD_HOOK void *mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
	if (!(flags & MAP_ANONYMOUS) && preload_settle(fd, PRELOAD_CONTENT) != 0)
		return MAP_FAILED;
	return REAL->mmap(at, size, prot, flags, fd, offset);
}

PRELOAD_HOOK void *mmap64(void *at, size_t size, int prot, int flags, int fd, off64_t offset)
{
	return mmap(at, size, prot, flags, fd, offset);
}

/* The other file is not where this one is: programs then read and write. */
PRELOAD_HOOK ssize_t copy_file_range(int in, off64_t *in_at, int out, off64_t *out_at, size_t size,
				     unsigned flags)
{
	if (is_served(in))
		return preload_fail(-EXDEV);
	return REAL->copy_file_range(in, in_at, out, out_at, size, flags);
}

PRELOAD_HOOK int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *arg;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (request == FICLONE && is_served((int)(intptr_t)arg))
		return preload_fail(-EXDEV);
	if (request == FICLONERANGE &&
	    is_served((int)((const struct file_clone_range *)arg)->src_fd))
		return preload_fail(-EXDEV);
	if ((request == TCGETS || request == TIOCGWINSZ) && is_served(fd))
		return preload_fail(-ENOTTY);
	if (preload_settle(fd, PRELOAD_IDENTITY) != 0)
		return -1;
	return REAL->ioctl(fd, request, arg);
}

/* ---- known answers ------------------------------------------------------------------------- */

PRELOAD_HOOK int isatty(int fd)
{
	if (!is_served(fd))
		return REAL->isatty(fd);
	errno = ENOTTY;
	return 0;
}

PRELOAD_HOOK int tcgetattr(int fd, struct termios *t)
{
	return is_served(fd) ? preload_fail(-ENOTTY) : REAL->tcgetattr(fd, t);
}

PRELOAD_HOOK long fpathconf(int fd, int name)
{
	if (name == _PC_NAME_MAX && is_served(fd))
		return WEKA_NAME_MAX;
	return preload_settle(fd, PRELOAD_IDENTITY) != 0 ? -1 : REAL->fpathconf(fd, name);
}

/* Every change is durable when its call ends. */
PRELOAD_HOOK int fsync(int fd)
{
	return is_served(fd) ? 0 : REAL->fsync(fd);
}

PRELOAD_HOOK int fdatasync(int fd)
{
	return is_served(fd) ? 0 : REAL->fdatasync(fd);
}

PRELOAD_HOOK ssize_t readahead(int fd, off64_t at, size_t size)
{
	return is_served(fd) ? 0 : REAL->readahead(fd, at, size);
}

PRELOAD_HOOK int posix_fadvise(int fd, off_t at, off_t size, int advice)
{
	if (!is_served(fd))
		return REAL->posix_fadvise(fd, at, size, advice);
	return advice < 0 || advice > POSIX_FADV_NOREUSE || size < 0 ? EINVAL : 0;
}

PRELOAD_HOOK int posix_fadvise64(int fd, off64_t at, off64_t size, int advice)
{
	return posix_fadvise(fd, at, size, advice);
}

/* A regular file cannot be watched. */
PRELOAD_HOOK int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	if (is_served(fd))
		return preload_fail(op == EPOLL_CTL_ADD ? -EPERM : -ENOENT);
	return REAL->epoll_ctl(epoll, op, fd, event);
}

/* ---- many descriptors ---------------------------------------------------------------------- */

static void settle_polled(const struct pollfd *fds, nfds_t count)
{
	for (nfds_t i = 0; i < count; i++)
		(void)preload_settle(fds[i].fd, PRELOAD_CONTENT);
}

PRELOAD_HOOK int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	settle_polled(fds, count);
	return REAL->poll(fds, count, timeout_ms);
}

PRELOAD_HOOK int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		       const sigset_t *mask)
{
	settle_polled(fds, count);
	return REAL->ppoll(fds, count, timeout, mask);
}

PRELOAD_HOOK int __poll_chk(struct pollfd *fds, nfds_t count, int timeout_ms, size_t room)
{
	if (room / sizeof(*fds) < count)
		__chk_fail();
	return poll(fds, count, timeout_ms);
}

PRELOAD_HOOK int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
			     const sigset_t *mask, size_t room)
{
	if (room / sizeof(*fds) < count)
		__chk_fail();
	return ppoll(fds, count, timeout, mask);
}

static void settle_selected(int count, const fd_set *set)
{
	for (int fd = 0; set && fd < count && fd < FD_SETSIZE; fd++)
		if (FD_ISSET(fd, set))
			(void)preload_settle(fd, PRELOAD_CONTENT);
}

PRELOAD_HOOK int select(int count, fd_set *in, fd_set *out, fd_set *bad, struct timeval *timeout)
{
	settle_selected(count, in);
	settle_selected(count, out);
	settle_selected(count, bad);
	return REAL->select(count, in, out, bad, timeout);
}

PRELOAD_HOOK int pselect(int count, fd_set *in, fd_set *out, fd_set *bad,
			 const struct timespec *timeout, const sigset_t *mask)
{
	settle_selected(count, in);
	settle_selected(count, out);
	settle_selected(count, bad);
	return REAL->pselect(count, in, out, bad, timeout, mask);
}

/* Descriptors that another process gets. */
PRELOAD_HOOK ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	struct msghdr *m = (struct msghdr *)(uintptr_t)message;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c && !preload_inside; c = CMSG_NXTHDR(m, c)) {
		int sent;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = CMSG_LEN(0); at + sizeof(sent) <= c->cmsg_len;
		     at += sizeof(sent)) {
			memcpy(&sent, (const char *)c + at, sizeof(sent));
			if (preload_settle(sent, PRELOAD_CONTENT) != 0)
				return -1;
		}
	}
	return REAL->sendmsg(fd, message, flags);
}
