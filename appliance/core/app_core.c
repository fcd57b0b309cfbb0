/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The loop of one core.
 *
 *            +--------------------------------------------------------------+
 *            v                                                              |
 *   fabric events --> begin operations --> step what is ready --> store's turn (log)
 *                                                                           |
 *            replies <-- step what came back <-- poll drives <-- ring drives
 *
 * At most EVENTS_MAX, STEPS_MAX and IOS_MAX of each a turn, so that a flood of one kind does not
 * delay the others for long.
 *
 * Invariants, true between any two turns:
 *
 *  (1) A request is the core's until it is replied to: it waits (app_turn.c), or an app_op
 *      or app_batch has it, or it was answered.
 *  (2) An operation waits for exactly one thing (app_on), or for its I/Os or pulls, or is free.
 *      `fresh` is empty.
 *  (3) A reply is sent only when the highest log sequence that its operation saw is durable.
 *  (4) The file locks are held by operations that will end: none waits for a lock while it
 *      holds one, and none takes staging twice.
 */
#include "appliance/core/app_quota.h"
#include "appliance/core/app_op.h"
#include "appliance/core/app_sum.h"
#include "appliance/core/app_wants.h"
#include "appliance/core/app_stat.h"
#include "appliance/core/app_full.h"

#include <errno.h>
#include <string.h>

enum { EVENTS_MAX = 256, STEPS_MAX = 256, IOS_MAX = 128 };

/* ---- operations ------------------------------------------------------------------- */

/* Clears all fields that are not written before they are read.  Most operations are reads, and the
 * processor's cache holds few whole operations, so what a read has no use for is left alone. */
static void clear(struct app_op *op, enum app_op_kind kind)
{
	const size_t all = offsetof(struct app_op, pull);
	const size_t of_read = offsetof(struct app_op, meta) + META_OP_READ_BYTES;

	ASSERT(kind < APP_OP_KINDS);
	if (likely(kind == APP_OP_READ)) {
		memset(op, 0, of_read);
#ifdef WK_DEBUG
		memset((char *)op + of_read, 0xa5, all - of_read); /* whoever uses it shows */
#endif
		return;
	}
	memset(op, 0, all);
	list_init(&op->store_link);
}

struct app_op *app_op_take(struct app_core *core, enum app_op_kind kind, struct fab_req *req)
{
	struct app_op *op;

	if (core->op_free_count == 0)
		return NULL;
	op = core->op_free[--core->op_free_count];
	DASSERT(core->op_free_count < core->cfg.ops_max);
	clear(op, kind);
	list_init(&op->link);
	list_init(&op->file_link);
	op->core = core;
	op->kind = kind;
	op->req = req;
	op->session = req ? req->session->user : NULL;
	if (op->session) {
		op->session->ops++;
		op->root = op->session->root;
	}
	return op;
}

void app_op_free(struct app_op *op)
{
	struct app_core *core = op->core;

	DASSERT(core->op_free_count < core->cfg.ops_max && !op->part && !op->hold);
	ASSERT(op->ios_out == 0 && op->pulls_out == 0 && !list_linked(&op->link)); /* (2) */
	ASSERT(op->asks_out == 0);
	ASSERT(!op->buf && !op->locked && !op->sums);
	app_turn_starve(op, false);
	if (op->reads)
		app_quota_read_end(op);
	if (op->session && --op->session->ops == op->session->starved)
		app_turn_rest(core, op->session);
	core->freed = true;
	core->op_free[core->op_free_count++] = op;
}

void app_op_wait(struct app_op *op, enum app_on on, struct list *list)
{
	DASSERT(on != APP_ON_NOTHING && !list_linked(&op->link)); /* (2) */
	op->on = on;
	if (list)
		list_push_back(list, &op->link);
}

void app_op_ready(struct app_op *op)
{
	ASSERT(op->ios_out == 0 && op->pulls_out == 0); /* (2) */
	list_del(&op->link);
	app_op_wait(op, APP_ON_READY, &op->core->ready);
}

