/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Folds of 2 to 10 zones of data, with P and with P and Q: each block is computed from others while
 * any one or two are missing, and compared.  The parities are computed bit by bit.
 */
#include "base/gf.h"
#include "base/rand.h"
#include "meta/meta_twins.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>

enum { BYTES = 256, ZONE_BLOCKS = 100, ZONES = 5, OFFSET = 37, NOTHING = META_FOLD_ZONES };

/* Zone i of the fold is on drive 7 i + 3 modulo 64: data, then P, then Q. */
static struct {
	uint32_t datas, count;
	uint64_t place[META_FOLD_ZONES];
	uint8_t block[META_FOLD_ZONES][BYTES];
} fold;

static struct rand_state r;

static uint8_t twice(uint8_t a)
{
	return (uint8_t)(a << 1 ^ (a & 0x80 ? 0x1d : 0));
}

/* Q is the sum of 2^i times data i, by Horner's rule. */
static void make(uint32_t datas, bool has_q)
{
	memset(&fold, 0, sizeof(fold));
	fold.datas = datas;
	fold.count = datas + 1 + has_q;
	for (uint32_t i = 0; i < fold.count; i++)
		fold.place[i] = META_FOLD_PLACE(i < datas ? i : META_FOLD_P + i - datas,
						META_BADDR((7 * i + 3) % 64, 1000 * i + 5));
	for (uint32_t k = 0; k < BYTES; k++) {
		for (uint32_t i = datas; i-- > 0;) {
			fold.block[i][k] = (uint8_t)rand_u64(&r);
			fold.block[datas][k] ^= fold.block[i][k];
			fold.block[datas + 1][k] =
				twice(fold.block[datas + 1][k]) ^ fold.block[i][k];
		}
	}
}

static uint64_t drive_bit(uint32_t zone)
{
	return zone == NOTHING ? 0 : 1ull << META_BADDR_DRIVE(META_FOLD_AT(fold.place[zone]));
}

/* The zones are met in any order, the wanted one as the last. */
static uint32_t solve(uint32_t wanted, uint64_t away, bool distrusts_p,
		      struct meta_fold_term term[META_FOLD_MAX])
{
	uint64_t place[META_FOLD_ZONES];
	uint32_t count = 0, turn = (uint32_t)rand_below(&r, fold.count);

	for (uint32_t i = 0; i < fold.count; i++) {
		const uint32_t zone = (i + turn) % fold.count;

		if (zone != wanted)
			place[count++] = fold.place[zone];
	}
	place[count++] = fold.place[wanted];
	return meta_fold_solve(place, count, away, distrusts_p, term);
}

static uint32_t zone_at(uint64_t at)
{
	uint32_t zone = 0;

	while (META_FOLD_AT(fold.place[zone]) != at)
		cr_assert_lt(++zone, fold.count);
	return zone;
}

/* Is this the sum of the terms, and are they as many as they must be, without these zones? */
static bool is_summed_up(uint32_t wanted, uint64_t away, bool distrusts_p)
{
	struct meta_fold_term term[META_FOLD_MAX];
	const uint32_t terms = solve(wanted, away, distrusts_p, term);
	uint8_t sum[BYTES] = { 0 };

	for (uint32_t i = 0; i < terms; i++) {
		const uint32_t zone = zone_at(term[i].at);

		if (term[i].by == 0 || zone == wanted || away & drive_bit(zone) ||
		    (distrusts_p && zone == fold.datas))
			return false;
		gf_add(sum, fold.block[zone], BYTES, term[i].by);
	}
	return terms == fold.datas && memcmp(sum, fold.block[wanted], BYTES) == 0;
}

static bool is_lost(uint32_t wanted, uint64_t away, bool distrusts_p)
{
	struct meta_fold_term term[META_FOLD_MAX];

	return solve(wanted, away, distrusts_p, term) == 0;
}

static void setup(void)
{
	rand_seed(&r, 1);
}

TestSuite(meta_fold_terms, .init = setup);

Test(meta_fold_terms, any_two_blocks_are_computed_with_both_parities)
{
	for (uint32_t datas = 2; datas <= META_FOLD_MAX; datas++) {
		make(datas, true);
		for (uint32_t a = 0; a < fold.count; a++) {
			for (uint32_t b = 0; b < fold.count; b++) {
				cr_assert(is_summed_up(a, drive_bit(a) | drive_bit(b), false),
					  "%u of %u", a, fold.datas);
				cr_assert(is_summed_up(a, drive_bit(b), false), "%u of %u", a,
					  fold.datas);
			}
			cr_assert(is_summed_up(a, 0, false), "%u of %u", a, fold.datas);
		}
	}
}

Test(meta_fold_terms, three_blocks_are_not)
{
	make(4, true);
	for (uint32_t a = 0; a < fold.count; a++)
		for (uint32_t b = 0; b < fold.count; b++)
			for (uint32_t c = b + 1; c < fold.count; c++)
				if (a != b && a != c)
					cr_assert(is_lost(a, drive_bit(b) | drive_bit(c), false),
						  "%u of %u", a, fold.datas);
}

