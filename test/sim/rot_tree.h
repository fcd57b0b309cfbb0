/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Images that hold real trees, and how they are read: for the simulation of bit rot. */
#ifndef TEST_ROT_TREE_H
#define TEST_ROT_TREE_H

#include "test/lib/meta_random.h"
#include "test/sim/rot_map.h"

enum rot_answer { ROT_GOOD, ROT_REFUSED, ROT_BAD_BLOCK, ROT_WRONG };

/* A store with all that there is, as an image of the box: stopped, or cut off while it was quiet,
 * so that its log counts. */
void rot_tree_make(struct meta_random *rnd, struct meta_box *b, uint64_t seed);
/* All of an item: attributes, bytes, text, entries, extended attributes. */
enum rot_answer rot_read(struct meta_box *b, const struct rot_item *item);

#endif
