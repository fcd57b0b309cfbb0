/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * SETATTR: up to three requests, one after the other.
 *
 *     truncate, if a size is given --> set the rest, if there is any --> ask for the attributes
 *
 * The kernel has checked who may do that (default_permissions), and clears set-user-ID itself.
 */
#include "client-lib/mount/mount.h"

#include "base/clock.h"

enum { TRUNCATES = 1, SETS, ASKS };

static int64_t time_in(uint64_t seconds, uint32_t rest)
{
	return (int64_t)(seconds * NS_PER_S + rest);
}

static void set_in(const struct fuse_setattr_in *in, struct weka_setattr *set)
{
	*set = (struct weka_setattr){
		.mode = in->mode & 07777,
		.uid = in->uid,
		.gid = in->gid,
		.mtime_ns = time_in(in->mtime, in->mtimensec),
		.atime_ns = time_in(in->atime, in->atimensec),
	};
	set->mask = (in->valid & FATTR_MODE ? WEKA_SET_MODE : 0) |
		    (in->valid & FATTR_UID ? WEKA_SET_UID : 0) |
		    (in->valid & FATTR_GID ? WEKA_SET_GID : 0) |
		    (in->valid & FATTR_MTIME ? WEKA_SET_MTIME : 0) |
		    (in->valid & FATTR_ATIME ? WEKA_SET_ATIME : 0);
	if (in->valid & FATTR_MTIME_NOW)
		set->mtime_ns = (int64_t)clock_wall_ns();
	if (in->valid & FATTR_ATIME_NOW)
		set->atime_ns = (int64_t)clock_wall_ns();
	/* A truncate sets the time itself. */
	if (in->valid & FATTR_SIZE && in->valid & FATTR_MTIME_NOW)
		set->mask &= ~WEKA_SET_MTIME;
}

static int truncate_to(struct mount_worker *w, struct mount_op *op, uint64_t size_bytes)
{
	op->doing = TRUNCATES;
	return mount_sent(
		op, weka_submit_truncate(w->client, mount_req(w, op), &op->at->handle, size_bytes));
}

static int set_rest(struct mount_worker *w, struct mount_op *op)
{
	op->ref[0] = mount_ref(op->at);
	op->doing = SETS;
	return mount_sent(op,
			  weka_submit_setattr(w->client, mount_req(w, op), &op->ref[0], &op->set));
}

static int ask(struct mount_worker *w, struct mount_op *op)
{
	const struct weka_ref ref = mount_ref(op->at);

	op->doing = ASKS;
	return mount_ask(w, op, &ref);
}

/* A submit that found no place leaves `doing` as it was, so that the step runs again. */
static int next(struct mount_worker *w, struct mount_op *op, uint32_t done)
{
	int result;

	set_in((const void *)op->args, &op->set);
	result = done < SETS && op->set.mask ? set_rest(w, op) : ask(w, op);
	if (result < 0)
		op->doing = done;
	return result;
}

int mount_setattr_begin(struct mount_worker *w, struct mount_op *op)
{
	const struct fuse_setattr_in *in = (const void *)op->args;

	return in->valid & FATTR_SIZE ? truncate_to(w, op, in->size) : next(w, op, 0);
}

int mount_setattr_step(struct mount_worker *w, struct mount_op *op)
{
	int err = op->doing == ASKS ? mount_asked(op) : op->req.status;

	if (op->doing == TRUNCATES)
		mount_ahead_changed(w, &op->at->handle);
	if (err)
		return err;
	return op->doing == ASKS ? mount_reply_attr(w, op) : next(w, op, op->doing);
}
