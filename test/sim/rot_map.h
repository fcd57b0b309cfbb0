/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A map of the blocks of an image, and of the files that need each, for the simulation of bit
 * rot. */
#ifndef TEST_ROT_MAP_H
#define TEST_ROT_MAP_H

#include "meta/offline/meta_raw_internal.h"
#include "test/lib/fs_model.h"
#include "test/lib/meta_box.h"
#include "test/lib/raw_mem.h"

#define ROT_ITEMS_MAX  600u
#define ROT_SPANS_MAX  160u
#define ROT_BLOCKS_MAX 1024u /* of a drive */

enum rot_life {
	ROT_DEAD,
	ROT_DATA,
	ROT_PAGE,
	ROT_SUPER,
	ROT_ROOT,
	ROT_HEADER,
	ROT_LOG,
	ROT_LOG_END, /* the newest block: nothing says that it was durable */
	ROT_LIVES,
};

extern const char *const rot_lives[ROT_LIVES];

struct rot_owner {
	enum rot_life life;
	uint32_t copy;  /* superblocks, roots, headers */
	uint32_t shard; /* roots, pages */
	uint32_t slot;  /* roots */
	uint32_t zone;  /* headers */
	uint64_t seq;   /* of the log */
	bool copied;    /* ... and there is another of it */
	struct meta__page_want page;
	struct meta_key lo, hi; /* what the page answers for */
	bool has_hi;
	struct meta_handle file; /* data */
	uint64_t file_block;
};

struct rot_span {
	uint32_t shard;
	struct meta_key lo, hi; /* both included */
};

struct rot_item { /* a path of the model */
	char path[1400];
	struct model_node *node;
	struct model_attr attr;
	struct meta_handle handle;
	uint64_t leaf; /* has its inode; 0: the log has a newer one */
	bool logged;   /* the log changes something of its spans */
	uint32_t nspans;
	struct rot_span span[ROT_SPANS_MAX]; /* of keys that it may need */
};

struct rot_map {
	struct rot_owner owner[META_BOX_DRIVES][ROT_BLOCKS_MAX];
	uint64_t blocks_of[ROT_LIVES];
	struct rot_item item[ROT_ITEMS_MAX];
	uint32_t items;
};

/* Makes the map of the box's image, with the model of its content. */
void rot_map_make(struct rot_map *map, struct meta_box *b, struct model *fs);
bool rot_may_need(const struct rot_item *item, const struct rot_owner *page);

#endif
