/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A store that is full of names, whose records then grow: what deletes need is left alone. */
#include "test/lib/meta_shell.h"

#include "meta/meta_store.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct meta_world *w;
static uint32_t files;
static char path_[96];

static const char *path_of(uint32_t i, const char *more)
{
	snprintf(path_, sizeof(path_), "file %u%s", i, more);
	return path_;
}

static void fill(void)
{
	int rc;

	w = meta_world_real(9, 8u << 20, 256 * META_PAGE_BYTES);
	while ((rc = sh_put(w, path_of(files, ""), META_EXCL, "x", 1)) == 0)
		files++;
	cr_assert_eq(rc, -ENOSPC, "%d: %s", rc, w->m->error);
	cr_assert_gt(files, 5000);
}

static void is_whole(uint64_t inodes)
{
	const char *why = meta_world_check(w, inodes);

	cr_assert_null(why, "%s", why);
}

/* All that has a name goes, whichever it has. */
static void empty(const char *longer)
{
	for (uint32_t i = 0; i < files; i++) {
		int rc = sh_unlink(w, path_of(i, ""));

		if (rc == -ENOENT && *longer)
			rc = sh_unlink(w, path_of(i, longer));
		cr_assert_eq(rc, 0, "%u of %u: %d %s", i, files, rc, w->m->error);
	}
	meta_world_settle(w);
	is_whole(1);
	w->end(w);
}

static int lengthen(uint32_t i)
{
	struct meta_op op = sh_op(META_OP_SETATTR, path_of(i, ""));

	op.set_mask = META_SET_UID | META_SET_GID | META_SET_MTIME | META_SET_ATIME;
	op.set.uid = 70000 + i;
	op.set.gid = 80000 + i;
	op.set.mtime_ns = 1000000007ull * (i + 1);
	op.set.atime_ns = 1000000009ull * (i + 1);
	return meta_world_run(w, &op);
}

Test(meta_full, owners_and_times_take_no_page_that_deleting_needs)
{
	uint32_t refused = 0, live;

	fill();
	live = (uint32_t)w->m->zones->live_pages;
	for (uint32_t i = 0; i < files; i++) {
		int rc = lengthen(i);

		cr_assert(rc == 0 || rc == -ENOSPC, "%d: %s", rc, w->m->error);
		refused += rc == -ENOSPC;
	}
	cr_assert_gt(refused, 0, "%u pages before, %llu now", live,
		     (unsigned long long)w->m->zones->live_pages);
	cr_assert_lt(refused, files, "what has room in its page is changed");
	empty("");
}

Test(meta_full, longer_names_take_no_page_that_deleting_needs)
{
	static const char more[] = " and what else there is to be said of it, at some length";
	uint32_t refused = 0;

	fill();
	for (uint32_t i = 0; i < files; i++) {
		char from[96];
		int rc;

		memcpy(from, path_of(i, ""), sizeof(from));
		rc = sh_rename(w, from, path_of(i, more), 0);
		cr_assert(rc == 0 || rc == -ENOSPC, "%d: %s", rc, w->m->error);
		refused += rc == -ENOSPC;
	}
	cr_assert_gt(refused, 0);
	empty(more);
}

static int stretch(uint32_t i)
{
	struct meta_op op = sh_op(META_OP_TRUNCATE, path_of(i, ""));

	op.size = (1ull << 40) + i;
	op.wall_ns = 1000000007ll * (i + 1);
	return meta_world_run(w, &op);
}

Test(meta_full, longer_files_take_no_page_that_deleting_needs_and_shorter_ones_may)
{
	uint32_t refused = 0;

	fill();
	for (uint32_t i = 0; i < files; i++) {
		int rc = stretch(i);

		cr_assert(rc == 0 || rc == -ENOSPC, "%d: %s", rc, w->m->error);
		refused += rc == -ENOSPC;
	}
	cr_assert_gt(refused, 0);
	cr_assert_lt(refused, files);
	for (uint32_t i = 0; i < files; i += 97) {
		struct meta_op op = sh_op(META_OP_TRUNCATE, path_of(i, ""));

		cr_assert_eq(meta_world_run(w, &op), 0, "%s", w->m->error);
	}
	empty("");
}
