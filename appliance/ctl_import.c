/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl import: a local tree into the appliance.
 *
 *   walk --> wave --stat--> what differs --crew reads it into the window--> put --> answers
 *            (256 files)    (size, mode, mtime)                         (next wave meanwhile)
 *
 * An import that was cut off is simply run again: each file is put atomically with its mode and
 * time, so what has equal size, mode and mtime is whole, and is skipped, but for its extended
 * attributes: they are set behind the put, and compared when it is skipped.  A file with several
 * names is put once, and its other names are linked when all waves are done.  Directories get their
 * modes and times last, since filling them changes both.  What cannot be read is named and
 * counted, and the rest goes on.
 */
#include "appliance/ctl_links.h"
#include "appliance/ctl_wave.h"
#include "base/num.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct dir_done { /* what a directory gets at the end */
	char *local;
	char *remote;
	struct stat st;
};

struct import {
	struct ctl *c;
	const char *source;
	size_t source_length;
	const char *target;
	struct ctl_crew *crew;
	struct ctl_wave *waves;
	uint32_t wave; /* being filled */
	struct dir_done *dirs;
	size_t ndirs, dirs_room;
	struct ctl_links links;
	struct ctl_progress progress;
	struct ctl_tally tally;
	int stop; /* the appliance is gone: an error that ends the import */
};

static void broken(struct import *im, const char *what, int err)
{
	const char *why = weka_error(im->c->client);

	ctl_tally_error(&im->tally, &im->progress, "%s: %s", what, *why ? why : strerror(-err));
	im->stop = err;
}

/* Is this the appliance failing, rather than one file? */
static bool is_fatal(int err)
{
	return err == -ENOTCONN || err == -ECONNRESET || err == -ETIMEDOUT || err == -ENOSPC ||
	       err == -EROFS || err == -EPROTO;
}

static struct weka_create create_of(const struct stat *st)
{
	return (struct weka_create){
		.mode = st->st_mode & 07777,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.flags = WEKA_MTIME_GIVEN,
		.mtime_ns = ctl_mtime_ns(st),
	};
}

/* The appliance's file has `there` of its own. */
static void send_attrs(struct import *im, const struct ctl_attrs *a, const char *local,
		       const char *remote, uint32_t there)
{
	int err = ctl_attrs_send(a, im->c->client, remote, there);

	ctl_attrs_tell(a, &im->tally, &im->progress, local, a->partial);
	if (err)
		ctl_tally_error(&im->tally, &im->progress, "%s: its attributes: %s", remote,
				strerror(-err));
}

/* ---- a wave ------------------------------------------------------------------------ */

static void answered(struct import *im, struct ctl_wave *w)
{
	int err = ctl_wave_wait(im->c, w);

	if (err)
		broken(im, "put", err);
	for (uint32_t i = 0; !err && i < w->nitems; i++) {
		struct ctl_file *f = &w->file[w->index[i]];
		int status = w->items.put[i].status;

		if (status) {
			ctl_tally_error(&im->tally, &im->progress, "%s: %s", f->remote,
					strerror(-status));
			im->stop = is_fatal(status) ? status : im->stop;
			continue;
		}
		send_attrs(im, &f->attrs, f->local, f->remote, 0);
		im->tally.files++;
		im->tally.bytes += f->size_bytes;
		im->progress.files++;
		im->progress.bytes += f->size_bytes;
	}
	w->nitems = 0;
	ctl_wave_clear(w);
	ctl_progress_step(&im->progress);
}

/* Which of the wave's files are not there yet, or differ? */
static int compare(struct import *im, struct ctl_wave *w)
{
	struct weka_window window = ctl_wave_window(w);
	int err;

	for (uint32_t i = 0; i < w->count; i++) {
		w->items.stat[i] =
			(struct weka_stat_item){ .ref = weka_ref_path(w->file[i].remote) };
		w->items.stat[i].ref.flags = WEKA_NOFOLLOW;
	}
	err = weka_submit_stat(im->c->client, &w->req, w->items.stat, w->count, &window);
	if (err)
		return err;
	w->in_flight = true;
	err = ctl_wave_wait(im->c, w);
	for (uint32_t i = 0; !err && i < w->count; i++) {
		struct ctl_file *f = &w->file[i];
		const struct weka_attr *a = &w->items.stat[i].attr;

		f->wanted = w->items.stat[i].status != 0 || a->mode != f->st.st_mode ||
			    a->size_bytes != f->size_bytes || a->mtime_ns != ctl_mtime_ns(&f->st);
		f->attrs_there = w->items.stat[i].status ? 0 : a->xattrs;
	}
	return err;
}

