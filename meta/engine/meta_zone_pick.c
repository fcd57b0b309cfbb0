/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Picks the free zone that is used next, and the log's zones; counts how often zones were used.
 * meta_zone.c has the states of zones, and their rules. */
#include "meta/engine/meta_domain.h"
#include "meta/engine/meta_pair.h"

#include "base/num.h"

#include <errno.h>
#include <string.h>

static uint32_t drive_of(const struct meta *m, uint32_t zone)
{
	return META_BADDR_DRIVE(meta__geo_zone_baddr(&m->zones->geo, zone));
}

uint64_t meta__zone_free_on(const struct meta *m, uint32_t drive)
{
	const struct meta__zones *z = m->zones;
	const struct meta__supply *s = &z->data[drive];

	DASSERT(drive < z->geo.ndrives);
	if (!meta__drive_takes(m, drive))
		return 0;
	return z->free_count[drive] + s->opening + div_up(s->room, z->geo.zone_end - 1);
}

static bool is_emptier(const struct meta *m, uint32_t a, uint32_t b)
{
	const uint32_t *size = m->zones->geo.zone_count;

	DASSERT(size[a] > 0 && size[b] > 0);
	return meta__zone_free_on(m, a) * size[b] > meta__zone_free_on(m, b) * size[a];
}

uint32_t meta__zone_next(const struct meta *m, uint32_t drive)
{
	const struct meta__zones *z = m->zones;
	const struct list *l = list_empty(&z->free[drive]) ? &z->fresh[drive] : &z->free[drive];

	ASSERT(drive < z->geo.ndrives);
	if (list_empty(l))
		return META__ZONE_NONE;
	return (uint32_t)(list_entry(l->next, struct meta__zone, link) - z->zone);
}

uint32_t meta__zone_pick_but(const struct meta *m, uint64_t drives)
{
	const struct meta__zones *z = m->zones;
	uint32_t best = META_DRIVES_MAX;

	for (uint32_t d = 0; d < z->geo.ndrives; d++)
		if (!(drives >> d & 1) && z->free_count[d] && meta__drive_takes(m, d) &&
		    (best == META_DRIVES_MAX || is_emptier(m, d, best)))
			best = d;
	if (best == META_DRIVES_MAX)
		return META__ZONE_NONE;
	ASSERT(meta__drive_takes(m, best)); /* meta_zone.c (7) */
	return meta__zone_next(m, best);
}

/* Picks a zone on the drive that is emptiest for its size: so they fill alike. */
uint32_t meta__zone_pick(const struct meta *m)
{
	return meta__zone_pick_but(m, 0);
}

/* Returns the drives, by bits, of the domains that must give a zone to each group of so many: each
 * has so large a part of the zones that are free, or will be when lone groups have moved, that the
 * others have not enough to go with them.  For pairs that is a domain with at least half of all. */
static uint64_t must_give(const struct meta *m, uint32_t width)
{
	const struct meta__zones *z = m->zones;
	uint64_t zones[META_DRIVES_MAX] = { 0 }, sum = 0, drives = 0;

	for (uint32_t d = 0; d < z->geo.ndrives; d++) {
		const uint64_t has =
			meta__drive_takes(m, d) ? (uint64_t)z->free_count[d] + z->lone_on[d] : 0;

		zones[__builtin_ctzll(meta__mates(m, d))] += has;
		sum += has;
	}
	for (; width > 1; width--) {
		uint32_t best = 0;

		for (uint32_t d = 1; d < z->geo.ndrives; d++)
			best = zones[d] > zones[best] ? d : best;
		ASSERT(zones[best] <= sum);
		if (zones[best] * width < sum || zones[best] == 0)
			break;
		drives |= meta__mates(m, best);
		sum -= zones[best];
		zones[best] = 0;
	}
	return drives;
}

/* A group without such a drive would leave zones there that find no others: meta_groups.c (1). */
static uint32_t pick_twin(const struct meta *m, uint64_t but, uint64_t must)
{
	must &= ~but;
	while (must) {
		const uint64_t mates = meta__mates(m, (uint32_t)__builtin_ctzll(must));
		const uint32_t zone = meta__zone_pick_but(m, ~mates);

		if (zone != META__ZONE_NONE)
			return zone;
		must &= ~mates;
	}
	return meta__zone_pick_but(m, but);
}

