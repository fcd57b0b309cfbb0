/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The figures of bench_fair. */
#include "bench/bench_fair.h"

#include <criterion/criterion.h>

Test(bench_fair, all_alike)
{
	const uint64_t had[] = { 7, 7, 7 };
	struct bench__shares s;

	bench__shares(had, 3, &s);
	cr_assert_eq(s.all, 21);
	cr_assert_float_eq(s.mean, 7, 1e-9);
	cr_assert_float_eq(s.least, 1, 1e-9);
	cr_assert_float_eq(s.most, 1, 1e-9);
	cr_assert_float_eq(s.worst, 0, 1e-9);
}

/* The worst is the one that is further off, above or below. */
Test(bench_fair, the_worst)
{
	const uint64_t high[] = { 90, 90, 120 }, low[] = { 110, 110, 80 };
	struct bench__shares s;

	bench__shares(high, 3, &s);
	cr_assert_float_eq(s.worst, 0.2, 1e-9);
	cr_assert_float_eq(s.least, 0.9, 1e-9);
	bench__shares(low, 3, &s);
	cr_assert_float_eq(s.worst, 0.2, 1e-9);
	cr_assert_float_eq(s.most, 1.1, 1e-9);
}

/* Nobody had anything: no division. */
Test(bench_fair, nothing)
{
	const uint64_t had[] = { 0, 0 };
	struct bench__shares s;

	bench__shares(had, 2, &s);
	cr_assert_eq(s.all, 0);
	cr_assert_float_eq(s.worst, 0, 1e-9);
}
