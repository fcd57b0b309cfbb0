/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Inodes: found by handle, made, changed, returned; and symlinks, which have only a text.
 *
 *  (1) An inode stays in the shard of the directory in which it was created, under its handle.
 *  (2) nlink 0, not hidden, and not kept while open (meta_hold.c): the inode counts as freed;
 *      its handle is -ESTALE
 *      [test_meta_orphan:a_large_file_is_gone_at_once_and_freed_step_by_step].
 *  (3) A symlink's text of META_INLINE_MAX bytes or less is in the inode record; a longer one is
 *      in LINK records of META__LINK_PIECE bytes, and inline_len is 0
 *      [test_meta_name:a_long_symlink_s_text_lies_in_records_of_its_own].
 *  (4) A directory's handle gives a user no more access than its path does now: otherwise
 *      everything that is later made below a closed directory would stay open to former visitors.
 *      A file's handle, like a descriptor, survives the closing of its path
 *      [test_weka_posix_access:a_directorys_handle_leads_no_further_than_its_path].
 */
#include "meta/plans/meta_plan.h"

#include <string.h>

int meta__inode_load(struct meta *m, const struct meta_handle *h, struct meta__inode *out)
{
	const struct meta_key key = meta__obj_key(h, META__KIND_INODE, 0);
	const uint32_t shard = meta__dir_shard(m, h->dir);
	const void *value;
	uint32_t value_len;
	int rc;

	DASSERT(h->dir != 0);
	DASSERT(shard < m->nshards);
	out->handle = *h; /* also of one that is not there */
	out->shard = shard;
	rc = meta__get(m, shard, &key, &value, &value_len);
	if (rc)
		return rc;
	if (meta__inode_parse(shard, h, value, value_len, out))
		return meta__bad_record(m, "inode", shard, &key);
	return 0;
}

/* Checks an inode without a name: 0: open in this mount (meta_hold.c), else -ESTALE. */
static int kept(struct meta *m, const struct meta__inode *in)
{
	const struct meta_key key = meta__orphan_key(in->handle.uniq);
	struct meta__orphan o;
	const void *value;
	uint32_t value_len;
	int rc;

	DASSERT(in->nlink == 0);
	if (in->flags & META__INODE_TREE)
		return -ESTALE;
	rc = meta__get(m, in->shard, &key, &value, &value_len);
	if (rc)
		return rc == -ENOENT ? -ESTALE : rc;
	if (meta__orphan_parse(value, value_len, &o))
		return meta__bad_record(m, "orphan", in->shard, &key);
	return o.mount_epoch == m->epoch ? 0 : -ESTALE;
}

int meta__inode_get(struct meta *m, const struct meta_handle *h, struct meta__inode *out)
{
	int rc = meta__inode_load(m, h, out);

	if (rc)
		return rc == -ENOENT ? -ESTALE : rc;
	if (likely(out->nlink > 0) || out->flags & META__INODE_HIDDEN)
		return 0;
	return kept(m, out); /* (2) */
}

int meta__inode_named(struct meta *m, const struct meta__name *is, struct meta__inode *out)
{
	const struct meta_key key = meta__obj_key(&is->handle, META__KIND_INODE, 0);
	int rc = meta__inode_load(m, &is->handle, out);

	if (rc && rc != -ENOENT)
		return rc;
	if (rc || out->nlink == 0 || out->type != is->type || out->child != is->child)
		return meta__bad_record(m, "inode", out->shard, &key);
	DASSERT(meta__handle_eq(&out->handle, &is->handle));
	return 0;
}

int meta__inode_put(struct meta *m, struct meta__inode *in)
{
	const struct meta_key key = meta__obj_key(&in->handle, META__KIND_INODE, 0);
	int rc = meta__owe(m, in, false);

	DASSERT(meta__handle_ok(&in->handle));
	DASSERT(in->shard == meta__dir_shard(m, in->handle.dir)); /* (1) */
	return rc ? rc
		  : meta__tx_put(m, in->shard, &key, m->ops->value,
				 meta__inode_build(in, m->ops->value));
}

void meta__inode_set(struct meta__inode *in, const struct meta_op *op)
{
	if (op->set_mask & META_SET_MODE)
		in->mode = op->set.mode & 07777;
	if (op->set_mask & META_SET_UID)
		in->uid = op->set.uid;
	if (op->set_mask & META_SET_GID)
		in->gid = op->set.gid;
	if (op->set_mask & META_SET_MTIME)
		in->mtime_ns = op->set.mtime_ns;
	if (op->set_mask & META_SET_ATIME)
		in->atime_ns = op->set.atime_ns;
}

void meta__inode_new(struct meta *m, const struct meta_op *op, const struct meta__at *at,
		     enum meta_type type, uint32_t mode, struct meta__inode *out)
{
	const uint64_t uniq = meta__tx_uniq(m, at->shard);

