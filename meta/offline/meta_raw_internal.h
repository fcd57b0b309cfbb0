/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Shared by the files that read an unmounted store, and their tests:
 *
 *   meta_raw.c          superblocks, roots, headers; a page by its address
 *   meta_raw_pair.c     groups of zones; what the first copy has lost, from the next ones
 *   meta_raw_fold.c     folds of zones; the same, from the others of a fold
 *   meta_raw_log.c      the log: blocks by place and sequence; their changes, over the trees
 *   meta_raw_get.c      a record, and the next one: from the trees with the log over them
 *   meta_compare.c      all copies of all that lives
 *   meta_dump*.c        all of it in words, by meta_table.c
 *   meta_salvage.c      leaves to which no tree leads any more, over the trees
 *   meta_raw_file.c     names, files, attributes of all that
 */
#ifndef META_RAW_INTERNAL_H
#define META_RAW_INTERNAL_H

#include "meta/format/meta_page.h"
#include "meta/offline/meta_raw.h"
#include "meta/format/meta_record.h"
#include "meta/meta_store.h"

#define META__RAW_PAGES  64u               /* that are kept */
#define META__RAW_TIMES  64u               /* the drives that are there, all drives may be */
#define META__RAW_COPIES META__ROOT_COPIES /* of each block and root, at most */

/* A copy of a fixed block, as it was read. */
struct meta__raw_super {
	int err; /* of the parser; -EIO: cannot be read; -ENODEV: no drive */
	char why[128];
	struct meta__super s;
};

struct meta__raw_root {
	int err[2][META__RAW_COPIES]; /* slot, copy */
	struct meta__root_seen seen[2][META__RAW_COPIES];
	int slot, copy; /* of the newest that is whole; -1: none is */
	bool lost;      /* all copies of a slot are damaged: which may have been newer */
};

struct meta__raw_zone {
	int err[2]; /* by copy */
	struct meta__zone_seen seen[2];
	int copy;       /* that counts; -1: none is whole */
	uint64_t pair;  /* of its group; 0: it is in none, else: */
	uint32_t first; /* zone of the group */
	uint32_t next;  /* ... the next one; META__ZONE_NONE: it is the last */
	bool is_twin;
	uint32_t fold;  /* P of its fold, + 1; 0: it is in none, else: */
	uint32_t says;  /* the zone of parity of which the header says it */
	bool is_second; /* this is Q */
};

struct meta__raw_block { /* of the log */
	uint32_t zone, at;
	const char *why; /* NULL: it is whole */
	struct meta__log_head head;
};

struct meta__raw_log {
	uint64_t epoch, base, known; /* as the roots say */
	uint64_t durable, trim;      /* as its blocks say */
	uint64_t first, last;        /* blocks that a mount replays; last < first: none */
	bool broken;                 /* one that was durable is not there */
	uint64_t gap_baddr;          /* the gap begins there, or later */
	uint32_t *zone;              /* its zones, by order */
	uint32_t zones;
	struct meta__raw_block *block; /* by place, damaged ones too */
	uint32_t blocks, blocks_max;
	struct meta__raw_block **whole; /* by sequence, one copy of each */
	uint32_t wholes;
};

/* A record that is not, or not only, in the tree. */
struct meta__raw_over {
	struct meta_key key;
	uint32_t shard;
	uint16_t value_len;
	bool del;
	bool doubt;     /* there was a newer one, which is lost */
	uint64_t order; /* the highest counts */
	uint64_t value_at;
};

struct meta_raw {
	struct meta_raw_drives from;
	uint32_t drive_at[META_DRIVES_MAX]; /* of a drive of the store: which of `from` */
	struct meta m;                      /* what hashes and tags need of one, no more */
	struct meta__geo geo;
	char problem[160];
	struct meta__raw_super super[META_DRIVES_MAX][2]; /* as `from` has them */
	struct meta__raw_root *root;                      /* nshards */
	struct meta__raw_zone *zone;                      /* geo.nzones */
	struct meta__raw_log log;
	struct meta__raw_over *over; /* sorted by shard and key, once */
	uint64_t overs, overs_max;
	uint8_t *over_bytes;
	uint64_t over_used, over_max;
	bool over_log;  /* the log is in it */
	bool doubt;     /* set when a record that is given out is in doubt */
	uint8_t *pages; /* META__RAW_PAGES */
	struct meta__page_want page_is[META__RAW_PAGES];
	const char *page_why[META__RAW_PAGES]; /* NULL: it is sound */
	uint8_t *zone_buf;                     /* a whole zone, when it was asked for */
	struct meta_raw_taken taken[META_DRIVES_MAX];
	uint8_t *page_taken; /* a bit for each page of each zone: counted in `taken` */
};

