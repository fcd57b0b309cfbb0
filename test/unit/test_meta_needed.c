/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Stores of two copies lose a second drive before the first one is gone: exactly if nothing depends
 * on it. */
#include "test/lib/runs.h"
#include "test/unit/meta_fold_store.h"
#include "meta/engine/meta_log.h"

TestSuite(meta_needed, .timeout = 300);

static void all_are_there(void)
{
	all_is_there();
	bigs_are_there();
}

/* Both are taken away for good, and the power fails. */
static void both_are_gone_for_good(uint32_t first, uint32_t second)
{
	rig_power_cut(&r);
	wreck(first);
	wreck(second);
	r.conf.drive[first].nblocks = r.conf.drive[second].nblocks = 0;
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	all_are_there();
	r.never = 0;
	rebuilt(first);
	r.never = 0;
	rebuilt(second);
	is_whole();
}

/* The rebuild is on its way, but for the last checkpoints. */
static bool until_not_needed(uint32_t first, uint32_t second)
{
	for (uint32_t n = 0; n < 20000 && !stat_of(first).gone; n++) {
		if (!meta__drive_is_needed(r.m, second))
			return true;
		if (!rig_step(&r))
			(void)put((uint32_t)rand_below(&r.rand, FILES));
	}
	return false;
}

Test(meta_needed, second_drive_is_lost_before_the_first_is_gone)
{
	uint32_t losses = 0;

	for (uint64_t seed = 1; seed <= test_runs(40); seed++) {
		const uint32_t first = (uint32_t)(seed % 4), second = (first + 1) % 4;

		store(seed, 4, seed % 2);
		put_some(60);
		lose_drive(first);
		cr_assert(meta__drive_is_needed(r.m, second));
		if (until_not_needed(first, second)) {
			lose_drive(second);
			put_some(20);
			both_are_gone_for_good(first, second);
			losses++;
		}
		rig_end(&r);
	}
	cr_assert_gt(losses, 20 / test_step());
}

/* A drive fails at any moment after the first loss.  False: it is refused, and is brought back. */
static bool second_fails(uint32_t first, uint32_t second, uint64_t seed)
{
	if (!meta_drive_failed(r.m, second)) {
		r.dead = 0;
		return false;
	}
	r.dead |= 1u << second;
	for (uint32_t n = 0; n < seed % 10 && !r.cut; n++)
		(void)put((uint32_t)rand_below(&r.rand, FILES));
	cr_assert(r.cut || meta_health(r.m) == 0, "%s", meta_error(r.m));
	for (uint32_t n = 0; n < 1000 && r.m->losing && !r.cut; n++)
		(void)rig_step(&r);
	cr_assert(r.cut || !r.m->losing, "%s", meta_error(r.m));
	r.dead = 0;
	if (!r.cut)
		both_are_gone_for_good(first, second);
	return true;
}

/* Some steps of the rebuild; every other time up to where the second drive is not needed, and some
 * more. */
static void some_steps(uint32_t first, uint32_t second, uint64_t seed)
{
	uint64_t steps = rand_below(&r.rand, 1u << (4 + rand_below(&r.rand, 8)));

	if (seed % 2) {
		(void)until_not_needed(first, second);
		steps = rand_below(&r.rand, 30);
	}
	for (uint64_t n = 0; n < steps && !stat_of(first).gone; n++)
		if (rand_below(&r.rand, 64) == 0)
			put_some(1);
		else
			(void)rig_step(&r);
}

Test(meta_needed, second_drive_is_lost_exactly_if_nothing_depends_on_it)
{
	uint32_t lost[2] = { 0 }, refused[2] = { 0 };

	for (uint64_t seed = 1; seed <= test_runs(300); seed++) {
		const uint32_t drives = 4 + (uint32_t)(seed % 3), first = (uint32_t)(seed % drives);
		const uint32_t second = (first + 1 + (uint32_t)(seed / 7 % (drives - 1))) % drives;
		const bool folds = seed % 4 > 1;

		folds_of(seed, drives, folds ? 2 + (uint32_t)(seed % 2) : 0, seed % 2);
		put_some(40);
		if (folds)
			put_bigs(BIG / 2);
		fold();
		lose_drive(first);
		some_steps(first, second, seed);
		if (!stat_of(first).gone) {
			r.cut_at = seed % 3 ? 0 : r.writes + 1 + rand_below(&r.rand, 40);
			*(second_fails(first, second, seed) ? &lost[folds] : &refused[folds]) += 1;
			rig_power_cut(&r);
			r.cut_at = 0;
			cr_assert_eq(rig_mount(&r), 0, "seed %llu: %s", (unsigned long long)seed,
				     meta_error(r.m));
			all_are_there();
			is_whole();
		}
		r.never = 0;
		rig_end(&r);
	}
	cr_assert(lost[0] > 20 / test_step() && refused[0] > 10 / test_step(), "%u, %u", lost[0],
		  refused[0]);
	cr_assert(lost[1] > 20 / test_step() && refused[1] > 10 / test_step(), "%u, %u", lost[1],
		  refused[1]);
}

