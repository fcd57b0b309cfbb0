/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "meta/plans/meta_plan.h"
#include "test/lib/meta_shell.h"
#include "test/unit/meta_tx_fake.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct meta_world *w;
static struct meta_attr a, b;

static void setup(void)
{
	w = meta_world_fake(12, 10, 5);
}

static void teardown(void)
{
	w->end(w);
}

TestSuite(meta_dir, .init = setup, .fini = teardown);

Test(meta_dir, a_directory_is_made_counted_and_removed)
{
	const uint64_t before = meta_fake_records(w);

	cr_assert_eq(sh_mkdir(w, "d"), 0);
	cr_assert_eq(meta_fake_records(w), before + 3); /* name, inode, directory */
	cr_assert_eq(sh_mkdir(w, "d"), -EEXIST);
	cr_assert_eq(sh_put(w, "d/a", 0, "x", 1), 0);
	cr_assert_eq(sh_mkdir(w, "d/b"), 0);
	cr_assert_eq(sh_stat(w, "d", 0, &a), 0);
	cr_assert_eq(a.size, 2);
	cr_assert_eq(sh_rmdir(w, "d"), -ENOTEMPTY);
	cr_assert_eq(sh_rmdir(w, "d/a"), -ENOTDIR);
	cr_assert_eq(sh_unlink(w, "d/b"), -EISDIR);
	cr_assert_eq(sh_rmdir(w, "d/b"), 0);
	cr_assert_eq(sh_unlink(w, "d/a"), 0);
	cr_assert_eq(sh_rmdir(w, "d"), 0);
	cr_assert_eq(meta_fake_records(w), before);
	cr_assert_eq(sh_stat_handle(w, &a.handle, &b), -ESTALE);
}

static uint32_t links_of(const char *path)
{
	cr_assert_eq(sh_stat(w, path, 0, &a), 0);
	return a.nlink;
}

Test(meta_dir, has_two_links_and_one_for_each_directory_in_it)
{
	cr_assert_eq(links_of("/"), 2);
	cr_assert_eq(sh_mkdir(w, "d"), 0);
	cr_assert_eq(sh_mkdir(w, "e"), 0);
	cr_assert_eq(links_of("/"), 4);
	cr_assert_eq(links_of("d"), 2);
	cr_assert_eq(sh_put(w, "d/f", 0, "x", 1), 0);
	cr_assert_eq(sh_link(w, "d/f", "d/g"), 0);
	cr_assert_eq(sh_symlink(w, "/e", "d/s"), 0);
	cr_assert_eq(links_of("d"), 2, "files count for nothing");
	cr_assert_eq(sh_mkdir(w, "d/a"), 0);
	cr_assert_eq(sh_mkdir(w, "d/b"), 0);
	cr_assert_eq(links_of("d"), 4);
	cr_assert_eq(links_of("/"), 4);
	cr_assert_eq(sh_rename(w, "d/a", "d/c", 0), 0);
	cr_assert_eq(links_of("d"), 4);
	cr_assert_eq(sh_rename(w, "d/c", "d/b", 0), 0, "an empty one is replaced");
	cr_assert_eq(links_of("d"), 3);
	cr_assert_eq(sh_rmdir(w, "d/b"), 0);
	cr_assert_eq(links_of("d"), 2);
}

