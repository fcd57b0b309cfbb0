/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The local side of a comparison does its work, and leaves nothing behind. */
#include "bench/bench.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static char dir[] = "/tmp/test-bench-posix.XXXXXX";

static void setup(void)
{
	cr_redirect_stderr();
	cr_assert_not_null(mkdtemp(dir));
}

/* At the end of each test, not as .fini, whose failures nobody counts. */
static void assert_nothing_left(void)
{
	cr_assert_eq(rmdir(dir), 0, "something was left behind");
}

TestSuite(bench_posix, .init = setup);

Test(bench_posix, reads_the_files_that_it_made)
{
	struct bench_posix *p;
	struct bench_run run = { 0 };

	cr_assert_eq(bench_posix_create(&p, dir, 20, 4096), 0);
	cr_assert_eq(bench_posix_read_run(p, 0.001, &run), 0);
	cr_assert_gt(run.ops, 0);
	cr_assert_eq(run.bytes, run.ops * 4096);
	bench_posix_destroy(p);
	assert_nothing_left();
}

Test(bench_posix, creates_and_removes)
{
	struct bench_posix *p;
	struct bench_run run = { 0 };

	cr_assert_eq(bench_posix_create(&p, dir, 0, 100), 0);
	cr_assert_eq(bench_posix_create_run(p, 0.001, &run), 0);
	cr_assert_gt(run.ops, 0);
	bench_posix_destroy(p);
	assert_nothing_left();
}

Test(bench_posix, reads_pieces_of_a_large_file)
{
	for (int sequential = 0; sequential < 2; sequential++) {
		struct bench_posix *p;
		struct bench_run run = { 0 };

		cr_assert_eq(bench_posix_large(&p, dir, 1 << 20, 4096, sequential), 0);
		cr_assert_eq(bench_posix_pread_run(p, 0.001, &run), 0);
		cr_assert_eq(run.ops % 16, 0);
		bench_posix_destroy(p);
	}
	assert_nothing_left();
}

Test(bench_posix, says_so_when_it_cannot)
{
	struct bench_posix *p;

	cr_assert_eq(bench_posix_create(&p, "/nowhere/at/all", 1, 1), -ENOENT);
	bench_posix_destroy(p);
	assert_nothing_left();
}
