/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The folds of an unmounted store (FORMAT.md 2.7): blocks that the first place has lost, from the
 * others of their fold (meta_fold_terms.c).
 *
 *   header of zone 20: P, fold 57, of zone 3 in incarnation 4, and zone 9 in incarnation 6; Q is 31
 *
 *  (1) As at a mount (meta_folds.c): those with the highest numbers first, each zone of data in the
 *      incarnation that the parity's header says, or with a header that cannot be read; a higher
 *      number, of a pair or a fold, counts [test_meta_raw_fold:all_is_found_without_any_drive].
 *      The headers of P and Q say the same, or one of them cannot be read.
 *  (2) Only bytes that match the checksum in the index are given out
 *      [test_meta_raw_fold:all_is_found_without_any_drive].
 */
#include "base/gf.h"
#include "meta/meta_twins.h"
#include "meta/offline/meta_raw_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint32_t drive_of(const struct meta_raw *r, uint32_t zone)
{
	ASSERT(zone < r->geo.nzones);
	return META_BADDR_DRIVE(meta__geo_zone_baddr(&r->geo, zone));
}

static bool may_be(const struct meta_raw *r, const struct meta__zone_seen *f, uint32_t i)
{
	const uint32_t zone = f->member[i];
	const struct meta__zone_seen *z = zone < r->geo.nzones ? meta__raw_zone(r, zone) : NULL;

	ASSERT(i < f->members);
	ASSERT(f->pair > 0);
	if (zone >= r->geo.nzones || !meta__geo_zone_there(&r->geo, zone) ||
	    meta__geo_zone_roots(&r->geo, zone) || r->zone[zone].pair > f->pair ||
	    r->zone[zone].fold)
		return false;
	return !z || (z->kind == META__ZONE_DATA && z->incarnation == f->member_incarnation[i]);
}

/* Can this zone be the other one of the parity? */
static bool may_be_other(const struct meta_raw *r, const struct meta__zone_seen *f, uint32_t zone)
{
	const struct meta__zone_seen *z = zone < r->geo.nzones ? meta__raw_zone(r, zone) : NULL;

	ASSERT(f->members > 0 && zone != f->zone);
	if (zone >= r->geo.nzones || !meta__geo_zone_there(&r->geo, zone) ||
	    meta__geo_zone_roots(&r->geo, zone) || r->zone[zone].pair > f->pair ||
	    r->zone[zone].fold)
		return false;
	return !z || meta__parity_agrees(f, z);
}

static void join(struct meta_raw *r, const struct meta__zone_seen *f, uint32_t zone)
{
	struct meta__raw_zone *z = &r->zone[zone];

	meta__raw_group_end(r, zone);
	ASSERT(z->fold == 0); /* (1) */
	ASSERT(zone < r->geo.nzones);
	z->fold = (f->role ? f->twin - 1 : f->zone) + 1;
	z->says = f->zone;
	z->is_second = f->twin > 0 && zone == (f->role ? f->zone : f->twin - 1);
}

/* (1) */
static void take(struct meta_raw *r, const struct meta__zone_seen *f)
{
	uint64_t drives = 1ull << drive_of(r, f->zone);

	ASSERT(f->kind == META__ZONE_PARITY && f->members <= META_FOLD_MAX);
	if (r->zone[f->zone].pair > f->pair || r->zone[f->zone].fold ||
	    meta__geo_zone_roots(&r->geo, f->zone) || r->m.copies != (f->twin ? 3u : 2u))
		return;
	if (f->twin) {
		if (!may_be_other(r, f, f->twin - 1) || drives >> drive_of(r, f->twin - 1) & 1)
			return;
		drives |= 1ull << drive_of(r, f->twin - 1);
	}
	for (uint32_t i = 0; i < f->members; i++) {
		if (!may_be(r, f, i) || drives >> drive_of(r, f->member[i]) & 1)
			return;
		drives |= 1ull << drive_of(r, f->member[i]);
	}
	join(r, f, f->zone);
	if (f->twin)
		join(r, f, f->twin - 1);
	for (uint32_t i = 0; i < f->members; i++)
		join(r, f, f->member[i]);
	ASSERT(f->members >= META__FOLD_MIN);
}

