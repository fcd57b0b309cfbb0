/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Makes and removes directories: mkdir, rmdir, and the root, once.  meta_dir.c has the drawing;
 * meta_rmtree.c removes one with everything in it.
 */
#include "meta/plans/meta_plan.h"

int meta__plan_mkdir(struct meta *m, struct meta_op *op)
{
	struct meta__dir d = { .mtime_ns = op->wall_ns, .ctime_ns = op->wall_ns };
	struct meta__inode in;
	struct meta__at at;
	int rc = meta__walk(m, &op->target, 0, false, &at), miss = 0;

	if (rc)
		return rc;
	if (at.found)
		return -EEXIST;
	rc = meta__may_change(m, &at);
	if (rc)
		return rc;
	meta__inode_new(m, op, &at, META_TYPE_DIR, 0755, &in);
	in.child = meta__tx_dir(m, at.shard);
	if (meta__is_fragment(in.child))
		return -ENOSPC;            /* the shard has given 2^35 of them: there are no more */
	DASSERT(in.child > META_ROOT_DIR); /* meta_dir.c (3) */
	DASSERT(in.child <= META__MASK48);
	at.name_uniq = in.handle.uniq;
	rc = meta__name_put(m, &at, &in.handle, in.child, META_TYPE_DIR);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__inode_put(m, &in);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__dir_entry(m, at.dir, 1, 1, op->wall_ns);
	if (meta__stop(rc, &miss))
		return rc;
	d.inode = in.handle;
	d.parent = at.dir;
	if (op->set_mask & META_SET_MTIME)
		d.mtime_ns = in.mtime_ns;
	rc = meta__dir_put(m, in.child, &d);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__attr(m, &in, &op->attr);
	return rc ? rc : miss;
}

/* An empty directory's record and inode go; its name is the caller's.  -ENOTEMPTY. */
int meta__dir_free(struct meta *m, const struct meta__name *is, int64_t wall_ns)
{
	const struct meta_key dir_key = meta__dir_key(is->child);
	struct meta__inode in;
	struct meta__dir d;
	int rc = meta__dir_whole(m, is->child, &d), miss = 0;

	DASSERT(is->type == META_TYPE_DIR);
	DASSERT(is->child != 0);
	if (meta__stop(rc, &miss))
		return rc == -ENOENT ? -EIO : rc;
	if (rc == 0 && d.count)
		return -ENOTEMPTY;
	if (rc == 0 && d.fragments)
		return meta__tree_detach(m, is, wall_ns);
	if (rc == 0)
		rc = meta__totals_leave(m, is->child, &d);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__totals_del(m, is->child);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__tx_del(m, meta__dir_shard(m, is->child), &dir_key);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__inode_named(m, is, &in); /* it may have attributes, which go with it */
	if (meta__stop(rc, &miss))
		return rc;
	if (rc == 0)
		rc = meta__free_inode(m, &in);
	return rc ? rc : miss;
}

int meta__plan_rmdir(struct meta *m, struct meta_op *op)
{
	struct meta__at at;
	int rc = meta__walk(m, &op->target, 0, false, &at), miss = 0;

	if (rc)
		return rc;
	if (at.last == META__LAST_DOTDOT)
		return -ENOTEMPTY;
	if (at.last != META__LAST_NAME)
		return -EINVAL; /* "." and the root */
	if (!at.found)
		return -ENOENT;
	if (at.is.type != META_TYPE_DIR)
		return -ENOTDIR;
	rc = meta__may_change(m, &at);
	if (rc)
		return rc;
	rc = meta__dir_free(m, &at.is, op->wall_ns);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__name_del(m, &at);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__dir_entry(m, at.dir, -1, -1, op->wall_ns);
	return rc ? rc : miss;
}

int meta__plan_mkroot(struct meta *m, struct meta_op *op)
{
	struct meta__inode in = {
		.handle = { META_ROOT_DIR, 0, 0 },
		.shard = meta__dir_shard(m, META_ROOT_DIR),
		.type = META_TYPE_DIR,
		.child = META_ROOT_DIR,
		.mtime_ns = op->wall_ns,
		.ctime_ns = op->wall_ns,
		.atime_ns = op->wall_ns,
		.mode = 0755,
		.nlink = 1,
	};
	const struct meta__dir d = {
		.mtime_ns = op->wall_ns,
		.ctime_ns = op->wall_ns,
		.inode = in.handle,
		.parent = META_ROOT_DIR,
	};
	int rc = meta__inode_put(m, &in), miss = 0;

	ASSERT(!m->home);
	ASSERT(in.shard < m->nshards);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__dir_put(m, META_ROOT_DIR, &d);
	return rc ? rc : miss;
}
