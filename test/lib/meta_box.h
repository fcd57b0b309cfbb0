/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A store on drives of memory that answer at once, mounted again and again from images: what a
 * mount has written is taken back block by block.
 */
#ifndef TEST_META_BOX_H
#define TEST_META_BOX_H

#include "test/lib/meta_world.h"

#define META_BOX_DRIVES 2u

struct meta_box {
	struct meta_world w; /* w.m: NULL while nothing is mounted */
	struct meta_conf conf;
	uint64_t drive_bytes;
	uint8_t *image[META_BOX_DRIVES];   /* as the drives are before each mount */
	uint8_t *written[META_BOX_DRIVES]; /* a byte a block                      */
	uint64_t writes;                   /* since the mount began               */
};

/* Drives of zeros. */
void meta_box_init(struct meta_box *b, uint64_t seed, uint64_t drive_bytes, uint32_t nshards);
void meta_box_end(struct meta_box *b);

int meta_box_format(struct meta_box *b); /* 0, or why not: the store is there until it is dropped */
int meta_box_mount(struct meta_box *b);
int meta_box_stop(struct meta_box *b);  /* clean, and dropped */
void meta_box_drop(struct meta_box *b); /* as if killed      */
/* Until nothing is left to do: the log has vouched for its last block. */
void meta_box_rest(struct meta_box *b);

void meta_box_keep(struct meta_box *b);    /* the drives as they are become the image       */
void meta_box_restore(struct meta_box *b); /* what was written since is as in the image again */
void meta_box_touch(struct meta_box *b, uint64_t baddr); /* the test changes that block       */

int meta_box_check(struct meta_box *b, struct meta_check *out);
/* One round of a scrub: its counts, and all of its lines. */
void meta_box_scrub(struct meta_box *b, struct meta_scrub_stat *out, char *lines, size_t size);

#endif
