/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Memory that drives may reach: the content of an IOMMU, as one word a window.
 *
 *   IOVA, 39 bits:   | window, 13 | offset, 26 |
 *
 *   window[0..63]    never used: IOVA 0 stays invalid, and the ranges below 4 GiB are
 *                    reserved by platforms for interrupts and firmware
 *   window[64]       | page number in this process, 48 | pages mapped, 16 |
 *   window[65]       a mapping of more than 64 MiB continues here: full, full, rest
 *    ...             0: nothing is mapped
 *
 * A translation is one load without a search, however much is mapped.  Nothing caches it
 * for that reason, and a word can be changed while threads poll: they see the old word or the new
 * one, both whole.
 *
 *   R1 -> A1   (A1 in nvme_dma.h) the memory, its set-up and its life are stored before a
 *              reader can find it
 *   R2 -> A2   (A2 in nvme_soft_uring.c) a life has changed before unmap_count changes
 *
 * Invariants, true between any two calls that map or unmap:
 *
 *  (1) A mapping begins at the start of a window; its windows follow each other; all but
 *      the last are full.
 *  (2) Windows are allocated in a circle: a freed IOVA is reused as late as possible, so that a
 *      stale one finds nothing [test_nvme_dma:unmapped_iova_comes_back_only_after_all_others].
 *  (3) life[i] is odd while window i is mapped, and a new number for each mapping: code that
 *      remembers a mapping (pinned it) compares its life, because the word may be the same again.
 *  (4) Every target (nvme_dma.h) has mapped exactly the mappings in the table: a mapping that one
 *      refuses is undone everywhere, and readers have not seen it
 *      [test_nvme_dma:mapping_that_one_target_refuses_is_nobodys].
 *  (5) The caller provides the grace period: memory is unmapped after the last I/O that names it
 *      has come back (nvme.h).  The table itself needs none [torture_nvme_dma].
 */
#define _GNU_SOURCE
#include "nvme/nvme_dma.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int nvme_dma_create(struct nvme_dma **out)
{
	struct nvme_dma *dma = calloc(1, sizeof(*dma));

	if (!dma)
		return -ENOMEM;
	pthread_mutex_init(&dma->lock, NULL);
	pthread_mutex_init(&dma->slab_lock, NULL);
	pthread_mutex_init(&dma->open_lock, NULL);
	list_init(&dma->controllers);
	list_init(&dma->targets);
	list_init(&dma->slabs);
	dma->next_window = NVME_WINDOWS_LOW;
	*out = dma;
	return 0;
}

void nvme_dma_destroy(struct nvme_dma *dma)
{
	if (!dma)
		return;
	ASSERT(dma->next_window >= NVME_WINDOWS_LOW);
	ASSERT(list_empty(&dma->targets));
	nvme__mem_forget(dma);
	for (uint32_t i = NVME_WINDOWS_LOW; i < NVME_WINDOW_COUNT; i++) {
		if (dma->region[i].size_bytes > 0 && dma->region[i].fd >= 0)
			close(dma->region[i].fd);
	}
	pthread_mutex_destroy(&dma->open_lock);
	pthread_mutex_destroy(&dma->slab_lock);
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

	ASSERT(from >= NVME_WINDOWS_LOW);
	ASSERT(count > 0);
	for (uint32_t i = from; i < NVME_WINDOW_COUNT; i++) {
		run = load(dma, i) || dma->reserved[i] ? 0 : run + 1;
		if (run == count)
			return i + 1 - count;
	}
	return 0;
}

static void next_turn(struct nvme_dma *dma, uint32_t index)
{
	atomic_fetch_add_explicit(&dma->life[index], 1, memory_order_relaxed);
}

static void fill(struct nvme_dma *dma, uint32_t first, char *addr, uint64_t size_bytes)
{
	for (uint32_t i = first; size_bytes > 0; i++) {
		uint64_t here = min_u64(size_bytes, NVME_WINDOW_BYTES);
		uint64_t word = (uintptr_t)addr >> NVME_BLOCK_SHIFT << NVME_WINDOW_LEN_BITS |
				here >> NVME_BLOCK_SHIFT;

		ASSERT(load(dma, i) == 0);
		next_turn(dma, i);
		ASSERT(atomic_load_explicit(&dma->life[i], memory_order_relaxed) & 1); /* (3) */
		atomic_store_explicit(&dma->window[i], word, memory_order_release);    /* R1 */
		addr += here;
		size_bytes -= here;
	}
}

