/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A store of three copies: as in meta_pair_store.h.  Included by one test at a time. */
#ifndef TEST_META_THREE_STORE_H
#define TEST_META_THREE_STORE_H

#define STORE_COPIES 3u
#include "test/unit/meta_pair_store.h"

static inline void three(uint64_t seed, uint32_t ndrives, uint32_t nshards, bool volatile_cache)
{
	rig_make(&r, seed, ndrives, DRIVE_BYTES, nshards, volatile_cache);
	memset(fill_of, 0, sizeof(fill_of));
	memset(unsure, 0, sizeof(unsure));
	fills = 0;
	r.conf.copies = 3;
	r.copied = true;
	cr_assert_eq(rig_format(&r), 0, "%s", meta_error(r.m));
}

/* Nothing can be read there any more, and a mount does not find the drive, as the operator says. */
static inline void take_away(uint32_t drive)
{
	wreck(drive);
	r.conf.drive[drive].nblocks = 0;
	r.conf.drive[drive].missing = true;
}

/* They fail at once; all others say so. */
static inline void lose_two(uint32_t a, uint32_t b)
{
	r.dead |= 1u << a | 1u << b;
	cr_assert(meta_drive_failed(r.m, a) && meta_drive_failed(r.m, b), "%s", meta_error(r.m));
	for (uint32_t n = 0; n < 1000 && r.m->losing; n++)
		(void)rig_step(&r);
	cr_assert(stat_of(a).lost && stat_of(b).lost, "%s", meta_error(r.m));
}

static inline void add_drive(void)
{
	const uint32_t added = rig_drive(&r, DRIVE_BYTES, true);

	r.conf.drive[added].tag = added + 7;
	cr_assert_eq(rig_drive_add(&r, added), 0, "%s", meta_error(r.m));
	r.conf.ndrives = meta_drives(r.m);
}

#endif
