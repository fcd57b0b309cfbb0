/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl space: what the space of a store is used for, and by which directories.
 *
 *   drives |<------------------------- zones ------------------------------>|
 *          | files | index | log | dead, to be collected | empty            |
 *                                |<- free for new files ->|<- kept free --->|
 *
 * The parts add up to the drives.  Dead and empty space is free for new files, except for a reserve
 * for deleting, collection, the index and the log, and spare_percent.
 */
#include "appliance/ctl/ctl.h"
#include "appliance/ctl/ctl_figures.h"
#include "appliance/ctl/ctl_print.h"
#include "appliance/ctl/ctl_space.h"
#include "appliance/ctl/ctl_status_text.h"
#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES_SHOWN 15u

/* ---- parts --------------------------------------------------------------------------------- */

static void print_part(const char *name, uint64_t bytes, uint64_t all, const char *what)
{
	printf("%-7s %9s %5.1f %%  %s\n", name, ctl_short_bytes((double)bytes).s,
	       all ? 100 * (double)bytes / (double)all : 0, what);
}

static void print_parts(const struct ctl_space *s)
{
	const uint64_t all = s->drives_bytes;

	print_part("drives", all, all, "zones of all drives that serve");
	print_part("files", s->files_bytes, all, "blocks of files");
	print_part("index", s->index_bytes, all, "names, attributes, places, small files");
	print_part("log", s->log_bytes, all, "recent changes, and room for more");
	print_part("dead", s->dead_bytes, all,
		   "replaced or removed; collected when space is needed");
	print_part("empty", s->empty_bytes, all, "zones that hold nothing");
	printf("\n");
	print_part("free", s->free_bytes, all, "of dead and empty: for new files");
	print_part("kept", s->kept_bytes, all, "the rest: for deleting, collection, spare_percent");
}

/* ---- directories --------------------------------------------------------------------------- */

struct entry {
	char *name; /* of a directory; NULL: all files of this one together */
	uint64_t bytes, allocated_bytes, entries;
};

struct entries {
	struct entry *entry;
	size_t count, room;
	struct entry files;
	bool lags; /* changes of the last seconds may be missing */
};

static struct entry *entry_add(struct entries *all)
{
	if (all->count == all->room) {
		all->room = all->room ? 2 * all->room : 64;
		all->entry = ctl_need(realloc(all->entry, all->room * sizeof(*all->entry)));
	}
	all->entry[all->count] = (struct entry){ 0 };
	return &all->entry[all->count++];
}

/* A directory that goes away meanwhile is left out. */
static int add_dir(struct ctl *c, struct entries *all, const char *path, const char *name)
{
	char *full = ctl_need(ctl_join(path, name));
	struct weka_totals t;
	struct entry *e;
	int err = weka_totals(c->client, full, &t);

	free(full);
	if (err)
		return err == -ENOENT ? 0 : err;
	all->lags |= !t.settled;
	e = entry_add(all);
	e->name = ctl_need(strdup(name));
	e->bytes = t.bytes;
	e->allocated_bytes = t.allocated_bytes;
	e->entries = t.entries;
	return 0;
}

static void add_file(struct entries *all, const struct weka_attr *attr)
{
	all->files.bytes += attr->size_bytes;
	all->files.allocated_bytes += attr->allocated_bytes;
	all->files.entries++;
}

static int gather(struct ctl *c, struct entries *all, const char *path)
{
	struct weka_ref ref = weka_ref_path(path);
	struct weka_dir *dir;
	struct weka_entry e;
	int err = weka_list(c->client, &ref, &dir);

	if (err)
		return err;
	while ((err = weka_list_next(dir, &e)) == 1) {
		if (S_ISDIR(e.attr.mode))
			err = add_dir(c, all, path, e.name);
		else
			add_file(all, &e.attr);
		if (err < 0)
			break;
	}
	weka_list_end(dir);
	if (!err && all->files.entries)
		*entry_add(all) = all->files;
	return err;
}

static int by_size(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->allocated_bytes != y->allocated_bytes)
		return x->allocated_bytes < y->allocated_bytes ? 1 : -1;
	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return strcmp(x->name ? x->name : "", y->name ? y->name : "");
}

static void print_entries(const struct entries *all, const char *path)
{
	printf("\n%9s %9s %10s  in ", "on drives", "bytes", "names");
	ctl_print_path(path);
	printf("\n");
	for (size_t i = 0; i < min_u64(all->count, ENTRIES_SHOWN); i++) {
		const struct entry *e = &all->entry[i];

		printf("%9s %9s %10llu  ", ctl_short_bytes((double)e->allocated_bytes).s,
		       ctl_short_bytes((double)e->bytes).s, (unsigned long long)e->entries);
		if (e->name)
			ctl_print_path(e->name);
		printf(e->name ? "/\n" : "(files)\n");
	}
	if (all->count > ENTRIES_SHOWN)
		printf("entries not shown: %zu\n", all->count - ENTRIES_SHOWN);
	if (all->lags)
		printf("(changes of the last seconds may be missing)\n");
}

static void entries_free(struct entries *all)
{
	for (size_t i = 0; i < all->count; i++)
		free(all->entry[i].name);
	free(all->entry);
}

/* ---- the command --------------------------------------------------------------------------- */

static json_t *parts_json(const struct ctl_space *s)
{
	json_t *o = json_pack(
		"{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "drives_bytes", (json_int_t)s->drives_bytes,
		"files_bytes", (json_int_t)s->files_bytes, "index_bytes",
		(json_int_t)s->index_bytes, "log_bytes", (json_int_t)s->log_bytes, "dead_bytes",
		(json_int_t)s->dead_bytes, "empty_bytes", (json_int_t)s->empty_bytes, "kept_bytes",
		(json_int_t)s->kept_bytes, "free_bytes", (json_int_t)s->free_bytes);

	ASSERT(o);
	return o;
}

static void print_json(const struct ctl_space *s, const struct entries *all)
{
	json_t *o = parts_json(s), *list = json_array();

	for (size_t i = 0; i < all->count; i++) {
		const struct entry *e = &all->entry[i];
		json_t *each = json_pack("{s:I,s:I,s:I}", "allocated_bytes",
					 (json_int_t)e->allocated_bytes, "bytes",
					 (json_int_t)e->bytes, "entries", (json_int_t)e->entries);

		ASSERT(each);
		json_object_set_new(each, "directory",
				    e->name ? ctl_json_name(e->name) : json_null());
		json_array_append_new(list, each);
	}
	json_object_set_new(o, "directories", list);
	json_dumpf(o, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER);
	printf("\n");
	json_decref(o);
}

int ctl_cmd_space(struct ctl *c)
{
	const char *path = c->argc ? c->argv[0] : "/";
	char why[CTL_STATUS_WHY], *text;
	struct entries all = { 0 };
	struct ctl_space space;
	json_t *status;
	int err;

	if (ctl_status_get(c, &text, &status, why))
		return ctl_fail("%s", why);
	free(text);
	ctl_space_of(status, &space);
	json_decref(status);
	err = gather(c, &all, path);
	qsort(all.entry, all.count, sizeof(*all.entry), by_size);
	if (c->json) {
		print_json(&space, &all);
	} else {
		print_parts(&space);
		if (!err)
			print_entries(&all, path);
	}
	entries_free(&all);
	return err ? ctl_fail("%s: %s", path, strerror(-err)) : 0;
}
