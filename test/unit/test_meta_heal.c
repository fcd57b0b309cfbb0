/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A copy of a block or page rots in a store of several copies: the scrub mends it from another one,
 * whatever else is done to the store meanwhile; what has rotted in all is damage, and named.
 */
#include "test/lib/meta_rig.h"
#include "meta/engine/meta_pair.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DRIVE_BYTES (8u << 20)
#define FILES       30u

static struct rig r;
static struct meta_scrub *scrub;
static struct meta_scrub_stat stat;
static uint8_t bytes[META_SCRUB_BLOCKS_MAX * 4096];
static uint64_t fill_of[FILES];
static uint64_t fills;
static char said[4096];
static uint64_t stuck;            /* a place that stays as it is, though it takes writes */
static uint32_t late, late_write; /* steps of the store before an I/O of the scrub is done */

static void store_of(uint64_t drive_bytes, uint32_t copies)
{
	rig_make(&r, 11, 3, drive_bytes, 4, true);
	r.conf.copies = copies;
	r.copied = true;
	memset(fill_of, 0, sizeof(fill_of));
	fills = late = late_write = 0;
	stuck = 0;
	cr_assert_eq(rig_format(&r), 0);
	cr_assert_eq(meta_scrub_create(&scrub, r.m), 0);
}

static void store(void)
{
	store_of(DRIVE_BYTES, 2);
}

static void store_end(void)
{
	meta_scrub_destroy(scrub);
	rig_end(&r);
}

TestSuite(meta_heal, .init = store, .fini = store_end, .timeout = 300);

static const char *path_of(uint32_t i)
{
	static char path[16];

	(void)snprintf(path, sizeof(path), "/f%u", i);
	return path;
}

static void put(uint32_t i)
{
	const uint64_t fill = ++fills;

	cr_assert_eq(rig_put(&r, path_of(i), 1 + (uint32_t)(fill % 9), fill), 0);
	fill_of[i] = fill;
}

static void all_is_there(void)
{
	for (uint32_t i = 0; i < FILES; i++) {
		uint64_t fill;
		uint32_t blocks;

		if (fill_of[i] == 0)
			continue;
		cr_assert_eq(rig_get(&r, path_of(i), &blocks, &fill), 0, "%s", path_of(i));
		cr_assert_eq(fill, fill_of[i]);
	}
}

/* Stops and mounts the store: all changes are on the drives, and no page is in memory. */
static void settle(void)
{
	meta_scrub_destroy(scrub);
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	cr_assert_eq(meta_scrub_create(&scrub, r.m), 0);
	rig_idle(&r);
}

static uint8_t *view_at(uint64_t baddr)
{
	return r.view[META_BADDR_DRIVE(baddr)] + META_BADDR_BLOCK(baddr) * 4096;
}

static void write_at(uint64_t baddr, const void *from, uint32_t nblocks)
{
	memcpy(view_at(baddr), from, nblocks * 4096ul);
	memcpy(rig_block(&r, baddr), from, nblocks * 4096ul);
}

static void meanwhile(uint32_t steps)
{
	for (uint32_t i = 0; i < steps; i++) {
		/* what is held back is not to be all that there is */
		if (rand_below(&r.rand, 3) == 0 && meta__groups_free(r.m) > 20)
			put((uint32_t)rand_below(&r.rand, FILES));
		(void)rig_step(&r);
	}
}

/* One thing; true at a round's end. */
static bool step(void)
{
	static uint8_t mended[META_PAGE_BYTES];
	static uint32_t mores;
	struct meta_run run;

	switch (meta_scrub_next(scrub, &run)) {
	case META_SCRUB_READ:
		memcpy(bytes, view_at(run.baddr), run.nblocks * 4096ul);
		meanwhile(late);
		meta_scrub_done(scrub, bytes, 0);
		break;
	case META_SCRUB_WRITE:
		memcpy(mended, meta_scrub_bytes(scrub), run.nblocks * 4096ul);
		meanwhile(late_write);
		if (run.baddr != stuck)
			write_at(run.baddr, mended, run.nblocks);
		meta_scrub_written(scrub, 0);
		break;
	case META_SCRUB_FOUND:
		(void)snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s\n",
			       meta_scrub_line(scrub));
		break;
	case META_SCRUB_ROUND:
		return true;
	case META_SCRUB_MORE:
		if (++mores > 1000) /* it waits for the header of a zone, which is being written */
			(void)rig_step(&r);
		return false;
	case META_SCRUB_LISTED:
	case META_SCRUB_IDLE:
		break;
	}
	mores = 0;
	return false;
}

