/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A file system in memory, as plain as it can be: what the store is compared with.
 *
 * Each call is one operation of the store with the same result: 0 or the same -errno, in the same
 * order of checks.  Paths are from the root, with or without a leading slash; flags are those of
 * meta.h (META_NOFOLLOW, META_EXCL, META_MUST_EXIST).  `now_ns` is the operation's wall_ns.
 *
 * A node is a file, directory or symlink; it lives until the last of its names goes.  Its id is
 * never reused: who holds a handle of the store keeps the id beside it (model_by_id()).
 * Memory is malloc's, and running out of it ends the process: this is a test.
 */
#ifndef TEST_FS_MODEL_H
#define TEST_FS_MODEL_H

#include "meta/meta.h"

struct model;
struct model_node;

struct model_attr {
	uint64_t id;
	enum meta_type type;
	uint32_t mode;
	uint32_t uid;
	uint32_t gid;
	uint32_t nlink; /* names; of a directory: 2, and one for each directory in it */
	uint64_t size;  /* bytes; of a directory: its entries */
	int64_t mtime_ns;
	int64_t ctime_ns;
	int64_t atime_ns;
};

/* The attributes to set, as in meta_op: META_SET_* in mask. */
struct model_set {
	uint32_t mask;
	uint32_t mode;
	uint32_t uid;
	uint32_t gid;
	int64_t mtime_ns;
	int64_t atime_ns;
};

struct model *model_new(int64_t now_ns);
void model_end(struct model *fs);

/* On whose behalf the next operations are; NULL: may everything.  It is kept. */
void model_as(struct model *fs, const struct meta_who *who);

/* ---- operations; set may be NULL ------------------------------------------------- */

int model_put(struct model *fs, const char *path, uint32_t flags, const void *bytes, uint64_t size,
	      const struct model_set *set, int64_t now_ns);
int model_mkdir(struct model *fs, const char *path, const struct model_set *set, int64_t now_ns);
int model_symlink(struct model *fs, const char *text, const char *path, const struct model_set *set,
		  int64_t now_ns);
int model_unlink(struct model *fs, const char *path, int64_t now_ns);
int model_rmdir(struct model *fs, const char *path, int64_t now_ns);
int model_rmtree(struct model *fs, const char *path, int64_t now_ns);
int model_rename(struct model *fs, const char *from, const char *to, uint32_t flags,
		 int64_t now_ns);
/* flags: META_NOFOLLOW for `from`, which is then a symlink itself. */
int model_link(struct model *fs, const char *from, const char *to, uint32_t flags, int64_t now_ns);
int model_setattr(struct model *fs, const char *path, uint32_t flags, const struct model_set *set,
		  int64_t now_ns);
/* Any bytes anywhere; the file grows.  By path (symlinks followed), or by node below. */
int model_write(struct model *fs, const char *path, uint64_t offset, const void *bytes,
		uint64_t length, int64_t now_ns);
int model_truncate(struct model *fs, const char *path, uint64_t size, int64_t now_ns);

int model_stat(struct model *fs, const char *path, uint32_t flags, struct model_attr *out);
/* Bytes read into buf, fewer than length at the end of the file; or -errno. */
int64_t model_read(struct model *fs, const char *path, uint64_t offset, void *buf, uint64_t length);
/* The text in buf (META_PATH_MAX + 1 bytes, ends with a 0), its length; or -errno. */
/* Extended attributes, as setxattr() and its like. */
int model_xattr_set(struct model *fs, const char *path, const char *name, const void *value,
		    uint32_t len, uint32_t flags, int64_t now_ns);
int model_xattr_del(struct model *fs, const char *path, const char *name, int64_t now_ns);
int64_t model_xattr_get(struct model *fs, const char *path, const char *name, void *value);
/* The attribute number `index`; false: there are fewer. */
bool model_node_xattr(struct model_node *n, uint32_t index, const char **name, const void **value,
		      uint32_t *len);
int64_t model_readlink(struct model *fs, const char *path, char *buf);

/* ---- nodes ------------------------------------------------------------------------- */

/* Returns the node that a path leads to; or NULL and *err. */
struct model_node *model_node(struct model *fs, const char *path, uint32_t flags, int *err);
/* Returns NULL if the node is gone. */
struct model_node *model_by_id(struct model *fs, uint64_t id);
/* Returns 0 if the user may list its entries, with their attributes; else -EACCES. */
int model_may_list(const struct model_node *dir);
void model_node_attr(const struct model_node *n, struct model_attr *out);
int model_node_write(struct model_node *n, uint64_t offset, const void *bytes, uint64_t length,
		     int64_t now_ns);
int model_node_truncate(struct model_node *n, uint64_t size, int64_t now_ns);
int model_node_punch(struct model_node *n, uint64_t offset, uint64_t length, int64_t now_ns);
int64_t model_node_read(const struct model_node *n, uint64_t offset, void *buf, uint64_t length);
const char *model_node_text(const struct model_node *n); /* of a symlink */

/* ---- looking at all of it ------------------------------------------------------------ */

/* Entry `index` of a directory, in the order of names; false: there are fewer. */
bool model_entry(const struct model_node *dir, uint32_t index, const char **name,
		 struct model_node **node);
/* The next path in depth-first order, root ("/") first: path holds META_PATH_MAX + 1 bytes, and
 * is "" before the first call.  NULL: that was all. */
struct model_node *model_next(struct model *fs, char *path);
uint64_t model_count(const struct model *fs); /* nodes */
/* False: it was called with this node and this round before. */
bool model_first_visit(struct model_node *n, uint64_t round);

#endif
