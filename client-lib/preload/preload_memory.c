/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Memory of open files.  POSIX lets a signal handler open, read and close files, also one that has
 * interrupted malloc() with its lock held: so this memory comes from the kernel.
 *
 *            give(), if its class has a place free            take()
 *     mmap() ------------------------------------> kept ----------------> a caller's
 *        ^                                                                    |
 *        +------- munmap() <------- give(), if not ---------------------------+
 *
 * A place changes by one atomic exchange, so a signal handler may interrupt either call anywhere.
 *
 *  (1) A piece is in one place, or one caller's.
 *  (2) A piece of class c has PIECE_MIN << c bytes, its head included, and says so in its head.
 *
 *  S1 -> S2   its last owner's accesses come before the next one's.
 */
#define _GNU_SOURCE
#include "client-lib/preload/preload.h"

#include <stdalign.h>
#include <sys/mman.h>

#define PIECE_MIN ((size_t)4096)
#define CLASSES   8u /* up to 512 KiB: a file that is read with its open, and its path */
#define PLACES    8u /* of each class: 8 MiB at most are kept                          */

struct piece {
	alignas(max_align_t) uint32_t class;
	max_align_t bytes[];
};

static _Atomic(struct piece *) kept[CLASSES][PLACES];

static size_t size_of(uint32_t class)
{
	ASSERT(class < CLASSES);
	return PIECE_MIN << class;
}

static struct piece *from_kept(uint32_t class)
{
	for (uint32_t i = 0; i < PLACES; i++) {
		struct piece *p = NULL;

		if (atomic_load_explicit(&kept[class][i], memory_order_relaxed))
			p = atomic_exchange_explicit(&kept[class][i], NULL,
						     memory_order_acquire); /* S2 */
		if (p)
			return p;
	}
	return NULL;
}

void *preload_memory_take(size_t bytes)
{
	uint32_t class = 0;
	struct piece *p;

	ASSERT(bytes <= PIECE_MIN << (CLASSES - 1)); /* so that no sum below wraps */
	while (class < CLASSES && size_of(class) < sizeof(*p) + bytes)
		class ++;
	if (class == CLASSES)
		return NULL;
	p = from_kept(class);
	if (!p) {
		p = REAL->mmap(NULL, size_of(class), PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			return NULL;
		p->class = class;
	}
	ASSERT(p->class == class); /* (1), (2) */
	return p->bytes;
}

void preload_memory_give(void *bytes)
{
	struct piece *p;

	if (!bytes)
		return;
	p = (struct piece *)(void *)((char *)bytes - offsetof(struct piece, bytes));
	ASSERT(p->class < CLASSES); /* (2) */
	for (uint32_t i = 0; i < PLACES; i++) {
		struct piece *none = NULL;

		if (atomic_compare_exchange_strong_explicit(&kept[p->class][i], &none, p,
							    memory_order_release, /* S1 */
							    memory_order_relaxed))
			return;
	}
	(void)munmap(p, size_of(p->class));
}
