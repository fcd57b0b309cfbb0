/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Groups of zones, in stores of two or three copies: meta_pair.c says how they live. */
#ifndef META_PAIR_H
#define META_PAIR_H

#include "meta/meta_store.h"

/* Memory for the twins of a drive's zones: in a store of one copy, too, which may get a second one
 * while it serves.  -ENOMEM. */
must_check int meta__twins_join(struct meta *m, const struct meta__geo *g, uint32_t drive);
/* The store has copies from now on: other cores look for twins. */
void meta__twins_show(struct meta *m);
void meta__twins_free(struct meta *m);

#define META__PAIR      2u                     /* zones of a group in a store of two copies */
#define META__TWINS_MAX (META_COPIES_MAX - 1u) /* of a group */

/* Returns the next zone of the group, after the last the first; META__ZONE_NONE: it is alone. */
uint32_t meta__twin(const struct meta *m, uint32_t zone);
/* Returns the zone itself, or the first of its group if it is a twin, or a zone of data of its
 * fold if it is the parity.  A twin has none while it becomes free, when its header is still being
 * written. */
uint32_t meta__pair_first(const struct meta *m, uint32_t zone);
/* Fills in the other zones of the group, in the order of the ring.  Returns how many. */
uint32_t meta__group_others(const struct meta *m, uint32_t zone, uint32_t other[META__TWINS_MAX]);
/* Makes a group of these: the first one, and its twins, which ascend. */
void meta__group_make(struct meta *m, const uint32_t *zone, uint32_t count, uint64_t number);
/* They are none any more.  As meta__group_others() before that. */
uint32_t meta__group_end(struct meta *m, uint32_t zone, uint32_t other[META__TWINS_MAX]);
/* Fills in what the header of head->zone says of its group, whose first zone this is. */
void meta__group_head(const struct meta *m, uint32_t first, struct meta__zone_seen *head);
/* Returns where the next copy of a block lies, and after the last one the first; 0: it has no
 * other copy. */
uint64_t meta__twin_baddr(const struct meta *m, uint64_t baddr);

/* ---- meta_copies.c: which drives have the blocks of a zone, by bits ------- */

/* Returns the drives with the copies of a zone, or with all zones of its fold. */
uint64_t meta__drives_of(const struct meta *m, uint32_t zone);
/* Returns how many of these can be read. */
uint32_t meta__drives_read(const struct meta *m, uint64_t drives);
/* Returns the first of these that takes no zones; META_DRIVES_MAX: all take some. */
uint32_t meta__drives_refuse(const struct meta *m, uint64_t drives);
/* Returns true if a zone of pages or data lacks a copy that can be read. */
bool meta__is_thin(const struct meta *m, uint32_t zone);

/* May it be read?  Not if it is lost, gone, dead or missing. */
bool meta__drive_reads(const struct meta *m, uint32_t drive);
/* May a drive be lost: does each block have several copies?  Not while the store converts. */
bool meta__may_lose(const struct meta *m);
/* Has anything its only readable copy there: blocks, log, roots (meta_needed.c)? */
must_check bool meta__drive_is_needed(const struct meta *m, uint32_t drive);
/* Goes on without this drive, whose copies are not complete any more.  False: it cannot. */
must_check bool meta__drive_lose(struct meta *m, uint32_t drive);

/* Tells all cores not to read or write this drive any more. */
void meta__twins_without(struct meta *m, uint32_t drive);

/* Returns true if live data must leave the zone: a drive of its group or fold is drained or lost,
 * the group could be wider, or its copies differ and it cannot be folded.  meta__any_leaves():
 * there may be such zones, by the counters. */
bool meta__leaves(const struct meta *m, uint32_t zone);
bool meta__any_leaves(const struct meta *m);

/* ---- meta_groups.c -------------------------------------------------------- */

/* Returns the zones of its group if it lacks some, else 0: meta_pair.c (5). */
uint32_t meta__narrow(const struct meta *m, uint32_t zone);
/* All groups of pages and data lack zones, as the store is to have more copies: meta_protect(). */
void meta__zones_all_lone(struct meta *m);
/* Returns how many groups could be wider than they are. */
uint32_t meta__lone_now(const struct meta *m);

/* Returns how many drives take zones. */
uint32_t meta__taking(const struct meta *m);
/* Returns how many zones a group of pages or data has that is opened now.  meta__in_pairs(): more
 * than one. */
uint32_t meta__width(const struct meta *m);
bool meta__in_pairs(const struct meta *m);
/* Return the groups that can be opened, all that there are, and those that so many zones make. */
uint32_t meta__groups_free(const struct meta *m);
uint32_t meta__groups_total(const struct meta *m);
uint32_t meta__groups_kept(const struct meta *m); /* for spare drives: meta_space.c (5) */
uint32_t meta__groups_of(const struct meta *m, uint32_t zones);
/* Fill in the zones of each drive that takes new ones, else 0: now, and when the spare drives are
 * lost. */
void meta__zones_taking(const struct meta *m, uint32_t on[META_DRIVES_MAX]);
void meta__zones_left(const struct meta *m, uint32_t on[META_DRIVES_MAX]);
/* Return the groups of so many zones, each on another drive, that can be made of so many on each
 * drive; and those of as many as a block has copies. */
uint32_t meta__groups_on(const struct meta *m, const uint32_t *zones, uint32_t width);
uint32_t meta__groups_made(const struct meta *m, const uint32_t *zones);
/* Return the groups that free zones, and all zones, would make, and those for spare drives, if the
 * store had so many copies, which are more than it has. */
uint32_t meta__wider_free(const struct meta *m, uint32_t copies);
uint32_t meta__wider_total(const struct meta *m, uint32_t copies);
uint32_t meta__wider_kept(const struct meta *m, uint32_t copies);

/* ---- meta_spare.c: room for the rebuild of drives ------------------------- */

/* Returns what files leave free of `all` groups if so many may be lost. */
uint64_t meta__spare_of(uint64_t all, uint64_t lost);
uint32_t meta__spare_zones(const struct meta *m); /* ... with those for dead blocks */
/* Returns the groups that must be free, so that `need` still are when a drive is lost. */
uint32_t meta__spare_free(const struct meta *m, uint32_t need);

/* ---- a store that converts: meta_protect.c, meta_roots_move.c -------------- */

/* Return the copies that each block has for certain, and whether format did not make the third. */
uint32_t meta__super_sure(const struct meta__super *s);
bool meta__super_grew(const struct meta__super *s);
/* Does this set count, and not the other one: it is newer, or of the same number and the other's
 * drive is lost in it (meta_drives.c (10))? */
bool meta__super_counts(const struct meta__super *s, const struct meta__super *other);
/* Gives a set its number, and the fields that the first set only implies. */
void meta__super_number(struct meta__super *s, uint64_t set);
/* boot->super says that the store converts. */
void meta__protect_begun(struct meta *m);
/* Writes a third copy of the roots, and then boot->next, which says that the store converts to
 * three copies. */
void meta__roots_third(struct meta *m, int *status);
/* Checkpoints may run again: roots have moved, or do not move now. */
void meta__roots_release(struct meta *m);

/* Sends a read to another copy instead.  Returns false if no other one can be read. */
must_check bool meta__io_turns(struct meta *m, struct meta__io *x);
/* Sends a write to all copies: x->other. */
void meta__io_copies(struct meta *m, struct meta__io *x);
/* One of them has completed.  Returns false while another is in flight. */
must_check bool meta__io_joined(struct meta *m, struct meta__io *x);

#endif
