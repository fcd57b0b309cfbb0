/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Memory for queues and PRP lists, cut from slabs.
 *
 *   a slab: one file, one mapping, one window of the table
 *
 *   0                                                        2 MiB
 *   |  admin queue  |  queue pair 1  |  queue pair 2  |  free ...  |
 *
 * So a device's IOMMU needs few mappings, and another process that emulates a controller can be
 * given each as a file.  A piece larger than a slab is a slab by itself.
 *
 * Reserved huge pages are left to the data: the kernel may make a huge page of a slab.
 *
 * Invariants, true between any two calls:
 *
 *  (1) A slab has a page in use; returning the last one frees the slab.
 *  (2) A page in use was zero when it was handed out
 *      [test_nvme_dma:driver_memory_is_zeroed_a_files_and_crosses_no_two_mebibytes].
 */
#define _GNU_SOURCE
#include "nvme/nvme_dma.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; older C libraries do not name it */
#endif

#define SLAB_BYTES (2u << 20)
#define SLAB_PAGES (SLAB_BYTES / NVME_BLOCK_SIZE)

struct slab {
	struct list link;
	char *addr;
	uint64_t iova;
	uint64_t size_bytes; /* a multiple of 2 MiB */
	uint32_t used_count; /* pages in use */
	bool used[SLAB_PAGES];
};

/* `fd` mapped at a multiple of 2 MiB. */
static int map_aligned(int fd, uint64_t size_bytes, char **out)
{
	uint64_t room_bytes = size_bytes + SLAB_BYTES, head_bytes;
	char *room = mmap(NULL, room_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *at;

	if (room == MAP_FAILED)
		return -ENOMEM;
	head_bytes = align_up((uintptr_t)room, SLAB_BYTES) - (uintptr_t)room;
	at = room + head_bytes;
	if (mmap(at, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
	    MAP_FAILED) {
		munmap(room, room_bytes);
		return -ENOMEM;
	}
	if (head_bytes)
		munmap(room, head_bytes);
	munmap(at + size_bytes, SLAB_BYTES - head_bytes);
	*out = at;
	return 0;
}

static int slab_map(struct slab *slab, struct nvme_dma *dma)
{
	int fd = memfd_create("weka-queues", MFD_CLOEXEC);
	int err;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)slab->size_bytes) < 0) {
		err = -errno;
		goto close_fd;
	}
	err = map_aligned(fd, slab->size_bytes, &slab->addr);
	if (err)
		goto close_fd;
	(void)madvise(slab->addr, slab->size_bytes, MADV_HUGEPAGE);
	(void)madvise(slab->addr, slab->size_bytes, MADV_DONTFORK);
	err = nvme_dma_map_file(dma, slab->addr, slab->size_bytes, fd, 0, &slab->iova);
	if (err)
		munmap(slab->addr, slab->size_bytes);
close_fd:
	close(fd); /* the mappings keep the file */
	return err;
}

static int slab_create(struct nvme_dma *dma, uint64_t size_bytes, struct slab **out)
{
	struct slab *slab = calloc(1, sizeof(*slab));
	int err;

	if (!slab)
		return -ENOMEM;
	list_init(&slab->link);
	slab->size_bytes = align_up(size_bytes, SLAB_BYTES);
	err = slab_map(slab, dma);
	if (err) {
		free(slab);
		return err;
	}
	list_push_back(&dma->slabs, &slab->link);
	*out = slab;
	return 0;
}

static void slab_destroy(struct nvme_dma *dma, struct slab *slab)
{
	ASSERT(slab->used_count == 0); /* (1) */
	list_del(&slab->link);
	nvme_dma_unmap(dma, slab->iova, slab->size_bytes);
	munmap(slab->addr, slab->size_bytes);
	free(slab);
}

