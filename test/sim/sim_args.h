/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The arguments of the programs in this folder: seed, count, shape; and their message when a run
 * fails. */
#ifndef SIM_ARGS_H
#define SIM_ARGS_H

#include <stdbool.h>
#include <stdint.h>

struct sim_args {
	uint64_t seed;
	uint64_t count;    /* of the unit */
	const char *shape; /* NULL: all of them */
	bool one_seed;     /* it was named: that one alone */
};

/*
 * --seed N, --shape NAME, and --UNIT N, which is `few` by default, `many` in long tests.  Anything
 * else ends the program.  Lines of output are written as they come.
 */
struct sim_args sim_args(int argc, char **argv, const char *unit, uint64_t few, uint64_t many);
/* Returns few / share in make test, for programs that take long; else few. */
uint64_t sim_args_few(uint64_t few, uint64_t share);

bool sim_args_want(const struct sim_args *args, const char *shape);

/* A run of this seed begins.  One that takes minutes of a processor hangs: then the seed is named,
 * and the program ends. */
void sim_begins(uint64_t seed);

/* Notes what is wrong, one line, and is false: return sim_wrong("..."); */
bool sim_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
extern char sim_why[256];

#endif
