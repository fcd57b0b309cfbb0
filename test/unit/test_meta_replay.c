/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A torn tail is told from rot: each log block, damaged at every place. */
#include "test/lib/meta_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FILES      24u
#define BLOCKS_MAX 512u

struct found {
	uint64_t baddr;
	struct meta__log_head head;
};

static struct rig r;
static struct found found[BLOCKS_MAX];
static uint32_t nfound;
static uint8_t *saved;

/* Every log block of the image that is whole, by sequence. */
static void find_blocks(void)
{
	const struct meta__geo *g = &r.m->zones->geo;

	nfound = 0;
	for (uint32_t z = 0; z < g->nzones; z++) {
		uint64_t baddr = meta__geo_zone_baddr(g, z);
		struct meta__zone_seen seen;
		uint64_t tag;

		cr_assert_eq(meta__zone_parse(rig_block(&r, baddr), r.m->uuid, z, &seen), 0);
		if (seen.kind != META__ZONE_LOG || seen.epoch != r.m->epoch)
			continue;
		tag = meta__log_tag(r.m, seen.epoch, seen.order);
		for (uint32_t at = 1; at < g->zone_end; at++) {
			struct found f = { .baddr = baddr + at };
			uint32_t k = nfound;

			if (meta__log_open(rig_block(&r, f.baddr), g->zone_end - at, tag,
					   &f.head) != 0)
				continue;
			cr_assert_lt(nfound++, BLOCKS_MAX);
			for (; k > 0 && found[k - 1].head.seq > f.head.seq; k--)
				found[k] = found[k - 1];
			found[k] = f;
		}
	}
}

static void store(void)
{
	rig_make(&r, 3, 1, 4u << 20, 4, true);
	cr_assert_eq(rig_format(&r), 0);
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0);
	for (uint32_t i = 0; i < FILES; i++) {
		char path[32];

		(void)snprintf(path, sizeof(path), "/file %u", i);
		cr_assert_eq(rig_put(&r, path, i % 3, i + 1), 0);
		if (i % 5 == 0)
			rig_idle(&r);
	}
	saved = malloc(4u << 20);
	cr_assert_not_null(saved);
}

static void store_end(void)
{
	rig_end(&r);
	free(saved);
}

TestSuite(meta_replay, .init = store, .fini = store_end, .timeout = 120);

static void image_save(void)
{
	rig_power_cut(&r);
	memcpy(saved, r.image[0], 4u << 20);
}

static void image_restore(void)
{
	if (r.m)
		rig_power_cut(&r);
	memcpy(r.image[0], saved, 4u << 20);
	memcpy(r.view[0], saved, 4u << 20);
}

static void flip(uint64_t baddr, uint32_t byte)
{
	rig_block(&r, baddr)[byte] ^= 0x10;
	r.view[0][META_BADDR_BLOCK(baddr) * 4096 + byte] ^= 0x10;
}

/* How many of the files are there, all of them right. */
static uint32_t count_files(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < FILES; i++) {
		char path[32];
		uint32_t blocks;
		uint64_t fill;
		int err;

		(void)snprintf(path, sizeof(path), "/file %u", i);
		err = rig_get(&r, path, &blocks, &fill);
		cr_assert(err == 0 || err == -ENOENT);
		if (err)
			continue;
		cr_assert_eq(fill, i + 1);
		n++;
	}
	return n;
}

static uint64_t trim_of_all(void)
{
	uint64_t trim = 0;

	for (uint32_t i = 0; i < nfound; i++)
		trim = max_u64(trim, found[i].head.trim);
	return trim;
}

Test(meta_replay, damage_at_any_place_of_a_block_that_was_durable_refuses_the_mount_by_name)
{
	uint32_t needed = 0;
	char name[32];

	rig_idle(&r); /* the last block is vouched for */
	find_blocks();
	image_save();
	for (uint32_t i = 0; i + 1 < nfound; i++) {
		if (found[i].head.seq <= trim_of_all())
			continue;
		needed++;
		(void)snprintf(name, sizeof(name), "log block %llu ",
			       (unsigned long long)found[i].head.seq);
		for (uint32_t at = i % 37; at < found[i].head.nblocks * 4096; at += 211) {
			image_restore();
			flip(found[i].baddr, at);
			cr_assert_eq(rig_mount(&r), -EUCLEAN, "block %u byte %u", i, at);
			cr_assert_not_null(strstr(meta_error(r.m), name), "%s", meta_error(r.m));
		}
	}
	cr_assert_gt(needed, 10);
}

Test(meta_replay, damage_in_the_block_that_only_vouches_loses_nothing)
{
	rig_idle(&r);
	find_blocks();
	cr_assert_eq(found[nfound - 1].head.records, 0);
	image_save();
	for (uint32_t at = 0; at < 4096; at += 61) {
		image_restore();
		flip(found[nfound - 1].baddr, at);
		cr_assert_eq(rig_mount(&r), 0, "byte %u: %s", at, meta_error(r.m));
		cr_assert_eq(count_files(), FILES);
	}
}

Test(meta_replay, last_block_that_nothing_vouches_for_is_a_torn_tail)
{
	find_blocks();
	cr_assert_gt(found[nfound - 1].head.records, 0, "not idle: nothing behind it");
	image_save();
	image_restore();
	cr_assert_eq(rig_mount(&r), 0);
	cr_assert_eq(count_files(), FILES);
	for (uint32_t at = 0; at < 4096; at += 61) {
		image_restore();
		flip(found[nfound - 1].baddr, at);
		cr_assert_eq(rig_mount(&r), 0, "byte %u: %s", at, meta_error(r.m));
		cr_assert_eq(count_files(), FILES - 1);
	}
}

