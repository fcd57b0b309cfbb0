/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The soft controller: the registers of an NVMe controller that lives in this process.
 *
 *   nvme_soft.c         registers: enable, disable, shutdown; the seam's functions
 *   nvme_soft_admin.c   the admin queue's commands; nvme_soft_identify.c, nvme_soft_log.c
 *   nvme_soft_queue.c   a queue pair as the controller sees it: fetch, post
 *   nvme_soft_io.c      read, write, flush: decode, hand to the back end, complete
 *   nvme_soft_prp.c     PRPs to memory of this process, through the table of mapped IOVAs
 *   nvme_soft_mem.c, nvme_soft_file.c    the back ends
 *
 *        CC.EN = 1, queues sound          CC.SHN = 1
 *   off -------------------------> ready -------------> shut down
 *    ^ <-----------------------------+    CC.EN = 0         |
 *    +------------------------------------------------------+
 *
 * It trusts its driver no more than a drive would: an error gets a status, a fatal controller, or a
 * halted queue, and never harms this process.
 *
 * Invariants, true between any two calls:
 *
 *  (1) RDY is set exactly when the admin queue works.  Not ready: no I/O queue exists.
 *  (2) Only service() of a queue touches an I/O queue's state; the admin queue makes and ends it
 *      while its thread does not poll.
 */
#include "nvme/soft/nvme_soft.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DOORBELL_STRIDE (4u << NVME_SOFT_DSTRD)
#define DOORBELL_COUNT  (2 * (NVME_QPAIRS_MAX + 1))
#define VERSION_2_0     0x00020000u

static uint64_t cap(const struct nvme_soft *soft)
{
	return (NVME_SOFT_DEPTH_MAX - 1) | 1ull << 16 /* contiguous queues only */ |
	       10ull << 24 /* 5 s */ | (uint64_t)NVME_SOFT_DSTRD << 32 | NVME_CAP_CSS_NVM |
	       (soft->back->traits.cmb ? NVME_CAP_CMBS : 0);
}

static uint32_t soft_read32(void *ctrl, uint32_t offset)
{
	const struct nvme_soft *soft = ctrl;

	switch (offset) {
	case NVME_REG_CAP:
		return (uint32_t)cap(soft);
	case NVME_REG_CAP + 4:
		return (uint32_t)(cap(soft) >> 32);
	case NVME_REG_VS:
		return soft->back->traits.version ? soft->back->traits.version : VERSION_2_0;
	case NVME_REG_CC:
		return soft->cc;
	case NVME_REG_CSTS:
		return soft->csts;
	case NVME_REG_AQA:
		return soft->aqa;
	default:
		return 0;
	}
}

static uint64_t soft_read64(void *ctrl, uint32_t offset)
{
	const struct nvme_soft *soft = ctrl;

	switch (offset) {
	case NVME_REG_CAP:
		return cap(soft);
	case NVME_REG_ASQ:
		return soft->asq;
	case NVME_REG_ACQ:
		return soft->acq;
	default:
		return soft_read32(ctrl, offset);
	}
}

/* The queue's memory, all of it in one piece; NULL when it is not mapped so. */
static void *queue_memory(struct nvme_soft *soft, uint64_t iova, uint64_t size_bytes)
{
	uint64_t here = size_bytes;
	void *addr = iova % NVME_PAGE_SIZE == 0 ? nvme__dma_at(soft->dma, iova, &here) : NULL;

	if (addr && here == size_bytes)
		return addr;
	nvme__dma_fault(soft->dma);
	return NULL;
}

