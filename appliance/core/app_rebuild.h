/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The progress of a rebuild or a drain: how much was left when, the rate, and whether it stands
 * still.  The store counts and has no clock; this has the clock's part.
 */
#ifndef APP_REBUILD_H
#define APP_REBUILD_H

#include "base/assert.h"
#include "meta/meta_rebuild.h"

#define APP_REBUILD_SAMPLES 32u

struct app_rebuild {
	struct meta_rebuild store; /* counted last */
	uint64_t next_ns;          /* not before: counted again */
	uint64_t began_ns;
	uint64_t moved_ns; /* less was left than ever before, or it began */
	uint64_t most_blocks, least_blocks;
	struct {
		uint64_t at_ns, left_blocks;
	} sample[APP_REBUILD_SAMPLES]; /* a ring */
	uint32_t samples;              /* taken so far */
	uint64_t rate;                 /* bytes a second that may be moved; 0: any number */
	uint64_t paid_ns;              /* credit was given up to then */
};

struct app_rebuild_snapshot {
	struct meta_rebuild store;
	uint64_t age_ns;      /* since it began, or since the start */
	uint64_t done_blocks; /* in that time */
	uint64_t blocks_per_second;
	uint64_t seconds_left; /* at that rate */
	uint64_t limit;        /* bytes a second, of the configuration; 0: none */
	bool measured;         /* there is a rate */
	bool stalled;          /* nothing has moved for some time */
};

/* Returns the blocks that may be moved now, if so many were left at the last call, which was at
 * r->paid_ns. */
int64_t app_rebuild_credit(struct app_rebuild *r, int64_t left, uint64_t now_ns);

/* Takes in what the store has counted at `now_ns`. */
void app_rebuild_look(struct app_rebuild *r, const struct meta_rebuild *store, uint64_t now_ns);
void app_rebuild_stat(const struct app_rebuild *r, uint64_t now_ns,
		      struct app_rebuild_snapshot *out);

/* Returns "lost", "drain" or "copies". */
const char *app_rebuild_what_name(const struct app_rebuild_snapshot *s);
/* Returns "moving", "ending", "no_drive", "no_room", "damaged", "not_written" or "stalled". */
const char *app_rebuild_state_name(const struct app_rebuild_snapshot *s);
/* Returns the blocks for which the other drives lack room; 0: the end is in sight. */
uint64_t app_rebuild_missing(const struct app_rebuild_snapshot *s);
/* Returns true if it does not end by itself. */
bool app_rebuild_is_stuck(const struct app_rebuild_snapshot *s);

struct app_core;
void app_rebuild_turn(struct app_core *core);
uint64_t app_rebuild_deadline(const struct app_core *core); /* UINT64_MAX: none */
/* Adds what the store's core knows. */
void app_rebuild_add(struct app_core *core, struct app_rebuild_snapshot *out);

#endif
