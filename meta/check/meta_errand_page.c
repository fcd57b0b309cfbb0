/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Pages of the index that an operation could not read.  The operation has ended with an error by
 * then; the scrub reads the page and records it as damaged, or as out of reach if its drive has
 * failed:
 *
 *   meta_cache.c: not readable --> suspect_page[] --> meta__scrub_page() --> the table of damage
 *
 *  (1) At most META__SUSPECT_PAGES pages wait.  If there are more, the next operation that fails
 *      reports its page again, or a round finds it.
 *  (2) A page that the tree no longer has is no damage, nor is one that can be read now
 *      [test_meta_damage:page_that_is_good_again_is_not_listed].
 *  (3) The check counts nothing in the round's figures
 *      [test_meta_damage:damaged_page_that_a_read_has_met_is_listed_at_once].
 */
#include "meta/check/meta_scrub.h"

static bool same_page(const struct meta__page_want *a, const struct meta__page_want *b)
{
	DASSERT(a->level < META_PAGE_LEVELS_MAX);
	DASSERT(b->level < META_PAGE_LEVELS_MAX);
	return a->baddr == b->baddr && a->gen == b->gen && a->shard == b->shard &&
	       a->level == b->level;
}

bool meta__has_suspect_page(const struct meta_scrub *s)
{
	ASSERT(s->suspect_page_head - s->suspect_page_tail <= META__SUSPECT_PAGES); /* (1) */
	return s->suspect_page_head != s->suspect_page_tail;
}

wk_cold void meta__suspect_page(struct meta_scrub *s, const struct meta__page_want *page,
				const struct meta_key *key)
{
	ASSERT(page->shard < s->m->nshards);
	ASSERT(page->level < META_PAGE_LEVELS_MAX);
	ASSERT(page->baddr != 0);
	if (s->suspect_page_head - s->suspect_page_tail == META__SUSPECT_PAGES || /* (1) */
	    meta__scrub_is_told(s, page->baddr, page->gen))
		return;
	for (uint32_t i = s->suspect_page_tail; i != s->suspect_page_head; i++)
		if (same_page(&s->suspect_page[i % META__SUSPECT_PAGES].page, page))
			return;
	if (s->page[page->level].baddr == page->baddr)
		s->page[page->level].baddr = 0; /* it was good when the round read it */
	s->suspect_page[s->suspect_page_head++ % META__SUSPECT_PAGES] =
		(struct meta__suspect_page){ .page = *page, .key = *key };
}

bool meta__suspect_page_step(struct meta_scrub *s, enum meta_scrub_next *out)
{
	const struct meta__suspect_page *x =
		&s->suspect_page[s->suspect_page_tail % META__SUSPECT_PAGES];
	enum meta__scrub_walk how;

	ASSERT(!s->naming.on);
	ASSERT(!s->checking);
	ASSERT(!s->page_checking);
	if (!meta__has_suspect_page(s))
		return false;
	s->page_checking = true; /* (3) */
	how = meta__scrub_page(s, &x->page, &x->key);
	s->page_checking = false;
	*out = how == SCRUB_READ ? META_SCRUB_READ : META_SCRUB_MORE;
	if (how != SCRUB_READ && how != SCRUB_AWAY)
		s->suspect_page_tail++;
	return true;
}
