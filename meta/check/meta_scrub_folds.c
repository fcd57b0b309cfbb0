/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The scrub checks the parity of folds (meta_fold.c) at the end of a round.
 *
 *   each zone of a fold: a piece --> both sums are zero ------> the next piece, the next fold
 *                                       | not, FAILS times
 *                                       v
 *                       `unlike`: collection moves the fold's live data --> reported
 *
 * Sum 0 is that of data and P; sum 1, in folds that have Q, that of data with other factors and Q
 * (meta_fold_terms.c).
 *
 *  (1) Nothing is written in place: whether the parity is wrong, or a block of data that nothing
 *      else names, no checksum says.  The fold's live data is moved, with its checksums, and the
 *      fold ends [test_meta_fold:parity_that_rots_is_found_and_what_it_protects_moves].
 *  (2) A fold that ended while it was read is no damage: its number says whether it is the same
 *      [test_meta_fold:parity_that_rots_is_found_and_what_it_protects_moves].
 *  (3) Folds with a zone on a drive that cannot be reached are not looked at [e2e_fold].
 */
#include "base/gf.h"
#include "meta/check/meta_scrub.h"
#include "meta/engine/meta_fold.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAILS 3u
#define PIECE 64u /* blocks */

int meta__scrub_folds_init(struct meta_scrub *s)
{
	ASSERT(!s->folds.sum[0]);
	s->folds.sum[0] = aligned_alloc(64, 2 * (size_t)PIECE * BLOCK_SIZE);
	if (!s->folds.sum[0])
		return -1;
	s->folds.sum[1] = s->folds.sum[0] + (size_t)PIECE * BLOCK_SIZE;
	return 0;
}

void meta__scrub_folds_fini(struct meta_scrub *s)
{
	ASSERT(!s->m->scrub || s->m->scrub == s);
	ASSERT(s->folds.count <= META_FOLD_ZONES);
	free(s->folds.sum[0]);
}

void meta__scrub_folds_begin(struct meta_scrub *s)
{
	struct meta__scrub_folds *f = &s->folds;

	ASSERT(!f->reading);
	ASSERT(f->sum[0]);
	f->done = s->m->zones->folds == 0;
	f->zone = 0;
	f->count = 0;
}

static void next_fold(struct meta__scrub_folds *f)
{
	ASSERT(!f->reading && !f->done);
	f->zone++;
	f->count = 0;
}

/* (2), (3) */
static bool is_looked_at(const struct meta_scrub *s)
{
	const struct meta__scrub_folds *f = &s->folds;
	const struct meta__zone *at = meta__zone_at(s->m, f->zone);

	ASSERT(f->count <= META_FOLD_ZONES && !f->done);
	if (at->parity != META__PARITY_P || !meta__fold_reads(s->m, f->zone) ||
	    meta__zone_at(s->m, meta__pair_first(s->m, f->zone))->unlike)
		return false;
	for (uint32_t i = 0; i < f->count; i++) {
		const uint64_t baddr = meta__geo_zone_baddr(&s->m->zones->geo, f->of[i]);

		if (s->unreachable >> META_BADDR_DRIVE(baddr) & 1)
			return false;
	}
	return f->count == 0 || at->pair == f->pair;
}

enum meta_scrub_next meta__scrub_folds_step(struct meta_scrub *s)
{
	struct meta__scrub_folds *f = &s->folds;
	const struct meta__geo *g = &s->m->zones->geo;
	const struct meta__zone *at;

	ASSERT(!f->done && !f->reading);
	ASSERT(s->in_round && !s->reading);
	if (f->zone >= g->nzones) {
		f->done = true;
		return META_SCRUB_MORE;
	}
	if (!is_looked_at(s)) {
		next_fold(f);
		return META_SCRUB_MORE;
	}
	at = meta__zone_at(s->m, f->zone);
	if (f->count == 0) {
		f->count = meta__fold_members(s->m, f->zone, f->of);
		f->members = f->count;
		f->of[f->count++] = f->zone;
		if (meta__fold_parities(s->m) > 1) /* meta_fold.c (7) */
			f->of[f->count++] = at->next - 1;
		f->pair = at->pair;
		f->at = 1;
		f->part = f->fails = 0;
		return META_SCRUB_MORE; /* (3) */
	}
	ASSERT(f->part < f->count && f->fails < FAILS);
	ASSERT(f->at >= 1 && f->at < g->zone_end);
	s->run = (struct meta_run){
		.baddr = meta__geo_zone_baddr(g, f->of[f->part]) + f->at,
		.nblocks = min_u32(PIECE, g->zone_end - f->at),
	};
	f->reading = true;
	return META_SCRUB_READ;
}

/* (1) */
static void is_wrong(struct meta_scrub *s, uint32_t parity)
{
	struct meta__scrub_folds *f = &s->folds;
	const uint64_t baddr = meta__geo_zone_baddr(&s->m->zones->geo, parity);

	ASSERT(!f->reading && f->count > META__FOLD_MIN);
	ASSERT(f->fails < FAILS);
	f->part = 0;
	if (++f->fails < FAILS)
		return;
	ASSERT(!s->has_line);
	(void)snprintf(s->line, sizeof(s->line),
		       "drive %u: the parity in zone %u, from block %llu on, is not that of the "
		       "other zones of its fold, or cannot be read: its data is moved",
		       META_BADDR_DRIVE(baddr), parity,
		       (unsigned long long)META_BADDR_BLOCK(baddr) + f->at);
	s->has_line = true;
	meta__fold_spoilt(s->m, f->zone);
	meta__gc_look_drains(s->m);
	next_fold(f);
}

static bool is_zero(const uint8_t *bytes, size_t size_bytes)
{
	ASSERT(size_bytes >= BLOCK_SIZE);
	return bytes[0] == 0 && memcmp(bytes, bytes + 1, size_bytes - 1) == 0;
}

/* Adds a piece of the zone that was read to both sums. */
static void sum_up(struct meta__scrub_folds *f, const void *bytes, size_t size)
{
	ASSERT(f->part < f->count && f->members >= META__FOLD_MIN);
	for (uint32_t i = 0; f->part == 0 && i < f->count - f->members; i++)
		memset(f->sum[i], 0, size);
	if (f->part <= f->members)
		xor_into(f->sum[0], bytes, size);
	if (f->count == f->members + 1)
		return; /* there is no Q */
	if (f->part < f->members)
		gf_add(f->sum[1], bytes, size, gf_power(f->part));
	else if (f->part > f->members)
		xor_into(f->sum[1], bytes, size);
}

void meta__scrub_fold_done(struct meta_scrub *s, const void *bytes, int status)
{
	struct meta__scrub_folds *f = &s->folds;
	const size_t size = (size_t)s->run.nblocks * BLOCK_SIZE;

	ASSERT(f->reading && s->m->mounted);
	ASSERT(f->part < f->count && s->run.nblocks <= PIECE);
	f->reading = false;
	if (!is_looked_at(s) || status == -EAGAIN) {
		next_fold(f); /* (2) */
		return;
	}
	if (status) {
		is_wrong(s, f->of[max_u32(f->part, f->members)]);
		return;
	}
	sum_up(f, bytes, size);
	if (++f->part < f->count)
		return;
	f->part = 0;
	for (uint32_t i = 0; i < f->count - f->members; i++)
		if (!is_zero(f->sum[i], size)) {
			is_wrong(s, f->of[f->members + i]);
			return;
		}
	f->fails = 0;
	f->at += s->run.nblocks;
	if (f->at == s->m->zones->geo.zone_end)
		next_fold(f);
}
