/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A table of blocks by address, open addressing, which never forgets.  All of its address space is
 * taken at once; the kernel gives memory to blocks that are written.  It is a separate part of the
 * account of memory (app_account.c), and not part of the heap.
 *
 * Invariant: (1) at most half of the slots are used, so a search ends.
 */
#include "appliance/media/app_overlay.h"

#include "base/num.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum { BLOCK = 4096, SLOTS = 1 << 17 };

static_assert(APP_OVERLAY_MAX / BLOCK <= SLOTS / 2, "a look ends"); /* (1) */

struct slot {
	uint64_t baddr;
	uint32_t block; /* of bytes[], + 1; 0: it is free */
};

struct app_overlay {
	struct slot slot[SLOTS];
	uint32_t count;
	uint32_t count_max;
	uint8_t bytes[][BLOCK];
};

static uint32_t blocks_of(uint64_t bytes_max)
{
	return (uint32_t)(min_u64(bytes_max ? bytes_max : APP_OVERLAY_MAX, APP_OVERLAY_MAX) /
			  BLOCK);
}

uint64_t app_overlay_memory(uint64_t bytes_max)
{
	return sizeof(struct app_overlay) + (uint64_t)blocks_of(bytes_max) * BLOCK;
}

int app_overlay_create(struct app_overlay **out, uint64_t bytes_max)
{
	void *at = mmap(NULL, app_overlay_memory(bytes_max), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	ASSERT(app_overlay_memory(bytes_max) > sizeof(struct app_overlay));
	*out = at == MAP_FAILED ? NULL : at;
	if (!*out)
		return -ENOMEM;
	(*out)->count_max = blocks_of(bytes_max);
	return 0;
}

void app_overlay_destroy(struct app_overlay *o)
{
	ASSERT(!o || o->count <= o->count_max);
	if (o)
		(void)munmap(o, app_overlay_memory((uint64_t)o->count_max * BLOCK));
}

/* Returns the block's slot, or the free one that it would get. */
static uint32_t find(const struct app_overlay *o, uint64_t baddr)
{
	uint32_t at = (uint32_t)(baddr * 0x9e3779b97f4a7c15u >> 47);

	ASSERT(o->count <= SLOTS / 2); /* (1) */
	while (o->slot[at].block && o->slot[at].baddr != baddr)
		at = (at + 1) % SLOTS;
	return at;
}

int app_overlay_write(struct app_overlay *o, uint64_t baddr, uint32_t nblocks, const void *bytes)
{
	ASSERT(nblocks > 0 && o->count <= o->count_max);
	for (uint32_t i = 0; i < nblocks; i++) {
		struct slot *s = &o->slot[find(o, baddr + i)];

		if (!s->block) {
			if (o->count == o->count_max)
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

	ASSERT(nblocks > 0);
	for (uint32_t i = 0; i < nblocks; i++) {
		const struct slot *s = &o->slot[find(o, baddr + i)];

		if (!s->block)
			continue;
		memcpy((uint8_t *)bytes + (size_t)i * BLOCK, o->bytes[s->block - 1], BLOCK);
		count++;
	}
	ASSERT(count <= nblocks);
	return count;
}
