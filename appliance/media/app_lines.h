/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Lines for people, from a polling thread, which writes no log, to the control thread, which does.
 *
 * One thread pushes, one takes (base/spsc.h).  If it is full, push again later.
 */
#ifndef APP_LINES_H
#define APP_LINES_H

#include "base/assert.h"
#include "base/spsc.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define APP_LINES     16u
#define APP_LINE_SIZE 512u

struct app_lines {
	struct spsc_ends ends;
	char text[APP_LINES][APP_LINE_SIZE];
};

/* The polling thread's.  False: no place now. */
static inline bool app_lines_push(struct app_lines *l, const char *text)
{
	size_t len = strlen(text);
	uint32_t at;

	ASSERT(len < APP_LINE_SIZE);
	if (!spsc_place(&l->ends, APP_LINES, &at))
		return false;
	memcpy(l->text[at], text, len + 1);
	spsc_put(&l->ends);
	spsc_tell(&l->ends);
	return true;
}

/* The control thread.  False: empty. */
static inline bool app_lines_take(struct app_lines *l, char text[APP_LINE_SIZE])
{
	uint32_t at;

	if (!spsc_oldest(&l->ends, APP_LINES, &at))
		return false;
	memcpy(text, l->text[at], APP_LINE_SIZE);
	spsc_free(&l->ends);
	return true;
}

/* Returns the number of lines pushed. */
static inline uint32_t app_lines_count(const struct app_lines *l)
{
	return atomic_load_explicit(&l->ends.head, memory_order_relaxed);
}

#endif
