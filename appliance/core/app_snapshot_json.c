/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A snapshot as JSON text: wekactl-status(5) documents each key. */
#include "appliance/core/app_alarms.h"
#include "appliance/core/app_snapshot.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/num.h"

#include <stdarg.h>
#include <stdio.h>

struct text {
	char *out;
	uint32_t size;
	uint32_t used;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *t, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(t->out + t->used, t->size - t->used, fmt, args);
	va_end(args);
	if (n > 0)
		t->used = min_u32(t->used + (uint32_t)n, t->size - 1);
}

const char *const app_transport_name[APP_TRANSPORTS] = { "shm", "tcp", "rdma" };

static void put_requests(struct text *t, const struct app_core_stat *s)
{
	const char *comma = "";

	put(t, "\"requests\":{");
	for (uint32_t i = FAB_PING; i < FAB_TYPE_END; i++) {
		put(t, "%s\"%s\":%llu", comma, app_request_name(i),
		    (unsigned long long)s->requests[i]);
		comma = ",";
	}
	put(t,
	    "},\"items\":%llu,\"errors\":%llu,\"not_found\":%llu,"
	    "\"declined\":%llu,\"cancelled\":%llu,\"busy\":%llu,",
	    (unsigned long long)s->items, (unsigned long long)s->errors,
	    (unsigned long long)s->not_found, (unsigned long long)s->declined,
	    (unsigned long long)s->cancelled, (unsigned long long)s->busy);
}

static void put_bytes(struct text *t, const struct app_core_stat *s)
{
	put(t,
	    "\"bytes\":{\"read\":%llu,\"written\":%llu,\"payload_copied\":%llu,\"inline\":%llu,"
	    "\"drive_read\":%llu,\"drive_written\":%llu},\"drive_retries\":%llu,"
	    "\"second_copy_reads\":%llu,"
	    "\"staging_lost_bytes\":%llu,",
	    (unsigned long long)s->read_bytes, (unsigned long long)s->written_bytes,
	    (unsigned long long)s->payload_copied_bytes, (unsigned long long)s->inline_bytes,
	    (unsigned long long)s->drive_read_bytes, (unsigned long long)s->drive_written_bytes,
	    (unsigned long long)s->drive_retries, (unsigned long long)s->turned_reads,
	    (unsigned long long)s->staging_lost_bytes);
	put(t, "\"merged_blocks\":%llu,\"bad_sums\":%llu,\"bad_blocks\":%llu,",
	    (unsigned long long)s->merged_blocks, (unsigned long long)s->bad_sums,
	    (unsigned long long)s->bad_blocks);
}

static void put_one_core(struct text *t, const struct app_core_snapshot *core)
{
	const struct app_core_stat *s = &core->stat;

	put(t,
	    "{\"turns\":%llu,\"sleeps\":%llu,\"slept_ns\":%llu,\"spun_ns\":%llu,"
	    "\"sessions_open\":%u,\"requests_open\":%u,\"queued\":%u,",
	    (unsigned long long)s->turns, (unsigned long long)s->sleeps,
	    (unsigned long long)s->slept_ns, (unsigned long long)s->spun_ns, core->sessions_open,
	    core->requests_open, core->queued);
	put(t,
	    "\"read_bytes\":%llu,\"written_bytes\":%llu,\"planned\":%llu,\"made\":%llu,"
	    "\"asked\":%llu,\"served\":%llu,\"bells\":%llu}",
	    (unsigned long long)s->read_bytes, (unsigned long long)s->written_bytes,
	    (unsigned long long)s->planned, (unsigned long long)s->made,
	    (unsigned long long)s->asked, (unsigned long long)s->served,
	    (unsigned long long)s->bells);
}

static void put_core(struct text *t, const struct app_snapshot *snap)
{
	const struct app_core_stat *s = &snap->sum;

	ASSERT(snap->cores <= APP_CORES_MAX && snap->ops_free <= snap->ops_max);
	put(t,
	    "\"core\":{\"uptime_ns\":%llu,\"turns\":%llu,\"sleeps\":%llu,\"ops_max\":%u,"
	    "\"ops_free\":%u,\"staging_bytes\":%llu,\"staging_used_bytes\":%llu,"
	    "\"staging_waits\":%llu,\"busy_file_waits\":%llu},",
	    (unsigned long long)snap->uptime_ns, (unsigned long long)s->turns,
	    (unsigned long long)s->sleeps, snap->ops_max, snap->ops_free,
	    (unsigned long long)snap->staging_bytes, (unsigned long long)snap->staging_used_bytes,
	    (unsigned long long)s->staging_waits, (unsigned long long)s->busy_file_waits);
	put(t, "\"cores\":[");
	for (uint32_t i = 0; i < snap->cores; i++) {
		put(t, i ? "," : "");
		put_one_core(t, &snap->core[i]);
	}
	put(t, "],");
}

