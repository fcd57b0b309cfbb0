/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* MLPerf Storage's constants, to the digit, against a copy that was typed on its own. */
#include "bench/mlperf/mlperf.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* workload; sample, deviation; files x samples; read threads; floor; batch and seconds of a step on
 * V100, A100, H100, B200 */
static const char copy[] =
	"unet3d 146600628 68341808 168x1 4 0.9 4:1.3604 7:0.636 7:0.323 7:0.162\n"
	"resnet50 114660.07 0 1024x1251 8 0.9 64:0.195 400:0.435 400:0.224 -\n"
	"cosmoflow 2828486 71311 524288x1 4 0.7 1:0.00936 1:0.00551 1:0.0035 -\n"
	"bert 2500 0 500x313532 1 0.9 48:0.968 - - -\n"
	"retinanet 322957 0 1170301x1 8 0.85 - - - 24:0.04755\n"
	"flux 2164832 0 4296x288 8 0.9 - - - 48:1.35\n"
	"dlrm 761 0 1024x4718592 4 0.7 - - - 16384:0.000375\n";

Test(bench_mlperf_table, constants_are_those_of_mlperf)
{
	char *text = NULL;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);

	for (uint32_t i = 0; i < mlperf_workload_count; i++) {
		const struct mlperf_workload *w = &mlperf_workloads[i];

		fprintf(f, "%s %.10g %.10g %llux%llu %u %g", w->name, w->sample_bytes,
			w->sample_stdev_bytes, (unsigned long long)w->files,
			(unsigned long long)w->samples_per_file, w->read_threads, w->au_floor);
		for (uint32_t a = 0; a < MLPERF_ACCELERATORS; a++)
			if (w->on[a].batch)
				fprintf(f, " %u:%g", w->on[a].batch, w->on[a].compute_s);
			else
				fprintf(f, " -");
		fprintf(f, "\n");
	}
	fclose(f);
	cr_assert_str_eq(text, copy);
	free(text);
}

/* GB/s that one accelerator takes: samples x batch / compute, with three digits. */
/* Returns the GB/s that one accelerator takes, in three digits; good until the next call. */
static const char *need(const char *name, const char *accelerator)
{
	static char text[16];

	(void)snprintf(text, sizeof(text), "%.3g",
		       mlperf_need(mlperf_find(name), mlperf_find_accelerator(accelerator)) / 1e9);
	return text;
}

Test(bench_mlperf_table, an_accelerator_takes_what_batch_and_compute_say)
{
	cr_assert_str_eq(need("unet3d", "v100"), "0.431");
	cr_assert_str_eq(need("unet3d", "a100"), "1.61");
	cr_assert_str_eq(need("unet3d", "h100"), "3.18");
	cr_assert_str_eq(need("unet3d", "b200"), "6.33");
	cr_assert_str_eq(need("resnet50", "v100"), "0.0376");
	cr_assert_str_eq(need("resnet50", "a100"), "0.105");
	cr_assert_str_eq(need("resnet50", "h100"), "0.205");
	cr_assert_str_eq(need("cosmoflow", "v100"), "0.302");
	cr_assert_str_eq(need("cosmoflow", "a100"), "0.513");
	cr_assert_str_eq(need("cosmoflow", "h100"), "0.808");
	cr_assert_str_eq(need("retinanet", "b200"), "0.163");
	cr_assert_str_eq(need("flux", "b200"), "0.077");
	cr_assert_str_eq(need("dlrm", "b200"), "6.99"); /* of the columns that are read */
}

/* 200 columns of 761 bytes a row, of which 40 with 160 bytes are read; 5 of 2,164,832, all read. */
Test(bench_mlperf_table, columns_add_up_to_a_row)
{
	const char *const name[] = { "dlrm", "flux" };
	const uint64_t want[][4] = { { 200, 761, 40, 160 }, { 5, 2164832, 5, 2164832 } };

	for (uint32_t i = 0; i < 2; i++) {
		const struct mlperf_workload *w = mlperf_find(name[i]);
		uint64_t got[4] = { 0 };
		struct mlperf_column c;

		for (; mlperf_column(w, (uint32_t)got[0], &c); got[0]++) {
			got[1] += c.bytes;
			got[2] += c.read;
			got[3] += c.read ? c.bytes : 0;
		}
		for (uint32_t j = 0; j < 4; j++)
			cr_assert_eq(got[j], want[i][j], "%s, figure %u: %llu", name[i], j,
				     (unsigned long long)got[j]);
	}
}
