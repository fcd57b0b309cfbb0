/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * What the NVM Express specifications lay down, and nothing of ours: Base 2.0 (section
 * numbers below), NVM Command Set 1.0 ("NVM").
 */
#ifndef NVME_SPEC_H
#define NVME_SPEC_H

#include "base/le.h"

#include <stddef.h>

#define NVME_PAGE_SIZE 4096u /* CC.MPS = 0: the only one that we use */

/* ---- registers, 3.1.3 ---------------------------------------------------------- */

enum {
	NVME_REG_CAP = 0x00, /* 64 bits */
	NVME_REG_VS = 0x08,
	NVME_REG_INTMS = 0x0c,
	NVME_REG_INTMC = 0x10,
	NVME_REG_CC = 0x14,
	NVME_REG_CSTS = 0x1c,
	NVME_REG_AQA = 0x24,
	NVME_REG_ASQ = 0x28, /* 64 bits */
	NVME_REG_ACQ = 0x30, /* 64 bits */
	NVME_REG_DOORBELLS = 0x1000,
};

#define NVME_CAP_MQES(cap)   ((uint32_t)((cap)&0xffff))       /* entries of a queue, less 1 */
#define NVME_CAP_TO(cap)     ((uint32_t)((cap) >> 24 & 0xff)) /* of enable, in 500 ms */
#define NVME_CAP_DSTRD(cap)  ((uint32_t)((cap) >> 32 & 0xf))  /* doorbells lie 4 << this apart */
#define NVME_CAP_CSS_NVM     (1ull << 37)
#define NVME_CAP_MPSMIN(cap) ((uint32_t)((cap) >> 48 & 0xf)) /* pages: 4096 << this */

#define NVME_CC_EN         (1u << 0)
#define NVME_CC_CSS(cc)    ((cc) >> 4 & 7)
#define NVME_CC_MPS(cc)    ((cc) >> 7 & 0xf)
#define NVME_CC_SHN_NORMAL (1u << 14)
#define NVME_CC_SHN(cc)    ((cc) >> 14 & 3)
#define NVME_CC_IOSQES(cc) ((cc) >> 16 & 0xf)
#define NVME_CC_IOCQES(cc) ((cc) >> 20 & 0xf)
#define NVME_CC_ENTRIES    (6u << 16 | 4u << 20) /* SQEs of 64 bytes, CQEs of 16 */

#define NVME_CSTS_RDY       (1u << 0)
#define NVME_CSTS_CFS       (1u << 1) /* controller fatal status */
#define NVME_CSTS_SHST(c)   ((c) >> 2 & 3)
#define NVME_CSTS_SHST_DONE 2u
#define NVME_CSTS_GONE      0xffffffffu /* what a register reads when nothing answers */

/* ---- queue entries ------------------------------------------------------------- */

enum { NVME_CMD_FLUSH = 0x00, NVME_CMD_WRITE = 0x01, NVME_CMD_READ = 0x02 };

enum {
	NVME_ADMIN_DELETE_SQ = 0x00,
	NVME_ADMIN_CREATE_SQ = 0x01,
	NVME_ADMIN_GET_LOG = 0x02,
	NVME_ADMIN_DELETE_CQ = 0x04,
	NVME_ADMIN_CREATE_CQ = 0x05,
	NVME_ADMIN_IDENTIFY = 0x06,
	NVME_ADMIN_ABORT = 0x08,
	NVME_ADMIN_SET_FEATURES = 0x09,
	NVME_ADMIN_GET_FEATURES = 0x0a,
	NVME_ADMIN_ASYNC_EVENT = 0x0c,
};

enum { NVME_CNS_NAMESPACE = 0, NVME_CNS_CONTROLLER = 1, NVME_CNS_ACTIVE_LIST = 2 };
enum { NVME_FEAT_WRITE_CACHE = 0x06, NVME_FEAT_QUEUE_COUNT = 0x07 };

#define NVME_QUEUE_CONTIGUOUS 1u         /* dword 11 of create: PC, at its address in one piece */
#define NVME_QUEUE_INTERRUPT  2u         /* dword 11 of create: IEN, with the vector above */
#define NVME_FUA              (1u << 30) /* dword 12 of read and write */
#define NVME_SQE_PSDT         0xc0       /* flags: SGLs instead of PRPs */
#define NVME_SQE_FUSE         0x03       /* flags: half of a fused command */

LAYOUT_BEGIN
/* Submission queue entry, 3.3.3.1. */
struct nvme_sqe {
	uint8_t opcode;
	uint8_t flags;
	le16 cid;
	le32 nsid;
	le32 cdw2;
	le32 cdw3;
	le64 metadata;
	le64 prp1;
	le64 prp2;
	le32 cdw10;
	le32 cdw11;
	le32 cdw12;
	le32 cdw13;
	le32 cdw14;
	le32 cdw15;
};

/* Completion queue entry, 3.3.3.2. */
struct nvme_cqe {
	le32 result;
	le32 reserved;
	le16 sq_head;
	le16 sq_id;
	le16 cid;
	le16 status; /* bit 0: phase; bits 15..1: status field */
};

