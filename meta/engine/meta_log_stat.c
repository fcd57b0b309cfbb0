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

/* Returns how many of the copies are on drives that are not dead; at least 1. */
static uint32_t copies_left(const struct meta *m, const uint32_t zone[META__LOG_COPIES])
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < meta__log_copies(zone); i++)
		left += !(m->dead >>
				  META_BADDR_DRIVE(meta__geo_zone_baddr(&m->zones->geo, zone[i])) &
			  1);
	ASSERT(left <= META__LOG_COPIES);
	return max_u32(left, 1);
}

void meta__log_stat(const struct meta *m, struct meta_statfs *out)
{
	const struct meta__log *l = m->log;
	const struct log_zone *now = l->zones_count ? &l->zones[l->zones_count - 1] : NULL;

	out->log_blocks = l->blocks_written;
	out->log_copies = now ? copies_left(m, now->zone) : 1;
}
