/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "meta/plans/meta_plan.h"
#include "test/lib/meta_shell.h"
#include "test/unit/meta_tx_fake.h"

#include <criterion/criterion.h>
#include <string.h>

static struct meta_world *w;
static struct meta_attr a, b;
static uint8_t bytes[200000], back[200000];

static void setup(void)
{
	w = meta_world_fake(41, 10, 5);
	cr_assert_eq(sh_mkdir(w, "d"), 0);
	cr_assert_eq(sh_mkdir(w, "e"), 0);
	memset(bytes, 'f', sizeof(bytes));
	cr_assert_eq(sh_put(w, "d/f", 0, bytes, 20000), 0);
	cr_assert_eq(sh_put(w, "e/g", 0, bytes, 30000), 0);
}

static void teardown(void)
{
	w->end(w);
}

TestSuite(meta_link, .init = setup, .fini = teardown);

Test(meta_link, a_file_has_two_names_and_is_one_file)
{
	struct meta_attr dir;

	cr_assert_eq(sh_stat(w, "d/f", 0, &a), 0);
	cr_assert_eq(sh_stat(w, "e", 0, &dir), 0);
	cr_assert_eq(sh_link(w, "d/f", "e/h"), 0);
	cr_assert_eq(sh_stat(w, "e/h", 0, &b), 0);
	cr_assert(meta__handle_eq(&a.handle, &b.handle));
	cr_assert_eq(b.nlink, 2);
	cr_assert_gt(b.ctime_ns, a.ctime_ns);
	cr_assert_eq(b.mtime_ns, a.mtime_ns);
	cr_assert_eq(sh_stat(w, "e", 0, &b), 0);
	cr_assert_gt(b.mtime_ns, dir.mtime_ns);
	cr_assert_eq(b.size, 2);
	memset(bytes, 'x', BLOCK_SIZE);
	cr_assert_eq(sh_write(w, &a.handle, 0, bytes, BLOCK_SIZE, 20000), 0);
	cr_assert_eq(sh_read(w, "e/h", back, sizeof(back)), 20000);
	cr_assert_eq(memcmp(bytes, back, 20000), 0);
}

Test(meta_link, only_the_last_of_its_names_frees_it)
{
	const uint64_t before = meta_fake_records(w);

	cr_assert_eq(sh_link(w, "d/f", "d/f2"), 0);
	cr_assert_eq(sh_link(w, "d/f2", "e/f3"), 0);
	cr_assert_eq(meta_fake_records(w), before + 2 + 2); /* two directories have names of it */
	cr_assert_eq(sh_stat(w, "e/f3", 0, &a), 0);
	cr_assert_eq(a.nlink, 3);
	cr_assert_eq(sh_unlink(w, "d/f"), 0);
	cr_assert_eq(sh_unlink(w, "e/f3"), 0);
	cr_assert_eq(sh_stat(w, "d/f2", 0, &b), 0);
	cr_assert_eq(b.nlink, 1);
	cr_assert_gt(b.ctime_ns, a.ctime_ns);
	cr_assert_eq(sh_read(w, "d/f2", back, sizeof(back)), 20000);
	cr_assert_eq(meta_fake_live(w), 5 + 8);
	cr_assert_eq(sh_unlink(w, "d/f2"), 0);
	cr_assert_eq(sh_stat_handle(w, &a.handle, &b), -ESTALE);
	cr_assert_eq(meta_fake_live(w), 8);
}

Test(meta_link, a_put_at_one_name_leaves_the_file_to_the_others)
{
	cr_assert_eq(sh_link(w, "d/f", "e/h"), 0);
	cr_assert_eq(sh_stat(w, "e/h", 0, &a), 0);
	cr_assert_eq(sh_put(w, "d/f", 0, "new", 3), 0);
	cr_assert_eq(sh_stat(w, "e/h", 0, &b), 0);
	cr_assert(meta__handle_eq(&a.handle, &b.handle));
	cr_assert_eq(b.nlink, 1);
	cr_assert_eq(b.size, 20000);
	cr_assert_eq(sh_stat(w, "d/f", 0, &b), 0);
	cr_assert_not(meta__handle_eq(&a.handle, &b.handle));
	cr_assert_eq(sh_read(w, "e/h", back, sizeof(back)), 20000);
	cr_assert_eq(memcmp(bytes, back, 20000), 0);
}

