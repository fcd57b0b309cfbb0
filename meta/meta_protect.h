/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * How many copies a store keeps of each block, and a store that gets its second ones.
 *
 * struct meta_statfs counts that: copies; lone_blocks, in zones whose blocks still have one copy of
 * two; converts: 1 while there may be such blocks since meta_protect(), and no drive may be lost.
 */
#ifndef META_PROTECT_H
#define META_PROTECT_H

#include "meta/meta.h"

/**
 * meta_protect - from now on keep two copies of each block, on two drives, in a store of one copy
 *
 * The blocks of before are copied in the background, also after the next mount; until all have two
 * copies (meta_statfs: converts) no drive may be lost.  It cannot be taken back.  Durable when
 * meta_drive_drain_status() is no longer -EAGAIN; META_OP_DRIVE with META_PROTECT waits.
 *
 * Errors:  -EALREADY: it has two copies, or converts; -EPERM: only one drive serves; -ENODEV: a
 *          drive is dead, missing or drained; -ENOSPC: two copies of the live blocks and the
 *          reserve do not fit; -EFBIG: it has too many shards for its roots to be moved, and they
 *          share a drive; -EBUSY: the set of drives is being changed, or the store stops;
 *          -EIO: a superblock cannot be written (a mount may find that it has begun); -EROFS.
 */
must_check int meta_protect(struct meta *m);

struct meta_copies {
	uint64_t lost; /* drives, by bits: meta_drive_stat.lost, those of a mount included */
	bool converts; /* some blocks still have one of two copies: meta_protect() */
	bool cannot;   /* a superblock could not be written, or roots moved: it rests until
			* meta_protect() is asked for again */
};
struct meta_copies meta_copies(const struct meta *m); /* as they are now */

#endif
