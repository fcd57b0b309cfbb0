/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Counters as JSON text, for FAB_STATUS.  The polling thread builds it itself, without memory of
 * its own; it takes a few microseconds for each request.
 *
 *   statfs of the store --> this core adds its counters --> each other core adds its own --> text
 *
 * The sum is in a table of the operation's core, and goes round with the operation.
 *
 * A key without full rights gets no paths: neither of damaged files, nor of drives on the
 * appliance's machine.  (A key with a subtree gets nothing: app_rights.c.)
 */
#include "appliance/core/app_account.h"
#include "appliance/media/app_lines.h"
#include "appliance/media/app_missing.h"
#include "appliance/core/app_op.h"
#include "base/clock.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static_assert(sizeof(struct app_core_stat) % sizeof(uint64_t) == 0 &&
		      sizeof(struct fab_server_stat) % sizeof(uint64_t) == 0 &&
		      sizeof(struct nvme_stats) % sizeof(uint64_t) == 0,
	      "counters, and nothing else: add()");

struct drive_sum {
	struct nvme_stats queues;
	uint32_t in_flight;
	enum nvme_health health;
	bool has_smart;
	struct nvme_smart smart;
	struct nvme_drive_counts counts;
	struct meta_drive_stat store;
	bool failed;    /* nothing can be read from it: app_failing.c   */
	bool no_writes; /* it refuses all writes, of one core at least */
};

struct sum {
	uint32_t cores; /* cores that have added their counters */
	struct app_core_stat core;
	struct app_core_stat of[APP_CORES_MAX];
	uint64_t uptime_ns;
	uint32_t ops_max, ops_free;
	uint64_t staging_bytes, staging_used_bytes;
	int store_health;
	struct meta_statfs statfs;
	uint32_t sessions_open;
	struct fab_server_stat fabric;
	struct drive_sum drive[META_DRIVES_MAX];
	char scrub_line[APP_LINE_SIZE];
};

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
	[FAB_PING] = "ping",
	[FAB_READ] = "read",
	[FAB_READ_BATCH] = "read_batch",
	[FAB_OPEN] = "open",
	[FAB_STAT] = "stat",
	[FAB_LIST] = "list",
	[FAB_READLINK] = "readlink",
	[FAB_STATFS] = "statfs",
	[FAB_TOTALS] = "totals",
	[FAB_STATUS] = "status",
	[FAB_PUT] = "put",
	[FAB_PUT_BEGIN] = "put_begin",
	[FAB_PUT_COMMIT] = "put_commit",
	[FAB_WRITE] = "write",
	[FAB_TRUNCATE] = "truncate",
	[FAB_SETATTR] = "setattr",
	[FAB_MKDIR] = "mkdir",
	[FAB_RMDIR] = "rmdir",
	[FAB_UNLINK] = "unlink",
	[FAB_RENAME] = "rename",
	[FAB_SYMLINK] = "symlink",
	[FAB_PUT_ABORT] = "put_abort",
	[FAB_LINK] = "link",
	[FAB_PUNCH] = "punch",
	[FAB_SEEK] = "seek",
	[FAB_RMTREE] = "rmtree",
	[FAB_XATTR_GET] = "xattr_get",
	[FAB_XATTR_SET] = "xattr_set",
	[FAB_XATTR_LIST] = "xattr_list",
	[FAB_XATTR_DEL] = "xattr_del",
	[FAB_UNLINK_BATCH] = "unlink_batch",
	[FAB_DRAIN] = "drain",
	[FAB_UNDRAIN] = "undrain",
	[FAB_HOLD] = "hold",
	[FAB_LET_GO] = "let_go",
	[FAB_CHECK] = "check",
	[FAB_DAMAGED] = "damaged",
};

static void put_requests(struct text *t, const struct app_core_stat *s)
{
	const char *comma = "";

	put(t, "\"requests\":{");
	for (uint32_t i = FAB_PING; i < FAB_TYPE_END; i++) {
		put(t, "%s\"%s\":%llu", comma, type_name[i], (unsigned long long)s->requests[i]);
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
	    "\"staging_lost_bytes\":%llu,",
	    (unsigned long long)s->read_bytes, (unsigned long long)s->written_bytes,
	    (unsigned long long)s->payload_copied_bytes, (unsigned long long)s->inline_bytes,
	    (unsigned long long)s->drive_read_bytes, (unsigned long long)s->drive_written_bytes,
	    (unsigned long long)s->drive_retries, (unsigned long long)s->staging_lost_bytes);
	put(t, "\"merged_blocks\":%llu,\"bad_sums\":%llu,\"bad_blocks\":%llu,",
	    (unsigned long long)s->merged_blocks, (unsigned long long)s->bad_sums,
	    (unsigned long long)s->bad_blocks);
}

