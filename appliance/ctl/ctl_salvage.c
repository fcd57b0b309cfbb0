/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl check --salvage DIR: copies the verifiable data of a store into a local directory.
 *
 *	DIR/tree/...       files and directories whose every byte is verified
 *	DIR/uncertain/...  under the same paths: with blocks missing, or an older version
 *	DIR/unnamed/...    by handle: files that no name leads to any more
 *	DIR/report         a line for each file that is not complete; what other copies had
 *
 * From the root directory down, then over all objects for those that were not reached.
 *
 *  (1) The drives are only read [e2e_salvage:cksum].
 *  (2) Names come from drives: "." and ".." and names with a slash are refused, never followed;
 *      symlinks are made last, so that nothing is ever written through one.
 *  (3) A directory, and an object, is visited once: a second path is damage, and ends there.
 */
#define _GNU_SOURCE
#include "appliance/ctl/ctl_salvage.h"
#include "base/hash.h"
#include "base/num.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const kinds[CTL_SAVED_KINDS] = { "complete", "older", "damaged", "lost",
						    "failed" };

struct thing { /* that was met: for (3), and for its further names */
	uint64_t id;
	char *path; /* where it is, below DIR; NULL: nowhere */
};

struct dir_todo {
	char *path; /* "" is the root */
	uint64_t dir;
	struct meta_attr attr;
	bool doubt, has_attr;
};

struct link_todo {
	char *path, *text;
	struct meta_attr attr;
};

struct walk {
	struct ctl_salvage s;
	struct thing *thing; /* a hash table */
	size_t things, things_max;
	struct dir_todo *dir;
	size_t dirs, dirs_max;
	struct link_todo *link;
	size_t links, links_max;
};

/* ---- visited objects --------------------------------------------------------------------- */

static uint64_t id_of(const struct meta_handle *h)
{
	const uint64_t words[] = { h->dir, h->hash, h->uniq };

	return hash_bytes(0, words, sizeof(words)) | 1;
}

static struct thing *slot_of(struct thing *table, size_t max, uint64_t id)
{
	size_t at = id % max;

	while (table[at].id && table[at].id != id)
		at = (at + 1) % max;
	return &table[at];
}

static struct thing *meet(struct walk *w, const struct meta_handle *h)
{
	struct thing *t, *old = w->thing;
	size_t max = w->things_max;

	if (2 * w->things >= max) {
		w->things_max = max ? 2 * max : 1024;
		w->thing = calloc(w->things_max, sizeof(*w->thing));
		ASSERT(w->thing);
		for (size_t i = 0; i < max; i++)
			if (old[i].id)
				*slot_of(w->thing, w->things_max, old[i].id) = old[i];
		free(old);
	}
	t = slot_of(w->thing, w->things_max, id_of(h));
	return t;
}

static void *more(void *list, size_t count, size_t *max, size_t each)
{
	if (count < *max)
		return list;
	*max = *max ? 2 * *max : 64;
	list = realloc(list, *max * each);
	ASSERT(list);
	return list;
}

__attribute__((format(printf, 4, 5))) static void tell(struct walk *w, enum ctl_saved as,
						       const char *path, const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	w->s.count[as]++;
	if (as != CTL_COMPLETE)
		fprintf(w->s.report, "%s %s: %s\n", kinds[as], path, text);
}

/* ---- one name -------------------------------------------------------------------------------- */

/* Below DIR; malloc()ed. */
static char *place_of(enum ctl_saved as, const char *path)
{
	if (strncmp(path, "unnamed/", 8) == 0)
		return ctl_join("unnamed", path + 8);
	return ctl_join(as == CTL_COMPLETE ? "tree" : "uncertain", *path == '/' ? path + 1 : path);
}

/* A file under its first name. */
static void save_file(struct walk *w, struct thing *t, const char *path, const struct meta_attr *a,
		      bool doubt)
{
	enum ctl_saved as = ctl_salvage_object(&w->s, a);
	char *place;
	int err;

	if (as == CTL_COMPLETE && doubt)
		as = CTL_OLDER;
	if (as == CTL_OLDER && !w->s.why[0])
		(void)snprintf(w->s.why, sizeof(w->s.why), "its newest version is lost");
	if (as == CTL_FAILED) {
		tell(w, as, path, "%s", w->s.why);
		return;
	}
	place = place_of(as, path);
	err = ctl_salvage_place(&w->s, place);
	tell(w, err ? CTL_FAILED : as, path, "%s", err ? strerror(-err) : w->s.why);
	if (err)
		free(place);
	else
		t->path = place;
}

