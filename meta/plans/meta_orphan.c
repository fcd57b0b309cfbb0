/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Files without a name: freed at once when small, else in the background.
 *
 *                      few records and zones
 *   last name gone  --------------------------> freed in the same apply
 *        | more                                           ^ nothing left
 *        v                                                |
 *   inode with nlink 0, ORPHAN record  ----> META__FREE_BUDGET at a time, an apply each
 *   inode with TRIMMING, ORPHAN record ----> the same for its chunks from trim_from on
 *   hidden inode (a put in progress), ORPHAN record with this mount's epoch: left alone
 *   kept inode (it is open), ORPHAN record with this mount's epoch: left alone, except for
 *   chunks to be trimmed, until it is let go (meta_hold.c)
 *   dead blocks in too many zones ----> given to an inode without a name, which is an orphan
 *   a tree that was removed, ORPHAN record of its directory ----> meta_rmtree.c
 *
 *  (1) An inode has an ORPHAN record if and only if it has no name, is hidden, or is trimmed.
 *      The record's uniquifier is the inode's: it is found without a search, and is unique
 *      [test_meta_orphan:a_trimmed_file_may_be_cut_again_removed_and_replaced].
 *  (2) Each apply here leaves a consistent store, with less to be freed: after a cut at any place
 *      the next mount continues [test_meta_orphan:what_a_mount_finds_half_freed_is_freed].
 *  (3) An apply changes at most META__FREE_BUDGET extent and ZONE records, META__XATTR_FREE of
 *      extended attributes, and a few more.
 *  (4) If a shard has an ORPHAN record to be freed, orphan[shard] is maybe, or busy.
 *  (5) orphans_due counts the shards that are maybe and not busy: a turn without such a shard
 *      must not cost a walk over all shards.
 */
#include "meta/plans/meta_plan.h"

#include <string.h>

#define BAD_MAX          8u /* orphans of a shard that cannot be read: then its pages cannot */
#define APPLIES_PER_TURN 8u
#define SKIPS_MAX        32u /* ORPHAN records of sessions' puts, looked over by one plan */

/* ---- ORPHAN records ---------------------------------------------------------------------- */

/* (5) */
static void scan_set(struct meta *m, struct meta__orphan_scan *o, bool maybe, bool busy)
{
	DASSERT(o >= m->ops->orphan);
	DASSERT(o < m->ops->orphan + m->nshards);
	m->ops->orphans_due -= o->maybe && !o->busy;
	o->maybe = maybe;
	o->busy = busy;
	m->ops->orphans_due += o->maybe && !o->busy;
	ASSERT(m->ops->orphans_due <= m->nshards);
}

static void expect_orphan(struct meta *m, uint32_t shard, uint64_t uniq)
{
	struct meta__orphan_scan *o = &m->ops->orphan[shard];

	DASSERT(shard < m->nshards);
	o->from = o->maybe ? min_u64(o->from, uniq) : uniq;
	/* Should the plan not be applied: nothing will be found, no harm. */
	scan_set(m, o, true, o->busy);
	DASSERT(meta__orphans_of(m, shard)); /* (4) */
}

int meta__orphan_put(struct meta *m, const struct meta__inode *in, uint64_t mount_epoch)
{
	const struct meta_key key = meta__orphan_key(in->handle.uniq);
	const struct meta__orphan o = { .handle = in->handle, .mount_epoch = mount_epoch };
	struct meta_orphan_disk d;

	DASSERT(in->shard == meta__dir_shard(m, in->handle.dir));
	meta__orphan_build(&o, &d);
	if (mount_epoch != m->epoch || in->flags & META__INODE_TRIMMING)
		expect_orphan(m, in->shard, in->handle.uniq);
	return meta__tx_put(m, in->shard, &key, &d, sizeof(d));
}

int meta__orphan_del(struct meta *m, const struct meta__inode *in)
{
	const struct meta_key key = meta__orphan_key(in->handle.uniq);

	DASSERT(in->shard == meta__dir_shard(m, in->handle.dir));
	return meta__tx_del(m, in->shard, &key);
}

/* ---- dead blocks --------------------------------------------------------------------------- */

/* May this run's death be counted in this transaction?  Then its zone is among dead->zone. */
static bool zone_fits(const struct meta *m, struct meta__dead *dead, uint64_t baddr,
		      uint32_t zones_max)
{
	const uint32_t zone = meta__zone_of(m, baddr);

	for (uint32_t i = 0; i < dead->zones; i++)
		if (dead->zone[i] == zone)
			return true;
	if (dead->zones >= zones_max)
		return false;
	ASSERT(dead->zones < META__FREE_BUDGET); /* (3) */
	dead->zone[dead->zones++] = zone;
	return true;
}

