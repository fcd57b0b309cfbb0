/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "meta/plans/meta_plan.h"
#include "test/lib/meta_shell.h"
#include "test/unit/meta_tx_fake.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct meta_world *w;
static uint8_t bytes[META_XATTR_MAX + 1], back[META_XATTR_MAX + 1];
static struct meta_attr a;

static void setup(void)
{
	w = meta_world_fake(24, 10, 5);
	for (uint32_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + i / 2048);
	cr_assert_eq(sh_put(w, "f", 0, "file", 4), 0);
	cr_assert_eq(sh_mkdir(w, "d"), 0);
}

static void teardown(void)
{
	w->end(w);
}

TestSuite(meta_xattr, .init = setup, .fini = teardown);

static int set(const char *path, const char *name, uint32_t len, uint32_t flags)
{
	return sh_xattr_set(w, path, name, bytes, len, flags);
}

static void expect(const char *path, const char *name, uint32_t len)
{
	cr_assert_eq(sh_xattr_get(w, path, name, back, META_XATTR_MAX), len, "%s", name);
	cr_assert_arr_eq(back, bytes, len);
}

static uint64_t records(void)
{
	return meta_fake_kind(w, META__KIND_XATTR);
}

Test(meta_xattr, values_of_every_size)
{
	static const uint32_t sizes[] = { 0,    1,    1024, 1025,  2048,  2049,          4096,
					  4097, 9999, 3,    40000, 65535, META_XATTR_MAX };

	for (uint32_t i = 0; i < ARRAY_LEN(sizes); i++) {
		cr_assert_eq(set("f", "user.a", sizes[i], 0), 0);
		expect("f", "user.a", sizes[i]);
		cr_assert_eq(records(), 1 + meta__xattr_pieces(sizes[i])); /* none is left over */
		cr_assert_eq(set("d", "user.a", sizes[ARRAY_LEN(sizes) - 1 - i], 0), 0);
		cr_assert_eq(sh_xattr_del(w, "d", "user.a"), 0);
	}
	cr_assert_eq(set("f", "user.a", META_XATTR_MAX + 1, 0), -E2BIG);
	expect("f", "user.a", META_XATTR_MAX);
}

Test(meta_xattr, a_short_one_is_one_record_beside_the_inode)
{
	const uint64_t before = meta_fake_mutations(w);

	cr_assert_eq(set("f", "user.a", 100, 0), 0);
	cr_assert_eq(meta_fake_mutations(w) - before, 2); /* and the inode */
}

Test(meta_xattr, flags_say_whether_it_must_be_there)
{
	cr_assert_eq(set("f", "user.a", 5, META_MUST_EXIST), -ENODATA);
	cr_assert_eq(set("f", "user.a", 5, META_EXCL), 0);
	cr_assert_eq(set("f", "user.a", 9, META_EXCL), -EEXIST);
	expect("f", "user.a", 5);
	cr_assert_eq(set("f", "user.a", 9, META_MUST_EXIST), 0);
	expect("f", "user.a", 9);
	cr_assert_eq(sh_xattr_del(w, "f", "user.a"), 0);
	cr_assert_eq(sh_xattr_del(w, "f", "user.a"), -ENODATA);
	cr_assert_eq(sh_xattr_get(w, "f", "user.a", back, 9), -ENODATA);
	cr_assert_eq(records(), 0);
}

Test(meta_xattr, names_that_are_none)
{
	char name[300];

	memset(name, 'x', sizeof(name));
	memcpy(name, "user.", 5);
	name[256] = 0;
	cr_assert_eq(set("f", name, 1, 0), -ERANGE);
	name[255] = 0;
	cr_assert_eq(set("f", name, 1024, 0), 0);
	expect("f", name, 1024);
	cr_assert_eq(set("f", "", 1, 0), -ERANGE);
	cr_assert_eq(set("f", "user.", 1, 0), -EINVAL);
	cr_assert_eq(set("f", "user", 1, 0), -EOPNOTSUPP);
	cr_assert_eq(set("f", "trusted.x", 1, 0), -EOPNOTSUPP);
	cr_assert_eq(set("none", "user.x", 1, 0), -ENOENT);
	cr_assert_eq(sh_symlink(w, "f", "l"), 0);
	cr_assert_eq(set("l", "user.x", 1, META_NOFOLLOW), -EPERM);
	cr_assert_eq(set("l", "user.x", 1, 0), 0); /* the file's */
	expect("f", "user.x", 1);
}

struct hashed {
	uint64_t hash;
	uint32_t n;
};

static int by_hash(const void *x, const void *y)
{
	const struct hashed *p = x, *q = y;

	return p->hash < q->hash ? -1 : p->hash > q->hash;
}

/* Among three hundred thousand names some two have the same 32 bits. */
static void find_twins(char *one, char *two)
{
	const uint32_t count = 300000;
	struct hashed *h = malloc(count * sizeof(*h));
	char name[24];

	cr_assert(h);
	for (uint32_t i = 0; i < count; i++) {
		const int len = snprintf(name, sizeof(name), "user.%u", i);

		h[i] = (struct hashed){ meta__xattr_index(w->m, name, (uint32_t)len), i };
	}
	qsort(h, count, sizeof(*h), by_hash);
	for (uint32_t i = 1; i < count; i++) {
		if (h[i].hash != h[i - 1].hash)
			continue;
		snprintf(one, 24, "user.%u", h[i - 1].n);
		snprintf(two, 24, "user.%u", h[i].n);
		free(h);
		return;
	}
	cr_assert_fail("no two names of one hash");
}

