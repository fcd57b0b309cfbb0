/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Many operations in flight while pages are missing and room is short, often. */
#include "test/lib/meta_shell.h"
#include "test/unit/meta_flight.h"
#include "test/unit/meta_tx_fake.h"

TestSuite(meta_stall, .timeout = 120);

Test(meta_stall, those_that_have_begun_do_not_wait_for_those_that_have_not)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		flight_run(meta_world_fake(seed, 30, 50), 5000);
		world->end(world);
	}
}

/* A put, or an orphan, waits for collection to win zones: its own change must not wait behind them.
 */
Test(meta_stall, collection_does_not_wait_behind_those_that_wait_for_it)
{
	struct meta_op make = sh_op(META_OP_MKDIR, "d"), touch = { .owner = &touch };
	struct meta_op orphan = { .type = (enum meta_op_type)META__OP_FREE_ORPHAN };

	world = meta_world_fake(1, 0, 0);
	touch.type = (enum meta_op_type)META__OP_TOUCH;
	meta_fake_space(world, -EBUSY);
	meta_fake_orphans(world, -EBUSY);
	meta_fake_touch(world, -EBUSY);
	cr_assert(!meta_op_start(world->m, &orphan));
	cr_assert(!meta_op_start(world->m, &make));
	cr_assert(!meta_op_start(world->m, &touch));
	meta_fake_touch(world, 0);
	for (int i = 0; i < 10; i++)
		world->step(world);
	cr_assert_null(touch.owner);
	list_del(&orphan.link);
	meta_fake_space(world, 0);
	while (!meta_op_poll(world->m))
		world->step(world);
	cr_assert_eq(make.status, 0);
	world->end(world);
}
