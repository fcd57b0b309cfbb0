/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Counters and histograms with one writer.  Any thread may read at any time and never disturbs the
 * writer: it sees each number whole, but not all at the same moment.  Recording is a few
 * instructions, wait-free, and takes no memory.
 *
 * A histogram is log-linear: 64 buckets a power of two, so that a percentile is at most
 * 1/64 (1.6 %) above the value that was recorded, from 0 to 2^64 - 1.
 *
 *   0 1 2 ... 63 | 64 65 .. 127 | 128 130 .. 254 | 256 260 .. 508 | ...
 *   width 1      | width 1      | width 2        | width 4        |
 */
#ifndef BASE_STAT_H
#define BASE_STAT_H

#include <stdatomic.h>
#include <stdint.h>

struct stat_counter {
	_Atomic uint64_t value;
};

/* The writer only. */
static inline void stat_add(struct stat_counter *c, uint64_t more)
{
	/* One writer: no read-modify-write is needed, and a plain store costs nothing. */
	uint64_t was = atomic_load_explicit(&c->value, memory_order_relaxed);

	atomic_store_explicit(&c->value, was + more, memory_order_relaxed);
}

/* For values that go up and down (in flight, bytes held).  The writer only. */
static inline void stat_set(struct stat_counter *c, uint64_t value)
{
	atomic_store_explicit(&c->value, value, memory_order_relaxed);
}

static inline uint64_t stat_get(const struct stat_counter *c)
{
	return atomic_load_explicit(&c->value, memory_order_relaxed);
}

#define STAT_SUB_BITS 6
#define STAT_BUCKETS  ((64 - STAT_SUB_BITS + 1) << STAT_SUB_BITS)

struct stat_hist {
	struct stat_counter count;
	struct stat_counter sum;
	struct stat_counter min; /* of nothing: UINT64_MAX */
	struct stat_counter max;
	struct stat_counter bucket[STAT_BUCKETS];
};

/* Empty it, also before its first use. */
void stat_hist_reset(struct stat_hist *h);

/* Count one `value`.  The writer only. */
void stat_hist_record(struct stat_hist *h, uint64_t value);

/* Add all of `from` to `into`, whose writer is the caller. */
void stat_hist_merge(struct stat_hist *into, const struct stat_hist *from);

/* A value that `percent` (0 to 100) of the records do not exceed; 100 is the exact maximum.  0 when
 * empty. */
uint64_t stat_hist_percentile(const struct stat_hist *h, double percent);

/* The exact smallest, largest and mean; 0 when empty. */
uint64_t stat_hist_min(const struct stat_hist *h);
uint64_t stat_hist_max(const struct stat_hist *h);
uint64_t stat_hist_mean(const struct stat_hist *h);
uint64_t stat_hist_count(const struct stat_hist *h);

#endif
