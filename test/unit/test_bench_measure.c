/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A measurement's rounds: what runs in which order, and what the ratios are. */
#include "bench/bench.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static char order[128]; /* a letter a run */

struct fake {
	char letter;
	uint64_t ops;
	int fail_at; /* its n-th run fails; 0: none */
	int runs;
	bool wants_hist;
};

static int fake_run(void *ctx, double seconds, struct bench_run *run)
{
	struct fake *f = ctx;

	order[strlen(order)] = f->letter;
	cr_assert_gt(seconds, 0);
	cr_assert_eq(run->ops, 0, "each run begins at zero");
	if (run->hist)
		f->wants_hist = true;
	run->ops = f->ops;
	run->bytes = f->ops * 10;
	run->ns = 1000000000;
	return ++f->runs == f->fail_at;
}

static struct fake work, copy, posix;
static struct bench_part part[BENCH_ROLES];
static struct bench_conf conf;

static void setup(void)
{
	work = (struct fake){ .letter = 'w', .ops = 600 };
	copy = (struct fake){ .letter = 'c', .ops = 1000 };
	posix = (struct fake){ .letter = 'p', .ops = 200 };
	conf = (struct bench_conf){ .runs = 2, .seconds = 1, .json = true, .depth = 1 };
	part[BENCH_WORK] = (struct bench_part){ fake_run, &work };
	part[BENCH_VS_COPY] = (struct bench_part){ fake_run, &copy };
	part[BENCH_VS_POSIX] = (struct bench_part){ fake_run, &posix };
	cr_redirect_stdout();
	cr_redirect_stderr();
}

TestSuite(bench_measure, .init = setup);

Test(bench_measure, goes_round_by_round_after_one_that_does_not_count)
{
	char line[1024];

	cr_assert_eq(bench_measure(&conf, "x", "shm", part), 0);
	cr_assert_str_eq(order, "wcpwcpwcp");
	cr_assert(work.wants_hist);
	cr_assert_not(copy.wants_hist, "the reference's latencies are nobody's");
	cr_assert_not_null(fgets(line, sizeof(line), cr_get_redirected_stdout()));
	cr_assert(strstr(line, "\"ops_per_s\":600,"), "%s", line);
	cr_assert(strstr(line, "\"bytes_per_s\":6000,"), "%s", line);
	cr_assert(strstr(line, "\"vs_copy\":0.6000,\"vs_posix\":3.0000"), "%s", line);
	cr_assert_null(strstr(line, "vs_pipe"));
}

Test(bench_measure, ends_with_the_first_part_that_fails)
{
	copy.fail_at = 2;
	cr_assert_neq(bench_measure(&conf, "x", "shm", part), 0);
	cr_assert_str_eq(order, "wcpwc");
}

Test(bench_measure, is_no_number_when_nothing_was_done)
{
	work.ops = 0;
	cr_assert_neq(bench_measure(&conf, "x", "shm", part), 0);
	cr_assert_str_eq(order, "w");
}

Test(bench_measure, ends_after_a_signal)
{
	bench_catch_signals();
	cr_assert_not(bench_interrupted());
	raise(SIGTERM);
	cr_assert(bench_interrupted());
	cr_assert_neq(bench_measure(&conf, "x", "shm", part), 0);
	cr_assert_str_eq(order, "w");
}
