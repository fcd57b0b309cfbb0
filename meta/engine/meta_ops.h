/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Unfinished operations: their state, and where they wait.  meta_op.c runs them.
 */
#ifndef META_OPS_H
#define META_OPS_H

#include "meta/format/meta_record.h"
#include "meta/meta_store.h"

#include <errno.h>

/* Records and zones that one apply may touch to free a file; more is an orphan's work. */
#define META__FREE_BUDGET 20u
#define META__FREE_OPS    4u
#define META__PASS_OPS    4u
#define META__BY_STORE    UINT32_MAX /* an operation of its own */

/* Of meta_op.state. */
enum meta__op_state {
	OP_IDLE,
	OP_PAGES,
	OP_LISTED,
	OP_STALLED,
	OP_OVER,
	/* and bits: */
	OP_STATE_MASK = 15,
	OP_PAGE_BAD = 1 << 4, /* a page that it waits for could not be read          */
	OP_EPOCH = 1 << 5,    /* op->epoch is entered                                */
	OP_BLOCKS = 1 << 6,   /* its runs are checked, and must find an owner: (4)   */
	OP_RUNNING = 1 << 7,  /* counted in ops->running                             */
	OP_NO_CHANGE = 1 << 8,
	OP_FILLS = 1 << 9,      /* makes a store fuller: -ENOSPC when that is so  */
	OP_LENGTHENS = 1 << 10, /* so does this if a page has no room for it      */
};

/* meta_orphan.c: what this mount knows of a shard's ORPHAN records. */
struct meta__orphan_scan {
	bool maybe;         /* there may be one to be freed, from `from` on */
	bool busy;          /* an operation looks at it now                 */
	uint32_t bad;       /* could not be read, in this mount             */
	uint64_t from;      /* a uniquifier                                 */
	uint64_t tree;      /* the directory's that was stepped last: its uniquifier, */
	uint64_t tree_from; /* ... and the hash of the entry that is next             */
};

/* meta_totals.c: what this mount knows of a shard's PENDING records. */
struct meta__totals_scan {
	bool next;     /* there may be some for the next round             */
	bool again;    /* ... for the next sweep of this one               */
	bool maybe;    /* ... for this sweep, from directory `from` on     */
	bool busy;     /* an operation looks at it now                     */
	bool left;     /* the last round that looked could not pass up all */
	uint32_t bad;  /* could not be read, or made, in this sweep        */
	uint64_t from; /* a directory's number                             */
};

/* meta_spread.c: what is known of the names that a directory had before it was spread. */
#define META__HOMES      64u
#define META__HOME_SEEN  1024u
#define META__HOME_MAYBE 32768u
struct meta__home {
	uint64_t dir;
	uint64_t seq;    /* sequence of the reads: names may be lacking since then */
	uint32_t others; /* names of directories that would have the place, too         */
	uint64_t seen[META__HOME_SEEN / 64];   /* ranges of hashes: all names of them */
	uint64_t maybe[META__HOME_MAYBE / 64]; /* smaller ones: there was one         */
};

/* Sums that the running plan has still to add to a directory's records, modulo 2^64. */
#define META__OWED_MAX 8u
struct meta__owed {
	uint64_t dir;
	uint64_t bytes, blocks;  /* of its own      */
	struct meta__sums below; /* of its totals   */
};

/* meta_orphan.c: what becomes of the blocks that die in the one plan that runs. */
struct meta__dead {
	uint32_t zone[META__FREE_BUDGET]; /* whose records the plan changes for them       */
	uint32_t zones;
	uint32_t budget; /* of zones, and of extents freed beside them                     */
	bool has_orphan; /* there were more: this unnamed inode holds the rest, for later  */
	struct meta__inode orphan;
};

/* META__NEEDS_ROOM: the lists of operations that wait; those of drives wait for superblocks. */
enum meta__stall {
	META__STALL_OWN,
	META__STALL_READS,
	META__STALL_CHANGES,
	META__STALL_DRIVES,
	META__STALLS
};

