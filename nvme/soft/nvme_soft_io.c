/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * I/O queues of the soft controller.
 *
 *   fetch --> check --> translate --> back end: run() --> post
 *              +-- wrong: post its status at once
 *
 * Invariants, true between any two calls:
 *
 *  (1) A command is on cmd_free, or with the back end; owed_count counts the latter.
 *  (2) A command's memory is touched from its run() to its completion, and not after
 *      [torture_nvme_dma].
 */
#include "nvme/soft/nvme_soft.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ZEROES_BYTES (64u << 10) /* of memory that is always zero */

/* A transfer of whole pages that begins inside a page touches one more. */
static uint32_t segs_of(const struct nvme_soft_back *back)
{
	return (1u << back->traits.mdts) + 2;
}

uint32_t nvme__soft_zero_max_bytes(const struct nvme_soft_back *back)
{
	return ZEROES_BYTES << back->traits.mdts; /* a power of two that segs_of() are enough for */
}

/* LBAs of a namespace: are they there, and where do they lie? */
static inline uint32_t check_range(const struct nvme_soft_ns *ns, uint64_t lba, uint64_t lba_count)
{
	return lba >= ns->size_lbas || lba_count > ns->size_lbas - lba ? NVME_SC_LBA_RANGE : 0;
}

static inline uint32_t decode_lbas(const struct nvme_soft_ns *ns, const struct nvme_sqe *sqe,
				   struct nvme_soft_cmd *cmd)
{
	uint64_t lba = (uint64_t)le32_get(sqe->cdw11) << 32 | le32_get(sqe->cdw10);
	uint64_t lba_count = (le32_get(sqe->cdw12) & 0xffff) + 1ull;

	cmd->fua = le32_get(sqe->cdw12) & NVME_FUA;
	cmd->offset_bytes = (ns->first_block << NVME_BLOCK_SHIFT) + (lba << ns->lba_shift);
	cmd->size_bytes = (uint32_t)(lba_count << ns->lba_shift);
	return check_range(ns, lba, lba_count);
}

static uint32_t decode_transfer(struct nvme_soft_queue *q, const struct nvme_soft_ns *ns,
				const struct nvme_sqe *sqe, struct nvme_soft_cmd *cmd)
{
	uint64_t data[] = { le64_get(sqe->prp1), le64_get(sqe->prp2) };
	uint32_t status = decode_lbas(ns, sqe, cmd);

	if (cmd->size_bytes > NVME_PAGE_SIZE << q->back->traits.mdts)
		return NVME_SC_INVALID_FIELD;
	if (status)
		return status;
	if (unlikely(sqe->flags & NVME_SQE_PSDT))
		return nvme__soft_sgl(q->soft->dma, data[0], data[1], cmd, segs_of(q->back));
	return nvme__soft_prp(q->soft->dma, data[0], data[1], cmd, segs_of(q->back));
}

/* For the back end this is a write from memory of zeroes; window 0 is never mapped. */
static uint32_t decode_zeroes(struct nvme_soft_queue *q, const struct nvme_soft_ns *ns,
			      const struct nvme_sqe *sqe, struct nvme_soft_cmd *cmd)
{
	static _Alignas(NVME_PAGE_SIZE) char zeroes[ZEROES_BYTES];
	uint32_t status, left;

	if (q->back->traits.no_zeroes)
		return NVME_SC_INVALID_OPCODE;
	status = decode_lbas(ns, sqe, cmd);
	left = cmd->size_bytes;
	if (status)
		return status;
	if (left > nvme__soft_zero_max_bytes(q->back))
		return NVME_SC_INVALID_FIELD;
	cmd->opcode = NVME_CMD_WRITE;
	cmd->window = 0;
	cmd->seg_count = 0;
	while (left > 0) {
		uint32_t here = min_u32(left, ZEROES_BYTES);

		cmd->seg[cmd->seg_count++] = (struct iovec){ zeroes, here };
		left -= here;
	}
	return NVME_SC_SUCCESS;
}

static uint32_t check_ranges(struct nvme_soft_queue *q, const struct nvme_soft_ns *ns,
			     const struct nvme_range *range, uint32_t count)
{
	uint32_t most = q->back->traits.range_lbas_max;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t lba_count = le32_get(range[i].lba_count);

		if (most && lba_count > most)
			return NVME_SC_INVALID_FIELD;
		if (check_range(ns, le64_get(range[i].lba), lba_count))
			return NVME_SC_LBA_RANGE;
		q->freed_lbas += lba_count;
	}
	return NVME_SOFT_DONE;
}

