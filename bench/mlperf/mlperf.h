/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The training workloads of MLPerf Storage: their constants, their datasets, and accelerators that
 * are simulated by sleeping.
 *
 *   dataset -> groups of reads -> target -> batches that are ready -> accelerators that compute
 *   (mlperf_dataset.c)            (bench/target/)                     (mlperf_engine.c)
 *
 * The storage is never told a seed or an order (rule 6.3): it sees names and ranges as they are
 * read, a batch at a time.
 */
#ifndef BENCH_MLPERF_MLPERF_H
#define BENCH_MLPERF_MLPERF_H

#include "base/assert.h"
#include "base/rand.h"
#include "bench/target/target.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- mlperf_table.c: the constants ------------------------------------------------------- */

enum mlperf_accelerator { MLPERF_V100, MLPERF_A100, MLPERF_H100, MLPERF_B200, MLPERF_ACCELERATORS };
enum mlperf_layout { MLPERF_NPZ, MLPERF_TFRECORD, MLPERF_JPEG, MLPERF_PARQUET };

struct mlperf_workload {
	const char *name;
	const char *versions; /* of MLPerf Storage that have it */
	enum mlperf_layout layout;
	const char *prefix;        /* of its files' names                               */
	double sample_bytes;       /* record_length                                     */
	double sample_stdev_bytes; /* 0: all samples have the same size                 */
	uint64_t files;
	uint64_t samples_per_file;
	uint32_t read_threads; /* of each accelerator                                   */
	uint32_t prefetch;     /* batches that all its readers have ahead, at least     */
	uint32_t epochs;
	double au_floor;
	uint64_t transfer_bytes; /* of one read of a file with many samples; 0: whole files */
	uint64_t row_group;      /* parquet: rows                                         */
	const char *columns;     /* parquet: a letter each, see mlperf_table.c            */
	struct {
		uint32_t batch; /* samples of a step; 0: the workload has no such accelerator */
		double compute_s;
	} on[MLPERF_ACCELERATORS];
};

extern const struct mlperf_workload mlperf_workloads[];
extern const uint32_t mlperf_workload_count;
const struct mlperf_workload *mlperf_find(const char *name); /* NULL: unknown */
const char *mlperf_accelerator_name(enum mlperf_accelerator a);
/* Returns MLPERF_ACCELERATORS if no accelerator has this name. */
enum mlperf_accelerator mlperf_find_accelerator(const char *name);
/* Bytes a second that an accelerator takes when it never waits; of the columns that are read. */
double mlperf_need(const struct mlperf_workload *w, enum mlperf_accelerator a);

/* A column of a parquet file. */
struct mlperf_column {
	uint64_t bytes; /* of a row */
	bool read;
};
/* Column `i` of a workload; false: it has no such column. */
bool mlperf_column(const struct mlperf_workload *w, uint32_t i, struct mlperf_column *out);

/* ---- mlperf_layout.c: files as DLIO makes them ------------------------------------------- */

/* The shape of a file: its samples are matrices of rows x columns bytes. */
struct mlperf_shape {
	uint64_t rows, columns;
	uint64_t record_bytes; /* of one sample with its frame; npz, jpeg: of the whole file */
	uint64_t file_bytes;
	uint64_t data_at; /* offset of the first sample's bytes in the file: the stamp is there */
};

void mlperf_shape(const struct mlperf_workload *w, uint64_t samples_per_file, uint64_t file,
		  struct mlperf_shape *out);
/* "train/img_17_of_168.npz", the number with zeros as DLIO pads it. */
void mlperf_file_name(const struct mlperf_workload *w, uint64_t files, uint64_t file,
		      char out[TARGET_PATH_MAX]);

/* Bytes of a dataset's files, for target_io.content. */
struct mlperf_content;
must_check int mlperf_content_create(struct mlperf_content **out, const struct mlperf_workload *w,
				     uint64_t samples_per_file);
void mlperf_content_destroy(struct mlperf_content *c);
const struct target_content *mlperf_content_of(const struct mlperf_content *c);

/* ---- mlperf_dataset.c: a dataset, and the order of its batches ---------------------------- */

struct mlperf_dataset {
	const struct mlperf_workload *workload;
	char dir[24];              /* below the target's root         */
	uint64_t files;            /* scaled                          */
	uint64_t samples_per_file; /* scaled                          */
	uint64_t bytes;            /* of all files                    */
	double scale;              /* bytes over those of the full one */
};

/* The largest dataset of at most `bytes_max`, with at least one file. */
void mlperf_dataset_scale(struct mlperf_dataset *d, const struct mlperf_workload *w,
			  uint64_t bytes_max);
/* Makes all its files on the target; 1 after a line on stderr. */
must_check int mlperf_dataset_make(const struct mlperf_dataset *d, struct target_session *s);

/* A reader: where it is in its file. */
struct mlperf_reader {
	uint64_t file;
	uint64_t next_sample; /* samples_per_file: it takes another file */
	uint64_t next_group;  /* parquet: the next row group             */
};

/* The order of an epoch, of which each batch takes its part. */
struct mlperf_order {
	const struct mlperf_dataset *dataset;
	uint32_t *file; /* shuffled */
	uint64_t next;
	struct rand_state rand;
	uint64_t epochs; /* begun */
};

must_check int mlperf_order_create(struct mlperf_order *o, const struct mlperf_dataset *d,
				   uint64_t seed);
void mlperf_order_destroy(struct mlperf_order *o);
/* Ios that a batch of `batch` samples needs at most. */
uint32_t mlperf_batch_ios(const struct mlperf_dataset *d, uint32_t batch);
/* Makes the reads of the reader's next batch. */
void mlperf_next_batch(struct mlperf_order *o, struct mlperf_reader *r, uint32_t batch,
		       struct target_group *g);

/* ---- mlperf_engine.c: accelerators ---------------------------------------------------------- */

struct mlperf_job {
	const struct mlperf_dataset *dataset;
	struct target_session *session;
	uint32_t accelerators;
	uint32_t batch;
	uint64_t compute_ns; /* of a step                   */
	uint32_t readers;    /* of each accelerator         */
	uint32_t prefetch;   /* batches ahead of each reader */
	uint64_t steps;      /* of each accelerator         */
	uint64_t skip_steps; /* that are not in the utilisation; 0: the first one */
	uint64_t seed;
};

struct mlperf_figures {
	double au;            /* 0 to 1: the mean of the accelerators' */
	double samples_per_s; /* of all, the first step too            */
	double bytes_per_s;
	uint64_t ns;
	uint64_t steps;   /* of all                                    */
	uint64_t samples; /* trained on                                */
};

struct mlperf_engine;
must_check int mlperf_engine_create(struct mlperf_engine **out, const struct mlperf_job *job);
void mlperf_engine_destroy(struct mlperf_engine *e);
/* Does all that can be done at `now_ns`.  Returns when to call again at the latest; 0: all steps
 * are done. */
uint64_t mlperf_turn(struct mlperf_engine *e, uint64_t now_ns);
/* No more batches are read: mlperf_turn() returns 0 when those under way have come. */
void mlperf_stop(struct mlperf_engine *e);
/* 0 or -errno of a read that failed. */
int mlperf_failed(const struct mlperf_engine *e);
void mlperf_engine_figures(const struct mlperf_engine *e, struct mlperf_figures *out);

#endif
