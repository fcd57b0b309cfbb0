/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The scrub checks the parity of folds (meta_fold.c) at the end of a round.
 *
 *   each zone of a fold: a piece --> the sum of all is zero --> the next piece, the next fold
 *                                       | not, FAILS times
 *                                       v
 *                       `unlike`: collection moves the fold's live data --> reported
 *
 *  (1) Nothing is written in place: whether the parity is wrong, or a block of data that nothing
 *      else names, no checksum says.  The fold's live data is moved, with its checksums, and the
 *      fold ends [test_meta_fold:parity_that_rots_is_found_and_what_it_protects_moves].
 *  (2) A fold that ended while it was read is no damage: its number says whether it is the same
 *      [test_meta_fold:parity_that_rots_is_found_and_what_it_protects_moves].
 *  (3) Folds with a zone on a drive that cannot be reached are not looked at [e2e_fold].
 */
#include "base/xor.h"
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
	ASSERT(!s->folds.sum);
	s->folds.sum = aligned_alloc(64, (size_t)PIECE * BLOCK_SIZE);
	return s->folds.sum ? 0 : -1;
}

void meta__scrub_folds_fini(struct meta_scrub *s)
{
	ASSERT(!s->m->scrub || s->m->scrub == s);
	ASSERT(s->folds.count <= META_FOLD_MAX + 1);
	free(s->folds.sum);
}

void meta__scrub_folds_begin(struct meta_scrub *s)
{
	struct meta__scrub_folds *f = &s->folds;

	ASSERT(!f->reading);
	ASSERT(f->sum);
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

	ASSERT(f->count <= META_FOLD_MAX + 1 && !f->done);
	if (!at->parity || !meta__fold_reads(s->m, f->zone) ||
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
	if (f->count == 0) {
		f->count = meta__fold_members(s->m, f->zone, f->of);
		f->of[f->count++] = f->zone;
		f->pair = meta__zone_at(s->m, f->zone)->pair;
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
static void is_wrong(struct meta_scrub *s)
{
	struct meta__scrub_folds *f = &s->folds;
	const uint64_t baddr = meta__geo_zone_baddr(&s->m->zones->geo, f->zone);

	ASSERT(!f->reading && f->count > META__FOLD_MIN);
	ASSERT(f->fails < FAILS);
	f->part = 0;
	if (++f->fails < FAILS)
		return;
	ASSERT(!s->has_line);
	(void)snprintf(s->line, sizeof(s->line),
		       "drive %u: the parity in zone %u, from block %llu on, is not that of the "
		       "other zones of its fold, or cannot be read: its data is moved",
		       META_BADDR_DRIVE(baddr), f->zone,
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
		is_wrong(s);
		return;
	}
	if (f->part == 0)
		memcpy(f->sum, bytes, size);
	else
		xor_into(f->sum, bytes, size);
	if (++f->part < f->count)
		return;
	f->part = 0;
	if (!is_zero(f->sum, size)) {
		is_wrong(s);
		return;
	}
	f->fails = 0;
	f->at += s->run.nblocks;
	if (f->at == s->m->zones->geo.zone_end)
		next_fold(f);
}
