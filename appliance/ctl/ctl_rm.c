/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl rm -r, name by name: for a key with a user, whose rights must be checked in each
 * directory below, so that the appliance refuses to remove its trees at once (-EPERM).
 *
 *   the tree itself --> rmdir returns -ENOTEMPTY: a directory, and not the root
 *   each directory, those above first:  list, remove files in batches, collect directories
 *   each directory, those below first:  rmdir
 *
 *  (1) Entries below are reached by handles, and a symlink is removed, never followed
 *      [e2e_rm:symlink].
 *  (2) An entry that cannot be removed is named, and the rest continues; that its directory is not
 *      empty then is not reported.  But a tree that itself may not be removed is not begun
 *      [e2e_rm:theirs, e2e_rm:kept].
 */
#include "appliance/ctl/ctl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 256u

struct rm_dir {
	struct weka_handle handle;
	size_t parent; /* itself: the tree's top */
	char *name;    /* in its parent          */
	char *path;    /* for people             */
};

struct rm {
	struct ctl *c;
	struct rm_dir *dir; /* each after its parent */
	size_t count, room;
	struct weka_unlink_item item[BATCH];
	char *name[BATCH];
	uint32_t items;
	struct ctl_progress progress;
	bool failed;
};

static void fail(struct rm *rm, const char *dir, const char *name, int err)
{
	char *path = *name ? ctl_join(dir, name) : NULL;

	rm->failed = true;
	(void)ctl_fail("%s: %s", path ? path : dir, strerror(-err));
	free(path);
}

static void dir_add(struct rm *rm, size_t parent, const char *name, const char *path,
		    const struct weka_attr *a)
{
	if (rm->count == rm->room) {
		rm->room = rm->room ? 2 * rm->room : 64;
		rm->dir = realloc(rm->dir, rm->room * sizeof(*rm->dir));
		ASSERT(rm->dir);
	}
	rm->dir[rm->count] = (struct rm_dir){ a->handle, parent, strdup(name), strdup(path) };
	ASSERT(rm->dir[rm->count].name && rm->dir[rm->count].path);
	rm->count++;
	rm->progress.files_total += a->size_bytes; /* its entries */
}

/* Returns -errno if nothing can be asked any more. */
static int batch_end(struct rm *rm, size_t at)
{
	int err = rm->items ? weka_unlink_batch(rm->c->client, rm->item, rm->items) : 0;
	bool told = false;

	for (uint32_t i = 0; i < rm->items; i++) {
		const int status = rm->item[i].status;

		if (status && status != -ENOENT) { /* it may have been removed meanwhile */
			fail(rm, rm->dir[at].path, rm->name[i], status);
			told = true;
		}
		rm->progress.files += status == 0;
		free(rm->name[i]);
	}
	rm->items = 0;
	ctl_progress_step(&rm->progress);
	return told || err == -ENOENT ? 0 : err;
}

static int entry(struct rm *rm, size_t at, const struct weka_entry *e)
{
	char *path;

	if (S_ISDIR(e->attr.mode)) {
		path = ctl_join(rm->dir[at].path, e->name);
		dir_add(rm, at, e->name, path, &e->attr);
		free(path);
		return 0;
	}
	rm->name[rm->items] = strdup(e->name);
	ASSERT(rm->name[rm->items]);
	rm->item[rm->items] = (struct weka_unlink_item){
		.ref = weka_ref_at(&rm->dir[at].handle, rm->name[rm->items]) /* (1) */
	};
	rm->item[rm->items].ref.flags = WEKA_NOFOLLOW;
	return ++rm->items == BATCH ? batch_end(rm, at) : 0;
}

static void empty(struct rm *rm, size_t at)
{
	struct weka_ref ref = weka_ref_handle(&rm->dir[at].handle);
	struct weka_dir *listing;
	struct weka_entry e;
	int got = weka_list(rm->c->client, &ref, &listing), err = 0;

	if (got) {
		fail(rm, rm->dir[at].path, "", got);
		return;
	}
	while (!err && (got = weka_list_next(listing, &e)) == 1)
		err = entry(rm, at, &e);
	weka_list_end(listing);
	if (!err)
		err = batch_end(rm, at);
	if (err || got < 0)
		fail(rm, rm->dir[at].path, "", err ? err : got);
}

static int rmdir_at(struct rm *rm, const struct rm_dir *d)
{
	struct weka_ref ref = weka_ref_at(&rm->dir[d->parent].handle, d->name);
	struct weka_req req = { 0 }, *done;
	int got = weka_submit_rmdir(rm->c->client, &req, &ref);

	if (got)
		return got;
	while ((got = weka_reap(rm->c->client, &done, 1)) == 0)
		(void)!weka_wait(rm->c->client, WEKA_FOREVER);
	return got < 0 ? got : req.status;
}

static void dir_end(struct rm *rm, size_t at)
{
	struct rm_dir *d = &rm->dir[at];
	int err = at ? rmdir_at(rm, d) : weka_rmdir(rm->c->client, d->path);

	if (err && err != -ENOENT && !(err == -ENOTEMPTY && rm->failed)) /* (2) */
		fail(rm, d->path, "", err);
	rm->progress.files += at && !err;
	ctl_progress_step(&rm->progress);
	free(d->name);
	free(d->path);
}

int ctl_rm_tree(struct ctl *c, const char *path, const struct weka_attr *attr)
{
	struct rm rm = { .c = c };
	int err = weka_rmdir(c->client, path);

	if (err != -ENOTEMPTY)
		return err ? ctl_fail("%s: %s", path, strerror(-err)) : 0;
	ctl_progress_begin(&rm.progress, "rm", !c->quiet && !c->json);
	dir_add(&rm, 0, "", path, attr);
	for (size_t i = 0; i < rm.count; i++)
		empty(&rm, i);
	while (rm.count > 0)
		dir_end(&rm, --rm.count);
	(void)ctl_progress_end(&rm.progress);
	free(rm.dir);
	return rm.failed;
}
