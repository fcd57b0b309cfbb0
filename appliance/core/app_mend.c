/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Reads that do not match their checksums, in a store of several copies: from the other copies.
 *
 *   a client's read, asked for again --> LANDED: compared here --> right: sent
 *                                         ^                  |
 *                                         |                  v
 *                                         '-- wrong blocks from their next copies, into their
 *                                             places; the scrub mends them
 *   a block that a write merges with --> compared anyway --> the same
 *
 * A healthy read is compared by its reader only, and this CPU touches none of its bytes.  A reader
 * that found a mismatch asks once more, and says so (PROTOCOL.md 5: doubt); such a read is compared
 * here.  Over shared memory the bytes compared are the client's to change meanwhile: at worst its
 * own read is answered from another copy, or not.
 *
 *  (1) Round n reads the n-th copy after the first, so each is read once in this way.  For a block
 *      in a fold, round 0 computes it from the others, and round n without the n-th zone after its
 *      own, if there is enough parity: where a drive is lost a term may be wrong, too
 *      [test_app_double:rot_beside_a_drive_that_refuses].  The last round reads the block's own
 *      place: the read may have been turned from there by another block of its run
 *      [test_app_copies:run_that_was_turned_finds_the_block_in_its_own_place].  Then the block's
 *      reader, or the caller, compares it again
 *      [test_app_pair:other_bytes_on_a_drive_are_never_read]
 *      [test_app_copies:wrong_blocks_are_read_from_the_second_and_then_the_third_copy].
 *  (2) Each block that was wrong is the scrub's to mend (meta_scrub_heal.c) [e2e_mirror].
 *  (3) Nothing is read into memory that a drive which cannot be stopped may still write
 *      [test_app_copies:nothing_is_read_into_memory_that_a_drive_may_write].
 */
#include "appliance/core/app_copy.h"
#include "appliance/core/app_mend.h"
#include "appliance/core/app_sum.h"

#include <string.h>

#define OWN    META_FOLD_ZONES /* (1): no block has more copies, or ways to be summed up */
#define ROUNDS (OWN + 1)

static_assert(META_COPIES_MAX <= OWN, "each copy is asked in a round");

/* Returns the copy of this round, or 0 if the round has none.  A block in a fold is computed, and
 * its own place stands for that: app_op_io_at(). */
static uint64_t elsewhere(const struct app_op *op, uint64_t baddr, uint32_t round)
{
	uint64_t at = baddr;

	ASSERT(round < OWN); /* (1) */
	if (baddr && meta_twin_of(op->core->twins, baddr) == 0)
		return app_sum_can(op->core, baddr, round) ? baddr : 0;
	for (uint32_t i = 0; at && i <= round; i++)
		at = app_copy_after(op->core, at);
	return at;
}

/* Returns the place that is read in this round (1), or 0 if the round has none. */
static uint64_t other_of(const struct app_op *op, uint64_t baddr, uint32_t round)
{
	ASSERT(round < ROUNDS); /* (1) */
	if (round < OWN)
		return elsewhere(op, baddr, round);
	if (!baddr || !meta_twins_has(op->core->twins, META_BADDR_DRIVE(baddr)))
		return 0;
	return elsewhere(op, baddr, 0) ? baddr : 0;
}

/* The place of the plan's block i. */
static uint64_t place_of(const struct app_op *op, uint32_t i)
{
	ASSERT(op->meta.nruns <= APP_RUNS_MAX);
	for (uint32_t k = 0; k < op->meta.nruns; k++) {
		if (i < op->runs[k].nblocks)
			return op->runs[k].baddr ? op->runs[k].baddr + i : 0;
		i -= op->runs[k].nblocks;
	}
	return 0;
}