/* P has other bytes than it should, and nobody knows: Q has to do, and without Q nothing. */
Test(meta_fold_terms, p_is_not_read_if_it_is_distrusted)
{
	for (uint32_t datas = 2; datas <= META_FOLD_MAX; datas++) {
		make(datas, true);
		for (uint32_t k = 0; k < BYTES; k++)
			fold.block[datas][k] = (uint8_t)rand_u64(&r);
		for (uint32_t a = 0; a < datas; a++) {
			cr_assert(is_summed_up(a, 0, true), "%u of %u", a, fold.datas);
			cr_assert(is_summed_up(a, drive_bit(datas), true), "%u of %u", a,
				  fold.datas);
			cr_assert(is_lost(a, drive_bit(datas + 1), true), "%u of %u", a,
				  fold.datas);
			cr_assert(is_lost(a, drive_bit((a + 1) % datas), true), "%u of %u", a,
				  fold.datas);
		}
		make(datas, false);
		for (uint32_t a = 0; a < datas; a++)
			cr_assert(is_lost(a, 0, true), "%u of %u", a, fold.datas);
	}
}

Test(meta_fold_terms, with_one_parity_all_factors_are_one)
{
	struct meta_fold_term term[META_FOLD_MAX];

	for (uint32_t datas = 2; datas <= META_FOLD_MAX; datas++) {
		make(datas, false);
		for (uint32_t a = 0; a < fold.count; a++) {
			cr_assert(is_summed_up(a, 0, false), "%u of %u", a, fold.datas);
			cr_assert_eq(solve(a, drive_bit(a), false, term), datas);
			for (uint32_t i = 0; i < datas; i++)
				cr_assert_eq(term[i].by, 1);
			cr_assert(is_lost(a, drive_bit((a + 1) % fold.count), false), "%u of %u", a,
				  fold.datas);
		}
	}
}

/* Q is not read if P will do. */
Test(meta_fold_terms, with_both_parities_one_loss_has_factors_of_one)
{
	struct meta_fold_term term[META_FOLD_MAX];

	make(7, true);
	for (uint32_t a = 0; a <= fold.datas; a++) {
		cr_assert_eq(solve(a, drive_bit(a), false, term), fold.datas);
		for (uint32_t i = 0; i < fold.datas; i++)
			cr_assert(term[i].by == 1 && zone_at(term[i].at) <= fold.datas);
	}
}

Test(meta_fold_terms, two_zones_on_one_drive_are_no_fold, .signal = SIGABRT)
{
	struct meta_fold_term term[META_FOLD_MAX];

	make(4, false);
	cr_assert_eq(solve(3, 0, false, term), 4);
	fold.place[1] = META_FOLD_PLACE(1, META_FOLD_AT(fold.place[0]) + 1);
	(void)solve(3, 0, false, term); /* ends the process */
}

Test(meta_fold_terms, two_zones_of_one_role_are_no_fold, .signal = SIGABRT)
{
	struct meta_fold_term term[META_FOLD_MAX];

	make(4, false);
	cr_assert_eq(solve(3, 0, false, term), 4);
	fold.place[1] = META_FOLD_PLACE(0, META_FOLD_AT(fold.place[1]));
	(void)solve(3, 0, false, term); /* ends the process */
}

/* ---- the ring that all cores see ------------------------------------------------------------ */

/* The fold's zones are zone 3 of each drive. */
static struct meta_twins *twins_of(void)
{
	struct meta_twins *t = calloc(1, sizeof(*t));

	atomic_store(&t->zone_blocks, ZONE_BLOCKS);
	for (uint32_t d = 0; d < META_DRIVES_MAX; d++) {
		t->drive[d].at = 50 + d;
		t->drive[d].count = ZONES;
		t->drive[d].twin = calloc(ZONES, sizeof(*t->drive[d].twin));
		t->drive[d].ring = calloc(ZONES, sizeof(*t->drive[d].ring));
	}
	for (uint32_t i = 0; i < fold.count; i++) {
		const uint32_t d = (7 * i + 3) % 64;

		fold.place[i] =
			META_FOLD_PLACE(META_FOLD_ROLE(fold.place[i]),
					META_BADDR(d, t->drive[d].at + 3 * ZONE_BLOCKS + OFFSET));
	}
	for (uint32_t i = 0; i < fold.count; i++)
		atomic_store(&t->drive[(7 * i + 3) % 64].ring[3],
			     fold.place[(i + 1) % fold.count] - OFFSET);
	return t;
}

static void free_twins(struct meta_twins *t)
{
	for (uint32_t d = 0; d < META_DRIVES_MAX; d++) {
		free(t->drive[d].twin);
		free(t->drive[d].ring);
	}
	free(t);
}

Test(meta_fold_terms, terms_are_found_by_the_ring)
{
	struct meta_fold_term term[META_FOLD_MAX], want[META_FOLD_MAX];
	uint64_t place[META_FOLD_ZONES], at;
	struct meta_twins *t;

	for (uint32_t datas = 2; datas <= META_FOLD_MAX; datas++) {
		make(datas, true);
		t = twins_of();
		for (uint32_t a = 0; a < fold.count; a++) {
			at = META_FOLD_AT(fold.place[a]);
			cr_assert_eq(meta_fold_of(t, at, place), fold.count);
			for (uint32_t i = 0; i < fold.count; i++)
				cr_assert_eq(place[i], fold.place[(a + 1 + i) % fold.count]);
			for (uint32_t b = 0; b < fold.count; b++) {
				cr_assert_eq(meta_fold_terms(t, at, drive_bit(b), false, term),
					     datas);
				cr_assert_eq(meta_fold_solve(place, fold.count, drive_bit(b), false,
							     want),
					     datas);
				for (uint32_t i = 0; i < datas; i++)
					cr_assert(term[i].at == want[i].at &&
						  term[i].by == want[i].by);
			}
			cr_assert_eq(meta_fold_of(t, at - ZONE_BLOCKS, place), 0);
			cr_assert_eq(meta_fold_terms(t, at + ZONE_BLOCKS, 0, false, term), 0);
		}
		free_twins(t);
	}
}
