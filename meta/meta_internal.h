/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Shared by the files of meta/ and their tests only.
 *
 *   meta_op.c        operations: start, wait, run again, hand back
 *      | plans (const)          meta_name.c, meta_inode.c, meta_dir.c, meta_put.c ... (meta_plan.h)
 *      v
 *   meta_tx.c        a plan's reads, misses and wanted changes; apply
 *      |                     |                       |
 *      v                     v                       v
 *   meta_tree.c           meta_log.c             meta_zone.c      allocation of blocks
 *      |
 *      v
 *   meta_cache.c  <-- meta_ckpt.c: freeze, write, root, trim    meta_receipt.c: clients' changes
 *                     meta_super.c, meta_boot.c, meta_replay.c: mount
 *
 * One thread, so little here is atomic: only data that readers read (meta_share.c, meta_reader.c);
 * the store never waits for their plans.  There is one transaction at a time: a plan runs from its
 * start to its end or to its misses within one call, and an apply follows at once.
 */
#ifndef META_INTERNAL_H
#define META_INTERNAL_H

#include "meta/meta.h"
#include "meta/meta_disk.h"
#include "meta/meta_twins.h"

#include <stdatomic.h>

/* ---- keys (meta_key.h would be the same): 192 bits, compared word by word ------------ */

/*
 *  w0  directory 48 | hash 40 (high 16)
 *  w1  hash (low 24) | class 8 | uniquifier 40 (high 32)
 *  w2  uniquifier (low 8) | kind 8 | index 48
 *
 * So a name, the inode born with it, and its extents are neighbours; all names of one hash
 * stand before all objects of that hash, so that a lookup never walks over old objects.
 */
struct meta_key {
	uint64_t w[3];
};

enum meta__class {
	/* hash 0, uniq 0: the directory's own, in the shard of its entries; index 1: its totals */
	META__CLASS_DIR = 0,
	META__CLASS_NAME = 1, /* uniq: the name's                                                */
	META__CLASS_OBJ = 2,  /* uniq: the handle's                                              */
	/* of directory 0, the store's own records: */
	META__CLASS_ZONE = 3,    /* uniq: drive, index: zone; value: live blocks of the shard */
	META__CLASS_ORPHAN = 4,  /* uniq: its handle's; value: the part to be freed or trimmed */
	META__CLASS_RECEIPT = 5, /* in the log only: meta_receipt.c                          */
	META__CLASS_PENDING = 6, /* index: a directory whose total must be passed up         */
};

enum meta__kind {
	META__KIND_NONE = 0,
	META__KIND_INODE = 1,  /* value: inode, then inline bytes               */
	META__KIND_TAIL = 2,   /* meta_tail.c; index: block * 16 + piece        */
	META__KIND_EXTENT = 3, /* index: chunk of 512 KiB                       */
	META__KIND_LINK = 4,   /* a symlink's text, index 0, 1: 2048 bytes each */
	META__KIND_XATTR = 5,  /* meta_xattr.c; index: hash, twin, piece        */
	META__KIND_LINKS = 6,  /* meta_links.c; index: a directory with names   */
};

static inline struct meta_key meta__key(uint64_t dir, uint64_t hash, enum meta__class class_,
					uint64_t uniq, enum meta__kind kind, uint64_t index)
{
	return (struct meta_key){ {
		dir << 16 | hash >> 24,
		(hash & 0xffffff) << 40 | (uint64_t)class_ << 32 | uniq >> 8,
		(uniq & 0xff) << 56 | (uint64_t)kind << 48 | index,
	} };
}

static inline uint64_t meta__key_dir(const struct meta_key *k)
{
	return k->w[0] >> 16;
}

/* No record has the last of all keys: a walk from key to key would begin again behind it. */
static inline bool meta__key_is_last(const struct meta_key *k)
{
	return (k->w[0] & k->w[1] & k->w[2]) == UINT64_MAX;
}

static inline uint64_t meta__key_hash(const struct meta_key *k)
{
	return (k->w[0] & 0xffff) << 24 | k->w[1] >> 40;
}

static inline enum meta__class meta__key_class(const struct meta_key *k)
{
	return (enum meta__class)(k->w[1] >> 32 & 0xff);
}

static inline uint64_t meta__key_uniq(const struct meta_key *k)
{
	return (k->w[1] & 0xffffffff) << 8 | k->w[2] >> 56;
}

static inline enum meta__kind meta__key_kind(const struct meta_key *k)
{
	return (enum meta__kind)(k->w[2] >> 48 & 0xff);
}

static inline uint64_t meta__key_index(const struct meta_key *k)
{
	return k->w[2] & 0xffffffffffffull;
}

static inline int meta__key_cmp(const struct meta_key *a, const struct meta_key *b)
{
	for (int i = 0; i < 3; i++)
		if (a->w[i] != b->w[i])
			return a->w[i] < b->w[i] ? -1 : 1;
	return 0;
}

/* ---- I/O of the store's own ------------------------------------------------------ */

