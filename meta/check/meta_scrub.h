/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Between meta_scrub.c, meta_scrub_walk.c, meta_scrub_name.c, meta_errand.c, meta_errand_page.c. */
#ifndef META_SCRUB_H
#define META_SCRUB_H

#include "meta/engine/meta_damage.h"
#include "meta/format/meta_page.h"
#include "meta/format/meta_record.h"
#include "meta/meta_store.h"

#define META__SCRUB_TOLD      1024u                  /* damage already reported */
#define META__SCRUB_TOLD_MORE (META__SCRUB_TOLD / 2) /* of files that have a line already */
#define META__SCRUB_LOST      64u                  /* damaged files whose names are not known yet */
#define META__SCRUB_PATH      (META_PATH_MAX + 1u) /* of a longer path only the end is known */
#define META__SCRUB_LINE_PATH 320u /* of a line: the end of a longer path stands there */
#define META__SUSPECTS        256u
#define META__SUSPECT_PAGES   16u
#define META__SUSPECT_BLOCKS  (1u << 20) /* of one: a larger piece is left to the round */

/* A page of each level: read from a drive, and whether it matches its parent. */
struct meta__scrub_page {
	uint64_t baddr, gen; /* 0: none */
	uint32_t shard;
	bool unreadable;     /* when it failed last */
	uint32_t fails;      /* 0: bytes are good */
	uint32_t copy;       /* the next of the others that is read: those before it were good, */
			     /* ... or cannot be read, or helped                             */
	uint32_t copy_fails; /* of that one */
	uint64_t seen_gen;   /* counted already   */
	uint64_t seen_baddr;
	uint8_t *bytes;
};

/* The position of a walk: a leaf, or a page that is damaged and not in memory. */
struct meta__scrub_place {
	const uint8_t *leaf; /* NULL: damaged */
	bool has_hi;
	struct meta_key hi; /* the first key that it does not answer for */
};

enum meta__scrub_walk {
	SCRUB_LEAF,
	SCRUB_READ,
	SCRUB_DAMAGED,
	SCRUB_EMPTY,
	SCRUB_AWAY, /* its shard is lent: soon */
};

struct meta__scrub_bad {
	bool page;
	bool unreadable;
	bool more;               /* another block of the file has been found before */
	struct meta_handle file; /* for a page: only the directory that it begins with */
	uint64_t block;          /* of the file; a page: its level                          */
	uint64_t baddr;
	uint32_t shard;
};

/* A name is looked for from its end: the file's in its directory, that one's in its parent. */
struct meta__scrub_naming {
	bool on;
	bool climbing; /* the directory's record is looked for, else a name in it */
	bool whole;    /* it is not where its hash says: all names are checked  */
	bool for_list; /* looked up for a listing of the table of damage */
	uint32_t entry;
	struct meta__scrub_bad bad;
	struct meta_handle want;
	uint64_t dir;
	struct meta_key at;
	uint32_t from; /* path[from .. META__SCRUB_PATH) is known */
	char path[META__SCRUB_PATH];
};

/* Headers of zones. */
struct meta__scrub_heads {
	bool done;       /* of this round */
	uint32_t zone;   /* the next one  */
	uint64_t looked; /* zones, in this round */
	uint64_t blocks; /* stat.blocks when it began */
	uint32_t copy;   /* that is read next */
	uint32_t fails;
	bool mends; /* it is being written */
	bool unreadable;
	bool whole[2];
	struct meta__zone_seen seen[2];
	uint64_t incarnation; /* before the first read */
};

/* Superblocks. */
struct meta__scrub_supers {
	bool done; /* in this round */
	bool mends;
	uint32_t drive, copy, fails; /* that is read next; reads that found one wrong */
	uint32_t wrong;              /* copies, by bits */
	uint64_t set;                /* in use before the first read */
};

/* Folds: meta_scrub_folds.c. */
struct meta__scrub_folds {
	bool done;                    /* of this round */
	bool reading;                 /* a piece of one */
	uint32_t zone;                /* of parity: of the fold that is looked at, or the next */
	uint64_t pair;                /* ... the fold's number */
	uint32_t of[META_FOLD_ZONES]; /* its zones: of data, P, Q */
	uint32_t count, members;      /* how many, 0: not begun; and those of data */
	uint32_t at, part, fails;     /* block, and which of them */
	uint8_t *sum[META_FOLD_PARITIES];
};

