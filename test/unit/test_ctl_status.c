/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* What an operator reads of an appliance: a page, and before it what wants attention. */
#define _GNU_SOURCE
#include "appliance/ctl_status_text.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static char *text;

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
	ctl_status_page(f, o, before, seconds);
	fclose(f);
	json_decref(o);
	json_decref(before);
}

static void has(const char *line)
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
		"drive 0   serving, 271 MB, 36 % of zones in use, 83.5 MB live; 41 C, 3 % worn; M, "
		"pci:0000:01:00.0, serial S\n");
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
	cr_assert_eq(strncmp(text, "! it takes no more changes", 26), 0, "%s", text);
	has("! only 49.0 kB are free\n");
	has("! the scrub found 3 damaged pages and blocks");
	has("! 4 damaged blocks keep their zones");
	has("! 7 writes came with a wrong checksum");
	has("! drive 3 is read_only\n! drive 3: it is slow\n! drive 3 warns of itself");
	has("! drive 3 may still write to 4.1 kB of memory");
	has("! drive 3: errors 1, resets 2\n");
	has("! drive 4 warns of itself");
	has("scrub     off\n");
	has("drive 3   draining, 0 bytes, 0 % of zones in use, 0 bytes live and to be moved;");
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

/* Of an older or a newer appliance, or one that lies: a page all the same. */
Test(ctl_status, what_is_missing_or_strange_is_nothing)
{
	page("{}", NULL, 0);
	cr_assert_null(strchr(text, '!'), "%s", text);
	free(text);
	page("{\"store\":[],\"drives\":{\"a\":1},\"cores\":\"x\",\"fabric\":{\"requests\":-1},"
	     "\"errors\":\"y\"}",
	     "[]", 1);
	has("served    0 requests in 0 sessions");
	free(text);
	page("{\"drives\":[7,{\"model\":\"a\\u001b[31mb\",\"state\":5}]}", NULL, 0);
	has("a?[31mb");
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
