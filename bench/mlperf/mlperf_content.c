/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The bytes of a dataset's files, made piece by piece as they are written.
 *
 *   file = record ... record        one for npz and jpeg
 *   record = [prefix] head | sample | tail [suffix]
 *
 * Samples are random bytes, the same for all files but for the stamp of the file, which is at the
 * start of its first sample.  npz and TFRecord files are whole: numpy and TensorFlow read them.
 * jpeg and parquet files have the right sizes and begin and end as such files do; nothing decodes
 * them.
 */
#include "base/crc32c.h"
#include "base/num.h"
#include "bench/bench.h"
#include "bench/mlperf/mlperf_content.h"

#include <isa-l.h>
#include <stdlib.h>
#include <string.h>

#define NOISE (1u << 20)

struct mlperf_content {
	struct target_content base;
	const struct mlperf_workload *workload;
	uint64_t samples_per_file;
	uint64_t file; /* whose shape and frame these are; UINT64_MAX: none */
	struct mlperf_shape shape;
	struct mlperf__frame frame;
	uint64_t record; /* that is in the buffer; UINT64_MAX: none */
	uint8_t *buffer; /* a record                            */
	uint64_t buffer_bytes;
	uint8_t noise[NOISE];
};

static void add_noise(const struct mlperf_content *c, uint64_t at, uint8_t *out, uint64_t count)
{
	while (count > 0) {
		uint64_t n = min_u64(count, NOISE - at % NOISE);

		memcpy(out, c->noise + at % NOISE, n);
		out += n;
		at += n;
		count -= n;
	}
}

/* Bytes [at, at + count) of a sample; the first one of a file has its stamp. */
static void sample_bytes(const struct mlperf_content *c, bool first, uint64_t at, uint8_t *out,
			 uint64_t count)
{
	const uint64_t stamp = target_stamp(c->file);

	add_noise(c, at, out, count);
	for (uint64_t i = at; first && i < sizeof(stamp) && i < at + count; i++)
		out[i - at] = (uint8_t)(stamp >> (8 * i));
}

/* numpy reads the checksum of the array before the array. */
static uint32_t npz_crc(const struct mlperf_content *c)
{
	uint8_t piece[4096];
	uint32_t crc = crc32_gzip_refl(0, c->frame.head + c->frame.head_bytes - 128, 128);
	uint64_t bytes = c->shape.rows * c->shape.columns;

	for (uint64_t at = 0; at < bytes; at += sizeof(piece)) {
		uint64_t n = min_u64(bytes - at, sizeof(piece));

		sample_bytes(c, true, at, piece, n);
		crc = crc32_gzip_refl(crc, piece, n);
	}
	return crc;
}

static void take_file(struct mlperf_content *c, uint64_t file)
{
	const struct mlperf_workload *w = c->workload;

	if (c->file == file)
		return;
	c->file = file;
	c->record = UINT64_MAX;
	mlperf_shape(w, c->samples_per_file, file, &c->shape);
	if (w->layout == MLPERF_NPZ) {
		mlperf__npz_frame(c->shape.rows, c->shape.columns, 0, &c->frame);
		mlperf__npz_frame(c->shape.rows, c->shape.columns, npz_crc(c), &c->frame);
	} else if (w->layout == MLPERF_TFRECORD) {
		uint64_t dimension = 1;

		while ((dimension + 1) * (dimension + 1) <= (uint64_t)w->sample_bytes)
			dimension++;
		mlperf__example_frame(c->shape.rows * c->shape.columns, dimension, &c->frame);
	}
}

