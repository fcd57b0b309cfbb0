/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Physical region pages: where a transfer's bytes lie, page by page (base 4.1.1).
 *
 *   1 page      prp1 -> page
 *   2 pages     prp1 -> page    prp2 -> page
 *   n pages     prp1 -> page    prp2 -> list: [page] [page] ... n - 1 entries
 *
 * Our buffers are contiguous in IOVAs and page-aligned, and a list never crosses a page
 * (nvme_qpair.c lays them out so): no chains are needed.
 */
#include "nvme/nvme_internal.h"

struct nvme_prp_pair nvme__prp_fill(uint64_t iova, uint32_t nblocks, le64 *list, uint64_t list_iova)
{
	ASSERT(nblocks > 0);
	ASSERT(iova % NVME_PAGE_SIZE == 0);
	if (nblocks == 1)
		return (struct nvme_prp_pair){ iova, 0 };
	if (nblocks == 2)
		return (struct nvme_prp_pair){ iova, iova + NVME_PAGE_SIZE };

	/* The list lies in one page. */
	ASSERT(list_iova / NVME_PAGE_SIZE ==
	       (list_iova + 8 * nvme__prp_list_len(nblocks) - 1) / NVME_PAGE_SIZE);
	for (uint32_t i = 1; i < nblocks; i++)
		list[i - 1] = le64_of(iova + (uint64_t)i * NVME_PAGE_SIZE);
	return (struct nvme_prp_pair){ iova, list_iova };
}
