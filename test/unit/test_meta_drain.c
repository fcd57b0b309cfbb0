/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A drive leaves a store that serves: all its live blocks go to the others, whatever they are and
 * whenever the power fails, and then it does not belong to the store any more. */
#include "test/lib/meta_rig.h"
#include "test/lib/runs.h"
#include "meta/ops/meta_gc.h"
#include "base/num.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DRIVE_BYTES (8u << 20)

static struct rig r;
static uint32_t files;

static const char *path_of(uint32_t i)
{
	static char path[16];

	(void)snprintf(path, sizeof(path), "/f%u", i);
	return path;
}

static int put_one(void)
{
	int err = rig_put(&r, path_of(files), files % 30, 100 + files);

	files += err == 0;
	return err;
}

/* Makes a store on `ndrives` drives of the same size, with `count` files. */
static void store_on(uint64_t seed, uint32_t ndrives, uint32_t count, uint32_t nshards)
{
	rig_make(&r, seed, ndrives, DRIVE_BYTES, nshards, true);
	for (uint32_t d = 0; d < ndrives; d++)
		(void)snprintf(r.conf.drive[d].name, META_DRIVE_NAME, "file:/d%u", d);
	cr_assert_eq(rig_format(&r), 0);
	for (files = 0; files < count;)
		cr_assert_eq(put_one(), 0);
}

static void store_end(void)
{
	rig_end(&r);
}

TestSuite(meta_drain, .fini = store_end, .timeout = 120);

static void all_is_whole(void)
{
	struct meta_check check = { 0 };

	for (uint32_t i = 0; i < files; i++) {
		uint32_t blocks;
		uint64_t fill;

		cr_assert_eq(rig_get(&r, path_of(i), &blocks, &fill), 0, "%s", path_of(i));
		cr_assert_eq(blocks, i % 30);
		cr_assert_eq(fill, 100 + i);
	}
	cr_assert_eq(rig_check(&r, &check), 0, "%s", check.first[0]);
}

static struct meta_drive_stat stat_of(uint32_t d)
{
	struct meta_drive_stat s;

	meta_drive_stat(r.m, d, &s);
	meta_drive_count(r.m, &s);
	return s;
}

static int settled(int err)
{
	while (!err && meta_drive_drain_status(r.m) == -EAGAIN && !r.cut)
		(void)rig_step(&r);
	return err ? err : meta_drive_drain_status(r.m);
}

static int drain(uint32_t d)
{
	return settled(meta_drive_drain(r.m, d));
}

/* Its superblocks are being written, and all its zones are counted as free until they are. */
Test(meta_drain, no_header_is_mended_on_a_drive_that_is_about_to_go)
{
	struct meta__zone_seen head;

	store_on(5, 3, 40, 4);
	cr_assert_eq(meta_drive_drain(r.m, 1), 0);
	while (!meta__drain_empty(r.m, 1))
		(void)rig_step(&r);
	head = meta__zone_head(r.m, r.m->zones->geo.zone_base[1]);
	cr_assert(!meta__zone_mend(r.m, &head, 3));
	while (!stat_of(1).gone)
		(void)rig_step(&r);
	cr_assert_eq(meta_health(r.m), 0);
}

/* The drive is pulled out: nothing of it is given to a mount any more. */
static void without(uint32_t d)
{
	r.conf.drive[d].nblocks = 0;
}

static void remount(void)
{
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
}

static void is_gone(uint32_t d)
{
	rig_idle(&r);
	cr_assert(stat_of(d).gone, "drive %u: %u zones, %llu blocks, roots %d", d,
		  stat_of(d).zones_used, (unsigned long long)stat_of(d).live_blocks,
		  stat_of(d).roots);
}

static void leaves(uint32_t d)
{
	cr_assert_gt(stat_of(d).zones_used, 2);
	cr_assert_eq(drain(d), 0);
	cr_assert(stat_of(d).draining || stat_of(d).gone);
	is_gone(d);
	all_is_whole();
	cr_assert_eq(put_one(), 0);
	remount(); /* with it, by one who has not taken it out yet */
	cr_assert(stat_of(d).gone);
	all_is_whole();
	cr_assert_eq(rig_stop(&r), 0);
	without(d);
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	cr_assert(stat_of(d).gone);
	cr_assert_eq(put_one(), 0);
	all_is_whole();
}