struct meta__ops {
	struct list ready; /* their pages are here                                  */
	struct list stalled[META__STALLS]; /* META__NEEDS_ROOM; in order of arrival */
	struct list held;      /* not begun: too many at once, or one runs alone        */
	struct list trimming;  /* wait until a file is trimmed                          */
	struct list leaving;   /* wait until readers have left their shards, op->epoch  */
	struct list over;      /* to be handed back                                     */
	struct list durable;   /* over, but seen_seq is not durable; ordered by it      */
	uint32_t running;      /* of users, begun and not over                          */
	uint64_t hits;         /* records that the plan of this run has found           */
	struct meta_op *alone; /* it has been run again too often: no other may run  */
	struct meta__orphan_scan *orphan; /* nshards */
	uint32_t orphan_shard;            /* looked at last */
	uint32_t orphans_due;             /* shards that may have one, and are not being checked */
	uint64_t tree_entries;            /* freed with their trees, since mount */
	struct meta__holds *holds;        /* meta_hold.c; a reader has none      */
	const uint32_t *files_held;       /* ... by shard */
	struct meta_op free_op[META__FREE_OPS];
	struct meta__totals_scan *totals; /* nshards */
	uint32_t totals_shard;            /* looked at last */
	uint64_t totals_round;            /* begun, in this mount */
	uint32_t totals_sweeps;           /* of this round        */
	bool passes;                      /* one is under way     */
	bool pends;                       /* there may be some for the next one */
	struct meta_op pass_op[META__PASS_OPS];
	/* of the one plan that runs: */
	char path[2][META_PATH_MAX + 1]; /* while symlinks are followed */
	struct meta__dead dead;
	const struct meta_who *who;          /* the operation's */
	uint32_t by;                         /* ... reader, or META__BY_STORE */
	struct meta__home home[META__HOMES]; /* not of the plan: meta_spread.c */
	uint64_t tree_freed;                 /* entries that it frees          */
	struct meta__chunk chunk;
	struct meta__chunk dead_chunk;
	uint32_t nowed;
	struct meta__owed owed[META__OWED_MAX];
	bool passing;   /* the plan is one that passes up */
	bool grows;     /* ... and makes records for it   */
	bool lengthens; /* the plan makes a record longer, and frees nothing for it */
	uint8_t value[META_VALUE_MAX];
	uint8_t tail[META_TAIL_MAX];
};

/* ---- rows: properties of each kind of operation (meta_rows.c) ------------------------ */

/* Whether an operation brings blocks, which must get an owner. */
enum meta__brings { META__BRINGS_NONE, META__BRINGS_BLOCKS, META__BRINGS_BLOCKS_OR_INLINE };

struct meta__op_row {
	/* Plans it: see meta_plan.h.  Runs again from its start after each miss. */
	int (*plan)(struct meta *m, struct meta_op *op);
	/* One of the store's own: it has ended, and goes back to its maker. */
	void (*done)(struct meta *m, struct meta_op *op);
	uint32_t kind;        /* OP_NO_CHANGE, OP_FILLS, OP_LENGTHENS */
	uint32_t inline_kind; /* ... besides, with META_BY_INLINE */
	uint32_t inline_max;  /* bytes that it may bring so */
	enum meta__brings brings;
	bool store_only;      /* needs more of the store than the pages of a shard */
	bool of_drives;       /* waits for superblocks, in a queue of its own      */
	bool may_be_too_long; /* -E2BIG is the client's answer; else -EFBIG is     */
};

/* By type: those of clients, and the store's own from META__OP_FREE_ORPHAN on. */
struct meta__op_rows {
	const struct meta__op_row *user, *own;
};

extern const struct meta__op_row meta__user_rows[]; /* meta_rows.c; below it: m->rows */
extern const struct meta__op_rows meta__op_rows;    /* meta_rows_own.c */

static inline bool meta__op_is_own(const struct meta_op *op)
{
	return (int)op->type >= META__OP_FREE_ORPHAN;
}

static inline const struct meta__op_row *meta__op_row_of(const struct meta *m,
							 const struct meta_op *op)
{
	return meta__op_is_own(op) ? &m->rows->own[(int)op->type - META__OP_FREE_ORPHAN]
				   : &m->rows->user[op->type];
}

static inline uint32_t meta__op_row_kind(const struct meta__op_row *row, const struct meta_op *op)
{
	return row->kind | (op->flags & META_BY_INLINE ? row->inline_kind : 0);
}

/* ---- meta_op_lists.c: where operations wait ------------------------------------------------- */

static inline void meta__op_set_state(struct meta_op *op, enum meta__op_state s)
{
	op->state = (op->state & ~(uint32_t)OP_STATE_MASK) | s;
}

/* Returns false: it is not over. */
bool meta__op_wait_on(struct meta_op *op, struct list *l);
/* A file was trimmed: those that wait for that run again. */
void meta__ops_trimmed(struct meta *m);
bool meta__op_brings_blocks(const struct meta *m, const struct meta_op *op);
/* For an operation with OP_BLOCKS that is over: the blocks that came with it are in the tree, or
 * the store's again. */
void meta__op_blocks_settle(struct meta *m, struct meta_op *op);

/* Returns true if this shard may hold an ORPHAN record, as far as known. */
static inline bool meta__orphans_of(const struct meta *m, uint32_t shard)
{
	return m->ops->orphan[shard].maybe || m->ops->orphan[shard].busy;
}

/* Returns how many shards may hold some. */
uint64_t meta__orphans_waiting(const struct meta *m);

/* Is a file of this shard held because it is open? */
static inline bool meta__holds_of(const struct meta *m, uint32_t shard)
{
	return m->ops->files_held[shard] > 0;
}

#endif