/* Identify controller, 5.17.2.1 (CNS 01h): what we use of it. */
struct nvme_id_ctrl {
	le16 vid;
	le16 ssvid;
	char serial[20]; /* padded with spaces, as the next two */
	char model[40];
	char firmware[8];
	uint8_t rab;
	uint8_t ieee[3];
	uint8_t cmic;
	uint8_t mdts; /* transfers up to 4096 << mdts; 0: no limit */
	le16 cntlid;
	le32 version;
	uint8_t reserved84[27];
	uint8_t controller_type; /* 1: I/O */
	uint8_t reserved112[144];
	le16 oacs;
	uint8_t acl;
	uint8_t aerl;
	uint8_t reserved260[252];
	uint8_t sqes; /* low: least, high: most, as powers of two */
	uint8_t cqes;
	le16 maxcmd;
	le32 namespace_count;
	le16 oncs;
	le16 fuses;
	uint8_t fna;
	uint8_t volatile_write_cache; /* bit 0 */
	le16 awun;
	le16 awupf; /* logical blocks, less 1, that a power cut does not tear */
	uint8_t reserved530[238];
	char subnqn[256];
	uint8_t reserved1024[3072];
};

/* A format of logical blocks, NVM 4.1.5.1. */
struct nvme_lbaf {
	le16 metadata_bytes;
	uint8_t lba_shift;
	uint8_t performance;
};

/* Identify namespace, NVM 4.1.5.1 (CNS 00h). */
struct nvme_id_ns {
	le64 size_lbas;
	le64 capacity_lbas;
	le64 used_lbas;
	uint8_t nsfeat;
	uint8_t lbaf_count_minus1;
	uint8_t flbas; /* bits 3..0 (and 6..5 as 5..4): the format in use */
	uint8_t reserved27[101];
	struct nvme_lbaf lbaf[64];
	uint8_t reserved384[3712];
};
LAYOUT_END

static_assert(sizeof(struct nvme_sqe) == 64, "NVMe base 3.3.3.1");
static_assert(offsetof(struct nvme_sqe, prp1) == 24, "NVMe base 3.3.3.1");
static_assert(offsetof(struct nvme_sqe, cdw10) == 40, "NVMe base 3.3.3.1");
static_assert(sizeof(struct nvme_cqe) == 16, "NVMe base 3.3.3.2");
static_assert(offsetof(struct nvme_cqe, status) == 14, "NVMe base 3.3.3.2");
static_assert(sizeof(struct nvme_id_ctrl) == 4096, "NVMe base 5.17.2.1");
static_assert(offsetof(struct nvme_id_ctrl, mdts) == 77, "NVMe base 5.17.2.1");
static_assert(offsetof(struct nvme_id_ctrl, controller_type) == 111, "NVMe base 5.17.2.1");
static_assert(offsetof(struct nvme_id_ctrl, oacs) == 256, "NVMe base 5.17.2.1");
static_assert(offsetof(struct nvme_id_ctrl, sqes) == 512, "NVMe base 5.17.2.1");
static_assert(offsetof(struct nvme_id_ctrl, volatile_write_cache) == 525, "NVMe base 5.17.2.1");
static_assert(offsetof(struct nvme_id_ctrl, awupf) == 528, "NVMe base 5.17.2.1");
static_assert(offsetof(struct nvme_id_ctrl, subnqn) == 768, "NVMe base 5.17.2.1");
static_assert(sizeof(struct nvme_id_ns) == 4096, "NVMe NVM 4.1.5.1");
static_assert(offsetof(struct nvme_id_ns, flbas) == 26, "NVMe NVM 4.1.5.1");
static_assert(offsetof(struct nvme_id_ns, lbaf) == 128, "NVMe NVM 4.1.5.1");

/* ---- status: type << 8 | code, without phase, more and do-not-retry; 3.3.3.2.1 -- */

enum {
	NVME_SC_SUCCESS = 0x000,
	NVME_SC_INVALID_OPCODE = 0x001,
	NVME_SC_INVALID_FIELD = 0x002,
	NVME_SC_CID_CONFLICT = 0x003,
	NVME_SC_DATA_TRANSFER = 0x004,
	NVME_SC_POWER_LOSS = 0x005,
	NVME_SC_INTERNAL = 0x006,
	NVME_SC_ABORT_REQUESTED = 0x007,
	NVME_SC_ABORT_SQ_DELETED = 0x008,
	NVME_SC_INVALID_NAMESPACE = 0x00b,
	NVME_SC_PRP_OFFSET = 0x013,
	NVME_SC_LBA_RANGE = 0x080,
	NVME_SC_CAPACITY = 0x081,
	NVME_SC_NS_NOT_READY = 0x082,
	NVME_SC_CQ_INVALID = 0x100,
	NVME_SC_QID_INVALID = 0x101,
	NVME_SC_QUEUE_SIZE = 0x102,
	NVME_SC_QUEUE_DELETION = 0x10c,
	NVME_SC_WRITE_FAULT = 0x280,
	NVME_SC_UNRECOVERED_READ = 0x281,
	NVME_SC_GUARD_CHECK = 0x282,
	NVME_SC_ACCESS_DENIED = 0x286,
};

#define NVME_STATUS_MASK 0x7ff /* type and code, once the phase bit is shifted out */

#endif
