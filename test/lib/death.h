/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* What must end the process: that it does, there, and for that reason. */
#ifndef DEATH_H
#define DEATH_H

#include <stdbool.h>

/*
 * Runs `act` in a child.  True when SIGABRT ended it after a line on stderr that holds `says`; so
 * an abort from anywhere else is none.  Memory that drives reach is not inherited (nvme_mem.c):
 * `act` makes its own.  What the child wrote is in death_said() until the next.
 */
bool dies_saying(void (*act)(void), const char *says);
const char *death_said(void);

#endif
