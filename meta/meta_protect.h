/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * How many copies a store keeps of each block, and a store that gets its second ones.  At format
 * meta_conf says it: copies, 0 or 1: one, 2 or 3: on as many drives; fold: with two or three
 * copies, groups of zones become folds of so many zones of data, and as many of parity as a block
 * may lose copies; 0: they do not.
 *
 * struct meta_statfs counts that: copies; lone_blocks, in zones whose blocks have never had all of
 * them; converts: 1 while there may be such blocks since meta_protect(), and no drive may be lost.
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
 * there; -EINVAL: only format makes a store of three copies, and it stays so. */
must_check int meta_scheme_begin(struct meta *m, const struct meta_scheme *scheme);

struct meta_copies {
	uint32_t copies; /* that the store keeps of each block */
	uint64_t lost;   /* drives, by bits: meta_drive_stat.lost, those of a mount included */
	bool converts;   /* some blocks still have one of two copies: meta_protect() */
	bool few;        /* drives have domains, but fewer than copies: they do not count */
	bool near;       /* two copies of some blocks, or roots, are in one domain: they move */
	uint32_t domains, lost_domains; /* that count; of these drives, or the drives if none do */
	bool cannot; /* a superblock could not be written, or roots moved: it rests until
			* meta_protect() is asked for again */
};
struct meta_copies meta_copies(const struct meta *m); /* as they are now */

#endif
