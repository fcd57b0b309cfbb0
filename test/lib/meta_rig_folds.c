/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Whether folds sum up to zero on the drives of a rig. */
#include "test/lib/meta_rig.h"

#include "base/gf.h"
#include "meta/engine/meta_fold.h"

#include <string.h>

static bool is_zero(const uint8_t sum[4096])
{
	return sum[0] == 0 && memcmp(sum, sum + 1, 4095) == 0;
}

/* Do the blocks at this offset of the fold of this zone P sum up to zero, in both sums? */
static bool is_zero_sum(const struct rig *r, uint32_t parity, uint32_t offset)
{
	const struct meta__geo *g = &r->m->zones->geo;
	uint8_t p[4096] = { 0 }, q[4096] = { 0 };
	uint32_t zone = meta__pair_first(r->m, parity), i = 0;
	bool has_q = false;

	for (; zone != parity; zone = meta__zone_at(r->m, zone)->next - 1, i++) {
		const uint64_t at = meta__geo_zone_baddr(g, zone) + offset;
		const uint8_t *from = r->view[META_BADDR_DRIVE(at)] + META_BADDR_BLOCK(at) * 4096;

		ASSERT(!meta__zone_at(r->m, zone)->parity);
		xor_into(p, from, 4096);
		gf_add(q, from, 4096, gf_power(i));
	}
	for (zone = parity, i = 0; meta__zone_at(r->m, zone)->parity; i++) {
		const uint64_t at = meta__geo_zone_baddr(g, zone) + offset;

		xor_into(i ? q : p, r->view[META_BADDR_DRIVE(at)] + META_BADDR_BLOCK(at) * 4096,
			 4096);
		has_q = i > 0;
		zone = meta__zone_at(r->m, zone)->next - 1;
	}
	ASSERT(i == meta__fold_parities(r->m));
	return is_zero(p) && (!has_q || is_zero(q));
}

uint32_t rig_wrong_folds(struct rig *r)
{
	uint32_t wrong = 0, folds = 0;

	for (uint32_t i = 0; i < r->m->zones->geo.nzones; i++) {
		uint32_t block = 1;

		if (meta__zone_at(r->m, i)->parity != META__PARITY_P)
			continue;
		folds++;
		while (meta__fold_reads(r->m, i) && block < r->m->zones->geo.zone_end &&
		       is_zero_sum(r, i, block))
			block++;
		wrong += meta__fold_reads(r->m, i) && block < r->m->zones->geo.zone_end;
	}
	ASSERT(folds == r->m->zones->folds);
	return wrong;
}
