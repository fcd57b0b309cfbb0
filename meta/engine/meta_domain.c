/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Failure domains: drives that fail together, such as those of one enclosure, count once.
 *
 *   domain a          domain b          domain c      a group of three copies, a fold of 1 + 2 ...
 *   drive 0  [zone ]  drive 2  [zone ]  drive 4  [ ]  has one zone in each
 *   drive 1  [     ]  drive 3  [     ]  drive 5  [z]
 *
 * A store promises to serve after the loss of one or two drives.  Where domains are named it
 * promises that for domains: no two copies of a block, of the log or of a root, and no two zones of
 * a fold, are in one of them.  A drive without a name is a domain of its own.  So a store without
 * names does exactly what it did before there were any: each set of mates is one drive.
 *
 * The names are in the configuration only, and the store is given numbers (meta_drive_info).  They
 * describe how drives are built in, which changes when somebody moves one, and nothing that is on a
 * drive depends on them: a group says which zones it has, so a mount finds all copies whatever the
 * domains are by now, and decides by the groups whether it can do without drives
 * (meta_pairs.c (4)).  On the drives they would be a second truth, to be kept equal to the first.
 * The price: the configuration must still have the lines of drives that are missing.
 *
 *   named, or a drive moved --start--> groups and folds with two zones in one domain are `near`
 *     --collection--> others take their place; roots move; each mount begins a new log anyway
 *
 *  (1) A group, or a fold, that is opened or made has its zones in different domains; so have the
 *      copies of a zone of the log, and of the roots that format makes or that are moved, as far as
 *      domains have room (meta_roots_move.c (2))
 *      [test_meta_domain:nothing_has_two_zones_in_one_domain].
 *  (2) A group or fold that has two zones in one domain, since its drives were named later, is
 *      near: its live data moves.  Until none is near the loss of a domain is not promised
 *      [test_meta_domain:domains_that_are_named_later_are_kept].
 *  (3) Domains count only if there are at least as many, of drives that have not left the store, as
 *      a block has copies (in a store of one copy: two).  Otherwise each drive counts as its own,
 *      and the store says so: less room would be worse than domains that are not kept
 *      [test_meta_domain:too_few_domains_do_not_count].
 *      A domain whose drives are lost still counts, so groups are narrow until there is another one
 *      (meta_groups.c (2)).  Drives are not drained below that number.
 *  (4) Space is counted in groups of zones of different domains: what a domain has beyond all
 *      others together is no space, like that of one large drive (meta_groups.c (1))
 *      [test_meta_domain:files_fill_what_groups_of_domains_can_hold].
 *  (5) Lost drives of one domain count as one loss of those that the store may have (meta_drives.c)
 *      [test_meta_domain:mount_without_a_domain].
 */
#include "meta/engine/meta_domain.h"
#include "meta/engine/meta_fold.h"

#include "base/num.h"

/* ---- which drives are in one ---------------------------------------------------------------- */

void meta__domains_take(struct meta *m, uint32_t copies, uint32_t ndrives, const uint8_t *state)
{
	uint64_t of[META_DRIVES_MAX + 1] = { 0 };
	uint32_t count = 0, drives = 0;

	ASSERT(ndrives <= META_DRIVES_MAX);
	for (uint32_t d = 0; d < META_DRIVES_MAX; d++) {
		const uint32_t domain = m->domain[d];

		ASSERT(domain <= META_DRIVES_MAX); /* meta_conf_problem() */
		m->mates[d] = 1ull << d;
		if (d >= ndrives || (state && state[d] == DRIVE_GONE))
			continue;
		drives++;
		count += domain == 0 || of[domain] == 0;
		if (domain > 0)
			of[domain] |= 1ull << d;
	}
	m->domains_few = count < drives && count < max_u32(2, copies); /* (3) */
	m->domains = count < drives && !m->domains_few;
	for (uint32_t n = 1; m->domains && n <= META_DRIVES_MAX; n++)
		for (uint64_t left = of[n]; left; left &= left - 1)
			m->mates[__builtin_ctzll(left)] = of[n];
}

void meta__domains_again(struct meta *m)
{
	const struct meta__geo *g = &m->zones->geo;

	ASSERT(m->mounted);
	meta__domains_take(m, m->copies, g->ndrives, g->state);
	meta__domains_look(m);
}

uint64_t meta__mates_of(const struct meta *m, uint64_t drives)
{
	uint64_t mates = drives;

	ASSERT(m->mates[0] & 1); /* each drive is its own mate */
	if (likely(!m->domains))
		return drives;
	for (; drives; drives &= drives - 1)
		mates |= m->mates[__builtin_ctzll(drives)];
	return mates;
}