static void enable(struct nvme_soft *soft)
{
	struct nvme_soft_queue *q = &soft->admin;
	uint32_t sq_size = (soft->aqa & 0xfff) + 1, cq_size = (soft->aqa >> 16 & 0xfff) + 1;

	ASSERT(!(soft->csts & NVME_CSTS_RDY));
	soft->csts = NVME_CSTS_CFS;
	if (NVME_CC_MPS(soft->cc) != 0 || NVME_CC_CSS(soft->cc) != 0 ||
	    NVME_CC_IOSQES(soft->cc) != 6 || NVME_CC_IOCQES(soft->cc) != 4)
		return;
	if (sq_size < 2 || cq_size < 2)
		return;
	memset(q, 0, sizeof(*q));
	q->sq = queue_memory(soft, soft->asq, sq_size * sizeof(struct nvme_sqe));
	q->cq = queue_memory(soft, soft->acq, cq_size * sizeof(struct nvme_cqe));
	if (!q->sq || !q->cq)
		return;
	q->sq_size = sq_size;
	q->cq_size = cq_size;
	nvme__soft_queue_rings(soft, q, 0);
	soft->queue_count = NVME_QPAIRS_MAX;
	soft->csts = NVME_CSTS_RDY;
}

/* (1) */
static void disable(struct nvme_soft *soft)
{
	for (uint32_t qid = 1; qid <= NVME_QPAIRS_MAX; qid++) {
		nvme__soft_queue_delete(soft, qid);
		soft->unpaired_cq_size[qid] = 0;
	}
	memset(&soft->admin, 0, sizeof(soft->admin));
	nvme__soft_forget_events(soft);
	soft->shadow = NULL;
	soft->csts = 0;
	ASSERT(!soft->queue[1]); /* (1) */
}

static void write_cc(struct nvme_soft *soft, uint32_t cc)
{
	bool was_enabled = soft->cc & NVME_CC_EN;

	soft->cc = cc;
	if (NVME_CC_SHN(cc) && NVME_CSTS_SHST(soft->csts) != NVME_CSTS_SHST_DONE) {
		if (soft->back->shutdown)
			soft->back->shutdown(soft->back);
		soft->csts |= NVME_CSTS_SHST_DONE << 2;
	}
	if (was_enabled && !(cc & NVME_CC_EN))
		disable(soft);
	else if (!was_enabled && (cc & NVME_CC_EN))
		enable(soft);
}

static void soft_write32(void *ctrl, uint32_t offset, uint32_t value)
{
	struct nvme_soft *soft = ctrl;

	switch (offset) {
	case NVME_REG_CC:
		write_cc(soft, value);
		break;
	case NVME_REG_AQA:
		soft->aqa = value;
		break;
	default: /* interrupt masks and read-only registers */
		break;
	}
}

static void soft_write64(void *ctrl, uint32_t offset, uint64_t value)
{
	struct nvme_soft *soft = ctrl;

	if (offset == NVME_REG_ASQ)
		soft->asq = value;
	else if (offset == NVME_REG_ACQ)
		soft->acq = value;
}

static volatile uint32_t *soft_doorbell(void *ctrl, uint32_t offset)
{
	struct nvme_soft *soft = ctrl;
	uint32_t index = (offset - NVME_REG_DOORBELLS) / DOORBELL_STRIDE;

	ASSERT(offset >= NVME_REG_DOORBELLS && index < DOORBELL_COUNT);
	return soft->doorbells + index * (DOORBELL_STRIDE / sizeof(uint32_t));
}

void nvme__soft_queue_rings(struct nvme_soft *soft, struct nvme_soft_queue *q, uint32_t qid)
{
	q->qid = (uint16_t)qid;
	q->sq_doorbell = soft_doorbell(soft, NVME_REG_DOORBELLS + 2 * qid * DOORBELL_STRIDE);
	q->cq_doorbell = soft_doorbell(soft, NVME_REG_DOORBELLS + (2 * qid + 1) * DOORBELL_STRIDE);
	*q->sq_doorbell = 0;
	*q->cq_doorbell = 0;
	q->phase = 1;
	nvme__soft_queue_shadow(soft, q);
}

/* The admin queue's doorbell is written in any case: that one never sleeps. */
void nvme__soft_queue_shadow(struct nvme_soft *soft, struct nvme_soft_queue *q)
{
	uint32_t at = 2 * q->qid * DOORBELL_STRIDE;

	if (!soft->shadow || q->qid == 0 || at + 2 * DOORBELL_STRIDE > NVME_PAGE_SIZE)
		return;
	q->sq_shadow = (void *)(soft->shadow + at);
	q->cq_shadow = (void *)(soft->shadow + at + DOORBELL_STRIDE);
	q->sq_event = (void *)(soft->shadow_event + at);
}

