/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl status: the appliance's counters, in words and lines. */
#include "appliance/ctl/ctl_status_text.h"
#include "appliance/ctl/ctl_figures.h"
#include "appliance/ctl/ctl_fold.h"
#include "base/assert.h"
#include "base/num.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- what wants attention ------------------------------------------------------------------ */

static bool is_serving(const json_t *d)
{
	return strcmp(ctl_word(d, "state").s, "serving") == 0;
}

static unsigned drives_serving(const json_t *s)
{
	const json_t *d;
	unsigned serving = 0;
	size_t i;

	json_array_foreach(json_object_get(s, "drives"), i, d) serving += is_serving(d);
	return serving;
}

static bool is_missing(const json_t *d)
{
	return strcmp(ctl_word(d, "state").s, "missing") == 0;
}

static bool is_lost(const json_t *d)
{
	return strcmp(ctl_word(d, "state").s, "lost") == 0;
}

uint32_t ctl_lost_drives(const json_t *status)
{
	uint32_t count = 0;
	const json_t *d;
	size_t i;

	json_array_foreach(json_object_get(status, "drives"), i, d) count += is_lost(d);
	return count;
}

/* Is a drive before this one lost that is in the same failure domain? */
static bool is_counted(const json_t *drives, size_t at)
{
	const struct ctl_text domain = ctl_word(json_array_get(drives, at), "domain");
	bool is = false;

	for (size_t i = 0; *domain.s && i < at; i++)
		is |= is_lost(json_array_get(drives, i)) &&
		      strcmp(ctl_word(json_array_get(drives, i), "domain").s, domain.s) == 0;
	return is;
}

/* Returns how many losses the lost drives are: those of one failure domain are one. */
static uint32_t losses(const json_t *status)
{
	const json_t *drives = json_object_get(status, "drives"), *d;
	const bool domains = ctl_num(status, "store", "domains") > 0;
	uint32_t count = 0;
	size_t i;

	json_array_foreach(drives, i, d) count += is_lost(d) && !(domains && is_counted(drives, i));
	return count;
}

uint64_t ctl_may_lose(const json_t *status)
{
	const bool converts =
		json_is_true(json_object_get(json_object_get(status, "store"), "converts"));
	uint64_t sure = ctl_num(status, "store", "sure_copies");
	const uint64_t log_copies = ctl_num(status, "store", "log_copies");
	const uint32_t lost = losses(status);
	uint64_t may;

	if (sure == 0) /* an older appliance does not say */
		sure = converts ? 1 : ctl_num(status, "store", "copies");
	if (lost + 1 >= sure || ctl_num(status, "store", "one_domain_bytes") ||
	    (!converts && ctl_num(status, "store", "one_copy_bytes")))
		return 0;
	may = sure - 1 - lost;
	return log_copies > 0 ? min_u64(may, log_copies - 1) : may; /* 0: it does not say */
}

static bool is_well(const json_t *d)
{
	const struct ctl_text health = ctl_word(d, "health");

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
		if (is_lost(d)) {
			fprintf(to, "%sdrive %u is lost", between,
				(unsigned)ctl_num(d, NULL, "number"));
			between = ", ";
			degraded = true;
			continue;
		}
		if (is_well(d) || is_missing(d))
			continue;
		fprintf(to, "%sdrive %u is %s", between, (unsigned)ctl_num(d, NULL, "number"),
			ctl_word(d, "health").s);
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
	const uint64_t all = ctl_num(s, "store", "total_bytes"),
		       left = ctl_num(s, "store", "free_bytes");
	const uint64_t bad = ctl_num(s, "scrub", "bad_pages") + ctl_num(s, "scrub", "bad_blocks");
	const uint64_t files = ctl_num(s, "damage", "files"),
		       far = ctl_num(s, "damage", "unreachable_files");
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
	ctl_status_rebuild_warn(to, json_object_get(s, "rebuild"), ctl_num(s, "store", "copies"),
				drives_serving(s));
	if (json_is_true(json_object_get(json_object_get(s, "store"), "converts")))
		ctl_say_converts(to, s, "! ");
	if (json_is_true(json_object_get(json_object_get(s, "store"), "domains_ignored")))
		fprintf(to, "! the configuration puts the drives into fewer failure domains than a "
			    "block has copies: the domains do not count\n");
	if (ctl_num(s, "store", "one_domain_bytes"))
		fprintf(to,
			"! %s have two copies in one failure domain, since before it was named: "
			"they are being moved\n",
			ctl_bytes((double)ctl_num(s, "store", "one_domain_bytes")).s);
	if (ctl_num(s, "store", "log_copies") == 2 && ctl_num(s, "store", "copies") > 2 &&
	    drives_serving(s) > 2)
		fprintf(to,
			"! the log is on two drives only: a drive is dead, there was no room for "
			"a third copy, or nothing was changed since a drive was added\n");
	if (ctl_num(s, "store", "log_copies") == 1 && drives_serving(s) > 1)
		fprintf(to,
			"! the log is on one drive only: a drive is dead, there was no room for "
			"a second copy, or nothing was changed since a drive was added\n");
	if (all && left < all / 20)
		fprintf(to, "! only %s are free\n", ctl_bytes((double)left).s);
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
	if (ctl_num(s, "store", "unmovable_blocks"))
		fprintf(to,
			"! %llu damaged blocks keep their zones from being collected: remove or "
			"replace the files that wekactl damaged lists\n",
			(unsigned long long)ctl_num(s, "store", "unmovable_blocks"));
	if (ctl_num(s, NULL, "bad_sums"))
		fprintf(to, "! %llu writes came with a wrong checksum, and were refused\n",
			(unsigned long long)ctl_num(s, NULL, "bad_sums"));
}

