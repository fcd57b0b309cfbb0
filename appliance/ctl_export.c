/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl export: a tree of the appliance into a local directory.
 *
 *   list --> wave --crew looks what is there--> read batch --> crew writes .wk-part-N, renames
 *
 * A local file appears under its name only when it is whole, with its attributes, mode and time;
 * so an export that was cut off is run again, and what has equal size, mode and mtime is skipped.
 * A file with several names is read once, and linked to the others when all waves are done.  Names
 * come from a peer: one that is no plain name (a slash, ".", "..") is refused, never followed.
 */
#define _GNU_SOURCE
#include "appliance/ctl_links.h"
#include "appliance/ctl_wave.h"
#include "base/num.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct dir_todo {
	char *local;
	char *remote;
	struct weka_attr attr;
};

struct export_run {
	struct ctl *c;
	struct ctl_crew *crew;
	struct ctl_wave *waves;
	uint32_t wave;         /* being filled */
	struct dir_todo *dirs; /* in the order in which they were found: parents first */
	size_t ndirs, dirs_room;
	struct ctl_links links;
	struct ctl_progress progress;
	struct ctl_tally tally;
	int stop;
};

static void broken(struct export_run *ex, const char *what, int err)
{
	const char *why = weka_error(ex->c->client);

	ctl_tally_error(&ex->tally, &ex->progress, "%s: %s", what, *why ? why : strerror(-err));
	ex->stop = err;
}

static void set_times(int dir_fd, const char *path, int64_t mtime_ns)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, ctl_timespec(mtime_ns) };

	(void)utimensat(dir_fd, path, times, AT_SYMLINK_NOFOLLOW);
}

/* Owners only where we may; an ordinary user's files stay his. */
static void set_owner(int fd, const struct weka_attr *a)
{
	if (geteuid() == 0 && fchown(fd, a->uid, a->gid) != 0)
		return;
}

static bool is_there(const char *local, const struct weka_attr *a)
{
	struct stat st;

	return lstat(local, &st) == 0 && st.st_mode == a->mode &&
	       (uint64_t)st.st_size == a->size_bytes && ctl_mtime_ns(&st) == a->mtime_ns;
}

/* ---- one local file --------------------------------------------------------------------- */

/* Beside it, with a short name of its own: its own may be as long as names can be. */
static char *part_name(const char *local)
{
	static _Atomic unsigned count;
	const char *slash = strrchr(local, '/');
	char *part;

	if (asprintf(&part, "%.*s.wk-part-%d-%u", slash ? (int)(slash + 1 - local) : 0, local,
		     (int)getpid(), atomic_fetch_add(&count, 1)) < 0)
		part = NULL;
	ASSERT(part);
	return part;
}

static int open_part(const char *part)
{
	int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

	return fd < 0 ? -errno : fd;
}

static int close_part(int fd, const char *part, const char *local, const struct weka_attr *a,
		      struct ctl_attrs *attrs)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, ctl_timespec(a->mtime_ns) };
	int err = 0;

	ctl_attrs_store(attrs, fd); /* while the mode lets us */
	set_owner(fd, a);
	if (fchmod(fd, a->mode & 07777) != 0 || futimens(fd, times) != 0)
		err = -errno;
	if (close(fd) != 0 && !err)
		err = -errno;
	if (!err && rename(part, local) != 0)
		err = -errno;
	return err;
}

static int write_all(int fd, const void *bytes, uint64_t size_bytes)
{
	uint64_t at = 0;

	while (at < size_bytes) {
		ssize_t put = write(fd, (const uint8_t *)bytes + at, size_bytes - at);

		if (put < 0 && errno != EINTR)
			return -errno;
		at += put > 0 ? (uint64_t)put : 0;
	}
	return 0;
}

/* A crew's piece of work: is this file there already, as it should be? */
static void look(void *arg, uint32_t i)
{
	struct ctl_wave *w = arg;

	w->file[i].wanted = !is_there(w->file[i].local, &w->file[i].attr);
}

/* A crew's piece of work: what was read, into its file. */
static void store(void *arg, uint32_t i)
{
	struct ctl_wave *w = arg;
	struct ctl_file *f = &w->file[w->index[i]];
	const struct weka_read_item *item = &w->items.read[i];
	char *part;
	int fd, err;

	if (item->status || f->err)
		return;
	part = part_name(f->local);
	fd = open_part(part);
	err = fd < 0 ? fd : write_all(fd, item->data, item->got_bytes);
	if (fd >= 0 && err)
		close(fd);
	else if (fd >= 0)
		err = close_part(fd, part, f->local, &f->attr, &f->attrs);
	if (err)
		(void)unlink(part);
	f->err = -err;
	free(part);
}

