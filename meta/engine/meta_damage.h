/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Files that are known to be damaged, or have blocks on drives that cannot be reached; and damaged
 * pages of the index.  Bounded; in memory only: the scrub finds all of it again.
 */
#ifndef META_DAMAGE_H
#define META_DAMAGE_H

#include "meta/meta.h"

#define META__DAMAGE_MAX     65536u
#define META__DAMAGE_BUCKETS 16384u
#define META__DAMAGE_PAGES   1024u /* pages that cannot be reached; files need the other entries */
#define META__DAMAGE_NONE    UINT32_MAX

struct meta__damage {
	struct meta_handle
		file;       /* a page: its directory, 0, and its place: never a file's handle */
	uint64_t from, end; /* range of the known blocks of the file; for a page: level       */
	uint64_t blocks;    /* number of damaged blocks                                       */
	uint64_t baddr;     /* where block `from` lay when it was found                       */
	uint64_t drives;    /* by their bits */
	uint64_t dir;       /* in which its name was found; 0: where it was born              */
	uint64_t round;     /* the last one that found it                                     */
	uint32_t id;        /* the checksum of block `from`, as the index had it              */
	uint32_t next;      /* of its bucket, or of the free ones                             */
	uint8_t kinds;      /* enum meta_damage_kind, by their bits                           */
	bool used;
	bool by_scrub; /* findings are the scrub's, in order: else from single reads     */
	bool unnamed; /* it has no name where it should: the next walk over all names searches it */
	bool walked;  /* ... and has searched                                                  */
};

struct meta__damages {
	struct meta__damage *of; /* META__DAMAGE_MAX; those below `high` have been used */
	uint32_t *bucket;
	uint32_t high, free;
	uint32_t count, unnamed;
	uint64_t overflow; /* found, and no place for it, since that was 0 last */
	struct meta_damage_stat stat;
};

/* One finding, by the scrub or a read. */
struct meta__damage_find {
	struct meta_handle file;
	enum meta_damage_kind kind;
	uint64_t block, nblocks;
	uint64_t baddr;
	uint32_t id;
	uint64_t round;
	bool by_scrub;
	bool unreachable; /* a page: its drive has failed, it may be whole */
};

must_check int meta__damages_init(struct meta__damages *t);
void meta__damages_fini(struct meta__damages *t);
/* META__DAMAGE_NONE: there is no place. */
uint32_t meta__damage_add(struct meta__damages *t, const struct meta__damage_find *find);
uint32_t meta__damage_of(const struct meta__damages *t, const struct meta_handle *file);
void meta__damage_drop(struct meta__damages *t, uint32_t i);
/* Marks an entry whose file has no name where it should have one, or has one, in `dir`. */
void meta__damage_unnamed(struct meta__damages *t, uint32_t i);
void meta__damage_named(struct meta__damages *t, uint32_t i, uint64_t dir);
/* All names have been checked. */
void meta__damage_walked(struct meta__damages *t);
/* Ends a round, which has checked everything: damage that it has not found again is repaired.
 * `blind`: it could not check everything. */
void meta__damage_round_end(struct meta__damages *t, uint64_t round, bool blind);

#endif
