/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Counters as JSON text, for FAB_STATUS.  Built by the polling thread itself, without memory
 * of its own; a few microseconds, when somebody asks.
 */
#include "appliance/app_op.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

static const char *const type_name[FAB_TYPE_END] = {
	[FAB_PING] = "ping",         [FAB_READ] = "read",           [FAB_READ_BATCH] = "read_batch",
	[FAB_OPEN] = "open",         [FAB_STAT] = "stat",           [FAB_LIST] = "list",
	[FAB_READLINK] = "readlink", [FAB_STATFS] = "statfs",       [FAB_STATUS] = "status",
	[FAB_PUT] = "put",           [FAB_PUT_BEGIN] = "put_begin", [FAB_PUT_COMMIT] = "put_commit",
	[FAB_WRITE] = "write",       [FAB_TRUNCATE] = "truncate",   [FAB_SETATTR] = "setattr",
	[FAB_MKDIR] = "mkdir",       [FAB_RMDIR] = "rmdir",         [FAB_UNLINK] = "unlink",
	[FAB_RENAME] = "rename",     [FAB_SYMLINK] = "symlink",     [FAB_PUT_ABORT] = "put_abort",
};

static void put_requests(struct text *t, const struct app_core_stat *s)
{
	const char *comma = "";

	put(t, "\"requests\":{");
	for (uint32_t i = FAB_PING; i < FAB_TYPE_END; i++) {
		put(t, "%s\"%s\":%llu", comma, type_name[i], (unsigned long long)s->requests[i]);
		comma = ",";
	}
	put(t, "},\"items\":%llu,\"errors\":%llu,\"cancelled\":%llu,", (unsigned long long)s->items,
	    (unsigned long long)s->errors, (unsigned long long)s->cancelled);
}

static void put_bytes(struct text *t, const struct app_core_stat *s)
{
	put(t,
	    "\"bytes\":{\"read\":%llu,\"written\":%llu,\"payload_copied\":%llu,\"inline\":%llu,"
	    "\"drive_read\":%llu,\"drive_written\":%llu},\"drive_retries\":%llu,"
	    "\"staging_lost_bytes\":%llu,",
	    (unsigned long long)s->read_bytes, (unsigned long long)s->written_bytes,
	    (unsigned long long)s->payload_copied_bytes, (unsigned long long)s->inline_bytes,
	    (unsigned long long)s->drive_read_bytes, (unsigned long long)s->drive_written_bytes,
	    (unsigned long long)s->drive_retries, (unsigned long long)s->staging_lost_bytes);
	put(t, "\"merged_blocks\":%llu,\"bad_sums\":%llu,\"bad_blocks\":%llu,",
	    (unsigned long long)s->merged_blocks, (unsigned long long)s->bad_sums,
	    (unsigned long long)s->bad_blocks);
}

static void put_core(struct text *t, const struct app_core *core, const struct app_core_stat *s)
{
	put(t,
	    "\"core\":{\"uptime_ns\":%llu,\"turns\":%llu,\"sleeps\":%llu,\"ops_max\":%u,"
	    "\"ops_free\":%u,\"staging_bytes\":%llu,\"staging_used_bytes\":%llu,"
	    "\"staging_waits\":%llu,\"busy_file_waits\":%llu},",
	    (unsigned long long)(core->now_ns - core->start_ns), (unsigned long long)s->turns,
	    (unsigned long long)s->sleeps, core->cfg.ops_max, core->op_free_count,
	    (unsigned long long)core->cfg.staging_bytes,
	    (unsigned long long)core->staging.pages_used * BLOCK_SIZE,
	    (unsigned long long)s->staging_waits, (unsigned long long)s->busy_file_waits);
}

static void put_store(struct text *t, const struct app_core *core)
{
	const struct meta_statfs *s = &core->statfs;

	put(t,
	    "\"store\":{\"health\":%d,\"total_bytes\":%llu,\"free_bytes\":%llu,\"files\":%llu,"
	    "\"zones_total\":%llu,\"zones_free\":%llu,\"orphans\":%llu,",
	    meta_health(core->meta), (unsigned long long)(s->blocks_total * BLOCK_SIZE),
	    (unsigned long long)(s->blocks_free * BLOCK_SIZE), (unsigned long long)s->files,
	    (unsigned long long)s->zones_total, (unsigned long long)s->zones_free,
	    (unsigned long long)s->orphans);
	put(t,
	    "\"cache_pages\":%llu,\"cache_pages_dirty\":%llu,\"page_reads\":%llu,"
	    "\"page_hits\":%llu,\"log_blocks\":%llu,\"checkpoints\":%llu},",
	    (unsigned long long)s->cache_pages, (unsigned long long)s->cache_pages_dirty,
	    (unsigned long long)s->page_reads, (unsigned long long)s->page_hits,
	    (unsigned long long)s->log_blocks, (unsigned long long)s->checkpoints);
}

static void put_fabric(struct text *t, const struct app_core *core)
{
	struct fab_server_stat s;

	fab_server_stat(core->cfg.srv, &s);
	put(t,
	    "\"fabric\":{\"sessions_open\":%u,\"sessions\":%llu,\"refused\":%llu,"
	    "\"protocol_errors\":%llu,\"requests\":%llu,\"replies\":%llu,\"bytes_in\":%llu,"
	    "\"bytes_out\":%llu,\"wakeups_sent\":%llu},",
	    core->sessions_open, (unsigned long long)s.sessions, (unsigned long long)s.refused,
	    (unsigned long long)s.protocol_errors, (unsigned long long)s.requests,
	    (unsigned long long)s.replies, (unsigned long long)s.bytes_in,
	    (unsigned long long)s.bytes_out, (unsigned long long)s.wakeups_sent);
}

