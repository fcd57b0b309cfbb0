/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The drive that is being drained or was lost, and the progress: meta_drain.c empties it. */
#include "meta/engine/meta_pair.h"

/* It is never gone: no superblock can name as many zones as a copy of the roots needs. */
static bool keeps_roots(const struct meta__geo *g, uint32_t drive)
{
	return g->root_zones > META__ROOT_ZONES_MAX && meta__geo_any_roots_on(g, drive);
}

/* The blocks of lost drives come first; of these drives, one that can be gone. */
uint32_t meta__drain_drive(const struct meta *m)
{
	const struct meta__geo *g = &m->zones->geo;
	uint32_t drains = META_DRIVES_MAX, stays = META_DRIVES_MAX;

	for (uint32_t d = 0; d < g->ndrives; d++) {
		if (g->state[d] == DRIVE_LOST && !keeps_roots(g, d))
			return d;
		if (g->state[d] == DRIVE_LOST)
			stays = d;
		if (g->state[d] == DRIVE_DRAINS)
			drains = d;
	}
	return stays < META_DRIVES_MAX ? stays : drains;
}

uint64_t meta__drives_leave(const struct meta *m)
{
	const struct meta__geo *g = &m->zones->geo;
	const uint32_t drains = meta__drain_drive(m);
	uint64_t drives = drains < META_DRIVES_MAX ? 1ull << drains : 0;

	for (uint32_t d = 0; unlikely(drives) && d < g->ndrives; d++)
		drives |= (uint64_t)(g->state[d] == DRIVE_LOST && !keeps_roots(g, d)) << d;
	return drives;
}

/* Returns true if the drive is draining and empty: then a failed write to it harms nothing. */
bool meta__drain_empty(const struct meta *m, uint32_t drive)
{
	const struct meta__zones *z = m->zones;

	ASSERT(drive < META_DRIVES_MAX);
	ASSERT(z->free_count[drive] <= z->geo.zone_count[drive]);
	return z->geo.state[drive] == DRIVE_DRAINS &&
	       z->free_count[drive] == z->geo.zone_count[drive];
}

/* Roots stay on the drive, since no zone is free for them (meta_drain.c (3)): operations that need
 * room must not wait for that (make sim T=loss SEED=103440). */
static bool roots_lack_room(const struct meta *m, uint32_t drive)
{
	const struct meta__geo *g = &m->zones->geo;

	ASSERT(drive < g->ndrives);
	return meta__geo_any_roots_on(g, drive) && !m->boot->adding &&
	       meta__groups_free(m) <= meta__zone_reserve(m, false);
}

/* The drive is about to be gone: then the log may be smaller, and so may its reserve. */
bool meta__drain_ends(const struct meta *m)
{
	const uint32_t d = meta__drain_drive(m);

	return d < META_DRIVES_MAX && meta__drain_empty(m, d) && !m->boot->drain.cannot &&
	       !roots_lack_room(m, d);
}
