/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A table of blocks by address, open addressing, which never forgets.  All that it may have is
 * taken at once; the kernel gives memory to what is written.
 *
 * Invariant: at most half of the slots are taken, so a look ends.
 */
#include "appliance/app_overlay.h"

#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 4096, SLOTS = 1 << 17, BLOCKS_MAX = SLOTS / 2 }; /* 256 MiB */

struct slot {
	uint64_t baddr;
	uint32_t block; /* of bytes[], + 1; 0: it is free */
};

struct app_overlay {
	struct slot slot[SLOTS];
	uint8_t bytes[BLOCKS_MAX][BLOCK];
	uint32_t count;
};

int app_overlay_create(struct app_overlay **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

void app_overlay_destroy(struct app_overlay *o)
{
	free(o);
}

/* Returns the block's slot, or the free one that it would get. */
static uint32_t find(const struct app_overlay *o, uint64_t baddr)
{
	uint32_t at = (uint32_t)(baddr * 0x9e3779b97f4a7c15u >> 47);

	while (o->slot[at].block && o->slot[at].baddr != baddr)
		at = (at + 1) % SLOTS;
	return at;
}

int app_overlay_write(struct app_overlay *o, uint64_t baddr, uint32_t nblocks, const void *bytes)
{
	for (uint32_t i = 0; i < nblocks; i++) {
		struct slot *s = &o->slot[find(o, baddr + i)];

		if (!s->block) {
			if (o->count == BLOCKS_MAX)
				return -ENOSPC;
			*s = (struct slot){ .baddr = baddr + i, .block = ++o->count };
		}
		memcpy(o->bytes[s->block - 1], (const uint8_t *)bytes + (size_t)i * BLOCK, BLOCK);
	}
	return 0;
}

uint32_t app_overlay_read(const struct app_overlay *o, uint64_t baddr, uint32_t nblocks,
			  void *bytes)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < nblocks; i++) {
		const struct slot *s = &o->slot[find(o, baddr + i)];

		if (!s->block)
			continue;
		memcpy((uint8_t *)bytes + (size_t)i * BLOCK, o->bytes[s->block - 1], BLOCK);
		count++;
	}
	return count;
}
