/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Many pushing threads, one popping: the control plane's way to a core.  Intrusive, unbounded.
 *
 *   push:  newest -> ... -> oldest         a stack that all push on by compare-and-swap
 *   pop:   takes the whole stack at once, turns it round into `ready`, hands out from there
 *
 * Taking all at once is what makes it simple: no node is ever removed from the middle, so
 * there is no ABA.  Order is kept among the items of one pusher.  Push is lock-free, pop
 * wait-free but for turning round what has come (bounded by what was pushed).
 *
 *   R1 -> A1   the item and its next are stored before head says that it is there.
 */
#ifndef BASE_MPSC_H
#define BASE_MPSC_H

#include "base/assert.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct mpsc_node {
	struct mpsc_node *next;
};

struct mpsc {
	_Alignas(64) _Atomic(struct mpsc_node *) head; /* newest first; all pushers' */
	_Alignas(64) struct mpsc_node *ready;          /* oldest first; the popper's */
};

static inline void mpsc_init(struct mpsc *q)
{
	atomic_init(&q->head, NULL);
	q->ready = NULL;
}

/*
 * Put `node`, the queue's until it is popped.  Any thread.  True when nothing was waiting:
 * the popper may sleep, ring its doorbell.
 */
static inline bool mpsc_push(struct mpsc *q, struct mpsc_node *node)
{
	struct mpsc_node *head = atomic_load_explicit(&q->head, memory_order_relaxed);

	do {
		node->next = head;
	} while (!atomic_compare_exchange_weak_explicit(&q->head, &head, node,
							memory_order_release, /* R1 */
							memory_order_relaxed));
	return head == NULL;
}

/* The oldest item, or NULL.  The popping thread only. */
static inline struct mpsc_node *mpsc_pop(struct mpsc *q)
{
	struct mpsc_node *node, *newest;

	if (!q->ready && atomic_load_explicit(&q->head, memory_order_relaxed)) {
		newest = atomic_exchange_explicit(&q->head, NULL, memory_order_acquire); /* A1 */
		while (newest) {
			node = newest;
			newest = node->next;
			node->next = q->ready;
			q->ready = node;
		}
	}
	node = q->ready;
	if (node)
		q->ready = node->next;
	return node;
}

#endif