/* A further name of it. */
static void link_file(struct walk *w, const struct thing *t, const char *path, bool doubt)
{
	bool proven = !doubt && t->path && strncmp(t->path, "tree/", 5) == 0;
	char *place = place_of(proven ? CTL_COMPLETE : CTL_DAMAGED, path);
	char *local = ctl_join(w->s.to, place), *from = ctl_join(w->s.to, t->path ? t->path : "");
	int err = t->path ? ctl_salvage_parents(&w->s, local) : -ENOENT;

	if (!err)
		err = link(from, local) == 0 ? 0 : -errno;
	tell(w,
	     err      ? CTL_FAILED
	     : proven ? CTL_COMPLETE
		      : CTL_DAMAGED,
	     path, "%s", err ? strerror(-err) : "another name of a file that is not complete");
	free(place);
	free(local);
	free(from);
}

static void push_dir(struct walk *w, const char *path, uint64_t dir, bool doubt,
		     const struct meta_attr *a)
{
	ASSERT(w->dirs < w->things); /* (3): each is a thing of its own */
	w->dir = more(w->dir, w->dirs, &w->dirs_max, sizeof(*w->dir));
	w->dir[w->dirs] = (struct dir_todo){
		.path = strdup(path), .dir = dir, .doubt = doubt, .has_attr = a != NULL
	};
	ASSERT(w->dir[w->dirs].path);
	if (a)
		w->dir[w->dirs].attr = *a;
	w->dirs++;
}

static void save_dir(struct walk *w, const char *path, uint64_t dir, bool doubt,
		     const struct meta_attr *a)
{
	bool unnamed = strncmp(path, "unnamed/", 8) == 0;
	char *place =
		unnamed ? ctl_join(path, "") : place_of(doubt ? CTL_OLDER : CTL_COMPLETE, path);
	char *local = ctl_join(w->s.to, place);
	int err = ctl_salvage_dir(&w->s, local); /* (2) */

	tell(w,
	     err       ? CTL_FAILED
	     : !a      ? CTL_LOST
	     : doubt   ? CTL_OLDER
	     : unnamed ? CTL_DAMAGED
		       : CTL_COMPLETE,
	     path, "%s",
	     err  ? strerror(-err)
	     : !a ? "its inode is lost"
		  : "the directory itself");
	push_dir(w, path, dir, doubt, a);
	free(place);
	free(local);
}

static void save_link(struct walk *w, const char *path, const struct meta_attr *a, bool doubt)
{
	char text[META_PATH_MAX + 1];

	if (meta_raw_link(w->s.r, &a->handle, text)) {
		tell(w, CTL_LOST, path, "the text of the symlink");
		return;
	}
	w->link = more(w->link, w->links, &w->links_max, sizeof(*w->link));
	w->link[w->links++] = (struct link_todo){
		.path = place_of(doubt ? CTL_OLDER : CTL_COMPLETE, path),
		.text = strdup(text),
		.attr = *a,
	};
	tell(w, doubt ? CTL_OLDER : CTL_COMPLETE, path, "its newest version is lost");
}

static void save(struct walk *w, const char *path, const struct meta_handle *h, enum meta_type type,
		 uint64_t dir, bool doubt)
{
	struct thing *t = meet(w, h);
	struct meta_attr a;
	bool old, again = t->id != 0, lost = meta_raw_attr(w->s.r, h, &a, &old) != 0;

	if (again && type != META_TYPE_FILE) {
		tell(w, CTL_LOST, path, "it was found under another name before"); /* (3) */
		return;
	}
	if (!again) {
		t->id = id_of(h);
		w->things++;
	}
	doubt |= !lost && old;
	if (type == META_TYPE_DIR)
		save_dir(w, path, dir, doubt, lost || a.type != type ? NULL : &a);
	else if (lost || a.type != type)
		tell(w, CTL_LOST, path, "its inode");
	else if (type == META_TYPE_SYMLINK)
		save_link(w, path, &a, doubt);
	else if (again)
		link_file(w, t, path, doubt);
	else
		save_file(w, t, path, &a, doubt);
}

/* ---- the walk ----------------------------------------------------------------------------- */

