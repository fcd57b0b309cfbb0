/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* statfs promises the space that can be written, no more and not much less: removed files count as
 * free, also before their blocks are collected. */
#include "test/lib/meta_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BLOCKS 16u

static struct rig r;

static void store(void)
{
	rig_make(&r, 35, 1, 64u << 20, 4, true);
	cr_assert_eq(rig_format(&r), 0);
}

static void store_end(void)
{
	rig_end(&r);
}

TestSuite(meta_statfs, .init = store, .fini = store_end, .timeout = 120);

static int64_t free_blocks(void)
{
	struct meta_statfs s;

	meta__statfs_space(r.m, &s);
	cr_assert_leq(s.blocks_free, s.blocks_total);
	return (int64_t)s.blocks_free;
}

static int64_t a_zone(void)
{
	return r.m->zones->geo.zone_end - 1;
}

static const char *path_of(const char *kind, uint32_t i)
{
	static char path[48];

	(void)snprintf(path, sizeof(path), "/%s %u", kind, i);
	return path;
}

/* Files until the store is full, or there are so many: how many. */
static uint32_t fill(const char *kind, uint32_t blocks, uint32_t most)
{
	uint32_t n = 0;
	int err = 0;

	while (n < most && (err = rig_put(&r, path_of(kind, n), blocks, n + 1)) == 0)
		n++;
	cr_assert(n == most || err == -ENOSPC, "%d, %s", err, meta_error(r.m));
	return n;
}

static void remove_some(const char *kind, uint32_t n, uint32_t step)
{
	for (uint32_t i = 0; i < n; i += step)
		cr_assert_eq(rig_unlink(&r, path_of(kind, i)), 0);
}

/* The margin: what is said to be free can be had but for two zones, and an eightieth, which is what
 * the index of files of 64 KiB takes. */
static void is_promised(int64_t said, uint32_t files)
{
	const int64_t had = (int64_t)files * FILE_BLOCKS;
	const int64_t zones = 2 * a_zone();

	cr_assert_geq(had, said - said / 80 - zones, "%lld of %lld", (long long)had,
		      (long long)said);
}

/* ... and a full store promises nothing: two zones, in each of which less than a file is left. */
static void is_full(void)
{
	cr_assert_leq(free_blocks(), 2 * a_zone());
}

Test(meta_statfs, empty_store_takes_what_it_says)
{
	const int64_t said = free_blocks();

	cr_assert_gt(said, (64 << 20) / 4096 / 2);
	is_promised(said, fill("file", FILE_BLOCKS, UINT32_MAX));
	is_full();
}

Test(meta_statfs, what_is_removed_is_free_at_once_and_can_be_had)
{
	const uint32_t n = fill("file", FILE_BLOCKS, UINT32_MAX);
	const int64_t before = free_blocks();
	int64_t said;

	remove_some("file", n, 2); /* of each zone half dies, and none is empty */
	said = free_blocks();
	cr_assert_lt(llabs(said - before - (n + 1) / 2 * FILE_BLOCKS), 64, "%lld for %u files",
		     (long long)(said - before), (n + 1) / 2);
	is_promised(said, fill("again", FILE_BLOCKS, UINT32_MAX));
	is_full();
}

Test(meta_statfs, replacing_files_moves_nothing)
{
	const uint32_t n = fill("file", FILE_BLOCKS, 400);
	const int64_t before = free_blocks();
	const int64_t some = before / 50;

	for (uint32_t round = 0; round < 6; round++) { /* several times what is free */
		(void)fill("file", FILE_BLOCKS, n);
		rig_idle(&r); /* those that were replaced are freed behind */
		cr_assert_gt(free_blocks(), before - some, "round %u: %lld, before %lld", round,
			     (long long)free_blocks(), (long long)before);
		cr_assert_lt(free_blocks(), before + some, "round %u: %lld, before %lld", round,
			     (long long)free_blocks(), (long long)before);
	}
}

Test(meta_statfs, dead_pages_are_free_and_files_can_have_them)
{
	const uint32_t names = fill("name", 0, 19000);
	const struct meta__zones *z = r.m->zones;
	int64_t said, before;

	cr_assert_gt((uint64_t)z->page_zones * z->geo.zone_pages, 2 * z->live_pages,
		     "most pages are dead: %llu of %u zones", (unsigned long long)z->live_pages,
		     z->page_zones);
	said = free_blocks();
	before = (int64_t)z->free_total - meta__zone_reserve(r.m, true);
	cr_assert_gt(said, (before + 20) * a_zone(), "%lld, and %lld zones are free",
		     (long long)said, (long long)before);
	is_promised(said, fill("file", FILE_BLOCKS, UINT32_MAX));
	remove_some("name", names, 1);
	rig_idle(&r);
	is_promised(free_blocks(), fill("again", FILE_BLOCKS, UINT32_MAX));
	is_full();
}

Test(meta_statfs, mount_says_the_same)
{
	const uint32_t n = fill("file", FILE_BLOCKS, 400);
	int64_t before;

	remove_some("file", n, 3);
	rig_idle(&r);
	before = free_blocks();
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	cr_assert_gt(free_blocks(), before - before / 100);
	cr_assert_lt(free_blocks(), before + before / 100);
}

