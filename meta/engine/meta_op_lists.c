/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Lists on which operations wait, for the events that end a wait: a page was read, a log block is
 * durable, a file was trimmed.  meta_op.c has the states and their invariants.
 */
#include "meta/engine/meta_ops.h"

bool meta__op_wait_on(struct meta_op *op, struct list *l)
{
	DASSERT(op->misses == 0); /* meta_op.c (1) */
	DASSERT((op->state & OP_STATE_MASK) != OP_OVER);
	meta__op_set_state(op, OP_LISTED);
	list_push_back(l, &op->link);
	return false;
}

void meta_op_wait_durable(struct meta *m, struct meta_op *op)
{
	struct list *l = &m->ops->durable, *at = l->prev;

	meta__op_set_state(op, OP_LISTED);
	while (at != l && list_entry(at, struct meta_op, link)->seen_seq > op->seen_seq)
		at = at->prev;
	DASSERT(at == l || list_entry(at, struct meta_op, link)->seen_seq <= op->seen_seq);
	list_push_front(at, &op->link); /* right behind `at` */
}

void meta__op_page_done(struct meta *m, struct meta_op *op, int status)
{
	ASSERT((op->state & OP_STATE_MASK) != OP_OVER);
	ASSERT(op->misses > 0);
	if (status)
		op->state |= OP_PAGE_BAD;
	if (--op->misses == 0 && (op->state & OP_STATE_MASK) == OP_PAGES)
		meta__op_wait_on(op, &m->ops->ready); /* else run() checks after its plan */
}

/* Those that wait for a file to be trimmed run again. */
void meta__ops_trimmed(struct meta *m)
{
	struct list *node;

	while ((node = list_pop_front(&m->ops->trimming)))
		list_push_back(&m->ops->ready, node);
}

uint64_t meta__orphans_waiting(const struct meta *m)
{
	uint64_t n = 0;

	for (uint32_t s = 0; s < m->nshards; s++)
		n += meta__orphans_of(m, s);
	ASSERT(n <= m->nshards);
	return n;
}

/* ---- blocks that came with it ------------------------------------------------------ */

bool meta__op_brings_blocks(const struct meta *m, const struct meta_op *op)
{
	const enum meta__brings brings = meta__op_row_of(m, op)->brings;

	if (brings == META__BRINGS_BLOCKS_OR_INLINE && op->flags & META_BY_INLINE)
		return false;
	return brings != META__BRINGS_NONE && op->nruns > 0;
}

void meta__op_blocks_settle(struct meta *m, struct meta_op *op)
{
	DASSERT(op->state & OP_BLOCKS);
	DASSERT(op->nruns > 0);
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

void meta__op_settle_made(struct meta *m, struct meta_op *op)
{
	if (!meta__op_brings_blocks(m, op))
		return;
	op->state |= OP_BLOCKS;
	meta__op_blocks_settle(m, op);
}
