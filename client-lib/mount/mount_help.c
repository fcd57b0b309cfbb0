/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The parts that begin() and step() share: deadlines, references, leases, and requests for
 * attributes. */
#include "client-lib/mount/mount.h"

#include "base/clock.h"
#include "base/num.h"

#include <errno.h>
#include <string.h>

struct mount_node *mount_node_of(struct mount_fs *fs, uint64_t nodeid)
{
	return nodeid == FUSE_ROOT_ID ? fs->root : (struct mount_node *)(uintptr_t)nodeid;
}

struct weka_ref mount_ref(const struct mount_node *node)
{
	return weka_ref_handle(&node->handle);
}

struct weka_ref mount_ref_in(const struct mount_node *dir, const char *name)
{
	struct weka_ref ref = weka_ref_at(&dir->handle, name);

	ref.flags = WEKA_NOFOLLOW;
	return ref;
}

struct weka_req *mount_req(struct mount_worker *w, struct mount_op *op)
{
	const uint64_t left_ns = op->deadline_ns > w->now_ns ? op->deadline_ns - w->now_ns : 0;

	ASSERT(!op->in_flight);
	op->req.user = op;
	op->req.timeout_ns = max_u64(left_ns, NS_PER_MS);
	return &op->req;
}

int mount_sent(struct mount_op *op, int err)
{
	ASSERT(!op->in_flight && err <= 0);
	if (err)
		return err;
	op->in_flight = true;
	op->stage++;
	return MOUNT_WAIT;
}

int mount_ask(struct mount_worker *w, struct mount_op *op, const struct weka_ref *ref)
{
	op->stat = (struct weka_stat_item){ .ref = *ref };
	return mount_sent(op, weka_submit_stat(w->client, mount_req(w, op), &op->stat, 1, NULL));
}

int mount_asked(struct mount_op *op)
{
	const int err = op->req.status ? op->req.status : op->stat.status;

	ASSERT(op->stage > 0 && err <= 0);
	if (!err)
		op->attr = op->stat.attr;
	return err;
}

int mount_lease(struct mount_worker *w, struct mount_op *op, uint64_t size_bytes)
{
	int err = 0;

	ASSERT(size_bytes > 0);
	if (!op->lease)
		err = weka_lease(w->client, align_up(size_bytes, WEKA_BLOCK), &op->lease);
	if (!err)
		op->window = (struct weka_window){ .lease = op->lease,
						   .size_bytes = op->lease->size_bytes };
	return err;
}