static void put_buckets(struct text *t, const struct app_latency *l)
{
	uint32_t count = APP_LATENCY_BUCKETS;

	ASSERT(t->used < t->size);
	while (count > 0 && !l->bucket[count - 1])
		count--;
	put(t, "\"buckets\":[");
	for (uint32_t i = 0; i < count; i++)
		put(t, "%s%llu", i ? "," : "", (unsigned long long)l->bucket[i]);
	put(t, "]");
}

/* Writes how long requests took, of those kinds that there were. */
static void put_latency(struct text *t, const struct app_snapshot *s)
{
	const char *comma = "";

	ASSERT(t->used < t->size);
	put(t, "\"latency\":[");
	for (uint32_t i = 0; i < APP_TRANSPORTS; i++) {
		for (uint32_t k = FAB_PING; k < FAB_TYPE_END; k++) {
			const struct app_latency *l = &s->latency[i][k];

			if (!app_latency_count(l))
				continue;
			put(t, "%s{\"transport\":\"%s\",\"request\":\"%s\",\"sum_ns\":%llu,", comma,
			    app_transport_name[i], app_request_name(k),
			    (unsigned long long)l->sum_ns);
			put_buckets(t, l);
			put(t, "}");
			comma = ",";
		}
	}
	put(t, "],");
}

/* Writes a string.  A drive chooses its names itself, so it leaves out what is not printable. */
static void put_text(struct text *t, const char *key, const char *value)
{
	ASSERT(key && value);
	put(t, "\"%s\":\"", key);
	for (; *value; value++)
		if (*value >= ' ' && *value <= '~' && *value != '"' && *value != '\\')
			put(t, "%c", *value);
	put(t, "\"");
}