/* The first of `count` free pages that follow each other; SLAB_PAGES: none. */
static uint32_t find_pages(const struct slab *slab, uint32_t count)
{
	uint32_t run = 0;

	ASSERT(count > 0);
	if (slab->size_bytes != SLAB_BYTES)
		return SLAB_PAGES;
	for (uint32_t i = 0; i < SLAB_PAGES; i++) {
		run = slab->used[i] ? 0 : run + 1;
		if (run == count)
			return i + 1 - count;
	}
	return SLAB_PAGES;
}

static int find_room(struct nvme_dma *dma, uint32_t count, struct slab **out, uint32_t *first)
{
	struct list *at;

	list_for_each (at, &dma->slabs) {
		*out = list_entry(at, struct slab, link);
		*first = find_pages(*out, count);
		if (*first < SLAB_PAGES)
			return 0;
	}
	*first = 0;
	return slab_create(dma, (uint64_t)count * NVME_BLOCK_SIZE, out);
}

/* All of a slab larger than usual is in use: only `used_count` is kept. */
static void mark(struct slab *slab, uint32_t first, uint32_t count, bool used)
{
	ASSERT(count > 0);
	ASSERT(used || slab->used_count >= count);
	for (uint32_t i = first; i < first + count && slab->size_bytes == SLAB_BYTES; i++) {
		ASSERT(slab->used[i] != used);
		slab->used[i] = used;
	}
	slab->used_count = used ? slab->used_count + count : slab->used_count - count;
	ASSERT(slab->size_bytes != SLAB_BYTES || slab->used_count <= SLAB_PAGES);
}

int nvme__mem_alloc(struct nvme_mem *mem, struct nvme_dma *dma, uint64_t size_bytes)
{
	uint32_t count = (uint32_t)div_up(size_bytes, NVME_BLOCK_SIZE), first;
	struct slab *slab;
	int err;

	ASSERT(size_bytes > 0 && size_bytes < 1ull << 40);
	mem->size_bytes = 0;
	pthread_mutex_lock(&dma->slab_lock);
	err = find_room(dma, count, &slab, &first);
	if (err)
		goto unlock;
	mem->addr = slab->addr + (uint64_t)first * NVME_BLOCK_SIZE;
	mem->iova = slab->iova + (uint64_t)first * NVME_BLOCK_SIZE;
	size_bytes = (uint64_t)count * NVME_BLOCK_SIZE;
	/* Without memory for it the first touch would be a signal. */
	if (madvise(mem->addr, size_bytes, MADV_POPULATE_WRITE) && errno != EINVAL) {
		err = -ENOMEM;
		if (slab->used_count == 0)
			slab_destroy(dma, slab); /* (1) */
		goto unlock;
	}
	mark(slab, first, count, true);
	mem->size_bytes = size_bytes;
	ASSERT(slab->used_count > 0);     /* (1) */
	memset(mem->addr, 0, size_bytes); /* (2) */
unlock:
	pthread_mutex_unlock(&dma->slab_lock);
	return err;
}

void nvme__mem_free(struct nvme_mem *mem, struct nvme_dma *dma)
{
	struct list *at;

	if (mem->size_bytes == 0)
		return;
	pthread_mutex_lock(&dma->slab_lock);
	list_for_each (at, &dma->slabs) {
		struct slab *slab = list_entry(at, struct slab, link);
		uint64_t begin = mem->iova - slab->iova; /* wraps if it is in another slab */

		if (begin >= slab->size_bytes)
			continue;
		mark(slab, (uint32_t)(begin / NVME_BLOCK_SIZE),
		     (uint32_t)(mem->size_bytes / NVME_BLOCK_SIZE), false);
		mem->size_bytes = 0;
		if (slab->used_count == 0)
			slab_destroy(dma, slab); /* (1) */
		break;
	}
	pthread_mutex_unlock(&dma->slab_lock);
	ASSERT(mem->size_bytes == 0);
}

void nvme__mem_forget(struct nvme_dma *dma)
{
	while (!list_empty(&dma->slabs))
		free(list_entry(list_pop_front(&dma->slabs), struct slab, link));
}
