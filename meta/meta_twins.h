/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Where the other copies of a block lie, for all cores.
 *
 *   V1 -> W1   (V1 in meta_pair.c)
 *   V2 -> W2   (V2 in meta_pair.c)
 *   V4 -> W4   (V4 in meta_pair.c)
 *
 * Thread: the store's writes it.  Any core may look up a block that it has planned to read or was
 * given to write: the block's zone stays in its group, in its fold, or alone, until all such use of
 * it has ended; only that it may come from a group into a fold.  Then its twins' bytes are still
 * there.
 * meta_fold_terms.c says from which other blocks a block of a fold is computed.
 */
#ifndef META_TWINS_H
#define META_TWINS_H

#include "meta/meta.h"

#include <stdatomic.h>

#define META_FOLD_MAX      10u /* data zones of a fold: meta_fold.c */
#define META_FOLD_PARITIES 2u  /* zones of parity of a fold, at most: P and Q */
#define META_FOLD_ZONES    (META_FOLD_MAX + META_FOLD_PARITIES)
#define META_COPIES_MAX    3u /* of a block of data or pages: meta_pair.c */

/* The role of a zone in its fold: of data 0 .. META_FOLD_MAX - 1, in the header's order; or: */
#define META_FOLD_P 14u
#define META_FOLD_Q 15u

/* A place in a fold is an address and the role of its zone; drives leave these bits free. */
#define META_FOLD_PLACE(role, baddr) ((uint64_t)(role) << 60 | (baddr))
#define META_FOLD_ROLE(place)        ((uint32_t)((place) >> 60))
#define META_FOLD_AT(place)          ((place) & ~(15ull << 60))

static_assert(META_DRIVES_MAX <= 1u << 12, "META_FOLD_PLACE: drives need no more than 12 bits");

struct meta_twins {
	_Atomic uint32_t zone_blocks; /* 0: this store has one copy of each block */
	_Atomic bool folds;           /* there are some, or were */
	_Atomic uint64_t
		away; /* drives, by their bits, that must not be read or written any more */
	struct {
		uint64_t at; /* first block of its first zone */
		uint32_t count;
		_Atomic uint64_t *twin; /* by zone: where its twin begins; 0: it has none */
		_Atomic uint64_t *ring; /* ... and the next place in its fold; 0: it is in none */
	} drive[META_DRIVES_MAX];
};

/* Stays where it is as long as the store. */
const struct meta_twins *meta_twins(const struct meta *m);

/* Returns the blocks of a zone; 0: this store has one copy of each block, as far as this core knows
 * by now. */
static inline uint32_t meta_twins_blocks(const struct meta_twins *t)
{
	return atomic_load_explicit(&t->zone_blocks, memory_order_acquire); /* W2 */
}

/* Finds the block's zone on its drive, and the offset there.  False: it is in none, or there are
 * no other copies. */
static inline bool meta_twins_zone(const struct meta_twins *t, uint64_t baddr, uint64_t *zone,
				   uint64_t *offset)
{
	const uint32_t d = META_BADDR_DRIVE(baddr), blocks = meta_twins_blocks(t);

	if (blocks == 0 || d >= META_DRIVES_MAX || !t->drive[d].twin ||
	    META_BADDR_BLOCK(baddr) < t->drive[d].at)
		return false;
	*zone = (META_BADDR_BLOCK(baddr) - t->drive[d].at) / blocks;
	*offset = (META_BADDR_BLOCK(baddr) - t->drive[d].at) % blocks;
	return *zone < t->drive[d].count;
}

/* Returns the place of the second copy of a block, or 0 if it has none; for a copy, the place of
 * the next one, or 0 after the last. */
static inline uint64_t meta_twin_of(const struct meta_twins *t, uint64_t baddr)
{
	uint64_t zone, offset, twin;

	if (!meta_twins_zone(t, baddr, &zone, &offset))
		return 0;
	twin = atomic_load_explicit(&t->drive[META_BADDR_DRIVE(baddr)].twin[zone],
				    memory_order_acquire); /* W4 */
	return twin ? twin + offset : 0;
}

/* Returns the drives, by their bits, that must not be read or written any more, as far as this core
 * knows by now. */
static inline uint64_t meta_twins_away(const struct meta_twins *t)
{
	return atomic_load_explicit(&t->away, memory_order_acquire); /* W1 */
}

/* Returns true if a drive may be read and written, as far as this core knows by now. */
static inline bool meta_twins_has(const struct meta_twins *t, uint32_t drive)
{
	return !(meta_twins_away(t) >> drive & 1);
}

/* ---- meta_fold_terms.c: a block is the sum of others, each multiplied in GF(2^8) ------------ */

struct meta_fold_term {
	uint64_t at;
	uint8_t by; /* not 0 */
};

/* Fills in the places of a block's fold at its offset, its own as the last.  Returns how many; 0:
 * it is in none.  To be asked after meta_twin_of() has returned 0. */
uint32_t meta_fold_of(const struct meta_twins *t, uint64_t baddr, uint64_t place[META_FOLD_ZONES]);

/* Fills in the terms whose sum is the block at the last of these places.  No term is on its
 * drive or on one of `away`, and a distrusted P is no term.  Returns how many: as
 * many as there are zones of data; 0: too much is missing. */
uint32_t meta_fold_solve(const uint64_t *place, uint32_t count, uint64_t away, bool distrusts_p,
			 struct meta_fold_term term[META_FOLD_MAX]);

/* Does both; 0: it is in no fold, or too much is missing. */
uint32_t meta_fold_terms(const struct meta_twins *t, uint64_t baddr, uint64_t away,
			 bool distrusts_p, struct meta_fold_term term[META_FOLD_MAX]);

#endif
