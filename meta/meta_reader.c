/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A reader: another thread, which plans what changes nothing where its client is.
 *
 *   struct meta_reader --+-- a `struct meta` of its own, as plans want one: transaction, scratch,
 *                        |   hints, what was found lately, where each open shard's tree is
 *                        `-- home: the store, whose pages, frames and hash it looks at in place
 *
 * The plans are the shipped ones.  What they cannot see -- a closed shard, a page that is not in
 * memory, a record that is wrong -- makes that this plan was none: its operation is the store's
 * thread's then, which begins it anew.  Nothing here is ever waited for.
 */
#include "meta/meta_plan.h"
#include "meta/meta_share.h"
#include "meta/meta_tree.h"
#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct meta_reader {
	struct meta m;
	struct meta__row *row;
	bool begun;
};

int meta_reader_create(struct meta_reader **out, struct meta *home, uint32_t index)
{
	struct meta_reader *r = calloc(1, sizeof(*r));
	int err;

	ASSERT(home->share && index < META_READERS_MAX);
	if (!r)
		return -ENOMEM;
	r->row = &home->share->row[index];
	r->m.home = home;
	r->m.conf = home->conf;
	r->m.shard = calloc(META_SHARDS_MAX, sizeof(*r->m.shard));
	err = r->m.shard ? meta__cache_mirror(&r->m) : -ENOMEM;
	if (!err)
		err = meta__tx_create(&r->m);
	if (!err)
		err = meta__ops_create(&r->m);
	if (err) {
		meta_reader_destroy(r);
		return err;
	}
	*out = r;
	return 0;
}

void meta_reader_destroy(struct meta_reader *r)
{
	if (!r)
		return;
	meta__ops_destroy(&r->m);
	meta__tx_destroy(&r->m);
	meta__cache_unmirror(&r->m);
	free(r->m.shard);
	free(r);
}

void meta_reader_begin(struct meta_reader *r)
{
	const struct meta *home = r->m.home;

	ASSERT(home->mounted);
	r->m.nshards = home->nshards;
	r->m.secret = home->secret;
	memcpy(r->m.uuid, home->uuid, sizeof(r->m.uuid));
	r->m.epoch = home->epoch;
	r->m.mounted = true;
	r->begun = true;
}

void meta_reader_drive(struct meta_reader *r, uint32_t drive, const struct meta_drive_info *info)
{
	ASSERT(drive < META_DRIVES_MAX);
	r->m.conf.drive[drive] = *info;
}

void meta_reader_end(struct meta_reader *r)
{
	meta_reader_leave(r);
	r->begun = false;
}

void meta_reader_enter(struct meta_reader *r)
{
	uint64_t now;

	if (!r->begun)
		return;
	now = atomic_load_explicit(&r->m.home->share->now, memory_order_acquire);
	/* What it saw until now, it has left; what was closed until now, it will see.  S2, T3 */
	(void)atomic_exchange_explicit(&r->row->in, now, memory_order_acq_rel);
}

void meta_reader_leave(struct meta_reader *r)
{
	if (!r->begun)
		return;
	atomic_store_explicit(&r->row->hits, r->m.cache->hits, memory_order_relaxed);
	atomic_store_explicit(&r->row->in, 0, memory_order_release); /* S2 */
}

/* Nobody else writes there. */
static void pin(struct meta__row *row, uint64_t epoch, int more)
{
	_Atomic uint32_t *pins = &row->pins[epoch % META__EPOCHS];
	uint32_t is = atomic_load_explicit(pins, memory_order_relaxed);

	ASSERT(more > 0 || is > 0);
	atomic_store_explicit(pins, is + (uint32_t)more, memory_order_release);
}

/* ---- plans --------------------------------------------------------------------------------- */

bool meta_reader_plan(struct meta_reader *r, struct meta_op *op)
{
	struct meta *m = &r->m;

	op->unseen = META_SHARDS_MAX;
	if (unlikely(!r->begun))
		return false;
	m->cache->unseen = META_SHARDS_MAX;
	m->cache->missed = false;
	if (!meta__op_try(m, op)) {
		op->unseen = m->cache->unseen;
		return false;
	}
	if (op->type == META_OP_READ && op->status == 0) {
		op->epoch = atomic_load_explicit(&m->home->share->epoch, memory_order_relaxed);
		op->pinned = true;
		pin(r->row, op->epoch, 1);
	}
	return true;
}

bool meta_reader_sees(const struct meta_reader *r, uint32_t shard)
{
	return r->begun && shard < META_SHARDS_MAX &&
	       atomic_load_explicit(&r->m.home->share->open[shard], memory_order_relaxed) != 0;
}

bool meta_reader_read_end(struct meta_reader *r, struct meta_op *op)
{
	if (!op->pinned)
		return false;
	op->pinned = false;
	pin(r->row, op->epoch, -1); /* what the drives were asked for is here */
	return true;
}

void meta_reader_ahead_begin(struct meta_reader *r, const struct meta_target *t, uint64_t offset,
			     struct meta_ahead *a)
{
	meta_ahead_begin(&r->m, t, offset, a);
}
