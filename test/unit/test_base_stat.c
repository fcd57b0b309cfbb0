/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "base/rand.h"
#include "base/stat.h"
#include "test/lib/death.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>

static struct stat_hist h, g;

static void setup(void)
{
	stat_hist_reset(&h);
	stat_hist_reset(&g);
}

TestSuite(base_stat, .init = setup);

Test(base_stat, counter_adds_and_is_set)
{
	struct stat_counter c = { 0 };

	stat_add(&c, 5);
	stat_add(&c, 6);
	cr_assert_eq(stat_get(&c), 11);
	stat_set(&c, 3);
	cr_assert_eq(stat_get(&c), 3);
}

Test(base_stat, empty_histogram_is_all_zeros)
{
	cr_assert_eq(stat_hist_count(&h), 0);
	cr_assert_eq(stat_hist_min(&h), 0);
	cr_assert_eq(stat_hist_max(&h), 0);
	cr_assert_eq(stat_hist_mean(&h), 0);
	cr_assert_eq(stat_hist_percentile(&h, 50), 0);
}

Test(base_stat, values_below_64_are_exact)
{
	for (uint64_t v = 0; v < 64; v++)
		stat_hist_record(&h, v);
	cr_assert_eq(stat_hist_percentile(&h, 0), 0);
	cr_assert_eq(stat_hist_percentile(&h, 50), 31);
	cr_assert_eq(stat_hist_percentile(&h, 100), 63);
	cr_assert_eq(stat_hist_mean(&h), 31);
}

Test(base_stat, one_value_is_its_own_every_percentile)
{
	stat_hist_record(&h, 1234567);
	cr_assert_eq(stat_hist_percentile(&h, 0), 1234567);
	cr_assert_eq(stat_hist_percentile(&h, 50), 1234567);
	cr_assert_eq(stat_hist_percentile(&h, 100), 1234567);
}

/* The definition, by sorting, against the buckets: never below, at most 1/64 above. */
Test(base_stat, percentile_agrees_with_sorting_from_one_to_the_largest_number)
{
	enum { COUNT = 1000 };
	static uint64_t value[COUNT];
	struct rand_state r;

	rand_seed(&r, 42);
	for (int i = 0; i < COUNT; i++)
		stat_hist_record(&h, value[i] = rand_u64(&r) >> rand_below(&r, 64));
	for (int i = 1; i < COUNT; i++) { /* insertion: no comparison function to get wrong */
		uint64_t v = value[i];
		int at = i;

		for (; at > 0 && value[at - 1] > v; at--)
			value[at] = value[at - 1];
		value[at] = v;
	}
	for (int tenth = 1; tenth <= 1000; tenth++) {
		uint64_t exact = value[tenth - 1], got = stat_hist_percentile(&h, tenth / 10.0);

		cr_assert_geq(got, exact);
		cr_assert_leq(got - exact, exact / 64);
	}
	cr_assert_eq(stat_hist_min(&h), value[0]);
	cr_assert_eq(stat_hist_max(&h), value[COUNT - 1]);
}

Test(base_stat, the_largest_number_has_a_bucket)
{
	stat_hist_record(&h, UINT64_MAX);
	stat_hist_record(&h, 0);
	cr_assert_eq(stat_hist_percentile(&h, 100), UINT64_MAX);
	cr_assert_eq(stat_hist_percentile(&h, 50), 0);
}

Test(base_stat, merged_is_as_if_one_had_recorded_all)
{
	static struct stat_hist all;

	stat_hist_reset(&all);
	for (uint64_t v = 1; v < 2000; v += 3) {
		stat_hist_record(&h, v);
		stat_hist_record(&all, v);
	}
	for (uint64_t v = 1; v < 900000; v += 777) {
		stat_hist_record(&g, v);
		stat_hist_record(&all, v);
	}
	stat_hist_merge(&h, &g);
	cr_assert_eq(stat_hist_count(&h), stat_hist_count(&all));
	cr_assert_eq(stat_hist_mean(&h), stat_hist_mean(&all));
	cr_assert_eq(stat_hist_min(&h), stat_hist_min(&all));
	cr_assert_eq(stat_hist_max(&h), stat_hist_max(&all));
	for (int p = 0; p <= 100; p++)
		cr_assert_eq(stat_hist_percentile(&h, p), stat_hist_percentile(&all, p));
}

Test(base_stat, merging_nothing_changes_nothing)
{
	stat_hist_record(&h, 7);
	stat_hist_merge(&h, &g);
	cr_assert_eq(stat_hist_min(&h), 7);
	cr_assert_eq(stat_hist_count(&h), 1);
}

static void asks_for_more_than_all(void)
{
	(void)stat_hist_percentile(&h, 100.5);
}

Test(base_stat, percent_above_a_hundred_is_our_mistake)
{
	cr_assert(dies_saying(asks_for_more_than_all, "percent <= 100.0"), "%s", death_said());
}
