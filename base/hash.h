/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* XXH3, 64 bits, with a seed: maps names to shards and buckets.  Its values are stored on drives,
 * so it must never change. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Of `size_bytes` bytes, 0 of them allowed.  With a secret seed a peer cannot aim at one bucket. */
uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t size_bytes);

/* The same of the 8 bytes of a number, as they lie in memory. */
uint64_t hash_u64(uint64_t seed, uint64_t v);

#endif
