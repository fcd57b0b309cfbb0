/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Zones that hold nothing are deallocated: which, when, and that none is opened meanwhile. */
#include "test/lib/meta_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PIECE 5u /* blocks of one command: a zone is several */

static struct rig r;
static struct meta__zones *z;

static void drives_take(uint32_t blocks)
{
	for (uint32_t d = 0; d < r.ndrives; d++)
		r.conf.drive[d].deallocate_max_blocks = blocks;
}

static void store(void)
{
	rig_make(&r, 11, 2, 8u << 20, 4, true);
	drives_take(PIECE);
	cr_assert_eq(rig_format(&r), 0);
	rig_idle(&r);
	z = r.m->zones;
}

static void store_end(void)
{
	rig_end(&r);
}

TestSuite(meta_deallocate, .init = store, .fini = store_end, .timeout = 30);

/* A zone that is free now, as if it had been in use. */
static uint32_t freed(uint32_t drive)
{
	uint32_t zone = meta__zone_next(r.m, drive);

	meta__zone_use(r.m, zone, META__ZONE_DATA);
	meta__zone_settle(r.m, zone);
	meta__zone_freeze(r.m);
	meta__zone_rooted(r.m);
	meta__zone_turn(r.m);
	cr_assert_eq(z->zone[zone].state, ZONE_FREE);
	return zone;
}

/* Returns the next I/O of the store, which must be a deallocation, or NULL. */
static struct meta_io *wanted(void)
{
	struct meta_io *io = meta_io_next(r.m);

	cr_assert(!io || io->op == META_IO_DEALLOCATE);
	return io;
}

static void answer(struct meta_io *io, int status)
{
	io->status = status;
	meta_io_done(r.m, io);
}

static struct meta_statfs told(void)
{
	struct meta_statfs out = { 0 };

	meta__deallocate_stat(r.m, &out);
	return out;
}

static uint32_t listed(const struct list *l)
{
	const struct list *at;
	uint32_t n = 0;

	list_for_each (at, l)
		n++;
	return n;
}

Test(meta_deallocate, what_lies_between_the_headers_of_a_freed_zone_is_told_piece_by_piece)
{
	const uint32_t zone = freed(0), count = z->free_count[0], total = z->free_total;
	uint64_t at = META_BADDR_BLOCK(meta__geo_zone_baddr(&z->geo, zone)) + 1, end;
	struct meta_io *io;

	end = at + z->geo.zone_end - 1;
	meta__deallocate_turn(r.m);
	while ((io = wanted())) {
		cr_assert_eq(z->zone[zone].state, ZONE_DEALLOCATING);
		cr_assert_eq(z->free_count[0], count - 1);
		cr_assert_eq(z->free_total, total, "it is free in a moment");
		cr_assert_eq(io->drive, 0);
		cr_assert_eq(io->block, at);
		cr_assert(io->nblocks > 0 && io->nblocks <= PIECE);
		at += io->nblocks;
		cr_assert_leq(at, end);
		meta__deallocate_turn(r.m); /* one at a time */
		answer(io, 0);
	}
	cr_assert_eq(at, end);
	cr_assert_eq(z->zone[zone].state, ZONE_FREE);
	cr_assert_eq(z->free_count[0], count);
	cr_assert_eq(told().deallocated_blocks, z->geo.zone_end - 1);
	meta__deallocate_turn(r.m);
	cr_assert_null(wanted(), "once");
}

Test(meta_deallocate, a_zone_that_is_told_is_not_opened_by_anybody_however_few_are_left)
{
	const uint32_t zone = freed(0);
	struct meta_io *io;
	uint32_t next, log[2];

	meta__deallocate_turn(r.m);
	io = wanted();
	cr_assert_not_null(io);
	for (uint32_t d = 0; d < 2; d++)
		while ((next = meta__zone_next(r.m, d)) != META__ZONE_NONE) {
			cr_assert_neq(next, zone);
			meta__zone_use(r.m, next, META__ZONE_DATA);
		}
	cr_assert_eq(meta__zone_pick(r.m), META__ZONE_NONE);
	if (z->log_ready[0] != META__ZONE_NONE)
		cr_assert_eq(meta__zone_take_log(r.m, log), 0);
	z->log_opening = 0;
	cr_assert_eq(meta__zone_take_log(r.m, log), -EAGAIN, "there will be one");
	r.m->failed = -EROFS; /* the rest of it is not asked for any more */
	answer(io, 0);
	cr_assert_eq(meta__zone_pick(r.m), zone);
	meta__zone_use(r.m, zone, META__ZONE_DATA);
	cr_assert_eq(meta__zone_take_log(r.m, log), -ENOSPC);
}

Test(meta_deallocate, a_zone_that_is_opened_before_is_not_told)
{
	uint32_t zone = freed(0), next;

	while ((next = meta__zone_next(r.m, 0)) != zone)
		meta__zone_use(r.m, next, META__ZONE_DATA);
	meta__zone_use(r.m, zone, META__ZONE_DATA);
	meta__deallocate_turn(r.m);
	cr_assert_null(wanted());
}

