/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Totals of whole trees: entries, directories, bytes and blocks of everything below a directory,
 * found by one lookup.
 *
 *       total(d) = { count, subdirs, own } of DIR {d}  +  below of TOTALS {d}
 *
 *   create in /a/b          DIR b: count, own; PENDING b             in the create's own apply
 *   a round, a second on    b: passed = total(b)     a: below += the difference, PENDING a
 *   the same round          a: passed = total(a)     root: below += the difference
 *
 *  (1) own is the sum over the inodes that name d as the directory that counts them.  A plan that
 *      puts or deletes an inode owes the difference to its directory; that apply settles it
 *      [test_meta_totals:what_is_put_reaches_all_above_in_one_round].
 *  (2) below is the sum that the directories in d have passed up to it.  So a directory that is
 *      removed or moved takes its share along, in the apply that changes its name
 *      [test_meta_totals:a_directory_is_removed_with_what_it_had_passed_up].
 *  (3) If total(d) differs from the sum that d has passed up, d is PENDING and has a record of
 *      that, among the store's own: after a cut the next mount finds it as it finds orphans.  The
 *      root passes nothing up.  A GOING directory no longer does.
 *  (4) All sums are modulo 2^64 [test_meta_check:sums_of_a_directory].
 *
 * meta_totals_up.c passes them up.
 */
#include "meta/plans/meta_plan.h"

#include <string.h>

void meta__sums_add(struct meta__sums *to, const struct meta__sums *s, bool minus)
{
	const uint64_t times = minus ? UINT64_MAX : 1;

	to->entries += times * s->entries;
	to->dirs += times * s->dirs;
	to->bytes += times * s->bytes;
	to->blocks += times * s->blocks;
}

static bool sums_none(const struct meta__sums *s)
{
	return !(s->entries | s->dirs | s->bytes | s->blocks);
}

struct meta__sums meta__total_of(const struct meta__dir *d, const struct meta__totals *t)
{
	struct meta__sums s = { d->count, d->subdirs, d->own_bytes, d->own_blocks };

	meta__sums_add(&s, &t->below, false);
	return s;
}

/* ---- TOTALS records ----------------------------------------------------------------------- */

int meta__totals_get(struct meta *m, uint64_t dir, struct meta__totals *out)
{
	const struct meta_key key = meta__totals_key(dir);
	const uint32_t shard = meta__dir_shard(m, dir);
	const void *value;
	uint32_t len;
	int rc = meta__get(m, shard, &key, &value, &len);

	memset(out, 0, sizeof(*out));
	if (rc)
		return rc == -ENOENT ? 0 : rc;
	if (meta__totals_parse(value, len, out))
		return meta__bad_record(m, "totals", shard, &key);
	out->there = true;
	return 0;
}

int meta__totals_put(struct meta *m, uint64_t dir, const struct meta__totals *in)
{
	const struct meta_key key = meta__totals_key(dir);
	struct meta_totals_disk d;

	DASSERT(dir != 0);
	if (sums_none(&in->below) && sums_none(&in->passed))
		return in->there ? meta__tx_del(m, meta__dir_shard(m, dir), &key) : 0;
	m->ops->grows |= !in->there;
	meta__totals_build(in, &d);
	return meta__tx_put(m, meta__dir_shard(m, dir), &key, &d, sizeof(d));
}

int meta__totals_del(struct meta *m, uint64_t dir)
{
	struct meta__totals t;
	int rc = meta__totals_get(m, dir, &t);

	if (rc || !t.there)
		return rc;
	t = (struct meta__totals){ .there = true };
	return meta__totals_put(m, dir, &t);
}

/* ---- PENDING records ------------------------------------------------------------------------ */

static int pend(struct meta *m, uint64_t dir, struct meta__dir *d)
{
	const struct meta_key key = meta__pending_key(dir);
	const uint32_t shard = meta__dir_shard(m, dir);
	struct meta__totals_scan *scan = &m->ops->totals[shard];
	const le64 value = le64_of(m->ops->totals_round + !m->ops->passing);

	DASSERT(dir != META_ROOT_DIR); /* (3) */
	DASSERT(!d->going);
	d->pending = true;
	/* Should the plan not be applied, nothing will be found: no harm. */
	if (m->ops->passing)
		scan->again = true;
	else
		scan->next = m->ops->pends = true;
	return meta__tx_put(m, shard, &key, &value, sizeof(value));
}

int meta__dir_pend(struct meta *m, uint64_t dir, struct meta__dir *d)
{
	if (d->going || dir == META_ROOT_DIR || (d->pending && !m->ops->passing))
		return 0;
	return pend(m, dir, d);
}

int meta__pending_del(struct meta *m, uint64_t dir, struct meta__dir *d)
{
	const struct meta_key key = meta__pending_key(dir);

	d->pending = false;
	return meta__tx_del(m, meta__dir_shard(m, dir), &key);
}

/* ---- sums that a plan owes ---------------------------------------------------------------- */

