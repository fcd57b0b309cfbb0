/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * An operation's reads and writes of blocks: they become commands of drives, some of which are
 * submitted at a time, and their answers are gathered.
 *
 *   app_op_io() --> io[] --> some are submitted --> app_io_done() --> the next --> app_op_run()
 *
 *   in a store of several copies (meta_pair.c)
 *     write   to all places                              some failed: drives_failed, for the store
 *     read    from the first place that is not on a      failed: from the next one
 *             drive that is lost                         late: from the next one, too: app_hedge.c
 *   ... whose sets have become folds (meta_fold.c): summed up from the others instead: app_sum.c
 *
 *  (1) A write has failed for the operation if it failed in all of its places, or on as many
 *      drives; else the store decides when it is given the blocks (meta_op.drives_failed)
 *      [test_app_pair, test_app_copies:write_has_failed_when_all_copies_have].
 *  (2) If all copies of a write do not fit io[] at once, the first ones are written, and then the
 *      next ones, if there are any [test_app_pair:large_write_goes_on_with_one_drive].
 *  (3) A read asks each copy at most once: it follows their ring, which ends after the last
 *      [test_app_copies:read_asks_each_copy_once].
 */
#include "appliance/core/app_copy.h"
#include "appliance/core/app_quota.h"
#include "appliance/core/app_op.h"
#include "appliance/core/app_sum.h"

#include "base/num.h"

#include <string.h>

/* Unless nobody else is there, of one operation no more is with the drives at once: a small read
 * finds a short queue there, whatever others have asked for. */
#define IO_AT_ONCE (512u << 10)
#define IO_SLICE   (256u << 10)
#define ALL_COPIES ((1u << META_COPIES_MAX) - 1)

/* As many of op's I/Os as may be with the drives at once; the others follow as these end. */
static inline void submit_some(struct app_op *op)
{
	DASSERT(op->io_next <= op->io_count && op->io_count <= ARRAY_LEN(op->io));
	while (op->io_next < op->io_count &&
	       (op->io_out_bytes < IO_AT_ONCE || app_turn_alone(op->core))) {
		struct app_io *io = &op->io[op->io_next++];

		op->io_out_bytes += io->nvme.nblocks * BLOCK_SIZE;
		if (unlikely(io->watch))
			app_hedge_watch(io);
		if (unlikely(io->summed))
			app_sum_want(op->core, io);
		else
			app_media_submit(&op->core->media, io);
	}
}

static inline struct app_io *add_io(struct app_op *op, enum nvme_op what, uint64_t baddr,
				    uint32_t nblocks, uint64_t iova)
{
	struct app_io *io = &op->io[op->io_count++];

	DASSERT(nblocks > 0 && op->io_count <= ARRAY_LEN(op->io));
	io->meta = NULL;
	io->owner = op;
	io->quiet = op->quiet;
	io->turned = io->part = io->summed = false;
	io->copies = io->doubts = 0;
	io->watch = APP_WATCH_NONE;
	io->drive = META_BADDR_DRIVE(baddr);
	io->nvme = (struct nvme_io){
		.op = what,
		.nblocks = nblocks,
		.block = META_BADDR_BLOCK(baddr),
		.iova = iova,
		.fua = op->safe,
	};
	op->core->io_bytes += (uint64_t)nblocks * BLOCK_SIZE;
	return io;
}

/* ---- copies (meta_pair.c) ------------------------------------------------------------- */

static bool is_away(const struct app_op *op, uint64_t baddr)
{
	ASSERT(META_BADDR_DRIVE(baddr) < META_DRIVES_MAX);
	return !meta_twins_has(op->core->twins, META_BADDR_DRIVE(baddr));
}

/* The block can be computed from the others of its fold. */
static bool is_in_fold(const struct app_op *op, uint64_t baddr)
{
	return meta_twin_of(op->core->twins, baddr) == 0 && app_sum_can(op->core, baddr, 0);
}

/* The places of a block's copies, the first one's first.  Returns how many there are; those on
 * drives that take them are bits of `takes`. */
static uint32_t places_of(const struct app_op *op, uint64_t baddr, uint64_t place[META_COPIES_MAX],
			  uint32_t *takes)
{
	uint32_t count = 0;

	*takes = 0;
	ASSERT(baddr);
	for (uint64_t at = baddr; at; at = meta_twin_of(op->core->twins, at)) {
		ASSERT(count < META_COPIES_MAX);
		*takes |= is_away(op, at) ? 0 : 1u << count;
		place[count++] = at;
	}
	return count;
}

