/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Collection: empties page zones with few live pages.
 *
 *   pick the emptiest closed page zone -> read it, BATCH pages at a time -> touch each that the
 *   tree still has there: it is dirty, its next place is in another zone -> (next checkpoint) the
 *   zone is empty, and free when the roots are durable
 *
 * A header gives the shard, level and first key to look for; only the tree knows whether the page
 * is still live there (META__OP_TOUCH asks it; if it is not, the page above suffices to tell).  So
 * a header needs no trust.  A live page need not be read again.
 *
 *  free zones | <- reserve -> | <- soon -> |                                    |
 *             |     short     |  ever faster   more dead than live pages and    nothing
 *             |  full speed   |                three quarters are in use: slow  to do
 *
 *  (1) One zone at a time.  The pace follows free space: the fewer zones are free, the more touches
 *      run at once, up to the cache's room before an operation waits.
 *  (2) A zone that is nearly full of live pages is not worth it: emptying it would take as many
 *      pages as it frees.  And the longer a zone waits, the fewer of its pages are live.
 *  (3) Zones are emptied one after the other until enough are free or will be, or
 *      none is worth it; then comes one checkpoint for all: pages share the path above them, which
 *      each generation writes only once
 *      [test_meta_collect:mostly_dead_page_zones_are_emptied_and_what_lived_in_them_is_whole].
 *  (4) An operation that finds the store full waits while collection can still win something; after
 *      FRUITLESS_MAX rounds that won nothing it gets -ENOSPC
 *      [test_meta_collect:store_full_of_names_deletes_and_takes_as_much_again].
 *  (5) In an idle store, moving pages without a gain also ends after that many
 *      rounds, until something changes.  (Checkpoints move the log too.)
 *      [test_meta_collect:idle_store_does_nothing]
 *  (6) A zone is left when all its touches are over: only then is known whether it is empty.
 *  (7) On a drive that is being drained every page is moved, whatever the need or the gain; pages
 *      that could not be moved are tried again after the next checkpoint.  This is not a round
 *      [test_meta_drain:last_of_three_leaves_and_the_store_starts_without_it].
 */
#include "meta/engine/meta_pair.h"
#include "meta/format/meta_page.h"
#include "meta/ops/meta_gc.h"
#include "meta/meta_store.h"
#include "meta/engine/meta_self_check.h"
#include "meta/engine/meta_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BATCH         32u /* pages; one read takes a quarter of them */
#define READ_PAGES    8u
#define TOUCHES_MAX   128u
#define FRAMES_EACH   16u /* of the cache, for each touch in progress */
#define FRUITLESS_MAX 3u

struct touch {
	struct meta_op op;
	bool busy;
};

struct meta__collect {
	uint8_t *buf; /* BATCH pages */
	struct meta__io io[BATCH];
	uint32_t in_flight;
	bool one_by_one;        /* a block of the batch cannot be read: the headers alone */
	uint32_t zone;          /* being emptied; META__ZONE_NONE: none */
	uint64_t incarnation;   /* in which use of it */
	uint32_t page;          /* of the zone: the first of this batch */
	uint32_t count, at;     /* pages in buf; the current one */
	uint64_t tried;         /* read epoch in which no zone was worth it */
	bool emptied;           /* some zone, in this round */
	uint32_t zones, budget; /* tried in this round; as many as there were when it began */
	bool won; /* the round that `tried` ended won zones, free after a checkpoint */
	uint32_t fruitless, best; /* rounds; free zones after the best one */
	uint64_t changes;         /* when they were counted */
	struct touch touch[TOUCHES_MAX];
	uint32_t touching;
	bool drains;          /* the zone is of a drive that is being drained */
	uint64_t drain_epoch; /* no zone of it is left to be emptied */
};

uint64_t meta__collect_memory(const struct meta_conf *c)
{
	(void)c;
	return (uint64_t)BATCH * META_PAGE_BYTES;
}

int meta__collect_create(struct meta *m)
{
	struct meta__collect *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	m->collect = c;
	c->zone = META__ZONE_NONE;
	c->buf = meta__mem_take(m, meta__collect_memory(&m->conf));
	for (uint32_t i = 0; i < BATCH; i++)
		list_init(&c->io[i].io.link);
	return 0;
}