Test(meta_drain, last_of_three_leaves_and_the_store_starts_without_it)
{
	store_on(3, 3, 60, 4);
	leaves(2);
	cr_assert_eq(r.m->zones->geo.root_zone[0][0], 0);
}

Test(meta_drain, first_of_three_leaves_with_its_copy_of_the_roots)
{
	store_on(4, 3, 60, 4);
	cr_assert(stat_of(0).roots);
	leaves(0);
	cr_assert_neq(r.m->zones->geo.root_zone[0][0], 0);
	cr_assert_eq(r.m->zones->geo.root_zone[1][0], 0);
	for (uint32_t d = 1; d < 3; d++)
		cr_assert_neq(meta__geo_roots_on(&r.m->zones->geo, 0, d),
			      meta__geo_roots_on(&r.m->zones->geo, 1, d), "one on each");
}

Test(meta_drain, roots_that_take_several_zones_leave)
{
	store_on(5, 3, 40, 32);
	cr_assert_gt(r.m->zones->geo.root_zones, 3);
	leaves(1);
	for (uint32_t i = 0; i < r.m->zones->geo.root_zones; i++)
		cr_assert_neq(r.m->zones->geo.root_zone[1][i], 0);
}

/* In the end the store is on another drive. */
Test(meta_drain, store_moves_from_its_only_drive_to_another_and_on)
{
	store_on(6, 1, 30, 4);
	for (uint32_t d = 1; d < 4; d++) {
		(void)rig_drive(&r, DRIVE_BYTES, true);
		r.conf.drive[d].tag = d + 7;
		cr_assert_eq(rig_drive_add(&r, d), 0, "%s", meta_error(r.m));
		r.conf.ndrives = d + 1;
		leaves(d - 1);
	}
	cr_assert_eq(meta_drives(r.m), 4);
	cr_assert(meta__geo_roots_on(&r.m->zones->geo, 0, 3));
	cr_assert(meta__geo_roots_on(&r.m->zones->geo, 1, 3));
}

/* Both copies move; a checkpoint in between would write them to their old place. */
Test(meta_drain, checkpoints_wait_for_roots_that_move)
{
	for (uint32_t seed = 40; seed < 52; seed++) {
		store_on(seed, 1, 30, 32);
		(void)rig_drive(&r, DRIVE_BYTES, true);
		r.conf.drive[1].tag = 9;
		cr_assert_eq(rig_drive_add(&r, 1), 0, "%s", meta_error(r.m));
		r.conf.ndrives = 2;
		cr_assert_eq(meta_drive_drain(r.m, 0), 0);
		for (uint32_t n = 0; n < 3000 && stat_of(0).roots; n++) {
			meta__ckpt_want(r.m);
			if (n % 4 == 0)
				cr_assert_eq(rig_put(&r, path_of(n % files), n % files % 30,
						     100 + n % files),
					     0);
			(void)rig_step(&r);
		}
		cr_assert(!stat_of(0).roots);
		rig_kill(&r);
		cr_assert_eq(rig_mount(&r), 0, "seed %u: %s", seed, meta_error(r.m));
		all_is_whole();
		if (seed < 51)
			store_end();
	}
}

Test(meta_drain, nothing_new_is_put_there_and_it_may_stay_after_all)
{
	uint64_t live;

	store_on(8, 2, 40, 4);
	cr_assert_eq(meta_drive_undrain(r.m, 1), -EALREADY);
	cr_assert_eq(drain(1), 0);
	cr_assert_eq(drain(1), -EALREADY);
	for (uint32_t i = 0; i < 10; i++)
		cr_assert_eq(put_one(), 0);
	live = stat_of(1).live_blocks;
	cr_assert_eq(settled(meta_drive_undrain(r.m, 1)), 0);
	cr_assert(!stat_of(1).draining);
	remount();
	cr_assert(!stat_of(1).draining && !stat_of(1).gone);
	for (uint32_t i = 0; i < 60; i++)
		cr_assert_eq(put_one(), 0);
	cr_assert_gt(stat_of(1).live_blocks, live, "it is used again");
	all_is_whole();
}

