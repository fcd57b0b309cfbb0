/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Handles writes of the store that no drive accepts (app_patience.h): sets how long they are
 * repeated, reports them to people, and tells the caller when the daemon has to restart itself.
 */
#include "appliance/core/app_op.h"
#include "appliance/core/app_wants.h"
#include "appliance/media/app_lines.h"
#include "base/clock.h"

#include <errno.h>
#include <stdio.h>

#define SAY_AFTER_NS (200 * NS_PER_MS) /* a shorter wait is not reported */

static const char *why(int status)
{
	switch (status) {
	case -ENOSPC:
		return "no space left on its file system";
	case -ENODEV:
		return "it does not answer";
	case -EHOSTDOWN:
		return "it is away";
	default:
		return "input/output error";
	}
}

static void say(struct app_core *core, struct app_patience *p)
{
	const char *name = core->cfg.drive_name ? core->cfg.drive_name[p->drive] : "";
	char line[APP_LINE_SIZE];

	ASSERT(p->drive < META_DRIVES_MAX);
	if (p->gave_up && p->kept)
		return;
	if (p->gave_up)
		(void)snprintf(
			line, sizeof(line),
			"WEKA-307: drive %u (%.200s): the index could not be written for %llu s: "
			"%s; the store takes no more changes until the next start",
			p->drive, name, (unsigned long long)(p->limit_ns / NS_PER_S),
			why(p->status));
	else if (p->count > 0)
		(void)snprintf(
			line, sizeof(line),
			"WEKA-305: drive %u (%.200s): the index cannot be written: %s; changes "
			"wait, and it is tried again",
			p->drive, name, why(p->status));
	else
		(void)snprintf(
			line, sizeof(line),
			"WEKA-306: drive %u (%.200s): the index is written again; changes go on",
			p->drive, name);
	if (core->cfg.lines && !app_lines_push(core->cfg.lines, line))
		return;
	core->lines++;
	p->said = p->count > 0 || p->gave_up;
}

/* One line for each drive, when there is room for it. */
static void say_log_lost(struct app_core *core)
{
	const uint32_t d = (uint32_t)__builtin_ctzll(core->media.log_lost & ~core->log_lost_said);
	char line[APP_LINE_SIZE];

	ASSERT(d < META_DRIVES_MAX);
	(void)snprintf(
		line, sizeof(line),
		"WEKA-308: drive %u (%.200s) is dead: the log goes on with its copy on another "
		"drive; changes are taken until the index must be written to the dead one",
		d, core->cfg.drive_name ? core->cfg.drive_name[d] : "");
	if (core->cfg.lines && !app_lines_push(core->cfg.lines, line))
		return;
	core->lines++;
	core->log_lost_said |= 1ull << d;
}

void app_patience_turn(struct app_core *core)
{
	struct app_media *md = &core->media;
	struct app_patience *p = &md->patience;
	const bool gave_up = p->gave_up;

	ASSERT(!p->said || p->count > 0 || p->gave_up || list_empty(&p->parked));
	p->limit_ns = core->life >= APP_SERVING ? core->cfg.patience_ns : 0;
	p->awaits = core->life == APP_SERVING;
	p->kept = core->cfg.anew && core->life == APP_SERVING;
	app_media_again(md, core->now_ns);
	if (unlikely(md->log_lost & ~core->log_lost_said))
		say_log_lost(core);
	if (likely(p->count == 0 && !p->said))
		return;
	if (p->gave_up != gave_up || (!p->gave_up && p->said != (p->count > 0) &&
				      core->now_ns - p->since_ns >= SAY_AFTER_NS))
		say(core, p);
}

void app_wants_look(struct app_core *core, uint64_t drives)
{
	struct app_patience *p = &core->media.patience;

	ASSERT(core->index == 0);
	for (uint32_t d = 0; p->kept && d < core->nqps; d++)
		if (drives >> d & 1 && core->qp[d] &&
		    nvme_drive_health(core->cfg.drive[d]) == NVME_HEALTH_READ_ONLY)
			p->gave_up = p->lost = true;
}

enum app_wants app_core_wants(const struct app_core *core)
{
	const struct app_patience *p = &core->media.patience;

	if (!p->gave_up || !p->kept)
		return APP_WANTS_NOTHING;
	return p->lost ? APP_WANTS_ANEW : APP_WANTS_ROOM;
}

void app_core_refuse(struct app_core *core)
{
	ASSERT(core->meta || core->reader);
	core->cfg.anew = false;
}
