/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Admin commands of the soft controller: features, making and deleting queues.
 *
 * A submission queue uses the completion queue with its own id and no other: each core has its own
 * pair.  A completion queue waits in unpaired_cq_* for its submission queue.
 */
#include "nvme/soft/nvme_soft.h"

#include <errno.h>
#include <string.h>

uint32_t nvme__soft_give(struct nvme_soft *soft, const struct nvme_sqe *sqe, const void *data,
			 uint32_t size_bytes)
{
	struct iovec seg[4];
	struct nvme_soft_cmd cmd = { .seg = seg, .size_bytes = size_bytes };
	const char *from = data;
	uint32_t status;

	ASSERT(size_bytes > 0 && size_bytes <= NVME_PAGE_SIZE);
	status = nvme__soft_prp(soft->dma, le64_get(sqe->prp1), le64_get(sqe->prp2), &cmd,
				ARRAY_LEN(seg));
	for (uint32_t i = 0; !status && i < cmd.seg_count; i++) {
		memcpy(seg[i].iov_base, from, seg[i].iov_len);
		from += seg[i].iov_len;
	}
	return status;
}

static uint32_t features(struct nvme_soft *soft, const struct nvme_sqe *sqe, bool set,
			 uint32_t *result)
{
	uint32_t value = le32_get(sqe->cdw11), count, most;

	switch (le32_get(sqe->cdw10) & 0xff) {
	case NVME_FEAT_QUEUE_COUNT:
		if (set) {
			if ((value & 0xffff) == 0xffff || value >> 16 == 0xffff)
				return NVME_SC_INVALID_FIELD;
			count = min_u32(value & 0xffff, value >> 16) + 1;
			most = soft->back->traits.queue_count_max;
			soft->queue_count = min_u32(count, most ? most : NVME_QPAIRS_MAX);
		}
		*result = (soft->queue_count - 1) << 16 | (soft->queue_count - 1);
		return NVME_SC_SUCCESS;
	case NVME_FEAT_WRITE_CACHE:
		if (set && (value & 1) != soft->back->traits.volatile_cache)
			return NVME_SC_INVALID_FIELD; /* it cannot be changed */
		*result = soft->back->traits.volatile_cache;
		return NVME_SC_SUCCESS;
	case NVME_FEAT_EVENTS:
		if (set)
			soft->event_wanted = value;
		*result = soft->event_wanted;
		return NVME_SC_SUCCESS;
	default:
		return NVME_SC_INVALID_FIELD;
	}
}

/* Doorbells in memory, for the queues there are and those to come. */
static uint32_t doorbell_buffer(struct nvme_soft *soft, const struct nvme_sqe *sqe)
{
	uint64_t room[] = { NVME_PAGE_SIZE, NVME_PAGE_SIZE };
	uint64_t iova[] = { le64_get(sqe->prp1), le64_get(sqe->prp2) };
	char *words, *events;

	if (!soft->back->traits.shadow)
		return NVME_SC_INVALID_OPCODE;
	if (iova[0] % NVME_PAGE_SIZE || iova[1] % NVME_PAGE_SIZE)
		return NVME_SC_PRP_OFFSET;
	words = nvme__dma_at(soft->dma, iova[0], &room[0]);
	events = nvme__dma_at(soft->dma, iova[1], &room[1]);
	if (!words || !events) {
		nvme__dma_fault(soft->dma);
		return NVME_SC_DATA_TRANSFER;
	}
	soft->shadow = words;
	soft->shadow_event = events;
	for (uint32_t qid = 1; qid <= NVME_QPAIRS_MAX; qid++) {
		if (soft->queue[qid])
			nvme__soft_queue_shadow(soft, soft->queue[qid]);
	}
	return NVME_SC_SUCCESS;
}

/* Returns the memory of a queue that a create command names; on failure sets *status. */
static void *queue_memory(struct nvme_soft *soft, uint64_t iova, uint64_t size_bytes,
			  uint32_t *status)
{
	uint64_t here = size_bytes;
	void *addr;

	*status = NVME_SC_PRP_OFFSET;
	if (iova % NVME_PAGE_SIZE != 0)
		return NULL;
	addr = nvme__dma_at(soft->dma, iova, &here);
	if (addr && here == size_bytes) {
		*status = NVME_SC_SUCCESS;
		return addr;
	}
	nvme__dma_fault(soft->dma);
	*status = NVME_SC_DATA_TRANSFER;
	return NULL;
}

static uint32_t check_create(const struct nvme_soft *soft, const struct nvme_sqe *sqe)
{
	uint32_t qid = le32_get(sqe->cdw10) & 0xffff, size = (le32_get(sqe->cdw10) >> 16) + 1;

	if (qid == 0 || qid > soft->queue_count || soft->queue[qid])
		return NVME_SC_QID_INVALID;
	if (size < 2 || size > NVME_SOFT_DEPTH_MAX)
		return NVME_SC_QUEUE_SIZE;
	if (!(le32_get(sqe->cdw11) & NVME_QUEUE_CONTIGUOUS))
		return NVME_SC_INVALID_FIELD;
	return NVME_SC_SUCCESS;
}