static void put_store(struct text *t, const struct app_snapshot *snap)
{
	const struct meta_statfs *s = &snap->statfs;

	ASSERT(snap->ndrives <= META_DRIVES_MAX);
	put(t, "\"store\":{\"health\":%d,\"uuid\":\"", snap->store_health);
	for (uint32_t i = 0; i < sizeof(snap->store_uuid); i++)
		put(t, "%02x", snap->store_uuid[i]);
	put(t, "\",");
	if (snap->has_missing)
		put(t, "\"missing_drive\":%u,", snap->missing_drive);
	put(t,
	    "\"total_bytes\":%llu,\"free_bytes\":%llu,\"files\":%llu,"
	    "\"dirs\":%llu,\"zones_total\":%llu,\"zones_free\":%llu,\"orphans\":%llu,"
	    "\"tree_entries\":%llu,\"opens\":%llu,",
	    (unsigned long long)(s->blocks_total * BLOCK_SIZE),
	    (unsigned long long)(s->blocks_free * BLOCK_SIZE), (unsigned long long)s->files,
	    (unsigned long long)s->dirs, (unsigned long long)s->zones_total,
	    (unsigned long long)s->zones_free, (unsigned long long)s->orphans,
	    (unsigned long long)s->tree_entries, (unsigned long long)s->holds);
	put(t,
	    "\"domains\":%llu,\"domains_ignored\":%s,\"one_domain_bytes\":%llu,"
	    "\"copies\":%llu,\"converts\":%s,\"sure_copies\":%llu,\"one_copy_bytes\":%llu,"
	    "\"fold\":%llu,"
	    "\"parity_protected_bytes\":%llu,\"parity_blocks\":%llu,\"protect_missing_bytes\":%llu,"
	    "\"zone_bytes\":%llu,\"zones_kept\":%llu,\"zones_log\":%llu,\"live_file_bytes\":%llu,"
	    "\"live_index_bytes\":%llu,",
	    (unsigned long long)s->domains, s->domains_few ? "true" : "false",
	    (unsigned long long)s->near_blocks * BLOCK_SIZE, (unsigned long long)s->copies,
	    s->converts ? "true" : "false", (unsigned long long)s->sure_copies,
	    (unsigned long long)s->lone_blocks * BLOCK_SIZE, (unsigned long long)s->fold,
	    (unsigned long long)s->folded_blocks * BLOCK_SIZE, (unsigned long long)s->parity_blocks,
	    (unsigned long long)s->protect_missing_blocks * BLOCK_SIZE,
	    (unsigned long long)s->zone_blocks * BLOCK_SIZE, (unsigned long long)s->kept_zones,
	    (unsigned long long)s->log_zones, (unsigned long long)s->live_blocks * BLOCK_SIZE,
	    (unsigned long long)s->live_pages * (16 << 10));
	put(t,
	    "\"cache_pages\":%llu,\"cache_pages_dirty\":%llu,\"page_reads\":%llu,"
	    "\"page_hits\":%llu,\"log_blocks\":%llu,\"log_copies\":%llu,\"checkpoints\":%llu,"
	    "\"leaves_early\":%llu,"
	    "\"data_blocks\":%llu,\"page_blocks\":%llu,\"moved_blocks\":%llu,"
	    "\"zones_collected\":%llu,\"unmovable_blocks\":%llu,\"zone_uses_least\":%llu,"
	    "\"zone_uses_most\":%llu,\"deallocated_bytes\":%llu,"
	    "\"deallocate_failures\":%llu},",
	    (unsigned long long)s->cache_pages, (unsigned long long)s->cache_pages_dirty,
	    (unsigned long long)s->page_reads, (unsigned long long)s->page_hits,
	    (unsigned long long)s->log_blocks, (unsigned long long)s->log_copies,
	    (unsigned long long)s->checkpoints, (unsigned long long)s->leaves_early,
	    (unsigned long long)s->data_blocks, (unsigned long long)s->page_blocks,
	    (unsigned long long)s->moved_blocks, (unsigned long long)s->zones_collected,
	    (unsigned long long)s->bad_blocks, (unsigned long long)s->wear_least,
	    (unsigned long long)s->wear_most,
	    (unsigned long long)s->deallocated_blocks * BLOCK_SIZE,
	    (unsigned long long)s->deallocate_failures);
}

static void put_scrub(struct text *t, const struct app_snapshot *snap, uint32_t show)
{
	const struct app_core_stat *s = &snap->sum;

	if (!s->scrub_rate)
		return;
	put(t,
	    "\"scrub\":{\"bytes_per_second\":%llu,\"rounds\":%llu,\"pages\":%llu,\"blocks\":%llu,"
	    "\"bad_pages\":%llu,\"bad_blocks\":%llu,\"unreachable_pages\":%llu,"
	    "\"unreachable_blocks\":%llu,\"healed\":%llu,\"position_percent\":%llu,"
	    "\"last_round_end_s\":%llu",
	    (unsigned long long)s->scrub_rate, (unsigned long long)s->scrub_rounds,
	    (unsigned long long)s->scrub_pages, (unsigned long long)s->scrub_blocks,
	    (unsigned long long)s->scrub_bad_pages, (unsigned long long)s->scrub_bad_blocks,
	    (unsigned long long)s->scrub_unreachable_pages,
	    (unsigned long long)s->scrub_unreachable_blocks, (unsigned long long)s->scrub_healed,
	    (unsigned long long)s->scrub_permille / 10,
	    (unsigned long long)(s->scrub_ended_ns / NS_PER_S));
	if (show & APP_SHOW_FILES && *snap->scrub_line) {
		put(t, ",");
		put_text(t, "last_found", snap->scrub_line);
	}
	put(t, "},");
}

