/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Lines for the operator, on stderr.  For cold paths only: each line is a system call.  Frequent
 * events are counters (stat.h).
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/assert.h"

#include <stdint.h>

enum log_level { LOG_ERROR = 1, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* One line, without a newline at its end; one write(), so that lines of threads do not mix.
 * Control characters become question marks. */
wk_cold void log_line(enum log_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)

/* Sets the highest level that is written; LOG_INFO at start. */
void log_level_set(enum log_level level);

enum log_style {
	LOG_STYLE_PLAIN,   /* "weka-appliance: warning: text"; at start                 */
	LOG_STYLE_TIME,    /* "2026-11-24T17:52:07.123Z weka-appliance: warning: text"  */
	LOG_STYLE_JOURNAL, /* "<4>text": the journal adds program and time, sd-daemon(3) */
};

/* Sets how each line begins, for all threads. */
void log_style_set(enum log_style style);

/* Returns LOG_STYLE_JOURNAL if JOURNAL_STREAM names stderr, else LOG_STYLE_TIME. */
enum log_style log_style_of_stderr(void);

/* Lines that this thread asked for, written or not: a test asserts that the hot path asked for
 * none. */
uint64_t log_thread_count(void);

#endif
