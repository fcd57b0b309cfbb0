/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Collection of data zones: which are emptied, when, and how fast.
 *
 *   free zones  |<-- reserve -->|<-- margin -->|
 *               |    data waits |  collection  |  nothing to do
 *
 *   pick victims --> find what lives in them (meta_gc_find.c) --> move it (meta_gc_move.c)
 *        ^                                                              |
 *        '--- those that are empty: free behind a checkpoint <----------'
 *             (meta_zone.c)
 *
 * Pages are collected by meta_collect.c; the two share free zones and nothing else.
 *
 *  (1) A victim is a closed data zone with the best dead * age / (zone + live): what it wins and
 *      how long that lasts against what is read and written for it.  While zones are not short one
 *      that is nearly all life is left alone; who is about to wait takes any that wins a block.
 *  (2) The pace follows free space: of META__GC_MOVES extents at once as many as zones are missing
 *      in the margin, so that it is at full speed before anybody waits.
 *  (3) Moved data has an open zone of its own: what was found alive is older than what is new, and
 *      should not share its zone.  It may take zones of the reserve, and not the last of them.
 *  (4) All victims of a round fit into what moved data may take, so a round never waits for itself.
 *  (5) A round ends.  Each victim that is emptied leaves less garbage in all; one that cannot be
 *      (rot, a page that is bad) is not tried again before more of it dies; and when no zone is
 *      worth it, or there is no place to move to, collection gives up until something dies or a
 *      zone becomes free.  Then who finds the store full is told -ENOSPC.
 */
#include "meta/meta_gc.h"

#include <stdlib.h>

#define AGE_MAX        32u
#define FINDS_PER_TURN 4u

uint64_t meta__gc_memory(const struct meta_conf *c)
{
	(void)c;
	return (uint64_t)META__GC_MOVES * META__GC_BLOCKS * META__BLOCK;
}

int meta__gc_create(struct meta *m)
{
	struct meta__gc *g = calloc(1, sizeof(*g));
	uint8_t *mem;

	if (!g)
		return -ENOMEM;
	m->gc = g;
	mem = meta__mem_take(m, meta__gc_memory(&m->conf));
	for (uint32_t i = 0; i < META__GC_MOVES; i++) {
		g->move[i].buf = mem + (size_t)i * META__GC_BLOCKS * META__BLOCK;
		for (uint32_t k = 0; k < META__GC_BLOCKS; k++)
			list_init(&g->move[i].io[k].io.link);
	}
	return 0;
}

void meta__gc_destroy(struct meta *m)
{
	free(m->gc);
	m->gc = NULL;
}

/* ---- when --------------------------------------------------------------------------------- */

static uint32_t a_zone(const struct meta *m)
{
	return m->zones->geo.zone_end - 1;
}

static uint32_t margin(const struct meta *m)
{
	return max_u32(3, m->zones->geo.nzones / 32);
}

/* Zones that data may still take, those that are free behind a checkpoint included. */
static uint32_t reach(const struct meta *m)
{
	const struct meta__zones *z = m->zones;
	const uint32_t zones = z->free_total + z->coming, reserve = meta__zone_reserve(m, true);

	return zones > reserve ? zones - reserve : 0;
}

/* Blocks of closed data zones in which nothing lives. */
static uint64_t garbage(const struct meta *m)
{
	const struct meta__zones *z = m->zones;
	uint64_t places = (uint64_t)z->data_zones * a_zone(m), used = z->live_blocks;

	for (uint32_t i = 0; i <= z->geo.ndrives; i++) {
		const struct meta__supply *s = i < z->geo.ndrives ? &z->data[i] : &z->moved;

		used += s->room + (uint64_t)s->opening * a_zone(m);
	}
	return places > used ? places - used : 0;
}

static bool has_given_up(const struct meta *m)
{
	const struct meta__gc *g = m->gc;
	const struct meta__zones *z = m->zones;

	return g->gave_up && z->deaths - g->gave_up_deaths < max_u32(1, a_zone(m) / 8) &&
	       meta__moved_room(m) <= g->gave_up_room; /* (5) */
}

/* Of the places that there were in vain the most counts: they come and go with the log. */
static void give_up(struct meta *m)
{
	struct meta__gc *g = m->gc;
	const uint64_t room = meta__moved_room(m);

	if (g->gave_up && g->gave_up_deaths == m->zones->deaths)
		g->gave_up_room = max_u64(g->gave_up_room, room);
	else
		g->gave_up_room = room;
	g->gave_up = true;
	g->gave_up_deaths = m->zones->deaths;
}

static bool is_due(const struct meta *m)
{
	return reach(m) < margin(m) && garbage(m) >= a_zone(m);
}

bool meta__gc_may(const struct meta *m)
{
	return m->mounted && !m->failed && !m->stopping && !meta__check_running(m);
}

