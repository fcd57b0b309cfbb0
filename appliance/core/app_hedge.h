/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Reads of blocks with several copies that are late, from another copy as well: see app_hedge.c. */
#ifndef APP_HEDGE_H
#define APP_HEDGE_H

#include "appliance/media/app_media.h"

#define APP_HEDGES_MAX     64u /* of one core, until the late read has come back, too */
#define APP_HEDGE_SIZES    11u /* powers of two, in blocks: 1 .. NVME_IO_BLOCKS_MAX */
#define APP_HEDGE_FLOOR_NS 1000000ull

struct app_core;
struct app_op;
struct app_part;

/* The part that an I/O has in app_hedge.c, which sees it come back. */
enum app_watch {
	APP_WATCH_NONE,
	APP_WATCH_TIME,   /* a read of an operation: for its time only    */
	APP_WATCH_READ,   /* ... which may be hedged                      */
	APP_WATCH_HEDGED, /* ... and is                                   */
	APP_WATCH_TWIN,   /* the same blocks, from another copy           */
	APP_WATCH_LATE,   /* a read that another copy was faster than     */
};

struct app_hedge {
	struct app_core *core;
	bool used;
	bool twin_out, late_out;
	struct app_io *slow; /* the operation's; NULL: nobody waits for the twin any more */
	struct app_io twin;
	struct app_io late;    /* ... that was slow, when the operation has gone on */
	char *buf;             /* of staging, for the twin */
	struct app_part *part; /* it gets `bytes` of buf at `at`, when it is sent; NULL: none */
	uint32_t at, bytes;
};

struct app_hedge_drive {
	uint64_t usual_ns[APP_HEDGE_SIZES]; /* a running mean, by size of the read */
	uint32_t seen[APP_HEDGE_SIZES];     /* reads that it is of; no more than are needed */
	uint64_t hedged, won;
};

struct app_hedges {
	uint32_t multiple; /* 0: off */
	uint64_t floor_ns;
	uint64_t step_ns; /* what a longer read counts as, at least */
	uint32_t used;
	uint32_t twins_out;
	uint64_t reads_out;  /* that may be hedged, or are */
	uint64_t held_bytes; /* of staging */
	uint64_t again_ns;   /* nothing more could be hedged: to be tried again then */
	struct list ops;     /* with such reads, oldest first */
	struct app_hedge slot[APP_HEDGES_MAX];
	struct app_hedge_drive drive[META_DRIVES_MAX];
};

void app_hedges_init(struct app_core *core);

/* Is this read of op, about to be submitted, one that could come from another copy instead? */
bool app_hedge_may(const struct app_op *op, const struct app_io *io);
/* It is being submitted. */
void app_hedge_watch(struct app_io *io);
/* All of op's reads are back: `op->watched`. */
void app_hedge_unwatch(struct app_op *op);
/* It, or a read of ours, has come back.  True: that was all. */
must_check bool app_hedge_done(struct app_io *io);

/* Hedges reads that are late.  All that had come back has been looked at. */
void app_hedges_turn(struct app_core *core);
uint64_t app_hedges_deadline(const struct app_core *core); /* UINT64_MAX: none */

/* A part with a spare piece is complete: puts bytes that came from other copies into it. */
void app_hedges_settle(struct app_core *core, struct app_part *part);

/* ---- app_memory.c ------------------------------------------------------------------------- */

/* A piece that no session is charged for, and that nothing waits for; NULL: none now. */
must_check void *app_take_spare(struct app_core *core, uint32_t size_bytes);
/* A read that had pinned memory of staging has come back. */
void app_unpin(struct app_core *core, uint64_t iova);
/* The part's bytes are in its spare piece now, which becomes its buffer. */
void app_part_swap(struct app_core *core, struct app_part *part);

#endif
