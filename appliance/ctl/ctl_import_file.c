/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl import: the content of files.
 *
 * A file may change while it is read.  So its size and times are checked before and after, and the
 * bytes count only if they are the same.  With --verify the appliance's content is read, too:
 * content that differs or cannot be read there is put again.
 */
#define _GNU_SOURCE
#include "appliance/ctl/ctl_import.h"
#include "base/num.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRIES       3
#define PIECE_BYTES ((size_t)1 << 20)

#define ATTRS_MANY 250 /* of a file with fewer none is refused for their number */

/* Errors of a local file that no system call has. */
#define CHANGED ESTALE

struct weka_create import_create(const struct stat *st)
{
	return (struct weka_create){
		.mode = st->st_mode & 07777,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.flags = WEKA_MTIME_GIVEN,
		.mtime_ns = ctl_mtime_ns(st),
	};
}

struct weka_ref import_ref(const struct ctl_dir *d, const char *name)
{
	struct weka_ref ref = weka_ref_in(d->number, name);

	ref.flags = WEKA_NOFOLLOW;
	return ref;
}

void import_send_attrs(struct import *im, const struct ctl_attrs *a, const struct ctl_dir *d,
		       const char *name, const struct weka_handle *handle, uint32_t there)
{
	const struct weka_ref ref = weka_ref_handle(handle);
	int err = a->count || there ? ctl_attrs_send(a, im->c, &ref, there) : 0;
	char *path;

	if (!err && !a->count && !a->left)
		return;
	path = ctl_dir_path(im->dirs.top, d, name);
	ctl_attrs_tell(a, &im->tally, &im->progress, path, a->partial);
	if (ctl_is_fatal(err) && (err != -ENOSPC || a->count <= ATTRS_MANY))
		import_error_there(im, d, name, err);
	else if (err)
		ctl_tally_error(&im->tally, &im->progress, "%s: its attributes: %s", path,
				strerror(-err));
	free(path);
}

static void count_one(struct import *im, const struct ctl_file *f)
{
	im->progress.files++;
	im->progress.bytes += f->kind == CTL_SYMLINK ? 0 : f->size_bytes;
	if (f->first)
		f->first->is_there = true;
}

void import_stored(struct import *im, struct ctl_file *f, const struct weka_handle *handle)
{
	char *path;

	import_send_attrs(im, &f->attrs, f->dir, f->name, handle, 0);
	im->tally.files++;
	im->tally.bytes += f->size_bytes;
	count_one(im, f);
	if (!f->repair)
		return;
	im->tally.repaired++;
	path = ctl_dir_path(im->target, f->dir, f->name);
	ctl_tally_note(&im->progress, "%s: its content differed or was damaged; written again",
		       path);
	free(path);
}

void import_skipped(struct import *im, struct ctl_file *f)
{
	import_send_attrs(im, &f->attrs, f->dir, f->name, &f->attr.handle, f->attr.xattrs);
	im->tally.skipped++;
	count_one(im, f);
}

