/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The drives of a store that loses some: what they are to it, and what happens to them. */
#ifndef LOSS_DRIVES_H
#define LOSS_DRIVES_H

#include "test/lib/meta_rig.h"

struct meta_drive_stat loss_stat(const struct rig *r, uint32_t drive);
/* Is it neither gone, lost nor being drained? */
bool loss_serves(const struct rig *r, uint32_t drive);
/* Returns how many drives serve. */
uint32_t loss_serving(const struct rig *r);
/* Returns one of these, at random, that is not of `but`, by bits. */
uint32_t loss_any_serving(const struct rig *r, struct rand_state *rnd, uint32_t but);

/* All drives work again, and lost ones may be asked. */
void loss_heal(struct rig *r);
/* Overwrites a drive of so many bytes. */
void loss_wreck(struct rig *r, struct rand_state *rnd, uint32_t drive, uint64_t bytes);

/* Does statfs promise room, for which a rebuild would not have to wait? */
bool loss_has_room(struct rig *r);

#endif
