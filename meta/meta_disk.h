/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The bytes of FORMAT.md, drawn and asserted.  Change both or neither. */
#ifndef META_DISK_H
#define META_DISK_H

#include "base/le.h"

#include <stddef.h>

#define META_FORMAT_VERSION 4u
#define META_PAGE_BYTES     16384u
#define META_PAGE_BLOCKS    4u
#define META_VALUE_MAX      2304u /* of a record: 6 of the largest fit a page */

/* Pages: FORMAT.md 4 */
#define META_PAGE_MAGIC      0x6770776bu /* "kwpg" */
#define META_PAGE_LEVELS_MAX 8u
#define META_LEAF_SLOTS_MAX  510u
#define META_INNER_MAX       408u

LAYOUT_BEGIN
struct meta_key_disk {
	le64 w[3];
};

/* FORMAT.md "Name record": a byte; then what it says is there, and the name's bytes. */
#define META__NAME_HANDLE 0x80u /* with enum meta_type: the handle differs from the key's */

/* FORMAT.md "Inode record": then mtime_ns, what `fields` says is there, checksum, inline bytes. */
struct meta_inode_disk {
	le16 mode; /* and from bit 12 on the type */
	le16 fields;
};
#define META__INODE_TYPE_SHIFT 12u
#define META__INODE_FLAGS      0x000fu /* enum meta__inode_flags */
/* Fields that are present, in this order: of four a le32, of the others a le64. */
#define META__HAS_NLINK     0x0010u /* else 1                                              */
#define META__HAS_TAIL      0x0020u /* tail_len; else 0                                    */
#define META__HAS_XATTRS    0x0040u /* else 0                                              */
#define META__HAS_EPOCH     0x0080u /* else 0                                              */
#define META__HAS_NUMBER    0x0100u /* a directory's; counted, else the key's directory    */
#define META__HAS_TRIM_FROM 0x0200u /* else 0                                              */
#define META__HAS_CTIME     0x0400u /* else it is mtime                                    */
#define META__HAS_ATIME     0x0800u /* else it is ctime                                    */
#define META__HAS_OWNER     0x1000u /* uid, gid, a le32 each; else 0 and 0                 */
#define META__HAS_SIZE      0x2000u /* else the bytes of it that the index holds           */
#define META__HAS_BLOCKS    0x4000u /* else computed from the file's size                  */
#define META__INODE_FIELDS  0x7fffu /* with the flags */
#define META__INODE_RARE    0x03ffu /* most files have none of these */

/* FORMAT.md "Attribute record", piece 0; followed by the name, and by a value that is short. */
struct meta_xattr_disk {
	le32 value_len;
	uint8_t name_len;
	uint8_t reserved[3];
};

/* FORMAT.md "Directory record": in the shard that holds the entries. */
struct meta_dir_disk {
	le64 count;    /* entries                                             */
	le64 subdirs;  /* of them, those of directories                       */
	le64 mtime_ns; /* of the newest change of an entry, or as set         */
	le64 ctime_ns; /* of the newest change of an entry                    */
	le64 inode_dir, inode_hash, inode_uniq; /* the handle of its inode    */
	le64 parent;     /* the number of the parent directory                  */
	le64 flags;      /* META__DIR_*; 31..16: fragments; 63..32: resets          */
	le64 own_bytes;  /* of the files that it counts: the sum of their sizes */
	le64 own_blocks; /* ... and of their blocks                             */
};
#define META__DIR_GOING           1u /* its inode has no link: all in it is being freed      */
#define META__DIR_PENDING         2u /* its total may differ from the passed-up one          */
#define META__DIR_SPREAD          4u /* new names go to its fragments                            */
#define META__DIR_MTIME_SET       8u /* spread: mtime_ns is no entry's change              */
#define META__DIR_FLAGS           15u
#define META__DIR_FRAGMENTS_SHIFT 16u
#define META__DIR_RESETS_SHIFT    32u

