/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "meta/engine/meta_fresh.h"

#include "base/num.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Some hundred records change while a log block is written: one in ten shares its slot. */
#define SLOT_BITS 12u
#define SLOTS     (1u << SLOT_BITS)

struct meta__fresh {
	_Alignas(64) _Atomic uint64_t durable;
	_Alignas(64) _Atomic uint64_t floor[META_SHARDS_MAX]; /* (3) */
	_Atomic uint64_t slot[SLOTS];                         /* (1) */
};

uint64_t meta__fresh_memory(const struct meta_conf *c)
{
	(void)c;
	return 0;
}

int meta__fresh_create(struct meta *m)
{
	m->fresh = aligned_alloc(64, sizeof(*m->fresh));
	if (!m->fresh)
		return -ENOMEM;
	memset(m->fresh, 0, sizeof(*m->fresh));
	return 0;
}

void meta__fresh_destroy(struct meta *m)
{
	free(m->fresh);
	m->fresh = NULL;
}

static uint64_t get(const _Atomic uint64_t *at)
{
	return atomic_load_explicit(at, memory_order_relaxed);
}

/* One thread writes. */
static void raise(_Atomic uint64_t *at, uint64_t seq)
{
	DASSERT(seq <= META_SEEN_MADE);
	if (seq > get(at))
		atomic_store_explicit(at, seq, memory_order_relaxed);
}

/* ---- slots --------------------------------------------------------------------------- */

static uint64_t group_of(const struct meta_key *key)
{
	return key->w[1] >> 32; /* the rest of the hash, and the class; the first word counts too */
}

static bool is_one_group(const struct meta_key *a, const struct meta_key *b)
{
	return a->w[0] == b->w[0] && group_of(a) == group_of(b);
}

static bool is_count(const struct meta_key *key)
{
	return meta__key_class(key) == META__CLASS_ZONE;
}

/* Multiplication by the golden ratio's fraction, whose high bits count (Knuth, TAOCP 3, 6.4). */
static uint64_t hash_on(uint64_t h, uint64_t word)
{
	return (h ^ h >> 32 ^ word) * 0x9e3779b97f4a7c15;
}

static uint64_t hash_of_group(uint32_t shard, const struct meta_key *key)
{
	return hash_on(hash_on(shard, key->w[0]), group_of(key));
}

static uint64_t hash_of_key(uint64_t group, const struct meta_key *key)
{
	return hash_on(group, key->w[1] << 32 ^ key->w[2]);
}

static uint32_t slot_of(uint64_t hash)
{
	static_assert(SLOT_BITS > 0 && SLOT_BITS < 32, "a shift of a hash");
	return (uint32_t)(hash >> (64 - SLOT_BITS));
}

/* ---- the store's thread -------------------------------------------------------------- */

void meta__fresh_note(struct meta *m, uint32_t shard, const struct meta_key *key, uint64_t seq)
{
	struct meta__fresh *f = m->fresh;
	const uint64_t group = hash_of_group(shard, key);

	/* meta_fresh.h (4), meta_fresh.h (5) */
	ASSERT(!m->home && seq < META_SEEN_MADE && !is_count(key));
	raise(&f->slot[slot_of(group)], seq);
	raise(&f->slot[slot_of(hash_of_key(group, key))], seq);
	DASSERT(get(&f->slot[slot_of(group)]) >= seq); /* meta_fresh.h (1) */
	DASSERT(get(&f->slot[slot_of(hash_of_key(group, key))]) >= seq);
}

void meta__fresh_note_shard(struct meta *m, uint32_t shard, uint64_t seq)
{
	ASSERT(!m->home && shard < m->nshards);
	raise(&m->fresh->floor[shard], seq);
	ASSERT(get(&m->fresh->floor[shard]) >= seq); /* meta_fresh.h (3) */
}

void meta__fresh_durable(struct meta *m, uint64_t seq)
{
	ASSERT(!m->home); /* meta_fresh.h (5) */
	raise(&m->fresh->durable, seq);
}

/* ---- readers ------------------------------------------------------------------------- */

uint64_t meta__fresh_seq(const struct meta *m, uint32_t shard, const struct meta_key *key,
			 const struct meta_key *last, uint64_t seq)
{
	const struct meta__fresh *f = (m->home ? m->home : m)->fresh;
	uint64_t hash;

	DASSERT(shard < m->nshards);
	DASSERT(meta__key_cmp(key, last) <= 0);
	if (likely(seq <= get(&f->durable)) || seq == META_SEEN_MADE)
		return seq;
	if (m->home && m->shard[shard].turn == m->turn) /* its own, and still on its way (3) */
		return seq;
	if (!is_one_group(key, last) || is_count(key)) /* (2), (4) */
		return seq;
	hash = hash_of_group(shard, key);
	if (meta__key_cmp(key, last) == 0)
		hash = hash_of_key(hash, key);
	return min_u64(seq, max_u64(get(&f->slot[slot_of(hash)]), get(&f->floor[shard])));
}
