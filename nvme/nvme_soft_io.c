/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * I/O queues of the soft controller.
 *
 *   fetch --> check --> translate --> back end: run() --> post
 *              +-- wrong: post its status at once
 *
 * Invariants, true between any two calls:
 *
 *  (1) A command is on cmd_free, or with the back end; those there are owed_count many.
 *  (2) A command's memory is touched from its run() to its completion, and not after.
 */
#include "nvme/nvme_soft.h"

#include <errno.h>
#include <stdlib.h>

/* A transfer of whole pages that begins inside a page touches one more. */
static uint32_t segs_of(const struct nvme_soft_back *back)
{
	return (1u << back->traits.mdts) + 2;
}

static uint32_t decode_transfer(struct nvme_soft_queue *q, const struct nvme_sqe *sqe,
				struct nvme_soft_cmd *cmd)
{
	const struct nvme_soft_traits *traits = &q->back->traits;
	uint64_t lba = (uint64_t)le32_get(sqe->cdw11) << 32 | le32_get(sqe->cdw10);
	uint64_t nlbas = (le32_get(sqe->cdw12) & 0xffff) + 1ull;
	uint64_t lbas_total = traits->nblocks << (NVME_BLOCK_SHIFT - traits->lba_shift);

	if (nlbas << traits->lba_shift > NVME_PAGE_SIZE << traits->mdts)
		return NVME_SC_INVALID_FIELD;
	if (lba >= lbas_total || nlbas > lbas_total - lba)
		return NVME_SC_LBA_RANGE;
	cmd->fua = le32_get(sqe->cdw12) & NVME_FUA;
	cmd->offset_bytes = lba << traits->lba_shift;
	cmd->size_bytes = (uint32_t)(nlbas << traits->lba_shift);
	return nvme__soft_prp(q->soft->dma, le64_get(sqe->prp1), le64_get(sqe->prp2), cmd,
			      segs_of(q->back));
}

static uint32_t decode(struct nvme_soft_queue *q, const struct nvme_sqe *sqe,
		       struct nvme_soft_cmd *cmd)
{
	uint32_t nsid = le32_get(sqe->nsid);

	cmd->opcode = sqe->opcode;
	cmd->cid = le16_get(sqe->cid);
	cmd->scratch = 0;
	if (sqe->flags & (NVME_SQE_PSDT | NVME_SQE_FUSE))
		return NVME_SC_INVALID_FIELD;
	switch (cmd->opcode) {
	case NVME_CMD_FLUSH:
		if (nsid != 1 && nsid != UINT32_MAX)
			return NVME_SC_INVALID_NAMESPACE;
		cmd->seg_count = 0;
		cmd->size_bytes = 0;
		cmd->offset_bytes = 0;
		cmd->fua = false;
		return NVME_SC_SUCCESS;
	case NVME_CMD_READ:
	case NVME_CMD_WRITE:
		if (nsid != 1)
			return NVME_SC_INVALID_NAMESPACE;
		return decode_transfer(q, sqe, cmd);
	default:
		return NVME_SC_INVALID_OPCODE;
	}
}

/* Fetch at most a batch into cmd[]; those that are wrong are posted. */
static uint32_t fetch_batch(struct nvme_soft_queue *q, struct nvme_soft_cmd **batch)
{
	uint32_t count = 0, bytes = 0;

	for (uint32_t i = 0; i < NVME_SOFT_BATCH && bytes < q->back->batch_bytes; i++) {
		struct nvme_soft_cmd *cmd;
		uint32_t status;

		if (!nvme__soft_can_fetch(q) || q->cmd_free_count == 0)
			break;
		cmd = q->cmd_free[q->cmd_free_count - 1];
		status = decode(q, nvme__soft_fetch(q), cmd);
		if (unlikely(status)) {
			nvme__soft_post(q, cmd->cid, status, 0);
			continue;
		}
		q->cmd_free_count--;
		batch[count++] = cmd;
		bytes += cmd->size_bytes;
	}
	return count;
}

void nvme__soft_io_service(struct nvme_soft_queue *q)
{
	struct nvme_soft_cmd *batch[NVME_SOFT_BATCH], *done[2 * NVME_SOFT_BATCH];
	uint32_t count = fetch_batch(q, batch);

	if (count == 0 && q->owed_count == 0)
		return;
	count = q->back->run(q->back_queue, batch, count, done, ARRAY_LEN(done));
	ASSERT(count <= ARRAY_LEN(done));
	for (uint32_t i = 0; i < count; i++) {
		nvme__soft_post(q, done[i]->cid, done[i]->status, 0);
		ASSERT(q->cmd_free_count < q->sq_size); /* (1) */
		q->cmd_free[q->cmd_free_count++] = done[i];
	}
	ASSERT(q->owed_count == q->sq_size - q->cmd_free_count); /* (1) */
}

static void free_queue(struct nvme_soft_queue *q)
{
	free(q->segs);
	free(q->cmd_free);
	free(q->cmd);
	free(q);
}

int nvme__soft_io_create(struct nvme_soft *soft, uint32_t qid, struct nvme_sqe *sq,
			 uint32_t sq_size, struct nvme_cqe *cq, uint32_t cq_size)
{
	struct nvme_soft_queue *q = calloc(1, sizeof(*q));
	uint32_t segs = segs_of(soft->back);
	int err = -ENOMEM;

	if (!q)
		return -ENOMEM;
	q->cmd = calloc(sq_size, sizeof(*q->cmd));
	q->cmd_free = calloc(sq_size, sizeof(*q->cmd_free));
	q->segs = calloc((size_t)sq_size * segs, sizeof(*q->segs));
	if (!q->cmd || !q->cmd_free || !q->segs)
		goto free_q;
	for (uint32_t i = 0; i < sq_size; i++) {
		q->cmd[i].seg = q->segs + (size_t)i * segs;
		q->cmd_free[i] = &q->cmd[i];
	}
	q->cmd_free_count = sq_size;
	q->sq = sq;
	q->cq = cq;
	q->sq_size = sq_size;
	q->cq_size = cq_size;
	q->soft = soft;
	q->back = soft->back;
	nvme__soft_queue_rings(soft, q, qid);
	err = q->back->queue_create(q->back, sq_size, soft->dma, &q->back_queue);
	if (err)
		goto free_q;
	soft->queue[qid] = q;
	return 0;

free_q:
	free_queue(q);
	return err;
}

void nvme__soft_io_destroy(struct nvme_soft_queue *q)
{
	q->back->queue_destroy(q->back_queue); /* (2): waits */
	free_queue(q);
}