void meta__collect_destroy(struct meta *m)
{
	free(m->collect);
	m->collect = NULL;
}

/* ---- which zone, and when ------------------------------------------------------- */

/* Pages that page zones could hold beyond those that live. */
static uint64_t garbage(const struct meta__zones *z)
{
	uint64_t places = (uint64_t)z->page_zones * z->geo.zone_pages;
	uint64_t used = z->live_pages + meta__pages_ahead(z);

	return places > used ? places - used : 0;
}

/* Returns the number of free zones at which collection begins. */
static uint32_t soon(const struct meta *m)
{
	return max_u32(2, meta__groups_total(m) / 64);
}

/* More than half of the pages in page zones are dead, and the room may soon be needed: pages that
 * are moved earlier might have died by themselves. */
static bool is_wasted(const struct meta *m, uint64_t dead)
{
	const struct meta__zones *z = m->zones;

	return dead > z->live_pages + z->dirty_pages_max &&
	       meta__groups_free(m) < meta__groups_total(m) / 4;
}

/* Worth a look.  Zones that will be free after a checkpoint count as free: (3). */
static bool is_due(const struct meta *m)
{
	const struct meta__zones *z = m->zones;
	const uint64_t dead = garbage(z);

	if (dead < 2 * (uint64_t)z->geo.zone_pages)
		return false;
	return meta__groups_free(m) + z->coming < meta__zones_kept(m) + soon(m) ||
	       is_wasted(m, dead);
}

/* (1) */
static uint32_t touches_max(const struct meta *m)
{
	const uint32_t most = min_u32(TOUCHES_MAX, m->cache->nframes / FRAMES_EACH);
	const uint32_t enough = meta__zones_kept(m) + soon(m),
		       zones = min_u32(meta__groups_free(m), enough);

	DASSERT(zones <= enough); /* (1) */
	DASSERT(most <= TOUCHES_MAX);
	return max_u32(1, meta__zone_short(m) ? most : most * (enough - zones) / soon(m));
}

static uint32_t emptiest(const struct meta *m)
{
	const struct meta__zones *z = m->zones;
	uint32_t best = META__ZONE_NONE, best_live = z->geo.zone_pages * META_PAGE_BLOCKS * 3 / 4;
	const uint64_t writing = meta__ckpt_running(m); /* the epoch before this one */

	for (uint32_t i = 0; i < z->geo.nzones; i++) {
		const struct meta__zone *at = &z->zone[i];

		if (at->state != ZONE_CLOSED || at->kind != META__ZONE_PAGE || at->stuck)
			continue;
		if (at->closed + writing >= z->epoch)
			continue; /* pages of it are not written yet: their headers say nothing */
		if (at->live > best_live) /* (2) */
			continue;
		best = i;
		best_live = at->live ? at->live - 1 : 0;
	}
	ASSERT(best == META__ZONE_NONE || z->zone[best].live <= z->geo.zone_pages * 3); /* (2) */
	return best;
}

/* No zone is worth it any more, before a checkpoint has changed something. */
static void round_done(struct meta *m)
{
	struct meta__collect *c = m->collect;
	uint32_t free = meta__groups_free(m) + m->zones->coming;

	ASSERT(c->zone == META__ZONE_NONE);
	ASSERT(c->touching == 0);
	c->tried = m->zones->epoch;
	c->fruitless = c->emptied && free > c->best ? 0 : c->fruitless + 1;
	c->best = max_u32(c->best, free);
	c->won = c->emptied;
	c->emptied = false;
	c->zones = 0;
}

/* It empties a zone to win its room: (7) does not. */
static bool wins(const struct meta *m)
{
	ASSERT(m->collect->touching == 0 || m->collect->zone != META__ZONE_NONE); /* (6) */
	return m->collect->zone != META__ZONE_NONE && !m->collect->drains;
}

