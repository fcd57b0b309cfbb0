/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Passes totals up, from a directory to its parent, in rounds.
 *
 *   meta_totals_round()      about once a second, by the owner of the clock, while any is pending
 *        |
 *        v
 *   sweep: all shards' PENDING records, an apply each: --> parents become pending
 *        ^                                                        | another sweep, for these
 *        `--------------------------------------------------------'
 *
 *  (1) A PENDING record names its round.  Changes by users belong to the next round, changes by
 *      passing up to this one.  So in a round a busy directory is passed up once, however long
 *      it takes; and a quiet tree is exact when the round ends, however deep
 *      [test_meta_totals:who_changes_all_the_time_is_passed_up_once_in_a_round].
 *  (2) A record left by another mount may name any round: it is taken in the first or the second
 *      [test_meta_totals:a_mount_passes_up_what_was_not].
 *  (3) A sweep visits each shard once, so children that changed together are passed up before their
 *      parent is [test_meta_totals:a_deep_tree_is_exact_after_one_round].
 *  (4) On a forged drive parents may form a cycle.  So a round ends after
 *      SWEEPS_MAX; deeper directories are left to the next one.
 *  (5) A total that cannot be passed up, because a record cannot be read, delays no other.  It is
 *      tried again with another one in its shard; until then no total is reported as exact
 *      [test_meta_totals_bad:one_directory_that_cannot_be_passed_up_keeps_no_other_from_it].
 *  (6) A full store makes no TOTALS record: the remaining space is for deleting.  Each round tries
 *      again with some of a shard, until there is room [test_meta_totals_full].
 */
#include "meta/plans/meta_plan.h"

#include <string.h>

#define APPLIES_PER_TURN 8u
#define SWEEPS_MAX       512u /* of a round: see (4) */
#define BAD_MAX          8u   /* of a shard that cannot be read, or made: then more cannot */
#define SKIPS_MAX        32u  /* PENDING records of the next round, looked over by one plan */

/* A key with more bits set, after all PENDING keys. */
static bool is_pending_key(const struct meta_key *key)
{
	const struct meta_key is = meta__pending_key(meta__key_index(key));

	return meta__key_cmp(key, &is) == 0;
}

/* Finds the next directory to pass up, from keeps.totals_up.from on. */
static int next_pending(struct meta *m, struct meta_op *op, uint64_t *dir)
{
	struct meta_key key = meta__pending_key(op->keeps.totals_up.from);
	const struct meta_key last = meta__pending_key(META__MASK48);

	DASSERT(op->keeps.totals_up.shard < m->nshards);
	for (uint32_t skips = 0; skips < SKIPS_MAX; skips++, key = meta__key_next(key)) {
		const void *value;
		uint32_t len;
		le64 round;
		int rc = meta__seek(m, op->keeps.totals_up.shard, &key, &last, &value, &len);

		op->keeps.totals_up.over = rc == -ENOENT || !is_pending_key(&key);
		if (rc || op->keeps.totals_up.over)
			return rc ? rc : -ENOENT;
		*dir = meta__key_index(&key);
		op->keeps.totals_up.from = *dir; /* a plan may run again */
		if (len != sizeof(round) || meta__dir_shard(m, *dir) != op->keeps.totals_up.shard)
			return meta__bad_record(m, "pending", op->keeps.totals_up.shard, &key);
		DASSERT(*dir <= META__MASK48);
		memcpy(&round, value, sizeof(round));
		op->keeps.totals_up.passes = le64_get(round) != m->ops->totals_round + 1; /* (1) */
		if (op->keeps.totals_up.passes)
			return 0;
		op->keeps.totals_up.from++;
		op->keeps.totals_up.next_round = true;
	}
	return -ENOENT;
}

static int pass(struct meta *m, uint64_t dir)
{
	struct meta__sums total, more;
	struct meta__totals t;
	struct meta__dir d = { 0 };
	int rc = meta__dir_load(m, dir, &d), miss = 0;

	DASSERT(m->ops->passing);
	if (rc == -ENOENT || (rc == 0 && (d.going || dir == META_ROOT_DIR)))
		return meta__pending_del(m, dir, &d); /* no reason for it */
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__totals_get(m, dir, &t);
	if (rc || miss)
		return rc ? rc : miss;
	total = more = meta__total_of(&d, &t);
	meta__sums_add(&more, &t.passed, true);
	t.passed = total;
	rc = meta__totals_put(m, dir, &t);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__pending_del(m, dir, &d);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__dir_put(m, dir, &d);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__owe_below(m, d.parent, &more, false);
	return rc ? rc : miss;
}

int meta__plan_totals_up(struct meta *m, struct meta_op *op)
{
	uint64_t dir = 0;
	int rc;

	DASSERT(!m->home);
	m->ops->passing = true;
	rc = next_pending(m, op, &dir);
	if (rc)
		return rc == -ENOENT ? 0 : rc; /* keeps.totals_up.over tells */
	return pass(m, dir);
}

void meta__totals_up_op_done(struct meta *m, struct meta_op *op)
{
	struct meta__totals_scan *s = &m->ops->totals[op->keeps.totals_up.shard];

	ASSERT(op->keeps.totals_up.shard < m->nshards);
	ASSERT(op->keeps.totals_up.under_way);
	ASSERT(s->busy);
	s->busy = false;
	s->next |= op->keeps.totals_up.next_round;
	m->ops->pends |= s->next;
	if (op->status == -EIO || op->status == -ENOSPC) {
		op->keeps.totals_up.from++; /* continue with the others */
		s->bad++;
	} else if (op->status) {
		op->keeps.totals_up.over = true;
	} else {
		op->keeps.totals_up.from +=
			op->keeps.totals_up
				.passes; /* (3): pending again, it is of the next sweep */
	}
	if (op->status && op->status != -EIO) /* that is left for a check to tell */
		s->next = m->ops->pends = true;
	s->left |= op->status != 0; /* (5) */
	s->from = op->keeps.totals_up.from;
	s->maybe = !op->keeps.totals_up.over && s->bad < BAD_MAX;
	op->keeps.totals_up.under_way = false; /* free for another */
}

/* A shard that may have some and is not being passed up; false: none. */
static bool pick_shard(struct meta *m, uint32_t *shard)
{
	struct meta__ops *ops = m->ops;

	for (uint32_t i = 1; i <= m->nshards; i++) {
		const uint32_t s = (ops->totals_shard + i) & (m->nshards - 1);

		if (ops->totals[s].maybe && !ops->totals[s].busy) {
			ops->totals_shard = s;
			*shard = s;
			return true;
		}
	}
	return false;
}

/* A sweep begins, and visits this shard if `maybe`. */
static void sweep(struct meta__totals_scan *scan, bool maybe)
{
	DASSERT(!scan->busy);
	scan->maybe = maybe;
	scan->again = false;
	scan->bad = 0;
	scan->from = 0;
}

/* Is a sweep over all shards in progress?  If not, those that it has made pending are the next, or
 * of the next round: (4). */
static bool is_sweeping(struct meta *m)
{
	struct meta__ops *ops = m->ops;
	bool any = false, last;

	for (uint32_t s = 0; s < m->nshards; s++)
		any |= ops->totals[s].maybe || ops->totals[s].busy;
	if (any)
		return true;
	last = ++ops->totals_sweeps == SWEEPS_MAX;
	ASSERT(ops->totals_sweeps <= SWEEPS_MAX); /* (4) */
	for (uint32_t s = 0; s < m->nshards; s++) {
		struct meta__totals_scan *scan = &ops->totals[s];

		if (last && scan->again)
			scan->next = ops->pends = true;
		sweep(scan, !last && scan->again);
	}
	return false;
}

bool meta__totals_turn(struct meta *m)
{
	struct meta__ops *ops = m->ops;
	uint32_t applies = 0, shard;

	if (!ops->passes || !m->mounted || m->failed || m->stopping || ops->alone)
		return false;
	for (uint32_t i = 0; i < META__PASS_OPS && applies < APPLIES_PER_TURN;) {
		struct meta_op *op = &ops->pass_op[i];

		if (op->keeps.totals_up.under_way) {
			i++;
			continue;
		}
		if (!pick_shard(m, &shard))
			break;
		ASSERT(!ops->totals[shard].busy);
		ops->totals[shard].maybe = false;
		ops->totals[shard].busy = true;
		*op = (struct meta_op){ .type = (enum meta_op_type)META__OP_TOTALS_UP };
		op->keeps.totals_up.shard = shard;
		op->keeps.totals_up.from = ops->totals[shard].from;
		op->keeps.totals_up.under_way = true;
		applies++;
		if (m->above->start(m, op))
			meta__totals_up_op_done(m, op);
	}
	if (!is_sweeping(m) && !pick_shard(m, &shard))
		ops->passes = false; /* the round is over */
	return ops->passes && pick_shard(m, &shard);
}

bool meta_totals_pending(const struct meta *m)
{
	return (m->ops->passes || m->ops->pends) && !m->failed;
}

void meta_totals_round(struct meta *m)
{
	struct meta__ops *ops = m->ops;

	if (ops->passes || !m->mounted || m->failed || m->stopping)
		return;
	ops->passes = true;
	ops->pends = false;
	ops->totals_round++;
	ops->totals_sweeps = 0;
	for (uint32_t s = 0; s < m->nshards; s++) {
		struct meta__totals_scan *scan = &ops->totals[s];

		ASSERT(!scan->busy && !scan->maybe && !scan->again);
		scan->left &= !scan->next;
		sweep(scan, scan->next);
		scan->next = false;
	}
}

void meta__totals_mounted(struct meta *m)
{
	ASSERT(!m->home);
	for (uint32_t s = 0; s < m->nshards; s++)
		m->ops->totals[s] = (struct meta__totals_scan){ .next = true };
	m->ops->pends = true;
}

/* ---- asked for ----------------------------------------------------------------------------- */

static int totals_of(struct meta *m, uint64_t dir, struct meta_totals *out)
{
	struct meta__totals t;
	struct meta__sums s;
	struct meta__dir d = { 0 };
	int rc = meta__dir_get(m, dir, &d), miss = 0;

	if (meta__stop(rc, &miss))
		return rc == -ENOENT ? -ESTALE : rc;
	rc = meta__totals_get(m, dir, &t);
	if (rc || miss)
		return rc ? rc : miss;
	s = meta__total_of(&d, &t);
	*out = (struct meta_totals){ s.entries, s.dirs, s.bytes, s.blocks, .settled = false };
	return 0;
}

/* A tree that is being removed may still have names elsewhere, which counted there when it went. */
static bool is_exact(const struct meta *m)
{
	bool left = false;

	DASSERT(!m->home);
	for (uint32_t s = 0; s < m->nshards; s++)
		left |= m->ops->totals[s].left; /* (5) */
	return !left && !meta_totals_pending(m) && !meta__orphans_waiting(m);
}

int meta__plan_totals(struct meta *m, struct meta_op *op)
{
	struct meta__inode in;
	int rc = meta__resolve(m, &op->target, !(op->flags & META_NOFOLLOW), &in);

	if (rc)
		return rc;
	*op->totals = (struct meta_totals){ .bytes = in.size, .blocks = in.blocks };
	if (in.type == META_TYPE_DIR)
		rc = meta__may_use(m, op, &in, META__MAY_R | META__MAY_X); /* to add it up */
	if (!rc && in.type == META_TYPE_DIR)
		rc = totals_of(m, in.child, op->totals);
	op->totals->settled = in.type != META_TYPE_DIR || is_exact(m);
	return rc ? rc : meta__attr(m, &in, &op->attr);
}