/* One file's bytes into its place in the window: a crew's piece of work. */
static void load(void *arg, uint32_t i)
{
	struct ctl_wave *w = arg;
	struct ctl_file *f = &w->file[i];
	uint8_t *to = (uint8_t *)w->lease->data + f->window_at;
	uint64_t at = 0;
	int fd;

	ctl_attrs_load(&f->attrs, f->local);
	if (!f->wanted)
		return;
	fd = open(f->local, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	f->err = fd < 0 ? errno : 0;
	while (!f->err && at < f->size_bytes) {
		ssize_t got = read(fd, to + at, f->size_bytes - at);

		if (got < 0 && errno == EINTR)
			continue;
		f->err = got < 0 ? errno : got == 0 ? ESTALE : 0;
		at += got > 0 ? (uint64_t)got : 0;
	}
	if (fd >= 0)
		close(fd);
}

static uint32_t make_items(struct import *im, struct ctl_wave *w)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < w->count; i++) {
		struct ctl_file *f = &w->file[i];

		if (!f->wanted) {
			send_attrs(im, &f->attrs, f->local, f->remote, f->attrs_there);
			im->tally.skipped++;
			im->progress.files++;
			im->progress.bytes += f->size_bytes;
			continue;
		}
		if (f->err) {
			ctl_tally_error(&im->tally, &im->progress, "%s: %s", f->local,
					f->err == ESTALE ? "became shorter while it was read"
							 : strerror(f->err));
			continue;
		}
		w->items.put[count] = (struct weka_put_item){
			.ref = weka_ref_path(f->remote),
			.create = create_of(&f->st),
			.window_at = f->window_at,
			.size_bytes = (uint32_t)f->size_bytes,
		};
		w->index[count++] = i;
	}
	return count;
}

/* Send the wave that was filled, and make room in the next one. */
static void send_wave(struct import *im)
{
	struct ctl_wave *w = &im->waves[im->wave];
	struct weka_window window = ctl_wave_window(w);
	uint32_t count;
	int err;

	if (w->count == 0 || im->stop)
		return;
	err = compare(im, w);
	if (!err) {
		ctl_crew_run(im->crew, w->count, load, w);
		count = make_items(im, w);
		if (count == 0) {
			ctl_wave_clear(w);
			ctl_progress_step(&im->progress);
			return;
		}
		err = weka_submit_put(im->c->client, &w->req, w->items.put, count, &window);
	}
	if (err) {
		broken(im, "import", err);
		ctl_wave_clear(w);
		return;
	}
	w->nitems = count;
	w->in_flight = true;
	weka_flush(im->c->client);
	im->wave = (im->wave + 1) % CTL_WAVES;
	if (im->waves[im->wave].nitems)
		answered(im, &im->waves[im->wave]);
}

static void finish_waves(struct import *im)
{
	send_wave(im);
	for (uint32_t i = 0; i < CTL_WAVES; i++) {
		struct ctl_wave *w = &im->waves[(im->wave + i) % CTL_WAVES];

		if (w->nitems)
			answered(im, w);
	}
}

/* ---- one entry of the walk ------------------------------------------------------------ */

static void large_attrs(struct import *im, const FTSENT *e, const char *remote, uint32_t there)
{
	struct ctl_attrs attrs;

	ctl_attrs_load(&attrs, e->fts_accpath);
	send_attrs(im, &attrs, e->fts_path, remote, there);
	ctl_attrs_clear(&attrs);
}

static void large_file(struct import *im, const FTSENT *e, const char *remote)
{
	struct weka_create create = create_of(e->fts_statp);
	struct weka_ref ref = weka_ref_path(remote);
	struct weka_attr a;
	uint64_t size = (uint64_t)e->fts_statp->st_size;
	int err = weka_lstat(im->c->client, remote, &a), fd;

	if (!err && a.mode == e->fts_statp->st_mode && a.size_bytes == size &&
	    a.mtime_ns == create.mtime_ns) {
		large_attrs(im, e, remote, a.xattrs);
		im->tally.skipped++;
		im->progress.bytes += size;
		im->progress.files++;
		return;
	}
	fd = open(e->fts_accpath, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0) {
		ctl_tally_error(&im->tally, &im->progress, "%s: %s", e->fts_path, strerror(errno));
		return;
	}
	err = weka_put_fd(im->c->client, &ref, fd, size, &create);
	close(fd);
	if (err) {
		ctl_tally_error(&im->tally, &im->progress, "%s: %s", remote, strerror(-err));
		im->stop = is_fatal(err) ? err : 0;
		return;
	}
	large_attrs(im, e, remote, 0);
	im->tally.files++;
	im->tally.bytes += size;
	im->progress.files++;
	im->progress.bytes += size;
	ctl_progress_step(&im->progress);
}

