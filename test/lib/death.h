/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Checks that a call ends the process, where it should and for the right reason. */
#ifndef DEATH_H
#define DEATH_H

#include <stdbool.h>

/*
 * Runs `act` in a child.  Returns true if SIGABRT ended it after a line on stderr that contains
 * `says`; so an abort elsewhere does not count.  Memory that drives reach is not inherited
 * (nvme_mem.c): `act` makes its own.  death_said() returns the child's output until the next call.
 */
bool dies_saying(void (*act)(void), const char *says);
const char *death_said(void);

#endif
