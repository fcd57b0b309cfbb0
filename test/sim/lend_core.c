/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Borrowers and the store, each in its turn, and the rings between them: as app_store.c does it.
 *
 *   FREE -> TRY --- made, or only the store can do it ----> TOLD --> STORE --> BACK --> FREE
 *            ^ \----- blanks are short: again -----.          |
 *            '-------------------------------------+----------' it was lent there meanwhile
 *
 * A look that has seen a change that is not durable yet is answered when it is durable: by the
 * store, after the change's record, or when the store says how far the log is (WAITS).
 */
#include "test/sim/lend_world.h"

#include "base/num.h"
#include "meta/engine/meta_lend.h"
#include "test/sim/sim_args.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void lend_wrong(struct lend_world *w, const char *format, ...)
{
	char what[200];
	va_list args;

	if (w->wrong)
		return;
	va_start(args, format);
	(void)vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	w->wrong = !sim_wrong("%s", what);
}

/* ---- looks ----------------------------------------------------------------------------------- */

/* A plan must find the name's present state, or its next one, because some changes are already
 * applied.  Notes which, as long as the name has not changed again. */
static void look_at(struct lend_world *w, struct lend_slot *s)
{
	const struct lend_name *n = s->change.name;

	s->saw_after = false;
	if (n->versions != s->version || lend_state_is(&w->r, &n->now, &s->op))
		return;
	if (n->busy && lend_state_is(&w->r, &n->after, &s->op))
		s->saw_after = true;
	else
		lend_wrong(w, "%s: a look by borrower %u has found what never was (status %d)",
			   s->path, s->borrower, s->op.status);
}

static void read_end(struct lend_world *w, struct lend_slot *s)
{
	if (!meta_reader_read_end(w->reader[s->borrower], &s->op))
		meta_read_end(w->r.m, &s->op);
}

/* It is answered. */
static void look_over(struct lend_world *w, struct lend_slot *s)
{
	struct lend_name *n = s->change.name;

	read_end(w, s);
	s->stage = LEND_FREE;
	w->seen.looks++;
	if (!s->saw_after || n->versions != s->version || w->r.m->failed)
		return;
	n->seen = true;
	w->seen.looks_early++;
}

/* A reply leaves when what it saw is durable; of a store that failed none does that saw more. */
static void go_on_looking(struct lend_world *w, struct lend_slot *s)
{
	if (meta_is_durable(w->r.m, s->op.seen_seq) || w->r.m->failed)
		look_over(w, s);
}

/* ---- changes --------------------------------------------------------------------------------- */

static void answered(struct lend_world *w, struct lend_slot *s)
{
	const int status = s->op.status;
	const bool is_new = s->op.type == META_OP_PUT || s->op.type == META_OP_SYMLINK;

	if (status != s->change.want && !lend_model_may_fail(&s->change, status)) {
		lend_wrong(w, "%s: kind %d is answered %d, not %d", s->path, (int)s->change.kind,
			   status, s->change.want);
		return;
	}
	w->seen.refused += status != 0;
	w->seen.full += status == -ENOSPC && s->change.want == 0;
	if (status == 0 && s->op.receipt.client)
		w->receipt[s->borrower][s->number] =
			(struct lend_receipt){ s->change.tag, s->forgotten };
	lend_model_end(&s->change, status == 0, is_new ? &s->op.attr.handle : NULL);
	s->stage = LEND_FREE;
}

static void change_over(struct lend_world *w, struct lend_slot *s)
{
	if (s->is_made)
		meta_reader_made_end(w->reader[s->borrower], &s->op);
	if (s->op.status == -EROFS && w->r.fail_at)
		s->stage = LEND_LOST;
	else
		answered(w, s);
}

/* From the store.  Operations of the rig's own are nobody's. */
void lend_core_over(void *world, struct meta_op *op)
{
	struct lend_world *w = world;
	struct lend_slot *s = op->owner;

	if (!s)
		return;
	ASSERT(s->stage == LEND_STORE);
	if (s->change.kind != LEND_LOOK) {
		s->stage = LEND_BACK;
		return;
	}
	if (!s->is_made)
		look_at(w, s);
	s->stage = LEND_WAITS;
	go_on_looking(w, s);
}

/* ---- a borrower ------------------------------------------------------------------------------ */

static void say(struct lend_world *w, struct lend_slot *s, bool is_made)
{
	struct lend_ring *ring = &w->ring[s->borrower];

	ASSERT(ring->end - ring->heard < LEND_RING);
	s->is_made = is_made;
	s->stage = LEND_TOLD;
	ring->said[ring->end++ % LEND_RING] = s;
}

