/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * weka-bench - numbers that can be made again.
 *
 * A workload is a function that works for some seconds and says what it did
 * (struct bench_run).  A measurement is several runs of it, and of what it is compared
 * with, in turn: w r w r w r.  So a machine whose speed drifts moves both, and the
 * ratio that is printed is the median of the ratios of neighbours.
 *
 *   vs_pipe   the bare pipeline: memcpy on one core, a ring, CRC32C on the other
 *   vs_copy   memcpy of pieces of that size from 2 GiB into `depth` buffers, one core
 *   vs_posix  open + read + close (or what fits) by system calls on a local directory
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include "base/assert.h"
#include "base/stat.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bench_conf {
	const char *workload;
	const char *drive;     /* of the appliance that is started: "mem:2G"   */
	const char *transport; /* "shm" or "tcp"                               */
	const char *connect;   /* the address of a running appliance, or NULL  */
	const char *key_file;  /* for connect                                  */
	const char *vs_dir;    /* a local directory to compare with, or NULL   */
	uint64_t size_bytes;   /* of one read, or of one file                  */
	uint64_t files;        /* how many files a tree has                    */
	uint32_t batch;        /* files a request                              */
	uint32_t depth;        /* requests in flight                           */
	double seconds;        /* of one run                                   */
	uint32_t runs;
	bool write; /* nvme: write instead of read                  */
	bool json;
	int core_client; /* processors to pin to                         */
	int core_appliance;
};

/* What one run did.  `hist`: nanoseconds of one request, from submit to its completion in hand. */
struct bench_run {
	uint64_t ops;
	uint64_t bytes;
	uint64_t ns;
	struct stat_hist *hist; /* the measurement's; NULL: not wanted */
};

enum { BENCH_RUNS_MAX = 99 };

/* A measurement: runs of a workload, and of its reference beside them. */
struct bench_result {
	const struct bench_conf *conf;
	const char *workload;
	uint32_t runs;
	double ops_per_s[BENCH_RUNS_MAX];
	double bytes_per_s[BENCH_RUNS_MAX];
	double ratio_pipe[BENCH_RUNS_MAX]; /* 0: not measured */
	double ratio_copy[BENCH_RUNS_MAX];
	double ratio_posix[BENCH_RUNS_MAX];
	struct stat_hist hist;
};

/* ---- bench_report.c ------------------------------------------------------------- */

/* Machine, commit, variant, conditions: before anything is measured. */
void bench_report_head(const struct bench_conf *conf);
/* Median, spread, percentiles and ratios: a line for people, or a JSON object. */
void bench_report(const struct bench_result *r);
double bench_median(const double *v, uint32_t count);
double bench_rate(const struct bench_run *run); /* operations a second */

/* ---- bench_pipe.c ---------------------------------------------------------------- */

struct bench_pipe;
/* Memory (2 GiB, and depth buffers) and two pinned threads that sleep between runs. */
must_check int bench_pipe_create(struct bench_pipe **out, uint64_t size_bytes, uint32_t depth,
				 bool sequential, const struct bench_conf *conf);
void bench_pipe_run(struct bench_pipe *p, double seconds, struct bench_run *run);
/* Only the copying, on the calling thread. */
void bench_copy_run(struct bench_pipe *p, double seconds, struct bench_run *run);
void bench_pipe_destroy(struct bench_pipe *p);

/* ---- bench_posix.c ---------------------------------------------------------------- */

/* A tree of files of `size_bytes` under DIR/weka-bench.PID, made and read once, so warm. */
struct bench_posix;
must_check int bench_posix_create(struct bench_posix **out, const char *dir, uint64_t files,
				  uint64_t size_bytes);
void bench_posix_read_run(struct bench_posix *p, double seconds, struct bench_run *run);
void bench_posix_create_run(struct bench_posix *p, double seconds, struct bench_run *run);
/* 4 KiB and the like from one large file, by pread. */
must_check int bench_posix_large(struct bench_posix **out, const char *dir, uint64_t file_bytes,
				 uint64_t size_bytes);
void bench_posix_pread_run(struct bench_posix *p, double seconds, bool sequential,
			   struct bench_run *run);
void bench_posix_destroy(struct bench_posix *p);

/* ---- workloads: 0, or non-zero after a line on stderr --------------------------------- */

int bench_workload_pipe(const struct bench_conf *conf);
int bench_workload_nvme(const struct bench_conf *conf);
int bench_workload_randread(const struct bench_conf *conf);
int bench_workload_seqread(const struct bench_conf *conf);
int bench_workload_smallfile(const struct bench_conf *conf);
int bench_workload_create(const struct bench_conf *conf);
int bench_workload_epoch(const struct bench_conf *conf);

/* ---- bench_util.c ----------------------------------------------------------------- */

void bench_pin(int core); /* this thread; -1: leave it */
__attribute__((format(printf, 1, 2))) int bench_fail(const char *fmt, ...); /* prints; returns 1 */

#endif
