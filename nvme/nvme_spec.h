/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Definitions of the NVM Express specifications only: Base 2.0 (section numbers below), NVM Command
 * Set 1.0 ("NVM").
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
	NVME_REG_CMBLOC = 0x38,
	NVME_REG_CMBSZ = 0x3c,
	NVME_REG_CRTO = 0x68, /* ready timeouts, if CAP.CRMS is set */
	NVME_REG_DOORBELLS = 0x1000,
};

#define NVME_CAP_MQES(cap)   ((uint32_t)((cap)&0xffff))       /* entries of a queue, less 1 */
#define NVME_CAP_TO(cap)     ((uint32_t)((cap) >> 24 & 0xff)) /* of enable, in 500 ms */
#define NVME_CAP_DSTRD(cap)  ((uint32_t)((cap) >> 32 & 0xf))  /* doorbells lie 4 << this apart */
#define NVME_CAP_CSS_NVM     (1ull << 37)
#define NVME_CAP_MPSMIN(cap) ((uint32_t)((cap) >> 48 & 0xf)) /* pages: 4096 << this */
#define NVME_CAP_CMBS        (1ull << 57)                    /* a controller memory buffer */
#define NVME_CAP_CRWMS       (1ull << 59)                    /* CRTO says how long */
#define NVME_CRTO_CRWMT(r)   ((r)&0xffff)                    /* ready with media, in 500 ms */

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
#define NVME_CSTS_GONE      0xffffffffu /* value of a register when nothing answers */

/* ---- queue entries ------------------------------------------------------------- */

enum {
	NVME_CMD_FLUSH = 0x00,
	NVME_CMD_WRITE = 0x01,
	NVME_CMD_READ = 0x02,
	NVME_CMD_WRITE_ZEROES = 0x08,
	NVME_CMD_DATASET = 0x09,
};

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
	NVME_ADMIN_DOORBELL_BUFFER = 0x7c,
};

enum {
	NVME_CNS_NAMESPACE = 0x00,
	NVME_CNS_CONTROLLER = 0x01,
	NVME_CNS_ACTIVE_LIST = 0x02,
	NVME_CNS_DESCRIPTORS = 0x03,    /* of a namespace: UUID, command set, ... */
	NVME_CNS_CONTROLLER_NVM = 0x06, /* controller, of the command set in dword 11 */
};

enum { NVME_FEAT_WRITE_CACHE = 0x06, NVME_FEAT_QUEUE_COUNT = 0x07, NVME_FEAT_EVENTS = 0x0b };

enum {
	NVME_LOG_ERROR = 0x01,
	NVME_LOG_HEALTH = 0x02,
	NVME_LOG_FIRMWARE = 0x03,
	NVME_LOG_CHANGED_NS = 0x04,
};

#define NVME_LOG_RETAIN (1u << 15) /* dword 10 of get log page: the event is not cleared by it */

/* Asynchronous events, 5.2: dword 0 of the completion, and what set feature 0bh turns on. */
#define NVME_EVENT_TYPE(r)         ((r)&7)
#define NVME_EVENT_INFO(r)         ((r) >> 8 & 0xff)
#define NVME_EVENT_LOG(r)          ((r) >> 16 & 0xff)
#define NVME_EVENT_WANT_HEALTH     0x1fu /* spare, temperature, reliability, read-only, backup */
#define NVME_EVENT_WANT_NAMESPACES (1u << 8)
#define NVME_EVENT_WANT_FIRMWARE   (1u << 9)

enum { NVME_EVENT_ERROR = 0, NVME_EVENT_HEALTH = 1, NVME_EVENT_NOTICE = 2 };
enum { NVME_NOTICE_NAMESPACE = 0, NVME_NOTICE_FIRMWARE = 1 };

#define NVME_NSID_ALL 0xffffffffu

#define NVME_QUEUE_CONTIGUOUS 1u         /* dword 11 of create: PC, at its address in one piece */
#define NVME_QUEUE_INTERRUPT  2u         /* dword 11 of create: IEN, with the vector above */
#define NVME_FUA              (1u << 30) /* dword 12 of read and write */
#define NVME_SQE_PSDT         0xc0       /* flags: SGLs instead of PRPs */
#define NVME_SQE_SGL          0x40       /* flags: an SGL describes the data, no metadata */
#define NVME_DATASET_FREE     (1u << 2)  /* dword 11 of dataset management: deallocate */
#define NVME_ZERO_FREE        (1u << 25) /* dword 12 of write zeroes: may deallocate */
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

