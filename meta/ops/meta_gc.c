/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Collection of data zones: which are emptied, when, and how fast.
 *
 *   free zones  |<-- reserve -->|<-- soon -->|
 *               |    data waits | collection |  nothing to do
 *
 *   pick victims --> find their live blocks (meta_gc_find.c) --> move them (meta_gc_move.c)
 *        ^                                                              |
 *        '--- all are free after one checkpoint <-- all are empty <-----'
 *             (meta_zone.c)
 *
 * meta_collect.c collects pages; the two share free zones and nothing else.
 *
 *  (1) A victim is a closed data zone with the best dead * age / (zone + live): the gain and its
 *      duration against the cost of reading and writing.  While zones are not short, a zone that is
 *      nearly all live is left alone; when data is about to wait, any zone that wins a block will
 *      do.
 *  (2) A round is as large as free space allows, and one checkpoint frees all that it won:
 *      a checkpoint for each zone would write most of a small index each time.  A round begins when
 *      `soon` zones are left, no earlier: in a zone that was emptied early and waits, nothing more
 *      dies.  The pace follows free space: the fewer zones are free, the more of META__GC_MOVES
 *      extents move at once.  Data does not take the room that the round still needs: it waits
 *      [test_meta_gc:one_checkpoint_frees_all_that_a_round_has_won].
 *  (3) Moved data has its own open zone: live blocks found by collection are older than new data,
 *      and should not share its zone.  It may take zones of the reserve, but not the last ones.
 *  (4) All victims of a round fit into the room for moved data, so a round never waits for itself.
 *  (5) A round ends.  Each emptied victim reduces the garbage; a victim that cannot be emptied
 *      (rot, a bad page) is not tried again before more of it dies; and when no zone is
 *      worth it, or there is no place to move to, collection stops until blocks die or a
 *      zone becomes free.  Then operations that find the store full get -ENOSPC
 *      [test_meta_gc:rotten_block_is_named_stays_where_it_is_and_holds_up_nobody].
 *  (6) While zones are not short, and one drive is much fuller for its size than another, newer
 *      one, live data moves there until they are about even: one extent at a time, only so many
 *      zones that the order does not reverse, then a checkpoint.  A moved block goes to the
 *      emptiest drive anyway (meta_zone.c).  If a round did not narrow the gap, the next one
 *      waits for twice as many checkpoints as it did, 64 at most.  So an idle store stops
 *      moving data.  Collection does not move the log or the index, so a drive that holds more of
 *      them may stay fuller
 *      [test_meta_drives:what_lives_spreads_over_a_new_one_of_the_same_size].
 *  (7) All live data on a drive that is being drained is moved, however little is dead; in turn
 *      with other collection.  No operation that waits for room waits for that: it wins none
 *      [test_meta_drain:store_moves_from_its_only_drive_to_another_and_on].
 *  (8) A block that gets a further copy takes one place more than it frees.  So such
 *      copies leave the last zones to other collection, which wins more with them.  Other
 *      collection leaves a zone alone if moving its blocks would win nothing.  When only these
 *      zones are left, new data gives back the room ahead of it: meta_alloc.c (5)
 *      [test_meta_protect_full, test_meta_full_rebuild].
 *  (9) The zones of a fold (meta_fold.c) are victims together, judged by their live blocks and age
 *      together: emptying one of them alone frees nothing
 *      [test_meta_fold:folds_are_collected_as_a_whole].
 */
#include "meta/meta_rebuild.h"
#include "meta/engine/meta_fold.h"
#include "meta/ops/meta_gc.h"

#include <stdlib.h>

#define AGE_MAX        32u
#define FINDS_PER_TURN 4u
#define EVEN_ZONES     4u /* at once, before a checkpoint frees them */
#define UNEVEN         8u /* when it begins: an eighth of the drive; it ends at half of that */
#define EVEN_WHOLE     (1u << 30) /* a drive, in the unit of gaps */
#define EVEN_PAUSE_MAX 64u        /* checkpoints */

uint64_t meta__gc_memory(const struct meta_conf *c)
{
	(void)c;
	return 2 * (uint64_t)META__GC_MOVES * META__GC_BLOCKS * META__BLOCK;
}