/* Will zones be free without anybody deleting anything?  (4) */
bool meta__collect_hopes(const struct meta *m)
{
	const struct meta__collect *c = m->collect;

	if (m->zones->coming || wins(m) || meta__gc_hopes(m) || meta__folder_hopes(m))
		return true;
	if (!list_empty(&m->zones->leaving) || meta__drain_ends(m))
		return true;
	if (meta__ckpt_was_early(m))
		return true; /* zones of this epoch are considered in the next */
	return c->fruitless < FRUITLESS_MAX && (c->tried == m->zones->epoch ? c->won : is_due(m));
}

bool meta__collect_busy(const struct meta *m)
{
	const struct meta__collect *c = m->collect;

	if (!m->mounted || m->failed || meta__check_running(m))
		return false;
	return wins(m) || meta__gc_busy(m) ||
	       (is_due(m) && c->tried != m->zones->epoch && c->fruitless < FRUITLESS_MAX);
}

/* The log's room, and what dirty pages need, is not for pages that only move. */
static bool drain_may(const struct meta *m)
{
	return meta__groups_free(m) > meta__zone_reserve(m, false) + 1;
}

/* The pace of drains is used up, and other zones wait for their turn. */
static bool rests(const struct meta *m)
{
	return meta__pace_extents(m) == 0 && is_due(m);
}

/* (7) */
static bool pick_drained(struct meta *m)
{
	struct meta__collect *c = m->collect;
	const struct meta__zones *z = m->zones;

	ASSERT(c->zone == META__ZONE_NONE); /* (1) */
	c->drains = false;
	if (!meta__any_leaves(m) || c->drain_epoch == z->epoch || meta__ckpt_running(m) ||
	    !drain_may(m) || rests(m))
		return false;
	for (uint32_t i = 0; i < z->geo.nzones; i++) {
		struct meta__zone *at = &z->zone[i];

		if (at->kind != META__ZONE_PAGE || at->closed == z->epoch ||
		    at->tried == z->epoch || !meta__leaves(m, i))
			continue;
		ASSERT(at->tried < z->epoch);
		ASSERT(at->closed < z->epoch);
		at->tried = z->epoch;
		c->zone = i;
		c->incarnation = at->incarnation;
		c->page = c->count = c->at = 0;
		c->drains = true;
		return true;
	}
	c->drain_epoch = z->epoch;
	return false;
}

void meta__collect_look_drains(struct meta *m)
{
	ASSERT(m->mounted);
	m->collect->drain_epoch = UINT64_MAX;
}

/* Pages that have no room to move to do not count: a checkpoint may free the zones for them. */
bool meta__drain_moves(const struct meta *m)
{
	const struct meta__collect *c = m->collect;

	if (c->zone != META__ZONE_NONE || m->gc->victims > 0)
		return true;
	return meta__any_leaves(m) &&
	       ((c->drain_epoch != m->zones->epoch && drain_may(m)) || meta__gc_drains(m));
}

/* Emptied zones and early leaves wait for a checkpoint, and so do operations that need them. */
static bool is_behind(const struct meta *m)
{
	if (m->zones->coming || meta__ckpt_was_early(m))
		return !meta__collect_busy(m);
	return meta__collect_hopes(m) && m->collect->tried == m->zones->epoch;
}

static bool pick(struct meta *m)
{
	struct meta__collect *c = m->collect;

	ASSERT(c->zone == META__ZONE_NONE); /* (1) */
	ASSERT(c->touching == 0);
	if (pick_drained(m))
		return true;
	if (!meta__zone_short(m) || m->changes != c->changes)
		c->fruitless = c->best = 0; /* something has changed: (5) */
	else if (is_behind(m))
		meta__ckpt_want(m); /* even if there is nothing to do here; (3) */
	c->changes = m->changes;
	if (c->tried == m->zones->epoch || (meta__zone_short(m) && meta__ckpt_running(m)))
		return false;
	if (!is_due(m)) {
		if (c->zones > 0)
			round_done(m); /* (3): the zones to come are enough */
		return false;
	}
	if (c->fruitless >= FRUITLESS_MAX)
		return false; /* (5) */
	if (c->zones == 0 && !c->emptied)
		c->budget = m->zones->page_zones;
	c->zone = c->zones < c->budget ? emptiest(m) : META__ZONE_NONE;
	if (c->zone == META__ZONE_NONE) {
		round_done(m);
		return false;
	}
	c->incarnation = meta__zone_at(m, c->zone)->incarnation;
	c->page = c->count = c->at = 0;
	return true;
}

