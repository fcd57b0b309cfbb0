/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The output of weka-bench: medians, units, and an object a line for programs. */
#include "bench/bench.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <string.h>

Test(bench_report, median_of_an_odd_count_is_the_middle_one)
{
	const double v[] = { 9, 1, 5 };

	cr_assert_float_eq(bench_median(v, 3), 5, 0);
	cr_assert_float_eq(v[0], 9, 0, "the caller's order stays");
}

Test(bench_report, median_of_an_even_count_lies_between_the_middle_two)
{
	const double v[] = { 4, 1, 2, 100 };

	cr_assert_float_eq(bench_median(v, 4), 3, 0);
	cr_assert_float_eq(bench_median(v, 1), 4, 0);
}

Test(bench_report, rate_is_operations_a_second_and_nothing_without_time)
{
	struct bench_run run = { .ops = 500, .ns = 250000000 };

	cr_assert_float_eq(bench_rate(&run), 2000, 0);
	run.ns = 0;
	cr_assert_float_eq(bench_rate(&run), 0, 0);
}

Test(bench_report, a_field_of_a_status_is_its_number)
{
	const char *text = "{\"log_blocks\":12,\"moved_blocks\":18446744073709551615}";

	cr_assert_eq(bench_field(text, "\"log_blocks\":"), 12);
	cr_assert_eq(bench_field(text, "\"moved_blocks\":"), UINT64_MAX);
	cr_assert_eq(bench_field(text, "\"blocks\":"), 0, "there is none of that name");
}

Test(bench_report, people_get_three_digits_and_a_unit)
{
	static const struct {
		double v;
		const char *text;
	} row[] = {
		{ 0, "0.00" },           { 7.256, "7.26" },   { 42.5, "42.5" },
		{ 999, "999" },          { 999.6, "1.00 K" }, { 12345, "12.3 K" },
		{ 1234567, "1.23 M" },   { 2e9, "2.00 G" },   { 5.5e12, "5.50 T" },
		{ 1.2e18, "1200000 T" },
	};
	char out[16];

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		cr_expect_str_eq(bench_human(out, row[i].v), row[i].text, "%f: %s", row[i].v, out);
}

/* One printed line of a result with two runs; what is printed comes back in `line`. */
static void report(bool json, char line[1024])
{
	static struct bench_result r;
	struct bench_conf conf = { .size_bytes = 4096, .batch = 1, .depth = 32, .json = json };
	FILE *out;

	r = (struct bench_result){
		.conf = &conf,
		.workload = "randread",
		.transport = "shm",
		.runs = 2,
		.ops_per_s = { 1000, 3000 },
		.bytes_per_s = { 4096000, 12288000 },
		.ratio[BENCH_VS_PIPE] = { 0.5, 0.75 },
	};
	stat_hist_reset(&r.hist);
	stat_hist_record(&r.hist, 1500);
	cr_redirect_stdout();
	bench_report(&r);
	out = cr_get_redirected_stdout();
	cr_assert_not_null(fgets(line, 1024, out));
}

Test(bench_report, json_names_what_programs_look_for)
{
	char line[1024];

	report(true, line);
	cr_assert_eq(line[0], '{');
	cr_assert_str_eq(line + strlen(line) - 2, "}\n");
	cr_assert(strstr(line, "\"workload\":\"randread\",\"transport\":\"shm\","), "%s", line);
	cr_assert(strstr(line, "\"ops_per_s\":2000,"), "%s", line);
	cr_assert(strstr(line, "\"bytes_per_s\":8192000,"), "%s", line);
	cr_assert(strstr(line, "\"p50_ns\":1500,\"p99_ns\":1500,"), "%s", line);
	cr_assert(strstr(line, "\"vs_pipe\":0.6250,"), "%s", line);
	cr_assert_null(strstr(line, "vs_posix"), "it was not measured");
}

Test(bench_report, people_get_the_same_in_a_line)
{
	char line[1024];

	report(false, line);
	cr_assert(strstr(line, "randread   shm   2.00 K/s (1.00 K to 3.00 K)"), "%s", line);
	cr_assert(strstr(line, "p50 1.50 us"), "%s", line);
	cr_assert(strstr(line, "vs_pipe 0.6"), "%s", line);
}