/* Prints a line about a drive that is not well, and what to do. */
static void of_health(FILE *to, const json_t *d)
{
	const struct ctl_text failing = ctl_word(d, "failing");
	const unsigned number = (unsigned)ctl_num(d, NULL, "number");

	if (strcmp(failing.s, "reads") == 0)
		fprintf(to, "! drive %u has failed, nothing can be read: %s\n", number,
			"check power, cabling and slot");
	else if (*failing.s)
		fprintf(to, "! drive %u has failed, it refuses all writes: %s\n", number,
			"check its space and health");
	else
		fprintf(to, "! drive %u is %s\n", number, ctl_word(d, "health").s);
}

static void of_drive(FILE *to, const json_t *d)
{
	static const char *const trouble[] = { "errors",         "timeouts", "aborts",
					       "queue_restarts", "resets",   "media_errors" };
	const unsigned number = (unsigned)ctl_num(d, NULL, "number");
	const struct ctl_text health = ctl_word(d, "health"), note = ctl_word(d, "note");
	const char *between = ": ";
	bool any = false;

	for (size_t i = 0; i < ARRAY_LEN(trouble); i++)
		any |= ctl_num(d, NULL, trouble[i]) > 0;
	if (*health.s && strcmp(health.s, "good") != 0 && !is_missing(d) && !is_lost(d))
		of_health(to, d);
	if (*note.s)
		fprintf(to, "! drive %u: %s\n", number, note.s);
	if (ctl_num(d, NULL, "warnings") ||
	    ctl_num(d, NULL, "spare_percent") < ctl_num(d, NULL, "spare_least_percent"))
		fprintf(to, "! drive %u reports a health warning: see wekactl drives\n", number);
	if (ctl_num(d, NULL, "quarantined_bytes"))
		fprintf(to, "! drive %u may still write to %s of memory, which is quarantined\n",
			number, ctl_bytes((double)ctl_num(d, NULL, "quarantined_bytes")).s);
	if (!any)
		return;
	fprintf(to, "! drive %u", number);
	for (size_t i = 0; i < ARRAY_LEN(trouble); i++)
		if (ctl_num(d, NULL, trouble[i])) {
			fprintf(to, "%s%s %llu", between, trouble[i],
				(unsigned long long)ctl_num(d, NULL, trouble[i]));
			between = ", ";
		}
	fprintf(to, "\n");
}

/* ---- the page ------------------------------------------------------------------------------ */

static void line_of_store(FILE *to, const json_t *s)
{
	const uint64_t all = ctl_num(s, "store", "total_bytes"),
		       left = ctl_num(s, "store", "free_bytes");

	fprintf(to, "store     %llu files, %llu directories; %s of %s free (%u %%)",
		(unsigned long long)ctl_num(s, "store", "files"),
		(unsigned long long)ctl_num(s, "store", "dirs"), ctl_bytes((double)left).s,
		ctl_bytes((double)all).s, ctl_percent(left, all));
	if (ctl_num(s, "store", "opens"))
		fprintf(to, "; %llu files are open",
			(unsigned long long)ctl_num(s, "store", "opens"));
	fprintf(to, "\n");
	if (ctl_num(s, "store", "orphans") && !takes_no_changes(s))
		fprintf(to, "          still to be freed: %llu files and trees that were removed\n",
			(unsigned long long)ctl_num(s, "store", "orphans"));
}

