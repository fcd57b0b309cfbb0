/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A terminal that a command draws whole pages on.
 *
 *   begin: the second screen, no cursor, keys come at once and are not echoed
 *   end:   all as it was
 *
 * A signal that ends or stops the process restores the terminal first; after a stop (Ctrl-Z) and
 * `fg`, the page is drawn again.  One terminal at a time: the process's standard input and output.
 */
#ifndef CTL_TERM_H
#define CTL_TERM_H

#include "base/assert.h"

#include <stdint.h>

/* Errors: those of tcgetattr() and tcsetattr(). */
must_check int ctl_term_begin(void);
void ctl_term_end(void);

/* Sets the size of the terminal in columns and rows; of one that does not know, 80 and 24. */
void ctl_term_size(uint32_t *columns, uint32_t *rows);
/* Waits for a key.  Returns it, or 0 when the time is over or the page is to be drawn again: the
 * size has changed, or the process was stopped; or -1: there will be no more keys. */
int ctl_term_key(int timeout_ms);
/* Puts a page on the screen in one write. */
void ctl_term_draw(const char *page);

#endif
