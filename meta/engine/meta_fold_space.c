/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The space of folds (meta_fold.c): how much data fits into so many groups (meta_pair.c (6)).
 *
 *   all groups | reserve | always in groups | K zones of data and their parity ... | groups |
 *                        |                  | as far as drives are alike            | rest   |
 *
 *  (1) Collection empties all zones of a fold together, and the folder needs a zone before it frees
 *      some.  So the reserve is larger (meta_space.c (1)): collection stops above what the folder
 *      needs, and new data above what collection needs for one fold
 *      [test_meta_fold_full:stores_that_had_changes_are_rebuilt].
 *  (2) The zones of a fold are on different drives, and in different domains (meta_domain.c), each
 *      of which counts as one drive here.  So no fold is wider than the number of drives that take
 *      new zones, and a store with fewer than two beside those of the parity makes none.
 *  (3) Some zones are always in groups: open ones, and those that wait for others
 *      [test_meta_fold:files_fill_what_folds_can_hold].
 *  (4) Files leave room for folds that are as narrow as after a loss: meta_space.c (5)
 *      [test_meta_fold_full:room_is_kept_for_the_folds_of_the_drives_that_stay].
 */
#include "meta/engine/meta_domain.h"
#include "meta/engine/meta_fold.h"

static uint32_t width_on(const struct meta *m, const uint32_t *on)
{
	const uint32_t parities = meta__fold_parities(m);
	const uint32_t drives = meta__domains_on(m, on);

	ASSERT(m->fold > 0);
	return drives < META__FOLD_MIN + parities ? 0
						  : min_u32(m->fold, drives - parities); /* (2) */
}

uint32_t meta__fold_width(const struct meta *m)
{
	uint32_t on[META_DRIVES_MAX];

	if (likely(m->fold == 0))
		return 0;
	meta__zones_taking(m, on);
	return width_on(m, on);
}

uint32_t meta__folder_room(const struct meta *m)
{
	return 1 + meta__fold_parities(m);
}

uint32_t meta__fold_room(const struct meta *m)
{
	const uint32_t width = meta__fold_width(m);

	ASSERT(width <= META_FOLD_MAX);
	return width ? width + meta__folder_room(m) : 0; /* (1) */
}

/* Returns how many zones of data there are if so many groups, of all that could be made, are for
 * them: that part of each drive.  Drives of different size have fewer folds, and the rest is in
 * pairs. */
static uint64_t zones_in(const struct meta *m, const uint32_t *on, uint64_t groups)
{
	const uint64_t all = meta__groups_made(m, on), width = width_on(m, on);
	uint32_t part[META_DRIVES_MAX], sum[META_DRIVES_MAX];
	uint64_t folds;

	ASSERT(groups <= all && width >= META__FOLD_MIN); /* (2) */
	meta__domains_sum(m, on, sum);
	for (uint32_t d = 0; d < m->zones->geo.ndrives; d++)
		part[d] = all ? (uint32_t)(sum[d] * groups / all) : 0;
	folds = meta__groups_on(m, part, (uint32_t)width + meta__fold_parities(m));
	for (uint32_t d = 0; d < m->zones->geo.ndrives; d++)
		part[d] -= (uint32_t)min_u64(part[d], folds);
	return max_u64(groups, folds * width + meta__groups_made(m, part));
}

/* (3) */
static uint64_t in_pairs(const struct meta *m, const uint32_t *on)
{
	uint64_t drives = 0;

	for (uint32_t d = 0; d < m->zones->geo.ndrives; d++)
		drives += on[d] > 0;
	ASSERT(drives > META__FOLD_MIN); /* (2) */
	return drives + width_on(m, on);
}

uint64_t meta__fold_zones(const struct meta *m, const uint32_t *on, uint64_t groups)
{
	const uint32_t width = likely(m->fold == 0) ? 0 : width_on(m, on);

	if (likely(width == 0))
		return groups;
	ASSERT(width <= META_FOLD_MAX);
	groups -= min_u64(groups, in_pairs(m, on));
	return zones_in(m, on, min_u64(groups, meta__groups_made(m, on)));
}

uint64_t meta__fold_groups(const struct meta *m, const uint32_t *on, uint64_t zones)
{
	const uint32_t width = likely(m->fold == 0) ? 0 : width_on(m, on);
	uint64_t least = 0, most = zones;

	if (likely(width == 0))
		return zones;
	if (zones > meta__groups_made(m, on))
		most = meta__groups_made(m, on);
	ASSERT(width <= META_FOLD_MAX && most <= zones);
	if (zones_in(m, on, most) < zones)
		return zones + in_pairs(m, on); /* more than there are */
	while (least < most) {
		const uint64_t groups = (least + most) / 2;

		if (zones_in(m, on, groups) >= zones)
			most = groups;
		else
			least = groups + 1;
	}
	return least + in_pairs(m, on);
}

uint64_t meta__fold_groups_taken(const struct meta *m)
{
	const struct meta__zones *z = m->zones;

	ASSERT(z->folded >= META__FOLD_MIN * z->folds);
	if (likely(z->folds == 0))
		return 0;
	return div_up(z->folded + (uint64_t)z->folds * meta__fold_parities(m), m->copies);
}

uint64_t meta__fold_groups_now(const struct meta *m, uint64_t zones)
{
	uint32_t on[META_DRIVES_MAX];

	if (likely(m->fold == 0))
		return zones;
	ASSERT(m->copies > 1);
	meta__zones_taking(m, on);
	return meta__fold_groups(m, on, zones);
}

uint64_t meta__fold_zones_left(const struct meta *m, uint64_t groups)
{
	uint32_t on[META_DRIVES_MAX];

	if (likely(m->fold == 0))
		return groups;
	ASSERT(m->copies > 1);
	meta__zones_left(m, on);
	return meta__fold_zones(m, on, groups);
}