Test(meta_drain, store_that_is_used_meanwhile_loses_nothing)
{
	uint32_t meanwhile = 0;

	store_on(9, 3, 80, 4);
	cr_assert_eq(drain(1), 0);
	while (!stat_of(1).gone && meanwhile < 4000) {
		const uint32_t i = (uint32_t)rand_below(&r.rand, files);

		cr_assert_eq(rig_put(&r, path_of(i), i % 30, 100 + i), 0); /* replaced */
		for (uint32_t k = 0; k < 20; k++)
			(void)rig_step(&r);
		meanwhile++;
	}
	cr_assert(stat_of(1).gone, "%u zones are left", stat_of(1).zones_used);
	cr_assert_gt(meanwhile, 3);
	all_is_whole();
	remount();
	all_is_whole();
}

Test(meta_drain, who_fills_the_store_meanwhile_leaves_the_room_that_it_takes)
{
	int err = 0;

	store_on(21, 3, 150, 4);
	cr_assert_eq(drain(1), 0);
	while (!err)
		err = put_one();
	cr_assert_eq(err, -ENOSPC);
	is_gone(1);
	all_is_whole();
	cr_assert_eq(rig_unlink(&r, path_of(--files)), 0);
	remount();
	all_is_whole();
}

/* The room is held for what moves, and not twice: others go on. */
Test(meta_drain, nobody_is_told_that_a_store_is_full_which_is_not)
{
	store_on(22, 3, 150, 4);
	cr_assert_eq(drain(1), 0);
	for (uint32_t i = 0; i < 30 && !stat_of(1).gone; i++) {
		cr_assert_eq(put_one(), 0, "file %u, %u zones are left on it", i,
			     stat_of(1).zones_used);
		(void)rig_step(&r);
	}
	is_gone(1);
	all_is_whole();
}

Test(meta_drain, one_that_is_not_gone_yet_is_missed_by_name)
{
	store_on(10, 3, 60, 4);
	cr_assert_eq(drain(1), 0);
	rig_kill(&r);
	without(1);
	cr_assert_eq(rig_mount(&r), -ENODEV);
	cr_assert_not_null(strstr(meta_error(r.m), "drive 1, file:/d1 is missing"), "%s",
			   meta_error(r.m));
}

Test(meta_drain, what_cannot_be_drained_is_refused)
{
	store_on(11, 2, 10, 4);
	cr_assert_eq(meta_drive_drain(r.m, 2), -ENODEV);
	cr_assert_eq(meta_drive_drain(r.m, 0), 0);
	cr_assert_eq(meta_drive_drain(r.m, 1), -EBUSY);
	cr_assert_eq(settled(0), 0);
	while (meta_drive_drain(r.m, 1) == -EBUSY)
		(void)rig_step(&r);
	cr_assert_eq(meta_drive_drain(r.m, 1), -EPERM, "it is the last one");
	is_gone(0);
	cr_assert_eq(meta_drive_drain(r.m, 0), -ENODEV);
	cr_assert_eq(meta_drive_undrain(r.m, 0), -ENODEV);
	all_is_whole();
}

Test(meta_drain, more_than_the_others_can_hold_is_refused)
{
	store_on(12, 2, 0, 4);
	while (stat_of(0).zones_used + stat_of(1).zones_used < 160)
		cr_assert_eq(put_one(), 0);
	cr_assert_eq(meta_drive_drain(r.m, 1), -ENOSPC);
	cr_assert(!stat_of(1).draining);
	all_is_whole();
}

