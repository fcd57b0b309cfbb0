/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Queue pairs: submit, ring and poll.
 *
 *                 sq_tail_rung        sq_tail
 *                      v                 v
 *   sq   [..fetched..] [a] [b] [c] [d]   [ ]     a..d: written, device not yet told
 *
 *   cq   [old phase]   [new] [new]  [old phase]
 *                        ^ cq_head
 *
 * An I/O longer than the drive's limit is several commands that share it: each of their
 * ids points to it, commands_left counts them.
 *
 * Invariants, true between any two calls:
 *
 *  (1) A command id is either on cid_free or has its I/O in io_by_cid, never both.
 *  (2) At most depth - 1 ids exist.  So the submission queue never overflows, and
 *      neither does the completion queue: no head of the device's need be tracked.
 *  (3) An I/O is the driver's from nvme_submit() == 0 until nvme_poll() returns it;
 *      io_count counts them, and the ids that point to one are its commands_left.
 *  (4) What the device writes is checked, never asserted: a wrong completion fails
 *      the queue pair for good.  Its I/Os come back after nvme_qpair_stop(), and not
 *      before: until then the device may still write to their buffers.
 *  (5) An id's PRP list is written only while the id is being submitted.
 */
#include "nvme/nvme_internal.h"
#include "nvme/mmio.h"

#include <errno.h>

static void assert_valid(const struct nvme_qpair *qp)
{
	ASSERT(qp->cid_free_count < qp->rings.depth);                     /* (2) */
	ASSERT(qp->io_count <= qp->rings.depth - 1 - qp->cid_free_count); /* (3) */
}

static uint32_t take_cid(struct nvme_qpair *qp, struct nvme_io *io)
{
	uint32_t cid = qp->cid_free[--qp->cid_free_count];

	ASSERT(qp->io_by_cid[cid] == NULL); /* (1) */
	qp->io_by_cid[cid] = io;
	return cid;
}

static void push(struct nvme_rings *r, const struct nvme_sqe *command)
{
	r->sq[r->sq_tail] = *command;
	r->sq_tail = r->sq_tail + 1 == r->depth ? 0 : r->sq_tail + 1;
}

/* Commands of no data of the caller's: flush, zeroes, deallocate. */
static void push_other(struct nvme_qpair *qp, struct nvme_io *io)
{
	uint32_t cid = take_cid(qp, io), list = cid * qp->prp_list_entries;
	uint64_t lba = io->block << qp->lba_per_block_shift;
	uint32_t lba_count = io->nblocks << qp->lba_per_block_shift;
	struct nvme_range *range = (void *)(qp->prp_lists + list); /* (5), for this too */
	struct nvme_sqe sqe = { .cid = le16_of((uint16_t)cid), .nsid = le32_of(qp->nsid) };

	switch (io->op) {
	case NVME_ZERO:
		sqe.opcode = NVME_CMD_WRITE_ZEROES;
		sqe.cdw10 = le32_of((uint32_t)lba);
		sqe.cdw11 = le32_of((uint32_t)(lba >> 32));
		sqe.cdw12 = le32_of((lba_count - 1) | (io->fua ? qp->fua_bit : 0));
		break;
	case NVME_DEALLOCATE:
		sqe.opcode = NVME_CMD_DATASET;
		sqe.prp1 = le64_of(qp->prp_lists_iova + 8ull * list);
		sqe.cdw11 = le32_of(NVME_DATASET_FREE); /* of one range: dword 10 counts less 1 */
		*range =
			(struct nvme_range){ .lba_count = le32_of(lba_count), .lba = le64_of(lba) };
		break;
	default:
		ASSERT(io->op == NVME_FLUSH);
		sqe.opcode = NVME_CMD_FLUSH;
	}
	push(&qp->rings, &sqe);
}

