/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Shared by the files of nvme/ and their tests only. */
#ifndef NVME_INTERNAL_H
#define NVME_INTERNAL_H

#include "nvme/nvme.h"
#include "nvme/nvme_admin.h"
#include "nvme/nvme_dma.h"
#include "nvme/nvme_events.h"
#include "nvme/nvme_reset.h"
#include "nvme/nvme_spec.h"
#include "nvme/nvme_up.h"

/* ---- controllers: the seam ----------------------------------------------------- */

#define NVME_ALARM_REQUEST 1u /* the host wants the device back */
#define NVME_ALARM_GONE    2u /* the device, or the server that plays it, is gone */
#define NVME_ALARM_ERROR   4u /* the bus reported an error: the device's state is unknown */

/*
 * The interface of a controller.  Registers are at the offsets of nvme_spec.h; doorbells and queues
 * are memory.  `service` lets a controller in this process work on queue pair `qid` (0: admin), on
 * the caller's core: NULL when the controller works by itself.
 */
struct nvme_ctrl_ops {
	uint32_t (*read32)(void *ctrl, uint32_t offset);
	uint64_t (*read64)(void *ctrl, uint32_t offset);
	/*
	 * Where registers are messages, read32 and read64 wait for the answer, which a polling
	 * thread must not: `ask` does not.  0; or -EAGAIN: asked, call it again for the answer.
	 * NULL: the others do not wait either.  Writes never do.
	 */
	int (*ask)(void *ctrl, uint32_t offset, uint32_t size_bytes, uint64_t *value);
	void (*write32)(void *ctrl, uint32_t offset, uint32_t value);
	void (*write64)(void *ctrl, uint32_t offset, uint64_t value);
	volatile uint32_t *(*doorbell)(void *ctrl, uint32_t offset); /* MMIO */
	void (*service)(void *ctrl, uint32_t qid);
	/* Sleep: an eventfd or -1; arm says false when it is too early to sleep. */
	int (*wake_fd)(void *ctrl, uint32_t qid);
	bool (*arm)(void *ctrl, uint32_t qid);
	void (*disarm)(void *ctrl, uint32_t qid);
	/* The interrupt vector that makes wake_fd readable; -1 or NULL: the queue is made without.
	 */
	int (*vector)(void *ctrl, uint32_t qid);
	/*
	 * When all else fails: a function-level reset, after which it may reach memory; reads and
	 * writes of the device off or on.
	 */
	int (*reset)(void *ctrl);
	int (*bus_master)(void *ctrl, bool on);
	/* Alarms of the host or the server: an eventfd or -1; NVME_ALARM_* bits, once each. */
	int (*alarm_fd)(void *ctrl);
	uint32_t (*alarm)(void *ctrl);
	/*
	 * Give the device back now, with the drive still there: from then on registers read all
	 * ones, and doorbells are words that nobody reads.
	 */
	void (*release)(void *ctrl);
	/*
	 * Returns true if the server that emulates the controller has left and holds none of our
	 * memory: it makes no more writes.  If this is set, reset() is called until there is a
	 * controller again, however long that takes.  And the reason, for people.
	 */
	bool (*left)(void *ctrl);
	const char *(*why)(void *ctrl);
	bool release_stops; /* a released device cannot write to our memory: the kernel prevents it
			     */
	/* For people and counters: what does not work as well as it might; a queue's share. */
	void (*note)(void *ctrl, char *text, size_t text_size);
	void (*stats)(void *ctrl, uint32_t qid, struct nvme_stats *stats);
	void (*destroy)(void *ctrl);
};

/* A controller that was found and opened; nvme__drive_up() takes it over. */
struct nvme__found {
	const struct nvme_ctrl_ops *ops;
	void *ctrl;
};

/* ---- queue pairs ---------------------------------------------------------------- */

/* A queue pair's own view, which its thread alone changes; the drive's is enum nvme_life. */
enum nvme_qpair_state {
	NVME_QP_LIVE,
	NVME_QP_FAILED,    /* the controller broke the protocol: its I/Os wait                 */
	NVME_QP_HALTED,    /* told to stop: the same                                           */
	NVME_QP_RETURNING, /* the controller writes nothing any more: its I/Os come back       */
	NVME_QP_PAUSED,    /* they have: it waits for its queues                               */
	NVME_QP_STOPPED,   /* the controller has deleted it: its I/Os can come back */
	NVME_QP_DEAD,      /* so has the drive                                                  */
};

