/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "meta/meta_plan.h"
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
}

Test(meta_rename, a_directory_moves_within_its_parent_only)
{
	cr_assert_eq(sh_rename(w, "d/full", "e/full", 0), -EXDEV);
	cr_assert_eq(sh_rename(w, "d", "d/full/d", 0), -EXDEV);
	cr_assert_eq(sh_rename(w, "d/full/", "d/moved/", 0), 0);
	cr_assert_eq(sh_stat(w, "d/moved/x", 0, &a), 0);
	cr_assert_eq(sh_stat(w, "d/moved/..", 0, &a), 0);
	cr_assert_eq(sh_stat(w, "d", 0, &b), 0);
	cr_assert_eq(a.ino, b.ino);
	cr_assert_eq(b.size, 3);
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
