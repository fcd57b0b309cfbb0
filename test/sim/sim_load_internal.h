/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Shared by sim_load.c (answers), sim_load_pick.c (the next operation, and its right answer),
 * sim_load_read.c (states that readers may find) and sim_load_call.c (requests). */
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

/* Notes the states that a reader may find: the present one, and those of changes in progress. */
void sim__may_find_all(struct sim_load *l, struct sim_op *reader);
/* Readers under way may see what this change makes; when it is acknowledged: for sure. */
void sim__readers_may_find(struct sim_load *l, const struct sim_change *ch, bool sure);
/* Takes a reader's answer.  Returns false if it is wrong: see l->why. *more: a listing goes on. */
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
