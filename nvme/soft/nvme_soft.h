/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The soft controller and its back ends: a file, memory, or a test's drive with faults.  Private to
 * nvme/ and its tests.
 */
#ifndef NVME_SOFT_H
#define NVME_SOFT_H

#include "nvme/nvme_internal.h"

#include <sys/uio.h>

#define NVME_SOFT_DEPTH_MAX 4096u
#define NVME_SOFT_BATCH     32u /* commands that one service() starts at most */
#define NVME_SOFT_DSTRD     4u  /* doorbells 64 bytes apart: a line for each core's */

/* A command that was fetched and found sound, until it is done. */
struct nvme_soft_cmd {
	uint8_t opcode; /* NVME_CMD_*                                   */
	bool fua;
	uint16_t cid;
	uint16_t status;       /* set by the back end: NVME_SC_*               */
	uint16_t seg_count;    /* 0 for a flush                                */
	uint32_t size_bytes;   /* the segments' sum                            */
	uint32_t window;       /* of the mapped memory: the last segment's     */
	uint64_t offset_bytes; /* on the drive                                 */
	uint64_t freed_bytes;  /* from there on, of a deallocate: it has no segments */
	struct iovec *seg;     /* where in this process; none crosses a window */
	uint64_t scratch;      /* the back end's own; 0 when it is new */
};

/* A namespace: a part of the back end's blocks. */
struct nvme_soft_ns {
	uint32_t nsid;
	uint32_t lba_shift;
	uint64_t first_block; /* where it begins, in blocks of 4096 bytes */
	uint64_t size_lbas;   /* 0: it is not active                      */
	/* Properties that a driver may refuse.  Data moves as if they were zero. */
	uint32_t metadata_bytes;
	uint8_t protection;  /* kind of protection information           */
	uint8_t command_set; /* NVME_COMMAND_SET_*                       */
	bool write_protected;
	bool own_atomic; /* the next three count, not the controller's */
	uint16_t nawupf, nabspf, nabo;
	uint8_t id[24]; /* NGUID, then EUI64 */
};

/* Properties of a back end's drive, reported by Identify. */
struct nvme_soft_traits {
	uint64_t nblocks; /* of 4096 bytes                               */
	uint32_t lba_shift;
	uint32_t atomic_lbas; /* that a power cut does not tear              */
	uint32_t mdts;        /* transfers up to 4096 << mdts; >= 1, <= 8    */
	bool volatile_cache;
	char model[41];
	char serial[21];
	/* The rest is for tests: of zeroes, it is the plain controller that product drives have. */
	struct nvme_soft_ns *ns; /* in the order of their ids; NULL: one, of all that there is */
	uint32_t ns_count;
	uint32_t queue_count_max; /* that are granted; 0: NVME_QPAIRS_MAX                  */
	uint32_t range_lbas_max;  /* of a deallocated range; 0: no limit                   */
	uint32_t version;         /* 0: 2.0                                                */
	bool sgl;                 /* takes SGLs of one data block                          */
	bool shadow;              /* takes doorbells in memory, and sleeps between         */
	bool deallocate;          /* takes ranges, checks them, and keeps their content    */
	bool frees;               /* takes one range, for the back end; which gives it up  */
	bool thin;                /* freed space may go to other users                     */
	bool no_zeroes;           /* has no write zeroes                                   */
	bool cmb;                 /* has a memory buffer, says its register                */
	uint8_t controller_type;  /* 0: I/O                                                */
};

/* A back end: chosen when the drive is opened, replaced by tests. */
struct nvme_soft_back {
	struct nvme_soft_traits traits;
	uint32_t batch_bytes;  /* that one service() starts at most, so that a turn stays short */
	uint32_t buffer_align; /* of the memory of a transfer; 0: as the controller, 4 */
	/* A queue's own state; run() of different queues may run on different threads. */
	int (*queue_create)(struct nvme_soft_back *back, uint32_t depth, struct nvme_dma *dma,
			    void **queue);
	/* Waits until no command of it touches memory any more. */
	void (*queue_destroy)(void *queue);
	/*
	 * Take `cmd_count` new commands; return those that are done, old or new, their status
	 * set, in done[0 .. returned), at most done_max (>= cmd_count).  Never blocks.
	 */
	uint32_t (*run)(void *queue, struct nvme_soft_cmd **cmd, uint32_t cmd_count,
			struct nvme_soft_cmd **done, uint32_t done_max);
	/* Let a command end early, as aborted; false, or NULL: it ends as it would have. */
	bool (*abort)(void *queue, uint16_t cid);
	/* Sleep: NULL when run() always completes its commands at once. */
	int (*wake_fd)(void *queue);
	bool (*arm)(void *queue);
	void (*disarm)(void *queue);
	/* All completed writes of all queues become durable; the controller shuts down. */
	void (*shutdown)(struct nvme_soft_back *back);
	void (*note)(struct nvme_soft_back *back, char *text, size_t text_size);
	void (*stats)(void *queue, struct nvme_stats *stats);
	void (*destroy)(struct nvme_soft_back *back);
};

