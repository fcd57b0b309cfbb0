/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Counts operations again, and compares the results with the counters: with WK_DEBUG only. */
#include "meta/engine/meta_self_check.h"
#include "meta/engine/meta_ops.h"

#ifdef WK_DEBUG

#define OPS_MOST (1u << 20) /* on one list: or it goes round in a circle */

/* Each operation of the list is in this state, and none is over unless `over`.  Returns how many of
 * clients have begun. */
static uint32_t list_check(const struct list *l, bool over)
{
	uint32_t begun = 0, n = 0;

	for (const struct list *at = l->next; at != l; at = at->next) {
		const struct meta_op *op = list_entry(at, struct meta_op, link);

		ASSERT(n++ < OPS_MOST);
		ASSERT(op->misses == 0); /* meta_op.c (1): else it is on no list */
		ASSERT(over || (op->state & OP_STATE_MASK) != OP_IDLE);
		begun += !!(op->state & OP_RUNNING);
	}
	return begun;
}

/* (3): who waits longest for the log comes last. */
static void durable_check(const struct meta__ops *ops)
{
	uint64_t seen = 0;

	for (const struct list *at = ops->durable.next; at != &ops->durable; at = at->next) {
		const struct meta_op *op = list_entry(at, struct meta_op, link);

		ASSERT(op->seen_seq >= seen);
		ASSERT(!(op->state & OP_RUNNING));
		seen = op->seen_seq;
	}
}

void meta__ops_check(const struct meta *m)
{
	const struct meta__ops *ops = m->ops;
	uint32_t begun = list_check(&ops->ready, false), due = 0;

	for (uint32_t i = 0; i < META__STALLS; i++)
		begun += list_check(&ops->stalled[i], false);
	begun += list_check(&ops->held, false);
	begun += list_check(&ops->trimming, false);
	begun += list_check(&ops->leaving, false);
	ASSERT(begun <= ops->running); /* the others wait for pages */
	(void)list_check(&ops->over, true);
	durable_check(ops);
	for (uint32_t s = 0; s < m->nshards; s++)
		due += ops->orphan[s].maybe && !ops->orphan[s].busy;
	ASSERT(due == ops->orphans_due); /* meta_orphan.c (5) */
}

#endif
