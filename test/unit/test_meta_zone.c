/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Zones: what is handed out, and what must have happened before it is handed out again. */
#include "test/lib/meta_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rig r;
static struct meta__zones *z;

static void store(void)
{
	rig_make(&r, 11, 2, 8u << 20, 4, true);
	cr_assert_eq(rig_format(&r), 0);
	rig_idle(&r);
	z = r.m->zones;
}

static void store_end(void)
{
	rig_end(&r);
}

TestSuite(meta_zone, .init = store, .fini = store_end, .timeout = 30);

static struct meta_run take(uint64_t spread, uint32_t nblocks)
{
	struct meta_run runs[8];
	uint32_t nruns;
	int err;

	while ((err = meta_data_alloc(r.m, spread, nblocks, runs, 8, &nruns)) == -EAGAIN)
		(void)rig_step(&r);
	cr_assert_eq(err, 0);
	return runs[0];
}

/* Fill one zone of the drive with blocks that live; its number. */
static uint32_t full_zone_of(uint64_t drive)
{
	struct meta_run run = take(drive, 1);
	uint32_t zone = meta__zone_of(r.m, run.baddr);

	do {
		meta__zone_live_add(r.m, meta__zone_of(r.m, run.baddr), run.nblocks);
		meta__data_applied(r.m, &run, 1);
		run = take(drive, 1);
	} while (meta__zone_of(r.m, run.baddr) == zone);
	meta_data_free(r.m, &run, 1);
	cr_assert_eq(z->zone[zone].state, ZONE_CLOSED);
	return zone;
}

static uint32_t full_zone(void)
{
	return full_zone_of(0);
}

Test(meta_zone, runs_are_whole_apart_and_turn_over_the_drives)
{
	static uint8_t used[2][2048];
	uint32_t nruns, calls[2] = { 0 };
	struct meta_run runs[8];

	for (uint32_t i = 0; i < 40; i++) {
		uint32_t n = 0, drive;
		int err;

		while ((err = meta_data_alloc(r.m, i, 1 + i % 30, runs, 8, &nruns)) == -EAGAIN)
			(void)rig_step(&r);
		cr_assert_eq(err, 0);
		cr_assert_eq(meta__data_check(r.m, runs, nruns), 0);
		drive = META_BADDR_DRIVE(runs[0].baddr);
		calls[drive]++;
		for (uint32_t k = 0; k < nruns; k++) {
			cr_assert_eq(META_BADDR_DRIVE(runs[k].baddr), drive);
			for (uint32_t b = 0; b < runs[k].nblocks; b++)
				cr_assert_eq(used[drive][META_BADDR_BLOCK(runs[k].baddr) + b]++, 0);
			n += runs[k].nblocks;
		}
		cr_assert_eq(n, 1 + i % 30);
	}
	cr_assert(calls[0] >= 18 && calls[1] >= 18, "%u and %u", calls[0], calls[1]);
}

/* Permille of drive d that is free; what is open ahead, is, and so are the log's zones: as many of
 * each of two drives, now more, now less. */
static int free_permille(uint32_t d)
{
	const uint64_t a_zone = z->geo.zone_end - 1;
	uint64_t blocks = (z->free_count[d] + z->data[d].opening) * a_zone + z->data[d].room;

	for (uint32_t i = 0; i < z->geo.zone_count[d]; i++)
		if (z->zone[z->geo.zone_base[d] + i].kind == META__ZONE_LOG)
			blocks += a_zone;
	return (int)(1000 * blocks / (z->geo.zone_count[d] * a_zone));
}

/* From empty to -ENOSPC the drives are equally full, and at the end both are: but for some zones of
 * the smallest, 11 permille each, which one checkpoint has freed. */
static void fill_alike(uint32_t ndrives, const uint64_t *bytes)
{
	uint32_t puts = 0;
	char path[32];
	int err = 0;

	rig_end(&r);
	rig_make_of(&r, 12, ndrives, bytes, 4, true);
	cr_assert_eq(rig_format(&r), 0);
	z = r.m->zones;
	while (!err) {
		snprintf(path, sizeof(path), "/f%u", puts++);
		err = rig_put(&r, path, 1 + puts % 7, puts);
		for (uint32_t d = 1; d < ndrives; d++)
			cr_assert_lt(abs(free_permille(d) - free_permille(0)), 80,
				     "after %u puts %d and %d permille are free", puts,
				     free_permille(0), free_permille(d));
	}
	cr_assert_eq(err, -ENOSPC);
	cr_assert_lt(z->free_total, meta__zone_reserve(r.m, true) + 3);
}

