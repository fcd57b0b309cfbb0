/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Many operations in flight while pages are missing and room is short, often. */
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