/* Identify controller, 5.17.2.1 (CNS 01h): the fields that we use. */
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
	le32 resume_us;
	le32 shutdown_us; /* RTD3E: how long a shutdown takes; 0: not said */
	le32 oaes;        /* optional events: bits of NVME_EVENT_WANT_* */
	le32 ctratt;
	le16 rrls;
	uint8_t reserved102[9];
	uint8_t controller_type; /* 1: I/O; 0: not said */
	uint8_t reserved112[144];
	le16 oacs;
	uint8_t acl;
	uint8_t aerl; /* event commands at once, less 1 */
	uint8_t frmw;
	uint8_t lpa;
	uint8_t elpe; /* entries of the error log, less 1 */
	uint8_t npss;
	uint8_t avscc;
	uint8_t apsta;
	le16 warning_kelvin;
	le16 critical_kelvin;
	uint8_t reserved270[242];
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
	uint8_t icsvscc;
	uint8_t nwpc;
	le16 acwu;
	le16 cdfs;
	le32 sgls;
	uint8_t reserved540[228];
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
	uint8_t nsfeat; /* bit 1: the atomic sizes below are this namespace's */
	uint8_t lbaf_count_minus1;
	uint8_t flbas; /* bits 3..0 (and 6..5 as 5..4): the format in use */
	uint8_t mc;
	uint8_t dpc;
	uint8_t dps; /* bits 2..0: the kind of protection information; 0: none */
	uint8_t nmic;
	uint8_t rescap;
	uint8_t fpi;
	uint8_t dlfeat;
	le16 nawun;
	le16 nawupf;
	le16 nacwu;
	le16 nabsn;
	le16 nabo;
	le16 nabspf; /* boundary that an atomic write must not cross, LBAs less 1; 0: none */
	le16 noiob;
	uint8_t nvmcap[16];
	uint8_t reserved64[35];
	uint8_t nsattr; /* bit 0: write protected */
	uint8_t reserved100[4];
	uint8_t id[24]; /* NGUID, then EUI64; zeroes: it has none */
	struct nvme_lbaf lbaf[64];
	uint8_t reserved384[3712];
};

/* A namespace's descriptor, 5.17.2.3 (CNS 03h); length_bytes follow, then the next one. */
struct nvme_id_descriptor {
	uint8_t type; /* NVME_DESCRIPTOR_*; 0: no more */
	uint8_t length_bytes;
	le16 reserved;
};

/* Identify controller of the NVM command set, NVM 4.1.5.4 (CNS 06h). */
struct nvme_id_ctrl_nvm {
	uint8_t vsl;
	uint8_t wzsl; /* write zeroes up to 4096 << wzsl; 0: no limit */
	uint8_t wusl;
	uint8_t dmrl; /* ranges of a dataset command; 0: no limit */
	le32 dmrsl;   /* LBAs of a range; 0: no limit */
	le64 dmsl;    /* LBAs of all its ranges; 0: no limit */
	uint8_t reserved16[4080];
};

/* A range of dataset management, NVM 3.2.3. */
struct nvme_range {
	le32 attributes;
	le32 lba_count;
	le64 lba;
};

/* Health, 5.16.1.3 (log 02h). */
struct nvme_log_health {
	uint8_t warning;   /* NVME_WARN_* */
	uint8_t kelvin[2]; /* of the whole */
	uint8_t spare_percent;
	uint8_t spare_least_percent;
	uint8_t used_percent; /* of its life; may pass 100, ends at 255 */
	uint8_t group_warning;
	uint8_t reserved7[25];
	le64 read_units[2]; /* 512,000 bytes each; 128 bits, as those that follow */
	le64 written_units[2];
	le64 reads[2];
	le64 writes[2];
	le64 busy_minutes[2];
	le64 power_cycles[2];
	le64 power_hours[2];
	le64 unsafe_shutdowns[2];
	le64 media_errors[2];
	le64 error_entries[2];
	le32 warm_minutes;
	le32 hot_minutes;
	le16 sensor_kelvin[8];
	uint8_t reserved216[296];
};

/* An entry of the error log, 5.16.1.2 (log 01h); the newest comes first. */
struct nvme_log_error {
	le64 count; /* 0: no entry */
	le16 qid;
	le16 cid;
	le16 status; /* as in a completion */
	le16 where;
	le64 lba;
	le32 nsid;
	uint8_t vendor;
	uint8_t reserved29[35];
};