Test(meta_dir, links_move_with_the_directories_that_are_moved)
{
	cr_assert_eq(sh_mkdir(w, "d"), 0);
	cr_assert_eq(sh_mkdir(w, "e"), 0);
	cr_assert_eq(sh_mkdir(w, "d/a"), 0);
	cr_assert_eq(sh_mkdir(w, "d/b"), 0);
	cr_assert_eq(sh_put(w, "e/f", 0, "x", 1), 0);
	cr_assert_eq(sh_rename(w, "d/a", "e/a", 0), 0);
	cr_assert_eq(links_of("d"), 3);
	cr_assert_eq(links_of("e"), 3);
	cr_assert_eq(sh_rename(w, "d/b", "e/a", 0), 0, "it takes another's place");
	cr_assert_eq(links_of("d"), 2);
	cr_assert_eq(links_of("e"), 3);
	cr_assert_eq(sh_put(w, "d/g", 0, "x", 1), 0);
	cr_assert_eq(sh_rename(w, "d/g", "e/f", 0), 0);
	cr_assert_eq(links_of("e"), 3);
	cr_assert_eq(sh_put(w, "d/g", 0, "x", 1), 0);
	cr_assert_eq(sh_rename(w, "e/a", "d/g", META_EXCHANGE), 0);
	cr_assert_eq(links_of("d"), 3);
	cr_assert_eq(links_of("e"), 2);
	cr_assert_eq(sh_rename(w, "e/a", "d/g", META_EXCHANGE), 0);
	cr_assert_eq(links_of("d"), 2);
	cr_assert_eq(links_of("e"), 3);
	cr_assert_eq(sh_mkdir(w, "d/h"), 0);
	cr_assert_eq(sh_rename(w, "d/h", "e/a", META_EXCHANGE), 0);
	cr_assert_eq(links_of("d"), 3);
	cr_assert_eq(links_of("e"), 3);
	cr_assert_eq(sh_rename(w, "e/a", "e/f", META_EXCHANGE), 0, "of one directory");
	cr_assert_eq(links_of("e"), 3);
}

Test(meta_dir, dots_are_not_made_nor_removed)
{
	cr_assert_eq(sh_mkdir(w, "."), -EEXIST);
	cr_assert_eq(sh_mkdir(w, "/.."), -EEXIST);
	cr_assert_eq(sh_mkdir(w, "/"), -EEXIST);
	cr_assert_eq(sh_rmdir(w, "."), -EINVAL);
	cr_assert_eq(sh_rmdir(w, ".."), -ENOTEMPTY);
	cr_assert_eq(sh_rmdir(w, "/"), -EINVAL);
	cr_assert_eq(sh_unlink(w, "."), -EISDIR);
	cr_assert_eq(sh_put(w, "..", 0, "x", 1), -EISDIR);
	cr_assert_eq(sh_put(w, "new/", 0, "x", 1), -EISDIR);
}

Test(meta_dir, nothing_is_made_in_a_directory_that_is_gone)
{
	struct meta_op op = sh_op(META_OP_MKDIR, "x");

	cr_assert_eq(sh_mkdir(w, "d"), 0);
	cr_assert_eq(sh_stat(w, "d", 0, &a), 0);
	cr_assert_eq(sh_rmdir(w, "d"), 0);
	op.target.dir = a.dir;
	cr_assert_eq(meta_world_run(w, &op), -ENOENT);
	cr_assert_eq(sh_mkdir(w, "d"), 0);
	cr_assert_eq(sh_stat(w, "d", 0, &b), 0);
	cr_assert_neq(a.dir, b.dir); /* a number is used once */
	cr_assert_eq(meta_world_run(w, &op), -ENOENT);
}

Test(meta_dir, directories_spread_over_shards)
{
	uint64_t seen = 0;
	char name[20];

	for (int i = 0; i < 64; i++) {
		snprintf(name, sizeof(name), "d%d", i);
		cr_assert_eq(sh_mkdir(w, name), 0);
		cr_assert_eq(sh_stat(w, name, 0, &a), 0);
		seen |= 1ull << meta__dir_shard(w->m, a.dir);
	}
	cr_assert_eq(seen, 0xff); /* all 8 */
}

/* ---- listing ------------------------------------------------------------------------------ */

#define FILES 200

static bool seen[2 * FILES];
static _Alignas(8) uint8_t buf[2048];

static void name_of(int i, char *out)
{
	snprintf(out, 16, "file-%03d", i);
}

