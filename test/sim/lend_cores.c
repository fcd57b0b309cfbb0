/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* All borrowers at once: they begin and end, leave and come back, and fall quiet. */
#include "test/sim/lend_world.h"

#include "meta/engine/meta_lend.h"

#define QUIET_TURNS 100000u

void lend_cores_begin(struct lend_world *w)
{
	w->r.on_over = lend_core_over;
	w->r.on_over_user = w;
	w->r.m->lend->after = 1 + (uint32_t)lend_pick(w, 3);
	for (uint32_t i = 0; i < LEND_BORROWERS; i++) {
		const int err = meta_reader_create(&w->reader[i], w->r.m, i);

		ASSERT(!err);
		meta_reader_begin(w->reader[i]);
		w->ring[i] = (struct lend_ring){ .heard = 0 };
		w->inside[i] = false;
		w->slow[i] = lend_pick(w, 4) == 0;
	}
}

void lend_cores_end(struct lend_world *w)
{
	for (uint32_t i = 0; i < LEND_BORROWERS; i++)
		meta_reader_destroy(w->reader[i]);
}

void lend_cores_leave(struct lend_world *w)
{
	for (uint32_t i = 0; i < LEND_BORROWERS; i++)
		lend_core_turn_ends(w, i, true);
}

void lend_cores_enter(struct lend_world *w)
{
	for (uint32_t i = 0; i < LEND_BORROWERS; i++)
		lend_core_turn_ends(w, i, false);
}

void lend_cores_forget(struct lend_world *w)
{
	for (uint32_t i = 0; i < LEND_BORROWERS; i++)
		for (uint32_t k = 0; k < LEND_SLOTS; k++)
			w->slot[i][k].stage = LEND_FREE;
}

static bool is_busy(const struct lend_world *w, uint32_t borrower)
{
	bool busy = false;

	for (uint32_t k = 0; k < LEND_SLOTS; k++) {
		const enum lend_stage stage = w->slot[borrower][k].stage;

		busy |= stage != LEND_FREE && stage != LEND_LOST;
	}
	return busy;
}

void lend_cores_quiet(struct lend_world *w)
{
	for (uint32_t turns = 0; turns < QUIET_TURNS && !w->wrong; turns++) {
		bool busy = false;

		for (uint32_t i = 0; i < LEND_BORROWERS; i++) {
			lend_core_turn(w, i, false);
			lend_core_hear(w, i, LEND_RING);
			busy |= is_busy(w, i);
		}
		(void)rig_step(&w->r);
		if (!busy)
			return;
	}
	lend_wrong(w, "hangs: something is never answered");
}
