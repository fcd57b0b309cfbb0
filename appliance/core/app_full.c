/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 *  not full --a writer gets -ENOSPC--> full --a writer gets room, and none was refused for 10 s--+
 *     ^                                                                                         |
 *     +-----------------------------------------------------------------------------------------+
 *
 * Small files often still fit when large ones do not, so one write that succeeds is not enough.
 */
#include "appliance/core/app_full.h"

#include "appliance/core/app_op.h"
#include "base/clock.h"

#define QUIET_NS (10 * NS_PER_S)

static void refused(struct app_core *core, struct app_full *full)
{
	ASSERT(full == core->cfg.full);
	atomic_store_explicit(&full->refused_ns, core->now_ns, memory_order_relaxed);
	if (!atomic_exchange_explicit(&full->is_full, true, memory_order_relaxed))
		core->lines++;
}

static void has_room(struct app_core *core, struct app_full *full)
{
	ASSERT(full == core->cfg.full);
	if (core->now_ns < atomic_load_explicit(&full->refused_ns, memory_order_relaxed) + QUIET_NS)
		return;
	if (atomic_exchange_explicit(&full->is_full, false, memory_order_relaxed))
		core->lines++;
}

void app_full_answered(struct app_core *core, int status)
{
	struct app_full *full = core->cfg.full;

	ASSERT(full);
	if (status == -ENOSPC)
		refused(core, full);
	else if (status == 0)
		has_room(core, full);
}

const char *app_full_line(struct app_full *full, enum log_level *level)
{
	const bool is_full = atomic_load_explicit(&full->is_full, memory_order_relaxed);

	if (is_full == full->said)
		return NULL;
	full->said = is_full;
	*level = is_full ? LOG_WARN : LOG_INFO;
	return is_full ? "WEKA-301: the store is full: files are refused with \"No space left on "
			 "device\"; remove some, or add drives (wekactl drives add)"
		       : "WEKA-302: the store has room again";
}