Test(meta_zone, drives_of_one_and_three_are_full_together)
{
	fill_alike(2, (const uint64_t[]){ 8u << 20, 24u << 20 });
	cr_assert_gt(z->geo.zone_count[1], 2 * z->geo.zone_count[0]);
}

Test(meta_zone, so_are_four_of_four_sizes)
{
	fill_alike(4, (const uint64_t[]){ 20u << 20, 6u << 20, 12u << 20, 9u << 20 });
	cr_assert_gt(z->geo.zone_count[0], 3 * z->geo.zone_count[1]);
}

Test(meta_zone, header_is_durable_before_a_block_of_the_zone_is_promised)
{
	for (uint32_t i = 0; i < 60; i++) {
		struct meta_run run = take(i, 7);
		uint32_t zone = meta__zone_of(r.m, run.baddr);

		for (uint32_t copy = 0; copy < 2; copy++) {
			uint64_t baddr = meta__geo_zone_head(&z->geo, zone, copy);
			struct meta__zone_seen seen;

			cr_assert_eq(meta__zone_parse(rig_block(&r, baddr), r.m->uuid, zone, &seen),
				     0);
			cr_assert_eq(seen.kind, META__ZONE_DATA);
			cr_assert_eq(seen.incarnation, z->zone[zone].incarnation);
		}
	}
}

Test(meta_zone, dead_zone_is_free_after_a_checkpoint_and_not_before)
{
	uint32_t zone = full_zone();

	meta__zone_live_add(r.m, zone, -(int64_t)z->zone[zone].live);
	cr_assert_eq(z->zone[zone].state, ZONE_EMPTY);
	meta__zone_turn(r.m);
	cr_assert_eq(z->zone[zone].state, ZONE_EMPTY);
	meta__zone_freeze(r.m);
	cr_assert_eq(z->zone[zone].state, ZONE_FROZEN);
	meta__zone_turn(r.m);
	cr_assert_eq(z->zone[zone].state, ZONE_FROZEN);
	meta__zone_rooted(r.m);
	meta__zone_turn(r.m);
	cr_assert_eq(z->zone[zone].state, ZONE_FREE);
}

Test(meta_zone, zone_that_dies_after_the_freeze_waits_for_the_next_one)
{
	uint32_t zone = full_zone();

	meta__zone_freeze(r.m);
	meta__zone_live_add(r.m, zone, -(int64_t)z->zone[zone].live);
	meta__zone_rooted(r.m);
	meta__zone_turn(r.m);
	cr_assert_eq(z->zone[zone].state, ZONE_EMPTY);
	meta__zone_freeze(r.m);
	meta__zone_rooted(r.m);
	meta__zone_turn(r.m);
	cr_assert_eq(z->zone[zone].state, ZONE_FREE);
}

Test(meta_zone, reader_that_planned_before_keeps_the_zone_and_later_ones_do_not)
{
	uint32_t zone = full_zone();
	uint64_t before = meta__epoch_enter(r.m), after;

	meta__zone_live_add(r.m, zone, -(int64_t)z->zone[zone].live);
	meta__zone_freeze(r.m);
	after = meta__epoch_enter(r.m);
	meta__zone_rooted(r.m);
	meta__zone_turn(r.m);
	cr_assert_eq(z->zone[zone].state, ZONE_LEAVING);
	meta__epoch_leave(r.m, before);
	meta__zone_turn(r.m);
	cr_assert_eq(z->zone[zone].state, ZONE_FREE);
	meta__epoch_leave(r.m, after);
}

Test(meta_zone, reader_that_stays_for_many_checkpoints_is_waited_for)
{
	uint64_t old = meta__epoch_enter(r.m);
	uint32_t zone = full_zone();

	meta__zone_live_add(r.m, zone, -(int64_t)z->zone[zone].live);
	for (uint32_t i = 0; i < 3 * META__EPOCHS; i++) {
		uint64_t e = meta__epoch_enter(r.m);

		meta__zone_freeze(r.m);
		meta__zone_rooted(r.m);
		meta__zone_turn(r.m);
		cr_assert_eq(z->zone[zone].state, ZONE_LEAVING);
		meta__epoch_leave(r.m, e);
	}
	meta__epoch_leave(r.m, old);
	meta__zone_freeze(r.m);
	meta__zone_rooted(r.m);
	meta__zone_turn(r.m);
	cr_assert_eq(z->zone[zone].state, ZONE_FREE);
}