enum meta__io_kind {                      /* owner: meta_io_done() returns it there */
		     META__IO_PAGE_READ,  /* meta_cache.c                           */
		     META__IO_PAGE_WRITE, /* meta_ckpt.c                            */
		     META__IO_CKPT,       /* meta_ckpt.c: flushes and root blocks   */
		     META__IO_LOG,        /* meta_log.c: flushes and log blocks     */
		     META__IO_ZONE,       /* meta_zone.c: zone headers              */
		     META__IO_BOOT,       /* meta_boot.c, meta_replay.c             */
		     META__IO_COLLECT,    /* meta_collect.c                         */
		     META__IO_CHECK,      /* meta_check.c                           */
		     META__IO_GC,         /* meta_gc_move.c                         */
		     META__IO_FOLD,       /* meta_folder.c                          */
		     META__IO_DEALLOCATE, /* meta_deallocate.c                      */
};

struct meta__io {
	struct meta_io io; /* first: the caller's view */
	enum meta__io_kind kind;
	void *owner;
	struct meta_io other[META_COPIES_MAX - 1]; /* of a write: its other copies, */
	uint8_t others;                            /* ... how many there are, */
	uint8_t out;    /* ... and how many of all copies are not back; else 0 */
	uint8_t turned; /* a read: so often it has been sent to the next copy */
	uint8_t skips;  /* ... is: so many of those that can be read are damaged */
};

void meta__io_want(struct meta *m, struct meta__io *x); /* queue it for meta_io_next() */
/* Takes an answer.  NULL: there is another one to come: meta_pair.c. */
struct meta__io *meta__io_back(struct meta *m, struct meta_io *io);

/* ---- the answer of a plan --------------------------------------------------------- */

/* The answer of a plan, and of each function that it calls: one of these, or -errno, with which the
 * operation ends.  Plans run again from their start.  No -errno is below -4095. */
enum meta__answer {
	/* Apply the transaction: the operation is over. */
	META__DONE = 0,
	/* Run again when the pages that it has asked for are here.  A reader or borrower gives the
	 * operation to the store. */
	META__MISSES = -5001,
	/* Run again when frames, page blocks, log room or zones may be free, when readers have left
	 * a shard, or when the set of drives is durable. */
	META__NEEDS_ROOM = -5002,
	/* Run again when a file has been trimmed. */
	META__TRIMS = -5003,
};

/* ---- the store ------------------------------------------------------------------- */

struct meta__frame;

struct meta__step {
	struct meta__frame *frame;
	uint32_t index; /* of the child that was followed; 0 at the end of the walk */
};

/* From the root to a page: at[level], at[height - 1] is the root. */
struct meta__path {
	uint32_t height;
	bool has_hi;            /* else: no upper bound                           */
	uint64_t seq;           /* highest of its pages'                          */
	struct meta_key lo, hi; /* lo <= key < hi: the keys of the last page */
	struct meta__step at[META_PAGE_LEVELS_MAX];
};

/* A leaf and the path to it; valid while baddr, gen and shape are unchanged.  On the path only its
 * bounds and indices are valid then: the pages above may be others. */
struct meta__hint {
	struct meta__frame *leaf;
	uint64_t baddr;
	uint64_t gen;
	uint64_t shape;
	uint64_t plan; /* that walked it: in this one all of the path is good */
	uint32_t pos;  /* of the record that was searched last, or its place */
	struct meta__path path;
};

/* Records that change together are in few leaves: the store's own, directories', entries. */
enum meta__hint_of { META__HINT_STORE, META__HINT_DIR, META__HINT_ENTRY, META__HINTS };

/* The fields of a root block. */
struct meta__root {
	uint64_t root_baddr, root_gen, seq, log_seq, uniq_next, dir_next, files, dirs;
	uint32_t height;
};

struct meta__shard {
	uint64_t root_baddr; /* of the tree as it is now; 0: empty            */
	uint64_t root_gen;   /* the generation of that page                   */
	uint32_t height;     /* 0: empty; 1: the root is a leaf               */
	uint64_t seq;        /* of the last record applied to this shard      */
	uint64_t uniq_next;  /* the shard's counter: handles, names, orphans  */
	uint64_t dir_next;   /* counter of directory numbers born here        */
	uint64_t files;      /* KIND_INODE records: meta_apply.c counts new ones and deletes */
	uint64_t dirs;       /* CLASS_DIR records: the same                           */
	/* as of the last durable root: */
	uint64_t durable_root_baddr;
	uint64_t durable_seq;
	uint32_t root_slot;    /* the slot that holds it: the next root goes to the other */
	uint64_t root_version; /* of that root; the newest valid one of a shard counts at mount */
	uint8_t copy_first[2]; /* by slot: the copy that is written first: one that is damaged */
	/* meta_tree.c's and meta_ckpt.c's; zeros at first: */
	uint64_t shape; /* moves whenever pages of the tree come, go or change places */
	struct meta__hint hint[META__HINTS]; /* the leaves that were read last            */
	uint64_t empty_seq; /* the log sequence that emptied the tree                     */
	uint64_t opened;    /* a reader's: which time it was opened, or lent, that this is of */
	uint64_t turn;      /* a borrower's: in this turn it is lent to it, ...           */
	uint32_t order;     /* ... of the place that it gave here last                    */
	bool changed;       /* since the root that was frozen last                        */
	bool root_pending;  /* `frozen` is not durable yet                                */
	struct meta__root frozen;
};

