/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* CRC32C (Castagnoli, reflected 0x82F63B78, RFC 3720 B.4), by ISA-L. */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

#define BLOCK_SIZE 4096u /* bytes under one checksum, and the unit of the store's blocks */

/* Of `size_bytes` bytes; the usual form: starts at ~0, inverted at the end. "123456789": E3069283.
 */
uint32_t crc32c(const void *bytes, size_t size_bytes);

/* As if crc32c() had gone on from `crc` over further bytes; crc32c_more(crc32c(a), b) ==
 * crc32c(ab). */
uint32_t crc32c_more(uint32_t crc, const void *bytes, size_t size_bytes);

/* Sums a block of which only the first `size_bytes` exist: the rest counts as zeros. */
uint32_t crc32c_block(const void *bytes, uint32_t size_bytes);

/* Sums a whole block, and prefetches another one, at `next`, meanwhile. */
uint32_t crc32c_block_before(const void *block, const void *next);

/* The checksum of 4096 zero bytes. */
#define CRC32C_ZERO_BLOCK 0x98f94189u

#endif