/* It is told, and rests: no checkpoint follows the other for ever. */
Test(meta_drain, block_that_is_rotten_stays_and_so_does_the_drive)
{
	const struct meta__geo *g;
	bool spoilt = false;

	store_on(13, 2, 40, 4);
	rig_idle(&r);
	g = &r.m->zones->geo;
	for (uint32_t z = g->zone_base[1]; z < g->nzones && !spoilt; z++) {
		const struct meta__zone *at = meta__zone_at(r.m, z);

		if (at->kind != META__ZONE_DATA || at->live + 1 < at->used || at->live == 0)
			continue;
		r.view[1][META_BADDR_BLOCK(meta__geo_zone_baddr(g, z) + 1) * 4096] ^= 1;
		spoilt = true;
	}
	cr_assert(spoilt);
	cr_assert_eq(drain(1), 0);
	rig_idle(&r);
	cr_assert(stat_of(1).draining);
	cr_assert_eq(stat_of(1).zones_used, 1);
	cr_assert_eq(stat_of(1).live_blocks, 1);
	cr_assert_eq(stat_of(1).kept_blocks, 1);
	cr_assert_not_null(strstr(meta_error(r.m), "stays where it is"), "%s", meta_error(r.m));
	for (uint32_t i = 0; i < files; i++)
		cr_assert_eq(rig_unlink(&r, path_of(i)), 0);
	files = 0;
	is_gone(1);
}

/* Every zone of the kind ROOT must contain roots: zones that were reserved for them are free
 * again. */
static void no_zone_is_lost(void)
{
	const struct meta__geo *g = &r.m->zones->geo;

	for (uint32_t z = 0; z < g->nzones; z++)
		if (meta__zone_at(r.m, z)->kind == META__ZONE_ROOT)
			cr_assert(meta__geo_zone_roots(g, z), "zone %u", z);
}

/* The drain of drive 0 is taken back after so many turns.  False: its roots have moved. */
static bool taken_back(uint32_t turns)
{
	store_on(80 + turns, 3, 12, 32);
	cr_assert_eq(drain(0), 0);
	for (uint32_t i = 0; i < turns && stat_of(0).roots; i++)
		(void)rig_step(&r);
	if (!stat_of(0).roots || r.m->boot->adding)
		return false;
	cr_assert_eq(settled(meta_drive_undrain(r.m, 0)), 0);
	return true;
}

Test(meta_drain, zones_taken_for_roots_come_back_where_it_stays)
{
	uint32_t turns = 0;

	for (; taken_back(turns); turns++) {
		rig_idle(&r);
		no_zone_is_lost();
		store_end();
	}
	cr_assert_gt(turns, 8);
}

Test(meta_drain, zones_taken_for_roots_are_not_used_where_another_leaves)
{
	uint32_t turns = 0;

	for (; taken_back(turns); turns++) {
		cr_assert_eq(drain(1), 0);
		is_gone(1);
		no_zone_is_lost();
		rig_kill(&r);
		cr_assert_eq(rig_mount(&r), 0, "%u: %s", turns, meta_error(r.m));
		all_is_whole();
		store_end();
	}
	cr_assert_gt(turns, 8);
}

/* ---- drives that fail ------------------------------------------------------------------------ */

static void writes_a_checkpoint(void)
{
	const uint64_t rooted = r.m->zones->epoch;

	cr_assert_eq(put_one(), 0);
	meta__ckpt_want(r.m);
	rig_idle(&r);
	cr_assert_gt(r.m->zones->epoch, rooted);
	cr_assert_eq(meta_health(r.m), 0, "%s", meta_error(r.m));
}

Test(meta_drain, one_that_cannot_be_written_any_more_leaves)
{
	store_on(14, 3, 60, 4);
	cr_assert_eq(drain(2), 0);
	r.bad_supers = 1 << 2;
	is_gone(2);
	r.bad_flushes = 1 << 2;
	writes_a_checkpoint();
	remount(); /* it does not say of itself that it is gone, nor ever will */
	cr_assert(stat_of(2).gone);
	writes_a_checkpoint();
	r.bad_reads = 1 << 2;
	remount();
	cr_assert(stat_of(2).gone);
	writes_a_checkpoint();
	all_is_whole();
}

Test(meta_drain, one_that_serves_and_cannot_be_read_is_refused)
{
	store_on(15, 3, 10, 4);
	cr_assert_eq(drain(1), 0);
	is_gone(1);
	r.bad_reads = 1 << 2;
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), -EIO);
	cr_assert_not_null(strstr(meta_error(r.m), "drive 2: cannot be read"), "%s",
			   meta_error(r.m));
}

