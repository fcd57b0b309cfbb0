/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Files with records, as anybody may write them: tar, TFRecord, npy, npz.  Each record that is
 * found must lie inside the file, and records must not overlap or go back.
 *
 * Input: a byte that says which format, then the file.  Checksums of tar headers and TFRecords are
 * made right when its bit 7 is set, so that what is behind them is reached.
 */
#include "base/crc32c.h"
#include "base/le.h"
#include "client-lib/dataset/dataset_internal.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct file {
	uint8_t *bytes;
	uint64_t size;
	uint64_t end; /* of the last record */
	uint32_t found;
};

#define MUST(what)                                                                                 \
	do {                                                                                       \
		if (!(what))                                                                       \
			__builtin_trap();                                                          \
	} while (0)

static int read_file(void *arg, uint64_t at, uint32_t bytes, void *to)
{
	const struct file *f = arg;

	MUST(at <= f->size && bytes <= f->size - at);
	memcpy(to, f->bytes + at, bytes);
	return 0;
}

static int found(void *arg, uint64_t offset, uint64_t length, const char *member, size_t bytes)
{
	struct file *f = arg;

	MUST(offset >= f->end && offset <= f->size && length <= f->size - offset);
	MUST(bytes > 0 && bytes <= WEKA_MEMBER_MAX && memchr(member, 0, bytes) == NULL);
	f->end = offset + length;
	return ++f->found < 100000 ? 0 : -1; /* rows of no bytes are many */
}

static void tar_mend(struct file *f)
{
	for (uint64_t at = 0; at + 512 <= f->size; at += 512) {
		uint32_t sum = 0;

		memset(f->bytes + at + 148, ' ', 8);
		for (uint32_t i = 0; i < 512; i++)
			sum += f->bytes[at + i];
		if (sum == 8 * ' ')
			memset(f->bytes + at + 148, 0, 8); /* an end */
		else
			for (int i = 0; i < 6; i++)
				f->bytes[at + 148 + i] = (uint8_t)('0' + (sum >> (15 - 3 * i) & 7));
	}
}

static void tfrecord_mend(struct file *f)
{
	uint32_t crc;
	le32 sum;

	if (f->size < 12)
		return;
	crc = crc32c(f->bytes, 8);
	sum = le32_of((crc >> 15 | crc << 17) + 0xa282ead8u);
	memcpy(f->bytes + 8, &sum, sizeof(sum));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int (*const format[])(struct dataset__source *) = { dataset__tar, dataset__tfrecord,
								   dataset__npy, dataset__npz };
	struct file f = { .bytes = malloc(size + 1), .size = size ? size - 1 : 0 };
	struct dataset__source source = { .read = read_file,
					  .arg = &f,
					  .file_bytes = f.size,
					  .found = found,
					  .found_arg = &f,
					  .member = "x" };

	MUST(f.bytes);
	if (size > 1)
		memcpy(f.bytes, data + 1, size - 1);
	if (size && (data[0] & 0x80) && (data[0] & 3) == 0)
		tar_mend(&f);
	if (size && (data[0] & 0x80) && (data[0] & 3) == 1)
		tfrecord_mend(&f);
	source.is_thorough = size && (data[0] & 0x40);
	if (size && format[data[0] & 3](&source) == -EPROTO)
		MUST(source.why[0]);
	free(f.bytes);
	return 0;
}
