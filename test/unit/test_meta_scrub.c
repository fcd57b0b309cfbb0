/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The scrub over a real store: what is damaged is found once and named; what changes is not. */
#include "test/lib/meta_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVE_BYTES (8u << 20)

static struct rig r;
static uint64_t drive_bytes = DRIVE_BYTES;
static struct meta_scrub *scrub;
static struct meta_scrub_stat stat;
static char said[16384]; /* all lines of a round */
static uint32_t lines;
static uint64_t no_block; /* reading it fails */
static uint8_t bytes[META_SCRUB_BLOCKS_MAX * 4096];

static void store(void)
{
	rig_make(&r, 9, 2, drive_bytes, 4, true);
	cr_assert_eq(rig_format(&r), 0);
	cr_assert_eq(meta_scrub_create(&scrub, r.m), 0);
	no_block = 0;
}

static void store_end(void)
{
	meta_scrub_destroy(scrub);
	rig_end(&r);
}

TestSuite(meta_scrub, .init = store, .fini = store_end, .timeout = 120);

/* All that is in memory goes to the drives, and out of memory. */
static void remount(void)
{
	meta_scrub_destroy(scrub); /* the store outlives it */
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	cr_assert_eq(meta_scrub_create(&scrub, r.m), 0);
}

static int read_run(struct meta_run run)
{
	uint32_t d = META_BADDR_DRIVE(run.baddr);
	uint64_t block = META_BADDR_BLOCK(run.baddr);

	cr_assert_leq(run.nblocks, META_SCRUB_BLOCKS_MAX);
	cr_assert_leq(block + run.nblocks, drive_bytes / 4096);
	memcpy(bytes, r.view[d] + block * 4096, run.nblocks * 4096ul);
	return no_block && run.baddr <= no_block && no_block < run.baddr + run.nblocks ? -EIO : 0;
}

/* One thing; true at a round's end. */
static bool step(void)
{
	struct meta_run run;

	switch (meta_scrub_next(scrub, &run)) {
	case META_SCRUB_READ:
		meta_scrub_done(scrub, bytes, read_run(run));
		break;
	case META_SCRUB_FOUND:
		lines++;
		(void)snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s\n",
			       meta_scrub_line(scrub));
		break;
	case META_SCRUB_ROUND:
		return true;
	case META_SCRUB_WRITE: /* this store has one copy of each block */
	case META_SCRUB_MORE:
	case META_SCRUB_LISTED:
	case META_SCRUB_IDLE:
		break;
	}
	return false;
}

static void round_of_it(void)
{
	said[0] = '\0';
	lines = 0;
	for (uint32_t i = 0; !step(); i++)
		cr_assert_lt(i, 1000000);
	meta_scrub_stat(scrub, &stat);
}

static void flip(uint64_t baddr, uint32_t bit)
{
	uint32_t d = META_BADDR_DRIVE(baddr);
	uint64_t byte = META_BADDR_BLOCK(baddr) * 4096 + bit / 8;

	r.view[d][byte] ^= (uint8_t)(1u << bit % 8);
	r.image[d][byte] ^= (uint8_t)(1u << bit % 8);
}

/* Where that block of it lies. */
static uint64_t place(const char *path, uint32_t block)
{
	struct meta_run runs[128];
	uint32_t crcs[META_IO_BLOCKS_MAX];
	char small[4096];
	struct meta_op op = { .type = META_OP_READ,
			      .target = { .path = path, .path_len = (uint32_t)strlen(path) },
			      .offset = block * 4096ul,
			      .length = 4096,
			      .runs = runs,
			      .crcs = crcs,
			      .runs_max = 128,
			      .blocks_max = 1,
			      .inline_buf = small };

	cr_assert_eq(rig_run(&r, &op), 0, "%s", path);
	meta_read_end(r.m, &op);
	cr_assert_eq(op.nruns, 1);
	return runs[0].baddr;
}

static void rename_it(const char *from, const char *to)
{
	struct meta_op op = { .type = META_OP_RENAME,
			      .wall_ns = 5,
			      .target = { .path = from, .path_len = (uint32_t)strlen(from) },
			      .other = { .path = to, .path_len = (uint32_t)strlen(to) } };

	cr_assert_eq(rig_run(&r, &op), 0, "%s", from);
}

static void says(const char *text)
{
	cr_assert_not_null(strstr(said, text), "'%s' not in: %s", text, said);
}