bool meta__gc_idle(const struct meta *m)
{
	return m->gc->moving == 0 && !m->gc->finding;
}

bool meta__gc_busy(const struct meta *m)
{
	return m->gc->victims > 0;
}

bool meta__gc_hopes(const struct meta *m)
{
	return meta__gc_may(m) && (meta__gc_busy(m) || (is_due(m) && !has_given_up(m)));
}

/* ---- which (1) ------------------------------------------------------------------------------ */

static uint64_t worth(const struct meta *m, const struct meta__zone *at)
{
	const uint32_t places = a_zone(m), dead = places - at->live;
	const uint64_t age = min_u64(m->zones->epoch - at->closed + 1, AGE_MAX);

	return ((uint64_t)dead * age << 20) / (places + at->live);
}

static bool may_be_victim(const struct meta *m, const struct meta__zone *at)
{
	const uint32_t places = a_zone(m);
	const uint32_t most = reach(m) > 1 ? places - places / 8 : places;

	return at->state == ZONE_CLOSED && at->kind == META__ZONE_DATA && at->pending == 0 &&
	       at->live < most && (at->kept == 0 || at->live < at->kept);
}

static bool pick(struct meta *m)
{
	struct meta__gc *g = m->gc;
	struct meta__zones *z = m->zones;
	uint64_t best[META__GC_VICTIMS], left = meta__moved_room(m);
	uint32_t n = 0;

	for (uint32_t i = 0; i < z->geo.nzones; i++) {
		const uint64_t w = may_be_victim(m, &z->zone[i]) ? worth(m, &z->zone[i]) : 0;
		uint32_t at;

		if (w == 0 || (n == META__GC_VICTIMS && w <= best[n - 1]))
			continue;
		n = min_u32(n + 1, META__GC_VICTIMS);
		for (at = n - 1; at > 0 && best[at - 1] < w; at--) {
			best[at] = best[at - 1];
			g->victim[at] = g->victim[at - 1];
		}
		best[at] = w;
		g->victim[at] = i;
	}
	g->victims = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct meta__zone *at = &z->zone[g->victim[i]];

		if (at->live > left)
			continue;
		left -= at->live;
		z->claim += at->live;
		at->victim = true;
		g->victim[g->victims++] = g->victim[i];
	}
	g->no_room = false;
	return g->victims > 0;
}

/* All that was found has been moved, or could not be. */
static void round_done(struct meta *m)
{
	struct meta__gc *g = m->gc;
	uint32_t emptied = 0;

	for (uint32_t i = 0; i < g->victims; i++) {
		struct meta__zone *at = meta__zone_at(m, g->victim[i]);

		emptied += !at->victim; /* meta__zone_settle() */
		if (at->victim && !g->no_room)
			at->kept = at->live; /* (5) */
		at->victim = false;
	}
	g->zones += emptied;
	g->victims = 0;
	m->zones->claim = 0;
	g->gave_up &= emptied == 0;
	if (emptied == 0)
		give_up(m);
}

/* ---- how fast (2) --------------------------------------------------------------------------- */

static uint32_t moves_max(const struct meta *m)
{
	const uint32_t missing = margin(m) - min_u32(reach(m), margin(m));

	return max_u32(1, min_u32(META__GC_MOVES, missing * META__GC_MOVES * 2 / margin(m)));
}

/* Zones that are empty become free by a checkpoint; one for several, and before data waits.  Not
 * for page zones: each checkpoint leaves some behind, and would ask for the next. */
static void checkpoint(struct meta *m)
{
	const struct meta__zones *z = m->zones;

	if (z->coming_data && !meta__ckpt_running(m) &&
	    z->free_total < meta__zone_reserve(m, true) + 2 + margin(m) / 4)
		meta__ckpt_want(m);
}

void meta__gc_stat(const struct meta *m, struct meta_statfs *out)
{
	out->moved_blocks = m->gc->moved_blocks;
	out->zones_collected = m->gc->zones;
	out->bad_blocks = m->gc->bad_blocks;
}

bool meta__gc_turn(struct meta *m)
{
	struct meta__gc *g = m->gc;
	uint32_t finds = 0;

	if (!m->mounted)
		return false;
	meta__gc_moves_turn(m);
	if (!meta__gc_may(m))
		return false;
	if (g->victims == 0) {
		if (!is_due(m) || has_given_up(m))
			return false;
		if (!pick(m)) {
			give_up(m);
			return false;
		}
		meta__gc_find_begin(m);
	}
	checkpoint(m);
	while (!g->finding && finds < FINDS_PER_TURN) {
		if (g->found_at < g->found_count) {
			if (g->moving >= moves_max(m))
				return false;
			meta__gc_move_start(m, &g->found[g->found_at++]);
		} else if (g->found_all) {
			if (g->moving == 0)
				round_done(m);
			return g->moving == 0;
		} else {
			finds += meta__gc_find(m);
		}
	}
	return !g->finding;
}
