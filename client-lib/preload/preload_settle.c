/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Gives a served file to the kernel, on the same descriptor, because a call comes that only the
 * kernel can serve.
 *
 *     bytes in memory --------> a copy in a memfd, for reading only; the table keeps attributes
 *     locks, modes, or a -----> the mount's own file, if there is a mount and it has the same inode
 *     directory, a large file
 *
 *  (1) The descriptor has the offset of the served file and its FD_CLOEXEC, and can only read
 *      [e2e_preload].
 *  (2) While it happens, other calls on the descriptor wait (preload_slot.c, MOVING).
 */
#define _GNU_SOURCE
#include "client-lib/preload/preload.h"

#include "base/num.h"

#include <string.h>

#define COPY_MAX   (1ull << 30) /* a larger file gets no copy in memory */
#define PIECE      (256u << 10)
#define OPEN_FLAGS (O_NOFOLLOW | O_NONBLOCK | O_NOATIME | O_DIRECT | O_SYNC | O_DSYNC)

/* A symlink itself, which not even /proc can open for reading: ELOOP. */
static int open_base(void)
{
	const int fd = REAL->open("/proc/self", O_PATH | O_NOFOLLOW | O_CLOEXEC);

	return fd >= 0 ? fd : REAL->open("/dev/null", O_PATH | O_CLOEXEC);
}

