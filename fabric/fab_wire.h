/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The bytes on the wire, numbered as in PROTOCOL.md.  Change both or neither. */
#ifndef FAB_WIRE_H
#define FAB_WIRE_H

#include "base/le.h"

#include <stddef.h>

#define FAB_MAGIC       0x31464b57u /* "WKF1" in the order of the wire           */
#define FAB_VERSION_MIN 2u /* 1 had neither SENDs of several capsules nor replies with payload */
#define FAB_VERSION_MAX 2u
#define FAB_SMALL_MAX   28u        /* largest body that is stored in the header     */
#define FAB_PAYLOAD_MAX (4u << 20) /* largest payload after one PART, DATA or REPLY */
#define FAB_PULLS_MAX   32u        /* PULLs of a session that wait for their DATA  */
#define FAB_DIR_BITS    48         /* of a directory's number                      */

/* PROTOCOL.md 3; requests are enum fab_type of fab_call.h, from 16 on. */
enum fab_capsule_type {
	FAB_HELLO = 1,
	FAB_CHALLENGE,
	FAB_PROOF,
	FAB_WELCOME,
	FAB_REFUSE,
	FAB_POOL_ADD,
	FAB_POOL_ADDED,
	FAB_PART,
	FAB_PULL,
	FAB_DATA,
	FAB_CANCEL,
	FAB_REPLY,
};

enum fab_transport_id { FAB_TRANSPORT_TCP = 1, FAB_TRANSPORT_SHM = 2, FAB_TRANSPORT_RDMA = 3 };

LAYOUT_BEGIN
/*
 * Before every message: one cache line.
 *
 *   0       4   5    6      8       16        20     24     28      32         60    64
 *   | magic |ver|type|region|  id   |deadline | body |block |nblocks|  small   |check |
 *                                    or status bytes
 */
struct fab_hdr_wire {
	le32 magic;
	uint8_t version;
	uint8_t type;
	le16 window_region;
	le64 request_id; /* the client's choice; echoed in the reply          */
	le32 deadline;   /* of a request, us; of a reply: status, 0 or -errno */
	le32 body_bytes;
	le32 window_block;  /* the window begins at this block of 4 KiB */
	le32 window_blocks; /* and its length in blocks                 */
	union {
		uint8_t small[FAB_SMALL_MAX]; /* the body itself, padded with zeros */
		struct {                      /* place of a longer body             */
			le32 crc32c;
			le32 slot; /* shm, over 1 KiB: which long body */
			uint8_t zero[20];
		} body;
	};
	le32 check; /* crc32c of the 60 bytes before; in a ring: the lap */
};

struct fab_limits_wire {
	le32 credits;
	le32 long_bodies;
	le32 batch_max;
	le32 window_max_bytes;
	le64 pool_max_bytes;
};

struct fab_lane_wire { /* one more connection of a session */
	le64 session_id;
	le16 number;
	le16 core; /* that it wishes for; one that there is not: any */
	le32 zero;
};

struct fab_hello_wire {
	uint8_t version_min;
	uint8_t version_max;
	uint8_t transport;
	uint8_t zero0[5];
	struct fab_limits_wire limits; /* wanted; 0s: whatever is given */
	uint8_t key_id[32];            /* zero behind it */
	uint8_t nonce[32];
	uint8_t client_id[16];     /* zero: none, nothing is remembered for it */
	struct fab_lane_wire lane; /* zeros: a session of its own */
};

struct fab_challenge_wire {
	uint8_t version;
	uint8_t zero0[7];
	struct fab_limits_wire limits; /* granted */
	uint8_t nonce[32];
	uint8_t proof[32]; /* zero while the proofs are made */
	le32 core_count;
	le32 shard_count;
	le32 lanes_max; /* connections of one session */
	le32 features;  /* FAB_FEATURE_...            */
	uint8_t appliance[16];
};

struct fab_proof_wire {
	uint8_t proof[32];
};

struct fab_welcome_wire {
	/* In halves: 28 bytes fit the header, 32 would not, and over shm it must come in one piece.
	 */
	le32 session_low;
	le32 session_high;
	le32 core;     /* that serves this connection            */
	le32 mark_low; /* all changes of this session are newer */
	le32 mark_high;
	le32 forgotten_low; /* up to here a client may be forgotten whole */
	le32 forgotten_high;
};

