/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * For tests: what lies in a read's buffer is overwritten before the drive is asked.
 *
 * A buffer that is used again holds what was read into it last, often the very block that is read
 * now.  A controller that says "done" and has written nothing (QEMU's does when its DMA faults; so
 * does a buffer that two reads share, or one whose mapping is another's by then) would go unseen:
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
		if (!at) /* of nobody's memory: the drive meets the same, and says so */
			return;
		memset(at, POISON, here_bytes);
	}
}
