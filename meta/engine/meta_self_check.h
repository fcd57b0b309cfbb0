/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The structures of a store check themselves: what each keeps counts of is counted again.  Each
 * function ASSERTs the invariants that the head of the structure's file numbers.  In variants with
 * WK_DEBUG (debug, asan, tsan, sim) meta_turn() calls them now and then; release has none of it.
 */
#ifndef META_SELF_CHECK_H
#define META_SELF_CHECK_H

#include "meta/meta_store.h"

#ifdef WK_DEBUG
void meta__zones_check(const struct meta *m);
void meta__cache_check(struct meta *m);
void meta__ops_check(const struct meta *m);
void meta__log_check(const struct meta *m);
void meta__share_check(const struct meta *m); /* lent shards, too */
void meta__receipts_check(const struct meta *m);
void meta__collect_check(const struct meta *m);
void meta__gc_check(const struct meta *m);
#endif

#endif
