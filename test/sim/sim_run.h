/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A run of sim.c: what it is told, what it counts, and its list of events.
 *
 * All that happens in a seed is a list: operation 0, 1, 2, ..., cut c0, c1, ..., fault f0, f1, ...
 * (of lives: what a drive is to do).
 * Each follows from the seed, its own number and what is there when it is its turn, so that any of
 * them can be left out, and what is left is tried again: --only 3,17,c2.
 */
#ifndef SIM_RUN_H
#define SIM_RUN_H

#include "test/sim/sim_load.h"

#define SIM_ONLY_MAX 16384u
#define SIM_CUT      (UINT64_C(1) << 32) /* number of cut c0 in a list of events   */
#define SIM_FAULT    (UINT64_C(1) << 33) /* ... of fault f0                        */

struct sim_run {
	uint64_t seed; /* of now */
	uint64_t from;
	uint64_t cuts_wanted;
	uint64_t minutes; /* each seed so long, with all faults; 0: power cuts */
	uint64_t seeds;   /* ... so many */
	bool one_seed;
	bool verbose;   /* a line for each seed */
	bool tell;      /* a line for each event */
	bool again;     /* this is a list that is being shrunk, or was: nothing is shrunk */
	uint32_t fates; /* of the drives at each moment of a cut, one after the other */
	struct sim_faults faults;
	bool has_only;
	uint64_t only[SIM_ONLY_MAX]; /* sorted */
	uint32_t only_count;
	/* counted */
	uint64_t cuts;
	uint64_t cuts_in_mounts;
	uint64_t kills;
	uint64_t stuck;            /* so often drives took no writes for a while */
	uint64_t pulled;           /* drives, drained and taken out */
	uint64_t cuts_while_added; /* ... a drive */
	/* Mounts that were not given a new drive; drives that came back after one. */
	uint64_t refused_without, served_without, not_taken;
	uint64_t formats; /* whole ones, of those that were cut */
	uint64_t ops;
	uint64_t opened, nameless; /* files; requests for those that had lost their names */
	uint64_t asked_again, had_been_made;
	uint64_t simulated_ns, rotted, rot_refused, full, drives_failed, broken;
};
extern struct sim_run sim_run;

/* Is the event in the list? */
bool sim_run_has(uint64_t event);
/* "3,17-20,c2,f0": false: it cannot be. */
bool sim_run_parse(const char *text);
/* For people, with the simulated time; only if they are told. */
void sim_run_tell(const struct sim_world *w, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
bool sim_run_failed(const char *where, const char *why); /* false */

/* Returns the drive that was listed last, if it was added later and is not the only one; else 0. */
uint32_t sim_newest(const struct sim_world *w);
/* Mounts without drive d.  Returns 0 if everything is there, or -ENODEV if the mount says that d is
 * missing, as it must if d is part of the store and is not leaving; else -EUCLEAN, after a line. */
must_check int sim_mount_without(struct sim_world *w, uint32_t d, struct sim_model *model,
				 struct sim_load *l, bool leaves);
/* A drive that was missing at a mount and is back may not belong to the store any more: then it
 * must be offered again. */
bool sim_is_refused_for(struct sim_world *w, int err);

/* Run a seed; and return how many operations, cuts and faults it has at most. */
bool sim_seed(uint64_t seed);
bool sim_minutes(uint64_t seed);
void sim_seed_events(uint64_t seed, uint32_t *ops, uint32_t *cuts, uint32_t *faults);

/* Finds a short list of events with which the seed still fails: runs this program again and again,
 * and at last with that list and its output.  Does not return. */
void sim_shrink(const char *program, uint64_t seed) __attribute__((noreturn));

#endif
