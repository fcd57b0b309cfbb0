/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A queue pair as the controller sees it.
 *
 *   sq   [ ] [ ] [x] [x] [x] [ ]        sq_head: next to fetch; the doorbell: the driver's tail
 *                 ^head       ^doorbell
 *   cq   [d] [d] [ ] [ ] [o] [o]        cq_tail: next to post; the doorbell: the driver's head
 *        ^doorbell ^tail
 *
 *   B3 -> B4   (B3 in mmio.h) the driver's word, and that the queue sleeps
 *   B5 -> B2   (B2 in nvme_qpair.c) a completion's fields are stored before the phase that makes it
 *              one
 *
 * Invariants, true between any two calls:
 *
 *  (1) Each command that was fetched and is not yet posted (owed_count) has a place in cq:
 *      a driver that does not collect its completions only stops the fetching.
 *  (2) A doorbell that points outside its queue halts the queue: nothing more is fetched
 *      [test_nvme_ctrl:doorbell_out_of_range_halts_that_queue_only].
 */
#include "nvme/soft/nvme_soft.h"
#include "nvme/mmio.h"

#define NOT_RUNG UINT32_MAX /* value of a sleeping queue's doorbell */

/*
 * Returns the driver's tail from its word in memory.  When there is no more, the queue falls
 * asleep, as a device that does not poll would, and announces that before it checks once more.
 */
static uint32_t shadow_tail(struct nvme_soft_queue *q)
{
	uint32_t tail;

	if (q->asleep && *q->sq_doorbell == NOT_RUNG)
		return q->sq_head;
	q->wake_count += q->asleep;
	q->asleep = false;
	tail = *q->sq_shadow;
	if (tail != q->sq_head)
		return tail;
	*q->sq_doorbell = NOT_RUNG;
	*q->sq_event = tail;
	dma_mb(); /* B4: where we sleep, before the last check */
	tail = *q->sq_shadow;
	q->asleep = tail == q->sq_head;
	return tail;
}

bool nvme__soft_can_fetch(struct nvme_soft_queue *q)
{
	uint32_t sq_tail = q->sq_shadow ? shadow_tail(q) : mmio_read32(q->sq_doorbell);
	uint32_t cq_head = q->cq_shadow ? *q->cq_shadow : mmio_read32(q->cq_doorbell);
	uint32_t waiting;

	if (sq_tail == q->sq_head || q->halted)
		return false;
	if (unlikely(sq_tail >= q->sq_size || cq_head >= q->cq_size)) {
		q->halted = true; /* (2) */
		return false;
	}
	waiting = q->cq_tail >= cq_head ? q->cq_tail - cq_head : q->cq_tail + q->cq_size - cq_head;
	return waiting + q->owed_count < q->cq_size - 1; /* (1) */
}

/* The next command; the caller asked nvme__soft_can_fetch(). */
const struct nvme_sqe *nvme__soft_fetch(struct nvme_soft_queue *q)
{
	const struct nvme_sqe *sqe = &q->sq[q->sq_head];

	ASSERT(q->owed_count < q->cq_size - 1); /* (1) */
	q->sq_head = q->sq_head + 1 == q->sq_size ? 0 : q->sq_head + 1;
	q->owed_count++;
	return sqe;
}

void nvme__soft_post(struct nvme_soft_queue *q, uint16_t cid, uint32_t status, uint32_t result)
{
	struct nvme_cqe *cqe = &q->cq[q->cq_tail];

	ASSERT(q->owed_count > 0); /* (1) */
	q->owed_count--;
	cqe->result = le32_of(result);
	cqe->sq_head = le16_of((uint16_t)q->sq_head);
	cqe->sq_id = le16_of(q->qid);
	cqe->cid = le16_of(cid);
	dma_wmb(); /* B5 */
	cqe->status = le16_of((uint16_t)(status << 1 | q->phase));
	if (++q->cq_tail == q->cq_size) {
		q->cq_tail = 0;
		q->phase ^= 1;
	}
}
