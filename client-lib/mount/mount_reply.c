/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Answers to the kernel: one writev() each, on the descriptor from which the request came.
 *
 *     | fuse_out_header: length, error, unique | payload |
 *
 * Invariants:
 *
 *  (1) An answer goes to the worker's own descriptor: the kernel looks for the request only in that
 *      clone's queue.
 *  (2) An answer has an error or a payload, never both.
 */
#include "client-lib/mount/mount.h"

#include "base/clock.h"
#include "base/num.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* Returns the errno for programs: EIO for those that POSIX does not know for files. */
static int errno_of(int err)
{
	switch (-err) {
	case ETIMEDOUT:
	case ECONNRESET:
	case ENOTCONN:
	case ECONNREFUSED:
	case EPROTO:
	case EBADMSG:
	case EHOSTDOWN:
		return EIO;
	case ECANCELED:
		return EINTR;
	default:
		return -err;
	}
}

/* Returns true if the kernel took the answer. */
static bool send_parts(struct mount_worker *w, const struct mount_op *op, int err,
		       const void *bytes, size_t size)
{
	struct fuse_out_header head = { .len = (uint32_t)(sizeof(head) + size),
					.error = -err,
					.unique = mount_head(op)->unique };
	struct iovec part[2] = { { &head, sizeof(head) }, { (void *)(uintptr_t)bytes, size } };

	ASSERT(w->fuse_fd >= 0);       /* (1) */
	ASSERT(err == 0 || size == 0); /* (2) */
	/* ENOENT: the process that asked was killed. */
	if (writev(w->fuse_fd, part, size ? 2 : 1) >= 0)
		return true;
	if (errno != ENOENT && errno != ENODEV)
		mount_say(w->fs, "the kernel did not take the answer to a %s: %s", op->shape->text,
			  strerror(errno));
	return false;
}

int mount_reply(struct mount_worker *w, const struct mount_op *op, const void *bytes, size_t size)
{
	(void)send_parts(w, op, 0, bytes, size);
	return MOUNT_DONE;
}

int mount_reply_node(struct mount_worker *w, const struct mount_op *op, const void *bytes,
		     size_t size)
{
	const struct fuse_entry_out *entry = bytes;

	ASSERT(size >= sizeof(*entry));
	if (!send_parts(w, op, 0, bytes, size) && entry->nodeid != FUSE_ROOT_ID)
		mount_node_forget(&w->fs->nodes, mount_node_of(w->fs, entry->nodeid), 1);
	return MOUNT_DONE;
}

int mount_reply_error(struct mount_worker *w, const struct mount_op *op, int err)
{
	ASSERT(err <= 0);
	(void)send_parts(w, op, errno_of(err), NULL, 0);
	return MOUNT_DONE;
}

/* ---- attributes ------------------------------------------------------------------------------ */

static void time_out(int64_t ns, uint64_t *seconds, uint32_t *rest)
{
	int64_t s = ns / (int64_t)NS_PER_S, r = ns % (int64_t)NS_PER_S;

	if (r < 0) {
		s--;
		r += (int64_t)NS_PER_S;
	}
	ASSERT(r >= 0 && r < (int64_t)NS_PER_S);
	*seconds = (uint64_t)s;
	*rest = (uint32_t)r;
}

void mount_attr_out(const struct mount_fs *fs, const struct weka_attr *in, struct fuse_attr *out)
{
	(void)fs;
	*out = (struct fuse_attr){
		.ino = in->ino,
		.size = in->size_bytes,
		.blocks = div_up(in->allocated_bytes, 512),
		.mode = in->mode,
		.nlink = in->nlink,
		.uid = in->uid,
		.gid = in->gid,
		.blksize = 128u << 10,
	};
	/* The data of a small file are in the index.  Without any block it would look like a hole,
	 * and tar does not read holes. */
	if (in->size_bytes > 0 && out->blocks == 0)
		out->blocks = 1;
	time_out(in->atime_ns, &out->atime, &out->atimensec);
	time_out(in->mtime_ns, &out->mtime, &out->mtimensec);
	time_out(in->ctime_ns, &out->ctime, &out->ctimensec);
}

int mount_entry_out(struct mount_fs *fs, const struct weka_attr *in, struct fuse_entry_out *out)
{
	struct mount_node *node = mount_node_get(&fs->nodes, in);

	if (!node)
		return -ENOMEM;
	*out = (struct fuse_entry_out){
		.nodeid = node == fs->root ? FUSE_ROOT_ID : (uint64_t)(uintptr_t)node,
		.generation = node->generation,
		.entry_valid = fs->args.cache_ns / NS_PER_S,
		.attr_valid = fs->args.cache_ns / NS_PER_S,
		.entry_valid_nsec = (uint32_t)(fs->args.cache_ns % NS_PER_S),
		.attr_valid_nsec = (uint32_t)(fs->args.cache_ns % NS_PER_S),
	};
	mount_attr_out(fs, in, &out->attr);
	return 0;
}

int mount_reply_attr(struct mount_worker *w, struct mount_op *op)
{
	struct fuse_attr_out out = {
		.attr_valid = w->fs->args.cache_ns / NS_PER_S,
		.attr_valid_nsec = (uint32_t)(w->fs->args.cache_ns % NS_PER_S),
	};

	mount_node_saw(op->at, &op->attr);
	mount_attr_out(w->fs, &op->attr, &out.attr);
	return mount_reply(w, op, &out, sizeof(out));
}

int mount_reply_entry(struct mount_worker *w, struct mount_op *op)
{
	struct fuse_entry_out out;
	int err = mount_entry_out(w->fs, &op->attr, &out);

	return err ? err : mount_reply_node(w, op, &out, sizeof(out));
}
