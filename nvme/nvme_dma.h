/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The table of mapped memory, as the soft controller sees it; nvme_dma.c has a drawing. */
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

/* ---- targets, which must know each mapping: an IOMMU, another process --------------- */

struct nvme_dma_region {
	void *addr;
	uint64_t size_bytes;
	int fd; /* -1: memory without a file */
	uint64_t fd_offset;
};

/* The thread that maps calls both under the table's lock; `map` returns 0 or -errno. */
struct nvme_dma_target {
	struct list link;
	bool wants_files; /* it cannot map memory that is not a file's */
	int (*map)(struct nvme_dma_target *target, uint64_t iova,
		   const struct nvme_dma_region *region);
	void (*unmap)(struct nvme_dma_target *target, uint64_t iova, uint64_t size_bytes);
};

/*
 * Attaches a target: from now on it is told of each mapping, beginning with the existing ones.  If
 * it refuses one of these, none remains and it is not attached.
 */
must_check int nvme__dma_attach(struct nvme_dma *dma, struct nvme_dma_target *target);

/* Detaches the target, which must remove its own mappings. */
void nvme__dma_detach(struct nvme_dma *dma, struct nvme_dma_target *target);

/*
 * Never hands out an IOVA in [first_iova, last_iova], which may be beyond the table's end.  -EBUSY:
 * something is mapped there; nothing has changed.
 */
must_check int nvme__dma_reserve(struct nvme_dma *dma, uint64_t first_iova, uint64_t last_iova);

/* The target of `dma` that has this map function: how a second drive finds its container. */
struct nvme_dma_target *nvme__dma_target(struct nvme_dma *dma,
					 int (*map)(struct nvme_dma_target *, uint64_t,
						    const struct nvme_dma_region *));

/* A target's word on why it refuses, for nvme_dma_why(). */
void nvme__dma_say(struct nvme_dma *dma, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Returns the number of mapped bytes. */
uint64_t nvme__dma_mapped_bytes(struct nvme_dma *dma);

/* ---- the table ---------------------------------------------------------------------- */

#define NVME_WINDOWS_LOW (1u << (32 - NVME_WINDOW_SHIFT)) /* below 4 GiB: never handed out */

struct nvme_dma {
	_Atomic uint64_t window[NVME_WINDOW_COUNT]; /* 0: nothing is mapped there */
	_Atomic uint32_t life[NVME_WINDOW_COUNT];   /* odd: mapped; each mapping has its own */
	_Atomic bool near[NVME_WINDOW_COUNT];       /* nvme_dma_near() */
	_Atomic uint64_t fault_count;
	_Atomic uint32_t unmap_count; /* changes when cached windows may be stale */
	pthread_mutex_t lock; /* between threads that map and unmap: guards the fields below */
	uint32_t next_window; /* where the search for room begins */
	struct list targets;
	struct nvme_dma_region region[NVME_WINDOW_COUNT]; /* of the mapping that begins there */
	bool reserved[NVME_WINDOW_COUNT];
	char why[192]; /* a target refused the last mapping */

	pthread_mutex_t open_lock; /* held to open or close a drive; taken before all others */
	struct list controllers;   /* that may have several namespaces: nvme_share.c */

	pthread_mutex_t slab_lock; /* taken before `lock` */
	struct list slabs;         /* nvme_mem.c */
};

/* nvme_mem.c: memory that was never given back stays, what described it goes. */
void nvme__mem_forget(struct nvme_dma *dma);

/*
 * R1 -> A1 (R1 in nvme_dma.c): the memory is stored before a reader finds its window.
 *
 * Returns the address and size mapped from the start of window `index`; NULL: nothing.
 */
static inline void *nvme__dma_window(struct nvme_dma *dma, uint32_t index, uint64_t *size_bytes)
{
	uint64_t word = atomic_load_explicit(&dma->window[index], memory_order_acquire); /* A1 */

	*size_bytes = (word & ((1u << NVME_WINDOW_LEN_BITS) - 1)) << NVME_BLOCK_SHIFT;
	return (void *)(uintptr_t)(word >> NVME_WINDOW_LEN_BITS << NVME_BLOCK_SHIFT);
}

/*
 * nvme__dma_at - return the address of `iova` in this process, or NULL if it is not mapped
 *
 * *size_bytes: on entry the bytes wanted; on return how many of them are contiguous there
 * (at most to the end of the window).  Wait-free; any thread.
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
