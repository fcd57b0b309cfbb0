/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The power fails, and a mount finds the drives that failed away, old, wiped or still dead. */
#include "test/sim/losses_life.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TRIES 12u

/* ---- old content ------------------------------------------------------------------------ */

void losses_forget_aged(struct losses_life *l)
{
	for (uint32_t d = 0; d < RIG_DRIVES_ROOM; d++) {
		free(l->aged[d]);
		l->aged[d] = NULL;
	}
}

void losses_keep_aged(struct losses_life *l)
{
	losses_forget_aged(l);
	for (uint32_t v = l->victims; l->after == AGED && v; v &= v - 1) {
		const uint32_t d = (uint32_t)__builtin_ctz(v);

		l->aged[d] = malloc(l->size[d]);
		ASSERT(l->aged[d]);
		memcpy(l->aged[d], l->r.image[d], l->size[d]);
	}
}

/* Only a drive of which the others say that it is lost may be older than it was then: of another
 * one the store believes what it has flushed. */
static void bring_aged(struct losses_life *l)
{
	for (uint32_t v = l->recorded; v; v &= v - 1) {
		const uint32_t d = (uint32_t)__builtin_ctz(v);

		if (!l->aged[d])
			continue;
		memcpy(l->r.view[d], l->aged[d], l->size[d]);
		memcpy(l->r.image[d], l->aged[d], l->size[d]);
	}
}

/* ---- mount ------------------------------------------------------------------------------ */

/* They are missing; as the operator says, perhaps. */
static void take_out(struct losses_life *l, uint32_t drives, bool told)
{
	for (; drives; drives &= drives - 1) {
		struct meta_drive_info *d = &l->r.conf.drive[__builtin_ctz(drives)];

		d->nblocks = 0;
		d->missing |= told;
	}
}

static void what_comes_back(struct losses_life *l)
{
	struct rig *r = &l->r;
	const uint32_t writes_only = l->how == WRITES_FAIL ? r->bad_writes & ~r->dead : 0;

	r->dead |= r->silent;
	r->silent = 0;
	if (l->after != STILL || l->how == MISSING)
		loss_heal(r);
	r->never = 0;
	r->cut_at = 0;
	if (l->after == AWAY || (l->after == STILL && l->how == MISSING))
		take_out(l, l->victims, false);
	for (uint32_t d = 0; l->after == WIPED && d < r->ndrives; d++)
		if (l->victims >> d & 1)
			loss_wreck(r, &l->rnd, d, l->size[d]);
	if (l->after == AGED)
		bring_aged(l);
	if (l->after == STILL && writes_only)
		r->failing = r->bad_writes = writes_only;
}

/* True: try again, as a person would. */
static bool goes_on(struct losses_life *l, int err)
{
	struct rig *r = &l->r;
	bool more = false;

	if (r->cut) {
		l->seen->cuts++;
		return true;
	}
	if (err == -ENODEV && l->spare < r->conf.ndrives) {
		r->conf.ndrives = l->spare;
		return true;
	}
	if (err != -ENODEV && err != -EIO)
		return false;
	for (uint32_t d = 0; d < r->conf.ndrives; d++)
		more |= l->victims >> d & 1 && !r->conf.drive[d].missing;
	take_out(l, l->victims, true);
	l->seen->told += more;
	return more;
}

static void mounted(struct losses_life *l)
{
	struct rig *r = &l->r;

	r->cut_at = 0;
	r->conf.ndrives = meta_drives(r->m);
	for (uint32_t d = 0; d < r->conf.ndrives; d++)
		r->conf.drive[d].missing = false;
	if (l->spare < r->conf.ndrives)
		l->spare = LOSSES_NOBODY;
	l->seen->mounts++;
}

bool losses_mount(struct losses_life *l)
{
	struct rig *r = &l->r;
	uint32_t cuts = 0;

	if (l->spare != LOSSES_NOBODY)
		r->conf.ndrives = l->spare + 1;
	for (uint32_t tries = 0; tries < TRIES; tries++) {
		int err;

		if (meta_memory_needed(&r->conf) > r->conf.memory_bytes)
			rig_memory(r);
		if (rand_below(&l->rnd, 3) == 0 && cuts++ < 3)
			r->cut_at = r->writes + 1 + rand_below(&l->rnd, 20);
		err = rig_mount(r);
		if (err == 0 && !r->cut) {
			mounted(l);
			return true;
		}
		if (!goes_on(l, err))
			return losses_failed(l, "mount");
		rig_power_cut(r);
	}
	return losses_failed(l, "mount, again and again");
}

static void note_recorded(struct losses_life *l)
{
	l->recorded = 0;
	for (uint32_t d = 0; d < meta_drives(l->r.m); d++)
		if (l->victims >> d & 1 && loss_stat(&l->r, d).lost && !l->r.m->losing)
			l->recorded |= 1u << d;
}

bool losses_restart(struct losses_life *l)
{
	struct rig *r = &l->r;

	l->seen->cuts_converting += r->m->converts > 0;
	note_recorded(l);
	if (!losses_down(l) && rand_below(&l->rnd, 4) == 0)
		(void)rig_stop(r);
	if (r->m && !r->cut && rand_below(&l->rnd, 4) == 0)
		rig_kill(r);
	else if (r->m)
		rig_power_cut(r);
	l->seen->after[l->after]++;
	l->seen->cuts++;
	what_comes_back(l);
	return losses_mount(l) && losses_look(l, "after a mount");
}
