/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The files below a directory, sorted by the bytes of their paths.
 *
 * The walk has no recursion: directories that were found and not listed yet wait in a list of
 * their own, as offsets into the text that has all paths.
 *
 * Invariants:
 *  (1) Offsets into the text stay valid when it grows: no pointer into it is kept
 *      [test_app_dataset:paths_of_any_length_are_kept].
 */
#include "client-lib/dataset/dataset_internal.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct walk {
	struct weka_client *client;
	struct dataset__files *files;
	const char *glob;
	uint64_t *dirs; /* their paths' offsets, not listed yet */
	uint64_t dir_count;
	uint64_t dir_room;
};

static int no_memory(struct weka_client *c)
{
	return client__say(c, -ENOMEM, "no memory for the list of files of a dataset");
}

/* Makes room for one more of `size` bytes in an array; false: there is no memory. */
static bool room_for(void **array, uint64_t count, uint64_t *room, size_t size)
{
	uint64_t more = *room ? *room * 2 : 256;
	void *grown;

	if (count < *room)
		return true;
	grown = realloc(*array, more * size);
	if (!grown)
		return false;
	*array = grown;
	*room = more;
	return true;
}

/* Makes room for more text; false: there is no memory. */
static bool text_room(struct dataset__files *f, uint64_t bytes)
{
	uint64_t room = f->text_room * 2 + bytes + 65536;
	char *text;

	if (f->text_room - f->text_bytes >= bytes)
		return true;
	text = realloc(f->text, room);
	if (!text)
		return false;
	f->text = text; /* (1) */
	f->text_room = room;
	ASSERT(f->text_room - f->text_bytes >= bytes);
	return true;
}

/* Appends "dir/name" and returns its offset, or UINT64_MAX.  dir: an offset, or UINT64_MAX. */
static uint64_t text_add(struct dataset__files *f, uint64_t dir, const char *name)
{
	const uint64_t at = f->text_bytes;
	const bool is_root = dir == UINT64_MAX || strcmp(f->text + dir, "/") == 0;
	const size_t head = is_root ? 0 : strlen(f->text + dir), tail = strlen(name);
	const size_t slash = dir == UINT64_MAX ? 0 : 1;
	const uint64_t bytes = head + slash + tail + 1;

	if (!text_room(f, bytes))
		return UINT64_MAX;
	if (head)
		memcpy(f->text + at, f->text + dir, head);
	f->text[at + head] = '/';
	memcpy(f->text + at + head + slash, name, tail + 1);
	f->text_bytes = at + bytes;
	return at;
}

int dataset__files_add(struct dataset__files *f, const struct dataset__file *file)
{
	if (!room_for((void **)&f->file, f->count, &f->room, sizeof(*f->file)))
		return -ENOMEM;
	ASSERT(f->count < f->room && file->path_at < f->text_bytes);
	f->file[f->count++] = *file;
	return 0;
}

uint64_t dataset__text_add(struct dataset__files *f, const char *text, size_t bytes)
{
	const uint64_t at = f->text_bytes;

	if (!text_room(f, bytes + 1))
		return DATASET__WHOLE;
	memcpy(f->text + at, text, bytes);
	f->text[at + bytes] = 0;
	f->text_bytes = at + bytes + 1;
	return at;
}

static int file_add(struct walk *w, uint64_t path_at, const struct weka_attr *a)
{
	const struct dataset__file file = {
		.handle = a->handle,
		.ctime_ns = a->ctime_ns,
		.size_bytes = a->size_bytes,
		.path_at = path_at,
		.member_at = DATASET__WHOLE,
	};

	return dataset__files_add(w->files, &file) ? no_memory(w->client) : 0;
}

static int dir_add(struct walk *w, uint64_t path_at)
{
	if (!room_for((void **)&w->dirs, w->dir_count, &w->dir_room, sizeof(*w->dirs)))
		return no_memory(w->client);
	ASSERT(w->dir_count < w->dir_room && path_at < w->files->text_bytes);
	w->dirs[w->dir_count++] = path_at;
	return 0;
}

/* A symlink stands for the file that it leads to; one to a directory, or to nothing, is left out:
 * it could lead in a circle. */
static int link_follow(struct walk *w, uint64_t path_at, struct weka_attr *a)
{
	int err = weka_stat(w->client, w->files->text + path_at, a);

	if (err != -ENOENT && err != -ELOOP && err != -EACCES && err != -ENOTDIR &&
	    err != -ENAMETOOLONG)
		return err;
	a->mode = S_IFLNK;
	return 0;
}

static int entry_take(struct walk *w, uint64_t dir, const struct weka_entry *entry)
{
	struct dataset__files *f = w->files;
	const uint64_t at = text_add(f, dir, entry->name);
	struct weka_attr a = entry->attr;
	int err = 0;

	if (at == UINT64_MAX)
		return no_memory(w->client);
	if (strlen(f->text + at) > WEKA_PATH_MAX)
		return client__say(w->client, -ENAMETOOLONG, "%.200s...: the path is too long",
				   f->text + at);
	if (S_ISDIR(a.mode)) /* manifests are not samples */
		return strcmp(f->text + at, "/.weka") == 0 ? 0 : dir_add(w, at);
	if (w->glob && fnmatch(w->glob, f->text + at + f->root_bytes, FNM_PERIOD) != 0)
		a.mode = 0;
	if (S_ISLNK(a.mode))
		err = link_follow(w, at, &a);
	if (!err && S_ISREG(a.mode))
		return file_add(w, at, &a);
	f->text_bytes = at; /* nobody needs it */
	return err;
}

static int dir_list(struct walk *w, uint64_t path_at)
{
	struct weka_ref ref = weka_ref_path(w->files->text + path_at);
	struct weka_entry entry;
	struct weka_dir *dir;
	int rc = weka_list(w->client, &ref, &dir);

	if (rc)
		return rc;
	while ((rc = weka_list_next(dir, &entry)) == 1) {
		int err = entry_take(w, path_at, &entry);

		if (err) {
			weka_list_end(dir);
			return err;
		}
	}
	weka_list_end(dir);
	return rc;
}

static _Thread_local const char *sort_text; /* qsort() has no argument for it */

static int by_path(const void *a, const void *b)
{
	const struct dataset__file *left = a, *right = b;

	return strcmp(sort_text + left->path_at, sort_text + right->path_at);
}

int dataset__walk(struct weka_client *c, const char *path, const char *glob,
		  struct dataset__files *out)
{
	struct walk w = { .client = c, .files = out, .glob = glob };
	uint64_t root = text_add(out, UINT64_MAX, path);
	size_t length;
	int err;

	if (root == UINT64_MAX)
		return no_memory(c);
	length = strlen(out->text + root);
	while (length > 1 && out->text[root + length - 1] == '/')
		out->text[root + --length] = 0; /* "/data/" is "/data" */
	ASSERT(root == 0);
	out->root_bytes = (uint32_t)length + (length > 1 || out->text[root] != '/');
	err = dir_add(&w, root);
	while (!err && w.dir_count > 0)
		err = dir_list(&w, w.dirs[--w.dir_count]);
	free(w.dirs);
	sort_text = out->text;
	if (!err && out->count > 0)
		qsort(out->file, out->count, sizeof(*out->file), by_path);
	return err;
}

void dataset__files_free(struct dataset__files *f)
{
	free(f->file);
	free(f->text);
}
