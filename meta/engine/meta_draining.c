/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The drive that is being drained or was lost, and the progress: meta_drain.c empties it. */
#include "meta/meta_store.h"

uint32_t meta__drain_drive(const struct meta *m)
{
	const struct meta__geo *g = &m->zones->geo;

	uint32_t drains = META_DRIVES_MAX;

	for (uint32_t d = 0; d < g->ndrives; d++) {
		if (g->state[d] == DRIVE_LOST)
			return d; /* what it had comes first */
		if (g->state[d] == DRIVE_DRAINS)
			drains = d;
	}
	return drains;
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

/* The drive is about to be gone: then the log may be smaller, and so may its reserve. */
bool meta__drain_ends(const struct meta *m)
{
	const uint32_t d = meta__drain_drive(m);

	return d < META_DRIVES_MAX && meta__drain_empty(m, d) && !m->boot->drain.cannot;
}