static struct meta__owed *owed_to(struct meta *m, uint64_t dir)
{
	struct meta__ops *ops = m->ops;

	DASSERT(dir != 0);
	DASSERT(ops->nowed <= META__OWED_MAX);
	for (uint32_t i = 0; i < ops->nowed; i++)
		if (ops->owed[i].dir == dir)
			return &ops->owed[i];
	if (ops->nowed == META__OWED_MAX)
		return NULL;
	ops->owed[ops->nowed] = (struct meta__owed){ .dir = dir };
	return &ops->owed[ops->nowed++];
}

static int owe_own(struct meta *m, uint64_t dir, uint64_t bytes, uint64_t blocks)
{
	struct meta__owed *o;

	if (dir == 0 || !(bytes | blocks))
		return 0;
	o = owed_to(m, dir);
	if (!o)
		return -E2BIG;
	o->bytes += bytes;
	o->blocks += blocks;
	return 0;
}

int meta__owe_below(struct meta *m, uint64_t dir, const struct meta__sums *s, bool minus)
{
	struct meta__owed *o;

	if (sums_none(s))
		return 0;
	o = owed_to(m, dir);
	if (!o)
		return -E2BIG;
	meta__sums_add(&o->below, s, minus);
	return 0;
}

int meta__owe(struct meta *m, struct meta__inode *in, bool gone)
{
	const struct meta__counted was = in->was;
	int rc;

	DASSERT(meta__handle_ok(&in->handle));
	in->was = (struct meta__counted){ 0 };
	if (!gone && meta__inode_counts(in))
		in->was = (struct meta__counted){ in->counted, in->size, in->blocks };
	if (was.dir == in->was.dir)
		return owe_own(m, was.dir, in->was.bytes - was.bytes, in->was.blocks - was.blocks);
	rc = owe_own(m, was.dir, 0 - was.bytes, 0 - was.blocks);
	return rc ? rc : owe_own(m, in->was.dir, in->was.bytes, in->was.blocks);
}

bool meta__owed_take(struct meta *m, uint64_t dir, struct meta__dir *d)
{
	for (uint32_t i = 0; i < m->ops->nowed; i++) {
		struct meta__owed *o = &m->ops->owed[i];

		if (o->dir != dir || !(o->bytes | o->blocks))
			continue;
		d->own_bytes += o->bytes;
		d->own_blocks += o->blocks;
		o->bytes = o->blocks = 0;
		if (i + 1 == m->ops->nowed && sums_none(&o->below))
			m->ops->nowed = i; /* a create owes nothing else */
		return true;
	}
	return false;
}

static int settle(struct meta *m, struct meta__owed *o)
{
	const struct meta__sums below = o->below;
	struct meta__totals t;
	struct meta__dir d;
	bool was, moved;
	int rc = meta__dir_load(m, o->dir, &d), miss = 0;

	DASSERT(o->dir != 0);
	if (rc)
		return rc == -ENOENT ? 0 : rc; /* it goes with this apply */
	was = d.pending;
	moved = meta__owed_take(m, o->dir, &d);
	rc = meta__dir_pend(m, o->dir, &d);
	if (meta__stop(rc, &miss))
		return rc;
	if (moved || d.pending != was) {
		rc = meta__dir_put(m, o->dir, &d);
		if (meta__stop(rc, &miss))
			return rc;
	}
	if (sums_none(&below))
		return miss;
	rc = meta__totals_get(m, o->dir, &t);
	if (rc)
		return rc;
	meta__sums_add(&t.below, &below, false);
	rc = meta__totals_put(m, o->dir, &t);
	return rc ? rc : miss;
}

int meta__owed_settle(struct meta *m)
{
	int miss = 0;

	for (uint32_t i = 0; i < m->ops->nowed; i++) {
		struct meta__owed *o = &m->ops->owed[i];
		int rc = o->bytes | o->blocks || !sums_none(&o->below) ? settle(m, o) : 0;

		if (meta__stop(rc, &miss))
			return rc;
	}
	return miss;
}

/* ---- directories that go, or move ------------------------------------------------------------ */

int meta__totals_leave(struct meta *m, uint64_t dir, struct meta__dir *d)
{
	struct meta__totals t;
	int rc = meta__totals_get(m, dir, &t), miss = 0;

	DASSERT(dir != META_ROOT_DIR); /* (3) */
	DASSERT(d->parent != 0);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__owe_below(m, d->parent, &t.passed, true);
	if (rc)
		return rc;
	rc = d->pending ? meta__pending_del(m, dir, d) : 0;
	return rc ? rc : miss;
}

int meta__totals_moved(struct meta *m, uint64_t dir, uint64_t from, uint64_t to)
{
	struct meta__totals t;
	int rc = meta__totals_get(m, dir, &t);

	DASSERT(from != to);
	DASSERT(dir != META_ROOT_DIR);
	if (rc)
		return rc;
	rc = meta__owe_below(m, from, &t.passed, true);
	return rc ? rc : meta__owe_below(m, to, &t.passed, false);
}
