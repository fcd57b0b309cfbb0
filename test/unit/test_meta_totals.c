/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Totals of whole trees, operation by operation: what changed is there after one round, at every
 * directory above, and the check proves the store's own sums each time.
 */
#include "meta/plans/meta_plan.h"
#include "test/lib/meta_shell.h"
#include "test/unit/meta_tx_fake.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define BLOCK 4096u

static struct meta_world *w;
static struct meta_attr a;
static uint8_t bytes[40 * BLOCK];

static void setup(void)
{
	w = meta_world_fake(77, 10, 5);
	cr_assert_eq(sh_mkdir(w, "a"), 0);
	cr_assert_eq(sh_mkdir(w, "a/b"), 0);
	cr_assert_eq(sh_mkdir(w, "c"), 0);
	cr_assert_eq(sh_put(w, "a/b/f", 0, bytes, 5 * BLOCK), 0);
}

static void teardown(void)
{
	w->end(w);
}

TestSuite(meta_totals, .init = setup, .fini = teardown);

static struct meta_totals of(const char *path)
{
	struct meta_totals t;
	struct meta_op op = sh_op(META_OP_TOTALS, path);

	op.totals = &t;
	cr_assert_eq(meta_world_run(w, &op), 0, "%s: %d", path, op.status);
	return t;
}

/* All is passed up; then this is below `path`. */
static bool is(const char *path, uint64_t entries, uint64_t dirs, uint64_t size, uint64_t blocks)
{
	struct meta_totals t;

	meta_world_settle(w);
	t = of(path);
	if (!t.settled || t.entries != entries || t.dirs != dirs || t.bytes != size ||
	    t.blocks != blocks) {
		fprintf(stderr, "%s: %llu entries, %llu directories, %llu bytes, %llu blocks%s\n",
			path, (unsigned long long)t.entries, (unsigned long long)t.dirs,
			(unsigned long long)t.bytes, (unsigned long long)t.blocks,
			t.settled ? "" : ", not settled");
		return false;
	}
	return true;
}

static struct meta_handle handle(const char *path)
{
	cr_assert_eq(sh_stat(w, path, META_NOFOLLOW, &a), 0);
	return a.handle;
}

static uint64_t dir_of(const char *path)
{
	(void)handle(path);
	return a.dir;
}

static int rmtree(const char *path)
{
	struct meta_op op = sh_op(META_OP_RMTREE, path);

	return meta_world_run(w, &op);
}

Test(meta_totals, what_is_put_reaches_all_above_in_one_round)
{
	cr_assert(is("a/b", 1, 0, 5 * BLOCK, 5));
	cr_assert(is("a", 2, 1, 5 * BLOCK, 5));
	cr_assert(is("/", 4, 3, 5 * BLOCK, 5));
	cr_assert(is("c", 0, 0, 0, 0));
	cr_assert(is("a/b/f", 0, 0, 5 * BLOCK, 5));
}

Test(meta_totals, until_a_round_only_the_directory_itself_knows)
{
	meta_world_settle(w);
	cr_assert_eq(sh_put(w, "a/b/g", 0, bytes, BLOCK), 0);
	cr_assert_eq(of("a/b").entries, 2);
	cr_assert_not(of("a/b").settled);
	cr_assert_eq(of("a").entries, 2);
	cr_assert(is("a", 3, 1, 6 * BLOCK, 6));
}

Test(meta_totals, what_is_replaced_counts_no_more)
{
	cr_assert_eq(sh_put(w, "a/b/f", 0, bytes, 2 * BLOCK), 0);
	cr_assert(is("/", 4, 3, 2 * BLOCK, 2));
	cr_assert_eq(sh_put(w, "a/b/f", 0, bytes, 100), 0); /* inline */
	cr_assert(is("/", 4, 3, 100, 0));
}

Test(meta_totals, what_is_put_in_pieces_counts_from_its_commit_on)
{
	struct meta_handle h;

	cr_assert_eq(sh_put_begin(w, "a/b/p", &h), 0);
	cr_assert_eq(sh_write(w, &h, 0, bytes, 3 * BLOCK, 3 * BLOCK), 0);
	cr_assert(is("a", 2, 1, 5 * BLOCK, 5));
	cr_assert_eq(sh_put_commit(w, &h, "a/b/p"), 0);
	cr_assert(is("a", 3, 1, 8 * BLOCK, 8));
	cr_assert_eq(sh_put_begin(w, "a/b/q", &h), 0);
	cr_assert_eq(sh_write(w, &h, 0, bytes, BLOCK, BLOCK), 0);
	cr_assert_eq(sh_put_abort(w, &h), 0);
	cr_assert(is("a", 3, 1, 8 * BLOCK, 8));
}

