/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Blocks that meta_alloc.c gave out are pending until a record names them, or they return. */
#include "meta/engine/meta_ops.h"

#include <errno.h>

static void pending_drop(struct meta *m, const struct meta_run *runs, uint32_t nruns)
{
	for (uint32_t i = 0; i < nruns; i++) {
		uint32_t zone;
		struct meta__zone *at;

		if (runs[i].baddr == 0)
			continue;
		zone = meta__zone_of(m, runs[i].baddr);
		ASSERT(zone != META__ZONE_NONE);
		at = meta__zone_at(m, zone);
		ASSERT(at->pending >= runs[i].nblocks);
		ASSERT(at->kind ==
		       META__ZONE_DATA); /* meta_gc_move.c (4): its places were pending */
		at->pending -= runs[i].nblocks;
		ASSERT(at->moved || m->zones->promised >= runs[i].nblocks);
		m->zones->promised -= at->moved ? 0 : runs[i].nblocks;
		if (at->pending == 0)
			m->zones->deaths += m->zones->geo.zone_end; /* it may be collected now */
		meta__zone_settle(m, zone);
	}
}

void meta_data_free(struct meta *m, const struct meta_run *runs, uint32_t nruns)
{
	pending_drop(m, runs, nruns);
}

void meta__data_applied(struct meta *m, const struct meta_run *runs, uint32_t nruns)
{
	pending_drop(m, runs, nruns);
}

void meta__data_dropped(struct meta *m, const struct meta_run *runs, uint32_t nruns)
{
	pending_drop(m, runs, nruns);
}

int meta__data_check(const struct meta *m, const struct meta_run *runs, uint32_t nruns)
{
	for (uint32_t i = 0; i < nruns; i++) {
		uint32_t zone = meta__zone_of(m, runs[i].baddr), first;
		const struct meta__zone *at;

		if (runs[i].nblocks == 0 || runs[i].nblocks > META_IO_BLOCKS_MAX)
			return -EINVAL;
		if (runs[i].baddr == 0)
			continue;
		if (zone == META__ZONE_NONE)
			return -EINVAL;
		at = meta__zone_at(m, zone);
		first = (uint32_t)(runs[i].baddr - meta__geo_zone_baddr(&m->zones->geo, zone));
		if (at->kind != META__ZONE_DATA || at->pending < runs[i].nblocks)
			return -EINVAL;
		if (first < 1 || first + runs[i].nblocks > at->used)
			return -EINVAL;
	}
	return 0;
}
