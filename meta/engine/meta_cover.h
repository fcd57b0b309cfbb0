/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The keys of shards covered so far, by ranges that are known beforehand. */
#ifndef META_COVER_H
#define META_COVER_H

#include "meta/meta_internal.h"

struct meta__cover_point {
	struct meta_key key;
	uint32_t shard;
};

struct meta__cover {
	struct meta__cover_point *point; /* where ranges begin and end; ascending, none twice */
	uint64_t points;
	uint32_t *open; /* by cell: the next uncovered cell, or a guess */
	uint32_t *sum;  /* Fenwick's: how many cells are covered */
};

/* The ends of all ranges that will be added, in any order, some of them twice; the array is the
 * cover's from now on, and freed with it.  -ENOMEM (the points are freed). */
must_check int meta__cover_make(struct meta__cover *c, struct meta__cover_point *ends,
				uint64_t count);
void meta__cover_free(struct meta__cover *c);
/* From first to last, both included. */
void meta__cover_add(struct meta__cover *c, uint32_t shard, const struct meta_key *first,
		     const struct meta_key *last);
bool meta__cover_has(const struct meta__cover *c, uint32_t shard, const struct meta_key *key);
/* Is anything from first to last covered?  Both are among the ends. */
bool meta__cover_meets(const struct meta__cover *c, uint32_t shard, const struct meta_key *first,
		       const struct meta_key *last);

#endif