/* (4) */
static int tell_map(struct nvme_dma *dma, uint64_t iova, const struct nvme_dma_region *region)
{
	struct list *at, *undo;
	int err;

	ASSERT(region->size_bytes > 0);
	list_for_each (at, &dma->targets) {
		struct nvme_dma_target *target = list_entry(at, struct nvme_dma_target, link);

		err = target->map(target, iova, region);
		if (err)
			goto unmap;
	}
	return 0;

unmap:
	list_for_each (undo, &dma->targets) {
		struct nvme_dma_target *target = list_entry(undo, struct nvme_dma_target, link);

		if (undo == at)
			break;
		target->unmap(target, iova, region->size_bytes);
	}
	return err;
}

static void tell_unmap(struct nvme_dma *dma, uint64_t iova, uint64_t size_bytes)
{
	struct list *at;

	list_for_each (at, &dma->targets) {
		struct nvme_dma_target *target = list_entry(at, struct nvme_dma_target, link);

		target->unmap(target, iova, size_bytes);
	}
}

static int map_locked(struct nvme_dma *dma, const struct nvme_dma_region *region, uint64_t *iova)
{
	uint32_t count = (uint32_t)div_up(region->size_bytes, NVME_WINDOW_BYTES);
	uint32_t first = find_free(dma, dma->next_window, count);
	int err;

	if (!first)
		first = find_free(dma, NVME_WINDOWS_LOW, count);
	if (!first)
		return -ENOSPC;
	err = tell_map(dma, (uint64_t)first << NVME_WINDOW_SHIFT, region);
	if (err)
		return err;
	ASSERT(first >= NVME_WINDOWS_LOW);
	ASSERT(first + count <= NVME_WINDOW_COUNT);
	fill(dma, first, region->addr, region->size_bytes);
	dma->region[first] = *region;
	dma->next_window = first + count; /* (2) */
	if (dma->next_window == NVME_WINDOW_COUNT)
		dma->next_window = NVME_WINDOWS_LOW;
	*iova = (uint64_t)first << NVME_WINDOW_SHIFT;
	return 0;
}

int nvme_dma_map_file(struct nvme_dma *dma, void *addr, uint64_t size_bytes, int fd,
		      uint64_t fd_offset, uint64_t *iova)
{
	struct nvme_dma_region region = { addr, size_bytes, fd, fd_offset };
	int err;

	ASSERT((uintptr_t)addr % NVME_BLOCK_SIZE == 0 && addr != NULL);
	ASSERT(size_bytes % NVME_BLOCK_SIZE == 0 && size_bytes > 0);
	ASSERT(fd_offset % NVME_BLOCK_SIZE == 0);
	if (div_up(size_bytes, NVME_WINDOW_BYTES) >= NVME_WINDOW_COUNT)
		return -ENOSPC;
	if (fd >= 0) {
		region.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (region.fd < 0)
			return -errno;
	}
	pthread_mutex_lock(&dma->lock);
	dma->why[0] = 0;
	err = map_locked(dma, &region, iova);
	pthread_mutex_unlock(&dma->lock);
	if (err && fd >= 0)
		close(region.fd);
	return err;
}

int nvme_dma_map(struct nvme_dma *dma, void *addr, uint64_t size_bytes, uint64_t *iova)
{
	return nvme_dma_map_file(dma, addr, size_bytes, -1, 0, iova);
}

void nvme_dma_unmap(struct nvme_dma *dma, uint64_t iova, uint64_t size_bytes)
{
	uint32_t first = (uint32_t)(iova >> NVME_WINDOW_SHIFT);
	uint32_t count = (uint32_t)div_up(size_bytes, NVME_WINDOW_BYTES);
	struct nvme_dma_region *region = &dma->region[first];

	ASSERT(iova % NVME_WINDOW_BYTES == 0 && first > 0);
	ASSERT(size_bytes > 0 && first + count <= NVME_WINDOW_COUNT);
	pthread_mutex_lock(&dma->lock);
	ASSERT(region->size_bytes == size_bytes); /* exactly the mapped range */
	for (uint32_t i = first; i < first + count; i++) {
		ASSERT(load(dma, i)); /* (1) */
		atomic_store_explicit(&dma->window[i], 0, memory_order_relaxed);
		atomic_store_explicit(&dma->near[i], false, memory_order_relaxed);
		next_turn(dma, i);
		ASSERT(!(atomic_load_explicit(&dma->life[i], memory_order_relaxed) & 1)); /* (3) */
	}
	tell_unmap(dma, iova, size_bytes);
	if (region->fd >= 0)
		close(region->fd);
	region->size_bytes = 0;
	pthread_mutex_unlock(&dma->lock);
	atomic_fetch_add_explicit(&dma->unmap_count, 1, memory_order_release); /* R2 */
}

