/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Remembers where records were found, so that the next lookup need not walk.  For inodes and
 * extents, which are read by handle, one read after the other; a name brings its inode.
 *
 *   key --hash--> | tag, frame, pos |  8192 of them, the last one found stays
 *                              |
 *                              v
 *   frame: a leaf of this shard's present tree? --> does slot `pos` have this key? --> found
 *
 *  (1) Entries are hints: an entry only says where to look, and frames exist as long as the store.
 *      So no change needs to update an entry
 *      [test_meta_found:a_place_may_be_another_records_after_an_insert_or_a_delete_before_it].
 *  (2) A readable frame that is not gone is a page of its shard's present tree (meta_cache.c),
 *      and only one leaf of a tree holds a key (meta_tree.c): a slot that has the key is its
 *      record, the same that a walk would find
 *      [test_meta_found:a_frozen_page_has_the_value_of_before].
 *  (3) A record that is not found here may exist: only a walk proves that there is no such record
 *      [test_meta_found:a_free_frame_has_the_records_of_its_last_page].
 */
#include "meta/engine/meta_tree.h"

#include <errno.h>
#include <stdlib.h>

#define ENTRIES 8192u /* 64 KiB: the chunks of 4 GiB, which a CPU's cache still holds */

struct meta__found {
	uint32_t frame;
	uint16_t pos;
	uint16_t tag;
};

int meta__found_create(struct meta__cache *c)
{
	c->found = calloc(ENTRIES, sizeof(*c->found)); /* zeros are as good a guess as any */
	return c->found ? 0 : -ENOMEM;
}

void meta__found_destroy(struct meta__cache *c)
{
	free(c->found);
	c->found = NULL;
}

/* Multiples of an odd number spread a file's chunks, which are successive, evenly. */
static struct meta__found *entry_of(const struct meta__cache *c, const struct meta_key *key,
				    uint16_t *tag)
{
	uint64_t h = (key->w[0] * 0xff51afd7ed558ccdu ^ key->w[1]) * 0xc4ceb9fe1a85ec53u;

	static_assert(ENTRIES == 1u << (64 - 51), "as many as the hash's high bits name");
	h = (h ^ h >> 32) + key->w[2] * 0x9e3779b97f4a7c15u;
	*tag = (uint16_t)(h >> 32);
	return &c->found[(h >> 51) % ENTRIES];
}

static bool is_kept(const struct meta_key *key)
{
	const enum meta__kind kind = meta__key_kind(key);

	return kind == META__KIND_INODE || kind == META__KIND_EXTENT;
}

void meta__found_note(struct meta *m, const struct meta__frame *f, uint32_t pos,
		      const struct meta_key *key)
{
	struct meta__found *e;
	uint16_t tag;

	if (!is_kept(key))
		return;
	DASSERT(f >= m->cache->frame);
	DASSERT(f < m->cache->frame + m->cache->nframes);
	DASSERT(f->level == 0);
	DASSERT(pos <= UINT16_MAX);
	e = entry_of(m->cache, key, &tag);
	*e = (struct meta__found){
		.frame = (uint32_t)(f - m->cache->frame),
		.pos = (uint16_t)pos,
		.tag = tag,
	};
}

struct meta__frame *meta__found_look(const struct meta *m, const struct meta_key *key,
				     uint32_t *pos)
{
	const struct meta__found *e;
	uint16_t tag;

	if (!is_kept(key))
		return NULL;
	e = entry_of(m->cache, key, &tag);
	*pos = e->pos;
	DASSERT(e->frame < m->cache->nframes);
	return e->tag == tag ? &m->cache->frame[e->frame] : NULL;
}

bool meta__found_holds(const struct meta__frame *f, uint32_t pos, uint32_t shard,
		       const struct meta_key *key)
{
	struct meta_key at;

	if (!meta__frame_readable(f) || f->shard != shard || meta__frame_gone(f) ||
	    f->level != 0) /* (2) */
		return false;
	if (pos >= meta__page_count(f->page))
		return false;
	at = meta__leaf_key(f->page, pos);
	return meta__key_cmp(&at, key) == 0;
}
