/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Drives that come and go while a world serves: sim_drives.c. */
#ifndef SIM_DRIVES_H
#define SIM_DRIVES_H

#include "test/sim/sim_world.h"

extern uint64_t sim_drives_added; /* while they served, of all worlds */

/* One of the spares is offered, and is to be part of the store.  0; -EBUSY: one is being added, or
 * could not be; -ENOSPC: there are no more; else the power has failed. */
must_check int sim_drives_offer(struct sim_world *w);

/* ---- for sim_world.c ---- */

/* All that is listed, in the order of the store. */
must_check int sim_drives_open(struct sim_world *w);
void sim_drives_turn(struct sim_world *w);
/* Before the cores go. */
void sim_drives_down(struct sim_world *w);

#endif