static void round_of_it(void)
{
	said[0] = '\0';
	for (uint32_t i = 0; !step(); i++)
		cr_assert_lt(i, 1000000);
	meta_scrub_stat(scrub, &stat);
}

/* ---- live blocks ----------------------------------------------------------------------------- */

static uint64_t place[4096];
static uint32_t places;

static void note(uint64_t baddr)
{
	cr_assert_lt(places, 4096u);
	place[places++] = baddr;
}

/* All blocks of files, and all pages, as the trees name them. */
static void look(void)
{
	places = 0;
	for (uint32_t i = 0; i < FILES; i++) {
		struct meta_run runs[64];
		uint32_t crcs[64];
		char small[4096];
		struct meta_op op = { .type = META_OP_READ,
				      .target = { .path = path_of(i),
						  .path_len = (uint32_t)strlen(path_of(i)) },
				      .length = 64 * 4096,
				      .runs = runs,
				      .crcs = crcs,
				      .runs_max = 64,
				      .blocks_max = 64,
				      .inline_buf = small };

		if (fill_of[i] == 0)
			continue;
		cr_assert_eq(rig_run(&r, &op), 0);
		meta_read_end(r.m, &op);
		for (uint32_t k = 0; k < op.nruns; k++)
			for (uint32_t b = 0; b < runs[k].nblocks; b++)
				note(runs[k].baddr + b);
	}
}

/* The place of copy n of a block. */
static uint64_t copy_of(uint64_t baddr, uint32_t n)
{
	uint64_t at = baddr;

	while (n-- > 0) {
		at = meta_twin_of(meta_twins(r.m), at);
		cr_assert_neq(at, 0);
	}
	return at;
}

static bool same_in_all(uint64_t baddr)
{
	for (uint32_t n = 1; n < r.conf.copies; n++)
		if (memcmp(view_at(baddr), view_at(copy_of(baddr, n)), 4096) != 0)
			return false;
	return true;
}

static void spoil(uint64_t at, uint32_t round)
{
	uint8_t spoilt[4096];

	memcpy(spoilt, view_at(at), 4096);
	if (rand_below(&r.rand, 2))
		memset(spoilt, 0, 4096);
	else
		spoilt[rand_below(&r.rand, 4096)] ^= (uint8_t)(1 << round % 8);
	write_at(at, spoilt, 1);
}

/* All copies of some blocks but one, at most.  Returns how many copies. */
static uint32_t spoil_blocks(uint32_t round)
{
	uint32_t hit = 0;

	for (uint32_t i = 0; i < places; i++) {
		const uint32_t whole = (uint32_t)rand_below(&r.rand, r.conf.copies);

		if (rand_below(&r.rand, 4))
			continue;
		for (uint32_t n = 0; n < r.conf.copies; n++) {
			if (n == whole || (r.conf.copies > 2 && rand_below(&r.rand, 3) == 0))
				continue;
			spoil(copy_of(place[i], n), round);
			hit++;
		}
	}
	return hit;
}

/* Copies of blocks rot, round after round.  Returns how many were mended. */
static uint64_t blocks_rot(uint64_t *spoilt)
{
	uint64_t mended = 0;

	*spoilt = 0;
	for (uint32_t i = 0; i < FILES; i++)
		put(i);
	settle();
	for (uint32_t round = 0; round < 60; round++) {
		uint64_t before = stat.healed_blocks, hit;

		look();
		hit = spoil_blocks(round);
		round_of_it();
		cr_assert_eq(stat.healed_blocks - before, hit, "round %u: %llu of %llu; %s", round,
			     (unsigned long long)(stat.healed_blocks - before),
			     (unsigned long long)hit, said);
		cr_assert_str_empty(said);
		mended += stat.healed_blocks - before;
		*spoilt += hit;
		for (uint32_t i = 0; i < places; i++)
			cr_assert(same_in_all(place[i]));
		all_is_there();
		put((uint32_t)rand_below(&r.rand, FILES));
		settle();
		meta_scrub_stat(scrub, &stat);
	}
	return mended;
}

