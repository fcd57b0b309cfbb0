/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Checks a drive's content against a store that serves, after the drive was reset. */
#ifndef META_WITNESS_H
#define META_WITNESS_H

#include "meta/meta.h"

#define META_WITNESS_BLOCKS 7u

/* Blocks of one drive, and the store's knowledge of them; the caller's memory. */
struct meta_witness {
	uint32_t count;
	struct meta_witness_block {
		uint64_t block;       /* of the drive                                    */
		uint32_t zone;        /* the zone of the header; NONE: it is a log block     */
		uint64_t incarnation; /* the least that the header may have              */
		uint64_t mark;        /* the same                                        */
	} at[META_WITNESS_BLOCKS];
	uint8_t log_head[64]; /* of that block of the log */
};

/**
 * meta_witness_take - choose blocks that show whether the drive has everything that it confirmed
 *
 * The headers of its first zone and of its open zones, and the newest durable block of the log on
 * it.  Blocks that were being written when the drive stopped may be old or new.
 *
 * Thread:  the store's, mounted.
 */
void meta_witness_take(const struct meta *m, uint32_t drive, struct meta_witness *out);

/* Returns NULL, or the mismatch for people; block[i] is NULL if at[i].block could not be read. */
const char *meta_witness_judge(const struct meta *m, const struct meta_witness *w,
			       const void *const block[]);

#endif
