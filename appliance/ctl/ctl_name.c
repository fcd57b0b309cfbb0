/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl ls, stat, cat, put, rm, mkdir, mv, status: one name or a few at a time. */
#include "appliance/ctl/ctl.h"
#include "appliance/ctl/ctl_print.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failed(struct ctl *c, const char *path, int err)
{
	const char *why = weka_error(c->client);

	return ctl_fail("%s: %s", path, err == -EIO && *why ? why : strerror(-err));
}

static const char *type_of(uint32_t mode)
{
	return S_ISDIR(mode) ? "directory" : S_ISLNK(mode) ? "symlink" : "file";
}

static void mode_text(char out[11], uint32_t mode)
{
	static const char letters[] = "rwxrwxrwx";

	out[0] = S_ISDIR(mode) ? 'd' : S_ISLNK(mode) ? 'l' : '-';
	for (int i = 0; i < 9; i++)
		out[1 + i] = mode & (0400u >> i) ? letters[i] : '-';
	out[10] = 0;
}

static void time_text(char out[40], int64_t ns)
{
	struct timespec ts = ctl_timespec(ns);
	struct tm tm;

	localtime_r(&ts.tv_sec, &tm);
	strftime(out, 40, "%Y-%m-%d %H:%M:%S", &tm);
}

static json_t *json_attr(const char *path, const struct weka_attr *a)
{
	return json_pack("{so, ss, sI, sI, sI, si, si, si, si, si, sI, sI, sI}", "path",
			 ctl_json_name(path), "type", type_of(a->mode), "size",
			 (json_int_t)a->size_bytes, "allocated", (json_int_t)a->allocated_bytes,
			 "ino", (json_int_t)a->ino, "mode", (int)(a->mode & 07777), "uid",
			 (int)a->uid, "gid", (int)a->gid, "nlink", (int)a->nlink, "attributes",
			 (int)a->xattrs, "mtime_ns", (json_int_t)a->mtime_ns, "ctime_ns",
			 (json_int_t)a->ctime_ns, "atime_ns", (json_int_t)a->atime_ns);
}

/* ---- ls ---------------------------------------------------------------------------- */

static void print_entry(const struct ctl *c, const char *path, const struct weka_attr *a)
{
	char mode[11], when[40];

	if (c->json) {
		ctl_json_print(json_attr(path, a));
		return;
	}
	if (!c->long_list) {
		ctl_print_path(path);
		putchar('\n');
		return;
	}
	mode_text(mode, a->mode);
	time_text(when, a->mtime_ns);
	printf("%s %5u %5u %12llu %s ", mode, a->uid, a->gid, (unsigned long long)a->size_bytes,
	       when);
	ctl_print_path(path);
	putchar('\n');
}

/* Directories still to be listed: a stack, since a tree may be deeper than ours. */
struct stack {
	char **path;
	size_t count;
	size_t room;
};

static void stack_push(struct stack *s, char *path)
{
	if (s->count == s->room) {
		s->room = s->room ? 2 * s->room : 64;
		s->path = realloc(s->path, s->room * sizeof(*s->path));
		ASSERT(s->path);
	}
	s->path[s->count++] = path;
}

static int list_one(struct ctl *c, const char *path, const char *prefix, struct stack *todo)
{
	struct weka_ref ref = weka_ref_path(path);
	struct weka_dir *dir;
	struct weka_entry e;
	int err = weka_list(c->client, &ref, &dir);

	if (err)
		return failed(c, path, err);
	while ((err = weka_list_next(dir, &e)) == 1) {
		char *full = ctl_join(prefix, e.name);

		print_entry(c, full, &e.attr);
		if (c->recursive && S_ISDIR(e.attr.mode))
			stack_push(todo, full);
		else
			free(full);
	}
	weka_list_end(dir);
	return err ? failed(c, path, err) : 0;
}

int ctl_cmd_ls(struct ctl *c)
{
	const char *path = c->argc ? c->argv[0] : "/";
	struct stack todo = { 0 };
	struct weka_attr attr;
	int err = weka_stat(c->client, path, &attr), status;

	if (err)
		return failed(c, path, err);
	if (!S_ISDIR(attr.mode)) {
		print_entry(c, path, &attr);
		return 0;
	}
	status = list_one(c, path, c->recursive ? path : "", &todo);
	while (todo.count > 0) {
		char *next = todo.path[--todo.count];

		status |= list_one(c, next, next, &todo);
		free(next);
	}
	free(todo.path);
	return status;
}

