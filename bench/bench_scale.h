/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Declarations for the files of `weka-bench names` and `rates`.
 *
 *   bench_scale.c         names: sizes, phases, threads, rows
 *   bench_rates.c         rates: rounds of four of the phases
 *   bench_scale_load.c    a phase through libweka-client
 *   bench_scale_local.c   the same phase by system calls in a local directory
 *
 * Files are numbers, 0 .. files - 1.  Worker w of n has those that are w modulo n: its j-th is j *
 * n + w; in random order, j is multiplied by STEP first.
 */
#ifndef BENCH_SCALE_H
#define BENCH_SCALE_H

#include "base/assert.h"
#include "client-lib/weka_client.h"

#include <stdint.h>

struct bench_conf;
struct bench_run;

enum scale_phase {
	SCALE_CREATE,
	SCALE_STAT,
	SCALE_READ,
	SCALE_LIST,
	SCALE_RENAME,
	SCALE_UNLINK,
	SCALE_PHASES
};
extern const char *const scale_phase_name[SCALE_PHASES];

enum {
	SCALE_NAME_BYTES = 13,   /* "f", or "g" when it is renamed, and twelve digits */
	SCALE_NAME_STRIDE = 24,  /* for any number at all */
	SCALE_SINGLE_DEPTH = 64, /* of requests of one name each */
	SCALE_STEP = 1000003,    /* prime: i * STEP % n takes each name once */
};
void scale_name(char out[SCALE_NAME_STRIDE], char first, uint64_t number);
/* Of that file: between --least and --size, the same each time. */
uint64_t scale_size(const struct bench_conf *conf, uint64_t number);

/* One thread's share. */
struct scale_worker {
	const struct bench_conf *conf;
	struct weka_client *client;
	char path[64];     /* of the directory              */
	uint64_t dir;      /* its number                    */
	uint64_t files;    /* that are there, all workers'  */
	uint32_t index;    /* of this one                   */
	uint32_t workers;  /* that share them               */
	uint64_t next;     /* operation of this phase       */
	uint64_t end;      /* create, rename, unlink: the last one's next */
	uint64_t again;    /* create: those below may be there already, by a run that was killed */
	uint32_t listings; /* at once: each lists all */
	uint64_t renaming[SCALE_SINGLE_DEPTH]; /* by slot: its name's number + 1; 0: none */
	struct scale_batch *batch;             /* one a slot */
};

/* Operations of a phase that goes once through all files of this worker. */
static inline uint64_t scale_mine(const struct scale_worker *w, uint64_t files)
{
	return files > w->index ? (files - w->index - 1) / w->workers + 1 : 0;
}

/* With a client's options for it; scale_load_close() also after an error. */
void scale_load_options(const struct bench_conf *conf, struct weka_options *o);
must_check int scale_load_open(struct scale_worker *w);
void scale_load_close(struct scale_worker *w);
/* Operations next .. end - 1 of a phase, or for `seconds`; afterwards (1) is true again. */
must_check int scale_load_run(struct scale_worker *w, enum scale_phase phase, double seconds,
			      struct bench_run *run);
/* A phase begins at its first operation: CREATE and UNLINK are of all files. */
void scale_load_rewind(struct scale_worker *w, enum scale_phase phase);
must_check int scale_load_put_right(struct scale_worker *w, enum scale_phase phase);

/* The same in a directory that is made in `dir` and removed at the end, by one thread. */
struct scale_local;
must_check int scale_local_open(struct scale_local **out, const char *dir,
				const struct bench_conf *conf);
void scale_local_close(struct scale_local *l);
const char *scale_local_name(const struct scale_local *l); /* of its file system */
/* CREATE: up to `files`; the others: for `seconds`.  Changes are then undone. */
must_check int scale_local_run(struct scale_local *l, enum scale_phase phase, uint64_t files,
			       double seconds, struct bench_run *run);

#endif
