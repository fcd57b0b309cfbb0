/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* How many drives, cores and links feed some accelerators: arithmetic over measured figures. */
#ifndef BENCH_MLPERF_SIZE_H
#define BENCH_MLPERF_SIZE_H

#include "bench/mlperf/mlperf.h"

struct size_input {
	const struct mlperf_workload *workload;
	enum mlperf_accelerator accelerator;
	uint32_t accelerators;
	double link_bits_per_s;
	double link_use; /* part of a link that payload gets: 0.95 */
	double drive_bytes_per_s, drive_reads_per_s, drive_bytes;
	double drive_use;        /* part of a drive that files get: 0.88 */
	double core_reads_per_s; /* of 4 KiB, that one core serves */
	double core_bytes_per_s; /* of large reads                 */
	double core_use;         /* part of a core's time: 0.8     */
};

struct size_result {
	double bytes_per_s, samples_per_s;
	double reads_per_s, read_bytes; /* of the appliance's drives and core: files, or ranges */
	double dataset_bytes;
	double cores_exact;
	uint32_t links, cores;
	uint32_t drives_by_bytes, drives_by_reads, drives_by_size, drives; /* the largest */
};

void size_compute(const struct size_input *in, struct size_result *out);

#endif
