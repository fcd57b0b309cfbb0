/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Counts space in groups of zones: a group is what the store opens at once (meta_pair.c).
 *
 *   copies of each block   1    2 or 3
 *   zones of a group       1    as many, or as there are drives that take zones, if these are fewer
 *
 *  (1) The zones of a group are on different drives, and in different domains (meta_domain.c).
 *      Zones of a drive that has more of them than all others can pair with make no groups, and so
 *      are no space
 *      [test_meta_pair:groups_of_any_width_are_as_many_as_can_be_made].
 *  (2) While fewer drives take zones than a block has copies, all groups that are opened are
 *      narrow, and none of them moves before it could be wider, since a drive has been added
 *      [test_meta_three:groups_are_as_wide_as_there_are_drives].
 */
#include "meta/engine/meta_domain.h"
#include "meta/engine/meta_fold.h"

#include "base/num.h"

#include <string.h>

uint32_t meta__taking(const struct meta *m)
{
	uint32_t n = 0;

	for (uint32_t d = 0; d < m->zones->geo.ndrives; d++)
		n += meta__drive_takes(m, d);
	return n;
}

uint32_t meta__width(const struct meta *m)
{
	ASSERT(m->copies >= 1 && m->copies <= META_COPIES_MAX);
	if (likely(m->copies == 1))
		return 1;
	return max_u32(1, min_u32(m->copies, meta__domains_taking(m)));
}

bool meta__in_pairs(const struct meta *m)
{
	return unlikely(m->copies > 1) && meta__domains_taking(m) > 1;
}

/* The largest k drives can give one zone each to a group, so the others must have width - k for
 * each: that bounds the groups for any k, and they can be made when no k forbids it. */
static uint32_t groups_of(const struct meta *m, const uint32_t *zones, uint32_t width)
{
	uint32_t largest[META_FOLD_ZONES] = { 0 }, sum = 0, groups;

	ASSERT(width >= 1 && width <= META_FOLD_ZONES);
	for (uint32_t d = 0; d < m->zones->geo.ndrives; d++) {
		uint32_t next = meta__drive_takes(m, d) ? zones[d] : 0;

		sum += next;
		for (uint32_t k = 0; k + 1 < width && next > 0; k++) {
			const uint32_t smaller = min_u32(next, largest[k]);

			largest[k] = max_u32(next, largest[k]);
			next = smaller;
		}
	}
	groups = sum / width;
	for (uint32_t k = 1; k < width; k++) {
		ASSERT(largest[k - 1] <= sum); /* (1) */
		sum -= largest[k - 1];
		groups = min_u32(groups, sum / (width - k));
	}
	return groups;
}

/* A domain gives one zone to a group, like a drive. */
static wk_cold uint32_t groups_of_domains(const struct meta *m, const uint32_t *zones,
					  uint32_t width)
{
	uint32_t on[META_DRIVES_MAX], sum[META_DRIVES_MAX];

	ASSERT(m->domains);
	for (uint32_t d = 0; d < m->zones->geo.ndrives; d++)
		on[d] = meta__drive_takes(m, d) ? zones[d] : 0;
	meta__domains_sum(m, on, sum);
	return groups_of(m, sum, width);
}

uint32_t meta__groups_on(const struct meta *m, const uint32_t *zones, uint32_t width)
{
	return likely(!m->domains) ? groups_of(m, zones, width)
				   : groups_of_domains(m, zones, width);
}

/* The width of most stores is a constant there. */
static uint32_t groups_on(const struct meta *m, const uint32_t *zones, uint32_t width)
{
	ASSERT(width >= META__PAIR); /* else zones are counted */
	return likely(width == META__PAIR) ? meta__groups_on(m, zones, META__PAIR)
					   : meta__groups_on(m, zones, width);
}

uint32_t meta__groups_made(const struct meta *m, const uint32_t *zones)
{
	ASSERT(m->copies > 1);
	return groups_on(m, zones, m->copies);
}

