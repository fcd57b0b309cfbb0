/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The checkpoints of MLPerf Storage: the files of each rank, and their sizes.
 *
 *   ZeRO 3 (8B, 70B)     each rank: its part of the optimizer's state, its part of the model
 *   ZeRO 1 (405B, 1T)    each rank: its part of the optimizer's state; the ranks of the first
 *                        data-parallel group also the layers of their pipeline stage, a file each
 */
#ifndef BENCH_MLPERF_CHECKPOINT_H
#define BENCH_MLPERF_CHECKPOINT_H

#include "bench/target/target.h"

struct checkpoint_model {
	const char *name;
	double bytes; /* of a whole checkpoint, by the rules         */
	uint32_t ranks;
	uint32_t tensor, pipeline, data; /* parallelism              */
	uint32_t zero_stage;
	uint32_t layers;
};

extern const struct checkpoint_model checkpoint_models[];
extern const uint32_t checkpoint_model_count;
const struct checkpoint_model *checkpoint_find(const char *name);

struct checkpoint_file {
	char name[80]; /* as DLIO names it, below the checkpoint's directory */
	double bytes;
};

/* File `i` of a rank; false: it has no more.  fp16 model and fp32 optimizer: 2 and 12 of 14 bytes
 * of a parameter. */
bool checkpoint_file(const struct checkpoint_model *m, uint32_t rank, uint32_t i,
		     struct checkpoint_file *out);

#endif
