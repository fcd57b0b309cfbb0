/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* One call, one operation of a store: for tests that say what they do in a line each. */
#ifndef TEST_META_SHELL_H
#define TEST_META_SHELL_H

#include "test/lib/meta_world.h"

/* 0 or -errno, all of them.  Bytes of up to META_INLINE_MAX go inline, others into blocks. */
int sh_put(struct meta_world *w, const char *path, uint32_t flags, const void *bytes,
	   uint64_t size);
int sh_mkdir(struct meta_world *w, const char *path);
int sh_symlink(struct meta_world *w, const char *text, const char *path);
int sh_unlink(struct meta_world *w, const char *path);
int sh_rmdir(struct meta_world *w, const char *path);
/* A symlink at `from` is meant itself. */
int sh_link(struct meta_world *w, const char *from, const char *to);
int sh_rename(struct meta_world *w, const char *from, const char *to, uint32_t flags);
int sh_stat(struct meta_world *w, const char *path, uint32_t flags, struct meta_attr *out);
int sh_stat_handle(struct meta_world *w, const struct meta_handle *h, struct meta_attr *out);
/* The text, with a 0 behind it. */
int sh_readlink(struct meta_world *w, const char *path, char *text);

int sh_put_begin(struct meta_world *w, const char *path, struct meta_handle *out);
int sh_put_commit(struct meta_world *w, const struct meta_handle *h, const char *path);
int sh_put_abort(struct meta_world *w, const struct meta_handle *h);

/* Whole blocks from `offset` on; the file grows to `size`. */
int sh_write(struct meta_world *w, const struct meta_handle *h, uint64_t offset, const void *bytes,
	     uint64_t length, uint64_t size);
/* To a multiple of a block, or up, or of an inline file. */
int sh_truncate(struct meta_world *w, const struct meta_handle *h, uint64_t size);
/* Any bytes: the edges are read, zeroed and given as blocks. */
int sh_punch(struct meta_world *w, const struct meta_handle *h, uint64_t offset, uint64_t length);
/* Where data (or a hole) is, from there on; -errno. */
int64_t sh_seek(struct meta_world *w, const struct meta_handle *h, uint64_t offset, bool hole);
/* The blocks that a punch of these bytes replaces: zeroed, into `op`, which has its target. */
int sh_punch_edges(struct meta_world *w, struct meta_op *op, uint64_t offset, uint64_t length);
/* Extended attributes; get and list: bytes, or -errno. */
int sh_xattr_set(struct meta_world *w, const char *path, const char *name, const void *value,
		 uint32_t len, uint32_t flags);
int sh_xattr_del(struct meta_world *w, const char *path, const char *name);
int64_t sh_xattr_get(struct meta_world *w, const char *path, const char *name, void *value,
		     uint32_t max);
int64_t sh_xattr_list(struct meta_world *w, const char *path, void *names, uint32_t max);
/* All of a file, in any number of reads; its size, or -errno. */
int64_t sh_read(struct meta_world *w, const char *path, void *bytes, uint64_t bytes_max);
int64_t sh_read_handle(struct meta_world *w, const struct meta_handle *h, void *bytes,
		       uint64_t bytes_max);
/* Entries of a directory, so many a call; each is counted. */
int64_t sh_count(struct meta_world *w, const char *path, uint32_t entries_max);

/* An operation as these make them, not yet run. */
struct meta_op sh_op(enum meta_op_type type, const char *path);

#endif
