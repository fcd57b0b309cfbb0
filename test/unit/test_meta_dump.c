/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The golden store in words, word for word; and with a byte changed: it is named, and what is
 * whole is shown all the same.
 *
 * (WK_GOLDEN_MAKE=1 writes the words if they are not there yet.)
 */
#include "meta/offline/meta_raw_internal.h"
#include "meta/meta_set.h"
#include "test/lib/golden_image.h"
#include "test/lib/raw_mem.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define IMAGE       "test/golden/store-4.img"
#define CONVERTING  "test/golden/store-4-converts.img"
#define WORDS       "test/golden/store-4.dump"
#define DRIVE_BYTES (2u << 20)

static uint8_t *drive[2];
static struct raw_mem mem;

static void setup(void)
{
	for (int d = 0; d < 2; d++)
		drive[d] = malloc(DRIVE_BYTES);
	cr_assert_eq(golden_image_load(IMAGE, drive, 2, DRIVE_BYTES), 0);
	raw_mem_init(&mem, drive, 2, DRIVE_BYTES);
}

static void teardown(void)
{
	free(drive[0]);
	free(drive[1]);
}

TestSuite(meta_dump, .init = setup, .fini = teardown, .timeout = 60);

static char *dump(const char *what, const char *arg, int want)
{
	int err;
	char *text = raw_mem_dump(&mem, what, arg, false, &err);

	cr_assert_eq(err, want, "dump %s %s: %d\n%s", what, arg ? arg : "", err, text);
	return text;
}

static uint8_t *block_at(uint64_t baddr)
{
	return drive[META_BADDR_DRIVE(baddr)] + META_BADDR_BLOCK(baddr) * 4096;
}

/* Some line of `text` has all of these words. */
static bool line_with(const char *text, const char *a, const char *b)
{
	for (const char *line = text; *line;) {
		size_t n = strcspn(line, "\n");
		char one[8192];

		(void)snprintf(one, sizeof(one), "%.*s", (int)n, line);
		if (strstr(one, a) && strstr(one, b))
			return true;
		line += n + (line[n] == '\n');
	}
	return false;
}

must_check static bool names(char *text, const char *a, const char *b)
{
	const bool is = line_with(text, a, b);

	if (!is)
		fprintf(stderr, "no line with '%s' and '%s':\n%s", a, b, text);
	free(text);
	return is;
}

/* The store, opened; to be closed. */
static struct meta_raw *look(void)
{
	struct meta_raw *r;

	cr_assert_eq(meta_raw_open(&r, &mem.from), 0);
	cr_assert_str_eq(meta_raw_problem(r), "");
	return r;
}

static char *place_of(uint64_t baddr)
{
	static char text[32];

	(void)snprintf(text, sizeof(text), "%u:%llu", META_BADDR_DRIVE(baddr),
		       (unsigned long long)META_BADDR_BLOCK(baddr));
	return text;
}

/* The leaf that the root of the first shard with a tree leads to first. */
static struct meta__page_want a_leaf(void)
{
	const struct meta_key key = { { 0 } };
	struct meta_raw *r = look();
	struct meta__raw_way way = { 0 };

	for (uint32_t shard = 0; shard < r->geo.nshards; shard++)
		if (meta__raw_go(r, shard, &key, 0, &way))
			break;
	cr_assert_gt(way.steps, 0);
	meta_raw_close(r);
	return way.step[way.steps - 1].page;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static void append(FILE *out, const char *what, const char *arg)
{
	char *text = dump(what, arg, 0);

	fprintf(out, "== %s %s\n%s", what, arg ? arg : "", text);
	free(text);
}

static char *all_of_it(void)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	struct meta__page_want leaf = a_leaf();

	append(out, "super", NULL);
	append(out, "roots", NULL);
	append(out, "roots", "2");
	append(out, "zones", NULL);
	for (char zone[] = "0"; zone[0] <= '9'; zone[0]++)
		append(out, "zone", zone);
	append(out, "log", NULL);
	append(out, "page", place_of(leaf.baddr));
	append(out, "path", "/dir/sub2/deep");
	append(out, "path", "/");
	append(out, "file", "/dir/f07");
	append(out, "file", "/holes");
	append(out, "file", "/long link");
	append(out, "file", "/late");
	fclose(out);
	return text;
}

Test(meta_dump, golden_store_is_told_in_the_words_of_its_golden_file)
{
	char *text = all_of_it(), *want;
	struct stat st;
	FILE *f;

	if (stat(WORDS, &st) && getenv("WK_GOLDEN_MAKE")) {
		f = fopen(WORDS, "w");
		cr_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
	}
	cr_assert_eq(stat(WORDS, &st), 0, "%s", WORDS);
	want = calloc(1, (size_t)st.st_size + 1);
	f = fopen(WORDS, "r");
	cr_assert_eq(fread(want, 1, (size_t)st.st_size, f), (size_t)st.st_size);
	fclose(f);
	for (size_t i = 0; i <= (size_t)st.st_size; i++)
		cr_assert_eq(text[i], want[i], "from byte %zu on: '%.60s', not '%.60s'", i,
			     text + i, want + i);
	free(want);
	free(text);
}

