/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A reader: another thread, which plans operations that change nothing, on its client's core.
 *
 *   struct meta_reader --+-- a `struct meta` of its own, as plans expect one: transaction, scratch,
 *                        |   hints, remembered places, the root of each open shard's tree
 *                        `-- home: the store, whose pages, frames and hash it reads in place
 *
 *   S1 -> T1 (meta_share.c), S2 -> T2 (meta_share.c), S3 -> T3 (meta_share.c),
 *   L1 -> M1 (meta_lend.c), L2 -> M2 (meta_lend.c)
 *
 * The plans are the shipped ones.  If a plan meets anything that it cannot see (a closed shard, a
 * page that is not in memory, a malformed record), it does not count: the operation goes to the
 * store's thread, which starts it again.  A reader never waits.
 */
#include "meta/plans/meta_plan.h"
#include "meta/engine/meta_lend.h"
#include "meta/engine/meta_tree.h"
#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct meta_reader {
	struct meta m;
	struct meta__row *row;
	bool begun;
	const struct meta__geo *geo; /* that m.zones has */
	struct list made_free;       /* as a borrower: records that are not on their way */
	struct meta__made *made;
	uint32_t made_count;
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
	r->m.rows = home->rows;
	r->m.above = home->above;
	r->m.reader = index;
	r->m.turn = 1; /* meta__shard.turn is 0 */
	list_init(&r->made_free);
	r->m.zones = calloc(1, sizeof(*r->m.zones)); /* whose geometry plans need */
	r->made = calloc(META__MADES_MAX, sizeof(*r->made));
	r->m.conf = home->conf;
	r->m.shard = calloc(META_SHARDS_MAX, sizeof(*r->m.shard));
	err = r->m.shard && r->m.zones && r->made ? meta__cache_mirror(&r->m) : -ENOMEM;
	if (!err)
		err = meta__tx_create(&r->m);
	if (!err)
		err = meta__ops_create(&r->m);
	if (err) {
		meta_reader_destroy(r);
		return err;
	}
	r->m.cache->plan = (uint64_t)(index + 1) << 48; /* numbers differ from any other thread's */
	meta__lend_to(home, &r->m);
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
	free(r->m.zones);
	free(r->made);
	free(r);
}

void meta_reader_begin(struct meta_reader *r)
{
	const struct meta *home = r->m.home;

	ASSERT(is_pow2(home->nshards));
	ASSERT(home->share->left > 0);
	ASSERT(home->mounted);
	r->m.nshards = home->nshards;
	r->m.secret = home->secret;
	r->m.spread_at = home->spread_at;
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
	now = atomic_load_explicit(&r->m.home->share->now, memory_order_acquire); /* T3 */
	/* Leaves everything seen so far, and sees everything closed so far.  S2, T3 */
	(void)atomic_exchange_explicit(&r->row->in, now, memory_order_acq_rel);
	DASSERT(now > 0); /* 0: it reads nothing */
	r->m.turn++;
}

void meta_reader_leave(struct meta_reader *r)
{
	if (!r->begun)
		return;
	r->m.turn++; /* nothing is known to be lent any more */
	atomic_store_explicit(&r->row->hits, r->m.cache->hits, memory_order_relaxed);
	atomic_store_explicit(&r->row->in, 0, memory_order_release); /* S2 */
}

/* No other thread writes there. */
static void pin(struct meta__row *row, uint64_t epoch, int more)
{
	_Atomic uint32_t *pins = &row->pins[epoch % META__EPOCHS];
	uint32_t is = atomic_load_explicit(pins, memory_order_relaxed);

	ASSERT(more > 0 || is > 0);
	atomic_store_explicit(pins, is + (uint32_t)more, memory_order_release); /* S2 */
}

/* ---- plans --------------------------------------------------------------------------------- */

bool meta_reader_plan(struct meta_reader *r, struct meta_op *op)
{
	struct meta *m = &r->m;

	op->unseen = op->into = META_SHARDS_MAX;
	op->reader = m->reader + 1;
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
		DASSERT(op->epoch > 0);
		op->pinned = true;
		pin(r->row, op->epoch, 1);
	}
	return true;
}

/* A plan for a lent shard uses the drives of the time of the loan. */
static bool is_lent(const struct meta_reader *r, uint32_t shard)
{
	const struct meta__share *s = r->m.home->share;

	return (atomic_load_explicit(&s->lent[shard], memory_order_acquire) & 0xff) == /* T1 */
	       r->m.reader + 1u;
}

bool meta_reader_sees(const struct meta_reader *r, uint32_t shard)
{
	const struct meta__share *s = r->m.home->share;

	if (!r->begun || shard >= META_SHARDS_MAX)
		return false;
	return atomic_load_explicit(&s->open[shard], memory_order_relaxed) != 0 ||
	       is_lent(r, shard);
}

/* ---- changes to lent shards ---------------------- */

/* Returns the shard where the operation begins, if that needs no lookup; most change no other. */
static uint32_t shard_of(const struct meta *m, const struct meta_target *t)
{
	DASSERT(m->home);
	DASSERT(m->nshards > 0);
	if (!t->path)
		return meta__dir_shard(m, t->handle.dir);
	if (memchr(t->path, '/', t->path_len))
		return META_SHARDS_MAX;
	return meta__dir_shard(m, meta__names_in(m, t->dir, t->path, t->path_len));
}

static bool may_change(struct meta_reader *r, struct meta_op *op)
{
	const struct meta__share *s = r->m.home->share;

	if (!r->begun)
		return false;
	op->into = shard_of(&r->m, &op->target);
	if (op->into < META_SHARDS_MAX)
		return is_lent(r, op->into);
	return atomic_load_explicit(&s->lends, memory_order_relaxed) > 0;
}

/* False: nothing was ever lent. */
static bool look_at_drives(struct meta_reader *r)
{
	const struct meta__geo *geo =
		atomic_load_explicit(&r->m.home->share->geo, memory_order_acquire); /* M1 */

	if (unlikely(geo != r->geo))
		r->m.zones->geo = *geo;
	r->geo = geo;
	return geo != NULL;
}

/* Something is lent: it is known how many there may be. */
static void made_begin(struct meta_reader *r)
{
	ASSERT(r->m.home->lend->made_max <= META__MADES_MAX);
	for (; r->made_count < r->m.home->lend->made_max; r->made_count++) {
		list_init(&r->made[r->made_count].link);
		list_push_back(&r->made_free, &r->made[r->made_count].link);
	}
}

static struct meta__made *made_take(struct meta_reader *r)
{
	struct meta__made *made;
	struct list *l;

	if (unlikely(r->made_count == 0))
		made_begin(r);
	l = list_pop_front(&r->made_free);
	if (!l)
		return NULL;
	made = list_entry(l, struct meta__made, link);
	made->bytes = made->nzones = made->nchanged = made->nfresh = made->ndead = 0;
	made->has_receipt = false;
	return made;
}

bool meta_reader_change(struct meta_reader *r, struct meta_op *op)
{
	struct meta *m = &r->m;
	int rc;

	op->unseen = op->into = META_SHARDS_MAX;
	op->reader = m->reader + 1;
	op->made = NULL;
	if (!may_change(r, op) || !look_at_drives(r))
		return false;
	m->cache->missed = false;
	m->cache->unseen = META_SHARDS_MAX;
	op->made = m->made = made_take(r);
	rc = m->made ? meta__op_change(m, op) : META__NEEDS_ROOM;
	if (rc == 0) {
		DASSERT(op->status || m->made->bytes == 0 || m->made->part.shard < m->nshards);
		if (m->made->bytes > 0)
			/* L2 */
			atomic_fetch_add_explicit(&r->row->made, 1, memory_order_release);
		return true;
	}
	if (rc == META__NEEDS_ROOM && m->made) /* blanks, else records */
		op->into = m->tx->shard[0].shard;
	else if (rc != META__NEEDS_ROOM)
		op->into = META_SHARDS_MAX;
	op->unseen = rc == META__NEEDS_ROOM ? op->into : m->cache->unseen;
	meta_reader_made_end(r, op);
	return false;
}

void meta_reader_made_end(struct meta_reader *r, struct meta_op *op)
{
	DASSERT(!op->made || (op->made >= r->made && op->made < r->made + META__MADES_MAX));
	if (op->made)
		list_push_front(&r->made_free, &op->made->link);
	op->made = NULL;
}

bool meta_reader_read_end(struct meta_reader *r, struct meta_op *op)
{
	if (!op->pinned)
		return false;
	op->pinned = false;
	pin(r->row, op->epoch, -1); /* the drives have answered */
	return true;
}

void meta_reader_ahead_begin(struct meta_reader *r, const struct meta_target *t, uint64_t offset,
			     struct meta_ahead *a)
{
	meta_ahead_begin(&r->m, t, offset, a);
}
