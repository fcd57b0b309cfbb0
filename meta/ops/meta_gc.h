/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Between meta_gc.c, which decides which data zones are emptied and when, meta_gc_find.c, which
 * finds their live blocks, and meta_gc_move.c, which moves them. */
#ifndef META_GC_H
#define META_GC_H

#include "meta/plans/meta_plan.h"
#include "meta/meta_store.h"

#define META__GC_MOVES   8u  /* extents being moved at once                     */
#define META__GC_BLOCKS  32u /* of one extent that are moved by one change    */
#define META__GC_VICTIMS 64u /* zones that are emptied in one round           */
#define META__GC_FOUND   16u /* extents that one search of the index finds      */

enum meta__gc_stage { GC_IDLE, GC_LOOK, GC_READ, GC_ROOM, GC_WRITE, GC_APPLY, GC_LOST };

struct meta__gc_block {
	uint64_t old, new;
	uint32_t crc;
	uint32_t slot; /* of its chunk                                        */
	bool bad;      /* could not be read, or does not match its checksum   */
	bool missed;   /* a term of it, in this way, could not be read        */
	bool alone;    /* it is read again without its neighbours             */
	bool still;    /* the apply: it is still the file's, at the same place */
};

/* An extent, or a part of one, that is being moved. */
struct meta__gc_move {
	enum meta__gc_stage stage;
	struct meta_op op;
	struct meta__io io[META__GC_BLOCKS];
	uint32_t in_flight;
	uint8_t *buf;                              /* META__GC_BLOCKS blocks */
	uint8_t *sum;                              /* as many: what is read of a term */
	struct meta_fold_term term[META_FOLD_MAX]; /* of block 0 */
	uint32_t terms, part; /* ... how many, 0: none is summed up; and which is read */
	uint64_t doubted;     /* drives, by bits, that some way has left out */
	struct meta_handle handle;
	uint64_t chunk;
	uint32_t from, next;  /* slots of the chunk to look from: now, and then */
	uint32_t zone;        /* that has all its blocks                  */
	uint64_t incarnation; /* ... in which use of it they were found      */
	uint32_t n, good;     /* blocks; those that are whole come first     */
	struct meta__gc_block block[META__GC_BLOCKS];
	struct meta_run runs[META__GC_BLOCKS]; /* their new places */
	uint32_t nruns;
	bool failed;   /* a write of it */
	uint8_t again; /* which further copy it reads, of blocks whose others are bad */
};

struct meta__gc_found {
	struct meta_handle handle;
	uint64_t chunk;
};

struct meta__gc {
	struct meta__gc_move move[META__GC_MOVES];
	uint32_t moving; /* moves that are not idle */
	/* the round: */
	uint32_t victim[META__GC_VICTIMS];
	uint32_t victims;
	bool no_room; /* something was left: no place was free */
	bool evens;   /* drives are not equally full: it moves from one to others */
	bool drains;  /* the drive to be emptied (7) */
	bool in_turn; /* the last round was for that */
	uint64_t drain_epoch, drain_deaths; /* nothing could be moved, */
	uint32_t drain_free;                /* its number of free zones */
	uint32_t from;
	uint32_t even_zones; /* zones moved at once */
	uint64_t even_gap;   /* when that was looked at last */
	uint64_t even_next;  /* and when it will be: an epoch */
	uint32_t even_pause; /* epochs that it waits for after a round that did not help */
	/* finding live blocks of the victims: a walk over the index */
	struct meta_op find_op;
	bool finding, found_all;
	uint32_t shard;
	bool shard_begun; /* it holds something of a victim */
	struct meta_key key;
	struct meta__gc_found found[META__GC_FOUND];
	uint32_t found_count, found_at;
	/* when no zone was worth it: */
	bool gave_up;
	uint64_t gave_up_deaths; /* blocks that had died in this mount */
	uint64_t gave_up_room;
	/* of drains: meta_pace.c */
	uint32_t pace_extents; /* at once */
	int64_t pace_blocks;   /* that may still be moved */
	/* counters, since mount */
	uint64_t moved_blocks, bad_blocks, zones;
};

/* ---- meta_gc.c ------------------------------------------------------------------------- */

bool meta__gc_may(const struct meta *m); /* nothing is being stopped or checked */

/* Returns true if data is about to wait for room that collection can win. */
bool meta__gc_due(const struct meta *m);

/* ---- meta_pace.c ----------------------------------------------------------------------- */

/* Returns how many extents, or pages, of a drain may be moved at once; 0: none may begin. */
uint32_t meta__pace_extents(const struct meta *m);
void meta__pace_take(struct meta *m, uint32_t blocks); /* they are being moved */

/* ---- meta_gc_move.c -------------------------------------------------------------------- */

/* Starts to move the blocks of this extent that are in victims.  There must be an idle move. */
void meta__gc_move_start(struct meta *m, const struct meta__gc_found *found);
void meta__gc_moves_turn(struct meta *m); /* those that wait for a place run again */

/* ---- meta_gc_find.c -------------------------------------------------------------------- */

void meta__gc_find_begin(struct meta *m);
/* Search more; true: it searched at once. */
bool meta__gc_find(struct meta *m);
void meta__gc_find_done(struct meta *m);

#endif
