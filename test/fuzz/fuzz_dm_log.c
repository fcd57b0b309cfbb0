/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Logs of QEMU's blklogwrites: every entry lies in the log, and each step goes on. */
#include "test/lib/dm_log.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	uint8_t *copy = malloc(size + 1); /* its own, so that a byte too far is seen */
	struct dm_log_entry entry;
	struct dm_log log;
	uint64_t before;

	ASSERT(copy);
	memcpy(copy, bytes, size);
	if (dm_log_open(&log, copy, size) == 0) {
		for (before = log.at; dm_log_next(&log, &entry) == 1; before = log.at) {
			ASSERT(log.at > before && log.at <= size);
			if (entry.data)
				ASSERT(entry.data + entry.sectors * DM_LOG_SECTOR == copy + log.at);
		}
	}
	if (dm_log_entry(&entry, copy, size) == 0 && entry.data)
		ASSERT(entry.sectors * DM_LOG_SECTOR == size - DM_LOG_SECTOR);
	free(copy);
	return 0;
}