/* For the back end: one range, that was found good. */
static uint32_t give_range(const struct nvme_soft_ns *ns, const struct nvme_range *range,
			   struct nvme_soft_cmd *cmd)
{
	cmd->offset_bytes =
		(ns->first_block << NVME_BLOCK_SHIFT) + (le64_get(range->lba) << ns->lba_shift);
	cmd->freed_bytes = (uint64_t)le32_get(range->lba_count) << ns->lba_shift;
	cmd->seg_count = 0;
	cmd->size_bytes = 0;
	cmd->fua = false;
	return cmd->freed_bytes ? NVME_SC_SUCCESS : NVME_SOFT_DONE;
}

/* Deallocated ranges: checked; the content stays, or the back end gives it up. */
static uint32_t decode_dataset(struct nvme_soft_queue *q, const struct nvme_soft_ns *ns,
			       const struct nvme_sqe *sqe, struct nvme_soft_cmd *cmd)
{
	struct nvme_range range[256];
	uint32_t count = (le32_get(sqe->cdw10) & 0xff) + 1, status;
	char *to = (char *)range;

	if (!q->back->traits.deallocate && !q->back->traits.frees)
		return NVME_SC_INVALID_OPCODE;
	cmd->size_bytes = count * (uint32_t)sizeof(range[0]);
	status = nvme__soft_prp(q->soft->dma, le64_get(sqe->prp1), le64_get(sqe->prp2), cmd,
				segs_of(q->back));
	if (status)
		return status;
	for (uint32_t i = 0; i < cmd->seg_count; i++) {
		memcpy(to, cmd->seg[i].iov_base, cmd->seg[i].iov_len);
		to += cmd->seg[i].iov_len;
	}
	if (!(le32_get(sqe->cdw11) & NVME_DATASET_FREE))
		return NVME_SOFT_DONE; /* hints of use */
	if (q->back->traits.frees && count > 1)
		return NVME_SC_INVALID_FIELD; /* as Identify said */
	status = check_ranges(q, ns, range, count);
	return status == NVME_SOFT_DONE && q->back->traits.frees ? give_range(ns, range, cmd)
								 : status;
}

static uint32_t decode_flush(struct nvme_soft_cmd *cmd)
{
	cmd->seg_count = 0;
	cmd->size_bytes = 0;
	cmd->offset_bytes = 0;
	cmd->fua = false;
	return NVME_SC_SUCCESS;
}

/* 0: for the back end; NVME_SOFT_DONE; or a status that refuses it. */
static uint32_t decode(struct nvme_soft_queue *q, const struct nvme_sqe *sqe,
		       struct nvme_soft_cmd *cmd)
{
	uint32_t nsid = le32_get(sqe->nsid), psdt = sqe->flags & NVME_SQE_PSDT;
	const struct nvme_soft_ns *ns = nvme__soft_ns(q->soft, nsid);

	cmd->opcode = sqe->opcode;
	cmd->cid = le16_get(sqe->cid);
	cmd->scratch = 0;
	if (sqe->flags & NVME_SQE_FUSE)
		return NVME_SC_INVALID_FIELD;
	if (psdt && (psdt != NVME_SQE_SGL || !q->back->traits.sgl))
		return NVME_SC_INVALID_FIELD;
	if (!ns && !(nsid == NVME_NSID_ALL && cmd->opcode == NVME_CMD_FLUSH))
		return NVME_SC_INVALID_NAMESPACE;
	switch (cmd->opcode) {
	case NVME_CMD_FLUSH:
		return decode_flush(cmd);
	case NVME_CMD_READ:
	case NVME_CMD_WRITE:
		return decode_transfer(q, ns, sqe, cmd);
	case NVME_CMD_WRITE_ZEROES:
		return decode_zeroes(q, ns, sqe, cmd);
	case NVME_CMD_DATASET:
		return decode_dataset(q, ns, sqe, cmd);
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
			nvme__soft_post(q, cmd->cid, status & NVME_STATUS_MASK, 0);
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
	ASSERT(!q->in_service); /* nvme_soft.c (2) */
	q->in_service = true;
	count = q->back->run(q->back_queue, batch, count, done, ARRAY_LEN(done));
	ASSERT(count <= ARRAY_LEN(done));
	for (uint32_t i = 0; i < count; i++) {
		nvme__soft_post(q, done[i]->cid, done[i]->status, 0);
		ASSERT(q->cmd_free_count < q->sq_size); /* (1) */
		q->cmd_free[q->cmd_free_count++] = done[i];
	}
	q->in_service = false;
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
	ASSERT(!q->in_service);                /* nvme_soft.c (2) */
	q->back->queue_destroy(q->back_queue); /* (2): waits */
	free_queue(q);
}