static void line_of_requests(FILE *to, const json_t *s)
{
	fprintf(to, "served    %llu requests in %llu sessions, %llu of them open: %s read, ",
		(unsigned long long)ctl_num(s, "fabric", "requests"),
		(unsigned long long)ctl_num(s, "fabric", "sessions"),
		(unsigned long long)ctl_num(s, "fabric", "sessions_open"),
		ctl_bytes((double)ctl_num(s, "bytes", "read")).s);
	fprintf(to, "%s written", ctl_bytes((double)ctl_num(s, "bytes", "written")).s);
	if (ctl_num(s, NULL, "errors"))
		fprintf(to, "; %llu with an error", (unsigned long long)ctl_num(s, NULL, "errors"));
	if (ctl_num(s, NULL, "not_found"))
		fprintf(to, "; %llu found nothing",
			(unsigned long long)ctl_num(s, NULL, "not_found"));
	if (ctl_num(s, NULL, "busy"))
		fprintf(to, "; %llu were told to wait",
			(unsigned long long)ctl_num(s, NULL, "busy"));
	if (ctl_num(s, "fabric", "refused"))
		fprintf(to, "; %llu connections refused",
			(unsigned long long)ctl_num(s, "fabric", "refused"));
	fprintf(to, "\n");
}

static double rate(const json_t *now, const json_t *before, const char *group, const char *key,
		   double seconds)
{
	const uint64_t to = ctl_num(now, group, key), from = ctl_num(before, group, key);

	return to > from ? (double)(to - from) / seconds : 0; /* it may have been restarted */
}

static void line_of_rates(FILE *to, const json_t *s, const json_t *b, double seconds)
{
	fprintf(to, "now       %.0f requests/s: %s/s read, ",
		rate(s, b, "fabric", "requests", seconds),
		ctl_bytes(rate(s, b, "bytes", "read", seconds)).s);
	fprintf(to, "%s/s written; of the drives ",
		ctl_bytes(rate(s, b, "bytes", "written", seconds)).s);
	fprintf(to, "%s/s read, ", ctl_bytes(rate(s, b, "bytes", "drive_read", seconds)).s);
	fprintf(to, "%s/s written\n", ctl_bytes(rate(s, b, "bytes", "drive_written", seconds)).s);
}

/* Writes the bytes written to flash for each byte of files. */
static void line_of_flash(FILE *to, const json_t *s)
{
	const double data = (double)ctl_num(s, "store", "data_blocks");
	const double all = data + (double)(ctl_num(s, "store", "page_blocks") +
					   ctl_num(s, "store", "log_blocks") +
					   ctl_num(s, "store", "moved_blocks"));

	fprintf(to, "flash     %s written in all", ctl_bytes(4096 * all).s);
	if (data > 0)
		fprintf(to, ", %.2f for each byte of files", all / data);
	fprintf(to, "; %llu zones collected\n",
		(unsigned long long)ctl_num(s, "store", "zones_collected"));
}

static void line_of_index(FILE *to, const json_t *s)
{
	const uint64_t hits = ctl_num(s, "store", "page_hits"),
		       reads = ctl_num(s, "store", "page_reads");

	fprintf(to, "index     cache of %s",
		ctl_bytes(16384.0 * (double)ctl_num(s, "store", "cache_pages")).s);
	if (hits + reads)
		fprintf(to, ", %.1f %% found there", 100.0 * (double)hits / (double)(hits + reads));
	fprintf(to, "; %s of it to be written\n",
		ctl_bytes(16384.0 * (double)ctl_num(s, "store", "cache_pages_dirty")).s);
}

static void line_of_scrub(FILE *to, const json_t *s)
{
	const uint64_t speed = ctl_num(s, "scrub", "bytes_per_second");

	if (!speed) {
		fprintf(to, "scrub     off\n");
		return;
	}
	fprintf(to, "scrub     round %llu, %llu %%, at %s/s\n",
		(unsigned long long)ctl_num(s, "scrub", "rounds") + 1,
		(unsigned long long)ctl_num(s, "scrub", "position_percent"),
		ctl_bytes((double)speed).s);
}

