/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Compares the parity of each fold with its data, as the drives have them, by FORMAT.md alone. */
#ifndef LOSS_PARITY_H
#define LOSS_PARITY_H

#include "test/lib/meta_rig.h"

struct loss_parity {
	uint64_t folds[3]; /* compared: by their zones of parity, 1 or 2 */
	uint64_t widths;   /* zones of data that they had, by bits */
	uint64_t blocks;   /* of parity */
};

/* Returns false if a fold of this store, of which all drives can be read, has other parity than its
 * data says, durable or in a cache; or headers that do not say what the store believes.  sim_why
 * has it then. */
bool loss_parity_is_right(struct rig *r, struct loss_parity *seen);

#endif
