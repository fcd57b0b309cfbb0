/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * NAME and INODE records: each field that may not be there, there and not there; each value that
 * the builder does not make, refused.
 */
#include "meta/format/meta_record.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

TestSuite(meta_object, .timeout = 30);

static const struct meta_handle born = { 0x1002, 0xa1b2c3d4e5, 0x777 };
static uint8_t value[META__INODE_VALUE_MAX + 8];

/* ---- names ------------------------------------------------------------------------------ */

static struct meta_key name_key(const struct meta_handle *h)
{
	return meta__key(h->dir, h->hash, META__CLASS_NAME, h->uniq, META__KIND_NONE, 0);
}

static struct meta__name a_name(const char *bytes)
{
	return (struct meta__name){ .handle = born,
				    .type = META_TYPE_FILE,
				    .len = (uint32_t)strlen(bytes),
				    .bytes = bytes };
}

/* Built, parsed: as it was, and so long. */
static void name_is(const struct meta_key *key, const struct meta__name *n, uint32_t len)
{
	struct meta__name out;

	cr_assert_eq(meta__name_build(key, n, value), len);
	cr_assert_eq(meta__name_parse(key, value, len, &out), 0);
	cr_assert(meta__handle_eq(&out.handle, &n->handle));
	cr_assert_eq(out.type, n->type);
	cr_assert_eq(out.child, n->child);
	cr_assert_eq(out.len, n->len);
	cr_assert_arr_eq(out.bytes, n->bytes, n->len);
}

static bool name_refused(const struct meta_key *key, uint32_t len)
{
	struct meta__name out;

	return meta__name_parse(key, value, len, &out) == -EIO;
}

Test(meta_object, name_that_a_file_was_born_with_is_a_byte_and_its_bytes)
{
	const struct meta_key key = name_key(&born);
	struct meta__name n = a_name("tusk");

	name_is(&key, &n, 1 + 4);
	n.type = META_TYPE_SYMLINK;
	name_is(&key, &n, 1 + 4);
	n.type = META_TYPE_DIR;
	n.child = META__MASK48;
	name_is(&key, &n, 1 + 8 + 4);
}

Test(meta_object, name_of_another_handle_has_it)
{
	const struct meta_handle at[] = { { 0x1003, born.hash, born.uniq },
					  { born.dir, born.hash + 1, born.uniq },
					  { born.dir, born.hash, born.uniq + 1 } };
	struct meta__name n = a_name("tusk");

	for (uint32_t i = 0; i < ARRAY_LEN(at); i++) {
		const struct meta_key key = name_key(&at[i]);

		name_is(&key, &n, 1 + 16 + 4);
	}
	n.handle = (struct meta_handle){ META__MASK48, META__MASK40, META__MASK40 };
	n.type = META_TYPE_DIR;
	n.child = 1;
	name_is(&(struct meta_key){ { 0x1002ull << 16, 0, 0 } }, &n, 1 + 16 + 8 + 4);
}

Test(meta_object, longest_name_is_as_long_as_is_said)
{
	const struct meta_key key = { { 0x1003ull << 16, 0, 0 } };
	char bytes[META_NAME_MAX + 1] = "";
	struct meta__name n;

	memset(bytes, 'x', META_NAME_MAX);
	n = a_name(bytes);
	n.type = META_TYPE_DIR;
	n.child = 1;
	name_is(&key, &n, META__NAME_VALUE_MAX);
	cr_assert(name_refused(&key, META__NAME_VALUE_MAX + 1), "a byte more");
}

Test(meta_object, name_with_a_byte_that_none_has)
{
	const struct meta_key key = name_key(&born);
	char bytes[] = "\x80 name of thirty bytes, or so";
	struct meta__name n = a_name(bytes);

	for (n.len = 1; n.len < sizeof(bytes); n.len++) {
		const uint32_t len = 1 + n.len;

		name_is(&key, &n, len);
		for (uint32_t i = 1; i < len; i++) {
			const uint8_t is = value[i];

			value[i] = '/';
			cr_assert(name_refused(&key, len), "%u of %u", i, len);
			value[i] = 0;
			cr_assert(name_refused(&key, len), "%u of %u", i, len);
			value[i] = is;
		}
	}
}

