/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Names that go, names that move, and names that are one more.
 *
 *   unlink    NAME a --del; INODE of a: one link less, freed or an orphan with the last
 *   link      NAME b --put, value of a; INODE of a: one link more
 *   rename    NAME a --del        NAME b --put, value of a; the key b had, if there was a b
 *             INODE of a          where it was born it stays: its ctime only
 *             INODE of b          one link less; freed, or an orphan
 *             DIR of a, DIR of b  counts and times
 *
 *  (1) All of it is one transaction: after a cut a file has the one name or the other.
 *  (2) Directories move within their parent only: that needs no search for cycles.
 *  (3) An inode's nlink is the number of NAME records with its handle, in whatever shards.  They
 *      change together, in one record of the log.
 */
#include "meta/meta_plan.h"

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
	rc = meta__inode_get(m, &at.is.handle, &in);
	if (meta__stop(rc, &miss))
		return rc == -ESTALE ? -EIO : rc;
	if (rc == 0)
		rc = meta__unlink_inode(m, &in, op->wall_ns);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__name_del(m, &at);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__dir_entry(m, at.dir, -1, op->wall_ns);
	return rc ? rc : miss;
}

/* ---- rename ---------------------------------------------------------------------------- */

/* May a take the place of b, by what is known of both names?  1: they are one file, done. */
static int rename_check(const struct meta_op *op, const struct meta__at *a,
			const struct meta__at *b)
{
	const bool a_dir = a->is.type == META_TYPE_DIR;

	if (!b->found)
		return b->slash && !a_dir ? -ENOTDIR : a_dir && a->dir != b->dir ? -EXDEV : 0;
	if (op->flags & META_EXCL)
		return -EEXIST;
	if (meta__handle_eq(&a->is.handle, &b->is.handle))
		return 1;
	if (a_dir != (b->is.type == META_TYPE_DIR))
		return a_dir ? -ENOTDIR : -EISDIR;
	return a_dir && a->dir != b->dir ? -EXDEV : 0;
}

static int rename_dirs(struct meta *m, const struct meta_op *op, const struct meta__at *a,
		       const struct meta__at *b)
{
	int rc, miss = 0;

	if (a->dir == b->dir)
		return meta__dir_entry(m, a->dir, b->found ? -1 : 0, op->wall_ns);
	rc = meta__dir_entry(m, a->dir, -1, op->wall_ns);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__dir_entry(m, b->dir, b->found ? 0 : 1, op->wall_ns);
	return rc ? rc : miss;
}

/* What b was: an empty directory goes here, a file in meta__name_give(). */
static int rename_old(struct meta *m, const struct meta__at *b, struct meta__inode *old)
{
	int rc;

	if (!b->found)
		return 0;
	rc = meta__inode_get(m, &b->is.handle, old);
	if (rc)
		return rc == -ESTALE ? -EIO : rc;
	return b->is.type == META_TYPE_DIR ? meta__dir_free(m, &b->is) : 0;
}

static int rename_move(struct meta *m, const struct meta_op *op, struct meta__at *a,
		       struct meta__at *b)
{
	struct meta__inode in, old = { 0 };
	int rc = meta__inode_get(m, &a->is.handle, &in), miss = 0;

	if (meta__stop(rc, &miss))
		return rc == -ESTALE ? -EIO : rc;
	rc = rename_old(m, b, &old);
	if (meta__stop(rc, &miss))
		return rc;
	rc = rename_dirs(m, op, a, b);
	if (meta__stop(rc, &miss))
		return rc;
	if (miss)
		return miss; /* the rest needs both inodes */
	in.ctime_ns = op->wall_ns;
	rc = meta__inode_put(m, &in);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__name_del(m, a);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__name_give(m, b, &in, false, &old, op->wall_ns);
	return rc ? rc : miss;
}

int meta__plan_rename(struct meta *m, struct meta_op *op)
{
	struct meta__at a, b;
	int rc = meta__walk(m, &op->target, 0, false, &a), miss = 0;

	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__walk(m, &op->other, 1, false, &b);
	if (rc || miss)
		return rc ? rc : miss;
	if (a.last != META__LAST_NAME || b.last != META__LAST_NAME)
		return -EINVAL;
	if (!a.found)
		return -ENOENT;
	rc = rename_check(op, &a, &b);
	if (rc)
		return rc < 0 ? rc : 0;
	return rename_move(m, op, &a, &b);
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

int meta__plan_link(struct meta *m, struct meta_op *op)
{
	struct meta__inode in;
	struct meta__at a, b;
	int rc = meta__walk(m, &op->target, 0, !(op->flags & META_NOFOLLOW), &a), miss = 0;

	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__walk(m, &op->other, 1, false, &b);
	if (rc || miss)
		return rc ? rc : miss;
	rc = link_check(&a, &b);
	if (rc)
		return rc;
	rc = meta__dir_entry(m, b.dir, 1, op->wall_ns);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__inode_get(m, &a.is.handle, &in);
	if (rc || miss)
		return rc == -ESTALE ? -EIO : rc ? rc : miss;
	if (in.nlink >= META_LINKS_MAX)
		return -EMLINK;
	in.nlink++; /* (3) */
	in.ctime_ns = op->wall_ns;
	rc = meta__inode_put(m, &in);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__name_give(m, &b, &in, false, NULL, op->wall_ns);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__attr(m, &in, &op->attr);
	return rc ? rc : miss;
}
