/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A shard's tree as it is on the drives, read page by page from left to right, past the cache:
 * mount uses it to count live blocks, the check to verify every page.
 *
 *        at[0]        the root                     WALK_PAGE for each page that is read, from the
 *       /  |  \                                    root down; WALK_LEAF for leaves that are only
 *    at[1] .   .      next: the next child         named, as a parent names all its children
 *   / | \
 *
 * It holds one page a level, whatever the size of the tree.  A page on a missing drive is
 * WALK_AWAY, and the walk continues after the pages below it.
 *
 *  (1) A page matches its parent (place, generation, shard, level) and is whole in a zone,
 *      or the walk ends there and w->why names it [test_meta_check:page_with_a_flipped_bit].
 *  (2) No key of a page is outside the range in its parent
 *      [test_meta_check:key_outside_the_range_of_its_page].
 */
#include "meta/format/meta_page.h"
#include "meta/meta_store.h"

#include <errno.h>
#include <stdio.h>

uint64_t meta__walk_memory(void)
{
	return (uint64_t)META_PAGE_LEVELS_MAX * META_PAGE_BYTES;
}

static uint8_t *page_at(const struct meta__walk *w, uint32_t depth)
{
	ASSERT(depth < META_PAGE_LEVELS_MAX);
	return w->buf + (size_t)depth * META_PAGE_BYTES;
}

const void *meta__walk_page(const struct meta__walk *w)
{
	ASSERT(!w->reading);
	return page_at(w, w->depth);
}

static enum meta__walk_event bad(struct meta__walk *w, int err, uint64_t baddr, const char *what)
{

	ASSERT(err < 0);
	ASSERT(!w->reading);
	(void)snprintf(w->why, sizeof(w->why), "shard %u: page at drive %u block %llu: %s",
		       w->shard, META_BADDR_DRIVE(baddr),
		       (unsigned long long)META_BADDR_BLOCK(baddr), what);
	w->err = err;
	return WALK_BAD;
}

static enum meta__walk_event away(struct meta__walk *w, uint64_t baddr)
{
	ASSERT(!w->reading);
	w->leaf_baddr = baddr;
	return WALK_AWAY;
}

static enum meta__walk_event read_page(struct meta *m, struct meta__walk *w)
{
	const struct meta__walk_level *l = &w->at[w->depth];

	ASSERT(!w->reading);
	ASSERT(l->level + w->depth == w->at[0].level);
	w->reading = true;
	w->fresh = true;
	w->x.io.op = META_IO_READ;
	w->x.io.drive = META_BADDR_DRIVE(l->baddr);
	w->x.io.block = META_BADDR_BLOCK(l->baddr);
	w->x.io.nblocks = META_PAGE_BLOCKS;
	w->x.io.buf = page_at(w, w->depth);
	w->x.io.status = 0;
	list_init(&w->x.io.link);
	meta__io_want(m, &w->x);
	return WALK_WAIT;
}

void meta__walk_start(struct meta *m, struct meta__walk *w, uint32_t shard)
{
	const struct meta__shard *s = &m->shard[shard];

	ASSERT(shard < m->nshards);
	ASSERT(s->height <= META_PAGE_LEVELS_MAX);
	ASSERT(!w->reading);
	w->shard = shard;
	w->depth = 0;
	w->err = 0;
	w->started = false;
	w->reading = w->fresh = false;
	w->again = 0;
	if (s->height == 0)
		return;
	w->at[0] = (struct meta__walk_level){
		.baddr = s->root_baddr,
		.gen = s->root_gen,
		.level = s->height - 1,
	};
}

void meta__walk_io_done(struct meta__walk *w)
{
	ASSERT(w->reading);
	w->reading = false;
}

/* (2); meta__page_check() has seen that the keys of a page ascend. */
static bool keys_inside(const void *page, const struct meta__walk_level *l)
{
	struct meta_key first, last;
	const void *value;
	uint64_t baddr, gen;
	uint32_t len;

	ASSERT(l->count > 0); /* meta__page_check() has seen that, too */
	if (l->level > 0) {
		if (l->count > 1)
			meta__page_child(page, 1, &first, &baddr, &gen);
		meta__page_child(page, l->count - 1, &last, &baddr, &gen);
		if (l->count == 1)
			return true;
	} else {
		meta__page_record(page, 0, &first, &value, &len);
		meta__page_record(page, l->count - 1, &last, &value, &len);
	}
	return meta__key_cmp(&first, &l->low) >= 0 &&
	       (!l->has_high || meta__key_cmp(&last, &l->high) < 0);
}

