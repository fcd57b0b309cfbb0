/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A loader of three threads: each is a rank, with a client and a stream of its own, and together
 * they read every sample of a dataset once an epoch, in an order that the seed decides.
 *
 *	epoch ADDRESSES KEYFILE DATASET [EPOCHS]
 */
#include "ranks.h"

#include <stdlib.h>

#define RANKS 3u
#define BATCH 64u

struct loader {
	struct rank rank; /* first: rank->use gets a pointer to it */
	uint64_t samples;
	uint64_t bytes;
};

/* Where a model would be trained. */
static int use(struct rank *r, const struct weka_batch *batch)
{
	struct loader *l = (struct loader *)r;

	for (uint32_t i = 0; i < batch->count; i++) {
		if (batch->items[i].status) /* changed since the dataset was made, or damaged */
			return batch->items[i].status;
		l->bytes += batch->items[i].got_bytes;
	}
	l->samples += batch->count;
	return 0;
}

int main(int argc, char **argv)
{
	struct loader loaders[RANKS] = { 0 };
	int status = 0;

	if (argc < 4) {
		fprintf(stderr, "usage: epoch ADDRESSES KEYFILE DATASET [EPOCHS]\n");
		return 2;
	}
	for (uint32_t i = 0; i < RANKS; i++) {
		loaders[i].rank =
			(struct rank){ .epochs = argc > 4 ? strtoull(argv[4], NULL, 10) : 1,
				       .rank = i,
				       .world = RANKS,
				       .batch = BATCH,
				       .use = use };
		if (rank_start(&loaders[i].rank, argv))
			return 1;
	}
	for (uint32_t i = 0; i < RANKS; i++) {
		const struct loader *l = &loaders[i];

		status |= rank_end(&loaders[i].rank) != 0;
		printf("rank %u: %llu samples, %llu bytes; %s\n", i, (unsigned long long)l->samples,
		       (unsigned long long)l->bytes, l->rank.verdict);
	}
	return status;
}
