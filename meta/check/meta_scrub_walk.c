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
		       const struct meta__scrub_bad *bad)
{
	const struct meta__damage_find find = {
		.file = { .dir = bad->file.dir, .uniq = want->baddr },
		.kind = META_DAMAGE_PAGE,
		.block = want->level,
		.nblocks = 1,
		.baddr = want->baddr,
		.id = (uint32_t)want->gen,
		.round = s->round,
		.by_scrub = true,
	};

	ASSERT(bad->page);
	(void)meta__damage_add(&s->damages, &find);
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
	if (p->seen_baddr == want->baddr && p->seen_gen == want->gen)
		return; /* in this round, already */
	p->seen_baddr = want->baddr;
	p->seen_gen = want->gen;
	s->stat.bad_pages++;
	found_page(s, want, &bad);
	meta__scrub_found(s, &bad, want->gen);
}

/* Counts a page on a drive that cannot be reached, once a round. */
static void miss(struct meta_scrub *s, struct meta__scrub_page *p,
		 const struct meta__page_want *want)
{
	ASSERT(p == &s->page[want->level]);
	if (p->seen_baddr == want->baddr && p->seen_gen == want->gen)
		return;
	p->seen_baddr = want->baddr;
	p->seen_gen = want->gen;
	s->stat.unreachable_pages++;
}

static enum meta__scrub_walk read_page(struct meta_scrub *s, const struct meta__page_want *want)
{
	ASSERT(!s->reading);
	s->want = *want;
	s->run = (struct meta_run){ .baddr = want->baddr, .nblocks = META_PAGE_BLOCKS };
	s->reading_page = true;
	return SCRUB_READ;
}

/* The bytes of the page that is wanted.  NULL: read it, or it is damaged (in *how). */
static const uint8_t *bytes_of(struct meta_scrub *s, const struct meta__page_want *want,
			       const struct meta_key *key, bool verify, enum meta__scrub_walk *how)
{
	struct meta__scrub_page *p = &s->page[want->level];
	const struct meta__frame *f = frame_of(s->m, want);
	bool ours = is_ours(p, want);

	ASSERT(want->level < META_PAGE_LEVELS_MAX);
	ASSERT(p->fails <= FAILS || !ours);
	if (f && (f->state != FRAME_CLEAN || !verify))
		return f->page; /* newer than the drive, or not compared with it */
	if (ours && p->fails == 0)
		return p->bytes;
	if (s->unreachable >> META_BADDR_DRIVE(want->baddr) & 1) {
		if (verify)
			miss(s, p, want);
		*how = SCRUB_DAMAGED;
		return f ? f->page : NULL;
	}
	if (!ours || p->fails < FAILS) {
		*how = read_page(s, want);
		return NULL;
	}
	if (verify) /* (2) */
		believe(s, p, want, key, p->unreadable);
	*how = SCRUB_DAMAGED;
	return f ? f->page : NULL;
}

enum meta__scrub_walk meta__scrub_walk(struct meta_scrub *s, uint32_t shard,
				       const struct meta_key *key, bool verify,
				       struct meta__scrub_place *out)
{
	const struct meta__shard *of = &s->m->shard[shard];
	struct meta__page_want want = { .shard = shard };
	enum meta__scrub_walk how = SCRUB_LEAF;

	*out = (struct meta__scrub_place){ 0 };
	if (!meta__may_look(s->m, shard))
		return SCRUB_AWAY;
	ASSERT(of->height <= META_PAGE_LEVELS_MAX);
	want.baddr = of->root_baddr;
	want.gen = of->root_gen;
	if (of->height == 0)
		return SCRUB_EMPTY;
	for (uint32_t level = of->height - 1;; level--) {
		const uint8_t *bytes;
		uint32_t i;

		want.level = level;
		bytes = bytes_of(s, &want, key, verify, &how);
		if (!bytes)
			return how;
		if (level == 0) {
			out->leaf = bytes;
			return SCRUB_LEAF;
		}
		i = meta__inner_find(bytes, key);
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

static void count(struct meta_scrub *s, struct meta__scrub_page *p)
{
	ASSERT(p->fails == 0);
	if (p->seen_baddr == p->baddr && p->seen_gen == p->gen)
		return; /* names were looked for in between */
	p->seen_baddr = p->baddr;
	p->seen_gen = p->gen;
	s->stat.pages++;
}

void meta__scrub_page_done(struct meta_scrub *s, const void *bytes, int status)
{
	const struct meta__page_want *want = &s->want;
	struct meta__scrub_page *p = &s->page[want->level];
	bool good = status == 0;

	ASSERT(want->level < META_PAGE_LEVELS_MAX);
	ASSERT(!s->reading);
	if (!is_ours(p, want))
		p->fails = 0;
	p->baddr = want->baddr;
	p->gen = want->gen;
	p->shard = want->shard;
	if (good) { /* copied first, then checked: only we write there */
		memcpy(p->bytes, bytes, META_PAGE_BYTES);
		good = !meta__page_check(p->bytes, want);
	}
	p->unreadable = status != 0;
	p->fails = good ? 0 : p->fails + 1;
	if (good && !s->naming.on && !s->cur.names_only && !meta_scrub_has_errand(s))
		count(s, p);
	else if (!good)
		s->stat.doubts++;
}