Test(meta_dump, log_record_is_told_with_what_it_changed)
{
	struct meta_raw *r = look();
	bool found = false;

	for (uint32_t i = 0; i < r->log.blocks; i++) {
		char seq[24];
		char *text;

		(void)snprintf(seq, sizeof(seq), "%llu",
			       (unsigned long long)r->log.block[i].head.seq);
		text = dump("log", seq, 0);
		found |= line_with(text, "'late' is file", "name");
		free(text);
	}
	meta_raw_close(r);
	cr_assert(found, "no record makes the name 'late'");
}

Test(meta_dump, json_is_an_object_a_line_and_escapes_what_a_drive_says)
{
	int err;
	size_t bytes;
	char *text = raw_mem_dump(&mem, "file", "/link", true, &err);
	struct meta__table t = { .json = true };
	static const struct meta__column column[] = { { "a", 3 }, { "b", -1 }, { NULL, 0 } };

	cr_assert_eq(err, 0);
	cr_assert(line_with(text, "{\"what\":\"record\",\"record\":\"inode\"", "dir/f01"), "%s",
		  text);
	free(text);
	text = NULL;
	t.out = open_memstream(&text, &bytes);
	meta__table_begin(&t, "x", column);
	meta__cell(&t, 7);
	meta__cell_text(&t, "q\"\\\n");
	fclose(t.out);
	cr_assert_str_eq(text, "{\"what\":\"x\",\"a\":7,\"b\":\"q\\\"\\\\\\u000a\"}\n");
	free(text);
}

Test(meta_dump, what_is_not_there_is_an_error_and_no_words)
{
	char *text = dump("file", "/nobody", -ENOENT);

	free(text);
	free(dump("path", "/dir/f07/x", -ENOTDIR));
	free(dump("nothing", NULL, -EINVAL));
	free(dump("page", NULL, -EINVAL));
	free(dump("page", "0", -EINVAL));
	free(dump("page", "0:0", -ENOENT));
	free(dump("zone", "9999", -EINVAL));
	free(dump("roots", "4", -EINVAL));
	free(dump("log", "999999", -ENOENT));
	memset(drive[0], 0, DRIVE_BYTES);
	memset(drive[1], 0, DRIVE_BYTES);
	free(dump("roots", NULL, -ENODATA));
	text = dump("super", NULL, -EUCLEAN);
	cr_assert(line_with(text, "damaged", "no superblock"), "%s", text);
	free(text);
}

/* ---- with a byte changed ---------------------------------------------------------------- */

Test(meta_dump, changed_byte_of_a_superblock_is_named_by_its_field)
{
	drive[1][offsetof(struct meta_super_disk, secret)] ^= 1;
	cr_assert(names(dump("super", NULL, -EUCLEAN), "1:0", "secret"));
	cr_assert(names(dump("super", NULL, -EUCLEAN), "1:0", "superblock damaged"));
	cr_assert(
		names(dump("file", "/dir/f07", 0), "inode", "size 12288")); /* the rest is there */
}

Test(meta_dump, set_says_whether_it_converts_and_a_superblock_that_does_not_is_named)
{
	const uint32_t at = offsetof(struct meta_super_disk, converts);

	cr_assert(names(dump("set", NULL, 0), "COPIES", "CONVERTS"));
	cr_assert_eq(golden_image_load(CONVERTING, drive, 2, DRIVE_BYTES), 0);
	cr_assert(names(dump("set", NULL, 0), " 2  yes ", ""));
	drive[1][DRIVE_BYTES - 4096 + at] = 0;
	cr_assert(names(dump("super", NULL, -EUCLEAN), "damaged", "converts"));
}

Test(meta_dump, changed_byte_of_a_root_is_named_by_its_field)
{
	struct meta_raw *r = look();
	uint64_t root = meta__geo_root(&r->geo, 1, 0, 3);

	meta_raw_close(r);
	block_at(root)[offsetof(struct meta_root_disk, root_gen)] ^= 4;
	cr_assert(names(dump("roots", NULL, -EUCLEAN), "damaged", "root_gen"));
	cr_assert(names(dump("roots", "3", -EUCLEAN), place_of(root), "root_gen"));
	block_at(root)[offsetof(struct meta_root_disk, root_gen)] ^= 4;
	block_at(root)[4000] ^= 4;
	cr_assert(names(dump("roots", "3", -EUCLEAN), place_of(root), "byte 4000"));
}

Test(meta_dump, changed_byte_of_a_zone_header_is_named_by_its_field)
{
	struct meta_raw *r = look();
	uint64_t head = meta__geo_zone_head(&r->geo, 4, 1);

	meta_raw_close(r);
	block_at(head)[offsetof(struct meta_zone_disk, incarnation)] ^= 4;
	cr_assert(names(dump("zone", "4", -EUCLEAN), "damaged", "incarnation"));
	cr_assert(names(dump("zones", NULL, -EUCLEAN), place_of(head), "incarnation"));
}

