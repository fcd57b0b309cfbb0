/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A store of three copies, with folds of two zones of data, P and Q, under the appliance whole but
 * for main(): two of its drives refuse reads or writes, and no client sees anything of that.
 */
#include "appliance/core/app_op.h"
#include "test/lib/app_files.h"

#include <criterion/criterion.h>
#include <unistd.h>

enum { DRIVES = 4 };

static struct app_files s;

static void setup(void)
{
	app_files_begin_three(&s, DRIVES, 2);
}

static void teardown(void)
{
	app_files_end(&s);
}

TestSuite(app_double, .init = setup, .fini = teardown, .timeout = 120);

/* Zones that are in folds. */
static uint32_t folded(void)
{
	const struct meta_twins *t = s.rig.run.core->twins;
	uint32_t n = 0;

	for (uint32_t d = 0; d < DRIVES; d++)
		for (uint32_t i = 0; i < t->drive[d].count; i++)
			n += atomic_load_explicit(&t->drive[d].ring[i], memory_order_acquire) != 0;
	return n;
}

/* A mount folds what is there. */
static void fold(void)
{
	app_files_mount(&s);
	for (uint32_t last = 0, same = 0; same < 20;) {
		const uint32_t now = folded();

		same = now == last && now > 8 ? same + 1 : 0;
		last = now;
		usleep(10000);
	}
}

/*
 * No drive is lost here: each sum meets the second one that refuses.  Drives still read block 1,
 * which lies before the zones.  A drive that refuses every read for a second is lost
 * (app_failing.c (3)), and on a busy machine a round may take that long.
 */
Test(app_double, second_drive_that_refuses_is_left_out)
{
	const struct sim_faults none = { 0 };
	const struct sim_faults all = { .read_error_ppm = 1000000, .read_error_from = 2 };

	app_files_put(&s, 1);
	fold();
	for (uint32_t a = 0; a < DRIVES; a++)
		for (uint32_t b = a + 1; b < DRIVES; b++) {
			sim_drive_faults(s.sim[a], &all);
			sim_drive_faults(s.sim[b], &all);
			app_files_get(&s, 1);
			sim_drive_faults(s.sim[a], &none);
			sim_drive_faults(s.sim[b], &none);
		}
	cr_assert_gt(app_files_stat(&s).turned_reads, 5);
	cr_assert_eq(app_files_stat(&s).damaged_files, 0);
}

/* Each block of its zones in folds has another bit. */
static void rot(uint32_t drive)
{
	const struct meta_twins *t = s.rig.run.core->twins;
	const uint32_t blocks = meta_twins_blocks(t);

	for (uint32_t i = 0; i < t->drive[drive].count; i++) {
		if (!atomic_load_explicit(&t->drive[drive].ring[i], memory_order_acquire))
			continue;
		for (uint32_t k = 1; k < blocks - 1; k++)
			sim_drive_flip(s.sim[drive],
				       (t->drive[drive].at + (uint64_t)i * blocks + k) * 4096 + 77,
				       3);
	}
}

/* The sum of a block on the first has a wrong term on the second.  A drive that refuses all for a
 * second is lost: so each has a store of its own. */
Test(app_double, rot_beside_a_drive_that_refuses)
{
	const struct sim_faults all = { .read_error_ppm = 1000000 };

	for (uint32_t a = 0; a < DRIVES; a++) {
		if (a == 1)
			continue;
		app_files_put(&s, 1);
		fold();
		rot(1);
		sim_drive_faults(s.sim[a], &all);
		app_files_get(&s, 1);
		cr_assert_gt(app_files_stat(&s).turned_reads, 1);
		cr_assert_eq(app_files_stat(&s).damaged_files, 0);
		teardown();
		setup();
	}
}

/* One of each eight blocks of its zones in folds cannot be read. */
static void ruin(uint32_t drive, uint32_t nth)
{
	const struct meta_twins *t = s.rig.run.core->twins;
	const uint32_t blocks = meta_twins_blocks(t);

	for (uint32_t i = 0; i < t->drive[drive].count; i++)
		if (atomic_load_explicit(&t->drive[drive].ring[i], memory_order_acquire))
			for (uint32_t k = 1 + nth; k < blocks - 1; k += 8)
				sim_drive_ruin(s.sim[drive],
					       t->drive[drive].at + (uint64_t)i * blocks + k);
}

/* A drive refuses all, and each piece that is summed up has unreadable blocks on two others. */
Test(app_double, blocks_that_cannot_be_read_are_in_the_way_of_no_others)
{
	const struct sim_faults all = { .read_error_ppm = 1000000 };

	app_files_put(&s, 1);
	fold();
	ruin(1, 2);
	ruin(2, 5);
	sim_drive_faults(s.sim[0], &all);
	app_files_get(&s, 1);
	cr_assert_gt(app_files_stat(&s).turned_reads, 5);
	cr_assert_eq(app_files_stat(&s).damaged_files, 0);
}
