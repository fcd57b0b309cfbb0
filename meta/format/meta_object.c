/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The values of NAME and INODE records: bytes to checked structs and back.  A store has one of each
 * for every file, so fields that follow from the key, or have their usual value, are left out:
 *
 *   name    head | handle? | directory's number? | bytes
 *   inode   head | mtime | those of ten fields with unusual values | crc, inline bytes?
 *
 *  (1) A parser accepts: a handle that names an object; a type that exists, with a number
 *      if and only if it is a directory; sizes below META__FILE_BYTES_MAX, so that arithmetic on
 *      offsets cannot wrap; no more links than allowed [test_meta_object, test_meta_spoil].
 *  (2) Each value has one form: a field that is present has not its usual value, no unknown bit is
 *      set, no byte is left over.  So an accepted value is built again
 *      to the same bytes [test_meta_object:name_in_a_form_that_is_not_its_own].
 *  (3) A record may become longer or shorter with a change; each put takes its new length
 *      [test_meta_write:a_small_file_grows_in_its_record].
 */
#include "meta/format/meta_record.h"

#include "base/hash.h"

#include <errno.h>
#include <string.h>

/* ---- where a name belongs (FORMAT.md) ---------------------------------------------------- */

uint64_t meta__name_hash(const struct meta *m, uint64_t dir, const char *name, uint32_t len)
{
	const uint64_t seed = m->secret + meta__whole_of(dir) * 0x9e3779b97f4a7c15ull;

	return hash_bytes(seed, name, len) & META__MASK40;
}

uint32_t meta__dir_shard(const struct meta *m, uint64_t dir)
{
	DASSERT(is_pow2(m->nshards));
	return (uint32_t)(hash_u64(m->secret, dir) & (m->nshards - 1));
}

/* ---- fields ---------------------------------------------------------------------------- */

static bool type_ok(uint32_t type, uint64_t child)
{
	if (type < META_TYPE_FILE || type > META_TYPE_SYMLINK || child > META__MASK48)
		return false;
	return (type == META_TYPE_DIR) == (child != 0);
}

/* ---- fields that may not be there ------------------------------------------------------ */

static inline uint64_t load(const uint8_t *p, uint32_t bytes)
{
	le64 d = le64_of(0);

	DASSERT(bytes <= sizeof(d));
	memcpy(&d, p, bytes);
	return le64_get(d);
}

/* Reads fields; the caller has checked that enough bytes are there. */
struct reader {
	const uint8_t *at;
	uint32_t has;
	bool bad;
};

static inline uint64_t take(struct reader *r, uint32_t bytes)
{
	const uint64_t value = load(r->at, bytes);

	r->at += bytes;
	return value;
}

static inline uint64_t field(struct reader *r, uint32_t bit, uint32_t bytes, uint64_t without)
{
	uint64_t value;

	if (!(r->has & bit))
		return without;
	value = take(r, bytes);
	r->bad |= value == without; /* (2) */
	return value;
}

struct writer {
	uint8_t *at;
	uint32_t has;
};

static inline void give(struct writer *w, uint32_t bytes, uint64_t value)
{
	const le64 d = le64_of(value);

	DASSERT(bytes <= sizeof(d));
	memcpy(w->at, &d, bytes);
	w->at += bytes;
}

static inline void give_field(struct writer *w, uint32_t bit, uint32_t bytes, uint64_t value,
			      uint64_t without)
{
	if (value == without)
		return;
	w->has |= bit;
	give(w, bytes, value);
}

/* ---- names ------------------------------------------------------------------------------ */

/* Is one of these eight 0 or '/'? */
static inline bool has_bad(uint64_t w)
{
	const uint64_t ones = 0x0101010101010101ull, slash = w ^ ones * '/';

	return (((w - ones) & ~w) | ((slash - ones) & ~slash)) & ones << 7;
}

