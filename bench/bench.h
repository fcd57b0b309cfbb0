/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * weka-bench - repeatable measurements.
 *
 * A part is a function that works for some seconds and says what it did (struct bench_run).  A
 * measurement is several rounds of a workload's part and of the parts that it is compared with, in
 * turn: w p c w p c.  So a machine whose speed drifts changes all of them, and the printed ratio is
 * the median of the ratios of neighbours.
 *
 *   vs_pipe   the bare pipeline: memcpy on one core, a ring, CRC32C on the other
 *   vs_pair   a bare pair of polled TCP sockets, messages of the same shape: bench_pair.h
 *   vs_copy   memcpy of pieces of that size from 2 GiB into `depth` buffers, one core
 *   vs_bare   the least work with the same queue pair: nvme/driver/nvme_bare.h
 *   vs_posix  open + read + close (or what fits) by system calls on a local directory
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include "base/assert.h"
#include "base/stat.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	BENCH_CONNECT_MAX = 4,
	BENCH_DRIVES_MAX = 16,
	BENCH_THREADS_MAX = 256,
	BENCH_DEAF_MAX = 256,
	BENCH_VS_MAX = 4,
	BENCH_FILLS_MAX = 8
};

struct bench_conf {
	const char *workload;
	const char *drive;                    /* of the appliance that is started: "mem:2G" */
	const char *drives[BENCH_DRIVES_MAX]; /* nvme: all that were named                  */
	uint32_t drive_count;                 /* 0: the default one                         */
	const char *transport;                /* to it: "shm" or "tcp"                      */
	uint32_t own_drives;      /* files beside its socket instead of `drive`; 0: none  */
	uint64_t own_drive_bytes; /* of each                                              */
	bool own_memory;          /* they are mem:, without files                         */
	const char *own_dir;      /* for them, or NULL: in memory                         */
	const char *protect;      /* own drives: as wekactl format takes it               */
	const char *lines;        /* more of its configuration; NULL: none                */
	const char *connect[BENCH_CONNECT_MAX]; /* running appliances instead                 */
	uint32_t connect_count;                 /* 0: start one                               */
	const char *name[BENCH_CONNECT_MAX];    /* epoch --summary: of each in its table      */
	uint32_t name_count;
	const char *key_file;              /* for connect                                */
	const char *vs_dir;                /* a local directory to compare with, or NULL */
	const char *vs_dirs[BENCH_VS_MAX]; /* names: all that were named                 */
	uint32_t vs_count;
	const char *tree;     /* epoch: local files with the same names     */
	const char *prefix;   /* epoch: where they lie on the appliance     */
	const char *phases;   /* names: only these, by comma; NULL: all     */
	uint64_t size_bytes;  /* of one read, or of one file                */
	uint64_t least_bytes; /* names: of the smallest file; size_bytes: of all */
	uint64_t file_bytes;  /* of the large file; 0: what fits            */
	uint64_t files;       /* how many files a directory has             */
	uint64_t cache_bytes; /* of the appliance that is started; 0: its choice */
	uint32_t batch;       /* files a request                            */
	uint32_t depth;       /* requests in flight                         */
	double seconds;       /* of one run                                 */
	uint32_t runs;
	uint32_t epochs;
	bool summary;                   /* epoch: one table, with the disk of this machine   */
	bool verify;                    /* epoch: compare every byte with the local file */
	uint32_t read_percent;          /* nvme: the rest are writes                     */
	uint32_t threads;               /* nvme: polling threads, each on a core         */
	uint32_t lanes;                 /* connections of the client; 0: the library's choice */
	uint32_t sessions;              /* fair: clients, all in one thread              */
	uint32_t deaf;                  /* fair: clients beside them that never reap     */
	uint32_t settle;                /* fair: seconds before it measures beside them  */
	uint32_t fill[BENCH_FILLS_MAX]; /* collect: percent, one run of each kind for each */
	uint32_t fill_count;
	double times;   /* collect: what is written, in capacities           */
	uint32_t rate;  /* collect: reads that are due in a second           */
	uint64_t count; /* nvme: end a run after so many; 0: by time     */
	bool json;
	int core_client; /* processors to pin to; -1: not pinned */
	int core_appliance;
};

/* Result of one run.  `hist`: nanoseconds of one request, from submit until it is completed. */
struct bench_run {
	uint64_t ops;
	uint64_t bytes;
	uint64_t ns;
	uint64_t instructions; /* of the threads that worked, user mode; 0: nobody can count */
	uint64_t cycles;
	struct stat_hist *hist; /* the measurement's; NULL: not wanted */
};

enum { BENCH_RUNS_MAX = 99 };

enum bench_role {
	BENCH_WORK,
	BENCH_VS_PIPE,
	BENCH_VS_PAIR,
	BENCH_VS_COPY,
	BENCH_VS_BARE,
	BENCH_VS_POSIX,
	BENCH_ROLES
};

/* run: 0, or non-zero after a line on stderr.  NULL: this is not measured. */
struct bench_part {
	int (*run)(void *ctx, double seconds, struct bench_run *run);
	void *ctx;
};

