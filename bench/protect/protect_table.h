/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The output of `weka-bench protect`: a table with a column for each scheme, or a figure a line. */
#ifndef BENCH_PROTECT_TABLE_H
#define BENCH_PROTECT_TABLE_H

#include "bench/protect/protect.h"
#include "bench/report/figure.h"

enum { PROTECT_SIZE = 32 };

struct protect_table {
	const struct protect_conf *conf;
	char command[320];
	char group[32]; /* of the row that was shown last */
};

/* A figure of each scheme; without values: nothing was measured for it. */
struct protect_row {
	struct figure figure[PROTECT_SCHEMES_MAX];
};

/* Prints the machine, the conditions and the names of the schemes. */
void protect_table_head(struct protect_table *t);
/* @unit: as in struct figure; less is better if it is "times" or "ms" */
void protect_row_begin(const struct protect_table *t, struct protect_row *row, const char *group,
		       const char *name, const char *unit);
/* ideal 0: arithmetic does not say. */
void protect_row_add(struct protect_row *row, uint32_t scheme, double value, double ideal);
/* How long its requests took. */
void protect_row_times(struct protect_row *row, uint32_t scheme, const struct stat_hist *hist);
void protect_row_show(struct protect_table *t, const struct protect_row *row);
/* "4 KiB", "2 MiB": into PROTECT_SIZE bytes, which it returns. */
const char *protect_size(char out[PROTECT_SIZE], uint64_t bytes);

#endif