/* A command id is | round, 4 | slot, 12 |: one that comes twice is not taken for the next one. */
#define NVME_CID_SLOT_BITS 12
#define NVME_CID_SLOT(cid) ((cid) & ((1u << NVME_CID_SLOT_BITS) - 1))
#define NVME_CID_NEXT(cid) (((cid) + (1u << NVME_CID_SLOT_BITS)) & 0xffffu)
static_assert(NVME_DEPTH_MAX <= 1u << NVME_CID_SLOT_BITS, "an id has room for each slot");

struct nvme_slot {
	struct nvme_io *io; /* NULL: free */
	_Atomic uint16_t cid;
	_Atomic uint8_t born; /* the watch's stamp when it was submitted; 0: free */
};

/* Rare conditions that a submit must check: one word, so that the check costs one load. */
#define NVME_STRICT_READ_ONLY 1u /* writes and flushes are refused              */
#define NVME_STRICT_POISON    2u /* a read's buffer is overwritten: nvme_poison.c */

struct nvme_qpair {
	/* Read on every call. */
	struct nvme_rings rings;
	enum nvme_qpair_state state;
	uint32_t strict;         /* NVME_STRICT_* bits: most often none    */
	_Atomic uint8_t stamp;   /* the drive's owner's: what time it is   */
	_Atomic uint32_t order;  /* the drive's owner's                    */
	_Atomic uint32_t obeyed; /* this thread's: the last order it heard */
	uint32_t heard;          /* the order that it is about to obey     */
	struct nvme_slot *slot;  /* depth entries                          */
	uint16_t *cid_free;      /* a stack of the free command ids        */
	uint32_t cid_free_count;
	uint32_t io_count;            /* taken, not returned                    */
	uint32_t transfer_max_blocks; /* of one command                         */
	uint32_t io_blocks_max;       /* of one I/O: what depth - 1 commands carry */
	uint32_t lba_per_block_shift; /* LBAs of a block: 1 << this             */
	uint32_t nsid;
	uint32_t buffer_mask;      /* of a buffer's address: these bits are 0         */
	uint32_t fua_bit;          /* of dword 12; 0: the drive has no volatile cache */
	_Atomic uint64_t *cached;  /* ns->cached[qid].done                            */
	bool fua_ignored;          /* FUA is a write, then a flush                    */
	bool sgl;                  /* a long transfer is one descriptor, not a list   */
	le64 *prp_lists;           /* one a command id                       */
	uint64_t prp_lists_iova;   /* the same, as the device sees it        */
	uint32_t prp_list_entries; /* room of each: it never crosses a page  */
	const struct nvme_ctrl_ops *ops;
	void *ctrl;
	uint32_t qid;
	struct nvme_stats stats;
	_Atomic uint32_t complaint; /* enum nvme_complaint << 16 | id, for the drive's owner */
	/* Read at setup, and when something is wrong. */
	struct nvme_drive *drive; /* whose controller it is */
	struct nvme_drive *ns;    /* whose blocks it reads and writes: nvme_share.c */
	bool saw_away;            /* this thread has, when it armed last */
	bool leaving; /* at the helm: its queues are being taken away: no watch over its commands */
	bool ended;   /* at the helm: the controller has forgotten it: no orders, no resets */
	uint32_t self_check;                             /* polls, in variants with WK_DEBUG */
	int vector;                                      /* of its completion queue, -1: none */
	uint32_t zero_max_blocks, deallocate_max_blocks; /* as in nvme_info */
	int order_fd;                                    /* readable when there is an order      */
	int wake_fd;                                     /* of the controller, as it is in epoll */
	int epoll_fd;                                    /* nvme_qpair_fd(): both of them        */
	struct nvme_mem mem;                             /* rings, then PRP lists */
};

/* ---- PRPs: nvme_prp.c ------------------------------------------------------------ */

struct nvme_prp_pair {
	uint64_t prp1;
	uint64_t prp2;
};

