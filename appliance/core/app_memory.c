/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Gives staging to operations: first come, first served, so that a large write is not overtaken for
 * ever.  The requests of one client get no more than a share (app_quota.c), so that a client that
 * does not read its replies, or does not send announced payload, does not stop the others.
 *
 * Invariants:
 *
 *  (1) An operation takes at most one piece at a time, so one that has a piece continues without
 *      another, and gives it back.  When a read proceeds slice by slice, the slice before may still
 *      be in flight.
 *  (2) Tables of requests, which are held while their items wait for pieces, take at most a
 *      quarter; so a piece always becomes free.
 *  (3) At most one waiter has been woken and not run; it wakes the next when it was served.
 *  (4) While an operation waits, no batch keeps a partly filled part that nobody fills: the
 *      item that would fill it may be the one that waits.
 *  (5) A session has at most half as many parts as are free, and of the room for tables at most
 *      half of the free room, or one of each
 *      [test_app_serve:many_who_do_not_read_what_they_asked_for_do_not_stop_the_others].
 */
#include "appliance/core/app_quota.h"
#include "appliance/core/app_op.h"

enum { PARTS_OF_AN_ANSWER = 2 }; /* its tables */

/* An eighth of staging is kept for pieces that are no larger, which need not queue up, of sessions
 * that hold no more. */
#define SMALL_PIECE (64u << 10)
#define SMALL_HELD  (1u << 20)

static void wake_waiter(struct app_core *core)
{
	struct app_op *op;

	if (likely(list_empty(&core->staging_waiters)))
		return;
	op = list_entry(core->staging_waiters.next, struct app_op, link);
	ASSERT(op->on == APP_ON_STAGING && !op->woken); /* (3) */
	op->woken = true;
	app_op_ready(op);
}

void app_take_passed(struct app_op *op)
{
	if (op->woken)
		wake_waiter(op->core); /* (3) */
	op->woken = false;
	if (op->roused)
		app_quota_wake(op->session);
	op->roused = false;
	DASSERT(!op->woken && !op->roused);
}

static bool somebody_waits(const struct app_core *core)
{
	return !list_empty(&core->staging_waiters) || !list_empty(&core->part_waiters) ||
	       core->stalled > 0;
}

void app_parts_hurry(struct app_core *core)
{
	for (uint32_t i = 0; i < core->cfg.ops_max; i++) {
		struct app_part *part = core->batch[i].part;

		if (part)
			app_part_filled(core, core->batch[i].req, part);
		ASSERT(!core->batch[i].part || core->batch[i].part->filling > 0); /* (4) */
	}
}

/* One piece it always may have, however large. */
static bool session_may(const struct app_op *op, uint32_t size_bytes)
{
	struct app_session *s = op->session;

	DASSERT(size_bytes > 0);
	return !s || (s->staged_bytes == 0 && !app_quota_is_stuck(op->core, s)) ||
	       app_quota_room(op->core, s) >= size_bytes;
}

/* A small piece of a session that holds little need not wait behind others' large ones; little is a
 * quarter of the free room for such pieces. */
static bool may_pass(const struct app_op *op, uint32_t size_bytes)
{
	const struct app_core *core = op->core;
	uint64_t most_bytes = core->cfg.staging_bytes / 8, free_bytes;

	DASSERT(core->small_bytes <= (uint64_t)core->staging.pages_used * BLOCK_SIZE);
	free_bytes = most_bytes - min_u64(core->small_bytes, most_bytes);
	return size_bytes <= SMALL_PIECE && op->session && size_bytes <= free_bytes &&
	       op->session->staged_bytes <= min_u64(free_bytes / 4, SMALL_HELD);
}

static bool large_fits(const struct app_core *core, uint32_t size_bytes)
{
	uint64_t used_bytes = (uint64_t)core->staging.pages_used * BLOCK_SIZE - core->small_bytes;

	DASSERT(size_bytes <= APP_STAGING_PIECE_MAX);
	return size_bytes <= SMALL_PIECE ||
	       used_bytes + size_bytes <= core->cfg.staging_bytes - core->cfg.staging_bytes / 8;
}

