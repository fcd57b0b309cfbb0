/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Writes that no drive accepts: repeated, reported, and a reason to restart. */
#ifndef APP_WANTS_H
#define APP_WANTS_H

#include <stdint.h>

struct app_core;

/* After the clock was read: retries failed writes of the store, and reports them to people. */
void app_patience_turn(struct app_core *core);
/* Each turn: reports drives that are lost, and stores that get second copies. */
void app_copies_turn(struct app_core *core);
/* I/Os on these drives failed, on any core: if one takes no writes until it is opened again, the
 * daemon has to restart. */
void app_wants_look(struct app_core *core, uint64_t drives);

#endif
