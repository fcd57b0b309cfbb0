/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Names and sizes of files, as DLIO makes them: dlio_benchmark/data_generator/ of
 * github.com/argonne-lcf/dlio_benchmark.
 *
 *   record_length -> dimension = int(sqrt(record_length)), its deviation likewise;
 *   a sample is a matrix of d1 x d2 bytes, both drawn with that deviation
 *
 * DLIO draws from numpy's generator with seed 10; we draw from our own, so files of workloads with
 * a deviation have sizes of the same distribution, not the same sizes.
 */
#include "bench/mlperf/mlperf.h"
#include "bench/mlperf/mlperf_content.h"
#include "base/num.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SEED 10u /* as DLIO's */

static const char *const extension[] = {
	[MLPERF_NPZ] = "npz",
	[MLPERF_TFRECORD] = "tfrecord",
	[MLPERF_JPEG] = "jpeg",
	[MLPERF_PARQUET] = "parquet",
};

static uint32_t digits(uint64_t v)
{
	uint32_t n = 1;

	while (v >= 10) {
		v /= 10;
		n++;
	}
	return n;
}

void mlperf_file_name(const struct mlperf_workload *w, uint64_t files, uint64_t file,
		      char out[TARGET_PATH_MAX])
{
	snprintf(out, TARGET_PATH_MAX, "train/%s_%0*llu_of_%llu.%s", w->prefix, (int)digits(files),
		 (unsigned long long)file, (unsigned long long)files, extension[w->layout]);
}

/* From the normal distribution, by Box and Muller. */
static double draw_normal(struct rand_state *rand, double mean, double stdev)
{
	double u = (double)(rand_u64(rand) >> 11) / 9007199254740992.0;
	double v = (double)(rand_u64(rand) >> 11) / 9007199254740992.0;

	return mean + stdev * sqrt(-2 * log(1 - u)) * cos(2 * M_PI * v);
}

static uint64_t draw_dimension(struct rand_state *rand, double dimension, double stdev)
{
	double d = stdev > 0 ? draw_normal(rand, dimension, stdev) : dimension;

	return d < 1 ? 1 : (uint64_t)d;
}

/* Bytes of a parquet file; its rows are samples. */
static uint64_t parquet_bytes(const struct mlperf_workload *w, uint64_t samples_per_file)
{
	uint64_t groups = samples_per_file / w->row_group;
	struct mlperf_column c;
	uint32_t columns = 0;

	ASSERT(groups * w->row_group == samples_per_file);
	while (mlperf_column(w, columns, &c))
		columns++;
	return 4 + groups * (mlperf__row_group_bytes(w) + columns * MLPERF__FOOTER) + 8;
}

static void frame_size(const struct mlperf_workload *w, uint64_t samples_per_file,
		       struct mlperf_shape *out)
{
	const uint64_t image = out->rows * out->columns;
	struct mlperf__frame f;

	switch (w->layout) {
	case MLPERF_NPZ:
		mlperf__npz_frame(out->rows, out->columns, 0, &f);
		out->record_bytes = f.head_bytes + image + f.tail_bytes;
		out->data_at = f.head_bytes;
		break;
	case MLPERF_TFRECORD:
		mlperf__example_frame(image, (uint64_t)sqrt(w->sample_bytes), &f);
		out->record_bytes =
			MLPERF__TF_PREFIX + f.head_bytes + image + f.tail_bytes + MLPERF__TF_SUFFIX;
		out->data_at = MLPERF__TF_PREFIX + f.head_bytes;
		break;
	case MLPERF_JPEG: /* an image of that size, however it is packed */
		out->record_bytes = (uint64_t)w->sample_bytes;
		out->data_at = 20;
		break;
	case MLPERF_PARQUET:
		out->record_bytes = (uint64_t)w->sample_bytes;
		out->file_bytes = parquet_bytes(w, samples_per_file);
		out->data_at = 4 + MLPERF__PAGE_HEADER;
		return;
	}
	out->file_bytes = out->record_bytes * samples_per_file;
}

void mlperf_shape(const struct mlperf_workload *w, uint64_t samples_per_file, uint64_t file,
		  struct mlperf_shape *out)
{
	const double dimension = floor(sqrt(w->sample_bytes));
	const double stdev = w->sample_stdev_bytes / 2 / sqrt(w->sample_bytes);
	struct rand_state rand = { .at = SEED + (file << 20) };

	*out = (struct mlperf_shape){ 0 };
	out->rows = draw_dimension(&rand, dimension, stdev);
	out->columns = draw_dimension(&rand, dimension, stdev);
	frame_size(w, samples_per_file, out);
}

/* ---- parquet --------------------------------------------------------------------------------- */

uint64_t mlperf__row_group_bytes(const struct mlperf_workload *w)
{
	struct mlperf_column c;
	uint64_t bytes = 0;

	for (uint32_t i = 0; mlperf_column(w, i, &c); i++)
		bytes += MLPERF__PAGE_HEADER + c.bytes * w->row_group;
	return bytes;
}

uint64_t mlperf__column_at(const struct mlperf_workload *w, uint64_t group, uint32_t i)
{
	uint64_t at = 4 + group * mlperf__row_group_bytes(w);
	struct mlperf_column c;

	for (uint32_t before = 0; before < i; before++) {
		bool found = mlperf_column(w, before, &c);

		ASSERT(found);
		at += MLPERF__PAGE_HEADER + c.bytes * w->row_group;
	}
	return at + MLPERF__PAGE_HEADER;
}
