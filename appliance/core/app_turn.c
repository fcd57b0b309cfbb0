/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Scheduling: among keys, and among the sessions of each, by fair queueing in virtual time.
 *
 *   core->turns      key --> key --> key              each key:  tag, and its own clock
 *                     |
 *   key->sessions    session --> session --> ...      each session:  tag
 *                       |
 *                    waiting   requests that have come and have not begun     (1st)
 *                    resume    reads of more than 4 MiB, between two pieces   (2nd)
 *                    batches   with items to begin, or an end                 (3rd)
 *
 * A beginning costs OP_COST plus the bytes that it moves.  The clock advances by that cost divided
 * by the number of present shares: those with work to begin, or in progress.  So it shows how much
 * each would have got if all had got the same.  A tag shows how much a share has really got; a
 * share has its turn while its tag is not ahead of the clock.  So every share that wants it gets
 * the same of the core's time, its operations, the drives and the link, for many small requests or
 * a few large ones; and a key that opens a hundred sessions gets no more than a key with one.
 *
 * A share that was away loses nothing, and saves up at most BURST: shares that ask for little go
 * first.  A share that is ahead continues when there is nothing else to do, and the drives have
 * less than AHEAD_IO: drives process their queue in their own order, and another client's small
 * read may come right after it.  For the same reason they get no more at once than keeps them busy
 * (io_max_bytes): the rest waits here, where it has an order.
 *
 * Waiting is limited: a session may have as many requests waiting as it leaves places to the others
 * (of queue_max), plus one; further requests are told when to come again.
 *
 * Invariants, true between any two turns of the loop:
 *
 *  (1) A session with work is on its key's ring, or on core->blocked, or it has stalled (it waits
 *      for its own client): then it comes back when it continues.
 *  (2) A key is on core->turns exactly if one of its sessions is on its ring.
 *  (3) core->queued is the number of requests on all `waiting`; queuers, of sessions with any.
 *  (4) `present` counts the sessions with work or operations, and the keys that have such,
 *      except those that are starved (6).
 *  (5) The core does not sleep while a session has work, unless a drive, or a client, must answer
 *      [sim/fair].
 *  (6) A session all of whose operations wait for the store to have room, and that can begin
 *      nothing, takes nothing: it is not present.  Otherwise the clock would nearly stand still,
 *      and readers beside it would be ahead, until collection has won room for its writes.  A
 *      session is not present either while its peer takes none of its data (app_quota.c).
 */
#include "appliance/core/app_quota.h"
#include "appliance/core/app_op.h"

#include "base/clock.h"

#include <errno.h>

#define OP_COST       (8u << 10) /* bytes that take as long as beginning an operation */
#define QUANTUM       (32 << 10)
#define BURST         (64 << 10) /* most that a share saves while it is away */
#define SAVED         (1 << 20)  /* most that it saves while present and unable to begin */
#define AHEAD_IO      (1u << 20)
#define INVERSE_SHIFT 30
#define BUSY_DIV      8u /* cost of being told "later", a fraction of being served */

#define BEGUN_MAX    128u /* of one turn of the loop: so that drives and sockets are polled */
#define ITEM_GUESS   (64u << 10) /* bytes of a batch's item, before anything is known */
#define RATE_NS      (NS_PER_MS) /* how long it takes to begin one is measured over   */
#define EACH_NS      2000u       /* ... and believed to be before                     */
#define RETRY_MAX_MS 1000u

/* ---- shares ------------------------------------------------------------------------------- */

void app_turns_init(struct app_turns *t)
{
	*t = (struct app_turns){ 0 };
	list_init(&t->ring);
	list_init(&t->sparse);
}

static bool is_behind(const struct app_turns *t, const struct app_share *s)
{
	return s->tag <= t->clock;
}

/* It continues once it has its turn: several at once cost less than one by one. */
static bool is_near(const struct app_turns *t, const struct app_share *s)
{
	return s->tag <= t->clock + QUANTUM;
}

/* It asks for less than its share. */
static bool is_sparse(const struct app_turns *t, const struct app_share *s)
{
	return s->tag <= t->clock - BURST;
}

static void enlist(struct app_turns *t, struct app_share *s)
{
	DASSERT(!list_linked(&s->link));
	list_push_back(is_sparse(t, s) ? &t->sparse : &t->ring, &s->link);
}

