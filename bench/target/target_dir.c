/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A local directory: open, read, close by system calls, as a loader does them.
 *
 * A read takes no stat before it and no empty read after it: that is the least that a program can
 * do, and less than most do.  A durable put is write and fsync; a durable removal is one fsync of
 * each directory for the whole group.
 */
#define _GNU_SOURCE
#include "base/num.h"
#include "bench/bench.h"
#include "bench/target/target_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIRECT_ALIGN 4096u

static _Atomic uint32_t made; /* targets of this process, for their names */

int target__dir_open(struct target *t, const char *where, int read_flags)
{
	struct target__dir *dir = calloc(1, sizeof(*dir));
	int n = snprintf(t->root, sizeof(t->root), "%s/weka-bench.%d.%u", where, (int)getpid(),
			 atomic_fetch_add_explicit(&made, 1, memory_order_relaxed));

	if (!dir)
		return bench_fail("out of memory");
	dir->read_flags = read_flags;
	dir->fd = -1;
	if (n < (int)sizeof(t->root) && mkdir(t->root, 0700) == 0)
		dir->fd = open(t->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir->fd < 0) {
		free(dir);
		return bench_fail("%s: cannot make a directory there: %s", where, strerror(errno));
	}
	t->promise = (struct target_promise){
		.durable = "by fsync",
		.cache = read_flags ? "none (O_DIRECT)" : "page cache",
		.checksums = "no",
		.encrypted = "no",
	};
	t->own = dir;
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

void target__dir_close(struct target *t)
{
	struct target__dir *dir = t->own;

	close(dir->fd);
	if (t->options.keep)
		fprintf(stderr, "kept: %s\n", t->root);
	else if (nftw(t->root, remove_one, 32, FTW_DEPTH | FTW_PHYS) != 0)
		fprintf(stderr, "weka-bench: %s stays: %s\n", t->root, strerror(errno));
	free(dir);
}

int target__dir_mkdir(struct target_session *s, const char *path)
{
	const struct target__dir *dir = s->target->own;

	return mkdirat(dir->fd, path, 0700) == 0 ? 0 : -errno;
}

static int drop_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	int fd;

	(void)st;
	(void)at;
	if (type != FTW_F)
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
	return 0;
}

/* The pages of our files only: other targets of the same run keep theirs.  Dirty pages go to the
 * disk first, or they would stay. */
int target__dir_drop_caches(struct target *t)
{
	const struct target__dir *dir = t->own;

	if (syncfs(dir->fd) != 0)
		return -errno;
	return nftw(t->root, drop_one, 32, FTW_PHYS) == 0 ? 0 : -errno;
}

void target__dir_forget(struct target__kept *kept)
{
	if (kept->fd >= 0)
		close(kept->fd);
	kept->fd = -1;
	kept->path[0] = '\0';
}

/* The io's file, opened for reading: a descriptor, or -errno. */
static int reader_of(const struct target__dir *dir, const struct target_group *g,
		     const struct target_io *io, struct target__kept *kept)
{
	int fd;

	if (kept->fd >= 0 && strcmp(kept->path, io->path) == 0)
		return kept->fd;
	fd = openat(dir->fd, io->path, O_RDONLY | O_CLOEXEC | dir->read_flags);
	if (fd < 0)
		return -errno;
	if (!(g->flags & TARGET_KEEP_OPEN))
		return fd;
	target__dir_forget(kept);
	kept->fd = fd;
	memcpy(kept->path, io->path, sizeof(kept->path));
	return fd;
}

/* The next `bytes` of the landing memory, at most TARGET__PIECE. */
static uint8_t *landing(struct target__landing *land, uint64_t bytes)
{
	uint64_t at = land->next + bytes > TARGET__RING ? 0 : land->next;

	ASSERT(bytes <= TARGET__PIECE);
	land->next = align_up(at + bytes, DIRECT_ALIGN);
	return land->memory + at;
}

