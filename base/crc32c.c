/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "base/crc32c.h"
#include "base/assert.h"

#include <isa-l.h>

#define POLYNOMIAL 0x82f63b78u /* reflected: the highest power is the lowest bit */
#define RUN_BYTES  64u
#define FEW_BYTES  512u /* are summed faster */
#define LINE_BYTES 64u

/*
 * Appending zeros multiplies the sum by a power of x: this is x to the 8 * 64 * i, modulo the
 * polynomial.  A block with 1 KiB of data takes 103 ns this way, and took 190 when the zeros were
 * summed.
 */
static const uint32_t run_power[BLOCK_SIZE / RUN_BYTES + 1] = {
	0x80000000, 0xb82be955, 0xb8fdb1e7, 0x18e4a304, 0x88e56f72, 0x9030a49c, 0x67db2c4a,
	0xe744dcb2, 0x74c360a4, 0x8e9906a7, 0xb469724f, 0x24d84074, 0x631bb273, 0xee2a2d56,
	0x654f84e7, 0x629069c6, 0xe4172b16, 0xd3cb2137, 0x4f47bf52, 0x35202632, 0x71892b1b,
	0xd27285db, 0x69c2af09, 0xd271158e, 0x835305c9, 0xeaa500ac, 0x0e36a726, 0x46951631,
	0x196b1eae, 0x584ea70d, 0x15e8653c, 0xb5a65826, 0x0d65762a, 0xebfcce28, 0xe6aef08f,
	0x013ee85b, 0xafc81338, 0x61c30b85, 0xe31e7f5b, 0x5e3750cd, 0xb5a50ab7, 0x1977c75d,
	0x46bf959e, 0xe78cd046, 0xf373c3ac, 0x950979dd, 0xe31b4008, 0xc726c863, 0x5f60970f,
	0xf977f383, 0x9e7b1c10, 0xea2110f8, 0xd46d3063, 0xe2220529, 0xebd59d26, 0xedbe69a1,
	0x3a5275ea, 0x1a2bbe21, 0xd597ad7e, 0xcb8c45a6, 0x02331c01, 0xe8639712, 0xa957c550,
	0xbcfda51c, 0x35d73a62,
};

static const uint8_t zeros[FEW_BYTES];

uint32_t crc32c(const void *bytes, size_t size_bytes)
{
	return crc32c_more(0, bytes, size_bytes);
}

uint32_t crc32c_more(uint32_t crc, const void *bytes, size_t size_bytes)
{
	ASSERT(size_bytes <= INT32_MAX);
	/* ISA-L takes a pointer without const and neither inverts before nor after. */
	return ~crc32_iscsi((unsigned char *)(uintptr_t)bytes, (int)size_bytes, ~crc);
}

/*
 * The prefetcher of a processor stops at the end of each page, that is, of each block.  So one core
 * of an AMD EPYC sums blocks that lie in memory at 18 GB/s.  With the next block prefetched in two
 * halves it sums 34 GB/s; with all of it prefetched at once, which fills the line buffers, 28.
 */
uint32_t crc32c_block_before(const void *block, const void *next)
{
	const uint8_t *of = block, *then = next;
	uint32_t crc = 0;

	for (uint32_t at = 0; at < BLOCK_SIZE; at += BLOCK_SIZE / 2) {
		for (uint32_t line = 0; line < BLOCK_SIZE / 2; line += LINE_BYTES)
			__builtin_prefetch(then + at + line, 0, 2);
		crc = crc32c_more(crc, of + at, BLOCK_SIZE / 2);
	}
	return crc;
}

/* a * b, without a branch that could be guessed wrong. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (uint32_t i = 0; i < 32; i++) {
		product ^= b & -(a >> 31);
		a <<= 1;
		b = b >> 1 ^ (POLYNOMIAL & -(b & 1));
	}
	return product;
}

static uint32_t with_zeros(uint32_t crc, uint32_t count)
{
	if (count <= FEW_BYTES)
		return crc32c_more(crc, zeros, count);
	crc = crc32c_more(crc, zeros, count % RUN_BYTES);
	return ~multiply(run_power[count / RUN_BYTES], ~crc);
}

uint32_t crc32c_block(const void *bytes, uint32_t size_bytes)
{
	ASSERT(size_bytes <= BLOCK_SIZE);
	return with_zeros(crc32c(bytes, size_bytes), BLOCK_SIZE - size_bytes);
}