/* Names are short, and each lookup asks this of some: by eights, the last of which overlap. */
static inline bool bytes_ok(const uint8_t *p, uint32_t len)
{
	DASSERT(len > 0);
	if (len < 4)
		return !has_bad(p[0] | (uint64_t)p[len / 2] << 8 | ~0ull << 24 |
				(uint64_t)p[len - 1] << 16);
	if (len < 8)
		return !has_bad(load(p, 4) | load(p + len - 4, 4) << 32);
	for (uint32_t i = 0; i + 8 < len; i += 8)
		if (has_bad(load(p + i, 8)))
			return false;
	return !has_bad(load(p + len - 8, 8));
}

/* Reads the 128 bits of a handle from two words, the first as in a key. */
static struct meta_handle other_handle(struct reader *r)
{
	const uint64_t high = take(r, 8), low = take(r, 8);

	return (struct meta_handle){ high >> 16, (high & 0xffff) << 24 | low >> META__HASH_BITS,
				     low & META__MASK40 };
}

int meta__name_parse(const struct meta_key *key, const void *value, uint32_t value_len,
		     struct meta__name *out)
{
	const uint8_t *head = value;
	struct reader r = { .at = head + 1 };
	uint32_t type, before;

	if (value_len < 2)
		return -EIO;
	type = *head & ~META__NAME_HANDLE;
	before = 1 + (*head & META__NAME_HANDLE ? 16 : 0) + (type == META_TYPE_DIR ? 8 : 0);
	if (value_len <= before || type < META_TYPE_FILE || type > META_TYPE_SYMLINK)
		return -EIO;
	out->handle = meta__key_handle(key);
	if (unlikely(*head & META__NAME_HANDLE)) {
		const struct meta_handle birth = out->handle;

		out->handle = other_handle(&r);
		r.bad = meta__handle_eq(&out->handle, &birth); /* (2) */
	}
	out->type = (enum meta_type)type;
	out->child = 0;
	if (type == META_TYPE_DIR) {
		out->child = take(&r, 8);
		r.bad |= !type_ok(type, out->child);
	}
	out->len = value_len - before;
	out->bytes = (const char *)r.at;
	if (r.bad || out->handle.dir == 0 || out->len > META_NAME_MAX) /* it is within its bits */
		return -EIO;
	return bytes_ok(r.at, out->len) ? 0 : -EIO;
}

uint32_t meta__name_build(const struct meta_key *key, const struct meta__name *in, void *buf)
{
	const struct meta_handle birth = meta__key_handle(key), *h = &in->handle;
	const bool other = !meta__handle_eq(h, &birth);
	struct writer w = { .at = buf };

	ASSERT(in->len > 0 && in->len <= META_NAME_MAX && type_ok(in->type, in->child));
	give(&w, 1, in->type | (other ? META__NAME_HANDLE : 0));
	if (other) {
		give(&w, 8, h->dir << 16 | h->hash >> 24);
		give(&w, 8, h->hash << META__HASH_BITS | h->uniq);
	}
	if (in->child)
		give(&w, 8, in->child);
	memcpy(w.at, in->bytes, in->len);
	return (uint32_t)(w.at - (uint8_t *)buf) + in->len;
}

/* ---- inodes ----------------------------------------------------------------------------- */

#define HEAD_BYTES ((uint32_t)sizeof(struct meta_inode_disk) + 8u) /* with mtime */
#define CRC_BYTES  4u

static bool rare_sane(const struct meta__inode *i)
{
	const uint32_t file_flags = META__INODE_TRIMMING | META__INODE_HIDDEN | META__INODE_LINKED;
	const uint32_t flags = i->type == META_TYPE_FILE  ? file_flags
			       : i->type == META_TYPE_DIR ? META__INODE_TREE
							  : META__INODE_LINKED;

	if (i->flags & ~flags || i->nlink > META_LINKS_MAX)
		return false;
	if (i->flags & (META__INODE_TREE | META__INODE_HIDDEN) && i->nlink)
		return false;
	if (i->trim_from && !(i->flags & META__INODE_TRIMMING))
		return false;
	if (i->type != META_TYPE_DIR && (i->nlink > 1) != !!(i->flags & META__INODE_LINKED))
		return false;
	if (i->type == META_TYPE_DIR && i->inline_len)
		return false;
	if (i->tail_len && (i->type != META_TYPE_FILE || i->inline_len))
		return false;
	if (i->xattrs > META_XATTRS_MAX || (i->type == META_TYPE_SYMLINK && i->xattrs))
		return false;
	return i->tail_len <= min_u64(META_TAIL_MAX, i->size);
}

