/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Totals of whole trees in a store that is full: they must leave room for deleting. */
#include "test/lib/meta_shell.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define DEPTH 3u /* of small directories, each with a total of its own */

TestSuite(meta_totals_full);

static struct meta_world *w;
static char path_[64];

static const char *path_of(uint32_t i, uint32_t depth, bool file)
{
	int n = snprintf(path_, sizeof(path_), "d%u", i);

	for (uint32_t d = 1; d < depth; d++)
		n += snprintf(path_ + n, sizeof(path_) - (size_t)n, "/s");
	if (file)
		snprintf(path_ + n, sizeof(path_) - (size_t)n, "/f");
	return path_;
}

/* Directories in directories, a file in the last of them. */
static int grow(uint32_t i)
{
	int rc = 0;

	for (uint32_t d = 1; !rc && d <= DEPTH; d++)
		rc = sh_mkdir(w, path_of(i, d, false));
	return rc ? rc : sh_put(w, path_of(i, DEPTH, true), META_EXCL, "x", 1);
}

static int shrink(uint32_t i)
{
	int rc = sh_unlink(w, path_of(i, DEPTH, true));

	for (uint32_t d = DEPTH; (!rc || rc == -ENOENT) && d > 0; d--)
		rc = sh_rmdir(w, path_of(i, d, false));
	return rc == -ENOENT ? 0 : rc;
}

static void rounds(uint32_t steps)
{
	for (uint32_t i = 0; i < steps && meta_totals_pending(w->m); i++) {
		meta_totals_round(w->m);
		w->step(w);
		cr_assert_null(meta_op_poll(w->m));
	}
}

static void is_whole(uint64_t inodes)
{
	const char *why = meta_world_check(w, inodes);

	cr_assert_null(why, "%s", why);
}

/* Nothing is passed up while it is filled: as if the rounds could not keep up. */
Test(meta_totals_full, a_store_that_was_filled_before_a_round_can_be_emptied)
{
	struct meta_totals t;
	struct meta_op op = sh_op(META_OP_TOTALS, "/");
	uint32_t n = 0;
	int rc;

	w = meta_world_real(9, 8u << 20, 256 * META_PAGE_BYTES);
	while ((rc = grow(n)) == 0)
		n++;
	cr_assert_eq(rc, -ENOSPC, "%d: %s", rc, w->m->error);
	cr_assert_gt(n, 1000);
	rounds(200000);
	for (uint32_t i = 0; i <= n; i++) {
		rc = shrink(i);
		cr_assert_eq(rc, 0, "%u of %u: %d %s", i, n, rc, w->m->error);
	}
	meta_world_settle(w);
	op.totals = &t;
	cr_assert_eq(meta_world_run(w, &op), 0);
	cr_assert_eq(t.entries, 0);
	cr_assert(t.settled);
	is_whole(1);
	w->end(w);
}

/* Each directory becomes pending, and none is passed up: so many records more, while files go. */
Test(meta_totals_full, one_file_of_each_directory_goes_before_a_round)
{
	static const char *const names[] = { "f", "g" };
	char path[80];
	uint32_t n = 0;
	int rc = 0;

	w = meta_world_real(10, 8u << 20, 256 * META_PAGE_BYTES);
	for (; !rc; n++) {
		rc = sh_mkdir(w, path_of(n, 1, false));
		for (uint32_t i = 0; !rc && i < ARRAY_LEN(names); i++) {
			snprintf(path, sizeof(path), "%s/%s", path_of(n, 1, false), names[i]);
			rc = sh_put(w, path, META_EXCL, "x", 1);
		}
		rounds(100);
	}
	cr_assert_eq(rc, -ENOSPC, "%d: %s", rc, w->m->error);
	cr_assert_gt(n, 1000);
	rounds(200000);
	for (uint32_t i = 0; i < ARRAY_LEN(names); i++)
		for (uint32_t d = 0; d < n; d++) {
			snprintf(path, sizeof(path), "%s/%s", path_of(d, 1, false), names[i]);
			rc = sh_unlink(w, path);
			cr_assert(rc == 0 || (rc == -ENOENT && d == n - 1), "%s: %d", path, rc);
		}
	for (uint32_t d = 0; d < n; d++) {
		rc = sh_rmdir(w, path_of(d, 1, false));
		cr_assert(rc == 0 || (rc == -ENOENT && d == n - 1), "%u: %d", d, rc);
	}
	meta_world_settle(w);
	is_whole(1);
	w->end(w);
}
