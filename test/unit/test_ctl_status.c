/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The status page for operators, which begins with the problems. */
#define _GNU_SOURCE
#include "appliance/ctl/ctl_fold.h"
#include "appliance/ctl/ctl_status_text.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static char *text;
static uint32_t rows;

static void unmake(void)
{
	free(text);
}

TestSuite(ctl_status, .fini = unmake);

static json_t *parse(const char *json)
{
	json_error_t why;
	json_t *o = json_loads(json, 0, &why);

	cr_assert_not_null(o, "%s", why.text);
	return o;
}

static void page(const char *json, const char *json_before, double seconds)
{
	json_t *o = parse(json), *before = json_before ? parse(json_before) : NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	cr_assert_not_null(f);
	ctl_status_page(f, o, before, seconds, 1000, rows);
	fclose(f);
	json_decref(o);
	json_decref(before);
}

static void expect_shown(const char *line)
{
	cr_assert(strstr(text, line), "%s is not in\n%s", line, text);
}

#define WELL                                                                                       \
	"{\"errors\":3,\"bytes\":{\"read\":34100000000,\"written\":999,\"drive_read\":2000000},"   \
	"\"core\":{\"uptime_ns\":11520000000000},\"cores\":[{},{}],"                               \
	"\"store\":{\"health\":0,\"total_bytes\":1000000000,\"free_bytes\":610000000,"             \
	"\"files\":8121,\"dirs\":168,\"opens\":2,\"cache_pages\":16384,\"page_reads\":1,"          \
	"\"page_hits\":999,\"data_blocks\":100,\"page_blocks\":10,\"log_blocks\":5,"               \
	"\"moved_blocks\":35},\"scrub\":{\"bytes_per_second\":16777216,\"rounds\":2,"              \
	"\"position_percent\":45},\"fabric\":{\"requests\":1000,\"sessions\":12,"                  \
	"\"sessions_open\":3},\"memory\":{\"at_most_bytes\":5300000000},\"drives\":["              \
	"{\"number\":0,\"name\":\"pci:0000:01:00.0\",\"state\":\"serving\",\"zones\":100,"         \
	"\"zones_used\":36,\"live_bytes\":83484672,\"model\":\"M\",\"serial\":\"S\","              \
	"\"note\":\"\",\"health\":\"good\",\"celsius\":41,\"used_percent\":3,"                     \
	"\"bytes\":270532608}]}"

Test(ctl_status, a_page_of_one_that_is_well)
{
	page(WELL, NULL, 0);
	cr_assert_str_eq(
		text,
		"up        3 h 12 min, 2 polling cores\n"
		"store     8121 files, 168 directories; 610 MB of 1.0 GB free (61 %); 2 files are "
		"open\n"
		"served    1000 requests in 12 sessions, 3 of them open: 34.1 GB read, 999 bytes "
		"written; 3 with an error\n"
		"flash     614 kB written in all, 1.50 for each byte of files; 0 zones collected\n"
		"index     cache of 268 MB, 99.9 % found there; 0 bytes of it to be written\n"
		"scrub     round 3, 45 %, at 16.8 MB/s\n"
		"memory    5.3 GB at most: cache 0 bytes, staging 0 bytes, clients 0 bytes\n"
		"drive state        size zones     live  temp worn  name\n"
		"0     serving    271 MB   36%  83.5 MB  41 C   3%  pci:0000:01:00.0\n");
}

Test(ctl_status, rates_are_of_what_came_since)
{
	page(WELL,
	     "{\"fabric\":{\"requests\":500},\"bytes\":{\"read\":33100000000,\"written\":1000}}",
	     2);
	cr_assert(strstr(text, "now       250 requests/s: 500 MB/s read, 0 bytes/s written; of "
			       "the drives 1.0 MB/s read, 0 bytes/s written\n"),
		  "%s", text);
}

Test(ctl_status, what_wants_attention_comes_first)
{
	page("{\"bad_sums\":7,\"store\":{\"health\":-5,\"total_bytes\":1000000,"
	     "\"free_bytes\":49000,\"unmovable_blocks\":4},"
	     "\"scrub\":{\"bad_pages\":1,\"bad_blocks\":2},\"drives\":["
	     "{\"number\":3,\"health\":\"read_only\",\"note\":\"it is slow\",\"errors\":1,"
	     "\"resets\":2,\"quarantined_bytes\":4096,\"warnings\":1,\"state\":\"draining\"},"
	     "{\"number\":4,\"health\":\"good\",\"spare_percent\":9,"
	     "\"spare_least_percent\":10}]}",
	     NULL, 0);
	cr_assert_eq(strncmp(text, "! the store takes no changes", 28), 0, "%s", text);
	expect_shown("! only 49.0 kB are free\n");
	expect_shown("! the scrub found 3 damaged pages and blocks");
	expect_shown("! 4 damaged blocks keep their zones");
	expect_shown("! 7 writes came with a wrong checksum");
	expect_shown("! drive 3 is read_only\n! drive 3: it is slow\n! drive 3 reports a health "
		     "warning");
	expect_shown("! drive 3 may still write to 4.1 kB of memory");
	expect_shown("! drive 3: errors 1, resets 2\n");
	expect_shown("! drive 4 reports a health warning");
	expect_shown("scrub     off\n");
	expect_shown("3     draining      0 B    0%      0 B     -    -  -\n");
}

