/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A file that is held lives without a name, until the last hold of it goes. */
#include "meta/plans/meta_plan.h"
#include "test/lib/meta_shell.h"
#include "test/unit/meta_tx_fake.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct meta_world *w;
static struct meta_attr a;
static struct meta_handle h;
static uint8_t bytes[4 << 20], back[4 << 20];
static uint64_t before;

static void setup(void)
{
	w = meta_world_fake(19, 10, 5);
	for (uint32_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + i / 4096);
	before = meta_fake_records(w);
}

static void teardown(void)
{
	cr_assert_eq(meta_fake_pending(w), 0);
	w->end(w);
}

TestSuite(meta_hold, .init = setup, .fini = teardown);

static int hold_as(const char *path, const struct meta_who *who)
{
	struct meta_op op = sh_op(META_OP_STAT, path);
	int rc;

	op.flags = META_HOLD;
	op.who = who;
	rc = meta_world_run(w, &op);
	if (rc == 0)
		h = op.attr.handle;
	return rc;
}

static int hold(const char *path)
{
	return hold_as(path, NULL);
}

static int hold_by(const struct meta_handle *of)
{
	struct meta_op op = sh_op(META_OP_STAT, NULL);

	op.target.handle = *of;
	op.flags = META_HOLD;
	return meta_world_run(w, &op);
}

static int let_go(const struct meta_handle *of)
{
	struct meta_op op = sh_op(META_OP_LET_GO, NULL);

	op.target.handle = *of;
	return meta_world_run(w, &op);
}

static void put_held(const char *path, uint64_t size)
{
	cr_assert_eq(sh_put(w, path, 0, bytes, size), 0);
	cr_assert_eq(hold(path), 0);
	cr_assert_eq(meta__holds_count(w->m), 1);
}

/* It has no name, and all else that a file has. */
static void is_kept(const struct meta_handle *of, uint64_t size)
{
	meta_world_settle(w);
	cr_assert_eq(sh_stat_handle(w, of, &a), 0);
	cr_assert_eq(a.nlink, 0);
	cr_assert_eq(a.size, size);
	cr_assert_eq(sh_read_handle(w, of, back, sizeof(back)), (int64_t)size);
	cr_assert_eq(memcmp(back, bytes, size), 0);
}

static void is_freed(const struct meta_handle *of)
{
	cr_assert_eq(sh_stat_handle(w, of, &a), -ESTALE);
	meta_world_settle(w);
	cr_assert_eq(meta_fake_live(w), 0);
	cr_assert_eq(meta_fake_records(w), before, "records of it are left");
	cr_assert_eq(meta__holds_count(w->m), 0);
}

static const uint64_t sizes[] = { 0, 100, 300000, sizeof(bytes) };

Test(meta_hold, an_unlinked_file_stays_until_it_is_let_go)
{
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		put_held("f", sizes[i]);
		cr_assert_eq(sh_unlink(w, "f"), 0);
		cr_assert_eq(sh_stat(w, "f", 0, &a), -ENOENT);
		is_kept(&h, sizes[i]);
		cr_assert_eq(let_go(&h), 0);
		is_freed(&h);
	}
}

Test(meta_hold, so_does_one_that_is_replaced)
{
	struct meta_handle hidden;

	put_held("put", 5000);
	cr_assert_eq(sh_put(w, "put", 0, bytes + 1, 77), 0);
	is_kept(&h, 5000);
	cr_assert_eq(let_go(&h), 0);
	put_held("over", 6000);
	cr_assert_eq(sh_rename(w, "put", "over", 0), 0);
	is_kept(&h, 6000);
	cr_assert_eq(let_go(&h), 0);
	put_held("pieces", 7000);
	cr_assert_eq(sh_put_begin(w, "pieces", &hidden), 0);
	cr_assert_eq(sh_put_commit(w, &hidden, "pieces"), 0);
	is_kept(&h, 7000);
	cr_assert_eq(let_go(&h), 0);
	cr_assert_eq(sh_unlink(w, "over"), 0);
	cr_assert_eq(sh_unlink(w, "pieces"), 0);
	is_freed(&h);
}

