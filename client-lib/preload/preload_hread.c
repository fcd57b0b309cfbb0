/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Hooks: read() and its like, lseek().
 *
 * Reads take no lock.  The bytes do not change; a read moves the offset with a compare and
 * exchange, and begins again if another one was faster.  The offset PRELOAD_GONE says that the file
 * is being given to the kernel.
 *
 *  (1) A read that moved the offset from A to B has returned the bytes from A to B [e2e_preload].
 */
#define _GNU_SOURCE
#include "client-lib/preload/preload_hook.h"

#include "base/num.h"

#include <limits.h>
#include <string.h>

#define LENGTH_MAX 0x7ffff000u /* as the kernel limits it */
#define AGAIN      INT64_MIN   /* the descriptor is no longer served */

static int64_t read_handle(const struct preload_file *file, void *bytes, size_t length, uint64_t at)
{
	bool is_away;
	struct preload_session *s = preload_session_enter(&is_away);
	struct weka_handle handle;
	int64_t got;

	if (!s)
		return -EIO;
	got = preload_ask_bytes(s, &file->attr.handle, bytes, length, at);
	if (got == -ESTALE && preload_ask_again(s, file->path, file->attr.ino, &handle) == 0)
		got = preload_ask_bytes(s, &handle, bytes, length, at);
	preload_session_leave(s);
	return got < 0 && preload_is_away((int)got) ? -EIO : got;
}

static int64_t read_at(const struct preload_file *file, void *bytes, size_t length, uint64_t at)
{
	if (file->kind == PRELOAD_DIR)
		return -EISDIR;
	length = min_u64(length, LENGTH_MAX);
	if (file->kind == PRELOAD_HANDLE)
		return length == 0 ? 0 : read_handle(file, bytes, length, at);
	length = at < file->attr.size_bytes ? min_u64(length, file->attr.size_bytes - at) : 0;
	if (length > 0 && !bytes)
		return -EFAULT;
	memcpy(bytes, file->bytes + (length ? at : 0), length);
	return (int64_t)length;
}

static int64_t read_parts(const struct preload_file *file, const struct iovec *parts, int count,
			  uint64_t at)
{
	int64_t sum = 0;

	if (count < 0 || count > IOV_MAX)
		return -EINVAL;
	for (int i = 0; i < count; i++) {
		int64_t got =
			read_at(file, parts[i].iov_base, parts[i].iov_len, at + (uint64_t)sum);

		if (got < 0)
			return sum > 0 ? sum : got;
		sum += got;
		if ((size_t)got < parts[i].iov_len)
			break;
	}
	return sum;
}

/* Reads at the offset, and moves it. */
static int64_t read_on(struct preload_file *file, const struct iovec *parts, int count)
{
	uint64_t at = atomic_load_explicit(&file->offset, memory_order_relaxed);
	int64_t got;

	do {
		if (at == PRELOAD_GONE)
			return AGAIN;
		got = read_parts(file, parts, count, at);
	} while (got > 0 && !atomic_compare_exchange_strong_explicit(
				    &file->offset, &at, at + (uint64_t)got, memory_order_relaxed,
				    memory_order_relaxed)); /* (1) */
	return got;
}

/* `at` -1: at the offset.  Returns AGAIN if the real call must be made. */
static int64_t serve(int fd, const struct iovec *parts, int count, off_t at)
{
	struct preload_file *file;
	int64_t got;

	do {
		file = preload_slot_get(fd, PRELOAD_SERVED);
		if (likely(!file))
			return AGAIN;
		got = at < 0 ? read_on(file, parts, count)
			     : read_parts(file, parts, count, (uint64_t)at);
		preload_slot_put(fd);
	} while (got == AGAIN);
	ASSERT(got >= INT_MIN);
	return got < 0 ? preload_fail((int)got) : got;
}

PRELOAD_HOOK ssize_t read(int fd, void *bytes, size_t length)
{
	const struct iovec part = { bytes, length };
	const int64_t got = serve(fd, &part, 1, -1);

	return got == AGAIN ? REAL->read(fd, bytes, length) : got;
}

PRELOAD_HOOK ssize_t readv(int fd, const struct iovec *parts, int count)
{
	const int64_t got = serve(fd, parts, count, -1);

	return got == AGAIN ? REAL->readv(fd, parts, count) : got;
}