Test(ctl_status, drives_that_were_read_around_are_named)
{
	page("{\"drives\":[{\"number\":0,\"hedged_reads\":0},"
	     "{\"number\":1,\"hedged_reads\":7,\"hedged_reads_won\":5},"
	     "{\"number\":3,\"hedged_reads\":12,\"hedged_reads_won\":12}]}",
	     NULL, 0);
	expect_shown("\nhedged    drive 1: 7 late reads, 5 answered from another copy; "
		     "drive 3: 12 late reads, 12 answered from another copy\nmemory ");
}

Test(ctl_status, drive_that_allow_missing_lets_be_is_told_of_once)
{
	page("{\"store\":{\"health\":-30,\"missing_drive\":1,\"orphans\":64},\"drives\":["
	     "{\"number\":0,\"state\":\"serving\",\"health\":\"good\"},"
	     "{\"number\":1,\"name\":\"file:/d1\",\"state\":\"missing\",\"zones\":10,"
	     "\"health\":\"missing\",\"bytes\":4096000}]}",
	     NULL, 0);
	cr_assert_eq(strncmp(text, "! read only, drive 1 missing: ", 30), 0, "%s", text);
	expect_shown("remove allow_missing from the configuration");
	expect_shown("1     missing    4.1 MB    0%      0 B     -    -  file:/d1\n");
	cr_assert_null(strstr(text + 2, "\n! "), "%s", text);
	cr_assert_null(strstr(text, "still to be freed"), "nothing is now: %s", text);
}

Test(ctl_status, log_on_one_drive_of_two_wants_attention)
{
	static const char *const drives[] = { "{\"state\":\"serving\"}",
					      "{\"state\":\"serving\"},"
					      "{\"state\":\"draining\"}",
					      "{\"state\":\"serving\"},{\"state\":\"serving\"}" };
	char json[160];

	for (int copies = 1; copies <= 2; copies++)
		for (int i = 0; i < 3; i++) {
			snprintf(json, sizeof(json),
				 "{\"store\":{\"log_copies\":%d},\"drives\":[%s]}", copies,
				 drives[i]);
			page(json, NULL, 0);
			cr_assert_eq(!!strstr(text, "! the log is on one drive only"),
				     copies == 1 && i == 2, "%s: %s", json, text);
			free(text);
			text = NULL;
		}
}

Test(ctl_status, drive_that_fails_is_in_the_headline_and_serves_no_more)
{
	page("{\"drives\":[{\"number\":0,\"health\":\"good\",\"state\":\"serving\"},"
	     "{\"number\":1,\"health\":\"failed\",\"failing\":\"reads\",\"state\":\"serving\"},"
	     "{\"number\":2,\"health\":\"dead\",\"state\":\"serving\"},"
	     "{\"number\":3,\"health\":\"failed\",\"failing\":\"writes\",\"state\":\"serving\"},"
	     "{\"number\":4,\"health\":\"resetting\",\"state\":\"serving\"}]}",
	     NULL, 0);
	cr_assert_eq(strncmp(text,
			     "! serving, degraded: drive 1 is failed, drive 2 is dead, drive 3 is "
			     "failed\n",
			     75),
		     0, "%s", text);
	expect_shown("! drive 1 has failed, nothing can be read: check power");
	expect_shown("! drive 2 is dead\n");
	expect_shown("! drive 3 has failed, it refuses all writes");
	expect_shown("\n0     serving ");
	expect_shown("\n1     failed ");
	expect_shown("\n2     dead ");
	expect_shown("\n4     serving ");
}

#define REBUILD(what, state, more)                                                                 \
	"{\"rebuild\":{\"what\":\"" what "\",\"drive\":2,\"state\":\"" state                       \
	"\",\"left_bytes\":8900000000,\"done_bytes\":3100000000" more "}}"

