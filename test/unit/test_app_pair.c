/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A store of two copies under the appliance whole but for main(): one of its drives refuses writes,
 * or reads, or has other bytes, and no client sees anything of that.
 */
#include "test/lib/app_files.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPOILS = 6 };

static struct app_files s;

static void setup(void)
{
	app_files_begin(&s, 2, 0);
}

static void teardown(void)
{
	app_files_end(&s);
}

TestSuite(app_pair, .init = setup, .fini = teardown, .timeout = 120);

Test(app_pair, drive_that_refuses_writes_is_left)
{
	app_files_put(&s, 1);
	sim_drive_faults(s.sim[1], &(struct sim_faults){ .write_error_ppm = 1000000 });
	app_files_put(&s, 2);
	app_files_get(&s, 2);
	cr_assert(app_files_is_lost(&s, 1) && !app_files_is_lost(&s, 0));
	app_files_put(&s, 3);
	app_files_get(&s, 3);
	cr_assert_eq(app_files_stat(&s).damaged_files, 0);
}

Test(app_pair, drive_that_now_and_then_refuses_one_is_left)
{
	app_files_put(&s, 1);
	sim_drive_faults(s.sim[0], &(struct sim_faults){ .write_error_ppm = 20000 });
	/* How many writes that takes, and so whether one is refused, differs from run to run. */
	for (uint32_t round = 2; round < 6 || !app_files_is_lost(&s, 0); round++) {
		app_files_put(&s, round);
		app_files_get(&s, round);
	}
	cr_assert(!app_files_is_lost(&s, 1));
}

Test(app_pair, reads_that_fail_are_answered_from_the_second_copy)
{
	app_files_put(&s, 1);
	app_files_get(&s, 1);
	cr_assert_eq(app_files_stat(&s).turned_reads, 0);
	sim_drive_faults(s.sim[0], &(struct sim_faults){ .read_error_ppm = 300000 });
	app_files_get(&s, 1);
	cr_assert_gt(app_files_stat(&s).turned_reads, 5);
	app_files_put(&s, 2);
	app_files_get(&s, 2);
}

/* It lies in so many zones that its second copies follow the first ones; then there are none.  In
 * a few zones more it does not fit a record. */
static void write_large(const char *bytes, size_t size)
{
	struct weka_attr attr;
	int64_t put;
	void *got;
	size_t n;

	cr_assert_eq(weka_write_file(s.client, "/large", bytes, 1, NULL), 0);
	cr_assert_eq(weka_open(s.client, "/large", WEKA_HOLD, 0, &attr), 0);
	put = weka_pwrite(s.client, &attr.handle, bytes, size, 0);
	cr_assert(put == (int64_t)size || put == -EFBIG, "%zu: %s", size, strerror((int)-put));
	cr_assert_eq(weka_close_file(s.client, &attr.handle), 0);
	cr_assert_eq(weka_read_file(s.client, "/large", &got, &n), 0);
	cr_assert(memcmp(got, bytes, n) == 0 && n == (put > 0 ? size : 1));
	free(got);
	cr_assert_eq(weka_unlink(s.client, "/large"), 0);
}

Test(app_pair, large_write_goes_on_with_one_drive)
{
	const size_t most = 800u * 4096;
	char *bytes = malloc(most);

	for (uint32_t round = 0; round < 3; round++) {
		memset(bytes, (int)(round + 1), most);
		for (size_t size = 740u * 4096; size < most; size += 5u * 4096)
			write_large(bytes, size);
		if (round == 0)
			sim_drive_faults(s.sim[0],
					 &(struct sim_faults){ .write_error_ppm = 1000000 });
	}
	cr_assert(app_files_is_lost(&s, 0) && !app_files_is_lost(&s, 1));
	free(bytes);
}

Test(app_pair, other_bytes_on_a_drive_are_never_read)
{
	for (uint32_t round = 1; round < 4; round++) {
		app_files_put(&s, round);
		app_files_spoil(&s, 1, SPOILS);
		app_files_get(&s, round);
		app_files_spoil(&s, 1, SPOILS);
		app_files_change(&s, round);
	}
	cr_assert_gt(app_files_stat(&s).turned_reads, 20);
	cr_assert_eq(app_files_stat(&s).damaged_files, 0);
}
