/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Linked, not compiled in (XXH_INLINE_ALL) as in hash_number.c: of names of 20 bytes the library is
 * as fast, or faster. */
#include "base/hash.h"

#include <xxhash.h>

uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t size_bytes)
{
	return XXH3_64bits_withSeed(bytes, size_bytes, seed);
}
