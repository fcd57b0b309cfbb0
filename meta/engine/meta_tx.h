/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Between meta_tx.c, where a plan requests changes, and meta_apply.c, which makes them. */
#ifndef META_TX_H
#define META_TX_H

#include "meta/engine/meta_tree.h"

#define META__TX_BUFFER_BYTES (META__TX_RECORDS_MAX * META_VALUE_MAX)

struct meta__tx_shard {
	uint32_t shard;
	uint32_t uniq; /* taken */
	uint32_t dir;
	int32_t files; /* more */
	int32_t dirs;
	bool put; /* the log record has a part of it */
};

struct meta__tx_leaf {
	uint32_t shard;
	struct meta__frame *frame; /* NULL: the tree is empty */
	uint32_t pos;              /* of the last change in it  */
	struct meta_key lo, hi;
	bool has_hi;
	uint32_t puts;
	uint32_t grow_bytes;
	uint32_t shrink_bytes;
};

struct meta__tx {
	struct meta_op *op;
	bool logged;
	uint64_t seen;
	uint64_t drives_mask, lone_mask; /* with its data; those with the only copy of it */
	uint32_t nmut, nleaf, nshard;
	struct meta__page_need clean; /* pages of paths that the apply makes dirty */
	uint32_t buffer_used;
	bool touch;
	uint32_t touch_shard, touch_level;
	struct meta_key touch_key;
	uint32_t seek_shard, seek_pos; /* the record that was read last */
	uint64_t seek_baddr;           /* ... in which leaf; 0: none yet           */
	struct meta__frame *seek_leaf;
	struct meta__mut mut[META__TX_RECORDS_MAX];
	bool existed[META__TX_RECORDS_MAX]; /* in the tree */
	struct meta__tx_leaf leaf[META__TX_RECORDS_MAX];
	struct meta__tx_shard shard[META__TX_RECORDS_MAX];
	_Alignas(8) uint8_t buffer[META__TX_BUFFER_BYTES];
};

void meta__tx_forget(struct meta__tx *tx);
/* The pages of a path from `level` on become dirty when it is applied: each is counted once. */
void meta__tx_count_path(struct meta *m, const struct meta__path *path, uint32_t level);
/* Pages that become dirty, at worst, when it is applied. */
struct meta__page_need meta__tx_pages(const struct meta *m);
struct meta__tx_shard *meta__tx_shard_of(struct meta__tx *tx, uint32_t shard);
/* Requests a change; a put's value stays where it is until the apply. */
int meta__tx_want(struct meta *m, const struct meta__mut *mut);

#endif
