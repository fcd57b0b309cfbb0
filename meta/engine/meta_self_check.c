/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Counts zones and frames again, and compares the results with the counters: with WK_DEBUG only. */
#include "meta/engine/meta_self_check.h"
#include "meta/engine/meta_cache.h"
#include "meta/engine/meta_share.h"
#include "meta/engine/meta_tree.h"

#ifdef WK_DEBUG

static uint32_t list_count(const struct list *l, uint32_t most)
{
	uint32_t n = 0;

	for (const struct list *at = l->next; at != l; at = at->next, n++)
		ASSERT(n < most); /* or it goes round in a circle */
	return n;
}

/* ---- zones: the numbers are meta_zone.c's -------------------------------------------------- */

struct zone_sums {
	uint32_t coming, free_total, page_zones, data_zones;
	uint64_t live_blocks, promised;
};

static void zone_check(const struct meta *m, uint32_t zone, struct zone_sums *sum)
{
	const struct meta__zone *at = meta__zone_at(m, zone);
	const uint32_t drive = META_BADDR_DRIVE(meta__geo_zone_baddr(&m->zones->geo, zone));
	const bool serves = meta__drive_serves(m, drive);
	const bool done = at->state == ZONE_EMPTY || at->state == ZONE_FROZEN;

	ASSERT(!(done || at->state == ZONE_LEAVING || at->state == ZONE_FREE) ||
	       (at->live == 0 && at->pending == 0)); /* meta_zone.c (2) */
	ASSERT(at->state != ZONE_FREE || at->kind == META__ZONE_FREE);
	ASSERT(at->used <= m->zones->geo.zone_end);
	sum->coming += done && serves;
	sum->page_zones += at->kind == META__ZONE_PAGE;
	sum->data_zones += at->kind == META__ZONE_DATA;
	sum->live_blocks += at->kind == META__ZONE_DATA ? at->live : 0;
	sum->promised += at->kind == META__ZONE_DATA && !at->moved ? at->pending : 0;
}

/* Each supply has the room that its zones have: meta_alloc.c (1). */
static void supply_check(const struct meta *m, const struct meta__supply *s, uint32_t units,
			 uint32_t unit_blocks)
{
	const struct meta__zones *z = m->zones;
	uint64_t room = 0;

	for (const struct list *at = s->ready.next; at != &s->ready; at = at->next, room += units)
		ASSERT(list_entry(at, struct meta__zone, link)->state == ZONE_READY);
	if (s->open != META__ZONE_NONE) {
		ASSERT(meta__zone_at(m, s->open)->state == ZONE_OPEN);
		room += (z->geo.zone_end - meta__zone_at(m, s->open)->used) / unit_blocks;
	}
	ASSERT(room == s->room); /* meta_alloc.c (1) */
	ASSERT(s->opening <= META__ZONE_IOS || m->failed);
}

static void supplies_check(const struct meta *m)
{
	const struct meta__zones *z = m->zones;

	for (uint32_t d = 0; d < z->geo.ndrives; d++)
		supply_check(m, &z->data[d], z->geo.zone_end - 1, 1);
	supply_check(m, &z->moved, z->geo.zone_end - 1, 1);
	for (uint32_t i = 0; i < META__PAGE_SUPPLIES; i++)
		supply_check(m, &z->page[i], z->geo.zone_pages, META_PAGE_BLOCKS);
}

static void free_check(const struct meta *m, uint32_t drive)
{
	const struct meta__zones *z = m->zones;

	ASSERT(list_count(&z->free[drive], z->geo.nzones + 1) +
		       list_count(&z->fresh[drive], z->geo.nzones + 1) ==
	       z->free_count[drive]);
}

void meta__zones_check(const struct meta *m)
{
	const struct meta__zones *z = m->zones;
	struct zone_sums sum = { 0 };
	uint32_t deallocating = 0;

	if (!z->counted)
		return;
	for (uint32_t i = 0; i < z->geo.nzones; i++)
		zone_check(m, i, &sum);
	for (uint32_t d = 0; d < z->geo.ndrives; d++) {
		free_check(m, d);
		deallocating += z->deallocation[d].zone != META__ZONE_NONE;
		if (meta__drive_serves(m, d))
			sum.free_total +=
				z->free_count[d] + (z->deallocation[d].zone != META__ZONE_NONE);
	}
	ASSERT(deallocating == z->deallocating); /* meta_deallocate.c (5) */
	supplies_check(m);
	ASSERT(sum.promised == z->promised);
	ASSERT(sum.free_total == z->free_total); /* meta_zone.c (5) */
	ASSERT(sum.coming == z->coming);
	ASSERT(sum.page_zones == z->page_zones);
	ASSERT(sum.data_zones == z->data_zones);
	ASSERT(sum.live_blocks == z->live_blocks);
	ASSERT(z->epoch_oldest <= z->epoch); /* meta_zone.c (3) */
	ASSERT(z->epoch < z->epoch_oldest + META__EPOCHS);
}

/* ---- frames: the numbers are meta_cache.c's ------------------------------------------------- */

static void frame_check(struct meta *m, const struct meta__frame *f)
{
	const enum meta__frame_state state = meta__frame_state(f);

	ASSERT(state <= FRAME_FROZEN);
	if (state == FRAME_FREE)
		return;
	ASSERT(f->shard < m->nshards);
	ASSERT(state < FRAME_CLEAN ||
	       meta__cache_find(m, meta__frame_baddr(f)) == f); /* meta_cache.c (1) */
	ASSERT(state < FRAME_CLEAN || meta__page_count(f->page) > 0 || f->level == 0);
}

/* Not with readers: a borrower changes the states of its frames, which are counted later. */
void meta__cache_check(struct meta *m)
{
	const struct meta__cache *c = m->cache;
	uint32_t count[FRAME_FROZEN + 1] = { 0 };

	if (m->share)
		return;
	for (uint32_t i = 0; i < c->nframes; i++) {
		frame_check(m, &c->frame[i]);
		count[atomic_load_explicit(&c->frame[i].state, memory_order_relaxed)]++;
	}
	for (uint32_t s = 0; s <= FRAME_FROZEN; s++)
		ASSERT(count[s] == c->count[s]);
	ASSERT(list_count(&c->free, c->nframes) + c->leaving_count == count[FRAME_FREE]);
	ASSERT(c->uppers_dirty <= count[FRAME_DIRTY]);
	ASSERT(c->freezing <= count[FRAME_FROZEN]);
}

#endif