/* The others' superblocks are as they were: they are not to wait for it at the next mount. */
Test(meta_drain, one_that_cannot_say_that_it_drains_serves_on)
{
	store_on(16, 3, 30, 4);
	r.bad_supers = 1 << 1;
	cr_assert_eq(drain(1), -EIO);
	cr_assert(!stat_of(1).draining);
	remount();
	cr_assert(!stat_of(1).draining);
	all_is_whole();
	r.bad_supers = 0;
	cr_assert_eq(drain(1), 0);
	is_gone(1);
	all_is_whole();
}

/* Another one's superblock was not written: it stays, empty, until it is asked for again. */
static void stays_empty(uint32_t drive, uint32_t other)
{
	cr_assert_eq(drain(drive), 0);
	r.bad_supers = 1u << other;
	rig_idle(&r);
	cr_assert(stat_of(drive).draining);
	cr_assert_eq(stat_of(drive).zones_used, 0);
	r.bad_supers = 0;
}

Test(meta_drain, one_that_is_empty_cannot_fail_the_store)
{
	store_on(17, 3, 30, 4);
	stays_empty(2, 1);
	r.bad_flushes = 1 << 2;
	writes_a_checkpoint();
	cr_assert(stat_of(2).draining);
	cr_assert_eq(drain(2), 0, "it is tried again");
	is_gone(2);
	all_is_whole();
}

/* The status of an addition must not tell the result of another drive's drain. */
Test(meta_drain, what_is_said_of_it_is_not_said_of_one_that_is_added)
{
	store_on(20, 2, 10, 4);
	(void)rig_drive(&r, DRIVE_BYTES, true);
	r.conf.drive[2].tag = 9;
	cr_assert_eq(rig_drive_add(&r, 2), 0, "%s", meta_error(r.m));
	cr_assert_eq(meta_drive_drain(r.m, 1), 0);
	cr_assert_eq(meta_drive_drain_status(r.m), -EAGAIN);
	cr_assert_eq(meta_drive_add_status(r.m), 0);
	cr_assert_eq(settled(0), 0);
	r.bad_supers = 1 << 1;
	cr_assert_eq(settled(meta_drive_undrain(r.m, 1)), -EIO);
	cr_assert_eq(meta_drive_add_status(r.m), 0);
}

/* ---- numbers of sets ------------------------------------------------------------------------- */

/* As a mount would read it. */
static uint8_t *super_at(uint32_t d, uint32_t copy)
{
	return r.view[d] + (copy ? r.conf.drive[d].nblocks - 1 : 0) * 4096;
}

static struct meta__super super_of(uint32_t d, uint32_t copy)
{
	struct meta__super s;
	char why[128];

	cr_assert_eq(meta__super_parse(super_at(d, copy), &s, why), 0, "drive %u: %s", d, why);
	return s;
}

Test(meta_drain, number_of_a_change_that_failed_is_not_used_again)
{
	uint64_t tried;

	store_on(18, 3, 30, 4);
	stays_empty(2, 1);
	tried = super_of(0, 1).set;
	cr_assert_eq(super_of(0, 1).drive_state[2], DRIVE_GONE);
	cr_assert_eq(super_of(1, 1).set, tried - 1);
	cr_assert_eq(settled(meta_drive_undrain(r.m, 2)), 0);
	for (uint32_t d = 0; d < 3; d++)
		for (uint32_t copy = 0; copy < 2; copy++)
			cr_assert_eq(super_of(d, copy).set, tried + 1);
	cr_assert_eq(r.m->boot->super.drive_state[2], DRIVE_SERVES);
}

/* As one left it that used a number again, and was cut. */
Test(meta_drain, two_sets_of_one_number_become_one)
{
	struct meta__super s;
	uint64_t set;

	store_on(19, 3, 30, 4);
	stays_empty(2, 1);
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	cr_assert(stat_of(2).gone);
	cr_assert_eq(rig_stop(&r), 0);
	s = super_of(1, 0);
	s.drive_state[2] = DRIVE_SERVES;
	set = s.set;
	meta__super_build(&s, super_at(1, 0));
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	for (uint32_t d = 0; d < 3; d++)
		for (uint32_t copy = 0; copy < 2; copy++) {
			cr_assert_eq(super_of(d, copy).set, set + 1);
			cr_assert_eq(super_of(d, copy).drive_state[2], DRIVE_GONE);
		}
	all_is_whole();
}

