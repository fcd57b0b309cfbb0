/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The scrub walks to a leaf: from the root of the present tree, page by page, past the cache.
 *
 *   the root --> verified page? --> in memory, dirty or frozen? --> read it from its drive
 *                    | yes            | not on the drive yet      | good: verified
 *                    v                v                           v bad: again from the root
 *                 its child         its child
 *
 * A verified page is {place, generation}, which no two pages ever share: while the tree names it,
 * it is part of the tree.
 *
 *  (1) Only verified pages are kept between two steps: each begins at the root.  So whatever
 *      changes meanwhile, a step finds the present tree
 *      [test_meta_scrub:what_changes_under_it_is_no_damage].
 *  (2) A page counts as damaged when FAILS reads of it failed, and the tree named it
 *      before each of them and after the last: a page that was freed and reused
 *      meanwhile does not [test_meta_scrub:damaged_page_is_named].
 *  (3) A page that is good in memory and damaged on its drive is named before the walk goes on
 *      below it [test_meta_scrub:pages_of_every_level_that_are_good_in_memory_are_named].
 */
#include "meta/check/meta_scrub.h"
#include "meta/engine/meta_share.h"

#include "meta/engine/meta_tree.h"

#include <string.h>

#define FAILS 3u

static bool is_ours(const struct meta__scrub_page *p, const struct meta__page_want *want)
{
	ASSERT(want->level < META_PAGE_LEVELS_MAX);
	return p->baddr == want->baddr && p->gen == want->gen && p->shard == want->shard;
}

/* Its frame, if it is in memory as the tree means it. */
static const struct meta__frame *frame_of(struct meta *m, const struct meta__page_want *want)
{
	const struct meta__frame *f = meta__cache_find(m, want->baddr);

	ASSERT(want->level < META_PAGE_LEVELS_MAX);
	return f && f->gen == want->gen && f->shard == want->shard && f->level == want->level
		       ? f
		       : NULL;
}

static void found_page(struct meta_scrub *s, const struct meta__page_want *want,
		       const struct meta_key *key, bool unreachable)
{
	const struct meta__damage_find find = {
		.file = { .dir = meta__key_dir(key), .uniq = want->baddr },
		.kind = META_DAMAGE_PAGE,
		.block = want->level,
		.nblocks = 1,
		.baddr = want->baddr,
		.id = (uint32_t)want->gen,
		.round = s->round,
		.by_scrub = !s->page_checking,
		.unreachable = unreachable,
	};

	ASSERT(want->level < META_PAGE_LEVELS_MAX);
	(void)meta__damage_add(&s->damages, &find);
}

/* Returns true if the page has been counted in this round; else it is counted now. */
static bool is_seen(struct meta__scrub_page *p, const struct meta__page_want *want)
{
	ASSERT(want->baddr != 0);
	if (p->seen_baddr == want->baddr && p->seen_gen == want->gen)
		return true;
	p->seen_baddr = want->baddr;
	p->seen_gen = want->gen;
	return false;
}

static void believe(struct meta_scrub *s, struct meta__scrub_page *p,
		    const struct meta__page_want *want, const struct meta_key *key, bool unreadable)
{
	const struct meta__scrub_bad bad = {
		.page = true,
		.unreadable = unreadable,
		.file = { .dir = meta__key_dir(key) },
		.block = want->level,
		.baddr = want->baddr,
		.shard = want->shard,
	};

	ASSERT(p == &s->page[want->level]);
	if (!s->page_checking && is_seen(p, want))
		return;
	s->stat.bad_pages += !s->page_checking;
	found_page(s, want, key, false);
	meta__scrub_found(s, &bad, want->gen);
}

/* Counts a page on a drive that cannot be reached, once a round.  The list has such pages only if a
 * read has met them: there may be more of them than it has entries. */
static void miss(struct meta_scrub *s, struct meta__scrub_page *p,
		 const struct meta__page_want *want, const struct meta_key *key)
{
	ASSERT(p == &s->page[want->level]);
	if (!s->page_checking)
		s->stat.unreachable_pages += !is_seen(p, want);
	else if (s->damages.stat.unreachable_pages < META__DAMAGE_PAGES)
		found_page(s, want, key, true);
	else
		s->damages.overflow++;
}

