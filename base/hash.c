/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Compiled in rather than linked: the shared library's call through the PLT and its
 * dispatch by length cost as much again as the hash of a name, and users need one
 * library less.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/hash.h"

uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t size_bytes)
{
	return XXH3_64bits_withSeed(bytes, size_bytes, seed);
}
