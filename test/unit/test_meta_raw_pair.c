/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A store of two copies without a mount: a drive is missing, first copies are spoilt, the roots are
 * gone.  Salvage brings back every byte, and says what it took from which second copies.
 */
#include "test/lib/raw_files.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVES 3u

static struct raw_files s;

static void setup(void)
{
	raw_files_begin(&s, DRIVES, 0);
}

static void teardown(void)
{
	raw_files_end(&s);
}

TestSuite(meta_raw_pair, .init = setup, .fini = teardown, .timeout = 120);

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

/* ---- damage --------------------------------------------------------------------------------- */

static void spoil(uint64_t baddr)
{
	memset(raw_files_at(&s, baddr), 0xa5, 4096);
}

/* The copy to spoil in each pair, between the headers: the first, the twin, or by chance. */
enum copy { FIRST, TWIN, EITHER };

static void spoil_copies(enum copy which)
{
	struct meta_raw *raw = raw_files_open(&s);
	bool second = which == TWIN;

	for (uint32_t i = 0; i < raw->geo.nzones; i++) {
		const uint64_t first = meta__geo_zone_baddr(&raw->geo, i);

		for (uint32_t k = 1; k < raw->geo.zone_end; k++) {
			const uint64_t twin = meta__raw_twin(raw, first + k);

			if (which == EITHER && (k - 1) % META_PAGE_BLOCKS == 0)
				second = rand_below(&s.rig.rand, 2);
			if (twin)
				spoil(second ? twin : first + k);
		}
	}
	meta_raw_close(raw);
}

static void spoil_roots(void)
{
	struct meta_raw *raw = raw_files_open(&s);

	for (uint32_t i = 0; i < 4 * raw->geo.nshards; i++)
		spoil(meta__geo_root(&raw->geo, i & 1, i >> 1 & 1, i >> 2));
	meta_raw_close(raw);
}

/* The drives but this one, which is not there. */
static void leave_out(uint32_t drive)
{
	static uint8_t *left[DRIVES];
	uint32_t n = 0;

	for (uint32_t d = 0; d < DRIVES; d++)
		if (d != drive)
			left[n++] = s.rig.view[d];
	raw_mem_init(&s.mem, left, n, RAW_DRIVE_BYTES);
}

/* ---- tests ---------------------------------------------------------------------------------- */

Test(meta_raw_pair, whole_store_takes_nothing_from_second_copies)
{
	struct meta_raw_loss loss;
	struct meta_raw_taken t;

	filled(false);
	t = raw_files_salvage(&s, &loss);
	cr_assert_eq(t.pages + t.blocks, 0);
	cr_assert_eq(loss.pages + loss.shards + loss.zones + loss.leaves + loss.log_missing, 0);
	spoil_copies(TWIN);
	t = raw_files_salvage(&s, &loss);
	cr_assert_eq(t.pages + t.blocks, 0);
}

Test(meta_raw_pair, any_drive_may_be_missing)
{
	struct meta_raw_loss loss;
	struct meta_raw_taken t;

	filled(false);
	for (uint32_t d = 0; d < DRIVES; d++) {
		leave_out(d);
		t = raw_files_salvage(&s, &loss);
		cr_assert_gt(t.blocks, 0, "drive %u", d);
		cr_assert_eq(loss.pages + loss.shards + loss.zones + loss.log_missing, 0,
			     "drive %u: %llu pages, %llu shards, %llu zones", d,
			     (unsigned long long)loss.pages, (unsigned long long)loss.shards,
			     (unsigned long long)loss.zones);
	}
}

Test(meta_raw_pair, any_drive_may_be_missing_after_a_clean_stop)
{
	struct meta_raw_loss loss;
	uint64_t pages = 0;

	filled(true);
	for (uint32_t d = 0; d < DRIVES; d++) {
		leave_out(d);
		pages += raw_files_salvage(&s, &loss).pages;
		cr_assert_eq(loss.pages + loss.shards + loss.zones + loss.log_missing, 0);
	}
	cr_assert_gt(pages, 0);
}

Test(meta_raw_pair, each_first_copy_may_be_spoilt)
{
	struct meta_raw_loss loss;
	struct meta_raw_taken t;

	filled(true);
	spoil_copies(FIRST);
	t = raw_files_salvage(&s, &loss);
	cr_assert_gt(t.pages, 0);
	cr_assert_gt(t.blocks, 100);
	cr_assert_eq(loss.pages, 0, "%s", loss.first);
}

