/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A read, from request to reply: FAB_READ, or one item of a FAB_READ_BATCH.
 *
 *   ACCEPTED --plan--> PLANNED --room in the window--> PLACED --drives--> LANDED --> answer
 *      ^                  |                               |                  |
 *      |                  +-- -EMSGSIZE, past the end     +-- no staging:    +-- -EIO
 *      |                                                      from the start   |
 *      +----------------- more than 4 MiB: the next piece -------------------+
 *
 * With shared memory the drives write into the client's window; without, into staging, from where
 * the fabric sends (a "part"; small files of a batch share one).  This CPU moves only bytes stored
 * in the index (inline bytes), and checksums.
 *
 *   file      |  block  |  block  |  block  |        window   | block | block | block | sums
 *             ^ offset (a multiple of 4096) ^ end             ^ window_at
 *
 * A piece ends at a multiple of 4 MiB of the file: everything within one is one plan, so a write
 * within it is seen whole or not at all.  The length in the reply comes from the plan of the first
 * piece, so a repeated plan is placed again.  Planned blocks are not reused before meta_read_end().
 * The appliance does not verify checksums: the reader does.
 *
 * Into staging a piece goes in slices (app_quota.c).  A read whose session may have no slice now
 * gives its plan up, because it may wait for its peer.  Then the whole piece is planned again, and
 * continues after the slices that have landed if their checksums are still the same.  Otherwise the
 * piece starts over, in the same places of the window; after REDO_MAX times it waits for room for
 * all of it at once.
 */
#include "appliance/core/app_quota.h"
#include "appliance/core/app_mend.h"
#include "appliance/core/app_op.h"
#include "appliance/core/app_stat.h"

#include <errno.h>
#include <string.h>

enum { READ_TRIES = 8, REDO_MAX = 4 };
enum read_at { READ_ACCEPTED, READ_PLANNED, READ_PLACED, READ_LANDED };

/* Where in the file the piece begins: a multiple of 4096. */
static uint64_t piece_from(const struct app_op *op)
{
	DASSERT(op->chunk_from <= op->nblocks || op->nblocks == 0);
	return op->offset_bytes + (uint64_t)op->chunk_from * BLOCK_SIZE;
}

static uint64_t asked_end(const struct app_op *op)
{
	uint64_t end;

	return add_overflows(op->offset_bytes, op->length_bytes, &end) ? UINT64_MAX : end;
}

void app_read_begin(struct app_op *op)
{
	const struct fab_req *req = op->req;

	DASSERT(op->kind == APP_OP_READ && !op->batch);
	op->target[0] = (struct meta_target){ .handle = app_handle_in(req->session,
								      &req->args.read.handle) };
	op->offset_bytes = req->args.read.offset_bytes;
	op->length_bytes = req->args.read.length_bytes;
	op->doubt = fab_req_doubts(req) && meta_twins_blocks(op->core->twins);
}

void app_read_item_begin(struct app_op *op)
{
	struct fab_read_item item;

	DASSERT(op->kind == APP_OP_READ && op->batch);
	fab_req_read_item(op->req, op->index, &item);
	op->name[0] = item.name;
	op->names = 1;
	op->offset_bytes = item.offset_bytes;
	op->length_bytes = item.length_bytes;
	op->meta.ctime_ns = item.ctime_ns;
	op->doubt = fab_req_doubts(op->req) && meta_twins_blocks(op->core->twins);
}

/* ---- places ----------------------------------------------------------------------- */

static void give_table(struct app_op *op)
{
	if (op->sums)
		app_table_give(op->core, op->session, op->sums, op->sums_bytes);
	op->sums = NULL;
}

/* Finds room in a window that belongs to this read alone.  A restarted read keeps its table: giving
 * it back would wake other waiters, and the read itself, for nothing. */