Test(meta_heal, each_copy_of_a_block_that_rots_is_mended)
{
	uint64_t spoilt, mended = blocks_rot(&spoilt);

	cr_assert_eq(mended, spoilt);
	cr_assert_gt(spoilt, 100);
}

/* All copies but one of pages that live, found by their headers: at worst some are older ones,
 * which nobody needs. */
static uint32_t spoil_pages(uint32_t whole)
{
	uint32_t spoilt = 0;

	for (uint32_t z = 0; z < r.m->zones->geo.nzones; z++) {
		const struct meta__zone *at = meta__zone_at(r.m, z);
		const uint64_t first = meta__geo_zone_baddr(&r.m->zones->geo, z) + 1;

		for (uint32_t p = 0; at->kind == META__ZONE_PAGE && at->live && at->twin &&
				     p < r.m->zones->geo.zone_pages;
		     p++) {
			const uint64_t page = first + p * META_PAGE_BLOCKS;
			uint8_t block[4096];

			for (uint32_t n = 0; n < r.conf.copies; n++) {
				const uint64_t to = copy_of(page, n);

				if (n == whole)
					continue;
				memcpy(block, view_at(to), 4096);
				block[100 + rand_below(&r.rand, 3000)] ^= 8;
				write_at(to, block, 1);
				spoilt++;
			}
		}
	}
	return spoilt;
}

/* All copies of pages but one rot, round after round.  Returns how many were mended. */
static uint64_t pages_rot(void)
{
	uint64_t mended = 0;

	for (uint32_t i = 0; i < FILES; i++)
		put(i);
	for (uint32_t round = 0; round < 40; round++) {
		settle();
		cr_assert_gt(spoil_pages(round % r.conf.copies), 0u);
		all_is_there(); /* through the copies that are whole */
		round_of_it();
		cr_assert_str_empty(said);
		settle();
		cr_assert_gt(stat.healed_pages, 0u);
		mended += stat.healed_pages;
		/* no live page is bad any more */
		round_of_it();
		cr_assert_eq(stat.healed_pages, 0u);
		put((uint32_t)rand_below(&r.rand, FILES));
	}
	return mended;
}

Test(meta_heal, pages_of_the_index_are_mended_and_read_meanwhile)
{
	cr_assert_geq(pages_rot(), 40); /* one a round, at least */
}

/* Mounts so often with one whole copy of each page, and reads everything.  Returns how many mounts
 * succeeded. */
static uint32_t mounts_with_rotten_pages(uint32_t rounds)
{
	uint32_t mounted = 0;

	for (uint32_t i = 0; i < FILES; i++)
		put(i);
	for (uint32_t round = 0; round < rounds; round++) {
		settle();
		cr_assert_gt(spoil_pages(round % r.conf.copies), 0u);
		meta_scrub_destroy(scrub);
		rig_power_cut(&r);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		mounted++;
		cr_assert_eq(meta_scrub_create(&scrub, r.m), 0);
		all_is_there();
		round_of_it();
		put((uint32_t)rand_below(&r.rand, FILES));
	}
	return mounted;
}

Test(meta_heal, mount_reads_the_second_copy_of_a_damaged_page)
{
	cr_assert_eq(mounts_with_rotten_pages(20), 20);
}

/* All copies of a block of the file f0; a round of the scrub follows. */
static void all_copies_rot(void)
{
	const uint8_t zeros[4096] = { 0 };

	put(0);
	put(1);
	settle();
	look();
	for (uint32_t n = 0; n < r.conf.copies; n++)
		write_at(copy_of(place[0], n), zeros, 1);
	round_of_it();
}

