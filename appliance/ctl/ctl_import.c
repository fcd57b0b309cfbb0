/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl import: copies a local tree into the appliance.
 *
 *   read dir --> wave --stat--> changed files --crew reads into the window--> put
 *      ^      (256 entries)       (size, mode, mtime)         (the next wave meanwhile)
 *      |                              |--> symlinks and directories, 32 at once
 *      +--- a directory, once it exists
 *
 *  (1) Every name, here and in the appliance, is one component in a directory that is known by
 *      descriptor and by number: a symlink in the way of an entry is replaced, never followed
 *      [e2e_import:precious].
 *  (2) An interrupted import is simply run again: each file is put atomically with its mode
 *      and time, so a file of equal size, mode and mtime is complete and is skipped.  Extended
 *      attributes are set after the put, so they are compared when the file is skipped
 *      [e2e_kill, e2e_tree:attributes_left].
 *  (3) A file or symlink with several names is put once, and its other names are linked when all
 *      waves are done.  Directories get their modes and times last: filling them changes both
 *      [e2e_tree:one_file, e2e_import:odd].
 *  (4) An entry that cannot be imported is named and counted, and the import continues.  When the
 *      appliance fails (it is full, or gone) the rest is counted, and not tried [e2e_import:full].
 */
#define _GNU_SOURCE
#include "appliance/ctl/ctl_import.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void import_error_here(struct import *im, const struct ctl_dir *d, const char *name,
		       const char *why)
{
	char *path = ctl_dir_path(im->dirs.top, d, name);

	ctl_tally_error(&im->tally, &im->progress, "%s: %s", path, why);
	free(path);
}

/* An error that ends the import has one line, at the end. */
void import_error_there(struct import *im, const struct ctl_dir *d, const char *name, int err)
{
	char *path = ctl_dir_path(im->target, d, name);

	if (ctl_is_fatal(err)) {
		const char *why = weka_error(im->c->client);

		im->stop = im->stop ? im->stop : err;
		im->stop_count++;
		if (!im->stop_what) {
			im->stop_what = path;
			im->stop_why = err == -ENOTCONN && *why ? strdup(why) : NULL;
			return;
		}
	} else {
		ctl_tally_error(&im->tally, &im->progress, "%s: %s", path, strerror(-err));
	}
	free(path);
}

/* Makes room for one more directory in `unread`.  Returns false if there is no memory. */
static bool unread_grow(struct import *im)
{
	const size_t room = im->unread_room ? 2 * im->unread_room : 64;
	struct ctl_dir **grown;

	if (im->unread_count < im->unread_room)
		return true;
	grown = realloc(im->unread, room * sizeof(struct ctl_dir *));
	if (!grown)
		return false;
	im->unread = grown;
	im->unread_room = room;
	return true;
}

void import_unread(struct import *im, struct ctl_dir *d)
{
	if (unread_grow(im))
		im->unread[im->unread_count++] = d;
	else
		import_error_here(im, d, "",
				  "not read, out of memory: run the import again, and it resumes");
}

void import_not_tried(struct import *im, struct ctl_dir *parent, const char *name, bool is_dir)
{
	im->tally.not_tried++;
	if (is_dir)
		import_unread(im, ctl_dir_add(&im->dirs, parent, name));
}

/* ---- one entry of the walk ------------------------------------------------------------ */

static void check_time(struct import *im, const struct ctl_dir *d, const char *name,
		       const struct stat *st)
{
	if (ctl_mtime_fits(st))
		return;
	im->tally.times_changed++;
	import_error_here(im, d, name,
			  "its time is beyond what the appliance can store (1677 to 2262), and was "
			  "changed to the nearest");
}

/* Returns the text of malloc(), or NULL with errno. */
static char *read_link(int dir_fd, const char *name)
{
	char text[WEKA_PATH_MAX + 2];
	ssize_t bytes = readlinkat(dir_fd, name, text, sizeof(text) - 1);

	if (bytes > (ssize_t)WEKA_PATH_MAX) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	return bytes < 0 ? NULL : strndup(text, (size_t)bytes);
}

