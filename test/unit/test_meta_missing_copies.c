/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Stores of two copies that lack a drive more than they can do without, as the operator allows:
 * groups and folds are known by the headers on the others. */
#include "test/unit/meta_fold_store.h"

TestSuite(meta_missing_copies, .timeout = 300);

#define LOST 3u

static uint8_t *was[RIG_DRIVES_MAX];
static uint64_t drives[RIG_DRIVES_MAX * 256]; /* of each zone in which something lives, or 0 */

/* Returns the drives of the zone's group, or of its fold if P is on another drive than these. */
static uint64_t known_by_others(uint32_t zone, uint64_t without)
{
	const struct meta__zone *at = meta__zone_at(r.m, zone);
	const uint64_t all = meta__drives_of(r.m, zone);

	if (at->live == 0 || !(all & ~without))
		return 0;
	if (!meta__in_fold(at))
		return all;
	return without >> drive_of(meta__fold_parity(r.m, zone)) & 1 ? 0 : all;
}

/* The one is lost, and the other one is missing: what is written is kept elsewhere. */
static void mount_without(uint32_t missing)
{
	for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++)
		drives[i] = known_by_others(i, 1ull << LOST | 1ull << missing);
	rig_power_cut(&r);
	for (uint32_t d = 0; d < r.conf.ndrives; d++) {
		was[d] = malloc(DRIVE_BYTES);
		cr_assert_not_null(was[d]);
		memcpy(was[d], r.image[d], DRIVE_BYTES);
		r.under[d] = was[d];
	}
	wreck(LOST);
	wreck(missing);
	r.dead = 0;
	r.conf.drive[LOST].nblocks = 0;
	r.conf.drive[missing].missing = true;
	r.bad_reads = 1u << missing;
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	cr_assert_eq(meta_health(r.m), -EROFS);
}

static void end(void)
{
	for (uint32_t d = 0; d < r.conf.ndrives; d++) {
		free(was[d]);
		r.under[d] = NULL;
	}
	r.bad_reads = 0;
	rig_end(&r);
}

Test(meta_missing_copies, groups_and_folds_are_known_by_the_headers_of_others)
{
	uint32_t pairs = 0, folds = 0;

	for (uint64_t seed = 1; seed <= 16; seed++) {
		folds_of(seed, 5, seed % 2 ? 2 : 0, true);
		put_some(FILES);
		put_bigs(BIG / 3);
		fold();
		lose_drive(LOST);
		mount_without((uint32_t)seed % 3);
		for (uint32_t i = 0; i < r.m->zones->geo.nzones; i++) {
			if (!drives[i] || r.m->boot->away_pages)
				continue; /* what cannot be counted seems to be free */
			cr_assert_eq(meta__drives_of(r.m, i), drives[i], "zone %u", i);
			*(meta__in_fold(meta__zone_at(r.m, i)) ? &folds : &pairs) += 1;
		}
		end();
	}
	cr_assert(pairs > 100 && folds > 30, "%u, %u", pairs, folds);
}