static int place_alone(struct app_op *op)
{
	uint64_t bytes = (uint64_t)op->nblocks * BLOCK_SIZE;

	DASSERT(!op->batch && op->nblocks > 0);
	if (op->nblocks > FAB_SUMS_INLINE)
		bytes += op->nblocks * sizeof(le32);
	if (bytes > op->req->window.length_bytes)
		return -EMSGSIZE;
	bytes = op->nblocks * sizeof(le32);
	if (op->nblocks <= FAB_SUMS_INLINE || (op->sums && bytes <= op->sums_bytes))
		return 0;
	give_table(op);
	op->sums_bytes = (uint32_t)bytes;
	op->sums = app_table_take(op->core, op->session, op->sums_bytes);
	return op->sums ? 0 : -EAGAIN;
}

/* ... or in the batch's; of a read that begins again, where it was if it still fits. */
static int place_in_batch(struct app_op *op)
{
	int err;

	DASSERT(op->batch && op->nblocks > 0);
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
	DASSERT(op->nblocks > 0 && op->nblocks_done == 0);
	app_turn_cost(op, nblocks * BLOCK_SIZE);
	return op->batch ? place_in_batch(op) : place_alone(op);
}

/* As if nothing had been planned: by its name again, which may be another file's now. */
static void from_the_start(struct app_op *op)
{
	ASSERT(!op->part && op->ios_out == 0);
	op->nblocks = 0;
	op->nblocks_done = op->chunk_from = 0;
	op->target[0] = op->target[1];
	op->at = READ_ACCEPTED;
}

/* A later piece: the file may have become shorter since. */
static void clip(struct app_op *op)
{
	uint64_t end = op->offset_bytes + op->done_bytes;

	DASSERT(op->nblocks_done <= op->nblocks);
	if (op->meta.attr.size >= end)
		return;
	end = max_u64(op->meta.attr.size, piece_from(op));
	op->done_bytes = end > op->offset_bytes ? end - op->offset_bytes : 0;
	op->nblocks = (uint32_t)(div_up(end, BLOCK_SIZE) - op->offset_bytes / BLOCK_SIZE);
}

/* Blocks of the piece that have landed. */
static uint32_t landed_blocks(const struct app_op *op)
{
	DASSERT(op->nblocks_done >= op->chunk_from);
	return op->nblocks_done - op->chunk_from;
}

/* ... and that have not. */
static uint32_t left_blocks(const struct app_op *op)
{
	uint32_t nblocks = min_u32(op->meta.nblocks, op->nblocks - op->chunk_from);

	DASSERT(op->nblocks >= op->chunk_from);
	return nblocks - min_u32(nblocks, landed_blocks(op));
}

static uint32_t *table_of(struct app_op *op)
{
	DASSERT(!op->batch || op->first_sum + op->nblocks <= op->batch->blocks_max);
	if (op->batch)
		return op->batch->sums + op->first_sum;
	return op->sums ? op->sums : op->few_sums;
}

/* A piece with landed slices was planned again: checks that the slices are unchanged. */
static void check_slices(struct app_op *op)
{
	uint32_t count = landed_blocks(op);

	if (likely(count == 0))
		return;
	ASSERT(count <= op->nblocks && op->nblocks_done <= op->nblocks);
	if (count <= op->meta.nblocks &&
	    memcmp(table_of(op) + op->chunk_from, op->crcs, count * sizeof(op->crcs[0])) == 0)
		return;
	op->nblocks_done = op->chunk_from;
	op->redone++;
}

/* ---- landing ------------------------------------------------------------------------ */

static void close_part(struct app_op *op, struct app_part *part)
{
	ASSERT(!part->in_flight && !part->closed);
	part->closed = true;
	app_part_filled(op->core, op->req, part);
}

/* Returns the free bytes of the batch's part, for data at window_at. */
static uint32_t part_room(const struct app_part *part, uint32_t window_at)
{
	DASSERT(part->piece.length_bytes <= part->capacity_bytes);
	if (part->piece.window_at + part->piece.length_bytes != window_at)
		return 0;
	return part->capacity_bytes - part->piece.length_bytes;
}

