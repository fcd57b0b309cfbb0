/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * From a drive's name to a drive, and from a drive to its queue pairs.
 *
 * A queue pair's memory, one mapping:
 *
 *   | submission queue | completion queue | PRP lists, one a command id |
 *     each part on a page of its own; a list's size is a power of two, so none crosses a page
 *
 * Its life: memory, then the queues at the controller; back in the reverse order, and when the
 * controller does not give a queue back its memory stays mapped for good.
 */
#include "nvme/nvme_internal.h"
#include "nvme/nvme_soft.h"
#include "nvme/nvme_vfio.h"
#include "nvme/nvme_vfu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int make_back(struct nvme_soft_back **back, const struct nvme_name *parsed, const char *name,
		     const struct nvme_options *options, char *err_text, size_t err_text_size)
{
	switch (parsed->kind) {
	case NVME_NAME_MEM:
		return nvme__soft_mem_create(back, parsed, name, err_text, err_text_size);
	case NVME_NAME_FILE:
		return nvme__soft_file_create(back, parsed, name, options && options->create,
					      err_text, err_text_size);
	case NVME_NAME_PCI:
	case NVME_NAME_VFIO_USER:
		break;
	}
	UNREACHABLE();
}

int nvme__open_soft(struct nvme_drive **out, struct nvme_soft_back *back, const char *name,
		    struct nvme_dma *dma, const struct nvme_options *options, char *err_text,
		    size_t err_text_size)
{
	struct nvme_soft *soft;
	int err = nvme__soft_create(&soft, dma, back);

	if (err) {
		nvme__err_text(err_text, err_text_size, name, "out of memory");
		return err;
	}
	return nvme__drive_up(out, &nvme__soft_ops, soft, name, dma, options, err_text,
			      err_text_size);
}

int nvme_open(struct nvme_drive **out, const char *name, struct nvme_dma *dma,
	      const struct nvme_options *options, char *err_text, size_t err_text_size)
{
	struct nvme_name parsed;
	struct nvme_soft_back *back;
	int err;

	err = nvme__name_parse(&parsed, name, err_text, err_text_size);
	if (err)
		return err;
	nvme__err_text(err_text, err_text_size, name, "out of memory"); /* unless it is replaced */
	if (parsed.kind == NVME_NAME_PCI)
		return nvme__vfio_open(out, &parsed, name, dma, options, err_text, err_text_size);
	if (parsed.kind == NVME_NAME_VFIO_USER)
		return nvme__vfu_open(out, &parsed, name, dma, options, err_text, err_text_size);
	err = make_back(&back, &parsed, name, options, err_text, err_text_size);
	if (err)
		return err;
	return nvme__open_soft(out, back, name, dma, options, err_text, err_text_size);
}

/* ---- queue pairs ---------------------------------------------------------------- */

static uint32_t list_entries(const struct nvme_drive *drive)
{
	uint32_t most = nvme__prp_list_len(drive->info.transfer_max_bytes / NVME_PAGE_SIZE);
	uint32_t entries = 8; /* a cache line */

	while (!drive->sgl && entries < most)
		entries *= 2;
	ASSERT(entries <= NVME_PAGE_SIZE / sizeof(le64));
	return entries;
}

static void set_limits(struct nvme_qpair *qp, const struct nvme_drive *drive, uint32_t depth)
{
	uint64_t fits;

	qp->transfer_max_blocks = drive->info.transfer_max_bytes / NVME_BLOCK_SIZE;
	ASSERT(qp->transfer_max_blocks > 0);
	fits = (uint64_t)(depth - 1) * qp->transfer_max_blocks;
	qp->io_blocks_max = (uint32_t)min_u64(NVME_IO_BLOCKS_MAX, fits);
	qp->lba_per_block_shift = NVME_BLOCK_SHIFT - drive->lba_shift;
	qp->nsid = drive->nsid;
	qp->sgl = drive->sgl;
	qp->fua_bit = drive->info.volatile_cache ? NVME_FUA : 0;
	qp->zero_max_blocks = drive->info.zero_max_blocks;
	qp->deallocate_max_blocks = drive->info.deallocate_max_blocks;
	qp->cid_free_count = depth - 1;
	for (uint32_t cid = 0; cid < depth - 1; cid++)
		qp->cid_free[cid] = depth - 2 - cid;
}

static void free_qpair(struct nvme_qpair *qp)
{
	if (qp->drive->failed)
		qp->mem.size_bytes = 0; /* the controller may still write there: quarantined */
	nvme__mem_free(&qp->mem, qp->drive->dma);
	free(qp->cid_free);
	free(qp->io_by_cid);
	free(qp);
}

/* All of it but the controller's part. */
static struct nvme_qpair *make_qpair(struct nvme_drive *drive, uint32_t qid, uint32_t depth)
{
	struct nvme_qpair *qp = calloc(1, sizeof(*qp));
	uint64_t rings_bytes = nvme__rings_bytes(depth);

	if (!qp)
		return NULL;
	qp->drive = drive;
	qp->ops = drive->ops;
	qp->ctrl = drive->ctrl;
	qp->qid = qid;
	qp->prp_list_entries = list_entries(drive);
	qp->io_by_cid = calloc(depth, sizeof(*qp->io_by_cid));
	qp->cid_free = calloc(depth, sizeof(*qp->cid_free));
	if (!qp->io_by_cid || !qp->cid_free)
		goto free_qp;
	if (nvme__mem_alloc(&qp->mem, drive->dma,
			    rings_bytes + (uint64_t)depth * qp->prp_list_entries * sizeof(le64)))
		goto free_qp;
	nvme__rings_init(&qp->rings, qp->mem.addr, depth);
	nvme__rings_attach(&qp->rings, drive, qid);
	qp->prp_lists = (void *)((char *)qp->mem.addr + rings_bytes);
	qp->prp_lists_iova = qp->mem.iova + rings_bytes;
	set_limits(qp, drive, depth);
	return qp;

free_qp:
	free_qpair(qp);
	return NULL;
}

int nvme_qpair_create(struct nvme_drive *drive, uint32_t depth, struct nvme_qpair **out)
{
	struct nvme_qpair *qp;
	uint32_t qid = 1;
	int err;

	if (depth < NVME_DEPTH_MIN || depth > drive->info.depth_max)
		return -EINVAL;
	while (qid <= drive->info.qpair_count_max && drive->qpair[qid])
		qid++;
	if (qid > drive->info.qpair_count_max)
		return -ENOSPC;
	qp = make_qpair(drive, qid, depth);
	if (!qp)
		return -ENOMEM;
	err = nvme__admin_create_queues(drive, qid, &qp->mem, depth);
	if (err) {
		free_qpair(qp);
		return err;
	}
	drive->qpair[qid] = qp;
	*out = qp;
	return 0;
}

void nvme_qpair_stop(struct nvme_qpair *qp)
{
	if (qp->state == NVME_QP_STOPPED)
		return;
	nvme_qpair_disarm(qp);
	qp->state = NVME_QP_FAILED;
	if (nvme__admin_delete_queues(qp->drive, qp->qid) == 0)
		qp->state = NVME_QP_STOPPED;
}

void nvme_qpair_destroy(struct nvme_qpair *qp)
{
	if (!qp)
		return;
	nvme_qpair_stop(qp);
	ASSERT(qp->io_count == 0);
	ASSERT(qp->drive->qpair[qp->qid] == qp);
	qp->drive->qpair[qp->qid] = NULL;
	free_qpair(qp);
}
