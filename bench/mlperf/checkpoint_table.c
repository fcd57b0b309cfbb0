/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The models, and their files.
 *
 * Sources: Submission_guidelines.md of github.com/mlcommons/storage (sizes, processes, parallelism,
 * ZeRO stages), its configs/dlio/workload/llama3_8b.yaml and the like (layers), and
 * dlio_benchmark/checkpointing/base_checkpointing.py (names; who writes what).
 */
#include "bench/mlperf/checkpoint.h"
#include "base/num.h"

#include <stdio.h>
#include <string.h>

#define MODEL_PART     (2.0 / 14)
#define OPTIMIZER_PART (12.0 / 14)

const struct checkpoint_model checkpoint_models[] = {
	{ "llama3-8b", 105e9, 8, 1, 1, 8, 3, 32 },
	{ "llama3-70b", 912e9, 64, 8, 1, 8, 3, 80 },
	{ "llama3-405b", 5290e9, 512, 8, 32, 2, 1, 126 },
	{ "llama3-1t", 18000e9, 1024, 8, 64, 2, 1, 128 },
};

const uint32_t checkpoint_model_count = ARRAY_LEN(checkpoint_models);

const struct checkpoint_model *checkpoint_find(const char *name)
{
	for (uint32_t i = 0; i < checkpoint_model_count; i++)
		if (strcmp(checkpoint_models[i].name, name) == 0)
			return &checkpoint_models[i];
	return NULL;
}

/* The layers of a pipeline stage: as many each, the first stages one more if they do not divide. */
static void layers_of(const struct checkpoint_model *m, uint32_t stage, uint32_t *first,
		      uint32_t *count)
{
	uint32_t each = m->layers / m->pipeline, more = m->layers % m->pipeline;

	*count = each + (stage < more);
	*first = stage * each + min_u32(stage, more) + 1;
}

bool checkpoint_file(const struct checkpoint_model *m, uint32_t rank, uint32_t i,
		     struct checkpoint_file *out)
{
	const uint32_t model_ranks = m->tensor * m->pipeline, model_rank = rank % model_ranks;
	const uint32_t data_rank = rank / model_ranks;
	uint32_t first, count;

	ASSERT(rank < m->ranks);
	if (i == 0) {
		snprintf(out->name, sizeof(out->name), "zero_pp_rank_%u_mp_rank_%u_optim_states.pt",
			 data_rank, model_rank);
		out->bytes = m->bytes * OPTIMIZER_PART / m->ranks;
		return true;
	}
	if (m->zero_stage == 3) {
		snprintf(out->name, sizeof(out->name), "zero_pp_rank_%u_mp_rank_%u_model_states.pt",
			 data_rank, model_rank);
		out->bytes = m->bytes * MODEL_PART / m->ranks;
		return i == 1;
	}
	layers_of(m, model_rank / m->tensor, &first, &count);
	if (data_rank > 0 || i > count)
		return false;
	snprintf(out->name, sizeof(out->name), "layer_%u-model_%u_model_states.pt", first + i - 1,
		 model_rank);
	out->bytes = m->bytes * MODEL_PART / (m->layers * m->tensor);
	return true;
}
