/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "base/assert.h"
#include "base/num.h"
#include "client-lib/client_internal.h"
#include "test/lib/posix_words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_BYTES 8192u
#define ARGS_MAX   3u

struct run {
	struct weka_client *client;
	const struct posix_user *users;
	uint32_t user_count;
	uint32_t number;
	char arg[ARGS_MAX][PATH_BYTES]; /* as written, with @... put in */
	char path[2][PATH_BYTES];       /* the first two as paths */
	uint32_t args;
	struct weka_attr noted;
	struct weka_handle held;
};

static const struct {
	const char *name;
	int value;
} errors[] = {
	{ "EEXIST", EEXIST }, { "ENOENT", ENOENT },       { "ENOTDIR", ENOTDIR },
	{ "EISDIR", EISDIR }, { "ENOTEMPTY", ENOTEMPTY }, { "ENAMETOOLONG", ENAMETOOLONG },
	{ "EPERM", EPERM },   { "ELOOP", ELOOP },         { "EINVAL", EINVAL },
	{ "EMLINK", EMLINK }, { "ESTALE", ESTALE },       { "EACCES", EACCES },
	{ "ERANGE", ERANGE }, { "ENODATA", ENODATA },     { "ENOTSUP", ENOTSUP },
	{ "EBADF", EBADF },   { "E2BIG", E2BIG },         { "ENOSPC", ENOSPC },
	{ "EFBIG", EFBIG },
};

/* ---- words to arguments ------------------------------------------------------------------ */

/* @N and @long in `from` become what they stand for. */
static void put_in(const char *from, char *to)
{
	uint32_t at = 0;

	while (*from) {
		const bool is_long = strncmp(from, "@long", 5) == 0;
		char *end = NULL;
		uint32_t n = is_long ? 2050 : 0;

		if (*from != '@') {
			to[at++] = *from++;
			continue;
		}
		if (!is_long)
			n = (uint32_t)strtoul(from + 1, &end, 10);
		ASSERT(at + 2 * n < PATH_BYTES);
		for (uint32_t i = 0; i < n; i++) {
			to[at++] = is_long ? '.' : 'n';
			if (is_long)
				to[at++] = '/';
		}
		from = is_long ? from + 5 : end;
	}
	to[at] = 0;
	ASSERT(at < PATH_BYTES);
}

static void path_of(const struct run *r, const char *word, char *out)
{
	if (!strcmp(word, "''") || !strcmp(word, "/"))
		snprintf(out, PATH_BYTES, "%s", *word == '/' ? "/" : "");
	else
		snprintf(out, PATH_BYTES, "/c%u/%.8000s", r->number, word);
}

/* ---- doing ----------------------------------------------------------------------------------- */

static int rename_with(struct run *r, uint32_t flags)
{
	struct weka_ref from = weka_ref_path(r->path[0]), to = weka_ref_path(r->path[1]);
	struct weka_req req = { 0 }, *done;
	int err = weka_submit_rename(r->client, &req, &from, &to, flags);

	if (err)
		return err;
	while (weka_reap(r->client, &done, 1) == 0)
		if (weka_wait(r->client, WEKA_FOREVER) < 0)
			break;
	return req.status;
}

static int do_file(struct run *r)
{
	const char *text = r->args > 1 ? r->arg[1] : "";

	return weka_write_file(r->client, r->path[0], text, strlen(text), NULL);
}

static int do_load(struct run *r)
{
	void *bytes = NULL;
	size_t size;
	int err = weka_read_file(r->client, r->path[0], &bytes, &size);

	if (!err)
		free(bytes);
	return err;
}

/* Changes the user.  A held file stays held, but its handle may mean nothing to another user. */
static int do_as(struct run *r)
{
	for (uint32_t i = 0; i < r->user_count; i++)
		if (!strcmp(r->users[i].name, r->arg[0])) {
			r->client = r->users[i].client;
			return 0;
		}
	return 1;
}

static int do_mkdir(struct run *r)
{
	return weka_mkdir(r->client, r->path[0], 0755);
}

