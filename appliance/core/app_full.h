/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Logs that the store is full: polling threads note that writers are refused, and when that ends;
 * the control thread, which is woken for it, writes a line for each.
 */
#ifndef APP_FULL_H
#define APP_FULL_H

#include "base/log.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct app_core;

struct app_full { /* zeros: it is not */
	_Atomic bool is_full;
	_Atomic uint64_t refused_ns; /* when a writer was refused last */
	bool said;                   /* the control thread's           */
};

/* Does the answer with this status begin or end it?  Few do.  Any core's thread, like the next. */
static inline bool app_full_concerns(const struct app_full *full, int status)
{
	return full &&
	       (status == -ENOSPC || atomic_load_explicit(&full->is_full, memory_order_relaxed));
}
/* Takes notice of such an answer to a writer. */
wk_cold void app_full_answered(struct app_core *core, int status);
/* Returns a line that the log does not have yet, and its level, or NULL.  The control thread's. */
const char *app_full_line(struct app_full *full, enum log_level *level);

#endif