/* Returns the drives, by bits, with another zone of a fold that has lost one. */
static uint64_t with_folds_of(uint32_t lost)
{
	uint64_t drives = 0;

	for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++)
		if (meta__in_fold(meta__zone_at(r.m, i)) &&
		    meta__zone_at(r.m, meta__pair_first(r.m, i))->state == ZONE_CLOSED &&
		    meta__drives_of(r.m, i) >> lost & 1)
			drives |= meta__drives_of(r.m, i);
	return drives & ~(1ull << lost);
}

/* ... with the other copy of a zone of the log. */
static uint64_t with_log_of(uint32_t lost)
{
	const struct meta__log *l = r.m->log;
	uint64_t drives = 0;

	for (uint32_t i = 0; i < l->zones_count; i++) {
		uint64_t copies = 0;

		for (uint32_t k = 0; k < meta__log_copies(l->zones[i].zone); k++)
			copies |= 1ull << drive_of(l->zones[i].zone[k]);
		drives |= copies >> lost & 1 ? copies : 0;
	}
	return drives & ~(1ull << lost);
}

/* Step by step, until the first is gone. */
Test(meta_needed, folds_and_the_log_can_do_without_one_drive)
{
	uint32_t folds = 0, log = 0;

	for (uint64_t seed = 1; seed <= test_runs(12); seed++) {
		folds_of(seed, RIG_DRIVES_MAX, 2, seed % 2);
		put_bigs(BIG);
		fold();
		lose_drive(1);
		for (uint32_t n = 0; n < 20000 && !stat_of(1).gone; n++) {
			const uint64_t by_folds = with_folds_of(1), by_log = with_log_of(1);

			folds += by_folds > 0;
			log += by_log > 0;
			for (uint64_t left = by_folds | by_log; left; left &= left - 1)
				cr_assert(meta__drive_is_needed(r.m,
								(uint32_t)__builtin_ctzll(left)));
			if (!rig_step(&r))
				put_some(1);
		}
		cr_assert(stat_of(1).gone);
		rig_end(&r);
	}
	cr_assert(folds > 100 && log > 100, "%u, %u", folds, log);
}

static void until_recorded(void)
{
	for (uint32_t n = 0; n < 1000 && r.m->losing; n++)
		(void)rig_step(&r);
	cr_assert_eq(r.m->losing, 0, "%s", meta_error(r.m));
}

/* As few files as are enough for a fold: then few zones are on both of two drives. */
static void until_named(void)
{
	for (uint32_t i = 0; !r.m->zones->naming[0]; i++) {
		cr_assert_eq(put_big(i % BIG), 0);
		meta__ckpt_want(r.m);
		for (uint32_t n = 0; n < 200 && !r.m->zones->naming[0]; n++)
			(void)rig_step(&r);
	}
}

/* The header of a fold is on its way, and drives fail with zones of it whose other copies are
 * whole: the fold counts already, in case that its header is durable. */
Test(meta_needed, fold_whose_header_is_being_written_counts)
{
	uint32_t lost = 0, refused = 0;

	for (uint64_t seed = 1; seed <= 24; seed++) {
		const struct meta__zone_seen *head;
		uint32_t drive[2];

		folds_of(seed, 6, 2, seed % 2);
		until_named();
		head = r.m->zones->naming[0];
		drive[0] = drive_of(head->member[0]);
		drive[1] = drive_of(seed % 3 ? head->member[1] : head->zone);
		for (uint32_t i = 0; i < 2; i++) {
			const bool is = meta_drive_failed(r.m, drive[i]);

			r.dead |= (uint32_t)is << drive[i];
			*(is ? &lost : &refused) += i > 0;
		}
		while (r.m->zones->naming[0])
			(void)rig_step(&r);
		bigs_are_there();
		until_recorded();
		rig_power_cut(&r);
		for (uint32_t d = 0; d < 6; d++)
			if (r.dead >> d & 1) {
				wreck(d);
				r.conf.drive[d].nblocks = 0;
			}
		r.dead = 0;
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		bigs_are_there();
		is_whole();
		r.never = 0;
		rig_end(&r);
	}
	cr_assert(lost > 0 && refused > 5, "%u, %u", lost, refused);
}

/* More zones than a superblock can name: roots stay on the drive that is lost, which is never
 * gone.  The drive with their other copy is needed for ever, and no other one. */
