/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The folds of an unmounted store (FORMAT.md 2.7): blocks that the first place has lost, from the
 * others of their fold (meta_fold_terms.c).
 *
 *   header of zone 20: parity, fold 57, of zone 3 in incarnation 4, and zone 9 in incarnation 6
 *
 *  (1) As at a mount (meta_folds.c): those with the highest numbers first, each zone of data in the
 *      incarnation that the parity's header says, or with a header that cannot be read; a higher
 *      number, of a pair or a fold, counts [test_meta_raw_fold:all_is_found_without_any_drive].
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

static void leave(struct meta_raw *r, uint32_t zone)
{
	const struct meta__raw_zone *z = &r->zone[zone];

	ASSERT(zone < r->geo.nzones);
	meta__raw_group_end(r, zone);
	ASSERT(z->pair == 0 && z->fold == 0); /* (1) */
}

/* (1) */
static void take(struct meta_raw *r, const struct meta__zone_seen *f)
{
	uint64_t drives = 1ull << drive_of(r, f->zone);

	ASSERT(f->kind == META__ZONE_PARITY && f->members <= META_FOLD_MAX);
	if (r->zone[f->zone].pair > f->pair || r->zone[f->zone].fold ||
	    meta__geo_zone_roots(&r->geo, f->zone))
		return;
	for (uint32_t i = 0; i < f->members; i++) {
		if (!may_be(r, f, i) || drives >> drive_of(r, f->member[i]) & 1)
			return;
		drives |= 1ull << drive_of(r, f->member[i]);
	}
	leave(r, f->zone);
	r->zone[f->zone].fold = f->zone + 1;
	for (uint32_t i = 0; i < f->members; i++) {
		leave(r, f->member[i]);
		r->zone[f->member[i]].fold = f->zone + 1;
	}
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

/* The places at this offset, of the parity first, and of the zone last.  Returns how many. */
static uint32_t places_of(const struct meta_raw *r, const struct meta__zone_seen *f, uint32_t zone,
			  uint64_t offset, uint64_t place[META_FOLD_ZONES])
{
	uint32_t count = 0, role = META_FOLD_MAX;

	ASSERT(offset > 0 && offset < r->geo.zone_end);
	place[count++] =
		META_FOLD_PLACE(META_FOLD_P, meta__geo_zone_baddr(&r->geo, f->zone) + offset);
	for (uint32_t i = 0; i < f->members; i++) {
		if (f->member[i] == zone)
			role = i;
		else
			place[count++] = META_FOLD_PLACE(
				i, meta__geo_zone_baddr(&r->geo, f->member[i]) + offset);
	}
	ASSERT(role < f->members && count == f->members); /* (1) */
	place[count++] = META_FOLD_PLACE(role, meta__geo_zone_baddr(&r->geo, zone) + offset);
	return count;
}

/* Sums up the block at the last of these places: without each drive on which a term cannot be
 * read.  Returns why it cannot be had, or NULL. */
static const char *sum_up(struct meta_raw *r, const uint64_t *place, uint32_t count, void *block)
{
	struct meta_fold_term term[META_FOLD_MAX];
	const char *why = NULL;
	uint64_t away = 0;
	uint32_t terms, i;

	ASSERT(count > META__FOLD_MIN && META_FOLD_ROLE(place[0]) == META_FOLD_P);
	while ((terms = meta_fold_solve(place, count, away, false, term)) > 0) {
		memset(block, 0, META__BLOCK);
		for (i = 0; i < terms && add(r, &term[i], block); i++)
			;
		if (i == terms)
			return NULL;
		why = term[i].at == META_FOLD_AT(place[0])
			      ? "the parity of its fold cannot be read"
			      : "another zone of its fold cannot be read";
		ASSERT(!(away >> META_BADDR_DRIVE(term[i].at) & 1)); /* meta_fold_terms.c (2) */
		away |= 1ull << META_BADDR_DRIVE(term[i].at);
	}
	return why;
}

const char *meta__raw_fold_block(struct meta_raw *r, uint64_t baddr, uint32_t crc, void *block)
{
	const uint32_t zone = meta__geo_zone_of(&r->geo, baddr);
	const uint32_t parity = zone == META__ZONE_NONE ? zone : meta__raw_parity(r, zone);
	const struct meta__zone_seen *f =
		parity == META__ZONE_NONE ? NULL : meta__raw_zone(r, parity);
	const uint64_t offset = f ? baddr - meta__geo_zone_baddr(&r->geo, zone) : 0;
	uint64_t place[META_FOLD_ZONES];
	const char *why;

	if (!f || offset == 0 || offset >= r->geo.zone_end)
		return "it is in no fold";
	ASSERT(f->members > 0 && zone != parity);
	ASSERT(block);
	why = sum_up(r, place, places_of(r, f, zone, offset, place), block);
	if (why)
		return why;
	return crc32c(block, META__BLOCK) == crc
		       ? NULL
		       : "the sum of its fold does not match its checksum"; /* (2) */
}