/* One command: `nblocks` of `io`, from its block `first` on. */
static void push_transfer(struct nvme_qpair *qp, struct nvme_io *io, uint32_t first,
			  uint32_t nblocks)
{
	uint32_t cid = take_cid(qp, io);
	uint32_t list = cid * qp->prp_list_entries;
	uint64_t lba = (io->block + first) << qp->lba_per_block_shift;
	bool whole = nblocks > 2 && qp->sgl; /* one descriptor instead of a list */
	uint64_t iova = io->iova + ((uint64_t)first << NVME_BLOCK_SHIFT);
	struct nvme_prp_pair data = whole ? nvme__sgl_fill(iova, nblocks)
					  : nvme__prp_fill(iova, nblocks, qp->prp_lists + list,
							   qp->prp_lists_iova + 8ull * list);

	push(&qp->rings,
	     &(struct nvme_sqe){
		     .opcode = io->op == NVME_READ ? NVME_CMD_READ : NVME_CMD_WRITE,
		     .flags = whole ? NVME_SQE_SGL : 0,
		     .cid = le16_of((uint16_t)cid),
		     .nsid = le32_of(qp->nsid),
		     .prp1 = le64_of(data.prp1),
		     .prp2 = le64_of(data.prp2),
		     .cdw10 = le32_of((uint32_t)lba),
		     .cdw11 = le32_of((uint32_t)(lba >> 32)),
		     .cdw12 = le32_of(((nblocks << qp->lba_per_block_shift) - 1) |
				      (io->fua && io->op == NVME_WRITE ? qp->fua_bit : 0)),
	     });
}

static wk_cold int submit_other(struct nvme_qpair *qp, struct nvme_io *io)
{
	uint32_t limit = io->op == NVME_ZERO         ? qp->zero_max_blocks
			 : io->op == NVME_DEALLOCATE ? qp->deallocate_max_blocks
						     : 0;

	ASSERT(io->op == NVME_FLUSH || io->nblocks > 0);
	if (qp->state != NVME_QP_LIVE)
		return -EIO;
	if (io->op != NVME_FLUSH && io->nblocks > limit)
		return limit ? -EINVAL : -EOPNOTSUPP;
	if (qp->cid_free_count == 0)
		return -EAGAIN;
	io->status = 0;
	io->commands_left = 1;
	qp->io_count++;
	qp->stats.command_count++;
	push_other(qp, io);
	return 0;
}

int nvme_submit(struct nvme_qpair *qp, struct nvme_io *io)
{
	uint32_t commands = 1;

	if (unlikely(io->op > NVME_WRITE))
		return submit_other(qp, io);
	ASSERT(io->nblocks > 0 && io->iova % NVME_PAGE_SIZE == 0);
	ASSERT(io->nblocks <= qp->io_blocks_max);
	if (unlikely(qp->state != NVME_QP_LIVE))
		return -EIO;
	if (unlikely(io->nblocks > qp->transfer_max_blocks))
		commands = (uint32_t)div_up(io->nblocks, qp->transfer_max_blocks);
	if (qp->cid_free_count < commands)
		return -EAGAIN;

	io->status = 0;
	io->commands_left = commands;
	qp->io_count++;
	qp->stats.command_count += commands;
	for (uint32_t first = 0; first < io->nblocks; first += qp->transfer_max_blocks)
		push_transfer(qp, io, first, min_u32(io->nblocks - first, qp->transfer_max_blocks));
	return 0;
}

void nvme_ring(struct nvme_qpair *qp)
{
	struct nvme_rings *r = &qp->rings;

	if (r->sq_tail == r->sq_tail_rung || qp->state != NVME_QP_LIVE)
		return;
	dma_wmb(); /* the entries, before the doorbell that announces them */
	mmio_ring(r->sq_doorbell, r->shadow.sq, r->shadow.sq_event, r->sq_tail_rung, r->sq_tail);
	r->sq_tail_rung = r->sq_tail;
	qp->stats.ring_count++;
}

/* Give the id back; its I/O when that was the last of its commands, else NULL. */
static struct nvme_io *retire(struct nvme_qpair *qp, uint32_t cid, int err)
{
	struct nvme_io *io = qp->io_by_cid[cid];