Test(ctl_status, rebuild_says_what_is_left_and_when_it_ends)
{
	page(REBUILD("lost", "moving", ""), NULL, 0);
	expect_shown("! drive 2: its blocks are read from other drives; 8.9 GB have one "
		     "copy only, and are being copied to the other drives\n");
	expect_shown("rebuild   drive 2: 3.1 GB moved, 8.9 GB left\n");
	free(text);
	page(REBUILD("drain", "moving", ",\"bytes_per_second\":210000000,\"seconds_left\":42"),
	     NULL, 0);
	cr_assert_null(strchr(text, '!'), "%s", text);
	expect_shown(
		"drain     drive 2: 3.1 GB moved, 8.9 GB left; 210 MB/s, about 42 s to its end\n");
}

Test(ctl_status, rebuild_that_cannot_go_on_says_what_to_do)
{
	page(REBUILD("lost", "no_room", ",\"missing_bytes\":1200000000"), NULL, 0);
	expect_shown("8.9 GB have one copy only\n");
	expect_shown("! the rebuild cannot go on: the other drives have no room for 1.2 GB: add a "
		     "drive (wekactl drives add), or remove files\n");
	free(text);
	page(REBUILD("lost", "no_drive", ""), NULL, 0);
	expect_shown("! files have one copy, because only one drive can be written: add a drive");
	free(text);
	page("{\"store\":{\"copies\":3},\"drives\":[{\"state\":\"serving\"},{\"state\":"
	     "\"serving\"}],\"rebuild\":{\"what\":\"copies\",\"state\":\"no_drive\"}}",
	     NULL, 0);
	expect_shown(
		"! files have two copies, because only two drives can be written: add a drive");
	free(text);
	page(REBUILD("drain", "damaged", ",\"unreadable_bytes\":4096"), NULL, 0);
	expect_shown("! 4.1 kB of drive 2 cannot be read, and keep it in the store: remove");
	free(text);
	page(REBUILD("drain", "not_written", ""), NULL, 0);
	expect_shown("! drive 2 is empty, and cannot be taken out");
	free(text);
	page(REBUILD("copies", "not_written", ""), NULL, 0);
	expect_shown("! all blocks have two copies, but a superblock could not be written: see");
	free(text);
	page(REBUILD("copies", "stalled", ""), NULL, 0);
	expect_shown("! the rebuild has moved nothing for some time");
}

/* An older, a newer or a lying appliance gets a page, too. */
Test(ctl_status, what_is_missing_or_strange_is_nothing)
{
	page("{}", NULL, 0);
	cr_assert_null(strchr(text, '!'), "%s", text);
	free(text);
	page("{\"store\":[],\"drives\":{\"a\":1},\"cores\":\"x\",\"fabric\":{\"requests\":-1},"
	     "\"errors\":\"y\"}",
	     "[]", 1);
	expect_shown("served    0 requests in 0 sessions");
	free(text);
	page("{\"drives\":[7,{\"model\":\"a\\u001b[31mb\",\"state\":5}]}", NULL, 0);
	expect_shown("a?[31mb");
}

/* As a terminal shows it: 80 columns, 24 rows. */
static void screen(const json_t *o, uint32_t most)
{
	size_t size;
	FILE *f = open_memstream(&text, &size);

	cr_assert_not_null(f);
	ctl_status_page(f, o, o, 1, CTL_STATUS_COLUMNS, most);
	fclose(f);
}

static json_t *twelve_drives(void)
{
	static const char drive[] =
		"{\"number\":11,\"state\":\"draining\",\"bytes\":7681501126656,\"zones\":10,"
		"\"zones_used\":10,\"live_bytes\":999900000000,\"celsius\":101,"
		"\"used_percent\":100,\"errors\":18446744073709,\"timeouts\":123456789,"
		"\"aborts\":123456789,\"queue_restarts\":123456789,\"resets\":123456789,"
		"\"media_errors\":123456789,\"note\":\"a long note of the driver about what this "
		"drive cannot do, and why that matters\","
		"\"name\":\"vfio-user:/a/very/long/path/to/a/socket/of/a/server-11/cntrl\"}";
	json_t *o = parse(WELL), *drives = json_array();

	for (int i = 0; i < 12; i++)
		json_array_append_new(drives, parse(drive));
	json_object_set_new(o, "drives", drives);
	json_object_set_new(o, "bad_sums", json_integer(1));
	json_object_set_new(o, "busy", json_integer(INT64_MAX));
	return o;
}

Test(ctl_status, twelve_drives_fit_into_eighty_columns)
{
	json_t *o = twelve_drives();
	uint32_t rows_seen = 0;

	screen(o, 0);
	for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
		cr_expect_leq(strcspn(line, "\n"), 80, "%.*s", (int)strcspn(line, "\n"), line);
		rows_seen++;
	}
	cr_expect_gt(rows_seen, 24);
	expect_shown("101 C");
	expect_shown("  ...ocket/of/a/server-11/cntrl\n");
	json_decref(o);
}