/* What stands in a JSON string: a drive's names are its own, printable or not. */
static void put_text(struct text *t, const char *key, const char *value)
{
	put(t, "\"%s\":\"", key);
	for (; *value; value++)
		if (*value >= ' ' && *value <= '~' && *value != '"' && *value != '\\')
			put(t, "%c", *value);
	put(t, "\"");
}

static const char *const health_name[] = {
	[NVME_HEALTH_GOOD] = "good",
	[NVME_HEALTH_RESETTING] = "resetting",
	[NVME_HEALTH_READ_ONLY] = "read_only",
	[NVME_HEALTH_DEAD] = "dead",
};

/* When it went wrong, and what was done. */
static void put_trouble(struct text *t, const struct nvme_drive *drive)
{
	struct nvme_drive_counts c;

	nvme_drive_counts(drive, &c);
	put(t,
	    "\"health\":\"%s\",\"timeouts\":%llu,\"aborts\":%llu,\"queue_restarts\":%llu,"
	    "\"resets\":%llu,\"quarantined_bytes\":%llu,",
	    health_name[nvme_drive_health(drive)], (unsigned long long)c.timeout_count,
	    (unsigned long long)c.abort_count, (unsigned long long)c.queue_restart_count,
	    (unsigned long long)c.reset_count, (unsigned long long)c.quarantined_bytes);
}

/* Of a drive that has a temperature; one that is a file or memory has no health to tell of. */
static void put_smart(struct text *t, const struct nvme_drive *drive)
{
	struct nvme_smart s;

	if (!nvme_drive_smart(drive, &s) || !s.has_temperature)
		return;
	put(t,
	    "\"warnings\":%u,\"celsius\":%d,\"used_percent\":%u,\"spare_percent\":%u,"
	    "\"spare_least_percent\":%u,\"media_errors\":%llu,\"unsafe_shutdowns\":%llu,"
	    "\"power_hours\":%llu,\"host_written_bytes\":%llu,",
	    s.warnings, s.celsius, s.used_percent, s.spare_percent, s.spare_least_percent,
	    (unsigned long long)s.media_errors, (unsigned long long)s.unsafe_shutdowns,
	    (unsigned long long)s.power_hours, (unsigned long long)s.written_bytes);
}

static void put_drives(struct text *t, const struct app_core *core)
{
	struct nvme_stats s;
	struct nvme_info info;

	put(t, "\"drives\":[");
	for (uint32_t i = 0; i < core->nqps; i++) {
		nvme_qpair_stats(core->qp[i], &s);
		nvme_drive_info(core->cfg.drive[i], &info);
		put(t, "%s{", i ? "," : "");
		put_text(t, "model", info.model);
		put(t, ",");
		put_text(t, "serial", info.serial);
		put(t, ",");
		put_text(t, "note", info.note);
		put(t, ",");
		put_trouble(t, core->cfg.drive[i]);
		put_smart(t, core->cfg.drive[i]);
		put(t,
		    "\"bytes\":%llu,\"volatile_cache\":%s,\"in_flight\":%u,\"commands\":%llu,"
		    "\"doorbells\":%llu,\"errors\":%llu,\"soft_copied_bytes\":%llu,"
		    "\"syscalls\":%llu}",
		    (unsigned long long)info.nblocks * BLOCK_SIZE,
		    info.volatile_cache ? "true" : "false", nvme_qpair_in_flight(core->qp[i]),
		    (unsigned long long)s.command_count, (unsigned long long)s.ring_count,
		    (unsigned long long)s.error_count, (unsigned long long)s.soft_copied_bytes,
		    (unsigned long long)s.syscall_count);
	}
	put(t, "]");
}

uint32_t app_stat_text(const struct app_core *core, char *out, uint32_t size)
{
	struct text t = { .out = out, .size = size };
	struct app_core_stat s;

	app_core_stat(core, &s);
	put(&t, "{");
	put_requests(&t, &s);
	put_bytes(&t, &s);
	put_core(&t, core, &s);
	put_store(&t, core);
	if (core->cfg.srv)
		put_fabric(&t, core);
	put_drives(&t, core);
	put(&t, "}");
	return t.used;
}

/* ---- the request ------------------------------------------------------------------------- */

enum { STATUS_BYTES = 64 << 10 };

enum app_next app_status_step(struct app_op *op)
{
	if (op->at == 0) {
		op->at = 1;
		if (!app_op_meta(op, META_OP_STATFS))
			return APP_WAIT;
	}
	return app_op_end(op, op->meta.status);
}

void app_status_answer(struct app_op *op)
{
	char *text = op->status ? NULL : app_table_take(op->core, STATUS_BYTES);

	if (!text) {
		fab_reply(op->req, op->status ? op->status : -EAGAIN, NULL, 0);
		return;
	}
	app_text_answer(op, text, app_stat_text(op->core, text, STATUS_BYTES));
	app_table_give(op->core, text, STATUS_BYTES);
}
