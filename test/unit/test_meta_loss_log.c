/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A drive fails while a block of the log, or a root, is written to it.  The block counts when the
 * superblocks of all others say that the drive is lost, and not before: until then a mount that
 * finds that drive, and misses another one, goes on without the block.
 */
#include <stdint.h>

static uint32_t copies = 2;
#define STORE_COPIES copies
#include "test/lib/runs.h"
#include "test/unit/meta_pair_store.h"

TestSuite(meta_loss_log, .timeout = 120);

static struct meta__io *one_io(void)
{
	struct meta_io *io = meta_io_next(r.m);

	cr_assert_not_null(io);
	cr_assert_eq(io->op, META_IO_WRITE);
	return container_of(io, struct meta__io, io);
}

static void one_done(struct meta__io *x, int status)
{
	x->io.status = status;
	meta_io_done(r.m, &x->io);
}

/* Whether the block counted before the loss was recorded, and then; and whether it was. */
struct counted {
	bool before, after, lost;
};

/* The write of copy `bad` fails, after `before` others have ended. */
static struct counted copy_fails(uint32_t bad, uint32_t before)
{
	struct counted seen = { 0 };
	const struct meta__mut mut = { .key = { { 9, 9, 9 } }, .value = "x", .value_len = 1 };
	struct meta__io *x[3];
	uint64_t seq;

	store(1, copies + 1, false);
	rig_idle(&r);
	seq = meta__log_append(r.m, &mut, 1, 0);
	meta__log_turn(r.m);
	for (uint32_t i = 0; i < copies; i++)
		x[i] = one_io();
	for (uint32_t n = 0, i = 0; n < copies; n++) {
		i += n != before && i == bad; /* the next of the others */
		if (n == before)
			one_done(x[bad], -EIO);
		else
			one_done(x[i++], 0);
	}
	cr_assert_eq(r.m->losing, 1ull << x[bad]->io.drive);
	for (uint32_t n = 0; n < 1000 && r.m->losing; n++) {
		seen.before |= meta_is_durable(r.m, seq);
		(void)rig_step(&r);
	}
	seen.lost = stat_of(x[bad]->io.drive).lost;
	seen.after = meta_is_durable(r.m, seq);
	r.cut = true; /* that record is of no tree */
	rig_end(&r);
	return seen;
}

Test(meta_loss_log, block_that_a_drive_missed_counts_when_its_loss_is_recorded)
{
	for (copies = 2; copies <= 3; copies++)
		for (uint32_t bad = 0; bad < copies; bad++)
			for (uint32_t before = 0; before < copies; before++) {
				const struct counted seen = copy_fails(bad, before);

				cr_assert_not(seen.before, "copy %u, after %u", bad, before);
				cr_assert(seen.lost && seen.after, "copy %u, after %u", bad,
					  before);
			}
}

/* A drive dies at some write, and the power fails some writes later; then the drive is back, and
 * another one is not.  Returns how the mount ended. */
static int back_and_another_away(uint64_t seed)
{
	const uint32_t ndrives = copies + 1 + (uint32_t)(seed % 2);
	const uint32_t dies = (uint32_t)(seed / 2 % ndrives), away = (dies + 1) % ndrives;
	int err;

	store(seed, ndrives, seed % 3 == 0);
	put_some(20);
	r.dying = 1u << dies;
	r.dies_at = r.writes + 1 + rand_below(&r.rand, 60);
	r.cut_at = r.dies_at + 1 + rand_below(&r.rand, 12);
	for (uint32_t n = 0; n < 100 && !r.cut; n++)
		(void)put((uint32_t)rand_below(&r.rand, FILES));
	rig_power_cut(&r);
	r.dying = r.dead = 0;
	r.dies_at = r.cut_at = 0;
	r.conf.drive[away].nblocks = 0;
	err = rig_mount(&r);
	if (!err)
		all_is_there();
	r.never = 0;
	rig_end(&r);
	return err;
}

