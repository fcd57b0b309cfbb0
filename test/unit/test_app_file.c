/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* One change of a block at a time: whose turn it is, when some of them give up. */
#include "appliance/core/app_op.h"
#include "base/rand.h"

#include <criterion/criterion.h>
#include <string.h>

static struct app_core core;
static struct app_op op[24];

static void setup(void)
{
	for (uint32_t i = 0; i < APP_FILE_BUCKETS; i++)
		list_init(&core.file[i]);
	list_init(&core.ready);
	for (uint32_t i = 0; i < ARRAY_LEN(op); i++) {
		op[i].core = &core;
		list_init(&op[i].link);
		list_init(&op[i].file_link);
		app_file_all(&op[i]);
	}
}

TestSuite(app_file, .init = setup, .timeout = 30);

static void wants(struct app_op *o)
{
	if (!app_file_lock_here(&core, o))
		o->on = APP_ON_FILE;
}

static bool is_ready(const struct app_op *o)
{
	return o->on == APP_ON_READY && list_linked(&o->link);
}

/* As the loop does. */
static void runs(struct app_op *o)
{
	list_del(&o->link);
	o->on = APP_ON_NOTHING;
}

Test(app_file, each_has_its_turn_in_the_order_they_came)
{
	for (uint32_t i = 0; i < ARRAY_LEN(op); i++)
		wants(&op[i]);
	for (uint32_t i = 0; i + 1 < ARRAY_LEN(op); i++) {
		cr_assert(op[i].locked);
		app_file_unlock_here(&core, &op[i]);
		cr_assert(is_ready(&op[i + 1]));
		runs(&op[i + 1]);
		wants(&op[i + 1]);
	}
}

Test(app_file, who_gives_up_while_another_has_it_is_passed_over)
{
	for (uint32_t i = 0; i < 3; i++)
		wants(&op[i]);
	app_op_ready(&op[1]); /* cancelled: it ends in its turn */
	runs(&op[1]);
	app_file_unlock_here(&core, &op[1]);
	cr_assert(!is_ready(&op[2]));
	app_file_unlock_here(&core, &op[0]);
	cr_assert(is_ready(&op[2]));
}

Test(app_file, who_gives_up_as_it_is_given_the_file_hands_it_on)
{
	for (uint32_t i = 0; i < 3; i++)
		wants(&op[i]);
	app_op_ready(&op[1]);                /* cancelled, and has not run yet: */
	app_file_unlock_here(&core, &op[0]); /* now it is its turn */
	cr_assert(!is_ready(&op[2]));
	runs(&op[1]);
	app_file_unlock_here(&core, &op[1]); /* it ends without having looked */
	cr_assert(is_ready(&op[2]), "it would wait for ever");
}

static void of(struct app_op *o, uint64_t from, uint64_t end)
{
	o->file_from = from;
	o->file_end = end;
}

Test(app_file, who_changes_other_blocks_does_not_wait)
{
	of(&op[0], 0, 4);
	of(&op[1], 4, 8);
	of(&op[2], 7, 9);
	of(&op[3], 100, 101);
	for (uint32_t i = 0; i < 4; i++)
		wants(&op[i]);
	cr_assert(op[0].locked && op[1].locked && op[3].locked);
	cr_assert(!op[2].locked);
	app_file_unlock_here(&core, &op[0]);
	cr_assert(!is_ready(&op[2]), "it waits for another");
	app_file_unlock_here(&core, &op[1]);
	cr_assert(is_ready(&op[2]));
}

Test(app_file, who_wants_all_of_it_is_not_overtaken)
{
	of(&op[0], 0, 4);
	of(&op[2], 8, 12); /* of nobody, but op[1] came first */
	of(&op[3], 2, 3);
	for (uint32_t i = 0; i < 4; i++)
		wants(&op[i]);
	cr_assert(op[0].locked && !op[1].locked && !op[2].locked && !op[3].locked);
	app_file_unlock_here(&core, &op[0]);
	cr_assert(is_ready(&op[1]) && !is_ready(&op[2]) && !is_ready(&op[3]));
	runs(&op[1]);
	wants(&op[1]);
	cr_assert(op[1].locked);
	app_file_unlock_here(&core, &op[1]);
	cr_assert(is_ready(&op[2]) && is_ready(&op[3]), "they are in nobody's way");
}

Test(app_file, who_wanted_all_of_it_and_gives_up_lets_the_others_go_on)
{
	of(&op[0], 0, 4);
	of(&op[2], 8, 12);
	of(&op[3], 2, 3);
	for (uint32_t i = 0; i < 4; i++)
		wants(&op[i]);
	app_op_ready(&op[1]); /* cancelled, before it had anything */
	runs(&op[1]);
	app_file_unlock_here(&core, &op[1]);
	cr_assert(is_ready(&op[2]));
	cr_assert(!is_ready(&op[3]), "op[0] has its block");
	app_file_unlock_here(&core, &op[0]);
	cr_assert(is_ready(&op[3]));
}

/* In the order they came: who has none before it in its way holds its blocks, and nobody else. */
static bool as_the_rule_says(struct app_op *const *there, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		bool free = true;

		for (uint32_t k = 0; k < i; k++)
			free = free && (there[k]->file_from >= there[i]->file_end ||
					there[i]->file_from >= there[k]->file_end ||
					there[k]->handle.hash != there[i]->handle.hash);
		if (there[i]->file_held != free)
			return false;
		if (free && !there[i]->locked && !is_ready(there[i])) /* it is not told */
			return false;
	}
	return true;
}

Test(app_file, any_of_many_as_the_rule_says)
{
	struct app_op *there[ARRAY_LEN(op)], *gone[ARRAY_LEN(op)], *o;
	uint32_t count = 0, free = ARRAY_LEN(op);
	struct rand_state rand;

	rand_seed(&rand, 5);
	for (uint32_t i = 0; i < ARRAY_LEN(op); i++)
		gone[i] = &op[i];
	for (uint32_t n = 0; n < 200000; n++) {
		if (free && (count == 0 || rand_below(&rand, 5) < 3)) {
			o = gone[--free];
			there[count++] = o;
			o->handle.hash = rand_below(&rand, 2);
			app_file_all(o);
			if (rand_below(&rand, 6))
				of(o, rand_below(&rand, 20), 21 + rand_below(&rand, 3));
			if (rand_below(&rand, 3))
				o->file_end = o->file_from + 1 + rand_below(&rand, 4);
			wants(o);
		} else { /* one ends, or gives up */
			const uint32_t at = (uint32_t)rand_below(&rand, count);

			o = there[at];
			memmove(&there[at], &there[at + 1], (--count - at) * sizeof(*there));
			gone[free++] = o;
			runs(o);
			app_file_unlock_here(&core, o);
		}
		cr_assert(as_the_rule_says(there, count), "step %u, of %u", n, count);
	}
}