Test(meta_needed, drive_with_the_only_roots_is_not_lost)
{
	for (uint32_t other = 0; other < 2; other++) {
		rig_make(&r, 1, 5, 4 * DRIVE_BYTES, 256, true);
		r.conf.copies = 2;
		r.copied = true;
		memset(fill_of, 0, sizeof(fill_of));
		memset(unsure, 0, sizeof(unsure));
		cr_assert_eq(rig_format(&r), 0, "%s", meta_error(r.m));
		put_some(40);
		lose_drive(other);
		for (uint32_t n = 0; n < 50; n++)
			rig_idle(&r);
		cr_assert(stat_of(other).lost);
		cr_assert_eq(rig_thin_zones(&r), 0);
		cr_assert(meta__drive_is_needed(r.m, !other));
		lose_drive(3);
		rebuilt(3);
		is_whole();
		cr_assert(!meta_drive_failed(r.m, !other));
		r.never = 0;
		rig_end(&r);
	}
}

/* A store with a drive more on which nothing is yet. */
static uint32_t store_and_an_empty_one(uint64_t seed, uint32_t ndrives)
{
	uint32_t added;

	store(seed, ndrives, true);
	put_some(60);
	rig_idle(&r);
	added = rig_drive(&r, DRIVE_BYTES, true);
	cr_assert_eq(rig_drive_add(&r, added), 0, "%s", meta_error(r.m));
	r.conf.ndrives = meta_drives(r.m);
	return added;
}

/* Any but this one. */
static uint32_t not_needed(uint32_t but)
{
	uint32_t d = 0;

	while (d < meta_drives(r.m) && (d == but || meta__drive_is_needed(r.m, d)))
		d++;
	cr_assert_lt(d, meta_drives(r.m));
	return d;
}

/* Two that fail before the superblocks name the first: one set names both, if two others stay.
 * Else a mount with the two of them, which know nothing of the loss, would go on without the one
 * that stayed. */
Test(meta_needed, as_many_stay_as_are_lost_together)
{
	for (uint32_t ndrives = 2; ndrives <= 4; ndrives++) {
		const uint32_t added = store_and_an_empty_one(ndrives, ndrives);
		const uint64_t set = r.m->boot->super.set;
		uint32_t other;

		r.dead = 1u << added;
		cr_assert(meta_drive_failed(r.m, added));
		other = not_needed(added);
		cr_assert_eq(meta_drive_failed(r.m, other), ndrives > 2);
		r.dead |= ndrives > 2 ? 1u << other : 0;
		until_recorded();
		cr_assert_eq(stat_of(other).lost, ndrives > 2);
		cr_assert_eq(r.m->boot->super.set, set + 1);
		if (ndrives > 2) {
			put_some(20);
			both_are_gone_for_good(other, added);
		}
		r.never = 0;
		rig_end(&r);
	}
}

/* The set that names the first is being written: the next one names the second, and until then
 * nothing counts that it has missed. */
Test(meta_needed, drive_that_fails_while_a_loss_is_recorded_is_in_the_next_set)
{
	for (uint64_t steps = 1; steps <= 8; steps++) {
		const uint32_t added = store_and_an_empty_one(steps, 4);
		const uint64_t set = r.m->boot->super.set;
		uint32_t other;

		r.dead = 1u << added;
		cr_assert(meta_drive_failed(r.m, added));
		for (uint64_t n = 0; n < 100 && (n < steps || !r.m->boot->adding); n++)
			(void)rig_step(&r);
		cr_assert_eq(r.m->losing, 1ull << added);
		other = not_needed(added);
		r.dead |= 1u << other;
		cr_assert(meta_drive_failed(r.m, other));
		for (uint32_t n = 0; n < 100 && r.m->losing >> added & 1; n++)
			(void)rig_step(&r);
		cr_assert_eq(r.m->losing, 1ull << other);
		cr_assert_eq(r.m->boot->super.set, set + 1);
		until_recorded();
		cr_assert_eq(r.m->boot->super.set, set + 2);
		put_some(20);
		both_are_gone_for_good(other, added);
		rig_end(&r);
	}
}

/* Roots are on their way to another drive, and superblocks may say already that they are there. */
Test(meta_needed, roots_count_in_both_sets_while_one_is_written)
{
	uint32_t moves = 0;

	for (uint64_t seed = 1; seed <= test_runs(30); seed++) {
		const uint32_t added = store_and_an_empty_one(seed, 5);
		const struct meta__boot *b = r.m->boot;

		cr_assert_eq(meta_drive_drain(r.m, 0), 0);
		for (uint32_t n = 0; n < 3000 && !(b->adding && b->next.root_zone[0][0]); n++)
			(void)rig_step(&r);
		cr_assert(b->adding && b->next.root_zone[0][0]);
		cr_assert_eq(r.m->zones->geo.root_zone[0][0], 0);
		cr_assert_eq(drive_of(b->next.root_zone[0][0] - 1), added);
		if (meta_drive_failed(r.m, added)) {
			r.dead = 1u << added;
			cr_assert(meta__drive_is_needed(r.m, 1));
			moves++;
		}
		rig_power_cut(&r);
		r.dead = 0;
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		is_whole();
		r.never = 0;
		rig_end(&r);
	}
	cr_assert_gt(moves, 6u);
}
