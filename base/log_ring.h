/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The last lines of the log, in memory.  Any thread puts lines, any thread reads them, and none
 * waits for another.
 *
 *   slot:   stamp 2n + 1, line n is being written   stamp 2n + 2, line n is whole
 *
 *   R1 -> A1   a reader that sees a word of line n in a slot sees stamp 2n + 1, or a later one
 *              (log_ring.c);
 *   R2 -> A2   a reader that sees stamp 2n + 2 sees all words of line n
 *              (log_ring.c).
 *
 * Invariants:
 *  (1) A slot has one writer: the one that changed its stamp from even to odd.  A line that finds
 *      its slot taken is counted and dropped.
 *  (2) A line that is read is whole: its stamp was the same before and after
 *      [torture_log_ring].
 */
#ifndef BASE_LOG_RING_H
#define BASE_LOG_RING_H

#include "base/log.h"

#include <stdatomic.h>
#include <stdbool.h>

#define LOG_RING_LINES 256u
#define LOG_RING_TEXT  488u /* bytes of a line with its NUL; a longer line is cut */

struct log_ring_line {
	uint64_t number; /* from 0 on */
	uint64_t wall_ns;
	enum log_level level;
	char text[LOG_RING_TEXT];
};

struct log_ring_slot {
	_Atomic uint64_t stamp;
	_Atomic uint64_t wall_ns;
	_Atomic uint64_t level;
	_Atomic uint64_t word[LOG_RING_TEXT / sizeof(uint64_t)];
};

/* Zeros are an empty one. */
struct log_ring {
	_Atomic uint64_t next; /* number of the next line */
	_Atomic uint64_t dropped;
	struct log_ring_slot slot[LOG_RING_LINES];
};

/* Every line that is written goes into this ring, too, from now on.  `ring` stays for ever. */
void log_keep(struct log_ring *ring);

/* Returns that ring, or NULL. */
struct log_ring *log_kept(void);

/* Adds a line; drops it if a line of an earlier round is still being written in its slot. */
void log_ring_put(struct log_ring *ring, uint64_t wall_ns, enum log_level level, const char *text);

/* Reads the first line that is kept with this number or a later one.  Returns false if there is no
 * such line yet. */
must_check bool log_ring_get(struct log_ring *ring, uint64_t number, struct log_ring_line *out);

#endif
