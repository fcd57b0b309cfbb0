/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "meta/plans/meta_plan.h"
#include "test/lib/meta_shell.h"
#include "test/unit/meta_tx_fake.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct meta_world *w;
static struct meta_attr a, b;

static void setup(void)
{
	w = meta_world_fake(11, 10, 5);
}

static void teardown(void)
{
	w->end(w);
}

TestSuite(meta_name, .init = setup, .fini = teardown);

Test(meta_name, a_path_is_walked_by_its_components)
{
	cr_assert_eq(sh_mkdir(w, "/d"), 0);
	cr_assert_eq(sh_mkdir(w, "d/e/"), 0);
	cr_assert_eq(sh_put(w, "d/e/f", 0, "abc", 3), 0);
	cr_assert_eq(sh_stat(w, "//d/./e/../e//f", 0, &a), 0);
	cr_assert_eq(a.size, 3);
	cr_assert_eq(sh_stat(w, "d/e/", 0, &a), 0);
	cr_assert_eq(sh_stat(w, "d/e/f/", 0, &a), -ENOTDIR);
	cr_assert_eq(sh_stat(w, "d/e/f/x", 0, &a), -ENOTDIR);
	cr_assert_eq(sh_stat(w, "d/x/f", 0, &a), -ENOENT);
	cr_assert_eq(sh_stat(w, "d/x/..", 0, &a), -ENOENT);
	cr_assert_eq(sh_stat(w, "", 0, &a), -ENOENT);
}

Test(meta_name, the_root_is_its_own_parent)
{
	cr_assert_eq(sh_stat(w, "/", 0, &a), 0);
	cr_assert_eq(sh_stat(w, "/../../..", 0, &b), 0);
	cr_assert_eq(a.ino, 1);
	cr_assert_eq(b.ino, 1);
	cr_assert_eq(a.dir, META_ROOT_DIR);
	cr_assert_eq(sh_stat_handle(w, &a.handle, &b), 0);
}

Test(meta_name, a_path_may_start_at_a_directory_s_number)
{
	struct meta_op op = sh_op(META_OP_STAT, "../g");

	cr_assert_eq(sh_mkdir(w, "d"), 0);
	cr_assert_eq(sh_put(w, "g", 0, "x", 1), 0);
	cr_assert_eq(sh_stat(w, "d", 0, &a), 0);
	op.target.dir = a.dir;
	cr_assert_eq(meta_world_run(w, &op), 0);
	cr_assert_eq(op.attr.size, 1);
	op.target.dir = a.dir + 77; /* none */
	cr_assert_eq(meta_world_run(w, &op), -ENOENT);
	op.target.dir = 1ull << 50;
	cr_assert_eq(meta_world_run(w, &op), -ENOENT);
}

Test(meta_name, names_have_1_to_255_bytes_and_no_zero)
{
	char name[300];
	struct meta_op op = sh_op(META_OP_MKDIR, "a\0b");

	memset(name, 'n', sizeof(name));
	name[255] = 0;
	cr_assert_eq(sh_put(w, name, 0, "x", 1), 0);
	cr_assert_eq(sh_stat(w, name, 0, &a), 0);
	name[255] = 'n';
	name[256] = 0;
	cr_assert_eq(sh_put(w, name, 0, "x", 1), -ENAMETOOLONG);
	cr_assert_eq(sh_stat(w, name, 0, &a), -ENAMETOOLONG);
	op.target.path_len = 3;
	cr_assert_eq(meta_world_run(w, &op), -EINVAL);
	cr_assert_eq(sh_put(w, "\xff\x01 \\\"", 0, "any byte", 8), 0);
	cr_assert_eq(sh_stat(w, "\xff\x01 \\\"", 0, &a), 0);
}

