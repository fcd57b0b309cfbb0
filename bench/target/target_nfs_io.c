/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The ios of an NFS connection, many at once, without the kernel's client and its page cache.
 *
 *   a slot an io:   read:  open (LOOKUP, ACCESS) -> READ ...  -> close
 *                   put:   CREATE                -> WRITE ... -> COMMIT (durable) -> close
 *                   stat: GETATTR    remove: REMOVE
 *
 * Invariant:
 *
 *  (1) A slot is free, or the library will call back for it once.
 */
#define _GNU_SOURCE
#include "base/num.h"
#include "bench/target/target_nfs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static void called_back(int result, struct nfs_context *nfs, void *data, void *slot);

static uint64_t end_of(const struct target_io *io)
{
	return io->length_bytes == TARGET_TO_END ? UINT64_MAX : io->offset_bytes + io->length_bytes;
}

static void end_io(struct nfs__slot *slot)
{
	struct nfs__session *p = slot->session->own;
	struct target_io *io = slot->io;

	if (!slot->err && slot->group->op == TARGET_READ && io->length_bytes != TARGET_TO_END &&
	    io->got_bytes != io->length_bytes)
		slot->err = -ENODATA;
	if (slot->kept)
		slot->kept->users--;
	slot->at = NFS__FREE;
	ASSERT(p->busy > 0); /* (1) */
	p->busy--;
	target__ended(slot->session, slot->group, io, slot->err);
}

/* A call was begun, or cannot be: then the io ends here. */
static void begun(struct nfs__slot *slot, int err)
{
	if (!err)
		return;
	slot->err = slot->err ? slot->err : -EIO;
	end_io(slot);
}

static void begin_close(struct nfs__slot *slot)
{
	struct nfs__session *p = slot->session->own;

	if (slot->kept) {
		end_io(slot);
		return;
	}
	slot->at = NFS__CLOSING;
	begun(slot, p->call->close_async(p->nfs, slot->file, called_back, slot));
}

static void begin_move(struct nfs__slot *slot)
{
	struct nfs__session *p = slot->session->own;
	struct target_io *io = slot->io;
	uint64_t at = io->offset_bytes + io->got_bytes;

	slot->at = NFS__MOVING;
	if (slot->group->op == TARGET_READ) {
		slot->want = (uint32_t)min_u64(end_of(io) - at, NFS__PIECE);
		begun(slot,
		      p->call->pread_async(p->nfs, slot->file, at, slot->want, called_back, slot));
		return;
	}
	slot->want = (uint32_t)min_u64(io->length_bytes - io->next_bytes, NFS__PIECE);
	io->content->fill(io->content, io->file, io->next_bytes, slot->buffer, slot->want);
	begun(slot, p->call->pwrite_async(p->nfs, slot->file, io->next_bytes, slot->want,
					  slot->buffer, called_back, slot));
}

static void moved(struct nfs__slot *slot, uint32_t n, const void *data)
{
	struct nfs__session *p = slot->session->own;
	struct target_io *io = slot->io;

	if (slot->group->op == TARGET_READ) {
		uint64_t at = io->offset_bytes + io->got_bytes;

		target__landed(io, at, data, n);
		if (n < slot->want || at + n == end_of(io))
			begin_close(slot);
		else
			begin_move(slot);
		return;
	}
	io->next_bytes += n;
	if (n < slot->want && n == 0)
		slot->err = -ENOSPC;
	if (!slot->err && io->next_bytes < io->length_bytes) {
		begin_move(slot);
	} else if (!slot->err && (slot->group->flags & TARGET_DURABLE)) {
		slot->at = NFS__SYNCING;
		begun(slot, p->call->fsync_async(p->nfs, slot->file, called_back, slot));
	} else {
		begin_close(slot);
	}
}

static void called_back(int result, struct nfs_context *nfs, void *data, void *user)
{
	struct nfs__slot *slot = user;

	(void)nfs;
	if (result < 0 && !slot->err)
		slot->err = result;
	switch (slot->at) {
	case NFS__OPENING:
		if (result < 0) {
			end_io(slot);
			return;
		}
		slot->file = data;
		begin_move(slot);
		return;
	case NFS__MOVING:
		if (result < 0)
			begin_close(slot);
		else
			moved(slot, (uint32_t)result, data);
		return;
	case NFS__SYNCING:
		begin_close(slot);
		return;
	case NFS__ASKING:
		if (result == 0 && slot->group->op == TARGET_STAT)
			slot->io->got_bytes = ((const struct nfs_stat_64 *)data)->nfs_size;
		end_io(slot);
		return;
	case NFS__CLOSING:
	case NFS__FREE:
		end_io(slot);
		return;
	}
}