static void list_dir(struct walk *w, const struct dir_todo *dir)
{
	struct meta_raw_place at = { 0 };
	struct meta_raw_entry e;

	while (meta_raw_entry_next(w->s.r, dir->dir, &at, &e) == 0) {
		char *path = ctl_join(*dir->path ? dir->path : "/", e.name);

		if (strcmp(e.name, ".") == 0 || strcmp(e.name, "..") == 0 || strchr(e.name, '/'))
			tell(w, CTL_LOST, path, "not a valid name"); /* (2) */
		else
			save(w, path, &e.handle, e.type, e.dir, e.doubt || dir->doubt);
		free(path);
	}
}

static void list_dirs(struct walk *w, size_t *at)
{
	for (; *at < w->dirs; ++*at) {
		struct dir_todo dir = w->dir[*at]; /* the array may move */

		list_dir(w, &dir);
	}
}

/* Handles objects that no name has led to. */
static void list_unnamed(struct walk *w, size_t *at)
{
	struct meta_raw_place place = { 0 };
	struct meta_attr a;
	char path[96];
	bool going;

	while (meta_raw_object_next(w->s.r, &place, &a, &going) == 0) {
		if (going || meet(w, &a.handle)->id)
			continue;
		(void)snprintf(path, sizeof(path), "unnamed/%llx.%llx.%llx",
			       (unsigned long long)a.handle.dir, (unsigned long long)a.handle.hash,
			       (unsigned long long)a.handle.uniq);
		save(w, path, &a.handle, a.type, a.dir, false);
		list_dirs(w, at);
	}
}

static void finish_dir(struct walk *w, struct dir_todo *dir)
{
	char *place = place_of(dir->doubt ? CTL_OLDER : CTL_COMPLETE, dir->path);
	char *local = ctl_join(w->s.to, place);
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, ctl_timespec(dir->attr.mtime_ns) };

	if (dir->has_attr && ctl_salvage_dir(&w->s, local) == 0) { /* (2) */
		if (geteuid() == 0)
			(void)!chown(local, dir->attr.uid, dir->attr.gid);
		(void)!chmod(local, dir->attr.mode);
		(void)!utimensat(AT_FDCWD, local, times, AT_SYMLINK_NOFOLLOW);
	}
	free(place);
	free(local);
	free(dir->path);
}

static void finish_link(struct walk *w, struct link_todo *link)
{
	char *local = ctl_join(w->s.to, link->path);
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, ctl_timespec(link->attr.mtime_ns) };
	int err = ctl_salvage_parents(&w->s, local);

	if (!err && symlink(link->text, local) != 0)
		err = -errno;
	if (err)
		tell(w, CTL_FAILED, link->path, "%s", strerror(-err));
	else if (geteuid() == 0)
		(void)!lchown(local, link->attr.uid, link->attr.gid);
	if (!err)
		(void)!utimensat(AT_FDCWD, local, times, AT_SYMLINK_NOFOLLOW);
	free(local);
	free(link->path);
	free(link->text);
}

static void finish(struct walk *w)
{
	w->s.links_begun = true;
	for (size_t i = 0; i < w->links; i++)
		finish_link(w, &w->link[i]);
	while (w->dirs)
		finish_dir(w, &w->dir[--w->dirs]);
	for (size_t i = 0; i < w->things_max; i++)
		free(w->thing[i].path);
	free(w->thing);
	free(w->dir);
	free(w->link);
}

/* ---- begin, report ----------------------------------------------------------------------- */

static int begin(struct walk *w)
{
	static const char *const parts[] = { "tree", "uncertain", "unnamed" };
	char *path;

	if (mkdir(w->s.to, 0700) != 0)
		return ctl_fail("check: %s: %s (salvage needs a new directory)", w->s.to,
				strerror(errno));
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		path = ctl_join(w->s.to, parts[i]);
		if (mkdir(path, 0700) != 0)
			return ctl_fail("check: %s: %s", path, strerror(errno));
		free(path);
	}
	path = ctl_join(w->s.to, "report");
	w->s.report = fopen(path, "wx");
	if (!w->s.report)
		return ctl_fail("check: %s: %s", path, strerror(errno));
	free(path);
	return 0;
}

