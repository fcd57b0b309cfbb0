/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/lib/raw_mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int read_mem(void *arg, uint32_t drive, uint64_t block, uint32_t nblocks, void *buf)
{
	struct raw_mem *mem = arg;

	ASSERT(drive < mem->from.count);
	ASSERT(block + nblocks <= mem->from.nblocks[drive]);
	mem->reads++;
	if (drive == mem->lost_drive && block < mem->lost_to && block + nblocks > mem->lost_from)
		return -EIO;
	memcpy(buf, mem->drive[drive] + block * 4096, (size_t)nblocks * 4096);
	return 0;
}

void raw_mem_init(struct raw_mem *mem, uint8_t *const *drive, uint32_t ndrives,
		  uint64_t drive_bytes)
{
	*mem = (struct raw_mem){
		.drive = drive,
		.from = { .count = ndrives, .read = read_mem, .arg = mem },
	};
	for (uint32_t d = 0; d < ndrives; d++)
		mem->from.nblocks[d] = drive_bytes / 4096;
}

char *raw_mem_dump(struct raw_mem *mem, const char *what, const char *arg, bool json, int *err)
{
	struct meta_raw *r;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	ASSERT(out);
	ASSERT(meta_raw_open(&r, &mem->from) == 0);
	*err = meta_dump(r, what, arg, out, json);
	meta_raw_close(r);
	ASSERT(fclose(out) == 0);
	return text;
}