static int count_dead(struct meta *m, uint32_t shard, const struct meta__chunk *c)
{
	struct meta_run r;
	uint32_t at = 0;
	int miss = 0;

	while (meta__chunk_next_run(c, &at, &r)) {
		int rc = 0;

		if (r.baddr)
			rc = meta__tx_live(m, shard, r.baddr, -(int64_t)r.nblocks);
		if (meta__stop(rc, &miss))
			return rc;
	}
	return miss;
}

/* The nameless inode that this transaction's dead blocks go to. */
static void orphan_make(struct meta *m, const struct meta__inode *in, struct meta__dead *d)
{
	DASSERT(!d->has_orphan);
	d->has_orphan = true;
	d->orphan = (struct meta__inode){
		.handle = { in->handle.dir, in->handle.hash, meta__tx_uniq(m, in->shard) },
		.shard = in->shard,
		.type = META_TYPE_FILE,
		.size = META__FILE_BYTES_MAX,
		.mtime_ns = in->mtime_ns,
		.ctime_ns = in->ctime_ns,
		.atime_ns = in->atime_ns,
		.epoch = in->epoch,
	};
}

static int dead_to_orphan(struct meta *m, const struct meta__inode *in, uint64_t index,
			  const struct meta__chunk *dead)
{
	struct meta__dead *d = &m->ops->dead;
	int rc, miss = 0;

	DASSERT(dead->nblocks > 0);
	DASSERT(dead->nblocks <= META_CHUNK_BLOCKS);
	if (!d->has_orphan)
		orphan_make(m, in, d);
	for (uint32_t i = 0; i < dead->nblocks; i++)
		d->orphan.blocks += dead->baddr[i] != 0;
	rc = meta__chunk_put(m, &d->orphan, index, false, dead);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__inode_put(m, &d->orphan);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__orphan_put(m, &d->orphan, 0);
	return rc ? rc : miss;
}

int meta__dead_blocks(struct meta *m, const struct meta__inode *in, uint64_t index,
		      const struct meta__chunk *dead)
{
	const uint32_t zones = m->ops->dead.zones;
	struct meta_run r;
	uint32_t at = 0;
	bool fits = true;

	DASSERT(m->ops->dead.budget <= META__FREE_BUDGET); /* (3) */
	while (fits && meta__chunk_next_run(dead, &at, &r))
		fits = !r.baddr || zone_fits(m, &m->ops->dead, r.baddr, m->ops->dead.budget);
	if (fits)
		return count_dead(m, in->shard, dead);
	m->ops->dead.zones = zones;
	return dead_to_orphan(m, in, index, dead);
}

/* ---- chunks -------------------------------------------------------------------------------- */

/* The tail of `c` whose zones fit moves to `dead`; *all: nothing is left of c. */
static void take_tail(struct meta *m, struct meta__chunk *c, struct meta__chunk *dead, bool *all)
{
	uint32_t i = c->nblocks;

	DASSERT(c != dead);
	meta__chunk_init(dead, c->epoch);
	for (; i > 0; i--) {
		const uint64_t baddr = c->baddr[i - 1];

		if (!baddr)
			continue;
		if (!zone_fits(m, &m->ops->dead, baddr, m->ops->dead.budget))
			break;
		meta__chunk_set(dead, i - 1, baddr, c->crc[i - 1]);
	}
	meta__chunk_trim(c, i);
	*all = i == 0;
	DASSERT(*all == (c->nblocks == 0));
}

/* One chunk, or what of it the budget allows. */
static int free_chunk(struct meta *m, struct meta__inode *in, const struct meta_key *key,
		      const void *value, uint32_t value_len, bool *all)
{
	struct meta__chunk *c = &m->ops->chunk, *dead = &m->ops->dead_chunk;
	struct meta__extent x;
	uint64_t blocks = 0;
	int rc, miss = 0;

	if (meta__extent_check(m, in, key, value, value_len, &x))
		return -EIO;
	meta__chunk_load(c, &x);
	take_tail(m, c, dead, all);
	for (uint32_t i = 0; i < dead->nblocks; i++)
		blocks += dead->baddr[i] != 0;
	in->blocks -= min_u64(blocks, in->blocks);
	rc = count_dead(m, in->shard, dead);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__chunk_put(m, in, meta__key_index(key), true, c);
	return rc ? rc : miss;
}

