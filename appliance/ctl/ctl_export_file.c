/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl export: local files.
 *
 *  (1) Every name is one component in an open directory.  Only new files are opened,
 *      with O_EXCL, and directories, without following symlinks: nothing outside of the target is
 *      ever written, whatever is in it [e2e_import:hostile].
 *  (2) Everything is made under a temporary name and renamed when it is complete.  So a file with
 *      the name, a symlink or one of several names of a file, is replaced and not changed
 *      [e2e_import:hostile].
 */
#define _GNU_SOURCE
#include "appliance/ctl/ctl_export.h"
#include "base/num.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAMES_TRIED 1000 /* for a part: others may have left theirs */

/* Sets owners only where we may: an ordinary user's files stay his. */
static void set_owner(int fd, uint32_t uid, uint32_t gid)
{
	if (geteuid() == 0 && fchown(fd, uid, gid) != 0)
		return;
}

/* Sets the mode of a file that has its owner already. */
static int set_mode(int fd, const struct weka_attr *a)
{
	struct stat st;

	if (fstat(fd, &st) != 0 || fchmod(fd, ctl_mode_kept(a->mode, a->uid, a->gid, &st) & 07777))
		return -errno;
	return 0;
}

/* Returns the mode that this export would give to the local file `st`. */
static uint32_t mode_wanted(const struct weka_attr *a, const struct stat *st)
{
	return geteuid() == 0 ? a->mode : ctl_mode_kept(a->mode, a->uid, a->gid, st);
}

/* Returns true if the local file system may not be able to store this time. */
static bool is_odd_time(int64_t mtime_ns)
{
	return mtime_ns < 0 || mtime_ns > (int64_t)INT32_MAX * 1000000000;
}

static int set_time(int fd, int64_t mtime_ns, bool *changed)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, ctl_timespec(mtime_ns) };
	struct stat st;

	if (futimens(fd, times) != 0)
		return -errno;
	if (is_odd_time(mtime_ns) && fstat(fd, &st) == 0)
		*changed = st.st_mtim.tv_sec != times[1].tv_sec;
	return 0;
}

void export_look(void *arg, uint32_t i)
{
	struct ctl_wave *w = arg;
	struct ctl_file *f = &w->file[i];
	struct stat st;

	if (f->kind == CTL_SYMLINK)
		return;
	f->wanted = fstatat(f->dir->fd, f->name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
		    st.st_mode != mode_wanted(&f->attr, &st) ||
		    (uint64_t)st.st_size != f->attr.size_bytes ||
		    ctl_mtime_ns(&st) != f->attr.mtime_ns;
	f->done = !f->wanted;
}

int export_part_open(struct ctl_file *f)
{
	int fd = -1;

	errno = EEXIST;
	for (int i = 0; i < NAMES_TRIED && fd < 0 && errno == EEXIST; i++) {
		ctl_part_name(f->part);
		fd = openat(f->dir->fd, f->part,
			    O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	}
	return fd < 0 ? -errno : fd;
}

int export_rename(int fd, const char *part, const char *name)
{
	if (renameat(fd, part, fd, name) == 0)
		return 0;
	if (errno != EISDIR || unlinkat(fd, name, AT_REMOVEDIR) != 0)
		return errno == EEXIST ? -EXPORT_IN_USE : -errno;
	return renameat(fd, part, fd, name) == 0 ? 0 : -errno;
}

int export_part_close(struct ctl_file *f, int fd, int err)
{
	const struct weka_attr *a = &f->attr;

	if (!err) {
		ctl_attrs_store(&f->attrs, fd); /* while the mode lets us */
		set_owner(fd, a->uid, a->gid);
		err = set_mode(fd, a);
	}
	if (!err)
		err = set_time(fd, a->mtime_ns, &f->changed);
	if (close(fd) != 0 && !err)
		err = -errno;
	if (!err)
		err = export_rename(f->dir->fd, f->part, f->name);
	if (err)
		(void)unlinkat(f->dir->fd, f->part, 0);
	return err;
}

static int write_at(int fd, const uint8_t *bytes, uint64_t size_bytes, uint64_t offset_bytes)
{
	uint64_t at = 0;

	while (at < size_bytes) {
		ssize_t put = pwrite(fd, bytes + at, size_bytes - at, (off_t)(offset_bytes + at));

		if (put < 0 && errno != EINTR)
			return -errno;
		at += put > 0 ? (uint64_t)put : 0;
	}
	return 0;
}

static bool is_zero(const uint8_t *bytes, uint64_t size_bytes)
{
	return size_bytes == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size_bytes - 1) == 0);
}

/* Writes the content.  If the file has holes, blocks of zeros are left out. */
static int write_content(int fd, const struct ctl_file *f, const uint8_t *bytes,
			 uint64_t size_bytes)
{
	uint64_t from = 0, at;
	int err = 0;

	if (align_down(f->attr.size_bytes, WEKA_BLOCK) <= f->attr.allocated_bytes)
		return write_at(fd, bytes, size_bytes, 0);
	for (at = 0; at < size_bytes && !err; at += WEKA_BLOCK) {
		if (!is_zero(bytes + at, min_u64(WEKA_BLOCK, size_bytes - at)))
			continue;
		err = write_at(fd, bytes + from, at - from, from);
		from = at + WEKA_BLOCK;
	}
	if (!err && from < size_bytes)
		err = write_at(fd, bytes + from, size_bytes - from, from);
	return err || ftruncate(fd, (off_t)size_bytes) == 0 ? err : -errno;
}