uint32_t meta__groups_free(const struct meta *m)
{
	uint32_t width;

	if (likely(m->copies < META__PAIR))
		return m->zones->free_total;
	width = meta__width(m);
	return width == 1 ? m->zones->free_total : groups_on(m, m->zones->free_count, width);
}

uint32_t meta__groups_total(const struct meta *m)
{
	const uint32_t width = meta__width(m);

	return likely(width == 1) ? m->zones->geo.zones_serving
				  : groups_on(m, m->zones->geo.zone_count, width);
}

uint32_t meta__groups_of(const struct meta *m, uint32_t zones)
{
	return likely(m->copies < META__PAIR) ? zones : (uint32_t)div_up(zones, meta__width(m));
}

uint32_t meta__wider_free(const struct meta *m, uint32_t copies)
{
	ASSERT(copies > m->copies);
	return groups_on(m, m->zones->free_count, copies);
}

uint32_t meta__wider_total(const struct meta *m, uint32_t copies)
{
	ASSERT(copies > m->copies);
	return groups_on(m, m->zones->geo.zone_count, copies);
}

/* ---- groups that lack a zone (2) ------------------------------------------------------------ */

uint32_t meta__narrow(const struct meta *m, uint32_t zone)
{
	const struct meta__zone *at = meta__zone_at(m, zone);
	uint32_t width;

	if (likely(m->copies < 2) || meta__in_fold(at) ||
	    (at->kind != META__ZONE_PAGE && at->kind != META__ZONE_DATA &&
	     at->kind != META__ZONE_TWIN))
		return 0;
	width = (uint32_t)__builtin_popcountll(meta__drives_of(m, zone));
	ASSERT(width <= m->copies);
	return width < m->copies ? width : 0;
}

void meta__zone_lone(struct meta *m, uint32_t zone, uint32_t width)
{
	struct meta__zones *z = m->zones;
	struct meta__zone *at = meta__zone_at(m, zone);
	const uint32_t d = META_BADDR_DRIVE(meta__geo_zone_baddr(&z->geo, zone));
	const bool is = width > 0, was = at->lone > 0, counts = at->kind != META__ZONE_TWIN;

	ASSERT(width < m->copies || !is);
	ASSERT(!was || z->lone_on[d] > 0);
	ASSERT(!was || !counts || z->lone_by[at->lone] > 0);
	z->lone_on[d] += (uint32_t)is - was;
	if (was && counts)
		z->lone_by[at->lone]--;
	if (is && counts)
		z->lone_by[width]++;
	z->lone += counts ? (uint32_t)is - was : 0;
	at->lone = (uint8_t)width;
}

uint32_t meta__lone_now(const struct meta *m)
{
	const uint32_t width = meta__width(m);
	uint32_t count = 0;

	ASSERT(width <= META_COPIES_MAX);
	for (uint32_t w = 1; w < width; w++)
		count += m->zones->lone_by[w];
	ASSERT(count <= m->zones->lone);
	return count;
}

void meta__zones_all_lone(struct meta *m)
{
	struct meta__zones *z = m->zones;

	ASSERT(m->copies > 1 && z->lone == 0);
	for (uint32_t i = 0; i < z->geo.nzones; i++) {
		const struct meta__zone *at = &z->zone[i];

		ASSERT(!at->parity && (at->twin == 0 || m->converts > 1)); /* meta_protect.c (1) */
		if (at->state != ZONE_FREE && at->state != ZONE_GONE)
			meta__zone_lone(m, i, meta__narrow(m, i));
	}
}

/* ---- what is kept for spare drives: meta_space.c (5) ---------------------------------------- */

static uint32_t leaving(const struct meta *m)
{
	uint32_t n = 0;

	for (uint32_t d = 0; d < m->zones->geo.ndrives; d++)
		n += m->zones->geo.state[d] == DRIVE_DRAINS ||
		     m->zones->geo.state[d] == DRIVE_LOST || (m->losing >> d & 1);
	return n;
}