Test(meta_link, a_put_in_pieces_at_one_name_leaves_the_file_to_the_others)
{
	struct meta_handle h;

	cr_assert_eq(sh_link(w, "d/f", "e/h"), 0);
	cr_assert_eq(sh_put_begin(w, "d/f", &h), 0);
	cr_assert_eq(sh_stat(w, "e/h", 0, &a), 0);
	cr_assert_eq(a.nlink, 2);
	cr_assert_eq(sh_put_commit(w, &h, "d/f"), 0);
	cr_assert_eq(sh_stat(w, "e/h", 0, &a), 0);
	cr_assert_eq(a.nlink, 1);
	cr_assert_eq(a.size, 20000);
	cr_assert_eq(sh_put_begin(w, "e/new", &h), 0);
	cr_assert_eq(sh_link(w, "e/new", "e/h2"), -ENOENT);
	cr_assert_eq(sh_put_abort(w, &h), 0);
}

Test(meta_link, a_rename_over_one_name_leaves_the_file_to_the_others)
{
	cr_assert_eq(sh_link(w, "d/f", "e/h"), 0);
	cr_assert_eq(sh_rename(w, "e/g", "d/f", 0), 0);
	cr_assert_eq(sh_stat(w, "e/h", 0, &a), 0);
	cr_assert_eq(a.nlink, 1);
	cr_assert_eq(a.size, 20000);
	cr_assert_eq(sh_stat(w, "d/f", 0, &b), 0);
	cr_assert_eq(b.size, 30000);
}

Test(meta_link, a_name_onto_another_of_the_same_file_changes_nothing)
{
	cr_assert_eq(sh_link(w, "d/f", "e/h"), 0);
	cr_assert_eq(sh_stat(w, "d/f", 0, &a), 0);
	cr_assert_eq(sh_rename(w, "d/f", "e/h", 0), 0);
	cr_assert_eq(sh_rename(w, "d/f", "e/h", META_EXCL), -EEXIST);
	cr_assert_eq(sh_stat(w, "d/f", 0, &b), 0);
	cr_assert_eq(b.nlink, 2);
	cr_assert_eq(a.ctime_ns, b.ctime_ns);
	cr_assert_eq(sh_count(w, "e", 0), 2);
}

Test(meta_link, what_cannot_be_linked_says_why)
{
	cr_assert_eq(sh_link(w, "d", "x"), -EPERM);
	cr_assert_eq(sh_link(w, ".", "x"), -EPERM);
	cr_assert_eq(sh_link(w, "/", "x"), -EPERM);
	cr_assert_eq(sh_link(w, "d", "e"), -EEXIST);
	cr_assert_eq(sh_link(w, "d/f", "e/g"), -EEXIST);
	cr_assert_eq(sh_link(w, "d/f", "d/f"), -EEXIST);
	cr_assert_eq(sh_link(w, "d/f", "."), -EEXIST);
	cr_assert_eq(sh_link(w, "d/f", "e/"), -EEXIST);
	cr_assert_eq(sh_link(w, "no", "x"), -ENOENT);
	cr_assert_eq(sh_link(w, "no", "e/g"), -ENOENT);
	cr_assert_eq(sh_link(w, "d/f", "no/x"), -ENOENT);
	cr_assert_eq(sh_link(w, "d/f", "x/"), -ENOENT);
	cr_assert_eq(sh_link(w, "d/f/", "x"), -ENOTDIR);
	cr_assert_eq(sh_link(w, "d/f/y", "x"), -ENOTDIR);
	cr_assert_eq(sh_link(w, "d/f", "e/g/x"), -ENOTDIR);
	cr_assert_eq(sh_link(w, "", "x"), -ENOENT);
	cr_assert_eq(sh_link(w, "d/f", ""), -ENOENT);
	cr_assert_eq(sh_count(w, "/", 0), 2);
}

Test(meta_link, a_symlink_is_linked_itself_or_followed)
{
	struct meta_op op;

	cr_assert_eq(sh_symlink(w, "d/f", "s"), 0);
	cr_assert_eq(sh_link(w, "s", "t"), 0);
	cr_assert_eq(sh_stat(w, "t", META_NOFOLLOW, &a), 0);
	cr_assert_eq(a.type, META_TYPE_SYMLINK);
	cr_assert_eq(a.nlink, 2);
	op = sh_op(META_OP_LINK, "s");
	op.other = (struct meta_target){ .path = "u", .path_len = 1 };
	cr_assert_eq(meta_world_run(w, &op), 0);
	cr_assert_eq(op.attr.type, META_TYPE_FILE);
	cr_assert_eq(op.attr.nlink, 2);
	cr_assert_eq(sh_unlink(w, "s"), 0);
	cr_assert_eq(sh_stat(w, "t", 0, &a), 0);
	cr_assert_eq(a.size, 20000);
}

