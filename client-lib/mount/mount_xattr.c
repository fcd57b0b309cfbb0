/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Extended attributes.  The store has those of "user."; the kernel's own questions for others are
 * answered here, without the appliance, because it asks before many writes.
 *
 * A question with size 0 wants the length only.
 */
#include "client-lib/mount/mount.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define PREFIX "user."

static bool is_user(const char *name)
{
	return strncmp(name, PREFIX, strlen(PREFIX)) == 0;
}

/* Answers with the value or list in the window. */
static int value_step(struct mount_worker *w, struct mount_op *op)
{
	const struct fuse_getxattr_in *in = (const void *)op->args;
	const struct fuse_getxattr_out out = { .size = (uint32_t)op->req.length_bytes };

	if (op->req.status)
		return op->req.status;
	if (in->size == 0)
		return mount_reply(w, op, &out, sizeof(out));
	if (op->req.length_bytes > in->size)
		return -ERANGE;
	return mount_reply(w, op, op->req.data, op->req.length_bytes);
}

int mount_getxattr_begin(struct mount_worker *w, struct mount_op *op)
{
	int err;

	if (!is_user(op->name[0]))
		return -EOPNOTSUPP;
	err = mount_lease(w, op, WEKA_XATTR_MAX);
	if (err)
		return err;
	op->ref[0] = mount_ref(op->at);
	return mount_sent(op, weka_submit_getxattr(w->client, mount_req(w, op), &op->ref[0],
						   op->name[0], &op->window));
}

int mount_getxattr_step(struct mount_worker *w, struct mount_op *op)
{
	return value_step(w, op);
}

int mount_listxattr_begin(struct mount_worker *w, struct mount_op *op)
{
	int err = mount_lease(w, op, WEKA_XATTR_MAX);

	if (err)
		return err;
	op->ref[0] = mount_ref(op->at);
	return mount_sent(
		op, weka_submit_listxattr(w->client, mount_req(w, op), &op->ref[0], &op->window));
}

int mount_listxattr_step(struct mount_worker *w, struct mount_op *op)
{
	return value_step(w, op);
}

int mount_setxattr_begin(struct mount_worker *w, struct mount_op *op)
{
	const struct fuse_setxattr_in *in = (const void *)op->args;
	const char *value = op->name[0] + strlen(op->name[0]) + 1;
	uint32_t flags = (in->flags & XATTR_CREATE ? WEKA_XATTR_CREATE : 0) |
			 (in->flags & XATTR_REPLACE ? WEKA_XATTR_REPLACE : 0);

	if (!is_user(op->name[0]))
		return -EOPNOTSUPP;
	if (in->size > (size_t)(op->args + op->args_bytes - value))
		return -EINVAL;
	op->ref[0] = mount_ref(op->at);
	return mount_sent(op, weka_submit_setxattr(w->client, mount_req(w, op), &op->ref[0],
						   op->name[0], value, in->size, flags));
}

int mount_setxattr_step(struct mount_worker *w, struct mount_op *op)
{
	return op->req.status ? op->req.status : mount_reply(w, op, NULL, 0);
}

int mount_removexattr_begin(struct mount_worker *w, struct mount_op *op)
{
	if (!is_user(op->name[0]))
		return -EOPNOTSUPP;
	op->ref[0] = mount_ref(op->at);
	return mount_sent(
		op, weka_submit_removexattr(w->client, mount_req(w, op), &op->ref[0], op->name[0]));
}

int mount_removexattr_step(struct mount_worker *w, struct mount_op *op)
{
	return mount_setxattr_step(w, op);
}