static int by_number(const void *a, const void *b)
{
	const struct meta__zone_seen *x = *(const struct meta__zone_seen *const *)a;
	const struct meta__zone_seen *y = *(const struct meta__zone_seen *const *)b;

	return x->pair > y->pair ? -1 : x->pair < y->pair;
}

int meta__raw_folds_find(struct meta_raw *r)
{
	const struct meta__zone_seen **f;
	uint32_t count = 0;

	ASSERT(r->zone);
	if (r->m.fold == 0)
		return 0;
	f = calloc(r->geo.nzones, sizeof(const struct meta__zone_seen *));
	if (!f)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->geo.nzones; i++) {
		const struct meta__zone_seen *z = meta__raw_zone(r, i);

		if (z && z->kind == META__ZONE_PARITY && z->members)
			f[count++] = z;
	}
	if (count)
		qsort(f, count, sizeof(const struct meta__zone_seen *), by_number);
	for (uint32_t i = 0; i < count; i++)
		take(r, f[i]);
	free(f);
	return 0;
}

uint32_t meta__raw_parity(const struct meta_raw *r, uint32_t zone)
{
	ASSERT(zone < r->geo.nzones);
	return r->zone[zone].fold - 1; /* 0: META__ZONE_NONE */
}

/* Adds a term to the block.  False: it cannot be read. */
static bool add(struct meta_raw *r, const struct meta_fold_term *term, void *block)
{
	uint8_t *bytes = aligned_alloc(META__BLOCK, META__BLOCK);
	const bool is = bytes && r->drive_at[META_BADDR_DRIVE(term->at)] != META__RAW_NOWHERE &&
			meta__raw_read(r, term->at, 1, bytes) == 0;

	ASSERT(term->by > 0);
	ASSERT(block);
	if (is)
		gf_add(block, bytes, META__BLOCK, term->by);
	free(bytes);
	return is;
}

static uint64_t place_of(const struct meta_raw *r, uint32_t role, uint32_t zone, uint64_t offset)
{
	ASSERT(role < META_FOLD_MAX || role == META_FOLD_P || role == META_FOLD_Q);
	ASSERT(zone < r->geo.nzones && offset < r->geo.zone_end);
	return META_FOLD_PLACE(role, meta__geo_zone_baddr(&r->geo, zone) + offset);
}

/* The places at this offset, of the parity first, and of the zone last.  Returns how many. */
static uint32_t places_of(const struct meta_raw *r, const struct meta__zone_seen *f, uint32_t zone,
			  uint64_t offset, uint64_t place[META_FOLD_ZONES])
{
	uint32_t count = 0, role = META_FOLD_MAX;

	ASSERT(offset > 0 && offset < r->geo.zone_end);
	place[count++] = place_of(r, META_FOLD_P, f->role ? f->twin - 1 : f->zone, offset);
	if (f->twin)
		place[count++] = place_of(r, META_FOLD_Q, f->role ? f->zone : f->twin - 1, offset);
	for (uint32_t i = 0; i < f->members; i++) {
		if (f->member[i] == zone)
			role = i;
		else
			place[count++] = place_of(r, i, f->member[i], offset);
	}
	ASSERT(role < f->members); /* (1) */
	place[count++] = place_of(r, role, zone, offset);
	return count;
}

/* Adds up terms.  Returns which cannot be read; `terms`: all were. */
static uint32_t add_all(struct meta_raw *r, const struct meta_fold_term *term, uint32_t terms,
			void *block)
{
	uint32_t i = 0;

	ASSERT(terms > 0 && terms <= META_FOLD_MAX);
	ASSERT(block);
	memset(block, 0, META__BLOCK);
	while (i < terms && add(r, &term[i], block))
		i++;
	return i;
}

static const char *term_why(const uint64_t *place, uint64_t at)
{
	const bool parity =
		at == META_FOLD_AT(place[0]) ||
		(META_FOLD_ROLE(place[1]) == META_FOLD_Q && at == META_FOLD_AT(place[1]));

	ASSERT(META_FOLD_ROLE(place[0]) == META_FOLD_P);
	return parity ? "the parity of its fold cannot be read"
		      : "another zone of its fold cannot be read";
}

/* Sums up the block at the last of these places: not from these drives, and without each other on
 * which a term cannot be read.  Returns why it cannot be had, or NULL. */
