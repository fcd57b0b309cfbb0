/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The bytes around a sample: of an npz file, as numpy.savez(x=..., y=[0]) writes it, and of a
 * TFRecord, as TensorFlow serialises tf.train.Example.
 *
 *   npz:  local header, x.npy's header | array | local header, y.npy | central directory
 */
#include "base/num.h"
#include "bench/mlperf/mlperf_content.h"

#include <isa-l.h>
#include <stdio.h>
#include <string.h>

#define NPY_HEADER 128u
#define ZIP_LOCAL  55u /* header, a name of 5 bytes, the sizes of ZIP64 */

static uint8_t *put_le(uint8_t *at, uint64_t v, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		*at++ = (uint8_t)(v >> (8 * i));
	return at;
}

static uint8_t *put_text(uint8_t *at, const char *text, size_t bytes)
{
	memcpy(at, text, bytes);
	return at + bytes;
}

static uint8_t *put_npy_header(uint8_t *at, const char *dict)
{
	size_t n = strlen(dict);

	ASSERT(n < NPY_HEADER - 11);
	at = put_text(at, "\x93NUMPY\x01\x00", 8);
	at = put_le(at, NPY_HEADER - 10, 2);
	memset(at, ' ', NPY_HEADER - 10);
	memcpy(at, dict, n);
	at[NPY_HEADER - 11] = '\n';
	return at + NPY_HEADER - 10;
}

static uint8_t *put_zip_local(uint8_t *at, const char *name, uint32_t crc32, uint64_t bytes)
{
	at = put_le(at, 0x04034b50, 4);
	at = put_le(at, 45, 2);         /* ZIP64                                  */
	at = put_le(at, 0, 4);          /* flags; stored                          */
	at = put_le(at, 0x00210000, 4); /* 1 January 1980                        */
	at = put_le(at, crc32, 4);
	at = put_le(at, UINT64_MAX, 8); /* the sizes are in the extra field      */
	at = put_le(at, strlen(name), 2);
	at = put_le(at, 20, 2);
	at = put_text(at, name, strlen(name));
	at = put_le(at, 1, 2);
	at = put_le(at, 16, 2);
	at = put_le(at, bytes, 8);
	return put_le(at, bytes, 8);
}

static uint8_t *put_zip_central(uint8_t *at, const char *name, uint32_t crc32, uint64_t bytes,
				uint64_t offset)
{
	at = put_le(at, 0x02014b50, 4);
	at = put_le(at, 45 | 3 << 8, 2); /* made on Unix */
	at = put_le(at, 45, 2);
	at = put_le(at, 0, 4);
	at = put_le(at, 0x00210000, 4);
	at = put_le(at, crc32, 4);
	at = put_le(at, bytes, 4);
	at = put_le(at, bytes, 4);
	at = put_le(at, strlen(name), 2);
	at = put_le(at, 0, 8);           /* extra, comment, disk, attributes    */
	at = put_le(at, 0600u << 16, 4); /* mode                                */
	at = put_le(at, offset, 4);
	return put_text(at, name, strlen(name));
}

void mlperf__npz_frame(uint64_t rows, uint64_t columns, uint32_t crc32, struct mlperf__frame *out)
{
	const uint64_t x_bytes = NPY_HEADER + rows * columns, y_bytes = NPY_HEADER + 8;
	uint8_t *at = put_zip_local(out->head, "x.npy", crc32, x_bytes), *y;
	char dict[100];
	uint32_t y_crc;

	ASSERT(x_bytes < UINT32_MAX);
	snprintf(dict, sizeof(dict),
		 "{'descr': '|u1', 'fortran_order': False, 'shape': (%llu, %llu, 1), }",
		 (unsigned long long)rows, (unsigned long long)columns);
	out->head_bytes = (uint32_t)(put_npy_header(at, dict) - out->head);
	ASSERT(out->head_bytes == ZIP_LOCAL + NPY_HEADER);

	y = out->tail + ZIP_LOCAL;
	at = put_npy_header(y, "{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }");
	at = put_le(at, 0, 8);
	y_crc = crc32_gzip_refl(0, y, y_bytes);
	(void)put_zip_local(out->tail, "y.npy", y_crc, y_bytes);
	at = put_zip_central(at, "x.npy", crc32, x_bytes, 0);
	at = put_zip_central(at, "y.npy", y_crc, y_bytes, ZIP_LOCAL + x_bytes);
	at = put_le(at, 0x06054b50, 4);
	at = put_le(at, 0, 4);
	at = put_le(at, 2, 2);
	at = put_le(at, 2, 2);
	at = put_le(at, 2 * 51, 4);
	at = put_le(at, 2 * ZIP_LOCAL + x_bytes + y_bytes, 4);
	at = put_le(at, 0, 2);
	out->tail_bytes = (uint32_t)(at - out->tail);
}

/* ---- protocol buffers ------------------------------------------------- */

static uint32_t varint_bytes(uint64_t v)
{
	uint32_t n = 1;

	while (v >= 128) {
		v >>= 7;
		n++;
	}
	return n;
}

static uint8_t *put_varint(uint8_t *at, uint64_t v)
{
	while (v >= 128) {
		*at++ = (uint8_t)(v | 128);
		v >>= 7;
	}
	*at++ = (uint8_t)v;
	return at;
}

/* A tag and a length, before that many bytes. */
static uint8_t *put_field(uint8_t *at, uint32_t number, uint64_t bytes)
{
	*at++ = (uint8_t)(number << 3 | 2);
	return put_varint(at, bytes);
}

static uint64_t field_bytes(uint64_t bytes)
{
	return 1 + varint_bytes(bytes) + bytes;
}

/*
 *	Example{1: Features{1: entry{1: "image", 2: Feature{1: BytesList{1: the image}}},
 *			    1: entry{1: "size", 2: Feature{3: Int64List{1: size}}}}}
 */
void mlperf__example_frame(uint64_t image_bytes, uint64_t size, struct mlperf__frame *out)
{
	const uint64_t list = field_bytes(image_bytes), feature = field_bytes(list);
	const uint64_t image = field_bytes(5) + field_bytes(feature);
	const uint64_t number = varint_bytes(size), size_list = field_bytes(number);
	const uint64_t size_entry = field_bytes(4) + field_bytes(field_bytes(size_list));
	uint8_t *at = put_field(out->head, 1, field_bytes(image) + field_bytes(size_entry));

	at = put_field(at, 1, image);
	at = put_field(at, 1, 5);
	at = put_text(at, "image", 5);
	at = put_field(at, 2, feature);
	at = put_field(at, 1, list);
	at = put_field(at, 1, image_bytes);
	out->head_bytes = (uint32_t)(at - out->head);

	at = put_field(out->tail, 1, size_entry);
	at = put_field(at, 1, 4);
	at = put_text(at, "size", 4);
	at = put_field(at, 2, field_bytes(size_list));
	at = put_field(at, 3, size_list);
	at = put_field(at, 1, number);
	at = put_varint(at, size);
	out->tail_bytes = (uint32_t)(at - out->tail);
}
