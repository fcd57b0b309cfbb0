/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Questions to the polling threads: app_ask.h.
 *
 *   R1 -> A1   the snapshot is complete before `answered` says so.
 *   R2 -> A2   the asker has read the last snapshot before `wanted` asks for another.
 *
 * Invariants:
 *  (1) answered == wanted, or answered + 1 == wanted and a question is out.
 *  (2) A core that sleeps wakes for a question: ask_fd stays readable until the question is taken.
 */
#include "appliance/core/app_ask.h"
#include "appliance/core/app_op.h"
#include "appliance/core/app_stat.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct app_ask {
	_Atomic uint32_t wanted;   /* questions, the asker's count  */
	_Atomic uint32_t answered; /* of them, the core's           */
	int status;                /* of the last answer            */
	int ask_fd;
	int answer_fd;
	struct app_snapshot snapshot;
};

/* ---- the asker's side -------------------------------------------------------------------- */

int app_ask_create(struct app_ask **out)
{
	struct app_ask *a = calloc(1, sizeof(*a));
	int err;

	if (!a)
		return -ENOMEM;
	a->ask_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	a->answer_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (a->ask_fd >= 0 && a->answer_fd >= 0) {
		*out = a;
		return 0;
	}
	err = -errno;
	app_ask_destroy(a);
	return err;
}

void app_ask_destroy(struct app_ask *a)
{
	if (!a)
		return;
	if (a->ask_fd >= 0)
		close(a->ask_fd);
	if (a->answer_fd >= 0)
		close(a->answer_fd);
	free(a);
}

int app_ask_fd(const struct app_ask *a)
{
	return a->ask_fd;
}

static bool is_answered(const struct app_ask *a)
{
	return atomic_load_explicit(&a->answered, memory_order_acquire) == /* A1 */
	       atomic_load_explicit(&a->wanted, memory_order_relaxed);
}

static void ask(struct app_ask *a)
{
	uint64_t one = 1;

	(void)!read(a->answer_fd, &one, sizeof(one)); /* the answer of one that was given up */
	atomic_fetch_add_explicit(&a->wanted, 1, memory_order_release); /* R2 */
	one = 1;
	(void)!write(a->ask_fd, &one, sizeof(one));
}

int app_ask_wait(struct app_ask *a, int timeout_ms, const struct app_snapshot **out)
{
	struct pollfd answer = { .fd = a->answer_fd, .events = POLLIN };

	if (is_answered(a))
		ask(a);
	if (!is_answered(a))
		(void)poll(&answer, 1, timeout_ms);
	if (!is_answered(a))
		return -ETIMEDOUT;
	*out = &a->snapshot;
	return a->status;
}

/* ---- the core's side --------------------------------------------------------------------- */

static void answer(struct app_core *core, int status)
{
	struct app_ask *a = core->cfg.ask;
	uint64_t one = 1;

	a->status = status;
	atomic_store_explicit(&a->answered, core->asked, memory_order_release); /* R1 */
	(void)!write(a->answer_fd, &one, sizeof(one));
}

/* A core that has no operation free takes the question in a later turn: one will come free. */
static wk_cold void take_question(struct app_core *core, uint32_t wanted)
{
	struct app_ask *a = core->cfg.ask;
	struct app_op *op;
	uint64_t count;

	if (core->life == APP_SERVING && core->op_free_count == 0)
		return;
	core->asked = wanted;
	(void)!read(a->ask_fd, &count, sizeof(count));
	if (core->life != APP_SERVING) {
		answer(core, -ESHUTDOWN);
		return;
	}
	op = app_op_take(core, APP_OP_SNAPSHOT, NULL);
	op->sums = (uint32_t *)(void *)&a->snapshot;
	op->meta.statfs = (struct meta_statfs *)(void *)op->small;
	app_op_run(op);
}

void app_ask_turn(struct app_core *core)
{
	uint32_t wanted;

	if (!core->cfg.ask || !core->meta)
		return;
	wanted = atomic_load_explicit(&core->cfg.ask->wanted, memory_order_acquire); /* A2 */
	if (unlikely(wanted != core->asked))
		take_question(core, wanted);
}

void app_ask_answer(struct app_op *op)
{
	op->sums = NULL; /* the asker's: release() returns the core's part */
	answer(op->core, op->status);
}
