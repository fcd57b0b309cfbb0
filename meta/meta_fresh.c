/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "meta/meta_fresh.h"

#include "base/num.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Some hundred records are changed while a log block is under way: one in ten shares its slot. */
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

/* Multiplication by the golden ratio's fraction, whose high bits count (Knuth, TAOCP 3, 6.4). */
static uint32_t slot_of(uint32_t shard, uint64_t a, uint64_t b, uint64_t c)
{
	const uint64_t ratio = 0x9e3779b97f4a7c15;
	uint64_t h = (a ^ shard) * ratio;

	h = (h ^ h >> 32 ^ b) * ratio;
	h = (h ^ h >> 32 ^ c) * ratio;
	return (uint32_t)(h >> (64 - SLOT_BITS));
}

static uint32_t slot_of_key(uint32_t shard, const struct meta_key *key)
{
	return slot_of(shard, key->w[0], key->w[1], key->w[2]);
}

static uint32_t slot_of_group(uint32_t shard, const struct meta_key *key)
{
	return slot_of(shard, key->w[0], group_of(key), UINT64_MAX);
}

/* ---- the store's thread -------------------------------------------------------------- */

void meta__fresh_note(struct meta *m, uint32_t shard, const struct meta_key *key, uint64_t seq)
{
	struct meta__fresh *f = m->fresh;

	ASSERT(!m->home && seq < META_SEEN_MADE);
	if (seq == 0)
		return;
	raise(&f->slot[slot_of_key(shard, key)], seq);
	raise(&f->slot[slot_of_group(shard, key)], seq);
}

void meta__fresh_note_shard(struct meta *m, uint32_t shard, uint64_t seq)
{
	ASSERT(!m->home && shard < m->nshards);
	raise(&m->fresh->floor[shard], seq);
}

void meta__fresh_durable(struct meta *m, uint64_t seq)
{
	raise(&m->fresh->durable, seq);
}

/* ---- who looks ----------------------------------------------------------------------- */

uint64_t meta__fresh_seq(const struct meta *m, uint32_t shard, const struct meta_key *key,
			 const struct meta_key *last, uint64_t seq)
{
	const struct meta__fresh *f = (m->home ? m->home : m)->fresh;
	uint64_t at;

	if (likely(seq <= get(&f->durable)) || seq == META_SEEN_MADE)
		return seq;
	if (m->home && m->shard[shard].turn == m->turn) /* its own, and still on its way (3) */
		return seq;
	if (meta__key_cmp(key, last) == 0)
		at = get(&f->slot[slot_of_key(shard, key)]);
	else if (is_one_group(key, last)) /* (2) */
		at = get(&f->slot[slot_of_group(shard, key)]);
	else
		return seq;
	return min_u64(seq, max_u64(at, get(&f->floor[shard])));
}
