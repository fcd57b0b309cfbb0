/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* One thread's view of the rings; two threads' is test/torture/. */
#include "base/num.h"
#include "base/spsc.h"
#include "test/lib/death.h"

#include <criterion/criterion.h>

static struct spsc q;
static void *slot[4];
static int item[1000];

Test(base_spsc, takes_exactly_its_size)
{
	spsc_init(&q, slot, 4);
	for (int i = 0; i < 4; i++)
		cr_assert(spsc_push(&q, &item[i]));
	cr_assert_not(spsc_push(&q, &item[4]));
	cr_assert_eq(spsc_pop(&q), &item[0]);
	cr_assert(spsc_push(&q, &item[4]));
	for (int i = 1; i < 5; i++)
		cr_assert_eq(spsc_pop(&q), &item[i]);
	cr_assert_null(spsc_pop(&q));
}

Test(base_spsc, counters_may_wrap)
{
	spsc_init(&q, slot, 4);
	atomic_store(&q.ends.head, UINT32_MAX - 1);
	atomic_store(&q.ends.tail, UINT32_MAX - 1);
	q.ends.next = q.ends.tail_seen = q.ends.head_seen = UINT32_MAX - 1;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 4; i++)
			cr_assert(spsc_push(&q, &item[i]));
		cr_assert_not(spsc_push(&q, &item[4]));
		for (int i = 0; i < 4; i++)
			cr_assert_eq(spsc_pop(&q), &item[i]);
		cr_assert_null(spsc_pop(&q));
	}
}

static void makes_a_ring_of_three(void)
{
	spsc_init(&q, slot, 3);
}

Test(base_spsc, size_is_a_power_of_two)
{
	cr_assert(dies_saying(makes_a_ring_of_three, "(size & (size - 1)) == 0"), "%s",
		  death_said());
}

/* Places of any type: what was put is seen once it is told. */
Test(base_spsc, what_was_put_is_taken_when_it_is_told)
{
	static struct spsc_ends ends;
	uint32_t at, taken;

	for (uint32_t i = 0; i < 4; i++) {
		cr_assert_eq(spsc_room(&ends, 4), 4 - i);
		cr_assert(spsc_place(&ends, 4, &at));
		cr_assert_eq(at, i);
		spsc_put(&ends);
	}
	cr_assert_not(spsc_place(&ends, 4, &at));
	cr_assert_not(spsc_oldest(&ends, 4, &taken), "not told");
	cr_assert(spsc_is_quiet(&ends));
	spsc_tell(&ends);
	cr_assert_not(spsc_is_quiet(&ends));
	for (uint32_t i = 0; i < 4; i++) {
		cr_assert(spsc_oldest(&ends, 4, &taken));
		cr_assert(spsc_oldest(&ends, 4, &taken), "again, until it is freed");
		cr_assert_eq(taken, i);
		spsc_free(&ends);
	}
	cr_assert_not(spsc_oldest(&ends, 4, &taken));
	cr_assert_eq(spsc_room(&ends, 4), 4);
}
