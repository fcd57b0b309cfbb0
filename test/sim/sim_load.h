/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Random operations of a client against the model, several in flight, each on paths of its own, so
 * that the right answer is known when it is sent; readers go anywhere.
 *
 * They are a list that follows from the seed: operation n follows from the seed, n and the model;
 * `only` leaves out all others.  After a lost session the client repeats its requests in flight
 * (sim_load_resume), as libweka-client does: each change is then made once.
 */
#ifndef SIM_LOAD_H
#define SIM_LOAD_H

#include "test/sim/sim_model.h"
#include "test/sim/sim_world.h"

#define SIM_OPS_MAX   8
#define SIM_MAY_MAX   64 /* states that one read may find */
#define SIM_NAMES_MAX 48 /* of one directory that is listed */
#define SIM_HOLDS     4  /* files that are open at once */

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
	SIM_MOVE_DIR, /* a rename, or an exchange, of directories with all that is in them */
	SIM_RMTREE,
	SIM_PUNCH,
	SIM_SEEK,
	SIM_LIST,
	SIM_OPEN, /* and held */
	SIM_LET_GO,
	SIM_KINDS
};

/* A listing in pieces: what is there throughout comes exactly once, and nothing that never was. */
struct sim_listing {
	uint32_t count;
	struct {
		char name[16];
		bool must; /* it was there all the time */
		uint32_t seen;
	} entry[SIM_NAMES_MAX];
	bool lax; /* the directory itself was moved or removed meanwhile, or there are too many */
	uint8_t cookie[FAB_COOKIE_BYTES];
};

struct sim_op {
	bool used;
	uint64_t number; /* in the list */
	enum sim_kind kind;
	uint32_t stage;
	int expect; /* 0 or -errno: what the last request must answer */
	struct sim_change change;
	char path[SIM_PATH_MAX];
	char other[SIM_PATH_MAX];
	struct sim_state *content; /* what is written */
	uint64_t offset;
	uint32_t length;
	bool swap; /* an exchange; of a seek: a hole is looked for */
	struct fab_handle handle;
	struct sim_call *call;
	struct sim_listing listing;
	/* The id of its change, and the mark of the session in which that was sent first. */
	struct fab_change change_id;
	uint64_t mark;
	uint64_t begun; /* a long put: the session that began it */
	union {         /* what the call's arguments point to */
		struct fab_put_item put;
		struct fab_read_item read;
		struct fab_name name;
	} item;
	/* A read: what it may find is what there was when it was sent, and what any change has
	 * made, or may make, of it since. */
	uint32_t may_count;                 /* SIM_MAY_MAX: too many to tell */
	struct sim_state *may[SIM_MAY_MAX]; /* NULL: absent */
	bool sure[SIM_MAY_MAX];             /* ... and so it was acknowledged */
};

struct sim_load {
	struct sim_world *w;
	struct sim_model *model;
	struct rand_state rand; /* of this try */
	uint64_t seed;
	uint64_t next;        /* number of the next operation of the list */
	uint64_t tries;       /* of it */
	const uint64_t *only; /* sorted: these alone are done; NULL: all */
	uint32_t only_count;
	uint64_t changes; /* numbers of changes that were given out */
	uint64_t session; /* how often it has come back */
	bool tell;        /* what happens, for people */
	uint32_t in_flight_max;
	uint32_t names;           /* of files, and of links, in each directory */
	const enum sim_kind *mix; /* one of these is done next */
	uint32_t mix_count;
	bool big;   /* files of many blocks */
	bool moves; /* directories move */
	struct {
		struct fab_handle handle;
		uint32_t lane; /* who has it */
	} hold[SIM_HOLDS];     /* those that the model has */
	bool breaks;           /* a drive fails: after an error a change may be done or not */
	struct sim_op op[SIM_OPS_MAX];
	uint64_t done;       /* operations that came back */
	uint64_t full;       /* ... with -ENOSPC          */
	uint64_t again;      /* ... changes that had to be asked for again, */
	uint64_t again_done; /* and of them had been made */
	uint64_t opened;     /* files, */
	uint64_t nameless;   /* and what was asked of those that had lost their names */
	uint64_t refused;    /* ... since a block of the file had rotted */
	uint64_t broken;     /* ... since a drive failed */
	uint64_t by_kind[SIM_KINDS];
	char why[320]; /* of the first wrong answer; "": none */
	/* Takes the answers to calls of others, whose user is not in op[]; may be NULL. */
	bool (*other)(struct sim_load *l, struct sim_call *c);
};

void sim_load_init(struct sim_load *l, struct sim_world *w, struct sim_model *model, uint64_t seed);
/* Sends as many requests as fit, makes one turn, takes in the answers.  Returns false: see
 * `why`. */
bool sim_load_step(struct sim_load *l, bool send);
bool sim_load_idle(const struct sim_load *l);
/* After a power cut: sim_verify() decides, from the content, which changes in flight were made;
 * then forget them. */
void sim_load_forget(struct sim_load *l);
/* All that is open is as it should be, by handle; nothing is in flight.  false: see why. */
bool sim_load_holds(struct sim_load *l);
/* ... and is let go, or its client closes the connections, which ends that a minute later: then
 * there is nothing but what the model has.  The world has no client any more. */
bool sim_load_all_let_go(struct sim_load *l, bool closes);
/* ... or, in a new session, after a sim_verify() that does not settle, asked for again. */
void sim_load_resume(struct sim_load *l);
/* `to` is the same client, of another world: what it has in flight is not in flight there. */
void sim_load_copy(struct sim_load *to, const struct sim_load *from, struct sim_world *w,
		   struct sim_model *model);
/* Flips a bit in a data block of a random file, on the drives, which are at rest.  Returns false if
 * there is no such block. */
bool sim_load_rot(struct sim_load *l, struct rand_state *r);
extern uint64_t sim_rot_seen; /* answers with a block that does not match its sum, as it must be */

/* Chooses all kinds of operations; programs with a `mix` of their own do not call it. */
void sim_load_everything(struct sim_load *l);

/* Everything that is there against the model, with l's changes in flight either way (NULL: none);
 * settles them in `model` when `settle`.  false: see w->why. */
/* Does item i of a finished READ_BATCH hold exactly this file, each block with its checksum? */
bool sim_answer_holds(const struct sim_call *c, uint32_t i, const struct sim_state *s);

/* On drives as a cut has left them, not mounted, of the store that `m` has mounted: each shard has
 * a root of which both copies are whole and the same.  false: see w->why. */
bool sim_roots_hold(struct sim_world *w, const struct meta *m);
/* ... and each zone in use has both copies of its header, in a store that was formatted before. */
bool sim_heads_hold(struct sim_world *w, const struct meta *m);

bool sim_verify(struct sim_world *w, struct sim_model *model, struct sim_load *l, bool settle);

#endif
