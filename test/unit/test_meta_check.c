/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The check finds what is wrong: records are changed on the drive and their page's checksum made
 * right again, as a bug would do it.
 */
#include "meta/format/meta_page.h"
#include "meta/format/meta_record.h"
#include "test/lib/meta_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct rig r;
static struct meta_check check;

/* The file's first block becomes its tail. */
static void give_tail(const char *path)
{
	static const char text[1000] = "a tail";
	struct meta_op op = {
		.type = META_OP_STAT,
		.target = { .path = path, .path_len = (uint32_t)strlen(path) },
		.wall_ns = 6,
		.inline_buf = (void *)(uintptr_t)text,
	};

	cr_assert_eq(rig_run(&r, &op), 0);
	op.type = META_OP_WRITE;
	op.target = (struct meta_target){ .handle = op.attr.handle };
	op.flags = META_BY_INLINE;
	op.inline_len = sizeof(text);
	cr_assert_eq(rig_run(&r, &op), 0);
}

static void give_attribute(const char *path, const char *name, uint32_t len)
{
	static uint8_t value[5000];
	struct meta_op op = {
		.type = META_OP_XATTR_SET,
		.target = { .path = path, .path_len = (uint32_t)strlen(path) },
		.wall_ns = 7,
		.xattr = name,
		.xattr_len = (uint32_t)strlen(name),
		.list_out = value,
		.list_used_bytes = len,
	};

	cr_assert_eq(rig_run(&r, &op), 0);
}

static void store(void)
{
	rig_make(&r, 9, 1, 8u << 20, 4, true);
	cr_assert_eq(rig_format(&r), 0);
	cr_assert_eq(rig_mkdir(&r, "/one"), 0);
	cr_assert_eq(rig_mkdir(&r, "/two"), 0);
	for (uint32_t i = 0; i < 20; i++) {
		char path[32];

		(void)snprintf(path, sizeof(path), "/%s/file %u", i % 2 ? "one" : "two", i);
		cr_assert_eq(rig_put(&r, path, i % 4, i + 1), 0);
	}
	give_tail("/one/file 1");
	give_tail("/two/file 2");
	give_attribute("/two", "user.a", 5);
	give_attribute("/two/file 4", "user.long", 5000);
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0);
}

static void store_end(void)
{
	rig_end(&r);
}

TestSuite(meta_check, .init = store, .fini = store_end, .timeout = 30);

/* A leaf as it lies on the drive. */
struct place {
	uint8_t *page;
	uint32_t at;
	uint32_t shard;
};

/* The n-th record of this class and kind; its value may be changed. */
static void *find(enum meta__class class_, enum meta__kind kind, uint32_t n, struct place *out)
{
	for (uint32_t s = 0; s < r.m->nshards; s++) {
		const struct meta__shard *shard = &r.m->shard[s];

		cr_assert_leq(shard->height, 1, "this test's trees are single leaves");
		if (shard->height == 0)
			continue;
		*out = (struct place){ .page = rig_block(&r, shard->root_baddr), .shard = s };
		for (; out->at < meta__page_count(out->page); out->at++) {
			struct meta_key key = meta__leaf_key(out->page, out->at);
			const void *value;
			uint32_t len;

			if (meta__key_class(&key) != class_ || meta__key_kind(&key) != kind ||
			    n-- > 0)
				continue;
			meta__leaf_value(out->page, out->at, &value, &len);
			return out->page + ((const uint8_t *)value - out->page);
		}
	}
	cr_assert(false, "there is no such record");
	return NULL;
}

/* The record at `p` becomes another, perhaps of another length. */
static void put_value(const struct place *p, const void *value, uint32_t len)
{
	const struct meta_key key = meta__leaf_key(p->page, p->at);

	if (meta__leaf_replace(p->page, p->at, value, len))
		return;
	meta__leaf_remove(p->page, p->at);
	meta__leaf_insert(p->page, p->at, &key, value, len);
}

