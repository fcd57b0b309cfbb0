/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Manifests and cursors: anybody who may write below WEKA_DATASETS makes them, and a cursor comes
 * out of a checkpoint.  Fields that the parser accepts must lie inside the file, and come back as
 * they were.
 *
 * Input: a byte that says which, then the bytes; the checksum is made right, or left as it is.
 */
#include "base/crc32c.h"
#include "base/le.h"
#include "client-lib/dataset/dataset_internal.h"

#include <stddef.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FIELDS = 132 }; /* bytes of a header before its zeros */

#define MUST(what)                                                                                 \
	do {                                                                                       \
		if (!(what))                                                                       \
			__builtin_trap();                                                          \
	} while (0)

static void sum_mend(uint8_t *bytes, size_t at)
{
	const le32 sum = le32_of(crc32c(bytes, at));

	memcpy(bytes + at, &sum, sizeof(sum));
}

static void record_try(const struct dataset__header *h, const uint8_t *bytes)
{
	uint8_t back[DATASET__RECORD_BYTES];
	struct dataset__record r;

	if (dataset__record_parse(&r, bytes, h))
		return;
	MUST(r.name_bytes > h->root_bytes && r.name_bytes <= WEKA_PATH_MAX);
	MUST(r.name_at + r.name_bytes >= r.name_at && r.name_at + r.name_bytes <= h->names_bytes);
	MUST(r.length_bytes <= h->largest_bytes);
	MUST(r.label == WEKA_NO_LABEL || r.label < h->classes);
	dataset__record_build(back, &r);
	MUST(memcmp(back, bytes, sizeof(back)) == 0);
}

static void manifest_try(uint8_t which, const uint8_t *data, size_t size)
{
	uint8_t bytes[DATASET__HEADER_BYTES] = { 0 };
	uint8_t record[DATASET__RECORD_BYTES] = { 0 };
	struct dataset__header h;
	uint64_t file_bytes;

	/* The fields begin the header, and the records are in the rest. */
	memcpy(bytes, data, size < FIELDS ? size : FIELDS);
	if (size > FIELDS)
		memcpy(record, data + FIELDS,
		       size - FIELDS < sizeof(record) ? size - FIELDS : sizeof(record));
	if (which & 2)
		sum_mend(bytes, sizeof(bytes) - 4);
	memcpy(&file_bytes, bytes + 48, sizeof(file_bytes));
	if (dataset__header_parse(&h, bytes, file_bytes))
		return;
	MUST(h.samples > 0 && h.samples <= DATASET__SAMPLES_MAX);
	MUST(h.names_at + h.names_bytes <= file_bytes && h.names_at >= DATASET__HEADER_BYTES);
	MUST(h.classes_at + h.classes_bytes <= file_bytes);
	record_try(&h, record);
}

static void cursor_try(uint8_t which, const uint8_t *data, size_t size)
{
	struct weka_cursor cursor = { { 0 } }, back;
	struct dataset__place place;

	memcpy(&cursor, data, size < sizeof(cursor) ? size : sizeof(cursor));
	if (which & 2)
		sum_mend(cursor.bytes, 60);
	if (dataset__cursor_parse(&place, &cursor))
		return;
	MUST(place.is_weighted ||
	     place.position <= place.count); /* the weights say how long it is */
	dataset__cursor_build(&back, &place);
	MUST(memcmp(&back, &cursor, sizeof(back)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char names[512];

	if (size < 1)
		return 0;
	if (data[0] & 1)
		manifest_try(data[0], data + 1, size - 1);
	else
		cursor_try(data[0], data + 1, size - 1);
	size = size < sizeof(names) ? size : sizeof(names);
	memcpy(names, data, size);
	MUST(dataset__classes_count(names, size) == UINT32_MAX || names[size - 1] == 0);
	return 0;
}