/* The second has a place of its own, which it keeps when the first one goes; that leaves a gap. */
Test(meta_xattr, two_names_of_one_hash_are_two_attributes)
{
	char one[24], two[24];

	find_twins(one, two);
	cr_assert_eq(set("f", one, 10, 0), 0);
	cr_assert_eq(sh_xattr_get(w, "f", two, back, META_XATTR_MAX), -ENODATA);
	cr_assert_eq(set("f", two, 3000, META_EXCL), 0);
	expect("f", one, 10);
	expect("f", two, 3000);
	cr_assert_eq(sh_xattr_del(w, "f", one), 0);
	cr_assert_eq(sh_xattr_get(w, "f", one, back, META_XATTR_MAX), -ENODATA);
	expect("f", two, 3000);
	cr_assert_eq(set("f", two, 20, META_MUST_EXIST), 0); /* not a third one, in the gap */
	cr_assert_eq(records(), 1);
	cr_assert_eq(set("f", one, 4000, META_EXCL), 0);
	expect("f", one, 4000);
	expect("f", two, 20);
	cr_assert_eq(sh_stat(w, "f", 0, &a), 0);
	cr_assert_eq(a.xattrs, 2);
	cr_assert_eq(sh_xattr_del(w, "f", two), 0);
	cr_assert_eq(sh_xattr_del(w, "f", one), 0);
	cr_assert_eq(records(), 0);
}

Test(meta_xattr, there_are_as_many_as_a_list_can_name)
{
	char name[256];

	for (uint32_t i = 0; i < META_XATTRS_MAX; i++) {
		snprintf(name, sizeof(name), "user.%0250u", i);
		cr_assert_eq(set("d", name, i, 0), 0);
	}
	cr_assert_eq(set("d", "user.more", 1, 0), -E2BIG);
	cr_assert_eq(set("d", name, 7, 0), 0); /* one that is there */
	cr_assert_eq(sh_xattr_list(w, "d", back, META_XATTR_MAX), META_XATTR_MAX);
	for (uint32_t i = 0; i < META_XATTR_MAX; i += 256)
		cr_assert_eq(strlen((char *)back + i), 255);
	cr_assert_eq(sh_xattr_list(w, "d", back, META_XATTR_MAX - 1), -ERANGE);
	cr_assert_eq(sh_xattr_get(w, "d", name, back, 6), -ERANGE);
	cr_assert_eq(sh_rmdir(w, "d"), 0); /* more than one transaction frees */
	cr_assert_eq(sh_stat(w, "d", 0, &a), -ENOENT);
	meta_world_settle(w);
	cr_assert_eq(records(), 0);
}

/* A page of a list from `from` on; where the next one begins. */
static uint64_t list_page(uint64_t from, uint32_t *used)
{
	struct meta_op op = sh_op(META_OP_XATTR_LIST, "f");

	op.offset = from;
	op.list_out = back;
	op.list_max_bytes = META_XATTR_MAX;
	cr_assert_eq(meta_world_run(w, &op), 0);
	*used = op.list_used_bytes;
	return op.seek_more ? op.length : 0;
}

Test(meta_xattr, a_value_that_grows_between_two_pages_of_a_list_is_no_name)
{
	char name[16], last[16];
	uint32_t used;
	uint64_t next;

	for (uint32_t i = 0; i < 66; i++) {
		snprintf(name, sizeof(name), "user.%04u", i);
		cr_assert_eq(set("f", name, 10, 0), 0);
	}
	next = list_page(0, &used);
	cr_assert_neq(next, 0);
	cr_assert_eq(used, 64 * 10);
	memcpy(last, back + used - 10, 10);
	cr_assert_eq(set("f", last, 5000, 0), 0); /* its pieces stand behind it */
	cr_assert_eq(list_page(next, &used), 0);
	cr_assert_eq(used, 2 * 10);
	expect("f", last, 5000);
}

Test(meta_xattr, they_go_with_the_last_name_and_stay_until_then)
{
	uint64_t before;

	meta_world_settle(w); /* totals, too */
	before = meta_fake_records(w);
	cr_assert_eq(sh_put(w, "g", 0, "g", 1), 0);
	cr_assert_eq(set("g", "user.a", 10, 0), 0);
	cr_assert_eq(set("g", "user.b", 60000, 0), 0);
	cr_assert_eq(sh_rename(w, "g", "d/h", 0), 0);
	expect("d/h", "user.b", 60000);
	cr_assert_eq(sh_link(w, "d/h", "i"), 0);
	cr_assert_eq(sh_unlink(w, "d/h"), 0);
	expect("i", "user.a", 10);
	cr_assert_eq(sh_put(w, "k", 0, "k", 1), 0);
	cr_assert_eq(set("k", "user.a", 3, 0), 0);
	cr_assert_eq(sh_rename(w, "k", "i", 0), 0); /* over it */
	expect("i", "user.a", 3);
	cr_assert_eq(sh_xattr_get(w, "i", "user.b", back, 1), -ENODATA);
	cr_assert_eq(sh_unlink(w, "i"), 0);
	meta_world_settle(w);
	cr_assert_eq(records(), 0);
	cr_assert_eq(meta_fake_records(w), before);
}

Test(meta_xattr, the_inode_tells_that_it_changed_and_nothing_else_does)
{
	struct meta_attr b;

	cr_assert_eq(sh_stat(w, "f", 0, &a), 0);
	cr_assert_eq(set("f", "user.a", 5000, 0), 0);
	cr_assert_eq(sh_stat(w, "f", 0, &b), 0);
	cr_assert_gt(b.ctime_ns, a.ctime_ns);
	cr_assert_eq(b.mtime_ns, a.mtime_ns);
	cr_assert_eq(b.blocks, a.blocks);
	cr_assert_eq(sh_read(w, "f", back, 10), 4);
}