static uint32_t largest(const struct meta *m, const uint32_t *zones)
{
	uint32_t best = 0;

	for (uint32_t d = 1; d < m->zones->geo.ndrives; d++)
		if (zones[d] > zones[best])
			best = d;
	ASSERT(best < m->zones->geo.ndrives);
	return best;
}

void meta__zones_taking(const struct meta *m, uint32_t on[META_DRIVES_MAX])
{
	const uint32_t ndrives = m->zones->geo.ndrives;

	ASSERT(ndrives <= META_DRIVES_MAX);
	for (uint32_t d = 0; d < ndrives; d++)
		on[d] = meta__drive_takes(m, d) ? m->zones->geo.zone_count[d] : 0;
}

/* Returns how many spare drives a store keeps room for that has this many copies. */
static uint32_t spare_drives(const struct meta *m, uint32_t copies)
{
	uint32_t spare = m->conf.spare_drives;
	const uint32_t left = meta__taking(m);

	ASSERT(copies >= 1 && copies <= META_COPIES_MAX);

	if (spare == META_SPARE_AUTO)
		spare = copies > 1;
	if (!m->zones->promises) /* meta_space.c (5), (7) */
		spare -= min_u32(spare, spare ? leaving(m) : 0);
	return left <= copies ? 0 : min_u32(spare, left - copies);
}

/* Returns the largest drive, of the domain that is left out already if that has another one; as
 * many domains stay as a block has copies.  META_DRIVES_MAX: none may be left out. */
static wk_cold uint32_t largest_of_domains(const struct meta *m, const uint32_t *on, uint64_t out,
					   uint32_t copies)
{
	uint32_t best = META_DRIVES_MAX, now = meta__domains_on(m, on);
	bool is_out = false;

	ASSERT(m->domains);
	for (uint32_t d = 0; d < m->zones->geo.ndrives; d++) {
		const bool follows = meta__mates(m, d) & out;
		uint32_t without[META_DRIVES_MAX];

		if (on[d] == 0 || (best < META_DRIVES_MAX && is_out >= follows &&
				   (is_out > follows || on[d] <= on[best])))
			continue;
		memcpy(without, on, sizeof(without));
		without[d] = 0;
		if (meta__domains_on(m, without) < min_u32(now, copies))
			continue;
		best = d;
		is_out = follows;
	}
	return best;
}

static void leave_out(const struct meta *m, uint32_t spare, uint32_t copies,
		      uint32_t on[META_DRIVES_MAX])
{
	uint64_t out = 0;

	ASSERT(spare < m->zones->geo.ndrives);
	for (; spare > 0; spare--) {
		const uint32_t d = likely(!m->domains) ? largest(m, on)
						       : largest_of_domains(m, on, out, copies);

		if (d == META_DRIVES_MAX)
			return;
		on[d] = 0;
		out |= 1ull << d;
	}
}

void meta__zones_left(const struct meta *m, uint32_t on[META_DRIVES_MAX])
{
	meta__zones_taking(m, on);
	leave_out(m, spare_drives(m, m->copies), m->copies, on);
}

/* Returns the groups kept back in a store that has this many copies. */
static uint32_t kept(const struct meta *m, uint32_t copies)
{
	uint32_t on[META_DRIVES_MAX], rest = 0, total = m->zones->geo.zones_serving;
	const uint32_t spare = spare_drives(m, copies);

	if (spare == 0)
		return 0;
	meta__zones_taking(m, on);
	if (copies > 1)
		total = groups_on(m, on, copies);
	leave_out(m, spare, copies, on);
	for (uint32_t d = 0; d < m->zones->geo.ndrives; d++)
		rest += on[d];
	if (copies > 1)
		rest = groups_on(m, on, copies);
	ASSERT(rest <= total); /* (1) */
	return total - rest;
}

uint32_t meta__groups_kept(const struct meta *m)
{
	return kept(m, m->copies);
}

uint32_t meta__wider_kept(const struct meta *m, uint32_t copies)
{
	ASSERT(copies > m->copies && meta__taking(m) >= copies);
	return kept(m, copies);
}
