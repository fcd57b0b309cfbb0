/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The same random operations as test_meta_op.c, on the whole store. */
#include "test/lib/meta_random.h"

#include <criterion/criterion.h>

TestSuite(meta_ops_store);

static struct meta_random r;

static void check(struct meta_world *w, uint64_t files)
{
	struct meta_check found = { 0 };

	meta_check_start(w->m, &found);
	while (meta_check_status(w->m) == -EAGAIN)
		w->step(w);
	cr_assert_eq(meta_check_status(w->m), 0, "%llu problems: %s",
		     (unsigned long long)found.problems, found.first[0]);
	cr_assert_eq(found.inodes, files);
}

static void random_run(uint64_t seed, uint64_t cache_bytes, uint64_t ops)
{
	struct meta_world *w = meta_world_real(seed, 256u << 20, cache_bytes);

	meta_random_init(&r, w, seed);
	r.remounts_every = 500;
	meta_random_run(&r, ops);
	meta_random_compare(&r);
	meta_world_settle(w);
	check(w, model_count(r.fs));
	cr_assert_gt(r.results[1], ops / 20);
	meta_random_end(&r);
	w->end(w);
}

Test(meta_ops_store, random_operations_give_what_the_model_gives)
{
	random_run(1, 16u << 20, 5000);
}

Test(meta_ops_store, the_same_in_a_cache_far_smaller_than_the_tree)
{
	random_run(2, META__CACHE_FRAMES_MIN * META_PAGE_BYTES, 5000);
}
