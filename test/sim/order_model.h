/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A namespace in which one operation follows the other: what POSIX says that each finds and leaves.
 *
 *   entries {directory, name} --> nodes: files, directories, symlinks; several names of one file
 *
 * Paths are of short names, ".", ".." and slashes between them; they begin at the root, or at a
 * directory that is given.
 */
#ifndef ORDER_MODEL_H
#define ORDER_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#define ORDER_NODES   4096u /* that ever were */
#define ORDER_ENTRIES 256u
#define ORDER_PATH    40u
#define ORDER_NONE    UINT32_MAX
#define ORDER_ROOT    0u

enum order_type { ORDER_FILE, ORDER_DIR, ORDER_LINK };

enum order_kind {
	ORDER_PUT,
	ORDER_MKDIR,
	ORDER_SYMLINK,
	ORDER_UNLINK,
	ORDER_RMDIR,
	ORDER_RENAME,
	ORDER_GIVE_LINK,
	ORDER_RMTREE,
	ORDER_STAT,
	ORDER_STAT_NODE, /* by handle */
	ORDER_READ,
	ORDER_READLINK,
	ORDER_LIST,
	ORDER_KINDS
};
extern const char *const order_kind_names[ORDER_KINDS];

struct order_node {
	enum order_type type;
	bool gone;      /* it has no name any more, */
	bool with_tree; /* ... since its tree was removed: its handle may be good for a while, */
	bool top;       /* ... but not that of the tree's own directory; its number may */
	uint32_t names; /* of a file or symlink */
	uint32_t names_late; /* ... that have gone with trees: they count until they are freed */
	uint32_t parent;     /* of a directory */
	uint32_t content;    /* of a file: unlike any other's */
	char target[ORDER_PATH];
};

struct order_entry {
	uint32_t dir, node;
	char name[4];
	uint64_t born; /* the moment since which there is such a name in it */
};

struct order_op {
	enum order_kind kind;
	bool nofollow, excl, exchange;
	uint32_t dir;  /* both paths begin there */
	uint32_t node; /* STAT_NODE, LIST */
	char path[ORDER_PATH], other[ORDER_PATH];
	uint32_t content;        /* PUT */
	char target[ORDER_PATH]; /* SYMLINK */
};

struct order_model {
	struct order_node node[ORDER_NODES];
	uint32_t nodes;
	struct order_entry entry[ORDER_ENTRIES];
	uint32_t entries;
	uint64_t moment;
};

void order_model_begin(struct order_model *m);
/* It takes place now: its status; *node: what it found or made, ORDER_NONE: it speaks of none. */
int order_model_do(struct order_model *m, const struct order_op *op, uint32_t *node);
/* Returns the entry of this name, or NULL. */
const struct order_entry *order_model_entry(const struct order_model *m, uint32_t dir,
					    const char *name);
uint32_t order_model_count(const struct order_model *m, uint32_t dir);
/* Room for so many nodes more. */
bool order_model_has_room(const struct order_model *m, uint32_t more);

#endif
