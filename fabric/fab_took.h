/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A duration in a byte, as replies carry it: PROTOCOL.md 6.  Eight steps a power of two, so it is
 * at most an eighth too short; 0 is less than 256 ns, 255 about 70 minutes and more.
 *
 *   units of 256 ns   0 | 1 | ... | 7 | 8 | ... | 15 | 16, 17 | 18, 19 | ... | 32 to 35 | ...
 *   byte              0 | 1 | ... | 7 | 8 | ... | 15 |   16   |   17   | ... |    24    | ...
 */
#ifndef FABRIC_FAB_TOOK_H
#define FABRIC_FAB_TOOK_H

#include "base/assert.h"

#include <stdint.h>

#define FAB_TOOK_UNIT 8u /* 2^8 ns */

static inline uint8_t fab_took_byte(uint64_t ns)
{
	const uint64_t units = ns >> FAB_TOOK_UNIT;
	uint32_t power;

	if (units < 8)
		return (uint8_t)units;
	power = 63 - (uint32_t)__builtin_clzll(units);
	if (power - 2 > 31)
		return 255;
	return (uint8_t)((power - 2) << 3 | (units >> (power - 3) & 7));
}

/* The shortest duration with that byte. */
static inline uint64_t fab_took_ns(uint8_t byte)
{
	const uint64_t units = byte < 8 ? byte : (uint64_t)(8 | (byte & 7)) << ((byte >> 3) - 1);

	DASSERT(fab_took_byte(units << FAB_TOOK_UNIT) == byte);
	return units << FAB_TOOK_UNIT;
}

#endif