Test(meta_loss_log, drive_that_missed_a_block_is_back_and_another_one_is_not)
{
	for (copies = 2; copies <= 3; copies++) {
		uint32_t mounts = 0;

		for (uint64_t seed = 1; seed <= test_runs(80); seed++) {
			const int err = back_and_another_away(seed);

			cr_assert(err == 0 || err == -ENODEV, "seed %llu: %s",
				  (unsigned long long)seed, meta_error(r.m));
			mounts += !err;
		}
		cr_assert_gt(mounts, 25 / test_step());
	}
}

/* The same for a root: it dies during a checkpoint, some of whose roots it has not taken. */
static int back_without_a_root(uint64_t seed)
{
	const uint32_t ndrives = copies + 1, dies = (uint32_t)(seed % copies);
	const uint32_t away = (dies + 1) % copies;
	int err;

	store(seed, ndrives, seed % 3 == 0);
	put_some(150);
	rig_idle(&r);
	put_some(10);
	meta__ckpt_want(r.m);
	r.dying = 1u << dies;
	r.dies_at = r.writes + 1 + rand_below(&r.rand, 50);
	r.cut_at = r.dies_at + 1 + rand_below(&r.rand, 16);
	for (uint32_t n = 0; n < 100 && !r.cut; n++)
		(void)put((uint32_t)rand_below(&r.rand, FILES));
	rig_power_cut(&r);
	r.dying = r.dead = 0;
	r.dies_at = r.cut_at = 0;
	r.conf.drive[away].nblocks = 0;
	err = rig_mount(&r);
	if (!err)
		is_whole();
	r.never = 0;
	rig_end(&r);
	return err;
}

Test(meta_loss_log, drive_that_missed_a_root_is_back_and_another_one_is_not)
{
	for (copies = 2; copies <= 3; copies++) {
		uint32_t mounts = 0;

		for (uint64_t seed = 1; seed <= test_runs(120); seed++) {
			const int err = back_without_a_root(seed);

			cr_assert(err == 0 || err == -ENODEV, "seed %llu: %s",
				  (unsigned long long)seed, meta_error(r.m));
			mounts += !err;
		}
		cr_assert_gt(mounts, 25 / test_step());
	}
}

static uint64_t checkpoints(void)
{
	return rig_statfs(&r).checkpoints;
}

/* A drive dies at write `n` of a checkpoint, and no superblock can be written.  Returns false if
 * the checkpoint had ended. */
static bool checkpoint_waits(uint64_t n)
{
	uint64_t before, done;

	store(n, copies + 1, false);
	put_some(30);
	rig_idle(&r);
	put_some(10);
	before = done = checkpoints();
	for (uint32_t d = 2; d < copies + 1; d++) /* the first of those that are told */
		r.stalled[d - 2] = META_BADDR(d, DRIVE_BYTES / 4096 - 1);
	meta__ckpt_want(r.m);
	r.dying = 1u << 1;
	r.dies_at = r.writes + n;
	for (uint32_t steps = 0; steps < 3000 && !r.m->losing; steps++) {
		done = checkpoints();
		(void)rig_step(&r);
	}
	if (!r.m->losing) {
		cr_assert_gt(checkpoints(), before);
		rig_end(&r);
		return false;
	}
	for (uint32_t steps = 0; steps < 1000; steps++)
		(void)rig_step(&r);
	cr_assert(r.m->losing);
	cr_assert_eq(checkpoints(), done, "write %llu", (unsigned long long)n);
	r.stalled[0] = r.stalled[1] = 0;
	for (uint32_t steps = 0; steps < 1000 && r.m->losing; steps++)
		(void)rig_step(&r);
	rig_idle(&r);
	cr_assert_gt(checkpoints(), before);
	is_whole();
	r.never = 0;
	rig_end(&r);
	return done == before;
}

/* Zones that older roots name are free after it, and a drive that is back may have these roots. */
Test(meta_loss_log, no_checkpoint_ends_before_a_loss_is_recorded)
{
	for (copies = 2; copies <= 3; copies++) {
		uint64_t n = 1;

		while (checkpoint_waits(n))
			n++;
		cr_assert_gt(n, 4 * copies, "each shard has as many copies of its root");
	}
}
