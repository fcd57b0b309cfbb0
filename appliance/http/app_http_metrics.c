/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A snapshot as Prometheus' text format.
 *
 * Numbers are in base units: seconds, bytes, ratios from 0 to 1.  A metric that is not known, such
 * as the temperature of a drive without a health log, is left out; it is not 0.
 */
#include "appliance/http/app_http_internal.h"
#include "base/crc32c.h"
#include "base/num.h"

#include <string.h>

/* Buckets from 16 us on, one a power of two: an eighth of those that there are, with the last. */
#define POWER_FIRST 4u

/* ---- the format -------------------------------------------------------------------------- */

static void family(struct http__text *t, const char *name, const char *type, const char *help)
{
	http__put(t, "# HELP weka_%s %s\n# TYPE weka_%s %s\n", name, help, name, type);
}

/* A label's value: what a drive or the configuration says, printable or not. */
static void put_label(struct http__text *t, const char *key, const char *value)
{
	http__put(t, "%s=\"", key);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			http__put(t, "\\%c", *value);
		else
			http__put(t, "%c", *value >= ' ' && *value <= '~' ? *value : '?');
	}
	http__put(t, "\"");
}

static void put_u64(struct http__text *t, uint64_t value)
{
	http__put(t, " %llu\n", (unsigned long long)value);
}

static bool is_counter(const char *name)
{
	size_t length = strlen(name);

	return length > 6 && strcmp(name + length - 6, "_total") == 0;
}

static uint64_t number_at(const void *s, size_t at)
{
	uint64_t value;

	memcpy(&value, (const char *)s + at, sizeof(value));
	return value;
}

static void put_plain(struct http__text *t, const struct app_snapshot *s)
{
	for (size_t i = 0; i < http__family_count; i++) {
		const struct http__family *f = &http__families[i];
		uint64_t value = number_at(s, f->at);

		family(t, f->name, is_counter(f->name) ? "counter" : "gauge", f->help);
		http__put(t, "weka_%s", f->name);
		if (f->factor >= 1)
			put_u64(t, value * (uint64_t)f->factor);
		else
			http__put(t, " %.9g\n", (double)value * f->factor);
	}
}

/* ---- requests ---------------------------------------------------------------------------- */

static void put_requests(struct http__text *t, const struct app_core_stat *s)
{
	family(t, "requests_total", "counter", "Requests that were begun.");
	for (uint32_t i = FAB_PING; i < FAB_TYPE_END; i++) {
		http__put(t, "weka_requests_total{request=\"%s\"}", app_request_name(i));
		put_u64(t, s->requests[i]);
	}
}

static void put_failures(struct http__text *t, const struct app_core_stat *s)
{
	const struct {
		const char *why;
		uint64_t count;
	} failures[] = { { "error", s->errors },
			 { "not_found", s->not_found },
			 { "declined", s->declined },
			 { "cancelled", s->cancelled },
			 { "busy", s->busy } };

	family(t, "request_failures_total", "counter",
	       "Requests and items that did not do what was asked, by reason.");
	for (size_t i = 0; i < ARRAY_LEN(failures); i++) {
		http__put(t, "weka_request_failures_total{reason=\"%s\"}", failures[i].why);
		put_u64(t, failures[i].count);
	}
}

/* One histogram; `labels` without braces. */
static void put_latency(struct http__text *t, const char *name, const char *labels,
			const struct app_latency *l)
{
	uint64_t below = 0;
	uint32_t bucket = 0;

	for (uint32_t power = POWER_FIRST; power <= APP_LATENCY_POWERS; power++) {
		for (; bucket < 2 * power; bucket++)
			below += l->bucket[bucket];
		http__put(t, "weka_%s_bucket{%s,le=\"%.6f\"}", name, labels,
			  (double)(1ull << power) / 1e6);
		put_u64(t, below);
	}
	below += l->bucket[APP_LATENCY_BUCKETS - 1];
	http__put(t, "weka_%s_bucket{%s,le=\"+Inf\"}", name, labels);
	put_u64(t, below);
	http__put(t, "weka_%s_sum{%s} %.9g\n", name, labels, (double)l->sum_ns / 1e9);
	http__put(t, "weka_%s_count{%s}", name, labels);
	put_u64(t, below);
}

