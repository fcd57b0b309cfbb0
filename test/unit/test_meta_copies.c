/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A log on two drives: each block twice.  A block that one place has lost is read from the other;
 * one that both have lost is as in a log of one copy (test_meta_replay.c).
 */
#include "test/lib/meta_rig.h"

#include "meta/meta_store.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES = 40, BYTES = 4 << 20, BLOCKS_MAX = 512 };

static struct rig r;
static uint8_t *saved[2];
static struct found {
	uint64_t seq, durable, trim, baddr[META__LOG_COPIES];
} found[BLOCKS_MAX];
static uint32_t nfound;
static struct found last; /* nothing says that it was durable */

static struct found *found_of(uint64_t seq)
{
	for (uint32_t i = 0; i < nfound; i++)
		if (found[i].seq == seq)
			return &found[i];
	cr_assert_lt(nfound, BLOCKS_MAX);
	found[nfound] = (struct found){ .seq = seq };
	return &found[nfound++];
}

static void find_in(const struct meta__zone_seen *seen)
{
	const struct meta__geo *g = &r.m->zones->geo;
	const uint64_t tag = meta__log_tag(r.m, seen->epoch, seen->order);

	for (uint32_t at = 1; at < g->zone_end; at++) {
		const uint64_t baddr = meta__geo_zone_baddr(g, seen->zone) + at;
		struct meta__log_head h;
		struct found *f;

		if (meta__log_open(rig_block(&r, baddr), g->zone_end - at, tag, &h) != 0)
			continue;
		f = found_of(h.seq);
		f->durable = h.durable;
		f->trim = h.trim;
		f->baddr[META_BADDR_DRIVE(baddr)] = baddr;
	}
}

/* Finds the blocks that a mount needs: from the trimmed part to the last that was certainly
 * durable. */
static void find_needed(void)
{
	uint64_t trim = 0, durable = 0;
	uint32_t kept = 0;

	nfound = 0;
	for (uint32_t z = 0; z < r.m->zones->geo.nzones; z++) {
		struct meta__zone_seen seen;

		cr_assert_eq(
			meta__zone_parse(rig_block(&r, meta__geo_zone_baddr(&r.m->zones->geo, z)),
					 r.m->uuid, z, &seen),
			0);
		if (seen.kind == META__ZONE_LOG && seen.epoch == r.m->epoch)
			find_in(&seen);
	}
	for (uint32_t i = 0; i < nfound; i++) {
		trim = max_u64(trim, found[i].trim);
		durable = max_u64(durable, found[i].durable);
	}
	for (uint32_t i = 0; i < nfound; i++) {
		if (found[i].seq > last.seq)
			last = found[i];
		if (found[i].seq > trim && found[i].seq <= durable)
			found[kept++] = found[i];
	}
	nfound = kept;
	cr_assert_eq(last.seq, durable + 1);
	cr_assert_gt(nfound, 10);
}

static void store(void)
{
	rig_make(&r, 3, 2, BYTES, 4, true);
	cr_assert_eq(rig_format(&r), 0);
	for (uint32_t i = 0; i < FILES; i++) {
		char path[32];

		(void)snprintf(path, sizeof(path), "/file %u", i);
		cr_assert_eq(rig_put(&r, path, i % 3, i + 1), 0);
	}
	rig_idle(&r);
	find_needed();
	rig_power_cut(&r);
	for (uint32_t d = 0; d < 2; d++) {
		saved[d] = malloc(BYTES);
		cr_assert_not_null(saved[d]);
		memcpy(saved[d], r.image[d], BYTES);
	}
}

static void store_end(void)
{
	rig_end(&r);
	free(saved[0]);
	free(saved[1]);
}

TestSuite(meta_copies, .init = store, .fini = store_end, .timeout = 120);

static void images_back(void)
{
	if (r.m)
		rig_power_cut(&r);
	for (uint32_t d = 0; d < 2; d++) {
		memcpy(r.image[d], saved[d], BYTES);
		memcpy(r.view[d], saved[d], BYTES);
	}
}

static void damage(uint64_t baddr, uint32_t byte)
{
	const uint32_t drive = META_BADDR_DRIVE(baddr);
	const uint64_t at = META_BADDR_BLOCK(baddr) * 4096 + byte;

	r.image[drive][at] ^= 0x10;
	r.view[drive][at] ^= 0x10;
}

static void all_is_there(void)
{
	for (uint32_t i = 0; i < FILES; i++) {
		char path[32];
		uint32_t blocks;
		uint64_t fill;

		(void)snprintf(path, sizeof(path), "/file %u", i);
		cr_assert_eq(rig_get(&r, path, &blocks, &fill), 0, "%s", path);
		cr_assert_eq(fill, i + 1);
	}
}

static bool says(const char *text)
{
	return strstr(meta_error(r.m), text);
}

Test(meta_copies, each_block_is_on_both_drives)
{
	for (uint32_t i = 0; i < nfound; i++)
		cr_assert(found[i].baddr[0] && found[i].baddr[1], "block %llu",
			  (unsigned long long)found[i].seq);
	cr_assert_eq(rig_mount(&r), 0);
	cr_assert_str_eq(meta_error(r.m), "");
	all_is_there();
}

Test(meta_copies, one_that_is_damaged_is_read_from_the_other_and_said)
{
	for (uint32_t i = 0; i < nfound; i++)
		for (uint32_t d = 0; d < 2; d++) {
			char name[64];

			images_back();
			damage(found[i].baddr[d], i * 61 % 4096);
			cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
			(void)snprintf(name, sizeof(name), "drive %u: a copy of the log is damaged",
				       d);
			cr_assert(says(name), "block %u: %s", i, meta_error(r.m));
			all_is_there();
		}
}

