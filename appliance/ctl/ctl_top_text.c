/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The page of wekactl top.  Tables have a limited number of rows:
 *
 *   requests    the most frequent kinds
 *   drives      a third of the rows that are left on the screen
 *   clients     the others
 */
#include "appliance/ctl/ctl_top_text.h"
#include "appliance/ctl/ctl.h"
#include "base/num.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define ALARMS_SHOWN 3u
#define KINDS_SHOWN  4u
#define CORES_A_LINE 10u
#define LINE_MAX     512

struct page {
	FILE *to;
	const json_t *now, *before;
	double seconds;
	uint32_t columns;
	uint32_t rows_left;
};

/* Prints a line, cut at the width of the page, if there is a row left. */
__attribute__((format(printf, 2, 3))) static void line(struct page *p, const char *fmt, ...)
{
	char text[LINE_MAX];
	va_list args;
	int length;

	ASSERT(p->columns > 0);
	if (p->rows_left == 0)
		return;
	p->rows_left--;
	va_start(args, fmt);
	length = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	ASSERT(length >= 0);
	length = (int)min_u64((uint64_t)length, min_u64(sizeof(text) - 1, p->columns));
	while (length > 0 && text[length - 1] == ' ')
		length--;
	fprintf(p->to, "%.*s\n", length, text);
}

static double a_second(const struct page *p, const char *group, const char *key)
{
	return p->seconds > 0 ? (double)ctl_growth(p->now, p->before, group, key) / p->seconds : 0;
}

/* Returns the time between two statuses by the appliance's own clock, or 0 if the appliance was
 * restarted between them. */
static double seconds_between(const json_t *now, const json_t *before)
{
	return (double)ctl_growth(now, before, "core", "uptime_ns") / 1e9;
}

/* ---- the top ------------------------------------------------------------------------------- */

static void print_title(struct page *p, const struct ctl_top_view *view)
{
	struct ctl_client *clients;
	const uint32_t count = ctl_clients_of(p->now, NULL, &clients);
	const uint64_t left_out = ctl_num(p->now, NULL, "clients_left_out");
	char text[LINE_MAX];

	free(clients);
	snprintf(text, sizeof(text), "%sup %s; %u%s client%s, by %s",
		 view->paused ? "PAUSED; " : "",
		 ctl_duration(ctl_num(p->now, "core", "uptime_ns") / 1000000000).s, count,
		 left_out ? " or more" : "", count == 1 ? "" : "s", ctl_order_name[view->order]);
	if (view->keys)
		line(p, "%-54.54s %25s", text, "q quit, p pause, s sort");
	else
		line(p, "%s", text);
}

static void print_alarms(struct page *p)
{
	const json_t *alarms = json_object_get(p->now, "alarms"), *each;
	const size_t count = json_array_size(alarms);
	size_t i;

	json_array_foreach(alarms, i, each)
	{
		if (i + 1 == ALARMS_SHOWN && count > ALARMS_SHOWN) {
			line(p, "! and %zu more: see wekactl status", count - i);
			return;
		}
		line(p, "! %s", ctl_word(each, "text").s);
	}
}

static void print_totals(struct page *p)
{
	const uint64_t all = ctl_num(p->now, "store", "total_bytes");
	const uint64_t left = ctl_num(p->now, "store", "free_bytes");

	line(p, "read      %10s/s   from drives %10s/s   requests %8s/s",
	     ctl_short_bytes(a_second(p, "bytes", "read")).s,
	     ctl_short_bytes(a_second(p, "bytes", "drive_read")).s,
	     ctl_count(a_second(p, "fabric", "requests")).s);
	line(p, "written   %10s/s   to drives   %10s/s   items    %8s/s",
	     ctl_short_bytes(a_second(p, "bytes", "written")).s,
	     ctl_short_bytes(a_second(p, "bytes", "drive_written")).s,
	     ctl_count(a_second(p, NULL, "items")).s);
	line(p, "free      %10s (%u %% of %s)   errors %s/s, told to wait %s/s",
	     ctl_short_bytes((double)left).s, ctl_percent(left, all),
	     ctl_short_bytes((double)all).s, ctl_count(a_second(p, NULL, "errors")).s,
	     ctl_count(a_second(p, NULL, "busy")).s);
}

/* ---- requests, cores ----------------------------------------------------------------------- */

static void print_kinds(struct page *p)
{
	struct ctl_kind kinds[CTL_KINDS_MAX];
	const uint32_t count = ctl_kinds_of(p->now, p->before, kinds);

	line(p, "%s", "");
	line(p, "%-14s %12s %10s %10s %10s", "request", "a second", "p50", "p99", "p99.9");
	for (uint32_t i = 0; i < min_u32(count, KINDS_SHOWN); i++)
		line(p, "%-14.14s %12s %10s %10s %10s", kinds[i].request.s,
		     ctl_count(p->seconds > 0 ? (double)kinds[i].count / p->seconds : 0).s,
		     ctl_microseconds(kinds[i].p50_us).s, ctl_microseconds(kinds[i].p99_us).s,
		     ctl_microseconds(kinds[i].p999_us).s);
	if (count > KINDS_SHOWN)
		line(p, "kinds not shown: %u", count - KINDS_SHOWN);
	else if (count == 0)
		line(p, "none");
}

