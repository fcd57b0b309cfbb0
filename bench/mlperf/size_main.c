/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * weka-bench size: what one needs to feed accelerators, with the arithmetic.
 *
 * Per-core figures come from the output of weka-bench compare --json on the machine in question
 * (--measured), or are those of bench/RESULTS.md: over TCP, an Intel server of 2026.
 */
#include "bench/bench.h"
#include "bench/command.h"
#include "bench/mlperf/size.h"
#include "bench/report/args.h"
#include "bench/report/report.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define CORE_READS 450e3             /* bench/RESULTS.md, Reads: tcp, 256 names of 4 KiB */
#define CORE_BYTES (37.8e3 * 131072) /* the same: tcp, 128 KiB in order */

struct conf {
	struct size_input in;
	bool accelerator_given;
	const char *measured, *target;
};

enum { OPT_DRIVE_BYTES = 2048, OPT_DRIVE_READS, OPT_DRIVE_SIZE, OPT_CORE_READS, OPT_CORE_BYTES };

static const struct argp_option options[] = {
	{ "accelerator", 'a', "NAME", 0, "v100, a100, h100 or b200 (the newest that it has)", 0 },
	{ "count", 'c', "N", 0, "accelerators (8)", 0 },
	{ "link", 'l', "GBIT", 0, "a network link, Gbit/s (400)", 0 },
	{ "drive-bandwidth", OPT_DRIVE_BYTES, "GB/S", 0, "reads of a drive, GB/s (12)", 0 },
	{ "drive-reads", OPT_DRIVE_READS, "N", 0, "random reads a second of a drive (2000000)", 0 },
	{ "drive-size", OPT_DRIVE_SIZE, "TB", 0, "a drive (15.36)", 0 },
	{ "core-reads", OPT_CORE_READS, "N", 0, "files of 4 KiB that a core serves a second", 0 },
	{ "core-bandwidth", OPT_CORE_BYTES, "GB/S", 0, "large reads that a core serves, GB/s", 0 },
	{ "measured", 'm', "FILE", 0, "take a core's figures from compare --json", 0 },
	{ "target", 't', "NAME", 0, "... of that target, as the file names it", 0 },
	{ NULL, 0, NULL, 0, NULL, 0 },
};

