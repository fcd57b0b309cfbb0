/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/unit/meta_double.h"

#define FRAMES 64u

static const struct meta_key zero;

static void setup(void)
{
	d_start(FRAMES, 1);
}

TestSuite(meta_cache, .init = setup, .fini = d_end);

/* `n` leaves of one record each on the drive, not in memory; their addresses. */
static void make_pages(uint32_t n, uint64_t *baddr)
{
	for (uint32_t i = 0; i < n; i++) {
		uint8_t *at;

		baddr[i] = meta__page_take(&d.m, 0);
		at = d.drive + baddr[i] * 4096;
		meta__page_init(at, 0, 0, &zero);
		meta__leaf_insert(at, 0, &zero, &i, sizeof(i));
		meta__page_place(at, baddr[i], 9, i + 1);
		meta__page_seal(at);
	}
}

/* A page above leaves, in memory, as if it had been read. */
static void make_upper(uint64_t *baddr)
{
	uint8_t page[META_PAGE_BYTES];

	*baddr = meta__page_take(&d.m, 1);
	meta__page_init(page, 0, 1, &zero);
	meta__inner_insert(page, 0, &zero, *baddr, 9);
	meta__page_place(page, *baddr, 9, 1);
	meta__page_seal(page);
	meta__cache_fill(&d.m, 0, 1, *baddr, 9, page);
	cr_assert_not_null(meta__cache_find(&d.m, *baddr));
}

static int want(uint64_t baddr, struct meta_op *op)
{
	return meta__cache_want(&d.m, 0, 0, baddr, 9, op, &zero);
}

Test(meta_cache, one_read_serves_all_who_wait)
{
	struct meta_op op[3] = { 0 };
	uint64_t baddr[2];

	make_pages(2, baddr);
	for (uint32_t i = 0; i < 3; i++)
		for (uint32_t p = 0; p < 2; p++)
			cr_assert_eq(want(baddr[p], &op[i]), 0);
	cr_assert_eq(want(baddr[0], &op[0]), 0);
	cr_assert_eq(op[0].misses, 2);
	cr_assert_null(meta__cache_find(&d.m, baddr[0]));
	d_pump();
	cr_assert_eq(d.reads, 2);
	cr_assert_eq(d.page_done, 6);
	for (uint32_t i = 0; i < 3; i++)
		cr_assert_eq(op[i].misses, 0);
	cr_assert_not_null(meta__cache_find(&d.m, baddr[1]));
}

Test(meta_cache, a_page_that_somebody_has_read_is_taken_as_it_is_if_it_is_sound)
{
	uint64_t baddr[3];

	make_pages(3, baddr);
	meta__cache_fill(&d.m, 0, 0, baddr[0], 9, d.drive + baddr[0] * 4096);
	cr_assert_not_null(meta__cache_find(&d.m, baddr[0]));
	meta__cache_fill(&d.m, 0, 0, baddr[0], 9, d.drive + baddr[0] * 4096); /* it is there */
	meta__cache_fill(&d.m, 0, 0, baddr[1], 9, d.drive + baddr[2] * 4096);
	cr_assert_null(meta__cache_find(&d.m, baddr[1]));
	meta__cache_fill(&d.m, 0, 0, baddr[2], 8, d.drive + baddr[2] * 4096);
	cr_assert_null(meta__cache_find(&d.m, baddr[2]), "it is of another generation");
	cr_assert_eq(d.reads, 0);
	cr_assert_eq(meta__cache_available(&d.m), FRAMES);
}

Test(meta_cache, a_page_that_is_wrong_once_is_read_again)
{
	struct meta_op op = { 0 };
	uint64_t baddr;

	make_pages(1, &baddr);
	d.flip_baddr = baddr;
	d.flips = 1;
	cr_assert_eq(want(baddr, &op), 0);
	d_pump();
	cr_assert_eq(d.reads, 2);
	cr_assert_eq(d.page_status, 0);
	cr_assert_not_null(meta__cache_find(&d.m, baddr));
	cr_assert_str_empty(d.m.error);
}

Test(meta_cache, a_page_that_is_wrong_twice_is_an_error_that_names_it)
{
	struct meta_op op = { 0 };
	uint64_t baddr;

	make_pages(1, &baddr);
	d.flip_baddr = baddr;
	d.flips = 2;
	cr_assert_eq(want(baddr, &op), 0);
	d_pump();
	cr_assert_eq(d.page_status, -EIO);
	cr_assert_eq(op.misses, 0);
	cr_assert_eq(d.suspects, 1);
	cr_assert_eq(d.suspect.baddr, baddr);
	cr_assert_eq(d.suspect.gen, 9);
	cr_assert_null(meta__cache_find(&d.m, baddr));
	cr_assert_str_eq(d.m.error,
			 "page of shard 0, level 0, at drive 0, block 4: its checksum is wrong");
	/* the frame is free again, and the page can be requested again */
	cr_assert_eq(want(baddr, &op), 0);
	d_pump();
	cr_assert_not_null(meta__cache_find(&d.m, baddr));
}

