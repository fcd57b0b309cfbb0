/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Directories: made, removed, and counted.
 *
 *   parent's shard                          shard hash(number)
 *   NAME  {parent, hash, n}  child ----.
 *   INODE {parent, hash, n}  child ----+--> DIR {number}: count, times, parent, handle of its inode
 *                                           NAME, INODE ... of its entries
 *
 *  (1) A DIR record exists from mkdir to rmdir: who makes an entry reads it, so that none is made
 *      in a directory that is gone.
 *  (2) Its count is the number of NAME records of the directory.
 *  (3) A number is used once: it carries the shard of the parent that drew it.
 *  (4) One that is GOING (meta_rmtree.c) is for all others as if it were gone.
 */
#include "meta/meta_plan.h"

int meta__dir_load(struct meta *m, uint64_t dir, struct meta__dir *out)
{
	const struct meta_key key = meta__dir_key(dir);
	const uint32_t shard = meta__dir_shard(m, dir);
	const void *value;
	uint32_t value_len;
	int rc = meta__get(m, shard, &key, &value, &value_len);

	if (rc)
		return rc;
	return meta__dir_parse(value, value_len, out)
		       ? meta__bad_record(m, "directory", shard, &key)
		       : 0;
}

int meta__dir_get(struct meta *m, uint64_t dir, struct meta__dir *out)
{
	int rc = meta__dir_load(m, dir, out);

	return rc == 0 && out->going ? -ENOENT : rc;
}

int meta__dir_put(struct meta *m, uint64_t dir, const struct meta__dir *in)
{
	const struct meta_key key = meta__dir_key(dir);
	struct meta_dir_disk d;

	meta__dir_build(in, &d);
	return meta__tx_put(m, meta__dir_shard(m, dir), &key, &d, sizeof(d));
}

int meta__dir_entry(struct meta *m, uint64_t dir, int delta, int64_t wall_ns)
{
	struct meta__dir d;
	int rc = meta__dir_get(m, dir, &d);

	if (rc)
		return rc;
	if (delta < 0 && d.count == 0) {
		const struct meta_key key = meta__dir_key(dir);

		return meta__bad_record(m, "directory", meta__dir_shard(m, dir), &key);
	}
	d.count += (uint64_t)(int64_t)delta;
	d.mtime_ns = wall_ns;
	d.ctime_ns = wall_ns;
	return meta__dir_put(m, dir, &d);
}

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
	meta__inode_new(m, op, &at, META_TYPE_DIR, 0755, &in);
	in.child = meta__tx_dir(m, at.shard);
	at.name_uniq = in.handle.uniq;
	rc = meta__name_put(m, &at, &in.handle, in.child, META_TYPE_DIR);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__inode_put(m, &in);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__dir_entry(m, at.dir, 1, op->wall_ns);
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
int meta__dir_free(struct meta *m, const struct meta__name *is)
{
	const struct meta_key dir_key = meta__dir_key(is->child);
	struct meta__inode in;
	struct meta__dir d;
	int rc = meta__dir_get(m, is->child, &d), miss = 0;

	if (meta__stop(rc, &miss))
		return rc == -ENOENT ? -EIO : rc;
	if (rc == 0 && d.count)
		return -ENOTEMPTY;
	rc = meta__tx_del(m, meta__dir_shard(m, is->child), &dir_key);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__inode_get(m, &is->handle, &in); /* it may have attributes, which go with it */
	if (meta__stop(rc, &miss))
		return rc == -ESTALE ? -EIO : rc;
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
	rc = meta__dir_free(m, &at.is);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__name_del(m, &at);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__dir_entry(m, at.dir, -1, op->wall_ns);
	return rc ? rc : miss;
}

int meta__plan_mkroot(struct meta *m, struct meta_op *op)
{
	const struct meta__inode in = {
		.handle = { META_ROOT_DIR, 0, 0 },
		.shard = meta__dir_shard(m, META_ROOT_DIR),
		.type = META_TYPE_DIR,
		.ino = 1,
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

	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__dir_put(m, META_ROOT_DIR, &d);
	return rc ? rc : miss;
}
