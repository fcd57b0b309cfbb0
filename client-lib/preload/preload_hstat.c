/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Hooks: stat() and its like, access() and its like, readlink(). */
#define _GNU_SOURCE
#include "client-lib/preload/preload_hook.h"

#include "base/num.h"

#include <string.h>
#include <sys/sysmacros.h>

/* ---- stat() --------------------------------------------------------------------------------- */

#define FLAGS (AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH)

static int stat_at(int dirfd, const char *path, struct stat *st, int flags)
{
	struct preload_path p;
	struct weka_attr attr;
	int err;

	if (flags & ~FLAGS)
		return preload_fail(-EINVAL);
	if ((flags & AT_EMPTY_PATH) && path && !*path) {
		if (!preload_stat_fd(dirfd, &attr))
			return REAL->fstatat(dirfd, path, st, flags);
		preload_stat_fill(st, &attr);
		return 0;
	}
	if (!preload_path_enter(&p, dirfd, path, PRELOAD_STAT,
				flags & AT_SYMLINK_NOFOLLOW ? PRELOAD_NOFOLLOW : 0, &err))
		return (int)preload_path_real(&p, REAL->fstatat(p.dirfd, p.path, st, flags));
	if (!err)
		preload_stat_fill(st, &p.s->walk.attr);
	preload_path_leave(&p);
	return err ? preload_fail(err) : 0;
}

/* struct stat64 is the same struct. */
#define SAME(st)                                                                                   \
	({                                                                                         \
		static_assert(sizeof(struct stat) == sizeof(struct stat64), "one layout");         \
		(struct stat *)(void *)(st);                                                       \
	})

PRELOAD_HOOK int stat(const char *path, struct stat *st)
{
	return stat_at(AT_FDCWD, path, st, 0);
}

PRELOAD_HOOK int stat64(const char *path, struct stat64 *st)
{
	return stat_at(AT_FDCWD, path, SAME(st), 0);
}

