/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A dataset, scaled to what fits, and making it. */
#include "base/num.h"
#include "bench/bench.h"
#include "bench/mlperf/mlperf.h"

#include <stdio.h>
#include <string.h>

#define FILES_LEAST 4u /* of a scaled dataset, before files become smaller */
#define GROUP_BYTES (32u << 20)
#define GROUP_MAX   256u

/* The mean size of a file, from some. */
static double mean_file_bytes(const struct mlperf_workload *w, uint64_t samples_per_file)
{
	const uint32_t count = w->sample_stdev_bytes > 0 ? 64 : 1;
	struct mlperf_shape s;
	double sum = 0;

	for (uint32_t i = 0; i < count; i++) {
		mlperf_shape(w, samples_per_file, i, &s);
		sum += (double)s.file_bytes;
	}
	return sum / count;
}

/* Fewer samples a file, where a file alone is too large; parquet: whole row groups. */
static uint64_t scale_samples(const struct mlperf_workload *w, double file_bytes_max)
{
	const uint64_t unit = w->row_group ? w->row_group : 1;
	const double unit_bytes = mean_file_bytes(w, unit);
	const uint64_t units = (uint64_t)(file_bytes_max / unit_bytes);

	return min_u64(w->samples_per_file, max_u64(units, 1) * unit);
}

void mlperf_dataset_scale(struct mlperf_dataset *d, const struct mlperf_workload *w,
			  uint64_t bytes_max)
{
	struct mlperf_shape s;
	double full = mean_file_bytes(w, w->samples_per_file) * (double)w->files;

	*d = (struct mlperf_dataset){ .workload = w };
	snprintf(d->dir, sizeof(d->dir), "%s", w->name);
	d->samples_per_file = scale_samples(w, (double)bytes_max / FILES_LEAST);
	do { /* as many files as fit; their number is in no size */
		mlperf_shape(w, d->samples_per_file, d->files, &s);
		if (d->files > 0 && d->bytes + s.file_bytes > bytes_max)
			break;
		d->bytes += s.file_bytes;
		d->files++;
	} while (d->files < w->files);
	d->scale = (double)d->bytes / full;
}

int mlperf_dataset_make(const struct mlperf_dataset *d, struct target_session *s)
{
	struct target_group *g = target_groups_create(1, GROUP_MAX);
	char dir[TARGET_PATH_MAX], name[TARGET_PATH_MAX];
	struct mlperf_content *content = NULL;
	int err = g ? 0 : 1;

	snprintf(dir, sizeof(dir), "%s/train", d->dir);
	if (!err)
		err = target_mkdir(s, d->dir) || target_mkdir(s, dir);
	if (!err)
		err = mlperf_content_create(&content, d->workload, d->samples_per_file);
	for (uint64_t file = 0; !err && file < d->files && !bench_interrupted();) {
		uint64_t bytes = 0;

		g->op = TARGET_PUT;
		g->count = 0;
		while (g->count < GROUP_MAX && file < d->files && bytes < GROUP_BYTES) {
			struct target_io *io = &g->io[g->count++];
			struct mlperf_shape shape;

			mlperf_shape(d->workload, d->samples_per_file, file, &shape);
			mlperf_file_name(d->workload, d->files, file, name);
			snprintf(io->path, sizeof(io->path), "%s/%.64s", d->dir, name);
			io->file = file++;
			io->length_bytes = shape.file_bytes;
			io->content = mlperf_content_of(content);
			bytes += shape.file_bytes;
		}
		err = target_do(s, g);
		if (err)
			(void)bench_fail("cannot make %s: %s", g->io[0].path, strerror(-err));
	}
	mlperf_content_destroy(content);
	target_groups_destroy(g);
	return err ? 1 : 0;
}
