/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Requests that change nothing: lookups, attributes, symlinks' targets, free space; FORGET. */
#include "client-lib/mount/mount.h"

#include "base/clock.h"
#include "base/num.h"

#include <errno.h>
#include <string.h>

/* An appliance that has not answered by then is away.  umount(8) asks for the attributes of the
 * root and for the free space, so these are shown as they were last seen. */
#define ROOT_NS NS_PER_S

int mount_lookup_begin(struct mount_worker *w, struct mount_op *op)
{
	const struct weka_ref ref = mount_ref_in(op->at, op->name[0]);
	int err = mount_ask(w, op, &ref);

	if (!err)
		mount_ahead_begin(w, op);
	return err;
}

int mount_lookup_step(struct mount_worker *w, struct mount_op *op)
{
	int err = mount_asked(op);
	struct fuse_entry_out none = { .entry_valid = w->fs->args.cache_ns / NS_PER_S };

	mount_ahead_keep(w, op, err ? NULL : &op->attr);
	if (err == -ENOENT && w->fs->args.cache_ns > 0) {
		none.entry_valid_nsec = (uint32_t)(w->fs->args.cache_ns % NS_PER_S);
		return mount_reply(w, op, &none,
				   sizeof(none)); /* no inode: the kernel keeps that */
	}
	return err ? err : mount_reply_entry(w, op);
}

int mount_getattr_begin(struct mount_worker *w, struct mount_op *op)
{
	const struct weka_ref ref = mount_ref(op->at);

	if (op->at == w->fs->root)
		op->deadline_ns = min_u64(op->deadline_ns, w->now_ns + ROOT_NS);
	return mount_ask(w, op, &ref);
}

static bool is_away(int err)
{
	return err == -ETIMEDOUT || err == -ENOTCONN || err == -ECONNRESET;
}

int mount_getattr_step(struct mount_worker *w, struct mount_op *op)
{
	int err = mount_asked(op);

	if (op->at == w->fs->root && err == 0)
		w->root_attr = op->attr;
	if (op->at == w->fs->root && is_away(err)) {
		op->attr = w->root_attr;
		err = 0;
	}
	return err ? err : mount_reply_attr(w, op);
}

int mount_readlink_begin(struct mount_worker *w, struct mount_op *op)
{
	int err = mount_lease(w, op, WEKA_BLOCK);

	if (err)
		return err;
	op->ref[0] = mount_ref(op->at);
	return mount_sent(
		op, weka_submit_readlink(w->client, mount_req(w, op), &op->ref[0], &op->window));
}

int mount_readlink_step(struct mount_worker *w, struct mount_op *op)
{
	if (op->req.status)
		return op->req.status;
	return mount_reply(w, op, op->req.data, op->req.length_bytes);
}

int mount_statfs_begin(struct mount_worker *w, struct mount_op *op)
{
	op->deadline_ns = min_u64(op->deadline_ns, w->now_ns + ROOT_NS);
	return mount_sent(op, weka_submit_statfs(w->client, mount_req(w, op), &op->statfs));
}

int mount_statfs_step(struct mount_worker *w, struct mount_op *op)
{
	const struct weka_statfs *s = &op->statfs;
	struct fuse_statfs_out out = { 0 };

	if (is_away(op->req.status))
		op->statfs = w->statfs;
	else if (op->req.status)
		return op->req.status;
	w->statfs = op->statfs;
	out.st = (struct fuse_kstatfs){
		.blocks = s->total_bytes / WEKA_BLOCK,
		.bfree = s->free_bytes / WEKA_BLOCK,
		.bavail = s->free_bytes / WEKA_BLOCK,
		.files = s->files + s->dirs + s->free_bytes / WEKA_BLOCK,
		.ffree = s->free_bytes / WEKA_BLOCK, /* a guess: inodes are not limited */
		.bsize = WEKA_BLOCK,
		.frsize = WEKA_BLOCK,
		.namelen = s->name_max ? s->name_max : WEKA_NAME_MAX,
	};
	return mount_reply(w, op, &out, sizeof(out));
}

/* ---- forgetting ------------------------------------------------------------------------------ */

static void forget(struct mount_fs *fs, uint64_t nodeid, uint64_t lookups)
{
	ASSERT(nodeid != 0);
	if (nodeid != FUSE_ROOT_ID)
		mount_node_forget(&fs->nodes, mount_node_of(fs, nodeid), lookups);
}

int mount_forget_begin(struct mount_worker *w, struct mount_op *op)
{
	const struct fuse_forget_in *in = (const void *)op->args;

	forget(w->fs, mount_head(op)->nodeid, in->nlookup);
	return MOUNT_DONE;
}

int mount_batch_forget_begin(struct mount_worker *w, struct mount_op *op)
{
	const struct fuse_batch_forget_in *in = (const void *)op->args;
	const struct fuse_forget_one *one = (const void *)(op->args + sizeof(*in));

	if ((op->args_bytes - sizeof(*in)) / sizeof(*one) < in->count)
		return -EINVAL;
	for (uint32_t i = 0; i < in->count; i++)
		forget(w->fs, one[i].nodeid, one[i].nlookup);
	return MOUNT_DONE;
}

int mount_destroy_begin(struct mount_worker *w, struct mount_op *op)
{
	return mount_reply(w, op, NULL, 0);
}
