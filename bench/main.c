/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * weka-bench WORKLOAD [options]: measures one workload, and its comparisons in turn with it.
 */
#define _GNU_SOURCE
#include "bench/bench.h"
#include "bench/command.h"
#include "bench/report/args.h"
#include "base/num.h"
#include "base/version.h"

#include <argp.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct workload {
	const char *name;
	int (*run)(const struct bench_conf *conf);
	const char *what;
	uint64_t size_bytes; /* defaults */
	uint32_t batch;
	uint32_t depth;
	uint64_t files;
	uint32_t sessions;
	uint32_t runs;
	uint32_t seconds;
	const char *transport;
} workloads[] = {
	{ "pipe", bench_workload_pipe, "the bare pipeline: copy, ring, CRC32C", 4096, 1, 32, 0, 0,
	  5, 2, "shm" },
	{ "nvme", bench_workload_nvme, "blocks of a drive, through the driver", 4096, 1, 32, 0, 0,
	  5, 2, "shm" },
	{ "fabric", bench_workload_fabric,
	  "a transport alone: a table, or --size, --depth, --threads", 0, 1, 32, 0, 0, 5, 2,
	  "shm" },
	{ "ping", bench_workload_ping, "round trips without work", 0, 1, 1, 0, 0, 5, 2, "shm" },
	{ "randread", bench_workload_randread, "random pieces of one large file", 4096, 1, 32, 0, 0,
	  5, 2, "shm" },
	{ "seqread", bench_workload_seqread, "one large file from its start", 128 << 10, 1, 8, 0, 0,
	  5, 2, "shm" },
	{ "seqwrite", bench_workload_seqwrite, "one large file, durable when answered", 1 << 20, 1,
	  8, 0, 0, 5, 2, "shm" },
	{ "smallfile", bench_workload_smallfile, "open + read + close by name, in batches", 4096,
	  256, 4, 100000, 0, 5, 2, "shm" },
	{ "stream", bench_workload_stream, "epochs of a dataset of small files, read ahead", 4096,
	  256, 8, 100000, 0, 5, 2, "shm" },
	{ "create", bench_workload_create, "new files, durable when answered", 1024, 256, 4, 0, 0,
	  5, 2, "shm" },
	{ "names", bench_workload_names, "one directory that grows: rates at each power of ten",
	  100, 256, 4, 100000, 0, 1, 1, "shm" },
	{ "rates", bench_workload_rates,
	  "new files, lookups, listings and removals of small files, with their bars", 1024, 256, 4,
	  30000, 0, 5, 1, "shm" },
	{ "lone", bench_workload_lone,
	  "one blocking call at a time: create, stat, open, unlink, write, records", 0, 1, 1, 0, 0,
	  5, 1, "shm" },
	{ "epoch", bench_workload_epoch, "every file of a tree once, in random order", 0, 256, 4,
	  10000, 0, 5, 2, "shm" },
	{ "fair", bench_workload_fair, "shares of many sessions, alone and beside a hostile one",
	  4096, 1, 4, 0, 256, 1, 30, "tcp" },
	{ "collect", bench_workload_collect,
	  "files made and removed in a full appliance: write amplification", 0, 0, 16, 256, 0, 1, 1,
	  "shm" },
};

/* These have options of their own: weka-bench COMMAND --help. */
static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *what;
} commands[] = {
	{ "mlperf", command_mlperf, "simulated accelerators of MLPerf Storage, over any storage" },
	{ "checkpoint", command_checkpoint, "ranks that save and load checkpoints" },
	{ "kvcache", command_kvcache, "key-value caches of conversations, saved and loaded" },
	{ "compare", command_compare, "large files, small files and names, over several systems" },
	{ "protect", command_protect,
	  "two copies beside one: speed, amplification, a lost drive, its rebuild" },
	{ "report", command_report, "shows the figures of --json, or compares two files of them" },
	{ "size", command_size, "computes the drives, cores and links that accelerators need" },
};

enum { OPT_SUMMARY = 256, OPT_NAME, OPT_SETTLE };