void nvme_dma_near(struct nvme_dma *dma, uint64_t iova, uint64_t size_bytes)
{
	uint32_t first = (uint32_t)(iova >> NVME_WINDOW_SHIFT);
	uint32_t count = (uint32_t)div_up(size_bytes, NVME_WINDOW_BYTES);

	ASSERT(first >= NVME_WINDOWS_LOW);
	ASSERT(first + count <= NVME_WINDOW_COUNT);
	for (uint32_t i = first; i < first + count; i++) {
		ASSERT(load(dma, i));
		atomic_store_explicit(&dma->near[i], true, memory_order_relaxed);
	}
}

const char *nvme_dma_why(const struct nvme_dma *dma)
{
	return dma->why;
}

void nvme__dma_say(struct nvme_dma *dma, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(dma->why, sizeof(dma->why), format, args);
	va_end(args);
}

bool nvme_dma_wants_files(struct nvme_dma *dma)
{
	bool wants = false;
	struct list *at;

	pthread_mutex_lock(&dma->lock);
	list_for_each (at, &dma->targets)
		wants |= list_entry(at, struct nvme_dma_target, link)->wants_files;
	pthread_mutex_unlock(&dma->lock);
	return wants;
}

uint64_t nvme_dma_fault_count(const struct nvme_dma *dma)
{
	return atomic_load_explicit(&dma->fault_count, memory_order_relaxed);
}

/* ---- targets ----------------------------------------------------------------------- */

int nvme__dma_attach(struct nvme_dma *dma, struct nvme_dma_target *target)
{
	uint32_t i, undo;
	int err = 0;

	pthread_mutex_lock(&dma->lock);
	for (i = 0; i < NVME_WINDOW_COUNT && !err; i++) {
		if (dma->region[i].size_bytes > 0)
			err = target->map(target, (uint64_t)i << NVME_WINDOW_SHIFT,
					  &dma->region[i]);
	}
	for (undo = 0; err && undo < i - 1; undo++) {
		if (dma->region[undo].size_bytes > 0)
			target->unmap(target, (uint64_t)undo << NVME_WINDOW_SHIFT,
				      dma->region[undo].size_bytes);
	}
	list_init(&target->link);
	if (!err)
		list_push_back(&dma->targets, &target->link);
	pthread_mutex_unlock(&dma->lock);
	return err;
}

void nvme__dma_detach(struct nvme_dma *dma, struct nvme_dma_target *target)
{
	pthread_mutex_lock(&dma->lock);
	list_del(&target->link);
	pthread_mutex_unlock(&dma->lock);
}

struct nvme_dma_target *nvme__dma_target(struct nvme_dma *dma,
					 int (*map)(struct nvme_dma_target *, uint64_t,
						    const struct nvme_dma_region *))
{
	struct nvme_dma_target *found = NULL;
	struct list *at;

	pthread_mutex_lock(&dma->lock);
	list_for_each (at, &dma->targets) {
		struct nvme_dma_target *target = list_entry(at, struct nvme_dma_target, link);

		if (target->map == map)
			found = target;
	}
	pthread_mutex_unlock(&dma->lock);
	return found;
}

int nvme__dma_reserve(struct nvme_dma *dma, uint64_t first_iova, uint64_t last_iova)
{
	uint64_t first = first_iova >> NVME_WINDOW_SHIFT;
	uint64_t last = min_u64(last_iova >> NVME_WINDOW_SHIFT, NVME_WINDOW_COUNT - 1);
	int err = 0;

	ASSERT(first_iova <= last_iova);
	pthread_mutex_lock(&dma->lock);
	for (uint64_t i = first; i <= last; i++) {
		if (load(dma, (uint32_t)i))
			err = -EBUSY;
	}
	for (uint64_t i = first; i <= last && !err; i++)
		dma->reserved[i] = true;
	pthread_mutex_unlock(&dma->lock);
	return err;
}

uint64_t nvme__dma_mapped_bytes(struct nvme_dma *dma)
{
	uint64_t bytes = 0;

	pthread_mutex_lock(&dma->lock);
	for (uint32_t i = 0; i < NVME_WINDOW_COUNT; i++)
		bytes += dma->region[i].size_bytes;
	pthread_mutex_unlock(&dma->lock);
	return bytes;
}