struct bench_result {
	const struct bench_conf *conf;
	const char *workload;
	const char *transport; /* "none" where nothing crosses */
	uint32_t runs;
	double ops_per_s[BENCH_RUNS_MAX];
	double bytes_per_s[BENCH_RUNS_MAX];
	double ratio[BENCH_ROLES][BENCH_RUNS_MAX]; /* to each role; 0: not measured */
	uint64_t checked_bytes; /* compared with their source; 0: none                    */
	uint64_t instructions;  /* of all counted runs, as in struct bench_run             */
	uint64_t cycles;
	uint64_t ops;       /* of all counted runs                                     */
	uint64_t preempted; /* how often our thread had to yield: other work ran here */
	struct stat_hist hist;
};

/* ---- bench_measure.c ------------------------------------------------------------- */

/* Warms all parts up, runs them in turn, reports.  0, or non-zero after a line on stderr. */
must_check int bench_measure(const struct bench_conf *conf, const char *workload,
			     const char *transport, const struct bench_part part[BENCH_ROLES]);

/* ---- bench_report.c -------------------------------------------------------------- */

/* Machine, commit, variant, conditions: before anything is measured. */
void bench_report_head(const struct bench_conf *conf);
/* Median, spread, percentiles and ratios: a line for people, or a JSON object. */
void bench_report(const struct bench_result *r);
double bench_median(const double *v, uint32_t count);
double bench_rate(const struct bench_run *run); /* operations a second; 0 when no time passed */
/* 1234567 -> "1.23 M": into 16 bytes, which it returns. */
const char *bench_human(char out[16], double v);

/* ---- bench_pipe.c ---------------------------------------------------------------- */

struct bench_pipe;
/* Memory (2 GiB, and depth buffers) and a pinned thread that sleeps between runs. */
must_check int bench_pipe_create(struct bench_pipe **out, uint64_t size_bytes, uint32_t depth,
				 bool sequential, const struct bench_conf *conf);
must_check int bench__pipe_create(struct bench_pipe **out, uint64_t source_bytes,
				  uint64_t size_bytes, uint32_t depth, bool sequential,
				  const struct bench_conf *conf);
int bench_pipe_run(void *pipe, double seconds, struct bench_run *run);
/* Only the copying, on the calling thread. */
int bench_copy_run(void *pipe, double seconds, struct bench_run *run);
/* The memory that is copied from, for others to copy from. */
const uint8_t *bench_pipe_source(const struct bench_pipe *p, uint64_t *bytes);
void bench_pipe_destroy(struct bench_pipe *p);

/* ---- bench_posix.c --------------------------------------------------------------- */

/* Files of `size_bytes` in DIR/weka-bench.PID, made and read once, so warm.  On failure too the
 * caller destroys *out, which may be NULL. */
struct bench_posix;
must_check int bench_posix_create(struct bench_posix **out, const char *dir, uint64_t files,
				  uint64_t size_bytes);
int bench_posix_read_run(void *posix, double seconds, struct bench_run *run);
int bench_posix_create_run(void *posix, double seconds, struct bench_run *run);
/* 4 KiB and the like from one large file, by pread. */
must_check int bench_posix_large(struct bench_posix **out, const char *dir, uint64_t file_bytes,
				 uint64_t size_bytes, bool sequential);
int bench_posix_pread_run(void *posix, double seconds, struct bench_run *run);
/* ... written from its start, each piece on the drive when the call returns (O_DSYNC). */
int bench_posix_pwrite_run(void *posix, double seconds, struct bench_run *run);
void bench_posix_destroy(struct bench_posix *p);

/* ---- workloads: 0, or non-zero after a line on stderr ----------------------------- */

int bench_workload_pipe(const struct bench_conf *conf);
int bench_workload_nvme(const struct bench_conf *conf);
int bench_workload_fabric(const struct bench_conf *conf);
int bench_workload_ping(const struct bench_conf *conf);
int bench_workload_randread(const struct bench_conf *conf);
int bench_workload_seqread(const struct bench_conf *conf);
int bench_workload_seqwrite(const struct bench_conf *conf);
int bench_workload_smallfile(const struct bench_conf *conf);
int bench_workload_stream(const struct bench_conf *conf);
int bench_workload_create(const struct bench_conf *conf);
int bench_workload_names(const struct bench_conf *conf);
int bench_workload_rates(const struct bench_conf *conf);
int bench_workload_lone(const struct bench_conf *conf);
int bench_workload_epoch(const struct bench_conf *conf);
int bench_workload_fair(const struct bench_conf *conf);
int bench_workload_collect(const struct bench_conf *conf);

/* ---- bench_count.c: the processor's counters, where it has some and lets us ---------- */

struct bench_count {
	int instructions_fd; /* -1: cannot be counted */
	int cycles_fd;
};

/* Counts the calling thread in user mode, from now on. */
void bench_count_begin(struct bench_count *c);
void bench_count_end(struct bench_count *c, uint64_t *instructions, uint64_t *cycles);

/* ---- bench_util.c ----------------------------------------------------------------- */

/* The number behind `name` in an appliance's status, such as "\"log_blocks\":"; 0: it has none. */
uint64_t bench_field(const char *text, const char *name);
void bench_pin(int core); /* this thread; -1: leave it */
void bench_unpin(void);   /* it may run where it could before */
__attribute__((format(printf, 1, 2))) int bench_fail(const char *fmt, ...); /* prints; returns 1 */

/* From now on the first SIGINT, SIGTERM or SIGHUP is only noted, so that what runs can end and
 * clean up; the second one ends the program. */
void bench_catch_signals(void);
bool bench_interrupted(void);

#endif