PRELOAD_HOOK ssize_t pread(int fd, void *bytes, size_t length, off_t at)
{
	const struct iovec part = { bytes, length };
	const int64_t got = at < 0 ? AGAIN : serve(fd, &part, 1, at);

	if (got != AGAIN)
		return got;
	if (at < 0)
		return preload_fail(-EINVAL);
	return REAL->pread(fd, bytes, length, at);
}

PRELOAD_HOOK ssize_t pread64(int fd, void *bytes, size_t length, off64_t at)
{
	return pread(fd, bytes, length, at);
}

PRELOAD_HOOK ssize_t preadv(int fd, const struct iovec *parts, int count, off_t at)
{
	const int64_t got = at < 0 ? AGAIN : serve(fd, parts, count, at);

	if (got != AGAIN)
		return got;
	if (at < 0)
		return preload_fail(-EINVAL);
	return REAL->preadv(fd, parts, count, at);
}

PRELOAD_HOOK ssize_t preadv64(int fd, const struct iovec *parts, int count, off64_t at)
{
	return preadv(fd, parts, count, at);
}

PRELOAD_HOOK ssize_t preadv2(int fd, const struct iovec *parts, int count, off_t at, int flags)
{
	int64_t got = AGAIN;

	if (flags == 0 && at >= -1)
		got = serve(fd, parts, count, at);
	else if (preload_settle(fd, PRELOAD_CONTENT) != 0)
		return -1;
	return got == AGAIN ? REAL->preadv2(fd, parts, count, at, flags) : got;
}

PRELOAD_HOOK ssize_t preadv64v2(int fd, const struct iovec *parts, int count, off64_t at, int flags)
{
	return preadv2(fd, parts, count, at, flags);
}

PRELOAD_HOOK ssize_t __read_chk(int fd, void *bytes, size_t length, size_t room)
{
	if (length > room)
		__chk_fail();
	return read(fd, bytes, length);
}

PRELOAD_HOOK ssize_t __pread_chk(int fd, void *bytes, size_t length, off_t at, size_t room)
{
	if (length > room)
		__chk_fail();
	return pread(fd, bytes, length, at);
}

PRELOAD_HOOK ssize_t __pread64_chk(int fd, void *bytes, size_t length, off64_t at, size_t room)
{
	return __pread_chk(fd, bytes, length, at, room);
}

/* ---- the offset ---------------------------------------------------------------------------- */

static int64_t size_of(int fd, const struct preload_file *file)
{
	struct weka_attr attr = file->attr;

	if (file->kind == PRELOAD_HANDLE && !preload_stat_fd(fd, &attr))
		return -EIO;
	return (int64_t)attr.size_bytes;
}

/* Where a seek leads to, or -errno. */
static int64_t target(int64_t now, int64_t size, off_t by, int whence)
{
	int64_t to;

	switch (whence) {
	case SEEK_SET:
		return by < 0 ? -EINVAL : by;
	case SEEK_CUR:
	case SEEK_END:
		if (__builtin_add_overflow(whence == SEEK_CUR ? now : size, by, &to))
			return -EOVERFLOW;
		return to < 0 ? -EINVAL : to;
	case SEEK_DATA:
	case SEEK_HOLE:
		if (by < 0 || by >= size)
			return -ENXIO;
		return whence == SEEK_DATA ? by : size;
	default:
		return -EINVAL;
	}
}

static int64_t seek(int fd, struct preload_file *file, off_t by, int whence)
{
	const int64_t size = file->kind == PRELOAD_DIR ? INT64_MAX : size_of(fd, file);
	uint64_t at = atomic_load_explicit(&file->offset, memory_order_relaxed);
	int64_t to;

	if (size < 0)
		return size;
	do {
		if (at == PRELOAD_GONE)
			return AGAIN;
		to = target((int64_t)at, size, by, whence);
	} while (to >= 0 && !atomic_compare_exchange_strong_explicit(
				    &file->offset, &at, (uint64_t)to, memory_order_relaxed,
				    memory_order_relaxed));
	return to;
}

PRELOAD_HOOK off_t lseek(int fd, off_t by, int whence)
{
	struct preload_file *file;
	int64_t to;

	do {
		file = preload_slot_get(fd, PRELOAD_SERVED);
		if (likely(!file))
			return REAL->lseek(fd, by, whence);
		to = seek(fd, file, by, whence);
		preload_slot_put(fd);
	} while (to == AGAIN);
	return to < 0 ? preload_fail((int)to) : to;
}

PRELOAD_HOOK off64_t lseek64(int fd, off64_t by, int whence)
{
	return lseek(fd, by, whence);
}
