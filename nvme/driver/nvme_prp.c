/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Physical region pages: the addresses of a transfer's bytes, page by page (base 4.1.1).
 *
 *   1 page      prp1 -> page
 *   2 pages     prp1 -> page    prp2 -> page
 *   n pages     prp1 -> page    prp2 -> list: [page] [page] ... n - 1 entries
 *
 *   prp1 may point inside its page, at a multiple of 4; all others point to the start of a page
 *
 * Our buffers are contiguous in IOVAs, and a list never crosses a page (nvme_qpair.c arranges
 * that): no chains are needed.
 */
#include "nvme/nvme_internal.h"

struct nvme_prp_pair nvme__prp_fill_pages(uint64_t iova, uint32_t pages, le64 *list,
					  uint64_t list_iova)
{
	uint64_t next = align_down(iova, NVME_PAGE_SIZE) + NVME_PAGE_SIZE;

	ASSERT(pages > 1);
	ASSERT(iova % 4 == 0);
	if (pages == 2)
		return (struct nvme_prp_pair){ iova, next };

	/* The list is in one page. */
	ASSERT(list_iova / NVME_PAGE_SIZE ==
	       (list_iova + 8 * nvme__prp_list_len(pages) - 1) / NVME_PAGE_SIZE);
	for (uint32_t i = 0; i < nvme__prp_list_len(pages); i++)
		list[i] = le64_of(next + (uint64_t)i * NVME_PAGE_SIZE);
	return (struct nvme_prp_pair){ iova, list_iova };
}
