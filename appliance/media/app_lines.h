/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Lines for people, from a polling thread, which writes no log, to the control thread, which does.
 *
 * One thread pushes, one takes.  If it is full, push again later.
 *
 *   R1 -> A1   the text is stored before head includes it;
 *   R2 -> A2   the text is copied out before tail frees its place.
 */
#ifndef APP_LINES_H
#define APP_LINES_H

#include "base/assert.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define APP_LINES     16u
#define APP_LINE_SIZE 512u

struct app_lines {
	_Atomic uint32_t head; /* the polling thread's  */
	_Atomic uint32_t tail; /* the control thread's  */
	char text[APP_LINES][APP_LINE_SIZE];
};

/* The polling thread's.  False: no place now. */
static inline bool app_lines_push(struct app_lines *l, const char *text)
{
	uint32_t head = atomic_load_explicit(&l->head, memory_order_relaxed);
	uint32_t tail = atomic_load_explicit(&l->tail, memory_order_acquire); /* A2 */
	size_t len = strlen(text);

	ASSERT(len < APP_LINE_SIZE);
	if (head - tail == APP_LINES)
		return false;
	memcpy(l->text[head % APP_LINES], text, len + 1);
	atomic_store_explicit(&l->head, head + 1, memory_order_release); /* R1 */
	return true;
}

/* The control thread.  False: empty. */
static inline bool app_lines_take(struct app_lines *l, char text[APP_LINE_SIZE])
{
	uint32_t tail = atomic_load_explicit(&l->tail, memory_order_relaxed);

	if (atomic_load_explicit(&l->head, memory_order_acquire) == tail) /* A1 */
		return false;
	memcpy(text, l->text[tail % APP_LINES], APP_LINE_SIZE);
	atomic_store_explicit(&l->tail, tail + 1, memory_order_release); /* R2 */
	return true;
}

/* Returns the number of lines pushed. */
static inline uint32_t app_lines_count(const struct app_lines *l)
{
	return atomic_load_explicit(&l->head, memory_order_relaxed);
}

#endif
