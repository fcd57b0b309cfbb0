/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Timer for vouching for the newest log block: after a pause in changes.  The store has no clock.
 *
 * The vouching block is one more synchronous write on each drive that has the log.  A client that
 * makes one durable change after the other would wait for it every time, if it were written as soon
 * as there is no other work: the next change's block comes microseconds later, and vouches just as
 * well.
 *
 *  (1) The block is written once, WAIT_NS after this core first saw the newest block durable with
 *      no block after it.  A change in between starts the wait again.
 *  (2) While there is nothing to vouch for, no timer is set
 *      [test_app_lone:log_vouches_once_after_a_pause_and_not_for_each_change].
 */
#include "appliance/core/app_op.h"

#include "base/clock.h"

#define WAIT_NS (5 * NS_PER_MS)

void app_vouch_turn(struct app_core *core)
{
	ASSERT(core->life == APP_SERVING && core->meta);
	if (likely(!meta_log_unvouched(core->meta))) {
		core->vouch_ns = 0; /* (1), (2) */
		return;
	}
	if (core->vouch_ns == 0)
		core->vouch_ns = core->now_ns + WAIT_NS;
	ASSERT(core->vouch_ns <= core->now_ns + WAIT_NS); /* (1) */
	if (core->now_ns < core->vouch_ns)
		return;
	core->vouch_ns = 0;
	meta_log_vouch(core->meta);
	core->progress = true;
}

uint64_t app_vouch_deadline(const struct app_core *core)
{
	/* An appliance that stops writes a checkpoint, which leaves nothing to vouch for. */
	return core->life == APP_SERVING && core->vouch_ns ? core->vouch_ns : UINT64_MAX;
}
