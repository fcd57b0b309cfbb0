/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* How many blocks the log has written, and on how many drives it goes on. */
#include "meta/engine/meta_log.h"

/* Whether one of the copies is on a drive that is dead. */
static bool on_dead(const struct meta *m, const uint32_t zone[META__LOG_COPIES])
{
	bool dead = false;

	for (uint32_t i = 0; i < META__LOG_COPIES; i++)
		if (zone[i] != META__ZONE_NONE)
			dead |= m->dead >> META_BADDR_DRIVE(
						   meta__geo_zone_baddr(&m->zones->geo, zone[i])) &
				1;
	return dead;
}

void meta__log_stat(const struct meta *m, struct meta_statfs *out)
{
	const struct meta__log *l = m->log;
	const struct log_zone *now = l->zones_count ? &l->zones[l->zones_count - 1] : NULL;

	out->log_blocks = l->blocks_written;
	out->log_copies = now && now->zone[1] != META__ZONE_NONE && !on_dead(m, now->zone) ? 2 : 1;
}
