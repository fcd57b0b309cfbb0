/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Between meta_share.c, which controls access to shards, and its users. */
#ifndef META_SHARE_H
#define META_SHARE_H

#include "meta/meta_store.h"

#include <errno.h>
#include <stdatomic.h>

#define META__LINE 64

/* One reader's; written by its thread, but for `in`, which the store's thread reads by writing. */
struct meta__row {
	_Alignas(META__LINE) _Atomic uint64_t in; /* 0: it reads nothing; else since when */
	_Alignas(META__LINE) _Atomic uint64_t hits;
	_Atomic uint64_t made;               /* changes, as a borrower: meta_borrow.c */
	_Atomic uint32_t pins[META__EPOCHS]; /* of its reads: as meta__zones.readers */
};

struct meta__share {
	/* Written by the store's thread, read by all: */
	_Alignas(META__LINE) _Atomic uint64_t now; /* counts what readers have to leave */
	_Atomic uint64_t epoch;                    /* of reads: as meta__zones.epoch    */
	/* 0: closed; else which time */
	_Alignas(META__LINE) _Atomic uint32_t open[META_SHARDS_MAX];
	/* 0: to nobody; else which time << 8 | to whom: index + 1 */
	_Atomic uint64_t lent[META_SHARDS_MAX];
	_Atomic uint32_t lends;                /* how many are */
	_Atomic(const struct meta__geo *) geo; /* of the drives that there are */
	/* The store's thread's alone: */
	_Alignas(META__LINE) uint64_t wanted; /* a change waits until readers have left this */
	uint64_t left;                        /* ... and they have left all up to this       */
	uint64_t waits;                       /* the operation that runs must wait for this  */
	uint32_t times;                       /* that shards were opened                     */
	uint32_t open_after;                  /* calls before a shard opens; tests set it    */
	uint64_t opened[META_SHARDS_MAX]; /* time of opening; once left, all readers had a turn */
	uint64_t closed[META_SHARDS_MAX]; /* when: no reader remains once that was left       */
	uint32_t asked[META_SHARDS_MAX];  /* by readers, since it was closed             */
	uint8_t knocked[META_SHARDS_MAX]; /* 0, or this reader, + 1, or several wait for it: */
	uint32_t knock[META_SHARDS_MAX];  /* shards in the list below                    */
	uint32_t knock_count;
	uint8_t away[META_SHARDS_MAX]; /* lent, or not yet home again: to whom, index + 1 */
	struct meta__row row[META_READERS_MAX];
};

/* ---- the store's thread's; m->share is NULL when there are no readers ----------------- */

/* Nobody else looks at it any more: it may be changed.  False: soon. */
must_check bool meta__share_take(struct meta *m, uint32_t shard);
/* A change waits, or one comes within this turn or when all have left. */
bool meta__share_change_waits(const struct meta *m);
/* Memory that was just given up may be read until this was left: meta__share_left(). */
uint64_t meta__share_leave(struct meta *m);
static inline bool meta__share_left(const struct meta *m, uint64_t when)
{
	return m->share->left >= when;
}
/* Has every read of readers ended that was planned in this epoch? */
bool meta__share_unpinned(const struct meta *m, uint64_t epoch);
uint64_t meta__share_hits(const struct meta *m);
void meta__share_turn(struct meta *m); /* checks which readers have left */
/* A reader waits for it: the next turn must come at once. */
static inline bool meta__share_more(const struct meta *m)
{
	return m->share->left < m->share->wanted;
}
void meta__share_destroy(struct meta *m);

/* ---- a reader's, between enter and leave: m->home is the store --------------------------- */

/* May it read the shard?  Then m->shard[shard] says where its tree is. */
must_check bool meta__share_sees(struct meta *m, uint32_t shard);

/* meta_lend.c: is it home again?  If not, it comes soon: m->share->waits says when. */
must_check bool meta__lend_home(struct meta *m, uint32_t shard);

/* May whoever this is look at it?  The store's thread may if it is not lent. */
static inline bool meta__may_look(struct meta *m, uint32_t shard)
{
	if (unlikely(m->home))
		return meta__share_sees(m, shard);
	return likely(!m->share) || likely(!m->share->away[shard]) || meta__lend_home(m, shard);
}

/* The answer of a plan that may not look at a shard now. */
static inline int meta__later(const struct meta *m)
{
	return m->home ? META__MISSES : META__NEEDS_ROOM;
}

#endif
