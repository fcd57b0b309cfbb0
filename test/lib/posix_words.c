/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "base/assert.h"
#include "base/num.h"
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
};

/* ---- words to arguments ------------------------------------------------------------------ */

/* @255, @256 and @long in `from` become what they stand for. */
static void put_in(const char *from, char *to)
{
	uint32_t at = 0;

	while (*from) {
		const bool is_long = strncmp(from, "@long", 5) == 0;
		const uint32_t n = is_long ? 2050 : strncmp(from, "@255", 4) == 0 ? 255 : 256;

		if (*from != '@') {
			to[at++] = *from++;
			continue;
		}
		for (uint32_t i = 0; i < n; i++) {
			to[at++] = is_long ? '.' : 'n';
			if (is_long)
				to[at++] = '/';
		}
		from += is_long ? 5 : 4;
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

/* Times are compared with what was noted: other, or the same; not later, for clocks may be set. */
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

static const struct {
	const char *name;
	int (*run)(struct run *r);
	bool asserts;
} words[] = {
	{ "file", do_file, false },
	{ "mkdir", do_mkdir, false },
	{ "symlink", do_symlink, false },
	{ "link", do_link, false },
	{ "rename", do_rename, false },
	{ "noreplace", do_noreplace, false },
	{ "unlink", do_unlink, false },
	{ "exchange", do_exchange, false },
	{ "rmdir", do_rmdir, false },
	{ "write", do_write, false },
	{ "stat", do_stat, false },
	{ "note", do_note, false },
	{ "hold", do_hold, false },
	{ "gone", as_gone, true },
	{ "is", as_is, true },
	{ "same", as_same, true },
	{ "differ", as_differ, true },
	{ "links", as_links, true },
	{ "entries", as_entries, true },
	{ "holds", as_holds, true },
	{ "text", as_text, true },
	{ "changed", as_changed, true },
	{ "modified", as_modified, true },
	{ "unchanged", as_unchanged, true },
	{ "alive", as_alive, true },
	{ "unmodified", as_unmodified, true },
	{ "stale", as_stale, true },
};

/* ---- a script -------------------------------------------------------------------------------- */

static int error_of(const char *name)
{
	for (uint32_t i = 0; i < ARRAY_LEN(errors); i++)
		if (!strcmp(errors[i].name, name))
			return -errors[i].value;
	return 1; /* nothing ends so */
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
		snprintf(text, sizeof(text), words[i].asserts ? "it is not so" : "status %d", is);
		*got = text;
		return is == want;
	}
	return false;
}

bool posix_case_holds(struct weka_client *client, const struct posix_case *c, uint32_t number)
{
	static struct run r;
	char *copy = strdup(c->script), *save, dir[16];
	const char *got;
	bool good = true;
	uint32_t n = 0;

	ASSERT(copy);
	r = (struct run){ .client = client, .number = number };
	snprintf(dir, sizeof(dir), "/c%u", number);
	ASSERT(weka_mkdir(client, dir, 0755) == 0);
	for (char *step = strtok_r(copy, ";", &save); step && good;
	     step = strtok_r(NULL, ";", &save), n++)
		good = step_holds(&r, step, &got);
	if (!good)
		fprintf(stderr, "%s: %s: \"%s\": step %u: %s\n", c->function, c->words, c->script,
			n, got);
	free(copy);
	return good;
}