static void report_loss(struct walk *w, const struct meta_raw_loss *loss)
{
	if (loss->pages)
		fprintf(w->s.report, "index: %llu pages are damaged, the first: %s\n",
			(unsigned long long)loss->pages, loss->first);
	if (loss->shards)
		fprintf(w->s.report,
			"index: %llu shards have no root that is surely their newest\n",
			(unsigned long long)loss->shards);
	if (loss->leaves)
		fprintf(w->s.report, "index: %llu leaves were found that no parent names\n",
			(unsigned long long)loss->leaves);
	if (loss->zones)
		fprintf(w->s.report,
			"zones: headers of %llu are lost: if one was the log's, the newest changes "
			"are lost with it, and files may be as they were before those\n",
			(unsigned long long)loss->zones);
	if (loss->log_missing)
		fprintf(w->s.report,
			"log: block %llu is lost, and the changes that it had: files may be as "
			"they were before those\n",
			(unsigned long long)loss->log_missing);
}

/* Reports how much other copies than the first replaced, drive by drive.  Returns the sum. */
static struct meta_raw_taken report_taken(const struct walk *w)
{
	struct meta_raw_taken sum = { 0 }, t;

	for (uint32_t d = 0; meta_raw_taken(w->s.r, d, &t); d++) {
		if (t.pages)
			fprintf(w->s.report,
				"other copies: %llu pages of the index were taken from drive %u, "
				"the first in place of %s\n",
				(unsigned long long)t.pages, d, t.first_page);
		if (t.blocks)
			fprintf(w->s.report,
				"other copies: %llu blocks of files were taken from drive %u, the "
				"first in place of %s\n",
				(unsigned long long)t.blocks, d, t.first_block);
		sum.pages += t.pages;
		sum.blocks += t.blocks;
	}
	return sum;
}

static int summary(struct walk *w, const struct meta_raw_loss *loss)
{
	const uint64_t *n = w->s.count;
	bool whole = !loss->pages && !loss->shards && !loss->zones && !loss->log_missing &&
		     !(n[CTL_OLDER] + n[CTL_DAMAGED] + n[CTL_LOST] + n[CTL_FAILED]);
	const struct meta_raw_taken second = report_taken(w);

	if ((ferror(w->s.report) | fclose(w->s.report)) != 0)
		return ctl_fail("check: the report: %s", strerror(errno));
	if (w->s.c->json)
		printf("{\"command\":\"salvage\",\"complete\":%llu,\"older\":%llu,"
		       "\"damaged\":%llu,\"lost\":%llu,\"failed\":%llu,"
		       "\"second_pages\":%llu,\"second_blocks\":%llu}\n",
		       (unsigned long long)n[CTL_COMPLETE], (unsigned long long)n[CTL_OLDER],
		       (unsigned long long)n[CTL_DAMAGED], (unsigned long long)n[CTL_LOST],
		       (unsigned long long)n[CTL_FAILED], (unsigned long long)second.pages,
		       (unsigned long long)second.blocks);
	else
		printf("salvage: %llu names complete, %llu older, %llu damaged, %llu lost, %llu "
		       "failed%s%s\n",
		       (unsigned long long)n[CTL_COMPLETE], (unsigned long long)n[CTL_OLDER],
		       (unsigned long long)n[CTL_DAMAGED], (unsigned long long)n[CTL_LOST],
		       (unsigned long long)n[CTL_FAILED], whole ? "" : "; see ",
		       whole ? "" : ctl_join(w->s.to, "report"));
	if (!w->s.c->json && second.pages + second.blocks)
		printf("salvage: other copies replaced %llu pages and %llu blocks; see "
		       "%s\n",
		       (unsigned long long)second.pages, (unsigned long long)second.blocks,
		       ctl_join(w->s.to, "report"));
	return !whole;
}

int ctl_salvage(struct ctl *c)
{
	const struct meta_handle root = { .dir = META_ROOT_DIR };
	struct walk w = { .s = { .c = c, .to = c->salvage } };
	struct meta_raw_loss loss;
	struct ctl_raw *raw;
	size_t at = 0;
	int status = ctl_raw_open(c, &raw), err;

	if (status)
		return status;
	w.s.r = ctl_raw_store(raw);
	err = meta_raw_salvage(w.s.r, &loss);
	if (err)
		status = ctl_fail("check: %s",
				  err == -ENODATA ? meta_raw_problem(w.s.r) : strerror(-err));
	if (!status)
		status = begin(&w);
	if (!status) {
		report_loss(&w, &loss);
		save(&w, "", &root, META_TYPE_DIR, META_ROOT_DIR, false);
		list_dirs(&w, &at);
		list_unnamed(&w, &at);
		finish(&w);
		status = summary(&w, &loss);
	}
	ctl_raw_close(raw);
	return status;
}