Test(meta_hold, so_does_one_in_a_tree_that_goes)
{
	struct meta_op op = sh_op(META_OP_RMTREE, "t");
	struct meta_handle twice;

	cr_assert_eq(sh_mkdir(w, "t"), 0);
	cr_assert_eq(sh_mkdir(w, "t/u"), 0);
	cr_assert_eq(sh_put(w, "t/u/twice", 0, bytes, 9000), 0);
	cr_assert_eq(sh_link(w, "t/u/twice", "t/u/again"), 0);
	cr_assert_eq(hold("t/u/twice"), 0);
	twice = h;
	cr_assert_eq(sh_put(w, "t/u/f", 0, bytes, sizeof(bytes)), 0);
	cr_assert_eq(hold("t/u/f"), 0);
	cr_assert_eq(meta_world_run(w, &op), 0);
	is_kept(&h, sizeof(bytes));
	is_kept(&twice, 9000);
	cr_assert_eq(let_go(&twice), 0);
	cr_assert_eq(let_go(&h), 0);
	is_freed(&h);
}

Test(meta_hold, the_last_of_several_holds_and_names_decides)
{
	put_held("f", 5000);
	cr_assert_eq(hold("f"), 0);
	cr_assert_eq(sh_link(w, "f", "g"), 0);
	cr_assert_eq(sh_unlink(w, "f"), 0);
	cr_assert_eq(let_go(&h), 0);
	cr_assert_eq(sh_stat_handle(w, &h, &a), 0);
	cr_assert_eq(a.nlink, 1);
	cr_assert_eq(sh_unlink(w, "g"), 0);
	is_kept(&h, 5000);
	cr_assert_eq(hold_by(&h), 0, "without a name, too");
	cr_assert_eq(let_go(&h), 0);
	is_kept(&h, 5000);
	cr_assert_eq(let_go(&h), 0);
	is_freed(&h);
	cr_assert_eq(let_go(&h), 0, "nothing is held, and nothing happens");
	cr_assert_eq(hold_by(&h), -ESTALE);
}

Test(meta_hold, a_named_file_is_as_it_was)
{
	put_held("f", 5000);
	cr_assert_eq(let_go(&h), 0);
	cr_assert_eq(meta__holds_count(w->m), 0);
	cr_assert_eq(sh_read(w, "f", back, sizeof(back)), 5000);
	cr_assert_eq(sh_unlink(w, "f"), 0);
	is_freed(&h);
}

Test(meta_hold, it_is_written_and_cut_without_a_name)
{
	put_held("f", 8192);
	cr_assert_eq(sh_unlink(w, "f"), 0);
	cr_assert_eq(sh_write(w, &h, 0, bytes, sizeof(bytes), sizeof(bytes)), 0);
	is_kept(&h, sizeof(bytes));
	cr_assert_eq(meta_fake_live(w), 1024);
	cr_assert_eq(sh_truncate(w, &h, 4096), 0); /* more than one apply may free */
	is_kept(&h, 4096);
	cr_assert_eq(meta_fake_live(w), 1);
	cr_assert_eq(sh_write(w, &h, 0, bytes, sizeof(bytes), sizeof(bytes)), 0);
	is_kept(&h, sizeof(bytes));
	cr_assert_eq(let_go(&h), 0);
	is_freed(&h);
}

/* Its ORPHAN record was there before, for the blocks that were cut off. */
Test(meta_hold, a_file_that_is_being_trimmed_loses_its_name)
{
	for (uint32_t steps = 0; steps < 2; steps++) {
		put_held("f", sizeof(bytes));
		meta_fake_orphans(w, META__NEEDS_ROOM);
		cr_assert_eq(sh_truncate(w, &h, 4096), 0);
		cr_assert_eq(sh_unlink(w, "f"), 0);
		if (steps)
			cr_assert_eq(let_go(&h), 0);
		meta_fake_orphans(w, 0);
		if (!steps) {
			is_kept(&h, 4096);
			cr_assert_eq(meta_fake_live(w), 1);
			cr_assert_eq(let_go(&h), 0);
		}
		is_freed(&h);
	}
}

