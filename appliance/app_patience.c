/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Writes of the store that a drive did not take: its log, headers of zones, pages and roots.  The
 * store can do nothing without them, and they are often possible a moment later: the disk under a
 * drive file has room again, a server is back, an enclosure has power.
 *
 *   failed --> parked --pause--> tried again --> written
 *                ^  |                 |
 *                |  +-- limit_ns -----|--------> given up: the store takes no more changes
 *                +--- failed again ---+
 *
 *  (1) A repeated write has the same bytes and the same place, and the store is not told before it
 *      is complete: to the store, the drive is slow.  So nothing is acknowledged, and no later
 *      write begins, before this one is complete.  A failed try leaves at worst a part of the same
 *      block, as a power cut would.
 *  (2) A flush that failed is not repeated: the drive may have dropped data that it could not
 *      write, and a second flush would succeed without it.  A flush that never reached the drive is
 *      repeated.
 *  (3) A drive that has lost writes of its cache refuses all later ones (-EROFS) until it is opened
 *      anew.
 *  (4) During a mount nothing is repeated: the mount is refused with a reason.
 *  (5) Once one write was given up, every later write that fails is given up, too.
 *  (6) A drive that is away (-EHOSTDOWN) is tried by its driver until it comes back, and is waited
 *      for as long as the core serves.
 *  (7) Where the daemon can begin anew (app_anew.c), writes that were given up stay parked until it
 *      does: the store is not told, so no client gets an answer that the next mount may contradict.
 */
#include "appliance/app_lines.h"
#include "appliance/app_op.h"
#include "base/clock.h"

#include <errno.h>
#include <stdio.h>

#define PAUSE_MIN_NS (10 * NS_PER_MS)
#define PAUSE_MAX_NS NS_PER_S
#define SAY_AFTER_NS (200 * NS_PER_MS) /* shorter than this is no matter for people */

void app_patience_init(struct app_patience *p)
{
	list_init(&p->parked);
}

static bool may_pass(const struct nvme_io *io)
{
	if (io->quarantined)
		return false;
	switch (io->status) {
	case -ENODEV:
	case -EHOSTDOWN:
	case -EBUSY:
		return true;
	case -EIO:
	case -ENODATA:
	case -ENOSPC:
	case -ECANCELED:
		return io->op == NVME_WRITE; /* (2) */
	default:
		return false; /* (3), or a mistake of ours */
	}
}

bool app_patience_park(struct app_patience *p, struct app_io *io, uint64_t now_ns)
{
	const bool passes = may_pass(&io->nvme);

	if (!p->limit_ns || !io->meta->must) /* (4) */
		return false;
	if ((p->gave_up || !passes) && !p->kept) /* (5), (7) */
		return false;
	p->gave_up |= !passes;
	p->lost |= !passes;
	p->drive = io->drive;
	p->status = io->nvme.status;
	if (p->count == 0)
		p->pause_ns = PAUSE_MIN_NS;
	if (p->count == 0 || (io->nvme.status == -EHOSTDOWN && p->awaits)) /* (6) */
		p->since_ns = now_ns;
	if (list_empty(&p->parked))
		p->again_ns = now_ns + p->pause_ns;
	p->count += !io->failed;
	io->failed = true;
	list_push_back(&p->parked, &io->link);
	return true;
}

struct app_io *app_patience_next(struct app_patience *p, uint64_t now_ns)
{
	struct app_io *io;

	if (p->count > 0 && now_ns - p->since_ns >= p->limit_ns)
		p->gave_up = true;
	if (list_empty(&p->parked) || (now_ns < p->again_ns && !p->gave_up))
		return NULL;
	if (p->gave_up && p->kept)
		return NULL;
	io = list_entry(list_pop_front(&p->parked), struct app_io, link);
	if (list_empty(&p->parked))
		p->pause_ns = min_u64(2 * p->pause_ns, PAUSE_MAX_NS);
	return io;
}

void app_patience_done(struct app_patience *p, struct app_io *io)
{
	ASSERT(io->failed && p->count > 0);
	io->failed = false;
	p->count--;
}

uint64_t app_patience_deadline(const struct app_patience *p)
{
	return list_empty(&p->parked) || (p->gave_up && p->kept) ? UINT64_MAX : p->again_ns;
}

/* ---- for people ---------------------------------------------------------------------------- */

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

	if (p->gave_up && p->kept)
		return;
	if (p->gave_up)
		(void)snprintf(line, sizeof(line),
			       "drive %u (%.200s): the index could not be written for %llu s: %s; "
			       "the store takes no more changes until the next start",
			       p->drive, name, (unsigned long long)(p->limit_ns / NS_PER_S),
			       why(p->status));
	else if (p->count > 0)
		(void)snprintf(line, sizeof(line),
			       "drive %u (%.200s): the index cannot be written: %s; changes wait, "
			       "and it is tried again",
			       p->drive, name, why(p->status));
	else
		(void)snprintf(line, sizeof(line),
			       "drive %u (%.200s): the index is written again; changes go on",
			       p->drive, name);
	if (core->cfg.lines && !app_lines_push(core->cfg.lines, line))
		return;
	core->lines++;
	p->said = p->count > 0 || p->gave_up;
}

void app_patience_turn(struct app_core *core)
{
	struct app_media *md = &core->media;
	struct app_patience *p = &md->patience;
	const bool gave_up = p->gave_up;

	p->limit_ns = core->life >= APP_SERVING ? core->cfg.patience_ns : 0;
	p->awaits = core->life == APP_SERVING;
	p->kept = core->cfg.anew && core->life == APP_SERVING;
	app_media_again(md, core->now_ns);
	if (likely(p->count == 0 && !p->said))
		return;
	if (p->gave_up != gave_up || (!p->gave_up && p->said != (p->count > 0) &&
				      core->now_ns - p->since_ns >= SAY_AFTER_NS))
		say(core, p);
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
	core->cfg.anew = false;
}
