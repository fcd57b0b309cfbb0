/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Arithmetic in GF(2^8): bytes are polynomials over GF(2), the highest power in the highest bit,
 * modulo x^8 + x^4 + x^3 + x^2 + 1.  The generator is x.  RAID 6 and ISA-L use the same field.
 *
 *   0x80 * 2 = 0x100  modulo 0x11d  = 0x1d
 *
 *  (1) What drives have depends on this polynomial and this generator: they never change
 *      [test_base_gf].
 *  (2) A factor of 1 costs what an exclusive or costs, or a copy: most sums have no other
 *      [test_base_gf:multiples_of_bytes_are_those_of_each_byte].
 */
#include "base/gf.h"

#include <isa-l.h>

#define POLYNOMIAL 0x11du
#define POWERS     255u

uint8_t gf_times(uint8_t a, uint8_t b)
{
	return gf_mul(a, b);
}

uint8_t gf_inverse(uint8_t a)
{
	ASSERT(a != 0);
	return gf_inv(a);
}

uint8_t gf_power(uint32_t n)
{
	uint32_t power = 1;

	ASSERT(n < POWERS);
	for (; n > 0; n--)
		power = power << 1 ^ (power & 0x80 ? POLYNOMIAL : 0);
	ASSERT(power > 0 && power <= UINT8_MAX); /* (1) */
	return (uint8_t)power;
}

/* ISA-L takes pointers without const. */
static void add_times(void *to, const void *from, size_t bytes, uint8_t by)
{
	unsigned char table[32];

	ASSERT(bytes % XOR_LANE == 0 && bytes <= INT32_MAX);
	if (bytes == 0)
		return;
	gf_vect_mul_init(by, table);
	gf_vect_mad((int)bytes, 1, 0, table, (unsigned char *)(uintptr_t)from, to);
}

void gf_set(void *restrict to, const void *restrict from, size_t bytes, uint8_t by)
{
	ASSERT(bytes % XOR_LANE == 0);
	if (likely(by == 1)) { /* (2) */
		memcpy(to, from, bytes);
		return;
	}
	memset(to, 0, bytes);
	add_times(to, from, bytes, by);
}

void gf_add(void *restrict to, const void *restrict from, size_t bytes, uint8_t by)
{
	if (likely(by == 1)) /* (2) */
		xor_into(to, from, bytes);
	else
		add_times(to, from, bytes, by);
}
