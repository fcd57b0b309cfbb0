/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Prints the results: first the machine and the variant, then a line for each workload.  Rates are
 * medians over the runs with their spread; ratios are medians of the ratios of each run, because
 * the speed of machines drifts, and neighbours drift together.
 */
#include "bench/bench.h"
#include "base/version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void sorted(double *out, const double *v, uint32_t count)
{
	memcpy(out, v, count * sizeof(*v));
	qsort(out, count, sizeof(*v), compare);
}

double bench_median(const double *v, uint32_t count)
{
	double s[BENCH_RUNS_MAX];

	ASSERT(count > 0 && count <= BENCH_RUNS_MAX);
	sorted(s, v, count);
	return count % 2 ? s[count / 2] : (s[count / 2 - 1] + s[count / 2]) / 2;
}

double bench_rate(const struct bench_run *run)
{
	return run->ns ? (double)run->ops * 1e9 / (double)run->ns : 0;
}

static void cpu_name(char out[64])
{
	char line[256];
	FILE *f = fopen("/proc/cpuinfo", "re");

	snprintf(out, 64, "unknown");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "model name : %63[^\n]", out) == 1)
			break;
	if (f)
		fclose(f);
}

void bench_report_head(const struct bench_conf *conf)
{
	struct utsname u;
	char cpu[64];
	long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);

	uname(&u);
	cpu_name(cpu);
	fprintf(conf->json ? stderr : stdout,
		"# %s, %ld processors, %ld GiB, Linux %s; commit %s, %s; %s; runs %u x %.1f s\n",
		cpu, sysconf(_SC_NPROCESSORS_ONLN), (pages / 1024 * page_bytes) >> 20, u.release,
		version_commit, version_variant, COMPILER, conf->runs, conf->seconds);
	fflush(stdout);
}

const char *bench_human(char out[16], double v)
{
	static const char *const unit[] = { "", " K", " M", " G", " T" };
	size_t i = 0;

	while (v >= 999.5 && i < 4) {
		v /= 1000;
		i++;
	}
	snprintf(out, 16, v >= 100 ? "%.0f%s" : v >= 10 ? "%.1f%s" : "%.2f%s", v, unit[i]);
	return out;
}

static const char *const ratio_name[BENCH_ROLES] = {
	[BENCH_VS_PIPE] = "vs_pipe", [BENCH_VS_PAIR] = "vs_pair",   [BENCH_VS_COPY] = "vs_copy",
	[BENCH_VS_BARE] = "vs_bare", [BENCH_VS_POSIX] = "vs_posix",
};

static void print_ratios(const struct bench_result *r, const char *format)
{
	for (uint32_t role = BENCH_WORK + 1; role < BENCH_ROLES; role++)
		if (r->ratio[role][0] > 0)
			printf(format, ratio_name[role], bench_median(r->ratio[role], r->runs));
}

static void report_json(const struct bench_result *r, const double *ops, const double *bytes)
{
	const struct bench_conf *c = r->conf;

	printf("{\"workload\":\"%s\",\"transport\":\"%s\",\"size\":%llu,\"batch\":%u,\"depth\":%u,"
	       "\"runs\":%u,\"ops_per_s\":%.0f,\"ops_per_s_min\":%.0f,\"ops_per_s_max\":%.0f,"
	       "\"bytes_per_s\":%.0f,\"p50_ns\":%llu,\"p99_ns\":%llu,\"p999_ns\":%llu",
	       r->workload, r->transport, (unsigned long long)c->size_bytes, c->batch, c->depth,
	       r->runs, bench_median(ops, r->runs), ops[0], ops[r->runs - 1],
	       bench_median(bytes, r->runs), (unsigned long long)stat_hist_percentile(&r->hist, 50),
	       (unsigned long long)stat_hist_percentile(&r->hist, 99),
	       (unsigned long long)stat_hist_percentile(&r->hist, 99.9));
	print_ratios(r, ",\"%s\":%.4f");
	if (c->drive_count > 0)
		printf(",\"drives\":%u,\"threads\":%u,\"read_percent\":%u", c->drive_count,
		       c->threads, c->read_percent);
	if (r->instructions)
		printf(",\"instructions_per_op\":%.0f,\"cycles_per_op\":%.0f",
		       (double)r->instructions / (double)r->ops,
		       (double)r->cycles / (double)r->ops);
	if (r->checked_bytes)
		printf(",\"checked_bytes\":%llu", (unsigned long long)r->checked_bytes);
	printf(",\"preempted\":%llu", (unsigned long long)r->preempted);
	printf(",\"commit\":\"%s\",\"variant\":\"%s\"}\n", version_commit, version_variant);
}

void bench_report(const struct bench_result *r)
{
	double ops[BENCH_RUNS_MAX], bytes[BENCH_RUNS_MAX];
	char a[16], b[16], lo[16], hi[16];

	sorted(ops, r->ops_per_s, r->runs);
	sorted(bytes, r->bytes_per_s, r->runs);
	if (r->conf->json) {
		report_json(r, ops, bytes);
		fflush(stdout);
		return;
	}
	printf("%-10s %-4s %7s/s (%s to %s)", r->workload, r->transport,
	       bench_human(a, bench_median(ops, r->runs)), bench_human(lo, ops[0]),
	       bench_human(hi, ops[r->runs - 1]));
	if (bytes[r->runs - 1] > 0)
		printf("  %8sB/s", bench_human(b, bench_median(bytes, r->runs)));
	if (stat_hist_count(&r->hist) > 0)
		printf("  p50 %.2f us  p99 %.2f us  p99.9 %.2f us",
		       (double)stat_hist_percentile(&r->hist, 50) / 1000,
		       (double)stat_hist_percentile(&r->hist, 99) / 1000,
		       (double)stat_hist_percentile(&r->hist, 99.9) / 1000);
	if (r->instructions)
		printf("  %.0f instructions, %.0f cycles each",
		       (double)r->instructions / (double)r->ops,
		       (double)r->cycles / (double)r->ops);
	print_ratios(r, "  %s %.2f");
	if ((double)r->preempted > 100 * r->conf->seconds * r->runs)
		printf("  (preempted %llu times: other work ran here)",
		       (unsigned long long)r->preempted);
	printf("\n");
	fflush(stdout);
}
