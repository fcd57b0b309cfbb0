/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Requests that make, move and remove names.  Each is one request to the appliance, but for a link,
 * which then asks for the attributes. */
#include "client-lib/mount/mount.h"

#include <errno.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/stat.h>

static int plain_step(struct mount_worker *w, struct mount_op *op)
{
	return op->req.status ? op->req.status : mount_reply(w, op, NULL, 0);
}

int mount_mkdir_begin(struct mount_worker *w, struct mount_op *op)
{
	const struct fuse_mkdir_in *in = (const void *)op->args;

	mount_owner(op, in->mode | S_IFDIR, &op->create);
	op->ref[0] = mount_ref_in(op->at, op->name[0]);
	return mount_sent(op, weka_submit_mkdir(w->client, mount_req(w, op), &op->ref[0],
						&op->create, &op->attr));
}

int mount_mkdir_step(struct mount_worker *w, struct mount_op *op)
{
	return op->req.status ? op->req.status : mount_reply_entry(w, op);
}

int mount_symlink_begin(struct mount_worker *w, struct mount_op *op)
{
	mount_owner(op, 0777, &op->create);
	op->ref[0] = mount_ref_in(op->at, op->name[0]);
	return mount_sent(op, weka_submit_symlink(w->client, mount_req(w, op), &op->ref[0],
						  op->name[1], &op->create, &op->attr));
}

int mount_symlink_step(struct mount_worker *w, struct mount_op *op)
{
	return mount_mkdir_step(w, op);
}

/* ---- links ----------------------------------------------------------------------------------- */

enum { LINKS = 1, ASKS };

int mount_link_begin(struct mount_worker *w, struct mount_op *op)
{
	const struct fuse_link_in *in = (const void *)op->args;

	op->ref[0] = mount_ref(mount_node_of(w->fs, in->oldnodeid));
	op->ref[0].flags = WEKA_NOFOLLOW;
	op->ref[1] = mount_ref_in(op->at, op->name[0]);
	op->doing = LINKS;
	return mount_sent(op,
			  weka_submit_link(w->client, mount_req(w, op), &op->ref[0], &op->ref[1]));
}

int mount_link_step(struct mount_worker *w, struct mount_op *op)
{
	int err = op->doing == LINKS ? op->req.status : mount_asked(op);

	if (err)
		return err;
	if (op->doing == ASKS)
		return mount_reply_entry(w, op);
	err = mount_ask(w, op, &op->ref[0]);
	if (!err)
		op->doing = ASKS;
	return err;
}

/* ---- removed, moved -------------------------------------------------------------------------- */

int mount_unlink_begin(struct mount_worker *w, struct mount_op *op)
{
	op->ref[0] = mount_ref_in(op->at, op->name[0]);
	return mount_sent(op, weka_submit_unlink(w->client, mount_req(w, op), &op->ref[0]));
}

int mount_unlink_step(struct mount_worker *w, struct mount_op *op)
{
	return plain_step(w, op);
}

int mount_rmdir_begin(struct mount_worker *w, struct mount_op *op)
{
	op->ref[0] = mount_ref_in(op->at, op->name[0]);
	return mount_sent(op, weka_submit_rmdir(w->client, mount_req(w, op), &op->ref[0]));
}

int mount_rmdir_step(struct mount_worker *w, struct mount_op *op)
{
	return plain_step(w, op);
}

static int rename_to(struct mount_worker *w, struct mount_op *op, uint64_t nodeid, uint32_t flags)
{
	op->ref[0] = mount_ref_in(op->at, op->name[0]);
	op->ref[1] = mount_ref_in(mount_node_of(w->fs, nodeid), op->name[1]);
	return mount_sent(op, weka_submit_rename(w->client, mount_req(w, op), &op->ref[0],
						 &op->ref[1], flags));
}

int mount_rename_begin(struct mount_worker *w, struct mount_op *op)
{
	const struct fuse_rename_in *in = (const void *)op->args;

	return rename_to(w, op, in->newdir, 0);
}

int mount_rename_step(struct mount_worker *w, struct mount_op *op)
{
	return plain_step(w, op);
}

int mount_rename2_begin(struct mount_worker *w, struct mount_op *op)
{
	const struct fuse_rename2_in *in = (const void *)op->args;

	switch (in->flags) {
	case 0:
		return rename_to(w, op, in->newdir, 0);
	case RENAME_NOREPLACE:
		return rename_to(w, op, in->newdir, WEKA_NOREPLACE);
	case RENAME_EXCHANGE:
		return rename_to(w, op, in->newdir, WEKA_EXCHANGE);
	default:
		return -EINVAL; /* RENAME_WHITEOUT */
	}
}

int mount_rename2_step(struct mount_worker *w, struct mount_op *op)
{
	return plain_step(w, op);
}