Test(meta_totals, writes_and_cuts_and_holes_change_the_directory_above)
{
	const struct meta_handle h = handle("a/b/f");

	cr_assert_eq(sh_write(w, &h, 5 * BLOCK, bytes, 2 * BLOCK, 7 * BLOCK), 0);
	cr_assert(is("/", 4, 3, 7 * BLOCK, 7));
	cr_assert_eq(sh_write(w, &h, 0, bytes, BLOCK, 0), 0); /* over old blocks */
	cr_assert(is("/", 4, 3, 7 * BLOCK, 7));
	cr_assert_eq(sh_punch(w, &h, 0, 2 * BLOCK), 0);
	cr_assert(is("/", 4, 3, 7 * BLOCK, 5));
	cr_assert_eq(sh_truncate(w, &h, 3 * BLOCK), 0);
	cr_assert(is("/", 4, 3, 3 * BLOCK, 1));
	cr_assert_eq(sh_truncate(w, &h, 9 * BLOCK), 0);
	cr_assert(is("a", 2, 1, 9 * BLOCK, 1));
}

Test(meta_totals, a_tail_that_grows_counts_its_bytes)
{
	struct meta_op op = sh_op(META_OP_WRITE, "a/b/f");

	op.offset = 5 * BLOCK;
	op.size = 5 * BLOCK + 700;
	op.flags = META_BY_INLINE;
	op.inline_buf = bytes;
	op.inline_len = 700;
	cr_assert_eq(meta_world_run(w, &op), 0);
	cr_assert(is("a", 2, 1, 5 * BLOCK + 700, 5));
}

Test(meta_totals, what_is_cut_in_steps_is_exact_when_it_is_done)
{
	struct meta_handle h;
	uint64_t blocks = 5;

	cr_assert_eq(sh_put(w, "a/b/wide", 0, "", 0), 0);
	h = handle("a/b/wide");
	for (uint64_t i = 0; i < 40; i++, blocks++) /* an extent each */
		cr_assert_eq(sh_write(w, &h, i * META_CHUNK_BLOCKS * BLOCK, bytes, BLOCK,
				      i * META_CHUNK_BLOCKS * BLOCK + BLOCK),
			     0);
	cr_assert(is("a", 3, 1, 5 * BLOCK + 39ull * META_CHUNK_BLOCKS * BLOCK + BLOCK, blocks));
	cr_assert_eq(sh_truncate(w, &h, BLOCK), 0);
	cr_assert(is("a", 3, 1, 6 * BLOCK, 6));
	cr_assert_eq(sh_unlink(w, "a/b/wide"), 0);
	cr_assert(is("a", 2, 1, 5 * BLOCK, 5));
}

Test(meta_totals, symlinks_and_directories_are_entries)
{
	cr_assert_eq(sh_symlink(w, "where it leads", "a/b/s"), 0);
	cr_assert_eq(sh_mkdir(w, "a/b/d"), 0);
	cr_assert(is("a", 4, 2, 5 * BLOCK + 14, 5));
	cr_assert_eq(sh_rmdir(w, "a/b/d"), 0);
	cr_assert_eq(sh_unlink(w, "a/b/s"), 0);
	cr_assert_eq(sh_unlink(w, "a/b/f"), 0);
	cr_assert(is("a", 1, 1, 0, 0));
	cr_assert(is("/", 3, 3, 0, 0));
}

Test(meta_totals, a_directory_is_removed_with_what_it_had_passed_up)
{
	cr_assert(is("a", 2, 1, 5 * BLOCK, 5));
	cr_assert_eq(sh_unlink(w, "a/b/f"), 0); /* not passed up yet */
	cr_assert_eq(sh_rmdir(w, "a/b"), 0);
	cr_assert(is("a", 0, 0, 0, 0));
	cr_assert(is("/", 2, 2, 0, 0));
}

Test(meta_totals, a_file_is_counted_where_it_went)
{
	cr_assert(is("a", 2, 1, 5 * BLOCK, 5));
	cr_assert_eq(sh_rename(w, "a/b/f", "c/g", 0), 0);
	cr_assert(is("a", 1, 1, 0, 0));
	cr_assert(is("c", 1, 0, 5 * BLOCK, 5));
	cr_assert(is("/", 4, 3, 5 * BLOCK, 5));
	cr_assert_eq(sh_put(w, "a/h", 0, bytes, BLOCK), 0);
	cr_assert_eq(sh_rename(w, "a/h", "c/g", 0), 0); /* over it */
	cr_assert(is("c", 1, 0, BLOCK, 1));
	cr_assert(is("/", 4, 3, BLOCK, 1));
	cr_assert_eq(
		sh_write(w,
			 &(struct meta_handle){ handle("c/g").dir, a.handle.hash, a.handle.uniq },
			 BLOCK, bytes, BLOCK, 2 * BLOCK),
		0);
	cr_assert(is("c", 1, 0, 2 * BLOCK, 2)); /* though it was born elsewhere */
}

