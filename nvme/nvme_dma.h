/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The table of mapped memory, as the soft controller sees it; drawn in nvme_dma.c. */
#ifndef NVME_DMA_H
#define NVME_DMA_H

#include "nvme/nvme.h"

#include "base/num.h"

#include <pthread.h>
#include <stdatomic.h>

#define NVME_IOVA_BITS       39
#define NVME_WINDOW_SHIFT    26
#define NVME_WINDOW_BYTES    (1ull << NVME_WINDOW_SHIFT)
#define NVME_WINDOW_COUNT    (1u << (NVME_IOVA_BITS - NVME_WINDOW_SHIFT))
#define NVME_WINDOW_LEN_BITS 16 /* of a window's word: how many pages are there */

static_assert(NVME_WINDOW_BYTES / NVME_BLOCK_SIZE < 1u << NVME_WINDOW_LEN_BITS,
	      "the word's fields");

/* Memory of the driver's own that the device reads or writes: queues, PRP lists. */
struct nvme_mem {
	void *addr;
	uint64_t iova;
	uint64_t size_bytes; /* 0: none */
};

must_check int nvme__mem_alloc(struct nvme_mem *mem, struct nvme_dma *dma, uint64_t size_bytes);
void nvme__mem_free(struct nvme_mem *mem, struct nvme_dma *dma);

struct nvme_dma {
	_Atomic uint64_t window[NVME_WINDOW_COUNT]; /* 0: nothing is mapped there */
	_Atomic uint32_t turn[NVME_WINDOW_COUNT];   /* odd: mapped; each mapping has its own */
	_Atomic uint64_t fault_count;
	_Atomic uint32_t unmap_count; /* who caches windows looks here whether to look again */
	pthread_mutex_t lock;         /* among those that map and unmap */
	uint32_t next_window;         /* where the search for room begins */
};

/*
 * R1 -> A1 (R1 in nvme_dma.c): the memory is there before a reader finds its window.
 *
 * What is mapped from the start of window `index` on: its address and size; NULL: nothing.
 */
static inline void *nvme__dma_window(struct nvme_dma *dma, uint32_t index, uint64_t *size_bytes)
{
	uint64_t word = atomic_load_explicit(&dma->window[index], memory_order_acquire); /* A1 */

	*size_bytes = (word & ((1u << NVME_WINDOW_LEN_BITS) - 1)) << NVME_BLOCK_SHIFT;
	return (void *)(uintptr_t)(word >> NVME_WINDOW_LEN_BITS << NVME_BLOCK_SHIFT);
}

/*
 * nvme__dma_at - where `iova` lies in this process, or NULL when it is not mapped
 *
 * *size_bytes: what the caller wants on entry; on return, how much of it lies there in
 * one piece (ends at a window's end at the latest).  Wait-free; any thread.
 */
static inline void *nvme__dma_at(struct nvme_dma *dma, uint64_t iova, uint64_t *size_bytes)
{
	uint64_t at = iova & (NVME_WINDOW_BYTES - 1), mapped_bytes;
	char *base;

	if (unlikely(iova >> NVME_IOVA_BITS))
		return NULL;
	base = nvme__dma_window(dma, (uint32_t)(iova >> NVME_WINDOW_SHIFT), &mapped_bytes);
	if (unlikely(at >= mapped_bytes))
		return NULL;
	if (*size_bytes > mapped_bytes - at)
		*size_bytes = mapped_bytes - at;
	return base + at;
}

static inline void nvme__dma_fault(struct nvme_dma *dma)
{
	atomic_fetch_add_explicit(&dma->fault_count, 1, memory_order_relaxed);
}

#endif