static uint32_t create_cq(struct nvme_soft *soft, const struct nvme_sqe *sqe)
{
	uint32_t qid = le32_get(sqe->cdw10) & 0xffff, size = (le32_get(sqe->cdw10) >> 16) + 1;
	uint32_t status = check_create(soft, sqe);

	if (status)
		return status;
	if (soft->unpaired_cq_size[qid])
		return NVME_SC_QID_INVALID;
	if (!queue_memory(soft, le64_get(sqe->prp1), size * sizeof(struct nvme_cqe), &status))
		return status;
	soft->unpaired_cq_size[qid] = size;
	soft->unpaired_cq_iova[qid] = le64_get(sqe->prp1);
	return NVME_SC_SUCCESS;
}

static uint32_t create_sq(struct nvme_soft *soft, const struct nvme_sqe *sqe)
{
	uint32_t qid = le32_get(sqe->cdw10) & 0xffff, size = (le32_get(sqe->cdw10) >> 16) + 1;
	uint32_t status = check_create(soft, sqe), cq_size;
	struct nvme_sqe *sq;
	struct nvme_cqe *cq;

	if (status)
		return status;
	cq_size = soft->unpaired_cq_size[qid];
	if (le32_get(sqe->cdw11) >> 16 != qid || cq_size == 0)
		return NVME_SC_CQ_INVALID;
	sq = queue_memory(soft, le64_get(sqe->prp1), size * sizeof(struct nvme_sqe), &status);
	if (!sq)
		return status;
	cq = queue_memory(soft, soft->unpaired_cq_iova[qid], cq_size * sizeof(struct nvme_cqe),
			  &status);
	if (!cq)
		return status;
	return nvme__soft_io_create(soft, qid, sq, size, cq, cq_size) ? NVME_SC_INTERNAL
								      : NVME_SC_SUCCESS;
}

void nvme__soft_queue_delete(struct nvme_soft *soft, uint32_t qid)
{
	if (!soft->queue[qid])
		return;
	nvme__soft_io_destroy(soft->queue[qid]);
	soft->queue[qid] = NULL;
}

static uint32_t delete_queue(struct nvme_soft *soft, const struct nvme_sqe *sqe)
{
	uint32_t qid = le32_get(sqe->cdw10) & 0xffff;

	if (qid == 0 || qid > NVME_QPAIRS_MAX)
		return NVME_SC_QID_INVALID;
	if (sqe->opcode == NVME_ADMIN_DELETE_SQ) {
		if (!soft->queue[qid])
			return NVME_SC_QID_INVALID;
		nvme__soft_queue_delete(soft, qid);
		return NVME_SC_SUCCESS;
	}
	if (soft->queue[qid])
		return NVME_SC_QUEUE_DELETION; /* the submission queue goes first */
	if (!soft->unpaired_cq_size[qid])
		return NVME_SC_QID_INVALID;
	soft->unpaired_cq_size[qid] = 0;
	return NVME_SC_SUCCESS;
}

/* The back ends of a process run on other threads: they have no abort(), a test's has. */
static bool abort_command(struct nvme_soft *soft, uint32_t dword10)
{
	uint32_t qid = dword10 & 0xffff;
	struct nvme_soft_queue *q = qid <= NVME_QPAIRS_MAX ? soft->queue[qid] : NULL;

	return q && q->back->abort && q->back->abort(q->back_queue, (uint16_t)(dword10 >> 16));
}

static uint32_t run(struct nvme_soft *soft, const struct nvme_sqe *sqe, uint32_t *result)
{
	if (sqe->flags & (NVME_SQE_PSDT | NVME_SQE_FUSE))
		return NVME_SC_INVALID_FIELD;
	switch (sqe->opcode) {
	case NVME_ADMIN_IDENTIFY:
		return nvme__soft_identify(soft, sqe);
	case NVME_ADMIN_GET_LOG:
		return nvme__soft_get_log(soft, sqe);
	case NVME_ADMIN_ASYNC_EVENT:
		return nvme__soft_wait_event(soft, le16_get(sqe->cid));
	case NVME_ADMIN_DOORBELL_BUFFER:
		return doorbell_buffer(soft, sqe);
	case NVME_ADMIN_SET_FEATURES:
		return features(soft, sqe, true, result);
	case NVME_ADMIN_GET_FEATURES:
		return features(soft, sqe, false, result);
	case NVME_ADMIN_CREATE_CQ:
		return create_cq(soft, sqe);
	case NVME_ADMIN_CREATE_SQ:
		return create_sq(soft, sqe);
	case NVME_ADMIN_DELETE_CQ:
	case NVME_ADMIN_DELETE_SQ:
		return delete_queue(soft, sqe);
	case NVME_ADMIN_ABORT:
		*result = !abort_command(soft, le32_get(sqe->cdw10));
		return NVME_SC_SUCCESS;
	default:
		return NVME_SC_INVALID_OPCODE;
	}
}

void nvme__soft_admin_service(struct nvme_soft *soft)
{
	struct nvme_soft_queue *q = &soft->admin;

	if (!(soft->csts & NVME_CSTS_RDY))
		return;
	for (uint32_t i = 0; i < NVME_SOFT_BATCH && nvme__soft_can_fetch(q); i++) {
		struct nvme_sqe sqe = *nvme__soft_fetch(q);
		uint32_t result = 0, status = run(soft, &sqe, &result);

		if (status != NVME_SOFT_HELD)
			nvme__soft_post(q, le16_get(sqe.cid), status, result);
	}
	if (q->halted)
		soft->csts |= NVME_CSTS_CFS;
}
