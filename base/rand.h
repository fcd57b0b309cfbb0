/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Numbers from a seed: the same seed, the same run.  Not for secrets. */
#ifndef BASE_RAND_H
#define BASE_RAND_H

#include "base/assert.h"

#include <stdint.h>

struct rand_state {
	uint64_t at;
};

static inline void rand_seed(struct rand_state *r, uint64_t seed)
{
	r->at = seed;
}

/* splitmix64 (Steele, Lea, Flood 2014): any seed is a good seed, one word of state. */
static inline uint64_t rand_u64(struct rand_state *r)
{
	uint64_t z = (r->at += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* In [0, bound), bound > 0: by multiplication, bias below 2^-32 for bounds below 2^32. */
static inline uint64_t rand_below(struct rand_state *r, uint64_t bound)
{
	ASSERT(bound > 0);
	return (uint64_t)(((unsigned __int128)rand_u64(r) * bound) >> 64);
}

#endif
