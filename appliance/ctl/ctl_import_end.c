/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The end of wekactl import, after all waves: links and directories, many at once.
 *
 *    more names of files --stat both--> not the same file: link --> it exists: link, rename
 *    directories, the deepest first --stat--> mode, owner or time differ: set them
 */
#include "appliance/ctl/ctl_import.h"
#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 128u

struct batch {
	struct import *im;
	struct weka_lease *lease;
	uint32_t count;
	const struct ctl_link *link; /* of links: the first one of the batch */
	struct ctl_dir **dir;        /* directories after the first one */
	struct weka_stat_item item[2 * BATCH];
	bool wanted[BATCH];
};

static int stat_batch(struct batch *b, uint32_t count)
{
	const struct weka_window window = { b->lease, 0, b->lease->size_bytes };
	struct weka_client *client = b->im->c->client;
	struct ctl_req r = { 0 };

	return ctl_req_run(b->im->c, &r, weka_submit_stat(client, &r.req, b->item, count, &window));
}

static struct batch *batch_begin(struct import *im)
{
	struct batch *b = ctl_need(calloc(1, sizeof(*b)));

	b->im = im;
	if (weka_lease(im->c->client, align_up(sizeof(b->item), WEKA_BLOCK), &b->lease)) {
		ctl_tally_error(&im->tally, &im->progress,
				"import: out of memory for links and directories");
		free(b);
		return NULL;
	}
	return b;
}

static void batch_end(struct batch *b)
{
	weka_release(b->im->c->client, b->lease);
	free(b);
}

/* ---- links ------------------------------------------------------------------------------ */

static void link_error(struct import *im, const struct ctl_link *l, int err)
{
	import_error_there(im, l->dir, l->name, err);
}

static int link_ask(void *arg, uint32_t i, struct weka_req *req)
{
	const struct batch *b = arg;
	const struct ctl_link *l = &b->link[i];
	const struct weka_ref from = import_ref(l->first->dir, l->first->name);
	const struct weka_ref to = import_ref(l->dir, l->name);

	if (!b->wanted[i])
		return 1;
	if (b->im->stop) {
		b->im->tally.not_tried++;
		return 1;
	}
	return weka_submit_link(b->im->c->client, req, &from, &to);
}

/* Something has the name: the link gets another one first, and then takes its place. */
static int replace(struct import *im, const struct ctl_link *l)
{
	const struct weka_ref from = import_ref(l->first->dir, l->first->name);
	const struct weka_ref to = import_ref(l->dir, l->name);
	struct weka_client *client = im->c->client;
	char name[CTL_PART_NAME];
	struct ctl_req r = { 0 };
	struct weka_ref part;
	int err, undone;

	ctl_part_name(name);
	part = import_ref(l->dir, name);
	err = ctl_req_run(im->c, &r, weka_submit_link(client, &r.req, &from, &part));
	if (err)
		return err;
	err = ctl_req_run(im->c, &r, weka_submit_rename(client, &r.req, &part, &to, 0));
	if (err == -EISDIR) {
		err = ctl_req_run(im->c, &r, weka_submit_rmdir(client, &r.req, &to));
		if (err == -ENOTEMPTY && im->c->force)
			err = ctl_req_run(im->c, &r, weka_submit_rmtree(client, &r.req, &to));
		if (!err)
			err = ctl_req_run(im->c, &r,
					  weka_submit_rename(client, &r.req, &part, &to, 0));
	}
	undone = err ? ctl_req_run(im->c, &r, weka_submit_unlink(client, &r.req, &part)) : 0;
	(void)undone; /* the first error is reported */
	return err;
}

static void linked(void *arg, uint32_t i, const struct weka_req *req, int status)
{
	const struct batch *b = arg;

	(void)req;
	if (status == -EEXIST)
		status = replace(b->im, &b->link[i]);
	if (status == -ENOTEMPTY)
		import_error_here(
			b->im, b->link[i].dir, b->link[i].name,
			"not imported: a directory that is not empty is in the way; remove it, "
			"or use --force");
	else if (status)
		link_error(b->im, &b->link[i], status);
	b->im->tally.links += status == 0;
}

static void look_at_link(struct batch *b, uint32_t i)
{
	const struct weka_stat_item *first = &b->item[2 * i], *other = &b->item[2 * i + 1];
	const struct ctl_link *l = &b->link[i];

	b->wanted[i] = false;
	if (!l->first->is_there)
		import_error_here(b->im, l->dir, l->name,
				  "not imported: another name of a file that was not imported");
	else if (first->status)
		link_error(b->im, l, first->status);
	else if (other->status == 0 && other->attr.ino == first->attr.ino)
		b->im->tally.skipped++;
	else
		b->wanted[i] = true;
	b->im->progress.files++;
}

