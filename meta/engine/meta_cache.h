/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Between meta_cache.c and meta_cache_write.c: a frame's place in the hash, its state and lists. */
#ifndef META_CACHE_H
#define META_CACHE_H

#include "meta/meta_internal.h"

struct meta__cache;

/* An unused frame, off all lists and out of the hash; NULL: all are needed. */
struct meta__frame *meta__frame_get(struct meta *m);
void meta__frame_free(struct meta *m, struct meta__frame *f);
void meta__frame_insert(struct meta__cache *c, struct meta__frame *f);
void meta__frame_remove(struct meta__cache *c, struct meta__frame *f);
void meta__frame_state_set(struct meta__cache *c, struct meta__frame *f,
			   enum meta__frame_state state);
void meta__frame_used(struct meta__frame *f); /* the clock's hand passes it by from now on */
/* No waiter needs it any more. */
void meta__frame_unfresh(struct meta__cache *c, struct meta__frame *f);
/* Describe the transfer of its page; a read begins at once, a write is the caller's to begin. */
void meta__frame_io(struct meta *m, struct meta__frame *f, enum meta_io_op op,
		    enum meta__io_kind kind);

#endif