static void put_latencies(struct http__text *t, const struct app_snapshot *s)
{
	char labels[96];

	family(t, "request_duration_seconds", "histogram",
	       "Time from a request's arrival to its answer, as a polling thread sees it.");
	for (uint32_t i = 0; i < APP_TRANSPORTS; i++) {
		for (uint32_t k = FAB_PING; k < FAB_TYPE_END; k++) {
			if (!app_latency_count(&s->latency[i][k]))
				continue;
			snprintf(labels, sizeof(labels), "request=\"%s\",transport=\"%s\"",
				 app_request_name(k), app_transport_name[i]);
			put_latency(t, "request_duration_seconds", labels, &s->latency[i][k]);
		}
	}
	family(t, "core_request_duration_seconds", "histogram",
	       "The same of all requests of a polling thread.");
	for (uint32_t i = 0; i < s->cores; i++) {
		snprintf(labels, sizeof(labels), "core=\"%u\"", i);
		put_latency(t, "core_request_duration_seconds", labels, &s->core[i].latency);
	}
}

/* ---- cores ------------------------------------------------------------------------------- */

#define CORE_AT(field) offsetof(struct app_core_snapshot, stat.field)

static const struct http__family core_families[] = {
	{ "read_bytes_total", "Bytes of files to clients.", CORE_AT(read_bytes), 1 },
	{ "written_bytes_total", "Bytes of files from clients.", CORE_AT(written_bytes), 1 },
	{ "core_turns_total", "Turns of the polling loop.", CORE_AT(turns), 1 },
	{ "core_sleeps_total", "Times that the polling thread went to sleep.", CORE_AT(sleeps), 1 },
	{ "core_asleep_seconds_total", "Time that the polling thread slept.", CORE_AT(slept_ns),
	  1e-9 },
	{ "core_idle_seconds_total", "Time that it polled and found nothing to do.",
	  CORE_AT(spun_ns), 1e-9 },
	{ "core_reads_planned_total", "Reads that it planned itself, in another's store.",
	  CORE_AT(planned), 1 },
	{ "core_changes_made_total", "Changes that it made itself, in shards lent to it.",
	  CORE_AT(made), 1 },
	{ "core_asked_total", "Operations that it gave to the core with the store.", CORE_AT(asked),
	  1 },
	{ "core_served_total", "Operations that it did for other cores.", CORE_AT(served), 1 },
	{ "core_bells_total", "Times that it woke another core.", CORE_AT(bells), 1 },
};

static void put_cores(struct http__text *t, const struct app_snapshot *s)
{
	for (size_t k = 0; k < ARRAY_LEN(core_families); k++) {
		const struct http__family *f = &core_families[k];

		family(t, f->name, "counter", f->help);
		for (uint32_t i = 0; i < s->cores; i++) {
			uint64_t value = number_at(&s->core[i], f->at);

			http__put(t, "weka_%s{core=\"%u\"}", f->name, i);
			if (f->factor >= 1)
				put_u64(t, value);
			else
				http__put(t, " %.9g\n", (double)value * f->factor);
		}
	}
}

/* Writes gauges of each core. */
static void put_load(struct http__text *t, const struct app_snapshot *s)
{
	family(t, "core_sessions", "gauge", "Connections of clients, by polling thread.");
	for (uint32_t i = 0; i < s->cores; i++) {
		http__put(t, "weka_core_sessions{core=\"%u\"}", i);
		put_u64(t, s->core[i].sessions_open);
	}
	family(t, "core_requests_queued", "gauge", "Requests that wait to be begun.");
	for (uint32_t i = 0; i < s->cores; i++) {
		http__put(t, "weka_core_requests_queued{core=\"%u\"}", i);
		put_u64(t, s->core[i].queued);
	}
	family(t, "core_credits_used", "gauge",
	       "Requests that were sent and not answered; each uses one credit of its client.");
	for (uint32_t i = 0; i < s->cores; i++) {
		http__put(t, "weka_core_credits_used{core=\"%u\"}", i);
		put_u64(t, s->core[i].queued + s->core[i].requests_open);
	}
}

