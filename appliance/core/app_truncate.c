/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A truncate, up or down, from request to reply; also used by FAB_OPEN_TRUNC.
 *
 *   ACCEPTED --lock--> LOCKED --plan--> KNOWN --staging, old block--> READ
 *                                         |                            |
 *                                         | no block is cut            v
 *   LOGGED <------------store-------------+<-- ON_DRIVE <-- PLACED <-- zero-tailed, summed
 *
 * A block that is cut in two is rewritten with zeros after the new end, before the store is told:
 * bytes after the end of a file are always zeros on the drives.  If little of it stays, or no other
 * block is free, that goes into the index instead, as the file's tail.
 */
#include "appliance/core/app_mend.h"
#include "appliance/core/app_op.h"

#include <errno.h>
#include <string.h>

enum truncate_at {
	TRUNCATE_ACCEPTED,
	TRUNCATE_LOCKED,
	TRUNCATE_KNOWN,
	TRUNCATE_READ,
	TRUNCATE_PLACED,
	TRUNCATE_ON_DRIVE,
	TRUNCATE_LOGGED,
};

void app_truncate_begin(struct app_op *op)
{
	ASSERT(op->req->type == FAB_TRUNCATE);
	op->handle = app_handle_in(op->req->session, &op->req->args.size.handle);
	op->target[0] = (struct meta_target){ .handle = op->handle };
	op->length_bytes = op->req->args.size.size_bytes;
}

static bool plan_block(struct app_op *op)
{
	ASSERT(op->locked && op->length_bytes <= APP_FILE_MAX);
	op->meta.target = op->target[0];
	op->meta.flags = META_TO_WRITE;
	op->meta.offset = align_down(op->length_bytes, BLOCK_SIZE);
	op->meta.length = BLOCK_SIZE;
	op->meta.runs = op->runs;
	op->meta.crcs = &op->edge_sum;
	op->meta.runs_max = 1;
	op->meta.blocks_max = 1;
	op->meta.inline_buf = op->small;
	return app_op_meta(op, META_OP_READ);
}

/* A block is cut, and it is not a hole, nor the tail, which the store cuts itself. */
static bool cuts_a_block(const struct app_op *op)
{
	return op->length_bytes % BLOCK_SIZE && op->length_bytes < op->meta.attr.size &&
	       op->meta.nblocks && op->runs[0].baddr;
}

static uint32_t keep_bytes(const struct app_op *op)
{
	ASSERT(op->length_bytes <= APP_FILE_MAX);
	return (uint32_t)(op->length_bytes % BLOCK_SIZE);
}

/* A file has one tail: what stays may become it, unless an earlier block is it and stays it. */
static bool tail_is_free(const struct app_op *op)
{
	return op->tail_offset >= align_down(op->length_bytes, BLOCK_SIZE);
}

static int cut(struct app_op *op)
{
	const struct app_old_block old = { op->handle, op->length_bytes / BLOCK_SIZE, op->buf,
					   op->edge_sum };
	uint32_t keep = keep_bytes(op);

	ASSERT(op->buf && keep > 0);
	if (app_mend_block(op, &old))
		return -EAGAIN; /* it is read again, from another copy */
	app_read_end(op);
	if (op->io_status || crc32c(op->buf, BLOCK_SIZE) != op->edge_sum) {
		op->core->stat.bad_blocks += !op->io_status;
		(void)app_suspect(op->core, &op->handle, op->length_bytes / BLOCK_SIZE, 1);
		return -EIO;
	}
	memset(op->buf + keep, 0, BLOCK_SIZE - keep);
	op->crcs[0] = crc32c(op->buf, BLOCK_SIZE);
	op->core->stat.merged_blocks++;
	return 0;
}

/* It waits for staging without a read epoch: app_write.c (3). */
static enum app_next plan_again(struct app_op *op)
{
	ASSERT(op->locked && !op->buf);
	app_read_end(op);
	op->at = TRUNCATE_LOCKED;
	return APP_WAIT;
}

static bool log_size(struct app_op *op)
{
	ASSERT(op->locked && op->nruns <= 1);
	app_read_end(op);
	op->meta.target = op->target[0];
	op->meta.flags = op->tail_len ? META_BY_INLINE : 0;
	op->meta.size = op->length_bytes;
	op->meta.inline_buf = op->buf;
	op->meta.inline_len = op->tail_len;
	op->core->stat.inline_bytes += op->tail_len;
	op->meta.runs = op->runs;
	op->meta.crcs = op->crcs;
	op->meta.nruns = op->nruns;
	op->meta.nblocks = op->nruns;
	return app_op_meta(op, META_OP_TRUNCATE);
}

static enum app_next to_tail(struct app_op *op)
{
	ASSERT(op->nruns == 0 && keep_bytes(op) > 0);
	op->tail_len = keep_bytes(op);
	op->at = TRUNCATE_LOGGED;
	return log_size(op) ? APP_AGAIN : APP_WAIT;
}

enum app_next app_truncate_step(struct app_op *op)
{
	uint64_t iova;
	int err;

	switch ((enum truncate_at)op->at) {
	case TRUNCATE_ACCEPTED:
		if (op->length_bytes > APP_FILE_MAX)
			return app_op_end(op, -EFBIG);
		if (!app_file_lock_all(op))
			return APP_WAIT;
		op->at = TRUNCATE_LOCKED;
		wk_fallthrough;

	case TRUNCATE_LOCKED: /* no other change of the file runs */
		op->at = TRUNCATE_KNOWN;
		if (!plan_block(op))
			return APP_WAIT;
		wk_fallthrough;

	case TRUNCATE_KNOWN:
		if (op->meta.status)
			return app_op_end(op, op->meta.status);
		op->tail_offset = op->meta.tail_offset;
		if (!cuts_a_block(op)) {
			op->at = TRUNCATE_LOGGED;
			return log_size(op) ? APP_AGAIN : APP_WAIT;
		}
		op->buf = app_take(op, BLOCK_SIZE);
		if (!op->buf)
			return plan_again(op);
		op->at = TRUNCATE_READ;
		iova = app_staging_iova(&op->core->staging, op->buf);
		app_op_io(op, NVME_READ, op->runs, 1, op->buf, iova);
		return APP_WAIT;

	case TRUNCATE_READ: /* the old block is in staging */
		err = cut(op);
		if (err)
			return err == -EAGAIN ? APP_WAIT : app_op_end(op, err);
		op->nblocks = 1;
		op->at = TRUNCATE_PLACED;
		wk_fallthrough;

	case TRUNCATE_PLACED: /* zero-tailed and summed; needs a block */
		if (tail_is_free(op) && keep_bytes(op) <= APP_TAIL_WRITE)
			return to_tail(op);
		err = app_blocks_take(op);
		if (err == -ENOSPC && tail_is_free(op))
			return to_tail(op);
		if (err)
			return err == -EAGAIN ? APP_WAIT : app_op_end(op, err);
		op->at = TRUNCATE_ON_DRIVE;
		iova = app_staging_iova(&op->core->staging, op->buf);
		app_op_io(op, NVME_WRITE, op->runs, op->nruns, op->buf, iova);
		return APP_WAIT;

	case TRUNCATE_ON_DRIVE:
		if (op->io_status) {
			app_blocks_give(op, 0);
			return app_op_end(op, -EIO);
		}
		op->at = TRUNCATE_LOGGED;
		if (!log_size(op))
			return APP_WAIT;
		wk_fallthrough;

	case TRUNCATE_LOGGED: /* durable, or refused; the block is the store's either way */
		op->nruns = 0;
		return app_op_end(op, op->meta.status);
	}
	UNREACHABLE();
}
