/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Blocks with as many copies as a store can keep: which of them an operation reads and writes when
 * drives fail, are lost, or have other bytes.
 *
 * The sources are included, so that their neighbours can be doubled: app_media_submit() notes a
 * command, and a test answers it.  Drive d has one zone, and copy d of each block.
 */
#include "appliance/core/app_io.c"
#include "appliance/core/app_mend.c"

#include <criterion/criterion.h>
#include <errno.h>

enum { COPIES = META_COPIES_MAX, ZONE_BLOCKS = 64, ZONES_AT = 8, RUNS = 100 };

static struct app_core core;
static struct app_op op;
static struct meta_twins twins;
static _Atomic uint64_t ring[COPIES], folds[COPIES];
static struct app_io *out[ARRAY_LEN(op.io)];
static uint32_t outs, runs_of_op, suspects;
static char landing[4 * BLOCK_SIZE];

/* ---- doubles ------------------------------------------------------------------------------- */

void app_media_submit(struct app_media *md, struct app_io *io)
{
	cr_assert_eq(md, &core.media);
	out[outs++] = io;
}

void app_op_run(struct app_op *of)
{
	cr_assert_eq(of, &op);
	runs_of_op++;
}

void app_quota_wake_short(struct app_core *of)
{
	(void)of;
	cr_assert_fail("nobody waits for staging");
}

void app_staging_lose(struct app_staging *of, uint64_t iova, uint64_t bytes)
{
	(void)of;
	(void)iova;
	(void)bytes;
}

void app_sum_want(struct app_core *of, struct app_io *io)
{
	(void)of;
	(void)io;
	cr_assert_fail("no block is in a fold");
}

bool app_sum_can(const struct app_core *of, uint64_t baddr, uint32_t doubts)
{
	(void)doubts;
	(void)of;
	(void)baddr;
	return false;
}

void app_sum_part_done(struct app_io *io)
{
	(void)io;
	cr_assert_fail("no block is in a fold");
}

bool app_hedge_may(const struct app_op *of, const struct app_io *io)
{
	(void)of;
	(void)io;
	return false;
}

void app_hedge_watch(struct app_io *io)
{
	(void)io;
}

void app_hedge_unwatch(struct app_op *of)
{
	(void)of;
}

bool app_hedge_done(struct app_io *io)
{
	(void)io;
	return false;
}

bool app_suspect(struct app_core *of, const struct meta_handle *file, uint64_t block,
		 uint64_t nblocks)
{
	(void)of;
	(void)file;
	(void)block;
	(void)nblocks;
	suspects++;
	return true;
}

/* ---- the rig ------------------------------------------------------------------------------- */

static uint64_t copy(uint32_t d, uint32_t block)
{
	return META_BADDR(d, ZONES_AT + block);
}

static void setup(void)
{
	for (uint32_t d = 0; d < COPIES; d++) {
		twins.drive[d].at = ZONES_AT;
		twins.drive[d].count = 1;
		twins.drive[d].twin = &ring[d];
		twins.drive[d].ring = &folds[d];
		ring[d] = d + 1 < COPIES ? copy(d + 1, 0) : 0;
	}
	atomic_store(&twins.zone_blocks, ZONE_BLOCKS);
	core.twins = &twins;
	op.core = &core;
	op.kind = APP_OP_WRITE;
	outs = runs_of_op = suspects = 0;
	list_init(&core.tight);
}

TestSuite(app_copies, .init = setup, .timeout = 20);

/* Answers the command that is out for longest. */
static void answer(int status)
{
	struct app_io *io = out[0];

	cr_assert_gt(outs, 0);
	memmove(out, out + 1, --outs * sizeof(out[0]));
	io->nvme.status = status;
	app_io_done(io);
}

static void expect(enum nvme_op what, uint64_t baddr)
{
	cr_assert_gt(outs, 0);
	cr_assert_eq(out[0]->nvme.op, what);
	cr_assert_eq(META_BADDR(out[0]->drive, out[0]->nvme.block), baddr, "drive %u block %llu",
		     out[0]->drive, (unsigned long long)out[0]->nvme.block);
}

static void lose(uint32_t d)
{
	atomic_fetch_or(&twins.away, 1ull << d);
}

static void begin(enum nvme_op what, uint32_t block, uint32_t nblocks)
{
	op.runs[0] = (struct meta_run){ .baddr = copy(0, block), .nblocks = nblocks };
	op.nruns = op.meta.nruns = 1;
	op.landing = op.buf = landing;
	op.nblocks_landing = nblocks;
	op.mends = 0;
	app_op_io(&op, what, op.runs, 1, landing, 0);
}

