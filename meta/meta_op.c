/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Operations: begun, run, made to wait, run again, handed back.
 *
 *                       ops_max reached, or another runs alone
 *   meta_op_start() ---------------------------------------------> held
 *        |                                                           |
 *        v      misses                  all read                     v
 *       run <------------> (pages) -------------------> ready ---> run (in meta_op_poll)
 *        |  \
 *        |   `-- -EBUSY --> stalled ---- meta__ops_turn() ----> run
 *        |   `-- -EINPROGRESS --> trimming -- a file was trimmed --> ready
 *        v
 *   apply, over --> durable (until its record is) --> handed back
 *
 * Invariants, true between any two calls:
 *
 *  (1) An operation that is not over is on exactly one of the lists above, or waits for
 *      op->misses > 0 pages and is on none of them.
 *  (2) Plan and apply of an operation happen in one call of run(): what a plan saw is so when
 *      its apply comes.
 *  (3) A change is handed back only when all that it saw and its own record are durable.
 *  (4) Blocks given to an operation are, when it is over, either in the tree or the store's again.
 *  (5) An operation that was run again META__RERUNS_ALONE times without coming further runs
 *      alone: no other operation of a user takes page frames from it.  So each ends at last.
 *      (The store's own still run: without checkpoints nothing could go on.)
 */
#include "meta/meta_lend.h"
#include "meta/meta_plan.h"
#include "meta/meta_tree.h"

#include <stdlib.h>
#include <string.h>

#define META__RERUNS_ALONE 8u
#define STALLED_PER_TURN   32u
#define RUNS_PER_POLL      64u

enum op_state {
	OP_IDLE,
	OP_PAGES,
	OP_LISTED,
	OP_STALLED,
	OP_OVER,
	/* and bits: */
	OP_STATE_MASK = 15,
	OP_PAGE_BAD = 1 << 4, /* a page that it waits for could not be read          */
	OP_EPOCH = 1 << 5,    /* op->epoch is entered                                */
	OP_BLOCKS = 1 << 6,   /* its runs are checked, and must find an owner: (4)   */
	OP_RUNNING = 1 << 7,  /* counted in ops->running                             */
	OP_NO_CHANGE = 1 << 8,
	OP_FILLS = 1 << 9,      /* makes a store fuller: -ENOSPC when that is so  */
	OP_LENGTHENS = 1 << 10, /* so does this if a page has no room for it      */
};

static void set_state(struct meta_op *op, enum op_state s)
{
	op->state = (op->state & ~(uint32_t)OP_STATE_MASK) | s;
}

static bool is_private(const struct meta_op *op)
{
	return (int)op->type >= META__OP_FREE_ORPHAN;
}

static bool is_change(const struct meta_op *op)
{
	return !is_private(op) && !(op->state & OP_NO_CHANGE);
}

/* ---- what to run ---------------------------------------------------------------- */

static int plan_private(struct meta *m, struct meta_op *op)
{
	switch ((int)op->type) {
	case META__OP_FREE_ORPHAN:
		return meta__plan_free_orphan(m, op);
	case META__OP_TOUCH:
		return meta__plan_touch(m, op);
	case META__OP_REPLAY:
		return meta__plan_replay(m, op);
	case META__OP_MKROOT:
		return meta__plan_mkroot(m, op);
	case META__OP_GC_FIND:
		return meta__plan_gc_find(m, op);
	case META__OP_GC_LOOK:
		return meta__plan_gc_look(m, op);
	case META__OP_GC_MOVE:
		return meta__plan_gc_move(m, op);
	case META__OP_PASS:
		return meta__plan_pass(m, op);
	case META__OP_TWICE:
		return meta__plan_twice(m, op);
	}
	UNREACHABLE();
}

static int plan(struct meta *m, struct meta_op *op)
{
	switch (op->type) {
	case META_OP_STAT:
		return meta__plan_stat(m, op);
	case META_OP_READ:
		return meta__plan_read(m, op);
	case META_OP_LIST:
		return meta__plan_list(m, op);
	case META_OP_READLINK:
		return meta__plan_readlink(m, op);
	case META_OP_STATFS:
		return meta__plan_statfs(m, op);
	case META_OP_PUT:
		return meta__plan_put(m, op);
	case META_OP_PUT_BEGIN:
		return meta__plan_put_begin(m, op);
	case META_OP_PUT_COMMIT:
		return meta__plan_put_commit(m, op);
	case META_OP_PUT_ABORT:
		return meta__plan_put_abort(m, op);
	case META_OP_WRITE:
		return meta__plan_write(m, op);
	case META_OP_TRUNCATE:
		return meta__plan_truncate(m, op);
	case META_OP_PUNCH:
		return meta__plan_punch(m, op);
	case META_OP_SEEK:
		return meta__plan_seek(m, op);
	case META_OP_SETATTR:
		return meta__plan_setattr(m, op);
	case META_OP_MKDIR:
		return meta__plan_mkdir(m, op);
	case META_OP_SYMLINK:
		return meta__plan_symlink(m, op);
	case META_OP_UNLINK:
		return meta__plan_unlink(m, op);
	case META_OP_RMDIR:
		return meta__plan_rmdir(m, op);
	case META_OP_RENAME:
		return meta__plan_rename(m, op);
	case META_OP_LINK:
		return meta__plan_link(m, op);
	case META_OP_RMTREE:
		return meta__plan_rmtree(m, op);
	case META_OP_XATTR_SET:
		return meta__plan_xattr_set(m, op);
	case META_OP_XATTR_DEL:
		return meta__plan_xattr_del(m, op);
	case META_OP_XATTR_GET:
		return meta__plan_xattr_get(m, op);
	case META_OP_XATTR_LIST:
		return meta__plan_xattr_list(m, op);
	case META_OP_RECALL:
		return meta__plan_recall(m, op);
	case META_OP_LET_GO:
		return meta__plan_let_go(m, op);
	case META_OP_DRIVE:
		return meta__plan_drive(m, op);
	case META_OP_TOTALS:
		return meta__plan_totals(m, op);
	}
	return plan_private(m, op);
}

static uint32_t kind_of(const struct meta_op *op)
{
	switch (op->type) {
	case META_OP_STAT:
	case META_OP_READ:
	case META_OP_LIST:
	case META_OP_READLINK:
	case META_OP_STATFS:
	case META_OP_RECALL:
	case META_OP_DRIVE: /* of no file */
	case META_OP_SEEK:
	case META_OP_TOTALS:
	case META_OP_XATTR_GET:
	case META_OP_XATTR_LIST:
		return OP_NO_CHANGE;
	case META_OP_PUT:
	case META_OP_PUT_BEGIN:
	case META_OP_PUT_COMMIT:
	case META_OP_WRITE:
	case META_OP_MKDIR:
	case META_OP_SYMLINK:
	case META_OP_XATTR_SET:
	case META_OP_LINK:
		return OP_FILLS;
	case META_OP_SETATTR:
	case META_OP_RENAME:
		return OP_LENGTHENS;
	case META_OP_TRUNCATE: /* bytes of a block come into the index */
		return op->flags & META_BY_INLINE ? OP_FILLS : 0;
	default:
		return 0;
	}
}

bool meta_op_changes(const struct meta_op *op)
{
	return !(kind_of(op) & OP_NO_CHANGE);
}

/* ---- blocks that came with it ------------------------------------------------------ */

static bool brings_blocks(const struct meta_op *op)
{
	if (op->type == META_OP_WRITE || op->type == META_OP_PUNCH)
		return op->nruns > 0;
	return (op->type == META_OP_PUT || op->type == META_OP_TRUNCATE) &&
	       !(op->flags & META_BY_INLINE) && op->nruns > 0;
}

static int blocks_check(struct meta *m, struct meta_op *op)
{
	int err = 0;

	if (!brings_blocks(op))
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

static void blocks_settle(struct meta *m, struct meta_op *op)
{
	if (!(op->state & OP_BLOCKS))
		return;
	op->state &= ~(uint32_t)OP_BLOCKS;
	for (uint32_t i = 0; i < op->nruns; i++) {
		if (!op->runs[i].baddr)
			continue;
		if (op->status == 0)
			meta__data_applied(m, &op->runs[i], 1);
		else
			meta__data_dropped(m, &op->runs[i], 1);
	}
}

/* What was given with it, and what it was to give up, whatever became of it. */
static void settle_lent(struct meta *m, struct meta_op *op)
{
	blocks_settle(m, op);
	if (op->type == META_OP_LET_GO)
		meta__let_go(m, op);
}

/* ---- run -------------------------------------------------------------------------- */

static bool over(struct meta *m, struct meta_op *op, int status)
{
	struct meta__ops *ops = m->ops;

	op->status = status;
	if (status == -E2BIG && op->type != META_OP_XATTR_SET)
		op->status = -EFBIG; /* small zones: too many for one record */
	op->seen_seq = max_u64(op->seen_seq, meta__tx_seen(m));
	set_state(op, OP_OVER);
	settle_lent(m, op);
	if (op->state & OP_RUNNING) {
		op->state &= ~(uint32_t)OP_RUNNING;
		ops->running--;
	}
	if (ops->alone == op)
		ops->alone = NULL;
	return true;
}

static enum meta__stall stall_of(const struct meta_op *op)
{
	if (is_private(op))
		return META__STALL_OWN;
	if (unlikely(op->type == META_OP_DRIVE))
		return META__STALL_DRIVES;
	return op->state & OP_NO_CHANGE ? META__STALL_READS : META__STALL_CHANGES;
}

static bool stall(struct meta *m, struct meta_op *op)
{
	struct list *l = &m->ops->stalled[stall_of(op)];
	const bool again = (op->state & OP_STATE_MASK) == OP_STALLED;

	set_state(op, OP_STALLED);
	/* It keeps its turn; and one that has begun goes before those that have not, for these wait
	 * until it is over. */
	if (again || op->state & OP_RUNNING)
		list_push_front(l, &op->link);
	else
		list_push_back(l, &op->link);
	return false;
}

static bool wait_on(struct meta_op *op, struct list *l)
{
	set_state(op, OP_LISTED);
	list_push_back(l, &op->link);
	return false;
}

/* It was not applied: for readers, who still look at a shard of it, or for want of room.  Those who
 * wait for readers hold up nobody: all of them close their shards in the same turn. */
static bool wait_room(struct meta *m, struct meta_op *op)
{
	if (likely(!m->share || !m->share->waits))
		return stall(m, op);
	op->epoch = m->share->waits;
	m->share->waits = 0;
	return wait_on(op, &m->ops->leaving);
}

static void readers_left(struct meta *m)
{
	struct list *l = &m->ops->leaving;

	while (!list_empty(l) &&
	       meta__share_left(m, list_entry(l->next, struct meta_op, link)->epoch))
		list_push_back(&m->ops->ready, list_pop_front(l));
}

/* It missed pages.  scratch[3]: how far its plan came so far. */
static bool wait_pages(struct meta *m, struct meta_op *op)
{
	struct meta__ops *ops = m->ops;

	if (!is_private(op)) {
		if (ops->hits > op->scratch[3]) {
			op->scratch[3] = ops->hits;
			op->reruns = 0;
		}
		op->reruns++;
		if (op->reruns > META__RERUNS_ALONE && !ops->alone)
			ops->alone = op;
	}
	if (op->misses == 0)
		return wait_on(op, &ops->ready); /* here already */
	set_state(op, OP_PAGES);
	return false;
}

static int apply(struct meta *m, struct meta_op *op)
{
	const bool lengthens = op->state & OP_LENGTHENS || m->ops->lengthens;
	int rc = 0;

	if (op->state & OP_FILLS || (lengthens && meta__tx_splits(m)))
		rc = meta__space_ok(m);
	else if (m->ops->passing && m->ops->grows)
		rc = meta__space_ok(m) ? -ENOSPC : 0; /* nobody waits for it */
	if (!rc)
		rc = meta__tx_ready(m);
	if (!rc)
		meta__tx_apply(m);
	return rc;
}

static int plan_whole(struct meta *m, struct meta_op *op)
{
	int rc;

	m->ops->hits = 0;
	m->ops->dead.zones = 0;
	m->ops->dead.budget = META__FREE_BUDGET;
	m->ops->dead.has_orphan = false;
	m->ops->lengthens = false;
	m->ops->who = op->who;
	m->ops->by = is_private(op) ? META__BY_STORE : op->reader;
	if (unlikely(m->share))
		m->share->waits = 0;
	meta__owed_none(m);
	meta__tx_begin(m, op);
	rc = plan(m, op);
	if (rc == 0 && m->ops->nowed)
		rc = meta__owed_settle(m);
	if (rc == 0 && op->receipt.client && is_change(op))
		rc = meta__receipt_want(m, op);
	return rc;
}

/* True: over.  False: it waits on some list, or for pages. */
static bool run(struct meta *m, struct meta_op *op)
{
	int rc;

	ASSERT(op->misses == 0);
	rc = m->failed && is_change(op) ? -EROFS : plan_whole(m, op);
	if (op->misses > 0 || rc == -EAGAIN)
		return wait_pages(m, op); /* whatever rc says: it was not concluded from all */
	if (rc == 0 && unlikely(op->flags & META_HOLD))
		rc = meta__hold_ready(m, op);
	if (rc == 0 && !(op->state & OP_NO_CHANGE))
		rc = apply(m, op); /* the store's own too */
	if (op->misses > 0 || rc == -EAGAIN)
		return wait_pages(m, op);
	if (rc == -EBUSY)
		return wait_room(m, op);
	if (rc == -EINPROGRESS) {
		if (m->ops->alone == op)
			m->ops->alone = NULL; /* it waits for others now */
		return wait_on(op, &m->ops->trimming);
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

void meta_op_wait_durable(struct meta *m, struct meta_op *op)
{
	struct list *l = &m->ops->durable, *at = l->prev;

	set_state(op, OP_LISTED);
	while (at != l && list_entry(at, struct meta_op, link)->seen_seq > op->seen_seq)
		at = at->prev;
	list_push_front(at, &op->link); /* right behind `at` */
}

static struct meta_op *pop_durable(struct meta *m)
{
	struct meta__ops *ops = m->ops;
	struct meta_op *op;

	if (list_empty(&ops->durable))
		return NULL;
	op = list_entry(ops->durable.next, struct meta_op, link);
	if (!meta_is_durable(m, op->seen_seq)) {
		if (!m->failed)
			return NULL;
		op->status = -EROFS; /* nobody knows what a crash would leave of it */
		meta_read_end(m, op);
	}
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

	if (is_private(op) || op == ops->alone)
		return false;
	return ops->alone || (!(op->state & OP_RUNNING) && ops->running >= m->conf.ops_max);
}

static bool run_or_hold(struct meta *m, struct meta_op *op)
{
	struct meta__ops *ops = m->ops;

	if (unlikely(must_hold(m, op)))
		return wait_on(op, &ops->held);
	if (!is_private(op) && !(op->state & OP_RUNNING)) {
		op->state |= OP_RUNNING;
		ops->running++;
	}
	return run(m, op);
}

static uint32_t inline_max(const struct meta_op *op)
{
	return op->type == META_OP_PUT ? META_INLINE_MAX : META_TAIL_MAX;
}

bool meta_op_start(struct meta *m, struct meta_op *op)
{
	int rc = 0;

	list_init(&op->link);
	op->misses = 0;
	op->reruns = 0;
	op->state = is_private(op) ? 0 : kind_of(op);
	op->status = 0;
	op->seen_seq = 0;
	if (is_private(op))
		return run(m, op);
	memset(op->scratch, 0, sizeof(op->scratch));
	if (is_change(op)) {
		rc = m->failed ? -EROFS : blocks_check(m, op);
		if (!rc && op->flags & META_BY_INLINE && op->inline_len > inline_max(op))
			rc = -EINVAL;
		if (rc) {
			op->status = rc;
			set_state(op, OP_OVER);
			settle_lent(m, op);
			return true;
		}
		if (!list_empty(&m->ops->stalled[META__STALL_CHANGES]))
			return stall(m, op); /* first come, first served */
	}
	return run_or_hold(m, op) && may_leave(m, op);
}

/* A reader's: m is none that could wait for anything. */
bool meta__op_try(struct meta *m, struct meta_op *op)
{
	int rc;

	op->state = kind_of(op);
	if (!(op->state & OP_NO_CHANGE) || op->flags & META_HOLD || op->type == META_OP_STATFS ||
	    op->type == META_OP_RECALL || op->type == META_OP_DRIVE ||
	    op->type == META_OP_TOTALS) /* the store's alone */
		return false;
	list_init(&op->link);
	op->misses = 0;
	op->reruns = 0;
	memset(op->scratch, 0, sizeof(op->scratch));
	m->ops->who = op->who;
	meta__tx_begin(m, op);
	rc = plan(m, op);
	if (rc == -EAGAIN || rc == -EBUSY || rc == -EIO || m->cache->missed)
		return false;
	op->status = rc;
	op->seen_seq = meta__tx_seen(m);
	set_state(op, OP_OVER);
	return true;
}

/* What needs more of the store than a shard's pages. */
static bool is_only_stores(const struct meta_op *op)
{
	switch (op->type) {
	case META_OP_PUT_BEGIN:
	case META_OP_PUT_COMMIT:
	case META_OP_PUT_ABORT:
	case META_OP_RMTREE:
	case META_OP_LET_GO:
		return true;
	default:
		return op->flags & META_HOLD || op->state & OP_NO_CHANGE;
	}
}

int meta__op_change(struct meta *m, struct meta_op *op)
{
	int rc;

	op->state = kind_of(op);
	if (is_only_stores(op) || (op->flags & META_BY_INLINE && op->inline_len > inline_max(op)))
		return -EAGAIN;
	list_init(&op->link);
	op->misses = 0;
	op->reruns = 0;
	memset(op->scratch, 0, sizeof(op->scratch));
	rc = plan_whole(m, op);
	if (rc == -EAGAIN || rc == -EBUSY || rc == -EIO || rc == -EINPROGRESS || rc == -E2BIG ||
	    m->cache->missed)
		return -EAGAIN;
	if (rc == 0) {
		rc = meta__borrow_ready(m);
		if (rc)
			return rc;
		meta__tx_apply(m);
	}
	op->status = rc;
	set_state(op, OP_OVER);
	return 0;
}

void meta__op_settle_made(struct meta *m, struct meta_op *op)
{
	if (!brings_blocks(op))
		return;
	op->state |= OP_BLOCKS;
	blocks_settle(m, op);
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
	if ((int)op->type == META__OP_FREE_ORPHAN)
		meta__orphan_op_done(m, op);
	else if ((int)op->type == META__OP_PASS)
		meta__pass_op_done(m, op);
	else if (is_private(op))
		meta__own_op_done(m, op);
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

void meta__op_page_done(struct meta *m, struct meta_op *op, int status)
{
	ASSERT(op->misses > 0);
	if (status)
		op->state |= OP_PAGE_BAD;
	if (--op->misses == 0 && (op->state & OP_STATE_MASK) == OP_PAGES)
		wait_on(op, &m->ops->ready); /* else run() is still in its plan, and looks itself */
}

/* Users' operations in their order: who cannot go on holds up those behind it. */
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

/* The store's own, each once: none may wait for another, since users wait for what they do. */
static void retry_own(struct meta *m)
{
	struct list *l = &m->ops->stalled[META__STALL_OWN], now, *node;

	list_init(&now);
	while ((node = list_pop_front(l)))
		list_push_back(&now, node);
	while ((node = list_pop_front(&now))) {
		struct meta_op *op = list_entry(node, struct meta_op, link);

		set_state(op, OP_LISTED); /* to the end again, should it stall again */
		if (run(m, op))
			settle(m, op);
	}
}

bool meta__ops_turn(struct meta *m)
{
	struct meta__ops *ops = m->ops;
	bool more;

	if (m->failed)
		meta__ops_trimmed(m); /* nobody trims any more: they fail too */
	readers_left(m);
	retry_own(m);
	more = retry_stalled(m, &ops->stalled[META__STALL_READS]);
	more |= retry_stalled(m, &ops->stalled[META__STALL_CHANGES]);
	more |= retry_stalled(m, &ops->stalled[META__STALL_DRIVES]);
	more |= meta__orphan_turn(m);
	more |= meta__totals_turn(m);
	return more || !list_empty(&ops->ready) || !list_empty(&ops->over);
}

/* Those that wait for a file to be trimmed look again. */
void meta__ops_trimmed(struct meta *m)
{
	struct list *node;

	while ((node = list_pop_front(&m->ops->trimming)))
		list_push_back(&m->ops->ready, node);
}

void meta_read_end(struct meta *m, struct meta_op *op)
{
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