Test(meta_totals, a_tree_is_counted_where_it_went)
{
	meta_world_settle(w);
	cr_assert_eq(sh_rename(w, "a/b", "c/b", 0), 0);
	cr_assert(is("a", 0, 0, 0, 0));
	cr_assert(is("c", 2, 1, 5 * BLOCK, 5));
	cr_assert_eq(sh_mkdir(w, "a/e"), 0);
	meta_world_settle(w);
	cr_assert_eq(sh_rename(w, "c/b", "a/e", 0), 0); /* over an empty one */
	cr_assert(is("a", 2, 1, 5 * BLOCK, 5));
	cr_assert(is("c", 0, 0, 0, 0));
	cr_assert(is("/", 4, 3, 5 * BLOCK, 5));
}

Test(meta_totals, what_is_exchanged_is_counted_where_it_went)
{
	cr_assert_eq(sh_mkdir(w, "c/d"), 0);
	cr_assert_eq(sh_put(w, "c/d/x", 0, bytes, BLOCK), 0);
	cr_assert_eq(sh_put(w, "c/y", 0, bytes, 2 * BLOCK), 0);
	meta_world_settle(w);
	cr_assert_eq(sh_rename(w, "a/b/f", "c/y", META_EXCHANGE), 0);
	cr_assert(is("a", 2, 1, 2 * BLOCK, 2));
	cr_assert(is("c", 3, 1, 6 * BLOCK, 6));
	cr_assert_eq(sh_rename(w, "a/b", "c/d", META_EXCHANGE), 0);
	cr_assert(is("a", 2, 1, BLOCK, 1));
	cr_assert(is("c", 3, 1, 7 * BLOCK, 7));
	cr_assert_eq(sh_rename(w, "a", "c/y", META_EXCHANGE), 0); /* a directory and a file */
	cr_assert(is("c", 5, 3, 3 * BLOCK, 3));
	cr_assert(is("/", 7, 4, 8 * BLOCK, 8));
}

Test(meta_totals, a_file_with_several_names_is_counted_once)
{
	cr_assert_eq(sh_link(w, "a/b/f", "c/g"), 0);
	cr_assert_eq(sh_link(w, "a/b/f", "c/h"), 0);
	cr_assert(is("/", 6, 3, 5 * BLOCK, 5));
	cr_assert(is("c", 2, 0, 0, 0));
	cr_assert_eq(sh_unlink(w, "a/b/f"), 0); /* another counts it from now on */
	cr_assert(is("a", 1, 1, 0, 0));
	cr_assert(is("c", 2, 0, 5 * BLOCK, 5));
	cr_assert_eq(sh_unlink(w, "c/g"), 0);
	cr_assert(is("c", 1, 0, 5 * BLOCK, 5));
	cr_assert_eq(meta_fake_kind(w, META__KIND_LINKS), 0);
	cr_assert_eq(sh_rename(w, "c/h", "a/h", 0), 0);
	cr_assert(is("a", 2, 1, 5 * BLOCK, 5));
	cr_assert_eq(sh_unlink(w, "a/h"), 0);
	cr_assert(is("/", 3, 3, 0, 0));
}

Test(meta_totals, one_of_several_names_moves)
{
	cr_assert_eq(sh_link(w, "a/b/f", "a/b/g"), 0);
	cr_assert_eq(sh_rename(w, "a/b/g", "c/g", 0), 0); /* not the one that counts */
	cr_assert(is("a", 2, 1, 5 * BLOCK, 5));
	cr_assert(is("c", 1, 0, 0, 0));
	cr_assert_eq(sh_rename(w, "a/b/f", "a/f", 0), 0); /* the last there */
	cr_assert(is("a/b", 0, 0, 0, 0));
	cr_assert(is("a", 2, 1, 5 * BLOCK, 5));
	cr_assert_eq(sh_put(w, "a/f", 0, bytes, BLOCK), 0); /* in its place */
	cr_assert(is("a", 2, 1, BLOCK, 1));
	cr_assert(is("c", 1, 0, 5 * BLOCK, 5));
	cr_assert_eq(meta_fake_kind(w, META__KIND_LINKS), 0);
}

Test(meta_totals, a_tree_goes_at_once_and_nothing_of_it_is_counted_again)
{
	cr_assert_eq(sh_mkdir(w, "a/b/d"), 0);
	cr_assert_eq(sh_put(w, "a/b/d/x", 0, bytes, BLOCK), 0);
	cr_assert_eq(sh_link(w, "a/b/d/x", "c/x"), 0);
	cr_assert_eq(sh_link(w, "a/b/d/x", "a/b/d/y"), 0);
	cr_assert_eq(sh_link(w, "a/b/f", "a/b/f2"), 0);
	cr_assert(is("/", 9, 4, 6 * BLOCK, 6));
	cr_assert_eq(rmtree("a/b"), 0);
	cr_assert(is("a", 0, 0, 0, 0));
	cr_assert(is("c", 1, 0, BLOCK, 1)); /* what has a name elsewhere */
	cr_assert(is("/", 3, 2, BLOCK, 1));
	cr_assert_eq(meta_fake_kind(w, META__KIND_LINKS), 0);
}

