/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Mount finds the folds by the headers of zones of parity.
 *
 *   header of zone 20: P, fold 57, of zone 3 in incarnation 4, and zone 9 in incarnation 6; Q is 31
 *
 *   header of zone 3 is whole   incarnation 4: it is in the fold; else it was used again since
 *   ... cannot be read          it is in the fold, unless a header with a higher number says
 *                               something else of it
 *
 *  (1) Folds are found when the pairs are (meta_pairs.c (1)), the highest numbers first.
 *      The higher number counts, of two folds as of a pair and a fold; the other one does not, as
 *      a whole.  So an earlier fold, one zone of which is in a later one, leaves the others their
 *      pairs [test_meta_fold_late:fold_that_was_given_up_leaves_pairs_alone].  A twin that a fold
 *      has freed still says what it was, and its number is lower.  One whose header cannot be read
 *      may be anything by now
 *      [test_meta_fold_late:log_is_found_in_a_zone_that_a_fold_has_freed].
 *  (2) When all trees are counted, folds in which nothing lives are dissolved, like pairs.  In the
 *      others all zones are in use, also those of data in which nothing lives
 *      [test_meta_fold:fold_is_free_when_nothing_lives_in_it].
 *  (3) A zone of data whose header is lost keeps the incarnation that the header of the parity
 *      says: that stays true when it is written again [test_meta_fold:headers_of_a_fold_are_lost].
 *  (4) A fold of two zones of parity counts if the headers of both say it, or one does and the
 *      other cannot be read.  A power cut between their writes leaves one that says it: the groups
 *      are whole then, and it does not count
 *      [test_meta_double:fold_that_is_half_named_does_not_count].
 *  (5) If it does not count for that reason, the one header is written without members before
 *      anything changes (meta_mend.c (5)).  Else a later mount that cannot read the other zone
 *      would take the fold, though some of its zones have become free meanwhile
 *      [test_meta_double:fold_that_is_half_named_does_not_count].  So may the other zone have
 *      been: a fold that was given up left it to others before the power was cut
 *      [test_meta_double:fold_does_not_count_whose_other_parity_is_something_else].
 */
#include "meta/engine/meta_fold.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int meta__folds_take(struct meta *m, const struct meta__zone_seen *seen)
{
	struct meta__boot *b = m->boot;

	ASSERT(b->fold_count <= b->fold_max);
	ASSERT(seen->kind == META__ZONE_PARITY);
	if (seen->members == 0)
		return 0; /* it was not made */
	if (b->fold_count == b->fold_max) {
		const uint32_t max = 2 * b->fold_max + 64;
		struct meta__zone_seen *more = realloc(b->fold, max * sizeof(*more));

		if (!more)
			return -ENOMEM;
		b->fold = more;
		b->fold_max = max;
	}
	b->fold[b->fold_count++] = *seen;
	return 0;
}

static bool may_be(const struct meta *m, const struct meta__zone_seen *f, uint32_t i)
{
	const struct meta__boot *b = m->boot;
	const uint32_t zone = f->member[i];

	ASSERT(i < f->members);
	ASSERT(!m->mounted);
	if (zone >= b->geo.nzones || !meta__geo_zone_there(&b->geo, zone) ||
	    meta__geo_zone_roots(&b->geo, zone))
		return false;
	return meta__head_unknown(m, zone) ||
	       (b->head_kind[zone] == META__ZONE_DATA &&
		meta__zone_at(m, zone)->incarnation == f->member_incarnation[i]);
}

/* (4) Can the other zone of parity be that of this fold? */
static bool other_agrees(const struct meta *m, const struct meta__zone_seen *f)
{
	const struct meta__boot *b = m->boot;
	const uint32_t other = f->twin - 1;
	uint32_t i = (uint32_t)(f - b->fold);

	ASSERT(f->twin > 0 && f >= b->fold && f < b->fold + b->fold_count);
	if (other >= b->geo.nzones || !meta__geo_zone_there(&b->geo, other) ||
	    meta__geo_zone_roots(&b->geo, other))
		return false;
	if (meta__head_unknown(m, other))
		return true;
	while (i > 0 && b->fold[i - 1].pair == f->pair)
		i--;
	while (i < b->fold_count && b->fold[i].pair == f->pair && b->fold[i].zone != other)
		i++;
	return i < b->fold_count && b->fold[i].pair == f->pair &&
	       meta__parity_agrees(f, &b->fold[i]);
}

/* (5) The other zone of parity can be read, and does not say this fold, which is as it was. */
static bool is_half_named(const struct meta *m, const struct meta__zone_seen *f)
{
	const struct meta__boot *b = m->boot;
	const uint32_t other = f->twin - 1;
	bool may = true;

	ASSERT(f->members > 0);
	if (!f->twin || other >= b->geo.nzones || meta__head_unknown(m, other) ||
	    other_agrees(m, f))
		return false;
	for (uint32_t i = 0; may && i < f->members; i++)
		may = may_be(m, f, i);
	return may;
}

