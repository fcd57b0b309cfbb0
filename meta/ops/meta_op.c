/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Operations: started, run, made to wait, run again, handed back.
 *
 *                       ops_max reached, or another runs alone
 *   meta_op_start() ---------------------------------------------> held
 *        |                                                           |
 *        v      misses                  all read                     v
 *       run <------------> (pages) -------------------> ready ---> run (in meta_op_poll)
 *        |  \
 *        |   `-- NEEDS_ROOM --> stalled -- meta__ops_turn() --> run
 *        |   `-- TRIMS --> trimming -- a file was trimmed --> ready
 *        v
 *   apply, over --> durable (until its record is) --> handed back
 *
 * Invariants, true between any two calls:
 *
 *  (1) An operation that is not over is on exactly one of the lists above, or waits for
 *      op->misses > 0 pages and is on none of them.
 *  (2) Plan and apply of an operation happen in one call of run(): the plan's findings still hold
 *      when its apply comes [test_meta_op:random_operations_give_what_the_model_gives].
 *  (3) A change is handed back only when everything that it saw and its own record are durable.
 *  (4) Blocks given to an operation are, when it is over, either in the tree or the store's again.
 *  (5) An operation that was run again META__RERUNS_ALONE times without progress runs
 *      alone: no other operation of a user takes page frames from it.  So each ends at last.
 *      (The store's own still run: without checkpoints nothing could make progress.)
 *      [test_meta_op:who_comes_no_further_runs_alone_and_ends]
 */
#include "meta/engine/meta_lend.h"
#include "meta/plans/meta_plan.h"
#include "meta/engine/meta_tree.h"

#include <stdlib.h>
#include <string.h>

#define META__RERUNS_ALONE 8u
#define STALLED_PER_TURN   32u
#define RUNS_PER_POLL      64u

static bool is_change(const struct meta_op *op)
{
	return !meta__op_is_own(op) && !(op->state & OP_NO_CHANGE);
}

/* ---- what its row says -------------------------------------------------------------- */

static uint32_t kind_of(const struct meta *m, const struct meta_op *op)
{
	return meta__op_row_kind(meta__op_row_of(m, op), op);
}

static int plan(struct meta *m, struct meta_op *op)
{
	return meta__op_row_of(m, op)->plan(m, op);
}

/* ---- blocks that came with it ------------------------------------------------------ */

static int blocks_check(struct meta *m, struct meta_op *op)
{
	int err = 0;

	ASSERT(!(op->state & OP_BLOCKS));
	if (!meta__op_brings_blocks(m, op))
		return 0;
	if (!op->runs || !op->crcs || op->nruns > META_IO_BLOCKS_MAX)
		return -EINVAL;
	for (uint32_t i = 0; i < op->nruns && !err; i++)
		if (op->runs[i].baddr)
			err = meta__data_check(m, &op->runs[i], 1);
	if (!err)
		op->state |= OP_BLOCKS;
	return err;
}

/* Settles the blocks given with the operation, and those that it replaced, whatever its result. */
static void settle_lent(struct meta *m, struct meta_op *op)
{
	if (op->state & OP_BLOCKS)
		meta__op_blocks_settle(m, op);
	if (op->type == META_OP_LET_GO)
		meta__let_go(m, op);
}

/* ---- run -------------------------------------------------------------------------- */

static bool over(struct meta *m, struct meta_op *op, int status)
{
	struct meta__ops *ops = m->ops;

	DASSERT(op->misses == 0); /* (1) */
	DASSERT((op->state & OP_STATE_MASK) != OP_OVER);
	op->status = status;
	if (status == -E2BIG && !meta__op_row_of(m, op)->may_be_too_long)
		op->status = -EFBIG; /* small zones: too many for one record */
	op->seen_seq = max_u64(op->seen_seq, meta__tx_seen(m));
	meta__op_set_state(op, OP_OVER);
	settle_lent(m, op);
	DASSERT(!(op->state & OP_BLOCKS)); /* (4) */
	if (op->state & OP_RUNNING) {
		op->state &= ~(uint32_t)OP_RUNNING;
		DASSERT(ops->running > 0);
		ops->running--;
	}
	if (ops->alone == op)
		ops->alone = NULL;
	return true;
}

static enum meta__stall stall_of(const struct meta *m, const struct meta_op *op)
{
	if (meta__op_is_own(op))
		return META__STALL_OWN;
	if (unlikely(meta__op_row_of(m, op)->of_drives))
		return META__STALL_DRIVES;
	return op->state & OP_NO_CHANGE ? META__STALL_READS : META__STALL_CHANGES;
}

static bool stall(struct meta *m, struct meta_op *op)
{
	struct list *l = &m->ops->stalled[stall_of(m, op)];
	const bool again = (op->state & OP_STATE_MASK) == OP_STALLED;

	DASSERT(op->misses == 0); /* (1) */
	DASSERT((op->state & OP_STATE_MASK) != OP_OVER);
	meta__op_set_state(op, OP_STALLED);
	/* It keeps its place in the list; and an operation that has begun goes before those that
	 * have not, because they wait until it is over. */
	if (again || op->state & OP_RUNNING)
		list_push_front(l, &op->link);
	else
		list_push_back(l, &op->link);
	return false;
}

/* The operation was not applied: readers still use one of its shards, or there is no room.  Waits
 * for readers delay nobody: all such operations close their shards in the same turn. */
static bool wait_room(struct meta *m, struct meta_op *op)
{
	if (likely(!m->share || !m->share->waits))
		return stall(m, op);
	op->epoch = m->share->waits;
	m->share->waits = 0;
	return meta__op_wait_on(op, &m->ops->leaving);
}

static void readers_left(struct meta *m)
{
	struct list *l = &m->ops->leaving;

	while (!list_empty(l) &&
	       meta__share_left(m, list_entry(l->next, struct meta_op, link)->epoch))
		list_push_back(&m->ops->ready, list_pop_front(l));
}

/* It missed pages. */
static bool wait_pages(struct meta *m, struct meta_op *op)
{
	struct meta__ops *ops = m->ops;

	if (!meta__op_is_own(op)) {
		if (ops->hits > op->keeps.user.farthest) {
			op->keeps.user.farthest = ops->hits;
			op->reruns = 0;
		}
		op->reruns++;
		if (op->reruns > META__RERUNS_ALONE && !ops->alone)
			ops->alone = op;
	}
	if (op->misses == 0)
		return meta__op_wait_on(op, &ops->ready); /* here already */
	meta__op_set_state(op, OP_PAGES);
	return false;
}

static int apply(struct meta *m, struct meta_op *op)
{
	const bool lengthens = op->state & OP_LENGTHENS || m->ops->lengthens;
	int rc = 0;

	DASSERT(op->misses == 0);
	if (op->state & OP_FILLS || (lengthens && meta__tx_splits(m)))
		rc = meta__space_ok(m);
	else if (m->ops->passing && m->ops->grows)
		/* No client waits for totals: without room, the next round tries again. */
		rc = meta__space_ok(m) ? -ENOSPC : 0;
	if (!rc)
		rc = meta__tx_ready(m);
	if (!rc)
		meta__tx_apply(m);
	return rc;
}

static int plan_whole(struct meta *m, struct meta_op *op)
{
	int rc;

	DASSERT(op->misses == 0);
	m->ops->hits = 0;
	m->ops->dead.zones = 0;
	m->ops->dead.budget = META__FREE_BUDGET;
	m->ops->dead.has_orphan = false;
	m->ops->lengthens = false;
	m->ops->nowed = 0;
	m->ops->passing = false;
	m->ops->grows = false;
	m->ops->who = op->who;
	m->ops->by = meta__op_is_own(op) ? META__BY_STORE : op->reader;
	if (unlikely(m->share))
		m->share->waits = 0;
	meta__tx_begin(m, op);
	rc = plan(m, op);
	if (rc == 0 && m->ops->nowed)
		rc = meta__owed_settle(m);
	if (rc == 0 && is_change(op) && op->receipt.client)
		rc = meta__receipt_want(m, op);
	return rc;
}

/* True: over.  False: it waits on some list, or for pages. */
static bool run(struct meta *m, struct meta_op *op)
{
	int rc;

	ASSERT(op->misses == 0);
	rc = m->failed && is_change(op) ? -EROFS : plan_whole(m, op);
	if (op->misses > 0 || rc == META__MISSES)
		return wait_pages(m, op); /* whatever rc says: it was not concluded from all */
	if (rc == 0 && unlikely(op->flags & META_HOLD))
		rc = meta__hold_ready(m, op);
	if (rc == 0 && !(op->state & OP_NO_CHANGE))
		rc = apply(m, op); /* the store's own too */
	if (op->misses > 0 || rc == META__MISSES)
		return wait_pages(m, op);
	if (rc == META__NEEDS_ROOM)
		return wait_room(m, op);
	if (rc == META__TRIMS) {
		if (m->ops->alone == op)
			m->ops->alone = NULL; /* it waits for others now */
		return meta__op_wait_on(op, &m->ops->trimming);
	}
	if (rc == 0 && op->type == META_OP_READ) {
		op->epoch = meta__epoch_enter(m);
		op->state |= OP_EPOCH;
	}
	if (rc == 0 && unlikely(op->flags & META_HOLD))
		meta__hold_take(m, op);
	return over(m, op, rc);
}

/* ---- durable ------------------------------------------------------------------------ */

bool meta_is_durable(const struct meta *m, uint64_t seq)
{
	return seq <= meta__log_durable(m);
}

uint64_t meta_durable_seq(const struct meta *m)
{
	return meta__log_durable(m);
}

static struct meta_op *pop_durable(struct meta *m)
{
	struct meta__ops *ops = m->ops;
	struct meta_op *op;

	if (list_empty(&ops->durable))
		return NULL;
	op = list_entry(ops->durable.next, struct meta_op, link);
	if (!meta_is_durable(m, op->seen_seq)) {
		if (!m->failed || meta__log_lives(m))
			return NULL;
		op->status = -EROFS; /* a crash may or may not keep the change */
		meta_read_end(m, op);
	} else if (unlikely(op->data_drives & m->dead)) {
		op->status = -EIO; /* meta_log.c (10) */
	}
	ASSERT(op->status || meta_is_durable(m, op->seen_seq)); /* (3) */
	list_del(&op->link);
	return op;
}

/* Over, in run(): may it leave at once?  If not, it waits in ops->durable. */
static bool may_leave(struct meta *m, struct meta_op *op)
{
	if (op->state & OP_NO_CHANGE || meta_is_durable(m, op->seen_seq))
		return true;
	meta_op_wait_durable(m, op);
	return false;
}

/* ---- start, poll, turn ----------------------------------------------------------------- */

static bool must_hold(const struct meta *m, const struct meta_op *op)
{
	const struct meta__ops *ops = m->ops;

	if (meta__op_is_own(op) || op == ops->alone)
		return false;
	return ops->alone || (!(op->state & OP_RUNNING) && ops->running >= m->conf.ops_max);
}

static bool run_or_hold(struct meta *m, struct meta_op *op)
{
	struct meta__ops *ops = m->ops;

	if (unlikely(must_hold(m, op)))
		return meta__op_wait_on(op, &ops->held);
	if (!meta__op_is_own(op) && !(op->state & OP_RUNNING)) {
		op->state |= OP_RUNNING;
		ops->running++;
	}
	DASSERT(meta__op_is_own(op) || ops->running <= m->conf.ops_max || ops->alone);
	return run(m, op);
}

/* Its inline bytes are too long. */
static bool is_too_long(const struct meta *m, const struct meta_op *op)
{
	return op->flags & META_BY_INLINE && op->inline_len > meta__op_row_of(m, op)->inline_max;
}

/* Not all copies of its blocks were written. */
static wk_cold int go_without(struct meta *m, const struct meta_op *op)
{
	for (uint64_t left = op->drives_failed; left; left &= left - 1)
		if (!meta_drive_failed(m, (uint32_t)__builtin_ctzll(left)))
			return -EIO;
	return 0;
}

bool meta_op_start(struct meta *m, struct meta_op *op)
{
	int rc = 0;

	DASSERT(!m->home);
	list_init(&op->link);
	op->misses = 0;
	op->reruns = 0;
	op->state = meta__op_is_own(op) ? 0 : kind_of(m, op);
	op->status = 0;
	op->data_drives = 0;
	op->seen_seq = 0;
	if (meta__op_is_own(op))
		return run(m, op);
	memset(&op->keeps, 0, sizeof(op->keeps));
	if (is_change(op)) {
		rc = m->failed ? -EROFS : blocks_check(m, op);
		if (!rc && unlikely(op->drives_failed))
			rc = go_without(m, op);
		if (!rc && is_too_long(m, op))
			rc = -EINVAL;
		if (rc) {
			op->status = rc;
			meta__op_set_state(op, OP_OVER);
			settle_lent(m, op);
			return true;
		}
		if (!list_empty(&m->ops->stalled[META__STALL_CHANGES]))
			return stall(m, op); /* first come, first served */
	}
	return run_or_hold(m, op) && may_leave(m, op);
}

/* Returns true for operations that need more of the store than a shard's pages. */
static bool is_only_stores(const struct meta *m, const struct meta_op *op)
{
	return op->flags & META_HOLD || meta__op_row_of(m, op)->store_only;
}

/* Runs a reader's operation; its m cannot wait for anything. */
bool meta__op_try(struct meta *m, struct meta_op *op)
{
	int rc;

	DASSERT(m->home);
	op->state = kind_of(m, op);
	if (!(op->state & OP_NO_CHANGE) || is_only_stores(m, op))
		return false;
	list_init(&op->link);
	op->misses = 0;
	op->reruns = 0;
	memset(&op->keeps, 0, sizeof(op->keeps));
	m->ops->who = op->who;
	meta__tx_begin(m, op);
	rc = plan(m, op);
	if (rc == META__MISSES || rc == META__NEEDS_ROOM || rc == -EIO || m->cache->missed)
		return false;
	ASSERT(op->misses == 0); /* a reader cannot wait */
	op->status = rc;
	op->seen_seq = meta__tx_seen(m);
	meta__op_set_state(op, OP_OVER);
	return true;
}

int meta__op_change(struct meta *m, struct meta_op *op)
{
	int rc;

	DASSERT(m->home);
	op->state = kind_of(m, op);
	if (op->state & OP_NO_CHANGE || is_only_stores(m, op) || is_too_long(m, op) ||
	    op->drives_failed)
		return META__MISSES;
	list_init(&op->link);
	op->misses = 0;
	op->reruns = 0;
	memset(&op->keeps, 0, sizeof(op->keeps));
	rc = plan_whole(m, op);
	if (rc == META__MISSES || rc == META__NEEDS_ROOM || rc == META__TRIMS || rc == -EIO ||
	    rc == -E2BIG || m->cache->missed)
		return META__MISSES;
	if (rc == 0) {
		rc = meta__borrow_ready(m);
		if (rc)
			return rc;
		meta__tx_apply(m);
	}
	ASSERT(op->misses == 0); /* a borrower cannot wait */
	op->status = rc;
	meta__op_set_state(op, OP_OVER);
	return 0;
}

bool meta__ops_stalled(const struct meta *m)
{
	bool none = true;

	for (uint32_t i = 0; i < META__STALLS; i++)
		none &= list_empty(&m->ops->stalled[i]);
	return !none;
}

/* An operation that was kept is over: to its owner. */
static void settle(struct meta *m, struct meta_op *op)
{
	DASSERT((op->state & OP_STATE_MASK) == OP_OVER); /* (1) */
	DASSERT(op->misses == 0);
	if (meta__op_is_own(op))
		meta__op_row_of(m, op)->done(m, op);
	else if (may_leave(m, op))
		list_push_back(&m->ops->over, &op->link);
}

static struct meta_op *next_to_run(struct meta *m)
{
	struct meta__ops *ops = m->ops;
	struct list *node = list_pop_front(&ops->ready);

	if (node)
		return list_entry(node, struct meta_op, link);
	if (list_empty(&ops->held) ||
	    must_hold(m, list_entry(ops->held.next, struct meta_op, link)))
		return NULL;
	return list_entry(list_pop_front(&ops->held), struct meta_op, link);
}

struct meta_op *meta_op_poll(struct meta *m)
{
	struct meta__ops *ops = m->ops;

	for (uint32_t runs = 0; runs < RUNS_PER_POLL; runs++) {
		struct list *node = list_pop_front(&ops->over);
		struct meta_op *op = node ? list_entry(node, struct meta_op, link) : pop_durable(m);

		if (op)
			return op;
		op = next_to_run(m);
		if (!op)
			return NULL;
		if (op->state & OP_PAGE_BAD) {
			op->state &= ~(uint32_t)OP_PAGE_BAD;
			over(m, op, -EIO); /* meta_error() names the page */
			settle(m, op);
		} else if (run_or_hold(m, op)) {
			settle(m, op);
		}
	}
	return NULL; /* meta_turn() says that there is more */
}

/* Users' operations run in order: one that cannot continue delays those after it. */
static bool retry_stalled(struct meta *m, struct list *l)
{
	for (uint32_t i = 0; i < STALLED_PER_TURN && !list_empty(l); i++) {
		struct meta_op *op = list_entry(l->next, struct meta_op, link);

		if (must_hold(m, op))
			return false;
		list_del(&op->link);
		if (run_or_hold(m, op))
			settle(m, op);
		else if (l->next == &op->link)
			return false;
	}
	return !list_empty(l);
}

/* The store's own operations run once each: none may wait, since users wait for them. */
static void retry_own(struct meta *m)
{
	struct list *l = &m->ops->stalled[META__STALL_OWN], now, *node;

	list_init(&now);
	while ((node = list_pop_front(l)))
		list_push_back(&now, node);
	while ((node = list_pop_front(&now))) {
		struct meta_op *op = list_entry(node, struct meta_op, link);

		meta__op_set_state(op, OP_LISTED); /* to the end again, should it stall again */
		if (run(m, op))
			settle(m, op);
	}
}

bool meta__ops_turn(struct meta *m)
{
	struct meta__ops *ops = m->ops;
	bool more;

	if (m->failed)
		meta__ops_trimmed(m); /* nothing trims any more: they fail too */
	readers_left(m);
	retry_own(m);
	more = retry_stalled(m, &ops->stalled[META__STALL_READS]);
	more |= retry_stalled(m, &ops->stalled[META__STALL_CHANGES]);
	more |= retry_stalled(m, &ops->stalled[META__STALL_DRIVES]);
	more |= meta__orphan_turn(m);
	more |= meta__totals_turn(m);
	return more || !list_empty(&ops->ready) || !list_empty(&ops->over);
}

void meta_read_end(struct meta *m, struct meta_op *op)
{
	DASSERT(!m->home);
	if (!(op->state & OP_EPOCH))
		return;
	op->state &= ~(uint32_t)OP_EPOCH;
	meta__epoch_leave(m, op->epoch);
}

uint64_t meta_read_pin_take(struct meta_op *op)
{
	if (!(op->state & OP_EPOCH))
		return 0;
	op->state &= ~(uint32_t)OP_EPOCH;
	ASSERT(op->epoch > 0);
	return op->epoch;
}

void meta_read_pin_end(struct meta *m, uint64_t pin)
{
	meta__epoch_leave(m, pin);
}

/* ---- made, ended ------------------------------------------------------------------------ */

uint64_t meta__ops_memory(const struct meta_conf *c)
{
	(void)c;
	return 0;
}

int meta__ops_create(struct meta *m)
{
	struct meta__ops *ops = calloc(1, sizeof(*ops));

	if (!ops)
		return -ENOMEM;
	ops->orphan = calloc(META_SHARDS_MAX, sizeof(*ops->orphan));
	ops->totals = calloc(META_SHARDS_MAX, sizeof(*ops->totals));
	if (!ops->orphan || !ops->totals) {
		free(ops->orphan);
		free(ops->totals);
		free(ops);
		return -ENOMEM;
	}
	list_init(&ops->ready);
	for (uint32_t i = 0; i < META__STALLS; i++)
		list_init(&ops->stalled[i]);
	list_init(&ops->held);
	list_init(&ops->trimming);
	list_init(&ops->leaving);
	list_init(&ops->over);
	list_init(&ops->durable);
	m->ops = ops;
	return m->home ? 0 : meta__holds_create(m);
}

void meta__ops_destroy(struct meta *m)
{
	if (!m->ops)
		return;
	meta__holds_destroy(m);
	free(m->ops->orphan);
	free(m->ops->totals);
	free(m->ops);
	m->ops = NULL;
}