/* The place: the next record, and the next block of its chunk. */
struct meta__scrub_cursor {
	bool names_only; /* the walk at a round's end that searches names of `lost` */
	uint32_t shard;
	struct meta_key at;
	uint32_t block;
	uint32_t copy; /* that is read next (0: the first), of the blocks up to: */
	uint32_t copy_until;
	uint32_t single_until; /* blocks below are read one by one: one of them cannot be */
	/* a block that did not match, or could not be read */
	uint64_t doubt_baddr;
	uint32_t doubt_crc, doubt_fails;
	bool doubt_unreadable;
};

/* meta_scrub_heal.c */
enum meta__heal_stage { HEAL_NONE, HEAL_OTHER, HEAL_READING, HEAL_WRITE, HEAL_WRITING };

struct meta__scrub_heal {
	enum meta__heal_stage stage;
	bool page;
	bool held;    /* a read epoch is */
	uint64_t bad; /* place of the damaged copy, and another one, or those of its fold */
	struct meta_fold_term term[META_FOLD_MAX];
	uint32_t terms, part; /* ... how many, and which is read */
	uint64_t left_out;    /* drives, by bits, that some way has done without */
	uint32_t nblocks, crc;
	struct meta__page_want want;
	uint64_t tried; /* the damaged place that was last written, or could not be helped */
	uint64_t epoch;
	uint8_t *bytes; /* a page */
};

struct meta__suspect {
	struct meta_handle file;
	uint64_t block, nblocks;
};

/* A page of the index that an operation could not read when it looked for this key. */
struct meta__suspect_page {
	struct meta__page_want page;
	struct meta_key key;
};

struct meta_scrub {
	struct meta *m;
	struct meta__scrub_page page[META_PAGE_LEVELS_MAX];
	bool in_round;
	uint64_t round; /* number of the current round, or of the next */
	struct meta__scrub_cursor cur;
	/* reads in progress */
	bool reading, reading_page, reading_head, reading_super;
	bool reading_other; /* of a page, a copy other than the first that can be read */
	struct meta__scrub_heal heal;
	struct meta_run run;
	struct meta__page_want want;
	uint32_t crc[META_SCRUB_BLOCKS_MAX];
	struct meta__scrub_heads heads;
	struct meta__scrub_supers supers;
	struct meta__scrub_folds folds;
	uint64_t unreachable; /* drives, by their bits */
	uint64_t last_unreachable_pages, last_unreachable_blocks;
	struct meta__scrub_naming naming;
	/* meta_errand.c */
	struct meta__damages damages;
	struct meta__suspect suspect[META__SUSPECTS];
	uint32_t suspect_head, suspect_tail;
	bool checking; /* `check` is looked at, the round's cursor is put aside */
	struct meta__suspect check;
	struct meta__scrub_cursor aside;
	struct meta__suspect_page suspect_page[META__SUSPECT_PAGES]; /* meta_errand_page.c */
	uint32_t suspect_page_head, suspect_page_tail;
	bool page_checking; /* the walk is to the oldest of them, not the round's */
	bool sweeping;
	uint32_t sweep_at;
	struct meta_damaged *listed; /* the caller's; NULL: no list is wanted */
	uint32_t list_at;
	bool list_named;
	struct meta__scrub_bad lost[META__SCRUB_LOST];
	uint32_t lost_count;
	struct {
		uint64_t baddr, id;
	} told[META__SCRUB_TOLD];
	uint32_t told_count;
	bool has_line;
	char line[META_SCRUB_LINE];
	struct meta_scrub_stat stat;
};

/* ---- meta_scrub_walk.c: the tree as it is now, from memory where that is newer ------------- */

/* Walks to the leaf that has key.  SCRUB_READ: s->run must be read first.  SCRUB_DAMAGED: reached a
 * damaged page.  With `verify` pages in memory are read, too, if they are on a drive. */
enum meta__scrub_walk meta__scrub_walk(struct meta_scrub *s, uint32_t shard,
				       const struct meta_key *key, bool verify,
				       struct meta__scrub_place *out);
/* Walks to a page that an operation could not read.  SCRUB_READ as above; SCRUB_DAMAGED: recorded;
 * SCRUB_EMPTY: the page is good, or no longer part of the tree. */
enum meta__scrub_walk meta__scrub_page(struct meta_scrub *s, const struct meta__page_want *suspect,
				       const struct meta_key *key);
/* The page that it wanted is here. */
void meta__scrub_page_done(struct meta_scrub *s, const void *bytes, int status);

/* ---- meta_scrub.c ------------------------------------------------------------------- */

/* Found; said once, by name. */
void meta__scrub_found(struct meta_scrub *s, const struct meta__scrub_bad *bad, uint64_t id);
/* Has this damage been reported? */
bool meta__scrub_is_told(const struct meta_scrub *s, uint64_t baddr, uint64_t id);