/* Writes what the store moves, if it does. */
static void put_rebuild(struct text *t, const struct app_rebuild_snapshot *r)
{
	const struct meta_rebuild *s = &r->store;

	if (s->what == META_REBUILD_NONE)
		return;
	put(t, "\"rebuild\":{\"what\":\"%s\",", app_rebuild_what_name(r));
	if (s->drive < META_DRIVES_MAX)
		put(t, "\"drive\":%u,", s->drive);
	put(t,
	    "\"state\":\"%s\",\"left_bytes\":%llu,\"done_bytes\":%llu,\"missing_bytes\":%llu,"
	    "\"unreadable_bytes\":%llu,\"age_s\":%llu",
	    app_rebuild_state_name(r), (unsigned long long)s->left_blocks * BLOCK_SIZE,
	    (unsigned long long)r->done_blocks * BLOCK_SIZE,
	    (unsigned long long)app_rebuild_missing(r) * BLOCK_SIZE,
	    (unsigned long long)s->kept_blocks * BLOCK_SIZE,
	    (unsigned long long)(r->age_ns / NS_PER_S));
	if (r->limit)
		put(t, ",\"limit_bytes_per_second\":%llu", (unsigned long long)r->limit);
	if (r->measured)
		put(t, ",\"bytes_per_second\":%llu,\"seconds_left\":%llu",
		    (unsigned long long)r->blocks_per_second * BLOCK_SIZE,
		    (unsigned long long)r->seconds_left);
	put(t, "},");
}

/* Writes the totals of the list of damaged files. */
static void put_damage(struct text *t, const struct app_core_stat *s)
{
	put(t,
	    "\"damage\":{\"files\":%llu,\"blocks\":%llu,\"unreachable_files\":%llu,"
	    "\"unreachable_blocks\":%llu,\"pages\":%llu,\"complete\":%s},",
	    (unsigned long long)s->damaged_files, (unsigned long long)s->damaged_blocks,
	    (unsigned long long)s->unreachable_files, (unsigned long long)s->unreachable_blocks,
	    (unsigned long long)s->damaged_pages, s->damage_complete ? "true" : "false");
}

static void put_fabric(struct text *t, const struct app_snapshot *snap)
{
	const struct fab_server_stat *s = &snap->fabric;
	uint32_t open = 0;

	for (uint32_t i = 0; i < APP_TRANSPORTS; i++)
		open += snap->sessions_open[i];
	put(t, "\"fabric\":{\"sessions_open\":%u,", open);
	for (uint32_t i = 0; i < APP_TRANSPORTS; i++)
		put(t, "\"%s_sessions\":%u,", app_transport_name[i], snap->sessions_open[i]);
	put(t,
	    "\"sessions\":%llu,\"refused\":%llu,\"refused_logins\":%llu,"
	    "\"protocol_errors\":%llu,\"requests\":%llu,\"replies\":%llu,\"bytes_in\":%llu,"
	    "\"bytes_out\":%llu,\"wakeups_sent\":%llu},",
	    (unsigned long long)s->sessions, (unsigned long long)s->refused,
	    (unsigned long long)s->refused_logins, (unsigned long long)s->protocol_errors,
	    (unsigned long long)s->requests, (unsigned long long)s->replies,
	    (unsigned long long)s->bytes_in, (unsigned long long)s->bytes_out,
	    (unsigned long long)s->wakeups_sent);
}

static void put_memory(struct text *t, const struct app_snapshot *s)
{
	uint64_t bytes = 0;

	ASSERT(t->used < t->size);
	if (!s->has_account)
		return;
	for (uint32_t i = 0; i < APP_ACCOUNT_PARTS; i++)
		bytes += s->memory_bytes[i];
	put(t, "\"memory\":{\"max_bytes\":%llu,\"at_most_bytes\":%llu",
	    (unsigned long long)s->memory_max_bytes, (unsigned long long)bytes);
	for (uint32_t i = 0; i < APP_ACCOUNT_PARTS; i++)
		put(t, ",\"%s_bytes\":%llu", app_account_name[i],
		    (unsigned long long)s->memory_bytes[i]);
	put(t, "},");
}

static const char *const health_name[] = {
	[NVME_HEALTH_GOOD] = "good", [NVME_HEALTH_RESETTING] = "resetting",
	[NVME_HEALTH_AWAY] = "away", [NVME_HEALTH_READ_ONLY] = "read_only",
	[NVME_HEALTH_DEAD] = "dead",
};

const char *app_drive_health_name(const struct app_drive_snapshot *d)
{
	ASSERT(d->health < ARRAY_LEN(health_name));
	if (d->is_missing)
		return "missing";
	if (d->health == NVME_HEALTH_GOOD && (d->failed || d->no_writes))
		return "failed";
	return health_name[d->health];
}

const char *app_drive_state_name(const struct app_drive_snapshot *d)
{
	if (d->store.gone)
		return "gone";
	if (d->store.missing)
		return "missing";
	if (d->store.lost)
		return "lost";
	return d->store.draining ? "draining" : "serving";
}

