/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Turns of sessions and keys; the last part of app_op.h. */
#ifndef APP_TURN_H
#define APP_TURN_H

#include "appliance/core/app_op.h"

void app_turns_init(struct app_turns *t);
void app_turn_opened(struct app_core *core, struct app_session *s, struct app_key *key);
void app_turn_closed(struct app_core *core, struct app_session *s);
/* Tells that the session may have an operation to begin. */
void app_turn_want(struct app_core *core, struct app_session *s);
/* Tells that the session may have nothing left to do. */
void app_turn_rest(struct app_core *core, struct app_session *s);
/* Tells that op waits for the store to have room, or no longer does. */
void app_turn_starve(struct app_op *op, bool starved);
/* One of its operations no longer waits for the session's own limits. */
void app_turn_unstall(struct app_core *core, struct app_session *s);
/* Marks the session as stalled, since its peer takes nothing: it is not present until it
 * continues. */
void app_turn_away(struct app_core *core, struct app_session *s);
/* Queues a request that has come.  Returns false if it was answered with -EBUSY. */
bool app_turn_queue(struct app_core *core, struct fab_req *req);
/* Takes a waiting request off its queue. */
void app_turn_unqueue(struct app_core *core, struct fab_req *req);
/* Returns true if op may continue with its next piece, false if it must wait for its turn. */
must_check bool app_turn_resume(struct app_op *op);
/* Charges the session for a beginning that moves about `bytes`. */
void app_turn_pay(struct app_core *core, struct app_session *s, uint64_t bytes);
void app_turn_item(struct app_op *op); /* an item of a batch */
/* Corrects the bytes that op moves, which were guessed when it began. */
void app_turn_cost(struct app_op *op, uint64_t bytes);
/* op has room for `bytes` of them, beyond what it has paid for. */
void app_turn_slice(struct app_op *op, uint32_t bytes);
/* No other client has anything to begin, or in flight. */
static inline bool app_turn_alone(const struct app_core *core)
{
	return core->present <= 1 && !core->cores;
}
/* Returns whether `op` is the only operation in flight of its core.  The blocks of a lone write are
 * written durably (op->safe), so that the log need not flush the drive first: one step less to wait
 * for.  When several writes are under way, one flush serves all. */
static inline bool app_op_is_lone(const struct app_op *op)
{
	ASSERT(op->core->op_free_count < op->core->cfg.ops_max); /* op is in use */
	return op->core->op_free_count + 1 == op->core->cfg.ops_max;
}
/* Returns the number of drives whose admin queues, events and timeouts this core sees to: one core
 * does it for all. */
static inline uint32_t app_drives_looked_after(const struct app_core *core)
{
	return core->index == 0 ? core->nqps : 0;
}
/* Somebody has something to begin, and nothing that will wake us stands in the way. */
bool app_turn_more(const struct app_core *core);
/* Begins everything that may begin now. */
void app_turns_take(struct app_core *core);

#endif