static void add(struct import *im, struct ctl_dir *d, const char *name, const struct stat *st,
		enum ctl_kind kind)
{
	uint64_t size = kind == CTL_SMALL ? (uint64_t)st->st_size : 0;
	char *text = kind == CTL_SYMLINK ? read_link(d->fd, name) : NULL;
	struct ctl_first *first = NULL;
	struct ctl_file *f;

	if (kind == CTL_SYMLINK && !text) {
		import_error_here(im, d, name, strerror(errno));
		return;
	}
	if (st->st_nlink > 1 && kind != CTL_DIR) {
		const uint64_t key[2] = { st->st_dev, st->st_ino };

		first = ctl_links_add(&im->links, key, d, name);
		if (!first) {
			free(text);
			return;
		}
	}
	if (!ctl_wave_fits(&im->waves[im->wave], &im->dirs, d, size))
		import_send_wave(im);
	f = ctl_wave_add(&im->waves[im->wave], d, name, size);
	f->size_bytes = (uint64_t)st->st_size;
	f->kind = kind;
	f->st = *st;
	f->text = text;
	f->first = first;
	check_time(im, d, name, st);
}

static void entry(struct import *im, struct ctl_dir *d, const struct dirent *e)
{
	struct stat st;

	if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
		return;
	if (im->stop && e->d_type != DT_UNKNOWN) {
		import_not_tried(im, d, e->d_name, e->d_type == DT_DIR);
		return;
	}
	if (fstatat(d->fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		import_error_here(im, d, e->d_name, strerror(errno));
	else if (im->stop)
		import_not_tried(im, d, e->d_name, S_ISDIR(st.st_mode));
	else if (S_ISDIR(st.st_mode))
		add(im, d, e->d_name, &st, CTL_DIR);
	else if (S_ISLNK(st.st_mode))
		add(im, d, e->d_name, &st, CTL_SYMLINK);
	else if (S_ISREG(st.st_mode))
		add(im, d, e->d_name, &st, st.st_size > CTL_SMALL_FILE ? CTL_LARGE : CTL_SMALL);
	else
		import_error_here(im, d, e->d_name, "not a file, directory or symlink");
}

static void dir_attrs(struct import *im, struct ctl_dir *d)
{
	struct ctl_attrs attrs;

	if (im->stop || d->number == 0)
		return;
	ctl_attrs_load_fd(&attrs, d->fd);
	import_send_attrs(im, &attrs, d, "", &d->handle, d->xattrs);
	ctl_attrs_clear(&attrs);
}

static void read_dir(struct import *im, struct ctl_dir *d)
{
	int fd = ctl_dir_open(&im->dirs, d), at;
	struct dirent *e;
	DIR *dir;

	if (fd < 0) {
		import_error_here(im, d, "", strerror(-fd));
		return;
	}
	ctl_dir_pin(d);
	dir_attrs(im, d);
	at = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = at < 0 ? NULL : fdopendir(at);
	if (!dir && at >= 0)
		close(at);
	errno = dir ? 0 : errno;
	while (dir && (e = readdir(dir))) {
		entry(im, d, e);
		errno = 0;
	}
	if (errno)
		import_error_here(im, d, "", strerror(errno));
	if (dir)
		closedir(dir);
	ctl_dir_unpin(d);
}

/* ---- the whole ---------------------------------------------------------------------- */

/* Counts first, so that the bar knows its end. */
static void count_all(struct import *im)
{
	char *const paths[] = { (char *)(uintptr_t)im->dirs.top, NULL };
	const int how = FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR; /* only the top may be a link */
	FTS *walk = im->progress.on ? fts_open(paths, how, NULL) : NULL;
	FTSENT *e;

	while (walk && (e = fts_read(walk))) {
		im->progress.files_total +=
			e->fts_info == FTS_F || e->fts_info == FTS_SL || e->fts_info == FTS_SLNONE;
		im->progress.bytes_total +=
			e->fts_info == FTS_F ? (uint64_t)e->fts_statp->st_size : 0;
	}
	if (walk)
		fts_close(walk);
}

/* The directory that the user named, here and there.  A symlink to one is followed. */
static int begin_top(struct import *im)
{
	struct ctl_dir *top = im->dirs.dir[0];
	const char *target = *im->target ? im->target : "/";
	struct weka_attr a;
	struct stat st;
	int err = weka_stat(im->c->client, target, &a);

	if (err == -ENOENT) {
		err = weka_mkdir(im->c->client, target, 0755);
		err = err ? err : weka_stat(im->c->client, target, &a);
	}
	if (!err && !S_ISDIR(a.mode))
		err = -ENOTDIR;
	if (err)
		return ctl_fail("%s: %s", target, strerror(-err));
	if (fstat(top->fd, &st) != 0)
		return ctl_fail("%s: %s", im->dirs.top, strerror(errno));
	top->handle = a.handle;
	top->number = a.dir;
	top->xattrs = a.xattrs;
	top->mode = st.st_mode & 07777;
	top->uid = st.st_uid;
	top->gid = st.st_gid;
	top->mtime_ns = ctl_mtime_ns(&st);
	check_time(im, top, "", &st);
	im->tally.dirs++;
	import_unread(im, top);
	return 0;
}

static void walk(struct import *im)
{
	while (im->unread_count > 0) {
		read_dir(im, im->unread[--im->unread_count]);
		if (im->unread_count == 0) /* the wave may hold directories that are not made yet */
			import_send_wave(im);
	}
	import_finish_waves(im);
	import_finish_links(im);
	import_finish_dirs(im);
}

/* One line on what ended the import, and how much is missing. */
static void tell_stop(struct import *im)
{
	const char *why = im->stop_why ? im->stop_why : strerror(-im->stop);
	const char *advice = im->stop == -ENOSPC ? "remove files or add drives, then " : "";

	if (!im->stop)
		return;
	ctl_tally_error(&im->tally, &im->progress,
			"%s: %s; %llu entries were not stored for this, and %llu were not tried: "
			"%srun the import again, and it resumes",
			im->stop_what ? im->stop_what : im->target, why,
			(unsigned long long)im->stop_count, (unsigned long long)im->tally.not_tried,
			advice);
	im->tally.errors += im->stop_count > 1 ? im->stop_count - 1 : 0;
}

static int begin(struct import *im)
{
	struct ctl *c = im->c;
	int err = ctl_dirs_begin(&im->dirs, c->argv[0]);

	if (err == -ENOTDIR)
		return ctl_fail("%s: not a directory (wekactl put takes one file)", c->argv[0]);
	if (err)
		return ctl_fail("%s: %s", c->argv[0], strerror(-err));
	if (ctl_crew_create(&im->crew, c->threads - 1) || ctl_waves_create(c, &im->waves))
		return ctl_fail("import: no memory");
	if (!c->verify)
		return 0;
	im->seen_item = calloc(CTL_WAVE_FILES, sizeof(*im->seen_item));
	if (!im->seen_item || weka_lease(c->client, CTL_WAVE_WINDOW, &im->seen))
		return ctl_fail("import: out of memory to verify");
	return 0;
}

int ctl_cmd_import(struct ctl *c)
{
	struct import im = { .c = c, .target = c->argv[1] };
	int status = begin(&im);

	if (!status) {
		ctl_progress_begin(&im.progress, "import", !c->quiet && !c->json);
		count_all(&im);
		status = begin_top(&im);
	}
	if (!status) {
		walk(&im);
		tell_stop(&im);
		im.tally.seconds = ctl_progress_end(&im.progress);
		status = ctl_tally_print(c, "import", &im.tally);
	}
	ctl_waves_destroy(c, im.waves);
	weka_release(c->client, im.seen);
	ctl_crew_destroy(im.crew);
	ctl_links_destroy(&im.links);
	ctl_dirs_end(&im.dirs);
	free(im.seen_item);
	free(im.unread);
	free(im.stop_what);
	free(im.stop_why);
	return status;
}