/* Frees chunks from `from` on, as many as one apply may; *all: none is left. */
static int free_some(struct meta *m, struct meta__inode *in, uint64_t from, bool *all)
{
	struct meta_key key = meta__obj_key(&in->handle, META__KIND_EXTENT, from);
	const struct meta_key last = meta__obj_last(&in->handle, META__KIND_EXTENT);
	int miss = 0;

	*all = true;
	for (uint32_t n = 0; *all; n++, key = meta__key_next(key)) {
		const void *value;
		uint32_t value_len;
		int rc = meta__seek(m, in->shard, &key, &last, &value, &value_len);

		if (rc == -ENOENT ||
		    (rc == 0 && !meta__key_is_obj(&key, &in->handle, META__KIND_EXTENT)))
			return miss;
		if (rc)
			return rc;
		if (n == META__FREE_BUDGET) {
			*all = false;
			break;
		}
		DASSERT(n < META__FREE_BUDGET); /* (3) */
		rc = free_chunk(m, in, &key, value, value_len, all);
		if (meta__stop(rc, &miss))
			return rc;
	}
	return miss;
}

/* Returns 0 if free_some() from `from` on could finish with the rest of the plan; -E2BIG. */
static int free_fits(struct meta *m, const struct meta__inode *in, uint64_t from)
{
	struct meta_key key = meta__obj_key(&in->handle, META__KIND_EXTENT, from);
	const struct meta_key last = meta__obj_last(&in->handle, META__KIND_EXTENT);
	struct meta__dead trial = m->ops->dead;
	struct meta__extent x;

	DASSERT(trial.zones <= META__FREE_BUDGET);
	for (uint32_t n = 0;; n++, key = meta__key_next(key)) {
		const void *value;
		uint32_t value_len;
		int rc = meta__seek(m, in->shard, &key, &last, &value, &value_len);

		if (rc == -ENOENT ||
		    (rc == 0 && !meta__key_is_obj(&key, &in->handle, META__KIND_EXTENT)))
			return 0;
		if (rc)
			return rc;
		if (n + trial.zones >= trial.budget)
			return -E2BIG;
		if (meta__extent_check(m, in, &key, value, value_len, &x))
			return -EIO;
		for (uint32_t i = 0; i < x.nruns; i++) {
			const struct meta_run r = meta__extent_run(&x, i);

			if (r.baddr && !zone_fits(m, &trial, r.baddr, trial.budget - n))
				return -E2BIG;
		}
	}
}

int meta__free_chunks(struct meta *m, struct meta__inode *in, uint64_t from)
{
	bool all, trimming = in->flags & META__INODE_TRIMMING;
	int rc = -E2BIG;

	if (!trimming)
		rc = in->blocks ? free_fits(m, in, from) : 0;
	if (rc == 0 && in->blocks)
		return free_some(m, in, from, &all);
	if (rc != -E2BIG)
		return rc;
	DASSERT(in->type == META_TYPE_FILE);
	in->trim_from = trimming ? min_u64(in->trim_from, from) : from;
	in->flags |= META__INODE_TRIMMING;
	return trimming ? 0 : meta__orphan_put(m, in, in->nlink ? 0 : m->epoch);
}

/* ---- inodes --------------------------------------------------------------------------------- */

/* All records of `in` but its extents; their end. */
static int inode_del(struct meta *m, struct meta__inode *in, bool has_orphan)
{
	const struct meta_key key = meta__obj_key(&in->handle, META__KIND_INODE, 0);
	struct meta__tail tail;
	int rc = in->tail_len ? meta__tail_find(m, in, &tail) : 0, miss = 0;

	DASSERT(meta__handle_ok(&in->handle));
	if (rc == 0 && in->tail_len)
		rc = meta__tail_drop(m, in, &tail);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__owe(m, in, true);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__tx_del(m, in->shard, &key);
	if (meta__stop(rc, &miss))
		return rc;
	if (in->type == META_TYPE_SYMLINK && !in->inline_len) {
		for (uint64_t at = 0; at < in->size; at += META__LINK_PIECE) {
			const struct meta_key piece =
				meta__obj_key(&in->handle, META__KIND_LINK, at / META__LINK_PIECE);

			rc = meta__tx_del(m, in->shard, &piece);
			if (meta__stop(rc, &miss))
				return rc;
		}
	}
	rc = has_orphan ? meta__orphan_del(m, in) : 0;
	return rc ? rc : miss;
}