static const struct argp_option options[] = {
	{ "drive", 'd', "NAME", 0,
	  "drive of the appliance that is started (mem:2G); nvme: several, used together", 0 },
	{ "transport", 't', "shm|tcp", 0, "how the client reaches it (shm; fair: tcp)", 0 },
	{ "connect", 'c', "ADDRESS", 0,
	  "use a running appliance instead; with --key (epoch: several, compared)", 0 },
	{ "key", 'k', "FILE", 0, "key file for --connect", 0 },
	{ "size", 's', "N", 0, "bytes of one read or file (K, M, G)", 0 },
	{ "least", 'l', "N", 0, "names: files of that many bytes up to --size", 0 },
	{ "file-bytes", 'F', "N", 0, "size of the large file (7 tenths of the free space)", 0 },
	{ "files", 'f', "N", 0, "files in the directory or tree", 0 },
	{ "cache", 'K', "N", 0, "index cache of the appliance that is started (K, M, G)", 0 },
	{ "batch", 'b', "N", 0, "files a request", 0 },
	{ "depth", 'q', "N", 0, "requests in flight", 0 },
	{ "seconds", 'S', "N", 0, "length of one run (2; fair: 30)", 0 },
	{ "runs", 'r', "N", 0, "counted runs, after one warm-up (5; fair: 1)", 0 },
	{ "vs", 'v', "DIR", 0, "the same with system calls in a local directory, interleaved", 0 },
	{ "tree", 'T', "DIR", 0, "epoch: local files whose names are read (a tree is made)", 1 },
	{ "prefix", 'P', "PATH", 0,
	  "epoch: their directory on the appliance (its root); names: the directory", 1 },
	{ "phases", 'p', "LIST", 0,
	  "names: only these of create,stat,read,list,rename,unlink (all; create: as needed)", 1 },
	{ "epochs", 'E', "N", 0, "epoch: number of epochs, each in its own order (3)", 1 },
	{ "summary", OPT_SUMMARY, NULL, 0,
	  "epoch: one table of medians, beside local files with and without the page cache", 1 },
	{ "name", OPT_NAME, "TEXT", 0, "epoch --summary: a --connect's name in the table, in turn",
	  1 },
	{ "verify", 'V', NULL, 0, "epoch: compare every byte with the local file", 1 },
	{ "write", 'w', NULL, 0, "nvme: write instead of read: destroys the drive's content", 2 },
	{ "reads", 'R', "PERCENT", 0, "nvme: percentage of reads, such as 70; the rest are writes",
	  2 },
	{ "threads", 'n', "N", 0,
	  "nvme: polling threads, each with a queue pair a drive; fabric: connections; names: "
	  "clients (1)",
	  2 },
	{ "lanes", 'L', "N", 0,
	  "with --connect: connections of a session (tcp, rdma: one for each core and address)",
	  2 },
	{ "sessions", 'm', "N", 0, "fair: clients, all driven by one thread (256)", 2 },
	{ "deaf", 'D', "N", 0, "fair: clients beside them that never reap (1)", 2 },
	{ "settle", OPT_SETTLE, "SECONDS", 0,
	  "fair: time between their requests and the measurement beside them (0)", 2 },
	{ "fill", 'u', "PERCENT", 0,
	  "collect: how full it is; several: one after the other (60, 80)", 2 },
	{ "times", 'x', "N", 0, "collect: multiple of the capacity to write (5)", 2 },
	{ "rate", 'a', "N", 0, "collect: reads a second (2000)", 2 },
	{ "count", 'N', "N", 0, "nvme: end a run after N I/Os, not by the clock", 2 },
	{ "json", 'j', NULL, 0, "one JSON object a line", 0 },
	{ "cores", 'C', "A,B", 0, "processors of client and appliance (1,0)", 0 },
	{ NULL, 0, NULL, 0, NULL, 0 },
};

static void cores(struct argp_state *state, const char *arg, struct bench_conf *conf)
{
	if (sscanf(arg, "%d,%d", &conf->core_client, &conf->core_appliance) != 2)
		argp_error(state, "--cores needs two processor numbers, such as 1,0");
}

static void add_fill(struct argp_state *state, const char *arg, struct bench_conf *conf)
{
	if (conf->fill_count == BENCH_FILLS_MAX)
		argp_error(state, "--fill at most %d times", BENCH_FILLS_MAX);
	conf->fill[conf->fill_count++] = (uint32_t)args_number(state, arg, 1, 99);
}