/* Of what has some: most have none, and cost nothing. */
static int fetch_attrs(struct export_run *ex, struct ctl_attrs *attrs, const char *remote,
		       const struct weka_attr *a)
{
	return a->xattrs ? ctl_attrs_fetch(attrs, ex->c->client, remote) : 0;
}

/* ---- a wave ----------------------------------------------------------------------------- */

static void answered(struct export_run *ex, struct ctl_wave *w)
{
	int err = ctl_wave_wait(ex->c, w);

	if (err)
		broken(ex, "read", err);
	for (uint32_t i = 0; !err && i < w->nitems; i++) {
		struct ctl_file *f = &w->file[w->index[i]];

		if (w->items.read[w->index[i]].status == 0) /* without them it is not stored */
			f->err = -fetch_attrs(ex, &f->attrs, f->remote, &f->attr);
	}
	if (!err)
		ctl_crew_run(ex->crew, w->nitems, store, w);
	for (uint32_t i = 0; !err && i < w->nitems; i++) {
		struct ctl_file *f = &w->file[w->index[i]];
		int status = w->items.read[i].status;

		if (status || f->err) {
			ctl_tally_error(&ex->tally, &ex->progress, "%s: %s",
					status ? f->remote : f->local,
					strerror(status ? -status : f->err));
			continue;
		}
		ctl_attrs_tell(&f->attrs, &ex->tally, &ex->progress, f->local, true);
		ex->tally.files++;
		ex->tally.bytes += w->items.read[i].got_bytes;
		ex->progress.files++;
		ex->progress.bytes += w->items.read[i].got_bytes;
	}
	w->nitems = 0;
	ctl_wave_clear(w);
	ctl_progress_step(&ex->progress);
}

static void send_wave(struct export_run *ex)
{
	struct ctl_wave *w = &ex->waves[ex->wave];
	struct weka_window window = ctl_wave_window(w);
	uint32_t count = 0;
	int err;

	if (w->count == 0 || ex->stop)
		return;
	ctl_crew_run(ex->crew, w->count, look, w);
	for (uint32_t i = 0; i < w->count; i++) {
		struct ctl_file *f = &w->file[i];

		if (!f->wanted) {
			ex->tally.skipped++;
			continue;
		}
		w->items.read[count] = (struct weka_read_item){
			.ref = weka_ref_handle(&f->attr.handle),
			.length_bytes = WEKA_TO_END,
		};
		w->index[count++] = i;
	}
	if (count == 0) {
		ctl_wave_clear(w);
		return;
	}
	err = weka_submit_read_batch(ex->c->client, &w->req, w->items.read, count, &window);
	if (err) {
		broken(ex, "export", err);
		ctl_wave_clear(w);
		return;
	}
	w->nitems = count;
	w->in_flight = true;
	weka_flush(ex->c->client);
	ex->wave = (ex->wave + 1) % CTL_WAVES;
	if (ex->waves[ex->wave].nitems)
		answered(ex, &ex->waves[ex->wave]);
}

static void finish_waves(struct export_run *ex)
{
	send_wave(ex);
	for (uint32_t i = 0; i < CTL_WAVES; i++) {
		struct ctl_wave *w = &ex->waves[(ex->wave + i) % CTL_WAVES];

		if (w->nitems)
			answered(ex, w);
	}
}

/* ---- one entry of a listing ---------------------------------------------------------------- */

static void large_file(struct export_run *ex, const char *local, const char *remote,
		       const struct weka_attr *a)
{
	struct weka_ref ref = weka_ref_handle(&a->handle);
	char *part = part_name(local);
	struct ctl_attrs attrs = { 0 };
	int64_t got;
	int fd, err;

	fd = open_part(part);
	got = fd < 0 ? fd : weka_get_fd(ex->c->client, &ref, fd);
	err = got < 0 ? (int)got : fetch_attrs(ex, &attrs, remote, a);
	if (fd >= 0 && err)
		close(fd);
	if (!err)
		err = close_part(fd, part, local, a, &attrs);
	if (err) {
		(void)unlink(part);
		ctl_tally_error(&ex->tally, &ex->progress, "%s: %s", local, strerror(-err));
	} else {
		ctl_attrs_tell(&attrs, &ex->tally, &ex->progress, local, true);
		ex->tally.files++;
		ex->tally.bytes += a->size_bytes;
		ex->progress.files++;
		ex->progress.bytes += a->size_bytes;
		ctl_progress_step(&ex->progress);
	}
	ctl_attrs_clear(&attrs);
	free(part);
}

