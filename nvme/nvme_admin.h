/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The admin queue: several commands at once, without waiting for any.
 *
 *	struct nvme_admin_cmd cmd = { .sqe = ..., .deadline_ns = now_ns + drive->timeout_ns };
 *	err = nvme__admin_submit(drive, &cmd);      the controller has it
 *	(void)!nvme__admin_poll(drive);             later, repeatedly
 *	if (cmd.state == NVME_ADMIN_DONE) ...       cmd.err, cmd.status, cmd.result
 *
 * A command is the caller's memory; the driver uses it from submit until it is DONE or LOST.  All
 * functions must be called at the helm (nvme_internal.h).  Private to nvme/ and its tests.
 */
#ifndef NVME_ADMIN_H
#define NVME_ADMIN_H

#include "nvme/nvme_dma.h"
#include "nvme/nvme_spec.h"

struct nvme_drive;

/* ---- rings: a submission queue and its completion queue ------------------------- */

/*
 * Doorbells in memory (base B.5): to ring is to store a word there; the doorbell itself is
 * written only when the controller's event word asks for it.
 */
struct nvme_shadow {
	volatile uint32_t *sq, *sq_event; /* DMA; NULL: the doorbells are all there is */
	volatile uint32_t *cq, *cq_event; /* DMA */
};

struct nvme_rings {
	struct nvme_sqe *sq;            /* depth entries; the device reads them   */
	volatile struct nvme_cqe *cq;   /* depth entries; the device writes them  */
	volatile uint32_t *sq_doorbell; /* MMIO */
	volatile uint32_t *cq_doorbell; /* MMIO */
	struct nvme_shadow shadow;
	uint32_t depth;
	uint32_t sq_tail;      /* next entry to fill                     */
	uint32_t sq_tail_rung; /* the tail that the device last heard of */
	uint32_t cq_head;      /* next entry to read                  */
	uint32_t phase;        /* of a new entry there; flips on wrap    */
};

/* Bytes that both queues need, the completion queue on a page of its own. */
uint64_t nvme__rings_bytes(uint32_t depth);
void nvme__rings_init(struct nvme_rings *r, void *memory, uint32_t depth);
/* Returns the offset of the completion queue after the submission queue. */
uint64_t nvme__rings_cq_offset(uint32_t depth);
/*
 * The doorbells of queue pair `qid`, in memory too if the controller has taken that; before its
 * queues are made there, each time.
 */
void nvme__rings_attach(struct nvme_rings *r, const struct nvme_drive *drive, uint32_t qid);

/* ---- commands -------------------------------------------------------------------- */

#define NVME_ADMIN_DEPTH 32u
#define NVME_ADMIN_PAGES 10u /* data of commands; the first three are permanently in use: */
#define NVME_PAGE_UP     0u  /* data that bring-up reads                                   */
#define NVME_PAGE_SHADOW 1u  /* doorbells in memory                                   */
#define NVME_PAGE_EVENT  2u  /* and their event words                                 */

enum nvme_admin_state {
	NVME_ADMIN_NEW,    /* the controller has not seen it                             */
	NVME_ADMIN_FLYING, /* the controller has it                                          */
	NVME_ADMIN_DONE,   /* err, status and result say how                                 */
	NVME_ADMIN_LOST,   /* given up: the controller may still write to its page, not here */
};

/* The caller fills in the first part; all else is zero. */
struct nvme_admin_cmd {
	struct nvme_sqe sqe;  /* but its cid, and prp1 when it has a page                */
	uint64_t deadline_ns; /* when the caller gives up; UINT64_MAX: never             */
	bool has_page;        /* `page` is the command's: nvme__admin_page_take()        */
	uint32_t page;

	enum nvme_admin_state state;
	uint32_t slot;
	uint32_t result; /* dword 0 of the completion                               */
	uint32_t status; /* type << 8 | code                                        */
	int err;         /* 0, or -errno of the status; -ECANCELED by a reset       */
};

/* A command id: | round, 11 | slot, 5 |, so that an old one is not taken for a new one. */
#define NVME_ADMIN_SLOT_BITS 5
static_assert(1u << NVME_ADMIN_SLOT_BITS == NVME_ADMIN_DEPTH, "an id has room for each slot");