/* Directories that are known to be spread. */
#define META__SPREAD_KNOWN 4096u

struct meta__cache;
struct meta__tx;
struct meta__ckpt;
struct meta__log;
struct meta__zones;
struct meta__boot;
struct meta__ops;
struct meta__collect;
struct meta__gc;
struct meta__folder;
struct meta__checker;
struct meta__share;
struct meta__receipts;
struct meta__fresh;
struct meta__lend;
struct meta__made;
struct meta__op_rows;
struct meta__page_want;

/*
 * Questions of lower rooms to higher ones, which know the answers.  meta.c fills it in.
 */
struct meta__above {
	/* May collection free room for waiting operations; is it doing that? */
	bool (*collection_hopes)(const struct meta *m);
	bool (*collection_busy)(const struct meta *m);
	bool (*start)(struct meta *m, struct meta_op *op); /* meta_op_start() */
	/* This block of a file is not what was written there: the scrub looks at it. */
	void (*suspect)(struct meta *m, const struct meta_handle *file, uint64_t block);
	/* An operation that looked for this key could not read this page of the index. */
	void (*suspect_page)(struct meta *m, const struct meta__page_want *page,
			     const struct meta_key *key);
};

struct meta {
	struct meta_conf conf;
	const struct meta__op_rows *rows;
	const struct meta__above *above;
	uint32_t nshards;
	uint64_t secret;
	uint64_t spread[META__SPREAD_KNOWN]; /* meta_spread.c: directories */
	uint32_t spread_at; /* names, then a directory is spread; 0: none is, in this store */
	uint8_t uuid[16];
	uint64_t epoch;    /* of this mount: log blocks of other mounts are not ours       */
	uint32_t copies;   /* of each block of data and pages: 1, 2, 3 */
	uint32_t converts; /* ... but some may still have so many; 0: none (meta_protect.c) */
	uint32_t fold;     /* data zones of a fold, at most; 0: none is made (meta_fold.c) */
	uint64_t dead;     /* drives, by their bits: what was written there may be lost */
	uint64_t losing;   /* ... that the superblocks do not name lost yet: meta_pair.c (3) */
	bool domains, domains_few; /* some have several drives; there are too few to count */
	int failed; /* 0, or -EROFS once the log or a checkpoint could not be written */
	bool mounted;
	bool checking; /* meta_check.c walks: nothing is collected during that            */
	bool stopping; /* checkpoint whatever comes, until all is in roots              */
	char error[256];
	uint64_t changes;      /* of shards, since mount */
	uint64_t index_blocks; /* written since mount: pages, roots, headers of zones */
	struct list io_wanted;
	uint8_t *mem_next;         /* meta__mem_take() cuts from here */
	struct meta__shard *shard; /* nshards */
	struct meta__cache *cache;
	struct meta__tx *tx;
	struct meta__ckpt *ckpt;
	struct meta__log *log;
	struct meta__zones *zones;
	struct meta__boot *boot;
	struct meta__ops *ops;
	struct meta__collect *collect;
	struct meta__gc *gc;
	struct meta__folder *folder;
	struct meta__checker *checker;
	struct meta_scrub *scrub;  /* NULL: no scrub                              */
	struct meta__share *share; /* NULL: there are no readers                */
	struct meta__lend *lend;   /* shards lent to them                       */
	struct meta *home;         /* this is a reader's: the store; else NULL */
	uint32_t reader;           /* ... its number                           */
	uint64_t gen;              /* ... in which it gives places             */
	uint64_t turn;             /* ... which this is, of its turns          */
	struct meta__made *made;   /* ... the change that it is making         */
	struct meta__receipts *receipts;
	struct meta__fresh *fresh;
	uint32_t self_check;             /* turns, in variants with WK_DEBUG */
	uint8_t domain[META_DRIVES_MAX]; /* as configured; 0: its own (meta_domain.c) */
	uint64_t mates[META_DRIVES_MAX]; /* each drive, and the others of its domain */
};

/* Does this block lie on a drive that is missing, in a store of one copy? */
static inline bool meta__is_away(const struct meta *m, uint64_t baddr)
{
	const uint32_t drive = META_BADDR_DRIVE(baddr);

	return drive < META_DRIVES_MAX && m->conf.drive[drive].missing;
}

/* Each module: its share of DMA-able memory, its making at meta_create(), its end. */
/* 4096-aligned; ASSERTs that it was counted. */
void *meta__mem_take(struct meta *m, uint64_t bytes);
#define META__MODULE(name)                                                                         \
	uint64_t meta__##name##_memory(const struct meta_conf *c);                                 \
	int meta__##name##_create(struct meta *m);                                                 \
	void meta__##name##_destroy(struct meta *m)
