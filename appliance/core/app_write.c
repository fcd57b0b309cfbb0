/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A write of a piece of a file, at an offset or at the end, from request to reply.
 *
 *   ACCEPTED --lock--> LOCKED --plan--> FILE_KNOWN --plan--> EDGE_KNOWN --old block--> EDGE_READ
 *                       ^                |                     ^                         |
 *                       +-- no staging --+                     +-- the last block, too --+
 *                                                                                          |
 *   LOGGED <--store-- ON_DRIVES <--drives-- PLACED <--blocks-- PULLED <--pull-- EDGES_DONE <+
 *      ^                                                          |
 *      +--------------- all of it goes into the index ------------+
 *
 * Always new blocks: a block that the file can reach is never overwritten.  A block that is written
 * in part is read, verified, merged in staging and summed again:
 *
 *   staging   |old old new new|new new new new|new old old old|     payload pulled in between
 *             ^ first block   ^ ...           ^ last block
 *
 * The client's checksums are verified over the new bytes alone, before anything is written.  In a
 * write that crosses a multiple of 4 MiB each side is one change of the store.
 *
 * The last block of a small write at the end of the file goes into the index (the tail; it may be
 * all of a small file), and becomes a block when the next writes have filled it:
 *
 *   blocks   |old old new new|new new zero zero|     2 blocks in staging, one to be placed
 *            ^ first: a block ^ last: tail_len bytes
 *
 * Invariants:
 *
 *  (1) From LOCKED on no other change of these blocks runs, and for an append or a small write none
 *      of the file at all (app_file.c): the edges, and for those the end and the tail,
 *      are unchanged when the store applies this.  Other writes do not care if the file
 *      is made longer meanwhile: bytes after its end are zeros until a write changes them.
 *  (2) nruns > 0 exactly while blocks were taken and not yet given to the store.
 *  (3) While it waits for staging it holds no read epoch: staging may be full of writes that wait
 *      for zones, and zones are free when older epochs have ended.  So it gives its plan up, as a
 *      read does [test_app_room:writes_that_wait_for_staging_keep_no_zone_from_being_free].
 */
#include "appliance/core/app_mend.h"
#include "appliance/core/app_op.h"
#include "appliance/core/app_stat.h"

#include <errno.h>
#include <string.h>

#define CHUNK_BLOCKS 1024u

enum write_at {
	WRITE_ACCEPTED,
	WRITE_LOCKED,
	WRITE_FILE_KNOWN,
	WRITE_EDGE_KNOWN,
	WRITE_EDGE_READ,
	WRITE_EDGES_DONE,
	WRITE_PULLED,
	WRITE_PLACED,
	WRITE_ON_DRIVES,
	WRITE_LOGGED,
};

/* ---- geometry ----------------------------------------------------------------------- */

static uint64_t first_block(const struct app_op *op)
{
	DASSERT(op->offset_bytes <= APP_FILE_MAX);
	return op->offset_bytes / BLOCK_SIZE;
}

static uint64_t end_bytes(const struct app_op *op)
{
	return op->offset_bytes + op->length_bytes;
}

static uint64_t last_block(const struct app_op *op)
{
	return (end_bytes(op) - 1) / BLOCK_SIZE;
}

/* Bytes of the first block before ours. */
static uint32_t head_bytes(const struct app_op *op)
{
	return (uint32_t)(op->offset_bytes % BLOCK_SIZE);
}

/* Returns the bytes of the last block after ours. */
static uint32_t tail_bytes(const struct app_op *op)
{
	return (uint32_t)(align_up(end_bytes(op), BLOCK_SIZE) - end_bytes(op));
}

static uint64_t size_after(const struct app_op *op)
{
	return max_u64(op->file_size, end_bytes(op));
}

/* Returns the block of edge `op->edge`, and its place in staging. */
static uint64_t edge_block(const struct app_op *op)
{
	return op->edge ? last_block(op) : first_block(op);
}

static char *edge_at(const struct app_op *op)
{
	DASSERT(op->buf && edge_block(op) - first_block(op) < op->nblocks + (op->tail_len > 0));
	return op->buf + (edge_block(op) - first_block(op)) * BLOCK_SIZE;
}