/* Now this one, now that one: neither zone is whole, both together are. */
Test(meta_copies, each_may_lack_what_the_other_one_has)
{
	struct rand_state rand;

	rand_seed(&rand, 7);
	for (uint32_t n = 0; n < 200; n++) {
		images_back();
		for (uint32_t i = 0; i < nfound; i++)
			if (n == 0 || rand_below(&rand, 4) > 0)
				damage(found[i].baddr[n == 0 ? i & 1 : rand_below(&rand, 2)],
				       (uint32_t)rand_below(&rand, 4096));
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		cr_assert(says("a copy of the log is damaged"), "%s", meta_error(r.m));
		all_is_there();
	}
}

/* A write that went astray: a block that is whole, and stands where another should. */
Test(meta_copies, one_that_stands_elsewhere_is_not_taken_for_another)
{
	for (uint32_t i = 0; i < nfound; i++)
		for (uint32_t k = 0; k < nfound; k += 5) {
			const uint64_t to = META_BADDR_BLOCK(found[i].baddr[1]) * 4096;
			const uint64_t from = META_BADDR_BLOCK(found[k].baddr[1]) * 4096;

			if (i == k)
				continue;
			images_back();
			memcpy(r.image[1] + to, saved[1] + from, 4096);
			memcpy(r.view[1] + to, saved[1] + from, 4096);
			cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
			cr_assert(says("drive 1: a copy of the log is damaged"), "%s",
				  meta_error(r.m));
			all_is_there();
		}
}

Test(meta_copies, what_both_have_lost_refuses_the_mount_by_name)
{
	for (uint32_t i = 0; i < nfound; i++) {
		char name[64];

		images_back();
		damage(found[i].baddr[0], 100);
		damage(found[i].baddr[1], 4000);
		cr_assert_eq(rig_mount(&r), -EUCLEAN);
		(void)snprintf(name, sizeof(name), "log block %llu ",
			       (unsigned long long)found[i].seq);
		cr_assert(says(name), "%s", meta_error(r.m));
	}
}

/* Reads of the zone that this block is in fail, as those of a drive that is about to go. */
static void zone_unreadable(uint64_t baddr)
{
	const struct meta__geo *g = &r.m->zones->geo;
	const uint64_t head = meta__geo_zone_baddr(g, meta__geo_zone_of(g, baddr));

	r.unread[META_BADDR_DRIVE(baddr)].from = META_BADDR_BLOCK(head) + 1;
	r.unread[META_BADDR_DRIVE(baddr)].to = META_BADDR_BLOCK(head) + g->zone_end;
}

Test(meta_copies, one_that_cannot_be_read_is_not_needed)
{
	cr_assert_eq(rig_mount(&r), 0); /* for its geometry */
	for (uint32_t d = 0; d < 2; d++) {
		memset(r.unread, 0, sizeof(r.unread));
		zone_unreadable(found[nfound / 2].baddr[d]);
		images_back();
		cr_assert_eq(rig_mount(&r), 0, "drive %u: %s", d, meta_error(r.m));
		cr_assert(says("cannot be read"), "%s", meta_error(r.m));
		all_is_there();
	}
}

/* Nobody knows whether the changes in that block were acknowledged. */
Test(meta_copies, both_that_cannot_be_read_refuse_the_mount)
{
	const struct found *f = &found[nfound / 2];

	cr_assert_eq(rig_mount(&r), 0);
	zone_unreadable(f->baddr[0]);
	zone_unreadable(f->baddr[1]);
	images_back();
	cr_assert_eq(rig_mount(&r), -EIO);
	cr_assert(says("the log cannot be read"), "%s", meta_error(r.m));

	images_back(); /* of one only, and of the other a block is damaged */
	memset(&r.unread[1], 0, sizeof(r.unread[1]));
	damage(f->baddr[1], 100);
	cr_assert_eq(rig_mount(&r), -EUCLEAN);
	cr_assert(says("log block"), "%s", meta_error(r.m));
}

/* One copy got the last block, the other did not; the mount that found that is cut off as soon as
 * it has said that it is there. */
Test(meta_copies, torn_tail_is_no_damage_to_the_next_mount_either)
{
	for (uint32_t then = 0; then < 2; then++) {
		int err = -ECANCELED;

		for (uint64_t n = 1; err; n++) {
			images_back();
			damage(last.baddr[1], 77);
			r.cut_at = r.writes + n;
			err = rig_mount(&r);
			cr_assert(err == 0 || err == -ECANCELED);
			rig_power_cut(&r);
			r.cut_at = 0;
			if (then && n <= 3) /* nothing was replayed: now nobody has it */
				damage(last.baddr[0], 77);
			cr_assert_eq(rig_mount(&r), 0, "%llu: %s", (unsigned long long)n,
				     meta_error(r.m));
			cr_assert_not(says("a copy of the log"), "%s", meta_error(r.m));
			all_is_there();
		}
	}
}

/* The last free zones are not given for second copies. */
Test(meta_copies, one_must_do_where_there_is_no_room_for_two)
{
	struct meta__zones *z;
	uint32_t zone[META__LOG_COPIES], next;
	int err;

	cr_assert_eq(rig_mount(&r), 0);
	rig_idle(&r);
	z = r.m->zones;
	while ((next = meta__zone_next(r.m, 1)) != META__ZONE_NONE)
		meta__zone_use(r.m, next, META__ZONE_DATA);
	while ((err = meta__zone_take_log(r.m, zone)) == -EAGAIN)
		(void)rig_step(&r);
	cr_assert_eq(err, 0);
	cr_assert_eq(META_BADDR_DRIVE(meta__geo_zone_baddr(&z->geo, zone[0])), 0);
	cr_assert_eq(zone[1], META__ZONE_NONE);
}
