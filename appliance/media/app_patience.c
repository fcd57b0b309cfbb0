/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Repeats writes of the store that a drive did not accept: its log, headers of zones, pages and
 * roots.  The store cannot do without them, and they often succeed a moment later: the disk under a
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
 *  (3) A drive that has lost cached writes refuses all later ones (-EROFS) until it is opened
 *      again [test_app_patience:what_cannot_help_is_not_tried].
 *  (4) During a mount nothing is repeated: the mount is refused with a reason.
 *  (5) Once one write was given up, every later write that fails is given up, too.
 *  (6) The driver of a drive that is away (-EHOSTDOWN) keeps trying until it is back, and the core
 *      waits for it as long as it serves [test_nvme_away].
 *  (7) If the daemon can restart itself (app_anew.c), given-up writes stay parked until it
 *      does: the store is not told, so no client gets an answer that the next mount may contradict.
 *      Writes of clients' data that such a drive refuses (3) stay parked with them: their clients
 *      send them again after the restart [test_app_patience:data_that_a_drive_refuses_is_kept].
 */
#include "appliance/media/app_patience.h"
#include "appliance/media/app_media.h"
#include "base/clock.h"

#include <errno.h>

#define PAUSE_MIN_NS (10 * NS_PER_MS)
#define PAUSE_MAX_NS NS_PER_S

void app_patience_init(struct app_patience *p)
{
	list_init(&p->parked);
}

static bool may_pass(const struct nvme_io *io)
{
	ASSERT(io->status != 0);
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

	ASSERT(io->meta && io->nvme.status && !list_linked(&io->link)); /* (1) */
	if (!p->limit_ns || !io->meta->must)                            /* (4) */
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
	ASSERT(p->count > 0 && p->limit_ns > 0);                             /* (4) */
	ASSERT(!p->gave_up || p->kept);                                      /* (5), (7) */
	ASSERT(io->nvme.op == NVME_WRITE || may_pass(&io->nvme) || p->kept); /* (2) */
	return true;
}

bool app_patience_hold(struct app_patience *p, struct app_io *io)
{
	ASSERT(!io->meta && io->nvme.status && !list_linked(&io->link));
	if (!p->limit_ns || !p->kept || io->nvme.status != -EROFS || io->nvme.op == NVME_READ)
		return false;
	p->gave_up = p->lost = true;
	p->drive = io->drive;
	p->status = io->nvme.status;
	p->count += !io->failed;
	io->failed = true;
	list_push_back(&p->parked, &io->link);
	ASSERT(p->kept && p->count > 0); /* (7) */
	return true;
}

struct app_io *app_patience_next(struct app_patience *p, uint64_t now_ns)
{
	struct app_io *io;

	if (p->count > 0 && now_ns - p->since_ns >= p->limit_ns)
		p->gave_up = true;
	if (list_empty(&p->parked) || (now_ns < p->again_ns && !p->gave_up))
		return NULL;
	ASSERT(p->count > 0 || list_empty(&p->parked));
	if (p->gave_up && p->kept)
		return NULL;
	io = list_entry(list_pop_front(&p->parked), struct app_io, link);
	ASSERT(io->failed && !(p->gave_up && p->kept)); /* (7) */
	if (list_empty(&p->parked))
		p->pause_ns = min_u64(2 * p->pause_ns, PAUSE_MAX_NS);
	return io;
}

void app_patience_done(struct app_patience *p, struct app_io *io)
{
	ASSERT(io->failed && p->count > 0);
	io->failed = false;
	p->count--;
	ASSERT(p->count > 0 || list_empty(&p->parked));
}

uint64_t app_patience_deadline(const struct app_patience *p)
{
	ASSERT(list_empty(&p->parked) || p->count > 0);
	return list_empty(&p->parked) || (p->gave_up && p->kept) ? UINT64_MAX : p->again_ns;
}
