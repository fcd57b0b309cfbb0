/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* One change of a file at a time: whose turn it is, when some of them give up. */
#include "appliance/app_op.h"

#include <criterion/criterion.h>

static struct app_core core;
static struct app_op op[4];

static void setup(void)
{
	for (uint32_t i = 0; i < APP_FILE_BUCKETS; i++)
		list_init(&core.file[i]);
	list_init(&core.ready);
	for (uint32_t i = 0; i < ARRAY_LEN(op); i++) {
		op[i].core = &core;
		list_init(&op[i].link);
		list_init(&op[i].file_link);
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