struct nvme_admin_slot {
	struct nvme_admin_cmd *cmd; /* NULL: free, or given up */
	bool lost;                  /* given up: it, and its page, come back with the completion */
	bool has_page;
	uint16_t round;
	uint32_t page;
};

struct nvme_admin {
	struct nvme_rings rings;
	struct nvme_mem mem; /* rings, then the pages */
	struct nvme_admin_slot slot[NVME_ADMIN_DEPTH];
	uint32_t slots_used;  /* flying and lost          */
	uint32_t pages_taken; /* a bit each               */
	uint32_t lost_count;  /* commands that never ended */
};

/**
 * nvme__admin_submit - give `cmd` to the controller, at once
 *
 * Errors:  -EAGAIN all slots are taken; -EIO the drive has failed.
 */
must_check int nvme__admin_submit(struct nvme_drive *drive, struct nvme_admin_cmd *cmd);

/* nvme__admin_poll - end the commands that the controller has completed; how many they were. */
uint32_t nvme__admin_poll(struct nvme_drive *drive);

/*
 * nvme__admin_lose - give up a command that is FLYING
 *
 * Its slot and its page stay the controller's until it completes after all, or is stopped.
 */
void nvme__admin_lose(struct nvme_drive *drive, struct nvme_admin_cmd *cmd);

/* The command that is longest over its deadline, or NULL; and the earliest deadline of all. */
struct nvme_admin_cmd *nvme__admin_overdue(const struct nvme_drive *drive, uint64_t now_ns);
uint64_t nvme__admin_deadline_ns(const struct nvme_drive *drive);

/*
 * nvme__admin_restart - reset the queue; the controller is stopped (disabled, reset or gone)
 *
 * Commands that were FLYING are DONE with -ECANCELED; lost ones are ours again.
 */
void nvme__admin_restart(struct nvme_drive *drive);

/* The memory of all that; the rings are as new.  Freed when the controller is stopped. */
must_check int nvme__admin_create(struct nvme_drive *drive);
void nvme__admin_destroy(struct nvme_drive *drive);

/* ---- pages ------------------------------------------------------------------------ */

/* A page of zeroes for `cmd`; -EAGAIN when all are taken.  Given back when it is not FLYING. */
must_check int nvme__admin_page_take(struct nvme_drive *drive, struct nvme_admin_cmd *cmd);
/* Gives the command's page back; the page of a lost command comes back by itself. */
void nvme__admin_page_give(struct nvme_drive *drive, struct nvme_admin_cmd *cmd);
void *nvme__admin_page(const struct nvme_drive *drive, uint32_t page);
uint64_t nvme__admin_page_iova(const struct nvme_drive *drive, uint32_t page);

/* ---- the commands' bytes ----------------------------------------------------------- */

struct nvme_sqe nvme__sqe_identify(uint32_t cns, uint32_t nsid);
struct nvme_sqe nvme__sqe_get_log(uint32_t log_id, uint32_t nsid, uint32_t size_bytes);
struct nvme_sqe nvme__sqe_set_feature(uint32_t feature, uint32_t value);
struct nvme_sqe nvme__sqe_queue_count(uint32_t wanted);
/* `ien_vector`: the interrupt vector of the completion queue, or -1. */
struct nvme_sqe nvme__sqe_create_cq(uint32_t qid, uint64_t iova, uint32_t depth, int ien_vector);
struct nvme_sqe nvme__sqe_create_sq(uint32_t qid, uint64_t iova, uint32_t depth);
struct nvme_sqe nvme__sqe_delete(uint8_t opcode, uint32_t qid);
struct nvme_sqe nvme__sqe_abort(uint32_t qid, uint32_t cid);

/* ---- waited for: control threads, away from the helm ----------------------------------- */

struct nvme_qpair;

/*
 * Each returns 0, -errno of the command's status, -EIO, -ETIMEDOUT, or -ECANCELED: a reset has
 * taken it back.  Any thread, also while another steps the drive.
 */
must_check int nvme__admin(struct nvme_drive *drive, const struct nvme_sqe *command,
			   uint32_t *result);
/* -ECANCELED, too, when there have been other than `epoch` resets. */
must_check int nvme__admin_create_queues(struct nvme_drive *drive, struct nvme_qpair *qp,
					 uint64_t epoch);
must_check int nvme__admin_delete_queues(struct nvme_drive *drive, uint32_t qid);

#endif
