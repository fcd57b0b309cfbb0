/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Where the second copy of a block lies, for all cores.
 *
 *   V1 -> W1   (V1 in meta_pair.c)
 *   V2 -> W2   (V2 in meta_pair.c)
 *
 * Thread: the store's writes it.  Any core may look up a block that it has planned to read or was
 * given to write: the block's zone stays paired, or alone, until all such use of it has ended.
 */
#ifndef META_TWINS_H
#define META_TWINS_H

#include "meta/meta.h"

#include <stdatomic.h>

struct meta_twins {
	_Atomic uint32_t zone_blocks; /* 0: this store has one copy of each block */
	_Atomic uint64_t
		away; /* drives, by their bits, that must not be read or written any more */
	struct {
		uint64_t at; /* first block of its first zone */
		uint32_t count;
		_Atomic uint64_t *twin; /* by zone: where its twin begins; 0: it has none */
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

/* Returns the place of the second copy of a block, or 0 if it has no second copy. */
static inline uint64_t meta_twin_of(const struct meta_twins *t, uint64_t baddr)
{
	const uint32_t d = META_BADDR_DRIVE(baddr), blocks = meta_twins_blocks(t);
	uint64_t zone, at, twin;

	if (blocks == 0 || d >= META_DRIVES_MAX || !t->drive[d].twin ||
	    META_BADDR_BLOCK(baddr) < t->drive[d].at)
		return 0;
	at = META_BADDR_BLOCK(baddr) - t->drive[d].at;
	zone = at / blocks;
	if (zone >= t->drive[d].count)
		return 0;
	twin = atomic_load_explicit(&t->drive[d].twin[zone], memory_order_relaxed);
	return twin ? twin + at % blocks : 0;
}

/* Returns true if a drive may be read and written, as far as this core knows by now. */
static inline bool meta_twins_has(const struct meta_twins *t, uint32_t drive)
{
	return !(atomic_load_explicit(&t->away, memory_order_acquire) /* W1 */ >> drive & 1);
}

#endif