int meta__gc_create(struct meta *m)
{
	struct meta__gc *g = calloc(1, sizeof(*g));
	uint8_t *mem;

	if (!g)
		return -ENOMEM;
	m->gc = g;
	meta_rebuild_pace(m, META__GC_MOVES, META_PACE_FREE);
	mem = meta__mem_take(m, meta__gc_memory(&m->conf));
	for (uint32_t i = 0; i < META__GC_MOVES; i++) {
		g->move[i].buf = mem + 2 * (size_t)i * META__GC_BLOCKS * META__BLOCK;
		g->move[i].sum = g->move[i].buf + (size_t)META__GC_BLOCKS * META__BLOCK;
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
	DASSERT(m->zones->geo.zone_end > 1);
	return m->zones->geo.zone_end - 1;
}

/* Returns the number of zones left for data at which a round begins. */
static uint32_t soon(const struct meta *m)
{
	return max_u32(2, meta__groups_total(m) / 32);
}

static uint32_t free_for_data(const struct meta *m)
{
	const uint32_t zones = meta__groups_free(m), reserve = meta__zone_reserve(m, true);

	return zones > reserve ? zones - reserve : 0;
}

/* Returns the zones that data may still take, including those that are free after a checkpoint. */
static uint32_t reach(const struct meta *m)
{
	const struct meta__zones *z = m->zones;
	const uint32_t zones = meta__groups_free(m) + z->coming,
		       reserve = meta__zone_reserve(m, true);

	return zones > reserve ? zones - reserve : 0;
}

static uint64_t room_of(const struct meta *m, const struct meta__supply *s)
{
	ASSERT(s->open == META__ZONE_NONE || s->room > 0);
	return s->room + (uint64_t)s->opening * a_zone(m);
}

/* Returns the blocks that stand ready for new data. */
static uint64_t ahead(const struct meta *m)
{
	uint64_t blocks = 0;

	ASSERT(m->zones->geo.ndrives <= META_DRIVES_MAX);
	for (uint32_t d = 0; d < m->zones->geo.ndrives; d++)
		blocks += room_of(m, &m->zones->data[d]);
	return blocks;
}

/* Blocks of closed data zones in which nothing lives. */
static uint64_t garbage(const struct meta *m)
{
	const struct meta__zones *z = m->zones;
	const uint64_t places = (uint64_t)z->data_zones * a_zone(m);
	const uint64_t used = z->live_blocks + ahead(m) + room_of(m, &z->moved);

	return places > used ? places - used : 0;
}

static bool has_given_up(const struct meta *m)
{
	const struct meta__gc *g = m->gc;
	const struct meta__zones *z = m->zones;

	return g->gave_up && z->deaths - g->gave_up_deaths < max_u32(1, a_zone(m) / 8) &&
	       meta__moved_room(m) <= g->gave_up_room; /* (5) */
}

/* Remembers the largest number of places that was not enough: places come and go with the log. */
static void give_up(struct meta *m)
{
	struct meta__gc *g = m->gc;
	const uint64_t room = meta__moved_room(m);

	ASSERT(g->victims == 0);
	if (g->evens)
		return; /* it tries again after the next checkpoint */

	if (g->gave_up && g->gave_up_deaths == m->zones->deaths)
		g->gave_up_room = max_u64(g->gave_up_room, room);
	else
		g->gave_up_room = room;
	g->gave_up = true;
	g->gave_up_deaths = m->zones->deaths;
}

static bool is_due(const struct meta *m)
{
	return reach(m) < soon(m) && garbage(m) >= a_zone(m);
}

bool meta__gc_due(const struct meta *m)
{
	return is_due(m) && !has_given_up(m);
}

/* ---- drives that are not equally full (6) ----------------------------------------------- */

/* On a drive with few zones, one zone is more than the difference that matters. */
static bool says_much(const struct meta *m, uint32_t drive)
{
	return m->zones->geo.zone_count[drive] >= 2 * UNEVEN && meta__drive_serves(m, drive);
}

static uint64_t free_share(const struct meta *m, uint32_t drive)
{
	ASSERT(m->zones->geo.zone_count[drive] > 0);
	return EVEN_WHOLE * meta__zone_free_on(m, drive) / m->zones->geo.zone_count[drive];
}

/* Returns how many zones must move from one drive to the other to make them even. */
static uint32_t zones_between(const struct meta *m, uint64_t gap, uint32_t from, uint32_t to)
{
	const uint64_t a = m->zones->geo.zone_count[from], b = m->zones->geo.zone_count[to];

	ASSERT(a + b > 0);
	ASSERT(from != to);
	return (uint32_t)max_u64(1, gap * (a * b / (a + b)) / EVEN_WHOLE);
}

/* Between the fullest and the emptiest; 0 where there is nothing to compare. */
static uint64_t look_gap(struct meta *m)
{
	struct meta__gc *g = m->gc;
	uint64_t least = EVEN_WHOLE, most = 0;
	uint32_t to = 0;

	for (uint32_t d = 0; d < m->zones->geo.ndrives; d++) {
		if (!says_much(m, d))
			continue;
		if (free_share(m, d) <= least) {
			least = free_share(m, d);
			g->from = d;
		}
		if (free_share(m, d) >= most) {
			most = free_share(m, d);
			to = d;
		}
	}
	if (most <= least)
		return 0;
	g->even_zones = min_u32(EVEN_ZONES, zones_between(m, most - least, g->from, to));
	ASSERT(g->even_zones >= 1); /* (6) */
	ASSERT(g->even_zones <= EVEN_ZONES);
	return most - least;
}

void meta__gc_look_drains(struct meta *m)
{
	ASSERT(m->mounted);
	m->gc->drain_epoch = UINT64_MAX;
	meta__collect_look_drains(m);
}

void meta__gc_look_even(struct meta *m)
{
	m->gc->even_next = m->gc->even_pause = 0;
}

/* Checked after each checkpoint, which frees emptied zones. */
static bool is_uneven(struct meta *m)
{
	struct meta__gc *g = m->gc;
	const bool was = g->evens;
	uint64_t gap;

	if (m->zones->geo.ndrives == 1 || m->zones->epoch < g->even_next)
		return false;
	if (free_for_data(m) < soon(m)) {
		g->evens = false;
		return false;
	}
	gap = look_gap(m);
	ASSERT(gap <= EVEN_WHOLE);
	g->even_next = m->zones->epoch + 1;
	g->evens = gap > EVEN_WHOLE / UNEVEN / (was ? 2 : 1);
	if (was && gap < g->even_gap) {
		g->even_pause = 0;
	} else if (was && g->evens) {
		g->evens = false;
		g->even_pause = min_u32(max_u32(1, 2 * g->even_pause), EVEN_PAUSE_MAX);
		g->even_next += g->even_pause;
	}
	g->even_gap = gap;
	return g->evens;
}

/* Between two rounds of evening: the zones emptied by the last one must become free first. */
static bool even_waits(struct meta *m)
{
	const struct meta__zones *z = m->zones;

	if (!m->gc->evens)
		return false;
	if (z->coming_data)
		meta__ckpt_want(m);
	return z->coming_data || !list_empty(&z->frozen) || !list_empty(&z->leaving);
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
	return m->gc->victims > 0 && !m->gc->drains;
}

bool meta__gc_hopes(const struct meta *m)
{
	return meta__gc_may(m) && (meta__gc_busy(m) || (is_due(m) && !has_given_up(m)));
}

/* ---- a drive to be emptied (7) ------------------------------------------------------------- */

/* Since it could move nothing something has changed. */
static bool drain_due(struct meta *m)
{
	struct meta__gc *g = m->gc;
	const struct meta__zones *z = m->zones;

	if (g->drain_epoch == z->epoch && g->drain_deaths == z->deaths &&
	    g->drain_free == z->free_total)
		return false;
	ASSERT(g->victims == 0);
	return meta__any_leaves(m);
}

static void drain_rests(struct meta *m)
{
	m->gc->drain_epoch = m->zones->epoch;
	m->gc->drain_deaths = m->zones->deaths;
	m->gc->drain_free = m->zones->free_total;
}

bool meta__gc_drains(const struct meta *m)
{
	const struct meta__gc *g = m->gc;
	const struct meta__zones *z = m->zones;

	return g->victims || g->drain_epoch != z->epoch || g->drain_deaths != z->deaths ||
	       g->drain_free != z->free_total;
}

/* ---- which (1) ------------------------------------------------------------------------------ */

/* The zones that are emptied together: one, or the data zones of a fold (9). */
struct unit {
	uint32_t zone[META_FOLD_MAX], count;
	uint64_t live, closed;
	uint64_t cost; /* places that its live blocks take elsewhere: a lone group's more (8) */
};

static struct unit unit_of(const struct meta *m, uint32_t zone)
{
	struct unit u = { .zone = { zone }, .count = 1 };
	uint32_t lone;

	if (unlikely(meta__in_fold(meta__zone_at(m, zone))))
		u.count = meta__fold_members(m, zone, u.zone);
	for (uint32_t i = 0; i < u.count; i++) {
		u.live += meta__zone_at(m, u.zone[i])->live;
		u.closed = max_u64(u.closed, meta__zone_at(m, u.zone[i])->closed);
	}
	u.cost = u.live;
	lone = meta__zone_at(m, zone)->lone;
	if (unlikely(lone) && lone < meta__width(m))
		u.cost = min_u64(div_up(u.live * meta__width(m), lone), a_zone(m));
	ASSERT(u.zone[0] == zone);
	return u;
}

/* A fold is looked at once: with the zone after its parity. */
static bool is_looked_at(const struct meta *m, uint32_t zone)
{
	const struct meta__zone *at = meta__zone_at(m, zone);

	ASSERT(zone < m->zones->geo.nzones);
	if (likely(!meta__in_fold(at)))
		return true;
	return !at->parity && !m->gc->evens &&
	       meta__pair_first(m, meta__fold_parity(m, zone)) == zone;
}

/* Returns the places that a fold would save if it were as wide as others. */
static uint64_t narrow(const struct meta *m, const struct unit *u)
{
	const uint32_t width = meta__fold_width(m);

	ASSERT(u->count > 0);
	if (likely(u->count == 1) || u->count >= width)
		return 0;
	return (uint64_t)a_zone(m) * (width - u->count) / width;
}

static uint64_t worth(const struct meta *m, const struct unit *u)
{
	const uint64_t places = (uint64_t)a_zone(m) * u->count;
	const uint64_t dead = places - u->cost + narrow(m, u);
	const uint64_t age = min_u64(m->zones->epoch - u->closed + 1, AGE_MAX);

	ASSERT(u->live <= places);
	ASSERT(u->closed <= m->zones->epoch);
	if (m->gc->evens || m->gc->drains)
		return 1 + places - u->live;
	return (dead * age << 20) / (places + u->cost);
}

static bool may_be_victim(const struct meta *m, const struct unit *u)
{
	const uint64_t places = (uint64_t)a_zone(m) * u->count;
	const bool any = m->gc->evens || m->gc->drains;
	const uint64_t most = any ? places + 1 : reach(m) > 1 ? places - places / 8 : places;

	ASSERT(u->count > 0 && u->count <= META_FOLD_MAX);
	for (uint32_t i = 0; i < u->count; i++) {
		const struct meta__zone *at = meta__zone_at(m, u->zone[i]);

		if (at->state != ZONE_CLOSED || at->kind != META__ZONE_DATA || at->pending ||
		    at->folding || (at->kept && at->live >= at->kept))
			return false;
	}
	return (any ? u->live : u->cost) < most;
}

/* (4), (8) */
static uint64_t room_for_round(const struct meta *m)
{
	const uint64_t room = meta__moved_room(m);
	const uint64_t kept = (uint64_t)(META__LEFT_ZONES + meta__fold_width(m)) * a_zone(m);

	ASSERT(m->gc->victims == 0 && a_zone(m) > 0);
	if (!m->gc->drains || !meta__in_pairs(m) || garbage(m) + ahead(m) < a_zone(m))
		return room;
	return room > kept ? room - kept : 0;
}

/* Takes the unit if there is room for it all; of a fold on a drive that leaves as many zones as
 * there is room for: pairs are folded then, and win room for the others (9). */
static void take_unit(struct meta *m, const struct unit *u, uint64_t *left, bool held)
{
	struct meta__gc *g = m->gc;

	if (u->live > *left && !g->drains)
		return;
	for (uint32_t i = 0; i < u->count && g->victims < META__GC_VICTIMS; i++) {
		struct meta__zone *at = meta__zone_at(m, u->zone[i]);

		ASSERT(at->state == ZONE_CLOSED); /* (1) */
		ASSERT(at->kind == META__ZONE_DATA);
		ASSERT(!at->victim);
		if (at->live == 0 || at->live > *left)
			continue;
		ASSERT(at->live <= *left); /* (4) */
		*left -= at->live;
		m->zones->claim += held ? 0 : at->live;
		at->victim = true;
		g->victim[g->victims++] = u->zone[i];
	}
}

static bool pick(struct meta *m)
{
	struct meta__gc *g = m->gc;
	struct meta__zones *z = m->zones;
	const uint32_t max = g->evens ? g->even_zones : META__GC_VICTIMS;
	const bool one = g->evens, held = z->drain_zones > 0;
	const uint32_t first = one ? z->geo.zone_base[g->from] : 0;
	const uint32_t end = one ? first + z->geo.zone_count[g->from] : z->geo.nzones;
	uint64_t best[META__GC_VICTIMS], left = room_for_round(m);
	uint32_t n = 0, unit[META__GC_VICTIMS];

	ASSERT(g->victims == 0);
	ASSERT(!g->finding);
	ASSERT(max <= META__GC_VICTIMS);
	for (uint32_t i = first; i < end; i++) {
		struct unit u;
		uint64_t w;
		uint32_t at;

		if (z->zone[i].state != ZONE_CLOSED || !is_looked_at(m, i))
			continue;
		u = unit_of(m, i);
		w = may_be_victim(m, &u) ? worth(m, &u) : 0;
		if (g->drains && (u.live == 0 || !meta__leaves(m, i)))
			continue;
		if (w == 0 || (n == max && w <= best[n - 1]))
			continue;
		n = min_u32(n + 1, max);
		for (at = n - 1; at > 0 && best[at - 1] < w; at--) {
			best[at] = best[at - 1];
			unit[at] = unit[at - 1];
		}
		best[at] = w;
		unit[at] = i;
	}
	g->victims = 0;
	for (uint32_t i = 0; i < n; i++) {
		const struct unit u = unit_of(m, unit[i]);

		/* drain_zones holds the places */
		take_unit(m, &u, &left, g->drains && held);
	}
	g->no_room = false;
	return g->victims > 0;
}

/* All that was found has been moved, or could not be. */
static void round_done(struct meta *m)
{
	struct meta__gc *g = m->gc;
	uint32_t emptied = 0;

	ASSERT(g->moving == 0);
	ASSERT(g->found_all);
	for (uint32_t i = 0; i < g->victims; i++) {
		struct meta__zone *at = meta__zone_at(m, g->victim[i]);

		emptied += !at->victim || at->live == 0; /* meta__zone_settle(); a part of a fold */
		if (at->victim && !g->no_room)
			at->kept = at->live; /* (5) */
		at->victim = false;
	}
	ASSERT(emptied <= g->victims); /* (5) */
	g->zones += emptied;
	g->victims = 0;
	m->zones->claim = 0;
	if (g->drains && emptied == 0)
		drain_rests(m);
	if (g->drains)
		return;
	g->gave_up &= emptied == 0;
	if (emptied == 0)
		give_up(m);
}

/* (8).  False: there is room, or nobody can give any. */
static bool gets_room(struct meta *m)
{
	ASSERT(m->gc->drains && m->gc->victims == 0);
	if (room_for_round(m) >= a_zone(m) || ahead(m) == 0)
		return false;
	meta__supply_yield(m);
	return true;
}

/* ---- how fast (2) --------------------------------------------------------------------------- */

static uint32_t moves_max(const struct meta *m)
{
	const uint32_t missing = soon(m) - min_u32(free_for_data(m), soon(m));
	const uint32_t most =
		max_u32(m->gc->drains ? META__GC_MOVES / 2 : 1,
			min_u32(META__GC_MOVES, missing * META__GC_MOVES * 2 / soon(m)));

	return m->gc->drains ? min_u32(most, meta__pace_extents(m)) : most;
}

/* A checkpoint frees empty zones; one for a round, and before data waits.  Not for page zones: each
 * checkpoint leaves some behind, and would request the next. */
static void checkpoint(struct meta *m)
{
	const struct meta__zones *z = m->zones;

	if (m->gc->victims == 0 && z->coming_data && !meta__ckpt_running(m) &&
	    meta__groups_free(m) < meta__zone_reserve(m, true) + 2 + soon(m) / 8)
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
	checkpoint(m);
	if (g->victims == 0) {
		const bool due = is_due(m) && !has_given_up(m);

		g->drains = !(due && g->in_turn) && drain_due(m);
		g->in_turn = g->drains;
		g->evens &= !g->drains;
		if (!due && !g->drains && even_waits(m))
			return !list_empty(&m->zones->leaving); /* no event tells when they left */
		if (!due && !g->drains && !is_uneven(m))
			return false;
		if (due)
			g->evens = false;
		if (!pick(m)) {
			if (!g->drains)
				give_up(m);
			else if (gets_room(m))
				return true;
			else
				drain_rests(m);
			return g->drains && due; /* that comes next */
		}
		meta__gc_find_begin(m);
	}
	while (!g->finding && finds < FINDS_PER_TURN) {
		DASSERT(g->found_at <= g->found_count);
		DASSERT(g->moving <= META__GC_MOVES);
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
