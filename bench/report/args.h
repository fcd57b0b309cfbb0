/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Options that all commands have which measure targets, and the command line for the report. */
#ifndef BENCH_REPORT_ARGS_H
#define BENCH_REPORT_ARGS_H

#include "bench/report/figure.h"
#include "bench/target/target.h"

#include <argp.h>

enum { ARGS_TARGETS_MAX = 12 };

struct args {
	const char *target[ARGS_TARGETS_MAX];
	const char *name[ARGS_TARGETS_MAX]; /* in tables; NULL: the target's own */
	int pid[ARGS_TARGETS_MAX];          /* of its server, for its CPU time   */
	uint32_t target_count;
	struct target_options options;
	uint32_t runs;
	double seconds;
	uint64_t bytes;
	bool json;
	bool cold;         /* drops caches before each run                    */
	const char *local; /* compare: a local directory to copy to; NULL: none */
	uint64_t seed;
	char command[320];
};

/* The children of a command's argp: the options above, and at least one --target.  At
 * ARGP_KEY_INIT the command sets state->child_inputs[0] to its struct args. */
extern const struct argp_child args_children[];

/* Sets the defaults and parses; `conf`, the input of `argp`, has `a`.  Then signals are caught, and
 * the head of the report is printed. */
void args_parse(struct args *a, const struct argp *argp, int argc, char **argv, void *conf);
/* Opens each target in turn for `measure`, and closes it.  One that fails is left out, with a line;
 * then it returns an error at the end. */
must_check int args_each(const struct args *a, void *conf,
			 int (*measure)(void *conf, uint32_t i, struct target *t));
/* Says that a target is left out, unless somebody interrupted. */
void args_leave_out(const struct args *a, uint32_t i);
/* Parses a number with K, M, G or T; argp_error() if it is not one in that range. */
uint64_t args_number(struct argp_state *state, const char *arg, uint64_t low, uint64_t high);
double args_real(struct argp_state *state, const char *arg, double low, double high);
/* A target by its index, and a figure that knows it: 1 after a line on stderr. */
must_check int args_open(const struct args *a, uint32_t i, struct target **out);
void args_figure(const struct args *a, uint32_t i, const struct target *t, struct figure *out);
/* The pid of its server. */
int args_pid(const struct args *a, uint32_t i, const struct target *t);

#endif
