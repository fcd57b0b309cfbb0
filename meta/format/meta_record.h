/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Records: the values after the keys, parsed and built (FORMAT.md 5).
 *
 * Pure: bytes in, bytes out.  A parser checks everything that it can check alone and returns -EIO
 * otherwise; its output may be relied upon.  Fuzzed by test/fuzz/fuzz_meta_extent.c.
 */
#ifndef META_RECORD_H
#define META_RECORD_H

#include "meta/meta_internal.h"

#define META__HASH_BITS      40u
#define META__MASK48         0xffffffffffffull
#define META__MASK40         0xffffffffffull
#define META__FILE_BYTES_MAX (1ull << 56)
#define META__LINK_PIECE     2048u /* bytes of a symlink's text in one LINK record */
#define META__TAIL_PIECE     256u  /* bytes of a block in one TAIL record          */
#define META__TAIL_PIECES    16u   /* a block                                      */

/* ---- names -------------------------------------------------------------------- */

/* Head, handle, a directory's number. */
#define META__NAME_VALUE_MAX (1u + 16u + 8u + META_NAME_MAX)

struct meta__name {
	struct meta_handle handle;
	uint64_t child; /* a directory's own number; else 0 */
	enum meta_type type;
	uint32_t len;
	const char *bytes;
};

/* meta_object.c.  The key is part of the information. */
must_check int meta__name_parse(const struct meta_key *key, const void *value, uint32_t value_len,
				struct meta__name *out);
uint32_t meta__name_build(const struct meta_key *key, const struct meta__name *in, void *buf);

/* ---- inodes ------------------------------------------------------------------- */

/* Head, mtime, seven fields of 8 bytes (one is a directory's number, or its counting directory's),
 * three of 4, checksum; with a tail there is one of 4 more, and no bytes. */
#define META__INODE_VALUE_MAX                                                                      \
	(sizeof(struct meta_inode_disk) + 8u + 7 * 8u + 3 * 4u + 4u + META_INLINE_MAX)

enum meta__inode_flags {
	META__INODE_TRIMMING = 1 << 0, /* chunks from trim_from on are not the file's any more */
	META__INODE_HIDDEN = 1 << 1,   /* a put in progress: no name yet, an ORPHAN record     */
	META__INODE_TREE = 1 << 2,     /* a directory without a name: its entries are freed    */
	META__INODE_LINKED = 1 << 3,   /* several names, and LINKS records                     */
};

/* The sums that a directory counts for a file; none: dir 0. */
struct meta__counted {
	uint64_t dir;
	uint64_t bytes;
	uint64_t blocks;
};

struct meta__inode {
	struct meta_handle handle; /* the key's: not in the value */
	uint32_t shard;            /* where it lies               */
	enum meta_type type;
	uint32_t flags;
	uint64_t child;
	uint64_t size;
	uint64_t blocks;
	int64_t mtime_ns;
	int64_t ctime_ns;
	int64_t atime_ns;
	uint64_t trim_from;
	uint32_t mode;
	uint32_t uid;
	uint32_t gid;
	uint32_t nlink;
	uint32_t epoch;
	uint32_t inline_crc;
	uint32_t inline_len;      /* of a symlink: of its text, when that is short */
	uint32_t tail_len;        /* of a file: bytes in TAIL records              */
	uint32_t xattrs;          /* ... of a file or directory                    */
	uint64_t counted;         /* of a file with a name: the directory that counts its bytes */
	struct meta__counted was; /* as it was read: not in the value       */
	const void *inline_bytes;
};

/* Returns true if a directory counts its bytes: it has a name, and is not a directory. */
static inline bool meta__inode_counts(const struct meta__inode *in)
{
	return in->nlink > 0 && in->type != META_TYPE_DIR;
}

/* Its number for people; the root's, which no counter gave a uniquifier, is 1. */
static inline uint64_t meta__inode_ino(uint32_t shard, const struct meta_handle *h)
{
	return h->uniq ? ((uint64_t)shard << META__HASH_BITS) + h->uniq + 1 : 1;
}

/* meta_object.c.  Handle and shard are where it stands. */
must_check int meta__inode_parse(uint32_t shard, const struct meta_handle *h, const void *value,
				 uint32_t value_len, struct meta__inode *out);
uint32_t meta__inode_build(const struct meta__inode *in, void *buf);

/* ---- extended attributes ------------------------------------------------------ */

#define META__XATTR_INLINE 1024u /* largest value that is stored after its name */
#define META__XATTR_PIECE  2048u /* bytes of a longer one in one record, from piece 1 on    */
#define META__XATTR_VALUE_MAX                                                                      \
	(sizeof(struct meta_xattr_disk) + META_XATTR_NAME_MAX + META__XATTR_INLINE)

struct meta__xattr {
	uint32_t value_len;
	uint32_t name_len;
	const char *name;
	const uint8_t *value; /* NULL: in pieces */
};