Test(meta_cache, a_read_that_fails_twice_is_an_error)
{
	struct meta_op op = { 0 };
	uint64_t baddr;

	make_pages(1, &baddr);
	d.fail_reads = 2;
	cr_assert_eq(want(baddr, &op), 0);
	d_pump();
	cr_assert_eq(d.page_status, -EIO);
}

Test(meta_cache, an_address_outside_of_the_drives_is_an_error)
{
	struct meta_op op = { 0 };

	cr_assert_eq(want(META_BADDR(5, 8), &op), -EIO);
	cr_assert_eq(want(META_BADDR(0, (uint64_t)D_PAGES * META_PAGE_BLOCKS - 2), &op), -EIO);
	cr_assert_eq(op.misses, 0);
	cr_assert_eq(d.m.cache->count[FRAME_FREE], FRAMES);
}

Test(meta_cache, what_was_used_last_stays_longest)
{
	uint64_t baddr[200];
	struct meta_op op = { 0 };

	make_pages(200, baddr);
	for (uint32_t i = 0; i < 200; i++) {
		struct meta__frame *f = meta__cache_find(&d.m, baddr[0]);

		meta__cache_plan(&d.m);
		if (i > 0) {
			cr_assert_not_null(f);
			meta__cache_mark(&d.m, f);
		}
		cr_assert_eq(want(baddr[i], &op), 0);
		d_pump();
	}
	cr_assert_eq(d.reads, 200);
}

static void look_once(uint64_t baddr)
{
	struct meta_op op = { 0 };

	meta__cache_plan(&d.m);
	cr_assert_eq(want(baddr, &op), 0);
	d_pump();
	meta__cache_mark(&d.m, meta__cache_find(&d.m, baddr));
}

/* As many leaves as there are frames pass by; then nobody has needed it for long. */
Test(meta_cache, a_page_above_leaves_stays_longer_than_they_but_not_for_ever)
{
	static uint64_t upper[FRAMES - 8], leaf[FRAMES * 48];
	uint32_t i;

	for (i = 0; i < ARRAY_LEN(upper); i++)
		make_upper(&upper[i]);
	make_pages(ARRAY_LEN(leaf), leaf);
	for (i = 0; i < FRAMES; i++)
		look_once(leaf[i]);
	for (uint32_t k = 0; k < ARRAY_LEN(upper); k++)
		cr_assert_not_null(meta__cache_find(&d.m, upper[k]), "%u", k);
	for (; i < ARRAY_LEN(leaf); i++)
		look_once(leaf[i]);
	for (uint32_t k = 0; k < ARRAY_LEN(upper); k++)
		cr_assert_null(meta__cache_find(&d.m, upper[k]), "%u", k);
}

/* There is nothing but pages above leaves: one of them goes, before long. */
Test(meta_cache, pages_above_leaves_make_room_if_there_is_nothing_else)
{
	uint64_t upper[FRAMES], leaf[8];
	struct meta_op op = { 0 };

	for (uint32_t i = 0; i < FRAMES; i++)
		make_upper(&upper[i]);
	make_pages(8, leaf);
	for (uint32_t i = 0; i < 8; i++) {
		meta__cache_plan(&d.m);
		cr_assert_eq(want(leaf[i], &op), 0);
		cr_assert_leq(d.m.cache->barren, 3 * FRAMES);
		d_pump();
	}
}

Test(meta_cache, what_the_plan_of_now_looked_at_stays)
{
	uint64_t baddr[FRAMES + 9];
	struct meta_op op = { 0 };
	uint32_t i, refused = 0;

	make_pages(FRAMES + 9, baddr);
	meta__cache_plan(&d.m);
	for (i = 0; i < FRAMES; i++) {
		cr_assert_eq(want(baddr[i], &op), 0);
		d_pump();
		meta__cache_mark(&d.m, meta__cache_find(&d.m, baddr[i]));
	}
	for (; i < FRAMES + 9; i++)
		refused += want(baddr[i], &op) == META__NEEDS_ROOM;
	cr_assert_eq(refused, 9);
	cr_assert_eq(meta__cache_available(&d.m), 0);
	meta__cache_plan(&d.m); /* the next plan looks at nothing yet */
	cr_assert_eq(want(baddr[FRAMES], &op), 0);
	d_pump();
}