/* ---- du ------------------------------------------------------------------------------- */

static void print_totals(const struct ctl *c, const char *path, const struct weka_totals *t)
{
	if (c->json) {
		json_t *o = json_pack("{s:I,s:I,s:I,s:I,s:b}", "entries", (json_int_t)t->entries,
				      "dirs", (json_int_t)t->dirs, "bytes", (json_int_t)t->bytes,
				      "allocated_bytes", (json_int_t)t->allocated_bytes, "settled",
				      (int)t->settled);

		ASSERT(o && json_object_set_new(o, "path", ctl_json_name(path)) == 0);
		ctl_json_print(o);
		return;
	}
	ctl_print_path(path);
	printf(": %llu bytes, %llu on drives, in %llu names, %llu of them directories%s\n",
	       (unsigned long long)t->bytes, (unsigned long long)t->allocated_bytes,
	       (unsigned long long)t->entries, (unsigned long long)t->dirs,
	       t->settled ? "" : " (changes of the last seconds may be missing)");
}

int ctl_cmd_du(struct ctl *c)
{
	struct weka_totals t;
	int status = 0;

	for (int i = 0; i < c->argc; i++) {
		int err = weka_totals(c->client, c->argv[i], &t);

		if (err)
			status = failed(c, c->argv[i], err);
		else
			print_totals(c, c->argv[i], &t);
	}
	return status;
}

/* ---- stat, cat, put -------------------------------------------------------------------- */

int ctl_cmd_stat(struct ctl *c)
{
	struct weka_attr a;
	char mode[11], when[40];
	int status = 0;

	for (int i = 0; i < c->argc; i++) {
		int err = weka_lstat(c->client, c->argv[i], &a);

		if (err) {
			status = failed(c, c->argv[i], err);
			continue;
		}
		if (c->json) {
			ctl_json_print(json_attr(c->argv[i], &a));
			continue;
		}
		mode_text(mode, a.mode);
		time_text(when, a.mtime_ns);
		ctl_print_path(c->argv[i]);
		printf(": %s, %llu %s, %llu bytes on drives, mode %s (%04o), owner %u:%u, "
		       "links %u, inode %llu, changed %s\n",
		       type_of(a.mode), (unsigned long long)a.size_bytes,
		       S_ISDIR(a.mode) ? "entries" : "bytes", (unsigned long long)a.allocated_bytes,
		       mode, a.mode & 07777, a.uid, a.gid, a.nlink, (unsigned long long)a.ino,
		       when);
	}
	return status;
}

#define CAT_PIECE (4u << 20)

static int cat_one(struct ctl *c, const char *path, char *piece)
{
	struct weka_attr a;
	uint64_t at = 0;
	int64_t got = weka_open(c->client, path, 0, 0, &a);

	if (got == 0 && S_ISDIR(a.mode))
		got = -EISDIR;
	if (got < 0)
		return failed(c, path, (int)got);
	while ((got = weka_pread(c->client, &a.handle, piece, CAT_PIECE, at)) > 0) {
		if (fwrite(piece, 1, (size_t)got, stdout) != (size_t)got)
			return ctl_fail("standard output: %s", strerror(errno));
		at += (uint64_t)got;
	}
	(void)weka_close_file(c->client, &a.handle);
	return got < 0 ? failed(c, path, (int)got) : 0;
}

int ctl_cmd_cat(struct ctl *c)
{
	char *piece = malloc(CAT_PIECE);
	int status = 0;

	ASSERT(piece);
	for (int i = 0; i < c->argc; i++)
		status |= cat_one(c, c->argv[i], piece);
	free(piece);
	return status;
}

/* Standard input has no size before its end: a file of no name holds it meanwhile. */
static int spool_stdin(void)
{
	char piece[65536];
	FILE *f = tmpfile();
	size_t got;

	if (!f)
		return -1;
	while ((got = fread(piece, 1, sizeof(piece), stdin)) > 0)
		if (fwrite(piece, 1, got, f) != got)
			return -1;
	return ferror(stdin) || fflush(f) ? -1 : fileno(f);
}

