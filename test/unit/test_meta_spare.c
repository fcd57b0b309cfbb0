/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Room that files leave for the rebuild of drives: the content of a lost one fits on the others. */
#include "test/lib/meta_rig.h"
#include "meta/meta_rebuild.h"
#include "meta/engine/meta_pair.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>

#define FILE_BLOCKS 12u

static struct rig r;
static uint64_t fill_of[4096]; /* 0: it is not there */
static uint32_t files;

TestSuite(meta_spare, .timeout = 300);

static void store(uint64_t seed, uint32_t ndrives, const uint64_t *mib, uint32_t copies)
{
	uint64_t bytes[RIG_DRIVES_MAX];

	for (uint32_t d = 0; d < ndrives; d++)
		bytes[d] = mib[d] << 20;
	rig_make_of(&r, seed, ndrives, bytes, 4, true);
	r.conf.copies = copies;
	r.copied = copies > 1;
	files = 0;
	cr_assert_eq(rig_format(&r), 0, "%s", meta_error(r.m));
}

static const char *path_of(uint32_t i)
{
	static char path[32];

	(void)snprintf(path, sizeof(path), "/file %u", i);
	return path;
}

/* Files until none fits any more: their blocks. */
static uint64_t fill(void)
{
	const uint32_t before = files;
	int err;

	while ((err = rig_put(&r, path_of(files), FILE_BLOCKS, files + 1)) == 0) {
		fill_of[files] = files + 1;
		files++;
	}
	cr_assert_eq(err, -ENOSPC, "%d", err);
	return (uint64_t)(files - before) * FILE_BLOCKS;
}

/* One goes, another comes: so zones are partly dead. */
static void replace_some(uint32_t count)
{
	for (uint32_t n = 0; n < count; n++) {
		const uint32_t i = (uint32_t)rand_below(&r.rand, files);

		if (fill_of[i])
			cr_assert_eq(rig_unlink(&r, path_of(i)), 0);
		fill_of[i] = 0;
		if (rig_put(&r, path_of(i), FILE_BLOCKS, n + 100000) == 0)
			fill_of[i] = n + 100000;
	}
}

static void all_is_there(void)
{
	uint64_t found;
	uint32_t blocks;

	for (uint32_t i = 0; i < files; i++) {
		const int err = rig_get(&r, path_of(i), &blocks, &found);

		cr_assert_eq(err, fill_of[i] ? 0 : -ENOENT, "%s: %d", path_of(i), err);
		cr_assert(err || found == fill_of[i]);
	}
}

static bool is_gone(uint32_t drive)
{
	struct meta_drive_stat s;

	meta_drive_stat(r.m, drive, &s);
	return s.gone;
}

static void lose(uint32_t drive)
{
	r.dead |= 1u << drive;
	cr_assert(meta_drive_failed(r.m, drive));
	for (uint32_t turns = 0; turns < 300 && !is_gone(drive); turns++)
		rig_idle(&r);
}

/* Of any size, at any number: a full store that loses its largest drive makes itself whole. */
Test(meta_spare, full_store_rebuilds_its_largest_drive)
{
	const uint64_t mib[][5] = { { 16, 16, 16, 0 }, { 16, 16, 16, 16 }, { 12, 16, 24, 20, 16 } };
	const uint32_t ndrives[] = { 3, 4, 5 }, largest[] = { 1, 3, 2 };

	for (uint32_t k = 0; k < 9; k++) {
		store(k + 1, ndrives[k % 3], mib[k % 3], 2);
		r.m->conf.spare_percent = 9 - k;
		meta_rebuild_spare(r.m, 1);
		fill();
		replace_some(200);
		cr_assert_lt(rig_statfs(&r).blocks_free, 4 * FILE_BLOCKS + 200);
		lose(largest[k % 3]);
		cr_assert(is_gone(largest[k % 3]), "%u: %u blocks left", k,
			  (uint32_t)r.m->zones->live_blocks);
		all_is_there();
		rig_end(&r);
	}
}