static void a_tree(void)
{
	char path[64];

	cr_assert_eq(rig_mkdir(&r, "/a"), 0);
	cr_assert_eq(rig_mkdir(&r, "/a/b"), 0);
	for (uint32_t i = 0; i < 60; i++) {
		(void)snprintf(path, sizeof(path), "%s/file%u", i % 3 ? "/a/b" : "/a", i);
		cr_assert_eq(rig_put(&r, path, i % 7, i), 0);
	}
}

/* ---- what is whole ------------------------------------------------------------------ */

Test(meta_scrub, round_of_a_whole_store_looks_at_every_page_and_block)
{
	struct meta_check check;

	a_tree();
	remount();
	cr_assert_eq(rig_check(&r, &check), 0);
	round_of_it();
	cr_assert_eq(lines, 0, "%s", said);
	cr_assert_eq(stat.pages, check.pages);
	cr_assert_eq(stat.blocks, check.blocks);
	cr_assert_eq(stat.doubts, 0);
	cr_assert_eq(stat.rounds, 1);
	round_of_it();
	cr_assert_eq(stat.pages, 2 * check.pages);
	cr_assert_eq(stat.blocks, 2 * check.blocks);
}

Test(meta_scrub, empty_store_has_rounds_too)
{
	round_of_it();
	round_of_it();
	cr_assert_eq(stat.rounds, 2);
	cr_assert_eq(lines, 0);
}

/* ---- what is not -------------------------------------------------------------------- */

Test(meta_scrub, damaged_block_is_named_once_and_counted_in_each_round)
{
	a_tree();
	flip(place("/a/b/file41", 3), 12345);
	round_of_it();
	cr_assert_eq(lines, 1, "%s", said);
	says("/a/b/file41: block 3 of the file");
	says("does not match its checksum");
	cr_assert_eq(stat.last_bad_blocks, 1);
	round_of_it();
	cr_assert_eq(lines, 0, "%s", said);
	cr_assert_eq(stat.last_bad_blocks, 1);
	flip(place("/a/b/file41", 3), 12345); /* mended */
	round_of_it();
	cr_assert_eq(stat.last_bad_blocks, 0);
}

Test(meta_scrub, block_that_cannot_be_read_is_found_among_those_that_can)
{
	a_tree();
	no_block = place("/a/file27", 2);
	round_of_it();
	cr_assert_eq(lines, 1, "%s", said);
	says("/a/file27: block 2 of the file");
	says("cannot be read");
	cr_assert_eq(stat.last_bad_blocks, 1);
}

Test(meta_scrub, every_damaged_block_of_many_is_named_in_one_round)
{
	struct meta_check check;
	char path[64], line[96];
	uint32_t count = 0;

	a_tree();
	cr_assert_eq(rig_check(&r, &check), 0);
	for (uint32_t i = 0; i < 60; i++) {
		(void)snprintf(path, sizeof(path), "%s/file%u", i % 3 ? "/a/b" : "/a", i);
		for (uint32_t b = 0; b < i % 7; b += 2, count++)
			flip(place(path, b), (uint32_t)rand_below(&r.rand, 4096 * 8));
	}
	round_of_it();
	cr_assert_eq(lines, count);
	cr_assert_eq(stat.last_bad_blocks, count);
	cr_assert_eq(stat.blocks, check.blocks - count);
	for (uint32_t i = 0; i < 20; i++)
		for (uint32_t b = 0; b < i % 7; b += 2) {
			(void)snprintf(line, sizeof(line), "%s/file%u: block %u ",
				       i % 3 ? "/a/b" : "/a", i, b);
			says(line);
		}
}

/* How many: each was named, once. */
static uint32_t damaged_pages(bool in_memory)
{
	uint64_t root[4];
	uint32_t damaged = 0;

	a_tree();
	remount();
	if (in_memory)
		(void)place("/a/b/file41", 3);
	for (uint32_t s = 0; s < 4; s++) {
		root[s] = r.m->shard[s].root_baddr;
		if (!root[s])
			continue;
		flip(root[s] + 2, 777 + s);
		damaged++;
	}
	round_of_it();
	cr_assert_eq(lines, damaged, "%s", said);
	cr_assert_eq(stat.last_bad_pages, damaged);
	for (uint32_t s = 0; s < 4; s++) {
		char line[64];

		(void)snprintf(line, sizeof(line), "drive %u block %llu is not the page",
			       META_BADDR_DRIVE(root[s]),
			       (unsigned long long)META_BADDR_BLOCK(root[s]));
		if (root[s])
			says(line);
	}
	round_of_it();
	cr_assert_eq(lines, 0, "%s", said);
	cr_assert_eq(stat.last_bad_pages, damaged);
	return damaged;
}