static enum meta__scrub_walk read_page(struct meta_scrub *s, const struct meta__page_want *want,
				       uint64_t from)
{
	ASSERT(!s->reading);
	ASSERT(from != 0);
	ASSERT(s->heal.stage == HEAL_NONE);
	s->want = *want;
	s->run = (struct meta_run){ .baddr = from, .nblocks = META_PAGE_BLOCKS };
	s->reading_page = true;
	return SCRUB_READ;
}

/* Returns where the next copy of a page that is good is to be read; 0: they have been. */
static uint64_t other_copy(const struct meta_scrub *s, struct meta__scrub_page *p,
			   const struct meta__page_want *want, bool verify)
{
	ASSERT(p->fails == 0);
	ASSERT(is_ours(p, want));
	for (; verify && p->copy < s->m->copies; p->copy++) {
		const uint64_t at = meta__heal_copy(s, want->baddr, p->copy);

		if (at && meta__heal_reaches(s, at))
			return at;
	}
	return 0;
}

/* The bytes of the page that is wanted.  NULL: read it, or it is damaged (in *how). */
static const uint8_t *bytes_of(struct meta_scrub *s, const struct meta__page_want *want,
			       const struct meta_key *key, bool verify, enum meta__scrub_walk *how)
{
	struct meta__scrub_page *p = &s->page[want->level];
	const struct meta__frame *f = frame_of(s->m, want);
	bool ours = is_ours(p, want);
	uint64_t from = want->baddr;

	ASSERT(want->level < META_PAGE_LEVELS_MAX);
	ASSERT(p->fails <= FAILS || !ours);
	if (f && (meta__frame_state(f) != FRAME_CLEAN || !verify))
		return f->page; /* newer than the drive, or not compared with it */
	s->reading_other = false;
	if (ours && p->fails == 0) {
		from = other_copy(s, p, want, verify);
		if (!from)
			return p->bytes;
		s->reading_other = true;
		if (p->copy_fails > 0)
			meta__heal_hold(s);
		*how = read_page(s, want, from);
		return NULL;
	}
	if (!meta__heal_reaches(s, want->baddr))
		from = meta__heal_other(s, want->baddr);
	if (!from) {
		if (verify)
			miss(s, p, want, key);
		*how = SCRUB_DAMAGED;
		return f ? f->page : NULL;
	}
	if (!ours || p->fails < FAILS) {
		if (ours && p->fails > 0)
			meta__heal_hold(s);
		*how = read_page(s, want, from);
		return NULL;
	}
	if (verify) /* (2) */
		believe(s, p, want, key, p->unreadable);
	*how = SCRUB_DAMAGED;
	return f ? f->page : NULL;
}

/* The walk has come to the level of a page that a read could not get; `lo` is that page's first
 * key.  SCRUB_EMPTY: the tree has another page there, or the page is good. */
static enum meta__scrub_walk judge(struct meta_scrub *s, const struct meta__page_want *want,
				   const struct meta__page_want *suspect, const struct meta_key *lo)
{
	enum meta__scrub_walk how = SCRUB_EMPTY;

	ASSERT(s->page_checking);
	ASSERT(want->level == suspect->level);
	if (want->baddr == suspect->baddr && want->gen == suspect->gen &&
	    (!frame_of(s->m, want) || s->m->copies > 1))
		(void)bytes_of(s, want, lo, true, &how);
	return how;
}

/* With a suspect: to that page, else to the leaf. */
static enum meta__scrub_walk walk(struct meta_scrub *s, uint32_t shard, const struct meta_key *key,
				  bool verify, const struct meta__page_want *suspect,
				  struct meta__scrub_place *out)
{
	const struct meta__shard *of = &s->m->shard[shard];
	struct meta__page_want want = { of->root_baddr, of->root_gen, shard, 0 };
	enum meta__scrub_walk how = SCRUB_LEAF;
	struct meta_key lo = { { 0, 0, 0 } };

	ASSERT(of->height <= META_PAGE_LEVELS_MAX);
	if (of->height == 0 || (suspect && suspect->level >= of->height))
		return SCRUB_EMPTY;
	for (uint32_t level = of->height - 1;; level--) {
		const uint8_t *bytes;
		uint32_t i;

		want.level = level;
		if (suspect && level == suspect->level)
			return judge(s, &want, suspect, &lo);
		bytes = bytes_of(s, &want, key, verify, &how);
		if (!bytes)
			return how;
		if (verify && (s->naming.on || s->has_line))
			return SCRUB_AWAY; /* (3): it is good in memory, and was found damaged */
		if (level == 0) {
			out->leaf = bytes;
			return SCRUB_LEAF;
		}
		i = meta__inner_find(bytes, key);
		if (i > 0)
			lo = meta__inner_key(bytes, i);
		if (i + 1 < meta__page_count(bytes)) {
			out->has_hi = true;
			out->hi = meta__inner_key(bytes, i + 1);
		}
		meta__inner_child(bytes, i, &want.baddr, &want.gen);
		if (!meta__geo_is_page(&s->m->zones->geo, want.baddr)) {
			want.level = level - 1;
			believe(s, &s->page[level - 1], &want, key, false);
			return SCRUB_DAMAGED;
		}
	}
}