/* Begins a part at window_at, for as much as it may have of *bytes; NULL: the operation waits. */
static struct app_part *part_begin(struct app_op *op, uint32_t window_at, uint32_t *bytes)
{
	struct app_core *core = op->core;
	bool enough = app_parts_enough(core, op->session);
	struct app_part *part = enough || app_parts_few(core) ? NULL : app_part_take(op);
	uint32_t capacity = *bytes;

	if (!part) {
		if (enough)
			app_quota_wait(op);
		else
			app_op_wait(op, APP_ON_PART, &core->part_waiters);
		app_parts_hurry(core);
		return NULL;
	}
	if (op->batch)
		capacity = max_u32(capacity, min_u32(op->batch->blocks_max * BLOCK_SIZE - window_at,
						     APP_PART_BYTES));
	part->buf = op->redone < REDO_MAX ? app_take_most(op, &capacity) : app_take(op, capacity);
	if (!part->buf) {
		app_part_untake(core, part);
		return NULL;
	}
	*bytes = min_u32(*bytes, capacity);
	ASSERT(*bytes > 0 && *bytes <= capacity);
	part->capacity_bytes = capacity;
	part->piece.window_at = window_at;
	part->piece.length_bytes = 0;
	return part;
}

/* A part whose next bytes belong at window_at, with room for at least some of *bytes; NULL: the
 * operation waits. */
static struct app_part *part_for(struct app_op *op, uint32_t window_at, uint32_t *bytes)
{
	struct app_part *part = op->batch ? op->batch->part : NULL;
	uint32_t room = part ? part_room(part, window_at) : 0;

	ASSERT(*bytes > 0);
	if (room >= min_u32(*bytes, APP_SLICE_MIN)) {
		*bytes = min_u32(*bytes, room);
		return part;
	}
	if (part) {
		op->batch->part = NULL;
		close_part(op, part);
	}
	part = part_begin(op, window_at, bytes);
	if (part && op->batch)
		op->batch->part = part;
	else if (part)
		part->closed = true;
	return part;
}

/* A part that is full waits for nothing more. */
static void fill_part(struct app_op *op, struct app_part *part, uint32_t bytes)
{
	ASSERT(!op->part && bytes > 0);
	part->piece.length_bytes += bytes;
	ASSERT(part->piece.length_bytes <= part->capacity_bytes);
	part->filling++;
	op->part = part;
	if (!op->batch || part->capacity_bytes - part->piece.length_bytes >= BLOCK_SIZE)
		return;
	part->closed = true;
	op->batch->part = NULL;
}

/* Returns where the drives put the next *nblocks, which may become fewer; NULL: the operation waits
 * for staging. */
static char *land(struct app_op *op, uint32_t *nblocks, uint64_t *iova)
{
	uint32_t at = op->window_at + op->nblocks_done * BLOCK_SIZE, bytes = *nblocks * BLOCK_SIZE;
	char *to = fab_window_addr(op->req, at, bytes, iova);
	struct app_part *part;

	DASSERT(*nblocks > 0 && op->nblocks_done + *nblocks <= op->nblocks);
	if (to)
		return to;
	part = part_for(op, at, &bytes);
	if (!part)
		return NULL;
	app_turn_slice(op, bytes);
	to = part->buf + part->piece.length_bytes;
	fill_part(op, part, bytes);
	*nblocks = bytes / BLOCK_SIZE;
	*iova = app_staging_iova(&op->core->staging, to);
	return to;
}

