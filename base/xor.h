/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Parity of one: the exclusive or of blocks.  Plain C that the compiler makes vectors of, which is
 * as fast as memory here; a second parity would take ISA-L's erasure codes. */
#ifndef BASE_XOR_H
#define BASE_XOR_H

#include "base/assert.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define XOR_LANE 64u /* bytes */

/* Each byte of `to` becomes its exclusive or with that of `from`.  A multiple of XOR_LANE bytes. */
static inline void xor_into(void *restrict to, const void *restrict from, size_t bytes)
{
	ASSERT(bytes % XOR_LANE == 0);
	for (size_t at = 0; at < bytes; at += XOR_LANE) {
		uint64_t a[XOR_LANE / 8], b[XOR_LANE / 8];

		memcpy(a, (const char *)to + at, XOR_LANE);
		memcpy(b, (const char *)from + at, XOR_LANE);
		for (size_t i = 0; i < XOR_LANE / 8; i++)
			a[i] ^= b[i];
		memcpy((char *)to + at, a, XOR_LANE);
	}
}

#endif