/* As TFRecord masks its checksums. */
static uint32_t masked(uint32_t crc)
{
	return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

/* A whole TFRecord, into the buffer. */
static void make_record(struct mlperf_content *c, uint64_t record)
{
	const struct mlperf__frame *f = &c->frame;
	const uint64_t image = c->shape.rows * c->shape.columns;
	const uint64_t length = f->head_bytes + image + f->tail_bytes;
	uint8_t *at = c->buffer;
	uint32_t crc;

	ASSERT(c->shape.record_bytes <= c->buffer_bytes);
	memcpy(at, &length, sizeof(length));
	crc = masked(crc32c(&length, sizeof(length)));
	memcpy(at + 8, &crc, sizeof(crc));
	memcpy(at + 12, f->head, f->head_bytes);
	sample_bytes(c, record == 0, 0, at + 12 + f->head_bytes, image);
	memcpy(at + 12 + f->head_bytes + image, f->tail, f->tail_bytes);
	crc = masked(crc32c(at + 12, length));
	memcpy(at + 12 + length, &crc, sizeof(crc));
	c->record = record;
}

static void fill_records(struct mlperf_content *c, uint64_t offset, uint8_t *out, uint64_t count)
{
	const uint64_t size = c->shape.record_bytes;

	while (count > 0) {
		uint64_t record = offset / size, at = offset % size;
		uint64_t n = min_u64(count, size - at);

		if (c->record != record)
			make_record(c, record);
		memcpy(out, c->buffer + at, n);
		out += n;
		offset += n;
		count -= n;
	}
}

/* Copies the part of `bytes`, which are at `at` of the file, that lies in the piece. */
static void overlay(uint64_t offset, uint8_t *out, uint64_t count, uint64_t at, const void *bytes,
		    uint64_t length)
{
	uint64_t from = max_u64(offset, at), until = min_u64(offset + count, at + length);

	if (from < until)
		memcpy(out + (from - offset), (const uint8_t *)bytes + (from - at), until - from);
}

/* A file of one run of noise, with its ends. */
static void fill_plain(struct mlperf_content *c, uint64_t offset, uint8_t *out, uint64_t count)
{
	const struct mlperf_shape *s = &c->shape;
	const uint64_t stamp = target_stamp(c->file), size = s->file_bytes;

	add_noise(c, offset >= s->data_at ? offset - s->data_at : NOISE - s->data_at + offset, out,
		  count);
	overlay(offset, out, count, s->data_at, &stamp, sizeof(stamp));
	switch (c->workload->layout) {
	case MLPERF_NPZ:
		overlay(offset, out, count, 0, c->frame.head, c->frame.head_bytes);
		overlay(offset, out, count, size - c->frame.tail_bytes, c->frame.tail,
			c->frame.tail_bytes);
		return;
	case MLPERF_JPEG:
		overlay(offset, out, count, 0, "\xff\xd8\xff\xe0\0\x10JFIF", 10);
		overlay(offset, out, count, size - 2, "\xff\xd9", 2);
		return;
	case MLPERF_PARQUET:
	case MLPERF_TFRECORD:
		overlay(offset, out, count, 0, "PAR1", 4);
		overlay(offset, out, count, size - 4, "PAR1", 4);
		return;
	}
}

static void fill(const struct target_content *content, uint64_t file, uint64_t offset, uint8_t *out,
		 uint64_t count)
{
	/* The writer's own: it remembers the file that it was asked for last. */
	struct mlperf_content *c = (struct mlperf_content *)(uintptr_t)content;

	take_file(c, file);
	if (c->workload->layout == MLPERF_TFRECORD)
		fill_records(c, offset, out, count);
	else
		fill_plain(c, offset, out, count);
}

int mlperf_content_create(struct mlperf_content **out, const struct mlperf_workload *w,
			  uint64_t samples_per_file)
{
	struct mlperf_content *c = calloc(1, sizeof(*c));
	struct rand_state rand = { .at = 1 };

	*out = c;
	if (!c)
		return bench_fail("out of memory");
	c->base.fill = fill;
	c->workload = w;
	c->samples_per_file = samples_per_file;
	c->file = UINT64_MAX;
	c->buffer_bytes = w->layout == MLPERF_TFRECORD ? 2 * (uint64_t)w->sample_bytes + 1024 : 1;
	c->buffer = malloc(c->buffer_bytes);
	for (uint32_t i = 0; i < NOISE; i++)
		c->noise[i] = (uint8_t)(rand_u64(&rand) >> 32);
	if (c->buffer)
		return 0;
	free(c);
	*out = NULL;
	return bench_fail("out of memory");
}

void mlperf_content_destroy(struct mlperf_content *c)
{
	if (!c)
		return;
	free(c->buffer);
	free(c);
}

const struct target_content *mlperf_content_of(const struct mlperf_content *c)
{
	return &c->base;
}
