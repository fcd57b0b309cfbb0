/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Threads that do the same work at the same time, each with a session: the ranks of a job. */
#ifndef BENCH_TARGET_TARGET_CREW_H
#define BENCH_TARGET_TARGET_CREW_H

#include "bench/target/target.h"

struct target_crew;

/* One thread's part of a phase. */
struct target_member {
	struct target_session *session;
	void *ctx;
	uint32_t index, count; /* of the crew */
	uint64_t began_ns;     /* of the phase: for all the same */
	/* Filled in by the work: */
	uint64_t bytes;
	uint64_t ns; /* from the start of the phase until it was done; 0: the crew fills it in */
};

/**
 * target_crew_create - open a session for each of `count` threads
 *
 * Owns:    the caller ends it with target_crew_destroy(), before the target.
 * Errors:  1, after a line on stderr.
 */
must_check int target_crew_create(struct target_crew **out, struct target *t, uint32_t count);
void target_crew_destroy(struct target_crew *c);
/* Runs `work` in all threads, which begin together; 1 when one of them failed, after its line. */
must_check int target_crew_run(struct target_crew *c, int (*work)(struct target_member *m),
			       void *ctx);
/* The results of the last phase. */
const struct target_member *target_crew_member(const struct target_crew *c, uint32_t index);
/* The time of the slowest, and the bytes of all. */
void target_crew_total(const struct target_crew *c, uint64_t *ns, uint64_t *bytes);

#endif
