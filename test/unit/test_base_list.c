/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "base/list.h"
#include "test/lib/death.h"

#include <criterion/criterion.h>

struct item {
	int value;
	struct list link;
};

static struct list head;
static struct item a, b, c;

static void setup(void)
{
	list_init(&head);
	a = (struct item){ .value = 1 };
	b = (struct item){ .value = 2 };
	c = (struct item){ .value = 3 };
	list_init(&a.link);
	list_init(&b.link);
	list_init(&c.link);
}

TestSuite(base_list, .init = setup);

static int digits(void)
{
	struct list *pos;
	int all = 0;

	list_for_each (pos, &head)
		all = all * 10 + list_entry(pos, struct item, link)->value;
	return all;
}

Test(base_list, keeps_the_order_of_both_ends)
{
	list_push_back(&head, &b.link);
	list_push_back(&head, &c.link);
	list_push_front(&head, &a.link);
	cr_assert_eq(digits(), 123);
}

Test(base_list, takes_out_the_middle_and_twice_does_no_harm)
{
	list_push_back(&head, &a.link);
	list_push_back(&head, &b.link);
	list_push_back(&head, &c.link);
	list_del(&b.link);
	list_del(&b.link);
	cr_assert_eq(digits(), 13);
	cr_assert_not(list_linked(&b.link));
}

Test(base_list, pops_in_order_and_then_null)
{
	list_push_back(&head, &a.link);
	list_push_back(&head, &b.link);
	cr_assert_eq(list_pop_front(&head), &a.link);
	cr_assert_eq(list_pop_front(&head), &b.link);
	cr_assert(list_empty(&head));
	cr_assert_null(list_pop_front(&head));
}

static void links_twice(void)
{
	list_push_back(&head, &a.link);
	list_push_back(&head, &a.link);
}

Test(base_list, a_node_is_on_one_list_only)
{
	cr_assert(dies_saying(links_twice, "!list_linked(node)"), "%s", death_said());
}
