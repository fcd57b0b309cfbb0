/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A store that is full: it says so, deletes always, collects, and takes new files again. */
#include "test/lib/meta_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct rig r;
static struct meta_check check;

static void store(void)
{
	rig_make(&r, 21, 1, 4u << 20, 4, true);
	cr_assert_eq(rig_format(&r), 0);
}

static void store_end(void)
{
	rig_end(&r);
}

TestSuite(meta_collect, .init = store, .fini = store_end, .timeout = 60);

static void path_of(char path[48], uint32_t round, uint32_t i)
{
	(void)snprintf(path, 48, "/file %u of round %u", i, round);
}

/* Files until the store is full: how many. */
static uint32_t fill(uint32_t round, uint32_t blocks)
{
	char path[48];
	uint32_t i;
	int err = 0;

	for (i = 0; err == 0; i++) {
		path_of(path, round, i);
		err = rig_put(&r, path, blocks, i + 1);
	}
	cr_assert_eq(err, -ENOSPC, "%d, %s", err, meta_error(r.m));
	return i - 1;
}

static void is_there(uint32_t round, uint32_t i, uint32_t blocks)
{
	uint32_t is_blocks;
	uint64_t is_fill;
	char path[48];

	path_of(path, round, i);
	cr_assert_eq(rig_get(&r, path, &is_blocks, &is_fill), 0, "%s", path);
	cr_assert_eq(is_blocks, blocks);
	cr_assert_eq(is_fill, i + 1);
}

static void remove_files(uint32_t round, uint32_t from, uint32_t to, uint32_t step)
{
	char path[48];

	for (uint32_t i = from; i < to; i += step) {
		path_of(path, round, i);
		cr_assert_eq(rig_unlink(&r, path), 0, "%s", path);
	}
}

static void is_sound(void)
{
	cr_assert_eq(rig_check(&r, &check), 0, "%s", check.first[0]);
}

Test(meta_collect, store_full_of_data_deletes_and_takes_as_much_again)
{
	uint32_t first = fill(0, 3);

	cr_assert_gt(first * 3 * 4096u, 2u << 20, "more than half of it is files'");
	for (uint32_t round = 0; round < 4; round++) {
		uint32_t n;

		is_sound();
		remove_files(round, 0, first, 1);
		n = fill(round + 1, 3);
		cr_assert_gt(n, first * 8 / 10, "round %u: %u, at first %u", round, n, first);
		for (uint32_t i = 0; i < n; i++)
			is_there(round + 1, i, 3);
		first = n;
	}
}

Test(meta_collect, store_full_of_names_deletes_and_takes_as_much_again)
{
	uint32_t first = fill(0, 0);

	for (uint32_t round = 0; round < 2; round++) {
		uint32_t n;

		is_sound();
		remove_files(round, 0, first, 1);
		n = fill(round + 1, 0);
		cr_assert_gt(n, first * 8 / 10, "round %u: %u, at first %u", round, n, first);
		first = n;
	}
}

Test(meta_collect, full_store_mounts_after_a_power_cut)
{
	uint32_t n = fill(0, 0);

	for (uint32_t i = 0; i < 5; i++) {
		rig_power_cut(&r);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	}
	is_sound();
	for (uint32_t i = 0; i < n; i += 7)
		is_there(0, i, 0);
	remove_files(0, 0, n, 1);
}

Test(meta_collect, mostly_dead_page_zones_are_emptied_and_what_lived_in_them_is_whole)
{
	const struct meta__zones *z = r.m->zones;
	uint32_t n = fill(0, 0), zones;

	zones = z->page_zones;
	for (uint32_t i = 0; i < n; i++)
		if (i % 16)
			remove_files(0, i, i + 1, 1);
	(void)fill(1, 3); /* wants every zone that it can have */
	rig_idle(&r);
	cr_assert_lt(z->page_zones, zones * 3 / 4, "%u of %u are left", z->page_zones, zones);
	for (uint32_t i = 0; i < n; i += 16)
		is_there(0, i, 0);
	is_sound();
}

static void store_of_large_zones(void)
{
	rig_end(&r);
	rig_make(&r, 21, 1, 512u << 20, 4, true);
	r.conf.early_pages = 3;
	cr_assert_eq(rig_format(&r), 0);
}

/* Nobody waits for a checkpoint that nobody asks for: too little is dead to be collected. */
Test(meta_collect, who_finds_a_store_full_in_which_leaves_were_written_early_is_told)
{
	const struct meta__zones *z;
	uint32_t i;
	char path[48];

	store_of_large_zones();
	z = r.m->zones;
	for (i = 0; !meta__ckpt_was_early(r.m); i++) {
		path_of(path, 0, i);
		cr_assert_eq(rig_put(&r, path, 0, i + 1), 0);
	}
	while (z->free_total >= meta__zone_reserve(r.m, false)) {
		(void)meta__zone_open(r.m, meta__zone_pick(r.m), META__ZONE_ROOT);
		(void)rig_step(&r);
	}
	cr_assert_eq(z->coming, 0);
	path_of(path, 1, 0);
	cr_assert_eq(rig_put(&r, path, 0, 1), -ENOSPC);
}

Test(meta_collect, idle_store_does_nothing)
{
	uint64_t writes;

	(void)fill(0, 0);
	rig_idle(&r);
	writes = r.writes;
	for (uint32_t i = 0; i < 1000; i++)
		cr_assert_not(rig_step(&r));
	cr_assert_eq(r.writes, writes);
}
