/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Records of a TFRecord file (TensorFlow's tfrecord guide, "TFRecords format details"):
 *
 *    | length 8 | masked CRC32C of it 4 | data | masked CRC32C of the data 4 | ...
 *
 * The sample is the data.  A mask of a CRC is its rotation by 15 bits, plus a constant.
 */
#include "client-lib/dataset/dataset_internal.h"

#include "base/crc32c.h"
#include "base/le.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES 65536u

struct head {
	uint8_t length[8];
	uint8_t check[4];
};

static uint32_t masked(uint32_t crc)
{
	return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static uint32_t number4(const uint8_t bytes[4])
{
	le32 v;

	memcpy(&v, bytes, sizeof(v));
	return le32_get(v);
}

/* Compares the data with its checksum. */
static int data_check(struct dataset__source *source, uint64_t at, uint64_t length)
{
	uint8_t *piece = malloc(PIECE_BYTES), check[4];
	uint32_t crc = 0;
	uint64_t done = 0;
	int err = piece ? 0 : -ENOMEM;

	while (!err && done < length) {
		const uint32_t bytes = (uint32_t)min_u64(PIECE_BYTES, length - done);

		err = dataset__get(source, at + done, bytes, piece);
		if (!err)
			crc = done ? crc32c_more(crc, piece, bytes) : crc32c(piece, bytes);
		done += bytes;
	}
	free(piece);
	if (length == 0)
		crc = crc32c("", 0);
	if (!err)
		err = dataset__get(source, at + length, sizeof(check), check);
	if (!err && number4(check) != masked(crc))
		err = dataset__bad(source, "the record at byte %llu is damaged",
				   (unsigned long long)at);
	return err;
}

int dataset__tfrecord(struct dataset__source *source)
{
	uint64_t at = 0, number = 0;

	while (at < source->file_bytes) {
		struct head head;
		uint64_t length;
		char member[24];
		le64 v;
		int err = dataset__get(source, at, sizeof(head), &head);

		if (err)
			return err;
		memcpy(&v, head.length, sizeof(v));
		length = le64_get(v);
		if (number4(head.check) != masked(crc32c(head.length, sizeof(head.length))))
			return dataset__bad(source, "no TFRecord at byte %llu",
					    (unsigned long long)at);
		at += sizeof(head);
		if (source->file_bytes - at < 4 || length > source->file_bytes - at - 4)
			return dataset__bad(source, "record %llu ends after the end of the file",
					    (unsigned long long)number);
		err = source->is_thorough ? data_check(source, at, length) : 0;
		if (err)
			return err;
		snprintf(member, sizeof(member), "%llu", (unsigned long long)number++);
		err = source->found(source->found_arg, at, length, member, strlen(member));
		if (err)
			return err;
		at += length + 4;
		ASSERT(at <= source->file_bytes);
	}
	return 0;
}
