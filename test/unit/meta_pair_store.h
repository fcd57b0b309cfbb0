/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A store of two copies, or of STORE_COPIES, with some files, and what each of them holds.
 * Included by one test at a time. */
#ifndef TEST_META_PAIR_STORE_H
#define TEST_META_PAIR_STORE_H

#include "test/lib/meta_rig.h"
#include "base/num.h"
#include "meta/engine/meta_pair.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVE_BYTES (8u << 20)
#define FILES       40u
#ifndef STORE_COPIES
#define STORE_COPIES 2u
#endif

static struct rig r;
static uint64_t fill_of[FILES]; /* of each file; 0: it is not there */
static uint64_t unsure[FILES];  /* a change that was not acknowledged, and may be there */
static uint64_t fills;

static inline void store_of(uint64_t seed, uint32_t ndrives, const uint64_t *bytes,
			    bool volatile_cache)
{
	rig_make_of(&r, seed, ndrives, bytes, 4, volatile_cache);
	memset(fill_of, 0, sizeof(fill_of));
	memset(unsure, 0, sizeof(unsure));
	fills = 0;
	r.conf.copies = STORE_COPIES;
	r.copied = true;
	cr_assert_eq(rig_format(&r), 0, "%s", meta_error(r.m));
}

static inline void store(uint64_t seed, uint32_t ndrives, bool volatile_cache)
{
	uint64_t bytes[RIG_DRIVES_MAX];

	for (uint32_t d = 0; d < ndrives; d++)
		bytes[d] = DRIVE_BYTES;
	store_of(seed, ndrives, bytes, volatile_cache);
}

static inline const char *path_of(uint32_t i)
{
	static char path[32];

	(void)snprintf(path, sizeof(path), "/file %u", i);
	return path;
}

static inline int put(uint32_t i)
{
	const uint64_t fill = ++fills;
	int err;

	if (unsure[i])
		return -EAGAIN;
	unsure[i] = fill;
	err = rig_put(&r, path_of(i), (uint32_t)(fill % 9), fill);
	if (err == 0) {
		fill_of[i] = fill;
		unsure[i] = 0;
	}
	return err;
}

static inline void put_some(uint32_t count)
{
	for (uint32_t n = 0; n < count; n++)
		cr_assert_eq(put((uint32_t)rand_below(&r.rand, FILES)), 0, "%s", meta_error(r.m));
}

static inline void all_is_there(void)
{
	for (uint32_t i = 0; i < FILES; i++) {
		uint64_t fill = 0;
		uint32_t blocks;
		int err = rig_get(&r, path_of(i), &blocks, &fill);

		if (err == -ENOENT && fill_of[i] == 0) {
			unsure[i] = 0;
			continue;
		}
		cr_assert_eq(err, 0, "%s: %d; %s", path_of(i), err, meta_error(r.m));
		cr_assert(fill == fill_of[i] || (unsure[i] && fill == unsure[i]),
			  "%s: %llu, not %llu", path_of(i), (unsigned long long)fill,
			  (unsigned long long)fill_of[i]);
		cr_assert_eq(blocks, fill % 9);
		fill_of[i] = fill;
		unsure[i] = 0;
	}
}

static inline void is_whole(void)
{
	struct meta_check check = { 0 };

	all_is_there();
	cr_assert_eq(rig_check(&r, &check), 0, "%s", check.first[0]);
}

/* Nothing of it can be read any more, whatever is asked. */
static inline void wreck(uint32_t drive)
{
	memset(r.view[drive], 0xee, r.conf.drive[drive].nblocks * 4096);
	memset(r.image[drive], 0xee, r.conf.drive[drive].nblocks * 4096);
}

static inline struct meta_drive_stat stat_of(uint32_t drive)
{
	struct meta_drive_stat s;

	meta_drive_stat(r.m, drive, &s);
	return s;
}

/* It fails, and all others say so. */
static inline void lose_drive(uint32_t drive)
{
	r.dead |= 1u << drive;
	cr_assert(meta_drive_failed(r.m, drive), "%s", meta_error(r.m));
	for (uint32_t n = 0; n < 1000 && r.m->losing; n++)
		(void)rig_step(&r);
	cr_assert(stat_of(drive).lost, "%s", meta_error(r.m));
}

static inline void rebuilt(uint32_t drive)
{
	if (stat_of(drive).lost && !r.m->losing) {
		rig_idle(&r);
		r.never = 1u << drive; /* meta_pair.c (4) */
	}
	for (uint32_t turns = 0; turns < 300 && (!stat_of(drive).gone || rig_thin_zones(&r) > 0);
	     turns++)
		rig_idle(&r);
	cr_assert(stat_of(drive).gone, "drive %u: %u zones in use", drive,
		  stat_of(drive).zones_used);
	cr_assert_eq(rig_thin_zones(&r), 0);
}

static inline uint32_t drive_of(uint32_t zone)
{
	return META_BADDR_DRIVE(meta__geo_zone_baddr(&r.m->zones->geo, zone));
}

#endif