static void regular_file(struct export_run *ex, char *local, char *remote,
			 const struct weka_attr *a)
{
	uint64_t key[2];

	static_assert(sizeof(key) == sizeof(a->handle), "a handle tells files apart");
	memcpy(key, &a->handle, sizeof(key));
	if (a->nlink > 1 && ctl_links_add(&ex->links, key, local)) {
		free(local);
		free(remote);
		return;
	}
	ex->progress.files_total++;
	ex->progress.bytes_total += a->size_bytes;
	if (a->size_bytes > CTL_SMALL_FILE) {
		if (is_there(local, a))
			ex->tally.skipped++;
		else
			large_file(ex, local, remote, a);
		free(local);
		free(remote);
		return;
	}
	if (!ctl_wave_fits(&ex->waves[ex->wave], a->size_bytes))
		send_wave(ex);
	if (ex->stop) {
		free(local);
		free(remote);
		return;
	}
	ctl_wave_add(&ex->waves[ex->wave], local, remote, a->size_bytes)->attr = *a;
}

static void symlink_entry(struct export_run *ex, const char *local, const char *remote,
			  const struct weka_attr *a)
{
	char target[WEKA_PATH_MAX + 1], there[WEKA_PATH_MAX + 1];
	int64_t length = weka_readlink(ex->c->client, remote, target, sizeof(target));
	ssize_t old;

	if (length < 0) {
		ctl_tally_error(&ex->tally, &ex->progress, "%s: %s", remote,
				strerror((int)-length));
		return;
	}
	old = readlink(local, there, sizeof(there));
	if (old == length && memcmp(there, target, (size_t)old) == 0) {
		ex->tally.skipped++;
		set_times(AT_FDCWD, local, a->mtime_ns);
		return;
	}
	if (old >= 0)
		(void)unlink(local);
	if (symlink(target, local) != 0) {
		ctl_tally_error(&ex->tally, &ex->progress, "%s: %s", local, strerror(errno));
		return;
	}
	if (geteuid() == 0)
		(void)!lchown(local, a->uid, a->gid);
	set_times(AT_FDCWD, local, a->mtime_ns);
	ex->tally.symlinks++;
}

static void push_dir(struct export_run *ex, char *local, char *remote, const struct weka_attr *a)
{
	if (mkdir(local, 0700) != 0 && errno != EEXIST) {
		ctl_tally_error(&ex->tally, &ex->progress, "%s: %s", local, strerror(errno));
		free(local);
		free(remote);
		return;
	}
	(void)chmod(local, 0700); /* of an earlier export: to be filled again */
	if (ex->ndirs == ex->dirs_room) {
		ex->dirs_room = ex->dirs_room ? 2 * ex->dirs_room : 64;
		ex->dirs = realloc(ex->dirs, ex->dirs_room * sizeof(*ex->dirs));
		ASSERT(ex->dirs);
	}
	ex->dirs[ex->ndirs++] = (struct dir_todo){ local, remote, *a };
	ex->tally.dirs++;
}

static void entry(struct export_run *ex, const struct dir_todo *dir, const struct weka_entry *e)
{
	char *local, *remote;

	if (strcmp(e->name, ".") == 0 || strcmp(e->name, "..") == 0 || !*e->name ||
	    strchr(e->name, '/')) {
		ctl_tally_error(&ex->tally, &ex->progress,
				"%s: the appliance lists a name that cannot be one", dir->remote);
		return;
	}
	local = ctl_join(dir->local, e->name);
	remote = ctl_join(dir->remote, e->name);
	if (S_ISDIR(e->attr.mode)) {
		push_dir(ex, local, remote, &e->attr);
		return;
	}
	if (S_ISREG(e->attr.mode)) {
		regular_file(ex, local, remote, &e->attr);
		return;
	}
	symlink_entry(ex, local, remote, &e->attr);
	free(local);
	free(remote);
}

/* ---- the whole ------------------------------------------------------------------------- */

