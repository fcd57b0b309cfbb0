/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A hostile client, in a process of its own, limited to FLOOD_PERCENT of a CPU: after each burst it
 * reads how much time it has used (CLOCK_PROCESS_CPUTIME_ID, and what the kernel does for it in
 * softirqs), and sleeps until that is no more than its share of the elapsed time.  It reports its
 * use at the end.
 */
#ifndef BENCH_FLOOD_H
#define BENCH_FLOOD_H

#include "base/assert.h"

#include <stdint.h>

struct bench_env;
struct bench_flood;

enum { FLOOD_PERCENT = 10 };

struct bench_flood_said {
	uint64_t reads; /* of 4 MiB, submitted             */
	uint64_t cancelled;
	uint64_t cpu_ns;
	uint64_t kernel_ns; /* besides: bench_flood.c   */
	uint64_t wall_ns;
	int32_t failed;
	uint32_t reserved0;
};

/* The process, which waits.  Call it before this one has clients: it would hold their sockets. */
must_check int bench_flood_start(struct bench_flood **out, struct bench_env *env, const char *path);
/* It connects, weighs a read (nobody else should ask for anything meanwhile), returns, and floods
 * the file with reads until bench_flood_rest(). */
must_check int bench_flood_go(struct bench_flood *flood);
must_check int bench_flood_rest(struct bench_flood *flood, struct bench_flood_said *out);
void bench_flood_end(struct bench_flood *flood); /* NULL is fine */

#endif