static void cannot_be_read(uint64_t baddr, uint32_t nblocks, int status)
{
	r.lost_from = META_BADDR_BLOCK(baddr);
	r.lost_to = r.lost_from + nblocks;
	r.lost_status = status;
}

Test(meta_replay, block_of_the_torn_tail_that_cannot_be_read_loses_no_other)
{
	const struct found *last;
	char place[64];

	find_blocks();
	last = &found[nfound - 1];
	cr_assert_gt(last->head.records, 0, "not idle: nothing behind it");
	image_save();
	for (uint32_t at = 0; at < 4; at++) {
		image_restore();
		cannot_be_read(last->baddr + at, 1 + at % 2, -ENODATA);
		cr_assert_eq(rig_mount(&r), 0, "block %u: %s", at, meta_error(r.m));
		(void)snprintf(place, sizeof(place), "drive 0 block %llu: cannot be read",
			       (unsigned long long)r.lost_from);
		cr_assert_not_null(strstr(meta_error(r.m), place), "%s", meta_error(r.m));
		cr_assert_eq(count_files(), at < last->head.nblocks ? FILES - 1 : FILES);
	}
}

Test(meta_replay, block_that_was_durable_and_cannot_be_read_refuses_the_mount_by_name)
{
	char name[32];

	rig_idle(&r);
	find_blocks();
	image_save();
	(void)snprintf(name, sizeof(name), "log block %llu ",
		       (unsigned long long)found[nfound - 3].head.seq);
	image_restore();
	cannot_be_read(found[nfound - 3].baddr, 1, -ENODATA);
	cr_assert_eq(rig_mount(&r), -EUCLEAN);
	cr_assert_not_null(strstr(meta_error(r.m), name), "%s", meta_error(r.m));
}

/* Not these blocks are lost, but the drive: nobody knows what of the log stands there. */
Test(meta_replay, drive_that_fails_is_no_torn_tail)
{
	find_blocks();
	image_save();
	image_restore();
	cannot_be_read(found[nfound - 1].baddr, 1, -EIO);
	cr_assert_eq(rig_mount(&r), -EIO);
	cr_assert_not_null(strstr(meta_error(r.m), "cannot be read"), "%s", meta_error(r.m));
}

Test(meta_replay, damage_in_trimmed_blocks_matters_to_nobody)
{
	uint32_t trimmed = 0;

	rig_idle(&r);
	meta__ckpt_want(r.m);
	rig_idle(&r);
	find_blocks();
	image_save();
	for (uint32_t i = 0; i < nfound; i++) {
		if (found[i].head.seq > trim_of_all())
			continue;
		trimmed++;
		image_restore();
		flip(found[i].baddr, 99);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		cr_assert_eq(count_files(), FILES);
	}
	cr_assert_gt(trimmed, 10);
}

/* Zones that were given back are used again in any order: each may leave a gap. */
Test(meta_replay, any_number_of_trimmed_blocks_may_be_gone)
{
	uint32_t gone = 0;

	rig_end(&r);
	rig_make(&r, 3, 1, 16u << 20, 4, true);
	cr_assert_eq(rig_format(&r), 0);
	for (uint32_t i = 0; i < 200; i++) {
		char path[32];

		(void)snprintf(path, sizeof(path), "/file %u", i % FILES);
		cr_assert_eq(rig_put(&r, path, i % FILES % 3, i % FILES + 1), 0);
	}
	rig_idle(&r);
	meta__ckpt_want(r.m);
	rig_idle(&r);
	find_blocks();
	rig_power_cut(&r);
	for (uint32_t i = 0; i < nfound; i += 2) {
		if (found[i].head.seq > trim_of_all())
			continue;
		memset(rig_block(&r, found[i].baddr), 0, 4096);
		gone++;
	}
	memcpy(r.view[0], r.image[0], 16u << 20);
	cr_assert_gt(gone, 80);
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	cr_assert_eq(count_files(), FILES);
}

Test(meta_replay, gap_is_refused_though_what_follows_is_whole)
{
	rig_idle(&r);
	find_blocks();
	image_save();
	image_restore();
	memset(rig_block(&r, found[nfound - 4].baddr), 0, 4096);
	memcpy(r.view[0], r.image[0], 4u << 20);
	cr_assert_eq(rig_mount(&r), -EUCLEAN);
}

Test(meta_replay, mount_that_is_refused_has_written_nothing)
{
	rig_idle(&r);
	find_blocks();
	image_save();
	image_restore();
	flip(found[nfound - 3].baddr, 1000);
	memcpy(saved, r.image[0], 4u << 20);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(rig_mount(&r), -EUCLEAN);
		rig_power_cut(&r);
		cr_assert_arr_eq(saved, r.image[0], 4u << 20);
	}
}

Test(meta_replay, old_log_is_not_replayed_twice)
{
	rig_idle(&r);
	image_save();
	for (int i = 0; i < 5; i++) {
		struct meta_check check;

		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		cr_assert_eq(count_files(), FILES);
		cr_assert_eq(rig_check(&r, &check), 0, "%s", check.first[0]);
		rig_power_cut(&r);
	}
}
