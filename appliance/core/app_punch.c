/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A punch: turns a range of a file into a hole, from front to back.
 *
 *   ACCEPTED --lock--> SEEK <------------------------------ the next piece ----------------+
 *                       | skip existing holes                                              |
 *                       v                                                                  |
 *   piece   up to the next multiple of 4 MiB: |aa00|0000| ... |0000|00zz|                  |
 *                       |                     head                 tail                    |
 *                       v                                                                  |
 *                     EDGE --plan--> EDGE_KNOWN --old block--> EDGE_READ --.               |
 *                       ^ <------- zeroed and summed, in staging ----------'               |
 *                       | both are done                                                    |
 *                       +--> PLACED --new blocks--> ON_DRIVE --store--> LOGGED ------------+
 *
 * A block of which a part stays is read, verified, and rewritten as a write does it; if the index
 * has the bytes (the tail), the store zeroes them itself.  An existing hole costs only a seek, so a
 * range may be of any size.
 *
 * Invariants:
 *
 *  (1) The file is locked throughout: from the first piece to the last no write comes in between.
 *  (2) Only the last piece leaves a receipt: zeros over zeros are zeros, so a punch done in part
 *      is repeated from its start.
 */
#include "appliance/core/app_mend.h"
#include "appliance/core/app_op.h"

#include <errno.h>
#include <string.h>

#define PIECE_BYTES (4ull << 20)

enum punch_at {
	PUNCH_ACCEPTED,
	PUNCH_SEEK,
	PUNCH_SOUGHT,
	PUNCH_EDGE,
	PUNCH_EDGE_KNOWN,
	PUNCH_EDGE_READ,
	PUNCH_PLACED,
	PUNCH_ON_DRIVE,
	PUNCH_LOGGED,
};

void app_punch_begin(struct app_op *op)
{
	ASSERT(op->req->type == FAB_PUNCH && op->req->args.range.length_bytes > 0);
	op->handle = app_handle_in(op->req->session, &op->req->args.range.handle);
	op->target[0] = (struct meta_target){ .handle = op->handle };
	op->offset_bytes = op->req->args.range.offset_bytes;
	op->length_bytes = op->req->args.range.length_bytes;
}

/* Returns the end of the next piece of the rest, [offset_bytes, + length_bytes). */
static uint64_t piece_end(const struct app_op *op)
{
	ASSERT(op->length_bytes > 0);
	return min_u64(op->offset_bytes + op->length_bytes,
		       align_down(op->offset_bytes, PIECE_BYTES) + PIECE_BYTES);
}

static bool seek(struct app_op *op)
{
	ASSERT(op->locked); /* (1) */
	op->meta.target = op->target[0];
	op->meta.flags = META_TO_WRITE;
	op->meta.offset = op->offset_bytes;
	op->meta.size = 0;
	return app_op_meta(op, META_OP_SEEK);
}

/* Finds the start of the next piece.  -ENODATA: the rest of the range is holes. */
static int sought(struct app_op *op)
{
	uint64_t end;

	if (op->meta.status && op->meta.status != -ENXIO)
		return op->meta.status;
	op->file_size = op->meta.attr.size;
	if (op->offset_bytes >= op->file_size)
		return -ENODATA;
	end = min_u64(op->offset_bytes + op->length_bytes, op->file_size);
	if (op->meta.status || op->meta.length >= end) { /* no data: the last piece, and a hole */
		op->length_bytes = min_u64(end, piece_end(op)) - op->offset_bytes;
		return 0;
	}
	op->offset_bytes = op->meta.length;
	op->length_bytes = end - op->offset_bytes;
	ASSERT(op->length_bytes > 0 && op->offset_bytes < op->file_size);
	return 0;
}

/* ---- edges -------------------------------------------------------------------------- */

static uint64_t edge_block(const struct app_op *op)
{
	ASSERT(op->edge <= 1);
	return (op->edge ? piece_end(op) - 1 : op->offset_bytes) / BLOCK_SIZE;
}

/* Some of the edge's block stays, and the block was not looked at yet. */
static bool edge_stays(const struct app_op *op)
{
	const uint64_t end = piece_end(op);
	const bool head = op->offset_bytes % BLOCK_SIZE != 0;

	ASSERT(op->edge <= 1);
	if (op->edge == 0)
		return head;
	return end % BLOCK_SIZE && end < op->file_size &&
	       !(head && edge_block(op) == op->offset_bytes / BLOCK_SIZE);
}

static char *edge_at(const struct app_op *op)
{
	ASSERT(op->buf && op->nblocks < 2);
	return op->buf + (size_t)op->nblocks * BLOCK_SIZE;
}

static bool plan_edge(struct app_op *op)
{
	ASSERT(op->locked && op->nruns == 0); /* (1) */
	op->at = PUNCH_EDGE_KNOWN;
	op->meta.target = op->target[0];
	op->meta.flags = META_TO_WRITE;
	op->meta.offset = edge_block(op) * BLOCK_SIZE;
	op->meta.length = BLOCK_SIZE;
	op->meta.runs = op->runs;
	op->meta.crcs = &op->edge_sum;
	op->meta.runs_max = 1;
	op->meta.blocks_max = 1;
	op->meta.inline_buf = op->small;
	return app_op_meta(op, META_OP_READ);
}

/* True: the old block is on its way. */
static bool read_edge(struct app_op *op)
{
	ASSERT(op->locked);
	op->at = PUNCH_EDGE_READ;
	op->io_status = 0;
	op->merging = op->meta.nblocks && op->runs[0].baddr; /* no hole, no tail */
	if (op->merging)
		app_op_io(op, NVME_READ, op->runs, 1, edge_at(op),
			  app_staging_iova(&op->core->staging, edge_at(op)));
	return op->merging;
}