#define META__RAW_NOWHERE UINT32_MAX

/* ---- meta_raw.c ---- */

must_check int meta__raw_read(struct meta_raw *r, uint64_t baddr, uint32_t nblocks, void *buf);
/* A zone from header to header; what cannot be read is zeros.  NULL: no memory. */
must_check const uint8_t *meta__raw_zone_bytes(struct meta_raw *r, uint32_t zone);
/* The page that is wanted, good until the next call; NULL, and *why. */
must_check const void *meta__raw_page(struct meta_raw *r, const struct meta__page_want *want,
				      const char **why);
/* Returns a shard's newest whole root; NULL: none. */
const struct meta__root_seen *meta__raw_root(const struct meta_raw *r, uint32_t shard);
const struct meta__zone_seen *meta__raw_zone(const struct meta_raw *r, uint32_t zone);

/* ---- meta_raw_pair.c ---- */

void meta__raw_pairs_find(struct meta_raw *r);
/* Is the drive there, and not LOST?  Else only what the index vouches for is read from it. */
bool meta__raw_believes(const struct meta_raw *r, uint32_t drive);
/* They are none any more. */
void meta__raw_group_end(struct meta_raw *r, uint32_t zone);
/* The next zone of its group, META__ZONE_NONE after the last; the place of a block's next copy, 0
 * after the last. */
uint32_t meta__raw_twin_zone(const struct meta_raw *r, uint32_t zone);
uint64_t meta__raw_twin(const struct meta_raw *r, uint64_t baddr);
/* One copy, or the one that is good: NULL, or what is wrong with it (with the first one). */
const char *meta__raw_page_at(struct meta_raw *r, uint64_t at, const struct meta__page_want *want,
			      void *page);
const char *meta__raw_page_either(struct meta_raw *r, const struct meta__page_want *want,
				  void *page);
const char *meta__raw_block_at(struct meta_raw *r, uint64_t at, uint32_t crc, void *block);
const char *meta__raw_block_either(struct meta_raw *r, uint64_t baddr, uint32_t crc, void *block);
/* Returns the number of zones of which nothing says that they are not the log's newest. */
uint64_t meta__raw_zones_unknown(const struct meta_raw *r);

/* ---- meta_raw_fold.c ---- */

must_check int meta__raw_folds_find(struct meta_raw *r);            /* after the pairs: -ENOMEM */
uint32_t meta__raw_parity(const struct meta_raw *r, uint32_t zone); /* META__ZONE_NONE */
/* Fills in the places of P, and of Q, for a block of data in a fold.  Returns how many. */
uint32_t meta__raw_fold_ways(const struct meta_raw *r, uint64_t baddr,
			     uint64_t at[META_FOLD_PARITIES]);
/* The block from the others of its fold and that parity only: NULL, or why not. */
const char *meta__raw_fold_way(struct meta_raw *r, uint64_t baddr, uint32_t way, uint32_t crc,
			       void *block);
/* The block from the others of its fold: NULL, or why not. */
const char *meta__raw_fold_block(struct meta_raw *r, uint64_t baddr, uint32_t crc, void *block);

/* ---- meta_raw_log.c ---- */

/* Look at all of it: r->log.  -ENOMEM. */
must_check int meta__raw_log_scan(struct meta_raw *r);
/* Lays the log's changes over the trees, as far as a mount would replay it; with `all`, also those
 * after a gap.  -ENOMEM. */
must_check int meta__raw_log_over(struct meta_raw *r, bool all);
must_check int meta__raw_over_add(struct meta_raw *r, uint32_t shard, const struct meta_key *key,
				  bool del, const void *value, uint32_t value_len, uint64_t order);
void meta__raw_over_sort(struct meta_raw *r);

/* The value counts unless one of a higher order is there. */
must_check int meta__raw_over_doubt(struct meta_raw *r, uint32_t shard, const struct meta_key *key,
				    const void *value, uint32_t value_len, uint64_t order);

/* ---- meta_raw_get.c ---- */

