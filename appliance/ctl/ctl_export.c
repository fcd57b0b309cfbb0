/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl export: copies a tree of the appliance into a local directory.
 *
 *   list --> wave --crew checks the target--> read batch --> crew writes .wk-part-N, renames
 *             |-- targets of symlinks, 32 at once               |-- makes symlinks likewise
 *
 *  (1) A local file gets its name only when it is complete, with its attributes, mode and
 *      time; so an interrupted export can be run again, and a file of equal size, mode and mtime
 *      is skipped [e2e_import:interrupted].
 *  (2) Nothing outside of the target is written, and no symlink in it is followed
 *      (ctl_export_file.c).  A symlink or file in the way of a directory, and an empty directory in
 *      the way of anything else, is removed; a directory that is not empty stays, and is named
 *      [e2e_import:hostile, e2e_import:tree_pairs].
 *  (3) Names come from a peer: a name that is not plain (a slash, ".", "..") is refused
 *      [test_ctl_export:names_that_lead_out_of_the_target_are_refused].
 *  (4) A file or symlink with several names is read once, and linked to the others when all waves
 *      are done [e2e_tree:one_file, e2e_import:symlink].
 */
#define _GNU_SOURCE
#include "appliance/ctl/ctl_export.h"
#include "base/num.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_full_here(int err)
{
	return err == ENOSPC || err == EDQUOT || err == EROFS;
}

/* Names a local entry and its error.  An error that every later entry would have, too, ends the
 * export. */
static void error_here(struct export_run *ex, const struct ctl_dir *d, const char *name, int err)
{
	char *path = ctl_dir_path(ex->dirs.top, d, name);

	if (err == EXPORT_IN_USE)
		ctl_tally_error(
			&ex->tally, &ex->progress,
			"%s: not exported: a directory that is not empty is in the way; remove it",
			path);
	else if (!ex->stop)
		ctl_tally_error(
			&ex->tally, &ex->progress, "%s: %s%s", path, strerror(err),
			is_full_here(err)
				? "; the rest was not tried: run the export again when there is "
				  "room, and it resumes"
				: "");
	else
		ex->tally.errors++;
	if (is_full_here(err))
		ex->stop = -err;
	free(path);
}

static void error_there(struct export_run *ex, const struct ctl_dir *d, const char *name, int err)
{
	const char *why = err == -ENOTCONN ? weka_error(ex->c->client) : "";
	char *path = ctl_dir_path(ex->source, d, name);

	if (err == -ESTALE || err == -EMSGSIZE)
		why = "removed or changed while it was exported; run the export again";
	if (!ex->stop)
		ctl_tally_error(
			&ex->tally, &ex->progress, "%s: %s%s", path, *why ? why : strerror(-err),
			ctl_is_fatal(err)
				? "; the rest was not tried: run the export again, and it resumes"
				: "");
	else
		ex->tally.errors++;
	if (ctl_is_fatal(err))
		ex->stop = err;
	free(path);
}

/* Most have no attributes, and cost nothing. */
static int fetch_attrs(struct export_run *ex, struct ctl_attrs *attrs,
		       const struct weka_handle *handle, uint32_t count)
{
	const struct weka_ref ref = weka_ref_handle(handle);

	return count ? ctl_attrs_fetch(attrs, ex->c, &ref) : 0;
}

static void tell_rest(struct export_run *ex, const struct ctl_dir *d, const char *name,
		      const struct ctl_attrs *attrs, bool time_changed)
{
	char *path;

	if (!attrs->count && !attrs->left && !time_changed)
		return;
	path = ctl_dir_path(ex->dirs.top, d, name);
	ctl_attrs_tell(attrs, &ex->tally, &ex->progress, path, true);
	ex->tally.times_changed += time_changed;
	if (time_changed)
		ctl_tally_error(&ex->tally, &ex->progress,
				"%s: its time is beyond what this file system can store, and was "
				"changed to the nearest",
				path);
	free(path);
}

/* ---- a wave ----------------------------------------------------------------------------- */

static void count_one(struct export_run *ex, struct ctl_file *f, uint64_t got_bytes)
{
	if (f->first)
		f->first->is_there = true;
	if (!f->wanted) {
		ex->tally.skipped++;
		return;
	}
	tell_rest(ex, f->dir, f->name, &f->attrs, f->changed);
	ex->progress.files++;
	if (f->kind == CTL_SYMLINK) {
		ex->tally.symlinks++;
		return;
	}
	ex->tally.files++;
	ex->tally.bytes += got_bytes;
	ex->progress.bytes += got_bytes;
	if (got_bytes != f->attr.size_bytes)
		error_there(ex, f->dir, f->name, -ESTALE);
}