/* Does the header say of itself, of another drive each, what may be? */
static bool is_sane(const struct meta *m, const struct meta__zone_seen *f)
{
	const struct meta__geo *g = &m->boot->geo;
	uint64_t drives = 1ull << META_BADDR_DRIVE(meta__geo_zone_baddr(g, f->zone));

	ASSERT(f->members >= META__FOLD_MIN && f->members <= META_FOLD_MAX);
	ASSERT(f->kind == META__ZONE_PARITY);
	if (meta__geo_zone_roots(g, f->zone) || meta__fold_parities(m) != (f->twin ? 2u : 1u) ||
	    (f->twin && !other_agrees(m, f)))
		return false;
	if (f->twin) {
		const uint32_t d = META_BADDR_DRIVE(meta__geo_zone_baddr(g, f->twin - 1));

		if (drives >> d & 1)
			return false;
		drives |= 1ull << d;
	}
	for (uint32_t i = 0; i < f->members; i++) {
		uint32_t d;

		if (!may_be(m, f, i))
			return false;
		d = META_BADDR_DRIVE(meta__geo_zone_baddr(g, f->member[i]));
		if (drives >> d & 1)
			return false;
		drives |= 1ull << d;
	}
	return true;
}

/* Does a pair or a fold with a higher number have the zone?  Folds are taken in order (1). */
static bool is_newer(const struct meta *m, uint32_t zone, uint64_t number)
{
	const struct meta__zone *at = meta__zone_at(m, zone);

	ASSERT(number > 0);
	ASSERT(!m->zones->counted); /* (1) */
	return meta__in_fold(at) || (at->twin && at->pair > number);
}

static void leave_older(struct meta *m, uint32_t zone)
{
	ASSERT(!m->zones->counted); /* (1) */
	meta__pair_forget(m, zone);
	ASSERT(!meta__in_fold(meta__zone_at(m, zone))); /* (1) */
}

/* If its header cannot be read, the zone was something else in an earlier life. */
static void forget_kind(struct meta *m, uint32_t zone)
{
	ASSERT(zone < m->boot->geo.nzones);
	if (meta__head_unknown(m, zone) && m->boot->head_kind[zone] != META__ZONE_ROOT)
		m->boot->head_kind[zone] = HEAD_LOST;
}

static void take(struct meta *m, const struct meta__zone_seen *f)
{
	ASSERT(f->members >= META__FOLD_MIN);
	m->zones->pair_last = max_u64(m->zones->pair_last, f->pair);
	if (!is_sane(m, f) || is_newer(m, f->zone, f->pair) ||
	    (f->twin && is_newer(m, f->twin - 1, f->pair)))
		return;
	for (uint32_t i = 0; i < f->members; i++)
		if (is_newer(m, f->member[i], f->pair))
			return;
	leave_older(m, f->zone);
	if (f->twin) {
		leave_older(m, f->twin - 1);
		forget_kind(m, f->twin - 1);
	}
	for (uint32_t i = 0; i < f->members; i++) {
		leave_older(m, f->member[i]);
		meta__zone_at(m, f->member[i])->incarnation = f->member_incarnation[i]; /* (3) */
		forget_kind(m, f->member[i]);
	}
	meta__fold_make(m, f);
}

static int by_number(const void *a, const void *b)
{
	const struct meta__zone_seen *x = a, *y = b;

	return x->pair > y->pair ? -1 : x->pair < y->pair;
}

void meta__folds_find(struct meta *m)
{
	struct meta__boot *b = m->boot;

	ASSERT(m->copies > 1 && !m->zones->counted); /* (1) */
	if (b->fold_count)
		qsort(b->fold, b->fold_count, sizeof(*b->fold), by_number);
	for (uint32_t i = 0; i < b->fold_count; i++) {
		take(m, &b->fold[i]);
		if (is_half_named(m, &b->fold[i]) &&
		    !meta__head_unknown(m, b->fold[i].zone)) /* (5) */
			meta__mend_unname(m, b->fold[i].zone);
	}
}

/* (2) */
void meta__folds_settle(struct meta *m)
{
	ASSERT(!m->zones->counted);
	for (uint32_t i = 0; i < m->zones->geo.nzones; i++) {
		const struct meta__zone *at = meta__zone_at(m, i);
		uint32_t parity[META_FOLD_PARITIES];

		if (!at->parity || at->state != ZONE_FREE)
			continue;
		ASSERT(meta__fold_live(m, i) == 0); /* (2) */
		(void)meta__fold_end(m, i, parity);
	}
}