struct meta__raw_step { /* a page on the way from a root to a leaf */
	struct meta__page_want page;
	const char *why;     /* NULL: it is sound */
	uint32_t count, pos; /* the child that was followed, or the record's place */
	struct meta_key lo, hi;
	bool has_hi;
};

struct meta__raw_way {
	uint32_t steps; /* 0: the tree is empty, or has no root */
	struct meta__raw_step step[META_PAGE_LEVELS_MAX];
};

/* Go down to the page of this level that answers for key.  NULL: the last step says why, or there
 * is no tree. */
const void *meta__raw_go(struct meta_raw *r, uint32_t shard, const struct meta_key *key,
			 uint32_t level, struct meta__raw_way *way);
/* value: META_VALUE_MAX bytes.  0, -ENOENT, -EIO: a page on the way is damaged (way says which). */
must_check int meta__raw_get(struct meta_raw *r, uint32_t shard, const struct meta_key *key,
			     void *value, uint32_t *value_len, struct meta__raw_way *way);
/* Fragments of a directory that have names, a bit each; all, if its record is lost or in doubt. */
uint32_t meta__raw_fragments(struct meta_raw *r, uint64_t dir);
/* Returns the first record from *key on.  Skips a damaged page, and counts it in *lost. */
must_check int meta__raw_next(struct meta_raw *r, uint32_t shard, struct meta_key *key, void *value,
			      uint32_t *value_len, uint64_t *lost);

/* A path, name by name; symlinks are shown and not followed. */
struct meta__raw_path {
	const char *rest;
	uint64_t dir;
	uint32_t shard;      /* where the last name stands */
	struct meta_key key; /* ... and under which key    */
	struct meta__name name;
	uint32_t value_len;
	uint8_t value[META_VALUE_MAX];
};

void meta__raw_path_begin(struct meta__raw_path *p, const char *path);
/* 1: the next name; 0: that was all; -ENOENT, -ENOTDIR; -EIO: a page on the way is damaged. */
must_check int meta__raw_path_next(struct meta_raw *r, struct meta__raw_path *p);

/* ---- meta_table.c ---- */

struct meta__column {
	const char *name;
	int width; /* below 0: to the left */
};

struct meta__table {
	FILE *out;
	bool json;
	const char *what;
	const struct meta__column *column; /* the last one has no name */
	uint32_t at;
	bool any; /* something was printed: a table begins with an empty line */
	char line[8192];
	size_t used;
};

void meta__table_begin(struct meta__table *t, const char *what, const struct meta__column *column);
/* Cells in the order of the columns; a row ends with its last. */
void meta__cell(struct meta__table *t, uint64_t value);
__attribute__((format(printf, 2, 3))) void meta__cell_text(struct meta__table *t, const char *fmt,
							   ...);
void meta__cell_place(struct meta__table *t, uint64_t baddr); /* DRIVE:BLOCK */

/* ---- meta_dump*.c ---- */

int meta__dump_super(struct meta_raw *r, const char *arg, struct meta__table *t);
int meta__dump_set(struct meta_raw *r, const char *arg, struct meta__table *t);
int meta__dump_roots(struct meta_raw *r, const char *arg, struct meta__table *t);
int meta__dump_zones(struct meta_raw *r, const char *arg, struct meta__table *t);
int meta__dump_zone(struct meta_raw *r, const char *arg, struct meta__table *t);
int meta__dump_log(struct meta_raw *r, const char *arg, struct meta__table *t);
int meta__dump_page(struct meta_raw *r, const char *arg, struct meta__table *t);
int meta__dump_path(struct meta_raw *r, const char *arg, struct meta__table *t);
int meta__dump_file(struct meta_raw *r, const char *arg, struct meta__table *t);
must_check int meta__dump_number(const char *arg, uint64_t max, uint64_t *out); /* 0, -EINVAL */
/* Prints a record in words: kind, key, value.  Three cells.  -EUCLEAN: malformed. */
int meta__dump_record(struct meta__table *t, uint32_t shard, const struct meta_key *key, bool del,
		      const void *value, uint32_t value_len);
#define META__RECORD_COLUMNS                                                                       \
	{ "record", -7 }, { "key", -28 },                                                          \
	{                                                                                          \
		"says", -1                                                                         \
	}
/* Blocks of one zone of the log, or all. */
int meta__dump_log_zone(struct meta_raw *r, uint32_t zone, struct meta__table *t);
extern const char *const meta__zone_kinds[];

#endif