/* ---- reads --------------------------------------------------------------------------------- */

Test(app_copies, read_asks_each_copy_once)
{
	begin(NVME_READ, 5, 1);
	for (uint32_t d = 0; d < COPIES; d++) {
		expect(NVME_READ, copy(d, 5));
		answer(-EIO);
	}
	cr_assert_eq(outs, 0);
	cr_assert_eq(runs_of_op, 1);
	cr_assert_eq(op.io_status, -EIO);
	cr_assert_eq(core.stat.turned_reads, COPIES - 1);
}

Test(app_copies, read_ends_with_the_copy_that_answers)
{
	begin(NVME_READ, 5, 1);
	for (uint32_t d = 0; d + 1 < COPIES; d++)
		answer(-EIO);
	expect(NVME_READ, copy(COPIES - 1, 5));
	answer(0);
	cr_assert_eq(runs_of_op, 1);
	cr_assert_eq(op.io_status, 0);
}

Test(app_copies, drives_that_are_lost_are_not_read)
{
	for (uint32_t d = 0; d + 1 < COPIES; d++)
		lose(d);
	begin(NVME_READ, 9, 2);
	expect(NVME_READ, copy(COPIES - 1, 9));
	answer(-EIO);
	cr_assert_eq(outs, 0);
	cr_assert_eq(op.io_status, -EIO);
}

Test(app_copies, drive_that_is_lost_meanwhile_is_passed_over)
{
	begin(NVME_READ, 9, 2);
	for (uint32_t d = 1; d + 1 < COPIES; d++)
		lose(d);
	answer(-EIO);
	expect(NVME_READ, copy(COPIES - 1, 9));
	answer(0);
	cr_assert_eq(op.io_status, 0);
}

/* The blocks as copy d has them; the copy `right` is right. */
static void land(uint32_t right, uint32_t d)
{
	memset(landing, d == right ? 'r' : 'w', sizeof(landing));
}

static void tell_sums(void)
{
	land(0, 0);
	for (uint32_t i = 0; i < 2; i++)
		op.crcs[i] = crc32c(landing + (size_t)i * BLOCK_SIZE, BLOCK_SIZE);
}

Test(app_copies, wrong_blocks_are_read_from_the_second_and_then_the_third_copy)
{
	tell_sums();
	begin(NVME_READ, 3, 2);
	land(COPIES - 1, 0);
	answer(0);
	for (uint32_t d = 1; d < COPIES; d++) {
		cr_assert(app_mend_read(&op, 0));
		expect(NVME_READ, copy(d, 3));
		cr_assert_eq(out[0]->nvme.nblocks, 2);
		land(COPIES - 1, d);
		answer(0);
	}
	cr_assert_not(app_mend_read(&op, 0));
	cr_assert_eq(suspects, COPIES - 1);
}

/* The first copy cannot be read as a whole, and the others have other bytes in the second block. */
Test(app_copies, run_that_was_turned_finds_the_block_in_its_own_place)
{
	tell_sums();
	begin(NVME_READ, 3, 2);
	answer(-EIO);
	land(0, 0);
	memset(landing + BLOCK_SIZE, 'w', BLOCK_SIZE);
	answer(0);
	for (uint32_t d = 1; d < COPIES; d++) {
		cr_assert(app_mend_read(&op, 0));
		expect(NVME_READ, copy(d, 4));
		answer(0);
	}
	cr_assert(app_mend_read(&op, 0));
	expect(NVME_READ, copy(0, 4));
	land(0, 0);
	answer(0);
	cr_assert_not(app_mend_read(&op, 0));
	cr_assert_eq(op.io_status, 0);
}

Test(app_copies, only_wrong_blocks_are_asked_for_elsewhere)
{
	tell_sums();
	begin(NVME_READ, 3, 2);
	land(0, 0);
	answer(0);
	cr_assert_not(app_mend_read(&op, 0));
	cr_assert_eq(op.mends, 0, "nothing was wrong, but %u rounds were looked through", op.mends);
}

/* The drive may still write there. */
Test(app_copies, nothing_is_read_into_memory_that_a_drive_may_write)
{
	const struct app_old_block old = { .at = landing };

	begin(NVME_READ, 3, 1);
	out[0]->nvme.quarantined = true;
	answer(-EIO);
	cr_assert_eq(outs, 0);
	cr_assert_not(app_mend_block(&op, &old));
	cr_assert_eq(outs, 0);
	cr_assert_eq(op.io_status, -EIO);
}

