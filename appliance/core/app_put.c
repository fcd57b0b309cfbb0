/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A put of a whole file of at most 4 MiB: one item of a FAB_PUT, atomic.
 *
 *   ACCEPTED --staging, pull--> PULLED --blocks--> PLACED --drives--> ON_DRIVES --> NAMED
 *                                  |                                      |
 *                                  +-- -EBADMSG, -ENOSPC                  +-- -EIO
 *
 * The bytes are verified after they were copied out of the client's reach, and only then written;
 * nothing names them before they are on the drives.  A small file goes into the index instead
 * (META_BY_INLINE), and never goes to a drive by itself.
 */
#include "appliance/core/app_quota.h"
#include "appliance/core/app_op.h"
#include "appliance/core/app_stat.h"

#include <errno.h>
#include <string.h>

/* Pulled bytes that prove a live peer: more than the kernel's buffers could hold. */
#define PULL_PROVES 8u

enum put_at { PUT_ACCEPTED, PUT_PULLED, PUT_PLACED, PUT_ON_DRIVES, PUT_NAMED };

/* ---- shared with writes ----------------------------------------------------------------- */

static void pull_piece(struct app_op *op, struct fab_piece *piece, void *to, uint32_t window_at,
		       uint32_t bytes)
{
	int rc;

	ASSERT(bytes > 0);
	*piece = (struct fab_piece){
		.user = op,
		.window_at = window_at,
		.length_bytes = bytes,
		.bytes = to,
	};
	rc = fab_pull(op->req, piece);
	if (rc < 0 && !op->pull_status)
		op->pull_status = rc;
	if (rc == 0) {
		op->pulls_out++;
		app_quota_begin(op->core, op->session);
	}
}

bool app_pull(struct app_op *op, char *to, uint32_t bytes, uint32_t *sums, uint32_t nsums)
{
	ASSERT(op->pulls_out == 0 && bytes > 0 && nsums > 0);
	op->pull_status = 0;
	pull_piece(op, &op->pull[0], sums, op->sums_at, nsums * (uint32_t)sizeof(le32));
	if (!op->pull_status)
		pull_piece(op, &op->pull[1], to, op->window_at, bytes);
	return op->pulls_out == 0;
}

void app_pulled(struct fab_piece *piece)
{
	struct app_op *op = piece->user;

	ASSERT(op->ios_out == 0);
	ASSERT(op->pulls_out > 0);
	op->pulls_out--;
	app_quota_end(op->core, op->session, PULL_PROVES * (uint64_t)piece->length_bytes);
	if (piece->status && !op->pull_status)
		op->pull_status = piece->status;
	if (op->pulls_out == 0)
		app_op_run(op);
}

/* ---- the put ------------------------------------------------------------------------- */

void app_put_item_begin(struct app_op *op)
{
	struct fab_put_item item;

	fab_req_put_item(op->req, op->index, &item);
	op->name[0] = item.name;
	op->names = 1;
	op->file_size = item.size_bytes;
	op->window_at = item.payload_at;
	op->sums_at = item.sums_at;
	op->nblocks = (uint32_t)div_up(item.size_bytes, BLOCK_SIZE);
	op->flags = (item.flags & FAB_PUT_EXCL ? META_EXCL : 0u) |
		    (item.name.nofollow ? META_NOFOLLOW : 0u);
	op->meta.set = (struct meta_attr){
		.mode = item.mode,
		.uid = item.uid,
		.gid = item.gid,
		.mtime_ns = item.mtime_ns,
	};
	ASSERT(op->nblocks <= META_IO_BLOCKS_MAX);
}

/* Checks that the pulled bytes match the client's checksums. */
static int verify(struct app_op *op)
{
	uint64_t left = op->file_size;

	ASSERT(op->pulls_out == 0 && op->nblocks <= ARRAY_LEN(op->crcs));
	if (op->pull_status)
		return op->pull_status;
	for (uint32_t i = 0; i < op->nblocks; i++, left -= min_u64(left, BLOCK_SIZE)) {
		uint32_t bytes = (uint32_t)min_u64(left, BLOCK_SIZE);

		if (unlikely(crc32c_block(op->buf + (size_t)i * BLOCK_SIZE, bytes) !=
			     op->crcs[i])) {
			op->core->stat.bad_sums++;
			return -EBADMSG;
		}
	}
	return 0;
}

