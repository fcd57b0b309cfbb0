/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The quota of staging of each session and each key.
 *
 *   free --take--> with the drives --part sent, pull requested--> with the peer --> free
 *                  bounded by them                                bounded here
 *
 * Over tcp and rdma, payload is in staging until the peer has taken it, or has sent it.  A piece is
 * charged to its session and key from take to give; while the peer has it, it is also in flight
 * for the session.  Reads take slices of 128 KiB and more, not whole windows: so a session makes
 * progress with little, and a peer that stops keeps little.
 *
 * Invariants:
 *
 *  (1) A key's staged_bytes is the sum of its sessions'; a session has as many parts in
 *      flight as the fabric has pieces of it.
 *  (2) A session is stuck when something of it is in flight, and nothing has come back for
 *      STUCK_NS.  It gets nothing more, however much is free.
 *  (3) A session has at most LIMIT_MIN plus an eighth of the bytes that its peer has
 *      taken since it was last stuck.  So a peer that never reads keeps no more than that eighth of
 *      the kernel's buffers, and one that reads soon has all that it can use [sim/fair].
 *  (4) While others are active, a session has at most a quarter of the free staging.  So n sessions
 *      that stop all at once leave 4 / (4 + n) of staging.  A session that is alone may have half
 *      [sim/fair].
 *  (5) While others are active, a key has at most three times the free staging [sim/fair].
 *  (6) A session that has nothing may have one piece, whatever the limits are: a slice if it reads
 *      [test_app_serve:many_who_do_not_read_what_they_asked_for_do_not_stop_the_others].
 *  (7) An operation that waits for its own session's limits is on the session's `stalled_ops`.  A
 *      piece or part of the session that comes back wakes one of them.  If free space was short
 *      (the session is on core->tight), a piece of any session does.  A woken operation that still
 *      cannot continue because of its own session's limits wakes the next session on core->tight.
 *  (8) While others are active, a session takes no slice while the drives have a sixth of
 *      io_max_bytes: a small read then finds a short queue [sim/fair].
 *  (9) A session asks for at most twice its limit at once, or for two reads: operations are few,
 *      and must not wait for a peer that does not read [sim/fair].
 *
 * Only a session over tcp or rdma is limited by (2), (3), (4), (8) and (9): over shared memory the
 * drives write into the client's own memory.
 */
#include "appliance/core/app_quota.h"
#include "appliance/core/app_op.h"

#include "base/clock.h"

#define STUCK_NS    (10 * NS_PER_MS)
#define LIMIT_MIN   (256ull << 10)
#define LIMIT_SHARE 8u
#define READS_MIN   1u

bool app_quota_is_stuck(const struct app_core *core, const struct app_session *s)
{
	DASSERT(core->now_ns >= s->back_ns || s->in_flight == 0);
	return s->in_flight > 0 && core->now_ns - s->back_ns > STUCK_NS;
}

static uint64_t limit_bytes(const struct app_session *s)
{
	return LIMIT_MIN + s->proven_bytes / LIMIT_SHARE;
}

/* Notes that it is stuck: its limit is the smallest from then on. */
static bool check_stuck(const struct app_core *core, struct app_session *s)
{
	DASSERT(s->streams);
	if (likely(!app_quota_is_stuck(core, s)))
		return false;
	s->proven_bytes = 0;
	return true;
}

/* (5) */
static uint64_t key_most_bytes(const struct app_session *s, uint64_t free_bytes)
{
	uint64_t others_bytes = s->key->staged_bytes - s->staged_bytes;

	ASSERT(s->key->staged_bytes >= s->staged_bytes); /* (1) */
	return 3 * free_bytes > others_bytes ? 3 * free_bytes - others_bytes : 0;
}

uint64_t app_quota_room(struct app_core *core, struct app_session *s)
{
	uint64_t used_bytes = (uint64_t)core->staging.pages_used * BLOCK_SIZE;
	uint64_t free_bytes = core->cfg.staging_bytes - used_bytes, most_bytes = free_bytes;

	ASSERT(used_bytes <= core->cfg.staging_bytes);
	s->tight = false;
	if (s->streams && check_stuck(core, s))
		return 0; /* (2) */
	if (s->streams && core->present > 1)
		most_bytes = free_bytes / 4; /* (4) */
	if (s->key->users < core->sessions_open)
		most_bytes = min_u64(most_bytes, key_most_bytes(s, free_bytes));
	s->tight = most_bytes < limit_bytes(s) || !s->streams;
	if (s->streams)
		most_bytes = min_u64(most_bytes, limit_bytes(s)); /* (3) */
	return most_bytes > s->staged_bytes ? most_bytes - s->staged_bytes : 0;
}