	DASSERT(at->shard == meta__dir_shard(m, at->dir)); /* (1) */
	*out = (struct meta__inode){
		.handle = { at->dir, at->hash, uniq },
		.shard = at->shard,
		.type = type,
		.mtime_ns = op->wall_ns,
		.ctime_ns = op->wall_ns,
		.atime_ns = op->wall_ns,
		.mode = mode,
		.nlink = 1,
		.counted = type == META_TYPE_DIR ? 0 : at->dir,
	};
	meta__inode_set(out, op);
	meta__born(m, op, at, out);
	DASSERT(meta__handle_ok(&out->handle));
	DASSERT(!(out->mode & ~07777u));
}

/* (4) */
static int by_handle(struct meta *m, const struct meta_target *t, struct meta__inode *out)
{
	int rc = meta__handle_ok(&t->handle) ? meta__inode_get(m, &t->handle, out) : -ESTALE;

	DASSERT(!t->path);
	if (rc || likely(!m->ops->who) || out->type != META_TYPE_DIR)
		return rc;
	rc = meta__climb(m, out->child, t->root ? t->root : META_ROOT_DIR);
	return rc == -ENOENT ? -ESTALE : rc;
}

int meta__resolve(struct meta *m, const struct meta_target *t, bool follow, struct meta__inode *out)
{
	struct meta__at at;
	int rc;

	if (!t->path)
		return by_handle(m, t, out);
	rc = meta__walk(m, t, 0, follow, &at);
	if (rc)
		return rc;
	if (!at.found)
		return -ENOENT;
	rc = meta__inode_get(m, &at.is.handle, out);
	if (rc == -ESTALE) {
		const struct meta_key key = meta__obj_key(&at.is.handle, META__KIND_INODE, 0);

		return meta__bad_record(m, "inode", out->shard, &key); /* of a name: it is there */
	}
	return rc;
}

int meta__attr(struct meta *m, const struct meta__inode *in, struct meta_attr *out)
{
	struct meta__dir d;
	int rc;

	DASSERT(meta__handle_ok(&in->handle));
	*out = (struct meta_attr){
		.handle = in->handle,
		.ino = meta__inode_ino(in->shard, &in->handle),
		.dir = in->child,
		.type = in->type,
		.mode = in->mode,
		.uid = in->uid,
		.gid = in->gid,
		.nlink = in->nlink,
		.xattrs = in->xattrs,
		.size = in->size,
		.blocks = in->blocks,
		.mtime_ns = in->mtime_ns,
		.ctime_ns = in->ctime_ns,
		.atime_ns = in->atime_ns,
	};
	if (in->type != META_TYPE_DIR)
		return 0;
	rc = meta__dir_whole(m, in->child, &d);
	if (rc == -ENOENT) { /* they come and go together */
		const struct meta_key key = meta__dir_key(in->child);

		return meta__bad_record(m, "directory", meta__dir_shard(m, in->child), &key);
	}
	if (unlikely(rc == -EIO && meta__tx_was_away(m)))
		return 0; /* its record is on a missing drive: its entries are not counted */
	if (rc)
		return rc;
	out->size = d.count;
	out->nlink = d.subdirs <= META_LINKS_MAX - 2 ? (uint32_t)d.subdirs + 2 : 1;
	out->mtime_ns = d.mtime_ns;
	if (d.ctime_ns > out->ctime_ns)
		out->ctime_ns = d.ctime_ns;
	return 0;
}

int meta__plan_stat(struct meta *m, struct meta_op *op)
{
	struct meta__inode in;
	int rc = meta__resolve(m, &op->target, !(op->flags & META_NOFOLLOW), &in);

	if (!rc && op->flags & META_TO_WRITE && in.type == META_TYPE_FILE)
		rc = meta__may_use(m, op, &in, META__MAY_W);
	if (!rc)
		rc = meta__may_hold(m, op, &in);
	return rc ? rc : meta__attr(m, &in, &op->attr);
}

/* A directory's mtime is in its own record, which setattr must reach too. */
static int set_dir_mtime(struct meta *m, const struct meta__inode *in)
{
	struct meta__dir d;
	int rc = meta__dir_get(m, in->child, &d);

	DASSERT(in->type == META_TYPE_DIR);
	if (rc)
		return rc;
	d.mtime_ns = in->mtime_ns;
	d.mtime_set = d.spread;
	d.resets += d.spread;
	return meta__dir_put(m, in->child, &d);
}