/* Piece 0. */
must_check int meta__xattr_parse(const void *value, uint32_t value_len, struct meta__xattr *out);
uint32_t meta__xattr_build(const struct meta__xattr *in, void *buf);

/* meta_xattr.c: of piece 0 of the first one with that hash. */
uint64_t meta__xattr_index(const struct meta *m, const char *name, uint32_t len);

static inline uint32_t meta__xattr_pieces(uint32_t value_len)
{
	return value_len <= META__XATTR_INLINE ? 0 : (uint32_t)div_up(value_len, META__XATTR_PIECE);
}

/* ---- directories, and their fragments (meta_spread.c) -------------------------------- */

/* A directory's number has 12 bits of a shard and 36 of a counter.  No counter reaches bit 35: that
 * and the four below are a fragment's, of which the others say whose. */
#define META__FRAGMENTS      16u
#define META__FRAGMENT_SHIFT 31u
#define META__FRAGMENT       (1ull << 35)
#define META__FRAGMENT_MASK                                                                        \
	(META__FRAGMENT | (uint64_t)(META__FRAGMENTS - 1) << META__FRAGMENT_SHIFT)
#define META__COUNTER_MASK ((1ull << 36) - 1)

static inline bool meta__is_fragment(uint64_t dir)
{
	return (dir & META__FRAGMENT) != 0;
}

/* Returns the directory whose fragment it is; else the directory itself. */
static inline uint64_t meta__whole_of(uint64_t dir)
{
	return meta__is_fragment(dir) ? dir & ~META__FRAGMENT_MASK : dir;
}

static inline uint32_t meta__fragment_index(uint64_t fragment)
{
	return (uint32_t)(fragment >> META__FRAGMENT_SHIFT) & (META__FRAGMENTS - 1);
}

static inline uint64_t meta__fragment_at(uint64_t dir, uint32_t index)
{
	return dir | META__FRAGMENT | (uint64_t)index << META__FRAGMENT_SHIFT;
}

/* Where names of this hash are put. */
static inline uint64_t meta__fragment_of(uint64_t dir, uint64_t hash)
{
	return meta__fragment_at(dir, (uint32_t)(hash >> (META__HASH_BITS - 4)));
}
static_assert(META__FRAGMENTS == 1u << 4, "four bits of a number, and of a hash");

/* Its number leaves room for those of fragments. */
static inline bool meta__may_spread(uint64_t dir)
{
	return (dir & META__COUNTER_MASK) < 1ull << META__FRAGMENT_SHIFT;
}

struct meta__dir {
	uint64_t count;
	uint64_t subdirs;
	uint64_t own_bytes; /* of the files that it counts */
	uint64_t own_blocks;
	int64_t mtime_ns;
	int64_t ctime_ns;
	struct meta_handle inode;
	uint64_t parent;
	bool going;         /* with its tree: meta_rmtree.c                 */
	bool pending;       /* has a total to pass up, perhaps: meta_totals.c */
	bool spread;        /* new names go to its fragments: meta_spread.c       */
	bool mtime_set;     /* of one that is spread: it was set, not changed by an entry  */
	uint32_t fragments; /* ... a bit for each that has a record                             */
	uint32_t resets; /* ... how often mtime was set; of a fragment: when it changed last     */
};

/* Could it be the record of the directory, or fragment, with this number? */
static inline bool meta__dir_fits(uint64_t dir, const struct meta__dir *d)
{
	if (meta__is_fragment(dir))
		return !d->spread && d->parent == meta__whole_of(dir);
	return !d->spread || meta__may_spread(dir);
}

struct meta__sums {
	uint64_t entries;
	uint64_t dirs;
	uint64_t bytes;
	uint64_t blocks;
};

struct meta__totals {
	struct meta__sums below;
	struct meta__sums passed;
	bool there; /* it has a record: not in the value */
};

struct meta__orphan {
	struct meta_handle handle;
	uint64_t mount_epoch;
};

must_check int meta__dir_parse(const void *value, uint32_t value_len, struct meta__dir *out);
void meta__dir_build(const struct meta__dir *in, struct meta_dir_disk *out);
/* LINKS: how many. */
must_check int meta__links_parse(const void *value, uint32_t value_len, uint64_t *names);
must_check int meta__totals_parse(const void *value, uint32_t value_len, struct meta__totals *out);
/* Totals of a tree, as the directory's records have them. */
struct meta__sums meta__total_of(const struct meta__dir *d, const struct meta__totals *t);
void meta__totals_build(const struct meta__totals *in, struct meta_totals_disk *out);
must_check int meta__orphan_parse(const void *value, uint32_t value_len, struct meta__orphan *out);
void meta__orphan_build(const struct meta__orphan *in, struct meta_orphan_disk *out);

/* ---- extents: up to META_CHUNK_BLOCKS blocks of a file ---------------------------- */

