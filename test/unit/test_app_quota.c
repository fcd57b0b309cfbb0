/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Operations that wait because of what their session's peer has, and what wakes them. */
#include "appliance/core/app_quota.h"
#include "appliance/core/app_op.h"
#include "base/clock.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { BYTES = 16 << 20, PIECE = 256 << 10, TABLE = 8 << 10, PARTS = 8 };

static struct app_core *core;
static struct app_key key;
static struct app_session session, beside;
static struct app_op *op, *other; /* of the one and the other */
static struct app_part part[PARTS];
static char *memory;

static void setup(void)
{
	core = calloc(1, sizeof(*core));
	op = calloc(1, sizeof(*op));
	other = calloc(1, sizeof(*other));
	memory = aligned_alloc(4096, BYTES);
	cr_assert(core && op && other && memory);
	cr_assert_eq(app_staging_init(&core->staging, memory, BYTES, 1ull << 30), 0);
	core->cfg.staging_bytes = BYTES;
	core->io_max_bytes = BYTES;
	core->now_ns = NS_PER_S;
	list_init(&core->part_free);
	list_init(&core->part_waiters);
	list_init(&core->staging_waiters);
	list_init(&core->ready);
	list_init(&core->stalling);
	list_init(&core->tight);
	list_init(&core->blocked);
	app_turns_init(&core->turns);
	core->parts_max = PARTS;
	for (int i = 0; i < PARTS; i++) {
		list_init(&part[i].link);
		list_push_back(&core->part_free, &part[i].link);
	}
	session.streams = beside.streams = true;
	app_turn_opened(core, &session, &key);
	app_turn_opened(core, &beside, &key);
	core->sessions_open = 2;
	op->core = other->core = core;
	op->session = &session;
	other->session = &beside;
	list_init(&op->link);
	list_init(&other->link);
}

static void teardown(void)
{
	app_staging_fini(&core->staging);
	free(memory);
	free(core);
	free(op);
	free(other);
}

TestSuite(app_quota, .init = setup, .fini = teardown, .timeout = 30);

/* As app_table_send() does it, and the socket is full. */
static struct app_part *lend_table(void)
{
	struct app_part *p = app_part_take(op);

	cr_assert(p);
	p->buf = app_table_take(core, &session, TABLE);
	cr_assert(p->buf);
	p->table_bytes = TABLE;
	p->piece.length_bytes = TABLE;
	p->in_flight = true;
	app_quota_begin(core, &session);
	return p;
}

/* As app_op_run() does it. */
static void go_on(struct app_op *of)
{
	list_del(&of->link);
	of->on = APP_ON_NOTHING;
	of->stalled = false;
	core->stalled--;
	app_turn_unstall(core, of->session);
}

/* A reader pauses, with a table of sums the first thing that its socket has no room for, and asks
 * for more meanwhile. */
Test(app_quota, who_waits_for_a_table_to_leave_is_woken_by_it)
{
	struct app_part *table = lend_table();
	uint32_t bytes = PIECE;
	void *piece;

	core->now_ns += 20 * NS_PER_MS;
	cr_assert_null(app_take_most(op, &bytes), "its peer takes nothing");
	cr_assert_eq(session.staged_bytes, 0, "nothing else of it comes back");
	app_part_free(core, table);
	cr_assert_eq(op->on, APP_ON_READY);
	go_on(op);
	bytes = PIECE;
	piece = app_take_most(op, &bytes);
	cr_assert(piece);
	app_give(core, &session, piece);
}

/* The drives had enough.  The operation that is woken first cannot go on, for its peer takes
 * nothing. */
Test(app_quota, who_is_woken_in_vain_wakes_the_next)
{
	struct app_part *table = lend_table();
	uint32_t bytes = PIECE;

	core->present = 2;
	core->io_bytes = core->io_max_bytes / 4;
	cr_assert_null(app_take_most(op, &bytes));
	cr_assert_null(app_take_most(other, &bytes));
	core->now_ns += 20 * NS_PER_MS;
	core->io_bytes = 0;
	app_quota_wake_tight(core);
	cr_assert_eq(op->on, APP_ON_READY);
	cr_assert_neq(other->on, APP_ON_READY);
	go_on(op);
	cr_assert_null(app_take_most(op, &bytes), "its peer takes nothing");
	cr_assert_eq(other->on, APP_ON_READY);
	app_part_free(core, table);
}

/* Staging was full, so that a request beside got no table.  The drives' late read of a hedge, or a
 * read of the scrub, was the last piece that came back, and no operation ends with it. */
Test(app_quota, who_waits_for_a_table_is_woken_by_any_piece)
{
	static void *piece[BYTES / PIECE];

	for (uint32_t i = 0; i < ARRAY_LEN(piece); i++) {
		piece[i] = app_take_spare(core, PIECE);
		cr_assert(piece[i]);
	}
	cr_assert_null(app_table_take(core, &session, TABLE));
	list_push_back(&core->blocked, &session.blocked);
	core->freed = false;
	app_give(core, NULL, piece[0]);
	app_turns_take(core);
	cr_assert(list_empty(&core->blocked), "nothing else would wake it");
	for (uint32_t i = 1; i < ARRAY_LEN(piece); i++)
		app_give(core, NULL, piece[i]);
}
