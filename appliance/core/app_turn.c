/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Whose turn it is: among keys, and among the sessions of each, by fair queueing in virtual time.
 *
 *   core->turns      key --> key --> key              each key:  tag, and a clock of its own
 *                     |
 *   key->sessions    session --> session --> ...      each session:  tag
 *                       |
 *                    waiting   requests that have come and are not begun      (1st)
 *                    resume    reads of more than 4 MiB, between two pieces   (2nd)
 *                    batches   with items to begin, or an end                 (3rd)
 *
 * What is begun costs OP_COST and the bytes that it moves.  The clock goes on by what is begun over
 * the number of those who are present: who have something to begin, or under way.  So it shows what
 * each of them has had if all have had the same.  A tag shows what one really had; while it is not
 * ahead of the clock it is its turn.  So a share of the core's time, its operations, the drives and
 * the link is the same for all who want it, whether they want many small things or a few large
 * ones; and a key that opens a hundred sessions has no more of it than one that opens one.
 *
 * Who was away has lost nothing, and has saved up BURST: who asks for little goes first.  Who is
 * ahead goes on when there is nothing else to do at all, and the drives have less than AHEAD_IO:
 * what they have been given they do in an order of their own, and somebody's small read may come
 * right behind it.  For the same reason they are given no more at once than keeps them busy
 * (io_max_bytes): the rest waits here, where it has an order.
 *
 * What waits is bounded: a session may have as many requests waiting as it leaves places to the
 * others (of queue_max), and one; who asks for more is told after how long to ask again.
 *
 * Invariants, true between any two turns of the loop:
 *
 *  (1) A session with work is on its key's ring, or on core->blocked, or it has stalled (what it
 *      waits for is its own client): then it comes back when it goes on.
 *  (2) A key is on core->turns exactly if one of its sessions is on its ring.
 *  (3) core->queued is the number of requests on all `waiting`; queuers, of sessions with any.
 *  (4) `present` counts the sessions with work or operations, and the keys that have such.
 *      But not who is starved (6).
 *  (5) The core does not sleep while somebody has work, unless a drive, or a client, is to answer.
 *  (6) A session all of whose operations wait for the store to have room, and that can begin
 *      nothing, takes nothing: it is not present.  Else the clock would stand nearly still with it,
 *      and readers beside it be ahead, until collection has won room for what it writes.  A
 *      session is not present either while its peer takes nothing of what it has (app_lent.c).
 */
#include "appliance/core/app_lent.h"
#include "appliance/core/app_op.h"

#include "base/clock.h"

#include <errno.h>

#define OP_COST       (8u << 10) /* bytes that take as long as beginning an operation */
#define QUANTUM       (32 << 10)
#define BURST         (64 << 10) /* who was away may have saved */
#define SAVED         (1 << 20)  /* ... and who was there, and could not begin what it wanted */
#define AHEAD_IO      (1u << 20)
#define INVERSE_SHIFT 30
#define BUSY_DIV      8u /* being told "later" costs so much less than being served */

#define BEGUN_MAX    128u /* of one turn of the loop: so that drives and sockets are looked at */
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

/* It goes on, once it is its turn: several at once cost less than one by one. */
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
}

static void wait_in(struct app_turns *t, struct app_share *s)
{
	if (list_linked(&s->link))
		return;
	arrive(t, s);
	t->waiting++;
	enlist(t, s);
}

static void leave(struct app_turns *t, struct app_share *s)
{
	if (!list_linked(&s->link))
		return;
	list_del(&s->link);
	t->waiting--;
}

static void be_absent(struct app_turns *t, struct app_share *s)
{
	t->present -= s->present;
	s->present = false;
}

static struct app_share *first(const struct app_turns *t)
{
	const struct list *from = list_empty(&t->sparse) ? &t->ring : &t->sparse;

	return list_empty(from) ? NULL : list_entry(from->next, struct app_share, link);
}

