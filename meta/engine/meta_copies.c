/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Drives that have the blocks of a zone: its copies, or all zones of its fold.
 *
 *   pair   first -> twin -> first                 `twin` of a zone is the next one of its ring
 *   fold   data -> data -> P -> Q -> data         `next` is
 *
 * Sets of drives are bits, so that a zone's copies are counted, and not asked for one by one.
 *
 *  (1) The zones of a ring are on different drives (meta_pair.c (1), meta_fold.c (1)): there are as
 *      many bits as zones [test_meta_pair:each_zone_knows_the_drives_of_its_copies].
 */
#include "meta/engine/meta_fold.h"

static uint64_t bit_of(const struct meta *m, uint32_t zone)
{
	return 1ull << META_BADDR_DRIVE(meta__geo_zone_baddr(&m->zones->geo, zone));
}

uint64_t meta__drives_of(const struct meta *m, uint32_t zone)
{
	const bool folded = meta__in_fold(meta__zone_at(m, zone));
	uint64_t drives = 0;
	uint32_t at = zone;

	do {
		const struct meta__zone *z = meta__zone_at(m, at);

		ASSERT(!(drives & bit_of(m, at))); /* (1) */
		drives |= bit_of(m, at);
		at = (folded ? z->next : z->twin) - 1;
	} while (at != zone && at != META__ZONE_NONE);
	return drives;
}

uint32_t meta__drives_read(const struct meta *m, uint64_t drives)
{
	uint32_t count = 0;

	for (; drives; drives &= drives - 1)
		count += meta__drive_reads(m, (uint32_t)__builtin_ctzll(drives));
	ASSERT(count <= META_DRIVES_MAX);
	return count;
}

uint32_t meta__drives_refuse(const struct meta *m, uint64_t drives)
{
	ASSERT(drives);
	for (; drives; drives &= drives - 1)
		if (!meta__drive_takes(m, (uint32_t)__builtin_ctzll(drives)))
			return (uint32_t)__builtin_ctzll(drives);
	return META_DRIVES_MAX;
}

bool meta__is_thin(const struct meta *m, uint32_t zone)
{
	uint64_t drives;

	if (m->copies < 2)
		return false;
	drives = meta__drives_of(m, zone);
	ASSERT(drives); /* (1) */
	return meta__drives_read(m, drives) < (meta__in_fold(meta__zone_at(m, zone))
						       ? (uint32_t)__builtin_popcountll(drives)
						       : m->copies);
}