/* In the inode record of `h`, as it lies in the store: of a file with several names. */
static void set_nlink(const struct meta_handle *h, uint32_t nlink)
{
	const le32 disk = le32_of(nlink);
	const struct meta_key want = meta__obj_key(h, META__KIND_INODE, 0);
	struct meta_key key;
	uint32_t shard, len;
	void *value;

	for (uint64_t i = 0; meta_fake_record(w, i, &shard, &key, &value, &len); i++) {
		const struct meta_inode_disk *d = value;

		if (memcmp(&key, &want, sizeof(key)) != 0)
			continue;
		cr_assert(le16_get(d->fields) & META__HAS_NLINK);
		memcpy((uint8_t *)(d + 1) + 8, &disk, sizeof(disk)); /* behind mtime */
		return;
	}
	cr_assert(false, "it has no inode");
}

Test(meta_link, a_file_with_all_the_names_that_it_may_have_gets_no_more)
{
	cr_assert_eq(sh_stat(w, "d/f", 0, &a), 0);
	cr_assert_eq(sh_link(w, "d/f", "e/0"), 0);
	set_nlink(&a.handle, META_LINKS_MAX - 1);
	cr_assert_eq(sh_link(w, "d/f", "e/1"), 0);
	cr_assert_eq(sh_link(w, "d/f", "e/2"), -EMLINK);
	cr_assert_eq(sh_unlink(w, "e/1"), 0);
	cr_assert_eq(sh_link(w, "d/f", "e/2"), 0);
	set_nlink(&a.handle, META_LINKS_MAX + 1);
	cr_assert_eq(sh_stat(w, "d/f", 0, &a), -EIO);
}

Test(meta_link, a_full_store_makes_none_and_takes_them_away)
{
	cr_assert_eq(sh_link(w, "d/f", "e/h"), 0);
	meta_fake_space(w, -ENOSPC);
	cr_assert_eq(sh_link(w, "d/f", "e/i"), -ENOSPC);
	cr_assert_eq(sh_unlink(w, "d/f"), 0);
	cr_assert_eq(sh_unlink(w, "e/h"), 0);
}

Test(meta_link, a_listing_shows_every_name)
{
	static _Alignas(8) uint8_t buf[4096];
	struct meta_op op = sh_op(META_OP_LIST, "d");
	uint32_t at = 0;

	cr_assert_eq(sh_link(w, "d/f", "d/f2"), 0);
	op.list_out = buf;
	op.list_max_bytes = sizeof(buf);
	cr_assert_eq(meta_world_run(w, &op), 0);
	cr_assert_eq(op.list_count, 2);
	for (uint32_t i = 0; i < op.list_count; i++) {
		struct meta_dirent e;

		memcpy(&e, buf + at, sizeof(e));
		cr_assert_eq(e.attr.nlink, 2);
		at += e.entry_bytes;
	}
}

static int link_by_handle(const struct meta_handle *handle, const char *to)
{
	struct meta_op op = { .type = META_OP_LINK, .target = { .handle = *handle } };

	op.other = (struct meta_target){ .path = to, .path_len = (uint32_t)strlen(to) };
	op.wall_ns = 9;
	return meta_world_run(w, &op);
}

Test(meta_link, a_handle_names_the_file_too)
{
	cr_assert_eq(sh_stat(w, "d/f", 0, &a), 0);
	cr_assert_eq(sh_rename(w, "d/f", "e/moved", 0), 0);
	cr_assert_eq(link_by_handle(&a.handle, "d/again"), 0);
	cr_assert_eq(sh_stat(w, "d/again", 0, &b), 0);
	cr_assert(meta__handle_eq(&a.handle, &b.handle));
	cr_assert_eq(b.nlink, 2);
	cr_assert_eq(link_by_handle(&a.handle, "d/again"), -EEXIST);
	cr_assert_eq(sh_stat(w, "d", 0, &b), 0);
	cr_assert_eq(link_by_handle(&b.handle, "e/dir"), -EPERM);
	cr_assert_eq(sh_unlink(w, "d/again"), 0);
	cr_assert_eq(sh_unlink(w, "e/moved"), 0);
	cr_assert_eq(link_by_handle(&a.handle, "d/gone"), -ESTALE);
}

Test(meta_link, a_held_file_without_a_name_gets_none)
{
	struct meta_op op = sh_op(META_OP_STAT, "d/f");

	op.flags = META_HOLD;
	cr_assert_eq(meta_world_run(w, &op), 0);
	a = op.attr;
	cr_assert_eq(sh_unlink(w, "d/f"), 0);
	cr_assert_eq(link_by_handle(&a.handle, "d/back"), -ENOENT);
	op = sh_op(META_OP_LET_GO, NULL);
	op.target.handle = a.handle;
	cr_assert_eq(meta_world_run(w, &op), 0);
	cr_assert_eq(link_by_handle(&a.handle, "d/back"), -ESTALE);
}
