/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A read, from request to reply: FAB_READ, or one item of a FAB_READ_BATCH.
 *
 *   ACCEPTED --plan--> PLANNED --room in the window--> PLACED --drives--> LANDED --> answer
 *      ^                  |                               |                  |
 *      |                  +-- -EMSGSIZE, behind the end   +-- no staging:    +-- -EIO
 *      |                                                      from the start   |
 *      +----------------- more than 4 MiB: the next piece -------------------+
 *
 * With shared memory the drives write into the client's window; without, into staging, from
 * where the fabric sends (a "part"; small files of a batch share one).  This CPU moves only
 * what lies in the index (inline bytes), and checksums.
 *
 *   file      |  block  |  block  |  block  |        window   | block | block | block | sums
 *             ^ offset (a multiple of 4096) ^ end             ^ window_at
 *
 * A piece ends at a multiple of 4 MiB of the file: what lies within one is one plan, so a
 * write within it is seen whole or not at all: the length that is told comes from the plan of
 * the first piece, so what is planned again is placed again.  Blocks planned are not reused before
 * meta_read_end().  Nobody here looks at checksums: they are the reader's to check.
 */
#include "appliance/app_op.h"

#include <errno.h>
#include <string.h>

enum { READ_TRIES = 8 };
enum read_at { READ_ACCEPTED, READ_PLANNED, READ_PLACED, READ_LANDED };

/* Where in the file the next piece begins: a multiple of 4096. */
static uint64_t piece_from(const struct app_op *op)
{
	return op->offset_bytes + (uint64_t)op->nblocks_done * BLOCK_SIZE;
}

static uint64_t asked_end(const struct app_op *op)
{
	uint64_t end;

	return add_overflows(op->offset_bytes, op->length_bytes, &end) ? UINT64_MAX : end;
}

void app_read_begin(struct app_op *op)
{
	const struct fab_req *req = op->req;

	op->target[0] = (struct meta_target){ .handle = app_handle_in(req->session,
								      &req->args.read.handle) };
	op->offset_bytes = req->args.read.offset_bytes;
	op->length_bytes = req->args.read.length_bytes;
}

void app_read_item_begin(struct app_op *op)
{
	struct fab_read_item item;

	fab_req_read_item(op->req, op->index, &item);
	op->name[0] = item.name;
	op->names = 1;
	op->offset_bytes = item.offset_bytes;
	op->length_bytes = item.length_bytes;
}

/* ---- places ----------------------------------------------------------------------- */

static void give_table(struct app_op *op)
{
	if (op->sums)
		app_table_give(op->core, op->sums, op->sums_bytes);
	op->sums = NULL;
}

/* Room in a window that is this read's alone.  Who begins again has his table still: giving it back
 * would wake others that wait, and himself, for nothing. */
static int place_alone(struct app_op *op)
{
	uint64_t bytes = (uint64_t)op->nblocks * BLOCK_SIZE;

	if (op->nblocks > FAB_SUMS_INLINE)
		bytes += op->nblocks * sizeof(le32);
	if (bytes > op->req->window.length_bytes)
		return -EMSGSIZE;
	bytes = op->nblocks * sizeof(le32);
	if (op->nblocks <= FAB_SUMS_INLINE || (op->sums && bytes <= op->sums_bytes))
		return 0;
	give_table(op);
	op->sums_bytes = (uint32_t)bytes;
	op->sums = app_table_take(op->core, op->sums_bytes);
	return op->sums ? 0 : -EAGAIN;
}

/* ... or in the batch's; of a read that begins again, where it was if it still fits. */
static int place_in_batch(struct app_op *op)
{
	int err;

	if (op->nblocks <= op->nblocks_placed)
		return 0;
	err = app_batch_place(op->batch, op->nblocks, &op->window_at, &op->first_sum);
	if (!err)
		op->nblocks_placed = op->nblocks;
	return err;
}

/* The first plan has told the size: what there is to read, and where it goes. */
static int place(struct app_op *op)
{
	uint64_t end = min_u64(asked_end(op), op->meta.attr.size), nblocks;

	/* Later pieces are this file's, whatever becomes of its name. */
	op->target[1] = op->target[0];
	op->target[0] = (struct meta_target){ .handle = op->meta.attr.handle };
	op->file_size = op->meta.attr.size;
	op->done_bytes = end > op->offset_bytes ? end - op->offset_bytes : 0;
	if (op->done_bytes == 0)
		return 0;
	nblocks = div_up(end, BLOCK_SIZE) - op->offset_bytes / BLOCK_SIZE;
	if (nblocks > FAB_WINDOW_MAX / BLOCK_SIZE)
		return -EMSGSIZE;
	op->nblocks = (uint32_t)nblocks;
	app_turn_cost(op, nblocks * BLOCK_SIZE);
	return op->batch ? place_in_batch(op) : place_alone(op);
}