Test(meta_object, name_in_a_form_that_is_not_its_own)
{
	const struct meta_handle other = { born.dir, born.hash, born.uniq + 1 };
	const struct meta_key key = name_key(&born), at = name_key(&other);
	struct meta__name n = a_name("n");

	cr_assert(name_refused(&key, 0));
	name_is(&at, &n, 18);
	cr_assert(name_refused(&key, 18), "the handle that the key has");
	cr_assert(name_refused(&at, 17), "no bytes");
	cr_assert(name_refused(&at, 9), "half a handle");
	name_is(&key, &n, 2);
	cr_assert(name_refused(&key, 1), "no bytes");
	for (uint32_t head = 0; head < 256; head++) {
		value[0] = (uint8_t)head;
		cr_assert_eq(name_refused(&key, 2),
			     head != META_TYPE_FILE && head != META_TYPE_SYMLINK, "%u", head);
	}
	cr_assert(name_refused(&(struct meta_key){ { 7, 0, 0 } }, 2), "of directory 0");
	n.type = META_TYPE_DIR;
	n.child = 1;
	name_is(&key, &n, 10);
	cr_assert(name_refused(&key, 9));
	value[1] = 0;
	cr_assert(name_refused(&key, 10), "number 0");
	value[1 + 6] = 1;
	cr_assert(name_refused(&key, 10), "a number of 49 bits");
}

/* ---- inodes ----------------------------------------------------------------------------- */

#define HEAD (4u + 8u) /* with mtime */

/* A file of one block, as it is created. */
static struct meta__inode a_file(void)
{
	return (struct meta__inode){
		.handle = born,
		.shard = 3,
		.type = META_TYPE_FILE,
		.size = 6,
		.mtime_ns = -1,
		.ctime_ns = -1,
		.atime_ns = -1,
		.mode = 0644,
		.nlink = 1,
		.counted = born.dir,
		.inline_crc = 0x12345678,
		.inline_len = 6,
		.inline_bytes = "inline",
	};
}

static struct meta__inode a_dir(void)
{
	return (struct meta__inode){
		.handle = born, .type = META_TYPE_DIR, .child = 0x1003, .mode = 0755, .nlink = 1
	};
}

static uint32_t fields(void)
{
	return value[2] | (uint32_t)value[3] << 8;
}

static void set_fields(uint32_t has)
{
	value[2] = (uint8_t)has;
	value[3] = (uint8_t)(has >> 8);
}

static bool inode_refused(uint32_t len)
{
	struct meta__inode out;

	return meta__inode_parse(3, &born, value, len, &out) == -EIO;
}

static void same(const struct meta__inode *a, const struct meta__inode *b)
{
	cr_assert(meta__handle_eq(&a->handle, &b->handle));
	cr_assert_eq(a->type, b->type);
	cr_assert_eq(a->flags, b->flags);
	cr_assert_eq(a->child, b->child);
	cr_assert_eq(a->size, b->size);
	cr_assert_eq(a->blocks, b->blocks);
	cr_assert_eq(a->mtime_ns, b->mtime_ns);
	cr_assert_eq(a->ctime_ns, b->ctime_ns);
	cr_assert_eq(a->atime_ns, b->atime_ns);
	cr_assert_eq(a->trim_from, b->trim_from);
	cr_assert_eq(a->mode, b->mode);
	cr_assert_eq(a->uid, b->uid);
	cr_assert_eq(a->gid, b->gid);
	cr_assert_eq(a->nlink, b->nlink);
	cr_assert_eq(a->epoch, b->epoch);
	cr_assert_eq(a->inline_crc, b->inline_crc);
	cr_assert_eq(a->inline_len, b->inline_len);
	cr_assert_eq(a->tail_len, b->tail_len);
	cr_assert_eq(a->xattrs, b->xattrs);
	cr_assert_eq(a->counted, b->counted);
	cr_assert(a->inline_len == 0 ||
		  memcmp(a->inline_bytes, b->inline_bytes, a->inline_len) == 0);
}

