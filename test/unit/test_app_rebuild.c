/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The progress of a rebuild: a rate once there is one, and no promise without. */
#include "appliance/core/app_rebuild.h"
#include "base/clock.h"

#include <criterion/criterion.h>

static struct app_rebuild r;
static uint64_t now_ns;

static void setup(void)
{
	r = (struct app_rebuild){ 0 };
	now_ns = 77 * NS_PER_S;
}

TestSuite(app_rebuild, .init = setup);

static const struct meta_rebuild lost = { .what = META_REBUILD_LOST, .drive = 3 };

static struct app_rebuild_snapshot after(uint64_t ms, uint64_t left_blocks)
{
	struct app_rebuild_snapshot s;
	struct meta_rebuild store = lost;

	now_ns += ms * NS_PER_MS;
	store.left_blocks = left_blocks;
	app_rebuild_look(&r, &store, now_ns);
	app_rebuild_stat(&r, now_ns, &s);
	return s;
}

Test(app_rebuild, rate_and_end_follow_from_what_was_measured)
{
	struct app_rebuild_snapshot s = after(0, 10000);

	cr_assert(!s.measured);
	cr_assert_eq(s.done_blocks, 0);
	cr_assert(!after(1000, 9900).measured, "one second is no measurement");
	s = after(1000, 9800);
	cr_assert(s.measured);
	cr_assert_eq(s.blocks_per_second, 100);
	cr_assert_eq(s.seconds_left, 98);
	cr_assert_eq(s.done_blocks, 200);
	cr_assert_eq(s.age_ns, 2 * NS_PER_S);
	cr_assert_str_eq(app_rebuild_state_name(&s), "moving");
	cr_assert_str_eq(app_rebuild_what_name(&s), "lost");
}

Test(app_rebuild, rate_is_that_of_the_last_half_minute)
{
	uint64_t left = 1000000;
	struct app_rebuild_snapshot s = after(0, left);

	for (uint32_t i = 0; i < 100; i++)
		s = after(1000, left -= 1000);
	cr_assert_eq(s.blocks_per_second, 1000);
	for (uint32_t i = 0; i < 40; i++)
		s = after(1000, left -= 10);
	cr_assert_eq(s.blocks_per_second, 10);
	for (uint32_t i = 0; i < 40; i++) /* asked more often than it measures */
		s = after(10, left);
	cr_assert_eq(s.blocks_per_second, 9, "%u", (uint32_t)s.blocks_per_second);
	cr_assert_eq(s.done_blocks, 100400);
}

Test(app_rebuild, nothing_that_moves_has_no_rate_and_stalls)
{
	struct app_rebuild_snapshot s;

	after(0, 10000);
	after(1000, 9900);
	for (uint32_t i = 0; i < 40; i++)
		s = after(1000, 9900);
	cr_assert(!s.measured);
	cr_assert(s.stalled);
	cr_assert(app_rebuild_is_stuck(&s));
	cr_assert_str_eq(app_rebuild_state_name(&s), "stalled");
	s.store.tight_blocks = 5;
	cr_assert_str_eq(app_rebuild_state_name(&s), "no_room");
	cr_assert_eq(app_rebuild_missing(&s), 5);
	s = after(1000, 9800);
	cr_assert(!s.stalled);
	cr_assert(!app_rebuild_is_stuck(&s));
}

/* Nobody asked for an hour, and the core slept: what moved in that time counts in that time. */
Test(app_rebuild, pause_between_two_looks_is_part_of_the_measurement)
{
	struct app_rebuild_snapshot s = after(0, 100000);

	s = after(1000000, 90000);
	cr_assert_eq(s.blocks_per_second, 10);
	cr_assert_eq(s.seconds_left, 9000);
}

Test(app_rebuild, another_one_begins_anew)
{
	struct meta_rebuild drain = { .what = META_REBUILD_DRAIN, .drive = 1, .left_blocks = 50 };
	struct app_rebuild_snapshot s;

	after(0, 1000);
	after(5000, 500);
	app_rebuild_look(&r, &drain, now_ns);
	app_rebuild_stat(&r, now_ns, &s);
	cr_assert_eq(s.done_blocks, 0);
	cr_assert(!s.measured);
	cr_assert_str_eq(app_rebuild_what_name(&s), "drain");
	drain = (struct meta_rebuild){ .what = META_REBUILD_NONE };
	app_rebuild_look(&r, &drain, now_ns);
	app_rebuild_stat(&r, now_ns, &s);
	cr_assert_eq(s.store.what, META_REBUILD_NONE);
	cr_assert(!app_rebuild_is_stuck(&s));
}

Test(app_rebuild, each_obstacle_has_its_name)
{
	struct app_rebuild_snapshot s = after(0, 100);

	s.store.kept_blocks = 100;
	cr_assert_str_eq(app_rebuild_state_name(&s), "damaged");
	s.store.short_blocks = 1;
	cr_assert_str_eq(app_rebuild_state_name(&s), "no_room");
	s.store.alone = true;
	cr_assert_str_eq(app_rebuild_state_name(&s), "no_drive");
	cr_assert_eq(app_rebuild_missing(&s), 0);
	s = after(0, 0);
	cr_assert_str_eq(app_rebuild_state_name(&s), "ending");
	s.store.cannot = true;
	cr_assert_str_eq(app_rebuild_state_name(&s), "not_written");
	cr_assert(app_rebuild_is_stuck(&s));
}

Test(app_rebuild, credit_is_given_at_the_rate_and_a_rest_is_not_made_up_for)
{
	int64_t left = 1, moved = 0;

	r.rate = 10 * 4096 * 1000; /* ten blocks a millisecond */
	r.paid_ns = now_ns;
	for (uint32_t i = 0; i < 100000; i++) {
		now_ns += 30 * NS_PER_US; /* less than a block's time */
		left = app_rebuild_credit(&r, left, now_ns);
		if (left > 0) {
			left -= 128;
			moved += 128;
		}
	}
	cr_assert_lt(moved, 30000 + 256);
	cr_assert_gt(moved, 30000 - 256, "%ld", (long)moved);
	now_ns += 3600 * NS_PER_S;
	left = app_rebuild_credit(&r, left, now_ns);
	cr_assert_leq(left, 1250, "an eighth of a second at most");
	cr_assert_gt(left, 0);
}