/* Names the drives that reads were hedged on. */
static void line_of_hedges(FILE *to, const json_t *drives)
{
	const char *between = "hedged    ";
	const json_t *d;
	size_t i;

	json_array_foreach(drives, i, d)
	{
		if (!ctl_num(d, NULL, "hedged_reads"))
			continue;
		fprintf(to, "%sdrive %u: %llu late reads, %llu answered from another copy", between,
			(unsigned)ctl_num(d, NULL, "number"),
			(unsigned long long)ctl_num(d, NULL, "hedged_reads"),
			(unsigned long long)ctl_num(d, NULL, "hedged_reads_won"));
		between = "; ";
	}
	if (*between == ';')
		fprintf(to, "\n");
}

static void line_of_memory(FILE *to, const json_t *s)
{
	fprintf(to, "memory    %s at most: ",
		ctl_bytes((double)ctl_num(s, "memory", "at_most_bytes")).s);
	fprintf(to, "cache %s, ", ctl_bytes((double)ctl_num(s, "memory", "cache_bytes")).s);
	fprintf(to, "staging %s, ", ctl_bytes((double)ctl_num(s, "memory", "staging_bytes")).s);
	fprintf(to, "clients %s\n",
		ctl_bytes((double)(ctl_num(s, "memory", "sessions_bytes") +
				   ctl_num(s, "memory", "pools_bytes")))
			.s);
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
	ctl_print_shown(to, name ? name : "-");
}

/* "41 C", or "-" where the drive says nothing. */
static struct ctl_text reading(const json_t *d, const char *key, const char *unit)
{
	const json_t *v = json_object_get(d, key);
	struct ctl_text t = { "-" };

	if (json_is_integer(v))
		snprintf(t.s, sizeof(t.s), "%lld%s", (long long)json_integer_value(v), unit);
	return t;
}

static void row_of_drive(FILE *to, const json_t *d)
{
	fprintf(to, "%-5u %-9.9s ", (unsigned)ctl_num(d, NULL, "number"),
		ctl_word(d, is_well(d) || !is_serving(d) ? "state" : "health").s);
	fprintf(to, "%7s ", ctl_short_bytes((double)ctl_num(d, NULL, "bytes")).s);
	fprintf(to, "%4u%% ",
		ctl_percent(ctl_num(d, NULL, "zones_used"), ctl_num(d, NULL, "zones")));
	fprintf(to, "%8s ", ctl_short_bytes((double)ctl_num(d, NULL, "live_bytes")).s);
	fprintf(to, "%5s %4s  ", reading(d, "celsius", " C").s, reading(d, "used_percent", "%").s);
	print_name(to, d);
	if (*ctl_word(d, "domain").s)
		fprintf(to, " (%s)", ctl_word(d, "domain").s);
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
		ctl_duration(ctl_num(status, "core", "uptime_ns") / 1000000000).s, cores,
		cores == 1 ? "" : "s");
	line_of_store(to, status);
	line_of_requests(to, status);
	if (before)
		line_of_rates(to, status, before, seconds);
	line_of_flash(to, status);
	line_of_index(to, status);
	if (json_object_get(status, "rebuild"))
		ctl_status_rebuild_line(to, json_object_get(status, "rebuild"));
	line_of_scrub(to, status);
	line_of_hedges(to, drives);
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

/* ---- all of it ----------------------------------------------------------------------------- */

static void print_value(FILE *to, const json_t *v)
{
	if (json_is_integer(v))
		fprintf(to, "%lld", (long long)json_integer_value(v));
	else if (json_is_real(v))
		fprintf(to, "%.3f", json_real_value(v));
	else if (json_is_string(v))
		ctl_print_shown(to, json_string_value(v));
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
		ctl_print_shown(to, key);
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
		fprintf(to, "%-12s ", ctl_shown(key).s);
		print_flat(to, v);
		return;
	}
	if (!json_is_array(v)) {
		fprintf(to, "%-12s ", ctl_shown(key).s);
		print_value(to, v);
		fprintf(to, "\n");
		return;
	}
	json_array_foreach(v, i, item)
	{
		fprintf(to, "%-9s %2zu ", ctl_shown(key).s, i);
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
