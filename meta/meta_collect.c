/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Collection: a page zone in which little lives is emptied.
 *
 *   pick the emptiest closed page zone -> read headers, 8 pages at a time -> touch each that the
 *   tree still has there: it is dirty, its next place is in another zone -> (next checkpoint) the
 *   zone is empty, and free when the roots are durable
 *
 * A header says which shard, level and first key to look for; whether the page still lives there
 * only the tree knows (META__OP_TOUCH asks it).  So a header needs no trust.
 *
 *  (1) One zone at a time, one touch at a time.  Without need a touch a turn; in need, when free
 *      zones are about to be short, as fast as pages can be made dirty.
 *  (2) A zone that is nearly full of life is not worth it: emptying it would take as many pages
 *      as it frees.
 *  (3) Zones are emptied one after the other until none is worth it; then comes one checkpoint for
 *      all: pages share the path above them, which each generation writes but once.
 *  (4) Who finds the store full waits while collection hopes to win something; after
 *      FRUITLESS_MAX rounds that won nothing it is told -ENOSPC.
 *  (5) Nor does an idle store go on for ever: moving pages to gain nothing ends after as many
 *      rounds, until the log has moved on.
 */
#include "meta/meta_page.h"
#include "meta/meta_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BATCH         8u
#define FRUITLESS_MAX 3u

struct meta__collect {
	uint8_t *buf; /* BATCH blocks */
	struct meta__io io[BATCH];
	uint32_t in_flight;
	uint32_t zone;          /* being emptied; META__ZONE_NONE: none */
	uint32_t page;          /* of the zone: the first of this batch */
	uint32_t count, at;     /* headers in buf; the one that is looked at */
	uint64_t tried;         /* read epoch in which no zone was worth it */
	bool emptied;           /* some zone, in this round */
	uint32_t zones, budget; /* tried in this round; as many as there were when it began */
	bool won;               /* ... in the round that `tried` ended: free behind a checkpoint */
	uint32_t fruitless, best; /* rounds; free zones after the best one */
	uint64_t log_seq;         /* when they were counted */
	struct meta_op op;
	bool touching;
};

uint64_t meta__collect_memory(const struct meta_conf *c)
{
	(void)c;
	return (uint64_t)BATCH * META__BLOCK;
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
	uint64_t used = z->live_pages + z->page.room;

	return places > used ? places - used : 0;
}

static bool is_short(const struct meta *m)
{
	return m->zones->free_total < meta__zone_reserve(m, true) + 2;
}

/* Worth a look: zones are short, or more than half of what page zones hold is dead. */
static bool is_due(const struct meta *m)
{
	const struct meta__zones *z = m->zones;
	uint64_t dead = garbage(z);

	if (dead < 2 * (uint64_t)z->geo.zone_pages)
		return false;
	return is_short(m) || dead > z->live_pages + z->dirty_pages_max;
}

static uint32_t emptiest(const struct meta *m)
{
	const struct meta__zones *z = m->zones;
	uint32_t best = META__ZONE_NONE, best_live = z->geo.zone_pages * META_PAGE_BLOCKS * 3 / 4;

	for (uint32_t i = 0; i < z->geo.nzones; i++) {
		const struct meta__zone *at = &z->zone[i];

		if (at->state != ZONE_CLOSED || at->kind != META__ZONE_PAGE || at->stuck)
			continue;
		if (at->closed == z->epoch)
			continue; /* pages of it are not written yet: their headers say nothing */
		if (at->live > best_live) /* (2) */
			continue;
		best = i;
		best_live = at->live ? at->live - 1 : 0;
	}
	return best;
}

/* No zone is worth it any more, before a checkpoint has changed something. */
static void round_done(struct meta *m)
{
	struct meta__collect *c = m->collect;
	uint32_t free = m->zones->free_total + m->zones->coming;

	c->tried = m->zones->epoch;
	c->fruitless = c->emptied && free > c->best ? 0 : c->fruitless + 1;
	c->best = max_u32(c->best, free);
	c->won = c->emptied;
	c->emptied = false;
	c->zones = 0;
}

/* Will zones be free without anybody deleting anything?  (4) */
bool meta__collect_hopes(const struct meta *m)
{
	const struct meta__collect *c = m->collect;

	if (m->zones->coming || c->zone != META__ZONE_NONE || meta__gc_hopes(m))
		return true;
	if (!list_empty(&m->zones->leaving))
		return true;
	return c->fruitless < FRUITLESS_MAX && (c->tried == m->zones->epoch ? c->won : is_due(m));
}