enum app_next app_op_end(struct app_op *op, int status)
{
	DASSERT(status <= 0 && !op->ending);
	op->status = status;
	op->ending = true;
	return APP_END;
}

static enum app_next step(struct app_op *op)
{
	DASSERT(op->kind < APP_OP_KINDS && op->names_done <= op->names);
	if (unlikely(op->recall))
		return app_recall_step(op);
	if (unlikely(op->names_done < op->names))
		return app_target_step(op);
	return app_kinds[op->kind].step(op);
}

static void answer(struct app_op *op)
{
	struct app_core *core = op->core;

	DASSERT(op->ending && op->asks_out == 0);
	/* (3) */
	DASSERT(op->status || (op->batch && op->kind != APP_OP_BATCH_END) ||
		app_is_durable(core, op->seen_seq));
	if (op->kind == APP_OP_SCRUB)
		return;
	if (unlikely(op->kind == APP_OP_SNAPSHOT)) {
		app_ask_answer(op);
		return;
	}
	if (unlikely(op->hold))
		app_hold_settle(op);
	if (unlikely(op->status < 0)) {
		app_stat_ended(core, op->status);
		app_rights_tell(op);
	}
	if (unlikely(app_full_concerns(core->cfg.full, op->status)) &&
	    (op->kind == APP_OP_PUT || op->kind == APP_OP_WRITE))
		app_full_answered(core, op->status);
	if (op->session && unlikely(op->req->session->rate))
		app_rights_spend(op);
	if (op->batch && op->kind != APP_OP_BATCH_END) {
		app_batch_item_done(op);
		return;
	}
	if (!app_kinds[op->kind].answer) /* nobody has asked */
		return;
	DASSERT(core->requests_open > 0 && op->req->user);
	core->requests_open--;
	app_stat_took(core, op->req);
	app_kinds[op->kind].answer(op);
	op->req = NULL;
}

/* Returns all resources of the operation, however it ended. */
static void release(struct app_op *op)
{
	struct app_core *core = op->core;

	DASSERT(op->ending && !op->part);
	app_read_end(op);
	if (unlikely(op->roused)) /* it took nothing */
		app_quota_wake_tight(core);
	app_take_passed(op);
	if (op->buf)
		app_give(core, op->session, op->buf);
	if (op->sums)
		app_table_give(core, op->session, op->sums, op->sums_bytes);
	op->buf = NULL;
	op->sums = NULL;
	if (unlikely(op->hidden))
		app_hidden_untouched(op);
	if (core->meta && list_linked(&op->file_link))
		app_file_unlock_here(core, op);
}

/* (3): false: stepped again when it may be told. */
static bool may_tell(struct app_op *op)
{
	DASSERT(op->ending && op->asks_out == 0);
	if (op->batch && op->kind != APP_OP_BATCH_END) {
		op->batch->seen_seq = max_u64(op->batch->seen_seq, op->seen_seq);
		return true;
	}
	if (likely(app_is_durable(op->core, op->seen_seq)))
		return true;
	if (op->on == APP_ON_META) { /* its wait has ended: the log has failed */
		op->status = op->meta.status;
		return true;
	}
	app_wait_durable(op);
	return false;
}

void app_op_run(struct app_op *op)
{
	enum app_next next = APP_AGAIN;
	enum app_on was_on = op->on;
	struct app_core *core = op->core;
	struct app_batch *batch;

	DASSERT(!list_linked(&op->link)); /* (2) */
	ASSERT(op->ios_out == 0 && op->pulls_out == 0 && op->asks_out == 0);
	core->progress = true;
	core->serves |= !op->starved;
	if (unlikely(op->stalled)) {
		op->stalled = false;
		core->stalled--;
		app_turn_unstall(core, op->session);
	}
	if (unlikely(op->batch && op->batch->cancel) && op->kind != APP_OP_BATCH_END)
		op->cancel = op->batch->cancel;
	if (unlikely(op->cancel) && !op->ending && (op->gave_up || op->at == 0))
		app_op_end(op, op->cancel);
	while (!op->ending) {
		op->on = APP_ON_NOTHING;
		was_on = APP_ON_NOTHING;
		next = step(op);
		if (next == APP_WAIT)
			return;
	}
	op->on = was_on;
	if (!may_tell(op) || !app_may_carry(op))
		return;
	batch = op->kind == APP_OP_BATCH_END ? NULL : op->batch;
	answer(op);
	release(op);
	if (likely(!app_store_leave(op)))
		app_op_free(op);
	if (batch)
		app_batch_check_end(core, batch);
}

