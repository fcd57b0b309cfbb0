/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "meta/plans/meta_plan.h"
#include "test/lib/meta_shell.h"
#include "test/unit/meta_tx_fake.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct meta_world *w;
static struct meta_attr top, deep, a;
static uint8_t bytes[4 << 20];
static uint64_t before;

static void setup(void)
{
	w = meta_world_fake(18, 10, 5);
	for (uint32_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 13 + i / 4096);
	before = meta_fake_records(w);
}

static void teardown(void)
{
	cr_assert_eq(meta_fake_pending(w), 0);
	w->end(w);
}

TestSuite(meta_rmtree, .init = setup, .fini = teardown);

static int rmtree(const char *path)
{
	struct meta_op op = sh_op(META_OP_RMTREE, path);

	return meta_world_run(w, &op);
}

/* In the directory with this number. */
static int in_dir(enum meta_op_type type, uint64_t dir, const char *name)
{
	struct meta_op op = sh_op(type, name);

	op.target.dir = dir;
	op.flags |= type == META_OP_PUT ? META_BY_INLINE : 0;
	op.inline_buf = bytes;
	return meta_world_run(w, &op);
}

/* /t with a file of each kind, and /t/u/v with as many more, of them `files` small ones. */
static void grow(uint32_t files)
{
	char path[64];

	cr_assert_eq(sh_mkdir(w, "t"), 0);
	cr_assert_eq(sh_mkdir(w, "t/u"), 0);
	cr_assert_eq(sh_mkdir(w, "t/u/v"), 0);
	cr_assert_eq(sh_mkdir(w, "t/empty"), 0);
	cr_assert_eq(sh_put(w, "t/large", 0, bytes, sizeof(bytes)), 0); /* in many zones */
	cr_assert_eq(sh_put(w, "t/u/inline", 0, bytes, 100), 0);
	cr_assert_eq(sh_symlink(w, "/nowhere", "t/u/link"), 0);
	for (uint32_t i = 0; i < files; i++) {
		snprintf(path, sizeof(path), "t/u/v/f%u", i);
		cr_assert_eq(sh_put(w, path, 0, bytes, 5000), 0);
	}
	cr_assert_eq(sh_stat(w, "t", 0, &top), 0);
	cr_assert_eq(sh_stat(w, "t/u/v", 0, &deep), 0);
}

static void is_all_gone(void)
{
	meta_world_settle(w);
	cr_assert_eq(meta_fake_live(w), 0);
	cr_assert_eq(meta_fake_records(w), before, "records of it are left");
}

Test(meta_rmtree, the_name_goes_at_once_and_all_below_it_in_time)
{
	uint64_t mutations;

	grow(1000);
	mutations = meta_fake_mutations(w);
	cr_assert_eq(rmtree("t"), 0);
	cr_assert_lt(meta_fake_mutations(w), mutations + 200, "as if it were small");
	cr_assert_eq(sh_stat(w, "t", 0, &a), -ENOENT);
	cr_assert_eq(sh_stat(w, "t/u/inline", 0, &a), -ENOENT);
	cr_assert_eq(sh_stat_handle(w, &top.handle, &a), -ESTALE);
	cr_assert_eq(sh_count(w, "/", 100), 0);
	is_all_gone();
	cr_assert_eq(w->m->ops->tree_entries, 1000 + 6);
}

Test(meta_rmtree, what_is_no_tree_is_refused)
{
	grow(1);
	cr_assert_eq(rmtree("t/large"), -ENOTDIR);
	cr_assert_eq(rmtree("t/u/link"), -ENOTDIR);
	cr_assert_eq(rmtree("t/none"), -ENOENT);
	cr_assert_eq(rmtree("none/t"), -ENOENT);
	cr_assert_eq(rmtree("/"), -EINVAL);
	cr_assert_eq(rmtree("t/."), -EINVAL);
	cr_assert_eq(rmtree("t/u/.."), -EINVAL);
	meta_world_settle(w);
	cr_assert_eq(sh_count(w, "t/u/v", 100), 1);
	cr_assert_eq(rmtree("t/empty"), 0);
	cr_assert_eq(sh_count(w, "t", 100), 2);
	cr_assert_eq(rmtree("t/"), 0);
	is_all_gone();
}

Test(meta_rmtree, nothing_can_be_made_in_a_directory_that_goes)
{
	struct meta_op move = sh_op(META_OP_RENAME, "stays");

	cr_assert_eq(sh_put(w, "stays", 0, bytes, 100), 0);
	grow(0);
	cr_assert_eq(rmtree("t"), 0);
	cr_assert_eq(in_dir(META_OP_PUT, top.dir, "new"), -ENOENT);
	cr_assert_eq(in_dir(META_OP_MKDIR, top.dir, "new"), -ENOENT);
	cr_assert_eq(in_dir(META_OP_STAT, top.dir, ".."), -ENOENT);
	move.other = (struct meta_target){ .path = "new", .path_len = 3, .dir = top.dir };
	cr_assert_eq(meta_world_run(w, &move), -ENOENT);
	cr_assert_eq(sh_unlink(w, "stays"), 0);
	is_all_gone();
}

