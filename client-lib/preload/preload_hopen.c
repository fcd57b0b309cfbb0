/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Hooks: open() and its like, fopen(), close() and its like. */
#define _GNU_SOURCE
#include "client-lib/preload/preload_hook.h"

#include <linux/close_range.h>
#include <stdarg.h>
#include <string.h>

#define MODE_OF(last, flags)                                                                       \
	({                                                                                         \
		unsigned of_ = 0;                                                                  \
		va_list args_;                                                                     \
		va_start(args_, last);                                                             \
		if ((flags) & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)))                              \
			of_ = va_arg(args_, unsigned);                                             \
		va_end(args_);                                                                     \
		of_;                                                                               \
	})

/* The files that libweka-client opens, such as a key, get high descriptors, too. */
static int open_any(int dirfd, const char *path, int flags, unsigned mode)
{
	if (unlikely(preload_inside))
		return preload_own(REAL->openat(dirfd, path, flags, mode));
	return preload_open(dirfd, path, flags, mode);
}

PRELOAD_HOOK int open(const char *path, int flags, ...)
{
	return open_any(AT_FDCWD, path, flags, MODE_OF(flags, flags));
}

PRELOAD_HOOK int open64(const char *path, int flags, ...)
{
	return open_any(AT_FDCWD, path, flags | O_LARGEFILE, MODE_OF(flags, flags));
}

PRELOAD_HOOK int openat(int dirfd, const char *path, int flags, ...)
{
	return open_any(dirfd, path, flags, MODE_OF(flags, flags));
}

PRELOAD_HOOK int openat64(int dirfd, const char *path, int flags, ...)
{
	return open_any(dirfd, path, flags | O_LARGEFILE, MODE_OF(flags, flags));
}

/* Those of _FORTIFY_SOURCE, for calls without a mode; libc ends the program if there should be
 * one. */
PRELOAD_HOOK int __open_2(const char *path, int flags)
{
	return open_any(AT_FDCWD, path, flags, 0);
}

PRELOAD_HOOK int __open64_2(const char *path, int flags)
{
	return open_any(AT_FDCWD, path, flags | O_LARGEFILE, 0);
}

PRELOAD_HOOK int __openat_2(int dirfd, const char *path, int flags)
{
	return open_any(dirfd, path, flags, 0);
}

PRELOAD_HOOK int __openat64_2(int dirfd, const char *path, int flags)
{
	return open_any(dirfd, path, flags | O_LARGEFILE, 0);
}

/* ---- streams ------------------------------------------------------------------------------- */

/* libc reads a stream by calls of its own, so it gets a file of the kernel's. */
static FILE *stream_of(int fd, const char *mode)
{
	FILE *f = NULL;
	int err;

	if (preload_settle(fd, PRELOAD_CONTENT) == 0)
		f = REAL->fdopen(fd, mode);
	if (f)
		return f;
	err = errno == ENOTSUP ? EISDIR : errno;
	(void)close(fd);
	errno = err;
	return NULL;
}

PRELOAD_HOOK FILE *fopen(const char *path, const char *mode)
{
	struct preload_path p;
	int err, fd;
	FILE *f;

	if (*mode != 'r' || strchr(mode, '+'))
		return REAL->fopen(path, mode);
	if (!preload_path_enter(&p, AT_FDCWD, path, PRELOAD_READ, 0, &err)) {
		f = REAL->fopen(p.path, mode);
		(void)preload_path_real(&p, f ? 0 : -1);
		return f;
	}
	fd = err ? err : preload_open_found(p.s, strchr(mode, 'e') ? O_CLOEXEC : 0);
	preload_path_leave(&p);
	if (fd >= 0)
		return stream_of(fd, mode);
	(void)preload_fail(fd);
	return NULL;
}

PRELOAD_HOOK FILE *fopen64(const char *path, const char *mode)
{
	return fopen(path, mode);
}

PRELOAD_HOOK FILE *fdopen(int fd, const char *mode)
{
	return preload_settle(fd, PRELOAD_CONTENT) != 0 ? NULL : REAL->fdopen(fd, mode);
}

/* ---- closed -------------------------------------------------------------------------------- */

PRELOAD_HOOK int close(int fd)
{
	if (unlikely(preload_is_own(fd))) {
		if (!preload_inside)
			return preload_fail(-EBADF); /* no call gave it to the program */
		preload_own_closed(fd);
	} else {
		preload_slot_drop(fd);
	}
	return REAL->close(fd);
}

/* Closes up to the next descriptor of the library itself; returns that one, or `last`. */
static unsigned close_some(unsigned first, unsigned last, int flags, int *err)
{
	const unsigned known = (unsigned)preload_slot_last();
	unsigned at = first;

	for (; at <= last && at <= known && !preload_is_own((int)at); at++)
		if (!(flags & CLOSE_RANGE_CLOEXEC))
			preload_slot_drop((int)at);
	if (at > known || at > last)
		at = last;
	else if (at > first)
		at--;
	else
		return at;
	if (REAL->close_range(first, at, flags) != 0)
		*err = -errno;
	return at;
}

PRELOAD_HOOK int close_range(unsigned first, unsigned last, int flags)
{
	int err = 0;

	if (first > last || preload_in_vfork())
		return REAL->close_range(first, last, flags);
	for (;;) {
		first = close_some(first, last, flags, &err);
		if (first == last || err)
			break;
		first++;
	}
	return err ? preload_fail(err) : 0;
}

PRELOAD_HOOK void closefrom(int first)
{
	(void)close_range(first < 0 ? 0 : (unsigned)first, ~0u, 0);
}
