/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "meta/plans/meta_plan.h"
#include "test/lib/meta_shell.h"
#include "test/unit/meta_tx_fake.h"

#include <criterion/criterion.h>

static struct meta_world *w;
static struct meta_attr a, b;
static uint8_t bytes[200000];

static void setup(void)
{
	w = meta_world_fake(14, 10, 5);
	cr_assert_eq(sh_mkdir(w, "d"), 0);
	cr_assert_eq(sh_mkdir(w, "e"), 0);
	cr_assert_eq(sh_mkdir(w, "d/full"), 0);
	cr_assert_eq(sh_mkdir(w, "d/empty"), 0);
	cr_assert_eq(sh_put(w, "d/full/x", 0, "x", 1), 0);
	cr_assert_eq(sh_put(w, "d/f", 0, bytes, 20000), 0);
	cr_assert_eq(sh_put(w, "e/g", 0, bytes, 30000), 0);
}

static void teardown(void)
{
	w->end(w);
}

TestSuite(meta_rename, .init = setup, .fini = teardown);

Test(meta_rename, a_file_moves_between_directories_with_its_handle)
{
	cr_assert_eq(sh_stat(w, "d/f", 0, &a), 0);
	cr_assert_eq(sh_rename(w, "d/f", "e/new", 0), 0);
	cr_assert_eq(sh_stat(w, "d/f", 0, &b), -ENOENT);
	cr_assert_eq(sh_stat(w, "e/new", 0, &b), 0);
	cr_assert(meta__handle_eq(&a.handle, &b.handle));
	cr_assert_eq(a.ino, b.ino);
	cr_assert_eq(a.mtime_ns, b.mtime_ns);
	cr_assert_gt(b.ctime_ns, a.ctime_ns);
	cr_assert_eq(sh_stat(w, "d", 0, &a), 0);
	cr_assert_eq(a.size, 2);
	cr_assert_eq(sh_stat(w, "e", 0, &a), 0);
	cr_assert_eq(a.size, 2);
}

Test(meta_rename, the_file_in_the_way_is_freed)
{
	cr_assert_eq(sh_stat(w, "e/g", 0, &a), 0);
	cr_assert_eq(sh_rename(w, "d/f", "e/g", META_EXCL), -EEXIST);
	cr_assert_eq(sh_rename(w, "d/f", "e/g", 0), 0);
	cr_assert_eq(sh_stat_handle(w, &a.handle, &b), -ESTALE);
	cr_assert_eq(meta_fake_live(w), 5);
	cr_assert_eq(sh_count(w, "e", 0), 1);
	cr_assert_eq(sh_count(w, "d", 0), 2);
}

Test(meta_rename, a_file_onto_itself_is_done_already)
{
	cr_assert_eq(sh_stat(w, "d/f", 0, &a), 0);
	cr_assert_eq(sh_rename(w, "d/f", "d/../d/f", 0), 0);
	cr_assert_eq(sh_stat(w, "d/f", 0, &b), 0);
	cr_assert_eq(a.ctime_ns, b.ctime_ns);
	cr_assert_eq(sh_rename(w, "d/f", "d/f", META_EXCL), -EEXIST);
}

Test(meta_rename, directories_and_files_do_not_replace_each_other)
{
	cr_assert_eq(sh_rename(w, "d/f", "d/empty", 0), -EISDIR);
	cr_assert_eq(sh_rename(w, "d/empty", "d/f", 0), -ENOTDIR);
	cr_assert_eq(sh_rename(w, "d/empty", "d/full", 0), -ENOTEMPTY);
	cr_assert_eq(sh_rename(w, "d/f", "d/new/", 0), -ENOTDIR);
	cr_assert_eq(sh_rename(w, "d/f/", "d/new", 0), -ENOTDIR);
	cr_assert_eq(sh_rename(w, "no", "e/g", 0), -ENOENT);
	cr_assert_eq(sh_rename(w, "d/f", "no/g", 0), -ENOENT);
	cr_assert_eq(sh_rename(w, "d/.", "x", 0), -EINVAL);
	cr_assert_eq(sh_rename(w, "d/f", "..", 0), -EINVAL);
	cr_assert_eq(sh_rename(w, "/", "x", 0), -EINVAL);
	cr_assert_eq(sh_rename(w, "d/f", "/", 0), -EINVAL);
	cr_assert_eq(sh_rename(w, "d/f", "e/g", META_EXCL | META_EXCHANGE), -EINVAL);
}

Test(meta_rename, a_directory_moves_with_all_that_is_in_it)
{
	cr_assert_eq(sh_rename(w, "d/full/", "d/moved/", 0), 0);
	cr_assert_eq(sh_stat(w, "d/moved/x", 0, &a), 0);
	cr_assert_eq(sh_rename(w, "d/moved", "e/full", 0), 0);
	cr_assert_eq(sh_stat(w, "d/moved", 0, &a), -ENOENT);
	cr_assert_eq(sh_stat(w, "e/full/x", 0, &a), 0);
	cr_assert_eq(sh_stat(w, "e/full/..", 0, &a), 0);
	cr_assert_eq(sh_stat(w, "e", 0, &b), 0);
	cr_assert_eq(a.ino, b.ino);
	cr_assert_eq(b.size, 2);
	cr_assert_eq(sh_stat(w, "d", 0, &b), 0);
	cr_assert_eq(b.size, 2);
}

