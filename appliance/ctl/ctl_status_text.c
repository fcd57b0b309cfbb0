/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl status: the appliance's counters, in words and lines. */
#include "appliance/ctl/ctl_status_text.h"
#include "appliance/ctl/ctl_fold.h"
#include "base/assert.h"
#include "base/num.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers and words of it -------------------------------------------------------------- */

/* Returns a number of a flat object, or of an object in it: group.key. */
static uint64_t num(const json_t *o, const char *group, const char *key)
{
	const json_t *v = json_object_get(group ? json_object_get(o, group) : o, key);
	const json_int_t n = json_is_integer(v) ? json_integer_value(v) : 0;

	return n > 0 ? (uint64_t)n : 0;
}

struct text {
	char s[96];
};

/* A peer's word, on a terminal. */
static char shown(char c)
{
	return isprint((unsigned char)c) ? c : '?';
}

static void print_shown(FILE *to, const char *s)
{
	while (*s)
		fputc(shown(*s++), to);
}

static struct text shown_text(const char *from)
{
	struct text t = { "" };

	for (size_t i = 0; from && from[i] && i + 1 < sizeof(t.s); i++)
		t.s[i] = shown(from[i]);
	return t;
}

static struct text word(const json_t *o, const char *key)
{
	return shown_text(json_string_value(json_object_get(o, key)));
}

/* Three digits are as many as anybody reads. */
static struct text bytes_of(double v)
{
	static const char *const unit[] = { "bytes", "kB", "MB", "GB", "TB", "PB", "EB" };
	struct text t;
	uint32_t i = 0;

	for (; v >= 999.5 && i + 1 < ARRAY_LEN(unit); i++)
		v /= 1000;
	snprintf(t.s, sizeof(t.s), "%.*f %s", i == 0 || v >= 99.95 ? 0 : 1, v, unit[i]);
	return t;
}

static struct text time_of(uint64_t seconds)
{
	const unsigned long long s = seconds;
	struct text t;

	if (s < 60)
		snprintf(t.s, sizeof(t.s), "%llu s", s);
	else if (s < 3600)
		snprintf(t.s, sizeof(t.s), "%llu min %llu s", s / 60, s % 60);
	else if (s < 86400)
		snprintf(t.s, sizeof(t.s), "%llu h %llu min", s / 3600, s / 60 % 60);
	else
		snprintf(t.s, sizeof(t.s), "%llu d %llu h", s / 86400, s / 3600 % 24);
	return t;
}

static unsigned percent(uint64_t part, uint64_t whole)
{
	return whole ? (unsigned)(100.0 * (double)part / (double)whole) : 0;
}

/* ---- what wants attention ------------------------------------------------------------------- */

static bool is_serving(const json_t *d)
{
	return strcmp(word(d, "state").s, "serving") == 0;
}

static bool has_two_drives(const json_t *s)
{
	const json_t *d;
	unsigned serving = 0;
	size_t i;

	json_array_foreach(json_object_get(s, "drives"), i, d) serving += is_serving(d);
	return serving > 1;
}

static bool is_missing(const json_t *d)
{
	return strcmp(word(d, "state").s, "missing") == 0;
}

static bool is_well(const json_t *d)
{
	const struct text health = word(d, "health");

	return !*health.s || strcmp(health.s, "good") == 0 || strcmp(health.s, "resetting") == 0;
}

/* Prints the drives that are not well, if there are any. */
static void headline(FILE *to, const json_t *s)
{
	const char *between = "! serving, degraded: ";
	bool degraded = false;
	const json_t *d;
	size_t i;

	json_array_foreach(json_object_get(s, "drives"), i, d)
	{
		if (is_well(d) || is_missing(d))
			continue;
		fprintf(to, "%sdrive %u is %s", between, (unsigned)num(d, NULL, "number"),
			word(d, "health").s);
		between = ", ";
		degraded = true;
	}
	if (degraded)
		fprintf(to, "\n");
}

static bool takes_no_changes(const json_t *s)
{
	const json_t *health = json_object_get(json_object_get(s, "store"), "health");

	return json_is_integer(health) && json_integer_value(health) != 0;
}

