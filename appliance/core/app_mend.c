/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Reads that do not match their checksums, in a store of two copies: from the other copy.
 *
 *   a client's read, asked for again --> LANDED: compared here --> wrong blocks from their second
 *                                        copies, into their places --> sent; the scrub mends them
 *   a block that a write merges with --> compared anyway --> the same
 *
 * A healthy read is compared by its reader only, and this CPU touches none of its bytes.  A reader
 * that found a mismatch asks once more, and says so (PROTOCOL.md 5: doubt); such a read is compared
 * here.  Over shared memory the bytes compared are the client's to change meanwhile: at worst its
 * own read is answered from the other copy, or not.
 *
 *  (1) A block is taken from its second copy once: its reader, or the caller, compares it again
 *      [test_app_pair:other_bytes_on_a_drive_are_never_read].
 *  (2) Each block that was wrong is the scrub's to mend (meta_scrub_heal.c) [e2e_mirror].
 */
#include "appliance/core/app_mend.h"
#include "appliance/core/app_sum.h"

#include <string.h>

/* The place to be asked instead; the block's own, if it is in a fold: app_op_io_at(). */
static uint64_t twin_of(const struct app_op *op, uint64_t baddr)
{
	const uint64_t twin = baddr ? meta_twin_of(op->core->twins, baddr) : 0;

	if (baddr && !twin && app_sum_can(op->core, baddr))
		return baddr;
	return twin && meta_twins_has(op->core->twins, META_BADDR_DRIVE(twin)) ? twin : 0;
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

static bool is_wrong(const struct app_op *op, uint32_t i, uint32_t skip)
{
	ASSERT(i < op->nblocks_landing && skip + i < ARRAY_LEN(op->crcs));
	return crc32c(op->landing + (size_t)i * BLOCK_SIZE, BLOCK_SIZE) != op->crcs[skip + i];
}

/* The wrong blocks from block i on that lie together, in both copies. */
static uint32_t piece(const struct app_op *op, uint32_t i, uint32_t skip, uint64_t twin)
{
	uint32_t n = 1;

	while (i + n < op->nblocks_landing && is_wrong(op, i + n, skip) &&
	       twin_of(op, place_of(op, skip + i + n)) == twin + n)
		n++;
	ASSERT(i + n <= op->nblocks_landing);
	return n;
}

wk_cold bool app_mend_read(struct app_op *op, uint32_t skip)
{
	struct meta_run runs[APP_RUNS_MAX];
	uint32_t at[APP_RUNS_MAX], count = 0;

	ASSERT(op->ios_out == 0 && op->landing);
	if (op->mended) /* (1) */
		return false;
	op->mended = true;
	for (uint32_t i = 0, n; i < op->nblocks_landing && count < APP_RUNS_MAX; i += n) {
		const uint64_t twin = twin_of(op, place_of(op, skip + i));

		n = 1;
		if (!twin || !is_wrong(op, i, skip))
			continue;
		n = piece(op, i, skip, twin);
		at[count] = i;
		runs[count++] = (struct meta_run){ .baddr = twin, .nblocks = n };
	}
	if (count == 0)
		return false;
	(void)app_suspect(op->core, &op->target[0].handle, /* (2) */
			  op->offset_bytes / BLOCK_SIZE + op->nblocks_done, op->nblocks_landing);
	op->core->stat.turned_reads += count;
	app_op_io_at(op, runs, at, count, op->landing, op->landing_iova);
	return true;
}

wk_cold static bool block_again(struct app_op *op, const struct app_old_block *old, uint64_t twin)
{
	const struct meta_run run = { .baddr = twin, .nblocks = 1 };
	const uint32_t first = 0;

	ASSERT(twin && !op->mended); /* (1) */
	op->mended = true;
	op->io_status = 0;
	op->core->stat.turned_reads++;
	(void)app_suspect(op->core, &old->file, old->block, 1); /* (2) */
	app_op_io_at(op, &run, &first, 1, (char *)old->at,
		     app_staging_iova(&op->core->staging, old->at));
	return true;
}

bool app_mend_block(struct app_op *op, const struct app_old_block *old)
{
	const bool wrong = op->io_status || crc32c(old->at, BLOCK_SIZE) != old->sum;
	const bool again = unlikely(wrong) && !op->mended; /* (1) */
	const uint64_t twin = again ? twin_of(op, op->runs[0].baddr) : 0;

	ASSERT(op->ios_out == 0);
	op->mended = false;
	return twin ? block_again(op, old, twin) : false;
}