/* Those of a write's copies (by bits: 1 the first) on drives that take them. */
static wk_cold void add_copies(struct app_op *op, uint64_t baddr, uint32_t nblocks, uint64_t iova,
			       uint32_t copies)
{
	uint64_t place[META_COPIES_MAX];
	uint32_t takes, count = places_of(op, baddr, place, &takes), bits = takes & copies;

	ASSERT(meta_twins_blocks(op->core->twins) > 0 && count > 0);
	if (count == 1)
		bits = copies & 1;
	else if (copies & 1 && !bits) /* so that there is one to wait for (2) */
		bits = takes ? takes & -takes : 1;
	for (; bits; bits &= bits - 1)
		add_io(op, NVME_WRITE, place[__builtin_ctz(bits)], nblocks, iova)->copies =
			(uint8_t)max_u32(1, (uint32_t)__builtin_popcount(takes));
}

/* Returns the most copies that any of these runs has. */
static wk_cold uint32_t copies_most(const struct app_op *op, const struct meta_run *runs,
				    uint32_t nruns)
{
	uint64_t place[META_COPIES_MAX];
	uint32_t most = 0, takes;

	ASSERT(meta_twins_blocks(op->core->twins) > 0);
	for (uint32_t i = 0; i < nruns; i++)
		most = max_u32(most, places_of(op, runs[i].baddr, place, &takes));
	return most;
}

/* A read whose drive is lost goes to the next copy at once. */
static wk_cold void add_read(struct app_op *op, uint64_t baddr, uint32_t nblocks, uint64_t iova)
{
	const bool away = is_away(op, baddr);
	const uint64_t other = away ? app_copy_after(op->core, baddr) : 0;
	struct app_io *io;

	ASSERT(!op->one_copy && nblocks > 0);
	io = add_io(op, NVME_READ, other ? other : baddr, nblocks, iova);
	io->turned = other != 0;
	io->summed = away && !other && is_in_fold(op, baddr);
	if (op->core->hedges.multiple && op->kind == APP_OP_READ && !io->summed)
		io->watch = app_hedge_may(op, io) ? APP_WATCH_READ : APP_WATCH_TIME;
}

/* Sends a read that failed to the next copy.  Returns false if all copies have failed (3). */
static wk_cold bool turn(struct app_io *io)
{
	struct app_op *op = io->owner;
	const uint64_t baddr = META_BADDR(io->drive, io->nvme.block);
	uint64_t other;

	ASSERT(io->nvme.status);
	if (io->nvme.op != NVME_READ || op->one_copy || io->summed || io->nvme.quarantined ||
	    op->quiet)
		return false;
	other = app_copy_after(op->core, baddr);
	if (!other && is_in_fold(op, baddr)) {
		io->summed = true;
		app_sum_want(op->core, io);
		return true;
	}
	if (!other)
		return false;
	ASSERT(other != baddr); /* (3) */
	io->turned = true;
	io->drive = META_BADDR_DRIVE(other);
	io->nvme.block = META_BADDR_BLOCK(other);
	op->core->stat.turned_reads++;
	app_media_submit(&op->core->media, io);
	return true;
}

/* Whether drives work for a batch: its reply says how long they did. */
static void drives_begin(struct app_op *op)
{
	if (op->batch && op->batch->drives_out++ == 0)
		op->batch->drives_since_ns = op->core->now_ns;
}

static void drives_end(struct app_op *op)
{
	struct app_batch *b = op->batch;

	if (!b || op->ios_out > 0)
		return;
	ASSERT(b->drives_out > 0 && op->core->now_ns >= b->drives_since_ns);
	if (--b->drives_out == 0)
		b->drives_ns += op->core->now_ns - b->drives_since_ns;
}

