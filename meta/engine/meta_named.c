/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Remembers where names were found, so that a client that reads a tree again, file by file and in
 * another order, causes no walk to each name.
 *
 *   directory, hash --> | a | b | c | d |  four places, of 32 for each frame of the cache
 *                           |
 *                           v  tag, frame, pos
 *   frame: a leaf of this shard's present tree? --> the slots pos - 1 and pos: is the one
 *   before the name's hash and the other of it? --> the first record of that hash
 *
 *  (1) Entries are hints: a place only says where to look, and frames exist as long as the store.
 *      So no change needs to update a place, and if two threads write one place, either may win
 *      [test_meta_named:whatever_changes_the_first_of_a_hash_is_found].
 *  (2) A readable frame that is not gone is a page of its shard's present tree (meta_cache.c).
 *      A leaf has all keys between two of its own: if one slot is below a key and the next
 *      is not, that one is the first of the whole tree that is not.  So slot 0 proves nothing
 *      [test_meta_named:the_first_slot_of_a_leaf_says_nothing].
 *  (3) A name that is not found here may exist: only a walk proves that there is no such name
 *      [test_meta_named:names_that_want_the_same_places_push_each_other_out].
 */
#include "meta/engine/meta_tree.h"
#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PER_FRAME 32u /* names, of some 45 that a leaf holds: 1.6 to 3.1 % of the cache */
#define WAYS      4u

#define POS_BITS 12u /* a place: | frame 28 | pos 12 | tag 24 |, 0 when unused */
#define TAG_BITS 24u
static_assert(META_PAGE_BYTES / sizeof(struct meta_slot_disk) < 1u << POS_BITS, "room for pos");

struct place {
	_Atomic uint64_t *way;
	uint32_t tag;
	uint32_t victim;
};

int meta__named_create(struct meta__cache *c)
{
	uint64_t count = WAYS;

	ASSERT(c->nframes <= 1u << (64 - POS_BITS - TAG_BITS));
	while (count < (uint64_t)c->nframes * PER_FRAME)
		count *= 2;
	c->named = aligned_alloc(64, align_up(count * sizeof(*c->named), 64));
	if (!c->named)
		return -ENOMEM;
	memset(c->named, 0, count * sizeof(*c->named));
	c->named_mask = count - 1;
	return 0;
}

void meta__named_destroy(struct meta__cache *c)
{
	free(c->named);
	c->named = NULL;
}

/* The hash includes a secret: users cannot choose names for one place. */
static struct place place_of(const struct meta__cache *c, const struct meta_key *key)
{
	uint64_t h = (key->w[0] * 0xff51afd7ed558ccdu ^ key->w[1]) * 0xc4ceb9fe1a85ec53u;

	h ^= h >> 32;
	return (struct place){
		.way = &c->named[(h * WAYS) & c->named_mask],
		.tag = (uint32_t)(h >> (64 - TAG_BITS)),
		.victim = (uint32_t)(h >> 32) % WAYS,
	};
}

/* The first of all keys of a name's hash: with it a lookup begins. */
static bool is_first(const struct meta_key *key)
{
	return meta__key_class(key) == META__CLASS_NAME && meta__key_uniq(key) == 0;
}

static bool same_hash(const struct meta_key *a, const struct meta_key *b)
{
	return a->w[0] == b->w[0] && (a->w[1] ^ b->w[1]) >> 32 == 0;
}

void meta__named_fetch(const struct meta *m, const struct meta_key *key)
{
	__builtin_prefetch(place_of(m->cache, key).way);
}

void meta__named_note(struct meta *m, const struct meta__frame *f, uint32_t pos,
		      const struct meta_key *key)
{
	const uint64_t frame = (uint64_t)(f - m->cache->frame);
	struct place p;
	struct meta_key at;
	uint32_t way;
	uint64_t is;

	if (!is_first(key) || pos == 0 || pos >= meta__page_count(f->page))
		return;
	at = meta__leaf_key(f->page, pos);
	if (!same_hash(&at, key))
		return;
	DASSERT(frame < m->cache->nframes);
	DASSERT(f->level == 0);
	p = place_of(m->cache, key);
	for (way = 0; way < WAYS; way++) {
		is = atomic_load_explicit(&p.way[way], memory_order_relaxed);
		if (is == 0 || (is & ((1u << TAG_BITS) - 1)) == p.tag)
			break;
	}
	atomic_store_explicit(&p.way[way < WAYS ? way : p.victim],
			      frame << (POS_BITS + TAG_BITS) | (uint64_t)pos << TAG_BITS | p.tag,
			      memory_order_relaxed);
}

struct meta__frame *meta__named_look(const struct meta *m, const struct meta_key *key,
				     uint32_t *pos)
{
	struct place p;

	if (!is_first(key))
		return NULL;
	p = place_of(m->cache, key);
	for (uint32_t way = 0; way < WAYS; way++) {
		uint64_t is = atomic_load_explicit(&p.way[way], memory_order_relaxed);

		if (is == 0 || (is & ((1u << TAG_BITS) - 1)) != p.tag)
			continue;
		DASSERT(is >> (POS_BITS + TAG_BITS) < m->cache->nframes);
		*pos = (uint32_t)(is >> TAG_BITS) & ((1u << POS_BITS) - 1);
		return &m->cache->frame[is >> (POS_BITS + TAG_BITS)];
	}
	return NULL;
}

bool meta__named_holds(const struct meta__frame *f, uint32_t pos, uint32_t shard,
		       const struct meta_key *key)
{
	struct meta_key before, at;

	DASSERT(is_first(key));
	if (!meta__frame_readable(f) || f->shard != shard || meta__frame_gone(f) ||
	    f->level != 0) /* (2) */
		return false;
	if (pos == 0 || pos >= meta__page_count(f->page))
		return false;
	before = meta__leaf_key(f->page, pos - 1);
	at = meta__leaf_key(f->page, pos);
	return same_hash(&at, key) && meta__key_cmp(&before, key) < 0;
}
