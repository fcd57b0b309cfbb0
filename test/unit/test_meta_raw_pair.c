/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A store of two copies without a mount: a drive is missing, first copies are spoilt, the roots are
 * gone.  Salvage brings back every byte, and says what it took from which second copies.
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
#define DRIVES      3u

static struct rig r;
static struct raw_mem mem;
static uint64_t fill_of[FILES]; /* 0: it is not there */
static uint64_t fills;

static void setup(void)
{
	rig_make(&r, 3, DRIVES, DRIVE_BYTES, 4, true);
	r.conf.copies = 2;
	r.copied = true;
	cr_assert_eq(rig_format(&r), 0, "%s", meta_error(r.m));
}

static void teardown(void)
{
	rig_end(&r);
}

TestSuite(meta_raw_pair, .init = setup, .fini = teardown, .timeout = 120);

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

/* Trees and no log, or a log to be laid over them. */
static void filled(bool stopped)
{
	put_some(300);
	if (stopped) {
		cr_assert_eq(rig_stop(&r), 0);
	} else {
		rig_idle(&r);
		rig_power_cut(&r);
	}
	look_at_the_drives();
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

/* ---- damage --------------------------------------------------------------------------------- */

static uint8_t *at(uint64_t baddr)
{
	return r.view[META_BADDR_DRIVE(baddr)] + META_BADDR_BLOCK(baddr) * 4096;
}

static void spoil(uint64_t baddr)
{
	memset(at(baddr), 0xa5, 4096);
}

/* The copy to spoil in each pair, between the headers: the first, the twin, or by chance. */
enum copy { FIRST, TWIN, EITHER };

static void spoil_copies(enum copy which)
{
	struct meta_raw *raw = look();
	bool second = which == TWIN;

	for (uint32_t i = 0; i < raw->geo.nzones; i++) {
		const uint64_t first = meta__geo_zone_baddr(&raw->geo, i);

		for (uint32_t k = 1; k < raw->geo.zone_end; k++) {
			const uint64_t twin = meta__raw_twin(raw, first + k);

			if (which == EITHER && (k - 1) % META_PAGE_BLOCKS == 0)
				second = rand_below(&r.rand, 2);
			if (twin)
				spoil(second ? twin : first + k);
		}
	}
	meta_raw_close(raw);
}

static void spoil_roots(void)
{
	struct meta_raw *raw = look();

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
			left[n++] = r.view[d];
	raw_mem_init(&mem, left, n, DRIVE_BYTES);
}

/* ---- tests ---------------------------------------------------------------------------------- */

Test(meta_raw_pair, whole_store_takes_nothing_from_second_copies)
{
	struct meta_raw_loss loss;
	struct meta_raw_taken t;

	filled(false);
	t = all_is_salvaged(&loss);
	cr_assert_eq(t.pages + t.blocks, 0);
	cr_assert_eq(loss.pages + loss.shards + loss.zones + loss.leaves + loss.log_missing, 0);
	spoil_copies(TWIN);
	t = all_is_salvaged(&loss);
	cr_assert_eq(t.pages + t.blocks, 0);
}

Test(meta_raw_pair, any_drive_may_be_missing)
{
	struct meta_raw_loss loss;
	struct meta_raw_taken t;

	filled(false);
	for (uint32_t d = 0; d < DRIVES; d++) {
		leave_out(d);
		t = all_is_salvaged(&loss);
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
		pages += all_is_salvaged(&loss).pages;
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
	t = all_is_salvaged(&loss);
	cr_assert_gt(t.pages, 0);
	cr_assert_gt(t.blocks, 100);
	cr_assert_eq(loss.pages, 0, "%s", loss.first);
}

Test(meta_raw_pair, one_copy_of_each_block_may_be_spoilt)
{
	struct meta_raw_loss loss;

	filled(true);
	spoil_copies(EITHER);
	cr_assert_gt(all_is_salvaged(&loss).blocks, 50);
	cr_assert_eq(loss.pages, 0, "%s", loss.first);
}

Test(meta_raw_pair, leaves_are_found_in_twins_when_the_roots_are_gone)
{
	struct meta_raw_loss loss;

	filled(true);
	spoil_roots();
	spoil_copies(FIRST);
	cr_assert_gt(all_is_salvaged(&loss).pages, 0);
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
		(void)all_is_salvaged(&loss);
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
			meta__zone_build(&head, raw->m.uuid,
					 at(meta__geo_zone_head(&raw->geo, head.zone, copy)));
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
	raw = look();
	for (uint32_t i = 0; i < raw->geo.nzones; i++)
		claimed += claim(raw, i);
	meta_raw_close(raw);
	cr_assert_gt(claimed, 1);
	(void)all_is_salvaged(&loss);
	cr_assert_eq(loss.pages, 0, "%s", loss.first);
}

/* Roots of a later version, of trees without a page, on one drive. */
static void forge_roots(uint32_t drive)
{
	struct meta_raw *raw = look();

	for (uint32_t i = 0; i < 4 * raw->geo.nshards; i++) {
		const uint64_t here = meta__geo_root(&raw->geo, i & 1, i >> 1 & 1, i >> 2);
		struct meta_root_disk d;

		if (META_BADDR_DRIVE(here) != drive)
			continue;
		memcpy(&d, at(here), sizeof(d));
		d.version = le64_of(le64_get(d.version) + 1000);
		d.height = le32_of(0);
		d.root_baddr = d.root_gen = le64_of(0);
		d.crc = le32_of(0);
		memcpy(at(here), &d, sizeof(d));
		d.crc = le32_of(crc32c(at(here), 4096));
		memcpy(at(here), &d, sizeof(d));
	}
	meta_raw_close(raw);
}

Test(meta_raw_pair, lost_drive_is_not_believed)
{
	struct meta_drive_stat s;
	struct meta_raw_loss loss;
	struct meta_raw *raw;
	char *text;
	int err;

	for (uint32_t drive = 0; drive < DRIVES; drive++) {
		put_some(600);
		rig_idle(&r);
		r.dead = 1u << drive;
		do {
			put_some(1);
			meta_drive_stat(r.m, drive, &s);
		} while (!s.lost || r.m->losing);
		rig_kill(&r);
		look_at_the_drives();
		forge_roots(drive);
		raw = look();
		cr_assert_eq(raw->geo.state[drive], DRIVE_LOST, "drive %u: %u", drive,
			     raw->geo.state[drive]);
		salvage_is_complete(raw, &loss);
		cr_assert_eq(loss.pages + loss.log_missing, 0, "%s", loss.first);
		meta_raw_close(raw);
		text = raw_mem_dump(&mem, "set", NULL, false, &err);
		cr_assert(strstr(text, "lost") && strstr(text, "not believed"), "%s", text);
		free(text);
		free(raw_mem_dump(&mem, "zones", NULL, false, &err));
		cr_assert_eq(err, 0, "nothing that counts is damaged");
		rig_end(&r);
		memset(fill_of, 0, sizeof(fill_of));
		setup();
	}
}

/* ---- both copies, compared; and in words ---------------------------------------------------- */

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

Test(meta_raw_pair, compare_finds_nothing_in_a_whole_store)
{
	struct meta_raw_compared c;
	uint64_t blocks = 0;

	filled(true);
	for (uint32_t i = 0; i < FILES; i++)
		blocks += fill_of[i] % 9;
	c = compare();
	cr_assert_eq(c.blocks, blocks);
	cr_assert_gt(c.pages, 2);
	cr_assert_eq(c.single + c.bad_first + c.bad_second + c.bad_both, 0);
	cr_assert_eq(lines_wrong[0] + lines_wrong[1] + lines_wrong[2], 0);
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
	raw = look();
	for (uint32_t shard = 0; shard < raw->geo.nshards; shard++)
		if (meta__raw_go(raw, shard, &key, 0, &way))
			break;
	page = way.step[0].page.baddr;
	page_twin = meta__raw_twin(raw, page);
	meta_raw_close(raw);
	at(page_twin + 1)[5] ^= 1;
	c = compare();
	cr_assert(c.bad_second == 1 && c.bad_first == 0 && c.bad_both == 0);
	cr_assert(lines_wrong[1] == 1 && lines_wrong[0] + lines_wrong[2] == 0);
	at(page)[4000] ^= 1;
	c = compare();
	cr_assert_eq(c.bad_both, 1);
	cr_assert(lines_wrong[0] == 1 && lines_wrong[1] == 1);
	at(page)[4000] ^= 1;
	spoil_copies(FIRST);
	at(page_twin + 1)[5] ^= 1;
	c = compare();
	cr_assert_eq(c.bad_first, c.blocks + c.pages);
	cr_assert_eq(lines_wrong[0], c.bad_first);
	cr_assert_eq(c.bad_second + c.bad_both, 0);
}

/* Lets the first run of the first extent of a leaf be on drive 4095.  False: it has none. */
static bool misplace(uint64_t leaf)
{
	uint8_t *page = at(leaf);

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
	raw = look();
	for (uint32_t shard = 0; shard < raw->geo.nshards && !done; shard++) {
		if (!meta__raw_go(raw, shard, &key, 0, &way))
			continue;
		leaf = way.step[way.steps - 1].page.baddr;
		twin = meta__raw_twin(raw, leaf);
		done = misplace(leaf) && misplace(twin);
	}
	meta_raw_close(raw);
	cr_assert(done);
	c = compare();
	cr_assert_gt(c.single, 0);
	cr_assert_eq(c.single, c.bad_both);
	cr_assert_gt(lines_wrong[2], 0);
	raw = look();
	cr_assert_eq(meta_raw_salvage(raw, &loss), 0);
	meta_raw_close(raw);
}

static char *words(const char *what, const char *arg, int want)
{
	int err;
	char *text = raw_mem_dump(&mem, what, arg, false, &err);

	cr_assert_eq(err, want, "%d: %s", err, text);
	return text;
}

Test(meta_raw_pair, dump_shows_pairs_twins_and_the_set)
{
	char *text, *twin, number[16];
	uint32_t zone = META__ZONE_NONE;
	struct meta_raw *raw;

	filled(true);
	raw = look();
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
