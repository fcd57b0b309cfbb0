/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* FORMAT.md, sections 2 and 6, drawn and asserted: superblock, root, zone header, log.  Change both
 * or neither.  Each struct is followed by zeros up to the size that its checksum covers. */
#ifndef META_STORE_DISK_H
#define META_STORE_DISK_H

#include "base/le.h"
#include "meta/meta_disk.h"
#include "meta/meta_twins.h"

#define META__SUPER_MAGIC 0x524f5453414b4557ull /* "WEKASTOR" */
#define META__ROOT_MAGIC  0x544f4f52u           /* "ROOT" */
#define META__ZONE_MAGIC  0x454e4f5au           /* "ZONE" */
#define META__LOG_MAGIC   0x42474f4cu           /* "LOGB" */

#define META__OFFER_MAGIC 0x52464f414b4557ull /* "WEKAOFR" */

#define META__FEATURE_NAMES    16u
#define META__FEATURE_DRIVES   (1ull << 0) /* drives were added: set is not 0 */
#define META__FEATURE_DRAIN    (1ull << 1) /* drives were drained: drive_state, root_zone */
#define META__FEATURE_SPREAD   (1ull << 2) /* directories may have parts: since format    */
#define META__FEATURE_COPIES   (1ull << 3) /* zones have twins, and a drive may be lost   */
#define META__FEATURE_CONVERTS (1ull << 4) /* blocks may still lack copies */
#define META__FEATURE_FOLDS    (1ull << 5) /* pairs are folded: zones of parity   */
#define META__FEATURE_LOST     (1ull << 6) /* more than one drive is lost now     */
#define META__FEATURE_THREE    (1ull << 7) /* zones have two twins, and roots a third copy */
#define META__FEATURE_DOUBLE   (1ull << 8) /* folds have two zones of parity */
#define META__FEATURE_GREW     (1ull << 9) /* three copies, which format did not make */
#define META__ROOT_ZONES_MAX   32u         /* that a copy of the root area may lie in     */

LAYOUT_BEGIN
/* One block.  magic, crc and version keep their places in every version of the format. */
struct meta_super_disk {
	le64 magic;
	le32 crc;      /* of the 4096 bytes with this field zero      */
	le32 version;  /* META_FORMAT_VERSION                         */
	le64 incompat; /* a program that does not know one must not use it */
	le64 compat;   /* a program that does not know one may use it      */
	uint8_t uuid[16];
	le32 drive; /* this one's index                              */
	le32 ndrives;
	le32 nshards;
	le32 zone_blocks;
	le64 nzones; /* of this drive                                */
	le64 secret;
	le64 format_ns;
	le64 drive_nblocks[64];
	uint8_t incompat_name[META__FEATURE_NAMES]
			     [16]; /* of bits 0 .. 15, for programs that do not know them */
	/* Since drives were added to the store; all zero before (FORMAT.md 2.1). */
	le64 set;        /* number of this set of drives: the highest counts  */
	le64 root_at[2]; /* first block of each copy of the root area         */
	le64 drive_tag[64];
	uint8_t drive_name[64][META_DRIVE_NAME]; /* as the administrator calls it */
	/* Since one was drained; all zero before (FORMAT.md 2.5). */
	uint8_t drive_state[64];                 /* enum meta__drive_state */
	le32 root_zone[2][META__ROOT_ZONES_MAX]; /* a copy's zones, each + 1; 0: at root_at */
	le32 copies;                             /* of each block of data and pages; 0: one */
	le32 converts; /* copies that each block has until all have `copies`; 0: they have */
	le32 fold;     /* data zones of a fold, at most; 0: there are none */
	le32 reserved;
	/* With copies 3: the third copy of the root area; else zeros. */
	le64 root_at_third;
	le32 root_zone_third[META__ROOT_ZONES_MAX];
};

/* Block 0, and the last one, of a drive that is offered to any store that is told to take it. */
struct meta_offer_disk {
	le64 magic;
	le32 crc; /* of the 4096 bytes with this field zero */
	le32 version;
	le64 tag; /* a random number: tells drives apart */
	/* To take the place of a drive of one store; 0: of none. */
	le32 replaces; /* its number + 1 */
	le32 reserved;
	uint8_t uuid[16]; /* that store's */
};

