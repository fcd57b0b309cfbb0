/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The constants of MLPerf Storage, in one table.
 *
 * Source: configs/dlio/workload/ of github.com/mlcommons/storage, which DLIO
 * (github.com/argonne-lcf/dlio_benchmark) reads: num_files_train, num_samples_per_file,
 * record_length, batch_size, read_threads, computation_time, metric.au.  The floor of accelerator
 * utilisation and what it is made of are in its Submission_guidelines.md.  test_bench_mlperf_table
 * compares each digit with a copy of its own.
 *
 * Columns of parquet files, a letter each: i int8, h float16, f float32, d float64; capital: it is
 * read.  A number before the letter: so many of them.
 */
#include "base/num.h"
#include "bench/mlperf/mlperf.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define DLRM_COLUMNS                                                                               \
	"hhddfhfihifFdfihfFFhDdddhFfhhfdFdfhhdiiihFhFdidddFfiiFffifHFdhdifhiFHfhFhfFDhifd"         \
	"iiffhihiFiFFHFDdFHihhdhfdhhfdfddihhiIDfihhiiihiifihfdhhdhFddhFiidfdFddiiidDFfiFh"         \
	"FhFhdhdhfIdhidiiiihhIdddhdIihFdidfdFfddh"

/* t5_encodings, clip_encodings, mean, logvar, timestamp */
#define FLUX_COLUMNS "524328F409F8232F8232F7F"

const struct mlperf_workload mlperf_workloads[] = {
	{ .name = "unet3d",
	  .versions = "0.5 to 3.0",
	  .layout = MLPERF_NPZ,
	  .prefix = "img",
	  .sample_bytes = 146600628,
	  .sample_stdev_bytes = 68341808,
	  .files = 168,
	  .samples_per_file = 1,
	  .read_threads = 4,
	  .prefetch = 2,
	  .epochs = 5,
	  .au_floor = 0.90,
	  .on = { { 4, 1.3604 }, { 7, 0.636 }, { 7, 0.323 }, { 7, 0.162 } } },
	{ .name = "resnet50",
	  .versions = "1.0 to 2.0; what-if in 3.0",
	  .layout = MLPERF_TFRECORD,
	  .prefix = "img",
	  .sample_bytes = 114660.07,
	  .files = 1024,
	  .samples_per_file = 1251,
	  .read_threads = 8,
	  .prefetch = 2,
	  .epochs = 5,
	  .au_floor = 0.90,
	  .transfer_bytes = 262144,
	  .on = { { 64, 0.195 }, { 400, 0.435 }, { 400, 0.224 }, { 0, 0 } } },
	{ .name = "cosmoflow",
	  .versions = "1.0 to 2.0; what-if in 3.0",
	  .layout = MLPERF_TFRECORD,
	  .prefix = "img",
	  .sample_bytes = 2828486,
	  .sample_stdev_bytes = 71311,
	  .files = 524288,
	  .samples_per_file = 1,
	  .read_threads = 4,
	  .prefetch = 2,
	  .epochs = 5,
	  .au_floor = 0.70,
	  .on = { { 1, 0.00936 }, { 1, 0.00551 }, { 1, 0.00350 }, { 0, 0 } } },
	{ .name = "bert",
	  .versions = "0.5",
	  .layout = MLPERF_TFRECORD,
	  .prefix = "part",
	  .sample_bytes = 2500,
	  .files = 500,
	  .samples_per_file = 313532,
	  .read_threads = 1,
	  .prefetch = 2,
	  .epochs = 1,
	  .au_floor = 0.90,
	  .transfer_bytes = 262144,
	  .on = { { 48, 0.968 }, { 0, 0 }, { 0, 0 }, { 0, 0 } } },
	{ .name = "retinanet",
	  .versions = "3.0",
	  .layout = MLPERF_JPEG,
	  .prefix = "img",
	  .sample_bytes = 322957,
	  .files = 1170301,
	  .samples_per_file = 1,
	  .read_threads = 8,
	  .prefetch = 2,
	  .epochs = 8,
	  .au_floor = 0.85,
	  .on = { { 0, 0 }, { 0, 0 }, { 0, 0 }, { 24, 0.04755 } } },
	{ .name = "flux",
	  .versions = "3.0, what-if",
	  .layout = MLPERF_PARQUET,
	  .prefix = "img",
	  .sample_bytes = 2164832,
	  .files = 4296,
	  .samples_per_file = 288,
	  .read_threads = 8,
	  .prefetch = 2,
	  .epochs = 1,
	  .au_floor = 0.90,
	  .row_group = 288,
	  .columns = FLUX_COLUMNS,
	  .on = { { 0, 0 }, { 0, 0 }, { 0, 0 }, { 48, 1.35 } } },
	{ .name = "dlrm",
	  .versions = "3.0, what-if",
	  .layout = MLPERF_PARQUET,
	  .prefix = "img",
	  .sample_bytes = 761,
	  .files = 1024,
	  .samples_per_file = 4718592,
	  .read_threads = 4,
	  .prefetch = 2,
	  .epochs = 1,
	  .au_floor = 0.70,
	  .row_group = 6144,
	  .columns = DLRM_COLUMNS,
	  .on = { { 0, 0 }, { 0, 0 }, { 0, 0 }, { 16384, 0.000375 } } },
};

const uint32_t mlperf_workload_count = ARRAY_LEN(mlperf_workloads);

const struct mlperf_workload *mlperf_find(const char *name)
{
	for (uint32_t i = 0; i < mlperf_workload_count; i++)
		if (strcmp(mlperf_workloads[i].name, name) == 0)
			return &mlperf_workloads[i];
	return NULL;
}

static const char *const accelerator_names[MLPERF_ACCELERATORS] = { "v100", "a100", "h100",
								    "b200" };

const char *mlperf_accelerator_name(enum mlperf_accelerator a)
{
	ASSERT(a < MLPERF_ACCELERATORS);
	return accelerator_names[a];
}

enum mlperf_accelerator mlperf_find_accelerator(const char *name)
{
	uint32_t a = 0;

	while (a < MLPERF_ACCELERATORS && strcmp(accelerator_names[a], name) != 0)
		a++;
	return a;
}

static uint64_t type_bytes(char letter)
{
	switch (tolower((unsigned char)letter)) {
	case 'i':
		return 1;
	case 'h':
		return 2;
	case 'f':
		return 4;
	default:
		ASSERT(tolower((unsigned char)letter) == 'd');
		return 8;
	}
}

bool mlperf_column(const struct mlperf_workload *w, uint32_t i, struct mlperf_column *out)
{
	const char *at = w->columns;
	uint64_t count = 1;

	for (; at && *at; at++, i--) {
		count = 1;
		if (isdigit((unsigned char)*at)) {
			char *end;

			count = strtoull(at, &end, 10);
			at = end;
		}
		if (i == 0)
			break;
	}
	if (!at || !*at)
		return false;
	out->bytes = count * type_bytes(*at);
	out->read = isupper((unsigned char)*at) != 0;
	return true;
}

double mlperf_need(const struct mlperf_workload *w, enum mlperf_accelerator a)
{
	double sample = w->sample_bytes;
	struct mlperf_column c;

	ASSERT(w->on[a].batch > 0);
	if (w->columns)
		sample = 0;
	for (uint32_t i = 0; w->columns && mlperf_column(w, i, &c); i++)
		sample += c.read ? (double)c.bytes : 0;
	return sample * w->on[a].batch / w->on[a].compute_s;
}
