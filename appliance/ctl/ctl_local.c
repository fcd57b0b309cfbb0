/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Directories of a local tree by descriptor.  A tree may have more directories than a process has
 * descriptors, and paths longer than PATH_MAX, so a directory that was not used for long is closed,
 * and opened again from the nearest directory above it that is open:
 *
 *    top (open) --- a (closed) --- b (closed) --- c       openat2(top, "a/b/c")
 *                                                         or name by name, openat()
 *
 *  (1) Every name that is opened is one component below a descriptor, and no symlink
 *      [test_ctl_local:a_symlink_is_not_followed].
 *  (2) The directory at which the next step begins is not closed to make room, so each step comes
 *      nearer to the wanted directory, or fails
 *      [test_ctl_local:a_deep_directory_takes_two_descriptors_and_fails_with_one].
 */
#define _GNU_SOURCE
#include "appliance/ctl/ctl_local.h"
#include "appliance/ctl/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILES_WANTED 4096u
#define FILES_SPARED 96u /* for connections, open files, and other descriptors of the program */
#define OPEN_MAX     2048u
#define OPEN_LEAST   8u
#define DIR_FLAGS    (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)

static uint32_t open_max(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return OPEN_LEAST;
	if (limit.rlim_cur < FILES_WANTED && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = min_u64(limit.rlim_max, FILES_WANTED);
		(void)setrlimit(RLIMIT_NOFILE, &limit);
		(void)getrlimit(RLIMIT_NOFILE, &limit);
	}
	if (limit.rlim_cur < FILES_SPARED + OPEN_LEAST)
		return OPEN_LEAST;
	return (uint32_t)min_u64(limit.rlim_cur - FILES_SPARED, OPEN_MAX);
}

uint32_t ctl_dirs_a_wave(const struct ctl_dirs *t)
{
	return max_u32(t->open_max / 8, 1);
}

struct ctl_dir *ctl_dir_add(struct ctl_dirs *t, struct ctl_dir *parent, const char *name)
{
	const size_t bytes = strlen(name) + 1;
	struct ctl_dir *d = ctl_need(calloc(1, sizeof(*d) + bytes));

	ASSERT(parent || t->count == 0);
	d->parent = parent;
	d->fd = -1;
	list_init(&d->lru);
	memcpy(d->name, name, bytes);
	if (t->count == t->room) {
		t->room = t->room ? 2 * t->room : 64;
		t->dir = ctl_need(realloc(t->dir, t->room * sizeof(struct ctl_dir *)));
	}
	t->dir[t->count++] = d;
	return d;
}

int ctl_dirs_begin(struct ctl_dirs *t, const char *top)
{
	struct ctl_dir *d;

	*t = (struct ctl_dirs){ .top = top, .open_max = open_max() };
	list_init(&t->open);
	d = ctl_dir_add(t, NULL, "");
	d->fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return d->fd < 0 ? -errno : 0;
}

void ctl_dirs_end(struct ctl_dirs *t)
{
	for (size_t i = 0; i < t->count; i++) {
		if (t->dir[i]->fd >= 0)
			close(t->dir[i]->fd);
		free(t->dir[i]);
	}
	free(t->dir);
	*t = (struct ctl_dirs){ 0 };
}

/* Closes the directory that was not used for longest, but not `keep`.  Returns false when none can
 * be closed. */
static bool close_one(struct ctl_dirs *t, const struct ctl_dir *keep)
{
	struct list *node;

	list_for_each (node, &t->open) {
		struct ctl_dir *d = list_entry(node, struct ctl_dir, lru);

		if (d->pins > 0 || d == keep)
			continue;
		close(d->fd);
		d->fd = -1;
		list_del(&d->lru);
		t->open_count--;
		return true;
	}
	return false;
}