static struct meta__inode inode_at(uint32_t n, struct place *p)
{
	const void *value = find(META__CLASS_OBJ, META__KIND_INODE, n, p);
	const struct meta_key key = meta__leaf_key(p->page, p->at);
	const struct meta_handle h = meta__key_handle(&key);
	struct meta__inode in;
	uint32_t len;

	meta__leaf_value(p->page, p->at, &value, &len);
	cr_assert_eq(meta__inode_parse(p->shard, &h, value, len, &in), 0);
	return in;
}

static void put_inode(const struct place *p, const struct meta__inode *in)
{
	uint8_t value[META__INODE_VALUE_MAX];

	put_value(p, value, meta__inode_build(in, value));
}

/* Writes the changed page to the drive. */
static void seal(struct place *p)
{
	struct meta_page_disk *head = (struct meta_page_disk *)p->page;

	head->crc32c = le32_of(crc32c(p->page + 4, META_PAGE_BYTES - 4));
	memcpy(r.view[0], r.image[0], 8u << 20);
}

/* What was changed counts: does the check refuse the store, and say `what` of it? */
static bool says(struct place *p, const char *what)
{
	bool named = false;

	seal(p);
	if (rig_check(&r, &check) != -EUCLEAN || check.problems == 0)
		return false;
	for (uint32_t i = 0; i < 8; i++)
		named |= strstr(check.first[i], what) != NULL;
	return named;
}

Test(meta_check, sound_store_is_sound_and_counted)
{
	cr_assert_eq(rig_check(&r, &check), 0, "%s", check.first[0]);
	cr_assert_eq(check.problems, 0);
	cr_assert_eq(check.names, 22);
	cr_assert_eq(check.inodes, 23);
	cr_assert_eq(check.extents, 14);
	cr_assert_eq(check.blocks, 5 * (1 + 2 + 3) - 2); /* two are tails */
	cr_assert_gt(check.pages, 1);
}

Test(meta_check, page_with_a_flipped_bit)
{
	struct place p;

	(void)find(META__CLASS_NAME, META__KIND_NONE, 0, &p);
	r.view[0][p.page - r.image[0] + 5000] ^= 1;
	cr_assert_eq(rig_check(&r, &check), -EUCLEAN);
	cr_assert_not_null(strstr(check.first[0], "its checksum is wrong"), "%s", check.first[0]);
}

/* A leaf's last key is one that its parent has elsewhere. */
Test(meta_check, key_outside_the_range_of_its_page)
{
	const struct meta__shard *of = NULL;
	struct meta_slot_disk *last;
	uint64_t baddr, gen;
	struct place p;
	char path[32];

	for (uint32_t i = 0; i < 200; i++) {
		(void)snprintf(path, sizeof(path), "/one/more %u", i);
		cr_assert_eq(rig_put(&r, path, 0, i), 0);
	}
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0);
	for (uint32_t i = 0; i < r.m->nshards && !of; i++)
		of = r.m->shard[i].height == 2 ? &r.m->shard[i] : NULL;
	cr_assert_not_null(of);
	meta__inner_child(rig_block(&r, of->root_baddr), 0, &baddr, &gen);
	p = (struct place){ .page = rig_block(&r, baddr) };
	p.at = meta__page_count(p.page) - 1;
	last = (struct meta_slot_disk *)(p.page + meta__leaf_slot_at(p.at));
	last->w[0] = le64_of(le64_get(last->w[0]) | 1ull << 62);
	cr_assert(says(&p, "a key of it belongs elsewhere"), "it says %s", check.first[0]);
}

Test(meta_check, name_that_is_gone)
{
	struct place p;

	(void)find(META__CLASS_NAME, META__KIND_NONE, 3, &p);
	meta__leaf_remove(p.page, p.at);
	cr_assert(says(&p, "counts"), "it says %s", check.first[0]);
	cr_assert_geq(check.problems, 2, "its inode has no name, too");
}

