/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The life of one store in the simulation losses, which says what it is about. */
#ifndef LOSSES_LIFE_H
#define LOSSES_LIFE_H

#include "test/sim/loss_drives.h"
#include "test/sim/loss_model.h"
#include "test/sim/loss_parity.h"

#define LOSSES_NOBODY META_DRIVES_MAX
#define LOSSES_TURNS  300u /* until something must be over */

/* HANG: they answer nothing until they are given up.  HICCUP: some writes fail, and later ones do
 * not.  MISSING: they are removed with the power. */
enum losses_how { DIE, HANG, HICCUP, WRITES_FAIL, READS_FAIL, MISSING, HOWS };
enum losses_when { ONE, AT_ONCE, LATER, WHENS }; /* LATER: when the first loss is recorded */
/* How a mount finds the drives.  STALE: with the content that they had when they failed; AGED: with
 * that of long before. */
enum losses_after { AWAY, STALE, AGED, WIPED, STILL, AFTERS };
enum losses_errand { NOTHING, DRAIN, ADD, ERRANDS };

/* Counts over all lives. */
struct losses_seen {
	uint64_t lives, losses, how[HOWS], when[WHENS], after[AFTERS], errands[ERRANDS];
	uint64_t changes, both, mounts, cuts, told, few, widened, ckpt, collecting, cuts_rebuilding;
	uint64_t full, converted, lost_converting, cuts_converting;
	uint64_t folding[2]; /* drives failed during folding: with one zone of parity, with two */
	uint64_t folds_hit[2];
	struct loss_parity parity;
	uint64_t unread; /* times that as many drives as may be lost could not be read */
};

struct losses_life {
	struct losses_seen *seen;
	struct rig r;
	struct loss_model model;
	struct rand_state rnd;
	char where[240]; /* seed and step, for messages of a process that aborts */
	uint64_t seed;
	uint32_t step;
	uint32_t copies, fold; /* that the store has or will have */
	uint32_t drives_max;   /* it gets no more */
	uint32_t spare;        /* a drive that the store does not have yet */
	uint64_t size[RIG_DRIVES_ROOM];
	/* the present loss: */
	enum losses_how how;
	enum losses_when when;
	enum losses_after after;
	enum losses_errand errand;
	uint32_t victims;  /* by bits; of LATER those that are to fail later, too */
	uint32_t second;   /* ... that one */
	uint32_t recorded; /* victims of which the superblocks said it when the power failed */
	uint32_t drains;
	bool aims; /* they fail while a fold is made */
	bool struck, refused;
	uint8_t *aged[RIG_DRIVES_ROOM]; /* what a victim had when the loss began */
};

void losses_say_where(struct losses_life *l, const char *what);
/* Prints seed, step and sim_why.  Returns false. */
bool losses_failed(struct losses_life *l, const char *what);
void losses_report(const struct losses_seen *seen, double seconds);
/* Has all happened that this is about? */
bool losses_happened(const struct losses_seen *seen);

/* The power is off, or the store frozen. */
bool losses_down(const struct losses_life *l);
/* Some blocks have two copies since the store began with two, and was perhaps not asked yet. */
bool losses_converting(const struct losses_life *l);
/* Is everything there?  The power may fail meanwhile. */
bool losses_look(struct losses_life *l, const char *when);

/* ---- losses_mount.c ------------------------------------------------------------------- */

/* Mounts, as a person would until it succeeds; the power may fail meanwhile. */
bool losses_mount(struct losses_life *l);
/* The power fails, or the process dies, and a mount finds what life.after says. */
bool losses_restart(struct losses_life *l);
/* Keeps what the victims have now: AGED. */
void losses_keep_aged(struct losses_life *l);
void losses_forget_aged(struct losses_life *l);

/* ---- losses_errand.c ------------------------------------------------------------------ */

/* Returns the bytes of a drive for this store. */
uint64_t losses_any_size(struct losses_life *l);
/* There is a drive that the store does not have yet.  False: there is room for none. */
bool losses_spare(struct losses_life *l);
/* Begins what the life has as its errand. */
bool losses_begin(struct losses_life *l);
/* Waits until the drive is added, or its adding has failed. */
void losses_added(struct losses_life *l);

/* ---- losses_whole.c ------------------------------------------------------------------- */

/* Asks for the third copies, in a store that is to get them. */
void losses_ask_for_three(struct losses_life *l);
void losses_turn_until_whole(struct losses_life *l);
/* Any two drives may fail at once. */
bool losses_any_two(const struct losses_life *l);
/* The store becomes whole: each block has all its copies, or is in a fold that is.  The power may
 * fail meanwhile. */
bool losses_settle(struct losses_life *l);

#endif
