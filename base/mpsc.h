/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Many pushing threads, one popping thread: from the control plane to a core.  Unbounded.
 *
 *   push:  newest -> ... -> oldest         a stack that all push to by compare-and-swap
 *   pop:   takes the whole stack at once, reverses it into `ready`, hands out from there
 *
 * Taking all at once keeps it simple: no node is ever removed from the middle, so there is no ABA.
 * Items of one pusher keep their order.  Push is lock-free, pop is wait-free except for reversing
 * the new items (bounded by their number).
 *
 *   R1 -> A1   the item and its next are stored before head includes it.
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