/* Some of the old block stays: so it must be read. */
static bool edge_is_partial(const struct app_op *op)
{
	bool tail = tail_bytes(op) && end_bytes(op) < op->file_size;

	ASSERT(op->edge <= 1 && op->length_bytes > 0);
	if (op->edge)
		return tail;
	return head_bytes(op) || (tail && first_block(op) == last_block(op));
}

/* Is the block whose bytes the index has one of these? */
static bool has_tail(const struct app_op *op, uint64_t first, uint64_t last)
{
	ASSERT(first <= last);
	return op->tail_offset != META_NO_TAIL && op->tail_offset / BLOCK_SIZE >= first &&
	       op->tail_offset / BLOCK_SIZE <= last;
}

/* Bytes of the last block that go to the index; 0: it becomes a block. */
static uint32_t tail_wanted(const struct app_op *op)
{
	uint64_t last = last_block(op), size = size_after(op);

	ASSERT(size >= end_bytes(op));
	if (op->length_bytes > APP_TAIL_WRITE || (size - 1) / BLOCK_SIZE != last)
		return 0;
	if (op->tail_offset != META_NO_TAIL && !has_tail(op, first_block(op), last))
		return 0; /* another block is it, and stays it */
	if (end_bytes(op) < op->file_size && !has_tail(op, last, last))
		return 0; /* a change inside a block that is a block */
	return (uint32_t)(size % BLOCK_SIZE);
}

/* Returns true if it needs only its own blocks of the file.  An append begins at the end; a small
 * write may leave a tail, of which a file has one; offsets that are too large are refused later. */
static bool keeps_to_its_blocks(const struct app_op *op)
{
	return !(op->flags & FAB_WRITE_APPEND) && op->length_bytes > APP_TAIL_WRITE &&
	       op->offset_bytes <= APP_FILE_MAX - op->length_bytes;
}

void app_write_begin(struct app_op *op)
{
	const struct fab_req *req = op->req;

	op->handle = app_handle_in(req->session, &req->args.write.handle);
	op->target[0] = (struct meta_target){ .handle = op->handle };
	op->offset_bytes = req->args.write.offset_bytes;
	op->length_bytes = req->args.write.length_bytes;
	op->flags = req->args.write.flags;
	op->window_at = req->args.write.payload_at;
	op->sums_at = req->args.write.sums_at;
	app_file_all(op);
	if (keeps_to_its_blocks(op)) {
		op->file_from = first_block(op);
		op->file_end = last_block(op) + 1;
	}
	ASSERT(op->file_from < op->file_end && op->length_bytes <= APP_CHUNK_BYTES);
}

/* ---- checksums ------------------------------------------------------------------------ */

/*
 * The client's sums follow a grid over its bytes: that of the file's blocks, or, for an append, one
 * that begins with its first byte.
 */
static uint32_t grid_skip(const struct app_op *op)
{
	return op->flags & FAB_WRITE_APPEND ? 0 : head_bytes(op);
}

static uint32_t grid_sums(const struct app_op *op)
{
	ASSERT(op->length_bytes > 0);
	return (uint32_t)div_up(grid_skip(op) + op->length_bytes, BLOCK_SIZE);
}

static int verify(struct app_op *op)
{
	const char *at = op->buf + head_bytes(op);
	uint64_t left = op->length_bytes;
	uint32_t room = BLOCK_SIZE - grid_skip(op);

	ASSERT(op->buf && grid_sums(op) <= ARRAY_LEN(op->crcs));
	if (op->pull_status)
		return op->pull_status;
	for (uint32_t i = 0; left; i++, room = BLOCK_SIZE) {
		uint32_t bytes = (uint32_t)min_u64(left, room);

		if (unlikely(crc32c_block(at, bytes) != op->crcs[i])) {
			op->core->stat.bad_sums++;
			return -EBADMSG;
		}
		at += bytes;
		left -= bytes;
	}
	return 0;
}