static void look_at(struct export_run *ex, struct ctl_wave *w, uint32_t i)
{
	const uint32_t item = w->item[i];
	const int status = item == UINT32_MAX ? 0 : w->items.read[item].status;
	struct ctl_file *f = &w->file[i];

	if (f->kind == CTL_LARGE)
		return;
	if (status)
		error_there(ex, f->dir, f->name, status);
	else if (f->err)
		error_here(ex, f->dir, f->name, f->err);
	else if (f->done)
		count_one(ex, f, item == UINT32_MAX ? 0 : w->items.read[item].got_bytes);
}

/* A batch that fails as a whole fails for each of its files; symlinks of the wave need no batch. */
static void answered(struct export_run *ex, struct ctl_wave *w)
{
	int err = ctl_wave_wait(ex->c, w);

	for (uint32_t i = 0; i < w->nitems; i++) {
		struct ctl_file *f = &w->file[w->index[i]];
		struct weka_read_item *item = &w->items.read[i];

		if (err)
			item->status = err;
		else if (item->status == 0) /* a file is not stored without its attributes */
			item->status = fetch_attrs(ex, &f->attrs, &f->attr.handle, f->attr.xattrs);
	}
	ctl_crew_run(ex->crew, w->count, export_store, w);
	for (uint32_t i = 0; i < w->count; i++)
		look_at(ex, w, i);
	ctl_wave_clear(w);
	ctl_progress_step(&ex->progress);
}

static void large_file(struct export_run *ex, struct ctl_file *f)
{
	const struct weka_ref ref = weka_ref_handle(&f->attr.handle);
	int64_t got = 0;
	int fd, err;

	if (!f->wanted) {
		count_one(ex, f, 0);
		return;
	}
	fd = export_part_open(f);
	if (fd < 0) {
		error_here(ex, f->dir, f->name, -fd);
		return;
	}
	got = weka_get_fd(ex->c->client, &ref, fd);
	err = got < 0 ? (int)got : fetch_attrs(ex, &f->attrs, &f->attr.handle, f->attr.xattrs);
	if (err) {
		(void)export_part_close(f, fd, err);
		if (is_full_here(-err))
			error_here(ex, f->dir, f->name, -err);
		else
			error_there(ex, f->dir, f->name, err);
		return;
	}
	err = export_part_close(f, fd, 0);
	if (err)
		error_here(ex, f->dir, f->name, -err);
	else
		count_one(ex, f, (uint64_t)got);
	ctl_progress_step(&ex->progress);
}

struct wave_run {
	struct export_run *ex;
	struct ctl_wave *w;
};

static int text_ask(void *arg, uint32_t i, struct weka_req *req)
{
	const struct wave_run *r = arg;
	const struct weka_ref ref = weka_ref_handle(&r->w->file[i].attr.handle);
	const struct weka_window window = { r->ex->texts, (uint64_t)i * CTL_TEXT_BYTES,
					    CTL_TEXT_BYTES };

	if (r->ex->stop || r->w->file[i].kind != CTL_SYMLINK)
		return 1;
	return weka_submit_readlink(r->ex->c->client, req, &ref, &window);
}

static void text_came(void *arg, uint32_t i, const struct weka_req *req, int status)
{
	const struct wave_run *r = arg;
	struct ctl_file *f = &r->w->file[i];

	if (!status) {
		f->text = ctl_need(strndup(req->data, req->length_bytes));
	} else {
		error_there(r->ex, f->dir, f->name, status);
	}
}

static uint32_t make_items(struct ctl_wave *w)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < w->count; i++) {
		struct ctl_file *f = &w->file[i];

		w->item[i] = UINT32_MAX;
		if (f->kind == CTL_SYMLINK && !f->text)
			f->kind = CTL_LARGE; /* its error was reported: nothing to do */
		if (f->kind != CTL_SMALL || !f->wanted)
			continue;
		w->items.read[count] = (struct weka_read_item){
			.ref = weka_ref_handle(&f->attr.handle),
			.length_bytes = WEKA_TO_END,
		};
		w->item[i] = count;
		w->index[count++] = i;
	}
	return count;
}

static void read_items(struct export_run *ex, struct ctl_wave *w)
{
	const struct weka_window window = ctl_wave_window(w);
	int err;

	w->nitems = make_items(w);
	w->sent = true;
	w->r.req.status = 0;
	if (w->nitems == 0)
		return;
	w->r.req.user = &w->r;
	err = weka_submit_read_batch(ex->c->client, &w->r.req, w->items.read, w->nitems, &window);
	w->r.in_flight = err == 0;
	if (err)
		w->r.req.status = err;
	weka_flush(ex->c->client);
}