/* The runs of the plan's blocks [skip, skip + nblocks).  Returns how many. */
static uint32_t runs_of(const struct app_op *op, uint32_t skip, uint32_t nblocks,
			struct meta_run *out)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < op->meta.nruns && nblocks > 0; i++) {
		struct meta_run run = op->runs[i];
		uint32_t less = min_u32(skip, run.nblocks);

		skip -= less;
		run.nblocks -= less;
		run.baddr += run.baddr ? less : 0;
		run.nblocks = min_u32(run.nblocks, nblocks);
		nblocks -= run.nblocks;
		if (run.nblocks > 0)
			out[count++] = run;
	}
	DASSERT(count <= APP_RUNS_MAX);
	return count;
}

static void fetch(struct app_op *op, uint32_t nblocks, char *to, uint64_t iova)
{
	struct meta_run runs[APP_RUNS_MAX];
	uint32_t skip = landed_blocks(op), inline_at = op->meta.inline_at - skip;

	DASSERT(nblocks > 0 && skip + nblocks <= op->meta.nblocks);
	op->landing = to;
	op->landing_iova = iova;
	op->mends = 0;
	op->nblocks_landing = nblocks;
	app_op_io(op, NVME_READ, runs, runs_of(op, skip, nblocks, runs), to, iova);
	if (op->meta.inline_len && op->meta.inline_at >= skip && inline_at < nblocks) {
		/* into bytes that are zeros now */
		memcpy(to + (size_t)inline_at * BLOCK_SIZE, op->small, op->meta.inline_len);
		op->core->stat.inline_bytes += op->meta.inline_len;
	}
}

