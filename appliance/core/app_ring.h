/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Messages between two polling cores: a queue of messages by value, between two threads, and the
 * bell of a sleeping core.
 *
 *        tail                 head      next
 *          v                    v         v
 *   [ ] [ ] x  x  x  x  x  x  x  .  .  .  [ ]      put, not yet sent: head .. next
 *   popped from here             put here
 *
 * Messages of one turn are sent together: app_ring_tell() moves head, so that its cache line, and
 * the bell's, is paid for once for many.  Wait-free on both sides.
 *
 *   R1 -> A1   messages are stored before head includes them;
 *   R2 -> A2   a message is copied out before tail frees its place.
 *   R3 -> A3   the sender moves head, then reads the bell; a core that goes to sleep sets the bell,
 *              then reads head.  All four are seq_cst, so one sees the other: either
 *              the bell is rung, or the sleeper finds the message.
 */
#ifndef APP_RING_H
#define APP_RING_H

#include "base/assert.h"

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
	_Alignas(APP_RING_LINE) _Atomic uint32_t head; /* written by the putting thread */
	uint32_t next;
	uint32_t tail_seen;
	_Alignas(APP_RING_LINE) _Atomic uint32_t tail; /* written by the popping thread */
	uint32_t head_seen;
	_Alignas(APP_RING_LINE) uint32_t size; /* a power of two; never changes */
	struct app_message *slot;
};

static inline void app_ring_init(struct app_ring *r, struct app_message *slot, uint32_t size)
{
	ASSERT(size > 0 && (size & (size - 1)) == 0);
	atomic_init(&r->head, 0);
	atomic_init(&r->tail, 0);
	r->next = 0;
	r->tail_seen = 0;
	r->head_seen = 0;
	r->size = size;
	r->slot = slot;
}

/* The putting thread.  There is room: messages in transit are bounded (app_store.c). */
static inline void app_ring_put(struct app_ring *r, struct app_message m)
{
	if (r->next - r->tail_seen == r->size) {
		r->tail_seen = atomic_load_explicit(&r->tail, memory_order_acquire); /* A2 */
		ASSERT(r->next - r->tail_seen < r->size);
	}
	r->slot[r->next++ & (r->size - 1)] = m;
}

/* The putting thread: returns a lower bound of the free places. */
static inline uint32_t app_ring_room(struct app_ring *r)
{
	r->tail_seen = atomic_load_explicit(&r->tail, memory_order_acquire); /* A2 */
	ASSERT(r->next - r->tail_seen <= r->size);
	return r->size - (r->next - r->tail_seen);
}

/* The putting thread.  True: there was something to tell; look at the other's bell. */
static inline bool app_ring_tell(struct app_ring *r)
{
	DASSERT(r->next - r->tail_seen <= r->size);
	if (r->next == atomic_load_explicit(&r->head, memory_order_relaxed))
		return false;
	/* R1, R3: an exchange, since a store that is sequentially consistent costs as much. */
	(void)atomic_exchange_explicit(&r->head, r->next, memory_order_seq_cst);
	return true;
}

/* The popping thread.  False: empty. */
static inline bool app_ring_pop(struct app_ring *r, struct app_message *out)
{
	uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);

	if (tail == r->head_seen) {
		r->head_seen = atomic_load_explicit(&r->head, memory_order_acquire); /* A1 */
		ASSERT(r->head_seen - tail <= r->size);
		if (tail == r->head_seen)
			return false;
	}
	*out = r->slot[tail & (r->size - 1)];
	atomic_store_explicit(&r->tail, tail + 1, memory_order_release); /* R2 */
	return true;
}

/* The popping thread, its bell set: has anything come?  A3 */
static inline bool app_ring_quiet(const struct app_ring *r)
{
	return atomic_load_explicit(&r->head, memory_order_seq_cst) ==
	       atomic_load_explicit(&r->tail, memory_order_relaxed);
}

/* ---- the bell ------------------------------------------------------------------------- */

struct app_bell {
	_Alignas(APP_RING_LINE) _Atomic uint32_t asleep;
	int fd; /* an eventfd */
};

/* The sender: returns true if the other core sleeps: write to its fd.  R3 (the second half) */
static inline bool app_bell_must_ring(struct app_bell *b)
{
	return atomic_load_explicit(&b->asleep, memory_order_seq_cst) &&
	       atomic_exchange_explicit(&b->asleep, 0, memory_order_seq_cst);
}

/* The bell's owner: before app_ring_quiet() of all its rings (A3), and after waking. */
static inline void app_bell_set(struct app_bell *b, bool asleep)
{
	(void)atomic_exchange_explicit(&b->asleep, asleep, memory_order_seq_cst);
}

#endif