int meta__free_inode(struct meta *m, struct meta__inode *in)
{
	const bool has_orphan =
		in->nlink == 0 || in->flags & (META__INODE_TRIMMING | META__INODE_HIDDEN);
	int rc = in->blocks ? free_fits(m, in, 0) : 0, miss = 0;
	bool all;

	if (rc == 0 && in->xattrs)
		rc = meta__xattrs_fit(m, in);
	if (rc == 0 && in->blocks)
		rc = free_some(m, in, 0, &all);
	if (rc == 0 && in->xattrs)
		rc = meta__xattrs_free(m, in, &all);
	if (rc == -E2BIG) {
		in->nlink = 0;
		in->counted = 0;
		in->flags = 0;
		in->trim_from = 0;
		rc = meta__inode_put(m, in);
		if (meta__stop(rc, &miss))
			return rc;
		rc = meta__orphan_put(m, in, 0);
		return rc ? rc : miss;
	}
	if (meta__stop(rc, &miss))
		return rc;
	rc = inode_del(m, in, has_orphan);
	return rc ? rc : miss;
}

int meta__unlink_inode(struct meta *m, struct meta__inode *in, uint64_t dir, int64_t wall_ns)
{
	const bool held = meta__is_held(m, &in->handle);
	int rc = 0, miss = 0;

	DASSERT(dir != 0);
	if (in->nlink <= 1 && !held)
		return meta__free_inode(m, in);
	if (in->nlink > 1)
		rc = meta__links_less(m, in, dir);
	else
		in->counted = in->nlink = 0;
	if (rc)
		return rc; /* including a miss: `in` is not complete yet */
	meta__ctime_raise(in, wall_ns);
	if (in->nlink == 0)
		rc = meta__orphan_put(m, in, m->epoch);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__inode_put(m, in);
	return rc ? rc : miss;
}

/* ---- in the background ----------------------------------------------------------------------- */

/* It has no more in its key than meta__orphan_del() finds it by. */
static bool is_orphan_key(const struct meta_key *key)
{
	const struct meta_key is = meta__orphan_key(meta__key_uniq(key));

	return meta__key_cmp(key, &is) == 0;
}

/* Finds the next one to free, from keeps.orphan.from on. */
static int next_orphan(struct meta *m, struct meta_op *op, struct meta__orphan *out)
{
	struct meta_key key = meta__orphan_key(op->keeps.orphan.from);
	const struct meta_key last = meta__orphan_key(META__MASK40);

	DASSERT(op->keeps.orphan.shard < m->nshards);
	DASSERT(op->keeps.orphan.from <= META__MASK40 + 1);
	for (uint32_t skips = 0; skips < SKIPS_MAX; skips++, key = meta__key_next(key)) {
		const void *value;
		uint32_t value_len;
		int rc = meta__seek(m, op->keeps.orphan.shard, &key, &last, &value, &value_len);

		op->keeps.orphan.over = rc == -ENOENT || meta__key_dir(&key) != 0 ||
					meta__key_class(&key) != META__CLASS_ORPHAN;
		if (rc || op->keeps.orphan.over)
			return rc ? rc : -ENOENT;
		op->keeps.orphan.from = meta__key_uniq(&key);
		if (meta__orphan_parse(value, value_len, out) ||
		    out->handle.uniq != meta__key_uniq(&key) || !is_orphan_key(&key) ||
		    meta__dir_shard(m, out->handle.dir) != op->keeps.orphan.shard)
			return meta__bad_record(m, "orphan", op->keeps.orphan.shard, &key);
		if (out->mount_epoch != m->epoch || meta__is_held(m, &out->handle))
			return 0;
		op->keeps.orphan.from++; /* a session's */
	}
	return -ENOENT;
}

static int tree_step(struct meta *m, struct meta_op *op, struct meta__inode *in)
{
	const struct meta__orphan_scan *o = &m->ops->orphan[op->keeps.orphan.shard];

	DASSERT(in->flags & META__INODE_TREE);
	op->keeps.orphan.tree_from = o->tree == in->handle.uniq ? o->tree_from : 0;
	return meta__rmtree_step(m, in, &op->keeps.orphan.tree_from);
}