/* True: it is read again, from another copy. */
static bool edge_again(struct app_op *op)
{
	const struct app_old_block old = { op->handle, edge_block(op), edge_at(op), op->edge_sum };

	return op->merging && app_mend_block(op, &old);
}

static int zero_edge(struct app_op *op)
{
	const uint64_t at = edge_block(op) * BLOCK_SIZE;
	const uint64_t from = max_u64(op->offset_bytes, at);

	ASSERT(from - at < BLOCK_SIZE && op->edge <= 1);
	app_read_end(op);
	op->edge++;
	if (!op->merging)
		return 0;
	op->merging = false;
	if (op->io_status || crc32c(edge_at(op), BLOCK_SIZE) != op->edge_sum) {
		op->core->stat.bad_blocks += !op->io_status;
		(void)app_suspect(op->core, &op->handle, at / BLOCK_SIZE, 1);
		return -EIO;
	}
	memset(edge_at(op) + (from - at), 0, min_u64(piece_end(op), at + BLOCK_SIZE) - from);
	op->crcs[op->nblocks] = crc32c(edge_at(op), BLOCK_SIZE);
	op->nblocks++;
	op->core->stat.merged_blocks++;
	return 0;
}

static enum app_next edge(struct app_op *op)
{
	ASSERT(op->edge <= 2 && op->nblocks <= 2);
	while (op->edge < 2 && !edge_stays(op))
		op->edge++;
	if (op->edge == 2) {
		op->at = op->nblocks ? PUNCH_PLACED : PUNCH_ON_DRIVE;
		return APP_AGAIN;
	}
	if (!op->buf)
		op->buf = app_take(op, 2 * BLOCK_SIZE);
	return op->buf && plan_edge(op) ? APP_AGAIN : APP_WAIT;
}

/* ---- the store's part ------------------------------------------------------------------ */

static bool log_piece(struct app_op *op)
{
	const uint64_t client = op->receipt.client, end = piece_end(op);
	bool over;

	ASSERT(op->locked && end > op->offset_bytes); /* (1) */
	op->at = PUNCH_LOGGED;
	op->meta.target = op->target[0];
	op->meta.flags = 0;
	op->meta.size = 0;
	op->meta.offset = op->offset_bytes;
	op->meta.length = end - op->offset_bytes;
	op->meta.runs = op->runs;
	op->meta.crcs = op->crcs;
	op->meta.nruns = op->nruns;
	op->meta.nblocks = op->nblocks;
	if (end < op->offset_bytes + op->length_bytes)
		op->receipt.client = 0;                                            /* (2) */
	ASSERT(!op->receipt.client || end == op->offset_bytes + op->length_bytes); /* (2) */
	over = app_op_meta(op, META_OP_PUNCH);
	op->receipt.client = client;
	return over;
}

static enum app_next logged(struct app_op *op)
{
	const uint64_t end = piece_end(op);

	ASSERT(end > op->offset_bytes && end - op->offset_bytes <= op->length_bytes);
	op->nruns = 0;
	op->length_bytes -= end - op->offset_bytes;
	op->offset_bytes = end;
	if (op->meta.status || op->length_bytes == 0)
		return app_op_end(op, op->meta.status);
	if (op->cancel)
		return app_op_end(op, op->cancel);
	op->at = PUNCH_SEEK;
	return APP_AGAIN;
}

enum app_next app_punch_step(struct app_op *op)
{
	int err;

	switch ((enum punch_at)op->at) {
	case PUNCH_ACCEPTED:
		if (!app_file_lock_all(op))
			return APP_WAIT;
		op->at = PUNCH_SEEK;
		wk_fallthrough;

	case PUNCH_SEEK: /* (1) */
		op->at = PUNCH_SOUGHT;
		if (!seek(op))
			return APP_WAIT;
		wk_fallthrough;

	case PUNCH_SOUGHT:
		err = sought(op);
		if (err)
			return app_op_end(op, err == -ENODATA ? 0 : err);
		op->edge = 0;
		op->nblocks = 0;
		op->nruns = 0;
		op->at = PUNCH_EDGE;
		wk_fallthrough;

	case PUNCH_EDGE: /* the next of the two */
		return edge(op);

	case PUNCH_EDGE_KNOWN: /* op->meta keeps the old block from being reused */
		ASSERT(op->locked && op->buf && op->edge <= 1); /* (1) */
		if (op->meta.status)
			return app_op_end(op, op->meta.status);
		if (read_edge(op))
			return APP_WAIT;
		wk_fallthrough;

	case PUNCH_EDGE_READ:
		if (edge_again(op))
			return APP_WAIT;
		err = zero_edge(op);
		if (err)
			return app_op_end(op, err);
		op->at = PUNCH_EDGE;
		return APP_AGAIN;

	case PUNCH_PLACED: /* zeroed and summed; needs blocks */
		ASSERT(op->locked && op->nblocks > 0 && op->nblocks <= 2);
		err = app_blocks_take(op);
		if (err)
			return err == -EAGAIN ? APP_WAIT : app_op_end(op, err);
		op->at = PUNCH_ON_DRIVE;
		app_op_io(op, NVME_WRITE, op->runs, op->nruns, op->buf,
			  app_staging_iova(&op->core->staging, op->buf));
		return APP_WAIT;

	case PUNCH_ON_DRIVE: /* the drives have answered, if there was anything for them */
		ASSERT(op->ios_out == 0 && op->locked);
		if (op->nruns && op->io_status) {
			app_blocks_give(op, 0);
			return app_op_end(op, -EIO);
		}
		return log_piece(op) ? APP_AGAIN : APP_WAIT;

	case PUNCH_LOGGED: /* durable, or refused; the blocks are the store's either way */
		return logged(op);
	}
	UNREACHABLE();
}
