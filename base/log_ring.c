/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The ring of the log's last lines: see log_ring.h.
 *
 *   R1 -> A1 (log_ring.h), R2 -> A2 (log_ring.h)
 */
#include "base/log_ring.h"
#include "base/num.h"

#include <string.h>

static_assert(LOG_RING_TEXT % sizeof(uint64_t) == 0, "whole words");

static struct log_ring_slot *slot_of(struct log_ring *ring, uint64_t number)
{
	return &ring->slot[number % LOG_RING_LINES];
}

/* Takes the slot for line `number`; false if another writer has it, or a later line is in it. */
static bool slot_take(struct log_ring_slot *s, uint64_t number)
{
	uint64_t stamp = atomic_load_explicit(&s->stamp, memory_order_relaxed);

	if (stamp % 2 == 1 || stamp > 2 * number)
		return false;
	return atomic_compare_exchange_strong_explicit(&s->stamp, &stamp, 2 * number + 1,
						       memory_order_relaxed, memory_order_relaxed);
}

void log_ring_put(struct log_ring *ring, uint64_t wall_ns, enum log_level level, const char *text)
{
	const uint64_t number = atomic_fetch_add_explicit(&ring->next, 1, memory_order_relaxed);
	struct log_ring_slot *s = slot_of(ring, number);
	uint64_t word[LOG_RING_TEXT / sizeof(uint64_t)] = { 0 };

	memcpy(word, text, strnlen(text, LOG_RING_TEXT - 1));
	if (!slot_take(s, number)) { /* log_ring.h (1) */
		atomic_fetch_add_explicit(&ring->dropped, 1, memory_order_relaxed);
		return;
	}
	atomic_store_explicit(&s->wall_ns, wall_ns, memory_order_release);       /* R1 */
	atomic_store_explicit(&s->level, (uint64_t)level, memory_order_release); /* R1 */
	for (size_t i = 0; i < ARRAY_LEN(word); i++)
		atomic_store_explicit(&s->word[i], word[i], memory_order_release); /* R1 */
	ASSERT(atomic_load_explicit(&s->stamp, memory_order_relaxed) ==
	       2 * number + 1);                                                 /* log_ring.h (1) */
	atomic_store_explicit(&s->stamp, 2 * number + 2, memory_order_release); /* R2 */
}

/* Copies line `number`; false if it is not there whole. */
static bool slot_read(struct log_ring_slot *s, uint64_t number, struct log_ring_line *out)
{
	uint64_t word[LOG_RING_TEXT / sizeof(uint64_t)];

	/* A2 */
	if (atomic_load_explicit(&s->stamp, memory_order_acquire) != 2 * number + 2)
		return false;
	out->wall_ns = atomic_load_explicit(&s->wall_ns, memory_order_acquire); /* A1 */
	/* A1 */
	out->level = (enum log_level)atomic_load_explicit(&s->level, memory_order_acquire);
	for (size_t i = 0; i < ARRAY_LEN(word); i++)
		word[i] = atomic_load_explicit(&s->word[i], memory_order_acquire); /* A1 */
	if (atomic_load_explicit(&s->stamp, memory_order_relaxed) != 2 * number + 2)
		return false; /* log_ring.h (2) */
	out->number = number;
	memcpy(out->text, word, sizeof(word));
	ASSERT(out->text[LOG_RING_TEXT - 1] == 0);
	return true;
}

bool log_ring_get(struct log_ring *ring, uint64_t number, struct log_ring_line *out)
{
	const uint64_t next = atomic_load_explicit(&ring->next, memory_order_relaxed);

	if (next > LOG_RING_LINES)
		number = max_u64(number, next - LOG_RING_LINES);
	for (; number < next; number++)
		if (slot_read(slot_of(ring, number), number, out))
			return true;
	return false;
}