uint32_t meta__domains_in(const struct meta *m, uint64_t drives)
{
	uint32_t count = 0;

	if (likely(!m->domains))
		return (uint32_t)__builtin_popcountll(drives);
	for (; drives; drives &= ~m->mates[__builtin_ctzll(drives)])
		count++;
	ASSERT(count <= META_DRIVES_MAX);
	return count;
}

uint32_t meta__domains_count(const struct meta *m)
{
	const struct meta__geo *g = &m->zones->geo;
	uint64_t drives = 0;

	ASSERT(!(m->domains && m->domains_few)); /* (3) */
	for (uint32_t d = 0; m->domains && d < g->ndrives; d++)
		drives |= (uint64_t)(g->state[d] != DRIVE_GONE) << d;
	return meta__domains_in(m, drives);
}

static uint64_t taking(const struct meta *m)
{
	uint64_t drives = 0;

	ASSERT(m->zones->geo.ndrives <= META_DRIVES_MAX);
	for (uint32_t d = 0; d < m->zones->geo.ndrives; d++)
		drives |= (uint64_t)meta__drive_takes(m, d) << d;
	return drives;
}

uint32_t meta__domains_serving(const struct meta *m)
{
	uint64_t drives = 0;

	if (likely(!m->domains))
		return m->zones->geo.drives_serving;
	for (uint32_t d = 0; d < m->zones->geo.ndrives; d++)
		drives |= (uint64_t)meta__drive_serves(m, d) << d;
	return meta__domains_in(m, drives);
}

uint32_t meta__log_copies_now(const struct meta *m)
{
	return min_u32(meta__log_copies_max(m), max_u32(1, meta__domains_serving(m)));
}

uint32_t meta__domains_taking(const struct meta *m)
{
	return meta__domains_in(m, taking(m));
}

/* Is this drive, which the set of drives need not have yet, in a domain of none of these? */
static bool is_apart(const struct meta *m, uint32_t drive, uint64_t drives)
{
	ASSERT(drive < META_DRIVES_MAX && !(drives >> drive & 1));
	for (; drives && m->domain[drive] > 0; drives &= drives - 1)
		if (m->domain[__builtin_ctzll(drives)] == m->domain[drive])
			return false;
	return true;
}

bool meta__domains_allow(const struct meta *m, uint32_t drive, uint32_t added)
{
	const uint64_t drives = taking(m), rest = drives & ~(1ull << drive);
	const uint32_t now = meta__domains_in(m, drives);
	uint32_t then = meta__domains_in(m, rest);

	ASSERT(drive < META_DRIVES_MAX && drive != added);
	then += added < META_DRIVES_MAX && is_apart(m, added, rest);
	return !m->domains || then >= min_u32(now, max_u32(2, m->copies)); /* (3) */
}

/* ---- room (4) ------------------------------------------------------------------------------- */

void meta__domains_sum(const struct meta *m, const uint32_t *on, uint32_t sum[META_DRIVES_MAX])
{
	uint64_t drives = 0;

	ASSERT(m->zones->geo.ndrives <= META_DRIVES_MAX);
	for (uint32_t d = 0; d < m->zones->geo.ndrives; d++) {
		sum[d] = 0;
		drives |= (uint64_t)(on[d] > 0) << d;
	}
	for (uint64_t left = drives; left; left &= left - 1) {
		const uint32_t d = (uint32_t)__builtin_ctzll(left);

		sum[__builtin_ctzll(m->mates[d] & drives)] += on[d];
	}
}

uint32_t meta__domains_on(const struct meta *m, const uint32_t *on)
{
	uint64_t drives = 0;

	ASSERT(m->zones->geo.ndrives <= META_DRIVES_MAX);
	for (uint32_t d = 0; d < m->zones->geo.ndrives; d++)
		drives |= (uint64_t)(on[d] > 0) << d;
	return meta__domains_in(m, drives);
}

/* ---- named later (2) ------------------------------------------------------------------------ */

static bool is_near(const struct meta *m, uint32_t zone)
{
	const struct meta__zone *at = meta__zone_at(m, zone);
	uint64_t drives;

	if (at->state == ZONE_FREE || at->state == ZONE_GONE || at->parity ||
	    (at->kind != META__ZONE_PAGE && at->kind != META__ZONE_DATA))
		return false;
	drives = meta__drives_of(m, zone);
	ASSERT(drives);
	return meta__domains_in(m, drives) < (uint32_t)__builtin_popcountll(drives);
}

void meta__domains_look(struct meta *m)
{
	struct meta__zones *z = m->zones;

	ASSERT(z->nears <= z->geo.nzones);
	if (likely(!m->domains && z->nears == 0))
		return;
	z->nears = 0;
	for (uint32_t i = 0; i < z->geo.nzones; i++) {
		z->zone[i].near = m->domains && m->copies > 1 && is_near(m, i);
		z->nears += z->zone[i].near;
	}
}
