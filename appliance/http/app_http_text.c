/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Text that grows as it is written, up to a bound. */
#include "appliance/http/app_http_internal.h"
#include "base/num.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define FIRST_BYTES (64u << 10)

/* Makes room for `bytes` and a NUL. */
static bool grow(struct http__text *t, size_t bytes)
{
	size_t capacity = t->capacity ? t->capacity : FIRST_BYTES;
	char *more;

	ASSERT(t->used <= t->capacity && !t->failed);
	while (capacity <= t->used + bytes)
		capacity *= 2;
	if (capacity == t->capacity)
		return true;
	more = capacity <= HTTP__TEXT_MAX ? realloc(t->bytes, capacity) : NULL;
	if (!more)
		return false;
	t->bytes = more;
	t->capacity = capacity;
	ASSERT(t->used + bytes < t->capacity); /* and a NUL */
	return true;
}

void http__put(struct http__text *t, const char *fmt, ...)
{
	va_list args;
	int bytes;

	va_start(args, fmt);
	bytes = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	if (t->failed || bytes < 0 || !grow(t, (size_t)bytes)) {
		t->failed = true;
		return;
	}
	va_start(args, fmt);
	vsnprintf(t->bytes + t->used, t->capacity - t->used, fmt, args);
	va_end(args);
	t->used += (size_t)bytes;
	ASSERT(t->used < t->capacity && t->bytes[t->used] == '\0');
}

void http__text_free(struct http__text *t)
{
	free(t->bytes);
	*t = (struct http__text){ 0 };
}