	qp->io_by_cid[cid] = NULL;
	ASSERT(qp->cid_free_count < qp->rings.depth - 1); /* (2) */
	qp->cid_free[qp->cid_free_count++] = cid;
	if (unlikely(err)) {
		qp->stats.error_count++;
		if (io->status == 0)
			io->status = err;
	}
	ASSERT(io->commands_left > 0); /* (3) */
	if (--io->commands_left > 0)
		return NULL;
	ASSERT(qp->io_count > 0); /* (3) */
	qp->io_count--;
	return io;
}

/* I/Os of queues that the controller has forgotten: nobody else will end them. */
static wk_cold uint32_t poll_stopped(struct nvme_qpair *qp, struct nvme_io **done,
				     uint32_t done_max)
{
	uint32_t done_count = 0;

	for (uint32_t cid = 0; cid + 1 < qp->rings.depth && done_count < done_max; cid++) {
		struct nvme_io *io = qp->io_by_cid[cid] ? retire(qp, cid, -ECANCELED) : NULL;

		if (io)
			done[done_count++] = io;
	}
	return done_count;
}

uint32_t nvme_poll(struct nvme_qpair *qp, struct nvme_io **done, uint32_t done_max)
{
	struct nvme_rings *r = &qp->rings;
	uint32_t done_count = 0, seen = 0, head = r->cq_head;

	if (unlikely(qp->state == NVME_QP_STOPPED))
		return poll_stopped(qp, done, done_max);
	if (qp->ops->service)
		qp->ops->service(qp->ctrl, qp->qid);
	while (done_count < done_max && qp->state == NVME_QP_LIVE) {
		volatile struct nvme_cqe *cqe = &r->cq[r->cq_head];
		uint32_t status = cqe->status.raw, cid;
		struct nvme_io *io;

		if ((status & 1) != r->phase)
			break;
		dma_rmb(); /* the phase bit, before the rest of the entry */
		cid = cqe->cid.raw;
		if (unlikely(cid >= r->depth || qp->io_by_cid[cid] == NULL)) {
			qp->state = NVME_QP_FAILED; /* (4): the device made it up */
			break;
		}
		io = retire(qp, cid, nvme__status_errno(status >> 1 & NVME_STATUS_MASK));
		if (io)
			done[done_count++] = io;
		seen++;
		if (++r->cq_head == r->depth) {
			r->cq_head = 0;
			r->phase ^= 1;
		}
	}
	if (seen > 0)
		mmio_ring(r->cq_doorbell, r->shadow.cq, r->shadow.cq_event, head, r->cq_head);
	assert_valid(qp);
	return done_count;
}

uint32_t nvme_qpair_io_blocks_max(const struct nvme_qpair *qp)
{
	return qp->io_blocks_max;
}

uint32_t nvme_qpair_in_flight(const struct nvme_qpair *qp)
{
	return qp->io_count;
}

int nvme_qpair_fd(const struct nvme_qpair *qp)
{
	return qp->ops->wake_fd(qp->ctrl, qp->qid);
}

bool nvme_qpair_arm(struct nvme_qpair *qp)
{
	const struct nvme_rings *r = &qp->rings;

	if (qp->state != NVME_QP_LIVE)
		return qp->io_count == 0;
	if (!qp->ops->arm(qp->ctrl, qp->qid))
		return false;
	/* What completed before the arming makes no wake-up. */
	return r->sq_tail == r->sq_tail_rung && (r->cq[r->cq_head].status.raw & 1) != r->phase;
}

void nvme_qpair_disarm(struct nvme_qpair *qp)
{
	if (qp->state == NVME_QP_LIVE)
		qp->ops->disarm(qp->ctrl, qp->qid);
}

void nvme_qpair_stats(const struct nvme_qpair *qp, struct nvme_stats *stats)
{
	*stats = qp->stats;
	if (qp->ops->stats && qp->state != NVME_QP_STOPPED)
		qp->ops->stats(qp->ctrl, qp->qid, stats);
}