static const char *sum_up(struct meta_raw *r, const uint64_t *place, uint32_t count, uint64_t away,
			  uint32_t crc, void *block)
{
	struct meta_fold_term term[META_FOLD_MAX];
	const char *why = "too many zones of its fold are missing";
	uint32_t terms, i;

	ASSERT(count > META__FOLD_MIN);
	ASSERT(META_FOLD_ROLE(place[count - 1]) < META_FOLD_MAX);
	while ((terms = meta_fold_solve(place, count, away, false, term)) > 0) {
		i = add_all(r, term, terms, block);
		if (i == terms) /* (2) */
			return crc32c(block, META__BLOCK) == crc
				       ? NULL
				       : "the sum of its fold does not match its checksum";
		why = term_why(place, term[i].at);
		ASSERT(!(away >> META_BADDR_DRIVE(term[i].at) & 1)); /* meta_fold_terms.c (2) */
		away |= 1ull << META_BADDR_DRIVE(term[i].at);
	}
	return why;
}

/* Fills in the places of a block's fold.  Returns how many; 0: it is in none. */
static uint32_t places_at(const struct meta_raw *r, uint64_t baddr, uint64_t place[META_FOLD_ZONES])
{
	const uint32_t zone = meta__geo_zone_of(&r->geo, baddr);
	const struct meta__zone_seen *f = zone == META__ZONE_NONE || r->zone[zone].fold == 0 ||
							  meta__raw_parity(r, zone) == zone ||
							  r->zone[zone].is_second
						  ? NULL
						  : meta__raw_zone(r, r->zone[zone].says);
	const uint64_t offset = f ? baddr - meta__geo_zone_baddr(&r->geo, zone) : 0;

	if (!f || offset == 0 || offset >= r->geo.zone_end)
		return 0;
	ASSERT(f->members > 0);
	return places_of(r, f, zone, offset, place);
}

const char *meta__raw_fold_block(struct meta_raw *r, uint64_t baddr, uint32_t crc, void *block)
{
	uint64_t place[META_FOLD_ZONES];
	const uint32_t count = places_at(r, baddr, place);
	const char *why;

	ASSERT(block);
	if (count == 0)
		return "it is in no fold";
	why = sum_up(r, place, count, 0, crc, block);
	for (uint32_t i = 0; why && i + 1 < count; i++) /* one of them may have other bytes */
		if (!sum_up(r, place, count, 1ull << META_BADDR_DRIVE(META_FOLD_AT(place[i])), crc,
			    block))
			return NULL;
	return why;
}

uint32_t meta__raw_fold_ways(const struct meta_raw *r, uint64_t baddr,
			     uint64_t at[META_FOLD_PARITIES])
{
	uint64_t place[META_FOLD_ZONES];
	const uint32_t count = places_at(r, baddr, place);
	uint32_t ways = 0;

	ASSERT(count <= META_FOLD_ZONES);
	ASSERT(count == 0 || META_FOLD_ROLE(place[0]) == META_FOLD_P);
	for (; ways < count && META_FOLD_ROLE(place[ways]) >= META_FOLD_MAX; ways++)
		at[ways] = META_FOLD_AT(place[ways]);
	return ways;
}

const char *meta__raw_fold_way(struct meta_raw *r, uint64_t baddr, uint32_t way, uint32_t crc,
			       void *block)
{
	uint64_t place[META_FOLD_ZONES], at[META_FOLD_PARITIES], away = 0;
	const uint32_t count = places_at(r, baddr, place);
	struct meta_fold_term term[META_FOLD_MAX];
	const uint32_t ways = meta__raw_fold_ways(r, baddr, at);
	uint32_t terms, i;

	ASSERT(way < ways);
	ASSERT(block && count > ways);
	for (i = 0; i < ways; i++)
		away |= i == way ? 0 : 1ull << META_BADDR_DRIVE(at[i]);
	terms = meta_fold_solve(place, count, away, false, term);
	ASSERT(terms > 0); /* the other parity alone is left out */
	i = add_all(r, term, terms, block);
	if (i < terms)
		return term_why(place, term[i].at);
	return crc32c(block, META__BLOCK) == crc
		       ? NULL
		       : "the sum of its fold does not match its checksum"; /* (2) */
}