/* ---- back ends -------------------------------------------------------------------- */

must_check int nvme__soft_mem_create(struct nvme_soft_back **out, const struct nvme_name *name,
				     const char *text, char *err_text, size_t err_text_size);
must_check int nvme__soft_file_create(struct nvme_soft_back **out, const struct nvme_name *name,
				      const char *text, bool create, char *err_text,
				      size_t err_text_size);

/* ---- the controller ---------------------------------------------------------------- */

/* Not a status: the command needs no more work, or is not to be completed yet. */
#define NVME_SOFT_DONE 0x10000u
#define NVME_SOFT_HELD 0x20000u

/* One queue pair.  Touched by its thread; made and ended by admin commands. */
struct nvme_soft_queue {
	const struct nvme_sqe *sq;
	struct nvme_cqe *cq;
	volatile uint32_t *sq_doorbell;
	volatile uint32_t *cq_doorbell;
	uint32_t sq_size;
	uint32_t cq_size;
	uint32_t sq_head;    /* next entry to fetch                              */
	uint32_t cq_tail;    /* next entry to post                               */
	uint32_t phase;      /* of the entries that are posted there             */
	uint32_t owed_count; /* fetched and not posted: each has a place in cq   */
	uint16_t qid;
	bool halted; /* a doorbell made no sense: nothing is fetched any more */
	/* Doorbells in memory, or NULL; asleep: looks at nothing until sq_doorbell is written. */
	const volatile uint32_t *sq_shadow; /* DMA */
	const volatile uint32_t *cq_shadow; /* DMA */
	volatile uint32_t *sq_event;        /* DMA */
	bool asleep;
	uint64_t wake_count;
	/* I/O queues only. */
	struct nvme_soft *soft;
	struct nvme_soft_back *back;
	void *back_queue;
	struct nvme_soft_cmd *cmd;       /* sq_size of them            */
	struct nvme_soft_cmd **cmd_free; /* a stack                    */
	uint32_t cmd_free_count;
	struct iovec *segs;
	uint64_t freed_lbas; /* deallocated: nothing happens to them */
	bool in_service;
};

#define NVME_SOFT_EVENTS 4u /* event commands that may wait; events that may */

struct nvme_soft {
	struct nvme_dma *dma;
	struct nvme_soft_back *back;
	uint32_t *doorbells; /* 2 x (NVME_QPAIRS_MAX + 1) words, a cache line each */
	uint32_t cc, csts, aqa;
	uint64_t asq, acq;
	uint32_t queue_count;       /* that Set Features has granted */
	struct nvme_soft_ns own_ns; /* when the traits name none */
	struct nvme_soft_ns *ns;
	uint32_t ns_count;
	char *shadow; /* pages of doorbells in memory, of 4096 bytes; NULL: none */
	char *shadow_event;
	/* Events: nvme_soft_log.c */
	uint16_t event_cid[NVME_SOFT_EVENTS];
	uint32_t event_cid_count;
	uint32_t event[NVME_SOFT_EVENTS]; /* results without a request yet */
	uint32_t event_count;
	uint32_t event_masked; /* a bit each kind: held back until its log is read */
	uint32_t event_wanted; /* by set feature 0bh */
	struct nvme_log_health health;
	struct nvme_log_error error;
	le32 changed_ns[8]; /* ends with a 0 */
	struct nvme_soft_queue admin;
	struct nvme_soft_queue *queue[NVME_QPAIRS_MAX + 1]; /* [0] stays NULL */
	uint32_t unpaired_cq_size[NVME_QPAIRS_MAX + 1];     /* a CQ without its SQ yet; 0: none */
	uint64_t unpaired_cq_iova[NVME_QPAIRS_MAX + 1];
};

