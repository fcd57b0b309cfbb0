/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A local tree: found, made, removed, and written to an appliance.
 *
 * A symlink to a regular file of the same tree is read like a file, on both sides: a reader that
 * opens it by name gets the file's bytes.  Other links are skipped.
 */
#define _GNU_SOURCE
#include "bench/bench_tree.h"
#include "base/num.h"
#include "base/rand.h"
#include "bench/bench.h"
#include "client-lib/weka_client.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MADE_A_DIR 100u
#define MADE_MIN   (4u << 10)
#define MADE_MAX   (128u << 10)

/* ---- finding ------------------------------------------------------------------------ */

static int add(struct bench_tree *t, const char *name, enum bench_tree_kind kind, uint64_t size)
{
	if (t->entry_count == t->entry_max) {
		size_t more = t->entry_max ? 2 * t->entry_max : 1024;
		void *bigger = reallocarray(t->entry, more, sizeof(*t->entry));

		if (!bigger)
			return bench_fail("out of memory");
		t->entry = bigger;
		t->entry_max = more;
	}
	t->entry[t->entry_count] =
		(struct bench_tree_entry){ .name = strdup(name), .kind = kind, .size_bytes = size };
	if (!t->entry[t->entry_count].name)
		return bench_fail("out of memory");
	t->entry_count++;
	return 0;
}

/* Whether the link at `path` leads, by a relative target, to a regular file below the root. */
static bool link_to_file(const struct bench_tree *t, const char *path, struct stat *st)
{
	char target[2], *real;
	bool inside;

	if (readlink(path, target, sizeof(target)) < 1 || target[0] == '/')
		return false;
	real = realpath(path, NULL);
	inside = real && strncmp(real, t->root, strlen(t->root)) == 0 &&
		 real[strlen(t->root)] == '/';
	free(real);
	return inside && stat(path, st) == 0 && S_ISREG(st->st_mode);
}

static int take(struct bench_tree *t, const FTSENT *e)
{
	const char *name = e->fts_path + strlen(t->root);
	struct stat st;

	name += *name == '/';
	if (e->fts_level == 0)
		return 0;
	switch (e->fts_info) {
	case FTS_D:
		return add(t, name, BENCH_TREE_DIR, 0);
	case FTS_F:
		return add(t, name, BENCH_TREE_FILE, (uint64_t)e->fts_statp->st_size);
	case FTS_SL:
	case FTS_SLNONE:
		return link_to_file(t, e->fts_path, &st)
			       ? add(t, name, BENCH_TREE_LINK, (uint64_t)st.st_size)
			       : 0;
	case FTS_DP:
	case FTS_DEFAULT:
		return 0;
	default:
		return bench_fail("%s: %s", e->fts_path, strerror(e->fts_errno));
	}
}

static int find(struct bench_tree *t)
{
	char *paths[] = { t->root, NULL };
	FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	FTSENT *e;
	int err = 0;

	if (!fts)
		return bench_fail("%s: %s", t->root, strerror(errno));
	while (!err && (e = fts_read(fts)))
		err = take(t, e);
	fts_close(fts);
	return err;
}

static uint64_t pieces_of(const struct bench_tree_entry *e, uint64_t piece_bytes)
{
	return e->kind == BENCH_TREE_DIR ? 0 : max_u64(1, div_up(e->size_bytes, piece_bytes));
}

static int cut(struct bench_tree *t, uint64_t piece_bytes)
{
	size_t count = 0;

	for (size_t i = 0; i < t->entry_count; i++)
		count += pieces_of(&t->entry[i], piece_bytes);
	t->piece = calloc(max_u64(count, 1), sizeof(*t->piece));
	if (!t->piece)
		return bench_fail("out of memory");
	for (size_t i = 0; i < t->entry_count; i++) {
		const struct bench_tree_entry *e = &t->entry[i];
		uint64_t pieces = pieces_of(e, piece_bytes);

		for (uint64_t j = 0; j < pieces; j++)
			t->piece[t->piece_count++] = (struct bench_tree_piece){
				.name = e->name,
				.offset_bytes = j * piece_bytes,
				.length_bytes =
					min_u64(piece_bytes, e->size_bytes - j * piece_bytes),
				.first = j == 0,
			};
		t->files += pieces > 0;
		t->bytes += pieces > 0 ? e->size_bytes : 0;
	}
	ASSERT(t->piece_count == count);
	return 0;
}

