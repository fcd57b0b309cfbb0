/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The scrub mends a copy of a block or page that is damaged, from another copy; and a block of a
 * fold (meta_fold.c) from the terms that it is the sum of, which are read one after the other.
 *
 *   a copy is damaged,  --> HEAL_OTHER --> HEAL_READING --good--> HEAL_WRITE --> HEAL_WRITING
 *   twice in a row     ^    another copy is read                   over the damaged one
 *        ^             '--- the next term -----+                                  |
 *        |             '--- bad: the next copy, or other terms                    |
 *        +-------------------------------------+ all bad: the damage is recorded  |
 *        +---- read again, and found to be good <---------------------------------+
 *
 *  (1) The damaged place is written in place, the only one of this store that is: with the bytes
 *      that the index says were there.  If the power fails meanwhile the place is undefined, as it
 *      was before, and the other copies are not touched
 *      [test_meta_heal:power_cut_while_a_copy_is_mended].
 *  (2) From the read that found the damage to the end of the write no zone is reused that the tree
 *      named before that read (a read epoch is held): so nobody else writes there
 *      [test_meta_heal:files_that_come_and_go_meanwhile].
 *  (3) A place is mended once a round: if it is damaged again it is recorded as damage
 *      [test_meta_heal:place_that_stays_damaged_is_named].
 *  (4) Other terms leave out one drive of the fold each time, as far as the fold has enough parity:
 *      one of the terms may be damaged, too
 *      [test_meta_double:blocks_that_rot_beside_each_other_are_mended].
 */
#include "meta/check/meta_scrub.h"
#include "meta/engine/meta_fold.h"
#include "base/gf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int meta__heal_init(struct meta_scrub *s)
{
	ASSERT(!s->heal.bytes && s->heal.stage == HEAL_NONE);
	s->heal.bytes = aligned_alloc(8, META_PAGE_BYTES);
	return s->heal.bytes ? 0 : -1;
}

void meta__heal_fini(struct meta_scrub *s)
{
	meta__heal_let_go(s);
	free(s->heal.bytes);
}

bool meta__heal_reaches(const struct meta_scrub *s, uint64_t baddr)
{
	const uint32_t drive = META_BADDR_DRIVE(baddr);

	ASSERT(drive < META_DRIVES_MAX);
	if (s->unreachable >> drive & 1)
		return false;
	return s->m->copies < 2 || meta__drive_reads(s->m, drive);
}

uint64_t meta__heal_copy(const struct meta_scrub *s, uint64_t baddr, uint32_t n)
{
	uint64_t at = baddr;

	ASSERT(n < META_COPIES_MAX);
	for (uint32_t i = 0; at && i < n; i++) {
		at = meta__twin_baddr(s->m, at);
		if (at == baddr)
			return 0;
		/* meta_pair.c (1) */
		ASSERT(!at || META_BADDR_DRIVE(at) != META_BADDR_DRIVE(baddr));
	}
	return at;
}

uint64_t meta__heal_next(const struct meta_scrub *s, uint64_t baddr, uint64_t end)
{
	uint64_t at = meta__twin_baddr(s->m, baddr);

	ASSERT(end != 0);
	while (at && at != end && !meta__heal_reaches(s, at))
		at = meta__twin_baddr(s->m, at);
	return at == end ? 0 : at;
}

uint64_t meta__heal_other(const struct meta_scrub *s, uint64_t baddr)
{
	ASSERT(baddr != 0);
	return meta__heal_next(s, baddr, baddr);
}

void meta__heal_hold(struct meta_scrub *s)
{
	ASSERT(s->heal.stage == HEAL_NONE);
	if (s->m->copies < 2 || s->heal.held)
		return;
	s->heal.epoch = meta__epoch_enter(s->m);
	s->heal.held = true;
}

void meta__heal_let_go(struct meta_scrub *s)
{
	if (!s->heal.held)
		return;
	ASSERT(s->heal.stage == HEAL_NONE || s->heal.stage == HEAL_WRITING); /* (2) */
	ASSERT(s->m->copies > 1);
	meta__epoch_leave(s->m, s->heal.epoch);
	s->heal.held = false;
}

/* Finds what the damaged place can be mended from, without the drives that were left out.  Returns
 * how many terms; 0: nothing. */
static uint32_t find_terms(struct meta_scrub *s, uint64_t bad, uint64_t without)
{
	const uint64_t other = meta__heal_other(s, bad);

	ASSERT(s->heal.held); /* (2) */
	if (!other)
		return meta__fold_terms(s->m, bad, s->unreachable | without, s->heal.term);
	s->heal.term[0] = (struct meta_fold_term){ .at = other, .by = 1 };
	return 1;
}

/* (4) Leaves out another drive.  Returns the number of terms; 0: each drive has been left out. */
static uint32_t other_terms(struct meta_scrub *s)
{
	struct meta__scrub_heal *h = &s->heal;
	uint64_t left = meta__drives_of(s->m, meta__zone_of(s->m, h->bad)) & ~h->left_out;
	uint32_t terms = 0;

	for (; left && !terms; left &= left - 1) {
		h->left_out |= left & -left;
		terms = find_terms(s, h->bad, left & -left);
	}
	return terms;
}

