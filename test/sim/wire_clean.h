/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Checks that nothing is left of clients that have gone: see wire.c. */
#ifndef WIRE_CLEAN_H
#define WIRE_CLEAN_H

#include "test/sim/sim_world.h"

struct app_core;

/* False: see sim_why. */
bool wire_core_is_clean(struct app_core *core);
/* Some file is still held for somebody. */
bool wire_holds_are_out(const struct sim_world *w);
/* Nobody is there, and every file has a name. */
bool wire_store_is_clean(struct sim_world *w);

#endif