/* Start the store's part.  True: over at once. */
static bool name_it(struct app_op *op, bool by_inline)
{
	ASSERT(by_inline ? op->nruns == 0 : op->nruns > 0);
	op->meta.target = op->target[0];
	op->meta.flags = op->flags | (by_inline ? META_BY_INLINE : 0u) |
			 (!by_inline && op->safe ? META_SAFE : 0u);
	op->meta.size = op->file_size;
	op->meta.set_mask = META_SET_MODE | META_SET_UID | META_SET_GID | META_SET_MTIME;
	if (by_inline) {
		op->meta.inline_buf = op->buf ? op->buf : op->small;
		op->meta.inline_len = (uint32_t)op->file_size;
		op->core->stat.inline_bytes += op->file_size;
	} else {
		op->meta.runs = op->runs;
		op->meta.nruns = op->nruns;
		op->meta.crcs = op->crcs;
		op->meta.nblocks = op->nblocks;
	}
	return app_op_meta(op, META_OP_PUT);
}

static enum app_next stage_and_pull(struct app_op *op)
{
	ASSERT(!op->buf && op->pulls_out == 0);
	if (op->file_size == 0)
		return APP_AGAIN;
	op->buf = app_take(op, op->nblocks * BLOCK_SIZE);
	if (!op->buf) {
		op->at = PUT_ACCEPTED;
		return APP_WAIT;
	}
	return app_pull(op, op->buf, (uint32_t)op->file_size, op->crcs, op->nblocks) ? APP_AGAIN
										     : APP_WAIT;
}

enum app_next app_put_step(struct app_op *op)
{
	uint32_t tail = (uint32_t)(op->file_size % BLOCK_SIZE);
	int err;

	switch ((enum put_at)op->at) {
	case PUT_ACCEPTED:
		op->at = PUT_PULLED;
		return stage_and_pull(op);

	case PUT_PULLED: /* payload and checksums lie in our memory */
		ASSERT(op->pulls_out == 0 && (op->buf || op->file_size == 0));
		err = verify(op);
		if (err)
			return app_op_end(op, err);
		if (op->file_size <= META_INLINE_MAX) {
			op->at = PUT_NAMED;
			return name_it(op, true) ? APP_AGAIN : APP_WAIT;
		}
		if (tail)
			memset(op->buf + op->file_size, 0, BLOCK_SIZE - tail);
		op->at = PUT_PLACED;
		wk_fallthrough;

	case PUT_PLACED: /* verified; needs blocks */
		ASSERT(op->buf && op->nblocks > 0);
		err = app_blocks_take(op);
		if (err)
			return err == -EAGAIN ? APP_WAIT : app_op_end(op, err);
		op->at = PUT_ON_DRIVES;
		op->safe = app_op_is_lone(op);
		app_op_io(op, NVME_WRITE, op->runs, op->nruns, op->buf,
			  app_staging_iova(&op->core->staging, op->buf));
		return APP_WAIT;

	case PUT_ON_DRIVES: /* the drives have answered; the store sees to flushes */
		ASSERT(op->ios_out == 0 && op->nruns > 0);
		if (op->io_status) {
			app_blocks_give(op, 0);
			return app_op_end(op, -EIO);
		}
		op->at = PUT_NAMED;
		if (!name_it(op, false))
			return APP_WAIT;
		wk_fallthrough;

	case PUT_NAMED: /* durable, or refused; the blocks are the store's either way */
		op->nruns = 0;
		if (!op->meta.status)
			app_stat_written(op, op->file_size);
		return app_op_end(op, op->meta.status);
	}
	UNREACHABLE();
}
