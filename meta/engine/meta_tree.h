/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Between meta_cache.c, meta_tree.c, meta_tx.c and meta_ckpt.c, and their tests. */
#ifndef META_TREE_H
#define META_TREE_H

#include "meta/format/meta_page.h"

/* ---- meta_cache.c ---------------------------------------------------------------- */

struct meta__waiter {
	struct list link; /* of the frame it waits for, else of the free ones */
	struct meta_op *op;
	struct meta_key key; /* that op looked for */
};

struct meta__cache {
	uint32_t nframes;
	uint32_t dirty_max; /* frames, dirty and frozen together        */
	uint32_t early_at;  /* ... leaves of them, if no others are, that are written early */
	struct meta__frame *frame;
	uint8_t *pages; /* frame i's is the i-th of them */
	_Atomic(struct meta__frame *) *bucket;
	uint64_t bucket_mask;
	struct meta__waiter *waiter;
	struct list waiters_free;
	struct list free;
	struct list dirty[2];             /* leaves; pages above them */
	struct list frozen;               /* not yet being written */
	struct list fresh;                /* read, and not yet used by the waiting operations */
	struct list leaving;              /* free when readers have left them: (7)     */
	uint32_t count[FRAME_FROZEN + 1]; /* frames by state */
	uint32_t uppers_dirty;            /* pages above leaves */
	uint32_t freezing;                /* frozen, and of the generation that was frozen last */
	uint32_t fresh_count;
	uint32_t leaving_count; /* counted as free, too */
	bool shared;            /* with readers, or a reader's */
	bool missed;            /* a reader's plan: something  */
	bool away;              /* a page on a missing drive was wanted */
	uint32_t unseen;        /* ... and this closed shard   */
	uint32_t want, wanted;  /* frames that a change waits for, in this turn and the last:
				 * reads leave that many */
	uint32_t marked;        /* frames that the current plan read */
	uint32_t hand;
	uint64_t barren; /* its steps since it freed a frame */
	uint64_t plan;   /* number of the plan of now: what frame->mark is compared with */
	uint64_t reads;
	uint64_t hits;
	struct meta__found *found; /* meta_found.c's */
	_Atomic uint64_t *named;   /* meta_named.c's; of all readers, too */
	uint64_t named_mask;
};

/* A reader's: the store's frames and hash. */
must_check int meta__cache_mirror(struct meta *m);
void meta__cache_unmirror(struct meta *m);
/* The store has readers: frames that they have left are free; some are evicted ahead.  True: there
 * is more to do at once. */
bool meta__cache_turn(struct meta *m);
/* Returns true if few frames are free: pages of lent shards cannot be evicted. */
bool meta__cache_is_short(const struct meta *m);
/* Returns true when `frames` frames are free or are being freed. */
bool meta__cache_clear(struct meta *m, uint32_t frames);

/* Offers a page that was read from its place, to be cached if it is not in memory yet and there is
 * a frame for it; if it is malformed, the next plan that needs it reads and reports it. */
void meta__cache_fill(struct meta *m, uint32_t shard, uint32_t level, uint64_t baddr, uint64_t gen,
		      const void *page);

/* Begins a plan: the pages that it reads stay in memory until the next one begins. */
void meta__cache_plan(struct meta *m);
/* Bring it into the CPU's cache, nothing of it being looked at: where in the hash a page's frame
 * stands; the first frame that stands there, if there is one; a frame, its page's header, and the
 * page's line at `at` when that is not 0. */
void meta__cache_fetch_bucket(const struct meta *m, uint64_t baddr);
bool meta__cache_fetch_frame(const struct meta *m, uint64_t baddr);
void meta__cache_fetch(const struct meta *m, const struct meta__frame *f, uint32_t at);
/* The current plan reads f. */
void meta__cache_mark(struct meta *m, struct meta__frame *f);
/* Frames that can be had for new pages, whatever their state is now. */
uint32_t meta__cache_available(const struct meta *m);

/* An empty dirty page at a new address. */
struct meta__frame *meta__cache_new(struct meta *m, uint32_t shard, uint32_t level,
				    const struct meta_key *first, uint64_t seq);
/* The page of f, to be written to: f itself or a copy, dirty, at its address of this generation. */
struct meta__frame *meta__cache_dirty(struct meta *m, struct meta__frame *f);
/* Takes over a borrower's change after it was logged: a blank frame became dirty; the page at baddr
 * was copied and is no longer in the tree. */
void meta__cache_adopt(struct meta *m, struct meta__frame *f);
void meta__cache_replaced(struct meta *m, uint64_t baddr);
/* The page of f is no longer of the tree. */
void meta__cache_drop(struct meta *m, struct meta__frame *f);

/* All dirty pages become frozen. */
void meta__cache_freeze(struct meta *m);
/* The oldest frozen page whose changes are durable in the log up to `durable`, sealed, for writing;
 * NULL: none now. */
