/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The bare pair (vs_pair): two threads, polled TCP sockets over loopback between them, and the
 * messages of a workload in their bare shape.  Workloads over TCP are compared with it.
 */
#ifndef BENCH_PAIR_H
#define BENCH_PAIR_H

#include "base/assert.h"

#include <stdbool.h>
#include <stdint.h>

struct bench_conf;
struct bench_run;
struct bench_pipe;
struct bench_pair;

struct bench_pair_shape {
	uint32_t request_bytes; /* of one request                                      */
	uint32_t items;         /* pieces a reply carries                              */
	uint64_t item_bytes;    /* of one; 0: a reply is a header                      */
	uint32_t depth;         /* requests in flight on a connection                  */
	uint32_t conns;         /* connections, all of one client thread               */
	bool sequential;        /* pieces follow each other; else from anywhere        */
};

/**
 * bench_pair_create - connections, buffers, and a pinned server thread that sleeps between runs
 *
 * Pieces are copied from the source of `pipe`, which must live longer.
 *
 * Errors:  -ENOMEM, -EINVAL (nothing in flight, or more than 2 GiB of it), what socket calls say.
 */
must_check int bench_pair_create(struct bench_pair **out, struct bench_pipe *pipe,
				 const struct bench_pair_shape *shape,
				 const struct bench_conf *conf);
/* One operation is one item (a reply without items: one).  A part of bench_measure(). */
int bench_pair_run(void *pair, double seconds, struct bench_run *run);
void bench_pair_destroy(struct bench_pair *pair);

#endif
