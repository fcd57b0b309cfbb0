/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Memory that drives may reach: what an IOMMU would hold, as one word a window.
 *
 *   IOVA, 39 bits:   | window, 13 | offset, 26 |
 *
 *   window[0]        never used: IOVA 0 is nobody's
 *   window[1]        | page number in this process, 48 | pages mapped, 16 |
 *   window[2]        a mapping of more than 64 MiB goes on here: full, full, rest
 *    ...             0: nothing is mapped
 *
 * A translation is one load and no search, however much is mapped; that is why nothing
 * caches it, and why a word can be changed under polling threads: they see the old word
 * or the new one, both whole.
 *
 *   R1 -> A1   (A1 in nvme_dma.h) the memory is there, set up, and its turn is, before a
 *              reader can find it
 *   R2 -> A2   (A2 in nvme_soft_uring.c) a turn has changed before unmap_count says so
 *
 * Invariants, true between any two calls that map or unmap:
 *
 *  (1) A mapping begins at the start of a window; its windows follow each other; all but
 *      the last are full.
 *  (2) Windows are taken in a circle: an IOVA that was just given up comes back as late as
 *      can be, so that a stale one meets nothing.
 *  (3) turn[i] is odd while window i is mapped, and a new number for each mapping: who
 *      remembers a mapping (pinned it) compares the turn, for the word may come again.
 *  (4) The grace is the caller's: memory is unmapped after the last I/O that names it has
 *      come back (nvme.h).  The table itself needs none.
 */
#define _GNU_SOURCE
#include "nvme/nvme_dma.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

int nvme_dma_create(struct nvme_dma **out)
{
	struct nvme_dma *dma = calloc(1, sizeof(*dma));

	if (!dma)
		return -ENOMEM;
	pthread_mutex_init(&dma->lock, NULL);
	dma->next_window = 1;
	*out = dma;
	return 0;
}

void nvme_dma_destroy(struct nvme_dma *dma)
{
	if (!dma)
		return;
	pthread_mutex_destroy(&dma->lock);
	free(dma);
}

static uint64_t load(const struct nvme_dma *dma, uint32_t index)
{
	return atomic_load_explicit(&dma->window[index], memory_order_relaxed);
}

/* The first of `count` free windows that follow each other, at or after `from`; 0: none. */
static uint32_t find_free(const struct nvme_dma *dma, uint32_t from, uint32_t count)
{
	uint32_t run = 0;

	ASSERT(from > 0);
	for (uint32_t i = from; i < NVME_WINDOW_COUNT; i++) {
		run = load(dma, i) ? 0 : run + 1;
		if (run == count)
			return i + 1 - count;
	}
	return 0;
}

static void next_turn(struct nvme_dma *dma, uint32_t index)
{
	atomic_fetch_add_explicit(&dma->turn[index], 1, memory_order_relaxed);
}

static void fill(struct nvme_dma *dma, uint32_t first, char *addr, uint64_t size_bytes)
{
	for (uint32_t i = first; size_bytes > 0; i++) {
		uint64_t here = min_u64(size_bytes, NVME_WINDOW_BYTES);
		uint64_t word = (uintptr_t)addr >> NVME_BLOCK_SHIFT << NVME_WINDOW_LEN_BITS |
				here >> NVME_BLOCK_SHIFT;

		ASSERT(load(dma, i) == 0);
		next_turn(dma, i);
		atomic_store_explicit(&dma->window[i], word, memory_order_release); /* R1 */
		addr += here;
		size_bytes -= here;
	}
}

int nvme_dma_map(struct nvme_dma *dma, void *addr, uint64_t size_bytes, uint64_t *iova)
{
	uint64_t count = div_up(size_bytes, NVME_WINDOW_BYTES);
	uint32_t first = 0;

	ASSERT((uintptr_t)addr % NVME_BLOCK_SIZE == 0 && addr != NULL);
	ASSERT(size_bytes % NVME_BLOCK_SIZE == 0 && size_bytes > 0);
	if (count >= NVME_WINDOW_COUNT)
		return -ENOSPC;

	pthread_mutex_lock(&dma->lock);
	first = find_free(dma, dma->next_window, (uint32_t)count);
	if (!first)
		first = find_free(dma, 1, (uint32_t)count);
	if (first) {
		fill(dma, first, addr, size_bytes);
		dma->next_window = (first + (uint32_t)count) % NVME_WINDOW_COUNT; /* (2) */
		if (dma->next_window == 0)
			dma->next_window = 1;
		*iova = (uint64_t)first << NVME_WINDOW_SHIFT;
	}
	pthread_mutex_unlock(&dma->lock);
	return first ? 0 : -ENOSPC;
}

void nvme_dma_unmap(struct nvme_dma *dma, uint64_t iova, uint64_t size_bytes)
{
	uint32_t first = (uint32_t)(iova >> NVME_WINDOW_SHIFT);
	uint32_t count = (uint32_t)div_up(size_bytes, NVME_WINDOW_BYTES);
	uint64_t mask = (1u << NVME_WINDOW_LEN_BITS) - 1, pages = 0;

	ASSERT(iova % NVME_WINDOW_BYTES == 0 && first > 0);
	ASSERT(size_bytes > 0 && first + count <= NVME_WINDOW_COUNT);
	pthread_mutex_lock(&dma->lock);
	for (uint32_t i = first; i < first + count; i++) {
		pages += load(dma, i) & mask;
		atomic_store_explicit(&dma->window[i], 0, memory_order_relaxed);
		next_turn(dma, i);
	}
	pthread_mutex_unlock(&dma->lock);
	ASSERT(pages << NVME_BLOCK_SHIFT == size_bytes); /* (1): what was mapped, all of it */
	atomic_fetch_add_explicit(&dma->unmap_count, 1, memory_order_release); /* R2 */
}

uint64_t nvme_dma_fault_count(const struct nvme_dma *dma)
{
	return atomic_load_explicit(&dma->fault_count, memory_order_relaxed);
}

/* ---- the driver's own ---------------------------------------------------------- */

int nvme__mem_alloc(struct nvme_mem *mem, struct nvme_dma *dma, uint64_t size_bytes)
{
	int err;

	ASSERT(size_bytes > 0);
	*mem = (struct nvme_mem){ .size_bytes = align_up(size_bytes, NVME_BLOCK_SIZE) };
	mem->addr = mmap(NULL, mem->size_bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (mem->addr == MAP_FAILED) {
		mem->size_bytes = 0;
		return -ENOMEM;
	}
	/* A child's copy-on-write would move our pages away from under the device. */
	(void)madvise(mem->addr, mem->size_bytes, MADV_DONTFORK);
	err = nvme_dma_map(dma, mem->addr, mem->size_bytes, &mem->iova);
	if (err) {
		munmap(mem->addr, mem->size_bytes);
		mem->size_bytes = 0;
	}
	return err;
}

void nvme__mem_free(struct nvme_mem *mem, struct nvme_dma *dma)
{
	if (mem->size_bytes == 0)
		return;
	nvme_dma_unmap(dma, mem->iova, mem->size_bytes);
	munmap(mem->addr, mem->size_bytes);
	mem->size_bytes = 0;
}
