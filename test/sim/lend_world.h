/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A store, its borrowers, what they have under way, and what all of them were told: lend.c.
 *
 * lend_store.c makes it; lend_ask.c and lend_bring.c say what a borrower begins, lend_core.c takes
 * it there and back, lend_cores.c has all borrowers; lend_verify.c compares all with the model.
 */
#ifndef LEND_WORLD_H
#define LEND_WORLD_H

#include "test/sim/lend_model.h"

#define LEND_BORROWERS 3u
#define LEND_SLOTS     10u /* changes and looks of one borrower at once */
#define LEND_DIRS      6u  /* two are each borrower's                   */
#define LEND_SUBDIRS   4u
#define LEND_NAMES     1600u
#define LEND_RING      16u
#define LEND_CLIENT    77u /* of receipts: the first borrower's */

struct lend_shape {
	const char *name;
	uint64_t drive_bytes_min, drive_bytes_max;
	uint32_t names;        /* of each directory, beside LEND_SUBDIRS; */
	uint32_t filled;       /* ... so many are there at first          */
	uint32_t dirs;         /* that are used                           */
	uint32_t frames;       /* of the cache                            */
	uint32_t nshards;      /* at least; or twice that                 */
	uint32_t blocks;       /* of a file: at most                      */
	uint32_t xattr_bytes;  /* of a value: at most                     */
	const uint8_t *weight; /* of each lend_kind                       */
	uint32_t steps;        /* of one seed, ...                        */
	uint32_t life;         /* ... and of one life: at most            */
	uint32_t stall;        /* ... in which one borrower has none      */
};

enum lend_stage {
	LEND_FREE,
	LEND_TRY,   /* the borrower tries it in its next turn          */
	LEND_TOLD,  /* in the ring                                     */
	LEND_STORE, /* the store has it                                */
	LEND_WAITS, /* what was seen is not durable                    */
	LEND_BACK,  /* it is over, and its borrower has not heard so   */
	LEND_LOST,  /* the store failed: nobody knows, until a mount   */
};

struct lend_slot {
	struct meta_op op;
	enum lend_stage stage;
	struct lend_change change;
	uint32_t borrower, number;
	bool is_made;       /* it was, or looked at, where it was asked for */
	uint64_t forgotten; /* as in struct lend_receipt */
	/* A look: */
	uint64_t version; /* of the name then         */
	bool saw_after;   /* ... and what it saw of it */
	char path[16], to_path[16], xattr[16];
	struct meta_run runs[LEND_RUNS];
	uint32_t crcs[LEND_BLOCKS + 1];
	uint8_t bytes[4096];
	_Alignas(8) uint8_t value[LEND_XATTR_MAX];
};

struct lend_ring { /* what a borrower says is told at the end of its turn */
	struct lend_slot *said[LEND_RING];
	uint32_t heard, told, end;
};

struct lend_receipt {
	uint64_t number;    /* of the change; 0: none */
	uint64_t forgotten; /* meta_clients_forgotten() before it: if that moves nobody knows */
};

struct lend_count {
	uint64_t steps, begun, made, calls, again, forced, refused, full;
	uint64_t looks, looks_here, looks_early, seen_kept;
	uint64_t cuts, cuts_in_mounts, fails, stops, quiets, grown_here, long_xattrs;
};

struct lend_world {
	struct rig r;
	struct rand_state rnd;
	const struct lend_shape *shape;
	struct meta_reader *reader[LEND_BORROWERS];
	bool inside[LEND_BORROWERS]; /* its turn has begun, and has not ended */
	bool slow[LEND_BORROWERS];
	uint32_t stalled, stall; /* who neither has a turn nor is heard, and for how long */
	struct lend_ring ring[LEND_BORROWERS];
	struct lend_slot slot[LEND_BORROWERS][LEND_SLOTS];
	struct lend_receipt receipt[LEND_BORROWERS][LEND_SLOTS]; /* the newest, answered */
	uint64_t dir[LEND_DIRS];
	struct lend_name name[LEND_DIRS][LEND_NAMES + LEND_SUBDIRS];
	uint64_t tag; /* of the change that began last */
	bool wrong;   /* sim_why says what: nothing goes on */
	struct lend_count seen;
};

static inline uint64_t lend_pick(struct lend_world *w, uint64_t below)
{
	return rand_below(&w->rnd, below);
}

/* The first thing that is wrong is noted. */
void lend_wrong(struct lend_world *w, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* ---- lend_store.c -------------------- */

#define LEND_SHAPES 3u
extern const struct lend_shape lend_shapes[LEND_SHAPES];
/* Formatted, with its directories. */
void lend_store_make(struct lend_world *w, uint64_t seed);
/* The first files of all directories. */
void lend_store_fill(struct lend_world *w);

/* ---- lend_bring.c -------------------- */

/* The operation's rest, after lend_ask.c has said which.  False: the name is not for that. */
bool lend_bring(struct lend_world *w, struct lend_slot *s);
void lend_bring_put(struct lend_slot *s, uint32_t bytes);

/* ---- lend_ask.c -------------------- */

/* A target of this name, spelt in `path`. */
struct meta_target lend_target(const struct lend_world *w, const struct lend_name *n,
			       char path[16]);
/* One for such a change, with none under way; NULL: bad luck. */
struct lend_name *lend_name_for(struct lend_world *w, uint32_t borrower, enum lend_kind kind);
/* Something begins in this slot: false, it does not. */
bool lend_ask(struct lend_world *w, struct lend_slot *s);
/* A put of these bytes: the first files of a directory. */
void lend_ask_put(struct lend_world *w, struct lend_slot *s, struct lend_name *n, uint32_t bytes);
/* A READ that says all of a name. */
void lend_ask_look(struct lend_world *w, struct lend_slot *s, struct lend_name *n);

/* ---- lend_core.c -------------------- */

/* The borrower's turn, or more of it: tries its waiting operations, and begins one if `begins`. */
void lend_core_turn(struct lend_world *w, uint32_t borrower, bool begins);
/* Ends the turn: sends the borrower's messages, before it sees anything new. */
void lend_core_turn_ends(struct lend_world *w, uint32_t borrower, bool leaves);
/* The store takes `count` of the borrower's messages. */
void lend_core_hear(struct lend_world *w, uint32_t borrower, uint32_t count);
/* An operation comes from the store. */
void lend_core_over(void *world, struct meta_op *op);

/* ---- lend_cores.c -------------------- */

void lend_cores_begin(struct lend_world *w);
void lend_cores_end(struct lend_world *w);
/* Turn until nothing is under way. */
void lend_cores_quiet(struct lend_world *w);
/* No borrower looks at anything, or all may again. */
void lend_cores_leave(struct lend_world *w);
void lend_cores_enter(struct lend_world *w);
/* Forgets all operations in progress. */
void lend_cores_forget(struct lend_world *w);

/* ---- lend_verify.c -------------------- */

/* After a mount: what was under way is whole, or is not. */
void lend_verify_settle(struct lend_world *w);
/* Each name, and the check. */
void lend_verify(struct lend_world *w, const char *when);

#endif
