/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The arena: one anonymous or file mapping, cut from its start.
 *
 * Invariants, true between any two calls:
 *
 *  (1) base and size are multiples of 2 MiB; used <= size.
 *  (2) Every page was written once: no later access can fail for lack of memory
 *      [test_nvme_file:memory_that_the_machine_does_not_have_is_refused_not_taken].
 *  (3) [0, used) has been handed out, each byte once; [used, size) never.
 */
#define _GNU_SOURCE
#include "base/arena.h"
#include "base/num.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; older C libraries do not name it */
#endif

#define HUGE_BYTES (2u << 20)

struct arena {
	char *base;
	uint64_t size_bytes;
	uint64_t used_bytes;
	uint64_t iova;
	enum arena_pages pages;
	int fd; /* -1: none */
	bool locked;
};

static void arena_assert_valid(const struct arena *a)
{
	ASSERT(((uintptr_t)a->base & (HUGE_BYTES - 1)) == 0); /* (1) */
	ASSERT(a->used_bytes <= a->size_bytes);               /* (1) */
}

/*
 * Reserved huge pages, all or nothing: without MAP_POPULATE a shortage is known here, not at a
 * touch.
 */
static int map_hugetlb(struct arena *a)
{
	void *p = mmap(NULL, a->size_bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | (21 << MAP_HUGE_SHIFT), -1, 0);

	if (p == MAP_FAILED)
		return -errno;
	a->base = p;
	a->pages = ARENA_HUGETLB;
	return 0;
}

/* Room for it from a multiple of 2 MiB on, so that the kernel can make huge pages. */
static int map_room(struct arena *a)
{
	uint64_t room_bytes, head_bytes;
	char *p;

	if (add_overflows(a->size_bytes, HUGE_BYTES, &room_bytes))
		return -EINVAL;
	p = mmap(NULL, room_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return -errno;
	head_bytes = align_up((uintptr_t)p, HUGE_BYTES) - (uintptr_t)p;
	a->base = p + head_bytes;
	if (head_bytes)
		munmap(p, head_bytes);
	munmap(a->base + a->size_bytes, HUGE_BYTES - head_bytes);
	return 0;
}

static int map_pages(struct arena *a)
{
	int err = map_room(a);

	if (err)
		return err;
	a->pages = madvise(a->base, a->size_bytes, MADV_HUGEPAGE) ? ARENA_SMALL : ARENA_THP;
	return 0;
}

/* Replaces the mapping by one of the file. */
static int map_fd(struct arena *a)
{
	if (ftruncate(a->fd, (off_t)a->size_bytes) < 0)
		return -errno;
	return mmap(a->base, a->size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, a->fd,
		    0) == MAP_FAILED
		       ? -errno
		       : 0;
}

static int map_hugetlb_file(struct arena *a)
{
	int err;

	a->fd = memfd_create("weka-arena", MFD_CLOEXEC | MFD_HUGETLB | (21 << MAP_HUGE_SHIFT));
	if (a->fd < 0)
		return -errno;
	err = map_room(a);
	if (!err) {
		err = map_fd(a);
		if (err)
			munmap(a->base, a->size_bytes);
	}
	if (err) {
		close(a->fd);
		a->fd = -1;
		return err;
	}
	a->pages = ARENA_HUGETLB;
	return 0;
}

/* Returns true if madvise() gets huge pages for shared memory here. */
static bool shmem_can_be_huge(void)
{
	FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "re");
	char line[128] = "";
	bool can = false;

	if (file && fgets(line, sizeof(line), file))
		can = !strstr(line, "[never]") && !strstr(line, "[deny]");
	if (file)
		fclose(file);
	return can;
}

static int map_pages_file(struct arena *a)
{
	int err;

	a->fd = memfd_create("weka-arena", MFD_CLOEXEC);
	if (a->fd < 0)
		return -errno;
	err = map_room(a);
	if (err)
		goto close_fd;
	err = map_fd(a);
	if (err)
		goto unmap;
	a->pages = madvise(a->base, a->size_bytes, MADV_HUGEPAGE) == 0 && shmem_can_be_huge()
			   ? ARENA_THP
			   : ARENA_SMALL;
	return 0;

unmap:
	munmap(a->base, a->size_bytes);
close_fd:
	close(a->fd);
	a->fd = -1;
	return err;
}