/* kept: frees only chunks to be trimmed. */
static int free_step(struct meta *m, struct meta_op *op, struct meta__inode *in, bool kept)
{
	const bool nameless = in->nlink == 0 && !kept;
	int rc, miss = 0;
	bool all;

	DASSERT(in->shard == op->keeps.orphan.shard);
	if (in->flags & META__INODE_TREE)
		return tree_step(m, op, in);
	if (kept && !(in->flags & META__INODE_TRIMMING)) {
		op->keeps.orphan.from++;
		return 0;
	}
	if (!nameless && !(in->flags & META__INODE_TRIMMING))
		return meta__orphan_del(m, in); /* no reason for it: (1) again */
	rc = free_some(m, in, nameless ? 0 : in->trim_from, &all);
	if (meta__stop(rc, &miss))
		return rc;
	if (all && nameless && in->xattrs) {
		rc = meta__xattrs_free(m, in, &all);
		if (meta__stop(rc, &miss))
			return rc;
	}
	if (all && nameless) {
		rc = inode_del(m, in, true);
		return rc ? rc : miss;
	}
	if (all) {
		in->flags &= ~(uint32_t)META__INODE_TRIMMING;
		in->trim_from = 0;
		rc = kept ? 0 : meta__orphan_del(m, in);
		if (meta__stop(rc, &miss))
			return rc;
	}
	rc = meta__inode_put(m, in);
	return rc ? rc : miss;
}

int meta__plan_free_orphan(struct meta *m, struct meta_op *op)
{
	struct meta__inode in;
	struct meta__orphan o;
	int rc;

	DASSERT(!m->home);
	m->ops->tree_freed = 0;
	rc = next_orphan(m, op, &o);
	if (rc)
		return rc == -ENOENT ? 0 : rc; /* [2] tells */
	rc = meta__inode_load(m, &o.handle, &in);
	if (rc == -ENOENT)
		return meta__orphan_del(m, &in); /* handle and shard are set */
	return rc ? rc : free_step(m, op, &in, o.mount_epoch == m->epoch);
}

void meta__orphan_op_done(struct meta *m, struct meta_op *op)
{
	struct meta__orphan_scan *o = &m->ops->orphan[op->keeps.orphan.shard];

	ASSERT(op->keeps.orphan.shard < m->nshards);
	ASSERT(op->keeps.orphan.under_way);
	ASSERT(o->busy);
	scan_set(m, o, o->maybe, false);
	if (op->status == 0) {
		o->tree = op->keeps.orphan.from;
		o->tree_from = op->keeps.orphan.tree_from;
		m->ops->tree_entries += m->ops->tree_freed;
	}
	if (op->status == -EIO) {
		op->keeps.orphan.from++; /* left for a check to report: continue with the others */
		o->bad++;
	}
	if (!op->keeps.orphan.over && op->status != -EROFS && o->bad < BAD_MAX)
		expect_orphan(m, op->keeps.orphan.shard, op->keeps.orphan.from);
	op->keeps.orphan.under_way = false; /* free for another */
	meta__ops_trimmed(m);
}

/* A shard that may have orphans and is not being freed; false: none. */
static bool pick_shard(struct meta *m, uint32_t *shard)
{
	struct meta__ops *ops = m->ops;

	if (likely(ops->orphans_due == 0))
		return false;
	for (uint32_t i = 1;; i++) {
		const uint32_t s = (ops->orphan_shard + i) & (m->nshards - 1);

		ASSERT(i <= m->nshards); /* (5) */
		if (ops->orphan[s].maybe && !ops->orphan[s].busy) {
			ops->orphan_shard = s;
			*shard = s;
			return true;
		}
	}
}

bool meta__orphan_turn(struct meta *m)
{
	struct meta__ops *ops = m->ops;
	uint32_t applies = 0, good = 0, shard;

	if (!m->mounted || m->failed || ops->alone)
		return false;
	if (m->stopping && list_empty(&ops->trimming))
		return false; /* the next mount continues */
	for (uint32_t i = 0; i < META__FREE_OPS && applies < APPLIES_PER_TURN;) {
		struct meta_op *op = &ops->free_op[i];

		if (op->keeps.orphan.under_way) {
			i++;
			continue;
		}
		if (!pick_shard(m, &shard))
			return false;
		ASSERT(!ops->orphan[shard].busy);
		scan_set(m, &ops->orphan[shard], false, true);
		*op = (struct meta_op){ .type = (enum meta_op_type)META__OP_FREE_ORPHAN };
		op->keeps.orphan.shard = shard;
		op->keeps.orphan.from = ops->orphan[shard].from;
		op->keeps.orphan.under_way = true;
		applies++;
		if (!m->above->start(m, op))
			continue;
		good += op->status == 0;
		meta__orphan_op_done(m, op);
	}
	return good == APPLIES_PER_TURN; /* what fails is tried again, but not at once */
}

void meta__ops_mounted(struct meta *m)
{
	ASSERT(!m->home);
	for (uint32_t s = 0; s < m->nshards; s++)
		m->ops->orphan[s] = (struct meta__orphan_scan){ .maybe = true };
	m->ops->orphans_due = m->nshards;
	meta__totals_mounted(m);
}