extern const struct nvme_ctrl_ops nvme__soft_ops;

/* Owns `back`, also on failure. */
must_check int nvme__soft_create(struct nvme_soft **out, struct nvme_dma *dma,
				 struct nvme_soft_back *back);

/* nvme_drive.c: a drive over `back`, which goes with it, or at once on failure. */
must_check int nvme__open_soft(struct nvme_drive **out, struct nvme_soft_back *back,
			       const char *name, struct nvme_dma *dma,
			       const struct nvme_options *options, char *err_text,
			       size_t err_text_size);

/* nvme_soft.c: the doorbells of queue pair `qid`; those in memory, if there are any now. */
void nvme__soft_queue_shadow(struct nvme_soft *soft, struct nvme_soft_queue *q);
void nvme__soft_queue_rings(struct nvme_soft *soft, struct nvme_soft_queue *q, uint32_t qid);

/* nvme_soft_queue.c */
bool nvme__soft_can_fetch(struct nvme_soft_queue *q);
const struct nvme_sqe *nvme__soft_fetch(struct nvme_soft_queue *q);
void nvme__soft_post(struct nvme_soft_queue *q, uint16_t cid, uint32_t status, uint32_t result);

/* nvme_soft_admin.c: runs the commands in the admin queue. */
void nvme__soft_admin_service(struct nvme_soft *soft);
void nvme__soft_queue_delete(struct nvme_soft *soft, uint32_t qid);
/* `size_bytes` (at most 4096) to where the command's PRPs point; a status. */
must_check uint32_t nvme__soft_give(struct nvme_soft *soft, const struct nvme_sqe *sqe,
				    const void *data, uint32_t size_bytes);

/* nvme_soft_identify.c: a status. */
must_check uint32_t nvme__soft_identify(struct nvme_soft *soft, const struct nvme_sqe *sqe);
/* The active namespace of that id, or NULL; the first is found at once. */
const struct nvme_soft_ns *nvme__soft_ns_search(const struct nvme_soft *soft, uint32_t nsid);

static inline const struct nvme_soft_ns *nvme__soft_ns(const struct nvme_soft *soft, uint32_t nsid)
{
	if (likely(soft->ns->nsid == nsid && soft->ns->size_lbas > 0))
		return soft->ns;
	return nvme__soft_ns_search(soft, nsid);
}

/* nvme_soft_log.c */
must_check uint32_t nvme__soft_get_log(struct nvme_soft *soft, const struct nvme_sqe *sqe);
/* An event command waits from now on, or gets a status. */
must_check uint32_t nvme__soft_wait_event(struct nvme_soft *soft, uint16_t cid);
/* For tests: raises an event, dword 0 of a completion.  Too many are dropped. */
void nvme__soft_event(struct nvme_soft *soft, uint32_t type, uint32_t info, uint32_t log_id);
/* The controller is disabled. */
void nvme__soft_forget_events(struct nvme_soft *soft);

/* nvme_soft_io.c */
must_check int nvme__soft_io_create(struct nvme_soft *soft, uint32_t qid, struct nvme_sqe *sq,
				    uint32_t sq_size, struct nvme_cqe *cq, uint32_t cq_size);
void nvme__soft_io_destroy(struct nvme_soft_queue *q);
void nvme__soft_io_service(struct nvme_soft_queue *q);
/* Returns the limit of one write zeroes; a power of two. */
uint32_t nvme__soft_zero_max_bytes(const struct nvme_soft_back *back);

/* nvme_soft_prp.c: the segments of a transfer, or a status that refuses it. */
must_check uint32_t nvme__soft_prp(struct nvme_dma *dma, uint64_t prp1, uint64_t prp2,
				   struct nvme_soft_cmd *cmd, uint32_t seg_max);
/* The same of an SGL, which must be one data block: its 16 bytes are those of the PRPs. */
must_check uint32_t nvme__soft_sgl(struct nvme_dma *dma, uint64_t low, uint64_t high,
				   struct nvme_soft_cmd *cmd, uint32_t seg_max);

#endif
