/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Files that programs have open.  An open file is *held*: it stays usable after its last name is
 * gone, here or at another client.
 *
 *     OPEN, CREATE --> hold in this worker's session --> struct mount_file --> RELEASE
 *
 * RELEASE may come to another worker, which sends the file to the holder.  When the appliance has
 * no room for more holds, the file is open without one: then removing its last name ends it.
 *
 * The cache.  With cache=0, files bypass the page cache where the kernel can still map them; else
 * each open empties it, and each read asks for the attributes first (AUTO_INVAL_DATA).  With
 * cache=SECONDS an open keeps the pages if the file is in the state that it had at the last open.
 *
 * Invariants:
 *
 *  (1) A struct mount_file belongs to its op until the kernel has it, then to the kernel until
 *      RELEASE, then to the holder's inbox.  While `opening`, its op has it, too; the holder frees
 *      it after both.
 *  (2) CREATE never opens a file that existed, since the kernel does not check the mode of a file
 *      that it creates.
 */
#include "client-lib/mount/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { HOLDS = 1, HOLDS_NOT, HOLDS_LATER };

static struct fuse_open_out open_out(const struct mount_fs *fs, struct mount_node *node,
				     const struct weka_attr *attr, const struct mount_file *file)
{
	struct fuse_open_out out = { .fh = (uint64_t)(uintptr_t)file };
	int64_t pages_ns = atomic_exchange_explicit(&node->pages_ctime_ns, attr->ctime_ns,
						    memory_order_relaxed);

	if (fs->direct)
		out.open_flags |= FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES;
	else if (fs->args.cache_ns > 0 && pages_ns == attr->ctime_ns)
		out.open_flags |= FOPEN_KEEP_CACHE;
	return out;
}

static int file_make(struct mount_op *op)
{
	ASSERT(!op->file); /* (1) */
	op->file = calloc(1, sizeof(*op->file));
	return op->file ? 0 : -ENOMEM;
}

/* The appliance has opened the file. */
static void file_opened(struct mount_worker *w, struct mount_op *op)
{
	ASSERT(op->file && !op->file->holder);
	op->file->handle = op->attr.handle;
	op->file->holder = w;
	op->file->held = op->doing == HOLDS;
	op->file->message.kind = MOUNT_CLOSE;
}

static bool no_room(const struct mount_op *op)
{
	return op->doing == HOLDS && (op->req.status == -EMFILE || op->req.status == -ENFILE);
}

static int open_by(struct mount_worker *w, struct mount_op *op, uint32_t doing)
{
	const struct fuse_open_in *in = (const void *)op->args;
	uint32_t flags = (doing == HOLDS ? WEKA_HOLD : 0) | (in->flags & O_TRUNC ? WEKA_TRUNC : 0);
	int err;

	op->ref[0] = mount_ref(op->at);
	err = weka_submit_open(w->client, mount_req(w, op), &op->ref[0], flags, NULL, &op->attr);
	if (!err)
		op->doing = doing;
	return mount_sent(op, err);
}

/* Answers the OPEN of a file whose bytes are here, and asks for the hold at the same time. */
static int open_at_once(struct mount_worker *w, struct mount_op *op)
{
	struct mount_file *file = op->file;
	struct fuse_open_out out = { .fh = (uint64_t)(uintptr_t)file };
	int err = open_by(w, op, HOLDS);

	if (err)
		return err;
	/* The bytes may be older than the attributes: the next open does not keep these pages. */
	atomic_store_explicit(&op->at->pages_ctime_ns, 0, memory_order_relaxed);
	op->doing = HOLDS_LATER;
	file->handle = op->at->handle;
	file->holder = w;
	file->opening = true;
	file->message.kind = MOUNT_CLOSE;
	(void)mount_reply(w, op, &out, sizeof(out));
	return MOUNT_WAIT;
}

/* The hold has come, after the answer. */
static int opened_later(struct mount_worker *w, struct mount_op *op)
{
	struct mount_file *file = op->file;

	ASSERT(file->opening && file->holder == w); /* (1) */
	op->file = NULL;
	file->opening = false;
	file->held = op->req.status == 0;
	if (file->closed)
		(void)mount_file_close(w, file);
	return MOUNT_DONE;
}

int mount_open_begin(struct mount_worker *w, struct mount_op *op)
{
	const struct fuse_open_in *in = (const void *)op->args;
	int err = op->file ? 0 : file_make(op);

	if (!err && (in->flags & (O_ACCMODE | O_TRUNC)) == O_RDONLY &&
	    (op->file->bytes || mount_ahead_take(w, &op->at->handle, op->file)))
		err = open_at_once(w, op);
	else if (!err)
		err = open_by(w, op, HOLDS);
	return err == -EMFILE ? open_by(w, op, HOLDS_NOT) : err;
}

