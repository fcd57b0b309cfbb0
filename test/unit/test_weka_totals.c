/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Totals of trees, through the client library: what weka_totals() says when all is quiet is what
 * a walk over the tree would add up.
 */
#define _GNU_SOURCE
#include "base/num.h"
#include "test/lib/app_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

static struct weka_client *client;
static struct app_rig rig = { .cfg = { .boot = APP_BOOT_FORMAT,
				       .ndrives = 2,
				       .cache_bytes = 32 << 20,
				       .staging_bytes = 24 << 20,
				       .ops_max = 32 } };

static void begin(void)
{
	client = app_rig_begin_over(&rig, "tcp");
}

static void end(void)
{
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
}

TestSuite(weka_totals, .init = begin, .fini = end, .timeout = 60);

static void put(const char *path, size_t size_bytes)
{
	static uint8_t bytes[1 << 20];

	cr_assert_leq(size_bytes, sizeof(bytes));
	cr_assert_eq(weka_write_file(client, path, bytes, size_bytes, NULL), 0, "%s",
		     weka_error(client));
}

/* When it is exact: it says so itself, and within seconds. */
static struct weka_totals totals(const char *path)
{
	struct weka_totals t;

	do {
		cr_assert_eq(weka_totals(client, path, &t), 0, "%s", weka_error(client));
		usleep(t.settled ? 0 : 10000);
	} while (!t.settled);
	return t;
}

static bool is(const char *path, uint64_t entries, uint64_t dirs, uint64_t bytes)
{
	const struct weka_totals t = totals(path);

	if (t.entries == entries && t.dirs == dirs && t.bytes == bytes)
		return true;
	cr_log_error("%s: %llu entries, %llu directories, %llu bytes", path,
		     (unsigned long long)t.entries, (unsigned long long)t.dirs,
		     (unsigned long long)t.bytes);
	return false;
}

Test(weka_totals, are_of_all_that_is_below)
{
	cr_assert(is("/", 0, 0, 0));
	cr_assert_eq(weka_mkdir(client, "/a", 0755), 0);
	cr_assert_eq(weka_mkdir(client, "/a/b", 0755), 0);
	cr_assert_eq(weka_mkdir(client, "/a/b/c", 0755), 0);
	put("/a/b/c/deep", 100000);
	put("/a/near", 7);
	cr_assert(is("/", 5, 3, 100007));
	cr_assert(is("/a", 4, 2, 100007));
	cr_assert(is("/a/b", 2, 1, 100000));
	cr_assert_eq(totals("/a/b/c").allocated_bytes, 25 * 4096, "100,000 bytes are 25 blocks");
	cr_assert(is("/a/b/c/deep", 0, 0, 100000), "of a file its own");
}

Test(weka_totals, follow_what_is_replaced_moved_linked_and_removed)
{
	cr_assert_eq(weka_mkdir(client, "/a", 0755), 0);
	cr_assert_eq(weka_mkdir(client, "/a/b", 0755), 0);
	cr_assert_eq(weka_mkdir(client, "/z", 0755), 0);
	put("/a/b/f", 50000);
	put("/a/b/f", 300);
	cr_assert(is("/a", 2, 1, 300), "replaced");
	cr_assert_eq(weka_link(client, "/a/b/f", "/z/g"), 0);
	cr_assert(is("/", 5, 3, 300), "two names, counted once");
	cr_assert_eq(weka_unlink(client, "/a/b/f"), 0);
	cr_assert(is("/a", 1, 1, 0));
	cr_assert(is("/z", 1, 0, 300), "by the name that is left");
	cr_assert_eq(weka_rename(client, "/z", "/a/b/z"), 0);
	cr_assert(is("/a", 3, 2, 300), "moved, with what is in it");
	cr_assert_eq(weka_rmtree(client, "/a/b"), 0);
	cr_assert(is("/", 1, 1, 0), "removed at once");
}

Test(weka_totals, of_what_is_not_there_are_errors)
{
	struct weka_totals t;

	put("/f", 1);
	cr_assert_eq(weka_totals(client, "/none", &t), -ENOENT);
	cr_assert_eq(weka_totals(client, "/f/x", &t), -ENOTDIR);
}