/* It has something to begin. */
static void arrive(struct app_turns *t, struct app_share *s)
{
	int64_t saved = s->present ? SAVED : BURST;

	t->present += !s->present;
	s->present = true;
	if (s->tag < t->clock - saved)
		s->tag = t->clock - saved;
	DASSERT(s->present && s->tag >= t->clock - SAVED);
}

static void wait_in(struct app_turns *t, struct app_share *s)
{
	if (list_linked(&s->link))
		return;
	arrive(t, s);
	t->waiting++;
	enlist(t, s);
	DASSERT(s->present && t->waiting > 0); /* (1) */
}

static void leave(struct app_turns *t, struct app_share *s)
{
	if (!list_linked(&s->link))
		return;
	list_del(&s->link);
	ASSERT(t->waiting > 0);
	t->waiting--;
}

static void be_absent(struct app_turns *t, struct app_share *s)
{
	ASSERT(t->present >= s->present); /* (4) */
	ASSERT(!list_linked(&s->link));
	t->present -= s->present;
	s->present = false;
}

static struct app_share *first(const struct app_turns *t)
{
	const struct list *from = list_empty(&t->sparse) ? &t->ring : &t->sparse;

	DASSERT(t->waiting > 0 || (list_empty(&t->ring) && list_empty(&t->sparse)));
	return list_empty(from) ? NULL : list_entry(from->next, struct app_share, link);
}

/* It was first: to the back. */
static void rotate(struct app_turns *t, struct app_share *s)
{
	DASSERT(list_linked(&s->link));
	list_del(&s->link);
	enlist(t, s);
}

/* Divisions take as long as all the rest of it: one, when `present` has changed. */
static int64_t each_of(struct app_turns *t, int64_t cost)
{
	if (unlikely(t->inverse_of != t->present)) {
		t->inverse_of = t->present;
		t->inverse = (1u << INVERSE_SHIFT) / max_u32(t->present, 1);
	}
	return cost * t->inverse >> INVERSE_SHIFT;
}

static void pay(struct app_turns *t, struct app_share *s, int64_t cost)
{
	s->tag += cost;
	t->clock += t->present <= 1 ? cost : each_of(t, cost);
}

/* All waiting shares are ahead: advances the clock to the first of them. */
static void catch_up(struct app_turns *t)
{
	int64_t least = INT64_MAX;
	struct list *node;

	ASSERT(t->waiting > 0 || list_empty(&t->ring));
	if (!list_empty(&t->sparse))
		return;

	list_for_each (node, &t->ring) {
		const struct app_share *s = list_entry(node, struct app_share, link);

		least = s->tag < least ? s->tag : least;
	}
	if (least != INT64_MAX && least > t->clock)
		t->clock = least;
}

/* ---- sessions -------------------------------------------------------------------------------- */

static bool has_work(const struct app_session *s)
{
	return !list_empty(&s->waiting) || !list_empty(&s->resume) || !list_empty(&s->batches);
}

void app_turn_want(struct app_core *core, struct app_session *s)
{
	DASSERT(s->key && s->key->users > 0);
	list_del(&s->blocked); /* it was blocked for another reason */
	if (s->stalled > 0 || !has_work(s))
		return; /* (1) */
	core->present += !s->share.present;
	wait_in(&s->key->sessions, &s->share);
	wait_in(&core->turns, &s->key->share);                                    /* (2) */
	DASSERT(list_linked(&s->share.link) && list_linked(&s->key->share.link)); /* (2) */
}

/* (2), (4) */
static void leave_ring(struct app_core *core, struct app_session *s)
{
	leave(&s->key->sessions, &s->share);
	if (s->key->sessions.waiting == 0)
		leave(&core->turns, &s->key->share);
	DASSERT(!list_linked(&s->share.link)); /* (2) */
}

/* (6) */
static bool is_starved(const struct app_session *s)
{
	ASSERT(s->starved <= s->ops); /* (6) */
	return (s->is_away || (s->starved > 0 && s->starved == s->ops)) &&
	       !list_linked(&s->share.link);
}

void app_turn_rest(struct app_core *core, struct app_session *s)
{
	if ((s->ops > 0 || has_work(s)) && !is_starved(s))
		return;
	leave_ring(core, s);
	ASSERT(core->present >= s->share.present); /* (4) */
	core->present -= s->share.present;
	be_absent(&s->key->sessions, &s->share);
	if (s->key->sessions.present == 0)
		be_absent(&core->turns, &s->key->share);
}