/* Sums merged blocks; blocks that equal the client's keep its sum. */
static void sum_anew(struct app_op *op)
{
	bool same_grid = grid_skip(op) == head_bytes(op);
	uint32_t last = (uint32_t)(last_block(op) - first_block(op));

	ASSERT(op->nblocks <= last + 1);
	for (uint32_t i = 0; i < op->nblocks; i++) {
		bool whole =
			same_grid && !(i == 0 && head_bytes(op)) && !(i == last && tail_bytes(op));

		if (!whole)
			op->crcs[i] = crc32c(op->buf + (size_t)i * BLOCK_SIZE, BLOCK_SIZE);
	}
}

/* ---- the edges ------------------------------------------------------------------------ */

static bool plan_block(struct app_op *op, uint64_t block)
{
	ASSERT(op->locked && op->nruns == 0); /* (1), (2) */
	app_read_end(op);
	op->meta.target = op->target[0];
	op->meta.flags = META_TO_WRITE;
	op->meta.offset = block * BLOCK_SIZE;
	op->meta.length = BLOCK_SIZE;
	op->meta.runs = op->runs;
	op->meta.crcs = &op->edge_sum;
	op->meta.runs_max = 1;
	op->meta.blocks_max = 1;
	op->meta.inline_buf = op->small;
	return app_op_meta(op, META_OP_READ);
}

/* Takes the size and the place of the tail from the first block's plan. */
static int know_file(struct app_op *op)
{
	op->file_size = op->meta.attr.size;
	op->tail_offset = op->meta.tail_offset;
	if (op->flags & FAB_WRITE_APPEND)
		op->offset_bytes = op->file_size;
	if (op->offset_bytes > APP_FILE_MAX - op->length_bytes)
		return -EFBIG;
	op->nblocks = (uint32_t)(last_block(op) - first_block(op) + 1);
	op->tail_len = tail_wanted(op);
	ASSERT(op->nblocks > 0 && op->nblocks <= APP_BLOCKS_MAX);
	ASSERT(op->tail_len < BLOCK_SIZE && op->length_bytes > 0);
	return 0;
}

/* False: it waits, and then looks the file up again (3). */
static bool take_staging(struct app_op *op)
{
	ASSERT(op->locked && !op->buf && op->nblocks > 0); /* (1) */
	op->buf = app_take(op, op->nblocks * BLOCK_SIZE);
	if (likely(op->buf))
		return true;
	app_read_end(op);
	op->at = WRITE_LOCKED;
	ASSERT(!op->buf); /* (3) */
	return false;
}

static enum app_next file_known(struct app_op *op)
{
	int err = op->meta.status ? op->meta.status : know_file(op);

	ASSERT(op->locked && !op->buf); /* (1) */
	if (err)
		return app_op_end(op, err);
	op->at = WRITE_EDGE_KNOWN;
	if (!take_staging(op))
		return APP_WAIT;
	if (edge_block(op) > 0 && edge_is_partial(op) && !plan_block(op, edge_block(op)))
		return APP_WAIT;
	return APP_AGAIN;
}

/* The old block comes into its place; true: it is there, or was never anywhere. */
static bool read_edge(struct app_op *op)
{
	ASSERT(op->edge <= 1);
	memset(edge_at(op), 0, BLOCK_SIZE);
	op->io_status = 0;
	if (!edge_is_partial(op) || op->meta.nblocks == 0)
		return true;
	op->merging = op->meta.inline_len || op->runs[0].baddr;
	if (op->meta.inline_len)
		memcpy(edge_at(op), op->small, op->meta.inline_len);
	if (op->runs[0].baddr == 0)
		return true;
	op->core->stat.merged_blocks++;
	app_op_io(op, NVME_READ, op->runs, 1, edge_at(op),
		  app_staging_iova(&op->core->staging, edge_at(op)));
	return false;
}

/* True: it is read again, from another copy. */
static bool edge_again(struct app_op *op)
{
	const struct app_old_block old = { op->handle, op->meta.offset / BLOCK_SIZE, edge_at(op),
					   op->edge_sum };

	return op->merging && op->runs[0].baddr && app_mend_block(op, &old);
}