/* ---- clients, memory --------------------------------------------------------------------- */

static void put_gauge(struct http__text *t, const char *name, const char *help, uint64_t value)
{
	family(t, name, "gauge", help);
	http__put(t, "weka_%s", name);
	put_u64(t, value);
}

static void put_clients(struct http__text *t, const struct app_snapshot *s,
			const struct http__limits *limits)
{
	family(t, "sessions", "gauge", "Connections of clients, by transport.");
	for (uint32_t i = 0; i < APP_TRANSPORTS; i++) {
		http__put(t, "weka_sessions{transport=\"%s\"}", app_transport_name[i]);
		put_u64(t, s->sessions_open[i]);
	}
	put_gauge(t, "sessions_limit", "Connections that there may be at once.",
		  limits->sessions_max);
	put_gauge(t, "session_credits", "Requests that one connection may have in flight.",
		  limits->credits);
	put_gauge(t, "operations_limit", "Operations that may be at work at once.", s->ops_max);
	put_gauge(t, "operations_free", "How many more may begin.", s->ops_free);
}

static void put_memory(struct http__text *t, const struct app_snapshot *s)
{
	if (!s->has_account)
		return;
	family(t, "memory_bound_bytes", "gauge", "Bound of each part of the memory.");
	for (uint32_t i = 0; i < APP_ACCOUNT_PARTS; i++) {
		http__put(t, "weka_memory_bound_bytes{part=\"%s\"}", app_account_name[i]);
		put_u64(t, s->memory_bytes[i]);
	}
}

static void put_store(struct http__text *t, const struct app_snapshot *s)
{
	put_gauge(t, "store_writable", "1: the store takes changes.",
		  s->store_health == 0 && !s->has_missing);
	put_gauge(t, "damage_complete", "1: a whole round of the scrub has looked at everything.",
		  s->sum.damage_complete);
}

static void put_known(struct http__text *t, const char *name, const char *help, bool known,
		      uint64_t value)
{
	if (known)
		put_gauge(t, name, help, value);
	else
		family(t, name, "gauge", help);
}

/* Rate and end are known only while something moves. */
static void put_rebuild(struct http__text *t, const struct app_rebuild_snapshot *r)
{
	put_gauge(t, "rebuild_left_bytes", "Live bytes still to be moved by a rebuild or a drain.",
		  r->store.left_blocks * BLOCK_SIZE);
	put_gauge(t, "rebuild_done_bytes", "Bytes that it has moved.", r->done_blocks * BLOCK_SIZE);
	put_gauge(t, "rebuild_missing_bytes", "Bytes for which the other drives lack room.",
		  app_rebuild_missing(r) * BLOCK_SIZE);
	put_gauge(t, "rebuild_stuck", "1: it does not end by itself.", app_rebuild_is_stuck(r));
	put_known(t, "rebuild_bytes_per_second", "Its rate in the last half minute.", r->measured,
		  r->blocks_per_second * BLOCK_SIZE);
	put_known(t, "rebuild_seconds_left", "Time to its end, at that rate.", r->measured,
		  r->seconds_left);
}

/* ---- drives ------------------------------------------------------------------------------ */

static bool is_shown(const struct app_drive_snapshot *d)
{
	return d->is_there || d->is_missing;
}

