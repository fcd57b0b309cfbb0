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
	meta_fake_space(world, META__NEEDS_ROOM);
	meta_fake_orphans(world, META__NEEDS_ROOM);
	meta_fake_touch(world, META__NEEDS_ROOM);
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

/* Superblocks of all drives are written before a drain is answered. */
Test(meta_stall, reads_do_not_wait_behind_a_drive_that_is_to_drain)
{
	static struct meta_op stat[2048];
	struct meta_op drain = { .type = META_OP_DRIVE }, *op;
	uint32_t waiting = 0;

	world = meta_world_fake(1, 0, 0);
	meta_fake_busy(world, 100);
	for (uint32_t i = 0; i < ARRAY_LEN(stat) && waiting < 8; i++) {
		stat[i] = sh_op(META_OP_STAT, "/none");
		waiting += !meta_op_start(world->m, &stat[i]);
	}
	cr_assert_eq(waiting, 8);
	meta_fake_busy(world, 0);
	meta_fake_drive(world, META__NEEDS_ROOM);
	cr_assert(!meta_op_start(world->m, &drain));
	for (int i = 0; i < 100; i++) {
		world->step(world);
		while ((op = meta_op_poll(world->m))) {
			cr_assert_neq(op, &drain);
			waiting--;
		}
	}
	cr_assert_eq(waiting, 0);
	meta_fake_drive(world, 0);
	while ((op = meta_op_poll(world->m)) == NULL)
		world->step(world);
	cr_assert_eq(op, &drain);
	cr_assert_eq(drain.status, 0);
	world->end(world);
}