/* Pages that `nblocks` at `iova` lie on, and how many of them a list would name. */
static inline uint32_t nvme__prp_pages(uint64_t iova, uint32_t nblocks)
{
	return nblocks + (iova % NVME_PAGE_SIZE != 0);
}

static inline uint32_t nvme__prp_list_len(uint32_t pages)
{
	return pages > 2 ? pages - 1 : 0;
}

struct nvme_prp_pair nvme__prp_fill_pages(uint64_t iova, uint32_t pages, le64 *list,
					  uint64_t list_iova);

/* Where `nblocks` at `iova`, a multiple of 4, lie; `list` is written only when they need one. */
static inline struct nvme_prp_pair nvme__prp_fill(uint64_t iova, uint32_t nblocks, le64 *list,
						  uint64_t list_iova)
{
	uint32_t pages = nvme__prp_pages(iova, nblocks);

	if (likely(pages == 1))
		return (struct nvme_prp_pair){ iova, 0 };
	return nvme__prp_fill_pages(iova, pages, list, list_iova);
}

/* The same 16 bytes as one SGL descriptor: the whole buffer, however long (base 4.1.2). */
static inline struct nvme_prp_pair nvme__sgl_fill(uint64_t iova, uint32_t nblocks)
{
	return (struct nvme_prp_pair){ iova, (uint64_t)nblocks * NVME_PAGE_SIZE };
}

/* For tests: nvme_poison.c.  Skips ranges that are not mapped. */
void nvme__poison(struct nvme_dma *dma, uint64_t iova, uint64_t size_bytes);

/* ---- drives ---------------------------------------------------------------------- */

#define NVME_QPAIRS_MAX 128u

enum nvme_proof_step {
	NVME_PROOF_CQ,
	NVME_PROOF_SQ,
	NVME_PROOF_READ,
	NVME_PROOF_NO_SQ,
	NVME_PROOF_NO_CQ,
	NVME_PROOF_DONE,
};

#define NVME_PROOFS_MAX (NVME_PROOF_BLOCKS + NVME_WITNESS_BLOCKS)

/* nvme_proof.c */
struct nvme_proving {
	struct nvme_drive *ns; /* whose blocks are read */
	enum nvme_proof_step step;
	struct nvme_admin_cmd cmd;
	struct nvme_rings rings;
	struct nvme_mem mem; /* rings, then a page for each block */
	uint64_t deadline_ns;
	uint32_t count; /* reads: those of the proof, then those of the witness */
	uint64_t block[NVME_PROOFS_MAX];
	uint32_t back;
	uint32_t failed;   /* reads, by their bits */
	const char *wrong; /* NULL: nothing; for people */
};

/* The first namespace at or after `ns` that has a proof; NULL: none. */
struct nvme_drive *nvme__proof_of(struct nvme_drive *ns);
void nvme__proof_begin(struct nvme_drive *drive, struct nvme_drive *ns);
/* Returns 1: wait; 0: unchanged; -EBADF: changed, see proving.wrong; or the controller's error. */
must_check int nvme__proof_step(struct nvme_drive *drive, uint64_t now_ns);
void nvme__proof_end(struct nvme_drive *drive);

/*
 * Counts writes that a volatile cache may hold: those that were acknowledged and not written
 * through (FUA).  Each queue pair counts its own, and a flush on any of them covers all that
 * completed before it: the counts of all queue pairs are added up when it is submitted (io.covers),
 * and when it succeeds that sum, if it exceeds that of any earlier flush, is `flushed`.  So a
 * restart may have lost acknowledged writes if and only if the sum is more than `flushed`.
 */
struct nvme_cached {
	_Alignas(64) _Atomic uint64_t done;
};

#define NVME_SHARE_WORD 24u

/* nvme_share.c */
struct nvme_share {
	struct nvme_drive *ctl;  /* the drive whose controller this namespace is on: often itself */
	struct nvme_drive *next; /* namespace of the same controller */
	bool changed;            /* the controller reported a change: read it again */
	bool vacant;             /* it was closed, and has the controller for the others */
	uint32_t count;          /* namespaces to be opened: they share the queue pairs */
	int fd;                  /* nvme_drive_fd() if another drive has the controller; else -1 */
	struct list node;        /* of dma->controllers */
	char *where;             /* its address, or its socket's path */
	int kind;                /* enum nvme_name_kind */
};

