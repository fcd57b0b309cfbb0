/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Put: a whole file at once, under a new name or in place of another file.
 *
 *   PUT         runs, name                         one apply, up to 4 MiB
 *
 *   PUT_BEGIN   hidden inode + ORPHAN record -.
 *   WRITE ...   by handle                     +--> PUT_COMMIT: name, ORPHAN record gone
 *                                             `--> PUT_ABORT, or a mount: freed
 *
 *  (1) Before and after, a name is that of a whole file: the new inode gets the name in the apply
 *      that takes it from the old one
 *      [test_meta_put:a_replaced_file_is_gone_and_its_blocks_are_free].
 *  (2) A hidden file is known by handle only, and has an ORPHAN record with this mount's epoch
 *      [test_meta_put:a_long_put_has_no_name_before_its_commit].
 *  (3) A name's uniquifier is its inode's only if the inode was created with that name.  The
 *      key may be taken later, even by a name of another inode: later names get a new one
 *      [test_meta_rename:there_and_back_again_and_another_in_between].
 *  (4) A replaced file loses this name only; it keeps its other names
 *      [test_meta_link:a_put_at_one_name_leaves_the_file_to_the_others].
 */
#include "meta/plans/meta_plan.h"

/* Finds the place of the file: a free name, or that of a file (`old`: nlink > 0). */
static int put_place(struct meta *m, const struct meta_op *op, struct meta__at *at,
		     struct meta__inode *old)
{
	const bool follow = !(op->flags & (META_NOFOLLOW | META_EXCL)) || op->flags & META_FOLLOW;
	int rc = meta__walk(m, &op->target, 0, follow, at);

	old->nlink = 0;
	if (rc)
		return rc;
	if (op->flags & META_EXCL && at->found)
		return -EEXIST;
	if (at->last != META__LAST_NAME || (at->found && at->is.type == META_TYPE_DIR))
		return -EISDIR;
	if (!at->found && op->flags & META_MUST_EXIST)
		return -ENOENT;
	if (!at->found && at->slash)
		return -EISDIR;
	DASSERT(at->len > 0);
	DASSERT((at->found || !at->slash));
	rc = meta__may_change(m, at);
	if (rc || !at->found)
		return rc;
	return meta__inode_named(m, &at->is, old);
}

int meta__name_give(struct meta *m, struct meta__at *at, const struct meta__inode *in, bool born,
		    struct meta__inode *old, int64_t wall_ns)
{
	const bool here = in->handle.dir == at->dir && in->handle.hash == at->hash;
	int rc, miss = 0;

	DASSERT(at->last == META__LAST_NAME);
	DASSERT(meta__handle_ok(&in->handle));
	if (!at->found) /* (3) */
		at->name_uniq = born && here ? in->handle.uniq : meta__tx_uniq(m, at->shard);
	rc = meta__name_put(m, at, &in->handle, in->child, in->type);
	if (meta__stop(rc, &miss))
		return rc;
	if (at->found && old->type != META_TYPE_DIR) {
		rc = meta__unlink_inode(m, old, at->dir, wall_ns);
		if (meta__stop(rc, &miss))
			return rc;
	}
	return miss;
}

/* A new inode for the place; a replaced file's mode and owners stay where op does not say. */
static void put_inode(struct meta *m, const struct meta_op *op, const struct meta__at *at,
		      const struct meta__inode *old, struct meta__inode *in)
{
	DASSERT(at->last == META__LAST_NAME);
	meta__inode_new(m, op, at, META_TYPE_FILE, 0644, in);
	if (old->nlink == 0 || old->type != META_TYPE_FILE)
		return;
	in->mode = old->mode;
	in->uid = old->uid;
	in->gid = old->gid;
	if (m->ops->who && in->uid != m->ops->who->uid)
		in->mode &= 0777;
	meta__inode_set(in, op);
	meta__born(m, op, at, in);
}

static int put_content(struct meta *m, const struct meta_op *op, struct meta__inode *in)
{
	DASSERT(in->blocks == 0);
	DASSERT(in->inline_len == 0);
	DASSERT(in->tail_len == 0);
	in->size = op->size;
	if (op->flags & META_BY_INLINE) {
		if (op->inline_len != op->size)
			return -EINVAL;
		in->inline_len = op->inline_len;
		in->inline_crc = crc32c_block(op->inline_buf, op->inline_len);
		in->inline_bytes = op->inline_buf;
		return 0;
	}
	if (op->size > (uint64_t)META_IO_BLOCKS_MAX * BLOCK_SIZE ||
	    meta__runs_check(op, div_up(op->size, BLOCK_SIZE)))
		return -EINVAL;
	return meta__write_runs(m, op, in, 0, div_up(op->size, BLOCK_SIZE), true);
}

int meta__plan_put(struct meta *m, struct meta_op *op)
{
	struct meta__inode in, old;
	struct meta__at at;
	int rc = put_place(m, op, &at, &old), miss = 0;

	if (rc)
		return rc;
	put_inode(m, op, &at, &old, &in);
	rc = put_content(m, op, &in);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__inode_put(m, &in);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__name_give(m, &at, &in, true, &old, op->wall_ns);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__dir_entry(m, at.dir, at.found ? 0 : 1, 0, op->wall_ns);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__attr(m, &in, &op->attr);
	return rc ? rc : miss;
}

/* ---- in pieces ------------------------------------------------------------------------------ */

int meta__plan_put_begin(struct meta *m, struct meta_op *op)
{
	struct meta__inode in, old;
	struct meta__at at;
	struct meta__dir d;
	int rc = put_place(m, op, &at, &old), miss = 0;

	if (rc)
		return rc;
	rc = meta__dir_get(m, meta__whole_of(at.dir), &d); /* there is one */
	if (meta__stop(rc, &miss))
		return rc;
	put_inode(m, op, &at, &old, &in);
	in.nlink = 0;
	in.counted = 0;
	in.flags = META__INODE_HIDDEN;
	rc = meta__inode_put(m, &in);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__orphan_put(m, &in, m->epoch); /* (2) */
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__attr(m, &in, &op->attr);
	return rc ? rc : miss;
}

static int hidden_of(struct meta *m, const struct meta_handle *h, struct meta__inode *in)
{
	int rc = meta__handle_ok(h) ? meta__inode_get(m, h, in) : -ESTALE;

	if (rc)
		return rc;
	return in->flags & META__INODE_HIDDEN ? 0 : -EINVAL;
}

int meta__plan_put_commit(struct meta *m, struct meta_op *op)
{
	struct meta__inode in, old;
	struct meta__at at;
	int rc = hidden_of(m, &op->other.handle, &in), miss = 0;

	if (meta__stop(rc, &miss))
		return rc;
	rc = put_place(m, op, &at, &old);
	if (rc || miss)
		return rc ? rc : miss;
	DASSERT(in.nlink == 0); /* (2) */
	in.flags &= ~(uint32_t)META__INODE_HIDDEN;
	in.nlink = 1;
	in.counted = at.dir;
	in.size = max_u64(in.size, min_u64(op->size, META__FILE_BYTES_MAX));
	in.mtime_ns = op->wall_ns;
	meta__ctime_raise(&in, op->wall_ns);
	meta__inode_set(&in, op);
	meta__born(m, op, &at, &in);
	rc = meta__inode_put(m, &in);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__orphan_del(m, &in);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__name_give(m, &at, &in, true, &old, op->wall_ns);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__dir_entry(m, at.dir, at.found ? 0 : 1, 0, op->wall_ns);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__attr(m, &in, &op->attr);
	return rc ? rc : miss;
}

int meta__plan_put_abort(struct meta *m, struct meta_op *op)
{
	struct meta__inode in;
	int rc = hidden_of(m, &op->target.handle, &in);

	return rc ? rc : meta__free_inode(m, &in);
}