static int do_symlink(struct run *r)
{
	const char *text = strcmp(r->arg[0], "''") ? r->arg[0] : "";

	return weka_symlink(r->client, text, r->path[1]);
}

static int do_link(struct run *r)
{
	return weka_link(r->client, r->path[0], r->path[1]);
}

static int do_rename(struct run *r)
{
	return weka_rename(r->client, r->path[0], r->path[1]);
}

static int do_noreplace(struct run *r)
{
	return rename_with(r, WEKA_NOREPLACE);
}

static int do_exchange(struct run *r)
{
	return rename_with(r, WEKA_EXCHANGE);
}

static int do_unlink(struct run *r)
{
	return weka_unlink(r->client, r->path[0]);
}

static int do_rmdir(struct run *r)
{
	return weka_rmdir(r->client, r->path[0]);
}

static int do_stat(struct run *r)
{
	return weka_stat(r->client, r->path[0], NULL);
}

static int do_write(struct run *r)
{
	struct weka_attr a;
	int64_t done;
	int err = weka_stat(r->client, r->path[0], &a);

	if (err)
		return err;
	done = weka_pwrite(r->client, &a.handle, r->arg[1], strlen(r->arg[1]), 0);
	return done < 0 ? (int)done : 0;
}

static int do_note(struct run *r)
{
	return weka_lstat(r->client, r->path[0], &r->noted);
}

static int do_hold(struct run *r)
{
	struct weka_attr a;
	int err = weka_lstat(r->client, r->path[0], &a);

	r->held = a.handle;
	return err;
}

static uint32_t flags_of(const char *word)
{
	uint32_t flags = 0;

	flags |= strchr(word, 'c') ? WEKA_CREATE : 0;
	flags |= strchr(word, 'x') ? WEKA_EXCL : 0;
	flags |= strchr(word, 't') ? WEKA_TRUNC : 0;
	flags |= strchr(word, 'd') ? WEKA_DIRECTORY : 0;
	return flags;
}

static int do_open(struct run *r)
{
	uint32_t flags = r->args > 1 ? flags_of(r->arg[1]) : 0;
	uint32_t mode = r->args > 2 ? (uint32_t)strtoul(r->arg[2], NULL, 8) : 0644;
	struct weka_attr a;
	int err = weka_open(r->client, r->path[0], flags, mode, &a);

	r->held = a.handle;
	return err;
}

/* weka_close_file() does not wait for the appliance; the test does, to see the effect. */
static int do_close(struct run *r)
{
	int err = weka_close_file(r->client, &r->held);

	while (!err && r->client->own_out)
		ASSERT(weka_reap(r->client, NULL, 0) == 0);
	return err;
}

static int do_lstat(struct run *r)
{
	return weka_lstat(r->client, r->path[0], NULL);
}

static int do_readlink(struct run *r)
{
	char text[WEKA_PATH_MAX + 1];
	size_t room = r->args > 1 ? (size_t)atoi(r->arg[1]) : sizeof(text);
	int64_t got = weka_readlink(r->client, r->path[0], text, room);

	return got < 0 ? (int)got : 0;
}

static int set_of(struct run *r, const struct weka_setattr *set)
{
	struct weka_ref ref = weka_ref_path(r->path[0]);

	return weka_setattr(r->client, &ref, set);
}

static int do_chmod(struct run *r)
{
	struct weka_setattr set = { .mask = WEKA_SET_MODE };

	set.mode = (uint32_t)strtoul(r->arg[1], NULL, 8);
	return set_of(r, &set);
}

static int do_chown(struct run *r)
{
	struct weka_setattr set = { .mask = WEKA_SET_UID | WEKA_SET_GID };

	set.uid = (uint32_t)atoi(r->arg[1]);
	set.gid = (uint32_t)atoi(r->arg[2]);
	return set_of(r, &set);
}

static int do_utime(struct run *r)
{
	struct weka_setattr set = { .mask = WEKA_SET_MTIME | WEKA_SET_ATIME };

	set.mtime_ns = atoll(r->arg[1]);
	set.atime_ns = set.mtime_ns + 1;
	return set_of(r, &set);
}

