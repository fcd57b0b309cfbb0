/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The exclusive or of blocks, by the vectors that every machine has, which is as fast as memory
 * here.  Multiples of blocks, which a second parity needs, are ISA-L's: gf.h. */
#ifndef BASE_XOR_H
#define BASE_XOR_H

#include "base/assert.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define XOR_LANE   64u /* bytes: what is summed up is a multiple of them */
#define XOR_VECTOR 16u

/* Each byte of `to` becomes its exclusive or with that of `from`. */
static inline void xor_into(void *restrict to, const void *restrict from, size_t bytes)
{
	ASSERT(bytes % XOR_LANE == 0);
	for (size_t at = 0; at < bytes; at += XOR_VECTOR) {
		uint64_t a __attribute__((vector_size(XOR_VECTOR)));
		uint64_t b __attribute__((vector_size(XOR_VECTOR)));

		memcpy(&a, (const char *)to + at, XOR_VECTOR);
		memcpy(&b, (const char *)from + at, XOR_VECTOR);
		a ^= b;
		memcpy((char *)to + at, &a, XOR_VECTOR);
	}
}

#endif
