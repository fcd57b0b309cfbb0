/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The files that should exist: a map from path to state, and the changes in progress.
 *
 * A change is a set of paths with the state of each before and after it.  While its request is
 * out, a power cut may leave all of them before or all of them after; once it was acknowledged,
 * or a reader has seen one of them after, only after is right.
 *
 * An open file has one more name, which is in no directory: "#2" is hold 2.  So it stays when its
 * last name goes, and each change of it changes the state there, too.
 */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include "base/assert.h"

#include <stdbool.h>
#include <stdint.h>

#define SIM_PATH_MAX   64
#define SIM_NODES_MAX  1024
#define SIM_LINKS_MAX  6  /* names of one file */
#define SIM_CHANGE_MAX 40 /* paths: a tree that is moved or removed */

enum sim_type { SIM_ABSENT, SIM_FILE, SIM_DIR, SIM_LINK };

/* Immutable once made, shared by count: paths that share one are names of the same file. */
struct sim_state {
	uint32_t refs;
	enum sim_type type;
	uint32_t mode;
	uint32_t size;
	uint8_t *bytes;  /* of a file, or a link's target */
	uint32_t rotten; /* bits: blocks whose only copy is not what was written any more */
};

struct sim_node {
	char path[SIM_PATH_MAX];
	struct sim_state *state;
};

struct sim_change {
	uint32_t count; /* 0: nothing changes */
	char path[SIM_CHANGE_MAX][SIM_PATH_MAX];
	struct sim_state *before[SIM_CHANGE_MAX]; /* NULL: absent */
	struct sim_state *after[SIM_CHANGE_MAX];
	bool seen;  /* a reader has seen it done */
	bool found; /* the last verification has found it done */
};

struct sim_model {
	uint32_t count;
	struct sim_node node[SIM_NODES_MAX];
};

struct sim_state *sim_state_new(enum sim_type type, uint32_t mode, const void *bytes,
				uint32_t size);
struct sim_state *sim_state_hold(struct sim_state *s); /* NULL is fine */
void sim_state_drop(struct sim_state *s);
bool sim_state_same(const struct sim_state *a, const struct sim_state *b);

/* The state of `path`, NULL: absent.  Borrowed. */
struct sim_state *sim_model_get(const struct sim_model *m, const char *path);
void sim_model_set(struct sim_model *m, const char *path, struct sim_state *s); /* takes a hold */
bool sim_model_has_children(const struct sim_model *m, const char *dir);
/* Is the directory above `path` there? ("a/b" -> "a"; what is above "a" always is.)  0 or -errno.
 */
int sim_model_parent(const struct sim_model *m, const char *path);
/* ... which takes paths and states as they are; the states are shared. */
void sim_model_copy(struct sim_model *to, const struct sim_model *from);
void sim_model_clear(struct sim_model *m);
/* The i-th path at or below `path` from *i on, NULL: there are no more. */
const struct sim_node *sim_model_below(const struct sim_model *m, const char *path, uint32_t *i);

/* Add path: now -> after (NULL: removed); takes over one hold on `after`. */
void sim_change_add(struct sim_change *c, const struct sim_model *m, const char *path,
		    struct sim_state *after);
/* The same, of a path that may be part of it already.  False: that are too many, or one too long;
 * the hold is dropped then. */
bool sim_change_put(struct sim_change *c, const struct sim_model *m, const char *path,
		    struct sim_state *after);
void sim_change_copy(struct sim_change *to, const struct sim_change *from);
/* The same for all names of the file at `path`. */
void sim_change_file(struct sim_change *c, const struct sim_model *m, const char *path,
		     struct sim_state *after);
/* The name of a hold. */
static inline bool sim_is_hold(const char *path)
{
	return path[0] == '#';
}
/* All holds are over, and what only they kept. */
void sim_model_let_go(struct sim_model *m);
/* The change without what it does to holds. */
void sim_change_let_go(struct sim_change *c);
/* Files, directories and links that there are. */
uint32_t sim_model_inodes(const struct sim_model *m);
/* Names of the file in this state. */
uint32_t sim_model_names(const struct sim_model *m, const struct sim_state *s);
void sim_change_apply(struct sim_change *c, struct sim_model *m);
void sim_change_drop(struct sim_change *c);
/* Do two paths get in each other's way: equal, or one above the other? */
bool sim_paths_meet(const char *a, const char *b);

#endif