/* statfs shows what is left without it, and that can be had. */
Test(meta_spare, statfs_promises_what_is_left_without_the_largest)
{
	const uint64_t mib[] = { 16, 16, 16, 16 };
	struct meta_statfs whole, less;
	uint64_t had;

	store(9, 4, mib, 2);
	whole = rig_statfs(&r);
	meta_rebuild_spare(r.m, 1);
	less = rig_statfs(&r);
	cr_assert_lt(less.blocks_free, whole.blocks_free * 3 / 4);
	cr_assert_gt(less.blocks_free, whole.blocks_free / 2);
	cr_assert_eq(whole.blocks_total - less.blocks_total, whole.blocks_free - less.blocks_free);
	had = fill();
	cr_assert_leq(had, less.blocks_free);
	cr_assert_gt(had + 40 + less.blocks_free / 40, less.blocks_free, "%u of %u", (uint32_t)had,
		     (uint32_t)less.blocks_free);
	cr_assert_eq(rig_unlink(&r, path_of(0)), 0, "deleting always works");
	meta_rebuild_spare(r.m, 0);
	cr_assert_gt(fill(), whole.blocks_free / 8);
	rig_end(&r);
}

/* Auto: with two copies one drive, if another two are left for them; with one copy none. */
Test(meta_spare, auto_keeps_a_drive_where_a_rebuild_can_be)
{
	const uint64_t mib[] = { 16, 16, 16 };

	for (uint32_t copies = 1; copies <= 2; copies++)
		for (uint32_t ndrives = 2; ndrives <= 3; ndrives++) {
			store(copies, ndrives, mib, copies);
			cr_assert_eq(meta__groups_kept(r.m), 0);
			meta_rebuild_spare(r.m, META_SPARE_AUTO);
			cr_assert_eq(meta__groups_kept(r.m) > 0, copies == 2 && ndrives == 3);
			meta_rebuild_spare(r.m, 8);
			cr_assert_eq(meta__groups_kept(r.m) > 0, ndrives > copies);
			rig_end(&r);
		}
}

/* While one drive is being rebuilt no room is kept for it a second time; then for the next one. */
Test(meta_spare, rebuild_uses_the_room_and_then_the_next_one_has_its_own)
{
	const uint64_t mib[] = { 16, 16, 16, 16 };
	uint64_t before;

	store(11, 4, mib, 2);
	meta_rebuild_spare(r.m, 1);
	before = meta__groups_total(r.m) - meta__groups_kept(r.m);
	r.dead = 1u << 2;
	cr_assert(meta_drive_failed(r.m, 2));
	cr_assert_eq(meta__groups_kept(r.m), 0);
	cr_assert_eq(meta__groups_total(r.m), before);
	for (uint32_t turns = 0; turns < 300 && !is_gone(2); turns++)
		rig_idle(&r);
	cr_assert(is_gone(2));
	cr_assert_gt(meta__groups_kept(r.m), 0);
	rig_end(&r);
}

/* Files that lie in the index do not take it, either. */
Test(meta_spare, names_and_tiny_files_leave_it)
{
	const uint64_t mib[] = { 8, 8, 8 };
	uint32_t n = 0;
	int err;

	store(12, 3, mib, 2);
	meta_rebuild_spare(r.m, 1);
	while ((err = rig_put(&r, path_of(n), 0, n + 1)) == 0)
		n++;
	cr_assert_eq(err, -ENOSPC);
	cr_assert_gt(n, 1000);
	lose(1);
	cr_assert(is_gone(1));
	for (uint32_t i = 0; i < n; i += 7) {
		uint64_t found;
		uint32_t blocks;

		cr_assert_eq(rig_get(&r, path_of(i), &blocks, &found), 0);
		cr_assert_eq(found, i + 1);
		cr_assert_eq(rig_unlink(&r, path_of(i)), 0);
	}
	rig_end(&r);
}
