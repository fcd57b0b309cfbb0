/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A store with folds without a mount: a drive is missing, or blocks are spoilt.  Salvage brings
 * back every byte, and the comparison names each block that is wrong.
 */
#include "test/lib/raw_files.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVES 4u

static struct raw_files s;

static void setup(void)
{
	raw_files_begin(&s, DRIVES, 3);
}

static void teardown(void)
{
	raw_files_end(&s);
}

TestSuite(meta_raw_fold, .init = setup, .fini = teardown, .timeout = 120);

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

Test(meta_raw_fold, all_is_found_without_any_drive)
{
	struct meta_raw_loss loss;

	filled();
	cr_assert_eq(raw_files_salvage(&s, &loss).blocks, 0);
	for (uint32_t d = 0; d < DRIVES; d++) {
		uint8_t *bytes = s.rig.view[d];

		s.rig.view[d] = calloc(1, RAW_DRIVE_BYTES);
		raw_files_look_at(&s);
		cr_assert_gt(raw_files_salvage(&s, &loss).blocks, 20);
		cr_assert_eq(loss.pages + loss.log_missing, 0, "%s", loss.first);
		free(s.rig.view[d]);
		s.rig.view[d] = bytes;
		raw_files_look_at(&s);
	}
}

Test(meta_raw_fold, compare_names_each_block_that_is_wrong)
{
	struct meta_raw_compared c;
	struct meta_raw *raw;
	uint32_t parity = META__ZONE_NONE, member = 0;
	char *text;
	int err;

	filled();
	c = raw_files_compare(&s);
	cr_assert_gt(c.blocks, 100);
	cr_assert_eq(c.few + c.bad[0] + c.bad[1] + c.bad_all, 0);
	raw = raw_files_open(&s);
	for (uint32_t i = 0; i < raw->geo.nzones; i++)
		if (raw->zone[i].fold == i + 1)
			parity = i;
	cr_assert_neq(parity, META__ZONE_NONE);
	member = meta__raw_zone(raw, parity)->member[0];
	raw_files_at(&s, meta__geo_zone_baddr(&raw->geo, parity) + 3)[5] ^= 1;
	c = raw_files_compare(&s);
	cr_assert(c.bad[1] > 0 && c.bad[1] <= 3 && c.bad[0] + c.bad_all == 0);
	raw_files_at(&s, meta__geo_zone_baddr(&raw->geo, parity) + 3)[5] ^= 1;
	raw_files_at(&s, meta__geo_zone_baddr(&raw->geo, member) + 3)[5] ^= 1;
	c = raw_files_compare(&s);
	cr_assert_gt(c.bad[0] + c.bad[1], 0);
	cr_assert_eq(c.bad_all, 0);
	meta_raw_close(raw);
	text = raw_mem_dump(&s.mem, "zones", NULL, false, &err);
	cr_assert(strstr(text, "  parity  ") && strstr(text, "  sum  ") && strstr(text, "  fold "),
		  "%s", text);
	free(text);
}
