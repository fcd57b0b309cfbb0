/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Samples drawn by weight, as a pure function of the position. */
#include "base/num.h"
#include "base/rand.h"
#include "client-lib/dataset/dataset_internal.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { GROUPS = 5 };

static const uint64_t size_of[GROUPS] = { 1, 10, 5, 1000, 2 };

/* Groups of these sizes, whose samples follow each other. */
struct groups {
	struct dataset__weights w;
	uint64_t begin[GROUPS + 1], first[GROUPS], count[GROUPS];
};

static void make(struct groups *g, const uint32_t weight[GROUPS], uint64_t seed, uint64_t epoch)
{
	uint64_t samples = 0;

	memset(g, 0, sizeof(*g));
	g->w = (struct dataset__weights){ .groups = GROUPS,
					  .length = DATASET__SAMPLES_MAX,
					  .key = dataset__epoch_key(seed, epoch),
					  .begin = g->begin,
					  .first = g->first,
					  .count = g->count,
					  .round = UINT64_MAX };
	for (uint32_t i = 0; i < GROUPS; i++) {
		g->begin[i + 1] = g->begin[i] + weight[i];
		g->first[i] = samples;
		g->count[i] = size_of[i];
		samples += size_of[i];
	}
}

/* PROTOCOL.md 12; test/peer/epoch_order.py computes them from the text. */
Test(weka_weights, the_vectors_of_the_protocol)
{
	FILE *f = fopen("test/golden/weight_vectors.txt", "r");
	unsigned long long seed, epoch, position, group, member;
	uint32_t weight[GROUPS], vectors = 0, label;
	struct groups g;
	char line[200];

	cr_assert_not_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, "mark", 4) == 0)
			continue; /* test_app_weights.c */
		cr_assert_eq(sscanf(line, "%u %u %u %u %u %llu %llu %llu %llu %llu", &weight[0],
				    &weight[1], &weight[2], &weight[3], &weight[4], &seed, &epoch,
				    &position, &group, &member),
			     10);
		make(&g, weight, seed, epoch);
		cr_assert_eq(dataset__weights_at(&g.w, position, &label), g.first[group] + member,
			     "%s", line);
		cr_assert_eq(label, group);
		vectors++;
	}
	cr_assert_eq(vectors, 112);
	fclose(f);
}

/* In every round each group has its weight, and its samples come equally often. */
Test(weka_weights, weights_are_kept_exactly_in_every_round)
{
	static const uint32_t weight[GROUPS] = { 3, 20, 0, 7, 1 };
	static uint32_t times[1018];
	struct groups g;
	uint32_t label;

	make(&g, weight, 4, 2);
	for (uint64_t round = 0; round < 400; round++) {
		uint32_t came[GROUPS] = { 0 };

		for (uint64_t i = 0; i < 31; i++) {
			uint64_t sample = dataset__weights_at(&g.w, round * 31 + i, &label);

			cr_assert(sample >= g.first[label] &&
				  sample < g.first[label] + g.count[label]);
			came[label]++;
			times[sample]++;
		}
		cr_assert_eq(memcmp(came, weight, sizeof(came)), 0, "round %llu",
			     (unsigned long long)round);
	}
	for (uint32_t c = 0; c < GROUPS; c++)
		for (uint64_t i = 0; i < size_of[c]; i++) {
			uint64_t mean = 400ull * weight[c] / size_of[c], n = times[g.first[c] + i];

			cr_assert(n == mean || n == mean + 1, "group %u, sample %llu: %llu", c,
				  (unsigned long long)i, (unsigned long long)n);
		}
}

/* The order does not depend on earlier calls. */
Test(weka_weights, any_position_can_be_asked_for)
{
	static const uint32_t weight[GROUPS] = { 1, 1, 4, 2, 9 };
	struct groups forward, random;
	struct rand_state rand;
	uint64_t sample[1000];
	uint32_t label;

	rand_seed(&rand, 1);
	make(&forward, weight, 1, 1);
	make(&random, weight, 1, 1);
	for (uint32_t i = 0; i < 1000; i++)
		sample[i] = dataset__weights_at(&forward.w, i, &label);
	for (uint32_t i = 0; i < 5000; i++) {
		uint32_t at = (uint32_t)rand_below(&rand, 1000);

		cr_assert_eq(dataset__weights_at(&random.w, at, &label), sample[at]);
	}
}

Test(weka_weights, rounds_and_seeds_differ)
{
	static const uint32_t weight[GROUPS] = { 100, 100, 100, 100, 100 };
	uint32_t same_round = 0, same_seed = 0, a, b;
	struct groups g, other;

	make(&g, weight, 1, 0);
	make(&other, weight, 2, 0);
	for (uint64_t i = 0; i < 5000; i++) {
		(void)dataset__weights_at(&g.w, i, &a);
		(void)dataset__weights_at(&g.w, i + 500, &b);
		same_round += a == b;
		(void)dataset__weights_at(&other.w, i, &b);
		same_seed += a == b;
	}
	/* A fifth agrees by chance: 1000, with a deviation of 28. */
	cr_assert(same_round > 800 && same_round < 1200, "%u", same_round);
	cr_assert(same_seed > 800 && same_seed < 1200, "%u", same_seed);
}