/* As if nothing had been planned: by its name again, which may be another file's now. */
static void from_the_start(struct app_op *op)
{
	op->nblocks = 0;
	op->nblocks_done = 0;
	op->target[0] = op->target[1];
	op->at = READ_ACCEPTED;
}

/* A later piece: the file may have become shorter meanwhile. */
static void clip(struct app_op *op)
{
	uint64_t end = op->offset_bytes + op->done_bytes;

	if (op->meta.attr.size >= end)
		return;
	end = max_u64(op->meta.attr.size, piece_from(op));
	op->done_bytes = end > op->offset_bytes ? end - op->offset_bytes : 0;
	op->nblocks = (uint32_t)(div_up(end, BLOCK_SIZE) - op->offset_bytes / BLOCK_SIZE);
}

static uint32_t piece_blocks(const struct app_op *op)
{
	return min_u32(op->meta.nblocks, op->nblocks - op->nblocks_done);
}

/* ---- landing ------------------------------------------------------------------------ */

static void close_part(struct app_op *op, struct app_part *part)
{
	part->closed = true;
	app_part_filled(op->core, op->req, part);
}

/* A part whose next bytes belong at window_at; NULL: the operation waits. */
static struct app_part *part_for(struct app_op *op, uint32_t window_at, uint32_t bytes)
{
	struct app_part *part = op->batch ? op->batch->part : NULL;
	uint32_t capacity = bytes, room;

	if (part && part->piece.window_at + part->piece.length_bytes == window_at &&
	    part->capacity_bytes - part->piece.length_bytes >= bytes)
		return part;
	if (op->batch) {
		room = op->batch->blocks_max * BLOCK_SIZE - window_at;
		capacity = max_u32(bytes, min_u32(room, APP_PART_BYTES));
		op->batch->part = NULL;
	}
	if (part)
		close_part(op, part);
	part = app_parts_few(op->core) ? NULL : app_part_take(op);
	if (!part) {
		app_op_wait(op, APP_ON_PART, &op->core->part_waiters);
		app_parts_hurry(op->core);
		return NULL;
	}
	part->buf = app_take(op, capacity);
	if (!part->buf) {
		op->core->parts_out--;
		list_push_front(&op->core->part_free, &part->link);
		return NULL;
	}
	part->capacity_bytes = capacity;
	part->piece.window_at = window_at;
	if (op->batch)
		op->batch->part = part;
	else
		part->closed = true;
	return part;
}

/* Where the drives put the next piece; NULL: the operation waits for staging. */
static char *land(struct app_op *op, uint32_t nblocks, uint64_t *iova)
{
	uint32_t at = op->window_at + op->nblocks_done * BLOCK_SIZE, bytes = nblocks * BLOCK_SIZE;
	char *to = fab_window_addr(op->req, at, bytes, iova);
	struct app_part *part;

	if (to)
		return to;
	part = part_for(op, at, bytes);
	if (!part)
		return NULL;
	to = part->buf + part->piece.length_bytes;
	part->piece.length_bytes += bytes;
	part->filling++;
	op->part = part;
	*iova = app_staging_iova(&op->core->staging, to);
	return to;
}

static void fetch(struct app_op *op, uint32_t nblocks, char *to, uint64_t iova)
{
	uint32_t nruns = op->meta.nruns, left = nblocks;

	op->landing = to;
	for (uint32_t i = 0; i < nruns; i++) { /* no more than the window has room for */
		op->runs[i].nblocks = min_u32(op->runs[i].nblocks, left);
		left -= op->runs[i].nblocks;
		if (left == 0)
			nruns = i + 1;
	}
	app_op_io(op, NVME_READ, op->runs, nruns, to, iova);
	if (op->meta.inline_len && op->meta.inline_at < nblocks) { /* into what is zeros now */
		memcpy(to + (size_t)op->meta.inline_at * BLOCK_SIZE, op->small,
		       op->meta.inline_len);
		op->core->stat.inline_bytes += op->meta.inline_len;
	}
}

/* It is there, or never will be: the checksums to the others, the part on its way. */
static void landed(struct app_op *op, uint32_t nblocks)
{
	uint32_t *table = op->batch ? op->batch->sums + op->first_sum : op->sums;
	struct app_part *part = op->part;

	if (!table)
		table = op->few_sums;
	memcpy(table + op->nblocks_done, op->crcs, nblocks * sizeof(uint32_t));
	if (part) {
		if (unlikely(op->io_status)) /* staging holds what others wrote */
			memset(op->landing, 0, (size_t)nblocks * BLOCK_SIZE);
		op->part = NULL;
		part->filling--;
		app_part_filled(op->core, op->req, part);
	}
	op->nblocks_done += nblocks;
}