static bool inode_sane(const struct meta__inode *i)
{
	if (i->size > META__FILE_BYTES_MAX || i->blocks > META__FILE_BYTES_MAX / BLOCK_SIZE)
		return false;
	if (i->mode & ~07777u || i->inline_len > min_u64(META_INLINE_MAX, i->size))
		return false;
	if (!type_ok(i->type, i->child) || i->counted > META__MASK48 ||
	    meta__inode_counts(i) != (i->counted != 0))
		return false;
	if (!(i->flags | i->tail_len | i->xattrs) && !i->trim_from && !i->child && i->nlink == 1)
		return true; /* most files */
	return rare_sane(i);
}

/* Returns the usual number of blocks: all of the file except the part in the index. */
static uint64_t usual_blocks(const struct meta__inode *i)
{
	return i->type == META_TYPE_FILE ? div_up(i->size - i->inline_len - i->tail_len, BLOCK_SIZE)
					 : 0;
}

/* The usual counting directory is the one in which the file was created. */
static uint64_t usual_number(const struct meta__inode *i)
{
	return meta__inode_counts(i) ? i->handle.dir : 0;
}

/* Behind head and mtime, in front of the checksum. */
static inline uint32_t inode_fields(uint32_t has)
{
	static const uint8_t ones[32] = { 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
					  1, 2, 2, 3, 2, 3, 3, 4, 2, 3, 3, 4, 3, 4, 4, 5 };
	uint32_t bytes = 8u * ones[has >> 10 & 31];

	static_assert((META__INODE_FIELDS & ~META__INODE_RARE) == 31u << 10 &&
			      (META__INODE_RARE & ~META__INODE_FLAGS) == 63u << 4,
		      "five bits of le64; four of le32, and two of le64");
	if (has & META__INODE_RARE)
		bytes += 4u * ones[has >> 4 & 15] + 8u * ones[has >> 8 & 3];
	return bytes;
}

static void rare_fields(struct reader *r, struct meta__inode *out)
{
	uint64_t number;

	out->nlink = (uint32_t)field(r, META__HAS_NLINK, 4, 1);
	out->tail_len = (uint32_t)field(r, META__HAS_TAIL, 4, 0);
	out->xattrs = (uint32_t)field(r, META__HAS_XATTRS, 4, 0);
	out->epoch = (uint32_t)field(r, META__HAS_EPOCH, 4, 0);
	number = field(r, META__HAS_NUMBER, 8, usual_number(out));
	out->child = out->type == META_TYPE_DIR ? number : 0;
	out->counted = out->type == META_TYPE_DIR ? 0 : number;
	out->trim_from = field(r, META__HAS_TRIM_FROM, 8, 0);
}

/* A file with the name that it was born with, and nothing else. */
static inline void no_rare_fields(struct meta__inode *out)
{
	out->nlink = 1;
	out->tail_len = out->xattrs = out->epoch = 0;
	out->child = out->trim_from = 0;
	out->counted = out->handle.dir;
}

static inline void common_fields(struct reader *r, struct meta__inode *out)
{
	uint64_t owner;

	out->ctime_ns = (int64_t)field(r, META__HAS_CTIME, 8, (uint64_t)out->mtime_ns);
	out->atime_ns = (int64_t)field(r, META__HAS_ATIME, 8, (uint64_t)out->ctime_ns);
	owner = field(r, META__HAS_OWNER, 8, 0);
	out->uid = (uint32_t)owner;
	out->gid = (uint32_t)(owner >> 32);
	out->size = field(r, META__HAS_SIZE, 8, (uint64_t)out->inline_len + out->tail_len);
	out->blocks = field(r, META__HAS_BLOCKS, 8, usual_blocks(out));
}