static void regular_file(struct import *im, const FTSENT *e, char *remote)
{
	const uint64_t key[2] = { e->fts_statp->st_dev, e->fts_statp->st_ino };
	uint64_t size = (uint64_t)e->fts_statp->st_size;
	struct ctl_file *f;

	if (e->fts_statp->st_nlink > 1 && ctl_links_add(&im->links, key, remote)) {
		free(remote);
		return;
	}
	if (size > CTL_SMALL_FILE) {
		large_file(im, e, remote);
		free(remote);
		return;
	}
	if (!ctl_wave_fits(&im->waves[im->wave], size))
		send_wave(im);
	if (im->stop) {
		free(remote);
		return;
	}
	f = ctl_wave_add(&im->waves[im->wave], strdup(e->fts_path), remote, size);
	ASSERT(f->local);
	f->st = *e->fts_statp;
}

/* Owners only where we may; with a key that has a user all stays that user's. */
static int set_attributes(struct import *im, const struct weka_ref *ref, struct weka_setattr set)
{
	int err = weka_setattr(im->c->client, ref, &set);

	if (err != -EPERM)
		return err;
	set.mask &= ~(WEKA_SET_UID | WEKA_SET_GID);
	return weka_setattr(im->c->client, ref, &set);
}

static int make_link(struct import *im, const char *remote, const char *target,
		     const struct stat *st)
{
	struct weka_setattr set = {
		.mask = WEKA_SET_MTIME | WEKA_SET_UID | WEKA_SET_GID,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.mtime_ns = ctl_mtime_ns(st),
	};
	struct weka_ref ref = weka_ref_path(remote);
	int err = weka_symlink(im->c->client, target, remote);

	if (err == -EEXIST) {
		err = weka_unlink(im->c->client, remote);
		if (!err)
			err = weka_symlink(im->c->client, target, remote);
	}
	ref.flags = WEKA_NOFOLLOW;
	return err ? err : set_attributes(im, &ref, set);
}

static void symlink_entry(struct import *im, const FTSENT *e, const char *remote)
{
	char target[WEKA_PATH_MAX + 1], there[WEKA_PATH_MAX + 1];
	ssize_t length = readlink(e->fts_accpath, target, sizeof(target) - 1);
	struct weka_attr a;
	int err;

	if (length < 0) {
		ctl_tally_error(&im->tally, &im->progress, "%s: %s", e->fts_path, strerror(errno));
		return;
	}
	target[length] = 0;
	im->progress.files++;
	if (weka_lstat(im->c->client, remote, &a) == 0 && S_ISLNK(a.mode) &&
	    a.mtime_ns == ctl_mtime_ns(e->fts_statp) &&
	    weka_readlink(im->c->client, remote, there, sizeof(there)) == length &&
	    memcmp(there, target, (size_t)length) == 0) {
		im->tally.skipped++;
		return;
	}
	err = make_link(im, remote, target, e->fts_statp);
	if (err) {
		ctl_tally_error(&im->tally, &im->progress, "%s: %s", remote, strerror(-err));
		im->stop = is_fatal(err) ? err : 0;
		return;
	}
	im->tally.symlinks++;
}

static void directory(struct import *im, const FTSENT *e, char *remote)
{
	int err = *remote ? weka_mkdir(im->c->client, remote, 0755) : -EEXIST;
	struct weka_attr a;

	if (err == -EEXIST && *remote && weka_stat(im->c->client, remote, &a) == 0 &&
	    !S_ISDIR(a.mode))
		err = -ENOTDIR;
	if (err && err != -EEXIST) {
		ctl_tally_error(&im->tally, &im->progress, "%s: %s", remote, strerror(-err));
		im->stop = err; /* nothing below it could be put */
		free(remote);
		return;
	}
	im->tally.dirs++;
	if (im->ndirs == im->dirs_room) {
		im->dirs_room = im->dirs_room ? 2 * im->dirs_room : 64;
		im->dirs = realloc(im->dirs, im->dirs_room * sizeof(*im->dirs));
		ASSERT(im->dirs);
	}
	im->dirs[im->ndirs++] = (struct dir_done){ strdup(e->fts_path), remote, *e->fts_statp };
}

static void entry(struct import *im, const FTSENT *e)
{
	const char *below = e->fts_path + im->source_length;
	char *remote;

	while (*below == '/')
		below++;
	remote = ctl_join(im->target, below);
	switch (e->fts_info) {
	case FTS_D:
		directory(im, e, remote);
		return;
	case FTS_F:
		regular_file(im, e, remote);
		return;
	case FTS_SL:
	case FTS_SLNONE:
		symlink_entry(im, e, remote);
		break;
	case FTS_DNR:
	case FTS_ERR:
	case FTS_NS:
		ctl_tally_error(&im->tally, &im->progress, "%s: %s", e->fts_path,
				strerror(e->fts_errno));
		break;
	case FTS_DEFAULT:
		ctl_tally_error(&im->tally, &im->progress,
				"%s: neither file, directory nor symlink", e->fts_path);
		break;
	default: /* FTS_DP: a directory once more, after what is in it */
		break;
	}
	free(remote);
}

