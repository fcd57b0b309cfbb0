/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * PRPs to segments of this process's memory, as a controller reads them (base 4.1.1), and SGLs
 * of one data block (base 4.1.2).
 *
 *   prp1 -> [..xxxx]            may begin inside a page
 *   prp2 -> [xxxx]              the second of two pages
 *        -> list: [e][e]...[e]  else; it may begin inside its page; when it reaches the
 *           page's end with more to come, its last entry leads to the next list
 *
 * Pages that follow each other in IOVAs are gathered into a run, and a run is translated
 * once.  An address that is not mapped is a data transfer error, and is counted.
 */
#include "nvme/soft/nvme_soft.h"

struct run {
	struct nvme_dma *dma;
	struct nvme_soft_cmd *cmd;
	uint32_t seg_max;
	uint64_t iova;
	uint64_t size_bytes; /* 0: none */
};

/* Translate the run into segments; a window's end ends a segment. */
static uint32_t close_run(struct run *run)
{
	struct nvme_soft_cmd *cmd = run->cmd;

	while (run->size_bytes > 0) {
		uint64_t here = run->size_bytes;
		void *addr = nvme__dma_at(run->dma, run->iova, &here);

		if (unlikely(!addr || cmd->seg_count == run->seg_max)) {
			nvme__dma_fault(run->dma);
			return NVME_SC_DATA_TRANSFER;
		}
		cmd->window = (uint32_t)(run->iova >> NVME_WINDOW_SHIFT);
		cmd->seg[cmd->seg_count++] = (struct iovec){ addr, here };
		run->iova += here;
		run->size_bytes -= here;
	}
	return NVME_SC_SUCCESS;
}

static uint32_t add(struct run *run, uint64_t iova, uint64_t size_bytes)
{
	uint32_t status;

	if (run->size_bytes > 0 && run->iova + run->size_bytes == iova) {
		run->size_bytes += size_bytes;
		return NVME_SC_SUCCESS;
	}
	status = close_run(run);
	run->iova = iova;
	run->size_bytes = size_bytes;
	return status;
}

/* The list at `iova` and those that it leads to; left_bytes > 0 lie there. */
static uint32_t add_list(struct run *run, uint64_t iova, uint64_t left_bytes)
{
	const le64 *list = NULL;
	uint64_t entries = 0, next = 0;
	uint32_t status;

	while (left_bytes > 0) {
		uint64_t entry, size_bytes = min_u64(left_bytes, NVME_PAGE_SIZE);

		if (next == entries) {
			/* Each chained list but the last carries 511 pages: this ends. */
			uint64_t room = NVME_PAGE_SIZE - iova % NVME_PAGE_SIZE, want = room;

			if (iova % 8 != 0)
				return NVME_SC_PRP_OFFSET;
			list = nvme__dma_at(run->dma, iova, &room);
			if (!list || room != want) {
				nvme__dma_fault(run->dma);
				return NVME_SC_DATA_TRANSFER;
			}
			entries = room / sizeof(*list);
			next = 0;
		}
		entry = le64_get(list[next++]);
		if (next == entries && left_bytes > NVME_PAGE_SIZE) {
			if (entry % NVME_PAGE_SIZE != 0)
				return NVME_SC_PRP_OFFSET; /* a chained list begins its page */
			iova = entry;
			continue;
		}
		if (entry % NVME_PAGE_SIZE != 0)
			return NVME_SC_PRP_OFFSET;
		status = add(run, entry, size_bytes);
		if (status)
			return status;
		left_bytes -= size_bytes;
	}
	return close_run(run);
}

uint32_t nvme__soft_prp(struct nvme_dma *dma, uint64_t prp1, uint64_t prp2,
			struct nvme_soft_cmd *cmd, uint32_t seg_max)
{
	struct run run = { .dma = dma, .cmd = cmd, .seg_max = seg_max };
	uint64_t first = min_u64(cmd->size_bytes, NVME_PAGE_SIZE - prp1 % NVME_PAGE_SIZE);
	uint64_t left = cmd->size_bytes - first;

	cmd->seg_count = 0;
	if (prp1 % 4 != 0)
		return NVME_SC_PRP_OFFSET;
	run.iova = prp1;
	run.size_bytes = first;
	if (left == 0)
		return close_run(&run);
	if (left > NVME_PAGE_SIZE)
		return add_list(&run, prp2, left);
	if (prp2 % NVME_PAGE_SIZE != 0)
		return NVME_SC_PRP_OFFSET;
	return add(&run, prp2, left) ? NVME_SC_DATA_TRANSFER : close_run(&run);
}

uint32_t nvme__soft_sgl(struct nvme_dma *dma, uint64_t low, uint64_t high,
			struct nvme_soft_cmd *cmd, uint32_t seg_max)
{
	struct run run = { .dma = dma, .cmd = cmd, .seg_max = seg_max };
	uint64_t length_bytes = high & UINT32_MAX, reserved = high >> 32 & 0xffffff;

	cmd->seg_count = 0;
	if (high >> 56 != 0) /* a data block, at an address */
		return NVME_SC_SGL_TYPE;
	if (reserved != 0)
		return NVME_SC_INVALID_FIELD;
	if (length_bytes != cmd->size_bytes)
		return NVME_SC_SGL_LENGTH;
	run.iova = low;
	run.size_bytes = length_bytes;
	return close_run(&run);
}
