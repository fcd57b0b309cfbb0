/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A store that is nearly full gets a second copy of each block, while it is written to: what is
 * written meanwhile does not take the room that the second copies need. */
#include "meta/meta_protect.h"
#include "meta/meta_rebuild.h"
#include "test/unit/meta_pair_store.h"

#define FULL_FILES 8192u
#define STORES     31u

static uint64_t full_of[FULL_FILES];
static uint32_t files;

TestSuite(meta_protect_full, .timeout = 300);

static int protect(void)
{
	struct meta_op op = { .type = META_OP_DRIVE, .flags = META_PROTECT };

	return rig_run(&r, &op);
}

static const char *full_path(uint32_t i)
{
	static char path[32];

	(void)snprintf(path, sizeof(path), "/fill/%u", i);
	return path;
}

static int one_more(uint32_t i)
{
	const uint64_t fill = ++fills;
	const int err = rig_put(&r, full_path(i), (uint32_t)(1 + fill % 12), fill);

	if (!err)
		full_of[i] = fill;
	return err;
}

static void one_less(uint32_t i)
{
	if (full_of[i])
		cr_assert_eq(rig_unlink(&r, full_path(i)), 0);
	full_of[i] = 0;
}

/* A store of one copy, filled until nothing fits. */
static void full_store(uint64_t seed, uint32_t ndrives, const uint64_t *bytes)
{
	int err = 0;

	rig_make_of(&r, seed, ndrives, bytes, 4, true);
	memset(full_of, 0, sizeof(full_of));
	fills = files = 0;
	r.copied = false;
	cr_assert_eq(rig_format(&r), 0, "%s", meta_error(r.m));
	cr_assert_eq(rig_mkdir(&r, "/fill"), 0);
	for (; !err && files < FULL_FILES; files += !err)
		err = one_more(files);
	cr_assert_eq(err, -ENOSPC);
}

static uint32_t any_file(void)
{
	uint32_t i = (uint32_t)rand_below(&r.rand, files);

	while (!full_of[i])
		i = (i + 1) % files;
	return i;
}

/* Files go, here and there, until the store takes it.  False: it is too small for that. */
static bool accepted(void)
{
	uint32_t left = files;
	int err;

	while ((err = protect()) == -ENOSPC && left > 0) {
		one_less(any_file());
		if (--left % 8 == 0)
			rig_idle(&r);
	}
	cr_assert(!err || left == 0, "%d: %s", err, meta_error(r.m));
	return err == 0;
}

/* Whatever the store takes is put into it; files are replaced by others. */
static void work(uint32_t changes)
{
	for (uint32_t n = 0; n < changes && r.m->converts; n++) {
		const uint32_t i = (uint32_t)rand_below(&r.rand, files);

		if (rand_below(&r.rand, 4) == 0)
			one_less(i);
		if (!full_of[i]) {
			const int err = one_more(i);

			cr_assert(!err || err == -ENOSPC, "%d: %s", err, meta_error(r.m));
		}
		if (rand_below(&r.rand, 50) == 0)
			rig_idle(&r);
	}
}

static void all_full_is_there(void)
{
	struct meta_check check = { 0 };
	uint64_t fill;
	uint32_t blocks;

	for (uint32_t i = 0; i < files; i++) {
		const int err = rig_get(&r, full_path(i), &blocks, &fill);

		cr_assert_eq(err, full_of[i] ? 0 : -ENOENT, "%s: %d", full_path(i), err);
		cr_assert(err || fill == full_of[i]);
	}
	cr_assert_eq(rig_check(&r, &check), 0, "%s", check.first[0]);
}

static void loses(uint32_t drive, bool has_room)
{
	r.copied = true;
	r.dead = 1u << drive;
	cr_assert(meta_drive_failed(r.m, drive));
	if (has_room)
		rebuilt(drive);
	else
		rig_idle(&r);
	all_full_is_there();
}

static void is_converted(uint64_t seed)
{
	struct meta_rebuild seen;

	for (uint32_t turns = 0; turns < 100 && r.m->converts; turns++)
		rig_idle(&r);
	meta_rebuild_count(r.m, &seen);
	cr_assert(
		!r.m->converts,
		"seed %llu: %u lone zones, %u pairs free of %u, reserve %u; short %llu, tight %llu",
		(unsigned long long)seed, r.m->zones->lone, meta__groups_free(r.m),
		meta__groups_total(r.m), meta__zone_reserve(r.m, false),
		(unsigned long long)seen.short_blocks, (unsigned long long)seen.tight_blocks);
	cr_assert_eq(rig_thin_zones(&r), 0);
}

static uint64_t any_size(void)
{
	return (6 + rand_below(&r.rand, 20)) << 20;
}

/* How many of the stores took it. */
static uint32_t convert_while_they_are_written_to(uint32_t spare_drives)
{
	uint32_t took = 0;

	for (uint32_t n = 1; n <= STORES; n++) {
		const uint64_t seed = n < STORES ? n : 130; /* a drive there has no free zone */
		uint64_t bytes[4];

		rand_seed(&r.rand, seed);
		for (uint32_t d = 0; d < 4; d++)
			bytes[d] = seed % 3 ? any_size() : 16u << 20;
		full_store(seed, 2 + (uint32_t)(seed % 3), bytes);
		meta_rebuild_spare(r.m, spare_drives);
		if (accepted()) {
			took++;
			if (seed % 2)
				meta_rebuild_pace(r.m, 1, 0); /* second copies wait for clients */
			work(seed % 5 ? 2000 : 0);
			meta_rebuild_pace(r.m, UINT32_MAX, META_PACE_FREE);
			is_converted(seed);
			all_full_is_there();
			loses((uint32_t)(seed % 2), spare_drives > 0 && r.ndrives > 2);
		}
		rig_end(&r);
	}
	return took;
}

Test(meta_protect_full, nothing_that_is_written_meanwhile_takes_the_room_for_second_copies)
{
	cr_assert_eq(convert_while_they_are_written_to(0), STORES);
}

Test(meta_protect_full, room_that_is_kept_back_for_a_drive_is_there_when_it_begins)
{
	cr_assert_gt(convert_while_they_are_written_to(META_SPARE_AUTO), 20);
}