/* Compares each block that has landed, once.  Returns true if one is wrong. */
static bool compare(const struct app_op *op, uint32_t skip, bool wrong[APP_BLOCKS_MAX + 1])
{
	bool any = false;

	ASSERT(skip + op->nblocks_landing <= ARRAY_LEN(op->crcs));
	for (uint32_t i = 0; i < op->nblocks_landing; i++) {
		wrong[i] = crc32c(op->landing + (size_t)i * BLOCK_SIZE, BLOCK_SIZE) !=
			   op->crcs[skip + i];
		any |= wrong[i];
	}
	return any;
}

/* The wrong blocks from block i on that lie together, in the other copy, too. */
static uint32_t piece(const struct app_op *op, uint32_t i, uint32_t skip, uint64_t other,
		      const bool *wrong)
{
	uint32_t n = 1;

	while (i + n < op->nblocks_landing && wrong[i + n] &&
	       other_of(op, place_of(op, skip + i + n), op->mends) == other + n)
		n++;
	ASSERT(i + n <= op->nblocks_landing);
	return n;
}

/* Finds what is to be read in this round, and where it lies in op's memory. */
static uint32_t wrong_ones(const struct app_op *op, uint32_t skip, const bool *wrong,
			   struct meta_run runs[APP_RUNS_MAX], uint32_t at[APP_RUNS_MAX])
{
	uint32_t count = 0;

	for (uint32_t i = 0, n; i < op->nblocks_landing && count < APP_RUNS_MAX; i += n) {
		const uint64_t other =
			wrong[i] ? other_of(op, place_of(op, skip + i), op->mends) : 0;

		n = 1;
		if (!other)
			continue;
		n = piece(op, i, skip, other, wrong);
		at[count] = i;
		runs[count++] = (struct meta_run){ .baddr = other, .nblocks = n };
	}
	ASSERT(count <= op->nblocks_landing);
	return count;
}

wk_cold bool app_mend_read(struct app_op *op, uint32_t skip)
{
	struct meta_run runs[APP_RUNS_MAX];
	uint32_t at[APP_RUNS_MAX], count = 0;
	bool wrong[APP_BLOCKS_MAX + 1];

	ASSERT(op->ios_out == 0 && op->landing);
	if (!compare(op, skip, wrong))
		return false;
	for (; count == 0 && op->mends < ROUNDS; op->mends++) { /* (1) */
		count = wrong_ones(op, skip, wrong, runs, at);
		op->doubts = op->mends;
	}
	if (count == 0)
		return false;
	(void)app_suspect(op->core, &op->target[0].handle, /* (2) */
			  op->offset_bytes / BLOCK_SIZE + op->nblocks_done, op->nblocks_landing);
	op->core->stat.turned_reads += count;
	app_op_io_at(op, runs, at, count, op->landing, op->landing_iova);
	return true;
}

wk_cold static bool block_again(struct app_op *op, const struct app_old_block *old, uint64_t other)
{
	const struct meta_run run = { .baddr = other, .nblocks = 1 };
	const uint32_t first = 0;

	ASSERT(other && op->mends < ROUNDS); /* (1) */
	op->doubts = op->mends++;
	op->io_status = 0;
	op->core->stat.turned_reads++;
	(void)app_suspect(op->core, &old->file, old->block, 1); /* (2) */
	app_op_io_at(op, &run, &first, 1, (char *)old->at,
		     app_staging_iova(&op->core->staging, old->at));
	return true;
}

bool app_mend_block(struct app_op *op, const struct app_old_block *old)
{
	const bool wrong = op->io_status ? !op->io[0].nvme.quarantined /* (3) */
					 : crc32c(old->at, BLOCK_SIZE) != old->sum;
	uint64_t other = 0;

	ASSERT(op->ios_out == 0);
	for (; unlikely(wrong) && op->mends < ROUNDS; op->mends++) { /* (1) */
		other = other_of(op, op->runs[0].baddr, op->mends);
		if (other)
			break;
	}
	if (other)
		return block_again(op, old, other);
	op->mends = 0;
	return false;
}
