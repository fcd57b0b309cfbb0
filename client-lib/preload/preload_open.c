/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Files that are opened for reading, and their attributes.
 *
 *     up to 256 KiB ---------------> bytes in memory, which came with the attributes
 *     larger, with a mount --------> the mount's own file, from the start
 *     larger, without one ---------> by its handle: each read asks the appliance
 *     a directory -----------------> by its handle
 *
 *  (1) A file with bytes in memory has all of them, as many as its attributes say.
 */
#define _GNU_SOURCE
#include "client-lib/preload/preload.h"

#include "base/num.h"

#include <string.h>

#define CREATES (O_CREAT | O_TRUNC | O_PATH | O_DIRECT)

/* Makes the struct with path and bytes behind it. */
static struct preload_file *file_make(const struct preload_session *s, enum preload_kind kind,
				      int flags)
{
	const struct preload_walk *w = &s->walk;
	const size_t path_bytes = w->end[w->depth] - w->end[0] + 1;
	const size_t bytes = kind == PRELOAD_BYTES ? w->attr.size_bytes : 0;
	struct preload_file *file = preload_memory_take(sizeof(*file) + path_bytes + bytes);
	char *at = (char *)(file + 1);

	if (!file)
		return NULL;
	*file = (struct preload_file){ .kind = kind, .flags = flags, .attr = w->attr };
	file->path = memcpy(at, w->text + w->end[0], path_bytes);
	file->bytes = at + path_bytes;
	if (bytes > 0)
		memcpy(at + path_bytes, s->read.data, bytes);
	return file;
}

static int kind_of(const struct preload_session *s, int flags)
{
	const struct weka_attr *a = &s->walk.attr;

	if (S_ISDIR(a->mode))
		return PRELOAD_DIR;
	if (flags & O_DIRECTORY)
		return -ENOTDIR;
	if (S_ISLNK(a->mode))
		return -ELOOP;
	if (s->read.status == 0 && s->read.got_bytes == a->size_bytes)
		return PRELOAD_BYTES; /* (1) */
	return s->read.status == -EACCES ? -EACCES : PRELOAD_HANDLE;
}

/* There is no place for it in the table: the kernel gets it at once. */
static int make_real(struct preload_session *s, struct preload_file *file, int fd)
{
	const int cloexec = file->flags & O_CLOEXEC;
	int made = preload_settle_own(file, file->flags & (O_DIRECTORY | O_NONBLOCK));

	if (made < 0 && file->kind != PRELOAD_DIR)
		made = preload_settle_copy(file, s);
	preload_memory_give(file);
	if (made < 0 || REAL->dup3(made, fd, cloexec) < 0) {
		const int err = made < 0 ? -EMFILE : -errno;

		(void)REAL->close(fd);
		return err;
	}
	(void)REAL->close(made);
	return fd;
}

int preload_open_found(struct preload_session *s, int flags)
{
	const uid_t uid = geteuid();
	const int kind = kind_of(s, flags);
	struct preload_file *file;
	int fd;

	if (kind < 0)
		return kind;
	if (!preload_walk_may(s, R_OK))
		return -EACCES;
	if ((flags & O_NOATIME) && uid != 0 && uid != s->walk.attr.uid)
		return -EPERM;
	file = file_make(s, (enum preload_kind)kind, flags);
	if (!file)
		return -ENOMEM;
	ASSERT(kind != PRELOAD_BYTES || file->attr.size_bytes <= PRELOAD_WHOLE); /* (1) */
	if (kind == PRELOAD_HANDLE) {
		fd = preload_settle_own(file, flags & (O_NONBLOCK | O_NOATIME | O_NOFOLLOW));
		if (fd >= 0) {
			if (!(flags & O_CLOEXEC))
				(void)REAL->fcntl(fd, F_SETFD, 0);
			preload_memory_give(file);
			return fd;
		}
	}
	fd = preload_reserve(flags);
	if (fd < 0) {
		preload_memory_give(file);
		return -errno;
	}
	return preload_slot_publish(fd, file) ? fd : make_real(s, file, fd);
}

int preload_open(int dirfd, const char *path, int flags, unsigned open_mode)
{
	struct preload_path p;
	int err, fd;

	if ((flags & (O_ACCMODE | CREATES)) != O_RDONLY) {
		if (!preload_path_lend(&p, dirfd, path))
			return preload_fail(-EROFS);
		return (int)preload_path_real(&p, REAL->openat(p.dirfd, path, flags, open_mode));
	}
	if (!preload_path_enter(&p, dirfd, path, flags & O_DIRECTORY ? PRELOAD_STAT : PRELOAD_READ,
				flags & O_NOFOLLOW ? PRELOAD_NOFOLLOW : 0, &err))
		return (int)preload_path_real(&p, REAL->openat(p.dirfd, p.path, flags, open_mode));
	fd = err ? err : preload_open_found(p.s, flags);
	preload_path_leave(&p);
	return fd < 0 ? preload_fail(fd) : fd;
}

/* ---- attributes ---------------------------------------------------------------------------- */

static struct timespec time_of(int64_t ns)
{
	struct timespec t = { ns / 1000000000, ns % 1000000000 };

	if (t.tv_nsec < 0) {
		t.tv_sec--;
		t.tv_nsec += 1000000000;
	}
	return t;
}

void preload_stat_fill(struct stat *st, const struct weka_attr *a)
{
	*st = (struct stat){
		.st_dev = preload_device(),
		.st_ino = a->ino,
		.st_mode = a->mode,
		.st_nlink = a->nlink,
		.st_uid = a->uid,
		.st_gid = a->gid,
		.st_size = (off_t)a->size_bytes,
		.st_blksize = 128 << 10,
		.st_blocks = (blkcnt_t)div_up(a->allocated_bytes, 512),
		.st_atim = time_of(a->atime_ns),
		.st_mtim = time_of(a->mtime_ns),
		.st_ctim = time_of(a->ctime_ns),
	};
	if (a->size_bytes > 0 && st->st_blocks == 0)
		st->st_blocks = 1; /* as the mount says it */
}

/* A directory that is open changes; a file is as it was at its open. */
static void refresh(const struct preload_file *file, struct weka_attr *attr)
{
	struct preload_session *s;
	struct weka_attr now;
	bool is_away;

	*attr = file->attr;
	if (file->kind == PRELOAD_BYTES)
		return;
	s = preload_session_enter(&is_away);
	if (!s)
		return;
	if (preload_ask_handle(s, &file->attr.handle, &now) == 0)
		*attr = now;
	preload_session_leave(s);
}

bool preload_stat_fd(int fd, struct weka_attr *attr)
{
	const struct preload_file *file = preload_slot_get(fd, PRELOAD_SERVED | PRELOAD_SHADOW);

	if (!file)
		return false;
	refresh(file, attr);
	preload_slot_put(fd);
	return true;
}
