/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Folds: zones of data on different drives, and the zone of their parity.  meta_fold.c says how
 * they live. */
#ifndef META_FOLD_H
#define META_FOLD_H

#include "meta/engine/meta_pair.h"

/* Is the zone in a fold, of data or parity? */
static inline bool meta__in_fold(const struct meta__zone *at)
{
	return at->next != 0;
}

/* Returns how many zones of parity each fold of this store has, and so how many of its zones may be
 * missing: as many as copies of a block. */
static inline uint32_t meta__fold_parities(const struct meta *m)
{
	ASSERT(m->copies > 1 && m->copies <= 1 + META_FOLD_PARITIES);
	return m->copies - 1;
}

/* Returns the zone P of the fold that this zone is in. */
uint32_t meta__fold_parity(const struct meta *m, uint32_t zone);
/* Fills in the fold's zones of data, from this one on if it is of data.  Returns how many. */
uint32_t meta__fold_members(const struct meta *m, uint32_t zone, uint32_t member[META_FOLD_MAX]);
/* Makes a fold of what the header of P or of Q says.  These zones are in no fold. */
void meta__fold_make(struct meta *m, const struct meta__zone_seen *head);
/* The zones are in no fold any more.  Fills in those of parity.  Returns how many. */
uint32_t meta__fold_end(struct meta *m, uint32_t zone, uint32_t parity[META_FOLD_PARITIES]);

/* Returns the live blocks of all its zones. */
uint64_t meta__fold_live(const struct meta *m, uint32_t zone);
/* Does nothing live in the fold that this zone is in, nor will? */
bool meta__fold_is_empty(const struct meta *m, uint32_t zone);
/* Can all its zones be read?  Must its data leave: is one of them on a drive that is drained, or
 * that cannot be read? */
bool meta__fold_reads(const struct meta *m, uint32_t zone);
bool meta__fold_leaves(const struct meta *m, uint32_t zone);

/* Its zones do not sum up to zero: their live data is moved, and it ends. */
void meta__fold_spoilt(struct meta *m, uint32_t zone);

/* Fills in the terms whose sum is this block (meta_fold_terms.c), on drives that can be read and
 * are not `away`.  Returns how many; 0: there are none. */
uint32_t meta__fold_terms(const struct meta *m, uint64_t baddr, uint64_t away,
			  struct meta_fold_term term[META_FOLD_MAX]);

/* Fills in what the header of a fold's parity says of the fold: members and incarnations. */
void meta__fold_head(const struct meta *m, uint32_t parity, struct meta__zone_seen *head);

/* Returns how many zones of data a fold has at most, with the drives that serve now; 0: none is
 * made. */
uint32_t meta__fold_width(const struct meta *m);
/* Returns the groups that the folder may take before its folds free some: meta_fold_space.c (1). */
uint32_t meta__folder_room(const struct meta *m);
/* Returns the groups that collection and the folder need to work with, beside those of any store:
 * meta_fold_space.c (1). */
uint32_t meta__fold_room(const struct meta *m);
/* Space, in groups (meta_pair.c (6)): how many zones of data fit into so many groups, and the
 * reverse, on drives with so many zones each; 0: a drive takes none. */
uint64_t meta__fold_zones(const struct meta *m, const uint32_t *on, uint64_t groups);
uint64_t meta__fold_groups(const struct meta *m, const uint32_t *on, uint64_t zones);
uint64_t meta__fold_groups_now(const struct meta *m, uint64_t zones); /* ... that serve now */
/* Returns the groups that could be made of all zones in folds. */
uint64_t meta__fold_groups_taken(const struct meta *m);
/* ... on the drives that are left when the spare ones are lost. */
uint64_t meta__fold_zones_left(const struct meta *m, uint64_t groups);

#endif