/* Else it would wait for ever: nobody changes anything, so nobody asks for one. */
Test(meta_cache, a_plan_that_looks_at_all_that_is_not_dirty_is_given_a_checkpoint)
{
	uint64_t baddr[FRAMES];
	struct meta_op op = { 0 };
	struct meta__frame *f;

	make_pages(FRAMES, baddr);
	for (uint32_t i = 0; i < FRAMES / 2; i++) {
		f = meta__cache_new(&d.m, 0, 0, &zero, 0);
		meta__leaf_insert(f->page, 0, &zero, "x", 1);
	}
	meta__cache_plan(&d.m);
	for (uint32_t i = 0; i < FRAMES / 2; i++) {
		cr_assert_eq(want(baddr[i], &op), 0);
		d_pump();
		meta__cache_mark(&d.m, meta__cache_find(&d.m, baddr[i]));
	}
	cr_assert_eq(want(baddr[FRAMES / 2], &op), META__NEEDS_ROOM);
	meta__ckpt_turn(&d.m);
	cr_assert(meta__ckpt_running(&d.m));
	d_turn();
	cr_assert_eq(want(baddr[FRAMES / 2], &op), 0);
	d_pump();
}

/* Half of the first 256 frames may be dirty, and nearly all beyond them. */
Test(meta_cache, of_a_large_cache_more_may_be_dirty)
{
	cr_assert_eq(meta__cache_room(&d.m), 32);
	d_end();
	d_start(256, 1);
	cr_assert_eq(meta__cache_room(&d.m), 128);
	d_end();
	d_start(256 + 1600, 1);
	cr_assert_eq(meta__cache_room(&d.m), 128 + 1400);
}

Test(meta_cache, reads_leave_room_for_what_is_dirty)
{
	uint64_t baddr[FRAMES];
	struct meta_op op = { 0 };
	uint32_t n = 0;

	make_pages(FRAMES, baddr);
	while (n < FRAMES && want(baddr[n], &op) == 0)
		n++;
	cr_assert_eq(n, FRAMES / 4);
	d_pump();
	cr_assert_eq(meta__cache_room(&d.m), FRAMES / 2);
}

Test(meta_cache, a_page_just_read_is_kept_until_its_plan_has_run_again)
{
	uint64_t baddr[300];
	struct meta_op op = { 0 }, thief = { 0 };

	make_pages(300, baddr);
	cr_assert_eq(want(baddr[0], &op), 0);
	d_pump();
	for (uint32_t i = 1; i < 300; i++) {
		cr_assert_eq(want(baddr[i], &thief), 0);
		d_pump();
		meta__cache_plan(&d.m);
		meta__cache_mark(&d.m, meta__cache_find(&d.m, baddr[i]));
	}
	cr_assert_not_null(meta__cache_find(&d.m, baddr[0]));
}

Test(meta_cache, a_write_to_a_frozen_page_goes_to_a_copy)
{
	struct meta__frame *f, *g;
	uint64_t first, second;

	f = meta__cache_new(&d.m, 0, 0, &zero, 5);
	meta__leaf_insert(f->page, 0, &zero, "old", 3);
	first = meta__frame_baddr(f);
	cr_assert_eq(meta__cache_dirty(&d.m, f), f);
	meta__cache_freeze(&d.m);
	g = meta__cache_dirty(&d.m, f);
	second = meta__frame_baddr(g);
	cr_assert_neq(g, f);
	cr_assert_neq(first, second);
	cr_assert(meta__leaf_replace(g->page, 0, "new", 3));

	/* not before the log has what changed it */
	cr_assert_null(meta__cache_frozen(&d.m, 4));
	cr_assert_eq(meta__cache_frozen(&d.m, 5), f);
	cr_assert(memcmp(f->page + META_PAGE_BYTES - 8, "old", 3) == 0);
	meta__cache_written(&d.m, f);
	cr_assert_null(meta__cache_find(&d.m, first)); /* the tree has no use for it */
	cr_assert_eq(meta__cache_find(&d.m, second), g);
}

Test(meta_cache, a_written_page_is_clean_and_gets_a_new_address_when_it_changes)
{
	struct meta__frame *f = meta__cache_new(&d.m, 0, 0, &zero, 0);
	uint64_t first = meta__frame_baddr(f);

	meta__leaf_insert(f->page, 0, &zero, "x", 1);
	meta__cache_freeze(&d.m);
	cr_assert_eq(meta__cache_frozen(&d.m, 0), f);
	meta__cache_written(&d.m, f);
	cr_assert_eq(meta__frame_state(f), FRAME_CLEAN);
	cr_assert_eq(meta__cache_dirty(&d.m, f), f);
	cr_assert_neq(meta__frame_baddr(f), first);
	cr_assert_eq(d.page[first / META_PAGE_BLOCKS], D_DYING);
}