Test(meta_heal, what_has_rotted_in_both_copies_is_named)
{
	all_copies_rot();
	cr_assert_not_null(strstr(said, "f0"), "%s", said);
	cr_assert_eq(stat.healed_blocks, 0);
}

Test(meta_heal, place_that_stays_damaged_is_named)
{
	const uint8_t zeros[4096] = { 0 };

	put(0);
	settle();
	look();
	stuck = place[0];
	write_at(stuck, zeros, 1);
	round_of_it();
	cr_assert_not_null(strstr(said, "f0"), "%s", said);
	cr_assert_eq(stat.last_bad_blocks, 1, "%llu", (unsigned long long)stat.last_bad_blocks);
}

/* The write of the copy is torn: it was bad before, and the other one is not touched. */
Test(meta_heal, power_cut_while_a_copy_is_mended)
{
	uint8_t torn[4096];

	for (uint32_t i = 0; i < FILES; i++)
		put(i);
	settle();
	look();
	for (uint32_t n = 0; n < 20; n++) {
		const uint64_t at = place[n % places];
		struct meta_run run;

		memset(torn, (int)n, sizeof(torn));
		write_at(at, torn, 1);
		for (;;) {
			const enum meta_scrub_next next = meta_scrub_next(scrub, &run);

			if (next == META_SCRUB_WRITE)
				break;
			if (next != META_SCRUB_READ)
				continue;
			memcpy(bytes, view_at(run.baddr), run.nblocks * 4096ul);
			meta_scrub_done(scrub, bytes, 0);
		}
		memcpy(torn, meta_scrub_bytes(scrub), 2048);
		write_at(run.baddr, torn, 1);
		meta_scrub_destroy(scrub);
		rig_power_cut(&r);
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		cr_assert_eq(meta_scrub_create(&scrub, r.m), 0);
		round_of_it();
		cr_assert_str_empty(said);
		cr_assert(same_in_all(at));
		all_is_there();
	}
}

/* The place may be freed, and would be used again if nothing kept it from that: the store is small,
 * and much is written before the copy is. */
Test(meta_heal, files_that_come_and_go_meanwhile)
{
	struct meta_check check = { 0 };

	store_end();
	store_of(DRIVE_BYTES / 2, 2);
	for (uint32_t i = 0; i < FILES; i++)
		put(i);
	for (uint32_t round = 0; round < 12; round++) {
		const uint8_t zeros[4096] = { 0 };

		look();
		for (uint32_t i = round % 7; i < places; i += 7)
			write_at(place[i], zeros, 1);
		late = 2;
		late_write = 500;
		round_of_it();
		late = late_write = 0;
		round_of_it(); /* those that were written meanwhile */
		cr_assert_str_empty(said);
		all_is_there();
	}
	cr_assert_eq(rig_check(&r, &check), 0, "%s", check.first[0]);
	cr_assert_gt(stat.healed_blocks, 20);
}

/* ---- three copies -------------------------------------------------------------------------- */

static void store_of_three(void)
{
	store_of(DRIVE_BYTES, 3);
}

TestSuite(meta_heal_three, .init = store_of_three, .fini = store_end, .timeout = 300);

Test(meta_heal_three, two_copies_of_a_block_that_rot_are_mended)
{
	uint64_t spoilt, mended = blocks_rot(&spoilt);

	cr_assert_eq(mended, spoilt);
	cr_assert_gt(spoilt, 100);
}

Test(meta_heal_three, two_copies_of_pages_that_rot_are_mended)
{
	cr_assert_geq(pages_rot(), 80); /* two a round, at least */
}

Test(meta_heal_three, mount_reads_the_copy_that_is_whole)
{
	cr_assert_eq(mounts_with_rotten_pages(20), 20);
}

Test(meta_heal_three, what_has_rotted_in_all_copies_is_named)
{
	all_copies_rot();
	cr_assert_not_null(strstr(said, "f0"), "%s", said);
	cr_assert_eq(stat.healed_blocks, 0);
}