static void try_look(struct lend_world *w, struct lend_slot *s)
{
	s->version = s->change.name->versions;
	if (!meta_reader_plan(w->reader[s->borrower], &s->op)) {
		say(w, s, false);
		return;
	}
	w->seen.looks_here++;
	look_at(w, s);
	if (s->op.seen_seq == META_SEEN_MADE) {
		s->op.made = NULL; /* after the record of the change that it saw */
		say(w, s, true);
	} else {
		s->stage = LEND_WAITS;
	}
}

static void try_change(struct lend_world *w, struct lend_slot *s)
{
	if (meta_reader_change(w->reader[s->borrower], &s->op)) {
		w->seen.made++;
		w->seen.grown_here += s->change.kind == LEND_GROW;
		say(w, s, true);
		return;
	}
	if (meta_reader_short(&s->op)) {
		if (lend_pick(w, 20)) /* blanks come soon */
			return;
		s->op.into = s->op.unseen = META_SHARDS_MAX; /* the store shall do it */
		w->seen.forced++;
	}
	say(w, s, false);
}

static void go_on(struct lend_world *w, struct lend_slot *s)
{
	if (s->stage == LEND_TRY && s->change.kind == LEND_LOOK)
		try_look(w, s);
	else if (s->stage == LEND_TRY)
		try_change(w, s);
	if (s->stage == LEND_WAITS)
		go_on_looking(w, s);
	if (s->stage == LEND_BACK && lend_pick(w, 2))
		change_over(w, s);
}

static void begin_one(struct lend_world *w, uint32_t borrower)
{
	for (uint32_t k = 0; k < LEND_SLOTS; k++) {
		struct lend_slot *s = &w->slot[borrower][k];

		if (s->stage != LEND_FREE)
			continue;
		if (lend_ask(w, s)) {
			s->stage = LEND_TRY;
			go_on(w, s);
		}
		return;
	}
}

void lend_core_turn_ends(struct lend_world *w, uint32_t borrower, bool leaves)
{
	struct lend_ring *ring = &w->ring[borrower];

	ring->told = ring->end;
	w->inside[borrower] = !leaves;
	if (leaves)
		meta_reader_leave(w->reader[borrower]);
	else
		meta_reader_enter(w->reader[borrower]);
}

/* In the middle of a turn the others go on, too: it still sees what it saw. */
void lend_core_turn(struct lend_world *w, uint32_t borrower, bool begins)
{
	if (!w->inside[borrower] || !begins || lend_pick(w, 3))
		lend_core_turn_ends(w, borrower, false);
	for (uint32_t k = 0; k < LEND_SLOTS; k++)
		go_on(w, &w->slot[borrower][k]);
	for (uint64_t n = begins ? lend_pick(w, 4) : 0; n > 0; n--)
		begin_one(w, borrower);
	if (lend_pick(w, 3))
		w->ring[borrower].told = w->ring[borrower].end;
	if (lend_pick(w, 8) == 0)
		lend_core_turn_ends(w, borrower, true);
}

/* ---- the store ------------------------------------------------------------------------------- */

static void start(struct lend_world *w, struct lend_slot *s)
{
	const bool looks = s->change.kind == LEND_LOOK;

	w->seen.calls++;
	if (looks && s->op.unseen < META_SHARDS_MAX) {
		if (lend_pick(w, 2))
			meta_reader_asked(w->r.m, s->op.unseen);
		else
			meta_reader_knocks(w->r.m, s->op.unseen, s->borrower);
	}
	s->version = s->change.name->versions;
	if (meta_op_start(w->r.m, &s->op))
		lend_core_over(w, &s->op);
}

static void hear(struct lend_world *w, struct lend_slot *s)
{
	s->stage = LEND_STORE;
	if (s->is_made) {
		meta_op_made(w->r.m, &s->op);
	} else if (s->change.kind != LEND_LOOK && meta_reader_has(w->r.m, &s->op)) {
		w->seen.again++;
		s->stage = LEND_TRY;
	} else {
		start(w, s);
	}
}

void lend_core_hear(struct lend_world *w, uint32_t borrower, uint32_t count)
{
	struct lend_ring *ring = &w->ring[borrower];

	while (count-- > 0 && ring->heard < ring->told)
		hear(w, ring->said[ring->heard++ % LEND_RING]);
	if (lend_pick(w, 4) == 0)
		(void)!meta_readers_let_in(w->r.m);
}
