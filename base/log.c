/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#define _GNU_SOURCE
#include "base/log.h"
#include "base/log_ring.h"
#include "base/clock.h"
#include "base/num.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static _Atomic int level_max = LOG_INFO;
static _Atomic int style = LOG_STYLE_PLAIN;
static _Thread_local uint64_t thread_count;
/* R1 -> A1   the ring is empty, and whole, before its address is stored. */
static struct log_ring *_Atomic kept;

static const char *const level_name[] = {
	[LOG_ERROR] = "error",
	[LOG_WARN] = "warning",
	[LOG_INFO] = "info",
	[LOG_DEBUG] = "debug",
};

/* Priorities of syslog(3). */
static const int level_priority[] = {
	[LOG_ERROR] = 3,
	[LOG_WARN] = 4,
	[LOG_INFO] = 6,
	[LOG_DEBUG] = 7,
};

static int print_head(char *out, size_t size, enum log_level level)
{
	const int how = atomic_load_explicit(&style, memory_order_relaxed);
	char time[CLOCK_TEXT] = "";

	if (how == LOG_STYLE_JOURNAL)
		return snprintf(out, size, "<%d>", level_priority[level]);
	if (how == LOG_STYLE_TIME)
		clock_print_utc(time, clock_wall_ns());
	return snprintf(out, size, "%s%s%s: %s: ", time, *time ? " " : "",
			program_invocation_short_name, level_name[level]);
}

/* Replaces control characters: a line may quote a name that a client chose. */
static void make_printable(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

void log_line(enum log_level level, const char *format, ...)
{
	char line[1024]; /* on the stack: a sealed thread may log its last words */
	int err = errno, used, more;
	struct log_ring *ring;
	va_list args;

	ASSERT(level >= LOG_ERROR && level <= LOG_DEBUG);
	thread_count++;
	if ((int)level > atomic_load_explicit(&level_max, memory_order_relaxed))
		return;
	used = print_head(line, sizeof(line), level);
	ASSERT(used > 0 && (size_t)used < sizeof(line) / 2);
	va_start(args, format);
	more = vsnprintf(line + used, sizeof(line) - (size_t)used, format, args);
	va_end(args);
	make_printable(line + used);
	ring = atomic_load_explicit(&kept, memory_order_relaxed);
	if (ring)
		log_ring_put(ring, clock_wall_ns(), level, line + used);
	used = (int)min_u64((uint64_t)(used + (more > 0 ? more : 0)), sizeof(line) - 2);
	line[used] = '\n';
	/* An error of stderr itself cannot be reported. */
	if (write(STDERR_FILENO, line, (size_t)used + 1) < 0)
		errno = 0;
	errno = err;
}

void log_keep(struct log_ring *ring)
{
	ASSERT(ring);
	atomic_store_explicit(&kept, ring, memory_order_release); /* R1 */
}

struct log_ring *log_kept(void)
{
	return atomic_load_explicit(&kept, memory_order_acquire); /* A1 */
}

void log_level_set(enum log_level level)
{
	atomic_store_explicit(&level_max, (int)level, memory_order_relaxed);
}

void log_style_set(enum log_style wanted)
{
	atomic_store_explicit(&style, (int)wanted, memory_order_relaxed);
}

enum log_style log_style_of_stderr(void)
{
	const char *journal = getenv("JOURNAL_STREAM"); /* DEVICE:INODE, systemd.exec(5) */
	unsigned long long device, inode;
	struct stat st;

	if (journal && sscanf(journal, "%llu:%llu", &device, &inode) == 2 &&
	    fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode)
		return LOG_STYLE_JOURNAL;
	return LOG_STYLE_TIME;
}

uint64_t log_thread_count(void)
{
	return thread_count;
}
