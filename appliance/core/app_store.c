/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The store, as operations see it whichever core they are on.  One core has it (app_owner()) and
 * calls it.  The others plan operations that change nothing by themselves, in place
 * (meta_reader_plan(): no message at all); for everything else, and for closed shards, they ask
 * that core, by ring:
 *
 *    the connection's core                              the store's core
 *    closed     -------- KNOCK shard ---------------->  no change waits: open, for a while
 *    plan again        <-------- OPEN --------------  (or, if that is late:)
 *    plan       -------- CALL op -------------------->  meta_op_start(&op->meta)
 *    plan again <------- DONE op, again ---------------  ... or, if lent meanwhile: plan it there
 *    change     -------- MADE op -------------------->  its record goes to the log: meta_lend.c
 *    drives, the client's window  <---- DONE op ------  over; a change: durable
 *    all read   -------- READ_END pin --------------->  the blocks may be reused, if planned there
 *    blocks     -------- BLOCKS op ----- DONE op -----  meta_data_alloc() into op->runs
 *    a file     -------- LOCK op ------- DONE op -----  app_file.c
 *    reply      -------- DURABLE op ---- DONE op -----  (only when durable_seq does not say so)
 *    replied    -------- LEAVE op ------ DONE op -----  lock and unused blocks back; then freed
 *
 * Only calls to the store cross, not whole operations: the client's capsules, windows, checksums,
 * the drives' queues and all payload stay with the connection's core, each core with its own queue
 * pair on every drive.  So the store's core does only the plans of other cores, and additional
 * cores add fabric, checksums and drives' completions; if whole operations were passed on, the
 * store's core would do the drives' part for all.  The condition is that blocks planned here are
 * not reused there: the pin that a plan takes comes back as READ_END, by value, since the operation
 * is answered by then and may have been reused.  A call costs two messages of 16 bytes, and the
 * cache lines of struct meta_op there and back: 95 ns on each side, in batches
 * (test/tools/cores_clock.c).
 *
 * Invariants, true between any two turns:
 *
 *  (1) An operation belongs to its connection's core.  While asks_out > 0 the store's core has
 *      op->meta and the memory that it points to, name, handle, runs, nruns, crcs, locked,
 *      blocks_*; file_link, store_link and store_on it has always, once a LOCK or BLOCKS was sent.
 *      The connection's core writes only fields that it alone reads: cancel, gave_up, asks_out.
 *  (2) Every message to the store's core but KNOCK, READ_END and BYE is answered by one DONE; the
 *      operation continues when all of them are here.  So it never runs, and is never freed, while
 *      the other core could still read it.
 *  (3) An operation has at most a CALL (or LOCK ...), a CANCEL and a READ_END in transit: a
 *      pin's end comes before the next call of the operation in the same ring, and no pin is
 *      taken before that call was heard.  So 3 x ops_max places suffice, and a ring is never
 *      full: it has more, and a core that finds only these does not KNOCK, but asks.
 *  (4) The store's core publishes durable_seq before it sends DONE: a change that is over needs no
 *      second message before its reply.
 *
 * With one core (core->cores is NULL), or on the store's core, all of this is a call.
 */
#include "appliance/core/app_op.h"

#include <errno.h>

#define SHUT_NS 4000000u /* longest wait of a read for its shard: some turns of a busy core */

/* All shards are core 0's, so far. */
uint32_t app_owner(const struct app_op *op)
{
	(void)op;
	return 0;
}

static void ask(struct app_op *op, enum app_say what)
{
	ASSERT(!op->core->meta); /* (1) */
	op->asks_out++;
	ASSERT(op->asks_out <= 2); /* (3): a call, and its cancel */
	op->core->stat.asked++;
	app_cores_say(op->core, app_owner(op), (struct app_message){ { .op = op }, what });
}

/* ---- calls ------------------------------------------------------------------------- */

void app_op_saw(struct app_op *op)
{
	DASSERT(op->asks_out == 0);
	op->seen_seq = max_u64(op->seen_seq, op->meta.seen_seq);
}

static void call(struct app_op *op)
{
	ASSERT(op->asks_out == 0);
	if (meta_reader_short(&op->meta)) /* its blanks did not come: the shard goes home */
		op->meta.into = op->meta.unseen = META_SHARDS_MAX;
	op->on = APP_ON_META;
	ask(op, APP_SAY_CALL);
}

/* It was not planned: if its shard is closed, which it is but for a moment, it is looked at again
 * when it is open; so it costs the store's core nothing. */
static bool knock(struct app_op *op)
{
	struct app_core *core = op->core;

	ASSERT(op->asks_out == 0);
	if (op->meta.unseen >= META_SHARDS_MAX ||
	    !app_cores_knock(core, app_owner(op), op->meta.unseen))
		return false;
	op->shut_ns = core->now_ns;
	app_op_wait(op, APP_ON_SHUT, &core->shut);
	return true;
}