/* Reads [from, until) of the file. */
static int read_pieces(int fd, struct target_io *io, bool direct, struct target__landing *land)
{
	const uint64_t until = io->length_bytes == TARGET_TO_END
				       ? UINT64_MAX
				       : io->offset_bytes + io->length_bytes;
	uint64_t at = io->offset_bytes;

	while (at < until) {
		uint64_t from = direct ? align_down(at, DIRECT_ALIGN) : at;
		uint64_t want = min_u64(until - from, TARGET__PIECE);
		uint8_t *buffer;
		ssize_t n;

		if (direct)
			want = min_u64(align_up(want, DIRECT_ALIGN), TARGET__PIECE);
		buffer = landing(land, want);
		n = pread(fd, buffer, want, (off_t)from);
		if (n < 0)
			return -errno;
		if (from + (uint64_t)n <= at)
			break;
		target__landed(io, at, buffer + (at - from),
			       min_u64(from + (uint64_t)n, until) - at);
		at = from + (uint64_t)n;
		if ((uint64_t)n < want) /* the end of a regular file */
			break;
	}
	if (io->length_bytes != TARGET_TO_END && io->got_bytes != io->length_bytes)
		return -ENODATA;
	return 0;
}

static int do_read(const struct target__dir *dir, const struct target_group *g,
		   struct target_io *io, struct target__landing *land, struct target__kept *kept)
{
	int fd = reader_of(dir, g, io, kept), err;

	if (fd < 0)
		return fd;
	err = read_pieces(fd, io, dir->read_flags != 0, land);
	if (fd != kept->fd)
		close(fd);
	return err;
}

static int write_pieces(int fd, const struct target_io *io, uint8_t *buffer)
{
	for (uint64_t at = 0; at < io->length_bytes;) {
		uint64_t want = min_u64(io->length_bytes - at, TARGET__PIECE);
		ssize_t n;

		io->content->fill(io->content, io->file, at, buffer, want);
		n = pwrite(fd, buffer, want, (off_t)at);
		if (n != (ssize_t)want)
			return n < 0 ? -errno : -ENOSPC;
		at += want;
	}
	return 0;
}

static int do_put(const struct target__dir *dir, const struct target_group *g, struct target_io *io,
		  struct target__landing *land)
{
	int fd = openat(dir->fd, io->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), err;

	if (fd < 0)
		return -errno;
	err = write_pieces(fd, io, land->memory);
	if (!err && (g->flags & TARGET_DURABLE) && fsync(fd) != 0)
		err = -errno;
	if (close(fd) != 0 && !err)
		err = -errno;
	return err;
}

static int do_list(const struct target__dir *dir, struct target_io *io)
{
	int fd = openat(dir->fd, io->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	struct stat st;

	if (!d)
		return -errno;
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0) /* with attributes */
			io->got_bytes++;
	}
	closedir(d);
	return 0;
}

int target__dir_io(const struct target__dir *dir, const struct target_group *g,
		   struct target_io *io, struct target__landing *land, struct target__kept *kept)
{
	struct stat st;

	switch (g->op) {
	case TARGET_READ:
		return do_read(dir, g, io, land, kept);
	case TARGET_PUT:
		return do_put(dir, g, io, land);
	case TARGET_STAT:
		if (fstatat(dir->fd, io->path, &st, 0) != 0)
			return -errno;
		io->got_bytes = (uint64_t)st.st_size;
		return 0;
	case TARGET_LIST:
		return do_list(dir, io);
	case TARGET_REMOVE:
		return unlinkat(dir->fd, io->path, 0) == 0 ? 0 : -errno;
	}
	return -EINVAL;
}

int target__dir_settle(const struct target__dir *dir, const struct target_group *g)
{
	char parent[TARGET_PATH_MAX];
	char *slash;
	int fd, err;

	if (g->op != TARGET_REMOVE || !(g->flags & TARGET_DURABLE))
		return 0;
	memcpy(parent, g->io[0].path, sizeof(parent)); /* a group's names are of one directory */
	slash = strrchr(parent, '/');
	if (slash)
		*slash = '\0';
	fd = openat(dir->fd, slash ? parent : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	err = fsync(fd) == 0 ? 0 : -errno;
	close(fd);
	return err;
}
