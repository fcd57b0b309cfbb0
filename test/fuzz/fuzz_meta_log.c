/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Log blocks from a drive.  An input is the beginning of one; magic, tag and checksum are made
 * right, so that its records are parsed.  Each record that the parser returns must lie inside the
 * block.
 */
#include "base/num.h"
#include "meta/meta_store.h"

#include <string.h>

#define BLOCKS 4u
#define TAG    0x1122334455667788ull

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static _Alignas(8) uint8_t block[BLOCKS * 4096];

static uint32_t sum_of(const struct meta__mut *mut)
{
	const uint8_t *v = mut->value;
	uint32_t sum = 0;

	ASSERT(mut->value_len <= META_VALUE_MAX);
	ASSERT(v >= block && v + mut->value_len <= block + sizeof(block));
	for (uint32_t i = 0; i < mut->value_len; i++)
		sum += v[i];
	return sum;
}

static bool open_block(struct meta__log_head *h)
{
	struct meta_log_disk d;
	uint32_t nblocks;

	memcpy(&d, block, sizeof(d));
	nblocks = le32_get(d.nblocks) % BLOCKS + 1;
	d.magic = le32_of(META__LOG_MAGIC);
	d.tag = le64_of(TAG);
	d.nblocks = le32_of(nblocks);
	d.crc = le32_of(0);
	memcpy(block, &d, sizeof(d));
	d.crc = le32_of(crc32c(block, (size_t)nblocks * 4096));
	memcpy(block, &d, sizeof(d));
	ASSERT(meta__log_peek(block, TAG) == nblocks);
	return meta__log_open(block, BLOCKS, TAG, h) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static struct meta__mut mut[META__TX_RECORDS_MAX];
	struct meta__record_reader r;
	struct meta__log_head h;
	struct meta__part part;
	uint32_t parts = 0;
	uint32_t sum = 0;

	if (size > sizeof(block))
		return 0;
	memset(block, 0, sizeof(block));
	memcpy(block, bytes, size);
	if (!open_block(&h))
		return 0;
	meta__reader_init(&r, block, &h, 64);
	while (meta__reader_next(&r, &part, mut) == 1) {
		ASSERT(++parts <= sizeof(block) / sizeof(struct meta_part_disk));
		ASSERT(part.shard < 64 && part.count > 0);
		for (uint32_t i = 0; i < part.count; i++)
			sum += sum_of(&mut[i]);
	}
	return sum == UINT32_MAX ? 1 : 0; /* so that the bytes are read */
}
