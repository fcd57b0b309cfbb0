/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Checkpoints: sizes by the rules of MLPerf Storage, files as DLIO writes them. */
#include "bench/mlperf/checkpoint.h"

#include <criterion/criterion.h>

/* Size in GB, processes, tensor x pipeline x data parallelism, ZeRO stage: typed from the rules. */
static const struct {
	const char *name;
	double gb;
	uint32_t ranks, tensor, pipeline, data, zero;
} rules[] = {
	{ "llama3-8b", 105, 8, 1, 1, 8, 3 },
	{ "llama3-70b", 912, 64, 8, 1, 8, 3 },
	{ "llama3-405b", 5290, 512, 8, 32, 2, 1 },
	{ "llama3-1t", 18000, 1024, 8, 64, 2, 1 },
};

Test(bench_checkpoint, models_are_those_of_the_rules)
{
	cr_assert_eq(checkpoint_model_count, 4);
	for (uint32_t i = 0; i < 4; i++) {
		const struct checkpoint_model *m = checkpoint_find(rules[i].name);

		cr_assert(m);
		cr_assert_float_eq(m->bytes, rules[i].gb * 1e9, 1);
		cr_assert_eq(m->ranks, rules[i].ranks);
		cr_assert_eq(m->tensor * m->pipeline * m->data, m->ranks);
		cr_assert_eq(m->tensor, rules[i].tensor);
		cr_assert_eq(m->pipeline, rules[i].pipeline);
		cr_assert_eq(m->data, rules[i].data);
		cr_assert_eq(m->zero_stage, rules[i].zero);
	}
}

Test(bench_checkpoint, the_files_of_all_ranks_are_the_checkpoint)
{
	struct checkpoint_file f;

	for (uint32_t i = 0; i < checkpoint_model_count; i++) {
		const struct checkpoint_model *m = &checkpoint_models[i];
		double bytes = 0;

		for (uint32_t rank = 0; rank < m->ranks; rank++)
			for (uint32_t file = 0; checkpoint_file(m, rank, file, &f); file++)
				bytes += f.bytes;
		cr_assert_float_eq(bytes / m->bytes, 1, 1e-9, "%s: %g", m->name, bytes);
	}
}

static uint32_t count_files(const struct checkpoint_model *m, uint32_t rank)
{
	struct checkpoint_file f;
	uint32_t n = 0;

	while (checkpoint_file(m, rank, n, &f))
		n++;
	return n;
}

/* 126 layers in 32 stages: 30 of four, 2 of three; the second data-parallel group writes none. */
Test(bench_checkpoint, layers_belong_to_their_stage)
{
	const struct checkpoint_model *m = checkpoint_find("llama3-405b");
	struct checkpoint_file f;

	cr_assert_eq(count_files(m, 0), 1 + 4);
	cr_assert_eq(count_files(m, 31 * 8), 1 + 3);
	cr_assert_eq(count_files(m, 256), 1);
	cr_assert(checkpoint_file(m, 31 * 8 + 5, 3, &f));
	cr_assert_str_eq(f.name, "layer_126-model_253_model_states.pt");
	cr_assert(checkpoint_file(m, 256 + 7, 0, &f));
	cr_assert_str_eq(f.name, "zero_pp_rank_1_mp_rank_7_optim_states.pt");
	cr_assert(checkpoint_file(checkpoint_find("llama3-70b"), 9, 1, &f));
	cr_assert_str_eq(f.name, "zero_pp_rank_1_mp_rank_1_model_states.pt");
}
