/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Live data that a store moves in the background: from a drive that is lost or drained; or blocks
 * that lack a copy get one.  For people: meta_drain.c and meta_pair.c say how it moves. */
#ifndef META_REBUILD_H
#define META_REBUILD_H

#include "meta/meta.h"

enum meta_rebuild_what {
	META_REBUILD_NONE,
	META_REBUILD_LOST,
	META_REBUILD_DRAIN,
	META_REBUILD_COPIES,
};

struct meta_rebuild {
	enum meta_rebuild_what what; /* of several the first of these */
	uint32_t drive;              /* of LOST and DRAIN */
	uint64_t left_blocks;        /* of files and pages, still to be moved */
	uint64_t kept_blocks;        /* ... of them: in zones of which not all could be read */
	uint64_t short_blocks;       /* for which the other drives have no room at all */
	uint64_t tight_blocks;       /* ... have none before dead blocks there are collected */
	bool alone;                  /* there is no further drive for copies */
	bool cannot;                 /* the drive is empty, and a superblock could not be written */
};

/* Fills in what and drive.  The thread that turns the crank. */
void meta_rebuild_what(const struct meta *m, struct meta_rebuild *out);
/* Fills in all.  The same thread, seldom: it looks at all zones of the drive, or of the store if
 * some lack a copy. */
void meta_rebuild_count(const struct meta *m, struct meta_rebuild *out);

/* Changes conf.spare_drives while the store serves: meta_space.c (5).  The same thread. */
void meta_rebuild_spare(struct meta *m, uint32_t drives);

/* Bounds the pace of what leaves a drive, or gets a further copy: so many extents at once, and so
 * many blocks from now on, after which it rests; META_PACE_FREE: any number.  Collection that wins
 * room for clients is not bound, and neither is a drain while such collection waits for its end. */
#define META_PACE_FREE INT64_MAX
void meta_rebuild_pace(struct meta *m, uint32_t extents, int64_t blocks);
/* Returns what is left of these blocks: 0 or less if it rests. */
int64_t meta_rebuild_credit(const struct meta *m);

#endif