struct nvme_drive {
	const struct nvme_ctrl_ops *ops;
	void *ctrl;
	struct nvme_dma *dma;
	struct nvme_info info;
	_Atomic bool helm; /* taken: nvme__helm_try() */
	struct nvme_admin admin;
	bool failed;         /* the controller does not answer, or not sensibly */
	uint64_t timeout_ns; /* for enabling, disabling and for an admin command */
	uint64_t cap;
	uint32_t cc;          /* as it was written last, or found */
	uint32_t nsid_wanted; /* by its name; 0: the first that is active */
	uint32_t nsid;
	uint8_t ns_id[24]; /* its NGUID and EUI64 */
	uint32_t lba_shift;
	bool poison_reads;       /* for tests */
	bool sgl;                /* it takes a buffer as one piece: no PRP lists */
	bool shadow;             /* it reads doorbells in memory */
	uint64_t shutdown_ns;    /* how long it may take */
	uint32_t warning_kelvin; /* 0: it does not say */
	uint32_t oaes;
	uint32_t event_commands;    /* that it takes at once */
	struct nvme_cached *cached; /* by queue id; outlive a queue pair */
	_Atomic uint64_t flushed;
	struct nvme_events events;
	struct nvme_up up;                             /* its way up, the first or after a reset */
	struct nvme_qpair *qpair[NVME_QPAIRS_MAX + 1]; /* by queue id; [0] stays NULL */
	bool qid_taken[NVME_QPAIRS_MAX + 1];           /* by one there, or that is being made */
	char name[64];                                 /* as much of it as fits: for messages */
	struct nvme_watch watch;
	struct nvme_reset reset;
	struct nvme_proving proving;
	struct nvme_proof proof;         /* of this namespace; count 0: none */
	struct nvme_witness witness;     /* choose NULL: none */
	bool read_only;                  /* this namespace may have lost cached writes */
	struct nvme_drive_counts counts; /* the owner's */
	struct nvme_share share;
};

/* Iterates over the namespaces of a controller that are drives; NULL at the end. */
static inline struct nvme_drive *nvme__next_ns(struct nvme_drive *ns)
{
	return ns->share.next;
}

static inline struct nvme_drive *nvme__first_ns(struct nvme_drive *ctl)
{
	return ctl->share.vacant ? ctl->share.next : ctl;
}

/* nvme_share.c */
/* The drive is closed.  True: no namespace of its controller is a drive any more. */
must_check bool nvme__share_leave(struct nvme_drive *drive);
/* Writes "" or "namespace N: ", where a controller has several. */
const char *nvme__share_word(struct nvme_drive *ns, char text[NVME_SHARE_WORD]);

/*
 * The helm: only the thread at the helm touches the admin queue, the table of queue pairs, watch
 * and reset.  The drive's owner takes the helm in nvme_drive_step(), and a thread that creates or
 * ends a queue pair takes it for a moment at a time.  At the helm no thread waits, sleeps, or calls
 * anything that might.
 *
 *   R5 -> A5   changes made at the helm are visible to the next thread at the helm
 */
must_check static inline bool nvme__helm_try(struct nvme_drive *drive)
{
	return !atomic_exchange_explicit(&drive->helm, true, memory_order_acquire); /* A5 */
}

static inline void nvme__helm_leave(struct nvme_drive *drive)
{
	DASSERT(atomic_load_explicit(&drive->helm, memory_order_relaxed));
	atomic_store_explicit(&drive->helm, false, memory_order_release); /* R5 */
}

/* For asserts: returns true while a thread is at the helm, this one or another. */
static inline bool nvme__helm_taken(const struct nvme_drive *drive)
{
	return atomic_load_explicit(&drive->helm, memory_order_relaxed);
}

/* A register, of 4 or 8 bytes: 0; or -EAGAIN: its answer has yet to come.  Never waits. */
must_check static inline int nvme__ask(const struct nvme_drive *drive, uint32_t offset,
				       uint32_t size_bytes, uint64_t *value)
{
	const struct nvme_ctrl_ops *ops = drive->ops;

	if (ops->ask)
		return ops->ask(drive->ctrl, offset, size_bytes, value);
	*value = size_bytes == 8 ? ops->read64(drive->ctrl, offset)
				 : ops->read32(drive->ctrl, offset);
	return 0;
}