static void account(struct app_core *core, struct app_session *session, const void *piece,
		    bool taken)
{
	uint64_t bytes = app_staging_size(&core->staging, piece);

	if (session) {
		ASSERT(taken || session->key->staged_bytes >= session->staged_bytes);
		ASSERT(taken || session->staged_bytes >= bytes);
		session->staged_bytes += taken ? bytes : -bytes;
		session->key->staged_bytes += taken ? bytes : -bytes;
	}
	ASSERT(taken || bytes > SMALL_PIECE || core->small_bytes >= bytes);
	if (bytes <= SMALL_PIECE)
		core->small_bytes += taken ? bytes : -bytes;
}

static void *take(struct app_op *op, uint32_t size_bytes)
{
	struct app_core *core = op->core;
	bool first = op->woken || list_empty(&core->staging_waiters) || may_pass(op, size_bytes);
	void *piece = NULL;

	DASSERT(size_bytes > 0 && size_bytes <= APP_STAGING_PIECE_MAX);
	if (first && large_fits(core, size_bytes))
		piece = app_staging_take(&core->staging, size_bytes);
	if (likely(piece)) {
		app_take_passed(op);
		account(core, op->session, piece, true);
	}
	return piece;
}

/* `may`: what lacks is staging, not a share of its session's. */
static void wait_for_piece(struct app_op *op, bool may)
{
	struct app_core *core = op->core;
	bool first_waiter = !somebody_waits(core);

	ASSERT(!list_linked(&op->link) && op->ios_out == 0 && op->pulls_out == 0);
	core->stat.staging_waits++;
	if (!may) {
		bool roused = op->roused;

		op->roused = false;
		app_take_passed(op);
		op->roused = roused;
		app_quota_wait(op);
	} else {
		op->on = APP_ON_STAGING;
		if (op->woken)
			list_push_front(&core->staging_waiters, &op->link);
		else
			list_push_back(&core->staging_waiters, &op->link);
		op->woken = false;
	}
	if (first_waiter)
		app_parts_hurry(core);
}

void *app_take(struct app_op *op, uint32_t size_bytes)
{
	bool may = session_may(op, size_bytes);
	void *piece = may ? take(op, size_bytes) : NULL;

	ASSERT(!op->buf); /* (1), app_core.c (4) */
	if (unlikely(!piece))
		wait_for_piece(op, may);
	return piece;
}

/* Returns the size of the next slice: all that is wanted if it fits, else the largest power of two
 * that does, but at least APP_SLICE_MIN. */
static uint32_t slice_of(uint32_t want_bytes, uint64_t room_bytes)
{
	uint32_t bytes = APP_SLICE_MIN;

	ASSERT(want_bytes > 0);
	if (want_bytes <= room_bytes && app_staging_rounded(want_bytes) <= room_bytes)
		return want_bytes;
	while (2 * bytes <= room_bytes && 2 * bytes < want_bytes)
		bytes *= 2;
	return min_u32(bytes, want_bytes);
}

void *app_take_most(struct app_op *op, uint32_t *size_bytes)
{
	struct app_session *s = op->session;
	bool stuck = app_quota_is_stuck(op->core, s);
	uint64_t room_bytes = app_quota_slice_room(op->core, s, *size_bytes);
	uint32_t least = min_u32(*size_bytes, APP_SLICE_MIN), bytes;
	void *piece = NULL;

	ASSERT(s && !op->buf && *size_bytes > 0); /* (1) */
	if (s->staged_bytes == 0 && !stuck && !s->drives_full)
		room_bytes = max_u64(room_bytes, least);
	if (room_bytes >= least) {
		bytes = slice_of(*size_bytes, room_bytes);
		piece = take(op, bytes);
		while (!piece && bytes > least) {
			bytes = max_u32(slice_of(bytes, bytes / 2), least);
			piece = take(op, bytes);
		}
		*size_bytes = bytes;
	}
	ASSERT(!piece || !stuck || !s->streams); /* app_quota.c (2) */
	if (unlikely(!piece))
		wait_for_piece(op, room_bytes >= least);
	return piece;
}

void app_wake_parts(struct app_core *core)
{
	while (unlikely(!list_empty(&core->part_waiters)))
		app_op_ready(list_entry(core->part_waiters.next, struct app_op, link));
	ASSERT(list_empty(&core->part_waiters));
}