/* ---- emptying it ------------------------------------------------------------------ */

/* Closed, and not used again since. */
static bool is_still(const struct meta *m)
{
	const struct meta__zone *at = meta__zone_at(m, m->collect->zone);

	ASSERT(m->collect->zone != META__ZONE_NONE);
	return at->state == ZONE_CLOSED && at->incarnation == m->collect->incarnation;
}

static void zone_done(struct meta *m)
{
	struct meta__collect *c = m->collect;
	struct meta__zone *at = meta__zone_at(m, c->zone);
	const bool lives = is_still(m) && at->live > 0;

	ASSERT(c->in_flight == 0); /* (6) */
	ASSERT(c->touching == 0);
	c->zone = META__ZONE_NONE;
	if (c->drains)
		return;
	c->zones++;
	if (lives)
		at->stuck = true;
	else
		c->emptied = true;
}

/* READ_PAGES pages by one read; or, one by one, headers. */
static void read_pages(struct meta *m)
{
	struct meta__collect *c = m->collect;
	const uint64_t baddr = meta__geo_zone_baddr(&m->zones->geo, c->zone) + 1;
	const uint32_t each = c->one_by_one ? 1 : READ_PAGES;

	ASSERT(c->in_flight == 0);
	ASSERT(c->count <= BATCH);
	ASSERT(c->page + c->count <= m->zones->geo.zone_pages);
	for (uint32_t i = 0; i < c->count; i += each) {
		const uint64_t page = baddr + (uint64_t)(c->page + i) * META_PAGE_BLOCKS;
		struct meta__io *x = &c->io[i];

		x->kind = META__IO_COLLECT;
		x->io.op = META_IO_READ;
		x->io.drive = META_BADDR_DRIVE(page);
		x->io.block = META_BADDR_BLOCK(page);
		x->io.nblocks = c->one_by_one ? 1 : min_u32(each, c->count - i) * META_PAGE_BLOCKS;
		x->io.buf = c->buf + (size_t)i * META_PAGE_BYTES;
		x->io.status = 0;
		c->in_flight++;
		meta__io_want(m, x);
	}
}

static void read_batch(struct meta *m)
{
	struct meta__collect *c = m->collect;

	ASSERT(c->at == c->count); /* all of the last one were looked at */
	c->page += c->count;
	c->count = min_u32(BATCH, m->zones->geo.zone_pages - c->page);
	c->at = 0;
	c->one_by_one = false;
	read_pages(m);
}

/* A block that cannot be read is not to keep its neighbours where they are. */
static bool reads_again(struct meta *m)
{
	struct meta__collect *c = m->collect;
	bool failed = false;

	for (uint32_t i = 0; i < c->count && c->at == 0 && !c->one_by_one; i += READ_PAGES)
		failed |= c->io[i].io.status != 0;
	if (failed) {
		c->one_by_one = true;
		read_pages(m);
	}
	return failed;
}

void meta__collect_io_done(struct meta *m, struct meta__io *x)
{
	ASSERT(x->kind == META__IO_COLLECT);
	ASSERT(m->collect->in_flight > 0);
	m->collect->in_flight--;
}

/* Takes a page's header for a touch; false: not a live page. */
static bool header_take(const struct meta *m, uint64_t baddr, const void *block, struct meta_op *op)
{
	struct meta_page_disk h;

	memcpy(&h, block, sizeof(h));
	if (le32_get(h.magic) != META_PAGE_MAGIC || le64_get(h.baddr) != baddr)
		return false;
	if (le32_get(h.shard) >= m->nshards || le16_get(h.level) >= META_PAGE_LEVELS_MAX)
		return false;
	memset(op, 0, sizeof(*op));
	op->type = (enum meta_op_type)META__OP_TOUCH;
	op->keeps.touch.shard = le32_get(h.shard);
	op->keeps.touch.level = le16_get(h.level);
	op->keeps.touch.baddr = baddr;
	for (int i = 0; i < 3; i++)
		op->keeps.touch.first[i] = le64_get(h.first.w[i]);
	DASSERT(op->keeps.touch.shard < m->nshards);
	DASSERT(op->keeps.touch.level < META_PAGE_LEVELS_MAX);
	return true;
}