Test(app_copies, right_copy_ends_the_rounds)
{
	tell_sums();
	begin(NVME_READ, 3, 2);
	land(1, 0);
	answer(0);
	cr_assert(app_mend_read(&op, 0));
	land(1, 1);
	answer(0);
	cr_assert_not(app_mend_read(&op, 0));
}

Test(app_copies, copy_on_a_lost_drive_takes_no_round)
{
	tell_sums();
	for (uint32_t d = 1; d + 1 < COPIES; d++)
		lose(d);
	begin(NVME_READ, 3, 2);
	land(COPIES - 1, 0);
	answer(0);
	cr_assert(app_mend_read(&op, 0));
	expect(NVME_READ, copy(COPIES - 1, 3));
	land(COPIES - 1, COPIES - 1);
	answer(0);
	cr_assert_not(app_mend_read(&op, 0));
}

Test(app_copies, old_block_is_merged_with_from_whichever_copy_is_whole)
{
	struct app_old_block old = { .at = landing };

	core.staging.base = landing;
	for (uint32_t file = 0; file < 2; file++) {
		tell_sums();
		old.sum = op.crcs[0];
		begin(NVME_READ, 3, 1);
		land(COPIES - 1, 0);
		answer(0);
		for (uint32_t d = 1; d < COPIES; d++) {
			cr_assert(app_mend_block(&op, &old));
			expect(NVME_READ, copy(d, 3));
			land(COPIES - 1, d);
			answer(0);
		}
		cr_assert_not(app_mend_block(&op, &old));
	}
}

/* ---- writes -------------------------------------------------------------------------------- */

Test(app_copies, write_has_failed_when_all_copies_have)
{
	begin(NVME_WRITE, 5, 3);
	cr_assert_eq(outs, COPIES);
	for (uint32_t d = 0; d < COPIES; d++) {
		expect(NVME_WRITE, copy(d, 5));
		cr_assert_eq(op.io_status, 0);
		answer(-EIO);
	}
	cr_assert_eq(op.io_status, -EIO);
	cr_assert_eq(op.drives_failed, (1u << COPIES) - 1);
	cr_assert_eq(runs_of_op, 1);
}

Test(app_copies, store_decides_when_one_drive_has_the_bytes)
{
	begin(NVME_WRITE, 5, 3);
	for (uint32_t d = 0; d + 1 < COPIES; d++)
		answer(-EIO);
	answer(0);
	cr_assert_eq(op.io_status, 0);
	cr_assert_eq(op.drives_failed, (1u << (COPIES - 1)) - 1);
}

Test(app_copies, last_drive_fails_a_write_alone)
{
	for (uint32_t d = 0; d + 1 < COPIES; d++)
		lose(d);
	begin(NVME_WRITE, 5, 3);
	cr_assert_eq(outs, 1);
	expect(NVME_WRITE, copy(COPIES - 1, 5));
	answer(-EIO);
	cr_assert_eq(op.io_status, -EIO);
	cr_assert_eq(op.drives_failed, 0);
}

/* The store never lets it come to that: then the operation fails, and does not wait for ever. */
Test(app_copies, write_that_no_drive_takes_ends)
{
	for (uint32_t d = 0; d < COPIES; d++)
		lose(d);
	begin(NVME_WRITE, 5, 3);
	cr_assert_eq(outs, 1);
	answer(-EIO);
	cr_assert_eq(op.io_status, -EIO);
	cr_assert_eq(runs_of_op, 1);
}

Test(app_copies, many_runs_are_written_copy_by_copy)
{
	for (uint32_t i = 0; i < RUNS; i++)
		op.runs[i] = (struct meta_run){ .baddr = copy(0, i % ZONE_BLOCKS), .nblocks = 1 };
	op.nruns = RUNS;
	op.buf = landing;
	app_op_io(&op, NVME_WRITE, op.runs, RUNS, landing, 0);
	for (uint32_t d = 0; d < COPIES; d++) {
		cr_assert_eq(outs, RUNS);
		cr_assert_eq(runs_of_op, 0);
		for (uint32_t i = 0; i < RUNS; i++) {
			expect(NVME_WRITE, copy(d, i % ZONE_BLOCKS));
			answer(0);
		}
	}
	cr_assert_eq(outs, 0);
	cr_assert_eq(runs_of_op, 1);
}
