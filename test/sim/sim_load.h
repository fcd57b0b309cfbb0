/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Random operations of a client against the model, several in flight, each on paths of its
 * own, so that what must come of each is known when it is sent; readers go anywhere.
 */
#ifndef SIM_LOAD_H
#define SIM_LOAD_H

#include "test/sim/sim_model.h"
#include "test/sim/sim_world.h"

#define SIM_OPS_MAX 8
#define SIM_MAY_MAX 64 /* states that one read may find */

enum sim_kind {
	SIM_PUT,
	SIM_WRITE,
	SIM_APPEND,
	SIM_TRUNCATE,
	SIM_UNLINK,
	SIM_MKDIR,
	SIM_RMDIR,
	SIM_RENAME,
	SIM_SYMLINK,
	SIM_CHMOD,
	SIM_READ,
	SIM_LONG_PUT,
	SIM_GIVE_LINK,
	SIM_EXCHANGE,
	SIM_KINDS
};

struct sim_op {
	bool used;
	enum sim_kind kind;
	uint32_t stage;
	int expect; /* 0 or -errno: what the last request must answer */
	struct sim_change change;
	char path[SIM_PATH_MAX];
	char other[SIM_PATH_MAX];
	struct sim_state *content; /* what is written */
	uint64_t offset;
	uint32_t length;
	struct fab_handle handle;
	struct sim_call *call;
	/* A read: what it may find is what there was when it was sent, and what any change has
	 * made, or may make, of it since. */
	uint32_t may_count;                 /* SIM_MAY_MAX: too many to tell */
	struct sim_state *may[SIM_MAY_MAX]; /* NULL: absent */
	bool sure[SIM_MAY_MAX];             /* ... and so it was acknowledged */
};

struct sim_load {
	struct sim_world *w;
	struct sim_model *model;
	struct rand_state rand;
	uint32_t in_flight_max;
	uint32_t names;           /* of files, and of links, in each directory */
	const enum sim_kind *mix; /* one of these is done next */
	uint32_t mix_count;
	bool big; /* files of many blocks */
	struct sim_op op[SIM_OPS_MAX];
	uint64_t done; /* operations that came back */
	uint64_t full; /* ... with -ENOSPC          */
	uint64_t by_kind[SIM_KINDS];
	char why[256]; /* of the first wrong answer; "": none */
	/* Answers to calls that are not the load's: user is none of op[].  NULL: there are none. */
	bool (*other)(struct sim_load *l, struct sim_call *c);
};

void sim_load_init(struct sim_load *l, struct sim_world *w, struct sim_model *model, uint64_t seed);
/* Send what there is room for, one turn, take in what came back. false: see why. */
bool sim_load_step(struct sim_load *l, bool send);
bool sim_load_idle(const struct sim_load *l);
/* The power went: what was in flight is decided by what is found (sim_verify); then forget it. */
void sim_load_forget(struct sim_load *l);

/* Everything that is there against the model, with l's changes in flight either way (NULL: none);
 * settles them in `model` when `settle`.  false: see w->why. */
/* Does item i of a finished READ_BATCH hold exactly this file, each block with its checksum? */
bool sim_answer_holds(const struct sim_call *c, uint32_t i, const struct sim_state *s);

/* On drives as a cut has left them, not mounted, of the store that `m` has mounted: each shard has
 * a root of which both copies are whole and the same.  false: see w->why. */
bool sim_roots_hold(struct sim_world *w, const struct meta *m);
/* ... and each zone in use both copies of its header.  Of a store that was formatted before. */
bool sim_heads_hold(struct sim_world *w, const struct meta *m);

bool sim_verify(struct sim_world *w, struct sim_model *model, struct sim_load *l, bool settle);

#endif