/* It was first: to the back. */
static void rotate(struct app_turns *t, struct app_share *s)
{
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

/* All who wait are ahead: the clock goes on to the first of them. */
static void catch_up(struct app_turns *t)
{
	int64_t least = INT64_MAX;
	struct list *node;

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
	list_del(&s->blocked); /* what it could not begin was something else */
	if (s->stalled > 0 || !has_work(s))
		return; /* (1) */
	core->present += !s->share.present;
	wait_in(&s->key->sessions, &s->share);
	wait_in(&core->turns, &s->key->share); /* (2) */
}

/* (2), (4) */
static void leave_ring(struct app_core *core, struct app_session *s)
{
	leave(&s->key->sessions, &s->share);
	if (s->key->sessions.waiting == 0)
		leave(&core->turns, &s->key->share);
}

/* (6) */
static bool is_starved(const struct app_session *s)
{
	return (s->is_away || (s->starved > 0 && s->starved == s->ops)) &&
	       !list_linked(&s->share.link);
}

void app_turn_rest(struct app_core *core, struct app_session *s)
{
	if ((s->ops > 0 || has_work(s)) && !is_starved(s))
		return;
	leave_ring(core, s);
	core->present -= s->share.present;
	be_absent(&s->key->sessions, &s->share);
	if (s->key->sessions.present == 0)
		be_absent(&core->turns, &s->key->share);
}

/* It is present, though nothing of it may be to begin. */
static void be_present(struct app_core *core, struct app_session *s)
{
	core->present += !s->share.present;
	arrive(&s->key->sessions, &s->share);
	arrive(&core->turns, &s->key->share);
}

void app_turn_starve(struct app_op *op, bool starved)
{
	struct app_session *s = op->session;

	if (likely(op->starved == starved) || !s)
		return;
	op->starved = starved;
	s->starved += starved ? 1 : -1;
	if (starved)
		app_turn_rest(op->core, s);
	else if (!s->share.present)
		be_present(op->core, s);
}

void app_turn_unstall(struct app_core *core, struct app_session *s)
{
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
	ASSERT(s->queued == 0 && s->ops == 0 && !has_work(s));
	list_del(&s->blocked);
	list_del(&s->tight_link);
	list_del(&s->stalling_link);
	app_turn_rest(core, s);
	s->key->users--;
}

static void charge(struct app_core *core, struct app_session *s, int64_t bytes)
{
	pay(&s->key->sessions, &s->share, bytes);
	pay(&core->turns, &s->key->share, bytes);
}

void app_turn_pay(struct app_core *core, struct app_session *s, uint64_t bytes)
{
	charge(core, s, (int64_t)(OP_COST + bytes));
}

/* An item of a read will move what its last ones did, as far as anybody knows. */
void app_turn_item(struct app_op *op)
{
	struct app_session *s = op->session;

	op->charged_bytes = (uint32_t)op->file_size; /* of a put; a read's is not known yet */
	if (op->kind == APP_OP_READ)
		op->charged_bytes = (uint32_t)min_u64(op->length_bytes, s->item_bytes);
	app_turn_pay(op->core, s, op->charged_bytes);
}

/* A read that goes in slices pays for the first one in advance: who waits for room would else have
 * paid for what it does not get, and the clock stand still meanwhile. */
static uint64_t in_slices(const struct app_op *op, uint64_t bytes)
{
	return op->reads && op->session->streams ? min_u64(bytes, APP_SLICE_MIN) : bytes;
}

void app_turn_cost(struct app_op *op, uint64_t bytes)
{
	struct app_session *s = op->session;

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

	op->charged_bytes -= paid_bytes;
	if (bytes > paid_bytes)
		charge(op->core, op->session, bytes - paid_bytes);
}

/* ---- what waits ----------------------------------------------------------------------------- */

/* As many as it leaves to the others, and one; what makes room for others is never sent away. */
static bool may_wait(const struct app_core *core, const struct app_session *s, enum fab_type type)
{
	uint32_t left = core->cfg.queue_max - min_u32(core->queued, core->cfg.queue_max);

	return s->queued < max_u32(left, 1) || type == FAB_PUT_ABORT || type == FAB_PUT_COMMIT ||
	       type == FAB_UNLINK || type == FAB_UNLINK_BATCH || type == FAB_RMDIR ||
	       type == FAB_RMTREE || type == FAB_LET_GO || type == FAB_PING;
}

/*
 * When half of what it has waiting has begun there is a place, and still work; who is told so is
 * one behind the other, as far apart as requests of this session begin.  So they do not come back
 * to be sent away again; and who comes back too early is told of later and later times, and nobody
 * else.
 */
static uint32_t retry_ms(const struct app_core *core, struct app_session *s)
{
	uint64_t each_ns = core->each_ns * max_u32(core->queuers, 1);
	uint64_t half_ns = max_u64(s->queued * each_ns / 2, NS_PER_MS);

	s->retry_ns = max_u64(s->retry_ns + each_ns, core->now_ns + half_ns);
	s->retry_ns = min_u64(s->retry_ns, core->now_ns + RETRY_MAX_MS * NS_PER_MS);
	return (uint32_t)div_up(s->retry_ns - core->now_ns, NS_PER_MS);
}

/* What it moves, as far as that is known before it begins. */
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
	if (core->present > s->share.present || core->queued > 0 || core->op_free_count == 0 ||
	    app_session_full(core, s) || core->io_bytes >= core->io_max_bytes)
		return false;
	core->present = 1;
	arrive(&s->key->sessions, &s->share);
	arrive(&core->turns, &s->key->share);
	if (!app_core_begin(core, req, bytes_of(req)))
		return false;   /* it waits instead */
	app_turn_rest(core, s); /* of a ping nothing is under way */
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
	core->queued--;
	core->queuers -= --s->queued == 0;
	app_turn_rest(core, s);
}