/* FORMAT.md "Totals record": beside the directory's.  Of whole trees. */
struct meta_sums_disk {
	le64 entries;
	le64 dirs;
	le64 bytes;
	le64 blocks;
};
struct meta_totals_disk {
	struct meta_sums_disk below;  /* sums passed up by its subdirectories */
	struct meta_sums_disk passed; /* sums passed up to its parent         */
};

/* FORMAT.md "Orphan record": key's uniq is the handle's; in the shard of the inode. */
struct meta_orphan_disk {
	le64 inode_dir, inode_hash, inode_uniq; /* the handle                          */
	le64 mount_epoch; /* of the mount whose session holds it; an older one: none */
};

/* FORMAT.md "Extent record": then nruns of meta_run_disk, then nblocks of le32 checksums. */
struct meta_extent_disk {
	le32 epoch;
	le16 nruns;
	le16 nblocks; /* from the chunk's first block on; holes after them */
};

/* drive 12 bits (63..52), first block 44 (51..8), blocks 8 (1 .. 128); drive and block 0: a hole */
struct meta_run_disk {
	le64 packed;
};

/* FORMAT.md "Page header" */
struct meta_page_disk {
	le32 crc32c; /* of the 16,380 bytes after it                        */
	le32 magic;
	le64 baddr; /* its own address: detects a misdirected write        */
	le64 gen;   /* when it got that place: a lost write is found       */
	le32 shard;
	le16 level;                 /* 0: leaf                                             */
	le16 count;                 /* records of a leaf, children of an interior page     */
	le16 heap_start;            /* leaf: first byte of values; interior page: 0    */
	le16 heap_dead;             /* leaf: bytes after it that no record uses        */
	le32 order;                 /* ascends over those that its shard's pages were given in it */
	struct meta_key_disk first; /* no key of the page is below          */
};

/* FORMAT.md "Leaf page": slots grow up from the header, values down from the end */
struct meta_slot_disk {
	le64 w[3];
	le16 offset; /* of the value in the page, a multiple of 8 */
	le16 length;
	le32 reserved;
};

struct meta_leaf_disk {
	struct meta_page_disk head;
	struct meta_slot_disk slot[META_LEAF_SLOTS_MAX];
};

/* FORMAT.md "Interior page": the first words of all separators lie together, for the search */
struct meta_child_disk {
	le64 w1, w2; /* the separator's other words */
	le64 baddr;
	le64 gen;
};

struct meta_inner_disk {
	struct meta_page_disk head;
	le64 w0[META_INNER_MAX];
	struct meta_child_disk child[META_INNER_MAX];
};
LAYOUT_END

static_assert(sizeof(struct meta_key_disk) == 24, "FORMAT.md 3");
static_assert(sizeof(struct meta_page_disk) == 64, "FORMAT.md 4");
static_assert(sizeof(struct meta_slot_disk) == 32, "FORMAT.md 4");
static_assert(sizeof(struct meta_child_disk) == 32, "FORMAT.md 4");
static_assert(sizeof(struct meta_leaf_disk) == META_PAGE_BYTES, "FORMAT.md 4");
static_assert(sizeof(struct meta_inner_disk) == META_PAGE_BYTES, "FORMAT.md 4");
static_assert(sizeof(struct meta_inode_disk) == 4, "FORMAT.md 5");
static_assert(sizeof(struct meta_xattr_disk) == 8, "FORMAT.md 5");
static_assert(sizeof(struct meta_dir_disk) == 88, "FORMAT.md 5");
static_assert(sizeof(struct meta_totals_disk) == 64, "FORMAT.md 5");
static_assert(sizeof(struct meta_orphan_disk) == 32, "FORMAT.md 5");
static_assert(sizeof(struct meta_extent_disk) == 8, "FORMAT.md 5");
static_assert(sizeof(struct meta_run_disk) == 8, "FORMAT.md 5");

#endif