/* It is present, though nothing of it may be to begin. */
static void be_present(struct app_core *core, struct app_session *s)
{
	DASSERT(!s->share.present && !list_linked(&s->share.link));
	core->present += !s->share.present;
	arrive(&s->key->sessions, &s->share);
	arrive(&core->turns, &s->key->share);
	DASSERT(core->present > 0 && s->share.present);
}

void app_turn_starve(struct app_op *op, bool starved)
{
	struct app_session *s = op->session;

	if (likely(op->starved == starved) || !s)
		return;
	op->starved = starved;
	s->starved += starved ? 1 : -1;
	ASSERT(s->starved <= s->ops); /* (6) */
	if (starved)
		app_turn_rest(op->core, s);
	else if (!s->share.present)
		be_present(op->core, s);
}

void app_turn_unstall(struct app_core *core, struct app_session *s)
{
	ASSERT(s->stalled > 0);
	s->stalled--;
	s->is_away = false;
	if (s->stalled == 0)
		list_del(&s->stalling_link);
	app_turn_want(core, s);
	if (!s->share.present)
		be_present(core, s);
}

void app_turn_away(struct app_core *core, struct app_session *s)
{
	ASSERT(s->stalled > 0);
	s->is_away = true;
	app_turn_rest(core, s);
}

void app_turn_opened(struct app_core *core, struct app_session *s, struct app_key *key)
{
	if (key->users++ == 0) {
		key->share = (struct app_share){ .tag = core->turns.clock };
		list_init(&key->share.link);
		app_turns_init(&key->sessions);
	}
	s->key = key;
	ASSERT(s->ops == 0 && s->stalled == 0 && s->starved == 0);
	s->share = (struct app_share){ .tag = key->sessions.clock };
	s->item_bytes = ITEM_GUESS;
	s->queued = 0;
	s->retry_ns = 0;
	list_init(&s->share.link);
	list_init(&s->blocked);
	list_init(&s->waiting);
	list_init(&s->resume);
	list_init(&s->batches);
	list_init(&s->stalled_ops);
	list_init(&s->tight_link);
	list_init(&s->stalling_link);
}

void app_turn_closed(struct app_core *core, struct app_session *s)
{
	ASSERT(s->key->users > 0 && s->stalled == 0 && s->starved == 0);
	ASSERT(s->queued == 0 && s->ops == 0 && !has_work(s));
	list_del(&s->blocked);
	list_del(&s->tight_link);
	list_del(&s->stalling_link);
	app_turn_rest(core, s);
	s->key->users--;
}

static void charge(struct app_core *core, struct app_session *s, int64_t bytes)
{
	DASSERT(s->key);
	pay(&s->key->sessions, &s->share, bytes);
	pay(&core->turns, &s->key->share, bytes);
}

void app_turn_pay(struct app_core *core, struct app_session *s, uint64_t bytes)
{
	charge(core, s, (int64_t)(OP_COST + bytes));
}

/* Estimates the bytes of a read's item by the last ones. */
void app_turn_item(struct app_op *op)
{
	struct app_session *s = op->session;

	op->charged_bytes = (uint32_t)op->file_size; /* of a put; a read's is not known yet */
	if (op->kind == APP_OP_READ)
		op->charged_bytes = (uint32_t)min_u64(op->length_bytes, s->item_bytes);
	app_turn_pay(op->core, s, op->charged_bytes);
}

/* A read in slices pays for the first one in advance.  Otherwise it would pay for all slices while
 * it waits for room, and the clock would stand still. */
static uint64_t in_slices(const struct app_op *op, uint64_t bytes)
{
	return op->reads && op->session->streams ? min_u64(bytes, APP_SLICE_MIN) : bytes;
}

void app_turn_cost(struct app_op *op, uint64_t bytes)
{
	struct app_session *s = op->session;

	DASSERT(op->session);
	bytes = min_u64(bytes, APP_CHUNK_BYTES); /* later pieces are paid for in their turn */
	if (likely(bytes == op->charged_bytes))
		return;
	if (op->batch)
		s->item_bytes += ((int32_t)bytes - (int32_t)s->item_bytes) / 8;
	bytes = in_slices(op, bytes);
	charge(op->core, s, (int64_t)bytes - (int64_t)op->charged_bytes);
	op->charged_bytes = (uint32_t)bytes;
}