static void put_core(struct text *t, const struct sum *sum)
{
	const struct app_core_stat *s = &sum->core;

	put(t,
	    "\"core\":{\"uptime_ns\":%llu,\"turns\":%llu,\"sleeps\":%llu,\"ops_max\":%u,"
	    "\"ops_free\":%u,\"staging_bytes\":%llu,\"staging_used_bytes\":%llu,"
	    "\"staging_waits\":%llu,\"busy_file_waits\":%llu},",
	    (unsigned long long)sum->uptime_ns, (unsigned long long)s->turns,
	    (unsigned long long)s->sleeps, sum->ops_max, sum->ops_free,
	    (unsigned long long)sum->staging_bytes, (unsigned long long)sum->staging_used_bytes,
	    (unsigned long long)s->staging_waits, (unsigned long long)s->busy_file_waits);
	put(t, "\"cores\":[");
	for (uint32_t i = 0; i < sum->cores; i++) {
		s = &sum->of[i];
		put(t,
		    "%s{\"turns\":%llu,\"sleeps\":%llu,\"read_bytes\":%llu,"
		    "\"written_bytes\":%llu,\"planned\":%llu,\"made\":%llu,\"asked\":%llu,"
		    "\"served\":%llu,\"bells\":%llu}",
		    i ? "," : "", (unsigned long long)s->turns, (unsigned long long)s->sleeps,
		    (unsigned long long)s->read_bytes, (unsigned long long)s->written_bytes,
		    (unsigned long long)s->planned, (unsigned long long)s->made,
		    (unsigned long long)s->asked, (unsigned long long)s->served,
		    (unsigned long long)s->bells);
	}
	put(t, "],");
}

/* Writes a JSON string: a drive may have any bytes in its names. */
static void put_text(struct text *t, const char *key, const char *value)
{
	put(t, "\"%s\":\"", key);
	for (; *value; value++)
		if (*value >= ' ' && *value <= '~' && *value != '"' && *value != '\\')
			put(t, "%c", *value);
	put(t, "\"");
}

static void put_store(struct text *t, const struct app_core *core, const struct sum *sum)
{
	const struct meta_statfs *s = &sum->statfs;

	put(t, "\"store\":{\"health\":%d,", sum->store_health);
	if (core->cfg.missing)
		put(t, "\"missing_drive\":%u,", core->cfg.missing->drive);
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
	    (unsigned long long)s->wear_most, (unsigned long long)s->told_blocks * BLOCK_SIZE,
	    (unsigned long long)s->told_failures);
}

