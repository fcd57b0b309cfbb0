/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Reads local files without the page cache, and prints the table of --summary. */
#ifndef BENCH_COLD_H
#define BENCH_COLD_H

#include <stdint.h>

/**
 * bench_cold_begin - make the next reads of local files go to the disk
 *
 * Drops the caches of the whole machine where we may; returns the flag for open() that goes past
 * them where we may not: O_DIRECT, or 0.
 */
int bench_cold_begin(void);

struct bench_cold_row {
	const char *name;
	double files_per_s;
	double bytes_per_s;
};

/* Prints one row for each reader, beside the rate of row `base`. */
void bench_cold_table(const struct bench_cold_row *rows, uint32_t count, uint32_t base);

#endif
