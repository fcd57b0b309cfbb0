/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The loads of weka-bench compare, and one storage system under them. */
#ifndef BENCH_REPORT_COMPARE_H
#define BENCH_REPORT_COMPARE_H

#include "bench/report/args.h"

struct compare_rig {
	const struct args *args;
	uint32_t index; /* of its --target */
	struct target *target;
	struct target_session *session;
	uint32_t created[FIGURE_RUNS_MAX + 1]; /* names in the directory of each round */
	uint64_t seed;                         /* of the next random order             */
	uint64_t scale_down;                   /* files are so many times fewer        */
	bool out;                              /* it failed once: not measured again   */
};

struct compare_load {
	const char *group, *name, *unit;
	bool less; /* less is better */
	/* Measures once: 0; 1 after a line on stderr; -ENOTSUP: the system has no such thing. */
	int (*run)(struct compare_rig *r, const struct compare_load *load, uint32_t round,
		   double *value, struct stat_hist *hist);
	const char *dir;
	uint64_t bytes; /* of a file, or of a piece */
	uint32_t batch, depth;
	bool durable;
};

extern const struct compare_load compare_loads[];
extern const uint32_t compare_load_count;

/* Does the load's group or name hold the text?  NULL: all do. */
bool compare_wanted(const struct compare_load *load, const char *only);
/* Makes the files that those loads read; 1 after a line on stderr. */
must_check int compare_prepare(struct compare_rig *r, const char *only);

#endif