static int links_batch(struct batch *b)
{
	const struct ctl_burst burst = { link_ask, linked, b };
	int err;

	for (uint32_t i = 0; i < b->count; i++) {
		const struct ctl_link *l = &b->link[i];

		b->item[2 * i] =
			(struct weka_stat_item){ .ref = import_ref(l->first->dir, l->first->name) };
		b->item[2 * i + 1] = (struct weka_stat_item){ .ref = import_ref(l->dir, l->name) };
	}
	err = stat_batch(b, 2 * b->count);
	for (uint32_t i = 0; i < b->count && !err; i++)
		look_at_link(b, i);
	if (!err)
		ctl_burst_run(b->im->c, &burst, b->count);
	return err;
}

void import_finish_links(struct import *im)
{
	struct batch *b = im->links.nlinks && !im->stop ? batch_begin(im) : NULL;
	size_t at = 0;
	int err = 0;

	for (; b && at < im->links.nlinks && !im->stop && !err; at += b->count) {
		b->link = &im->links.link[at];
		b->count = (uint32_t)min_u64(im->links.nlinks - at, BATCH);
		err = links_batch(b);
		ctl_progress_step(&im->progress);
	}
	if (err) {
		link_error(im, b->link, err);
		im->tally.not_tried += b->count - 1;
	}
	im->tally.not_tried += im->links.nlinks - at;
	if (b)
		batch_end(b);
}

/* ---- directories --------------------------------------------------------------------------- */

static struct weka_setattr dir_set(const struct ctl_dir *d)
{
	return (struct weka_setattr){
		.mask = WEKA_SET_MODE | WEKA_SET_UID | WEKA_SET_GID | WEKA_SET_MTIME,
		.mode = d->mode,
		.uid = d->uid,
		.gid = d->gid,
		.mtime_ns = d->mtime_ns,
	};
}

/* Is it as it should be already?  Then an import that is run again changes nothing. */
static bool dir_is_done(const struct weka_attr *a, const struct ctl_dir *d)
{
	return (a->mode & 07777) == d->mode && a->uid == d->uid && a->gid == d->gid &&
	       a->mtime_ns == d->mtime_ns;
}

static int dir_ask(void *arg, uint32_t i, struct weka_req *req)
{
	const struct batch *b = arg;
	const struct ctl_dir *d = b->dir[-1 - (ptrdiff_t)i];
	const struct weka_ref ref = weka_ref_handle(&d->handle);
	const struct weka_setattr set = dir_set(d);

	if (b->im->stop || !b->wanted[i])
		return 1;
	return weka_submit_setattr(b->im->c->client, req, &ref, &set);
}

/* Owners only where we may: with a key that has a user everything stays that user's. */
static void dir_answer(void *arg, uint32_t i, const struct weka_req *req, int status)
{
	const struct batch *b = arg;
	const struct ctl_dir *d = b->dir[-1 - (ptrdiff_t)i];
	const struct weka_ref ref = weka_ref_handle(&d->handle);
	struct weka_setattr set = dir_set(d);
	struct ctl_req r = { 0 };

	(void)req;
	set.mask &= ~(WEKA_SET_UID | WEKA_SET_GID);
	if (status == -EPERM)
		status = ctl_req_run(b->im->c, &r,
				     weka_submit_setattr(b->im->c->client, &r.req, &ref, &set));
	if (status)
		import_error_there(b->im, d, "", status);
}

static void dirs_batch(struct batch *b)
{
	const struct ctl_burst burst = { dir_ask, dir_answer, b };
	int err;

	for (uint32_t i = 0; i < b->count; i++)
		b->item[i] = (struct weka_stat_item){ .ref = weka_ref_handle(
							      &b->dir[-1 - (ptrdiff_t)i]->handle) };
	err = stat_batch(b, b->count);
	for (uint32_t i = 0; i < b->count; i++) {
		const struct ctl_dir *d = b->dir[-1 - (ptrdiff_t)i];

		b->wanted[i] = !err && !b->item[i].status && !dir_is_done(&b->item[i].attr, d);
		if (!err && b->item[i].status && d->number)
			import_error_there(b->im, d, "", b->item[i].status);
	}
	if (err)
		import_error_there(b->im, b->dir[-1], "", err);
	else
		ctl_burst_run(b->im->c, &burst, b->count);
}

void import_finish_dirs(struct import *im)
{
	struct batch *b = im->stop ? NULL : batch_begin(im);
	size_t left = im->dirs.count;

	for (; b && left > 0 && !im->stop; left -= b->count) {
		b->dir = &im->dirs.dir[left];
		b->count = (uint32_t)min_u64(left, BATCH);
		dirs_batch(b);
	}
	if (b)
		batch_end(b);
}
