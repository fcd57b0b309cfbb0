/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Hooks: opendir() and its like.  A DIR of ours is a struct preload_dir; it begins with a number
 * that no DIR of libc has, whose first eight bytes are a descriptor and a lock.
 *
 *     number   0   1    2 ...          page after page; an entry's number + 1 is its d_off
 *             "." ".." | page | ...
 *
 * A descriptor is made only when the program asks for it: dirfd().
 *
 *  (1) The page has the entries with the numbers first .. first + count - 1.
 *  (2) All functions of libc that take a DIR are hooks, so no other code sees one of ours.
 *      [e2e_preload]
 */
#define _GNU_SOURCE
#include "client-lib/preload/preload_hook.h"

#include "base/clock.h"
#include "base/num.h"

#include <limits.h>
#include <string.h>
#include <time.h>

#define MAGIC   0x7269645f616b6577ull /* "weka_dir" */
#define ENTRIES 256u
#define NAMES   (32u << 10)
#define DOTS    2

struct preload_dir {
	uint64_t magic;
	int fd;                    /* -1: none yet */
	struct preload_file *file; /* for dirfd(); NULL: the table has it */
	char *path;                /* below the appliance's root */
	struct weka_handle handle;
	uint64_t ino;
	uint64_t number; /* of the next entry */
	uint64_t first;
	uint32_t count;
	bool at_end; /* no page follows */
	struct weka_cookie cookie;
	struct weka_entry entry[ENTRIES];
	char names[ENTRIES * (WEKA_NAME_MAX + 1)];
	struct dirent64 out;
};

static struct preload_dir *ours(DIR *dir)
{
	struct preload_dir *d = (struct preload_dir *)(void *)dir;

	return d && d->magic == MAGIC ? d : NULL;
}

/* ---- opened ---------------------------------------------------------------------------------- */

static DIR *dir_make(const struct preload_file *file, int fd)
{
	struct preload_dir *d = malloc(sizeof(*d));
	char *path = strdup(file->path);

	if (!d || !path) {
		free(d);
		free(path);
		return NULL;
	}
	*d = (struct preload_dir){ .magic = MAGIC, .fd = fd, .path = path };
	d->handle = file->attr.handle;
	d->ino = file->attr.ino;
	d->first = DOTS;
	return (DIR *)(void *)d;
}

static struct preload_file *dir_file(const struct preload_walk *w)
{
	const size_t bytes = w->end[w->depth] - w->end[0] + 1;
	struct preload_file *file = preload_memory_take(sizeof(*file) + bytes);

	if (!file)
		return NULL;
	*file = (struct preload_file){
		.kind = PRELOAD_DIR,
		.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
		.attr = w->attr,
	};
	file->path = memcpy(file + 1, w->text + w->end[0], bytes);
	return file;
}

PRELOAD_HOOK DIR *opendir(const char *path)
{
	struct preload_file *file = NULL;
	struct preload_path p;
	DIR *dir;
	int err;

	if (!preload_path_enter(&p, AT_FDCWD, path, PRELOAD_STAT, 0, &err)) {
		dir = REAL->opendir(p.path);
		(void)preload_path_real(&p, dir ? 0 : -1);
		return dir;
	}
	if (!err && !S_ISDIR(p.s->walk.attr.mode))
		err = -ENOTDIR;
	if (!err && !preload_walk_may(p.s, R_OK))
		err = -EACCES;
	if (!err)
		file = dir_file(&p.s->walk);
	preload_path_leave(&p);
	dir = file ? dir_make(file, -1) : NULL;
	if (dir)
		ours(dir)->file = file;
	else
		preload_memory_give(file);
	if (!dir)
		(void)preload_fail(err ? err : -ENOMEM);
	return dir;
}

PRELOAD_HOOK DIR *fdopendir(int fd)
{
	const struct preload_file *file = preload_slot_get(fd, PRELOAD_SERVED);
	DIR *dir = NULL;

	if (!file)
		return REAL->fdopendir(fd);
	if (file->kind == PRELOAD_DIR)
		dir = dir_make(file, fd);
	if (!dir)
		errno = file->kind == PRELOAD_DIR ? ENOMEM : ENOTDIR;
	preload_slot_put(fd);
	return dir;
}

