/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Compared with ranges that are kept in a list, and looked through each time. */
#include "meta/engine/meta_cover.h"
#include "base/rand.h"
#include "test/lib/runs.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define RANGES 60u
#define KEYS   50u
#define SHARDS 3u

struct range {
	uint32_t shard;
	struct meta_key first, last;
};

static struct meta_key key_of(uint64_t i)
{
	return (struct meta_key){ { 7, i / 8, i % 8 } };
}

static struct range range_of(struct rand_state *r)
{
	const uint64_t a = rand_below(r, KEYS), b = rand_below(r, KEYS);

	return (struct range){ (uint32_t)rand_below(r, SHARDS), key_of(a < b ? a : b),
			       key_of(a < b ? b : a) };
}

static bool meet(const struct range *x, const struct range *y)
{
	return x->shard == y->shard && meta__key_cmp(&x->first, &y->last) <= 0 &&
	       meta__key_cmp(&y->first, &x->last) <= 0;
}

/* Returns a key for which the cover and the first n ranges differ, or -1. */
static int differs(const struct meta__cover *c, const struct range *range, uint32_t n)
{
	for (uint32_t k = 0; k < SHARDS * KEYS; k++) {
		const struct meta_key key = key_of(k / SHARDS);
		const struct range one = { k % SHARDS, key, key };
		bool is = false;

		for (uint32_t i = 0; i < n; i++)
			is |= meet(&range[i], &one);
		if (meta__cover_has(c, one.shard, &key) != is)
			return (int)k;
	}
	return -1;
}

Test(meta_cover, says_what_a_list_of_ranges_says)
{
	for (uint64_t seed = 1; seed <= test_runs(200); seed++) {
		struct meta__cover_point *end = calloc(2 * RANGES, sizeof(*end));
		struct range range[RANGES];
		struct meta__cover c;
		struct rand_state r;

		rand_seed(&r, seed);
		for (uint32_t i = 0; i < RANGES; i++) {
			range[i] = range_of(&r);
			end[2 * i] = (struct meta__cover_point){ range[i].first, range[i].shard };
			end[2 * i + 1] =
				(struct meta__cover_point){ range[i].last, range[i].shard };
		}
		cr_assert_eq(meta__cover_make(&c, end, 2 * RANGES), 0);
		for (uint32_t i = 0; i < RANGES; i++) {
			bool any = false;

			for (uint32_t j = 0; j < i; j++)
				any |= meet(&range[j], &range[i]);
			cr_assert_eq(meta__cover_meets(&c, range[i].shard, &range[i].first,
						       &range[i].last),
				     any, "seed %llu, range %u", (unsigned long long)seed, i);
			meta__cover_add(&c, range[i].shard, &range[i].first, &range[i].last);
			cr_assert_eq(differs(&c, range, i + 1), -1, "seed %llu, after range %u",
				     (unsigned long long)seed, i);
		}
		meta__cover_free(&c);
	}
}

Test(meta_cover, of_no_ranges_covers_nothing)
{
	const struct meta_key key = { { 1, 2, 3 } };
	struct meta__cover c;

	cr_assert_eq(meta__cover_make(&c, calloc(1, sizeof(*c.point)), 0), 0);
	cr_assert_not(meta__cover_has(&c, 0, &key));
	meta__cover_free(&c);
}