/* "inode of 1.2.3: nothing", of the inode whose record stands at `p`. */
static const char *disagrees(const char *what, const struct place *p)
{
	struct meta_key key = meta__leaf_key(p->page, p->at);
	static char text[128];

	snprintf(text, sizeof(text), "%s of %llx.%llx.%llx: nothing", what,
		 (unsigned long long)meta__key_dir(&key), (unsigned long long)meta__key_hash(&key),
		 (unsigned long long)meta__key_uniq(&key));
	return text;
}

Test(meta_check, inode_that_is_gone)
{
	struct place p;
	const char *text;

	(void)find(META__CLASS_OBJ, META__KIND_INODE, 5, &p);
	text = disagrees("name", &p);
	meta__leaf_remove(p.page, p.at);
	cr_assert(says(&p, text), "it says %s", check.first[0]);
}

Test(meta_check, name_of_another_inode)
{
	struct place p;
	const void *value = find(META__CLASS_NAME, META__KIND_NONE, 4, &p);
	const struct meta_key key = meta__leaf_key(p.page, p.at);
	uint8_t again[META__NAME_VALUE_MAX];
	struct meta__name n;
	char text[64];
	uint32_t len;

	meta__leaf_value(p.page, p.at, &value, &len);
	cr_assert_eq(meta__name_parse(&key, value, len, &n), 0);
	n.handle.uniq ^= 1;
	put_value(&p, again, meta__name_build(&key, &n, again));
	snprintf(text, sizeof(text), ".%llx: nothing", (unsigned long long)n.handle.uniq);
	cr_assert(says(&p, text), "it says %s", check.first[0]);
}

Test(meta_check, link_count)
{
	struct place p;
	struct meta__inode in;
	uint32_t n = 0;

	do
		in = inode_at(n++, &p);
	while (in.type != META_TYPE_DIR || in.child == META_ROOT_DIR);
	in.nlink = 2;
	put_inode(&p, &in);
	cr_assert(says(&p, disagrees("inode", &p)), "it says %s", check.first[0]);
}

Test(meta_check, inode_without_links_that_is_no_orphan)
{
	struct place p;
	struct meta__inode in = inode_at(7, &p);

	in.nlink = 0;
	in.counted = 0;
	put_inode(&p, &in);
	cr_assert(says(&p, "nothing, or something else, agrees"), "it says %s", check.first[0]);
}

Test(meta_check, directory_count)
{
	struct place p;
	struct meta_dir_disk *d = find(META__CLASS_DIR, META__KIND_NONE, 1, &p);

	d->count = le64_of(le64_get(d->count) + 1);
	cr_assert(says(&p, "names, "), "it says %s", check.first[0]);
}

Test(meta_check, directory_count_of_directories)
{
	struct place p;
	struct meta_dir_disk *d = find(META__CLASS_DIR, META__KIND_NONE, 0, &p);

	if (meta__leaf_key(p.page, p.at).w[0] >> 16 == META_ROOT_DIR)
		d = find(META__CLASS_DIR, META__KIND_NONE, 1, &p);
	cr_assert_gt(le64_get(d->count), 0);
	d->subdirs = le64_of(le64_get(d->subdirs) + 1);
	cr_assert(says(&p, "directories, "), "it says %s", check.first[0]);
}

Test(meta_check, directory_parent)
{
	struct place p;
	struct meta_dir_disk *d = find(META__CLASS_DIR, META__KIND_NONE, 0, &p);

	if (meta__leaf_key(p.page, p.at).w[0] >> 16 == META_ROOT_DIR)
		d = find(META__CLASS_DIR, META__KIND_NONE, 1, &p);
	d->parent = le64_of(77);
	cr_assert(says(&p, "directory record of "), "it says %s", check.first[0]);
}

