/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The state that a plan keeps between two runs of it, for each kind of operation. */
#ifndef META_KEEPS_H
#define META_KEEPS_H

#include <stdbool.h>
#include <stdint.h>

/* A user's begins with zeros; one of the store's own with what its starter sets. */
union meta_op_keeps {
	struct {                     /* of users */
		uint64_t farthest;   /* meta_op.c: pages that the run which came farthest found */
		uint64_t list_steps; /* meta_list.c (2): of the last run, before its first miss */
		uint32_t list_waits; /* ... how often it was told to come later                 */
		bool drive_asked;    /* meta_drain.c: the change of the drive has begun         */
	} user;
	struct {               /* meta_orphan.c */
		uint64_t from; /* the uniquifier to look from; after the plan, where to continue */
		uint64_t
			tree_from; /* of a directory: the hash to free from, and then to continue */
		uint32_t shard;
		bool over;      /* the shard has no more */
		bool under_way; /* else it is free for another */
	} orphan;
	struct {               /* meta_totals_up.c */
		uint64_t from; /* the directory to look from; after the plan, where to continue */
		uint32_t shard;
		bool over, under_way; /* as an orphan's                             */
		bool next_round;      /* some are of the next round                 */
		bool passes;          /* the directory at `from` is passed up       */
	} totals_up;
	struct { /* meta_touch.c: a page, if it is still there */
		uint64_t baddr;
		uint64_t first[3]; /* its first key */
		uint32_t shard, level;
	} touch;
	struct { /* meta_spread_duplicate.c */
		uint64_t dir;
		uint64_t key[3]; /* to continue from */
		bool over;       /* the directory has no more names           */
		bool found;      /* the name in inline_buf is in a part, too  */
	} duplicate;
	struct {                 /* meta_gc_find.c */
		uint64_t key[3]; /* to continue from */
		bool over;       /* the shard is      */
	} find;
};

#endif