static void of_store(FILE *to, const json_t *s)
{
	const uint64_t all = num(s, "store", "total_bytes"), left = num(s, "store", "free_bytes");
	const uint64_t bad = num(s, "scrub", "bad_pages") + num(s, "scrub", "bad_blocks");
	const uint64_t files = num(s, "damage", "files"),
		       far = num(s, "damage", "unreachable_files");
	const json_t *missing = json_object_get(json_object_get(s, "store"), "missing_drive");

	if (json_is_integer(missing))
		fprintf(to,
			"! read only, drive %u missing: files on it are answered with "
			"Input/output error; put it back, remove allow_missing from the "
			"configuration, and start again\n",
			(unsigned)json_integer_value(missing));
	else if (takes_no_changes(s))
		fprintf(to,
			"! the store takes no changes, because its drives could not be written: "
			"see the\n  daemon's log; it continues by itself when they can\n");
	headline(to, s);
	if (num(s, "store", "log_copies") == 1 && has_two_drives(s))
		fprintf(to,
			"! the log is on one drive only: a drive is dead, there was no room for "
			"a second copy, or nothing was changed since a drive was added\n");
	if (all && left < all / 20)
		fprintf(to, "! only %s are free\n", bytes_of((double)left).s);
	if (bad)
		fprintf(to,
			"! the scrub found %llu damaged pages and blocks: see wekactl damaged\n",
			(unsigned long long)bad);
	if (files)
		fprintf(to, "! %llu files are damaged: wekactl damaged lists them\n",
			(unsigned long long)files);
	if (far)
		fprintf(to,
			"! %llu files lie on drives that have failed: wekactl damaged lists them\n",
			(unsigned long long)far);
	if (num(s, "store", "unmovable_blocks"))
		fprintf(to,
			"! %llu damaged blocks keep their zones from being collected: remove or "
			"replace the files that wekactl damaged lists\n",
			(unsigned long long)num(s, "store", "unmovable_blocks"));
	if (num(s, NULL, "bad_sums"))
		fprintf(to, "! %llu writes came with a wrong checksum, and were refused\n",
			(unsigned long long)num(s, NULL, "bad_sums"));
}

/* Prints a line about a drive that is not well, and what to do. */
static void of_health(FILE *to, const json_t *d)
{
	const struct text failing = word(d, "failing");
	const unsigned number = (unsigned)num(d, NULL, "number");

	if (strcmp(failing.s, "reads") == 0)
		fprintf(to, "! drive %u has failed, nothing can be read: %s\n", number,
			"check power, cabling and slot");
	else if (*failing.s)
		fprintf(to, "! drive %u has failed, it refuses all writes: %s\n", number,
			"check its space and health");
	else
		fprintf(to, "! drive %u is %s\n", number, word(d, "health").s);
}

static void of_drive(FILE *to, const json_t *d)
{
	static const char *const trouble[] = { "errors",         "timeouts", "aborts",
					       "queue_restarts", "resets",   "media_errors" };
	const unsigned number = (unsigned)num(d, NULL, "number");
	const struct text health = word(d, "health"), note = word(d, "note");
	const char *between = ": ";
	bool any = false;

	for (size_t i = 0; i < ARRAY_LEN(trouble); i++)
		any |= num(d, NULL, trouble[i]) > 0;
	if (*health.s && strcmp(health.s, "good") != 0 && !is_missing(d))
		of_health(to, d);
	if (*note.s)
		fprintf(to, "! drive %u: %s\n", number, note.s);
	if (num(d, NULL, "warnings") ||
	    num(d, NULL, "spare_percent") < num(d, NULL, "spare_least_percent"))
		fprintf(to, "! drive %u reports a health warning: see wekactl drives\n", number);
	if (num(d, NULL, "quarantined_bytes"))
		fprintf(to, "! drive %u may still write to %s of memory, which is quarantined\n",
			number, bytes_of((double)num(d, NULL, "quarantined_bytes")).s);
	if (!any)
		return;
	fprintf(to, "! drive %u", number);
	for (size_t i = 0; i < ARRAY_LEN(trouble); i++)
		if (num(d, NULL, trouble[i])) {
			fprintf(to, "%s%s %llu", between, trouble[i],
				(unsigned long long)num(d, NULL, trouble[i]));
			between = ", ";
		}
	fprintf(to, "\n");
}

/* ---- the page ------------------------------------------------------------------------------- */

static void line_of_store(FILE *to, const json_t *s)
{
	const uint64_t all = num(s, "store", "total_bytes"), left = num(s, "store", "free_bytes");

	fprintf(to, "store     %llu files, %llu directories; %s of %s free (%u %%)",
		(unsigned long long)num(s, "store", "files"),
		(unsigned long long)num(s, "store", "dirs"), bytes_of((double)left).s,
		bytes_of((double)all).s, percent(left, all));
	if (num(s, "store", "opens"))
		fprintf(to, "; %llu files are open", (unsigned long long)num(s, "store", "opens"));
	fprintf(to, "\n");
	if (num(s, "store", "orphans") && !takes_no_changes(s))
		fprintf(to, "          still to be freed: %llu files and trees that were removed\n",
			(unsigned long long)num(s, "store", "orphans"));
}