/* A user who knows the number of a directory below may come before it is freed, or after. */
Test(meta_rmtree, what_is_made_below_by_number_goes_with_it)
{
	uint32_t made = 0;

	meta_fake_orphans(w, META__NEEDS_ROOM); /* not yet */
	grow(3);
	cr_assert_eq(rmtree("t"), 0);
	made += in_dir(META_OP_PUT, deep.dir, "late") == 0;
	made += in_dir(META_OP_MKDIR, deep.dir, "later") == 0;
	cr_assert_eq(made, 2);
	meta_fake_orphans(w, 0);
	is_all_gone();
	cr_assert_eq(in_dir(META_OP_PUT, deep.dir, "too late"), -ENOENT);
}

Test(meta_rmtree, what_had_moved_out_of_it_stays)
{
	char from[64], to[64];

	grow(600);
	for (int i = 0; i < 600; i += 2) {
		snprintf(from, sizeof(from), "t/u/v/f%d", i);
		snprintf(to, sizeof(to), "m%d", i);
		cr_assert_eq(sh_rename(w, from, to, 0), 0);
	}
	cr_assert_eq(rmtree("t"), 0);
	meta_world_settle(w);
	cr_assert_eq(sh_count(w, "/", 100), 300);
	for (int i = 0; i < 600; i += 2) {
		snprintf(to, sizeof(to), "m%d", i);
		cr_assert_eq(sh_read(w, to, bytes + (1 << 20), 1 << 20), 5000);
		cr_assert_eq(memcmp(bytes + (1 << 20), bytes, 5000), 0);
		cr_assert_eq(sh_unlink(w, to), 0);
	}
	is_all_gone();
}

/* Two names of it in the tree, so that one apply meets both, and one outside. */
Test(meta_rmtree, a_file_stays_while_it_has_a_name_elsewhere)
{
	grow(2);
	cr_assert_eq(sh_link(w, "t/u/v/f0", "stays"), 0);
	cr_assert_eq(sh_link(w, "t/u/v/f0", "t/u/v/again"), 0);
	cr_assert_eq(rmtree("t"), 0);
	meta_world_settle(w);
	cr_assert_eq(sh_stat(w, "stays", 0, &a), 0);
	cr_assert_eq(a.nlink, 1);
	cr_assert_gt(a.ctime_ns, deep.ctime_ns);
	cr_assert_eq(sh_unlink(w, "stays"), 0);
	is_all_gone();
}

/* More attributes than are freed with an inode at once: of the tree itself, and of files in it. */
Test(meta_rmtree, attributes_go_with_what_has_them)
{
	static const char *const paths[] = { "t", "t/u", "t/u/v/f0", "t/empty" };
	char name[32];

	grow(1);
	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		for (uint32_t k = 0; k < 3 * META__XATTR_FREE; k++) {
			snprintf(name, sizeof(name), "user.n%u", k);
			cr_assert_eq(sh_xattr_set(w, paths[i], name, bytes, 40, 0), 0);
		}
	cr_assert_eq(rmtree("t"), 0);
	is_all_gone();
}

Test(meta_rmtree, a_mount_goes_on_where_it_was_cut_off)
{
	grow(300);
	cr_assert_eq(rmtree("t"), 0);
	for (int i = 0; i < 30; i++) {
		w->step(w);
		w->remount(w);
	}
	is_all_gone();
}

/* Its count is wrong on the drive: it is told, and nothing else waits for it for ever. */
Test(meta_rmtree, a_count_that_is_wrong_is_told_and_left)
{
	const struct meta_key key = (grow(2), meta__dir_key(deep.dir));
	struct meta_dir_disk d;
	struct meta_key at;
	uint32_t shard, len;
	void *value;

	for (uint64_t i = 0; meta_fake_record(w, i, &shard, &at, &value, &len); i++) {
		if (meta__key_cmp(&at, &key) != 0)
			continue;
		memcpy(&d, value, sizeof(d));
		d.count = le64_of(7);
		memcpy(value, &d, sizeof(d));
	}
	cr_assert_eq(rmtree("t"), 0);
	for (int i = 0; i < 300; i++) {
		w->step(w);
		cr_assert_null(meta_op_poll(w->m));
	}
	cr_assert(strstr(w->m->error, "bad directory record"), "%s", w->m->error);
	cr_assert_eq(meta__orphans_waiting(w->m), 0);
	before = 0; /* some of it is left, and a check says so */
}