static int read_all(int fd, uint8_t *to, uint64_t size_bytes)
{
	uint64_t at = 0;

	while (at < size_bytes) {
		ssize_t got = pread(fd, to + at, size_bytes - at, (off_t)at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? errno : CHANGED;
		at += (uint64_t)got;
	}
	return 0;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
	       a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Opens a regular file; a fifo that took its place does not make us wait. */
static int open_file(const struct ctl_file *f, struct stat *st)
{
	int fd = openat(f->dir->fd, f->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	int err = 0;

	if (fd < 0)
		return errno == ELOOP ? -CHANGED : -errno;
	if (fstat(fd, st) != 0)
		err = -errno;
	else if (!S_ISREG(st->st_mode))
		err = -CHANGED;
	if (err)
		close(fd);
	return err ? err : fd;
}

int import_try_open(const struct ctl_file *f)
{
	struct stat st;
	int fd = open_file(f, &st);

	if (fd < 0)
		return -fd;
	close(fd);
	return 0;
}

static bool has_hole(int fd, const struct stat *st)
{
	if (st->st_size < (off_t)WEKA_BLOCK || (int64_t)st->st_blocks * 512 >= st->st_size)
		return false;
	return lseek(fd, 0, SEEK_HOLE) < (off_t)align_down((uint64_t)st->st_size, WEKA_BLOCK);
}

/* Reads a file of a wave until it did not change meanwhile.  Returns an errno or 0. */
static int load_file(struct ctl_file *f, int fd, struct stat *st, uint8_t *to)
{
	const uint64_t room = align_up(f->size_bytes, WEKA_BLOCK);
	struct stat after;
	int err = CHANGED;

	for (int i = 0; i < TRIES && err == CHANGED; i++) {
		if ((uint64_t)st->st_size > room)
			return CHANGED;
		err = read_all(fd, to, (uint64_t)st->st_size);
		if (fstat(fd, &after) != 0)
			return errno;
		if (!err && !is_same_file(st, &after))
			err = CHANGED;
		*st = after;
	}
	return err;
}

static void load_small(const struct import *im, struct ctl_wave *w, uint32_t i)
{
	struct ctl_file *f = &w->file[i];
	uint8_t *to = (uint8_t *)w->lease->data + f->window_at;
	struct stat st;
	int fd = open_file(f, &st);

	if (fd < 0) {
		f->err = -fd;
		f->wanted = true;
		return;
	}
	ctl_attrs_load_fd(&f->attrs, fd);
	if (has_hole(fd, &st)) {
		f->kind = CTL_LARGE;
		close(fd);
		return;
	}
	f->err = load_file(f, fd, &st, to);
	close(fd);
	if (f->err == CHANGED) { /* once more, on its own */
		f->kind = CTL_LARGE;
		f->wanted = true;
		return;
	}
	if (f->wanted || f->err) {
		f->wanted = true;
		f->st = st;
		f->size_bytes = (uint64_t)st.st_size;
		return;
	}
	f->wanted = !is_same_file(&f->st, &st) || im->seen_item[i].status ||
		    im->seen_item[i].got_bytes != f->size_bytes ||
		    memcmp(im->seen_item[i].data, to, f->size_bytes) != 0;
	f->repair = f->wanted && is_same_file(&f->st, &st);
	f->st = st;
	f->size_bytes = (uint64_t)st.st_size;
}

void import_load(void *arg, uint32_t i)
{
	const struct import_load *load = arg;
	struct ctl_file *f = &load->w->file[i];

	if (f->err || (f->kind != CTL_SMALL && f->kind != CTL_LARGE))
		return;
	if (f->kind == CTL_SMALL && (f->wanted || load->im->c->verify))
		load_small(load->im, load->w, i);
	else
		ctl_attrs_load_at(&f->attrs, f->dir->fd, f->name);
}

/* ---- large and sparse files ------------------------------------------------------------- */

/* Returns where the next data is from `at` on, here or there, or `size`. */
static uint64_t next_data(struct import *im, int fd, const struct weka_handle *handle, uint64_t at,
			  uint64_t size)
{
	struct ctl_req r = { 0 };
	off_t here;
	int err;

	if (at >= size)
		return size;
	here = lseek(fd, (off_t)at, SEEK_DATA);
	if (here < 0 && errno != ENXIO)
		return at;
	err = ctl_req_run(im->c, &r, weka_submit_seek(im->c->client, &r.req, handle, at, 0));
	if (err && err != -ENXIO)
		return at;
	if (here < 0 && err)
		return size;
	if (here < 0 || (!err && (uint64_t)here > r.req.length_bytes))
		here = (off_t)r.req.length_bytes;
	return max_u64(align_down((uint64_t)here, WEKA_BLOCK), at);
}

/* Returns 0 if the content is the same, 1 if it is not or cannot be read there, an errno if it
 * cannot be read here, or -errno if the appliance failed. */
static int differs(struct import *im, const struct ctl_file *f, int fd, uint8_t *room)
{
	uint64_t at = 0;

	for (;;) {
		uint64_t piece;
		int64_t got;
		int err;

		at = next_data(im, fd, &f->attr.handle, at, f->size_bytes);
		if (at >= f->size_bytes)
			return 0;
		piece = min_u64(f->size_bytes - at, PIECE_BYTES);
		got = weka_pread(im->c->client, &f->attr.handle, room, piece, at);
		if (got < 0 && got != -EIO && got != -ESTALE && got != -EBADMSG)
			return (int)got;
		if (got != (int64_t)piece)
			return 1;
		for (uint64_t done = 0; done < piece; done += (uint64_t)got) {
			got = pread(fd, room + PIECE_BYTES + done, piece - done,
				    (off_t)(at + done));
			err = errno;
			if (got <= 0)
				return got < 0 ? err : 1;
		}
		if (memcmp(room, room + PIECE_BYTES, piece) != 0)
			return 1;
		at += piece;
	}
}

/* Returns true if the file must be put again.  After a (reported) error it does not. */
static bool verify_large(struct import *im, struct ctl_file *f, int fd)
{
	uint8_t *room = ctl_need(malloc(2 * PIECE_BYTES));
	int got = differs(im, f, fd, room);

	free(room);
	f->repair = got == 1;
	if (got < 0)
		import_error_there(im, f->dir, f->name, got);
	else if (got > 1)
		import_error_here(im, f->dir, f->name, strerror(got));
	else if (got == 0)
		import_skipped(im, f);
	return got == 1;
}

/* Puts a file until it did not change meanwhile.  0, an errno of this side, or -errno. */
static int put_large(struct import *im, struct ctl_file *f, int fd)
{
	const struct weka_ref ref = import_ref(f->dir, f->name);
	int err = CHANGED;

	for (int i = 0; i < TRIES && err == CHANGED; i++) {
		const struct weka_create create = import_create(&f->st);
		struct stat after;

		f->size_bytes = (uint64_t)f->st.st_size;
		err = weka_put_fd(im->c->client, &ref, fd, f->size_bytes, &create);
		if (err && err != -ENODATA)
			return err;
		if (fstat(fd, &after) != 0)
			return errno;
		err = err || !is_same_file(&f->st, &after) ? CHANGED : 0;
		f->st = after;
	}
	return err;
}

static void put_and_count(struct import *im, struct ctl_file *f, int fd)
{
	const struct weka_ref ref = import_ref(f->dir, f->name);
	struct weka_stat_item item = { .ref = ref };
	struct ctl_req r = { 0 };
	int err = put_large(im, f, fd);

	if (err > 0) {
		import_error_here(im, f->dir, f->name,
				  err == CHANGED ? "changed while it was read, three times"
						 : strerror(err));
		return;
	}
	if (!err) /* its handle, for the attributes */
		err = ctl_req_run(im->c, &r,
				  weka_submit_stat(im->c->client, &r.req, &item, 1, NULL));
	err = err ? err : item.status;
	if (err)
		import_error_there(im, f->dir, f->name, err);
	else
		import_stored(im, f, &item.attr.handle);
}

void import_large(struct import *im, struct ctl_file *f)
{
	struct stat st;
	int fd;

	if (!f->wanted && !im->c->verify) {
		import_skipped(im, f);
		return;
	}
	fd = open_file(f, &st);
	if (fd < 0) {
		import_error_here(im, f->dir, f->name,
				  fd == -CHANGED ? "is no longer a regular file" : strerror(-fd));
		return;
	}
	if (f->wanted || !is_same_file(&f->st, &st) || verify_large(im, f, fd)) {
		f->st = st;
		put_and_count(im, f, fd);
	}
	close(fd);
}