bool app_turn_resume(struct app_op *op)
{
	if (op->its_turn) {
		op->its_turn = false;
		return true;
	}
	app_op_wait(op, APP_ON_TURN, &op->session->resume);
	op->core->resumers++;
	app_turn_want(op->core, op->session);
	return false;
}

/* How long it takes to begin one, while some wait all the time: else it shows what was asked. */
static void measure(struct app_core *core)
{
	uint64_t passed_ns = core->now_ns - core->rate_from_ns, each_ns;

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
	core->resumers--;
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

	if (!full && begin_request(core, s))
		return 1;
	if (resume(core, s))
		return 1;
	return full ? 0 : begin_items(core, s);
}

static bool can_begin(const struct app_core *core, uint32_t begun)
{
	return begun < BEGUN_MAX && (core->op_free_count > 0 || core->resumers > 0);
}

/* The drives take more: of who asks for little always, as good as. */
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
		app_turn_rest(core, s); /* of pings nothing is under way */
	}
	return n;
}

static uint32_t key_turn(struct app_core *core, struct app_key *key, uint32_t begun)
{
	uint32_t n = 0;

	for (uint32_t left = key->sessions.waiting;
	     left > 0 && can_begin(core, begun + n) && is_near(&core->turns, &key->share); left--) {
		struct app_share *share = first(&key->sessions);
		struct app_session *s =
			share ? container_of(share, struct app_session, share) : NULL;

		if (!s || !io_may(core, s)) /* who asks for little stands first */
			break;
		if (is_behind(&key->sessions, share))
			n += session_turn(core, s, begun + n);
		if (list_linked(&share->link))
			rotate(&key->sessions, share);
	}
	return n;
}

/* All who wait, in turn. */
static uint32_t round_of(struct app_core *core, uint32_t begun)
{
	uint32_t n = 0;

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

/* Something has become free: whoever could not begin may try again, once. */
static void unblock(struct app_core *core)
{
	struct list *node;

	if (likely(!core->freed))
		return;
	core->freed = false;
	while ((node = list_pop_front(&core->blocked)) != NULL)
		app_turn_want(core, list_entry(node, struct app_session, blocked));
}

/* Nobody whose turn it is has anything to begin, and nor is there anything else to do for them:
 * what the store does of its own, and who asks it for room in vain, may go on for long. */
static bool is_idle(const struct app_core *core)
{
	return !core->serves && !core->was_serving && core->io_bytes < AHEAD_IO;
}

/* (5): who waits only because this turn was not idle has the next one. */
bool app_turn_more(const struct app_core *core)
{
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
	app_lent_turn(core);
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
}