/* ---- power cuts ------------------------------------------------------------------------------ */

/* Cut at the n-th write from its begin, while somebody writes.  False: it had been over by then. */
static bool cut_drain(uint64_t seed, uint32_t drive, uint32_t n)
{
	store_on(seed, 3, 24, 4);
	rig_idle(&r);
	r.cut_garbles = n % 2;
	r.cut_spoils = n % 3 == 0;
	r.cut_at = r.writes + n;
	cr_assert_eq(meta_drive_drain(r.m, drive), 0);
	for (uint32_t turns = 0; !r.cut && !stat_of(drive).gone; turns++) {
		(void)rig_step(&r);
		if (turns % 64 == 0 && files < 60 && !r.cut)
			(void)put_one();
	}
	if (!r.cut)
		return false;
	rig_power_cut(&r);
	return true;
}

/* A mount with all drives, itself cut now and then; the drain goes on by itself, and ends. */
static void goes_on(uint32_t drive, uint32_t n)
{
	for (uint32_t k = 1; k < 60; k += 1 + (uint32_t)rand_below(&r.rand, 30)) {
		int err;

		r.cut_at = r.writes + k;
		err = rig_mount(&r);
		if (!err)
			rig_idle(&r);
		cr_assert(!err || err == -ECANCELED, "write %u: %s", n, meta_error(r.m));
		if (r.cut)
			rig_power_cut(&r);
		else
			rig_kill(&r);
		r.cut_at = 0;
	}
	cr_assert_eq(rig_mount(&r), 0, "write %u: %s", n, meta_error(r.m));
	all_is_whole();
	if (!stat_of(drive).draining && !stat_of(drive).gone) /* it had not begun */
		cr_assert_eq(drain(drive), 0);
	is_gone(drive);
	all_is_whole();
	rig_kill(&r);
	without(drive);
	cr_assert_eq(rig_mount(&r), 0, "write %u: %s", n, meta_error(r.m));
	all_is_whole();
}

/* A mount without it: refused by name, or it was gone. */
static bool starts_without(uint32_t drive, uint32_t n)
{
	int err;

	without(drive);
	err = rig_mount(&r);
	if (err) {
		cr_assert_eq(err, -ENODEV);
		cr_assert_not_null(strstr(meta_error(r.m), "is missing"), "write %u: %s", n,
				   meta_error(r.m));
		return false;
	}
	all_is_whole();
	cr_assert_eq(put_one(), 0);
	rig_kill(&r);
	cr_assert_eq(rig_mount(&r), 0, "write %u: %s", n, meta_error(r.m));
	all_is_whole();
	return true;
}

/* Power is cut at each write, or each fourth: after how many of them a start without the drive was
 * refused, and after how many it was not. */
static void cut_everywhere(uint32_t drive, uint32_t *refused, uint32_t *started)
{
	uint32_t over = 0; /* how many writes it takes differs from seed to seed */

	*refused = *started = 0;
	for (uint32_t n = 1; over < 4 || (*started == 0 && over < 100); n += test_step()) {
		bool more = cut_drain(30 + n, drive, n);

		if (more)
			goes_on(drive, n);
		store_end();
		more = cut_drain(30 + n, drive, n);
		over += !more;
		if (more && starts_without(drive, n))
			++*started;
		else if (more)
			++*refused;
		store_end();
	}
	rig_make(&r, 1, 1, DRIVE_BYTES, 4, true); /* for the fixture to end */
}

Test(meta_drain, power_cut_at_any_write_leaves_a_store_that_goes_on)
{
	uint32_t refused, started;

	cut_everywhere(2, &refused, &started);
	cr_assert_gt(refused, test_runs(20));
	cr_assert_gt(started, 0);
}

Test(meta_drain, so_it_does_where_roots_are)
{
	uint32_t refused, started;

	cut_everywhere(0, &refused, &started);
	cr_assert_gt(refused, test_runs(20));
	cr_assert_gt(started, 0);
}
