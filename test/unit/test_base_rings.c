/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* One thread's view of the rings; two threads' is test/torture/. */
#include "base/mpsc.h"
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
	atomic_store(&q.head, UINT32_MAX - 1);
	atomic_store(&q.tail, UINT32_MAX - 1);
	q.tail_seen = q.head_seen = UINT32_MAX - 1;
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

struct letter {
	int number;
	struct mpsc_node node;
};

Test(base_mpsc, pops_in_the_order_of_pushing)
{
	static struct mpsc m;
	static struct letter letter[10];

	mpsc_init(&m);
	cr_assert_null(mpsc_pop(&m));
	cr_assert(mpsc_push(&m, &letter[0].node)); /* was empty: ring */
	for (int i = 1; i < 5; i++)
		cr_assert_not(mpsc_push(&m, &letter[i].node));
	cr_assert_eq(mpsc_pop(&m), &letter[0].node);
	for (int i = 5; i < 10; i++)
		mpsc_push(&m, &letter[i].node);
	for (int i = 1; i < 10; i++)
		cr_assert_eq(container_of(mpsc_pop(&m), struct letter, node), &letter[i]);
	cr_assert_null(mpsc_pop(&m));
}