must_check static inline int nvme__ask_csts(const struct nvme_drive *drive, uint32_t *csts)
{
	uint64_t value;
	int err = nvme__ask(drive, NVME_REG_CSTS, sizeof(*csts), &value);

	if (!err)
		*csts = (uint32_t)value;
	return err;
}

/* nvme_qpair.c: the writes that the cache was ever given, of all queue pairs. */
uint64_t nvme__cached_count(const struct nvme_drive *drive);

/* This thread: a name that no other one has. */
const void *nvme__me(void);

/* nvme_queues.c: wait until it is free: a moment. */
void nvme__helm_take(struct nvme_drive *drive);

/* nvme_ctrl.c: a drive without a controller, on that of `ctl` (NULL: its own); NULL: no memory. */
struct nvme_drive *nvme__drive_alloc(struct nvme_drive *ctl, const char *name);
void nvme__drive_free(struct nvme_drive *drive);

/* nvme_ctrl.c: a drive from a controller, which is destroyed with it, or at once on failure. */
must_check int nvme__drive_up(struct nvme_drive **out, const struct nvme_ctrl_ops *ops, void *ctrl,
			      const char *name, struct nvme_dma *dma,
			      const struct nvme_options *options, char *err_text,
			      size_t err_text_size);

/* The doorbell of a submission (`completion` 0) or completion (1) queue. */
volatile uint32_t *nvme__doorbell(const struct nvme_drive *drive, uint32_t qid, /* MMIO */
				  uint32_t completion);

/* ---- status: nvme_status.c -------------------------------------------------------- */

/* `status` is type << 8 | code; 0 is 0. */
int nvme__status_errno(uint32_t status);
/* With bit 14, "do not retry": whether the same command may well succeed later. */
bool nvme__status_retry(uint32_t status);
const char *nvme__status_text(uint32_t status);

/* ---- names: nvme_name.c ------------------------------------------------------------ */

enum nvme_name_kind { NVME_NAME_FILE, NVME_NAME_MEM, NVME_NAME_PCI, NVME_NAME_VFIO_USER };

/* How a memory drive copies read data. */
enum nvme_mem_copy {
	NVME_COPY_AS_CARDS, /* past the caches, unless cards of this machine write into them */
	NVME_COPY_PAST,
	NVME_COPY_THROUGH,
	NVME_COPY_OFF, /* not at all */
};

struct nvme_name {
	enum nvme_name_kind kind;
	uint64_t size_bytes;     /* file:, mem:; 0: not given (file: only) */
	enum nvme_mem_copy copy; /* mem: only */
	uint32_t nsid;           /* pci:, vfio-user:; 0: not given */
	char path[4096];         /* file:, vfio-user:; pci: as sysfs writes it, 0000:01:00.0 */
};

must_check int nvme__name_parse(struct nvme_name *out, const char *name, char *err_text,
				size_t err_text_size);

/* ---- several namespaces of one controller: nvme_share.c ----------------------------- */

must_check int nvme__share_open(struct nvme_drive **out, struct nvme_name *parsed, const char *name,
				struct nvme_dma *dma, const struct nvme_options *options,
				char *err_text, size_t err_text_size);
/* One more namespace of the controller of `ctl`; the caller has dma->open_lock, or is alone. */
must_check int nvme__share_join(struct nvme_drive **out, struct nvme_drive *ctl, const char *name,
				char *err_text, size_t err_text_size);

/* The namespace that a drive's name asks for; 0: none. */
uint32_t nvme__name_nsid(const char *name);

/* Write "NAME: ..." for people, with `name` cut if it is very long, and control bytes shown as '?'.
 */
void nvme__err_text(char *err_text, size_t err_text_size, const char *name, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* ---- the rules, checked: nvme_self_check.c ------------------------------------------ */

#define NVME_CHECK_CALLS 64u /* steps, or polls, in variants with WK_DEBUG */

/* At the helm. */
void nvme__drive_check(const struct nvme_drive *drive);
/* The queue pair's thread. */
void nvme__qpair_check(const struct nvme_qpair *qp);
void nvme__rings_check(const struct nvme_rings *r);

#endif
