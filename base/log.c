/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#define _GNU_SOURCE
#include "base/log.h"
#include "base/num.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static _Atomic int level_max = LOG_INFO;
static _Thread_local uint64_t thread_count;

static const char *const level_name[] = {
	[LOG_ERROR] = "error",
	[LOG_WARN] = "warning",
	[LOG_INFO] = "info",
	[LOG_DEBUG] = "debug",
};

void log_line(enum log_level level, const char *format, ...)
{
	char line[1024]; /* on the stack: a sealed thread may log its last words */
	int err = errno, used, more;
	va_list args;

	ASSERT(level >= LOG_ERROR && level <= LOG_DEBUG);
	thread_count++;
	if ((int)level > atomic_load_explicit(&level_max, memory_order_relaxed))
		return;
	used = snprintf(line, sizeof(line), "%s: %s: ", program_invocation_short_name,
			level_name[level]);
	ASSERT(used > 0 && (size_t)used < sizeof(line) / 2);
	va_start(args, format);
	more = vsnprintf(line + used, sizeof(line) - (size_t)used, format, args);
	va_end(args);
	used = (int)min_u64((uint64_t)(used + (more > 0 ? more : 0)), sizeof(line) - 2);
	line[used] = '\n';
	/* Nobody to tell when stderr itself is gone. */
	if (write(STDERR_FILENO, line, (size_t)used + 1) < 0)
		errno = 0;
	errno = err;
}

void log_level_set(enum log_level level)
{
	atomic_store_explicit(&level_max, (int)level, memory_order_relaxed);
}

uint64_t log_thread_count(void)
{
	return thread_count;
}
