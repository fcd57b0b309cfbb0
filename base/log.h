/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Lines for the operator, on stderr: "weka-appliance: warning: ...".  Cold path only: each
 * is a system call.  What happens often is a counter (stat.h), not a line.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/assert.h"

#include <stdint.h>

enum log_level { LOG_ERROR = 1, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* One line, without a newline at its end; one write(), so that lines of threads do not mix. */
wk_cold void log_line(enum log_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)

/* What is above `level` is not written; LOG_INFO at start. */
void log_level_set(enum log_level level);

/* Lines that this thread asked for, written or not: a test asserts that the hot path asked for
 * none. */
uint64_t log_thread_count(void);

#endif