Test(meta_raw_pair, one_copy_of_each_block_may_be_spoilt)
{
	struct meta_raw_loss loss;

	filled(true);
	spoil_copies(EITHER);
	cr_assert_gt(raw_files_salvage(&s, &loss).blocks, 50);
	cr_assert_eq(loss.pages, 0, "%s", loss.first);
}

Test(meta_raw_pair, leaves_are_found_in_twins_when_the_roots_are_gone)
{
	struct meta_raw_loss loss;

	filled(true);
	spoil_roots();
	spoil_copies(FIRST);
	cr_assert_gt(raw_files_salvage(&s, &loss).pages, 0);
	cr_assert_eq(loss.shards, 4);
	cr_assert_gt(loss.leaves, 0);
}

Test(meta_raw_pair, leaves_are_found_without_roots_and_without_any_one_drive)
{
	struct meta_raw_loss loss;

	filled(true);
	spoil_roots();
	for (uint32_t d = 0; d < DRIVES; d++) {
		leave_out(d);
		(void)raw_files_salvage(&s, &loss);
		cr_assert_eq(loss.shards, 4);
		cr_assert_eq(loss.zones, 0);
	}
}

/* Makes a free zone the twin of a pair's first zone, by a header with an earlier number; the first
 * zone loses its own header. */
static bool claim(const struct meta_raw *raw, uint32_t first)
{
	static bool is_claimed[4096];
	const struct meta__zone_seen *z = meta__raw_zone(raw, first);
	const uint32_t twin = meta__raw_twin_zone(raw, first);
	struct meta__zone_seen head = { .kind = META__ZONE_TWIN, .twin = first + 1 };

	if (twin == META__ZONE_NONE || z->pair < 2)
		return false;
	head.pair = z->pair - 1;
	head.epoch = z->epoch;
	for (head.zone = raw->geo.nzones; head.zone-- > 0;) { /* behind the twin: it is met last */
		const struct meta__zone_seen *x = meta__raw_zone(raw, head.zone);
		const uint32_t d = META_BADDR_DRIVE(meta__geo_zone_baddr(&raw->geo, head.zone));

		if (x->kind != META__ZONE_FREE || x->mark || is_claimed[head.zone] ||
		    d == META_BADDR_DRIVE(meta__geo_zone_baddr(&raw->geo, first)))
			continue;
		is_claimed[head.zone] = true;
		head.incarnation = x->incarnation;
		for (uint32_t copy = 0; copy < 2; copy++) {
			meta__zone_build(
				&head, raw->m.uuid,
				raw_files_at(&s, meta__geo_zone_head(&raw->geo, head.zone, copy)));
			spoil(meta__geo_zone_head(&raw->geo, first, copy));
		}
		return true;
	}
	return false;
}

Test(meta_raw_pair, twin_of_an_earlier_life_is_not_taken)
{
	struct meta_raw_loss loss;
	struct meta_raw *raw;
	uint32_t claimed = 0;

	filled(true);
	spoil_copies(FIRST);
	raw = raw_files_open(&s);
	for (uint32_t i = 0; i < raw->geo.nzones; i++)
		claimed += claim(raw, i);
	meta_raw_close(raw);
	cr_assert_gt(claimed, 1);
	(void)raw_files_salvage(&s, &loss);
	cr_assert_eq(loss.pages, 0, "%s", loss.first);
}

/* Roots of a later version, of trees without a page, on one drive. */
static void forge_roots(uint32_t drive)
{
	struct meta_raw *raw = raw_files_open(&s);

	for (uint32_t i = 0; i < 4 * raw->geo.nshards; i++) {
		const uint64_t here = meta__geo_root(&raw->geo, i & 1, i >> 1 & 1, i >> 2);
		struct meta_root_disk d;

		if (META_BADDR_DRIVE(here) != drive)
			continue;
		memcpy(&d, raw_files_at(&s, here), sizeof(d));
		d.version = le64_of(le64_get(d.version) + 1000);
		d.height = le32_of(0);
		d.root_baddr = d.root_gen = le64_of(0);
		d.crc = le32_of(0);
		memcpy(raw_files_at(&s, here), &d, sizeof(d));
		d.crc = le32_of(crc32c(raw_files_at(&s, here), 4096));
		memcpy(raw_files_at(&s, here), &d, sizeof(d));
	}
	meta_raw_close(raw);
}

