/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Messages between two polling cores: a queue of messages by value, between two threads, and the
 * bell of a sleeping core.
 *
 *   from ---put--> [ struct spsc_ends, and places ] ---pop--> to
 *     |                                                       ^
 *     +----tell: if it sleeps, ring its bell -----------------+
 *
 * The queue is that of base/spsc.h.  Messages of one turn are sent together: app_ring_tell() moves
 * head, so that its cache line, and the bell's, is paid for once for many.
 *
 *   R3 -> A3   the sender moves head, then reads the bell; a core that goes to sleep sets the bell,
 *              then reads head.  All four are seq_cst, so one sees the other: either
 *              the bell is rung, or the sleeper finds the message.
 */
#ifndef APP_RING_H
#define APP_RING_H

#include "base/assert.h"
#include "base/spsc.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define APP_RING_LINE 64

struct app_op;

struct app_message {
	union {
		struct app_op *op;
		uint64_t pin;
		int64_t status;
		uint64_t shard;  /* and, from bit 32 on, the reader that knocks */
		uint64_t drives; /* by their bits */
	};
	uint64_t what; /* enum app_say */
};

struct app_ring {
	_Alignas(APP_RING_LINE) struct spsc_ends ends;
	uint32_t size; /* a power of two; never changes */
	struct app_message *slot;
};

static inline void app_ring_init(struct app_ring *r, struct app_message *slot, uint32_t size)
{
	ASSERT(size > 0 && (size & (size - 1)) == 0);
	spsc_ends_init(&r->ends);
	r->size = size;
	r->slot = slot;
}

/* The putting thread.  There is room: messages in transit are bounded (app_store.c). */
static inline void app_ring_put(struct app_ring *r, struct app_message m)
{
	uint32_t at;

	ASSERT(spsc_place(&r->ends, r->size, &at));
	r->slot[at] = m;
	spsc_put(&r->ends);
}

/* The putting thread: returns a lower bound of the free places. */
static inline uint32_t app_ring_room(struct app_ring *r)
{
	return spsc_room(&r->ends, r->size);
}

/* The putting thread.  True: there was something to tell; look at the other's bell. */
static inline bool app_ring_tell(struct app_ring *r)
{
	if (r->ends.next == atomic_load_explicit(&r->ends.head, memory_order_relaxed))
		return false;
	/* R3, and spsc_tell(): an exchange, since a store that is sequentially consistent costs as
	 * much. */
	(void)atomic_exchange_explicit(&r->ends.head, r->ends.next, memory_order_seq_cst);
	return true;
}

/* The popping thread.  False: empty. */
static inline bool app_ring_pop(struct app_ring *r, struct app_message *out)
{
	uint32_t at;

	if (!spsc_oldest(&r->ends, r->size, &at))
		return false;
	*out = r->slot[at];
	spsc_free(&r->ends);
	return true;
}

/* The popping thread, its bell set: has anything come? */
static inline bool app_ring_quiet(const struct app_ring *r)
{
	/* A3 */
	return atomic_load_explicit(&r->ends.head, memory_order_seq_cst) ==
	       atomic_load_explicit(&r->ends.tail, memory_order_relaxed);
}

/* ---- the bell ------------------------------------------------------------------------- */

struct app_bell {
	_Alignas(APP_RING_LINE) _Atomic uint32_t asleep;
	int fd; /* an eventfd */
};

/* The sender: returns true if the other core sleeps: write to its fd.  R3 (the second half) */
static inline bool app_bell_must_ring(struct app_bell *b)
{
	return atomic_load_explicit(&b->asleep, memory_order_seq_cst) && /* R3 */
	       atomic_exchange_explicit(&b->asleep, 0, memory_order_seq_cst);
}

/* The bell's owner: before app_ring_quiet() of all its rings (A3), and after waking. */
static inline void app_bell_set(struct app_bell *b, bool asleep)
{
	(void)atomic_exchange_explicit(&b->asleep, asleep, memory_order_seq_cst); /* A3 */
}

#endif
