/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Log-linear histograms.
 *
 *   value:   1 x x x x x x  . . . . .        the bits below the leading one's next six are dropped
 *            ^ power ^ sub-bucket (6 bits)
 *   bucket = (power - 5) * 64 + sub          values below 64 are their own bucket
 *
 * Invariant: (1) a record is counted in exactly one bucket, the one whose range holds it.
 */
#include "base/stat.h"
#include "base/num.h"

#define SUB_COUNT (1u << STAT_SUB_BITS)

static uint32_t bucket_of(uint64_t value)
{
	uint32_t power;

	if (value < SUB_COUNT)
		return (uint32_t)value;
	power = 63 - (uint32_t)__builtin_clzll(value);
	return ((power - STAT_SUB_BITS + 1) << STAT_SUB_BITS) +
	       (uint32_t)((value >> (power - STAT_SUB_BITS)) & (SUB_COUNT - 1));
}

/* The largest value that bucket_of() puts into `bucket`. */
static uint64_t bucket_top(uint32_t bucket)
{
	uint32_t shift;
	uint64_t first;

	if (bucket < SUB_COUNT)
		return bucket;
	shift = (bucket >> STAT_SUB_BITS) - 1;
	first = (uint64_t)(SUB_COUNT + (bucket & (SUB_COUNT - 1))) << shift;
	DASSERT(bucket_of(first) == bucket); /* (1) */
	return first + ((1ull << shift) - 1);
}

void stat_hist_reset(struct stat_hist *h)
{
	stat_set(&h->count, 0);
	stat_set(&h->sum, 0);
	stat_set(&h->min, UINT64_MAX);
	stat_set(&h->max, 0);
	for (uint32_t i = 0; i < STAT_BUCKETS; i++)
		stat_set(&h->bucket[i], 0);
}

void stat_hist_record(struct stat_hist *h, uint64_t value)
{
	uint32_t bucket = bucket_of(value);

	ASSERT(bucket < STAT_BUCKETS);
	stat_add(&h->bucket[bucket], 1);
	stat_add(&h->count, 1);
	stat_add(&h->sum, value);
	if (value < stat_get(&h->min))
		stat_set(&h->min, value);
	if (value > stat_get(&h->max))
		stat_set(&h->max, value);
}

void stat_hist_merge(struct stat_hist *into, const struct stat_hist *from)
{
	ASSERT(into != from);
	for (uint32_t i = 0; i < STAT_BUCKETS; i++)
		stat_add(&into->bucket[i], stat_get(&from->bucket[i]));
	stat_add(&into->count, stat_get(&from->count));
	stat_add(&into->sum, stat_get(&from->sum));
	stat_set(&into->min, min_u64(stat_get(&into->min), stat_get(&from->min)));
	stat_set(&into->max, max_u64(stat_get(&into->max), stat_get(&from->max)));
}

uint64_t stat_hist_percentile(const struct stat_hist *h, double percent)
{
	uint64_t count = stat_get(&h->count), max = stat_get(&h->max), seen = 0, rank;
	/* Less a hair: 3.3 % of 1000 is 33, whatever binary fractions say. */
	double exact = (double)count * percent / 100.0 * (1.0 - 1e-12);

	ASSERT(percent >= 0.0 && percent <= 100.0);
	if (count == 0)
		return 0;
	rank = (uint64_t)exact;
	rank += (double)rank < exact; /* rounded up: the median of three is the second */
	for (uint32_t i = 0; i < STAT_BUCKETS; i++) {
		seen += stat_get(&h->bucket[i]);
		if (seen >= max_u64(rank, 1))
			return max_u64(min_u64(bucket_top(i), max), stat_get(&h->min));
	}
	return max; /* a writer was between the bucket and the count */
}

uint64_t stat_hist_min(const struct stat_hist *h)
{
	return stat_get(&h->count) ? stat_get(&h->min) : 0;
}

uint64_t stat_hist_max(const struct stat_hist *h)
{
	return stat_get(&h->max);
}

uint64_t stat_hist_mean(const struct stat_hist *h)
{
	uint64_t count = stat_get(&h->count);

	return count ? stat_get(&h->sum) / count : 0;
}

uint64_t stat_hist_count(const struct stat_hist *h)
{
	return stat_get(&h->count);
}
