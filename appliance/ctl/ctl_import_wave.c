/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl import: one wave of entries.
 *
 *    stat all --> type conflicts? --> read local files --> put them -------------> answers, later
 *     |                                                         | and meanwhile:
 *     |--> targets of symlinks that look the same               |--> make directories
 *     |--> --verify: content of files that look the same        |--> make symlinks, rename them
 *                                                               |--> large files, one by one
 *
 * An existing entry of another type is removed: a file or a symlink always, a directory if it is
 * empty, or with --force.  Otherwise the entry is refused, by name.
 */
#include "appliance/ctl/ctl_import.h"
#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The argument of a burst's functions. */
struct wave_run {
	struct import *im;
	struct ctl_wave *w;
};

static void refuse(struct import *im, struct ctl_file *f, int err)
{
	f->wanted = false;
	f->err = -err;
	import_error_there(im, f->dir, f->name, err);
}

static bool is_to_do(const struct ctl_file *f, enum ctl_kind kind)
{
	return f->kind == kind && f->wanted && !f->err;
}

/* ---- answers -------------------------------------------------------------------------- */

static void answered(struct import *im, struct ctl_wave *w)
{
	int err = ctl_wave_wait(im->c, w);

	for (uint32_t i = 0; i < w->nitems; i++) {
		struct ctl_file *f = &w->file[w->index[i]];
		int status = err ? err : w->items.put[i].status;

		if (status)
			import_error_there(im, f->dir, f->name, status);
		else
			import_stored(im, f, &w->items.put[i].handle);
	}
	if (err && !im->stop)
		im->stop = err;
	ctl_wave_clear(w);
	ctl_progress_step(&im->progress);
}

/* ---- existing entries --------------------------------------------------------------------- */

static int stat_all(struct import *im, struct ctl_wave *w)
{
	struct weka_window window = ctl_wave_window(w);
	int err;

	for (uint32_t i = 0; i < w->count; i++)
		w->items.stat[i] = (struct weka_stat_item){ .ref = import_ref(w->file[i].dir,
									      w->file[i].name) };
	err = weka_submit_stat(im->c->client, &w->r.req, w->items.stat, w->count, &window);
	err = ctl_req_run(im->c, &w->r, err);
	for (uint32_t i = 0; !err && i < w->count; i++) {
		struct ctl_file *f = &w->file[i];

		f->there = w->items.stat[i].status;
		f->attr = w->items.stat[i].attr;
		if (f->there && f->there != -ENOENT && f->there != -EIO) /* damaged: put it again */
			refuse(im, f, f->there);
	}
	return err;
}

static bool looks_same(const struct ctl_file *f)
{
	if (f->there || (f->attr.mode & S_IFMT) != (f->st.st_mode & S_IFMT))
		return false;
	if (f->kind == CTL_DIR)
		return true;
	return f->attr.mtime_ns == ctl_mtime_ns(&f->st) && f->attr.size_bytes == f->size_bytes &&
	       (f->kind == CTL_SYMLINK || f->attr.mode == f->st.st_mode);
}

static int text_ask(void *arg, uint32_t i, struct weka_req *req)
{
	const struct wave_run *r = arg;
	const struct ctl_file *f = &r->w->file[i];
	const struct weka_window window = ctl_wave_text(r->w, i);
	const struct weka_ref ref = weka_ref_handle(&f->attr.handle);

	if (f->kind != CTL_SYMLINK || f->wanted || f->err)
		return 1;
	return weka_submit_readlink(r->im->c->client, req, &ref, &window);
}

/* A target that differs, or that cannot be read any more, is made again. */
static void text_came(void *arg, uint32_t i, const struct weka_req *req, int status)
{
	struct ctl_file *f = &((const struct wave_run *)arg)->w->file[i];
	const size_t bytes = strlen(f->text);

	f->wanted = status || req->length_bytes != bytes || memcmp(req->data, f->text, bytes) != 0;
}

/* --verify: reads the appliance's content of files that look the same. */
static int see_content(struct import *im, struct ctl_wave *w)
{
	const struct weka_window window = { im->seen, 0, CTL_WAVE_WINDOW };
	uint32_t count = 0, index[CTL_WAVE_FILES];
	static struct weka_read_item items[CTL_WAVE_FILES];
	int err;

	for (uint32_t i = 0; i < w->count; i++) {
		struct ctl_file *f = &w->file[i];

		if (f->kind != CTL_SMALL || f->wanted || f->err)
			continue;
		items[count] = (struct weka_read_item){
			.ref = weka_ref_handle(&f->attr.handle),
			.length_bytes = WEKA_TO_END,
		};
		index[count++] = i;
	}
	if (count == 0)
		return 0;
	err = weka_submit_read_batch(im->c->client, &w->r.req, items, count, &window);
	err = ctl_req_run(im->c, &w->r, err);
	for (uint32_t i = 0; i < count && !err; i++) {
		const int status = items[i].status;

		im->seen_item[index[i]] = items[i];
		if (status && status != -EIO && status != -ESTALE && status != -EMSGSIZE)
			refuse(im, &w->file[index[i]], status);
	}
	return err;
}

