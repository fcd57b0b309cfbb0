/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A page is made dirty, so that it moves to another zone: the plan of meta_collect.c. */
#include "meta/plans/meta_plan.h"
#include "meta/engine/meta_tx.h"

int meta__tx_touch(struct meta *m, uint32_t shard, uint32_t level, uint64_t baddr,
		   const struct meta_key *key)
{
	struct meta__tx *tx = m->tx;
	struct meta__path path;
	const void *page;
	uint64_t gen;
	int err = meta__tree_names(m, tx->op, shard, key, level, baddr, &gen);

	ASSERT(!m->home);
	ASSERT(tx->nmut == 0);
	ASSERT(!tx->touch);
	if (err <= 0)
		return err;
	page = meta__collect_page(m, baddr);
	if (page)
		meta__cache_fill(m, shard, level, baddr, gen, page);
	err = meta__tree_walk(m, tx->op, shard, key, level, &path);
	if (err)
		return err;
	ASSERT(meta__frame_baddr(path.at[level].frame) == baddr);
	tx->touch = true;
	tx->touch_shard = shard;
	tx->touch_level = level;
	tx->touch_key = *key;
	meta__tx_count_path(m, &path, level);
	return 0;
}

int meta__plan_touch(struct meta *m, struct meta_op *op)
{
	const uint64_t *w = op->keeps.touch.first;
	const struct meta_key first = { { w[0], w[1], w[2] } };
	const uint32_t shard = op->keeps.touch.shard, level = op->keeps.touch.level;

	ASSERT(shard < m->nshards);
	ASSERT(level < META_PAGE_LEVELS_MAX);
	return meta__tx_touch(m, shard, level, op->keeps.touch.baddr, &first);
}
