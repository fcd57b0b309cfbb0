/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The store becomes whole again after a loss, power cuts meanwhile included; then the check is
 * clean, and the parity of each fold is that of its data. */
#include "test/sim/losses_life.h"
#include "test/sim/sim_args.h"
#include "base/num.h"
#include "meta/engine/meta_fold.h"
#include "meta/engine/meta_log.h"
#include "meta/meta_protect.h"
#include "meta/meta_rebuild.h"

#include <errno.h>

#define CUTS_MAX 3u

/* Does a live zone have fewer copies than there could be now, or its fold a zone that is lost? */
static bool lacks(const struct losses_life *l, uint32_t zone, uint32_t width)
{
	const struct meta *m = l->r.m;
	const struct meta__zone *at = meta__zone_at(m, zone);

	if ((at->kind != META__ZONE_PAGE && at->kind != META__ZONE_DATA) || !at->live)
		return false;
	if (meta__in_fold(at))
		return !meta__fold_reads(m, zone);
	return meta__drives_read(m, meta__drives_of(m, zone)) < width;
}

static uint32_t too_thin(const struct losses_life *l)
{
	const uint32_t width = min_u32(l->copies, loss_serving(&l->r));
	uint32_t thin = 0;

	for (uint32_t i = 0; i < l->r.m->zones->geo.nzones; i++)
		thin += lacks(l, i, width);
	return thin;
}

bool losses_converting(const struct losses_life *l)
{
	return l->r.m->copies < l->copies || l->r.m->converts;
}

/* A drive that is lost stays in a store that has too few drives for it to go, and so does one that
 * is drained: the lost one comes first. */
static bool is_settled(const struct losses_life *l)
{
	const struct rig *r = &l->r;
	const bool few = loss_serving(r) < l->copies;

	if (r->m->losing || too_thin(l) > 0 || (losses_converting(l) && !few))
		return false;
	for (uint32_t d = 0; d < meta_drives(r->m); d++) {
		const struct meta_drive_stat s = loss_stat(r, d);

		if (!loss_serves(r, d) && !s.gone && !(few && (s.lost || s.draining)))
			return false;
	}
	return true;
}

/* Also for the log, which leaves its zones one by one. */
bool losses_any_two(const struct losses_life *l)
{
	const struct meta *m = l->r.m;

	if (l->copies < 3 || loss_serving(&l->r) < 4 + (l->errand == DRAIN) || m->zones->lone > 0 ||
	    losses_converting(l))
		return false;
	for (uint32_t i = 0; i < m->log->zones_count; i++)
		if (meta__log_copies(m->log->zones[i].zone) < l->copies)
			return false;
	return m->log->ahead[0] == META__ZONE_NONE || meta__log_copies(m->log->ahead) == l->copies;
}

static void never_again(struct losses_life *l)
{
	struct rig *r = &l->r;

	rig_idle(r);
	for (uint32_t d = 0; d < meta_drives(r->m) && !r->cut; d++)
		if (loss_stat(r, d).lost && !r->m->losing)
			r->never |= 1u << d; /* meta_pair.c (4) */
}

/* If that is over, or was cut off, nothing is done, or it is done again. */
void losses_ask_for_three(struct losses_life *l)
{
	struct meta *m = l->r.m;
	const int err = m->copies < l->copies && !m->boot->adding ? meta_protect(m, l->copies) : 0;

	l->refused = err == -ENOSPC;
	ASSERT(!err || err == -ENOSPC || err == -ENODEV || err == -EPERM || err == -EROFS);
}

static bool cut_meanwhile(struct losses_life *l)
{
	struct rig *r = &l->r;

	r->cut_at = r->writes + 1 + rand_below(&l->rnd, 100);
	losses_ask_for_three(l);
	for (uint32_t n = 0; n < 10 && !r->cut; n++) {
		if (!loss_change(&l->model))
			return losses_failed(l, "answer, meanwhile");
		rig_idle(r);
	}
	l->seen->cuts_rebuilding += r->cut;
	l->seen->cuts_converting += r->cut && r->m->converts;
	rig_power_cut(r);
	r->never = 0;
	return losses_mount(l) && losses_look(l, "after a cut, meanwhile");
}

