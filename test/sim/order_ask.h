/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Between order.c, which compares, and order_ask.c, which asks, and notes in which moment what was
 * asked took place. */
#ifndef ORDER_ASK_H
#define ORDER_ASK_H

#include "test/sim/order_model.h"
#include "test/sim/sim_world.h"

#define ORDER_NAMES    5u  /* a to e */
#define ORDER_EPOCH    64u /* requests, then all of them are looked at */
#define ORDER_LISTINGS 3u
#define ORDER_PAGE     2u

struct order_answer {
	uint64_t moment;
	struct order_op op;
	uint32_t listing; /* LIST */
	int status;
	bool has_attr, has_handle;
	struct fab_attr attr;
	struct fab_handle handle;
	uint32_t content, bytes; /* READ */
	char target[ORDER_PATH]; /* READLINK */
	struct {
		char name[4];
		struct fab_attr attr;
	} entry[ORDER_PAGE];
	uint32_t entries;
	bool at_end;
};

struct order_listing {
	bool used, busy; /* a page of it is asked for */
	uint32_t node;
	uint64_t begun; /* UINT64_MAX: not yet */
	uint8_t cookie[FAB_COOKIE_BYTES];
	uint32_t seen[ORDER_NAMES];
};

struct order_run {
	struct sim_world w;
	struct order_model model;
	struct rand_state rnd;
	struct {
		bool known;
		struct fab_handle handle;
		uint64_t dir;
	} node_is[ORDER_NODES];
	struct order_listing listing[ORDER_LISTINGS];
	struct order_answer answers[ORDER_EPOCH];
	uint32_t answered;
	uint64_t ops; /* asked */
};
extern struct order_run order;

void order_ask_begin(void);
/* Begins an epoch, with another mix of operations.  Returns how many may be in flight. */
uint32_t order_ask_epoch(uint32_t in_flight);
/* Ask for something.  False: all calls are in flight. */
bool order_ask_one(void);
/* It came back: one more of order.answers. */
void order_ask_take(struct sim_call *c);
uint32_t order_bytes_of(uint32_t content);

#endif