Test(meta_check, zone_record)
{
	struct place p;
	le64 *live = find(META__CLASS_ZONE, META__KIND_NONE, 0, &p);

	*live = le64_of(le64_get(*live) + 1);
	cr_assert(says(&p, "blocks of zone"), "it says %s", check.first[0]);
}

Test(meta_check, block_that_belongs_to_two)
{
	struct place p, q;
	struct meta_extent_disk *one = find(META__CLASS_OBJ, META__KIND_EXTENT, 0, &p);
	struct meta_extent_disk *two = one;

	for (uint32_t n = 1;
	     two == one || le16_get(two->nblocks) != le16_get(one->nblocks) || q.page != p.page;
	     n++)
		two = find(META__CLASS_OBJ, META__KIND_EXTENT, n, &q);
	memcpy(two + 1, one + 1, sizeof(struct meta_run_disk));
	cr_assert(says(&p, "belongs to two extents"), "it says %s", check.first[0]);
}

Test(meta_check, block_that_is_no_data)
{
	struct place p;
	struct meta_extent_disk *x = find(META__CLASS_OBJ, META__KIND_EXTENT, 0, &p);
	le64 run;

	memcpy(&run, x + 1, 8);
	run = le64_of((le64_get(run) & 0xff) | 1u << 8);
	memcpy(x + 1, &run, 8);
	cr_assert(says(&p, "where no data is"), "it says %s", check.first[0]);
}

Test(meta_check, inline_bytes)
{
	struct place p;
	struct meta__inode in;
	uint32_t n = 0;

	do
		in = inode_at(n++, &p);
	while (in.inline_len == 0);
	p.page[(const uint8_t *)in.inline_bytes - p.page] ^= 1;
	cr_assert(says(&p, "do not match their checksum"), "it says %s", check.first[0]);
}

Test(meta_check, bytes_of_a_tail)
{
	struct place p;
	uint8_t *piece = find(META__CLASS_OBJ, META__KIND_TAIL, 2, &p);

	piece[100] ^= 1;
	cr_assert(says(&p, "its tail does not match its checksum"), "it says %s", check.first[0]);
}

/* The inode of the file with a tail that has this size. */
static struct meta__inode tailed(uint64_t size, struct place *p)
{
	struct meta__inode in;
	uint32_t n = 0;

	do
		in = inode_at(n++, p);
	while (in.tail_len == 0 || in.size != size);
	return in;
}

/* The tail of the file of this size stands so many pieces further on, from piece `from` on. */
static void move_tail(uint64_t size, uint32_t from, uint32_t add, struct place *p)
{
	struct meta_leaf_disk *leaf;
	struct meta_handle h;

	h = tailed(size, p).handle;
	leaf = (struct meta_leaf_disk *)p->page;
	for (uint32_t i = 0; i < meta__page_count(p->page); i++) {
		struct meta_key key = meta__leaf_key(p->page, i);

		if (meta__key_is_obj(&key, &h, META__KIND_TAIL) && meta__key_index(&key) >= from)
			leaf->slot[i].w[2] = le64_of(key.w[2] + add);
	}
}

Test(meta_check, tail_with_a_gap)
{
	struct place p;

	move_tail(4096, 2, 1, &p);
	cr_assert(says(&p, "a piece of its tail is malformed"), "it says %s", check.first[0]);
}

Test(meta_check, tail_that_is_too_short)
{
	struct place p;
	struct meta__inode in = tailed(4096, &p);

	in.tail_len = 1001;
	put_inode(&p, &in);
	cr_assert(says(&p, "its tail is not as long as it says"), "it says %s", check.first[0]);
}

Test(meta_check, tail_behind_the_end)
{
	struct place p;

	move_tail(4096, 0, META__TAIL_PIECES, &p);
	cr_assert(says(&p, "its tail lies behind its end"), "it says %s", check.first[0]);
}