void app_turn_slice(struct app_op *op, uint32_t bytes)
{
	uint32_t paid_bytes = min_u32(bytes, op->charged_bytes);

	DASSERT(bytes > 0 && paid_bytes <= op->charged_bytes);
	op->charged_bytes -= paid_bytes;
	if (bytes > paid_bytes)
		charge(op->core, op->session, bytes - paid_bytes);
}

/* ---- waiting requests ----------------------------------------------------------------------- */

/* As many as it leaves to the others, and one; what makes room for others is never sent away. */
static bool may_wait(const struct app_core *core, const struct app_session *s, enum fab_type type)
{
	uint32_t left = core->cfg.queue_max - min_u32(core->queued, core->cfg.queue_max);

	ASSERT(s->queued <= core->queued); /* (3) */
	return s->queued < max_u32(left, 1) || app_rows[type].makes_room;
}

/*
 * Returns the time after which half of the waiting requests have begun: then there is room, and
 * still work.  Requests get different times, as far apart as requests of this session begin.  So
 * they do not come back to be sent away again; and a client that comes back too early gets later
 * and later times, and no other client does.
 */
static uint32_t retry_ms(const struct app_core *core, struct app_session *s)
{
	uint64_t each_ns = core->each_ns * max_u32(core->queuers, 1);
	uint64_t half_ns = max_u64(s->queued * each_ns / 2, NS_PER_MS);

	ASSERT(core->each_ns > 0);
	s->retry_ns = max_u64(s->retry_ns + each_ns, core->now_ns + half_ns);
	s->retry_ns = min_u64(s->retry_ns, core->now_ns + RETRY_MAX_MS * NS_PER_MS);
	return (uint32_t)div_up(s->retry_ns - core->now_ns, NS_PER_MS);
}

/* Returns the bytes that it moves, as far as known before it begins. */
static uint32_t bytes_of(const struct fab_req *req)
{
	uint64_t bytes = 0;

	if (req->type == FAB_READ)
		bytes = req->args.read.length_bytes;
	else if (req->type == FAB_WRITE)
		bytes = req->args.write.length_bytes;
	return (uint32_t)min_u64(bytes, APP_CHUNK_BYTES);
}

/* Nobody else wants anything, and nothing waits: it is its turn, without a ring and a queue. */
static bool at_once(struct app_core *core, struct app_session *s, struct fab_req *req)
{
	DASSERT(core->present >= s->share.present);
	if (core->present > s->share.present || core->queued > 0 || core->op_free_count == 0 ||
	    app_session_full(core, s) || core->io_bytes >= core->io_max_bytes)
		return false;
	core->present = 1;
	arrive(&s->key->sessions, &s->share);
	arrive(&core->turns, &s->key->share);
	if (!app_core_begin(core, req, bytes_of(req)))
		return false;   /* it waits instead */
	app_turn_rest(core, s); /* a ping has nothing in flight */
	return true;
}

bool app_turn_queue(struct app_core *core, struct fab_req *req)
{
	struct app_session *s = req->session->user;

	if (likely(at_once(core, s, req)))
		return true;
	if (unlikely(!may_wait(core, s, req->type))) {
		core->stat.busy++;
		charge(core, s, OP_COST / BUSY_DIV);
		fab_reply_busy(req, retry_ms(core, s));
		return false;
	}
	req->user = s;
	list_push_back(&s->waiting, &req->link);
	core->queuers += s->queued++ == 0;
	core->queued++;
	ASSERT(s->queued <= core->queued && core->queuers <= core->queued); /* (3) */
	if (!list_linked(&s->share.link))
		app_turn_want(core, s);
	return true;
}

void app_turn_unqueue(struct app_core *core, struct fab_req *req)
{
	struct app_session *s = req->user;

	list_del(&req->link);
	if (!s)
		return; /* it had come too late to be begun */
	req->user = NULL;
	ASSERT(core->queued > 0 && s->queued > 0); /* (3) */
	core->queued--;
	core->queuers -= --s->queued == 0;
	app_turn_rest(core, s);
}