Test(meta_rename, a_directory_does_not_go_below_itself)
{
	cr_assert_eq(sh_mkdir(w, "d/full/deep"), 0);
	cr_assert_eq(sh_rename(w, "d", "d/full/d", 0), -EINVAL);
	cr_assert_eq(sh_rename(w, "d", "d/full/deep/d", 0), -EINVAL);
	cr_assert_eq(sh_rename(w, "d", "d/d", 0), -EINVAL);
	cr_assert_eq(sh_rename(w, "d/full/deep", "d", 0), -ENOTEMPTY);
	cr_assert_eq(sh_rename(w, "d", "d/full/deep", META_EXCHANGE), -EINVAL);
	cr_assert_eq(sh_rename(w, "d/full/deep", "d", META_EXCHANGE), -EINVAL);
	cr_assert_eq(sh_rename(w, "d/full/x", "d", META_EXCHANGE), -EINVAL);
	cr_assert_eq(sh_rename(w, "d", "d", 0), 0);
	cr_assert_eq(sh_rename(w, "e", "d/full/deep/e", 0), 0);
	cr_assert_eq(sh_stat(w, "d/full/deep/e/g", 0, &a), 0);
	cr_assert_eq(sh_rename(w, "d/full", "d/full/deep/e/f", 0), -EINVAL);
}

/* Each of the two names gets the file of the other one, in one step. */
Test(meta_rename, two_names_are_exchanged)
{
	const uint64_t before = meta_fake_records(w);
	struct meta_attr f, g;

	cr_assert_eq(sh_stat(w, "d/f", 0, &f), 0);
	cr_assert_eq(sh_stat(w, "e/g", 0, &g), 0);
	cr_assert_eq(sh_rename(w, "d/f", "e/g", META_EXCHANGE), 0);
	cr_assert_eq(sh_stat(w, "d/f", 0, &a), 0);
	cr_assert_eq(sh_stat(w, "e/g", 0, &b), 0);
	cr_assert(meta__handle_eq(&a.handle, &g.handle));
	cr_assert(meta__handle_eq(&b.handle, &f.handle));
	cr_assert_gt(a.ctime_ns, g.ctime_ns);
	cr_assert_gt(b.ctime_ns, f.ctime_ns);
	cr_assert_eq(sh_count(w, "d", 0), 3);
	cr_assert_eq(sh_count(w, "e", 0), 1);
	cr_assert_eq(meta_fake_records(w), before);
	cr_assert_eq(sh_rename(w, "d/f", "e/no", META_EXCHANGE), -ENOENT);
	cr_assert_eq(sh_rename(w, "d/no", "e/g", META_EXCHANGE), -ENOENT);
	cr_assert_eq(sh_rename(w, "d/f", "e/g/", META_EXCHANGE), -ENOTDIR);
}

Test(meta_rename, a_directory_is_exchanged_with_a_file_or_a_full_one)
{
	cr_assert_eq(sh_rename(w, "d/full", "e/g", META_EXCHANGE), 0);
	cr_assert_eq(sh_stat(w, "e/g/x", 0, &a), 0);
	cr_assert_eq(sh_stat(w, "d/full", 0, &a), 0);
	cr_assert_eq(a.size, 30000);
	cr_assert_eq(sh_stat(w, "e/g/..", 0, &a), 0);
	cr_assert_eq(sh_stat(w, "e", 0, &b), 0);
	cr_assert_eq(a.ino, b.ino);
	cr_assert_eq(sh_rename(w, "d", "e/g", META_EXCHANGE), 0);
	cr_assert_eq(sh_stat(w, "d/x", 0, &a), 0);
	cr_assert_eq(sh_stat(w, "e/g/full", 0, &a), 0);
	cr_assert_eq(sh_stat(w, "e/g/..", 0, &a), 0);
	cr_assert_eq(a.ino, b.ino);
	cr_assert_eq(sh_stat(w, "d/..", 0, &a), 0);
	cr_assert_eq(a.ino, 1);
	cr_assert_eq(sh_rename(w, "e/g/f", "e/g/f", META_EXCHANGE), 0);
}

Test(meta_rename, a_directory_replaces_an_empty_one)
{
	const uint64_t before = meta_fake_records(w);

	cr_assert_eq(sh_stat(w, "d/empty", 0, &a), 0);
	cr_assert_eq(sh_rename(w, "d/full", "d/empty", 0), 0);
	cr_assert_eq(sh_stat(w, "d/empty/x", 0, &b), 0);
	cr_assert_eq(sh_stat_handle(w, &a.handle, &b), -ESTALE);
	cr_assert_eq(meta_fake_records(w), before - 3);
	cr_assert_eq(sh_stat(w, "d", 0, &a), 0);
	cr_assert_eq(a.size, 2);
}

Test(meta_rename, symlinks_are_renamed_themselves)
{
	cr_assert_eq(sh_symlink(w, "../d/f", "e/s"), 0);
	cr_assert_eq(sh_rename(w, "e/s", "e/g", 0), 0);
	cr_assert_eq(sh_stat(w, "e/g", META_NOFOLLOW, &a), 0);
	cr_assert_eq(a.type, META_TYPE_SYMLINK);
	cr_assert_eq(sh_stat(w, "e/g", 0, &a), 0);
	cr_assert_eq(a.size, 20000);
}

Test(meta_rename, there_and_back_again_and_another_in_between)
{
	for (int i = 0; i < 5; i++) {
		cr_assert_eq(sh_rename(w, "d/f", "e/h", 0), 0);
		cr_assert_eq(sh_put(w, "d/f", META_EXCL, "new", 3), 0);
		cr_assert_eq(sh_rename(w, "e/h", "d/f", META_EXCL), -EEXIST);
		cr_assert_eq(sh_rename(w, "e/h", "d/f", 0), 0);
		cr_assert_eq(sh_stat(w, "d/f", 0, &a), 0);
		cr_assert_eq(a.size, 20000);
	}
	cr_assert_eq(sh_unlink(w, "d/f"), 0);
	cr_assert_eq(meta_fake_live(w), 8);
}