/* One page of a listing; each name is seen once. */
static int list_page(struct meta_op *op)
{
	int rc = meta_world_run(w, op);

	for (uint32_t i = 0, at = 0; !rc && i < op->list_count; i++) {
		struct meta_dirent e;
		int n;

		memcpy(&e, buf + at, sizeof(e));
		cr_assert_eq(sscanf((char *)buf + at + sizeof(e), "file-%d", &n), 1);
		cr_assert_not(seen[n], "file-%d comes twice", n);
		seen[n] = true;
		cr_assert_eq(e.attr.size, (uint64_t)(n % 7));
		at += e.entry_bytes;
	}
	return rc;
}

static void make(int from, int to)
{
	char name[16];

	for (int i = from; i < to; i++) {
		name_of(i, name);
		cr_assert_eq(sh_put(w, name, 0, "1234567", (uint64_t)(i % 7)), 0);
	}
}

Test(meta_dir, what_stays_is_listed_once_while_others_come_and_go)
{
	struct meta_op op = sh_op(META_OP_LIST, "/");
	char name[16], to[16];
	int other = FILES;

	make(0, FILES);
	op.list_out = buf;
	op.list_max_bytes = sizeof(buf);
	for (int gone = 0; !op.list_end; gone += 2) {
		cr_assert_eq(list_page(&op), 0);
		name_of(gone, name);
		name_of(other + 1, to);
		cr_assert_eq(sh_unlink(w, name), 0);
		make(other, other + 1);
		name_of(gone + 1, name);
		seen[other] = true; /* came meanwhile: may be listed or not; not asked */
		cr_assert_eq(sh_stat(w, name, 0, &a), 0);
		seen[other] = false;
		other++;
		cr_assert_lt(other, 2 * FILES);
	}
	for (int i = 1; i < FILES; i += 2)
		cr_assert(seen[i], "file-%d was there throughout", i);
}

Test(meta_dir, a_listing_of_renamed_files_finds_their_inodes_elsewhere)
{
	char name[16], from[32], to[32];
	struct meta_op op = sh_op(META_OP_LIST, "/to");

	cr_assert_eq(sh_mkdir(w, "from"), 0);
	cr_assert_eq(sh_mkdir(w, "to"), 0);
	for (int i = 0; i < FILES; i++) {
		name_of(i, name);
		snprintf(from, sizeof(from), "from/%s", name);
		cr_assert_eq(sh_put(w, from, 0, "1234567", (uint64_t)(i % 7)), 0);

		snprintf(to, sizeof(to), "to/%s", name);
		cr_assert_eq(sh_rename(w, from, to, 0), 0);
	}
	op.list_out = buf;
	op.list_max_bytes = sizeof(buf);
	while (!op.list_end)
		cr_assert_eq(list_page(&op), 0);
	for (int i = 0; i < FILES; i++)
		cr_assert(seen[i]);
	cr_assert_eq(sh_count(w, "from", 0), 0);
}

Test(meta_dir, a_page_without_entries_is_the_end_also_behind_many_objects)
{
	struct meta_op op = sh_op(META_OP_LIST, "/");
	char name[16], to[32];
	uint32_t pages = 0;

	cr_assert_eq(sh_mkdir(w, "to"), 0);
	for (int i = 0; i < 5000; i++) { /* more than one plan passes over */
		snprintf(name, sizeof(name), "%d", i);
		snprintf(to, sizeof(to), "to/%d", i);
		cr_assert_eq(sh_put(w, name, META_EXCL, "x", 1), 0);
		cr_assert_eq(sh_rename(w, name, to, 0), 0);
	}
	op.list_out = buf;
	op.list_max_bytes = sizeof(buf);
	for (; !op.list_end; pages++) {
		cr_assert_eq(meta_world_run(w, &op), 0);
		cr_assert(op.list_count > 0 || op.list_end);
	}
	cr_assert_leq(pages, 2);
	cr_assert_eq(sh_count(w, "/", 0), 1);
}

