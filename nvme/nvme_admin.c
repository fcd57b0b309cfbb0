/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The admin queue: one command at a time, waited for, on a thread that may block.
 *
 * Invariants, true between any two calls:
 *
 *  (1) No admin command is in flight; so the rings' tail is rung, and all of depth is free.
 *  (2) A controller that did not answer in time, or answered something else, is failed:
 *      it gets no further command, since it might still write to our page.
 */
#include "nvme/nvme_internal.h"
#include "nvme/mmio.h"

#include "base/clock.h"

#include <errno.h>
#include <string.h>
#include <time.h>

uint64_t nvme__rings_cq_offset(uint32_t depth)
{
	return align_up(depth * sizeof(struct nvme_sqe), NVME_PAGE_SIZE);
}

uint64_t nvme__rings_bytes(uint32_t depth)
{
	return nvme__rings_cq_offset(depth) +
	       align_up(depth * sizeof(struct nvme_cqe), NVME_PAGE_SIZE);
}

void nvme__rings_init(struct nvme_rings *r, void *memory, uint32_t depth)
{
	ASSERT(depth >= NVME_DEPTH_MIN && depth <= NVME_DEPTH_MAX);
	memset(memory, 0, nvme__rings_bytes(depth));
	r->sq = memory;
	r->cq = (void *)((char *)memory + nvme__rings_cq_offset(depth));
	r->depth = depth;
	r->sq_tail = 0;
	r->sq_tail_rung = 0;
	r->cq_head = 0;
	r->phase = 1; /* the device's first entries; memory is zero */
}

volatile uint32_t *nvme__doorbell(const struct nvme_drive *drive, uint32_t qid, /* MMIO */
				  uint32_t completion)
{
	uint32_t stride = 4u << NVME_CAP_DSTRD(drive->cap);

	return drive->ops->doorbell(drive->ctrl,
				    NVME_REG_DOORBELLS + (2 * qid + completion) * stride);
}