Test(meta_scrub, damaged_page_is_named)
{
	cr_assert_gt(damaged_pages(false), 0);
}

Test(meta_scrub, so_is_one_that_is_good_in_memory)
{
	cr_assert_gt(damaged_pages(true), 0);
}

Test(meta_scrub, what_stands_in_a_page_that_is_good_in_memory_is_scrubbed_though_its_drive_lost_it)
{
	uint64_t block;
	uint32_t leaf;

	a_tree();
	remount();
	block = place("/a/b/file41", 3); /* reads its leaf */
	flip(block, 5);
	for (uint32_t s = 0; s < 4; s++)
		if (r.m->shard[s].root_baddr && meta__cache_find(r.m, r.m->shard[s].root_baddr))
			flip(r.m->shard[s].root_baddr, 4096 + s);
	leaf = 0;
	round_of_it();
	for (const char *at = said; (at = strstr(at, "is not the page")) != NULL; at++)
		leaf++;
	cr_assert_geq(leaf, 1, "%s", said);
	says("/a/b/file41: block 3 of the file");
}

/* Their names are looked for in between, page by page, from the top of a tree down. */
Test(meta_scrub, pages_of_every_level_that_are_good_in_memory_are_named)
{
	uint32_t damaged = 0, leaves = 0, upper = 0;
	char path[64];

	cr_assert_eq(rig_mkdir(&r, "/a"), 0);
	for (uint32_t i = 0; i < 600; i++) {
		(void)snprintf(path, sizeof(path), "/a/file%u", i);
		cr_assert_eq(rig_put(&r, path, 1, i), 0);
	}
	remount();
	for (uint32_t i = 0; i < 600; i++) { /* reads all pages */
		(void)snprintf(path, sizeof(path), "/a/file%u", i);
		(void)place(path, 0);
	}
	for (uint32_t d = 0; d < 2; d++)
		for (uint64_t b = 0; b < drive_bytes / 4096; b++) {
			const struct meta__frame *f = meta__cache_find(r.m, META_BADDR(d, b));

			if (!f)
				continue;
			flip(META_BADDR(d, b), 4096 + 5);
			leaves += f->level == 0;
			upper += f->level > 0;
		}
	cr_assert_gt(leaves, 3);
	cr_assert_gt(upper, 0);
	round_of_it();
	for (const char *at = said; (at = strstr(at, "is not the page")) != NULL; at++)
		damaged++;
	cr_assert_eq(damaged, leaves + upper, "%s", said);
	cr_assert_eq(stat.last_bad_pages, damaged);
	says("with it is what stands from /a on");
	round_of_it();
	cr_assert_eq(lines, 0, "%s", said);
	cr_assert_eq(stat.last_bad_pages, damaged);
}

/* ---- names -------------------------------------------------------------------------- */

Test(meta_scrub, file_that_was_renamed_is_named_as_it_is_called_now)
{
	a_tree();
	rename_it("/a/b/file41", "/a/b/other name");
	flip(place("/a/b/other name", 0), 1);
	round_of_it();
	cr_assert_eq(lines, 1, "%s", said);
	says("/a/b/other name: block 0 of the file");
}

Test(meta_scrub, file_that_was_moved_is_found_by_a_walk_over_all_names)
{
	a_tree();
	cr_assert_eq(rig_mkdir(&r, "/c"), 0);
	rename_it("/a/b/file41", "/c/moved");
	rename_it("/a/file27", "/a/b/moved too");
	flip(place("/c/moved", 0), 1);
	flip(place("/c/moved", 4), 1);
	flip(place("/a/b/moved too", 1), 1);
	remount();
	round_of_it();
	cr_assert_eq(lines, 3, "%s", said);
	says("/c/moved: block 0 of the file");
	says("/c/moved: block 4 of the file");
	says("/a/b/moved too: block 1 of the file");
}

