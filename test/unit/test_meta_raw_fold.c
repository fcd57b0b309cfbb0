/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A store with folds without a mount: a drive is missing, or blocks are spoilt.  Salvage brings
 * back every byte, and the comparison names each block that is wrong.
 */
#include "base/num.h"
#include "meta/offline/meta_raw_internal.h"
#include "test/lib/meta_rig.h"
#include "test/lib/raw_mem.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVE_BYTES (8u << 20)
#define FILES       120u
#define DRIVES      4u

static struct rig r;
static struct raw_mem mem;
static uint64_t fill_of[FILES]; /* 0: it is not there */
static uint64_t fills;

static void setup(void)
{
	rig_make(&r, 3, DRIVES, DRIVE_BYTES, 4, true);
	r.conf.copies = 2;
	r.conf.fold = 3;
	r.copied = true;
	cr_assert_eq(rig_format(&r), 0, "%s", meta_error(r.m));
}

static void teardown(void)
{
	rig_end(&r);
}

TestSuite(meta_raw_fold, .init = setup, .fini = teardown, .timeout = 120);

static void put_some(uint32_t count)
{
	char path[32];

	for (uint32_t n = 0; n < count; n++) {
		const uint32_t i = (uint32_t)rand_below(&r.rand, FILES);
		const uint64_t fill = ++fills;

		(void)snprintf(path, sizeof(path), "/file %u", i);
		cr_assert_eq(rig_put(&r, path, (uint32_t)(fill % 9), fill), 0, "%s",
			     meta_error(r.m));
		fill_of[i] = fill;
	}
}

static void look_at_the_drives(void)
{
	raw_mem_init(&mem, r.view, DRIVES, DRIVE_BYTES);
}

/* ---- what is brought back ------------------------------------------------------------------- */

static bool is_file(struct meta_raw *raw, const struct meta_handle *h, uint64_t fill)
{
	uint64_t block[512], index = 0, at = 0;
	bool doubt;

	while (meta_raw_block_next(raw, h, &index, block, &doubt) == 0) {
		const uint64_t want = fill % 9 ? fill * 1000 + at : fill;

		if (index != at || doubt || block[0] != want)
			return false;
		for (uint32_t i = 1; i < 512; i++)
			if (block[i] != (fill % 9 ? want : 0))
				return false;
		at = ++index;
	}
	return at == max_u64(fill % 9, 1);
}

/* Every file, byte for byte and beyond doubt, and no other. */
static void salvage_is_complete(struct meta_raw *raw, struct meta_raw_loss *loss)
{
	struct meta_raw_place at = { 0 };
	struct meta_raw_entry e;
	uint32_t found = 0, want = 0;

	cr_assert_eq(meta_raw_salvage(raw, loss), 0);
	while (meta_raw_entry_next(raw, META_ROOT_DIR, &at, &e) == 0) {
		const unsigned long i = strtoul(e.name + strlen("file "), NULL, 10);

		cr_assert_lt(i, FILES, "%s", e.name);
		cr_assert_not(e.doubt, "%s", e.name);
		cr_assert(is_file(raw, &e.handle, fill_of[i]), "%s", e.name);
		found++;
	}
	for (uint32_t i = 0; i < FILES; i++)
		want += fill_of[i] != 0;
	cr_assert_eq(found, want);
}

static struct meta_raw *look(void)
{
	struct meta_raw *raw;

	cr_assert_eq(meta_raw_open(&raw, &mem.from), 0);
	cr_assert_str_eq(meta_raw_problem(raw), "");
	return raw;
}

/* Returns what was taken from second copies on all drives together. */
static struct meta_raw_taken taken(const struct meta_raw *raw)
{
	struct meta_raw_taken sum = { 0 }, one;

	for (uint32_t d = 0; meta_raw_taken(raw, d, &one); d++) {
		sum.pages += one.pages;
		sum.blocks += one.blocks;
	}
	return sum;
}

static struct meta_raw_taken all_is_salvaged(struct meta_raw_loss *loss)
{
	struct meta_raw *raw = look();
	struct meta_raw_taken sum;

	salvage_is_complete(raw, loss);
	sum = taken(raw);
	meta_raw_close(raw);
	return sum;
}

static uint8_t *at(uint64_t baddr)
{
	return r.view[META_BADDR_DRIVE(baddr)] + META_BADDR_BLOCK(baddr) * 4096;
}

/* Files, most of which are in folds. */
static void filled(void)
{
	put_some(500);
	for (uint32_t n = 0; n < 4; n++) {
		meta__ckpt_want(r.m);
		rig_idle(&r);
	}
	cr_assert_gt(r.m->zones->folds, 2);
	cr_assert_eq(rig_stop(&r), 0);
	look_at_the_drives();
}

Test(meta_raw_fold, all_is_found_without_any_drive)
{
	struct meta_raw_loss loss;

	filled();
	cr_assert_eq(all_is_salvaged(&loss).blocks, 0);
	for (uint32_t d = 0; d < DRIVES; d++) {
		uint8_t *bytes = r.view[d];

		r.view[d] = calloc(1, DRIVE_BYTES);
		look_at_the_drives();
		cr_assert_gt(all_is_salvaged(&loss).blocks, 20);
		cr_assert_eq(loss.pages + loss.log_missing, 0, "%s", loss.first);
		free(r.view[d]);
		r.view[d] = bytes;
		look_at_the_drives();
	}
}

static uint32_t lines_wrong[3]; /* first copy, second copy, else */

static void line_of(void *arg, const char *line)
{
	(void)arg;
	lines_wrong[strstr(line, "first copy") ? 0 : strstr(line, "second copy") ? 1 : 2]++;
}

static struct meta_raw_compared compare(void)
{
	struct meta_raw_compared out;
	struct meta_raw *raw = look();

	memset(lines_wrong, 0, sizeof(lines_wrong));
	cr_assert_eq(meta_raw_compare(raw, &out, line_of, NULL), 0);
	meta_raw_close(raw);
	return out;
}

Test(meta_raw_fold, compare_names_each_block_that_is_wrong)
{
	struct meta_raw_compared c;
	struct meta_raw *raw;
	uint32_t parity = META__ZONE_NONE, member = 0;
	char *text;
	int err;

	filled();
	c = compare();
	cr_assert_gt(c.blocks, 100);
	cr_assert_eq(c.single + c.bad_first + c.bad_second + c.bad_both, 0);
	raw = look();
	for (uint32_t i = 0; i < raw->geo.nzones; i++)
		if (raw->zone[i].fold == i + 1)
			parity = i;
	cr_assert_neq(parity, META__ZONE_NONE);
	member = meta__raw_zone(raw, parity)->member[0];
	at(meta__geo_zone_baddr(&raw->geo, parity) + 3)[5] ^= 1;
	c = compare();
	cr_assert(c.bad_second > 0 && c.bad_second <= 3 && c.bad_first + c.bad_both == 0);
	at(meta__geo_zone_baddr(&raw->geo, parity) + 3)[5] ^= 1;
	at(meta__geo_zone_baddr(&raw->geo, member) + 3)[5] ^= 1;
	c = compare();
	cr_assert_gt(c.bad_first + c.bad_second, 0);
	cr_assert_eq(c.bad_both, 0);
	meta_raw_close(raw);
	text = raw_mem_dump(&mem, "zones", NULL, false, &err);
	cr_assert(strstr(text, "  parity  ") && strstr(text, "  sum  ") && strstr(text, "  fold "),
		  "%s", text);
	free(text);
}