static void line_of_requests(FILE *to, const json_t *s)
{
	fprintf(to, "served    %llu requests in %llu sessions, %llu of them open: %s read, ",
		(unsigned long long)num(s, "fabric", "requests"),
		(unsigned long long)num(s, "fabric", "sessions"),
		(unsigned long long)num(s, "fabric", "sessions_open"),
		bytes_of((double)num(s, "bytes", "read")).s);
	fprintf(to, "%s written", bytes_of((double)num(s, "bytes", "written")).s);
	if (num(s, NULL, "errors"))
		fprintf(to, "; %llu with an error", (unsigned long long)num(s, NULL, "errors"));
	if (num(s, NULL, "not_found"))
		fprintf(to, "; %llu found nothing", (unsigned long long)num(s, NULL, "not_found"));
	if (num(s, NULL, "busy"))
		fprintf(to, "; %llu were told to wait", (unsigned long long)num(s, NULL, "busy"));
	if (num(s, "fabric", "refused"))
		fprintf(to, "; %llu connections refused",
			(unsigned long long)num(s, "fabric", "refused"));
	fprintf(to, "\n");
}

static double rate(const json_t *now, const json_t *before, const char *group, const char *key,
		   double seconds)
{
	const uint64_t to = num(now, group, key), from = num(before, group, key);

	return to > from ? (double)(to - from) / seconds : 0; /* it may have been restarted */
}

static void line_of_rates(FILE *to, const json_t *s, const json_t *b, double seconds)
{
	fprintf(to, "now       %.0f requests/s: %s/s read, ",
		rate(s, b, "fabric", "requests", seconds),
		bytes_of(rate(s, b, "bytes", "read", seconds)).s);
	fprintf(to, "%s/s written; of the drives ",
		bytes_of(rate(s, b, "bytes", "written", seconds)).s);
	fprintf(to, "%s/s read, ", bytes_of(rate(s, b, "bytes", "drive_read", seconds)).s);
	fprintf(to, "%s/s written\n", bytes_of(rate(s, b, "bytes", "drive_written", seconds)).s);
}

/* Writes the bytes written to flash for each byte of files. */
static void line_of_flash(FILE *to, const json_t *s)
{
	const double data = (double)num(s, "store", "data_blocks");
	const double all =
		data + (double)(num(s, "store", "page_blocks") + num(s, "store", "log_blocks") +
				num(s, "store", "moved_blocks"));

	fprintf(to, "flash     %s written in all", bytes_of(4096 * all).s);
	if (data > 0)
		fprintf(to, ", %.2f for each byte of files", all / data);
	fprintf(to, "; %llu zones collected\n",
		(unsigned long long)num(s, "store", "zones_collected"));
}

static void line_of_index(FILE *to, const json_t *s)
{
	const uint64_t hits = num(s, "store", "page_hits"), reads = num(s, "store", "page_reads");

	fprintf(to, "index     cache of %s",
		bytes_of(16384.0 * (double)num(s, "store", "cache_pages")).s);
	if (hits + reads)
		fprintf(to, ", %.1f %% found there", 100.0 * (double)hits / (double)(hits + reads));
	fprintf(to, "; %s of it to be written\n",
		bytes_of(16384.0 * (double)num(s, "store", "cache_pages_dirty")).s);
}

static void line_of_scrub(FILE *to, const json_t *s)
{
	const uint64_t speed = num(s, "scrub", "bytes_per_second");

	if (!speed) {
		fprintf(to, "scrub     off\n");
		return;
	}
	fprintf(to, "scrub     round %llu, %llu %%, at %s/s\n",
		(unsigned long long)num(s, "scrub", "rounds") + 1,
		(unsigned long long)num(s, "scrub", "position_percent"), bytes_of((double)speed).s);
}

static void line_of_memory(FILE *to, const json_t *s)
{
	fprintf(to,
		"memory    %s at most: ", bytes_of((double)num(s, "memory", "at_most_bytes")).s);
	fprintf(to, "cache %s, ", bytes_of((double)num(s, "memory", "cache_bytes")).s);
	fprintf(to, "staging %s, ", bytes_of((double)num(s, "memory", "staging_bytes")).s);
	fprintf(to, "clients %s\n",
		bytes_of((double)(num(s, "memory", "sessions_bytes") +
				  num(s, "memory", "pools_bytes")))
			.s);
}

/* A size in a table: "271 MB", "0 B". */
static struct text short_bytes_of(double v)
{
	struct text t = bytes_of(v);
	char *unit = strstr(t.s, " bytes");

	if (unit)
		memcpy(unit, " B", sizeof(" B"));
	return t;
}

#define NAME_WIDTH 29

