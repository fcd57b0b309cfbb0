/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A store with folds of P and Q without a mount: two drives are missing, or blocks are spoilt.
 * Salvage brings back every byte, and the comparison names each block that is wrong.
 */
#include "test/lib/raw_files.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define DRIVES 5u

static struct raw_files s;

static void setup(void)
{
	raw_files_begin_three(&s, DRIVES, 2);
}

static void teardown(void)
{
	raw_files_end(&s);
}

TestSuite(meta_raw_double, .init = setup, .fini = teardown, .timeout = 120);

/* Files, most of which are in folds. */
static void filled(void)
{
	raw_files_put(&s, 500);
	for (uint32_t n = 0; n < 4; n++) {
		meta__ckpt_want(s.rig.m);
		rig_idle(&s.rig);
	}
	cr_assert_gt(s.rig.m->zones->folds, 2);
	cr_assert_eq(rig_stop(&s.rig), 0);
	raw_files_look_at(&s);
}

Test(meta_raw_double, all_is_found_without_any_two_drives)
{
	uint8_t *none = calloc(1, RAW_DRIVE_BYTES);
	struct meta_raw_loss loss;
	uint64_t taken = 0;

	filled();
	cr_assert_eq(raw_files_salvage(&s, &loss).blocks, 0);
	for (uint32_t a = 0; a < DRIVES; a++)
		for (uint32_t b = a + 1; b < DRIVES; b++) {
			uint8_t *of_a = s.rig.view[a], *of_b = s.rig.view[b];

			s.rig.view[a] = s.rig.view[b] = none;
			raw_files_look_at(&s);
			taken += raw_files_salvage(&s, &loss).blocks;
			cr_assert_eq(loss.pages + loss.log_missing, 0, "%s", loss.first);
			s.rig.view[a] = of_a;
			s.rig.view[b] = of_b;
		}
	cr_assert_gt(taken, 200);
	free(none);
}

enum role { P, Q, DATA };

static void spoil(const struct meta_raw *raw, enum role role)
{
	for (uint32_t i = 0; i < raw->geo.nzones; i++) {
		const struct meta__zone_seen *head = meta__raw_zone(raw, i);
		uint32_t zone = i;

		if (raw->zone[i].fold != i + 1)
			continue;
		if (role == Q)
			zone = head->twin - 1;
		if (role == DATA)
			zone = head->member[1];
		raw_files_at(&s, meta__geo_zone_baddr(&raw->geo, zone) + 3)[5] ^= 1;
	}
}

/* A block of a zone of each fold has other bytes meanwhile. */
static struct meta_raw_compared compared_with(const struct meta_raw *raw, enum role role)
{
	struct meta_raw_compared c;

	spoil(raw, role);
	c = raw_files_compare(&s);
	spoil(raw, role);
	return c;
}

Test(meta_raw_double, compare_names_each_block_that_is_wrong)
{
	struct meta_raw_compared c;
	struct meta_raw *raw;
	char *text;
	int err;

	filled();
	c = raw_files_compare(&s);
	cr_assert_gt(c.blocks, 100);
	cr_assert_eq(c.few + c.bad[0] + c.bad[1] + c.bad[2] + c.bad_all, 0);
	raw = raw_files_open(&s);
	c = compared_with(raw, P);
	cr_assert(c.bad[1] > 0 && c.bad[0] + c.bad[2] + c.bad_all == 0);
	c = compared_with(raw, Q);
	cr_assert(c.bad[2] > 0 && c.bad[0] + c.bad[1] + c.bad_all == 0);
	c = compared_with(raw, DATA);
	cr_assert(c.bad[0] > 0 && c.bad[1] > 0 && c.bad[2] > 0 && c.bad_all == 0);
	meta_raw_close(raw);
	text = raw_mem_dump(&s.mem, "zones", NULL, false, &err);
	cr_assert(strstr(text, "  sum  ") && strstr(text, "  sum2 ") && strstr(text, "  fold "),
		  "%s", text);
	free(text);
}