Test(meta_check, tail_that_is_a_block_too)
{
	struct place p;

	move_tail(8192, 0, META__TAIL_PIECES, &p);
	cr_assert(says(&p, "its tail lies on a drive, too"), "it says %s", check.first[0]);
}

Test(meta_check, attributes_that_are_not_what_is_said)
{
	struct meta__inode in;
	struct meta_xattr_disk *x;
	struct place p;
	uint32_t n = 0;

	do
		in = inode_at(n++, &p);
	while (in.xattrs == 0);
	in.xattrs = 2;
	put_inode(&p, &in);
	cr_assert(says(&p, "its attributes are not as many as it says"), "it says %s",
		  check.first[0]);
	in.xattrs = 1;
	put_inode(&p, &in);
	n = 0;
	do
		x = find(META__CLASS_OBJ, META__KIND_XATTR, n++, &p);
	while (le32_get(x->value_len) != 5000);
	x->value_len = le32_of(5001);
	cr_assert(says(&p, "a piece of an attribute's value is malformed"), "it says %s",
		  check.first[0]);
	x->value_len = le32_of(7000);
	cr_assert(says(&p, "a piece of an attribute's value is malformed"), "it says %s",
		  check.first[0]);
	x->value_len = le32_of(5000);
	((char *)(x + 1))[5]++; /* of another hash */
	cr_assert(says(&p, "an attribute is malformed"), "it says %s", check.first[0]);
	((char *)(x + 1))[5]--;
	((struct meta_leaf_disk *)p.page)->slot[p.at + 3].w[2] =
		le64_of(meta__leaf_key(p.page, p.at + 3).w[2] + 1);
	cr_assert(says(&p, "a piece of an attribute's value is malformed"), "it says %s",
		  check.first[0]);
}

Test(meta_check, orphan_record_of_nothing)
{
	struct place p;
	struct meta_orphan_disk d = { .inode_dir = le64_of(1), .inode_uniq = le64_of(5) };
	struct meta_key key = meta__orphan_key(5);
	uint32_t pos;

	(void)find(META__CLASS_NAME, META__KIND_NONE, 0, &p);
	cr_assert_not(meta__leaf_find(p.page, &key, &pos));
	meta__page_lower(p.page, &key);
	meta__leaf_insert(p.page, pos, &key, &d, sizeof(d));
	cr_assert(says(&p, "orphan record of "), "it says %s", check.first[0]);
}

Test(meta_check, record_of_an_unknown_class)
{
	struct place p;
	struct meta_key key = meta__key(0, 0, (enum meta__class)9, 0, META__KIND_NONE, 0);
	uint32_t pos;

	(void)find(META__CLASS_NAME, META__KIND_NONE, 0, &p);
	cr_assert_not(meta__leaf_find(p.page, &key, &pos));
	meta__page_lower(p.page, &key);
	meta__leaf_insert(p.page, pos, &key, "x", 1);
	cr_assert(says(&p, "unknown class"), "it says %s", check.first[0]);
}

/* ---- what directories count ---------------------------------------------------------------- */

/* Everything is passed up, and in the trees; then /two has a second name of a file of /one. */
static void counted(void)
{
	struct meta_op op = {
		.type = META_OP_LINK,
		.target = { .path = "/one/file 1", .path_len = 11 },
		.other = { .path = "/two/other", .path_len = 10 },
		.wall_ns = 8,
	};

	cr_assert_eq(rig_run(&r, &op), 0);
	meta_totals_round(r.m);
	rig_idle(&r);
	cr_assert_not(meta_totals_pending(r.m));
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0);
	cr_assert_eq(rig_check(&r, &check), 0, "%s", check.first[0]);
}

/* The n-th DIR record (index 0), or TOTALS record (1), of the root or of others. */
static void *find_dir(uint32_t index, uint32_t n, bool root, struct place *out)
{
	for (uint32_t i = 0;; i++) {
		void *value = find(META__CLASS_DIR, META__KIND_NONE, i, out);
		struct meta_key key = meta__leaf_key(out->page, out->at);

		if (meta__key_index(&key) == index &&
		    (meta__key_dir(&key) == META_ROOT_DIR) == root && n-- == 0)
			return value;
	}
}

