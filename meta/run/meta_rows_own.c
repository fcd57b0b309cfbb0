/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The rows of the store's own operations: each one's plan, and the function that ends it. */
#include "meta/engine/meta_ops.h"
#include "meta/plans/meta_plan.h"

#define OWN(type, plan_, done_)                                                                    \
	[META__OP_##type - META__OP_FREE_ORPHAN] = { .plan = plan_, .done = done_ }

static const struct meta__op_row own[] = {
	OWN(FREE_ORPHAN, meta__plan_free_orphan, meta__orphan_op_done),
	OWN(TOUCH, meta__plan_touch, meta__collect_op_done),
	OWN(REPLAY, meta__plan_replay, meta__boot_op_done),
	OWN(MKROOT, meta__plan_mkroot, meta__boot_op_done),
	OWN(GC_FIND, meta__plan_gc_find, meta__gc_op_done),
	OWN(GC_LOOK, meta__plan_gc_look, meta__gc_op_done),
	OWN(GC_MOVE, meta__plan_gc_move, meta__gc_op_done),
	OWN(TOTALS_UP, meta__plan_totals_up, meta__totals_up_op_done),
	OWN(DUPLICATE, meta__plan_duplicate, meta__duplicate_op_done),
};

const struct meta__op_rows meta__op_rows = { .user = meta__user_rows, .own = own };