Test(meta_zone, promised_blocks_keep_a_zone_until_they_are_applied_or_dropped)
{
	struct meta_run held = take(0, 1);
	uint32_t zone = meta__zone_of(r.m, held.baddr);

	for (;;) {
		struct meta_run run = take(0, 1);
		uint32_t is = meta__zone_of(r.m, run.baddr);

		meta_data_free(r.m, &run, 1);
		if (is != zone)
			break;
	}
	cr_assert_eq(z->zone[zone].state, ZONE_CLOSED);
	meta__data_dropped(r.m, &held, 1);
	cr_assert_eq(z->zone[zone].state, ZONE_EMPTY);
}

Test(meta_zone, runs_that_were_not_given_out_are_refused)
{
	struct meta_run run = take(0, 2), bad;

	cr_assert_eq(meta__data_check(r.m, &run, 1), 0);
	bad = (struct meta_run){ run.baddr + 2, 1 };
	cr_assert_eq(meta__data_check(r.m, &bad, 1), -EINVAL, "behind what was given");
	bad = (struct meta_run){ run.baddr, 0 };
	cr_assert_eq(meta__data_check(r.m, &bad, 1), -EINVAL);
	bad = (struct meta_run){ META_BADDR(0, 3), 1 };
	cr_assert_eq(meta__data_check(r.m, &bad, 1), -EINVAL, "a root");
	bad = (struct meta_run){ META_BADDR(9, 100), 1 };
	cr_assert_eq(meta__data_check(r.m, &bad, 1), -EINVAL, "no such drive");
	bad = (struct meta_run){ meta__geo_zone_baddr(&z->geo, meta__zone_of(r.m, run.baddr)), 1 };
	cr_assert_eq(meta__data_check(r.m, &bad, 1), -EINVAL, "a header");
}

Test(meta_zone, data_leaves_the_reserve_alone_and_pages_may_take_it)
{
	struct meta__page_need need = { 0 };
	struct meta_run runs[64];
	uint32_t nruns, room, zones;
	int err;

	while ((err = meta_data_alloc(r.m, 0, 4, runs, 64, &nruns)) == 0 || err == -EAGAIN)
		(void)rig_step(&r);
	cr_assert_eq(err, -ENOSPC);
	cr_assert_geq(z->free_total, meta__zone_reserve(r.m, true));
	cr_assert_lt(z->free_total, meta__zone_reserve(r.m, true) + 3);
	zones = z->free_total;
	cr_assert_geq(zones, (z->geo.nzones * 3 + 99) / 100);
	room = meta__page_room(r.m);
	need.leaves = (uint32_t)z->page[0].room + 20;
	for (uint32_t i = 0; i < 200 && meta__page_ready(r.m, need, true) == META__NEEDS_ROOM; i++)
		(void)rig_step(&r);
	cr_assert_eq(meta__page_ready(r.m, need, true), 0);
	cr_assert_geq(meta__page_room(r.m), room + 20);
	cr_assert_lt(z->free_total, zones);
}

static void expect_wear(void)
{
	uint64_t least = UINT64_MAX, most = 0;
	struct meta_statfs s = { 0 };

	for (uint32_t i = 0; i < z->geo.nzones; i++) {
		least = min_u64(least, z->zone[i].incarnation);
		most = max_u64(most, z->zone[i].incarnation);
	}
	meta__zone_wear(r.m, &s);
	cr_assert_eq(s.wear_least, least);
	cr_assert_eq(s.wear_most, most);
}

Test(meta_zone, wear_is_the_least_and_the_most_that_a_zone_was_used)
{
	expect_wear();
	for (uint32_t n = 0; n < 3 * z->geo.nzones; n++) {
		const uint32_t zone = full_zone_of(n % 2);

		expect_wear();
		meta__zone_live_add(r.m, zone, -(int64_t)z->zone[zone].live);
		if (n % 4 == 3) {
			meta__ckpt_want(r.m);
			rig_idle(&r);
		}
	}
	expect_wear();
	cr_assert_gt(z->wear_least, 0);
	for (uint32_t i = 0; i < z->geo.nzones; i++)
		if (z->zone[i].state == ZONE_FREE)
			cr_expect_geq(z->zone[i].incarnation + 2, z->wear_most,
				      "free zones of a drive take turns: zone %u has had %llu", i,
				      (unsigned long long)z->zone[i].incarnation);
}

Test(meta_zone, keys_name_zones_and_back_and_nothing_else_does)
{
	for (uint32_t i = 0; i < z->geo.nzones; i++) {
		struct meta_key key = meta__zone_key(r.m, i);

		cr_assert_eq(meta__zone_of_key(r.m, &key), i);
		key.w[2] += 1u << 20;
		cr_assert_eq(meta__zone_of_key(r.m, &key), META__ZONE_NONE);
	}
}