/* ---- requests ----------------------------------------------------------------------- */

void app_run_fresh(struct app_core *core)
{
	struct app_op *op[APP_AHEAD_MAX];
	uint32_t count = core->fresh_count;

	if (count == 0)
		return;
	ASSERT(count <= APP_AHEAD_MAX);
	memcpy(op, core->fresh, count * sizeof(op[0])); /* running them may begin others */
	core->fresh_count = 0;
	app_ops_run(core, op, count);
}

void app_fresh(struct app_op *op)
{
	struct app_core *core = op->core;

	ASSERT(core->fresh_count < APP_AHEAD_MAX);
	core->fresh[core->fresh_count++] = op;
	if (core->fresh_count == APP_AHEAD_MAX)
		app_run_fresh(core);
}

static void begin_op(struct app_core *core, struct fab_req *req, uint32_t bytes)
{
	const struct app_row *row = &app_rows[req->type];
	struct app_op *op = app_op_take(core, row->kind, req);

	DASSERT(op && op->session);
	ASSERT(op);
	req->user = op;
	op->charged_bytes = bytes;
	if (row->kind == APP_OP_READ) {
		app_quota_read_begin(op);
		row->begin(op);
		app_fresh(op);
		return;
	}
	if (row->changes)
		app_change_begin(op);
	row->begin(op);
	app_op_run(op);
}

bool app_core_begin(struct app_core *core, struct fab_req *req, uint32_t bytes)
{
	DASSERT(!list_linked(&req->link)); /* (1) */
	ASSERT(core->op_free_count > 0);
	if (app_is_batch(req->type) && !app_batch_begin(core, req))
		return false;
	core->stat.requests[req->type]++;
	((struct app_session *)req->session->user)->requests++;
	core->requests_open++;
	core->progress = true;
	app_turn_pay(core, req->session->user, bytes);
	if (req->type == FAB_PING) {
		core->requests_open--;
		app_stat_took(core, req);
		fab_reply(req, 0, NULL, 0);
	} else if (!app_is_batch(req->type)) {
		begin_op(core, req, bytes);
	}
	return true;
}

static void request(struct app_core *core, struct fab_req *req)
{
	int err = app_rights_check(req);

	DASSERT(req->session->user);
	core->asked_ns = core->now_ns;
	list_init(&req->link);
	req->user = NULL;
	if (unlikely(err)) {
		core->stat.errors++;
		fab_reply(req, err, NULL, 0);
	} else if (unlikely(core->life != APP_SERVING)) {
		list_push_back(&core->late, &req->link);
	} else if (likely(!app_rights_busy(core, req))) {
		(void)app_turn_queue(core, req);
	}
}

static wk_cold void cancel(struct app_core *core, struct fab_req *req, int status)
{
	struct app_op *op = req->user;

	ASSERT(status < 0);
	core->stat.cancelled++;
	if (list_linked(&req->link)) { /* it had not begun */
		app_turn_unqueue(core, req);
		fab_reply(req, status, NULL, 0);
		return;
	}
	if (app_is_batch(req->type)) {
		app_batch_cancel(core, req->user, status);
		return;
	}
	ASSERT(op && op->req == req); /* (1) */
	op->cancel = status;
	if (op->on < APP_ON_TURN || app_store_is_near(op))
		return;
	if (op->asks_out > 0) {
		app_store_cancel(op);
		return;
	}
	core->resumers -= op->on == APP_ON_TURN;
	op->gave_up = true; /* nothing of it is in flight: it need not wait any longer */
	app_op_ready(op);
}

