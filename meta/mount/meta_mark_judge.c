/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* At a mount: does each drive say the mark that roots say it has?  The rules are meta_mark.c's. */
#include "meta/meta_store.h"

#include <errno.h>
#include <string.h>

void meta__marks_said(struct meta *m, const struct meta__root_seen *r)
{
	struct meta__boot *b = m->boot;

	ASSERT(r->shard < m->nshards);
	if (r->mount < b->mount_max)
		return;
	if (r->mount > b->mount_max) /* (3) */
		memset(b->marked, 0, sizeof(b->marked));
	for (uint32_t d = 0; d < META_DRIVES_MAX; d++)
		b->marked[d] = max_u64(b->marked[d], r->mark[d]);
}

int meta__marks_judge(struct meta *m)
{
	const struct meta__boot *b = m->boot;
	const uint64_t *of = m->zones->marks.of;

	ASSERT(b->geo.ndrives <= META_DRIVES_MAX);
	ASSERT(!b->log_judged);
	for (uint32_t d = 0; d < b->geo.ndrives; d++) {
		if (!meta__has_mark(m, d) || of[d] >= b->marked[d] ||
		    meta__zone_at(m, meta__first_zone(m->zones, d))->head_lost) /* (4) */
			continue;
		return meta__boot_fail(
			m, -EUCLEAN,
			"drive %u%s%s is behind the others: it was written last in mount %llu, "
			"checkpoint %llu, and should have been in %llu, %llu: it is an older copy, "
			"or has lost what it had confirmed; put the newest one in its place",
			d, *b->super.drive_name[d] ? ", " : "", b->super.drive_name[d],
			(unsigned long long)(of[d] >> 32), (unsigned long long)(of[d] & UINT32_MAX),
			(unsigned long long)(b->marked[d] >> 32),
			(unsigned long long)(b->marked[d] & UINT32_MAX));
	}
	return 0;
}
