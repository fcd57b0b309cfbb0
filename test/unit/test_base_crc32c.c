/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "base/crc32c.h"
#include "base/rand.h"

#include <criterion/criterion.h>
#include <string.h>

/* RFC 3720 B.4, bit by bit: slow, and surely right. */
static uint32_t by_definition(const unsigned char *bytes, size_t size)
{
	uint32_t crc = ~0u;

	for (size_t i = 0; i < size; i++) {
		crc ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? (crc >> 1) ^ 0x82f63b78u : crc >> 1;
	}
	return ~crc;
}

Test(base_crc32c, check_value_of_the_catalogue)
{
	cr_assert_eq(crc32c("123456789", 9), 0xe3069283u);
	cr_assert_eq(crc32c("", 0), 0);
}

Test(base_crc32c, agrees_with_the_definition_at_every_length_and_alignment)
{
	static unsigned char bytes[600];
	struct rand_state r;

	rand_seed(&r, 1);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)rand_u64(&r);
	for (size_t at = 0; at < 9; at++)
		for (size_t size = 0; size < 560; size++)
			cr_assert_eq(crc32c(bytes + at, size), by_definition(bytes + at, size));
}

Test(base_crc32c, goes_on_where_it_stopped)
{
	static const char text[] = "the quick brown fox";

	for (size_t cut = 0; cut < sizeof(text); cut++)
		cr_assert_eq(crc32c_more(crc32c(text, cut), text + cut, sizeof(text) - cut),
			     crc32c(text, sizeof(text)));
}

Test(base_crc32c, short_block_counts_as_padded_with_zeros)
{
	static unsigned char block[BLOCK_SIZE];

	cr_assert_eq(crc32c_block(block, 0), CRC32C_ZERO_BLOCK);
	cr_assert_eq(by_definition(block, sizeof(block)), CRC32C_ZERO_BLOCK);
	memset(block, 0x5a, 1000);
	cr_assert_eq(crc32c_block(block, 1000), by_definition(block, sizeof(block)));
	cr_assert_eq(crc32c_block(block, BLOCK_SIZE), by_definition(block, sizeof(block)));
}

Test(base_crc32c, a_block_of_any_length_is_padded)
{
	static unsigned char block[BLOCK_SIZE];
	struct rand_state r;

	rand_seed(&r, 2);
	for (uint32_t size = 0; size <= BLOCK_SIZE; size++) { /* it grows by a byte a time */
		cr_assert_eq(crc32c_block(block, size), crc32c(block, sizeof(block)), "%u", size);
		if (size < BLOCK_SIZE)
			block[size] = (unsigned char)rand_u64(&r);
	}
}

/* The block that is fetched meanwhile changes nothing, wherever it is. */
Test(base_crc32c, a_block_has_one_sum_whatever_comes_next)
{
	static uint8_t blocks[2 * BLOCK_SIZE];

	for (uint32_t i = 0; i < sizeof(blocks); i++)
		blocks[i] = (uint8_t)(i * 7 + i / 251);
	for (uint32_t at = 0; at <= BLOCK_SIZE; at += 64) {
		const uint32_t sum = crc32c(blocks + at, BLOCK_SIZE);

		cr_assert_eq(crc32c_block_before(blocks + at, blocks), sum);
		cr_assert_eq(crc32c_block_before(blocks + at, NULL), sum);
	}
}