/* ---- meta_scrub_heads.c ------------------------------------------------------------- */

void meta__scrub_heads_begin(struct meta_scrub *s);
/* One step, until heads.done. */
enum meta_scrub_next meta__scrub_heads_step(struct meta_scrub *s);
void meta__scrub_head_done(struct meta_scrub *s, const void *bytes, int status);

/* ---- meta_scrub_supers.c ------------------------------------------------------------ */

void meta__scrub_supers_begin(struct meta_scrub *s);
/* One step, until supers.done. */
enum meta_scrub_next meta__scrub_supers_step(struct meta_scrub *s);
void meta__scrub_super_done(struct meta_scrub *s, const void *bytes, int status);

/* ---- meta_scrub_folds.c ------------------------------------------------------------- */

must_check int meta__scrub_folds_init(struct meta_scrub *s);
void meta__scrub_folds_fini(struct meta_scrub *s);
void meta__scrub_folds_begin(struct meta_scrub *s);
/* One step, until folds.done. */
enum meta_scrub_next meta__scrub_folds_step(struct meta_scrub *s);
void meta__scrub_fold_done(struct meta_scrub *s, const void *bytes, int status);

/* ---- meta_scrub_name.c -------------------------------------------------------------- */

void meta__scrub_name_begin(struct meta_scrub *s, const struct meta__scrub_bad *bad);
/* A record of the walk for names: is it the name of one that was lost? */
void meta__scrub_name_seen(struct meta_scrub *s, const struct meta_key *key, const void *value,
			   uint32_t len);
/* One step.  Its line is there when naming.on is over, or it was put on `lost`. */
enum meta_scrub_next meta__scrub_name_step(struct meta_scrub *s);
/* Begins to look for the path of an entry's file, for the list. */
void meta__scrub_name_list(struct meta_scrub *s, uint32_t entry);
/* The walk for names is over: takes the next entry without a name.  Returns false after the
 * last. */
bool meta__scrub_name_none(struct meta_scrub *s);

/* ---- meta_scrub_heal.c -------------------------------------------------------------- */

must_check int meta__heal_init(struct meta_scrub *s);
void meta__heal_fini(struct meta_scrub *s);
/* Returns true if this place can be read. */
bool meta__heal_reaches(const struct meta_scrub *s, uint64_t baddr);
/* Returns the place of the n-th copy after this one, or 0 if it has no more. */
uint64_t meta__heal_copy(const struct meta_scrub *s, uint64_t baddr, uint32_t n);
/* Follows the ring of copies from this place to `end`.  Returns the first place on the way that can
 * be read, or 0. */
uint64_t meta__heal_next(const struct meta_scrub *s, uint64_t baddr, uint64_t end);
/* Returns the place of another copy that can be read, or 0. */
uint64_t meta__heal_other(const struct meta_scrub *s, uint64_t baddr);
/* Before a place is read in doubt; and when it was good, or cannot be mended. */
void meta__heal_hold(struct meta_scrub *s);
void meta__heal_let_go(struct meta_scrub *s);
/* A copy is damaged.  True: another one is looked at. */
bool meta__heal_block(struct meta_scrub *s, uint64_t bad, uint32_t crc);
bool meta__heal_page(struct meta_scrub *s, uint64_t bad, const struct meta__page_want *want);
/* The next step of that.  False: nothing is being mended. */
bool meta__heal_step(struct meta_scrub *s, enum meta_scrub_next *out);
void meta__heal_read(struct meta_scrub *s, const void *bytes, int status);

/* ---- meta_errand.c ------------------------------------------------------------------ */

/* Returns true if there is a suspect to check; then s->cur is its cursor. */
bool meta__check_begin(struct meta_scrub *s);
void meta__check_end(struct meta_scrub *s);
/* The record with this key is the suspect's. */
bool meta__check_goes_on(const struct meta_scrub *s, const struct meta_key *key);
/* Takes the name for the list; len 0: the file has no name. */
void meta__listed(struct meta_scrub *s, const char *path, uint32_t len);
/* Lists and sweeps.  Returns false if there is no such work. */
bool meta__errand_step(struct meta_scrub *s, enum meta_scrub_next *out);

/* ---- meta_errand_page.c ------------------------------------------------------------- */

/* An operation that looked for key could not read this page: the page is looked at soon. */
void meta__suspect_page(struct meta_scrub *s, const struct meta__page_want *page,
			const struct meta_key *key);
bool meta__has_suspect_page(const struct meta_scrub *s);
/* Takes one step.  Returns false if there is no such page. */
bool meta__suspect_page_step(struct meta_scrub *s, enum meta_scrub_next *out);

#endif