static int check_edge(struct app_op *op)
{
	ASSERT(op->ios_out == 0 && op->buf);
	app_read_end(op);
	if (op->io_status) {
		(void)app_suspect(op->core, &op->handle, op->meta.offset / BLOCK_SIZE, 1);
		return -EIO;
	}
	if (op->merging && crc32c(edge_at(op), BLOCK_SIZE) != op->edge_sum) {
		op->core->stat.bad_blocks++;
		(void)app_suspect(op->core, &op->handle, op->meta.offset / BLOCK_SIZE, 1);
		return -EIO;
	}
	op->merging = false;
	return 0;
}

/* ---- the store's part -------------------------------------------------------------------- */

/* The runs of the blocks up to the next multiple of 4 MiB; the rest stays for the next change. */
static void cut_runs(struct app_op *op, uint32_t nblocks)
{
	uint32_t left = nblocks, i = op->run_from;

	ASSERT(nblocks > 0 && op->run_from < op->nruns);
	while (op->runs[i].nblocks < left)
		left -= op->runs[i++].nblocks;
	if (op->runs[i].nblocks > left) { /* one too many is made of it: there is room for it */
		ASSERT(op->nruns < ARRAY_LEN(op->runs));
		memmove(&op->runs[i + 1], &op->runs[i], (op->nruns - i) * sizeof(op->runs[0]));
		op->runs[i].nblocks = left;
		op->runs[i + 1].baddr += left;
		op->runs[i + 1].nblocks -= left;
		op->nruns++;
	}
	op->meta.runs = &op->runs[op->run_from];
	op->meta.nruns = i + 1 - op->run_from;
}

static bool log_blocks(struct app_op *op)
{
	uint64_t from = first_block(op) + op->nblocks_done;
	uint32_t room = CHUNK_BLOCKS - (uint32_t)(from % CHUNK_BLOCKS);
	uint32_t nblocks = min_u32(op->nblocks - op->nblocks_done, room);

	ASSERT(op->locked && op->nblocks_done <= op->nblocks); /* (1) */
	op->meta.target = op->target[0];
	op->meta.flags = op->safe ? META_SAFE : 0u;
	op->meta.offset = from * BLOCK_SIZE;
	op->meta.size =
		min_u64(size_after(op), max_u64(op->file_size, (from + nblocks) * BLOCK_SIZE));
	op->meta.nruns = 0;
	if (nblocks)
		cut_runs(op, nblocks);
	op->meta.crcs = &op->crcs[op->nblocks_done];
	op->meta.nblocks = nblocks;
	op->nblocks_done += nblocks;
	op->run_from += op->meta.nruns;
	ASSERT(op->run_from <= op->nruns);
	if (op->tail_len && op->nblocks_done == op->nblocks && nblocks < room) {
		op->meta.flags |= META_BY_INLINE;
		op->meta.size = size_after(op);
		op->meta.inline_buf = op->buf + (size_t)op->nblocks * BLOCK_SIZE;
		op->meta.inline_len = op->tail_len;
		op->core->stat.inline_bytes += op->tail_len;
		op->tail_len = 0;
	}
	op->receipt.part = op->nblocks_done < op->nblocks || op->tail_len;
	return app_op_meta(op, META_OP_WRITE);
}

/* Blocks of a change that was refused are the store's; those of the changes after it ours. */
static enum app_next refused(struct app_op *op)
{
	ASSERT(op->run_from <= op->nruns);
	app_blocks_give(op, op->run_from);
	return app_op_end(op, op->meta.status);
}

static enum app_next logged(struct app_op *op)
{
	if (op->meta.status)
		return refused(op);
	op->file_size = op->meta.attr.size; /* others may have made it longer */
	if (op->nblocks_done < op->nblocks || op->tail_len)
		return log_blocks(op) ? APP_AGAIN : APP_WAIT;
	ASSERT(op->run_from == op->nruns); /* (2) */
	op->nruns = 0;
	app_stat_written(op, op->length_bytes);
	return app_op_end(op, 0);
}