Test(meta_hold, its_attributes_are_there_and_go_with_it)
{
	char name[32];

	put_held("f", 100);
	for (uint32_t k = 0; k < 3 * META__XATTR_FREE; k++) {
		snprintf(name, sizeof(name), "user.n%u", k);
		cr_assert_eq(sh_xattr_set(w, "f", name, bytes, 40, 0), 0);
	}
	cr_assert_eq(sh_unlink(w, "f"), 0);
	is_kept(&h, 100);
	cr_assert_eq(a.xattrs, 3 * META__XATTR_FREE);
	cr_assert_eq(let_go(&h), 0);
	is_freed(&h);
}

Test(meta_hold, a_mount_knows_of_none)
{
	put_held("f", sizeof(bytes));
	cr_assert_eq(sh_unlink(w, "f"), 0);
	is_kept(&h, sizeof(bytes));
	w->remount(w);
	is_freed(&h); /* stale from the first moment on */
	cr_assert_eq(let_go(&h), 0);
}

Test(meta_hold, only_files_are_held_and_only_those_that_one_may_use)
{
	const struct meta_who bob = { .uid = 7, .gids = 1, .gid = { 7 } };
	struct meta_op op = sh_op(META_OP_SETATTR, "f");
	struct meta_handle hidden;

	cr_assert_eq(sh_mkdir(w, "d"), 0);
	cr_assert_eq(hold("d"), 0);
	cr_assert_eq(meta__holds_count(w->m), 0, "a directory has no bytes to be kept");
	cr_assert_eq(sh_put_begin(w, "hidden", &hidden), 0);
	cr_assert_eq(hold_by(&hidden), -EINVAL);
	cr_assert_eq(sh_put_abort(w, &hidden), 0);
	cr_assert_eq(sh_put(w, "f", 0, bytes, 10), 0);
	op.set_mask = META_SET_MODE;
	op.set.mode = 0600;
	cr_assert_eq(meta_world_run(w, &op), 0);
	op = sh_op(META_OP_SETATTR, "/");
	op.set_mask = META_SET_MODE;
	op.set.mode = 0755;
	cr_assert_eq(meta_world_run(w, &op), 0);
	cr_assert_eq(hold_as("f", &bob), -EACCES);
	cr_assert_eq(meta__holds_count(w->m), 0);
	op = sh_op(META_OP_SETATTR, "f");
	op.set_mask = META_SET_MODE;
	op.set.mode = 0602; /* to write is a reason, too */
	cr_assert_eq(meta_world_run(w, &op), 0);
	cr_assert_eq(hold_as("f", &bob), 0);
	cr_assert_eq(meta__holds_count(w->m), 1);
}

Test(meta_hold, a_new_file_is_held_from_the_first)
{
	struct meta_op op = sh_op(META_OP_PUT, "new");

	op.flags = META_HOLD | META_EXCL | META_BY_INLINE;
	cr_assert_eq(meta_world_run(w, &op), 0);
	cr_assert_eq(meta__holds_count(w->m), 1);
	h = op.attr.handle;
	cr_assert_eq(meta_world_run(w, &op), -EEXIST);
	cr_assert_eq(meta__holds_count(w->m), 1);
	cr_assert_eq(sh_unlink(w, "new"), 0);
	is_kept(&h, 0);
	cr_assert_eq(let_go(&h), 0);
	is_freed(&h);
}

Test(meta_hold, there_is_a_limit_of_files)
{
	struct meta_op op;
	char path[32];

	for (uint32_t i = 0; i < 1024; i++) {
		snprintf(path, sizeof(path), "f%u", i);
		cr_assert_eq(sh_put(w, path, 0, bytes, 1), 0);
		cr_assert_eq(hold(path), 0);
	}
	cr_assert_eq(hold("f0"), 0, "one that is held already takes no place");
	op = sh_op(META_OP_PUT, "new");
	op.flags = META_HOLD | META_EXCL | META_BY_INLINE;
	cr_assert_eq(meta_world_run(w, &op), -ENFILE);
	cr_assert_eq(sh_stat(w, "new", 0, &a), -ENOENT, "refused, and yet made");
	cr_assert_eq(sh_put(w, "more", 0, bytes, 1), 0);
	cr_assert_eq(hold("more"), -ENFILE);
	cr_assert_eq(let_go(&h), 0);
	cr_assert_eq(let_go(&h), 0);
	cr_assert_eq(hold("more"), 0);
	cr_assert_eq(meta__holds_count(w->m), 1024);
}