static int compare(struct import *im, struct ctl_wave *w)
{
	struct wave_run r = { im, w };
	const struct ctl_burst texts = { text_ask, text_came, &r };
	int err = stat_all(im, w);

	if (err)
		return err;
	for (uint32_t i = 0; i < w->count; i++)
		w->file[i].wanted = !w->file[i].err && !looks_same(&w->file[i]);
	ctl_burst_run(im->c, &texts, w->count);
	return im->c->verify ? see_content(im, w) : 0;
}

/* ---- entries in the way ---------------------------------------------------------------------- */

static int clear_way(struct import *im, const struct ctl_file *f)
{
	const struct weka_ref ref = import_ref(f->dir, f->name);
	struct weka_client *client = im->c->client;
	struct ctl_req r = { 0 };
	int err;

	if (!S_ISDIR(f->attr.mode))
		return ctl_req_run(im->c, &r, weka_submit_unlink(client, &r.req, &ref));
	err = ctl_req_run(im->c, &r, weka_submit_rmdir(client, &r.req, &ref));
	if (err == -ENOTEMPTY && im->c->force)
		err = ctl_req_run(im->c, &r, weka_submit_rmtree(client, &r.req, &ref));
	return err;
}

/* Returns true if a file can be read that is to replace a directory.  Otherwise names it. */
static bool may_replace(struct import *im, struct ctl_file *f)
{
	const bool is_file = f->kind == CTL_SMALL || f->kind == CTL_LARGE;
	const int err = is_file ? import_try_open(f) : 0;

	if (!err)
		return true;
	f->wanted = false;
	f->err = err;
	import_error_here(im, f->dir, f->name,
			  err == ESTALE ? "changed while it was read" : strerror(err));
	return false;
}

/* A file or a symlink replaces one of the other by itself, at one moment. */
static void clear_ways(struct import *im, struct ctl_wave *w)
{
	for (uint32_t i = 0; i < w->count && !im->stop; i++) {
		struct ctl_file *f = &w->file[i];
		int err;

		if (!f->wanted || f->there || S_ISDIR(f->attr.mode) == (f->kind == CTL_DIR))
			continue;
		if (!may_replace(im, f))
			continue;
		err = clear_way(im, f);
		if (err == -ENOTEMPTY) {
			f->wanted = false;
			f->err = ENOTEMPTY;
			import_error_here(
				im, f->dir, f->name,
				"not imported: a directory that is not empty is in the way; "
				"remove it, or use --force");
		} else if (err) {
			refuse(im, f, err);
		} else {
			f->there = -ENOENT;
		}
	}
}

/* ---- directories and symlinks --------------------------------------------------------------- */

static int dir_ask(const struct import *im, struct ctl_file *f, struct weka_req *req)
{
	const struct weka_ref ref = import_ref(f->dir, f->name);
	struct weka_create create = import_create(&f->st);

	create.mode = (create.mode & 0777) | 0700; /* until it is filled */
	return weka_submit_mkdir(im->c->client, req, &ref, &create, &f->attr);
}

/* The appliance has the directory, made now or before: it must be read. */
static void dir_next(struct import *im, const struct ctl_file *f)
{
	struct ctl_dir *d = ctl_dir_add(&im->dirs, f->dir, f->name);

	d->handle = f->attr.handle;
	d->number = f->attr.dir;
	d->xattrs = f->attr.xattrs;
	d->mode = f->st.st_mode & 07777;
	d->uid = f->st.st_uid;
	d->gid = f->st.st_gid;
	d->mtime_ns = ctl_mtime_ns(&f->st);
	im->tally.dirs++;
	import_unread(im, d);
}

/* A symlink that replaces something is made under a name of its own, and then renamed. */
static int symlink_ask(const struct import *im, struct ctl_file *f, struct weka_req *req)
{
	struct weka_create create = import_create(&f->st);
	struct weka_ref ref;

	f->renames = f->there == 0;
	if (f->renames)
		ctl_part_name(f->part);
	ref = import_ref(f->dir, f->renames ? f->part : f->name);
	create.mode = 0777;
	return weka_submit_symlink(im->c->client, req, &ref, f->text, &create, &f->attr);
}

static void symlink_count(struct import *im, struct ctl_file *f)
{
	f->done = true;
	im->tally.symlinks++;
	im->progress.files++;
	if (f->first)
		f->first->is_there = true;
}

static int make_ask(void *arg, uint32_t i, struct weka_req *req)
{
	const struct wave_run *r = arg;
	struct ctl_file *f = &r->w->file[i];

	if (r->im->stop)
		return 1;
	if (is_to_do(f, CTL_DIR))
		return dir_ask(r->im, f, req);
	return is_to_do(f, CTL_SYMLINK) ? symlink_ask(r->im, f, req) : 1;
}

static void made(void *arg, uint32_t i, const struct weka_req *req, int status)
{
	const struct wave_run *r = arg;
	struct ctl_file *f = &r->w->file[i];

	(void)req;
	if (status)
		refuse(r->im, f, status);
	else if (f->kind == CTL_DIR)
		f->there = 0;
	else if (!f->renames)
		symlink_count(r->im, f);
}