Test(meta_dir, a_listing_passes_over_the_extents_of_large_files)
{
	static uint8_t bytes[3 << 20];

	cr_assert_eq(sh_put(w, "a", 0, bytes, sizeof(bytes)), 0);
	cr_assert_eq(sh_put(w, "b", 0, bytes, sizeof(bytes)), 0);
	cr_assert_eq(sh_put(w, "c", 0, bytes, 1), 0);
	cr_assert_eq(sh_count(w, "/", 0), 3);
	cr_assert_eq(sh_count(w, "/", 1), 3);
	cr_assert_eq(sh_count(w, "a", 1), -ENOTDIR);
}

Test(meta_dir, a_buffer_for_no_entry_is_an_error_and_a_wild_cookie_too)
{
	struct meta_op op = sh_op(META_OP_LIST, "/");

	make(0, 3);
	op.list_out = buf;
	op.list_max_bytes = 64;
	cr_assert_eq(meta_world_run(w, &op), -EINVAL);
	op.list_max_bytes = sizeof(buf);
	op.cookie.hash = 1ull << 40;
	cr_assert_eq(meta_world_run(w, &op), -EINVAL);
	op.cookie = (struct meta_cookie){ .hash = META__MASK40, .uniq = META__MASK40 };
	cr_assert_eq(meta_world_run(w, &op), 0);
	cr_assert(op.list_end);
	cr_assert_eq(op.list_count, 0);
}

/* From seed 3 of ten simulated minutes: a page asked for by path behind an exchange. */
Test(meta_dir, a_listing_goes_on_in_its_own_directory_only)
{
	struct meta_op op = sh_op(META_OP_LIST, "d");
	char name[16];

	cr_assert_eq(sh_mkdir(w, "d"), 0);
	cr_assert_eq(sh_mkdir(w, "e"), 0);
	for (int i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "%s/%d", i % 2 ? "d" : "e", i);
		cr_assert_eq(sh_put(w, name, META_EXCL, "x", 1), 0);
	}
	op.list_out = buf;
	op.list_max_bytes = sizeof(buf);
	op.list_max_entries = 3;
	cr_assert_eq(meta_world_run(w, &op), 0);
	cr_assert_eq(op.list_count, 3);
	cr_assert_eq(sh_rename(w, "d", "e", META_EXCHANGE), 0);
	cr_assert_eq(meta_world_run(w, &op), -ESTALE);
	cr_assert_eq(op.list_count, 0);
	op.target = sh_op(META_OP_LIST, "e").target;
	cr_assert_eq(meta_world_run(w, &op), 0);
	cr_assert_eq(op.list_count, 2);
	cr_assert(op.list_end);
}

Test(meta_dir, times_of_a_directory_follow_its_entries_and_setattr)
{
	struct meta_op op = sh_op(META_OP_SETATTR, "d");

	cr_assert_eq(sh_mkdir(w, "d"), 0);
	cr_assert_eq(sh_stat(w, "d", 0, &a), 0);
	cr_assert_eq(sh_put(w, "d/f", 0, "x", 1), 0);
	cr_assert_eq(sh_stat(w, "d", 0, &b), 0);
	cr_assert_gt(b.mtime_ns, a.mtime_ns);
	cr_assert_gt(b.ctime_ns, a.ctime_ns);
	op.set_mask = META_SET_MTIME;
	op.set.mtime_ns = 5;
	op.wall_ns = b.ctime_ns + 10;
	cr_assert_eq(meta_world_run(w, &op), 0);
	cr_assert_eq(sh_stat(w, "d", 0, &a), 0);
	cr_assert_eq(a.mtime_ns, 5);
	cr_assert_eq(a.ctime_ns, b.ctime_ns + 10);
	cr_assert_eq(sh_unlink(w, "d/f"), 0);
	cr_assert_eq(sh_stat(w, "d", 0, &b), 0);
	cr_assert_gt(b.mtime_ns, 5);
}