const void *meta__collect_page(const struct meta *m, uint64_t baddr)
{
	const struct meta__collect *c = m->collect;
	uint64_t first, page;

	if (c->zone == META__ZONE_NONE || c->in_flight || c->one_by_one)
		return NULL;
	first = meta__geo_zone_baddr(&m->zones->geo, c->zone) + 1 +
		(uint64_t)c->page * META_PAGE_BLOCKS;
	page = (baddr - first) / META_PAGE_BLOCKS;
	if (baddr < first || page >= c->count || c->io[page / READ_PAGES * READ_PAGES].io.status)
		return NULL;
	return c->buf + page * META_PAGE_BYTES;
}

static struct touch *idle_touch(struct meta__collect *c)
{
	for (uint32_t i = 0; i < TOUCHES_MAX; i++)
		if (!c->touch[i].busy)
			return &c->touch[i];
	UNREACHABLE();
}

/* Touch the next page of the batch, if it may live. */
static void touch_next(struct meta *m)
{
	struct meta__collect *c = m->collect;
	const uint32_t i = c->at++;
	const uint64_t baddr = meta__geo_zone_baddr(&m->zones->geo, c->zone) + 1 +
			       (uint64_t)(c->page + i) * META_PAGE_BLOCKS;
	struct touch *t = idle_touch(c);

	ASSERT(i < c->count);
	ASSERT(c->touching < TOUCHES_MAX);
	if ((c->one_by_one && c->io[i].io.status) ||
	    !header_take(m, baddr, c->buf + (size_t)i * META_PAGE_BYTES, &t->op))
		return;
	if (c->drains)
		meta__pace_take(m, META_PAGE_BLOCKS);
	t->busy = !meta_op_start(m, &t->op);
	c->touching += t->busy;
}

void meta__collect_op_done(struct meta *m, struct meta_op *op)
{
	struct touch *t = container_of(op, struct touch, op);

	ASSERT(t->busy && m->collect->touching > 0);
	t->busy = false; /* if it failed, the page stays where it is */
	m->collect->touching--;
}

bool meta__collect_idle(const struct meta *m)
{
	return m->collect->in_flight == 0 && m->collect->touching == 0;
}

bool meta__collect_turn(struct meta *m)
{
	struct meta__collect *c = m->collect;

	if (m->failed || c->in_flight || meta__check_running(m))
		return false;
	if (m->stopping && !meta__zone_short(m))
		return false; /* each touch would ask for one more checkpoint */
	if (c->zone == META__ZONE_NONE && !pick(m))
		return false;
	if (c->drains && (!drain_may(m) || rests(m))) {
		if (c->touching == 0)
			c->zone = META__ZONE_NONE; /* others may need another one emptied */
		return c->touching == 0;
	}
	if (!is_still(m))
		c->at = c->count = m->zones->geo.zone_pages - c->page; /* empty already */
	if (reads_again(m))
		return false;
	for (uint32_t n = 0; c->at < c->count; n++) {
		if (c->touching >= touches_max(m) || (c->drains && meta__pace_extents(m) == 0))
			return false;
		if (n == TOUCHES_MAX)
			return true;
		DASSERT(c->zone != META__ZONE_NONE);
		DASSERT(c->in_flight == 0);
		touch_next(m);
	}
	if (c->page + c->count < m->zones->geo.zone_pages) {
		read_batch(m);
		return false;
	}
	if (c->touching > 0)
		return false; /* (6) */
	zone_done(m);
	return true;
}

#ifdef WK_DEBUG

void meta__collect_check(const struct meta *m)
{
	const struct meta__collect *c = m->collect;
	uint32_t busy = 0;

	for (uint32_t i = 0; i < TOUCHES_MAX; i++)
		busy += c->touch[i].busy;
	ASSERT(busy == c->touching);
	ASSERT(c->in_flight <= BATCH);
	ASSERT(c->at <= c->count || c->in_flight == 0);
	ASSERT(c->touching == 0 || c->zone != META__ZONE_NONE); /* (6) */
}

#endif