/* Reads a page that is damaged or unreadable again, from its next copy.  Returns false if all
 * copies have been read. */
static bool from_twin(struct meta *m, struct meta__walk *w)
{
	ASSERT(!w->reading);
	ASSERT(!w->fresh);
	if (w->x.turned + 1u >= m->copies || w->again + 1u >= m->copies)
		return false;
	w->x.skips = ++w->again;
	(void)read_page(m, w);
	return true;
}

static enum meta__walk_event look(struct meta *m, struct meta__walk *w)
{
	struct meta__walk_level *l = &w->at[w->depth];
	const void *page = page_at(w, w->depth);
	const struct meta__page_want want = {
		.baddr = l->baddr, .gen = l->gen, .shard = w->shard, .level = l->level
	};
	const char *why;

	ASSERT(w->fresh);
	ASSERT(!w->reading);
	w->fresh = false;
	if (w->x.io.status)
		return from_twin(m, w) ? WALK_WAIT : bad(w, -EIO, l->baddr, "it cannot be read");
	why = meta__page_check(page, &want); /* (1) */
	if (why && from_twin(m, w))
		return WALK_WAIT;
	w->again = 0;
	if (why)
		return bad(w, -EUCLEAN, l->baddr, why);
	l->count = meta__page_count(page);
	l->next = 0;
	if (!keys_inside(page, l))
		return bad(w, -EUCLEAN, l->baddr, "a key of it belongs elsewhere");
	return WALK_PAGE;
}

/* To the next child of at[depth]: a leaf that is only named, or a page to be read. */
static enum meta__walk_event descend(struct meta *m, struct meta__walk *w)
{
	struct meta__walk_level *l = &w->at[w->depth], *c = l + 1;
	const void *page = page_at(w, w->depth);
	uint32_t i = l->next++;
	uint64_t baddr, gen;

	ASSERT(l->level > 0);
	ASSERT(i < l->count);
	ASSERT(w->depth + l->level == w->at[0].level);
	*c = (struct meta__walk_level){ .level = l->level - 1, .has_high = l->has_high };
	c->high = l->high;
	if (i + 1 < l->count) {
		c->has_high = true;
		meta__page_child(page, i + 1, &c->high, &baddr, &gen);
	}
	meta__page_child(page, i, &c->low, &c->baddr, &c->gen);
	if (i == 0)
		c->low = l->low;
	if (!meta__geo_is_page(&m->zones->geo, c->baddr))
		return bad(w, -EUCLEAN, c->baddr, "there cannot be one");
	if (unlikely(meta__is_away(m, c->baddr)))
		return away(w, c->baddr);
	if (c->level == 0 && !w->all_leaves && meta__key_cmp(&c->low, &w->until) >= 0) {
		w->leaf_baddr = c->baddr;
		return WALK_LEAF;
	}
	w->depth++;
	return read_page(m, w);
}

enum meta__walk_event meta__walk_step(struct meta *m, struct meta__walk *w)
{
	ASSERT(w->shard < m->nshards);
	if (w->err)
		return WALK_BAD;
	if (w->reading)
		return WALK_WAIT;
	if (!w->started) {
		w->started = true;
		if (m->shard[w->shard].height == 0)
			return WALK_END;
		if (!meta__geo_is_page(&m->zones->geo, w->at[0].baddr))
			return bad(w, -EUCLEAN, w->at[0].baddr, "there cannot be one");
		if (unlikely(meta__is_away(m, w->at[0].baddr)))
			return away(w, w->at[0].baddr); /* at[0] has no child */
		return read_page(m, w);
	}
	if (m->shard[w->shard].height == 0)
		return WALK_END;
	if (w->fresh)
		return look(m, w);
	while (w->at[w->depth].level == 0 || w->at[w->depth].next == w->at[w->depth].count) {
		if (w->depth == 0)
			return WALK_END;
		w->depth--;
	}
	return descend(m, w);
}
