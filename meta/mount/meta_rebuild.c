/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Counts live data that moves in the background, and the room that it lacks: meta_rebuild.h.
 * Nothing of it is stored: all follows from the states of drives and zones.
 */
#include "meta/meta_rebuild.h"
#include "meta/engine/meta_fold.h"

#include "base/num.h"

void meta_rebuild_what(const struct meta *m, struct meta_rebuild *out)
{
	const uint32_t drive = m->mounted ? meta__drain_drive(m) : META_DRIVES_MAX;

	*out = (struct meta_rebuild){ .what = META_REBUILD_NONE, .drive = META_DRIVES_MAX };
	if (m->mounted && m->losing)
		out->drive = (uint32_t)__builtin_ctzll(m->losing);
	else
		out->drive = drive;
	ASSERT(out->drive <= META_DRIVES_MAX);
	if (out->drive < META_DRIVES_MAX)
		out->what = !m->losing && m->zones->geo.state[drive] == DRIVE_DRAINS
				    ? META_REBUILD_DRAIN
				    : META_REBUILD_LOST;
	else if (m->mounted && m->copies > 1 && (m->zones->lone > 0 || m->converts))
		out->what = META_REBUILD_COPIES;
}

/* Adds a group whose content must move. */
static void add(struct meta_rebuild *out, const struct meta__zone *at)
{
	if (at->kind != META__ZONE_DATA && at->kind != META__ZONE_PAGE)
		return;
	out->left_blocks += at->live;
	if (at->kept && at->live >= at->kept)
		out->kept_blocks += at->live;
	ASSERT(out->kept_blocks <= out->left_blocks);
}

/* ... or all zones of a fold; once, with the first of these drives. */
static void add_zone(const struct meta *m, struct meta_rebuild *out, uint32_t zone, uint64_t drives)
{
	uint32_t member[META_FOLD_MAX] = { meta__pair_first(m, zone) }, count = 1;
	const uint64_t of = meta__drives_of(m, member[0]) & drives;

	ASSERT(of);
	if (META_BADDR_DRIVE(meta__geo_zone_baddr(&m->zones->geo, zone)) !=
	    (uint32_t)__builtin_ctzll(of))
		return;
	if (meta__in_fold(meta__zone_at(m, zone)))
		count = meta__fold_members(m, zone, member);
	ASSERT(count <= META_FOLD_MAX);
	for (uint32_t i = 0; i < count; i++)
		add(out, meta__zone_at(m, member[i]));
}

/* Returns the drives of which the content moves: one, or all that are lost. */
static uint64_t drives_of(const struct meta *m, const struct meta_rebuild *out)
{
	uint64_t drives = out->drive < META_DRIVES_MAX ? 1ull << out->drive : 0;

	ASSERT(out->what != META_REBUILD_NONE);
	ASSERT(out->drive < META_DRIVES_MAX || out->what == META_REBUILD_COPIES);
	if (out->what != META_REBUILD_LOST)
		return drives;
	for (uint32_t d = 0; d < m->zones->geo.ndrives; d++)
		drives |= (uint64_t)(m->zones->geo.state[d] == DRIVE_LOST) << d;
	return drives | m->losing;
}

/* Zones of the drives, and groups elsewhere that lack some. */
static void add_zones(const struct meta *m, struct meta_rebuild *out)
{
	const struct meta__zones *z = m->zones;
	const struct meta__geo *g = &z->geo;
	const uint64_t drives = drives_of(m, out);

	ASSERT(out->left_blocks == 0);
	ASSERT(!drives || out->what != META_REBUILD_COPIES);
	for (uint32_t d = 0; d < g->ndrives; d++) {
		const uint32_t first = g->zone_base[d], end = first + g->zone_count[d];
		const bool all = drives >> d & 1;

		ASSERT(end <= g->nzones);
		for (uint32_t i = first; (all || z->lone > 0) && i < end; i++)
			if (all)
				add_zone(m, out, i, drives);
			else if (z->zone[i].lone && !(meta__drives_of(m, i) & drives))
				add(out, &z->zone[i]);
	}
}

/* Has some group fewer copies that can be read than new ones get? */
static bool any_moves(const struct meta *m)
{
	const struct meta__zones *z = m->zones;
	const uint32_t width = meta__width(m);
	bool moves = false;

	ASSERT(width >= 1 && width <= META_COPIES_MAX);
	ASSERT(m->mounted && m->copies > 1);
	for (uint32_t i = 0; width > 1 && !moves && i < z->geo.nzones; i++)
		if (z->zone[i].live > 0)
			moves = meta__drives_read(m, meta__drives_of(m, i)) < width;
	return moves;
}

void meta_rebuild_count(const struct meta *m, struct meta_rebuild *out)
{
	meta_rebuild_what(m, out);
	if (out->what == META_REBUILD_NONE)
		return;
	add_zones(m, out);
	out->alone = out->what != META_REBUILD_DRAIN && meta__width(m) < m->copies && !any_moves(m);
	if (!out->alone) {
		out->short_blocks = min_u64(meta__room_short(m, true), out->left_blocks);
		out->tight_blocks = min_u64(meta__room_short(m, false), out->left_blocks);
	}
	out->cannot = m->boot->drain.cannot && out->left_blocks == 0;
	ASSERT(out->tight_blocks <= out->left_blocks);
	ASSERT(m->copies > 1 || out->what == META_REBUILD_DRAIN);
}

void meta_rebuild_spare(struct meta *m, uint32_t drives)
{
	ASSERT(drives <= META_DRIVES_MAX || drives == META_SPARE_AUTO);
	m->conf.spare_drives = drives;
}