META__MODULE(cache);
META__MODULE(tx);
META__MODULE(ckpt);
META__MODULE(log);
META__MODULE(zones);
META__MODULE(boot);
META__MODULE(ops);
META__MODULE(collect);
META__MODULE(gc);
META__MODULE(folder);
META__MODULE(checker);
META__MODULE(receipts);
META__MODULE(fresh);

/* The first problem wins; printf-like, one line. */
__attribute__((format(printf, 2, 3))) void meta__error(struct meta *m, const char *fmt, ...);
/* No change can be taken any more (log or root could not be written). */
void meta__fail(struct meta *m);

/* ---- meta_cache.c: pages in memory -------------------------------------------------
 *
 *   absent --want--> reading --done--> clean <--------------- written
 *                                        | dirty (new address)    ^
 *                                        v                        |
 *                                      dirty --freeze--> frozen --+    (a write to a frozen page
 *                                        ^                   |          copies it first)
 *                                        +---- copy ---------+
 *
 * A frame is found by the address of its page.  Clean, unpinned frames are evicted by clock.
 * Readers find them too, and read `state` first: meta_cache.c says what they may rely on.
 */
enum meta__frame_state {
	FRAME_FREE,
	FRAME_READING,
	FRAME_BLANK, /* given to a borrower, with a place: meta_borrow.c makes it dirty */
	FRAME_CLEAN,
	FRAME_DIRTY,
	FRAME_FROZEN
};

struct meta__frame {
	_Alignas(64) uint8_t *page; /* META_PAGE_BYTES                                  */
	_Atomic uint64_t baddr;     /* present or future address of the page           */
	uint64_t gen;               /* generation in which it got that address          */
	_Atomic uint64_t seq; /* highest log block sequence that changed it; 0 when from disk */
	uint64_t mark;        /* the plan that read it last: not evicted during that     */
	uint32_t shard;
	uint32_t level;        /* 0: leaf                                                      */
	uint32_t fresh;        /* plans that asked for it and have not run again yet           */
	_Atomic uint8_t state; /* enum meta__frame_state                                */
	_Atomic uint8_t turns; /* so often the clock's hand passes it by                 */
	_Atomic bool gone;     /* no longer of the current tree; frozen: dropped when written */
	uint8_t again;         /* so often it has been read again                              */
	/* fields for a lookup end here, with the cache line */
	uint64_t counted;  /* the plan that counted it as a page to make dirty          */
	uint32_t last_pos; /* where a record was put last: shows an ascending run       */
	uint64_t left;     /* free: readers may still read it before they left this  */
	_Atomic(struct meta__frame *) hash_next;
	struct list link;    /* of its state's list; clean: of the fresh ones                */
	struct list waiters; /* of operations, while reading                                 */
	struct meta__io io;
};

/*
 * The store writes these fields of a frame; a borrower writes those of its blank frames.  A thread
 * that may look at a frame's shard reads them as its own, since the next writer waits until that
 * thread has left the shard (meta_share.c, meta_lend.c).
 */
static inline enum meta__frame_state meta__frame_state(const struct meta__frame *f)
{
	return atomic_load_explicit(&f->state, memory_order_relaxed);
}

/*
 * Returns true when the page may be read.  A thread that has not found the frame in the hash, but
 * remembers it, must ask this first: meanwhile the frame may have got a page of another shard.
 *
 *   F1 -> G1   (meta_cache.c)
 */
static inline bool meta__frame_readable(const struct meta__frame *f)
{
	return atomic_load_explicit(&f->state, memory_order_acquire) >= FRAME_CLEAN; /* G1 */
}

static inline uint64_t meta__frame_baddr(const struct meta__frame *f)
{
	return atomic_load_explicit(&f->baddr, memory_order_relaxed);
}

static inline bool meta__frame_gone(const struct meta__frame *f)
{
	return atomic_load_explicit(&f->gone, memory_order_relaxed);
}

/* The caller must be the only one that may look at the shard, or must set the state later (F1). */
static inline void meta__frame_gone_set(struct meta__frame *f, bool gone)
{
	atomic_store_explicit(&f->gone, gone, memory_order_relaxed);
}

/* A borrower changes pages before the store knows of which log block. */
static inline uint64_t meta__frame_seq(const struct meta__frame *f)
{
	return atomic_load_explicit(&f->seq, memory_order_relaxed);
}

static inline void meta__frame_seq_set(struct meta__frame *f, uint64_t seq)
{
	atomic_store_explicit(&f->seq, seq, memory_order_relaxed);
}

/* The frame of the page at baddr if it is in memory and readable, else NULL. */
struct meta__frame *meta__cache_find(struct meta *m, uint64_t baddr);
/* Read it, on behalf of op, which looks for key (op gets one more in op->misses; when the page is
 * here, meta__op_page_done() takes it off again), or of nobody: NULL, NULL.  0: wait for op->misses
 * to be 0.  META__NEEDS_ROOM: no frame can be had now.  -EIO: no such place. */
int meta__cache_want(struct meta *m, uint32_t shard, uint32_t level, uint64_t baddr, uint64_t gen,
		     struct meta_op *op, const struct meta_key *key);
