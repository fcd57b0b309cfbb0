/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Timer for passing up totals of whole trees: the store knows what is pending, and has no clock.
 *
 *  (1) While anything is pending, a round begins WAIT_NS after the last one, or after the first
 *      change: so a tree that changes all the time is passed up once in that time.
 *  (2) While nothing is pending, no timer is set [test_app_scrub:idle_core_wakes_up_seldom].
 */
#include "appliance/core/app_op.h"

#include "base/clock.h"

#define WAIT_NS (1 * NS_PER_S)

void app_totals_turn(struct app_core *core)
{
	ASSERT(core->life == APP_SERVING && core->meta);
	if (likely(!meta_totals_pending(core->meta))) {
		core->totals_ns = 0;
		return;
	}
	if (core->totals_ns == 0)
		core->totals_ns = core->now_ns + WAIT_NS;
	ASSERT(core->totals_ns <= core->now_ns + WAIT_NS); /* (1) */
	if (core->now_ns < core->totals_ns)
		return;
	core->totals_ns = core->now_ns + WAIT_NS;
	meta_totals_round(core->meta);
	core->progress = true;
}

uint64_t app_totals_deadline(const struct app_core *core)
{
	if (core->life != APP_SERVING || !core->meta || !meta_totals_pending(core->meta))
		return UINT64_MAX;
	return core->totals_ns ? core->totals_ns : core->now_ns + WAIT_NS;
}