static void send_wave(struct export_run *ex)
{
	struct ctl_wave *w = &ex->waves[ex->wave];
	struct wave_run r = { ex, w };
	const struct ctl_burst texts = { text_ask, text_came, &r };

	if (w->count == 0)
		return;
	if (ex->stop) {
		ctl_wave_clear(w);
		return;
	}
	ctl_crew_run(ex->crew, w->count, export_look, w);
	for (uint32_t i = 0; i < w->count && !ex->stop; i++)
		if (w->file[i].kind == CTL_LARGE)
			large_file(ex, &w->file[i]);
	ctl_burst_run(ex->c, &texts, w->count);
	read_items(ex, w);
	ex->wave = (ex->wave + 1) % CTL_WAVES;
	if (ex->waves[ex->wave].sent)
		answered(ex, &ex->waves[ex->wave]);
}

static void finish_waves(struct export_run *ex)
{
	send_wave(ex);
	for (uint32_t i = 0; i < CTL_WAVES; i++) {
		struct ctl_wave *w = &ex->waves[(ex->wave + i) % CTL_WAVES];

		if (w->sent)
			answered(ex, w);
	}
}

/* ---- one entry of a listing ---------------------------------------------------------------- */

static void add(struct export_run *ex, struct ctl_dir *d, const char *name,
		const struct weka_attr *a, enum ctl_kind kind)
{
	const uint64_t size = kind == CTL_SMALL ? a->size_bytes : 0;
	struct ctl_first *first = NULL;
	struct ctl_file *f;
	uint64_t key[2];

	static_assert(sizeof(key) == sizeof(a->handle), "a handle tells files apart");
	memcpy(key, &a->handle, sizeof(key));
	if (a->nlink > 1) {
		first = ctl_links_add(&ex->links, key, d, name);
		if (!first)
			return;
	}
	ex->progress.files_total++;
	ex->progress.bytes_total += kind == CTL_SYMLINK ? 0 : a->size_bytes;
	if (!ctl_wave_fits(&ex->waves[ex->wave], &ex->dirs, d, size))
		send_wave(ex);
	f = ctl_wave_add(&ex->waves[ex->wave], d, name, size);
	f->kind = kind;
	f->attr = *a;
	f->first = first;
}

static void push_dir(struct export_run *ex, struct ctl_dir *parent, const char *name,
		     const struct weka_attr *a)
{
	struct ctl_dir *d = ctl_dir_add(&ex->dirs, parent, name);
	int err = export_dir_make(&ex->dirs, d);

	if (err) {
		error_here(ex, parent, name, -err);
		return;
	}
	d->handle = a->handle;
	d->number = a->dir;
	d->xattrs = a->xattrs;
	d->mode = a->mode;
	d->uid = a->uid;
	d->gid = a->gid;
	d->mtime_ns = a->mtime_ns;
	ex->tally.dirs++;
}

static void entry(struct export_run *ex, struct ctl_dir *d, const struct weka_entry *e)
{
	const struct weka_attr *a = &e->attr;
	char *path;

	if (strcmp(e->name, ".") == 0 || strcmp(e->name, "..") == 0 || !*e->name ||
	    strchr(e->name, '/') || strlen(e->name) != e->name_bytes) {
		path = ctl_dir_path(ex->source, d, "");
		ctl_tally_error(&ex->tally, &ex->progress,
				"%s: the appliance lists an invalid name", path);
		free(path);
	} else if (S_ISDIR(a->mode)) {
		push_dir(ex, d, e->name, a);
	} else if (S_ISREG(a->mode)) {
		add(ex, d, e->name, a, a->size_bytes > CTL_SMALL_FILE ? CTL_LARGE : CTL_SMALL);
	} else if (S_ISLNK(a->mode)) {
		add(ex, d, e->name, a, CTL_SYMLINK);
	} else {
		error_there(ex, d, e->name, -EINVAL);
	}
}

/* ---- the whole ------------------------------------------------------------------------- */

static void list_dir(struct export_run *ex, struct ctl_dir *d)
{
	const struct weka_ref ref = weka_ref_handle(&d->handle);
	int fd = ctl_dir_open(&ex->dirs, d), got;
	struct weka_dir *listing = NULL;
	struct weka_entry e;

	if (fd < 0) {
		error_here(ex, d, "", -fd);
		d->number = 0;
		return;
	}
	ctl_dir_pin(d);
	got = weka_list(ex->c->client, &ref, &listing);
	while (!got && !ex->stop && (got = weka_list_next(listing, &e)) == 1) {
		entry(ex, d, &e);
		got = 0;
	}
	weka_list_end(listing);
	if (got < 0)
		error_there(ex, d, "", got);
	ctl_dir_unpin(d);
}

