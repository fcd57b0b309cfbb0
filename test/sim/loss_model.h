/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A model of the content that a store must have.  Each name has a known content, or one of two
 * after a change that was not acknowledged. */
#ifndef LOSS_MODEL_H
#define LOSS_MODEL_H

#include "test/lib/meta_rig.h"

#define LOSS_DIRS    4u  /* the first is the root */
#define LOSS_FILES   32u /* of all directories */
#define LOSS_NAMES   (LOSS_DIRS + LOSS_FILES)
#define LOSS_DOUBTS  16u
#define LOSS_NOBODY  UINT32_MAX
#define LOSS_LARGEST 13u /* blocks of a file, and one more, unless the test says so */

/* A change that was not acknowledged: it is there whole, or not at all. */
struct loss_doubt {
	uint32_t name[2];  /* the second may be LOSS_NOBODY */
	uint64_t after[2]; /* what the change makes of them */
};

/* The value of a name is a file's fill, or for a directory which of its two names it has, 1 or 2;
 * 0: it does not exist. */
struct loss_model {
	struct rig *r;
	struct rand_state rand;
	uint64_t now[LOSS_NAMES];
	bool unsure[LOSS_NAMES];
	struct loss_doubt doubt[LOSS_DOUBTS];
	uint32_t doubts;
	uint64_t fills;
	uint32_t largest;    /* blocks of a file, and one more */
	bool cold;           /* three quarters of the files change seldom */
	uint64_t done, full; /* changes that were acknowledged, or told -ENOSPC */
};

void loss_model_init(struct loss_model *lm, struct rig *r, uint64_t seed);

/* Makes one random change.  Returns false after a wrong answer, which sim_why names.  If the power
 * is off or the store frozen, no change is acknowledged. */
bool loss_change(struct loss_model *lm);
/* Makes each file and directory that is known not to exist.  As loss_change(). */
bool loss_fill(struct loss_model *lm);
/* Removes this file, if it is there and known. */
bool loss_remove(struct loss_model *lm, uint32_t file);
/* Reads everything; then all names are known, unless the store is frozen.  Returns false if a
 * content is wrong, which sim_why names. */
bool loss_look(struct loss_model *lm);

#endif
