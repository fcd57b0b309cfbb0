/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Four threads push, one pops: every item once, each pusher's in its order.  Run under TSan. */
#include "base/mpsc.h"
#include "base/num.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

enum { PUSHERS = 4, ITEMS = 200000 };

struct item {
	uint32_t pusher;
	uint32_t number;
	struct mpsc_node node;
};

static struct mpsc q;
static struct item items[PUSHERS][ITEMS];

static void *pusher(void *arg)
{
	struct item *mine = arg;

	for (uint32_t i = 0; i < ITEMS; i++)
		mpsc_push(&q, &mine[i].node);
	return NULL;
}

int main(void)
{
	pthread_t thread[PUSHERS];
	uint32_t next[PUSHERS] = { 0 };

	mpsc_init(&q);
	for (uint32_t p = 0; p < PUSHERS; p++) {
		for (uint32_t i = 0; i < ITEMS; i++)
			items[p][i] = (struct item){ .pusher = p, .number = i };
		ASSERT(pthread_create(&thread[p], NULL, pusher, items[p]) == 0);
	}
	for (uint32_t popped = 0; popped < PUSHERS * ITEMS;) {
		struct mpsc_node *node = mpsc_pop(&q);
		struct item *item;

		if (!node)
			continue;
		item = container_of(node, struct item, node);
		ASSERT(item->number == next[item->pusher]);
		next[item->pusher]++;
		popped++;
	}
	for (uint32_t p = 0; p < PUSHERS; p++)
		pthread_join(thread[p], NULL);
	ASSERT(mpsc_pop(&q) == NULL);
	printf("torture_mpsc: %d items of %d threads, each in order\n", PUSHERS * ITEMS, PUSHERS);
	return 0;
}