/* Frames that new dirty pages could take now, within the limit of dirty pages. */
uint32_t meta__cache_room(const struct meta *m);
/* ... what that limit is. */
uint32_t meta__cache_dirty_max(const struct meta_conf *c);
void meta__cache_io_done(struct meta *m, struct meta__io *x);
void meta__cache_stat(const struct meta *m, struct meta_statfs *out); /* cache_*, page_* */
/* Estimates the room for records in half-empty leaves, in blocks: meta_leaf_room.c. */
uint64_t meta__leaf_room_blocks(const struct meta *m);
/* The least cache that any store can work with; conf.cache_bytes below it is refused. */
#define META__CACHE_FRAMES_MIN 128u

/* ---- meta_tree.c: on pages that are there -------------------------------------------
 * All lookups return META__MISSES after having asked for the page that they miss (for tx->op). */

/* For the walks of mount, collection and check: the content of a page, by the one page parser. */
struct meta__page_look {
	uint32_t shard;
	uint32_t level; /* 0: leaf */
	uint32_t count; /* records, or children */
	uint64_t gen;
	uint32_t order;        /* ... and of the places given in it, which */
	struct meta_key first; /* as in its header */
};
int meta__page_look(const void *page, struct meta__page_look *out); /* 0, -EUCLEAN */
/* On a page that meta__page_look() found good: child i (key: its separator; the first one's is as
 * its parent says), record i. */
void meta__page_child(const void *page, uint32_t i, struct meta_key *key, uint64_t *baddr,
		      uint64_t *gen);
void meta__page_record(const void *page, uint32_t i, struct meta_key *key, const void **value,
		       uint32_t *value_len);

/* ---- meta_tx.c -------------------------------------------------------------------- */

#define META__TX_RECORDS_MAX 64u

struct meta__mut {
	uint32_t shard;
	bool del;
	struct meta_key key;
	const void *value; /* in the tx's own buffer, or a log block's at replay */
	uint32_t value_len;
};

/* Begin a plan for op; forgets whatever an earlier plan wanted. */
void meta__tx_begin(struct meta *m, struct meta_op *op);

/* The value of key as the transaction sees it (its own changes included); it stays good until the
 * transaction ends.  0, -ENOENT, -EIO, or an answer of a plan. */
int meta__tx_get(struct meta *m, uint32_t shard, const struct meta_key *key, const void **value,
		 uint32_t *value_len);

/* Finds the first record with key >= *key (in the tree, without the transaction's own changes).  It
 * reads no leaf without records up to `last`, so the result may be after `last`.  0 and *key, value
 * set; -ENOENT: none up to there; -EIO, or an answer of a plan.
 * Cheap if it continues after the last call in the same leaf. */
int meta__tx_seek(struct meta *m, uint32_t shard, struct meta_key *key, const struct meta_key *last,
		  const void **value, uint32_t *value_len);

/* Want to put or delete; copies the value.  Also walks to the leaf, so that a miss shows now.
 * 0, -EIO, -E2BIG (more than META__TX_RECORDS_MAX), or an answer of a plan. */
int meta__tx_put(struct meta *m, uint32_t shard, const struct meta_key *key, const void *value,
		 uint32_t value_len);
int meta__tx_del(struct meta *m, uint32_t shard, const struct meta_key *key);

/* Blocks of a data zone come to life or die with this transaction (shard's ZONE record). */
int meta__tx_live(struct meta *m, uint32_t shard, uint64_t baddr, int64_t nblocks);

/* The shard's counter, taken by this transaction if it is applied (it must put to that shard). */
uint64_t meta__tx_uniq(struct meta *m, uint32_t shard);
uint64_t meta__tx_dir(struct meta *m, uint32_t shard);

/* Notes the drives of this transaction's data, to be flushed before its log block. */
void meta__tx_data(struct meta *m, const struct meta_run *runs, uint32_t nruns);

/* Can it be applied now?  0, META__NEEDS_ROOM (frames, page blocks or log room are short: a
 * checkpoint has been asked for), -ENOSPC, -EROFS. */
int meta__tx_ready(struct meta *m);
bool meta__tx_splits(const struct meta *m); /* a leaf has no room for a put */
/* Apply: cannot fail.  op->seen_seq becomes its log block's sequence.  Nothing to change: none. */
void meta__tx_apply(struct meta *m);
/* Returns the highest log sequence that the transaction has read. */
uint64_t meta__tx_seen(const struct meta *m);
/* Notes that the plan relies on earlier reads, whose highest sequence is `seq`. */
void meta__tx_saw(struct meta *m, uint64_t seq);
/* The leaf that answers for key, of which this plan has just looked at a record.  False: it is not
 * in memory, or of no log sequence yet. */
struct meta__leaf_seen {
	const void *page;
	uint64_t seq;
	struct meta_key lo, hi; /* it has all of lo <= key < hi */
	bool has_hi;
};
must_check bool meta__tx_leaf(struct meta *m, uint32_t shard, const struct meta_key *key,
			      struct meta__leaf_seen *out);
