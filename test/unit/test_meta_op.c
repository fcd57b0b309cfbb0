/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/lib/meta_random.h"
#include "test/unit/meta_tx_fake.h"

#include <criterion/criterion.h>

TestSuite(meta_op);

static struct meta_random r;

static void random_run(uint64_t seed, uint32_t miss, uint32_t busy, uint64_t ops)
{
	struct meta_world *w = meta_world_fake(seed, miss, busy);
	uint64_t blocks;

	meta_random_init(&r, w, seed);
	r.remounts_every = 1000;
	meta_random_run(&r, ops);
	blocks = meta_random_compare(&r);
	meta_world_settle(w);
	cr_assert_eq(meta_fake_live(w), blocks);
	cr_assert_eq(meta_fake_pending(w), 0);
	cr_assert_gt(r.results[0], ops / 20);
	cr_assert_gt(r.results[1], ops / 20);
	meta_random_end(&r);
	w->end(w);
}

Test(meta_op, random_operations_give_what_the_model_gives)
{
	random_run(1, 0, 0, 5000);
}

Test(meta_op, the_same_when_pages_are_missing_and_room_is_short)
{
	random_run(2, 20, 10, 5000);
}
