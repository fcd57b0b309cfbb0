/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Compiled in, not linked: where the compiler knows the size, the hash of a number takes 28
 * instructions and not 65, and the making of a file takes a dozen of them (to shards). */
#define XXH_INLINE_ALL
#include "base/hash.h"

#include <xxhash.h>

uint64_t hash_u64(uint64_t seed, uint64_t v)
{
	return XXH3_64bits_withSeed(&v, sizeof(v), seed);
}