static uint32_t fabric_turn(struct app_core *core)
{
	struct fab_event events[EVENTS_MAX];
	uint32_t count = fab_server_poll(core->cfg.srv, core->now_ns, events, EVENTS_MAX);

	ASSERT(count <= EVENTS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		struct fab_event *e = &events[i];

		if (e->type != FAB_EVENT_REQUEST)
			app_run_fresh(core); /* it may be about one of them */
		switch (e->type) {
		case FAB_EVENT_REQUEST:
			request(core, e->req);
			break;
		case FAB_EVENT_PULLED:
			app_pulled(e->piece);
			break;
		case FAB_EVENT_SENT:
			app_part_free(core, e->piece->user);
			break;
		case FAB_EVENT_CANCEL:
			cancel(core, e->req, e->status);
			break;
		case FAB_EVENT_SESSION_NEW:
			app_session_opened(core, e->session);
			break;
		case FAB_EVENT_SESSION_CLOSED:
			app_session_closed(core, e->session);
			break;
		}
	}
	return count;
}

/* ---- the turn ------------------------------------------------------------------------- */

static void store_answers(struct app_core *core)
{
	struct meta_op *meta;

	for (uint32_t i = 0; i < STEPS_MAX && (meta = meta_op_poll(core->meta)); i++) {
		struct app_op *op = meta->owner;

		if (unlikely(op->core != core)) {
			app_serve_done(core, op);
			continue;
		}
		ASSERT(op->on == APP_ON_META);
		app_op_saw(op);
		app_op_run(op);
	}
}

static void run_ready(struct app_core *core)
{
	ASSERT(core->op_free_count <= core->cfg.ops_max);
	for (uint32_t i = 0; i < STEPS_MAX && !list_empty(&core->ready); i++)
		app_op_run(list_entry(list_pop_front(&core->ready), struct app_op, link));
}

static void drives_turn(struct app_core *core)
{
	struct app_io *done[IOS_MAX];
	uint32_t count;
	bool some;

	for (uint32_t i = 0; i < app_drives_looked_after(core); i++)
		if (likely(core->qp[i]))
			core->progress |= nvme_drive_step(core->cfg.drive[i], core->now_ns);
	app_patience_turn(core);
	app_copies_turn(core);
	app_sums_turn(core);
	app_media_ring(&core->media);
	count = app_media_poll(&core->media, done, IOS_MAX, &some);
	ASSERT(count <= IOS_MAX);
	core->progress |= some;
	for (uint32_t i = 0; i < count; i++) { /* copies went through the cache since */
		__builtin_prefetch(done[i]->owner);
		__builtin_prefetch((char *)done[i]->owner + 64);
	}
	for (uint32_t i = 0; i < count; i++)
		app_io_done(done[i]);
	if (unlikely(!list_empty(&core->hedges.ops)) && count < IOS_MAX) /* all that came is seen */
		app_hedges_turn(core);
	while (!list_empty(&core->block_waiters)) /* the store may have zones again */
		app_op_ready(list_entry(core->block_waiters.next, struct app_op, link));
	app_serve_blocks(core);
}

/* Without an overlay: durable data is on the drives. */
static void witness_drives(struct app_core *core)
{
	ASSERT(core->index == 0 && core->life == APP_SERVING);
	for (uint32_t i = 0; i < core->cfg.ndrives && !core->media.overlay; i++)
		if (core->qp[i])
			app_witness_on(&core->witness[i], core->cfg.drive[i], core->meta, i);
}