/* Where the reserve, and roots of many shards, are much of it. */
Test(meta_statfs, small_drives_hold_what_they_say)
{
	static const uint64_t mib[] = { 16, 24, 32, 48, 96 };
	int64_t said;

	for (uint32_t i = 0; i < ARRAY_LEN(mib); i++) {
		rig_end(&r);
		rig_make(&r, 35, 1, mib[i] << 20, 64, true);
		cr_assert_eq(rig_format(&r), 0);
		said = free_blocks();
		cr_assert_gt(said, (int64_t)(mib[i] << 20) / 4096 / 2);
		is_promised(said, fill("file", FILE_BLOCKS, UINT32_MAX));
		is_full();
	}
}

static int64_t spare_blocks(void)
{
	const uint32_t zones = r.m->zones->geo.zones_serving;

	return (zones * r.m->conf.spare_percent + 99) / 100 * a_zone();
}

/* meta_space.c (3) */
Test(meta_statfs, files_never_fill_the_spare_zones_and_what_is_dead_does)
{
	const int64_t whole = free_blocks();
	uint32_t n, at;
	int64_t said;

	r.m->conf.spare_percent = 20;
	said = free_blocks();
	cr_assert_eq(whole - said, spare_blocks());
	n = fill("file", FILE_BLOCKS, UINT32_MAX);
	is_promised(said, n);
	cr_assert_leq((int64_t)n * FILE_BLOCKS, said);
	cr_assert_lt(free_blocks(), FILE_BLOCKS, "counted, not guessed from zones");
	cr_assert_gt(r.m->zones->free_total * a_zone(), spare_blocks());

	n -= n / 20; /* the index grows, too */
	for (uint32_t i = n; i < n + n / 19; i++)
		cr_assert_eq(rig_unlink(&r, path_of("file", i)), 0);
	for (uint32_t i = 0; i < 2 * n; i++) { /* one goes, another comes */
		at = (uint32_t)(rand_u64(&r.rand) % n);
		cr_assert_eq(rig_unlink(&r, path_of("file", at)), 0);
		cr_assert_eq(rig_put(&r, path_of("file", at), FILE_BLOCKS, i), 0, "%u of %u", i, n);
	}
	cr_assert_lt(r.m->zones->free_total * a_zone(), spare_blocks());
	(void)fill("again", FILE_BLOCKS, UINT32_MAX);
	r.m->conf.spare_percent = 0;
	cr_assert_eq(rig_put(&r, "/one more", FILE_BLOCKS, 1), 0);
}

Test(meta_statfs, blocks_that_are_promised_count_as_if_they_lived)
{
	struct meta_run runs[64], first[64];
	uint32_t nruns, nfirst = 0;
	int64_t said, had = 0;
	int err;

	r.m->conf.spare_percent = 20;
	said = free_blocks();
	while ((err = meta_data_alloc(r.m, 0, FILE_BLOCKS, runs, 64, &nruns)) != -ENOSPC) {
		cr_assert(err == 0 || err == -EAGAIN, "%d", err);
		(void)rig_step(&r);
		had += err ? 0 : FILE_BLOCKS;
		if (had == FILE_BLOCKS && !nfirst)
			memcpy(first, runs, sizeof(runs[0]) * (nfirst = nruns));
	}
	cr_assert_leq(had, said);
	cr_assert_gt(had, said - 2 * a_zone());
	meta_data_free(r.m, first, nfirst);
	cr_assert_eq(meta_data_alloc(r.m, 0, FILE_BLOCKS, runs, 64, &nruns), 0);
	cr_assert_eq(meta_data_alloc(r.m, 0, FILE_BLOCKS, runs, 64, &nruns), -ENOSPC);
}

/* ---- many small files ---------------------------------------------------------------------- */

static int put_small(const char *kind, uint32_t i)
{
	const char *path = path_of(kind, i);
	uint8_t bytes[100] = { (uint8_t)i };
	struct meta_op op = {
		.type = META_OP_PUT,
		.flags = META_BY_INLINE,
		.target = { .path = path, .path_len = (uint32_t)strlen(path) },
		.wall_ns = 5,
		.inline_buf = bytes,
		.inline_len = sizeof(bytes),
		.size = sizeof(bytes),
	};

	return rig_run(&r, &op);
}

static uint32_t fill_small(const char *kind)
{
	uint32_t n = 0;
	int err;

	while ((err = put_small(kind, n)) == 0)
		n++;
	cr_assert_eq(err, -ENOSPC, "%d, %s", err, meta_error(r.m));
	return n;
}

/* meta_leaf_room.c: after deletes the room for small files is in half-empty leaves.  Counted in
 * files of the size that the full store has, statfs names at least half of those that then fit, and
 * never a tenth too many. */
Test(meta_statfs, room_in_half_empty_leaves_is_free)
{
	int64_t index, said, again, files;

	rig_end(&r);
	rig_make(&r, 35, 1, 24u << 20, 4, true);
	r.conf.cache_bytes = 2048ull * META_PAGE_BYTES; /* more than the index */
	rig_memory(&r);
	cr_assert_eq(rig_format(&r), 0);
	files = fill_small("small");
	rig_idle(&r);
	index = (int64_t)r.m->zones->live_pages * META_PAGE_BLOCKS;
	cr_assert_leq(free_blocks(), index / 10);
	remove_some("small", (uint32_t)files, 2);
	rig_idle(&r);
	said = free_blocks() * files / index;
	again = fill_small("again");
	cr_assert_geq(said, again / 2, "%lld of %lld", (long long)said, (long long)again);
	cr_assert_leq(said, again + again / 10, "%lld of %lld", (long long)said, (long long)again);
}
