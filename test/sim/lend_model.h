/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The state of each name: the acknowledged one, and the one after the change in progress.
 *
 *   now ---- a change begins ----> now, after ---- it is answered ----> now
 *                                      '---- the power fails ---------> one of both, and `after`
 *                                                                      if anybody has seen that
 *
 * A name has one change in progress at a time; so the states that may be found are always known.
 */
#ifndef LEND_MODEL_H
#define LEND_MODEL_H

#include "test/lib/meta_rig.h"

#define LEND_XATTRS    3u
#define LEND_RUNS      64u
#define LEND_BLOCKS    128u /* of one file, at most */
#define LEND_XATTR_MAX 65536u

enum lend_type { LEND_NONE, LEND_FILE, LEND_LINK, LEND_DIR };

struct lend_state {
	enum lend_type type;
	uint64_t tag;       /* its mtime: number of a change                  */
	uint64_t changed;   /* its ctime: of the one that was last            */
	uint32_t blocks;    /* on drives, ...                                 */
	uint64_t content;   /* ... filled from this                           */
	uint32_t end_bytes; /* behind them, in the index; of a link: its text */
	uint64_t end;       /* ... each of them this, its lowest byte         */
	uint32_t uid;
	struct {
		uint64_t tag; /* 0: not there; bytes as `end` */
		uint32_t bytes;
	} xattr[LEND_XATTRS];
};

struct lend_name {
	struct lend_state now, after;
	struct meta_handle handle; /* of the file in `now` */
	bool busy;
	bool seen;         /* `after` was the answer to a look  */
	uint64_t versions; /* of now, after and busy            */
};

enum lend_kind {
	LEND_PUT,        /* its bytes in its inode    */
	LEND_PUT_BLOCKS, /* ... on drives             */
	LEND_GROW,       /* by a tail, in the index   */
	LEND_CUT,        /* to whole blocks           */
	LEND_UNLINK,
	LEND_RENAME,
	LEND_SYMLINK,
	LEND_SETATTR,
	LEND_XATTR_SET,
	LEND_XATTR_DEL,
	LEND_MKDIR,
	LEND_RMDIR,
	LEND_LOOK,
	LEND_KINDS
};

/* A change, as the model knows it. */
struct lend_change {
	enum lend_kind kind;
	uint64_t tag;
	uint32_t blocks, bytes;      /* that it brings, or leaves    */
	uint32_t xattr;              /* which                        */
	struct lend_name *name, *to; /* to: of a rename, else NULL */
	int want;                    /* its status                 */
};

/* It begins: names are busy, `want` is known. */
void lend_model_begin(struct lend_change *c);
/* It has ended, made or not. */
void lend_model_end(struct lend_change *c, bool made, const struct meta_handle *handle);
/* This status is no surprise. */
bool lend_model_may_fail(const struct lend_change *c, int status);

/* Has a READ (or STAT of a directory) found this?  Blocks are compared with the drives. */
bool lend_state_is(struct rig *r, const struct lend_state *s, const struct meta_op *op);

#endif
