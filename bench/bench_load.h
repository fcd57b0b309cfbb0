/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * `depth` requests in flight, each submitted again as soon as it was reaped: the loop of every
 * workload that uses libweka-client.  The workload fills in the requests.
 */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include "base/assert.h"
#include "client-lib/weka_client.h"

#include <stdbool.h>
#include <stdint.h>

struct bench_run;
struct bench_load;

/* One of the `depth` requests, with a buffer of its own. */
struct bench_slot {
	struct weka_req req;
	struct weka_window window; /* lease NULL: none was wanted */
	uint64_t began_ns;
	uint32_t index;
	bool waits; /* its last submit was LATER */
};

enum { BENCH_LOAD_SUBMITTED, BENCH_LOAD_FAILED, BENCH_LOAD_NO_MORE, BENCH_LOAD_LATER };

struct bench_load_ops {
	/* Submit slot->req: 0; FAILED after a line on stderr; NO_MORE: nothing is left to do;
	 * LATER: again when another request has come back. */
	int (*submit)(void *ctx, struct weka_client *client, struct bench_slot *slot);
	/* The request was reaped with status 0: check the result, add to run->ops and run->bytes.
	 * 0, or FAILED after a line on stderr. */
	int (*finish)(void *ctx, struct bench_slot *slot, struct bench_run *run);
	/* NULL, or: all that was submitted has come back; look at it while the clock stands. */
	int (*pause)(void *ctx, struct bench_slot *slots, uint32_t count);
	const char *what; /* "read /x": for messages */
};

/* Slots with windows of `window_bytes` each (0: none) from the client's pool. */
must_check int bench_load_create(struct bench_load **out, struct weka_client *client,
				 uint32_t depth, uint64_t window_bytes,
				 const struct bench_load_ops *ops, void *ctx);
void bench_load_destroy(struct bench_load *load);

/* Runs for `seconds`, or until no work is left.  Requests that end later are not counted. */
int bench_load_run(void *load, double seconds, struct bench_run *run);
#define BENCH_LOAD_ALL 1e9 /* seconds: until nothing is left */

#endif
