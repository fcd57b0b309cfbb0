/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * For tests: overwrites a read's buffer before the drive is asked.
 *
 * A reused buffer holds the bytes of its last read, often the very block that is read now.  A
 * controller that reports success and has written nothing would go unnoticed.  (QEMU's does so when
 * its DMA faults; so does a buffer that two reads share, or one whose mapping was replaced.)
 *
 *   buffer   | the right bytes, of the last read |  --read, nothing moved-->  the right bytes
 *   buffer   | poison                            |  --read, nothing moved-->  a wrong checksum
 */
#include "nvme/nvme_internal.h"

#include <stdlib.h>
#include <string.h>

enum { POISON = 0xdb }; /* of no meaning in any format */

bool nvme_poisons_reads(void)
{
	const char *value = getenv("WEKA_POISON_READS");

	return value && *value && strcmp(value, "0") != 0;
}

void nvme__poison(struct nvme_dma *dma, uint64_t iova, uint64_t size_bytes)
{
	uint64_t here_bytes;
	void *at;

	for (; size_bytes > 0; iova += here_bytes, size_bytes -= here_bytes) {
		here_bytes = size_bytes;
		at = nvme__dma_at(dma, iova, &here_bytes);
		if (!at) /* not mapped: the drive finds the same, and reports it */
			return;
		memset(at, POISON, here_bytes);
	}
}