/* Writes counts of errors and of the reactions to them. */
static void put_trouble(struct text *t, const struct app_drive_snapshot *d)
{
	const struct nvme_drive_counts *c = &d->counts;

	ASSERT(t->used < t->size);
	if (d->failed || d->no_writes)
		put(t, "\"failing\":\"%s\",", d->failed ? "reads" : "writes");

	put(t,
	    "\"health\":\"%s\",\"timeouts\":%llu,\"aborts\":%llu,\"queue_restarts\":%llu,"
	    "\"resets\":%llu,\"quarantined_bytes\":%llu,",
	    app_drive_health_name(d), (unsigned long long)c->timeout_count,
	    (unsigned long long)c->abort_count, (unsigned long long)c->queue_restart_count,
	    (unsigned long long)c->reset_count, (unsigned long long)c->quarantined_bytes);
}

/* Writes the health log of a drive that has a temperature; a file or memory has none. */
static void put_smart(struct text *t, const struct app_drive_snapshot *d)
{
	const struct nvme_smart *s = &d->smart;

	if (!d->has_smart || !s->has_temperature)
		return;
	put(t,
	    "\"warnings\":%u,\"celsius\":%d,\"used_percent\":%u,\"spare_percent\":%u,"
	    "\"spare_least_percent\":%u,\"media_errors\":%llu,\"unsafe_shutdowns\":%llu,"
	    "\"power_hours\":%llu,\"host_written_bytes\":%llu,",
	    s->warnings, s->celsius, s->used_percent, s->spare_percent, s->spare_least_percent,
	    (unsigned long long)s->media_errors, (unsigned long long)s->unsafe_shutdowns,
	    (unsigned long long)s->power_hours, (unsigned long long)s->written_bytes);
}

/* Writes the store's share of the drive, and whether that will change. */
static void put_place(struct text *t, const struct app_drive_snapshot *d)
{
	const struct meta_drive_stat *s = &d->store;

	put(t, "\"state\":\"%s\",\"zones\":%u,\"zones_used\":%u,\"roots\":%s,",
	    app_drive_state_name(d), s->zones, s->zones_used, s->roots ? "true" : "false");
	if (s->counted)
		put(t, "\"live_bytes\":%llu,\"unmoved_bytes\":%llu,",
		    (unsigned long long)(s->live_blocks * BLOCK_SIZE),
		    (unsigned long long)(s->kept_blocks * BLOCK_SIZE));
}

static void put_queues(struct text *t, const struct app_drive_snapshot *d)
{
	const struct nvme_stats *q = &d->queues;

	put(t,
	    "\"bytes\":%llu,\"volatile_cache\":%s,\"in_flight\":%u,\"commands\":%llu,"
	    "\"doorbells\":%llu,\"errors\":%llu,\"hedged_reads\":%llu,"
	    "\"hedged_reads_won\":%llu,\"soft_copied_bytes\":%llu,"
	    "\"syscalls\":%llu}",
	    (unsigned long long)d->info.nblocks * BLOCK_SIZE,
	    d->info.volatile_cache ? "true" : "false", d->in_flight,
	    (unsigned long long)q->command_count, (unsigned long long)q->ring_count,
	    (unsigned long long)q->error_count, (unsigned long long)d->hedged_reads,
	    (unsigned long long)d->hedged_won, (unsigned long long)q->soft_copied_bytes,
	    (unsigned long long)q->syscall_count);
}

static void put_drive(struct text *t, const struct app_drive_snapshot *d, uint32_t number,
		      uint32_t show)
{
	ASSERT(number < META_DRIVES_MAX);
	put(t, "{\"number\":%u,", number);
	if (show & APP_SHOW_DRIVES) {
		put_text(t, "name", d->name);
		put(t, ",");
	}
	if (*d->domain && show & APP_SHOW_DRIVES) {
		put_text(t, "domain", d->domain);
		put(t, ",");
	}
	put_place(t, d);
	if (d->is_missing) { /* nothing can be asked of it */
		put(t, "\"health\":\"missing\",\"bytes\":%llu}",
		    (unsigned long long)d->info.nblocks * BLOCK_SIZE);
		return;
	}
	put_text(t, "model", d->info.model);
	put(t, ",");
	put_text(t, "serial", d->info.serial);
	put(t, ",");
	put_text(t, "note", d->info.note);
	put(t, ",");
	put_trouble(t, d);
	put_smart(t, d);
	put_queues(t, d);
}