enum meta__scrub_walk meta__scrub_walk(struct meta_scrub *s, uint32_t shard,
				       const struct meta_key *key, bool verify,
				       struct meta__scrub_place *out)
{
	ASSERT(shard < s->m->nshards);
	ASSERT(!s->page_checking);
	*out = (struct meta__scrub_place){ 0 };
	return meta__may_look(s->m, shard) ? walk(s, shard, key, verify, NULL, out) : SCRUB_AWAY;
}

enum meta__scrub_walk meta__scrub_page(struct meta_scrub *s, const struct meta__page_want *suspect,
				       const struct meta_key *key)
{
	struct meta__scrub_place none = { 0 };

	ASSERT(suspect->shard < s->m->nshards);
	ASSERT(s->page_checking);
	if (!meta__may_look(s->m, suspect->shard))
		return SCRUB_AWAY;
	return walk(s, suspect->shard, key, false, suspect, &none);
}

static void count(struct meta_scrub *s, struct meta__scrub_page *p)
{
	ASSERT(p->fails == 0);
	if (p->seen_baddr == p->baddr && p->seen_gen == p->gen)
		return; /* names were looked for in between */
	p->seen_baddr = p->baddr;
	p->seen_gen = p->gen;
	s->stat.pages++;
}

/* Returns which copy of a page lies at this place; the last, if that is known no more. */
static uint32_t number_of(const struct meta_scrub *s, uint64_t first, uint64_t at)
{
	uint32_t n = 0;

	while (n + 1 < max_u32(s->m->copies, 1) && meta__heal_copy(s, first, n) != at)
		n++;
	ASSERT(n < META_COPIES_MAX);
	return n;
}

/* Another copy of a page that is good. */
static void other_done(struct meta_scrub *s, const void *bytes, int status)
{
	const struct meta__page_want *want = &s->want;
	struct meta__scrub_page *p = &s->page[want->level];
	bool good = status == 0;

	ASSERT(is_ours(p, want) && p->fails == 0);
	ASSERT(p->copy > 0 && p->copy < s->m->copies);
	if (good) { /* copied first, as below */
		memcpy(s->heal.bytes, bytes, META_PAGE_BYTES);
		good = !meta__page_check(s->heal.bytes, want);
	}
	s->stat.doubts += !good;
	if (good || ++p->copy_fails == FAILS) {
		p->copy++;
		p->copy_fails = 0;
	}
	if (good || !meta__heal_page(s, s->run.baddr, want))
		meta__heal_let_go(s);
}

void meta__scrub_page_done(struct meta_scrub *s, const void *bytes, int status)
{
	const struct meta__page_want *want = &s->want;
	struct meta__scrub_page *p = &s->page[want->level];
	bool good = status == 0;

	ASSERT(want->level < META_PAGE_LEVELS_MAX);
	ASSERT(!s->reading);
	if (s->reading_other) {
		other_done(s, bytes, status);
		return;
	}
	if (!is_ours(p, want))
		p->fails = p->copy_fails = 0;
	p->copy = number_of(s, want->baddr, s->run.baddr) + 1;
	p->baddr = want->baddr;
	p->gen = want->gen;
	p->shard = want->shard;
	if (good) { /* copied first, then checked: only we write there */
		memcpy(p->bytes, bytes, META_PAGE_BYTES);
		good = !meta__page_check(p->bytes, want);
	}
	p->unreadable = status != 0;
	p->fails = good ? 0 : p->fails + 1;
	if (good || p->fails < 2 || !meta__heal_page(s, s->run.baddr, want))
		meta__heal_let_go(s);
	if (good && !s->naming.on && !s->cur.names_only && !meta_scrub_has_errand(s))
		count(s, p);
	else if (!good)
		s->stat.doubts++;
}
