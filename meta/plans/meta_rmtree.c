/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Removes a whole tree: its name at once, its entries in the background.
 *
 *    /a/t       one apply: name gone, count of /a less by one,       nothing of /a/t can be named
 *      |        inode of t without a link and an ORPHAN record, t's    any more, whatever its size
 *      |        directory record GOING
 *      v
 *    t: x y u/  a few entries an apply (meta_orphan.c calls):
 *      |          a file    its name; the file itself with the last one, as by unlink
 *      |          u/        its name; u is GOING then, a separate orphan
 *      v
 *    t: empty   the directory record goes, then the inode and its ORPHAN record
 *
 * So no path is walked and nothing recurses: a tree of any depth is a set of orphans, each shard
 * frees its own, and after a cut at any place the next mount continues.
 *
 *  (1) A directory record is GOING if and only if its inode is TREE, and then that has no link.
 *      When the record is gone, the inode is like any without a name (meta_orphan.c).
 *  (2) A GOING directory gets no entry: meta__dir_get() does not find it.  So entries that a step
 *      has passed need no second look, except after a mount, which begins again
 *      [test_meta_rmtree:nothing_can_be_made_in_a_directory_that_goes].
 *  (3) A directory below a GOING one is unchanged until it is processed: a client that knows its
 *      number can still reach it, and its new files there are removed with it
 *      [test_meta_rmtree:what_is_made_below_by_number_goes_with_it].
 *  (4) The fragments of a spread directory go first, one by one: GOING, emptied, the record removed
 *      [test_meta_spread:a_tree_goes_with_the_fragments_of_all_that_is_in_it].
 *  (5) A step wants at most RECORDS_ENOUGH records, those of one entry more, and the sums owed to
 *      directories.
 */
#include "meta/plans/meta_plan.h"

#define STEPS_MAX      256u /* records that a step looks at: objects whose names have gone before */
#define RECORDS_ENOUGH 6u
#define RECORDS_OWED                                                                               \
	7u /* its own, of a fragment and the whole; two that count a file from now on */

/* One entry: name, inode, orphan; its tail; its extents and their zones; its attributes. */
static_assert(RECORDS_ENOUGH + 3 + META__TAIL_PIECES + META__FREE_BUDGET + META__XATTR_FREE +
			      RECORDS_OWED <=
		      META__TX_RECORDS_MAX,
	      "one entry fits"); /* (5) */

/* Its name is the caller's. */
int meta__tree_detach(struct meta *m, const struct meta__name *is, int64_t wall_ns)
{
	struct meta__inode in;
	struct meta__dir d;
	int rc = meta__inode_named(m, is, &in), miss = 0;

	DASSERT(is->type == META_TYPE_DIR);
	DASSERT(is->child != 0);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__dir_get(m, is->child, &d);
	if (meta__stop(rc, &miss))
		return rc == -ENOENT ? -EIO : rc;
	if (miss)
		return miss;
	in.nlink = 0;
	in.flags = META__INODE_TREE; /* (1) */
	rc = meta__totals_leave(m, is->child, &d);
	if (meta__stop(rc, &miss))
		return rc;
	d.going = true;
	d.ctime_ns = wall_ns;
	rc = meta__inode_put(m, &in);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__dir_put(m, is->child, &d);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__orphan_put(m, &in, 0);
	return rc ? rc : miss;
}

int meta__plan_rmtree(struct meta *m, struct meta_op *op)
{
	struct meta__at at;
	int rc = meta__walk(m, &op->target, 0, false, &at), miss = 0;

	if (rc)
		return rc;
	if (m->ops->who)
		return -EPERM; /* rights would have to be checked in each directory below */
	if (at.last != META__LAST_NAME)
		return -EINVAL; /* ".", ".." and the root */
	if (!at.found)
		return -ENOENT;
	if (at.is.type != META_TYPE_DIR)
		return -ENOTDIR;
	rc = meta__tree_detach(m, &at.is, op->wall_ns);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__name_del(m, &at);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__dir_entry(m, at.dir, -1, -1, op->wall_ns);
	return rc ? rc : miss;
}

/* ---- in the background ----------------------------------------------------------------------- */

/* wall_ns: when the tree was removed; no clock is at hand here. */
static int entry_free(struct meta *m, const struct meta__at *at, int64_t wall_ns)
{
	struct meta__inode in;
	int rc, miss = 0;

	DASSERT(at->found);
	if (at->is.type == META_TYPE_DIR) {
		rc = meta__tree_detach(m, &at->is, wall_ns);
	} else {
		rc = meta__inode_named(m, &at->is, &in);
		if (rc == 0)
			rc = meta__unlink_inode(m, &in, at->dir, wall_ns);
	}
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__name_del(m, at);
	return rc ? rc : miss;
}

int meta__entry_next(struct meta *m, uint64_t dir, struct meta_key *key, struct meta__at *at)
{
	const struct meta_key last = meta__dir_last(dir);
	const void *value;
	uint32_t value_len;
	uint64_t hash;
	int rc;

	DASSERT(dir != 0);
	*at = (struct meta__at){ .dir = dir, .shard = meta__dir_shard(m, dir), .found = true };
	rc = meta__seek(m, at->shard, key, &last, &value, &value_len);
	if (rc)
		return rc;
	if (meta__key_dir(key) != dir)
		return -ENOENT;
	hash = meta__key_hash(key);
	if (meta__key_class(key) == META__CLASS_NAME) {
		at->hash = hash;
		at->name_uniq = meta__key_uniq(key);
		if (meta__name_parse(key, value, value_len, &at->is))
			return meta__bad_record(m, "name", at->shard, key);
		*key = meta__key_next(*key);
		return 1;
	}
	if (meta__key_class(key) > META__CLASS_NAME && hash++ == META__MASK40)
		return -ENOENT;
	*key = meta__key(dir, hash, META__CLASS_NAME, 0, META__KIND_NONE, 0);
	return 0;
}

