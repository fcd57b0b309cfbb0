/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Failure domains of drives: meta_domain.c says what they promise.  Sets of drives are bits. */
#ifndef META_DOMAIN_H
#define META_DOMAIN_H

#include "meta/meta_store.h"

/* Takes the domains that the configuration names, for a set of drives in these states (NULL: all
 * serve) and a store of so many copies. */
void meta__domains_take(struct meta *m, uint32_t copies, uint32_t ndrives, const uint8_t *state);
/* ... for the set of drives that is in use; then groups and folds are looked at again. */
void meta__domains_again(struct meta *m);
/* Finds the groups and folds that have two zones in one domain. */
void meta__domains_look(struct meta *m);

/* Returns this drive and all others of its domain. */
static inline uint64_t meta__mates(const struct meta *m, uint32_t drive)
{
	DASSERT(drive < META_DRIVES_MAX);
	return m->mates[drive];
}
/* Returns all drives of the domains of these. */
uint64_t meta__mates_of(const struct meta *m, uint64_t drives);
/* Returns how many there are; 0: drives have none that count. */
uint32_t meta__domains_count(const struct meta *m);
/* Returns how many domains these drives are in. */
uint32_t meta__domains_in(const struct meta *m, uint64_t drives);
/* Return how many domains have a drive that serves, and one that takes zones.  Without domains:
 * how many drives. */
uint32_t meta__domains_serving(const struct meta *m);
uint32_t meta__domains_taking(const struct meta *m);
/* May a drive be drained, while the drive `added` (META_DRIVES_MAX: none) comes?  Not if fewer
 * domains than copies would take zones then. */
must_check bool meta__domains_allow(const struct meta *m, uint32_t drive, uint32_t added);

/* Adds the zones of each drive that has some to the first such drive of its domain. */
void meta__domains_sum(const struct meta *m, const uint32_t *on, uint32_t sum[META_DRIVES_MAX]);
/* Returns how many domains have zones there. */
uint32_t meta__domains_on(const struct meta *m, const uint32_t *on);

#endif