/* (1): by openat2(), which says ENOSYS where the kernel has no such call. */
static int open_beneath(int fd, const char *path)
{
	struct open_how how = {
		.flags = DIR_FLAGS,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
	};
	long got;

	do {
		got = syscall(SYS_openat2, fd, path, &how, sizeof(how));
	} while (got < 0 && errno == EAGAIN); /* a rename was in the way */
	return got < 0 ? -errno : (int)got;
}

/* Writes the path from `above` to `d`.  Returns false if it is too long for the kernel. */
static bool path_below(const struct ctl_dir *above, const struct ctl_dir *d, char *path)
{
	size_t at = PATH_MAX - 1;

	path[at] = 0;
	for (; d != above; d = d->parent) {
		const size_t bytes = strlen(d->name);

		if (at < bytes + 1)
			return false;
		at -= bytes;
		memcpy(path + at, d->name, bytes);
		if (d->parent != above)
			path[--at] = '/';
	}
	memmove(path, path + at, PATH_MAX - at);
	return true;
}

static int opened(struct ctl_dirs *t, struct ctl_dir *d, int fd)
{
	if (fd < 0)
		return fd;
	while (t->open_count >= t->open_max && close_one(t, NULL)) {
	}
	d->fd = fd;
	list_push_back(&t->open, &d->lru);
	t->open_count++;
	return fd;
}

static struct ctl_dir *nearest_open(const struct ctl_dir *d)
{
	struct ctl_dir *above = d->parent;

	while (above->fd < 0)
		above = above->parent;
	return above;
}

/* Opens `d` from the nearest directory above it that is open, or else one between the two. */
static int open_step(struct ctl_dirs *t, struct ctl_dir *d)
{
	struct ctl_dir *above = nearest_open(d), *child = d;
	char path[PATH_MAX];
	int fd = -ENOSYS;

	while (child->parent != above)
		child = child->parent;
	if (child != d && path_below(above, d, path))
		fd = open_beneath(above->fd, path);
	if (fd >= 0 || (fd != -ENOSYS && fd != -EPERM && fd != -E2BIG))
		return opened(t, d, fd);
	fd = openat(above->fd, child->name, DIR_FLAGS);
	return opened(t, child, fd < 0 ? -errno : fd);
}

int ctl_dir_open(struct ctl_dirs *t, struct ctl_dir *d)
{
	while (d->fd < 0) {
		int err = open_step(t, d);

		if (err == -EMFILE && close_one(t, nearest_open(d))) /* (2) */
			continue;
		if (err < 0)
			return err;
	}
	if (d->parent) {
		list_del(&d->lru);
		list_push_back(&t->open, &d->lru);
	}
	return d->fd;
}

void ctl_dir_pin(struct ctl_dir *d)
{
	ASSERT(d->fd >= 0);
	d->pins++;
}

void ctl_dir_unpin(struct ctl_dir *d)
{
	ASSERT(d->pins > 0);
	d->pins--;
}

char *ctl_dir_path(const char *top, const struct ctl_dir *d, const char *name)
{
	size_t top_bytes = strlen(top), name_bytes = strlen(name), bytes, at;
	const struct ctl_dir *p;
	char *path;

	while (top_bytes > 1 && top[top_bytes - 1] == '/')
		top_bytes--;
	bytes = top_bytes + 1 + name_bytes + 1;
	for (p = d; p->parent; p = p->parent)
		bytes += strlen(p->name) + 1;
	path = ctl_need(malloc(bytes));
	at = bytes - 1 - name_bytes;
	memcpy(path + at, name, name_bytes + 1);
	for (p = d; p->parent; p = p->parent) {
		const size_t part = strlen(p->name);

		if (path[at])
			path[--at] = '/';
		at -= part;
		memcpy(path + at, p->name, part);
	}
	if (path[at] && !(top_bytes == 1 && top[0] == '/'))
		path[--at] = '/';
	ASSERT(at >= top_bytes);
	memmove(path + top_bytes, path + at, bytes - at);
	memcpy(path, top, top_bytes);
	return path;
}