static int do_list(struct run *r)
{
	struct weka_ref ref = weka_ref_path(r->path[0]);
	struct weka_entry e;
	struct weka_dir *dir;
	int got = weka_list(r->client, &ref, &dir);

	if (got)
		return got;
	while ((got = weka_list_next(dir, &e)) == 1)
		;
	weka_list_end(dir);
	return got;
}

/* ---- by the handle that is held ------------------------------------------------------- */

static int do_put(struct run *r)
{
	int64_t done = weka_pwrite(r->client, &r->held, r->arg[1], strlen(r->arg[1]),
				   strtoull(r->arg[0], NULL, 10));

	return done < 0 ? (int)done : 0;
}

static int do_append(struct run *r)
{
	int64_t done = weka_append(r->client, &r->held, r->arg[0], strlen(r->arg[0]));

	return done < 0 ? (int)done : 0;
}

static int do_cut(struct run *r)
{
	return weka_truncate(r->client, &r->held, strtoull(r->arg[0], NULL, 10));
}

static int do_read(struct run *r)
{
	char byte;
	int64_t got = weka_pread(r->client, &r->held, &byte, 1, strtoull(r->arg[0], NULL, 10));

	return got < 0 ? (int)got : 0;
}

/* ---- extended attributes ------------------------------------------------------------- */

/* A value as it is written: '' is the empty one, #N are N bytes of all sorts, else a text. */
static const void *value_of(const char *word, size_t *size_bytes)
{
	static uint8_t bytes[2 * WEKA_XATTR_MAX];

	*size_bytes = strlen(word);
	if (!strcmp(word, "''"))
		*size_bytes = 0;
	if (*word != '#')
		return word;
	*size_bytes = strtoul(word + 1, NULL, 10);
	ASSERT(*size_bytes <= sizeof(bytes));
	for (size_t i = 0; i < *size_bytes; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 2048 + *size_bytes);
	return bytes;
}

static const char *text_of(const struct run *r, uint32_t i)
{
	return r->args <= i || !strcmp(r->arg[i], "''") ? "" : r->arg[i];
}

static int set_with(struct run *r, uint32_t flags)
{
	size_t size;
	const void *value = value_of(r->arg[2], &size);

	return weka_setxattr(r->client, r->path[0], text_of(r, 1), value, size, flags);
}

static int do_set(struct run *r)
{
	return set_with(r, 0);
}

static int do_create(struct run *r)
{
	return set_with(r, WEKA_XATTR_CREATE);
}

static int do_replace(struct run *r)
{
	return set_with(r, WEKA_XATTR_REPLACE);
}

static int do_remove(struct run *r)
{
	return weka_removexattr(r->client, r->path[0], text_of(r, 1));
}

static char attribute[WEKA_XATTR_MAX + 1];

/* With so much room, or with as much as there can be. */
static int do_get(struct run *r)
{
	const size_t room = r->args > 2 ? (size_t)atoi(r->arg[2]) : sizeof(attribute);
	int64_t got = weka_getxattr(r->client, r->path[0], text_of(r, 1), attribute, room);

	return got < 0 ? (int)got : 0;
}

static int do_names(struct run *r)
{
	const size_t room = r->args > 1 ? (size_t)atoi(r->arg[1]) : sizeof(attribute);
	int64_t got = weka_listxattr(r->client, r->path[0], attribute, room);

	return got < 0 ? (int)got : 0;
}

/* ---- asserting: 0, or not so ----------------------------------------------------------------- */

static int is_same(struct run *r, bool *same)
{
	struct weka_attr a, b;
	int err = weka_lstat(r->client, r->path[0], &a);

	if (!err)
		err = weka_lstat(r->client, r->path[1], &b);
	*same = !err && a.ino == b.ino && !memcmp(&a.handle, &b.handle, sizeof(a.handle));
	return err;
}

static int as_same(struct run *r)
{
	bool same;

	return is_same(r, &same) || !same;
}