void app_op_io(struct app_op *op, enum nvme_op what, const struct meta_run *runs, uint32_t nruns,
	       char *buf, uint64_t iova)
{
	uint32_t copies = ALL_COPIES;

	DASSERT(iova % BLOCK_SIZE == 0);
	ASSERT(op->ios_out == 0 && nruns <= APP_RUNS_MAX);
	op->io_buf = buf;
	op->io_buf_iova = iova;
	if (likely(!op->copy_due)) {
		op->io_status = 0;
		op->drives_failed = 0;
		if (unlikely(meta_twins_blocks(op->core->twins)) && what == NVME_WRITE &&
		    !op->one_copy) {
			op->io_iova = iova;
			op->copy_due = copies_most(op, runs, nruns) * (nruns + APP_SLICES_MAX) >
				       ARRAY_LEN(op->io);
			copies = op->copy_due ? 1 : ALL_COPIES;
		}
	} else {
		ASSERT(what == NVME_WRITE && op->io_iova == iova); /* (2) */
		copies = 1u << op->copy_due++;
		op->copy_due %= META_COPIES_MAX; /* 0 after the last */
	}
	op->io_count = op->io_next = op->io_out_bytes = 0;
	for (uint32_t i = 0; i < nruns; i++) {
		uint32_t left = runs[i].nblocks, n = left;
		uint64_t baddr = runs[i].baddr;

		if (baddr == 0 && !op->one_copy) { /* with it: the first superblock */
			ASSERT(what == NVME_READ);
			memset(buf, 0, (size_t)left * BLOCK_SIZE);
			left = 0;
		} else if (unlikely(n > IO_SLICE / BLOCK_SIZE) && !app_turn_alone(op->core)) {
			n = IO_SLICE / BLOCK_SIZE;
		}
		for (uint64_t at = iova; left > 0; left -= n, baddr += n, at += n * BLOCK_SIZE) {
			n = min_u32(n, left);
			if (likely(meta_twins_blocks(op->core->twins) == 0) || op->one_copy)
				add_io(op, what, baddr, n, at);
			else if (what == NVME_READ)
				add_read(op, baddr, n, at);
			else
				add_copies(op, baddr, n, at, copies);
		}
		buf += (size_t)runs[i].nblocks * BLOCK_SIZE;
		iova += (uint64_t)runs[i].nblocks * BLOCK_SIZE;
	}
	ASSERT(op->io_count <= ARRAY_LEN(op->io));
	op->ios_out = op->io_count;
	if (op->ios_out > 0)
		drives_begin(op);
	submit_some(op);
}

wk_cold void app_op_io_at(struct app_op *op, const struct meta_run *runs, const uint32_t *at,
			  uint32_t nruns, char *buf, uint64_t iova)
{
	ASSERT(op->ios_out == 0 && nruns > 0 && nruns <= APP_RUNS_MAX);
	op->io_buf = buf;
	op->io_buf_iova = iova;
	op->io_status = 0;
	op->drives_failed = 0;
	op->io_count = op->io_next = op->io_out_bytes = 0;
	for (uint32_t i = 0; i < nruns; i++) {
		struct app_io *io = add_io(op, NVME_READ, runs[i].baddr, runs[i].nblocks,
					   iova + (uint64_t)at[i] * BLOCK_SIZE);

		io->turned = true;
		io->summed = meta_twin_of(op->core->twins, runs[i].baddr) == 0 &&
			     app_sum_can(op->core, runs[i].baddr, op->doubts);
		io->doubts = op->doubts;
	}
	op->ios_out = op->io_count;
	drives_begin(op);
	submit_some(op);
}

/* (2): there may be none. */
static wk_cold void copies_next(struct app_op *op)
{
	ASSERT(op->copy_due && op->ios_out == 0);
	while (op->copy_due && op->ios_out == 0)
		app_op_io(op, NVME_WRITE, op->runs, op->nruns, op->buf, op->io_iova);
	if (!op->ios_out)
		app_op_run(op);
}

/* (1) */
static wk_cold bool has_failed(const struct app_op *op, const struct app_io *io)
{
	ASSERT(io->nvme.status && io->copies <= META_COPIES_MAX);
	return io->copies < 2 || __builtin_popcountll(op->drives_failed) >= io->copies;
}

void app_io_done(struct app_io *io)
{
	struct app_op *op = io->owner;

	if (unlikely(io->watch) && app_hedge_done(io))
		return;
	if (unlikely(io->part)) {
		app_sum_part_done(io);
		return;
	}
	DASSERT(op->core->io_bytes >= (uint64_t)io->nvme.nblocks * BLOCK_SIZE);
	DASSERT(op->io_out_bytes >= io->nvme.nblocks * BLOCK_SIZE);
	ASSERT(op->ios_out > 0);
	if (unlikely(io->nvme.status) && meta_twins_blocks(op->core->twins) && turn(io))
		return;
	op->ios_out--;
	op->core->io_bytes -= (uint64_t)io->nvme.nblocks * BLOCK_SIZE;
	app_quota_wake_tight(op->core);
	if (unlikely(io->nvme.status)) {
		op->drives_failed |= io->copies > 1 ? 1ull << io->drive : 0;
		if (!op->io_status && has_failed(op, io))
			op->io_status = io->nvme.status;
		if (io->nvme.quarantined)
			app_staging_lose(&op->core->staging, io->nvme.iova,
					 (uint64_t)io->nvme.nblocks * BLOCK_SIZE);
	}
	op->io_out_bytes -= io->nvme.nblocks * BLOCK_SIZE;
	if (unlikely(op->watched) && op->ios_out == 0)
		app_hedge_unwatch(op);
	drives_end(op);
	if (unlikely(op->copy_due) && op->ios_out == 0 && op->io_next == op->io_count)
		copies_next(op);
	else if (op->ios_out == 0)
		app_op_run(op);
	else if (op->io_next < op->io_count)
		submit_some(op);
}