uint32_t meta__zone_pick_twins(const struct meta *m, uint32_t zone, uint32_t most, uint32_t *twin)
{
	const uint64_t must = must_give(m, most + 1);
	uint64_t drives = meta__mates(m, drive_of(m, zone));
	uint32_t count = 0, at;

	ASSERT(m->copies > 1 && most < m->copies);
	while (count < most && (at = pick_twin(m, drives, must)) != META__ZONE_NONE) {
		uint32_t i = count++;

		for (; i > 0 && twin[i - 1] > at; i--)
			twin[i] = twin[i - 1];
		twin[i] = at;
		ASSERT(!(drives >> drive_of(m, at) & 1)); /* meta_domain.c (1) */
		drives |= meta__mates(m, drive_of(m, at));
	}
	return count;
}

/* Finds the least again only when all least used zones have been used: once a round of all. */
void meta__zone_wear(struct meta *m, struct meta_statfs *out)
{
	struct meta__zones *z = m->zones;

	if (z->wear_least_zones == 0) {
		z->wear_least = UINT64_MAX;
		z->wear_most = 0;
	}
	for (uint32_t i = 0, looks = z->wear_least_zones ? 0 : z->geo.nzones; i < looks; i++) {
		const uint64_t uses = z->zone[i].incarnation;

		if (z->zone[i].state == ZONE_GONE)
			continue;
		if (uses < z->wear_least) {
			z->wear_least = uses;
			z->wear_least_zones = 0;
		}
		z->wear_least_zones += uses == z->wear_least;
		z->wear_most = max_u64(z->wear_most, uses);
	}
	ASSERT(z->wear_least <= z->wear_most || z->geo.nzones == 0);
	out->wear_least = z->wear_least;
	out->wear_most = z->wear_most;
}

/* ---- the log's zones: meta_zone.c (4) -------------------------------------- */

uint32_t meta__zone_ios_idle(const struct meta__zones *z)
{
	uint32_t idle = 0;

	for (uint32_t i = 0; i < META__ZONE_IOS; i++)
		idle += z->io[i].zone == META__ZONE_NONE;
	return idle;
}

/* In a store of two or three copies drives may be lost at any time, so its log has as many
 * (meta_log.c (7)); a group leaves pages hardly fewer groups than a single zone.  Else zones that
 * pages need are no second copies, nor are those that a mount may need, which has the old log
 * beside the new one. */
static bool log_doubles(const struct meta *m)
{
	if (meta__in_pairs(m))
		return true;
	return meta__groups_free(m) > meta__zones_of_reserve(m) + (m->mounted ? 0 : 4);
}

/* All headers at once. */
static int log_open(struct meta *m)
{
	const struct meta__zones *z = m->zones;
	const uint32_t copies = meta__log_copies_max(m);
	uint32_t zone = meta__zone_pick(m);
	uint64_t drives = 0;

	ASSERT(copies > 1 && copies <= META__LOG_COPIES);
	if (zone == META__ZONE_NONE)
		return z->deallocating ? -EAGAIN : -ENOSPC;
	if (meta__zone_ios_idle(z) < copies)
		return -EAGAIN;
	for (uint32_t i = 0; i < copies && zone != META__ZONE_NONE; i++) {
		if (i > 0 && !log_doubles(m))
			break;
		ASSERT(!(drives >> drive_of(m, zone) & 1)); /* meta_domain.c (1) */
		ASSERT(meta__zone_open(m, zone, META__ZONE_LOG));
		drives |= meta__mates(m, drive_of(m, zone));
		zone = meta__zone_pick_but(m, drives);
	}
	return -EAGAIN;
}

int meta__zone_take_log(struct meta *m, uint32_t zone[])
{
	struct meta__zones *z = m->zones;
	uint64_t drives = 0;

	if (z->log_opening)
		return -EAGAIN;
	if (z->log_ready[0] == META__ZONE_NONE)
		return log_open(m);
	memcpy(zone, z->log_ready, sizeof(z->log_ready));
	meta__log_no_copies(z->log_ready);
	for (uint32_t i = 0; i < meta__log_copies(zone); i++) {
		struct meta__zone *at = meta__zone_at(m, zone[i]);

		at->state = ZONE_OPEN;
		ASSERT(at->order == meta__zone_at(m, zone[0])->order); /* meta_zone.c (6) */
		ASSERT(!(drives >> drive_of(m, zone[i]) & 1));
		drives |= 1ull << drive_of(m, zone[i]);
	}
	ASSERT(drives);
	return 0;
}

void meta__zone_give_log(struct meta *m, uint32_t zone)
{
	struct meta__zone *at = meta__zone_at(m, zone);

	ASSERT(at->kind == META__ZONE_LOG);
	ASSERT(at->state == ZONE_OPEN || at->state == ZONE_CLOSED);
	ASSERT(m->zones->log_count > 0);
	m->zones->log_count--;
	meta__zone_freed(m, zone);
}