static void print_cores(struct page *p)
{
	const size_t count = json_array_size(json_object_get(p->now, "cores"));
	char text[LINE_MAX];
	size_t used = 0;

	line(p, "%s", "");
	for (size_t i = 0; i < count; i++) {
		const double busy = ctl_core_time(p->now, p->before, i, p->seconds).busy;

		if (used == 0)
			used = (size_t)snprintf(text, sizeof(text), "%-10s", i ? "" : "core busy");
		used += (size_t)snprintf(text + used, sizeof(text) - used, " %4.0f %%", busy);
		if ((i + 1) % CORES_A_LINE == 0 || i + 1 == count) {
			line(p, "%s", text);
			used = 0;
		}
	}
}

/* ---- drives -------------------------------------------------------------------------------- */

/* "41 C"; "-": the drive reports none. */
static struct ctl_text reading(const json_t *d, const char *key, const char *unit)
{
	struct ctl_text t = { "-" };

	if (json_is_integer(json_object_get(d, key)))
		snprintf(t.s, sizeof(t.s), "%lld%s",
			 (long long)json_integer_value(json_object_get(d, key)), unit);
	return t;
}

/* A drive that serves is called by its health. */
static struct ctl_text condition(const json_t *d)
{
	const struct ctl_text state = ctl_word(d, "state");

	return strcmp(state.s, "serving") == 0 ? ctl_word(d, "health") : state;
}

static const json_t *same_drive(const json_t *before, const json_t *d)
{
	const json_t *each;
	size_t i;

	json_array_foreach(json_object_get(before, "drives"), i,
			   each) if (ctl_num(each, NULL, "number") ==
				     ctl_num(d, NULL, "number")) return each;
	return NULL;
}

static void print_drive(struct page *p, const json_t *d)
{
	const uint64_t commands = ctl_growth(d, same_drive(p->before, d), NULL, "commands");
	const char *name = json_string_value(json_object_get(d, "name"));
	const size_t bytes = name ? strlen(name) : 0, width = 27;

	/* The end of a long name tells drives apart. */
	line(p, "%5llu %-9.9s %10s %6llu %5u%% %5s %4s  %s",
	     (unsigned long long)ctl_num(d, NULL, "number"), condition(d).s,
	     ctl_count(p->seconds > 0 ? (double)commands / p->seconds : 0).s,
	     (unsigned long long)ctl_num(d, NULL, "in_flight"),
	     ctl_percent(ctl_num(d, NULL, "zones_used"), ctl_num(d, NULL, "zones")),
	     reading(d, "celsius", " C").s, reading(d, "used_percent", "%").s,
	     ctl_shown(bytes > width ? name + bytes - width : name).s);
}

static void print_drives(struct page *p, uint32_t rows)
{
	const json_t *drives = json_object_get(p->now, "drives"), *d;
	const size_t count = json_array_size(drives);
	size_t i, shown = count <= rows ? count : rows - 1;

	ASSERT(rows > 0);
	line(p, "%s", "");
	line(p, "%5s %-9s %10s %6s %6s %5s %4s  %s", "drive", "state", "commands/s", "queued",
	     "zones", "temp", "worn", "name");
	json_array_foreach(drives, i, d) if (i < shown) print_drive(p, d);
	if (shown < count)
		line(p, "drives not shown: %zu", count - shown);
}

/* ---- clients ------------------------------------------------------------------------------- */

static void print_client(struct page *p, const struct ctl_client *c)
{
	const double s = p->seconds > 0 ? p->seconds : 1;

	line(p, "%-12.12s %-4.4s %8s %8s %8s %5llu %5llu  %s", *c->key.s ? c->key.s : "-",
	     c->transport.s, ctl_count((double)c->requests / s).s,
	     ctl_short_bytes((double)c->read_bytes / s).s,
	     ctl_short_bytes((double)c->written_bytes / s).s, (unsigned long long)c->running,
	     (unsigned long long)c->queued, c->peer.s);
}

static void print_clients(struct page *p, enum ctl_order order)
{
	struct ctl_client *clients;
	const uint32_t count = ctl_clients_of(p->now, p->before, &clients);
	uint32_t shown;

	ctl_clients_sort(clients, count, order);
	line(p, "%s", "");
	line(p, "%-12s %-4s %8s %8s %8s %5s %5s  %s", "client's key", "over", "requests", "read/s",
	     "written", "runs", "waits", "from");
	shown = count <= p->rows_left || p->rows_left == 0 ? count : p->rows_left - 1;
	for (uint32_t i = 0; i < shown; i++)
		print_client(p, &clients[i]);
	if (shown < count)
		line(p, "clients not shown: %u", count - shown);
	free(clients);
}