static void store_file(struct ctl_file *f, const struct weka_read_item *item)
{
	int fd, err;

	if (item->status || f->err)
		return;
	fd = export_part_open(f);
	if (fd < 0) {
		f->err = -fd;
		return;
	}
	err = write_content(fd, f, item->data, item->got_bytes);
	f->err = -export_part_close(f, fd, err);
	f->done = f->err == 0;
}

/* ---- symlinks, links and directories ------------------------------------------------------ */

static bool is_there(const struct ctl_file *f)
{
	const size_t bytes = strlen(f->text);
	char text[WEKA_PATH_MAX + 1];
	struct stat st;

	return fstatat(f->dir->fd, f->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode) &&
	       ctl_mtime_ns(&st) == f->attr.mtime_ns &&
	       readlinkat(f->dir->fd, f->name, text, sizeof(text)) == (ssize_t)bytes &&
	       memcmp(text, f->text, bytes) == 0;
}

static int make_symlink(struct ctl_file *f)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, ctl_timespec(f->attr.mtime_ns) };
	const int fd = f->dir->fd;
	struct stat st;
	int err = EEXIST;

	for (int i = 0; i < NAMES_TRIED && err == EEXIST; i++) {
		ctl_part_name(f->part);
		err = symlinkat(f->text, fd, f->part) == 0 ? 0 : errno;
	}
	if (err)
		return -err;
	if (geteuid() == 0)
		(void)!fchownat(fd, f->part, f->attr.uid, f->attr.gid, AT_SYMLINK_NOFOLLOW);
	(void)utimensat(fd, f->part, times, AT_SYMLINK_NOFOLLOW);
	if (is_odd_time(f->attr.mtime_ns) && fstatat(fd, f->part, &st, AT_SYMLINK_NOFOLLOW) == 0)
		f->changed = st.st_mtim.tv_sec != times[1].tv_sec;
	err = export_rename(fd, f->part, f->name);
	if (err)
		(void)unlinkat(fd, f->part, 0);
	return err;
}

void export_store(void *arg, uint32_t i)
{
	struct ctl_wave *w = arg;
	struct ctl_file *f = &w->file[i];

	if (f->kind == CTL_SMALL && w->item[i] != UINT32_MAX)
		store_file(f, &w->items.read[w->item[i]]);
	if (f->kind != CTL_SYMLINK || f->err)
		return;
	f->wanted = !is_there(f);
	if (f->wanted)
		f->err = -make_symlink(f);
	f->done = f->err == 0;
}

int export_link(int first_fd, const char *first, int fd, const char *name)
{
	char part[CTL_PART_NAME];
	struct stat a, b;
	int err = EEXIST;

	if (fstatat(first_fd, first, &a, AT_SYMLINK_NOFOLLOW) != 0)
		return -errno;
	if (fstatat(fd, name, &b, AT_SYMLINK_NOFOLLOW) == 0 && a.st_dev == b.st_dev &&
	    a.st_ino == b.st_ino)
		return 1;
	for (int i = 0; i < NAMES_TRIED && err == EEXIST; i++) {
		ctl_part_name(part);
		err = linkat(first_fd, first, fd, part, 0) == 0 ? 0 : errno;
	}
	if (err)
		return -err;
	err = export_rename(fd, part, name);
	if (err)
		(void)unlinkat(fd, part, 0);
	return err;
}

/* A directory that even its owner may not read, of an earlier export: to be filled again. */
static int unlock_dir(int parent_fd, const char *name)
{
	int fd = openat(parent_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	char path[40];
	int err;

	if (fd < 0)
		return -errno;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd); /* the directory, by descriptor */
	err = chmod(path, 0700) == 0 ? 0 : -errno;
	close(fd);
	return err;
}

int export_dir_make(struct ctl_dirs *dirs, struct ctl_dir *d)
{
	const int parent_fd = d->parent->fd;
	bool is_new = mkdirat(parent_fd, d->name, 0700) == 0;
	int fd;

	if (!is_new && errno != EEXIST)
		return -errno;
	fd = ctl_dir_open(dirs, d);
	if (fd == -ENOTDIR || fd == -ELOOP) {
		if (unlinkat(parent_fd, d->name, 0) != 0 || mkdirat(parent_fd, d->name, 0700) != 0)
			return -errno;
		is_new = true;
		fd = ctl_dir_open(dirs, d);
	} else if (fd == -EACCES && unlock_dir(parent_fd, d->name) == 0) {
		fd = ctl_dir_open(dirs, d);
	}
	if (fd < 0)
		return fd;
	if (!is_new)
		(void)fchmod(fd, 0700);
	return 0;
}

int export_dir_finish(const struct ctl_dir *d, struct ctl_attrs *attrs, bool *changed)
{
	ctl_attrs_store(attrs, d->fd);
	set_owner(d->fd, d->uid, d->gid);
	if (fchmod(d->fd, d->mode & 07777) != 0)
		return -errno;
	return set_time(d->fd, d->mtime_ns, changed);
}