/* Everything in it is there: now its own mode and time can stay. */
static void finish_dir(struct export_run *ex, struct ctl_dir *d)
{
	struct ctl_attrs attrs = { 0 };
	bool changed = false;
	int fd, err;

	if (d->number == 0)
		return;
	err = ex->stop ? 0 : fetch_attrs(ex, &attrs, &d->handle, d->xattrs);
	if (err)
		error_there(ex, d, "", err);
	fd = ctl_dir_open(&ex->dirs, d);
	err = fd < 0 ? fd : export_dir_finish(d, &attrs, &changed);
	if (err)
		error_here(ex, d, "", -err);
	tell_rest(ex, d, "", &attrs, changed);
	ctl_attrs_clear(&attrs);
}

static int link_one(struct export_run *ex, const struct ctl_link *l)
{
	int fd = ctl_dir_open(&ex->dirs, l->dir), first_fd, err;

	if (fd < 0)
		return fd;
	ctl_dir_pin(l->dir);
	first_fd = ctl_dir_open(&ex->dirs, l->first->dir);
	err = first_fd < 0 ? first_fd : export_link(first_fd, l->first->name, fd, l->name);
	ctl_dir_unpin(l->dir);
	return err;
}

static void finish_links(struct export_run *ex)
{
	for (size_t i = 0; i < ex->links.nlinks && !ex->stop; i++) {
		const struct ctl_link *l = &ex->links.link[i];
		int err;

		if (!l->first->is_there) {
			char *path = ctl_dir_path(ex->dirs.top, l->dir, l->name);

			ctl_tally_error(
				&ex->tally, &ex->progress,
				"%s: not exported: another name of a file that was not exported",
				path);
			free(path);
			continue;
		}
		err = link_one(ex, l);
		if (err < 0)
			error_here(ex, l->dir, l->name, -err);
		ex->tally.links += err == 0;
		ex->tally.skipped += err == 1;
	}
}

/* Each directory that is found is listed in its turn; modes and times come when all waves are done,
 * the deepest first. */
static void walk(struct export_run *ex)
{
	for (size_t i = 0; i < ex->dirs.count && !ex->stop; i++)
		if (ex->dirs.dir[i]->number)
			list_dir(ex, ex->dirs.dir[i]);
	finish_waves(ex);
	finish_links(ex);
	for (size_t i = ex->dirs.count; i > 0; i--)
		finish_dir(ex, ex->dirs.dir[i - 1]);
}

/* The directory that the user named, which may be a symlink to one. */
static int begin(struct export_run *ex, const struct weka_attr *a)
{
	const char *local = ex->c->argv[1];
	struct ctl_dir *top;
	int err = mkdir(local, 0700) == 0 || errno == EEXIST ? 0 : -errno;

	if (!err)
		err = ctl_dirs_begin(&ex->dirs, local);
	if (err)
		return ctl_fail("%s: %s", local, strerror(-err));
	top = ex->dirs.dir[0];
	(void)fchmod(top->fd, 0700);
	top->handle = a->handle;
	top->number = a->dir;
	top->xattrs = a->xattrs;
	top->mode = a->mode;
	top->uid = a->uid;
	top->gid = a->gid;
	top->mtime_ns = a->mtime_ns;
	ex->tally.dirs++;
	if (ctl_crew_create(&ex->crew, ex->c->threads - 1) || ctl_waves_create(ex->c, &ex->waves) ||
	    weka_lease(ex->c->client, (uint64_t)CTL_WAVE_FILES * CTL_TEXT_BYTES, &ex->texts))
		return ctl_fail("export: no memory");
	return 0;
}

int ctl_cmd_export(struct ctl *c)
{
	struct export_run ex = { .c = c, .source = c->argv[0] };
	struct weka_attr attr;
	int err = weka_stat(c->client, c->argv[0], &attr), status;

	if (err)
		return ctl_fail("%s: %s", c->argv[0], strerror(-err));
	if (!S_ISDIR(attr.mode))
		return ctl_fail("%s: not a directory (wekactl cat takes one file)", c->argv[0]);
	status = begin(&ex, &attr);
	if (!status) {
		ctl_progress_begin(&ex.progress, "export", !c->quiet && !c->json);
		walk(&ex);
		ex.tally.seconds = ctl_progress_end(&ex.progress);
		status = ctl_tally_print(c, "export", &ex.tally);
	}
	ctl_waves_destroy(c, ex.waves);
	weka_release(c->client, ex.texts);
	ctl_crew_destroy(ex.crew);
	ctl_links_destroy(&ex.links);
	ctl_dirs_end(&ex.dirs);
	return status;
}
