/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A drive is added or drained while others fail. */
#include "test/sim/losses_life.h"
#include "test/sim/sim_args.h"

#include <errno.h>

/* Small ones: a store of many has no more room than one of few. */
uint64_t losses_any_size(struct losses_life *l)
{
	if (!l->fold)
		return (4 + rand_below(&l->rnd, 5)) << 20;
	return (4 + 24 / (l->fold + l->copies) + rand_below(&l->rnd, 4)) << 19;
}

bool losses_spare(struct losses_life *l)
{
	const uint64_t size = losses_any_size(l);

	if (l->spare != LOSSES_NOBODY) {
		l->r.conf.drive[l->spare].nblocks = l->size[l->spare] / 4096;
		return true;
	}
	if (l->r.ndrives >= l->drives_max)
		return false;
	l->spare = rig_drive(&l->r, size, l->r.conf.drive[0].volatile_cache);
	l->size[l->spare] = size;
	return true;
}

/* Another change of the set is not over yet. */
static int start(struct losses_life *l)
{
	struct rig *r = &l->r;
	int err = -EBUSY;

	for (uint32_t n = 0; err == -EBUSY && n < LOSSES_TURNS; n++) {
		if (n > 0)
			(void)rig_step(r);
		err = l->errand == DRAIN ? meta_drive_drain(r->m, l->drains)
					 : meta_drive_add(r->m, &r->conf.drive[l->spare]);
	}
	return err;
}

bool losses_begin(struct losses_life *l)
{
	int err = 0;

	if (l->errand == DRAIN)
		l->drains = loss_any_serving(&l->r, &l->rnd, 0);
	if (l->errand != NOTHING)
		err = start(l);
	if (l->errand == DRAIN && (err == -ENOSPC || err == -EPERM || err == -EFBIG)) {
		l->errand = NOTHING;
		err = 0;
	}
	l->seen->errands[l->errand]++;
	(void)sim_wrong("%d", err);
	return err == 0 ? true : losses_failed(l, "errand");
}

void losses_added(struct losses_life *l)
{
	struct rig *r = &l->r;
	uint32_t idle = 0;

	while (!r->cut && meta_drive_add_status(r->m) == -EAGAIN && meta_health(r->m) == 0) {
		idle = rig_step(r) ? 0 : idle + 1;
		ASSERT(idle < 1000); /* else it waits for nothing */
	}
	if (losses_down(l) || meta_drives(r->m) <= l->spare)
		return;
	r->conf.ndrives = meta_drives(r->m);
	l->spare = LOSSES_NOBODY;
}
