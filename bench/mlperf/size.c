/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The arithmetic:
 *
 *   steps/s   = accelerators / seconds of a step         what they take when they never wait
 *   bytes/s   = steps/s x bytes of a batch               reads/s likewise, by counting a batch
 *   links     = bytes/s / (link x use)
 *   cores     = reads/s x (1 / reads of a core + bytes of a read / bytes of a core) / use
 *   drives    = the most of: bytes/s, reads/s, and the dataset, over those of a drive
 *
 * A small read costs a core its fixed time, a large one its bytes too: the sum is a little more
 * than either measured figure, on the safe side.
 */
#include "bench/mlperf/size.h"
#include "base/num.h"

#include <math.h>
#include <stdlib.h>

#define BATCHES 48u /* that are counted: parquet row groups do not divide them evenly */

/* Reads and bytes of a batch, on average. */
static void count_batch(const struct mlperf_dataset *d, uint32_t batch, double *reads,
			double *bytes)
{
	struct mlperf_reader r = { .next_sample = UINT64_MAX };
	struct target_group *g = target_groups_create(1, mlperf_batch_ios(d, batch));
	struct mlperf_order o;

	*reads = 0;
	*bytes = 0;
	if (!g || mlperf_order_create(&o, d, 1)) {
		target_groups_destroy(g);
		return;
	}
	for (uint32_t i = 0; i < BATCHES; i++) {
		mlperf_next_batch(&o, &r, batch, g);
		*reads += (double)g->count / BATCHES;
		for (uint32_t j = 0; j < g->count; j++)
			*bytes += (double)g->io[j].length_bytes / BATCHES;
	}
	mlperf_order_destroy(&o);
	target_groups_destroy(g);
}

static uint32_t up(double v)
{
	return (uint32_t)fmax(ceil(v - 1e-9), 1);
}

void size_compute(const struct size_input *in, struct size_result *out)
{
	const uint32_t batch = in->workload->on[in->accelerator].batch;
	const double steps_per_s = in->accelerators / in->workload->on[in->accelerator].compute_s;
	struct mlperf_dataset d;
	double reads, bytes;

	ASSERT(batch > 0);
	*out = (struct size_result){ 0 };
	mlperf_dataset_scale(&d, in->workload, UINT64_MAX);
	count_batch(&d, batch, &reads, &bytes);
	out->samples_per_s = steps_per_s * batch;
	out->bytes_per_s = steps_per_s * bytes;
	out->reads_per_s = steps_per_s * reads;
	out->read_bytes = bytes / reads;
	out->dataset_bytes = (double)d.bytes;
	out->links = up(out->bytes_per_s / (in->link_bits_per_s / 8 * in->link_use));
	out->cores_exact = out->reads_per_s *
			   (1 / in->core_reads_per_s + out->read_bytes / in->core_bytes_per_s) /
			   in->core_use;
	out->cores = up(out->cores_exact);
	out->drives_by_bytes = up(out->bytes_per_s / in->drive_bytes_per_s);
	out->drives_by_reads = up(out->reads_per_s / in->drive_reads_per_s);
	out->drives_by_size = up(out->dataset_bytes / (in->drive_bytes * in->drive_use));
	out->drives =
		max_u32(max_u32(out->drives_by_bytes, out->drives_by_reads), out->drives_by_size);
}