/* A session may wait on core->blocked for any piece, to have a table: app_turn.c (1). */
static void give_back(struct app_core *core, void *piece)
{
	ASSERT(piece);
	app_staging_give(&core->staging, piece);
	core->freed = true;
	wake_waiter(core);
	app_wake_parts(core);
}

void app_give(struct app_core *core, struct app_session *session, void *piece)
{
	ASSERT(piece);
	account(core, session, piece, false);
	give_back(core, piece);
	if (session)
		app_quota_wake(session);
	app_quota_wake_tight(core);
}

wk_cold void *app_take_spare(struct app_core *core, uint32_t size_bytes)
{
	void *piece = app_staging_take(&core->staging, size_bytes);

	ASSERT(size_bytes > 0);
	if (piece)
		account(core, NULL, piece, true);
	return piece;
}

wk_cold void app_unpin(struct app_core *core, uint64_t iova)
{
	if (!app_staging_unpin(&core->staging, iova))
		return;
	core->freed = true;
	wake_waiter(core);
	app_wake_parts(core);
	app_quota_wake_tight(core);
	ASSERT(list_empty(&core->part_waiters));
}

/* (2), (5) */
static bool table_fits(const struct app_core *core, const struct app_session *s,
		       uint32_t size_bytes)
{
	uint64_t most_bytes = core->cfg.staging_bytes / 4;
	uint64_t free_bytes = most_bytes - min_u64(core->table_bytes, most_bytes);

	ASSERT(size_bytes > 0);
	return size_bytes <= free_bytes &&
	       (!s || s->table_bytes == 0 || s->table_bytes + size_bytes <= free_bytes / 2);
}

void *app_table_take(struct app_core *core, struct app_session *session, uint32_t size_bytes)
{
	void *table = NULL;

	if (table_fits(core, session, size_bytes))
		table = app_staging_take(&core->staging, size_bytes);
	if (!table)
		return NULL;
	core->table_bytes += size_bytes;
	ASSERT(core->table_bytes <= core->cfg.staging_bytes / 4); /* (2) */
	if (session)
		session->table_bytes += size_bytes;
	return table;
}

void app_table_give(struct app_core *core, struct app_session *session, void *table,
		    uint32_t size_bytes)
{
	ASSERT(core->table_bytes >= size_bytes);
	core->table_bytes -= size_bytes;
	if (session) {
		ASSERT(session->table_bytes >= size_bytes);
		session->table_bytes -= size_bytes;
	}
	give_back(core, table);
	app_quota_wake_tight(core);
}

/* ---- parts: memory that the fabric sends ---------------------------------------------- */

/* (5) */
bool app_parts_enough(const struct app_core *core, const struct app_session *s)
{
	DASSERT(core->parts_out <= core->parts_max);
	return s->parts > 0 && 2 * s->parts >= core->parts_max - core->parts_out;
}

bool app_parts_few(const struct app_core *core)
{
	DASSERT(core->parts_out <= core->parts_max);
	return core->parts_out + 2 * PARTS_OF_AN_ANSWER > core->parts_max;
}

static bool answers_by_part(const struct app_op *op)
{
	return op->kind == APP_OP_BATCH_END || op->kind == APP_OP_LIST ||
	       op->kind == APP_OP_STATUS || op->kind == APP_OP_LOG ||
	       (op->kind == APP_OP_XATTR && op->buf) || (op->kind == APP_OP_READ && op->sums) ||
	       (op->kind == APP_OP_NAME && op->req->type == FAB_READLINK);
}

/*
 * Over shared memory a part is free again at once, so an answer there never waits for a client
 * that does not read: the last ones are kept for it.
 */
bool app_may_carry(struct app_op *op)
{
	struct app_core *core = op->core;
	bool cancelled = op->cancel || (op->batch && op->batch->cancel);

	DASSERT(op->ending);
	if (likely(!app_parts_few(core)) || op->status || cancelled || !answers_by_part(op) ||
	    op->req->session->transport[0] == 's')
		return true;
	app_op_wait(op, APP_ON_PART, &core->part_waiters);
	app_parts_hurry(core);
	return false;
}