/* One series a state, of which one is 1. */
static void put_states(struct http__text *t, const struct app_snapshot *s, const char *name,
		       const char *label, const char *help, const char *const *state,
		       const char *(*state_of)(const struct app_drive_snapshot *))
{
	family(t, name, "gauge", help);
	for (uint32_t i = 0; i < s->ndrives; i++)
		for (const char *const *at = state; is_shown(&s->drive[i]) && *at; at++)
			http__put(t, "weka_%s{drive=\"%u\",%s=\"%s\"} %d\n", name, i, label, *at,
				  strcmp(*at, state_of(&s->drive[i])) == 0);
}

static void put_drive_info(struct http__text *t, const struct app_snapshot *s)
{
	family(t, "drive_info", "gauge", "Names of a drive.");
	for (uint32_t i = 0; i < s->ndrives; i++) {
		const struct app_drive_snapshot *d = &s->drive[i];

		if (!is_shown(d))
			continue;
		http__put(t, "weka_drive_info{drive=\"%u\",", i);
		put_label(t, "name", d->name);
		http__put(t, ",");
		put_label(t, "model", d->info.model);
		http__put(t, ",");
		put_label(t, "serial", d->info.serial);
		http__put(t, "} 1\n");
	}
}

enum of_drive { OF_ALL, OF_THERE, OF_SMART };

#define DRIVE_AT(field) offsetof(struct app_drive_snapshot, field)

/* 64-bit numbers. */
static const struct {
	struct http__family f;
	enum of_drive of;
} drive_families[] = {
	{ { "drive_size_bytes", "Capacity of the drive.", DRIVE_AT(info.nblocks), BLOCK_SIZE },
	  OF_ALL },
	{ { "drive_commands_total", "Commands.", DRIVE_AT(queues.command_count), 1 }, OF_THERE },
	{ { "drive_errors_total", "Commands that failed.", DRIVE_AT(queues.error_count), 1 },
	  OF_THERE },
	{ { "reads_hedged_total", "Reads late there, tried at another copy, too.",
	    DRIVE_AT(hedged_reads), 1 },
	  OF_THERE },
	{ { "reads_hedged_won_total", "Those that another copy was faster for.",
	    DRIVE_AT(hedged_won), 1 },
	  OF_THERE },
	{ { "drive_timeouts_total", "Commands that did not end in time.",
	    DRIVE_AT(counts.timeout_count), 1 },
	  OF_THERE },
	{ { "drive_aborts_total", "Commands that were aborted.", DRIVE_AT(counts.abort_count), 1 },
	  OF_THERE },
	{ { "drive_queue_restarts_total", "Queue pairs that were made anew.",
	    DRIVE_AT(counts.queue_restart_count), 1 },
	  OF_THERE },
	{ { "drive_resets_total", "Resets of the controller.", DRIVE_AT(counts.reset_count), 1 },
	  OF_THERE },
	{ { "drive_quarantined_bytes", "Memory that the drive may still write to.",
	    DRIVE_AT(counts.quarantined_bytes), 1 },
	  OF_THERE },
	{ { "drive_media_errors_total", "Errors of its media, over its life.",
	    DRIVE_AT(smart.media_errors), 1 },
	  OF_SMART },
	{ { "drive_unsafe_shutdowns_total", "Power cuts, over its life.",
	    DRIVE_AT(smart.unsafe_shutdowns), 1 },
	  OF_SMART },
	{ { "drive_host_written_bytes_total", "Bytes that hosts wrote, over its life.",
	    DRIVE_AT(smart.written_bytes), 1 },
	  OF_SMART },
	{ { "drive_power_on_seconds_total", "Time under power, over its life.",
	    DRIVE_AT(smart.power_hours), 3600 },
	  OF_SMART },
};

static bool has(const struct app_drive_snapshot *d, enum of_drive what)
{
	if (what == OF_ALL)
		return is_shown(d);
	return d->is_there && (what == OF_THERE || (d->has_smart && d->smart.has_temperature));
}

