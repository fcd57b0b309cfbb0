/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Counts a core's operations, sessions, parts, holds and hidden files again, and compares the
 * results with the counters: with WK_DEBUG only.  Called between two turns, by the core's thread.
 */
#include "appliance/core/app_quota.h"
#include "appliance/core/app_op.h"

#ifdef WK_DEBUG

#define OPS_MOST  (1u << 16)
#define LIST_MOST (1u << 24)

static uint32_t list_count(const struct list *l)
{
	uint32_t n = 0;

	for (const struct list *at = l->next; at != l; at = at->next)
		ASSERT(n++ < LIST_MOST); /* or it goes round in a circle */
	return n;
}

static bool is_on(const struct list *l, const struct list *node)
{
	for (const struct list *at = l->next; at != l; at = at->next)
		if (at == node)
			return true;
	return false;
}

/* ---- operations ------------------------------------------------------------------------------ */

struct op_sums {
	uint64_t free[OPS_MOST / 64]; /* bits */
	uint32_t used, items, stalled, resumers, holds, going, aborts;
	uint64_t io_bytes;
};

static bool is_free(const struct op_sums *sum, uint32_t i)
{
	return sum->free[i / 64] >> i % 64 & 1;
}

static void free_ops(const struct app_core *core, struct op_sums *sum)
{
	ASSERT(core->op_free_count <= core->cfg.ops_max && core->cfg.ops_max <= OPS_MOST);
	for (uint32_t i = 0; i < core->op_free_count; i++) {
		const uint64_t at = (uint64_t)(core->op_free[i] - core->ops);

		ASSERT(at < core->cfg.ops_max && !is_free(sum, (uint32_t)at)); /* once */
		sum->free[at / 64] |= UINT64_C(1) << at % 64;
	}
}

/* app_core.c (2) */
static void waits_check(const struct app_core *core, const struct app_op *op)
{
	const bool is_listed = list_linked(&op->link);

	ASSERT(op->core == core && op->io_next <= op->io_count);
	ASSERT(op->ios_out <= op->io_count && op->pulls_out <= ARRAY_LEN(op->pull));
	ASSERT((op->ios_out > 0) + (op->pulls_out > 0) + (op->asks_out > 0) <= 1);
	ASSERT(!is_listed || (op->ios_out == 0 && op->pulls_out == 0));
	/* app_quota.c (7) */
	ASSERT(!op->stalled || op->on == APP_ON_READY ||
	       is_on(&op->session->stalled_ops, &op->link));
	/* An operation that was asked for elsewhere is the other core's to lock. */
	ASSERT(op->asks_out > 0 || !op->locked || core->index > 0 || op->file_held);
	ASSERT(!op->leaving || (!op->session && op->asks_out == 1));
	ASSERT(op->asks_out == 0 || core->cores || op->kind == APP_OP_STATUS);
}

static void op_check(const struct app_core *core, const struct app_op *op, struct op_sums *sum)
{
	waits_check(core, op);
	sum->used++;
	sum->items += op->batch && op->kind != APP_OP_BATCH_END;
	sum->stalled += op->stalled;
	sum->resumers += op->on == APP_ON_TURN && list_linked(&op->link);
	sum->holds += op->hold != NULL;
	sum->going += op->hold && !op->hold->session;
	sum->aborts += op->hidden && op->kind == APP_OP_ABORT;
	sum->io_bytes += (uint64_t)op->ios_out * BLOCK_SIZE; /* at least */
	ASSERT(!op->hold || !list_linked(&op->hold->link));  /* app_hold.c (1) */
}

static void ops_check(const struct app_core *core, struct op_sums *sum)
{
	free_ops(core, sum);
	for (uint32_t i = 0; i < core->cfg.ops_max; i++)
		if (!is_free(sum, i))
			op_check(core, &core->ops[i], sum);
	ASSERT(sum->used + core->op_free_count == core->cfg.ops_max);
	ASSERT(sum->items == core->batch_ops && sum->stalled == core->stalled);
	ASSERT(sum->resumers == core->resumers);
	ASSERT(sum->io_bytes <= core->io_bytes);
}

/* ---- sessions, and their turns: app_turn.c's ------------------------------------------------- */

struct session_sums {
	uint32_t open, queued, queuers, present, parts, holds, puts;
	uint64_t table_bytes;
};

static uint32_t ops_of(const struct app_core *core, const struct op_sums *ops,
		       const struct app_session *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < core->cfg.ops_max; i++)
		n += !is_free(ops, i) && core->ops[i].session == s;
	return n;
}

