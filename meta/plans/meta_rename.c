/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Removing, moving and adding names.
 *
 *   unlink    NAME a --del; INODE of a: one link less, freed or an orphan with the last
 *   link      NAME b --put, value of a; INODE of a: one link more
 *   rename    NAME a --del        NAME b --put, value of a; the key of an existing b is kept
 *             INODE of a          stays where it was created: only its ctime changes
 *             INODE of b          one link less; freed, or an orphan
 *             DIR of a, DIR of b  counts, of names and of directories, and times
 *             DIR {child of a}    a directory that moves: its parent
 *   exchange  NAME a, NAME b --put, each with the other's value; inodes and DIRs as above
 *
 *  (1) All of it is one transaction: after a cut a file has the one name or the other
 *      [test_meta_power:store_is_what_was_acknowledged_after_every_cut].
 *  (2) Directories are a tree.  A directory must not move below itself: the parents of its new
 *      place must lead to the root without it.  Plan and apply are one turn, so none of them can
 *      move in between.
 *  (3) An inode's nlink is the number of NAME records with its handle, in whatever shards.  They
 *      change together, in one record of the log
 *      [test_meta_link:only_the_last_of_its_names_frees_it].
 */
#include "meta/plans/meta_plan.h"

int meta__plan_unlink(struct meta *m, struct meta_op *op)
{
	struct meta__inode in;
	struct meta__at at;
	int rc = meta__walk(m, &op->target, 0, false, &at), miss = 0;

	if (rc)
		return rc;
	if (!at.found)
		return -ENOENT;
	if (at.is.type == META_TYPE_DIR)
		return -EISDIR;
	rc = meta__may_change(m, &at);
	if (rc)
		return rc;
	rc = meta__inode_named(m, &at.is, &in);
	if (meta__stop(rc, &miss))
		return rc;
	if (rc == 0)
		rc = meta__unlink_inode(m, &in, at.dir, op->wall_ns);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__name_del(m, &at);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__dir_entry(m, at.dir, -1, 0, op->wall_ns);
	return rc ? rc : miss;
}

/* ---- rename ---------------------------------------------------------------------------- */

static bool is_dir(const struct meta__at *at)
{
	return at->is.type == META_TYPE_DIR;
}

/* Checks by both names whether a may replace b.  1: they are one file, done. */
static int rename_check(const struct meta_op *op, const struct meta__at *a,
			const struct meta__at *b)
{
	if (!a->found)
		return -ENOENT;
	if (!b->found && op->flags & META_EXCHANGE)
		return -ENOENT;
	if (!b->found)
		return b->slash && !is_dir(a) ? -ENOTDIR : 0;
	if (op->flags & META_EXCL)
		return -EEXIST;
	if (meta__handle_eq(&a->is.handle, &b->is.handle))
		return 1;
	if (is_dir(a) == is_dir(b) || op->flags & META_EXCHANGE)
		return 0;
	return is_dir(a) ? -ENOTDIR : -EISDIR;
}

static int may_rename(struct meta *m, const struct meta_op *op, struct meta__at *a,
		      struct meta__at *b)
{
	int rc = meta__may_change(m, a);

	DASSERT(a->found);
	if (!rc)
		rc = meta__may_change(m, b);
	if (!rc)
		rc = meta__may_move(m, a, b->dir);
	if (!rc && op->flags & META_EXCHANGE)
		rc = meta__may_move(m, b, a->dir);
	return rc;
}

/* Checks that directory `to` is not `at`'s directory, or below it: (2). */
static int no_cycle(struct meta *m, const struct meta__at *at, uint64_t to)
{
	DASSERT(at->found);
	DASSERT(to != 0);
	to = meta__whole_of(to);
	if (!is_dir(at) || meta__whole_of(at->dir) == to)
		return 0;
	for (uint32_t depth = 0; to != at->is.child; depth++) {
		struct meta__dir d;
		int rc;

		if (to == META_ROOT_DIR)
			return 0;
		if (depth == META__DEPTH_MAX)
			return -ELOOP;
		rc = meta__dir_get(m, to, &d);
		if (rc)
			return rc;
		to = meta__whole_of(d.parent);
	}
	return -EINVAL;
}

