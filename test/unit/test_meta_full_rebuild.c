/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A full store of two copies, whose files came and went, loses a drive: the room that it kept back
 * suffices to rebuild what the drive had (meta_space.c (5)), however much is ready for new data.
 */
#include "test/lib/runs.h"
#include "test/unit/meta_pair_store.h"

#include "meta/meta_rebuild.h"

#define FULL_MAX 4096u

static uint64_t full_of[FULL_MAX]; /* what each file holds; 0: it is not there */
static uint32_t full;              /* files */
static uint32_t blocks_max;

TestSuite(meta_full_rebuild, .timeout = 300);

static const char *full_path(uint32_t i)
{
	static char path[32];

	(void)snprintf(path, sizeof(path), "/full %u", i);
	return path;
}

static uint32_t blocks_of(uint64_t fill)
{
	return 1 + (uint32_t)(fill * 2654435761u % blocks_max);
}

static int put_full(uint32_t i)
{
	const uint64_t fill = ++fills;
	const int err = rig_put(&r, full_path(i), blocks_of(fill), fill);

	cr_assert(err == 0 || err == -ENOSPC, "%d", err);
	if (!err)
		full_of[i] = fill;
	return err;
}

static void fill_store(void)
{
	memset(full_of, 0, sizeof(full_of));
	for (full = 0; full < FULL_MAX && put_full(full) == 0;)
		full++;
	cr_assert(full > 20 && full < FULL_MAX, "%u", full);
}

/* One goes, another comes: so zones are partly dead. */
static void replace_some(uint32_t count)
{
	for (uint32_t n = 0; n < count; n++) {
		const uint32_t i = (uint32_t)rand_below(&r.rand, full);

		cr_assert_eq(rig_unlink(&r, full_path(i)), full_of[i] ? 0 : -ENOENT);
		full_of[i] = 0;
		if (put_full(i)) {
			rig_idle(&r);
			(void)put_full(i);
		}
	}
}

static void fulls_are_there(void)
{
	for (uint32_t i = 0; i < full; i++) {
		uint32_t blocks;
		uint64_t fill;
		const int err = rig_get(&r, full_path(i), &blocks, &fill);

		cr_assert_eq(err, full_of[i] ? 0 : -ENOENT, "%s: %d", full_path(i), err);
		cr_assert(err || fill == full_of[i]);
	}
}

/* Returns whether it makes itself whole again. */
static bool full_store_loses_a_drive(uint64_t seed, uint32_t ndrives, uint32_t mib)
{
	const uint32_t most[] = { 40, 12, 3 }, drive = (uint32_t)seed % ndrives;
	uint64_t bytes[RIG_DRIVES_MAX];
	bool gone;

	for (uint32_t d = 0; d < ndrives; d++)
		bytes[d] = mib << 20;
	store_of(seed, ndrives, bytes, seed % 2);
	meta_rebuild_spare(r.m, META_SPARE_AUTO);
	blocks_max = most[seed % 3];
	fill_store();
	replace_some(2 * full);
	while (full < FULL_MAX && put_full(full) == 0)
		full++;
	cr_assert_lt(rig_statfs(&r).blocks_free, blocks_max, "df agrees");
	r.dead = 1u << drive;
	cr_assert(meta_drive_failed(r.m, drive));
	for (uint32_t turns = 0; turns < 60 && !stat_of(drive).gone; turns++)
		rig_idle(&r);
	gone = stat_of(drive).gone;
	cr_assert(!gone || rig_thin_zones(&r) == 0);
	fulls_are_there();
	rig_end(&r);
	return gone;
}

/* Six drives have much room ahead for new data: it is given to the rebuild. */
Test(meta_full_rebuild, room_ahead_of_new_data_is_used)
{
	for (uint64_t seed = 1; seed <= test_runs(9); seed++)
		cr_assert(full_store_loses_a_drive(seed, 6, 8), "seed %u", (uint32_t)seed);
}

/* Each of three drives has a third of the zones that are free. */
Test(meta_full_rebuild, collection_can_begin_on_the_drives_that_are_left)
{
	for (uint64_t seed = 1; seed <= test_runs(30); seed++)
		for (uint32_t mib = 3; mib <= 4; mib++)
			cr_expect(full_store_loses_a_drive(seed, 3, mib), "seed %u, %u MiB",
				  (uint32_t)seed, mib);
}
