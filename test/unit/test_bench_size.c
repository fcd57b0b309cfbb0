/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Drives, cores and links, computed by hand. */
#include "bench/mlperf/size.h"

#include <criterion/criterion.h>

static struct size_input input(const char *workload, const char *accelerator, uint32_t count)
{
	return (struct size_input){ .workload = mlperf_find(workload),
				    .accelerator = mlperf_find_accelerator(accelerator),
				    .accelerators = count,
				    .link_bits_per_s = 100e9,
				    .link_use = 0.8,
				    .drive_bytes_per_s = 5e9,
				    .drive_reads_per_s = 1e6,
				    .drive_bytes = 10e12,
				    .drive_use = 0.5,
				    .core_reads_per_s = 100e3,
				    .core_bytes_per_s = 4e9,
				    .core_use = 0.5 };
}

/* 100 B200: 2,103 steps a second of 24 files of 322,957 bytes: 50,473 files/s, 16.3 GB/s.  A link
 * carries 10 GB/s.  A file takes 10 + 80.7 us of a core: 4.58 cores, at half use 9.16.  A drive has
 * 5 GB/s; the dataset of 378 GB fits on one. */
Test(bench_size, small_files)
{
	struct size_input in = input("retinanet", "b200", 100);
	struct size_result r;

	size_compute(&in, &r);
	cr_assert_float_eq(r.reads_per_s, 100 / 0.04755 * 24, 1e-6);
	cr_assert_float_eq(r.read_bytes, 322957, 1e-6);
	cr_assert_float_eq(r.bytes_per_s, 100 / 0.04755 * 24 * 322957, 1);
	cr_assert_float_eq(r.samples_per_s, r.reads_per_s, 1e-6);
	cr_assert_eq(r.links, 2);
	cr_assert_float_eq(r.cores_exact, 100 / 0.04755 * 24 * (1 / 100e3 + 322957 / 4e9) / 0.5,
			   1e-6);
	cr_assert_eq(r.cores, 10);
	cr_assert_eq(r.drives_by_bytes, 4);
	cr_assert_eq(r.drives_by_reads, 1);
	cr_assert_eq(r.drives_by_size, 1);
	cr_assert_eq(r.drives, 4);
}

/* DLRM reads 40 chunks of 6,144 rows for each of 8 row groups in 3 steps: 106.7 reads a step. */
Test(bench_size, column_chunks)
{
	struct size_input in = input("dlrm", "b200", 1);
	struct size_result r;

	size_compute(&in, &r);
	cr_assert_float_eq(r.reads_per_s, 8 * 40 / 3.0 / 0.000375, 1e-3);
	cr_assert_float_eq(r.bytes_per_s, 8 * 6144 * 160 / 3.0 / 0.000375, 1);
	cr_assert_eq(r.links, 1);
	cr_assert_eq(r.drives_by_size, 1, "3.7 TB on a drive of which 5 TB are for files");
}
