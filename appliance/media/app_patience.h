/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Keeps writes of the store that a drive did not accept, until it accepts them.
 *
 *	app_patience_park(p, io, now_ns)      it came back with an error: kept, if that can pass
 *	app_patience_hold(p, io)              ... of a client's data: kept until the daemon restarts
 *	app_patience_next(p, now_ns)          returns a write to try again now
 *	app_patience_done(p, io)              it was written, or given up
 */
#ifndef APP_PATIENCE_H
#define APP_PATIENCE_H

#include "base/assert.h"
#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

struct app_io;

struct app_patience {
	struct list parked;
	bool awaits;       /* a drive that is away, however long */
	uint32_t count;    /* that failed once and are not written yet, parked or under way */
	uint64_t since_ns; /* when the first of these failed; 0: none has                   */
	uint64_t again_ns; /* the parked ones are tried then */
	uint64_t pause_ns; /* between two tries              */
	uint32_t drive;    /* of the last that failed, and why: */
	int status;
	uint64_t limit_ns; /* how long a write is repeated; 0: not at all */
	bool gave_up;
	bool kept; /* nobody is told: the daemon will restart */
	bool lost; /* a refused write, or a flush: opening the drive again may help */
	bool said; /* that some fail: to people */
};

void app_patience_init(struct app_patience *p);

/* Keeps a failed I/O to be repeated.  Returns false if it may not be repeated, or that cannot
 * help. */
must_check bool app_patience_park(struct app_patience *p, struct app_io *io, uint64_t now_ns);

/* Keeps a client's write that a drive refused because it has lost cached writes: the daemon opens
 * the drive again, and the client sends its request again.  False: the daemon cannot restart. */
must_check bool app_patience_hold(struct app_patience *p, struct app_io *io);

/* NULL: none is due.  With p->gave_up set it has failed. */
must_check struct app_io *app_patience_next(struct app_patience *p, uint64_t now_ns);

/* Ends the I/O: it was written, or has failed for good. */
void app_patience_done(struct app_patience *p, struct app_io *io);

/* When the next one is due; UINT64_MAX: none. */
uint64_t app_patience_deadline(const struct app_patience *p);

#endif