/* (8) */
static bool drives_are_full(const struct app_core *core)
{
	return core->present > 1 && core->io_bytes >= core->io_max_bytes / 6;
}

uint64_t app_quota_slice_room(struct app_core *core, struct app_session *s, uint32_t want_bytes)
{
	uint64_t room_bytes = app_quota_room(core, s);

	ASSERT(want_bytes > 0);
	s->drives_full = want_bytes > APP_SLICE_MIN && drives_are_full(core);
	s->tight |= s->drives_full;
	return s->drives_full ? 0 : room_bytes;
}

/* ---- waiting (7) ---------------------------------------------------------------------------- */

void app_quota_wait(struct app_op *op)
{
	struct app_session *s = op->session;
	const bool in_vain = op->roused && !s->tight;

	ASSERT(s && !op->stalled && !list_linked(&op->link)); /* (7) */
	op->stalled = true;
	s->stalled++;
	op->core->stalled++;
	op->on = APP_ON_PART;
	if (op->roused)
		list_push_front(&s->stalled_ops, &op->link);
	else
		list_push_back(&s->stalled_ops, &op->link);
	op->roused = false;
	if (!list_linked(&s->stalling_link))
		list_push_back(&op->core->stalling, &s->stalling_link);
	if (s->tight && !list_linked(&s->tight_link))
		list_push_back(&op->core->tight, &s->tight_link);
	if (unlikely(in_vain)) { /* the next one may have waited for it */
		list_del(&s->tight_link);
		app_quota_wake_tight(op->core);
	}
}

void app_quota_wake(struct app_session *s)
{
	struct app_op *op;

	if (likely(list_empty(&s->stalled_ops)))
		return;
	op = list_entry(s->stalled_ops.next, struct app_op, link);
	ASSERT(op->stalled && op->on == APP_ON_PART && op->session == s); /* (7) */
	op->roused = true;
	app_op_ready(op);
}

/* Each I/O that ends comes here, too: so nobody is forgotten while the drives have enough. */
void app_quota_wake_short(struct app_core *core)
{
	struct list *node;
	struct app_session *s;

	ASSERT(!list_empty(&core->tight));
	if (drives_are_full(core))
		return;
	node = list_pop_front(&core->tight);
	s = list_entry(node, struct app_session, tight_link);
	ASSERT(!list_linked(&s->tight_link));
	app_quota_wake(s);
	if (!list_empty(&s->stalled_ops))
		list_push_back(&core->tight, &s->tight_link);
}

void app_quota_wake_all(struct app_session *s)
{
	while (!list_empty(&s->stalled_ops))
		app_quota_wake(s);
	ASSERT(list_empty(&s->stalled_ops));
}

void app_quota_turn(struct app_core *core)
{
	struct list *node;

	if (likely(list_empty(&core->stalling)) || core->now_ns - core->stalling_ns < STUCK_NS)
		return;
	core->stalling_ns = core->now_ns;
	list_for_each (node, &core->stalling) {
		struct app_session *s = list_entry(node, struct app_session, stalling_link);
		ASSERT(s->stalled > 0); /* (7) */

		if (!s->is_away && !list_linked(&s->share.link) && app_quota_is_stuck(core, s))
			app_turn_away(core, s);
	}
}

/* ---- with the peer -------------------------------------------------------------------------- */

void app_quota_begin(const struct app_core *core, struct app_session *s)
{
	DASSERT(s && (s->parts > 0 || s->ops > 0)); /* (1) */
	if (s->in_flight++ == 0)
		s->back_ns = core->now_ns;
}

void app_quota_end(const struct app_core *core, struct app_session *s, uint64_t bytes)
{
	ASSERT(s->in_flight > 0); /* (1) */
	s->in_flight--;
	s->back_ns = core->now_ns;
	s->proven_bytes += bytes;
}

/* ---- requests of a session (9) -------------------------------------------------------------- */

static bool asks_enough(const struct app_core *core, const struct app_session *s)
{
	DASSERT(s->reads <= s->ops);
	if (!s->streams || s->reads < READS_MIN)
		return false;
	return s->asked_bytes >= 2 * limit_bytes(s) || app_quota_is_stuck(core, s);
}

/* A session may take as much as it leaves to the others: idle ones have no share. */
bool app_session_full(const struct app_core *core, const struct app_session *s)
{
	DASSERT(s->ops + core->op_free_count <= core->cfg.ops_max || core->cfg.ops_max == 0);
	return s->stalled > 0 || s->ops >= max_u32(core->op_free_count, 1) || asks_enough(core, s);
}
