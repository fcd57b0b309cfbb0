/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Between meta_check.c, which walks, and meta_check_sums.c, the sums of directories. */
#ifndef META_CHECK_H
#define META_CHECK_H

#include "meta/format/meta_record.h"
#include "meta/meta_store.h"

#define BUCKETS     1024u
#define AGAIN_MAX   16u /* walks begun again because the store was not quiet */
#define PASS_SUM    0u
#define PASS_BUCKET 1u
#define PASS_NAME   2u

enum sum {
	SUM_INODES,
	SUM_DIRS,
	SUM_ORPHANS,
	SUM_LINKS,
	SUM_PENDING,
	SUM_OWN,
	SUM_BELOW,
	SUM_FRAGMENTS,
	SUMS
};

/* meta_check_duplicate.c */
struct meta__duplicate {
	uint64_t *dir; /* those that are spread */
	size_t count, room, at;
	bool lost, busy; /* no memory for one; op is under way */
	bool begun;      /* dir[at]: its names from `from` on are left */
	struct meta_key from;
	struct meta_op op;
};

struct meta__checker {
	struct meta_check *out;
	int status;
	int (*stage)(struct meta *m); /* 0: continue; -EAGAIN: wait; -EALREADY: the end */
	uint32_t pass, shard, again;
	uint64_t state; /* of all trees when the walk began */
	bool walking;
	uint8_t *used;          /* a bit a block of the zones */
	uint32_t *zone_record;  /* of this shard: as its ZONE records say */
	uint32_t *zone_counted; /* of this shard: as its extents say */
	uint32_t *zone_total;   /* of all shards, pages too */
	uint64_t sum[SUMS];
	uint64_t (*bucket)[BUCKETS]; /* SUMS of them */
	uint64_t files, dirs;        /* inodes, directory records of this shard */
	bool root_seen;
	/* the directory and the inode that the walk is in */
	bool in_dir, in_inode;
	uint64_t dir, dir_names, dir_subdirs;
	struct meta__dir dir_says;
	struct meta__totals totals; /* of the directory */
	struct meta__inode inode;
	uint64_t inode_blocks;
	uint64_t tail_block; /* of the inode, according to its TAIL records so far */
	uint32_t tail_len;
	uint8_t tail[META_TAIL_MAX];
	uint32_t xattrs;          /* of the inode: heads so far */
	bool counted_seen;        /* a LINKS record is of the directory that counts it */
	uint64_t xattr_at;        /* index of the last head     */
	uint32_t xattr_left;      /* bytes of its value that are still to come */
	struct meta_key name_key; /* of the last name, and that name */
	char name[META_NAME_MAX];
	uint32_t name_len;
	struct meta__duplicate duplicate;
};

__attribute__((format(printf, 2, 3))) void meta__problem(struct meta *m, const char *fmt, ...);
/* Adds `times` (perhaps negative) occurrences; `what` names the source in a report. */
void meta__tally(struct meta *m, enum sum sum, const uint64_t *words, uint32_t nwords,
		 int64_t times, const char *what);

/* ---- meta_check_sums.c ------------------------------------------------------------------ */

/* Adds `times` names of the object in this directory. */
void meta__tally_links(struct meta *m, const struct meta_handle *h, uint64_t dir, int64_t times,
		       const char *what);
/* A directory counts this file. */
void meta__tally_own(struct meta *m, const struct meta__inode *in);
/* The directory that the walk is in ends here. */
void meta__totals_end(struct meta *m);
/* A part, or the parts that a directory says that it has. */
void meta__check_fragments(struct meta *m);
void meta__check_totals(struct meta *m, const struct meta_key *key, const void *value,
			uint32_t len);
void meta__check_links(struct meta *m, const struct meta_key *key, const void *value, uint32_t len);
void meta__check_pending(struct meta *m, const struct meta_key *key, uint32_t len);

/* ---- meta_check_duplicate.c ----------------------------------------------------------------- */

/* Is this name the one before it, once more? */
bool meta__check_is_duplicate(struct meta__checker *c, const struct meta_key *key,
			      const struct meta__name *n);
/* A directory that is spread. */
void meta__duplicate_remember(struct meta__checker *c, uint64_t dir);
void meta__duplicate_forget(struct meta__checker *c);
/* A stage: is a name of those in a part as well? */
int meta__check_duplicates(struct meta *m);

#endif