int meta__plan_setattr(struct meta *m, struct meta_op *op)
{
	struct meta__inode in;
	int rc = meta__resolve(m, &op->target, !(op->flags & META_NOFOLLOW), &in);
	int miss = 0;

	if (rc)
		return rc;
	if (in.flags & META__INODE_HIDDEN)
		return -EINVAL; /* its commit sets the attributes given at begin */
	rc = meta__may_set(m, op, &in);
	if (rc)
		return rc;
	meta__inode_set(&in, op);
	meta__was_set(m, op, &in);
	meta__ctime_raise(&in, op->wall_ns);
	rc = meta__inode_put(m, &in);
	if (meta__stop(rc, &miss))
		return rc;
	if (in.type == META_TYPE_DIR && op->set_mask & META_SET_MTIME) {
		rc = set_dir_mtime(m, &in);
		if (meta__stop(rc, &miss))
			return rc;
	}
	rc = meta__attr(m, &in, &op->attr);
	return rc ? rc : miss;
}

/* ---- symlinks ---------------------------------------------------------------------------- */

int meta__link_text(struct meta *m, const struct meta__inode *in, char *text)
{
	int miss = 0;

	DASSERT(in->size <= META_PATH_MAX); /* (3) */
	DASSERT(in->inline_len <= META_INLINE_MAX);
	if (in->inline_len) {
		memcpy(text, in->inline_bytes, in->inline_len); /* all of it: (3) */
		return in->inline_len == in->size ? 0 : -EIO;
	}
	for (uint64_t at = 0; at < in->size; at += META__LINK_PIECE) {
		const struct meta_key key =
			meta__obj_key(&in->handle, META__KIND_LINK, at / META__LINK_PIECE);
		const uint64_t piece = min_u64(in->size - at, META__LINK_PIECE);
		const void *value;
		uint32_t value_len;
		int rc = meta__get(m, in->shard, &key, &value, &value_len);

		if (rc == -ENOENT || (rc == 0 && value_len != piece))
			return meta__bad_record(m, "symlink", in->shard, &key);
		if (meta__stop(rc, &miss))
			return rc;
		if (rc == 0)
			memcpy(text + at, value, piece);
	}
	return miss;
}

int meta__plan_readlink(struct meta *m, struct meta_op *op)
{
	struct meta__inode in;
	int rc = meta__resolve(m, &op->target, false, &in);

	if (rc)
		return rc;
	if (in.type != META_TYPE_SYMLINK)
		return -EINVAL;
	if (in.size > META_PATH_MAX)
		return -EIO;
	rc = meta__link_text(m, &in, op->inline_buf);
	if (rc)
		return rc;
	((char *)op->inline_buf)[in.size] = 0;
	op->length = in.size;
	return meta__attr(m, &in, &op->attr);
}

static int link_pieces_put(struct meta *m, const struct meta__inode *in, const char *text)
{
	int miss = 0;

	DASSERT(in->size > META_INLINE_MAX); /* (3) */
	DASSERT(in->size <= META_PATH_MAX);
	for (uint64_t at = 0; at < in->size; at += META__LINK_PIECE) {
		const struct meta_key key =
			meta__obj_key(&in->handle, META__KIND_LINK, at / META__LINK_PIECE);
		int rc = meta__tx_put(m, in->shard, &key, text + at,
				      (uint32_t)min_u64(in->size - at, META__LINK_PIECE));

		if (meta__stop(rc, &miss))
			return rc;
	}
	return miss;
}

/* Finds the place of a new symlink; -EEXIST for any existing name, including "." and "..". */
static int symlink_place(struct meta *m, const struct meta_op *op, struct meta__at *at)
{
	int rc;

	if (op->length == 0)
		return -ENOENT;
	if (op->length > META_PATH_MAX)
		return -ENAMETOOLONG;
	if (memchr(op->inline_buf, 0, op->length))
		return -EINVAL;
	DASSERT(op->inline_buf);
	rc = meta__walk(m, &op->target, 0, false, at);
	if (rc)
		return rc;
	if (at->found)
		return -EEXIST;
	return at->slash ? -ENOENT : meta__may_change(m, at);
}

int meta__plan_symlink(struct meta *m, struct meta_op *op)
{
	struct meta__inode in;
	struct meta__at at;
	int rc = symlink_place(m, op, &at), miss = 0;

	if (rc)
		return rc;
	meta__inode_new(m, op, &at, META_TYPE_SYMLINK, 0777, &in);
	in.size = op->length;
	if (op->length <= META_INLINE_MAX) {
		in.inline_len = (uint32_t)op->length;
		in.inline_bytes = op->inline_buf;
		in.inline_crc = crc32c_block(op->inline_buf, in.inline_len);
	} else {
		rc = link_pieces_put(m, &in, op->inline_buf);
		if (meta__stop(rc, &miss))
			return rc;
	}
	at.name_uniq = in.handle.uniq;
	rc = meta__name_put(m, &at, &in.handle, 0, META_TYPE_SYMLINK);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__inode_put(m, &in);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__dir_entry(m, at.dir, 1, 0, op->wall_ns);
	if (meta__stop(rc, &miss))
		return rc;
	rc = meta__attr(m, &in, &op->attr);
	return rc ? rc : miss;
}