Test(meta_dump, changed_byte_of_a_log_block_is_named_and_so_is_the_gap)
{
	struct meta_raw *r = look();
	uint64_t baddr[2];
	uint32_t n = 0;
	char *text;

	for (uint32_t i = 0; i < r->log.blocks; i++)
		if (r->log.block[i].head.seq == r->log.first && n < 2)
			baddr[n++] = meta__geo_zone_baddr(&r->geo, r->log.block[i].zone) +
				     r->log.block[i].at;
	meta_raw_close(r);
	cr_assert_eq(n, 2, "a copy on each drive");
	cr_assert_neq(META_BADDR_DRIVE(baddr[0]), META_BADDR_DRIVE(baddr[1]));
	block_at(baddr[0])[200] ^= 1;
	cr_assert(names(dump("log", NULL, -EUCLEAN), place_of(baddr[0]), "its checksum is wrong"));
	text = dump("log", NULL, -EUCLEAN);
	cr_assert_not(line_with(text, "", "damaged or missing"), "%s", text);
	free(text);
	block_at(baddr[1])[200] ^= 1;
	cr_assert(names(dump("log", NULL, -EUCLEAN), place_of(baddr[1]), "its checksum is wrong"));
	cr_assert(names(dump("log", NULL, -EUCLEAN), "0:", "damaged or missing"));
}

Test(meta_dump, changed_byte_of_a_page_is_named_and_its_records_are_called_unproven)
{
	struct meta__page_want leaf = a_leaf();
	char place[32];
	char *text;

	(void)snprintf(place, sizeof(place), "%s", place_of(leaf.baddr));
	block_at(leaf.baddr)[META_PAGE_BYTES - 1] ^= 1;
	text = dump("page", place, -EUCLEAN);
	cr_assert(line_with(text, place, "its checksum is wrong"), "%s", text);
	cr_assert(strstr(text, "RECORD"), "%s", text);
	free(text);
	block_at(leaf.baddr)[META_PAGE_BYTES - 1] ^= 1;
	block_at(leaf.baddr)[offsetof(struct meta_page_disk, heap_start)] ^= 1;
	text = dump("page", place, -EUCLEAN);
	cr_assert(line_with(text, place, "its checksum is wrong"), "%s", text);
	cr_assert_null(strstr(text, "RECORD"), "what does not hold together is not shown: %s",
		       text);
	free(text);
}

Test(meta_dump, changed_byte_of_a_file_is_named_by_block_and_place)
{
	struct meta__raw_path p;
	struct meta_raw *r = look();
	struct meta__extent x;
	struct meta_key key;
	struct meta__raw_way way;
	uint8_t value[META_VALUE_MAX];
	uint32_t len;
	uint64_t baddr;

	cr_assert_eq(meta__raw_log_over(r, false), 0);
	meta__raw_path_begin(&p, "/dir/f07");
	while (meta__raw_path_next(r, &p) == 1)
		;
	key = meta__obj_key(&p.name.handle, META__KIND_EXTENT, 0);
	cr_assert_eq(meta__raw_get(r, meta__dir_shard(&r->m, p.name.handle.dir), &key, value, &len,
				   &way),
		     0);
	cr_assert_eq(meta__extent_parse(value, len, &x), 0);
	baddr = meta__extent_run(&x, 0).baddr;
	meta_raw_close(r);
	block_at(baddr)[17] ^= 0x80;
	cr_assert(names(dump("file", "/dir/f07", -EUCLEAN), place_of(baddr),
			"does not match its checksum"));
	cr_assert(names(dump("file", "/dir/f06", 0), "whole", ""));
}

Test(meta_dump, path_through_a_damaged_page_ends_there_and_says_which)
{
	struct meta__raw_path p;
	struct meta_raw *r = look();
	struct meta__raw_way way;
	uint64_t baddr;

	cr_assert_eq(meta__raw_log_over(r, false), 0);
	meta__raw_path_begin(&p, "/dir/f07");
	while (meta__raw_path_next(r, &p) == 1)
		;
	cr_assert(meta__raw_go(r, p.shard, &p.key, 0, &way));
	baddr = way.step[way.steps - 1].page.baddr;
	meta_raw_close(r);
	block_at(baddr + 1)[0] ^= 1;
	cr_assert(names(dump("path", "/dir/f07", -EUCLEAN), place_of(baddr),
			"its checksum is wrong"));
}

Test(meta_dump, block_that_cannot_be_read_is_told_as_such)
{
	struct meta__page_want leaf = a_leaf();

	mem.lost_drive = META_BADDR_DRIVE(leaf.baddr);
	mem.lost_from = META_BADDR_BLOCK(leaf.baddr) + 2;
	mem.lost_to = mem.lost_from + 1;
	free(dump("page", place_of(leaf.baddr), -EIO));
	mem.lost_from = 0;
	mem.lost_to = 1;
	cr_assert(names(dump("super", NULL, -EUCLEAN), "cannot be read", "damaged"));
}
