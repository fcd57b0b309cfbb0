/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Memory for payload in transit: clients' writes are kept here, where clients cannot change them,
 * until they are on a drive; data read over TCP is here until it is sent.
 *
 * A buddy allocator: pieces of 4 KiB << order, up to 8 MiB.  All
 * its bookkeeping is taken at start; take and give cost a few list steps each.
 */
#ifndef APP_STAGING_H
#define APP_STAGING_H

#include "base/assert.h"
#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

#define APP_STAGING_ORDERS    12u /* 4 KiB << 0 .. 4 KiB << 11 */
#define APP_STAGING_PIECE_MAX (8u << 20)

struct app_staging_page {
	struct list link; /* of free[order], when a free piece starts here */
	uint8_t order;    /* of the piece that starts here */
	bool free;
	bool starts;
	bool lost;     /* a drive that nothing stops may still write here: never given out again */
	bool given;    /* back, while it is pinned */
	uint16_t pins; /* reads that may still write to the piece that starts here */
};

struct app_staging {
	char *base; /* a multiple of 4096 */
	uint64_t iova;
	uint32_t npages;
	uint32_t pages_used;
	uint32_t pages_lost;
	struct app_staging_page *page; /* npages */
	struct list free[APP_STAGING_ORDERS];
};

/* Errors: -ENOMEM.  The memory [base, base + size_bytes) stays the caller's. */
must_check int app_staging_init(struct app_staging *s, void *base, uint64_t size_bytes,
				uint64_t iova);
void app_staging_fini(struct app_staging *s);

/* A piece of at least size_bytes (1 .. 8 MiB), contents undefined; NULL: none now. */
must_check void *app_staging_take(struct app_staging *s, uint32_t size_bytes);
void app_staging_give(struct app_staging *s, void *piece);

/*
 * Quarantines the memory at `iova`: when its piece is given back, it is never used again.  Does
 * nothing for other memory.
 */
void app_staging_lose(struct app_staging *s, uint64_t iova, uint64_t size_bytes);

/* Keeps the piece with the memory at `iova` from being given out again, also when it is given back,
 * until it was unpinned as often: a read that nobody waits for may still write to it. */
void app_staging_pin(struct app_staging *s, uint64_t iova);
/* Returns true if the piece had been given back, and is free now. */
bool app_staging_unpin(struct app_staging *s, uint64_t iova);

#ifdef WK_DEBUG
/* Counts the pages again, and compares. */
void app_staging_check(const struct app_staging *s);
#endif

/* Returns the size of a piece: its bytes rounded up. */
static inline uint32_t app_staging_size(const struct app_staging *s, const void *piece)
{
	DASSERT((const char *)piece >= s->base);
	return 4096u << s->page[((const char *)piece - s->base) >> 12].order;
}

/* Returns how many bytes of staging a piece of `size_bytes` takes. */
static inline uint32_t app_staging_rounded(uint32_t size_bytes)
{
	DASSERT(size_bytes > 0);
	return size_bytes <= 4096 ? 4096u : 2u << (31 - (uint32_t)__builtin_clz(size_bytes - 1));
}

static inline uint64_t app_staging_iova(const struct app_staging *s, const void *p)
{
	DASSERT((const char *)p >= s->base);
	return s->iova + (uint64_t)((const char *)p - s->base);
}

#endif