/* The block was read, or failed: stores its checksums, and sends the part if it is complete. */
static void landed(struct app_op *op)
{
	uint32_t nblocks = op->nblocks_landing;
	struct app_part *part = op->part;

	DASSERT(nblocks > 0 && op->nblocks_done + nblocks <= op->nblocks);
	memcpy(table_of(op) + op->nblocks_done, op->crcs + landed_blocks(op),
	       nblocks * sizeof(uint32_t));
	if (part) {
		if (unlikely(op->io_status)) /* staging has bytes of others */
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

	DASSERT(from % BLOCK_SIZE == 0 && end >= from);
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

/* Returns true if the file was replaced between two pieces, and the read must start over. */
static bool replaced(struct app_op *op)
{
	if (op->meta.status != -ESTALE || op->nblocks == 0 || !op->names ||
	    ++op->tries > READ_TRIES)
		return false;
	give_table(op);
	op->nblocks_placed = 0; /* pieces of the other may still be on their way there */
	from_the_start(op);
	ASSERT(op->nblocks_done == 0 && op->at == READ_ACCEPTED);
	return true;
}

/* No drive is asked for it, or for no more of it. */
static enum app_next nothing_more(struct app_op *op, int status)
{
	DASSERT(!op->part);
	if (op->nblocks_done == 0)
		app_turn_cost(op, 0);
	return app_op_end(op, status);
}

/* Restarts the read once there is a table for its checksums. */
static enum app_next wait_for_table(struct app_op *op)
{
	ASSERT(op->nblocks_done == 0 && !op->sums);
	app_read_end(op);
	from_the_start(op);
	app_op_wait(op, APP_ON_PART, &op->core->part_waiters);
	app_parts_hurry(op->core);
	return APP_WAIT;
}

/* Waits for a slice.  That may take long, so the read gives up its plan: blocks must not be kept
 * from reuse. */
static enum app_next wait_for_slice(struct app_op *op)
{
	ASSERT(!op->part && op->ios_out == 0);
	app_read_end(op);
	op->at = READ_ACCEPTED;
	if (op->nblocks_done == 0)
		from_the_start(op);
	return APP_WAIT;
}

/* op->meta knows the blocks of the piece.  APP_WAIT: there are some to be read. */
static enum app_next planned(struct app_op *op)
{
	int err = 0;

	DASSERT(op->ios_out == 0 && !op->part);
	if (op->meta.status)
		return replaced(op) ? APP_AGAIN : nothing_more(op, op->meta.status);
	if (op->nblocks == 0) {
		err = place(op);
		if (err == -EAGAIN)
			return wait_for_table(op);
	} else {
		check_slices(op);
		clip(op);
	}
	return err || op->nblocks_done >= op->nblocks ? nothing_more(op, err) : APP_WAIT;
}

/* A slice has landed: more of the piece, of the next one, or the end. */
static enum app_next slice_done(struct app_op *op)
{
	const uint32_t from = op->nblocks_done;

	DASSERT(op->ios_out == 0);
	landed(op);
	DASSERT(!op->part && op->nblocks_done > from);
	if (unlikely(op->io_status))
		(void)app_suspect(op->core, &op->target[0].handle,
				  op->offset_bytes / BLOCK_SIZE + from, op->nblocks_done - from);
	if (op->io_status || op->nblocks_done >= op->nblocks) {
		app_read_end(op);
		return app_op_end(op, op->io_status ? -EIO : 0);
	}
	if (left_blocks(op) > 0) {
		op->at = READ_PLACED;
		return APP_AGAIN;
	}
	app_read_end(op);
	op->chunk_from = op->nblocks_done;
	op->at = READ_ACCEPTED;
	op->its_turn = op->its_chunk = false;
	return APP_AGAIN;
}

enum app_next app_read_step(struct app_op *op)
{
	enum app_next next;
	uint32_t nblocks;
	uint64_t iova;
	char *to;

	switch ((enum read_at)op->at) {
	case READ_ACCEPTED:
		if (op->offset_bytes % BLOCK_SIZE)
			return app_op_end(op, -EINVAL);
		if (op->chunk_from > 0 && !op->its_chunk && !app_turn_resume(op))
			return APP_WAIT;
		op->its_chunk = true;
		op->at = READ_PLANNED;
		if (!plan(op))
			return APP_WAIT;
		wk_fallthrough;

	case READ_PLANNED: /* op->meta knows the blocks, and keeps them from being reused */
		next = planned(op);
		if (next != APP_WAIT || op->at != READ_PLANNED)
			return next;
		op->at = READ_PLACED;
		wk_fallthrough;

	case READ_PLACED: /* its blocks of the window are this read's */
		nblocks = left_blocks(op);
		if (nblocks == 0)
			return app_op_end(op, -EIO); /* a size without blocks */
		to = land(op, &nblocks, &iova);
		if (!to)
			return wait_for_slice(op);
		op->at = READ_LANDED;
		fetch(op, nblocks, to, iova);
		if (op->ios_out)
			return APP_WAIT;
		wk_fallthrough;

	case READ_LANDED: /* the drives have answered */
		if (unlikely(op->doubt) && !op->io_status && app_mend_read(op, landed_blocks(op)))
			return APP_WAIT;
		return slice_done(op);
	}
	UNREACHABLE();
}

void app_read_answer(struct app_op *op)
{
	uint32_t sums_at = op->nblocks * BLOCK_SIZE, *sums;

	DASSERT(!op->batch && !op->part);
	if (op->status) {
		fab_reply(op->req, op->status, NULL, 0);
		return;
	}
	app_stat_read(op, op->done_bytes);
	DASSERT(op->done_bytes <= (uint64_t)op->nblocks * BLOCK_SIZE);
	if (op->nblocks <= FAB_SUMS_INLINE) {
		fab_reply_read(op->req, (uint32_t)op->done_bytes,
			       op->sums ? op->sums : op->few_sums, 0);
		return;
	}
	sums = op->sums;
	op->sums = NULL;
	if (!app_table_send(op, sums, op->sums_bytes, sums, sums_at,
			    op->nblocks * (uint32_t)sizeof(le32))) {
		fab_reply(op->req, -EAGAIN, NULL, 0); /* the fabric is overloaded */
		return;
	}
	fab_reply_read(op->req, (uint32_t)op->done_bytes, NULL, sums_at);
}