/* Built, parsed: as it was, so long, with these fields (and flags). */
static void inode_is(const struct meta__inode *in, uint32_t has, uint32_t len)
{
	struct meta__inode out;

	memset(value, 0, sizeof(value));
	cr_assert_eq(meta__inode_build(in, value), len);
	cr_assert_eq(fields(), has, "%x", fields());
	cr_assert_eq(meta__inode_parse(3, &born, value, len, &out), 0);
	same(in, &out);
	cr_assert_eq(out.shard, 3);
	cr_assert_eq(out.was.dir, in->counted);
	cr_assert_eq(out.was.bytes, in->size);
	cr_assert_eq(out.was.blocks, in->blocks);
	set_fields(has | 0x8000);
	cr_assert(inode_refused(len), "a bit that means nothing");
	set_fields(has);
}

/* Returns true if the record parses, and builds again to the same bytes. */
static bool is_its_own(uint32_t len)
{
	uint8_t again[META__INODE_VALUE_MAX];
	struct meta__inode out;

	return meta__inode_parse(3, &born, value, len, &out) == 0 &&
	       meta__inode_build(&out, again) == len && memcmp(again, value, len) == 0;
}

/* The same for an inode without inline bytes, where all lengths are known.  (In another inode eight
 * bytes without a field may be a checksum and inline bytes.) */
static void fields_are(const struct meta__inode *in, uint32_t has, uint32_t len)
{
	inode_is(in, has, len);
	for (uint32_t n = 0; n < len; n++)
		cr_assert(inode_refused(n), "%u bytes", n);
	for (uint32_t n = 1; n <= 4; n++)
		cr_assert(inode_refused(len + n), "%u bytes more", n);
	for (uint32_t bit = META__HAS_NLINK; bit <= META__HAS_BLOCKS; bit <<= 1) {
		set_fields(has ^ bit);
		cr_assert(inode_refused(len) || is_its_own(len), "not with %x", has ^ bit);
	}
	set_fields(has);
}

/* The field at `at`, of so many bytes, may not be what it is without. */
static void never(uint32_t at, uint32_t bytes, uint64_t without, uint32_t len)
{
	const le64 d = le64_of(without);
	uint8_t is[8];

	cr_assert_not(inode_refused(len));
	memcpy(is, value + at, bytes);
	memcpy(value + at, &d, bytes);
	cr_assert(inode_refused(len));
	memcpy(value + at, is, bytes);
}

Test(meta_object, file_as_most_are)
{
	struct meta__inode in = a_file();

	inode_is(&in, 0, HEAD + 4 + 6);
	cr_assert(inode_refused(HEAD + 4), "a checksum, and no bytes");
	for (uint32_t n = 0; n < HEAD + 4; n++)
		cr_assert_eq(inode_refused(n), n != HEAD, "%u bytes", n);
	in.inline_len = 0;
	in.inline_crc = 0;
	in.size = 0;
	fields_are(&in, 0, HEAD);
}

Test(meta_object, times)
{
	struct meta__inode in = a_file();

	in.inline_len = in.inline_crc = 0;
	in.size = 0;
	in.ctime_ns = in.atime_ns = 5;
	fields_are(&in, META__HAS_CTIME, HEAD + 8);
	never(HEAD, 8, UINT64_MAX, HEAD + 8);
	in.atime_ns = -1;
	fields_are(&in, META__HAS_CTIME | META__HAS_ATIME, HEAD + 16);
	never(HEAD, 8, UINT64_MAX, HEAD + 16);
	never(HEAD + 8, 8, 5, HEAD + 16);
	in.ctime_ns = in.mtime_ns;
	in.atime_ns = 0;
	fields_are(&in, META__HAS_ATIME, HEAD + 8);
	never(HEAD, 8, UINT64_MAX, HEAD + 8);
}

Test(meta_object, owner)
{
	struct meta__inode in = a_file();

	in.inline_len = in.inline_crc = 0;
	in.size = 0;
	in.uid = 1000;
	fields_are(&in, META__HAS_OWNER, HEAD + 8);
	never(HEAD, 8, 0, HEAD + 8);
	in.uid = 0;
	in.gid = UINT32_MAX;
	fields_are(&in, META__HAS_OWNER, HEAD + 8);
}

