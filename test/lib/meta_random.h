/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Random operations on a store and on the model, from a seed: each result is compared. */
#ifndef TEST_META_RANDOM_H
#define TEST_META_RANDOM_H

#include "test/lib/fs_model.h"
#include "test/lib/meta_world.h"

#define META_RANDOM_FILE_MAX (6u << 20)

struct meta_random {
	struct meta_world *w;
	struct model *fs;
	struct meta_who who; /* the operation is on behalf of, if it has groups */
	struct rand_state rand;
	int64_t now_ns;
	uint64_t ops;
	uint64_t results[2];     /* errors, successes: both are to be many */
	uint64_t remounts_every; /* 0: never */
	uint8_t *bytes;          /* META_RANDOM_FILE_MAX and a block, each */
	uint8_t *read;
	struct meta_run runs[META_IO_BLOCKS_MAX];
	uint32_t crcs[META_IO_BLOCKS_MAX];
	char inline_buf[META_PATH_MAX + 1];
};

void meta_random_init(struct meta_random *r, struct meta_world *w, uint64_t seed);
void meta_random_end(struct meta_random *r);
/* Runs `ops` operations.  Ends the process at the first difference, with a line that names it. */
void meta_random_run(struct meta_random *r, uint64_t ops);
/* Compares everything: attributes, contents, links, listings.  Returns the sum of the files'
 * blocks. */
uint64_t meta_random_compare(struct meta_random *r);

#endif
