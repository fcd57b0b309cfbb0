/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Where the log begins, how many blocks it has written, and on how many drives it goes on. */
#include "meta/engine/meta_log.h"

uint64_t meta__log_base(const struct meta *m)
{
	return m->log->base;
}

uint64_t meta__log_epoch(const struct meta *m)
{
	return m->log->epoch;
}

uint64_t meta__log_blocks(const struct meta *m)
{
	return m->log->blocks_written;
}

/* Whether one of the copies is on a drive that is dead. */
static bool on_dead(const struct meta *m, const uint32_t zone[META__LOG_COPIES])
{
	bool dead = false;

	for (uint32_t i = 0; i < meta__log_copies(zone); i++)
		dead |= m->dead >> META_BADDR_DRIVE(meta__geo_zone_baddr(&m->zones->geo, zone[i])) &
			1;
	return dead;
}

void meta__log_stat(const struct meta *m, struct meta_statfs *out)
{
	const struct meta__log *l = m->log;
	const struct log_zone *now = l->zones_count ? &l->zones[l->zones_count - 1] : NULL;

	out->log_blocks = l->blocks_written;
	out->log_copies = now && !on_dead(m, now->zone) ? meta__log_copies(now->zone) : 1;
}