Test(meta_totals, a_mount_passes_up_what_was_not)
{
	cr_assert_eq(sh_put(w, "a/b/g", 0, bytes, BLOCK), 0);
	w->remount(w);
	cr_assert_not(of("/").settled);
	cr_assert(is("/", 5, 3, 6 * BLOCK, 6));
}

Test(meta_totals, who_changes_all_the_time_is_passed_up_once_in_a_round)
{
	uint64_t before;

	meta_world_settle(w);
	cr_assert_eq(sh_put(w, "a/b/g", 0, bytes, BLOCK), 0);
	meta_totals_round(w->m);
	for (uint32_t i = 0; i < 200; i++) {
		cr_assert_eq(sh_truncate(w,
					 &(struct meta_handle){ handle("a/b/g").dir, a.handle.hash,
								a.handle.uniq },
					 (2 + i) * BLOCK),
			     0);
		w->step(w);
	}
	before = of("a").bytes;
	cr_assert_lt(before, 5 * BLOCK + 201 * BLOCK, "it waits for the next round");
	cr_assert(is("a", 3, 1, 5 * BLOCK + 201 * BLOCK, 6));
}

Test(meta_totals, a_deep_tree_is_exact_after_one_round)
{
	char path[200] = "c";

	teardown();
	w = meta_world_fake(78, 0, 0); /* so deep a path would not be without a miss */
	cr_assert_eq(sh_mkdir(w, "c"), 0);
	for (uint32_t i = 0; i < 40; i++) {
		memcpy(path + strlen(path), "/d", 3);
		cr_assert_eq(sh_mkdir(w, path), 0);
	}
	meta_world_settle(w);
	memcpy(path + strlen(path), "/f", 3);
	cr_assert_eq(sh_put(w, path, 0, bytes, BLOCK), 0);
	meta_totals_round(w->m);
	for (uint32_t i = 0; i < 5000 && meta_totals_pending(w->m); i++) {
		w->step(w);
		cr_assert_null(meta_op_poll(w->m));
	}
	cr_assert_not(meta_totals_pending(w->m));
	cr_assert_eq(of("c").entries, 41);
	cr_assert_eq(of("c").bytes, BLOCK);
	cr_assert_eq(of("/").bytes, BLOCK);
}

/* As one makes it who goes down by directory numbers: no path is so long. */
Test(meta_totals, a_tree_deeper_than_a_round_goes_is_exact_after_some)
{
	uint64_t dir = dir_of("c");
	uint32_t rounds = 0;

	for (uint32_t i = 0; i < 1500; i++) {
		struct meta_op op = sh_op(META_OP_MKDIR, "d");

		op.target.dir = dir;
		cr_assert_eq(meta_world_run(w, &op), 0);
		dir = op.attr.dir;
	}
	while (meta_totals_pending(w->m)) {
		meta_totals_round(w->m);
		for (rounds++; w->m->ops->passes; w->step(w))
			cr_assert_null(meta_op_poll(w->m));
		cr_assert_lt(rounds, 10);
	}
	cr_assert_gt(rounds, 1);
	cr_assert(is("c", 1500, 1500, 0, 0));
	cr_assert(is("/", 1504, 1503, 5 * BLOCK, 5));
}

Test(meta_totals, nothing_is_exact_while_a_tree_goes)
{
	cr_assert_eq(sh_link(w, "a/b/f", "c/g"), 0);
	meta_world_settle(w);
	meta_fake_orphans(w, META__NEEDS_ROOM);
	cr_assert_eq(rmtree("a/b"), 0);
	for (uint32_t rounds = 0; meta_totals_pending(w->m); rounds++) {
		cr_assert_lt(rounds, 10);
		meta_totals_round(w->m);
		for (; w->m->ops->passes; w->step(w))
			cr_assert_null(meta_op_poll(w->m));
	}
	cr_assert_eq(of("c").bytes, 0, "it is counted where it goes");
	cr_assert_not(of("c").settled);
	meta_fake_orphans(w, 0);
	cr_assert(is("c", 1, 0, 5 * BLOCK, 5));
}

Test(meta_totals, of_what_is_not_there_is_an_error)
{
	struct meta_totals t;
	struct meta_op op = sh_op(META_OP_TOTALS, "a/none");

	op.totals = &t;
	cr_assert_eq(meta_world_run(w, &op), -ENOENT);
}
