/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Conversions of names, handles and attributes between the fabric's form and the store's.
 *
 *   fab_handle   | dir 48 | hash 40 | uniq 40 |   16 bytes, little-endian words
 *
 * A name in a directory given by handle takes one more call of the store, to learn the
 * directory's number.
 */
#include "appliance/core/app_op.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static_assert(sizeof(struct fab_handle) == 16, "PROTOCOL.md 5");
static_assert(FAB_COOKIE_BYTES == 3 * sizeof(le64), "PROTOCOL.md 5");

struct meta_handle app_handle_in(const struct fab_session *of, const struct fab_handle *h)
{
	const struct fab_handle plain = fab_handle_open(of, h);
	le64 w[2];
	uint64_t a, b;

	memcpy(w, plain.bytes, sizeof(w));
	a = le64_get(w[0]);
	b = le64_get(w[1]);
	return (struct meta_handle){
		.dir = a >> 16,
		.hash = (a & 0xffff) << 24 | b >> 40,
		.uniq = b & 0xffffffffffull,
	};
}

struct fab_handle app_handle_out(const struct fab_session *to, const struct meta_handle *h)
{
	le64 w[2] = {
		le64_of(h->dir << 16 | h->hash >> 24),
		le64_of((h->hash & 0xffffff) << 40 | h->uniq),
	};
	struct fab_handle out;

	ASSERT(h->dir >> 48 == 0 && h->hash >> 40 == 0 && h->uniq >> 40 == 0);
	memcpy(out.bytes, w, sizeof(w));
	return fab_handle_seal(to, &out);
}

static uint32_t format_of(enum meta_type type)
{
	switch (type) {
	case META_TYPE_DIR:
		return S_IFDIR;
	case META_TYPE_SYMLINK:
		return S_IFLNK;
	default:
		return S_IFREG;
	}
}

void app_attr_out(const struct fab_session *to, const struct meta_attr *in, struct fab_attr *out)
{
	DASSERT(in->type == META_TYPE_DIR || in->dir == 0);
	*out = (struct fab_attr){
		.handle = app_handle_out(to, &in->handle),
		.ino = in->ino,
		.dir = in->dir,
		.size_bytes = in->size,
		.allocated_bytes = in->blocks * BLOCK_SIZE,
		.mtime_ns = in->mtime_ns,
		.ctime_ns = in->ctime_ns,
		.atime_ns = in->atime_ns,
		.mode = in->mode | format_of(in->type),
		.uid = in->uid,
		.gid = in->gid,
		.nlink = in->nlink,
		.xattrs = in->xattrs,
	};
}

/* The client's form: directory 48 and fragment 16 bits, hash, uniquifier. */
#define COOKIE_DIR_SHIFT     16u
#define COOKIE_FRAGMENT_MASK ((1u << COOKIE_DIR_SHIFT) - 1)

struct meta_cookie app_cookie_in(const uint8_t bytes[FAB_COOKIE_BYTES])
{
	le64 w[3];

	memcpy(w, bytes, sizeof(w));
	return (struct meta_cookie){ .fragment = le64_get(w[0]) & COOKIE_FRAGMENT_MASK,
				     .hash = le64_get(w[1]),
				     .uniq = le64_get(w[2]),
				     .dir = le64_get(w[0]) >> COOKIE_DIR_SHIFT };
}

void app_cookie_out(const struct meta_cookie *in, uint8_t bytes[FAB_COOKIE_BYTES])
{
	le64 w[3] = { le64_of(in->dir << COOKIE_DIR_SHIFT | in->fragment), le64_of(in->hash),
		      le64_of(in->uniq) };

	ASSERT(in->fragment <= COOKIE_FRAGMENT_MASK && in->dir >> 48 == 0);
	memcpy(bytes, w, sizeof(w));
}

static enum app_next directory_known(struct app_op *op, struct meta_target *t)
{
	const struct fab_name *name = &op->name[op->names_done];

	ASSERT(op->names_done < op->names && op->looking);
	if (op->meta.status)
		return app_op_end(op, op->meta.status);
	if (op->meta.attr.dir == 0)
		return app_op_end(op, -ENOTDIR);
	*t = (struct meta_target){
		.path = name->name,
		.path_len = name->name_bytes,
		.dir = op->meta.attr.dir,
		.root = op->root,
	};
	op->names_done++;
	op->looking = false;
	return APP_AGAIN;
}

void app_target_guess(const struct app_op *op, struct meta_target *out)
{
	const struct fab_name *name = &op->name[0];

	DASSERT(op->names <= 2);
	*out = op->names
		       ? (struct meta_target){ .path = name->name,
					       .path_len = name->name_bytes,
					       .dir = name->by == FAB_BY_DIR ? name->dir : op->root,
					       .root = op->root }
		       : op->target[0];
	if (op->names && name->by == FAB_BY_HANDLE)
		*out = (struct meta_target){ .handle = app_handle_in(op->req->session,
								     &name->handle) };
	if (op->names && name->by == FAB_BY_DIRHANDLE)
		out->path_len = 0; /* its directory must be asked for first */
}

/* Their lookups wait for memory together, not one after the other. */
void app_ops_run(struct app_core *core, struct app_op **op, uint32_t count)
{
	struct meta_ahead ahead[APP_AHEAD_MAX];
	bool look = count > 1;

	DASSERT(count > 0);
	ASSERT(count <= APP_AHEAD_MAX);
	for (uint32_t i = 0; look && i < count; i++) {
		struct meta_target t;

		app_target_guess(op[i], &t);
		if (likely(core->meta))
			meta_ahead_begin(core->meta, &t, op[i]->offset_bytes, &ahead[i]);
		else
			meta_reader_ahead_begin(core->reader, &t, op[i]->offset_bytes, &ahead[i]);
	}
	if (look)
		meta_ahead_run(ahead, count);
	for (uint32_t i = 0; i < count; i++)
		app_op_run(op[i]);
}

enum app_next app_target_step(struct app_op *op)
{
	const struct fab_name *name = &op->name[op->names_done];
	struct meta_target *t = &op->target[op->names_done];

	DASSERT(op->names_done < op->names && op->session);
	if (op->looking)
		return directory_known(op, t);
	if (unlikely(op->rooting || app_root_due(op)))
		return app_root_step(op);
	op->root = op->session->root;
	ASSERT(op->root != 0); /* app_rights.c (1) */
	switch (name->by) {
	case FAB_BY_HANDLE:
		*t = (struct meta_target){ .handle = app_handle_in(op->req->session, &name->handle),
					   .root = op->root };
		break;
	case FAB_BY_PATH:
	case FAB_BY_DIR:
		*t = (struct meta_target){
			.path = name->name,
			.path_len = name->name_bytes,
			.dir = name->by == FAB_BY_DIR ? name->dir : op->root,
			.root = op->root,
		};
		break;
	case FAB_BY_DIRHANDLE:
		op->looking = true;
		op->meta.target = (struct meta_target){
			.handle = app_handle_in(op->req->session, &name->handle), .root = op->root
		};
		return app_op_meta(op, META_OP_STAT) ? APP_AGAIN : APP_WAIT;
	}
	op->names_done++;
	return APP_AGAIN;
}