PRELOAD_HOOK int dirfd(DIR *dir)
{
	struct preload_dir *d = ours(dir);
	int fd;

	if (!d)
		return REAL->dirfd(dir);
	if (d->fd >= 0)
		return d->fd;
	if (!d->file)
		return preload_fail(-ENOTSUP);
	fd = preload_reserve(O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (!preload_slot_publish(fd, d->file)) {
		(void)REAL->close(fd);
		return preload_fail(-ENOTSUP);
	}
	d->file = NULL;
	d->fd = fd;
	return fd;
}

PRELOAD_HOOK int closedir(DIR *dir)
{
	struct preload_dir *d = ours(dir);
	int result;

	if (!d)
		return REAL->closedir(dir);
	result = d->fd >= 0 ? close(d->fd) : 0;
	d->magic = 0;
	preload_memory_give(d->file);
	free(d->path);
	free(d);
	return result;
}

/* ---- read ---------------------------------------------------------------------------------- */

/* Copies the names out of the session's memory. */
static void keep_names(struct preload_dir *d)
{
	char *to = d->names;

	ASSERT(d->count <= ENTRIES);
	for (uint32_t i = 0; i < d->count; i++) {
		struct weka_entry *e = &d->entry[i];

		memcpy(to, e->name, e->name_bytes);
		to[e->name_bytes] = 0;
		e->name = to;
		to += e->name_bytes + 1;
	}
	ASSERT(to <= d->names + sizeof(d->names));
}

/* Returns -EAGAIN if the appliance does not answer. */
static int fetch_once(struct preload_dir *d)
{
	bool is_away;
	struct preload_session *s = preload_session_enter(&is_away);
	int err;

	if (!s)
		return is_away ? -EAGAIN : -EIO;
	d->first += d->count;
	err = preload_ask_list(s, &d->handle, &d->cookie, d->entry, ENTRIES, &d->count, &d->at_end);
	if (err == -ESTALE && preload_ask_again(s, d->path, d->ino, &d->handle) == 0)
		err = preload_ask_list(s, &d->handle, &d->cookie, d->entry, ENTRIES, &d->count,
				       &d->at_end);
	if (err)
		d->at_end = false;
	else
		keep_names(d);
	ASSERT(!err || d->count == 0); /* (1) */
	preload_session_leave(s);
	return err && preload_is_away(err) ? -EAGAIN : err;
}

/* Other calls go to the mount, if there is one, which waits for an appliance that is away.  A
 * listing that was begun here cannot go on there, so it waits.  Without a mount the request itself
 * has waited. */
static int fetch(struct preload_dir *d)
{
	static const struct timespec pause = { .tv_nsec = 50 * (long)NS_PER_MS };
	const uint64_t until_ns = clock_now_ns() + preload_setup.args.timeout_ns;
	const int kept_errno = errno; /* of readdir(): it changes only when that fails */
	int err = fetch_once(d);

	while (err == -EAGAIN && preload_is_mounted() && clock_now_ns() < until_ns) {
		(void)nanosleep(&pause, NULL);
		errno = kept_errno;
		err = fetch_once(d);
	}
	return err == -EAGAIN ? -EIO : err;
}

static void fill(struct preload_dir *d, const char *name, size_t bytes, uint64_t ino, uint32_t mode)
{
	ASSERT(bytes < sizeof(d->out.d_name));
	d->out.d_ino = ino;
	d->out.d_off = (off64_t)++d->number;
	d->out.d_type = (unsigned char)IFTODT(mode);
	memcpy(d->out.d_name, name, bytes + 1);
	d->out.d_reclen =
		(unsigned short)align_up(offsetof(struct dirent64, d_name) + bytes + 1, 8);
}

/* Returns the next entry in *out, NULL at the end; or -errno. */
static int next(struct preload_dir *d, struct dirent64 **out)
{
	const struct weka_entry *e;
	int err;

	*out = NULL;
	if (d->number < DOTS) {
		fill(d, d->number ? ".." : ".", d->number ? 2 : 1, d->ino, S_IFDIR);
		*out = &d->out;
		return 0;
	}
	while (d->number >= d->first + d->count) {
		if (d->at_end)
			return 0;
		err = fetch(d);
		if (err == -ENOENT || err == -ESTALE)
			d->at_end = true; /* it was removed: the kernel shows no entry, either */
		else if (err)
			return err;
	}
	ASSERT(d->number >= d->first); /* (1) */
	e = &d->entry[d->number - d->first];
	fill(d, e->name, e->name_bytes, e->attr.ino, e->attr.mode);
	*out = &d->out;
	return 0;
}

PRELOAD_HOOK struct dirent64 *readdir64(DIR *dir)
{
	struct preload_dir *d = ours(dir);
	struct dirent64 *out;
	int err;

	if (!d)
		return (struct dirent64 *)(void *)REAL->readdir(dir);
	err = next(d, &out);
	if (err)
		(void)preload_fail(err);
	return out;
}

PRELOAD_HOOK struct dirent *readdir(DIR *dir)
{
	static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "one layout");
	return (struct dirent *)(void *)readdir64(dir);
}

PRELOAD_HOOK int readdir64_r(DIR *dir, struct dirent64 *entry, struct dirent64 **result)
{
	struct preload_dir *d = ours(dir);
	struct dirent64 *out;
	int err;

	if (!d)
		return REAL->readdir_r(dir, (struct dirent *)(void *)entry,
				       (struct dirent **)(void *)result);
	err = next(d, &out);
	if (out)
		memcpy(entry, out, out->d_reclen);
	*result = out ? entry : NULL;
	return -err;
}

PRELOAD_HOOK int readdir_r(DIR *dir, struct dirent *entry, struct dirent **result)
{
	return readdir64_r(dir, (struct dirent64 *)(void *)entry,
			   (struct dirent64 **)(void *)result);
}

/* ---- moved --------------------------------------------------------------------------------- */

PRELOAD_HOOK void rewinddir(DIR *dir)
{
	struct preload_dir *d = ours(dir);

	if (!d) {
		REAL->rewinddir(dir);
		return;
	}
	d->number = 0;
	d->first = DOTS;
	d->count = 0;
	d->at_end = false;
	memset(&d->cookie, 0, sizeof(d->cookie));
}

PRELOAD_HOOK long telldir(DIR *dir)
{
	const struct preload_dir *d = ours(dir);

	return d ? (long)d->number : REAL->telldir(dir);
}

/* Goes back by reading again: nobody keeps the pages of before. */
PRELOAD_HOOK void seekdir(DIR *dir, long to)
{
	struct preload_dir *d = ours(dir);
	const int err = errno;
	struct dirent64 *out;

	if (!d) {
		REAL->seekdir(dir, to);
		return;
	}
	if (to >= DOTS && (uint64_t)to < d->first)
		rewinddir(dir);
	else if ((uint64_t)to < d->number)
		d->number = (uint64_t)to;
	while (d->number < (uint64_t)to && next(d, &out) == 0 && out)
		;
	errno = err;
}