int ctl_cmd_put(struct ctl *c)
{
	bool from_stdin = strcmp(c->argv[0], "-") == 0;
	int fd = from_stdin ? spool_stdin() : open(c->argv[0], O_RDONLY | O_CLOEXEC);
	struct weka_ref ref = weka_ref_path(c->argv[1]);
	struct weka_create create = { 0 };
	struct stat st;
	int err;

	if (fd < 0 || fstat(fd, &st) != 0)
		return ctl_fail("%s: %s", c->argv[0], strerror(errno));
	if (!S_ISREG(st.st_mode))
		return ctl_fail("%s: not a regular file", c->argv[0]);
	create.mode = from_stdin ? 0644 : st.st_mode & 07777;
	create.uid = st.st_uid;
	create.gid = st.st_gid;
	create.flags = from_stdin ? 0 : WEKA_MTIME_GIVEN;
	create.mtime_ns = ctl_mtime_ns(&st);
	err = weka_put_fd(c->client, &ref, fd, (uint64_t)st.st_size, &create);
	if (err == -ENODATA)
		return ctl_fail("%s: became shorter while it was read", c->argv[0]);
	if (!err && !from_stdin && !ctl_mtime_fits(&st))
		return ctl_fail("%s: its time is beyond what the appliance can store (1677 to "
				"2262), and was changed to the nearest",
				c->argv[0]);
	return err ? failed(c, c->argv[1], err) : 0;
}

/* ---- rm, mkdir, mv ------------------------------------------------------------------------ */

int ctl_cmd_rm(struct ctl *c)
{
	struct weka_attr a;
	int status = 0;

	for (int i = 0; i < c->argc; i++) {
		const char *path = c->argv[i];
		int err = weka_lstat(c->client, path, &a);

		if (!err && S_ISDIR(a.mode) && !c->recursive) {
			status =
				ctl_fail("%s: is a directory (rm -r removes the whole tree)", path);
			continue;
		}
		if (!err)
			err = S_ISDIR(a.mode) ? weka_rmtree(c->client, path)
					      : weka_unlink(c->client, path);
		if (err == -EPERM && S_ISDIR(a.mode))
			status |= ctl_rm_tree(c, path, &a);
		else if (err)
			status = failed(c, path, err);
	}
	return status;
}

static int mkdir_parents(struct ctl *c, const char *path)
{
	char *copy = strdup(path);
	int err = 0;

	ASSERT(copy);
	for (char *at = copy + 1; *copy && *at && !err; at++) {
		if (*at != '/' || at[1] == '/' || !at[1])
			continue;
		*at = 0;
		err = weka_mkdir(c->client, copy, 0755);
		err = err == -EEXIST ? 0 : err;
		*at = '/';
	}
	if (!err)
		err = weka_mkdir(c->client, path, 0755);
	free(copy);
	return err == -EEXIST ? 0 : err;
}

int ctl_cmd_mkdir(struct ctl *c)
{
	int status = 0;

	for (int i = 0; i < c->argc; i++) {
		int err = c->recursive ? mkdir_parents(c, c->argv[i])
				       : weka_mkdir(c->client, c->argv[i], 0755);

		if (err)
			status = failed(c, c->argv[i], err);
	}
	return status;
}

int ctl_cmd_ln(struct ctl *c)
{
	int err = weka_link(c->client, c->argv[0], c->argv[1]);

	if (err == -EPERM)
		return ctl_fail("%s: a directory has one name only; a symlink can lead to it",
				c->argv[0]);
	return err ? failed(c, err == -EEXIST ? c->argv[1] : c->argv[0], err) : 0;
}

int ctl_cmd_mv(struct ctl *c)
{
	int err = weka_rename(c->client, c->argv[0], c->argv[1]);

	if (err == -EINVAL)
		return ctl_fail("%s: a directory cannot move below itself, and \".\" is not a name",
				c->argv[0]);
	return err ? failed(c, c->argv[0], err) : 0;
}