Test(meta_object, size_and_blocks)
{
	struct meta__inode in = a_file();

	in.size = 4096 * 3 + 6;
	in.blocks = 3;
	inode_is(&in, META__HAS_SIZE, HEAD + 8 + 4 + 6);
	never(HEAD, 8, 6, HEAD + 8 + 4 + 6);
	never(HEAD, 8, 5, HEAD + 8 + 4 + 6); /* fewer than are there */
	never(HEAD, 8, META__FILE_BYTES_MAX + 1, HEAD + 8 + 4 + 6);
	in.blocks = 2;
	inode_is(&in, META__HAS_SIZE | META__HAS_BLOCKS, HEAD + 16 + 4 + 6);
	never(HEAD + 8, 8, 3, HEAD + 16 + 4 + 6);
	in.size = 6;
	inode_is(&in, META__HAS_BLOCKS, HEAD + 8 + 4 + 6);
	never(HEAD, 8, 0, HEAD + 8 + 4 + 6);
	in.inline_len = in.inline_crc = 0;
	in.size = 4097;
	fields_are(&in, META__HAS_SIZE, HEAD + 8);
	never(HEAD, 8, 0, HEAD + 8);
	in.blocks = 0; /* a hole */
	inode_is(&in, META__HAS_SIZE | META__HAS_BLOCKS, HEAD + 16);
	never(HEAD + 8, 8, META__FILE_BYTES_MAX / BLOCK_SIZE + 1, HEAD + 16);
}

Test(meta_object, tail)
{
	struct meta__inode in = a_file();
	const uint32_t all = HEAD + 4 + 8 + 4;

	in.inline_len = 0;
	in.size = in.tail_len = 904;
	fields_are(&in, META__HAS_TAIL, HEAD + 4 + 4);
	in.size = 5000;
	in.blocks = 1;
	fields_are(&in, META__HAS_TAIL | META__HAS_SIZE, all);
	never(HEAD, 4, 0, all);
	never(HEAD, 4, META_TAIL_MAX + 1, all);
	never(HEAD + 4, 8, 903, all); /* fewer than are there */
	never(HEAD + 4, 8, 904, all);
	value[all] = 'x';
	cr_assert(inode_refused(all + 1), "and inline bytes");
	value[1] = (uint8_t)(META_TYPE_SYMLINK << 4);
	cr_assert(inode_refused(all));
}

Test(meta_object, names_of_a_file)
{
	struct meta__inode in = a_file();

	in.inline_len = in.inline_crc = 0;
	in.size = 0;
	in.nlink = 2;
	in.flags = META__INODE_LINKED;
	fields_are(&in, META__INODE_LINKED | META__HAS_NLINK, HEAD + 4);
	never(HEAD, 4, 1, HEAD + 4);
	never(HEAD, 4, 0, HEAD + 4);
	never(HEAD, 4, META_LINKS_MAX + 1, HEAD + 4);
	in.nlink = 0;
	in.flags = 0;
	in.counted = 0;
	fields_are(&in, META__HAS_NLINK, HEAD + 4);
	set_fields(META__HAS_NLINK | META__INODE_LINKED);
	cr_assert(inode_refused(HEAD + 4));
}

Test(meta_object, who_counts_it)
{
	struct meta__inode in = a_file();

	in.inline_len = in.inline_crc = 0;
	in.size = 0;
	in.counted = 0x1004;
	fields_are(&in, META__HAS_NUMBER, HEAD + 8);
	never(HEAD, 8, born.dir, HEAD + 8);
	never(HEAD, 8, 0, HEAD + 8);
	never(HEAD, 8, META__MASK48 + 1, HEAD + 8);
	in.nlink = 0;
	in.counted = 0;
	inode_is(&in, META__HAS_NLINK, HEAD + 4);
	memset(value + HEAD + 4, 1, 6);
	memset(value + HEAD + 10, 0, 2);
	set_fields(META__HAS_NLINK | META__HAS_NUMBER);
	cr_assert(inode_refused(HEAD + 4 + 8), "nobody counts what has no name");
}

