/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Totals and counters of a store, gathered from the modules that count them. */
#include "meta/plans/meta_plan.h"
#include "meta/meta_store.h"

int meta__plan_statfs(struct meta *m, struct meta_op *op)
{
	struct meta_statfs *s = op->statfs;

	ASSERT(s);
	ASSERT(!m->home);
	*s = (struct meta_statfs){
		.orphans = meta__orphans_waiting(m),
		.tree_entries = m->ops->tree_entries,
		.holds = meta__holds_count(m),
	};
	for (uint32_t i = 0; i < m->nshards; i++) {
		s->files += m->shard[i].files - m->shard[i].dirs;
		s->dirs += m->shard[i].dirs;
	}
	meta__statfs_space(m, s);
	meta__zone_wear(m, s);
	meta__cache_stat(m, s);
	meta__ckpt_stat(m, s);
	meta__gc_stat(m, s);
	meta__log_stat(m, s);
	s->page_blocks = m->index_blocks;
	return 0;
}
