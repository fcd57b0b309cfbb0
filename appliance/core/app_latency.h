/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A small histogram of how long requests took.  It has two buckets a power of two, so it fits a few
 * cache lines for each kind of request, where stat_hist (base/stat.h) has 30 KiB.
 *
 *   microseconds   0 | 1 | 2 | 3 | 4..5 | 6..7 | 8..11 | 12..15 | 16..23 | ... | 2^24 and more
 */
#ifndef APP_LATENCY_H
#define APP_LATENCY_H

#include "base/assert.h"

#include <stdint.h>

#define APP_LATENCY_POWERS  24u /* below 2^24 us, 16.8 s */
#define APP_LATENCY_BUCKETS (2 * APP_LATENCY_POWERS + 1)

struct app_latency {
	uint64_t bucket[APP_LATENCY_BUCKETS];
	uint64_t sum_ns;
};

/* A request that was answered in this turn. */
struct app_took {
	struct app_latency *of;
	uint64_t arrived_ns;
};

static inline uint32_t app_latency_bucket(uint64_t us)
{
	uint32_t power;

	if (us < 2)
		return (uint32_t)us;
	power = 63 - (uint32_t)__builtin_clzll(us);
	if (power >= APP_LATENCY_POWERS)
		return APP_LATENCY_BUCKETS - 1;
	return 2 * power + (us >> (power - 1) & 1);
}

/* Returns the least number of microseconds that is above what `bucket` counts.  The last bucket has
 * none. */
static inline uint64_t app_latency_end_us(uint32_t bucket)
{
	ASSERT(bucket < APP_LATENCY_BUCKETS - 1);
	if (bucket < 2)
		return bucket + 1;
	return bucket & 1 ? 2ull << bucket / 2 : 3ull << (bucket / 2 - 1);
}

static inline uint64_t app_latency_count(const struct app_latency *l)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < APP_LATENCY_BUCKETS; i++)
		count += l->bucket[i];
	return count;
}

static inline void app_latency_add(struct app_latency *l, uint64_t ns)
{
	DASSERT(app_latency_bucket(ns / 1000) < APP_LATENCY_BUCKETS);
	l->bucket[app_latency_bucket(ns / 1000)]++;
	l->sum_ns += ns;
}

#endif
