/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The snapshot of all counters (app_snapshot.h), for FAB_STATUS and for threads that ask
 * (app_ask.h).  Each polling thread adds its own, without memory of its own: some microseconds, for
 * each request.
 *
 * The snapshot is in a table of the operation's core, or in the asker's memory, and goes round with
 * the operation.
 *
 * A key without full rights gets no paths: neither of damaged files found by the scrub, nor of
 * drives on the appliance's machine; and it is not told who else is connected.  (A key with a
 * subtree gets nothing: app_rights.c.)
 */
#include "appliance/core/app_snapshot.h"
#include "appliance/media/app_missing.h"
#include "appliance/core/app_op.h"
#include "appliance/core/app_stat.h"
#include "meta/meta_set.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static_assert(sizeof(struct app_core_stat) % sizeof(uint64_t) == 0 &&
		      sizeof(struct app_latency) % sizeof(uint64_t) == 0 &&
		      sizeof(struct fab_server_stat) % sizeof(uint64_t) == 0 &&
		      sizeof(struct nvme_stats) % sizeof(uint64_t) == 0,
	      "counters, and nothing else: add()");

void app_stat_ended(struct app_core *core, int status)
{
	ASSERT(status < 0);
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

	DASSERT(size % sizeof(*sum) == 0);
	for (size_t i = 0; i < size / sizeof(*sum); i++)
		sum[i] += more[i];
}

/* Adds the state of a drive, on the core that owns it. */
static void look_at_drive(struct app_core *core, uint32_t i, struct app_drive_snapshot *d)
{
	struct nvme_drive *drive = core->cfg.drive[i];

	ASSERT(core->index == 0 && drive);
	d->is_there = true;
	d->health = nvme_drive_health(drive);
	d->failed = core->failing.failed >> i & 1;
	d->has_smart = nvme_drive_smart(drive, &d->smart);
	nvme_drive_info(drive, &d->info);
	nvme_drive_counts(drive, &d->counts);
}

static void add_drive(struct app_core *core, uint32_t i, struct app_snapshot *s)
{
	struct app_drive_snapshot *d = &s->drive[i];
	struct nvme_stats queues;

	ASSERT(i < core->nqps);
	if (core->index == 0 && core->cfg.drive_name)
		memcpy(d->name, core->cfg.drive_name[i], sizeof(d->name));
	if (core->meta) {
		meta_drive_stat(core->meta, i, &d->store);
		if (core->cfg.domains)
			(void)snprintf(d->domain, sizeof(d->domain), "%s",
				       app_domains_name(core->cfg.domains, d->store.domain));
		if (s->counts_blocks)
			meta_drive_count(core->meta, &d->store);
	}
	d->is_missing |= !core->qp[i] && d->store.lost;
	if (!core->qp[i])
		return;
	nvme_qpair_stats(core->qp[i], &queues);
	add(&d->queues, &queues, sizeof(queues));
	d->in_flight += nvme_qpair_in_flight(core->qp[i]);
	d->hedged_reads += core->hedges.drive[i].hedged;
	d->hedged_won += core->hedges.drive[i].won;
	d->no_writes |= app_media_refuses_writes(&core->media, i);
	if (core->index == 0)
		look_at_drive(core, i, d);
}

static void add_missing(const struct app_core *core, struct app_snapshot *s)
{
	const struct app_missing *missing = core->cfg.missing;

	if (!missing)
		return;
	ASSERT(missing->drive < META_DRIVES_MAX);
	s->has_missing = true;
	s->missing_drive = missing->drive;
	s->drive[missing->drive].is_missing = !core->qp[missing->drive];
	s->drive[missing->drive].info.nblocks = missing->nblocks;
}

static void add_account(const struct app_account *a, struct app_snapshot *s)
{
	if (!a)
		return;
	ASSERT(a->max_bytes > 0);
	s->has_account = true;
	s->memory_max_bytes = a->max_bytes;
	for (uint32_t i = 0; i < APP_ACCOUNT_PARTS; i++)
		s->memory_bytes[i] = app_account_part(a, i);
}

/* Adds the counters of the core with the store. */
static void add_store(struct app_core *core, struct app_snapshot *s)
{
	ASSERT(core->now_ns >= core->start_ns);
	s->uptime_ns = core->now_ns - core->start_ns;
	s->wall_ns = (uint64_t)core->wall_ns;
	s->store_health = meta_health(core->meta);
	meta_store_uuid(core->meta, s->store_uuid);
	(void)snprintf(s->scrub_line, sizeof(s->scrub_line), "%s", app_core_scrub_line(core));
	add_account(core->cfg.account, s);
	app_rebuild_add(core, &s->rebuild);
	add_missing(core, s);
}

static void add_latency(const struct app_core *core, struct app_snapshot *s)
{
	struct app_latency *own = &s->core[core->index].latency;

	ASSERT(core->index < APP_CORES_MAX);
	for (uint32_t i = 0; i < APP_TRANSPORTS; i++) {
		s->sessions_open[i] += core->sessions_over[i];
		for (uint32_t k = FAB_PING; k < FAB_TYPE_END; k++) {
			add(&s->latency[i][k], &core->latency[i][k], sizeof(*own));
			add(own, &core->latency[i][k], sizeof(*own));
		}
	}
}