Test(meta_name, a_path_has_4095_bytes_at_most)
{
	static char path[META_PATH_MAX + 3];

	for (uint32_t i = 0; i < META_PATH_MAX; i += 2)
		memcpy(path + i, "./", 2);
	path[META_PATH_MAX] = 0;
	cr_assert_eq(sh_stat(w, path, 0, &a), 0);
	path[META_PATH_MAX] = '/';
	cr_assert_eq(sh_stat(w, path, 0, &a), -ENAMETOOLONG);
}

Test(meta_name, symlinks_are_followed_where_they_stand_on_the_way)
{
	char text[META_PATH_MAX + 1];

	cr_assert_eq(sh_mkdir(w, "d"), 0);
	cr_assert_eq(sh_mkdir(w, "d/e"), 0);
	cr_assert_eq(sh_put(w, "d/f", 0, "abcd", 4), 0);
	cr_assert_eq(sh_symlink(w, "../f", "d/e/rel"), 0);
	cr_assert_eq(sh_symlink(w, "/d//", "abs"), 0);
	cr_assert_eq(sh_stat(w, "abs/e/rel", 0, &a), 0);
	cr_assert_eq(a.size, 4);
	cr_assert_eq(sh_stat(w, "d/e/rel", META_NOFOLLOW, &a), 0);
	cr_assert_eq(a.type, META_TYPE_SYMLINK);
	cr_assert_eq(sh_stat(w, "abs/", META_NOFOLLOW, &a), 0);
	cr_assert_eq(a.type, META_TYPE_DIR);
	cr_assert_eq(sh_readlink(w, "abs/e/rel", text), 0);
	cr_assert_str_eq(text, "../f");
	cr_assert_eq(sh_readlink(w, "d/f", text), -EINVAL);
	cr_assert_eq(sh_put(w, "abs/new", 0, "x", 1), 0);
	cr_assert_eq(sh_stat(w, "d/new", 0, &a), 0);
}

Test(meta_name, forty_symlinks_are_followed_and_no_more)
{
	char text[20], name[20];

	cr_assert_eq(sh_put(w, "s0", 0, "end", 3), 0);
	for (int i = 1; i <= 41; i++) {
		snprintf(text, sizeof(text), "s%d", i - 1);
		snprintf(name, sizeof(name), "s%d", i);
		cr_assert_eq(sh_symlink(w, text, name), 0);
	}
	cr_assert_eq(sh_stat(w, "s40", 0, &a), 0);
	cr_assert_eq(a.size, 3);
	cr_assert_eq(sh_stat(w, "s41", 0, &a), -ELOOP);
	cr_assert_eq(sh_symlink(w, "loop/x", "loop"), 0);
	cr_assert_eq(sh_stat(w, "loop", 0, &a), -ELOOP);
}

Test(meta_name, a_long_symlink_s_text_lies_in_records_of_its_own)
{
	static char text[META_PATH_MAX + 2], out[META_PATH_MAX + 1];
	const uint64_t before = meta_fake_records(w);

	memset(text, 'x', META_PATH_MAX);
	cr_assert_eq(sh_symlink(w, text, "long"), 0);
	cr_assert_eq(meta_fake_records(w), before + 4); /* name, inode, two pieces */
	cr_assert_eq(sh_readlink(w, "long", out), 0);
	cr_assert_str_eq(out, text);
	cr_assert_eq(sh_stat(w, "long", 0, &a), -ENAMETOOLONG);
	cr_assert_eq(sh_unlink(w, "long"), 0);
	cr_assert_eq(meta_fake_records(w), before);
	text[META_PATH_MAX] = 'x';
	cr_assert_eq(sh_symlink(w, text, "long"), -ENAMETOOLONG);
	cr_assert_eq(sh_symlink(w, "", "empty"), -ENOENT);
}

/* ---- two names of one hash --------------------------------------------------------------- */

struct hashed {
	uint64_t hash;
	uint32_t n;
};

static int by_hash(const void *x, const void *y)
{
	const struct hashed *p = x, *q = y;

	return p->hash < q->hash ? -1 : p->hash > q->hash;
}