void losses_turn_until_whole(struct losses_life *l)
{
	struct rig *r = &l->r;

	meta_rebuild_pace(r->m, UINT32_MAX, META_PACE_FREE);
	for (uint32_t n = 0; n < LOSSES_TURNS && !is_settled(l) && meta_health(r->m) == 0; n++) {
		losses_ask_for_three(l);
		rig_idle(r);
	}
}

static bool make_room(struct losses_life *l)
{
	l->seen->full++;
	for (uint32_t i = LOSS_DIRS; i < LOSS_NAMES; i++)
		if (!loss_remove(&l->model, i))
			return losses_failed(l, "removal");
	losses_turn_until_whole(l);
	if (l->refused) { /* third copies, and what is kept for spare drives: as a person would */
		l->r.conf.spare_drives = 0;
		meta_rebuild_spare(l->r.m, 0);
		losses_turn_until_whole(l);
	}
	return true;
}

static bool tell_settled(struct losses_life *l)
{
	uint32_t lost = 0, gone = 0, draining = 0;

	for (uint32_t d = 0; d < meta_drives(l->r.m); d++) {
		const struct meta_drive_stat s = loss_stat(&l->r, d);

		lost += s.lost;
		gone += s.gone;
		draining += s.draining;
	}
	(void)sim_wrong("%u serve, %u are lost, %u gone, %u draining; %u zones are too thin; %u "
			"copies, converts from %u; %u folds",
			loss_serving(&l->r), lost, gone, draining, too_thin(l), l->r.m->copies,
			l->r.m->converts, l->r.m->zones->folds);
	return losses_failed(l, "it does not become whole");
}

/* Folds are made of zones that are whole now. */
static void fold(struct losses_life *l)
{
	for (uint32_t n = 0; n < 2 && l->fold; n++) {
		meta__ckpt_want(l->r.m);
		rig_idle(&l->r);
	}
}

/* Everything is there without as many drives as may be lost. */
static bool is_there_without(struct losses_life *l)
{
	struct rig *r = &l->r;
	bool good;

	if (!l->fold || rand_below(&l->rnd, 4) || loss_serving(r) < l->copies || r->bad_reads)
		return true;
	l->seen->unread++;
	while ((uint32_t)__builtin_popcount(r->bad_reads) < l->copies - 1)
		r->bad_reads |= 1u << loss_any_serving(r, &l->rnd, r->bad_reads);
	good = losses_look(l, "while drives cannot be read");
	r->bad_reads = 0;
	return good;
}

static bool is_right(struct losses_life *l)
{
	struct meta_check check = { 0 };

	if (!losses_look(l, "when it is whole"))
		return false;
	if (!loss_parity_is_right(&l->r, &l->seen->parity))
		return losses_failed(l, "parity");
	if (rig_wrong_folds(&l->r) > 0)
		return losses_failed(l, "parity is wrong, as meta_fold_terms.c says");
	if (!is_there_without(l))
		return false;
	(void)sim_wrong(" ");
	if (rig_check(&l->r, &check)) {
		(void)sim_wrong("%s", check.first[0]);
		return losses_failed(l, "check");
	}
	return true;
}

bool losses_settle(struct losses_life *l)
{
	never_again(l);
	for (uint32_t n = 0; n < CUTS_MAX && rand_below(&l->rnd, 3) == 0; n++)
		if (!cut_meanwhile(l))
			return false;
	never_again(l);
	losses_turn_until_whole(l);
	if (meta_health(l->r.m))
		return losses_failed(l, "frozen");
	if (!is_settled(l) && (l->refused || !loss_has_room(&l->r)) && !make_room(l))
		return false;
	if (!is_settled(l))
		return tell_settled(l);
	fold(l);
	l->seen->few += loss_serving(&l->r) < l->copies;
	return is_right(l);
}