int mount_open_step(struct mount_worker *w, struct mount_op *op)
{
	const struct fuse_open_in *in = (const void *)op->args;
	struct fuse_open_out out;

	if (op->doing == HOLDS_LATER)
		return opened_later(w, op);
	if (in->flags & O_TRUNC)
		mount_ahead_changed(w, &op->at->handle);
	if (no_room(op))
		return open_by(w, op, HOLDS_NOT);
	if (op->req.status)
		return op->req.status;
	free(op->file->bytes); /* it was not opened at once */
	op->file->bytes = NULL;
	file_opened(w, op);
	mount_node_saw(op->at, &op->attr);
	out = open_out(w->fs, op->at, &op->attr, op->file);
	op->file = NULL; /* (1) */
	return mount_reply(w, op, &out, sizeof(out));
}

/* ---- files that are made --------------------------------------------------------------------- */

void mount_owner(const struct mount_op *op, uint32_t mode, struct weka_create *create)
{
	const uint32_t dir_mode = atomic_load_explicit(&op->at->mode, memory_order_relaxed);

	*create = (struct weka_create){
		.mode = mode & 07777,
		.uid = mount_head(op)->uid,
		.gid = mount_head(op)->gid,
	};
	if (!(dir_mode & S_ISGID))
		return;
	create->gid = atomic_load_explicit(&op->at->gid, memory_order_relaxed);
	if (S_ISDIR(mode))
		create->mode |= S_ISGID;
}

static int create_by(struct mount_worker *w, struct mount_op *op, uint32_t mode, uint32_t doing)
{
	const uint32_t flags = WEKA_CREATE | WEKA_EXCL | (doing == HOLDS ? WEKA_HOLD : 0);
	int err;

	ASSERT(flags & WEKA_EXCL); /* (2) */
	mount_owner(op, mode, &op->create);
	op->ref[0] = mount_ref_in(op->at, op->name[0]);
	err = weka_submit_open(w->client, mount_req(w, op), &op->ref[0], flags, &op->create,
			       &op->attr);
	if (!err)
		op->doing = doing;
	return mount_sent(op, err);
}

int mount_create_begin(struct mount_worker *w, struct mount_op *op)
{
	const struct fuse_create_in *in = (const void *)op->args;
	int err = op->file ? 0 : file_make(op);

	if (!err)
		err = create_by(w, op, in->mode, HOLDS);
	return err == -EMFILE ? create_by(w, op, in->mode, HOLDS_NOT) : err;
}

int mount_create_step(struct mount_worker *w, struct mount_op *op)
{
	const struct fuse_create_in *in = (const void *)op->args;
	struct {
		struct fuse_entry_out entry;
		struct fuse_open_out open;
	} out;
	int err;

	if (no_room(op))
		return create_by(w, op, in->mode, HOLDS_NOT);
	/* Another client was faster.  ESTALE makes the kernel look it up and open it. */
	if (op->req.status == -EEXIST && !(in->flags & O_EXCL))
		return -ESTALE;
	if (op->req.status)
		return op->req.status;
	file_opened(w, op);
	err = mount_entry_out(w->fs, &op->attr, &out.entry);
	if (err) {
		(void)mount_file_close(w, op->file);
		op->file = NULL;
		return err;
	}
	out.open = open_out(w->fs, mount_node_of(w->fs, out.entry.nodeid), &op->attr, op->file);
	op->file = NULL; /* (1) */
	return mount_reply_node(w, op, &out, sizeof(out));
}

int mount_mknod_begin(struct mount_worker *w, struct mount_op *op)
{
	const struct fuse_mknod_in *in = (const void *)op->args;

	if (!S_ISREG(in->mode))
		return -EPERM; /* the store has no devices, sockets and pipes */
	return create_by(w, op, in->mode, HOLDS_NOT);
}

int mount_mknod_step(struct mount_worker *w, struct mount_op *op)
{
	return op->req.status ? op->req.status : mount_reply_entry(w, op);
}

/* ---- closed ---------------------------------------------------------------------------------- */

int mount_file_close(struct mount_worker *w, struct mount_file *file)
{
	int err = 0;

	if (file->holder && file->holder != w) {
		mount_send(file->holder, &file->message);
		return 0;
	}
	file->closed = true;
	if (file->opening)
		return 0; /* opened_later() */
	if (file->held)
		err = weka_close_file(w->client, &file->handle);
	free(file->bytes);
	free(file);
	return err;
}

int mount_release_begin(struct mount_worker *w, struct mount_op *op)
{
	const struct fuse_release_in *in = (const void *)op->args;

	(void)mount_file_close(w, (struct mount_file *)(uintptr_t)in->fh);
	return mount_reply(w, op, NULL, 0);
}
