/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Drives of memory, looked at by nobody's leave (meta_raw.h). */
#ifndef TEST_RAW_MEM_H
#define TEST_RAW_MEM_H

#include "meta/offline/meta_raw.h"

struct raw_mem {
	uint8_t *const *drive;
	struct meta_raw_drives from;
	uint32_t lost_drive;         /* reads of it that meet lost_from .. lost_to fail, */
	uint64_t lost_from, lost_to; /* of none when the two are equal                   */
	uint64_t reads;
};

void raw_mem_init(struct raw_mem *mem, uint8_t *const *drive, uint32_t ndrives,
		  uint64_t drive_bytes);
/* Opens the store for meta_dump() and returns the output, which the caller frees. *err: its
 * result. */
char *raw_mem_dump(struct raw_mem *mem, const char *what, const char *arg, bool json, int *err);

#endif
