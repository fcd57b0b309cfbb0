/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A tree of local files whose names are read from an appliance. */
#ifndef BENCH_TREE_H
#define BENCH_TREE_H

#include "base/assert.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weka_client;

enum bench_tree_kind { BENCH_TREE_DIR = 1, BENCH_TREE_FILE, BENCH_TREE_LINK };

/* A piece of a file that is read as a whole: all of it, unless it is large. */
struct bench_tree_piece {
	const char *name; /* below the root, without a slash before it */
	uint64_t offset_bytes;
	uint64_t length_bytes;
	bool first; /* of its file: so that files are counted once */
};

struct bench_tree {
	char *root;
	struct bench_tree_entry {
		char *name;
		enum bench_tree_kind kind;
		uint64_t size_bytes;
	} * entry; /* a directory before its entries */
	size_t entry_count;
	size_t entry_max;
	struct bench_tree_piece *piece; /* of files, and of links to files of the tree */
	size_t piece_count;
	uint64_t files;
	uint64_t bytes;
};

/* Look through `root`; files are cut into pieces of at most `piece_bytes`.  0, or 1 after a line
 * on stderr; bench_tree_free() in either case. */
must_check int bench_tree_load(struct bench_tree *t, const char *root, uint64_t piece_bytes);
void bench_tree_free(struct bench_tree *t);

/* Make `files` files of 4 to 128 KiB, a hundred a directory, under `root`, which is there. */
must_check int bench_tree_make(const char *root, uint64_t files);
void bench_tree_remove(const char *root);

/* Write all of it under `prefix` ("" or "/x") of an appliance. */
must_check int bench_tree_upload(const struct bench_tree *t, struct weka_client *client,
				 const char *prefix);

#endif