struct fab_pool_wire { /* of POOL_ADD and, with the status in the header, POOL_ADDED */
	le64 size_bytes;
};

struct fab_offer_wire { /* of POOL_ADD over rdma: where the client's memory is */
	le64 size_bytes;
	le64 address;
	le32 key;
	le32 zero;
};

struct fab_piece_wire { /* of PART, PULL and DATA */
	le32 window_at;
	le32 length_bytes;
	le32 pull; /* 0 in a PART; DATA echoes its PULL's */
};

struct fab_name_wire {
	uint8_t by;    /* enum fab_by                           */
	uint8_t flags; /* FAB_NAME_NOFOLLOW, FAB_NAME_STATE     */
	le16 name_bytes;
	le32 name_at;   /* from the start of the body            */
	uint8_t id[16]; /* handle, or le64 directory number      */
};

struct fab_read_wire {
	uint8_t handle[16];
	le32 offset_low; /* two halves: 28 bytes fit the header, 32 would not */
	le32 offset_high;
	le32 length_bytes;
};

struct fab_count_wire { /* before the items of a batch */
	le32 count;
	le32 zero;
};

struct fab_read_item_wire {
	struct fab_name_wire name;
	le64 offset_bytes;
	le64 length_bytes;
};

struct fab_put_item_wire {
	struct fab_name_wire name;
	le32 mode;
	le32 uid;
	le32 gid;
	le32 flags;
	le64 mtime_ns;
	le32 size_bytes;
	le32 payload_at;
	le32 sums_at;
	le32 zero;
};

struct fab_open_wire {
	struct fab_name_wire name;
	le32 flags;
	le32 mode;
	le32 uid;
	le32 gid;
};

struct fab_list_wire {
	struct fab_name_wire dir;
	uint8_t cookie[24];
	le32 count_max;
	le32 zero;
};

struct fab_make_wire {
	struct fab_name_wire name;
	le32 mode;
	le32 uid;
	le32 gid;
	le32 flags;
	le64 mtime_ns;
	le64 size_bytes;
};

struct fab_size_wire {
	uint8_t handle[16];
	le64 size_bytes;
};

struct fab_write_wire {
	uint8_t handle[16];
	le64 offset_bytes;
	le32 length_bytes;
	le32 flags;
	le32 payload_at;
	le32 sums_at;
};

struct fab_range_wire {
	uint8_t handle[16];
	le64 offset_bytes;
	le64 length_bytes;
	le32 flags;
	le32 zero;
};

struct fab_setattr_wire {
	struct fab_name_wire name;
	le32 mask;
	le32 mode;
	le32 uid;
	le32 gid;
	le64 mtime_ns;
	le64 atime_ns;
};

struct fab_rename_wire {
	struct fab_name_wire from;
	struct fab_name_wire to;
	le32 flags;
	le32 zero;
};

struct fab_symlink_wire {
	struct fab_name_wire name;
	le32 target_at;
	le16 target_bytes;
	le16 zero;
	le32 uid;
	le32 gid;
	le64 mtime_ns;
};

struct fab_xattr_wire {
	struct fab_name_wire name;
	le32 xattr_at;
	le16 xattr_bytes;
	le16 zero0;
	le32 value_at; /* SET, and zero else */
	le32 value_bytes;
	le32 flags;
	le32 zero1;
};

struct fab_read_reply_wire { /* followed by le32 sums[blocks], unless they are in the window */
	le32 length_bytes;
	le32 sums_at; /* in the window; 0: here */
};

struct fab_answer_read_wire {
	le32 status;
	le32 data_at;
	le64 length_bytes;
	le32 sums_at;
	le32 zero;
};

struct fab_answer_put_wire {
	le32 status;
	le32 zero;
	uint8_t handle[16];
};

struct fab_attr_wire {
	uint8_t handle[16];
	le64 ino;
	le64 dir;
	le64 size_bytes;
	le64 allocated_bytes;
	le64 mtime_ns;
	le64 ctime_ns;
	le64 atime_ns;
	le32 mode;
	le32 uid;
	le32 gid;
	le32 nlink;
	le32 xattrs;
	le32 zero;
};

struct fab_stat_wire {
	le32 status;
	le32 zero;
	struct fab_attr_wire attr;
};