Test(meta_raw_pair, lost_drive_is_not_believed)
{
	struct meta_drive_stat stat;
	struct meta_raw_loss loss;
	struct meta_raw *raw;
	char *text;
	int err;

	for (uint32_t drive = 0; drive < DRIVES; drive++) {
		raw_files_put(&s, 600);
		rig_idle(&s.rig);
		s.rig.dead = 1u << drive;
		do {
			raw_files_put(&s, 1);
			meta_drive_stat(s.rig.m, drive, &stat);
		} while (!stat.lost || s.rig.m->losing);
		rig_kill(&s.rig);
		raw_files_look_at(&s);
		forge_roots(drive);
		raw = raw_files_open(&s);
		cr_assert_eq(raw->geo.state[drive], DRIVE_LOST, "drive %u: %u", drive,
			     raw->geo.state[drive]);
		raw_files_are_salvaged(&s, raw, &loss);
		cr_assert_eq(loss.pages + loss.log_missing, 0, "%s", loss.first);
		meta_raw_close(raw);
		text = raw_mem_dump(&s.mem, "set", NULL, false, &err);
		cr_assert(strstr(text, "lost") && strstr(text, "not believed"), "%s", text);
		free(text);
		free(raw_mem_dump(&s.mem, "zones", NULL, false, &err));
		cr_assert_eq(err, 0, "nothing that counts is damaged");
		teardown();
		setup();
	}
}

/* ---- both copies, compared; and in words ---------------------------------------------------- */

Test(meta_raw_pair, compare_finds_nothing_in_a_whole_store)
{
	struct meta_raw_compared c;
	uint64_t blocks = 0;

	filled(true);
	for (uint32_t i = 0; i < RAW_FILES; i++)
		blocks += s.fill_of[i] % 9;
	c = raw_files_compare(&s);
	cr_assert_eq(c.blocks, blocks);
	cr_assert_gt(c.pages, 2);
	cr_assert_eq(c.few + c.bad[0] + c.bad[1] + c.bad_all, 0);
	cr_assert_eq(s.lines_wrong[0] + s.lines_wrong[1] + s.lines_wrong[2], 0);
}

/* A block of a file and a page, each in one copy; then in both. */
Test(meta_raw_pair, compare_names_each_copy_that_is_wrong)
{
	const struct meta_key key = { { 0 } };
	struct meta_raw_compared c;
	struct meta__raw_way way = { 0 };
	struct meta_raw *raw;
	uint64_t page, page_twin;

	filled(true);
	raw = raw_files_open(&s);
	for (uint32_t shard = 0; shard < raw->geo.nshards; shard++)
		if (meta__raw_go(raw, shard, &key, 0, &way))
			break;
	page = way.step[0].page.baddr;
	page_twin = meta__raw_twin(raw, page);
	meta_raw_close(raw);
	raw_files_at(&s, page_twin + 1)[5] ^= 1;
	c = raw_files_compare(&s);
	cr_assert(c.bad[1] == 1 && c.bad[0] == 0 && c.bad_all == 0);
	cr_assert(s.lines_wrong[1] == 1 && s.lines_wrong[0] + s.lines_wrong[2] == 0);
	raw_files_at(&s, page)[4000] ^= 1;
	c = raw_files_compare(&s);
	cr_assert_eq(c.bad_all, 1);
	cr_assert(s.lines_wrong[0] == 1 && s.lines_wrong[1] == 1);
	raw_files_at(&s, page)[4000] ^= 1;
	spoil_copies(FIRST);
	raw_files_at(&s, page_twin + 1)[5] ^= 1;
	c = raw_files_compare(&s);
	cr_assert_eq(c.bad[0], c.blocks + c.pages);
	cr_assert_eq(s.lines_wrong[0], c.bad[0]);
	cr_assert_eq(c.bad[1] + c.bad_all, 0);
}

/* Lets the first run of the first extent of a leaf be on drive 4095.  False: it has none. */
static bool misplace(uint64_t leaf)
{
	uint8_t *page = raw_files_at(&s, leaf);

	for (uint32_t i = 0; i < meta__page_count(page); i++) {
		const struct meta_key key = meta__leaf_key(page, i);
		const void *value;
		uint32_t len;

		meta__leaf_value(page, i, &value, &len);
		if (meta__key_class(&key) != META__CLASS_OBJ ||
		    meta__key_kind(&key) != META__KIND_EXTENT)
			continue;
		memset(page + ((const uint8_t *)value - page) + 14, 0xff, 2);
		meta__page_seal(page);
		return true;
	}
	return false;
}