bool app_turn_resume(struct app_op *op)
{
	ASSERT(op->session && op->ios_out == 0);
	if (op->its_turn) {
		op->its_turn = false;
		return true;
	}
	app_op_wait(op, APP_ON_TURN, &op->session->resume);
	op->core->resumers++;
	app_turn_want(op->core, op->session);
	return false;
}

/* Measures the time between beginnings, only while requests wait: else it would measure demand. */
static void measure(struct app_core *core)
{
	uint64_t passed_ns = core->now_ns - core->rate_from_ns, each_ns;

	ASSERT(core->now_ns >= core->rate_from_ns);
	if (core->queued == 0 || passed_ns > NS_PER_S) {
		core->rate_from_ns = core->now_ns;
		core->begun = 0;
	} else if (passed_ns >= RATE_NS && core->begun > 0) {
		each_ns = passed_ns / core->begun;
		core->each_ns = core->each_ns ? (3 * core->each_ns + each_ns) / 4 : each_ns;
		core->rate_from_ns = core->now_ns;
		core->begun = 0;
	}
	if (core->each_ns == 0)
		core->each_ns = EACH_NS;
}

/* ---- the turn ------------------------------------------------------------------------------- */

static bool begin_request(struct app_core *core, struct app_session *s)
{
	struct fab_req *req;

	if (list_empty(&s->waiting) || core->op_free_count == 0 || core->life > APP_DRAINING)
		return false;
	req = list_entry(s->waiting.next, struct fab_req, link);
	list_del(&req->link);
	if (!app_core_begin(core, req, bytes_of(req))) {
		list_push_front(&s->waiting, &req->link);
		return false;
	}
	ASSERT(core->queued > 0 && s->queued > 0); /* (3) */
	core->queued--;
	core->queuers -= --s->queued == 0;
	core->begun++;
	return true;
}

static bool resume(struct app_core *core, struct app_session *s)
{
	struct app_op *op;
	uint64_t bytes;

	if (list_empty(&s->resume))
		return false;
	op = list_entry(list_pop_front(&s->resume), struct app_op, link);
	ASSERT(core->resumers > 0);
	core->resumers--;
	ASSERT(op->on == APP_ON_TURN && op->session == s);
	ASSERT(op->nblocks >= op->nblocks_done);
	op->its_turn = true;
	bytes = min_u64((uint64_t)(op->nblocks - op->nblocks_done) * BLOCK_SIZE, APP_CHUNK_BYTES);
	op->charged_bytes = (uint32_t)in_slices(op, bytes);
	charge(core, s, op->charged_bytes);
	app_op_ready(op);
	return true;
}

/* Items until it is ahead, or the drives have enough.  Returns how many. */
static uint32_t begin_items(struct app_core *core, struct app_session *s)
{
	uint64_t room_bytes = core->io_max_bytes - min_u64(core->io_bytes, core->io_max_bytes);
	uint64_t items_max;
	int64_t behind_bytes = s->key->sessions.clock - s->share.tag;
	struct app_batch *b;

	ASSERT(s->item_bytes <= APP_CHUNK_BYTES);
	if (list_empty(&s->batches) || core->op_free_count == 0)
		return 0;
	b = list_entry(s->batches.next, struct app_batch, link);
	items_max = room_bytes / max_u32(s->item_bytes, 1) + 1;
	if (!app_turn_alone(core))
		items_max = min_u64(items_max, (behind_bytes > 0 ? (uint64_t)behind_bytes : 0) /
							       (OP_COST + s->item_bytes) +
						       1);
	return app_batch_visit(core, b, (uint32_t)min_u64(items_max, APP_AHEAD_MAX));
}

/* Something of it.  Returns how many operations: 0, nothing can be begun now. */
static uint32_t serve(struct app_core *core, struct app_session *s)
{
	bool full = app_session_full(core, s);

	DASSERT(has_work(s) && s->stalled == 0);
	if (!full && begin_request(core, s))
		return 1;
	if (resume(core, s))
		return 1;
	return full ? 0 : begin_items(core, s);
}

static bool can_begin(const struct app_core *core, uint32_t begun)
{
	DASSERT(core->op_free_count <= core->cfg.ops_max);
	return begun < BEGUN_MAX && (core->op_free_count > 0 || core->resumers > 0);
}

/* Returns true if the drives may get more; nearly always for a share that asks for little. */
static bool io_may(const struct app_core *core, const struct app_session *s)
{
	return core->io_bytes < core->io_max_bytes ||
	       (core->io_bytes < 2 * core->io_max_bytes && is_sparse(&s->key->sessions, &s->share));
}