/* The end of a long name tells drives apart. */
static void print_name(FILE *to, const json_t *d)
{
	const char *name = json_string_value(json_object_get(d, "name"));
	size_t bytes;

	if (!name || !*name)
		name = json_string_value(json_object_get(d, "model"));
	bytes = name ? strlen(name) : 0;
	if (bytes > NAME_WIDTH) {
		fprintf(to, "...");
		name += bytes - (NAME_WIDTH - 3);
	}
	print_shown(to, name ? name : "-");
}

/* "41 C", or "-" where the drive says nothing. */
static struct text reading(const json_t *d, const char *key, const char *unit)
{
	const json_t *v = json_object_get(d, key);
	struct text t = { "-" };

	if (json_is_integer(v))
		snprintf(t.s, sizeof(t.s), "%lld%s", (long long)json_integer_value(v), unit);
	return t;
}

static void row_of_drive(FILE *to, const json_t *d)
{
	fprintf(to, "%-5u %-9.9s ", (unsigned)num(d, NULL, "number"),
		word(d, is_well(d) || !is_serving(d) ? "state" : "health").s);
	fprintf(to, "%7s ", short_bytes_of((double)num(d, NULL, "bytes")).s);
	fprintf(to, "%4u%% ", percent(num(d, NULL, "zones_used"), num(d, NULL, "zones")));
	fprintf(to, "%8s ", short_bytes_of((double)num(d, NULL, "live_bytes")).s);
	fprintf(to, "%5s %4s  ", reading(d, "celsius", " C").s, reading(d, "used_percent", "%").s);
	print_name(to, d);
	fprintf(to, "\n");
}

static void table_of_drives(FILE *to, const json_t *drives)
{
	const json_t *d;
	size_t i;

	if (json_is_array(drives) && json_array_size(drives) > 0)
		fprintf(to, "%-5s %-9s %7s %5s %8s %5s %4s  %s\n", "drive", "state", "size",
			"zones", "live", "temp", "worn", "name");
	json_array_foreach(drives, i, d) row_of_drive(to, d);
}

static void print_page(FILE *to, const json_t *status, const json_t *before, double seconds)
{
	const json_t *drives = json_object_get(status, "drives"), *d;
	const size_t cores = json_array_size(json_object_get(status, "cores"));
	size_t i;

	of_store(to, status);
	json_array_foreach(drives, i, d) of_drive(to, d);
	fprintf(to, "up        %s, %zu polling core%s\n",
		time_of(num(status, "core", "uptime_ns") / 1000000000).s, cores,
		cores == 1 ? "" : "s");
	line_of_store(to, status);
	line_of_requests(to, status);
	if (before)
		line_of_rates(to, status, before, seconds);
	line_of_flash(to, status);
	line_of_index(to, status);
	line_of_scrub(to, status);
	line_of_memory(to, status);
	table_of_drives(to, drives);
}

void ctl_status_page(FILE *to, const json_t *status, const json_t *before, double seconds,
		     uint32_t columns, uint32_t rows)
{
	size_t size;
	char *text;
	FILE *f = open_memstream(&text, &size);

	ASSERT(f);
	print_page(f, status, before, seconds);
	if (fclose(f))
		UNREACHABLE();
	ctl_fold(to, text, columns, rows);
	free(text);
}

/* ---- all of it ------------------------------------------------------------------------------ */

static void print_value(FILE *to, const json_t *v)
{
	if (json_is_integer(v))
		fprintf(to, "%lld", (long long)json_integer_value(v));
	else if (json_is_real(v))
		fprintf(to, "%.3f", json_real_value(v));
	else if (json_is_string(v))
		print_shown(to, json_string_value(v));
	else
		fprintf(to, "%s", json_is_true(v) ? "yes" : json_is_false(v) ? "no" : "-");
}

/* name value, name value, ... of one flat object, on one line. */
static void print_flat(FILE *to, json_t *o)
{
	const char *key, *between = "";
	json_t *v;

	json_object_foreach(o, key, v)
	{
		fprintf(to, "%s", between);
		print_shown(to, key);
		fputc(' ', to);
		print_value(to, v);
		between = ", ";
	}
	fprintf(to, "\n");
}

static void print_section(FILE *to, const char *key, json_t *v)
{
	size_t i;
	json_t *item;

	if (json_is_object(v)) {
		fprintf(to, "%-12s ", shown_text(key).s);
		print_flat(to, v);
		return;
	}
	if (!json_is_array(v)) {
		fprintf(to, "%-12s ", shown_text(key).s);
		print_value(to, v);
		fprintf(to, "\n");
		return;
	}
	json_array_foreach(v, i, item)
	{
		fprintf(to, "%-9s %2zu ", shown_text(key).s, i);
		if (json_is_object(item))
			print_flat(to, item);
		else
			print_value(to, item);
	}
}

void ctl_status_all(FILE *to, json_t *status)
{
	const char *key;
	json_t *v;

	json_object_foreach(status, key, v) print_section(to, key, v);
}