static void add_address(struct argp_state *state, const char *arg, struct bench_conf *conf)
{
	if (strncmp(arg, "shm:", 4) != 0 && strncmp(arg, "tcp://", 6) != 0 &&
	    strncmp(arg, "rdma://", 7) != 0 && strncmp(arg, "tls://", 6) != 0)
		argp_error(state, "--connect needs shm:/PATH, or rdma, tcp or tls://HOST:PORT");
	if (conf->connect_count == BENCH_CONNECT_MAX)
		argp_error(state, "--connect at most %d times", BENCH_CONNECT_MAX);
	conf->connect[conf->connect_count++] = arg;
}

static void add_drive(struct argp_state *state, const char *arg, struct bench_conf *conf)
{
	if (conf->drive_count == BENCH_DRIVES_MAX)
		argp_error(state, "--drive at most %d times", BENCH_DRIVES_MAX);
	conf->drives[conf->drive_count++] = arg;
	conf->drive = arg;
}

/* Options for amounts; 0, or ARGP_ERR_UNKNOWN. */
static error_t parse_amount(int key, const char *arg, struct argp_state *state)
{
	struct bench_conf *conf = state->input;

	switch (key) {
	case 's':
		conf->size_bytes = args_number(state, arg, 1, 64ull << 20);
		return 0;
	case 'l':
		conf->least_bytes = args_number(state, arg, 0, 64ull << 20);
		return 0;
	case 'F':
		conf->file_bytes = args_number(state, arg, 1 << 20, 1ull << 50);
		return 0;
	case 'f':
		conf->files = args_number(state, arg, 1, 1ull << 32);
		return 0;
	case 'K':
		conf->cache_bytes = args_number(state, arg, 4 << 20, 1ull << 40);
		return 0;
	case 'b':
		conf->batch = (uint32_t)args_number(state, arg, 1, 1024);
		return 0;
	case 'q':
		conf->depth = (uint32_t)args_number(state, arg, 1, 256);
		return 0;
	case 'S':
		conf->seconds = args_real(state, arg, 0.01, 3600);
		return 0;
	case 'r':
		conf->runs = (uint32_t)args_number(state, arg, 1, BENCH_RUNS_MAX);
		return 0;
	case 'E':
		conf->epochs = (uint32_t)args_number(state, arg, 1, BENCH_RUNS_MAX);
		return 0;
	case 'R':
		conf->read_percent = (uint32_t)args_number(state, arg, 0, 100);
		return 0;
	case 'n':
		conf->threads = (uint32_t)args_number(state, arg, 1, BENCH_THREADS_MAX);
		return 0;
	case 'L':
		conf->lanes = (uint32_t)args_number(state, arg, 1, 8);
		return 0;
	case 'm':
		conf->sessions = (uint32_t)args_number(state, arg, 1, 4000);
		return 0;
	case 'D':
		conf->deaf = (uint32_t)args_number(state, arg, 1, BENCH_DEAF_MAX);
		return 0;
	case OPT_SETTLE:
		conf->settle = (uint32_t)args_number(state, arg, 0, 3600);
		return 0;
	case 'u':
		add_fill(state, arg, conf);
		return 0;
	case 'x':
		conf->times = args_real(state, arg, 0.1, 1000);
		return 0;
	case 'a':
		conf->rate = (uint32_t)args_number(state, arg, 1, 1000000);
		return 0;
	case 'N':
		conf->count = args_number(state, arg, 1, 1ull << 40);
		return 0;
	case 'C':
		cores(state, arg, conf);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Options for places and ways. */
static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct bench_conf *conf = state->input;

	switch (key) {
	case 'd':
		add_drive(state, arg, conf);
		return 0;
	case 't':
		if (strcmp(arg, "shm") != 0 && strcmp(arg, "tcp") != 0)
			argp_error(state, "--transport is shm or tcp");
		conf->transport = arg;
		return 0;
	case 'c':
		add_address(state, arg, conf);
		return 0;
	case 'k':
		conf->key_file = arg;
		return 0;
	case 'v':
		if (conf->vs_count == BENCH_VS_MAX)
			argp_error(state, "--vs at most %d times", BENCH_VS_MAX);
		conf->vs_dirs[conf->vs_count++] = arg;
		conf->vs_dir = arg;
		return 0;
	case 'T':
		conf->tree = arg;
		return 0;
	case 'P':
		conf->prefix = arg;
		return 0;
	case 'p':
		conf->phases = arg;
		return 0;
	case 'V':
		conf->verify = true;
		return 0;
	case OPT_SUMMARY:
		conf->summary = true;
		return 0;
	case OPT_NAME:
		if (conf->name_count == BENCH_CONNECT_MAX)
			argp_error(state, "--name at most %d times", BENCH_CONNECT_MAX);
		conf->name[conf->name_count++] = arg;
		return 0;
	case 'w':
		conf->read_percent = 0;
		return 0;
	case 'j':
		conf->json = true;
		return 0;
	case ARGP_KEY_ARG:
		if (conf->workload)
			argp_error(state, "give one workload");
		conf->workload = arg;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no workload given (--help lists them)");
		return EINVAL;
	default:
		return parse_amount(key, arg, state);
	}
}

static void print_version(FILE *to, struct argp_state *state)
{
	(void)state;
	fprintf(to, "weka-bench %s (%s, %s)\n", version_text, version_commit, version_variant);
}

static char *list_workloads(int key, const char *text, void *input)
{
	char *out = NULL;
	size_t size;
	FILE *f;

	(void)input;
	if (key != ARGP_KEY_HELP_POST_DOC)
		return (char *)(uintptr_t)text;
	f = open_memstream(&out, &size);
	if (!f)
		return NULL;
	fprintf(f, "Workloads:\n");
	for (size_t i = 0; i < ARRAY_LEN(workloads); i++)
		fprintf(f, "  %-10s %s\n", workloads[i].name, workloads[i].what);
	fprintf(f, "Commands for any storage (weka-bench COMMAND --help):\n");
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		fprintf(f, "  %-10s %s\n", commands[i].name, commands[i].what);
	fclose(f);
	return out;
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "WORKLOAD",
	.doc = "Measure an appliance (one that is started on fresh drives, unless --connect), "
	       "beside the same work by other means.\v",
	.help_filter = list_workloads,
};

/* Returns the n-th CPU that this process may use, or -1. */
static int allowed_cpu(int n)
{
	cpu_set_t cpus;

	if (sched_getaffinity(0, sizeof(cpus), &cpus))
		return -1;
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET((size_t)i, &cpus) && n-- == 0)
			return i;
	return -1;
}