Test(meta_scrub, directories_on_the_way_may_have_been_renamed)
{
	a_tree();
	rename_it("/a/b", "/a/bb");
	rename_it("/a", "/x");
	flip(place("/x/bb/file41", 0), 1);
	round_of_it();
	cr_assert_eq(lines, 1, "%s", said);
	says("/x/bb/file41: block 0 of the file");
}

Test(meta_scrub, file_without_a_name_is_said_by_its_handle)
{
	struct meta_run runs[8];
	uint32_t crcs[8] = { 1, 2, 3 };
	struct meta_op begin = { .type = META_OP_PUT_BEGIN,
				 .wall_ns = 5,
				 .target = { .path = "/hidden", .path_len = 7 } };
	struct meta_op op = { .type = META_OP_WRITE,
			      .wall_ns = 5,
			      .runs = runs,
			      .crcs = crcs,
			      .nblocks = 3,
			      .size = 3 * 4096 };
	int err;

	cr_assert_eq(rig_run(&r, &begin), 0);
	op.target.handle = begin.attr.handle;
	while ((err = meta_data_alloc(r.m, 1, 3, runs, 8, &op.nruns)) == -EAGAIN)
		(void)rig_step(&r);
	cr_assert_eq(err, 0);
	cr_assert_eq(rig_run(&r, &op), 0); /* with checksums that are not theirs */
	round_of_it();
	cr_assert_eq(lines, 3, "%s", said);
	says("a file without a name");
}

/* ---- while it goes on --------------------------------------------------------------- */

static void change_something(uint64_t i)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/a/b/file%u", (uint32_t)rand_below(&r.rand, 60));
	if (rand_below(&r.rand, 3) == 0)
		(void)rig_unlink(&r, path);
	else
		(void)rig_put(&r, path, (uint32_t)rand_below(&r.rand, 20), i);
}

/* The header of a zone, or a superblock. */
static bool is_head(struct meta_run run)
{
	const struct meta__geo *g = &r.m->zones->geo;
	const uint32_t zone = meta__zone_of(r.m, run.baddr);

	return zone == META__ZONE_NONE || run.baddr == meta__geo_zone_head(g, zone, 0) ||
	       run.baddr == meta__geo_zone_head(g, zone, 1);
}

/* The scrub reads a block some time after it plans to; its zone may have been reused by then. */
static void read_late(struct meta_run run, uint64_t i)
{
	uint32_t zone = meta__zone_of(r.m, run.baddr), times = 0;
	uint64_t was = meta__zone_at(r.m, zone)->incarnation;

	if (rand_below(&r.rand, 8) == 0)
		times = 1200;
	while (times-- > 0 && meta__zone_at(r.m, zone)->incarnation == was)
		change_something(i);
	change_something(i);
	meta_scrub_done(scrub, bytes, read_run(run));
}

/* Files come, go, and are replaced all the time, and zones are used again: no read of a block that
 * has changed meanwhile is taken for damage. */
Test(meta_scrub, what_changes_under_it_is_no_damage)
{
	uint32_t rounds = 0;

	store_end(); /* on drives that are soon used again */
	drive_bytes = 3u << 20;
	store();
	a_tree();
	for (uint32_t i = 0; i < 4500; i++) {
		struct meta_run run;

		switch (meta_scrub_next(scrub, &run)) {
		case META_SCRUB_READ:
			if (is_head(run)) {
				meta_scrub_done(scrub, bytes, read_run(run));
				i--; /* headers do not count here */
			} else {
				read_late(run, i);
			}
			break;
		case META_SCRUB_FOUND:
			cr_assert_fail("%s", meta_scrub_line(scrub));
			break;
		case META_SCRUB_ROUND:
			rounds++;
			break;
		case META_SCRUB_WRITE: /* this store has one copy of each block */
		case META_SCRUB_MORE:
		case META_SCRUB_LISTED:
		case META_SCRUB_IDLE:
			break;
		}
	}
	meta_scrub_stat(scrub, &stat);
	cr_assert_gt(rounds, 2);
	cr_assert_gt(stat.doubts, 5, "%llu: nothing has changed under it",
		     (unsigned long long)stat.doubts);
	cr_assert_eq(stat.last_bad_blocks + stat.last_bad_pages, 0);
	flip(place("/a/file27", 2), 4); /* and still it sees */
	round_of_it();
	round_of_it();
	cr_assert_eq(stat.last_bad_blocks, 1);
}