/* ---- the read ------------------------------------------------------------------------- */

static bool plan(struct app_op *op)
{
	uint64_t from = piece_from(op), end = asked_end(op);

	op->meta.target = op->target[0];
	op->meta.flags = op->names && op->name[0].nofollow ? META_NOFOLLOW : 0;
	op->meta.offset = from;
	op->meta.length = min_u64(end, align_down(from, APP_CHUNK_BYTES) + APP_CHUNK_BYTES) - from;
	op->meta.runs = op->runs;
	op->meta.crcs = op->crcs;
	op->meta.runs_max = APP_RUNS_MAX;
	op->meta.blocks_max = META_IO_BLOCKS_MAX;
	op->meta.inline_buf = op->small;
	return app_op_meta(op, META_OP_READ);
}

/* The file went between two pieces, and its name may be another's now: true: from the start. */
static bool replaced(struct app_op *op)
{
	if (op->meta.status != -ESTALE || op->nblocks == 0 || !op->names ||
	    ++op->tries > READ_TRIES)
		return false;
	give_table(op);
	op->nblocks_placed = 0; /* pieces of the other may still be on their way there */
	from_the_start(op);
	return true;
}

/* No drive is asked for it, or for no more of it. */
static enum app_next nothing_more(struct app_op *op, int status)
{
	if (op->nblocks_done == 0)
		app_turn_cost(op, 0);
	return app_op_end(op, status);
}

enum app_next app_read_step(struct app_op *op)
{
	uint64_t iova;
	char *to;
	int err;

	switch ((enum read_at)op->at) {
	case READ_ACCEPTED:
		if (op->offset_bytes % BLOCK_SIZE)
			return app_op_end(op, -EINVAL);
		if (op->nblocks_done > 0 && !app_turn_resume(op))
			return APP_WAIT;
		op->at = READ_PLANNED;
		if (!plan(op))
			return APP_WAIT;
		wk_fallthrough;

	case READ_PLANNED: /* op->meta knows the blocks, and keeps them from being reused */
		if (op->meta.status)
			return replaced(op) ? APP_AGAIN : nothing_more(op, op->meta.status);
		if (op->nblocks == 0)
			err = place(op);
		else
			err = 0, clip(op);
		if (err == -EAGAIN) { /* no table for its checksums: from the start, later */
			app_read_end(op);
			from_the_start(op);
			app_op_wait(op, APP_ON_PART, &op->core->part_waiters);
			app_parts_hurry(op->core);
			return APP_WAIT;
		}
		if (err || op->nblocks_done >= op->nblocks)
			return nothing_more(op, err);
		op->at = READ_PLACED;
		wk_fallthrough;

	case READ_PLACED: /* its blocks of the window are this read's */
		if (piece_blocks(op) == 0)
			return app_op_end(op, -EIO); /* a size with nothing behind it */
		to = land(op, piece_blocks(op), &iova);
		if (!to) { /* it may take long: blocks must not be kept from reuse */
			app_read_end(op);
			op->at = READ_ACCEPTED;
			if (op->nblocks_done == 0)
				from_the_start(op);
			return APP_WAIT;
		}
		op->at = READ_LANDED;
		fetch(op, piece_blocks(op), to, iova);
		if (op->ios_out)
			return APP_WAIT;
		wk_fallthrough;

	case READ_LANDED: /* the drives have answered */
		app_read_end(op);
		landed(op, piece_blocks(op));
		if (op->io_status)
			return app_op_end(op, -EIO);
		if (op->nblocks_done >= op->nblocks)
			return app_op_end(op, 0);
		op->at = READ_ACCEPTED;
		op->its_turn = false;
		return APP_AGAIN;
	}
	UNREACHABLE();
}

void app_read_answer(struct app_op *op)
{
	uint32_t sums_at = op->nblocks * BLOCK_SIZE, *sums;

	if (op->status) {
		fab_reply(op->req, op->status, NULL, 0);
		return;
	}
	op->core->stat.read_bytes += op->done_bytes;
	if (op->nblocks <= FAB_SUMS_INLINE) {
		fab_reply_read(op->req, (uint32_t)op->done_bytes,
			       op->sums ? op->sums : op->few_sums, 0);
		return;
	}
	sums = op->sums;
	op->sums = NULL;
	if (!app_table_send(op, sums, op->sums_bytes, sums, sums_at,
			    op->nblocks * (uint32_t)sizeof(le32))) {
		fab_reply(op->req, -EAGAIN, NULL, 0); /* the fabric is very far behind */
		return;
	}
	fab_reply_read(op->req, (uint32_t)op->done_bytes, NULL, sums_at);
}