/* Reads `behind` bytes after the fields: a checksum, and inline bytes unless there is a tail. */
static inline void inline_bytes(struct reader *r, uint32_t behind, struct meta__inode *out)
{
	out->inline_crc = 0;
	if (behind >= CRC_BYTES)
		out->inline_crc = (uint32_t)take(r, CRC_BYTES);
	out->inline_bytes = r->at;
	if (behind)
		r->bad |= behind < CRC_BYTES || !(out->inline_len + out->tail_len);
	else
		r->bad |= out->tail_len != 0;
}

int meta__inode_parse(uint32_t shard, const struct meta_handle *h, const void *value,
		      uint32_t value_len, struct meta__inode *out)
{
	struct reader r = { .at = value };
	uint32_t mode, behind;

	if (value_len < HEAD_BYTES)
		return -EIO;
	mode = (uint32_t)take(&r, 2);
	r.has = (uint32_t)take(&r, 2);
	behind = HEAD_BYTES + inode_fields(r.has);
	if (r.has & ~META__INODE_FIELDS || value_len < behind)
		return -EIO;
	behind = value_len - behind;
	out->handle = *h;
	out->shard = shard;
	out->type = (enum meta_type)(mode >> META__INODE_TYPE_SHIFT);
	out->mode = mode & 07777;
	out->flags = r.has & META__INODE_FLAGS;
	out->mtime_ns = (int64_t)take(&r, 8);
	if (r.has & META__INODE_RARE)
		rare_fields(&r, out);
	else
		no_rare_fields(out);
	out->inline_len = behind > CRC_BYTES ? behind - CRC_BYTES : 0;
	common_fields(&r, out);
	inline_bytes(&r, behind, out);
	out->was = (struct meta__counted){ out->counted, out->size, out->blocks };
	return !r.bad && inode_sane(out) ? 0 : -EIO;
}

uint32_t meta__inode_build(const struct meta__inode *in, void *buf)
{
	const uint32_t mode = (uint32_t)in->type << META__INODE_TYPE_SHIFT | in->mode;
	struct writer w = { .at = (uint8_t *)buf + sizeof(struct meta_inode_disk), in->flags };

	ASSERT(inode_sane(in));
	give(&w, 8, (uint64_t)in->mtime_ns);
	give_field(&w, META__HAS_NLINK, 4, in->nlink, 1);
	give_field(&w, META__HAS_TAIL, 4, in->tail_len, 0);
	give_field(&w, META__HAS_XATTRS, 4, in->xattrs, 0);
	give_field(&w, META__HAS_EPOCH, 4, in->epoch, 0);
	give_field(&w, META__HAS_NUMBER, 8, in->child | in->counted, usual_number(in));
	give_field(&w, META__HAS_TRIM_FROM, 8, in->trim_from, 0);
	give_field(&w, META__HAS_CTIME, 8, (uint64_t)in->ctime_ns, (uint64_t)in->mtime_ns);
	give_field(&w, META__HAS_ATIME, 8, (uint64_t)in->atime_ns, (uint64_t)in->ctime_ns);
	give_field(&w, META__HAS_OWNER, 8, (uint64_t)in->gid << 32 | in->uid, 0);
	give_field(&w, META__HAS_SIZE, 8, in->size, (uint64_t)in->inline_len + in->tail_len);
	give_field(&w, META__HAS_BLOCKS, 8, in->blocks, usual_blocks(in));
	if (in->inline_len || in->tail_len)
		give(&w, CRC_BYTES, in->inline_crc);
	if (in->inline_len)
		memcpy(w.at, in->inline_bytes, in->inline_len);
	DASSERT((uint32_t)(w.at - (uint8_t *)buf) ==
		HEAD_BYTES + inode_fields(w.has) +
			(in->inline_len || in->tail_len ? CRC_BYTES : 0)); /* (2) */
	memcpy(buf, &(struct meta_inode_disk){ le16_of((uint16_t)mode), le16_of((uint16_t)w.has) },
	       sizeof(struct meta_inode_disk));
	return (uint32_t)(w.at - (uint8_t *)buf) + in->inline_len;
}