static int as_differ(struct run *r)
{
	bool same;

	return is_same(r, &same) || same;
}

static int as_gone(struct run *r)
{
	return weka_lstat(r->client, r->path[0], NULL) != -ENOENT;
}

static int as_is(struct run *r)
{
	struct weka_attr a;

	if (weka_lstat(r->client, r->path[0], &a))
		return 1;
	return !(strcmp(r->arg[1], "file") == 0  ? S_ISREG(a.mode)
		 : strcmp(r->arg[1], "dir") == 0 ? S_ISDIR(a.mode)
						 : S_ISLNK(a.mode));
}

static int as_links(struct run *r)
{
	struct weka_attr a;

	return weka_lstat(r->client, r->path[0], &a) || a.nlink != (uint32_t)atoi(r->arg[1]);
}

static int as_entries(struct run *r)
{
	struct weka_attr a;

	return weka_stat(r->client, r->path[0], &a) || !S_ISDIR(a.mode) ||
	       a.size_bytes != (uint64_t)atoi(r->arg[1]);
}

static int as_holds(struct run *r)
{
	size_t size;
	void *bytes;
	int wrong;

	if (weka_read_file(r->client, r->path[0], &bytes, &size))
		return 1;
	wrong = size != strlen(r->arg[1]) || memcmp(bytes, r->arg[1], size) != 0;
	free(bytes);
	return wrong;
}

static int as_text(struct run *r)
{
	char text[WEKA_PATH_MAX + 1];

	return weka_readlink(r->client, r->path[0], text, sizeof(text)) < 0 ||
	       strcmp(text, r->arg[1]) != 0;
}

/* Compares times with the noted ones: equal or not; "later" would fail when a clock is set back. */
static int times_of(struct run *r, bool *ctime_other, bool *mtime_other)
{
	struct weka_attr a;
	int err = weka_lstat(r->client, r->path[0], &a);

	*ctime_other = !err && a.ctime_ns != r->noted.ctime_ns;
	*mtime_other = !err && a.mtime_ns != r->noted.mtime_ns;
	return err;
}

static int as_changed(struct run *r)
{
	bool c, m;

	return times_of(r, &c, &m) || !c;
}

static int as_unchanged(struct run *r)
{
	bool c, m;

	return times_of(r, &c, &m) || c || m;
}

static int as_modified(struct run *r)
{
	bool c, m;

	return times_of(r, &c, &m) || !m;
}

static int as_unmodified(struct run *r)
{
	bool c, m;

	return times_of(r, &c, &m) || m;
}

static int held_status(struct run *r)
{
	struct weka_ref ref = weka_ref_handle(&r->held);
	struct weka_setattr set = { 0 };

	return weka_setattr(r->client, &ref, &set);
}

static int as_alive(struct run *r)
{
	return held_status(r) != 0;
}

static int as_stale(struct run *r)
{
	return held_status(r) != -ESTALE;
}

static int as_mode(struct run *r)
{
	struct weka_attr a;

	return weka_lstat(r->client, r->path[0], &a) ||
	       (a.mode & 07777) != strtoul(r->arg[1], NULL, 8);
}

static int as_owner(struct run *r)
{
	struct weka_attr a;

	return weka_lstat(r->client, r->path[0], &a) || a.uid != (uint32_t)atoi(r->arg[1]) ||
	       a.gid != (uint32_t)atoi(r->arg[2]);
}

static int as_time(struct run *r)
{
	struct weka_attr a;

	return weka_lstat(r->client, r->path[0], &a) || a.mtime_ns != atoll(r->arg[1]) ||
	       a.atime_ns != atoll(r->arg[1]) + 1;
}

static int as_size(struct run *r)
{
	struct weka_attr a;

	return weka_lstat(r->client, r->path[0], &a) ||
	       a.size_bytes != strtoull(r->arg[1], NULL, 10);
}