void ctl_top_page(FILE *to, const json_t *now, const json_t *before,
		  const struct ctl_top_view *view)
{
	struct page p = { .to = to,
			  .now = now,
			  .before = before,
			  .seconds = seconds_between(now, before),
			  .columns = view->columns,
			  .rows_left = view->rows ? view->rows : UINT32_MAX };

	print_title(&p, view);
	print_alarms(&p);
	print_totals(&p);
	print_kinds(&p);
	print_cores(&p);
	/* Its blank and its heading take two rows, and clients need four. */
	print_drives(&p, view->rows ? max_u32(p.rows_left / 3, 2) : UINT32_MAX);
	print_clients(&p, view->order);
}

/* ---- for programs -------------------------------------------------------------------------- */

static json_t *per_second(const json_t *now, const json_t *before, double seconds,
			  const char *group, const char *key)
{
	const double grown = (double)ctl_growth(now, before, group, key);

	return json_real(seconds > 0 ? grown / seconds : 0);
}

static json_t *kinds_json(const json_t *now, const json_t *before, double seconds)
{
	struct ctl_kind kinds[CTL_KINDS_MAX];
	const uint32_t count = ctl_kinds_of(now, before, kinds);
	json_t *all = json_array();

	for (uint32_t i = 0; i < count; i++)
		json_array_append_new(
			all, json_pack("{s:s,s:f,s:f,s:f,s:f}", "request", kinds[i].request.s,
				       "per_second",
				       seconds > 0 ? (double)kinds[i].count / seconds : 0.0,
				       "p50_us", kinds[i].p50_us, "p99_us", kinds[i].p99_us,
				       "p999_us", kinds[i].p999_us));
	return all;
}

static json_t *cores_json(const json_t *now, const json_t *before, double seconds)
{
	const size_t count = json_array_size(json_object_get(now, "cores"));
	json_t *all = json_array();

	for (size_t i = 0; i < count; i++) {
		const struct ctl_core_time t = ctl_core_time(now, before, i, seconds);

		json_array_append_new(all, json_pack("{s:f,s:f,s:f}", "busy_percent", t.busy,
						     "polling_percent", t.polling, "asleep_percent",
						     t.asleep));
	}
	return all;
}

static json_t *drives_json(const json_t *now, const json_t *before, double seconds)
{
	json_t *all = json_array(), *o;
	const json_t *d;
	size_t i;

	json_array_foreach(json_object_get(now, "drives"), i, d)
	{
		o = json_pack("{s:I,s:s,s:I}", "number", (json_int_t)ctl_num(d, NULL, "number"),
			      "condition", condition(d).s, "in_flight",
			      (json_int_t)ctl_num(d, NULL, "in_flight"));
		ASSERT(o);
		json_object_set_new(
			o, "commands_per_second",
			per_second(d, same_drive(before, d), seconds, NULL, "commands"));
		json_array_append_new(all, o);
	}
	return all;
}

static json_t *clients_json(const json_t *now, const json_t *before, enum ctl_order order)
{
	json_t *all = json_array();
	struct ctl_client *clients;
	const uint32_t count = ctl_clients_of(now, before, &clients);

	ctl_clients_sort(clients, count, order);
	for (uint32_t i = 0; i < count; i++)
		json_array_append_new(all, ctl_client_json(&clients[i]));
	free(clients);
	return all;
}

json_t *ctl_top_json(const json_t *now, const json_t *before, enum ctl_order order)
{
	static const struct {
		const char *name, *group, *key;
	} rates[] = {
		{ "requests_per_second", "fabric", "requests" },
		{ "items_per_second", NULL, "items" },
		{ "errors_per_second", NULL, "errors" },
		{ "busy_per_second", NULL, "busy" },
		{ "read_bytes_per_second", "bytes", "read" },
		{ "written_bytes_per_second", "bytes", "written" },
		{ "drive_read_bytes_per_second", "bytes", "drive_read" },
		{ "drive_written_bytes_per_second", "bytes", "drive_written" },
	};
	const double seconds = seconds_between(now, before);
	json_t *o = json_pack("{s:f}", "seconds", seconds);
	json_t *alarms = json_object_get(now, "alarms");

	ASSERT(o);
	json_object_set_new(o, "alarms", alarms ? json_deep_copy(alarms) : json_array());
	for (size_t i = 0; i < ARRAY_LEN(rates); i++)
		json_object_set_new(o, rates[i].name,
				    per_second(now, before, seconds, rates[i].group, rates[i].key));
	json_object_set_new(o, "requests", kinds_json(now, before, seconds));
	json_object_set_new(o, "cores", cores_json(now, before, seconds));
	json_object_set_new(o, "drives", drives_json(now, before, seconds));
	json_object_set_new(o, "clients", clients_json(now, before, order));
	return o;
}