/* Among three million names some two have the same 40 bits. */
static void find_collision(char *one, char *two)
{
	const uint32_t count = 3000000;
	struct hashed *h = malloc(count * sizeof(*h));
	char name[20];

	cr_assert(h);
	for (uint32_t i = 0; i < count; i++) {
		const int len = snprintf(name, sizeof(name), "n%u", i);

		h[i] = (struct hashed){ meta__name_hash(w->m, META_ROOT_DIR, name, (uint32_t)len),
					i };
	}
	qsort(h, count, sizeof(*h), by_hash);
	for (uint32_t i = 1; i < count; i++) {
		if (h[i].hash != h[i - 1].hash)
			continue;
		snprintf(one, 20, "n%u", h[i - 1].n);
		snprintf(two, 20, "n%u", h[i].n);
		free(h);
		return;
	}
	cr_assert_fail("no two names of one hash");
}

Test(meta_name, two_names_of_one_hash_are_two_files)
{
	char one[20], two[20], text[BLOCK_SIZE];

	find_collision(one, two);
	cr_assert_eq(sh_put(w, one, 0, "one", 3), 0);
	cr_assert_eq(sh_stat(w, two, 0, &a), -ENOENT);
	cr_assert_eq(sh_put(w, two, 0, "zwei", 4), 0);
	cr_assert_eq(sh_read(w, one, text, sizeof(text)), 3);
	cr_assert_eq(sh_stat(w, one, 0, &a), 0);
	cr_assert_eq(sh_stat(w, two, 0, &b), 0);
	cr_assert_eq(a.handle.hash, b.handle.hash);
	cr_assert_neq(a.handle.uniq, b.handle.uniq);
	cr_assert_eq(a.size, 3);
	cr_assert_eq(b.size, 4);
	cr_assert_eq(sh_count(w, "/", 1), 2);
	cr_assert_eq(sh_rename(w, one, two, 0), 0);
	cr_assert_eq(sh_stat(w, two, 0, &b), 0);
	cr_assert_eq(b.ino, a.ino);
	cr_assert_eq(sh_stat(w, one, 0, &a), -ENOENT);
	cr_assert_eq(sh_unlink(w, two), 0);
	cr_assert_eq(sh_count(w, "/", 1), 0);
}

/* A name that an inode gets later must not take the key that it was born with. */
Test(meta_name, two_names_of_one_hash_are_two_names_of_one_file)
{
	char one[20], two[20], text[BLOCK_SIZE];

	find_collision(one, two);
	cr_assert_eq(sh_put(w, one, 0, "one", 3), 0);
	cr_assert_eq(sh_link(w, one, two), 0);
	cr_assert_eq(sh_stat(w, one, 0, &a), 0);
	cr_assert_eq(sh_stat(w, two, 0, &b), 0);
	cr_assert_eq(a.ino, b.ino);
	cr_assert_eq(a.nlink, 2);
	cr_assert_eq(sh_count(w, "/", 1), 2);
	cr_assert_eq(sh_rename(w, two, "x", 0), 0);
	cr_assert_eq(sh_put(w, one, 0, "eins", 4), 0); /* another inode under that key */
	cr_assert_eq(sh_rename(w, "x", two, 0), 0);
	cr_assert_eq(sh_read(w, one, text, sizeof(text)), 4);
	cr_assert_eq(sh_read(w, two, text, sizeof(text)), 3);
	cr_assert_eq(sh_count(w, "/", 1), 2);
}

Test(meta_name, the_hash_depends_on_directory_and_secret)
{
	const uint64_t h = meta__name_hash(w->m, 1, "name", 4);

	cr_assert_leq(h, META__MASK40);
	cr_assert_neq(h, meta__name_hash(w->m, 2, "name", 4));
	w->m->secret++;
	cr_assert_neq(h, meta__name_hash(w->m, 1, "name", 4));
	w->m->secret--;
}