Test(ctl_status, what_wants_attention_stays_on_a_screen_that_is_too_small)
{
	json_t *o = twelve_drives();
	uint32_t rows_seen = 0;

	screen(o, 23);
	for (const char *c = text; *c; c++)
		rows_seen += *c == '\n';
	cr_expect_eq(rows_seen, 23, "%s", text);
	cr_expect_eq(strncmp(text, "! 1 writes came with a wrong", 28), 0, "%s", text);
	expect_shown(" more lines: a taller window shows them)\n");
	free(text);
	text = NULL;
	json_object_set_new(o, "drives", json_array());
	screen(o, 23);
	cr_expect_null(strstr(text, "taller window"), "%s", text);
	json_decref(o);
}

Test(ctl_status, a_line_without_blanks_is_cut_at_the_edge)
{
	size_t size;
	FILE *f = open_memstream(&text, &size);

	ctl_fold(f, "! aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n\nb\n", 40, 0);
	fclose(f);
	cr_expect_str_eq(text,
			 "!\n  aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n  aaaaaaaaaaaaaaaa\n\nb\n");
}

Test(ctl_status, all_of_it_is_a_line_a_group)
{
	json_t *o = parse(
		"{\"a\":{\"x\":1,\"y\":\"z\\u001b[2J\"},\"b\":true,\"c\":[{\"d\":2},{\"d\":3}]}");
	size_t size;
	FILE *f = open_memstream(&text, &size);

	cr_assert_not_null(f);
	ctl_status_all(f, o);
	fclose(f);
	json_decref(o);
	cr_assert_str_eq(text, "a            x 1, y z?[2J\n"
			       "b            yes\n"
			       "c          0 d 2\n"
			       "c          1 d 3\n");
}

static uint64_t may_lose(const char *store, const char *drives)
{
	char json[256];
	uint64_t may;
	json_t *o;

	(void)snprintf(json, sizeof(json), "{\"store\":{%s},\"drives\":[%s]}", store, drives);
	o = parse(json);
	may = ctl_may_lose(o);
	json_decref(o);
	return may;
}

#define COPIES(n, log) "\"copies\":" #n ",\"log_copies\":" #log
#define IS_LOST        "{\"state\":\"lost\"}"

Test(ctl_status, as_many_drives_may_be_lost_as_leave_a_copy_of_each_block_and_of_the_log)
{
	cr_assert_eq(may_lose(COPIES(1, 1), ""), 0);
	cr_assert_eq(may_lose(COPIES(2, 2), ""), 1);
	cr_assert_eq(may_lose(COPIES(2, 1), ""), 0);
	cr_assert_eq(may_lose(COPIES(2, 2) ",\"converts\":true", ""), 0);
	cr_assert_eq(may_lose(COPIES(3, 3) ",\"converts\":true,\"sure_copies\":1", ""), 0);
	cr_assert_eq(may_lose(COPIES(3, 3) ",\"converts\":true,\"sure_copies\":2", ""), 1);
	cr_assert_eq(may_lose(COPIES(3, 3) ",\"converts\":true,\"sure_copies\":2", IS_LOST), 0);
	cr_assert_eq(may_lose(COPIES(2, 2), IS_LOST), 0);
	cr_assert_eq(may_lose(COPIES(3, 3), ""), 2);
	cr_assert_eq(may_lose(COPIES(3, 2), ""), 1);
	cr_assert_eq(may_lose(COPIES(3, 3), IS_LOST), 1);
	cr_assert_eq(may_lose(COPIES(3, 3), IS_LOST "," IS_LOST), 0);
	cr_assert_eq(may_lose(COPIES(3, 3) ",\"one_copy_bytes\":4096", ""), 0);
	cr_assert_eq(may_lose("\"copies\":3", ""), 2,
		     "an older appliance does not count the log's");
}

/* One drive may be lost in all: not one more, if one is. */
Test(ctl_status, store_that_converts_says_what_else_may_be_lost)
{
	static const char *const drives[] = { "", IS_LOST, "" }, *const log[] = { "3", "3", "1" };
	static const char *const says[] = { "three only one drive may", "three no other drive may",
					    "three no drive may" };

	for (uint32_t i = 0; i < 3; i++) {
		char json[256];
		size_t size;
		json_t *o;
		FILE *f;

		(void)snprintf(json, sizeof(json),
			       "{\"store\":{\"copies\":3,\"log_copies\":%s,\"converts\":true,"
			       "\"sure_copies\":2,\"one_copy_bytes\":4096},\"drives\":[%s]}",
			       log[i], drives[i]);
		o = parse(json);
		f = open_memstream(&text, &size);
		cr_assert_not_null(f);
		ctl_say_converts(f, o, "! ");
		fclose(f);
		json_decref(o);
		expect_shown(says[i]);
		if (i < 2)
			unmake();
	}
}
