/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/sim/drive_content.h"
#include "nvme/nvme.h"

#include <stdarg.h>
#include <stdio.h>

#define UNIT_WORDS 64u /* 512 bytes: no atomic unit is smaller */

__attribute__((format(printf, 3, 4))) static bool wrong(char *why, size_t why_size,
							const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(why, why_size, format, args);
	va_end(args);
	return false;
}

uint64_t drive_word(uint32_t block, uint32_t version, uint32_t index)
{
	return (uint64_t)version << 32 ^ (uint64_t)block << 16 ^ index;
}

/* A unit is of one version, and that one is possible. */
static bool unit_fits(const uint64_t *words, uint32_t block, uint32_t unit, uint32_t low,
		      uint32_t high, char *why, size_t why_size)
{
	uint32_t first = unit * UNIT_WORDS;
	uint32_t version = (uint32_t)(words[first] >> 32);

	if (version == 0 && low == 0 && words[first] == 0) {
		for (uint32_t i = 0; i < UNIT_WORDS; i++)
			if (words[first + i] != 0)
				return wrong(why, why_size, "block %u, unit %u: torn", block, unit);
		return true;
	}
	for (uint32_t i = 0; i < UNIT_WORDS; i++)
		if (words[first + i] != drive_word(block, version, first + i))
			return wrong(why, why_size,
				     "block %u, unit %u: torn, or of elsewhere: %llx", block, unit,
				     (unsigned long long)words[first + i]);
	if (version < low || version > high)
		return wrong(why, why_size, "block %u, unit %u: version %u, not %u to %u", block,
			     unit, version, low, high);
	return true;
}

bool drive_block_fits(const uint64_t *words, uint32_t block, uint32_t low, uint32_t high, char *why,
		      size_t why_size)
{
	for (uint32_t unit = 0; unit < NVME_BLOCK_SIZE / 512; unit++)
		if (!unit_fits(words, block, unit, low, high, why, why_size))
			return false;
	return true;
}