/* Returns true if this plan's -EIO was for a page on a missing drive.  Once for each. */
bool meta__tx_was_away(struct meta *m);
/* Returns true if the leaf of key, or a page above it, is away: its content is unknown up to *end;
 * has_end false: to the shard's end. */
struct meta__away {
	struct meta_key end;
	bool has_end;
};
must_check bool meta__tx_away(struct meta *m, uint32_t shard, const struct meta_key *key,
			      struct meta__away *out);
/* Records that it requests to change so far. */
uint32_t meta__tx_wanted(const struct meta *m);

/* Replay: apply one shard's part of a log record, as at run time but unlogged.  The caller sets
 * the shard's seq and counters right after a 0, in the same turn.  *away: changes that were left
 * out, since their leaf is on a missing drive, or below a page there.
 * 0, -EIO, or an answer of a plan. */
int meta__tx_replay(struct meta *m, struct meta_op *op, const struct meta__mut *mut, uint32_t count,
		    uint32_t *away);

/* ---- meta_log.c -------------------------------------------------------------------- */

/* The limit of one record, headers included: it must fit one log block, and that one zone. */
#define META__RECORD_BYTES_MAX (80u << 10)
/* Where zones have less than 32 blocks: 12 blocks with the head of the first.  So it fits the
 * smallest zone beside META__LOG_KEEP_BLOCKS. */
#define META__RECORD_BYTES_SMALL ((48u << 10) - (uint32_t)sizeof(struct meta_log_disk))
#define META__ZONE_BLOCKS_SMALL  32u
uint32_t meta__log_record_bytes(const struct meta__mut *mut, uint32_t count);
uint32_t meta__log_record_max(const struct meta *m); /* bytes of one, with these zones */
/* Returns true if there is room for `bytes` of record now (open block, next zones, log's limit). */
bool meta__log_room(struct meta *m, uint32_t bytes);
/* Returns true if there is no room, and only a checkpoint makes some. */
bool meta__log_full(const struct meta *m, uint32_t bytes);
/* Add one record: all changes of one transaction, atomic.  Returns the sequence of its block.
 * meta__tx_apply() has already moved seq (by one for each shard that mut names) and the counters
 * of those shards: the record carries them as they are after it.
 * drives_mask: drives whose finished data writes this record names (bit d % 64). */
uint64_t meta__log_append(struct meta *m, const struct meta__mut *mut, uint32_t count,
			  uint64_t drives_mask);
/* The same of a record that a borrower has written; for it room was kept. */
must_check bool meta__log_room_made(struct meta *m, uint32_t bytes);
uint64_t meta__log_append_made(struct meta *m, const void *record, uint32_t bytes,
			       uint64_t drives_mask);
/* Returns true if `bytes` more can be appended whatever else is. */
must_check bool meta__log_lends(const struct meta *m, uint64_t bytes);
/* Whether the log can do without this write or flush of its own, if its drive is dead. */
must_check bool meta__log_spares(const struct meta *m, const struct meta__io *x);
/* Whether blocks are still written: also of a store that takes no more changes, when it is only a
 * dead drive that it could not write to. */
must_check bool meta__log_lives(const struct meta *m);
/* The store fails. */
void meta__log_fail(struct meta *m);
uint64_t meta__log_durable(const struct meta *m); /* all blocks up to this are durable */
/* Finds the newest durable block on a drive, if the log still has its zone: its place, and its
 * first 64 bytes. */
must_check bool meta__log_newest(const struct meta *m, uint32_t drive, uint64_t *baddr, void *head);
uint64_t meta__log_last(const struct meta *m); /* sequence of the newest record's block */
/* Close and send what this turn gathered: no later record joins a block that there is.  True: there
 * is room that was not, for what waited. */
bool meta__log_turn(struct meta *m);
bool meta__log_wants_ckpt(const struct meta *m);   /* half full, or too many distinct leaves  */
void meta__log_trim(struct meta *m, uint64_t seq); /* blocks up to seq are covered by roots   */
void meta__log_io_done(struct meta *m, struct meta__io *x);
void meta__log_recorded(struct meta *m); /* blocks that waited for the record of a loss count now */

/* Is anything in progress that may make room in it? */
bool meta__log_moves(const struct meta *m);

/* ---- meta_receipt.c ---------------------------------------------------------------- */

/* The transaction of op, which has an id, leaves a receipt.  As meta__tx_put(). */
must_check int meta__receipt_want(struct meta *m, const struct meta_op *op);
/* True: it is a receipt, and no change of a tree.  seq: of its log block. */
bool meta__receipt_apply(struct meta *m, const struct meta__mut *mut, uint64_t seq);
/* Checks a mutation of the log: 0, or -EUCLEAN: a malformed receipt. */
must_check int meta__receipt_check(const struct meta__mut *mut);
int meta__plan_recall(struct meta *m, struct meta_op *op);
/* Mount: the log from this sequence on is about to be replayed. */
void meta__receipts_replaying(struct meta *m, uint64_t first);
/* Appends the table's receipts to the log again.  A bounded step; true: all are appended. */
void meta__receipts_carry_start(struct meta *m);
must_check bool meta__receipts_carry(struct meta *m);
/* Returns how far the log may be trimmed, given the last carried receipts. */
uint64_t meta__receipts_trim(const struct meta *m);

