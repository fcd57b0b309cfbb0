/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* An appliance under `weka-bench protect`, for the files that work with it. */
#ifndef BENCH_PROTECT_SIDE_H
#define BENCH_PROTECT_SIDE_H

#include "base/rand.h"
#include "bench/bench_env.h"
#include "bench/bench_load.h"
#include "bench/protect/protect.h"

#define PROTECT_LARGE "/large"

enum { PROTECT_DEPTH = 32 }; /* requests in flight, at most */

struct protect_names;

struct protect_side {
	struct bench_conf conf;
	struct bench_env *env;
	char lines[96]; /* of the appliance's configuration */
	struct weka_client *client;
	struct weka_handle handle; /* of the large file                     */
	uint64_t bytes;            /* of it                                 */
	uint64_t bytes_max;        /* that it has if they are whole requests */
	bool open;                 /* it is there                           */
	struct bench_load *load[PROTECT_LOADS];
	enum protect_load now;
	uint32_t request; /* bytes of one */
	uint64_t next;    /* piece of the file, or name */
	bool fills;       /* the file is written once, to its end */
	uint64_t at[PROTECT_DEPTH];
	struct protect_names *names; /* of each slot of PROTECT_CREATE */
	uint32_t directory;
	uint64_t created; /* files in it */
	struct rand_state rand;
	uint64_t drives_bytes; /* of all of them */
	uint64_t zones_empty;  /* in use before there was a file */
};

/* Bytes that the buffers of all loads need. */
uint64_t protect__pool_bytes(void);
must_check int protect__loads_open(struct protect_side *s);
void protect__loads_close(struct protect_side *s);

#endif
