/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * How many copies a store keeps of each block, and a store that gets more of them.  At format
 * meta_conf says it: copies, 0 or 1: one, 2 or 3: on as many drives; fold: with two or three
 * copies, groups of zones become folds of so many zones of data, and as many of parity as a block
 * may lose copies; 0: they do not.
 *
 * struct meta_statfs counts that: copies; lone_blocks, in zones whose blocks have never had all of
 * them; converts: 1 while there may be such blocks since meta_protect(); sure_copies: that each
 * block has for certain: less than copies while it converts.
 * fold: the zones of data of a fold, at most, 0: none is made; folded_blocks: places for files in
 * folds; parity_blocks: of these written since the mount, for parity; protect_missing_blocks: live
 * ones that had no room when meta_protect() or meta_fold() was called last.  domains: failure
 * domains, of which a group or fold has one zone each; 0: drives have none that count; domains_few:
 * 1: since there are fewer than copies; near_blocks: in zones that were opened before that, and
 * share a domain with another one of theirs.
 */
#ifndef META_PROTECT_H
#define META_PROTECT_H

#include "meta/meta.h"

/**
 * meta_protect - from now on keep two or three copies of each block, on as many drives
 *
 * The blocks of before are copied in the background, also after the next mount; until all have so
 * many copies (meta_statfs: converts) as many drives may be lost as before.  It cannot be taken
 * back.  Durable when meta_drive_drain_status() is no longer -EAGAIN; META_OP_DRIVE with
 * META_PROTECT waits.
 *
 * Errors:  -EINVAL: it has more, or folds, which have one parity; -EALREADY: it has so many, or
 *          converts to so many; -EPERM: fewer drives serve; -ENODEV: a drive is dead, missing or
 *          drained, or blocks lack copies; -ENOSPC: so many copies of the live blocks and the
 *          reserve do not fit; -EFBIG: it has too many shards for its roots to be in zones, and
 *          they share a drive, or get a third copy; -EBUSY: the set of drives is being changed, or
 *          the store stops; -EIO: a superblock cannot be written (a mount may find that it has
 *          begun); -EROFS.
 */
must_check int meta_protect(struct meta *m, uint32_t copies);

/**
 * meta_fold - from now on make folds of groups, in a store of two or three copies
 *
 * Of so many zones of data, at most, and one or two of their parity, each on another drive
 * (meta_fold.c): as many drives may be lost as before, and less space is used.  With another
 * number it is that of the folds that are made from now on.  It cannot be taken back.  Durable, and
 * to be waited for, as meta_protect(): META_OP_DRIVE with META_PROTECT and the number in `length`.
 *
 * Errors:  -EINVAL: not 2 to META_FOLD_MAX; -EALREADY: it is that
 *          number already; -EPERM: the store has one copy, or converts, or too few drives serve;
 *          -ENOSPC: such folds would hold less than the live blocks; -EBUSY, -EIO, -EROFS as there.
 */
must_check int meta_fold(struct meta *m, uint32_t zones);

/* How a store keeps its blocks, as people say it: "none", "mirror" or "1+1", "4+1",
 * "1+2", "4+2". */
struct meta_scheme {
	uint32_t copies; /* 1, 2, 3 */
	uint32_t fold;   /* 0: no folds */
};
/* Returns false for any other text. */
must_check bool meta_scheme_parse(const char *text, size_t len, struct meta_scheme *out);
/* Lets a store that serves keep its blocks so from now on: meta_protect(), meta_fold(); also by
 * META_OP_DRIVE with META_PROTECT, copies in `offset` (0: 2), and fold in `length`.  Errors as
 * there; -EINVAL: folds with two of parity in a store that has not three copies. */
must_check int meta_scheme_begin(struct meta *m, const struct meta_scheme *scheme);

struct meta_copies {
	uint32_t copies; /* that the store keeps of each block */
	uint64_t lost;   /* drives, by bits: meta_drive_stat.lost, those of a mount included */
	uint32_t sure;   /* that each block has for certain: less while it converts */
	bool converts;   /* some blocks still lack some: meta_protect() */
	bool whole;      /* no block lacks any: no drives were too few for all, or had no room */
	bool folds;      /* some blocks may have parity instead: meta_fold() */
	bool few;        /* drives have domains, but fewer than copies: they do not count */
	bool near;       /* two copies of some blocks, or roots, are in one domain: they move */
	uint32_t domains, lost_domains; /* that count; of these drives, or the drives if none do */
	bool cannot; /* a superblock could not be written, or roots moved: it rests until
			* meta_protect() is asked for again */
};
struct meta_copies meta_copies(const struct meta *m); /* as they are now */

#endif
