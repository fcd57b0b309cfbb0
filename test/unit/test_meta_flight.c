/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Many operations in flight on the real store, over a cache that holds a part of the tree. */
#include "test/unit/meta_flight.h"

TestSuite(meta_flight, .timeout = 120);

Test(meta_flight, gives_each_file_what_was_done_to_it_last)
{
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct meta_check found = { 0 };

		flight_run(
			meta_world_real(seed, 64u << 20, META__CACHE_FRAMES_MIN * META_PAGE_BYTES),
			20000);
		meta_check_start(world->m, &found);
		while (meta_check_status(world->m) == -EAGAIN)
			turn();
		cr_assert_eq(meta_check_status(world->m), 0, "%s", found.first[0]);
		world->end(world);
	}
}