/* At this offset the held file has this text, then its end. */
static int as_ends(struct run *r)
{
	char bytes[64];
	int64_t got = weka_pread(r->client, &r->held, bytes, sizeof(bytes),
				 strtoull(r->arg[0], NULL, 10));
	const char *want = text_of(r, 1);

	return got != (int64_t)strlen(want) || memcmp(bytes, want, (size_t)got) != 0;
}

/* It lists so many, each once, and among them this one. */
static int as_holds_names(struct run *r)
{
	struct weka_ref ref = weka_ref_path(r->path[0]);
	int count = 0, found = 0;
	struct weka_entry e;
	struct weka_dir *dir;

	if (weka_list(r->client, &ref, &dir))
		return 1;
	for (; weka_list_next(dir, &e) == 1; count++)
		found += r->args > 2 && !strcmp(e.name, r->arg[2]);
	weka_list_end(dir);
	return count != atoi(r->arg[1]) || (r->args > 2 && found != 1);
}

static int as_has(struct run *r)
{
	size_t size;
	const void *value = value_of(r->arg[2], &size);
	const char *name = text_of(r, 1);

	return weka_getxattr(r->client, r->path[0], name, NULL, 0) != (int64_t)size ||
	       weka_getxattr(r->client, r->path[0], name, attribute, sizeof(attribute)) !=
		       (int64_t)size ||
	       memcmp(attribute, value, size) != 0;
}

static int as_hasnt(struct run *r)
{
	return weka_getxattr(r->client, r->path[0], text_of(r, 1), NULL, 0) != -ENODATA;
}

/* It has this many attributes; if a name is given, it is there once. */
static int as_lists(struct run *r)
{
	int64_t bytes = weka_listxattr(r->client, r->path[0], attribute, sizeof(attribute));
	uint32_t count = 0, found = 0;

	if (bytes != weka_listxattr(r->client, r->path[0], NULL, 0))
		return 1;
	for (int64_t at = 0; at < bytes; at += (int64_t)strlen(attribute + at) + 1, count++)
		found += r->args > 2 && !strcmp(attribute + at, r->arg[2]);
	return count != (uint32_t)atoi(r->arg[1]) || (r->args > 2 && found != 1);
}

/* When a word of kind DOES fails, weka_error() must name its path. */
enum kind { DOES, DOES_UNNAMED, ASSERTS };

static const struct {
	const char *name;
	int (*run)(struct run *r);
	enum kind kind;
} words[] = {
	{ "as", do_as, DOES_UNNAMED },
	{ "load", do_load, DOES },
	{ "file", do_file, DOES },
	{ "mkdir", do_mkdir, DOES },
	{ "symlink", do_symlink, DOES },
	{ "link", do_link, DOES },
	{ "rename", do_rename, DOES },
	{ "noreplace", do_noreplace, DOES_UNNAMED },
	{ "unlink", do_unlink, DOES },
	{ "exchange", do_exchange, DOES_UNNAMED },
	{ "rmdir", do_rmdir, DOES },
	{ "write", do_write, DOES_UNNAMED },
	{ "stat", do_stat, DOES },
	{ "note", do_note, DOES },
	{ "hold", do_hold, DOES },
	{ "open", do_open, DOES },
	{ "close", do_close, DOES_UNNAMED },
	{ "lstat", do_lstat, DOES },
	{ "readlink", do_readlink, DOES },
	{ "chmod", do_chmod, DOES },
	{ "chown", do_chown, DOES },
	{ "utime", do_utime, DOES },
	{ "list", do_list, DOES },
	{ "put", do_put, DOES_UNNAMED },
	{ "append", do_append, DOES_UNNAMED },
	{ "cut", do_cut, DOES_UNNAMED },
	{ "read", do_read, DOES_UNNAMED },
	{ "mode", as_mode, ASSERTS },
	{ "owner", as_owner, ASSERTS },
	{ "time", as_time, ASSERTS },
	{ "size", as_size, ASSERTS },
	{ "ends", as_ends, ASSERTS },
	{ "lookin", as_holds_names, ASSERTS },
	{ "set", do_set, DOES },
	{ "create", do_create, DOES },
	{ "replace", do_replace, DOES },
	{ "remove", do_remove, DOES },
	{ "get", do_get, DOES },
	{ "names", do_names, DOES },
	{ "has", as_has, ASSERTS },
	{ "hasnt", as_hasnt, ASSERTS },
	{ "lists", as_lists, ASSERTS },
	{ "gone", as_gone, ASSERTS },
	{ "is", as_is, ASSERTS },
	{ "same", as_same, ASSERTS },
	{ "differ", as_differ, ASSERTS },
	{ "links", as_links, ASSERTS },
	{ "entries", as_entries, ASSERTS },
	{ "holds", as_holds, ASSERTS },
	{ "text", as_text, ASSERTS },
	{ "changed", as_changed, ASSERTS },
	{ "modified", as_modified, ASSERTS },
	{ "unchanged", as_unchanged, ASSERTS },
	{ "alive", as_alive, ASSERTS },
	{ "unmodified", as_unmodified, ASSERTS },
	{ "stale", as_stale, ASSERTS },
};