PRELOAD_HOOK int lstat(const char *path, struct stat *st)
{
	return stat_at(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

PRELOAD_HOOK int lstat64(const char *path, struct stat64 *st)
{
	return stat_at(AT_FDCWD, path, SAME(st), AT_SYMLINK_NOFOLLOW);
}

PRELOAD_HOOK int fstat(int fd, struct stat *st)
{
	return fd < 0 ? preload_fail(-EBADF) : stat_at(fd, "", st, AT_EMPTY_PATH);
}

PRELOAD_HOOK int fstat64(int fd, struct stat64 *st)
{
	return fd < 0 ? preload_fail(-EBADF) : stat_at(fd, "", SAME(st), AT_EMPTY_PATH);
}

PRELOAD_HOOK int fstatat(int dirfd, const char *path, struct stat *st, int flags)
{
	return stat_at(dirfd, path, st, flags);
}

PRELOAD_HOOK int fstatat64(int dirfd, const char *path, struct stat64 *st, int flags)
{
	return stat_at(dirfd, path, SAME(st), flags);
}

/* Programs that were built for a glibc before 2.33 call these. */
PRELOAD_HOOK int __xstat(int version, const char *path, struct stat *st)
{
	(void)version;
	return stat_at(AT_FDCWD, path, st, 0);
}

PRELOAD_HOOK int __xstat64(int version, const char *path, struct stat64 *st)
{
	(void)version;
	return stat_at(AT_FDCWD, path, SAME(st), 0);
}

PRELOAD_HOOK int __lxstat(int version, const char *path, struct stat *st)
{
	(void)version;
	return stat_at(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

PRELOAD_HOOK int __lxstat64(int version, const char *path, struct stat64 *st)
{
	(void)version;
	return stat_at(AT_FDCWD, path, SAME(st), AT_SYMLINK_NOFOLLOW);
}

PRELOAD_HOOK int __fxstat(int version, int fd, struct stat *st)
{
	(void)version;
	return fstat(fd, st);
}

PRELOAD_HOOK int __fxstat64(int version, int fd, struct stat64 *st)
{
	(void)version;
	return fstat(fd, SAME(st));
}

PRELOAD_HOOK int __fxstatat(int version, int dirfd, const char *path, struct stat *st, int flags)
{
	(void)version;
	return stat_at(dirfd, path, st, flags);
}

PRELOAD_HOOK int __fxstatat64(int version, int dirfd, const char *path, struct stat64 *st,
			      int flags)
{
	(void)version;
	return stat_at(dirfd, path, SAME(st), flags);
}

/* ---- statx() ------------------------------------------------------------------------------- */

static struct statx_timestamp stamp(struct timespec t)
{
	return (struct statx_timestamp){ .tv_sec = t.tv_sec, .tv_nsec = (uint32_t)t.tv_nsec };
}

static void statx_fill(struct statx *x, const struct weka_attr *attr)
{
	struct stat st;

	preload_stat_fill(&st, attr);
	*x = (struct statx){
		.stx_mask = STATX_BASIC_STATS,
		.stx_blksize = (uint32_t)st.st_blksize,
		.stx_nlink = (uint32_t)st.st_nlink,
		.stx_uid = st.st_uid,
		.stx_gid = st.st_gid,
		.stx_mode = (uint16_t)st.st_mode,
		.stx_ino = st.st_ino,
		.stx_size = (uint64_t)st.st_size,
		.stx_blocks = (uint64_t)st.st_blocks,
		.stx_atime = stamp(st.st_atim),
		.stx_mtime = stamp(st.st_mtim),
		.stx_ctime = stamp(st.st_ctim),
		.stx_dev_major = major(st.st_dev),
		.stx_dev_minor = minor(st.st_dev),
	};
}

PRELOAD_HOOK int statx(int dirfd, const char *path, int flags, unsigned mask, struct statx *x)
{
	struct preload_path p;
	struct weka_attr attr;
	int err;

	if (flags & ~(FLAGS | AT_STATX_SYNC_TYPE))
		return preload_fail(-EINVAL);
	if ((flags & AT_EMPTY_PATH) && path && !*path && preload_stat_fd(dirfd, &attr)) {
		statx_fill(x, &attr);
		return 0;
	}
	if (!preload_path_enter(&p, dirfd, path, PRELOAD_STAT,
				flags & AT_SYMLINK_NOFOLLOW ? PRELOAD_NOFOLLOW : 0, &err))
		return (int)preload_path_real(&p, REAL->statx(p.dirfd, p.path, flags, mask, x));
	if (!err)
		statx_fill(x, &p.s->walk.attr);
	preload_path_leave(&p);
	return err ? preload_fail(err) : 0;
}

/* ---- access() ------------------------------------------------------------------------------ */

/* Writing is for the mount to judge; without one nothing can be written. */
static int access_real(struct preload_path *p, int mode, int flags, bool is_found)
{
	const int result =
		(int)preload_path_real(p, REAL->faccessat(p->dirfd, p->path, mode, flags));

	if (result < 0 && is_found && (errno == ENOENT || errno == ENOTDIR) &&
	    !preload_is_mounted())
		errno = EROFS;
	return result;
}

static int access_at(int dirfd, const char *path, int mode, int flags)
{
	const uint32_t walk_flags = (flags & AT_SYMLINK_NOFOLLOW ? PRELOAD_NOFOLLOW : 0) |
				    (flags & AT_EACCESS ? 0 : PRELOAD_REAL_IDS);
	struct preload_path p;
	int err;

	if (mode & ~(R_OK | W_OK | X_OK))
		return preload_fail(-EINVAL);
	if (!preload_path_enter(&p, dirfd, path, PRELOAD_STAT, walk_flags, &err))
		return access_real(&p, mode, flags, false);
	if (!err && (mode & ~W_OK) && !preload_walk_may(p.s, mode & ~W_OK))
		err = -EACCES;
	preload_path_leave(&p);
	if (err)
		return preload_fail(err);
	if (!(mode & W_OK))
		return 0;
	if (!preload_path_lend(&p, dirfd, path))
		return preload_fail(-EROFS);
	return access_real(&p, mode, flags, true);
}

PRELOAD_HOOK int access(const char *path, int mode)
{
	return access_at(AT_FDCWD, path, mode, 0);
}

PRELOAD_HOOK int euidaccess(const char *path, int mode)
{
	return access_at(AT_FDCWD, path, mode, AT_EACCESS);
}

PRELOAD_HOOK int eaccess(const char *path, int mode)
{
	return access_at(AT_FDCWD, path, mode, AT_EACCESS);
}

PRELOAD_HOOK int faccessat(int dirfd, const char *path, int mode, int flags)
{
	return access_at(dirfd, path, mode, flags);
}

/* ---- readlink() ---------------------------------------------------------------------------- */

PRELOAD_HOOK ssize_t readlinkat(int dirfd, const char *path, char *to, size_t size)
{
	struct preload_path p;
	int err, bytes = 0;

	if (path && !*path && preload_slot_get(dirfd, PRELOAD_SERVED)) {
		preload_slot_put(dirfd); /* a reserved descriptor is that of a symlink */
		return preload_fail(-ENOENT);
	}
	if (!preload_path_enter(&p, dirfd, path, PRELOAD_STAT, PRELOAD_NOFOLLOW, &err))
		return preload_path_real(&p, REAL->readlinkat(p.dirfd, p.path, to, size));
	if (!err && (!S_ISLNK(p.s->walk.attr.mode) || size == 0))
		err = -EINVAL;
	if (!err) {
		const struct weka_ref ref = { .by = WEKA_BY_HANDLE,
					      .handle = p.s->walk.attr.handle };

		bytes = preload_ask_target(p.s, &ref, p.s->walk.link);
		err = bytes < 0 ? bytes : 0;
		bytes = (int)min_u64(size, (uint64_t)(bytes < 0 ? 0 : bytes));
		memcpy(to, p.s->walk.link, (size_t)bytes);
	}
	preload_path_leave(&p);
	if (err)
		return preload_fail(preload_is_away(err) ? -EIO : err);
	return bytes;
}

PRELOAD_HOOK ssize_t readlink(const char *path, char *to, size_t size)
{
	return readlinkat(AT_FDCWD, path, to, size);
}

PRELOAD_HOOK ssize_t __readlink_chk(const char *path, char *to, size_t size, size_t room)
{
	if (size > room)
		__chk_fail();
	return readlinkat(AT_FDCWD, path, to, size);
}

PRELOAD_HOOK ssize_t __readlinkat_chk(int dirfd, const char *path, char *to, size_t size,
				      size_t room)
{
	if (size > room)
		__chk_fail();
	return readlinkat(dirfd, path, to, size);
}