static void soft_service(void *ctrl, uint32_t qid)
{
	struct nvme_soft *soft = ctrl;

	ASSERT(qid <= NVME_QPAIRS_MAX);
	if (qid == 0)
		nvme__soft_admin_service(soft);
	else if (soft->queue[qid])
		nvme__soft_io_service(soft->queue[qid]);
}

static int soft_wake_fd(void *ctrl, uint32_t qid)
{
	const struct nvme_soft_queue *q = ((struct nvme_soft *)ctrl)->queue[qid];

	return q && q->back->wake_fd ? q->back->wake_fd(q->back_queue) : -1;
}

/* Sleep is allowed when all that was fetched waits for the back end, which can wake us. */
static bool soft_arm(void *ctrl, uint32_t qid)
{
	struct nvme_soft_queue *q = ((struct nvme_soft *)ctrl)->queue[qid];
	bool will_wake;

	if (!q)
		return true;
	if (nvme__soft_can_fetch(q))
		return false;
	/* Also with nothing in flight: an old signal must not end the sleep. */
	will_wake = q->back->arm && q->back->arm(q->back_queue);
	return will_wake || q->owed_count == 0;
}

static void soft_disarm(void *ctrl, uint32_t qid)
{
	struct nvme_soft_queue *q = ((struct nvme_soft *)ctrl)->queue[qid];

	if (q && q->back->disarm)
		q->back->disarm(q->back_queue);
}

static void soft_note(void *ctrl, char *text, size_t text_size)
{
	struct nvme_soft *soft = ctrl;

	if (soft->back->note)
		soft->back->note(soft->back, text, text_size);
}

static void soft_stats(void *ctrl, uint32_t qid, struct nvme_stats *stats)
{
	const struct nvme_soft_queue *q = ((struct nvme_soft *)ctrl)->queue[qid];

	if (q && q->back->stats)
		q->back->stats(q->back_queue, stats);
}

static void soft_destroy(void *ctrl)
{
	struct nvme_soft *soft = ctrl;

	disable(soft);
	soft->back->destroy(soft->back);
	free(soft->doorbells);
	free(soft);
}

const struct nvme_ctrl_ops nvme__soft_ops = {
	.read32 = soft_read32,
	.read64 = soft_read64,
	.write32 = soft_write32,
	.write64 = soft_write64,
	.doorbell = soft_doorbell,
	.service = soft_service,
	.wake_fd = soft_wake_fd,
	.arm = soft_arm,
	.disarm = soft_disarm,
	.note = soft_note,
	.stats = soft_stats,
	.destroy = soft_destroy,
};

static void set_namespaces(struct nvme_soft *soft)
{
	const struct nvme_soft_traits *traits = &soft->back->traits;

	soft->own_ns = (struct nvme_soft_ns){
		.nsid = 1,
		.lba_shift = traits->lba_shift,
		.size_lbas = traits->nblocks << (NVME_BLOCK_SHIFT - traits->lba_shift),
	};
	soft->ns = traits->ns ? traits->ns : &soft->own_ns;
	soft->ns_count = traits->ns ? traits->ns_count : 1;
	ASSERT(soft->ns_count > 0);
}

int nvme__soft_create(struct nvme_soft **out, struct nvme_dma *dma, struct nvme_soft_back *back)
{
	struct nvme_soft *soft = calloc(1, sizeof(*soft));

	ASSERT(back->traits.mdts >= 1 && back->traits.mdts <= 8);
	if (!soft)
		goto destroy_back;
	soft->doorbells = aligned_alloc(DOORBELL_STRIDE, (size_t)DOORBELL_COUNT * DOORBELL_STRIDE);
	if (!soft->doorbells)
		goto free_soft;
	memset(soft->doorbells, 0, (size_t)DOORBELL_COUNT * DOORBELL_STRIDE);
	soft->dma = dma;
	soft->back = back;
	set_namespaces(soft);
	soft->health.spare_percent = 100;
	*out = soft;
	return 0;

free_soft:
	free(soft);
destroy_back:
	back->destroy(back);
	return -ENOMEM;
}