/* One block: the last durable state of a shard's tree. */
struct meta_root_disk {
	le32 magic;
	le32 crc; /* of the 4096 bytes with this field zero           */
	uint8_t uuid[16];
	le32 shard;
	le32 height;
	le64 version;   /* the highest valid one of a shard counts     */
	le64 mount;     /* number of the mount that wrote it           */
	le64 log_epoch; /* the log to be replayed onto it              */
	le64 log_base;  /* that log begins after this sequence         */
	le64 log_seq;   /* its blocks up to here were durable by then  */
	le64 seq;       /* of the last record in this tree            */
	le64 root_baddr;
	le64 root_gen;
	le64 uniq_next;
	le64 dir_next;
	le64 files;    /* inode records                                */
	le64 dirs;     /* directory records                            */
	le64 mark[64]; /* that each drive had durably: meta_mark.c; 0: none */
};

/* A zone's first block, and its last one again. */
struct meta_zone_disk {
	le32 magic;
	le32 crc; /* of the 4096 bytes with this field zero           */
	uint8_t uuid[16];
	le32 zone;        /* index over all drives                     */
	le32 kind;        /* enum meta__zone_kind                      */
	le64 incarnation; /* times this zone was taken into use        */
	le64 epoch;       /* of the mount that took it                 */
	le32 stream;      /* log zones: 0                              */
	le32 reserved;
	le64 order;        /* log zones: 1, 2, 3 ... in an epoch        */
	le64 oldest_order; /* log zones: older ones were not needed     */
	le64 mark;         /* first zone of a drive: meta_mark.c        */
	le32 twin;         /* of its group, or of two zones of parity: the other one, + 1 */
	le32 twin2;        /* ... and the second one */
	le64 pair;         /* number of the group, or of the fold: meta_pair.c */
	/* Zones of parity: meta_fold.c; else zeros. */
	le32 members; /* 0: its fold is not made yet */
	le32 role;    /* 0: P, 1: Q */
	struct {
		le32 zone;
		le32 reserved;
		le64 incarnation;
	} member[META_FOLD_MAX];
};

/* At the start of a log block; records follow. */
struct meta_log_disk {
	le32 magic;
	le32 crc;     /* of nblocks * 4096 bytes with this field zero   */
	le64 tag;     /* names store, zone and incarnation: FORMAT.md 6 */
	le32 stream;  /* 0                                              */
	le32 nblocks; /* 1 .. 64                                        */
	le64 epoch;
	le64 seq;     /* of this block: one more than the block before  */
	le64 durable; /* blocks up to this are durable                  */
	le64 trim;    /* blocks up to this are not needed               */
	le32 bytes;   /* of records                                     */
	le32 records;
};

/* One transaction: a head, then parts. */
struct meta_record_disk {
	le32 bytes; /* of the whole record, a multiple of 8 */
	le32 parts;
};

/* The changes in one shard: a head, then mutations. */
struct meta_part_disk {
	le32 shard;
	le32 muts;
	le64 seq; /* the shard's, one more than its part before */
	le64 uniq_next;
	le64 dir_next;
	le64 files; /* inode records                                */
	le64 dirs;  /* directory records                            */
};

/* A head, then the value, padded with zeros to a multiple of 8. */
struct meta_mut_disk {
	struct meta_key_disk key;
	le16 value_len;
	uint8_t del; /* 1: delete, no value */
	uint8_t reserved[5];
};
LAYOUT_END

static_assert(sizeof(struct meta_super_disk) == 3912, "FORMAT.md 2.1");
static_assert(sizeof(struct meta_offer_disk) == 48, "FORMAT.md 2.4");
static_assert(sizeof(struct meta_root_disk) == 640, "FORMAT.md 2.2");
static_assert(sizeof(struct meta_zone_disk) == 264, "FORMAT.md 2.3");
static_assert(sizeof(struct meta_log_disk) == 64, "FORMAT.md 6");
static_assert(sizeof(struct meta_record_disk) == 8, "FORMAT.md 6");
static_assert(sizeof(struct meta_part_disk) == 48, "FORMAT.md 6");
static_assert(sizeof(struct meta_mut_disk) == 32, "FORMAT.md 6");

#endif