#define META__EXTENT_VALUE_MAX                                                                     \
	(sizeof(struct meta_extent_disk) + META_CHUNK_BLOCKS * (sizeof(struct meta_run_disk) + 4u))

/* A checked record, still packed. */
struct meta__extent {
	uint32_t epoch;
	uint32_t nruns;
	uint32_t nblocks;
	const uint8_t *runs; /* nruns of struct meta_run_disk, perhaps not aligned */
	const uint8_t *crcs; /* nblocks of le32, perhaps not aligned               */
};

/* A chunk, one slot a block: what changes are made on.  Slots from nblocks on are holes. */
struct meta__chunk {
	uint32_t epoch;
	uint32_t nblocks;
	uint64_t baddr[META_CHUNK_BLOCKS]; /* 0: a hole */
	uint32_t crc[META_CHUNK_BLOCKS];
};

must_check int meta__extent_parse(const void *value, uint32_t value_len, struct meta__extent *out);
struct meta_run meta__extent_run(const struct meta__extent *x, uint32_t index);

void meta__chunk_init(struct meta__chunk *c, uint32_t epoch);
void meta__chunk_load(struct meta__chunk *c, const struct meta__extent *x);
/* Block `at` of the chunk becomes baddr (0: a hole), with its checksum. */
void meta__chunk_set(struct meta__chunk *c, uint32_t at, uint64_t baddr, uint32_t crc);
/* Blocks from `from` on become holes. */
void meta__chunk_trim(struct meta__chunk *c, uint32_t from);
/* Finds the next run of contiguous blocks from slot *at on; moves *at past it.  False: none. */
bool meta__chunk_next_run(const struct meta__chunk *c, uint32_t *at, struct meta_run *out);
/* Bytes of the record; 0 when the chunk is all hole, and has none. */
uint32_t meta__chunk_build(const struct meta__chunk *c, void *buf);

/* ---- keys ------------------------------------------------------------------------ */

static inline bool meta__handle_eq(const struct meta_handle *a, const struct meta_handle *b)
{
	return a->dir == b->dir && a->hash == b->hash && a->uniq == b->uniq;
}

/* Could this name a file?  Directory 0 is the store's own. */
static inline bool meta__handle_ok(const struct meta_handle *h)
{
	return h->dir != 0 && h->dir <= META__MASK48 && h->hash <= META__MASK40 &&
	       h->uniq <= META__MASK40;
}

/* Handle of an OBJ record; for a NAME record that of the object created with the name. */
static inline struct meta_handle meta__key_handle(const struct meta_key *k)
{
	return (struct meta_handle){ meta__key_dir(k), meta__key_hash(k), meta__key_uniq(k) };
}

static inline struct meta_key meta__obj_key(const struct meta_handle *h, enum meta__kind kind,
					    uint64_t index)
{
	return meta__key(h->dir, h->hash, META__CLASS_OBJ, h->uniq, kind, index);
}

/* No record of that kind has a later key. */
static inline struct meta_key meta__obj_last(const struct meta_handle *h, enum meta__kind kind)
{
	return meta__obj_key(h, kind, META__MASK48);
}

/* No entry of the directory, and no object created in it, has a later key. */
static inline struct meta_key meta__dir_last(uint64_t dir)
{
	return meta__key(dir, META__MASK40, META__CLASS_OBJ, META__MASK40, (enum meta__kind)0xff,
			 META__MASK48);
}

static inline struct meta_key meta__dir_key(uint64_t dir)
{
	return meta__key(dir, 0, META__CLASS_DIR, 0, META__KIND_NONE, 0);
}

static inline struct meta_key meta__totals_key(uint64_t dir)
{
	return meta__key(dir, 0, META__CLASS_DIR, 0, META__KIND_NONE, 1);
}

static inline struct meta_key meta__pending_key(uint64_t dir)
{
	return meta__key(0, 0, META__CLASS_PENDING, 0, META__KIND_NONE, dir);
}

static inline struct meta_key meta__orphan_key(uint64_t uniq)
{
	return meta__key(0, 0, META__CLASS_ORPHAN, uniq, META__KIND_NONE, 0);
}

/* Returns the key right after k. */
static inline struct meta_key meta__key_next(struct meta_key k)
{
	DASSERT(!meta__key_is_last(&k));
	for (int i = 2; i >= 0; i--)
		if (++k.w[i] != 0)
			break;
	return k;
}

/* Does k name a record of this kind of the object h? */
static inline bool meta__key_is_obj(const struct meta_key *k, const struct meta_handle *h,
				    enum meta__kind kind)
{
	const struct meta_key first = meta__obj_key(h, kind, 0);

	return k->w[0] == first.w[0] && k->w[1] == first.w[1] &&
	       (k->w[2] & ~META__MASK48) == first.w[2];
}

#endif