/* The bit is wrong on the drive, and then as it was; does the check say `what` of it? */
static bool says_of_bit(le64 *at, uint32_t bit, struct place *p, const char *what)
{
	const le64 was = *at;
	bool said;

	*at = le64_of(le64_get(was) ^ 1ull << bit);
	said = says(p, what);
	*at = was;
	seal(p);
	return said;
}

/* Whichever bit it is, and whosever. */
Test(meta_check, sums_of_a_directory)
{
	static const uint32_t bits[] = { 0, 31, 61, 62, 63 };
	struct meta_totals_disk *t;
	struct meta_dir_disk *d;
	struct place p;

	counted();
	for (uint32_t n = 0; n < 2 * ARRAY_LEN(bits); n++) {
		d = find_dir(0, n % 2, false, &p);
		cr_assert(says_of_bit(&d->own_bytes, bits[n / 2], &p, "bytes and blocks of files"),
			  "%u: %s", n, check.first[0]);
		cr_assert(says_of_bit(&d->own_blocks, bits[n / 2], &p, "has not passed up its"),
			  "%u: %s", n, check.first[0]);
		t = find_dir(1, 0, true, &p);
		cr_assert(says_of_bit(n % 2 ? &t->below.bytes : &t->below.entries, bits[n / 2], &p,
				      "totals of directories below"),
			  "%u: %s", n, check.first[0]);
		t = find_dir(1, n % 2, false, &p);
		cr_assert(says_of_bit(&t->passed.blocks, bits[n / 2], &p, "has not passed up its"),
			  "%u: %s", n, check.first[0]);
	}
}

Test(meta_check, directory_that_is_pending_without_a_record)
{
	struct meta_dir_disk *d;
	struct place p;

	counted();
	d = find_dir(0, 1, false, &p);
	d->flags = le64_of(META__DIR_PENDING);
	cr_assert(says(&p, "directory that is pending"), "it says %s", check.first[0]);
}

Test(meta_check, pending_record_without_a_directory)
{
	const le64 round = le64_of(1);
	struct meta_key key, at;
	struct place p;
	uint32_t pos;

	counted();
	(void)find_dir(0, 1, false, &p);
	at = meta__leaf_key(p.page, p.at);
	key = meta__pending_key(meta__key_dir(&at));
	cr_assert_not(meta__leaf_find(p.page, &key, &pos));
	meta__page_lower(p.page, &key);
	meta__leaf_insert(p.page, pos, &key, &round, sizeof(round));
	cr_assert(says(&p, "pending record"), "it says %s", check.first[0]);
}

Test(meta_check, directory_that_does_not_count_a_file)
{
	struct meta__inode in;
	struct place p;
	uint32_t n = 0;

	counted();
	do
		in = inode_at(n++, &p);
	while (in.type != META_TYPE_FILE || in.flags & META__INODE_LINKED);
	in.counted = META_ROOT_DIR;
	put_inode(&p, &in);
	cr_assert(says(&p, "inode of "), "it says %s", check.first[0]);
}

Test(meta_check, names_of_a_file_that_has_several)
{
	struct meta__inode in;
	struct place p;
	uint32_t n = 0;
	le64 *names;

	counted();
	names = find(META__CLASS_OBJ, META__KIND_LINKS, 0, &p);
	*names = le64_of(2);
	cr_assert(says(&p, "record of names"), "it says %s", check.first[0]);
	*names = le64_of(1);
	do
		in = inode_at(n++, &p);
	while (!(in.flags & META__INODE_LINKED));
	in.counted = META_ROOT_DIR;
	put_inode(&p, &in);
	cr_assert(says(&p, "no name is in the directory that counts it"), "it says %s",
		  check.first[0]);
}
