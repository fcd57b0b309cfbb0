/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Between fs_model.c, the tree, and what is in its files: fs_model_bytes.c, fs_model_xattr.c. */
#ifndef TEST_FS_MODEL_INTERNAL_H
#define TEST_FS_MODEL_INTERNAL_H

#include "test/lib/fs_model.h"

struct model_xattr;

struct entry {
	char name[META_NAME_MAX + 1];
	struct model_node *node;
};

struct model_node {
	struct model *fs;
	struct model_attr attr;    /* size of a directory is not kept here */
	struct model_node *parent; /* of a directory; the root's is itself */
	struct entry **entry;      /* of a directory */
	uint32_t entries, entries_max;
	uint8_t **block; /* of a file */
	uint64_t blocks;
	char *text; /* of a symlink */
	struct model_xattr *xattr;
	uint64_t round;                  /* of the last visit */
	struct model_node *next, **link; /* all nodes */
};

struct model {
	struct model_node *root;
	struct model_node *all;
	const struct meta_who *who; /* fs_model_access.c */
	uint64_t id_next;
	uint64_t count;
};

static inline void *model__must(void *p)
{
	ASSERT(p);
	return p;
}

/* Returns 0 for a file, -EISDIR for a directory, -EINVAL for a symlink. */
int model__file_only(const struct model_node *n);
void model__write(struct model_node *n, uint64_t offset, const uint8_t *bytes, uint64_t length);
void model__cut(struct model_node *n, uint64_t size);

/* fs_model_access.c.  want: of "rwx". */
bool model__may(const struct model_node *n, const char *want);
bool model__is_others_sticky_dir(const struct model_node *n);
/* A name in dir comes, or goes from `old`. */
int model__may_change(const struct model_node *dir, const struct model_node *old);
int model__may_set(const struct model_node *n, const struct model_set *set);
void model__born(struct model_node *n, const struct model_node *dir, const struct model_set *set);
void model__was_set(struct model_node *n, const struct model_set *set);

/* Where a node's attributes hang. */
struct model_xattr **model__node_xattrs(struct model_node *n);
void model__node_changed(struct model_node *n, int64_t now_ns); /* its ctime */

/* No two states of a node have one ctime, whatever the clock says. */
static inline void model__ctime_raise(struct model_node *n, int64_t now_ns)
{
	n->attr.ctime_ns = now_ns > n->attr.ctime_ns ? now_ns : n->attr.ctime_ns + 1;
}
void model__xattrs_free(struct model_xattr **list);

#endif
