/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The soft controller, and what may lie behind it: a file, memory, or a test's drive
 * with faults.  Private to nvme/ and its tests.
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
	uint32_t window;       /* of the mapped memory, when seg_count is 1    */
	uint64_t offset_bytes; /* on the drive                                 */
	struct iovec *seg;     /* where in this process; none crosses a window */
	uint64_t scratch;      /* the back end's own; 0 when it is new */
};

/* What a drive of this back end is like; Identify says so. */
struct nvme_soft_traits {
	uint64_t nblocks; /* of 4096 bytes                               */
	uint32_t lba_shift;
	uint32_t atomic_lbas; /* that a power cut does not tear              */
	uint32_t mdts;        /* transfers up to 4096 << mdts; >= 1, <= 8    */
	bool volatile_cache;
	char model[41];
	char serial[21];
};

/* A back end: chosen when the drive is opened, replaced by tests. */
struct nvme_soft_back {
	struct nvme_soft_traits traits;
	uint32_t batch_bytes; /* that one service() starts at most, so that a turn stays short */
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
	/* Sleep: NULL when run() is always done with what it was given. */
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
	/* I/O queues only. */
	struct nvme_soft *soft;
	struct nvme_soft_back *back;
	void *back_queue;
	struct nvme_soft_cmd *cmd;       /* sq_size of them            */
	struct nvme_soft_cmd **cmd_free; /* a stack                    */
	uint32_t cmd_free_count;
	struct iovec *segs;
};

struct nvme_soft {
	struct nvme_dma *dma;
	struct nvme_soft_back *back;
	uint32_t *doorbells; /* 2 x (NVME_QPAIRS_MAX + 1) words, a cache line each */
	uint32_t cc, csts, aqa;
	uint64_t asq, acq;
	uint32_t queue_count; /* that Set Features has granted */
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

/* nvme_soft_queue.c */
void nvme__soft_queue_rings(struct nvme_soft *soft, struct nvme_soft_queue *q, uint32_t qid);
bool nvme__soft_can_fetch(struct nvme_soft_queue *q);
const struct nvme_sqe *nvme__soft_fetch(struct nvme_soft_queue *q);
void nvme__soft_post(struct nvme_soft_queue *q, uint16_t cid, uint32_t status, uint32_t result);

/* nvme_soft_admin.c: run what the admin queue holds. */
void nvme__soft_admin_service(struct nvme_soft *soft);
void nvme__soft_queue_delete(struct nvme_soft *soft, uint32_t qid);

/* nvme_soft_io.c */
must_check int nvme__soft_io_create(struct nvme_soft *soft, uint32_t qid, struct nvme_sqe *sq,
				    uint32_t sq_size, struct nvme_cqe *cq, uint32_t cq_size);
void nvme__soft_io_destroy(struct nvme_soft_queue *q);
void nvme__soft_io_service(struct nvme_soft_queue *q);

/* nvme_soft_prp.c: the segments of a transfer, or a status that refuses it. */
must_check uint32_t nvme__soft_prp(struct nvme_dma *dma, uint64_t prp1, uint64_t prp2,
				   struct nvme_soft_cmd *cmd, uint32_t seg_max);

#endif
