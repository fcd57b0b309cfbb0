/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A store of three copies without a mount: any two drives are missing or lost, two copies of all
 * are spoilt, the roots are gone.  Salvage brings back every byte.
 */
#include "test/lib/raw_files.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVES 5u
#define COPIES 3u

static struct raw_files s;

static void setup(void)
{
	raw_files_begin_three(&s, DRIVES, 0);
}

static void teardown(void)
{
	raw_files_end(&s);
}

TestSuite(meta_raw_three, .init = setup, .fini = teardown, .timeout = 120);

/* Trees and no log, or a log to be laid over them. */
static void filled(bool stopped)
{
	raw_files_put(&s, 300);
	if (stopped) {
		cr_assert_eq(rig_stop(&s.rig), 0);
	} else {
		rig_idle(&s.rig);
		rig_power_cut(&s.rig);
	}
	raw_files_look_at(&s);
}

static void spoil(uint64_t baddr)
{
	memset(raw_files_at(&s, baddr), 0xa5, 4096);
}

/* All copies but this one of each block between the headers of a group; COPIES: but one by chance.
 * Returns how many blocks. */
static uint32_t spoil_but(uint32_t whole)
{
	struct meta_raw *raw = raw_files_open(&s);
	uint32_t but = whole, count = 0;

	for (uint32_t i = 0; i < raw->geo.nzones; i++) {
		const uint64_t first = meta__geo_zone_baddr(&raw->geo, i);

		if (!raw->zone[i].pair || raw->zone[i].is_twin)
			continue;
		for (uint32_t k = 1; k < raw->geo.zone_end; k++) {
			uint64_t at = first + k;

			if (whole == COPIES && (k - 1) % META_PAGE_BLOCKS == 0)
				but = (uint32_t)rand_below(&s.rig.rand, COPIES);
			for (uint32_t n = 0; n < COPIES; n++, at = meta__raw_twin(raw, at)) {
				cr_assert_neq(at, 0);
				if (n != but)
					spoil(at);
			}
			cr_assert_eq(at, 0, "there are no more");
			count++;
		}
	}
	meta_raw_close(raw);
	return count;
}

/* All copies after copy number `right` of the blocks of files. */
static void spoil_data_after(uint32_t right)
{
	struct meta_raw *raw = raw_files_open(&s);

	for (uint32_t i = 0; i < raw->geo.nzones; i++) {
		const uint64_t first = meta__geo_zone_baddr(&raw->geo, i);

		if (!raw->zone[i].pair || meta__raw_zone(raw, i)->kind != META__ZONE_DATA)
			continue;
		for (uint32_t k = 1; k < raw->geo.zone_end; k++) {
			uint64_t at = first + k;

			for (uint32_t n = 0; n < COPIES; n++, at = meta__raw_twin(raw, at))
				if (n > right)
					spoil(at);
		}
	}
	meta_raw_close(raw);
}

static void spoil_roots(void)
{
	struct meta_raw *raw = raw_files_open(&s);

	cr_assert_eq(raw->geo.root_copies, COPIES);
	for (uint32_t copy = 0; copy < COPIES; copy++)
		for (uint32_t i = 0; i < 2 * raw->geo.nshards; i++)
			spoil(meta__geo_root(&raw->geo, copy, i & 1, i >> 1));
	meta_raw_close(raw);
}

/* The drives but these two, which are not there. */
static void leave_out(uint32_t a, uint32_t b)
{
	static uint8_t *left[DRIVES];
	uint32_t n = 0;

	for (uint32_t d = 0; d < DRIVES; d++)
		if (d != a && d != b)
			left[n++] = s.rig.view[d];
	raw_mem_init(&s.mem, left, n, RAW_DRIVE_BYTES);
}

/* Any two drives are missing.  Returns how many blocks of files were taken from the others. */
static uint64_t taken_without_two(void)
{
	struct meta_raw_loss loss;
	uint64_t taken = 0;

	for (uint32_t i = 0; i < DRIVES * DRIVES; i++) {
		if (i / DRIVES >= i % DRIVES)
			continue;
		leave_out(i / DRIVES, i % DRIVES);
		taken += raw_files_salvage(&s, &loss).blocks;
		cr_assert_eq(loss.pages + loss.shards + loss.zones + loss.log_missing, 0,
			     "drives %u and %u: %llu pages, %llu shards, %llu zones", i / DRIVES,
			     i % DRIVES, (unsigned long long)loss.pages,
			     (unsigned long long)loss.shards, (unsigned long long)loss.zones);
	}
	return taken;
}

Test(meta_raw_three, any_two_drives_may_be_missing)
{
	filled(false);
	cr_assert_gt(taken_without_two(), 0);
}

Test(meta_raw_three, any_two_drives_may_be_missing_after_a_clean_stop)
{
	filled(true);
	cr_assert_gt(taken_without_two(), 0);
}