int bench_tree_load(struct bench_tree *t, const char *root, uint64_t piece_bytes)
{
	int err;

	memset(t, 0, sizeof(*t));
	t->root = realpath(root, NULL);
	if (!t->root)
		return bench_fail("%s: %s", root, strerror(errno));
	err = find(t);
	if (!err)
		err = cut(t, piece_bytes);
	if (!err && t->files == 0)
		return bench_fail("%s: no files there", root);
	return err;
}

void bench_tree_free(struct bench_tree *t)
{
	for (size_t i = 0; i < t->entry_count; i++)
		free(t->entry[i].name);
	free(t->entry);
	free(t->piece);
	free(t->root);
	memset(t, 0, sizeof(*t));
}

/* ---- making and removing ---------------------------------------------------------------- */

static int make_file(const char *path, struct rand_state *rand, uint64_t *words)
{
	size_t size = MADE_MIN + rand_below(rand, MADE_MAX - MADE_MIN + 1);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ssize_t put;

	if (fd < 0)
		return -errno;
	for (size_t i = 0; i < size / sizeof(*words) + 1; i++)
		words[i] = rand_u64(rand);
	put = write(fd, words, size);
	close(fd);
	return put == (ssize_t)size ? 0 : put < 0 ? -errno : -ENOSPC;
}

int bench_tree_make(const char *root, uint64_t files)
{
	uint64_t *words = malloc(MADE_MAX + sizeof(*words));
	struct rand_state rand;
	char path[PATH_MAX];
	int err = words ? 0 : -ENOMEM;

	rand_seed(&rand, 6);
	for (uint64_t i = 0; !err && i < files; i++) {
		snprintf(path, sizeof(path), "%s/d%06llu", root,
			 (unsigned long long)(i / MADE_A_DIR));
		if (i % MADE_A_DIR == 0 && mkdir(path, 0700) != 0)
			err = -errno;
		snprintf(path, sizeof(path), "%s/d%06llu/f%02llu", root,
			 (unsigned long long)(i / MADE_A_DIR),
			 (unsigned long long)(i % MADE_A_DIR));
		if (!err)
			err = make_file(path, &rand, words);
		if (!err && bench_interrupted())
			err = -EINTR;
	}
	free(words);
	return err ? bench_fail("%s: %s", root, strerror(-err)) : 0;
}

void bench_tree_remove(const char *root)
{
	char *copy = strdup(root), *paths[] = { copy, NULL };
	FTS *fts = copy ? fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL) : NULL;
	FTSENT *e;

	while (fts && (e = fts_read(fts))) {
		if (e->fts_info == FTS_DP)
			(void)rmdir(e->fts_path);
		else if (e->fts_info != FTS_D)
			(void)unlink(e->fts_path);
	}
	if (fts)
		fts_close(fts);
	free(copy);
}

/* ---- writing it to an appliance ------------------------------------------------------------- */

static int upload_file(const struct bench_tree_entry *e, struct weka_client *client,
		       const char *local, const char *remote)
{
	struct weka_create create = { .mode = 0600 };
	struct weka_ref ref = weka_ref_path(remote);
	int fd = open(local, O_RDONLY | O_CLOEXEC), err;

	if (fd < 0)
		return bench_fail("%s: %s", local, strerror(errno));
	err = weka_put_fd(client, &ref, fd, e->size_bytes, &create);
	close(fd);
	return err;
}

static int upload_link(struct weka_client *client, const char *local, const char *remote)
{
	char target[PATH_MAX];
	ssize_t n = readlink(local, target, sizeof(target) - 1);

	if (n < 0)
		return bench_fail("%s: %s", local, strerror(errno));
	target[n] = '\0';
	return weka_symlink(client, target, remote);
}

int bench_tree_upload(const struct bench_tree *t, struct weka_client *client, const char *prefix)
{
	char local[2 * PATH_MAX], remote[2 * PATH_MAX];
	int err = *prefix ? weka_mkdir(client, prefix, 0700) : 0;

	if (err)
		return bench_fail("%s: %s", prefix, weka_error(client));
	for (size_t i = 0; !err && i < t->entry_count; i++) {
		const struct bench_tree_entry *e = &t->entry[i];

		snprintf(local, sizeof(local), "%s/%s", t->root, e->name);
		snprintf(remote, sizeof(remote), "%s/%s", prefix, e->name);
		if (bench_interrupted())
			return bench_fail("interrupted");
		if (e->kind == BENCH_TREE_DIR)
			err = weka_mkdir(client, remote, 0700);
		else if (e->kind == BENCH_TREE_LINK)
			err = upload_link(client, local, remote);
		else
			err = upload_file(e, client, local, remote);
		if (err < 0)
			return bench_fail("%s: %s", remote, weka_error(client));
	}
	return err ? 1 : 0;
}
