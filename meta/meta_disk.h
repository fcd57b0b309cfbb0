/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The bytes of FORMAT.md, drawn and asserted.  Change both or neither. */
#ifndef META_DISK_H
#define META_DISK_H

#include "base/le.h"

#include <stddef.h>

#define META_FORMAT_VERSION 2u
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

/* Names: FORMAT.md "Name record"; followed by the name's bytes. */
struct meta_name_disk {
	le64 dir;     /* of the handle                         */
	le64 hash;    /* of the handle                         */
	le64 uniq;    /* of the handle                         */
	le64 child;   /* a directory's own number; else 0      */
	uint8_t type; /* enum meta_type                        */
	uint8_t name_len;
	uint8_t reserved[6];
};

/* FORMAT.md "Inode record"; followed by inline_len bytes. */
struct meta_inode_disk {
	le64 ino;
	le64 child; /* a directory's own number; else 0                 */
	le64 size;
	le64 blocks;
	le64 mtime_ns;
	le64 ctime_ns;
	le64 atime_ns;
	le64 trim_from; /* while META__INODE_TRIMMING: chunks from here on are being freed */
	le32 mode;
	le32 uid;
	le32 gid;
	le32 nlink;
	le32 epoch;      /* truncate epoch                                   */
	le32 inline_crc; /* of the inline bytes, or of the tail, as a zero-padded block */
	le16 inline_len;
	uint8_t type;
	uint8_t flags;
	le16 tail_len; /* bytes in TAIL records; then inline_len is 0 */
	le16 xattrs;   /* extended attributes, in XATTR records       */
	le64 counted;  /* the directory that counts its bytes; 0: none does */
};

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
	le64 flags;      /* META__DIR_*; later: spread, fenced                  */
	le64 own_bytes;  /* of the files that it counts: the sum of their sizes */
	le64 own_blocks; /* ... and of their blocks                             */
};
#define META__DIR_GOING   1u /* its inode has no link: all in it is being freed      */
#define META__DIR_PENDING 2u /* its total may be another than what it has passed up  */

/* FORMAT.md "Totals record": beside the directory's.  Of whole trees. */
struct meta_sums_disk {
	le64 entries;
	le64 dirs;
	le64 bytes;
	le64 blocks;
};
struct meta_totals_disk {
	struct meta_sums_disk below;  /* what the directories in it have passed up to it */
	struct meta_sums_disk passed; /* what it has passed up to its parent              */
};

/* FORMAT.md "Orphan record": key's uniq is the handle's; in the shard of the inode. */
struct meta_orphan_disk {
	le64 inode_dir, inode_hash, inode_uniq; /* the handle                          */
	le64 mount_epoch; /* of the mount whose session holds it; of another: nobody's */
};

/* FORMAT.md "Extent record": then nruns of meta_run_disk, then nblocks of le32 checksums. */
struct meta_extent_disk {
	le32 epoch;
	le16 nruns;
	le16 nblocks; /* from the chunk's first block on; behind them: holes */
};

/* drive 12 bits (63..52), first block 44 (51..8), blocks 8 (1 .. 128); drive and block 0: a hole */
struct meta_run_disk {
	le64 packed;
};

/* FORMAT.md "Page header" */
struct meta_page_disk {
	le32 crc32c; /* of the 16,380 bytes behind it                       */
	le32 magic;
	le64 baddr; /* where it lies: a misdirected write is found         */
	le64 gen;   /* when it got that place: a lost write is found       */
	le32 shard;
	le16 level;                 /* 0: leaf                                             */
	le16 count;                 /* records of a leaf, children of an interior page     */
	le16 heap_start;            /* leaf: first byte of values; interior page: 0    */
	le16 heap_dead;             /* leaf: bytes behind it that no record uses       */
	le32 order;                 /* which of the places given in that generation, from 1 on */
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
static_assert(sizeof(struct meta_name_disk) == 40, "FORMAT.md 5");
static_assert(sizeof(struct meta_inode_disk) == 104, "FORMAT.md 5");
static_assert(sizeof(struct meta_xattr_disk) == 8, "FORMAT.md 5");
static_assert(sizeof(struct meta_dir_disk) == 88, "FORMAT.md 5");
static_assert(sizeof(struct meta_totals_disk) == 64, "FORMAT.md 5");
static_assert(sizeof(struct meta_orphan_disk) == 32, "FORMAT.md 5");
static_assert(sizeof(struct meta_extent_disk) == 8, "FORMAT.md 5");
static_assert(sizeof(struct meta_run_disk) == 8, "FORMAT.md 5");

#endif