Test(meta_raw_pair, compare_survives_an_extent_on_a_drive_that_no_store_can_have)
{
	const struct meta_key key = { { 0 } };
	struct meta_raw_compared c;
	struct meta__raw_way way = { 0 };
	struct meta_raw_loss loss;
	struct meta_raw *raw;
	uint64_t leaf, twin;
	bool done = false;

	filled(true);
	raw = raw_files_open(&s);
	for (uint32_t shard = 0; shard < raw->geo.nshards && !done; shard++) {
		if (!meta__raw_go(raw, shard, &key, 0, &way))
			continue;
		leaf = way.step[way.steps - 1].page.baddr;
		twin = meta__raw_twin(raw, leaf);
		done = misplace(leaf) && misplace(twin);
	}
	meta_raw_close(raw);
	cr_assert(done);
	c = raw_files_compare(&s);
	cr_assert_gt(c.few, 0);
	cr_assert_eq(c.few, c.bad_all);
	cr_assert_gt(s.lines_wrong[2], 0);
	raw = raw_files_open(&s);
	cr_assert_eq(meta_raw_salvage(raw, &loss), 0);
	meta_raw_close(raw);
}

static char *words(const char *what, const char *arg, int want)
{
	int err;
	char *text = raw_mem_dump(&s.mem, what, arg, false, &err);

	cr_assert_eq(err, want, "%d: %s", err, text);
	return text;
}

Test(meta_raw_pair, dump_shows_pairs_twins_and_the_set)
{
	char *text, *twin, number[16];
	uint32_t zone = META__ZONE_NONE;
	struct meta_raw *raw;

	filled(true);
	raw = raw_files_open(&s);
	for (uint32_t i = 0; i < raw->geo.nzones && zone == META__ZONE_NONE; i++)
		if (meta__raw_zone(raw, i)->kind == META__ZONE_PAGE)
			zone = meta__raw_twin_zone(raw, i);
	meta_raw_close(raw);
	cr_assert_neq(zone, META__ZONE_NONE);
	text = words("zones", NULL, 0);
	cr_assert(strstr(text, "  first  ") && strstr(text, "  twin   "), "%s", text);
	free(text);
	(void)snprintf(number, sizeof(number), "%u", zone);
	twin = words("zone", number, 0);
	cr_assert(strstr(twin, "lives"), "pages are shown: %s", twin);
	free(twin);
	text = words("set", NULL, 0);
	cr_assert(strstr(text, "serves") && !strstr(text, "lost") && !strstr(text, "missing"), "%s",
		  text);
	free(text);
	text = words("file", "/file 7", 0);
	cr_assert(strstr(text, "TWIN") && !strstr(text, "its twin"), "%s", text);
	free(text);
	leave_out(1);
	text = words("set", NULL, 0);
	cr_assert(strstr(text, "missing"), "%s", text);
	free(text);
}

/* The drive was alone with the begin of a change, and lost under the same number: meta_drives.c
 * (10). */
static void set_next(uint32_t drive, uint32_t alone)
{
	for (uint32_t copy = 0; copy < 2; copy++) {
		uint8_t *block =
			raw_files_at(&s, META_BADDR(drive, copy ? RAW_DRIVE_BYTES / 4096 - 1 : 0));
		struct meta__super super;
		struct meta__geo geo;
		char why[128];

		cr_assert_eq(meta__super_parse(block, &super, why), 0, "%s", why);
		meta__geo_of(&geo, &super);
		memcpy(super.root_at, geo.root_area, sizeof(super.root_at));
		super.set++;
		super.drained = true;
		if (drive == alone)
			super.fold = 2;
		else
			super.drive_state[alone] = DRIVE_LOST;
		meta__super_build(&super, block);
	}
}

Test(meta_raw_pair, set_of_a_drive_that_is_lost_does_not_count)
{
	struct meta_raw *raw;
	char *text;

	filled(true);
	for (uint32_t d = 0; d < s.ndrives; d++)
		set_next(d, 0);
	raw = raw_files_open(&s);
	cr_assert_eq(raw->geo.state[0], DRIVE_LOST, "it missed changes, and is believed");
	cr_assert_eq(raw->m.fold, 0);
	meta_raw_close(raw);
	text = words("set", NULL, 0);
	cr_assert(strstr(text, "not believed"), "%s", text);
	free(text);
}
