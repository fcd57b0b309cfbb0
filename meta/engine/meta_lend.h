/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Between meta_lend.c, which lends shards to readers, meta_borrow.c, which changes them there, and
 * their users: meta_share.c, meta_reader.c, meta_apply.c, meta_cache_write.c.
 */
#ifndef META_LEND_H
#define META_LEND_H

#include "meta/engine/meta_share.h"
#include "meta/engine/meta_tx.h"

#define META__BLANKS        64u   /* of each kind, ready for one borrower: a power of two */
#define META__MADES_MAX     128u  /* changes of one borrower on their way to the log      */
#define META__MADE_BYTES    3072u /* of log record                                        */
#define META__MADE_LEAVES   40u   /* frames that it changes, but for fresh ones           */
#define META__MADE_PAGES    24u   /* that become dirty by it                              */
#define META__MADE_ZONES    8u
#define META__MADE_RECEIPTS (3 * sizeof(le64))

/* A blank page: an unused frame, and its future place. */
struct meta__blank {
	struct meta__frame *frame;
	uint64_t baddr;
};

/* The store puts, the borrower takes; also the store, when nothing is lent. */
struct meta__blanks {
	_Alignas(META__LINE) _Atomic uint32_t head; /* written by the store    */
	_Alignas(META__LINE) _Atomic uint32_t tail; /* written by the borrower */
	struct meta__blank slot[META__BLANKS];
};

/* A change that a borrower has made in its shard, on its way to the log. */
struct meta__made {
	struct list link; /* of the borrower's free ones; then of the store's that wait for room */
	uint32_t bytes;   /* of `record`; 0: nothing was changed */
	struct meta__part part; /* the shard, and its counters as they are after it */
	uint64_t drives_mask, lone_mask;
	uint32_t nzones, nchanged, nfresh, ndead;
	struct {
		uint32_t zone;
		int64_t blocks;
	} live[META__MADE_ZONES];
	struct meta__frame *changed[META__MADE_LEAVES]; /* were dirty before        */
	struct meta__frame *fresh[META__MADE_PAGES];    /* were blank before        */
	uint64_t dead[META__MADE_PAGES];                /* pages that they replaced */
	bool has_receipt;
	struct meta__mut receipt; /* value: receipt_value */
	uint8_t receipt_value[META__MADE_RECEIPTS];
	_Alignas(8) uint8_t record[META__MADE_BYTES];
};

/* One reader as a borrower; most of it is the store's thread's. */
struct meta__borrower {
	struct meta *m;                /* the reader's; NULL: no reader */
	uint64_t taken;                /* changes of it that are in the log, or never will be */
	uint32_t away;                 /* shards that it has now, or that are not home again  */
	struct meta__blanks blanks[2]; /* leaves; pages above them */
};

struct meta__lend {
	struct meta__borrower by[META_READERS_MAX];
	uint64_t need[META_SHARDS_MAX]; /* the shard is home when this many changes were taken */
	uint32_t away_count;
	uint8_t last[META_SHARDS_MAX];  /* last reader to change it, index + 1; 0: the store */
	uint8_t score[META_SHARDS_MAX]; /* so often in a row */
	bool listed[META_SHARDS_MAX];   /* it is in the list below */
	uint32_t list[META_SHARDS_MAX]; /* ... these, which could be lent */
	uint32_t count;
	uint64_t as[META_SHARDS_MAX];    /* what meta__share.lent said */
	uint32_t order[META_SHARDS_MAX]; /* meta__ckpt_order_now() when it was lent */
	uint64_t times;                  /* that shards were */
	struct list waiting;             /* operations whose record waits for room in the log */
	struct meta__geo *geo; /* as meta__share.geo was, and is: one for each number of drives */
	uint32_t geos;
	uint32_t readers;
	uint32_t made_max; /* of each: changes that may be on their way; 0: nothing was lent yet */
	bool back;         /* blanks, too, must come back now */
	uint32_t after;    /* changes in a row before a loan; tests set it */
};

/* ---- meta_lend.c: the store's thread's -------------------- */

must_check int meta__lend_create(struct meta *m);
void meta__lend_destroy(struct meta *m);
/* A reader is made; its changes. */
void meta__lend_to(struct meta *m, struct meta *reader);
/* There is a drive more. */
void meta__lend_geo(struct meta *m);
/* A change of this one shard was applied here. */
void meta__lend_changed(struct meta *m, uint32_t shard);
/* A drive is added, or leaves: blanks may be on it. */
void meta__lend_back(struct meta *m);
/* Nothing is away, not even a blank. */
bool meta__lend_is_back(const struct meta *m);
/* Readers use it: not now. */
void meta__lend_others(struct meta *m, uint32_t shard);
/* Recalls all that is lent; returns whether all of it is back. */
must_check bool meta__lend_all_home(struct meta *m);
/* Lends shards, and takes records that wait for the log.  True: there is more to do at once. */
bool meta__lend_turn(struct meta *m);
/* Returns the bytes of the log reserved for lent shards. */
uint64_t meta__lend_log_bytes(const struct meta *m);

/* ---- meta_borrow.c: a borrower's thread's, on the reader's m -------------------- */

/* Begins a new loan of the shard. */
void meta__borrow_begin(struct meta *m, uint32_t shard);
/* The transaction can be made here, in `made`: 0.  META__NEEDS_ROOM: when the store has given more
 * blanks.  META__MISSES: only the store can make it. */
must_check int meta__borrow_ready(struct meta *m);
/* Its log record; the counters have moved. */
void meta__borrow_log(struct meta *m);
void meta__borrow_changed(struct meta *m, struct meta__frame *f);
void meta__borrow_live(struct meta *m, uint32_t zone, int64_t blocks);
/* True: mut is a receipt, and no change of a tree. */
must_check bool meta__borrow_receipt(struct meta *m, const struct meta__mut *mut);
/* Returns a blank frame with its place; marks a page at another place as out of the tree. */
struct meta__frame *meta__borrow_frame(struct meta *m, uint32_t level);
void meta__borrow_placed(struct meta *m, struct meta__frame *f);
void meta__borrow_dead(struct meta *m, struct meta__frame *f);

#endif