bool meta__collect_busy(const struct meta *m)
{
	const struct meta__collect *c = m->collect;

	if (!m->mounted || m->failed || meta__check_running(m))
		return false;
	return c->zone != META__ZONE_NONE || meta__gc_busy(m) ||
	       (is_due(m) && c->tried != m->zones->epoch && c->fruitless < FRUITLESS_MAX);
}

static bool pick(struct meta *m)
{
	struct meta__collect *c = m->collect;

	if (!is_short(m) || meta__log_last(m) != c->log_seq)
		c->fruitless = c->best = 0; /* something has changed: (5) */
	else if (m->zones->coming ? !meta__collect_busy(m)
				  : meta__collect_hopes(m) && c->tried == m->zones->epoch)
		meta__ckpt_want(
			m); /* what others emptied, also when nothing is to be done here; (3) */
	c->log_seq = meta__log_last(m);
	if (!is_due(m) || c->tried == m->zones->epoch || (is_short(m) && meta__ckpt_running(m)))
		return false;
	if (c->fruitless >= FRUITLESS_MAX)
		return false; /* (5) */
	if (c->zones == 0 && !c->emptied)
		c->budget = m->zones->page_zones;
	c->zone = c->zones < c->budget ? emptiest(m) : META__ZONE_NONE;
	if (c->zone == META__ZONE_NONE) {
		round_done(m);
		return false;
	}
	c->page = c->count = c->at = 0;
	return true;
}

/* ---- emptying it ------------------------------------------------------------------ */

static void zone_done(struct meta *m)
{
	struct meta__collect *c = m->collect;
	struct meta__zone *at = meta__zone_at(m, c->zone);

	c->zones++;
	at->stuck = at->state == ZONE_CLOSED && at->live > 0;
	c->emptied |= !at->stuck;
	c->zone = META__ZONE_NONE;
}

static void read_batch(struct meta *m)
{
	struct meta__collect *c = m->collect;
	uint64_t baddr = meta__geo_zone_baddr(&m->zones->geo, c->zone) + 1;

	c->page += c->count;
	c->count = min_u32(BATCH, m->zones->geo.zone_pages - c->page);
	c->at = 0;
	for (uint32_t i = 0; i < c->count; i++) {
		uint64_t page = baddr + (uint64_t)(c->page + i) * META_PAGE_BLOCKS;

		c->io[i].kind = META__IO_COLLECT;
		c->io[i].io.op = META_IO_READ;
		c->io[i].io.drive = META_BADDR_DRIVE(page);
		c->io[i].io.block = META_BADDR_BLOCK(page);
		c->io[i].io.nblocks = 1;
		c->io[i].io.buf = c->buf + (size_t)i * META__BLOCK;
		c->io[i].io.status = 0;
		c->in_flight++;
		meta__io_want(m, &c->io[i]);
	}
}

void meta__collect_io_done(struct meta *m, struct meta__io *x)
{
	ASSERT(x->kind == META__IO_COLLECT);
	ASSERT(m->collect->in_flight > 0);
	m->collect->in_flight--;
}

/* What the page's header says, as the scratch of a touch; false: nothing that lives. */
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
	op->scratch[0] = le32_get(h.shard);
	op->scratch[1] = le16_get(h.level);
	op->scratch[2] = baddr;
	for (int i = 0; i < 3; i++)
		op->scratch[3 + i] = le64_get(h.first.w[i]);
	return true;
}

/* Touch the next page of the batch that may live; true: over at once. */
static bool touch_next(struct meta *m)
{
	struct meta__collect *c = m->collect;
	uint32_t i = c->at++;
	uint64_t baddr = meta__geo_zone_baddr(&m->zones->geo, c->zone) + 1 +
			 (uint64_t)(c->page + i) * META_PAGE_BLOCKS;

	if (c->io[i].io.status || !header_take(m, baddr, c->buf + (size_t)i * META__BLOCK, &c->op))
		return true;
	c->touching = !meta_op_start(m, &c->op);
	return !c->touching;
}

void meta__collect_op_done(struct meta *m, struct meta_op *op)
{
	ASSERT(op == &m->collect->op);
	ASSERT(m->collect->touching);
	m->collect->touching = false; /* if it failed, the page stays where it is */
}

bool meta__collect_turn(struct meta *m)
{
	struct meta__collect *c = m->collect;

	if (m->failed || c->in_flight || c->touching || meta__check_running(m))
		return false;
	if (c->zone == META__ZONE_NONE && !pick(m))
		return false;
	if (meta__zone_at(m, c->zone)->state != ZONE_CLOSED) {
		zone_done(m); /* empty already */
		return true;
	}
	if (c->at == c->count) {
		if (c->page + c->count == m->zones->geo.zone_pages)
			zone_done(m);
		else
			read_batch(m);
		return c->in_flight == 0;
	}
	return touch_next(m) || is_short(m); /* (1) */
}
