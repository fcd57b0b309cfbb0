/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The order of an epoch: a keyed permutation of 0 .. count - 1, computed for any position without
 * a table.  PROTOCOL.md 12 specifies it to the bit, with vectors.
 *
 *    position --> | left | right | --8 Feistel rounds--> number --below count?--> sample
 *                                          ^                 | no: once more
 *                                          +-----------------+
 *
 * A Feistel network permutes all numbers of b bits, whatever its round function is; b is the least
 * for which 2^b >= count, so fewer than two walks a sample are needed on average.  Walking on until
 * a number is below count (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002) keeps
 * it a permutation.  The round function is the finalizer of SplitMix64 (Steele, Lea and Flood,
 * 2014): it mixes well and costs two multiplications; nobody relies on it being hard to guess.
 *
 * Invariants:
 *  (1) A walk begins below count, so it returns to its start at the latest, and ends.
 */
#include "client-lib/dataset/dataset_internal.h"

#include "base/assert.h"

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15) /* SplitMix64's increment */

static uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

uint64_t dataset__key(uint64_t a, uint64_t b)
{
	return mix(mix(a) ^ b);
}

uint64_t dataset__epoch_key(uint64_t seed, uint64_t epoch)
{
	return dataset__key(seed + GOLDEN, epoch);
}

void dataset__order_init(struct dataset__order *o, uint64_t count, uint64_t seed, uint64_t epoch)
{
	dataset__order_of(o, count, dataset__epoch_key(seed, epoch));
}

void dataset__order_of(struct dataset__order *o, uint64_t count, uint64_t key)
{
	uint32_t bits = 2;

	ASSERT(count > 0 && count <= DATASET__SAMPLES_MAX);
	while ((UINT64_C(1) << bits) < count)
		bits++;
	o->count = count;
	o->right_bits = bits / 2;
	o->left_mask = (UINT64_C(1) << (bits - bits / 2)) - 1;
	o->right_mask = (UINT64_C(1) << (bits / 2)) - 1;
	for (uint32_t i = 0; i < DATASET__ROUNDS; i++)
		o->key[i] = mix(key + (i + 1) * GOLDEN);
}

static uint64_t walk(const struct dataset__order *o, uint64_t x)
{
	uint64_t left = x >> o->right_bits, right = x & o->right_mask;

	for (uint32_t i = 0; i < DATASET__ROUNDS; i += 2) {
		left ^= mix(right ^ o->key[i]) & o->left_mask;
		right ^= mix(left ^ o->key[i + 1]) & o->right_mask;
	}
	return left << o->right_bits | right;
}

uint64_t dataset__order_at(const struct dataset__order *o, uint64_t position)
{
	uint64_t x = position;

	ASSERT(position < o->count); /* (1) */
	do
		x = walk(o, x);
	while (x >= o->count);
	return x;
}

uint64_t weka_order(uint64_t count, uint64_t seed, uint64_t epoch, uint64_t position)
{
	struct dataset__order o;

	if (count == 0 || count > DATASET__SAMPLES_MAX || position >= count)
		return UINT64_MAX;
	dataset__order_init(&o, count, seed, epoch);
	return dataset__order_at(&o, position);
}

/* ---- who reads what ------------------------------------------------------------------------ */

uint64_t dataset__steps(const struct dataset__plan *p)
{
	uint64_t left = p->count - p->from, each = (uint64_t)p->world * p->batch;
	uint64_t full = left / each;

	ASSERT(p->from <= p->count && each > 0);
	return full + (left % each > 0 && !p->drop_last);
}

struct dataset__piece dataset__piece(const struct dataset__plan *p, uint64_t step)
{
	uint64_t each = (uint64_t)p->world * p->batch;
	uint64_t from = p->from + step * each, left = p->count - from;
	struct dataset__piece piece = { .end = from + each };

	ASSERT(step < dataset__steps(p) && p->rank < p->world);
	if (left >= each) {
		piece.at = from + (uint64_t)p->rank * p->batch;
		piece.count = p->batch;
		return piece;
	}
	/* left < 2^32 and rank < 2^16: no product is too large. */
	piece.at = from + left * p->rank / p->world;
	piece.count = (uint32_t)(from + left * (p->rank + 1) / p->world - piece.at);
	piece.end = p->count;
	ASSERT(piece.count <= p->batch);
	return piece;
}
