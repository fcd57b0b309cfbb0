/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The table of mapped memory, as the soft controller sees it; drawn in nvme_dma.c. */
#ifndef NVME_DMA_H
#define NVME_DMA_H

#include "nvme/nvme.h"

#include "base/list.h"
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

/* ---- memory of the driver's own, that the device reads or writes: nvme_mem.c -------- */

struct nvme_mem {
	void *addr;
	uint64_t iova;
	uint64_t size_bytes; /* 0: none */
};

/*
 * Zeroed, a multiple of 4 KiB, a mapping of a file (other processes can be given it) that
 * begins and ends at 2 MiB; what fits into 2 MiB crosses no multiple of them.
 */
must_check int nvme__mem_alloc(struct nvme_mem *mem, struct nvme_dma *dma, uint64_t size_bytes);
void nvme__mem_free(struct nvme_mem *mem, struct nvme_dma *dma);

/* ---- who else must know of each mapping: an IOMMU, another process ------------------ */

struct nvme_dma_region {
	void *addr;
	uint64_t size_bytes;
	int fd; /* -1: memory of nobody's file */
	uint64_t fd_offset;
};

/* Both are called under the table's lock, by who maps; `map` returns 0 or -errno. */
struct nvme_dma_target {
	struct list link;
	bool wants_files; /* it cannot map memory that is not a file's */
	int (*map)(struct nvme_dma_target *target, uint64_t iova,
		   const struct nvme_dma_region *region);
	void (*unmap)(struct nvme_dma_target *target, uint64_t iova, uint64_t size_bytes);
};

/*
 * From now on the target is told of each mapping, beginning with those there are.  When it
 * refuses one of these, none remains and it is not attached.
 */
must_check int nvme__dma_attach(struct nvme_dma *dma, struct nvme_dma_target *target);

/* The target hears no more; what it has mapped is its own to end. */
void nvme__dma_detach(struct nvme_dma *dma, struct nvme_dma_target *target);

/*
 * Never hand out an IOVA in [first_iova, last_iova], which may lie beyond what the table has.
 * -EBUSY: something is mapped there; nothing has changed.
 */
must_check int nvme__dma_reserve(struct nvme_dma *dma, uint64_t first_iova, uint64_t last_iova);

/* The target of `dma` that has this map function: how a second drive finds its container. */
struct nvme_dma_target *nvme__dma_target(struct nvme_dma *dma,
					 int (*map)(struct nvme_dma_target *, uint64_t,
						    const struct nvme_dma_region *));

/* A target's word on why it refuses, for nvme_dma_why(). */
void nvme__dma_say(struct nvme_dma *dma, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* What is mapped, in bytes. */
uint64_t nvme__dma_mapped_bytes(struct nvme_dma *dma);

/* ---- the table ---------------------------------------------------------------------- */

#define NVME_WINDOWS_LOW (1u << (32 - NVME_WINDOW_SHIFT)) /* below 4 GiB: never handed out */

struct nvme_dma {
	_Atomic uint64_t window[NVME_WINDOW_COUNT]; /* 0: nothing is mapped there */
	_Atomic uint32_t turn[NVME_WINDOW_COUNT];   /* odd: mapped; each mapping has its own */
	_Atomic bool near[NVME_WINDOW_COUNT];       /* nvme_dma_near() */
	_Atomic uint64_t fault_count;
	_Atomic uint32_t unmap_count; /* who caches windows looks here whether to look again */
	pthread_mutex_t lock;         /* among those that map and unmap: it guards what follows */
	uint32_t next_window;         /* where the search for room begins */
	struct list targets;
	struct nvme_dma_region region[NVME_WINDOW_COUNT]; /* of the mapping that begins there */
	bool reserved[NVME_WINDOW_COUNT];
	char why[192]; /* a target refused the last mapping */

	pthread_mutex_t open_lock; /* who opens or closes a drive; taken before all others */
	struct list controllers;   /* that may have several namespaces: nvme_share.c */

	pthread_mutex_t slab_lock; /* taken before `lock` */
	struct list slabs;         /* nvme_mem.c */
};

/* nvme_mem.c: memory that was never given back stays, what described it goes. */
void nvme__mem_forget(struct nvme_dma *dma);

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

static inline bool nvme__dma_is_near(const struct nvme_dma *dma, uint32_t window)
{
	return atomic_load_explicit(&dma->near[window], memory_order_relaxed);
}

static inline void nvme__dma_fault(struct nvme_dma *dma)
{
	atomic_fetch_add_explicit(&dma->fault_count, 1, memory_order_relaxed);
}

#endif
