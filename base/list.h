/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Intrusive doubly linked list, circular, with its head as a node.
 *
 *   head <-> a <-> b <-> c <-> head         empty: head <-> head
 *
 * A node that is on no list points to itself (list_init), so that list_del() is
 * harmless twice and list_linked() can be asked.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include "base/num.h"

struct list {
	struct list *prev;
	struct list *next;
};

static inline void list_init(struct list *l)
{
	l->prev = l;
	l->next = l;
}

static inline bool list_linked(const struct list *node)
{
	return node->next != node;
}

static inline bool list_empty(const struct list *head)
{
	return head->next == head;
}

static inline void list_push_back(struct list *head, struct list *node)
{
	ASSERT(!list_linked(node));
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

static inline void list_push_front(struct list *head, struct list *node)
{
	list_push_back(head->next, node);
}

static inline void list_del(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

/* The first node, taken off; NULL when empty. */
static inline struct list *list_pop_front(struct list *head)
{
	struct list *node = head->next;

	if (node == head)
		return NULL;
	list_del(node);
	return node;
}

#define list_entry(node, type, member) container_of(node, type, member)

/* `pos` walks over the nodes; the one it stands on may not be taken off. */
#define list_for_each(pos, head) for ((pos) = (head)->next; (pos) != (head); (pos) = (pos)->next)

#endif