/* ---- meta_zone.c ------------------------------------------------------------------- */

enum meta__zone_kind {
	META__ZONE_FREE,
	META__ZONE_LOG,
	META__ZONE_PAGE,
	META__ZONE_DATA,
	META__ZONE_ROOT,   /* a copy of the root area that had to leave its drive */
	META__ZONE_TWIN,   /* of a zone of pages or data, on another drive: meta_pair.c */
	META__ZONE_PARITY, /* of zones of data, on other drives: meta_fold.c */
};

/* Only these two count pages, in memory: ZONE records are of data zones only (mount counts pages
 * again: it walks the interior pages, which name all others). */
struct meta__page_need {
	uint32_t leaves, uppers; /* those above them: they have zones of their own */
};
uint32_t meta__page_room(struct meta *m); /* pages that can be taken at once      */
/* Returns whether a change that needs these page addresses may continue: 0, META__NEEDS_ROOM,
 * -ENOSPC (never).  collects: it is collection's, and may use the reserve for that. */
int meta__page_ready(struct meta *m, struct meta__page_need need, bool collects);
/* -> baddr of 4 blocks; ASSERTs room. */
uint64_t meta__page_take(struct meta *m, uint32_t level);
void meta__page_dead(struct meta *m, uint64_t baddr); /* no current tree will read it again   */
/* A ZONE record of a data zone changed by delta blocks (called after each apply of such a put or
 * delete: new value less old value; at run time and at replay). */
void meta__zone_live_add(struct meta *m, uint32_t zone, int64_t delta);
/* Blocks from meta_data_alloc() that were given to an operation: it was applied (call it in the
 * turn of the apply, after the ZONE records changed), or it failed and they are dead. */
void meta__data_applied(struct meta *m, const struct meta_run *runs, uint32_t nruns);
void meta__data_dropped(struct meta *m, const struct meta_run *runs, uint32_t nruns);
/* Are these runs whole, inside one data zone each, and allocated?  For plans: -EINVAL if not. */
int meta__data_check(const struct meta *m, const struct meta_run *runs, uint32_t nruns);
/* For operations that make a store fuller (not deletion, nor others that free): 0, -ENOSPC, or
 * META__NEEDS_ROOM: collection or a checkpoint will free zones. */
int meta__space_ok(const struct meta *m);
/* Returns the live blocks that have no place on the drives that serve: even when all that is dead
 * there has been collected (packed), or if nothing is.  0: there is room for all that must move. */
uint64_t meta__room_short(const struct meta *m, bool packed);
void meta__statfs_space(const struct meta *m, struct meta_statfs *out); /* blocks_*, zones_* */
uint32_t meta__zone_of(const struct meta *m, uint64_t baddr);           /* global zone index */
struct meta_key meta__zone_key(const struct meta *m, uint32_t zone);
uint32_t meta__zone_of_key(const struct meta *m, const struct meta_key *key);
/* The log takes whole zones. -EAGAIN: its header is being written; -ENOSPC. */
/* The next zone of the log, and its copies; then META__ZONE_NONE.  -EAGAIN, -ENOSPC. */
int meta__zone_take_log(struct meta *m, uint32_t zone[]);
void meta__zone_give_log(struct meta *m, uint32_t zone);
/* Read epochs: blocks that an operation planned to read are not reused before it ends. */
uint64_t meta__epoch_enter(struct meta *m);
void meta__epoch_leave(struct meta *m, uint64_t epoch);
/* A checkpoint: zones empty at freeze are free once its roots are durable and older reads have
 * ended. */
/* So few zones are free that none must be used up but where there is need. */
bool meta__zone_short(const struct meta *m);
void meta__zone_freeze(struct meta *m);
void meta__zone_rooted(struct meta *m);
void meta__zone_turn(struct meta *m);
void meta__zone_io_done(struct meta *m, struct meta__io *x);

/* ---- meta_ckpt.c ------------------------------------------------------------------- */

void meta__ckpt_want(struct meta *m);    /* start one soon; harmless when one runs            */
void meta__ckpt_dirtied(struct meta *m); /* pages were: is it time for one?           */
/* Makes room for `pages` more dirty pages: writes leaves early, or starts a checkpoint. */
void meta__ckpt_make_room(struct meta *m, uint32_t pages);
bool meta__ckpt_was_early(const struct meta *m); /* leaves were written since the last one */
bool meta__ckpt_running(const struct meta *m);
bool meta__ckpt_freezes(const struct meta *m);   /* soon */
void meta__ckpt_hold(struct meta *m, bool hold); /* none begins until it is let go */
bool meta__ckpt_turn(struct meta *m); /* a bounded step; true: more to do at once          */
void meta__ckpt_io_done(struct meta *m, struct meta__io *x);
void meta__ckpt_stat(const struct meta *m, struct meta_statfs *out); /* checkpoints */
/* The generation that pages get which become dirty now: m->epoch << 32 and a count, so that no two
 * mounts ever give a page the same one.  m->epoch is this mount's before the first record is
 * replayed. */