Test(meta_raw_three, any_two_copies_of_all_may_be_spoilt)
{
	struct meta_raw_loss loss;

	for (uint32_t whole = 0; whole <= COPIES; whole++) {
		filled(true);
		cr_assert_gt(spoil_but(whole), 100);
		(void)raw_files_salvage(&s, &loss);
		cr_assert_eq(loss.pages, 0, "%s", loss.first);
		teardown();
		setup();
	}
}

Test(meta_raw_three, leaves_are_found_in_the_last_copies_without_roots)
{
	struct meta_raw_loss loss;

	filled(true);
	spoil_roots();
	(void)spoil_but(COPIES - 1);
	(void)raw_files_salvage(&s, &loss);
	cr_assert_eq(loss.shards, 4);
	cr_assert_gt(loss.leaves, 0);
}

Test(meta_raw_three, leaves_are_found_without_roots_and_without_two_drives)
{
	struct meta_raw_loss loss;

	filled(true);
	spoil_roots();
	leave_out(1, 3);
	(void)raw_files_salvage(&s, &loss);
	cr_assert_eq(loss.shards, 4);
}

/* The store goes on without two drives, which may say anything. */
Test(meta_raw_three, lost_drives_are_not_believed)
{
	struct meta_drive_stat stat[2];
	struct meta_raw_loss loss;
	struct meta_raw *raw;

	raw_files_put(&s, 600);
	rig_idle(&s.rig);
	s.rig.dead = 1u << 1 | 1u << 2;
	do {
		raw_files_put(&s, 1);
		meta_drive_stat(s.rig.m, 1, &stat[0]);
		meta_drive_stat(s.rig.m, 2, &stat[1]);
	} while (!stat[0].lost || !stat[1].lost || s.rig.m->losing);
	rig_kill(&s.rig);
	raw_files_look_at(&s);
	raw = raw_files_open(&s);
	cr_assert_eq(raw->geo.state[1], DRIVE_LOST);
	cr_assert_eq(raw->geo.state[2], DRIVE_LOST);
	raw_files_are_salvaged(&s, raw, &loss);
	cr_assert_eq(loss.pages + loss.log_missing, 0, "%s", loss.first);
	meta_raw_close(raw);
}

/* ---- compared, and in words ----------------------------------------------------------------- */

Test(meta_raw_three, compare_finds_nothing_in_a_whole_store)
{
	struct meta_raw_compared c;

	filled(true);
	c = raw_files_compare(&s);
	cr_assert_gt(c.blocks, 100);
	cr_assert_gt(c.pages, 2);
	cr_assert_eq(c.few + c.bad[0] + c.bad[1] + c.bad[2] + c.bad_all, 0);
}

Test(meta_raw_three, compare_names_each_copy_that_is_wrong)
{
	struct meta_raw_compared c;

	for (uint32_t whole = 0; whole < COPIES; whole++) {
		filled(true);
		(void)spoil_but(whole);
		c = raw_files_compare(&s);
		for (uint32_t i = 0; i < COPIES; i++)
			cr_assert_eq(c.bad[i], i == whole ? 0 : c.blocks + c.pages);
		cr_assert_eq(s.lines_wrong[0], c.bad[0]);
		cr_assert_eq(s.lines_wrong[1], c.bad[1]);
		cr_assert_eq(s.lines_wrong[3], c.bad[2]);
		cr_assert_eq(c.few + c.bad_all, 0);
		teardown();
		setup();
	}
}

Test(meta_raw_three, dump_names_both_other_zones_and_three_roots)
{
	char *text, want[64];
	struct meta_raw *raw;
	uint32_t first = 0;
	int err;

	filled(true);
	raw = raw_files_open(&s);
	while (!raw->zone[first].pair || raw->zone[first].is_twin)
		first++;
	(void)snprintf(want, sizeof(want), "%u,%u", raw->zone[first].next,
		       raw->zone[raw->zone[first].next].next);
	meta_raw_close(raw);
	text = raw_mem_dump(&s.mem, "zones", NULL, false, &err);
	cr_assert_eq(err, 0);
	cr_assert(strstr(text, want), "%s", want);
	free(text);
	text = raw_mem_dump(&s.mem, "roots", "0", true, &err);
	cr_assert_eq(err, 0);
	cr_assert(strstr(text, "\"copy\":2"), "%s", text);
	free(text);
}

/* The third copies are wrong, and then the second ones, too. */
Test(meta_raw_three, dump_of_a_file_names_each_copy_that_is_wrong)
{
	for (uint32_t right = 2; right-- > 0;) {
		char *text;
		int err;

		if (right)
			filled(true);
		spoil_data_after(right);
		text = raw_mem_dump(&s.mem, "file", "/file 7", false, &err);
		cr_assert_eq(err, -EUCLEAN, "%s", text);
		cr_assert_eq(strstr(text, "its twin: ") != NULL, right == 0, "%s", text);
		cr_assert(strstr(text, "its other twin: it does not match"), "%s", text);
		free(text);
	}
}
