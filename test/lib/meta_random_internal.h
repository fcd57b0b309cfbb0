/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Between meta_random.c and meta_random_more.c. */
#ifndef TEST_META_RANDOM_INTERNAL_H
#define TEST_META_RANDOM_INTERNAL_H

#include "test/lib/meta_random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAME(r, what, a, b)                                                                        \
	do {                                                                                       \
		const long long a_ = (long long)(a), b_ = (long long)(b);                          \
		if (a_ != b_) {                                                                    \
			fprintf(stderr, "op %llu, %s: store %lld, model %lld; error: %s\n",        \
				(unsigned long long)(r)->ops, what, a_, b_, (r)->w->m->error);     \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static inline uint64_t below(struct meta_random *r, uint64_t bound)
{
	return rand_below(&r->rand, bound);
}

static inline struct meta_op op_new(struct meta_random *r, enum meta_op_type type, const char *path)
{
	return (struct meta_op){
		.type = type,
		.target = { .path = path, .path_len = (uint32_t)strlen(path) },
		.wall_ns = ++r->now_ns,
		.who = r->who.gids ? &r->who : NULL,
		.runs = r->runs,
		.crcs = r->crcs,
		.runs_max = META_IO_BLOCKS_MAX,
		.blocks_max = META_IO_BLOCKS_MAX,
		.inline_buf = r->inline_buf,
	};
}

static inline int run(struct meta_random *r, struct meta_op *op)
{
	return meta_world_run(r->w, op);
}

static inline void note(struct meta_random *r, const char *what, int rc, int want)
{
	SAME(r, what, rc, want);
	r->results[rc == 0]++;
}

/* meta_random_more.c: each does one, at the store and at the model. */
void meta_random__punch(struct meta_random *r, const char *path);
void meta_random__seek(struct meta_random *r, const char *path);
void meta_random__xattr_change(struct meta_random *r, const char *path);
void meta_random__xattr_get(struct meta_random *r, const char *path);
/* All that a node has. */
void meta_random__compare_xattrs(struct meta_random *r, const char *path, struct model_node *n);

/* meta_random_totals.c: of every directory. */
void meta_random__compare_totals(struct meta_random *r);

#endif
