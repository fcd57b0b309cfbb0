/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "base/crc32c.h"
#include "base/assert.h"

#include <isa-l.h>

static const uint8_t zeros[BLOCK_SIZE];

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

uint32_t crc32c_block(const void *bytes, uint32_t size_bytes)
{
	ASSERT(size_bytes <= BLOCK_SIZE);
	return crc32c_more(crc32c(bytes, size_bytes), zeros, BLOCK_SIZE - size_bytes);
}
