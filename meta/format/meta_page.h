/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Pages as bytes.  A page from a drive is foreign until meta__page_check() has passed it, once;
 * from then on it is used in place, and these functions rely on the check.
 */
#ifndef META_PAGE_H
#define META_PAGE_H

#include "meta/meta_disk.h"
#include "meta/meta_internal.h"

/* Bytes of a leaf that slots and values share. */
#define META__LEAF_SPACE (META_PAGE_BYTES - (uint32_t)sizeof(struct meta_page_disk))

/* The parent's description of a page. */
struct meta__page_want {
	uint64_t baddr;
	uint64_t gen;
	uint32_t shard;
	uint32_t level;
};

/* Returns NULL if the page is sound and the one wanted; else the reason, in a few words. */
const char *meta__page_check(const void *page, const struct meta__page_want *want);

/* An empty page; its place is set by meta__page_place(), its checksum by meta__page_seal(). */
void meta__page_init(void *page, uint32_t shard, uint32_t level, const struct meta_key *first);
void meta__page_place(void *page, uint64_t baddr, uint64_t gen, uint32_t order);
void meta__page_seal(void *page);

static inline uint32_t meta__page_count(const void *page)
{
	return le16_get(((const struct meta_page_disk *)page)->count);
}

struct meta_key meta__page_first(const void *page);
void meta__page_set_first(void *page, const struct meta_key *key);
/* Prepares for a key below all keys of the page so far. */
void meta__page_lower(void *page, const struct meta_key *key);
/* Bytes of META__LEAF_SPACE in use; an interior page's in proportion. */
uint32_t meta__page_used(const void *page);
/* Do all records or children of `more` fit into `page`, with an eighth to spare? */
bool meta__page_holds(const void *page, const void *more);
/* Move entries [at, count) to the empty page `right`; append all of `right` to `left`. */
void meta__page_split(void *left, void *right, uint32_t at);
void meta__page_append(void *left, const void *right);

/* ---- leaves ---- */

static inline uint32_t meta__leaf_bytes(uint32_t value_len)
{
	return (uint32_t)sizeof(struct meta_slot_disk) + ((value_len + 7) & ~7u);
}

static inline const struct meta_slot_disk *meta__leaf_slot(const void *page, uint32_t pos)
{
	ASSERT(pos < meta__page_count(page));
	return &((const struct meta_leaf_disk *)page)->slot[pos];
}

static inline struct meta_key meta__leaf_key(const void *page, uint32_t pos)
{
	const struct meta_slot_disk *s = meta__leaf_slot(page, pos);

	return (struct meta_key){ { le64_get(s->w[0]), le64_get(s->w[1]), le64_get(s->w[2]) } };
}

static inline void meta__leaf_value(const void *page, uint32_t pos, const void **value,
				    uint32_t *value_len)
{
	const struct meta_slot_disk *s = meta__leaf_slot(page, pos);

	*value = (const uint8_t *)page + le16_get(s->offset);
	*value_len = le16_get(s->length);
}

/* The first record whose key is >= key: its position in *pos (perhaps count); is it the key? */
bool meta__leaf_find(const void *page, const struct meta_key *key, uint32_t *pos);
/* The same; *pos is a guess: there, or later.  Any number will do. */
bool meta__leaf_find_near(const void *page, const struct meta_key *key, uint32_t *pos);
/* Prefetches the lines that a search for key will touch, a step each time after the step before has
 * had time to complete: 0 the ends, 1 the slots, 2 the values.  The header must be in cache
 * already.  Returns the expected position of the key; after step 2 the same as
 * meta__leaf_find(). */
uint32_t meta__leaf_fetch(const void *page, const struct meta_key *key, uint32_t step);
/* Where in its page the slot stands. */
static inline uint32_t meta__leaf_slot_at(uint32_t pos)
{
	return (uint32_t)(sizeof(struct meta_page_disk) + pos * sizeof(struct meta_slot_disk));
}
/* The record at pos and its neighbours, a name's inode and first extent, are read soon. */
void meta__leaf_ahead(const void *page, uint32_t pos);
uint32_t meta__leaf_free(const void *page); /* bytes for further slots and values */
void meta__leaf_insert(void *page, uint32_t pos, const struct meta_key *key, const void *value,
		       uint32_t value_len);
/* Another value for a record; false: it takes other room, remove and insert it. */
bool meta__leaf_replace(void *page, uint32_t pos, const void *value, uint32_t value_len);
void meta__leaf_remove(void *page, uint32_t pos);
/* Where to split so that both halves with a record of `bytes` put at pos are about equal. */
uint32_t meta__leaf_middle(const void *page, uint32_t pos, uint32_t bytes);

/* ---- interior pages ---- */

/* The child that answers for key: the last whose separator is <= key, else the first. */
uint32_t meta__inner_find(const void *page, const struct meta_key *key);
struct meta_key meta__inner_key(const void *page, uint32_t i);
void meta__inner_child(const void *page, uint32_t i, uint64_t *baddr, uint64_t *gen);
void meta__inner_set(void *page, uint32_t i, uint64_t baddr, uint64_t gen);
void meta__inner_insert(void *page, uint32_t i, const struct meta_key *key, uint64_t baddr,
			uint64_t gen);
void meta__inner_remove(void *page, uint32_t i);

#endif
