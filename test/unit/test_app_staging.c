/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Staging's buddies: pieces never overlap, and all of it comes together again. */
#include "appliance/media/app_staging.h"
#include "base/rand.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 18 << 20, PIECES = 64 };

static char *memory;
static struct app_staging s;

static void setup(void)
{
	memory = aligned_alloc(4096, BYTES);
	cr_assert(memory);
	cr_assert_eq(app_staging_init(&s, memory, BYTES, 1ull << 30), 0);
}

static void teardown(void)
{
	app_staging_fini(&s);
	free(memory);
}

TestSuite(app_staging, .init = setup, .fini = teardown, .timeout = 30);

Test(app_staging, gives_two_pieces_of_8_mib_and_no_third)
{
	void *a = app_staging_take(&s, 8 << 20), *b = app_staging_take(&s, (4 << 20) + 1);
	void *c;

	cr_assert(a && b);
	cr_assert_null(app_staging_take(&s, (4 << 20) + 1));
	c = app_staging_take(&s, 2 << 20);
	cr_assert(c, "the rest is smaller, not lost");
	cr_assert_eq(app_staging_iova(&s, c) - (1ull << 30), (uint64_t)((char *)c - memory));
	app_staging_give(&s, a);
	app_staging_give(&s, c);
	app_staging_give(&s, b);
}

Test(app_staging, pinned_piece_is_not_given_out_again)
{
	char *all = app_staging_take(&s, 8 << 20), *a = app_staging_take(&s, 8 << 20), *rest;
	const uint64_t inside = app_staging_iova(&s, a) + 5 * 4096;

	rest = app_staging_take(&s, 2 << 20);
	cr_assert(all && a && rest);
	app_staging_pin(&s, inside);
	app_staging_pin(&s, inside + (3 << 20));
	app_staging_give(&s, a);
	cr_assert_eq(s.pages_used, BYTES >> 12);
	cr_assert_null(app_staging_take(&s, 1));
	cr_assert_not(app_staging_unpin(&s, inside));
	cr_assert_null(app_staging_take(&s, 1));
	cr_assert(app_staging_unpin(&s, inside));
	cr_assert_eq(app_staging_take(&s, 8 << 20), a);
	app_staging_pin(&s, inside);
	cr_assert_not(app_staging_unpin(&s, inside), "it is used");
	app_staging_give(&s, a);
	app_staging_give(&s, all);
	app_staging_give(&s, rest);
}

Test(app_staging, pieces_do_not_overlap_and_come_together_again)
{
	struct rand_state r;
	unsigned char *piece[PIECES] = { 0 };
	uint32_t size[PIECES] = { 0 };

	rand_seed(&r, 7);
	for (uint32_t turn = 0; turn < 20000; turn++) {
		uint32_t i = (uint32_t)rand_below(&r, PIECES);

		if (piece[i]) {
			cr_assert_eq(piece[i][0], (unsigned char)i);
			cr_assert_eq(piece[i][size[i] - 1], (unsigned char)i);
			app_staging_give(&s, piece[i]);
			piece[i] = NULL;
			continue;
		}
		size[i] = 1 + (uint32_t)rand_below(&r, 1u << rand_below(&r, 21));
		piece[i] = app_staging_take(&s, size[i]);
		if (piece[i])
			memset(piece[i], (int)i, size[i]);
	}
	for (uint32_t i = 0; i < PIECES; i++)
		if (piece[i])
			app_staging_give(&s, piece[i]);
	cr_assert_eq(s.pages_used, 0);
	for (uint32_t i = 0; i < 2; i++)
		piece[i] = app_staging_take(&s, 8 << 20);
	cr_assert(piece[0] && piece[1], "no piece stayed broken");
	app_staging_give(&s, piece[0]);
	app_staging_give(&s, piece[1]);
}

Test(app_staging, piece_that_a_drive_may_still_write_to_is_never_given_out_again)
{
	uint32_t count = 0;
	char *p, *lost = app_staging_take(&s, 64 << 10);

	app_staging_lose(&s, app_staging_iova(&s, lost) + (32 << 10), 4096);
	app_staging_lose(&s, (1ull << 30) - 4096, 4096); /* of other memory */
	app_staging_lose(&s, (1ull << 30) + BYTES, 4096);
	app_staging_give(&s, lost);
	cr_assert_eq(s.pages_lost, 16);
	cr_assert_eq(s.pages_used, 0);
	while ((p = app_staging_take(&s, 4096))) {
		cr_assert(p < lost || p >= lost + (64 << 10));
		count++;
	}
	cr_assert_eq(count, BYTES / 4096 - 16, "all the rest is there");
	s.pages_used = 0;
}