struct meta__frame *meta__cache_frozen(struct meta *m, uint64_t durable);
/* The leaf that has been dirty for longest, in the same way, before it is frozen. */
struct meta__frame *meta__cache_early(struct meta *m, uint64_t durable);
void meta__cache_written(struct meta *m, struct meta__frame *f);
/* Pages of the generation that was frozen last, those being written too. */
uint32_t meta__cache_frozen_count(const struct meta *m);
/* Returns true if so many leaves are dirty that some must be written early: half of the room that
 * other dirty or frozen pages leave them, or the share that the configuration sets. */
bool meta__cache_early_due(const struct meta *m);
/* Returns true if there is room for that many, sooner or later, without a checkpoint. */
bool meta__cache_leaves_room(const struct meta *m, uint32_t pages);
/* Returns true if dirty and frozen pages use half of their room, or those above leaves alone
 * fifteen sixteenths of it, and some leaves among them are not being written. */
bool meta__cache_half_dirty(const struct meta *m);
bool meta__cache_uppers_dirty(const struct meta *m);
bool meta__cache_leaves_dirty(const struct meta *m);

/* ---- meta_found.c: where records of inodes and extents were found lately ---------------- */

must_check int meta__found_create(struct meta__cache *c);
void meta__found_destroy(struct meta__cache *c);
/* The record of key is the one at pos of leaf f: to be looked for there the next time. */
void meta__found_note(struct meta *m, const struct meta__frame *f, uint32_t pos,
		      const struct meta_key *key);
/* Returns the remembered frame, if any; the frame itself is not read. */
struct meta__frame *meta__found_look(const struct meta *m, const struct meta_key *key,
				     uint32_t *pos);
/* Is it there?  Then there is no other. */
bool meta__found_holds(const struct meta__frame *f, uint32_t pos, uint32_t shard,
		       const struct meta_key *key);

/* ---- meta_named.c: where names were found lately ---------------------------------------- */

must_check int meta__named_create(struct meta__cache *c);
void meta__named_destroy(struct meta__cache *c);
/* Notes that the record at pos of leaf f is the first that is not below key, with which a name is
 * looked up: if it has that hash, the next lookup starts there. */
void meta__named_note(struct meta *m, const struct meta__frame *f, uint32_t pos,
		      const struct meta_key *key);
/* Prefetches the remembered place of key. */
void meta__named_fetch(const struct meta *m, const struct meta_key *key);
/* Returns the remembered frame, if any; the frame itself is not read. */
struct meta__frame *meta__named_look(const struct meta *m, const struct meta_key *key,
				     uint32_t *pos);
/* Is it there?  Then it is the first of its hash in the tree. */
bool meta__named_holds(const struct meta__frame *f, uint32_t pos, uint32_t shard,
		       const struct meta_key *key);

/* ---- meta_tree.c ------------------------------------------------------------------- */

/* Walks to the page at `level` that has key.  0; -ENOENT: the tree is lower than that; -EIO; or an
 * answer of a plan. */
must_check int meta__tree_walk(struct meta *m, struct meta_op *op, uint32_t shard,
			       const struct meta_key *key, uint32_t level, struct meta__path *path);
/* Is the page at `level` for key the one at baddr?  1, and of which generation; 0; META__MISSES,
 * -EIO, META__NEEDS_ROOM of the pages above it: it is not read itself. */
must_check int meta__tree_names(struct meta *m, struct meta_op *op, uint32_t shard,
				const struct meta_key *key, uint32_t level, uint64_t baddr,
				uint64_t *gen);
/* The leaf that answers for key, as a hint that stays with the shard.  Errors as above. */
must_check int meta__tree_leaf(struct meta *m, struct meta_op *op, uint32_t shard,
			       const struct meta_key *key, struct meta__hint **out);
/* The same while a transaction is applied: all of it is there. */
must_check int meta__tree_leaf_again(struct meta *m, uint32_t shard, const struct meta_key *key,
				     struct meta__hint **out);
/* The same, to be changed: it and its ancestors are dirty, or its path is all of this plan. */
must_check int meta__tree_path(struct meta *m, struct meta_op *op, uint32_t shard,
			       const struct meta_key *key, struct meta__hint **out);

/* Starts to read the leaves after that of key, which will be needed soon. */
void meta__tree_ahead(struct meta *m, uint32_t shard, const struct meta_key *key, uint32_t leaves);

/* Changes; all pages of the walk are in memory, and there is room. */
void meta__tree_put(struct meta *m, uint32_t shard, const struct meta_key *key, const void *value,
		    uint32_t value_len, uint64_t seq);
void meta__tree_del(struct meta *m, uint32_t shard, const struct meta_key *key, uint64_t seq);
/* After deletes: give up the leaf of key when it is empty, or merge it when it is nearly so. */
void meta__tree_tidy(struct meta *m, uint32_t shard, const struct meta_key *key, uint64_t seq);
void meta__tree_touch(struct meta *m, uint32_t shard, const struct meta_key *key, uint32_t level);
/* A leaf below this many bytes in use is worth merging. */
#define META__LEAF_SPARSE (META__LEAF_SPACE / 4)

/* ---- meta_tx.c --------------------------------------------------------------------- */

/* Makes this plan dirty the page at `level` that has key, if it is at baddr. */
int meta__tx_touch(struct meta *m, uint32_t shard, uint32_t level, uint64_t baddr,
		   const struct meta_key *key);

#endif