int preload_reserve(int flags)
{
	static _Atomic int base = -1;
	int from = atomic_load_explicit(&base, memory_order_relaxed), none = -1, made;

	if (unlikely(from < 0)) {
		made = preload_own(open_base());
		if (made < 0)
			return -1;
		if (!atomic_compare_exchange_strong_explicit(
			    &base, &none, made, memory_order_relaxed, memory_order_relaxed)) {
			preload_own_closed(made);
			(void)REAL->close(made);
		}
		from = atomic_load_explicit(&base, memory_order_relaxed);
	}
	return REAL->fcntl(from, flags & O_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
}

/* ---- a copy in memory ------------------------------------------------------------------------ */

static bool write_all(int fd, const char *bytes, uint64_t length)
{
	while (length > 0) {
		ssize_t n = write(fd, bytes, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		bytes += n;
		length -= (uint64_t)n;
	}
	return true;
}

/* Copies a file that the library does not have in memory. */
static bool copy_pieces(int fd, const struct preload_file *file, struct preload_session *s)
{
	char *piece = preload_memory_take(PIECE);
	int64_t got = piece ? 1 : -ENOMEM;

	for (uint64_t at = 0; got > 0; at += (uint64_t)got) {
		got = preload_ask_bytes(s, &file->attr.handle, piece, PIECE, at);
		if (got > 0 && !write_all(fd, piece, (uint64_t)got))
			got = -errno;
	}
	preload_memory_give(piece);
	if (got < 0)
		errno = preload_is_away((int)got) ? EIO : (int)-got;
	return got == 0;
}

static void set_attributes(int fd, const struct weka_attr *a)
{
	const struct timespec times[2] = {
		{ a->atime_ns / 1000000000, a->atime_ns % 1000000000 },
		{ a->mtime_ns / 1000000000, a->mtime_ns % 1000000000 },
	};

	if (geteuid() == 0)
		(void)!REAL->fchown(fd, a->uid, a->gid);
	(void)REAL->fchmod(fd, a->mode & 0777);
	(void)REAL->futimens(fd, times);
}

/* Returns a descriptor of the same file that can only read. */
static int reopen(int fd, int flags)
{
	char name[40];
	int reading;

	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	reading = REAL->open(name, O_RDONLY | O_CLOEXEC | (flags & O_NONBLOCK));
	if (reading < 0) /* no /proc */
		return fd;
	(void)REAL->close(fd);
	return reading;
}

int preload_settle_copy(const struct preload_file *file, struct preload_session *s)
{
	const char *name = strrchr(file->path, '/');
	int fd, err;
	bool is_whole;

	if (file->attr.size_bytes > COPY_MAX && file->kind != PRELOAD_BYTES)
		return preload_fail(-ENOMEM);
	fd = REAL->memfd_create(name ? name + 1 : "file", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		fd = REAL->memfd_create("file", MFD_CLOEXEC); /* the name was too long */
	if (fd < 0)
		return -1;
	if (file->kind == PRELOAD_BYTES)
		is_whole = write_all(fd, file->bytes, file->attr.size_bytes);
	else
		is_whole = copy_pieces(fd, file, s);
	if (!is_whole) {
		err = errno;
		(void)REAL->close(fd);
		errno = err;
		return -1;
	}
	set_attributes(fd, &file->attr);
	return reopen(fd, file->flags); /* (1) */
}

/* ---- the mount's own ----------------------------------------------------------------------- */

int preload_settle_own(const struct preload_file *file, int flags)
{
	char path[PRELOAD_TEXT];
	struct stat st;
	int fd;

	if (!preload_join(path, preload_setup.args.dir, strlen(preload_setup.args.dir),
			  file->path + (file->path[0] == '/')))
		return -1;
	fd = REAL->open(path, O_RDONLY | O_CLOEXEC | flags);
	if (fd < 0)
		return -1;
	if (REAL->fstatat(fd, "", &st, AT_EMPTY_PATH) == 0 && st.st_ino == file->attr.ino &&
	    (st.st_mode & S_IFMT) == (file->attr.mode & S_IFMT))
		return fd;
	(void)REAL->close(fd);
	return -1;
}

/* ---- the exchange -------------------------------------------------------------------------- */

/* Asks for the bytes of a large file, or the mount for the file. */
static int make_real(const struct preload_file *file, enum preload_settle how, bool *is_own)
{
	const bool is_bytes = file->kind == PRELOAD_BYTES;
	struct preload_session *s;
	bool is_away;
	int fd, err;

	*is_own = true;
	if (!is_bytes || how == PRELOAD_IDENTITY) {
		fd = preload_settle_own(file, file->flags & (OPEN_FLAGS | O_DIRECTORY));
		if (fd >= 0)
			return fd;
	}
	if (file->kind == PRELOAD_DIR)
		return preload_fail(-ENOTSUP);
	*is_own = false;
	if (is_bytes)
		return preload_settle_copy(file, NULL);
	s = preload_session_enter(&is_away);
	if (!s)
		return preload_fail(-EIO);
	fd = preload_settle_copy(file, s);
	err = fd < 0 ? errno : 0;
	preload_session_leave(s);
	if (err)
		errno = err;
	return fd;
}

/* Puts `made` in the place of `fd`. */
static int exchange(int fd, int made, struct preload_file *file, uint64_t offset)
{
	const int kept = REAL->fcntl(fd, F_GETFD);
	struct stat st;

	ASSERT(offset != PRELOAD_GONE);
	if (kept < 0 || REAL->fstatat(made, "", &st, AT_EMPTY_PATH) != 0)
		return -1;
	if (file->kind != PRELOAD_DIR && REAL->lseek(made, (off_t)offset, SEEK_SET) < 0)
		return -1;
	file->kernel_dev = st.st_dev;
	file->kernel_ino = st.st_ino;
	return REAL->dup3(made, fd, kept & FD_CLOEXEC ? O_CLOEXEC : 0) < 0 ? -1 : 0; /* (1) */
}

int preload_settle(int fd, enum preload_settle how)
{
	struct preload_file *file = preload_slot_move(fd);
	uint64_t offset;
	bool is_own;
	int made, err;

	if (!file)
		return 0;
	err = errno;
	offset = atomic_exchange_explicit(&file->offset, PRELOAD_GONE, memory_order_relaxed);
	ASSERT(offset != PRELOAD_GONE); /* (2) */
	made = make_real(file, how, &is_own);
	if (made >= 0 && exchange(fd, made, file, offset) == 0) {
		(void)REAL->close(made);
		preload_slot_moved(fd, is_own ? 0 : PRELOAD_SHADOW);
		errno = err;
		return 0;
	}
	err = errno;
	if (made >= 0)
		(void)REAL->close(made);
	atomic_store_explicit(&file->offset, offset, memory_order_relaxed);
	preload_slot_moved(fd, PRELOAD_SERVED);
	errno = err;
	return -1;
}

void preload_settle_named(const char *path)
{
	static const char *const dirs[] = { "/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/" };

	if (strcmp(path, "/dev/stdin") == 0)
		(void)preload_settle(0, PRELOAD_CONTENT);
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (strncmp(path, dirs[i], strlen(dirs[i])) == 0)
			(void)preload_settle((int)strtoul(path + strlen(dirs[i]), NULL, 10),
					     PRELOAD_CONTENT);
}

void preload_settle_all(bool kept_only)
{
	const int last = preload_slot_last(), err = errno;

	for (int fd = 0; fd <= last; fd++) {
		if (!preload_slot_get(fd, PRELOAD_SERVED))
			continue;
		preload_slot_put(fd);
		if (!kept_only || !(REAL->fcntl(fd, F_GETFD) & FD_CLOEXEC))
			(void)preload_settle(fd, PRELOAD_CONTENT);
	}
	errno = err;
}