static void boot_turn(struct app_core *core)
{
	ASSERT(core->life == APP_BOOTING && core->meta);
	core->boot_status = meta_boot_status(core->meta);
	if (core->boot_status == -EAGAIN)
		return;
	core->progress = true;
	core->life = core->boot_status ? APP_STOPPED : APP_SERVING;
	if (core->life == APP_SERVING && core->cfg.read_only)
		meta_freeze(core->meta);
	if (core->life == APP_SERVING)
		witness_drives(core);
	if (core->life == APP_SERVING)
		app_clients_turn(core); /* no client is admitted before */
	if (core->boot_status)
		memcpy(core->error, meta_error(core->meta),
		       min_u64(strlen(meta_error(core->meta)) + 1, sizeof(core->error) - 1));
	app_cores_say_all(core,
			  (struct app_message){ { .status = core->boot_status }, APP_SAY_SERVE });
}

/* The store's checkpoint; of a core that has no store nothing is left. */
static void stop_store(struct app_core *core)
{
	ASSERT(core->requests_open == 0 && core->sessions_open == 0 && core->fresh_count == 0);
	core->life = APP_STOPPING;
	core->progress = true;
	if (core->meta) {
		meta_stop_start(core->meta);
		return;
	}
	meta_reader_end(core->reader);
	app_cores_say(core, 0, (struct app_message){ .what = APP_SAY_BYE });
}

static bool others_gone(const struct app_core *core)
{
	ASSERT(!core->cores || core->byes < core->cores->count);
	return !core->cores || core->index > 0 || core->byes == core->cores->count - 1;
}

/* A core may ask any other for its counters, so none leaves before all have asked their last. */
static bool all_quiet(struct app_core *core)
{
	if (!core->cores)
		return true;
	ASSERT(core->quiets < core->cores->count);
	if (!core->said_quiet)
		app_cores_say_all(core, (struct app_message){ .what = APP_SAY_QUIET });
	core->said_quiet = true;
	return core->quiets == core->cores->count - 1;
}

/*
 * Stops in steps: requests that have arrived are answered and the replies sent (a turn or two after
 * the last reply); then the sessions end, and requests that have not begun get -ECONNRESET; then
 * the checkpoint.
 */
static void stop_turn(struct app_core *core)
{
	ASSERT(core->life >= APP_DRAINING);
	app_scrub_stop(core);
	if (core->life == APP_DRAINING && core->requests_open == 0 && core->queued == 0) {
		core->progress = true;
		if (++core->drained_turns < 3)
			return;
		core->life = APP_CLOSING;
		if (core->cfg.srv)
			fab_server_stop(core->cfg.srv);
	}
	if (core->life == APP_CLOSING && core->sessions_open == 0 && core->parts_out == 0 &&
	    list_empty(&core->aborts) && core->op_free_count == core->cfg.ops_max &&
	    all_quiet(core) && others_gone(core)) {
		ASSERT(core->queued == 0 && list_empty(&core->late));
		stop_store(core);
		return; /* not before the fabric has been polled once more: it ends sessions */
	}
	if (core->life != APP_STOPPING)
		return;
	core->stop_status = core->meta ? meta_stop_status(core->meta) : 0;
	if (core->stop_status == -EAGAIN || core->media.in_flight)
		return;
	if (core->cfg.read_only) /* there is nothing to write */
		core->stop_status = 0;
	core->life = APP_STOPPED;
	if (core->stop_status)
		memcpy(core->error, meta_error(core->meta),
		       min_u64(strlen(meta_error(core->meta)) + 1, sizeof(core->error) - 1));
}

/* True: call it again at once. */
static bool store_turn(struct app_core *core)
{
	bool more;

	DASSERT(core->meta && !core->reader);
	store_answers(core);
	more = meta_turn(core->meta);
	if (app_media_store(&core->media))
		core->progress = true;
	return more;
}

/* Counts again what counters say, in variants that look for our own mistakes. */
static void self_check(const struct app_core *core)
{
#ifdef WK_DEBUG
	if (core->stat.turns % APP_CHECK_TURNS == 0)
		app_core_check(core);
#else
	(void)core;
#endif
}