/* A command's messages and its line in reports begin with both words. */
static int run_command(const struct command *c, int argc, char **argv)
{
	static char name[32];

	snprintf(name, sizeof(name), "weka-bench %s", c->name);
	argv[1] = name;
	return c->run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	struct bench_conf conf = {
		.drive = "mem:2G",
		.prefix = "",
		.epochs = 3,
		.read_percent = 100,
		.threads = 1,
		.times = 5,
		.rate = 2000,
		.core_client = allowed_cpu(1),
		.core_appliance = allowed_cpu(1) < 0 ? -1 : allowed_cpu(0),
	};

	for (size_t i = 0; i < ARRAY_LEN(commands) && argc > 1; i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return run_command(&commands[i], argc, argv);
	conf.least_bytes = UINT64_MAX;
	argp_program_version_hook = print_version;
	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, &conf);
	for (size_t i = 0; i < ARRAY_LEN(workloads); i++) {
		const struct workload *w = &workloads[i];

		if (strcmp(conf.workload, w->name) != 0)
			continue;
		conf.size_bytes = conf.size_bytes ? conf.size_bytes : w->size_bytes;
		conf.least_bytes = min_u64(conf.least_bytes, conf.size_bytes);
		conf.batch = conf.batch ? conf.batch : w->batch;
		conf.depth = conf.depth ? conf.depth : w->depth;
		conf.files = conf.files ? conf.files : w->files;
		conf.sessions = conf.sessions ? conf.sessions : w->sessions;
		conf.deaf = conf.deaf ? conf.deaf : 1;
		conf.transport = conf.transport ? conf.transport : w->transport;
		conf.runs = conf.runs ? conf.runs : w->runs;
		conf.seconds = conf.seconds > 0 ? conf.seconds : w->seconds;
		if (conf.drive_count > 1 && strcmp(w->name, "nvme") != 0)
			return bench_fail("%s takes one --drive", w->name);
		if (conf.vs_count > 1 && strcmp(w->name, "names") != 0)
			return bench_fail("%s takes one --vs", w->name);
		bench_report_head(&conf);
		return w->run(&conf);
	}
	return bench_fail("'%s' is not a workload; --help lists them", conf.workload);
}