static bool is_enough(const struct meta *m)
{
	return meta__tx_wanted(m) >= RECORDS_ENOUGH || m->ops->dead.zones >= META__FREE_BUDGET / 2;
}

/* Frees entries from hash *from on, as many as one apply may; `gone` counts them.  *end: no more
 * are left. */
static int entries_free(struct meta *m, uint64_t dir, int64_t wall_ns, uint64_t *from,
			struct meta__dir *gone, bool *end)
{
	struct meta_key key = meta__key(dir, *from, META__CLASS_NAME, 0, META__KIND_NONE, 0);
	struct meta__at at;
	int miss = 0;

	DASSERT(gone->count == 0);
	DASSERT(*from <= META__MASK40);
	for (uint32_t steps = 0; steps < STEPS_MAX && !is_enough(m); steps++) {
		int rc = meta__entry_next(m, dir, &key, &at);

		*end = rc == -ENOENT;
		if (*end)
			return miss;
		if (rc == 1) {
			gone->count++;
			gone->subdirs += at.is.type == META_TYPE_DIR;
			rc = entry_free(m, &at, wall_ns);
		}
		if (meta__stop(rc, &miss))
			return rc;
		if (rc == 0)
			*from = meta__key_hash(&key);
	}
	return miss;
}

/* Entries of one of those that it is: itself, or a fragment. */
static int step_in(struct meta *m, uint64_t dir, struct meta__dir *d, int64_t wall_ns,
		   uint64_t *from, bool *end)
{
	const struct meta_key key = meta__dir_key(dir);
	struct meta__dir gone = { 0 };
	int rc = entries_free(m, dir, wall_ns, from, &gone, end);

	DASSERT(d->going); /* (1) */
	if (rc)
		return rc;
	if (gone.count > d->count || gone.subdirs > d->subdirs ||
	    (*end && gone.count < d->count)) /* (2) */
		return meta__bad_record(m, "directory", meta__dir_shard(m, dir), &key);
	(void)meta__owed_take(m, dir, d);
	d->count -= gone.count;
	d->subdirs -= gone.subdirs;
	m->ops->tree_freed = gone.count;
	return *end || !gone.count ? 0 : meta__dir_put(m, dir, d);
}

static int records_del(struct meta *m, uint64_t dir)
{
	const struct meta_key key = meta__dir_key(dir);
	int rc = meta__totals_del(m, dir), miss = 0;

	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__tx_del(m, meta__dir_shard(m, dir), &key);
	return rc ? rc : miss;
}

/* Marks the fragment GOING, in a step of its own, as the tree is; when it is empty, removes its
 * record from `whole`. */
static int fragment_step(struct meta *m, uint64_t dir, struct meta__dir *whole, uint32_t index,
			 uint64_t *from)
{
	const uint64_t fragment = meta__fragment_at(dir, index);
	struct meta__dir d;
	bool end = false;
	int rc = meta__dir_load(m, fragment, &d), miss = 0;

	DASSERT(index < META__FRAGMENTS); /* (4) */
	DASSERT(whole->going);
	if (rc == -ENOENT) {
		const struct meta_key key = meta__dir_key(fragment);

		return meta__bad_record(m, "directory", meta__dir_shard(m, fragment), &key);
	}
	if (rc)
		return rc;
	if (!d.going) {
		*from = 0;
		rc = meta__totals_leave(m, fragment, &d);
		d.going = true;
		if (meta__stop(rc, &miss))
			return rc;
		rc = meta__dir_put(m, fragment, &d);
		return rc ? rc : miss;
	}
	rc = step_in(m, fragment, &d, whole->ctime_ns, from, &end);
	if (rc || !end)
		return rc;
	*from = 0;
	rc = records_del(m, fragment);
	if (meta__stop(rc, &miss))
		return rc;
	whole->fragments &= ~(1u << index);
	rc = meta__dir_put(m, dir, whole);
	return rc ? rc : miss;
}

int meta__rmtree_step(struct meta *m, struct meta__inode *in, uint64_t *from)
{
	const struct meta_key key = meta__dir_key(in->child);
	struct meta__dir d;
	bool end = false;
	int rc = meta__dir_load(m, in->child, &d), miss = 0;

	DASSERT(in->nlink == 0); /* (1) */
	DASSERT(in->type == META_TYPE_DIR);
	if (rc == -ENOENT || (rc == 0 && !d.going)) /* (1) */
		return meta__bad_record(m, "directory", meta__dir_shard(m, in->child), &key);
	if (rc)
		return rc;
	if (d.fragments)
		return fragment_step(m, in->child, &d, meta__fragment_next(&d, 0), from);
	rc = step_in(m, in->child, &d, d.ctime_ns, from, &end);
	if (rc || !end)
		return rc;
	rc = records_del(m, in->child);
	if (meta__stop(rc, &miss))
		return rc;
	in->flags = 0; /* (1) */
	rc = meta__inode_put(m, in);
	return rc ? rc : miss;
}