uint64_t meta__ckpt_gen(const struct meta *m);
uint32_t meta__ckpt_order(struct meta *m); /* one more in this generation, from 1 on */
/* Returns the order of the last one; sets that of one that a borrower assigned. */
uint32_t meta__ckpt_order_now(const struct meta *m);
void meta__ckpt_order_least(struct meta *m, uint32_t order);
#define META__ROOT_COPIES 3u /* of each root, at most */
/* meta_super.c: fills `block` (4096 bytes) with the root of `shard` as frozen, and the addresses of
 * its copies.  Returns how many it has. */
uint32_t meta__root_build(struct meta *m, uint32_t shard, const struct meta__root *r, void *block,
			  uint64_t copy_baddr_out[META__ROOT_COPIES]);
/* A root is written by FUA to its first address; when that is durable, to the next one, and so on:
 * at most one copy of a slot can be torn, two bad ones are corruption.  When all are durable the
 * slot turns. */
void meta__root_durable(struct meta *m, uint32_t shard, const struct meta__root *r);

/* ---- meta_op.c ---------------------------------------------------------------------- */

/* A page that op waited for is here (or status != 0: could not be read). */
void meta__op_page_done(struct meta *m, struct meta_op *op, int status);
/* The store's own operations run like others (meta_op_start()); private types from 1000 on.
 * They do not come back from meta_op_poll(): as soon as one is over (applied: not yet durable), or
 * in meta_op_start() itself, which returns true then.  In the other case meta_op.c calls done() of
 * its row (meta_rows.c). */
enum {
	META__OP_FREE_ORPHAN = 1000, /* meta_op.c                                     */
	META__OP_TOUCH,              /* meta_collect.c                                */
	META__OP_REPLAY,             /* meta_replay.c                                 */
	META__OP_MKROOT,             /* meta_boot.c: once, at format                  */
	META__OP_GC_FIND,            /* meta_gc_find.c                                */
	META__OP_GC_LOOK,            /* meta_gc_move.c                                */
	META__OP_GC_MOVE,
	META__OP_TOTALS_UP, /* meta_totals_up.c                               */
	META__OP_DUPLICATE, /* meta_check_duplicate.c                            */
};
void meta__collect_op_done(struct meta *m, struct meta_op *op);
/* The page at baddr, if it was just read to be collected; for now.  NULL: it was not. */
const void *meta__collect_page(const struct meta *m, uint64_t baddr);
void meta__boot_op_done(struct meta *m, struct meta_op *op);
void meta__gc_op_done(struct meta *m, struct meta_op *op);
void meta__totals_up_op_done(struct meta *m, struct meta_op *op);
void meta__duplicate_op_done(struct meta *m, struct meta_op *op);
int meta__plan_mkroot(struct meta *m, struct meta_op *op); /* meta_dir.c: directory 1 */
int meta__plan_replay(struct meta *m, struct meta_op *op); /* meta_replay.c */
/* meta_orphan.c: replay is over; any shard may hold ORPHAN records. */
void meta__ops_mounted(struct meta *m);
/* Plans: enum meta__answer, or -errno, with which the operation ends. */
/* meta_touch.c: dirties the page in keeps.touch, if it is still there. */
int meta__plan_touch(struct meta *m, struct meta_op *op);
int meta__plan_gc_find(struct meta *m, struct meta_op *op); /* meta_gc_find.c */
int meta__plan_gc_look(struct meta *m, struct meta_op *op); /* meta_gc_move.c */
int meta__plan_gc_move(struct meta *m, struct meta_op *op);
int meta__plan_totals_up(struct meta *m, struct meta_op *op); /* meta_totals_up.c */
/* meta_spread_duplicate.c */
int meta__plan_duplicate(struct meta *m, struct meta_op *op);
bool meta__ops_stalled(const struct meta *m); /* some wait for room */
/* A reader's plan.  False: it saw too little for one. */
must_check bool meta__op_try(struct meta *m, struct meta_op *op);
/* A borrower's change.  0: it is over, and made if op->status is 0; META__NEEDS_ROOM: not now;
 * META__MISSES: only the store can make it. */
must_check int meta__op_change(struct meta *m, struct meta_op *op);
/* Settles the blocks that came with it: in the tree, or freed. */
void meta__op_settle_made(struct meta *m, struct meta_op *op);
bool meta__ops_turn(struct meta *m); /* stalled ones again; orphans; a bounded step          */

/* ---- names ---------------------------------------------------------------------------- */

/* 40 bits. */
uint64_t meta__name_hash(const struct meta *m, uint64_t dir, const char *name, uint32_t len);
uint32_t meta__dir_shard(const struct meta *m, uint64_t dir); /* where a directory's entries lie */
uint32_t meta__spread_at(const struct meta_conf *c);          /* meta_spread.c */

#endif