/* ---- a script -------------------------------------------------------------------------------- */

static int error_of(const char *name)
{
	for (uint32_t i = 0; i < ARRAY_LEN(errors); i++)
		if (!strcmp(errors[i].name, name))
			return -errors[i].value;
	return 1; /* nothing ends so */
}

/* The line for people has the error and, of a path, its beginning. */
static bool is_told(const struct run *r, int err)
{
	const char *line = weka_error(r->client);
	char from[101], to[101];

	snprintf(from, sizeof(from), "%.100s", r->path[0]);
	snprintf(to, sizeof(to), "%.100s", r->args > 1 ? r->path[1] : r->path[0]);
	return strstr(line, strerror(-err)) && (strstr(line, from) || strstr(line, to));
}

/* One step; what it says is cut into pieces. */
static bool step_holds(struct run *r, char *step, const char **got)
{
	static char text[64];
	char *save, *word = strtok_r(step, " ", &save), *arg;
	int want = 0, is;

	r->args = 0;
	*got = "no such word";
	while ((arg = strtok_r(NULL, " ", &save))) {
		if (!strcmp(arg, "=")) {
			want = error_of(strtok_r(NULL, " ", &save));
			break;
		}
		ASSERT(r->args < ARGS_MAX);
		put_in(arg, r->arg[r->args++]);
	}
	for (uint32_t i = 0; i < r->args && i < 2; i++)
		path_of(r, r->arg[i], r->path[i]);
	for (uint32_t i = 0; word && i < ARRAY_LEN(words); i++) {
		if (strcmp(words[i].name, word) != 0)
			continue;
		is = words[i].run(r);
		snprintf(text, sizeof(text),
			 words[i].kind == ASSERTS ? "it is not so" : "status %d", is);
		*got = text;
		if (is == want && want < 0 && words[i].kind == DOES && !is_told(r, want)) {
			*got = "its line says something else";
			return false;
		}
		return is == want;
	}
	return false;
}

bool posix_case_holds_as(const struct posix_user *users, uint32_t count, const struct posix_case *c,
			 uint32_t number)
{
	static struct run r;
	char *copy = strdup(c->script), *save, dir[16];
	const char *got;
	bool good = true;
	uint32_t n = 0;

	ASSERT(copy);
	r = (struct run){
		.client = users[0].client, .users = users, .user_count = count, .number = number
	};
	snprintf(dir, sizeof(dir), "/c%u", number);
	ASSERT(weka_mkdir(r.client, dir, 0755) == 0);
	for (char *step = strtok_r(copy, ";", &save); step && good;
	     step = strtok_r(NULL, ";", &save), n++)
		good = step_holds(&r, step, &got);
	if (!good)
		fprintf(stderr, "%s: %s: \"%s\": step %u: %s\n", c->function, c->words, c->script,
			n, got);
	free(copy);
	return good;
}

bool posix_case_holds(struct weka_client *client, const struct posix_case *c, uint32_t number)
{
	const struct posix_user alone = { .name = "root", .client = client };

	return posix_case_holds_as(&alone, 1, c, number);
}