static error_t parse_drive(int key, const char *arg, struct argp_state *state)
{
	struct conf *c = state->input;

	switch (key) {
	case OPT_DRIVE_BYTES:
		c->in.drive_bytes_per_s = args_real(state, arg, 0.001, 1e6) * 1e9;
		return 0;
	case OPT_DRIVE_READS:
		c->in.drive_reads_per_s = args_real(state, arg, 1, 1e12);
		return 0;
	case OPT_DRIVE_SIZE:
		c->in.drive_bytes = args_real(state, arg, 0.001, 1e6) * 1e12;
		return 0;
	case OPT_CORE_READS:
		c->in.core_reads_per_s = args_real(state, arg, 1, 1e12);
		return 0;
	case OPT_CORE_BYTES:
		c->in.core_bytes_per_s = args_real(state, arg, 0.001, 1e6) * 1e9;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct conf *c = state->input;

	switch (key) {
	case 'a':
		c->in.accelerator = mlperf_find_accelerator(arg);
		c->accelerator_given = true;
		if (c->in.accelerator == MLPERF_ACCELERATORS)
			argp_error(state, "'%s' is none of v100, a100, h100, b200", arg);
		return 0;
	case 'c':
		c->in.accelerators = (uint32_t)args_number(state, arg, 1, 10000000);
		return 0;
	case 'l':
		c->in.link_bits_per_s = args_real(state, arg, 0.1, 1e5) * 1e9;
		return 0;
	case 'm':
		c->measured = arg;
		return 0;
	case 't':
		c->target = arg;
		return 0;
	case ARGP_KEY_ARG:
		c->in.workload = mlperf_find(arg);
		if (!c->in.workload)
			argp_error(state,
				   "'%s' is no workload; unet3d, resnet50, cosmoflow, bert, "
				   "retinanet, flux or dlrm",
				   arg);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "name a workload");
		return EINVAL;
	default:
		return parse_drive(key, arg, state);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "WORKLOAD",
	.doc = "Compute the drives, cores and links that feed accelerators of MLPerf Storage, from "
	       "measured figures of a core.",
};

/* Returns the rate of one core of the target's server, by a figure's name; 0: it is not there. */
static double per_core(const struct report *r, const char *target, const char *name)
{
	for (uint32_t i = 0; i < r->count; i++) {
		const struct figure *f = &r->figure[i];

		if (strcmp(f->name, name) == 0 && f->cpu_server > 0.01 &&
		    (!target || strcmp(f->target, target) == 0))
			return figure_median(f) / f->cpu_server;
	}
	return 0;
}

static int take_measured(struct conf *c)
{
	struct report r;
	int err = report_read(&r, c->measured);

	if (!err) {
		c->in.core_reads_per_s = per_core(&r, c->target, "files of 4 KiB by name");
		c->in.core_bytes_per_s = per_core(&r, c->target, "in order, pieces of 1 MiB");
		if (c->in.core_reads_per_s <= 0 || c->in.core_bytes_per_s <= 0)
			err = bench_fail("%s has no such figures with the server's CPU time%s%s",
					 c->measured, c->target ? " of " : "",
					 c->target ? c->target : "");
	}
	report_free(&r);
	return err;
}

static void print(const struct size_input *in, const struct size_result *r)
{
	const double link = in->link_bits_per_s / 8 * in->link_use;
	const struct mlperf_workload *w = in->workload;
	char a[16], b[16], c[16], d[16];

	printf("%u x %s, %s: a step of %u samples in %g s\n", in->accelerators,
	       mlperf_accelerator_name(in->accelerator), w->name, w->on[in->accelerator].batch,
	       w->on[in->accelerator].compute_s);
	printf("needs    %sB/s = %s samples/s = %s reads/s of %sB; "
	       "%.1f GB/s at the floor of %.0f %%\n",
	       bench_human(a, r->bytes_per_s), bench_human(b, r->samples_per_s),
	       bench_human(c, r->reads_per_s), bench_human(d, r->read_bytes),
	       r->bytes_per_s * w->au_floor / 1e9, w->au_floor * 100);
	printf("links    %u = %sB/s / (%g Gbit/s / 8 x %g = %sB/s)\n", r->links,
	       bench_human(a, r->bytes_per_s), in->link_bits_per_s / 1e9, in->link_use,
	       bench_human(b, link));
	printf("cores    %u = %s reads/s x (1 / %s/s + %sB / %sB/s) / %g\n", r->cores,
	       bench_human(a, r->reads_per_s), bench_human(b, in->core_reads_per_s),
	       bench_human(c, r->read_bytes), bench_human(d, in->core_bytes_per_s), in->core_use);
	printf("drives   %u = the most of %u by bandwidth (%.3g GB/s each), "
	       "%u by reads (%s/s each), %u by size (%.3g TB of %.4g TB x %g)\n",
	       r->drives, r->drives_by_bytes, in->drive_bytes_per_s / 1e9, r->drives_by_reads,
	       bench_human(a, in->drive_reads_per_s), r->drives_by_size, r->dataset_bytes / 1e12,
	       in->drive_bytes / 1e12, in->drive_use);
	printf("There is no redundancy in this: a file is on one drive.\n");
}

int command_size(int argc, char **argv)
{
	struct conf c = { .in = { .accelerators = 8,
				  .link_bits_per_s = 400e9,
				  .link_use = 0.95,
				  .drive_bytes_per_s = 12e9,
				  .drive_reads_per_s = 2e6,
				  .drive_bytes = 15.36e12,
				  .drive_use = 0.88,
				  .core_reads_per_s = CORE_READS,
				  .core_bytes_per_s = CORE_BYTES,
				  .core_use = 0.8 } };
	struct size_result r;

	argp_parse(&argp, argc, argv, 0, NULL, &c);
	for (uint32_t a = 0; a < MLPERF_ACCELERATORS && !c.accelerator_given; a++)
		if (c.in.workload->on[a].batch)
			c.in.accelerator = a;
	if (c.in.workload->on[c.in.accelerator].batch == 0)
		return bench_fail("%s has no %s", c.in.workload->name,
				  mlperf_accelerator_name(c.in.accelerator));
	if (c.measured && take_measured(&c))
		return 1;
	size_compute(&c.in, &r);
	print(&c.in, &r);
	return 0;
}