static int rename_ask(void *arg, uint32_t i, struct weka_req *req)
{
	const struct wave_run *r = arg;
	const struct ctl_file *f = &r->w->file[i];
	const struct weka_ref from = import_ref(f->dir, f->part), to = import_ref(f->dir, f->name);

	if (!is_to_do(f, CTL_SYMLINK) || !f->renames)
		return 1;
	return weka_submit_rename(r->im->c->client, req, &from, &to, 0);
}

static void renamed(void *arg, uint32_t i, const struct weka_req *req, int status)
{
	const struct wave_run *r = arg;
	struct ctl_file *f = &r->w->file[i];
	const struct weka_ref ref = import_ref(f->dir, f->part);
	struct ctl_req rm = { 0 };

	(void)req;
	if (!status) {
		symlink_count(r->im, f);
		return;
	}
	refuse(r->im, f, status);
	(void)!ctl_req_run(r->im->c, &rm, weka_submit_unlink(r->im->c->client, &rm.req, &ref));
}

static void dirs_and_symlinks(struct import *im, struct ctl_wave *w)
{
	struct wave_run r = { im, w };
	const struct ctl_burst makes = { make_ask, made, &r };
	const struct ctl_burst renames = { rename_ask, renamed, &r };

	ctl_burst_run(im->c, &makes, w->count);
	ctl_burst_run(im->c, &renames, w->count);
}

/* ---- the wave -------------------------------------------------------------------------------- */

/* Counts the entries of a wave that the appliance was not asked for. */
static void not_tried(struct import *im, const struct ctl_wave *w)
{
	for (uint32_t i = 0; i < w->count; i++) {
		const struct ctl_file *f = &w->file[i];

		if (!f->err)
			import_not_tried(im, f->dir, f->name, f->kind == CTL_DIR);
	}
}

static uint32_t make_items(struct import *im, struct ctl_wave *w)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < w->count; i++) {
		struct ctl_file *f = &w->file[i];

		if (f->kind != CTL_SMALL || (!f->wanted && !f->err))
			continue;
		if (f->err) {
			if (f->wanted)
				import_error_here(im, f->dir, f->name,
						  f->err == ESTALE ? "changed while it was read"
								   : strerror(f->err));
			continue;
		}
		w->items.put[count] = (struct weka_put_item){
			.ref = import_ref(f->dir, f->name),
			.create = import_create(&f->st),
			.window_at = f->window_at,
			.size_bytes = (uint32_t)f->size_bytes,
		};
		w->index[count++] = i;
	}
	return count;
}

static void put(struct import *im, struct ctl_wave *w)
{
	const struct weka_window window = ctl_wave_window(w);
	const uint32_t count = make_items(im, w);
	int err;

	if (count == 0)
		return;
	w->r.req.user = &w->r;
	err = weka_submit_put(im->c->client, &w->r.req, w->items.put, count, &window);
	w->nitems = count;
	w->sent = true;
	w->r.in_flight = err == 0;
	if (err)
		w->r.req.status = err;
	weka_flush(im->c->client);
}

/* All but the files that were put. */
static void others(struct import *im, struct ctl_wave *w)
{
	dirs_and_symlinks(im, w);
	for (uint32_t i = 0; i < w->count; i++) {
		struct ctl_file *f = &w->file[i];

		if (f->err || (f->kind == CTL_SMALL && f->wanted) || f->done)
			continue;
		if (f->kind == CTL_DIR && !f->there)
			dir_next(im, f);
		else if (im->stop)
			import_not_tried(im, f->dir, f->name, f->kind == CTL_DIR);
		else if (f->kind == CTL_LARGE)
			import_large(im, f);
		else
			import_skipped(im, f);
	}
}

void import_send_wave(struct import *im)
{
	struct ctl_wave *w = &im->waves[im->wave];
	struct import_load load = { im, w };
	int err = 0;

	if (w->count == 0)
		return;
	if (!im->stop)
		err = compare(im, w);
	if (err)
		import_error_there(im, w->file[0].dir, w->file[0].name, err);
	if (err && !im->stop)
		im->stop = err;
	if (!im->stop)
		clear_ways(im, w);
	if (im->stop) {
		not_tried(im, w);
		ctl_wave_clear(w);
		return;
	}
	ctl_crew_run(im->crew, w->count, import_load, &load);
	put(im, w);
	others(im, w);
	if (!w->sent) {
		ctl_wave_clear(w);
		ctl_progress_step(&im->progress);
		return;
	}
	im->wave = (im->wave + 1) % CTL_WAVES;
	if (im->waves[im->wave].sent)
		answered(im, &im->waves[im->wave]);
}

void import_finish_waves(struct import *im)
{
	import_send_wave(im);
	for (uint32_t i = 0; i < CTL_WAVES; i++) {
		struct ctl_wave *w = &im->waves[(im->wave + i) % CTL_WAVES];

		if (w->sent)
			answered(im, w);
	}
}