static void put_scrub(struct text *t, const struct sum *sum, bool paths)
{
	const struct app_core_stat *s = &sum->core;

	if (!s->scrub_rate)
		return;
	put(t,
	    "\"scrub\":{\"bytes_per_second\":%llu,\"rounds\":%llu,\"pages\":%llu,\"blocks\":%llu,"
	    "\"bad_pages\":%llu,\"bad_blocks\":%llu,\"unreachable_pages\":%llu,"
	    "\"unreachable_blocks\":%llu,\"position_percent\":%llu,\"last_round_end_s\":%llu",
	    (unsigned long long)s->scrub_rate, (unsigned long long)s->scrub_rounds,
	    (unsigned long long)s->scrub_pages, (unsigned long long)s->scrub_blocks,
	    (unsigned long long)s->scrub_bad_pages, (unsigned long long)s->scrub_bad_blocks,
	    (unsigned long long)s->scrub_unreachable_pages,
	    (unsigned long long)s->scrub_unreachable_blocks,
	    (unsigned long long)s->scrub_permille / 10,
	    (unsigned long long)(s->scrub_ended_ns / NS_PER_S));
	if (paths && *sum->scrub_line) {
		put(t, ",");
		put_text(t, "last_found", sum->scrub_line);
	}
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

static void put_fabric(struct text *t, const struct sum *sum)
{
	const struct fab_server_stat *s = &sum->fabric;

	put(t,
	    "\"fabric\":{\"sessions_open\":%u,\"sessions\":%llu,\"refused\":%llu,"
	    "\"protocol_errors\":%llu,\"requests\":%llu,\"replies\":%llu,\"bytes_in\":%llu,"
	    "\"bytes_out\":%llu,\"wakeups_sent\":%llu},",
	    sum->sessions_open, (unsigned long long)s->sessions, (unsigned long long)s->refused,
	    (unsigned long long)s->protocol_errors, (unsigned long long)s->requests,
	    (unsigned long long)s->replies, (unsigned long long)s->bytes_in,
	    (unsigned long long)s->bytes_out, (unsigned long long)s->wakeups_sent);
}

static void put_memory(struct text *t, const struct app_account *a)
{
	if (!a)
		return;
	put(t, "\"memory\":{\"max_bytes\":%llu,\"at_most_bytes\":%llu",
	    (unsigned long long)a->max_bytes, (unsigned long long)app_account_total(a));
	for (uint32_t i = 0; i < APP_ACCOUNT_PARTS; i++)
		put(t, ",\"%s_bytes\":%llu", app_account_name[i],
		    (unsigned long long)atomic_load_explicit(&a->part_bytes[i],
							     memory_order_relaxed));
	put(t, "},");
}

static const char *const health_name[] = {
	[NVME_HEALTH_GOOD] = "good", [NVME_HEALTH_RESETTING] = "resetting",
	[NVME_HEALTH_AWAY] = "away", [NVME_HEALTH_READ_ONLY] = "read_only",
	[NVME_HEALTH_DEAD] = "dead",
};

static const char *health_of(const struct drive_sum *d)
{
	if (d->health == NVME_HEALTH_GOOD && (d->failed || d->no_writes))
		return "failed";
	return health_name[d->health];
}

/* Writes counts of errors and of the reactions to them. */
static void put_trouble(struct text *t, const struct drive_sum *sum)
{
	const struct nvme_drive_counts *c = &sum->counts;

	if (sum->failed || sum->no_writes)
		put(t, "\"failing\":\"%s\",", sum->failed ? "reads" : "writes");

	put(t,
	    "\"health\":\"%s\",\"timeouts\":%llu,\"aborts\":%llu,\"queue_restarts\":%llu,"
	    "\"resets\":%llu,\"quarantined_bytes\":%llu,",
	    health_of(sum), (unsigned long long)c->timeout_count,
	    (unsigned long long)c->abort_count, (unsigned long long)c->queue_restart_count,
	    (unsigned long long)c->reset_count, (unsigned long long)c->quarantined_bytes);
}

/* Writes the health of a drive with a health log; files and memory have none. */
static void put_smart(struct text *t, const struct drive_sum *sum)
{
	const struct nvme_smart *s = &sum->smart;

	if (!sum->has_smart || !s->has_temperature)
		return;
	put(t,
	    "\"warnings\":%u,\"celsius\":%d,\"used_percent\":%u,\"spare_percent\":%u,"
	    "\"spare_least_percent\":%u,\"media_errors\":%llu,\"unsafe_shutdowns\":%llu,"
	    "\"power_hours\":%llu,\"host_written_bytes\":%llu,",
	    s->warnings, s->celsius, s->used_percent, s->spare_percent, s->spare_least_percent,
	    (unsigned long long)s->media_errors, (unsigned long long)s->unsafe_shutdowns,
	    (unsigned long long)s->power_hours, (unsigned long long)s->written_bytes);
}

static bool is_missing(const struct app_core *core, uint32_t i)
{
	return core->cfg.missing && core->cfg.missing->drive == i;
}

/* Writes the store's share of the drive, and whether that will change. */
static void put_place(struct text *t, const struct meta_drive_stat *s)
{
	put(t,
	    "\"state\":\"%s\",\"zones\":%u,\"zones_used\":%u,\"live_bytes\":%llu,"
	    "\"unmoved_bytes\":%llu,\"roots\":%s,",
	    s->gone       ? "gone"
	    : s->missing  ? "missing"
	    : s->draining ? "draining"
			  : "serving",
	    s->zones, s->zones_used, (unsigned long long)(s->live_blocks * BLOCK_SIZE),
	    (unsigned long long)(s->kept_blocks * BLOCK_SIZE), s->roots ? "true" : "false");
}

/* One that allow_missing lets be: nothing can be asked of it. */
static void put_missing(struct text *t, const struct app_core *core, const struct drive_sum *d,
			uint32_t i, bool paths)
{
	put(t, "{\"number\":%u,", i);
	if (paths) {
		put_text(t, "name", core->cfg.drive_name ? core->cfg.drive_name[i] : "");
		put(t, ",");
	}
	put_place(t, &d->store);
	put(t, "\"health\":\"missing\",\"bytes\":%llu}",
	    (unsigned long long)core->cfg.missing->nblocks * BLOCK_SIZE);
}

static void put_drives(struct text *t, const struct app_core *core, const struct sum *sum,
		       bool paths)
{
	const char *comma = "";
	struct nvme_info info;

	put(t, "\"drives\":[");
	for (uint32_t i = 0; i < core->nqps; i++) {
		const struct drive_sum *d = &sum->drive[i];

		if (!core->qp[i] && !is_missing(core, i))
			continue;
		put(t, "%s", comma);
		comma = ",";
		if (!core->qp[i]) {
			put_missing(t, core, d, i, paths);
			continue;
		}
		nvme_drive_info(core->cfg.drive[i], &info);
		put(t, "{\"number\":%u,", i);
		if (paths) {
			put_text(t, "name", core->cfg.drive_name ? core->cfg.drive_name[i] : "");
			put(t, ",");
		}
		put_place(t, &d->store);
		put_text(t, "model", info.model);
		put(t, ",");
		put_text(t, "serial", info.serial);
		put(t, ",");
		put_text(t, "note", info.note);
		put(t, ",");
		put_trouble(t, d);
		put_smart(t, d);
		put(t,
		    "\"bytes\":%llu,\"volatile_cache\":%s,\"in_flight\":%u,\"commands\":%llu,"
		    "\"doorbells\":%llu,\"errors\":%llu,\"soft_copied_bytes\":%llu,"
		    "\"syscalls\":%llu}",
		    (unsigned long long)info.nblocks * BLOCK_SIZE,
		    info.volatile_cache ? "true" : "false", d->in_flight,
		    (unsigned long long)d->queues.command_count,
		    (unsigned long long)d->queues.ring_count,
		    (unsigned long long)d->queues.error_count,
		    (unsigned long long)d->queues.soft_copied_bytes,
		    (unsigned long long)d->queues.syscall_count);
	}
	put(t, "]");
}

/* Returns its length, at most size - 1. */
static uint32_t build(const struct app_op *op, char *out, uint32_t size)
{
	const struct app_core *core = op->core;
	const struct sum *sum = (const struct sum *)(const void *)op->sums;
	const bool paths = op->session->who.gids == 0;
	struct text t = { .out = out, .size = size };

	put(&t, "{");
	put_requests(&t, &sum->core);
	put_bytes(&t, &sum->core);
	put_core(&t, sum);
	put_store(&t, core, sum);
	put_scrub(&t, sum, paths);
	put_damage(&t, &sum->core);
	put_fabric(&t, sum);
	put_memory(&t, core->cfg.account);
	put_drives(&t, core, sum, paths);
	put(&t, "}");
	return t.used;
}

/* ---- the sum ------------------------------------------------------------------------------ */

void app_stat_ended(struct app_core *core, int status)
{
	switch (status) {
	case -ENOENT:
	case -ENODATA: /* no such attribute, no more data */
	case -ESTALE:  /* the handle's file has gone      */
		core->stat.not_found++;
		break;
	case -EEXIST:
	case -ENOTEMPTY:
	case -ENOTDIR:
	case -EISDIR:
	case -ELOOP:
	case -ERANGE:
	case -EMSGSIZE: /* it did not fit the client's window: it asks again */
	case -ECANCELED:
		core->stat.declined++;
		break;
	default:
		core->stat.errors++;
	}
}

static void add(void *to, const void *from, size_t size)
{
	uint64_t *sum = to;
	const uint64_t *more = from;

	for (size_t i = 0; i < size / sizeof(*sum); i++)
		sum[i] += more[i];
}

static void add_drives(const struct app_core *core, struct sum *sum)
{
	struct nvme_stats s;

	for (uint32_t i = 0; i < core->nqps; i++) {
		struct drive_sum *d = &sum->drive[i];

		if (is_missing(core, i) && core->meta)
			meta_drive_stat(core->meta, i, &d->store);
		if (!core->qp[i])
			continue;
		nvme_qpair_stats(core->qp[i], &s);
		add(&d->queues, &s, sizeof(s));
		d->in_flight += nvme_qpair_in_flight(core->qp[i]);
		d->no_writes |= app_media_refuses_writes(&core->media, i);
		if (core->index > 0) /* its owner adds the rest */
			continue;
		d->health = nvme_drive_health(core->cfg.drive[i]);
		d->failed = core->failing.failed >> i & 1;
		d->has_smart = nvme_drive_smart(core->cfg.drive[i], &d->smart);
		nvme_drive_counts(core->cfg.drive[i], &d->counts);
		if (core->meta)
			meta_drive_stat(core->meta, i, &d->store);
	}
}

void app_stat_add(struct app_core *core, struct app_op *op)
{
	struct sum *sum = (struct sum *)(void *)op->sums;
	struct app_core_stat *own = &sum->of[core->index];
	struct fab_server_stat fabric;

	app_core_stat(core, own);
	add(&sum->core, own, sizeof(*own));
	sum->cores++;
	sum->ops_max += core->cfg.ops_max;
	sum->ops_free += core->op_free_count;
	sum->staging_bytes += core->cfg.staging_bytes;
	sum->staging_used_bytes += (uint64_t)core->staging.pages_used * BLOCK_SIZE;
	if (core->meta) {
		sum->uptime_ns = core->now_ns - core->start_ns;
		sum->store_health = meta_health(core->meta);
		(void)snprintf(sum->scrub_line, sizeof(sum->scrub_line), "%s",
			       app_core_scrub_line(core));
	}
	fab_server_stat(core->cfg.srv, &fabric);
	sum->sessions_open += core->sessions_open;
	add(&sum->fabric, &fabric, sizeof(fabric));
	add_drives(core, sum);
}

/* ---- the request ------------------------------------------------------------------------- */

enum { STATUS_BYTES = 64 << 10 };
enum status_at { STATUS_ACCEPTED, STATUS_STORE_KNOWN, STATUS_CORES_ADD };

/* The next core that has not added its share; itself is one of them. */
static enum app_next status_add(struct app_op *op, struct sum *sum)
{
	struct app_core *core = op->core;

	while (sum->cores < (core->cores ? core->cores->count : 1)) {
		if (sum->cores != core->index) {
			op->on = APP_ON_META;
			op->asks_out++;
			app_cores_say(core, sum->cores,
				      (struct app_message){ { .op = op }, APP_SAY_STAT });
			return APP_WAIT;
		}
		app_stat_add(core, op);
	}
	return app_op_end(op, 0);
}

enum app_next app_status_step(struct app_op *op)
{
	struct sum *sum;

	if (op->req->type == FAB_DAMAGED)
		return app_damaged_step(op);
	switch ((enum status_at)op->at) {
	case STATUS_ACCEPTED:
		op->at = STATUS_STORE_KNOWN;
		if (!app_op_meta(op, META_OP_STATFS))
			return APP_WAIT;
		wk_fallthrough;

	case STATUS_STORE_KNOWN:
		op->sums = op->meta.status ? NULL
					   : app_table_take(op->core, op->session, sizeof(*sum));
		if (!op->sums)
			return app_op_end(op, op->meta.status ? op->meta.status : -EAGAIN);
		op->sums_bytes = sizeof(*sum);
		sum = memset(op->sums, 0, sizeof(*sum));
		sum->statfs = *op->meta.statfs;
		op->at = STATUS_CORES_ADD;
		wk_fallthrough;

	case STATUS_CORES_ADD:
		return status_add(op, (struct sum *)(void *)op->sums);
	}
	UNREACHABLE();
}

void app_status_answer(struct app_op *op)
{
	char *text;

	if (op->req->type == FAB_DAMAGED) {
		app_damaged_answer(op);
		return;
	}
	text = op->status ? NULL : app_table_take(op->core, op->session, STATUS_BYTES);
	if (!text) {
		fab_reply(op->req, op->status ? op->status : -EAGAIN, NULL, 0);
		return;
	}
	app_text_answer(op, text, build(op, text, STATUS_BYTES));
	app_table_give(op->core, op->session, text, STATUS_BYTES);
}
