/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Bytes of files.  A read's answer is written to the kernel from the memory in which the appliance
 * put it; a write's data are read from the kernel into the memory from which the appliance takes
 * them.
 *
 * Invariants:
 *
 *  (1) A write's data stand at the start of its lease, with room for checksums after them.
 *  (2) A read never asks for more bytes than fit into its lease.
 */
#define _GNU_SOURCE /* SEEK_DATA */
#include "client-lib/mount/mount.h"

#include "base/num.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>
#include <unistd.h>

#define SUMS_INLINE (32u * WEKA_BLOCK) /* a read up to this size has its checksums in the answer */

int mount_read_begin(struct mount_worker *w, struct mount_op *op)
{
	const struct fuse_read_in *in = (const void *)op->args;
	uint64_t window = align_up(in->offset % WEKA_BLOCK + in->size, WEKA_BLOCK);
	int err;

	if (in->size == 0 || in->size > MOUNT_IO_MAX)
		return -EINVAL;
	if (mount_ahead_read(w, op))
		return MOUNT_DONE;
	if (window > SUMS_INLINE)
		window = weka_window_bytes(1, in->size + WEKA_BLOCK - 1);
	err = mount_lease(w, op, window);
	if (err)
		return err;
	ASSERT(op->window.size_bytes >= in->size); /* (2) */
	return mount_sent(op, weka_submit_read(w->client, mount_req(w, op), &op->at->handle,
					       in->offset, in->size, &op->window));
}

int mount_read_step(struct mount_worker *w, struct mount_op *op)
{
	if (op->req.status)
		return op->req.status;
	return mount_reply(w, op, op->req.data, op->req.length_bytes);
}

/* ---- writes ---------------------------------------------------------------------------------- */

/* Sees to it that the data are in a lease.  They are there already if the worker read the request
 * into its landing lease; else they are copied from op->big, or from op->bytes if they are few. */
static int write_lease(struct mount_worker *w, struct mount_op *op, uint32_t size_bytes)
{
	const bool is_landed = op->lease != NULL;
	int err = mount_lease(w, op, weka_window_bytes(1, size_bytes + WEKA_BLOCK - 1));

	if (!err && !is_landed)
		memcpy(op->lease->data, (op->big ? op->big : op->bytes) + MOUNT_HEAD, size_bytes);
	return err;
}

int mount_write_begin(struct mount_worker *w, struct mount_op *op)
{
	const struct fuse_write_in *in = (const void *)op->args;
	const bool appends = in->flags & O_APPEND && !(in->write_flags & FUSE_WRITE_CACHE);
	int err;

	if (in->size == 0 || in->size > MOUNT_IO_MAX)
		return -EINVAL;
	if (mount_head(op)->len != MOUNT_HEAD + in->size)
		return -EINVAL;
	err = write_lease(w, op, in->size);
	if (err)
		return err;
	ASSERT(op->window.size_bytes >=
	       align_up(in->size, 4) + 4 * (in->size / WEKA_BLOCK + 2)); /* (1) */
	return mount_sent(op, weka_submit_write(w->client, mount_req(w, op), &op->at->handle,
						in->offset, in->size, appends ? WEKA_APPEND : 0,
						&op->window));
}

int mount_write_step(struct mount_worker *w, struct mount_op *op)
{
	const struct fuse_write_in *in = (const void *)op->args;
	const struct fuse_write_out out = { .size = in->size };

	mount_ahead_changed(w, &op->at->handle);
	return op->req.status ? op->req.status : mount_reply(w, op, &out, sizeof(out));
}

/* ---- holes ----------------------------------------------------------------------------------- */

int mount_fallocate_begin(struct mount_worker *w, struct mount_op *op)
{
	const struct fuse_fallocate_in *in = (const void *)op->args;

	/* Space cannot be reserved.  EOPNOTSUPP makes posix_fallocate() write instead. */
	if (in->mode != (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE))
		return -EOPNOTSUPP;
	return mount_sent(op, weka_submit_punch(w->client, mount_req(w, op), &op->at->handle,
						in->offset, in->length));
}

int mount_fallocate_step(struct mount_worker *w, struct mount_op *op)
{
	mount_ahead_changed(w, &op->at->handle);
	return op->req.status ? op->req.status : mount_reply(w, op, NULL, 0);
}

int mount_lseek_begin(struct mount_worker *w, struct mount_op *op)
{
	const struct fuse_lseek_in *in = (const void *)op->args;

	if (in->whence != SEEK_DATA && in->whence != SEEK_HOLE)
		return -EINVAL;
	return mount_sent(op,
			  weka_submit_seek(w->client, mount_req(w, op), &op->at->handle, in->offset,
					   in->whence == SEEK_HOLE ? WEKA_SEEK_HOLE : 0));
}

int mount_lseek_step(struct mount_worker *w, struct mount_op *op)
{
	const struct fuse_lseek_out out = { .offset = op->req.length_bytes };

	return op->req.status ? op->req.status : mount_reply(w, op, &out, sizeof(out));
}
