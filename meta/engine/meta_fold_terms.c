/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * From which blocks a block of a fold is computed, when it cannot be read in its own place.
 *
 *   role     0    1    2    ...  P    Q          g is the generator of GF(2^8): base/gf.c
 *   sum 1    d0 + d1 + d2 + ... + P        = 0
 *   sum 2    d0 + g d1 + g^2 d2 + ...  + Q = 0   only if the fold has Q
 *
 * Addition is the exclusive or.  If one zone is missing, a times the first sum plus b times the
 * second one has the factor 0 for it, and another factor for each other zone.  So the wanted
 * block is the sum of the other blocks: each is multiplied by its own factor, and divided by that
 * of the wanted one.
 *
 *   missing   none, or Q    P         data i
 *   a, b      1, 0          0, 1      g^i, 1
 *
 * With P alone nothing else may be missing: a is 1, b is 0, and all factors are 1.
 *
 *  (1) The zones of a fold are on different drives, and each has a role of its own.
 *  (2) A zone that is missing is not read, nor is the wanted block.
 *  (3) There are as many terms as zones of data.  Fewer blocks never say what a block is.
 *  (4) The terms do not say whether the blocks that are read are right: the caller compares the
 *      checksum of the sum [test_app_fold:other_bytes_on_a_drive_are_never_read].
 *
 *   V3 -> W3   (V3 in meta_fold.c)
 */
#include "base/gf.h"
#include "meta/meta_twins.h"

#define NONE UINT32_MAX

uint32_t meta_fold_of(const struct meta_twins *t, uint64_t baddr, uint64_t place[META_FOLD_ZONES])
{
	uint64_t zone, offset, at = baddr, next;
	uint32_t count = 0;

	while (count < META_FOLD_ZONES && meta_twins_zone(t, at, &zone, &offset)) {
		next = atomic_load_explicit(&t->drive[META_BADDR_DRIVE(at)].ring[zone],
					    memory_order_acquire); /* W3 */
		if (next == 0)
			return 0;
		place[count++] = next + offset;
		at = META_FOLD_AT(next) + offset;
		if (at == baddr)
			return count;
	}
	return 0;
}

/* Returns the role of the zone, other than the last, that cannot be read.  If all can be read, one
 * sum suffices, and this returns the parity that is not needed: Q, or P if Q is wanted.  Returns
 * NONE if more is missing than there are sums. */
static uint32_t find_missing(const uint64_t *place, uint32_t count, uint64_t away, bool distrusts_p)
{
	const uint32_t wanted = META_FOLD_ROLE(place[count - 1]);
	uint32_t roles = 0, missing = NONE, misses = 0;
	uint64_t drives = 0;

	for (uint32_t i = 0; i < count; i++) {
		const uint64_t drive = 1ull << META_BADDR_DRIVE(META_FOLD_AT(place[i]));
		const uint32_t role = META_FOLD_ROLE(place[i]);

		drives |= drive;
		roles |= 1u << role;
		if (i + 1 < count && (away & drive || (distrusts_p && role == META_FOLD_P))) {
			missing = role;
			misses++;
		}
	}
	ASSERT((uint32_t)__builtin_popcountll(drives) == count); /* (1) */
	ASSERT((uint32_t)__builtin_popcount(roles) == count);    /* (1) */
	ASSERT(roles >> META_FOLD_P & 1);                        /* Q is never alone */
	if (misses == 0)
		return wanted == META_FOLD_Q ? META_FOLD_P : META_FOLD_Q;
	return misses == 1 && roles >> META_FOLD_Q & 1 ? missing : NONE;
}

/* a times the first sum plus b times the second: in it the missing zone has the factor 0. */
struct combination {
	uint8_t a, b;
};

static struct combination combine(uint32_t missing)
{
	ASSERT(missing < META_FOLD_MAX || missing == META_FOLD_P || missing == META_FOLD_Q);
	if (likely(missing == META_FOLD_Q))
		return (struct combination){ 1, 0 };
	if (missing == META_FOLD_P)
		return (struct combination){ 0, 1 };
	return (struct combination){ gf_power(missing), 1 };
}

static uint8_t factor(struct combination c, uint32_t role)
{
	ASSERT(role < META_FOLD_MAX || role == META_FOLD_P || role == META_FOLD_Q);
	if (role == META_FOLD_P)
		return c.a;
	if (role == META_FOLD_Q)
		return c.b;
	return likely(c.b == 0) ? c.a : c.a ^ gf_power(role);
}

uint32_t meta_fold_solve(const uint64_t *place, uint32_t count, uint64_t away, bool distrusts_p,
			 struct meta_fold_term term[META_FOLD_MAX])
{
	const uint32_t missing = find_missing(place, count, away, distrusts_p);
	const uint32_t wanted = META_FOLD_ROLE(place[count - 1]);
	uint32_t terms = 0, datas = wanted < META_FOLD_MAX;
	struct combination c;
	uint8_t divisor;

	ASSERT(count > 2 && count <= META_FOLD_ZONES); /* (1) */
	if (missing == NONE)
		return 0;
	c = combine(missing);
	divisor = gf_inverse(factor(c, wanted));
	for (uint32_t i = 0; i + 1 < count; i++) {
		const uint32_t role = META_FOLD_ROLE(place[i]);
		uint8_t by = factor(c, role);

		datas += role < META_FOLD_MAX;
		ASSERT((by == 0) == (role == missing)); /* (2) */
		if (by == 0)
			continue;
		ASSERT(terms < META_FOLD_MAX); /* (3) */
		if (unlikely(divisor != 1))
			by = gf_times(by, divisor);
		term[terms++] = (struct meta_fold_term){ .at = META_FOLD_AT(place[i]), .by = by };
	}
	ASSERT(terms == datas); /* (3) */
	return terms;
}

uint32_t meta_fold_terms(const struct meta_twins *t, uint64_t baddr, uint64_t away,
			 bool distrusts_p, struct meta_fold_term term[META_FOLD_MAX])
{
	uint64_t place[META_FOLD_ZONES];
	const uint32_t count = meta_fold_of(t, baddr, place);

	ASSERT(term);
	return count ? meta_fold_solve(place, count, away, distrusts_p, term) : 0;
}
