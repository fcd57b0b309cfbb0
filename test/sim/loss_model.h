/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* What a store must hold: names of which each is known, or may be one of two things. */
#ifndef LOSS_MODEL_H
#define LOSS_MODEL_H

#include "test/lib/meta_rig.h"

#define LOSS_DIRS    4u  /* the first is the root */
#define LOSS_FILES   32u /* of all directories */
#define LOSS_NAMES   (LOSS_DIRS + LOSS_FILES)
#define LOSS_DOUBTS  16u
#define LOSS_NOBODY  UINT32_MAX
#define LOSS_LARGEST 13u /* blocks of a file, and one more */

/* A change that was not acknowledged: it is there whole, or not at all. */
struct loss_doubt {
	uint32_t name[2];  /* the second may be LOSS_NOBODY */
	uint64_t after[2]; /* what the change makes of them */
};

/* What a name holds: a file's fill; of a directory 1 or 2, the name that it has; 0: it is not
 * there. */
struct loss_model {
	struct rig *r;
	struct rand_state rand;
	uint64_t now[LOSS_NAMES];
	bool unsure[LOSS_NAMES];
	struct loss_doubt doubt[LOSS_DOUBTS];
	uint32_t doubts;
	uint64_t fills;
	uint64_t done, full; /* changes that were acknowledged, or told -ENOSPC */
};

void loss_model_init(struct loss_model *lm, struct rig *r, uint64_t seed);

/* One change at random.  False: an answer that must not be, sim_why says which; the power may be
 * off, or the store frozen: then nothing is acknowledged. */
bool loss_change(struct loss_model *lm);
/* Removes this file, if it is there and known. */
bool loss_remove(struct loss_model *lm, uint32_t file);
/* Reads everything, after which all is known, unless the store is frozen.  False: sim_why says what
 * is not there. */
bool loss_look(struct loss_model *lm);

#endif