bool app_core_step(struct app_core *core, uint64_t now_ns, uint64_t wall_ns)
{
	bool more;

	ASSERT(now_ns >= core->now_ns);
	ASSERT(core->fresh_count == 0); /* (2) */
	core->now_ns = now_ns;
	core->wall_ns = (int64_t)wall_ns;
	core->was_serving = core->serves;
	core->progress = core->serves = false;
	self_check(core);
	core->stat.turns++;
	app_stat_turn(core);
	if (unlikely(!core->start_ns))
		core->start_ns = now_ns;
	if (unlikely(core->reader)) /* it has left everything that it read in its last turn */
		meta_reader_enter(core->reader);
	if (core->cfg.srv && core->life >= APP_SERVING && fabric_turn(core))
		core->progress = core->serves = true;
	if (unlikely(core->cores))
		app_cores_hear(core);
	if (unlikely(!list_empty(&core->shut)))
		app_store_look(core);
	app_aborts_begin(core);
	app_ask_turn(core);
	app_holds_turn(core);
	app_turns_take(core);
	run_ready(core);
	if (unlikely(core->cores)) /* messages travel while the drives are polled */
		app_cores_tell(core);
	more = core->meta && store_turn(core);
	drives_turn(core);
	if (core->meta)
		store_answers(core);
	run_ready(core);
	if (unlikely(core->knockers))
		app_cores_let_in(core);
	app_ailing_turn(core);
	if (likely(core->life == APP_SERVING && core->meta)) {
		app_clients_turn(core);
		app_totals_turn(core);
		app_vouch_turn(core);
		app_scrub_turn(core);
		app_rebuild_turn(core);
	}
	if (unlikely(core->life == APP_BOOTING && core->meta))
		boot_turn(core);
	if (unlikely(core->life >= APP_DRAINING))
		stop_turn(core);
	if (unlikely(core->cores))
		app_cores_tell(core);
	if (core->cfg.srv)
		fab_server_flush(core->cfg.srv);
	more |= core->progress || app_turn_more(core) || !list_empty(&core->ready) ||
		!list_empty(&core->block_waiters) || !list_empty(&core->block_askers);
	if (unlikely(core->reader) && !more)
		meta_reader_leave(core->reader); /* it may sleep now */
	return more;
}

/* ---- stop ------------------------------------------------------------------------ */

int app_core_boot_status(const struct app_core *core)
{
	return core->boot_status;
}

void app_core_stop(struct app_core *core)
{
	ASSERT(core->life <= APP_STOPPED);
	if (core->life != APP_SERVING)
		return;
	core->life = APP_DRAINING;
}

int app_core_stop_status(const struct app_core *core)
{
	ASSERT(core->life <= APP_STOPPED);
	return core->life == APP_STOPPED ? core->stop_status : -EAGAIN;
}

const char *app_core_error(const struct app_core *core)
{
	return core->error[0] || !core->meta ? core->error : meta_error(core->meta);
}

uint32_t app_core_lines(const struct app_core *core)
{
	uint32_t count = core->lines + core->media.fault_calls;

	ASSERT(core->nqps <= META_DRIVES_MAX);
	for (uint32_t i = 0; i < app_drives_looked_after(core); i++)
		count += core->qp[i] ? nvme_drive_line_count(core->cfg.drive[i]) : 0;
	return count;
}

struct meta *app_core_meta(struct app_core *core)
{
	return core->meta;
}

void app_core_stat(const struct app_core *core, struct app_core_stat *out)
{
	ASSERT(core->op_free_count <= core->cfg.ops_max);
	*out = core->stat;
	out->drive_read_bytes = core->media.read_bytes;
	out->drive_written_bytes = core->media.written_bytes;
	out->drive_errors = core->media.error_count;
	out->drive_retries = core->media.retry_count;
	out->staging_lost_bytes = (uint64_t)core->staging.pages_lost * BLOCK_SIZE;
	app_scrub_stat(core, out);
}