Test(meta_deallocate, a_drive_that_refuses_is_not_asked_again_and_nothing_else_comes_of_it)
{
	uint32_t zone[3], count;

	for (uint32_t i = 0; i < 3; i++)
		zone[i] = freed(0);
	count = z->free_count[0];
	cr_assert_eq(listed(&z->fresh[0]), 3);
	meta__deallocate_turn(r.m);
	answer(wanted(), -EOPNOTSUPP);
	cr_assert_eq(listed(&z->fresh[0]), 0);
	cr_assert_eq(listed(&z->free[0]), count);
	for (uint32_t i = 0; i < 3; i++)
		cr_assert_eq(z->zone[zone[i]].state, ZONE_FREE);
	cr_assert_eq(told().deallocate_failures, 1);
	(void)freed(0);
	meta__deallocate_turn(r.m);
	cr_assert_null(wanted());
	cr_assert_eq(meta_health(r.m), 0);
	(void)freed(1);
	meta__deallocate_turn(r.m);
	cr_assert_eq(wanted()->drive, 1, "the other one has refused nothing");
}

Test(meta_deallocate, none_is_taken_while_few_are_free)
{
	uint32_t next;

	(void)freed(0);
	while (z->free_total > meta__zone_reserve(r.m, true) + 2 &&
	       (next = meta__zone_next(r.m, 1)) != META__ZONE_NONE)
		meta__zone_use(r.m, next, META__ZONE_PAGE);
	while (z->free_total > meta__zone_reserve(r.m, true) + 2)
		meta__zone_use(r.m, meta__zone_next(r.m, 0), META__ZONE_PAGE);
	meta__deallocate_turn(r.m);
	cr_assert_null(wanted());
}

Test(meta_deallocate,
     a_drive_that_drains_or_has_gone_is_told_nothing_and_waits_for_what_it_was_told)
{
	struct meta_io *io;

	(void)freed(1);
	(void)freed(1);
	meta__deallocate_turn(r.m);
	io = wanted();
	cr_assert_eq(io->drive, 1);
	meta__drive_state_set(r.m, 1, DRIVE_DRAINS);
	cr_assert_eq(z->free_total, z->free_count[0]);
	cr_assert_not(meta__drain_empty(r.m, 1));
	answer(io, 0);
	cr_assert_eq(z->deallocating, 0, "it does not wait for the rest of the zone");
	meta__deallocate_turn(r.m);
	cr_assert_null(wanted());
	meta__drive_state_set(r.m, 1, DRIVE_SERVES);
	cr_assert_eq(z->free_total, z->free_count[0] + z->free_count[1]);
	meta__deallocate_turn(r.m);
	cr_assert_eq(wanted()->drive, 1, "it serves again");
}

/* Files come and go; what a drive has where nothing lies is garbage at once. */
static void come_and_go(uint32_t rounds)
{
	char path[32];
	uint64_t fill;
	uint32_t blocks;

	for (uint32_t i = 0; i < rounds; i++) {
		snprintf(path, sizeof(path), "/f%u", i % 7);
		(void)rig_unlink(&r, path);
		cr_assert_eq(rig_put(&r, path, 5 + i % 40, i), 0, "%u", i);
		if (i % 5 == 0)
			meta__ckpt_want(r.m);
		snprintf(path, sizeof(path), "/f%u", (i + 3) % 7);
		if (i >= 7)
			cr_assert_eq(rig_get(&r, path, &blocks, &fill), 0, "%u", i);
	}
}

Test(meta_deallocate,
     files_are_whole_through_mounts_and_power_cuts_with_garbage_wherever_nothing_lies)
{
	struct meta_check found;
	uint64_t fill;
	uint32_t blocks;
	char path[32];

	for (uint32_t life = 0; life < 6; life++) {
		come_and_go(120);
		cr_assert_gt(r.deallocated, 0);
		if (life % 2)
			rig_power_cut(&r);
		else
			cr_assert_eq(rig_stop(&r), 0);
		r.deallocated = 0;
		cr_assert_eq(rig_mount(&r), 0);
		cr_assert_eq(r.deallocated, 0, "what was free is not told again");
		rig_idle(&r);
		cr_assert_eq(rig_check(&r, &found), 0);
		for (uint32_t i = 0; i < 7; i++) {
			snprintf(path, sizeof(path), "/f%u", i);
			cr_assert_eq(rig_get(&r, path, &blocks, &fill), 0, "%s", path);
		}
	}
}

Test(meta_deallocate, a_store_whose_drives_cannot_is_as_it_was)
{
	rig_end(&r);
	rig_make(&r, 12, 2, 8u << 20, 4, true);
	drives_take(PIECE);
	r.refuses_deallocate = true;
	cr_assert_eq(rig_format(&r), 0);
	come_and_go(200);
	cr_assert_eq(r.deallocated, 2, "each was asked once");
	cr_assert_eq(told().deallocate_failures, 2);
	cr_assert_eq(told().deallocated_blocks, 0);
}