static void session_check(const struct app_core *core, const struct op_sums *ops,
			  const struct app_session *s, struct session_sums *sum)
{
	const bool works =
		!list_empty(&s->waiting) || !list_empty(&s->resume) || !list_empty(&s->batches);

	ASSERT(s->ops == ops_of(core, ops, s));
	ASSERT(s->starved <= s->ops && s->stalled <= s->ops && s->reads <= s->ops);
	ASSERT(s->queued == list_count(&s->waiting));      /* app_turn.c (3) */
	ASSERT(list_count(&s->stalled_ops) <= s->stalled); /* app_quota.c (7) */
	ASSERT((s->stalled > 0) == list_linked(&s->stalling_link));
	ASSERT(!works || s->stalled > 0 || list_linked(&s->share.link) ||
	       list_linked(&s->blocked));                         /* app_turn.c (1) */
	ASSERT(!list_linked(&s->share.link) || s->share.present); /* app_turn.c (4) */
	ASSERT(!list_linked(&s->share.link) ||
	       list_linked(&s->key->share.link));           /* app_turn.c (2) */
	ASSERT(s->in_flight == 0 || s->parts + s->ops > 0); /* app_quota.c (1) */
	sum->open++;
	sum->queued += s->queued;
	sum->queuers += s->queued > 0;
	sum->present += s->share.present;
	sum->parts += s->parts;
	sum->holds += s->holds;
	sum->puts += s->puts;
	sum->table_bytes += s->table_bytes;
}

/* A key's share of what its sessions have. */
static void key_check(const struct app_core *core, const struct app_key *key)
{
	uint64_t staged_bytes = 0;
	uint32_t users = 0, present = 0;

	for (uint32_t i = 0; i < core->sessions_used; i++) {
		const struct app_session *s = &core->session[i];

		if (list_linked(&s->link) || s->key != key)
			continue;
		users++;
		staged_bytes += s->staged_bytes;
		present += s->share.present;
	}
	ASSERT(users == key->users);
	ASSERT(staged_bytes == key->staged_bytes);                            /* app_quota.c (1) */
	ASSERT(present == key->sessions.present);                             /* app_turn.c (4) */
	ASSERT(list_linked(&key->share.link) == (key->sessions.waiting > 0)); /* app_turn.c (2) */
	ASSERT(key->share.present == (present > 0));
}

static void sessions_check(const struct app_core *core, const struct op_sums *ops,
			   struct session_sums *sum)
{
	const struct app_key *checked = NULL;

	for (uint32_t i = 0; i < core->sessions_used; i++) {
		const struct app_session *s = &core->session[i];

		if (list_linked(&s->link)) /* it is free */
			continue;
		if (!s->key || sum->open == core->sessions_open)
			break; /* those after it have never been open */
		session_check(core, ops, s, sum);
		if (s->key != checked)
			key_check(core, s->key);
		checked = s->key;
	}
	ASSERT(sum->open == core->sessions_open);
	ASSERT(sum->queued == core->queued && sum->queuers == core->queuers); /* app_turn.c (3) */
	ASSERT(sum->present <= core->present &&
	       core->present <= sum->present + 1); /* the scrub's */
	ASSERT(sum->table_bytes <= core->table_bytes);
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void holds_check(const struct app_core *core, const struct op_sums *ops,
			const struct session_sums *sessions)
{
	uint32_t listed = 0;

	for (uint32_t i = 0; i < APP_HOLD_BUCKETS; i++)
		listed += list_count(&core->hold_bucket[i]);
	ASSERT(core->hold_free_count + listed + ops->holds ==
	       core->cfg.opens_max); /* app_hold.c (1) */
	ASSERT(core->hold_linger_count == list_count(&core->hold_linger));
	ASSERT(core->hold_going == ops->going);
	/* app_hold.c (2) */
	ASSERT(sessions->holds + core->hold_linger_count + ops->going == listed + ops->holds);
}

void app_core_check(const struct app_core *core)
{
	struct session_sums sessions = { 0 };
	struct op_sums ops = { 0 };

	if (core->life == APP_STOPPED)
		return;
	ASSERT(core->fresh_count == 0); /* app_core.c (2) */
	ops_check(core, &ops);
	sessions_check(core, &ops, &sessions);
	ASSERT(core->parts_out + list_count(&core->part_free) == core->parts_max);
	ASSERT(sessions.parts <= core->parts_out);
	ASSERT(core->table_bytes <= core->cfg.staging_bytes / 4); /* app_memory.c (2) */
	holds_check(core, &ops, &sessions);
	ASSERT(core->hidden_free_count == list_count(&core->hidden_free));
	ASSERT(sessions.puts == list_count(&core->hidden));
	ASSERT(core->hidden_free_count + list_count(&core->hidden) + list_count(&core->aborts) +
		       ops.aborts ==
	       core->cfg.open_puts_max);
	app_staging_check(&core->staging);
}

#endif