/* The directory that `at` names has another parent now. */
static int parent_set(struct meta *m, const struct meta__at *at, uint64_t parent)
{
	struct meta__dir d;
	int rc;

	DASSERT(at->found);
	DASSERT(parent != 0);
	if (!is_dir(at) || at->dir == parent)
		return 0;
	rc = meta__dir_get(m, at->is.child, &d);
	if (rc)
		return rc == -ENOENT ? -EIO : rc; /* a name's directory is there */
	ASSERT(at->is.child != parent);           /* (2) */
	d.parent = parent;
	rc = meta__dir_put(m, at->is.child, &d);
	return rc ? rc : meta__totals_moved(m, at->is.child, at->dir, parent);
}

/* Names left a's directory and arrived in b's, or were replaced. */
static int rename_dirs(struct meta *m, const struct meta_op *op, const struct meta__at *a,
		       const struct meta__at *b)
{
	const bool swap = op->flags & META_EXCHANGE;
	const int came = is_dir(a), was = b->found && is_dir(b);
	int rc, miss = 0;

	DASSERT(a->found);
	if (a->dir == b->dir)
		return meta__dir_entry(m, a->dir, b->found && !swap ? -1 : 0, swap ? 0 : -was,
				       op->wall_ns);
	rc = meta__dir_entry(m, a->dir, swap ? 0 : -1, swap ? was - came : -came, op->wall_ns);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__dir_entry(m, b->dir, b->found ? 0 : 1, came - was, op->wall_ns);
	return rc ? rc : miss;
}

static int inode_moved(struct meta *m, const struct meta_op *op, struct meta__inode *in,
		       uint64_t from, uint64_t to)
{
	int rc = meta__links_moved(m, in, from, to), miss = 0;

	DASSERT(in->nlink > 0); /* (3) */
	if (meta__stop(rc, &miss))
		return rc;
	meta__ctime_raise(in, op->wall_ns);
	rc = meta__inode_put(m, in);
	return rc ? rc : miss;
}

/* Removes the old b: an empty directory here, a file in meta__name_give(). */
static int rename_old(struct meta *m, const struct meta__at *b, struct meta__inode *old,
		      int64_t wall_ns)
{
	int rc = b->found ? meta__inode_named(m, &b->is, old) : 0;

	return rc || !b->found || !is_dir(b) ? rc : meta__dir_free(m, &b->is, wall_ns);
}

static int rename_move(struct meta *m, const struct meta_op *op, struct meta__at *a,
		       struct meta__at *b)
{
	struct meta__inode in, old = { 0 };
	int rc = meta__inode_named(m, &a->is, &in), miss = 0;

	DASSERT(!b->found || is_dir(a) == is_dir(b));
	if (meta__stop(rc, &miss))
		return rc;
	rc = rename_old(m, b, &old, op->wall_ns);
	if (meta__stop(rc, &miss))
		return rc;
	rc = rename_dirs(m, op, a, b);
	if (meta__stop(rc, &miss))
		return rc;
	rc = parent_set(m, a, b->dir);
	if (rc || miss)
		return rc ? rc : miss; /* the rest needs both inodes */
	rc = inode_moved(m, op, &in, a->dir, b->dir);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__name_del(m, a);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__name_give(m, b, &in, false, &old, op->wall_ns);
	return rc ? rc : miss;
}

/* Both keep their keys and get each other's value. */
static int rename_swap(struct meta *m, const struct meta_op *op, const struct meta__at *a,
		       const struct meta__at *b)
{
	struct meta__inode in[2];
	int rc = meta__inode_named(m, &a->is, &in[0]), miss = 0;

	DASSERT(a->found);
	DASSERT(b->found);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__inode_named(m, &b->is, &in[1]);
	if (meta__stop(rc, &miss))
		return rc;
	rc = rename_dirs(m, op, a, b);
	if (meta__stop(rc, &miss))
		return rc;
	rc = parent_set(m, a, b->dir);
	if (meta__stop(rc, &miss))
		return rc;
	rc = parent_set(m, b, a->dir);
	if (rc || miss)
		return rc ? rc : miss;
	for (uint32_t i = 0; i < 2; i++) {
		const struct meta__at *from = i ? b : a;
		const struct meta__at *to = i ? a : b;

		rc = inode_moved(m, op, &in[i], from->dir, to->dir);
		if (meta__stop(rc, &miss))
			return rc;
		rc = meta__name_put(m, to, &in[i].handle, in[i].child, in[i].type);
		if (meta__stop(rc, &miss))
			return rc;
	}
	return miss;
}

