/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A local tree is found whole, and cut into pieces. */
#define _GNU_SOURCE
#include "bench/bench_tree.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/test-bench-tree.XXXXXX";
static struct bench_tree tree;

static void setup(void)
{
	cr_redirect_stderr();
	cr_assert_not_null(mkdtemp(root));
}

static void teardown(void)
{
	bench_tree_free(&tree);
	bench_tree_remove(root);
}

TestSuite(bench_tree, .init = setup, .fini = teardown);

static void path_of(char out[256], const char *name)
{
	snprintf(out, 256, "%s/%s", root, name);
}

static void put(const char *name, off_t size)
{
	char path[256];
	int fd;

	path_of(path, name);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	cr_assert_geq(fd, 0);
	cr_assert_eq(ftruncate(fd, size), 0);
	close(fd);
}

static void link_to(const char *name, const char *target)
{
	char path[256];

	path_of(path, name);
	cr_assert_eq(symlink(target, path), 0);
}

static const struct bench_tree_entry *entry(const char *name)
{
	for (size_t i = 0; i < tree.entry_count; i++)
		if (strcmp(tree.entry[i].name, name) == 0)
			return &tree.entry[i];
	return NULL;
}

Test(bench_tree, has_files_directories_and_links_to_its_own_files)
{
	char path[256];

	path_of(path, "dir");
	cr_assert_eq(mkdir(path, 0700), 0);
	put("dir/one", 10);
	put("empty", 0);
	link_to("dir/near", "one");
	link_to("up", "dir/../empty");
	path_of(path, "empty");
	link_to("absolute", path);
	link_to("outside", "../../etc/passwd");
	link_to("dangling", "nothing");
	link_to("to_dir", "dir");
	cr_assert_eq(bench_tree_load(&tree, root, 100), 0);
	cr_assert_eq(tree.entry_count, 5);
	cr_assert_eq(entry("dir")->kind, BENCH_TREE_DIR);
	cr_assert_eq(entry("dir/one")->kind, BENCH_TREE_FILE);
	cr_assert_eq(entry("dir/near")->kind, BENCH_TREE_LINK);
	cr_assert_eq(entry("dir/near")->size_bytes, 10);
	cr_assert_lt(entry("dir"), entry("dir/one"), "a directory before what it holds");
	cr_assert_eq(tree.files, 4);
	cr_assert_eq(tree.piece_count, 4);
	cr_assert_eq(tree.bytes, 20);
}

Test(bench_tree, cuts_large_files_into_pieces_that_cover_them)
{
	uint64_t at = 0, firsts = 0;

	put("large", 1000);
	cr_assert_eq(bench_tree_load(&tree, root, 300), 0);
	cr_assert_eq(tree.piece_count, 4);
	cr_assert_eq(tree.files, 1);
	for (size_t i = 0; i < 4; i++) {
		cr_assert_eq(tree.piece[i].offset_bytes, at);
		at += tree.piece[i].length_bytes;
		firsts += tree.piece[i].first;
	}
	cr_assert_eq(at, 1000);
	cr_assert_eq(firsts, 1);
}

Test(bench_tree, is_made_as_large_as_asked)
{
	cr_assert_eq(bench_tree_make(root, 101), 0);
	cr_assert_eq(bench_tree_load(&tree, root, 1 << 20), 0);
	cr_assert_eq(tree.files, 101);
	cr_assert_eq(tree.entry_count, 103);
	cr_assert_geq(tree.bytes, 101 * 4096);
	cr_assert_leq(tree.bytes, 101 * 131072);
	bench_tree_remove(root);
	cr_assert_neq(access(root, F_OK), 0);
}

Test(bench_tree, without_files_is_refused)
{
	cr_assert_neq(bench_tree_load(&tree, root, 100), 0);
	bench_tree_free(&tree);
	cr_assert_neq(bench_tree_load(&tree, "/nowhere/at/all", 100), 0);
}
