/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The order of an epoch: files are shuffled again for each, and handed out one after the other to
 * all readers of all accelerators.  A file with many samples belongs to one reader, which reads it
 * from its start; a parquet file by the column chunks, or parts of them, that its rows need.
 *
 *   whole files   a batch is the next `batch` files
 *   TFRecord      ranges of 256 KiB of the reader's file that cover the next `batch` records
 *   parquet       a batch of at least a row group: whole chunks of the row groups that it begins;
 *                 else the rows of each column
 */
#include "base/num.h"
#include "bench/bench.h"
#include "bench/mlperf/mlperf_content.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void shuffle(struct mlperf_order *o)
{
	for (uint64_t i = o->dataset->files - 1; i > 0; i--) {
		uint64_t j = rand_below(&o->rand, i + 1);
		uint32_t was = o->file[i];

		o->file[i] = o->file[j];
		o->file[j] = was;
	}
	o->next = 0;
	o->epochs++;
}

int mlperf_order_create(struct mlperf_order *o, const struct mlperf_dataset *d, uint64_t seed)
{
	*o = (struct mlperf_order){ .dataset = d, .rand = { .at = seed } };
	o->file = calloc(d->files, sizeof(*o->file));
	if (!o->file)
		return bench_fail("out of memory");
	for (uint64_t i = 0; i < d->files; i++)
		o->file[i] = (uint32_t)i;
	shuffle(o);
	return 0;
}

void mlperf_order_destroy(struct mlperf_order *o)
{
	free(o->file);
	o->file = NULL;
}

static uint64_t next_file(struct mlperf_order *o)
{
	if (o->next == o->dataset->files)
		shuffle(o);
	return o->file[o->next++];
}

static struct target_io *add(const struct mlperf_order *o, struct target_group *g, uint64_t file)
{
	struct target_io *io = &g->io[g->count++];
	char name[TARGET_PATH_MAX];

	ASSERT(g->count <= g->room);
	mlperf_file_name(o->dataset->workload, o->dataset->files, file, name);
	snprintf(io->path, sizeof(io->path), "%s/%.64s", o->dataset->dir, name);
	io->file = file;
	io->stamp = target_stamp(file);
	io->stamp_at = TARGET_STAMP_NONE;
	return io;
}

static void whole_files(struct mlperf_order *o, uint32_t batch, struct target_group *g)
{
	for (uint32_t i = 0; i < batch; i++) {
		uint64_t file = next_file(o);
		struct target_io *io = add(o, g, file);
		struct mlperf_shape s;

		mlperf_shape(o->dataset->workload, o->dataset->samples_per_file, file, &s);
		io->offset_bytes = 0;
		io->length_bytes = s.file_bytes;
		io->stamp_at = s.data_at;
	}
}

/* The reader has a file with samples left. */
static void take_file(struct mlperf_order *o, struct mlperf_reader *r)
{
	if (r->next_sample < o->dataset->samples_per_file)
		return;
	r->file = next_file(o);
	r->next_sample = 0;
	r->next_group = 0;
}

static void records(struct mlperf_order *o, struct mlperf_reader *r, uint32_t batch,
		    struct target_group *g)
{
	const struct mlperf_dataset *d = o->dataset;
	struct mlperf_shape s;

	while (batch > 0) {
		uint64_t n, at, until;

		take_file(o, r);
		mlperf_shape(d->workload, d->samples_per_file, r->file, &s);
		n = min_u64(batch, d->samples_per_file - r->next_sample);
		at = r->next_sample * s.record_bytes;
		until = at + n * s.record_bytes;
		for (; at < until; at += d->workload->transfer_bytes) {
			struct target_io *io = add(o, g, r->file);

			io->offset_bytes = at;
			io->length_bytes = min_u64(until - at, d->workload->transfer_bytes);
			if (at == 0)
				io->stamp_at = s.data_at;
		}
		r->next_sample += n;
		batch -= (uint32_t)n;
	}
}

/* Rows [first, first + count) of a row group, of all columns that are read. */
static void columns(struct mlperf_order *o, const struct mlperf_reader *r, uint64_t group,
		    uint64_t first, uint64_t count, struct target_group *g)
{
	const struct mlperf_workload *w = o->dataset->workload;
	uint64_t at = mlperf__column_at(w, group, 0);
	struct mlperf_column c;

	for (uint32_t i = 0; mlperf_column(w, i, &c); i++) {
		if (c.read) {
			struct target_io *io = add(o, g, r->file);

			io->offset_bytes = at + first * c.bytes;
			io->length_bytes = count * c.bytes;
		}
		at += c.bytes * w->row_group + MLPERF__PAGE_HEADER;
	}
}

static void rows(struct mlperf_order *o, struct mlperf_reader *r, uint32_t batch,
		 struct target_group *g)
{
	const uint64_t group_rows = o->dataset->workload->row_group;
	const bool whole = batch >= group_rows;

	while (batch > 0) {
		uint64_t n, first;

		take_file(o, r);
		first = r->next_sample % group_rows;
		n = min_u64(batch, group_rows - first);
		if (!whole)
			columns(o, r, r->next_sample / group_rows, first, n, g);
		else if (first == 0)
			columns(o, r, r->next_group++, 0, group_rows, g);
		r->next_sample += n;
		batch -= (uint32_t)n;
	}
}

uint32_t mlperf_batch_ios(const struct mlperf_dataset *d, uint32_t batch)
{
	const struct mlperf_workload *w = d->workload;
	struct mlperf_column c;
	struct mlperf_shape s;
	uint32_t read = 0;

	if (w->layout == MLPERF_PARQUET) {
		for (uint32_t i = 0; mlperf_column(w, i, &c); i++)
			read += c.read;
		return read * (uint32_t)(batch / w->row_group + 2);
	}
	if (w->transfer_bytes == 0)
		return batch;
	mlperf_shape(w, d->samples_per_file, 0, &s);
	return (uint32_t)(batch * s.record_bytes / w->transfer_bytes + 2 +
			  2 * (batch / d->samples_per_file + 1));
}

void mlperf_next_batch(struct mlperf_order *o, struct mlperf_reader *r, uint32_t batch,
		       struct target_group *g)
{
	const struct mlperf_workload *w = o->dataset->workload;

	g->op = TARGET_READ;
	g->count = 0;
	g->flags = w->transfer_bytes || w->layout == MLPERF_PARQUET ? TARGET_KEEP_OPEN : 0;
	if (w->layout == MLPERF_PARQUET)
		rows(o, r, batch, g);
	else if (w->transfer_bytes)
		records(o, r, batch, g);
	else
		whole_files(o, batch, g);
}