static void put_drive_numbers(struct http__text *t, const struct app_snapshot *s)
{
	for (size_t k = 0; k < ARRAY_LEN(drive_families); k++) {
		const struct http__family *f = &drive_families[k].f;

		family(t, f->name, is_counter(f->name) ? "counter" : "gauge", f->help);
		for (uint32_t i = 0; i < s->ndrives; i++) {
			if (!has(&s->drive[i], drive_families[k].of))
				continue;
			http__put(t, "weka_%s{drive=\"%u\"}", f->name, i);
			put_u64(t, number_at(&s->drive[i], f->at) * (uint64_t)f->factor);
		}
	}
}

/* Numbers that are narrower than 64 bits, or signed; gauges_of() fills in their values, in this
 * order. */
static const struct {
	const char *name, *help;
	enum of_drive of;
} drive_gauges[] = {
	{ "drive_zones", "Zones of the drive.", OF_ALL },
	{ "drive_zones_used", "Zones that are not empty.", OF_ALL },
	{ "drive_commands_in_flight", "Commands under way.", OF_THERE },
	{ "drive_critical_warnings", "Bits of the critical warning of its health log; 0: none.",
	  OF_SMART },
	{ "drive_temperature_celsius", "Temperature.", OF_SMART },
	{ "drive_wear_ratio", "Part of its rated life that is used; it may pass 1.", OF_SMART },
	{ "drive_spare_ratio", "Part of its spare blocks that is left.", OF_SMART },
	{ "drive_spare_threshold_ratio", "Part below which it warns of its spare.", OF_SMART },
};

static void gauges_of(const struct app_drive_snapshot *d, double out[ARRAY_LEN(drive_gauges)])
{
	const struct nvme_smart *smart = &d->smart;
	const double values[] = {
		d->store.zones,
		d->store.zones_used,
		d->in_flight,
		smart->warnings,
		smart->celsius,
		smart->used_percent / 100.0,
		smart->spare_percent / 100.0,
		smart->spare_least_percent / 100.0,
	};

	static_assert(ARRAY_LEN(values) == ARRAY_LEN(drive_gauges), "one for each");
	memcpy(out, values, sizeof(values));
}

static void put_drive_gauges(struct http__text *t, const struct app_snapshot *s)
{
	double value[ARRAY_LEN(drive_gauges)];

	for (size_t k = 0; k < ARRAY_LEN(drive_gauges); k++) {
		family(t, drive_gauges[k].name, "gauge", drive_gauges[k].help);
		for (uint32_t i = 0; i < s->ndrives; i++) {
			if (!has(&s->drive[i], drive_gauges[k].of))
				continue;
			gauges_of(&s->drive[i], value);
			http__put(t, "weka_%s{drive=\"%u\"} %g\n", drive_gauges[k].name, i,
				  value[k]);
		}
	}
}

static void put_drives(struct http__text *t, const struct app_snapshot *s)
{
	static const char *const states[] = {
		"serving", "draining", "missing", "lost", "gone", NULL
	};
	static const char *const healths[] = { "good",      "resetting", "away",    "failed",
					       "read_only", "dead",      "missing", NULL };

	put_drive_info(t, s);
	put_states(t, s, "drive_state", "state", "Use of the drive by the store.", states,
		   app_drive_state_name);
	put_states(t, s, "drive_health", "health", "How the drive is.", healths,
		   app_drive_health_name);
	put_drive_numbers(t, s);
	put_drive_gauges(t, s);
}

/* ---- all of it --------------------------------------------------------------------------- */

void http__metrics(struct http__text *t, const struct app_snapshot *s,
		   const struct http__limits *limits)
{
	family(t, "build_info", "gauge", "Version and commit of the appliance.");
	http__put(t, "weka_build_info{version=\"%s\",commit=\"%s\",variant=\"%s\"} 1\n",
		  limits->version, limits->commit, limits->variant);
	put_requests(t, &s->sum);
	put_failures(t, &s->sum);
	put_latencies(t, s);
	put_plain(t, s);
	put_store(t, s);
	put_rebuild(t, &s->rebuild);
	put_cores(t, s);
	put_load(t, s);
	put_clients(t, s, limits);
	put_memory(t, s);
	put_drives(t, s);
}