Test(meta_object, directory)
{
	struct meta__inode in = a_dir();

	fields_are(&in, META__HAS_NUMBER, HEAD + 8);
	never(HEAD, 8, 0, HEAD + 8);
	never(HEAD, 8, META__MASK48 + 1, HEAD + 8);
	set_fields(META__HAS_NUMBER | META__INODE_TREE);
	cr_assert(inode_refused(HEAD + 8), "its tree goes, and it has a name");
	set_fields(META__HAS_NUMBER | META__INODE_HIDDEN);
	cr_assert(inode_refused(HEAD + 8));
	set_fields(META__HAS_NUMBER);
	memcpy(value + HEAD + 8, "crc and bytes", 13);
	cr_assert(inode_refused(HEAD + 8 + 13));
	in.flags = META__INODE_TREE;
	in.nlink = 0;
	fields_are(&in, META__HAS_NLINK | META__HAS_NUMBER | META__INODE_TREE, HEAD + 4 + 8);
}

Test(meta_object, chunks_that_are_being_freed)
{
	struct meta__inode in = a_file();

	in.inline_len = in.inline_crc = 0;
	in.size = 0;
	in.flags = META__INODE_TRIMMING;
	inode_is(&in, META__INODE_TRIMMING, HEAD);
	in.trim_from = 1;
	fields_are(&in, META__INODE_TRIMMING | META__HAS_TRIM_FROM, HEAD + 8);
	never(HEAD, 8, 0, HEAD + 8);
	set_fields(META__HAS_TRIM_FROM);
	cr_assert(inode_refused(HEAD + 8), "it is not being freed");
}

Test(meta_object, epoch_and_attributes)
{
	struct meta__inode in = a_file();

	in.inline_len = in.inline_crc = 0;
	in.size = 0;
	in.epoch = 7;
	fields_are(&in, META__HAS_EPOCH, HEAD + 4);
	never(HEAD, 4, 0, HEAD + 4);
	in.epoch = 0;
	in.xattrs = META_XATTRS_MAX;
	fields_are(&in, META__HAS_XATTRS, HEAD + 4);
	never(HEAD, 4, 0, HEAD + 4);
	never(HEAD, 4, META_XATTRS_MAX + 1, HEAD + 4);
	value[1] = (uint8_t)(META_TYPE_SYMLINK << 4);
	cr_assert(inode_refused(HEAD + 4), "a symlink has none");
}

Test(meta_object, symlinks)
{
	struct meta__inode in = a_file();

	in.type = META_TYPE_SYMLINK;
	inode_is(&in, 0, HEAD + 4 + 6);
	in.inline_len = in.inline_crc = 0;
	in.size = 600;
	fields_are(&in, META__HAS_SIZE, HEAD + 8);
}

Test(meta_object, types_that_there_are)
{
	struct meta__inode in = a_file();

	inode_is(&in, 0, HEAD + 4 + 6);
	for (uint32_t type = 0; type < 16; type++) {
		value[1] = (uint8_t)((value[1] & 15) | type << 4);
		cr_assert_eq(inode_refused(HEAD + 4 + 6),
			     type != META_TYPE_FILE && type != META_TYPE_SYMLINK, "%u", type);
	}
}

Test(meta_object, longest_inode_is_as_long_as_is_said)
{
	static const uint8_t bytes[META_INLINE_MAX] = "bytes";
	struct meta__inode in = a_file();

	in.inline_len = META_INLINE_MAX;
	in.inline_bytes = bytes;
	in.size = META__FILE_BYTES_MAX;
	in.ctime_ns = 1;
	in.atime_ns = 2;
	in.uid = 3;
	in.counted = 4;
	in.flags = META__INODE_LINKED | META__INODE_TRIMMING;
	in.nlink = META_LINKS_MAX;
	in.trim_from = 5;
	in.epoch = 6;
	in.xattrs = 7;
	inode_is(&in, (META__INODE_FIELDS & ~META__HAS_TAIL & ~META__INODE_FLAGS) | in.flags,
		 META__INODE_VALUE_MAX);
	cr_assert(inode_refused(META__INODE_VALUE_MAX + 1), "a byte more");
}

Test(meta_object, number_for_people_follows_from_the_handle)
{
	const struct meta_handle root = { META_ROOT_DIR, 0, 0 };

	cr_assert_eq(meta__inode_ino(3, &root), 1);
	cr_assert_eq(meta__inode_ino(3, &born), (3ull << 40) + 0x777 + 1);
	cr_assert_eq(meta__inode_ino(0, &(struct meta_handle){ 9, 9, 1 }), 2);
}