int meta__plan_rename(struct meta *m, struct meta_op *op)
{
	const bool swap = op->flags & META_EXCHANGE;
	struct meta__at a, b;
	int rc = meta__walk(m, &op->target, 0, false, &a), miss = 0;

	if (swap && op->flags & META_EXCL)
		return -EINVAL;
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__walk(m, &op->other, 1, false, &b);
	if (rc || miss)
		return rc ? rc : miss;
	if (a.last != META__LAST_NAME || b.last != META__LAST_NAME)
		return -EINVAL; /* of the root, too */
	rc = rename_check(op, &a, &b);
	if (rc)
		return rc < 0 ? rc : 0;
	rc = may_rename(m, op, &a, &b);
	if (rc)
		return rc;
	rc = no_cycle(m, &a, b.dir);
	if (meta__stop(rc, &miss))
		return rc;
	if (swap)
		rc = no_cycle(m, &b, a.dir);
	if (rc || miss)
		return rc ? rc : miss;
	return swap ? rename_swap(m, op, &a, &b) : rename_move(m, op, &a, &b);
}

/* ---- link ------------------------------------------------------------------------------ */

/* Both places as they must be; EEXIST before EPERM, as everywhere. */
static int link_check(const struct meta__at *a, const struct meta__at *b)
{
	if (!a->found)
		return -ENOENT;
	if (b->found)
		return -EEXIST;
	if (a->is.type == META_TYPE_DIR)
		return -EPERM;
	return b->slash ? -ENOENT : 0;
}

/* Finds the file that gets another name.  By its handle it may be open without any: -ENOENT. */
static int link_from(struct meta *m, const struct meta_op *op, struct meta__at *a)
{
	struct meta__inode in;
	int rc;

	if (op->target.path)
		return meta__walk(m, &op->target, 0, !(op->flags & META_NOFOLLOW), a);
	rc = meta__resolve(m, &op->target, false, &in);
	if (rc)
		return rc;
	if (in.flags & META__INODE_HIDDEN)
		return -EINVAL; /* its commit gives it a name */
	DASSERT(!op->target.path);
	*a = (struct meta__at){ .found = in.nlink > 0 };
	a->is.handle = in.handle;
	a->is.type = in.type;
	a->is.child = in.child;
	return 0;
}

int meta__plan_link(struct meta *m, struct meta_op *op)
{
	struct meta__inode in;
	struct meta__at a, b;
	int rc = link_from(m, op, &a), miss = 0;

	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__walk(m, &op->other, 1, false, &b);
	if (rc || miss)
		return rc ? rc : miss;
	rc = link_check(&a, &b);
	if (!rc)
		rc = meta__may_change(m, &b);
	if (rc)
		return rc;
	rc = meta__dir_entry(m, b.dir, 1, 0, op->wall_ns);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__inode_named(m, &a.is, &in);
	if (rc || miss)
		return rc ? rc : miss;
	if (in.nlink >= META_LINKS_MAX)
		return -EMLINK;
	DASSERT(in.type != META_TYPE_DIR);
	DASSERT(!b.found);
	rc = meta__links_more(m, &in, b.dir); /* (3) */
	if (meta__stop(rc, &miss))
		return rc;
	meta__ctime_raise(&in, op->wall_ns);
	rc = meta__inode_put(m, &in);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__name_give(m, &b, &in, false, NULL, op->wall_ns);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__attr(m, &in, &op->attr);
	return rc ? rc : miss;
}