static void list_dir(struct export_run *ex, const struct dir_todo *dir)
{
	struct weka_ref ref = weka_ref_handle(&dir->attr.handle);
	struct weka_dir *listing;
	struct weka_entry e;
	int got = weka_list(ex->c->client, &ref, &listing);

	if (got) {
		broken(ex, dir->remote, got);
		return;
	}
	while (!ex->stop && (got = weka_list_next(listing, &e)) == 1)
		entry(ex, dir, &e);
	weka_list_end(listing);
	if (got < 0)
		broken(ex, dir->remote, got);
}

/* All in it is there: now its own mode and time can stay. */
static void finish_dir(struct export_run *ex, struct dir_todo *d)
{
	int fd = open(d->local, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	const int why = errno;
	struct ctl_attrs attrs = { 0 };
	int err = fetch_attrs(ex, &attrs, *d->remote ? d->remote : "/", &d->attr);

	if (err)
		ctl_tally_error(&ex->tally, &ex->progress, "%s: its attributes: %s", d->local,
				strerror(-err));
	if (fd >= 0)
		ctl_attrs_store(&attrs, fd);
	ctl_attrs_tell(&attrs, &ex->tally, &ex->progress, d->local, true);
	ctl_attrs_clear(&attrs);
	if (fd < 0 || fchmod(fd, d->attr.mode & 07777) != 0)
		ctl_tally_error(&ex->tally, &ex->progress, "%s: %s", d->local,
				strerror(fd < 0 ? why : errno));
	if (fd >= 0) {
		set_owner(fd, &d->attr);
		close(fd);
	}
	set_times(AT_FDCWD, d->local, d->attr.mtime_ns);
	free(d->local);
	free(d->remote);
}

/* One more name of what is there by now; whatever has it gives way at one moment. */
static int link_one(struct export_run *ex, const struct ctl_link *l)
{
	struct stat first, st;
	char *part;
	int err = 0;

	if (lstat(l->first, &first) != 0)
		return -errno;
	if (lstat(l->name, &st) == 0 && st.st_dev == first.st_dev && st.st_ino == first.st_ino) {
		ex->tally.skipped++;
		return 0;
	}
	part = part_name(l->name);
	if (link(l->first, part) != 0 || rename(part, l->name) != 0)
		err = -errno;
	if (err)
		(void)unlink(part);
	free(part);
	ex->tally.links += err == 0;
	return err;
}

static void finish_links(struct export_run *ex)
{
	for (size_t i = 0; i < ex->links.nlinks && !ex->stop; i++) {
		int err = link_one(ex, &ex->links.link[i]);

		if (err)
			ctl_tally_error(&ex->tally, &ex->progress, "%s: %s", ex->links.link[i].name,
					strerror(-err));
	}
	ctl_links_destroy(&ex->links);
}

/* Each directory that is found is listed in its turn; modes and times come when all waves are done,
 * the deepest first. */
static void walk(struct export_run *ex)
{
	for (size_t i = 0; i < ex->ndirs && !ex->stop; i++) {
		struct dir_todo dir = ex->dirs[i]; /* the array may move */

		list_dir(ex, &dir);
	}
	finish_waves(ex);
	finish_links(ex);
	while (ex->ndirs > 0)
		finish_dir(ex, &ex->dirs[--ex->ndirs]);
	free(ex->dirs);
}

int ctl_cmd_export(struct ctl *c)
{
	struct export_run ex = { .c = c };
	struct weka_attr attr;
	int err = weka_stat(c->client, c->argv[0], &attr);

	if (err)
		return ctl_fail("%s: %s", c->argv[0], strerror(-err));
	if (!S_ISDIR(attr.mode))
		return ctl_fail("%s: not a directory (wekactl cat takes one file)", c->argv[0]);
	if (ctl_crew_create(&ex.crew, c->threads - 1) || ctl_waves_create(c, &ex.waves))
		return ctl_fail("export: no memory");
	ctl_progress_begin(&ex.progress, "export", !c->quiet && !c->json);
	push_dir(&ex, ctl_join(c->argv[1], ""), ctl_join(c->argv[0], ""), &attr);
	walk(&ex);
	ex.tally.seconds = ctl_progress_end(&ex.progress);
	ctl_waves_destroy(c, ex.waves);
	ctl_crew_destroy(ex.crew);
	return ctl_tally_print(c, "export", &ex.tally);
}
