/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Between sim_load.c (what comes of operations), sim_load_pick.c (what is done next, and what must
 * come of it), sim_load_read.c (what readers may find) and sim_load_call.c (requests). */
#ifndef SIM_LOAD_INTERNAL_H
#define SIM_LOAD_INTERNAL_H

#include "test/sim/sim_load.h"

#define FILE_BYTES_MAX 49152u

/* Fill in a free operation; false when it would meet one that is under way. */
bool sim__pick(struct sim_load *l, struct sim_op *o);

/* Reads and listings: they change nothing, and meet nobody. */
static inline bool sim__is_reader(const struct sim_op *o)
{
	return o->kind == SIM_READ || o->kind == SIM_LIST;
}

/* OPEN with hold; else OPEN, and HOLD by handle. */
static inline bool sim__holds_at_once(const struct sim_op *o)
{
	return o->number % 2;
}

/* What it may find: what is there, and what changes under way may make of it. */
void sim__may_find_all(struct sim_load *l, struct sim_op *reader);
/* Readers under way may see what this change makes; when it is acknowledged: for sure. */
void sim__readers_may_find(struct sim_load *l, const struct sim_change *ch, bool sure);
/* What it has found; false: see l->why.  *more: a listing goes on. */
bool sim__take_reader(struct sim_load *l, struct sim_op *o, bool *more);

/* It was answered with an error. */
bool sim__reader_failed(const struct sim_op *o);

/* Send what the operation's stage asks for. */
void sim__request(struct sim_load *l, struct sim_op *o, bool again);

/* For people: "what" with what the operation is. */
void sim__tell(const struct sim_load *l, const struct sim_op *o, const char *what, int status);
/* Notes what is wrong, once, and is false. */
bool sim__wrong(struct sim_load *l, const struct sim_op *o, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
