/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Collection of data zones: finds the live blocks of the victims.
 *
 *   for each shard that has a ZONE record of a victim:
 *       its index from the first key on -> EXTENT records -> runs in a victim -> the mover
 *
 * Why it asks the index itself.  Only the index knows which blocks live, so any other source (a
 * summary at the end of each zone) would be a hint that may be missing, torn or old, and this walk
 * would be needed as a fallback.  It costs reading the leaves of the shards that a ZONE record
 * names, once for all victims of a round; it writes nothing, holds nothing in memory, has no state
 * on the drives that a crash could damage, and finds blocks left by a crash like all others.
 *
 *  (1) A plan reads at most RECORDS records, and says where to continue: a turn is bounded.
 *  (2) Files may come and go meanwhile.  Nothing new comes into a victim, so the walk misses only
 *      blocks that moved from one key to another (dead blocks given to an orphan), which die.
 *  (3) Findings may be outdated when blocks are moved: meta_gc_move.c checks again
 *      [test_meta_gc:block_that_is_replaced_while_it_moves_stays_replaced].
 */
#include "meta/ops/meta_gc.h"

#include <string.h>

#define RECORDS 256u

void meta__gc_find_begin(struct meta *m)
{
	struct meta__gc *g = m->gc;

	ASSERT(!g->finding);
	ASSERT(g->victims > 0);
	ASSERT(g->moving == 0);
	g->shard = 0;
	g->shard_begun = g->found_all = false;
	g->found_count = g->found_at = 0;
}

/* Does the shard hold something of a victim?  1, 0, or an error. */
static int concerns(struct meta *m, uint32_t shard)
{
	int miss = 0;

	ASSERT(shard < m->nshards);
	ASSERT(m->gc->victims <= META__GC_VICTIMS);
	for (uint32_t i = 0; i < m->gc->victims; i++) {
		const struct meta_key key = meta__zone_key(m, m->gc->victim[i]);
		const void *value;
		uint32_t len;
		int rc;

		if (!meta__zone_at(m, m->gc->victim[i])->victim)
			continue;
		rc = meta__get(m, shard, &key, &value, &len);
		if (rc == 0)
			return 1;
		if (rc != -ENOENT && meta__stop(rc, &miss))
			return rc;
	}
	return miss;
}

static void look_at(struct meta *m, const struct meta_key *key, const void *value,
		    uint32_t value_len)
{
	struct meta__gc *g = m->gc;
	struct meta__extent x;

	if (meta__key_class(key) != META__CLASS_OBJ || meta__key_kind(key) != META__KIND_EXTENT ||
	    meta__key_dir(key) == 0 || meta__extent_parse(value, value_len, &x))
		return;
	for (uint32_t i = 0; i < x.nruns; i++) {
		const uint32_t zone = meta__zone_of(m, meta__extent_run(&x, i).baddr);

		if (zone == META__ZONE_NONE || !meta__zone_at(m, zone)->victim)
			continue;
		ASSERT(g->found_count < META__GC_FOUND); /* (1) */
		g->found[g->found_count++] = (struct meta__gc_found){
			.handle = meta__key_handle(key),
			.chunk = meta__key_index(key),
		};
		return;
	}
}

int meta__plan_gc_find(struct meta *m, struct meta_op *op)
{
	struct meta__gc *g = m->gc;
	struct meta_key key = g->key;
	const struct meta_key last = { { UINT64_MAX, UINT64_MAX, UINT64_MAX } };
	int rc = g->shard_begun ? 1 : concerns(m, g->shard);

	ASSERT(g->finding);
	ASSERT(g->shard < m->nshards);
	g->found_count = 0;
	op->keeps.find.over = rc == 0;
	if (rc <= 0)
		return rc;
	for (uint32_t n = 0; n < RECORDS && g->found_count < META__GC_FOUND; n++) {
		const void *value;
		uint32_t len;

		rc = meta__seek(m, g->shard, &key, &last, &value, &len);
		op->keeps.find.over = rc == -ENOENT;
		if (rc)
			break;
		look_at(m, &key, value, len);
		key = meta__key_next(key);
	}
	for (int i = 0; i < 3; i++)
		op->keeps.find.key[i] = key.w[i];
	return rc == -ENOENT ? 0 : rc;
}

void meta__gc_find_done(struct meta *m)
{
	struct meta__gc *g = m->gc;

	ASSERT(g->finding);
	ASSERT(g->shard < m->nshards);
	ASSERT(g->found_count <= META__GC_FOUND); /* (1) */
	g->finding = false;
	g->found_at = 0;
	if (g->find_op.status)
		g->found_count = 0;
	if (g->find_op.status || g->find_op.keeps.find.over) { /* over, or a page of it is bad */
		g->shard++;
		g->shard_begun = false;
		g->found_all = g->shard == m->nshards;
		return;
	}
	g->shard_begun = true;
	for (int i = 0; i < 3; i++)
		g->key.w[i] = g->find_op.keeps.find.key[i];
}

bool meta__gc_find(struct meta *m)
{
	struct meta__gc *g = m->gc;

	ASSERT(!g->finding && !g->found_all);
	if (!g->shard_begun)
		g->key = (struct meta_key){ { 0, 0, 0 } };
	g->finding = true;
	g->find_op = (struct meta_op){ .type = (enum meta_op_type)META__OP_GC_FIND };
	if (meta_op_start(m, &g->find_op))
		meta__gc_find_done(m);
	return !g->finding;
}