/* The entry at the completion queue's head, as soon as it is there. */
static int wait_completion(struct nvme_drive *drive, struct nvme_cqe *out)
{
	struct nvme_rings *r = &drive->admin;
	volatile struct nvme_cqe *cqe = &r->cq[r->cq_head]; /* DMA */
	uint64_t deadline_ns = clock_now_ns() + drive->timeout_ns;
	struct timespec pause = { .tv_nsec = 50000 };

	for (;;) {
		if (drive->ops->service)
			drive->ops->service(drive->ctrl, 0);
		if ((cqe->status.raw & 1) == r->phase)
			break;
		if (drive->ops->read32(drive->ctrl, NVME_REG_CSTS) & NVME_CSTS_CFS)
			return -EIO; /* or all ones: it is gone */
		if (clock_now_ns() > deadline_ns)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
	dma_rmb(); /* the phase bit, before the rest of the entry */
	out->result.raw = cqe->result.raw;
	out->cid.raw = cqe->cid.raw;
	out->status.raw = cqe->status.raw;
	if (++r->cq_head == r->depth) {
		r->cq_head = 0;
		r->phase ^= 1;
	}
	mmio_write32(r->cq_doorbell, r->cq_head);
	return 0;
}

static int submit_and_wait(struct nvme_drive *drive, const struct nvme_sqe *command,
			   struct nvme_cqe *cqe)
{
	struct nvme_rings *r = &drive->admin;
	int err;

	r->sq[r->sq_tail] = *command;
	r->sq[r->sq_tail].cid = le16_of(++drive->admin_cid);
	r->sq_tail = r->sq_tail + 1 == r->depth ? 0 : r->sq_tail + 1;
	dma_wmb(); /* the entry, before the doorbell */
	mmio_write32(r->sq_doorbell, r->sq_tail);
	r->sq_tail_rung = r->sq_tail;

	err = wait_completion(drive, cqe);
	if (!err && le16_get(cqe->cid) != drive->admin_cid)
		err = -EIO;
	drive->failed = err != 0; /* (2) */
	return err;
}

int nvme__admin(struct nvme_drive *drive, const struct nvme_sqe *command, uint32_t *result)
{
	struct nvme_cqe cqe;
	int err;

	if (drive->failed)
		return -EIO;
	ASSERT(!drive->admin_busy);
	ASSERT(drive->admin.sq_tail == drive->admin.sq_tail_rung); /* (1) */
	drive->admin_busy = true;
	err = submit_and_wait(drive, command, &cqe);
	drive->admin_busy = false;
	if (err)
		return err;
	if (result)
		*result = le32_get(cqe.result);
	return nvme__status_errno(le16_get(cqe.status) >> 1 & NVME_STATUS_MASK);
}

int nvme__admin_identify(struct nvme_drive *drive, uint32_t cns, uint32_t nsid)
{
	uint64_t page_iova = drive->admin_mem.iova + nvme__rings_bytes(NVME_ADMIN_DEPTH);

	memset(nvme__identify_page(drive), 0, NVME_PAGE_SIZE);
	return nvme__admin(drive,
			   &(struct nvme_sqe){
				   .opcode = NVME_ADMIN_IDENTIFY,
				   .nsid = le32_of(nsid),
				   .prp1 = le64_of(page_iova),
				   .cdw10 = le32_of(cns),
			   },
			   NULL);
}

int nvme__admin_queue_count(struct nvme_drive *drive, uint32_t wanted, uint32_t *granted)
{
	uint32_t result, sq_count, cq_count;
	int err;

	ASSERT(wanted > 0 && wanted <= 0xfffe);
	err = nvme__admin(drive,
			  &(struct nvme_sqe){
				  .opcode = NVME_ADMIN_SET_FEATURES,
				  .cdw10 = le32_of(NVME_FEAT_QUEUE_COUNT),
				  .cdw11 = le32_of((wanted - 1) << 16 | (wanted - 1)),
			  },
			  &result);
	if (err)
		return err;
	sq_count = (result & 0xffff) + 1;
	cq_count = (result >> 16) + 1;
	*granted = min_u32(wanted, min_u32(sq_count, cq_count));
	return 0;
}

static int create_queue(struct nvme_drive *drive, uint8_t opcode, uint32_t qid, uint64_t iova,
			uint32_t depth, uint32_t cdw11)
{
	return nvme__admin(drive,
			   &(struct nvme_sqe){
				   .opcode = opcode,
				   .prp1 = le64_of(iova),
				   .cdw10 = le32_of((depth - 1) << 16 | qid),
				   .cdw11 = le32_of(cdw11 | NVME_QUEUE_CONTIGUOUS),
			   },
			   NULL);
}

static int delete_queue(struct nvme_drive *drive, uint8_t opcode, uint32_t qid)
{
	return nvme__admin(drive, &(struct nvme_sqe){ .opcode = opcode, .cdw10 = le32_of(qid) },
			   NULL);
}

int nvme__admin_create_queues(struct nvme_drive *drive, uint32_t qid, const struct nvme_mem *mem,
			      uint32_t depth)
{
	int err;

	err = create_queue(drive, NVME_ADMIN_CREATE_CQ, qid,
			   mem->iova + nvme__rings_cq_offset(depth), depth, 0);
	if (err)
		return err;
	err = create_queue(drive, NVME_ADMIN_CREATE_SQ, qid, mem->iova, depth, qid << 16);
	if (err)
		(void)!delete_queue(drive, NVME_ADMIN_DELETE_CQ, qid); /* the first error counts */
	return err;
}

int nvme__admin_delete_queues(struct nvme_drive *drive, uint32_t qid)
{
	int err = delete_queue(drive, NVME_ADMIN_DELETE_SQ, qid);

	return err ? err : delete_queue(drive, NVME_ADMIN_DELETE_CQ, qid);
}