/* The other names of what is there by now.  Another file at one of them gives way. */
static int link_one(struct import *im, const struct ctl_link *l)
{
	struct weka_attr first, a;
	int err = weka_lstat(im->c->client, l->first, &first);

	if (err)
		return err;
	if (weka_lstat(im->c->client, l->name, &a) == 0 && a.ino == first.ino) {
		im->tally.skipped++;
		return 0;
	}
	err = weka_link(im->c->client, l->first, l->name);
	if (err == -EEXIST) {
		err = weka_unlink(im->c->client, l->name);
		if (!err)
			err = weka_link(im->c->client, l->first, l->name);
	}
	im->tally.links += err == 0;
	return err;
}

static void finish_links(struct import *im)
{
	for (size_t i = 0; i < im->links.nlinks && !im->stop; i++) {
		int err = link_one(im, &im->links.link[i]);

		if (err)
			ctl_tally_error(&im->tally, &im->progress, "%s: %s", im->links.link[i].name,
					strerror(-err));
		im->stop = is_fatal(err) ? err : 0;
		im->progress.files++;
	}
	ctl_links_destroy(&im->links);
}

/* ---- the whole ---------------------------------------------------------------------- */

static FTS *open_walk(const char *source)
{
	char *const paths[] = { (char *)(uintptr_t)source, NULL };

	return fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
}

/* Count first, so that the bar knows its end. */
static void count_all(struct import *im)
{
	FTS *walk = open_walk(im->source);
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

/* As it should be already?  Then an import that is run again changes nothing. */
static bool dir_is_done(const struct weka_attr *a, const struct weka_setattr *set)
{
	return (a->mode & 07777) == set->mode && a->uid == set->uid && a->gid == set->gid &&
	       a->mtime_ns == set->mtime_ns;
}

static int finish_dir(struct import *im, const struct dir_done *d, const struct weka_setattr *set)
{
	struct weka_ref ref = weka_ref_path(*d->remote ? d->remote : "/");
	struct ctl_attrs attrs;
	struct weka_attr there;
	int err = weka_stat(im->c->client, ref.name, &there);

	if (err)
		return err;
	ctl_attrs_load(&attrs, d->local);
	send_attrs(im, &attrs, d->local, ref.name, there.xattrs);
	ctl_attrs_clear(&attrs);
	return dir_is_done(&there, set) ? 0 : set_attributes(im, &ref, *set);
}

/* Deepest first, so that setting one does not change the time of another. */
static void finish_dirs(struct import *im)
{
	while (im->ndirs > 0) {
		struct dir_done *d = &im->dirs[--im->ndirs];
		struct weka_setattr set = {
			.mask = WEKA_SET_MODE | WEKA_SET_UID | WEKA_SET_GID | WEKA_SET_MTIME,
			.mode = d->st.st_mode & 07777,
			.uid = d->st.st_uid,
			.gid = d->st.st_gid,
			.mtime_ns = ctl_mtime_ns(&d->st),
		};
		int err = im->stop ? 0 : finish_dir(im, d, &set);

		if (err)
			ctl_tally_error(&im->tally, &im->progress, "%s: %s", d->remote,
					strerror(-err));
		free(d->local);
		free(d->remote);
	}
	free(im->dirs);
}

int ctl_cmd_import(struct ctl *c)
{
	struct import im = { .c = c, .source = c->argv[0], .target = c->argv[1] };
	struct stat st;
	FTSENT *e;
	FTS *walk;

	if (stat(im.source, &st) != 0)
		return ctl_fail("%s: %s", im.source, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return ctl_fail("%s: not a directory (wekactl put takes one file)", im.source);
	im.source_length = strlen(im.source);
	ctl_progress_begin(&im.progress, "import", !c->quiet && !c->json);
	count_all(&im);
	walk = open_walk(im.source);
	if (!walk || ctl_crew_create(&im.crew, c->threads - 1) || ctl_waves_create(c, &im.waves))
		return ctl_fail("import: no memory");
	while (!im.stop && (e = fts_read(walk)))
		entry(&im, e);
	finish_waves(&im);
	finish_links(&im);
	finish_dirs(&im);
	fts_close(walk);
	im.tally.seconds = ctl_progress_end(&im.progress);
	ctl_waves_destroy(c, im.waves);
	ctl_crew_destroy(im.crew);
	return ctl_tally_print(c, "import", &im.tally);
}