/* Turns to the next copy, or to other terms, after one that was no help.  Returns false after the
 * last. */
static bool next_way(struct meta_scrub *s)
{
	struct meta__scrub_heal *h = &s->heal;

	ASSERT(h->stage == HEAL_READING && h->held); /* (2) */
	ASSERT(h->terms > 0);
	if (h->terms == 1) {
		h->term[0].at = meta__heal_next(s, h->term[0].at, h->bad);
		h->terms = h->term[0].at != 0;
	} else {
		h->terms = other_terms(s);
	}
	if (h->terms == 0)
		return false;
	h->part = 0;
	h->stage = HEAL_OTHER;
	return true;
}

static bool begin(struct meta_scrub *s, uint64_t bad, uint32_t nblocks)
{
	struct meta__scrub_heal *h = &s->heal;

	ASSERT(h->stage == HEAL_NONE);
	h->terms = h->held ? find_terms(s, bad, 0) : 0;
	if (!h->terms || h->tried == bad) /* (3) */
		return false;
	h->stage = HEAL_OTHER;
	h->bad = bad;
	h->left_out = 1ull << META_BADDR_DRIVE(bad);
	h->part = 0;
	h->nblocks = nblocks;
	return true;
}

bool meta__heal_block(struct meta_scrub *s, uint64_t bad, uint32_t crc)
{
	ASSERT(bad != 0);
	s->heal.page = false;
	s->heal.crc = crc;
	return begin(s, bad, 1);
}

bool meta__heal_page(struct meta_scrub *s, uint64_t bad, const struct meta__page_want *want)
{
	ASSERT(want->level < META_PAGE_LEVELS_MAX);
	s->heal.page = true;
	s->heal.want = *want;
	return begin(s, bad, META_PAGE_BLOCKS);
}

bool meta__heal_step(struct meta_scrub *s, enum meta_scrub_next *out)
{
	struct meta__scrub_heal *h = &s->heal;

	if (likely(h->stage == HEAL_NONE))
		return false;
	ASSERT(h->held); /* (2) */
	ASSERT(h->stage == HEAL_OTHER || h->stage == HEAL_WRITE);
	*out = h->stage == HEAL_OTHER ? META_SCRUB_READ : META_SCRUB_WRITE;
	s->run = (struct meta_run){ .baddr = h->stage == HEAL_OTHER ? h->term[h->part].at : h->bad,
				    .nblocks = h->nblocks };
	h->stage = h->stage == HEAL_OTHER ? HEAL_READING : HEAL_WRITING;
	return true;
}

static void give_up(struct meta_scrub *s)
{
	ASSERT(s->heal.stage == HEAL_READING || s->heal.stage == HEAL_WRITING);
	s->heal.stage = HEAL_NONE;
	s->heal.tried = s->heal.bad; /* (3) */
	meta__heal_let_go(s);
}

void meta__heal_read(struct meta_scrub *s, const void *bytes, int status)
{
	struct meta__scrub_heal *h = &s->heal;
	bool good = status == 0;

	ASSERT(h->stage == HEAL_READING);
	ASSERT(h->nblocks == 1 || h->page);
	ASSERT(h->held); /* (2) */
	if (status == -EAGAIN) {
		h->stage = HEAL_OTHER;
		return;
	}
	if (good) /* copied first, then checked: only we write there */
		(h->part ? gf_add : gf_set)(h->bytes, bytes, (size_t)h->nblocks * BLOCK_SIZE,
					    h->term[h->part].by);
	if (good && ++h->part < h->terms) {
		h->stage = HEAL_OTHER;
		return;
	}
	if (good) {
		good = h->page ? !meta__page_check(h->bytes, &h->want)
			       : crc32c(h->bytes, BLOCK_SIZE) == h->crc;
	}
	if (good)
		h->stage = HEAL_WRITE;
	else if (!next_way(s))
		give_up(s);
}

const void *meta_scrub_bytes(const struct meta_scrub *s)
{
	ASSERT(s->heal.stage == HEAL_WRITING); /* (1) */
	return s->heal.bytes;
}

void meta_scrub_written(struct meta_scrub *s, int status)
{
	struct meta__scrub_heal *h = &s->heal;

	ASSERT(h->stage == HEAL_WRITING);
	ASSERT(h->held); /* (2) */
	if (status == 0) {
		meta__zone_mended(s->m, h->bad);
		s->stat.healed_pages += h->page;
		s->stat.healed_blocks += !h->page;
		s->cur.doubt_fails = 0;
		for (uint32_t i = 0; h->page && i < META_PAGE_LEVELS_MAX; i++)
			s->page[i].fails = s->page[i].copy_fails = 0;
		if (h->page) /* so that it is read again */
			s->page[h->want.level].baddr = 0;
	}
	give_up(s);
}