enum here { HERE_NOT, HERE_OVER, HERE_MADE };

/* Runs the operation here if possible: reads of open shards, changes of lent shards. */
static enum here try_here(struct app_op *op)
{
	struct meta_reader *reader = op->core->reader;

	ASSERT(reader && op->asks_out == 0); /* (1) */
	if (!meta_op_changes(&op->meta)) {
		if (!meta_reader_plan(reader, &op->meta))
			return HERE_NOT;
		op->core->stat.planned++;
		app_op_saw(op);
		return HERE_OVER;
	}
	if (!meta_reader_change(reader, &op->meta))
		return HERE_NOT;
	op->core->stat.made += op->meta.status == 0;
	op->on = APP_ON_META;
	ask(op, APP_SAY_MADE);
	return HERE_MADE;
}

/* A change that waits for its shard to be open would close it. */
static bool may_wait(const struct app_op *op)
{
	ASSERT(op->asks_out == 0);
	return !meta_op_changes(&op->meta) || meta_reader_short(&op->meta);
}

/* True: over. */
static bool try_or_ask(struct app_op *op)
{
	const enum here here = try_here(op);

	ASSERT(!op->core->meta && op->asks_out == (here == HERE_MADE)); /* (2) */
	if (here == HERE_NOT && !(may_wait(op) && knock(op)))
		call(op);
	return here == HERE_OVER;
}

/* It was let in, or it is late: now or never. */
static void look(struct app_op *op, bool last)
{
	struct app_core *core = op->core;

	ASSERT(op->on == APP_ON_SHUT);
	if (meta_reader_sees(core->reader, op->meta.unseen)) {
		switch (try_here(op)) {
		case HERE_OVER:
			app_op_run(op);
			return;
		case HERE_MADE:
			return;
		case HERE_NOT: /* another shard now, or a page that is not here, or no blanks */
			last |= !meta_op_changes(&op->meta) || !may_wait(op);
		}
	}
	if (last)
		call(op);
	else
		list_push_back(&core->shut, &op->link);
}

void app_store_look(struct app_core *core)
{
	const bool let_in = core->let_in; /* and closed again already: it had its chance */
	struct list now, *node;

	core->let_in = false;
	list_init(&now);
	while ((node = list_pop_front(&core->shut)))
		list_push_back(&now, node);
	while ((node = list_pop_front(&now))) {
		struct app_op *op = list_entry(node, struct app_op, link);

		look(op, let_in || core->now_ns - op->shut_ns >= SHUT_NS);
	}
	ASSERT(list_empty(&now));
}

uint64_t app_store_deadline(const struct app_core *core)
{
	if (list_empty(&core->shut))
		return UINT64_MAX;
	ASSERT(!core->meta);
	return list_entry(core->shut.next, struct app_op, link)->shut_ns + SHUT_NS;
}

static void for_change(struct app_op *op)
{
	ASSERT(op->kind != APP_OP_READ);
	op->meta.wall_ns = op->core->wall_ns;
	op->meta.drives_failed = op->drives_failed;
	op->meta.receipt = op->receipt;
}

bool app_op_meta(struct app_op *op, enum meta_op_type type)
{
	DASSERT(op->asks_out == 0 && op->ios_out == 0 && op->pulls_out == 0);
	op->meta.type = type;
	op->meta.owner = op;
	if (type >= META_OP_PUT)
		for_change(op);
	/* The way to its root was the administrator's. */
	op->meta.who =
		op->session && op->session->who.gids && !op->rooting ? &op->session->who : NULL;
	if (unlikely(!op->core->meta))
		return try_or_ask(op);
	op->meta.reader = 0;
	if (meta_op_start(op->core->meta, &op->meta)) {
		app_op_saw(op);
		return true;
	}
	op->on = APP_ON_META;
	return false;
}

void app_read_end(struct app_op *op)
{
	uint64_t pin;

	DASSERT(op->asks_out == 0); /* (1) */
	if (likely(op->core->meta)) {
		meta_read_end(op->core->meta, &op->meta);
		return;
	}
	if (meta_reader_read_end(op->core->reader, &op->meta))
		return;
	pin = meta_read_pin_take(&op->meta);
	if (pin)
		app_cores_say(op->core, app_owner(op),
			      (struct app_message){ { .pin = pin }, APP_SAY_READ_END });
}

bool app_is_durable(const struct app_core *core, uint64_t seq)
{
	DASSERT(core->meta || core->cores);
	if (likely(core->meta))
		return meta_is_durable(core->meta, seq);
	/* Only the number counts: the records are on drives. */
	return seq <= atomic_load_explicit(&core->cores->durable_seq, memory_order_relaxed);
}