/* ---- the write ---------------------------------------------------------------------------- */

/* The edges are in place: the client's bytes over them. */
static enum app_next pull(struct app_op *op)
{
	ASSERT(op->locked && op->buf && op->nruns == 0);
	op->at = WRITE_PULLED;
	return app_pull(op, op->buf + head_bytes(op), (uint32_t)op->length_bytes, op->crcs,
			grid_sums(op))
		       ? APP_AGAIN
		       : APP_WAIT;
}

static enum app_next pulled(struct app_op *op)
{
	int err = verify(op);

	ASSERT(op->pulls_out == 0);
	if (err)
		return app_op_end(op, err);
	op->nblocks -= op->tail_len > 0;
	sum_anew(op);
	op->at = op->nblocks ? WRITE_PLACED : WRITE_LOGGED;
	if (op->nblocks == 0)
		return log_blocks(op) ? APP_AGAIN : APP_WAIT;
	return APP_AGAIN;
}

static enum app_next edge_read(struct app_op *op)
{
	int err = check_edge(op);

	ASSERT(op->nruns == 0); /* (2) */
	if (err)
		return app_op_end(op, err);
	op->at = WRITE_EDGES_DONE;
	if (op->edge == 0 && last_block(op) > first_block(op)) {
		op->edge = 1;
		op->at = WRITE_EDGE_KNOWN;
		if (edge_is_partial(op) && !plan_block(op, edge_block(op)))
			return APP_WAIT;
	}
	return APP_AGAIN;
}

enum app_next app_write_step(struct app_op *op)
{
	int err;

	switch ((enum write_at)op->at) {
	case WRITE_ACCEPTED:
		if (!app_file_lock(op))
			return APP_WAIT;
		op->at = WRITE_LOCKED;
		wk_fallthrough;

	case WRITE_LOCKED: /* (1) */
		op->at = WRITE_FILE_KNOWN;
		if (!plan_block(op, 0))
			return APP_WAIT;
		wk_fallthrough;

	case WRITE_FILE_KNOWN:
		return file_known(op);

	case WRITE_EDGE_KNOWN: /* op->meta keeps the old block from being reused */
		if (op->meta.status)
			return app_op_end(op, op->meta.status);
		op->at = WRITE_EDGE_READ;
		if (!read_edge(op))
			return APP_WAIT;
		wk_fallthrough;

	case WRITE_EDGE_READ: /* the old block is in its place */
		return edge_again(op) ? APP_WAIT : edge_read(op);

	case WRITE_EDGES_DONE:
		return pull(op);

	case WRITE_PULLED:
		return pulled(op);

	case WRITE_PLACED: /* merged and summed; needs blocks */
		ASSERT(op->locked && op->buf && op->nblocks > 0);
		err = app_blocks_take(op);
		if (err)
			return err == -EAGAIN ? APP_WAIT : app_op_end(op, err);
		op->at = WRITE_ON_DRIVES;
		op->safe = app_op_is_lone(op);
		app_op_io(op, NVME_WRITE, op->runs, op->nruns, op->buf,
			  app_staging_iova(&op->core->staging, op->buf));
		return APP_WAIT;

	case WRITE_ON_DRIVES: /* the drives have answered; the store sees to flushes */
		ASSERT(op->ios_out == 0 && op->nruns > 0); /* (2) */
		if (op->io_status) {
			app_blocks_give(op, 0);
			return app_op_end(op, -EIO);
		}
		op->at = WRITE_LOGGED;
		return log_blocks(op) ? APP_AGAIN : APP_WAIT;

	case WRITE_LOGGED: /* the extent is durable: the client may be answered */
		return logged(op);
	}
	UNREACHABLE();
}

void app_write_answer(struct app_op *op)
{
	uint8_t body[8];
	uint32_t bytes;

	ASSERT(op->req->type == FAB_WRITE);
	if (op->status) {
		fab_reply(op->req, op->status, NULL, 0);
		return;
	}
	bytes = fab_build_u64(body, size_after(op));
	fab_reply(op->req, 0, body, bytes);
}