static void put_drives(struct text *t, const struct app_snapshot *s, uint32_t show)
{
	const char *comma = "";

	ASSERT(s->ndrives <= META_DRIVES_MAX);
	put(t, "\"drives\":[");
	for (uint32_t i = 0; i < s->ndrives; i++) {
		if (!s->drive[i].is_there && !s->drive[i].is_missing)
			continue;
		put(t, "%s", comma);
		put_drive(t, &s->drive[i], i, show);
		comma = ",";
	}
	put(t, "]");
}

/* Its texts are printable, and without quotes: fab_report_parse(). */
static void put_job(struct text *t, const struct fab_report *r, uint64_t age_ns)
{
	put(t,
	    ",\"job\":{\"dataset\":\"%s\",\"rank\":%u,\"world\":%u,\"samples\":%llu,"
	    "\"samples_total\":%llu,\"bytes\":%llu,",
	    r->dataset, r->rank, r->world, (unsigned long long)r->samples,
	    (unsigned long long)r->samples_total, (unsigned long long)r->bytes);
	put(t, "\"open_ns\":%llu,\"waited_ns\":%llu,\"verdict\":\"%s\",\"report_age_ns\":%llu}",
	    (unsigned long long)r->open_ns, (unsigned long long)r->waited_ns, r->verdict,
	    (unsigned long long)age_ns);
}

static void put_client(struct text *t, const struct app_client_snapshot *c)
{
	put(t, "{\"session\":\"%llx\",\"lane\":%u,\"core\":%u,\"transport\":\"%s\",",
	    (unsigned long long)c->session, c->lane, c->core, app_transport_name[c->over]);
	put_text(t, "key", c->key);
	put(t, ",");
	put_text(t, "peer", c->peer);
	put(t,
	    ",\"connected_ns\":%llu,\"requests\":%llu,\"read_bytes\":%llu,\"written_bytes\":%llu,"
	    "\"credits\":%u,\"running\":%u,\"queued\":%u,\"opens\":%u",
	    (unsigned long long)c->age_ns, (unsigned long long)c->requests,
	    (unsigned long long)c->read_bytes, (unsigned long long)c->written_bytes, c->credits,
	    c->running, c->queued, c->opens);
	if (c->report_age_ns != UINT64_MAX)
		put_job(t, &c->report, c->report_age_ns);
	put(t, "}");
}

static void put_clients(struct text *t, const struct app_snapshot *s)
{
	put(t, ",\"clients\":[");
	for (uint32_t i = 0; i < s->clients; i++) {
		put(t, i ? "," : "");
		put_client(t, &s->client[i]);
	}
	put(t, "],\"clients_left_out\":%u", s->clients_left_out);
}

static void put_alarms(struct text *t, const struct app_snapshot *s)
{
	struct app_alarm alarm[APP_ALARMS_MAX];
	const uint32_t count = app_alarms(s, alarm);

	ASSERT(s->ndrives <= META_DRIVES_MAX);
	put(t, "\"alarms\":[");
	for (uint32_t i = 0; i < count; i++) {
		put(t, "%s{\"id\":\"%s\",\"severity\":\"%s\",", i ? "," : "", alarm[i].id,
		    alarm[i].critical ? "critical" : "warning");
		put(t, "\"text\":\"%s\",\"action\":\"%s\"}", alarm[i].text, alarm[i].action);
	}
	put(t, "],");
}

uint32_t app_snapshot_json(const struct app_snapshot *s, uint32_t show, char *out,
			   uint32_t size_bytes)
{
	struct text t = { .out = out, .size = size_bytes };

	ASSERT(size_bytes > 1);
	put(&t, "{");
	put_alarms(&t, s);
	put_requests(&t, &s->sum);
	put_bytes(&t, &s->sum);
	put_core(&t, s);
	put_latency(&t, s);
	put_store(&t, s);
	put_rebuild(&t, &s->rebuild);
	put_scrub(&t, s, show);
	put_damage(&t, &s->sum);
	put_fabric(&t, s);
	put_memory(&t, s);
	put_drives(&t, s, show);
	if (show & APP_SHOW_CLIENTS)
		put_clients(&t, s);
	put(&t, "}");
	ASSERT(t.used < size_bytes);
	return t.used;
}