/*
 * (2).  A kernel too old to populate is made to by writing; it then kills us if there is no
 * memory.
 */
static int prefault(struct arena *a)
{
	if (!madvise(a->base, a->size_bytes, MADV_POPULATE_WRITE))
		return 0;
	if (errno != EINVAL)
		return -ENOMEM;
	for (uint64_t at = 0; at < a->size_bytes; at += 4096)
		*(volatile char *)(a->base + at) = 0; /* volatile: or it is dropped */
	return 0;
}

static int create(uint64_t size_bytes, struct arena **out, int (*map_huge)(struct arena *),
		  int (*map_small)(struct arena *))
{
	struct arena *a;
	int err;

	if (size_bytes == 0 || size_bytes > INT64_MAX - HUGE_BYTES)
		return -EINVAL;
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	a->fd = -1;
	a->size_bytes = align_up(size_bytes, HUGE_BYTES);
	err = map_huge(a);
	if (err)
		err = map_small(a);
	if (err)
		goto free_arena;
	err = prefault(a);
	if (err)
		goto unmap;
	/* Both are wishes: an arena that is not locked works, only not under memory pressure. */
	a->locked = mlock(a->base, a->size_bytes) == 0;
	(void)madvise(a->base, a->size_bytes, MADV_DONTFORK);
	arena_assert_valid(a);
	*out = a;
	return 0;

unmap:
	munmap(a->base, a->size_bytes);
	if (a->fd >= 0)
		close(a->fd);
free_arena:
	free(a);
	return err;
}

int arena_create(uint64_t size_bytes, struct arena **out)
{
	return create(size_bytes, out, map_hugetlb, map_pages);
}

int arena_create_file(uint64_t size_bytes, struct arena **out)
{
	return create(size_bytes, out, map_hugetlb_file, map_pages_file);
}

int arena_fd(const struct arena *a)
{
	return a->fd;
}

void arena_destroy(struct arena *a)
{
	if (!a)
		return;
	arena_assert_valid(a);
	munmap(a->base, a->size_bytes);
	if (a->fd >= 0)
		close(a->fd);
	free(a);
}

void *arena_alloc(struct arena *a, uint64_t size_bytes, uint64_t align)
{
	uint64_t at, end;

	arena_assert_valid(a);
	ASSERT(is_pow2(align) && align <= HUGE_BYTES);
	at = align_up(a->used_bytes, align); /* fits: both are far below 2^63 */
	if (size_bytes == 0 || add_overflows(at, size_bytes, &end) || end > a->size_bytes)
		return NULL;
	ASSERT(at >= a->used_bytes); /* (3) */
	a->used_bytes = end;         /* (3) */
	return a->base + at;
}

void *arena_base(const struct arena *a)
{
	return a->base;
}

uint64_t arena_size(const struct arena *a)
{
	return a->size_bytes;
}

uint64_t arena_used(const struct arena *a)
{
	return a->used_bytes;
}

bool arena_has(const struct arena *a, const void *p, uint64_t size_bytes)
{
	uint64_t at = (uintptr_t)p - (uintptr_t)a->base; /* wraps to a large number when below */

	return at < a->size_bytes && size_bytes <= a->size_bytes - at;
}

enum arena_pages arena_pages(const struct arena *a)
{
	return a->pages;
}

bool arena_locked(const struct arena *a)
{
	return a->locked;
}

void arena_set_iova(struct arena *a, uint64_t iova)
{
	ASSERT((iova & 4095) == 0);
	a->iova = iova;
}

uint64_t arena_iova(const struct arena *a, const void *p)
{
	ASSERT(arena_has(a, p, 1));
	return a->iova + ((uintptr_t)p - (uintptr_t)a->base);
}