struct fab_entry_wire {
	le16 entry_bytes; /* with name and padding: to the next one, a multiple of 8 */
	le16 name_bytes;
	le32 zero;
	struct fab_attr_wire attr;
	/* the name, and zeros up to entry_bytes */
};

struct fab_listed_wire {
	le32 count;
	le32 total_bytes;
	le32 at_end;
	le32 zero;
	uint8_t cookie[24];
};

struct fab_statfs_wire {
	le64 total_bytes;
	le64 free_bytes;
	le64 files;
	le64 dirs;
	le32 name_max;
	le32 shard_count;
	uint8_t zero[24];
};

struct fab_totals_wire {
	le64 entries;
	le64 dirs;
	le64 bytes;
	le64 allocated_bytes;
	le32 settled;
	uint8_t zero[28];
};
LAYOUT_END

#define FAB_NAME_NOFOLLOW 1u
#define FAB_NAME_STATE    2u /* of READ_BATCH: 8 bytes before the name are the file's ctime */

/* The request id of a change to be remembered: | number 48 | CHANGE, AGAIN, SURE, slot | */
#define FAB_ID_CHANGE   0x8000u
#define FAB_ID_AGAIN    0x4000u /* it was sent in an earlier session                      */
#define FAB_ID_SURE     0x2000u /* ... whose mark is not below this session's `forgotten` */
#define FAB_ID_SLOT     0x003fu
#define FAB_ID_RESERVED 0x1fc0u

static_assert(sizeof(struct fab_hdr_wire) == 64, "PROTOCOL.md 2");
static_assert(offsetof(struct fab_hdr_wire, request_id) == 8, "PROTOCOL.md 2");
static_assert(offsetof(struct fab_hdr_wire, small) == 32, "PROTOCOL.md 2");
static_assert(offsetof(struct fab_hdr_wire, check) == 60, "PROTOCOL.md 2");
static_assert(sizeof(struct fab_hello_wire) == 128, "PROTOCOL.md 3");
static_assert(sizeof(struct fab_challenge_wire) == 128, "PROTOCOL.md 3");
static_assert(sizeof(struct fab_welcome_wire) == 28, "PROTOCOL.md 3");
static_assert(sizeof(struct fab_name_wire) == 24, "PROTOCOL.md 5");
static_assert(sizeof(struct fab_read_wire) == 28, "PROTOCOL.md 5");
static_assert(sizeof(struct fab_read_item_wire) == 40, "PROTOCOL.md 5");
static_assert(sizeof(struct fab_put_item_wire) == 64, "PROTOCOL.md 5");
static_assert(sizeof(struct fab_open_wire) == 40, "PROTOCOL.md 5");
static_assert(sizeof(struct fab_list_wire) == 56, "PROTOCOL.md 5");
static_assert(sizeof(struct fab_make_wire) == 56, "PROTOCOL.md 5");
static_assert(sizeof(struct fab_size_wire) == 24, "PROTOCOL.md 5");
static_assert(sizeof(struct fab_write_wire) == 40, "PROTOCOL.md 5");
static_assert(sizeof(struct fab_range_wire) == 40, "PROTOCOL.md 5");
static_assert(sizeof(struct fab_setattr_wire) == 56, "PROTOCOL.md 5");
static_assert(sizeof(struct fab_rename_wire) == 56, "PROTOCOL.md 5");
static_assert(sizeof(struct fab_symlink_wire) == 48, "PROTOCOL.md 5");
static_assert(sizeof(struct fab_xattr_wire) == 48, "PROTOCOL.md 5");
static_assert(sizeof(struct fab_answer_read_wire) == 24, "PROTOCOL.md 6");
static_assert(sizeof(struct fab_answer_put_wire) == 24, "PROTOCOL.md 6");
static_assert(sizeof(struct fab_attr_wire) == 96, "PROTOCOL.md 6");
static_assert(sizeof(struct fab_stat_wire) == 104, "PROTOCOL.md 6");
static_assert(sizeof(struct fab_entry_wire) == 104, "PROTOCOL.md 6");
static_assert(sizeof(struct fab_listed_wire) == 40, "PROTOCOL.md 6");
static_assert(sizeof(struct fab_statfs_wire) == 64, "PROTOCOL.md 6");
static_assert(sizeof(struct fab_totals_wire) == 64, "PROTOCOL.md 6");

#endif