void app_wait_durable(struct app_op *op)
{
	ASSERT(op->ending && op->asks_out == 0);
	app_read_end(op);
	list_init(&op->meta.link);
	op->meta.seen_seq = op->seen_seq;
	op->meta.owner = op;
	op->on = APP_ON_META;
	op->saw_made = op->seen_seq == META_SEEN_MADE;
	if (op->core->meta)
		meta_op_wait_durable(op->core->meta, &op->meta);
	else
		ask(op, APP_SAY_DURABLE);
}

/* ---- blocks, files ------------------------------------------------------------------ */

/* Takes blocks for an operation of any core; this one has the store.  -EAGAIN: to be called again
 * soon.  It asks another drive each time: while one opens no zone, the others give theirs. */
int app_blocks_here(struct app_core *core, struct app_op *op)
{
	int err;

	ASSERT(op->nblocks > 0);
	err = meta_data_alloc(core->meta, core->spread++, op->nblocks, op->runs, APP_RUNS_MAX,
			      &op->nruns);
	ASSERT(op->nruns <= APP_RUNS_MAX);
	return err;
}

int app_blocks_take(struct app_op *op)
{
	struct app_core *core = op->core;
	int err;

	ASSERT(op->nblocks > 0);
	if (unlikely(!core->meta)) {
		op->blocks_known = !op->blocks_known; /* asked, and now answered */
		if (!op->blocks_known)
			return op->blocks_status;
		op->on = APP_ON_BLOCKS;
		ask(op, APP_SAY_BLOCKS);
		return -EAGAIN;
	}
	err = app_blocks_here(core, op);
	app_turn_starve(op, err == -EAGAIN);
	if (err == -EAGAIN)
		app_op_wait(op, APP_ON_BLOCKS, &core->block_waiters);
	return err;
}

void app_blocks_give(struct app_op *op, uint32_t from)
{
	uint32_t count = op->nruns - from;

	ASSERT(op->nruns <= ARRAY_LEN(op->runs));
	ASSERT(from <= op->nruns);
	if (count && op->core->meta) {
		meta_data_free(op->core->meta, &op->runs[from], count);
	} else {
		op->give_from = from; /* with LEAVE */
		op->give_count = count;
	}
	op->nruns = 0;
}

bool app_file_lock(struct app_op *op)
{
	ASSERT(op->asks_out == 0 && op->file_from < op->file_end);
	if (op->locked || (op->core->meta && app_file_lock_here(op->core, op)))
		return true;
	if (!op->core->meta)
		ask(op, APP_SAY_LOCK);
	op->on = APP_ON_FILE;
	return false;
}

/* ---- the end -------------------------------------------------------------------------- */

/* A change that waits for blanks, some turns long, keeps its blocks and continues. */
bool app_store_is_near(const struct app_op *op)
{
	ASSERT(op->core->cores || op->on != APP_ON_SHUT);
	return op->on == APP_ON_SHUT && meta_op_changes(&op->meta);
}

void app_store_cancel(struct app_op *op)
{
	ASSERT(op->asks_out > 0 && op->on >= APP_ON_BLOCKS);
	if (op->gave_up)
		return; /* (3) */
	op->gave_up = true;
	ask(op, APP_SAY_CANCEL);
}

bool app_store_leave(struct app_op *op)
{
	if (likely(op->core->meta) || (!op->locked && op->give_count == 0))
		return false;
	ASSERT(op->asks_out == 0 && !op->leaving);
	op->leaving = true;
	if (op->session && --op->session->ops == 0) /* the client has its answer, and may go */
		app_turn_rest(op->core, op->session);
	op->session = NULL;
	op->batch = NULL;
	ask(op, APP_SAY_LEAVE);
	return true;
}

void app_store_done(struct app_op *op)
{
	ASSERT(!op->core->meta || op->kind == APP_OP_STATUS || op->kind == APP_OP_SNAPSHOT);
	ASSERT(op->asks_out > 0); /* (2) */
	if (--op->asks_out > 0)
		return; /* (2) */
	if (op->leaving) {
		app_op_free(op);
		return;
	}
	if (op->gave_up && op->blocks_known && op->blocks_status == 0)
		op->gave_up = false; /* it has blocks: they are written, as if it had been later */
	if (op->meta.again) {        /* only a CALL comes back so */
		op->meta.again = false;
		if (!try_or_ask(op))
			return;
	}
	if (op->meta.made)
		meta_reader_made_end(op->core->reader, &op->meta);
	if (op->saw_made) /* now it is known what that was */
		op->seen_seq = op->meta.seen_seq;
	op->saw_made = false;
	if (op->on == APP_ON_META)
		app_op_saw(op);
	app_op_run(op);
}