struct app_part *app_part_take(struct app_op *op)
{
	struct app_core *core = op->core;
	struct list *node = list_pop_front(&core->part_free);
	struct app_part *part;

	if (!node)
		return NULL;
	ASSERT(core->parts_out < core->parts_max);
	part = list_entry(node, struct app_part, link);
	part->piece = (struct fab_piece){ .user = part };
	part->session = op->session;
	part->buf = part->spare = NULL;
	part->table_bytes = 0;
	part->capacity_bytes = 0;
	part->filling = 0;
	part->closed = false;
	part->in_flight = false;
	core->parts_out++;
	if (part->session)
		part->session->parts++;
	return part;
}

void app_part_untake(struct app_core *core, struct app_part *part)
{
	ASSERT(core->parts_out > 0 && (!part->session || part->session->parts > 0));
	ASSERT(part->filling == 0 && !list_linked(&part->link));
	core->parts_out--;
	if (part->session)
		part->session->parts--;
	list_push_front(&core->part_free, &part->link);
}

void app_part_free(struct app_core *core, struct app_part *part)
{
	ASSERT(part->filling == 0);
	core->progress = core->freed = true;
	app_part_untake(core, part);
	if (part->in_flight)
		app_quota_end(core, part->session, part->piece.length_bytes);
	if (part->table_bytes)
		app_table_give(core, part->session, part->buf, part->table_bytes);
	else if (part->buf)
		app_give(core, part->session, part->buf);
	if (part->session && (part->table_bytes || !part->buf))
		app_quota_wake(part->session); /* a table, too, was a part of it, and in flight */
	part->buf = NULL;
	part->in_flight = false;
	app_wake_parts(core);
	ASSERT(!part->buf && !part->in_flight);
}

wk_cold void app_part_swap(struct app_core *core, struct app_part *part)
{
	char *buf = part->buf;

	ASSERT(part->spare && !part->in_flight && part->filling == 0);
	ASSERT(app_staging_size(&core->staging, buf) ==
	       app_staging_size(&core->staging, part->spare));
	account(core, NULL, part->spare, false);
	account(core, part->session, part->spare, true);
	part->buf = part->spare;
	part->spare = NULL;
	app_give(core, part->session, buf);
}

void app_part_send(struct app_core *core, struct fab_req *req, struct app_part *part, void *bytes,
		   uint32_t window_at, uint32_t length_bytes)
{
	int rc;

	ASSERT(!part->in_flight && part->filling == 0 && !part->spare);
	part->piece.window_at = window_at;
	part->piece.length_bytes = length_bytes;
	part->piece.bytes = bytes;
	rc = length_bytes ? fab_send_part(req, &part->piece) : 1;
	if (rc == 0) {
		part->in_flight = true;
		app_quota_begin(core, part->session);
		return;
	}
	/* Over shared memory no payload comes this way, or this CPU would copy it. */
	if (rc > 0 && part->capacity_bytes && req->session->transport[0] == 's')
		core->stat.payload_copied_bytes += length_bytes;
	app_part_free(core, part); /* it was sent, or its session has ended */
}

void app_part_filled(struct app_core *core, struct fab_req *req, struct app_part *part)
{
	struct app_batch *b = app_is_batch(req->type) ? req->user : NULL;

	DASSERT(!part->in_flight);
	if (part->filling > 0 || (!part->closed && !somebody_waits(core))) /* (4) */
		return;
	if (b && b->part == part)
		b->part = NULL;
	if (unlikely(part->spare))
		app_hedges_settle(core, part);
	app_part_send(core, req, part, part->buf, part->piece.window_at, part->piece.length_bytes);
}

bool app_table_send(struct app_op *op, void *table, uint32_t table_bytes, void *bytes,
		    uint32_t window_at, uint32_t length_bytes)
{
	struct app_core *core = op->core;
	struct app_part *part = app_part_take(op);

	ASSERT(table && length_bytes <= table_bytes);
	if (!part) {
		app_table_give(core, op->session, table, table_bytes);
		return false;
	}
	part->buf = table;
	part->table_bytes = table_bytes;
	app_part_send(core, op->req, part, bytes, window_at, length_bytes);
	return true;
}