/* Until it is ahead, or there is nothing more that can be begun for it. */
static uint32_t session_turn(struct app_core *core, struct app_session *s, uint32_t begun)
{
	uint32_t n = 0, got = 1;

	while (got > 0 && s->stalled == 0 && has_work(s) && can_begin(core, begun + n) &&
	       io_may(core, s) && is_near(&s->key->sessions, &s->share) &&
	       is_near(&core->turns, &s->key->share)) {
		got = serve(core, s);
		n += got;
	}
	if (s->stalled > 0 || got == 0 || !has_work(s)) { /* (1) */
		leave_ring(core, s);
		if (s->stalled == 0 && has_work(s) && !list_linked(&s->blocked))
			list_push_back(&core->blocked, &s->blocked);
		app_turn_rest(core, s); /* pings have nothing in flight */
	}
	ASSERT(n <= BEGUN_MAX + APP_AHEAD_MAX);
	return n;
}

static uint32_t key_turn(struct app_core *core, struct app_key *key, uint32_t begun)
{
	uint32_t n = 0;

	DASSERT(key->users > 0 && key->sessions.waiting > 0);
	for (uint32_t left = key->sessions.waiting;
	     left > 0 && can_begin(core, begun + n) && is_near(&core->turns, &key->share); left--) {
		struct app_share *share = first(&key->sessions);
		struct app_session *s =
			share ? container_of(share, struct app_session, share) : NULL;

		if (!s || !io_may(core, s)) /* shares that ask for little come first */
			break;
		if (is_behind(&key->sessions, share))
			n += session_turn(core, s, begun + n);
		if (list_linked(&share->link))
			rotate(&key->sessions, share);
	}
	return n;
}

/* All waiting clients, in turn. */
static uint32_t round_of(struct app_core *core, uint32_t begun)
{
	uint32_t n = 0;

	ASSERT(core->turns.waiting <= core->turns.present);
	for (uint32_t left = core->turns.waiting; left > 0 && can_begin(core, begun + n); left--) {
		struct app_share *key = first(&core->turns);

		if (!key)
			break;
		if (is_behind(&core->turns, key))
			n += key_turn(core, container_of(key, struct app_key, share), begun + n);
		if (list_linked(&key->link))
			rotate(&core->turns, key);
	}
	return n;
}

/* A resource was freed: blocked sessions may try again, once. */
static void unblock(struct app_core *core)
{
	struct list *node;

	if (likely(!core->freed))
		return;
	core->freed = false;
	while ((node = list_pop_front(&core->blocked)) != NULL)
		app_turn_want(core, list_entry(node, struct app_session, blocked));
	ASSERT(list_empty(&core->blocked) || !core->freed);
}

/* No share that has its turn has work to begin, and no other work is pending for one: the store's
 * own work, and operations that wait for room in it, may take long. */
static bool is_idle(const struct app_core *core)
{
	return !core->serves && !core->was_serving && core->io_bytes < AHEAD_IO;
}

/* (5): a session that waits only because this turn was not idle has the next one. */
bool app_turn_more(const struct app_core *core)
{
	ASSERT(core->turns.waiting <= core->turns.present);
	return core->turns.waiting > 0 && core->io_bytes < AHEAD_IO && can_begin(core, 0);
}

static void let_ahead(struct app_core *core)
{
	struct list *node;

	catch_up(&core->turns);
	list_for_each (node, &core->turns.sparse)
		catch_up(&list_entry(node, struct app_key, share.link)->sessions);
	list_for_each (node, &core->turns.ring)
		catch_up(&list_entry(node, struct app_key, share.link)->sessions);
}

void app_turns_take(struct app_core *core)
{
	uint32_t begun = 0, n = 1;

	unblock(core);
	app_quota_turn(core);
	while (n > 0 && core->turns.waiting > 0 && can_begin(core, begun)) {
		n = round_of(core, begun);
		if (n == 0 && begun == 0 && is_idle(core)) {
			let_ahead(core);
			n = round_of(core, begun);
		}
		begun += n;
	}
	app_run_fresh(core);
	measure(core);
	core->progress |= begun > 0;
	core->serves |= begun > 0;
	ASSERT(core->fresh_count == 0);
}
