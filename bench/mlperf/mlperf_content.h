/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The bytes around the samples of a file: shared by mlperf_layout.c and mlperf_content.c. */
#ifndef BENCH_MLPERF_MLPERF_CONTENT_H
#define BENCH_MLPERF_MLPERF_CONTENT_H

#include "bench/mlperf/mlperf.h"

#define MLPERF__FRAME_MAX   512u
#define MLPERF__TF_PREFIX   12u /* a TFRecord begins with its length and that one's checksum */
#define MLPERF__TF_SUFFIX   4u  /* ... and ends with the checksum of its bytes               */
#define MLPERF__PAGE_HEADER 24u /* of a parquet column chunk: we make one page of each       */
#define MLPERF__FOOTER      96u /* of a parquet file, for each column chunk                  */

/* Bytes that stand before and after others. */
struct mlperf__frame {
	uint32_t head_bytes, tail_bytes;
	uint8_t head[MLPERF__FRAME_MAX], tail[MLPERF__FRAME_MAX];
};

/* An npz file around its array of rows x columns x 1; crc32 is that of x.npy's content. */
void mlperf__npz_frame(uint64_t rows, uint64_t columns, uint32_t crc32, struct mlperf__frame *out);
/* tf.train.Example around an image of `image_bytes`, with the feature `size`. */
void mlperf__example_frame(uint64_t image_bytes, uint64_t size, struct mlperf__frame *out);
/* Offset of column `i` of row group `group` in a parquet file: of its first row. */
uint64_t mlperf__column_at(const struct mlperf_workload *w, uint64_t group, uint32_t i);
uint64_t mlperf__row_group_bytes(const struct mlperf_workload *w);

#endif