/* Firmware slots, 5.16.1.4 (log 03h). */
struct nvme_log_firmware {
	uint8_t active; /* bits 2..0: the slot in use; 6..4: at the next reset */
	uint8_t reserved1[7];
	char revision[7][8];
	uint8_t reserved64[448];
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
static_assert(offsetof(struct nvme_id_ctrl, oaes) == 92, "NVMe base 5.17.2.1");
static_assert(offsetof(struct nvme_id_ctrl, warning_kelvin) == 266, "NVMe base 5.17.2.1");
static_assert(offsetof(struct nvme_id_ctrl, sgls) == 536, "NVMe base 5.17.2.1");
static_assert(offsetof(struct nvme_id_ns, dps) == 29, "NVMe NVM 4.1.5.1");
static_assert(offsetof(struct nvme_id_ns, nawupf) == 36, "NVMe NVM 4.1.5.1");
static_assert(offsetof(struct nvme_id_ns, nabspf) == 44, "NVMe NVM 4.1.5.1");
static_assert(offsetof(struct nvme_id_ns, nsattr) == 99, "NVMe NVM 4.1.5.1");
static_assert(offsetof(struct nvme_id_ns, id) == 104, "NVMe NVM 4.1.5.1");
static_assert(sizeof(struct nvme_id_descriptor) == 4, "NVMe base 5.17.2.3");
static_assert(sizeof(struct nvme_id_ctrl_nvm) == 4096, "NVMe NVM 4.1.5.4");
static_assert(sizeof(struct nvme_range) == 16, "NVMe NVM 3.2.3");
static_assert(sizeof(struct nvme_log_health) == 512, "NVMe base 5.16.1.3");
static_assert(offsetof(struct nvme_log_health, media_errors) == 160, "NVMe base 5.16.1.3");
static_assert(offsetof(struct nvme_log_health, sensor_kelvin) == 200, "NVMe base 5.16.1.3");
static_assert(sizeof(struct nvme_log_error) == 64, "NVMe base 5.16.1.2");
static_assert(sizeof(struct nvme_log_firmware) == 512, "NVMe base 5.16.1.4");
static_assert(offsetof(struct nvme_id_ns, flbas) == 26, "NVMe NVM 4.1.5.1");
static_assert(offsetof(struct nvme_id_ns, lbaf) == 128, "NVMe NVM 4.1.5.1");

/* Bits and values of the above. */
enum {
	NVME_OACS_DOORBELL_BUFFER = 1 << 8,
	NVME_ONCS_DATASET = 1 << 2,
	NVME_ONCS_ZEROES = 1 << 3,
	NVME_SGLS_MASK = 3, /* 0: no SGLs; 1: any address; 2: multiples of 4 */
	NVME_NSFEAT_THIN = 1 << 0,
	NVME_NSFEAT_ATOMIC = 1 << 1,
	NVME_DESCRIPTOR_COMMAND_SET = 4,
	NVME_COMMAND_SET_NVM = 0,
	NVME_COMMAND_SET_KEY_VALUE = 1,
	NVME_COMMAND_SET_ZONED = 2,
	NVME_CONTROLLER_IO = 1,
};

enum {
	NVME_WARN_SPARE = 1 << 0,
	NVME_WARN_TEMPERATURE = 1 << 1,
	NVME_WARN_RELIABILITY = 1 << 2,
	NVME_WARN_READ_ONLY = 1 << 3,
	NVME_WARN_BACKUP = 1 << 4,
};

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
	NVME_SC_SGL_LENGTH = 0x00f,
	NVME_SC_SGL_TYPE = 0x011,
	NVME_SC_PRP_OFFSET = 0x013,
	NVME_SC_INTERRUPTED = 0x021,
	NVME_SC_TRANSIENT = 0x022,
	NVME_SC_LBA_RANGE = 0x080,
	NVME_SC_CAPACITY = 0x081,
	NVME_SC_NS_NOT_READY = 0x082,
	NVME_SC_CQ_INVALID = 0x100,
	NVME_SC_QID_INVALID = 0x101,
	NVME_SC_QUEUE_SIZE = 0x102,
	NVME_SC_EVENT_LIMIT = 0x105,
	NVME_SC_LOG_INVALID = 0x109,
	NVME_SC_QUEUE_DELETION = 0x10c,
	NVME_SC_WRITE_FAULT = 0x280,
	NVME_SC_UNRECOVERED_READ = 0x281,
	NVME_SC_GUARD_CHECK = 0x282,
	NVME_SC_ACCESS_DENIED = 0x286,
	NVME_SC_PATH_INTERNAL = 0x300,
	NVME_SC_PATH_TRANSITION = 0x303,
};

#define NVME_STATUS_NO_RETRY 0x4000u /* DNR */
#define NVME_STATUS_MASK     0x7ff   /* type and code, once the phase bit is shifted out */

#endif
