/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * One large piece of memory, taken at start and cut into parts that are never given back.
 *
 * Everything that a drive or a network card may touch is in one arena, so that one mapping covers
 * it and an address in it becomes an I/O address by adding a constant:
 *
 *   base                                                    base + size
 *    |  rings  |  PRP lists  |  data buffers  |  free ...        |
 *    ^ iova    ^ iova + (p - base)
 *
 * Page-aligned, prefaulted, with huge pages if the machine has some, locked if it is allowed, and
 * not inherited by fork (a child's copy-on-write would move our pages away from under the device).
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/assert.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;

enum arena_pages {
	ARENA_HUGETLB = 1, /* reserved huge pages                                  */
	ARENA_THP,         /* asked for by madvise; the kernel may have given some */
	ARENA_SMALL,       /* 4 KiB pages: more TLB misses, otherwise the same     */
};

/**
 * arena_create - take `size_bytes`, rounded up to 2 MiB, and touch every page
 *
 * Owns:    the caller, until arena_destroy().
 * Errors:  -EINVAL for a size of 0 or one that cannot be rounded; -ENOMEM.
 */
must_check int arena_create(uint64_t size_bytes, struct arena **out);

/**
 * arena_create_file - the same, as a mapping of a file that can be handed to other processes
 *
 * Huge pages are used where some are reserved, or where the kernel gives them to shared memory
 * (/sys/kernel/mm/transparent_hugepage/shmem_enabled: "advise" or more).
 */
must_check int arena_create_file(uint64_t size_bytes, struct arena **out);

/** arena_fd - the file that it maps from its beginning on; -1 when it maps none.  The arena's. */
int arena_fd(const struct arena *a);

/** arena_destroy - give all of it back; nothing may point into it any more.  NULL is fine. */
void arena_destroy(struct arena *a);

/**
 * arena_alloc - cut the next `size_bytes` off, aligned to `align` (a power of two)
 *
 * The bytes are zero the first time, and live as long as the arena.  NULL when it is full.
 * Thread:  one at a time; at start, not on the hot path.
 */
must_check void *arena_alloc(struct arena *a, uint64_t size_bytes, uint64_t align);

/** arena_base - its first byte, aligned to 2 MiB */
void *arena_base(const struct arena *a);

/** arena_size - its bytes, a multiple of 2 MiB */
uint64_t arena_size(const struct arena *a);

/** arena_used - bytes cut off so far, alignment included */
uint64_t arena_used(const struct arena *a);

/** arena_has - return true if all of [p, p + size_bytes) is in the arena */
bool arena_has(const struct arena *a, const void *p, uint64_t size_bytes);

/** arena_pages - return the kind of pages that it has: worth a line at start */
enum arena_pages arena_pages(const struct arena *a);

/** arena_locked - whether it is locked in memory (RLIMIT_MEMLOCK allowed it) */
bool arena_locked(const struct arena *a);

/** arena_set_iova - where devices see its first byte, once that is known */
void arena_set_iova(struct arena *a, uint64_t iova);

/** arena_iova - return the address for devices of `p`, which must be in the arena */
uint64_t arena_iova(const struct arena *a, const void *p);

#endif
