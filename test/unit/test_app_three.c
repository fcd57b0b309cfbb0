/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A store of three copies under the appliance whole but for main(): any two of its drives refuse
 * writes, or reads, or have other bytes, at once or one after the other, and no client sees that.
 */
#include "test/lib/app_files.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { DRIVES = 4, SPOILS = 8 };

static struct app_files s;

static void setup(void)
{
	app_files_begin_three(&s, DRIVES, 0);
}

static void teardown(void)
{
	app_files_end(&s);
}

TestSuite(app_three, .init = setup, .fini = teardown, .timeout = 240);

static void refuse_writes(uint32_t drive)
{
	sim_drive_faults(s.sim[drive], &(struct sim_faults){ .write_error_ppm = 1000000 });
}

Test(app_three, two_drives_that_refuse_writes_at_once_are_left)
{
	app_files_put(&s, 1);
	refuse_writes(1);
	refuse_writes(3);
	app_files_put(&s, 2);
	app_files_get(&s, 2);
	cr_assert(app_files_is_lost(&s, 1) && app_files_is_lost(&s, 3));
	cr_assert(!app_files_is_lost(&s, 0) && !app_files_is_lost(&s, 2));
	app_files_change(&s, 2);
	app_files_put(&s, 3);
	app_files_get(&s, 3);
	cr_assert_eq(app_files_stat(&s).damaged_files, 0);
}

Test(app_three, two_drives_are_left_one_after_the_other)
{
	app_files_put(&s, 1);
	for (uint32_t d = 0; d < 2; d++) {
		refuse_writes(d);
		app_files_put(&s, 2 + d);
		app_files_get(&s, 2 + d);
		cr_assert(app_files_is_lost(&s, d));
	}
	app_files_put(&s, 4);
	app_files_get(&s, 4);
}

Test(app_three, reads_that_fail_are_answered_from_the_copies_that_can_be_read)
{
	app_files_put(&s, 1);
	app_files_get(&s, 1);
	cr_assert_eq(app_files_stat(&s).turned_reads, 0);
	for (uint32_t d = 0; d < 2; d++)
		sim_drive_faults(s.sim[d], &(struct sim_faults){ .read_error_ppm = 300000 });
	app_files_get(&s, 1);
	cr_assert_gt(app_files_stat(&s).turned_reads, 5);
	app_files_put(&s, 2);
	app_files_get(&s, 2);
	app_files_change(&s, 2);
}

/* A block may be wrong in two places. */
Test(app_three, other_bytes_on_two_drives_are_never_read)
{
	for (uint32_t round = 1; round < 4; round++) {
		app_files_put(&s, round);
		app_files_spoil(&s, 1, SPOILS);
		app_files_spoil(&s, 2, SPOILS);
		app_files_get(&s, round);
	}
	app_files_spoil(&s, 1, SPOILS);
	app_files_spoil(&s, 2, SPOILS);
	app_files_change(&s, 3);
	cr_assert_gt(app_files_stat(&s).turned_reads, 20);
	cr_assert_eq(app_files_stat(&s).damaged_files, 0);
}

/* Each lies in so many zones that it is written copy by copy. */
Test(app_three, large_writes_go_on_with_one_drive_less)
{
	const size_t size = 500u * 4096;
	char *bytes = malloc(size);

	for (uint32_t round = 0; round < 6; round++) {
		void *got;
		size_t n;
		int err;

		if (round == 2 || round == 4)
			refuse_writes(round / 2);
		memset(bytes, (int)(round + 1), size);
		err = weka_write_file(s.client, "/large", bytes, size, NULL);
		cr_assert_eq(err, 0, "round %u: %s", round, strerror(-err));
		cr_assert_eq(weka_read_file(s.client, "/large", &got, &n), 0);
		cr_assert(n == size && memcmp(got, bytes, n) == 0);
		free(got);
	}
	cr_assert(app_files_is_lost(&s, 1) && app_files_is_lost(&s, 2));
	free(bytes);
}

Test(app_three, what_two_drives_missed_is_there_after_a_mount)
{
	app_files_put(&s, 1);
	refuse_writes(0);
	refuse_writes(2);
	app_files_put(&s, 2);
	cr_assert(app_files_is_lost(&s, 0) && app_files_is_lost(&s, 2));
	app_files_mount(&s);
	app_files_get(&s, 2);
	cr_assert(app_files_is_lost(&s, 0) && app_files_is_lost(&s, 2), "neither is believed");
	app_files_put(&s, 3);
	app_files_get(&s, 3);
	cr_assert_eq(app_files_stat(&s).damaged_files, 0);
}
