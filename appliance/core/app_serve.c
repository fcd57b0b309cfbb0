/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Services of the store's core for operations of other cores: app_store.c has the drawing.
 *
 *   LOCK    --free--> DONE                BLOCKS  --some--> DONE
 *     \-> APP_STORE_FILE --unlocked--^       \-> APP_STORE_BLOCKS --each turn--^
 *             \--CANCEL--> DONE, DONE               \--CANCEL--> DONE, DONE
 *
 * Invariant: (1) store_on is not APP_STORE_NOTHING exactly while a LOCK or BLOCKS is unanswered;
 *                a CANCEL that comes after the answer changes nothing.
 */
#include "appliance/core/app_op.h"

#include <errno.h>

static void done(struct app_core *core, struct app_op *op)
{
	ASSERT(op->core != core);
	app_cores_say(core, op->core->index, (struct app_message){ { .op = op }, APP_SAY_DONE });
}

void app_serve_done(struct app_core *core, struct app_op *op)
{
	done(core, op);
}

/* Their lookups wait for memory together. */
void app_serve_calls(struct app_core *core, struct app_op **op, uint32_t count)
{
	struct meta_ahead ahead[APP_AHEAD_MAX];

	ASSERT(count == 0 || core->index == 0);
	ASSERT(count <= APP_AHEAD_MAX);
	for (uint32_t i = 0; count > 1 && i < count; i++)
		meta_ahead_begin(core->meta, &op[i]->meta.target, op[i]->meta.offset, &ahead[i]);
	if (count > 1)
		meta_ahead_run(ahead, count);
	for (uint32_t i = 0; i < count; i++) {
		if (!meta_op_changes(&op[i]->meta))
			meta_reader_asked(core->meta, op[i]->meta.unseen);
		if (meta_op_start(core->meta, &op[i]->meta))
			done(core, op[i]);
	}
	core->stat.served += count;
}

/* Returns true if it got its blocks, or never will. */
static bool take_blocks(struct app_core *core, struct app_op *op)
{
	ASSERT(op->nblocks > 0);
	op->blocks_status = app_blocks_here(core, op);
	return op->blocks_status != -EAGAIN;
}

void app_serve_blocks(struct app_core *core)
{
	while (!list_empty(&core->block_askers)) {
		struct app_op *op = list_entry(core->block_askers.next, struct app_op, store_link);
		ASSERT(op->store_on == APP_STORE_BLOCKS); /* (1) */

		if (!take_blocks(core, op))
			return;
		list_del(&op->store_link);
		op->store_on = APP_STORE_NOTHING;
		done(core, op);
	}
}

static void blocks(struct app_core *core, struct app_op *op)
{
	ASSERT(op->store_on == APP_STORE_NOTHING); /* (1) */
	if (list_empty(&core->block_askers) && take_blocks(core, op)) {
		done(core, op);
		return;
	}
	op->store_on = APP_STORE_BLOCKS;
	list_push_back(&core->block_askers, &op->store_link);
}

static void lock(struct app_core *core, struct app_op *op)
{
	ASSERT(op->store_on == APP_STORE_NOTHING && !op->locked); /* (1) */
	if (app_file_lock_here(core, op))
		done(core, op);
	else
		op->store_on = APP_STORE_FILE;
}

void app_serve_unlocked(struct app_core *core, struct app_op *next)
{
	ASSERT(next->store_on == APP_STORE_FILE && !next->locked);
	next->store_on = APP_STORE_NOTHING;
	next->locked = true;
	done(core, next);
}

static wk_cold void cancel(struct app_core *core, struct app_op *op)
{
	ASSERT(op->core != core);
	switch (op->store_on) {
	case APP_STORE_FILE:
		app_file_unlock_here(core, op);
		break;
	case APP_STORE_BLOCKS:
		list_del(&op->store_link);
		op->blocks_status = -ECANCELED;
		break;
	case APP_STORE_NOTHING: /* (1) */
		done(core, op);
		return;
	}
	op->store_on = APP_STORE_NOTHING;
	done(core, op);
	done(core, op);
}

static void leave(struct app_core *core, struct app_op *op)
{
	ASSERT(op->store_on == APP_STORE_NOTHING && op->leaving);
	ASSERT(op->give_from + op->give_count <= ARRAY_LEN(op->runs));
	if (op->locked)
		app_file_unlock_here(core, op);
	if (op->give_count)
		meta_data_free(core->meta, &op->runs[op->give_from], op->give_count);
	done(core, op);
}

void app_serve(struct app_core *core, enum app_say what, struct app_op *op)
{
	ASSERT(core->meta && op->core != core);
	core->stat.served++;
	switch (what) {
	case APP_SAY_MADE:
		meta_op_made(core->meta, &op->meta);
		break;
	case APP_SAY_DURABLE:
		if (op->meta.seen_seq == META_SEEN_MADE)
			meta_op_made(core->meta, &op->meta);
		else
			meta_op_wait_durable(core->meta, &op->meta);
		break;
	case APP_SAY_LOCK:
		lock(core, op);
		break;
	case APP_SAY_BLOCKS:
		blocks(core, op);
		break;
	case APP_SAY_CANCEL:
		cancel(core, op);
		break;
	case APP_SAY_LEAVE:
		leave(core, op);
		break;
	default:
		UNREACHABLE();
	}
}