static void add_client(const struct app_core *core, const struct app_session *of,
		       struct app_client_snapshot *c)
{
	*c = (struct app_client_snapshot){
		.session = of->fab->id,
		.lane = of->fab->lane,
		.core = core->index,
		.over = of->over,
		.credits = of->fab->limits.credits,
		.running = of->ops,
		.queued = of->queued,
		.opens = of->holds,
		.age_ns = core->now_ns - of->opened_ns,
		.requests = of->requests,
		.read_bytes = of->read_bytes,
		.written_bytes = of->written_bytes,
	};
	(void)snprintf(c->key, sizeof(c->key), "%s", of->fab->key_id);
	(void)snprintf(c->peer, sizeof(c->peer), "%s", of->fab->peer);
	c->report = of->report;
	c->report_age_ns = of->report_ns ? core->now_ns - of->report_ns : UINT64_MAX;
}

/* Places are given from the front, and a place that came back is given first. */
static void add_clients(const struct app_core *core, struct app_snapshot *s)
{
	uint32_t left = core->sessions_open;

	for (uint32_t i = 0; i < core->sessions_used && left > 0; i++) {
		if (!core->session[i].fab)
			continue;
		left--;
		if (s->clients == APP_CLIENTS_MAX)
			s->clients_left_out++;
		else
			add_client(core, &core->session[i], &s->client[s->clients++]);
	}
}

void app_stat_add(struct app_core *core, struct app_snapshot *s)
{
	struct app_core_snapshot *own = &s->core[core->index];
	struct fab_server_stat fabric;

	ASSERT(core->index < APP_CORES_MAX && s->cores == core->index);
	app_core_stat(core, &own->stat);
	own->sessions_open = core->sessions_open;
	own->requests_open = core->requests_open;
	own->queued = core->queued;
	add(&s->sum, &own->stat, sizeof(own->stat));
	s->cores++;
	s->ops_max += core->cfg.ops_max;
	s->ops_free += core->op_free_count;
	s->staging_bytes += core->cfg.staging_bytes;
	s->staging_used_bytes += (uint64_t)core->staging.pages_used * BLOCK_SIZE;
	add_latency(core, s);
	add_clients(core, s);
	if (core->cfg.srv) {
		fab_server_stat(core->cfg.srv, &fabric);
		add(&s->fabric, &fabric, sizeof(fabric));
	}
	s->ndrives = max_u32(s->ndrives, core->nqps);
	for (uint32_t i = 0; i < core->nqps; i++)
		add_drive(core, i, s);
	if (core->meta)
		add_store(core, s);
}

/* ---- the request ------------------------------------------------------------------------- */

enum status_at { STATUS_ACCEPTED, STATUS_STORE_KNOWN, STATUS_CORES_ADD };

static struct app_snapshot *snapshot_of(struct app_op *op)
{
	ASSERT(op->sums);
	return (struct app_snapshot *)(void *)op->sums;
}

/* The next core that has not added its share; itself is one of them. */
static enum app_next status_add(struct app_op *op, struct app_snapshot *s)
{
	struct app_core *core = op->core;

	ASSERT(op->sums && op->asks_out == 0);
	while (s->cores < (core->cores ? core->cores->count : 1)) {
		if (s->cores != core->index) {
			op->on = APP_ON_META;
			op->asks_out++;
			app_cores_say(core, s->cores,
				      (struct app_message){ { .op = op }, APP_SAY_STAT });
			return APP_WAIT;
		}
		app_stat_add(core, s);
	}
	return app_op_end(op, 0);
}

/* An operation of our own has brought its snapshot. */
static bool take_snapshot(struct app_op *op)
{
	ASSERT(op->kind == APP_OP_SNAPSHOT || !op->sums);
	if (op->kind == APP_OP_SNAPSHOT)
		return true;
	op->sums = app_table_take(op->core, op->session, sizeof(struct app_snapshot));
	op->sums_bytes = sizeof(struct app_snapshot);
	return op->sums != NULL;
}

enum app_next app_status_step(struct app_op *op)
{
	ASSERT(op->kind == APP_OP_STATUS || op->kind == APP_OP_SNAPSHOT);
	if (op->kind == APP_OP_STATUS && op->req->type == FAB_DAMAGED)
		return app_damaged_step(op);
	switch ((enum status_at)op->at) {
	case STATUS_ACCEPTED:
		op->at = STATUS_STORE_KNOWN;
		if (!app_op_meta(op, META_OP_STATFS))
			return APP_WAIT;
		wk_fallthrough;

	case STATUS_STORE_KNOWN:
		if (op->meta.status || !take_snapshot(op))
			return app_op_end(op, op->meta.status ? op->meta.status : -EAGAIN);
		memset(op->sums, 0, sizeof(struct app_snapshot));
		snapshot_of(op)->statfs = *op->meta.statfs;
		snapshot_of(op)->counts_blocks = op->kind == APP_OP_STATUS;
		op->at = STATUS_CORES_ADD;
		wk_fallthrough;

	case STATUS_CORES_ADD:
		ASSERT(op->sums && op->asks_out == 0);
		return status_add(op, snapshot_of(op));
	}
	UNREACHABLE();
}

void app_status_answer(struct app_op *op)
{
	const uint32_t all = APP_SHOW_DRIVES | APP_SHOW_FILES | APP_SHOW_CLIENTS;
	const uint32_t show = op->session->who.gids ? 0 : all;
	char *text;

	ASSERT(op->req->type == FAB_STATUS || op->req->type == FAB_DAMAGED);
	if (op->req->type == FAB_DAMAGED) {
		app_damaged_answer(op);
		return;
	}
	text = op->status ? NULL : app_table_take(op->core, op->session, APP_SNAPSHOT_JSON_BYTES);
	if (!text) {
		fab_reply(op->req, op->status ? op->status : -EAGAIN, NULL, 0);
		return;
	}
	app_text_answer(op, text,
			app_snapshot_json(snapshot_of(op), show, text, APP_SNAPSHOT_JSON_BYTES));
	app_table_give(op->core, op->session, text, APP_SNAPSHOT_JSON_BYTES);
}
