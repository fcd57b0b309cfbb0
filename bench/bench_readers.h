/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Readers of whole files, at random from those of bench_churn.c, so many a second: beside its
 * writers, but with a client and a thread of their own, so that only the appliance delays a read.
 */
#ifndef BENCH_READERS_H
#define BENCH_READERS_H

#include "base/assert.h"
#include "base/stat.h"
#include "bench/bench_churn.h"

#include <stdbool.h>
#include <stdint.h>

#define BENCH_READERS_DEPTH 64u /* in flight at most */

struct bench_readers;

void bench_readers_options(struct weka_options *o);

/* rate: reads a second; core: where its thread runs, -1: anywhere.  0, or 1 after a line on
 * stderr. */
must_check int bench_readers_create(struct bench_readers **out, struct weka_client *client,
				    const struct bench_churn_conf *files, uint32_t rate, int core);
void bench_readers_destroy(struct bench_readers *r);

/* They read until bench_readers_end(), which says whether all went well.  `reads` is theirs till
 * then: nanoseconds of each. */
must_check int bench_readers_begin(struct bench_readers *r, struct stat_hist *reads);
int bench_readers_end(struct bench_readers *r);

/* Is the thread served before all others of the processor?  After the first end. */
bool bench_readers_are_urgent(const struct bench_readers *r);

#endif