/* Ranges of few files: a file is opened once, while the caller waits.  False: the slot opens it. */
static bool find_kept(struct nfs__session *p, struct nfs__slot *slot)
{
	uint32_t hash = 0;
	struct nfs__kept *k;

	for (const char *c = slot->io->path; *c; c++)
		hash = hash * 31 + (uint8_t)*c;
	k = &p->kept[hash % NFS__KEPT];
	if (!k->file || strcmp(k->path, slot->io->path) != 0) {
		if (k->users > 0)
			return false;
		if (k->file)
			(void)p->call->close(p->nfs, k->file);
		k->file = NULL;
		if (p->call->open(p->nfs, slot->path, O_RDONLY, &k->file) != 0)
			return false;
		memcpy(k->path, slot->io->path, sizeof(k->path));
	}
	k->users++;
	slot->kept = k;
	slot->file = k->file;
	return true;
}

static void begin_io(struct target_session *s, struct nfs__slot *slot, struct target_group *g,
		     struct target_io *io)
{
	struct nfs__session *p = s->own;
	int err = -1;

	*slot = (struct nfs__slot){
		.at = NFS__OPENING, .session = s, .group = g, .io = io, .buffer = slot->buffer
	};
	io->status = 0;
	io->got_bytes = 0;
	io->next_bytes = 0;
	p->busy++;
	target__path(s->target, io->path, slot->path, sizeof(slot->path));
	if (g->op == TARGET_READ && (g->flags & TARGET_KEEP_OPEN) && find_kept(p, slot)) {
		begin_move(slot);
		return;
	}
	if (g->op == TARGET_READ) {
		err = p->call->open_async(p->nfs, slot->path, O_RDONLY, called_back, slot);
	} else if (g->op == TARGET_PUT) {
		err = p->call->create_async(p->nfs, slot->path, O_WRONLY | O_CREAT | O_TRUNC, 0600,
					    called_back, slot);
	} else if (g->op == TARGET_STAT) {
		slot->at = NFS__ASKING;
		err = p->call->stat64_async(p->nfs, slot->path, called_back, slot);
	} else if (g->op == TARGET_REMOVE) {
		slot->at = NFS__ASKING;
		err = p->call->unlink_async(p->nfs, slot->path, called_back, slot);
	}
	begun(slot, err);
}

/* A listing with attributes, which READDIRPLUS brings, while the caller waits. */
static int list(struct target_session *s, struct target_io *io)
{
	struct nfs__session *p = s->own;
	char path[TARGET__ROOT_MAX + TARGET_PATH_MAX];
	const struct nfsdirent *e;
	struct nfsdir *dir;
	int err;

	target__path(s->target, io->path, path, sizeof(path));
	io->status = 0;
	io->got_bytes = 0;
	err = p->call->opendir(p->nfs, path, &dir);
	if (err)
		return err;
	while ((e = p->call->readdir(p->nfs, dir)))
		io->got_bytes += strcmp(e->name, ".") != 0 && strcmp(e->name, "..") != 0;
	p->call->closedir(p->nfs, dir);
	return 0;
}

void nfs__fill_slots(struct target_session *s)
{
	struct nfs__session *p = s->own;

	for (uint32_t i = 0; i < p->slot_count && p->waiting; i++) {
		struct target_group *g = p->waiting;
		struct target_io *io;

		if (p->slot[i].at != NFS__FREE)
			continue;
		if (g->op == TARGET_LIST && p->busy > 0)
			return;
		io = &g->io[g->begun++];
		if (g->begun == g->count) {
			p->waiting = g->next;
			if (!p->waiting)
				p->waiting_last = &p->waiting;
		}
		if (g->op == TARGET_LIST)
			target__ended(s, g, io, list(s, io));
		else
			begin_io(s, &p->slot[i], g, io);
	}
}
